"""How an explorer stands in a notebook: a picture that stays, and in a live one the widget.

A saved widget cannot be shown again after reopening: its model went with the kernel. So the still
is displayed first, and a rule of style shows whichever of the two works: the still steps back while
a live widget that has drawn follows it, and the place of a widget without model is left out.

A new explorer NAME is a class of `Explorer` in NAME_explorer.py: traits that travel to the browser,
`_esm = front_end("NAME")`, and a method `still` that draws the same with matplotlib. Its front end
is plain JavaScript in web/: NAME_core.mjs computes, without a page, so that Node tests it in
tests/explorers/web; NAME_view.mjs draws, with the parts of page.mjs, and its default export is
anywidget's {render}. It shows its state in data-* attributes of the root, which browser tests read,
can be used by keyboard, follows the theme, loads nothing from a network, and shows texts as text,
never as markup.
"""

from __future__ import annotations

import io
from pathlib import Path

import anywidget
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from course_lib.runtime import edition, in_notebook

WEB = Path(__file__).with_name("web")
CHILD = ".jp-OutputArea-child"
LOST = ".jupyter-widgets.jp-OutputArea-output"  # a live view has its widgets one level deeper
MARK = "course-still"
STYLE = f"""<style>
{CHILD}:has(.{MARK}) + {CHILD}:has(~ {CHILD} .course-explorer:not(:empty)) {{ display: none; }}
{CHILD}:has(.{MARK}) ~ {CHILD}:has(> {LOST}) {{ display: none; }}
</style><span class="{MARK}"></span>"""


def front_end(name: str) -> str:
    """The JavaScript of an explorer as one module: the shared parts, its core and its view."""
    files = ("common.mjs", "page.mjs", f"{name}_core.mjs", f"{name}_view.mjs")
    return "\n".join((WEB / file).read_text(encoding="utf-8") for file in files)


class Explorer(anywidget.AnyWidget):
    """A widget with a still picture, displayed as the last value of a cell or by display()."""

    _css = (WEB / "explorer.css").read_text(encoding="utf-8")

    def still(self) -> Figure:
        """What the explorer shows, as a picture."""
        raise NotImplementedError

    def still_text(self) -> str:
        """What the picture shows, in words, where neither picture nor widget can be shown."""
        raise NotImplementedError

    def _show_still(self) -> None:
        from IPython.display import display

        display({"image/png": _png(self.still()), "text/plain": self.still_text()}, raw=True)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        live = in_notebook() and not edition()
        if live:
            display({"text/html": STYLE, "text/plain": ""}, raw=True)
        self._show_still()
        if live:
            bundle = self._repr_mimebundle_()
            bundle = bundle[0] if isinstance(bundle, tuple) else bundle
            display({**bundle, "text/plain": "Run this cell to explore."}, raw=True)


def _png(figure: Figure) -> bytes:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=80)
    plt.close(figure)  # one of pyplot's would be shown once more at the end of the cell
    return picture.getvalue()
