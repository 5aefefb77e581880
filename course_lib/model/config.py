"""What a GPT is made of, as one frozen and validated record.

Everything that can differ between two models of the course is a field here, so that a model is
rebuilt from its configuration alone, and an impossible one is refused before anything is built.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass, fields
from typing import Any

from course_lib.runtime import CourseError

LARGEST = 2**31 - 1  # more than any machine holds, and torch counts in such numbers
CHOICES = {
    "positions": ("none", "sinusoidal", "learned", "rotary", "alibi"),
    "norm": ("layer_norm", "rms_norm"),
    "norm_placement": ("pre", "post"),
    "feed_forward": ("relu", "gelu", "relu_squared", "swiglu", "none"),
    "initialisation": ("gpt2", "xavier", "zero_output"),
    "rotary_scaling": ("none", "linear", "ntk", "yarn"),
}


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """The shape of a GPT. Raises CourseError, with a remedy, for a combination that cannot work.

    vocab_size: number of distinct tokens.
    context_length: tokens seen in training, and how far back a token may look when generating.
    n_layers, d_model, n_heads: blocks, width of the residual stream, attention heads.
    n_kv_heads: key and value heads, shared by groups of query heads (Ainslie et al. 2023, arXiv
        2305.13245); None means one for each query head.
    d_latent: width of the latent that keys and values of all heads are made of (multi-head latent
        attention, DeepSeek-AI 2024, arXiv 2405.04434), which is all that a cache then keeps; None:
        keys and values of their own, as n_kv_heads says.
    d_rotary: with a latent and rotary positions, width of the part of each query that is turned,
        and of the one turned key that all heads share, kept beside the latent (section 2.1.3);
        None means half a head, as in DeepSeek-V2.
    d_ff: hidden width of the feed-forward layer; None means 4·d_model, and 8/3·d_model for SwiGLU,
        whose third matrix then leaves the number of parameters as it was (Shazeer 2020).
    n_experts: feed-forward layers beside one another, of which each token passes through
        experts_per_token (Shazeer et al. 2017, arXiv 1701.06538); None means a single one, for all.
    capacity_factor: in training an expert takes at most so many times its fair share of a batch's
        tokens, and the rest pass by (Lepikhin et al. 2020, arXiv 2006.16668); None: all that come.
    balance_weight: what the trainer multiplies the balancing loss by before it adds it, so that
        the router does not leave experts without tokens (Fedus et al. 2021, arXiv 2101.03961).
    positions, norm, norm_placement, feed_forward, initialisation: one of CHOICES. With
        feed_forward "none" a block is attention alone (Elhage et al. 2021; lesson 13).
    rotary_base: the base of the rotary wavelengths (Su et al. 2021, arXiv 2104.09864).
    rotary_scaling: how rotary positions are stretched for a context rotary_factor times as long as
        the one trained at. "linear": all pairs turn that much slower (Chen et al. 2023, arXiv
        2306.15595); "ntk": a larger base slows the slow pairs alone (bloc97 2023); "yarn": pairs
        that turned less than rotary_ramp[0] times within the trained length are slowed, those above
        rotary_ramp[1] are not, and scores grow a little (Peng et al. 2023, arXiv 2309.00071).
    window: tokens that one layer looks back, itself included; None: all (Beltagy et al. 2020, arXiv
        2004.05150; Jiang et al. 2023, arXiv 2310.06825). n_layers windows are seen in all.
    qk_norm: RMSNorm on each head's queries and keys before they are turned, so that scores cannot
        grow without bound in training (Henry et al. 2020, arXiv 2010.04245).
    bias: whether linear layers and layer norms add a learned constant.
    dropout: share of activations set to 0 in training (Srivastava et al. 2014).
    tied_head: the output layer reuses the embedding matrix (Press & Wolf 2017, arXiv 1608.05859).
    """

    vocab_size: int
    context_length: int = 64
    n_layers: int = 4
    d_model: int = 128
    n_heads: int = 4
    n_kv_heads: int | None = None
    d_latent: int | None = None
    d_rotary: int | None = None
    d_ff: int | None = None
    n_experts: int | None = None
    experts_per_token: int = 2
    capacity_factor: float | None = None
    balance_weight: float = 0.01
    positions: str = "learned"
    norm: str = "layer_norm"
    norm_placement: str = "pre"
    feed_forward: str = "gelu"
    initialisation: str = "gpt2"
    rotary_base: float = 10_000.0
    rotary_scaling: str = "none"
    rotary_factor: float = 1.0
    rotary_ramp: tuple[float, float] = (1.0, 32.0)
    window: int | None = None
    qk_norm: bool = False
    bias: bool = True
    dropout: float = 0.0
    tied_head: bool = True

    def __post_init__(self) -> None:
        for name in ("vocab_size", "context_length", "n_layers", "d_model", "n_heads"):
            require_positive(name, getattr(self, name))
        for name in ("n_kv_heads", "d_latent", "d_rotary", "d_ff", "window"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise CourseError(
                    f"{name}={getattr(self, name)!r} is not known; use one of: {', '.join(allowed)}"
                )
        for name in ("bias", "tied_head", "qk_norm"):
            if not isinstance(getattr(self, name), bool):
                raise CourseError(f"{name}={getattr(self, name)!r} must be True or False")
        if not (is_number(self.dropout) and 0 <= self.dropout < 1):
            raise CourseError(f"dropout={self.dropout!r} must be at least 0 and below 1")
        if not (is_number(self.rotary_base) and 1 < self.rotary_base < float("inf")):
            raise CourseError(f"rotary_base={self.rotary_base!r} must be above 1, e.g. 10000")
        if self.window is not None and self.window > self.context_length:
            raise CourseError(
                f"window={self.window} is more than context_length={self.context_length}, so it "
                f"hides nothing; use at most {self.context_length}, or None"
            )
        if self.feed_forward == "none" and self.d_ff is not None:
            raise CourseError(
                f"d_ff={self.d_ff} is the width of a feed-forward layer, and feed_forward='none' "
                "has none; use d_ff=None"
            )
        self._require_heads_that_fit()
        self._require_a_latent_that_saves()
        self._require_a_scaling_that_scales()
        self._require_experts_that_work()

    def _require_heads_that_fit(self) -> None:
        require_whole_heads(self.d_model, self.n_heads, self.kv_heads)
        if self.positions == "rotary" and self.d_latent is None and self.d_head % 2:
            raise CourseError(
                f"rotary positions turn pairs, and d_model={self.d_model} over "
                f"n_heads={self.n_heads} gives {self.d_head} per head, which is odd; "
                f"use d_model={self.n_heads * (self.d_head + 1)} or other positions"
            )
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise CourseError(
                f"sinusoidal positions need an even d_model, got {self.d_model}; "
                f"use {self.d_model + self.n_heads} or other positions"
            )

    def _require_a_latent_that_saves(self) -> None:
        if self.d_latent is None:
            if self.d_rotary is not None:
                raise CourseError(
                    f"d_rotary={self.d_rotary} is the part that is turned beside a latent; give "
                    "d_latent as well, or leave d_rotary at None: whole heads are turned"
                )
            return
        if self.n_kv_heads is not None:
            raise CourseError(
                f"n_kv_heads={self.n_kv_heads} does not go with d_latent={self.d_latent}, of which "
                "each head makes its own keys and values; leave one of them at None"
            )
        if self.d_latent > self.d_model:
            raise CourseError(
                f"d_latent={self.d_latent} is wider than d_model={self.d_model}, all that keys and "
                f"values are made of; use at most {self.d_model}"
            )
        if self.qk_norm:
            raise CourseError(
                "qk_norm=True normalises the keys of each head, and with d_latent these are never "
                "kept; use qk_norm=False: the latent is normalised anyway"
            )
        if self.d_rotary is not None and self.positions != "rotary":
            raise CourseError(
                f"d_rotary={self.d_rotary} has nothing to turn with positions={self.positions!r}; "
                "use positions='rotary', or leave d_rotary at None"
            )
        if self.d_rotary is not None and self.d_rotary % 2:
            raise CourseError(
                f"rotary positions turn pairs, and d_rotary={self.d_rotary} is odd; use "
                f"{self.d_rotary + 1}"
            )

    def _require_a_scaling_that_scales(self) -> None:
        scaling, factor, ramp = self.rotary_scaling, self.rotary_factor, self.rotary_ramp
        if not (is_number(factor) and 1 <= factor <= self.context_length):
            raise CourseError(
                f"rotary_factor={factor!r} must be from 1 to context_length="
                f"{self.context_length}, which divided by it is the length trained at"
            )
        if not (
            isinstance(ramp, tuple)
            and len(ramp) == 2
            and all(is_number(turns) for turns in ramp)
            and 0 <= ramp[0] < ramp[1] < float("inf")
        ):
            raise CourseError(
                f"rotary_ramp={ramp!r} must be two rising numbers of turns, e.g. (1.0, 32.0)"
            )
        if scaling != "none" and self.positions != "rotary":
            raise CourseError(
                f"rotary_scaling={scaling!r} has nothing to scale in positions="
                f"{self.positions!r}; use positions='rotary', or rotary_scaling='none'"
            )
        if scaling == "none" and factor != 1:
            raise CourseError(
                f"rotary_factor={factor!r} does nothing with rotary_scaling='none'; use 'linear', "
                "'ntk' or 'yarn', or leave it at 1"
            )
        if scaling == "ntk" and self.turned_width == 2:
            part, wider = "a head", "wider heads"
            if self.d_latent is not None:
                part, wider = "a turned part", "a larger d_rotary"
            raise CourseError(
                f"rotary_scaling='ntk' slows all pairs but the fastest, and {part} of width 2 has "
                f"one pair; use {wider}, or 'linear'"
            )

    def _require_experts_that_work(self) -> None:
        experts, chosen, factor = self.n_experts, self.experts_per_token, self.capacity_factor
        if experts is not None:
            require_positive("n_experts", experts)
        require_positive("experts_per_token", chosen)
        if not (is_number(self.balance_weight) and 0 <= self.balance_weight < math.inf):
            raise CourseError(
                f"balance_weight={self.balance_weight!r} must be a finite number of at least 0, "
                "e.g. 0.01"
            )
        if factor is not None and not (is_number(factor) and 0 < factor < math.inf):
            raise CourseError(
                f"capacity_factor={factor!r} must be a finite number above 0, e.g. 1.25, or None"
            )
        if experts is None:
            for name in ("experts_per_token", "capacity_factor", "balance_weight"):
                if getattr(self, name) != getattr(type(self), name):
                    raise CourseError(
                        f"{name}={getattr(self, name)!r} does nothing without experts; set "
                        f"n_experts, or leave it at {getattr(type(self), name)}"
                    )
            return
        if self.feed_forward == "none":
            raise CourseError(
                f"n_experts={experts} are feed-forward layers, and feed_forward='none' has none; "
                "use another feed_forward, or n_experts=None"
            )
        if chosen > experts:
            raise CourseError(
                f"experts_per_token={chosen} is more than n_experts={experts}; "
                f"use at most {experts}"
            )
        if factor is not None and factor * chosen >= experts:
            raise CourseError(
                f"capacity_factor={factor!r} leaves room for all tokens in each of {experts} "
                f"experts; use less than {experts / chosen:g}, or None"
            )

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_heads

    @property
    def turned_width(self) -> int:
        """How many entries of a query rotary positions turn: all, or with a latent d_rotary."""
        if self.d_latent is None:
            return self.d_head
        return 2 * math.ceil(self.d_head / 4) if self.d_rotary is None else self.d_rotary

    @property
    def kv_heads(self) -> int:
        """Number of key and value heads, with the default filled in."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def cached_numbers(self) -> int:
        """Numbers that a cache keeps of a token in each layer: key and value, or the latent."""
        if self.d_latent is None:
            return 2 * self.kv_heads * self.d_head
        return self.d_latent + (self.turned_width if self.positions == "rotary" else 0)

    @property
    def hidden_width(self) -> int:
        """Width inside the feed-forward layer, with the default filled in; 0 without one."""
        if self.feed_forward == "none":
            return 0
        if self.d_ff is not None:
            return self.d_ff
        return round(8 * self.d_model / 3) if self.feed_forward == "swiglu" else 4 * self.d_model

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> GPTConfig:
        """The configuration from to_dict's values; unknown or missing fields are refused."""
        if not isinstance(values, dict):
            raise CourseError(f"{values!r} are not the fields of a configuration; give a dict")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise CourseError(
                f"the configuration has unknown fields: {', '.join(unknown)}; "
                f"known are: {', '.join(sorted(known))}"
            )
        if "vocab_size" not in values:
            raise CourseError("the configuration lacks vocab_size, which has no default")
        ramp = values.get("rotary_ramp")
        if isinstance(ramp, list):  # JSON has no tuples
            values = {**values, "rotary_ramp": tuple(ramp)}
        return cls(**values)


def require_whole_heads(d_model: int, n_heads: int, n_kv_heads: int) -> None:
    """Refuse a width that heads cannot share evenly, or heads that groups cannot."""
    if d_model % n_heads:
        below = d_model - d_model % n_heads
        nearby = [str(d) for d in (below, below + n_heads) if d]
        raise CourseError(
            f"d_model={d_model} is not divisible by n_heads={n_heads}; use {' or '.join(nearby)}"
        )
    if n_heads % n_kv_heads:
        below = [n for n in range(1, math.isqrt(n_heads) + 1) if n_heads % n == 0]
        divisors = map(str, sorted({*below, *(n_heads // n for n in below)}))
        raise CourseError(
            f"n_heads={n_heads} is not divisible by n_kv_heads={n_kv_heads}; "
            f"use one of: {', '.join(divisors)}"
        )


def require_positive(name: str, value: object) -> None:
    """Refuse what is not a whole number from 1 to LARGEST."""
    if not is_whole(value) or value < 1:
        raise CourseError(f"{name}={value!r} must be a whole number of at least 1")
    if value > LARGEST:
        raise CourseError(f"{name}={value!r:.40} must be at most {LARGEST:,}; use a smaller one")


def is_whole(value: object) -> bool:
    """Whether it is an int, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a number to compute with: an int or a float; no bool, no int past floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) <= sys.float_info.max
