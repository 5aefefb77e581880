"""Lesson 03's table: a small GPT whose scores are divided by nothing, by √d_k, or by d_k.

    python -m benchmarks.lesson_tables.scale

√d_k against d_k needs several seeds, and two sizes that queries may start at; the notebook has
time for one short run of each divisor. One thread; about ten minutes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from benchmarks.lesson_tables import train_on_windows, write_table
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import set_threads
from course_lib.training.trainer import evaluate

SEEDS = (0, 1, 2, 3, 4)
D_K = 128  # one head, as wide as the model
DIVISORS = {"1": 1.0, "√d_k": math.sqrt(D_K), "d_k": float(D_K)}
# std of the entries of the matrices that make queries and keys; of the queries' and keys' entries,
# which are sums of d_model products, it is √d_model times as large
STARTS = {"entries of size 1": 1 / math.sqrt(D_K), "entries of size 0.23": 0.02}
STEPS, BATCH, RATE = 300, 16, 0.001


def newborn(corpus: Corpus, divisor: float, start: float, seed: int) -> GPT:
    """A GPT before training, two layers of one head each; the seed decides its numbers."""
    torch.manual_seed(seed)
    model = GPT(
        GPTConfig(vocab_size=corpus.tokenizer.vocab_size, n_layers=2, d_model=D_K, n_heads=1)
    )
    factor = math.sqrt(D_K) / divisor  # the library divides by √d_k already
    for block in model.blocks:
        torch.nn.init.normal_(block.attention.query.weight, std=start)
        torch.nn.init.normal_(block.attention.key.weight, std=start)
        block.attention.query.register_forward_hook(lambda _module, _inputs, query: query * factor)
    return model


def losses_of_seed(corpus: Corpus, start: float, seed: int, steps: int = STEPS) -> dict[str, float]:
    """The loss after training on the whole validation split, in nats a character, by divisor."""
    losses = {}
    for name, divisor in DIVISORS.items():
        model = newborn(corpus, divisor, start, seed)
        train_on_windows(model, corpus.train, seed, steps=steps, batch_size=BATCH, rate=RATE)
        losses[name] = round(evaluate(model, corpus.validation), 4)
    return losses


def write(losses: dict[str, dict[str, list[float]]], seeds: Sequence[int] = SEEDS) -> None:
    """Write the losses (by start, by divisor, one a seed) and how they came about."""
    write_table(
        "scale",
        what="loss in nats a character on the whole validation split, one for each seed",
        threads=1,
        seeds=list(seeds),
        model={"n_layers": 2, "d_model": D_K, "n_heads": 1, "context_length": 64},
        training={"steps": STEPS, "batch_size": BATCH, "learning_rate": RATE},
        starts=STARTS,
        losses=losses,
    )


def main() -> None:
    """Measure all of it; what is measured is on disk after each seed."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    losses: dict[str, dict[str, list[float]]] = {}
    for start, std in STARTS.items():
        losses[start] = {name: [] for name in DIVISORS}
        for seed in SEEDS:
            measured = losses_of_seed(corpus, std, seed)
            for name, loss in measured.items():
                losses[start][name].append(loss)
            write(losses)
            print(f"{start}, seed {seed}: {measured}", flush=True)


if __name__ == "__main__":
    main()
