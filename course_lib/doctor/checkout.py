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

from course_lib.runtime import PROJECT_FOLDER


def beside(name: str) -> ModuleType:
    """A module of the course's folder: "start", "launcher.health". ImportError if there is none."""
    folder = str(PROJECT_FOLDER)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(folder)


def script(path: Path) -> ModuleType:
    """A program that is no package's, as a module; it is not run. ImportError if there is none."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise ImportError(f"{path} cannot be read: {error.strerror}") from None
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
