"""A GPT that remembers: what was read once is not computed again.

A token's keys and values depend on it and on what came before, never on what follows. So they are
kept, and a new token is worked through the layers alone, reading the kept ones (Pope et al. 2022,
arXiv 2211.05102, section 3). Only the last `window` can be read again: they lie in a ring, where
the token at position p takes slot p mod window. Lesson 12 builds it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.model.attention import causal_mask
from course_lib.model.config import require_positive
from course_lib.model.gpt import GPT, INTEGERS
from course_lib.model.latent_step import LatentStep, empty_rings
from course_lib.model.snapshot import Watch, why_not_cached
from course_lib.model.step import AttentionStep, GPTStep, Moment, Piece
from course_lib.runtime import CourseError, out_of_memory

TABLE = 256  # how many positions' rotations are computed at once


class CachedGPT:
    """A GPT that continues after what it has read: the model's own logits, sooner.

    For generation: dropout is off, and there are no gradients. Past the window (the
    configuration's, at most context_length) old tokens fall out of sight, as in one pass of
    GPT.forward(tokens, window=context_length). Learned and sinusoidal positions end at
    context_length: a token past it is refused; reset, and read a part of the text anew.

    It holds copies of the model's weights as they were when it was made or last reset, and refuses
    to go on when the model's have changed. The model itself is left as it is.
    """

    def __init__(self, model: GPT, batch_size: int = 1) -> None:
        """An empty cache for batch_size texts. CourseError for a model that it cannot follow."""
        if reason := why_not_cached(model):
            raise CourseError(
                f"this model cannot be cached: {reason}, which only the model itself runs; "
                "call the model, or generate with use_cache=False"
            )
        require_positive("batch_size", batch_size)
        self.model, self.config, self.batch_size = model, model.config, batch_size
        window, context = model.config.window, model.config.context_length
        self.window = context if window is None else window
        self.read = [0] * batch_size  # tokens that each row has read: the next one's position
        self._prepare()

    @property
    def bytes(self) -> int:
        """What the keys and values take, however much has been read."""
        if self.config.d_latent is not None:
            return self.keys.nbytes  # of which the values are a part
        return self.keys.nbytes + self.values.nbytes

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Forget what the given rows have read. Without rows: all, and look at the weights anew."""
        if rows is None and self._watch.changed():
            self._prepare()
        for row in range(self.batch_size) if rows is None else self._known(rows):
            self.read[row] = 0

    def __call__(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        rows: Sequence[int] | None = None,
    ) -> Tensor:
        """See forward."""
        return self.forward(tokens, positions, rows)

    @torch.inference_mode()
    def forward(
        self,
        tokens: Tensor,  # (batch, new), integers
        positions: Tensor | None = None,  # (batch, new), integers
        rows: Sequence[int] | None = None,
    ) -> Tensor:
        """Logits (batch, new, vocab_size) of tokens that follow what each row has read.

        positions go on where a row stopped, from 0; −1 is padding, which is not read and whose own
        logits mean nothing. rows: those of the batch that read, while the others wait. Raises
        CourseError for what does not fit, and for a model that has changed since the last reset.
        """
        if self._watch.changed():
            raise CourseError(
                "the model has changed since this cache was made or reset; call reset() and read "
                "the text again"
            )
        width = self.batch_size if rows is None else len(self._known(rows))
        if tokens.ndim != 2 or len(tokens) != width or tokens.dtype not in INTEGERS:
            raise CourseError(
                f"tokens have shape {tuple(tokens.shape)} and dtype {tokens.dtype}; "
                f"give int64 or int32 of shape ({width}, new)"
            )
        if tokens.shape[1] == 0:
            return self.keys.new_empty(width, 0, self.config.vocab_size)
        if tokens.shape[1] == 1 and positions is None and rows is None:
            return self._read_one(tokens[:, 0])[:, None]
        return self._read_piece(tokens, positions, range(width) if rows is None else rows)

    # ---- the weights, and room for keys and values

    @torch.inference_mode()
    def _prepare(self) -> None:
        config, weight = self.config, self.model.token_embedding.weight
        layout = {"dtype": weight.dtype, "device": weight.device}
        try:
            self.keys, self.values = empty_rings(config, self.batch_size, self.window, **layout)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            numbers = config.n_layers * self.batch_size * config.cached_numbers * self.window
            size = numbers * weight.element_size()
            raise CourseError(
                f"keys and values of {self.window:,} tokens would take {size / 2**30:,.1f} GiB for "
                f"batch_size={self.batch_size}, more than there is; use a smaller batch, or "
                "generate with use_cache=False"
            ) from None
        attention_step = AttentionStep if config.d_latent is None else LatentStep
        self._step = GPTStep(self.model, self.keys, self.values, attention_step)
        self._rotations, self._rotations_start = self.values.new_empty(0), 0
        self._watch = Watch(self.model)

    # ---- one token in each row

    def _read_one(self, tokens: Tensor) -> Tensor:
        self._require_room(max(self.read) + 1)
        logits = self._step(tokens, self._moment())
        self.read = [count + 1 for count in self.read]
        return logits

    def _moment(self) -> Moment:
        first, last = min(self.read), max(self.read)
        filled = min(last + 1, self.window)
        if first == last:
            position, slot = last, last % self.window
        else:
            position = torch.tensor(self.read, device=self.keys.device)
            slot = (position % self.window)[:, None, None, None]
        offset = None
        if self.config.positions == "alibi" or min(first + 1, self.window) < filled:
            offset = self._offset(filled)
        return Moment(position, self._rotation(position, first, last), slot, filled, offset)

    def _offset(self, filled: int) -> Tensor:
        newest = torch.tensor(self.read, device=self.keys.device)  # (batch,)
        held = ring_positions(newest, filled, self.window)
        offset = self._mask(newest[:, None], held)
        if offset.dtype == torch.bool:
            offset = self.keys.new_zeros(()).masked_fill(~offset, -math.inf)
        offset = offset.expand(-1, self.config.n_heads, -1, -1)
        return offset.reshape(self.batch_size * self.keys.shape[2], -1, filled)

    def _rotation(self, position: int | Tensor, first: int, last: int) -> Tensor | None:
        """cosine + i·sine for the Moment, from a table that moves along."""
        if self.config.positions != "rotary":
            return None
        start = self._rotations_start
        if not start <= first <= last < start + len(self._rotations):
            start = self._rotations_start = first
            self._rotations = self._turns(torch.arange(first, last + TABLE))
        chosen = self._rotations[position - start]
        return chosen if chosen.ndim == 1 else chosen[:, None]

    def _turns(self, positions: Tensor) -> Tensor:
        """cosine + i·sine of the angles at positions (position,): (position, d_head/2)."""
        places = self.model.attention_positions.places(
            positions.to(self.keys.device), self.config.turned_width
        )
        return torch.complex(*places.rotation)

    # ---- several tokens at once

    def _read_piece(self, tokens: Tensor, positions: Tensor | None, rows: Sequence[int]) -> Tensor:
        read = torch.tensor([self.read[row] for row in rows], device=tokens.device)
        is_plain = positions is None and not read.any() and tokens.shape[1] <= self.window
        positions = self._following(read, tokens, positions)
        after = read + (positions >= 0).sum(dim=1)
        self._require_room(int(after.max()))
        held = ring_positions(read - 1, min(int(read.max()), self.window), self.window)
        mask = None
        if not is_plain or self.config.positions == "alibi":
            mask = self._mask(positions, torch.cat([held, positions], dim=1))
        # no slot twice: on a GPU it is not defined which of two writes comes last
        kept = (positions >= 0) & (positions >= after[:, None] - self.window)
        row, column = kept.nonzero(as_tuple=True)
        flat = positions.flatten().clamp(min=0)
        piece = Piece(
            position=flat,
            rotation=self._turns(flat)[:, None] if self.config.positions == "rotary" else None,
            rows=torch.tensor(rows, device=tokens.device),
            held=held.shape[1],
            mask=mask,
            kept=(row, column, positions[row, column] % self.window),
        )
        logits = self._step(tokens.flatten(), piece)
        for row, count in zip(rows, after.tolist(), strict=True):
            self.read[row] = count
        return logits.unflatten(0, tokens.shape)

    def _mask(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """Who may attend to whom, (row, 1, query, key), or the scheme's bias, −inf elsewhere."""
        may_attend = causal_mask(query_positions, key_positions, self.window)[:, None]
        bias = self.model.attention_positions.score_bias(query_positions, key_positions)
        if bias is None:
            return may_attend
        return bias.masked_fill(~may_attend, -math.inf).to(self.keys.dtype)

    # ---- what fits

    def _following(self, read: Tensor, tokens: Tensor, positions: Tensor | None) -> Tensor:
        """The positions (row, new) of the tokens, which must go on where each row stopped."""
        if positions is None:
            return read[:, None] + torch.arange(tokens.shape[1], device=read.device)
        if positions.shape != tokens.shape or positions.dtype not in INTEGERS:
            raise CourseError(
                f"positions have shape {tuple(positions.shape)} and dtype {positions.dtype}; "
                f"give int64 or int32 of shape {tuple(tokens.shape)}, as the tokens have"
            )
        is_token = positions != -1
        expected = read[:, None] + is_token.cumsum(dim=1) - 1
        wrong = (is_token & (positions != expected)).nonzero()
        if len(wrong):
            row, column = wrong[0].tolist()
            raise CourseError(
                f"position {int(positions[row, column])} does not follow what row {row} has read; "
                f"give {int(expected[row, column])}, or −1 for padding, or reset it first"
            )
        return positions

    def _known(self, rows: Sequence[int]) -> Sequence[int]:
        if len(set(rows)) != len(rows) or not all(0 <= row < self.batch_size for row in rows):
            raise CourseError(
                f"rows={list(rows)} must be different numbers from 0 to {self.batch_size - 1}"
            )
        return rows

    def _require_room(self, needed: int) -> None:
        limit = self.config.context_length
        if needed > limit and self.model.position_embedding is not None:
            raise CourseError(
                f"position {needed - 1} lies past context_length={limit}, where "
                f"{self.config.positions} positions end; reset the row and read its last tokens "
                "anew"
            )


def ring_positions(newest: Tensor, slots: int, window: int) -> Tensor:
    """Which position lies in each of the first slots of a ring: (row, slot), −1 for none yet.

    newest: (row,), the last position written. Slot j has the last one that leaves j mod window.
    """
    newest, slot = newest[:, None], torch.arange(slots, device=newest.device)
    return (newest - (newest - slot) % window).clamp(min=-1)
