"""`check`: judge an answer, record it, keep it when it passes, show a card, hand on what works."""

from __future__ import annotations

from typing import Any

from course_lib.exercises import cards
from course_lib.exercises.judge import examine
from course_lib.exercises.model import Exercise
from course_lib.exercises.registry import find
from course_lib.exercises.verdict import Verdict

HEADLINES = {"passed": "Passed", "not attempted": "Not attempted yet", "not yet": "Not yet"}


def check(exercise_id: str, answer: Any) -> Any:
    """Say whether an answer is right; return it if it passes, and the course's own otherwise.

    One wrong answer so never stops the rest of the notebook. Raises CourseError for an unknown id,
    and in the solved edition AssertionError when the answer does not pass.
    """
    exercise = find(exercise_id)
    verdict = examine(exercise, answer)
    cards.show(card_of(exercise, verdict))
    return answer if verdict.passed else exercise.right_answer()


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
