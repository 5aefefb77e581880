"""Training from a notebook: into a folder, as the command line's `train`, or a trainer of your own.

In a live notebook the cell ends at once and a dashboard shows how it goes on. Where no button can
be pressed, in a script and when notebooks are built or tested, both train to the end first.
"""

from __future__ import annotations

from pathlib import Path

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers.training_dashboard import TrainingDashboard
from course_lib.explorers.training_jobs import FolderJob, TrainerJob, in_words_of_arguments
from course_lib.explorers.training_thread import Job, LiveRun
from course_lib.explorers.training_view import LastCurve, Lines
from course_lib.runtime import edition, in_notebook, usable_path
from course_lib.training.session import Wishes
from course_lib.training.trainer import Trainer


def train_live(
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
    prompt: str = "",
) -> LiveRun:
    """Train by a preset into a folder, with a dashboard; returns the run while it trains.

    run = train_live("runs/first", corpus="shakespeare", preset="laptop")
    run.wait()                                      # where the next cells need its end
    model, tokenizer, config = load_run("runs/first")

    A relative folder lies beside the notebook, so work/runs/first here. Pause holds the run after
    a step. Stop ends it as Ctrl-C ends the command line's: last/ and best/ are in the folder then,
    as after each evaluation. Resume goes on, and so does train_live("runs/first", resume=True) in
    another kernel; a run that was stopped ends as one that was not. `run.dashboard`, as the last
    line of a cell, shows the dashboard there too. The arguments are the options
    of `python -m course_lib train`, which can go on with the run too, and a prompt that the samples
    continue (a line break where it is empty). Raises CourseError as the command does. See LiveRun.
    """
    with in_words_of_arguments():
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
    return _go(FolderJob(place, wishes, resume), prompt)


def watch(trainer: Trainer, tokenizer: CharTokenizer | None = None, *, prompt: str = "") -> LiveRun:
    """The same for a trainer of your own: train it to its last step, with a dashboard.

    run = watch(trainer, corpus.tokenizer)
    history = run.wait().trainer.history

    Nothing is written to disk: a stopped run goes on by Resume for as long as the kernel lives;
    for a run that has to outlive it use train_live. Without a tokenizer there are no samples.
    Raises CourseError if the trainer's model is being trained already.
    """
    return _go(TrainerJob(trainer, tokenizer), prompt)


def _go(job: Job, prompt: str) -> LiveRun:
    if edition() or not in_notebook():
        run = LiveRun(job, LastCurve() if in_notebook() else Lines())
        run.begin(background=False)
        return run
    from IPython.display import display

    dashboard = TrainingDashboard(prompt)
    dashboard.run = run = LiveRun(job, dashboard)
    run.dashboard = dashboard
    run.begin(background=True)
    display(dashboard)
    return run
