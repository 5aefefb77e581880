"""Adds the fixture lessons to those of the course, and keeps each test's progress to itself."""

from pathlib import Path

import pytest

import course_lib.exercises as package

FIXTURES = Path(__file__).parent / "fixture_lessons"


@pytest.fixture(autouse=True)
def fixture_lessons(monkeypatch):
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(FIXTURES)])


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    folder = tmp_path / "home"
    monkeypatch.setenv("COURSE_HOME", str(folder))
    monkeypatch.delenv("COURSE_EDITION", raising=False)
    return folder
