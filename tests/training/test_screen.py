"""What a training says of itself, for values that are easily mistaken."""

import io

import pytest

from course_lib.training.screen import summary

RESULT = {
    "val_loss": 1.5,
    "test_loss": None,
    "best_step": 20,
    "best_val_loss": 1.5,
    "train_seconds": 2.0,
    "tokens_per_second": 100.0,
}


@pytest.mark.parametrize(
    ("values", "lowest"),
    [
        ({}, None),
        ({"best_val_loss": 1.4}, "The lowest was 1.4000, at step 20: best/"),
        ({"val_loss": 0.0, "best_val_loss": 0.0}, None),  # a text of one character
        ({"val_loss": None}, "The lowest was 1.5000, at step 20: best/"),
        ({"best_step": None, "best_val_loss": None}, None),
        ({"val_loss": None, "best_step": None, "best_val_loss": None}, None),
    ],
)
def test_the_lowest_loss_is_named_where_it_is_not_the_last(values, lowest):
    lines = summary({**RESULT, **values}).splitlines()
    assert lines[1:] == ([lowest] if lowest else [])


def test_a_notice_has_a_line_of_its_own_beside_a_bar(monkeypatch):
    from tqdm import tqdm

    from course_lib.cli import _show_notice
    from course_lib.runtime import CourseNotice

    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with tqdm(total=3, file=stream) as bar:
        bar.update(1)
        _show_notice("the text is short", CourseNotice, "file", 1)
    assert any(line.strip(" \r") == "note: the text is short" for line in lines_of(stream))


def lines_of(stream: io.StringIO) -> list[str]:
    """Lines as a terminal has them: what a carriage return goes back to is written over."""
    return [line.rpartition("\r")[2] for line in stream.getvalue().split("\n")]
