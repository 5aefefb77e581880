"""Is a notebook what its lesson says? Sources, ids, metadata, pictures, and whether it was run.

Outputs themselves are nbval's business: pixels and losses differ between machines. That there are
outputs is looked at here, because nbval passes a cell that was never executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.cell_syntax import shows_something
from tools.lesson_source import Lesson
from tools.normalise import NOTEBOOK_BYTES, empty_notebook, picture_problems


def differences(lesson: Lesson) -> list[str]:
    """How the built notebook differs from its lesson; empty if it does not."""
    path = lesson.notebook_path
    label = f"notebooks/{path.name}"
    if not path.is_file():
        return [f"{label} is missing"]
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        found = [*_frame_differences(lesson, notebook), *_cell_differences(lesson, notebook)]
    except (ValueError, KeyError, AttributeError, TypeError, SyntaxError) as error:
        reason = str(error).strip().split("\n")[0]
        return [f"{label} is not a readable notebook ({reason:.80})"]
    if path.stat().st_size >= NOTEBOOK_BYTES:
        found.append(f"{path.stat().st_size:,} bytes, {NOTEBOOK_BYTES:,} are the limit")
    return [f"{label}: {difference}" for difference in found]


def _frame_differences(lesson: Lesson, notebook: NotebookNode) -> Iterator[str]:
    wanted = empty_notebook(lesson)
    edited = _texts(wanted) != _texts(notebook)  # then the hash of the text differs as well
    for key in sorted(set(wanted.metadata) | set(notebook.metadata)):
        if wanted.metadata.get(key) != notebook.metadata.get(key) and not (
            edited and key == "course"
        ):
            yield f"metadata {key!r} is not that of {lesson.label}"
    ids = [cell.name for cell in lesson.cells]
    there = [cell.id for cell in notebook.cells]
    yield from (f"cell {name!r} of the lesson is missing" for name in ids if name not in there)
    yield from (f"cell {name!r} is not in the lesson" for name in there if name not in ids)
    if sorted(ids) == sorted(there) and ids != there:
        yield "the cells are in another order than the lesson's"


def _texts(notebook: NotebookNode) -> list[tuple]:
    return [(cell.id, cell.source, cell.metadata) for cell in notebook.cells]


def _cell_differences(lesson: Lesson, notebook: NotebookNode) -> Iterator[str]:
    wanted = {cell.id: cell for cell in empty_notebook(lesson).cells}
    cells = {cell.name: cell for cell in lesson.cells}
    for there in notebook.cells:
        if there.id not in wanted:
            continue
        for key in ("cell_type", "source", "metadata"):
            if there[key] != wanted[there.id][key]:
                line = cells[there.id].line
                yield f"cell {there.id!r}: {key} differs from {lesson.label}:{line}"
    for name, problem in stored_problems(notebook):
        yield f"cell {name!r}: {problem}"


def stored_problems(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Cell ids and what is wrong with what is stored: not run, no outputs, a picture too large."""
    count = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        count += 1
        if cell.execution_count != count:
            yield cell.id, f"execution count {cell.execution_count} where {count} is due; not run"
        if not cell.outputs and shows_something(cell.source):
            yield cell.id, "its output is missing"
        for output in cell.outputs:
            yield from ((cell.id, problem) for problem in picture_problems(output))


def extra_notebooks(lessons: list[Path]) -> list[str]:
    """Notebooks beside those of the lessons: built from nothing, or from a lesson that is gone."""
    if not lessons:
        return []
    folder = lessons[0].parent.parent / "notebooks"
    known = {path.stem for path in lessons}
    return [
        f"notebooks/{path.name} belongs to no lesson"
        for path in sorted(folder.glob("*.ipynb"))
        if path.stem not in known
    ]
