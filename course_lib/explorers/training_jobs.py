"""What a notebook can train: a run in a folder, as the command line's `train`, or a trainer.

Thin: training.session trains, saves and goes on, as it does in a terminal. Each is a job for
training_thread, which decides when.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from weakref import WeakSet

import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.runtime import CourseError, set_threads
from course_lib.training.resume import random_state, set_random_state
from course_lib.training.run_folder import RunFolder
from course_lib.training.screen import ending, nothing_to_do
from course_lib.training.session import Wishes, open_session
from course_lib.training.trainer import Record, Trainer

ARGUMENTS = {"out": "folder", "resume": "resume=True"}  # the options that have another name here
Opened = Callable[[Trainer, CharTokenizer | None, str], None]
Show = Callable[[Iterator[Record]], None]


@dataclass(frozen=True)
class FolderJob:
    """A run in a folder by the wishes of its user, a new one or one to go on with."""

    folder: Path
    wishes: Wishes
    resume: bool

    def run(self, opened: Opened, show: Show, closing: Callable[[bool], bool]) -> str:
        """Open the run, train what is left to do, write its files. See training_thread.Job."""
        with in_words_of_arguments(), RunFolder(self.folder, resume=self.resume) as folder:
            session = open_session(folder, self.wishes)
            trainer = session.trainer
            opened(trainer, session.corpus.tokenizer, session.describe())
            if session.finished:
                return nothing_to_do(trainer, self.folder, "steps")
            measure = closing(session.train(show, self.wishes.stop_after))
            result = session.finish(measure)
            again = f"train_live({str(self.folder)!r}, resume=True)"
            return ending(trainer, result, self.folder, again, timed=False)

    def again(self) -> FolderJob:
        """The same run, from its checkpoint to its end."""
        return replace(self, wishes=replace(self.wishes, stop_after=None), resume=True)


class TrainerJob:
    """A trainer that somebody made, with as many threads as there are where it is handed over."""

    def __init__(self, trainer: Trainer, tokenizer: CharTokenizer | None) -> None:
        self.trainer, self.tokenizer = trainer, tokenizer
        self.threads = torch.get_num_threads()
        self.random: dict[str, torch.Tensor] | None = None

    def run(self, opened: Opened, show: Show, closing: Callable[[bool], bool]) -> str:
        """Train to the last step or a stop. See training_thread.Job."""
        trainer = self.trainer
        with _alone(trainer.model):
            set_threads(self.threads)  # a thread does not inherit them
            if self.random and trainer.model.config.dropout:
                set_random_state(self.random, trainer.generator, trainer.device)
            opened(trainer, self.tokenizer, "")
            try:
                show(trainer.run())
            except KeyboardInterrupt:
                done, steps = len(trainer.history), trainer.config.steps
                return f"Stopped after step {done:,} of {steps:,}. To go on, call resume()."
            finally:
                self.random = random_state(trainer.generator, trainer.device)
        return ""

    def again(self) -> TrainerJob:
        """Itself: the trainer knows where it is."""
        return self


_in_training: WeakSet[torch.nn.Module] = WeakSet()
_one_at_a_time = threading.Lock()


@contextmanager
def _alone(model: torch.nn.Module) -> Iterator[None]:
    """Inside, nobody else trains the model; a cell that is run twice would do that."""
    with _one_at_a_time:
        if model in _in_training:
            raise CourseError(
                "this model is being trained already; stop that run or wait for its end, or make "
                "a new model"
            )
        _in_training.add(model)
    try:
        yield
    finally:
        _in_training.discard(model)


@contextmanager
def in_words_of_arguments() -> Iterator[None]:
    """Inside, a mistake is told by the names that the command line's options have here."""
    try:
        yield
    except CourseError as error:
        raise CourseError(as_arguments(str(error))) from None


def as_arguments(message: str) -> str:
    """A message that names options of the command line, with the names that they have here."""

    def argument(option: re.Match) -> str:
        name = option[1].replace("-", "_")
        return ARGUMENTS.get(name, name)

    return re.sub(r"(?<!\S)--([a-z]+(?:-[a-z]+)*)", argument, message)
