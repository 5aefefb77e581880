"""A configuration refuses what cannot be built, with the numbers and a remedy."""

import dataclasses
import json

import pytest

from course_lib.model.config import CHOICES, GPTConfig
from course_lib.runtime import CourseError


def test_defaults_fill_in():
    config = GPTConfig(vocab_size=65, d_model=48, n_heads=6)
    assert (config.d_head, config.kv_heads, config.hidden_width) == (8, 6, 192)
    gated = GPTConfig(vocab_size=65, d_model=48, n_heads=6, feed_forward="swiglu")
    assert gated.hidden_width == 128  # 3 · 128 = 2 · 192 columns: as many parameters
    given = GPTConfig(vocab_size=65, d_model=48, n_heads=6, n_kv_heads=2, d_ff=37)
    assert (given.kv_heads, given.hidden_width) == (2, 37)


def test_a_configuration_survives_json():
    config = GPTConfig(vocab_size=67, n_kv_heads=2, positions="rotary", dropout=0.1, bias=False)
    assert GPTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_configuration_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        GPTConfig(vocab_size=2).d_model = 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d_model": 50, "n_heads": 8}, "d_model=50 is not divisible by n_heads=8; use 48 or 56"),
        ({"d_model": 5, "n_heads": 8}, "d_model=5 is not divisible by n_heads=8; use 8"),
        (
            {"d_model": 520, "n_heads": 8, "positions": "rotary"},
            "d_model=520 over n_heads=8 gives 65 per head, which is odd; use d_model=528",
        ),
        (
            {"d_model": 20, "n_heads": 10, "n_kv_heads": 3},
            "n_heads=10 is not divisible by n_kv_heads=3; use one of: 1, 2, 5, 10",
        ),
        ({"n_heads": 2, "n_kv_heads": 4}, "n_heads=2 is not divisible by n_kv_heads=4"),
        ({"n_heads": 0}, "n_heads=0 must be a whole number of at least 1"),
        ({"n_kv_heads": 0}, "n_kv_heads=0 must be a whole number of at least 1"),
        ({"d_model": -8}, "d_model=-8 must be a whole number"),
        ({"n_layers": 2.0}, "n_layers=2.0 must be a whole number"),
        ({"d_ff": True}, "d_ff=True must be a whole number"),
        ({"vocab_size": "65"}, "vocab_size='65' must be a whole number"),
        (
            {"d_model": 15, "n_heads": 5, "positions": "sinusoidal"},
            "even d_model, got 15; use 20 or other positions",
        ),
        ({"positions": "rope"}, "positions='rope' is not known; use one of: none, sinusoidal"),
        ({"norm": None}, "norm=None is not known; use one of: layer_norm, rms_norm"),
        ({"dropout": 1.0}, "dropout=1.0 must be at least 0 and below 1"),
        ({"dropout": float("nan")}, "dropout=nan must be"),
        ({"rotary_base": float("inf")}, "rotary_base=inf must be"),
        ({"bias": 1}, "bias=1 must be True or False"),
        ({"tied_head": "no"}, "tied_head='no' must be True or False"),
    ],
)
def test_refusals(values, message):
    with pytest.raises(CourseError) as refusal:
        GPTConfig(**{"vocab_size": 65, **values})
    assert message in str(refusal.value)


@pytest.mark.parametrize("positions", sorted(set(CHOICES["positions"]) - {"rotary"}))
def test_an_odd_head_size_is_fine_but_for_rotary(positions):
    assert GPTConfig(vocab_size=65, d_model=520, n_heads=8, positions=positions).d_head == 65


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vocab_size": 65, "width": 3}, "unknown fields: width; known are: bias"),
        ({"d_model": 8}, "lacks vocab_size"),
        (None, "not the fields of a configuration"),
        ([1, 2], "not the fields of a configuration"),
    ],
)
def test_fields_from_elsewhere_are_checked(values, message):
    with pytest.raises(CourseError, match=message):
        GPTConfig.from_dict(values)


def test_the_remedies_work():
    for values in (
        {"d_model": 48, "n_heads": 8},
        {"d_model": 56, "n_heads": 8},
        {"d_model": 528, "n_heads": 8, "positions": "rotary"},
        {"d_model": 20, "n_heads": 5, "positions": "sinusoidal"},
    ):
        GPTConfig(vocab_size=65, **values)
