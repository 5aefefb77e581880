"""start.py as it is typed: old Pythons, mistakes, exit codes, what goes to pytest."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import start
from launcher import command
from launcher.environment import Environment
from launcher.report import StartError

ROOT = Path(__file__).resolve().parent.parent
OLD_PYTHONS = sorted(Path.home().glob(".pyenv/versions/*/bin/python"))


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """A copy of what start.py needs, without an environment."""
    folder = tmp_path / "学 习 é" / "it's"
    shutil.copytree(ROOT / "launcher", folder / "launcher")
    for name in ("start.py", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def run(script: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    command_line = [sys.executable, script, *arguments]
    return subprocess.run(command_line, capture_output=True, encoding="utf-8", **options)


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 6, 15), (3, 10, 13)])
def test_an_old_python_is_told_so(version):
    said = start.refusal(version)
    assert f"Python {version[0]}.{version[1]} is too old" in said and "3.11 to 3.14" in said


def test_a_python_that_is_too_new_is_told_so():
    assert "Python 3.15 is too new" in start.refusal((3, 15, 0))


@pytest.mark.parametrize("minor", [11, 12, 13, 14])
def test_the_supported_pythons_are_let_in(minor):
    assert start.refusal((3, minor, 0)) is None


def test_start_keeps_to_what_old_pythons_can_read():
    tree = ast.parse((ROOT / "start.py").read_text("ascii"), feature_version=(3, 7))
    new = (ast.JoinedStr, ast.NamedExpr, ast.AnnAssign)  # f-strings, :=, annotated names
    assert not [node for node in ast.walk(tree) if isinstance(node, new)]
    assert not [node for node in ast.walk(tree) if getattr(node, "returns", None)]


@pytest.mark.parametrize("python", OLD_PYTHONS, ids=lambda path: path.parent.parent.name)
def test_with_other_pythons_that_are_here(python):
    code = f"import sys; sys.exit(not {start.OLDEST} <= sys.version_info[:2] <= {start.NEWEST})"
    if subprocess.run([python, "-c", code]).returncode == 0:
        pytest.skip("not an old one")
    done = subprocess.run([python, ROOT / "start.py"], capture_output=True, encoding="utf-8")
    assert done.returncode == 2 and done.stdout == ""
    assert "too old for this course" in done.stderr and len(done.stderr.splitlines()) == 1


def test_help_names_both_commands():
    done = run(ROOT / "start.py", "--help")
    assert done.returncode == 0
    for word in ("--no-browser", "--port", "start.py test"):
        assert word in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tset"], "invalid choice"),
        (["lab", "-k", "x"], "unrecognized arguments"),
        (["--port", "0"], "'0' is not a port; use a number from 1 to 65535"),
        (["--port", "99999"], "not a port"),
        (["--port", "eight"], "not a port"),
        (["--port", "²"], "not a port"),
        (["--no-browser", "test"], "put `test` first"),
    ],
)
def test_a_mistyped_command_is_explained(course, arguments, words):
    done = run(course / "start.py", *arguments, env=os.environ | {"PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 2 and words in done.stderr
    assert not (course / ".venv").exists()


def test_a_taken_port_is_said_before_anything_is_installed(course, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        done = run(course / "start.py", "--port", port, cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith(f"start.py: port {port} is taken")
    assert len(done.stderr.splitlines()) == 1
    assert not (course / ".venv").exists()


def test_it_starts_from_anywhere_also_through_a_link(course, tmp_path):
    link = tmp_path / "start-here.py"
    link.symlink_to(course / "start.py")
    safe = os.environ | {"PYTHONSAFEPATH": "1"}
    assert run(link, "--help", cwd="/", env=safe).returncode == 0


def test_a_console_without_the_letters_is_no_obstacle():
    code = "from launcher.report import *; prepare_terminal(); say('学 √')"
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=-1)
    assert done.returncode == 0 and rb"\u5b66" in done.stdout


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (StartError("no network: try later"), 2, "start.py: no network: try later"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x/y"),
            2,
            "No space left on device: /x",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "pyproject.toml"),
            2,
            "No such",
        ),
        (KeyboardInterrupt(), 130, "The next start goes on from here"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["lab"], ["test", "-q"]])
def test_what_goes_wrong_is_one_line(monkeypatch, capsys, arguments, error, code, words):
    def fail(*_):
        raise error

    monkeypatch.setattr(command, "prepare", fail)
    assert command.main(arguments) == code
    said = capsys.readouterr()
    assert words in said.err and len(said.err.strip().splitlines()) == 1 and said.out == ""


@pytest.fixture
def these_tests(tmp_path, monkeypatch) -> Path:
    """A checkout with two tests of its own, and this Python in place of the environment's."""
    checkout = tmp_path / "checkout"
    (checkout / "tests").mkdir(parents=True)
    (checkout / "pyproject.toml").write_text("[tool.pytest.ini_options]\ntestpaths = ['tests']\n")
    (checkout / "tests" / "test_two.py").write_text(
        "def test_good(): pass\ndef test_bad(): assert False\n", encoding="utf-8"
    )
    monkeypatch.setattr(Environment, "python", Path(sys.executable))
    monkeypatch.setattr(command, "CHECKOUT", checkout)
    monkeypatch.setattr(command, "folder_of", lambda _: tmp_path / "user data")
    monkeypatch.setattr(command, "prepare", lambda path, part: Environment(path / ".venv", path))
    return checkout


@pytest.mark.parametrize(
    ("arguments", "code", "last"),
    [
        (["-k", "good"], 0, "1 passed, 1 deselected"),
        ([], 1, "1 failed, 1 passed"),
        (["-k", "nothing"], 5, "2 deselected"),
    ],
)
def test_arguments_go_to_pytest_and_its_exit_code_comes_back(
    these_tests, tmp_path, monkeypatch, capfd, arguments, code, last
):
    monkeypatch.chdir(tmp_path)
    assert command.main(["test", *arguments]) == code
    assert last in capfd.readouterr().out.splitlines()[-1]


def test_a_checkout_that_cannot_be_written_is_tested_all_the_same(
    these_tests, tmp_path, monkeypatch, capfd
):
    monkeypatch.setattr(command, "can_write", lambda _: False)
    assert command.main(["test", "-k", "good"]) == 0
    names = {path.name for path in these_tests.rglob("*")}
    assert names == {"tests", "test_two.py", "pyproject.toml"}
    assert (tmp_path / "user data" / "caches" / "pytest").is_dir()


def test_the_lab_opens_lesson_00_in_the_learners_folder(tmp_path, monkeypatch, capsys):
    served = []
    (tmp_path / "notebooks").mkdir()
    notebook = tmp_path / "notebooks" / "00_start.ipynb"
    notebook.write_text('{"cells": []}', encoding="utf-8")
    monkeypatch.setattr(command, "prepare", lambda path, part: (path, part))
    monkeypatch.setattr(command.jupyter, "end_like_ctrl_c", lambda: None)
    monkeypatch.setattr(command.jupyter, "serve", lambda *call: served.append(call) or 0)
    assert command.open_lab(tmp_path, None, False) == 0
    work = tmp_path / "work"
    assert served == [((tmp_path, "lab"), work, "00_start.ipynb", None, False)]
    assert (work / "00_start.ipynb").exists()
    assert "00_start.ipynb" in capsys.readouterr().out
