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
        ("08.norm", nn.Linear, "missing 1 required positional argument"),
        ("08.norm", dict, "is not iterable"),
        ("08.feed_forward", Twice, "differ from the expected"),
        ("08.feed_forward", Dropped, "differ from the expected"),
        ("08.feed_forward", Shifted, "differ from the expected"),
        ("08.feed_forward", LeakyBend, "differ from the expected"),
        ("08.feed_forward", Exact, "misses `output.bias (3,)`. Use the names and shapes"),
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


def centred(x):
    return x - x.mean(-1, keepdim=True)


def to_unit_length(x, weight, bias):
    return functional.normalize(centred(x), dim=-1) * weight + bias


def by_the_length(x, weight, bias):
    return weight * centred(x) / (1e-5 + centred(x).square().sum(-1, keepdim=True).sqrt()) + bias


def by_std(x, weight, bias):
    return bias + weight * centred(x) / torch.std(x, dim=-1, keepdim=True)


def by_root_of_std(x, weight, bias):
    return weight * centred(x) / torch.sqrt(x.std(-1, keepdim=True, correction=0) + 1e-5) + bias


def by_root_of_sample_std(x, weight, bias):
    return weight * centred(x) / torch.sqrt(x.std(-1, keepdim=True) + 1e-5) + bias


def with_a_tiny_epsilon(x, weight, bias):
    return functional.layer_norm(x, weight.shape, weight, bias, eps=1e-8)


class OneHead(block(in_one_line)):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, 1)


class Tied(block(in_one_line)):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.feed_forward_norm = self.attention_norm


@pytest.mark.parametrize(
    ("exercise", "answer", "name", "words"),
    [
        ("08.norm", norm(to_unit_length), "length", "√d_model"),
        ("08.norm", norm(by_the_length), "length, ε outside the root", "√d_model"),
        ("08.norm", norm(by_std), "sample deviation, no ε", "`correction=0`"),
        ("08.norm", norm(by_root_of_std), "root of std", "a root already"),
        ("08.norm", norm(by_root_of_sample_std), "root of sample std", "a root already"),
        ("08.norm", norm(with_a_tiny_epsilon), "ε = 1e-08", "Your ε is 1e-08"),
        ("08.block", OneHead, "one head", "`n_heads` plays no part"),
        ("08.block", Tied, "one norm under two names", "two, each made by its own"),
    ],
)
def test_a_likely_first_try_is_explained(exercise, answer, name, words):
    verdict = examine(find(exercise), answer)
    assert verdict.misconception == name and words in verdict.message, verdict


class Buffers(norm(by_var_mean)):
    held = ("weight", "bias")

    def __init__(self, d_model):
        super().__init__(d_model)
        for part in self.held:
            tensor = getattr(self, part).data
            delattr(self, part)
            self.register_buffer(part, tensor)


class BiasABuffer(Buffers):
    held = ("bias",)


class FrozenNorm(norm(by_var_mean)):
    def __init__(self, d_model):
        super().__init__(d_model)
        self.requires_grad_(False)


class FrozenHidden(ByMatrices):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        self.hidden.requires_grad_(False)


class ThresholdABuffer(ByMatrices):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        del self.hidden.bias
        self.hidden.register_buffer("bias", torch.zeros(d_ff))


@pytest.mark.parametrize(
    ("exercise", "answer", "parts"),
    [
        ("08.norm", Buffers, "`weight`, `bias`"),
        ("08.norm", BiasABuffer, "`bias`"),
        ("08.norm", FrozenNorm, "`weight`, `bias`"),
        ("08.feed_forward", FrozenHidden, "`hidden.weight`, `hidden.bias`"),
        ("08.feed_forward", ThresholdABuffer, "`hidden.bias`"),
        ("08.block", block(in_one_line, norm=FrozenNorm), "`attention_norm.weight`, "),
        ("08.block", block(in_one_line, norm=BiasABuffer), "`attention_norm.bias`, "),
        ("08.block", block(in_one_line, feed_forward=FrozenHidden), "`feed_forward.hidden.weight`"),
    ],
)
def test_parts_that_would_never_learn_are_refused(exercise, answer, parts):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet", verdict
    assert f"no parameter that learns: {parts}" in verdict.message, verdict


class WithoutGradient(ByMatrices):
    def forward(self, x):
        bent = functional.gelu(self.hidden(x))
        return functional.linear(bent, self.output.weight.data, self.output.bias)


@pytest.mark.parametrize(
    ("exercise", "answer", "part"),
    [
        ("08.feed_forward", WithoutGradient, "output.weight"),
        (
            "08.block",
            block(in_one_line, norm=norm(weight_without_gradient)),
            "attention_norm.weight",
        ),
        (
            "08.block",
            block(in_one_line, feed_forward=WithoutGradient),
            "feed_forward.output.weight",
        ),
    ],
)
def test_a_parameter_that_no_gradient_reaches_is_named(exercise, answer, part):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.reason == "gradient", verdict
    assert f"`parameters.{part}`" in verdict.message, verdict


class Renamed(nn.LayerNorm):
    pass


@pytest.mark.parametrize("answer", [nn.LayerNorm, Renamed])
def test_pytorchs_norm_under_another_name_is_nothing_learned(answer):
    verdict = examine(find("08.norm"), answer)
    assert verdict.status == "not yet" and "nothing learned" in verdict.message, verdict


class HalfPlain(norm(by_var_mean)):
    def __init__(self, d_model):
        super().__init__(d_model)
        del self.weight
        self.weight = torch.ones(d_model)


def test_a_message_names_only_what_is_wrong():
    lacking = examine(find("08.norm"), HalfPlain).message
    assert "misses `weight (7,)`. Use" in lacking and "does not know" not in lacking, lacking
    strange = examine(find("08.block"), block(in_one_line, norm=WithAGate)).message
    assert "the check does not know `" in strange and "`attention_norm.gate (1,)`" in strange
    assert "misses" not in strange, strange


class WithAGate(norm(by_var_mean)):
    def __init__(self, d_model):
        super().__init__(d_model)
        self.gate = nn.Parameter(torch.ones(1))


def test_a_check_leaves_the_notebooks_random_numbers_alone():
    before = torch.get_rng_state()
    for exercise in ("08.norm", "08.feed_forward", "08.block"):
        find(exercise).fresh_cases()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_quiz_speaks_of_the_norms_as_they_are():
    """Its claims about a shift by 5, which are easily turned round."""
    x = torch.tensor([[1.0, 3.0, 5.0, 7.0]])
    assert torch.allclose(LayerNorm(4)(x + 5), LayerNorm(4)(x), atol=1e-5)
    assert not torch.allclose(layers.RMSNorm(4)(x + 5), layers.RMSNorm(4)(x), atol=1e-2)
    assert len(quiz_of("08")) == 6
