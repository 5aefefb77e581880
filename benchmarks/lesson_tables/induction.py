"""Lesson 13's table of induction heads: do they form from every seed, and what does each carry?

    python -m benchmarks.lesson_tables.induction

writes data/tables/induction.json. The notebook trains seed 0. One thread; two minutes.
"""

from __future__ import annotations

import torch

from benchmarks.lesson_tables import write_table
from course_lib.lens.capture import capture
from course_lib.lens.heads import Head, ablated, head_scores, mean_outputs
from course_lib.model.gpt import GPT
from course_lib.runtime import set_threads
from course_lib.training.induction import (
    Repeats,
    accuracy,
    induction_model,
    repeated_sequences,
    train_induction,
)

SEEDS = (0, 1, 2, 3, 4)
STEPS = 200
SEQUENCES = 200
SETTINGS = {
    "model": "induction_model of course_lib.training.induction",
    "training": f"{STEPS} steps of 64 sequences, AdamW at 0.003",
    "accuracy": f"share of foretold tokens that are put first, in {SEQUENCES} new sequences",
}


def trained(seed: int, n_layers: int, steps: int = STEPS) -> GPT:
    """The model after the training."""
    model = induction_model(seed, n_layers)
    for _ in train_induction(model, steps, seed):
        pass
    return model


def measure(model: GPT, repeats: Repeats) -> dict:
    """Accuracy, scores (layer, head), and accuracy without each head and without the last layer."""
    scores = head_scores(capture(model, repeats.tokens))
    means = mean_outputs(model, repeats.tokens)
    layers, heads = model.config.n_layers, model.config.n_heads

    def without(some: list[Head]) -> float:
        with ablated(model, some, means):
            return round(accuracy(model, repeats), 3)

    return {
        "accuracy": round(accuracy(model, repeats), 3),
        **{
            name: [[round(score, 3) for score in layer] for layer in scores[name].score.tolist()]
            for name in ("previous token", "induction")
        },
        "without": [[without([(layer, head)]) for head in range(heads)] for layer in range(layers)],
        "without last layer": without([(layers - 1, head) for head in range(heads)]),
    }


def main() -> None:
    """Measure every seed; what is measured is on disk after each."""
    set_threads(1)
    repeats = repeated_sequences(SEQUENCES, torch.Generator().manual_seed(99))
    chance = head_scores(capture(induction_model(0), repeats.tokens))["induction"].chance
    found: dict[str, list[dict]] = {"two layers": [], "one layer": []}
    for seed in SEEDS:
        for (name, models), n_layers in zip(found.items(), (2, 1), strict=True):
            models.append(measure(trained(seed, n_layers), repeats))
            print(seed, name, models[-1], flush=True)
        write_table(
            "induction",
            seeds=SEEDS,
            threads=1,
            settings=SETTINGS,
            chance=round(chance, 4),
            models=found,
        )


if __name__ == "__main__":
    main()
