"""The attention explorer's side of the kernel: what it sends, refuses and keeps."""

import re

import numpy as np
import pytest
import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers.attention_explorer import MOST_TOKENS, AttentionExplorer
from course_lib.lens.capture import capture
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError

TOKENIZER = CharTokenizer.from_text("\n abcdefgh<>床$_")
TEXT = "a b\n<c>床"


def model(seed=0, **changes):
    torch.manual_seed(seed)
    shape = {"context_length": 16, "n_layers": 2, "d_model": 12, "n_heads": 3, **changes}
    return GPT(GPTConfig(vocab_size=TOKENIZER.vocab_size, **shape))


def sent(explorer, at=0):
    """The weights as the front end reads them: (layer, head, query, key)."""
    shape, tokens = explorer.models[at], len(explorer.labels)
    numbers = np.frombuffer(explorer.weights[at], dtype="<u2").astype(float) / 65_535
    return numbers.reshape(shape["layers"], shape["heads"], tokens, tokens)


@torch.no_grad()
def test_the_weights_sent_are_those_of_the_pass():
    gpt = model()
    explorer = AttentionExplorer(gpt, TOKENIZER, TEXT, layer=1, head=2)
    expected = torch.stack([w[0] for w in capture(gpt, TOKENIZER.encode(TEXT)[None]).weights])
    assert np.abs(sent(explorer) - expected.numpy()).max() <= 0.5 / 65_535 + 1e-7
    assert explorer.selected == {"model": 0, "layer": 1, "head": 2, "query": len(TEXT) - 1}


def test_labels_show_each_token_literally_and_lines_break_after_line_feeds():
    explorer = AttentionExplorer(model(), TOKENIZER, TEXT)
    assert explorer.labels == ["a", "␣", "b", "⏎", "<", "c", ">", "床"]
    assert explorer.breaks == [token == "\n" for token in TEXT]


def test_models_are_compared_by_name_each_with_its_own_shape():
    both = {"one": model(), "two": model(1, n_layers=1, n_heads=2)}
    explorer = AttentionExplorer(both, TOKENIZER, TEXT)
    assert [m["name"] for m in explorer.models] == ["one", "two"]
    assert sent(explorer).shape == (2, 3, 8, 8) and sent(explorer, 1).shape == (1, 2, 8, 8)


def test_another_text_replaces_all_of_it_at_once():
    explorer = AttentionExplorer(model(), TOKENIZER, TEXT, layer=1)
    explorer.text = "cab"
    assert explorer.labels == ["c", "a", "b"] and sent(explorer).shape == (2, 3, 3, 3)
    assert explorer.selected["layer"] == 1 and explorer.selected["query"] == 2
    assert explorer.still().axes[0].get_title() == "head 0"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "has 0 tokens; give 1 to 16"), ("a" * 17, "17 tokens"), ("xyz", "'x' U+0078")],
)
def test_a_text_that_cannot_be_read_is_told_and_the_old_one_stays(text, words):
    explorer = AttentionExplorer(model(), TOKENIZER, TEXT)
    before = (explorer.labels, explorer.weights, explorer.selected)
    explorer.text = text
    assert words in explorer.message
    assert (explorer.labels, explorer.weights, explorer.selected) == before
    explorer.text = "ab"
    assert explorer.message == "" and explorer.labels == ["a", "b"]
    with pytest.raises(CourseError, match=re.escape(words)):
        AttentionExplorer(model(), TOKENIZER, text)


def test_no_more_tokens_than_can_be_shown():
    long = model(context_length=1_024)
    with pytest.raises(CourseError, match=f"give 1 to {MOST_TOKENS}"):
        AttentionExplorer(long, TOKENIZER, "a" * (MOST_TOKENS + 1))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"layer": 2}, "layer 2; choose 0 to 1"), ({"head": 3}, "head 3; choose -1 to 2"),
     ({"query": 8}, "query 8; choose 0 to 7")],
)  # fmt: skip
def test_what_is_not_there_cannot_be_chosen(wrong, words):
    with pytest.raises(CourseError, match=words):
        AttentionExplorer(model(), TOKENIZER, TEXT, **wrong)


def test_without_a_model_there_is_nothing_to_explore():
    with pytest.raises(CourseError, match="no model to explore"):
        AttentionExplorer({}, TOKENIZER, TEXT)
