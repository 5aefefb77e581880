"""The layers beside attention: normalisations and feed-forward layers. Lesson 08 builds them.

Each acts on every token alone: on the last axis of (batch, position, d_model).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.model.config import GPTConfig


class LayerNorm(nn.Module):
    """(x − mean) / √(variance + ε) · weight + bias, over d_model. Ba et al. 2016, arXiv 1607.06450.

    The variance is the mean squared deviation: divided by d_model, not by d_model − 1.
    """

    def __init__(self, d_model: int, bias: bool = True, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → (..., d_model), by PyTorch's fused kernel."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class RMSNorm(nn.Module):
    """x / √(mean of x² + ε) · weight: LayerNorm without mean and bias. Zhang & Sennrich 2019,
    arXiv 1910.07467.
    """

    def __init__(self, d_model: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → (..., d_model)."""
        return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, arXiv 2109.08668)."""
    return F.relu(x).square()


ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "relu_squared": relu_squared}


class FeedForward(nn.Module):
    """Widen, bend, narrow: output(activation(hidden(x))), for each token alone.

    Vaswani et al. 2017, section 3.3, where the activation is ReLU; GELU: arXiv 1606.08415.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: str = "gelu", bias: bool = True
    ) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_model, d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → (..., d_model)."""
        return self.output(self.activation(self.hidden(x)))


class SwiGLU(nn.Module):
    """A feed-forward layer with a gate: output(silu(gate(x)) · hidden(x)). Shazeer 2020,
    arXiv 2002.05202.
    """

    def __init__(self, d_model: int, d_ff: int, bias: bool = True) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=bias)
        self.hidden = nn.Linear(d_model, d_ff, bias=bias)
        self.output = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → (..., d_model)."""
        return self.output(F.silu(self.gate(x)) * self.hidden(x))


def make_norm(config: GPTConfig) -> nn.Module:
    """The normalisation that the configuration names."""
    if config.norm == "rms_norm":
        return RMSNorm(config.d_model)
    return LayerNorm(config.d_model, config.bias)


def make_feed_forward(config: GPTConfig) -> nn.Module:
    """The feed-forward layer that the configuration names."""
    if config.feed_forward == "swiglu":
        return SwiGLU(config.d_model, config.hidden_width, config.bias)
    return FeedForward(config.d_model, config.hidden_width, config.feed_forward, config.bias)
