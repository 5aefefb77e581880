"""Lesson 08's table of norm placements: the models differ in that alone, and train."""

import math

import pytest
import torch

from benchmarks.lesson_tables.norm_placement import final_loss, newborn
from course_lib.data.corpora import load_corpus
from course_lib.model.block import PostNormBlock


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("shakespeare")


def test_two_models_of_a_seed_differ_in_the_place_of_the_norm_alone(corpus):
    post, pre = (newborn(corpus, placement, 2, seed=3) for placement in ("post", "pre"))
    assert [type(block) is PostNormBlock for block in (*post.blocks, *pre.blocks)] == [
        True,
        True,
        False,
        False,
    ]
    numbers = post.state_dict()
    shared = [name for name in pre.state_dict() if name in numbers]
    assert all(torch.equal(pre.state_dict()[name], numbers[name]) for name in shared)
    assert len(shared) >= len(numbers) > 20


def test_embeddings_start_as_large_as_the_table_says(corpus):
    model = newborn(corpus, "post", 2, seed=0)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            assert module.weight.std().item() == pytest.approx(0.7, rel=0.05)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_few_steps_lower_the_loss_and_a_warm_up_slows_them(corpus, placement):
    untrained, trained, slowed = (
        final_loss(newborn(corpus, placement, 2, seed=0), corpus, rate, warmup, seed=0, steps=15)
        for rate, warmup in ((1e-6, 0), (2e-3, 0), (2e-3, 14))
    )
    assert math.isfinite(trained) and trained < slowed < untrained
