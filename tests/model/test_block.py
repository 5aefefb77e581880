"""The block, written out a second time as its formula."""

import pytest
import torch

from course_lib.model.attention import MultiHeadAttention, causal_mask
from course_lib.model.block import PostNormBlock, PreNormBlock, make_block
from course_lib.model.config import GPTConfig
from course_lib.model.layers import LayerNorm, RMSNorm, SwiGLU
from course_lib.model.positions import ALiBi

CONFIG = GPTConfig(vocab_size=5, d_model=14, n_heads=7, d_ff=11)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def parts():
    x, positions = torch.randn(2, 5, 14), torch.arange(5)
    return x, positions, causal_mask(positions, positions)


def block_of(placement: str, **values):
    config = GPTConfig(**{**CONFIG.to_dict(), "norm_placement": placement, **values})
    block = make_block(config)
    with torch.no_grad():  # norms that do something, so that their order shows
        for parameter in block.parameters():
            parameter.normal_(std=0.7)
    return block


def test_pre_norm_is_x_plus_f_of_norm_x():
    block, (x, positions, mask) = block_of("pre"), parts()
    assert type(block) is PreNormBlock
    after = x + block.attention(block.attention_norm(x), positions, mask)[0]
    expected = after + block.feed_forward(block.feed_forward_norm(after))
    torch.testing.assert_close(block(x, positions, mask)[0], expected)


def test_post_norm_is_norm_of_x_plus_f_of_x():
    block, (x, positions, mask) = block_of("post"), parts()
    assert type(block) is PostNormBlock
    after = block.attention_norm(x + block.attention(x, positions, mask)[0])
    expected = block.feed_forward_norm(after + block.feed_forward(after))
    torch.testing.assert_close(block(x, positions, mask)[0], expected)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_without_feed_forward_a_block_is_its_first_half(placement):
    whole, (x, positions, mask) = block_of(placement), parts()
    half = block_of(placement, feed_forward="none", d_ff=None)
    names = [name for name, _ in half.named_parameters()]
    assert all(name.startswith("attention") for name in names)  # no second norm that idles
    half.load_state_dict({name: whole.state_dict()[name] for name in names})
    if placement == "pre":
        expected = x + whole.attention(whole.attention_norm(x), positions, mask)[0]
    else:
        expected = whole.attention_norm(x + whole.attention(x, positions, mask)[0])
    torch.testing.assert_close(half(x, positions, mask)[0], expected)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_weights_come_from_the_blocks_attention(placement):
    block, (x, positions, mask) = block_of(placement), parts()
    read = block.attention_norm(x) if placement == "pre" else x
    expected = block.attention(read, positions, mask, return_weights=True)[1]
    output, weights = block(x, positions, mask, return_weights=True)
    torch.testing.assert_close(weights, expected)
    plain, nothing = block(x, positions, mask)
    assert nothing is None
    torch.testing.assert_close(output, plain)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_block_hands_on_that_the_mask_is_causal(placement, return_weights):
    block, (x, positions, mask) = block_of(placement, positions="rotary"), parts()
    expected, _ = block(x, positions, mask)
    output, _ = block(x, positions, is_causal=True, return_weights=return_weights)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(block(x, positions)[0], expected, atol=1e-3)


def test_a_pre_norm_block_of_zeros_passes_its_input_on():
    block, (x, positions, mask) = make_block(CONFIG), parts()
    for layer in (block.attention.output, block.feed_forward.output):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    assert torch.equal(block(x, positions, mask)[0], x)


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("silent", ["attention", "feed_forward"])
def test_dropout_acts_on_what_each_half_writes(placement, silent):
    """With one half writing zeros and no dropout inside attention, what varies is the other's."""
    block, (x, positions, mask) = block_of(placement, dropout=0.5), parts()
    block.train()
    block.attention.dropout = 0.0
    for parameter in getattr(block, silent).output.parameters():
        torch.nn.init.zeros_(parameter)
    first, second = block(x, positions, mask)[0], block(x, positions, mask)[0]
    assert not torch.equal(first, second)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_dropout_acts_in_training_only(placement):
    block, (x, positions, mask) = block_of(placement, dropout=0.5), parts()
    plain = block_of(placement)
    plain.load_state_dict(block.state_dict())
    block.eval()
    torch.testing.assert_close(block(x, positions, mask)[0], plain(x, positions, mask)[0])
    block.train()
    first, second = block(x, positions, mask)[0], block(x, positions, mask)[0]
    assert not torch.equal(first, second)


def test_the_configuration_reaches_every_part():
    block = make_block(
        GPTConfig(
            vocab_size=5,
            d_model=24,
            n_heads=6,
            n_kv_heads=2,
            positions="alibi",
            norm="rms_norm",
            feed_forward="swiglu",
            bias=False,
            dropout=0.25,
            qk_norm=True,
        )
    )
    attention = block.attention
    assert type(attention) is MultiHeadAttention
    assert (attention.n_heads, attention.n_kv_heads, attention.d_head) == (6, 2, 4)
    assert (attention.dropout, block.dropout.p) == (0.25, 0.25)
    assert type(attention.positions) is ALiBi
    assert attention.positions.n_heads == 6
    assert type(attention.query_norm) is type(attention.key_norm) is RMSNorm
    assert attention.query_norm.weight.shape == (4,)
    assert type(block.attention_norm) is type(block.feed_forward_norm) is RMSNorm
    assert type(block.feed_forward) is SwiGLU
    assert not [name for name, _ in block.named_parameters() if name.endswith("bias")]
    assert type(make_block(CONFIG).attention_norm) is LayerNorm
