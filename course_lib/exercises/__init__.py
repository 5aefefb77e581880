"""The checked exercises and quizzes of the course.

In a notebook: `check(id, answer)`, `hint(id)`, `solution(id)`, `quiz(lesson)`, `progress()` and
`mine(id)`. For tools: `solution_source(id)`, `exercises_of(lesson)`, `all_exercises()`,
`quiz_of(lesson)`, `progress_rows()`, `quiz_rows()`, `progress_text()`.

**To add an exercise**, add it to the file of its lesson, `lesson_NN.py`, which defines EXERCISES
and QUIZ. The whole of one with a single exercise:

    import torch
    from torch import Tensor

    from course_lib.exercises.model import Choice, Exercise, Misconception, Question

    def attention_weights(scores: Tensor) -> Tensor:
        \"\"\"Weights of each query. scores: (query, key) -> (query, key), rows sum to 1.\"\"\"
        return torch.softmax(scores, dim=-1)

    def _cases():
        generator = torch.Generator().manual_seed(2)  # never the global seed
        return [(torch.randn(*size, generator=generator),) for size in ((5, 7), (3, 11))]

    WEIGHTS = Exercise(
        id="02.weights", title="From scores to weights", stars=1, minutes=5,
        solution=attention_weights,
        cases=_cases,
        hints=("Which axis must sum to 1?", "`dim=-1` is the last axis."),
        misconceptions=(
            Misconception(
                "over queries",
                lambda scores: torch.softmax(scores, dim=0),
                "Your *columns* sum to 1. Each query shares out its attention, so its row must.",
            ),
            Misconception(
                "not normalised",
                lambda scores: scores.exp(),
                "These are positive and still too large: divide each row by its sum.",
            ),
        ),
        why="Each query divides one unit of attention among the keys, so each row sums to 1.",
    )
    EXERCISES = (WEIGHTS,)
    QUIZ = (
        Question("What sums to 1?", (
            Choice("Each row", True, "Each query divides one unit among the keys."),
            Choice("Each column", False, "A key may be read by all queries, or by none."),
        )),
    )

The solution's name is the one the exercise cell binds, and its source stands in that cell in the
solved edition; it may use what the notebook has imported by then. id, title, stars and minutes are
written as literals, for the table of progress reads them without running the file. Cases are two or
more tuples of arguments whose sizes are distinct primes, so that a swapped axis cannot pass. For a
class, a case is (arguments of the constructor, arguments of the call). An exercise that asks for a
value has `solution=value("answer = 5 * 7")`, plain values as misconceptions, and no cases.

Importing this package loads nothing: each name is fetched from its module when it is first used, so
that the table of progress starts without torch.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "Choice": "model",
    "Exercise": "model",
    "Misconception": "model",
    "Question": "model",
    "all_exercises": "registry",
    "check": "checking",
    "exercises_of": "registry",
    "hint": "asking",
    "mine": "keeping",
    "progress": "progress_table",
    "progress_rows": "progress_table",
    "progress_text": "progress_table",
    "quiz": "quizzes",
    "quiz_of": "registry",
    "quiz_rows": "progress_table",
    "solution": "asking",
    "solution_source": "asking",
    "value": "model",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
