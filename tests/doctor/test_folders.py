"""Corpora, checkpoints, notebooks and folders, each broken in a copy."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from course_lib.doctor import folders
from course_lib.doctor.folders import checkpoint, checkpoints, corpora, disk, notebooks, place
from course_lib.runtime import PROJECT_FOLDER

DATA = PROJECT_FOLDER / "data"


# ---- corpora


@pytest.fixture
def data(tmp_path) -> Path:
    """A copy of data/ with texts alone."""
    for file in [*DATA.glob("*.txt"), DATA / "prepare.py", DATA / "README.md"]:
        shutil.copy(file, tmp_path)
    return tmp_path


def states(findings):
    return {finding.subject: finding.state for finding in findings}


def test_the_texts_as_they_are_shipped(data):
    assert states(corpora(data)) == {
        "data/shakespeare.txt": "ok",
        "data/shakespeare-test.txt": "ok",
        "data/tang.txt": "ok",
    }


def test_a_text_that_was_cut_changed_or_lost(data):
    cut = data / "shakespeare.txt"
    cut.write_bytes(cut.read_bytes()[:-1])
    (data / "tang.txt").unlink()
    found = {finding.subject: finding for finding in corpora(data)}
    assert found["data/shakespeare.txt"].state == "mend"
    assert found["data/shakespeare.txt"].text.startswith("1,131,933 bytes, and not those")
    assert "git checkout -- data/shakespeare.txt" in found["data/shakespeare.txt"].remedy
    assert found["data/tang.txt"].text == "is missing"
    assert found["data/shakespeare-test.txt"].state == "ok"


def test_line_ends_of_windows_are_a_note_for_they_are_read_all_the_same(data):
    text = data / "shakespeare-test.txt"
    text.write_bytes(text.read_bytes().replace(b"\n", b"\r\n"))
    assert states(corpora(data))["data/shakespeare-test.txt"] == "note"


def test_a_folder_in_a_text_s_place(data):
    (data / "tang.txt").unlink()
    (data / "tang.txt").mkdir()
    found = {finding.subject: finding for finding in corpora(data)}
    assert (
        found["data/tang.txt"].state == "mend" and "cannot be read" in found["data/tang.txt"].text
    )


# ---- checkpoints


def test_every_shipped_checkpoint_is_looked_at_and_loads():
    found = checkpoints()
    shipped = {f"data/checkpoints/{entry.name}" for entry in (DATA / "checkpoints").iterdir()}
    assert states(found) == dict.fromkeys(shipped, "ok")


def test_a_checkpoint_that_the_readme_lists_and_is_not_there(data):
    found = checkpoints(data)
    assert found and all(finding.state == "mend" for finding in found)
    assert "cannot be read" in found[0].text and "git checkout -- " in found[0].remedy


@pytest.mark.parametrize("fault", ["flip", "cut", "no config"])
def test_a_damaged_checkpoint(tmp_path, fault):
    copy = tmp_path / "shakespeare"
    shutil.copytree(DATA / "checkpoints" / "shakespeare", copy)
    weights = copy / "model.safetensors"
    content = bytearray(weights.read_bytes())
    if fault == "flip":
        content[-5] ^= 1
    weights.write_bytes(content[:-1] if fault == "cut" else content)
    if fault == "no config":
        (copy / "config.json").unlink()
    finding = checkpoint(copy)
    assert finding.state == "mend"
    assert ("config.json" if fault == "no config" else "model.safetensors") in finding.text
    assert finding.remedy == "git checkout -- data/checkpoints/shakespeare"


# ---- notebooks

WHOLE = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A checkout with two lessons and one copy of the learner's."""
    for name in ("lessons", "notebooks", "work"):
        (tmp_path / name).mkdir()
    for lesson in ("00_start", "01_words"):
        (tmp_path / "lessons" / f"{lesson}.py").touch()
        (tmp_path / "notebooks" / f"{lesson}.ipynb").write_text(WHOLE, encoding="utf-8")
    (tmp_path / "work" / "00_start.ipynb").write_text(WHOLE, encoding="utf-8")
    return tmp_path


def test_whole_notebooks(checkout):
    (finding,) = notebooks(checkout)
    assert (finding.state, finding.text) == ("ok", "2 lessons, 1 copies of yours in work/")


def test_a_notebook_that_is_cut_or_missing(checkout):
    (checkout / "notebooks" / "00_start.ipynb").write_text(WHOLE[:-3], encoding="utf-8")
    (checkout / "notebooks" / "01_words.ipynb").unlink()
    cut, missing = notebooks(checkout)
    assert cut.state == missing.state == "mend"
    assert "line 1: the file ends in the middle" in cut.text
    assert (missing.subject, missing.text) == ("notebooks/01_words.ipynb", "is missing")
    assert "git checkout -- notebooks/01_words.ipynb" in missing.remedy


def test_a_copy_of_the_learner_s_with_git_s_marks(checkout):
    copy = checkout / "work" / "00_start.ipynb"
    copy.write_text("<<<<<<< HEAD\n" + WHOLE, encoding="utf-8")
    (finding,) = notebooks(checkout)
    assert finding.state == "mend" and finding.subject == "work/00_start.ipynb"
    assert "conflict marker" in finding.text and "rename yours" in finding.text


def test_a_folder_that_is_not_the_course_s(tmp_path):
    (finding,) = notebooks(tmp_path)
    assert finding.state == "mend" and "not the course's folder" in finding.text


# ---- places to write


def test_the_learner_s_places_can_be_written(course_home):
    progress, answers = folders.learners_places()
    assert (progress.state, progress.text) == ("ok", f"kept in {course_home / 'progress.json'}")
    assert (answers.state, answers.text) == ("ok", f"kept in {course_home / 'answers'}")
    assert not course_home.exists(), "looking leaves nothing behind"


def test_a_home_that_is_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "file" / "home"))
    for finding in folders.learners_places():
        assert finding.state == "mend" and "is a file" in finding.text
        assert "COURSE_HOME" in finding.remedy


def test_a_folder_that_cannot_be_written(monkeypatch, tmp_path):
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # who may write everywhere
        monkeypatch.setattr("launcher.files.can_write", lambda folder: False)
    (tmp_path / "locked").mkdir(mode=0o500)
    finding = place("progress", tmp_path / "locked" / "progress.json")
    assert finding.state == "mend" and "cannot be written to" in finding.text


def test_no_home_at_all():
    assert place("progress", None).state == "mend"


def test_an_edition_keeps_nothing(monkeypatch):
    monkeypatch.setenv("COURSE_EDITION", "learner")
    (finding,) = folders.learners_places()
    assert finding.state == "note" and "COURSE_EDITION=learner" in finding.text


# ---- room, fonts, threads


@pytest.mark.parametrize(
    ("free", "state", "text"),
    [(72e9, "ok", "72.0 GB free"), (0.5e9, "note", "0.5 GB"), (0.1e9, "mend", "0.1 GB free")],
)
def test_room_on_the_disk(free, state, text):
    (finding,) = disk(free)
    assert finding.state == state and text in finding.text
    assert bool(finding.remedy) == (state != "ok")


@pytest.mark.parametrize(("font", "state"), [("Noto Sans CJK SC", "ok"), (None, "note")])
def test_a_chinese_font(monkeypatch, font, state):
    monkeypatch.setattr("course_lib.plots.cjk_font", lambda: font)
    (finding,) = folders.chinese_font()
    assert finding.state == state
    assert font in finding.text if font else "Noto Sans CJK SC" in finding.remedy


@pytest.mark.parametrize("wrong", ["many", "0", "-1", "100000", ""])
def test_a_number_of_threads_that_cannot_be(monkeypatch, wrong):
    before = torch.get_num_threads()
    monkeypatch.setenv("COURSE_THREADS", wrong)
    (finding,) = folders.threads()
    assert finding.state == "mend" and f"threads={wrong} is not possible" in finding.text
    assert torch.get_num_threads() == before


def test_threads_that_can_be_and_more_than_this_program_may_use(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setenv("COURSE_THREADS", "1")
    assert folders.threads()[0].text == "1, by COURSE_THREADS"
    assert torch.get_num_threads() == 2, "looking changes nothing"
    torch.set_num_threads(before)
    monkeypatch.delenv("COURSE_THREADS")
    assert folders.threads()[0].state == "ok"
    monkeypatch.setenv("COURSE_THREADS", "2")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("course_lib.runtime.available_threads", lambda: 1)
    (finding,) = folders.threads()
    assert finding.state != "ok"
