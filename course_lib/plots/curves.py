"""Curves: how a loss falls."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from course_lib.runtime import CourseError


def loss_curve(
    steps: Sequence[int],
    train_loss: Sequence[float],
    validation: Sequence[tuple[int, float]] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Training loss in nats at each step, and (step, loss) pairs of the validation split.

    Raises CourseError if there is not one loss for each step.
    """
    if len(steps) != len(train_loss):
        raise CourseError(f"{len(steps)} steps and {len(train_loss)} losses; give one for each")
    ax = plt.subplots()[1] if ax is None else ax
    ax.plot(steps, train_loss, linewidth=0.8, color="tab:blue", label="training, each batch")
    if validation:
        ax.plot(*zip(*validation, strict=True), "o-", color="tab:orange", label="validation")
    ax.set_xlabel("step")
    ax.set_ylabel("loss (nats per character)")
    ax.legend()
    return ax
