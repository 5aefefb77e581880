"""Holds a result against the expected one and says, in words, the first thing that is different.

The order is fixed: type, shape, dtype, NaN, values. A shape that would broadcast is still another
shape, and an object is judged by its exact type, so that one whose `==` always says yes is refused.
The functions used are bound here, at import: replacing torch's changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, isnan
from torch.nn import Parameter

from course_lib.exercises.describe import (
    number,
    say_device,
    say_dtype,
    say_shape,
    say_type,
)
from course_lib.runtime import CourseError

ORDER = ("error", "type", "shape", "dtype", "nan", "values", "gradient")
TENSORS = (Tensor, Parameter)
NUMBERS = (int, float, complex)

_absolute, _equal, _to, _detach = Tensor.abs, torch.eq, Tensor.to, Tensor.detach
_nonzero, _sum, _any, _where = Tensor.nonzero, Tensor.sum, Tensor.any, torch.where


@dataclass(frozen=True)
class Difference:
    """What differs: one of ORDER, and the sentence that says it."""

    kind: str
    message: str

    @property
    def rank(self) -> int:
        """Smaller is looked at first."""
        return ORDER.index(self.kind)


def difference(expected: Any, got: Any, tolerance: float, path: str = "") -> Difference | None:
    """The first difference between two results, or None when `got` passes.

    `path` is the part of a nested result that is being compared ("[1]"). Raises CourseError for
    an expected result of a kind that cannot be compared: the exercise's `call` should turn it into
    tensors, numbers, text, or tuples, lists and dictionaries of these.
    """
    where = f" of part `{path}`" if path else ""
    if type(expected) in TENSORS:
        return _tensor_difference(expected, got, tolerance, where)
    if type(expected) not in (bool, int, float, complex, str, tuple, list, dict):
        raise CourseError(
            f"a result of type {type(expected).__name__} cannot be compared; "
            "let the exercise's call return tensors, numbers, text, tuples, lists or dictionaries"
        )
    if type(got) is not type(expected):
        return Difference("type", say_type(expected, got, where))
    if type(expected) in NUMBERS:
        return _number_difference(expected, got, tolerance, where)
    if isinstance(expected, (tuple, list)):
        return _sequence_difference(expected, got, tolerance, path)
    if isinstance(expected, dict):
        return _dict_difference(expected, got, tolerance, path)
    if expected == got:
        return None
    return Difference("values", f"Expected{where} `{expected!r}`, got `{got!r}`.")


def same(one: Any, other: Any, tolerance: float = 0.0) -> bool:
    """Whether two results are the same, NaN in the same places included.

    Differences of a kind that cannot be compared count as not the same.
    """
    if type(one) not in TENSORS and type(one) in (tuple, list):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(same(a, b, tolerance) for a, b in zip(one, other, strict=True))
        )
    if type(one) is dict:
        return (
            type(other) is dict
            and set(one) == set(other)
            and all(same(one[key], other[key], tolerance) for key in one)
        )
    if one is None or other is None:
        return one is other
    try:
        found = difference(one, other, tolerance)
    except CourseError:
        return False
    return found is None


def unchanged(before: Any, after: Any) -> bool:
    """Whether an argument is still what it was; kinds that cannot be looked into count as such."""
    if type(before) is not type(after):
        return False
    if isinstance(before, Tensor):
        flag = before.requires_grad == after.requires_grad
        return flag and difference(_detach(before), _detach(after), 0.0) is None
    if isinstance(before, torch.nn.Module):
        return unchanged(before.state_dict(), after.state_dict())
    if isinstance(before, (list, tuple)):
        pairs = zip(before, after, strict=False)
        return len(before) == len(after) and all(unchanged(a, b) for a, b in pairs)
    if isinstance(before, dict):
        return list(before) == list(after) and all(unchanged(before[k], after[k]) for k in before)
    if isinstance(before, (str, int, float, complex, bool, set)):
        return before == after or before != before
    return True


def _tensor_difference(expected: Tensor, got: Any, tolerance: float, where: str):
    if type(got) not in TENSORS:
        return Difference("type", say_type(expected, got, where))
    if got.device != expected.device or got.layout != expected.layout:
        return Difference("type", say_device(expected, got, where))
    if got.shape != expected.shape:
        return Difference("shape", say_shape(tuple(expected.shape), tuple(got.shape), where))
    if got.dtype != expected.dtype:
        return Difference("dtype", say_dtype(expected.dtype, got.dtype, where))
    return _entries_difference(expected, got, tolerance, where)


def _entries_difference(expected: Tensor, got: Tensor, tolerance: float, where: str):
    want, have = _widened(expected), _widened(got)
    extra_nan = isnan(have) & ~isnan(want)
    if _any(extra_nan):
        first = tuple(_nonzero(extra_nan)[0].tolist())
        return Difference("nan", _say_nan(int(_sum(extra_nan)), have, first, where))
    allowed = tolerance * (1 + _absolute(want)) if want.dtype != torch.int64 else 0
    wrong = differing(want, have, allowed)
    if not _any(wrong):
        return None
    first = tuple(_nonzero(wrong)[0].tolist())
    worst = _where(wrong, _absolute(have - want), 0.0).max().item()
    place = f" at `{list(first)}`" if first else ""
    return Difference(
        "values",
        f"{share(wrong)}{where} differ{'s' if wrong.numel() == 1 else ''} from the expected; "
        f"the first{place}: expected {_entry(expected, first)}, got {_entry(got, first)}. "
        f"The largest difference is {number(worst)}.",
    )


def differing(want: Tensor, have: Tensor, allowed: Tensor | float) -> Tensor:
    """Where entries are further apart than allowed; NaN equals NaN, and infinity itself."""
    want, have = _widened(want), _widened(have)
    gap = _absolute(have - want)
    close = (gap <= allowed) & (gap < math.inf)
    return ~(close | _equal(have, want) | (isnan(have) & isnan(want)))


def _widened(tensor: Tensor) -> Tensor:
    tensor = _detach(tensor)
    if tensor.dtype.is_complex:
        return _to(tensor, torch.complex128)
    return (
        _to(tensor, torch.float64) if tensor.dtype.is_floating_point else _to(tensor, torch.int64)
    )


def share(wrong: Tensor) -> str:
    """How many entries are wrong, in words."""
    if wrong.numel() == 1:
        return "The one entry"
    return f"{int(_sum(wrong))} of {wrong.numel()} entries"


def _entry(tensor: Tensor, index: tuple) -> str:
    return number(_detach(tensor)[index].item())


def _say_nan(count: int, have: Tensor, first: tuple, where: str) -> str:
    return (
        f"{count} of {have.numel()} entries{where} {'is' if count == 1 else 'are'} NaN, the first "
        f"at `{list(first)}`. NaN comes from 0/0, inf - inf, a softmax over nothing but -inf, or "
        "the root or logarithm of a negative number."
    )


def _number_difference(expected, got, tolerance: float, where: str) -> Difference | None:
    if got != got and expected == expected:
        return Difference("nan", f"The answer{where} is NaN: somewhere there was 0/0 or inf - inf.")
    if got == expected or (got != got and expected != expected):
        return None
    gap = abs(got - expected)
    exact = type(expected) is int
    if not exact and math.isfinite(gap) and gap <= tolerance * (1 + abs(expected)):
        return None
    return Difference("values", f"Expected{where} {number(expected)}, got {number(got)}.")


def _sequence_difference(expected, got, tolerance: float, path: str) -> Difference | None:
    if len(got) != len(expected):
        word = f"{type(expected).__name__} {path}".strip()
        return Difference(
            "shape", f"The {word} has {len(got)} parts; expected are {len(expected)}."
        )
    return _first_difference(
        difference(e, g, tolerance, f"{path}[{at}]")
        for at, (e, g) in enumerate(zip(expected, got, strict=True))
    )


def _dict_difference(expected: dict, got: dict, tolerance: float, path: str) -> Difference | None:
    if set(expected) != set(got):
        word = f"dictionary {path}".strip()
        return Difference("shape", f"The {word} has keys {list(got)}; expected {list(expected)}.")
    return _first_difference(
        difference(expected[key], got[key], tolerance, f"{path}[{key!r}]") for key in expected
    )


def _first_difference(parts: Iterable[Difference | None]) -> Difference | None:
    """Of the differences of several parts the one to be told first."""
    found = [part for part in parts if part is not None]
    return min(found, key=lambda part: part.rank, default=None)
