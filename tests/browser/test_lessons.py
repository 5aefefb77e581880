"""Lessons as a learner has them: run from top to bottom, saved, reopened, exported, started."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import TimeoutError

from course_lib.runtime import PROJECT_FOLDER
from tools.laboratory import LAPTOP, Lab

# Every cell is brought into view, as scrolling does; what is there is then measured.
LOOK = """async () => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const seen = { errors: [], pictures: [], lost: [], unrun: [] };
    for (const [at, cell] of notebook.widgets.entries()) {
        await notebook.scrollToItem(at, 'start');
        await new Promise(requestAnimationFrame);
        for (const image of cell.node.querySelectorAll('img')) await image.decode().catch(() => {});
        const id = cell.model.id;
        if (cell.model.type === 'code' && !cell.model.executionCount) seen.unrun.push(id);
        for (const output of cell.node.querySelectorAll('.jp-OutputArea-output')) {
            if (!output.checkVisibility()) continue;
            if (output.dataset.mimeType === 'application/vnd.jupyter.error') seen.errors.push(id);
            if (output.textContent.includes('model not found')) seen.lost.push(id);
            for (const drawn of output.querySelectorAll('img, canvas, .course-explorer')) {
                const { width, height } = drawn.getBoundingClientRect();
                seen.pictures.push([id, width, height]);
            }
        }
    }
    return seen;
}"""
ALL_SEEN = f"""async wanted => {{
    const there = (await ({LOOK})()).pictures
        .filter(([, width, height]) => width > 100 && height > 100)
        .map(([id]) => id);
    return wanted.every((id) => there.includes(id));
}}"""


def pictures_of(file):
    """The ids of the cells whose outputs hold a picture, as the file says."""
    cells = nbformat.read(file, as_version=4).cells
    return {
        cell.id
        for cell in cells
        if cell.cell_type == "code"
        and any("image/png" in output.get("data", {}) for output in cell.outputs)
    }


def assert_whole(lab, file):
    """Nothing went wrong, nothing is blank: each picture of the file is there, or its explorer.

    A cell has run before its widget has drawn, so the pictures are waited for.
    """
    with contextlib.suppress(TimeoutError):  # what is missing is then named below
        lab.page.wait_for_function(ALL_SEEN, arg=sorted(pictures_of(file)), timeout=120_000)
    seen = lab.page.evaluate(LOOK)
    assert (seen["errors"], seen["lost"], seen["unrun"]) == ([], [], [])
    shown = {cell for cell, width, height in seen["pictures"] if width > 100 and height > 100}
    blank = pictures_of(file) - shown
    assert blank == set(), [
        (seen["pictures"], lab.go_to(cell).inner_html()[-3000:]) for cell in blank
    ]


@pytest.mark.parametrize("number", ["00", "02"])
def test_a_lesson_runs_from_top_to_bottom(lab, lesson, number):
    file = lesson(number)
    assert pictures_of(file)
    lab.run_all()
    assert_whole(lab, file)


def test_what_a_learner_saves_is_never_blank(lab, lesson, browser, tmp_path):
    file = lesson("02")
    pictures = pictures_of(file)
    lab.run_all()
    lab.do("docmanager:save")
    assert pictures_of(file) == pictures
    lab.open(file.name)  # the page is loaded anew, and finds its kernel running
    assert_whole(lab, file)
    lab.shut_down_kernels()
    lab.open(file.name)
    assert_whole(lab, file)
    exported = tmp_path / "exported.html"
    exported.write_text(HTMLExporter().from_filename(file)[0], encoding="utf-8")
    assert_readable_without_scripts(browser, exported, pictures)


def assert_readable_without_scripts(browser, exported, pictures):
    """Neither scripts nor network: pictures are there, answers of the quiz folded."""
    page = browser.new_page(java_script_enabled=False, offline=True, viewport=LAPTOP)
    page.goto(exported.as_uri())
    for cell in pictures:
        image = page.locator(f"[id='cell-id={cell}'] img:visible").first
        assert image.bounding_box()["height"] > 100
    answer = page.locator(".course-quiz details").first
    assert "✓ right" not in answer.inner_text()
    answer.locator("summary").click()
    assert "✓ right" in answer.inner_text()
    assert "model not found" not in page.locator("body").inner_text()
    page.close()


OPEN_LAB = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from launcher import command
here = SimpleNamespace(python=sys.executable, variables=lambda: dict(os.environ))
command.prepare = lambda checkout, part: here
sys.exit(command.open_lab(Path(sys.argv[1]), None, False))
"""


@pytest.fixture
def started(tmp_path):
    """The address that start.py prints, but for the making of the environment."""
    shutil.copytree(PROJECT_FOLDER / "notebooks", tmp_path / "course" / "notebooks")
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(PROJECT_FOLDER)}
    command = [sys.executable, "-c", OPEN_LAB, tmp_path / "course"]
    with subprocess.Popen(
        command, env=os.environ | home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as start:
        try:
            said = ""
            while not (found := re.search(r"http://127\.0\.0\.1:\d+/\S+", said)):
                line = start.stdout.readline().decode()
                assert line, f"it ended early: {said}"
                said += line
            yield found[0]
        finally:
            start.terminate()  # it ends its server in order
            start.communicate()


def test_start_py_leads_to_a_first_cell_that_runs(started, browser, tmp_path):
    page = browser.new_page(viewport=LAPTOP)
    lab = Lab(page, address=re.match(r"http://[^/]+", started)[0])
    page.goto(started)
    page.wait_for_selector("h1:has-text('Start here')")
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".jp-CodeCell:has-text('[1]:'):has-text('Lesson 00 is set up')")
    assert (tmp_path / "course" / "work" / "00_start_here.ipynb").exists()
    assert (lab.errors, lab.foreign) == ([], [])
    page.close()
