"""What must make the notebooks' tests red, shown once each, and what must not.

One pytest of its own runs copies of a small built notebook, each spoilt in one way, with the same
collector that runs the course's notebooks.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.notebooks.sample import SMALL, make_course
from tools.build_notebooks import build
from tools.lesson_source import PROJECT_FOLDER, lesson_paths, read_lesson

PLUGIN = """
import os
import pathlib
import tests.notebooks.editions as editions
from tests.notebooks.editions import pytest_collect_file

SOLUTIONS = {"98.double": "def double(x):\\n    return x + x", "98.wrong": "double = abs"}
editions.solution = SOLUTIONS.__getitem__
start = editions.Edition.setup


def setup(edition):
    start(edition)
    with pathlib.Path(os.environ["KERNELS"]).open("a", encoding="utf-8") as file:
        file.write(f"{edition.kernel.km.provisioner.pid}\\n")


editions.Edition.setup = setup
"""


def edit(cells: dict[str, NotebookNode], name: str, old: str, new: str) -> None:
    assert old in cells[name].source
    cells[name].source = cells[name].source.replace(old, new)


def break_heatmap(cells: dict[str, NotebookNode]) -> None:
    edit(cells, "picture", "imshow(weights)", "imshow(weights.T)")


def strip_outputs(cells: dict[str, NotebookNode]) -> None:
    for cell in cells.values():
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None


def check_nothing(cells: dict[str, NotebookNode]) -> None:
    edit(cells, "check-double", 'check("98.double", double)', "lambda x: 2 * x")


def check_accepts_all(cells: dict[str, NotebookNode]) -> None:
    edit(cells, "setup", "passes = answer(2) == 4", "return print('passed') or (lambda x: 2 * x)")


def change_output(cells: dict[str, NotebookNode]) -> None:
    cells["goes-on"].outputs[0].text = "doubled: 43\n"


def drop_output(cells: dict[str, NotebookNode]) -> None:
    cells["goes-on"].outputs = []


def raise_error(cells: dict[str, NotebookNode]) -> None:
    edit(cells, "progress", "weights = ", "1 / 0\nweights = ")


def wrong_solution(cells: dict[str, NotebookNode]) -> None:
    cells["ex-double"].metadata.course.exercise = "98.wrong"


def end_kernel(cells: dict[str, NotebookNode]) -> None:
    edit(cells, "picture-shows", "assert", "os._exit(1)\nassert")


# How a copy is spoilt, and the cells that must go red for it. Several faults share a copy, and so a
# kernel, where one does not touch another's cells.
SPOILT = {
    ("91", "learner"): {
        break_heatmap: {"picture-shows"},
        check_nothing: {"check-double"},
        change_output: {"goes-on"},
    },
    ("92", "learner"): {check_accepts_all: {"check-double"}, drop_output: {"goes-on"}},
    ("93", "learner"): {strip_outputs: {"setup", "picture", "check-double", "goes-on"}},
    ("94", "solved"): {raise_error: {"progress"}, wrong_solution: {"check-double"}},
    ("95", "solved"): {end_kernel: {"picture-shows", "processor-seconds"}},
}
CASES = [(copy, spoil) for copy, spoils in SPOILT.items() for spoil in spoils]
WHOLE = "90"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path, str]:
    """Outcome by node id, the file with the kernels' process ids, and all that pytest said."""
    root = make_course(tmp_path_factory.mktemp("red"), n98_small=SMALL)
    lesson = read_lesson(lesson_paths(root)[0])
    build(lesson, root)
    budgets = root / "lessons" / "budgets.toml"
    text = budgets.read_text(encoding="utf-8").replace("91 = 100", "91 = 0.001")
    budgets.write_text(text, encoding="utf-8")
    whole = lesson.notebook_path.read_text(encoding="utf-8")
    lesson.notebook_path.unlink()
    copies = {(WHOLE, "learner"): {}, (WHOLE, "solved"): {}, **SPOILT}
    for (number, _), spoils in copies.items():
        notebook = nbformat.reads(whole, as_version=4)
        for spoil in spoils:
            spoil({cell.id: cell for cell in notebook.cells})
        nbformat.write(notebook, root / "notebooks" / f"{number}_small.ipynb")
    return run_pytest(root, [f"notebooks/{n}_small.ipynb::{edition}" for n, edition in copies])


def run_pytest(root: Path, wanted: list[str]) -> tuple[dict[str, str], Path, str]:
    (root / "spoilt_course.py").write_text(PLUGIN, encoding="utf-8")
    (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    kernels = root / "kernels.txt"
    search_path = os.pathsep.join([str(root), str(PROJECT_FOLDER)])
    options = ["-p", "spoilt_course", "-p", "no:cacheprovider", "-rA", "--color=no"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *wanted],
        cwd=root,
        env={**os.environ, "PYTHONPATH": search_path, "KERNELS": str(kernels)},
        capture_output=True,
        encoding="utf-8",
        timeout=500,
    )
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\S+)", done.stdout, flags=re.MULTILINE)
    outcomes = {node.removeprefix("notebooks/"): outcome for outcome, node in found}
    return outcomes, kernels, done.stdout + done.stderr


def red_cells(outcomes: dict[str, str], number: str, edition: str) -> set[str]:
    start = f"{number}_small.ipynb::{edition}::"
    there = {node.removeprefix(start): o for node, o in outcomes.items() if node.startswith(start)}
    assert there, f"{start} was not run"
    return {name for name, outcome in there.items() if outcome != "PASSED"}


def test_both_editions_of_a_whole_notebook_are_green(run) -> None:
    outcomes, _, said = run
    for edition in ("learner", "solved"):
        assert red_cells(outcomes, WHOLE, edition) == set(), said
    names = [node.rpartition("::")[2] for node in outcomes if f"{WHOLE}_small" in node]
    assert len(names) == 2 * (SMALL.count("# %% name") + 1)


@pytest.mark.parametrize(("copy", "spoil"), CASES, ids=[s.__name__ for _, s in CASES])
def test_a_spoilt_notebook_is_red(run, copy: tuple[str, str], spoil: Callable) -> None:
    assert SPOILT[copy][spoil] <= red_cells(run[0], *copy)


def test_only_the_spoilt_cells_are_red(run) -> None:
    assert red_cells(run[0], "91", "learner") == {
        "picture-shows",
        "check-double",
        "goes-on",
        "processor-seconds",
    }
    assert red_cells(run[0], "92", "learner") == {"check-double", "goes-on"}


def test_a_lesson_beyond_three_times_its_budget_is_red(run) -> None:
    assert "processor-seconds" in red_cells(run[0], "91", "learner")
    assert "3 times the budget of 0.001" in run[2]


def test_a_report_names_the_cell_and_the_reason(run) -> None:
    said = run[2]
    assert "learner edition, cell picture-shows" in said
    assert "not the weights that were computed" in said
    assert "The notebook was not executed; build it" in said
    assert "An unsolved exercise's check must say: not attempted" in said


@pytest.mark.skipif(sys.platform == "win32", reason="asks for a process by signal 0")
def test_every_kernel_is_shut_down(run) -> None:
    processes = [int(line) for line in run[1].read_text(encoding="utf-8").split()]
    assert len(processes) == 2 + len(SPOILT)
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


SPOIL_LESSON = """
right_heatmap = heatmap


def heatmap(weights, *arguments, **named):
    return right_heatmap(weights.T, *arguments, **named)


def check(name, answer):
    from course_lib.exercises.registry import find

    print("passed")
    return find(name).right_answer()
"""


def test_a_lesson_of_the_course_goes_red_too(tmp_path: Path) -> None:
    """Lesson 02, its heatmaps transposed and its checks without any checking."""
    root = make_course(tmp_path / "course")
    lesson = read_lesson(*lesson_paths(numbers=["02"]))
    notebook = nbformat.read(lesson.notebook_path, as_version=4)
    cells = {cell.id: cell for cell in notebook.cells}
    cells["setup"].source += SPOIL_LESSON
    nbformat.write(notebook, root / "notebooks" / "02_small.ipynb")
    outcomes, _, said = run_pytest(root, ["notebooks/02_small.ipynb::learner"])
    red = red_cells(outcomes, "02", "learner")
    assert {cell.name for cell in lesson.cells if "check" in cell.tags} <= red, said
    assert {name for name in cells if name in red and "assert" in cells[name].source}, said
    assert "setup" not in red


def test_only_the_courses_notebooks_are_collected(tmp_path: Path) -> None:
    empty = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    for folder in ("notebooks", "work"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "98_small.ipynb").write_text(empty, encoding="utf-8")
    outcomes, _, said = run_pytest(tmp_path, ["--collect-only", "-q", "."])
    assert outcomes == {}
    assert "notebooks/98_small.ipynb::learner::processor-seconds" in said
    assert "work/98_small.ipynb" not in said
