"""The position explorer's still pictures, one for each of its views."""

from __future__ import annotations

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.plots.labels import drawable

QUERY, KEY, MARK = "tab:blue", "tab:orange", "#d81b60"


def draw_still(data: dict, selected: dict) -> Figure:
    """What is chosen in the explorer, from the same numbers."""
    figure = Figure(figsize=(9.6, 3.0), layout="constrained")
    draw = {"sinusoidal": _sinusoidal, "rotary": _rotary, "alibi": _alibi}[selected["view"]]
    draw(figure, data, selected)
    return figure


def _sinusoidal(figure: Figure, data: dict, selected: dict) -> None:
    numbers, length, position = data["sinusoidal"], data["length"], selected["position"]
    pair = selected["pair"]
    table, wave, product = figure.subplots(1, 3)
    vectors = numbers["vectors"]
    table.imshow(vectors, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    table.add_patch(Rectangle((2 * pair - 0.5, -0.5), 2, length, fill=False, edgecolor=MARK))
    table.set(xlabel="dimension", ylabel="position", title="blue: positive, red: negative")
    for column, name in ((2 * pair, "sine"), (2 * pair + 1, "cosine")):
        wave.plot([row[column] for row in vectors], label=f"{name}, dimension {column}")
    wave.set(
        xlabel="position", title=f"pair {pair}: wavelength {numbers['wavelengths'][pair]:,.1f}"
    )
    wave.legend(loc="lower left", fontsize="small")
    product.plot(range(-position, length - position), numbers["products"][position])
    product.set(xlabel=f"position − {position}", title=f"dot product with position {position}")
    for ax, at in ((wave, position), (product, 0)):
        ax.axvline(at, color=MARK, linestyle=":")


def _rotary(figure: Figure, data: dict, selected: dict) -> None:
    numbers, length = data["rotary"], data["length"]
    pair = selected["pair"]
    m, n, words = selected["m"], selected["n"], numbers["words"][selected["words"]]
    plane, part, whole = figure.subplots(1, 3)
    arrows = ((words["queries"], m, QUERY, "query"), (words["keys"], n, KEY, "key"))
    size = max(max(map(abs, turned[pair][at])) for turned, at, _, _ in arrows) * 1.25 + 1e-6
    for turned, at, colour, name in arrows:
        for (x, y), alpha in ((turned[pair][0], 0.25), (turned[pair][at], 1.0)):
            head = {"color": colour, "alpha": alpha, "arrowstyle": "-|>", "shrinkA": 0}
            plane.annotate("", (x, y), (0, 0), arrowprops={**head, "shrinkB": 0, "lw": 2})
        plane.plot([], [], color=colour, label=f"{name} at {at} (pale: at 0)")
    plane.set(xlim=(-size, size), ylim=(-size, size), aspect="equal", title=f"pair {pair}")
    plane.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small")
    distances = range(1 - length, length)
    part.plot(distances, words["parts"][pair])
    part.set(title=f"dot product of pair {pair}")
    whole.plot(distances, words["sums"])
    _literal_title(whole, f"of all pairs · {words['name']}")
    for ax in (part, whole):
        ax.axvline(m - n, color=MARK, linestyle=":")
        ax.set(xlabel="distance m − n")


def _alibi(figure: Figure, data: dict, selected: dict) -> None:
    numbers = data["alibi"][selected["heads"]]
    penalty, weights = figure.subplots(1, 2)
    steepest = sorted(range(numbers["n_heads"]), key=lambda head: -numbers["slopes"][head])
    for rank, head in enumerate(steepest):
        colour = colormaps["viridis"](rank / max(len(steepest), 2))
        label = f"{head}: {fraction(numbers['slopes'][head])}"
        penalty.plot(numbers["penalties"][head], color=colour, label=label)
    penalty.set(xlabel="distance", ylabel="added to the score", ylim=(-8.5, 0.5))
    penalty.set_title("penalty; head: slope")
    penalty.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
    roots = PowerNorm(0.5, vmin=0, vmax=1)  # as in the explorer: weak weights are seen too
    shown = {"cmap": "Blues", "norm": roots, "aspect": "auto", "interpolation": "nearest"}
    weights.imshow(numbers["weights"], **shown)
    weights.set(xlabel="distance", ylabel="head", title="weights of the last token, equal scores")
    weights.set_yticks(range(numbers["n_heads"]))


def fraction(slope: float) -> str:
    """A slope as 1/16, or 0.354 where it is none of a whole number."""
    whole = round(1 / slope)
    return f"1/{whole}" if abs(slope * whole - 1) < 1e-6 else f"{slope:.3g}"


def _literal_title(ax: Axes, text: str) -> None:
    (text,), fonts = drawable([text])
    ax.set_title(text, parse_math=False, fontfamily=fonts)
