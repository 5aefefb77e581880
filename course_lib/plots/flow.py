"""One attention layer as a drawing: its real matrices, from token vectors to new token vectors."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from course_lib.plots.arrays import as_array
from course_lib.plots.labels import label_axis
from course_lib.runtime import CourseError

# name of a panel: (column, row) on a grid of 5 × 3, title
PANELS = {
    "x": (0, 1, "x\ntoken vectors"),
    "query": (1, 0, "query = x @ w_query\nwhat am I looking for?"),
    "key": (1, 1, "key = x @ w_key\nwhat do I offer?"),
    "value": (1, 2, "value = x @ w_value\nwhat do I pass on?"),
    "scores": (2, 0.5, "① ② scores\nquery · key / √d_k"),
    "weights": (3, 0.5, "③ weights\nsoftmax of each row"),
    "output": (4, 1.25, "④ output = weights @ value\nnew token vectors"),
}
ARROWS = (
    ("x", "query"), ("x", "key"), ("x", "value"), ("query", "scores"), ("key", "scores"),
    ("scores", "weights"), ("weights", "output"), ("value", "output"),
)  # fmt: skip


def attention_flow(
    matrices: dict[str, np.ndarray], labels: Sequence[str], features: Sequence[str] = ()
) -> dict[str, Axes]:
    """Draw x, query, key, value, scores, weights and output, each (tokens, its width), as panels
    joined by arrows. Returns the Axes by name.

    `features` names the columns of those panels that are as wide as there are names. Positive
    numbers are blue, negative ones red. Raises CourseError if a matrix is missing or has not one
    row for each label.
    """
    arrays = {name: as_array(matrix) for name, matrix in matrices.items()}
    if arrays.keys() != PANELS.keys():
        raise CourseError(f"got the matrices {', '.join(arrays)}; give exactly {', '.join(PANELS)}")
    for name, array in arrays.items():
        if array.ndim != 2 or len(array) != len(labels):
            raise CourseError(
                f"{name} has shape {array.shape}; give one row for each of the {len(labels)} labels"
            )
    figure = plt.figure(figsize=(10.6, 7.0), layout="none")
    axes = {name: _panel(figure, name, arrays[name], labels, features) for name in PANELS}
    for start, end in ARROWS:
        _arrow(figure, axes[start], axes[end])
    return axes


def _panel(
    figure: Figure, name: str, array: np.ndarray, labels: Sequence[str], features: Sequence[str]
) -> Axes:
    column, row, title = PANELS[name]
    width, height = 0.105, 0.155
    ax = figure.add_axes((0.065 + column * 0.2, 0.75 - row * 0.34, width, height))
    limit = max(abs(array).max(), 1e-9)
    ax.imshow(array, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
    ax.set_title(title, fontsize=9)
    label_axis(ax.yaxis, labels)
    columns = labels if name in ("scores", "weights") else features
    if len(columns) == array.shape[1]:
        label_axis(ax.xaxis, columns)
    else:
        ax.set_xticks([])
    ax.set_xlabel(f"{array.shape[0]} × {array.shape[1]}", fontsize=8, labelpad=1)
    ax.tick_params(labelsize=8, length=2)
    for at in np.ndindex(array.shape):
        dark = abs(array[at]) > 0.6 * limit
        text = f"{array[at] + 0.0:.2f}".rstrip("0").rstrip(".")  # + 0.0: no "-0"
        ax.text(at[1], at[0], text, ha="center", va="center", fontsize=7.5,
                color="white" if dark else "black")  # fmt: skip
    return ax


def _arrow(figure: Figure, start: Axes, end: Axes) -> None:
    here, there = start.get_position(), end.get_position()
    figure.add_artist(
        FancyArrowPatch(
            (here.x1 + 0.006, (here.y0 + here.y1) / 2),
            (there.x0 - 0.042, (there.y0 + there.y1) / 2),
            transform=figure.transFigure,
            arrowstyle="-|>",
            mutation_scale=14,
            color="0.45",
            shrinkA=0,
            shrinkB=0,
        )
    )
