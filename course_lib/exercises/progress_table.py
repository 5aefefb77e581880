"""Progress as rows, as a table in a notebook, and as plain text. Needs no torch."""

from __future__ import annotations

import html
from dataclasses import dataclass

from course_lib.exercises import cards, progress_store
from course_lib.exercises.registry import lessons, outlines, quiz_length


@dataclass(frozen=True)
class ExerciseRow:
    """One exercise and how far the learner is with it. Times are ISO 8601 in UTC, or None."""

    lesson: str
    id: str
    title: str
    stars: int
    minutes: int
    attempts: int
    passes: int
    hints: int
    first_attempt: str | None
    last_attempt: str | None
    first_pass: str | None

    @property
    def status(self) -> str:
        """ "passed", "not yet" (tried) or "not attempted"."""
        if self.passes:
            return "passed"
        return "not yet" if self.attempts else "not attempted"


@dataclass(frozen=True)
class QuizRow:
    """How many of a lesson's quiz questions were answered, and how many of them rightly."""

    lesson: str
    questions: int
    answered: int
    right: int


def progress_rows() -> tuple[ExerciseRow, ...]:
    """One row for each exercise of the course, in order."""
    records = progress_store.read()["exercises"]
    rows = []
    for lesson in lessons():
        for known in outlines(lesson):
            record = records.get(known.id, {})
            counts = [record.get(name, 0) for name in progress_store.COUNTS]
            times = [record.get(t) for t in ("first_attempt", "last_attempt", "first_pass")]
            about = (known.id, known.title, known.stars, known.minutes)
            rows.append(ExerciseRow(lesson, *about, *counts, *times))
    return tuple(rows)


def quiz_rows() -> tuple[QuizRow, ...]:
    """One row for each lesson that has a quiz."""
    quizzes = progress_store.read()["quizzes"]
    rows = []
    for lesson in lessons():
        count = quiz_length(lesson)
        given = [quizzes.get(lesson, {}).get(str(at)) for at in range(1, count + 1)]
        answered = [answer for answer in given if answer]
        right = sum(answer.get("right") is True for answer in answered)
        rows.append(QuizRow(lesson, count, len(answered), right))
    return tuple(row for row in rows if row.questions)


def progress() -> None:
    """Show how far you are: a table in Jupyter, plain text in a terminal."""
    cards.show_both(_html(), progress_text())


def progress_text() -> str:
    """The table of progress as plain text."""
    rows = progress_rows()
    width = max((len(row.title) for row in rows), default=0)
    lines = [_summary(rows)]
    for lesson in lessons():
        lines += ["", f"Lesson {lesson}"]
        lines += [
            f"  {cards.SIGNS[row.status]} {row.title:<{width}}  {_stars(row):<3}  {_story(row)}"
            for row in rows
            if row.lesson == lesson
        ]
        lines += [f"  Quiz: {_quiz_story(quiz)}" for quiz in quiz_rows() if quiz.lesson == lesson]
    return "\n".join(lines)


def _html() -> str:
    rows = progress_rows()
    heads = ("lesson", "exercise", "stars", "state", "attempts", "hints")
    lines = [heads]
    for lesson in lessons():
        for row in rows:
            if row.lesson == lesson:
                state = f"{cards.SIGNS[row.status]} {row.status}"
                lines.append((lesson, row.title, _stars(row), state, row.attempts, row.hints))
        for quiz in quiz_rows():
            if quiz.lesson == lesson:
                lines.append((lesson, "Quiz", "", _quiz_story(quiz), "", ""))
    table = [_table_row("th" if line is heads else "td", line) for line in lines]
    return "\n".join([f"<p><strong>{_summary(rows)}</strong></p>", "<table>", *table, "</table>"])


def _table_row(tag: str, cells: tuple) -> str:
    shown = (html.escape(str(cell)) for cell in cells)
    style = 'style="text-align:left"'
    return "<tr>" + "".join(f"<{tag} {style}>{cell}</{tag}>" for cell in shown) + "</tr>"


def _summary(rows: tuple[ExerciseRow, ...]) -> str:
    passed = sum(row.status == "passed" for row in rows)
    return f"{passed} of {len(rows)} exercises passed"


def _stars(row: ExerciseRow) -> str:
    return "★" * row.stars


def _story(row: ExerciseRow) -> str:
    parts = [row.status]
    if row.attempts:
        parts.append(f"{row.attempts} attempt" + "s" * (row.attempts != 1))
    if row.hints:
        parts.append(f"{row.hints} hint" + "s" * (row.hints != 1))
    return ", ".join(parts)


def _quiz_story(quiz: QuizRow) -> str:
    return f"{quiz.right} of {quiz.questions} right" + (
        f", {quiz.questions - quiz.answered} to go" if quiz.answered < quiz.questions else ""
    )
