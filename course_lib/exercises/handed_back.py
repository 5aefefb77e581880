"""Remembers which value a check handed back, so that it is not taken for the learner's answer.

The check cell assigns what `check` returns to the learner's own name. Run twice, it would find the
course's value there. A function or a decimal number is known by identity: one that the learner
computes is another object. Whole numbers and words are shared by everybody, so for them the
notebook's history is asked whether the learner has assigned that name since.
"""

from __future__ import annotations

import re
import sys
from typing import Any

_handed: dict[str, tuple[Any, int]] = {}  # exercise id: the value, and how many cells had run


def remember(exercise_id: str, value: Any) -> None:
    """Note that a check has handed this value back."""
    _handed[exercise_id] = (value, len(_cells()))


def forget(exercise_id: str) -> None:
    """Note that the learner's own answer has passed."""
    _handed.pop(exercise_id, None)


def is_handed_back(exercise_id: str, name: str, answer: Any) -> bool:
    """Whether this answer is what the last check gave, and not the learner's own."""
    value, ran = _handed.get(exercise_id, (None, 0))
    if answer is not value or answer is None:
        return False
    if not isinstance(answer, (bool, int, str)):
        return True
    cells = _cells()
    if not cells:  # a terminal, where nothing tells whose it is
        return False
    assigns = re.compile(
        rf"^[ \t]*{re.escape(name)}[ \t]*(:[^=\n]+)?=(?!=)\s*+(?!([\w.]+\.)?check\()", re.MULTILINE
    )
    return not any(assigns.search(cell) for cell in cells[ran:])


def _cells() -> list[str]:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return list(shell.user_ns.get("In", ())) if shell is not None else []
