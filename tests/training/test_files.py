"""Folders that are replaced whole, where even the names are as before when that fails."""

import errno
import hashlib
import os

import pytest

from course_lib.runtime import CourseError
from course_lib.training.files import read_sealed, replace_files, replace_folder, seal

OLD = seal({"step": 1}, {"model.safetensors": b"old", "history.csv": b"1"})
NEW = seal({"step": 2}, {"model.safetensors": b"new", "history.csv": b"2"})


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [OSError(errno.EACCES, "in use"), KeyboardInterrupt()])
def test_a_replacement_that_fails_leaves_the_former_under_its_own_name(
    tmp_path, monkeypatch, at, error
):
    folder, replace, calls = tmp_path / "last", os.replace, iter(range(1, 99))
    replace_folder(folder, OLD)

    def failing(*arguments):
        if next(calls) == at:
            raise error
        replace(*arguments)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises((CourseError, KeyboardInterrupt)):
        replace_folder(folder, NEW)
    assert read_sealed(folder)[0]["step"] == 1
    assert list(tmp_path.iterdir()) == [folder]
    replace_folder(folder, NEW)
    assert read_sealed(folder) == (
        {"format": 2, "step": 2, "checksums": {**_sums(NEW)}},
        _data(NEW),
    )
    assert list(tmp_path.iterdir()) == [folder]


def test_files_beside_others_count_from_the_last_of_them_on(tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    replace_files(tmp_path, OLD)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(CourseError, match="full; it needs 1 MB"):
        replace_files(tmp_path, NEW)
    assert read_sealed(tmp_path)[0]["step"] == 1  # the drafts were not finished
    monkeypatch.undo()
    replace_files(tmp_path, NEW)
    assert read_sealed(tmp_path)[1] == _data(NEW)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "history.csv",
        "model.safetensors",
        "notes.txt",
    ]


def test_nothing_is_written_or_removed_through_a_link(tmp_path):
    folder, outside = tmp_path / "run", tmp_path / "outside"
    replace_folder(folder, OLD)
    replace_folder(outside, OLD)
    before = _bytes(outside)
    try:
        (folder / ".model.safetensors.draft").symlink_to(outside / "model.safetensors")
        (folder / "last").symlink_to(outside)
        (folder / ".best.draft").symlink_to(outside)
    except OSError:
        pytest.skip("this system makes no links for everybody")
    replace_files(folder, NEW)
    for name in ("last", "best"):
        replace_folder(folder / name, NEW)
        assert read_sealed(folder / name)[0]["step"] == 2
    assert _bytes(outside) == before
    assert {path.name for path in folder.iterdir()} == {*NEW, "last", "best"}


def _data(files: dict[str, bytes]) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name != "config.json"}


def _sums(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in _data(files).items()}


def _bytes(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
