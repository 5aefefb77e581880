"""Which part of a text is read, and how unequal texts lie side by side. See test_generation.py for
what is computed from it.
"""

import pytest
import torch

from course_lib.model.config import GPTConfig
from course_lib.model.continuation import CachedLogits, fresh_start, left_padded, recomputed_logits
from course_lib.model.gpt import GPT

CPU = torch.device("cpu")


def test_unequal_texts_end_at_the_right():
    tokens, positions = left_padded([[5, 6, 7], [], [8]], CPU)
    assert tokens.tolist() == [[5, 6, 7], [0, 0, 0], [0, 0, 8]]
    assert positions.tolist() == [[0, 1, 2], [-1, -1, -1], [-1, -1, 0]]


def test_equal_texts_need_no_positions():
    tokens, positions = left_padded([[5, 6], [7, 8]], CPU)
    assert tokens.tolist() == [[5, 6], [7, 8]]
    assert positions is None


@pytest.mark.parametrize("context", [1, 2, 5, 8])
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_absolute_positions_start_anew_from_the_last_half_when_full(positions, context):
    config = GPTConfig(vocab_size=3, context_length=context, positions=positions)
    start = 0
    for length in range(1, 5 * context):
        if length - start > context:
            start = length - 1 - context // 2
        assert fresh_start(config, length) == start


@pytest.mark.parametrize("positions", ["none", "rotary", "alibi"])
def test_relative_positions_never_start_anew(positions):
    config = GPTConfig(vocab_size=3, context_length=4, positions=positions)
    assert {fresh_start(config, length) for length in range(1, 30)} == {0}


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_cache_reads_each_token_once(positions, monkeypatch):
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=7, context_length=6, positions=positions, n_layers=2))
    logits, read = CachedLogits(model, 2), []
    forward = type(logits.cache).forward

    def counted(self, tokens, positions=None, rows=None):
        read.append(tokens.numel() if positions is None else int((positions >= 0).sum()))
        return forward(self, tokens, positions, rows)

    monkeypatch.setattr(type(logits.cache), "forward", counted)
    texts = [[1, 2, 3, 4], [5, 6]]
    for step in range(12):
        torch.testing.assert_close(
            logits(texts), recomputed_logits(model, texts), atol=1e-5, rtol=1e-5
        )
        for text in texts:
            text.append((3 * step + len(text)) % 7)
    if positions == "rotary":
        assert read == [4] + [2] * 12
    else:  # three tokens of the last half, one row at a time
        assert [count for count in read[1:] if count != 2] == [3] * 6
        assert read.count(2) == 12
