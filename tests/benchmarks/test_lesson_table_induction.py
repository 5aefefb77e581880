"""The table of induction heads: what is measured is what its names say, and the file is whole."""

from __future__ import annotations

import pytest
import torch

from benchmarks.lesson_tables import induction as table
from course_lib.data.tables import load_table
from course_lib.lens.heads import ablated, mean_outputs
from course_lib.training.induction import accuracy, induction_model, repeated_sequences


def test_a_seed_decides_the_trained_model():
    first, again, other = (table.trained(seed, 1, steps=2) for seed in (0, 0, 1))
    weights = [model.head.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])
    assert len(first.blocks) == 1 and len(table.trained(0, 2, steps=0).blocks) == 2


def test_each_number_is_that_of_its_head():
    model, repeats = induction_model(0), repeated_sequences(7, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=torch.manual_seed(3)))
    found = table.measure(model, repeats)
    assert found["accuracy"] == pytest.approx(accuracy(model, repeats), abs=6e-4)
    means = mean_outputs(model, repeats.tokens)
    for layer, head in ((0, 3), (1, 0)):
        with ablated(model, [(layer, head)], means):
            expected = accuracy(model, repeats)
        assert found["without"][layer][head] == pytest.approx(expected, abs=6e-4)
    with ablated(model, [(1, head) for head in range(4)], means):
        assert found["without last layer"] == pytest.approx(accuracy(model, repeats), abs=6e-4)


def test_the_file_is_of_these_settings_and_complete():
    measured = load_table("induction")
    assert measured["seeds"] == list(table.SEEDS) and measured["settings"] == table.SETTINGS
    assert set(measured["models"]) == {"two layers", "one layer"}
    for name, layers in (("two layers", 2), ("one layer", 1)):
        models = measured["models"][name]
        assert len(models) == len(table.SEEDS)
        for found in models:
            for kind in ("previous token", "induction", "without"):
                assert [len(row) for row in found[kind]] == [4] * layers


def test_what_the_lesson_says_of_it():
    two, one = (load_table("induction")["models"][name] for name in ("two layers", "one layer"))
    assert all(found["accuracy"] > 0.95 for found in two)
    assert all(0.1 < found["accuracy"] < 0.2 for found in one)
    assert all(min(found["without"][1]) > 0.9 for found in two), "no induction head is missed alone"
    assert all(found["without last layer"] < 0.06 for found in two)
    assert all(min(found["induction"][1]) > 0.7 for found in two)
