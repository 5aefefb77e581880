"""What every other part stands on: errors and notices, threads, the device, the start of a lesson.

The number of threads is set here and nowhere else. Left unset on a small shared machine, two torch
threads were seen to take up to eight times as long as one.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PROJECT_FOLDER = Path(__file__).resolve().parent.parent


class CourseError(ValueError):
    """A mistake that the user can mend: the message gives the value, the rule and a remedy."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the user's own line and the message, without the library's frames."""
        library = str(Path(__file__).parent)
        frames = traceback.extract_tb(self.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(library)]
        place = [f"line {own[-1].lineno}:  {own[-1].line}"] if own else []
        return [*place, f"{type(self).__name__}: {self}"]


class CourseNotice(UserWarning):
    """Something the user should know, though all goes on."""


_here = threading.local()  # .listener: who hears this thread's notices


def notice(message: str) -> None:
    """Tell the user one line, once a place, without stopping."""
    if listener := getattr(_here, "listener", None):
        listener(message)
    else:
        warnings.warn(message, CourseNotice, stacklevel=3)


@contextmanager
def notices_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Inside, this thread's notices go to the listener.

    For a thread in the background: what it printed would stand below some other cell, and
    warnings.catch_warnings would catch the warnings of all threads.
    """
    former = getattr(_here, "listener", None)
    _here.listener = listener
    try:
        yield
    finally:
        _here.listener = former


def out_of_memory(error: Exception) -> bool:
    """Whether an error says that there was not enough memory, of the machine or of a GPU."""
    message = str(error).lower()
    signs = ("out of memory", "can't allocate memory", "storage size calculation overflowed")
    return isinstance(error, MemoryError) or any(sign in message for sign in signs)


def in_notebook() -> bool:
    """Whether a Jupyter kernel is running this code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def edition() -> str | None:
    """ "learner" or "solved" in a build or test of the notebooks, None for a person."""
    return os.environ.get("COURSE_EDITION") or None


def duration(seconds: float) -> str:
    """A time as people say it: 8 s, 1 min 20 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"
    if minutes:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{rest} s"


def usable_path(text: str, what: str) -> Path:
    """A path to write to, from the user. CourseError if its last part is no name for a file.

    Names that one operating system refuses are refused on all, so that a run can be moved.
    """
    path = Path(text)
    name = path.name
    reserved = {"CON", "PRN", "AUX", "NUL", *(f"{p}{n}" for p in ("COM", "LPT") for n in range(10))}
    reason = None
    if not text or name in ("", ".."):
        reason = "it names no file or folder"
    elif bad := sorted(
        {c for c in name if c in '<>:"|?*\\' or ord(c) < 32 or "\ud800" <= c <= "\udfff"}
    ):
        reason = f"the characters {', '.join(map(ascii, bad))} cannot be in a name everywhere"
    elif name.startswith("-"):
        reason = "a name that starts with - looks like an option"
    elif name.endswith((".", " ")):
        reason = "a name that ends in a dot or a space loses it on Windows"
    elif name.split(".")[0].upper() in reserved:
        reason = "that name is reserved on Windows"
    elif len(name.encode()) > 200:
        reason = f"the name has {len(name.encode())} bytes, and 200 are allowed"
    if reason:
        raise CourseError(f"{what} {text[:60]!r} cannot be used: {reason}; choose another name")
    return path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new, never a half."""
    draft = path.with_name(f".{path.name[:40]}.{os.getpid()}.tmp")
    try:
        draft.unlink(missing_ok=True)
        with draft.open("xb") as file:  # through no link that lies there
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def set_threads(threads: int | None = None) -> int:
    """Set torch's threads and return their number: the argument, else COURSE_THREADS, else 1."""
    import torch

    wanted = threads if threads is not None else os.environ.get("COURSE_THREADS", "1")
    available = os.cpu_count() or 1
    if not str(wanted).isdecimal() or not 1 <= int(wanted) <= available:
        raise CourseError(
            f"threads={wanted} is not possible here; use a whole number from 1 to {available}"
        )
    torch.set_num_threads(int(wanted))
    return int(wanted)


def keep_memory() -> bool:
    """Let this process use freed memory again, not give it back. Whether the system can do that.

    A training frees in each step what the next one needs. By default glibc returns large blocks to
    the system, which fills each page with zeros when it is asked for again: a preset laptop's step
    took 8 to 14% longer by that. M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (man 3 mallopt) are the
    sizes from which it does so. Up to 1 GiB of freed memory stays with the process, to its end.
    Nothing happens where the C library is another one.
    """
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    mmap_threshold, trim_threshold, size, allowed = -3, -1, 2**30, 2**25
    # the manual allows 32 MiB for the former; recent versions take more, older ones refuse it
    taken = mallopt(mmap_threshold, size) or mallopt(mmap_threshold, allowed)
    return bool(taken and mallopt(trim_threshold, size))


def threads_asked_for() -> bool:
    """Whether COURSE_THREADS names a number of threads, so that none needs to be found."""
    return "COURSE_THREADS" in os.environ


def available_threads() -> int:
    """Processors that this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def probe_threads(faster: Callable[[int, int], bool], available: int) -> int:
    """The number of threads to use, where faster(more, fewer) tells whether more are worth it.

    From 1 on they are doubled, up to all that are available, for as long as it is.
    """
    threads = 1
    while threads < available:
        more = min(2 * threads, available)
        if not faster(more, threads):
            break
        threads = more
    return threads


def choose_device(name: str | None = None) -> torch.device:
    """The device to compute on: the named one, else CUDA, else Apple's MPS, else the CPU."""
    import torch

    available = ["cpu"]
    if name is None or name.partition(":")[0] != "cpu":  # a CPU run must not start CUDA
        backends = {"cuda": torch.cuda, "mps": torch.backends.mps}
        available = [d for d, backend in backends.items() if backend.is_available()] + available
    if name is None:
        return torch.device(available[0])
    unavailable = CourseError(
        f"device {name!r} is not available here; use one of: {', '.join(available)}"
    )
    if name.partition(":")[0] not in available:
        raise unavailable
    try:
        device = torch.device(name)
    except RuntimeError:
        raise CourseError(f"device {name!r} is not a device name; use e.g. cpu, cuda:0") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise unavailable
    return device


def begin_lesson(number: str, seed: int = 0) -> None:
    """Make a lesson repeatable: one thread, torch's seed, one figure style. Prints one line."""
    import matplotlib.pyplot as plt
    import torch

    set_threads()
    torch.manual_seed(seed)
    torch.set_printoptions(precision=3, sci_mode=False, linewidth=100)
    plt.rcParams.update(
        {"figure.dpi": 80, "figure.figsize": (6.4, 3.6), "figure.constrained_layout.use": True}
    )
    print(f"Lesson {number} is set up (seed {seed}).")
