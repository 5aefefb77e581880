"""Heatmaps show exactly what they were given, the right way round, and refuse what is no weight."""

import io
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from course_lib.plots import head_grid, heatmap, shown
from course_lib.runtime import CourseError, CourseNotice

QUERIES, KEYS = ["it", "was", "tired"], ["The", "animal"]
WEIGHTS = np.array([[0.9, 0.1], [0.25, 0.75], [0.5, 0.5]])


@pytest.fixture(autouse=True)
def _nothing_is_shown(monkeypatch):
    def show(*_, **__):
        raise AssertionError("the library showed a figure")

    monkeypatch.setattr(plt, "show", show)
    monkeypatch.setattr(Figure, "show", show)


def ticks(axis) -> list[str]:
    return [tick.get_text() for tick in axis.get_ticklabels()]


def random_weights(*shape: int) -> np.ndarray:
    scores = np.random.default_rng(0).normal(size=shape) * 3
    scores[..., np.triu(np.ones(shape[-2:]), 1) > 0] = -np.inf
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(-1, keepdims=True)


def png(figure, dpi: int = 80) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    return file.getvalue()


# ---- what is shown


def test_the_picture_holds_the_very_weights():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="head 3")
    assert np.array_equal(shown(ax), WEIGHTS)
    (image,) = ax.images
    assert image.origin == "upper"
    assert image.get_clim() == (0, 1)
    assert isinstance(ax.figure, Figure)
    assert ax.get_title() == "head 3"


def test_a_row_is_a_query_and_a_column_a_key():
    ax = heatmap(WEIGHTS, QUERIES, KEYS)
    assert ticks(ax.yaxis) == QUERIES
    assert ticks(ax.xaxis) == KEYS
    assert ax.get_ylabel() == "query: the token that reads"
    assert ax.get_xlabel() == "key: the token read"
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_yticklabels()] == QUERIES
    top, bottom = (ax.transData.transform((0, row))[1] for row in (0, 2))
    assert top > bottom  # the first query is the top row


def test_the_pixels_are_dark_where_the_weight_is_large():
    """Read back from the drawn picture: query 0 on key 1, and nothing else."""
    weights = np.zeros((3, 2))
    weights[0, 1] = 1.0
    ax = heatmap(weights, QUERIES, KEYS)
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())
    for (row, column), weight in np.ndenumerate(weights):
        x, y = ax.transData.transform((column, row))
        red = pixels[len(pixels) - 1 - int(y), int(x), 0]
        assert (red < 50) if weight else (red > 240)


def test_labels_of_the_keys_default_to_those_of_the_queries():
    ax = heatmap(random_weights(3, 3), "a\n ")
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == ["a", "⏎", "␣"]


@pytest.mark.parametrize(
    ("label", "literal"),
    [
        ("$_$", "$_$"),
        ("$x^2$", "$x^2$"),
        ("<img␣onerror>", "<img␣onerror>"),
        ("\0", "U+0000"),
        ("\u202eab", "U+202Eab"),
        ("\\alpha", "\\alpha"),
        ("%s{}", "%s{}"),
    ],
)
def test_labels_and_titles_are_literal(label, literal):
    ax = heatmap([[1.0]], [label], title=literal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()  # a formula that cannot be read would raise here
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == [literal]
    assert ax.get_title() == literal


def test_chinese_titles_and_labels_give_one_notice():
    with pytest.warns(CourseNotice) as caught:
        heatmap(random_weights(2, 2), "床前", title="李白")
        axes = head_grid(random_weights(5, 2, 2), "床前", title="李白")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes[0].figure.canvas.draw()


def test_numbers_stand_in_their_squares():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, numbers=True)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(c, r): f"{WEIGHTS[r, c]:.2f}" for r in range(3) for c in range(2)}
    dark = next(text for text in ax.texts if text.get_text() == "0.90")
    assert dark.get_color() == "white"


def test_given_axes_are_drawn_on():
    figure, (left, right) = plt.subplots(1, 2)
    assert heatmap(WEIGHTS, QUERIES, KEYS, ax=right) is right
    assert not left.images
    assert plt.get_fignums() == [figure.number]


def test_tensors_are_taken_as_they_come():
    scores = torch.randn(3, 3, requires_grad=True)
    weights = scores.softmax(dim=-1)
    assert np.array_equal(shown(heatmap(weights, "abc")), weights.detach().double().numpy())
    half = weights.bfloat16()
    assert np.array_equal(shown(heatmap(half, "abc")), half.detach().double().numpy())
    axes = head_grid(weights[None], "abc")
    assert np.array_equal(shown(axes[0]), weights.detach().double().numpy())


def test_the_callers_array_is_not_changed():
    weights = WEIGHTS.copy()
    heatmap(weights, QUERIES, KEYS, numbers=True)
    assert np.array_equal(weights, WEIGHTS)


def test_a_picture_of_64_characters_is_small():
    text = ("Thou dost snore distinctly;\nThere's meaning in thy snores. " * 2)[:64]
    assert len(png(heatmap(random_weights(64, 64), text).figure)) < 60_000


def test_the_labels_lie_inside_the_picture():
    ax = heatmap(random_weights(3, 3), ["The", "animal that was very tired", "road"], title="x")
    ax.figure.canvas.draw()
    width, height = ax.figure.canvas.get_width_height()
    for text in (*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= 0, text
        assert box.x1 <= width + 1, text
        assert box.y1 <= height + 1, text


# ---- a layer's heads


@pytest.mark.parametrize("heads", [1, 3, 4, 5, 12])
def test_a_grid_has_each_head_once(heads):
    weights = random_weights(heads, 3, 3)
    axes = head_grid(weights, "a b", title="layer 2")
    assert axes.shape == (heads,)
    figure = axes[0].figure
    assert figure.axes == list(axes)
    assert figure.get_suptitle() == "layer 2"
    for head, ax in enumerate(axes):
        assert np.array_equal(shown(ax), weights[head])
        assert ax.get_title() == f"head {head}"


@pytest.mark.parametrize("heads", [1, 3, 4, 5, 12])
def test_the_outer_heads_carry_the_tokens(heads):
    """The left one of each row names the queries, the lowest of each column the keys."""
    axes = head_grid(random_weights(heads, 3, 3), "a b")
    axes[0].figure.canvas.draw()
    places = [ax.get_subplotspec() for ax in axes]
    for ax, place in zip(axes, places, strict=True):
        left = place.colspan.start == 0
        lowest = not any(
            p.colspan.start == place.colspan.start and p.rowspan.start > place.rowspan.start
            for p in places
        )
        assert any(ticks(ax.yaxis)) == bool(ax.get_ylabel()) == left
        assert any(ticks(ax.xaxis)) == bool(ax.get_xlabel()) == lowest
        if left:
            assert ticks(ax.yaxis) == ["a", "␣", "b"]


# ---- refusals


@pytest.mark.parametrize(
    ("weights", "labels", "message"),
    [
        (WEIGHTS, (QUERIES,), r"shape \(3, 2\) do not fit 3 query and 3 key labels"),
        (WEIGHTS.T, (QUERIES, KEYS), r"shape \(2, 3\) do not fit 3 query and 2 key labels"),
        (WEIGHTS[None], (QUERIES, KEYS), r"shape \(1, 3, 2\); give one head's, \(query, key\)"),
        (WEIGHTS[0], (KEYS,), r"shape \(2,\); give one head's"),
        (np.zeros((0, 0)), ("",), r"shape \(0, 0\); give one head's"),
        (
            WEIGHTS * 2,
            (QUERIES, KEYS),
            "reach from 0.2 to 1.8; attention weights lie between 0 and",
        ),
        (WEIGHTS - 0.2, (QUERIES, KEYS), "reach from -0.1 to 0.7; .* after the softmax"),
        (WEIGHTS * np.nan, (QUERIES, KEYS), "reach from nan to nan"),
        (np.where(WEIGHTS == 0.9, np.inf, WEIGHTS), (QUERIES, KEYS), "reach from 0.1 to inf"),
    ],
)
def test_what_is_no_weight_is_refused_before_there_is_a_figure(weights, labels, message):
    with pytest.raises(CourseError, match=message):
        heatmap(weights, *labels)
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (random_weights(3, 3), r"shape \(3, 3\); give \(head, query, key\)"),
        (np.zeros((0, 3, 3)), r"shape \(0, 3, 3\); give \(head, query, key\)"),
        (random_weights(2, 4, 4), r"shape \(4, 4\) do not fit 3 query and 3 key labels"),
        (random_weights(2, 3, 3) * 3, "reach from 0 to 3; attention weights lie"),
    ],
)
def test_what_is_no_layer_is_refused_before_there_is_a_figure(weights, message):
    with pytest.raises(CourseError, match=message):
        head_grid(weights, "a b")
    assert plt.get_fignums() == []


def test_axes_without_a_picture_have_nothing_to_show():
    with pytest.raises(CourseError, match="these Axes show no picture"):
        shown(plt.subplots()[1])
