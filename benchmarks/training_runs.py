"""Trainings as the comparisons need them: by a preset, on Shakespeare, timed by the trainer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch

from benchmarks.report import markdown_table, number
from benchmarks.store import Measurement
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training.presets import Preset
from course_lib.training.probe import probe
from course_lib.training.trainer import Trainer


@cache
def load_shakespeare(toy: bool = False) -> Corpus:
    """The built-in corpus; for a toy run a corner of it."""
    corpus = load_corpus("shakespeare")
    if not toy:
        return corpus
    return replace(corpus, train=corpus.train[:3_000], validation=corpus.validation[:600])


def toy_preset(preset: Preset, steps: int = 3) -> Preset:
    """The same recipe with a tiny model and few steps."""
    shape = {"n_layers": 1, "d_model": 4 * preset.model["n_heads"], "context_length": 32}
    return replace(
        preset.changed(model=shape, training={}), training=preset.training.adapted(steps=steps)
    )


def with_training(preset: Preset, **changes: Any) -> Preset:
    """The preset with some fields of its training set anew."""
    return preset.changed(model={}, training=changes)


def build_trainer(
    preset: Preset, corpus: Corpus, seed: int, device: torch.device | str = "cpu"
) -> tuple[Trainer, dict[str, Any]]:
    """A trainer of a new model, and how it computes. Weights and windows follow from the seed.

    For precision="auto" the kernel and the precision are those that the course's own probe finds
    for the threads that are set; its time is not training and stands beside as probe_seconds.
    """
    torch.manual_seed(seed)
    config = GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **preset.model)
    model = GPT(config).to(device)
    recipe, way = replace(preset.training, seed=seed), {}
    if recipe.precision == "auto":
        started = time.perf_counter()
        machine = probe(model, recipe, threads=torch.get_num_threads())
        recipe = replace(recipe, precision=machine.precision)
        model.attention_kernel = machine.attention_kernel
        way = {"probe_seconds": time.perf_counter() - started}
    way |= {"precision": recipe.precision, "attention_kernel": model.attention_kernel}
    return Trainer(model, corpus.train, corpus.validation, recipe), way


def train(
    preset: Preset, corpus: Corpus, seed: int, device: torch.device | str = "cpu"
) -> Measurement:
    """Train from start to end: seconds of training alone, and the final model's loss.

    The loss is that over the whole validation split, measured once, after the last step.
    """
    preset = with_training(preset, evaluate_every=preset.training.steps)
    trainer, way = build_trainer(preset, corpus, seed, device)
    records = list(trainer.run())
    return {
        "seed": seed,
        "steps": records[-1].step,
        "tokens": records[-1].tokens,
        "seconds": records[-1].seconds,
        "first_step_seconds": records[0].seconds,
        "loss": records[-1].val_loss,
        **way,
    }


def losses_told(losses: Sequence[float], target: float) -> dict[str, Any]:
    """A row's note and whether its ratio counts: the loss must be reached by most of the runs."""
    hits = sum(loss <= target for loss in losses)
    return {
        "note": f"reached by {hits} of {len(losses)} runs",
        "counts": 2 * hits > len(losses),
    }


def run_table(runs: Sequence[tuple[str, float | None, Measurement]]) -> str:
    """Every run with its loss and time: (recipe, loss to reach or None, what train gave)."""
    lines = []
    for name, target, run in runs:
        verdict = "" if target is None else "reached" if run["loss"] <= target else "not reached"
        lines.append(
            [
                f"{run['seed']}",
                name,
                f"{run['precision']}, {run['attention_kernel']}",
                f"{run['steps']:,}",
                number(run["seconds"]),
                number(run["first_step_seconds"]),
                f"{run['loss']:.4f}",
                "" if target is None else f"{target:.4f}",
                verdict,
            ]
        )
    header = ["seed", "recipe", "precision, attention", "steps", "seconds", "first step"]
    return "Every run:\n\n" + markdown_table([*header, "final loss", "to reach", "verdict"], lines)
