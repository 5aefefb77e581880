"""The loss curve shows the numbers it was given."""

import matplotlib.pyplot as plt
import pytest

from course_lib.plots import loss_curve
from course_lib.plots.curves import trailing_mean
from course_lib.runtime import CourseError


def test_the_curves_are_the_numbers():
    ax = loss_curve([1, 2, 3], [4.0, 3.0, 2.5], [(2, 3.1), (3, 2.8)])
    training, validation = ax.lines
    assert training.get_xydata().tolist() == [[1, 4.0], [2, 3.0], [3, 2.5]]
    assert validation.get_xydata().tolist() == [[2, 3.1], [3, 2.8]]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["training, each batch", "validation"]
    assert ax.get_xlabel() == "step"
    assert ax.get_ylabel() == "loss (nats per character)"


def test_a_smoothed_curve_lies_over_the_pale_one():
    loss = [5.0, 3.0, 4.0, 2.0]
    ax = loss_curve([1, 2, 3, 4], loss, smoothing=3)
    pale, smooth = ax.lines
    assert pale.get_ydata().tolist() == loss and pale.get_alpha() < 0.5
    assert smooth.get_ydata() == pytest.approx([5.0, 4.0, 4.0, 3.0])
    assert smooth.get_label() == "training, mean of 3 steps"


def test_a_trailing_mean_is_the_mean_of_a_slice():
    values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]
    for width in (1, 2, 3, 5, 7, 11):
        naive = [
            sum(part) / len(part)
            for part in (values[max(0, end - width) : end] for end in range(1, 8))
        ]
        assert trailing_mean(values, width) == pytest.approx(naive)
    assert trailing_mean([], 3) == []
    with pytest.raises(CourseError, match="mean of 0 values is not possible"):
        trailing_mean(values, 0)


def test_a_run_without_validation_has_one_curve():
    ax = plt.subplots()[1]
    assert loss_curve([1], [4.0], ax=ax) is ax
    assert len(ax.lines) == 1


def test_a_loss_for_each_step():
    with pytest.raises(CourseError, match="3 steps and 2 losses; give one for each"):
        loss_curve([1, 2, 3], [4.0, 3.0])
    assert plt.get_fignums() == []
