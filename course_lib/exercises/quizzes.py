"""`quiz`: a lesson's questions, with an answer to each choice.

What is stored in a notebook is HTML with the answers folded, and plain text: both read well where
nothing runs. In a live notebook the radio buttons of explorers.quiz_view appear in its place.
"""

from __future__ import annotations

from course_lib.exercises import cards
from course_lib.exercises.cards import html_text
from course_lib.exercises.model import Question
from course_lib.exercises.progress_store import record_quiz
from course_lib.exercises.registry import quiz_of
from course_lib.runtime import edition


def quiz(lesson: str) -> None:
    """Show a lesson's quiz. Raises CourseError for a lesson without one."""
    questions = quiz_of(lesson)
    live = cards.in_notebook() and not edition()
    if not live:
        cards.show_both(quiz_html(questions), quiz_text(questions))
        return
    from course_lib.explorers.quiz_view import STYLE, show_quiz

    cards.show_both(STYLE + quiz_html(questions), quiz_text(questions))

    def record(at: int, chosen: list[int]) -> None:
        record_quiz(lesson, at + 1, chosen, frozenset(chosen) == questions[at].right)

    def explain(at: int, chosen: frozenset[int]) -> str:
        return explanation(questions[at], chosen)

    show_quiz(questions, explain, record)


def quiz_html(questions: tuple[Question, ...]) -> str:
    """The questions as HTML, the answer to each folded below it."""
    parts = ['<div class="course-quiz">']
    for number, question in enumerate(questions, start=1):
        choices = [f"<li>{html_text(choice.text)}</li>" for choice in question.choices]
        parts += [
            f"<p><strong>{number}. {html_text(question.text)}</strong>{_how(question)}</p>",
            "<ul>",
            *choices,
            "</ul>",
            f"<details><summary>Answer to {number}</summary>",
            _reasons(question),
            "</details>",
        ]
    return "\n".join([*parts, "</div>"])


def quiz_text(questions: tuple[Question, ...]) -> str:
    """The questions as plain text, all answers at the end."""
    lines, answers = [], ["Answers"]
    for number, question in enumerate(questions, start=1):
        lines += [f"{number}. {question.text}{_how(question)}"]
        answers += [f"{number}."]
        for choice in question.choices:
            lines.append(f"   ( ) {choice.text}")
            answers += [f"   {_word(choice.right)}: {choice.text}", f"      {choice.reason}"]
        lines.append("")
    return "\n".join(lines + answers)


def explanation(question: Question, chosen: frozenset[int]) -> str:
    """What to say, as HTML, to a learner who made these choices (counted from 0)."""
    word = "✓ Right." if chosen == question.right else "△ Not quite."
    return f"<strong>{word}</strong>\n{_reasons(question, chosen)}"


def _reasons(question: Question, chosen: frozenset[int] = frozenset()) -> str:
    """Every choice with its reason; the chosen ones are marked as such."""
    lines = []
    for at, choice in enumerate(question.choices):
        yours = " (your choice)" if at in chosen else ""
        lines.append(
            f"<li>{_word(choice.right)}{yours}: {html_text(choice.text)}<br>"
            f"{html_text(choice.reason)}</li>"
        )
    return "\n".join(["<ul>", *lines, "</ul>"])


def _how(question: Question) -> str:
    return " (several are right)" if len(question.right) > 1 else ""


def _word(right: bool) -> str:
    return "✓ right" if right else "✗ wrong"
