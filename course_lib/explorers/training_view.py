"""A training in numbers and pictures: how far it is, its curve, and what its model writes.

Pure: a trainer's history in, lines, points and figures out. What shows them is training_dashboard,
or, where no button can be pressed, the two small views below.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence

from matplotlib.figure import Figure

from course_lib.plots import loss_curve
from course_lib.plots.curves import trailing_mean
from course_lib.plots.labels import visible
from course_lib.runtime import duration
from course_lib.training.presets import TrainingConfig
from course_lib.training.schedule import learning_rate
from course_lib.training.trainer import Record, Trainer, finite

SMOOTHING = 20  # steps: the loss of one batch jumps up and down
RECENT = 50  # steps that speed is measured over
MOST_POINTS = 1_000  # of a curve: more than a screen can show
PLAN_POINTS = 200
WIDTH, HEIGHT, DPI = 6.4, 3.6, 80  # inches, as in every lesson
STILL_TEXT = "The loss of each step, as a curve."


def progress(history: Sequence[Record], steps: int) -> dict[str, str]:
    """How far it is, as texts: step, loss, validation, rate, speed and time left, if there are."""
    if not history:
        return {"step": f"0 of {steps:,}"}
    last = history[-1]
    before = history[-RECENT - 1] if len(history) > RECENT else None
    seconds = max(last.seconds - (before.seconds if before else 0), 1e-9)
    speed = (last.tokens - (before.tokens if before else 0)) / seconds
    left = (steps - last.step) * seconds / (last.step - (before.step if before else 0))
    measured = next((r.val_loss for r in reversed(history) if r.val_loss is not None), None)
    return {
        "step": f"{last.step:,} of {steps:,}",
        "loss": f"{_smooth(history, len(history)):.3f}",
        **({} if measured is None else {"validation": f"{measured:.3f}"}),
        "rate": f"{last.learning_rate:.2g}",
        "speed": f"{speed:,.0f} characters/s",
        "left": duration(left),
    }


def progress_line(history: Sequence[Record], steps: int) -> str:
    """Step, loss, speed and time left, from the records so far."""
    now = progress(history, steps)
    parts = [f"{name} {now[name]}" for name in ("step", "loss", "validation") if name in now]
    return ", ".join([*parts, *([now["speed"], f"{now['left']} left"] if history else [])])


def points(history: Sequence[Record], after: int, steps: int) -> list[list[float | None]]:
    """Step, loss, its trailing mean, and learning rate, of the steps after a step.

    Of a run of many steps every second, third … step is given, and at most MOST_POINTS in all. A
    loss that is no number is None.
    """
    every = -(-steps // MOST_POINTS)
    found = []
    for step in range((after // every + 1) * every, len(history) + 1, every):
        record = history[step - 1]
        smooth = _smooth(history, step)
        found.append([step, finite(record.train_loss), finite(smooth), record.learning_rate])
    return found


def validation(history: Sequence[Record], after: int = 0) -> list[list[float | None]]:
    """Step and validation loss of the steps after a step that have one."""
    return [[r.step, finite(r.val_loss)] for r in history[after:] if r.val_loss is not None]


def plan(config: TrainingConfig) -> list[list[float]]:
    """Step and learning rate over the whole run, as its schedule has them."""
    last = config.steps - 1
    at = {round(last * i / (PLAN_POINTS - 1)) for i in range(PLAN_POINTS)}
    return [[step + 1, learning_rate(step, config)] for step in sorted({*at, config.warmup_steps})]


def curve(history: Sequence[Record], steps: int) -> Figure:
    """The losses so far, on an axis as long as the whole run."""
    figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, layout="none")
    ax = figure.subplots(gridspec_kw={"left": 0.13, "right": 0.97, "bottom": 0.15, "top": 0.96})
    loss_curve(
        [record.step for record in history],
        [record.train_loss for record in history],
        [(record.step, record.val_loss) for record in history if record.val_loss is not None],
        smoothing=SMOOTHING,
        ax=ax,
    )
    ax.set_xlim(0, steps * 1.02)  # so that the last point is whole
    if not history:
        ax.set_yticks([])
    return figure


def png(figure: Figure) -> bytes:
    """A figure as a picture."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def readable(text: str) -> str:
    """A text with its spaces and line breaks; what has no form of its own as its code point."""
    return "".join(
        c if c in " \n" or unicodedata.category(c)[0] not in "CZ" else visible(c) for c in text
    )


def _smooth(history: Sequence[Record], step: int) -> float:
    recent = [record.train_loss for record in history[max(0, step - SMOOTHING) : step]]
    return trailing_mean(recent, SMOOTHING)[-1]


class Lines:
    """A line at each tenth of a run, where there is no notebook."""

    def opened(self, trainer: Trainer, _: object, heading: str) -> None:
        """Say what is to be trained."""
        self.trainer = trainer
        if heading:
            print(heading)
        print(self._line())

    def stepped(self) -> None:
        """Say how far it is, at each tenth of the run."""
        done, steps = len(self.trainer.history), self.trainer.config.steps
        if done * 10 // steps > (done - 1) * 10 // steps:
            print(self._line())

    def changed(self, state: str, text: str = "") -> None:
        """Say what it has come to; an error is raised, and not said here."""
        if text and state != "failed":
            print(text)

    def _line(self) -> str:
        return progress_line(self.trainer.history, self.trainer.config.steps)


class LastCurve:
    """The last curve and where it ended: what a built notebook keeps, without times."""

    def opened(self, trainer: Trainer, *_: object) -> None:
        """Nothing is shown yet."""
        self.trainer = trainer

    def stepped(self) -> None:
        """Nothing is shown yet."""

    def changed(self, state: str, text: str = "") -> None:
        """Show the curve at the end, also of a run that failed."""
        if state not in ("finished", "stopped", "failed"):
            return
        from IPython.display import display

        picture = png(curve(self.trainer.history, self.trainer.config.steps))
        display({"image/png": picture, "text/plain": STILL_TEXT}, raw=True)
        if text and state != "failed":
            print(text)
