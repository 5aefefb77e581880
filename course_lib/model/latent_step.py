"""The cached step of latent attention (latent_attention.py), and the rings that caches lie in.

With W_UK multiplied into the queries' matrix and W_UV into the output's, latent attention is
attention with one wide key head, and the latents are its values: step.py then does the rest.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_lib.model.config import GPTConfig
from course_lib.model.copies import Step, linear_step, norm_step
from course_lib.model.latent_attention import LatentAttention
from course_lib.model.step import AttentionStep, side_by_side, turn_pairs


class LatentStep(AttentionStep):
    """Latent attention of new tokens over a ring of latents, each with its turned key below it.

    keys: (batch, 1, d_latent + d_rotary, slot), values: (batch, 1, slot, d_latent), a part of the
    same memory. No key or value of a head is ever expanded.
    """

    def __init__(
        self, attention: LatentAttention, keys: Tensor, values: Tensor, paired: bool
    ) -> None:
        self.n_heads, self.n_kv_heads = attention.n_heads, 1
        self.d_latent = attention.d_latent
        self.d_head = attention.d_latent + attention.turned_width
        self._hold(keys, values)
        self.joined = self._absorbing_projection(attention, paired)
        self.latent_norm = norm_step(attention.latent_norm)
        up = attention.by_head(attention.value)  # (head, d_latent, d_head)
        out = attention.output.weight.t().unflatten(0, (self.n_heads, -1))  # (head, d_head, …)
        self.output = linear_step((up @ out).flatten(0, 1), attention.output.bias)

    def _absorbing_projection(self, attention: LatentAttention, paired: bool) -> Step:
        """x (token, d_model) → each head's query and then the one key, not yet turned or normed."""
        up = attention.by_head(attention.key).transpose(1, 2)  # (head, d_head, d_latent)
        scale = 1 / math.sqrt(attention.d_head + attention.turned_width)
        widths = [attention.d_head, attention.turned_width]

        def arranged(query: Tensor, latent: Tensor, turned_key: Tensor) -> Tensor:
            """Rows of three matrices → rows of one: (row, (head + 1) · (d_latent + d_rotary))."""
            content, turned = query.unflatten(-1, (self.n_heads, -1)).split(widths, dim=-1)
            content = (content.transpose(0, 1) @ up).transpose(0, 1)  # (row, head, d_latent)
            if paired:
                turned, turned_key = side_by_side(turned), side_by_side(turned_key)
            queries = torch.cat([content, turned], dim=-1) * scale
            return torch.cat([queries.flatten(1), latent, turned_key], dim=-1)

        parts = [attention.query, attention.latent, attention.rotary_key]
        none = attention.latent.weight.new_empty(0, attention.latent.in_features)
        matrix = arranged(*(none.t() if part is None else part.weight.t() for part in parts))
        if attention.query.bias is None:
            return linear_step(matrix, None)
        bias = arranged(*(none[:, :1].t() if part is None else part.bias[None] for part in parts))
        return linear_step(matrix, bias[0])

    def project(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and the key, (token, head or 1, d_latent + d_rotary), and the latent."""
        heads = self.joined(x).view(len(x), -1, self.d_head)
        content, turned = heads.tensor_split([self.d_latent], dim=-1)
        query, latent = content.split_with_sizes((self.n_heads, 1), dim=1)
        latent = self.latent_norm(latent)
        heads = torch.cat([query, latent], dim=1)
        if rotation is not None:
            heads = torch.cat([heads, turn_pairs(turned.contiguous(), rotation)], dim=-1)
        query, key = heads.split_with_sizes((self.n_heads, 1), dim=1)
        return query, key, latent


def empty_rings(
    config: GPTConfig, batch_size: int, slots: int, **layout: torch.dtype | torch.device
) -> tuple[Tensor, Tensor]:
    """Room for the past: keys (layer, batch, kv_head, d_head, slot), values (…, slot, d_head).

    Each as the product with one query reads it. With a latent, one wide key for all heads, and
    values that are a part of it.
    """
    if config.d_latent is not None:
        width = config.cached_numbers
        keys = torch.zeros(config.n_layers, batch_size, 1, width, slots, **layout)
        return keys, keys[..., : config.d_latent, :].transpose(-2, -1)
    shape = (config.n_layers, batch_size, config.kv_heads)
    keys = torch.zeros(*shape, config.d_head, slots, **layout)
    return keys, torch.zeros(*shape, slots, config.d_head, **layout)
