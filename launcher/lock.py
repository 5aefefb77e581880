"""One start at a time prepares an environment; a second one waits.

The lock is the operating system's, so it ends with whoever holds it, however that ends. The
processes that prepare the environment inherit it: a pip that outlives a killed start.py keeps the
next one waiting.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from launcher.report import say

if os.name == "nt":
    import msvcrt

    def _take(file: BinaryIO) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _take(file: BinaryIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a disk without locks: better unguarded than not at all
            return True
        return True


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock `path` within the block, after waiting for whoever has it."""
    with open(path, "ab") as file:
        os.set_inheritable(file.fileno(), True)
        if not _take(file):
            say("Another start.py is preparing this environment; waiting for it to end ...")
            while not _take(file):
                time.sleep(0.2)
        yield
