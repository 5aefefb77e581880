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


class GrowingMask(GPT):
    """A mask that is kept, made anew for a longer text and cut for a shorter one."""

    may_attend = causal_mask(1)

    def forward(self, tokens):
        length = tokens.shape[1]
        if len(self.may_attend) < length:
            self.may_attend = causal_mask(length)
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(length))
        for block in self.blocks:
            x = block(x, self.may_attend[:length, :length])
        return self.head(self.final_norm(x))


class SequenceInALoop(GPT):
    """An nn.Sequential holds the blocks under the same names, and a loop can go through it."""

    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.blocks = nn.Sequential(*self.blocks)


def counted_in_memory(vocab_size, context_length, n_layers, d_model):
    gpt = GPT(vocab_size, context_length, n_layers, d_model, 1)
    return sum(p.numel() for p in gpt.parameters())


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
        ("09.gpt", GrowingMask),
        ("09.gpt", SequenceInALoop),
        ("09.parameters", counted_on_meta),
        ("09.parameters", counted_in_memory),
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


def test_who_counts_a_built_model_fills_no_memory():
    for case in find("09.parameters").fresh_cases():
        assert gpt_parameters(*case) < 5_000_000


@torch.no_grad()
@pytest.mark.parametrize("kind", [GPT, BufferedGPT])
def test_a_newborn_is_sure_of_its_own_character_whichever_way_round_it_is_tied(kind):
    (path,) = [path for path in lesson_paths() if path.name.startswith("09_")]
    (cell,) = [cell for cell in read_lesson(path).cells if cell.name == "first-loss"]
    names = {"torch": torch, "nn": nn, "GPT": kind, "cross_entropy": cross_entropy}
    exec(compile(cell.source.partition("\n\n\nfor ")[0], "<first-loss>", "exec"), names)
    tokens = tokens_for((63, 64), batch=16)
    for seed in range(3):
        logits = names["newborn"](seed)(tokens)
        assert (logits.argmax(dim=-1) == tokens).float().mean() > 0.97
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        assert 36 < loss < 50


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


class UnderNoGrad(GPT):
    def forward(self, tokens):
        with torch.no_grad():
            return super().forward(tokens)


class DetachedLogits(GPT):
    def forward(self, tokens):
        return super().forward(tokens).detach()


class NoReturn(GPT):
    def forward(self, tokens):
        super().forward(tokens)


class WithTheirLoss(GPT):
    def forward(self, tokens):
        return super().forward(tokens), None


def frozen(name):
    """A GPT one part of which asks for no gradient."""

    class Frozen(GPT):
        def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
            super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
            getattr(self, name).requires_grad_(False)

    return Frozen


class FrozenTable(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        table = torch.randn(context_length, d_model)
        self.position_embedding = nn.Embedding.from_pretrained(table)


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
        ("09.gpt", UnderNoGrad, "No gradient flows back from your logits"),
        ("09.gpt", DetachedLogits, "`.detach()`"),
        ("09.gpt", NoReturn, "['logits']` is `None`: is a `return` missing?"),
        ("09.gpt", WithTheirLoss, "['logits']` is a Python tuple of 2"),
        ("09.gpt", frozen("token_embedding"), "no parameter that learns: `token_embedding.weight`"),
        ("09.gpt", frozen("final_norm"), "no parameter that learns: `final_norm.weight`"),
        ("09.gpt", frozen("blocks"), "`blocks.0.attention_norm.weight`"),
        ("09.gpt", FrozenTable, "no parameter that learns: `position_embedding.weight`"),
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


class KeptMask(GPT):
    """The mask of the first text, kept in another way than the misconception does."""

    def forward(self, tokens):
        length = tokens.shape[1]
        if not hasattr(self, "mask"):
            self.mask = causal_mask(length)
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(length))
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.final_norm(x))


class FloatTokens(GPT):
    def forward(self, tokens):
        return self.head(self.final_norm(self.token_embedding(tokens.float())))


class BackThroughTheTable(GPT):
    def forward(self, tokens):
        return self.token_embedding(self.final_norm(self.token_embedding(tokens)))


class TableOfItsOwnAsHead(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.head = nn.Embedding(vocab_size, d_model)


class BlocksInARow(GPT):
    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__(vocab_size, context_length, n_layers, d_model, n_heads)
        self.blocks = nn.Sequential(*(Block(d_model, n_heads) for _ in range(n_layers)))

    def forward(self, tokens):
        x = self.token_embedding(tokens)
        return self.head(self.blocks(x, causal_mask(tokens.shape[1])))


class TokensAtTheirOwnPlace(GPT):
    def forward(self, tokens):
        x = self.token_embedding(tokens) + self.position_embedding(tokens)
        for block in self.blocks:
            x = block(x, causal_mask(tokens.shape[1]))
        return self.head(self.final_norm(x))


class Likeliest(GPT):
    def forward(self, tokens):
        return super().forward(tokens).softmax(dim=-1).argmax(dim=-1)


def one_tensor(tokens, hidden, mask_token):
    inputs = targets = tokens
    inputs[hidden] = mask_token
    targets[~hidden] = -100
    return inputs, targets


@pytest.mark.parametrize(
    ("exercise", "answer", "name"),
    [
        ("09.gpt", KeptMask, "mask kept from the first text"),
        ("09.gpt", FloatTokens, "looked up by floats"),
        ("09.gpt", BackThroughTheTable, "looked up by floats"),
        ("09.gpt", TableOfItsOwnAsHead, "head is the embedding"),
        ("09.gpt", BlocksInARow, "blocks in an nn.Sequential"),
        ("09.gpt", TokensAtTheirOwnPlace, "characters as positions"),
        ("09.gpt", Likeliest, "the likeliest token"),
        ("09.mask_tokens", one_tensor, "one tensor under two names"),
    ],
)
def test_a_foreseen_slip_is_recognised_in_another_hand(exercise, answer, name):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception == name, verdict


def test_a_case_of_the_gpt_is_told_in_its_arguments_names():
    (fact, *_) = examine(find("09.gpt"), NoReturn).facts
    assert "`GPT(vocab_size=11, context_length=7, n_layers=2, d_model=6, n_heads=3)`" in fact
    assert "tokens of the shape (2, 5)" in fact
