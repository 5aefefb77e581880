"""A small course in a folder with an awkward name, and a pip that only notes what it was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher import files, packages, setup

PROJECT = """\
[project]
name = "small-course"
dependencies = ["torch>=2.9", "jupyterlab>=4.4"]
optional-dependencies = { test = ["pytest>=8"] }
"""


@pytest.fixture(autouse=True)
def user_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, somewhere else than the real one."""
    folder = tmp_path / "user data"
    monkeypatch.setattr(files, "user_data_folder", lambda: folder)
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "学 习 é" / "it's"
    (folder / "notebooks").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (folder / "constraints.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    (folder / "the_course.py").write_text("here = __file__\n", encoding="utf-8")
    return folder


class Pip:
    """Stands in for packages.run_pip: notes each call's arguments and answers as told."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.answers: list[tuple[int, list[str]] | BaseException] = []

    def __call__(self, python: Path, arguments: list[str]) -> tuple[int, list[str]]:
        assert python.exists(), "pip is called in an environment that exists"
        self.calls.append(arguments)
        answer = self.answers.pop(0) if self.answers else (0, [])
        if isinstance(answer, BaseException):
            raise answer
        return answer


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """No network, no pip in the environments (making them is then quick), nothing installed."""
    stand_in = Pip()
    run_venv = setup.run_venv
    monkeypatch.setattr(setup, "run_venv", lambda folder, *_: run_venv(folder, "--without-pip"))
    monkeypatch.setattr(packages, "run_pip", stand_in)
    monkeypatch.setattr(packages, "torch_source", lambda: "default")
    return stand_in
