"""The training loop: draw windows, predict every next character, follow the gradient downhill.

Nothing here knows about screens or files: `run` yields a record after every step, and whoever
iterates draws a bar, a curve, or stops. Lesson 10 writes this loop.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.data.batches import evaluation_windows, random_windows
from course_lib.data.corpora import require_windows
from course_lib.model.gpt import GPT, count_parameters, evaluating
from course_lib.runtime import notice
from course_lib.training.optimizer import make_adamw
from course_lib.training.presets import TrainingConfig
from course_lib.training.schedule import warmup_cosine


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats of logits (batch, position, vocab_size) on targets."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def evaluate(model: GPT, tokens: Tensor, batch_size: int = 64) -> float | None:
    """Mean loss in nats over the whole split: each token but the first is predicted once.

    Dropout is off, no random number is drawn. None, with a notice, if the split is shorter than
    one window.
    """
    context_length = model.config.context_length
    if len(tokens) <= context_length:
        notice(
            f"the validation part has {len(tokens)} characters, fewer than one window of "
            f"{context_length + 1}: there is no validation loss; use a longer text"
        )
        return None
    device = next(model.parameters()).device
    total = 0.0
    with evaluating(model):
        for inputs, targets in evaluation_windows(tokens, context_length, batch_size):
            loss = next_token_loss(model(inputs.to(device)), targets.to(device))
            total += loss.item() * targets.numel()
    return total / (len(tokens) - 1)


@dataclass(frozen=True)
class Record:
    """The state after a step: losses in nats, seconds of training (evaluation not counted)."""

    step: int
    tokens: int
    seconds: float
    train_loss: float
    val_loss: float | None
    learning_rate: float


class Trainer:
    """Trains a model on a text's tokens by a recipe. `run` does it, step by step."""

    def __init__(
        self,
        model: GPT,
        train_tokens: Tensor,  # (position,)
        validation_tokens: Tensor,  # (position,)
        config: TrainingConfig,
    ) -> None:
        require_windows(train_tokens, model.config.context_length)
        self.model = model
        self.device = next(model.parameters()).device
        self.train_tokens = train_tokens
        self.validation_tokens = validation_tokens
        self.config = config
        self.optimizer = make_adamw(
            model, config.learning_rate, (config.beta1, config.beta2), config.weight_decay
        )
        # the data's own random numbers: evaluation, dropout and sampling do not move them
        self.generator = torch.Generator().manual_seed(config.seed)
        self.history: list[Record] = []

    def run(self) -> Iterator[Record]:
        """Train to the last step, yielding a record after each; val_loss where it was measured.

        Stopped and called again, it goes on where the history ends, as if there had been no stop
        (unless an interrupt fell into the middle of a step).
        """
        config = self.config
        tokens_a_step = config.batch_size * self.model.config.context_length
        seconds = self.history[-1].seconds if self.history else 0.0
        for step in range(len(self.history), config.steps):
            rate = warmup_cosine(
                step,
                steps=config.steps,
                warmup=config.warmup_steps,
                peak=config.learning_rate,
                minimum=config.minimum_rate,
            )
            started = time.perf_counter()
            loss = self.step(rate)
            seconds += time.perf_counter() - started
            done = step + 1
            # on record before the evaluation, so that a stop in the middle of it loses no step
            self.history.append(Record(done, done * tokens_a_step, seconds, loss, None, rate))
            if done % config.evaluate_every == 0 or done == config.steps:
                val_loss = evaluate(self.model, self.validation_tokens)
                self.history[-1] = replace(self.history[-1], val_loss=val_loss)
            yield self.history[-1]

    def result(self, measure: bool = True) -> dict[str, Any]:
        """Where the run ended: the final model's loss, and what it took. Needs one step done.

        A run that stopped between two evaluations has no loss yet: it is measured, if wanted.
        """
        last = self.history[-1]
        val_loss = last.val_loss
        if val_loss is None and measure:
            val_loss = evaluate(self.model, self.validation_tokens)
        return {
            "val_loss": val_loss,
            "train_seconds": round(last.seconds, 3),
            "tokens_per_second": round(last.tokens / last.seconds, 1),
            "parameters": count_parameters(self.model),
            "device": str(self.device),
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "seed": self.config.seed,
            "steps": last.step,
        }

    def step(self, rate: float) -> float:
        """One update at this learning rate; the loss before it, in nats."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        inputs, targets = random_windows(
            self.train_tokens,
            self.config.batch_size,
            self.model.config.context_length,
            self.generator,
        )
        loss = next_token_loss(self.model(inputs.to(self.device)), targets.to(self.device))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.gradient_clip)
        self.optimizer.step()
        return loss.item()
