"""The step-through of attention: its numbers are the library's; what does not fit is refused."""

import math
import re

import pytest
import torch

from course_lib.explorers.steps_explorer import StepsExplorer
from course_lib.model.attention import attention
from course_lib.runtime import CourseError

TOKENS = ["animal", "road", "it", "tired"]


def parts(n=4, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, generator=generator) for _ in range(3)]


def test_the_steps_lead_to_the_library_s_output():
    query, key, value = parts()
    data = StepsExplorer(TOKENS, query, key, value).data
    output, weights = attention(query, key, value)
    assert data["masked"] is None and data["labels"] == TOKENS
    score, scaled = torch.tensor(data["score"]), torch.tensor(data["scaled"])
    torch.testing.assert_close(score, torch.einsum("id,jd->ij", query, key))
    torch.testing.assert_close(scaled.softmax(dim=-1), torch.tensor(data["weights"]))
    torch.testing.assert_close(score[2, 1] / math.sqrt(3), scaled[2, 1])
    torch.testing.assert_close(torch.tensor(data["weights"]), weights)
    torch.testing.assert_close(torch.tensor(data["output"]), output)


def test_hidden_scores_are_sent_as_null_and_a_row_without_any_has_no_weight():
    may_attend = torch.ones(4, 4).tril().bool()
    may_attend[0] = False
    data = StepsExplorer(TOKENS, *parts(), may_attend=may_attend).data
    for i, row in enumerate(data["masked"]):
        assert [x is None for x in row] == (~may_attend[i]).tolist()
    assert data["weights"][0] == [0, 0, 0, 0] and data["output"][0] == [0, 0, 0]


def test_tokens_are_shown_literally():
    tokens = ["<img>", "$x$", "\n", "床"]
    explorer = StepsExplorer(tokens, *parts(), features=["a", "<b>", "\x00"])
    assert explorer.data["labels"] == ["<img>", "$x$", "⏎", "床"]
    assert explorer.data["features"] == ["a", "<b>", "U+0000"]
    titles = [ax.get_title() for ax in explorer.still().axes]
    assert titles == ["scores", "scores / √d_k", "weights", "output"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": torch.zeros(3, 3)}, "query has shape (3, 3); give one row"),
        ({"value": torch.zeros(4)}, "value has shape (4,)"),
        ({"key": torch.zeros(4, 2)}, "queries have 3 numbers and keys 2"),
        ({"value": torch.zeros(4, 13)}, "value has 13 numbers a token; give 1 to 12"),
        ({"may_attend": torch.ones(4, 4)}, "torch.float32 of shape (4, 4); give bool"),
        ({"may_attend": torch.ones(4, 3).bool()}, "of shape (4, 3); give bool of shape (4, 4)"),
        ({"row": 4}, "no row 4; choose 0 to 3"),
        ({"features": ["a", "b"]}, "2 features for 3 columns of query and key and 3 of value"),
        ({"features": "abc", "value": torch.zeros(4, 2)}, "3 columns of query and key and 2 of"),
    ],
)
def test_what_does_not_fit_is_refused(change, words):
    query, key, value = parts()
    given = {"query": query, "key": key, "value": value} | change
    with pytest.raises(CourseError, match=re.escape(words)):
        StepsExplorer(TOKENS, **given)


def test_too_many_tokens_are_refused():
    with pytest.raises(CourseError, match="17 tokens; give 1 to 16"):
        StepsExplorer(["a"] * 17, *parts(n=17))


def test_the_still_has_numbers_where_there_is_room_for_them():
    query, key, value = parts(n=4)
    small = StepsExplorer(TOKENS, query, key, value, features=["a", "b", "c"]).still()
    written = [text.get_text() for text in small.axes[2].texts]
    weights = attention(query, key, value)[1].flatten().tolist()
    assert written == [f"{weight:.2f}".removesuffix(".00") for weight in weights]
    assert [label.get_text() for label in small.axes[3].get_xticklabels()] == ["a", "b", "c"]
    large = StepsExplorer(list("abcdefg"), *parts(n=7)).still()
    assert not any(ax.texts for ax in large.axes)
