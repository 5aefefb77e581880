"""Lesson 15's table: models of equal size, heads shared as it says, and the file is complete."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from benchmarks.lesson_tables import smaller_caches as table_of
from course_lib.data.corpora import DATA_FOLDER, load_corpus
from course_lib.data.tables import load_table
from course_lib.model.cache import CachedGPT
from course_lib.model.gpt import GPT, count_parameters
from course_lib.training.checkpoint import load_run


@pytest.fixture(scope="module")
def shipped():
    return load_run(DATA_FOLDER / "checkpoints" / "shakespeare")[0]


def test_models_differ_in_their_attention_and_are_of_one_size():
    configs = {kind: table_of.config_of(63, kind) for kind in table_of.KINDS}
    sizes = {kind: count_parameters(GPT(config)) for kind, config in configs.items()}
    one_hidden_unit = 2 * 128 * 2
    assert max(sizes.values()) - min(sizes.values()) < one_hidden_unit
    assert configs["MHA"].d_ff == 512 < min(configs[kind].d_ff for kind in ("GQA", "MQA", "MLA"))
    kept = {kind: CachedGPT(GPT(config)).bytes // (2 * 64 * 4) for kind, config in configs.items()}
    assert kept == {"MHA": 256, "GQA": 64, "MQA": 32, "MLA": 40}


@pytest.mark.parametrize("n_kv_heads", table_of.HEADS_LEFT)
def test_a_shared_matrix_is_the_mean_or_the_first_of_its_group_by_loop(n_kv_heads):
    weight = torch.randn(4 * 3, 5)  # four heads of three
    heads = list(weight.split(3))
    group = 4 // n_kv_heads
    for way in ("mean", "first"):
        got = table_of.shared(weight, 4, n_kv_heads, way).split(3)
        for number, head in enumerate(got):
            members = heads[number * group : (number + 1) * group]
            expected = sum(members) / group if way == "mean" else members[0]
            torch.testing.assert_close(head, expected)
    new = table_of.shared(weight, 4, n_kv_heads, "random")
    assert new.shape == (3 * n_kv_heads, 5) and not torch.equal(new[0], weight[0])


def test_a_conversion_to_as_many_heads_changes_nothing(shipped):
    tokens = torch.arange(40)[None]
    with torch.no_grad():
        torch.testing.assert_close(table_of.converted(shipped, 4, "mean")(tokens), shipped(tokens))
        assert not torch.allclose(
            table_of.converted(shipped, 2, "mean")(tokens), shipped(tokens), atol=0.1
        )


def test_recovery_trains_a_copy(shipped):
    corpus = load_corpus("shakespeare")
    short = dataclasses.replace(corpus, validation=corpus.validation[:600])
    model = table_of.converted(shipped, 1, "mean")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    losses = table_of.recovery(model, short, seed=1, stops=(2,))
    assert losses[1] < losses[0]
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    assert losses == table_of.recovery(model, short, seed=1, stops=(2,))


def test_a_seed_gives_one_loss_for_each_kind_and_the_same_again():
    corpus = load_corpus("shakespeare")
    short = dataclasses.replace(corpus, validation=corpus.validation[:600])
    losses = dict(table_of.measure_kinds(short, seeds=(1,), steps=2))
    assert list(losses) == list(table_of.KINDS)
    assert all(3 < loss < 4.5 for loss in losses.values())
    assert losses == dict(table_of.measure_kinds(short, seeds=(1,), steps=2))


def test_the_shipped_table_is_complete():
    table = load_table("smaller_caches")
    assert table["seeds"] == list(table_of.SEEDS)
    assert table["kinds"] == table_of.KINDS and table["model"] == table_of.SHAPE
    assert table["training"] == {
        "steps": table_of.STEPS,
        "batch_size": table_of.BATCH,
        "learning_rate": table_of.RATE,
    }
    assert list(table["losses"]) == list(table_of.KINDS)
    assert all(len(losses) == len(table_of.SEEDS) for losses in table["losses"].values())
    conversion = table["conversion"]
    assert conversion["steps"] == [0, *table_of.RECOVERY_STEPS]
    ways = [f"{n} heads, {way}" for n in table_of.HEADS_LEFT for way in table_of.WAYS]
    assert list(conversion["losses"]) == ["unchanged", *ways]
    for by_seed in conversion["losses"].values():
        assert len(by_seed) == len(conversion["seeds"]) == len(table_of.CONVERTED_SEEDS)
        assert all(len(losses) == len(conversion["steps"]) for losses in by_seed)
