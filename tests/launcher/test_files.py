"""Where start.py writes, and that it writes all or nothing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from launcher import files
from launcher.files import user_data_folder  # itself: the other tests replace it
from launcher.report import StartError


@pytest.mark.parametrize(
    ("platform", "variables", "end"),
    [
        ("linux", {"XDG_DATA_HOME": ""}, "home/.local/share/attention-course"),
        ("linux", {"XDG_DATA_HOME": "relative"}, "home/.local/share/attention-course"),
        ("darwin", {}, "home/Library/Application Support/attention-course"),
        ("win32", {"LOCALAPPDATA": ""}, "home/AppData/Local/attention-course"),
    ],
)
def test_each_system_has_its_own_place(tmp_path, monkeypatch, platform, variables, end):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setattr("sys.platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert user_data_folder() == tmp_path / end


def test_the_users_choice_of_place_is_followed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_data_folder() == tmp_path / "attention-course"


def test_an_unknown_home_is_said(monkeypatch):
    def no_home():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(StartError, match="HOME"):
        user_data_folder()


def test_each_checkout_has_its_own_folder(user_data, tmp_path):
    names = {files.folder_of(tmp_path / name) for name in ("a/course", "b/course", "学", "..")}
    assert len(names) == 4
    assert all(folder.parent == user_data / "checkouts" for folder in names)
    assert all(folder.name.isascii() and folder.name[0] not in ".-" for folder in names)


def test_the_learners_folder_is_in_the_checkout(checkout):
    assert files.work_folder(checkout) == checkout / "work"
    assert (checkout / "work").is_dir()


def test_a_file_named_work_or_a_read_only_checkout_moves_the_learners_folder(checkout):
    (checkout / "work").write_text("mine")
    work = files.work_folder(checkout)
    assert work == files.folder_of(checkout) / "work" and work.is_dir()
    assert (checkout / "work").read_text() == "mine"


def test_no_place_for_the_notebooks_is_said(checkout, monkeypatch):
    monkeypatch.setattr(files, "can_write", lambda folder: False)
    with pytest.raises(StartError, match="Copy the course to a folder of yours"):
        files.work_folder(checkout)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_folder_without_write_permission_is_found_out(tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert not files.can_write(tmp_path / "new")
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_writing_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        files.write_atomically(target, b"new")
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]
