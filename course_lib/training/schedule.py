"""The learning rate over a run: rise, then fall.

A short warm-up lets the optimiser's averages settle before steps are large; the cosine then takes
the rate down smoothly (Loshchilov & Hutter 2017, arXiv 1608.03983). Lesson 10 draws it.
"""

from __future__ import annotations

import math

from course_lib.runtime import CourseError


def warmup_cosine(step: int, *, steps: int, warmup: int, peak: float, minimum: float) -> float:
    """The rate of step 0 ≤ step < steps: a line up to `peak`, half a cosine down to `minimum`.

    The first step is above 0, step `warmup` has the peak, and the last step the minimum. Where one
    step is two of these, as in a run of one step, it has the minimum.
    """
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
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    last = steps - 1
    progress = 1.0 if last == warmup else (step - warmup) / (last - warmup)
    return minimum + (peak - minimum) * (1 + math.cos(math.pi * progress)) / 2
