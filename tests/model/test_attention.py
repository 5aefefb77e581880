"""Attention against nested loops and PyTorch's own operators, its laws, and what it refuses."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.model.attention import (
    KERNELS,
    MultiHeadAttention,
    attention,
    attention_weights,
    causal_mask,
)
from course_lib.model.positions import ALiBi, AttentionPositions, RotaryPositions
from course_lib.runtime import CourseError

# every axis has its own prime, so that a swapped one cannot pass
BATCH, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 5, 7, 3, 11
SCHEMES = {
    "none": lambda n_heads: AttentionPositions(),
    "rotary": lambda n_heads: RotaryPositions(),
    "alibi": ALiBi,
}


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def random_parts() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    query = torch.randn(BATCH, QUERIES, D_HEAD)
    key = torch.randn(BATCH, KEYS, D_HEAD)
    value = torch.randn(BATCH, KEYS, D_VALUE)
    may_attend = torch.rand(QUERIES, KEYS) < 0.6
    may_attend[:, 2] = True
    return query, key, value, may_attend


def weights_by_loops(query, key, may_attend=None, bias=None) -> list[list[float]]:
    """softmax(q·k / √d) of one batch entry in Python floats; a row of nothing is zeros."""
    rows = []
    for i, q in enumerate(query.tolist()):
        exponentials = []
        for j, k in enumerate(key.tolist()):
            score = sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q))
            score += 0.0 if bias is None else bias[i][j]
            allowed = may_attend is None or may_attend[i][j]
            exponentials.append(math.exp(score) if allowed else 0.0)
        total = sum(exponentials)
        rows.append([e / total if total else 0.0 for e in exponentials])
    return rows


def mixed_by_loops(weights: list[list[float]], value: Tensor) -> list[list[float]]:
    return [
        [
            sum(w * v for w, v in zip(row, column, strict=True))
            for column in zip(*value.tolist(), strict=True)
        ]
        for row in weights
    ]


# ---- oracles


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_equals_nested_loops(masked, biased):
    query, key, value, may_attend = random_parts()
    mask = may_attend if masked else None
    bias = torch.randn(QUERIES, KEYS) if biased else None
    mixed, weights = attention(query, key, value, mask, bias)
    for b in range(BATCH):
        expected = weights_by_loops(query[b], key[b], None if mask is None else mask.tolist(), bias)
        torch.testing.assert_close(weights[b], torch.tensor(expected))
        torch.testing.assert_close(mixed[b], torch.tensor(mixed_by_loops(expected, value[b])))


def test_attention_equals_pytorchs_operator():
    query, key, value, may_attend = random_parts()
    bias = torch.randn(QUERIES, KEYS)
    for mask in (None, may_attend):
        expected = F.scaled_dot_product_attention(query, key, value, mask)
        torch.testing.assert_close(attention(query, key, value, mask)[0], expected)
    expected = F.scaled_dot_product_attention(
        query, key, value, bias.masked_fill(~may_attend, -math.inf)
    )
    torch.testing.assert_close(attention(query, key, value, may_attend, bias)[0], expected)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention_equals_pytorchs_layer(return_weights, bias):
    d_model, n_heads, length = 15, 5, 7
    ours = MultiHeadAttention(d_model, n_heads, bias=bias)
    theirs = nn.MultiheadAttention(d_model, n_heads, bias=bias, batch_first=True)
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
            theirs.out_proj.bias.copy_(ours.output.bias)
    x, positions = torch.randn(2, length, d_model), torch.arange(length)
    may_attend = causal_mask(positions, positions)
    expected, expected_weights = theirs(x, x, x, attn_mask=~may_attend, average_attn_weights=False)
    output, weights = ours(x, positions, may_attend, return_weights=return_weights)
    torch.testing.assert_close(output, expected)
    if return_weights:
        torch.testing.assert_close(weights, expected_weights)
    else:
        assert weights is None


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("n_heads", "n_kv_heads"), [(4, 2), (6, 3), (6, 2), (3, 1), (5, 5)])
def test_heads_by_a_loop(n_heads, n_kv_heads, scheme):
    """Query head h reads key and value head h // group: 0, 0, 1, 1 for four over two.

    Positions turn queries and keys, never values, and ALiBi's bias is each head's own.
    """
    d_head, length = 10, 7
    chosen = SCHEMES[scheme](n_heads)
    layer = MultiHeadAttention(n_heads * d_head, n_heads, n_kv_heads=n_kv_heads, positions=chosen)
    x, positions = torch.randn(2, length, n_heads * d_head), torch.arange(length)
    bias = chosen.score_bias(positions, positions)
    query, key, value = layer.query(x), layer.key(x), layer.value(x)
    heads, all_weights = [], []
    for head in range(n_heads):
        own = slice(head * d_head, (head + 1) * d_head)
        shared = head // (n_heads // n_kv_heads)
        shared = slice(shared * d_head, (shared + 1) * d_head)
        mixed, weights = attention(
            chosen.rotate(query[:, None, :, own], positions)[:, 0],
            chosen.rotate(key[:, None, :, shared], positions)[:, 0],
            value[..., shared],
            bias=None if bias is None else bias[head],
        )
        heads.append(mixed)
        all_weights.append(weights)
    expected = layer.output(torch.cat(heads, dim=-1))
    for return_weights in (False, True):
        output, weights = layer(x, positions, return_weights=return_weights)
        torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, torch.stack(all_weights, dim=1))


def test_causal_mask_by_loops():
    query_positions, key_positions = torch.tensor([4, 9, 5]), torch.tensor([3, 4, 5, 6, 9])
    for window in (None, 1, 2, 5):
        expected = [
            [k <= q and (window is None or q - k < window) for k in key_positions.tolist()]
            for q in query_positions.tolist()
        ]
        mask = causal_mask(query_positions, key_positions, window)
        assert mask.dtype == torch.bool
        assert mask.tolist() == expected


def test_padding_is_read_by_nobody_by_loops():
    query_positions = torch.tensor([[-1, 0, 1], [4, -1, 9]])
    key_positions = torch.tensor([[-1, 0, 1, -1], [3, 4, -1, 9]])
    for window in (None, 1, 2):
        expected = [
            [[0 <= k <= q and (window is None or q - k < window) for k in keys] for q in queries]
            for queries, keys in zip(query_positions.tolist(), key_positions.tolist(), strict=True)
        ]
        assert causal_mask(query_positions, key_positions, window).tolist() == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_query_key_norm_by_a_loop(scheme):
    """Each head's query and key is divided by its root mean square, then turned."""
    n_heads, d_head, length = 3, 10, 7
    chosen = SCHEMES[scheme](n_heads)
    layer = MultiHeadAttention(30, n_heads, n_kv_heads=1, positions=chosen, qk_norm=True)
    with torch.no_grad():
        layer.query_norm.weight.normal_()
        layer.key_norm.weight.normal_()
    x, positions = torch.randn(2, length, 30), torch.arange(length)
    bias = chosen.score_bias(positions, positions)

    def normalised(heads, norm):
        size = (heads.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        return chosen.rotate((heads / size * norm.weight)[:, None], positions)[:, 0]

    _, weights = layer(x, positions, return_weights=True)
    for head in range(n_heads):
        expected = attention_weights(
            normalised(layer.query(x)[..., head * d_head : (head + 1) * d_head], layer.query_norm),
            normalised(layer.key(x), layer.key_norm),
            bias=None if bias is None else bias[head],
        )
        torch.testing.assert_close(weights[:, head], expected)


# ---- laws: two paths of one module


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("qk_norm", [False, True])
def test_is_causal_is_the_causal_mask_on_each_path(scheme, qk_norm):
    layer = MultiHeadAttention(24, 4, n_kv_heads=2, positions=SCHEMES[scheme](4), qk_norm=qk_norm)
    positions, start = torch.arange(11), torch.randn(2, 11, 24)

    def results(may_attend, **how):
        x = start.clone().requires_grad_()
        output, _ = layer(x, positions, may_attend, **how)
        return output, *torch.autograd.grad(output.sin().sum(), [x, *layer.parameters()])

    expected = results(causal_mask(positions, positions))
    fused, shown = results(None, is_causal=True), results(None, is_causal=True, return_weights=True)
    layer.kernel = "explicit"
    for got in (fused, shown, results(None, is_causal=True)):
        for ours, theirs in zip(got, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("return_weights", [False, True])
def test_rows_of_a_batch_may_have_their_own_positions_and_masks(scheme, return_weights):
    layer = MultiHeadAttention(24, 4, n_kv_heads=2, positions=SCHEMES[scheme](4))
    positions = torch.tensor([[0, 1, 2, 3, 4], [-1, -1, 0, 1, 2], [3, 5, 9, 10, 11]])
    may_attend = causal_mask(positions, positions, 3)
    x = torch.randn(3, 5, 24)
    together, weights = layer(x, positions, may_attend, return_weights=return_weights)
    for row in range(3):
        alone, its_weights = layer(
            x[row : row + 1], positions[row], may_attend[row], return_weights=return_weights
        )
        torch.testing.assert_close(together[row], alone[0], atol=1e-6, rtol=1e-5)
        if return_weights:
            torch.testing.assert_close(weights[row], its_weights[0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_places_prepared_once_give_what_positions_give(scheme):
    layer = MultiHeadAttention(24, 4, positions=SCHEMES[scheme](4))
    x, positions = torch.randn(2, 5, 24), torch.tensor([3, 4, 5, 8, 9])
    may_attend = causal_mask(positions, positions)
    prepared = layer.positions.places(positions, layer.d_head)
    assert torch.equal(layer(x, prepared, may_attend)[0], layer(x, positions, may_attend)[0])


def test_query_key_norm_makes_scores_blind_to_the_size_of_the_matrices():
    layer = MultiHeadAttention(24, 4, positions=RotaryPositions(), qk_norm=True, bias=False)
    x, positions = torch.randn(2, 5, 24), torch.arange(5)
    _, before = layer(x, positions, return_weights=True)
    with torch.no_grad():
        layer.query.weight *= 1000
        layer.key.weight *= 1000
    _, after = layer(x, positions, return_weights=True)
    torch.testing.assert_close(after, before, atol=1e-3, rtol=0)  # ε matters less now
    # |score| ≤ √d_head · |query| · |key| / (√d_head)² = √d_head
    spread = (after.amax(dim=-1) / after.amin(dim=-1)).log()
    assert spread.max().item() <= 2 * math.sqrt(layer.d_head)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("mask", ["none", "causal", "window", "one row of nothing"])
@pytest.mark.parametrize("n_kv_heads", [None, 2, 1])
def test_the_two_paths_agree_in_output_and_gradient(scheme, mask, n_kv_heads):
    n_heads, d_head, length = 4, 6, 11
    layer = MultiHeadAttention(
        n_heads * d_head, n_heads, n_kv_heads=n_kv_heads, positions=SCHEMES[scheme](n_heads)
    )
    positions = torch.arange(length)
    may_attend = {
        "none": None,
        "causal": causal_mask(positions, positions),
        "window": causal_mask(positions, positions, 3),
        "one row of nothing": causal_mask(positions, positions) & (positions != 7)[:, None],
    }[mask]
    start = torch.randn(2, length, n_heads * d_head)
    outputs, gradients = [], []
    for return_weights in (False, True):
        x = start.clone().requires_grad_()
        output, _ = layer(x, positions, may_attend, return_weights=return_weights)
        outputs.append(output)
        gradients.append(torch.autograd.grad(output.sin().sum(), [x, *layer.parameters()]))
    torch.testing.assert_close(outputs[0], outputs[1], atol=1e-5, rtol=0)
    for fused, explicit in zip(*gradients, strict=True):
        torch.testing.assert_close(fused, explicit, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("return_weights", [False, True])
def test_a_row_that_may_attend_to_nothing_gives_zeros_and_finite_gradients(scheme, return_weights):
    layer = MultiHeadAttention(14, 7, positions=SCHEMES[scheme](7), bias=False)
    if scheme == "rotary":
        assert layer.d_head % 2 == 0
    x = torch.randn(2, 5, 14, requires_grad=True)
    positions = torch.arange(5)
    may_attend = causal_mask(positions, positions)
    may_attend[3] = False
    output, weights = layer(x, positions, may_attend, return_weights=return_weights)
    assert (output[:, 3] == 0).all()
    assert (output[:, [0, 1, 2, 4]] != 0).all()
    if return_weights:
        assert (weights[:, :, 3] == 0).all()
    gradients = torch.autograd.grad(output.square().sum(), [x, *layer.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("return_weights", [False, True])
def test_dropout_acts_in_training_and_is_off_in_evaluation(return_weights):
    layer = MultiHeadAttention(15, 3, dropout=0.5)
    plain = MultiHeadAttention(15, 3)
    plain.load_state_dict(layer.state_dict())
    x, positions = torch.randn(2, 7, 15), torch.arange(7)
    expected, _ = plain(x, positions)
    layer.eval()
    before = torch.get_rng_state()
    for layer.kernel in KERNELS:
        output, _ = layer(x, positions, return_weights=return_weights)
        torch.testing.assert_close(output, expected)
    assert torch.equal(before, torch.get_rng_state())
    layer.train()
    output, _ = layer(x, positions, return_weights=return_weights)
    assert not torch.allclose(output, expected, atol=1e-2)


def test_dropout_keeps_the_mean_on_both_paths():
    """Kept weights grow by 1/(1 − dropout), so the mean over many draws is the plain output."""
    layer = MultiHeadAttention(6, 1, dropout=0.3, bias=False)
    layer.output = nn.Identity()
    x = torch.randn(1, 5, 6)
    positions = torch.arange(5)
    expected = layer.eval()(x, positions)[0]
    layer.train()
    many = x.expand(20_000, -1, -1)
    for return_weights in (False, True):
        output = layer(many, positions, return_weights=return_weights)[0]
        error = output.mean(dim=0) - expected[0]
        spread = output.std(dim=0) / math.sqrt(len(many))
        assert (error.abs() < 5 * spread).all()


def test_rows_sum_to_one_and_future_is_exactly_zero():
    layer = MultiHeadAttention(15, 5)
    positions = torch.arange(11)
    _, weights = layer(
        torch.randn(2, 11, 15), positions, causal_mask(positions, positions), return_weights=True
    )
    assert weights.shape == (2, 5, 11, 11)
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 5, 11))


def test_shuffled_tokens_give_shuffled_outputs_without_positions_and_mask():
    layer = MultiHeadAttention(15, 5)
    x, positions, order = torch.randn(2, 11, 15), torch.arange(11), torch.randperm(11)
    torch.testing.assert_close(layer(x[:, order], positions)[0], layer(x, positions)[0][:, order])


def test_the_scale_keeps_the_spread_of_the_scores_at_one():
    weights = attention_weights(torch.randn(2_000, 512), torch.randn(2, 512))
    scores = (weights[:, 0] / weights[:, 1]).log() / math.sqrt(2)  # difference of two scores
    assert 0.9 < scores.std() < 1.1


def test_a_query_alone_knows_its_position():
    """A mask comes from positions: the last row alone equals the last row of the whole."""
    positions = torch.arange(13)
    whole = causal_mask(positions, positions, 4)
    assert torch.equal(causal_mask(positions[-1:], positions, 4), whole[-1:])
    assert torch.equal(causal_mask(positions, positions[3:], 4), whole[:, 3:])


# ---- numbers


def test_float16_does_not_overflow():
    """q = k = 60 everywhere: the product 230,400 is beyond float16, scaled it is 28,800."""
    query = key = torch.full((2, 7, 64), 60.0)
    value = torch.randn(2, 7, 64)
    positions = torch.arange(7)
    may_attend = causal_mask(positions, positions)
    may_attend[:, 5] = False  # padding
    may_attend[6] = False
    expected, _ = attention(query, key, value, may_attend)
    parts = query.half(), key.half(), value.half()
    mixed, weights = attention(*parts, may_attend)
    fused = MultiHeadAttention(64, 1).mix_fused(*(part[:, None] for part in parts), may_attend)
    assert weights.dtype == mixed.dtype == fused.dtype == torch.float16
    torch.testing.assert_close(mixed.float(), expected, atol=1e-2, rtol=0)
    torch.testing.assert_close(fused[:, 0].float(), expected, atol=1e-2, rtol=0)
    assert (mixed[:, 6] == 0).all() and (fused[:, 0, 6] == 0).all()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_stays_in_its_dtype_on_both_paths(scheme, dtype):
    layer = MultiHeadAttention(12, 3, positions=SCHEMES[scheme](3))
    x, positions = torch.randn(2, 7, 12), torch.arange(7)
    may_attend = causal_mask(positions, positions)
    expected, _ = layer(x, positions, may_attend)
    layer.to(dtype)
    for return_weights in (False, True):
        output, weights = layer(x.to(dtype), positions, may_attend, return_weights=return_weights)
        assert output.dtype == dtype
        assert weights is None or weights.dtype == dtype
        torch.testing.assert_close(output.float(), expected, atol=3e-2, rtol=0)


# ---- refusals


def test_heads_that_do_not_fit_are_refused():
    with pytest.raises(CourseError, match=r"d_model=50 .* n_heads=8; use 48 or 56"):
        MultiHeadAttention(50, 8)
    with pytest.raises(CourseError, match=r"n_heads=10 .* n_kv_heads=3; use one of: 1, 2, 5, 10"):
        MultiHeadAttention(20, 10, n_kv_heads=3)
