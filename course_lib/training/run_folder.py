"""The folder of a run, from its first step to its last: what a kill at any moment leaves behind.

    last/   weights, and in training.* all that the next step depends on: see Trainer.state_dict
    best/   weights of the lowest validation loss, or the last ones where there is none
    and, once the run has ended or was stopped, the files of a finished run: see checkpoint

One training at a time writes into a folder. Each part is replaced whole, best/ before last/.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors.torch import save as dump_tensors

from course_lib.data.tokenizer import CharTokenizer
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError, notice
from course_lib.training.checkpoint import (
    BEST,
    LAST,
    LOCK,
    describe,
    history_csv,
    read_history,
    read_tensors,
    rebuild,
    require_free,
    weights_to_store,
)
from course_lib.training.files import (
    CONFIG,
    HISTORY,
    MODEL,
    RESULT,
    STATE,
    TENSORS,
    cannot_write,
    damaged,
    json_bytes,
    read_sealed,
    replace_files,
    replace_folder,
    seal,
    whole,
)
from course_lib.training.trainer import Record, Trainer, finite

TENSOR_GROUPS = ("optimizer", "random")


@dataclass(frozen=True)
class Saved:
    """What last/ holds: a model, how it was trained, and the trainer's state.

    origin: where text and settings came from, as `RunFolder.begin` was told.
    """

    model: GPT
    tokenizer: CharTokenizer
    training: dict[str, Any]
    origin: dict[str, Any]
    state: dict[str, Any]


class RunFolder:
    """A run's folder, nobody else's inside `with`; the thread that enters leaves, too.

    resume: whether it may hold a run. Raises CourseError on entry if it holds something that it
    may not, cannot be written, or another process or thread trains into it.
    """

    def __init__(self, path: Path, *, resume: bool = False) -> None:
        self.path = Path(path)
        self.resume = resume
        self.tokenizer: CharTokenizer | None = None
        self.training: dict[str, Any] = {}
        self.origin: dict[str, Any] = {}

    def __enter__(self) -> RunFolder:
        if not self.resume:
            require_free(self.path)
        self.path = self.path.resolve()  # a link to a folder is as good as the folder
        self._lock = FileLock(self.path / LOCK)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise CourseError(
                f"another training is writing into {self.path}; wait for its end, or choose "
                "another --out"
            ) from None
        except (OSError, NotImplementedError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CourseError(
                f"{self.path} cannot be written: {reason}; choose another --out"
            ) from None
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # while it is still ours; Windows keeps an open file
            (self.path / LOCK).unlink()
        self._lock.release()
        with suppress(OSError):  # nothing was written: as if we had not been here
            self.path.rmdir()

    def saved(self) -> Saved | None:
        """Where the run is to go on; None, with a notice, if it begins at step 0.

        Raises CourseError naming a damaged file, or if the folder holds no run to go on with.
        """
        folder = whole(self.path / LAST)
        if folder.exists():
            return _read_saved(folder)
        held = sorted(path.name for path in self.path.iterdir())
        if CONFIG in held:
            whole_run = self.path.parent  # its last/ or best/ was named
            remedy = f"give {whole_run}, or " if (whole_run / LAST / STATE).exists() else ""
            raise CourseError(
                f"{self.path} holds a model without the state of its training ({LAST}/): it can be "
                f"used and not trained further; {remedy}choose another --out"
            )
        own = (LOCK, BEST, f".{BEST}.", f".{LAST}.")  # what a kill before the first last/ leaves
        if foreign := [name for name in held if not name.startswith(own)]:
            raise CourseError(f"{self.path} holds {foreign[0]!r} and no run; choose another --out")
        notice(f"{self.path} holds no checkpoint yet: the run begins at step 0")
        return None

    def restore(self, trainer: Trainer, saved: Saved) -> None:
        """Put the trainer where the run was saved. CourseError if the state does not fit it."""
        try:
            trainer.load_state_dict(saved.state)
        except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            raise damaged(self.path / LAST / STATE, f"it does not fit: {error}") from None

    def begin(
        self,
        trainer: Trainer,
        tokenizer: CharTokenizer,
        training: dict[str, Any],
        origin: dict[str, Any],
    ) -> None:
        """Say what config.json is to say of the run. CourseError if there is no room for it.

        origin: JSON-ready; what `saved` gives back and nobody but a resumed run needs.
        """
        self.tokenizer, self.training, self.origin = tokenizer, training, origin
        weights = sum(tensor.nbytes for tensor in weights_to_store(trainer.model).values())
        # best/ and the final one; last/ with two averages a weight, also while it is replaced
        needed = 8 * weights
        if shutil.disk_usage(self.path).free < needed + 1e6:
            raise cannot_write(self.path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), needed)

    def train(self, trainer: Trainer) -> Iterator[Record]:
        """Trainer.run, saved after every evaluation."""
        for record in trainer.run():
            if record.step % trainer.config.evaluate_every == 0 or trainer.finished:
                self.save(trainer)
            yield record

    def save(self, trainer: Trainer) -> None:
        """Write last/, and best/ if it is this step's. A stop in between is like one before."""
        state = trainer.state_dict()
        model = self._model_files(trainer)
        config = self._config(trainer)
        if trainer.best_step in (None, len(trainer.history)):
            replace_folder(self.path / BEST, seal(config, model))
        tensors = {
            f"{group}.{name}": tensor.cpu().contiguous()
            for group in TENSOR_GROUPS
            for name, tensor in state.pop(group).items()
        }
        del state["history"]
        model[HISTORY] = history_csv(trainer.history)
        model[TENSORS] = dump_tensors(tensors)
        model[STATE] = json_bytes({**state, "origin": self.origin})
        replace_folder(self.path / LAST, seal(config, model))

    def finish(self, trainer: Trainer, measure: bool = True) -> dict[str, Any]:
        """Write the run's final files, and return what is in result.json: see Trainer.result."""
        result = trainer.result(measure)
        files = self._model_files(trainer)
        files[HISTORY] = history_csv(trainer.history)
        files[RESULT] = json_bytes(result)
        replace_files(self.path, seal(self._config(trainer), files))
        return result

    def finished_at(self) -> int | None:
        """The step whose model the final files hold; None where they are not there, or damaged."""
        with suppress(CourseError):
            return read_sealed(self.path)[0].get("step")
        return None

    def _model_files(self, trainer: Trainer) -> dict[str, bytes]:
        return {MODEL: dump_tensors(weights_to_store(trainer.model))}

    def _config(self, trainer: Trainer) -> dict[str, Any]:
        last = trainer.history[-1]
        about = describe(trainer.model, self.tokenizer, self.training)
        return {**about, "step": last.step, "val_loss": finite(last.val_loss)}


class LeadersFolder(RunFolder):
    """The folder for a process that does not lead: it reads where to go on, and writes nothing."""

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, *_: object) -> None:
        """The leader sees to it."""

    def save(self, trainer: Trainer) -> None:
        """The leader does."""

    def finish(self, trainer: Trainer, measure: bool = True) -> dict[str, Any]:
        """The leader does."""
        return {}


def _read_saved(folder: Path) -> Saved:
    config, files = read_sealed(folder)
    for name in (HISTORY, TENSORS, STATE):
        if name not in files:
            raise damaged(folder / CONFIG, f"it has no checksum of {name}")
    model, tokenizer = rebuild(folder, config, files[MODEL])
    tensors = read_tensors(folder / TENSORS, files[TENSORS])
    try:
        state = json.loads(files[STATE].decode("utf-8"))
        origin = state.pop("origin")
        training = dict(config["training"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise damaged(folder / STATE, "it is not the state of a training") from None
    state["history"] = read_history(folder / HISTORY, files[HISTORY])
    for group in TENSOR_GROUPS:
        state[group] = {
            name.removeprefix(f"{group}."): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"{group}.")
        }
    return Saved(model, tokenizer, training, origin, state)
