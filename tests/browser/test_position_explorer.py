"""The position explorer as a learner uses it: its three views, by mouse and by keyboard."""

from __future__ import annotations

import pytest

CODE = """
import torch
from course_lib.explorers.position_explorer import PositionExplorer
words = {{{name!r}: tuple(torch.randn(2, 16, generator=torch.Generator().manual_seed(0)))}}
explorer = PositionExplorer(d_model=16, length=32, words=words, view={view!r})
explorer
"""
CHOSEN = (
    "print('chosen', explorer.selected['m'], explorer.selected['n'], explorer.selected['view'])"
)
ROOT = ".course-position"
PANEL = f"{ROOT} [role=tabpanel]:visible"


@pytest.fixture
def positions(lab, notebook):
    def opened(view, name="it · animal"):
        lab.open(notebook(CODE.format(view=view, name=name), CHOSEN))
        lab.run_all()
        lab.page.wait_for_selector(f"{ROOT}[data-view]")
        return lab

    return opened


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def press(lab, label, *keys):
    lab.page.focus(f"{PANEL} [aria-label='{label}']")
    for key in keys:
        lab.page.keyboard.press(key)


def said(lab):
    return lab.page.inner_text(f"{PANEL} >> css=.course-said")


def test_a_pair_and_a_position_are_chosen_and_said(positions):
    lab = positions("sinusoidal")
    press(lab, "pair", "Home", "ArrowRight")
    press(lab, "position", "End", "ArrowDown")
    assert (state(lab)["pair"], state(lab)["position"]) == ("1", "30")
    assert said(lab).startswith(
        "Pair 1 (dimensions 2 and 3) goes round once in 20 tokens; at position 30"
    )
    press(lab, "vectors: arrow keys choose position and pair", "ArrowUp", "ArrowRight")
    assert (state(lab)["pair"], state(lab)["position"]) == ("2", "29")
    lab.page.click(f"{PANEL} >> css=canvas[aria-label^='a clock']", position={"x": 8, "y": 20})
    assert state(lab)["pair"] == "0"
    assert (
        lab.page.eval_on_selector_all(".jp-Cell", "all => all.length") == 2
    )  # no key was a short cut


def test_query_and_key_moved_together_keep_their_product(positions):
    lab = positions("rotary")
    score = f"{PANEL} >> css=.course-score strong"
    first = lab.page.inner_text(score)
    assert first.startswith("⟨f(q, 24), f(k, 17)⟩ = ")
    for _ in range(9):  # there is room for seven
        if lab.page.is_enabled("text=both one later"):
            lab.page.click("text=both one later")
    assert (state(lab)["m"], state(lab)["n"]) == ("31", "24")
    product = first.split(" = ")[1]
    assert lab.page.inner_text(score) == f"⟨f(q, 31), f(k, 24)⟩ = {product}"
    assert "at all 25 places with distance m − n = 7: " in lab.page.inner_text(PANEL)
    press(lab, "key at n", "ArrowLeft")
    assert state(lab)["n"] == "23" and product not in lab.page.inner_text(score)
    lab.page.select_option("select[aria-label='query and key']", "key = query")
    assert state(lab)["words"] == "1"
    lab.page.click("css=.jp-Cell >> nth=1")
    lab.run_until("chosen 31 23 rotary")


def test_slopes_for_any_number_of_heads(positions):
    lab = positions("alibi")
    lab.page.click(f"{PANEL} >> css=[aria-label='number of heads'] button:text-is('12')")
    assert "the slopes of 8 heads, then every second one of 16" in lab.page.inner_text(PANEL)
    lab.page.click(f"{PANEL} >> css=button:text-is('8: 0.707')")
    assert state(lab)["head"] == "8"
    assert said(lab).startswith("Head 8 of 12 has the slope 0.707: every 1.0 tokens")
    lab.page.click(f"{PANEL} >> css=[aria-label='number of heads'] button:text-is('6')")
    assert state(lab)["head"] == "5"  # the last there is


def test_views_change_by_keyboard_and_by_theme(positions):
    lab = positions("sinusoidal")
    lab.page.focus(f"{ROOT} [role=tab][tabindex='0']")
    lab.page.keyboard.press("ArrowRight")
    lab.page.keyboard.press("ArrowRight")
    assert state(lab)["view"] == "alibi"
    lab.page.keyboard.press("ArrowLeft")
    assert state(lab)["view"] == "rotary"
    plane = f"{PANEL} >> css=canvas >> nth=0"
    light = lab.page.locator(plane).evaluate("canvas => canvas.toDataURL()")
    lab.change_theme("dark")
    lab.page.wait_for_selector(f"{ROOT}[data-theme='dark']")
    assert lab.page.locator(plane).evaluate("canvas => canvas.toDataURL()") != light
    lab.change_theme("light")
    lab.do("application:toggle-left-area")
    lab.page.set_viewport_size({"width": 600, "height": 800})
    lab.page.wait_for_function(f"document.querySelector('{ROOT}').clientWidth < 500")
    lab.page.wait_for_function(
        f"[...document.querySelectorAll('{ROOT} canvas')]"
        f".every(c => c.clientWidth <= document.querySelector('{ROOT}').clientWidth)"
    )


def test_a_name_of_words_is_shown_as_text(positions):
    lab = positions("rotary", "<img src=x onerror=alert(1)></script>$_$\u202e\x00𓀀")
    shown = lab.page.inner_text("select[aria-label='query and key'] option >> nth=0")
    assert shown == "<img src=x onerror=alert(1)></script>$_$U+202EU+0000U+13000"
    assert lab.page.query_selector(f"{ROOT} img, {ROOT} script") is None
