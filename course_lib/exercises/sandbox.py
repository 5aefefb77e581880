"""Runs a learner's code for a limited time, listening to what it prints, and gives the kernel back.

The code runs in a thread of its own. When time is up an exception is raised inside that thread from
outside. A bare `except` would swallow it, so the exception, while it is being built in the runaway
thread, also sets a trace there that raises again at the next line: in the handler, outside that
`try`. A trace that raises is switched off by Python, so the exception sets it again when it is
thrown away.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

KEPT_CHARACTERS = 20_000  # of what the learner prints; the rest is only counted
GRACE_SECONDS = 2.0  # for a runaway thread to end, before it is given up
TICK_SECONDS = 0.02


_ending: set[int] = set()  # the threads whose time is up


class TimeIsUp(SystemExit):
    """Raised inside the learner's code from outside. threading is silent about a SystemExit."""

    def __init__(self) -> None:
        super().__init__()
        _raise_at_next_line()

    def __del__(self) -> None:
        _raise_at_next_line()  # a handler has swallowed it: once more


def _raise_at_next_line() -> None:
    if threading.get_ident() not in _ending:  # a leftover, thrown away by somebody else
        return
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename != __file__:
        frame.f_trace = _raise_at_line
        sys.settrace(_raise_at_line)
        frame = frame.f_back


def _raise_at_line(frame: FrameType, event: str, arg: object) -> Callable | None:
    if frame.f_code.co_filename == __file__:
        return None
    if event == "line":  # at "exception" we would still be inside the `try`
        raise TimeIsUp
    return _raise_at_line


class Listener(io.TextIOBase):
    """Stands in for sys.stdout: keeps what one thread prints, and passes on what others do."""

    def __init__(self, original: io.TextIOBase) -> None:
        self.original = original
        self.thread: int | None = None
        self.kept: list[str] = []
        self.count = 0

    def write(self, text: str) -> int:
        """Keep the beginning, count the rest."""
        if threading.get_ident() != self.thread:
            return self.original.write(text)
        room = KEPT_CHARACTERS - self.count
        if room > 0:
            self.kept.append(text[:room])
        self.count += len(text)
        return len(text)

    def flush(self) -> None:
        """Pass on; a thread that listens for nobody has nothing to flush."""
        if threading.get_ident() != self.thread:
            self.original.flush()

    def text(self) -> str:
        """What was kept."""
        return "".join(self.kept)


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """Put a Listener in the place of stdout and stderr, and put them back whatever happens."""
    stdout, stderr = sys.stdout, sys.stderr
    listener = Listener(stdout)
    sys.stdout = sys.stderr = listener
    try:
        yield listener
    finally:
        sys.stdout, sys.stderr = stdout, stderr


def run_limited(work: Callable[[], None], seconds: float, listener: Listener) -> str:
    """Run `work` for at most `seconds`; "finished", "stopped", or "stuck" if it cannot be ended.

    `work` handles its own exceptions, except TimeIsUp. A Ctrl-C of the user ends the work and goes
    on as the KeyboardInterrupt it is.
    """

    done = threading.Event()  # join() would do, if Ctrl-C did not make it call a thread ended

    def body() -> None:
        listener.thread = threading.get_ident()
        try:
            work()
        except TimeIsUp:
            pass
        finally:
            _ending.discard(threading.get_ident())
            sys.settrace(None)
            done.set()

    thread = threading.Thread(target=body, daemon=True, name="exercise")
    deadline = time.monotonic() + seconds
    try:
        thread.start()
        while not done.wait(TICK_SECONDS) and time.monotonic() < deadline:
            pass  # in short steps, or Ctrl-C would have to wait
    except KeyboardInterrupt:
        _end(thread, done)
        raise
    if done.is_set():
        return "finished"
    return "stopped" if _end(thread, done) else "stuck"


def _end(thread: threading.Thread, done: threading.Event) -> bool:
    deadline = time.monotonic() + GRACE_SECONDS
    while not done.wait(TICK_SECONDS) and time.monotonic() < deadline:
        _ending.add(thread.ident)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident or 0), ctypes.py_object(TimeIsUp)
        )
    return done.is_set() or not thread.is_alive()
