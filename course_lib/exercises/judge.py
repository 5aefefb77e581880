"""Judges an answer: nothing yet, type, shape, dtype, misconception, NaN, values, gradient, conduct.

`examine` is the whole check without its surroundings: it records nothing and shows nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from course_lib.exercises.compare import difference, same
from course_lib.exercises.describe import describe_argument
from course_lib.exercises.errors import is_stub, place_of, say_error
from course_lib.exercises.gradients import gradient_difference
from course_lib.exercises.integrity import plain_modes, replaced_functions
from course_lib.exercises.model import Exercise, Misconception
from course_lib.exercises.refusals import (
    besides,
    conduct_notes,
    conduct_verdict,
    nothing_yet,
    refusal,
    replaced_before,
    replaced_meanwhile,
    time_is_up,
    wrong_kind,
)
from course_lib.exercises.trial import (
    Outcome,
    Trial,
    WrongParts,
    named_arguments,
    outcomes_of,
    try_answer,
)
from course_lib.exercises.verdict import NOT_ATTEMPTED, PASSED, Verdict, code
from course_lib.runtime import CourseError

SHOWN_PRINTED, SHOWN_LINES = 1_000, 20


def examine(exercise: Exercise, answer: Any) -> Verdict:
    """Judge an answer. Raises CourseError only for a fault of the exercise itself."""
    with plain_modes():
        return _examine(exercise, answer)


def _examine(exercise: Exercise, answer: Any) -> Verdict:
    early = nothing_yet(exercise, answer) or replaced_before(replaced_functions())
    if early:
        return early
    if exercise.kind == "value":
        return _examine_value(exercise, answer)
    refused = wrong_kind(exercise, answer)
    if refused:
        return refused
    expected = _expected(exercise)
    trial = try_answer(exercise, answer)
    verdict = _judge(exercise, answer, expected, trial)
    return replace(verdict, printed=_shorten(trial))


def _expected(exercise: Exercise) -> list[Outcome]:
    expected = outcomes_of(exercise, exercise.reference)
    for outcome in expected:
        if outcome.error:
            raise CourseError(f"the solution of {exercise.id} fails: {say_error(outcome.error)}")
    return expected


def _judge(exercise: Exercise, answer: Any, expected: list[Outcome], trial: Trial) -> Verdict:
    if trial.ending != "finished":
        return time_is_up(exercise, trial.ending)
    if all(is_stub(outcome.error, answer) for outcome in trial.outcomes):
        message = f"`{exercise.name}` still raises `NotImplementedError`: it waits for your code."
        return Verdict(NOT_ATTEMPTED, "nothing yet", message)
    replaced = replaced_meanwhile(trial.conduct.replaced)
    if replaced:
        return replaced
    failures = _failures(exercise, answer, expected, trial)
    if not failures:
        return conduct_verdict(trial) or Verdict(PASSED, "passed", _praise(exercise, len(expected)))
    verdict = _recognised(exercise, expected, trial, failures)
    verdict = verdict or _ignoring(exercise, expected, trial, failures[0]) or failures[0]
    return replace(verdict, facts=verdict.facts + besides(conduct_notes(trial)))


def _failures(exercise: Exercise, answer: Any, expected, trial: Trial) -> list[Verdict]:
    """A verdict for each case that fails, the one to be shown first at the front."""
    ranked = []
    for at, (want, have) in enumerate(zip(expected, trial.outcomes, strict=True)):
        fact = _case_fact(exercise, at, len(expected))
        if have.error:
            ranked.append((-1, _error_verdict(have.error, answer, fact)))
            continue
        found = difference(want.result, have.result, exercise.tolerance)
        found = found or gradient_difference(want, have, exercise.tolerance)
        if found:
            ranked.append((found.rank, refusal(found.kind, found.message, (fact,))))
    return [verdict for _, verdict in sorted(ranked, key=lambda pair: pair[0])]


def _error_verdict(error: BaseException, answer: Any, fact: str) -> Verdict:
    if isinstance(error, WrongParts):
        return refusal("type", str(error), (fact,))
    place = place_of(error, answer)
    if place is None:
        return refusal("error", f"Your code stopped with {code(say_error(error))}.", (fact,))
    message = f"Your code stopped at {place}, with {code(say_error(error))}."
    return replace(refusal("error", message, (fact,)), code=place.text)


def _recognised(exercise, expected, trial: Trial, failures) -> Verdict | None:
    for misconception in exercise.misconceptions:
        theirs = outcomes_of(exercise, misconception.implementation)
        pairs = list(zip(trial.outcomes, theirs, strict=True))
        if all(have.equals(wrong, exercise.tolerance) for have, wrong in pairs):
            first = failures[0]
            more = (first.message,) if first.reason in ("type", "shape", "dtype", "error") else ()
            return replace(_explained(misconception, more + first.facts), code=first.code)
    return None


def _ignoring(exercise, expected, trial: Trial, failure: Verdict) -> Verdict | None:
    """When the arguments seem to play no part: the same comes out whatever goes in."""
    if failure.reason in ("error", "type") or _all_same(expected) or not _all_same(trial.outcomes):
        return None
    message = (
        f"`{exercise.name}` gives the same result whatever it is given: does it use a variable of "
        "the notebook in place of its arguments?"
    )
    return replace(
        failure, reason="constant", message=message, facts=(failure.message, *failure.facts)
    )


def _all_same(outcomes: list[Outcome]) -> bool:
    first, *others = outcomes
    return all(first.equals(other, 0.0) for other in others)


def _explained(misconception: Misconception, facts: tuple[str, ...] = ()) -> Verdict:
    verdict = refusal("misconception", misconception.explanation, facts)
    return replace(verdict, misconception=misconception.name)


def _case_fact(exercise: Exercise, at: int, count: int) -> str:
    case = exercise.fresh_cases()[at]
    if exercise.shown:
        shown = exercise.shown(*case)
    else:
        shown = ", ".join(describe_argument(*pair) for pair in named_arguments(exercise, case))
    return f"Seen in case {at + 1} of {count}, with {shown}."


def _praise(exercise: Exercise, count: int) -> str:
    return f"`{exercise.name}` is right in all {count} cases."


def _shorten(trial: Trial) -> str:
    """The beginning of what was printed, and how much more there was."""
    shown = "".join(trial.printed.splitlines(keepends=True)[:SHOWN_LINES])[:SHOWN_PRINTED]
    more = trial.printed_count - len(shown)
    return f"{shown.removesuffix(chr(10))}\n… and {more:,} more characters" if more else shown


def _examine_value(exercise: Exercise, answer: Any) -> Verdict:
    expected = exercise.solution.expected
    if type(expected) is float and type(answer) is int:
        answer = float(answer)  # 1 is a number like 1.0
    elif type(expected) is float and isinstance(answer, float):
        answer = float.__float__(answer)  # NumPy's float64, whatever a kind of its own may claim
    found = difference(expected, answer, exercise.tolerance)
    if found is None:
        return Verdict(PASSED, "passed", f"`{exercise.name}` is right.")
    for misconception in exercise.misconceptions:
        if same(misconception.implementation, answer, exercise.tolerance):
            more = (found.message,) if found.kind in ("type", "shape", "dtype") else ()
            return _explained(misconception, more)
    if found.kind == "values":  # its message would give the answer away
        return refusal(
            "values", f"`{exercise.name} = {_short(answer)}` is not the value asked for."
        )
    return refusal(found.kind, found.message)


def _short(answer: Any) -> str:
    text = " ".join(repr(answer).split())
    return text if len(text) <= 60 else text[:57] + "..."
