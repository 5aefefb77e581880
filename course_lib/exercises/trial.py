"""Runs an answer on every case of an exercise and writes down what came of it.

The reference and the misconceptions run here too, each on copies of its own, so that all are
compared as equals. Only the learner's answer runs under a time limit.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import warnings
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from course_lib.exercises.compare import same, unchanged
from course_lib.exercises.gradients import Gradients, gradients_of, leaves_of
from course_lib.exercises.integrity import Conduct, guarded, seed_again
from course_lib.exercises.model import Exercise
from course_lib.exercises.sandbox import TimeIsUp, listening, run_limited


class WrongParts(Exception):
    """A module whose parameters cannot be filled with the reference's numbers."""


@dataclass(frozen=True)
class Outcome:
    """What one case gave: a result, or the exception that came instead of it."""

    result: Any = None
    error: BaseException | None = None
    gradients: Gradients = field(default_factory=dict)

    def equals(self, other: Outcome, tolerance: float) -> bool:
        """Whether both gave the same result, or failed in the same way."""
        if self.error or other.error:
            return type(self.error) is type(other.error) and str(self.error) == str(other.error)
        return same(self.result, other.result, tolerance)


@dataclass
class Trial:
    """Everything that is known after an answer was run."""

    outcomes: list[Outcome] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)  # names of arguments that were changed
    ending: str = "finished"
    printed: str = ""
    printed_count: int = 0
    conduct: Conduct = field(default_factory=Conduct)


def outcomes_of(exercise: Exercise, implementation: Any) -> list[Outcome]:
    """What the reference or a misconception gives on every case."""
    outcomes = []
    with guarded() as conduct, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a misconception's warnings are not the learner's
        for case in exercise.fresh_cases():
            conduct.same_seed()
            try:
                outcomes.append(_outcome(exercise, implementation, case))
            except Exception as error:
                outcomes.append(Outcome(error=error))
    return outcomes


def try_answer(exercise: Exercise, answer: Any) -> Trial:
    """Run the learner's answer on every case, under the time limit, and see how it behaves."""
    trial = Trial()
    cases = exercise.fresh_cases()

    def work() -> None:
        for case in cases:
            given = copy.deepcopy(case)
            trial.conduct.same_seed()
            try:
                outcome = _outcome(exercise, answer, given)
            except TimeIsUp:
                raise
            except BaseException as error:
                outcome = Outcome(error=error)
            trial.outcomes.append(outcome)
            trial.changed += changed_arguments(exercise, case, given)

    with guarded() as trial.conduct, listening() as listener:
        trial.ending = run_limited(work, exercise.seconds, listener)
    trial.printed, trial.printed_count = listener.text(), listener.count
    trial.changed = list(dict.fromkeys(trial.changed))
    return trial


def run_case(exercise: Exercise, answer: Any, case: tuple) -> Any:
    """The result of an answer on one case, by the exercise's own way or the usual one."""
    return _outcome(exercise, answer, case).result


def _outcome(exercise: Exercise, answer: Any, case: tuple) -> Outcome:
    """The result on one case, and the gradients that flow back from it."""
    leaves = leaves_of("argument", named_arguments(exercise, case))
    if exercise.call is not None:
        result = exercise.call(answer, *case)
    elif exercise.kind == "class":
        instance = _construct(exercise, answer, case)
        if isinstance(instance, nn.Module):
            leaves |= leaves_of("parameter", list(instance.named_parameters()))
        result = instance(*case[1])
    else:
        result = answer(*case)
    return Outcome(result, gradients=gradients_of(result, leaves))


def _construct(exercise: Exercise, answer: type, case: tuple) -> Any:
    """Construct an object and fill it with the reference's numbers.

    The reference is made first and the seed set again before the call, so that what a constructor
    draws for itself changes nothing.
    """
    construct, _ = case
    reference = exercise.reference(*copy.deepcopy(construct))
    instance = answer(*construct)
    if isinstance(reference, nn.Module):
        _fill(instance, reference)
    seed_again()
    return instance


def _fill(instance: nn.Module, reference: nn.Module) -> None:
    """Give the answer's module the reference's numbers, so that their results can be equal."""
    if not isinstance(instance, nn.Module):
        name = type(instance).__name__
        raise WrongParts(f"`{name}` is not a module yet: write `class {name}(nn.Module)`.")
    wanted = {name: tuple(tensor.shape) for name, tensor in reference.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in instance.state_dict().items()}
    if wanted != found:
        raise WrongParts(
            f"Your module has the parameters {_list_parts(found)}; the check fills in "
            f"{_list_parts(wanted)}. Use these names and shapes."
        )
    instance.load_state_dict(reference.state_dict())


def _list_parts(parts: dict[str, tuple]) -> str:
    return ", ".join(f"`{name} {shape}`" for name, shape in parts.items()) or "none"


def argument_names(exercise: Exercise) -> list[str]:
    """What to call the arguments of a case, in order."""
    if exercise.call is not None:
        return list(inspect.signature(exercise.call).parameters)[1:]
    solution = exercise.solution
    if exercise.kind == "class":
        method = getattr(solution, "forward", None) or solution.__call__
        parts = (inspect.signature(solution.__init__), inspect.signature(method))
        return [name for part in parts for name in list(part.parameters)[1:]]
    return list(inspect.signature(solution).parameters)


def named_arguments(exercise: Exercise, case: tuple) -> list[tuple[str, Any]]:
    """The arguments of a case with their names; those of a class's constructor come first."""
    names = argument_names(exercise)
    if exercise.kind == "class" and exercise.call is None:
        case = (*case[0], *case[1])
    more = (f"argument {at}" for at in itertools.count(len(names) + 1))
    return list(zip(itertools.chain(names, more), case, strict=False))


def changed_arguments(exercise: Exercise, before: tuple, after: tuple) -> list[str]:
    """The names of the arguments that an answer changed."""
    pairs = zip(named_arguments(exercise, before), named_arguments(exercise, after), strict=True)
    return [name for (name, was), (_, now) in pairs if not unchanged(was, now)]
