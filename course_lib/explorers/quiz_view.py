"""The quiz with radio buttons: choose, and see at once why.

Thin: it is given the questions, the sentence for each answer, and a function that records. As with
every explorer (frame.py), what stays in the notebook, the folded HTML of the quiz, is displayed
first, and steps back while live buttons follow it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import ipywidgets
from IPython.display import display

from course_lib.explorers.frame import CHILD, LOST, WEB

STYLE = f"""<style>
{CHILD}:has(.course-quiz):has(~ {CHILD} .course-quiz-live) {{ display: none; }}
{CHILD}:has(.course-quiz) ~ {CHILD}:has(> {LOST}) {{ display: none; }}
.course-quiz-live label, .course-quiz-live .widget-checkbox {{ height: auto; line-height: 1.6; }}
.course-quiz-live label {{ display: flex; white-space: normal; overflow: visible; }}
.course-quiz-live .widget-radio-box label {{ flex-flow: row-reverse; justify-content: flex-end; }}
.course-quiz-live input {{ flex: none; }}
.course-quiz-live .widget-html-content {{ line-height: 1.5; }}
.course-quiz-live > .widget-vbox {{ margin-bottom: 12px; max-width: 60em; }}
</style>"""


class Keys(anywidget.AnyWidget):
    """Shows nothing, and lets the arrow keys go through the choices of a question."""

    _esm = (WEB / "quiz_keys.mjs").read_text(encoding="utf-8")


def show_quiz(
    questions: Sequence[Any],
    explain: Callable[[int, frozenset[int]], str],
    record: Callable[[int, list[int]], None],
) -> None:
    """Display the questions below each other.

    `explain(question, chosen)` gives the HTML to show after an answer, `record(question, chosen)`
    hears of it; both count from 0.
    """
    box = ipywidgets.VBox([quiz_box(questions, explain, record), Keys()])
    bundle = box._repr_mimebundle_()
    display({**bundle, "text/plain": "Run this cell to answer the quiz here."}, raw=True)


def quiz_box(questions, explain, record) -> ipywidgets.VBox:
    """The widgets of a quiz, not yet displayed."""
    parts = [_question(at, question, explain, record) for at, question in enumerate(questions)]
    box = ipywidgets.VBox(parts)
    box.add_class("course-quiz-live")
    return box


def _question(at: int, question: Any, explain, record) -> ipywidgets.VBox:
    several = len(question.right) > 1
    feedback = ipywidgets.HTML()

    def answer(chosen: frozenset[int]) -> None:
        record(at, sorted(chosen))
        feedback.value = explain(at, chosen)

    title = f"{at + 1}. {question.text}" + (" (several are right)" if several else "")
    labels = [_plain(choice.text) for choice in question.choices]
    controls = _check_boxes(labels, answer) if several else _radio_buttons(labels, answer)
    return ipywidgets.VBox(
        [ipywidgets.HTML(f"<strong>{html.escape(_plain(title))}</strong>"), *controls, feedback]
    )


def _radio_buttons(labels: list[str], answer) -> list[ipywidgets.Widget]:
    options = [(label, at) for at, label in enumerate(labels)]
    buttons = ipywidgets.RadioButtons(options=options, value=None, layout={"width": "auto"})
    buttons.observe(lambda change: answer(frozenset({change["new"]})), names="value")
    return [buttons]


def _check_boxes(labels: list[str], answer) -> list[ipywidgets.Widget]:
    boxes = [
        ipywidgets.Checkbox(description=label, indent=False, layout={"width": "auto"})
        for label in labels
    ]
    button = ipywidgets.Button(description="Check these")

    def clicked(_: ipywidgets.Button) -> None:
        answer(frozenset(at for at, box in enumerate(boxes) if box.value))

    button.on_click(clicked)
    return [*boxes, button]


def _plain(text: str) -> str:
    return re.sub(r"[`*]", "", text)
