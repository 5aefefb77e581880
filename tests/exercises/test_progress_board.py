"""The board of progress: what is passed, tried and open, where one stopped, names as text."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from course_lib.exercises import check, progress_text
from course_lib.exercises.progress_board import board
from course_lib.exercises.progress_store import record_attempt, record_quiz
from course_lib.exercises.progress_table import (
    LessonRow,
    QuizRow,
    last_tried,
    lesson_rows,
    next_lesson,
    where,
)
from course_lib.exercises.registry import lessons, quiz_length
from course_lib.runtime import PROJECT_FOLDER

HOSTILE = "<img src=x onerror=alert(1)></script>$_$\u202e\x00"


class Tags(HTMLParser):
    """Whether tags are closed in order, and which there are."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.seen.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def row(number="98"):
    return next(row for row in lesson_rows() if row.number == number)


def pass_all(lesson):
    for exercise in row(lesson).exercises:
        record_attempt(exercise.id, True)


def answer_all(lesson):
    for question in range(1, quiz_length(lesson) + 1):
        record_quiz(lesson, question, [0], False)


def line_of(page, lesson):
    return re.search(f'<tr data-lesson="{lesson}".*?</tr>', page, re.DOTALL)[0]


def test_a_lesson_has_a_box_for_each_exercise_with_its_state():
    check("98.count", 36)
    check("98.weights", lambda scores, scale: (scores * scale).softmax(dim=-1))
    line = line_of(board(lesson_rows()), "98")
    states = re.findall(r'<span title="([^"]*)"', line)
    assert [state.rsplit(": ", 1)[1] for state in states] == [
        exercise.status for exercise in row().exercises
    ]
    assert [exercise.status for exercise in row().exercises].count("passed") == 1
    assert f"1 of {len(row().exercises)}" in line
    earned = next(one for one in row().exercises if one.status == "passed").stars
    assert f"{earned} of {sum(one.stars for one in row().exercises)} ★" in line
    assert f"{sum(one.minutes for one in row().open)} min" in line
    assert "2 questions" in line
    record_quiz("98", 1, [0], True)
    assert "1 of 2 right, 1 to go" in line_of(board(lesson_rows()), "98")


def test_one_goes_on_at_the_first_lesson_that_is_not_finished():
    first, second = lessons()[:2]
    assert next_lesson(lesson_rows()).number == first
    pass_all(first)
    assert next_lesson(lesson_rows()).number == first, "its quiz is open"
    answer_all(first)
    assert next_lesson(lesson_rows()).number == second
    page = board(lesson_rows())
    assert f'Go on here: <a href="{row(second).notebook}">lesson {second}</a>' in page
    assert "▸" in line_of(page, second) and "▸" not in line_of(page, first)
    assert f"Go on with lesson {second} ({row(second).notebook})" in progress_text()


def test_at_the_end_nothing_is_left():
    for lesson in lessons():
        pass_all(lesson)
        answer_all(lesson)
    page = board(lesson_rows())
    assert "Every exercise is passed" in page and "Go on" not in page
    assert "width:100%" in page and " min</td>" not in page
    assert where(lesson_rows())[-1] == "Every exercise is passed, and every quiz answered"


def test_the_last_exercise_that_was_tried_is_named_by_its_time(course_home):
    assert last_tried(lesson_rows()) is None and "Last tried" not in board(lesson_rows())
    times = {"98.count": "2030-01-02T00:00:00+00:00", "00.even": "2030-01-03T00:00:00+00:00",
             "98.weights": 7}  # fmt: skip
    records = {
        name: {"attempts": 1, "passes": 0, "hints": 0, "last_attempt": time}
        for name, time in times.items()
    }
    course_home.mkdir()
    text = json.dumps({"version": 1, "exercises": records, "quizzes": {}})
    (course_home / "progress.json").write_text(text, encoding="utf-8")
    assert last_tried(lesson_rows()).id == "00.even", "and 7 is no time"
    assert "Last tried: " in board(lesson_rows()) and "(00.even), not yet" in progress_text()


def test_titles_and_files_are_those_of_the_notebooks():
    for lesson in lesson_rows():
        if lesson.number == "98":
            assert (lesson.title, lesson.notebook) == ("", None)
            continue
        cells = json.loads(
            (PROJECT_FOLDER / "notebooks" / lesson.notebook).read_text(encoding="utf-8")
        )["cells"]
        assert "".join(cells[0]["source"]).split("\n")[0] == f"# {lesson.title}"


def test_every_name_is_text():
    exercise = replace(row().exercises[0], title=HOSTILE, last_attempt="2030", attempts=1)
    lesson = LessonRow("98", HOSTILE, 'x"><script>.ipynb', (exercise,), QuizRow("98", 2, 0, 0))
    page = board((lesson,))
    tags = Tags(page)
    assert tags.open == [] and not {"img", "script"} & {tag for tag, _ in tags.seen}
    assert "".join(tags.text).count("<img src=x onerror=alert(1)></script>$_$") == 3
    titles = [attributes["title"] for tag, attributes in tags.seen if "title" in attributes]
    assert titles == [f"{HOSTILE}: not yet"]


@pytest.mark.parametrize("edition", ["learner", "solved"])
def test_in_an_edition_it_is_empty_and_the_same_each_time(monkeypatch, course_home, edition):
    record_attempt("98.count", True)
    monkeypatch.setenv("COURSE_EDITION", edition)
    first = board(lesson_rows())
    assert first == board(lesson_rows()) and "0 of " in first and "Last tried" not in first
    assert not re.search(r"\d\d:\d\d", first)


def test_without_lessons_and_without_sources_there_is_still_a_board(monkeypatch, tmp_path):
    assert "0 of 0 exercises passed" in board(())
    monkeypatch.setattr(
        "course_lib.exercises.progress_table.PROJECT_FOLDER", Path(tmp_path), raising=True
    )
    assert "Lesson 98" in line_of(board(lesson_rows()), "98")
    assert "<a " not in board(lesson_rows())
