"""A configuration refuses what cannot be built, with the numbers and a remedy."""

import dataclasses
import json
import math

import pytest
import torch

from course_lib.model.config import CHOICES, GPTConfig
from course_lib.runtime import CourseError

ROTARY = {"positions": "rotary"}
LINEAR = {**ROTARY, "rotary_scaling": "linear", "rotary_factor": 2}
YARN = {**LINEAR, "rotary_scaling": "yarn"}


def test_defaults_fill_in():
    config = GPTConfig(vocab_size=65, d_model=48, n_heads=6)
    assert (config.d_head, config.kv_heads, config.hidden_width) == (8, 6, 192)
    gated = GPTConfig(vocab_size=65, d_model=48, n_heads=6, feed_forward="swiglu")
    assert gated.hidden_width == 128  # 3 · 128 = 2 · 192 columns: as many parameters
    assert GPTConfig(vocab_size=65, feed_forward="none").hidden_width == 0
    given = GPTConfig(vocab_size=65, d_model=48, n_heads=6, n_kv_heads=2, d_ff=37)
    assert (given.kv_heads, given.hidden_width) == (2, 37)


def test_a_configuration_survives_json():
    config = GPTConfig(vocab_size=67, n_kv_heads=2, positions="rotary", dropout=0.1, bias=False)
    assert GPTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    config = GPTConfig(
        vocab_size=67,
        positions="rotary",
        rotary_scaling="yarn",
        rotary_factor=4.0,
        rotary_ramp=(1.0, 4.0),
        window=32,
        qk_norm=True,
        initialisation="zero_output",
        n_experts=5,
        experts_per_token=1,
        capacity_factor=1.25,
        balance_weight=0.02,
    )
    assert GPTConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_configuration_from_before_a_field_existed_means_its_default():
    older = {"vocab_size": 67, "positions": "rotary"}
    assert GPTConfig.from_dict(older) == GPTConfig(vocab_size=67, positions="rotary")


NO_NUMBERS = ("1", [], {}, b"1", 1j, math.nan, -1, -math.inf, 10**400, torch.ones(1), object())


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: f"{type(value).__name__}")
@pytest.mark.parametrize("field", dataclasses.fields(GPTConfig), ids=lambda field: field.name)
def test_what_no_field_takes_is_refused_by_each(field, value):
    with pytest.raises(CourseError, match=rf"^{field.name}=.*(must|known)"):
        GPTConfig(**{"vocab_size": 5, field.name: value})


def test_many_heads_are_refused_at_once():
    heads = 2**31 - 1
    with pytest.raises(CourseError, match=f"use one of: 1, {heads}$"):
        GPTConfig(vocab_size=5, d_model=heads, n_heads=heads, n_kv_heads=7)


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
        ({"qk_norm": None}, "qk_norm=None must be True or False"),
        ({"window": 0}, "window=0 must be a whole number of at least 1"),
        ({"window": 65}, "window=65 is more than context_length=64, so it hides nothing; use at"),
        ({"initialisation": "zero"}, "initialisation='zero' is not known; use one of: gpt2, xav"),
        ({"rotary_scaling": "yarn"}, "nothing to scale in positions='learned'; use positions='ro"),
        ({**ROTARY, "rotary_scaling": "pi"}, "rotary_scaling='pi' is not known; use one of: none"),
        ({**ROTARY, "rotary_factor": 2}, "rotary_factor=2 does nothing with rotary_scaling='none'"),
        ({**LINEAR, "rotary_factor": 0.5}, "rotary_factor=0.5 must be from 1 to context_length=64"),
        ({**LINEAR, "rotary_factor": 65}, "rotary_factor=65 must be from 1 to context_length=64"),
        ({**LINEAR, "rotary_factor": float("nan")}, "rotary_factor=nan must be from 1"),
        ({**LINEAR, "rotary_factor": "4"}, "rotary_factor='4' must be from 1"),
        ({**YARN, "rotary_ramp": (4, 1)}, "rotary_ramp=(4, 1) must be two rising numbers of turns"),
        ({**YARN, "rotary_ramp": (1, 1)}, "rotary_ramp=(1, 1) must be two rising numbers"),
        ({**YARN, "rotary_ramp": (1.0,)}, "rotary_ramp=(1.0,) must be two rising numbers"),
        ({**YARN, "rotary_ramp": 3}, "rotary_ramp=3 must be two rising numbers"),
        ({**YARN, "rotary_ramp": (1, float("inf"))}, "rotary_ramp=(1, inf) must be two rising"),
        (
            {**ROTARY, "rotary_scaling": "ntk", "d_model": 8},
            "a head of width 2 has one pair; use wider heads, or 'linear'",
        ),
        (
            {"feed_forward": "none", "d_ff": 7},
            "d_ff=7 is the width of a feed-forward layer, and feed_forward='none' has none; use d_",
        ),
        ({"n_experts": 0}, "n_experts=0 must be a whole number of at least 1"),
        ({"n_experts": 1}, "experts_per_token=2 is more than n_experts=1; use at most 1"),
        ({"n_experts": 8, "experts_per_token": 9}, "experts_per_token=9 is more than n_experts=8"),
        ({"experts_per_token": 1}, "experts_per_token=1 does nothing without experts; set n_exp"),
        ({"capacity_factor": 1.25}, "capacity_factor=1.25 does nothing without experts; set n_ex"),
        ({"balance_weight": 0.0}, "balance_weight=0.0 does nothing without experts; set n_experts"),
        ({"n_experts": 8, "balance_weight": -1}, "balance_weight=-1 must be a finite number of at"),
        ({"n_experts": 8, "capacity_factor": 0}, "capacity_factor=0 must be a finite number above"),
        (
            {"n_experts": 8, "capacity_factor": 4},
            "room for all tokens in each of 8 experts; use less than 4, or None",
        ),
        (
            {"n_experts": 8, "feed_forward": "none"},
            "n_experts=8 are feed-forward layers, and feed_forward='none' has none; use another",
        ),
        ({"tied_head": "no"}, "tied_head='no' must be True or False"),
        ({"d_latent": 0}, "d_latent=0 must be a whole number of at least 1"),
        ({"d_latent": 129}, "d_latent=129 is wider than d_model=128, all that keys and values"),
        ({"d_latent": 8, "n_kv_heads": 4}, "n_kv_heads=4 does not go with d_latent=8, of which"),
        ({"d_latent": 8, "qk_norm": True}, "are never kept; use qk_norm=False: the latent is norm"),
        ({"d_latent": 8, "d_rotary": 4}, "nothing to turn with positions='learned'; use positions"),
        ({**ROTARY, "d_rotary": 4}, "turned beside a latent; give d_latent as well, or leave"),
        ({**ROTARY, "d_latent": 8, "d_rotary": 5}, "turn pairs, and d_rotary=5 is odd; use 6"),
        (
            {**ROTARY, "d_latent": 8, "d_rotary": 2, "rotary_scaling": "ntk"},
            "a turned part of width 2 has one pair; use a larger d_rotary, or 'linear'",
        ),
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
        ({"vocab_size": 65, "width": 3}, "unknown fields: width; known are: balance_weight"),
        ({"d_model": 8}, "lacks vocab_size"),
        ({"vocab_size": 65, "rotary_ramp": 3}, "rotary_ramp=3 must be two rising numbers"),
        ({"vocab_size": 65, "rotary_ramp": [2, 1]}, "must be two rising numbers"),
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
        {"window": 64},
        {**YARN, "rotary_factor": 64, "rotary_ramp": (1.0, 32.0)},
        {**LINEAR, "d_model": 8},
        {"n_experts": 1, "experts_per_token": 1},
        {"n_experts": 8, "experts_per_token": 8},
        {"n_experts": 8, "capacity_factor": 3.99},
        {"n_experts": 8, "balance_weight": 0.0},
    ):
        GPTConfig(vocab_size=65, **values)
