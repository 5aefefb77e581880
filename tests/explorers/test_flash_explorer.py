"""The tile-by-tile explorer: its steps end in the library's attention and move its bytes."""

import re

import pytest
import torch

from course_lib.explorers.flash_explorer import FlashExplorer
from course_lib.model.attention import attention, causal_mask
from course_lib.model.traffic import plain_bytes, tiled_bytes
from course_lib.runtime import CourseError

TOKENS = ["animal", "did", "cross", "road", "because", "it", "too", "tired"]


def parts(n=8, d=2, d_value=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = ((n, d), (n, d), (n, d_value))
    return [3 * torch.randn(shape, generator=generator) for shape in shapes]


def by_hand(**changes):
    """Scores that are logarithms of whole numbers: for “it” 4, 2 | 2, 8 | 1, 16."""
    key = torch.tensor([4.0, 2, 2, 8, 1, 16, 4, 2]).log()[:, None]
    query = torch.tensor([1.0, 1, -1, 1, 0.5, 1, -1, 1])[:, None]
    value = torch.tensor([8.0, 4, 4, 2, 1, 3, 2, 5])[:, None]
    return FlashExplorer(TOKENS, query, key, value, **changes)


def numbers(text):
    return [float(x.replace("−", "-")) for x in text.split(", ")]


@pytest.mark.parametrize(("query_tile", "key_tile"), [(3, 2), (1, 1), (2, 5), (20, 20)])
def test_the_steps_end_in_attention_and_have_moved_its_bytes(query_tile, key_tile):
    query, key, value = parts()
    tiles = {"query_tile": query_tile, "key_tile": key_tile}
    explorer = FlashExplorer(TOKENS, query, key, value[:, :2], **tiles)
    places = torch.arange(8)
    output = attention(query, key, value[:, :2], causal_mask(places, places))[0]
    written = {}
    for step in explorer.data["steps"]:
        first, last = step["rows"]
        assert len(step["known"]) == len(step["said"]) == last - first
        if step["kind"] == "write":
            written |= dict(zip(range(first, last), step["known"], strict=True))
    found = torch.tensor([numbers(written[row]["output"]) for row in range(8)])
    torch.testing.assert_close(found, output, atol=0.006, rtol=0)
    last = explorer.data["steps"][-1]["bytes"]
    assert last == tiled_bytes(8, 2, query_tile, key_tile, causal=True)
    assert explorer.data["plain"] == plain_bytes(8, 2)


def test_scores_of_visited_tiles_are_those_of_the_matrix_and_the_future_is_not_visited():
    query, key, value = parts()
    scores = query @ key.T / 2**0.5
    seen = torch.zeros(8, 8, dtype=torch.bool)
    for step in FlashExplorer(TOKENS, query, key, value).data["steps"]:
        if step["kind"] != "tile":
            continue
        for i, row in enumerate(step["scores"], start=step["rows"][0]):
            for j, score in enumerate(row, start=step["columns"][0]):
                seen[i, j] = True
                assert score == "−∞" if j > i else abs(numbers(score)[0] - scores[i, j]) < 0.006
    allowed = torch.ones(8, 8).tril().bool()
    assert seen[allowed].all() and not seen[:3, 4:].any() and not seen[3:6, 6:].any()


def test_each_sentence_says_how_the_sums_came_about():
    steps = by_hand().data["steps"]
    said = [step["said"][2] for step in steps if step["rows"] == [3, 6]]
    assert said == [
        "it has read nothing yet.",
        "it: its first scores. The largest is 1.39, the total 1.50.",
        "it: the largest score rises from 1.39 to 2.08, so what it had is multiplied by "
        "e^(1.39 − 2.08) = 0.50. total = 1.50 · 0.50 + 1.25 = 2.00",
        "it: the largest score rises from 2.08 to 2.77, so what it had is multiplied by "
        "e^(2.08 − 2.77) = 0.50. total = 2.00 · 0.50 + 1.06 = 2.06",
        "it: output = 7.06 / 2.06 = 3.42",
    ]
    assert steps[1]["said"][2].startswith("cross: its first scores. The largest is −0.69")
    assert steps[2]["said"][0] == "animal may read none of these keys: nothing changes for it."
    assert steps[2]["said"][2].startswith("cross: the largest score stays −0.69. total = 1.50 · ")
    kept = [step["known"][2] for step in steps if step["rows"] == [3, 6]]
    assert [row["total"] for row in kept] == ["0.00", "1.50", "2.00", "2.06", "2.06"]
    assert kept[0]["largest"] == "−∞" and kept[1]["mixed"] == "10.00"


def test_the_still_has_the_tiles_in_order_and_the_row():
    explorer = by_hand(row=5)
    left, right = explorer.still().axes
    assert [text.get_text() for text in left.texts] == [str(turn) for turn in range(1, 10)]
    assert right.get_title() == "what it knows"
    assert right.tables[0][2, 2].get_text().get_text() == "1.50"
    assert explorer.still_text().startswith("Attention by tiles: 9 tiles are read")


def test_tokens_are_shown_literally():
    explorer = FlashExplorer(["<b>", "$x$", "\n", "动"], *parts(4))
    assert explorer.data["labels"] == ["<b>", "$x$", "⏎", "动"]
    explorer.still()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": torch.zeros(3, 2)}, "query has shape (3, 2); give one row"),
        ({"value": torch.zeros(8)}, "value has shape (8,)"),
        ({"key": torch.zeros(8, 3)}, "queries have 2 numbers and keys 3"),
        ({"value": torch.zeros(8, 4)}, "value has 4 numbers a token; give 1 to 3"),
        ({"query_tile": 0}, "query_tile=0 is no size of a tile"),
        ({"key_tile": -1}, "key_tile=-1 is no size of a tile"),
        ({"row": 8}, "no row 8; choose 0 to 7"),
        ({"tokens": ["a"] * 13}, "13 tokens; give 1 to 12"),
    ],
)
def test_what_cannot_be_shown_is_refused(change, words):
    query, key, value = parts()
    given = {"tokens": TOKENS, "query": query, "key": key, "value": value} | change
    with pytest.raises(CourseError, match=re.escape(words)):
        FlashExplorer(**given)
