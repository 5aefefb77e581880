"""Head scores against loops and hand-made heads; ablation against a model that was cut by hand."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from course_lib.lens.capture import Capture, capture
from course_lib.lens.heads import (
    ablated,
    attention_on,
    chance_of,
    head_scores,
    mean_outputs,
    passed_on,
    places_of_types,
    token_losses,
)
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError

VOCABULARY, BATCH, LENGTH, NEWLINE = 5, 3, 13, 2
TYPES = ("previous token", "first token", "same token", "induction", "newline", "line start")


def some_tokens(seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=generator)


def gpt(**values) -> GPT:
    torch.manual_seed(0)
    shape = {"context_length": LENGTH, "n_layers": 2, "n_heads": 5, "d_model": 35, "d_ff": 11}
    model = GPT(GPTConfig(vocab_size=VOCABULARY, **(shape | values)))
    with torch.no_grad():  # sharp heads, biases that are something
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return model.eval()


def by_loops(row: list[int], kind: str) -> list[list[bool]]:
    """Whether query i would read key j, said in words once more."""

    def sought(i: int, j: int) -> bool:
        breaks = [at for at in range(i) if row[at] == NEWLINE]
        return (
            j < i
            and {
                "previous token": j == i - 1,
                "first token": j == 0,
                "same token": row[j] == row[i],
                "induction": j > 0 and row[j - 1] == row[i],
                "newline": bool(breaks) and j == breaks[-1],
                "line start": bool(breaks) and j == breaks[-1] + 1,
            }[kind]
        )

    return [[sought(i, j) for j in range(len(row))] for i in range(len(row))]


@pytest.mark.parametrize("kind", TYPES)
def test_places_are_those_that_a_loop_finds(kind):
    tokens = some_tokens()
    found = places_of_types(tokens, NEWLINE)
    assert tuple(found) == TYPES
    assert found[kind].tolist() == [by_loops(row, kind) for row in tokens.tolist()]


def test_on_paper():
    places = places_of_types(torch.tensor([[0, 1, 2, 0, 1]]), newline=2)
    last = {name: where[0, 4].nonzero().flatten().tolist() for name, where in places.items()}
    assert last == {
        "previous token": [3],
        "first token": [0],
        "same token": [1],
        "induction": [2],
        "newline": [2],
        "line start": [3],
    }
    assert not places_of_types(torch.tensor([[3, 1]]), newline=2)["newline"].any()
    assert set(TYPES[:4]) == set(places_of_types(torch.tensor([[3, 1]])))


def test_attention_is_a_mean_over_the_queries_that_have_a_place():
    weights = capture(gpt(), some_tokens()).weights[1]
    for where in places_of_types(some_tokens(), NEWLINE).values():
        expected = []
        for head in range(5):
            read = [
                sum(w for w, sought in zip(row.tolist(), wanted.tolist(), strict=True) if sought)
                for text in range(BATCH)
                for row, wanted in zip(weights[text, head], where[text], strict=True)
                if wanted.any()
            ]
            expected.append(sum(read) / len(read))
        torch.testing.assert_close(attention_on(weights, where), torch.tensor(expected))


def test_a_head_that_reads_evenly_scores_what_chance_is():
    even = torch.ones(LENGTH, LENGTH).tril()
    even = (even / even.sum(dim=-1, keepdim=True)).expand(BATCH, 5, -1, -1)
    for where in places_of_types(some_tokens(), NEWLINE).values():
        scored = attention_on(even, where)
        torch.testing.assert_close(scored, torch.full((5,), chance_of(where)))


@pytest.mark.parametrize("kind", TYPES)
def test_a_head_of_one_type_scores_1_there_and_is_told_from_one_of_position(kind):
    tokens = some_tokens()
    where = places_of_types(tokens, NEWLINE)[kind]
    resting = F.one_hot(torch.arange(LENGTH), LENGTH).bool()  # who has no place reads itself
    reads = torch.where(where.any(dim=-1, keepdim=True), where, resting).float()
    weights = (reads / reads.sum(dim=-1, keepdim=True))[:, None]  # one head
    score = head_scores(Capture(tokens, tokens, (weights,), ()), NEWLINE)[kind]
    torch.testing.assert_close(score.score, torch.ones(1, 1))
    by_position = kind in ("previous token", "first token")
    assert (score.elsewhere.item() > 0.99) == by_position
    assert score.chance < 0.5
    assert score.name == kind and score.queries == where.any(dim=-1).sum()


def test_scores_are_for_every_layer_and_head_and_leave_out_what_cannot_be():
    scores = head_scores(capture(gpt(), some_tokens()), NEWLINE)
    assert tuple(scores) == TYPES
    assert all(each.score.shape == each.elsewhere.shape == (2, 5) for each in scores.values())
    different = torch.arange(VOCABULARY).expand(2, -1)
    assert set(head_scores(capture(gpt(), different))) == {"previous token", "first token"}
    with pytest.raises(CourseError, match="capture two or more"):
        head_scores(capture(gpt(), some_tokens()[:1]))


def cut(model: GPT, layer: int, head: int, said: torch.Tensor | None) -> GPT:
    """A copy whose W_O no longer hears the head, and adds what it says on average instead."""
    other = copy.deepcopy(model)
    output, d_head = other.blocks[layer].attention.output, model.config.d_head
    columns = slice(head * d_head, (head + 1) * d_head)
    with torch.no_grad():
        if said is not None:
            output.bias += output.weight[:, columns] @ said
        output.weight[:, columns] = 0
    return other


@pytest.mark.parametrize("kernel", ["fused", "explicit"])
@pytest.mark.parametrize("by_mean", [False, True])
@pytest.mark.parametrize("settings", [{}, {"n_kv_heads": 1, "positions": "rotary", "d_model": 30}])
def test_ablation_equals_a_model_cut_by_hand(settings, by_mean, kernel):
    model, tokens = gpt(**settings), some_tokens()
    model.attention_kernel = kernel
    means = mean_outputs(model, some_tokens(2)) if by_mean else None
    before = model(tokens)
    for layer in (0, 1):
        for head in (0, 4):
            said = means[layer][head] if by_mean else None
            expected = cut(model, layer, head, said)(tokens)
            with ablated(model, [(layer, head)], means) as same:
                assert same is model
                torch.testing.assert_close(model(tokens), expected, atol=1e-4, rtol=1e-4)
                seen = capture(model, tokens)
                torch.testing.assert_close(seen.logits, expected, atol=1e-4, rtol=1e-4)
            assert not torch.allclose(before, expected, atol=1e-3)
            assert torch.equal(model(tokens), before)


def test_several_heads_at_once():
    model, tokens = gpt(), some_tokens()
    means = mean_outputs(model, tokens)
    expected = model
    for layer, head in ((0, 1), (1, 0), (0, 3)):
        expected = cut(expected, layer, head, means[layer][head])
    with ablated(model, {(0, 1), (1, 0), (0, 3)}, means):
        torch.testing.assert_close(model(tokens), expected(tokens), atol=1e-4, rtol=1e-4)


def test_means_are_over_batch_and_positions():
    model, tokens = gpt(), some_tokens()
    seen = capture(model, tokens)
    for layer, mean in enumerate(mean_outputs(model, tokens)):
        attention = model.blocks[layer].attention
        values = attention.value(seen.attention_inputs[layer]).unflatten(-1, (5, 7))
        mixed = torch.einsum("bhqk,bkhd->bqhd", seen.weights[layer], values)
        torch.testing.assert_close(mean, mixed.mean(dim=(0, 1)))


def test_the_model_is_as_before_also_after_an_error():
    model, tokens = gpt(dropout=0.5).train(), some_tokens()
    with pytest.raises(ZeroDivisionError), ablated(model, [(0, 0), (1, 1)]):
        raise ZeroDivisionError
    mean_outputs(model, tokens)
    token_losses(model, tokens)
    assert model.training
    assert not [m for m in model.modules() if m._forward_pre_hooks or m._forward_hooks]


@pytest.mark.parametrize("head", [(2, 0), (-1, 0), (0, 5), (0, -1)])
def test_a_head_that_is_not_there_is_refused(head):
    with pytest.raises(CourseError, match="layers 0 to 1 with heads 0 to 4 each"):
        ablated(gpt(), [head]).__enter__()


def test_losses_are_those_of_each_token_but_the_first():
    model, tokens = gpt(), some_tokens()
    losses = token_losses(model, tokens)
    assert losses.shape == (BATCH, LENGTH - 1) and not losses.requires_grad
    chances = model(tokens).softmax(dim=-1)
    for text in range(BATCH):
        for place in range(LENGTH - 1):
            expected = -chances[text, place, tokens[text, place + 1]].log()
            torch.testing.assert_close(losses[text, place], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"n_kv_heads": 1, "d_model": 30}])
def test_what_is_passed_on_is_the_length_of_each_keys_part_of_the_output(settings):
    model, tokens = gpt(**settings), some_tokens()
    seen, attention = capture(model, tokens), model.blocks[1].attention
    received = passed_on(model, seen, 1)
    d_head = model.config.d_head
    for head in (0, 3):
        columns = slice(head * d_head, (head + 1) * d_head)
        own = slice(0, d_head) if settings else columns
        value = attention.value(seen.attention_inputs[1][2])[:, own]  # of the last text
        parts = value @ attention.output.weight[:, columns].T  # (key, d_model)
        expected = seen.weights[1][2, head, :, :, None] * parts
        torch.testing.assert_close(received[2, head], expected.norm(dim=-1))
