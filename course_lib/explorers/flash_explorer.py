"""FlashAttention tile by tile: what each query knows, what is rescaled, and what has been moved.

Every step is computed beforehand (flash_steps); the front end goes back and forth among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from course_lib.explorers.flash_steps import flash_steps
from course_lib.explorers.frame import Explorer, front_end
from course_lib.model.traffic import plain_bytes
from course_lib.plots.labels import label_axis, visible
from course_lib.runtime import CourseError

MOST_TOKENS, MOST_NUMBERS = 12, 3  # what the tables can show


class FlashExplorer(Explorer):
    """Causal attention by tiles, for query, key and value (token, d) each, step by step.

    FlashExplorer(tokens, query, key, value, query_tile=3, key_tile=2)

    A step fetches a tile of queries, or a tile of keys and values that it meets, or writes its
    outputs. Numbers are counted as `number_bytes` each. Raises CourseError if shapes do not fit, or
    there is too much to show.
    """

    _esm = front_end("flash")

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        tokens: Sequence[str],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        query_tile: int = 3,
        key_tile: int = 2,
        number_bytes: int = 2,
        row: int = 0,
    ) -> None:
        n = len(tokens)
        _require_shapes(n, {"query": query, "key": key, "value": value}, query_tile, key_tile)
        if not 0 <= row < n:
            raise CourseError(f"there is no row {row}; choose 0 to {n - 1}")
        labels = [visible(token) for token in tokens]
        parts = [part.detach().float() for part in (query, key, value)]
        steps, moved = [], 0
        for step in flash_steps(labels, *parts, query_tile, key_tile):
            moved += step.pop("numbers") * number_bytes
            steps.append({**step, "bytes": moved})
        plain = plain_bytes(n, query.shape[1], number_bytes)
        data = {"labels": labels, "steps": steps, "plain": plain}
        super().__init__(data=data, selected={"step": 0, "row": row})

    def still(self) -> Figure:
        """The order in which tiles are visited, and what happens to the chosen query."""
        figure = Figure(figsize=(10, 0.36 * len(self.data["labels"]) + 2.3), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
        _draw_tiles(left, self.data)
        _draw_row(right, self.data, self.selected["row"])
        return figure

    def still_text(self) -> str:
        """What the still is."""
        visits = sum(step["kind"] == "tile" for step in self.data["steps"])
        return f"Attention by tiles: {visits} tiles are read, in order, and the sums of one query."


def _draw_tiles(ax: Axes, data: dict[str, Any]) -> None:
    """A square for each query and key; visited tiles with their turn, the others hatched."""
    n = len(data["labels"])
    ax.add_patch(Rectangle((-0.5, -0.5), n, n, facecolor="0.93", edgecolor="0.75", hatch="///"))
    visits = [step for step in data["steps"] if step["kind"] == "tile"]
    for turn, step in enumerate(visits, start=1):
        (top, bottom), (left, right) = step["rows"], step["columns"]
        place, width, height = (left - 0.5, top - 0.5), right - left, bottom - top
        ax.add_patch(Rectangle(place, width, height, facecolor="#cfe1f2", edgecolor="#08306b"))
        for i, row in enumerate(step["scores"]):
            for j, score in enumerate(row):
                if score == "−∞":
                    spot = (left + j - 0.5, top + i - 0.5)
                    ax.add_patch(Rectangle(spot, 1, 1, facecolor="white", edgecolor="0.75"))
        middle = (left + right - 1) / 2, (top + bottom - 1) / 2
        ax.text(*middle, str(turn), ha="center", va="center", fontsize=12, weight="bold")
    label_axis(ax.yaxis, data["labels"])
    label_axis(ax.xaxis, data["labels"])
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    ax.set_xlabel("key")
    ax.set_ylabel("query")
    ax.set_title("tiles in the order they are read", fontsize=10)


def _draw_row(ax: Axes, data: dict[str, Any], row: int) -> None:
    """A table: the sums of one query after each step that it is part of."""
    ax.axis("off")
    lines = []
    for step in data["steps"]:
        first, last = step["rows"]
        if first <= row < last:
            known = step["known"][row - first]
            keys = {"fetch": "—", "write": "output"}.get(step["kind"])
            keys = keys or ", ".join(data["labels"][slice(*step["columns"])])
            result = known.get("output", "")
            cells = [keys, known["largest"], known["total"], known["mixed"], result]
            lines.append([*cells, f"{step['bytes']:,}"])
    heads = ["keys read", "largest", "total", "mixed", "output", "bytes so far"]
    table = ax.table(lines, colLabels=heads, loc="upper center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.auto_set_column_width(list(range(len(heads))))
    table.scale(1, 1.5)
    ax.set_title(f"what {data['labels'][row]} knows", fontsize=10, parse_math=False)


def _require_shapes(n: int, parts: dict[str, Tensor], query_tile: int, key_tile: int) -> None:
    if not 0 < n <= MOST_TOKENS:
        raise CourseError(f"there are {n} tokens; give 1 to {MOST_TOKENS}, what a table can show")
    for name, part in parts.items():
        if part.ndim != 2 or len(part) != n:
            raise CourseError(
                f"{name} has shape {tuple(part.shape)}; give one row for each of the {n} tokens"
            )
    if parts["query"].shape != parts["key"].shape:
        raise CourseError(
            f"queries have {parts['query'].shape[1]} numbers and keys {parts['key'].shape[1]}; "
            "a dot product needs as many in both"
        )
    width = parts["value"].shape[1]
    if not 0 < width <= MOST_NUMBERS:
        raise CourseError(f"value has {width} numbers a token; give 1 to {MOST_NUMBERS}")
    for name, size in (("query_tile", query_tile), ("key_tile", key_tile)):
        if size < 1:
            raise CourseError(f"{name}={size} is no size of a tile; use 1 or more")
