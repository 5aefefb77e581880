"""Bytes by formula against a run in which every read and write of the large memory is counted."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from course_lib.model.attention import attention
from course_lib.model.flash import causal_tiles, flash_attention
from course_lib.model.traffic import LargestTensor, plain_bytes, sram_bytes, tiled_bytes

moved = 0


class InHBM(Tensor):
    """A tensor in the large memory: what is read of it or written to it by index is counted."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        global moved
        result = super().__torch_function__(func, types, args, kwargs or {})
        if func is Tensor.__getitem__:
            moved += result.numel() * result.element_size()
            return result.as_subclass(Tensor)  # a tile in SRAM
        if func is Tensor.__setitem__:
            moved += args[2].numel() * args[0].element_size()
        return result


def stored(tensor):
    """A new tensor in HBM, written."""
    global moved
    moved += tensor.numel() * tensor.element_size()
    return tensor.as_subclass(InHBM)


def parts_in_hbm(n, d, dtype):
    global moved
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(n, d, generator=generator).to(dtype).as_subclass(InHBM) for _ in range(3)]
    moved = 0
    return parts


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 23),
    st.integers(1, 7),
    st.integers(1, 29),
    st.integers(1, 29),
    st.booleans(),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_tiled(n, d, query_tile, key_tile, causal, dtype):
    query, key, value = parts_in_hbm(n, d, dtype)
    positions = torch.arange(n)
    mask = causal_tiles(positions, positions) if causal else None
    output = flash_attention(query, key, value, mask, query_tile=query_tile, key_tile=key_tile)
    assert type(output) is InHBM
    assert moved == tiled_bytes(
        n, d, query_tile, key_tile, causal=causal, number_bytes=dtype.itemsize
    )


@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 3), (13, 5)])
def test_plain(n, d):
    query, key, value = parts_in_hbm(n, d, torch.float32)
    scores = stored(query[:] @ key[:].T / math.sqrt(d))
    weights = stored(scores[:].softmax(dim=-1))
    output = stored(weights[:] @ value[:])
    expected = attention(*(x.as_subclass(Tensor) for x in (query, key, value)))[0]
    torch.testing.assert_close(output.as_subclass(Tensor), expected)
    assert moved == plain_bytes(n, d, number_bytes=4)


def test_the_growth_that_theorem_2_states():
    """Plain: n², whatever the SRAM. Tiled: n²d²/M when the tile of queries fills M."""
    assert plain_bytes(8192, 64) / plain_bytes(4096, 64) == pytest.approx(4, rel=0.05)

    def with_sram(n, d, numbers):
        tile = numbers // (4 * d)
        return tiled_bytes(n, d, tile, tile, causal=False)

    base = with_sram(65536, 64, 65536)
    assert with_sram(131072, 64, 65536) / base == pytest.approx(4, rel=0.05)
    assert with_sram(65536, 128, 65536) / base == pytest.approx(4, rel=0.05)
    assert with_sram(65536, 64, 131072) / base == pytest.approx(1 / 2, rel=0.05)


def test_what_lies_in_sram():
    """Tiles of 2 queries and 3 keys of 5 numbers: 10 + 15 + 15 read; 6 scores, 10 mixed, 2 + 2."""
    assert sram_bytes(2, 3, 5, number_bytes=2) == 2 * 40 + 4 * 20


def test_the_largest_tensor_of_all_that_are_made():
    with LargestTensor() as seen:
        assert seen.bytes == 0
        small = torch.zeros(3, dtype=torch.float64)
        assert seen.bytes == 24
        torch.outer(small, small).sum()
        assert seen.bytes == 72
    torch.zeros(100)
    assert seen.bytes == 72
