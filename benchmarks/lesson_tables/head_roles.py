"""Lesson 13's table: do other seeds give a model of Tang verse a head that serves the rhyme alone?

    python -m benchmarks.lesson_tables.head_roles

writes data/tables/head_roles.json. Seed 0 is the shipped checkpoint; for the others the same preset
is trained anew. For every head its scores, and how much worse each kind of prediction gets when its
output is replaced by its mean. One thread; a quarter of an hour.
"""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.lesson_tables import write_table
from course_lib.data.corpora import DATA_FOLDER, Corpus, load_corpus
from course_lib.lens.capture import capture
from course_lib.lens.heads import ablated, head_scores, mean_outputs, token_losses
from course_lib.lens.predictions import kinds_of_predictions
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import set_threads
from course_lib.training.checkpoint import load_run
from course_lib.training.presets import get_preset
from course_lib.training.trainer import Trainer

CORPUS = "tang"
SEEDS = (0, 1, 2)
PRESET = "laptop"
WINDOWS = 32  # of the validation split, evenly spaced, as long as the context
SETTINGS = {
    "model": "corpus tang, preset laptop; seed 0 is the shipped checkpoint",
    "scores": "mean attention on places of a kind, (layer, head); chance: uniform attention",
    "worse": "loss in nats with the head's output replaced by its mean, minus loss, (layer, head)",
}


def model_of(corpus: Corpus, seed: int, steps: int | None = None) -> GPT:
    """The shipped model for seed 0, else one trained by the same preset (or its first steps)."""
    if seed == 0:
        return load_run(DATA_FOLDER / "checkpoints" / corpus.name)[0]
    preset = get_preset(PRESET)
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **preset.model))
    recipe = preset.training.adapted(seed=seed)
    for record in Trainer(model, corpus.train, corpus.validation, recipe).run():
        if record.step == steps:
            break
    return model


def windows_of(corpus: Corpus, length: int, windows: int = WINDOWS) -> Tensor:
    """Windows of the validation split, evenly spaced: (window, length + 1)."""
    starts = torch.linspace(0, len(corpus.validation) - length - 1, windows).long()
    return torch.stack([corpus.validation[start : start + length + 1] for start in starts])


def measure(model: GPT, corpus: Corpus, tokens: Tensor) -> dict:
    """Scores and ablations of all heads on tokens (batch, position)."""
    newline = corpus.tokenizer.encode("\n").item()
    scores = head_scores(capture(model, tokens[:, :-1]), newline)
    kinds = kinds_of_predictions([corpus.tokenizer.decode(row) for row in tokens])
    means, whole = mean_outputs(model, tokens[:, :-1]), token_losses(model, tokens)
    shape = (model.config.n_layers, model.config.n_heads)
    worse = {kind: torch.zeros(shape) for kind in ("all", *kinds)}
    for layer in range(shape[0]):
        for head in range(shape[1]):
            with ablated(model, [(layer, head)], means):
                more = token_losses(model, tokens) - whole
            worse["all"][layer, head] = more.mean()
            for kind, where in kinds.items():
                worse[kind][layer, head] = more[where].mean()
    return {
        "loss": round(whole.mean().item(), 4),
        "predictions": {kind: int(where.sum()) for kind, where in kinds.items()},
        "chance": {name: round(each.chance, 4) for name, each in scores.items()},
        "scores": {name: rounded(each.score) for name, each in scores.items()},
        "worse": {kind: rounded(each) for kind, each in worse.items()},
    }


def rounded(values: Tensor) -> list[list[float]]:
    """Three decimals."""
    return [[round(value, 3) for value in row] for row in values.tolist()]


def main() -> None:
    """Measure every seed; what is measured is on disk after each."""
    set_threads(1)
    corpus = load_corpus(CORPUS)
    found: list[dict] = []
    for seed in SEEDS:
        model = model_of(corpus, seed)
        found.append(measure(model, corpus, windows_of(corpus, model.config.context_length)))
        write_table("head_roles", seeds=SEEDS, threads=1, settings=SETTINGS, models=found)
        print(seed, found[-1]["loss"], flush=True)


if __name__ == "__main__":
    main()
