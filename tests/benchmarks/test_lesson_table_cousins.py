"""Lesson 09's table: what is hidden, what is asked for; and both experiments run and repeat."""

import pytest
import torch

from benchmarks.lesson_tables.cousins import (
    KINDS,
    TASKS,
    blanks,
    exact_answers,
    newborn,
    share_of_commonest,
    shares_found,
)
from course_lib.data.corpora import load_corpus


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("shakespeare")


@pytest.mark.parametrize("hidden", ["vowels", "15 % at random"])
def test_what_is_hidden_is_asked_for_and_nothing_else(corpus, hidden):
    read, asked = blanks(corpus, hidden, 64, torch.Generator().manual_seed(0))
    mask = corpus.tokenizer.vocab_size
    assert torch.equal(read == mask, asked != -100)
    share = (read == mask).float().mean().item()
    if hidden == "vowels":
        said = set(corpus.tokenizer.decode(asked[asked != -100]))
        assert said <= set("AEIOUaeiou") and {"a", "e", "i", "o", "u"} <= said
        assert not set(corpus.tokenizer.decode(read[read != mask])) & set("AEIOUaeiou")
    else:
        assert 0.12 < share < 0.18


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", ["vowels", "15 % at random"])
def test_ten_steps_give_the_same_share_twice(corpus, kind, hidden):
    def once():
        return shares_found(newborn(kind, corpus, "xavier", 1), corpus, hidden, 1, (5, 10))

    first, second = (once() for _ in range(2))
    assert first == second and len(first) == 2
    assert all(0 <= share <= 1 for share in first)


def test_the_commonest_vowel_is_e_a_third_of_all(corpus):
    assert 0.28 < share_of_commonest(corpus, "vowels") < 0.38


def test_the_tasks_are_what_they_are_called():
    letters = torch.tensor([[7, 5, 9]])
    results = {task: change(letters).tolist() for task, change in TASKS.items()}
    assert results == {"copy": [[7, 5, 9]], "reverse": [[9, 5, 7]], "sort": [[5, 7, 9]]}


def test_a_few_steps_of_the_t5_give_the_same_shares_twice():
    first, second = (exact_answers(2, (2, 4)) for _ in range(2))
    assert first == second and list(first) == list(TASKS)
    assert all(len(shares) == 2 for shares in first.values())
