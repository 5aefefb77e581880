"""When a copy of a model may stand for it: when it knows all layers, and while no weight changes.

A cached model computes with copies (step.py). It must never differ from the model in silence.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from course_lib.model.attention import MultiHeadAttention
from course_lib.model.block import PostNormBlock, PreNormBlock
from course_lib.model.experts import MixtureOfExperts, Router
from course_lib.model.gpt import GPT
from course_lib.model.latent_attention import LatentAttention
from course_lib.model.layers import FeedForward, LayerNorm, NoFeedForward, RMSNorm, SwiGLU
from course_lib.model.positions import (
    ALiBi,
    AttentionPositions,
    LearnedPositions,
    RotaryPositions,
    SinusoidalPositions,
)

KNOWN = (
    GPT, PreNormBlock, PostNormBlock, MultiHeadAttention, LatentAttention, FeedForward, SwiGLU,
    NoFeedForward,
    LayerNorm, RMSNorm,
    SinusoidalPositions, LearnedPositions, AttentionPositions, RotaryPositions, ALiBi,
    MixtureOfExperts, Router,
    nn.ModuleList, nn.Linear, nn.Embedding, nn.Dropout, nn.Identity,
)  # fmt: skip


def why_not_cached(model: nn.Module) -> str | None:
    """Why CachedGPT would not compute what the model does, or None if it would.

    It knows the course's own layers. One that was replaced, patched or hooked would be passed by.
    """
    for name, module in model.named_modules():
        what = f"its {name}" if name else "it"
        if type(module) not in KNOWN:
            return f"{what} is a {type(module).__name__}"
        if "forward" in vars(module):
            return f"{what} has a forward of its own"
        if module._forward_hooks or module._forward_pre_hooks:
            return f"{what} has a hook"
    return None


class Watch:
    """Whether a model's weights are still those of when the watch began.

    Asked at each token, so it is cheap rather than complete. A change in place counts up a tensor's
    _version, but not one by a fused optimiser: that moves every row of the head, for the score of
    each token has a gradient.
    """

    def __init__(self, model: GPT) -> None:
        self.model = model
        self.weights = [weight for weight in model.parameters() if not weight.is_inference()]
        self.then = self._fingerprint()
        self.row = _as_bytes(model.head.weight[0])  # shares its memory with the model
        self.row_then = self.row.clone()

    def changed(self) -> bool:
        """True after training, loading, converting or editing the model."""
        return not torch.equal(self.row, self.row_then) or self._fingerprint() != self.then

    def _fingerprint(self) -> tuple:
        weight = self.model.token_embedding.weight
        return id(weight), weight.data_ptr(), [watched._version for watched in self.weights]


def _as_bytes(weights: Tensor) -> Tensor:
    """The same memory as whole numbers, among which NaN is equal to itself."""
    return weights.detach().view(torch.uint8)
