"""Lesson 10's checks: other right ways pass, and wrong ones that nobody foresaw are told why."""

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from course_lib.data.batches import evaluation_windows
from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find
from course_lib.training.trainer import next_token_loss


def slices(tokens, batch_size, context_length, generator):
    windows = []
    for _ in range(batch_size):
        start = torch.randint(len(tokens) - context_length, (1,), generator=generator).item()
        windows.append(tokens[start : start + context_length + 1])
    windows = torch.stack(windows)
    return [windows[:, :-1], windows[:, 1:]]


def piecewise_step(model, optimizer, inputs, targets, clip):
    """The gradient in pieces, clipped by hand, forgotten at the end."""
    model.train()
    total = 0.0
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(model(x[None]).transpose(1, 2), y[None]) / len(inputs)
        loss.backward()
        total += loss.item()
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))
    for parameter in model.parameters():
        parameter.grad *= min(1.0, clip / norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return total


def squared_cosine(step, steps, warmup, peak, minimum):
    if step <= warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = torch.tensor((step - warmup) / (steps - 1 - warmup))
    return (minimum + (peak - minimum) * torch.cos(math.pi * progress / 2) ** 2).item()


@torch.inference_mode()
def by_character(model, tokens, batch_size=64):
    model.eval()
    surprises = [
        cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), reduction="none")
        for inputs, targets in evaluation_windows(tokens, model.config.context_length, batch_size)
    ]
    model.train()
    return torch.cat(surprises).mean().item()


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("10.windows", slices),
        ("10.step", piecewise_step),
        ("10.schedule", squared_cosine),
        ("10.evaluate", by_character),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


def numpy_starts(tokens, batch_size, context_length, generator):
    starts = torch.from_numpy(np.random.randint(len(tokens) - context_length, size=batch_size))
    positions = starts[:, None] + torch.arange(context_length)
    return tokens[positions], tokens[positions + 1]


def never_the_first(tokens, batch_size, context_length, generator):
    shape = (batch_size, 1)
    positions = torch.randint(1, len(tokens) - context_length, shape, generator=generator)
    positions = positions + torch.arange(context_length)
    return tokens[positions], tokens[positions + 1]


def next_numbers(tokens, batch_size, context_length, generator):
    inputs, _ = slices(tokens, batch_size, context_length, generator)
    return inputs, inputs + 1


def clipped_to_one(model, optimizer, inputs, targets, clip):
    return piecewise_step(model, optimizer, inputs, targets, 1.0)


def own_optimizer(model, optimizer, inputs, targets, clip):
    return piecewise_step(model, torch.optim.SGD(model.parameters(), 0.3), inputs, targets, clip)


def in_evaluation_mode_and_in_pieces(model, optimizer, inputs, targets, clip):
    loss = next_token_loss(model(inputs[:1]), targets[:1])
    loss.backward()
    return loss.item()


def sine(step, steps, warmup, peak, minimum):
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = (step - warmup) / (steps - 1 - warmup)
    return minimum + (peak - minimum) * (1 + math.sin(math.pi * progress)) / 2


def dropout_in_the_first_pass(model, tokens, batch_size=64):
    total = 0.0
    with torch.no_grad():
        for inputs, targets in evaluation_windows(tokens, model.config.context_length, batch_size):
            total += next_token_loss(model(inputs), targets).item() * targets.numel()
            model.eval()
    return total / (len(tokens) - 1)


def without_the_default(model, tokens, batch_size):
    return by_character(model, tokens, batch_size)


def without_the_end(model, tokens, batch_size=64):
    model.eval()
    length = model.config.context_length
    inputs = tokens[: (len(tokens) - 1) // length * length].view(-1, length)
    targets = tokens[1 : inputs.numel() + 1].view(-1, length)
    with torch.no_grad():
        loss = next_token_loss(model(inputs), targets).item()
    return loss * targets.numel() / (len(tokens) - 1)


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("10.windows", numpy_starts, "'not used: your numbers come from elsewhere'"),
        ("10.windows", never_the_first, "torch.randint(len(tokens) - context_length"),
        ("10.windows", next_numbers, "each the character after its input"),
        ("10.step", clipped_to_one, "`['lengths of the gradients followed'][0]` `0.5`, got `1`"),
        ("10.step", own_optimizer, "`['calls of optimizer.step']` `3`, got `0`"),
        ("10.step", in_evaluation_mode_and_in_pieces, "`'training'`, got `'not training'`"),
        ("10.schedule", sine, "`['step 5, at the peak']` `2`"),
        ("10.evaluate", dropout_in_the_first_pass, "`'off'`, got `'on in some passes'`"),
        ("10.evaluate", without_the_default, "missing 1 required positional argument"),
        ("10.evaluate", without_the_end, "`['characters predicted']` `46`, got `42`"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words in verdict.message, verdict
