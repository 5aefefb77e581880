"""Progress survives damage, later versions, read-only places, and two kernels at once."""

import json
import os
import subprocess
import sys
import warnings

import pytest

from course_lib.exercises import check, hint, places, progress_rows, progress_text, quiz_rows
from course_lib.exercises.progress_store import read, record_attempt, record_hint, record_quiz
from course_lib.runtime import CourseNotice


@pytest.fixture
def file(course_home):
    course_home.mkdir()
    return course_home / "progress.json"


def aside(file):
    return sorted(path.name for path in file.parent.iterdir() if "damaged" in path.name)


def test_attempts_passes_and_times_are_kept(file):
    record_attempt("98.weights", False)
    record_attempt("98.weights", True)
    record_attempt("98.weights", True)
    record = json.loads(file.read_text(encoding="utf-8"))["exercises"]["98.weights"]
    assert (record["attempts"], record["passes"], record["hints"]) == (3, 2, 0)
    assert record["first_attempt"] <= record["first_pass"] <= record["last_pass"]
    assert record["last_attempt"] == record["last_pass"]


def test_a_check_is_recorded_and_a_stub_is_not(file):
    check("98.count", None)
    assert not file.exists()
    check("98.count", 36)
    check("98.count", 35)
    rows = {row.id: row for row in progress_rows()}
    assert (rows["98.count"].attempts, rows["98.count"].passes) == (2, 1)
    assert (rows["98.count"].status, rows["98.weights"].status) == ("passed", "not attempted")


def test_hints_come_one_by_one_and_the_last_stays(capsys):
    for _ in range(3):
        hint("98.weights")
    told = [line for line in capsys.readouterr().out.split("\n") if line.startswith("▸")]
    assert [line.split(":")[0] for line in told] == [
        "▸ Hint 1 of 2",
        "▸ Hint 2 of 2",
        "▸ Hint 2 of 2",
    ]
    assert record_hint("98.weights", 2) == 2


def test_quiz_answers_are_kept(file):
    record_quiz("98", 1, [1], False)
    record_quiz("98", 1, [0], True)
    (row,) = [row for row in quiz_rows() if row.lesson == "98"]
    assert (row.questions, row.answered, row.right) == (2, 1, 1)
    assert read()["quizzes"]["98"]["1"]["tries"] == 2


def _with_record(**counts):
    record = {"attempts": 1, "passes": 0, "hints": 0} | counts
    data = {"version": 1, "exercises": {"98.count": record}, "quizzes": {}}
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"null",
        b"{}",
        b'{"version": "1"}',
        b'{"version": 1}',
        b'{"version": 1, "exercises": [], "quizzes": {}}',
        b'{"version": 1, "exercises": {"98.count": 3}, "quizzes": {}}',
        b'{"version": 1, "exercises": {"98.count": {"attempts": "x"}}, "quizzes": {}}',
        _with_record(attempts=-1),
        _with_record(passes=True),
        _with_record(hints=-10),
        _with_record(hints=1.0),
        b'{"version": 1, "exercises": {"98.count": {"attempts": 1}}, "quizzes": {}}',
        b'{"version": 1, "exercises": {}, "quizzes": {"98": {"1": {"tries": -1}}}}',
        b'{"version": 1, "exercises": {}, "quizzes": {"98": {"1": {"tries": true}}}}',
        b'{"version": 1, "exercises": {}, "quizzes": {"98": {"1": 2}}}',
        b'{"version": 1, "exercises": {}, "quizzes": {"98": 2}}',
        b'{"version": 2, "exercises": {}, "quizzes": {}, "more": "than we know"}',
        b"[" * 100_000,
        "folder",
    ],
)
def test_a_bad_file_is_set_aside_with_one_warning(file, content):
    if content == "folder":
        file.mkdir()
    else:
        file.write_bytes(content)
    with pytest.warns(CourseNotice, match=r"set aside as progress.damaged-1.json") as told:
        progress_rows()
        record_attempt("98.weights", True)
        progress_text()
    assert len(told) == 1
    assert aside(file) == ["progress.damaged-1.json"]
    if content != "folder":
        assert (file.parent / "progress.damaged-1.json").read_bytes() == content
    assert read()["exercises"]["98.weights"]["passes"] == 1


def test_half_a_character_in_the_file_stops_no_check(file):
    """JSON can hold a surrogate without its other half; UTF-8 cannot."""
    file.write_bytes(_with_record().replace(b"98.count", rb"\ud800"))
    assert check("98.count", 35) == 35
    assert set(json.loads(file.read_bytes())["exercises"]) == {"\ud800", "98.count"}


def test_a_later_version_is_named(file):
    file.write_text('{"version": 7}', encoding="utf-8")
    with pytest.warns(CourseNotice, match=r"of a later version \(7; this course writes 1\)"):
        read()


def test_a_second_bad_file_gets_another_name(file):
    for _ in range(2):
        file.write_bytes(b"{")
        with warnings.catch_warnings(record=True):
            record_attempt("98.weights", True)
    assert aside(file) == ["progress.damaged-1.json", "progress.damaged-2.json"]


def test_what_a_newer_course_adds_within_a_version_is_left_alone(file):
    file.write_text(
        '{"version": 1, "exercises": {}, "quizzes": {}, "notes": ["é"]}', encoding="utf-8"
    )
    record_attempt("98.weights", True)
    assert json.loads(file.read_text(encoding="utf-8"))["notes"] == ["é"]


def test_looking_makes_no_folder(course_home):
    progress_rows()
    assert not course_home.exists()


def expect_memory(match):
    with pytest.warns(CourseNotice, match=match) as told:
        check("98.count", 35)
        check("98.count", 36)
    rows = {row.id: row for row in progress_rows()}
    assert (rows["98.count"].attempts, rows["98.count"].passes) == (2, 1)
    return told


def test_a_home_that_cannot_be_made_means_memory_and_one_warning(course_home):
    course_home.write_text("a file where the folder should be", encoding="utf-8")
    assert len(expect_memory("cannot be kept in .*it lasts until the kernel stops")) == 1


def test_no_home_at_all_means_memory_and_one_warning(monkeypatch):
    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *a, **k: "~/.local/share/course")
    monkeypatch.setattr("course_lib.exercises.places.answers_file", lambda lesson: None)
    assert len(expect_memory("there is no home folder")) == 1


def test_an_error_on_the_way_to_the_home_means_none(monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.setattr("platformdirs.user_data_dir", fail)
    assert places.home() is None


@pytest.fixture
def unprivileged(tmp_path):
    """Go on as a user who may not write where the modes forbid it: root may write anywhere."""
    if not hasattr(os, "seteuid"):
        pytest.skip("needs POSIX users")
    if os.getuid() != 0:
        yield
        return
    modes = {folder: folder.stat().st_mode for folder in list(tmp_path.parents)[:-2]}
    for folder, mode in modes.items():
        folder.chmod(mode | 0o011)  # so that the other user finds the way
    os.seteuid(65534)
    yield
    os.seteuid(0)
    for folder, mode in modes.items():
        folder.chmod(mode)


@pytest.fixture
def read_only(file):
    record_attempt("98.weights", True)
    places_to_lock = [file.parent.parent, file.parent, *file.parent.iterdir()]
    modes = {path: path.stat().st_mode for path in places_to_lock}
    for path in places_to_lock:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield
    for path, mode in modes.items():
        path.chmod(mode)


def test_a_read_only_home_is_read_and_goes_on_in_memory(file, read_only, unprivileged):
    with pytest.warns(CourseNotice, match="cannot be kept in") as told:
        record_attempt("98.weights", False)
        record_attempt("98.weights", False)
    record = read()["exercises"]["98.weights"]
    assert (record["attempts"], record["passes"], len(told)) == (3, 1, 1)
    kept = json.loads(file.read_text(encoding="utf-8"))
    assert kept["exercises"]["98.weights"]["attempts"] == 1


def test_two_processes_writing_fifty_marks_each_keep_a_hundred(course_home):
    code = (
        "from course_lib.exercises.progress_store import record_attempt\n"
        "for _ in range(50): record_attempt('98.weights', True)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    record = read()["exercises"]["98.weights"]
    assert (record["attempts"], record["passes"]) == (100, 100)
    assert [path.name for path in course_home.iterdir() if path.suffix == ".tmp"] == []


def test_a_crash_in_the_middle_of_writing_leaves_the_former_file(file, monkeypatch):
    record_attempt("98.weights", True)
    before = file.read_bytes()

    def crash(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", crash)
    with pytest.raises(KeyboardInterrupt):
        record_attempt("98.weights", True)
    assert file.read_bytes() == before
    assert not list(file.parent.glob("*.tmp"))


@pytest.mark.parametrize("edition", ["learner", "solved"])
def test_an_edition_run_keeps_everything_in_memory(course_home, monkeypatch, edition):
    monkeypatch.setenv("COURSE_EDITION", edition)
    check("98.count", 35)
    record_hint("98.count", 2)
    assert read()["exercises"]["98.count"]["passes"] == 1
    assert not course_home.exists()


def test_where_the_progress_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "学 习 é" / "it's"))
    assert places.progress_file() == tmp_path / "学 习 é" / "it's" / "progress.json"
    record_attempt("98.weights", True)
    assert read()["exercises"]["98.weights"]["passes"] == 1
    monkeypatch.setenv("COURSE_HOME", "")  # empty is unset
    assert places.home().name == "attention-course"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_HOME", "here")
    assert places.home() == tmp_path / "here"


def test_the_table_tells_the_state_in_words():
    check("98.count", 36)
    check("98.projection", 3)
    hint("98.count")
    lines = progress_text().split("\n")
    assert lines[0].startswith("0 of ") and lines[0].endswith(" exercises passed")
    (count,) = [line for line in lines if "How many weights?" in line and "★" in line]
    assert " ".join(count.split()) == "△ How many weights? ★ not yet, 1 attempt, 1 hint"
    assert "  Quiz: 0 of 2 right, 2 to go" in lines
