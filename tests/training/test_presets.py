"""Recipes: what is in them, how they are adapted, what they refuse."""

import dataclasses
import json
import math

import pytest
import torch

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.runtime import CourseError
from course_lib.training.presets import PRESETS, TrainingConfig, get_preset


def test_plain_is_the_yardstick():
    plain = get_preset("plain")
    config = GPTConfig(vocab_size=65, **plain.model)
    assert (config.n_layers, config.n_heads, config.d_model, config.context_length) == (
        4,
        4,
        128,
        64,
    )
    assert (config.positions, config.norm, config.feed_forward) == ("learned", "layer_norm", "gelu")
    assert (config.tied_head, config.dropout) == (True, 0.0)
    training = plain.training
    assert (training.steps, training.batch_size, training.warmup_steps) == (2_000, 12, 100)
    assert (training.learning_rate, training.minimum_rate) == (1e-3, 1e-4)
    assert (training.beta1, training.beta2) == (0.9, 0.99)
    assert (training.weight_decay, training.gradient_clip) == (0.1, 1.0)
    assert (training.optimizer, training.schedule) == ("adamw", "cosine")
    assert (training.precision, training.fused_adamw, training.compile) == ("float32", False, False)
    assert training == TrainingConfig()


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_builds(name):
    GPTConfig(vocab_size=65, **PRESETS[name].model)
    json.dumps(dict(PRESETS[name].model), allow_nan=False)


def test_the_gpu_preset_has_about_ten_million_parameters():
    with torch.device("meta"):
        model = GPT(GPTConfig(vocab_size=65, **PRESETS["gpu"].model))
    assert 10_000_000 < count_parameters(model) < 11_000_000


def test_a_changed_preset_differs_where_it_says():
    plain = get_preset("plain")
    changed = plain.changed(model={"n_layers": 3}, training={"optimizer": "muon"})
    assert changed.model == {**plain.model, "n_layers": 3}
    assert changed.training == TrainingConfig(optimizer="muon")
    assert plain.model["n_layers"] == 4
    with pytest.raises(TypeError):
        changed.model["n_layers"] = 5
    with pytest.raises(CourseError, match="optimizer='sgd' is not known"):
        plain.changed(model={}, training={"optimizer": "sgd"})


@pytest.mark.parametrize("name", PRESETS)
def test_a_recipe_comes_back_from_json(name):
    recipe = PRESETS[name].training
    text = json.dumps(recipe.to_dict(), allow_nan=False)
    assert TrainingConfig.from_dict(json.loads(text)) == recipe


def test_a_recipe_from_before_a_field_has_its_default():
    assert TrainingConfig.from_dict({"steps": 300, "gradient_clip": 2.0}) == TrainingConfig(
        steps=300, gradient_clip=2.0
    )
    with pytest.raises(CourseError, match=r"unknown fields: rate; known are: batch_size, beta1"):
        TrainingConfig.from_dict({"rate": 1.0})
    with pytest.raises(CourseError, match="are not the fields of a recipe"):
        TrainingConfig.from_dict([])


@pytest.mark.parametrize(
    ("steps", "warmup"), [(2_000, 100), (200, 10), (19, 0), (20, 1), (1, 0), (4_001, 200)]
)
def test_another_length_keeps_the_share_of_the_warm_up(steps, warmup):
    adapted = TrainingConfig().adapted(steps=steps)
    assert (adapted.steps, adapted.warmup_steps) == (steps, warmup)


def test_adapting_changes_what_was_asked_for_only():
    recipe = TrainingConfig(batch_size=5, seed=3)
    assert recipe.adapted() == recipe
    assert recipe.adapted(seed=4) == TrainingConfig(batch_size=5, seed=4)
    assert recipe.adapted(steps=2_000) == recipe
    quick = get_preset("quick").training
    assert quick.adapted(steps=50) == dataclasses.replace(quick, steps=50)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"steps": 0}, "steps=0 must be a whole number of at least 1"),
        ({"steps": 2.0}, "steps=2.0 must be a whole number"),
        ({"batch_size": True}, "batch_size=True must be a whole number"),
        ({"evaluate_every": 0}, "evaluate_every=0 must be"),
        ({"seed": -1}, "seed=-1 must be a whole number from 0 to 2^63 - 1"),
        ({"seed": 2**63}, "must be a whole number from 0 to 2^63 - 1"),
        ({"steps": 100}, "warmup_steps=100 does not fit into steps=100; use 0 to 99"),
        ({"warmup_steps": -1}, "warmup_steps=-1 does not fit"),
        ({"warmup_steps": 1.5}, "warmup_steps=1.5 does not fit"),
        ({"minimum_rate": 2e-3}, "minimum_rate=0.002 must lie between 0 and learning_rate=0.001"),
        ({"learning_rate": 0.0, "minimum_rate": 0.0}, "learning_rate=0.0 must be above 0"),
        ({"learning_rate": math.nan}, "learning_rate=nan"),
        ({"learning_rate": math.inf}, "above 0 and finite"),
        ({"beta1": 1.0}, "beta1=1.0 must be at least 0 and below 1"),
        ({"beta2": -0.1}, "beta2=-0.1 must be"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1 must be 0 or above"),
        ({"weight_decay": math.nan}, "weight_decay=nan must be 0 or above"),
        ({"gradient_clip": 0.0}, "gradient_clip=0.0 must be above 0; float('inf') clips nothing"),
        ({"gradient_clip": -1.0}, "gradient_clip=-1.0 must be above 0"),
        ({"gradient_clip": math.nan}, "gradient_clip=nan must be above 0"),
        ({"schedule": "step"}, "schedule='step' is not known; use one of: cosine, linear"),
        ({"optimizer": "sgd"}, "optimizer='sgd' is not known; use one of: adamw, muon"),
        (
            {"precision": "float8"},
            "precision='float8' is not known; use one of: float32, bfloat16, float16, auto",
        ),
        ({"cut_into": 0}, "cut_into=0 must be a whole number of at least 1"),
        ({"cut_into": 2, "cut_share": 1.5}, "cut_share=1.5 must be from 0 to 1"),
        ({"cut_into": 2}, "cut_into=2 and cut_share=0.0 do not go together"),
        ({"cut_share": 0.5}, "cut_into=1 and cut_share=0.5 do not go together"),
        ({"decay_share": 0}, "decay_share=0 must be above 0 and at most 1"),
        ({"decay_share": 1.5}, "decay_share=1.5 must be above 0 and at most 1"),
        ({"muon_rate": 0.0}, "muon_rate=0.0 must be above 0 and finite"),
        ({"muon_rate": math.inf}, "muon_rate=inf must be above 0 and finite"),
        ({"muon_momentum": 1.0}, "muon_momentum=1.0 must be at least 0 and below 1"),
        ({"fused_adamw": 1}, "fused_adamw=1 must be True or False"),
        ({"compile": "yes"}, "compile='yes' must be True or False"),
    ],
)
def test_refusals(values, message):
    with pytest.raises(CourseError) as refusal:
        TrainingConfig(**values)
    assert message in str(refusal.value)


NO_NUMBERS = ("1", None, [], {}, b"1", 1j, True, math.nan, -1, -math.inf, 10**400, torch.ones(1))


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: f"{type(value).__name__}")
@pytest.mark.parametrize("field", dataclasses.fields(TrainingConfig), ids=lambda field: field.name)
def test_what_no_field_takes_is_refused_by_each(field, value):
    if (field.type, value) == ("bool", True):
        return
    with pytest.raises(CourseError, match=rf"^{field.name}=.*(must|known|fit)"):
        TrainingConfig(**{field.name: value})


def test_refusals_when_adapting():
    with pytest.raises(CourseError, match="steps=0 must be"):
        TrainingConfig().adapted(steps=0)
    with pytest.raises(CourseError, match="steps=-5 must be"):
        TrainingConfig().adapted(steps=-5)


def test_an_unknown_preset_is_refused_with_the_names_there_are():
    with pytest.raises(CourseError, match=r"no preset 'plane'; use one of: plain"):
        get_preset("plane")
