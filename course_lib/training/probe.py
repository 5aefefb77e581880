"""Which threads, kernel and precision are fastest here? Some steps of training tell.

Rules of thumb are wrong on the next machine: two threads can be slower than one, fused attention
slower than the explicit, bfloat16 slower than float32. So steps are timed on copies of the model,
and the finding belongs to the run, for a resumed one has to compute as its first part did.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from course_lib.model.gpt import GPT
from course_lib.runtime import available_threads, keep_memory, probe_threads
from course_lib.training.precision import choose_precision
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Trainer

TOKENS = 2_048  # at most in a step that is timed: more would give the same answer, later
WORTH = 0.9  # of the time: for a smaller gain we do not leave what is usual


@dataclass(frozen=True, kw_only=True)
class Machine:
    """How to compute here. milliseconds: of a step in the probe; None where none was timed."""

    threads: int
    precision: str
    attention_kernel: str = "fused"
    milliseconds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON-ready values."""
        return asdict(self)


def probe(
    model: GPT,
    config: TrainingConfig,
    threads: int | None = None,
    timer: Callable[[Machine], float] | None = None,
) -> Machine:
    """The fastest way to train this model by this recipe on its device.

    threads: the number that is wanted; None to find it. Kernel and precision are looked into for
    precision="auto" alone: other recipes compute as they say. Off the CPU nothing is timed.
    Model, random numbers and torch's threads are left as they are. timer gives the milliseconds
    of one step done in a way; by default it trains.
    """
    device = next(model.parameters()).device
    precision = choose_precision(config.precision, device)
    best = Machine(threads=threads or 1, precision=precision)
    if device.type != "cpu":
        return best
    if config.precision == "auto":
        keep_memory()  # before anything is timed: not all ways gain by it alike
    race = _Race(timer or StepTimer(model, config))
    if threads is None:
        threads = probe_threads(
            lambda more, fewer: race.is_won(
                replace(best, threads=more), replace(best, threads=fewer)
            ),
            available_threads(),
        )
        best = replace(best, threads=threads)
    if config.precision == "auto":
        for precision, kernel in (
            ("float32", "explicit"),
            ("bfloat16", "fused"),
            ("bfloat16", "explicit"),
        ):
            challenger = replace(best, precision=precision, attention_kernel=kernel)
            if race.is_won(challenger, best):
                best = challenger
    return replace(best, milliseconds=race.milliseconds.get(best))


class _Race:
    """Times two ways in turns, so that what else the machine does meets both alike."""

    def __init__(self, timer: Callable[[Machine], float]) -> None:
        self.timer = timer
        self.milliseconds: dict[Machine, float] = {}  # the last medians

    def is_won(self, challenger: Machine, champion: Machine) -> bool:
        """Whether the challenger is faster, by enough to be worth it."""
        if champion not in self.milliseconds:
            self.timer(champion)  # the first fetches memory and chooses kernels
            self.milliseconds[champion] = self.timer(champion)
        if self.timer(challenger) > 3 * self.milliseconds[champion]:
            return False
        rounds = 3 if self.milliseconds[champion] < 500 else 1
        times = [(self.timer(champion), self.timer(challenger)) for _ in range(rounds)]
        for machine, its_times in zip(
            (champion, challenger), zip(*times, strict=True), strict=True
        ):
            self.milliseconds[machine] = round(statistics.median(its_times), 3)
        return self.milliseconds[challenger] < WORTH * self.milliseconds[champion]


class StepTimer:
    """Milliseconds of one step of training in a given way, on copies of the model."""

    def __init__(self, model: GPT, config: TrainingConfig) -> None:
        context_length = model.config.context_length
        batch_size = min(config.batch_size, max(1, TOKENS // context_length))
        self.model = model
        self.config = replace(config.steady(), batch_size=batch_size)
        self.tokens = torch.arange(2 * context_length + 1) % model.config.vocab_size
        self.trainers: dict[Machine, Trainer] = {}

    def __call__(self, machine: Machine) -> float:
        """One more step. The random numbers that dropout draws are put back."""
        threads_before = torch.get_num_threads()
        torch.set_num_threads(machine.threads)
        try:
            with torch.random.fork_rng(devices=[]):
                trainer = self._trainer(machine)
                started = time.perf_counter()
                trainer.step(trainer.config.learning_rate)
                return 1_000 * (time.perf_counter() - started)
        finally:
            torch.set_num_threads(threads_before)

    def _trainer(self, machine: Machine) -> Trainer:
        if machine not in self.trainers:
            model = copy.deepcopy(self.model)
            model.attention_kernel = machine.attention_kernel
            config = replace(self.config, precision=machine.precision)
            self.trainers[machine] = Trainer(model, self.tokens, self.tokens[:0], config)
        return self.trainers[machine]
