"""Where a learner's progress and answers lie.

COURSE_HOME moves both. Without it, progress goes to the user's data folder and answers beside the
learner's notebooks. An edition run (COURSE_EDITION: a build or a test of the notebooks) has no
place: it must print the same on every machine, and a maintainer's progress is not its business.
"""

from __future__ import annotations

import os
from pathlib import Path

from course_lib.runtime import PROJECT_FOLDER, edition

PRODUCT = "attention-course"


def home() -> Path | None:
    """The folder of the learner's data, or None where there is no such place."""
    if edition():
        return None
    chosen = os.environ.get("COURSE_HOME")
    if chosen:
        return Path(chosen).absolute()
    import platformdirs

    try:
        folder = Path(platformdirs.user_data_dir(PRODUCT, appauthor=False))
    except (OSError, RuntimeError, KeyError):  # no home, and no entry in the list of users
        return None
    return folder if folder.is_absolute() else None  # "~/..." is what an unset home leaves


def progress_file() -> Path | None:
    """Where progress is kept."""
    folder = home()
    return folder / "progress.json" if folder else None


def answers_file(lesson: str) -> Path | None:
    """Where the answers of a lesson are kept."""
    folder = _answers_folder()
    return folder / f"lesson_{lesson}.py" if folder else None


def _answers_folder() -> Path | None:
    if edition():
        return None
    is_checkout = (PROJECT_FOLDER / "lessons").is_dir()
    if not os.environ.get("COURSE_HOME") and is_checkout:
        work = PROJECT_FOLDER / "work"
        nearest = next(
            folder for folder in (work / "answers", work, PROJECT_FOLDER) if folder.exists()
        )
        if os.access(nearest, os.W_OK):
            return work / "answers"
    folder = home()
    return folder / "answers" if folder else None


def shown(path: Path) -> str:
    """A path as a learner reads it: relative to the course where it lies inside."""
    if path.is_relative_to(PROJECT_FOLDER):
        return path.relative_to(PROJECT_FOLDER).as_posix()
    return str(path)
