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
from course_lib.model.layers import RMSNorm
from course_lib.model.positions import AttentionPositions, Places, turn

KERNELS = ("fused", "explicit")


def causal_mask(
    query_positions: Tensor,  # (query,) or (batch, query)
    key_positions: Tensor,  # (key,) or (batch, key)
    window: int | None = None,
) -> Tensor:  # (query, key) or (batch, query, key), bool
    """Which keys a query may attend to: those at or before its own position.

    With a window, only the last `window` of them, itself included (Beltagy et al. 2020, arXiv
    2004.05150). Positions, not indices, so that it also serves queries that come in pieces.
    Position −1 is padding: no query may attend to it, and it to nothing.
    """
    distance = query_positions[..., :, None] - key_positions[..., None, :]
    may_attend = (distance >= 0) & (key_positions >= 0)[..., None, :]
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
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        require_whole_heads(d_model, n_heads, self.n_kv_heads)
        self.d_head = d_model // n_heads
        self.turned_width = self.d_head  # of a query or key, what rotary positions turn
        self.dropout = dropout
        self.positions = AttentionPositions() if positions is None else positions
        self.query = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.key = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.value = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=bias)
        self.output = nn.Linear(n_heads * self.d_head, d_model, bias=bias)
        self.query_norm = RMSNorm(self.d_head) if qk_norm else nn.Identity()
        self.key_norm = RMSNorm(self.d_head) if qk_norm else nn.Identity()
        self.kernel = "fused"

    def forward(
        self,
        x: Tensor,  # (batch, position, d_model)
        positions: Tensor | Places,  # (position,) or (batch, position)
        may_attend: Tensor | None = None,  # (query, key) or (batch, query, key), bool
        *,
        is_causal: bool = False,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each token gathered, and the weights (batch, head, query, key) if asked for.

        Without return_weights PyTorch's fused kernel computes the same output, sooner, without
        ever holding the weights; the second value is then None. (With self.kernel = "explicit" it
        is not used at all.) Dropout, in training, acts on the weights after they are returned.

        is_causal says that positions are 0, 1, 2 … and each may attend to those before it: in place
        of may_attend, since the fused kernel then skips the half that no one reads. Places are
        positions that the caller has prepared once for several layers.
        """
        if isinstance(positions, Tensor):
            positions = self.positions.places(positions, self.turned_width)
        explicit = return_weights or self.kernel == "explicit"
        if is_causal and (explicit or positions.bias is not None):
            is_causal, may_attend = False, causal_mask(positions.positions, positions.positions)
        query, key, value = self.project(x, positions)
        return self.attend(
            query, key, value, may_attend, positions.bias, is_causal, return_weights=return_weights
        )

    def project(self, x: Tensor, places: Places) -> tuple[Tensor, Tensor, Tensor]:
        """x (batch, position, d_model) → query, key, value, each (batch, head, position, d_head).

        Keys and values have n_kv_heads heads: this is what a cache of the past would keep.
        """
        query, key, value = (
            linear(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        query, key = self.query_norm(query), self.key_norm(key)
        if places.rotation is not None:
            query, key = turn(query, *places.rotation), turn(key, *places.rotation)
        return query, key, value

    def attend(
        self,
        query: Tensor,  # (batch, head, query, d_head)
        key: Tensor,  # (batch, kv_head, key, d_head)
        value: Tensor,  # (batch, kv_head, key, d_head)
        may_attend: Tensor | None = None,  # (query, key) or (batch, query, key), bool
        bias: Tensor | None = None,
        is_causal: bool = False,
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention of every head, by the kernel that is called for, and W_O: as in forward."""
        if may_attend is not None and may_attend.ndim == 3:
            may_attend = may_attend[:, None]  # the same for each head
        if return_weights or self.kernel == "explicit":
            mixed, weights = self.mix(query, key, value, may_attend, bias)
        else:
            mixed = self.mix_fused(query, key, value, may_attend, bias, is_causal)
            weights = None
        mixed = self.output(mixed.transpose(1, 2).flatten(2))
        return mixed, weights if return_weights else None

    def mix(
        self,
        query: Tensor,  # (batch, head, query, d_head)
        key: Tensor,  # (batch, kv_head, key, d_head)
        value: Tensor,  # (batch, kv_head, key, d_head)
        may_attend: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attention of every head, (batch, head, query, d_head), and the weights it used."""
        key, value = self.for_each_query_head(key), self.for_each_query_head(value)
        weights = attention_weights(query, key, may_attend, bias)
        return F.dropout(weights, self.dropout, self.training) @ value, weights

    def mix_fused(
        self,
        query: Tensor,  # (batch, head, query, d_head)
        key: Tensor,  # (batch, kv_head, key, d_head)
        value: Tensor,  # (batch, kv_head, key, d_head)
        may_attend: Tensor | None = None,
        bias: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The same output by PyTorch's fused kernel: (batch, head, query, d_head)."""
        key, value = self.for_each_query_head(key), self.for_each_query_head(value)
        mask = may_attend
        if bias is not None:
            bias = bias.to(query.dtype)
            mask = bias if may_attend is None else bias.masked_fill(~may_attend, -math.inf)
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal)

    def for_each_query_head(self, heads: Tensor) -> Tensor:
        """Keys or values (batch, kv_head, ...) → (batch, head, ...): 0, 0, 1, 1 for 4 over 2."""
        group = self.n_heads // self.n_kv_heads
        return heads if group == 1 else heads.repeat_interleave(group, dim=1)
