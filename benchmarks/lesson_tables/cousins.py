"""Lesson 09's table: hidden characters found by an encoder and by a GPT; answers of a small T5.

    python -m benchmarks.lesson_tables.cousins

The notebook trains one model of each kind; this has three seeds, hides 15 % at random besides the
vowels, trains longer, and starts as small as GPT-2 too. One thread; about ten minutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.lesson_tables import write_table
from course_lib.data.batches import random_windows
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.exercises.lesson_09 import decoder_inputs, mask_tokens
from course_lib.model.config import GPTConfig
from course_lib.model.encoder import Encoder, EncoderDecoder
from course_lib.model.gpt import GPT
from course_lib.runtime import set_threads

SEEDS = (0, 1, 2)
KINDS = {"encoder": Encoder, "GPT": GPT}
GROUPS = (  # what is hidden, how matrices were drawn, training steps
    ("vowels", "xavier", (300, 1200)),
    ("vowels", "gpt2", (300,)),
    ("15 % at random", "xavier", (300, 1200)),
)
T5_STEPS = (200, 1000)
TASKS = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters.flip(1),
    "sort": lambda letters: letters.sort(dim=1).values,
}
LETTERS, START = 26, 0  # the tokens: start, three prefixes, the letters
SETTINGS = {
    "models": "2 layers (T5: 2 + 2), d_model 64, tied head",
    "training": "Adam 0.003, constant rate, gradients clipped to norm 1",
    "found": "Shakespeare, context 64, 4 heads, rotary positions, steps of 16 windows; share of "
    "the hidden characters of 1,024 windows of validation text that the likeliest is right for",
    "exact": "4 heads, learned positions, Xavier, steps of 96 sources of 8 letters, a third of "
    "each task; share of 500 answers without a mistake",
}


def train(model: nn.Module, batch: Callable[[], tuple[Tensor, ...]], steps: int, optimizer) -> None:
    """The lesson's loop."""
    for _ in range(steps):
        *read, asked = batch()
        loss = cross_entropy(model(*read).flatten(0, 1), asked.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def blanks(
    corpus: Corpus, hidden: str, size: int, windows: torch.Generator, *, validation: bool = False
) -> tuple[Tensor, Tensor]:
    """Windows with characters hidden, and those as targets, -100 elsewhere: (size, 64) each."""
    text = corpus.validation if validation else corpus.train
    tokens, _ = random_windows(text, size, 64, windows)
    if hidden == "vowels":
        vowels = [corpus.tokenizer.vocabulary.index(vowel) for vowel in "AEIOUaeiou"]
        hide = torch.isin(tokens, torch.tensor(vowels))
    else:
        hide = torch.rand(tokens.shape, generator=windows) < 0.15
    mask = corpus.tokenizer.vocab_size  # one more than there are characters
    return mask_tokens(tokens, hide, mask)


def newborn(kind: str, corpus: Corpus, start: str, seed: int) -> GPT:
    """A model before training, its matrices drawn by "xavier" or "gpt2"."""
    torch.manual_seed(seed)
    return KINDS[kind](
        GPTConfig(
            vocab_size=corpus.tokenizer.vocab_size + 1,
            context_length=64,
            n_layers=2,
            d_model=64,
            n_heads=4,
            positions="rotary",
            initialisation=start,
        )
    )


def shares_found(
    model: GPT, corpus: Corpus, hidden: str, seed: int, steps: tuple[int, ...]
) -> list[float]:
    """The share of hidden characters found on validation text, after each number of steps."""
    windows = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    read, asked = asked_of_all(corpus, hidden)
    shares = []
    for before, after in itertools.pairwise((0, *steps)):
        train(model, lambda: blanks(corpus, hidden, 16, windows), after - before, optimizer)
        with torch.no_grad():
            found = model(read).argmax(dim=-1) == asked
        shares.append(round(found[asked != -100].float().mean().item(), 4))
    return shares


def asked_of_all(corpus: Corpus, hidden: str) -> tuple[Tensor, Tensor]:
    """The same 1,024 windows for every model, of validation text."""
    return blanks(corpus, hidden, 1024, torch.Generator().manual_seed(100), validation=True)


def share_of_commonest(corpus: Corpus, hidden: str) -> float:
    """What who always says the commonest of the hidden characters would find."""
    asked = asked_of_all(corpus, hidden)[1]
    asked = asked[asked != -100]
    return round((asked == asked.mode().values).float().mean().item(), 4)


def exact_answers(seed: int, stages: tuple[int, ...] = T5_STEPS) -> dict[str, list[float]]:
    """By task: the share of answers without a mistake, after each number of steps."""
    draws = torch.Generator().manual_seed(seed)
    first = 1 + len(TASKS)

    def examples(task: str, n: int) -> tuple[Tensor, Tensor]:
        letters = torch.randint(first, first + LETTERS, (n, 8), generator=draws)
        prefix = torch.full((n, 1), 1 + list(TASKS).index(task))
        return torch.cat([prefix, letters], dim=1), TASKS[task](letters)

    def mixed() -> tuple[Tensor, ...]:
        sources, targets = zip(*(examples(task, 32) for task in TASKS), strict=True)
        target = torch.cat(targets)
        return torch.cat(sources), decoder_inputs(target, START), target

    torch.manual_seed(seed)
    shape = {"context_length": 9, "n_layers": 2, "d_model": 64, "n_heads": 4}
    config = GPTConfig(vocab_size=first + LETTERS, initialisation="xavier", **shape)
    model = EncoderDecoder(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    shares: dict[str, list[float]] = {task: [] for task in TASKS}
    for before, after in itertools.pairwise((0, *stages)):
        train(model, mixed, after - before, optimizer)
        for task in TASKS:
            source, target = examples(task, 500)
            right = (model.write(source, START, 8) == target).all(dim=1)
            shares[task].append(round(right.float().mean().item(), 4))
    return shares


def main() -> None:
    """Measure all of it; what is measured is on disk after each."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    found: list[dict] = []
    exact: list[dict] = []

    def note(rows: list[dict], row: dict) -> None:
        rows.append(row)
        tables = {"found": found, "exact": exact}
        write_table("cousins", seeds=SEEDS, threads=1, settings=SETTINGS, **tables)
        print(row, flush=True)

    for (hidden, start, steps), kind in itertools.product(GROUPS, KINDS):
        by_seed = [
            shares_found(newborn(kind, corpus, start, seed), corpus, hidden, seed, steps)
            for seed in SEEDS
        ]
        commonest = share_of_commonest(corpus, hidden)
        for after, shares in zip(steps, zip(*by_seed, strict=True), strict=True):
            row = {"hidden": hidden, "start": start, "model": kind, "steps": after}
            note(found, row | {"shares": shares, "commonest": commonest})
    by_seed = [exact_answers(seed) for seed in SEEDS]
    for at, steps in enumerate(T5_STEPS):
        for task in TASKS:
            note(exact, {"task": task, "steps": steps, "shares": [s[task][at] for s in by_seed]})


if __name__ == "__main__":
    main()
