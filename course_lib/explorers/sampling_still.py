"""The bars of a next character as a picture: what sampling_bars counted, and what removed what."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course_lib.generation import Sampling
from course_lib.plots.labels import drawable, label_axis, visible

SOLID, GAIN, GONE, BEFORE = "#1f77b4", "#9ecae1", "#d8d8d8", "#555555"
LETTERS = {"temperature": "T", "top-k": "k", "top-p": "p"}


def draw_bars(shown: dict[str, Any], text: str, sampling: Sampling) -> Figure:
    """Bars of what sampling_bars gave, the likeliest first, after the end of a text."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    ax = figure.subplots()
    for at, bar in enumerate(shown["bars"]):
        if bar["fate"] == "kept":
            ax.bar(at, bar["final"], color=GAIN)
            ax.bar(at, min(bar["heated"], bar["final"]), color=SOLID)
        else:
            ax.bar(at, bar["heated"], color=GONE, hatch="///", edgecolor="white")
            ax.annotate(LETTERS[bar["fate"]], (at, max(bar["heated"], bar["raw"])), (0, 2),
                        textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
        ax.bar(at, bar["raw"], fill=False, edgecolor=BEFORE, linestyle=":", width=0.9)
    label_axis(ax.xaxis, [bar["label"] for bar in shown["bars"]])
    ax.set_ylabel("probability")
    (title,), fonts = drawable([f"after “{visible(text)}”, {in_words(sampling)}"])
    ax.set_title(title, parse_math=False, fontfamily=fonts)
    count = shown["of"] - shown["kept"]
    handles = [
        Patch(fill=False, edgecolor=BEFORE, linestyle=":", label="as the model gave it"),
        Patch(color=SOLID, label=f"what is drawn from: {shown['kept']} of {shown['of']}"),
    ]
    if count:
        handles.append(Patch(color=GAIN, label="gained from those removed"))
        handles.append(Patch(facecolor=GONE, hatch="///", edgecolor="white",
                             label=f"removed: {count} (by top-k, top-p, T)"))  # fmt: skip
    ax.legend(handles=handles, frameon=False, fontsize=9)
    return figure


def in_words(sampling: Sampling) -> str:
    """The settings as one says them."""
    parts = [f"temperature {sampling.temperature:g}"]
    parts += [f"top-k {sampling.top_k}"] if sampling.top_k is not None else []
    parts += [f"top-p {sampling.top_p:g}"] if sampling.top_p is not None else []
    return ", ".join(parts)
