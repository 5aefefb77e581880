"""Lesson 11's table: from preset plain to preset quick, one change at a time.

    python -m benchmarks.lesson_tables.plain_to_quick

Every run is whole, with its own schedule to the end; the same seeds draw weights and windows for
each. Time is the processor's, which other programs change little. One thread; plain itself, of
2,000 steps, is most of it: about a quarter of an hour.
"""

from __future__ import annotations

import time

from benchmarks.lesson_tables import write_table
from benchmarks.training_runs import build_trainer, with_training
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.model.gpt import count_parameters
from course_lib.runtime import set_threads
from course_lib.training.presets import PLAIN, TO_QUICK, Preset, steps_of

SEEDS = (0, 1, 2)


SETTINGS = {
    "corpus": "shakespeare",
    "loss": "nats per character over the whole validation split, of the final model",
    "seconds": "of one processor, for the steps alone; each line is plain with all changes so far",
}


def measure(preset: Preset, corpus: Corpus, seed: int) -> tuple[float, float, int]:
    """A whole run: its final loss, what its steps took of the processor, its parameters."""
    preset = with_training(preset, evaluate_every=preset.training.steps)
    trainer, _ = build_trainer(preset, corpus, seed)
    steps = trainer.config.steps
    records = trainer.run()
    started = time.process_time()
    for _ in range(steps - 1):
        next(records)
    seconds = (time.process_time() - started) * steps / (steps - 1)
    loss = next(records).val_loss  # the last step, and the evaluation
    return loss, seconds, count_parameters(trainer.model)


def main() -> None:
    """Measure every step of the way; what is measured is on disk after each."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    names = ["plain", *(change.name for change in TO_QUICK)]
    rows: list[dict] = []
    for name, preset in zip(names, steps_of(PLAIN, TO_QUICK), strict=True):
        runs = [measure(preset, corpus, seed) for seed in SEEDS]
        losses, seconds, parameters = zip(*runs, strict=True)
        rows.append(
            {
                "recipe": name,
                "steps": preset.training.steps,
                "parameters": parameters[0],
                "losses": [round(loss, 4) for loss in losses],
                "seconds": [round(spent, 1) for spent in seconds],
            }
        )
        write_table("plain_to_quick", seeds=SEEDS, threads=1, settings=SETTINGS, rows=rows)
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
