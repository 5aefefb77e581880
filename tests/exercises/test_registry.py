import subprocess
import sys
import types

import pytest

import course_lib.exercises as package
from course_lib.exercises import registry
from course_lib.exercises.registry import (
    exercises_of,
    find,
    lessons,
    outlines,
    quiz_length,
    quiz_of,
)
from course_lib.runtime import CourseError


def test_lessons_are_found_by_their_files():
    assert lessons()[-1] == "98"
    assert [e.id for e in exercises_of("98")] == ["98.weights", "98.count", "98.projection"]


@pytest.mark.parametrize(
    ("wrong", "close"),
    [("98.weihgts", "98.weights"), ("98.zzz", "98.count"), ("weights", "98.weights")],
)
def test_an_unknown_id_names_close_ones(wrong, close):
    with pytest.raises(CourseError, match=f"no exercise '{wrong}'; did you mean .*{close}"):
        find(wrong)


def test_an_id_that_is_no_text_is_unknown():
    with pytest.raises(CourseError, match="there is no exercise 2"):
        find(2)


@pytest.mark.parametrize("wrong", ["97", "../98", "98.weights", ""])
def test_an_unknown_lesson_names_those_there_are(wrong):
    with pytest.raises(CourseError, match=r"there are for: .*98"):
        exercises_of(wrong)


@pytest.mark.parametrize("lesson", lessons())
def test_the_outline_is_what_the_lesson_says(lesson):
    """The table of progress reads a lesson's file without running it; both must agree."""
    told = [(o.id, o.title, o.stars, o.minutes) for o in outlines(lesson)]
    assert told == [(e.id, e.title, e.stars, e.minutes) for e in exercises_of(lesson)]
    assert quiz_length(lesson) == len(quiz_of(lesson))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "minutes=3",
            "minutes=1 + 2",
            "lesson_97.py:5: exercise 97.a: minutes must be a literal number",
        ),
        (
            "minutes=3",
            "minutes='3'",
            "lesson_97.py:5: exercise 97.a: minutes must be a literal number",
        ),
        (
            "minutes=3",
            "hints=()",
            "lesson_97.py:2: exercise 97.a: minutes must be a literal number",
        ),
        (
            "title='A'",
            "title=f'{1}'",
            "lesson_97.py:4: exercise 97.a: title must be a literal text",
        ),
        ("id='97.a'", "id=NAME", "lesson_97.py:3: exercise ?: id must be a literal text"),
    ],
)
def test_an_outline_that_is_computed_is_refused_with_its_place(
    monkeypatch, tmp_path, old, new, message
):
    text = "\nA = Exercise(\n    id='97.a',\n    title='A',\n    minutes=3,\n    stars=1,\n)\n"
    (tmp_path / "lesson_97.py").write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    with pytest.raises(CourseError) as refusal:
        outlines("97")
    assert f"course_lib/exercises/{message}: the table" in str(refusal.value)


@pytest.mark.parametrize(
    ("ids", "message"), [(["97.a"], "ids begin with 98"), (["98.a", "98.a"], "'98.a' twice")]
)
def test_ids_begin_with_the_lesson_and_come_once(monkeypatch, ids, message):
    fake = types.SimpleNamespace(EXERCISES=tuple(types.SimpleNamespace(id=i) for i in ids))
    monkeypatch.setattr(registry, "_lesson_module", lambda lesson: fake)
    with pytest.raises(CourseError, match=message):
        exercises_of("98")


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", timeout=120
    )


def test_importing_is_silent_and_loads_no_torch():
    done = run_python(
        "import course_lib.exercises as e, sys\n"
        "from course_lib.exercises import progress_rows, progress_text\n"
        "progress_rows(), progress_text()\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_importing_check_and_lessons_seeds_nothing():
    done = run_python(
        "import random, torch\n"
        "torch.manual_seed(5); random.seed(5)\n"
        "before = torch.get_rng_state(), random.getstate()\n"
        "from course_lib.exercises import all_exercises, check\n"
        "all_exercises()\n"
        "assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_name_is_an_attribute_error():
    import course_lib.exercises

    with pytest.raises(AttributeError, match="no attribute 'chek'"):
        course_lib.exercises.chek  # noqa: B018
