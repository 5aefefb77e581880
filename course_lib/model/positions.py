"""Word order. Attention alone sees a set of tokens; these tell it where each one stands.

Two places can hold the order: the embeddings (a vector for each position is added: sinusoidal,
learned) or the scores (queries and keys are turned by their position: rotary; far keys are
penalised: ALiBi). Lessons 06 and 07 build and compare them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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

    def forward(self, positions: Tensor, last: int | None = None) -> Tensor:
        """Positions (..., position) → vectors (..., position, d_model), float32. No last one."""
        angles = rotary_angles(positions, rotary_frequencies(self.d_model))  # (..., d_model/2)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """One trained vector for each position (BERT, GPT-2; lesson 06), none past the last."""

    def __init__(self, context_length: int, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(context_length, d_model)

    def forward(self, positions: Tensor, last: int | None = None) -> Tensor:
        """Positions (..., position) → vectors (..., position, d_model); −1 reads as 0.

        last: the largest position, where the caller knows it; to look it up makes a GPU wait.
        Raises CourseError if it lies past the table.
        """
        limit = self.embedding.num_embeddings
        last = largest_position(positions) if last is None else last
        if last >= limit:
            raise CourseError(
                f"position {last} lies past context_length={limit}: learned positions end at "
                f"{limit - 1}; give the last {limit} tokens"
            )
        return self.embedding(positions.clamp(min=0))


def largest_position(positions: Tensor) -> int:
    """The largest of positions; CourseError for one below −1, which marks padding."""
    if positions.numel() == 0:
        return -1
    least, largest = (int(value) for value in positions.aminmax())
    if least < -1:
        raise CourseError(f"position {least} is below −1; count from 0, and give padding −1")
    return largest


@dataclass(frozen=True)
class Places:
    """Where the tokens of one pass stand, with what a scheme derives from it once for all layers.

    positions: (position,) or (batch, position); −1 is padding. rotation: cosine and sine, each
    (position, d_head/2) or (batch, 1, position, d_head/2), float32. bias: (head, query, key) or
    (batch, head, query, key).
    """

    positions: Tensor
    rotation: tuple[Tensor, Tensor] | None = None
    bias: Tensor | None = None


class AttentionPositions(nn.Module):
    """Positions that act inside attention. This one does nothing: the base of the others."""

    def places(self, positions: Tensor, d_head: int) -> Places:
        """Positions (position,) or (batch, position), ready for attention."""
        return Places(positions)

    def rotate(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (batch, head, position, d_head) with their positions worked in."""
        rotation = self.places(positions, heads.shape[-1]).rotation
        return heads if rotation is None else turn(heads, *rotation)

    def score_bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """What is added to the scaled scores, (..., head, query, key), or None."""
        return None


def rotary_frequencies(
    width: int,
    base: float = 10_000.0,
    scaling: str = "none",
    factor: float = 1.0,
    trained_length: float = math.inf,
    ramp: tuple[float, float] = (1.0, 32.0),
) -> Tensor:  # (width/2,), float32
    """Radians that pair i = 0 … width/2 − 1 turns with each position: base^(−2i/width), scaled.

    For a context `factor` times the trained one: "linear" divides all by it (Chen et al. 2023,
    arXiv 2306.15595). "ntk" takes base·factor^(width/(width−2)), so that the fastest pair stays
    and the slowest is divided by it (bloc97 2023). "yarn" divides pairs that turn less than ramp[0]
    times in the trained length, keeps those above ramp[1], and blends between (Peng et al. 2023,
    arXiv 2309.00071, section 3.2; their α and β).
    """
    if scaling == "ntk":
        base = base * factor ** (width / (width - 2))
    exponents = torch.arange(0, width, 2, dtype=torch.float32) / width
    frequencies = base**-exponents
    if scaling == "linear":
        return frequencies / factor
    if scaling == "yarn":
        turns = trained_length * frequencies / (2 * math.pi)
        kept = ((turns - ramp[0]) / (ramp[1] - ramp[0])).clamp(0, 1)  # the paper's γ
        return frequencies * (kept + (1 - kept) / factor)
    return frequencies


def rotary_angles(positions: Tensor, frequencies: Tensor) -> Tensor:
    """position · frequency, (..., position, pair), radians.

    Always float32: in bfloat16 position 257 would already be rounded to 256.
    """
    return positions.float()[..., :, None] * frequencies.to(positions.device)


def turn(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Heads (..., position, d_head) with each pair (i, i + d_head/2) turned, in their dtype.

    A pair (a, b) becomes (a·cos − b·sin, b·cos + a·sin): the heads times the cosine, and with the
    halves exchanged times ∓ the sine, which takes fewer passes than four products of halves.
    """
    cos = torch.cat([cos, cos], dim=-1).to(heads.dtype)
    sin = torch.cat([-sin, sin], dim=-1).to(heads.dtype)
    exchanged = heads.roll(heads.shape[-1] // 2, dims=-1)
    return torch.addcmul(heads * cos, exchanged, sin)


class RotaryPositions(AttentionPositions):
    """Turn each pair of dimensions by an angle that grows with the position (RoPE; lesson 07).

    Su et al. 2021, arXiv 2104.09864: after it, a query at m and a key at n meet in a product
    that depends on m − n alone. A pair is dimension i with i + d_head/2, as in GPT-NeoX and in
    Hugging Face's LLaMA; the paper, and Meta's own LLaMA, pair 2i with 2i+1. That is the same up
    to a reordering of dimensions, but weights trained with one layout are wrong in the other.

    The scalings are those of rotary_frequencies. YaRN also multiplies queries and keys by
    0.1·ln(factor) + 1, since attention over a longer text spreads too thin.
    """

    def __init__(
        self,
        base: float = 10_000.0,
        scaling: str = "none",
        factor: float = 1.0,
        trained_length: float = math.inf,
        ramp: tuple[float, float] = (1.0, 32.0),
    ) -> None:
        super().__init__()
        self.base = base
        self.scaling = scaling
        self.factor = factor
        self.trained_length = trained_length
        self.ramp = ramp

    def places(self, positions: Tensor, d_head: int) -> Places:
        """The positions with the cosines and sines of their angles."""
        frequencies = rotary_frequencies(
            d_head, self.base, self.scaling, self.factor, self.trained_length, self.ramp
        )
        angles = rotary_angles(positions, frequencies)
        if positions.ndim == 2:
            angles = angles[:, None]  # the same for each head
        size = 0.1 * math.log(self.factor) + 1 if self.scaling == "yarn" else 1.0
        return Places(positions, rotation=(angles.cos() * size, angles.sin() * size))


class ALiBi(AttentionPositions):
    """Subtract slope · distance from the scores, each head with its own slope (lesson 06).

    Press et al. 2022, arXiv 2108.12409.
    """

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def places(self, positions: Tensor, d_head: int) -> Places:
        """The positions with the bias of each score."""
        return Places(positions, bias=self.score_bias(positions, positions))

    def score_bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """(..., head, query, key): 0 for the query itself, falling with the distance."""
        slopes = alibi_slopes(self.n_heads).to(query_positions.device)
        distance = (query_positions[..., :, None] - key_positions[..., None, :]).abs()
        return -slopes[:, None, None] * distance[..., None, :, :]


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
        return RotaryPositions(
            config.rotary_base,
            config.rotary_scaling,
            config.rotary_factor,
            config.context_length / config.rotary_factor,
            config.rotary_ramp,
        )
    return ALiBi(config.n_heads) if config.positions == "alibi" else AttentionPositions()
