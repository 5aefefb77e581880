"""What is refused whatever the results are: nothing yet, the wrong kind of thing, bad manners.

These are the sentences for an answer that could not be judged, or that is right and still must not
pass: it changes its arguments, sets seeds, replaces torch's functions, never ends, prints a book.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from course_lib.exercises.model import Exercise
from course_lib.exercises.trial import Trial
from course_lib.exercises.verdict import NOT_ATTEMPTED, NOT_YET, Verdict

MOST_PRINTED = 100_000  # characters; a right answer that prints more is not passed


def refusal(reason: str, message: str, facts: tuple[str, ...] = ()) -> Verdict:
    """An answer that is not right yet."""
    return Verdict(NOT_YET, reason, message, facts)


def nothing_yet(exercise: Exercise, answer: Any) -> Verdict | None:
    """When there is no answer of the learner's to look at."""
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


def replaced_before(names: list[str]) -> Verdict | None:
    """When the notebook has put something else in the place of torch's functions."""
    if not names:
        return None
    message = (
        f"{_no_longer_original(names)}: code in this notebook has put something else in its "
        "place, so nothing can be judged with it. Restart the kernel, or put the originals back "
        "with the line below, and check again."
    )
    remedy = "from course_lib.exercises.integrity import restore_functions; restore_functions()"
    return replace(refusal("replaced", message), code=remedy)


def replaced_meanwhile(names: tuple[str, ...]) -> Verdict | None:
    """When the answer itself has put something else in the place of torch's functions."""
    if not names:
        return None
    message = f"{_no_longer_original(names)} after your code ran; it was put back."
    return refusal("replaced", message)


def _no_longer_original(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"{shown} {'is' if len(names) == 1 else 'are'} no longer the original"


def wrong_kind(exercise: Exercise, answer: Any) -> Verdict | None:
    """When the answer is not a function or class that can be called as the check calls it."""
    name = exercise.name
    if exercise.kind == "class" and not isinstance(answer, type):
        return refusal("type", f"Hand in the class `{name}` itself, not one of its objects.")
    if not callable(answer):
        return refusal(
            "type",
            f"Hand in the function `{name}` itself, without calling it: "
            f'`check("{exercise.id}", {name})`. What came is a `{type(answer).__name__}`.',
        )
    if exercise.kind == "class" or exercise.call is not None:
        return None
    return _wrong_parameters(exercise, answer)


def _wrong_parameters(exercise: Exercise, answer: Any) -> Verdict | None:
    try:
        signature = inspect.signature(answer)
    except (TypeError, ValueError):  # some built-in functions have none
        return None
    case = exercise.fresh_cases()[0]
    try:
        signature.bind(*case)
    except TypeError as error:
        wanted = inspect.signature(exercise.solution)
        return refusal(
            "type",
            f"`{exercise.name}{signature}` cannot be called as the check does, with {len(case)} "
            f"argument{'s' * (len(case) != 1)}: {error}. The parameters are "
            f"`({', '.join(wanted.parameters)})`.",
        )
    return None


def time_is_up(exercise: Exercise, ending: str) -> Verdict:
    """When the answer had to be stopped, or could not even be stopped."""
    message = (
        f"Time-out: `{exercise.name}` was still running after {exercise.seconds:g} seconds; the "
        "course's own takes a fraction of one. Look for a loop that never ends, or one that goes "
        "through entries one by one where an operation on the whole tensor would do."
    )
    if ending == "stuck":
        message += (
            " It could not be stopped, as happens inside one long operation of torch. The notebook "
            "works on, more slowly, until it ends; restarting the kernel ends it at once."
        )
    else:
        message += " It was stopped, and the notebook works on."
    return refusal("time", message)


def conduct_verdict(trial: Trial) -> Verdict | None:
    """When the results are right, and the code does something else that it should not."""
    notes = conduct_notes(trial)
    if not notes:
        return None
    return refusal(
        "conduct",
        "The results are right. One more thing is needed: " + notes[0],
        besides(notes[1:]),
    )


def conduct_notes(trial: Trial) -> tuple[str, ...]:
    """What the code did that it should not, a sentence each."""
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


def besides(notes: tuple[str, ...]) -> tuple[str, ...]:
    """The same sentences, for an answer that is wrong anyway."""
    return tuple(f"Besides, {note}" for note in notes)
