"""Where start.py may write, and writing without leaving halves behind.

All lies in the checkout. Where that cannot be written (a shared folder, a read-only disk), the
user's data folder takes its place, with one folder for each checkout.
"""

import hashlib
import os
import re
import sys
import tempfile
from pathlib import Path

from launcher.report import StartError


def digest(data: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def write_atomically(path: Path, data: bytes) -> None:
    """Write all of `data` or nothing: whoever reads meets the old file or the new, never a part."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def can_write(folder: Path) -> bool:
    """Whether files can be made in `folder`, or the folder itself where it does not exist yet.

    Tried, not asked: permissions alone say nothing about read-only disks, nor about Windows.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def user_data_folder() -> Path:
    """The folder for this course's files among the user's, as each operating system has it."""
    try:
        home = Path.home()
    except RuntimeError:
        raise StartError("your home folder is unknown; set the environment variable HOME") from None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME", ""))
        if not base.is_absolute():  # the standard says: ignore it then
            base = home / ".local" / "share"
    return base / "attention-course"


def folder_of(checkout: Path) -> Path:
    """Where this checkout keeps what it cannot keep in itself."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", checkout.name).strip("-.")[:40]
    key = digest(os.fsencode(checkout))[:8]
    return user_data_folder() / "checkouts" / f"{name or 'checkout'}-{key}"


def work_folder(checkout: Path) -> Path:
    """The learner's folder, made if need be: work/ in the checkout where it can be written.

    Raises StartError when neither that nor the user's data folder can be written.
    """
    places = checkout / "work", folder_of(checkout) / "work"
    for work in places:
        if can_write(work):
            work.mkdir(parents=True, exist_ok=True)
            return work
    raise StartError(no_place("your notebooks", places))


def no_place(what: str, places: tuple[Path, ...]) -> str:
    """The message when none of `places` can be written."""
    tried = " nor ".join(str(place) for place in places)
    return (
        f"there is no place for {what}: neither {tried} can be written. "
        "Copy the course to a folder of yours, and start it there"
    )
