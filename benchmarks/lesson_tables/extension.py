"""A RoPE model trained at 64 characters and stretched to 256, at once and after a little training.

    python -m benchmarks.lesson_tables.extension

writes data/tables/extension.json, the second table of lesson 07, whose notebook does it once.
Models and test are those of positions.py. A model that is tuned sees TUNING_STEPS batches of four
windows of 256 characters; to compare with, the model as it was trained goes on with as many batches
of sixteen windows of 64. One thread; about five minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from benchmarks.lesson_tables import positions, train_on_windows, write_table
from course_lib.data.corpora import load_corpus
from course_lib.model.gpt import GPT
from course_lib.runtime import set_threads

TRAINED, FACTOR = 64, 4
SHORT, LONG = (TRAINED,), (TRAINED, FACTOR * TRAINED)  # tested at each of them, tuned at the last
METHODS: dict[str, dict[str, Any]] = {
    "as trained": {},
    "interpolation": {"rotary_scaling": "linear"},
    "NTK-aware": {"rotary_scaling": "ntk"},
    "YaRN, ramp 1–32": {"rotary_scaling": "yarn", "rotary_ramp": (1.0, 32.0)},
    "YaRN, ramp 1–4": {"rotary_scaling": "yarn", "rotary_ramp": (1.0, 4.0)},
}
CASES = {"64 characters": (SHORT, {}), **{name: (LONG, how) for name, how in METHODS.items()}}
TUNING_STEPS, TUNING_RATE = 100, 0.001
CHARACTERS = 1_024  # in a batch, whatever the length of its windows

Losses = dict[str, dict[str, list[float]]]  # by method, by what was measured, one for each seed


def stretched(model: GPT, length: int, changes: dict[str, Any]) -> GPT:
    """The same weights in a model for windows of this length."""
    factor = float(FACTOR) if changes else 1.0
    config = replace(model.config, context_length=length, rotary_factor=factor, **changes)
    other = GPT(config)
    other.load_state_dict(model.state_dict())
    return other


def tune(model: GPT, text: Tensor, seed: int, steps: int = TUNING_STEPS) -> None:
    """Train on at a smaller rate, on other windows, as long as the model reads."""
    batch_size = CHARACTERS // model.config.context_length
    train_on_windows(
        model, text, 1_000 + seed, steps=steps, batch_size=batch_size, rate=TUNING_RATE
    )


def measure(
    losses: Losses,
    seeds: Sequence[int] = positions.SEEDS,
    steps: int = positions.STEPS,
    tuning_steps: int = TUNING_STEPS,
) -> Iterator[str]:
    """Fill in the losses: by method, at each length and after tuning, one for each seed.

    Yields a line after each method, so that what is measured can be kept.
    """
    corpus = load_corpus("shakespeare")
    for seed in seeds:
        model = positions.newborn(corpus.tokenizer.vocab_size, "rotary", seed)
        train_on_windows(
            model, corpus.train, seed, steps=steps, batch_size=positions.BATCH, rate=positions.RATE
        )
        for method, (lengths, changes) in CASES.items():
            started = time.perf_counter()
            other, last = stretched(model, lengths[-1], changes), {}
            for length in lengths:
                last[str(length)] = positions.loss_at(other, corpus.validation, length)
            tune(other, corpus.train, seed, tuning_steps)
            tuned = positions.loss_at(other, corpus.validation, lengths[-1])
            last |= {f"{lengths[-1]} tuned": tuned}
            found = losses.setdefault(method, {name: [] for name in last})
            for name, loss in last.items():
                found[name].append(round(loss, 4))
            yield f"seed {seed}, {method}: {found}, {time.perf_counter() - started:.0f} s"


def write(losses: Losses) -> None:
    """Write the losses and how they came about."""
    write_table(
        "extension",
        what="loss in nats a character of the last 32 characters of a window, by what reads it "
        "and the window's length, one for each seed; tuned: after some training at that length",
        threads=1,
        seeds=list(positions.SEEDS),
        model=positions.SHAPE,
        training={
            "steps": positions.STEPS,
            "batch_size": positions.BATCH,
            "learning_rate": positions.RATE,
        },
        tuning={"steps": TUNING_STEPS, "characters": CHARACTERS, "learning_rate": TUNING_RATE},
        factor=FACTOR,
        loss=losses,
    )


def main() -> None:
    """Measure all of it; what is measured is on disk after each method."""
    set_threads(1)
    losses: Losses = {}
    for line in measure(losses):
        write(losses)
        print(line, flush=True)


if __name__ == "__main__":
    main()
