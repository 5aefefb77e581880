"""`hint` and `solution`: help in steps, and the answer with its reason when it is wanted."""

from __future__ import annotations

from course_lib.exercises import cards
from course_lib.exercises.progress_store import record_hint
from course_lib.exercises.registry import find


def hint(exercise_id: str) -> None:
    """Show one more hint at each call. Raises CourseError for an unknown id."""
    exercise = find(exercise_id)
    count = len(exercise.hints)
    step = record_hint(exercise_id, count)
    paragraphs = [exercise.hints[step - 1]]
    if step == count:
        paragraphs.append(f'This is the last one; `solution("{exercise_id}")` shows code and why.')
    headline = f"Hint {step} of {count}: {exercise.title} ({exercise_id})"
    cards.show(cards.Card("told", headline, tuple(paragraphs)))


def solution(exercise_id: str) -> None:
    """Show the code of the solution and why it is right. Raises CourseError for an unknown id."""
    exercise = find(exercise_id)
    headline = f"Solution: {exercise.title} ({exercise_id})"
    cards.show(cards.Card("told", headline, (exercise.why,), (("", exercise.source),)))


def solution_source(exercise_id: str) -> str:
    """The Python source that takes the place of the exercise cell in the solved edition."""
    return find(exercise_id).source
