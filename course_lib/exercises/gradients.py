"""Holds the gradients of a result against the expected ones.

Right numbers are half of what training needs. A result is multiplied by fixed random numbers and
summed, and the gradients of that one number with respect to the arguments (or to a module's
parameters) are compared: an answer that cuts the graph in one place gives others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.compare import Difference, differing, share

SEED = 2017
LEAST_TOLERANCE = 1e-5  # gradients are sums, so that rounding shows even where values are exact
CUT = "`.detach()`, `.data`, `.item()`"

_grad, _randn = torch.autograd.grad, torch.randn

Gradients = dict[str, Tensor | None] | Exception  # the exception that came instead of them


def leaves_of(word: str, named: list[tuple[str, Any]]) -> dict[str, Tensor]:
    """What gradients can be asked for, by its name in a message: "argument `x`", for example."""
    found = {}
    for name, thing in named:
        if isinstance(thing, nn.Module):
            found |= {
                f"{word} `{name}.{n}`": p for n, p in thing.named_parameters() if p.requires_grad
            }
            continue
        tensors = [t for t in _tensors(thing) if t.is_leaf and t.requires_grad]
        for at, tensor in enumerate(tensors):
            part = f" (its tensor {at})" if len(tensors) > 1 else ""
            found[f"{word} `{name}`{part}"] = tensor
    return found


def gradients_of(result: Any, leaves: dict[str, Tensor]) -> Gradients:
    """The gradient of each leaf, None where it has no part in the result; or why there are none."""
    try:
        outputs, weights = _weighted_outputs(result)
        if not (outputs and leaves):
            return {}
        found = _grad(outputs, list(leaves.values()), weights, allow_unused=True, retain_graph=True)
        return {
            name: g if g is None else g.to_dense() for name, g in zip(leaves, found, strict=True)
        }
    except Exception as error:
        return error


def _weighted_outputs(result: Any) -> tuple[list[Tensor], list[Tensor]]:
    """The parts of a result that gradients flow back from, and the fixed random numbers of each."""
    generator = torch.Generator().manual_seed(SEED)
    outputs, weights = [], []
    for tensor in _tensors(result):
        if not (tensor.is_floating_point() or tensor.is_complex()):
            continue
        weight = _randn(tensor.shape, generator=generator).to(tensor.dtype)
        if tensor.requires_grad:
            outputs.append(tensor)
            weights.append(weight)
    return outputs, weights


def gradient_difference(want: Any, have: Any, tolerance: float) -> Difference | None:
    """The first difference between the gradients of two outcomes whose results are equal."""
    for expected, got in zip(_tensors(want.result), _tensors(have.result), strict=False):
        if expected.requires_grad != got.requires_grad:
            return Difference("gradient", _say_flag(expected.requires_grad))
    if isinstance(want.gradients, Exception):  # of the course's own: nothing to compare with
        return None
    if isinstance(have.gradients, Exception):
        return Difference("gradient", _say_no_way_back(have.gradients))
    for name, expected in want.gradients.items():
        got = have.gradients.get(name)
        if expected is None and got is None:
            continue
        expected = torch.zeros_like(got) if expected is None else expected
        got = torch.zeros_like(expected) if got is None else got
        scale = expected.detach().abs().nan_to_num(0, 0, 0).max().item() if expected.numel() else 0
        wrong = differing(expected, got, max(tolerance, LEAST_TOLERANCE) * (1 + scale))
        wrong &= ~torch.isnan(expected)
        if wrong.any():
            return Difference("gradient", _say_wrong(name, wrong))
    return None


def _tensors(thing: Any) -> Iterator[Tensor]:
    """The tensors of a nested result, in an order that does not depend on how it was made."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, dict):
        for key in sorted(thing, key=str):
            yield from _tensors(thing[key])
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _tensors(part)


def _say_flag(wanted: bool) -> str:
    if wanted:
        return (
            f"The numbers are right, but no gradient flows back. {CUT}, NumPy and `no_grad` cut "
            "it: nothing would learn."
        )
    return (
        "The numbers are right, but the result asks for gradients. Nothing here is to be learned: "
        "leave out `Parameter` and `requires_grad`."
    )


def _say_wrong(name: str, wrong: Tensor) -> str:
    return (
        f"The numbers are right, but the gradient with respect to the {name} is not "
        f"({share(wrong).lower()} of it), so a model could not learn with it. Usual causes: {CUT} "
        "or `no_grad` in a part of the computation."
    )


def _say_no_way_back(error: Exception) -> str:
    text = " ".join(str(error).split())
    return (
        "The numbers are right, but the way back through them, on which gradients flow, fails with "
        f"`{type(error).__name__}: {text[:300]}`. A usual cause: a tensor that is needed on the "
        "way back was changed in place (`+=`, `x[...] =`, operations that end in `_`), or your "
        "code calls `backward()` itself."
    )
