"""Lesson 07's checks: other right ways pass, and wrong ones that nobody foresaw are told why."""

import math

import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_07 import ntk_base, position_angles, rotate, to_half_split
from course_lib.exercises.registry import find
from course_lib.model.positions import RotaryPositions, rotary_frequencies

# ---- right, in other words


def angles_by_loops(positions, d_head, base=10_000.0):
    rows = [[m * base ** (-2 * i / d_head) for i in range(d_head // 2)] for m in positions.tolist()]
    return torch.tensor(rows)


def angles_by_logarithms(positions, d_head, base=10_000.0):
    speeds = torch.exp(-math.log(base) * torch.arange(0, d_head, 2).float() / d_head)
    return torch.outer(positions.to(torch.float32), speeds)


def angles_in_double(positions, d_head, base=10_000.0):
    speeds = base ** -(torch.arange(d_head // 2).double() * 2 / d_head)
    return (positions.double().unsqueeze(1) * speeds).float()


def rolled(heads, positions):
    angles = position_angles(positions, heads.shape[-1])
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([-angles, angles], -1).sin()
    return (heads * cos + heads.roll(heads.shape[-1] // 2, -1) * sin).to(heads.dtype)


def complex_numbers(heads, positions):
    a, b = heads.chunk(2, dim=-1)
    angles = position_angles(positions, heads.shape[-1]).to(heads.dtype)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1)


def on_a_copy(heads, positions):
    half = heads.shape[-1] // 2
    angles = position_angles(positions, heads.shape[-1]).to(heads.dtype)
    turned = heads.clone()
    turned[..., :half] = heads[..., :half] * angles.cos() - heads[..., half:] * angles.sin()
    turned[..., half:] = heads[..., half:] * angles.cos() + heads[..., :half] * angles.sin()
    return turned


def by_matrices(heads, positions):
    d_head = heads.shape[-1]
    eye = torch.eye(d_head, dtype=heads.dtype).expand(1, len(positions), d_head, d_head)
    matrices = rolled(eye.transpose(1, 2), positions).transpose(1, 2)  # row j: R sends e_j there
    return torch.einsum("bhpd,pde->bhpe", heads, matrices[0])


def pair_by_pair(heads, positions):
    d_head, columns = heads.shape[-1], {}
    for i in range(d_head // 2):
        angle = positions.double() * 10_000 ** (-2 * i / d_head)
        a, b, cos, sin = heads[..., i], heads[..., i + d_head // 2], angle.cos(), angle.sin()
        columns[i], columns[i + d_head // 2] = a * cos - b * sin, b * cos + a * sin
    return torch.stack([columns[i] for i in range(d_head)], dim=-1).to(heads.dtype)


def rows_by_index(rows, n_heads):
    d_head = len(rows) // n_heads
    order = [h * d_head + j for h in range(n_heads) for s in (0, 1) for j in range(s, d_head, 2)]
    return rows[torch.tensor(order)]


def rows_by_slices(rows, n_heads):
    heads = rows.chunk(n_heads)
    return torch.cat([part for head in heads for part in (head[0::2], head[1::2])])


def rows_reshaped(rows, n_heads):
    rest = rows.shape[1:]
    pairs = rows.reshape(n_heads, -1, 2, *rest)
    return pairs.swapaxes(1, 2).reshape(-1, *rest)


def rows_written_into_a_copy(rows, n_heads):
    result = rows.clone()
    for head in result.chunk(n_heads):
        head.copy_(torch.cat([head[0::2], head[1::2]]))
    return result


def rows_without_a_gradient(rows, n_heads):
    with torch.no_grad():
        return rows_by_slices(rows, n_heads).detach()


def base_by_logarithms(base, factor, d_head):
    return math.exp(math.log(base) + math.log(factor) * d_head / (d_head - 2))


def base_solved(base, factor, d_head):
    slowest = base ** (-(d_head - 2) / d_head) / factor
    return slowest ** (-d_head / (d_head - 2))


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("07.angles", angles_by_loops),
        ("07.angles", angles_by_logarithms),
        ("07.angles", angles_in_double),
        ("07.rotate", rolled),
        ("07.rotate", complex_numbers),
        ("07.rotate", on_a_copy),
        ("07.rotate", by_matrices),
        ("07.rotate", pair_by_pair),
        ("07.convert", rows_by_index),
        ("07.convert", rows_by_slices),
        ("07.convert", rows_reshaped),
        ("07.convert", rows_written_into_a_copy),
        ("07.convert", rows_without_a_gradient),
        ("07.ntk", base_by_logarithms),
        ("07.ntk", base_solved),
    ],
    ids=lambda thing: getattr(thing, "__name__", thing),
)
def test_other_right_ways_pass(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


# ---- wrong, and not foreseen


def heads_changed(heads, positions):
    turned = rotate(heads.detach(), positions)
    with torch.no_grad():
        heads.copy_(turned)
    return rotate(heads, -positions) * 0 + turned


def turned_by_the_batch(heads, positions):
    return rotate(heads.transpose(0, 2), positions[: heads.shape[0]]).transpose(0, 2)


def in_degrees(heads, positions):
    return rotate(heads, positions * 180 / math.pi)


def stretched_to_length_one(heads, positions):
    return torch.nn.functional.normalize(rotate(heads, positions), dim=-1)


def turned_twice(heads, positions):
    return rotate(rotate(heads, positions), positions)


def scaled(heads, positions):
    return rotate(heads, positions) / math.sqrt(heads.shape[-1])


def first_pairs_only(heads, positions):
    half = heads.shape[-1] // 2
    return torch.cat([rotate(heads, positions)[..., :half], heads[..., half:]], dim=-1)


def learned_by_heart(heads, positions):
    return torch.zeros(2, 3, 5, 14)


def in_single_precision(heads, positions):
    return rotate(heads.float(), positions)


def changed_angles(change):
    return lambda positions, d_head, base=10_000.0: change(position_angles(positions, d_head, base))


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("07.angles", lambda positions, d_head, base=10_000.0: positions[:, None] / base),
        ("07.angles", lambda positions, d_head, base=1e4: position_angles(positions, 2 * d_head)),
        ("07.angles", changed_angles(lambda angles: angles[0])),
        ("07.angles", changed_angles(lambda angles: -angles)),
        ("07.angles", changed_angles(lambda angles: angles.flip(1))),
        ("07.angles", changed_angles(lambda angles: angles % 6.28)),
        ("07.angles", changed_angles(lambda angles: angles.half())),
        ("07.angles", changed_angles(lambda angles: angles.tolist())),
        ("07.angles", changed_angles(lambda angles: angles.clone().requires_grad_())),
        ("07.rotate", heads_changed),
        ("07.rotate", turned_by_the_batch),
        ("07.rotate", in_degrees),
        ("07.rotate", stretched_to_length_one),
        ("07.rotate", turned_twice),
        ("07.rotate", scaled),
        ("07.rotate", first_pairs_only),
        ("07.rotate", learned_by_heart),
        ("07.rotate", in_single_precision),
        ("07.rotate", lambda heads, positions: rotate(heads, -positions.flip(0))),
        ("07.convert", lambda rows, n_heads: rows.flip(0)),
        ("07.convert", lambda rows, n_heads: torch.sort(rows, dim=0).values),
        ("07.convert", lambda rows, n_heads: rows[::2]),
        ("07.convert", lambda rows, n_heads: to_half_split(to_half_split(rows, n_heads), n_heads)),
        ("07.ntk", lambda base, factor, d_head: int(ntk_base(base, factor, d_head))),
        ("07.ntk", lambda base, factor, d_head: torch.tensor(ntk_base(base, factor, d_head))),
        ("07.ntk", lambda base, factor, d_head: base + factor),
        ("07.ntk", lambda base, factor, d_head: base * factor**2),
    ],
)
def test_other_wrong_ways_are_refused(exercise, answer):
    assert examine(find(exercise), answer).status == "not yet"


# ---- what the lesson says of them


def test_converted_rows_score_in_half_split_as_they_did_interleaved():
    weight_q, weight_k = torch.randn(2, 3 * 10, 7, generator=torch.Generator().manual_seed(0))
    x, places = torch.randn(1, 5, 7, generator=torch.Generator().manual_seed(1)), torch.arange(5)

    def interleaved(heads):
        angles = position_angles(places, heads.shape[-1])
        turns = torch.polar(torch.ones_like(angles), angles)
        turned = torch.view_as_complex(heads.unflatten(-1, (-1, 2)).contiguous()) * turns
        return torch.view_as_real(turned).flatten(-2)

    def scores(turned, *weights):
        query, key = (
            turned((x @ weight.T).unflatten(-1, (3, 10)).transpose(1, 2)) for weight in weights
        )
        return query @ key.transpose(-2, -1)

    theirs = scores(interleaved, weight_q, weight_k)
    ours = scores(
        lambda heads: RotaryPositions().rotate(heads, places),
        to_half_split(weight_q, 3),
        to_half_split(weight_k, 3),
    )
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("width", [4, 32, 128])
def test_the_base_is_the_librarys(width):
    speeds = position_angles(torch.tensor([1]), width, ntk_base(10_000.0, 4.0, width))[0]
    torch.testing.assert_close(speeds, rotary_frequencies(width, scaling="ntk", factor=4.0))


def first_entry_twice(heads, positions):
    a, b = heads.chunk(2, dim=-1)
    angles = position_angles(positions, heads.shape[-1]).to(heads.dtype)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * cos + b * sin], dim=-1)


def entries_exchanged(heads, positions):
    b, a = heads.chunk(2, dim=-1)
    return rotate(torch.cat([a, b], dim=-1), positions)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (first_entry_twice, "Your second half is a cos + b sin"),
        (entries_exchanged, "a and b have changed places"),
    ],
)
def test_a_wrong_turn_that_was_foreseen_is_told_what_it_is(answer, words):
    verdict = examine(find("07.rotate"), answer)
    assert verdict.status == "not yet" and verdict.misconception, verdict
    assert words in verdict.message, verdict
