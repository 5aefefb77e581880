"""Attention by tiles against attention itself: any sizes, tiles and masks, and the way back."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model.attention import attention, causal_mask
from course_lib.model.flash import causal_tiles, flash_attention, tiles
from course_lib.model.traffic import LargestTensor
from course_lib.runtime import CourseError

sizes = st.integers(1, 13)
tile_sizes = st.integers(1, 17)


def random_parts(n_queries, n_keys, d_head=3, d_value=7, front=(2,), seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((n_queries, d_head), (n_keys, d_head), (n_keys, d_value))
    drawn = [torch.randn(*front, *s, generator=generator, dtype=torch.float64) for s in shapes]
    return [x.to(dtype).requires_grad_() for x in drawn]


def assert_same(parts, may_attend, tiled_mask, **tile_sizes):
    """Output and gradients of both ways."""
    plain = attention(*parts, may_attend)[0]
    tiled = flash_attention(*parts, tiled_mask, **tile_sizes)
    torch.testing.assert_close(tiled, plain)
    back = torch.randn_like(plain)
    expected = torch.autograd.grad(plain, parts, back)
    got = torch.autograd.grad(tiled, parts, back)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


# ---- laws


@settings(deadline=None, max_examples=60)
@given(
    sizes, sizes, st.integers(1, 5), tile_sizes, tile_sizes, st.sampled_from([None, 0.0, 0.3, 0.9])
)
def test_any_sizes_tiles_and_masks_give_attention(
    n_queries, n_keys, d, query_tile, key_tile, share
):
    parts = random_parts(n_queries, n_keys, d)
    generator = torch.Generator().manual_seed(n_keys)
    mask = None if share is None else torch.rand(2, n_queries, n_keys, generator=generator) < share
    assert_same(parts, mask, mask, query_tile=query_tile, key_tile=key_tile)


@settings(deadline=None, max_examples=40)
@given(sizes, sizes, tile_sizes, tile_sizes, st.integers(0, 9), st.none() | st.integers(1, 5))
def test_a_causal_mask_by_positions(n_queries, n_keys, query_tile, key_tile, start, window):
    """Queries that come later than the first key, some padding among them, and a window."""
    query_positions = torch.arange(n_queries) + start
    key_positions = torch.arange(n_keys)
    query_positions[::5] = -1
    key_positions[1::4] = -1
    mask = causal_mask(query_positions, key_positions, window)
    by_tiles = causal_tiles(query_positions, key_positions, window)
    parts = random_parts(n_queries, n_keys)
    assert_same(parts, mask, by_tiles, query_tile=query_tile, key_tile=key_tile)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("query_tile", "key_tile"), [(1, 1), (16, 64), (7, 5), (100, 200)])
def test_sixteen_bits_are_rounded_once_at_the_end(dtype, query_tile, key_tile):
    parts = [x.detach() for x in random_parts(67, 97, 16, front=(2, 3), dtype=dtype)]
    output = flash_attention(*parts, query_tile=query_tile, key_tile=key_tile)
    assert output.dtype == dtype
    exact = attention(*(x.double() for x in parts))[0]
    step = torch.finfo(dtype).eps  # half of it a rounding; float32 also rounds on the way
    assert ((output - exact).abs() <= step * exact.abs() + 1e-6).all()
    if dtype != torch.float32:
        plain = attention(*parts)[0]
        assert (output - exact).abs().mean() < (plain - exact).abs().mean()


def test_many_equal_weights_in_bfloat16():
    """A sum kept in bfloat16 would stop at 256, and not hear the keys after that."""
    key = torch.zeros(1000, 3, dtype=torch.bfloat16)
    value = (torch.arange(1000) < 500).to(torch.bfloat16)[:, None]
    output = flash_attention(key[:1], key, value, key_tile=1)
    assert output.item() == 0.5


def test_large_float16_numbers_under_a_causal_mask_with_padding():
    query = torch.full((2, 9, 64), 60.0, dtype=torch.float16)
    value = torch.randn(2, 9, 5, generator=torch.Generator().manual_seed(0)).half()
    positions = torch.arange(9).repeat(2, 1)
    positions[1, :3] = -1
    output = flash_attention(
        query, query, value, causal_tiles(positions, positions), query_tile=4, key_tile=2
    )
    wide = (x.float() for x in (query, query, value))
    expected = attention(*wide, causal_mask(positions, positions))[0]
    assert output.isfinite().all()
    torch.testing.assert_close(output.float(), expected, atol=1e-2, rtol=1e-2)
    assert (output[1, :3] == 0).all()


def test_one_mask_may_serve_all_queries_or_all_keys():
    parts = random_parts(5, 7, front=(2, 3))
    padding = torch.tensor([True, True, False, True, True, False, False]).expand(2, 1, 1, 7)
    assert_same(parts, padding, padding, query_tile=2, key_tile=3)
    silent = torch.tensor([True, False, True, True, False])[:, None]
    assert_same(parts, silent.expand(5, 7), silent, query_tile=2, key_tile=3)


def test_no_keys_give_zeros():
    query, key, value = random_parts(3, 0)
    assert torch.equal(flash_attention(query, key, value), torch.zeros(2, 3, 7).double())


# ---- what is not held, and not read


def test_nothing_of_the_size_of_the_matrix_is_made_also_on_the_way_back():
    n, d_head = 512, 16
    parts = random_parts(n, n, d_head, d_head, front=(), dtype=torch.float32)
    positions = torch.arange(n)
    with LargestTensor() as seen:
        mask = causal_tiles(positions, positions)
        flash_attention(*parts, mask, query_tile=32, key_tile=32).sum().backward()
    assert seen.bytes == n * d_head * 4
    with LargestTensor() as seen:
        attention(*parts)[0].sum().backward()
    assert seen.bytes == n * n * 4


def test_tiles_in_the_future_or_behind_the_window_are_not_read():
    query, key, value = (x.detach() for x in random_parts(12, 12))
    positions = torch.arange(12)
    spoilt = value.clone()
    spoilt[:, 9:] = math.nan  # the last tile of keys: none of the first nine queries reads it
    out = flash_attention(
        query, key, spoilt, causal_tiles(positions, positions), query_tile=3, key_tile=3
    )
    assert out[:, :9].isfinite().all() and out[:, 9:].isnan().all()
    spoilt[:, 9:], spoilt[:, :3] = 0.0, math.nan
    windowed = causal_tiles(positions, positions, 3)
    out = flash_attention(query, key, spoilt, windowed, query_tile=3, key_tile=3)
    assert out[:, 6:].isfinite().all() and out[:, :6].isnan().all()


def test_tiles_cover_each_place_once():
    assert [(t.start, t.stop) for t in tiles(7, 3)] == [(0, 3), (3, 6), (6, 7)]
    assert tiles(0, 3) == []


def test_gradients_against_finite_differences():
    parts = random_parts(5, 4, 2, 3, front=())
    positions = torch.arange(5)
    mask = causal_tiles(positions, positions[1:])  # the first query reads nothing
    torch.autograd.gradcheck(
        lambda *parts: flash_attention(*parts, mask, query_tile=2, key_tile=3), parts
    )


# ---- refusals


@pytest.mark.parametrize(("query_tile", "key_tile"), [(0, 2), (2, -1)])
def test_a_tile_of_nothing_is_refused(query_tile, key_tile):
    with pytest.raises(CourseError, match="is no size of a tile; use 1 or more"):
        flash_attention(*random_parts(3, 3), query_tile=query_tile, key_tile=key_tile)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 3, 5), (2, 4, 6), (2, 4, 7)),
        ((2, 3, 5), (2, 4, 5), (2, 3, 7)),
        ((2, 3, 5), (1, 4, 5), (2, 4, 7)),
    ],
)
def test_parts_that_do_not_fit_are_refused(shapes):
    with pytest.raises(CourseError, match=r"have shapes .* give \(\.\.\., query, d_head\)"):
        flash_attention(*map(torch.zeros, shapes))


def test_a_mask_that_is_not_boolean_is_refused():
    with pytest.raises(CourseError, match=r"dtype torch\.float32; give bool"):
        flash_attention(*random_parts(3, 3), torch.ones(3, 3))
