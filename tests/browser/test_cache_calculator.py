"""The cache calculator as a learner uses it: numbers typed, models chosen, nonsense refused."""

from __future__ import annotations

import pytest

CODE = """
from course_lib.explorers.cache_calculator import CacheCalculator
calculator = CacheCalculator()
calculator
"""
ROOT = ".course-cache"


@pytest.fixture
def calculator(lab, notebook):
    lab.open(notebook(CODE))
    lab.run_all()
    lab.page.wait_for_selector(f"{ROOT}[data-bytes]")
    return lab


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def test_bars_follow_what_is_typed_and_chosen(calculator):
    page = calculator.page
    assert state(calculator)["model"] == "GPT-2 small"
    page.click(f"{ROOT} [role=option]:has-text('Llama-2-70B')")
    tokens, batch = page.query_selector_all(f"{ROOT} input[type=text]")
    tokens.fill("4,096")
    batch.fill("2")
    page.select_option(f"{ROOT} select", "float32")
    assert state(calculator)["bytes"] == str(4 * 1_342_177_280)
    said = page.inner_text(f"{ROOT} .course-said")
    assert said.startswith("Llama-2-70B, GQA: 80 layers · 2 · 8 · 128 numbers · 4,096 tokens")
    widths = page.eval_on_selector_all(
        f"{ROOT} .course-bar", "all => all.map(bar => bar.getBoundingClientRect().width)"
    )
    names = page.eval_on_selector_all(
        f"{ROOT} .course-bar-name", "all => all.map(name => name.textContent)"
    )
    assert names[widths.index(max(widths))] == "GPT-3 175B"


def test_models_are_chosen_by_keyboard(calculator):
    page = calculator.page
    page.focus(f"{ROOT} [role=option][tabindex='0']")
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert state(calculator)["model"] == "GPT-3 175B"
    page.keyboard.press("ArrowUp")
    assert state(calculator)["model"] == "GPT-2 XL"


def test_what_is_no_number_is_said_and_changes_nothing(calculator):
    page = calculator.page
    before = state(calculator)
    tokens = page.query_selector(f"{ROOT} input[type=text]")
    for wrong in ("", "0", "<b>", "1048577"):
        tokens.fill(wrong)
        assert "give a whole number from 1 to 1,048,576" in page.inner_text(f"{ROOT} .course-error")
        assert state(calculator) == before
    tokens.fill("1048576")
    assert page.inner_text(f"{ROOT}").count("give a whole number") == 0
    assert state(calculator)["tokens"] == "1048576"
