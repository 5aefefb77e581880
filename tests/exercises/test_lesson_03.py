"""Lesson 03's checks: other right ways pass, unforeseen wrong ways are told what differs."""

import math

import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find


def entropy_by_distribution(weights):
    return torch.distributions.Categorical(probs=weights).entropy()


def entropy_with_a_tiny_number(weights):
    return (-weights * (weights + 1e-12).log()).sum(-1)


def entropy_without_nan(weights):
    return torch.nan_to_num(-weights * weights.log(), nan=0.0).sum(dim=-1)


def softmax_by_logarithm(scores):
    return torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))


def softmax_by_sorting(scores):
    largest = scores.sort(dim=-1, descending=True).values[..., :1]
    numbers = torch.exp(scores - largest)
    return numbers / numbers.sum(-1)[..., None]


def softmax_a_little_below(scores):
    """Any number near the largest will do."""
    numbers = (scores - scores.amax(-1, keepdim=True).detach() + 3).exp()
    return numbers / numbers.sum(-1, keepdim=True)


def softmax_by_differences(scores):
    """One over the sum of what each key weighs beside this one."""
    return 1 / (scores[..., None, :] - scores[..., :, None]).exp().sum(dim=-1)


def both_scaled(query, key, temperature):
    root = query.shape[-1] ** 0.25
    return torch.softmax((query / root) @ (key / root).mT / temperature, dim=-1)


def keys_scaled(query, key, temperature):
    key = key / query.size(-1) ** 0.5
    return torch.einsum("...qd,...kd->...qk", query, key / temperature).softmax(-1)


def in_single_precision(query, key, temperature):
    dtype = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(dtype) @ key.to(dtype).transpose(-1, -2)
    return (scores / temperature / math.sqrt(key.shape[-1])).softmax(-1)


def by_torch(query, key, temperature):
    value = torch.eye(key.shape[-2], dtype=query.dtype)  # then the output is the weights
    scale = 1 / math.sqrt(query.shape[-1]) / temperature
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale)


def sharpened_weights(query, key, temperature):
    """p^(1/T), made shares again, is the softmax at temperature T."""
    logarithms = ((query / math.sqrt(query.shape[-1])) @ key.mT).log_softmax(-1)
    return (logarithms / temperature).softmax(-1)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("03.spread", 30),
        ("03.spread", 30.0),
        ("03.spread", 5 * 3 * 2),
        ("03.entropy", entropy_by_distribution),
        ("03.entropy", entropy_with_a_tiny_number),
        ("03.entropy", lambda weights: torch.special.entr(weights).sum(-1)),
        ("03.entropy", lambda weights: -torch.xlogy(weights, weights).sum(-1)),
        ("03.entropy", lambda w: -(w * w.clamp_min(1e-9).log()).sum(-1)),
        ("03.entropy", entropy_without_nan),
        ("03.softmax", lambda scores: scores.softmax(-1)),
        ("03.softmax", softmax_by_logarithm),
        ("03.softmax", softmax_by_sorting),
        ("03.softmax", softmax_a_little_below),
        ("03.softmax", softmax_by_differences),
        ("03.scale", both_scaled),
        ("03.scale", keys_scaled),
        ("03.scale", in_single_precision),
        ("03.scale", sharpened_weights),
        ("03.scale", by_torch),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


def half_the_keys(weights):
    half = weights[..., : weights.shape[-1] // 2]
    return torch.special.entr(half).sum(-1)


def rounded_up(scores):
    return (scores - scores.amax(-1, keepdim=True)).round().softmax(-1)


def a_constant_subtracted(scores):
    numbers = (scores - 100).exp()
    return numbers / numbers.sum(dim=-1, keepdim=True)


def powers_of_weights(query, key, temperature):
    scores = (query / math.sqrt(query.shape[-1])) @ key.mT
    powers = scores.softmax(-1).pow(1 / temperature)
    return torch.nn.functional.normalize(powers, p=1, dim=-1)


def scaled(query, key, temperature):
    return (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.mT


def softmax_of_the_second_axis(scores):
    numbers = (scores - scores.amax(1, keepdim=True)).exp()
    return numbers / numbers.sum(1, keepdim=True)


def causal(query, key, temperature):
    root = math.sqrt(query.shape[-1])
    return ((query / root) @ key.mT / temperature).tril().softmax(-1)


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("03.spread", 29.0, "is not the value asked for"),
        ("03.spread", "30", "expected"),
        ("03.spread", torch.tensor(30.0), "expected"),
        ("03.entropy", half_the_keys, "differ"),
        ("03.entropy", lambda weights: weights.var(dim=-1), "differ"),
        ("03.entropy", lambda weights: -weights.max(dim=-1).values.log(), "differ"),
        ("03.softmax", rounded_up, "differ"),
        (
            "03.softmax",
            lambda scores: (scores - 100).exp() / (scores - 100).exp().sum(-1, True),
            "NaN",
        ),
        ("03.softmax", lambda scores: scores.softmax(-1).detach(), "gradient"),
        ("03.softmax", lambda scores: (scores - scores.amax(-1, True)).sigmoid(), "differ"),
        ("03.scale", causal, "differ"),
        ("03.scale", lambda query, key, t: (query @ key).softmax(-1), "stopped"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words.lower() in verdict.message.lower(), verdict


@pytest.mark.parametrize(
    ("exercise", "answer", "misconception"),
    [
        # the usual way of writing it, product first, is told the graver mistake first
        ("03.scale", lambda q, k, t: (q @ k.mT / (q.shape[-1] * t)).softmax(-1), "divided by d_k"),
        ("03.scale", lambda q, k, t: (q @ k.mT / t).softmax(-1), "no scale"),
        (
            "03.scale",
            lambda q, k, t: (q @ k.mT * t / math.sqrt(k.shape[-1])).softmax(-1),
            "multiplied by the temperature",
        ),
        (
            "03.scale",
            lambda q, k, t: (q @ k.mT / math.sqrt(k.shape[-1]) / t).softmax(-1),
            "scaled after the product",
        ),
        # a batch has another axis 0 and 1
        ("03.softmax", softmax_of_the_second_axis, "along the second axis"),
        ("03.entropy", lambda w: torch.special.entr(w).sum(1), "over the second axis"),
        ("03.scale", lambda q, k, t: scaled(q, k, t).softmax(1), "softmax along the second axis"),
        ("03.scale", lambda q, k, t: scaled(q, k, t).softmax(0), "softmax along the first axis"),
        # what underflowed at T = 1 is lost
        ("03.scale", powers_of_weights, "weights raised to a power"),
    ],
)
def test_the_mistake_is_recognised_and_the_graver_one_told_first(exercise, answer, misconception):
    assert examine(find(exercise), answer).misconception == misconception
