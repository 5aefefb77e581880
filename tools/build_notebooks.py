"""Build the notebooks from the lessons: python -m tools.build_notebooks [--check] [--force] [NN …]

Each lesson that changed is executed in a fresh kernel and written in a normalised form; an error
leaves the old notebook as it is. `--check` executes nothing: it lists how notebooks differ from
their lessons, and exits with 1 if any does. A change of course_lib does not make a notebook stale,
because most leave its outputs alone: the tests compare those, and `--force` builds all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.budgets import budget_of
from tools.compare import differences, extra_notebooks
from tools.kernel import CellFailed, execute
from tools.lesson_source import PROJECT_FOLDER, Lesson, LessonError, lesson_paths, read_lesson
from tools.normalise import empty_notebook, normalise
from tools.template import lesson_problems


def build(lesson: Lesson, root: Path = PROJECT_FOLDER) -> float:
    """Execute a lesson and write its notebook; the processor seconds that it took."""
    budget = budget_of(lesson.number, root)
    notebook = empty_notebook(lesson)
    try:
        seconds = execute(notebook)
    except CellFailed as failure:
        place = lesson.where(lesson.cells[failure.index])
        raise LessonError(f"{place} {failure}") from None
    text = normalise(lesson, notebook)
    if seconds > budget:
        raise LessonError(
            f"{lesson.label}: took {seconds:.1f} processor seconds, its budget is {budget} "
            "(lessons/budgets.toml); make its experiments smaller"
        )
    write_atomically(lesson.notebook_path, text)
    return seconds


def write_atomically(path: Path, text: str) -> None:
    """Put a whole new file in the place of the old one."""
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)


def check(paths: list[Path], all_lessons: list[Path]) -> list[str]:
    """How notebooks differ from their lessons, the template included."""
    found: list[str] = []
    for path in paths:
        try:
            lesson = read_lesson(path)
            found += differences(lesson)
            found += lesson_problems(lesson)
        except LessonError as error:
            found += error.problems
    return found + (extra_notebooks(all_lessons) if paths == all_lessons else [])


def build_all(paths: list[Path], force: bool, root: Path) -> int:
    """Build what changed, saying so line by line; the number of problems."""
    problems = 0
    for path in paths:
        found: list[str] = []
        try:
            lesson = read_lesson(path)
            found += lesson_problems(lesson)
            if not force and not differences(lesson):
                done = "unchanged"
            else:
                done = f"built, {build(lesson, root):.1f} processor seconds"
            print(f"{lesson.label}: {done}" + (f", with {len(found)} problems" if found else ""))
        except LessonError as error:
            found += error.problems
        for problem in found:
            print(problem, file=sys.stderr)
        problems += len(found)
    return problems


def main(arguments: list[str] | None = None, root: Path = PROJECT_FOLDER) -> int:
    """The command line; 0 is well, 1 something to mend, 2 a lesson that is not there."""
    parser = argparse.ArgumentParser(prog="python -m tools.build_notebooks", description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers; all by default")
    parser.add_argument("--check", action="store_true", help="execute nothing, list differences")
    parser.add_argument("--force", action="store_true", help="build unchanged lessons too")
    options = parser.parse_args(arguments)
    try:
        paths = lesson_paths(root, options.lessons)
        every = lesson_paths(root)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 2
    if not options.check:
        return 1 if build_all(paths, options.force, root) else 0
    found = check(paths, every)
    for line in found:
        print(line)
    if found:
        print("rebuild with: python -m tools.build_notebooks", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
