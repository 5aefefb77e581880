"""Lesson 05's checks: the solution is the library's layer, and other right ways pass."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from course_lib.exercises import lesson_05
from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_05 import MultiHeadAttention, merge_heads, split_heads
from course_lib.exercises.registry import find
from course_lib.model import attention as library


@pytest.mark.parametrize(("d_model", "n_heads"), [(21, 3), (10, 2), (7, 1), (5, 5)])
def test_the_solution_is_the_library_s_layer(d_model, n_heads):
    torch.manual_seed(0)
    x, places = torch.randn(2, 11, d_model), torch.arange(11)
    may_attend = library.causal_mask(places, places)
    ours, theirs = (
        MultiHeadAttention(d_model, n_heads),
        library.MultiHeadAttention(d_model, n_heads),
    )
    theirs.load_state_dict(ours.state_dict())
    assert torch.allclose(ours(x, may_attend), theirs(x, places, may_attend)[0], atol=1e-6)


def test_splitting_is_slicing_and_merging_undoes_it():
    x = torch.arange(2 * 5 * 21.0).view(2, 5, 21)
    heads = split_heads(x, 3)
    for head in range(3):
        assert torch.equal(heads[:, head], x[..., 7 * head : 7 * head + 7])
    assert torch.equal(merge_heads(heads), x)


def test_a_silenced_head_is_missing_from_the_sum_over_heads():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(21, 3), torch.randn(2, 5, 21)
    every = torch.ones(5, 5, dtype=torch.bool)
    added = [
        layer(x, every) - lesson_05.without_head(layer, head, 3)(x, every) for head in range(3)
    ]
    assert torch.allclose(sum(added) + layer.output.bias, layer(x, every), atol=1e-6)


# other right ways


def stacked(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def permuted(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).permute(0, 2, 1, 3).contiguous()


def sliced(x, n_heads):
    width = x.shape[2] // n_heads
    pieces = [x[:, :, head * width :][:, :, :width].unsqueeze(1) for head in range(n_heads)]
    return torch.cat(pieces, dim=1)


def concatenated(heads):
    return torch.cat(heads.unbind(dim=1), dim=-1)


def reshaped(heads):
    batch, n_heads, position, d_head = heads.shape
    return heads.permute(0, 2, 1, 3).contiguous().view(batch, position, n_heads * d_head)


class Looped(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_head = d_model // n_heads
        for name in ("output", "value", "key", "query"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, x, may_attend):
        queries, keys, values = (
            part(x).split(self.d_head, dim=-1) for part in (self.query, self.key, self.value)
        )
        found = []
        for query, key, value in zip(queries, keys, values, strict=True):
            scores = query @ key.mT / math.sqrt(self.d_head)
            found.append(scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1) @ value)
        return self.output(torch.cat(found, dim=-1))


class Fused(MultiHeadAttention):
    def forward(self, x, may_attend):
        parts = (stacked(part(x), self.n_heads) for part in (self.query, self.key, self.value))
        return self.output(concatenated(scaled_dot_product_attention(*parts, attn_mask=may_attend)))


def without_values(layer, head, n_heads):
    silenced = copy.deepcopy(layer)
    width = layer.value.out_features // n_heads
    for parameter in (silenced.value.weight, silenced.value.bias):
        parameter.data[head * width : (head + 1) * width] = 0
    return silenced


def by_a_mask(layer, head, n_heads):
    silenced = copy.deepcopy(layer)
    width = layer.output.in_features // n_heads
    kept = (torch.arange(layer.output.in_features) // width != head).float()
    silenced.output.weight = nn.Parameter(silenced.output.weight.detach() * kept)
    return silenced


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("05.split", stacked),
        ("05.split", permuted),
        ("05.split", sliced),
        ("05.merge", concatenated),
        ("05.merge", reshaped),
        ("05.heads", Looped),
        ("05.heads", Fused),
        ("05.count", sum(p.numel() for p in MultiHeadAttention(512, 8).parameters())),
        ("05.ablate", without_values),
        ("05.ablate", by_a_mask),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


# wrong ways that no misconception foresees


class Variant(MultiHeadAttention):
    """The solution; each wrong way below changes one thing."""

    split, merge = staticmethod(split_heads), staticmethod(merge_heads)

    def forward(self, x, may_attend):
        parts = [self.split(part(x), self.n_heads) for part in (self.query, self.key, self.value)]
        return self.output(self.merge(self.attend(*parts, may_attend)))

    def attend(self, query, key, value, may_attend):
        return library.attention(query, key, value, may_attend)[0]


class Detached(Variant):
    def attend(self, query, key, value, may_attend):
        return super().attend(query.detach(), key, value, may_attend)


class Unscaled(Variant):
    def attend(self, query, key, value, may_attend):
        return super().attend(query * math.sqrt(query.shape[-1]), key, value, may_attend)


class ScaledTwice(Variant):
    def attend(self, query, key, value, may_attend):
        return super().attend(query, key / math.sqrt(key.shape[-1]), value, may_attend)


class Summed(Variant):
    merge = staticmethod(lambda heads: heads.sum(dim=1))


def cut_then_turned(x, n_heads):
    return x.view(x.shape[0], n_heads, x.shape[1], -1).transpose(1, 2)


def keys_alike(layer, head, n_heads):
    silenced = copy.deepcopy(layer)
    width = layer.key.out_features // n_heads
    silenced.key.weight.data[head * width : (head + 1) * width] = 0
    return silenced


class MaskedAfterwards(Variant):
    def attend(self, query, key, value, may_attend):
        return (library.attention(query, key, value)[1] * may_attend) @ value


class HeadsReversed(Variant):
    merge = staticmethod(lambda heads: merge_heads(heads.flip(1)))


class WithoutBias(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.query, self.key, self.value, self.output = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )


class AHeadAList(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        width = d_model // n_heads
        self.heads = nn.ModuleList(nn.Linear(d_model, width) for _ in range(3 * n_heads))


def filled_up(x, n_heads):
    return nn.functional.pad(split_heads(x, n_heads), (0, 1))


def three_heads(x, n_heads):
    return split_heads(x, 3)


def reversed_heads(x, n_heads):
    return split_heads(x, n_heads).flip(1)


def last_head(layer, head, n_heads):
    return lesson_05.without_head(layer, n_heads - 1, n_heads)


def gone(layer, head, n_heads):
    lesson_05.without_head(layer, head, n_heads)


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("05.split", filled_up, "has shape"),
        ("05.split", three_heads, "invalid for input of size"),
        ("05.split", reversed_heads, "entries"),
        ("05.split", lambda x: x, "takes 1 positional argument"),
        ("05.merge", lambda heads: heads.transpose(1, 2).flatten(2).detach(), "no gradient"),
        ("05.merge", lambda heads: merge_heads(heads.flip(1)), "entries"),
        ("05.heads", Variant(7, 1), "Hand in the class"),
        ("05.heads", Detached, "gradient with respect to the argument"),
        ("05.heads", Unscaled, "entries"),
        ("05.heads", MaskedAfterwards, "entries"),
        ("05.heads", HeadsReversed, "entries"),
        ("05.heads", WithoutBias, "your layer has the parameters `query.weight (21, 21)`, `key"),
        ("05.heads", AHeadAList, "four `nn.Linear(d_model, d_model)`"),
        ("05.count", 1_050_625, "is not the value asked for"),
        ("05.count", 1_050_624.0, "whole number"),
        ("05.ablate", last_head, "entries"),
        ("05.ablate", gone, "is a `return` missing?"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words in verdict.message, verdict


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("05.split", cut_then_turned, "Two faults"),
        ("05.heads", ScaledTwice, "divided by √d_head twice"),
        ("05.heads", Summed, "You average or add up the heads"),
        ("05.ablate", keys_alike, "all scores of a row are equal"),
    ],
)
def test_a_wrong_way_that_was_foreseen_is_told_in_words_that_fit(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.misconception and words in verdict.message, verdict


@pytest.mark.parametrize(
    ("exercise", "answer", "shown"),
    [
        ("05.split", lambda x, n_heads: x, "x (2, 5, 21), n_heads=3"),
        ("05.heads", AHeadAList, "d_model=21, n_heads=3, x (2, 5, 21), may_attend causal_mask(5)"),
        ("05.ablate", lambda layer: layer, "a layer of d_model=21, head=0, n_heads=3"),
    ],
)
def test_a_case_is_shown_as_the_answer_meets_it(exercise, answer, shown):
    assert examine(find(exercise), answer).facts[-1].endswith(f", with {shown}.")
