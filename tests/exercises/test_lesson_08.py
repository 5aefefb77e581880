"""Lesson 08's exercises against PyTorch and the library, and answers that were not foreseen."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from course_lib.exercises import quiz_of
from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_05 import MultiHeadAttention
from course_lib.exercises.lesson_08 import Block, FeedForward, LayerNorm
from course_lib.exercises.registry import find
from course_lib.model import attention, layers
from course_lib.model.block import PreNormBlock


def test_the_norm_is_torchs_and_the_librarys():
    x = 3 + 2 * torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    ours = LayerNorm(7)
    nn.init.normal_(ours.weight)
    nn.init.normal_(ours.bias)
    for other in (nn.LayerNorm(7), layers.LayerNorm(7)):
        other.load_state_dict(ours.state_dict())
        torch.testing.assert_close(ours(x), other(x))


def test_the_feed_forward_layer_is_the_librarys():
    x = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    ours, theirs = FeedForward(7, 11), layers.FeedForward(7, 11)
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x), theirs(x))


def test_the_block_is_the_librarys():
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    may_attend = torch.ones(5, 5).tril().bool()
    ours = Block(8, 2)
    theirs = PreNormBlock(
        attention.MultiHeadAttention(8, 2),
        layers.FeedForward(8, 32),
        layers.LayerNorm(8),
        layers.LayerNorm(8),
    )
    theirs.load_state_dict(ours.state_dict())
    torch.testing.assert_close(ours(x, may_attend), theirs(x, torch.arange(5), may_attend)[0])


def norm(forward):
    class LayerNorm(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(d_model))
            self.weight = nn.Parameter(torch.ones(d_model))

        def forward(self, x):
            return forward(x, self.weight, self.bias)

    return LayerNorm


def by_var_mean(x, weight, bias):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
    return torch.rsqrt(variance + 1e-5) * (x - mean) * weight + bias


def by_torch(x, weight, bias):
    return functional.layer_norm(x, weight.shape, weight, bias)


def by_moments(x, weight, bias):
    x = x - x.sum(-1, keepdim=True) / len(weight)
    return bias + weight * x / torch.sqrt(x.pow(2).sum(-1)[..., None] / len(weight) + 1e-5)


class FirstDefined(nn.Module):
    """Parts in another order, and a bend that is a module."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.activation = nn.GELU()
        self.output = nn.Linear(d_ff, d_model)
        self.hidden = nn.Linear(d_model, d_ff)

    def forward(self, x):
        return self.output(self.activation(self.hidden(x)))


class ByMatrices(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden, self.output = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        found = x @ self.hidden.weight.T + self.hidden.bias
        found = found * (1 + torch.erf(found / math.sqrt(2))) / 2
        return found @ self.output.weight.T + self.output.bias


def block(forward, **parts):
    class Block(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.feed_forward = parts.get("feed_forward", FeedForward)(d_model, 4 * d_model)
            self.attention = MultiHeadAttention(d_model, n_heads)
            self.feed_forward_norm = parts.get("norm", LayerNorm)(d_model)
            self.attention_norm = parts.get("norm", LayerNorm)(d_model)

        def forward(self, x, may_attend):
            return forward(self, x, may_attend)

    return Block


def in_one_line(b, x, may_attend):
    return (y := x + b.attention(b.attention_norm(x), may_attend)) + b.feed_forward(
        b.feed_forward_norm(y)
    )


def by_a_list(b, x, may_attend):
    for part in (
        lambda x: b.attention(b.attention_norm(x), may_attend),
        lambda x: b.feed_forward(b.feed_forward_norm(x)),
    ):
        x = torch.add(part(x), x)
    return x


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("08.norm", norm(by_var_mean)),
        ("08.norm", norm(by_torch)),
        ("08.norm", norm(by_moments)),
        ("08.feed_forward", FirstDefined),
        ("08.feed_forward", ByMatrices),
        ("08.width", 2048),
        ("08.width", 768 * 8 / 3),
        ("08.block", block(in_one_line)),
        ("08.block", block(by_a_list)),
        ("08.block", block(in_one_line, norm=nn.LayerNorm, feed_forward=layers.FeedForward)),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


def right(x, weight, bias):
    return by_var_mean(x, weight, bias)


def detached(x, weight, bias):
    return right(x.detach(), weight, bias)


def weight_without_gradient(x, weight, bias):
    return right(x, weight.data, bias)


def statistics_without_gradient(x, weight, bias):
    variance, mean = torch.var_mean(x.detach(), dim=-1, keepdim=True, correction=0)
    return (x - mean) / (variance + 1e-5).sqrt() * weight + bias


def mean_and_median(x, weight, bias):
    return x - x.median(dim=-1, keepdim=True).values + bias


def by_largest(x, weight, bias):
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / centred.abs().amax(dim=-1, keepdim=True) * weight + bias


def to_unit_length(x, weight, bias):
    return functional.normalize(x - x.mean(dim=-1, keepdim=True), dim=-1) * weight + bias


class Twice(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden, self.output = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return 2 * self.output(functional.gelu(self.hidden(x)))


class Dropped(Twice):
    def forward(self, x):
        return self.output(functional.dropout(functional.gelu(self.hidden(x)), 0.5))


class Shifted(Twice):
    def forward(self, x):
        return self.output(functional.gelu(self.hidden(x)).roll(1, dims=0))


class LeakyBend(Twice):
    def forward(self, x):
        return self.output(functional.leaky_relu(self.hidden(x)))


class Exact(nn.Module):
    """No bias in the second matrix."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden, self.output = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model, bias=False)


def doubled_stream(b, x, may_attend):
    return x + in_one_line(b, x, may_attend)


def averaged(b, x, may_attend):
    y = (x + b.attention(b.attention_norm(x), may_attend)) / 2
    return (y + b.feed_forward(b.feed_forward_norm(y))) / 2


def detached_stream(b, x, may_attend):
    return in_one_line(b, x.detach(), may_attend)


def subtracted(b, x, may_attend):
    y = x - b.attention(b.attention_norm(x), may_attend)
    return y - b.feed_forward(b.feed_forward_norm(y))


def norms_alone(b, x, may_attend):
    return x + b.attention_norm(x) + b.feed_forward_norm(x)


def half_post(b, x, may_attend):
    y = x + b.attention(b.attention_norm(x), may_attend)
    return b.feed_forward_norm(y + b.feed_forward(y))


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("08.norm", norm(detached), "argument `x`"),
        ("08.norm", norm(weight_without_gradient), "argument `weight`"),
        ("08.norm", norm(statistics_without_gradient), "argument `x`"),
        ("08.norm", norm(mean_and_median), "differ from the expected"),
        ("08.norm", norm(by_largest), "differ from the expected"),
        ("08.norm", norm(to_unit_length), "differ from the expected"),
        ("08.norm", nn.Linear, "missing 1 required positional argument"),
        ("08.norm", dict, "is not iterable"),
        ("08.feed_forward", Twice, "differ from the expected"),
        ("08.feed_forward", Dropped, "differ from the expected"),
        ("08.feed_forward", Shifted, "differ from the expected"),
        ("08.feed_forward", LeakyBend, "differ from the expected"),
        ("08.feed_forward", Exact, "Use these names and shapes"),
        ("08.width", 2049, "not"),
        ("08.width", 2730.0, "not"),
        ("08.block", block(doubled_stream), "differ from the expected"),
        ("08.block", block(averaged), "differ from the expected"),
        ("08.block", block(detached_stream), "gradient"),
        ("08.block", block(subtracted), "differ from the expected"),
        ("08.block", block(norms_alone), "differ from the expected"),
        ("08.block", block(half_post), "differ from the expected"),
        ("08.block", Twice, "attention_norm.weight"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None, verdict
    assert words in verdict.message, verdict


def test_the_quiz_speaks_of_the_norms_as_they_are():
    """Its claims about a shift by 5, which are easily turned round."""
    x = torch.tensor([[1.0, 3.0, 5.0, 7.0]])
    assert torch.allclose(LayerNorm(4)(x + 5), LayerNorm(4)(x), atol=1e-5)
    assert not torch.allclose(layers.RMSNorm(4)(x + 5), layers.RMSNorm(4)(x), atol=1e-2)
    assert len(quiz_of("08")) == 6
