"""Time to a loss: how soon a preset reaches what the plain recipe ends at, or lies below it.

Only whole runs count, each with its schedule to the end: a run reaches a loss if the loss of its
final model, over the whole validation split, is not above it. No run is stopped at its luckiest
moment, and the seconds are those of training (evaluation is not part of it).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.harness import Case, Comparison, Options
from benchmarks.report import Row, must_with_bfloat16
from benchmarks.store import Results
from benchmarks.training_runs import (
    load_shakespeare,
    losses_told,
    run_table,
    toy_preset,
    train,
)
from course_lib.training.presets import Preset, get_preset

PLAIN = "plain"
PLAIN_MINUTES = {1: 1.9, 2: 1.2}  # of one plain run with its evaluation
CASE = "time to a loss"
# for a loss less far below: half the layers of laptop, of twice the width inside, and fewer steps
SHALLOW = "laptop of two layers, 740 steps"
SHALLOW_CHANGES = {
    "model": {"n_layers": 2, "d_ff": 512},
    "training": {"steps": 740, "cut_share": 0.6, "learning_rate": 0.02},
}


@dataclass(frozen=True)
class Goal:
    """A loss, as its distance below P, and how many times as fast as plain to be there."""

    below: float
    must: float
    aim: float


def make_quick(options: Options) -> Comparison:
    """Preset quick against plain's own final loss."""
    goal = Goal(below=0.0, must=must_with_bfloat16(10, without=8), aim=25)
    return _comparison("quick", {"quick": (get_preset("quick"), goal)}, options, threads=1)


def make_laptop(options: Options) -> Comparison:
    """Preset laptop, shallow and as it is, against plain's final loss less 0.30 and 0.40."""
    laptop = get_preset("laptop")
    contenders = {
        SHALLOW: (laptop.changed(**SHALLOW_CHANGES), Goal(below=0.3, must=2.5, aim=6)),
        "laptop": (laptop, Goal(below=0.4, must=1 / 1.6, aim=2)),
    }
    return _comparison("laptop", contenders, options, threads=2)


def _comparison(
    name: str,
    contenders: Mapping[str, tuple[Preset, Goal]],
    options: Options,
    threads: int,
) -> Comparison:
    corpus = load_shakespeare(options.quick_check)
    presets = {PLAIN: get_preset(PLAIN), **{key: preset for key, (preset, _) in contenders.items()}}
    if options.quick_check:
        presets = {key: toy_preset(preset) for key, preset in presets.items()}
    goals = {key: goal for key, (_, goal) in contenders.items()}
    threads = options.threads or threads
    runs = {
        key: lambda seed, preset=preset: train(preset, corpus, seed)
        for key, preset in presets.items()
    }
    plain_minutes = 0.0 if options.quick_check else PLAIN_MINUTES.get(threads, 1.2)
    work = sum(_work(preset) for preset in presets.values()) / _work(presets[PLAIN])
    return Comparison(
        title=f"Training time to a loss: preset {name} against plain",
        question=(
            f"P is {_source_of_p(options)}. A run reaches a loss if its final model's loss over "
            "the whole validation split is not above it; seconds are those of training alone. "
            "Same corpus, same threads; each seed gives other weights and windows. There is a "
            "ratio only where more than half of the runs reached the loss."
        ),
        cases=[Case(name=CASE, contestants=runs, threads=threads)],
        rounds=options.seeds,
        minutes=options.seeds * plain_minutes * work,
        rows=lambda results: [_row(results, key, goals[key], options.loss) for key in goals],
        details=lambda results: _every_run(results, goals, options.loss),
    )


def _source_of_p(options: Options) -> str:
    if options.loss is None:
        return "the median of plain's final losses in this very run"
    return f"{options.loss}, as given by --loss"


def _work(preset: Preset) -> float:
    """What a training costs, up to a factor: positions read times the width and depth."""
    shape, training = preset.model, preset.training
    positions = training.steps * training.batch_size * shape["context_length"]
    return positions * shape["n_layers"] * shape["d_model"] ** 2


def final_loss(results: Results, given: float | None) -> float:
    """P: the given loss, or the median of plain's."""
    return statistics.median(results.values(CASE, PLAIN, "loss")) if given is None else given


def _row(results: Results, key: str, goal: Goal, given: float | None) -> Row:
    target = final_loss(results, given) - goal.below
    symbol = f"P − {goal.below:.2f}" if goal.below else "P"
    return Row(
        what=f"{symbol} = {target:.4f}",
        baseline=PLAIN,
        baseline_values=results.values(CASE, PLAIN, "seconds"),
        contender=key,
        values=results.values(CASE, key, "seconds"),
        unit="s",
        must=goal.must,
        aim=goal.aim,
        **losses_told(results.values(CASE, key, "loss"), target),
    )


def _every_run(results: Results, goals: Mapping[str, Goal], given: float | None) -> str:
    p = final_loss(results, given)
    runs = [(PLAIN, None, run) for run in results.of(CASE, PLAIN)]
    for key, goal in goals.items():
        runs += [(key, p - goal.below, run) for run in results.of(CASE, key)]
    return run_table(runs)
