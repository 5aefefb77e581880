"""The checkpoint that lessons use is a run of `plain`, whole and readable."""

import json
import math

import pytest

from course_lib.data.corpora import load_corpus
from course_lib.runtime import PROJECT_FOLDER
from course_lib.training.checkpoint import load_run
from course_lib.training.presets import TrainingConfig, get_preset
from course_lib.training.trainer import evaluate

FOLDER = PROJECT_FOLDER / "data" / "checkpoints" / "shakespeare"
PLAIN_LOSS = 1.921  # what this recipe reached on this corpus when it was chosen as the yardstick


@pytest.fixture(scope="module")
def shipped():
    return load_run(FOLDER)


def test_it_was_trained_by_the_recipe_as_it_stands(shipped):
    model, _, config = shipped
    preset = get_preset("plain")
    stored = dict(config["training"])
    assert (stored.pop("corpus"), stored.pop("preset")) == ("shakespeare", "plain")
    assert TrainingConfig.from_dict(stored) == preset.training
    assert dict(preset.model).items() <= model.config.to_dict().items()


def test_its_loss_is_the_stored_one_and_that_of_plain(shipped):
    model, tokenizer, _ = shipped
    corpus = load_corpus("shakespeare")
    assert tokenizer.vocabulary == corpus.tokenizer.vocabulary
    result = json.loads((FOLDER / "result.json").read_text(encoding="utf-8"))
    loss = evaluate(model, corpus.validation)
    assert loss == pytest.approx(result["val_loss"], abs=1e-4)
    assert loss == pytest.approx(PLAIN_LOSS, abs=0.04)
    assert loss < math.log(tokenizer.vocab_size) / 2


def test_it_is_small_enough_to_ship():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 6e6
