"""What lies in the course's folder, and where the learner's things are written."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from course_lib.doctor.checkout import beside, script
from course_lib.doctor.findings import Finding
from course_lib.runtime import PROJECT_FOLDER, CourseError, edition

ENOUGH_BYTES, FEW_BYTES = 1_000_000_000, 200_000_000  # free disk: a run's folder takes some 10 MB


def corpora(folder: Path = PROJECT_FOLDER / "data") -> tuple[Finding, ...]:
    """Each text of the course: there, and byte for byte as it should be."""
    hashes = script(folder / "prepare.py").FILE_SHA256
    return tuple(corpus(folder / name, expected) for name, expected in hashes.items())


def corpus(file: Path, expected: str) -> Finding:
    """One text, compared with its SHA-256."""
    subject = f"data/{file.name}"
    restore = f"git checkout -- {subject}   (or rebuild it: python data/prepare.py)"
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return Finding("mend", subject, "is missing", restore)
    except OSError as error:
        return Finding("mend", subject, f"cannot be read: {error.strerror}", restore)
    if hashlib.sha256(content).hexdigest() == expected:
        return Finding("ok", subject, f"{len(content):,} bytes, as it should be")
    if hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest() == expected:
        text = "has line ends of Windows; it can be used, with a notice each time"
        return Finding("note", subject, text, restore)
    text = f"{len(content):,} bytes, and not those it should have: it was cut or changed"
    return Finding("mend", subject, text, restore)


def checkpoints(folder: Path = PROJECT_FOLDER / "data") -> tuple[Finding, ...]:
    """Each trained model that data/README.md lists, loaded."""
    readme = (folder / "README.md").read_text("utf-8")
    names = re.findall(r"^\| `checkpoints/([\w-]+)/` \|", readme, re.MULTILINE)
    return tuple(checkpoint(folder / "checkpoints" / name) for name in names)


def checkpoint(folder: Path) -> Finding:
    """One trained model: it loads, with checksums that agree."""
    from course_lib.model.gpt import count_parameters
    from course_lib.training.checkpoint import load_run

    subject = f"data/checkpoints/{folder.name}"
    try:
        model, _, _ = load_run(folder)
    except CourseError as error:
        return Finding("mend", subject, str(error), f"git checkout -- {subject}")
    return Finding("ok", subject, f"loads, {count_parameters(model):,} parameters")


def notebooks(checkout: Path = PROJECT_FOLDER) -> tuple[Finding, ...]:
    """A notebook for each lesson, and the learner's copies: all of them can be opened."""
    fault, damage = beside("launcher.health").fault, beside("launcher.copies").damage
    course = checkout / "notebooks"
    lessons = sorted(checkout.glob("lessons/[0-9][0-9]_*.py"))
    wrong = []
    for name in (f"{lesson.stem}.ipynb" for lesson in lessons):
        file = course / name
        said = fault(file.read_bytes()) if file.is_file() else "is missing"
        if said:
            restore = f"git checkout -- notebooks/{name}   (a lesson's author: CONTRIBUTING.md)"
            wrong.append(Finding("mend", f"notebooks/{name}", said, restore))
    if not lessons:
        text = f"there are none in {checkout}: this is not the course's folder, or half of it"
        wrong.append(Finding("mend", "notebooks", text, "clone or download the course again"))
    own = sorted((checkout / "work").glob("*.ipynb"))
    for file in own:
        wrong += [Finding("mend", f"work/{file.name}", said) for said in damage(file, course)]
    text = f"{len(lessons)} lessons, {len(own)} copies of yours in work/"
    return tuple(wrong) or (Finding("ok", "notebooks", text),)


def learners_places() -> tuple[Finding, ...]:
    """Where progress and answers are kept, and whether they can be."""
    from course_lib.exercises import places

    if edition():
        text = f"COURSE_EDITION={edition()} is set, for tests: no progress is kept"
        return (Finding("note", "progress", text, "remove that variable"),)
    answers = places.answers_file("00")
    return (
        place("progress", places.progress_file()),
        place("answers", answers.parent if answers else None),
    )


def place(subject: str, path: Path | None) -> Finding:
    """Whether a file or folder, there already or not, can be written."""
    remedy = "set the environment variable COURSE_HOME to a folder that can be written to"
    if path is None:
        return Finding("mend", subject, "has no place: there is no home folder", remedy)
    folder = path if path.is_dir() else path.parent
    taken = next((part for part in (folder, *folder.parents) if part.exists()), folder)
    if not taken.is_dir():
        return Finding("mend", subject, f"{taken} is a file, and should be a folder", remedy)
    if not beside("launcher.files").can_write(folder):
        return Finding("mend", subject, f"{folder} cannot be written to", remedy)
    return Finding("ok", subject, f"kept in {path}")


def disk(free: int | None = None) -> tuple[Finding, ...]:
    """Room for runs and answers where the course lies."""
    free = shutil.disk_usage(PROJECT_FOLDER).free if free is None else free
    text = f"{free / 1e9:.1f} GB free"
    if free < FEW_BYTES:
        return (Finding("mend", "disk", text, "make room: runs and answers could not be written"),)
    state = "ok" if free >= ENOUGH_BYTES else "note"
    return (Finding(state, "disk", text, "" if state == "ok" else "make room before long runs"),)


def chinese_font() -> tuple[Finding, ...]:
    """A font for the characters of Tang verse in pictures."""
    import matplotlib

    from course_lib.plots import cjk_font

    if font := cjk_font():
        return (Finding("ok", "Chinese font", font),)
    remedy = (
        "install Noto Sans CJK SC (on Debian and Ubuntu: sudo apt install fonts-noto-cjk), then "
        f"delete matplotlib's list of fonts in {matplotlib.get_cachedir()}"
    )
    text = "none is installed: pictures of Tang verse show code points in place of characters"
    return (Finding("note", "Chinese font", text, remedy),)


def threads() -> tuple[Finding, ...]:
    """Whether COURSE_THREADS, if set, is a number that works here."""
    import torch

    from course_lib.runtime import available_threads, set_threads

    before = torch.get_num_threads()
    try:
        number = set_threads()
    except CourseError as error:
        text = f"COURSE_THREADS is set, and {str(error).partition(';')[0]}"
        remedy = f"remove it, or set it to a number from 1 to {available_threads()}"
        return (Finding("mend", "threads", text, remedy),)
    finally:
        torch.set_num_threads(before)
    asked = os.environ.get("COURSE_THREADS")
    text = f"{number}, by COURSE_THREADS" if asked else "found by `train` itself; 1 elsewhere"
    if number > available_threads():
        text += f"; this program may use {available_threads()} cores, so that is slow"
        return (Finding("note", "threads", text, "set COURSE_THREADS to a smaller number"),)
    return (Finding("ok", "threads", text),)
