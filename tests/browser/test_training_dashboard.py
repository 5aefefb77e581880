"""The training dashboard as a learner uses it: paused, resumed, stopped, gone on with, reopened."""

from __future__ import annotations

import base64

import nbformat
import pytest

from course_lib.explorers.training_view import curve, png

# A tiny run of 40 steps; those in `held` last until a button is pressed. The page is told of every
# fourth step at least, so it is sure to know of the one before a held step 13 or 21.
CODE = """
import time
from pathlib import Path
from course_lib.explorers.training_run import train_live
from course_lib.training import presets, trainer
from tests.training.test_resume import PRESETS, TEXT
presets.PRESETS = PRESETS
Path("verse.txt").write_text(TEXT + {more!r}, encoding="utf-8")
draw, calls, run = trainer.random_windows, iter(range(1, 1000)), None
def slowly(*arguments):
    step = next(calls)
    if step == {fails}:
        raise ArithmeticError("<img src=x onerror=alert(1)> $_$")
    while step in {held} and (run is None or run._wish == "train"):
        time.sleep(0.01)
    return draw(*arguments)
trainer.random_windows = slowly
run = train_live({folder!r}, corpus="verse.txt", preset="muon", threads=1, prompt={prompt!r})
"""
ROOT = ".course-training"
HOSTILE = "<img src=x onerror=alert(1)></script>$_$\u202eabc𓀀"


@pytest.fixture
def begin(lab, notebook, tmp_path):
    """Opens a notebook with a run in a folder of the test's own, and runs its first cell."""

    def opened(*cells, held=(), fails=0, more="", prompt="To be"):
        folder = str(tmp_path / "run")
        code = CODE.format(held=set(held), fails=fails, folder=folder, more=more, prompt=prompt)
        name = notebook(code, *cells)
        lab.open(name)
        lab.do("notebook:move-cursor-up")
        run_next(lab)
        lab.page.wait_for_selector(f"{ROOT}[data-theme]", timeout=120_000)
        return name

    return opened


def run_next(lab):
    lab.do("notebook:run-cell-and-select-next")


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def wait_for(lab, **wanted):
    for name, value in wanted.items():
        lab.page.wait_for_selector(f'{ROOT}[data-{name}="{value}"]', timeout=120_000)


def press(lab, word):
    lab.page.click(f"{ROOT} button:text-is('{word}')")


def test_a_run_is_paused_resumed_stopped_and_gone_on_with_to_its_end(lab, begin, tmp_path):
    begin("print(len(run.trainer.history), run.state)", held=(13, 21))
    wait_for(lab, state="training", step=12)
    press(lab, "Pause")
    wait_for(lab, state="paused", step=13, points=13)
    lab.do("notebook:move-cursor-down")  # from the cell that was clicked
    run_next(lab)  # a cell runs meanwhile, and the step does not grow
    lab.page.wait_for_selector("text=13 paused")
    assert state(lab)["step"] == "13"
    press(lab, "Resume")
    wait_for(lab, state="training", step=20)
    press(lab, "Stop")
    wait_for(lab, state="stopped", step=21)
    assert "21 of 40 steps are done" in lab.page.inner_text(f"{ROOT} .course-ending")
    assert {path.name for path in (tmp_path / "run").iterdir()} >= {"last", "best", "config.json"}
    press(lab, "Resume")
    wait_for(lab, state="finished", step=40, points=40, validation=4)
    assert lab.page.inner_text(f"{ROOT} .course-figures").startswith("step\n40 of 40\n")
    samples = lab.page.locator(f"{ROOT} figure")
    assert samples.count() == 12  # at the start, each tenth and the stop
    assert samples.first.inner_text().startswith("after step 40\nTo be")
    assert samples.last.inner_text().startswith("before the first step\nTo be")


def test_a_button_is_heard_while_a_cell_waits_for_the_run(lab, begin):
    begin("run.wait()", held=(13,))
    wait_for(lab, state="training", step=12)
    lab.page.evaluate("void window.jupyterapp.commands.execute('notebook:run-cell')")
    lab.page.wait_for_selector(".jp-InputPrompt:has-text('[*]')")
    lab.page.focus(f"{ROOT} button >> nth=1")
    lab.page.keyboard.press("Enter")
    wait_for(lab, state="stopped", step=13)
    lab.page.wait_for_selector("text=<a run, stopped, 13 of 40 steps done>")


def test_a_second_cell_shows_it_too_and_a_double_click_is_one(lab, begin):
    begin("run.dashboard", held=(33,))
    wait_for(lab, state="training", step=32)
    run_next(lab)
    second = lab.page.locator(f"{ROOT} >> nth=1")
    second.locator("button:text-is('Pause')").dblclick()
    paused = lab.page.locator(f"{ROOT}[data-state=paused][data-points='33']")
    paused.nth(1).wait_for(timeout=120_000)
    second.locator("button:text-is('Stop')").click()
    wait_for(lab, state="stopped", step=33)


def test_an_error_is_told_and_any_text_is_shown_as_text(lab, begin):
    begin(fails=5, more=HOSTILE * 20, prompt=HOSTILE)
    wait_for(lab, state="failed", step=4)
    alert = lab.page.inner_text(f"{ROOT} [role=alert]")
    assert alert == "ArithmeticError: <img src=x onerror=alert(1)> $_$"
    press(lab, "Resume")
    wait_for(lab, state="finished", step=40)
    assert lab.page.inner_text(f"{ROOT} [role=alert]") == ""
    shown = lab.page.text_content(f"{ROOT} pre b >> nth=0")
    assert shown == "<img src=x onerror=alert(1)></script>$_$U+202EabcU+13000"
    assert lab.page.query_selector(f"{ROOT} img, {ROOT} script") is None
    assert "No font here has U+13000" in lab.page.inner_text(ROOT)


def test_the_curves_are_read_by_keyboard_in_both_themes(lab, begin):
    begin()
    wait_for(lab, state="finished", step=40, theme="light")
    lab.page.focus(f"{ROOT} .course-curves")
    lab.page.keyboard.press("Home")
    lab.page.keyboard.press("ArrowRight")
    wait_for(lab, cursor=2)
    said = lab.page.inner_text(f"{ROOT} .course-point")
    assert said.startswith("step 2: loss of this batch ") and ", rate 0.00" in said
    lab.page.keyboard.press("End")
    wait_for(lab, cursor=40)
    assert ", validation " in lab.page.inner_text(f"{ROOT} .course-point")
    lab.page.keyboard.press("Escape")
    wait_for(lab, cursor="")
    pictures = "all => all.map(canvas => canvas.toDataURL())"
    light = lab.page.eval_on_selector_all(f"{ROOT} canvas", pictures)
    lab.change_theme("dark")
    wait_for(lab, theme="dark")
    dark = lab.page.eval_on_selector_all(f"{ROOT} canvas", pictures)
    assert len(light) == 2 and not set(light) & set(dark)
    lab.change_theme("light")


def test_a_reloaded_page_has_the_whole_run_and_a_reopened_notebook_its_picture(lab, begin, server):
    name = begin(held=(13,))
    wait_for(lab, state="training", step=12)
    assert not lab.page.is_visible(".jp-OutputArea-output img")  # the live one stands in its place
    press(lab, "Pause")
    wait_for(lab, state="paused", step=13)
    lab.do("docmanager:save")
    lab.open(name)
    wait_for(lab, state="paused", step=13, points=13)
    press(lab, "Resume")
    wait_for(lab, state="finished", step=40)
    lab.do("docmanager:save")
    lab.shut_down_kernels()
    lab.open(name)
    lab.page.wait_for_selector(".jp-OutputArea-output img", state="visible")
    assert "model not found" not in lab.page.inner_text("body")
    outputs = nbformat.read(server.folder / name, as_version=4).cells[0].outputs
    stored = [output.data["image/png"] for output in outputs if "image/png" in output.data]
    assert len(stored) == 1 and base64.b64decode(stored[0]) != png(curve([], 40))
