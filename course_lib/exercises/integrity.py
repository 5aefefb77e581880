"""Notices when functions of torch or math were replaced, and when an answer sets a global seed.

A snapshot of the functions' identities is taken when this module is imported, which is when a
notebook imports `check`. A check refuses to judge with replaced tools.
"""

from __future__ import annotations

import contextlib
import math
import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional

WATCHED = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.Tensor", torch.Tensor),
    ("math", math),
)
WRAPPED_BY_TORCH = {"torch.manual_seed"}  # torch.compile does so, with every right
FOR_DISPLAY = re.compile(r"__(repr|str|format)__$|_repr_")  # packages replace these for good looks
OUR_SEED = 20_170_612  # no notebook's seed: one that is found afterwards was set by the answer

_generator = torch.default_generator
_get_dtype, _set_dtype = torch.get_default_dtype, torch.set_default_dtype
_inference_mode, _enable_grad, _autocast = torch.inference_mode, torch.enable_grad, torch.autocast


def _is_function(thing: Any) -> bool:
    """Functions only: set_default_dtype itself puts another class in the place of torch.Storage."""
    return callable(thing) and not isinstance(thing, type)


def _snapshot() -> dict[tuple[str, str], Any]:
    return {
        (owner, name): getattr(place, name)
        for owner, place in WATCHED
        for name in (dir(place) if isinstance(place, type) else vars(place))
        if _is_function(getattr(place, name, None))
        and f"{owner}.{name}" not in WRAPPED_BY_TORCH
        and not FOR_DISPLAY.match(name)
    }


# Some attributes of a class are made anew at each look; only those that stay are watched.
_FIRST, _SECOND = _snapshot(), _snapshot()
_ORIGINALS = {key: thing for key, thing in _FIRST.items() if _SECOND[key] is thing}
_PLACES = dict(WATCHED)


def replaced_functions() -> list[str]:
    """Names of torch's and math's functions that are no longer what they were at import."""
    return [
        f"{owner}.{name}"
        for (owner, name), original in _ORIGINALS.items()
        if getattr(_PLACES[owner], name, None) is not original
    ]


def restore_functions() -> None:
    """Put back every function that was replaced."""
    for (owner, name), original in _ORIGINALS.items():
        if getattr(_PLACES[owner], name, None) is not original:
            setattr(_PLACES[owner], name, original)


@dataclass
class Conduct:
    """What an answer did besides answering."""

    seeded: bool = False
    default_dtype: torch.dtype | None = None  # the one it set, if it did
    replaced: tuple[str, ...] = ()

    def same_seed(self) -> None:
        """Before a case: reference and answer draw the same random numbers."""
        self.note_seed()
        _generator.manual_seed(OUR_SEED)

    def note_seed(self) -> None:
        """After a case: a seed that is not ours was set by the answer."""
        self.seeded = self.seeded or _generator.initial_seed() != OUR_SEED


def seed_again() -> None:
    """Begin the random numbers of a case anew, unless the answer has set a seed of its own."""
    if _generator.initial_seed() == OUR_SEED:
        _generator.manual_seed(OUR_SEED)


@contextlib.contextmanager
def plain_modes() -> Iterator[None]:
    """Switch off what the notebook has switched on for itself, so that no check depends on it.

    Modes belong to a thread: the reference runs in the notebook's, the answer in a new one. Without
    this a notebook's `no_grad`, autocast or default device would hold for one of them only.
    """
    dtype = _get_dtype()
    with contextlib.ExitStack() as stack:
        stack.callback(_set_dtype, dtype)
        _set_dtype(torch.float32)
        stack.enter_context(_inference_mode(False))
        stack.enter_context(_enable_grad())
        stack.enter_context(torch.device("cpu"))
        stack.enter_context(_autocast("cpu", enabled=False))
        yield


@contextlib.contextmanager
def guarded() -> Iterator[Conduct]:
    """Note what the code inside does to seeds, the default dtype and torch, and undo it."""
    conduct = Conduct()
    before = _random_states()
    dtype = _get_dtype()
    _generator.manual_seed(OUR_SEED)
    try:
        yield conduct
    finally:
        conduct.note_seed()
        conduct.replaced = tuple(replaced_functions())
        conduct.default_dtype = _get_dtype() if _get_dtype() != dtype else None
        restore_functions()
        _set_dtype(dtype)
        _restore_random(before)


def _random_states() -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    return {
        "torch": _generator.get_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None,
        "python": random.getstate(),
        "numpy": numpy.random.get_state() if numpy else None,
    }


def _restore_random(states: dict[str, Any]) -> None:
    _generator.set_state(states["torch"])
    random.setstate(states["python"])
    if states["cuda"] is not None:
        torch.cuda.set_rng_state_all(states["cuda"])
    if states["numpy"] is not None:
        sys.modules["numpy"].random.set_state(states["numpy"])
