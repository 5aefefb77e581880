"""Lesson 08's table of feed-forward layers: each kind is what its name says, and trains."""

import math

import pytest
import torch

from benchmarks.lesson_tables.feed_forward_kinds import (
    INITIALISATIONS,
    KINDS,
    final_loss,
    newborn,
)
from course_lib.data.corpora import load_corpus
from course_lib.model.gpt import count_parameters
from course_lib.model.layers import RMSNorm


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("shakespeare")


def layer_of(corpus, kind):
    return newborn(corpus, kind, "xavier", seed=0).blocks[0].feed_forward


def test_the_kinds_that_are_compared_have_as_many_parameters(corpus):
    relu, gelu, swiglu, no_activation = (
        count_parameters(layer_of(corpus, kind))
        for kind in ("ReLU, width 256", "GELU, width 256", "SwiGLU, width 171", "no activation")
    )
    assert relu == gelu == no_activation and abs(swiglu / gelu - 1) < 0.01


def test_none_writes_nothing_and_no_activation_is_linear(corpus):
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    assert not layer_of(corpus, "none")(x).any()

    def curvature(kind):
        layer = layer_of(corpus, kind)
        return (layer(x) + layer(-x) - 2 * layer(torch.zeros_like(x))).abs().max()

    assert curvature("no activation") < 1e-5
    assert min(curvature(k) for k in KINDS if k not in ("none", "no activation")) > 0.01


def test_one_kind_has_the_other_norm(corpus):
    with_rms = [
        kind
        for kind in KINDS
        if isinstance(newborn(corpus, kind, "gpt2", 0).blocks[0].feed_forward_norm, RMSNorm)
    ]
    assert with_rms == ["GELU, width 256, RMSNorm"]


@pytest.mark.parametrize("initialisation", INITIALISATIONS)
def test_a_few_steps_give_the_same_finite_loss_twice(corpus, initialisation):
    losses = [
        final_loss(newborn(corpus, "SwiGLU, width 171", initialisation, 1), corpus, 1, steps=10)
        for _ in range(2)
    ]
    assert losses[0] == losses[1] and losses[0] < math.log(63)
