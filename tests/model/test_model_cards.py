"""Published models' caches: against numbers published elsewhere, and against a real cache."""

from dataclasses import replace

import pytest
import torch

from course_lib.model.cache import CachedGPT
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.model.model_cards import BYTES, CARDS, ModelCard, cache_bytes, card_of, config_of
from course_lib.runtime import CourseError


@pytest.mark.parametrize(
    ("name", "tokens", "number", "expected"),
    [
        ("Llama-2-70B", 4096, "bfloat16", 1_342_177_280),  # lesson 12's
        ("Llama-2-7B", 1, "float16", 524_288),  # half a mebibyte a token
        ("GPT-3 175B", 2048, "float16", 9_663_676_416),  # 4.5 MiB a token
        ("GPT-2 small", 1024, "float32", 75_497_472),  # 72 MiB
        ("Llama-3-8B", 1, "bfloat16", 131_072),  # 128 KiB
        ("DeepSeek-V3", 1, "bfloat16", 70_272),  # arXiv 2505.09343, table 1: 70.272 KB a token
        ("Qwen2.5-72B", 1, "bfloat16", 327_680),  # the same table: 327.680 KB
        ("Llama-3.1-405B", 1, "bfloat16", 516_096),  # the same table: 516.096 KB
        ("Mistral-7B", 8192, "bfloat16", 131_072 * 4096),  # no more than its window
        ("Mistral-7B", 100, "bfloat16", 131_072 * 100),
        ("DeepSeek-V2", 7, "int8", 60 * 576 * 7),
    ],
)
def test_known_caches(name, tokens, number, expected):
    assert cache_bytes(card_of(name), tokens, number=number) == expected
    assert cache_bytes(card_of(name), tokens, 3, number) == 3 * expected


@pytest.mark.parametrize(
    "values",
    [
        {"n_kv_heads": 6},
        {"n_kv_heads": 2},
        {"n_kv_heads": 1, "window": 5},
        {"d_latent": 7, "d_rotary": 4},
    ],
    ids=str,
)
def test_the_formula_is_what_the_courses_own_cache_takes(values):
    shape = {"d_model": 30, "n_layers": 3, "n_heads": 6, "context_length": 11}
    config = {"vocab_size": 13, **shape, "d_model": 36, "positions": "rotary", **values}
    model = GPT(GPTConfig(**config))
    card = ModelCard(name="ours", source="here", d_head=6, **{**shape, "d_model": 36}, **values)
    for number, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        assert CachedGPT(model.to(dtype), 5).bytes == cache_bytes(card, 11, 5, number)


def test_cards_fit_together():
    assert len({card.name for card in CARDS}) == len(CARDS)
    for card in CARDS:
        assert card.n_heads % (card.n_kv_heads or 1) == 0
        assert (card.d_latent is None) == (card.d_rotary is None) == (card.n_kv_heads is not None)
        assert card.source
        if card.kind != "MLA":
            assert card.n_heads * card.d_head == card.d_model
    kinds = {card.name: card.kind for card in CARDS}
    assert kinds["GPT-3 175B"] == kinds["Llama-2-7B"] == "MHA"
    assert (kinds["Falcon-7B"], kinds["Llama-3-8B"], kinds["DeepSeek-V2"]) == ("MQA", "GQA", "MLA")


def test_deepseek_v2_would_need_57_times_as_much_with_heads_of_its_own():
    card = card_of("DeepSeek-V2")
    assert 2 * card.n_heads * card.d_head / card.numbers_per_layer == pytest.approx(56.9, abs=0.05)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_the_courses_gpt_in_a_models_shape_has_the_released_number_of_parameters(card):
    try:
        config = config_of(card)
    except CourseError:
        assert card.vocab_size is None or card.kind == "MLA" or card.qkv_bias
        return
    with torch.device("meta"):
        found = count_parameters(GPT(config))
    assert found == (174_604_259_328 if card.name == "GPT-3 175B" else card.parameters)
    assert (config.kv_heads, config.d_head, config.window) == (
        card.n_kv_heads,
        card.d_head,
        card.window,
    )


def test_what_makers_claim_is_about_what_was_counted():
    for card in CARDS:
        if card.parameters:
            unit = {"M": 1e6, "B": 1e9}[card.claimed[-1]]
            assert card.parameters / (float(card.claimed[:-1]) * unit) == pytest.approx(1, abs=0.09)
        assert (card.claimed_active is None) == (card.n_experts is None)


@pytest.mark.parametrize(
    ("name", "values", "why"),
    [
        ("Falcon-7B", {}, "its vocabulary is not on the card"),
        ("DeepSeek-V3", {}, "its latent has parts"),
        ("Qwen2.5-7B", {}, "alone have a bias"),
        ("Qwen3-8B", {"d_head": 127}, "its heads together are not as wide as d_model"),
        ("Mixtral-8x7B", {"shared_experts": 1}, "some of its experts are shared"),
    ],
)
def test_what_the_courses_gpt_cannot_be_is_refused(name, values, why):
    with pytest.raises(CourseError, match=f"the course's GPT cannot be a {name}: .*{why}.*formula"):
        config_of(replace(card_of(name), **values))


def test_refusals():
    card = CARDS[0]
    with pytest.raises(CourseError, match="no card of 'GPT-5'; use one of: GPT-2 small, GPT-2 XL"):
        card_of("GPT-5")
    with pytest.raises(CourseError, match="tokens=0 must be a whole number of at least 1"):
        cache_bytes(card, 0)
    with pytest.raises(CourseError, match=r"batch_size=1\.5 must be a whole number"):
        cache_bytes(card, 1, 1.5)
    with pytest.raises(
        CourseError, match=f"number='fp4' is not known; use one of: {', '.join(BYTES)}"
    ):
        cache_bytes(card, 1, number="fp4")
