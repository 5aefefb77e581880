"""The sentences that say what is wrong with a result's type, shape or dtype, and what to do."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

PYTHON_NUMBERS = (bool, int, float, complex)
DTYPE_HINTS = {
    torch.float64: "NumPy brings in double precision; `.float()` undoes it.",
    torch.float16: "Half precision keeps about 3 digits; leave the dtype of the inputs as it is.",
    torch.bfloat16: "bfloat16 keeps about 2 digits; leave the dtype of the inputs as it is.",
    torch.bool: "A comparison gives True and False; turn it into numbers, or use `torch.where`.",
    torch.int64: "Whole numbers lose the fraction; look for `//`, `.long()` or an integer tensor.",
    torch.complex64: "Complex numbers come from a root or power of a negative number, or an FFT.",
}


def number(x: Any) -> str:
    """A number as a reader wants it: up to four significant digits, whole numbers in full."""
    return f"`{x}`" if isinstance(x, (bool, int)) else f"`{x:.4g}`"


def say_type(expected: Any, got: Any, where: str = "") -> str:
    """Why a result of this type is not what was asked for."""
    wanted = _kind(expected)
    if got is None:
        return f"The result{where} is `None`: is a `return` missing? Expected is {wanted}."
    found = f"The result{where} is {_kind(got)}; expected is {wanted}."
    return f"{found} {_type_remedy(expected, got)}".rstrip()


def _type_remedy(expected: Any, got: Any) -> str:
    if isinstance(expected, Tensor):
        return _tensor_remedy(expected, got)
    if type(expected) not in PYTHON_NUMBERS:
        return _container_remedy(expected, got)
    if isinstance(got, str):
        return "Leave out the quotation marks."
    if isinstance(got, tuple):
        return "One number is asked for, and a comma makes two of it; decimals have a point: `0.5`."
    if isinstance(got, list):
        return "One number is asked for; leave out the square brackets."
    if type(got).__module__ == "numpy" or isinstance(got, Tensor):
        return (
            f"`.item()` turns one entry into a Python number, `{type(expected).__name__}(...)` too."
        )
    if type(expected) is int and type(got) is float:
        return "A count is a whole number: use `//` or `int(...)`."
    if type(expected) is float and isinstance(got, (Fraction, Decimal)):
        return "Use `float(...)` to turn it into one."
    if type(expected) is float and type(got) is int:
        return "`float(...)` turns it into one; `/` divides without dropping the fraction."
    return ""


def _container_remedy(expected: Any, got: Any) -> str:
    if isinstance(expected, tuple) and isinstance(got, list) and len(got) == len(expected):
        return "`return a, b` without square brackets makes a tuple."
    if isinstance(expected, (tuple, list)) and not isinstance(got, (tuple, list)):
        return f"Return all {len(expected)} parts, separated by commas."
    return ""


def _tensor_remedy(expected: Tensor, got: Any) -> str:
    if type(got).__module__ == "numpy":
        back = "Stay in torch, or come back with `torch.from_numpy(...)`"
        return f"{back} and `.float()`." if expected.is_floating_point() else f"{back}."
    if isinstance(got, Tensor):
        return "A plain tensor comes out of plain torch operations."
    if isinstance(got, tuple):
        return "A comma after `return`, or two results where one is asked for, makes a tuple."
    if isinstance(got, list):
        return "`torch.stack(...)` makes one tensor of a list of tensors."
    if type(got) in PYTHON_NUMBERS:
        return "`.item()`, `float(...)` and `.tolist()` leave torch, and no gradient flows through."
    if callable(got):
        return "It is a function that was not called: are the brackets missing?"
    return ""


def _kind(thing: Any) -> str:
    kind = type(thing)
    if kind in (Tensor, torch.nn.Parameter):
        return "a torch tensor"
    if isinstance(thing, Tensor):
        return f"a `{kind.__name__}`, a kind of its own derived from torch's tensor"
    if kind.__module__ == "numpy":
        return f"a NumPy `{kind.__name__}`"
    if kind in (tuple, list):
        return f"a Python {kind.__name__} of {len(thing)}"
    names = {bool: "`True` or `False`", int: "a whole number (int)", float: "a number (float)"}
    names |= {complex: "a complex number", str: "text (str)", dict: "a dictionary"}
    return names.get(kind, f"a `{kind.__name__}`")


def say_device(expected: Tensor, got: Tensor, where: str = "") -> str:
    """Why a tensor without numbers, elsewhere or sparse, cannot be compared."""
    if got.device.type == "meta":
        return f"The result{where} is a meta tensor: it has a shape and no numbers in it."
    if got.layout != expected.layout:
        return f"The result{where} has layout `{got.layout}`; expected is `{expected.layout}`."
    return (
        f"The result{where} is on `{got.device}`; expected is `{expected.device}`, like the inputs."
    )


def say_shape(expected: tuple, got: tuple, where: str = "") -> str:
    """Both shapes, and what usually leads from one to the other."""
    return f"The result{where} has shape `{got}`; expected is `{expected}`. " + _shape_remedy(
        expected, got
    )


def _shape_remedy(expected: tuple, got: tuple) -> str:
    if not got:
        return "One number is left: a sum, mean or softmax over everything lost the axes."
    if len(got) == len(expected):
        if sorted(got) == sorted(expected):
            return "The sizes are right and their order is not: two axes are swapped."
        axes = [at for at, (g, e) in enumerate(zip(got, expected, strict=True)) if g != e]
        word = "axis" if len(axes) == 1 else "axes"
        return f"Look at {word} {', '.join(map(str, axes))}, counted from 0."
    if tuple(size for size in got if size != 1) == tuple(size for size in expected if size != 1):
        return "Only axes of size 1 differ: `squeeze`, `unsqueeze` and `keepdim=True` change them."
    more = "more" if len(got) > len(expected) else "fewer"
    return f"It has {len(got)} axes, {more} than the {len(expected)} expected."


def say_dtype(expected: torch.dtype, got: torch.dtype, where: str = "") -> str:
    """Both dtypes, and where the wrong one usually comes from."""
    hint = DTYPE_HINTS.get(got, "Leave the dtype of the inputs as it is.")
    if not expected.is_floating_point:
        hint = f"`.to({expected})` converts, if the values are what you mean."
    return f"The result{where} has dtype `{got}`; expected is `{expected}`. {hint}"


def describe_argument(name: str, argument: Any) -> str:
    """An argument in a few characters: a tensor by its shape, anything else as Python shows it."""
    if isinstance(argument, Tensor):
        return f"{name} {tuple(argument.shape)}"
    text = repr(argument)
    return f"{name}={text if len(text) <= 40 else text[:37] + '...'}"
