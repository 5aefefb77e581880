"""Attention heatmaps: one orientation and one colour scale everywhere.

A row is a query (the token that reads), a column a key (the token read); white is 0 and the darkest
blue is 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from course_lib.plots.arrays import as_array
from course_lib.plots.labels import drawable, label_axis
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
    values = as_array(weights)
    key_labels = query_labels if key_labels is None else key_labels
    _require_weights(values, query_labels, key_labels)
    if ax is None:
        ax = _axes_for(values.shape, max(map(len, [*query_labels, *key_labels])), numbers)
    ax.imshow(values, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
    label_axis(ax.yaxis, query_labels)
    label_axis(ax.xaxis, key_labels)
    ax.set_ylabel("query: the token that reads")
    ax.set_xlabel("key: the token read")
    (title,), fonts = drawable([title])
    ax.set_title(title, parse_math=False, fontfamily=fonts)
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
    values = as_array(weights)
    if values.ndim != 3 or len(values) == 0:
        raise CourseError(
            f"weights have shape {values.shape}; give (head, query, key), e.g. weights[0]"
        )
    for head in values:  # before there is a figure
        _require_weights(head, labels, labels)
    side = min(max(0.13 * values.shape[-1], 2.4), 9.0)  # inches, so that each label has its place
    columns = min(max(int(18 / side), 1), 4, len(values))
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
    (title,), fonts = drawable([title])
    figure.suptitle(title, parse_math=False, fontfamily=fonts)
    return axes[: len(values)]


def shown(ax: Axes) -> np.ndarray:
    """The numbers that the first picture in an Axes shows: what a heatmap was given."""
    if not ax.images:
        raise CourseError("these Axes show no picture; give the Axes that heatmap returned")
    return np.asarray(ax.images[0].get_array())


def _axes_for(shape: tuple[int, int], longest: int, numbers: bool) -> Axes:
    """New Axes, large enough for a label (and a number) in each row and column.

    Beside them there is room for labels of `longest` characters, up to 30.
    """
    square = 0.42 if numbers else 0.26  # inches
    rows, columns = (min(max(n * square, 2.2), 9.0) for n in shape)
    room = 0.08 * min(longest, 30)
    return plt.subplots(figsize=(columns + 1.4 + room, rows + 1.2 + room), layout="constrained")[1]


def _require_weights(
    values: np.ndarray, query_labels: Sequence[str], key_labels: Sequence[str]
) -> None:
    if values.ndim != 2 or values.size == 0:
        raise CourseError(
            f"weights have shape {values.shape}; give one head's, (query, key), "
            "e.g. weights[0, head]"
        )
    if values.shape != (len(query_labels), len(key_labels)):
        raise CourseError(
            f"weights of shape {values.shape} do not fit {len(query_labels)} query and "
            f"{len(key_labels)} key labels; give one label for each row and column"
        )
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= 1 + 1e-5):
        raise CourseError(
            f"weights reach from {values.min():.3g} to {values.max():.3g}; attention weights lie "
            "between 0 and 1: give them after the softmax"
        )
