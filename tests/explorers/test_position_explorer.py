"""The position explorer: the library's numbers at every place; what does not fit is refused."""

import math
import re

import pytest
import torch

from course_lib.explorers.position_explorer import HEADS, PositionExplorer
from course_lib.explorers.position_still import fraction
from course_lib.model.attention import attention_weights, causal_mask
from course_lib.model.positions import (
    ALiBi,
    RotaryPositions,
    SinusoidalPositions,
    alibi_slopes,
)
from course_lib.runtime import CourseError

LENGTH, WIDTH = 13, 10
CLOSE = {"atol": 2e-5, "rtol": 0}


def words(seed=0, width=WIDTH):
    return tuple(torch.randn(2, width, generator=torch.Generator().manual_seed(seed)))


def explorer(**changes):
    given = {"d_model": WIDTH, "length": LENGTH, "n_heads": 6, "words": {"it · animal": words()}}
    return PositionExplorer(**given | changes)


def test_sinusoidal_vectors_and_all_their_products():
    numbers = explorer().data["sinusoidal"]
    vectors = SinusoidalPositions(WIDTH)(torch.arange(LENGTH))
    torch.testing.assert_close(torch.tensor(numbers["vectors"]), vectors, **CLOSE)
    by_hand = [[sum(a * b for a, b in zip(p, q, strict=True)) for q in vectors] for p in vectors]
    torch.testing.assert_close(torch.tensor(numbers["products"]), torch.tensor(by_hand), **CLOSE)


def test_after_a_wavelength_a_pair_is_back():
    for pair, wavelength in enumerate(explorer().data["sinusoidal"]["wavelengths"]):
        there = SinusoidalPositions(WIDTH)(torch.tensor([0.0, wavelength, wavelength / 2]))
        columns = there[:, 2 * pair : 2 * pair + 2]
        torch.testing.assert_close(columns[0], columns[1], atol=1e-4, rtol=0)
        torch.testing.assert_close(columns[2], torch.tensor([0.0, -1.0]), atol=1e-4, rtol=0)


def test_rotary_scores_are_the_library_s_and_each_depends_on_the_distance_alone():
    (numbers, *_) = explorer().data["rotary"]["words"]
    query, key = words()
    scores, sums = torch.tensor(numbers["scores"]), torch.tensor(numbers["sums"])
    for m in range(LENGTH):
        for n in range(LENGTH):
            turned = [
                RotaryPositions().rotate(part[None, None, None], torch.tensor([at])).flatten()
                for part, at in ((query, m), (key, n))
            ]
            product = turned[0] @ turned[1]
            torch.testing.assert_close(scores[m, n], product, atol=1e-4, rtol=0)
            torch.testing.assert_close(sums[m - n + LENGTH - 1], product, atol=1e-4, rtol=0)


def test_the_arrows_of_a_pair_give_its_part_at_every_place():
    for numbers in explorer().data["rotary"]["words"]:
        queries, keys = (torch.tensor(numbers[name]) for name in ("queries", "keys"))
        parts = torch.tensor(numbers["parts"])
        assert queries.shape == keys.shape == (WIDTH // 2, LENGTH, 2)
        products = torch.einsum("pmc,pnc->pmn", queries, keys)
        for distance in range(1 - LENGTH, LENGTH):
            there = products.diagonal(-distance, dim1=1, dim2=2)
            expected = parts[:, distance + LENGTH - 1, None].expand_as(there)
            torch.testing.assert_close(there, expected, atol=1e-3, rtol=0)


def test_a_key_turned_seven_ahead_fits_best_seven_behind():
    *_, alike, ahead = explorer(length=40).data["rotary"]["words"]
    best = [torch.tensor(one["sums"]).argmax().item() - 39 for one in (alike, ahead)]
    assert best == [0, 7] and alike["name"] == "key = query"
    assert alike["sums"][39] == pytest.approx(WIDTH / 2)


def test_angles_are_position_times_speed():
    rotary = explorer().data["rotary"]
    for angles, speed in zip(rotary["angles"], rotary["frequencies"], strict=True):
        assert angles == pytest.approx([p * speed for p in range(LENGTH)], abs=1e-4)


@pytest.mark.parametrize("place", range(len(HEADS)))
def test_alibi_for_each_number_of_heads(place):
    numbers = explorer().data["alibi"][place]
    heads = numbers["n_heads"]
    assert heads == HEADS[place]
    torch.testing.assert_close(torch.tensor(numbers["slopes"]), alibi_slopes(heads))
    positions = torch.arange(LENGTH)
    bias = ALiBi(heads).score_bias(positions, positions)
    equal = torch.zeros(heads, LENGTH, 4)
    weights = attention_weights(equal, equal, causal_mask(positions, positions), bias)
    torch.testing.assert_close(torch.tensor(numbers["weights"]), weights[:, -1].flip(-1), **CLOSE)
    torch.testing.assert_close(torch.tensor(numbers["penalties"]), bias[:, -1].flip(-1), **CLOSE)
    for slope, halves, reach, row in zip(
        *(numbers[name] for name in ("slopes", "halves", "reach", "weights")), strict=True
    ):
        assert math.exp(-slope * halves) == pytest.approx(0.5, abs=1e-3)
        assert sum(row[:reach]) >= 0.9 - 1e-4 and sum(row[: reach - 1]) < 0.9 + 1e-4


def test_six_and_twelve_heads_have_slopes_of_twice_the_power():
    by_heads = {one["n_heads"]: one["from_double"] for one in explorer().data["alibi"]}
    assert by_heads == {1: 0, 2: 0, 3: 1, 4: 0, 6: 2, 8: 0, 12: 4, 16: 0}
    assert [fraction(slope) for slope in alibi_slopes(12).tolist()[-5:]] == [
        "1/256", "0.707", "0.354", "0.177", "0.0884",
    ]  # fmt: skip


def test_another_number_of_heads_is_among_those_to_choose():
    made = explorer(n_heads=5, view="alibi")
    assert made.data["alibi"][made.selected["heads"]]["n_heads"] == 5
    assert len(made.still().axes[0].lines) == 5


@pytest.mark.parametrize("view", ["sinusoidal", "rotary", "alibi"])
def test_the_still_shows_the_view(view):
    made = explorer(view=view, pair=3)
    figure = made.still()
    assert made.still_text() and "\n" not in made.still_text()
    if view == "sinusoidal":
        assert (figure.axes[0].images[0].get_array() == made.data["sinusoidal"]["vectors"]).all()
        sine = [row[6] for row in made.data["sinusoidal"]["vectors"]]
        assert list(figure.axes[1].lines[0].get_ydata()) == sine
    elif view == "rotary":
        numbers = made.data["rotary"]["words"][0]
        assert list(figure.axes[1].lines[0].get_ydata()) == numbers["parts"][3]
        assert list(figure.axes[2].lines[0].get_ydata()) == numbers["sums"]
    else:
        assert len(figure.axes[0].lines) == 6


def test_names_of_words_are_shown_literally():
    made = explorer(words={"$_$ <img> \x00": words()}, view="rotary")
    assert made.data["rotary"]["words"][0]["name"] == "$_$ <img> U+0000"
    title = made.still().axes[2].title
    assert title.get_text().endswith("$_$ <img> U+0000") and not title.get_parse_math()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"view": "learned"}, "no view 'learned'; choose sinusoidal, rotary, alibi"),
        ({"d_model": 9}, "d_model=9 is odd; pairs need an even number, such as 10"),
        ({"d_head": 66}, "d_head=66; give a whole number from 2 to 64"),
        ({"length": 129}, "length=129; give a whole number from 2 to 128"),
        ({"length": 1}, "length=1;"),
        ({"length": 8.0}, "length=8.0;"),
        ({"n_heads": 17}, "n_heads=17; give a whole number from 1 to 16"),
        ({"n_heads": True}, "n_heads=True;"),
        ({"pair": 5}, "pair=5; give a whole number from 0 to 4"),
        ({"words": {"a": words(width=8)}}, "the query of 'a' has shape (8,); give d_head=10"),
        ({"words": {"a": (words()[0], words()[0] / 0)}}, "the key of 'a' has shape (10,)"),
    ],
)
def test_what_cannot_be_shown_is_refused(change, message):
    with pytest.raises(CourseError, match=re.escape(message)):
        explorer(**change)
