"""Where a character stands in verse: for heads that read by line and column (lesson 16).

Chinese verse comes in couplets: an opening line that ends in ， and a closing one that ends in 。,
of the same length. In strict forms the two are parallel, character by character.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.data.tokenizer import CharTokenizer
from course_lib.runtime import CourseError


def counterparts(tokens: Tensor, tokenizer: CharTokenizer) -> Tensor:
    """What stands in the line before where the next token stands in its own.

    tokens (batch, position) → bool (batch, query, key). A query in column j, counted from 0, has
    one: column j + 1 of the line before, if that is so long; a mark or newline has none.
    """
    line, column = _lines_and_columns(tokens, tokenizer)
    before = line[:, None, :] == line[:, :, None] - 1
    opposite = column[:, None, :] == column[:, :, None] + 1
    return before & opposite & (column >= 0)[:, :, None]


def in_closing_line(tokens: Tensor, tokenizer: CharTokenizer) -> Tensor:
    """Which predictions are of a character in a closing line: bool (batch, position − 1).

    Entry i is the prediction of token i + 1. Lines cut off by the end of the window count as none.
    """
    comma, stop, _ = _marks(tokenizer)
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device).expand_as(tokens)
    ends = torch.where((tokens == comma) | (tokens == stop), place, length)
    end = ends.flip(1).cummin(dim=1).values.flip(1)  # of the line that each place is in
    closed = tokens.gather(1, end.clamp(max=length - 1)) == stop
    _, column = _lines_and_columns(tokens, tokenizer)
    return (closed & (end < length) & (column >= 0))[:, 1:]


def _lines_and_columns(tokens: Tensor, tokenizer: CharTokenizer) -> tuple[Tensor, Tensor]:
    """Each place's line, counted from 0, and its column there, −1 for marks and newlines."""
    comma, stop, newline = _marks(tokenizer)
    ends = (tokens == comma) | (tokens == stop)
    place = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
    last = torch.where(ends | (tokens == newline), place, -1).cummax(dim=1).values
    return ends.cumsum(dim=1) - ends.long(), place - last - 1


def _marks(tokenizer: CharTokenizer) -> tuple[int, int, int]:
    if missing := [mark for mark in "，。\n" if mark not in tokenizer.vocabulary]:
        raise CourseError(
            f"this vocabulary lacks {missing[0]!r}, by which lines of verse are told; use the "
            "corpus tang, or find the lines of your text by its own marks"
        )
    return tuple(tokenizer.encode("，。\n").tolist())
