"""The checkpoints that lessons use are runs of `laptop`, whole, readable and as good as told."""

import json
import math
import re

import pytest
import torch

from course_lib.data.corpora import load_corpus
from course_lib.model.gpt import count_parameters
from course_lib.runtime import PROJECT_FOLDER
from course_lib.training.checkpoint import load_run
from course_lib.training.presets import TrainingConfig, get_preset
from course_lib.training.trainer import evaluate

FOLDERS = {name: PROJECT_FOLDER / "data" / "checkpoints" / name for name in ("shakespeare", "tang")}
TABLE = (PROJECT_FOLDER / "data" / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=FOLDERS)
def shipped(request):
    return request.param, *load_run(FOLDERS[request.param])


def test_it_was_trained_by_the_recipe_as_it_stands(shipped):
    name, model, _, config = shipped
    preset = get_preset("laptop")
    stored = dict(config["training"])
    assert (stored.pop("corpus"), stored.pop("preset")) == (name, "laptop")
    assert TrainingConfig.from_dict(stored) == preset.training
    assert dict(preset.model).items() <= model.config.to_dict().items()


def test_its_losses_are_the_stored_ones_and_those_of_the_table(shipped):
    name, model, tokenizer, _ = shipped
    corpus = load_corpus(name)
    assert tokenizer.vocabulary == corpus.tokenizer.vocabulary
    result = json.loads((FOLDERS[name] / "result.json").read_text(encoding="utf-8"))
    validation, test = evaluate(model, corpus.validation), evaluate(model, corpus.test)
    assert validation == pytest.approx(result["val_loss"], abs=1e-4)
    assert test == pytest.approx(result["test_loss"], abs=1e-4)
    row = next(line for line in TABLE.splitlines() if f"`checkpoints/{name}/`" in line)
    told = [float(number) for number in re.findall(r"\b\d\.\d{3}\b", row)]
    assert told == [round(validation, 3), round(test, 3)]
    assert f"| {count_parameters(model):,} |" in row


def test_it_guesses_far_better_than_by_counting_single_characters(shipped):
    name, model, _, _ = shipped
    corpus = load_corpus(name)
    counts = torch.bincount(corpus.train, minlength=corpus.tokenizer.vocab_size) + 1.0
    by_counting = -(counts / counts.sum()).log()[corpus.validation].mean().item()
    assert by_counting < math.log(corpus.tokenizer.vocab_size)
    assert evaluate(model, corpus.validation) < by_counting - 1.5


def test_it_is_small_enough_to_ship_and_holds_nothing_else(shipped):
    files = {file.name: file.stat().st_size for file in FOLDERS[shipped[0]].iterdir()}
    assert sorted(files) == ["config.json", "history.csv", "model.safetensors", "result.json"]
    assert sum(files.values()) < 6e6
