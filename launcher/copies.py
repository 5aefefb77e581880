"""The learner's copy of the notebooks in work/: placed, kept up to date, and never overwritten.

A hidden list in work/ remembers, for each file, which version of the course's was placed. A file
that still equals it is the course's and follows its changes; any other is the learner's and stays.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from launcher.files import digest, write_atomically
from launcher.health import fault

LIST_NAME = ".course-copies.json"


@dataclass
class Refresh:
    """What was done, by file name."""

    placed: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    newer: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def lines(self, work: Path) -> list[str]:
        """It all, for the learner: nothing when nothing happened."""
        said = []
        if self.placed:
            said.append(
                f"Copied to {work}, your own folder, where nothing of yours is ever overwritten: "
                + listed(self.placed)
            )
        if self.updated:
            said.append(f"Brought up to date (you had not changed them): {listed(self.updated)}")
        if self.newer:
            said.append(
                f"The course has a newer version of {listed(self.newer)}; you have changed yours, "
                "so it stays. To get the new one, rename yours and start again."
            )
        if self.unknown:
            said.append(
                f"Kept as yours, since not the course's version: {listed(self.unknown)}. "
                "To get the course's, rename yours and start again."
            )
        return said + self.remarks


def refresh(course: Path, work: Path) -> list[str]:
    """Bring `work` up to date with the files in `course`; returns lines for the learner."""
    done = Refresh()
    known = read_list(work / LIST_NAME, done)
    before = dict(known)
    for source in files_of(course):
        data = source.read_bytes()
        if source.suffix == ".ipynb" and (wrong := fault(data)):
            done.remarks.append(
                f"{source}, {wrong}. It has not been copied; to restore it: "
                f"git checkout -- notebooks/{source.name}"
            )
            continue
        try:
            place(source.name, data, work, known, done)
        except PermissionError as error:
            done.remarks.append(f"{source.name} could not be copied to {work}: {error.strerror}.")
    if known != before:
        try:
            write_atomically(work / LIST_NAME, json.dumps(known, indent=1).encode())
        except OSError as error:
            done.remarks.append(f"{work / LIST_NAME} could not be written: {error.strerror}.")
    return done.lines(work) + [remark for file in files_of(work) for remark in damage(file, course)]


def place(name: str, data: bytes, work: Path, known: dict[str, str], done: Refresh) -> None:
    """Put the course's file `name` into `work` unless something of the learner's is there."""
    target = work / name
    new = digest(data)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        return  # whatever it is, the learner made it
    have = digest(target.read_bytes()) if target.exists() else None
    if have is None:
        write_atomically(target, data)
        done.placed.append(name)
    elif have == new:
        pass
    elif have == known.get(name):
        write_atomically(target, data)
        done.updated.append(name)
    elif name in known:
        if known[name] != new:
            done.newer.append(name)
        return
    else:
        done.unknown.append(name)
    known[name] = new


def files_of(folder: Path) -> list[Path]:
    """The files at the top of `folder`, hidden ones and editors' backups left out."""
    if not folder.is_dir():
        return []
    names = sorted(entry for entry in folder.iterdir() if entry.is_file())
    return [entry for entry in names if not entry.name.startswith(".") and entry.name[-1] != "~"]


def read_list(path: Path, done: Refresh) -> dict[str, str]:
    """What was placed earlier: file name to hash. Empty at first, and when the list is damaged."""
    try:
        known = json.loads(path.read_text("utf-8"))
        if not isinstance(known, dict):
            raise ValueError("not an object")
        return {str(name): str(value) for name, value in known.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        done.remarks.append(
            f"{path} was damaged; it has been made anew, and every notebook that differs "
            "from the course's counts as yours."
        )
        return {}


def damage(file: Path, course: Path) -> list[str]:
    """What is wrong with a notebook of the learner's, and how to get it back."""
    if file.suffix != ".ipynb":
        return []
    try:
        wrong = fault(file.read_bytes())
    except OSError as error:
        wrong = error.strerror
    if not wrong:
        return []
    said = f"{file}, {wrong}. It has been left as it is."
    saved = file.parent / ".ipynb_checkpoints" / f"{file.stem}-checkpoint.ipynb"
    if saved.is_file() and not fault(saved.read_bytes()):
        said += f" Jupyter's last checkpoint of it is whole: {saved}."
    if (course / file.name).is_file():
        said += " For a fresh copy of the course's, rename yours and start again."
    return [said]


def listed(names: list[str]) -> str:
    """A few names, or how many there are."""
    return ", ".join(names) if len(names) <= 4 else f"{len(names)} files"


def first_lesson(work: Path) -> str | None:
    """The notebook to open: lesson 00, when it is there."""
    return next((file.name for file in files_of(work) if file.match("00*.ipynb")), None)
