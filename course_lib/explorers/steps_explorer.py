"""Attention step by step: score, scale, mask, normalise, mix, with all numbers.

Thin: the library's attention gives weights and output, and scores are its formula; the front end
chooses one entry and says how it came about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import traitlets
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.explorers.frame import Explorer, front_end
from course_lib.model.attention import attention
from course_lib.plots.arrays import as_array
from course_lib.plots.labels import drawable, label_axis, visible
from course_lib.runtime import CourseError

MOST_TOKENS, MOST_NUMBERS = 16, 12  # what a table can show
MOST_WRITTEN = 6  # rows or columns of the still with a number in each place


class StepsExplorer(Explorer):
    """The steps of scaled dot-product attention, for query, key and value (token, d) each.

    StepsExplorer(tokens, query, key, value)
    StepsExplorer(tokens, query, key, value, may_attend=causal_mask(len(tokens)))
    StepsExplorer(tokens, query, key, value, features=["living", "place"])

    Choose a step and an entry of its matrix, by mouse or arrow keys: beside it stand the numbers it
    was made of, and below how. `features` names the columns of query, key and value, where these
    are equally wide. Raises CourseError if shapes do not fit, or there is too much to show.
    """

    _esm = front_end("steps")

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        may_attend: Tensor | None = None,
        features: Sequence[str] = (),
        row: int = 0,
    ) -> None:
        _require_shapes(len(tokens), {"query": query, "key": key, "value": value}, may_attend)
        if not 0 <= row < len(tokens):
            raise CourseError(f"there is no row {row}; choose 0 to {len(tokens) - 1}")
        if features and {query.shape[1], value.shape[1]} != {len(features)}:
            raise CourseError(
                f"{len(features)} features for {query.shape[1]} columns of query and key "
                f"and {value.shape[1]} of value; give one name for each column, or none"
            )
        query, key, value = (part.detach().float() for part in (query, key, value))
        output, weights = attention(query, key, value, may_attend)
        score = query @ key.T
        scaled = score / math.sqrt(query.shape[-1])
        masked = None if may_attend is None else scaled.masked_fill(~may_attend, -math.inf)
        self._steps = {"scores": score, "scores / √d_k": scaled, "weights": weights}
        self._steps["output"] = output
        matrices = {"query": query, "key": key, "value": value, "score": score, "scaled": scaled}
        matrices |= {"masked": masked, "weights": weights, "output": output}
        data = {name: _rows(matrix) for name, matrix in matrices.items()}
        data["labels"] = [visible(token) for token in tokens]
        data["features"] = [visible(feature) for feature in features]
        super().__init__(data=data, selected={"step": 0, "row": row, "column": 0})

    def still(self) -> Figure:
        """The matrices of the steps, with numbers where there is room."""
        labels = self.data["labels"]
        figure = Figure(figsize=(11, min(0.4 * len(labels) + 1.8, 5)), layout="constrained")
        for ax, (title, matrix) in zip(figure.subplots(1, 4), self._steps.items(), strict=True):
            limit = max(matrix.abs().max().item(), 1e-9)
            shades = {"cmap": "RdBu", "vmin": -1.6 * limit, "vmax": 1.6 * limit}
            ax.imshow(as_array(matrix), aspect="auto", **shades)
            label_axis(ax.yaxis, labels)
            columns = self.data["features"] if title == "output" else labels
            if columns:
                label_axis(ax.xaxis, columns)
            if max(matrix.shape[1], len(labels)) <= MOST_WRITTEN:
                for (i, j), number in zip(_places(matrix), matrix.flatten().tolist(), strict=True):
                    text = f"{number:.2f}".removesuffix(".00").replace("-", "−")
                    ax.text(j, i, text, ha="center", va="center", fontsize=8)
            (title,), fonts = drawable([title])
            ax.set_title(title, parse_math=False, fontfamily=fonts)
        return figure

    def still_text(self) -> str:
        """What the still is."""
        return f"The steps of attention for {len(self.data['labels'])} tokens, as matrices."


def _rows(matrix: Tensor | None) -> list[list[float | None]] | None:
    """Numbers as JSON has them: no −inf."""
    if matrix is None:
        return None
    return [[x if math.isfinite(x) else None for x in row] for row in matrix.tolist()]


def _places(matrix: Tensor) -> list[tuple[int, int]]:
    return [(i, j) for i in range(matrix.shape[0]) for j in range(matrix.shape[1])]


def _require_shapes(n: int, parts: dict[str, Tensor], may_attend: Tensor | None) -> None:
    for name, part in parts.items():
        if part.ndim != 2 or len(part) != n:
            raise CourseError(
                f"{name} has shape {tuple(part.shape)}; give one row for each of the {n} tokens"
            )
        if not 0 < part.shape[1] <= MOST_NUMBERS:
            raise CourseError(
                f"{name} has {part.shape[1]} numbers a token; give 1 to {MOST_NUMBERS}, what a "
                "table can show"
            )
    if not 0 < n <= MOST_TOKENS:
        raise CourseError(f"there are {n} tokens; give 1 to {MOST_TOKENS}, what a table can show")
    if parts["query"].shape != parts["key"].shape:
        raise CourseError(
            f"queries have {parts['query'].shape[1]} numbers and keys {parts['key'].shape[1]}; "
            "a dot product needs as many in both"
        )
    if may_attend is not None and (may_attend.shape != (n, n) or may_attend.dtype != torch.bool):
        raise CourseError(
            f"may_attend is {may_attend.dtype} of shape {tuple(may_attend.shape)}; "
            f"give bool of shape ({n}, {n})"
        )
