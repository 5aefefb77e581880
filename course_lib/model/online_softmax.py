"""Softmax in parts: a row's largest score, sum and mixed values, kept up while the keys arrive.

After some keys a query knows m, its largest score, ℓ = Σ exp(score − m), O = Σ exp(score − m)·v.
More keys may raise m to m'; ℓ and O are then multiplied by exp(m − m') and added to. At the end
O / ℓ is attention's output, exactly. Milakov & Gimelshein 2018 (arXiv 1805.02867); lesson 14.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Partial(NamedTuple):
    """What each query knows after a part of its keys: enough to go on, or to give its output."""

    largest: Tensor  # (..., query, 1): m, the largest score so far; −inf before the first
    total: Tensor  # (..., query, 1): ℓ = Σ exp(score − m)
    mixed: Tensor  # (..., query, d_value): O = Σ exp(score − m) · value

    def output(self) -> Tensor:
        """The mean of the values, (..., query, d_value); zeros where nothing was read."""
        return self.mixed / self.total.masked_fill(self.total == 0, 1.0)

    def logsumexp(self) -> Tensor:
        """m + ln ℓ, (..., query, 1): exp(score − this) is a weight. −inf where nothing was read."""
        return self.largest + self.total.log()


def nothing_read(query: Tensor, value: Tensor) -> Partial:
    """The part of no keys: merging with it changes nothing."""
    like = {"dtype": accumulator_dtype(query), "device": query.device}
    column = (*query.shape[:-1], 1)
    return Partial(
        torch.full(column, -math.inf, **like),
        torch.zeros(column, **like),
        torch.zeros(*query.shape[:-1], value.shape[-1], **like),
    )


def read_tile(
    query: Tensor,  # (..., query, d_head)
    key: Tensor,  # (..., key, d_head)
    value: Tensor,  # (..., key, d_value)
    may_attend: Tensor | None = None,  # (..., query, key), bool
) -> Partial:
    """What a tile of queries learns from a tile of keys alone. Of 16 bits, computed in float32."""
    scores = tile_scores(query, key, may_attend)
    largest = scores.amax(dim=-1, keepdim=True)
    exponentials = (scores - finite(largest)).exp()
    mixed = exponentials @ value.to(scores.dtype)
    return Partial(largest, exponentials.sum(dim=-1, keepdim=True), mixed)


def merge(one: Partial, other: Partial) -> Partial:
    """What is known after both parts. Neither order nor grouping matters (but to the last bits)."""
    largest = torch.maximum(one.largest, other.largest)
    rescaled = [(part.largest - finite(largest)).exp() for part in (one, other)]
    return Partial(
        largest,
        one.total * rescaled[0] + other.total * rescaled[1],
        one.mixed * rescaled[0] + other.mixed * rescaled[1],
    )


def tile_scores(query: Tensor, key: Tensor, may_attend: Tensor | None) -> Tensor:
    """Scaled scores of a tile, −inf where the query may not attend."""
    dtype = accumulator_dtype(query)
    scores = (query.to(dtype) / math.sqrt(query.shape[-1])) @ key.to(dtype).transpose(-2, -1)
    return scores if may_attend is None else scores.masked_fill(~may_attend, -math.inf)


def accumulator_dtype(tensor: Tensor) -> torch.dtype:
    """float32, or the tensor's own where that is finer."""
    return torch.promote_types(tensor.dtype, torch.float32)


def finite(largest: Tensor) -> Tensor:
    """−inf, of a query that has read nothing, becomes finite: −inf − (−inf) would be NaN."""
    return largest.clamp_min(torch.finfo(largest.dtype).min)
