"""The learning rate's schedules against their formulas, their edges, and what they refuse."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.runtime import CourseError
from course_lib.training.presets import TrainingConfig
from course_lib.training.schedule import learning_rate, warmup_cosine, warmup_linear


def rate(schedule: str, step: int, decay_share: float = 0.6, **values) -> float:
    if schedule == "linear":
        return warmup_linear(step, decay_share=decay_share, **values)
    return warmup_cosine(step, **values)


def rates(
    steps: int, warmup: int, peak: float = 3.0, minimum: float = 0.5, schedule="cosine", share=0.6
) -> list[float]:
    values = {"steps": steps, "warmup": warmup, "peak": peak, "minimum": minimum}
    return [rate(schedule, step, decay_share=share, **values) for step in range(steps)]


def test_the_linear_schedule_written_out():
    expected = [1.0, 2.0, 3.0, 3.0, 3.0, 2.5 * 3 / 4 + 0.5, 2.5 * 2 / 4 + 0.5, 2.5 / 4 + 0.5, 0.5]
    assert rates(steps=9, warmup=2, schedule="linear", share=4 / 9) == pytest.approx(expected)


def test_the_whole_run_may_fall():
    expected = [0.5 + 2.5 * left / 5 for left in (5, 4, 3, 2, 1, 0)]
    assert rates(steps=6, warmup=0, schedule="linear", share=1.0) == pytest.approx(expected)


def test_a_fall_begins_no_sooner_than_the_warm_up_ends():
    expected = [0.75, 1.5, 2.25, 3.0, 0.5 + 2.5 / 2, 0.5]
    assert rates(steps=6, warmup=3, schedule="linear", share=1.0) == pytest.approx(expected)


def test_the_recipe_names_its_schedule():
    values = {"steps": 30, "learning_rate": 3.0, "minimum_rate": 0.5, "warmup_steps": 4}
    cosine = TrainingConfig(**values)
    linear = TrainingConfig(**values, schedule="linear", decay_share=0.3)
    assert [learning_rate(step, cosine) for step in range(30)] == rates(30, 4)
    assert [learning_rate(step, linear) for step in range(30)] == rates(
        30, 4, schedule="linear", share=0.3
    )


def test_the_cosine_written_out():
    expected = [
        3.0 * 1 / 3,  # the warm-up rises by thirds
        3.0 * 2 / 3,
        3.0,
        0.5 + 2.5 * (1 + math.cos(math.pi * 1 / 4)) / 2,
        0.5 + 2.5 / 2,  # half-way down
        0.5 + 2.5 * (1 + math.cos(math.pi * 3 / 4)) / 2,
        0.5,
    ]
    assert rates(steps=7, warmup=2) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("steps", "warmup", "first", "last"),
    [
        (10, 0, 3.0, 0.5),
        (10, 9, 0.3, 0.5),  # all but the last step rise
        (2, 0, 3.0, 0.5),
        (2, 1, 1.5, 0.5),
        (1, 0, 0.5, 0.5),  # first, peak and last in one: the minimum
    ],
)
@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_edges(schedule, steps, warmup, first, last):
    all_rates = rates(steps, warmup, schedule=schedule)
    assert all_rates[0] == pytest.approx(first)
    assert all_rates[-1] == pytest.approx(last)


@settings(deadline=None, max_examples=100, database=None, derandomize=True)
@given(st.data())
def test_laws(data):
    steps = data.draw(st.integers(1, 60))
    warmup = data.draw(st.integers(0, steps - 1))
    peak = data.draw(st.floats(1e-6, 1.0))
    minimum = peak * data.draw(st.floats(1e-3, 1.0))
    schedule = data.draw(st.sampled_from(["cosine", "linear"]))
    share = data.draw(st.floats(1e-6, 1.0))
    all_rates = rates(steps, warmup, peak, minimum, schedule, share)
    assert all_rates[0] > 0
    assert all_rates[-1] == pytest.approx(minimum)
    assert all(rate <= peak * (1 + 1e-9) for rate in all_rates)
    rising, falling = all_rates[:warmup], all_rates[warmup:]
    assert all(a < b for a, b in itertools.pairwise(rising))
    assert all(a >= b * (1 - 1e-9) for a, b in itertools.pairwise(falling))
    if warmup < steps - 1:
        assert all_rates[warmup] == pytest.approx(peak)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_minimum_of_zero_is_reached(schedule):
    all_rates = rates(steps=5, warmup=1, minimum=0.0, schedule=schedule)
    assert all_rates[0] > 0
    assert all_rates[-1] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"warmup": 10}, "a warm-up of 10 steps does not fit into 10 steps; use 0 to 9"),
        ({"warmup": 11}, "a warm-up of 11 steps does not fit into 10 steps; use 0 to 9"),
        ({"warmup": -1}, "a warm-up of -1 steps does not fit"),
        ({"minimum": 4.0}, "from a peak of 3.0 down to 4.0; use a peak above 0"),
        ({"minimum": -0.1}, "from a peak of 3.0 down to -0.1"),
        ({"peak": 0.0, "minimum": 0.0}, "from a peak of 0.0 down to 0.0"),
        ({"peak": math.nan}, "from a peak of nan"),
        ({"peak": math.inf}, "from a peak of inf"),
        ({"minimum": math.nan}, "down to nan"),
        ({"step": 10}, "there is no step 10 in a run of 10; use 0 to 9"),
        ({"step": -1}, "there is no step -1"),
    ],
)
@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_the_impossible_is_refused(schedule, values, message):
    values = {"step": 3, "steps": 10, "warmup": 2, "peak": 3.0, "minimum": 0.5} | values
    with pytest.raises(CourseError) as refusal:
        rate(schedule, **values)
    assert message in str(refusal.value)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan, math.inf])
def test_other_shares_are_refused(share):
    with pytest.raises(CourseError, match=f"decay_share={share} must be above 0 and at most 1"):
        rates(steps=10, warmup=2, schedule="linear", share=share)
