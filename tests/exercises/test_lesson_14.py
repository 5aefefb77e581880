"""Lesson 14's checks: other right ways pass, and wrong ones that nobody foresaw are refused."""

import math

import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_14 import largest_and_total, merge, tiled_attention, tiled_bytes
from course_lib.exercises.registry import find
from course_lib.model import online_softmax, traffic
from course_lib.model.attention import attention, causal_mask
from course_lib.model.flash import causal_tiles, flash_attention
from course_lib.model.online_softmax import Partial, nothing_read, read_tile

# ---- right, in other words


def from_minus_infinity(chunks):
    largest = torch.tensor(-math.inf)
    total = torch.tensor(0.0)
    for chunk in chunks:
        m = torch.max(largest, chunk.max(dim=-1, keepdim=True).values)
        total = total * torch.exp(largest - m) + torch.exp(chunk - m).sum(-1, keepdim=True)
        largest = m
    return largest, total


def first_taken_by_next(chunks):
    first = next(chunks)
    largest = first.amax(dim=-1, keepdim=True)
    total = (first - largest).exp().sum(dim=-1, keepdim=True)
    for chunk in chunks:
        new = torch.cat([largest, chunk.amax(dim=-1, keepdim=True)], dim=-1).amax(-1, True)
        total = total / (new - largest).exp() + (chunk - new).exp().sum(dim=-1, keepdim=True)
        largest = new
    return largest, total


def with_previous_kept(chunks):
    """The chunk before is still at hand: two at once are not the row."""
    largest, total, previous = -math.inf, 0.0, None
    for chunk in chunks:
        new = chunk.amax(dim=-1, keepdim=True).clamp_min(largest) if previous is None else (
            torch.maximum(largest, chunk.amax(dim=-1, keepdim=True))
        )  # fmt: skip
        total = total * (largest - new).exp() + (chunk - new).exp().sum(dim=-1, keepdim=True)
        largest, previous = new, chunk
    return largest, total


def key_by_key(chunks):
    largest, total = None, None
    for chunk in chunks:
        for column in chunk.unbind(dim=-1):
            column = column[:, None]
            if largest is None:
                largest, total = column, torch.ones_like(column)
                continue
            new = torch.maximum(largest, column)
            total = total * (largest - new).exp() + (column - new).exp()
            largest = new
    return [largest, total]


def by_logarithms(chunks):
    largest, log_total = None, None
    for chunk in chunks:
        here = chunk.logsumexp(dim=-1, keepdim=True)
        m = chunk.amax(dim=-1, keepdim=True)
        log_total = here if log_total is None else torch.logaddexp(log_total, here)
        largest = m if largest is None else torch.maximum(largest, m)
    return largest, (log_total - largest).exp()


def by_merging(chunks):
    known = None
    for chunk in chunks:
        m = chunk.amax(dim=-1, keepdim=True)
        part = (m, (chunk - m).exp().sum(dim=-1, keepdim=True), torch.zeros_like(m))
        known = part if known is None else merge(known, part)
    return known[:2]


def row_by_row(chunks):
    rows = None
    for chunk in chunks:
        if rows is None:
            rows = [(-math.inf, 0.0)] * len(chunk)
        for i, scores in enumerate(chunk.tolist()):
            m, total = rows[i]
            new = max(m, *scores) if len(scores) > 1 else max(m, scores[0])
            total = total * math.exp(m - new) + sum(math.exp(s - new) for s in scores)
            rows[i] = (new, total)
    return torch.tensor([[m] for m, _ in rows]), torch.tensor([[t] for _, t in rows])


def merged_with_where(one, other):
    first = one[0] >= other[0]
    gap = -(one[0] - other[0]).abs()
    a = torch.where(first, 1.0, gap.exp())
    b = torch.where(first, gap.exp(), 1.0)
    largest = torch.where(first, one[0], other[0])
    return largest, a * one[1] + b * other[1], a * one[2] + b * other[2]


def merged_as_stacks(one, other):
    largest, total, mixed = (torch.stack(pair) for pair in zip(one, other, strict=True))
    new = largest.amax(dim=0)
    factor = (largest - new).exp()
    return [new, (factor * total).sum(dim=0), (factor * mixed).sum(dim=0)]


def merged_by_the_library(one, other):
    return online_softmax.merge(Partial(*one), Partial(*other))


def tiled_by_slices(query, key, value, query_tile, key_tile):
    n, output = query.shape[-2], torch.zeros(*query.shape[:-1], value.shape[-1])
    for top in range(0, n, query_tile):
        own = query[..., top : top + query_tile, :]
        known, last = nothing_read(own, value), min(top + query_tile, n) - 1
        for left in range(0, n, key_tile):
            if left > last:
                break
            k, v = key[..., left : left + key_tile, :], value[..., left : left + key_tile, :]
            i = torch.arange(own.shape[-2])[:, None] + top
            j = torch.arange(k.shape[-2])[None, :] + left
            known = online_softmax.merge(known, read_tile(own, k, v, i >= j))
        output[..., top : top + query_tile, :] = known.output()
    return output.type_as(query)


def tiled_with_split(query, key, value, query_tile, key_tile):
    outputs, top = [], 0
    for own in query.split(query_tile, dim=-2):
        rows = torch.arange(top, top + own.shape[-2]).unsqueeze(1)
        known, left = None, 0
        for k, v in zip(key.split(key_tile, dim=-2), value.split(key_tile, dim=-2), strict=True):
            columns = torch.arange(left, left + k.shape[-2])
            left += k.shape[-2]
            if columns[0] > rows[-1]:
                continue
            part = read_tile(own, k, v, columns <= rows)
            known = merge(known, part) if known else part
        outputs.append((known[2] / known[1]).to(query.dtype))
        top += own.shape[-2]
    return torch.cat(outputs, -2)


def tiled_up_to_the_last_query(query, key, value, query_tile, key_tile):
    """Cuts the tile on the diagonal short, too."""
    n, outputs = query.shape[-2], []
    for a in range(0, n, query_tile):
        b, known = min(a + query_tile, n), None
        for c in range(0, b, key_tile):
            d = min(c + key_tile, b)
            mask = torch.arange(a, b)[:, None] >= torch.arange(c, d)
            part = read_tile(query[..., a:b, :], key[..., c:d, :], value[..., c:d, :], mask)
            known = part if known is None else merge(known, part)
        outputs.append(known[2] / known[1])
    return torch.cat(outputs, dim=-2).to(query.dtype)


def tiled_with_own_sums(query, key, value, query_tile, key_tile):
    n, outputs = query.shape[-2], []
    for a in range(0, n, query_tile):
        rows = slice(a, min(a + query_tile, n))
        q = query[..., rows, :].float() / math.sqrt(query.shape[-1])
        largest = torch.full((*q.shape[:-1], 1), -math.inf)
        total, mixed = torch.zeros_like(largest), torch.zeros(*q.shape[:-1], value.shape[-1])
        for c in range(0, rows.stop, key_tile):
            k, v = (x[..., c : c + key_tile, :].float() for x in (key, value))
            scores = q @ k.mT
            hidden = torch.arange(c, c + k.shape[-2]) > torch.arange(a, rows.stop)[:, None]
            scores = scores.masked_fill(hidden, -math.inf)
            new = torch.maximum(largest, scores.amax(-1, keepdim=True))
            p = (scores - new).exp()
            total = total * (largest - new).exp() + p.sum(-1, keepdim=True)
            mixed = mixed * (largest - new).exp() + p @ v
            largest = new
        outputs.append(mixed / total)
    return torch.cat(outputs, dim=-2).to(query.dtype)


def tiled_by_the_library(query, key, value, query_tile, key_tile):
    places = torch.arange(query.shape[-2])
    mask = causal_tiles(places, places)
    return flash_attention(query, key, value, mask, query_tile=query_tile, key_tile=key_tile)


def bytes_by_a_loop(length, d_head, query_tile, number_bytes):
    moved = 0
    for start in range(0, length, query_tile):
        rows = min(query_tile, length - start)
        moved += 2 * rows * d_head + 2 * length * d_head
    return moved * number_bytes


def bytes_as_a_float(length, d_head, query_tile, number_bytes):
    return number_bytes * 2.0 * length * d_head * (1 + math.ceil(length / query_tile))


def bytes_of_the_library(length, d_head, query_tile, number_bytes):
    return traffic.tiled_bytes(
        length, d_head, query_tile, 7, causal=False, number_bytes=number_bytes
    )


RIGHT = {
    "14.online": (
        from_minus_infinity,
        first_taken_by_next,
        with_previous_kept,
        key_by_key,
        by_logarithms,
        by_merging,
        row_by_row,
    ),
    "14.merge": (merged_with_where, merged_as_stacks, merged_by_the_library),
    "14.tiled": (
        tiled_by_slices,
        tiled_with_split,
        tiled_up_to_the_last_query,
        tiled_with_own_sums,
        tiled_by_the_library,
    ),
    "14.bytes": (bytes_by_a_loop, bytes_as_a_float, bytes_of_the_library),
}


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [(name, answer) for name, answers in RIGHT.items() for answer in answers],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_other_right_ways_pass(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


# ---- wrong, in ways that no misconception describes


def softmax_of_each(chunks):
    parts = [chunk.softmax(dim=-1) for chunk in chunks]
    return parts[0], parts[-1]


def over_queries(chunks):
    largest, total = None, None
    for chunk in chunks:
        m = chunk.amax(dim=0, keepdim=True).amax()
        largest = m if largest is None else torch.maximum(largest, m)
        total = (chunk - largest).exp().sum(dim=-1, keepdim=True)
    return largest, total


def clamped(chunks):
    largest, total = largest_and_total(chunks)
    return largest.clamp(-10, 10), total


def one_chunk_too_few(chunks):
    next(chunks, None)
    return largest_and_total(chunks) if chunks else (None, None)


def remembered(chunks):
    """Keeps every chunk after its turn."""
    kept, largest = [], None
    for chunk in chunks:
        here = chunk.amax(dim=-1, keepdim=True)
        new = here if largest is None else torch.maximum(largest, here)
        kept, largest = [*kept, chunk], new
    return largest, sum((chunk - largest).exp().sum(dim=-1, keepdim=True) for chunk in kept)


def first_score_twice(chunks):
    """Begins with the first score and a sum of 1, and then reads the whole first chunk."""
    largest = None
    for chunk in chunks:
        if largest is None:
            largest, total = chunk[:, :1], torch.ones(len(chunk), 1)
        new = torch.maximum(largest, chunk.amax(dim=-1, keepdim=True))
        total = total * (largest - new).exp() + (chunk - new).exp().sum(dim=-1, keepdim=True)
        largest = new
    return largest, total


def averaged(chunks):
    largest, total, count = None, 0, 0
    for chunk in chunks:
        m = chunk.amax(dim=-1, keepdim=True)
        largest = m if largest is None else (largest + m) / 2
        total, count = total + (chunk - largest).exp().sum(dim=-1, keepdim=True), count + 1
    return largest, total / count


def weighted_by_totals(one, other):
    share = one[1] / (one[1] + other[1])
    return (
        torch.maximum(one[0], other[0]),
        one[1] + other[1],
        share * one[2] + (1 - share) * other[2],
    )


def product(one, other):
    return one[0] + other[0], one[1] * other[1], one[2] * other[2]


def only_output(one, other):
    _, total, mixed = merge(one, other)
    return mixed / total


def ratio_of_largest(one, other):
    largest = torch.maximum(one[0], other[0])
    a, b = one[0] / largest, other[0] / largest
    return largest, a * one[1] + b * other[1], a * one[2] + b * other[2]


def total_of_the_larger(one, other):
    largest, _, mixed = merge(one, other)
    return largest, torch.maximum(one[1], other[1]), mixed


def gate_by_gap(one, other):
    """Weighs the parts by a sigmoid of the two largest scores."""
    gate = torch.sigmoid(one[0] - other[0])
    mix = tuple(gate * a + (1 - gate) * b for a, b in zip(one[1:], other[1:], strict=True))
    return torch.maximum(one[0], other[0]), *mix


def doubled(one, other):
    largest, total, mixed = merge(one, other)
    return largest, 2 * total, 2 * mixed


def with_windows(query, key, value, query_tile, key_tile):
    """Reads only the tile of keys on the diagonal."""
    places = torch.arange(query.shape[-2])
    return attention(query, key, value, causal_mask(places, places, window=query_tile))[0]


def halved(query, key, value, query_tile, key_tile):
    return tiled_attention(query, key, value, query_tile, key_tile) / 2


def query_for_key(query, key, value, query_tile, key_tile):
    return tiled_attention(key, query, value, query_tile, key_tile)


def values_as_keys(query, key, value, query_tile, key_tile):
    return tiled_attention(query, key, key, query_tile, key_tile)


def only_square_tiles(query, key, value, query_tile, key_tile):
    """The mask of a diagonal tile, right only where tiles are square."""
    n, outputs = query.shape[-2], []
    for a in range(0, n, query_tile):
        rows, known = torch.arange(a, min(a + query_tile, n)), None
        for c in range(0, int(rows[-1]) + 1, key_tile):
            columns = torch.arange(c, min(c + key_tile, n))
            mask = columns <= rows[:, None] if a == c else None
            part = read_tile(
                query[..., rows, :], key[..., columns, :], value[..., columns, :], mask
            )
            known = part if known is None else merge(known, part)
        outputs.append(known[2] / known[1])
    return torch.cat(outputs, dim=-2).to(query.dtype)


def all_with_tiles_of_64(query, key, value, query_tile, key_tile):
    return tiled_attention(query, key, value, 64, 64)


def rounded_on_the_way(query, key, value, query_tile, key_tile):
    """Each part rounded to the query's dtype before it is merged."""
    n, outputs = query.shape[-2], []
    for a in range(0, n, query_tile):
        rows, known = torch.arange(a, min(a + query_tile, n)), None
        for c in range(0, int(rows[-1]) + 1, key_tile):
            columns = torch.arange(c, min(c + key_tile, n))
            part = read_tile(
                query[..., rows, :], key[..., columns, :], value[..., columns, :],
                columns <= rows[:, None],
            )  # fmt: skip
            part = tuple(x.to(query.dtype) for x in part)
            known = part if known is None else merge(known, part)
        outputs.append(known[2] / known[1])
    return torch.cat(outputs, dim=-2).to(query.dtype)


def with_the_key_tile_of_64(length, d_head, query_tile, number_bytes):
    return number_bytes * 2 * length * d_head * (1 + math.ceil(length / 64))


def squared(length, d_head, query_tile, number_bytes):
    return number_bytes * (2 * length * d_head + 2 * length**2 * d_head // query_tile)


def one_tile_more(length, d_head, query_tile, number_bytes):
    return number_bytes * length * d_head * (2 + 2 * (length // query_tile + 1))


def of_16_bits(length, d_head, query_tile, number_bytes):
    return 2 * length * d_head * (2 + 2 * math.ceil(length / query_tile))


def in_text(length, d_head, query_tile, number_bytes):
    return str(tiled_bytes(length, d_head, query_tile, number_bytes))


WRONG = {
    "14.online": (
        softmax_of_each,
        over_queries,
        clamped,
        one_chunk_too_few,
        remembered,
        first_score_twice,
        averaged,
    ),
    "14.merge": (
        weighted_by_totals,
        product,
        only_output,
        ratio_of_largest,
        doubled,
        total_of_the_larger,
        gate_by_gap,
    ),
    "14.tiled": (
        with_windows,
        halved,
        query_for_key,
        values_as_keys,
        only_square_tiles,
        all_with_tiles_of_64,
        rounded_on_the_way,
    ),
    "14.bytes": (with_the_key_tile_of_64, squared, one_tile_more, of_16_bits, in_text),
}


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [(name, answer) for name, answers in WRONG.items() for answer in answers],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_other_wrong_ways_are_refused(exercise, answer):
    assert examine(find(exercise), answer).status == "not yet"


# ---- references


def test_the_solutions_are_the_library_s():
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 11, 5, generator=generator) for _ in "qkv")
    parts = [read_tile(query, key[:, a:b], value[:, a:b]) for a, b in ((0, 4), (4, 11))]
    for ours, theirs in zip(merge(*parts), online_softmax.merge(*parts), strict=True):
        torch.testing.assert_close(ours, theirs)
    places = torch.arange(11)
    torch.testing.assert_close(
        tiled_attention(query, key, value, 3, 4),
        attention(query, key, value, causal_mask(places, places))[0],
    )
    assert tiled_bytes(101, 7, 13, 2) == traffic.tiled_bytes(101, 7, 13, 5, causal=False)
    scores = 5 * torch.randn(7, 13, generator=generator)
    largest, total = largest_and_total(iter(scores.split([2, 5, 6], dim=-1)))
    torch.testing.assert_close(largest + total.log(), scores.logsumexp(dim=-1, keepdim=True))


def test_the_bfloat16_case_lies_far_from_where_rounding_would_turn():
    """So that another order of adding up rounds to the same number."""
    (case,) = [case for case in find("14.tiled").fresh_cases() if case[0].dtype == torch.bfloat16]
    query, key, value = (x.double() for x in case[:3])
    places = torch.arange(query.shape[-2])
    exact = attention(query, key, value, causal_mask(places, places))[0]
    for nudge in (1 - 1e-5, 1 + 1e-5):
        assert torch.equal((exact * nudge).bfloat16(), exact.bfloat16())
