"""What a check found, as data: the words for a learner, and the reason for a program."""

from __future__ import annotations

import re
from dataclasses import dataclass

PASSED, NOT_ATTEMPTED, NOT_YET = "passed", "not attempted", "not yet"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check.

    status: "passed", "not attempted" or "not yet". reason: what decided it ("shape",
    "misconception", "time", …). message: the paragraph to read; facts: short lines below it;
    code: a line of the learner's; printed: what the answer printed, shortened.
    """

    status: str
    reason: str
    message: str
    facts: tuple[str, ...] = ()
    code: str = ""
    printed: str = ""
    misconception: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the answer may be used from here on."""
        return self.status == PASSED


def code(text: str) -> str:
    """A text marked as code: between backticks, of which there are more than it has in a row."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}"
