"""What the tests of training from a notebook share: tiny trainers, and a view that remembers."""

from __future__ import annotations

import threading

import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers.training_thread import ENDED, LiveRun
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Record, Trainer

STEPS = 23
TOKENIZER = CharTokenizer("abcdefg")
FOREVER = 300  # seconds until a test that hangs is given up: nothing is measured by it


def make_trainer(steps: int = STEPS, dropout: float = 0.0) -> Trainer:
    torch.manual_seed(0)
    shape = {"context_length": 5, "n_layers": 1, "d_model": 8, "n_heads": 2, "dropout": dropout}
    model = GPT(GPTConfig(vocab_size=7, **shape))
    tokens = torch.randint(7, (300,), generator=torch.Generator().manual_seed(1))
    recipe = TrainingConfig(steps=steps, warmup_steps=2, batch_size=3, evaluate_every=10)
    return Trainer(model, tokens[:200], tokens[200:], recipe)


def at_step(trainer: Trainer, step: int, act) -> None:
    """Call `act`, once, in the middle of that step of a training."""

    def look(model, _):
        if model.training and len(trainer.history) == step - 1:
            hook.remove()
            act()

    hook = trainer.model.register_forward_pre_hook(look)


def losses_of(trainer: Trainer) -> list[tuple]:
    return [(record.step, record.train_loss, record.val_loss) for record in trainer.history]


def straight(dropout: float = 0.0) -> list[tuple]:
    """The losses of a run that nobody watched or stopped."""
    trainer = make_trainer(dropout=dropout)
    list(trainer.run())
    return losses_of(trainer)


def records(seconds: list[float], val_loss: float | None = None) -> list[Record]:
    """Steps that each took so long, of 100 characters, with losses 1, 2, 3, …"""
    passed = [sum(seconds[: n + 1]) for n in range(len(seconds))]
    return [
        Record(n + 1, 100 * (n + 1), passed[n], float(n + 1), val_loss if n == 1 else None, 0.1)
        for n in range(len(seconds))
    ]


class Watcher:
    """A view that remembers what it is told, and does something after given steps."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.threads: set[str] = set()
        self.after: dict[int, object] = {}
        self.news = threading.Condition()

    def opened(self, trainer, tokenizer, heading) -> None:
        self.trainer, self.heading = trainer, heading

    def stepped(self) -> None:
        self.threads.add(threading.current_thread().name)
        act = self.after.pop(len(self.trainer.history), None)
        if act is not None:
            act()

    def changed(self, state, text="") -> None:
        with self.news:
            self.states.append((state, text))
            self.news.notify_all()

    def note(self, message) -> None:
        self.notes.append(message)

    def await_state(self, state: str, times: int = 1) -> None:
        """Wait until it has come to this state so many times."""
        with self.news:
            assert self.news.wait_for(lambda: self.names().count(state) >= times, FOREVER)

    def names(self) -> list[str]:
        return [state for state, _ in self.states]


def await_end(run: LiveRun) -> None:
    """Wait without the run's own wait()."""
    assert run._ended.wait(FOREVER) and run.state in ENDED
