"""The step-through of attention as a learner uses it: steps, entries, keyboard, any text."""

from __future__ import annotations

import pytest

CODE = """
import torch
from course_lib.explorers.steps_explorer import StepsExplorer
from course_lib.model.attention import causal_mask
tokens = {tokens!r}
n = len(tokens)
query = torch.arange(2.0 * n).reshape(n, 2) / n
places = torch.arange(n)
StepsExplorer(tokens, query, query.flip(0), query + 1, may_attend=causal_mask(places, places))
"""
HOSTILE = ["<img src=x onerror=alert(1)>", "</script>", "$_$", "\u202eabc", "\x00", "𓀀"]
ROOT = ".course-steps"


@pytest.fixture
def steps(lab, notebook):
    def opened(tokens):
        lab.open(notebook(CODE.format(tokens=tokens)))
        lab.run_all()
        lab.page.wait_for_selector(f"{ROOT}[data-name]")
        return lab

    return opened


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def test_every_step_says_how_an_entry_came_about(steps):
    lab = steps(["it", "was", "tired"])
    said = []
    for name in ("score", "scale", "mask", "normalise", "mix"):
        lab.page.click(f"{ROOT} [role=tab]:has-text('{name}')")
        assert state(lab)["name"] == name
        said.append(lab.page.inner_text(".course-said"))
    assert said[0] == "it asks, it offers: 0·1.33 + 0.33·1.67 = 0.56"
    assert said[1] == "0.56 / √2 = 0.39"
    assert said[2] == "it may read it: 0.39 stays"
    assert said[3] == "e^0.39 / (e^0.39 + 0 + 0) = 1"
    made_of = lab.page.inner_text("table[aria-label='what the chosen entry is made of']")
    assert "weights of it\t1\t0\t0" in made_of and "column 0 in value" in made_of


def test_entries_are_chosen_by_keyboard(steps):
    lab = steps(["it", "was", "tired"])
    lab.do("notebook:enter-command-mode")  # in which arrow keys are JupyterLab's
    lab.page.focus(f"{ROOT} td[tabindex='0']")
    lab.page.keyboard.press("ArrowDown")
    lab.page.keyboard.press("ArrowRight")
    assert (state(lab)["row"], state(lab)["column"]) == ("1", "1")
    assert lab.page.inner_text(".course-said").startswith("was asks, was offers")
    lab.page.focus(f"{ROOT} [role=tab][tabindex='0']")
    lab.page.keyboard.press("ArrowRight")
    assert state(lab)["name"] == "scale"


def test_any_text_is_shown_as_text(steps):
    lab = steps(HOSTILE)
    shown = lab.page.eval_on_selector_all(
        f"{ROOT} th[scope=row]", "all => all.map(e => e.textContent)"
    )
    assert shown[:3] == [text.replace(" ", "␣") for text in HOSTILE[:3]]
    assert shown[3:5] == ["U+202Eabc", "U+0000"]
    assert lab.page.query_selector(f"{ROOT} img, {ROOT} script") is None


def test_a_character_without_a_font_is_shown_by_its_code_point_and_said(steps):
    lab = steps(["𓀀", "a"])
    assert lab.page.inner_text(f"{ROOT} th[scope=row]") == "U+13000"
    assert "No font here has U+13000" in lab.page.inner_text(ROOT)
