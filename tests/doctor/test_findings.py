"""How findings are said, and that no check can bring the doctor down."""

import sys

import pytest

from course_lib.doctor.checkout import beside, script
from course_lib.doctor.findings import Check, Finding, as_text, examine, one_line, verdict
from course_lib.runtime import PROJECT_FOLDER, CourseError

FACT = Finding("has", "memory", "8.0 GB")
GOOD = Finding("ok", "disk", "72.0 GB free")
NOTE = Finding("note", "font", "none", "install one")
BROKEN = Finding("mend", "data/tang.txt", "is missing", "git checkout -- data/tang.txt")


def fails(error):
    def look():
        raise error

    return look


def missing(file) -> FileNotFoundError:
    return FileNotFoundError(2, "No such file or directory", str(file))


def test_a_check_that_works_gives_its_findings():
    assert examine(Check("disk", lambda: [GOOD, NOTE]), ()) == (GOOD, NOTE)


@pytest.mark.parametrize(
    ("error", "state", "text"),
    [
        (ModuleNotFoundError("No module named 'x'"), "skipped", "not looked at: No module named"),
        (OSError("libx.so: cannot open"), "mend", "could not be looked at: OSError: libx.so"),
        (RecursionError("deep"), "mend", "RecursionError: deep"),
    ],
)
def test_a_check_that_fails_is_a_finding(error, state, text):
    (finding,) = examine(Check("disk", fails(error)), ())
    assert (finding.state, finding.subject) == (state, "disk") and text in finding.text


@pytest.mark.parametrize(
    ("error", "text", "remedy"),
    [
        (CourseError("it is cut; or not; git checkout -- x"), "it is cut; or not", "git checkout"),
        (missing(PROJECT_FOLDER / "data" / "a.md"), "FileNotFound", "git checkout -- data/a.md"),
        (missing("/elsewhere/x"), "FileNotFound", "mend what else is named here"),
    ],
)
def test_what_is_to_be_mended_has_its_remedy(error, text, remedy):
    (finding,) = examine(Check("disk", fails(error)), ())
    assert finding.state == "mend" and text in finding.text
    assert finding.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("name", "missing"),
    [("launcher.health", "launcher/health.py"), ("launcher", "launcher"), ("start", "start.py")],
)
def test_a_part_of_the_course_that_is_missing_is_to_be_restored(monkeypatch, name, missing):
    monkeypatch.setitem(sys.modules, name, None)  # hides it
    with pytest.raises(CourseError, match=f"is missing; git checkout -- {missing}$"):
        beside(name)


def test_a_package_that_the_launcher_lacks_is_not_taken_for_the_launcher(monkeypatch):
    monkeypatch.setattr("importlib.import_module", lambda _: fails(
        ModuleNotFoundError("No module named 'x'", name="x"))())  # fmt: skip
    with pytest.raises(ModuleNotFoundError):
        beside("launcher.health")


def test_a_program_that_cannot_be_read_is_to_be_restored(tmp_path):
    file = tmp_path / "prepare.py"
    file.write_text("def", encoding="utf-8")
    with pytest.raises(CourseError, match=r"prepare.py cannot be used: .*; git checkout -- "):
        script(file)


def test_a_check_is_not_begun_without_what_it_needs():
    check = Check("presets", fails(AssertionError("begun")), needs=("torch", "numpy"))
    (finding,) = examine(check, ["tqdm", "torch"])
    assert finding.state == "skipped" and finding.text.endswith("is mended: torch")


def test_a_stop_is_no_finding():
    with pytest.raises(KeyboardInterrupt):
        examine(Check("disk", fails(KeyboardInterrupt())), ())


def test_the_text_has_a_line_for_each_and_its_remedy_whole():
    long = Finding("mend", "x", "word " * 60, "a " * 90)
    lines = as_text([FACT, GOOD, BROKEN, long]).splitlines()
    assert lines[:2] == ["This machine", "  memory  8.0 GB"]
    assert "  ok       disk           72.0 GB free" in lines
    assert "  mend     data/tang.txt  is missing" in lines
    assert "           -> git checkout -- data/tang.txt" in lines
    assert "           -> " + "a " * 90 in lines
    assert all(len(line) <= 100 for line in lines if "->" not in line)


def test_a_remedy_that_several_share_is_said_once():
    two = [Finding("mend", name, "is not installed", "python3 start.py") for name in "ab"]
    assert as_text([*two, BROKEN]).count("python3 start.py") == 1
    assert as_text([two[0], BROKEN, two[1]]).count("python3 start.py") == 2


def test_the_last_line_counts():
    assert verdict([FACT, GOOD]) == "All is well."
    assert verdict([GOOD, NOTE]) == "All is well. One note above could make it better."
    assert verdict([NOTE, NOTE]) == "All is well. 2 notes above could make it better."
    assert verdict([BROKEN, NOTE]) == "1 thing is to be mended: look for `mend` above."
    assert verdict([BROKEN, BROKEN]).startswith("2 things are to be mended")


def test_an_error_becomes_one_short_line():
    assert one_line(ValueError("a\n b\t c")) == "a b c"
    assert len(one_line("x" * 999)) == 203


def test_every_word_of_the_doctor_can_be_shown_in_an_old_windows_console():
    files = sorted((PROJECT_FOLDER / "course_lib" / "doctor").glob("*.py"))
    assert len(files) > 5
    for file in files:
        file.read_text(encoding="utf-8").encode("cp1252")
