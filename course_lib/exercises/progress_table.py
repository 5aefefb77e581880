"""Progress as rows and as plain text, and where to go on. Needs no torch.

As HTML, in a notebook, it is the board of progress_board.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from course_lib.exercises import cards, progress_store
from course_lib.exercises.registry import lessons, outlines, quiz_length
from course_lib.runtime import PROJECT_FOLDER


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


@dataclass(frozen=True)
class LessonRow:
    """One lesson: its title and notebook, its exercises, and its quiz or None."""

    number: str
    title: str
    notebook: str | None
    exercises: tuple[ExerciseRow, ...]
    quiz: QuizRow | None

    @property
    def open(self) -> tuple[ExerciseRow, ...]:
        """The exercises that are not passed."""
        return tuple(row for row in self.exercises if row.status != "passed")

    @property
    def minutes_left(self) -> int:
        """What the open exercises take, as they are announced."""
        return sum(row.minutes for row in self.open)

    @property
    def finished(self) -> bool:
        """Whether all exercises are passed and all questions of the quiz answered."""
        return not self.open and (self.quiz is None or self.quiz.answered == self.quiz.questions)


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


def lesson_rows() -> tuple[LessonRow, ...]:
    """One row for each lesson, in order."""
    exercises, quizzes = progress_rows(), {quiz.lesson: quiz for quiz in quiz_rows()}
    return tuple(
        LessonRow(
            number,
            *_title_and_notebook(number),
            tuple(row for row in exercises if row.lesson == number),
            quizzes.get(number),
        )
        for number in lessons()
    )


def next_lesson(rows: tuple[LessonRow, ...]) -> LessonRow | None:
    """The first lesson that is not finished."""
    return next((row for row in rows if not row.finished), None)


def last_tried(rows: tuple[LessonRow, ...]) -> ExerciseRow | None:
    """The exercise that was attempted last."""
    exercises = [row for lesson in rows for row in lesson.exercises]
    tried = [row for row in exercises if isinstance(row.last_attempt, str)]  # the file is a user's
    return max(tried, key=lambda row: row.last_attempt, default=None)


def progress() -> None:
    """Show how far you are: a board in Jupyter, plain text in a terminal."""
    from course_lib.exercises.progress_board import board

    rows = lesson_rows()
    cards.show_both(board(rows), progress_text())


def progress_text() -> str:
    """The same as plain text."""
    rows = lesson_rows()
    width = max((len(row.title) for lesson in rows for row in lesson.exercises), default=0)
    lines = [summary(rows), *where(rows)]
    for lesson in rows:
        lines += ["", f"Lesson {lesson.number}" + (f" · {lesson.title}" if lesson.title else "")]
        lines += [
            f"  {cards.SIGNS[row.status]} {row.title:<{width}}  {stars(row):<3}  {story(row)}"
            for row in lesson.exercises
        ]
        lines += [f"  Quiz: {quiz_story(lesson.quiz)}"] if lesson.quiz else []
    return "\n".join(lines)


def where(rows: tuple[LessonRow, ...]) -> list[str]:
    """Where one stopped, and where to go on, as sentences."""
    last, onward = last_tried(rows), next_lesson(rows)
    lines = [f"Last tried: {last.title} ({last.id}), {last.status}"] if last else []
    if onward is None:
        return [*lines, "Every exercise is passed, and every quiz answered"] if rows else lines
    place = f" ({onward.notebook})" if onward.notebook else ""
    return [*lines, f"Go on with lesson {onward.number}" + place]


def summary(rows: tuple[LessonRow, ...]) -> str:
    """How many exercises are passed."""
    exercises = [row for lesson in rows for row in lesson.exercises]
    passed = sum(row.status == "passed" for row in exercises)
    return f"{passed} of {len(exercises)} exercises passed"


def stars(row: ExerciseRow) -> str:
    """How hard an exercise is."""
    return "★" * row.stars


def story(row: ExerciseRow) -> str:
    """State, attempts and hints."""
    parts = [row.status]
    if row.attempts:
        parts.append(f"{row.attempts} attempt" + "s" * (row.attempts != 1))
    if row.hints:
        parts.append(f"{row.hints} hint" + "s" * (row.hints != 1))
    return ", ".join(parts)


def quiz_story(quiz: QuizRow) -> str:
    """How many answers are right, and how many are missing."""
    return f"{quiz.right} of {quiz.questions} right" + (
        f", {quiz.questions - quiz.answered} to go" if quiz.answered < quiz.questions else ""
    )


def _title_and_notebook(lesson: str) -> tuple[str, str | None]:
    """From the lesson's source, which the checkout has; nothing where it has none."""
    for source in sorted((PROJECT_FOLDER / "lessons").glob(f"{lesson}_*.py")):
        title = re.search(r"^# # (.+)$", source.read_text(encoding="utf-8"), re.MULTILINE)
        return title[1] if title else "", f"{source.stem}.ipynb"
    return "", None
