"""Lesson 16's table: models of a seed differ in what their row says, and are measured."""

import math

import pytest
import torch

from benchmarks.lesson_tables.experts import EXPERTS, likeness, look_at, newborn, train
from course_lib.data.corpora import load_corpus
from course_lib.model.experts import Router, count_active_parameters
from course_lib.model.gpt import count_parameters


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("shakespeare")


def test_models_of_a_seed_differ_in_weight_and_freezing_alone(corpus):
    free, frozen, weighted = (
        newborn(corpus, *row, seed=1) for row in ((0.0, True), (0.0, False), (0.05, True))
    )
    for name, tensor in free.state_dict().items():
        assert torch.equal(tensor, frozen.state_dict()[name])
        assert torch.equal(tensor, weighted.state_dict()[name])
    assert (free.config.balance_weight, weighted.config.balance_weight) == (0.0, 0.05)
    still = [name for name, p in frozen.named_parameters() if not p.requires_grad]
    assert still == [f"blocks.{i}.feed_forward.router.scores.weight" for i in (0, 1)]
    for module in free.modules():
        if isinstance(module, Router):
            assert module.scores.weight.std().item() == pytest.approx(1, rel=0.1)


def test_the_plain_model_has_the_active_parameters_but_for_the_routers(corpus):
    mixed, plain = newborn(corpus, 0.0, True, 0), newborn(corpus, None, True, 0)
    assert count_active_parameters(mixed) == count_parameters(plain) + 2 * EXPERTS * 64


def test_what_is_seen_of_a_model(corpus):
    seen = look_at(newborn(corpus, 0.0, True, 0), corpus)
    assert [len(seen[what]) for what in ("largest", "dead", "alike")] == [2, 2, 2]
    assert all(1 / EXPERTS <= largest <= 1 for largest in seen["largest"])
    model = newborn(corpus, 0.0, True, 0)
    for module in model.modules():
        if isinstance(module, Router):
            torch.nn.init.zeros_(module.scores.weight)
    seen = look_at(model, corpus)
    assert seen["largest"] == [1, 1] and seen["dead"] == [EXPERTS - 1] * 2
    assert look_at(newborn(corpus, None, True, 0), corpus)["largest"] == []


def test_likeness_is_the_mean_cosine():
    x = torch.randn(7, 3)
    pairs = torch.nn.functional.cosine_similarity(x[:, None], x[None], dim=-1)
    assert likeness(x) == pytest.approx(pairs.mean().item(), abs=1e-6)


def test_a_few_steps_are_trained_and_looked_at(corpus):
    seen, loss = train(newborn(corpus, 0.05, True, 0), corpus, seed=0, steps=5)
    assert list(seen) == ["0", "5"] and loss < math.log(63)
