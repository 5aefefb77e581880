"""One pass of new tokens through copies of a GPT's layers, over rings of what was read (cache.py).

Tokens of all rows are one list, (token, d_model), for layers but attention treat each alone. In
attention there are two ways: one new token in each row, for which each operator counts, and pieces
of any length, padding and rows, for which the mask is worked out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.model.attention import MultiHeadAttention
from course_lib.model.block import PostNormBlock, PreNormBlock
from course_lib.model.copies import (
    Step,
    copied,
    feed_forward_step,
    linear_step,
    norm_step,
    unit_norm,
)
from course_lib.model.gpt import GPT
from course_lib.model.layers import RMSNorm


@dataclass(frozen=True)
class Moment:
    """What all layers share while each row reads one token.

    position: its place in the text, one for all rows or (batch,). rotation: cosine + i·sine of its
    angles, (d_head/2,) or (batch, 1, d_head/2). slot: where the ring takes it, one for all or
    (batch, 1, 1, 1). filled: how many slots are in use, this one included. offset: added to the
    scores, (batch·kv_head, group, slot), −inf where nothing is to be read.
    """

    position: int | Tensor
    rotation: Tensor | None
    slot: int | Tensor
    filled: int
    offset: Tensor | None


@dataclass(frozen=True)
class Piece:
    """What all layers share while some rows read several tokens each.

    position: (token,), rows one after the other; 0 for padding. rotation: cosine + i·sine, (token,
    1, d_head/2). rows: (row,), which of the batch. held: slots of the ring that are read. mask:
    (row, 1 or head, new, held + new), bool or added to the scores; None: the plain causal one, held
    being 0. kept: row, column and slot of each token that the ring takes, no slot twice.
    """

    position: Tensor
    rotation: Tensor | None
    rows: Tensor
    held: int
    mask: Tensor | None
    kept: tuple[Tensor, Tensor, Tensor]


def turn_pairs(heads: Tensor, rotation: Tensor) -> Tensor:
    """Heads (batch, head, d_head) whose pairs lie side by side, turned: a + ib times cos + i·sin.

    In float32, for there are no complex numbers of 16 bits, and back.
    """
    batch, n_heads, d_head = heads.shape
    pairs = torch.view_as_complex(heads.float().view(batch, n_heads, d_head // 2, 2))
    return torch.view_as_real(pairs * rotation).view(heads.shape).to(heads.dtype)


def side_by_side(heads: Tensor) -> Tensor:
    """(..., d_head), whose pairs are i and i + d_head/2, with them moved to 2i and 2i + 1."""
    return heads.unflatten(-1, (2, -1)).transpose(-2, -1).flatten(-2)


class AttentionStep:
    """Attention of new tokens over a ring of keys and values and themselves; it takes theirs.

    keys: (batch, kv_head, d_head, slot), values: (batch, kv_head, slot, d_head), written in place;
    each lies as the product with one query reads it. With rotary positions the two halves of a
    pair lie side by side (paired), so that turning is one complex product.
    """

    def __init__(
        self, attention: MultiHeadAttention, keys: Tensor, values: Tensor, paired: bool
    ) -> None:
        self.n_heads, self.n_kv_heads = attention.n_heads, attention.n_kv_heads
        self.d_head = attention.d_head
        self._hold(keys, values)
        # scores are divided by √d_head: done to the queries, by what sets their size last
        scale = 1 / math.sqrt(self.d_head)
        self.norm_weight, self.epsilon = None, 0.0
        if isinstance(attention.query_norm, RMSNorm):
            norms = torch.cat(
                [
                    (attention.query_norm.weight.float() * scale).expand(self.n_heads, -1),
                    attention.key_norm.weight.float().expand(self.n_kv_heads, -1),
                ]
            )  # (head + kv_head, d_head)
            self.norm_weight = (side_by_side(norms) if paired else norms) * math.sqrt(self.d_head)
            self.epsilon, scale = attention.query_norm.epsilon, 1.0
        self.joined = self._joined_projection(attention, scale, paired)
        self.output = copied(attention.output)

    def _hold(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values
        self.key_slots, self.value_slots = keys.unbind(-1), values.unbind(-2)
        self.flat_keys, self.flat_values = keys.flatten(0, 1), values.flatten(0, 1)

    def _joined_projection(self, attention: MultiHeadAttention, scale: float, paired: bool) -> Step:
        """x (batch, d_model) → queries, keys, values of all heads, one after the other."""

        def arranged(columns: Tensor) -> Tensor:
            heads = columns.unflatten(-1, (-1, self.d_head))
            return side_by_side(heads).flatten(-2) if paired else columns

        query, key, value = attention.query, attention.key, attention.value
        matrix = torch.cat(
            [arranged(query.weight.t() * scale), arranged(key.weight.t()), value.weight.t()], dim=-1
        )
        if query.bias is None:
            return linear_step(matrix, None)
        bias = torch.cat([arranged(query.bias * scale), arranged(key.bias), value.bias])
        return linear_step(matrix, bias)

    def __call__(self, x: Tensor, now: Moment | Piece) -> Tensor:
        """x (token, d_model) → what was gathered, (token, d_model)."""
        query, key, value = self.project(x, now.rotation)
        read = self.read_piece if isinstance(now, Piece) else self.read_one
        return self.output(read(query, key, value, now).view(len(x), -1))

    def project(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, scaled by 1/√d_head, keys and values: (token, head, d_head) each."""
        turned, value = (
            self.joined(x)
            .view(len(x), -1, self.d_head)
            .split_with_sizes((self.n_heads + self.n_kv_heads, self.n_kv_heads), dim=1)
        )
        if self.norm_weight is not None:
            turned = (unit_norm(turned, self.epsilon) * self.norm_weight).to(x.dtype)
        if rotation is not None:
            turned = turn_pairs(turned, rotation)
        query, key = turned.split_with_sizes((self.n_heads, self.n_kv_heads), dim=1)
        return query, key, value

    def read_one(self, query: Tensor, key: Tensor, value: Tensor, now: Moment) -> Tensor:
        """Each row's token reads the ring, which has taken it: (batch·kv_head, group, d_head)."""
        if isinstance(now.slot, int):
            self.key_slots[now.slot].copy_(key)
            self.value_slots[now.slot].copy_(value)
        else:
            key, value = key[..., :, None], value[..., None, :]
            self.keys.scatter_(3, now.slot.expand(key.shape), key)
            self.values.scatter_(2, now.slot.expand(value.shape), value)
        query = query.reshape(len(self.flat_keys), -1, self.d_head)
        keys, values = self.flat_keys, self.flat_values
        if now.filled < keys.shape[-1]:
            keys, values = keys[:, :, : now.filled], values[:, : now.filled]
        if now.offset is None:
            scores = torch.bmm(query, keys)  # (batch·kv_head, group, slot)
        else:
            scores = torch.baddbmm(now.offset, query, keys)
        return torch.bmm(scores.softmax(dim=-1), values)

    def read_piece(self, query: Tensor, key: Tensor, value: Tensor, piece: Piece) -> Tensor:
        """New tokens read the ring and each other: (row, new, head, d_head)."""
        query, key, value = (
            heads.unflatten(0, (len(piece.rows), -1)).transpose(1, 2)
            for heads in (query, key, value)
        )
        row, column, slot = piece.kept
        keys, values = key, value
        if (
            piece.held
        ):  # read before it is written, for early tokens may need what late ones replace
            old_keys = self.keys[piece.rows, :, :, : piece.held].transpose(-2, -1)
            old_values = self.values[piece.rows, :, : piece.held]
            keys, values = torch.cat([old_keys, key], 2), torch.cat([old_values, value], 2)
        self.keys[piece.rows[row], :, :, slot] = key[row, :, column]
        self.values[piece.rows[row], :, slot] = value[row, :, column]
        group = self.n_heads // self.n_kv_heads
        if group > 1:  # query heads 0, 1, 2, 3 read key heads 0, 0, 1, 1
            keys, values = (heads.repeat_interleave(group, dim=1) for heads in (keys, values))
        mixed = F.scaled_dot_product_attention(
            query, keys, values, piece.mask, is_causal=piece.mask is None, scale=1.0
        )
        return mixed.transpose(1, 2).contiguous()


class BlockStep:
    """A block for new tokens."""

    def __init__(
        self,
        block: PreNormBlock,
        keys: Tensor,
        values: Tensor,
        paired: bool,
        attention_step: type[AttentionStep],
    ) -> None:
        self.post_norm = isinstance(block, PostNormBlock)
        self.attention = attention_step(block.attention, keys, values, paired)
        self.attention_norm = norm_step(block.attention_norm)
        self.feed_forward = feed_forward_step(block.feed_forward)
        self.feed_forward_norm = norm_step(block.feed_forward_norm)

    def __call__(self, x: Tensor, now: Moment | Piece) -> Tensor:
        """The residual stream (token, d_model) after the block."""
        if self.post_norm:
            x = self.attention_norm(x + self.attention(x, now))
            return self.feed_forward_norm(x + self.feed_forward(x))
        x = x + self.attention(self.attention_norm(x), now)
        return x + self.feed_forward(self.feed_forward_norm(x))


class GPTStep:
    """A whole model for new tokens, over the rings of its past: (layer, batch, kv_head, …) each."""

    def __init__(
        self,
        model: GPT,
        keys: Tensor,
        values: Tensor,
        attention_step: type[AttentionStep] = AttentionStep,
    ) -> None:
        paired = model.config.positions == "rotary"
        self.tokens = model.token_embedding.weight.detach() * model.embedding_scale
        self.places: Tensor | None = None  # (position, d_model)
        if model.position_embedding is not None:
            every = torch.arange(model.config.context_length, device=keys.device)
            self.places = model.position_embedding(every).to(self.tokens.dtype)
        self.blocks = [
            BlockStep(block, keys[layer], values[layer], paired, attention_step)
            for layer, block in enumerate(model.blocks)
        ]
        self.final_norm = norm_step(model.final_norm)
        self.head = copied(model.head)

    def __call__(self, tokens: Tensor, now: Moment | Piece) -> Tensor:
        """Tokens (token,) → logits (token, vocab_size); the rings take their keys and values."""
        x = F.embedding(tokens, self.tokens)
        if self.places is not None:
            x = x + self.places[now.position]
        for block in self.blocks:
            x = block(x, now)
        return self.head(self.final_norm(x))
