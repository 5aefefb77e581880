"""P, who reached it, and when a ratio counts; on made-up runs."""

import pytest

from benchmarks.harness import Options
from benchmarks.store import Results
from benchmarks.time_to_loss import CASE, SHALLOW, SHALLOW_CHANGES, make_laptop, make_quick
from benchmarks.training_runs import losses_told
from course_lib.training.presets import get_preset


def results(**losses: list[float]) -> Results:
    """Three rounds in which every recipe took 2 s, but plain 10 s."""
    rounds = []
    for number in range(3):
        measured = {
            name: {
                "seed": number,
                "steps": 7,
                "seconds": 10.0 if name == "plain" else 2.0,
                "first_step_seconds": 0.5,
                "loss": values[number],
                "precision": "float32",
                "attention_kernel": "fused",
            }
            for name, values in losses.items()
        }
        rounds.append({"case": CASE, "round": number, "measured": measured})
    return Results(rounds)


QUICK = {"plain": [1.9, 2.0, 1.8], "quick": [1.9, 1.91, 1.5]}


def test_p_is_the_median_of_plain_and_equal_is_reached():
    (row,) = make_quick(Options()).rows(results(**QUICK))
    assert row.what == "P = 1.9000"
    assert (row.ratio, row.note, row.counts) == (5.0, "reached by 2 of 3 runs", True)


def test_p_may_be_given():
    (row,) = make_quick(Options(loss=1.6)).rows(results(**QUICK))
    assert row.what == "P = 1.6000"
    assert (row.note, row.counts) == ("reached by 1 of 3 runs", False)


def test_the_shallow_laptop_has_a_loss_to_reach_less_far_below():
    runs = {"plain": [2.0] * 3, SHALLOW: [1.7, 1.69, 1.71], "laptop": [1.61, 1.62, 1.6]}
    shallow, whole = make_laptop(Options()).rows(results(**runs))
    assert (shallow.what, shallow.contender, shallow.counts) == ("P − 0.30 = 1.7000", SHALLOW, True)
    assert (whole.what, whole.contender, whole.counts) == ("P − 0.40 = 1.6000", "laptop", False)


def test_every_run_is_shown_with_loss_time_and_verdict():
    text = make_quick(Options()).details(results(**QUICK))
    lines = [line for line in text.splitlines() if " quick " in line]
    assert ["not reached" in line for line in lines] == [False, True, False]
    assert all(part in lines[1] for part in ("| 1 |", "1.9100", "2.00", "1.9000"))


@pytest.mark.parametrize(("reached", "counts"), [(0, False), (1, False), (2, True), (3, True)])
def test_most_runs_must_reach_the_loss(reached: int, counts: bool):
    losses = [1.0] * reached + [3.0] * (3 - reached)
    assert losses_told(losses, 2.0)["counts"] is counts


def test_threads_and_estimate_follow_the_options():
    assert make_quick(Options()).cases[0].threads == 1
    assert make_laptop(Options()).cases[0].threads == 2
    assert make_laptop(Options(threads=1)).cases[0].threads == 1
    assert make_quick(Options(seeds=6)).minutes == 2 * make_quick(Options(seeds=3)).minutes


def test_the_presets_are_those_of_the_course():
    laptop = get_preset("laptop")
    shallow = laptop.changed(**SHALLOW_CHANGES)
    assert f"{shallow.training.steps} steps" in SHALLOW and "two layers" in SHALLOW
    assert shallow.model["n_layers"] == 2 < laptop.model["n_layers"]
    assert shallow.training.steps < laptop.training.steps
