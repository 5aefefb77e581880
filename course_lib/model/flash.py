"""Attention tile by tile: what `attention` gives, without ever holding its (query, key) matrix.

For each tile of queries the tiles of keys and values are read one after the other, and what is
known so far (online_softmax) is merged with what each adds: FlashAttention (Dao et al. 2022, arXiv
2205.14135), with the loops of FlashAttention-2 (Dao 2023, arXiv 2307.08691). Lesson 14 builds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from course_lib.model.attention import causal_mask
from course_lib.model.online_softmax import (
    accumulator_dtype,
    finite,
    merge,
    nothing_read,
    read_tile,
    tile_scores,
)
from course_lib.runtime import CourseError

# which keys of a tile the queries of a tile may attend to; None where they may attend to all
TileMask = Callable[[slice, slice], Tensor | None]


def flash_attention(
    query: Tensor,  # (..., query, d_head)
    key: Tensor,  # (..., key, d_head)
    value: Tensor,  # (..., key, d_value)
    may_attend: Tensor | TileMask | None = None,  # (..., query, key), bool, or made by the tile
    *,
    query_tile: int = 64,
    key_tile: int = 64,
) -> Tensor:  # (..., query, d_value)
    """Scaled dot-product attention, exact, in memory that grows with query + key.

    Tiles of 16 bits are computed in float32 and rounded at the end. A tile of keys that no query
    of a tile may attend to is not read; `causal_tiles` makes the causal mask tile by tile. The way
    back computes each tile's weights again. CourseError for shapes or tiles that cannot be.
    """
    _require_fitting(query, key, value)
    for name, size in (("query_tile", query_tile), ("key_tile", key_tile)):
        if size < 1:
            raise CourseError(f"{name}={size} is no size of a tile; use 1 or more")
    mask_of = may_attend if callable(may_attend) else _given_tiles(may_attend)
    return _Flash.apply(query, key, value, mask_of, query_tile, key_tile)


def causal_tiles(
    query_positions: Tensor,  # (query,), (batch, query), or with heads (batch, 1, query)
    key_positions: Tensor,  # (key,), (batch, key) or (batch, 1, key)
    window: int | None = None,
) -> TileMask:
    """causal_mask of the same positions, made for one tile at a time."""

    def mask_of(rows: slice, columns: slice) -> Tensor:
        return causal_mask(query_positions[..., rows], key_positions[..., columns], window)

    return mask_of


def tiles(length: int, size: int) -> list[slice]:
    """0 … length cut into slices of this size; the last may be shorter."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def visited_tiles(
    rows: slice, n_keys: int, mask_of: TileMask, key_tile: int
) -> Iterator[tuple[slice, Tensor | None]]:
    """The tiles of keys of which some query of a tile may attend to some key, with their mask."""
    for columns in tiles(n_keys, key_tile):
        may_attend = mask_of(rows, columns)
        if may_attend is None or may_attend.any():
            yield columns, may_attend


class _Flash(torch.autograd.Function):
    """Keeps query, key, value, output and a number a query; the way back makes the weights anew.

    With weights P, output O and the gradient dO that comes back (Dao et al. 2022, appendix B.2):
    dV = Pᵀ dO,  dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O)),  dQ = dS K / √d,  dK = dSᵀ Q / √d.
    """

    @staticmethod
    def forward(ctx, query, key, value, mask_of, query_tile, key_tile):
        output = query.new_empty(*query.shape[:-1], value.shape[-1])
        logsumexp = nothing_read(query, value).largest
        for rows in tiles(query.shape[-2], query_tile):
            own = query[..., rows, :]
            known = nothing_read(own, value)
            for columns, may_attend in visited_tiles(rows, key.shape[-2], mask_of, key_tile):
                tile = read_tile(own, key[..., columns, :], value[..., columns, :], may_attend)
                known = merge(known, tile)
            output[..., rows, :] = known.output()
            logsumexp[..., rows, :] = known.logsumexp()
        ctx.save_for_backward(query, key, value, output, logsumexp)
        ctx.layout = (mask_of, query_tile, key_tile)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, d_output):
        query, key, value, output, logsumexp = ctx.saved_tensors
        mask_of, query_tile, key_tile = ctx.layout
        dtype, scale = accumulator_dtype(query), 1 / math.sqrt(query.shape[-1])
        d_query, d_key, d_value = (torch.zeros_like(x, dtype=dtype) for x in (query, key, value))
        for rows in tiles(query.shape[-2], query_tile):
            own, d_own = query[..., rows, :], d_output[..., rows, :].to(dtype)
            shared = (d_own * output[..., rows, :].to(dtype)).sum(dim=-1, keepdim=True)
            for columns, may_attend in visited_tiles(rows, key.shape[-2], mask_of, key_tile):
                k, v = (x[..., columns, :].to(dtype) for x in (key, value))
                scores = tile_scores(own, k, may_attend)
                weights = (scores - finite(logsumexp[..., rows, :])).exp()
                d_scores = weights * (d_own @ v.transpose(-2, -1) - shared) * scale
                d_value[..., columns, :] += weights.transpose(-2, -1) @ d_own
                d_key[..., columns, :] += d_scores.transpose(-2, -1) @ own.to(dtype)
                d_query[..., rows, :] += d_scores @ k
        gradients = zip((d_query, d_key, d_value), (query, key, value), strict=True)
        return *(gradient.to(x.dtype) for gradient, x in gradients), None, None, None


def _given_tiles(may_attend: Tensor | None) -> TileMask:
    """Tiles cut from a whole mask; an axis of size 1 serves all queries, or all keys."""
    if may_attend is None:
        return lambda rows, columns: None
    if may_attend.dtype != torch.bool:
        raise CourseError(
            f"may_attend has dtype {may_attend.dtype}; give bool, True where the query may attend"
        )

    def mask_of(rows: slice, columns: slice) -> Tensor:
        every = slice(None)
        n_rows, n_columns = may_attend.shape[-2:]
        return may_attend[..., every if n_rows == 1 else rows, every if n_columns == 1 else columns]

    return mask_of


def _require_fitting(query: Tensor, key: Tensor, value: Tensor) -> None:
    axes = {tuple(x.shape[:-2]) for x in (query, key, value)}
    if len(axes) > 1 or query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise CourseError(
            f"query, key and value have shapes {shapes}; give (..., query, d_head), "
            "(..., key, d_head), (..., key, d_value) with the same axes in front"
        )
