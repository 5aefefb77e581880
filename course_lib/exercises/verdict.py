"""What a check found, as data: the words for a learner, and the reason for a program."""

from __future__ import annotations

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
