"""What lies beside the library in the course's folder: start.py and its launcher, prepare.py.

They know already what a broken notebook is, which Python is too old, or which hash a corpus has,
and are asked, so that nothing is said at two places.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from course_lib.runtime import PROJECT_FOLDER, CourseError


def beside(name: str) -> ModuleType:
    """A module of the course's folder: "start", "launcher.health". CourseError if it is missing."""
    folder = str(PROJECT_FOLDER)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).split(".")
        if missing[0] != name.split(".")[0]:  # a package that it needs
            raise
        what = missing[0] if missing == ["launcher"] else "/".join(missing) + ".py"
        raise CourseError(f"{PROJECT_FOLDER / what} is missing; git checkout -- {what}") from None
    finally:
        sys.path.remove(folder)


def script(path: Path) -> ModuleType:
    """A program that is no package's, as a module; it is not run. CourseError if it cannot be."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (OSError, SyntaxError) as error:
        name = path.relative_to(PROJECT_FOLDER) if path.is_relative_to(PROJECT_FOLDER) else path
        raise CourseError(f"{path} cannot be used: {error}; git checkout -- {name}") from None
    return module


def course_python() -> Path | None:
    """The Python of the environment that start.py made, or None."""
    environment = beside("launcher.environment").Environment
    files = beside("launcher.files")
    for folder in (PROJECT_FOLDER, files.folder_of(PROJECT_FOLDER)):
        made = environment(folder / ".venv", PROJECT_FOLDER)
        if made.lock.exists() and made.python.exists():
            return made.python
    return None


def in_course_environment() -> bool:
    """Whether this process runs in the environment that start.py made."""
    return (Path(sys.prefix) / "start.lock").exists()


def command(*words: str) -> str:
    """A command line to show; a path with blanks is put in quotes."""
    return " ".join(f'"{word}"' if " " in word else word for word in words)
