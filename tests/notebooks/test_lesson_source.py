"""Reading a lesson: what its cells are, and each mistake with its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.notebooks.sample import SMALL, make_course
from tools.lesson_source import LessonError, lesson_paths, read_lesson


def read(root: Path, text: str):
    return read_lesson(lesson_paths(make_course(root, n98_small=text))[0])


def test_cells_have_name_kind_tags_and_line(tmp_path: Path) -> None:
    lesson = read(tmp_path, SMALL)
    assert lesson.number == "98"
    assert lesson.notebook_path == tmp_path / "notebooks" / "98_small.ipynb"
    names = [cell.name for cell in lesson.cells]
    assert names[:3] == ["title", "setup", "progress"]
    exercise = lesson.cells[names.index("ex-double")]
    assert (exercise.kind, exercise.tags) == ("code", ("exercise",))
    assert exercise.metadata == {"course": {"exercise": "98.double"}, "tags": ["exercise"]}
    assert SMALL.split("\n")[exercise.line - 1].startswith('# %% name="ex-double"')
    assert exercise.source.endswith("raise NotImplementedError")
    assert lesson.cells[0].source.startswith("# Weigh and mix\n\nA lesson")
    assert lesson.cells[0].metadata == {}


def test_line_ends_do_not_change_the_hash(tmp_path: Path) -> None:
    path = lesson_paths(make_course(tmp_path, n98_small=SMALL))[0]
    hash_with_lf = read_lesson(path).sha256
    path.write_bytes(SMALL.replace("\n", "\r\n").encode())
    assert read_lesson(path).sha256 == hash_with_lf
    path.write_text(SMALL + "\n# %% name='more'\n1\n", encoding="utf-8")
    assert read_lesson(path).sha256 != hash_with_lf


MISTAKES = {
    "no name": ('name="progress"', "", "cell name '' is not a-z"),
    "upper case": ('name="progress"', 'name="Progress"', "cell name 'Progress' is not a-z"),
    "too long": ('name="progress"', f'name="{"p" * 65}"', "1 to 64 of them"),
    "used twice": ('name="progress"', 'name="setup"', "cell name 'setup' was used on line 6"),
    "unknown tag": ('tags=["exercise"]', 'tags=["excercise"]', "tag 'excercise' is not known"),
    "unknown key": ('name="progress"', 'name="progress" slide=1', "slide=1 is not known"),
    "bare title": ("# %% name", "# %% the title name", "title='the title' is not known"),
    "course key": ('course={"exercise"', 'course={"exersise"', "course key 'exersise'"),
    "tag alone": (' course={"exercise": "98.double"}', "", 'course={"exercise": …} go together'),
    "text with tag": ('"picture-text"', '"picture-text" tags=["check"]', "tags are for code"),
    "raw cell": ('# %% [markdown] name="picture', '# %% [raw] name="picture', "a raw cell"),
    "empty text": ("# Look for the empty corner.\n", "", "the text cell is empty"),
    "empty code": ('print("doubled:", double(21))', "# nothing", "has no statement"),
    "magic": ("import os\n", "%matplotlib inline\n", "is not plain Python"),
    "one percent sign": ('# %% name="progress"', '# % name="progress"', "with one percent sign"),
    "one before text": (
        '# %% [markdown] name="pic',
        '#  %[markdown] name="pic',
        "one percent sign",
    ),
    "semicolon": ("plt.show()", "plt.show();", "which nbval does not honour"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_file_and_line(tmp_path: Path, mistake: str) -> None:
    old, new, message = MISTAKES[mistake]
    assert old in SMALL
    with pytest.raises(LessonError) as caught:
        read(tmp_path, SMALL.replace(old, new, 1))
    assert len({problem.split(" ")[0] for problem in caught.value.problems}) == 1  # one place
    assert any(message in problem for problem in caught.value.problems)
    file, line, _ = caught.value.problems[0].split(":", 2)
    assert file == "lessons/98_small.py"
    assert line.isdecimal()


def test_text_before_the_first_cell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match=r"98_small.py:1: .*has to begin"):
        read(tmp_path, "import os\n\n" + SMALL)


def test_an_empty_lesson_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match=r"98_small.py:1: "):
        read(tmp_path, "")


def test_lessons_are_found_by_number(tmp_path: Path) -> None:
    make_course(tmp_path, n98_small=SMALL, n04_other=SMALL)
    assert [path.stem for path in lesson_paths(tmp_path)] == ["04_other", "98_small"]
    assert [path.stem for path in lesson_paths(tmp_path, ["98", "4", "04"])] == [
        "98_small",
        "04_other",
    ]
    with pytest.raises(LessonError, match=r"there is no lesson 05 .*there are: 04, 98"):
        lesson_paths(tmp_path, ["5"])


@pytest.mark.parametrize("name", ["n4_small", "nsmall", "n04_Small"])
def test_a_file_that_is_named_otherwise_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LessonError, match=r"use NN_slug.py"):
        lesson_paths(make_course(tmp_path, **{name: SMALL}))


def test_one_number_for_two_lessons_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match=r"lesson 04 is there twice: 04_a.py, 04_b.py"):
        lesson_paths(make_course(tmp_path, n04_a=SMALL, n04_b=SMALL))
