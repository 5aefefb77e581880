"""What a training shows in a terminal: a bar while it runs, and where it ended.

The bar is for people and goes to stderr; what is found goes to stdout.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from tqdm import tqdm

from course_lib.training.trainer import Record


def show_bar(
    records: Iterable[Record], done: int, steps: int, stop_after: int | None = None
) -> None:
    """Draw a bar of loss, characters/s and time left while records come, up to a step if given."""
    layout = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}, {remaining} left{postfix}]"
    with tqdm(total=steps, initial=done, bar_format=layout, dynamic_ncols=True) as bar:
        for record in records:
            speed = record.tokens / max(record.seconds, 1e-9)
            bar.set_postfix_str(
                f"loss {record.train_loss:.3f}, {speed:,.0f} characters/s", refresh=False
            )
            bar.update(record.step - bar.n)
            if record.val_loss is not None:
                bar.write(f"step {record.step:5,d}: validation loss {record.val_loss:.4f}")
            if record.step == stop_after:
                break


def summary(result: dict[str, Any]) -> str:
    """Where a run ended, from Trainer.result, in two to four lines."""
    cost = (
        f"{result['train_seconds']:.1f} s of training, "
        f"{result['tokens_per_second']:,.0f} characters/s"
    )
    if result["val_loss"] is None:
        lines = [f"No validation loss was measured; {cost}"]
    else:
        lines = [f"Validation loss {result['val_loss']:.4f} nats per character; {cost}"]
    if result["best_step"] and result["best_val_loss"] < (result["val_loss"] or math.inf):
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
