"""Lesson 06's checks against the library: other right ways pass, unforeseen wrong ones do not."""

import math

import numpy as np
import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_06 import alibi_bias, alibi_slopes, sinusoidal
from course_lib.exercises.registry import find
from course_lib.model.positions import ALiBi, SinusoidalPositions
from course_lib.model.positions import alibi_slopes as library_slopes


def test_the_vectors_are_the_librarys():
    for positions in (torch.arange(40), torch.tensor([7, 3, 200])):
        expected = SinusoidalPositions(26)(positions)
        assert torch.allclose(sinusoidal(positions, 26), expected, atol=1e-4)


@pytest.mark.parametrize("n_heads", range(1, 41))
def test_slopes_and_penalties_are_the_librarys(n_heads):
    slopes = alibi_slopes(n_heads)
    assert torch.equal(slopes, library_slopes(n_heads))
    query_positions, key_positions = torch.tensor([9, 2]), torch.arange(12)
    expected = ALiBi(n_heads).score_bias(query_positions, key_positions)
    assert torch.equal(alibi_bias(slopes, query_positions, key_positions), expected)


def by_loops(positions, d_model):
    rows = []
    for position in positions.tolist():
        row = []
        for i in range(d_model // 2):
            angle = position / 10_000 ** (2 * i / d_model)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows)


def with_logarithms(positions, d_model):
    speeds = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
    angles = torch.outer(positions.float(), speeds)
    return torch.stack((torch.sin(angles), torch.cos(angles)), dim=2).reshape(len(positions), -1)


def as_a_shifted_sine(positions, d_model):
    columns = torch.arange(d_model)
    angles = positions.unsqueeze(1) / torch.pow(10_000, (columns - columns % 2) / d_model)
    return torch.sin(angles + columns % 2 * math.pi / 2)


def recursive_slopes(n_heads):
    def sequence(n):
        start = 2.0 ** (-8 / n)
        return [start ** (i + 1) for i in range(n)]

    if n_heads & (n_heads - 1) == 0:
        return torch.tensor(sequence(n_heads))
    below = 1 << (n_heads.bit_length() - 1)
    more = recursive_slopes(2 * below)[::2][: n_heads - below]
    return torch.cat([recursive_slopes(below), more])


def slopes_by_torch(n_heads):
    power = 2 ** math.floor(math.log2(n_heads))
    numbers = torch.arange(1, power + 1)
    between = torch.arange(1, 2 * power, 2)[: n_heads - power]
    return 2.0 ** torch.cat([-8 * numbers / power, -4 * between / power])


def bias_by_loops(slopes, query_positions, key_positions):
    bias = torch.empty(len(slopes), len(query_positions), len(key_positions))
    for h, slope in enumerate(slopes):
        for i, query in enumerate(query_positions):
            for j, key in enumerate(key_positions):
                bias[h, i, j] = -slope * abs(int(query) - int(key))
    return bias


def bias_by_einsum(slopes, query_positions, key_positions):
    distance = (key_positions.unsqueeze(0) - query_positions.unsqueeze(1)).abs().float()
    return torch.einsum("h,qk->hqk", slopes, -distance)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("06.sinusoidal", by_loops),
        ("06.sinusoidal", with_logarithms),
        ("06.sinusoidal", as_a_shifted_sine),
        ("06.slopes", recursive_slopes),
        ("06.slopes", slopes_by_torch),
        ("06.bias", bias_by_loops),
        ("06.bias", bias_by_einsum),
        ("06.discount", math.e**2),
        ("06.discount", 7.4),
        ("06.discount", 7.39),
        ("06.discount", np.exp(2.0)),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("06.sinusoidal", lambda positions, d_model: 1.0001 * by_loops(positions, d_model) + 1e-3,
         "entries differ"),
        ("06.sinusoidal", lambda positions, d_model: by_loops(positions, d_model).double(),
         "dtype"),
        ("06.sinusoidal", lambda positions, d_model: by_loops(positions, d_model)[None], "shape"),
        ("06.sinusoidal", lambda positions, d_model: by_loops(positions % 64, d_model), "differ"),
        ("06.sinusoidal", lambda positions, d_model: by_loops(positions, d_model)
         + torch.zeros(len(positions), 1).index_fill(0, torch.tensor([0]), 0.5), "differ"),
        ("06.slopes", lambda n_heads: torch.full((n_heads,), 2.0**-8), "differ"),
        ("06.slopes", lambda n_heads: library_slopes(n_heads).flip(0), "differ"),
        ("06.slopes", lambda n_heads: library_slopes(n_heads)[:, None], "shape"),
        ("06.slopes", lambda n_heads: 1 / torch.arange(1.0, n_heads + 1), "differ"),
        ("06.bias", lambda slopes, q, k: bias_by_loops(slopes, q, k).clamp(min=-5), "differ"),
        ("06.bias", lambda slopes, q, k: bias_by_loops(library_slopes(len(slopes)), q, k),
         "differ"),
        ("06.bias", lambda slopes, q, k: bias_by_loops(slopes, q, k) - 1, "differ"),
        ("06.bias", lambda slopes, q, k: bias_by_loops(slopes, q, k).log2(), "NaN"),
        ("06.discount", 7.5, "is not the value asked for"),
        ("06.discount", 7.3, "is not the value asked for"),
    ],
)  # fmt: skip
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None, verdict
    assert words in verdict.message, verdict


def only_sines(positions, d_model):
    vectors = torch.zeros(len(positions), d_model)
    for i, row in enumerate(by_loops(positions, d_model)):
        vectors[i, 0::2] = row[0::2]
    return vectors


def scaled_like_a_token(positions, d_model):
    return by_loops(positions, d_model) * d_model**0.5


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("06.sinusoidal", only_sines, "the odd ones are still 0"),
        ("06.sinusoidal", scaled_like_a_token, "√d_model times too long"),
        ("06.discount", 20.1, "added the two penalties (or counted 1 + 5 steps)"),
        ("06.discount", 0.0498, "near to far is above 1"),
    ],
)
def test_a_wrong_way_that_was_foreseen_is_told_what_it_is(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception, verdict
    assert words in verdict.message, verdict


def test_every_second_slope_of_twice_the_heads_is_theirs_and_the_first_lies_above():
    slopes, twice = alibi_slopes(8), alibi_slopes(16)
    assert torch.equal(twice[1::2], slopes)
    assert twice[0] > slopes.max() and (twice[2::2] < slopes.max()).all()
    assert torch.equal(alibi_slopes(12)[8:], twice[0::2][:4])
