"""Kinds of predictions, on texts small enough to sort by eye."""

import pytest

from course_lib.data.corpora import load_corpus
from course_lib.lens.predictions import kinds_of_predictions
from course_lib.runtime import CourseError


def kinds_in(text: str) -> list[str]:
    masks = kinds_of_predictions([text])
    places = range(len(text) - 1)
    found = [[kind for kind, where in masks.items() if where[0, place]] for place in places]
    assert all(len(kinds) == 1 for kinds in found), "each character has one kind"
    return [kinds[0] for kinds in found]


def test_shakespeare():
    assert kinds_in("no.\n\nKATE:\nI am't\n") == [
        "inside a word",  # o
        "punctuation",
        "end of line",
        "blank line",
        "first letter",  # K
        *["capital after capital"] * 3,
        "punctuation",
        "end of line",
        "first letter",  # I
        "space",
        "first letter",
        "inside a word",
        "punctuation",  # '
        "inside a word",
        "end of line",
    ]


def test_tang():
    assert kinds_in("。\n床前看月光，疑是。\n") == [
        "end of line",
        *["inside a verse"] * 4,
        "end of half-line",
        "punctuation",
        "inside a verse",
        "end of couplet",
        "punctuation",
        "end of line",
    ]


def test_several_texts_keep_their_rows():
    masks = kinds_of_predictions(["a b", "ab\n"])
    assert {kind: where.tolist() for kind, where in masks.items()} == {
        "end of line": [[False, False], [False, True]],
        "first letter": [[False, True], [False, False]],
        "inside a word": [[False, False], [True, False]],
        "space": [[True, False], [False, False]],
    }


@pytest.mark.parametrize("texts", [[], ["ab", "abc"], ["a"]])
def test_other_texts_are_refused(texts):
    with pytest.raises(CourseError, match="texts of one length, 2 or more"):
        kinds_of_predictions(texts)


@pytest.mark.parametrize("name", ["shakespeare", "tang"])
def test_a_corpus_has_the_kinds_of_its_language(name):
    corpus = load_corpus(name)
    found = set(kinds_of_predictions([corpus.tokenizer.decode(corpus.validation[:5000])]))
    shared = {"blank line", "end of line", "punctuation"}
    english = {"space", "first letter", "inside a word", "capital after capital"}
    chinese = {"inside a verse", "end of half-line", "end of couplet"}
    assert found == shared | (english if name == "shakespeare" else chinese)
