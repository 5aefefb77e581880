"""Attention: every token gathers, from the tokens it may see, a weighted mean of their values.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V        Vaswani et al. 2017, arXiv 1706.03762

Lesson 02 builds the formula, 03 its scale, 04 its mask, 05 its heads, 15 the sharing of keys.
One mask convention everywhere: boolean, True = may attend, named may_attend.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.model.config import require_whole_heads
from course_lib.model.positions import AttentionPositions


def causal_mask(
    query_positions: Tensor,  # (query,)
    key_positions: Tensor,  # (key,)
    window: int | None = None,
) -> Tensor:  # (query, key), bool
    """Which keys a query may attend to: those at or before its own position.

    With a window, only the last `window` of them, itself included (Beltagy et al. 2020, arXiv
    2004.05150). Positions, not indices, so that it also serves queries that come in pieces.
    """
    distance = query_positions[..., :, None] - key_positions[..., None, :]
    may_attend = distance >= 0
    return may_attend if window is None else may_attend & (distance < window)


def attention_weights(
    query: Tensor,  # (..., query, d_head)
    key: Tensor,  # (..., key, d_head)
    may_attend: Tensor | None = None,  # (..., query, key), bool
    bias: Tensor | None = None,  # (..., query, key), added to the scaled scores
) -> Tensor:  # (..., query, key)
    """softmax(Q Kᵀ / √d_head): how much each query reads each key. Rows sum to 1.

    A row that may attend to nothing is all zeros.
    """
    # scaled before the product, so that float16 does not overflow on the way
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if may_attend is None:
        return scores.softmax(dim=-1)
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    nothing_to_read = ~may_attend.any(dim=-1, keepdim=True)
    return weights.masked_fill(nothing_to_read, 0.0)  # softmax gave NaN there


def attention(
    query: Tensor,  # (..., query, d_head)
    key: Tensor,  # (..., key, d_head)
    value: Tensor,  # (..., key, d_value)
    may_attend: Tensor | None = None,  # (..., query, key), bool
    bias: Tensor | None = None,  # (..., query, key)
) -> tuple[Tensor, Tensor]:  # (..., query, d_value), (..., query, key)
    """Scaled dot-product attention, and the weights it used."""
    weights = attention_weights(query, key, may_attend, bias)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of d_model, joined by a matrix.

    Query, key, value, output are Vaswani's W_Q, W_K, W_V (all heads side by side) and W_O. With
    n_kv_heads < n_heads, groups of neighbouring query heads share a key and value head (GQA,
    arXiv 2305.13245; one head for all: MQA, arXiv 1911.02150).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        positions: AttentionPositions | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        require_whole_heads(d_model, n_heads, self.n_kv_heads)
        self.d_head = d_model // n_heads
        self.dropout = dropout
        self.positions = AttentionPositions() if positions is None else positions
        self.query = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.key = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.value = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.output = nn.Linear(n_heads * self.d_head, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,  # (batch, position, d_model)
        positions: Tensor,  # (position,)
        may_attend: Tensor | None = None,  # (query, key), bool
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each token gathered, and the weights (batch, head, query, key) if asked for.

        Without return_weights PyTorch's fused kernel computes the same output, sooner, without
        ever holding the weights; the second value is then None. Dropout, in training, acts on
        the weights after they are returned.
        """
        query, key, value = self.project(x, positions)
        bias = self.positions.score_bias(positions, positions)
        mixed, weights = self.mix(query, key, value, may_attend, bias, return_weights)
        return self.output(mixed.transpose(1, 2).flatten(2)), weights

    def project(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (batch, position, d_model) → query, key, value, each (batch, head, position, d_head).

        Keys and values have n_kv_heads heads: this is what a cache of the past would keep.
        """
        query, key, value = (
            linear(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        return self.positions.rotate(query, positions), self.positions.rotate(key, positions), value

    def mix(
        self,
        query: Tensor,  # (batch, head, query, d_head)
        key: Tensor,  # (batch, kv_head, key, d_head)
        value: Tensor,  # (batch, kv_head, key, d_head)
        may_attend: Tensor | None,
        bias: Tensor | None,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of every head: (batch, head, query, d_head), and the weights if asked for."""
        group = self.n_heads // self.n_kv_heads
        if group > 1:  # query heads 0, 1, 2, 3 read key heads 0, 0, 1, 1
            key, value = (heads.repeat_interleave(group, dim=1) for heads in (key, value))
        dropout = self.dropout if self.training else 0.0
        if return_weights:
            weights = attention_weights(query, key, may_attend, bias)
            return F.dropout(weights, dropout) @ value, weights
        mask = may_attend
        if bias is not None:
            bias = bias.to(query.dtype)
            mask = bias if may_attend is None else bias.masked_fill(~may_attend, -math.inf)
        return F.scaled_dot_product_attention(query, key, value, mask, dropout), None
