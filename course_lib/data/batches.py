"""Windows of a text: random ones to train on, and all of them, in order, to evaluate on.

A window of context_length characters has as many targets: at each position the next character. So
it takes context_length + 1 characters. Lesson 10 builds this.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    starts = torch.randint(len(tokens) - context_length, (batch_size, 1), generator=generator)
    positions = (starts + torch.arange(context_length)).to(tokens.device)  # (batch, position)
    return tokens[positions], tokens[positions + 1]


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
