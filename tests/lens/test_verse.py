"""Lines and columns of verse, on a poem that fits on paper."""

import pytest
import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.lens.verse import counterparts, in_closing_line
from course_lib.runtime import CourseError

POEM = "甲乙丙，丁戊己。\n\n子丑，寅卯。辰巳"
TOKENIZER = CharTokenizer("".join(sorted(set(POEM))))


def pairs(text: str) -> set[tuple[str, str]]:
    mask = counterparts(TOKENIZER.encode(text)[None], TOKENIZER)[0]
    return {(text[query], text[key]) for query, key in mask.nonzero().tolist()}


def test_each_character_looks_to_the_counterpart_of_the_next():
    assert pairs("甲乙丙，丁戊己。") == {("丁", "乙"), ("戊", "丙")}


def test_the_line_before_may_lie_in_the_poem_before_or_be_shorter():
    first, second = {("丁", "乙"), ("戊", "丙")}, {("子", "戊"), ("丑", "己")}
    assert pairs(POEM) == first | second | {("寅", "丑"), ("辰", "卯")}


def test_no_place_lies_after_its_query():
    mask = counterparts(TOKENIZER.encode(POEM)[None].expand(3, -1), TOKENIZER)
    assert mask.any() and not mask.triu().any()


def test_predictions_of_characters_in_closing_lines():
    tokens = TOKENIZER.encode(POEM)[None]
    chosen = in_closing_line(tokens, TOKENIZER)
    assert chosen.shape == (1, len(POEM) - 1)
    assert "".join(POEM[i + 1] for i in chosen[0].nonzero().flatten().tolist()) == "丁戊己寅卯"


def test_a_line_that_the_window_cuts_off_is_none():
    tokens = TOKENIZER.encode("甲乙，丙丁")[None]
    assert not in_closing_line(tokens, TOKENIZER).any()


def test_without_the_marks_there_are_no_lines():
    tokenizer = CharTokenizer("\nab")
    for function in (counterparts, in_closing_line):
        with pytest.raises(CourseError, match=r"lacks '，'.*find the lines"):
            function(torch.zeros(1, 3, dtype=torch.long), tokenizer)
