"""Lesson 08's table: Post-LN against Pre-LN, with and without warm-up, over five seeds.

    python -m benchmarks.lesson_tables.norm_placement

One seed would mislead, and the notebook has no time for five. One thread; about twenty minutes.
"""

from __future__ import annotations

import math

import torch

from benchmarks.lesson_tables import write_table
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import set_threads
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Trainer

SEEDS = (0, 1, 2, 3, 4)
# layers, learning rate, placement, steps of warm-up: in the order in which they are measured
TRIALS = (
    (6, 2e-3, "post", 0),
    (6, 2e-3, "post", 100),
    (6, 2e-3, "pre", 0),
    (6, 2e-3, "pre", 100),
    (6, 1e-3, "post", 0),
    (6, 1e-3, "post", 100),
    (6, 1e-3, "pre", 0),
    (6, 1e-3, "pre", 100),
    (12, 2e-3, "post", 0),
    (12, 2e-3, "post", 100),
    (12, 2e-3, "pre", 0),
)
STEPS = 300
SETTINGS = {
    "corpus": "shakespeare",
    "model": "d_model 64, 4 heads, context 32, learned positions, untied head",
    "initialisation": "linear layers Xavier, embeddings N(0, 0.7²)",
    "training": "300 steps of 8 windows, Adam (0.9, 0.999), constant rate, no clipping, no decay",
    "loss": "nats per character on the first 20,000 characters of the validation split",
}


def newborn(corpus: Corpus, placement: str, n_layers: int, seed: int) -> GPT:
    """A model before training, its norms placed "pre" or "post"."""
    torch.manual_seed(seed)
    model = GPT(
        GPTConfig(
            vocab_size=corpus.tokenizer.vocab_size,
            context_length=32,
            n_layers=n_layers,
            d_model=64,
            n_heads=4,
            norm_placement=placement,
            initialisation="xavier",
            tied_head=False,
        )
    )
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            torch.nn.init.normal_(module.weight, std=0.7)
    return model


def final_loss(
    model: GPT, corpus: Corpus, rate: float, warmup: int, seed: int, steps: int = STEPS
) -> float:
    """The validation loss after the training."""
    recipe = TrainingConfig(
        steps=steps,
        batch_size=8,
        learning_rate=rate,
        minimum_rate=rate,
        warmup_steps=warmup,
        beta2=0.999,
        weight_decay=0.0,
        gradient_clip=math.inf,
        evaluate_every=steps,
        seed=seed,
    )
    trainer = Trainer(model, corpus.train, corpus.validation[:20_001], recipe)
    return list(trainer.run())[-1].val_loss


def main() -> None:
    """Measure every row; what is measured is on disk after each."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    rows: list[dict] = []
    for n_layers, rate, placement, warmup in TRIALS:
        losses = [
            final_loss(newborn(corpus, placement, n_layers, seed), corpus, rate, warmup, seed)
            for seed in SEEDS
        ]
        row = {"layers": n_layers, "rate": rate, "placement": placement, "warmup": warmup}
        rows.append(row | {"losses": [round(loss, 4) for loss in losses]})
        write_table("norm_placement", seeds=SEEDS, threads=1, settings=SETTINGS, rows=rows)
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
