"""The quiz's widgets, driven without a browser."""

import ipywidgets
import pytest

from course_lib.exercises.model import Choice, Question
from course_lib.explorers.quiz_view import STYLE, quiz_box

QUESTIONS = (
    Question("One of `these`?", (Choice("`a`", True, "yes"), Choice("b", False, "no"))),
    Question(
        "Two?", (Choice("a", True, "yes"), Choice("b", True, "yes"), Choice("c", False, "no"))
    ),
)


@pytest.fixture
def heard():
    return []


@pytest.fixture
def box(heard):
    def explain(at, chosen):
        return f"question {at}, chosen {sorted(chosen)}"

    return quiz_box(QUESTIONS, explain, lambda at, chosen: heard.append((at, chosen)))


def test_a_choice_is_heard_and_explained_at_once(box, heard):
    _, buttons, feedback = box.children[0].children
    assert isinstance(buttons, ipywidgets.RadioButtons) and buttons.value is None
    assert [label for label, _ in buttons.options] == ["a", "b"]
    buttons.value = 1
    assert heard == [(0, [1])] and feedback.value == "question 0, chosen [1]"
    buttons.value = 0
    assert heard == [(0, [1]), (0, [0])]


def test_several_right_choices_are_ticked_and_then_checked(box, heard):
    _, *boxes, button, feedback = box.children[1].children
    boxes[0].value = boxes[2].value = True
    assert heard == []
    button.click()
    assert heard == [(1, [0, 2])] and feedback.value == "question 1, chosen [0, 2]"


def test_several_are_announced(box):
    titles = [part.children[0].value for part in box.children]
    assert ["several are right" in title for title in titles] == [False, True]


def test_the_style_touches_only_the_quiz():
    rules = [line for line in STYLE.split("\n") if "{" in line]
    assert len(rules) == 8 and all("course-quiz" in rule.split("{")[0] for rule in rules)
    assert "course-quiz-live" in quiz_box((), None, None)._dom_classes
