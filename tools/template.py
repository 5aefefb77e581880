"""The template: what every lesson has to be, one function a rule.

A rule yields (cell or None, what is wrong; the remedy). 00 and 17 are untimed and keep the rules
that any lesson keeps; the others have the template's sections and sizes too. The sizes are a
guide: a lesson is refused only where it is a fifth outside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from course_lib.runtime import CourseError
from tools.cell_syntax import asserts, calls_with, draws, leaves_open
from tools.lesson_source import Cell, Lesson, LessonError

UNTIMED = ("00", "17")
LAST_LESSON = 17
SECTIONS = ("title", "goals", "setup", "question", "formula", "recap", "quiz", "sources", "next")
GUIDE = {"text cells": (15, 30), "code cells": (15, 25), "words": (1200, 2500)}
CODE_LINES = 25
CODE_COLUMNS = 120
SETUP_LINES = 8
QUIZ_QUESTIONS = (4, 6)
LEAST_EXERCISES = 2
OUTSIDE = 0.2  # how far outside the guide a lesson is refused
UNWANTED_WORDS = re.compile(r"\b(simply|obviously)\b", re.IGNORECASE)
_ANNOUNCEMENT = re.compile(r"(★{1,3})[^★\d\n]{0,30}(\d+) min")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SPACED_LINK = re.compile(r"\]\(([^)\n]*\s[^)\n]*)\)")
_NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\$[^$]*\$", re.DOTALL)

_FENCED = re.compile(r"```.*?```", re.DOTALL)
_BULLET = re.compile(r"[-+*] ")
_IN_A_LIST = re.compile(r"[-+*] |\d+[.)] | {2,}")

Problem = tuple[Cell | None, str]


@dataclass(frozen=True)
class Registry:
    """What course_lib.exercises has of a lesson: (stars, minutes) by id, and quiz questions."""

    exercises: dict[str, tuple[int, int]] = field(default_factory=dict)
    questions: int = 0


def registry_of(number: str) -> Registry:
    """The exercises and the quiz of a lesson; LessonError when the library refuses their file."""
    from course_lib.exercises.registry import exercises_of, lessons, quiz_of

    if number not in lessons():
        return Registry()
    try:
        exercises = {e.id: (e.stars, e.minutes) for e in exercises_of(number)}
        return Registry(exercises, len(quiz_of(number)))
    except CourseError as error:
        raise LessonError(f"course_lib/exercises/lesson_{number}.py: {error}") from None


def lesson_problems(lesson: Lesson, registry: Registry | None = None) -> list[str]:
    """Every rule of the template that a lesson breaks: file, cell, rule, remedy."""
    known = registry_of(lesson.number) if registry is None else registry
    found: list[Problem] = []
    for rule in (_words, _stray_bullets, _wide_code, _links, _pairs, _asserted):
        found += rule(lesson)
    for rule in (_registered, _announced, _quiz):
        found += rule(lesson, known)
    if lesson.number not in UNTIMED:
        for rule in (_sections, _section_contents, _setup, _experiments, _exercises, _sizes):
            found += rule(lesson)
    return [f"{lesson.where(cell) if cell else lesson.label}: {problem}" for cell, problem in found]


# What any lesson keeps


def _words(lesson: Lesson) -> Iterator[Problem]:
    for cell in lesson.cells:
        word = UNWANTED_WORDS.search(cell.source)
        if word:
            yield cell, f'says "{word[0]}", which helps nobody who is stuck; delete the word'


def _stray_bullets(lesson: Lesson) -> Iterator[Problem]:
    """A sum that is wrapped before its plus sign becomes a list: Markdown takes it for a bullet."""
    for cell in _of_kind(lesson, "markdown"):
        for before, line in pairwise(_FENCED.sub("", cell.source).split("\n")):
            if _BULLET.match(line) and before.strip() and not _IN_A_LIST.match(before):
                yield cell, f"has a line that begins {line[:12]!r} in a sentence; wrap it elsewhere"


def _wide_code(lesson: Lesson) -> Iterator[Problem]:
    """A line that is wider than its cell has to be scrolled to be read."""
    for cell in _of_kind(lesson, "code"):
        for number, line in enumerate(cell.source.splitlines(), start=1):
            if len(line) > CODE_COLUMNS:
                yield (
                    cell,
                    f"has {len(line)} columns in line {number}, at most {CODE_COLUMNS}; "
                    "lay it out in two lines",
                )


def _links(lesson: Lesson) -> Iterator[Problem]:
    """Links lead to lessons that are there; the title names the lessons before and after."""
    folder = lesson.path.parent
    for cell in _of_kind(lesson, "markdown"):
        for target in _SPACED_LINK.findall(_NO_PROSE.sub("", cell.source)):
            yield cell, f"links to {target!r}, which has white space; no link does: write %20"
        for target in _LINK.findall(cell.source):
            path = target.partition("#")[0]
            if not path or re.match(r"[a-z]+:", path):
                continue
            if path.endswith(".ipynb"):
                if not (folder / path).with_suffix(".py").is_file():
                    yield cell, f"links to {path}, which no lesson builds; write it as plain text"
            elif not (folder.parent / "notebooks" / path).exists():
                yield cell, f"links to {path}, which is not there; paths start from notebooks/"
    title = lesson.cells[0]
    if title.name != "title" or not title.source.startswith("# "):
        yield title, 'is the first cell; a lesson starts with its title: name="title", text "# …"'
    for number in _neighbours(lesson):
        built = sorted(folder.glob(f"{number}_*.py"))
        if built and f"]({built[0].stem}.ipynb" not in title.source:
            yield title, f"has no link to lesson {number}; add […]({built[0].stem}.ipynb)"
        elif not built and number not in title.source:
            yield title, f"does not name lesson {number}; name it, without a link until it is there"


def _pairs(lesson: Lesson) -> Iterator[Problem]:
    """An exercise is left open, and its check comes right after it."""
    padded = (None, *lesson.cells, None)
    for before, cell, after in zip(padded, padded[1:], padded[2:], strict=False):
        if "check" in cell.tags and not (before and "exercise" in before.tags):
            yield cell, "is a check and follows no exercise; put it right after its exercise"
        if "exercise" not in cell.tags:
            continue
        yield from ((cell, problem) for problem in _exercise_problems(lesson, cell))
        exercise = str(cell.course["exercise"])
        if not (after and "check" in after.tags and calls_with(after.tree, "check", exercise)):
            yield (
                cell,
                f'is not followed by its check cell; put check("{exercise}", …) right after it',
            )
        elif "nbval-ignore-output" not in after.tags:
            yield after, 'is compared in both editions; add the tag "nbval-ignore-output"'


def _exercise_problems(lesson: Lesson, cell: Cell) -> Iterator[str]:
    exercise = str(cell.course["exercise"])
    if not re.fullmatch(rf"{lesson.number}\.[a-z0-9_-]+", exercise):
        yield f"is exercise {exercise!r}; an id begins with the lesson's number: {lesson.number}.…"
    if not leaves_open(cell.tree):
        yield "is solved already; leave `raise NotImplementedError`, or `answer = None`"


def _registered(lesson: Lesson, registry: Registry) -> Iterator[Problem]:
    """Exercises of the lesson and of the library are the same, each once."""
    there = [str(cell.course["exercise"]) for cell in lesson.cells if "exercise" in cell.course]
    for exercise in sorted(set(there) | set(registry.exercises)):
        if exercise not in registry.exercises:
            yield None, f"exercise {exercise} is not in course_lib.exercises; add it there"
        elif there.count(exercise) != 1:
            yield None, f"exercise {exercise} has {there.count(exercise)} cells; it needs one"


def _announced(lesson: Lesson, registry: Registry) -> Iterator[Problem]:
    """The text before an exercise gives its stars and minutes, as the library has them."""
    for before, cell in zip(lesson.cells, lesson.cells[1:], strict=False):
        if "exercise" not in cell.tags:
            continue
        found = _ANNOUNCEMENT.search(before.source) if before.kind == "markdown" else None
        known = registry.exercises.get(str(cell.course["exercise"]))
        if not found:
            stars, minutes = known or (2, 8)
            due = f"{'★' * stars} · {minutes} min"
            yield cell, f'is not announced; the text before it gives stars and time: "{due}"'
        elif known and known != (len(found[1]), int(found[2])):
            yield (
                cell,
                f"is announced as {found[0]!r}; the library has {known[0]} ★, {known[1]} min",
            )


def _quiz(lesson: Lesson, registry: Registry) -> Iterator[Problem]:
    cells = [cell for cell in lesson.cells if "quiz" in cell.tags]
    if len(cells) > 1:
        yield cells[1], "is a second quiz; a lesson has one"
    if registry.questions and not cells:
        yield None, f"the library has {registry.questions} quiz questions; add a quiz cell"
    for cell in cells:
        questions = cell.course["quiz"]
        if questions != registry.questions:
            yield (
                cell,
                f"says {questions} questions, course_lib.exercises has {registry.questions}",
            )
        if not calls_with(cell.tree, "quiz", lesson.number):
            yield cell, f'does not show the quiz; call quiz("{lesson.number}")'


def _asserted(lesson: Lesson) -> Iterator[Problem]:
    """What nbval does not compare (pixels, ignored outputs) is asserted soon after."""
    code = _of_kind(lesson, "code")
    for i, cell in enumerate(code):
        ignored = "nbval-ignore-output" in cell.tags and "check" not in cell.tags
        uncompared = (ignored and "quiz" not in cell.tags) or draws(cell.tree)
        if uncompared and not any(asserts(later.tree) for later in code[i + 1 : i + 3]):
            what = "draws a picture" if draws(cell.tree) else "has an output that is not compared"
            yield cell, f"{what}; assert what it shows in one of the two code cells after it"


# What a timed lesson has besides


def _sections(lesson: Lesson) -> Iterator[Problem]:
    names = [cell.name for cell in lesson.cells]
    yield from (
        (None, f'has no cell "{name}"; every lesson has one')
        for name in SECTIONS
        if name not in names
    )
    there = [name for name in names if name in SECTIONS]
    if there != [name for name in SECTIONS if name in names]:
        yield None, f"its sections come as {', '.join(there)}; the order is {', '.join(SECTIONS)}"


def _section_contents(lesson: Lesson) -> Iterator[Problem]:
    cells = {cell.name: cell for cell in lesson.cells}
    following = f"{int(lesson.number) + 1:02d}"
    rules = {
        "goals": (r"\d+ min", "does not say how long the lesson takes; write e.g. 60 minutes"),
        "formula": (r"\$", "has no formula; write it between $ signs"),
        "sources": (r"arXiv|https?://", "has no source; give an arXiv id or an address for each"),
        "next": (following, f"does not name lesson {following}; say what comes next and why"),
    }
    for name, (pattern, problem) in rules.items():
        if name in cells and not re.search(pattern, cells[name].source):
            yield cells[name], problem


def _setup(lesson: Lesson) -> Iterator[Problem]:
    for cell in lesson.cells:
        if cell.name != "setup" or cell.kind != "code":
            continue
        lines = sum(bool(line.strip()) for line in cell.source.splitlines())
        if lines > SETUP_LINES:
            yield (
                cell,
                f"has {lines} lines, at most {SETUP_LINES}; import the rest where it is used",
            )
        if not calls_with(cell.tree, "begin_lesson", lesson.number):
            yield cell, f'does not begin the lesson; call begin_lesson("{lesson.number}")'


def _experiments(lesson: Lesson) -> Iterator[Problem]:
    if not any(cell.name.startswith("break-") for cell in lesson.cells):
        yield None, 'breaks nothing; add an experiment with a cell named "break-…"'
    if not any(draws(cell.tree) for cell in _of_kind(lesson, "code")):
        yield None, "has no picture; draw one and end its cell with plt.show()"
    texts = (cell.source.lower() for cell in _of_kind(lesson, "markdown"))
    if not any("look for" in text for text in texts):
        yield None, 'introduces no picture; say before it what to look for ("Look for …")'


def _exercises(lesson: Lesson) -> Iterator[Problem]:
    count = sum("exercise" in cell.tags for cell in lesson.cells)
    if count < LEAST_EXERCISES:
        yield None, f"has {count} exercises; a lesson has about three, at least {LEAST_EXERCISES}"
    low, high = QUIZ_QUESTIONS
    for cell in lesson.cells:
        if "quiz" in cell.tags and not low <= int(cell.course["quiz"]) <= high:
            yield cell, f"has {cell.course['quiz']} questions; a quiz has {low} to {high}"


def _sizes(lesson: Lesson) -> Iterator[Problem]:
    for name, size in sizes(lesson).items():
        if name in GUIDE:
            low, high = GUIDE[name]
            if not low * (1 - OUTSIDE) <= size <= high * (1 + OUTSIDE):
                yield None, f"has {size} {name}, far from the guide's {low} to {high}"
    for cell in _counted_code(lesson):
        lines = len(cell.source.splitlines())
        if lines > CODE_LINES * (1 + OUTSIDE):
            yield (
                cell,
                f"has {lines} lines, at most {CODE_LINES}; split it, or move it to the library",
            )


def sizes(lesson: Lesson) -> dict[str, int]:
    """The numbers the guide speaks of; exercises with their texts, checks and quiz not counted."""
    texts = [
        cell
        for cell, after in zip(lesson.cells, (*lesson.cells[1:], None), strict=True)
        if cell.kind == "markdown" and not (after and "exercise" in after.tags)
    ]
    code = _counted_code(lesson)
    return {
        "text cells": len(texts),
        "code cells": len(code),
        "words": sum(_word_count(cell.source) for cell in texts),
        "lines in the longest code cell": max(
            (len(c.source.splitlines()) for c in code), default=0
        ),
        "exercises": sum("exercise" in cell.tags for cell in lesson.cells),
    }


def _word_count(text: str) -> int:
    prose = re.sub(r"```.*?```|\$[^$]*\$|\]\([^)]*\)", " ", text, flags=re.DOTALL)
    return sum(bool(re.search(r"[^\W\d_]", word)) for word in prose.split())


def _counted_code(lesson: Lesson) -> list[Cell]:
    uncounted = {"exercise", "check", "quiz"}
    return [cell for cell in _of_kind(lesson, "code") if not uncounted & set(cell.tags)]


def _of_kind(lesson: Lesson, kind: str) -> list[Cell]:
    return [cell for cell in lesson.cells if cell.kind == kind]


def _neighbours(lesson: Lesson) -> Iterable[str]:
    here = int(lesson.number)
    return [f"{n:02d}" for n in (here - 1, here + 1) if 0 <= n <= LAST_LESSON]
