"""What the caches of published models take, for any length, batch and precision, as bars.

Thin: the numbers are course_lib/model/model_cards.py's, the formula its cache_bytes; the front end
has the same arithmetic, so that a bar follows the keyboard without asking the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import traitlets
from matplotlib.figure import Figure

from course_lib.explorers.frame import Explorer, front_end
from course_lib.model.model_cards import BYTES, CARDS, ModelCard, cache_bytes
from course_lib.runtime import CourseError

MOST_TOKENS, MOST_TEXTS = 2**20, 1024  # as LIMITS in web/cache_core.mjs
UNITS = {"PB": 10**15, "TB": 10**12, "GB": 10**9, "MB": 10**6, "kB": 10**3}


class CacheCalculator(Explorer):
    """A bar for each model: CacheCalculator(tokens=8192, batch_size=1, number="bfloat16").

    Type tokens, texts and precision; choose a model by mouse or arrow keys, and the line below says
    how its bytes come about. A pale bar is a model made for shorter texts. Raises CourseError for
    what it cannot compute.
    """

    _esm = front_end("cache")

    cards = traitlets.List().tag(sync=True)
    widths = traitlets.Dict().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        cards: Sequence[ModelCard] = CARDS,
        *,
        tokens: int = 8192,
        batch_size: int = 1,
        number: str = "bfloat16",
    ) -> None:
        if not cards:
            raise CourseError("there is no model to compute with; give at least one card")
        for card in cards:
            cache_bytes(card, tokens, batch_size, number)  # refuses what cannot be
        for name, given, most in (
            ("tokens", tokens, MOST_TOKENS),
            ("batch_size", batch_size, MOST_TEXTS),
        ):
            if given > most:
                raise CourseError(f"{name}={given:,} is more than the page's {most:,}; give less")
        super().__init__(
            cards=[{**asdict(card), "kind": card.kind} for card in cards],
            widths=BYTES,
            selected={"tokens": tokens, "batch": batch_size, "number": number, "model": 0},
        )
        self._shown = tuple(cards)

    def still(self) -> Figure:
        """The bars for what was given at first or is chosen now."""
        sizes = self._sizes()
        figure = Figure(figsize=(8.5, 0.3 * len(sizes) + 1.1), layout="constrained")
        ax = figure.subplots()
        names = [f"{card.name} ({card.kind})" for card in self._shown]
        bars = ax.barh(names, [size / UNITS["GB"] for size in sizes], color="tab:blue")
        ax.bar_label(bars, [said(size) for size in sizes], padding=3, fontsize=8)
        ax.margins(x=0.12)
        ax.invert_yaxis()
        ax.set_xlabel(f"cache in GB: {self._what()}")
        return figure

    def still_text(self) -> str:
        """The same in words."""
        lines = zip(self._shown, self._sizes(), strict=True)
        each = "; ".join(f"{card.name} {said(size)}" for card, size in lines)
        return f"Caches, {self._what()}: {each}."

    def _sizes(self) -> list[int]:
        chosen = self.selected
        numbers = chosen["tokens"], chosen["batch"], chosen["number"]
        return [cache_bytes(card, *numbers) for card in self._shown]

    def _what(self) -> str:
        chosen = self.selected
        texts = "1 text" if chosen["batch"] == 1 else f"{chosen['batch']:,} texts"
        return f"{texts} of {chosen['tokens']:,} tokens, {chosen['number']}"


def said(size: int) -> str:
    """Bytes in the largest unit of which there is one, to three digits."""
    for name, unit in UNITS.items():
        if size >= unit:
            number = size / unit
            return f"{number:.{max(0, 3 - len(str(int(number))))}f} {name}"
    return f"{size} bytes"
