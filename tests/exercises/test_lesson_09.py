"""Lesson 09's GPT does what the library's does; other right ways pass, wrong ones are told why."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_04 import causal_mask
from course_lib.exercises.lesson_08 import Block, LayerNorm
from course_lib.exercises.lesson_09 import GPT, gpt_parameters
from course_lib.exercises.registry import find
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT as LibraryGPT
from course_lib.model.gpt import count_parameters
from tools.lesson_source import lesson_paths, read_lesson

SIZES = [(13, 11, 2, 12, 3), (5, 7, 1, 4, 1), (63, 16, 4, 32, 8)]


def library_twin(gpt, sizes):
    vocab_size, context_length, n_layers, d_model, n_heads = sizes
    twin = LibraryGPT(
        GPTConfig(
            vocab_size=vocab_size,
            context_length=context_length,
            n_layers=n_layers,
            d_model=d_model,
            n_heads=n_heads,
        )
    )
    numbers = gpt.state_dict()
    numbers["position_embedding.embedding.weight"] = numbers.pop("position_embedding.weight")
    twin.load_state_dict(numbers)
    return twin.eval()


def shaken(sizes):
    """A GPT whose every number matters."""
    torch.manual_seed(0)
    gpt = GPT(*sizes)
    for name, parameter in gpt.named_parameters():
        nn.init.normal_(parameter, mean=float("norm" in name), std=0.4)
    return gpt


def tokens_for(sizes, batch=3):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(sizes[0], (batch, sizes[1]), generator=generator)


@pytest.mark.parametrize("sizes", SIZES)
def test_the_assembled_gpt_is_the_librarys(sizes):
    gpt, tokens = shaken(sizes), tokens_for(sizes)
    twin = library_twin(gpt, sizes)
    torch.testing.assert_close(gpt(tokens), twin(tokens), atol=1e-3, rtol=1e-4)
    assert sum(p.numel() for p in gpt.parameters()) == count_parameters(twin)
    assert gpt_parameters(*sizes[:4]) == count_parameters(twin)


@torch.no_grad()
@pytest.mark.parametrize("sizes", SIZES)
def test_changing_a_token_changes_nothing_before_it(sizes):
    gpt, tokens = shaken(sizes), tokens_for(sizes)
    place = sizes[1] // 2
    changed = tokens.clone()
    changed[:, place] = (tokens[:, place] + 1) % sizes[0]
    moved = (gpt(changed) - gpt(tokens)).abs().amax(dim=(0, 2))
    assert moved[:place].max() < 1e-5 and moved[place] > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("sizes", SIZES)
def test_initialised_as_in_the_lesson_its_first_loss_is_that_of_guessing(sizes):
    (path,) = [path for path in lesson_paths() if path.name.startswith("09_")]
    (cell,) = [cell for cell in read_lesson(path).cells if cell.name == "initialise"]
    names = {"nn": nn, "math": math}
    definition = cell.source.partition("\n\n\nfor ")[0]
    exec(compile(definition, "<initialise>", "exec"), names)
    torch.manual_seed(0)
    gpt, tokens = names["initialise"](GPT(*sizes)), tokens_for(sizes, batch=64)
    loss = cross_entropy(gpt(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    assert abs(loss.item() - math.log(sizes[0])) < 0.02 * math.log(sizes[0])
    for block in gpt.blocks:
        assert block.attention.output.bias.abs().max() == 0


class BufferedGPT(nn.Module):
    """The mask made once, the embedding tied to the head, a method for the stream."""

    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__()
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.token_embedding.weight = self.head.weight
        self.position_embedding = nn.Embedding(context_length, d_model)
        self.final_norm = LayerNorm(d_model)
        self.blocks = nn.ModuleList()
        for _ in range(n_layers):
            self.blocks.append(Block(d_model, n_heads))
        self.register_buffer("mask", causal_mask(context_length), persistent=False)

    def stream(self, tokens):
        positions = torch.arange(tokens.size(1)).expand_as(tokens)
        x = self.position_embedding(positions) + self.token_embedding(tokens)
        for layer in self.blocks:
            x = layer(x, self.mask[: tokens.size(1), : tokens.size(1)])
        return x

    def forward(self, tokens):
        return self.head(self.final_norm(self.stream(tokens)))


class LibrarysNorm(GPT):
    """PyTorch's norm has the same parameters; the table is cut, and the head is a product."""

    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.final_norm = nn.LayerNorm(d_model)

    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, causal_mask(tokens.shape[1]))
        return self.final_norm(x) @ self.token_embedding.weight.T


def counted_on_meta(vocab_size, context_length, n_layers, d_model):
    with torch.device("meta"):
        gpt = GPT(vocab_size, context_length, n_layers, d_model, 1)
    return sum(p.numel() for p in gpt.parameters())


def counted_in_one_line(v, t, n, d):
    return d * (v + t + 2 + n * (12 * d + 13))


def by_where(tokens, hidden, mask_token):
    return torch.where(hidden, mask_token, tokens), torch.where(hidden, tokens, -100)


def by_assignment(tokens, hidden, mask_token):
    inputs, targets = tokens.clone(), torch.full_like(tokens, -100)
    inputs[hidden] = mask_token
    targets[hidden] = tokens[hidden]
    return inputs, targets


def padded(target, start):
    return functional.pad(target[:, :-1], (1, 0), value=start)


def rolled(target, start):
    inputs = target.roll(1, dims=1)
    inputs[:, 0] = start
    return inputs


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("09.gpt", BufferedGPT),
        ("09.gpt", LibrarysNorm),
        ("09.parameters", counted_on_meta),
        ("09.parameters", counted_in_one_line),
        ("09.mask_tokens", by_where),
        ("09.mask_tokens", by_assignment),
        ("09.shift", padded),
        ("09.shift", rolled),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


class MaskInTheState(BufferedGPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.register_buffer("triangle", causal_mask(context_length))


class OtherNames(nn.Module):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d_model)


class Detached(GPT):
    def forward(self, tokens):
        x = (
            self.token_embedding(tokens).detach()
            + self.position_embedding.weight[: tokens.shape[1]]
        )
        for block in self.blocks:
            x = block(x, causal_mask(tokens.shape[1]))
        return self.head(self.final_norm(x))


class OneContextTooShort(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length - 1, n_layers, d_model, n_heads)


class NoModule:
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        self.vocab_size = vocab_size


def with_two_heads(vocab_size, context_length, n_layers, d_model):
    return 2 * gpt_parameters(vocab_size, context_length, n_layers, d_model)


def a_float(vocab_size, context_length, n_layers, d_model):
    return float(gpt_parameters(vocab_size, context_length, n_layers, d_model))


def a_random_share(tokens, hidden, mask_token):
    hidden = torch.rand(tokens.shape) < 0.15
    return by_where(tokens, hidden, mask_token)


def two_back(target, start):
    first = torch.full_like(target[:, :2], start)
    return torch.cat([first, target[:, :-2]], dim=1)


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("09.gpt", MaskInTheState, "`triangle (7, 7)`"),
        ("09.gpt", OtherNames, "lacks `token_embedding.weight (11, 6)`"),
        ("09.gpt", Detached, "['gradients']['token_embedding.weight']"),
        ("09.gpt", OneContextTooShort, "has the shape (6, 6); it should be (7, 6)"),
        ("09.gpt", NoModule, "write `class NoModule(nn.Module)`"),
        ("09.parameters", with_two_heads, "Expected"),
        ("09.parameters", a_float, "A count is a whole number"),
        ("09.mask_tokens", a_random_share, "differ"),
        ("09.shift", two_back, "differ"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words in verdict.message, verdict
