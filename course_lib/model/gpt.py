"""GPT: embed the tokens, pass them through N blocks, and score every token that could come next.

A decoder-only Transformer (Radford et al. 2019). One forward pass predicts the successor of every
position at once; the causal mask keeps each prediction from seeing its answer. Lesson 09 builds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from course_lib.model.attention import KERNELS, MultiHeadAttention, causal_mask
from course_lib.model.block import make_block
from course_lib.model.config import GPTConfig, require_positive
from course_lib.model.layers import FeedForward, SwiGLU, make_norm
from course_lib.model.positions import (
    attention_positions,
    embedding_positions,
    largest_position,
)
from course_lib.runtime import CourseError

INTEGERS = (torch.int32, torch.int64)


class GPT(nn.Module):
    """A character or token model built from its configuration alone."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position_embedding = embedding_positions(config)
        self.attention_positions = attention_positions(config)
        # sines and cosines are of size 1: beside them a token of size 0.02 would not be heard, so
        # Vaswani et al. multiply it by √d_model (section 3.4)
        self.embedding_scale = math.sqrt(config.d_model) if config.positions == "sinusoidal" else 1
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(make_block(config) for _ in range(config.n_layers))
        # a Post-LN block ends in a norm already
        self.final_norm = nn.Identity() if config.norm_placement == "post" else make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tied_head:
            self.head.weight = self.token_embedding.weight
        initialise(self, config)

    def forward(
        self,
        tokens: Tensor,  # (batch, position), integers
        *,
        positions: Tensor | None = None,  # (position,) or (batch, position), integers
        window: int | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, ...]]:
        """Logits (batch, position, vocab_size): at each position, a score for every next token.

        positions: 0, 1, 2 … where not given. Position −1 is padding: no token reads it, and its
        own logits are finite and mean nothing. A window lets every token see only the last
        `window` ones; that of the configuration holds as well. With return_weights also each
        layer's attention weights (batch, head, query, key), from this very pass. Raises
        CourseError for tokens, positions or a window that cannot be.
        """
        require_tokens(tokens)
        window = _narrower(window, self.config.window)
        length = tokens.shape[1]
        is_causal = positions is None and (window is None or window >= length)
        if positions is None:
            positions, last = torch.arange(length, device=tokens.device), length - 1
        else:
            last = require_positions(positions, tokens)
        may_attend = None if is_causal else causal_mask(positions, positions, window)
        x = self.embed(tokens, positions, last)
        places = self.attention_positions.places(positions, self.config.turned_width)
        all_weights = []
        for block in self.blocks:
            x, weights = block(
                x, places, may_attend, is_causal=is_causal, return_weights=return_weights
            )
            all_weights.append(weights)
        logits = self.head(self.final_norm(x))
        return (logits, tuple(all_weights)) if return_weights else logits

    def embed(self, tokens: Tensor, positions: Tensor, last: int | None = None) -> Tensor:
        """Tokens and positions → (batch, position, d_model): what the first block reads."""
        x = self.token_embedding(tokens) * self.embedding_scale
        if self.position_embedding is not None:
            x = x + self.position_embedding(positions, last).to(x.dtype)
        return self.dropout(x)

    @property
    def attention_kernel(self) -> str:
        """What computes attention where no weights are asked for, one of KERNELS.

        "fused" is PyTorch's scaled_dot_product_attention, "explicit" the formula written out.
        Both give the same but for the last bits; which is faster depends on machine and sizes.
        """
        return self.blocks[0].attention.kernel

    @attention_kernel.setter
    def attention_kernel(self, kernel: str) -> None:
        if kernel not in KERNELS:
            raise CourseError(
                f"attention_kernel={kernel!r} is not known; use one of: {', '.join(KERNELS)}"
            )
        for block in self.blocks:
            block.attention.kernel = kernel


def _narrower(window: int | None, configured: int | None) -> int | None:
    if window is None:
        return configured
    require_positive("window", window)
    return window if configured is None else min(window, configured)


def require_tokens(tokens: Tensor) -> None:
    """Refuse what are not integers (batch, position)."""
    if tokens.ndim != 2 or tokens.dtype not in INTEGERS:
        raise CourseError(
            f"tokens have shape {tuple(tokens.shape)} and dtype {tokens.dtype}; "
            "give int64 or int32 of shape (batch, position)"
        )


def require_positions(positions: Tensor, tokens: Tensor) -> int:
    """The largest of positions that fit the tokens; others are refused."""
    batch, length = tokens.shape
    if (
        tuple(positions.shape) not in ((length,), (batch, length))
        or positions.dtype not in INTEGERS
    ):
        raise CourseError(
            f"positions have shape {tuple(positions.shape)} and dtype {positions.dtype}; give "
            f"int64 or int32 of shape ({length},) or ({batch}, {length}), as the tokens have"
        )
    return largest_position(positions)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside: dropout off, no gradients. Afterwards, also after an error, the mode as before."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def count_parameters(model: nn.Module) -> int:
    """Trained numbers in the model; a matrix that two layers share counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def initialise(model: nn.Module, config: GPTConfig) -> None:
    """Draw the weights so that a new model guesses evenly: the first loss is about ln(vocab_size).

    Biases are 0. Embeddings and, unless it says otherwise, matrices are N(0, 0.02²).
    "gpt2": the 2·n_layers matrices that write into the residual stream are divided by
    √(2·n_layers), so that its variance does not grow with depth (Radford et al. 2019, section 2.3).
    "xavier": linear layers but the head as Glorot & Bengio 2010.
    "zero_output": those that write into the stream are 0, so that each block starts by passing its
    input on (Zhang et al. 2019, arXiv 1901.09321), those that read from it N(0, 1/(4·d_model)). An
    untied head is 0 too, and its embeddings are then vectors of length 2 in the stream: with size 1
    in each dimension (length √d_model) training moves them too slowly.

    Where nothing has been added to a token's embedding yet, or a Post-LN block's norm blows what is
    left of it up to size 1, a tied head would expect each token to repeat: the last norm of a wide
    model starts smaller.
    """
    if config.initialisation == "zero_output" and not config.tied_head:
        embedding_std = 2 / math.sqrt(config.d_model) / model.embedding_scale
    else:
        embedding_std = 0.02
    for module in model.modules():
        if isinstance(module, nn.Linear):
            _initialise_matrix(module.weight, config, is_head=module is model.head)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=embedding_std)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention | FeedForward | SwiGLU):
            with torch.no_grad():
                if config.initialisation == "gpt2":
                    module.output.weight /= math.sqrt(2 * config.n_layers)
                elif config.initialisation == "zero_output":
                    module.output.weight.zero_()
    post = config.norm_placement == "post"
    if config.tied_head and (post or config.initialisation == "zero_output"):
        last_norm = _last_norm(model.blocks[-1], config) if post else model.final_norm
        # the token's own logit is then about 0.02 · d_model · size, at most 2
        nn.init.constant_(last_norm.weight, min(1, 100 / config.d_model))


def _last_norm(block: nn.Module, config: GPTConfig) -> nn.Module:
    return block.attention_norm if config.feed_forward == "none" else block.feed_forward_norm


def _initialise_matrix(weight: Tensor, config: GPTConfig, is_head: bool) -> None:
    if is_head and config.tied_head:
        nn.init.normal_(weight, std=0.02)
    elif is_head and config.initialisation == "zero_output":
        nn.init.zeros_(weight)
    elif config.initialisation == "zero_output":
        nn.init.normal_(weight, std=0.5 / math.sqrt(config.d_model))
    elif config.initialisation == "xavier" and not is_head:
        nn.init.xavier_uniform_(weight)
    else:
        nn.init.normal_(weight, std=0.02)
