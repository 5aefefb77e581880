"""A cached model against the model itself, in one pass over the whole text under a window."""

import itertools

import pytest
import torch
from torch import nn

from course_lib.lens.capture import capture
from course_lib.model import cache
from course_lib.model.cache import CachedGPT, ring_positions
from course_lib.model.config import CHOICES, GPTConfig
from course_lib.model.gpt import GPT
from course_lib.model.layers import FeedForward
from course_lib.model.snapshot import why_not_cached
from course_lib.model.step import AttentionStep
from course_lib.runtime import CourseError

VOCABULARY, CONTEXT = 13, 8
ABSOLUTE = ("learned", "sinusoidal")
SCHEMES = {
    **{name: {"positions": name} for name in ("none", "rotary", "alibi", *ABSOLUTE)},
    **{
        name: {"positions": "rotary", "rotary_scaling": name, "rotary_factor": 4.0}
        for name in ("linear", "ntk", "yarn")
    },
}
LATENTS = {"latent": {"d_latent": 7}, "all of the latent": {"d_latent": 24}}
RELATIVE = [name for name in SCHEMES if name not in ABSOLUTE]


def gpt(**values) -> GPT:
    """A model whose every weight matters: logits differ by several units."""
    torch.manual_seed(0)
    shape = {"vocab_size": VOCABULARY, "n_layers": 2, "d_model": 24, "n_heads": 4}
    model = GPT(GPTConfig(**(shape | {"context_length": CONTEXT} | values)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=float("norm" in name), std=0.4)
    return model.eval()


def tokens_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))


def in_pieces(cached: CachedGPT, tokens: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    assert sum(sizes) == tokens.shape[1]
    return torch.cat([cached(piece) for piece in tokens.split(sizes, dim=1)], dim=1)


def whole(model: GPT, tokens: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens, window=CONTEXT)


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert expected.std() > 0.5
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


# ---- cached equals uncached


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_in_one_piece_in_odd_pieces_and_step_by_step(scheme, kv_heads):
    """Far past the window where one slides; some pieces are longer than the window."""
    length = CONTEXT if scheme in ABSOLUTE else 5 * CONTEXT + 3
    odd = [3, 1, 1, 3] if scheme in ABSOLUTE else [1, 5, 1, 11, 1, 1, 19, 2, 1, 1]
    tokens = tokens_of(3, length)
    for window in (None, 3):
        for qk_norm in (False, True):
            model = gpt(**SCHEMES[scheme], n_kv_heads=kv_heads, window=window, qk_norm=qk_norm)
            expected = whole(model, tokens)
            cached = CachedGPT(model, 3)
            for sizes in ([length], odd, [1] * length):
                assert_same(in_pieces(cached, tokens, sizes), expected)
                cached.reset()


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_latents_in_one_piece_in_odd_pieces_and_step_by_step(scheme, latent):
    length = CONTEXT if scheme in ABSOLUTE else 5 * CONTEXT + 3
    odd = [3, 1, 1, 3] if scheme in ABSOLUTE else [1, 5, 1, 11, 1, 1, 19, 2, 1, 1]
    tokens = tokens_of(3, length)
    for window, bias in itertools.product((None, 3), (False, True)):
        d_rotary = 4 if scheme == "ntk" else None
        latents = {**LATENTS[latent], "d_rotary": d_rotary, "window": window, "bias": bias}
        model = gpt(**SCHEMES[scheme], **latents)
        expected = whole(model, tokens)
        cached = CachedGPT(model, 3)
        for sizes in ([length], odd, [1] * length):
            assert_same(in_pieces(cached, tokens, sizes), expected)
            cached.reset()


@pytest.mark.parametrize(
    "values",
    [
        {"d_latent": 7, "norm_placement": "post", "norm": "rms_norm", "bias": False},
        {"d_latent": 5, "d_rotary": 2, "feed_forward": "swiglu", "n_heads": 3, "d_model": 15},
        {"d_latent": 1, "n_layers": 3, "positions": "alibi"},
        {"norm": "rms_norm"},
        {"norm_placement": "post"},
        {"norm_placement": "post", "norm": "rms_norm", "qk_norm": True, "bias": False},
        {"feed_forward": "relu"},
        {"feed_forward": "relu_squared", "bias": False, "tied_head": False},
        {"feed_forward": "swiglu", "norm": "rms_norm"},
        {"feed_forward": "swiglu", "bias": False, "d_ff": 17},
        {"feed_forward": "none"},
        {"feed_forward": "none", "norm_placement": "post", "tied_head": False},
        {"n_experts": 5, "experts_per_token": 1, "capacity_factor": 0.5},
        {"n_experts": 5, "experts_per_token": 3, "feed_forward": "swiglu"},
        {"n_layers": 3, "positions": "alibi", "d_model": 15, "n_heads": 3},
        {"n_layers": 1, "n_heads": 1, "context_length": 1},
        {"window": 1},
        {"initialisation": "zero_output", "tied_head": False},
    ],
    ids=str,
)
def test_every_kind_of_layer(values):
    values = {"positions": "rotary"} | values
    model, tokens = gpt(**values), tokens_of(2, 20)
    expected = model(tokens, window=model.config.context_length).detach()
    for sizes in ([20], [4, 1, 1, 9, 1, 4], [1] * 20):
        assert_same(in_pieces(CachedGPT(model, 2), tokens, sizes), expected)


def test_past_the_window_is_not_the_cropped_text():
    """With two layers what has left the window still matters, through those that read it."""
    model, tokens = gpt(positions="rotary"), tokens_of(1, 20)
    last = in_pieces(CachedGPT(model), tokens, [20])[0, -1]
    assert not torch.allclose(last, model(tokens[:, -CONTEXT:])[0, -1], atol=0.1)


def left_padded(texts: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(text) for text in texts)
    tokens, positions = torch.zeros(2, len(texts), longest, dtype=torch.int64)
    for row, text in enumerate(texts):
        start = longest - len(text)
        tokens[row, start:], positions[row, start:] = text, torch.arange(len(text))
    return tokens, positions.masked_fill(torch.arange(longest) < longest - lengths(texts), -1)


def lengths(texts: list[torch.Tensor]) -> torch.Tensor:
    return torch.tensor([[len(text)] for text in texts])


@pytest.mark.parametrize("values", [{"n_kv_heads": 2}, {"d_latent": 9}], ids=str)
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_prompts_of_unequal_length_go_on_side_by_side(scheme, window, values):
    """Rows fill their window at different times; one starts with nothing but padding."""
    if scheme == "ntk" and "d_latent" in values:
        values = {**values, "d_rotary": 4}
    model = gpt(**SCHEMES[scheme], window=window, **values)
    more, sizes = (1, [5, 1, 4, 0]) if scheme in ABSOLUTE else (23, [5, 1, 13, 0])
    texts = [tokens_of(size + more + 2, seed=seed) for seed, size in enumerate(sizes)]
    cached = CachedGPT(model, 4)
    prompts = [text[:size] for text, size in zip(texts, sizes, strict=True)]
    parts = [cached(*left_padded(prompts))]
    for step in range(more):  # one at a time
        parts.append(
            cached(
                torch.stack([text[n + step, None] for text, n in zip(texts, sizes, strict=True)])
            )
        )
    parts.append(cached(torch.stack([text[-2:] for text in texts])))  # and two at once
    got = torch.cat(parts, dim=1)
    assert got.isfinite().all()
    for row, text in enumerate(texts):
        assert_same(got[row, -len(text) :], whole(model, text[None])[0])


def test_a_step_with_padding_leaves_its_row_as_it_was():
    model, tokens = gpt(positions="rotary"), tokens_of(2, 12)
    cached = CachedGPT(model, 2)
    cached(tokens[:, :9])
    cached(tokens[:, 9:10], torch.tensor([[9], [-1]]))
    assert cached.read == [10, 9]
    assert_same(cached(tokens[:1, 10:], rows=[0]), whole(model, tokens)[:1, 10:])
    assert_same(cached(tokens[1:, 9:], rows=[1]), whole(model, tokens)[1:, 9:])


def test_padding_may_stand_anywhere():
    model, tokens = gpt(positions="alibi"), tokens_of(1, 7)
    gap = torch.tensor([[0, 1, -1, 2, -1, -1, 3, 4, 5, 6, -1]])
    read = CachedGPT(model)(tokens[0, gap.clamp(min=0)], gap)
    assert_same(read[:, gap[0] >= 0], whole(model, tokens))


def test_some_rows_read_and_are_reset_while_others_wait():
    model, tokens = gpt(positions="learned"), tokens_of(3, 2 * CONTEXT)
    cached = CachedGPT(model, 3)
    cached(tokens[:, :CONTEXT])
    cached.reset([2, 0])
    got = cached(tokens[[2, 0], 4:11], rows=[2, 0])
    assert_same(got, whole(model, tokens[[2, 0], 4:11]))
    cached.reset([1])
    cached(tokens[1:2, 5:8], rows=[1])
    got = cached(torch.stack([tokens[0, 11], tokens[1, 8], tokens[2, 11]])[:, None])
    for row, (first, last) in enumerate([(4, 12), (5, 9), (4, 12)]):
        assert_same(got[row, -1], whole(model, tokens[row : row + 1, first:last])[0, -1])


def test_rotations_are_made_for_a_stretch_of_positions_that_moves(monkeypatch):
    monkeypatch.setattr(cache, "TABLE", 4)
    model, tokens = gpt(positions="rotary"), tokens_of(2, 50)
    cached = CachedGPT(model, 2)
    cached(tokens[:1, :21], rows=[0])  # one is far ahead of the other
    got = [cached(torch.stack([tokens[0, 21 + i], tokens[1, i]])[:, None]) for i in range(29)]
    got = torch.cat(got, dim=1)
    expected = whole(model, tokens)
    assert_same(got[0], expected[0, 21:])
    assert_same(got[1], expected[1, :29])


def test_which_position_lies_where_by_loop():
    for window in (1, 3, 5):
        ring = [-1] * window
        for position in range(-1, 17):
            if position >= 0:
                ring[position % window] = position
            assert ring_positions(torch.tensor([position]), window, window).tolist() == [ring]


def test_a_piece_longer_than_the_window_writes_no_slot_twice(monkeypatch):
    """Which of two writes to one slot comes last is not defined on a GPU."""
    slots, read_piece = [], AttentionStep.read_piece

    def watched(self, query, key, value, piece):
        slots.append(piece.kept[2].tolist())
        return read_piece(self, query, key, value, piece)

    monkeypatch.setattr(AttentionStep, "read_piece", watched)
    CachedGPT(gpt(positions="rotary"))(tokens_of(1, 2 * CONTEXT + 3))
    assert [sorted(layer) for layer in slots] == [list(range(CONTEXT))] * 2


def test_no_tokens_give_no_logits():
    cached = CachedGPT(gpt(), 2)
    assert cached(tokens_of(2, 0)).shape == (2, 0, VOCABULARY)
    assert cached.read == [0, 0]


def test_int32_tokens_and_16_bits():
    model, tokens = gpt(positions="rotary", qk_norm=True, norm="rms_norm"), tokens_of(2, 30)
    assert_same(CachedGPT(model, 2)(tokens.int()), whole(model, tokens))
    exact = whole(model, tokens)
    model.to(torch.bfloat16)
    error = (whole(model, tokens) - exact).abs().max()
    for sizes in ([30], [7] + [1] * 23):
        got = in_pieces(CachedGPT(model, 2), tokens, sizes)
        assert got.dtype == torch.bfloat16
        assert (got - exact).abs().max() < 2 * error


@pytest.mark.parametrize("d_latent", [None, 7])
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_all_schemes_in_16_bits(positions, d_latent):
    model, tokens = gpt(positions=positions, d_latent=d_latent), tokens_of(2, CONTEXT)
    exact = whole(model, tokens)
    model.to(torch.bfloat16)
    error = (whole(model, tokens) - exact).abs().max()
    got = in_pieces(CachedGPT(model, 2), tokens, [1] * CONTEXT)
    assert (got - exact).abs().max() < 2 * error


# ---- memory


@pytest.mark.parametrize(
    "values",
    [{}, {"n_kv_heads": 1}, {"window": 3, "n_kv_heads": 2}, {"positions": "alibi", "n_layers": 3}],
    ids=str,
)
def test_bytes_are_what_is_allocated_and_stay_so(values):
    model = gpt(**({"positions": "rotary"} | values))
    for dtype, width in ((torch.float32, 4), (torch.bfloat16, 2)):
        cached, config = CachedGPT(model.to(dtype), 5), model.config
        slots = min(CONTEXT, config.window or CONTEXT)
        for length in (0, 1, 30):
            cached(tokens_of(5, length))
            held = sum(t.numel() * t.element_size() for t in (cached.keys, cached.values))
            assert held == cached.keys.untyped_storage().nbytes() * 2
            assert cached.bytes == held
            assert held == 2 * 5 * slots * config.n_layers * config.kv_heads * 6 * width


@pytest.mark.parametrize(("positions", "turned"), [("rotary", 4), ("learned", 0), ("alibi", 0)])
def test_a_cache_of_latents_holds_them_and_the_turned_key_and_nothing_else(positions, turned):
    model = gpt(positions=positions, d_latent=7)
    cached, tokens = CachedGPT(model, 5), tokens_of(5, 6)
    cached(tokens)
    numbers = 5 * CONTEXT * model.config.n_layers * (7 + turned)
    assert cached.keys.untyped_storage().nbytes() == cached.bytes == 4 * numbers
    assert cached.values.untyped_storage().data_ptr() == cached.keys.untyped_storage().data_ptr()
    plain = CachedGPT(gpt(positions=positions), 5)
    assert plain.bytes == 4 * 5 * CONTEXT * model.config.n_layers * 2 * 24
    attention, seen = model.blocks[0].attention, capture(model, tokens)
    places = attention.positions.places(torch.arange(6), attention.turned_width)
    latent, _ = attention.compress(seen.attention_inputs[0], places)
    held = cached.keys[0, :, 0, :7, :6].transpose(-2, -1)  # (batch, position, d_latent)
    torch.testing.assert_close(held, latent, atol=1e-5, rtol=1e-5)


# ---- the model beside it


def test_the_model_is_left_as_it_was_and_can_be_looked_into():
    model, tokens = gpt(positions="rotary"), tokens_of(2, CONTEXT)
    before, seen = {n: w.clone() for n, w in model.state_dict().items()}, capture(model, tokens)
    cached = CachedGPT(model, 2)
    in_pieces(cached, tokens, [3, 1, 4])
    again = capture(model, tokens)
    assert torch.equal(seen.logits, again.logits)
    assert all(torch.equal(a, b) for a, b in zip(seen.weights, again.weights, strict=True))
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())
    model(tokens).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())
    cached.reset()
    assert_same(cached(tokens), seen.logits)


def test_dropout_never_acts_and_the_mode_stays():
    model, tokens = gpt(positions="rotary", dropout=0.5), tokens_of(2, 12)
    expected = whole(model, tokens)
    model.train()
    got = in_pieces(CachedGPT(model, 2), tokens, [5, 1, 1, 5])
    assert_same(got, expected)
    assert all(module.training for module in model.modules())
    assert not got.requires_grad


def train_a_step(model: GPT, **options) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
    model(tokens_of(2, CONTEXT)).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize(
    "change",
    [
        train_a_step,
        lambda model: train_a_step(model, fused=True),
        lambda model: model.load_state_dict({n: 2 * w for n, w in model.state_dict().items()}),
        lambda model: model.to(torch.bfloat16),
        lambda model: nn.init.constant_(model.blocks[1].feed_forward.output.bias, 3.0),
        lambda model: setattr(model.token_embedding, "weight", nn.Parameter(tokens_of(13, 24) / 9)),
    ],
    ids=["trained", "trained by a fused kernel", "loaded", "converted", "one bias", "replaced"],
)
def test_a_model_that_has_changed_is_refused_until_reset(change):
    model, tokens = gpt(positions="alibi", tied_head=False), tokens_of(1, 6)
    cached = CachedGPT(model)
    before = cached(tokens[:, :4])
    change(model)
    for new in (1, 2):
        with pytest.raises(CourseError, match=r"model has changed .* call reset\(\) and read"):
            cached(tokens[:, :new])
    cached.reset()
    after, tolerance = in_pieces(cached, tokens, [4, 1, 1]), 1e-5
    if after.dtype == torch.bfloat16:
        tolerance = 0.3
    torch.testing.assert_close(after, whole(model, tokens), atol=tolerance, rtol=tolerance)
    assert not torch.equal(after[:, :4].float(), before)


class Louder(FeedForward):
    def forward(self, x):
        return 2 * super().forward(x)


def louder(model: GPT) -> None:
    model.blocks[1].feed_forward = Louder(24, 96)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (louder, "its blocks.1.feed_forward is a Louder"),
        (
            lambda model: model.blocks[0].attention.register_forward_hook(lambda *_: None),
            "its blocks.0.attention has a hook",
        ),
        (lambda model: model.register_forward_pre_hook(lambda *_: None), "it has a hook"),
        (
            lambda model: setattr(model.final_norm, "forward", lambda x: x),
            "its final_norm has a forward of its own",
        ),
    ],
    ids=["subclass", "hook", "hook on all", "patched"],
)
def test_what_a_cache_cannot_follow_is_refused(change, reason):
    model = gpt()
    assert why_not_cached(model) is None
    change(model)
    assert why_not_cached(model) == reason
    with pytest.raises(CourseError, match=f"cannot be cached: {reason}.*use_cache=False"):
        CachedGPT(model)


def test_a_cache_can_be_made_and_used_under_inference_mode_and_outside():
    with torch.inference_mode():
        model = gpt(positions="rotary")
        cached = CachedGPT(model)
        first = cached(tokens_of(1, 3))
    assert first.shape == (1, 3, VOCABULARY)
    assert cached(tokens_of(1, 1)).shape == (1, 1, VOCABULARY)


# ---- refusals


@pytest.mark.parametrize("positions", ABSOLUTE)
@pytest.mark.parametrize("window", [None, 3])
def test_positions_that_end_are_refused_past_the_context(positions, window):
    model, tokens = gpt(positions=positions, window=window), tokens_of(1, CONTEXT + 1)
    cached = CachedGPT(model)
    message = rf"position 8 lies past context_length=8, where {positions} positions end; reset"
    with pytest.raises(CourseError, match=message):
        cached(tokens)
    assert_same(in_pieces(cached, tokens[:, :-1], [5, 1, 2]), whole(model, tokens[:, :-1]))
    for new in (1, 2):
        with pytest.raises(CourseError, match=f"position {CONTEXT + new - 1} lies past"):
            cached(tokens_of(1, new))
    cached.reset()
    assert_same(cached(tokens[:, 1:]), whole(model, tokens[:, 1:]))


def test_refusals():
    cached = CachedGPT(gpt(positions="rotary"), 2)
    with pytest.raises(CourseError, match="batch_size=0 must be a whole number of at least 1"):
        CachedGPT(cached.model, 0)
    for tokens in (tokens_of(3, 2), tokens_of(2), tokens_of(2, 1).float(), tokens_of(1, 1)):
        with pytest.raises(CourseError, match=r"tokens have shape .* of shape \(2, new\)"):
            cached(tokens)
    with pytest.raises(CourseError, match=r"of shape \(1, new\)"):
        cached(tokens_of(2, 3), rows=[0])
    with pytest.raises(CourseError, match=r"positions have shape \(3,\).* of shape \(2, 3\)"):
        cached(tokens_of(2, 3), torch.arange(3))
    for rows in ([0, 0], [2, 0], [-1, 0]):
        with pytest.raises(CourseError, match="different numbers from 0 to 1"):
            cached(tokens_of(2, 1), rows=rows)
        with pytest.raises(CourseError, match="different numbers from 0 to 1"):
            cached.reset(rows)
    cached(tokens_of(2, 3))
    for wrong, message in (
        ([[3, 4], [3, 5]], "position 5 does not follow what row 1 has read; give 4"),
        ([[-1, 0], [3, 4]], "position 0 does not follow what row 0 has read; give 3"),
        ([[3, -2], [3, 4]], "position -2 does not follow what row 0 has read; give 4"),
    ):
        with pytest.raises(CourseError, match=message):
            cached(tokens_of(2, 2), torch.tensor(wrong))
    assert cached.read == [3, 3]


def test_a_cache_larger_than_the_memory_is_refused_with_its_size():
    model = gpt(positions="rotary", context_length=2**31 - 1)
    with pytest.raises(
        CourseError, match=r"would take .* GiB for batch_size=1000000.*use_cache=False"
    ):
        CachedGPT(model, 10**6)
