"""The table of recall: made of the lesson's own cells, whole, and each variant what it says."""

import pytest
import torch

from benchmarks.lesson_tables import recall
from course_lib.data.tables import load_table


@pytest.fixture(scope="module")
def names():
    return recall.lesson_names()


@pytest.fixture(scope="module")
def contests(names):
    return recall.contests(names)


def test_the_table_is_whole(contests):
    """An accuracy for each seed, at each distance of each contest that the module names."""
    table = load_table("recall")
    assert table["seeds"] == list(recall.SEEDS)
    assert list(table["runs"]) == list(contests)
    for name, (_, _, distances) in contests.items():
        assert list(table["runs"][name]) == [str(distance) for distance in distances]
        for accuracies in table["runs"][name].values():
            assert len(accuracies) == len(recall.SEEDS)
            assert all(0 <= accuracy <= 1 for accuracy in accuracies)


def test_the_lessons_training_finds_a_letter_at_no_distance(names):
    torch.manual_seed(0)
    reader = names["LSTMReader"](recall.VOCABULARY)
    assert names["train_to_recall"](reader, distance=1, steps=60) > 0.9


def test_open_gates_begin_at_95_percent(names):
    torch.manual_seed(0)
    reader = names["LSTMReader"](recall.VOCABULARY)
    before = forget_gate(reader)
    after = forget_gate(recall.open_gates(reader))
    assert 0.4 < before.mean() < 0.6 < 0.9 < after.mean() < 0.97


def forget_gate(reader):
    """The gate at the first character, by the formula of torch's documentation: (d_model,)."""
    lstm = reader.recurrent
    x = reader.token_embedding(torch.tensor([3]))
    gates = x @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + lstm.bias_hh_l0
    return gates.chunk(4, dim=-1)[1].sigmoid()


def test_large_vectors_are_fifty_times_as_large(names):
    reader = names["AttentionReader"](recall.VOCABULARY)
    small = reader.embedding.weight.std().item()
    large = recall.large_vectors(reader).embedding.weight.std().item()
    assert 40 < large / small < 60
