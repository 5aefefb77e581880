"""Curves: how a loss falls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.runtime import CourseError


def loss_curve(
    steps: Sequence[int],
    train_loss: Sequence[float],
    validation: Sequence[tuple[int, float]] = (),
    *,
    smoothing: int = 1,
    ax: Axes | None = None,
) -> Axes:
    """Training loss in nats at each step, and (step, loss) pairs of the validation split.

    smoothing: above 1, the mean of that many last steps is drawn over the pale loss of each batch.
    Raises CourseError if there is not one loss for each step.
    """
    if len(steps) != len(train_loss):
        raise CourseError(f"{len(steps)} steps and {len(train_loss)} losses; give one for each")
    ax = plt.subplots()[1] if ax is None else ax
    pale = 0.35 if smoothing > 1 else 1.0
    label = "training, each batch"
    ax.plot(steps, train_loss, linewidth=0.8, color="tab:blue", alpha=pale, label=label)
    if smoothing > 1:
        label = f"training, mean of {smoothing} steps"
        ax.plot(steps, trailing_mean(train_loss, smoothing), color="tab:blue", label=label)
    if validation:
        ax.plot(*zip(*validation, strict=True), "o-", color="tab:orange", label="validation")
    ax.set_xlabel("step")
    ax.set_ylabel("loss (nats per character)")
    ax.legend(loc="upper right")  # a loss falls, so there is room
    return ax


def trailing_mean(values: Sequence[float], width: int) -> list[float]:
    """The mean of each value and the width - 1 before it; of fewer at the beginning."""
    if width < 1:
        raise CourseError(f"a mean of {width} values is not possible; use 1 or more")
    sums = [0.0, *accumulate(values)]
    firsts = [max(0, at - width) for at in range(1, len(sums))]
    ends = enumerate(firsts, start=1)
    return [(sums[end] - sums[first]) / (end - first) for end, first in ends]
