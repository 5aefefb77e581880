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

from course_lib.model.attention import MultiHeadAttention, causal_mask
from course_lib.model.block import make_block
from course_lib.model.config import GPTConfig
from course_lib.model.layers import FeedForward, SwiGLU, make_norm
from course_lib.model.positions import embedding_positions
from course_lib.runtime import CourseError


class GPT(nn.Module):
    """A character or token model built from its configuration alone."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position_embedding = embedding_positions(config)
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
        window: int | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, tuple[Tensor, ...]]:
        """Logits (batch, position, vocab_size): at each position, a score for every next token.

        With return_weights also each layer's attention weights (batch, head, query, key), from
        this very pass. A window lets every token see only the last `window` ones.
        """
        if tokens.ndim != 2 or tokens.dtype not in (torch.int32, torch.int64):
            raise CourseError(
                f"tokens have shape {tuple(tokens.shape)} and dtype {tokens.dtype}; "
                "give int64 or int32 of shape (batch, position)"
            )
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        may_attend = causal_mask(positions, positions, window)
        x = self.token_embedding(tokens) * self.embedding_scale
        if self.position_embedding is not None:
            x = x + self.position_embedding(positions).to(x.dtype)
        x = self.dropout(x)
        all_weights = []
        for block in self.blocks:
            x, weights = block(x, positions, may_attend, return_weights=return_weights)
            all_weights.append(weights)
        logits = self.head(self.final_norm(x))
        return (logits, tuple(all_weights)) if return_weights else logits


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


def initialise(model: GPT, config: GPTConfig) -> None:
    """Draw the weights so that a new model guesses evenly: the first loss is about ln(vocab_size).

    "gpt2": matrices and embeddings N(0, 0.02²), biases 0, and the 2·n_layers matrices that write
    into the residual stream divided by √(2·n_layers), so that its variance does not grow with
    depth (Radford et al. 2019, section 2.3). "xavier": linear layers but the head as Glorot &
    Bengio 2010.

    A Post-LN model ends in a norm, which blows what is left of a token's embedding up to size 1: a
    tied head would expect each token to repeat. The last norm of a wide one starts smaller.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            if config.initialisation == "xavier" and module is not model.head:
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
    if config.initialisation == "gpt2":
        for module in model.modules():
            if isinstance(module, MultiHeadAttention | FeedForward | SwiGLU):
                with torch.no_grad():
                    module.output.weight /= math.sqrt(2 * config.n_layers)
    if config.tied_head and config.norm_placement == "post":
        # the token's own logit is then about 0.02 · d_model · size, at most 2
        nn.init.constant_(model.blocks[-1].feed_forward_norm.weight, min(1, 100 / config.d_model))
