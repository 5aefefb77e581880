"""The table of head roles: windows, numbers and models are those that their names say."""

from __future__ import annotations

import pytest
import torch

from benchmarks.lesson_tables import head_roles as table
from course_lib.data.corpora import load_corpus
from course_lib.data.tables import load_table
from course_lib.lens.heads import ablated, mean_outputs, token_losses
from course_lib.lens.predictions import kinds_of_predictions


@pytest.fixture(scope="module")
def shakespeare():
    return load_corpus("shakespeare")


def test_windows_are_of_the_validation_split_from_its_beginning_to_its_end(shakespeare):
    windows = table.windows_of(shakespeare, length=29, windows=5)
    assert windows.shape == (5, 30)
    assert torch.equal(windows[0], shakespeare.validation[:30])
    assert torch.equal(windows[-1], shakespeare.validation[-30:])


def test_each_number_is_that_of_its_head_and_kind(shakespeare):
    model, tokens = table.model_of(shakespeare, 0), table.windows_of(shakespeare, 128, windows=3)
    found = table.measure(model, shakespeare, tokens)
    means, whole = mean_outputs(model, tokens[:, :-1]), token_losses(model, tokens)
    kinds = kinds_of_predictions([shakespeare.tokenizer.decode(row) for row in tokens])
    with ablated(model, [(0, 3)], means):
        more = token_losses(model, tokens) - whole
    assert found["worse"]["all"][0][3] == pytest.approx(more.mean().item(), abs=6e-4)
    for kind, where in kinds.items():
        assert found["worse"][kind][0][3] == pytest.approx(more[where].mean().item(), abs=6e-4)
        assert found["predictions"][kind] == where.sum()
    assert found["scores"]["previous token"][0][3] > 0.5 > 0.1 > found["chance"]["previous token"]


def test_another_seed_is_another_model_of_the_same_recipe(shakespeare):
    shipped, other = table.model_of(shakespeare, 0), table.model_of(shakespeare, 5, steps=1)
    again = table.model_of(shakespeare, 5, steps=1)
    assert other.config == shipped.config
    weights = [model.head.weight for model in (shipped, other, again)]
    assert torch.equal(weights[1], weights[2]) and not torch.equal(weights[0], weights[1])


def test_the_file_is_of_these_settings_and_complete():
    measured = load_table("head_roles")
    assert measured["seeds"] == list(table.SEEDS) and measured["settings"] == table.SETTINGS
    assert len(measured["models"]) == len(table.SEEDS)
    for found in measured["models"]:
        assert set(found["worse"]) == {"all", *found["predictions"]}
        assert all([len(row) for row in each] == [4] * 4 for each in found["worse"].values())


def test_what_the_lesson_says_of_it():
    serving_rhymes = []
    for found in load_table("head_roles")["models"]:
        worse = {kind: torch.tensor(each) for kind, each in found["worse"].items()}
        rest = [each for kind, each in worse.items() if kind not in ("end of couplet", "all")]
        alone = (worse["end of couplet"] > 0.3) & (torch.stack(rest).amax(dim=0) < 0.1)
        serving_rhymes.append(alone.nonzero().tolist())
    assert serving_rhymes == [[[3, 0]], [[2, 3], [3, 1]], []]
