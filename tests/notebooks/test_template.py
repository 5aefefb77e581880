"""The template: a lesson that keeps every rule passes, and each rule is seen when it is broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import course_lib.exercises
from tests.notebooks.sample import keeps_every_rule, make_course
from tools import build_notebooks, check_lesson
from tools.lesson_source import PROJECT_FOLDER, lesson_paths, read_lesson
from tools.template import Registry, lesson_problems, sizes

KNOWN = Registry({"03.one": (2, 8), "03.two": (1, 3)}, questions=5)


def problems(root: Path, text: str, registry: Registry = KNOWN, number: str = "03") -> list[str]:
    others = {f"n{int(number) + 1:02d}_next": "", f"n{number}_sample": text}
    make_course(root, **others)
    return lesson_problems(read_lesson(lesson_paths(root, [number])[0]), registry)


def test_a_lesson_that_keeps_every_rule(tmp_path: Path) -> None:
    assert problems(tmp_path, keeps_every_rule()) == []


BROKEN = {
    "a word": ("Goals answered", "Goals simply answered", "recap", 'says "simply"'),
    "a word in code": ('print("broken")', "1  # Obviously", "break-scale", 'says "Obviously"'),
    "a stray bullet": (
        "Goals answered",
        "Goals 9\n# + 9 answered",
        "recap",
        "a line that begins '+ 9 answered'",
    ),
    "wide code": ('print("broken")', "x" * 121, "break-scale", "has 121 columns in line 1"),
    "no link": ("[Lesson 04](04_next.ipynb)", "Lesson 04", "title", "has no link to lesson 04"),
    "no name": ("Lesson 02 · ", "", "title", "does not name lesson 02"),
    "unbuilt": ("(../README.md)", "(02_gone.ipynb#x)", "question", "links to 02_gone.ipynb"),
    "dead link": ("(../README.md)", "(../READ.md)", "question", "links to ../READ.md"),
    "space in link": (
        "(../README.md)",
        "(../READ ME.md)",
        "question",
        "'../READ ME.md', which has white",
    ),
    "title": ("# # Keep", "# ## Keep", "title", "starts with its title"),
    "no check": ('check("03.one", one)', "one", "ex-one", "is not followed by its check"),
    "other check": ('check("03.one"', 'check("03.two"', "ex-one", "is not followed by its check"),
    "check compared": (
        '"check-one" tags=["check", "nbval-ignore-output"]',
        '"check-one" tags=["check"]',
        "check-one",
        "is compared in both editions",
    ),
    "lone check": ('"code-1"', '"code-1" tags=["check"]', "code-1", "follows no exercise"),
    "no stars": ("★★ · 8 min", "8 min", "ex-one", "is not announced"),
    "no minutes": ("★★ · 8 min", "★★", "ex-one", 'stars and time: "★★ · 8 min"'),
    "nothing said": ("★ · 3 min", "", "ex-two", 'stars and time: "★ · 3 min"'),
    "other stars": ("★★ · 8 min", "★ · 8 min", "ex-one", "announced as '★ · 8 min'"),
    "other minutes": ("★★ · 8 min", "★★☆ (9 min)", "ex-one", "the library has 2 ★, 8 min"),
    "solved": ("raise NotImplementedError", "return x", "ex-one", "is solved already"),
    "value given": ("answer = None", "answer = 3", "ex-two", "is solved already"),
    "twice": ('"exercise": "03.two"', '"exercise": "03.one"', None, "03.one has 2 cells"),
    "other number": ('"exercise": "03.two"', '"exercise": "04.two"', "ex-two", "begins with"),
    "unknown": ('"exercise": "03.two"', '"exercise": "03.three"', None, "03.three is not in"),
    "quiz size": ('"quiz": 5', '"quiz": 4', "quiz", "says 4 questions"),
    "quiz call": ('quiz("03")', 'quiz("04")', "quiz", "does not show the quiz"),
    "second quiz": (
        '"code-1"',
        '"code-1" tags=["quiz"] course={"quiz": 5}',
        "quiz",
        "a second quiz",
    ),
    "picture": ("assert True", "print(2)", "picture", "draws a picture"),
    "explorer": ("assert_close", "close", "explorer", "has an output that is not compared"),
    "section": ('name="recap"', 'name="summary"', None, 'has no cell "recap"'),
    "no minutes in goals": ("60 minutes", "an hour", "goals", "does not say how long"),
    "no formula": ("$y = 2x$", "y = 2x", "formula", "has no formula"),
    "no source": ("arXiv 1706.03762", "A paper", "sources", "has no source"),
    "next": ("Lesson 04 goes", "It goes", "next", "does not name lesson 04"),
    "setup": ('begin_lesson("03")', 'begin_lesson("04")', "setup", "does not begin the lesson"),
    "long setup": ('begin_lesson("03")', 'begin_lesson("03")\n' + "1\n" * 7, "setup", "9 lines"),
    "nothing broken": ("break-scale", "scale", None, "breaks nothing"),
    "no picture": ("plt.show()", "pass", None, "has no picture"),
    "no task": ("Look for the", "The", None, "introduces no picture"),
    "long cell": ("print(2)\n", "print(2)\n" * 31, "code-2", "has 31 lines, at most 25"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_seen(tmp_path: Path, rule: str) -> None:
    old, new, cell, message = BROKEN[rule]
    text = keeps_every_rule()
    assert old in text
    found = problems(tmp_path, text.replace(old, new, 1))
    place = f": cell {cell!r}: " if cell else "lessons/03_sample.py: "
    assert any(place in line and message in line for line in found), found


def test_code_may_fill_the_width(tmp_path: Path) -> None:
    text = keeps_every_rule().replace('print("broken")', "x" * 120)
    assert problems(tmp_path, text) == []


def test_an_exercise_file_at_fault_is_named(tmp_path: Path, monkeypatch, capsys) -> None:
    library = tmp_path / "library"
    library.mkdir()
    text = (
        "from course_lib.exercises.model import Exercise, value\n"
        "EXERCISES = (Exercise(id='96.a', title='A', stars=1, minutes=3, why='So.',\n"
        "    solution=value('answer = 5'), hints=('a', 'b'), misconceptions=()),)\n"
        "QUIZ = ()\n"
    )
    (library / "lesson_96.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(
        course_lib.exercises, "__path__", [str(library), *course_lib.exercises.__path__]
    )
    make_course(tmp_path / "course", n96_sample=keeps_every_rule("96"))
    assert check_lesson.main(["96"], tmp_path / "course") == 1
    said = capsys.readouterr().err
    assert said.startswith("course_lib/exercises/lesson_96.py: 96.a needs two")
    assert build_notebooks.main(["--check"], tmp_path / "course") == 1
    assert said.strip() in capsys.readouterr().out.splitlines()


def test_sections_in_another_order(tmp_path: Path) -> None:
    text = keeps_every_rule().replace('"recap"', '"x"').replace('"goals"', '"recap"')
    found = problems(tmp_path, text.replace('"x"', '"goals"'))
    assert any("its sections come as title, recap, setup" in line for line in found)


def test_a_lesson_far_from_the_guide(tmp_path: Path) -> None:
    text = keeps_every_rule()
    text = (
        text[: text.index('\n# %% [markdown] name="text-3"')]
        + text[text.index('\n# %% [markdown] name="formula"') :]
    )
    found = "\n".join(problems(tmp_path, text))
    for size in ("11 text cells", "10 code cells", "words"):
        assert f"{size}, far from the guide's" in found


def test_what_is_counted(tmp_path: Path) -> None:
    make_course(tmp_path, n03_sample=keeps_every_rule())
    counted = sizes(read_lesson(lesson_paths(tmp_path)[0]))
    assert counted["exercises"] == 2
    assert counted["code cells"] == 15 + 7  # no exercises, checks, quiz
    assert counted["text cells"] == 15 + 8  # no texts of exercises
    assert 15 * 85 < counted["words"] < 15 * 85 + 150


def test_exercises_of_the_library_without_a_cell(tmp_path: Path) -> None:
    more = Registry(KNOWN.exercises | {"03.three": (1, 1)}, questions=5)
    assert problems(tmp_path, keeps_every_rule(), more) == [
        "lessons/03_sample.py: exercise 03.three has 0 cells; it needs one"
    ]


def test_quiz_of_the_library_without_a_cell(tmp_path: Path) -> None:
    text = keeps_every_rule().replace('tags=["quiz"] course={"quiz": 5}', "")
    found = problems(tmp_path, text)
    assert found == ["lessons/03_sample.py: the library has 5 quiz questions; add a quiz cell"]


def test_an_untimed_lesson_needs_no_sections(tmp_path: Path) -> None:
    text = '# %% [markdown] name="title"\n# # Field guide\n#\n# after 16\n'
    assert problems(tmp_path, text, Registry(), number="17") == []
    assert len(problems(tmp_path / "16", text, Registry(), number="16")) > 10


def test_the_exercise_of_the_guide_keeps_the_rules(tmp_path: Path) -> None:
    guide = (PROJECT_FOLDER / "CONTRIBUTING.md").read_text(encoding="utf-8")
    example = re.search(r"## Add an exercise.*?```python\n(.*?)```", guide, re.DOTALL)[1]
    found = problems(tmp_path, example, Registry({"02.weights": (2, 6)}), number="02")
    assert [line for line in found if "ex-weights'" in line or "check-weights'" in line] == []
