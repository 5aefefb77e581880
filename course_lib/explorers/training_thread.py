"""A training in a thread of its own: paused, stopped and gone on with from outside.

A widget's buttons are not heard while a cell runs, so the cell that starts a training has to end
at once. What is wished is obeyed between two steps: nothing is lost, nothing is done by half.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol

import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.runtime import CourseError, notices_to, set_threads
from course_lib.training.resume import random_state, set_random_state
from course_lib.training.screen import stopped
from course_lib.training.trainer import Record, Trainer

LISTENING = 0.2  # seconds between two looks whether the kernel's stop button was pressed
ENDED = ("stopped", "finished", "failed")  # the states of a run that does nothing any more
PARTING = 10.0  # seconds that a kernel's end waits for the last checkpoint


class Job(Protocol):
    """What is to be trained: see training_jobs."""

    def run(
        self,
        opened: Callable[[Trainer, CharTokenizer, str], None],
        show: Callable[[Iterator[Record]], None],
        closing: Callable[[bool], bool],
    ) -> str:
        """Open it, train while `show` takes its records, and tell where it ended."""

    def again(self) -> Job:
        """The same, to go on where this one ended."""


class View(Protocol):
    """Who is told. All of it is called by the thread that trains."""

    def opened(self, trainer: Trainer, tokenizer: CharTokenizer, heading: str) -> None:
        """A trainer is ready for its first step, or the next one."""

    def stepped(self) -> None:
        """The trainer has done a step."""

    def changed(self, state: str, text: str = "") -> None:
        """What the run does now, and what is to be said of it."""

    def note(self, message: str) -> None:
        """Something that the user should know, from a thread that must not print it."""


class LiveRun:
    """A training that goes on while other cells run.

    state: "opening", "training", "paused", "closing" (it measures and saves), and at the end
    "stopped", "finished" or "failed". trainer: look at its model when the run is paused or has
    ended, for until then it changes at any moment. The run computes with a number of threads of
    its own. Only with dropout does it draw torch's random numbers, which all cells share: then
    pause it before a cell draws some. dashboard: None where there is no live notebook.
    """

    def __init__(self, job: Job, view: View) -> None:
        self.state = "opening"
        self.trainer: Trainer | None = None
        self.error: BaseException | None = None
        self.dashboard: object | None = None
        self._job, self._view = job, view
        self._wish = "train"
        self._changed = threading.Condition()  # guards the wish, and that one thread trains

    def __repr__(self) -> str:
        if self.trainer is None:
            return "<a run that did not begin>"
        done, steps = len(self.trainer.history), self.trainer.config.steps
        return f"<a run, {self.state}, {done:,} of {steps:,} steps done>"

    # ---- for the user

    def pause(self) -> None:
        """Hold after the step that is being done. Nothing happens to a run that has ended."""
        self._ask("pause")

    def resume(self) -> None:
        """Go on: after a pause, a stop or an error. A finished run stays as it is.

        After a stop the run is opened again; what goes wrong then is shown, and raised by wait().
        """
        if self._wish == "stop" or self.state in ENDED:  # which is shown before all is tidied up
            _await(self._ended)
        with self._changed:
            if not self._ended.is_set():
                self._ask("train")
                return
            if self.state == "finished":
                return
            self._job = self._job.again()
            self._prepare()
        self._start()

    def stop(self) -> None:
        """End after the step that is being done, as the kernel's stop button ends a training."""
        self._ask("stop")

    def wait(self) -> LiveRun:
        """Wait for the end of the run, where the next cells need it; returns the run.

        The kernel's stop button ends the run as stop() does, and then this returns. Raises what
        went wrong in the training, and CourseError if the run is paused.
        """
        if self._wish == "pause" and not self._ended.is_set():
            raise CourseError(
                f"the run is paused at step {len(self.trainer.history):,} and would never end; "
                "press Resume or call resume() before wait()"
            )
        try:
            _await(self._ended)
        except KeyboardInterrupt:
            self.stop()
            _await(self._ended)  # who is impatient stops twice
            print(self.text)
        if self.error is not None:
            raise self.error
        return self

    # ---- for train_live and watch

    def begin(self, *, background: bool) -> None:
        """Train: here, to the end, or in a thread. Returns when it has begun there.

        Raises what hinders it, and here what goes wrong later, too.
        """
        self._background = background
        self._prepare()
        self._start()
        try:
            _await(self._open)
        except KeyboardInterrupt:
            self.stop()
            raise
        if self.trainer is None:
            raise self.error

    def _prepare(self) -> None:
        self.state, self._wish, self._hurried = "opening", "train", False
        self.error, self.text = None, ""
        self._open, self._ended = threading.Event(), threading.Event()

    def _start(self) -> None:
        if self._background:
            atexit.register(self._part)
            threading.Thread(target=self._work, name="training", daemon=True).start()
            return
        self._work()
        if self.error is not None:
            raise self.error

    # ---- where it trains

    def _work(self) -> None:
        threads = torch.get_num_threads()
        try:
            with notices_to(self._view.note) if self._background else nullcontext():
                self.text = self._job.run(self._opened, self._show, self._closing)
            self._enter("finished" if self.trainer.finished else "stopped", self.text)
        except BaseException as error:
            self._fail(error)
        finally:
            atexit.unregister(self._part)
            with suppress(CourseError):  # more than processors, as OMP_NUM_THREADS allows
                set_threads(threads)
            self._open.set()
            self._ended.set()

    def _fail(self, error: BaseException) -> None:
        if self._background and isinstance(error, KeyboardInterrupt):
            state, self.text = "stopped", "Stopped before the first step: nothing was written."
        else:
            state, self.error = "failed", error
            self.text = f"{type(error).__name__}: {error}"
        self.state = state
        if self.trainer is not None:
            self._view.changed(state, self.text)

    def _opened(self, trainer: Trainer, tokenizer: CharTokenizer, heading: str) -> None:
        self._view.opened(trainer, tokenizer, heading)
        self.trainer = trainer
        self._open.set()

    def _show(self, records: Iterator[Record]) -> None:
        self._enter("training")
        self._obey()
        for _ in records:
            self._view.stepped()
            self._obey()

    def _obey(self) -> None:
        if self._wish == "pause":
            with own_random_numbers(self.trainer):
                self._enter("paused")
                with self._changed:
                    self._changed.wait_for(lambda: self._wish != "pause")
            if self._wish == "train":
                self._enter("training")
        if self._wish == "stop":
            raise KeyboardInterrupt  # what ends a training everywhere

    def _closing(self, was_stopped: bool) -> bool:
        """Before the run measures and saves. Returns whether there is time to measure."""
        aloud = was_stopped and not self._background
        said = stopped(self.trainer, "Ctrl-C") if aloud else ""
        self._enter("closing", said)
        return not self._hurried

    def _enter(self, state: str, text: str = "") -> None:
        self.state = state
        self._view.changed(state, text)

    def _ask(self, wish: str) -> None:
        with self._changed:
            if self._wish != "stop":  # which nothing takes back
                self._wish = wish
            self._changed.notify_all()

    def _part(self) -> None:
        """The kernel ends: leave a checkpoint of the last step."""
        self._hurried = True
        self.stop()
        self._ended.wait(PARTING)


@contextmanager
def own_random_numbers(trainer: Trainer) -> Iterator[None]:
    """Around a time in which others may draw torch's random numbers: dropout goes on with its own.

    Without dropout a training draws none of them, and they stay as the others left them.
    """
    before = random_state(trainer.generator, trainer.device)
    yield
    if trainer.model.config.dropout:
        set_random_state(before, trainer.generator, trainer.device)


def _await(event: threading.Event) -> None:
    """Wait for it; in short turns, for on Windows a wait cannot be interrupted."""
    while not event.wait(LISTENING):
        pass
