"""The drawing of one layer holds the matrices it was given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from course_lib.plots import attention_flow, shown
from course_lib.runtime import CourseError

LABELS = ["the", "animal", "$_$"]
WIDTHS = {"x": 5, "query": 2, "key": 2, "value": 4, "scores": 3, "weights": 3, "output": 4}


def matrices() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.normal(size=(3, width)) for name, width in WIDTHS.items()}


def test_each_panel_shows_its_matrix():
    given = matrices()
    axes = attention_flow(given, LABELS)
    assert axes.keys() == WIDTHS.keys()
    for name, ax in axes.items():
        assert np.array_equal(shown(ax), given[name])
        assert [tick.get_text() for tick in ax.get_yticklabels()] == LABELS
        numbers = {text.get_position(): float(text.get_text()) for text in ax.texts}
        for (row, column), value in np.ndenumerate(given[name]):
            assert numbers[column, row] == pytest.approx(value, abs=0.0051)
        low, high = ax.images[0].get_clim()
        assert -low == high == np.abs(given[name]).max()  # 0 is white in every panel
    (figure,) = {ax.figure for ax in axes.values()}
    figure.canvas.draw()


def test_a_matrix_of_zeros_can_be_drawn():
    axes = attention_flow({name: m * 0 for name, m in matrices().items()}, LABELS)
    assert {text.get_text() for text in axes["x"].texts} == {"0"}


def test_refusals_come_before_there_is_a_figure():
    lacking = {name: m for name, m in matrices().items() if name != "key"}
    with pytest.raises(CourseError, match=r"got the matrices x, query, value.*exactly x, query, k"):
        attention_flow(lacking, LABELS)
    with pytest.raises(CourseError, match=r"value has shape \(2, 4\); .* each of the 3 labels"):
        attention_flow(matrices() | {"value": np.zeros((2, 4))}, LABELS)
    assert plt.get_fignums() == []


def test_tensors_are_taken_as_they_come():
    given = {name: torch.tensor(m, requires_grad=True) for name, m in matrices().items()}
    axes = attention_flow(given, LABELS)
    assert np.array_equal(shown(axes["x"]), given["x"].detach().numpy())
