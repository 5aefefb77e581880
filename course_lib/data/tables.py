"""Tables of experiments that take several seeds and minutes: measured once, shown by lessons.

Each is a JSON file in data/tables with the numbers, and the command, date, machine, seeds and
settings that they come from. The modules of benchmarks/lesson_tables measure them again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from course_lib.data.corpora import DATA_FOLDER
from course_lib.runtime import CourseError


def table_path(name: str) -> Path:
    """Where the table of this name is kept."""
    return DATA_FOLDER / "tables" / f"{name}.json"


def load_table(name: str) -> dict[str, Any]:
    """The table of this name, e.g. "scale" (lesson 03).

    Raises CourseError if there is none, or if its file is damaged.
    """
    path = table_path(name)
    remedy = (
        f"restore it with `git checkout data/tables/{path.name}`, or measure it again with "
        f"`python -m benchmarks.lesson_tables.{name}`"
    )
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted(file.stem for file in path.parent.glob("*.json"))) or "none"
        raise CourseError(f"there is no table {name!r} (there are: {known}); {remedy}") from None
    except (OSError, ValueError) as error:
        raise CourseError(f"the table {name!r} cannot be read ({error}); {remedy}") from None
    if not isinstance(table, dict):
        raise CourseError(f"the table {name!r} is no JSON object; {remedy}")
    return table
