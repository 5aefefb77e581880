"""What comes next: the logits after texts that grow, from a pass over all of each or from a cache.

Both follow one rule past the context length. Without absolute positions every token looks back
context_length tokens: a window that slides. Learned and sinusoidal positions end there, so the last
half of the window is read anew from position 0, each time it is full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.model.cache import CachedGPT
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, evaluating


def recomputed_logits(model: GPT, texts: Sequence[list[int]]) -> Tensor:
    """Logits (batch, vocab_size) of each text's next token, from one pass over all that matters."""
    config = model.config
    length = config.context_length
    reach = None if is_absolute(config) else length
    pieces = []
    for text in texts:
        start = fresh_start(config, len(text))
        if reach is not None:
            window = length if config.window is None else config.window
            start = max(0, len(text) - config.n_layers * (window - 1) - 1)
        pieces.append(text[start:])
    tokens, positions = left_padded(pieces, next(model.parameters()).device)
    padding = {} if positions is None else {"positions": positions}
    with evaluating(model):
        return model(tokens, window=reach, **padding)[:, -1]


class CachedLogits:
    """The same logits from a CachedGPT, which reads each token once.

    A text that grows is given again and again, longer by one token each time. The cache reads what
    it has not seen; texts whose positions start anew (see fresh_start) are read again from there.
    """

    def __init__(self, model: GPT, batch_size: int) -> None:
        self.cache = CachedGPT(model, batch_size)
        self.starts: list[int | None] = [None] * batch_size

    def __call__(self, texts: Sequence[list[int]]) -> Tensor:
        """Logits (batch, vocab_size) of each text's next token."""
        device = self.cache.keys.device
        starts = [fresh_start(self.cache.config, len(text)) for text in texts]
        anew = [row for row, start in enumerate(starts) if start != self.starts[row]]
        if anew:
            self.cache.reset(anew)
            pieces = [texts[row][starts[row] : -1] for row in anew]
            if any(pieces):
                tokens, positions = left_padded(pieces, device)
                self.cache(tokens, positions, rows=anew)
            self.starts = starts
        newest = torch.tensor([text[-1:] for text in texts], device=device)
        return self.cache(newest)[:, -1]


def is_absolute(config: GPTConfig) -> bool:
    """Whether positions count from the beginning of the text, and so come to an end."""
    return config.positions in ("learned", "sinusoidal")


def fresh_start(config: GPTConfig, length: int) -> int:
    """From which token on a text of so many is read.

    0, unless positions are absolute and the context is full: then its last half begins anew, each
    time it is full again.
    """
    context = config.context_length
    if not is_absolute(config) or length <= context:
        return 0
    fresh = context - context // 2  # tokens written between two fresh starts
    return math.ceil((length - context) / fresh) * fresh


def left_padded(
    pieces: Sequence[list[int]], device: torch.device
) -> tuple[Tensor, Tensor | None]:  # (batch, position) each
    """Tokens of unequal texts, all ending at the right, and their positions, −1 for padding.

    Positions are None where nothing is padded.
    """
    longest = max(len(piece) for piece in pieces)
    gaps = [longest - len(piece) for piece in pieces]
    tokens = [[0] * gap + piece for gap, piece in zip(gaps, pieces, strict=True)]
    if not any(gaps):
        return torch.tensor(tokens, device=device), None
    positions = [[-1] * gap + list(range(longest - gap)) for gap in gaps]
    return torch.tensor(tokens, device=device), torch.tensor(positions, device=device)
