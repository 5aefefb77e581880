"""Multi-head latent attention (MLA): the keys and values of all heads are made of one short vector.

    c = norm(x W_DKV),  K = c W_UK,  V = c W_UV        DeepSeek-AI 2024, arXiv 2405.04434

Section 2.1. A cache keeps the latent c alone. And it need not be expanded again to be read:
q · (c W_UK) is (q W_UKᵀ) · c, so that W_UK joins the query, and W_UV the output matrix. Lesson 15
builds it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from course_lib.model.attention import MultiHeadAttention
from course_lib.model.layers import RMSNorm
from course_lib.model.positions import AttentionPositions, Places, RotaryPositions, turn
from course_lib.runtime import CourseError


class LatentAttention(MultiHeadAttention):
    """Attention whose heads read keys and values from a latent (batch, position, d_latent).

    latent, key, value are the paper's W_DKV, W_UK and W_UV. To turn a key by its position (RoPE)
    would stand between W_UK and the query; so d_rotary further entries are turned instead: of each
    head's query (the last ones, W_QR), and of one key that all heads share (rotary_key, W_KR). 0:
    none, for positions that turn nothing. Scores are divided by √(d_head + d_rotary).

    The latent is normalised, as section 3.1.2 says. Queries are not compressed, which would save
    memory in training and none in the cache. W_UK and W_UV have no bias: one of W_UK would add the
    same to all scores of a query.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_latent: int,
        *,
        d_rotary: int = 0,
        positions: AttentionPositions | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        if bool(d_rotary) != isinstance(positions, RotaryPositions):
            raise CourseError(
                f"d_rotary={d_rotary} and positions={type(positions).__name__} do not go together; "
                "with RotaryPositions give an even d_rotary of at least 2, else 0"
            )
        super().__init__(d_model, n_heads, positions=positions, bias=bias, dropout=dropout)
        self.d_latent, self.turned_width = d_latent, d_rotary
        self.query = nn.Linear(d_model, n_heads * (self.d_head + d_rotary), bias=bias)
        self.latent = nn.Linear(d_model, d_latent, bias=bias)
        self.latent_norm = RMSNorm(d_latent)
        self.key = nn.Linear(d_latent, n_heads * self.d_head, bias=False)
        self.value = nn.Linear(d_latent, n_heads * self.d_head, bias=False)
        self.rotary_key = nn.Linear(d_model, d_rotary, bias=bias) if d_rotary else None

    def project(self, x: Tensor, places: Places) -> tuple[Tensor, Tensor, Tensor]:
        """x (batch, position, d_model) → query, key (batch, head, position, d_head + d_rotary) and
        value (batch, head, position, d_head), all expanded: the way to train it.
        """
        latent, turned_key = self.compress(x, places)
        query = self.turned_query(x, places)
        key, value = (
            linear(latent).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
            for linear in (self.key, self.value)
        )
        if turned_key is not None:
            shared = turned_key[:, None].expand(-1, self.n_heads, -1, -1)
            key = torch.cat([key, shared], dim=-1)
        return query, key, value

    def compress(self, x: Tensor, places: Places) -> tuple[Tensor, Tensor | None]:
        """All that a cache keeps of x (batch, position, d_model).

        The latent (batch, position, d_latent), and the turned key (batch, position, d_rotary) or
        None.
        """
        latent = self.latent_norm(self.latent(x))
        if self.rotary_key is None:
            return latent, None
        key = self.rotary_key(x)[:, None]  # as one head
        return latent, turn(key, *places.rotation)[:, 0]

    def turned_query(self, x: Tensor, places: Places) -> Tensor:
        """x (batch, position, d_model) → (batch, head, position, d_head + d_rotary)."""
        query = self.query(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        if self.rotary_key is None:
            return query
        content, turned = query.split([self.d_head, self.turned_width], dim=-1)
        return torch.cat([content, turn(turned, *places.rotation)], dim=-1)

    def by_head(self, matrix: nn.Linear) -> Tensor:
        """W_UK or W_UV, head by head: (head, d_latent, d_head)."""
        return matrix.weight.view(self.n_heads, self.d_head, self.d_latent).transpose(1, 2)

    def absorbed(
        self,
        x: Tensor,  # (batch, query, d_model)
        latent: Tensor,  # (batch, key, d_latent)
        turned_key: Tensor | None,  # (batch, key, d_rotary)
        places: Places,  # of the queries
        may_attend: Tensor | None = None,  # (query, key) or (batch, query, key), bool
        bias: Tensor | None = None,  # (head, query, key) or (batch, head, query, key)
    ) -> tuple[Tensor, Tensor]:
        """forward's output and weights, computed from what compress gives: no key is ever made.

        All heads read one text of d_latent + d_rotary numbers a token, as in multi-query attention,
        each by a query of its own; the values are the latents themselves.
        """
        content = self.turned_query(x, places)
        keys = latent
        if turned_key is not None:
            content, turned = content.split([self.d_head, self.turned_width], dim=-1)
            keys = torch.cat([latent, turned_key], dim=-1)
        query = content @ self.by_head(self.key).transpose(1, 2)  # (batch, head, query, d_latent)
        if turned_key is not None:
            query = torch.cat([query, turned], dim=-1)
        # attend divides by the root of the query's width, which is now another one
        query = query * math.sqrt(query.shape[-1] / (self.d_head + self.turned_width))
        if may_attend is not None and may_attend.ndim == 3:
            may_attend = may_attend[:, None]
        mixed, weights = self.mix(query, keys[:, None], latent[:, None], may_attend, bias)
        mixed = mixed @ self.by_head(self.value)  # (batch, head, query, d_head)
        return self.output(mixed.transpose(1, 2).flatten(2)), weights
