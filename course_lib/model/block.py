"""The decoder block: attention moves information between tokens, the feed-forward layer works on
each one alone, and both write into the residual stream that runs past them.

    Pre-LN    x + f(norm(x))    GPT-2 and its successors: the stream itself is never scaled
    Post-LN   norm(x + f(x))    Vaswani et al. 2017

Xiong et al. 2020 (arXiv 2002.04745) compare the two. Lesson 08 builds the block.
"""

from __future__ import annotations

from torch import Tensor, nn

from course_lib.model.attention import MultiHeadAttention
from course_lib.model.config import GPTConfig
from course_lib.model.latent_attention import LatentAttention
from course_lib.model.layers import make_feed_forward, make_norm
from course_lib.model.positions import Places, attention_positions


class PreNormBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        attention_norm: nn.Module,
        feed_forward_norm: nn.Module,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention_norm = attention_norm
        self.attention = attention
        self.feed_forward_norm = feed_forward_norm
        self.feed_forward = feed_forward
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,  # (batch, position, d_model)
        positions: Tensor | Places,  # (position,) or (batch, position)
        may_attend: Tensor | None = None,  # (query, key) or (batch, query, key), bool
        *,
        is_causal: bool = False,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The residual stream after the block, and the attention weights if asked for."""
        read, weights = self.attention(
            self.attention_norm(x),
            positions,
            may_attend,
            is_causal=is_causal,
            return_weights=return_weights,
        )
        x = x + self.dropout(read)
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, weights


class PostNormBlock(PreNormBlock):
    """norm(x + attention(x)), then norm(x + feed_forward(x)), as in Vaswani et al."""

    def forward(
        self,
        x: Tensor,  # (batch, position, d_model)
        positions: Tensor | Places,  # (position,) or (batch, position)
        may_attend: Tensor | None = None,  # (query, key) or (batch, query, key), bool
        *,
        is_causal: bool = False,
        return_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The residual stream after the block, and the attention weights if asked for."""
        read, weights = self.attention(
            x, positions, may_attend, is_causal=is_causal, return_weights=return_weights
        )
        x = self.attention_norm(x + self.dropout(read))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights


def make_attention(config: GPTConfig) -> MultiHeadAttention:
    """The attention of one block as the configuration describes it."""
    common = {
        "positions": attention_positions(config),
        "bias": config.bias,
        "dropout": config.dropout,
    }
    if config.d_latent is not None:
        d_rotary = config.turned_width if config.positions == "rotary" else 0
        return LatentAttention(
            config.d_model, config.n_heads, config.d_latent, d_rotary=d_rotary, **common
        )
    return MultiHeadAttention(
        config.d_model,
        config.n_heads,
        n_kv_heads=config.n_kv_heads,
        qk_norm=config.qk_norm,
        **common,
    )


def make_block(config: GPTConfig) -> PreNormBlock:
    """One block as the configuration describes it."""
    block = PostNormBlock if config.norm_placement == "post" else PreNormBlock
    feed_forward_norm = nn.Identity() if config.feed_forward == "none" else make_norm(config)
    return block(
        make_attention(config),
        make_feed_forward(config),
        make_norm(config),
        feed_forward_norm,
        config.dropout,
    )
