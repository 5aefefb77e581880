"""Which packages from where, and what a failure of pip means for a learner."""

from __future__ import annotations

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from launcher import packages
from launcher.packages import CPU_WHEELS, explain, install, run_pip
from launcher.report import StartError

HERE = Path(sys.executable)

NETWORK = [
    "Looking in indexes: https://example.org/simple",
    "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
    "'NewConnectionError(': Failed to establish a new connection: [Errno -2] Name or service not "
    "known')': /simple/filelock/",
    "ERROR: Cannot install filelock>=3.15 because these package versions have conflicting "
    "dependencies.",
    "ERROR: ResolutionImpossible: for help visit https://example.org/dependency-conflicts",
]
DISK = [
    "Installing collected packages: a, b",
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
]
NO_BUILD = [
    "ERROR: Could not find a version that satisfies the requirement torch>=2.9",
    "ERROR: No matching distribution found for torch>=2.9",
]


@pytest.mark.parametrize(
    ("lines", "advice", "words", "changed"),
    [
        (NETWORK, "Check the network", "Name or service not known", False),
        (DISK, "the disk is full", "Errno 28", True),
        (NO_BUILD, "no torch>=2.9 that the course could use with Python 3", "torch>=2.9", False),
        (["Something new went wrong"], "pip failed (exit code 1)", "Something new", False),
        ([], "pip failed (exit code 1)", "", False),
    ],
)
def test_a_failure_says_what_to_do_and_what_pip_said(lines, advice, words, changed):
    error = explain(lines, 1)
    assert advice in str(error) and words in str(error)
    assert "ResolutionImpossible" not in str(error)
    assert len(str(error).splitlines()) <= 3
    assert error.changed is changed


def test_the_cpu_build_is_asked_for_alone_and_the_rest_from_the_usual_source(checkout, pip):
    install(HERE, checkout, "lab", "cpu")
    torch, rest = pip.calls
    assert torch[-4:] == ["--no-deps", "--index-url", CPU_WHEELS, "torch>=2.9"]
    assert not {"--index-url", "--extra-index-url", "--find-links"} & set(rest)
    assert rest[-2:] == ["torch>=2.9", "jupyterlab>=4.4"]
    for call in pip.calls:
        assert call[call.index("-c") + 1] == str(checkout / "constraints.txt")


def test_without_the_cpu_build_pip_goes_on_with_its_usual_source(checkout, pip, capsys):
    pip.answers = [(1, ["ERROR: no"]), (0, [])]
    install(HERE, checkout, "lab", "cpu")
    assert "usual source" in capsys.readouterr().out
    assert len(pip.calls) == 2


@pytest.mark.parametrize("source", ["default", "cuda", "unreachable"])
def test_only_the_cpu_build_has_an_address_of_its_own(checkout, pip, source):
    install(HERE, checkout, "test", source)
    assert len(pip.calls) == 1 and "--index-url" not in pip.calls[0]
    assert pip.calls[0][-1] == "pytest>=8"


@pytest.mark.parametrize(
    ("platform", "gpu", "reachable", "source"),
    [
        ("linux", False, True, "cpu"),
        ("linux", False, False, "unreachable"),
        ("linux", True, True, "cuda"),
        ("darwin", False, True, "default"),
        ("win32", False, True, "default"),
    ],
)
def test_where_torch_comes_from(monkeypatch, platform, gpu, reachable, source):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(packages, "has_nvidia_gpu", lambda: gpu)
    monkeypatch.setattr(packages, "cpu_wheels_answer", lambda: reachable)
    assert packages.torch_source() == source


@pytest.mark.parametrize(
    ("code", "listing", "there"),
    [(0, "GPU 0: NVIDIA T4 (UUID: x)\n", True), (0, "No devices found\n", False), (9, "", False)],
)
def test_a_gpu_is_one_that_the_driver_lists(monkeypatch, code, listing, there):
    monkeypatch.setattr(Path, "exists", lambda path: False)
    answer = subprocess.CompletedProcess([], code, stdout=listing)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    assert packages.has_nvidia_gpu() is there


def test_the_cpu_builds_address_is_tried(monkeypatch):
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/torch/" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(packages, "CPU_WHEELS", f"http://127.0.0.1:{server.server_port}")
        assert packages.cpu_wheels_answer()
        monkeypatch.setattr(packages, "CPU_WHEELS", f"http://127.0.0.1:{server.server_port}/no")
        assert not packages.cpu_wheels_answer()
        server.shutdown()
    assert not packages.cpu_wheels_answer()


def test_an_intel_mac_is_refused_plainly(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    with pytest.raises(StartError, match="Intel Macs"):
        packages.refuse_unsupported(tmp_path)


def test_too_small_a_disk_is_refused_before_the_download(monkeypatch, tmp_path):
    packages.refuse_unsupported(tmp_path)
    monkeypatch.setattr(packages, "NEEDED_BYTES", 10**18)
    with pytest.raises(StartError, match="make room"):
        packages.refuse_unsupported(tmp_path)


def test_pip_is_run_and_heard(capfd, monkeypatch):
    monkeypatch.setenv("PIP_CONFIG_FILE", "no such file")
    code, lines = run_pip(HERE, ["--no-index", "--find-links", "", "no-such-package-here"])
    assert code == 1
    assert any("no-such-package-here" in line for line in lines if line.startswith("ERROR"))
    assert capfd.readouterr().out == ""


def test_larger_downloads_and_the_long_last_step_are_shown(capsys):
    for line in (
        "Collecting torch",
        "  Downloading torch-2.13.0-py3-none-any.whl (192.4 MB)",
        "Downloading https://example.org/a/jedi-0.20.1-py3-none-any.whl.metadata (22 kB)",
        "Installing collected packages: a, b, c",
    ):
        packages.show_progress(line)
    torch, unpacking = capsys.readouterr().out.splitlines()
    assert "torch-2.13.0" in torch and "192.4 MB" in torch
    assert "3 packages" in unpacking


def test_packages_of_other_pythons_are_kept_out(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/other")
    monkeypatch.setenv("KEEP_ME", "1")
    environment = packages.clean_environment()
    assert "PYTHONPATH" not in environment and environment["KEEP_ME"] == "1"
