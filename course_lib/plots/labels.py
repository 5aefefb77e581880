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
    "PingFang SC", "Hiragino Sans GB", "Heiti SC", "Heiti TC", "Songti SC", "STHeiti",
    "Arial Unicode MS",
    "Microsoft YaHei", "SimHei", "SimSun", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "AR PL UMing CN", "Unifont",
)  # fmt: skip
WHITESPACE = {"\n": "⏎", "\t": "⇥", " ": "␣"}
MOST_LABELS = 70  # more rows than this leave no room for a label each


def visible(label: str) -> str:
    """A token as a reader can see it: ⏎ a newline, ␣ a space, U+200B what has no form of its own.

    An accent that stands alone is put over a dotted circle.
    """
    shown = "".join(
        WHITESPACE.get(c, _code(c) if unicodedata.category(c)[0] in "CZ" else c) for c in label
    )
    return "◌" + shown if unicodedata.category(shown[:1] or " ")[0] == "M" else shown


def label_axis(axis: Axis, labels: Sequence[str]) -> None:
    """Write one label at each row or column; every second, third … where there is no room."""
    every = -(-len(labels) // MOST_LABELS)
    texts, fonts = drawable([visible(label) for label in labels][::every])
    axis.set_major_locator(FixedLocator(range(0, len(labels), every)))
    axis.set_major_formatter(FixedFormatter(texts))
    rotate = axis.axis_name == "x" and max(map(len, texts), default=0) > 2
    for tick in axis.get_ticklabels():
        tick.set_parse_math(False)  # a label is text, also where it has dollar signs
        tick.set_fontfamily(fonts)
        if rotate:
            tick.set(rotation=55, ha="right", rotation_mode="anchor")


def drawable(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts as they can be drawn here, and the font families to draw them in.

    A character that no font has is shown by its code point, and the user told once how to mend it.
    """
    fonts = list(plt.rcParams["font.family"])
    lacking = _without_glyph(set("".join(texts)), fonts)
    if lacking and (chinese := cjk_font()):
        fonts.append(chinese)
        lacking = _without_glyph(lacking, [chinese])
    if lacking:
        _tell_of_missing_font()
    return ["".join(_code(c) if c in lacking else c for c in text) for text in texts], fonts


@functools.cache
def cjk_font() -> str | None:
    """The name of an installed font with Chinese characters, or None."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in CJK_FONTS if name in installed), None)


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"


def _without_glyph(characters: set[str], families: list[str]) -> set[str]:
    properties = [font_manager.FontProperties(family=[family]) for family in families]
    fonts = [font_manager.get_font(font_manager.findfont(each)) for each in properties]
    return {
        c
        for c in characters
        if c != "\n" and not any(font.get_char_index(ord(c)) for font in fonts)
    }


@functools.cache  # once is enough
def _tell_of_missing_font() -> None:
    notice(
        "no installed font has some of the characters, so pictures show their code points (床 is "
        "U+5E8A); install one, for Chinese for example Noto Sans CJK SC, and restart the kernel"
    )
