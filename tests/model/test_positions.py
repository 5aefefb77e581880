"""Positions against the papers' formulas, written as loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from course_lib.model.config import CHOICES, GPTConfig
from course_lib.model.gpt import GPT
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
    turn,
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


def test_learned_positions_look_at_values_not_at_their_number():
    table = LearnedPositions(7, 3)
    with pytest.raises(CourseError, match=r"position 7 lies past context_length=7"):
        table(torch.tensor([7]))
    with pytest.raises(CourseError, match="position -2 is below −1; count from 0"):
        table(torch.tensor([3, -2]))
    many = torch.tensor([[-1, 0, 6, 6], [1, 2, 3, 4]])
    torch.testing.assert_close(table(many), table.embedding.weight[many.clamp(min=0)])
    assert table(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0, 3)


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


@pytest.mark.parametrize("convert", [nn.Module.bfloat16, nn.Module.half, nn.Module.double])
def test_a_pass_of_a_converted_model_has_float32_angles(convert):
    config = GPTConfig(vocab_size=11, context_length=400, n_layers=1, positions="rotary")
    positions = torch.arange(400)
    model = convert(GPT(config))
    seen = []
    model.blocks[0].attention.register_forward_pre_hook(lambda _, given: seen.append(given[1]))
    model(torch.zeros(1, 400, dtype=torch.long))
    for table, exact in zip(seen[0].rotation, (torch.cos, torch.sin), strict=True):
        assert table.dtype == torch.float32
        expected = exact(positions[:, None] * 10_000.0 ** (-torch.arange(16.0).double() / 16))
        torch.testing.assert_close(table.double(), expected, atol=5e-5, rtol=0)


def test_positions_of_a_batch_are_those_of_its_rows():
    positions = torch.tensor([[-1, 0, 1, 2], [5, 9, 4, 300]])
    heads = torch.randn(2, 3, 4, 6)
    rotary, alibi, sinusoidal = RotaryPositions(), ALiBi(3), SinusoidalPositions(6)
    assert alibi.score_bias(positions, positions).shape == (2, 3, 4, 4)
    for row in range(2):
        turned = rotary.rotate(heads, positions)[row]
        torch.testing.assert_close(turned, rotary.rotate(heads[row : row + 1], positions[row])[0])
        bias = alibi.score_bias(positions, positions)[row]
        torch.testing.assert_close(bias, alibi.score_bias(positions[row], positions[row]))
        torch.testing.assert_close(sinusoidal(positions)[row], sinusoidal(positions[row]))
    place = alibi.places(positions, 6)
    torch.testing.assert_close(place.bias, alibi.score_bias(positions, positions))


def test_the_gradient_of_a_turn_turns_back():
    cos, sin = RotaryPositions().places(torch.tensor([0, 3, 50]), 6).rotation
    heads = torch.randn(2, 5, 3, 6, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: turn(x, cos.double(), sin.double()), heads)


# ---- rotary, stretched


def test_linear_scaling_reads_a_position_as_a_fraction_of_it():
    heads, positions = torch.randn(2, 3, 5, 8), torch.tensor([0, 4, 8, 100, 444])
    stretched = RotaryPositions(scaling="linear", factor=4.0).rotate(heads, positions)
    torch.testing.assert_close(stretched, RotaryPositions().rotate(heads, positions // 4))


def test_ntk_scaling_by_hand():
    """d = 4, factor 4: the base 100 grows by 4^(4/2) to 1600, and 1600^(−1/2) = 1/40."""
    frequencies = rotary_frequencies(4, 100.0, "ntk", 4.0)
    torch.testing.assert_close(frequencies, torch.tensor([1.0, 1 / 40]))


@pytest.mark.parametrize("width", [4, 10, 64])
def test_ntk_keeps_the_fastest_pair_and_slows_the_slowest_by_the_factor(width):
    plain, ntk = rotary_frequencies(width), rotary_frequencies(width, scaling="ntk", factor=3.0)
    assert ntk[0] == plain[0]
    torch.testing.assert_close(ntk[-1], plain[-1] / 3)
    slowing = plain / ntk
    assert (slowing.diff() > 0).all()


def test_yarn_by_hand():
    """Trained at 64π tokens, base 16, d = 8: pairs turn 1, 1/2, 1/4, 1/8 radians a token, which are
    32, 16, 8, 4 turns. With a ramp of 4 to 16 turns γ is 1, 1, 1/3, 0, and a factor 2 gives
    1, 1/2, 1/4 · (1/3 + 2/3 · 1/2) = 1/6, 1/16.
    """
    frequencies = rotary_frequencies(8, 16.0, "yarn", 2.0, 64 * math.pi, (4.0, 16.0))
    torch.testing.assert_close(frequencies, torch.tensor([1.0, 1 / 2, 1 / 6, 1 / 16]))


def test_yarn_equals_the_ramp_that_llama_3_publishes():
    """Llama 3.1: base 500,000, 8,192 tokens stretched 8 times, factors 1 and 4; no temperature."""
    width, base, trained, factor, low, high = 128, 500_000.0, 8_192, 8.0, 1.0, 4.0
    expected = []
    for i in range(width // 2):
        frequency = base ** (-2 * i / width)
        wavelength = 2 * math.pi / frequency
        if wavelength < trained / high:
            expected.append(frequency)
        elif wavelength > trained / low:
            expected.append(frequency / factor)
        else:
            smooth = (trained / wavelength - low) / (high - low)
            expected.append((1 - smooth) * frequency / factor + smooth * frequency)
    ours = rotary_frequencies(width, base, "yarn", factor, trained, (low, high))
    torch.testing.assert_close(ours, torch.tensor(expected), rtol=1e-5, atol=0)


def test_yarn_in_turns_meets_the_published_code_outside_its_ramp():
    """The authors' code, and transformers', ramp over the pair's index between the two limits."""
    width, base, trained, factor, alpha, beta = 128, 10_000.0, 4_096, 16.0, 1.0, 32.0

    def index_of(turns):  # the pair that turns so often within the trained length
        return width * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = math.floor(index_of(beta)), math.ceil(index_of(alpha))
    ratio = rotary_frequencies(width, base, "yarn", factor, trained, (alpha, beta))
    ratio = ratio / rotary_frequencies(width, base)
    assert 0 < low < high < width // 2 - 1
    torch.testing.assert_close(ratio[: low + 1], torch.ones(low + 1))
    torch.testing.assert_close(ratio[high:], torch.full((width // 2 - high,), 1 / factor))
    assert (ratio[low + 1 : high].diff() < 0).all()


def test_yarn_makes_scores_larger_by_its_temperature():
    """1/√t = 0.1·ln 8 + 1 = 1.2079 on query and on key, so scores grow by 1.4591."""
    query, key = torch.randn(2, 1, 1, 7, 6)
    yarn = RotaryPositions(scaling="yarn", factor=8.0, trained_length=16.0)
    turned = yarn.rotate(query, torch.arange(7))
    torch.testing.assert_close(
        turned.norm(dim=-1) / query.norm(dim=-1), torch.full((1, 1, 7), 1.20794)
    )
    product = (turned * yarn.rotate(key, torch.arange(7))).sum(-1)
    torch.testing.assert_close(product[..., 0], 1.45913 * (query * key).sum(-1)[..., 0])


@pytest.mark.parametrize("scaling", CHOICES["rotary_scaling"])
def test_a_factor_of_one_changes_nothing(scaling):
    heads, positions = torch.randn(2, 3, 5, 8), torch.tensor([0, 1, 8, 100, 444])
    rotary = RotaryPositions(scaling=scaling, factor=1.0, trained_length=64.0)
    torch.testing.assert_close(
        rotary.rotate(heads, positions), RotaryPositions().rotate(heads, positions)
    )


@pytest.mark.parametrize("scaling", CHOICES["rotary_scaling"][1:])
def test_scaled_products_still_depend_on_the_distance_alone(scaling):
    query, key = torch.randn(2, 1, 1, 1, 6).expand(2, 1, 1, 2, 6)
    rotary = RotaryPositions(scaling=scaling, factor=4.0, trained_length=64.0)
    turned_query = rotary.rotate(query, torch.tensor([30, 130]))
    turned_key = rotary.rotate(key, torch.tensor([17, 117]))
    products = (turned_query * turned_key).sum(-1).flatten()
    torch.testing.assert_close(products[0], products[1], atol=1e-3, rtol=0)


def test_the_trained_length_of_a_configuration_is_its_context_over_the_factor():
    config = GPTConfig(
        vocab_size=3,
        context_length=256,
        positions="rotary",
        rotary_base=77.0,
        rotary_scaling="yarn",
        rotary_factor=4.0,
        rotary_ramp=(1.0, 4.0),
    )
    chosen = attention_positions(config)
    assert (chosen.base, chosen.scaling, chosen.factor) == (77.0, "yarn", 4.0)
    assert (chosen.trained_length, chosen.ramp) == (64.0, (1.0, 4.0))


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
