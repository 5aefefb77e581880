"""The encoder and the encoder–decoder against PyTorch's own layers, and what each may read."""

import pytest
import torch
from torch import nn

from course_lib.model.config import GPTConfig
from course_lib.model.encoder import Encoder, EncoderDecoder
from course_lib.model.gpt import GPT, count_parameters
from course_lib.runtime import CourseError

VOCABULARY, WIDTH, HEADS = 13, 12, 3
SCHEMES = ("none", "sinusoidal", "learned", "rotary", "alibi")


def config(**values) -> GPTConfig:
    shape = {"vocab_size": VOCABULARY, "context_length": 11, "n_layers": 2, "d_model": WIDTH}
    return GPTConfig(**(shape | {"n_heads": HEADS} | values))


def made(kind, **values):
    """A model whose every weight matters."""
    torch.manual_seed(0)
    model = kind(config(**values))
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, mean=float("norm" in name), std=0.4)
    return model.eval()


def tokens_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def changed_at(tokens: torch.Tensor, place: int) -> torch.Tensor:
    other = tokens.clone()
    other[:, place] = (other[:, place] + 1) % VOCABULARY
    return other


def fill_attention(theirs: nn.MultiheadAttention, ours) -> None:
    parts = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in parts]))
    theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in parts]))
    theirs.out_proj.weight.copy_(ours.output.weight)
    theirs.out_proj.bias.copy_(ours.output.bias)


def fill(theirs: nn.Module, ours: nn.Module) -> None:
    theirs.weight.copy_(ours.weight)
    theirs.bias.copy_(ours.bias)


# ---- oracles


@torch.no_grad()
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_the_encoder_is_pytorchs(placement):
    model, tokens = made(Encoder, norm_placement=placement), tokens_of(2, 7)
    x = model.token_embedding(tokens) + model.position_embedding.embedding.weight[:7]
    for block in model.blocks:
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=placement == "pre"
        ).eval()
        fill_attention(layer.self_attn, block.attention)
        fill(layer.linear1, block.feed_forward.hidden)
        fill(layer.linear2, block.feed_forward.output)
        fill(layer.norm1, block.attention_norm)
        fill(layer.norm2, block.feed_forward_norm)
        x = layer(x)
    expected = model.final_norm(x) @ model.token_embedding.weight.T
    torch.testing.assert_close(model(tokens), expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_the_decoder_is_pytorchs():
    model, source, target = made(EncoderDecoder), tokens_of(2, 7), tokens_of(2, 5, seed=1)
    memory, _ = model.encoder.read(source)
    x = model.encoder.embed(target, torch.arange(5))
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    for block in model.blocks:
        layer = nn.TransformerDecoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        ).eval()
        own = block.block
        fill_attention(layer.self_attn, own.attention)
        fill_attention(layer.multihead_attn, block.cross_attention)
        fill(layer.linear1, own.feed_forward.hidden)
        fill(layer.linear2, own.feed_forward.output)
        fill(layer.norm1, own.attention_norm)
        fill(layer.norm2, block.cross_norm)
        fill(layer.norm3, own.feed_forward_norm)
        x = layer(x, memory, tgt_mask=mask)
    expected = model.final_norm(x) @ model.encoder.token_embedding.weight.T
    torch.testing.assert_close(model(source, target), expected, atol=1e-4, rtol=1e-4)


# ---- laws


@torch.no_grad()
@pytest.mark.parametrize("positions", SCHEMES)
def test_every_token_of_an_encoder_reads_every_other(positions):
    model, tokens = made(Encoder, positions=positions), tokens_of(2, 7)
    logits = model(tokens)
    assert logits.shape == (2, 7, VOCABULARY)
    for place in (0, 3, 6):
        assert not torch.isclose(logits, model(changed_at(tokens, place))).all(dim=-1).any()


@torch.no_grad()
def test_without_positions_an_encoder_is_blind_to_order():
    tokens, order = tokens_of(2, 7), torch.randperm(7)
    blind = made(Encoder, positions="none")
    torch.testing.assert_close(blind(tokens)[:, order], blind(tokens[:, order]))
    for positions in SCHEMES[1:]:
        seeing = made(Encoder, positions=positions)
        assert not torch.allclose(seeing(tokens)[:, order], seeing(tokens[:, order]), atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("positions", SCHEMES)
def test_padding_changes_nothing(positions):
    model, tokens = made(Encoder, positions=positions), tokens_of(2, 7)
    places = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, -1, -1, -1]])
    padded = model(tokens, positions=places)
    torch.testing.assert_close(padded[0], model(tokens[:1])[0])
    torch.testing.assert_close(padded[1, :4], model(tokens[1:, :4])[0])
    assert padded.isfinite().all()
    both = made(EncoderDecoder, positions=positions)
    target = tokens_of(2, 5, seed=1)
    padded = both(tokens, target, source_positions=places)
    torch.testing.assert_close(padded[1], both(tokens[1:, :4], target[1:])[0])
    torch.testing.assert_close(padded[0], both(tokens[:1], target[:1])[0])


@torch.no_grad()
@pytest.mark.parametrize("positions", SCHEMES)
def test_a_target_token_reads_all_the_source_and_nothing_that_follows_it(positions):
    model = made(EncoderDecoder, positions=positions)
    source, target = tokens_of(2, 7), tokens_of(2, 5, seed=1)
    logits = model(source, target)
    assert logits.shape == (2, 5, VOCABULARY)
    later = model(source, changed_at(target, 3))
    torch.testing.assert_close(logits[:, :3], later[:, :3])
    assert not torch.isclose(logits[:, 3:], later[:, 3:]).all(dim=-1).any()
    for place in (0, 6):
        other = model(changed_at(source, place), target)
        assert not torch.isclose(logits, other).all(dim=-1).any()


@torch.no_grad()
@pytest.mark.parametrize("values", [{}, {"n_kv_heads": 1}, {"qk_norm": True}, {"bias": False}])
def test_asking_for_the_weights_changes_no_logit(values):
    encoder, tokens = made(Encoder, **values), tokens_of(2, 7)
    logits, weights = encoder(tokens, return_weights=True)
    torch.testing.assert_close(logits, encoder(tokens))
    assert [layer.shape for layer in weights] == [(2, HEADS, 7, 7)] * 2
    both, target = made(EncoderDecoder, **values), tokens_of(2, 5, seed=1)
    logits, weights = both(tokens, target, return_weights=True)
    torch.testing.assert_close(logits, both(tokens, target))
    assert [layer.shape for layer in weights] == [(2, HEADS, 5, 7)] * 2
    for layer in weights:
        torch.testing.assert_close(layer.sum(dim=-1), torch.ones(2, HEADS, 5))


@torch.no_grad()
def test_what_is_written_is_the_likeliest_token_each_time():
    model, source = made(EncoderDecoder), tokens_of(3, 7)
    written = model.write(source, start=1, length=4)
    assert written.shape == (3, 4) and written.dtype == source.dtype
    target = torch.cat([torch.ones(3, 1, dtype=torch.long), written], dim=1)
    assert torch.equal(model(source, target)[:, :4].argmax(dim=-1), written)


def test_the_first_loss_is_that_of_an_even_guess_and_every_parameter_learns():
    torch.manual_seed(0)
    model = EncoderDecoder(config(d_model=48))
    source, target = tokens_of(8, 7), tokens_of(8, 6, seed=1)
    logits = model(source, target[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
    assert loss.item() == pytest.approx(torch.tensor(float(VOCABULARY)).log().item(), rel=0.05)
    loss.backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None]
    assert idle == []


def test_an_encoder_has_the_parameters_of_a_gpt():
    assert count_parameters(Encoder(config())) == count_parameters(GPT(config()))


# ---- refusals


def test_refusals():
    with pytest.raises(CourseError, match="window=4 looks back, and an encoder looks both ways"):
        Encoder(config(window=4))
    with pytest.raises(CourseError, match="norm_placement='post' is not made for"):
        EncoderDecoder(config(norm_placement="post"))
    with pytest.raises(CourseError, match="length=0 must be a whole number of at least 1"):
        made(EncoderDecoder).write(tokens_of(1, 3), start=0, length=0)
    with pytest.raises(CourseError, match=r"give int64 or int32 of shape \(batch, position\)"):
        made(Encoder)(tokens_of(2, 7).float())
    with pytest.raises(CourseError, match=r"positions have shape \(3,\)"):
        made(Encoder)(tokens_of(2, 7), positions=torch.arange(3))
