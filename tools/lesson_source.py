"""A lesson as plain text: lessons/NN_slug.py, read into cells that have a name, tags and a line.

jupytext does the reading (py:percent). What it leaves open is settled here: every cell is named,
once, for its name becomes the notebook cell's id, so that a rebuilt notebook differs only where the
lesson does. Every problem is reported with its file and line, all of them together.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import jupytext

PROJECT_FOLDER = Path(__file__).resolve().parent.parent
TAGS = ("exercise", "check", "quiz", "nbval-ignore-output", "raises-exception")
COURSE_KEYS = ("exercise", "quiz")

# What jupytext notes about the text itself.
_JUPYTEXT_KEYS = {"cell_marker", "lines_to_next_cell", "lines_to_end_of_cell_marker"}
_FILE_NAME = re.compile(r"(\d\d)_[a-z0-9_]+\.py")
_CELL_NAME = re.compile(r"[a-z0-9-]{1,64}")
_CELL_MARKER = re.compile(r"# %%(\s|$)")
_ALMOST_MARKER = re.compile(r"#\s*%\s*(\[|name=)")  # jupytext takes it for a comment


class LessonError(Exception):
    """What is wrong with a lesson: one line for each problem, with file, place and remedy."""

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = [problems] if isinstance(problems, str) else list(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Cell:
    """One cell of a lesson; `kind` is "markdown" or "code", `line` where its marker stands."""

    name: str
    kind: str
    source: str
    tags: tuple[str, ...]
    course: dict[str, str | int]
    line: int

    @property
    def metadata(self) -> dict:
        """The metadata that the notebook keeps."""
        kept = {"course": dict(self.course), "tags": list(self.tags)}
        return {key: value for key, value in kept.items() if value}

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a code cell."""
        return ast.parse(self.source)


@dataclass(frozen=True)
class Lesson:
    """A lesson: its file, its cells, and the hash of its text."""

    path: Path
    cells: tuple[Cell, ...]
    sha256: str

    @property
    def number(self) -> str:
        """The lesson's two digits."""
        return self.path.name[:2]

    @property
    def label(self) -> str:
        """The path as messages give it."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def notebook_path(self) -> Path:
        """Where the built notebook lies: notebooks/, beside the folder of the lesson."""
        return self.path.parent.parent / "notebooks" / f"{self.path.stem}.ipynb"

    def where(self, cell: Cell) -> str:
        """A cell's place, for a message."""
        return f"{self.label}:{cell.line}: cell {cell.name!r}"


def lesson_paths(root: Path = PROJECT_FOLDER, numbers: Iterable[str] = ()) -> list[Path]:
    """The lesson files below root/lessons, all or those whose numbers are given, in order."""
    paths: dict[str, Path] = {}
    for path in sorted((root / "lessons").glob("*.py")):
        match = _FILE_NAME.fullmatch(path.name)
        if not match:
            raise LessonError(f"lessons/{path.name} is not named like a lesson; use NN_slug.py")
        if match[1] in paths:
            raise LessonError(
                f"lesson {match[1]} is there twice: {paths[match[1]].name}, {path.name}"
            )
        paths[match[1]] = path
    wanted = [number.zfill(2) for number in numbers] or list(paths)
    unknown = [number for number in wanted if number not in paths]
    if unknown:
        there = ", ".join(paths) or "none"
        raise LessonError(
            f"there is no lesson {', '.join(unknown)} in lessons/; there are: {there}"
        )
    return [paths[number] for number in dict.fromkeys(wanted)]


def read_lesson(path: Path) -> Lesson:
    """Read one lesson; raises LessonError with every problem of its cells."""
    text = path.read_text(encoding="utf-8")
    raw_cells = jupytext.reads(text, fmt="py:percent").cells
    lines = [i for i, line in enumerate(text.split("\n"), start=1) if _CELL_MARKER.match(line)]
    label = f"{path.parent.name}/{path.name}"
    if len(lines) != len(raw_cells):
        raise LessonError(
            f"{label}:1: {len(raw_cells)} cells but {len(lines)} markers; the file has to begin "
            'with "# %%", and no string or text may hold a line that does'
        )
    cells = tuple(_cell(raw, line) for raw, line in zip(raw_cells, lines, strict=True))
    problems = [
        f"{label}:{cell.line}: {problem}"
        for raw, cell in zip(raw_cells, cells, strict=True)
        for problem in _problems(cell, raw)
    ]
    problems += [f"{label}:{line}: {problem}" for line, problem in _repeated_names(cells)]
    problems += [
        f'{label}:{i}: a heading with one percent sign, {line:.40}; a cell begins with "# %%"'
        for i, line in enumerate(text.split("\n"), start=1)
        if _ALMOST_MARKER.match(line)
    ]
    if not cells:
        problems.append(f"{label}:1: there is no cell; begin with '# %% [markdown] name=\"title\"'")
    if problems:
        raise LessonError(problems)
    return Lesson(path, cells, hashlib.sha256(text.encode("utf-8")).hexdigest())


def _cell(raw, line: int) -> Cell:
    tags, course = raw.metadata.get("tags", []), raw.metadata.get("course", {})
    return Cell(
        name=str(raw.metadata.get("name", "")),
        kind=raw.cell_type,
        source=raw.source.rstrip(),
        tags=tuple(tags) if isinstance(tags, list) else (str(tags),),
        course=dict(course) if isinstance(course, dict) else {"?": str(course)},
        line=line,
    )


def _problems(cell: Cell, raw) -> Iterable[str]:
    """What is wrong with one cell by itself."""
    if not _CELL_NAME.fullmatch(cell.name):
        yield f'cell name {cell.name!r} is not a-z, 0-9 and "-", 1 to 64 of them; write name="…"'
    if cell.kind not in ("markdown", "code"):
        yield f"a {cell.kind} cell; a lesson has markdown and code cells only"
    for key in sorted(set(raw.metadata) - {"name", "tags", "course"} - _JUPYTEXT_KEYS):
        yield f"{key}={raw.metadata[key]!r} is not known; a cell may have name, tags, course"
    for tag in sorted(set(cell.tags) - set(TAGS)):
        yield f"tag {tag!r} is not known; the tags are: {', '.join(TAGS)}"
    for key in sorted(set(cell.course) - set(COURSE_KEYS)):
        yield f"course key {key!r} is not known; the keys are: {', '.join(COURSE_KEYS)}"
    for key in COURSE_KEYS:
        if (key in cell.tags) != (key in cell.course):
            yield f'the tag "{key}" and course={{"{key}": …}} go together; give both or neither'
    if cell.kind == "code":
        yield from _code_problems(cell)
    elif cell.tags:
        yield f"a text cell with the tags {', '.join(cell.tags)}; tags are for code cells"
    elif not cell.source:
        yield "the text cell is empty; write its text as comment lines, or delete it"


def _code_problems(cell: Cell) -> Iterable[str]:
    try:
        statements = cell.tree.body
    except SyntaxError as error:
        yield (
            f"line {error.lineno} of the cell is not plain Python ({error.msg}); "
            "magics and shell commands are not used in lessons"
        )
        return
    if not statements:
        yield "the code cell has no statement; write one, or delete the cell"
    if cell.source.endswith(";"):
        yield 'ends with ";", which nbval does not honour; end a plotting cell with plt.show()'


def _repeated_names(cells: tuple[Cell, ...]) -> Iterable[tuple[int, str]]:
    first: dict[str, int] = {}
    for cell in cells:
        if cell.name in first:
            yield (
                cell.line,
                f"cell name {cell.name!r} was used on line {first[cell.name]}; names are ids, "
                "so give each cell its own",
            )
        first.setdefault(cell.name, cell.line)
