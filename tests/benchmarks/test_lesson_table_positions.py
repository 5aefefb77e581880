"""The table of position schemes: the same characters are judged everywhere, in the right place."""

from __future__ import annotations

import math

import torch
from torch.nn.functional import cross_entropy

from benchmarks.lesson_tables import positions as table
from course_lib.data.tables import load_table


def test_the_same_characters_are_judged_at_every_length():
    text = torch.arange(900) % 7
    model = table.newborn(7, "none", seed=0).eval()
    for length in (64, 512):
        surprises = []
        for end in range(512, 900, 64):
            logits = model(text[end - length : end][None])[0, -table.JUDGED :]
            targets = text[end + 1 - table.JUDGED : end + 1]
            surprises.append(cross_entropy(logits, targets).item())
        expected = sum(surprises) / len(surprises)
        assert math.isclose(table.loss_at(model, text, length), expected, rel_tol=1e-5)


def test_a_learned_model_ends_where_its_table_does():
    model = table.newborn(7, "learned", seed=0)
    text = torch.arange(700) % 7
    assert table.loss_at(model, text, 64) > 0 and table.loss_at(model, text, 128) is None


def test_each_model_is_the_one_that_its_place_in_the_table_names(monkeypatch):
    seen = []

    def loss_at(model, text, length):
        seen.append((model.config.positions, model.config.n_heads, length))
        return float(len(seen))

    monkeypatch.setattr(table, "loss_at", loss_at)
    losses = {}
    lines = list(table.measure(losses, ("none", "alibi"), seeds=(3, 4), steps=1, n_heads=8))
    assert len(lines) == 4 and all("8 heads" in line for line in lines)
    for scheme, by_length in losses.items():
        for length, values in by_length.items():
            where = [i + 1.0 for i, one in enumerate(seen) if one == (scheme, 8, int(length))]
            assert values == where and len(values) == 2


def test_the_seed_decides_the_model():
    first, again, other = (table.newborn(7, "alibi", seed) for seed in (0, 0, 1))
    weights = [model.token_embedding.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_the_file_is_of_these_settings_and_complete():
    measured = load_table("positions")
    assert measured["model"] == table.SHAPE and measured["more_heads"] == table.MORE_HEADS
    settings = {"steps": table.STEPS, "batch_size": table.BATCH, "learning_rate": table.RATE}
    assert measured["training"] == settings and measured["seeds"] == list(table.SEEDS)
    for part, schemes in (
        ("loss", table.SCHEMES),
        ("loss_with_more_heads", table.SCHEMES_WITH_MORE_HEADS),
    ):
        assert set(measured[part]) == set(schemes)
        for by_length in measured[part].values():
            assert [int(length) for length in by_length] == list(table.LENGTHS)
            assert all(len(values) == len(table.SEEDS) for values in by_length.values())
