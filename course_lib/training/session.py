"""A run from what its user asked for, in a terminal or a notebook, to the files that it leaves.

It is a new one, or goes on from its checkpoint. Then it takes every setting from there: what the
user says again has to agree; only the number of steps may grow.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.data.corpora import BUILT_IN, Corpus, load_corpus, require_windows
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.runtime import CourseError, choose_device, notice, set_threads, threads_asked_for
from course_lib.training.parallel import ALONE, Team
from course_lib.training.precision import Precision
from course_lib.training.presets import TrainingConfig, get_preset
from course_lib.training.probe import probe
from course_lib.training.resume import uninterrupted
from course_lib.training.run_folder import RunFolder, Saved
from course_lib.training.schedule import learning_rate
from course_lib.training.trainer import Record, Trainer


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the user asked for; None for what was left open.

    steps is the length of the schedule; stop_after the step to stop at, as an interrupt would.
    """

    corpus: str | None = None
    encoding: str | None = None
    preset: str | None = None
    steps: int | None = None
    seed: int | None = None
    device: str | None = None
    threads: int | None = None
    stop_after: int | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "stop_after"):
            wish = getattr(self, name)
            if wish is not None and (not isinstance(wish, int) or wish < 1):
                option = name.replace("_", "-")
                raise CourseError(f"--{option} {wish!r} must be a whole number, 1 or above")


@dataclass(frozen=True)
class Session:
    """A run at its first step to do: its folder, trainer and text, and why it computes so."""

    folder: RunFolder
    trainer: Trainer
    corpus: Corpus
    why: str

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: all steps are done, and the final files are theirs."""
        return self.trainer.finished and self.folder.finished_at() == self.trainer.config.steps

    def describe(self) -> str:
        """What is about to happen, for the user to read."""
        model, config, state = self.trainer.model, self.trainer.config, self.trainer
        done = len(state.history)
        return (
            f"Training {count_parameters(model):,} parameters on {len(self.corpus.train):,} "
            f"characters of {self.corpus.name}: {config.steps:,} × {config.batch_size} windows of "
            f"{model.config.context_length} characters, on {state.device}, in "
            f"{state.precision.name}, {model.attention_kernel} attention, threads: "
            f"{torch.get_num_threads()} ({self.why})"
            + (f", in {self.trainer.team.size} processes." if self.trainer.team.size > 1 else ".")
            + (f" It goes on after step {done:,}." if done else "")
        )

    def train(
        self, show: Callable[[Iterator[Record]], None], stop_after: int | None = None
    ) -> bool:
        """Train, saved on the way, at a stop and after an error. Returns whether it was stopped.

        show draws the steps' records as they come. A stop is KeyboardInterrupt: Ctrl-C, or a
        notebook's button. Before the first step is done there is nothing to keep: it is raised.
        """
        stopped = False
        try:
            show(self._records(stop_after))
        except KeyboardInterrupt:
            if not self.trainer.history:
                raise
            stopped = True
        except Exception:
            with suppress(CourseError):  # what is wrong with saving may be what stopped us
                if self.trainer.history:
                    self.folder.save(self.trainer)
            raise
        if stopped or not self.trainer.finished:
            with suppress(KeyboardInterrupt), uninterrupted():  # who is impatient stops twice
                self.folder.save(self.trainer)
        return stopped

    def finish(self, measure: bool = True) -> dict[str, Any]:
        """Write the final files: see RunFolder.finish. A stop meanwhile skips the measuring."""
        try:
            return self.folder.finish(self.trainer, measure)
        except KeyboardInterrupt:
            return self.folder.finish(self.trainer, measure=False)

    def _records(self, stop_after: int | None) -> Iterator[Record]:
        if stop_after is not None and stop_after <= len(self.trainer.history):
            return
        for record in self.folder.train(self.trainer):
            yield record
            if record.step == stop_after:
                return


def open_session(folder: RunFolder, wishes: Wishes, team: Team = ALONE) -> Session:
    """The run that the folder holds, if it may hold one, or else a new one."""
    saved = folder.saved() if folder.resume else None
    if saved:
        return resumed_session(folder, saved, wishes, team)
    return new_session(folder, wishes, team)


def new_session(folder: RunFolder, wishes: Wishes, team: Team = ALONE) -> Session:
    """A run from its beginning. CourseError for wishes that cannot be."""
    if wishes.corpus is None:
        raise CourseError(f"--corpus is missing: {' or '.join(BUILT_IN)}, or a text file")
    preset_name = wishes.preset or "plain"
    preset = get_preset(preset_name)
    recipe = preset.training.adapted(steps=wishes.steps, seed=wishes.seed)
    set_threads(wishes.threads)
    device = choose_device(wishes.device)
    encoding = wishes.encoding or "utf-8"
    corpus = load_corpus(wishes.corpus, encoding=encoding)
    config = GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **preset.model)
    require_windows(corpus.train, config.context_length)
    torch.manual_seed(recipe.seed)
    model = GPT(config).to(device)
    # processes that share a processor have one thread each, unless told otherwise
    found = wishes.threads is None and not threads_asked_for() and team.size == 1
    threads = None if found else torch.get_num_threads()
    machine = team.from_leader(lambda: probe(model, recipe, threads))
    set_threads(machine.threads)
    model.attention_kernel = machine.attention_kernel
    trainer = Trainer(
        model,
        corpus.train,
        corpus.validation,
        recipe,
        test_tokens=corpus.test,
        precision=Precision(machine.precision, device),
        team=team,
    )
    origin = {
        "corpus": corpus.name if wishes.corpus in BUILT_IN else os.path.abspath(corpus.source),
        "encoding": encoding,
        "corpus_checksum": corpus_checksum(corpus),
        "probe": machine.to_dict(),
    }
    training = {"corpus": corpus.name, "preset": preset_name, **recipe.to_dict()}
    folder.begin(trainer, corpus.tokenizer, training, origin)
    why = "as asked for"
    if machine.milliseconds is not None:
        why = f"probed: {machine.milliseconds:.0f} ms a step"
    elif found:
        why = f"the default on {device.type}"
    return Session(folder, trainer, corpus, why)


def resumed_session(folder: RunFolder, saved: Saved, wishes: Wishes, team: Team = ALONE) -> Session:
    """The run where it was saved. CourseError, with both values, for a wish that contradicts it."""
    training, origin = dict(saved.training), saved.origin
    _require_agreement(wishes, saved)
    try:
        corpus = load_corpus(
            wishes.corpus or origin["corpus"], encoding=wishes.encoding or origin["encoding"]
        )
    except CourseError as error:
        if wishes.corpus:
            raise
        raise CourseError(
            f"the run's text is not where it was: {error}; say by --corpus where it is now"
        ) from None
    if (checksum := corpus_checksum(corpus)) != origin["corpus_checksum"]:
        raise CourseError(
            f"{corpus.source} is not the text of the run: its checksum is {checksum[:12]}, and the "
            f"run's {training['corpus']} has {origin['corpus_checksum'][:12]}; give that one by "
            "--corpus, or choose another --out for a new run"
        )
    names = {name: training.pop(name) for name in ("corpus", "preset")}
    recipe = TrainingConfig.from_dict(training)
    longer = _extended(recipe, wishes.steps, len(saved.state["history"]))
    model = saved.model.to(_device_of(saved, wishes))
    trainer = Trainer(
        model, corpus.train, corpus.validation, longer, test_tokens=corpus.test, team=team
    )
    folder.restore(trainer, saved)
    folder.begin(trainer, corpus.tokenizer, {**names, **longer.to_dict()}, origin)
    return Session(folder, trainer, corpus, "as in the checkpoint")


def corpus_checksum(corpus: Corpus) -> str:
    """SHA-256 of a text as it is learned from: its vocabulary and the tokens of its three parts."""
    digest = hashlib.sha256(corpus.tokenizer.vocabulary.encode("utf-8"))
    for part in (corpus.train, corpus.validation, corpus.test):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part.numpy().astype("<i8").tobytes())
    return digest.hexdigest()


def _require_agreement(wishes: Wishes, saved: Saved) -> None:
    machine = saved.state["machine"]
    device = choose_device(wishes.device) if wishes.device else None
    pairs = {
        "preset": (wishes.preset, saved.training["preset"]),
        "seed": (wishes.seed, saved.training["seed"]),
        "threads": (wishes.threads, machine["threads"]),
        "device": (device and device.type, torch.device(machine["device"]).type),
    }
    for name, (wanted, stored) in pairs.items():
        if wanted is not None and wanted != stored:
            raise CourseError(
                f"--{name} {wanted} contradicts the run, which has {stored}; leave it out to go on "
                "with the run, or choose another --out for a new one"
            )


def _device_of(saved: Saved, wishes: Wishes) -> torch.device:
    stored = saved.state["machine"]["device"]
    try:
        return choose_device(wishes.device or stored)
    except CourseError:  # trained on another machine; the trainer says so
        return choose_device()


def _extended(recipe: TrainingConfig, steps: int | None, done: int) -> TrainingConfig:
    """The recipe with more steps, if wanted, and a notice of what the rate then does."""
    if steps is None or steps == recipe.steps:
        return recipe
    if steps < recipe.steps:
        raise CourseError(
            f"--steps {steps} contradicts the run, whose schedule has {recipe.steps} steps and "
            f"{done} of them done; a run can be extended and not shortened: use --stop-after"
        )
    longer = recipe.adapted(steps=steps)
    now = f"was {learning_rate(done - 1, recipe):.3g} at step {done:,}" if done else "starts anew"
    notice(
        f"the schedule is stretched from {recipe.steps:,} to {steps:,} steps: the learning rate "
        f"{now}, is {learning_rate(done, longer):.3g} at step {done + 1:,} and falls to "
        f"{learning_rate(steps - 1, longer):.3g} at step {steps:,}"
    )
    return longer
