"""The layers beside attention: normalisations and feed-forward layers. Lesson 08 builds them.

Each acts on every token alone: on the last axis of (batch, position, d_model).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from course_lib.model.config import GPTConfig
from course_lib.model.experts import MixtureOfExperts, Router


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
        if x.device.type == "cpu" and x.dtype.itemsize >= 4:
            return _RMSNormOnCPU.apply(x, self.weight, self.epsilon)
        return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


class _RMSNormOnCPU(torch.autograd.Function):
    """F.rms_norm in half the passes over memory: on a CPU PyTorch has no kernel of its own for it.

    With u = x / size and G = weight · gradient, the gradient of x is (G − u · mean(G · u)) / size:
    what would only make x longer has no effect, and is taken out.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        inverse_size = (length.square() / x.shape[-1] + epsilon).rsqrt()
        unit = x * inverse_size
        ctx.save_for_backward(unit, weight, inverse_size)
        return unit * weight

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        unit, weight, inverse_size = ctx.saved_tensors
        product = gradient * unit
        lengthening = (product @ weight)[..., None]  # Σ G · u
        towards_x = (gradient * weight).addcmul_(unit, lengthening, value=-1 / len(weight))
        return towards_x.mul_(inverse_size), product.flatten(0, -2).sum(dim=0), None


class _ReLUSquared(torch.autograd.Function):
    """max(x, 0)², whose gradient 2·max(x, 0) is at hand: fewer passes over the widest tensor."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        positive = F.relu(x)
        ctx.save_for_backward(positive)
        return positive * positive

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> Tensor:
        (positive,) = ctx.saved_tensors
        return (gradient * positive).mul_(2)


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, arXiv 2109.08668)."""
    return _ReLUSquared.apply(x)


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


class NoFeedForward(nn.Module):
    """In place of a feed-forward layer: adds nothing, so that a block is attention alone."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → zeros of the same shape."""
        return torch.zeros_like(x)


def make_norm(config: GPTConfig) -> nn.Module:
    """The normalisation that the configuration names."""
    if config.norm == "rms_norm":
        return RMSNorm(config.d_model)
    return LayerNorm(config.d_model, config.bias)


def make_feed_forward(config: GPTConfig) -> nn.Module:
    """The feed-forward layer that the configuration names, or a mixture of several."""
    if config.n_experts is None:
        return _make_expert(config)
    router = Router(
        config.d_model, config.n_experts, config.experts_per_token, config.capacity_factor
    )
    return MixtureOfExperts(router, [_make_expert(config) for _ in range(config.n_experts)])


def _make_expert(config: GPTConfig) -> nn.Module:
    if config.feed_forward == "none":
        return NoFeedForward()
    if config.feed_forward == "swiglu":
        return SwiGLU(config.d_model, config.hidden_width, config.bias)
    return FeedForward(config.d_model, config.hidden_width, config.feed_forward, config.bias)
