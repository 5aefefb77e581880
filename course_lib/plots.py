"""Pictures: arrays and labels in, matplotlib Axes out. Nothing here shows or saves a figure.

Attention heatmaps have one orientation and one colour scale everywhere: a row is a query (the
token that reads), a column a key (the token read), white is 0 and the darkest blue is 1.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator

from course_lib.runtime import CourseError, notice

CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Noto Sans CJK JP", "Source Han Sans SC",
    "PingFang SC", "Hiragino Sans GB", "Heiti SC", "Songti SC", "STHeiti", "Arial Unicode MS",
    "Microsoft YaHei", "SimHei", "SimSun", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei",
    "Droid Sans Fallback", "AR PL UMing CN", "Unifont",
)  # fmt: skip
WHITESPACE = {"\n": "⏎", "\t": "⇥", " ": "␣"}
MOST_LABELS = 70  # more rows than this leave no room for a label each


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
    _label_axis(ax.yaxis, query_labels)
    _label_axis(ax.xaxis, key_labels)
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
    columns = min(4, len(values))
    rows = -(-len(values) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.1 * columns, 3.1 * rows + 0.3), squeeze=False
    )
    axes = axes.ravel()
    for head, ax in enumerate(axes):
        if head >= len(values):
            ax.remove()
            continue
        heatmap(values[head], labels, ax=ax, title=f"head {head}")
        ax.tick_params(labelsize="small")
        if head % columns:
            ax.set_yticklabels([])
            ax.set_ylabel("")
        if head + columns < len(values):
            ax.set_xticklabels([])
            ax.set_xlabel("")
    figure.suptitle(title, parse_math=False)
    return axes[: len(values)]


def loss_curve(
    steps: Sequence[int],
    train_loss: Sequence[float],
    validation: Sequence[tuple[int, float]] = (),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Training loss in nats at each step, and (step, loss) pairs of the validation split."""
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


def shown(ax: Axes) -> np.ndarray:
    """The numbers that the first picture in an Axes shows: what a heatmap was given."""
    if not ax.images:
        raise CourseError("these Axes show no picture; give the Axes that heatmap returned")
    return np.asarray(ax.images[0].get_array())


def visible(label: str) -> str:
    """A token as a reader can see it: ⏎ a newline, ␣ a space, U+0000 what has no form."""
    return "".join(
        WHITESPACE.get(c, f"U+{ord(c):04X}" if unicodedata.category(c)[0] == "C" else c)
        for c in label
    )


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


def _label_axis(axis, labels: Sequence[str]) -> None:
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
