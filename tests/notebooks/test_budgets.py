"""The budgets of processor seconds: the course's own table, and what a table may not say."""

from __future__ import annotations

from tools.budgets import budget_problems, read_budgets
from tools.lesson_source import lesson_paths


def test_the_course_keeps_its_budgets() -> None:
    budgets = read_budgets()
    assert budget_problems(budgets, [path.name[:2] for path in lesson_paths()]) == []
    assert sorted(budgets) == [f"{number:02d}" for number in range(18)]


def test_what_a_table_may_not_say() -> None:
    assert budget_problems({"01": 40}, ["01", "02"]) == ["lesson 02 has no budget"]
    assert budget_problems({"01": 121, "02": 0, "03": 1, "04": 1}, []) == [
        "lesson 01 has 121 s; a budget is above 0 and at most 120",
        "lesson 02 has 0 s; a budget is above 0 and at most 120",
    ]
    assert budget_problems({"01": 40, "02": 41}, []) == ["40.5 s on average; at most 40"]
    assert budget_problems({f"{n:02d}": 39 for n in range(19)}, []) == [
        "741 s for the course; at most 720"
    ]
