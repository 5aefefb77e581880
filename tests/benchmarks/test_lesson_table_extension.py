"""The table of lesson 07's stretched models: the same weights, other angles, a loss a seed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from benchmarks.lesson_tables import extension, positions
from course_lib.data.corpora import load_corpus
from course_lib.data.tables import load_table


@pytest.fixture(scope="module")
def model():
    return positions.newborn(63, "rotary", seed=0)


@pytest.fixture
def inputs():
    return torch.randint(63, (2, 17), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_a_model_stretched_by_nothing_predicts_as_before(model, inputs):
    same = extension.stretched(model, 256, extension.METHODS["as trained"])
    torch.testing.assert_close(same(inputs), model(inputs))


@torch.no_grad()
def test_interpolation_reads_every_fourth_place_as_the_trained_model_reads_each(model, inputs):
    slow = extension.stretched(model, 256, extension.METHODS["interpolation"])
    torch.testing.assert_close(slow(inputs, positions=4 * torch.arange(17)), model(inputs))


def test_the_ramp_is_measured_in_the_length_trained_at(model):
    for method, ramp in (("YaRN, ramp 1–32", (1.0, 32.0)), ("YaRN, ramp 1–4", (1.0, 4.0))):
        rotary = extension.stretched(model, 256, extension.METHODS[method]).attention_positions
        assert (rotary.trained_length, rotary.factor, rotary.ramp) == (64.0, 4.0, ramp)


def test_each_method_is_measured_at_each_length_and_after_tuning(monkeypatch):
    corpus = load_corpus("shakespeare")
    short = replace(corpus, validation=corpus.validation[:700])
    monkeypatch.setattr(extension, "load_corpus", lambda name: short)
    losses = {}
    lines = list(extension.measure(losses, seeds=(0, 1), steps=2, tuning_steps=1))
    assert len(lines) == 12 and list(losses) == ["64 characters", *extension.METHODS]
    for method, row in losses.items():
        lengths = ["64"] if method == "64 characters" else ["64", "256"]
        assert list(row) == [*lengths, f"{lengths[-1]} tuned"]
        assert all(len(values) == 2 for values in row.values())
        assert row[lengths[-1]] != row[f"{lengths[-1]} tuned"]
    assert losses["as trained"]["64"] == losses["64 characters"]["64"], "tuning left it alone"


def test_the_shipped_table_has_the_settings_of_the_module():
    table = load_table("extension")
    assert table["seeds"] == list(positions.SEEDS) and table["model"] == positions.SHAPE
    assert table["tuning"]["steps"] == extension.TUNING_STEPS
    assert list(table["loss"]) == list(extension.CASES)
    for row in table["loss"].values():
        assert all(len(losses) == len(table["seeds"]) for losses in row.values())
