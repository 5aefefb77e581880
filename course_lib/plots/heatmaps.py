"""Attention heatmaps: one orientation and one colour scale everywhere.

A row is a query (the token that reads), a column a key (the token read); white is 0 and the darkest
blue is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from course_lib.plots.labels import label_axis
from course_lib.runtime import CourseError


def heatmap(
    weights: np.ndarray,  # (query, key)
    query_labels: Sequence[str],
    key_labels: Sequence[str] | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
    numbers: bool = False,
) -> Axes:
    """Attention weights (query, key), each between 0 and 1, as a picture.

    Labels are the tokens, shown literally; key_labels default to query_labels. With numbers, each
    weight is written into its square. Raises CourseError if shapes and labels do not agree, or
    values are no weights.
    """
    values = _as_weights(weights)
    key_labels = query_labels if key_labels is None else key_labels
    if values.shape != (len(query_labels), len(key_labels)):
        raise CourseError(
            f"weights of shape {values.shape} do not fit {len(query_labels)} query and "
            f"{len(key_labels)} key labels; give one label for each row and column"
        )
    ax = _axes_for(values.shape, numbers) if ax is None else ax
    ax.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    label_axis(ax.yaxis, query_labels)
    label_axis(ax.xaxis, key_labels)
    ax.set_ylabel("query: the token that reads")
    ax.set_xlabel("key: the token read")
    ax.set_title(title, parse_math=False)
    if numbers:
        for row, column in np.ndindex(values.shape):
            weight = values[row, column]
            colour = "white" if weight > 0.6 else "black"
            ax.text(
                column, row, f"{weight:.2f}", ha="center", va="center", color=colour, fontsize=8
            )
    return ax


def head_grid(
    weights: np.ndarray,  # (head, query, key)
    labels: Sequence[str],
    *,
    title: str = "",
) -> np.ndarray:
    """One heatmap for each head of a layer, side by side in one figure: an array of Axes (head,).

    Only the outer heatmaps carry the tokens.
    """
    values = np.asarray(weights)
    if values.ndim != 3:
        raise CourseError(f"weights have shape {values.shape}; give (head, query, key)")
    side = min(max(0.13 * values.shape[-1], 2.4), 9.0)  # inches, so that each label has its place
    columns = min(max(int(14 / side), 1), 4, len(values))
    rows = -(-len(values) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(side * columns + 0.9, (side + 0.3) * rows + 0.9),
        squeeze=False,
        layout="constrained",
    )
    axes = axes.ravel()
    for head, ax in enumerate(axes):
        if head >= len(values):
            ax.remove()
            continue
        heatmap(values[head], labels, ax=ax, title=f"head {head}")
        ax.tick_params(labelsize=7, length=2)
        if head % columns:
            ax.set_yticklabels([])
            ax.set_ylabel("")
        if head + columns < len(values):
            ax.set_xticklabels([])
            ax.set_xlabel("")
    figure.suptitle(title, parse_math=False)
    return axes[: len(values)]


def shown(ax: Axes) -> np.ndarray:
    """The numbers that the first picture in an Axes shows: what a heatmap was given."""
    if not ax.images:
        raise CourseError("these Axes show no picture; give the Axes that heatmap returned")
    return np.asarray(ax.images[0].get_array())


def _axes_for(shape: tuple[int, int], numbers: bool) -> Axes:
    """New Axes, large enough for a label (and a number) in each row and column."""
    square = 0.42 if numbers else 0.26  # inches
    rows, columns = (min(max(n * square, 2.2), 9.0) for n in shape)
    return plt.subplots(figsize=(columns + 1.5, rows + 1.3))[1]


def _as_weights(weights: np.ndarray) -> np.ndarray:
    values = np.asarray(weights, dtype=float)
    if values.ndim != 2:
        raise CourseError(
            f"weights have shape {values.shape}; give one head's, (query, key), "
            "e.g. weights[0, head]"
        )
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1 + 1e-5):
        raise CourseError(
            f"weights reach from {values.min():.3g} to {values.max():.3g}; attention weights lie "
            "between 0 and 1: give them after the softmax"
        )
    return values
