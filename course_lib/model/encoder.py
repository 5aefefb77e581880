"""The GPT's two cousins, from the same parts: one that reads both ways, and one that reads a first
text to write a second.

    Encoder          every token reads all tokens     BERT, Devlin et al. 2018, arXiv 1810.04805
    EncoderDecoder   a decoder whose tokens also      T5, Raffel et al. 2019, arXiv 1910.10683;
                     read the encoder's               Vaswani et al. 2017, arXiv 1706.03762

Lesson 09 trains one of each.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.model.attention import MultiHeadAttention
from course_lib.model.block import PreNormBlock, make_block
from course_lib.model.config import GPTConfig, require_positive
from course_lib.model.gpt import GPT, evaluating, initialise, require_positions, require_tokens
from course_lib.model.layers import make_norm
from course_lib.model.positions import Places, attention_positions
from course_lib.runtime import CourseError


class Encoder(GPT):
    """A GPT without the causal mask: each token's logits depend on what stands on both its sides.

    It cannot write, for while it predicts a token it sees it; it is trained to fill in tokens that
    were hidden from it. Raises CourseError for a configuration with a window.
    """

    def __init__(self, config: GPTConfig) -> None:
        if config.window is not None:
            raise CourseError(
                f"window={config.window} looks back, and an encoder looks both ways; use None"
            )
        super().__init__(config)

    def forward(
        self,
        tokens: Tensor,  # (batch, position), integers
        *,
        positions: Tensor | None = None,  # (position,) or (batch, position), integers
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, ...]]:
        """Logits (batch, position, vocab_size): at each position, a score for every token *there*.

        positions and return_weights as in GPT.forward: −1 is padding, which no token reads.
        """
        states, all_weights = self.read(tokens, positions, return_weights)
        logits = self.head(states)
        return (logits, all_weights) if return_weights else logits

    def read(
        self,
        tokens: Tensor,  # (batch, position), integers
        positions: Tensor | None = None,  # (position,) or (batch, position), integers
        return_weights: bool = False,
    ) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        """What a head or a decoder reads, (batch, position, d_model), and each layer's weights."""
        require_tokens(tokens)
        may_attend = None
        if positions is None:
            positions, last = torch.arange(tokens.shape[1], device=tokens.device), None
        else:
            last = require_positions(positions, tokens)
            is_token = positions >= 0
            may_attend = is_token[..., :, None] & is_token[..., None, :]
        x = self.embed(tokens, positions, last)
        places = self.attention_positions.places(positions, self.config.turned_width)
        all_weights = []
        for block in self.blocks:
            x, weights = block(x, places, may_attend, return_weights=return_weights)
            all_weights.append(weights)
        return self.final_norm(x), tuple(all_weights)


class CrossAttention(MultiHeadAttention):
    """Attention from one text to another: its queries, the other's keys and values.

    Where a token of the one stands says nothing of where it should look in the other, so no
    positions act here; the other text's vectors know their own.
    """

    def forward(
        self,
        x: Tensor,  # (batch, query, d_model)
        memory: Tensor,  # (batch, key, d_model)
        may_attend: Tensor | None = None,  # (batch, query, key), bool
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each token gathered, and the weights (batch, head, query, key) if asked for."""
        query, key, value = (
            linear(text).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
            for linear, text in ((self.query, x), (self.key, memory), (self.value, memory))
        )
        query, key = self.query_norm(query), self.key_norm(key)
        return self.attend(query, key, value, may_attend, return_weights=return_weights)


class CrossBlock(nn.Module):
    """A decoder block with a third part: attention to itself, to the other text, feed-forward."""

    def __init__(self, block: PreNormBlock, cross: CrossAttention, cross_norm: nn.Module) -> None:
        super().__init__()
        self.block = block
        self.cross_norm = cross_norm
        self.cross_attention = cross

    def forward(
        self,
        x: Tensor,  # (batch, position, d_model)
        places: Places,
        memory: Tensor,  # (batch, key, d_model)
        may_read: Tensor | None,  # (batch, position, key), bool
        *,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The residual stream after the block; weights on the own text and on the other."""
        own, drop = self.block, self.block.dropout
        read, own_weights = own.attention(
            own.attention_norm(x), places, is_causal=True, return_weights=return_weights
        )
        x = x + drop(read)
        read, cross_weights = self.cross_attention(
            self.cross_norm(x), memory, may_read, return_weights=return_weights
        )
        x = x + drop(read)
        x = x + drop(own.feed_forward(own.feed_forward_norm(x)))
        return x, own_weights, cross_weights


class EncoderDecoder(nn.Module):
    """Reads a source text both ways, and writes a target, each token of which reads all the source.

    config describes both halves: n_layers each, one vocabulary, one embedding matrix. Raises
    CourseError for a window, and for Post-LN.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        if config.norm_placement == "post":
            raise CourseError(
                "norm_placement='post' is not made for an encoder and a decoder; use 'pre', as T5"
            )
        self.config = config
        self.encoder = Encoder(config)
        self.embedding_scale = self.encoder.embedding_scale
        self.attention_positions = attention_positions(config)
        self.blocks = nn.ModuleList(
            CrossBlock(make_block(config), self._cross_attention(config), make_norm(config))
            for _ in range(config.n_layers)
        )
        self.final_norm = make_norm(config)
        self.head = self.encoder.head  # the encoder itself uses none
        initialise(self, config)

    def forward(
        self,
        source: Tensor,  # (batch, key), integers
        target: Tensor,  # (batch, position), integers
        *,
        source_positions: Tensor | None = None,  # (key,) or (batch, key), −1 is padding
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, ...]]:
        """Logits (batch, position, vocab_size): at each target position, of the next target token.

        With return_weights also each layer's weights on the source (batch, head, position, key).
        """
        memory, _ = self.encoder.read(source, source_positions)
        return self.decode(target, memory, source_positions, return_weights)

    def decode(
        self,
        target: Tensor,  # (batch, position), integers
        memory: Tensor,  # (batch, key, d_model), from encoder.read
        source_positions: Tensor | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, ...]]:
        """The second half of forward, for who writes step by step and reads the source once."""
        require_tokens(target)
        may_read = None
        if source_positions is not None:
            is_token = (source_positions >= 0).expand(len(target), -1)
            may_read = is_token[:, None, :].expand(-1, target.shape[1], -1)
        positions = torch.arange(target.shape[1], device=target.device)
        x = self.encoder.embed(target, positions)
        places = self.attention_positions.places(positions, self.config.turned_width)
        all_weights = []
        for block in self.blocks:
            x, _, weights = block(x, places, memory, may_read, return_weights=return_weights)
            all_weights.append(weights)
        logits = self.head(self.final_norm(x))
        return (logits, tuple(all_weights)) if return_weights else logits

    def write(
        self,
        source: Tensor,  # (batch, key), integers
        start: int,
        length: int,
        *,
        source_positions: Tensor | None = None,
    ) -> Tensor:  # (batch, length), integers
        """The likeliest next token again and again, after `start`, which is not part of it."""
        require_positive("length", length)
        with evaluating(self):
            memory, _ = self.encoder.read(source, source_positions)
            target = source.new_full((len(source), 1), start)
            for _ in range(length):
                logits = self.decode(target, memory, source_positions)
                target = torch.cat([target, logits[:, -1:].argmax(dim=-1)], dim=1)
        return target[:, 1:]

    @staticmethod
    def _cross_attention(config: GPTConfig) -> CrossAttention:
        return CrossAttention(
            config.d_model,
            config.n_heads,
            n_kv_heads=config.n_kv_heads,
            bias=config.bias,
            dropout=config.dropout,
            qk_norm=config.qk_norm,
        )
