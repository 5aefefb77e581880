"""What an exercise is: a solution, several cases, hints, a reason, and wrong answers people give.

Nothing here runs a learner's code. An exercise is checked when it is built, so that one without
cases, hints or misconceptions never reaches a learner.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course_lib.runtime import CourseError

EXERCISE_ID = re.compile(r"\d\d\.[a-z0-9_-]+")
STARS = range(1, 4)


@dataclass(frozen=True)
class Misconception:
    """A wrong answer that people really write, and the paragraph that sets it right."""

    name: str
    implementation: Any  # same kind as the solution: a function, a class, or a plain value
    explanation: str


@dataclass(frozen=True)
class Value:
    """The solution of an exercise that asks for a value: Python source and what it evaluates to."""

    source: str
    name: str
    expected: Any


def value(source: str, **given: Any) -> Value:
    """The solution `answer = 2 * 3`, evaluated with torch, math and what is `given` by name.

    The last statement assigns the answer; its target is the name used in the notebook.
    Raises CourseError when it does not, or when the answer comes out as None.
    """
    import math

    import torch

    source = textwrap.dedent(source).strip()
    statements = ast.parse(source).body
    last = statements[-1] if statements else None
    if not (isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name)):
        raise CourseError(f"{source!r} does not end in an assignment; write `answer = ...`")
    namespace = {"torch": torch, "math": math, **given}
    exec(compile(source, "<solution>", "exec"), namespace)  # our own text, from a lesson file
    name = last.targets[0].id
    if namespace[name] is None:
        raise CourseError(f"{source!r} has no expected value: it gives None; let it give the value")
    return Value(source, name, namespace[name])


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One checked exercise. `course_lib.exercises` shows a complete example.

    cases: argument tuples, or a function that returns them; for a class, pairs
    (arguments of the constructor, arguments of the call). `call(answer, *case)` replaces the
    default way to run an answer, and `shown(*case)` the default way to say what it was given;
    `reference` replaces the solution as the source of truth.
    A number counts as right when |got - expected| <= tolerance * (1 + |expected|).
    """

    id: str
    title: str
    stars: int
    minutes: int
    solution: Callable | type | Value
    hints: tuple[str, ...]
    misconceptions: tuple[Misconception, ...]
    why: str
    cases: Iterable[tuple] | Callable[[], Iterable[tuple]] = ()
    reference: Any = None
    call: Callable | None = None
    shown: Callable[..., str] | None = None
    tolerance: float = 1e-5
    seconds: float = 10.0

    def __post_init__(self) -> None:
        _require_texts(self)
        _require_misconceptions(self)
        if self.kind == "value":
            if self.cases or self.call or self.reference:
                raise CourseError(f"{self.id}: a value has no cases, call or reference; drop them")
            return
        cases = self.fresh_cases()
        if len(cases) < 2:
            raise CourseError(
                f"{self.id} has {len(cases)} cases; a check needs two or more: add cases"
            )
        for case in cases:
            if not isinstance(case, tuple):
                raise CourseError(
                    f"{self.id}: case {type(case).__name__} is no tuple of arguments; write (x,)"
                )
        if self.reference is None:
            object.__setattr__(self, "reference", self.solution)

    @property
    def lesson(self) -> str:
        """The lesson's number, two digits."""
        return self.id[:2]

    @property
    def kind(self) -> str:
        """What the learner hands in: "function", "class" or "value"."""
        if isinstance(self.solution, Value):
            return "value"
        return "class" if isinstance(self.solution, type) else "function"

    @property
    def name(self) -> str:
        """The name that the exercise cell binds."""
        return self.solution.name if self.kind == "value" else self.solution.__name__

    @cached_property
    def source(self) -> str:
        """The solution as Python source, ready to stand in the exercise cell."""
        if self.kind == "value":
            return self.solution.source
        return textwrap.dedent(inspect.getsource(self.solution)).rstrip()

    def right_answer(self) -> Any:
        """What a check hands back when the learner's answer does not pass."""
        return copy.deepcopy(self.solution.expected) if self.kind == "value" else self.reference

    def fresh_cases(self) -> list[tuple]:
        """New copies of all cases: nothing done to them reaches another check."""
        cases = self.cases() if callable(self.cases) else self.cases
        return [copy.deepcopy(case) for case in cases]


@dataclass(frozen=True)
class Choice:
    """One choice of a question, whether it is right, and why."""

    text: str
    right: bool
    reason: str


@dataclass(frozen=True)
class Question:
    """A quiz question. Several choices may be right; each has its reason."""

    text: str
    choices: tuple[Choice, ...] = field(default=())

    def __post_init__(self) -> None:
        rights = [choice.right for choice in self.choices]
        if not (any(rights) and not all(rights)):
            raise CourseError(f"{self.text!r} needs at least one right and one wrong choice")
        for choice in self.choices:
            if not choice.reason.strip():
                raise CourseError(f"{self.text!r}: {choice.text!r} has no reason; give one")

    @property
    def right(self) -> frozenset[int]:
        """The positions of the right choices, from 0."""
        return frozenset(at for at, choice in enumerate(self.choices) if choice.right)


def _require_texts(exercise: Exercise) -> None:
    if not EXERCISE_ID.fullmatch(exercise.id):
        raise CourseError(
            f"exercise id {exercise.id!r} is not a lesson number, a dot and a name; "
            "use small letters, digits, - and _, as in 02.weights"
        )
    if exercise.stars not in STARS or exercise.minutes < 1:
        raise CourseError(
            f"{exercise.id}: stars={exercise.stars}, minutes={exercise.minutes}; "
            "give 1 to 3 stars and at least one minute"
        )
    for field_name in ("title", "why"):
        if not getattr(exercise, field_name).strip():
            raise CourseError(f"{exercise.id} has no {field_name}; write one")
    if len(exercise.hints) < 2 or isinstance(exercise.hints, str):
        raise CourseError(f"{exercise.id} needs at least two hints, one step each; add hints")


def _require_misconceptions(exercise: Exercise) -> None:
    texts: Mapping[str, Misconception] = {m.name: m for m in exercise.misconceptions}
    if len(exercise.misconceptions) < 2 or len(texts) < len(exercise.misconceptions):
        raise CourseError(f"{exercise.id} needs two or more misconceptions with names of their own")
    for misconception in exercise.misconceptions:
        if (exercise.kind == "value") == callable(misconception.implementation):
            raise CourseError(
                f"{exercise.id}: misconception {misconception.name!r} must be a {exercise.kind} "
                "like the solution"
            )
