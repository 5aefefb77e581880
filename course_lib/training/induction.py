"""The induction model: two layers of attention alone, trained on random sequences that repeat.

Nothing in such a sequence can be known before it repeats. From then on all is told by the text
itself: find where the current token stood before, and say what came after it (Elhage et al. 2021;
Olsson et al. 2022, arXiv 2209.11895). Lesson 13 watches the heads that do it form, and lesson 16
gives the model sequences that it has never seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, evaluating
from course_lib.runtime import CourseError
from course_lib.training.trainer import next_token_loss

VOCABULARY = 32
LENGTH = 48
PERIODS = (12, 24)  # the shortest and the longest; with one period for all a head could count


@dataclass(frozen=True)
class Repeats:
    """Random tokens (batch, position) that repeat, each row after its period (batch,)."""

    tokens: Tensor
    periods: Tensor

    @property
    def foretold(self) -> Tensor:
        """(batch, position − 1), bool: where the next token follows from what came before.

        So it is from position `period` on, when the first token has come for the second time.
        """
        places = torch.arange(self.tokens.shape[1] - 1, device=self.tokens.device)
        return places >= self.periods[:, None]


def repeated_sequences(
    batch_size: int,
    generator: torch.Generator,
    *,
    length: int = LENGTH,
    vocab_size: int = VOCABULARY,
    periods: tuple[int, int] = PERIODS,
) -> Repeats:
    """Sequences of random tokens, each with a period drawn from periods[0] to periods[1].

    Raises CourseError for periods that leave nothing to repeat.
    """
    shortest, longest = periods
    if not 1 <= shortest <= longest < length - 1:
        raise CourseError(
            f"periods={periods} do not fit length={length}; use two rising numbers from 1 to "
            f"{length - 2}, so that each sequence begins to repeat"
        )
    drawn = torch.randint(shortest, longest + 1, (batch_size,), generator=generator)
    tokens = torch.randint(vocab_size, (batch_size, length), generator=generator)
    return Repeats(tokens.gather(1, torch.arange(length) % drawn[:, None]), drawn)


def induction_model(seed: int, n_layers: int = 2) -> GPT:
    """The model before training. Everything but its depth is settled.

    Attention alone, rotary positions, 4 heads of 16, and embeddings that are large beside what the
    layers write at first: so the heads form within 150 to 200 steps. With embeddings N(0, 0.02²)
    and a tied head 800 were not enough.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GPT(
            GPTConfig(
                vocab_size=VOCABULARY,
                context_length=LENGTH,
                n_layers=n_layers,
                d_model=64,
                n_heads=4,
                positions="rotary",
                feed_forward="none",
                initialisation="zero_output",
                tied_head=False,
            )
        )


def train_induction(
    model: GPT, steps: int, seed: int, batch_size: int = 64, rate: float = 3e-3
) -> Iterator[tuple[int, float]]:
    """Train by AdamW at one rate; yields (step, loss in nats) before each update.

    Each batch is new, so no sequence is read twice. Ten seconds for 250 steps on one thread.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        tokens = repeated_sequences(batch_size, generator).tokens
        loss = next_token_loss(model.train()(tokens[:, :-1]), tokens[:, 1:])
        yield step, loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def accuracy(model: GPT, repeats: Repeats) -> float:
    """Share of the foretold tokens that the model puts first. Guessing is 1 / vocab_size."""
    with evaluating(model):
        named = model(repeats.tokens[:, :-1]).argmax(dim=-1)  # (batch, position − 1)
    return (named == repeats.tokens[:, 1:])[repeats.foretold].float().mean().item()
