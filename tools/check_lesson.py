"""Is a lesson what every lesson has to be? python -m tools.check_lesson [NN …]

Prints each lesson's numbers beside the guide's, and what breaks a rule of tools/template.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.lesson_source import PROJECT_FOLDER, LessonError, lesson_paths, read_lesson
from tools.template import GUIDE, lesson_problems, sizes


def main(arguments: list[str] | None = None, root: Path = PROJECT_FOLDER) -> int:
    """The command line; prints each lesson's numbers, 0 is well, 1 something to mend."""
    parser = argparse.ArgumentParser(prog="python -m tools.check_lesson", description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers; all by default")
    problems: list[str] = []
    try:
        for path in lesson_paths(root, parser.parse_args(arguments).lessons):
            lesson = read_lesson(path)
            problems += lesson_problems(lesson)
            numbers = ", ".join(
                f"{size} {name}" + (" (guide {}–{})".format(*GUIDE[name]) if name in GUIDE else "")
                for name, size in sizes(lesson).items()
            )
            print(f"{lesson.label}: {numbers}")
    except LessonError as error:
        problems += error.problems
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
