"""The board of progress: a line for each lesson, a box for each exercise, and where to go on.

HTML alone, in JupyterLab's colours; each box has a sign, and its name in the list behind it, so
that it also reads without colours and styles.
"""

from __future__ import annotations

import html

from course_lib.exercises.cards import COLOURS, SIGNS, html_text
from course_lib.exercises.progress_table import (
    ExerciseRow,
    LessonRow,
    QuizRow,
    last_tried,
    next_lesson,
    quiz_story,
    stars,
    story,
    summary,
)

LINE = "1px solid var(--jp-border-color2, #8a8a8a)"
CELL = f"text-align:left;vertical-align:top;padding:5px 10px;border-bottom:{LINE}"
HERE = "background:var(--jp-layout-color2, rgba(128,128,128,0.15))"
BOX = (
    "display:inline-block;width:1.4em;line-height:1.4em;margin:0 2px 2px 0;border-radius:3px;"
    "text-align:center;border:1px solid {colour};color:{colour}"
)
HEADS = ("lesson", "exercises", "stars", "quiz", "time left")


def board(rows: tuple[LessonRow, ...]) -> str:
    """The board as HTML; every name in it is escaped."""
    here = next_lesson(rows)
    # JupyterLab gives each column the same width, and five boxes are wider than that
    style = "table-layout:auto;border-collapse:collapse;width:100%;max-width:64em;margin:8px 0"
    head = "".join(f'<th style="{CELL}">{name}</th>' for name in HEADS)
    return "\n".join(
        [
            '<div class="course-board" style="line-height:1.5">',
            _top(rows, here),
            f'<table style="{style}">',
            f"<tr>{head}</tr>",
            *(_lesson(row, row is here) for row in rows),
            "</table>",
            "</div>",
        ]
    )


def _top(rows: tuple[LessonRow, ...], here: LessonRow | None) -> str:
    """How far, as a number and as a bar; what was tried last; where to go on."""
    exercises = [row for lesson in rows for row in lesson.exercises]
    passed = sum(row.status == "passed" for row in exercises)
    share = 100 * passed // max(len(exercises), 1)
    bar = (
        '<div aria-hidden="true" style="height:8px;max-width:30em;border-radius:4px;margin:4px 0;'
        f'border:{LINE}"><div style="height:8px;border-radius:4px;width:{share}%;'
        f'background:{COLOURS["passed"]}"></div></div>'
    )
    parts = [f"<div><strong>{summary(rows)}</strong></div>", bar]
    last = last_tried(rows)
    if last is not None:
        lesson = next(row for row in rows if row.number == last.lesson)
        name = f"{html_text(last.title)} ({html.escape(last.id)})"
        parts.append(f"<div>Last tried: {_link(lesson, name)}, {last.status}</div>")
    if here is not None:
        name = f"lesson {here.number}"
        parts.append(f"<div>{SIGNS['told']} Go on here: {_link(here, name)}</div>")
    elif rows:
        parts.append("<div>Every exercise is passed, and every quiz answered.</div>")
    return "\n".join(parts)


def _lesson(row: LessonRow, is_here: bool) -> str:
    sign = f"{SIGNS['told']} " if is_here else ""
    title = f"{row.number} {html_text(row.title)}" if row.title else f"Lesson {row.number}"
    earned = sum(one.stars for one in row.exercises if one.status == "passed")
    cells = (
        f"{sign}{_link(row, title)}",
        _exercises(row.exercises) if row.exercises else "none",
        f"{earned} of {sum(one.stars for one in row.exercises)} ★" if row.exercises else "",
        _quiz(row.quiz) if row.quiz else "",
        f"{row.minutes_left} min" if row.minutes_left else f"{SIGNS['passed']} none",
    )
    styles = (CELL, *[f"{CELL};white-space:nowrap"] * (len(cells) - 1))
    shown = "".join(
        f'<td style="{style}">{cell}</td>' for style, cell in zip(styles, cells, strict=True)
    )
    return f'<tr data-lesson="{row.number}" style="{HERE if is_here else ""}">{shown}</tr>'


def _quiz(quiz: QuizRow) -> str:
    return quiz_story(quiz) if quiz.answered else f"{quiz.questions} questions"


def _exercises(rows: tuple[ExerciseRow, ...]) -> str:
    """A box for each, and behind them their names."""
    passed = sum(row.status == "passed" for row in rows)
    boxes = "".join(_box(row) for row in rows)
    names = "".join(
        f"<li>{SIGNS[row.status]} {html_text(row.title)} {stars(row)} {row.minutes} min: "
        f"{story(row)}</li>"
        for row in rows
    )
    return (
        f"<details><summary>{boxes} {passed} of {len(rows)}</summary>"
        f'<ul style="list-style:none;margin:4px 0;padding:0">{names}</ul></details>'
    )


def _box(row: ExerciseRow) -> str:
    style = BOX.format(colour=COLOURS[row.status])
    hover = html.escape(f"{row.title}: {row.status}")
    return f'<span title="{hover}" style="{style}">{SIGNS[row.status]}</span>'


def _link(row: LessonRow, shown: str) -> str:
    """To the lesson's notebook, which lies beside this one."""
    if row.notebook is None:
        return shown
    return f'<a href="{html.escape(row.notebook)}">{shown}</a>'
