"""A GPT's layers for one new token in each row: the same formulas, laid out for speed (cache.py).

One token leaves so little to compute that the time goes into fetching matrices and calling
operators. So matrices are copied in the order in which a product with few rows reads them, queries,
keys and values come from one product, and constant factors are multiplied in beforehand. Copies
stay as they were: a model that is trained further needs a new step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.model.attention import MultiHeadAttention
from course_lib.model.block import PostNormBlock, PreNormBlock
from course_lib.model.gpt import GPT
from course_lib.model.layers import FeedForward, LayerNorm, RMSNorm, SwiGLU

Step = Callable[[Tensor], Tensor]  # (batch, d_in) → (batch, d_out)


@dataclass(frozen=True)
class Moment:
    """What all layers share while each row reads one token.

    position: its place in the text, one for all rows or (batch,). slot: where the ring takes it,
    one for all or (batch, 1, 1, 1). filled: how many slots are in use, this one included.
    rotation: cosine + i·sine of its angles, (d_head/2,) or (batch, 1, d_head/2). offset: added to
    the scores, (batch·kv_head, group, slot), −inf where nothing is to be read.
    """

    position: int | Tensor
    slot: int | Tensor
    filled: int
    rotation: Tensor | None = None
    offset: Tensor | None = None


def linear_step(matrix: Tensor, bias: Tensor | None) -> Step:
    """x · matrix + bias, with a copy of the matrix (d_in, d_out) that lies as it is read.

    nn.Linear keeps it the other way round, which costs a product with one row three times as long.
    """
    matrix = matrix.detach().clone(memory_format=torch.contiguous_format)
    if bias is None:
        return lambda x: torch.mm(x, matrix)
    bias = bias.detach().clone()
    return lambda x: torch.addmm(bias, x, matrix)


def copied(linear: nn.Linear) -> Step:
    """A linear layer, with copies of its matrix and bias."""
    return linear_step(linear.weight.t(), linear.bias)


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


def unit_norm(x: Tensor, epsilon: float) -> Tensor:
    """x / √(Σ x² + d·ε) over the last axis of width d, float32: RMSNorm but for a factor √d.

    F.rms_norm is a chain of small operators on a CPU, and takes four times as long.
    """
    x = x.float()
    size = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x * size.square_().add_(x.shape[-1] * epsilon).rsqrt_()


def norm_step(norm: LayerNorm | RMSNorm | nn.Identity) -> Step:
    """A normalisation, with a copy of its weights."""
    if isinstance(norm, nn.Identity):
        return norm
    weight = norm.weight.detach().clone()
    if isinstance(norm, RMSNorm):
        scaled = weight.float() * math.sqrt(len(weight))
        return lambda x: (unit_norm(x, norm.epsilon) * scaled).to(weight.dtype)
    bias = None if norm.bias is None else norm.bias.detach().clone()
    return lambda x: torch.layer_norm(x, weight.shape, weight, bias, norm.epsilon)


def feed_forward_step(layer: FeedForward | SwiGLU) -> Step:
    """A feed-forward layer, with copies of its matrices."""
    if isinstance(layer, SwiGLU):
        gate, hidden, output = copied(layer.gate), copied(layer.hidden), copied(layer.output)
        return lambda x: output(F.silu(gate(x)) * hidden(x))
    if layer.activation is F.gelu and layer.hidden.weight.dtype == torch.float32:
        return _gelu_step(layer)
    hidden, output = copied(layer.hidden), copied(layer.output)
    return lambda x: output(layer.activation(hidden(x)))


def _gelu_step(layer: FeedForward) -> Step:
    """GELU(h) = h/2 · (1 + erf(h/√2)) = (s + s · erf s) / √2 with s = h/√2.

    Both √2 go into the matrices. F.gelu gives the same, and takes longer to start than to compute.
    """
    half, bias = math.sqrt(0.5), layer.hidden.bias
    hidden = linear_step(layer.hidden.weight.t() * half, None if bias is None else bias * half)
    output = linear_step(layer.output.weight.t() * half, layer.output.bias)

    def step(x: Tensor) -> Tensor:
        s = hidden(x)
        return output(torch.addcmul(s, s, torch.erf(s)))

    return step


class AttentionStep:
    """Attention of one new query a row over a ring of keys and values, which takes the new ones.

    keys: (batch, kv_head, d_head, slot), values: (batch, kv_head, slot, d_head), written in place;
    each lies as the product with one query reads it. With rotary positions the two halves of a
    pair lie side by side (paired), so that turning is one complex product.
    """

    def __init__(
        self, attention: MultiHeadAttention, keys: Tensor, values: Tensor, paired: bool
    ) -> None:
        self.n_heads, self.n_kv_heads = attention.n_heads, attention.n_kv_heads
        self.batch, self.d_head = keys.shape[0], attention.d_head
        self.keys, self.values = keys, values
        self.key_slots, self.value_slots = keys.unbind(-1), values.unbind(-2)
        self.flat_keys, self.flat_values = keys.flatten(0, 1), values.flatten(0, 1)
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
        self.project = self._joined_projection(attention, scale, paired)
        self.output = copied(attention.output)

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

    def __call__(self, x: Tensor, now: Moment) -> Tensor:
        """x (batch, d_model) → what was gathered, (batch, d_model)."""
        turned, value = (
            self.project(x)
            .view(self.batch, -1, self.d_head)
            .split_with_sizes((self.n_heads + self.n_kv_heads, self.n_kv_heads), dim=1)
        )
        if self.norm_weight is not None:
            turned = (unit_norm(turned, self.epsilon) * self.norm_weight).to(x.dtype)
        if now.rotation is not None:
            turned = turn_pairs(turned, now.rotation)
        query, key = turned.split_with_sizes((self.n_heads, self.n_kv_heads), dim=1)
        self._write(key, value, now.slot)
        query = query.reshape(self.batch * self.n_kv_heads, -1, self.d_head)
        keys, values = self.flat_keys, self.flat_values
        if now.filled < keys.shape[-1]:
            keys, values = keys[:, :, : now.filled], values[:, : now.filled]
        if now.offset is None:
            scores = torch.bmm(query, keys)  # (batch·kv_head, group, slot)
        else:
            scores = torch.baddbmm(now.offset, query, keys)
        mixed = torch.bmm(scores.softmax(dim=-1), values)
        return self.output(mixed.view(self.batch, -1))

    def _write(self, key: Tensor, value: Tensor, slot: int | Tensor) -> None:
        if isinstance(slot, int):
            self.key_slots[slot].copy_(key)
            self.value_slots[slot].copy_(value)
        else:
            key, value = key[..., :, None], value[..., None, :]
            self.keys.scatter_(3, slot.expand(key.shape), key)
            self.values.scatter_(2, slot.expand(value.shape), value)


class BlockStep:
    """A block for one token in each row."""

    def __init__(self, block: PreNormBlock, keys: Tensor, values: Tensor, paired: bool) -> None:
        self.post_norm = isinstance(block, PostNormBlock)
        self.attention = AttentionStep(block.attention, keys, values, paired)
        self.attention_norm = norm_step(block.attention_norm)
        self.feed_forward = feed_forward_step(block.feed_forward)
        self.feed_forward_norm = norm_step(block.feed_forward_norm)

    def __call__(self, x: Tensor, now: Moment) -> Tensor:
        """The residual stream (batch, d_model) after the block."""
        return run_block(self, x, lambda h: self.attention(h, now), self.post_norm)


def run_block(parts: PreNormBlock | BlockStep, x: Tensor, attend: Step, post_norm: bool) -> Tensor:
    """A block's two additions to the residual stream, around an attention of the caller's."""
    if post_norm:
        x = parts.attention_norm(x + attend(x))
        return parts.feed_forward_norm(x + parts.feed_forward(x))
    x = x + attend(parts.attention_norm(x))
    return x + parts.feed_forward(parts.feed_forward_norm(x))


class GPTStep:
    """A whole model for one token in each row, over the rings of its past."""

    def __init__(self, model: GPT, keys: Tensor, values: Tensor) -> None:
        paired = model.config.positions == "rotary"
        self.tokens = model.token_embedding.weight.detach() * model.embedding_scale
        self.places: Tensor | None = None  # (position, d_model)
        if model.position_embedding is not None:
            every = torch.arange(model.config.context_length, device=keys.device)
            self.places = model.position_embedding(every).to(self.tokens.dtype)
        self.blocks = [
            BlockStep(block, keys[layer], values[layer], paired)
            for layer, block in enumerate(model.blocks)
        ]
        self.final_norm = norm_step(model.final_norm)
        self.head = copied(model.head)

    def __call__(self, tokens: Tensor, now: Moment) -> Tensor:
        """Tokens (batch,) → logits (batch, vocab_size); the rings take their keys and values."""
        x = F.embedding(tokens, self.tokens)
        if self.places is not None:
            x = x + self.places[now.position]
        for block in self.blocks:
            x = block(x, now)
        return self.head(self.final_norm(x))
