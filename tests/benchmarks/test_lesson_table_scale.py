"""Lesson 03's table: the divisors are what they are called, and the file is complete."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from benchmarks.lesson_tables import scale
from course_lib.data.corpora import load_corpus
from course_lib.data.tables import load_table


@pytest.mark.parametrize("divisor", scale.DIVISORS.values(), ids=list(scale.DIVISORS))
def test_scores_are_divided_by_what_the_table_says(divisor):
    corpus = load_corpus("shakespeare")
    model = scale.newborn(corpus, divisor, scale.STARTS["entries of size 1"], seed=0)
    inputs = {}
    first = model.blocks[0].attention
    first.register_forward_pre_hook(lambda _, arguments: inputs.update(x=arguments[0]))
    weights = model(corpus.train[None, :11], return_weights=True)[1][0]
    query = inputs["x"] @ first.query.weight.T + first.query.bias
    key = inputs["x"] @ first.key.weight.T + first.key.bias
    scores = query @ key.mT / divisor
    hidden = torch.ones(11, 11).triu(1).bool()
    expected = scores.masked_fill(hidden, -math.inf).softmax(dim=-1)
    torch.testing.assert_close(weights[:, 0], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("start", "size"), [("entries of size 1", 1), ("entries of size 0.23", 0.23)]
)
def test_queries_start_at_the_size_that_the_table_says(start, size):
    corpus = load_corpus("shakespeare")
    model = scale.newborn(corpus, 1.0, scale.STARTS[start], seed=0)
    queries = []
    for block in model.blocks:
        block.attention.query.register_forward_hook(lambda _, __, query: queries.append(query))
    model(corpus.train[None, :64])
    factor = math.sqrt(scale.D_K)  # the module's own hook, with no scale, makes queries longer
    for query in queries:
        assert (query / factor).std().item() == pytest.approx(size, rel=0.15)


def test_a_seed_gives_one_loss_for_each_divisor_and_the_same_again():
    corpus = load_corpus("shakespeare")
    short = dataclasses.replace(corpus, validation=corpus.validation[:500])
    losses = scale.losses_of_seed(short, scale.STARTS["entries of size 1"], seed=1, steps=2)
    assert list(losses) == list(scale.DIVISORS)
    assert len(set(losses.values())) == 3 and all(3 < loss < 4.5 for loss in losses.values())
    assert losses == scale.losses_of_seed(short, scale.STARTS["entries of size 1"], seed=1, steps=2)


def test_the_shipped_table_is_complete():
    table = load_table("scale")
    assert table["seeds"] == list(scale.SEEDS)
    assert table["starts"] == scale.STARTS
    assert table["training"]["steps"] == scale.STEPS
    assert list(table["losses"]) == list(scale.STARTS)
    for half in table["losses"].values():
        assert list(half) == list(scale.DIVISORS)
        assert all(len(losses) == len(scale.SEEDS) for losses in half.values())
