"""What every test stands on: one thread, no display, and a learner's folder of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# Before torch is imported: two workers with one thread each.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["COURSE_THREADS"] = "1"
os.environ["MPLBACKEND"] = "agg"

# Started in the background, pytest may have been given these ignored; some tests are about them.
for name, usual in (("SIGINT", signal.default_int_handler), ("SIGHUP", signal.SIG_DFL)):
    if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
        signal.signal(getattr(signal, name), usual)


@pytest.fixture(autouse=True)
def course_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for progress and answers, and no edition: as a learner begins."""
    home = tmp_path / "course-home"
    monkeypatch.setenv("COURSE_HOME", str(home))
    monkeypatch.delenv("COURSE_EDITION", raising=False)
    return home
