"""What passes is the learner's to keep: plain Python in answers/lesson_NN.py, one section each.

A section is all that one answer needs. Passing again replaces that section and nothing else, so the
file may be edited around them. `mine` gives an answer back in a later notebook: it is loaded into a
module of its own and must pass its check once more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from course_lib.exercises import cards, places
from course_lib.exercises.judge import examine
from course_lib.exercises.model import Exercise
from course_lib.exercises.registry import find
from course_lib.exercises.safe_files import locked, replace_text, set_aside
from course_lib.exercises.sandbox import listening, run_limited
from course_lib.exercises.sources import KEPT_MODULES, CannotKeep, portable_source
from course_lib.runtime import notice

HEADER = '''"""Your answers of lesson {lesson}, each kept when it passed its check.

What stands between two marks is replaced when you pass again; the rest of the file is yours.
"""
'''
LOAD_SECONDS = 10.0


def keep(exercise: Exercise, answer: Any) -> str:
    """Write an answer that passed to its file; a sentence that says where, or why not."""
    path = places.answers_file(exercise.lesson)
    if path is None:
        return ""
    try:
        source = portable_source(exercise.name, answer)
        _require_pass(exercise, source)
        with locked(path):
            text = _read(path) or HEADER.format(lesson=exercise.lesson)
            replace_text(path, _with_section(text, exercise.id, source))
    except CannotKeep as reason:
        return f"It could not be kept for later lessons: {reason}."
    except OSError as error:
        return f"It could not be kept for later lessons: {places.shown(path)} ({error})."
    return f"Kept for later lessons in {places.shown(path)}."


def mine(exercise_id: str) -> Any:
    """The learner's own answer from an earlier lesson, or the course's; one line says which.

    An answer that no longer loads or no longer passes is reported, and the course's is given.
    Raises CourseError for an unknown id.
    """
    exercise = find(exercise_id)
    path = places.answers_file(exercise.lesson)
    try:
        section = _section(_read(path), exercise.id) if path else None
    except OSError as error:
        cards.say(f"{exercise.id}: the course's, for {places.shown(path)} cannot be read ({error})")
        return exercise.right_answer()
    if section is None:
        cards.say(f"{exercise.id}: the course's; your own will be here once its check has passed")
        return exercise.right_answer()
    try:
        answer = _load(exercise, *section, str(path))
        _require_pass_of(exercise, answer)
    except CannotKeep as reason:
        cards.say(f"{exercise.id}: the course's, for yours in {places.shown(path)} {reason}")
        return exercise.right_answer()
    cards.say(f"{exercise.id}: your own, from {places.shown(path)}")
    return answer


def _require_pass(exercise: Exercise, source: str) -> None:
    """The written answer, on its own, must do what the one in the notebook does."""
    try:
        _require_pass_of(exercise, _load(exercise, source, 0, "<kept answer>"))
    except CannotKeep as reason:
        raise CannotKeep(f"on its own it {reason}") from None


def _require_pass_of(exercise: Exercise, answer: Any) -> None:
    verdict = examine(exercise, answer)
    if not verdict.passed:
        raise CannotKeep(f"does not pass its check any more: {' '.join(verdict.message.split())}")


def _load(exercise: Exercise, source: str, line: int, filename: str) -> Any:
    """Run a section of the learner's own file, under a time limit; `line` is where it stands."""
    module = ModuleType(KEPT_MODULES + exercise.id.replace(".", "_").replace("-", "_"))
    failure: list[BaseException] = []

    def work() -> None:
        try:
            exec(compile("\n" * line + source, filename, "exec"), vars(module))
        except Exception as error:
            failure.append(error)

    sys.modules[module.__name__] = module  # dataclasses look their module up here
    with listening() as listener:
        ending = run_limited(work, LOAD_SECONDS, listener)
    if ending != "finished" or failure:
        what = f"{type(failure[0]).__name__}: {failure[0]}" if failure else "it takes too long"
        raise CannotKeep(f"does not load: {' '.join(what.split())}")
    if not hasattr(module, exercise.name):
        raise CannotKeep(f"does not define `{exercise.name}`")
    return getattr(module, exercise.name)


def _marks(exercise_id: str) -> tuple[str, str]:
    return f"# --- {exercise_id} ---", f"# --- end of {exercise_id} ---"


def _find_section(lines: list[str], exercise_id: str) -> tuple[int, int] | None:
    """Where the marks of a section stand: the last pair, for an opened one may lack its end."""
    begin, end = _marks(exercise_id)
    if end not in lines:
        return None
    last = len(lines) - 1 - lines[::-1].index(end)
    opened = [at for at in range(last) if lines[at] == begin]
    return (opened[-1], last) if opened else None


def _section(text: str | None, exercise_id: str) -> tuple[str, int] | None:
    """The source of a section and the number of lines before it."""
    lines = (text or "").split("\n")
    found = _find_section(lines, exercise_id)
    return ("\n".join(lines[found[0] + 1 : found[1]]) + "\n", found[0] + 1) if found else None


def _with_section(text: str, exercise_id: str, source: str) -> str:
    begin, end = _marks(exercise_id)
    lines = text.rstrip("\n").split("\n")
    if any(mark in source.split("\n") for mark in (begin, end)):
        raise CannotKeep(f"it holds the mark `{begin}`")
    section = [begin, *source.rstrip("\n").split("\n"), end]
    found = _find_section(lines, exercise_id)
    if found:
        lines[found[0] : found[1] + 1] = section
    else:
        lines += ["", "", *section]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> str | None:
    """The file's text, None when there is none; one that is no text is set aside."""
    if path.is_dir():
        _tell_set_aside(path, "is a folder")
    try:
        return path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        _tell_set_aside(path, "is no UTF-8 text")
        return None


def _tell_set_aside(path: Path, problem: str) -> None:
    notice(f"{places.shown(path)} {problem}; it was set aside as {set_aside(path).name}")
