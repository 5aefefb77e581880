"""What the doctor found, and how it is said: plain text that any console can show."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from course_lib.runtime import PROJECT_FOLDER, CourseError

SECTIONS = {
    "This machine": ("has",),
    "The course on it": ("ok", "note", "mend", "skipped"),
    "Presets for `train` (estimates, from a measurement of about one second)": ("preset",),
}
WIDTH = 100


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    state: "has" a fact, "ok", "note" (all works, though something could be better), "mend",
    "skipped" (it could not be looked at), "preset" an estimate. remedy: how to mend it.
    """

    state: str
    subject: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """Something to look at: `look` returns findings. It needs these packages to import."""

    subject: str
    look: Callable[[], Sequence[Finding]]
    needs: tuple[str, ...] = ()


def examine(check: Check, broken: Sequence[str]) -> tuple[Finding, ...]:
    """The findings of one check, whatever happens in it; skipped if a package it needs is broken.

    What is broken at one place shows itself at others: a check that fails is itself a finding.
    """
    if lacking := [name for name in check.needs if name in broken]:
        text = f"not looked at before this is mended: {', '.join(lacking)}"
        return (Finding("skipped", check.subject, text),)
    try:
        return tuple(check.look())
    except ImportError as error:
        return (Finding("skipped", check.subject, f"not looked at: {one_line(error)}"),)
    except CourseError as error:
        text, _, remedy = str(error).rpartition("; ")
        return (Finding("mend", check.subject, one_line(text), remedy),)
    except Exception as error:  # a doctor does not faint
        text = f"could not be looked at: {type(error).__name__}: {one_line(error)}"
        return (Finding("mend", check.subject, text, _restore(error)),)


def _restore(error: Exception) -> str:
    """How to mend what raised an error that nobody foresaw."""
    file = Path(getattr(error, "filename", None) or "")
    if file.is_relative_to(PROJECT_FOLDER):
        return f"git checkout -- {file.relative_to(PROJECT_FOLDER).as_posix()}"
    return "mend what else is named here; then look again"


def one_line(error: object) -> str:
    """An error's first words, short enough for a line."""
    words = " ".join(str(error).split())
    return words if len(words) <= 200 else words[:200] + "..."


def as_text(findings: Sequence[Finding]) -> str:
    """All of it, section by section; the last line says whether something is to be mended."""
    lines = []
    for title, states in SECTIONS.items():
        chosen = [finding for finding in findings if finding.state in states]
        if chosen:
            width = max(len(finding.subject) for finding in chosen)
            lines.append(title)
            for finding, following in zip_longest(chosen, chosen[1:]):
                lines += _lines(finding, width)
                if finding.remedy and finding.remedy != getattr(following, "remedy", ""):
                    # not wrapped: a command is to be copied
                    lines.append(f"           -> {finding.remedy}")
            lines.append("")
    return "\n".join([*lines, verdict(findings)])


def verdict(findings: Sequence[Finding]) -> str:
    """How it stands, in a line."""
    to_mend = sum(finding.state == "mend" for finding in findings)
    notes = sum(finding.state == "note" for finding in findings)
    if to_mend:
        things = "1 thing is" if to_mend == 1 else f"{to_mend} things are"
        return f"{things} to be mended: look for `mend` above."
    noted = {0: "", 1: " One note above could make it better."}
    return "All is well." + noted.get(notes, f" {notes} notes above could make it better.")


def _lines(finding: Finding, width: int) -> list[str]:
    sign = "" if finding.state in ("has", "preset") else f"{finding.state:9}"
    head = f"  {sign}{finding.subject:{width}}  "
    return textwrap.wrap(
        finding.text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
