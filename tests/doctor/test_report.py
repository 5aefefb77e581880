"""The whole report: here, and where something is missing for real."""

import os
import socket
import subprocess
import sys

import pytest

from course_lib import doctor
from course_lib.cli import main
from course_lib.doctor.findings import Finding
from course_lib.runtime import PROJECT_FOLDER


@pytest.fixture(scope="module")
def here():
    """This machine's report, made without a network, and what it printed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda *_: pytest.fail("asked the network"))
        patch.setattr("course_lib.doctor.speed.SECONDS", 0.01)
        return doctor.report()


def test_here_nothing_is_broken(here):
    wrong = [finding for finding in here if finding.state in ("mend", "skipped")]
    # a lesson that is being written has no notebook yet
    assert [each for each in wrong if not each.subject.startswith("notebooks/")] == []


def test_it_looks_at_all_that_was_promised(here):
    subjects = {finding.subject for finding in here}
    assert subjects >= {
        "Python", "system", "processor", "memory", "torch", "instructions", "devices",
        "packages", "with theirs", "data/tang.txt", "data/checkpoints/shakespeare",
        "progress", "answers", "disk", "Chinese font", "threads", "quick", "laptop", "gpu",
    }  # fmt: skip


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("note", 0), ("skipped", 0), ("mend", 1)])
def test_the_exit_code(monkeypatch, capsys, state, code):
    monkeypatch.setattr(doctor, "report", lambda: (Finding(state, "disk", "text"),))
    assert main(["doctor"]) == code
    assert "disk  text" in capsys.readouterr().out


BREAK = """
import sys
sys.modules["torch"] = sys.modules["matplotlib"] = None     # hides them
sys.path.insert(0, sys.argv[1])
from course_lib.cli import main
sys.exit(main(["doctor"]))
"""


def test_hidden_torch_and_a_broken_library_are_named_and_the_rest_is_looked_at(tmp_path):
    (tmp_path / "safetensors").mkdir()
    fault = "raise OSError('libz.so.1: cannot open shared object file')"
    (tmp_path / "safetensors" / "__init__.py").write_text(fault, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", BREAK, str(tmp_path)],
        cwd=PROJECT_FOLDER,
        env=os.environ | {"PYTHONIOENCODING": "cp1252:backslashreplace"},
        capture_output=True,
        encoding="cp1252",
        timeout=120,
    )
    assert done.returncode == 1 and done.stderr == ""
    lines = done.stdout.splitlines()

    def line(state, subject):
        return next(x for x in lines if x.split()[:2] == [state, subject])

    assert "importing it fails: ModuleNotFoundError" in " ".join(done.stdout.split())
    assert line("mend", "torch").split()[2].startswith("2.")
    assert "libz.so.1" in done.stdout and line("mend", "safetensors") and line("mend", "matplotlib")
    assert line("skipped", "checkpoints").endswith("mended: torch, safetensors")
    assert line("skipped", "presets") and line("ok", "data/tang.txt") and line("ok", "disk")
    assert "to be mended" in lines[-1]


def test_what_a_former_check_found_broken_is_not_found_twice(monkeypatch):
    monkeypatch.setenv("COURSE_THREADS", "many")
    places = {"folders.threads", "speed.presets"}
    monkeypatch.setattr(doctor, "CHECKS", [c for c in doctor.CHECKS if c[0] in places])
    found = [f for f in doctor.report() if f.subject in ("threads", "presets")]
    assert [finding.state for finding in found] == ["mend", "skipped"]


def test_importing_it_imports_nothing_that_could_be_missing():
    code = "import sys, course_lib.doctor; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT_FOLDER, capture_output=True, text=True
    )
    heavy = {"torch", "numpy", "matplotlib", "filelock", "platformdirs", "tomllib", "psutil"}
    assert done.returncode == 0 and not heavy & set(done.stdout.split())
