"""What is read from a cell's syntax."""

from __future__ import annotations

import ast

import pytest

from tools.cell_syntax import asserts, calls_with, draws, leaves_open, shows_something


@pytest.mark.parametrize(
    ("source", "shows"),
    [
        ("x", True),
        ("a + 1", True),
        ("print(1)\nx = 2", True),
        ("plt.show()", True),
        ("display(x)", True),
        ("x = 1", False),
        ("function(x)", False),  # what it gives back cannot be known
        ("assert x", False),
        ("def f():\n    print(1)", False),
        ("", False),
    ],
)
def test_whether_an_output_is_due(source: str, shows: bool) -> None:
    assert shows_something(source) is shows


@pytest.mark.parametrize(
    ("source", "seen"),
    [("plt.show()", True), ("lens.heatmap(w)", True), ("show()", False), ("heatmap", False)],
)
def test_whether_a_picture_is_drawn(source: str, seen: bool) -> None:
    assert draws(ast.parse(source)) is seen


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("assert x", True),
        ("for i in x:\n    assert i", True),
        ("torch.testing.assert_close(a, b)", True),
        ("insert_close(a, b)", False),
        ("print('assert')", False),
    ],
)
def test_whether_something_is_asserted(source: str, seen: bool) -> None:
    assert asserts(ast.parse(source)) is seen


@pytest.mark.parametrize(
    ("source", "is_open"),
    [
        ("def f():\n    raise NotImplementedError", True),
        ("def f():\n    raise NotImplementedError('yours')", True),
        ("answer = None", True),
        ("answer = 3", False),
        ("def f():\n    return None", False),
        ("raise ValueError", False),
    ],
)
def test_whether_an_exercise_is_open(source: str, is_open: bool) -> None:
    assert leaves_open(ast.parse(source)) is is_open


@pytest.mark.parametrize(
    ("source", "called"),
    [
        ("x = check('02.a', x)", True),
        ("check('02.b', x)", False),
        ("recheck('02.a')", False),
        ("check(x, '02.a')", False),
        ("check()", False),
    ],
)
def test_calls_by_their_first_argument(source: str, called: bool) -> None:
    assert calls_with(ast.parse(source), "check", "02.a") is called
