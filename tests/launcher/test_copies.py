"""The learner's copies: placed, kept current while untouched, never overwritten once changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from launcher.copies import LIST_NAME, first_lesson, refresh


def notebook(text: str) -> str:
    cell = {"cell_type": "markdown", "id": "one", "metadata": {}, "source": [text]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(checkout) -> Path:
    folder = checkout / "notebooks"
    for name in ("00_start.ipynb", "01_next.ipynb"):
        (folder / name).write_text(notebook("version 1"), encoding="utf-8")
    return folder


@pytest.fixture
def work(checkout) -> Path:
    folder = checkout / "work"
    folder.mkdir()
    return folder


def write(path: Path, text: str) -> None:
    path.write_text(notebook(text), encoding="utf-8")


def text_of(path: Path) -> str:
    return json.loads(path.read_text("utf-8"))["cells"][0]["source"][0]


def test_notebooks_are_copied_once_and_then_quietly_left(course, work):
    (line,) = refresh(course, work)
    assert "00_start.ipynb, 01_next.ipynb" in line and str(work) in line
    assert (work / "00_start.ipynb").read_bytes() == (course / "00_start.ipynb").read_bytes()
    assert refresh(course, work) == []


def test_only_files_at_the_top_are_copied(course, work):
    (course / ".ipynb_checkpoints").mkdir()
    write(course / ".ipynb_checkpoints" / "00_start-checkpoint.ipynb", "x")
    (course / ".hidden").touch()
    (course / "00_start.ipynb~").touch()
    (course / "picture.png").write_bytes(b"\x89PNG")
    refresh(course, work)
    names = {path.name for path in work.iterdir()}
    assert names == {"00_start.ipynb", "01_next.ipynb", "picture.png", LIST_NAME}


def test_an_untouched_copy_follows_the_course(course, work):
    refresh(course, work)
    write(course / "00_start.ipynb", "version 2")
    (line,) = refresh(course, work)
    assert "up to date" in line and "00_start.ipynb" in line and "01_next" not in line
    assert text_of(work / "00_start.ipynb") == "version 2"
    write(course / "00_start.ipynb", "version 3")
    refresh(course, work)
    assert text_of(work / "00_start.ipynb") == "version 3"


def test_a_changed_copy_stays_and_nothing_is_said_while_the_course_is_the_same(course, work):
    refresh(course, work)
    write(work / "00_start.ipynb", "mine")
    assert refresh(course, work) == []
    assert text_of(work / "00_start.ipynb") == "mine"


def test_a_changed_copy_stays_when_the_course_has_a_newer_one_and_is_told_of_it(course, work):
    refresh(course, work)
    write(work / "00_start.ipynb", "mine")
    write(course / "00_start.ipynb", "version 2")
    for _ in range(2):  # as long as it is so
        (line,) = refresh(course, work)
        assert "newer version of 00_start.ipynb" in line and "rename yours" in line
        assert text_of(work / "00_start.ipynb") == "mine"


def test_the_remedy_for_a_newer_version_works(course, work):
    refresh(course, work)
    write(work / "00_start.ipynb", "mine")
    write(course / "00_start.ipynb", "version 2")
    (work / "00_start.ipynb").rename(work / "00_mine.ipynb")
    assert refresh(course, work)[0].startswith("Copied")
    assert text_of(work / "00_start.ipynb") == "version 2"
    assert text_of(work / "00_mine.ipynb") == "mine"
    assert refresh(course, work) == []


def test_a_learner_who_takes_the_newer_version_by_hand_is_followed_again(course, work):
    refresh(course, work)
    write(work / "00_start.ipynb", "mine")
    write(course / "00_start.ipynb", "version 2")
    write(work / "00_start.ipynb", "version 2")
    assert refresh(course, work) == []
    write(course / "00_start.ipynb", "version 3")
    refresh(course, work)
    assert text_of(work / "00_start.ipynb") == "version 3"


def test_a_file_that_was_there_first_is_the_learners(course, work):
    write(work / "00_start.ipynb", "mine")
    said = refresh(course, work)
    assert any("Kept as yours" in line and "00_start.ipynb" in line for line in said)
    assert refresh(course, work) == []
    write(course / "00_start.ipynb", "version 2")
    assert "newer version" in refresh(course, work)[0]
    assert text_of(work / "00_start.ipynb") == "mine"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_list_costs_no_work(course, work, damage):
    refresh(course, work)
    write(work / "00_start.ipynb", "mine")
    (work / LIST_NAME).write_bytes(damage)
    write(course / "00_start.ipynb", "version 2")
    write(course / "01_next.ipynb", "version 2")
    said = refresh(course, work)
    assert any("was damaged" in line for line in said)
    assert text_of(work / "00_start.ipynb") == "mine"
    assert text_of(work / "01_next.ipynb") == "version 1"  # may be the learner's, for all we know
    assert not any("damaged" in line for line in refresh(course, work))


def test_a_list_that_cannot_be_written_is_said(course, work):
    (work / LIST_NAME).mkdir()
    said = refresh(course, work)
    assert any(LIST_NAME in line and "could not be written" in line for line in said)
    assert text_of(work / "00_start.ipynb") == "version 1"


def test_a_link_or_a_folder_of_the_learners_is_left(course, work, tmp_path):
    elsewhere = tmp_path / "elsewhere.ipynb"
    write(elsewhere, "version 1")
    refresh(course, work)
    (work / "00_start.ipynb").unlink()
    (work / "01_next.ipynb").unlink()
    os.symlink(elsewhere, work / "00_start.ipynb")
    (work / "01_next.ipynb").mkdir()
    write(course / "00_start.ipynb", "version 2")
    write(course / "01_next.ipynb", "version 2")
    refresh(course, work)
    assert (work / "00_start.ipynb").is_symlink() and text_of(elsewhere) == "version 1"
    assert (work / "01_next.ipynb").is_dir()


def test_a_broken_notebook_of_the_learners_is_named_and_left(course, work):
    refresh(course, work)
    broken = '{\n "cells": [\n<<<<<<< HEAD\n'
    (work / "00_start.ipynb").write_text(broken, encoding="utf-8")
    (line,) = refresh(course, work)
    assert f"{work / '00_start.ipynb'}, line 3: a conflict marker" in line
    assert "left as it is" in line and "rename yours and start again" in line
    assert (work / "00_start.ipynb").read_text("utf-8") == broken
    (work / "00_start.ipynb").rename(work / "broken.ipynb")
    said = refresh(course, work)
    assert text_of(work / "00_start.ipynb") == "version 1"
    assert any("broken.ipynb, line 3" in line and "rename" not in line for line in said)


def test_jupyters_own_checkpoint_is_pointed_at_when_it_is_whole(course, work):
    refresh(course, work)
    (work / "00_start.ipynb").write_text("", encoding="utf-8")
    saved = work / ".ipynb_checkpoints" / "00_start-checkpoint.ipynb"
    saved.parent.mkdir()
    write(saved, "mine")
    assert str(saved) in refresh(course, work)[0]
    saved.write_text("{", encoding="utf-8")
    assert str(saved) not in refresh(course, work)[0]


def test_a_broken_notebook_of_the_courses_is_not_handed_on(course, work):
    (course / "00_start.ipynb").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    said = refresh(course, work)
    assert any("line 1" in line and "git checkout -- notebooks/00_start" in line for line in said)
    assert not (work / "00_start.ipynb").exists() and (work / "01_next.ipynb").exists()


def test_a_course_without_notebooks_is_no_error(checkout, work):
    assert refresh(checkout / "notebooks", work) == []
    assert refresh(checkout / "no such folder", work) == []
    assert first_lesson(work) is None


def test_the_lesson_to_open_is_00(course, work):
    refresh(course, work)
    assert first_lesson(work) == "00_start.ipynb"
    (work / "00_start.ipynb").unlink()
    assert first_lesson(work) is None
