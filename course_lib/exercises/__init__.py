"""The checked exercises and quizzes of the course."""

from __future__ import annotations

import importlib

_HOME = {
    "check": "checking",
    "all_exercises": "registry",
    "exercises_of": "registry",
    "quiz_of": "registry",
    "Choice": "model",
    "Exercise": "model",
    "Misconception": "model",
    "Question": "model",
    "value": "model",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
