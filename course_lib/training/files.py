"""Folders of files that are whole: every one the new, or every one the former.

config.json holds the checksum of each file beside it, and its own. A folder is written beside its
place; then the former one steps aside and the new one takes its name. A kill between those two
moves leaves the former one under its other name, where a reader looks too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from course_lib.runtime import CourseError

MODEL, CONFIG, HISTORY, RESULT = "model.safetensors", "config.json", "history.csv", "result.json"
TENSORS, STATE = "training.safetensors", "training.json"
SEALED = (MODEL, HISTORY, RESULT, TENSORS, STATE)
FORMATS = (1, 2)  # 1 had checksums of the model and of config.json alone


def json_bytes(value: object) -> bytes:
    """JSON as people read it, UTF-8, one newline at the end."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def seal(config: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files, and a config.json, the last of them, with the checksums of all."""
    sealed = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    config = {"format": FORMATS[-1], **config, "checksums": sealed}
    sealed[CONFIG] = checksum(config)
    return {**files, CONFIG: json_bytes(config)}


def read_sealed(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """config.json and the content of each file that it vouches for. Nothing is executed.

    Raises CourseError naming the file that is missing, cut or altered.
    """
    try:
        return _read_all(folder)
    except CourseError:  # a training may have replaced the folder between two of its files
        return _read_all(folder)


def read_config(path: Path) -> dict[str, Any]:
    """A run's config.json, whose checksum is its own. CourseError naming it if it is not."""
    content = _read_bytes(path)
    try:
        config = json.loads(content.decode("utf-8"))
        as_written = json_bytes(config)
        stored = config["checksums"].pop(CONFIG)
        names = list(config["checksums"])
    except (ValueError, RecursionError) as error:  # what a damaged JSON can raise
        raise damaged(path, str(error)) from None
    except (KeyError, TypeError, AttributeError):
        raise damaged(path, "it is not the configuration of a run") from None
    if config.get("format") not in FORMATS:
        raise damaged(
            path, f"it has format {config.get('format')!r}, and this course reads {FORMATS}"
        )
    if stored != checksum(config) or content != as_written:
        raise damaged(path, "its checksum is not its own: it was cut or edited")
    if MODEL not in names or not set(names) <= set(SEALED):  # never a path that leads elsewhere
        raise damaged(path, f"it names the files {names}, and a run's are {list(SEALED)}")
    return config


def replace_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put a folder of these files in the place of the one there may be. CourseError if it fails."""
    draft, former = _beside(folder, "draft"), _beside(folder, "former")
    try:
        _remove(draft)  # what a kill left
        draft.mkdir(parents=True)
        for name, content in files.items():
            _write(draft / name, content)
        if folder.exists():
            _remove(former)
            os.replace(folder, former)
        os.replace(draft, folder)
    except OSError as error:
        raise cannot_write(folder, error, files) from None
    finally:
        with suppress(OSError):  # a reader finds it under its other name as well
            if former.exists() and not folder.exists():
                os.replace(former, folder)
        _remove(draft)
        if folder.exists():
            _remove(former)


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace files in a folder that holds others too; the last of them, config.json, counts.

    Until all are in place there is no config.json: what was there before is not there any more.
    """
    drafts = {name: folder / f".{name}.draft" for name in files}
    try:
        for name, content in files.items():
            _write(drafts[name], content)
        (folder / CONFIG).unlink(missing_ok=True)
        for name, draft in drafts.items():
            os.replace(draft, folder / name)
    except OSError as error:
        raise cannot_write(folder, error, files) from None
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def whole(folder: Path) -> Path:
    """The folder, or where a kill in the middle of its replacement left the former one."""
    former = _beside(folder, "former")
    return former if os.path.exists(former) and not os.path.exists(folder) else folder


def checksum(config: Mapping[str, Any]) -> str:
    """SHA-256 of a configuration, however it is laid out."""
    text = json.dumps(config, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def damaged(path: Path, what: str) -> CourseError:
    """The refusal of a file that cannot be trusted."""
    return CourseError(f"{path} cannot be used: {what}; take a sound copy, or train again")


def cannot_write(folder: Path, error: OSError, files: Mapping[str, bytes] | float) -> CourseError:
    """The refusal of a place to write files (or so many bytes) to, with the room they take."""
    size = files if isinstance(files, int | float) else sum(map(len, files.values()))
    return CourseError(
        f"the run cannot be written to {folder}: {error.strerror or error}; it needs "
        f"{size / 1e6 + 1:.0f} MB, in a folder that may be written to"
    )


def _beside(folder: Path, role: str) -> Path:
    folder = Path(os.path.abspath(folder))  # "." and ".." have names too
    return folder.parent / f".{folder.name}.{role}"


def _read_all(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    config = read_config(whole(folder) / CONFIG)
    return config, {name: _read(folder, name, config) for name in config["checksums"]}


def _read(folder: Path, name: str, config: dict[str, Any]) -> bytes:
    content = _read_bytes(whole(folder) / name)
    if hashlib.sha256(content).hexdigest() != config["checksums"][name]:
        raise damaged(whole(folder) / name, f"its checksum is not the one in {CONFIG}")
    return content


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        reason = getattr(error, "strerror", None) or error
        raise CourseError(
            f"{str(path)[:300]} cannot be read: {reason}; give a run's folder, "
            "which a training has written, with all its files"
        ) from None


def _remove(folder: Path) -> None:
    """Remove a folder, if there is one; of a link the link alone."""
    with suppress(OSError):
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    with open(path, "xb") as file:  # through no link that a folder from elsewhere may hold
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
