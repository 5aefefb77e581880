"""Windows of a text: random ones to train on, and all of them, in order, to evaluate on.

A window of context_length characters has as many targets: at each position the next character. So
it takes context_length + 1 characters. Lesson 10 builds this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch

from course_lib.data.corpora import require_windows


def random_windows(
    tokens: torch.Tensor, batch_size: int, context_length: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Windows that begin anywhere in tokens (position), each place equally likely.

    Returns inputs and targets, both (batch, position). The generator is the caller's own, so that
    nothing else that draws random numbers changes which windows a training run sees.
    """
    require_windows(tokens, context_length)
    starts = torch.randint(len(tokens) - context_length, (batch_size,), generator=generator)
    return _windows_at(tokens, starts, context_length)


def shuffled_windows(
    tokens: torch.Tensor, batch_size: int, context_length: int, step: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The windows of a step (counted from 0) where each epoch goes through the whole text once.

    An epoch cuts tokens (position) into windows side by side, from an offset drawn anew, and takes
    them in random order: no character is read twice before nearly all were read once, where
    windows drawn independently would have left out a third (1/e). Returns inputs and targets, both
    (batch, position), which step and seed alone decide: a run that goes on needs no more.
    """
    require_windows(tokens, context_length)
    each_epoch = max(1, (len(tokens) - context_length) // context_length)  # at any offset
    offsets = min(context_length, len(tokens) - context_length * each_epoch)
    drawn = range(step * batch_size, (step + 1) * batch_size)
    starts = torch.tensor(
        [
            offset + context_length * order[number % each_epoch]
            for number in drawn
            for offset, order in [_epoch(each_epoch, offsets, number // each_epoch, seed)]
        ]
    )
    return _windows_at(tokens, starts, context_length)


@lru_cache(maxsize=4)
def _epoch(windows: int, offsets: int, epoch: int, seed: int) -> tuple[int, tuple[int, ...]]:
    """The offset, below `offsets`, and the order of the windows of an epoch."""
    generator = torch.Generator().manual_seed((seed + 1_000_003 * epoch) % 2**63)
    offset = int(torch.randint(offsets, (), generator=generator))
    return offset, tuple(torch.randperm(windows, generator=generator).tolist())


def _windows_at(
    tokens: torch.Tensor, starts: torch.Tensor, context_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    positions = (starts[:, None] + torch.arange(context_length)).to(tokens.device)
    return tokens[positions], tokens[positions + 1]  # (batch, position)


def evaluation_windows(
    tokens: torch.Tensor, context_length: int, batch_size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and targets (batch, position) in which each character but the first is a target once.

    The windows follow one another without overlap. What remains at the end is one last, shorter
    window, in a batch of its own. Tokens too few for one whole window yield nothing.
    """
    inputs, targets = tokens[:-1], tokens[1:]
    whole = len(inputs) // context_length * context_length
    if whole == 0:
        return
    window_inputs = inputs[:whole].view(-1, context_length)  # (window, position)
    window_targets = targets[:whole].view(-1, context_length)
    yield from zip(window_inputs.split(batch_size), window_targets.split(batch_size), strict=True)
    if whole < len(inputs):
        yield inputs[whole:].unsqueeze(0), targets[whole:].unsqueeze(0)
