"""How start.py speaks: plain lines on the terminal, and errors that say what to do."""

import contextlib
import sys


class StartError(Exception):
    """Something that the user can mend: shown without a traceback, exit code 2."""


def prepare_terminal() -> None:
    """Let a line reach the terminal at once, and never fail on a character that it cannot show."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace", line_buffering=True)


def say(line: str = "") -> None:
    """One line for the learner; nothing where the terminal has been closed."""
    with contextlib.suppress(OSError):
        print(line, flush=True)
