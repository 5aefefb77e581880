"""Five ways to tell a model where its tokens stand, trained at 64 characters and tested at 64–512.

    python -m benchmarks.lesson_tables.positions

writes data/tables/positions.json, the table of lessons 06 and 07; the notebook of 06 trains three
such models once. Each length is tested on the same characters, the last 32 of every window, so
that nothing differs but how much stands before them. ALiBi's slopes follow from the number of
heads, and with two none is steep: so it is measured with eight as well, beside a scheme to
which their number means less. One thread; about fifteen minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.lesson_tables import train_on_windows, write_table
from course_lib.data.corpora import load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, evaluating
from course_lib.runtime import CourseError, set_threads

SCHEMES = ("none", "sinusoidal", "learned", "alibi", "rotary")
SEEDS = (0, 1, 2)
LENGTHS = (64, 128, 256, 512)
JUDGED = 32  # characters at the end of each window
SHAPE = {"context_length": 64, "n_layers": 2, "n_heads": 2, "d_model": 64}
STEPS, BATCH, RATE = 900, 16, 0.003
MORE_HEADS = 8
SCHEMES_WITH_MORE_HEADS = ("learned", "alibi", "rotary")
Losses = dict[str, dict[str, list[float | None]]]  # by scheme, by length, one for each seed


def newborn(vocab_size: int, positions: str, seed: int, **changes: int) -> GPT:
    """The model before training, of SHAPE but for changes; the seed decides its numbers."""
    torch.manual_seed(seed)
    return GPT(GPTConfig(vocab_size=vocab_size, positions=positions, **(SHAPE | changes)))


def loss_at(model: GPT, text: Tensor, length: int, stride: int = 64) -> float | None:
    """Mean loss in nats of the last JUDGED characters of windows of this length.

    A window ends at every `stride`-th character of the text (position), from the same one on for
    every length. None where the model cannot read so many.
    """
    ends = torch.arange(LENGTHS[-1], len(text), stride)
    total = 0.0
    with evaluating(model):
        for some in ends.split(64):
            places = some[:, None] + torch.arange(-length, 0)  # (window, position)
            try:
                logits = model(text[places])[:, -JUDGED:]
            except CourseError:
                return None
            targets = text[places + 1][:, -JUDGED:]
            loss = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
            total += loss.item()
    return total / (len(ends) * JUDGED)


def measure(
    losses: Losses,
    schemes: Sequence[str] = SCHEMES,
    seeds: Sequence[int] = SEEDS,
    steps: int = STEPS,
    **changes: int,
) -> Iterator[str]:
    """Fill in the losses of models of SHAPE but for changes.

    Yields a line after each model, so that what is measured can be kept.
    """
    corpus = load_corpus("shakespeare")
    losses.update({scheme: {str(length): [] for length in LENGTHS} for scheme in schemes})
    for seed in seeds:
        for scheme, by_length in losses.items():
            started = time.perf_counter()
            model = newborn(corpus.tokenizer.vocab_size, scheme, seed, **changes)
            train_on_windows(model, corpus.train, seed, steps=steps, batch_size=BATCH, rate=RATE)
            for length, found in by_length.items():
                loss = loss_at(model, corpus.validation, int(length))
                found.append(None if loss is None else round(loss, 4))
            last = {length: found[-1] for length, found in by_length.items()}
            seconds = time.perf_counter() - started
            yield f"seed {seed}, {scheme}, {model.config.n_heads} heads: {last}, {seconds:.0f} s"


def write(losses: Losses, with_more_heads: Losses) -> None:
    """Write the losses, and how they came about, to the table that the lessons show."""
    write_table(
        "positions",
        what="loss in nats a character of the last 32 characters of a window, by its length, "
        "one for each seed; null: the model cannot read so many",
        threads=1,
        seeds=list(SEEDS),
        model=SHAPE,
        training={"steps": STEPS, "batch_size": BATCH, "learning_rate": RATE},
        lengths=list(LENGTHS),
        loss=losses,
        more_heads=MORE_HEADS,
        loss_with_more_heads=with_more_heads,
    )


def main() -> None:
    """Measure all of it; what is measured is on disk after each model."""
    set_threads(1)
    losses: Losses = {}
    with_more_heads: Losses = {}
    for lines in (
        measure(losses),
        measure(with_more_heads, SCHEMES_WITH_MORE_HEADS, n_heads=MORE_HEADS),
    ):
        for line in lines:
            write(losses, with_more_heads)
            print(line, flush=True)


if __name__ == "__main__":
    main()
