"""Sampling by the examples that have broken others, and generation past the context by oracles."""

import math
import warnings

import pytest
import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.generation import (
    Sampling,
    choose,
    crop_prompt,
    generate,
    generate_batch,
    generate_text,
    next_token_logits,
    next_token_probabilities,
)
from course_lib.model.attention import causal_mask
from course_lib.model.config import CHOICES, GPTConfig
from course_lib.model.encoder import Encoder
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError, CourseNotice

VOCABULARY = 13
GREEDY = Sampling(temperature=0.0)
RELATIVE = ("none", "rotary", "alibi")
ABSOLUTE = ("learned", "sinusoidal")
CACHE = pytest.mark.parametrize("use_cache", [True, False], ids=["cache", "no cache"])


def gpt(positions: str = "rotary", context_length: int = 5, **values) -> GPT:
    """A model whose every weight matters, so that a wrong window shows in what it writes."""
    torch.manual_seed(0)
    values = {"n_layers": 2, "d_model": 24, "vocab_size": VOCABULARY} | values
    model = GPT(GPTConfig(positions=positions, context_length=context_length, **values))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=float("norm" in name), std=0.4)
    return model.eval()


def tokens_of(length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, (length,), generator=torch.Generator().manual_seed(seed))


def written(
    model: GPT, prompt: torch.Tensor, length: int, sampling=GREEDY, seed=0, use_cache=True
) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return list(generate(model, prompt, length, sampling, generator, use_cache=use_cache))


def kept(probabilities: list[float], **values) -> set[int]:
    logits = torch.tensor(probabilities).log()
    result = next_token_probabilities(logits, Sampling(**values))
    assert result.sum().item() == pytest.approx(1)
    return set(result.nonzero().flatten().tolist())


# ---- the distribution


@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0, 2.0, 100.0])
def test_temperature_by_loop(temperature):
    logits = [2.0, -1.0, 0.5, 30.0, 29.5]
    exponentials = [math.exp((logit - 30) / temperature) for logit in logits]
    expected = [e / sum(exponentials) for e in exponentials]
    result = next_token_probabilities(torch.tensor(logits), Sampling(temperature=temperature))
    assert result.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("temperature", [0.0, -0.0, 1e-40, 1e-300, 5e-324, 1e-9])
def test_no_temperature_is_greedy(temperature):
    result = next_token_probabilities(
        torch.tensor([1.0, 1e4, 9_999.0, -1e4]), Sampling(temperature=temperature)
    )
    assert result.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("temperature", [2e-8, 1e-6, 1e-3])
def test_a_low_temperature_is_finite(temperature):
    result = next_token_probabilities(
        torch.tensor([1.0, 1e4, 9_999.0, -1e4]), Sampling(temperature=temperature)
    )
    assert result.tolist() == [0, 1, 0, 0]


def test_greedy_takes_the_first_of_equals():
    result = next_token_probabilities(torch.tensor([0.0, 7.0, 7.0]), GREEDY)
    assert result.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("probabilities", "top_p", "expected"),
    [
        ([0.5, 0.41, 0.09], 0.9, {0, 1}),
        ([0.95, 0.05], 0.9, {0}),
        ([0.4, 0.3, 0.2, 0.1], 0.8, {0, 1, 2}),
        ([0.25, 0.25, 0.25, 0.25], 0.5, {0, 1}),
        ([0.2, 0.5, 0.3], 1e-8, {1}),
        ([0.2, 0.5, 0.3], 1.0, {0, 1, 2}),
        ([0.2, 0.5, 0.3], 1, {0, 1, 2}),
        ([0.1, 0.4, 0.5], 0.9, {1, 2}),  # 0.5 + 0.4 reaches 0.9, whatever rounding says
        ([0.15, 0.15, 0.7], 0.85, {0, 2}),  # here float32 logits fall 3e-8 short of it
        ([0.1] * 10, 0.3, {0, 1, 2}),
        ([0.1, 0.2, 0.7], 0.71, {1, 2}),
    ],
)
def test_top_p_keeps_the_likeliest_that_reach_p(probabilities, top_p, expected):
    assert kept(probabilities, top_p=top_p) == expected


@pytest.mark.parametrize(
    ("top_k", "expected"), [(1, {2}), (2, {2, 4}), (3, {1, 2, 4}), (5, {0, 1, 2, 3, 4}), (99, None)]
)
def test_top_k_keeps_the_k_likeliest(top_k, expected):
    probabilities = [0.1, 0.15, 0.4, 0.05, 0.3]
    assert kept(probabilities, top_k=top_k) == (expected or set(range(5)))


def test_of_equals_the_first_are_kept():
    assert kept([0.2] * 5, top_k=3) == {0, 1, 2}
    assert kept([0.01] * 100, top_k=3) == {0, 1, 2}  # so many are sorted by another routine
    assert kept([0.01] * 100, top_p=0.025) == {0, 1, 2}


def test_what_is_kept_keeps_its_proportions():
    probabilities = torch.tensor([0.1, 0.15, 0.4, 0.05, 0.3])
    result = next_token_probabilities(probabilities.log(), Sampling(top_k=3))
    assert result.tolist() == pytest.approx([0, 0.15 / 0.85, 0.4 / 0.85, 0, 0.3 / 0.85], rel=1e-5)
    # temperature first, then top-k, then top-p of what top-k left: 0.4, 0.3 of 0.85
    both = next_token_probabilities(probabilities.log(), Sampling(top_k=3, top_p=0.8))
    assert both.tolist() == pytest.approx([0, 0, 4 / 7, 0, 3 / 7], rel=1e-5)
    hot = next_token_probabilities(probabilities.log(), Sampling(temperature=2.0, top_p=0.4))
    roots = probabilities.sqrt() / probabilities.sqrt().sum()
    assert roots[2] < 0.4 < roots[2] + roots[4]
    assert hot.nonzero().flatten().tolist() == [2, 4]


@pytest.mark.parametrize(
    "values",
    [{}, {"temperature": 0.0}, {"top_k": 4}, {"top_p": 0.7}, {"top_k": 5, "top_p": 0.8}],
    ids=str,
)
def test_many_distributions_at_once(values):
    logits = torch.randn(2, 3, 11, generator=torch.Generator().manual_seed(0))
    logits[0, 1] = 1.0  # all equal
    many = next_token_probabilities(logits, Sampling(**values))
    assert many.shape == (2, 3, 11)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        one = next_token_probabilities(logits[*place], Sampling(**values))
        assert torch.equal(many[*place], one)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"temperature": -0.1}, "temperature=-0.1 must be a finite number, 0 (greedy) or above"),
        ({"temperature": math.nan}, "temperature=nan must be"),
        ({"temperature": math.inf}, "temperature=inf must be"),
        ({"temperature": "0.8"}, "temperature='0.8' must be"),
        ({"temperature": 10**400}, "must be a finite number"),
        ({"top_k": True}, "top_k=True must be"),
        ({"top_p": "0.9"}, "top_p='0.9' must be"),
        ({"top_p": torch.ones(1)}, "top_p=tensor([1.]) must be"),
        ({"top_p": 0.0}, "top_p=0.0 must be above 0 and at most 1"),
        ({"top_p": 1.5}, "top_p=1.5 must be"),
        ({"top_p": math.nan}, "top_p=nan must be"),
        ({"top_p": -0.5}, "top_p=-0.5 must be"),
        ({"top_k": 0}, "top_k=0 must be a whole number of at least 1"),
        ({"top_k": -1}, "top_k=-1 must be"),
        ({"top_k": 1.5}, "top_k=1.5 must be a whole number"),
    ],
)
def test_sampling_that_makes_no_sense_is_refused(values, message):
    with pytest.raises(CourseError) as refusal:
        Sampling(**values)
    assert message in str(refusal.value)


# ---- drawing


def test_draws_follow_the_probabilities():
    """Each count lies within five standard deviations of what its probability says."""
    model = gpt(context_length=3, n_layers=1, tied_head=False)
    with torch.no_grad():  # what was read no longer matters: the same distribution at each step
        model.final_norm.weight.zero_()
    sampling = Sampling(temperature=3.0, top_k=7)
    prompt = tokens_of(1)
    expected = next_token_probabilities(next_token_logits(model, prompt), sampling)
    draws = written(model, prompt, 1_500, sampling, seed=4)
    counts = torch.tensor(draws).bincount(minlength=VOCABULARY).double()
    spread = (len(draws) * expected * (1 - expected)).sqrt()
    assert ((counts - len(draws) * expected).abs() <= 5 * spread).all()
    assert (counts > 0).sum() == 7


def test_each_row_draws_with_its_own_generator_as_multinomial_does():
    logits = torch.randn(40, VOCABULARY, generator=torch.Generator().manual_seed(0))
    for values in ({}, {"temperature": 2.0, "top_k": 5}, {"top_p": 0.6}):
        generators, again = (
            [torch.Generator().manual_seed(seed) for seed in range(40)] for _ in range(2)
        )
        probabilities = next_token_probabilities(logits, Sampling(**values))
        expected = [
            torch.multinomial(row, 1, generator=generator).item()
            for row, generator in zip(probabilities, again, strict=True)
        ]
        assert choose(logits, Sampling(**values), generators).tolist() == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_no_numbers_are_refused(temperature):
    logits = torch.zeros(2, 5)
    logits[1, 3] = math.nan
    generators = [torch.Generator(), torch.Generator()]
    with pytest.raises(CourseError, match=r"scores are not numbers \(NaN\).*earlier checkpoint"):
        choose(logits, Sampling(temperature=temperature), generators)
    assert choose(logits[:1], Sampling(temperature=0.0), generators[:1]).tolist() == [0]


@CACHE
def test_a_model_that_diverged_is_said_to_have(use_cache):
    model = gpt()
    with torch.no_grad():
        model.head.weight.fill_(math.nan)
    with pytest.raises(CourseError, match="scores are not numbers"):
        written(model, tokens_of(3), 2, use_cache=use_cache)


def test_the_same_seed_writes_the_same_and_another_something_else():
    model, prompt, warm = gpt(), tokens_of(3), Sampling(temperature=1.5)
    assert written(model, prompt, 30, warm, seed=1) == written(model, prompt, 30, warm, seed=1)
    assert written(model, prompt, 30, warm, seed=1) != written(model, prompt, 30, warm, seed=2)


@CACHE
def test_generating_leaves_the_global_random_numbers_alone(use_cache):
    model = gpt()
    before = torch.get_rng_state()
    written(model, tokens_of(3), 9, Sampling(), use_cache=use_cache)
    assert torch.equal(before, torch.get_rng_state())


@CACHE
def test_a_model_left_in_training_writes_without_dropout_and_stays_in_training(use_cache):
    model, prompt = gpt(dropout=0.5), tokens_of(3)
    expected = written(model, prompt, 20)
    model.train()
    assert written(model, prompt, 20, use_cache=use_cache) == expected
    assert all(module.training for module in model.modules())
    assert not next_token_logits(model, prompt).requires_grad


# ---- the context


@CACHE
@pytest.mark.parametrize("positions", CHOICES["positions"])
@pytest.mark.parametrize("length", [31, 32, 33, 200])
def test_a_prompt_is_cropped_to_the_context(positions, length, use_cache):
    model, prompt = gpt(positions, context_length=32), tokens_of(length)
    if length > 32:
        with pytest.warns(CourseNotice, match=f"{length} characters; the model reads the last 32"):
            longer = written(model, prompt, 40, use_cache=use_cache)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            longer = written(model, prompt, 40, use_cache=use_cache)
    assert longer == written(model, prompt[-32:], 40)
    assert len(longer) == 40


def test_cropping():
    prompt = tokens_of(7)
    assert torch.equal(crop_prompt(prompt, 7), prompt)
    with pytest.warns(CourseNotice):
        assert torch.equal(crop_prompt(prompt, 3), prompt[4:])


@CACHE
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_inside_the_context_each_token_follows_from_all_before(positions, use_cache):
    model, prompt = gpt(positions, context_length=23), tokens_of(3)
    text = prompt.tolist()
    for _ in range(20):
        text.append(model(torch.tensor([text]))[0, -1].argmax().item())
    assert written(model, prompt, 20, use_cache=use_cache) == text[3:]


@pytest.mark.parametrize("positions", RELATIVE)
@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_past_the_context_a_window_slides(positions, n_layers):
    """The exact reference: one pass over the whole text, in which each token looks back five."""
    context = 5
    model, text = gpt(positions, context, n_layers=n_layers), tokens_of(29)
    places = torch.arange(len(text))
    x = model.token_embedding(text[None])
    for block in model.blocks:
        x, _ = block(x, places, causal_mask(places, places, window=context))
    whole = model.head(model.final_norm(x))[0]
    for length in range(1, len(text) + 1):
        logits = next_token_logits(model, text[:length])
        torch.testing.assert_close(logits, whole[length - 1], atol=2e-4, rtol=0)


def test_a_sliding_window_is_not_the_cropped_text():
    """With two layers, what lies before the window still matters through its neighbours."""
    model, text = gpt("rotary", 5), tokens_of(20)
    cropped = model(text[None, -5:])[0, -1]
    assert not torch.allclose(next_token_logits(model, text), cropped, atol=1e-2)


@pytest.mark.parametrize("positions", ABSOLUTE)
@pytest.mark.parametrize("context", [1, 2, 5, 8])
def test_past_the_context_absolute_positions_start_anew_from_the_last_half(positions, context):
    """Keep a buffer; when it is full and one more comes, drop all but its last half."""
    model, text = gpt(positions, context), tokens_of(4 * context + 3)
    buffer: list[int] = []
    for length, token in enumerate(text.tolist(), start=1):
        if len(buffer) == context:
            buffer = buffer[context - context // 2 :]
        buffer.append(token)
        expected = model(torch.tensor([buffer]))[0, -1]
        torch.testing.assert_close(next_token_logits(model, text[:length]), expected)


@CACHE
@pytest.mark.parametrize("positions", CHOICES["positions"])
def test_generating_is_asking_for_the_next_token_again_and_again(positions, use_cache):
    model, text, warm = gpt(positions, n_layers=3), tokens_of(3), Sampling(temperature=4.0)
    generator = torch.Generator().manual_seed(7)
    for _ in range(60):  # well past the context of five
        probabilities = next_token_probabilities(next_token_logits(model, text), warm)
        text = torch.cat([text, torch.multinomial(probabilities, 1, generator=generator)])
    assert written(model, text[:3], 60, warm, 7, use_cache) == text[3:].tolist()
    assert len(set(text.tolist())) > 3


# ---- several prompts, and the cache


MODELS = {
    **{name: {"positions": name} for name in CHOICES["positions"]},
    "yarn": {"positions": "rotary", "rotary_scaling": "yarn", "rotary_factor": 2.0},
    "window": {"positions": "alibi", "window": 2, "n_kv_heads": 1},
    "learned window": {"positions": "learned", "window": 3, "n_kv_heads": 2},
    "post": {"positions": "sinusoidal", "norm_placement": "post", "qk_norm": True},
}


@pytest.mark.parametrize("name", MODELS)
def test_prompts_of_unequal_length_are_continued_as_each_alone(name):
    """Well past the context, which the rows fill, and where they start anew, at other times."""
    model, length = gpt(**({"context_length": 9, "tied_head": False} | MODELS[name])), 30
    sampling = Sampling(temperature=2.0, top_k=9, top_p=0.9)
    prompts = [tokens_of(size, seed=size) for size in (4, 1, 9, 6, 1)]
    alone = [
        written(model, prompt, length, sampling, seed, use_cache=False)
        for seed, prompt in enumerate(prompts)
    ]
    assert len(set(map(tuple, alone))) == 5
    for use_cache in (True, False):
        generators = [torch.Generator().manual_seed(seed) for seed in range(5)]
        batch = generate_batch(model, prompts, length, sampling, generators, use_cache=use_cache)
        columns = list(batch)
        assert all(column.shape == (5,) and column.dtype == torch.int64 for column in columns)
        assert torch.stack(columns, dim=1).tolist() == alone
    for seed, prompt in enumerate(prompts):
        assert written(model, prompt, length, sampling, seed) == alone[seed]


@CACHE
def test_tokens_come_as_they_are_chosen(use_cache):
    model, calls = gpt(), []
    stream = generate(model, tokens_of(3), 10**12, GREEDY, torch.Generator(), use_cache=use_cache)
    assert [next(stream) for _ in range(7)] == written(model, tokens_of(3), 7)
    batch = generate_batch(model, [tokens_of(2)] * 2, 10**12, GREEDY, [torch.Generator()] * 2)
    calls.extend(next(batch).tolist() for _ in range(3))
    assert calls == [[token] * 2 for token in written(model, tokens_of(2), 3)]


def test_a_model_trained_between_two_texts_writes_with_its_new_weights():
    model, prompt = gpt(), tokens_of(3)
    written(model, prompt, 5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, fused=True)
    model(prompt[None]).square().mean().backward()
    optimizer.step()
    assert written(model, prompt, 20) == written(model, prompt, 20, use_cache=False)


def test_what_is_hooked_or_replaced_in_a_model_acts_with_the_cache_on():
    model, prompt = gpt(), tokens_of(3)
    before = written(model, prompt, 20)
    hook = model.blocks[0].attention.register_forward_hook(lambda *_: (torch.ones(24), None))
    changed = written(model, prompt, 20)
    assert changed == written(model, prompt, 20, use_cache=False) != before
    hook.remove()
    assert written(model, prompt, 20) == before


@CACHE
def test_refused_batches(use_cache):
    def begin(prompts, generators):
        batch = generate_batch(model, prompts, 3, GREEDY, generators, use_cache=use_cache)
        return next(batch)

    model, one = gpt(), torch.Generator()
    with pytest.raises(CourseError, match="prompt 2 of 3 is empty; give at least one token"):
        begin([tokens_of(2), tokens_of(0), tokens_of(1)], [one] * 3)
    with pytest.raises(CourseError, match="2 prompts came with 1 generators"):
        begin([tokens_of(2), tokens_of(1)], [one])
    with pytest.raises(CourseError, match="0 prompts came with 0 generators; give at least one"):
        begin([], [])


# ---- text


def test_text_is_written_character_by_character():
    tokenizer = CharTokenizer.from_text("abcdefghijklm")
    model = gpt(context_length=9)
    text = list(generate_text(model, tokenizer, "fab", 12, GREEDY))
    assert all(len(character) == 1 for character in text)
    assert tokenizer.encode("".join(text)).tolist() == written(model, tokenizer.encode("fab"), 12)
    again = "".join(generate_text(model, tokenizer, "fab", 30, seed=3, use_cache=False))
    assert again == "".join(generate_text(model, tokenizer, "fab", 30, seed=3))
    assert len(again) == 30


@pytest.mark.parametrize(
    ("vocabulary", "start"), [("\nabcdefghijkl", "\n"), ("abcdefghijklm", "a")]
)
def test_an_empty_prompt_starts_from_a_new_line_or_the_first_character(vocabulary, start):
    tokenizer, model = CharTokenizer(vocabulary), gpt()
    empty = "".join(generate_text(model, tokenizer, "", 9, GREEDY))
    assert empty == "".join(generate_text(model, tokenizer, start, 9, GREEDY))


def test_refusals():
    model = gpt()
    with pytest.raises(CourseError, match="the prompt is empty; give at least one token"):
        written(model, tokens_of(0), 3)
    with pytest.raises(CourseError, match="length=-1 must be a whole number, 0 or above"):
        written(model, tokens_of(3), -1)
    assert written(model, tokens_of(3), 0) == []
    with pytest.raises(CourseError, match=r"'z' U\+007A"):
        list(generate_text(model, CharTokenizer("abcdefghijklm"), "fez", 3))


def test_an_encoder_cannot_write():
    model = Encoder(GPTConfig(vocab_size=11, n_layers=1, d_model=8, n_heads=2))
    with pytest.raises(CourseError, match="an encoder sees the very token that it predicts"):
        next(generate(model, torch.tensor([1]), 3, Sampling(), torch.Generator()))
