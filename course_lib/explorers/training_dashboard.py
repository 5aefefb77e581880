"""The dashboard of a training: curve, rate, speed, samples of what its model writes, and buttons.

Thin: training_thread decides when, training_view has the numbers. They travel a few times a second,
and only what is new. What stays in the notebook is a picture of the curve, without times.
"""

from __future__ import annotations

import threading
import time

import traitlets
from matplotlib.figure import Figure

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers.frame import Explorer, front_end
from course_lib.explorers.training_thread import ENDED, LiveRun
from course_lib.explorers.training_view import (
    STILL_TEXT,
    curve,
    plan,
    png,
    points,
    progress,
    readable,
    validation,
)
from course_lib.generation import Sampling, generate_text
from course_lib.runtime import CourseError
from course_lib.training.trainer import Trainer

EVERY = 0.3  # seconds between two updates, at least
SHARE = 0.02  # of the time, at most, goes into the stills of a run that goes on
SAMPLES, LENGTH = 10, 120  # texts over a run after the first, and characters of each
SAMPLING = Sampling(temperature=0.6)  # rather safely: what it has learned shows sooner


class TrainingDashboard(Explorer):
    """What a LiveRun tells, on a page; made by training_run.

    every: seconds between two updates. `curve` is the whole, and `more` what came after the step
    `more["after"]`: a front end that was not there in time has a gap until the next whole one.
    """

    _esm = front_end("training")

    state = traitlets.Unicode("opening").tag(sync=True)
    heading = traitlets.Unicode().tag(sync=True)
    prompt = traitlets.Unicode().tag(sync=True)
    steps = traitlets.Int(1).tag(sync=True)
    plan = traitlets.List().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    curve = traitlets.Dict().tag(sync=True)
    more = traitlets.Dict().tag(sync=True)
    samples = traitlets.List().tag(sync=True)
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    ending = traitlets.Unicode().tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)

    def __init__(self, prompt: str = "", *, every: float = EVERY) -> None:
        self._trainer: Trainer | None = None  # first: the state is asked for in the constructor
        super().__init__(prompt=readable(prompt))
        self._prompt = prompt
        self.run: LiveRun | None = None
        self._every = every
        self._sent = 0  # the step up to which the front end has the curve
        self._next_update = self._next_still = 0.0
        self._stills: list = []  # handles of what is displayed
        self._drawing = threading.Lock()
        self.on_msg(self._hear)
        _hear_at_once(self.comm)

    # ---- called by the thread that trains: see training_thread.View

    def opened(self, trainer: Trainer, tokenizer: CharTokenizer | None, heading: str) -> None:
        """A run begins or goes on. CourseError for a prompt with unknown characters."""
        if tokenizer is not None:
            tokenizer.encode(self._prompt)
        self._trainer, self._tokenizer = trainer, tokenizer
        with self.hold_sync():
            self.heading, self.steps = heading, trainer.config.steps
            self.plan = plan(trainer.config)
            self._send_all()

    def stepped(self) -> None:
        """A step is done: every now and then the page is told."""
        done, steps = len(self._trainer.history), self._trainer.config.steps
        if done % max(1, steps // SAMPLES) == 0 or done == steps:
            self._write()
            self._send_all()
            self._draw_again()
        elif time.monotonic() >= self._next_update:
            self._send_more()

    def changed(self, state: str, text: str = "") -> None:
        """The run does something else now."""
        begins = state == "training" and self.state != "paused"
        if (begins or state in ("stopped", "finished")) and not self._is_sampled():
            self._write()
        with self.hold_sync():
            self.state = state
            self.message = text if state == "failed" else ""
            self.ending = text if state != "failed" else ""
            self._send_all()
        if state in ("paused", *ENDED):
            self._draw_again(now=True)

    def note(self, message: str) -> None:
        """Something that the user should know."""
        if message not in self.notes:
            self.notes = [*self.notes, message]

    # ---- what is sent

    def get_state(self, *arguments, **options) -> dict:
        """As of now, for a page that is opened while a run goes on."""
        state = super().get_state(*arguments, **options)
        if self._trainer is not None and "curve" in state:
            state["curve"] = self._whole()
        return state

    def _whole(self) -> dict:
        history = list(self._trainer.history)
        return {
            "points": points(history, 0, self._trainer.config.steps),
            "validation": validation(history),
        }

    def _send_all(self) -> None:
        with self.hold_sync():
            self.curve = self._whole()
            self._send_progress()

    def _send_more(self) -> None:
        history, after = self._trainer.history, self._sent
        new = points(history, after, self._trainer.config.steps)
        with self.hold_sync():
            self.more = {
                "after": after,
                "points": new,
                "validation": validation(history, after),
            }
            self._send_progress()

    def _send_progress(self) -> None:
        history = self._trainer.history
        self.progress = {"done": len(history), **progress(history, self._trainer.config.steps)}
        self._sent = len(history)
        self._next_update = time.monotonic() + self._every

    def _write(self) -> None:
        """A sample. It draws its own random numbers, as an evaluation draws none."""
        if self._tokenizer is None:
            return
        model, done = self._trainer.model, len(self._trainer.history)
        try:
            text = "".join(generate_text(model, self._tokenizer, self._prompt, LENGTH, SAMPLING))
        except CourseError as error:  # of a training that has diverged
            text = f"({error})"
        earlier = [sample for sample in self.samples if sample["step"] < done]
        self.samples = [*earlier, {"step": done, "text": readable(text)}]

    def _is_sampled(self) -> bool:
        return any(sample["step"] == len(self._trainer.history) for sample in self.samples)

    def _hear(self, _: object, content: dict, __: object) -> None:
        """A button was pressed. What goes wrong then is shown by the thread."""
        wish = content.get("wish")
        if self.run is not None and wish in ("pause", "resume", "stop"):
            getattr(self.run, wish)()

    # ---- the still

    def still(self) -> Figure:
        """The curve so far."""
        return curve(list(self._trainer.history), self._trainer.config.steps)

    def still_text(self) -> str:
        """What the still is."""
        return STILL_TEXT

    def _show_still(self) -> None:
        from IPython.display import display

        with self._drawing:
            self._stills.append(display(self._bundle(), raw=True, display_id=True))

    def _draw_again(self, *, now: bool = False) -> None:
        """Let what is saved with the notebook be as it is now. Any thread may: no pyplot in it."""
        started = time.monotonic()
        if not now and started < self._next_still:
            return
        with self._drawing:
            bundle = self._bundle() if self._stills else {}
            for handle in self._stills:
                handle.update(bundle, raw=True)
        ended = time.monotonic()
        self._next_still = ended + (ended - started) / SHARE

    def _bundle(self) -> dict:
        return {"image/png": png(self.still()), "text/plain": self.still_text()}


def _hear_at_once(comm: object) -> None:
    """Let what a page sends be heard while a cell runs, wherever the kernel has subshells.

    JupyterLab sends it to a subshell. But ipykernel, since 7.4, brings it to the shell that spoke
    of the widget last, as an answer to that; there a button would wait for the end of the cell,
    and a cell may wait for the button. A kernel that does not ask for a route is as it was.
    """
    if comm is not None:
        comm._reply_subshell_for = lambda _data, sent_to: sent_to
