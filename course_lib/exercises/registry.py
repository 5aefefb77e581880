"""Finds the exercises: one file `lesson_NN.py` a lesson, imported when first asked for.

Lesson files import torch. What only needs names and titles (the table of progress) reads them from
the file's syntax tree instead, so that it starts at once.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import pkgutil
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from course_lib.exercises.model import Exercise, Question
from course_lib.runtime import CourseError

PACKAGE = "course_lib.exercises"
LESSON_FILE = re.compile(r"lesson_(\d\d)")
LITERALS = {"id": str, "title": str, "stars": int, "minutes": int}  # what an outline reads


@dataclass(frozen=True)
class Outline:
    """What is known of an exercise without running its lesson file."""

    id: str
    title: str
    stars: int
    minutes: int


def lessons() -> tuple[str, ...]:
    """The numbers of the lessons that have a file of exercises, in order."""
    paths = importlib.import_module(PACKAGE).__path__
    names = (module.name for module in pkgutil.iter_modules(paths))
    return tuple(sorted(m[1] for m in map(LESSON_FILE.fullmatch, names) if m))


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """The exercises of one lesson ("02"), in the order of its notebook."""
    module = _lesson_module(lesson)
    _require_unique(lesson, [exercise.id for exercise in module.EXERCISES])
    return module.EXERCISES


def quiz_of(lesson: str) -> tuple[Question, ...]:
    """The quiz questions of one lesson."""
    return _lesson_module(lesson).QUIZ


def all_exercises() -> tuple[Exercise, ...]:
    """Every exercise of the course."""
    return tuple(exercise for lesson in lessons() for exercise in exercises_of(lesson))


def find(exercise_id: str) -> Exercise:
    """The exercise with this id; CourseError names close ones when there is none."""
    lesson = str(exercise_id)[:2]
    if lesson in lessons():
        for exercise in exercises_of(lesson):
            if exercise.id == exercise_id:
                return exercise
    known = [outline.id for number in lessons() for outline in outlines(number)]
    close = difflib.get_close_matches(str(exercise_id), known, n=3, cutoff=0.5)
    same_lesson = [name for name in known if name.startswith(lesson + ".")]
    names = close or same_lesson or known
    there = f"did you mean {', '.join(names)}?" if names else "this course has none yet"
    raise CourseError(f"there is no exercise {exercise_id!r}; {there}")


def outlines(lesson: str) -> tuple[Outline, ...]:
    """Ids, titles, stars and minutes of a lesson's exercises, read without importing the lesson.

    Raises CourseError, with the place, for one of them that is not written as a literal.
    """
    return tuple(_outline(lesson, call) for call in _calls(lesson, "Exercise"))


def quiz_length(lesson: str) -> int:
    """How many questions a lesson's quiz has, read without importing the lesson."""
    return len(_calls(lesson, "Question"))


def _outline(lesson: str, call: ast.Call) -> Outline:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    told = {k: node.value for k, node in given.items() if isinstance(node, ast.Constant)}
    for name, kind in LITERALS.items():
        if not isinstance(told.get(name), kind):
            line = given.get(name, call).lineno
            what = "number" if kind is int else "text"
            raise CourseError(
                f"course_lib/exercises/lesson_{lesson}.py:{line}: exercise {told.get('id', '?')}: "
                f"{name} must be a literal {what}: the table of progress reads it without running "
                f"the file; write {name}=…, with nothing computed"
            )
    return Outline(**{name: told[name] for name in LITERALS})


def _calls(lesson: str, name: str) -> list[ast.Call]:
    path = Path(find_spec(f"{PACKAGE}.lesson_{_known(lesson)}").origin)
    calls = [node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call)]
    return [call for call in calls if getattr(call.func, "id", None) == name]


@lru_cache(maxsize=32)
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _known(lesson: str) -> str:
    if lesson not in lessons():
        there = ", ".join(lessons()) or "none yet"
        raise CourseError(f"there are no exercises for lesson {lesson!r}; there are for: {there}")
    return lesson


def _lesson_module(lesson: str):
    from course_lib.exercises.integrity import plain_modes  # brings in torch, as the lesson does

    with plain_modes():  # what a lesson computes at import is the same in every notebook
        return importlib.import_module(f"{PACKAGE}.lesson_{_known(lesson)}")


def _require_unique(lesson: str, ids: list[str]) -> None:
    for exercise_id in ids:
        if not exercise_id.startswith(lesson + "."):
            raise CourseError(f"lesson_{lesson}.py has {exercise_id!r}; ids begin with {lesson}.")
        if ids.count(exercise_id) > 1:
            raise CourseError(f"lesson_{lesson}.py has {exercise_id!r} twice; rename one")
