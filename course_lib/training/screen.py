"""What a training says: in a terminal a bar while it runs, and everywhere where it ended.

The bar is for people and goes to stderr; what is found goes to stdout.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from course_lib.training.trainer import Record, Trainer


def show_bar(records: Iterable[Record], done: int, steps: int, *, hidden: bool = False) -> None:
    """Draw a bar of loss, characters/s and time left while records come."""
    layout = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}, {remaining} left{postfix}]"
    with tqdm(
        total=steps, initial=done, bar_format=layout, dynamic_ncols=True, disable=hidden
    ) as bar:
        for record in records:
            speed = record.tokens / max(record.seconds, 1e-9)
            bar.set_postfix_str(
                f"loss {record.train_loss:.3f}, {speed:,.0f} characters/s", refresh=False
            )
            bar.update(record.step - bar.n)
            if record.val_loss is not None and not hidden:
                bar.write(f"step {record.step:5,d}: validation loss {record.val_loss:.4f}")


def stopped(trainer: Trainer, button: str) -> str:
    """What is still to be done after a stop, and how to have it done sooner."""
    return (
        f"Stopped at step {len(trainer.history):,} of {trainer.config.steps:,}. Measuring the loss "
        f"and saving takes some seconds; {button} once more skips the measuring."
    )


def nothing_to_do(trainer: Trainer, folder: Path, longer: str) -> str:
    """What is said of a run that is finished; `longer` is how more steps are asked for."""
    done, steps = len(trainer.history), trainer.config.steps
    return f"{folder} is finished, {done:,} of {steps:,} steps; a larger {longer} extends it."


def ending(
    trainer: Trainer, result: dict[str, Any], folder: Path, again: str, *, timed: bool = True
) -> str:
    """Where a run ended, its folder, and how to go on, by `again`, if steps are left."""
    lines = [summary(result, timed=timed), f"Written to {folder}"]
    if not trainer.finished:
        steps = trainer.config.steps
        lines.append(f"{result['steps']:,} of {steps:,} steps are done. To go on: {again}")
    return "\n".join(lines)


def summary(result: dict[str, Any], *, timed: bool = True) -> str:
    """The losses that a run ended with, from Trainer.result; timed: what it took, too."""
    if result["val_loss"] is None:
        lines = ["There is no validation loss"]
    else:
        lines = [f"Validation loss {result['val_loss']:.4f} nats per character"]
    if timed:
        lines[0] += (
            f"; {result['train_seconds']:.1f} s of training, "
            f"{result['tokens_per_second']:,.0f} characters/s"
        )
    last = math.inf if result["val_loss"] is None else result["val_loss"]
    if result["best_step"] and result["best_val_loss"] < last:
        lines.append(
            f"The lowest was {result['best_val_loss']:.4f}, at step {result['best_step']:,}: best/"
        )
    if result["test_loss"] is not None:
        lines.append(
            f"Test loss {result['test_loss']:.4f}, on text that had no part in any choice "
            "(so choose nothing by it)"
        )
    return "\n".join(lines)


class Patient(io.TextIOBase):
    """A stream whose reader may go away (`| head`, a full disk): the training goes on."""

    def __init__(self, stream) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write it if that is possible, at once."""
        with suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()
        return len(text)

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self.stream.isatty()

    def fileno(self) -> int:
        """The stream's own."""
        return self.stream.fileno()

    @property
    def encoding(self) -> str:
        """The stream's own."""
        return self.stream.encoding
