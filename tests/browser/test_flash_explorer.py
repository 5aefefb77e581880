"""The tile-by-tile explorer as a learner uses it: by button, slider and keyboard, with any text."""

from __future__ import annotations

import pytest

CODE = """
import torch
from course_lib.explorers.flash_explorer import FlashExplorer
tokens = {tokens!r}
key = torch.tensor([4.0, 2, 2, 8, 1, 16, 4, 2]).log()[:, None]
query = torch.tensor([1.0, 1, -1, 1, 0.5, 1, -1, 1])[:, None]
value = torch.tensor([8.0, 4, 4, 2, 1, 3, 2, 5])[:, None]
explorer = FlashExplorer(tokens, query, key, value, row=5)
explorer
"""
TOKENS = ["animal", "did", "cross", "road", "because", "it", "too", "tired"]
ROOT = ".course-flash"


@pytest.fixture
def flash(lab, notebook):
    def opened(tokens=TOKENS):
        lab.open(notebook(CODE.format(tokens=tokens), "print('selected', dict(explorer.selected))"))
        lab.run_all()
        lab.page.wait_for_selector(f"{ROOT}[data-step]")
        return lab

    return opened


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def press(lab, name, times=1):
    for _ in range(times):
        lab.page.click(f'{ROOT} button:text-is("{name}")')


def cell(lab, row, column):
    return lab.page.inner_text(f"{ROOT} tr:nth-child({row + 2}) td:nth-child({column + 2})")


def test_steps_go_forth_and_back_with_sums_and_bytes(flash):
    lab = flash()
    assert state(lab) | {"step": "0", "row": "5", "kind": "fetch", "bytes": "6"} == state(lab)
    press(lab, "Next", 6)
    assert state(lab)["bytes"] == "50" and state(lab)["kind"] == "tile"
    said = lab.page.inner_text(f"{ROOT} .course-said")
    assert said.endswith("multiplied by e^(1.39 − 2.08) = 0.50. total = 1.50 · 0.50 + 1.25 = 2.00")
    assert "50 bytes moved so far; plain attention moves 576" in lab.page.inner_text(ROOT)
    assert [cell(lab, 5, column) for column in (2, 3, 8, 9)] == ["0.69", "2.08", "2.08", "2.00"]
    press(lab, "Back")
    assert state(lab)["bytes"] == "42" and cell(lab, 5, 2) == "" and cell(lab, 5, 9) == "1.50"
    press(lab, "End")
    assert state(lab)["step"] == "14" and cell(lab, 5, 11) == "3.42"
    press(lab, "Next")
    assert state(lab)["step"] == "14"
    press(lab, "Start")
    assert state(lab)["step"] == "0" and cell(lab, 5, 11) == ""


def test_by_keyboard_and_by_slider(flash):
    lab = flash()
    lab.page.focus(f"{ROOT} table")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        lab.page.keyboard.press(key)
    assert (state(lab)["step"], state(lab)["row"]) == ("2", "4")
    assert lab.page.inner_text(f"{ROOT} .course-said") == "because waits for its turn."
    lab.page.keyboard.press("End")
    assert lab.page.inner_text(f"{ROOT} .course-said").startswith("because is done")
    lab.page.focus(f"{ROOT} input")
    lab.page.keyboard.press("Home")
    lab.page.wait_for_selector(f'{ROOT}[data-step="0"]')
    lab.page.keyboard.press("ArrowRight")
    lab.page.wait_for_selector(f'{ROOT}[data-step="1"]')
    lab.page.click(f"{ROOT} tr:nth-child(3)")
    assert state(lab)["row"] == "1"
    lab.do("notebook:move-cursor-down")
    lab.run_until("selected {'step': 1, 'row': 1}")


def test_any_text_is_shown_as_text(flash):
    lab = flash(["<img src=x onerror=alert(1)>", *TOKENS[1:]])
    assert "<img" in lab.page.inner_text(f"{ROOT} th[scope=row]")
    assert lab.page.query_selector(f"{ROOT} img, {ROOT} script") is None
