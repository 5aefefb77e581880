"""Latent attention: its formula, the same with W_UK and W_UV absorbed, and what a cache keeps."""

import json
import math

import pytest
import torch

from course_lib.data.corpora import DATA_FOLDER
from course_lib.model.attention import MultiHeadAttention, causal_mask
from course_lib.model.block import make_attention
from course_lib.model.config import GPTConfig
from course_lib.model.latent_attention import LatentAttention
from course_lib.model.positions import ALiBi, AttentionPositions, RotaryPositions
from course_lib.runtime import CourseError

D_MODEL, HEADS, D_HEAD, LATENT, ROTARY = 15, 3, 5, 7, 4


def layer(d_rotary: int = ROTARY, bias: bool = True, positions=None) -> LatentAttention:
    """One whose every weight matters."""
    torch.manual_seed(0)
    if positions is None:
        positions = RotaryPositions() if d_rotary else AttentionPositions()
    made = LatentAttention(
        D_MODEL, HEADS, LATENT, d_rotary=d_rotary, positions=positions, bias=bias
    )
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.normal_(mean=float("norm" in name), std=0.5)
    return made.eval()


def text(batch: int = 2, length: int = 11) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.randn(batch, length, D_MODEL, generator=torch.Generator().manual_seed(1))
    places = torch.arange(length)
    return x, places, causal_mask(places, places)


def turned(vector: torch.Tensor, position: int) -> torch.Tensor:
    """One vector's pairs (i, i + half), turned by position · 10000^(−2i/width)."""
    half = len(vector) // 2
    result = vector.clone()
    for i in range(half):
        angle = position * 10_000 ** (-2 * i / len(vector))
        a, b = vector[i], vector[i + half]
        result[i] = a * math.cos(angle) - b * math.sin(angle)
        result[i + half] = b * math.cos(angle) + a * math.sin(angle)
    return result


@pytest.mark.parametrize("bias", [True, False])
def test_by_loops_over_batch_heads_queries_and_keys(bias):
    """Equations 9–11 and 14–19 of arXiv 2405.04434, with a normalised latent."""
    made, (x, places, mask) = layer(bias=bias), text(length=5)
    output, weights = made(x, places, mask, return_weights=True)
    for row, tokens in enumerate(x):
        latents = []
        for token in tokens:
            latent = made.latent(token)
            size = (latent.square().mean() + 1e-5).sqrt()
            latents.append(latent / size * made.latent_norm.weight)
        for t, token in enumerate(tokens):
            brought = []
            for head in range(HEADS):
                query = made.query(token).view(HEADS, D_HEAD + ROTARY)[head]
                own = slice(head * D_HEAD, (head + 1) * D_HEAD)
                scores = []
                for s in range(t + 1):
                    content = query[:D_HEAD] @ (made.key.weight[own] @ latents[s])
                    place = turned(query[D_HEAD:], t) @ turned(made.rotary_key(tokens[s]), s)
                    scores.append((content + place) / math.sqrt(D_HEAD + ROTARY))
                shares = torch.stack(scores).softmax(dim=0)
                torch.testing.assert_close(
                    weights[row, head, t, : t + 1], shares, atol=1e-5, rtol=1e-5
                )
                mixed = sum(share * c for share, c in zip(shares, latents, strict=False))
                brought.append(made.value.weight[own] @ mixed)
            expected = made.output(torch.cat(brought))
            torch.testing.assert_close(output[row, t], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(made(x, places, mask)[0], output, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["rotary", "none", "alibi"])
def test_absorbed_equals_expanded(kind, bias):
    positions = {"rotary": None, "none": None, "alibi": ALiBi(HEADS)}[kind]
    made = layer(ROTARY if kind == "rotary" else 0, bias, positions)
    x, places, mask = text()
    expected, shown = made(x, places, mask, return_weights=True)
    prepared = made.positions.places(places, made.turned_width)
    latent, turned_key = made.compress(x, prepared)
    assert latent.shape == (2, 11, LATENT)
    assert turned_key is None if kind != "rotary" else turned_key.shape == (2, 11, ROTARY)
    output, weights = made.absorbed(x, latent, turned_key, prepared, mask, prepared.bias)
    torch.testing.assert_close(weights, shown, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert weights.std() > 0.1
    each = mask.expand(2, -1, -1)
    again, _ = made.absorbed(x, latent, turned_key, prepared, each, prepared.bias)
    torch.testing.assert_close(again, output)


def test_absorbed_reads_of_the_past_what_compress_kept_and_nothing_else():
    """Tokens one at a time: each is compressed when it comes, and not seen again."""
    made, (x, places, mask) = layer(), text()
    expected = made(x, places, mask)[0]
    latents, keys = [], []
    for t in range(x.shape[1]):
        now = made.positions.places(places[t : t + 1], ROTARY)
        latent, key = made.compress(x[:, t : t + 1], now)
        latents.append(latent)
        keys.append(key)
        output, _ = made.absorbed(
            x[:, t : t + 1], torch.cat(latents, dim=1), torch.cat(keys, dim=1), now
        )
        torch.testing.assert_close(output[:, 0], expected[:, t], atol=1e-5, rtol=1e-5)


def test_a_latent_as_wide_as_the_model_can_be_any_attention_without_turned_keys():
    """With W_DKV the identity and tokens of size 1, keys and values are those of MHA."""
    made = LatentAttention(D_MODEL, HEADS, D_MODEL, bias=False).eval()
    plain = MultiHeadAttention(D_MODEL, HEADS, bias=False).eval()
    with torch.no_grad():
        made.latent.weight.copy_(torch.eye(D_MODEL))
        for name in ("query", "key", "value", "output"):
            getattr(made, name).weight.copy_(getattr(plain, name).weight)
    x, places, mask = text()
    x = x / x.square().mean(dim=-1, keepdim=True).sqrt()
    torch.testing.assert_close(
        made(x, places, mask)[0], plain(x, places, mask)[0], atol=1e-4, rtol=1e-4
    )


def test_each_part_has_a_gradient():
    made, (x, places, mask) = layer(), text()
    made.train()(x, places, mask)[0].square().sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None and (parameter.grad != 0).any(), name


@pytest.mark.parametrize(
    ("d_rotary", "positions"), [(0, RotaryPositions()), (4, AttentionPositions()), (4, None)]
)
def test_a_turned_part_and_rotary_positions_go_together(d_rotary, positions):
    with pytest.raises(CourseError, match=f"d_rotary={d_rotary} and positions=.* do not go togeth"):
        LatentAttention(D_MODEL, HEADS, LATENT, d_rotary=d_rotary, positions=positions)


# ---- as the configuration describes it


def test_the_configuration_chooses_it():
    config = GPTConfig(vocab_size=5, d_model=24, n_heads=4, positions="rotary", d_latent=7)
    made = make_attention(config)
    assert type(made) is LatentAttention
    assert (made.d_latent, made.turned_width) == (7, 4)  # half of a head of 6, to the next pair
    assert config.cached_numbers == 11
    learned = GPTConfig(vocab_size=5, d_model=24, n_heads=4, d_latent=7)
    assert make_attention(learned).rotary_key is None and learned.cached_numbers == 7
    shared = GPTConfig(vocab_size=5, d_model=24, n_heads=4, n_kv_heads=2)
    assert type(make_attention(shared)) is MultiHeadAttention
    assert shared.cached_numbers == 24


def test_deepseek_v2_caches_what_its_paper_says():
    """Table 1 there: (d_c + d_h^R) · l ≈ 9/2 · d_h · l numbers a token: GQA of 2.25 groups."""
    config = GPTConfig(
        vocab_size=5,
        d_model=128 * 128,
        n_heads=128,
        n_layers=60,
        positions="rotary",
        d_latent=512,
    )
    assert config.turned_width == 64
    assert config.cached_numbers == 576 == 4.5 * 128 == 2 * 2.25 * 128


def test_the_shipped_models_are_those_from_before_there_were_latents():
    for name in ("shakespeare", "tang"):
        folder = DATA_FOLDER / "checkpoints" / name
        stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model"]
        assert "d_latent" not in stored
        assert GPTConfig.from_dict(stored).d_latent is None
