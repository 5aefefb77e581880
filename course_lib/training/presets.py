"""Recipes with a name: the shape of a model and how it is trained.

A recipe is data. `plain` is what a learner finds elsewhere, and the yardstick of this course:
float32, eager, AdamW.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from course_lib.runtime import CourseError


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained. Raises CourseError for values that cannot work.

    steps: updates, the length of the schedule. batch_size: windows in each.
    learning_rate, minimum_rate, warmup_steps: see schedule.warmup_cosine.
    beta1, beta2, weight_decay: AdamW's. gradient_clip: the largest norm of the whole gradient
        (Pascanu et al. 2013, arXiv 1211.5063). evaluate_every: steps between validations.
    """

    steps: int = 2_000
    batch_size: int = 12
    learning_rate: float = 1e-3
    minimum_rate: float = 1e-4
    warmup_steps: int = 100
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.1
    gradient_clip: float = 1.0
    evaluate_every: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise CourseError(f"{name}={value!r} must be a whole number of at least 1")
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise CourseError(f"seed={self.seed!r} must be a whole number from 0 to 2^63 - 1")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise CourseError(f"{name}={getattr(self, name)} must be at least 0 and below 1")
        if not 0 <= self.weight_decay < math.inf:
            raise CourseError(f"weight_decay={self.weight_decay} must be 0 or above")
        if not self.gradient_clip > 0:
            raise CourseError(
                f"gradient_clip={self.gradient_clip} must be above 0; float('inf') clips nothing"
            )
        self._require_schedule()

    def _require_schedule(self) -> None:
        if not isinstance(self.warmup_steps, int) or not 0 <= self.warmup_steps < self.steps:
            raise CourseError(
                f"warmup_steps={self.warmup_steps} does not fit into steps={self.steps}; "
                f"use 0 to {self.steps - 1}"
            )
        if not (0 <= self.minimum_rate <= self.learning_rate and 0 < self.learning_rate < math.inf):
            raise CourseError(
                f"minimum_rate={self.minimum_rate} must lie between 0 and "
                f"learning_rate={self.learning_rate}, which must be above 0 and finite"
            )

    def adapted(self, *, steps: int | None = None, seed: int | None = None) -> TrainingConfig:
        """The same recipe with another length or seed; the warm-up keeps its share of the steps."""
        recipe = self if seed is None else replace(self, seed=seed)
        if steps is None:
            return recipe
        return replace(recipe, steps=steps, warmup_steps=self.warmup_steps * steps // self.steps)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A recipe: the fields of GPTConfig but vocab_size, and the training."""

    model: MappingProxyType[str, Any]
    training: TrainingConfig


PRESETS = MappingProxyType(
    {
        "plain": Preset(
            model=MappingProxyType(
                {"context_length": 64, "n_layers": 4, "n_heads": 4, "d_model": 128}
            ),
            training=TrainingConfig(),
        )
    }
)


def get_preset(name: str) -> Preset:
    """The preset of that name; CourseError, with the names there are, if there is none."""
    if name not in PRESETS:
        raise CourseError(f"there is no preset {name!r}; use one of: {', '.join(PRESETS)}")
    return PRESETS[name]
