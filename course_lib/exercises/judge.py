"""Judges an answer: nothing yet, type, shape, dtype, known misconception, NaN, values, conduct.

`examine` is the whole check without its surroundings: it records nothing and shows nothing.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import torch

from course_lib.exercises.compare import Difference, difference, same
from course_lib.exercises.describe import describe_argument
from course_lib.exercises.errors import is_stub, place_of, say_error
from course_lib.exercises.integrity import replaced_functions
from course_lib.exercises.model import Exercise, Misconception
from course_lib.exercises.trial import (
    Outcome,
    Trial,
    WrongParts,
    named_arguments,
    outcomes_of,
    try_answer,
)
from course_lib.exercises.verdict import NOT_ATTEMPTED, NOT_YET, PASSED, Verdict
from course_lib.runtime import CourseError

MOST_PRINTED = 100_000  # characters; a right answer that prints more is not passed
SHOWN_PRINTED = 1_000


def examine(exercise: Exercise, answer: Any) -> Verdict:
    """Judge an answer. Raises CourseError only for a fault of the exercise itself."""
    early = _nothing_yet(exercise, answer) or _replaced(replaced_functions())
    if early:
        return early
    if exercise.kind == "value":
        return _examine_value(exercise, answer)
    wrong_kind = _wrong_kind(exercise, answer)
    if wrong_kind:
        return wrong_kind
    expected = _expected(exercise)
    trial = try_answer(exercise, answer)
    verdict = _judge(exercise, answer, expected, trial)
    return replace(verdict, printed=_shorten(trial))


def _nothing_yet(exercise: Exercise, answer: Any) -> Verdict | None:
    if answer is None:
        message = f"`{exercise.name}` is `None`: it waits for your answer."
        return Verdict(NOT_ATTEMPTED, "nothing yet", message)
    if exercise.kind != "value" and (answer is exercise.reference or answer is exercise.solution):
        return handed_back_verdict(exercise)
    return None


def handed_back_verdict(exercise: Exercise) -> Verdict:
    """What to say when the answer is the one that the last check gave out."""
    return Verdict(
        NOT_ATTEMPTED,
        "handed back",
        f"This is the course's own `{exercise.name}`, which the last check handed back. "
        "Run the cell with yours again, then this one.",
    )


def _replaced(names: list[str] | tuple[str, ...]) -> Verdict | None:
    if not names:
        return None
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return Verdict(
        NOT_YET,
        "replaced",
        f"{shown} {'is' if len(names) == 1 else 'are'} no longer the original: code in this "
        "notebook has put something else in its place, so nothing can be judged with it. "
        "Restart the kernel, or put the originals back with the line below, and check again.",
        code="from course_lib.exercises.integrity import restore_functions; restore_functions()",
    )


def _wrong_kind(exercise: Exercise, answer: Any) -> Verdict | None:
    name = exercise.name
    if exercise.kind == "class" and not isinstance(answer, type):
        return _no("type", f"Hand in the class `{name}` itself, not one of its objects.")
    if not callable(answer):
        return _no(
            "type",
            f"Hand in the function `{name}` itself, without calling it: "
            f'`check("{exercise.id}", {name})`. What came is a `{type(answer).__name__}`.',
        )
    if exercise.kind == "class" or exercise.call is not None:
        return None
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have none
        return None
    case = exercise.fresh_cases()[0]
    try:
        signature.bind(*case)
    except TypeError as error:
        wanted = inspect.signature(exercise.solution)
        return _no(
            "type",
            f"`{name}{signature}` cannot be called as the check calls it, with {len(case)} "
            f"argument{'s' * (len(case) != 1)}: {error}. The parameters are "
            f"`({', '.join(wanted.parameters)})`.",
        )
    return None


def _expected(exercise: Exercise) -> list[Outcome]:
    expected = outcomes_of(exercise, exercise.reference)
    for outcome in expected:
        if outcome.error:
            raise CourseError(f"the solution of {exercise.id} fails: {say_error(outcome.error)}")
    return expected


def _judge(exercise: Exercise, answer: Any, expected: list[Outcome], trial: Trial) -> Verdict:
    if trial.ending != "finished":
        return _time_is_up(exercise, trial.ending)
    if all(is_stub(outcome.error, answer) for outcome in trial.outcomes):
        message = f"`{exercise.name}` still raises `NotImplementedError`: it waits for your code."
        return Verdict(NOT_ATTEMPTED, "nothing yet", message)
    replaced = _replaced(trial.conduct.replaced)
    if replaced:
        message = replaced.message.split(":")[0] + " after your code ran; it was put back."
        return replace(replaced, message=message, code="")
    failures = _failures(exercise, answer, expected, trial)
    if not failures:
        return _conduct(trial) or Verdict(PASSED, "passed", _praise(exercise, len(expected)))
    verdict = _recognised(exercise, expected, trial, failures) or failures[0]
    return replace(verdict, facts=verdict.facts + _besides(_also(trial)))


def _time_is_up(exercise: Exercise, ending: str) -> Verdict:
    message = (
        f"Time-out: `{exercise.name}` was still running after {exercise.seconds:g} seconds; the "
        "course's own takes a fraction of one. Look for a loop that never ends."
    )
    if ending == "stuck":
        message += (
            " It could not be stopped, as happens inside one long operation of torch. The notebook "
            "works on, more slowly, until it ends; restarting the kernel ends it at once."
        )
    else:
        message += " It was stopped, and the notebook works on."
    return _no("time", message)


def _failures(exercise: Exercise, answer: Any, expected, trial: Trial) -> list[Verdict]:
    """A verdict for each case that fails, the one to be shown first at the front."""
    ranked = []
    for at, (want, have) in enumerate(zip(expected, trial.outcomes, strict=True)):
        fact = _case_fact(exercise, at, len(expected))
        if have.error:
            ranked.append((-1, _error_verdict(have.error, answer, fact)))
            continue
        found = difference(want.result, have.result, exercise.tolerance)
        found = found or _gradient(want.result, have.result)
        if found:
            ranked.append((found.rank, _no(found.kind, found.message, (fact,))))
    return [verdict for _, verdict in sorted(ranked, key=lambda pair: pair[0])]


def _error_verdict(error: BaseException, answer: Any, fact: str) -> Verdict:
    if isinstance(error, WrongParts):
        return _no("type", str(error), (fact,))
    place = place_of(error, answer)
    if place is None:
        return _no("error", f"Your code stopped with `{say_error(error)}`.", (fact,))
    message = f"Your code stopped at {place}, with `{say_error(error)}`."
    return replace(_no("error", message, (fact,)), code=place.text)


def _gradient(want: Any, have: Any) -> Difference | None:
    """A right result that is cut off from the graph, or drags one along, is wrong in training."""
    if not isinstance(want, torch.Tensor) or want.requires_grad == have.requires_grad:
        return None
    if want.requires_grad:
        remedy = "`.detach()`, `.data`, `.item()`, NumPy and `no_grad` cut it: nothing would learn."
        return Difference(
            "gradient", f"The numbers are right, but no gradient flows back. {remedy}"
        )
    remedy = "Nothing here is to be learned: leave out `Parameter` and `requires_grad`."
    return Difference(
        "gradient", f"The numbers are right, but the result asks for gradients. {remedy}"
    )


def _recognised(exercise, expected, trial: Trial, failures) -> Verdict | None:
    for misconception in exercise.misconceptions:
        theirs = outcomes_of(exercise, misconception.implementation)
        pairs = list(zip(trial.outcomes, theirs, strict=True))
        if all(have.equals(wrong, exercise.tolerance) for have, wrong in pairs):
            first = failures[0]
            more = (first.message,) if first.reason in ("type", "shape", "dtype", "error") else ()
            return replace(_explained(misconception, more + first.facts), code=first.code)
    return None


def _explained(misconception: Misconception, facts: tuple[str, ...] = ()) -> Verdict:
    verdict = _no("misconception", misconception.explanation, facts)
    return replace(verdict, misconception=misconception.name)


def _conduct(trial: Trial) -> Verdict | None:
    """The results are right; what else did the code do that it should not?"""
    notes = _also(trial)
    if not notes:
        return None
    return _no(
        "conduct",
        "The results are right. One more thing is needed: " + notes[0],
        _besides(notes[1:]),
    )


def _also(trial: Trial) -> tuple[str, ...]:
    notes = []
    for name in trial.changed:
        notes.append(
            f"your code changes its argument `{name}`, and whoever called it finds other numbers "
            "there afterwards. Make a new one: operations that end in `_`, `+=`, `x[...] =` and "
            "`append` change in place."
        )
    if trial.conduct.seeded:
        notes.append(
            "your code sets torch's seed, and with it all random numbers of the notebook that come "
            "after. Leave `manual_seed` to the set-up cell."
        )
    if trial.conduct.default_dtype is not None:
        notes.append("your code sets torch's default dtype; leave `set_default_dtype` out.")
    if trial.printed_count > MOST_PRINTED:
        notes.append(
            f"your code printed {trial.printed_count:,} characters, which would bury the notebook. "
            "Take the `print` out of the loop."
        )
    return tuple(notes)


def _besides(notes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"Besides, {note}" for note in notes)


def _case_fact(exercise: Exercise, at: int, count: int) -> str:
    case = exercise.fresh_cases()[at]
    shown = ", ".join(describe_argument(*pair) for pair in named_arguments(exercise, case))
    return f"Seen in case {at + 1} of {count}, with {shown}."


def _praise(exercise: Exercise, count: int) -> str:
    return f"`{exercise.name}` is right in all {count} cases."


def _shorten(trial: Trial) -> str:
    if trial.printed_count <= SHOWN_PRINTED:
        return trial.printed
    more = trial.printed_count - SHOWN_PRINTED
    return f"{trial.printed[:SHOWN_PRINTED]}\n… and {more:,} more characters"


def _examine_value(exercise: Exercise, answer: Any) -> Verdict:
    expected = exercise.solution.expected
    found = difference(expected, answer, exercise.tolerance)
    if found is None:
        return Verdict(PASSED, "passed", f"`{exercise.name}` is right.")
    for misconception in exercise.misconceptions:
        if same(misconception.implementation, answer, exercise.tolerance):
            more = (found.message,) if found.kind in ("type", "shape", "dtype") else ()
            return _explained(misconception, more)
    if found.kind == "values":  # its message would give the answer away
        return _no("values", f"`{exercise.name} = {_short(answer)}` is not the value asked for.")
    return _no(found.kind, found.message)


def _short(answer: Any) -> str:
    text = " ".join(repr(answer).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _no(reason: str, message: str, facts: tuple[str, ...] = ()) -> Verdict:
    return Verdict(NOT_YET, reason, message, facts)
