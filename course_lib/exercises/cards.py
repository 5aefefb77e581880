"""Shows a small card in Jupyter and the same words as plain text in a terminal.

The output always holds both: HTML in JupyterLab's own colours, which follow its light and dark
themes, and plain text. Colour is never alone: each state has a sign and a word. Backticks in a text
become <code>, and there every character stands for itself; everything else is escaped, and no
dollar sign begins a formula.
"""

from __future__ import annotations

import html
import re
import sys
from dataclasses import dataclass

from course_lib.runtime import in_notebook

COLOURS = {
    "passed": "var(--jp-success-color1, #2e7d32)",
    "not yet": "var(--jp-warn-color1, #c25700)",
    "not attempted": "var(--jp-ui-font-color2, #666666)",
    "told": "var(--jp-info-color1, #0277bd)",
}
SIGNS = {"passed": "✓", "not yet": "△", "not attempted": "○", "told": "▸"}
BOX = (
    "border:1px solid var(--jp-border-color2, #8a8a8a);border-left:4px solid {colour};"
    "border-radius:3px;padding:8px 12px;margin:4px 0;max-width:46em;line-height:1.5;"
    "color:var(--jp-content-font-color1, inherit);background:var(--jp-layout-color1, transparent)"
)
PRE = (
    "margin:6px 0;padding:6px 8px;overflow:auto;max-height:20em;white-space:pre;"
    "color:inherit;background:var(--jp-layout-color2, rgba(128,128,128,0.12))"
)
CODE = re.compile(r"(?s)(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
# controls but for tab and line ends, marks that turn the direction of writing, halves of pairs
UNSEEN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@dataclass(frozen=True)
class Card:
    """A headline with a state, paragraphs, and blocks of code or output with a label."""

    state: str
    headline: str
    paragraphs: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()  # (label or "", text)

    def text(self) -> str:
        """The card as plain text."""
        lines = [f"{SIGNS[self.state]} {self.headline}", *self.paragraphs]
        for label, block in self.blocks:
            lines += [label] if label else []
            lines += ["    " + line for line in block.rstrip("\n").split("\n")]
        return literal("\n".join(lines))

    def html(self) -> str:
        """The card as HTML; without its styles (on GitHub) it still reads in order."""
        colour = COLOURS[self.state]
        parts = [
            f'<div class="course-card mathjax_ignore" style="{BOX.format(colour=colour)}">',
            f'<div><span aria-hidden="true" style="color:{colour}">{SIGNS[self.state]}</span> '
            f"<strong>{html_text(self.headline)}</strong></div>",
        ]
        parts += [f'<p style="margin:6px 0">{html_text(text)}</p>' for text in self.paragraphs]
        for label, block in self.blocks:
            parts += [f"<div>{html_text(label)}</div>"] if label else []
            parts.append(f'<pre style="{PRE}">{html.escape(literal(block))}</pre>')
        return "\n".join([*parts, "</div>"])


def html_text(text: str) -> str:
    """Escape a text; `code`, **strong** and *stressed* words become HTML.

    Code that holds backticks stands between more of them, as `code` makes it.
    """
    spans: list[str] = []

    def put_aside(found: re.Match) -> str:
        inside = found[2]
        if re.fullmatch("(?s) (`.*|.*`) ", inside):  # spaces that keep backticks apart
            inside = inside[1:-1]
        spans.append(f"<code>{inside}</code>")
        return "\0"  # which is nowhere else, for `literal` spells it out

    escaped = CODE.sub(put_aside, html.escape(literal(text)))
    escaped = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escaped)
    escaped = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"<em>\1</em>", escaped)
    return re.sub("\0", lambda _: spans.pop(0), escaped)


def literal(text: str) -> str:
    """A text in which no character hides or moves others: those that would are spelled out."""
    return UNSEEN.sub(lambda found: f"U+{ord(found[0]):04X}", text)


def show(card: Card) -> None:
    """Display a card."""
    show_both(card.html(), card.text())


def show_both(as_html: str, as_text: str) -> None:
    """Display HTML with its plain text in a notebook; print the plain text elsewhere."""
    if in_notebook():
        from IPython.display import display

        display({"text/html": as_html, "text/plain": as_text}, raw=True)
    else:
        say(as_text)


def say(text: str) -> None:
    """Print, also where the console lacks a character: it is shown as a question mark."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(text.encode(encoding, errors="replace").decode(encoding))
