"""Files that several notebooks change: locked, replaced in one step, set aside when damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from course_lib.runtime import replace_file

LOCK_SECONDS = 10.0


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside a file, making its folder first. Raises OSError where that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(f"{path}.lock", timeout=LOCK_SECONDS):
            yield
    except (Timeout, NotImplementedError) as error:
        raise OSError(f"{path} is locked by another program: {error}") from error


def replace_text(path: Path, text: str) -> None:
    """Write a file so that a reader, or a crash, sees the old text or the new, never a half."""
    replace_file(path, text.encode("utf-8"))


def set_aside(path: Path) -> Path:
    """Rename a damaged file (or a folder in its place) to a name that is free, and return that."""
    number = 1
    while (aside := path.with_name(f"{path.stem}.damaged-{number}{path.suffix}")).exists():
        number += 1
    return path.rename(aside)
