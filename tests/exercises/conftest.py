"""Adds the fixture lesson 98 to those of the course."""

from pathlib import Path

import pytest

import course_lib.exercises as package
from course_lib.exercises import handed_back, progress_store

FIXTURES = Path(__file__).parent / "fixture_lessons"


@pytest.fixture(autouse=True)
def fixture_lessons(monkeypatch):
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(FIXTURES)])


@pytest.fixture(autouse=True)
def fresh_kernel(monkeypatch):
    """What a kernel remembers begins empty."""
    monkeypatch.setattr(progress_store, "_memory", {})
    monkeypatch.setattr(progress_store, "_told", set())
    monkeypatch.setattr(handed_back, "_handed", {})


@pytest.fixture
def learner():
    """Run a notebook cell's source as the learner's, and give its names."""

    def run(source, **given):
        import linecache
        import textwrap

        source = textwrap.dedent(source)
        filename = f"<cell {len(linecache.cache)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        names = {"__name__": "__main__", **given}
        exec(compile(source, filename, "exec"), names)
        return names

    return run
