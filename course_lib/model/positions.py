"""Word order. Attention alone sees a set of tokens; these tell it where each one stands.

Two places can hold the order: the embeddings (a vector for each position is added: sinusoidal,
learned) or the scores (queries and keys are turned by their position: rotary; far keys are
penalised: ALiBi). Lessons 06 and 07 build and compare them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from course_lib.model.config import GPTConfig
from course_lib.runtime import CourseError


class SinusoidalPositions(nn.Module):
    """Fixed vectors of sines and cosines (Vaswani et al. 2017, section 3.5; lesson 06).

    Dimensions 2i and 2i+1 hold sin and cos of position / 10000^(2i/d_model).
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, positions: Tensor) -> Tensor:
        """Positions (position,) → vectors (position, d_model), float32."""
        angles = rotary_angles(positions, self.d_model, base=10_000.0)  # (position, d_model/2)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One trained vector for each position (BERT, GPT-2; lesson 06), none past the last."""

    def __init__(self, context_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(context_length, d_model)

    def forward(self, positions: Tensor) -> Tensor:
        """Positions (position,) → vectors (position, d_model)."""
        limit = self.embedding.num_embeddings
        if positions.numel() > limit:
            raise CourseError(
                f"{positions.numel()} tokens do not fit into context_length={limit}: learned "
                f"positions end there; give the last {limit} tokens"
            )
        return self.embedding(positions)


class AttentionPositions(nn.Module):
    """Positions that act inside attention. This one does nothing: the base of the others."""

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (batch, head, position, d_head) with their positions worked in."""
        return heads

    def score_bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """What is added to the scaled scores, (head, query, key), or None."""
        return None


def rotary_angles(positions: Tensor, width: int, base: float) -> Tensor:
    """position / base^(2i/width) for i = 0 … width/2 − 1: (position, width/2), radians.

    Always float32: in bfloat16 position 257 would already be rounded to 256.
    """
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    return positions.float()[..., :, None] * base**-exponents


class RotaryPositions(AttentionPositions):
    """Turn each pair of dimensions by an angle that grows with the position (RoPE; lesson 07).

    Su et al. 2021, arXiv 2104.09864: after it, a query at m and a key at n meet in a product
    that depends on m − n alone. A pair is dimension i with i + d_head/2, as in GPT-NeoX and in
    Hugging Face's LLaMA; the paper, and Meta's own LLaMA, pair 2i with 2i+1. That is the same up
    to a reordering of dimensions, but weights trained with one layout are wrong in the other.
    """

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """(batch, head, position, d_head) turned, in the same shape and dtype."""
        angles = rotary_angles(positions, heads.shape[-1], self.base)
        cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class ALiBi(AttentionPositions):
    """Subtract slope · distance from the scores, each head with its own slope (lesson 06).

    Press et al. 2022, arXiv 2108.12409.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def score_bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(head, query, key): 0 for the query itself, falling with the distance."""
        slopes = alibi_slopes(self.n_heads).to(query_positions.device)
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        return -slopes[:, None, None] * distance


def alibi_slopes(n_heads: int) -> Tensor:
    """ALiBi's slopes, (head,): 2^(−8/n), 2^(−16/n), … for n heads, a power of two.

    For other counts, those of the power of two below, then every second one of the power above.
    """
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power + 1, 2)]
    return torch.tensor(slopes + between[: n_heads - power])


def embedding_positions(config: GPTConfig) -> nn.Module | None:
    """What the configuration adds to the embeddings, or None."""
    if config.positions == "learned":
        return LearnedPositions(config.context_length, config.d_model)
    return SinusoidalPositions(config.d_model) if config.positions == "sinusoidal" else None


def attention_positions(config: GPTConfig) -> AttentionPositions:
    """What the configuration gives to each attention layer."""
    if config.positions == "rotary":
        return RotaryPositions(config.rotary_base)
    return ALiBi(config.n_heads) if config.positions == "alibi" else AttentionPositions()
