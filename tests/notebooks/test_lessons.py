"""The course's own lessons: each keeps the template, and its notebook is what the lesson says."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tools.compare import differences, extra_notebooks
from tools.lesson_source import lesson_paths, read_lesson
from tools.template import lesson_problems

LESSONS = lesson_paths()
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=[path.stem for path in LESSONS])


@each_lesson
def test_the_lesson_keeps_the_template(path: Path) -> None:
    assert lesson_problems(read_lesson(path)) == []


@each_lesson
def test_the_notebook_is_what_its_lesson_says(path: Path) -> None:
    assert differences(read_lesson(path)) == []


def test_no_notebook_is_without_a_lesson() -> None:
    assert extra_notebooks(LESSONS) == []


@each_lesson
def test_a_copy_without_outputs_would_be_seen(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lessons"
    folder.mkdir()
    copy = folder / path.name
    copy.write_bytes(path.read_bytes())
    lesson = read_lesson(copy)
    notebook = nbformat.read(read_lesson(path).notebook_path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    lesson.notebook_path.parent.mkdir()
    nbformat.write(notebook, lesson.notebook_path)
    code_cells = sum(cell.kind == "code" for cell in lesson.cells)
    assert sum("not run" in line for line in differences(lesson)) == code_cells
