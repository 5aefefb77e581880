"""Building: the same bytes each time, only what changed, and an error leaves the old notebook."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from tests.notebooks.sample import SMALL, make_course
from tools import build_notebooks, kernel
from tools.compare import differences, extra_notebooks
from tools.kernel import CellFailed, execute
from tools.lesson_source import LessonError, lesson_paths, read_lesson
from tools.normalise import empty_notebook
from tools.template import Registry

TITLE = '# %% [markdown] name="title"\n# # T\n\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the small lesson's notebook."""
    root = make_course(tmp_path_factory.mktemp("built"), n98_small=SMALL)
    lesson = read_lesson(lesson_paths(root)[0])
    assert build_notebooks.build(lesson, root) > 0
    return lesson.notebook_path.read_text(encoding="utf-8")


@pytest.fixture
def course(tmp_path: Path, built: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course whose one lesson is built, and whose template asks for nothing."""
    monkeypatch.setattr(build_notebooks, "lesson_problems", lambda lesson: [])
    root = make_course(tmp_path / "course", n98_small=SMALL)
    (root / "notebooks" / "98_small.ipynb").write_text(built, encoding="utf-8", newline="\n")
    return root


def change(root: Path, old: str, new: str) -> None:
    path = root / "lessons" / "98_small.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8", newline="\n")


def change_notebook(root: Path, old: str, new: str) -> None:
    path = root / "notebooks" / "98_small.ipynb"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8", newline="\n")


def notebook_bytes(root: Path) -> bytes:
    return (root / "notebooks" / "98_small.ipynb").read_bytes()


def check(root: Path, capsys: pytest.CaptureFixture) -> tuple[int, str]:
    capsys.readouterr()
    code = build_notebooks.main(["--check"], root)
    return code, capsys.readouterr().out


def test_the_same_lesson_gives_the_same_bytes(course: Path, built: str) -> None:
    (course / "notebooks" / "98_small.ipynb").unlink()
    assert build_notebooks.main([], course) == 0
    assert notebook_bytes(course).decode() == built
    assert built.endswith("\n}\n")
    assert "\r" not in built


def test_outputs_are_kept_where_they_are_due(built: str) -> None:
    cells = {cell.id: cell for cell in nbformat.reads(built, as_version=4).cells}
    assert cells["setup"].outputs[0].text == "ready to begin\n"
    assert [output.output_type for output in cells["progress"].outputs] == ["execute_result"]
    assert set(cells["picture"].outputs[0].data) == {"image/png", "text/plain"}
    assert cells["wrong-shape"].outputs[0].ename == "ValueError"
    assert "not attempted" in cells["check-double"].outputs[0].text
    assert cells["goes-on"].outputs[0].text == "doubled: 42\n"
    assert nbformat.validate(nbformat.reads(built, as_version=4)) is None


def test_an_unchanged_lesson_is_not_executed(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(build_notebooks, "execute", lambda notebook: pytest.fail("executed"))
    assert build_notebooks.main([], course) == 0
    assert capsys.readouterr().out == "lessons/98_small.py: unchanged\n"
    with pytest.raises(pytest.fail.Exception, match="executed"):
        build_notebooks.main(["--force"], course)


def test_check_is_content_with_what_was_built(course: Path, capsys: pytest.CaptureFixture) -> None:
    assert check(course, capsys) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "Weigh and mix",
            "Mix and weigh",
            "cell 'title': source differs from lessons/98_small.py:1",
        ),
        (
            "print(name, ",
            "print(name,  ",
            "cell 'setup': source differs from lessons/98_small.py:6",
        ),
        ('"goes-on"', '"going-on"', "cell 'going-on' of the lesson is missing"),
        ('tags=["raises-exception"]', "", "cell 'wrong-shape': metadata differs"),
        ("double(21))\n", "double(21))\n\n\n", "metadata 'course' is not that"),
    ],
)
def test_check_sees_a_lesson_that_was_not_rebuilt(
    course: Path, capsys: pytest.CaptureFixture, old: str, new: str, message: str
) -> None:
    change(course, old, new)
    code, said = check(course, capsys)
    assert code == 1
    assert f"notebooks/98_small.ipynb: {message}" in said
    assert ("metadata 'course' is not that" in said) == ("metadata 'course'" in message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"execution_count": 2,',
            '"execution_count": null,',
            "cell 'progress': execution count None",
        ),
        ('"id": "picture-text"', '"id": "anders"', "cell 'anders' is not in the lesson"),
        ('"id": "picture-text"', '"id": "setup"', "cell 'picture-text' of the lesson is missing"),
        ('"id": "picture-text",\n', "", "cell 'picture-text' of the lesson is missing"),
        ('"cell_type": "markdown"', '"cell_type": "raw"', "cell 'title': cell_type differs"),
        ('"outputs": []', '"outputs": 3', "is not"),
        ('"language": "python"', '"language": "Python"', "metadata 'kernelspec' is not that"),
        ('"nbformat": 4', '"nbformat": 4,,', "is not a readable notebook"),
        ('{\n "cells"', '<<<<<<< ours\n{\n "cells"', "is not a readable notebook"),
        (
            '"text/plain": [\n       "<Fig',
            '"image/svg+xml": "' + "x" * 60_000 + '",\n"text/plain": ["<Fig',
            "cell 'picture': its picture has 60,000 bytes",
        ),
        (
            ' "metadata": {\n  "course"',
            '"_": "' + "x" * 1_500_000 + '", "metadata": {\n  "course"',
            "1,500,000 are the limit",
        ),
    ],
    ids=[
        "not run",
        "id",
        "id twice",
        "no id",
        "type",
        "outputs",
        "metadata",
        "json",
        "merge",
        "picture",
        "size",
    ],
)
def test_check_sees_a_notebook_that_was_changed(
    course: Path, capsys: pytest.CaptureFixture, old: str, new: str, message: str
) -> None:
    change_notebook(course, old, new)
    code, said = check(course, capsys)
    assert code == 1
    assert message in said


def test_check_sees_stripped_outputs(course: Path, capsys: pytest.CaptureFixture) -> None:
    path = course / "notebooks" / "98_small.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    nbformat.write(notebook, path)
    _, said = check(course, capsys)
    for name in ("setup", "progress", "picture", "goes-on"):
        assert f"cell {name!r}: its output is missing" in said


def test_check_sees_another_order(course: Path, capsys: pytest.CaptureFixture) -> None:
    path = course / "notebooks" / "98_small.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, notebook.cells.pop(3))  # a text cell, so counts stay in order
    nbformat.write(notebook, path)
    assert "the cells are in another order than the lesson's" in check(course, capsys)[1]


def test_check_sees_missing_and_extra_notebooks(
    course: Path, capsys: pytest.CaptureFixture
) -> None:
    path = course / "notebooks" / "98_small.ipynb"
    path.rename(path.with_stem("97_gone"))
    code, said = check(course, capsys)
    assert code == 1
    assert "notebooks/98_small.ipynb is missing\n" in said
    assert "notebooks/97_gone.ipynb belongs to no lesson\n" in said
    assert extra_notebooks([]) == []


def test_check_reports_the_template(
    course: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("tools.template.registry_of", lambda number: Registry())
    code, said = check(course, capsys)
    assert code == 1
    assert "exercise 98.double is not in course_lib.exercises" in said


def test_a_build_says_how_many_problems_the_template_finds(
    course: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_notebooks, "lesson_problems", lambda lesson: ["one", "two"])
    assert build_notebooks.main([], course) == 1
    said = capsys.readouterr()
    assert said.out == "lessons/98_small.py: unchanged, with 2 problems\n"
    assert said.err == "one\ntwo\n"
    monkeypatch.setattr(build_notebooks, "build", lambda lesson, root: 1.5)
    assert build_notebooks.main(["--force"], course) == 1
    assert "built, 1.5 processor seconds, with 2 problems\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("print('to', 1 / 0)", "", "cell 'setup' raised ZeroDivisionError: division by zero"),
        ('print("to begin")', "import os; os._exit(3)", "cell 'setup' ended the kernel"),
        ('print("to begin")', "print(object())", "cell 'setup': shows a memory address"),
    ],
)
def test_an_error_leaves_the_old_notebook(
    course: Path, capsys: pytest.CaptureFixture, old: str, new: str, message: str
) -> None:
    if not new:
        old, new = 'print("to begin")', old
    before = notebook_bytes(course)
    change(course, old, new)
    assert build_notebooks.main(["98"], course) == 1
    assert f"lessons/98_small.py:6: {message}" in capsys.readouterr().err
    assert notebook_bytes(course) == before
    assert [path.name for path in (course / "notebooks").iterdir()] == ["98_small.ipynb"]


def test_a_lesson_beyond_its_budget_is_not_written(course: Path) -> None:
    budgets = course / "lessons" / "budgets.toml"
    budgets.write_text("[seconds]\n98 = 0.01\n", encoding="utf-8")
    lesson = read_lesson(lesson_paths(course)[0])
    before = notebook_bytes(course)
    with pytest.raises(LessonError, match=r"processor seconds, its budget is 0.01"):
        build_notebooks.build(lesson, course)
    assert notebook_bytes(course) == before
    budgets.write_text("[seconds]\n", encoding="utf-8")
    with pytest.raises(LessonError, match="lesson 98 has no budget"):
        build_notebooks.build(lesson, course)


def test_a_lesson_that_is_not_there(course: Path, capsys: pytest.CaptureFixture) -> None:
    assert build_notebooks.main(["77"], course) == 2
    said = capsys.readouterr()
    assert said.err == "there is no lesson 77 in lessons/; there are: 98\n"
    assert said.out == ""


def test_a_kernel_is_a_learners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    code = """
import os
here = os.environ
print(here["COURSE_EDITION"], here["COURSE_THREADS"], here["OMP_NUM_THREADS"])
print(os.listdir(), os.listdir(here["COURSE_HOME"]))
import course_lib, matplotlib
print(matplotlib.get_backend())
"""
    root = make_course(tmp_path, n98_small=f'{TITLE}# %% name="environment"\n{code}')
    notebook = empty_notebook(read_lesson(lesson_paths(root)[0]))
    execute(notebook)
    said = "".join(output.text for output in notebook.cells[1].outputs)
    assert said.startswith("learner 1 1\n[] []\n")
    assert "inline" in said
    assert len(notebook.cells) == 2  # the cell that measured is gone


def test_processor_seconds_count_work_and_no_waiting() -> None:
    def seconds_of(action: Callable[[], object]) -> float:
        before = eval(kernel.CPU_SECONDS)
        action()
        return eval(kernel.CPU_SECONDS) - before

    work = "sum(i for i in range(5_000_000))"
    waiting = seconds_of(lambda: time.sleep(0.5))
    assert seconds_of(lambda: eval(work)) > waiting
    if sys.platform != "win32":  # there os.times knows nothing of children
        assert seconds_of(lambda: subprocess.run([sys.executable, "-c", work])) > waiting


def test_a_cell_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "CELL_SECONDS", 1)
    root = make_course(tmp_path, n98_small=f'{TITLE}# %% name="forever"\nwhile True:\n    pass\n')
    with pytest.raises(CellFailed, match="took more than 1 seconds") as caught:
        execute(empty_notebook(read_lesson(lesson_paths(root)[0])))
    assert caught.value.index == 1


def test_what_a_lesson_that_was_never_built_differs_in(tmp_path: Path) -> None:
    lesson = read_lesson(lesson_paths(make_course(tmp_path, n98_small=SMALL))[0])
    assert differences(lesson) == ["notebooks/98_small.ipynb is missing"]


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Path) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "98_small.ipynb"
    path.write_text("old", encoding="utf-8")
    monkeypatch.setattr(build_notebooks.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        build_notebooks.write_atomically(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
