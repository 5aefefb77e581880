"""Softmax in parts against the softmax of the whole, in any order, and with parts of nothing."""

import itertools
import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model.attention import attention
from course_lib.model.online_softmax import merge, nothing_read, read_tile

QUERIES, KEYS, D_HEAD, D_VALUE = 5, 11, 3, 7


def parts_of(seed: int, size: float = 1.0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, QUERIES, D_HEAD), (2, KEYS, D_HEAD), (2, KEYS, D_VALUE))
    query, key, value = (torch.randn(shape, generator=generator).double() for shape in shapes)
    may_attend = torch.rand(2, QUERIES, KEYS, generator=generator) < 0.5
    may_attend[0, 1] = False  # a query that reads nothing
    return query * size, key, value, may_attend


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b)


def test_on_paper():
    """Numbers 4, 2 | 2, 8 for values 8, 4 | 4, 2: the example of lesson 14."""
    query, value = torch.ones(1, 1), torch.tensor([[8.0], [4.0], [4.0], [2.0]])
    key = torch.tensor([[4.0], [2.0], [2.0], [8.0]]).log()
    first = read_tile(query, key[:2], value[:2])
    assert_same(first, [torch.tensor([[x]]) for x in (math.log(4), 1.5, 10.0)])
    both = merge(first, read_tile(query, key[2:], value[2:]))
    assert_same(both, [torch.tensor([[x]]) for x in (math.log(8), 2.0, 8.0)])
    torch.testing.assert_close(both.output(), torch.tensor([[4.0]]))
    torch.testing.assert_close(both.logsumexp(), torch.tensor([[math.log(16)]]))


@settings(deadline=None, max_examples=50)
@given(
    seed=st.integers(0, 99),
    cuts=st.lists(st.integers(1, KEYS - 1), unique=True, max_size=6),
    order=st.randoms(use_true_random=False),
    size=st.sampled_from([0.0, 1.0, 1000.0]),
)
def test_parts_merged_in_any_order_are_attention(seed, cuts, order, size):
    query, key, value, may_attend = parts_of(seed, size)
    bounds = [0, *sorted(cuts), KEYS]
    parts = [
        read_tile(query, key[:, a:b], value[:, a:b], may_attend[..., a:b])
        for a, b in itertools.pairwise(bounds)
    ]
    while len(parts) > 1:  # any two become one: a tree of merges, drawn at random
        one = parts.pop(order.randrange(len(parts)))
        other = parts.pop(order.randrange(len(parts)))
        parts.append(merge(one, other))
    output, weights = attention(query, key, value, may_attend)
    torch.testing.assert_close(parts[0].output(), output)
    scores = (query @ key.transpose(-2, -1) / math.sqrt(D_HEAD)).masked_fill(~may_attend, -math.inf)
    from_parts = (scores - parts[0].logsumexp()).exp().masked_fill(~may_attend, 0)
    torch.testing.assert_close(from_parts, weights)


def test_a_part_of_nothing_changes_nothing_and_gives_zeros():
    query, key, value, _ = parts_of(0)
    nothing = nothing_read(query, value)
    some = read_tile(query, key, value)
    assert_same(merge(nothing, some), some)
    assert_same(merge(some, nothing), some)
    assert_same(merge(nothing, nothing), nothing)
    hidden = torch.zeros(QUERIES, KEYS, dtype=torch.bool)
    assert_same(read_tile(query, key, value, hidden), nothing)
    assert torch.equal(nothing.output(), torch.zeros(2, QUERIES, D_VALUE).double())
    assert (nothing.logsumexp() == -math.inf).all()


def test_scores_of_any_size_do_not_overflow():
    query, key, value, _ = parts_of(1)
    ones = torch.ones_like(query[..., :1])
    for shift in (-5000.0, 5000.0):
        moved = torch.cat([key, torch.full_like(key[..., :1], shift)], dim=-1)
        wide = torch.cat([query, ones], dim=-1)
        part = merge(
            read_tile(wide, moved[:, :4], value[:, :4]), read_tile(wide, moved[:, 4:], value[:, 4:])
        )
        assert all(x.isfinite().all() for x in part)
        torch.testing.assert_close(part.output(), attention(wide, moved, value)[0])


def test_what_is_kept_is_float32_at_least():
    for dtype, kept in (
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        query, key, value = (x.to(dtype) for x in parts_of(0)[:3])
        assert {x.dtype for x in read_tile(query, key, value)} == {kept}
        assert {x.dtype for x in nothing_read(query, value)} == {kept}
