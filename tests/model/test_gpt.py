"""The whole model: its size, its first loss, its causality, over many configurations."""

import dataclasses
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from course_lib.model.attention import KERNELS, MultiHeadAttention, causal_mask
from course_lib.model.config import CHOICES, GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.model.layers import FeedForward, SwiGLU
from course_lib.runtime import CourseError


@st.composite
def configurations(draw, **fixed) -> GPTConfig:
    """Any small GPT: every field, grouped heads, odd heads where they are allowed."""
    choices = {name: draw(st.sampled_from(allowed)) for name, allowed in CHOICES.items()}
    factor = 1.0
    if choices["positions"] != "rotary":
        choices["rotary_scaling"] = "none"
    elif choices["rotary_scaling"] != "none":
        factor = draw(st.floats(1.0, 13.0))
    d_latent = draw(st.sampled_from([None, None, 5, 8]))
    experts = {"n_experts": None, "experts_per_token": 2, "capacity_factor": None}
    if choices["feed_forward"] != "none" and draw(st.booleans()):
        n_experts, k = draw(st.sampled_from([(1, 1), (2, 1), (3, 2), (5, 1), (5, 3)]))
        experts = {"n_experts": n_experts, "experts_per_token": k}
        # holds in training alone, so that no law here knows of it
        experts["capacity_factor"] = draw(st.sampled_from([None, 0.5]))
    n_kv_heads, group = draw(st.sampled_from([(1, 1), (2, 1), (2, 2), (1, 3), (3, 1)]))
    d_rotary = None
    if d_latent and choices["positions"] == "rotary":
        d_rotary = draw(st.sampled_from([6, None] if choices["rotary_scaling"] != "ntk" else [6]))
    even = choices["positions"] in ("rotary", "sinusoidal")
    d_head = draw(st.sampled_from([4, 6, 10] if even else [4, 5, 7, 10]))
    values = {
        **choices,
        **experts,
        "balance_weight": 0.01,
        "vocab_size": draw(st.sampled_from([11, 29, 65])),
        "context_length": 13,
        "n_layers": draw(st.integers(1, 3)),
        "n_heads": n_kv_heads * group,
        "n_kv_heads": n_kv_heads if d_latent is None else None,
        "d_latent": min(d_latent, n_kv_heads * group * d_head) if d_latent else None,
        "d_rotary": d_rotary,
        "d_model": n_kv_heads * group * d_head,
        "d_ff": None if choices["feed_forward"] == "none" else draw(st.sampled_from([None, 17])),
        "rotary_base": draw(st.sampled_from([500.0, 10_000.0])),
        "rotary_factor": factor,
        "rotary_ramp": draw(st.sampled_from([(1.0, 32.0), (0.5, 1.5)])),
        "window": draw(st.sampled_from([None, 1, 5, 13])),
        "qk_norm": d_latent is None and draw(st.booleans()),
        "bias": draw(st.booleans()),
        "dropout": draw(st.sampled_from([0.0, 0.3])),
        "tied_head": draw(st.booleans()),
    }
    assert set(values) == {field.name for field in dataclasses.fields(GPTConfig)}
    return GPTConfig(**{**values, **fixed})


def any_configuration(examples: int = 40, **fixed):
    """The test for many configurations, the same at each run."""

    def decorate(test):
        chosen = settings(deadline=None, max_examples=examples, database=None, derandomize=True)
        return chosen(given(configurations(**fixed))(test))

    return decorate


def gpt(seed: int = 0, **values) -> GPT:
    torch.manual_seed(seed)
    return GPT(
        GPTConfig(**{"vocab_size": 11, "context_length": 13, "d_model": 30, "n_heads": 3, **values})
    )


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    """Equal to 1e-5 of the largest logit: sums in another order differ that much in float32."""
    largest = max(1.0, theirs.abs().max().item())
    torch.testing.assert_close(ours, theirs, atol=1e-5 * largest, rtol=0)


def shaken(model: GPT) -> GPT:
    """Weights large enough that every part of the model shows in its output."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=float("norm" in name), std=0.4)
    return model.eval()


# ---- size


def test_gpt2_small_has_its_parameters():
    config = GPTConfig(
        vocab_size=50_257, context_length=1_024, n_layers=12, d_model=768, n_heads=12
    )
    with torch.device("meta"):
        assert count_parameters(GPT(config)) == 124_439_808


def test_gpt3_has_its_parameters():
    config = GPTConfig(
        vocab_size=50_257, context_length=2_048, n_layers=96, d_model=12_288, n_heads=96
    )
    with torch.device("meta"):
        assert count_parameters(GPT(config)) == 174_604_259_328


def test_the_size_by_formula():
    V, T, L, d, f, heads, kv = 11, 13, 3, 28, 37, 7, 7
    model = gpt(n_layers=L, d_model=d, n_heads=heads, d_ff=f, tied_head=False)
    attention = 4 * d * d + 4 * d
    feed_forward = 2 * d * f + f + d
    expected = 2 * V * d + T * d + L * (attention + feed_forward + 4 * d) + 2 * d
    assert count_parameters(model) == expected
    tied = gpt(n_layers=L, d_model=d, n_heads=heads, d_ff=f)
    assert count_parameters(tied) == expected - V * d
    shared = gpt(n_layers=L, d_model=d, n_heads=heads, n_kv_heads=1, d_ff=f)
    d_head = d // heads
    saved = 2 * (kv - 1) * d_head * (d + 1)
    assert count_parameters(shared) == expected - V * d - L * saved


# ---- oracle: the pass written out


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_the_forward_pass_written_out(placement, positions):
    model = shaken(gpt(n_layers=2, norm_placement=placement, positions=positions))
    tokens, places = torch.randint(11, (3, 7)), torch.arange(7)
    x = model.token_embedding.weight[tokens]
    if positions == "learned":
        x = x + model.position_embedding.embedding.weight[:7]
    if positions == "sinusoidal":  # section 3.4 of the paper: the embedding times √d_model
        x = x * math.sqrt(30) + model.position_embedding(places)
    all_weights = []
    for block in model.blocks:
        x, weights = block(x, places, causal_mask(places, places), return_weights=True)
        all_weights.append(weights)
    if placement == "pre":
        x = F.layer_norm(x, (30,), model.final_norm.weight, model.final_norm.bias)
    expected = x @ model.token_embedding.weight.T
    torch.testing.assert_close(model(tokens), expected, atol=1e-4, rtol=1e-5)
    logits, weights = model(tokens, return_weights=True)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-5)
    assert len(weights) == 2
    for ours, theirs in zip(weights, all_weights, strict=True):
        assert ours.shape == (3, 3, 7, 7)
        torch.testing.assert_close(ours, theirs)


# ---- laws


@settings(deadline=None, max_examples=60, database=None, derandomize=True)
@given(configurations(), st.integers(0, 12), st.integers(1, 10), st.booleans())
def test_changing_a_token_changes_nothing_before_it(config, changed, step, return_weights):
    torch.manual_seed(0)
    model = shaken(GPT(config))
    tokens = torch.randint(config.vocab_size, (2, 13))
    other = tokens.clone()
    other[:, changed] = (other[:, changed] + step) % config.vocab_size
    before, after = (model(t, return_weights=return_weights) for t in (tokens, other))
    if return_weights:
        before, after = before[0], after[0]
    assert before.shape == (2, 13, config.vocab_size)
    torch.testing.assert_close(before[:, :changed], after[:, :changed], atol=1e-5, rtol=1e-5)
    assert not torch.equal(before[:, changed], after[:, changed])


@any_configuration()
def test_the_weights_shown_are_those_of_the_pass_and_both_kernels_agree(config):
    torch.manual_seed(0)
    model = shaken(GPT(config))
    tokens = torch.randint(config.vocab_size, (2, 13))
    fused = model(tokens)
    shown, weights = model(tokens, return_weights=True)
    model.attention_kernel = "explicit"
    assert torch.equal(model(tokens), shown)
    assert_same(fused, shown)
    window = config.window or 13
    for layer in weights:
        assert layer.shape == (2, config.n_heads, 13, 13)
        torch.testing.assert_close(layer.sum(dim=-1), torch.ones(2, config.n_heads, 13))
        assert (layer.triu(1) == 0).all() and (layer.tril(-window) == 0).all()


@any_configuration()
def test_a_left_padded_prompt_reads_as_without_padding(config):
    """Row 0 has three tokens of padding, row 1 none, row 2 nothing else."""
    torch.manual_seed(0)
    model = shaken(GPT(config))
    tokens = torch.randint(config.vocab_size, (3, 13))
    positions = torch.stack([torch.arange(-3, 10).clamp(min=-1), torch.arange(13)])
    positions = torch.cat([positions, torch.full((1, 13), -1)])
    for kernel in KERNELS:
        model.attention_kernel = kernel
        logits, weights = model(tokens, positions=positions, return_weights=True)
        assert logits.isfinite().all()
        assert_same(model(tokens, positions=positions), logits)
        assert_same(logits[0, 3:], model(tokens[:1, 3:])[0])
        assert_same(logits[1], model(tokens[1:2])[0])
        for layer in weights:
            assert (layer[0, :, :3] == 0).all() and (layer[0, :, :, :3] == 0).all()
            assert (layer[2] == 0).all()


@any_configuration(tied_head=False, vocab_size=29)
def test_padding_has_no_gradient(config):
    torch.manual_seed(0)
    model = shaken(GPT(config))
    tokens = torch.randint(28, (2, 13))
    tokens[0, :3] = 28  # nowhere else
    positions = torch.stack([torch.arange(-3, 10).clamp(min=-1), torch.arange(13)])
    for kernel in KERNELS:
        model.attention_kernel = kernel
        model.zero_grad()
        logits = model(tokens, positions=positions)
        logits.log_softmax(dim=-1)[positions >= 0].square().mean().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        gradient = model.token_embedding.weight.grad
        assert (gradient[28] == 0).all()
        assert (gradient[tokens[1]] != 0).any()


@any_configuration(examples=60)
def test_the_first_loss_is_that_of_guessing(config):
    """After the last norm the stream has the length √d_model, whatever was before.

    A head of N(0, 0.02²) makes of it logits with a spread of 0.02·√d_model, which cost half their
    variance. With a tied head the token's own logit is at most 0.02 · d_model (here below 2). The
    targets are random: 5 standard errors of their mean.
    """
    torch.manual_seed(0)
    model = GPT(config).eval()
    tokens, targets = torch.randint(config.vocab_size, (2, 64, 13))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).item()
    guessing = math.log(config.vocab_size)
    if config.initialisation == "zero_output" and not config.tied_head:
        assert loss == pytest.approx(guessing, abs=1e-5)
        return
    own = 0.02 * config.d_model if config.tied_head else 0.0
    variance = 0.02**2 * config.d_model
    cost = variance / 2 + math.log1p(math.expm1(own) / config.vocab_size)
    noise = 5 * math.sqrt((variance + own**2 / config.vocab_size) / targets.numel())
    assert loss == pytest.approx(guessing, abs=cost + noise)


@pytest.mark.parametrize("placement", CHOICES["norm_placement"])
@pytest.mark.parametrize("positions", CHOICES["positions"])
@pytest.mark.parametrize("tied_head", [True, False])
@pytest.mark.parametrize("initialisation", CHOICES["initialisation"])
def test_the_first_loss_at_the_width_of_the_plain_recipe(
    placement, positions, tied_head, initialisation
):
    model = gpt(
        vocab_size=65,
        d_model=128,
        n_heads=4,
        norm_placement=placement,
        positions=positions,
        tied_head=tied_head,
        initialisation=initialisation,
    )
    tokens, targets = torch.randint(65, (2, 64, 13))
    loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
    assert loss.item() == pytest.approx(math.log(65), rel=0.03)


@pytest.mark.parametrize(
    ("positions", "placement", "initialisation"),
    [
        *itertools.product(CHOICES["positions"], CHOICES["norm_placement"], ["gpt2"]),
        ("learned", "pre", "xavier"),
        ("rotary", "post", "xavier"),
        ("rotary", "pre", "zero_output"),
        ("sinusoidal", "post", "zero_output"),
    ],
)
def test_one_batch_can_be_learned_by_heart(positions, placement, initialisation):
    model = gpt(
        n_layers=2, positions=positions, norm_placement=placement, initialisation=initialisation
    )
    tokens, targets = torch.randint(11, (2, 3, 13))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(150):
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1


def test_a_window_hides_what_is_further_back():
    model = shaken(gpt(n_layers=1, positions="rotary"))
    tokens = torch.randint(11, (1, 13))
    other = tokens.clone()
    other[0, 2] = (other[0, 2] + 1) % 11
    changed = [
        not torch.allclose(a, b, atol=1e-5)
        for a, b in zip(model(tokens, window=5)[0], model(other, window=5)[0], strict=True)
    ]
    assert changed == [2 <= t < 7 for t in range(13)]
    _, (weights,) = model(tokens, window=5, return_weights=True)
    assert (weights.tril(-5) == 0).all()


def test_the_window_of_the_configuration_holds_for_each_pass():
    wide, narrow = (shaken(gpt(n_layers=1, positions="alibi", window=w)) for w in (None, 5))
    narrow.load_state_dict(wide.state_dict())
    tokens = torch.randint(11, (2, 13))
    torch.testing.assert_close(narrow(tokens), wide(tokens, window=5))
    torch.testing.assert_close(narrow(tokens, window=9), wide(tokens, window=5))
    torch.testing.assert_close(narrow(tokens, window=3), wide(tokens, window=3))
    assert not torch.allclose(narrow(tokens), wide(tokens))
    longer = torch.randint(11, (2, 19))
    torch.testing.assert_close(wide(longer, window=19), wide(longer))


@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_positions_default_to_counting_from_zero(positions):
    model = shaken(gpt(n_layers=2, positions=positions))
    tokens, counted = torch.randint(11, (2, 9)), torch.arange(9)
    assert_same(model(tokens, positions=counted), model(tokens))
    assert_same(model(tokens, positions=counted.expand(2, 9)), model(tokens))
    shifted = model(tokens, positions=counted + 4)
    if positions in ("none", "rotary", "alibi"):  # the distance alone counts
        torch.testing.assert_close(shifted, model(tokens), atol=1e-3, rtol=1e-4)
    else:
        assert not torch.allclose(shifted, model(tokens), atol=0.1)


def test_each_row_may_have_its_own_positions():
    for scheme in CHOICES["positions"]:
        model = shaken(gpt(n_layers=2, positions=scheme))
        tokens = torch.randint(11, (3, 7))
        positions = torch.stack([torch.arange(7), 2 + torch.arange(7), torch.arange(0, 13, 2)[:7]])
        together = model(tokens, positions=positions)
        for row in range(3):
            alone = model(tokens[row : row + 1], positions=positions[row])
            assert_same(together[row], alone[0])


def test_the_fused_kernel_is_told_of_the_plain_causal_mask_alone(monkeypatch):
    """It then skips the upper half. Any other mask has to be handed over."""
    told = []

    def spy(query, key, value, mask, dropout, is_causal):
        told.append((mask is None, is_causal))
        return query

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    tokens = torch.zeros(1, 7, dtype=torch.long)
    rotary = gpt(n_layers=1, positions="rotary")
    for call in ({}, {"window": 7}, {"window": 6}, {"positions": torch.arange(7)}):
        rotary(tokens, **call)
    gpt(n_layers=1, positions="alibi")(tokens)
    assert told == [(True, True), (True, True), *[(False, False)] * 3]


def test_shuffling_the_batch_shuffles_the_logits():
    model = shaken(gpt())
    tokens, order = torch.randint(11, (5, 7)), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(model(tokens[order]), model(tokens)[order])


@pytest.mark.parametrize("kernel", KERNELS)
def test_dropout_acts_in_training_only(kernel):
    model, plain = shaken(gpt(dropout=0.3)), shaken(gpt())
    plain.load_state_dict(model.state_dict())
    model.attention_kernel = plain.attention_kernel = kernel
    tokens = torch.randint(11, (2, 7))
    assert torch.equal(model(tokens), plain(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


def test_dropout_reaches_the_embedding():
    model = shaken(gpt(n_layers=1, dropout=0.5)).train()
    for layer in (model.blocks[0].attention, model.blocks[0]):
        layer.eval()
    model.dropout.train()
    tokens = torch.randint(11, (2, 7))
    assert not torch.equal(model(tokens), model(tokens))


# ---- initialisation and tying


def test_gpt2_initialisation():
    L = 3
    model = gpt(n_layers=L, d_model=128, vocab_size=211, context_length=97, n_heads=4)
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear | nn.Embedding):
            continue
        writes = name.endswith("output")
        expected = 0.02 / math.sqrt(2 * L) if writes else 0.02
        assert module.weight.std().item() == pytest.approx(expected, rel=0.03), name
        assert abs(module.weight.mean().item()) < 0.05 * expected, name
        if getattr(module, "bias", None) is not None:
            assert (module.bias == 0).all(), name
    writers = [m for m in model.modules() if isinstance(m, MultiHeadAttention | FeedForward)]
    assert len(writers) == 2 * L


def test_gpt2_initialisation_scales_swiglu_too():
    model = gpt(n_layers=2, d_model=128, n_heads=4, feed_forward="swiglu")
    for block in model.blocks:
        assert type(block.feed_forward) is SwiGLU
        assert block.feed_forward.output.weight.std().item() == pytest.approx(0.01, rel=0.03)
        assert block.feed_forward.gate.weight.std().item() == pytest.approx(0.02, rel=0.03)


def test_xavier_initialisation_by_its_formula():
    model = gpt(d_model=128, n_heads=4, d_ff=300, initialisation="xavier")
    for block in model.blocks:
        for linear in (block.attention.query, block.attention.output, block.feed_forward.hidden):
            limit = math.sqrt(6 / (linear.in_features + linear.out_features))
            assert linear.weight.abs().max().item() == pytest.approx(limit, rel=0.01)
            assert linear.weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.03)


def test_the_tied_head_is_the_embedding():
    tied, untied = gpt(), gpt(tied_head=False)
    assert tied.head.weight is tied.token_embedding.weight
    assert untied.head.weight is not untied.token_embedding.weight
    for model in (tied.double(), tied.to("cpu")):
        assert model.head.weight is model.token_embedding.weight


def test_the_same_seed_gives_the_same_model():
    first, second, other = gpt(seed=3), gpt(seed=3), gpt(seed=4)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])
    assert not torch.equal(first.head.weight, other.head.weight)


def test_zero_output_initialisation():
    """Each block passes its input on, so the stream is the embedding, and the head says nothing."""
    untied = gpt(
        d_model=128,
        n_heads=4,
        vocab_size=211,
        initialisation="zero_output",
        norm="rms_norm",
        feed_forward="swiglu",
        tied_head=False,
        positions="learned",
        n_layers=2,
    )
    tokens = torch.randint(211, (3, 13))
    assert (untied(tokens) == 0).all()
    for block in untied.blocks:
        attention, layer = block.attention, block.feed_forward
        for linear in (attention.query, attention.key, attention.value, layer.gate, layer.hidden):
            assert linear.weight.std().item() == pytest.approx(0.5 / math.sqrt(128), rel=0.03)
        assert (attention.output.weight == 0).all() and (layer.output.weight == 0).all()
    assert untied.token_embedding.weight.std().item() == pytest.approx(2 / math.sqrt(128), rel=0.03)
    tied = gpt(
        d_model=256, vocab_size=211, n_heads=4, initialisation="zero_output", positions="none"
    )
    assert tied.token_embedding.weight.std().item() == pytest.approx(0.02, rel=0.03)
    x = tied.token_embedding.weight[tokens]
    expected = F.layer_norm(x, (256,)) * (100 / 256) @ tied.token_embedding.weight.T
    torch.testing.assert_close(tied(tokens), expected)
    waves = gpt(
        d_model=128,
        n_heads=4,
        initialisation="zero_output",
        tied_head=False,
        positions="sinusoidal",
        vocab_size=211,
    )
    entering = waves.token_embedding.weight * waves.embedding_scale
    assert entering.std().item() == pytest.approx(2 / math.sqrt(128), rel=0.03)


# ---- refusals


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (torch.arange(6), r"positions have shape \(6,\).*of shape \(7,\) or \(2, 7\)"),
        (torch.zeros(3, 7, dtype=torch.long), r"shape \(3, 7\)"),
        (torch.arange(7.0), "dtype torch.float32"),
        (torch.arange(7) - 2, "position -2 is below −1"),
    ],
)
def test_positions_that_are_none_are_refused(positions, message):
    with pytest.raises(CourseError, match=message):
        gpt(positions="rotary")(torch.zeros(2, 7, dtype=torch.long), positions=positions)


def test_a_window_or_kernel_that_is_none_is_refused():
    model = gpt()
    with pytest.raises(CourseError, match="window=0 must be a whole number of at least 1"):
        model(torch.zeros(2, 7, dtype=torch.long), window=0)
    with pytest.raises(
        CourseError, match="attention_kernel='flash' is not known; use one of: fused"
    ):
        model.attention_kernel = "flash"
    assert model.attention_kernel == "fused"


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(7, dtype=torch.long), r"shape \(7,\).*int64 or int32 of shape"),
        (torch.zeros(1, 7), "dtype torch.float32"),
        (torch.zeros(1, 7, dtype=torch.bool), "dtype torch.bool"),
        (torch.zeros(1, 7, dtype=torch.uint8), "dtype torch.uint8"),
    ],
)
def test_what_is_no_batch_of_tokens_is_refused(tokens, message):
    with pytest.raises(CourseError, match=message):
        gpt()(tokens)


def test_learned_positions_end_with_the_context():
    with pytest.raises(CourseError, match="position 13 lies past context_length=13"):
        gpt()(torch.zeros(1, 14, dtype=torch.long))
    tokens, far = torch.zeros(1, 2, dtype=torch.long), torch.tensor([0, 13])
    with pytest.raises(CourseError, match="position 13 lies past context_length=13"):
        gpt()(tokens, positions=far)
    for positions in ("none", "sinusoidal", "rotary", "alibi"):
        assert gpt(positions=positions)(torch.zeros(1, 14, dtype=torch.long)).shape[1] == 14


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_a_model_in_half_precision_stays_in_it_on_both_paths(positions, dtype):
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=11, context_length=7, n_layers=2, d_model=24, n_heads=2, positions=positions
    )
    model = GPT(config).eval()
    tokens = torch.randint(11, (3, 7))
    exact = model(tokens)
    model = model.to(dtype)
    fused, (explicit, weights) = model(tokens), model(tokens, return_weights=True)
    assert fused.dtype == explicit.dtype == dtype and {w.dtype for w in weights} == {dtype}
    for logits in (fused, explicit):
        assert torch.allclose(logits.float(), exact, atol=0.05)
