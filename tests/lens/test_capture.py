"""Captured weights are those of the pass that ran, and capturing changes nothing."""

import math

import pytest
import torch

from course_lib.lens.capture import capture
from course_lib.model.config import CHOICES, GPTConfig
from course_lib.model.gpt import GPT
from course_lib.model.positions import alibi_slopes
from course_lib.runtime import CourseError

BATCH, LENGTH, VOCABULARY = 2, 7, 11


def gpt(**values) -> GPT:
    torch.manual_seed(0)
    values = {"vocab_size": VOCABULARY, "context_length": LENGTH, "n_layers": 3} | values
    model = GPT(GPTConfig(**{"d_model": 30, "n_heads": 5, **values}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=float("norm" in name), std=0.4)
    return model


def some_tokens() -> torch.Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))


def turned(vector: list[float], position: int) -> list[float]:
    """A query or key by rotary positions: pair (i, i + half) turned by position / 10000^(2i/d)."""
    half = len(vector) // 2
    result = list(vector)
    for i in range(half):
        angle = position * 10_000 ** (-2 * i / len(vector))
        a, b = vector[i], vector[i + half]
        result[i] = a * math.cos(angle) - b * math.sin(angle)
        result[i + half] = a * math.sin(angle) + b * math.cos(angle)
    return result


def weights_by_loops(layer, x: torch.Tensor, positions: str) -> list:
    """(batch, head, query, key) in nested loops, from what the layer's attention was given."""
    d, group = layer.d_head, layer.n_heads // layer.n_kv_heads
    slopes = alibi_slopes(layer.n_heads).tolist()
    batches = []
    for sequence in x:
        queries = (sequence @ layer.query.weight.T + layer.query.bias).tolist()
        keys = (sequence @ layer.key.weight.T + layer.key.bias).tolist()
        heads = []
        for head in range(layer.n_heads):
            rows = []
            for i, query in enumerate(queries):
                q = query[head * d : (head + 1) * d]
                exponentials = []
                for j in range(i + 1):
                    k = keys[j][head // group * d : (head // group + 1) * d]
                    if positions == "rotary":
                        score = sum(a * b for a, b in zip(turned(q, i), turned(k, j), strict=True))
                    else:
                        score = sum(a * b for a, b in zip(q, k, strict=True))
                    score /= math.sqrt(d)
                    if positions == "alibi":
                        score -= slopes[head] * (i - j)
                    exponentials.append(math.exp(score))
                total = sum(exponentials)
                rows.append([e / total for e in exponentials] + [0.0] * (len(queries) - i - 1))
            heads.append(rows)
        batches.append(heads)
    return batches


@pytest.mark.parametrize("positions", CHOICES["positions"])
@pytest.mark.parametrize("placement", CHOICES["norm_placement"])
@pytest.mark.parametrize("n_kv_heads", [None, 1])
def test_weights_equal_nested_loops_over_what_the_layer_was_given(positions, placement, n_kv_heads):
    model = gpt(positions=positions, norm_placement=placement, n_kv_heads=n_kv_heads)
    seen = capture(model, some_tokens())
    assert len(seen.weights) == len(seen.attention_inputs) == 3
    with torch.no_grad():
        for block, x, weights in zip(
            model.blocks, seen.attention_inputs, seen.weights, strict=True
        ):
            assert x.shape == (BATCH, LENGTH, 30)
            expected = torch.tensor(weights_by_loops(block.attention, x, positions))
            torch.testing.assert_close(weights, expected, atol=2e-5, rtol=0)


def test_the_inputs_are_what_each_attention_reads():
    model, tokens = gpt(positions="none").eval(), some_tokens()
    seen = capture(model, tokens)
    x = model.token_embedding(tokens)
    for block, given in zip(model.blocks, seen.attention_inputs, strict=True):
        torch.testing.assert_close(given, block.attention_norm(x), atol=1e-4, rtol=1e-4)
        x = block(x, torch.arange(LENGTH), torch.ones(LENGTH, LENGTH).tril().bool())[0]


@pytest.mark.parametrize("positions", CHOICES["positions"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_capturing_changes_nothing(positions, dropout):
    model, tokens = gpt(positions=positions, dropout=dropout).eval(), some_tokens()
    before = model(tokens)
    seen = capture(model, tokens)
    torch.testing.assert_close(seen.logits, before, atol=1e-4, rtol=1e-5)
    assert torch.equal(model(tokens), before)
    torch.testing.assert_close(capture(model.train(), tokens).logits, seen.logits)
    assert torch.equal(seen.tokens, tokens)
    assert not seen.logits.requires_grad
    assert not any(weights.requires_grad for weights in seen.weights)


def test_rows_sum_to_one_and_the_upper_triangle_is_exactly_zero():
    for weights in capture(gpt(), some_tokens()).weights:
        assert weights.shape == (BATCH, 5, LENGTH, LENGTH)
        assert (weights.triu(1) == 0).all()
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(BATCH, 5, LENGTH))


@pytest.mark.parametrize("training", [True, False])
def test_mode_and_hooks_are_as_before_also_after_an_error(training):
    model = gpt().train(training)

    def untouched() -> bool:
        hooks = [h for m in model.modules() for h in m._forward_pre_hooks.values()]
        return not hooks and all(m.training == training for m in model.modules())

    capture(model, some_tokens())
    assert untouched()
    with pytest.raises(CourseError, match=r"give int64 or int32 of shape \(batch, position\)"):
        capture(model, some_tokens()[0])
    assert untouched()
    with pytest.raises(IndexError):
        capture(model, some_tokens() + VOCABULARY)
    assert untouched()


def test_a_layer_is_asked_for_by_its_number():
    seen = capture(gpt(), some_tokens())
    assert seen.layer(2) is seen.weights[2]
    for wrong in (3, -1):
        with pytest.raises(CourseError, match=rf"no layer {wrong}; the model has layers 0 to 2"):
            seen.layer(wrong)
