"""The learner's progress: one JSON file for all notebooks and kernels, read without torch.

Several notebooks may write at once, and none may be stopped by a damaged file: that one is set
aside under another name. Where nothing can be written, progress lives in this kernel's memory. Each
trouble is told once. The file is data; nothing in it is ever executed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from course_lib.exercises import places
from course_lib.exercises.safe_files import locked, replace_text, set_aside
from course_lib.runtime import edition, notice

VERSION = 1
COUNTS = ("attempts", "passes", "hints")
_memory: dict[Path | None, dict] = {}  # progress that has no file to go to
_told: set[str] = set()


def read() -> dict[str, Any]:
    """All progress: version, exercises {id: record}, quizzes {lesson: {question: record}}."""
    return _change(None)


def record_attempt(exercise_id: str, passed: bool) -> None:
    """Count an attempt, and a pass if it is one, with its time."""

    def edit(data: dict) -> None:
        record = _exercise(data, exercise_id)
        record["attempts"] += 1
        record.setdefault("first_attempt", _now())
        record["last_attempt"] = _now()
        if passed:
            record["passes"] += 1
            record.setdefault("first_pass", _now())
            record["last_pass"] = _now()

    _change(edit)


def record_hint(exercise_id: str, of: int) -> int:
    """Count a hint and return which one it is, from 1; after the last it is the last again."""

    def edit(data: dict) -> None:
        record = _exercise(data, exercise_id)
        record["hints"] = min(record["hints"] + 1, of)

    return _change(edit)["exercises"][exercise_id]["hints"]


def record_quiz(lesson: str, question: int, chosen: list[int], right: bool) -> None:
    """Note the choices (from 0) made in a question (from 1) of a lesson's quiz."""

    def edit(data: dict) -> None:
        record = data["quizzes"].setdefault(lesson, {}).setdefault(str(question), {"tries": 0})
        record.update(chosen=chosen, right=right, tries=record["tries"] + 1, last=_now())

    _change(edit)


def _exercise(data: dict, exercise_id: str) -> dict:
    return data["exercises"].setdefault(exercise_id, dict.fromkeys(COUNTS, 0))


def _change(edit: Callable[[dict], None] | None) -> dict:
    """Apply an edit to the progress there is, or only read it; return the progress after it."""
    path = places.progress_file()
    if path is not None and path not in _memory:
        try:
            if edit is None and not path.exists():
                return _empty()
            with locked(path):
                data = _load(path)
                if edit is not None:
                    edit(data)
                    replace_text(path, json.dumps(data, indent=1) + "\n")
                return data
        except OSError as error:
            _tell(f"progress cannot be kept in {path} ({error}); it lasts until the kernel stops")
            _memory[path] = _peek(path)
    elif path is None and edition() is None:
        _tell("there is no home folder to keep progress in; set COURSE_HOME to a folder of yours")
    data = _memory.setdefault(path, _empty())
    if edit is not None:
        edit(data)
    return copy.deepcopy(data)


def _load(path: Path) -> dict:
    if path.is_dir():
        problem = "is a folder"
    else:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return _empty()
        data, problem = _parse(raw)
        if problem is None:
            return data
    aside = set_aside(path)
    _tell(f"{path} {problem}; it was set aside as {aside.name}, and progress begins anew")
    return _empty()


def _peek(path: Path) -> dict:
    """What a file that cannot be written holds, if it can be read."""
    try:
        data, problem = _parse(path.read_bytes())
    except OSError:
        return _empty()
    return _empty() if problem else data


def _parse(raw: bytes) -> tuple[dict, str | None]:
    try:
        data = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}, "is damaged: it is no JSON text"
    if not isinstance(data, dict) or not isinstance(data.get("version"), int):
        return {}, "is damaged: it has no version"
    if data["version"] > VERSION:
        return {}, f"is of a later version ({data['version']}; this course writes {VERSION})"
    return data, None if _well_formed(data) else "is damaged: parts are missing or of another kind"


def _well_formed(data: dict) -> bool:
    exercises, quizzes = data.get("exercises"), data.get("quizzes")
    if not isinstance(exercises, dict) or not isinstance(quizzes, dict):
        return False
    records = list(exercises.values())
    answers = [a for quiz in quizzes.values() if isinstance(quiz, dict) for a in quiz.values()]
    return (
        all(isinstance(r, dict) and all(_is_count(r.get(c)) for c in COUNTS) for r in records)
        and all(isinstance(quiz, dict) for quiz in quizzes.values())
        and all(isinstance(a, dict) and _is_count(a.get("tries")) for a in answers)
    )


def _is_count(thing: Any) -> bool:
    return type(thing) is int and thing >= 0  # True and False are integers too, and no counts


def _empty() -> dict:
    return {"version": VERSION, "exercises": {}, "quizzes": {}}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _tell(message: str) -> None:
    if message not in _told:
        _told.add(message)
        notice(message)
