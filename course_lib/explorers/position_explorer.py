"""Word order to play with: sinusoidal clocks, rotary pairs that turn, ALiBi's discount on distance.

Thin: the library's positions give every number (position_numbers.py), once for all positions, pairs
and numbers of heads; the front end chooses among them and draws.
"""

from __future__ import annotations

from collections.abc import Mapping

import traitlets
from matplotlib.figure import Figure
from torch import Tensor

from course_lib.explorers.frame import Explorer, front_end
from course_lib.explorers.position_numbers import (
    alibi_numbers,
    named_words,
    rotary_numbers,
    sinusoidal_numbers,
)
from course_lib.explorers.position_still import draw_still
from course_lib.runtime import CourseError

VIEWS = ("sinusoidal", "rotary", "alibi")
HEADS = (1, 2, 3, 4, 6, 8, 12, 16)
MOST_POSITIONS, MOST_DIMENSIONS = 128, 64  # what a map can show, and what travels quickly


class PositionExplorer(Explorer):
    """Three ways to tell attention where a token stands, side by side.

    PositionExplorer(d_model=64, length=128, view="sinusoidal")
    PositionExplorer(d_head=32, view="rotary", words={"it · animal": (query, key)})
    PositionExplorer(n_heads=12, view="alibi")

    Sinusoidal: choose a pair of dimensions and a position. Rotary: choose a pair and where query
    and key stand; `words` names queries and keys, (d_head,) each, besides those that are always
    there. ALiBi: choose a number of heads and one of them. `selected` is what is chosen, all
    counted from 0. Raises CourseError for sizes that cannot be shown.
    """

    _esm = front_end("position")

    data = traitlets.Dict().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        *,
        d_model: int = 32,
        length: int = 64,
        n_heads: int = 8,
        d_head: int | None = None,
        words: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        view: str = "sinusoidal",
        pair: int | None = None,
    ) -> None:
        d_head = d_model if d_head is None else d_head
        if view not in VIEWS:
            raise CourseError(f"there is no view {view!r}; choose {', '.join(VIEWS)}")
        _require_width("d_model", d_model)
        _require_width("d_head", d_head)
        _require_whole("length", length, 2, MOST_POSITIONS)
        _require_whole("n_heads", n_heads, 1, HEADS[-1])
        data = {
            "length": length,
            "sinusoidal": sinusoidal_numbers(length, d_model),
            "rotary": rotary_numbers(length, named_words(d_head, words or {})),
            "alibi": [alibi_numbers(length, n) for n in sorted({*HEADS, n_heads})],
        }
        pairs = (d_head if view == "rotary" else d_model) // 2
        _require_whole("pair", pair := pairs // 4 if pair is None else pair, 0, pairs - 1)
        start = {"pair": pair, "position": length // 2}
        start |= {"m": 3 * length // 4, "n": 3 * length // 4 - min(7, length // 2), "words": 0}
        chosen = [one["n_heads"] for one in data["alibi"]].index(n_heads)
        super().__init__(data=data, selected={"view": view, **start, "heads": chosen, "head": 0})

    def still(self) -> Figure:
        """The view that is chosen, with what is chosen in it."""
        return draw_still(self.data, self.selected)

    def still_text(self) -> str:
        """What the still is."""
        return {
            "sinusoidal": "Sinusoidal positions: all vectors, one pair of columns, and products.",
            "rotary": "Rotary positions: a query and a key turned, and their product by distance.",
            "alibi": "ALiBi: each head's penalty by distance, and what equal scores would read.",
        }[self.selected["view"]]


def _require_width(name: str, width: int) -> None:
    _require_whole(name, width, 2, MOST_DIMENSIONS)
    if width % 2:
        raise CourseError(f"{name}={width} is odd; pairs need an even number, such as {width + 1}")


def _require_whole(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise CourseError(f"{name}={value!r}; give a whole number from {least} to {most}")
