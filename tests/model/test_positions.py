"""Positions against the papers' formulas, written as loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model.config import GPTConfig
from course_lib.model.positions import (
    ALiBi,
    AttentionPositions,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
    alibi_slopes,
    attention_positions,
    embedding_positions,
    rotary_angles,
    rotary_frequencies,
)
from course_lib.runtime import CourseError

# ---- sinusoidal


def test_sinusoidal_equals_the_papers_formula():
    d_model = 14
    vectors = SinusoidalPositions(d_model)(torch.arange(23))
    assert vectors.shape == (23, d_model)
    for position in range(23):
        for i in range(d_model // 2):
            angle = position / 10_000 ** (2 * i / d_model)
            assert vectors[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert vectors[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_sinusoidal_products_depend_on_the_distance_alone():
    vectors = SinusoidalPositions(22)(torch.arange(60)).double()
    products = vectors @ vectors.T
    for distance in (0, 1, 7, 31):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4, rtol=0)


def test_sinusoidal_has_nothing_to_train():
    assert list(SinusoidalPositions(6).parameters()) == []


# ---- learned


def test_learned_positions_are_rows_of_a_table():
    table = LearnedPositions(7, 3)
    torch.testing.assert_close(table(torch.tensor([4, 0])), table.embedding.weight[[4, 0]])


def test_learned_positions_end():
    table = LearnedPositions(7, 3)
    assert table(torch.arange(7)).shape == (7, 3)
    with pytest.raises(CourseError, match=r"position 7 .* context_length=7.* end at 6.* last 7"):
        table(torch.arange(8))


# ---- rotary


@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_rotary_equals_multiplication_by_complex_numbers(base):
    """A pair (i, i + d/2) is the complex number x_i + x_(i + d/2)·√−1, turned by e^(√−1·angle)."""
    d_head, half = 10, 5
    heads = torch.randn(2, 3, 7, d_head)
    positions = torch.tensor([0, 1, 2, 5, 11, 100, 1000])
    pairs = torch.complex(heads[..., :half].double(), heads[..., half:].double())
    for index, position in enumerate(positions.tolist()):
        for i in range(half):
            angle = position * base ** (-2 * i / d_head)
            pairs[:, :, index, i] *= complex(math.cos(angle), math.sin(angle))
    expected = torch.cat([pairs.real, pairs.imag], dim=-1).float()
    turned = RotaryPositions(base).rotate(heads, positions)
    torch.testing.assert_close(turned, expected, atol=2e-4, rtol=0)


@settings(deadline=None, max_examples=40, database=None, derandomize=True)
@given(st.integers(0, 400), st.integers(0, 400), st.integers(0, 400), st.integers(0, 2**31))
def test_rotary_products_depend_on_the_distance_alone(m, n, shift, seed):
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, 1, 1, 1, 6, generator=generator)
    rotary = RotaryPositions()

    def product(query_position, key_position):
        turned_query = rotary.rotate(query, torch.tensor([query_position]))
        turned_key = rotary.rotate(key, torch.tensor([key_position]))
        return (turned_query * turned_key).sum().item()

    assert product(m, n) == pytest.approx(product(m + shift, n + shift), abs=2e-3)
    assert product(m, m) == pytest.approx((query * key).sum().item(), abs=2e-3)


def test_rotary_tells_forward_from_backward():
    query, key = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    rotary = RotaryPositions()
    turned = rotary.rotate(key.expand(1, 1, 2, 2), torch.tensor([1, 3]))[0, 0]
    at_two = rotary.rotate(query.expand(1, 1, 1, 2), torch.tensor([2]))[0, 0, 0]
    # ⟨R(m)q, R(n)k⟩ = ⟨q, R(n − m)k⟩, and turning (0, 1) by θ gives (−sin θ, cos θ)
    assert (at_two @ turned[0]).item() == pytest.approx(-math.sin(-1), abs=1e-6)
    assert (at_two @ turned[1]).item() == pytest.approx(-math.sin(1), abs=1e-6)


def test_rotary_keeps_the_length_and_leaves_position_zero():
    heads = torch.randn(2, 3, 5, 14)
    turned = RotaryPositions().rotate(heads, torch.tensor([0, 1, 50, 3000, 7]))
    assert turned.shape == heads.shape
    torch.testing.assert_close(turned.norm(dim=-1), heads.norm(dim=-1))
    torch.testing.assert_close(turned[:, :, 0], heads[:, :, 0])


def test_angles_are_float32_in_a_bfloat16_model():
    assert torch.tensor(257.0).bfloat16() == 256  # the trap
    assert rotary_angles(torch.tensor([257]), rotary_frequencies(6)).dtype == torch.float32
    heads = torch.tensor([1.0, 0.0]).bfloat16().expand(1, 1, 2, 2)
    turned = RotaryPositions().rotate(heads, torch.tensor([256, 257]))[0, 0]
    assert turned.dtype == torch.bfloat16
    for vector, position in zip(turned.float(), (256, 257), strict=True):
        expected = torch.tensor([math.cos(position), math.sin(position)])
        torch.testing.assert_close(vector, expected, atol=4e-3, rtol=0)


def test_no_positions_do_nothing():
    heads = torch.randn(2, 3, 5, 7)
    nothing = AttentionPositions()
    assert nothing.rotate(heads, torch.arange(5)) is heads
    assert nothing.score_bias(torch.arange(5), torch.arange(5)) is None


# ---- ALiBi

EIGHT = [2.0**-i for i in range(1, 9)]
SIXTEEN = [2.0 ** (-i / 2) for i in range(1, 17)]


@pytest.mark.parametrize(
    ("n_heads", "slopes"),
    [
        (1, [2.0**-8]),
        (2, [2.0**-4, 2.0**-8]),
        (6, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]),
        (8, EIGHT),
        (12, EIGHT + SIXTEEN[0:8:2]),
        (16, SIXTEEN),
    ],
)
def test_alibi_slopes_follow_the_papers_rule(n_heads, slopes):
    torch.testing.assert_close(alibi_slopes(n_heads), torch.tensor(slopes))
    assert alibi_slopes(n_heads).dtype == torch.float32


def test_alibi_bias_by_loops():
    query_positions, key_positions = torch.tensor([4, 9, 5]), torch.tensor([3, 4, 5, 6, 9])
    bias = ALiBi(2).score_bias(query_positions, key_positions)
    assert bias.shape == (2, 3, 5)
    for head, slope in enumerate((2.0**-4, 2.0**-8)):
        for i, m in enumerate(query_positions.tolist()):
            for j, n in enumerate(key_positions.tolist()):
                assert bias[head, i, j].item() == pytest.approx(-slope * abs(m - n))


# ---- what a configuration gives


@pytest.mark.parametrize(
    ("positions", "in_embedding", "in_attention"),
    [
        ("none", type(None), AttentionPositions),
        ("learned", LearnedPositions, AttentionPositions),
        ("sinusoidal", SinusoidalPositions, AttentionPositions),
        ("rotary", type(None), RotaryPositions),
        ("alibi", type(None), ALiBi),
    ],
)
def test_the_configuration_chooses(positions, in_embedding, in_attention):
    config = GPTConfig(vocab_size=3, positions=positions, rotary_base=77.0)
    assert type(embedding_positions(config)) is in_embedding
    chosen = attention_positions(config)
    assert type(chosen) is in_attention
    if positions == "rotary":
        assert chosen.base == 77.0
