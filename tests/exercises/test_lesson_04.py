"""Lesson 04's checks: other right ways pass, and wrong ones that nobody foresaw are told why."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find


def narrowed(tokens):
    length = tokens.shape[-1] - 1
    return tokens.narrow(-1, 0, length), tokens.narrow(-1, 1, length)


def by_loop(length):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for row in range(length):
        mask[row, : row + 1] = True
    return mask


def not_above(length):
    return ~torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)


def from_numpy(length):
    return torch.from_numpy(np.tri(length, dtype=bool))


def where(query, key, value, may_attend):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / query.shape[-1] ** 0.5
    weights = torch.where(may_attend, scores, float("-inf")).softmax(-1)
    weights = torch.where(may_attend, weights, 0.0)
    return torch.einsum("...qk,...kv->...qv", weights, value), weights


def largest_subtracted(query, key, value, may_attend):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = scores.masked_fill(~may_attend, torch.finfo(scores.dtype).min)
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp() * may_attend
    total = exponentials.sum(-1, keepdim=True)
    weights = exponentials / torch.where(total == 0, 1, total)
    return weights @ value, weights


def mended(query, key, value, may_attend):
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-1, -2)
    scores = scores.masked_fill(may_attend.logical_not(), -math.inf)
    weights = torch.softmax(scores, -1).nan_to_num()
    return weights.matmul(value), weights


def everything_after(model, tokens, vocab_size):
    """All tokens after a place at once, drawn anew."""
    outputs, generator = model(tokens), torch.Generator().manual_seed(0)
    for place in range(len(tokens) - 1):
        changed = tokens.clone()
        steps = torch.randint(1, vocab_size, (len(tokens) - place - 1,), generator=generator)
        changed[place + 1 :] = (changed[place + 1 :] + steps) % vocab_size
        if not torch.allclose(model(changed)[: place + 1], outputs[: place + 1], atol=1e-4):
            return True
    return False


def cut_short(model, tokens, vocab_size):
    """What is not there cannot be read."""
    outputs = model(tokens)
    differences = [model(tokens[:t]) - outputs[:t] for t in range(1, len(tokens))]
    return any(bool((d.abs() > 1e-4).any()) for d in differences)


def every_token(model, tokens, vocab_size):
    found = []
    for place in range(len(tokens)):
        for token in range(vocab_size):
            changed = torch.cat([tokens[:place], torch.tensor([token]), tokens[place + 1 :]])
            found.append((model(changed) - model(tokens)).abs()[:place].gt(1e-4).any().item())
    return any(found)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("04.targets", narrowed),
        ("04.mask", by_loop),
        ("04.mask", not_above),
        ("04.mask", from_numpy),
        ("04.attention", where),
        ("04.attention", largest_subtracted),
        ("04.attention", mended),
        ("04.leak", everything_after),
        ("04.leak", every_token),
        ("04.leak", cut_short),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


def one_too_short(tokens):
    return tokens[..., :-2], tokens[..., 1:-1]


def empty_rows_read_all(query, key, value, may_attend):
    nothing = ~may_attend.any(dim=-1, keepdim=True)
    return mended(query, key, value, may_attend | nothing)


def values_struck_out(query, key, value, may_attend):
    weights = mended(query, key, value, torch.ones_like(may_attend))[1]
    return (weights * may_attend) @ value, weights


def cut(query, key, value, may_attend):
    with torch.no_grad():
        _, weights = mended(query, key, value, may_attend)
    return weights @ value, weights


def one_vector_alone(model, tokens, vocab_size):
    """Only the middle token is changed."""
    place = len(tokens) // 2
    changed = tokens.clone()
    changed[place] = (tokens[place] + 1) % vocab_size
    return bool((model(changed) - model(tokens))[:place].abs().max() > 1e-4)


def without_the_last(model, tokens, vocab_size):
    return everything_after(lambda shown: model(shown)[:-2], tokens, vocab_size)


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("04.targets", one_too_short, "shape"),
        ("04.attention", empty_rows_read_all, "expected `0`, got"),
        ("04.attention", values_struck_out, "`['result'][0]`"),
        ("04.attention", cut, "gradient"),
        ("04.leak", one_vector_alone, "a model whose first token reads the second"),
        ("04.leak", without_the_last, "`True`, got `False`"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words in verdict.message, verdict


def test_gradients_that_are_no_numbers_are_refused_where_the_numbers_are_right():
    """The formula as it is written, with its NaN replaced: right forwards, NaN on the way back."""

    def by_formula(query, key, value, may_attend):
        hidden = torch.zeros(may_attend.shape, dtype=query.dtype)
        hidden = hidden.masked_fill(~may_attend, -math.inf)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + hidden
        weights = torch.nan_to_num(scores.softmax(dim=-1))
        return weights @ value, weights

    verdict = examine(find("04.attention"), by_formula)
    assert verdict.misconception == "NaN in the gradient alone"


def test_pytorchs_own_kernel_agrees_with_the_solution():
    exercise = find("04.attention")
    for query, key, value, may_attend in exercise.fresh_cases():
        output, _ = exercise.solution(query, key, value, may_attend)
        axes = [part.reshape(-1, *part.shape[-2:]) for part in (query, key, value)]
        mask = may_attend.expand(*query.shape[:-1], key.shape[-2]).reshape(
            -1, query.shape[-2], key.shape[-2]
        )
        torchs = scaled_dot_product_attention(*axes, attn_mask=mask).nan_to_num(0.0)
        assert torch.allclose(output.reshape(torchs.shape), torchs, atol=1e-5)
