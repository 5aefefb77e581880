"""Tokens as labels: each character shown literally and visibly, in a font that has it."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib import font_manager
from matplotlib.axis import Axis
from matplotlib.ticker import FixedFormatter, FixedLocator

from course_lib.runtime import notice

CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Noto Sans CJK JP", "Source Han Sans SC",
    "PingFang SC", "Hiragino Sans GB", "Heiti SC", "Songti SC", "STHeiti", "Arial Unicode MS",
    "Microsoft YaHei", "SimHei", "SimSun", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "AR PL UMing CN", "Unifont",
)  # fmt: skip
WHITESPACE = {"\n": "⏎", "\t": "⇥", " ": "␣"}
MOST_LABELS = 70  # more rows than this leave no room for a label each


def visible(label: str) -> str:
    """A token as a reader can see it: ⏎ a newline, ␣ a space, U+0000 what has no form."""
    return "".join(
        WHITESPACE.get(c, f"U+{ord(c):04X}" if unicodedata.category(c)[0] == "C" else c)
        for c in label
    )


def label_axis(axis: Axis, labels: Sequence[str]) -> None:
    """Write one label at each row or column; every second, third … where there is no room."""
    every = -(-len(labels) // MOST_LABELS)
    texts = [visible(label) for label in labels][::every]
    fonts = _fonts_for("".join(texts))
    axis.set_major_locator(FixedLocator(range(0, len(labels), every)))
    axis.set_major_formatter(FixedFormatter(texts))
    rotate = axis.axis_name == "x" and max(map(len, texts), default=0) > 2
    for tick in axis.get_ticklabels():
        tick.set_parse_math(False)  # a label is text, also where it has dollar signs
        tick.set_fontfamily(fonts)
        if rotate:
            tick.set(rotation=55, ha="right", rotation_mode="anchor")


def _fonts_for(text: str) -> list[str]:
    usual = list(plt.rcParams["font.family"])
    if not any("\u2e80" <= c <= "\u9fff" or "\uf900" <= c <= "\ufaff" for c in text):
        return usual
    found = cjk_font()
    if found is None:
        notice(
            "no font with Chinese characters was found, so boxes stand for them in pictures; "
            "install one, for example Noto Sans CJK SC, and restart the kernel"
        )
        return usual
    return [*usual, found]


@functools.cache
def cjk_font() -> str | None:
    """The name of an installed font with Chinese characters, or None."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in CJK_FONTS if name in installed), None)
