"""Copies of a GPT's layers for few tokens at a time: the same formulas, laid out for speed.

So little is to be computed that the time goes into fetching matrices and starting operators. So
matrices lie in the order in which a product with few rows reads them, and constant factors are
multiplied in beforehand. A copy stays as it was when the model is trained further (snapshot.py).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.model.experts import MixtureOfExperts, mix
from course_lib.model.layers import FeedForward, LayerNorm, NoFeedForward, RMSNorm, SwiGLU

Step = Callable[[Tensor], Tensor]  # (token, d_in) → (token, d_out)


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


def feed_forward_step(layer: FeedForward | SwiGLU | NoFeedForward | MixtureOfExperts) -> Step:
    """A feed-forward layer, or several with their router, with copies of their matrices."""
    if isinstance(layer, NoFeedForward):
        return layer
    if isinstance(layer, MixtureOfExperts):
        router = copy.deepcopy(layer.router).eval()  # in generation there is room for all
        experts = [feed_forward_step(expert) for expert in layer.experts]
        return lambda x: mix(x, router(x), experts)
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
