"""Lesson 08's table: kinds of feed-forward layers at equal parameters, drawn in two ways.

    python -m benchmarks.lesson_tables.feed_forward_kinds

SwiGLU multiplies two hidden numbers, so where matrices start small it starts very small: which kind
comes out ahead depends on how they were drawn. One thread; about a quarter of an hour.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

from benchmarks.lesson_tables import write_table
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.model.layers import NoFeedForward
from course_lib.runtime import set_threads
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Trainer

SEEDS = (0, 1, 2, 3, 4)
STEPS = 500
INITIALISATIONS = ("gpt2", "xavier")  # N(0, 0.02²), smaller where written to the stream; Xavier
KINDS = {  # what each changes in a Pre-LN model of two layers
    "none": {},
    "no activation": {},
    "GELU, width 64": {"d_ff": 64},
    "ReLU, width 256": {"feed_forward": "relu"},
    "GELU, width 256": {"feed_forward": "gelu"},
    "SwiGLU, width 171": {"feed_forward": "swiglu"},
    "GELU, width 256, RMSNorm": {"norm": "rms_norm"},
}
SETTINGS = {
    "corpus": "shakespeare",
    "model": "2 layers, d_model 64, 4 heads, context 32, learned positions, tied head",
    "training": "500 steps of 16 windows, AdamW, 50 steps up to 0.005, cosine down to 0.0005",
    "loss": "nats per character on the first 40,000 characters of the validation split",
}


def newborn(corpus: Corpus, kind: str, initialisation: str, seed: int) -> GPT:
    """A model before training, with that kind of feed-forward layer."""
    torch.manual_seed(seed)
    model = GPT(
        GPTConfig(
            vocab_size=corpus.tokenizer.vocab_size,
            context_length=32,
            n_layers=2,
            d_model=64,
            n_heads=4,
            initialisation=initialisation,
            **KINDS[kind],
        )
    )
    for block in model.blocks:
        if kind == "none":
            block.feed_forward = NoFeedForward()
        elif kind == "no activation":
            block.feed_forward.activation = nn.Identity()
    return model


def final_loss(model: GPT, corpus: Corpus, seed: int, steps: int = STEPS) -> float:
    """The validation loss after the training."""
    recipe = TrainingConfig(
        steps=steps,
        batch_size=16,
        learning_rate=5e-3,
        minimum_rate=5e-4,
        warmup_steps=steps // 10,
        evaluate_every=steps,
        seed=seed,
    )
    trainer = Trainer(model, corpus.train, corpus.validation[:40_001], recipe)
    return list(trainer.run())[-1].val_loss


def main() -> None:
    """Measure every kind; what is measured is on disk after each."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    rows: list[dict] = []
    for initialisation, kind in itertools.product(INITIALISATIONS, KINDS):
        models = [newborn(corpus, kind, initialisation, seed) for seed in SEEDS]
        losses = [
            round(final_loss(model, corpus, seed), 4)
            for model, seed in zip(models, SEEDS, strict=True)
        ]
        parameters = count_parameters(models[0].blocks[0].feed_forward)
        row = {"initialisation": initialisation, "kind": kind, "parameters of a layer": parameters}
        rows.append(row | {"losses": losses})
        write_table("feed_forward_kinds", seeds=SEEDS, threads=1, settings=SETTINGS, rows=rows)
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
