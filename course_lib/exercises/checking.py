"""`check`: judge an answer, record it, keep it when it passes, show a card, hand on what works."""

from __future__ import annotations

from typing import Any

from course_lib.exercises import cards, handed_back
from course_lib.exercises.judge import examine
from course_lib.exercises.keeping import keep
from course_lib.exercises.model import Exercise
from course_lib.exercises.progress_store import record_attempt
from course_lib.exercises.refusals import handed_back_verdict
from course_lib.exercises.registry import find
from course_lib.exercises.verdict import NOT_ATTEMPTED, Verdict
from course_lib.runtime import edition

HEADLINES = {"passed": "Passed", "not attempted": "Not attempted yet", "not yet": "Not yet"}


def check(exercise_id: str, answer: Any) -> Any:
    """Say whether an answer is right; return it if it passes, and the course's own otherwise.

    One wrong answer so never stops the rest of the notebook. Raises CourseError for an unknown id,
    and in the solved edition AssertionError when the answer does not pass.
    """
    exercise = find(exercise_id)
    verdict = _verdict(exercise, answer)
    if verdict.status != NOT_ATTEMPTED:
        record_attempt(exercise_id, verdict.passed)
    cards.show(card_of(exercise, verdict, keep(exercise, answer) if verdict.passed else ""))
    if verdict.passed:
        handed_back.forget(exercise_id)
        return answer
    if edition() == "solved":
        raise AssertionError(f"{exercise_id} does not pass: {verdict.message}")
    course_answer = exercise.right_answer()
    handed_back.remember(exercise_id, course_answer)
    return course_answer


def _verdict(exercise: Exercise, answer: Any) -> Verdict:
    if handed_back.is_handed_back(exercise.id, exercise.name, answer):
        return handed_back_verdict(exercise)
    return examine(exercise, answer)


def card_of(exercise: Exercise, verdict: Verdict, note: str = "") -> cards.Card:
    """The verdict in a learner's words."""
    headline = f"{HEADLINES[verdict.status]}: {exercise.title} ({exercise.id})"
    paragraphs = (verdict.message, *verdict.facts)
    if note:
        paragraphs += (note,)
    blocks = (("", verdict.code),) if verdict.code else ()
    if verdict.printed:
        blocks += (("Your code printed:", verdict.printed),)
    return cards.Card(verdict.status, headline, paragraphs, blocks)
