"""A run trained from a notebook into a folder: the command line's `train`, watched.

Thin: training.session trains, saves and goes on, as it does in a terminal; training_view shows it.
What stays in the notebook has no times in it, so that it is the same at each build.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from course_lib.explorers.training_view import make_view, show
from course_lib.runtime import CourseError, in_notebook, set_threads, usable_path
from course_lib.training.run_folder import RunFolder
from course_lib.training.screen import ending, nothing_to_do, stopped
from course_lib.training.session import Session, Wishes, open_session
from course_lib.training.trainer import Trainer

ARGUMENTS = {"out": "folder", "resume": "resume=True"}  # the options that have another name here


def train_in(
    folder: str | Path,
    *,
    corpus: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    stop_after: int | None = None,
    seed: int | None = None,
    encoding: str | None = None,
    device: str | None = None,
    threads: int | None = None,
    resume: bool = False,
) -> Trainer:
    """Train by a preset into a folder, showing how it goes; returns the trainer at its last step.

    train_in("runs/first", corpus="shakespeare", preset="quick")
    train_in("runs/first", resume=True)          # after a stop: the same run, to its end
    model, tokenizer, config = load_run("runs/first")

    A relative folder lies beside the notebook, so work/runs/first here. The kernel's stop button
    ends the training after a whole step: last/ and best/ are in the folder then, as after each
    evaluation. The arguments are the options of `python -m course_lib train`, which can go on with
    the run too. torch's number of threads is put back. Raises CourseError as the command does.
    """
    threads_before = torch.get_num_threads()
    try:
        wishes = Wishes(
            corpus=corpus,
            preset=preset,
            steps=steps,
            stop_after=stop_after,
            seed=seed,
            encoding=encoding,
            device=device,
            threads=threads,
        )
        place = usable_path(str(folder), "folder").expanduser()
        with RunFolder(place, resume=resume) as run:
            session = open_session(run, wishes)
            print(_train(session, place, wishes.stop_after))
            return session.trainer
    except CourseError as error:
        raise CourseError(as_arguments(str(error))) from None
    finally:
        set_threads(threads_before)


def as_arguments(message: str) -> str:
    """A message that names options of the command line, with the names that they have here."""

    def argument(option: re.Match) -> str:
        name = option[1].replace("-", "_")
        return ARGUMENTS.get(name, name)

    return re.sub(r"(?<!\S)--([a-z]+(?:-[a-z]+)*)", argument, message)


def _train(session: Session, folder: Path, stop_after: int | None) -> str:
    """Show and train what is left to do; returns where that ended."""
    trainer = session.trainer
    view = make_view(trainer.config.steps, heading=session.describe())
    if session.finished:
        show(iter(()), trainer.history, view)
        return nothing_to_do(trainer, folder, "steps")
    if session.train(lambda records: show(records, trainer.history, view), stop_after):
        print(stopped(trainer, "the stop button" if in_notebook() else "Ctrl-C"))
    again = f"train_in({str(folder)!r}, resume=True)"
    return ending(trainer, session.finish(), folder, again, timed=False)
