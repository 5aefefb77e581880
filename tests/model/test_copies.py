"""Each copy against its layer."""

import pytest
import torch
from torch import nn

from course_lib.model.copies import copied, feed_forward_step, norm_step, unit_norm
from course_lib.model.layers import FeedForward, LayerNorm, NoFeedForward, RMSNorm, SwiGLU

LAYERS = {
    "relu": lambda: FeedForward(7, 11, "relu"),
    "gelu": lambda: FeedForward(7, 11, "gelu"),
    "gelu without bias": lambda: FeedForward(7, 11, "gelu", bias=False),
    "relu squared": lambda: FeedForward(7, 11, "relu_squared"),
    "swiglu": lambda: SwiGLU(7, 11),
    "no feed-forward": NoFeedForward,
    "layer norm": lambda: LayerNorm(7),
    "layer norm without bias": lambda: LayerNorm(7, bias=False),
    "rms norm": lambda: RMSNorm(7),
    "rms norm, large epsilon": lambda: RMSNorm(7, epsilon=3.0),
    "linear": lambda: nn.Linear(7, 5),
    "identity": nn.Identity,
}


def step_of(layer: nn.Module):
    if isinstance(layer, FeedForward | SwiGLU | NoFeedForward):
        return feed_forward_step(layer)
    return copied(layer) if isinstance(layer, nn.Linear) else norm_step(layer)


def layer_of(name: str) -> nn.Module:
    torch.manual_seed(0)
    layer = LAYERS[name]()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-5), (torch.bfloat16, 0.02)]
)
def test_a_copy_gives_what_its_layer_gives(name, dtype, tolerance):
    layer = layer_of(name).to(dtype)
    x = 3 * torch.randn(5, 7, generator=torch.Generator().manual_seed(1)).to(dtype)
    with torch.no_grad():
        got, expected = step_of(layer)(x), layer(x)
    assert got.dtype == dtype
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance * expected.abs().max())


@pytest.mark.parametrize(
    "name", [name for name in LAYERS if name not in ("identity", "no feed-forward")]
)
def test_a_copy_keeps_the_weights_of_when_it_was_made(name):
    layer, x = layer_of(name), torch.ones(2, 7) + torch.arange(7)
    step = step_of(layer)
    before = step(x)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(1)
    assert torch.equal(step(x), before)
    assert not torch.allclose(layer(x), before)


def test_large_and_small_numbers_are_normalised():
    for size in (0.0, 1e-12, 1e-3, 1e6, 1e18):
        x = size * torch.tensor([[3.0, -4.0]])
        expected = RMSNorm(2)(x) / 2**0.5
        torch.testing.assert_close(unit_norm(x, 1e-5), expected.detach())
