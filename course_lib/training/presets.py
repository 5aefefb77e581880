"""Recipes with a name: the shape of a model and how it is trained.

A recipe is data. `plain` is what a learner finds elsewhere, and the yardstick of this course:
float32, eager, AdamW. Every other one says on a line each what it does differently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from course_lib.model.config import is_number, is_whole, require_positive
from course_lib.runtime import CourseError

CHOICES = {
    "windows": ("random", "shuffled"),
    "schedule": ("cosine", "linear"),
    "optimizer": ("adamw", "muon"),
    "precision": ("float32", "bfloat16", "float16", "auto"),
}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained. Raises CourseError for values that cannot work.

    steps: updates, the length of the schedule. batch_size: windows in each. windows: whether they
        are drawn independently ("random") or each once an epoch ("shuffled"); see data.batches.
    cut_into, cut_share: during this first share of the steps each window is cut into so many
        pieces, read apart: attention has less to do, and learns later to look further back (Press
        et al. 2021, arXiv 2012.15832).
    schedule, learning_rate, minimum_rate, warmup_steps, decay_share: see schedule.py; decay_share
        is the linear schedule's.
    optimizer: "adamw", or "muon" for the matrices of blocks and AdamW for the rest.
    beta1, beta2: AdamW's. weight_decay: share of a matrix that a step takes off, times the rate.
    fused_adamw: torch's kernel that updates a parameter in one pass.
    muon_rate: Muon's peak; its schedule is the learning rate's. muon_momentum: see muon.Muon.
    gradient_clip: the largest norm of the whole gradient (Pascanu et al. 2013, arXiv 1211.5063);
        infinity for none. evaluate_every: steps between validations.
    precision: what matrix products are computed in; see precision.choose_precision.
    compile: whether torch.compile makes kernels for this model first; on CUDA alone.
    """

    steps: int = 2_000
    batch_size: int = 12
    windows: str = "random"
    cut_into: int = 1
    cut_share: float = 0.0
    learning_rate: float = 1e-3
    minimum_rate: float = 1e-4
    warmup_steps: int = 100
    schedule: str = "cosine"
    decay_share: float = 0.6
    optimizer: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.1
    fused_adamw: bool = False
    muon_rate: float = 0.03
    muon_momentum: float = 0.95
    gradient_clip: float = 1.0
    evaluate_every: int = 500
    precision: str = "float32"
    compile: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every", "cut_into"):
            require_positive(name, getattr(self, name))
        if not is_whole(self.seed) or not 0 <= self.seed < 2**63:
            raise CourseError(f"seed={self.seed!r} must be a whole number from 0 to 2^63 - 1")
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise CourseError(
                    f"{name}={getattr(self, name)!r} is not known; use one of: {', '.join(allowed)}"
                )
        for name in ("fused_adamw", "compile"):
            if not isinstance(getattr(self, name), bool):
                raise CourseError(f"{name}={getattr(self, name)!r} must be True or False")
        self._require_updates()
        self._require_schedule()

    def _require_updates(self) -> None:
        for name in ("beta1", "beta2", "muon_momentum"):
            value = getattr(self, name)
            if not (is_number(value) and 0 <= value < 1):
                raise CourseError(f"{name}={value!r} must be at least 0 and below 1")
        if not (is_number(self.weight_decay) and 0 <= self.weight_decay < math.inf):
            raise CourseError(f"weight_decay={self.weight_decay!r} must be 0 or above, and finite")
        if not (is_number(self.gradient_clip) and self.gradient_clip > 0):
            raise CourseError(
                f"gradient_clip={self.gradient_clip!r} must be above 0; float('inf') clips nothing"
            )
        if not (is_number(self.muon_rate) and 0 < self.muon_rate < math.inf):
            raise CourseError(f"muon_rate={self.muon_rate!r} must be above 0 and finite, e.g. 0.03")

    def _require_schedule(self) -> None:
        if not is_whole(self.warmup_steps) or not 0 <= self.warmup_steps < self.steps:
            raise CourseError(
                f"warmup_steps={self.warmup_steps!r} does not fit into steps={self.steps}; "
                f"use 0 to {self.steps - 1}"
            )
        if not (is_number(self.learning_rate) and 0 < self.learning_rate < math.inf):
            raise CourseError(
                f"learning_rate={self.learning_rate!r} must be above 0 and finite, e.g. 0.001"
            )
        if not (is_number(self.minimum_rate) and 0 <= self.minimum_rate <= self.learning_rate):
            raise CourseError(
                f"minimum_rate={self.minimum_rate!r} must lie between 0 and "
                f"learning_rate={self.learning_rate}"
            )
        if not (is_number(self.cut_share) and 0 <= self.cut_share <= 1):
            raise CourseError(f"cut_share={self.cut_share!r} must be from 0 to 1")
        if (self.cut_into == 1) != (self.cut_share == 0):
            raise CourseError(
                f"cut_into={self.cut_into} and cut_share={self.cut_share} do not go together; give "
                "both, e.g. 4 and 0.5, or neither"
            )
        if not (is_number(self.decay_share) and 0 < self.decay_share <= 1):
            raise CourseError(f"decay_share={self.decay_share!r} must be above 0 and at most 1")

    def adapted(self, *, steps: int | None = None, seed: int | None = None) -> TrainingConfig:
        """The same recipe with another length or seed; the warm-up keeps its share of the steps."""
        recipe = self if seed is None else replace(self, seed=seed)
        if steps is None:
            return recipe
        return replace(recipe, steps=steps, warmup_steps=self.warmup_steps * steps // self.steps)

    def steady(self) -> TrainingConfig:
        """The same, to time a step by: nothing is compiled first, and windows are whole."""
        return replace(self, compile=False, cut_into=1, cut_share=0.0)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values; JSON has no infinity, so it is the word "inf"."""
        values = asdict(self)
        if math.isinf(self.gradient_clip):
            values["gradient_clip"] = "inf"
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingConfig:
        """The recipe from to_dict's values; missing ones are the default, unknown are refused."""
        if not isinstance(values, dict):
            raise CourseError(f"{values!r} are not the fields of a recipe; give a dict")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise CourseError(
                f"the recipe has unknown fields: {', '.join(unknown)}; "
                f"known are: {', '.join(sorted(known))}"
            )
        clip = values.get("gradient_clip")
        return cls(**values | ({"gradient_clip": math.inf} if clip == "inf" else {}))


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A recipe: the fields of GPTConfig but vocab_size, and the training."""

    model: MappingProxyType[str, Any]
    training: TrainingConfig

    def changed(self, *, model: Mapping[str, Any], training: Mapping[str, Any]) -> Preset:
        """This recipe with some fields of the model and of the training set anew."""
        return Preset(
            model=MappingProxyType({**self.model, **model}),
            training=replace(self.training, **training),
        )


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one step from a recipe to another changes: some fields of the model, of the training."""

    name: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


def steps_of(preset: Preset, changes: Iterable[Change]) -> tuple[Preset, ...]:
    """The recipe, and what it is after the first change, after the second, … after all."""
    made = [preset]
    for change in changes:
        made.append(made[-1].changed(model=change.model, training=change.training))
    return tuple(made)


PLAIN = Preset(
    model=MappingProxyType({"context_length": 64, "n_layers": 4, "n_heads": 4, "d_model": 128}),
    training=TrainingConfig(),
)

# from plain to quick, one change at a time; lesson 11 measures what each brings
TO_QUICK = (
    Change(
        name="fewer, larger steps",
        training={"steps": 240, "batch_size": 16, "warmup_steps": 12},
    ),
    Change(
        name="Muon for the matrices of blocks",
        training={"optimizer": "muon", "muon_rate": 0.03, "muon_momentum": 0.9},
    ),
    Change(name="rotary positions", model={"positions": "rotary"}),
    Change(name="ReLU² in place of GELU", model={"feed_forward": "relu_squared"}),
    Change(
        name="outputs of blocks begin at 0, no biases",
        model={"initialisation": "zero_output", "bias": False},
    ),
    Change(
        name="a head of its own, and larger AdamW steps",
        model={"tied_head": False},
        training={"learning_rate": 0.015, "beta1": 0.8, "weight_decay": 0.0},
    ),
    Change(
        name="a constant rate, then straight to 0; no clipping",
        training={
            "schedule": "linear",
            "warmup_steps": 0,
            "minimum_rate": 0.0,
            "gradient_clip": math.inf,
        },
    ),
    Change(name="half the layers, half as wide inside", model={"n_layers": 2, "d_ff": 256}),
    Change(
        name="fused AdamW, and the fastest precision and kernel",
        training={"fused_adamw": True, "precision": "auto"},
    ),
)

# about plain's final loss in less than a tenth of its time: a smaller model, fewer and larger steps
QUICK = steps_of(PLAIN, TO_QUICK)[-1]

# the same, with a longer look back and more steps: a far lower loss in a few minutes of CPU
LAPTOP = QUICK.changed(
    model={"n_layers": 4, "context_length": 256},
    training={
        "steps": 1_400,
        "batch_size": 8,
        "windows": "shuffled",
        "cut_into": 4,
        "cut_share": 0.5,
        "weight_decay": 0.1,
        "decay_share": 0.95,
    },
)

# about 10 million parameters, which learn a small text by heart without dropout
GPU = QUICK.changed(
    model={
        "n_layers": 6,
        "n_heads": 6,
        "d_model": 384,
        "d_ff": 1_536,
        "context_length": 256,
        "dropout": 0.2,
    },
    training={"steps": 1_500, "batch_size": 64, "windows": "shuffled", "compile": True},
)

PRESETS = MappingProxyType({"plain": PLAIN, "quick": QUICK, "laptop": LAPTOP, "gpu": GPU})


def get_preset(name: str) -> Preset:
    """The preset of that name; CourseError, with the names there are, if there is none."""
    if name not in PRESETS:
        raise CourseError(f"there is no preset {name!r}; use one of: {', '.join(PRESETS)}")
    return PRESETS[name]
