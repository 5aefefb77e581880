"""Norms and feed-forward layers against PyTorch's own and against loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.model.config import GPTConfig
from course_lib.model.layers import (
    FeedForward,
    LayerNorm,
    NoFeedForward,
    RMSNorm,
    SwiGLU,
    make_feed_forward,
    make_norm,
    relu_squared,
)

D_MODEL, D_FF = 7, 11


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def randomise(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def test_layer_norm_equals_pytorchs_and_a_loop():
    x, norm = torch.randn(2, 3, D_MODEL) * 5 + 2, randomise(LayerNorm(D_MODEL))
    expected = F.layer_norm(x, (D_MODEL,), norm.weight, norm.bias, 1e-5)
    torch.testing.assert_close(norm(x), expected)
    row = x[1, 2].tolist()
    mean = sum(row) / D_MODEL
    variance = sum((value - mean) ** 2 for value in row) / D_MODEL
    for i, value in enumerate(row):
        by_hand = (value - mean) / math.sqrt(variance + 1e-5) * norm.weight[i] + norm.bias[i]
        torch.testing.assert_close(norm(x)[1, 2, i], by_hand)


def test_layer_norm_without_bias():
    norm = LayerNorm(D_MODEL, bias=False)
    assert norm.bias is None
    x = torch.randn(3, D_MODEL)
    torch.testing.assert_close(norm(x), F.layer_norm(x, (D_MODEL,), eps=1e-5))


def test_rms_norm_equals_pytorchs_and_a_loop():
    x, norm = torch.randn(2, 3, D_MODEL) * 5 + 2, randomise(RMSNorm(D_MODEL))
    theirs = nn.RMSNorm(D_MODEL, eps=1e-5)
    theirs.load_state_dict(norm.state_dict())
    torch.testing.assert_close(norm(x), theirs(x))
    row = x[1, 2].tolist()
    mean_square = sum(value**2 for value in row) / D_MODEL
    for i, value in enumerate(row):
        by_hand = value / math.sqrt(mean_square + 1e-5) * norm.weight[i]
        torch.testing.assert_close(norm(x)[1, 2, i], by_hand)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_rms_norm_and_its_gradients_equal_pytorchs(dtype):
    norm = randomise(RMSNorm(D_MODEL)).to(dtype)
    start, weighing = (torch.randn(2, 3, D_MODEL) * 5 + 2).to(dtype), torch.randn(2, 3, D_MODEL)
    results = []
    for function in (norm, lambda x: F.rms_norm(x, (D_MODEL,), norm.weight, 1e-5)):
        x = start.clone().requires_grad_()
        y = function(x)
        gradients = torch.autograd.grad((y.float() * weighing).sum(), [x, norm.weight])
        results.append((y, *gradients))
    for ours, theirs in zip(*results, strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(
            ours,
            theirs,
            rtol=None if dtype.itemsize > 2 else 2e-2,
            atol=None if dtype.itemsize > 2 else 1e-2,
        )


def test_gradients_written_by_hand():
    x = torch.randn(2, 3, D_MODEL, dtype=torch.double, requires_grad=True)
    norm = randomise(RMSNorm(D_MODEL)).double()
    assert torch.autograd.gradcheck(lambda x, weight: norm(x), (x, norm.weight))
    assert torch.autograd.gradcheck(relu_squared, x)


def test_a_row_of_zeros_is_normalised_to_zeros_with_a_finite_gradient():
    norm, x = RMSNorm(D_MODEL), torch.zeros(2, D_MODEL, requires_grad=True)
    assert (norm(x) == 0).all()
    (gradient,) = torch.autograd.grad(norm(x).sum(), x)
    torch.testing.assert_close(gradient, torch.full_like(x, 1e-5**-0.5))


def test_norms_ignore_the_scale_and_only_layer_norm_the_mean():
    x = torch.randn(5, D_MODEL)
    for norm in (LayerNorm(D_MODEL), RMSNorm(D_MODEL)):
        torch.testing.assert_close(norm(1000 * x), norm(100 * x), atol=1e-5, rtol=0)
    torch.testing.assert_close(LayerNorm(D_MODEL)(x + 3), LayerNorm(D_MODEL)(x))
    assert not torch.allclose(RMSNorm(D_MODEL)(x + 3), RMSNorm(D_MODEL)(x), atol=0.1)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("relu", nn.ReLU()),
        ("gelu", nn.GELU()),
        ("relu_squared", lambda x: x * x * (x > 0)),
    ],
)
def test_feed_forward_equals_its_formula(name, theirs):
    layer, x = FeedForward(D_MODEL, D_FF, name), torch.randn(2, 3, D_MODEL)
    hidden = x @ layer.hidden.weight.T + layer.hidden.bias
    expected = theirs(hidden) @ layer.output.weight.T + layer.output.bias
    torch.testing.assert_close(layer(x), expected)


def test_gelu_is_the_exact_one():
    x = torch.linspace(-4, 4, 101)
    exact = torch.tensor([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x.tolist()])
    layer = FeedForward(1, 1)
    torch.testing.assert_close(layer.activation(x), exact)


def test_relu_squared_by_hand():
    assert relu_squared(torch.tensor([-3.0, 0.0, 2.0])).tolist() == [0.0, 0.0, 4.0]


def test_swiglu_equals_its_formula():
    layer, x = SwiGLU(D_MODEL, D_FF), torch.randn(2, 3, D_MODEL)
    gate = x @ layer.gate.weight.T + layer.gate.bias
    hidden = x @ layer.hidden.weight.T + layer.hidden.bias
    swish = gate / (1 + (-gate).exp())  # SiLU: x · sigmoid(x)
    expected = (swish * hidden) @ layer.output.weight.T + layer.output.bias
    torch.testing.assert_close(layer(x), expected)


def test_each_token_is_transformed_alone():
    x = torch.randn(2, 5, D_MODEL)
    for layer in (LayerNorm(D_MODEL), RMSNorm(D_MODEL), FeedForward(D_MODEL, D_FF)):
        torch.testing.assert_close(layer(x)[:, 3], layer(x[:, 3]))


def test_none_adds_nothing():
    layer = make_feed_forward(GPTConfig(vocab_size=3, d_model=24, feed_forward="none"))
    assert type(layer) is NoFeedForward and not list(layer.parameters())
    assert torch.equal(layer(torch.full((2, 5, 24), math.inf)), torch.zeros(2, 5, 24))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("feed_forward", ["relu", "gelu", "relu_squared", "swiglu"])
def test_the_configuration_chooses(feed_forward, bias):
    config = GPTConfig(vocab_size=3, d_model=24, feed_forward=feed_forward, bias=bias)
    layer = make_feed_forward(config)
    assert type(layer) is (SwiGLU if feed_forward == "swiglu" else FeedForward)
    assert layer.hidden.out_features == (64 if feed_forward == "swiglu" else 96)
    assert all((part.bias is not None) == bias for part in layer.children())
    # SwiGLU's third matrix leaves the number of weights as it was
    assert sum(p.numel() for p in layer.parameters() if p.ndim == 2) == 2 * 24 * 96
    assert type(make_norm(config)) is LayerNorm
    assert (make_norm(config).bias is not None) == bias
    rms = GPTConfig(vocab_size=3, norm="rms_norm")
    assert type(make_norm(rms)) is RMSNorm
