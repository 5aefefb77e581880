"""Tells whose line an exception came from, and whether it only says "not attempted"."""

from __future__ import annotations

import dis
import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

LONGEST_MESSAGE = 600
RAISE = dis.opmap["RAISE_VARARGS"]


@dataclass(frozen=True)
class Place:
    """A line of the learner's own code."""

    line: int
    text: str
    function: str  # "" where it has no name
    file: str  # a file's name, or "" for a cell
    elsewhere: bool  # not where the answer itself is defined

    def __str__(self) -> str:
        if self.elsewhere and not self.file:
            cell = f"the cell that defines `{self.function}`" if self.function else "another cell"
            return f"line {self.line} of {cell}"
        inside = f", in `{self.function}`" if self.function else ""
        return f"line {self.line} of {self.file or 'the cell'}{inside}"


def place_of(error: BaseException, answer: Any) -> Place | None:
    """The innermost line of the learner's code on the way to the error, if there is one."""
    own = [step for step in _steps(error) if _is_learners(step, answer)]
    if not own:
        return None
    code, line = own[-1].tb_frame.f_code, own[-1].tb_lineno
    text = linecache.getline(code.co_filename, line).strip()
    elsewhere = code.co_filename not in _files(answer)
    return Place(line, text, _function_name(code), _file_name(code.co_filename), elsewhere)


def is_stub(error: BaseException | None, answer: Any) -> bool:
    """Whether the learner's own code says `raise NotImplementedError`.

    torch raises this error too, for operations that a kind of tensor lacks; that one is a mistake
    to be shown. It comes out of a call in the learner's line, not out of a `raise`.
    """
    if not isinstance(error, NotImplementedError):
        return False
    *_, last = _steps(error)
    return _is_learners(last, answer) and last.tb_frame.f_code.co_code[last.tb_lasti] == RAISE


def say_error(error: BaseException) -> str:
    """Type and message of an exception, shortened; one that cannot print itself is named."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    if len(message) > LONGEST_MESSAGE:
        message = message[:LONGEST_MESSAGE] + " …"
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _steps(error: BaseException) -> Iterator[TracebackType]:
    step = error.__traceback__
    while step is not None:
        yield step
        step = step.tb_next


def _is_learners(step: TracebackType, answer: Any) -> bool:
    frame = step.tb_frame
    in_notebook = frame.f_globals.get("__name__") == "__main__"
    return in_notebook or frame.f_code.co_filename in _files(answer)


def _files(answer: Any) -> set[str]:
    members = vars(answer).values() if isinstance(answer, type) else [answer]
    codes = [getattr(inspect.unwrap(m), "__code__", None) for m in members if callable(m)]
    return {code.co_filename for code in codes if isinstance(code, CodeType)}


def _function_name(code: CodeType) -> str:
    """The function's name; for a lambda or a generator inside it, that of the one around it."""
    named = [part for part in code.co_qualname.split(".") if not part.startswith("<")]
    return named[-1] if named else ""


def _file_name(filename: str) -> str:
    path = Path(filename)
    is_file = not filename.startswith("<") and "ipykernel_" not in filename and path.exists()
    return f"`{path.name}`" if is_file else ""
