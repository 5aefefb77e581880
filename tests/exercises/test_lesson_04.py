"""Lesson 04's checks: other right ways pass, and wrong ones that nobody foresaw are told why."""

import itertools
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


def every_token(model, tokens, vocab_size):
    found = []
    for place in range(len(tokens)):
        for token in range(vocab_size):
            changed = torch.cat([tokens[:place], torch.tensor([token]), tokens[place + 1 :]])
            found.append((model(changed) - model(tokens)).abs()[:place].gt(1e-4).any().item())
    return any(found)


def judged_by(differ, another=lambda token, vocab_size: (token + 1) % vocab_size):
    """A leak test with another way to compare earlier outputs, or to choose a token."""

    def leak_test(model, tokens, vocab_size):
        outputs = model(tokens)
        for place in range(1, len(tokens)):
            changed = tokens.clone()
            changed[place] = another(tokens[place], vocab_size)
            if differ(model(changed)[:place], outputs[:place]):
                return True
        return False

    return leak_test


def larger(limit):
    return lambda new, old: bool((new - old).abs().max() > limit)


close_within_1e_4 = judged_by(lambda new, old: not torch.allclose(new, old, atol=1e-4))


def put_back(model, tokens, vocab_size):
    outputs, found = model(tokens), False
    for place in range(1, len(tokens)):
        token = tokens[place].item()
        tokens[place] = (token - 1) % vocab_size
        found |= larger(1e-4)(model(tokens)[:place], outputs[:place])
        tokens[place] = token
    return found


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
        ("04.leak", close_within_1e_4),
        ("04.leak", put_back),
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


def always(token):
    return judged_by(larger(1e-4), lambda old, vocab_size: token)


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
        ("04.leak", always(2), "`True`, got `False`"),
        ("04.leak", always(3), "`True`, got `False`"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words in verdict.message, verdict


@pytest.mark.parametrize(
    ("answer", "misconception"),
    [
        (always(0), "always the same new token"),
        (always(1), "always token 1"),
        (judged_by(larger(1e-4), lambda token, size: size - 1), "always the last token"),
        (judged_by(larger(1e-4), lambda token, size: size - 1 - token), "the middle token stays"),
        (judged_by(larger(1e-4), lambda token, size: size // 2), "the middle token stays"),
        (judged_by(larger(1e-4), lambda token, size: torch.randint(size, ())), "drawn at random"),
        (judged_by(larger(1e-5)), "too strict"),
        (judged_by(larger(1e-6)), "too strict"),
        (judged_by(lambda new, old: not torch.allclose(new, old)), "too strict"),
        (judged_by(lambda new, old: ((new - old) / old).abs().max() > 1e-4), "too strict"),
        (judged_by(lambda new, old: (new - old).abs().sum() > 1e-4), "added up"),
        (judged_by(lambda new, old: (new - old).norm() > 1e-4), "added up"),
        (judged_by(lambda new, old: (new - old).abs().mean() > 1e-4), "the mean difference"),
        (judged_by(lambda new, old: ((new - old) ** 2).mean() > 1e-4), "too coarse"),
        (judged_by(larger(1e-3)), "too coarse"),
        (judged_by(larger(1e-2)), "too coarse"),
        (judged_by(larger(0.1)), "too coarse"),
    ],
)
def test_a_leak_test_that_changes_nothing_or_measures_otherwise_is_told_so(answer, misconception):
    answer = (lambda inner: lambda *case: bool(inner(*case)))(answer)  # a Python bool, each time
    assert examine(find("04.leak"), answer).misconception.startswith(misconception)


def test_a_text_cut_short_is_not_another_token():
    def cut_short(model, tokens, vocab_size):
        outputs = model(tokens)
        differences = [model(tokens[:t]) - outputs[:t] for t in range(1, len(tokens))]
        return any(bool((d.abs() > 1e-4).any()) for d in differences)

    assert examine(find("04.leak"), cut_short).misconception == "cut short"


def test_a_leak_case_is_shown_by_its_model_and_tokens():
    verdict = examine(find("04.leak"), always(3))
    assert verdict.facts[0].endswith(
        "with a model whose first token reads the second, tokens=[2, 3, 1], vocab_size=5."
    )


def test_a_row_with_nothing_to_read_is_no_matter_of_how_much_is_subtracted():
    def subtracted(amount):
        def answer(query, key, value, may_attend):
            scores = query @ key.mT / math.sqrt(query.shape[-1])
            weights = (scores + (~may_attend).to(scores.dtype) * -amount).softmax(-1)
            return weights @ value, weights

        return answer

    names = [examine(find("04.attention"), subtracted(x)).misconception for x in (1e9, 1e10, 1e4)]
    assert names == ["a large number subtracted"] * 2 + ["a number subtracted"]


def test_pairs_in_a_list_are_no_two_tensors():
    def in_a_loop(tokens):
        return [(tokens[..., t], tokens[..., t + 1]) for t in range(tokens.shape[-1] - 1)]

    def all_pairs(tokens):
        return list(itertools.pairwise(tokens))

    verdicts = [examine(find("04.targets"), answer) for answer in (in_a_loop, all_pairs)]
    assert all("two tensors" in verdict.message for verdict in verdicts), verdicts


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
