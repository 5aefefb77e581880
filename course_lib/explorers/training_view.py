"""Training watched from a notebook: a line that tells how far it is, over a curve that grows.

Thin: records in, a line and a picture out; `watch` shows them while the trainer works. What stays
in the notebook is the last curve alone, a PNG without times, so that it is the same at each build.
"""

from __future__ import annotations

import base64
import html
import io
import time
from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure

from course_lib.plots import loss_curve
from course_lib.plots.curves import trailing_mean
from course_lib.runtime import duration, in_notebook
from course_lib.training.trainer import Record, Trainer

SMOOTHING = 20  # steps: the loss of one batch jumps up and down
RECENT = 50  # steps that speed is measured over
SHARE = 0.02  # of the time, at most, goes into pictures
WIDTH, HEIGHT, DPI = 6.4, 3.6, 80  # inches, as in every lesson


def watch(trainer: Trainer, *, every: float = 0.5) -> list[Record]:
    """Train to the last step, showing how it goes; returns the trainer's history.

    The kernel's stop button ends it after a whole step, and `watch(trainer)` goes on from there.
    every: seconds between two updates, at least. Outside a notebook it prints eleven lines.
    """
    steps = trainer.config.steps
    try:
        show(trainer.run(), trainer.history, make_view(steps, every))
    except KeyboardInterrupt:
        done = len(trainer.history)
        print(f"Stopped after step {done:,} of {steps:,}. To go on, call watch(trainer) again.")
    return trainer.history


def make_view(steps: int, every: float = 0.5, heading: str = "") -> _NotebookView | _Lines:
    """What shows a training where this code runs. The heading is there while it trains."""
    return _NotebookView(steps, every, heading) if in_notebook() else _Lines(steps, heading)


def show(
    records: Iterable[Record], history: Sequence[Record], view: _NotebookView | _Lines
) -> None:
    """Show a history that grows with each of the records; its last picture even after an error."""
    view.begin(history)
    try:
        for _ in records:
            view.update(history)
    finally:
        view.end(history)


def progress_line(history: Sequence[Record], steps: int) -> str:
    """Step, loss, speed and time left, from the records so far."""
    if not history:
        return f"step 0 of {steps:,}"
    last = history[-1]
    loss = trailing_mean([record.train_loss for record in history[-SMOOTHING:]], SMOOTHING)[-1]
    before = history[-RECENT - 1] if len(history) > RECENT else None
    seconds = max(last.seconds - (before.seconds if before else 0), 1e-9)
    speed = (last.tokens - (before.tokens if before else 0)) / seconds
    left = (steps - last.step) * seconds / (last.step - (before.step if before else 0))
    parts = [f"step {last.step:,} of {steps:,}", f"loss {loss:.3f}"]
    measured = [record.val_loss for record in history if record.val_loss is not None]
    parts += [f"validation {measured[-1]:.3f}"] if measured else []
    return ", ".join([*parts, f"{speed:,.0f} characters/s", f"{duration(left)} left"])


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


class _NotebookView:
    """One display: line and curve while training, the curve alone before and after."""

    def __init__(self, steps: int, every: float, heading: str = "") -> None:
        self.steps = steps
        self.every = every
        self.heading = f"<div>{html.escape(heading)}</div>" if heading else ""
        self.next_line = self.next_curve = 0.0

    def begin(self, history: Sequence[Record]) -> None:
        from IPython.display import display

        self.handle = display(self._draw(history), raw=True, display_id=True)
        self.next_curve = time.perf_counter() + 2 * self.every  # a first one takes longer

    def update(self, history: Sequence[Record]) -> None:
        now = time.perf_counter()
        if now < self.next_line:
            return
        if now >= self.next_curve:
            self._draw(history)
        line = html.escape(progress_line(history, self.steps))
        size = f'width="{WIDTH * DPI:.0f}" height="{HEIGHT * DPI:.0f}"'
        picture = f'<img alt="loss curve" {size} src="data:image/png;base64,{self.picture}">'
        self.handle.update({"text/html": f"{self.heading}<div>{line}</div>{picture}"}, raw=True)
        self.next_line = time.perf_counter() + self.every

    def end(self, history: Sequence[Record]) -> None:
        self.handle.update(self._draw(history), raw=True)

    def _draw(self, history: Sequence[Record]) -> dict[str, str]:
        started = time.perf_counter()
        self.picture = base64.b64encode(png(curve(history, self.steps))).decode("ascii")
        ended = time.perf_counter()
        self.next_curve = ended + (ended - started) / SHARE
        return {"image/png": self.picture, "text/plain": "The loss of each step, as a curve."}


class _Lines:
    """A line at each tenth of the run, where there is no notebook."""

    def __init__(self, steps: int, heading: str) -> None:
        self.steps = steps
        self.heading = heading

    def begin(self, history: Sequence[Record]) -> None:
        if self.heading:
            print(self.heading)
        print(progress_line(history, self.steps))

    def update(self, history: Sequence[Record]) -> None:
        done = len(history)
        if done * 10 // self.steps > (done - 1) * 10 // self.steps:
            print(progress_line(history, self.steps))

    def end(self, history: Sequence[Record]) -> None:
        pass
