"""The budgets of processor seconds: lessons/budgets.toml, and the arithmetic it has to keep.

Processor seconds can be tested without trusting the clock, but one machine's are not another's.
So the builder, which a maintainer runs, holds a lesson to its budget, and the tests, which anyone
runs, to SLACK times that: they catch a lesson that has grown, not a processor that is slow.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from tools.lesson_source import PROJECT_FOLDER, LessonError

LESSON_SECONDS = 120
AVERAGE_SECONDS = 40
COURSE_SECONDS = 720
SLACK = 3


def read_budgets(root: Path = PROJECT_FOLDER) -> dict[str, float]:
    """Processor seconds of each lesson's budget, by its two digits."""
    text = (root / "lessons" / "budgets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["seconds"]


def budget_of(number: str, root: Path = PROJECT_FOLDER) -> float:
    """One lesson's budget; raises LessonError where none is written down."""
    budgets = read_budgets(root)
    if number not in budgets:
        raise LessonError(f"lessons/budgets.toml: lesson {number} has no budget; add a line for it")
    return budgets[number]


def budget_problems(budgets: dict[str, float], lessons: list[str]) -> list[str]:
    """What is wrong with a table of budgets for these lessons."""
    problems = [f"lesson {number} has no budget" for number in lessons if number not in budgets]
    problems += [
        f"lesson {number} has {seconds} s; a budget is above 0 and at most {LESSON_SECONDS}"
        for number, seconds in budgets.items()
        if not 0 < seconds <= LESSON_SECONDS
    ]
    total = sum(budgets.values())
    if budgets and total / len(budgets) > AVERAGE_SECONDS:
        problems.append(f"{total / len(budgets):.1f} s on average; at most {AVERAGE_SECONDS}")
    if total > COURSE_SECONDS:
        problems.append(f"{total} s for the course; at most {COURSE_SECONDS}")
    return problems
