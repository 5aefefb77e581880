"""The learning rate over a run: rise, then fall.

A short warm-up lets the optimiser's averages settle before steps are large; then the rate falls,
along a cosine (Loshchilov & Hutter 2017, arXiv 1608.03983) or, after a while at the peak, along a
line (Hägele et al. 2024, arXiv 2405.18392). Lesson 10 draws both.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from course_lib.runtime import CourseError

if TYPE_CHECKING:
    from course_lib.training.presets import TrainingConfig


def learning_rate(step: int, config: TrainingConfig) -> float:
    """The rate of a step, counted from 0, by the recipe's schedule."""
    values = {
        "steps": config.steps,
        "warmup": config.warmup_steps,
        "peak": config.learning_rate,
        "minimum": config.minimum_rate,
    }
    if config.schedule == "linear":
        return warmup_linear(step, decay_share=config.decay_share, **values)
    return warmup_cosine(step, **values)


def warmup_cosine(step: int, *, steps: int, warmup: int, peak: float, minimum: float) -> float:
    """The rate of step 0 ≤ step < steps: a line up to `peak`, half a cosine down to `minimum`.

    The first step is above 0, step `warmup` has the peak, and the last step the minimum. Where one
    step is two of these, as in a run of one step, it has the minimum.
    """
    _require_possible(step, steps, warmup, peak, minimum)
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    last = steps - 1
    progress = 1.0 if last == warmup else (step - warmup) / (last - warmup)
    return minimum + (peak - minimum) * (1 + math.cos(math.pi * progress)) / 2


def warmup_linear(
    step: int, *, steps: int, warmup: int, peak: float, minimum: float, decay_share: float
) -> float:
    """A line up to `peak`, the peak, and over the last `decay_share` a line down to `minimum`.

    First step, step `warmup` and last step are as in warmup_cosine: a fall that would begin before
    the warm-up ends begins where it ends.
    """
    _require_possible(step, steps, warmup, peak, minimum)
    if not 0 < decay_share <= 1:
        raise CourseError(
            f"decay_share={decay_share} must be above 0 and at most 1: the share of the steps "
            "in which the rate falls"
        )
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    last = steps - 1
    if step == last:
        return minimum
    fall = min(decay_share * steps, last - warmup)
    return minimum + (peak - minimum) * min(1.0, (last - step) / fall)


def _require_possible(step: int, steps: int, warmup: int, peak: float, minimum: float) -> None:
    if not 0 <= warmup < steps:
        raise CourseError(
            f"a warm-up of {warmup} steps does not fit into {steps} steps; use 0 to {steps - 1}"
        )
    if not 0 <= minimum <= peak or peak == 0 or not math.isfinite(peak):
        raise CourseError(
            f"the rate cannot go from a peak of {peak} down to {minimum}; "
            "use a peak above 0 and a minimum from 0 to the peak"
        )
    if not 0 <= step < steps:
        raise CourseError(f"there is no step {step} in a run of {steps}; use 0 to {steps - 1}")
