"""The training loop: draw windows, predict every next character, follow the gradient downhill.

Nothing here knows about screens or files: `run` yields a record after every step, and whoever
iterates draws a bar, a curve, saves, or stops. Lesson 10 writes this loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.data.batches import evaluation_windows, random_windows, shuffled_windows
from course_lib.data.corpora import require_windows
from course_lib.model.experts import routings_of
from course_lib.model.gpt import GPT, count_parameters, evaluating
from course_lib.runtime import CourseError, keep_memory, notice
from course_lib.training.compiled import Compiled, worth_compiling
from course_lib.training.optimizer import make_optimizer
from course_lib.training.parallel import ALONE, Team
from course_lib.training.precision import Precision, choose_precision
from course_lib.training.presets import TrainingConfig
from course_lib.training.resume import (
    machine_of,
    random_state,
    set_random_state,
    take_machine,
    uninterrupted,
)
from course_lib.training.schedule import learning_rate


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats of logits (batch, position, vocab_size) on targets."""
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def evaluate(
    model: GPT, tokens: Tensor, batch_size: int = 64, part: str = "validation"
) -> float | None:
    """Mean loss in nats over the whole split: each token but the first is predicted once.

    Dropout is off, no random number is drawn, and all is computed in the weights' own precision.
    None, with a notice, if the split is shorter than one window.
    """
    context_length = model.config.context_length
    if len(tokens) <= context_length:
        notice(
            f"the {part} part has {len(tokens)} characters, fewer than one window of "
            f"{context_length + 1}: there is no {part} loss; use a longer text"
        )
        return None
    tokens = tokens.to(next(model.parameters()).device)
    total = 0.0
    with evaluating(model):
        for inputs, targets in evaluation_windows(tokens, context_length, batch_size):
            total += next_token_loss(model(inputs), targets).item() * targets.numel()
    return total / (len(tokens) - 1)


def finite(loss: float | None) -> float | None:
    """The loss, or None where it is no number: JSON has no NaN."""
    return None if loss is None or not math.isfinite(loss) else loss


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
    """Trains a model on a text's tokens by a recipe. `run` does it, step by step.

    test_tokens are measured once, by `result`, when the last step is done: nothing is chosen by
    them. precision is the recipe's where none is given. team: the processes that share each batch.
    best_step is the step, and best_loss the
    loss, of the best validation so far; None where there was none.
    """

    def __init__(
        self,
        model: GPT,
        train_tokens: Tensor,  # (position,)
        validation_tokens: Tensor,  # (position,)
        config: TrainingConfig,
        *,
        test_tokens: Tensor | None = None,  # (position,)
        precision: Precision | None = None,
        team: Team = ALONE,
    ) -> None:
        team.require_shares(config)
        require_windows(train_tokens, model.config.context_length)
        if model.config.context_length % config.cut_into:
            raise CourseError(
                f"windows of context_length={model.config.context_length} cannot be cut into "
                f"{config.cut_into} equal pieces; use a divisor for cut_into"
            )
        self.model = model
        self.device = next(model.parameters()).device
        self.train_tokens = train_tokens.to(self.device)
        self.validation_tokens = validation_tokens
        self.test_tokens = test_tokens
        self.config = config
        self.team = team
        team.same_weights(model)
        if config.precision == "auto" and self.device.type == "cpu":
            keep_memory()  # recipes that say how they compute, as plain does, are left alone
        self.precision = precision or Precision(
            choose_precision(config.precision, self.device), self.device
        )
        self.optimizer = make_optimizer(model, config)
        for part, _ in self.optimizer.parts:
            part.register_step_pre_hook(self._begin_update)
        # evaluation, whose windows have other shapes, goes without; so do experts, each of which
        # gets another number of tokens at each step
        compiled = config.compile and worth_compiling(self.device) and not model.config.n_experts
        self._forward = Compiled(model) if compiled else model
        # the data's own random numbers: evaluation, dropout and sampling do not move them
        self.generator = torch.Generator().manual_seed(config.seed)
        self.history: list[Record] = []
        self.best_step: int | None = None
        self.best_loss: float | None = None
        self._evaluated = 0  # the last step after which there was an evaluation
        self._torn = False

    @property
    def finished(self) -> bool:
        """Whether all steps are done, and the last one evaluated."""
        return len(self.history) == self.config.steps and not self._is_due()

    def run(self) -> Iterator[Record]:
        """Train to the last step, yielding a record after each; val_loss where it was measured.

        Stopped anywhere and called again, it goes on as if there had been no stop.
        """
        while not self.finished:
            if not self._is_due():  # it is if the former run stopped in the middle of an evaluation
                self._advance()
            if self._is_due():
                val_loss = self.team.from_leader(self._validate)
                self._record_validation(val_loss)
            yield self.history[-1]

    def step(self, rate: float) -> float:
        """One update at this learning rate; the loss before it, in nats, without balancing."""
        self.model.train()
        self.optimizer.set_rate(rate)
        inputs, targets = self._windows()
        self.team.own_random_numbers(self.config.seed, len(self.history))
        with self.precision.autocast(), routings_of(self.model) as routings:
            logits = self._forward(inputs)
        loss = next_token_loss(logits.float(), targets)
        minimised = loss
        for routing in routings:  # one a layer of experts, for this process's share of the batch
            minimised = minimised + self.model.config.balance_weight * routing.balance_loss
        self.precision.backward_and_step(
            minimised,
            self.optimizer,
            self.model.parameters(),
            self.config.gradient_clip,
            self.team.average_gradients,
        )
        self._torn = False
        return self.team.conclude(loss)

    def _windows(self) -> tuple[Tensor, Tensor]:
        """What the next step reads: the team's share of inputs and targets, (batch, position)."""
        config, step, length = self.config, len(self.history), self.model.config.context_length
        if config.windows == "shuffled":
            inputs, targets = shuffled_windows(
                self.train_tokens, config.batch_size, length, step, config.seed
            )
        else:
            inputs, targets = random_windows(
                self.train_tokens, config.batch_size, length, self.generator
            )
        if step < config.cut_share * config.steps:
            length //= config.cut_into
        inputs, targets = self.team.share(inputs), self.team.share(targets)
        return inputs.reshape(-1, length), targets.reshape(-1, length)

    def result(self, measure: bool = True) -> dict[str, Any]:
        """Where the run ended: the final model's losses, and what it took. Needs one step done.

        A run that stopped between two evaluations has no validation loss yet: it is measured, if
        wanted. The test loss belongs to the end of the run alone, and is None before.
        """
        last = self.history[-1]
        val_loss, test_loss = last.val_loss, None
        if val_loss is None and measure and self._evaluated < last.step:
            val_loss = evaluate(self.model, self.validation_tokens)
        if self.finished and measure and self.test_tokens is not None:
            test_loss = evaluate(self.model, self.test_tokens, part="test")
        return {
            "val_loss": finite(val_loss),
            "test_loss": finite(test_loss),
            "best_step": self.best_step,
            "best_val_loss": self.best_loss,
            "train_seconds": round(last.seconds, 3),
            "tokens_per_second": round(last.tokens / last.seconds, 1),
            "parameters": count_parameters(self.model),
            "dtype": str(next(self.model.parameters()).dtype).removeprefix("torch."),
            **machine_of(self.model, self.precision, self.team),
            "seed": self.config.seed,
            "steps": last.step,
        }

    def state_dict(self) -> dict[str, Any]:
        """All that the rest of the run depends on but the weights and the recipe.

        Tensors under "optimizer" (its own, not copies) and "random", the rest JSON-ready. Raises
        CourseError after a step that was stopped in the middle of its update.
        """
        self._require_whole()
        return {
            "optimizer": self.optimizer.state_dict(),
            "random": random_state(self.generator, self.device),
            "history": [asdict(record) for record in self.history],
            "evaluated": self._evaluated,
            "best_step": self.best_step,
            "best_loss": self.best_loss,
            "scaler": self.precision.state_dict(),
            "machine": machine_of(self.model, self.precision, self.team),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what state_dict gave; the weights are the model's to load.

        Threads, precision and attention kernel become those of the run, for other ones round
        differently. Where this machine lacks them there is a notice. Raises CourseError for a
        state that is not of this model and recipe.
        """
        history = [Record(**record) for record in state["history"]]
        if len(history) > self.config.steps:
            raise CourseError(
                f"{len(history)} steps are done, and steps={self.config.steps}; "
                f"use steps={len(history)} or more"
            )
        self.optimizer.load_state_dict(state["optimizer"])
        self.precision = take_machine(state["machine"], self.model, self.team)
        self.precision.load_state_dict(state["scaler"])
        set_random_state(state["random"], self.generator, self.device)
        self.history = history
        self._evaluated = state["evaluated"]
        self.best_step, self.best_loss = state["best_step"], state["best_loss"]
        self._torn = False

    def _is_due(self) -> bool:
        """Whether an evaluation is to follow the last step, and has not yet."""
        done, config = len(self.history), self.config
        due = done % config.evaluate_every == 0 or done == config.steps
        return due and self._evaluated < done

    def _advance(self) -> None:
        """One step and its record: both, or neither."""
        self._require_whole()
        done, last = len(self.history), self.history[-1] if self.history else None
        rate = learning_rate(done, self.config)
        before = random_state(self.generator, self.device)
        started = time.perf_counter()
        try:
            with uninterrupted():
                loss = self.step(rate)
                seconds = time.perf_counter() - started + (last.seconds if last else 0.0)
                tokens = (done + 1) * self.config.batch_size * self.model.config.context_length
                # before the evaluation, so that a stop in the middle of it loses no step
                self.history.append(Record(done + 1, tokens, seconds, loss, None, rate))
            if not math.isfinite(loss) and (last is None or math.isfinite(last.train_loss)):
                notice(
                    f"the loss of step {done + 1:,} is {loss}: the training has diverged; stop "
                    "it, and start again with a lower learning rate"
                )
        finally:
            if len(self.history) == done:  # the next try draws the same windows and dropout
                set_random_state(before, self.generator, self.device)
        if self.team.stopping:
            raise KeyboardInterrupt

    def _validate(self) -> float | None:
        return evaluate(self.model, self.validation_tokens)

    def _record_validation(self, val_loss: float | None) -> None:
        best = math.inf if self.best_loss is None else self.best_loss
        if val_loss is not None and val_loss < best:
            self.best_step, self.best_loss = len(self.history), val_loss
        self.history[-1] = replace(self.history[-1], val_loss=val_loss)
        self._evaluated = len(self.history)  # last: a stop before this line measures again

    def _begin_update(self, *_: object) -> None:
        """Called by torch's optimisers before they change a weight; `step` takes it back."""
        self._torn = True

    def _require_whole(self) -> None:
        if self._torn:
            raise CourseError(
                f"step {len(self.history) + 1} was stopped in the middle of its update, so that "
                "some weights are new and some are not; go on from the last checkpoint"
            )
