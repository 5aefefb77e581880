"""Published models by the numbers that decide what they take: their caches, and their weights.

    bytes = layers · numbers of a token in a layer · tokens · batch · bytes of a number

A token leaves 2 · n_kv_heads · d_head numbers in a layer, or d_latent + d_rotary (multi-head latent
attention). The web page of the explorer has the same arithmetic; tests hold both together. Lesson
15 computes caches with the cards; lesson 17 builds the course's GPT from them and counts weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.model.config import GPTConfig, require_positive
from course_lib.runtime import CourseError

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}
RECIPES = {  # what the course's GPT has to be for a model of this family
    "gpt2": {},
    "llama": {
        "positions": "rotary",
        "norm": "rms_norm",
        "feed_forward": "swiglu",
        "bias": False,
        "tied_head": False,
    },
}


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What a model's paper, or its published configuration, says about its shape.

    d_model, n_layers, n_heads, n_kv_heads, d_head: as in GPTConfig; d_head · n_heads need not be
    d_model. context_length: the longest text it was made for. window: tokens that its layers look
    back, or None for all. d_latent, d_rotary: of multi-head latent attention, whose n_kv_heads is
    None. source: where the numbers stand.

    For its weights: recipe, one of RECIPES; vocab_size, d_ff, qkv_bias (queries, keys and values
    alone have one), qk_norm; n_experts, experts_per_token, d_expert (the width of one, None: d_ff),
    shared_experts (that all tokens pass through), dense_layers (the first ones, without experts);
    d_query: of the latent that queries are made of. vocab_size None: not on this card.
    parameters: counted in the weights that were released; None if they were not, or only rounded.
    claimed, claimed_active: all parameters, and those that a token uses, as its makers print them.
    """

    name: str
    d_model: int
    n_layers: int
    n_heads: int
    d_head: int
    context_length: int
    source: str
    n_kv_heads: int | None = None
    d_latent: int | None = None
    d_rotary: int | None = None
    window: int | None = None
    recipe: str = "llama"
    vocab_size: int | None = None
    d_ff: int | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    n_experts: int | None = None
    experts_per_token: int | None = None
    d_expert: int | None = None
    shared_experts: int = 0
    dense_layers: int = 0
    d_query: int | None = None
    parameters: int | None = None
    claimed: str | None = None
    claimed_active: str | None = None

    @property
    def kind(self) -> str:
        """Its attention: "MHA", "MQA", "GQA" or "MLA"."""
        if self.d_latent is not None:
            return "MLA"
        if self.n_kv_heads == self.n_heads:
            return "MHA"
        return "MQA" if self.n_kv_heads == 1 else "GQA"

    @property
    def numbers_per_layer(self) -> int:
        """What a cache keeps of one token in one layer."""
        if self.d_latent is not None:
            return self.d_latent + self.d_rotary
        return 2 * self.n_kv_heads * self.d_head


def cache_bytes(card: ModelCard, tokens: int, batch_size: int = 1, number: str = "bfloat16") -> int:
    """What the cache of batch_size texts of so many tokens takes.

    number: one of BYTES. A layer keeps no more than its window. CourseError for what cannot be.
    """
    require_positive("tokens", tokens)
    require_positive("batch_size", batch_size)
    if number not in BYTES:
        raise CourseError(f"number={number!r} is not known; use one of: {', '.join(BYTES)}")
    kept = tokens if card.window is None else min(tokens, card.window)
    return card.n_layers * card.numbers_per_layer * kept * batch_size * BYTES[number]


def config_of(card: ModelCard) -> GPTConfig:
    """The course's GPT in the shape of this model.

    Raises CourseError for what it has no part for: biases of queries, keys and values alone, heads
    that together are not as wide as the model, a latent of the published kind, shared experts.
    """
    lacking = {
        "its vocabulary is not on the card": card.vocab_size is None,
        "its latent has parts that the course's has not": card.d_latent is not None,
        "its queries, keys and values alone have a bias": card.qkv_bias,
        "its heads together are not as wide as d_model": card.n_heads * card.d_head != card.d_model,
        "some of its experts are shared": card.shared_experts > 0,
    }
    if why := [reason for reason, holds in lacking.items() if holds]:
        raise CourseError(
            f"the course's GPT cannot be a {card.name}: {why[0]}; lesson 17 counts it by a formula"
        )
    experts = {}
    if card.n_experts is not None:
        experts = {"n_experts": card.n_experts, "experts_per_token": card.experts_per_token}
    return GPTConfig(
        vocab_size=card.vocab_size,
        context_length=card.context_length,
        n_layers=card.n_layers,
        d_model=card.d_model,
        n_heads=card.n_heads,
        n_kv_heads=card.n_kv_heads,
        d_ff=card.d_ff,
        window=card.window,
        qk_norm=card.qk_norm,
        **experts,
        **RECIPES[card.recipe],
    )


LLAMA_2 = "Touvron et al. 2023, arXiv 2307.09288, table 1 and section 2.2, and the released config"
LLAMA_3 = "Grattafiori et al. 2024, arXiv 2407.21783, table 3, and the released config"
QWEN_25 = "Qwen Team 2024, arXiv 2412.15115, table 1, and the released config"
GPT_2 = "Radford et al. 2019, table 2, the released config, and the README of its code"

CARDS = (
    ModelCard(
        name="GPT-2 small",
        d_model=768,
        n_layers=12,
        n_heads=12,
        n_kv_heads=12,
        d_head=64,
        context_length=1024,
        source=GPT_2,
        recipe="gpt2",
        vocab_size=50_257,
        d_ff=3072,
        parameters=124_439_808,
        claimed="124M",
    ),
    ModelCard(
        name="GPT-2 XL",
        d_model=1600,
        n_layers=48,
        n_heads=25,
        n_kv_heads=25,
        d_head=64,
        context_length=1024,
        source=GPT_2,
        recipe="gpt2",
        vocab_size=50_257,
        d_ff=6400,
        parameters=1_557_611_200,
        claimed="1.5B",
    ),
    ModelCard(
        name="GPT-3 175B",
        d_model=12_288,
        n_layers=96,
        n_heads=96,
        n_kv_heads=96,
        d_head=128,
        context_length=2048,
        source="Brown et al. 2020, arXiv 2005.14165, table 2.1",
        recipe="gpt2",
        vocab_size=50_257,
        d_ff=49_152,
        claimed="175.0B",
    ),
    ModelCard(
        name="Falcon-7B",
        d_model=4544,
        n_layers=32,
        n_heads=71,
        n_kv_heads=1,
        d_head=64,
        context_length=2048,
        source="Almazrouei et al. 2023, arXiv 2311.16867, and the released config",
    ),
    ModelCard(
        name="Llama-2-7B",
        d_model=4096,
        n_layers=32,
        n_heads=32,
        n_kv_heads=32,
        d_head=128,
        context_length=4096,
        source=LLAMA_2,
        vocab_size=32_000,
        d_ff=11_008,
        parameters=6_738_415_616,
        claimed="7B",
    ),
    ModelCard(
        name="Llama-2-70B",
        d_model=8192,
        n_layers=80,
        n_heads=64,
        n_kv_heads=8,
        d_head=128,
        context_length=4096,
        source=LLAMA_2,
        vocab_size=32_000,
        d_ff=28_672,
        parameters=68_976_648_192,
        claimed="70B",
    ),
    ModelCard(
        name="Llama-3-8B",
        d_model=4096,
        n_layers=32,
        n_heads=32,
        n_kv_heads=8,
        d_head=128,
        context_length=8192,
        source=LLAMA_3,
        vocab_size=128_256,
        d_ff=14_336,
        parameters=8_030_261_248,
        claimed="8B",
    ),
    ModelCard(
        name="Llama-3-70B",
        d_model=8192,
        n_layers=80,
        n_heads=64,
        n_kv_heads=8,
        d_head=128,
        context_length=8192,
        source=LLAMA_3,
        vocab_size=128_256,
        d_ff=28_672,
        parameters=70_553_706_496,
        claimed="70B",
    ),
    ModelCard(
        name="Llama-3.1-405B",
        d_model=16_384,
        n_layers=126,
        n_heads=128,
        n_kv_heads=8,
        d_head=128,
        context_length=131_072,
        source=LLAMA_3,
        vocab_size=128_256,
        d_ff=53_248,
        parameters=405_853_388_800,
        claimed="405B",
    ),
    ModelCard(
        name="Mistral-7B",
        d_model=4096,
        n_layers=32,
        n_heads=32,
        n_kv_heads=8,
        d_head=128,
        context_length=8192,
        window=4096,
        source="Jiang et al. 2023, arXiv 2310.06825, table 1",
        vocab_size=32_000,
        d_ff=14_336,
        parameters=7_241_732_096,
        claimed="7B",
    ),
    ModelCard(
        name="Mixtral-8x7B",
        d_model=4096,
        n_layers=32,
        n_heads=32,
        n_kv_heads=8,
        d_head=128,
        context_length=32_768,
        source="Jiang et al. 2024, arXiv 2401.04088, table 1",
        vocab_size=32_000,
        d_ff=14_336,
        n_experts=8,
        experts_per_token=2,
        parameters=46_702_792_704,
        claimed="47B",
        claimed_active="13B",
    ),
    ModelCard(
        name="Qwen2.5-7B",
        d_model=3584,
        n_layers=28,
        n_heads=28,
        n_kv_heads=4,
        d_head=128,
        context_length=131_072,
        source=QWEN_25,
        vocab_size=152_064,
        d_ff=18_944,
        qkv_bias=True,
        parameters=7_615_616_512,
        claimed="7B",
    ),
    ModelCard(
        name="Qwen2.5-72B",
        d_model=8192,
        n_layers=80,
        n_heads=64,
        n_kv_heads=8,
        d_head=128,
        context_length=131_072,
        source=QWEN_25,
        vocab_size=152_064,
        d_ff=29_568,
        qkv_bias=True,
        parameters=72_706_203_648,
        claimed="72B",
    ),
    ModelCard(
        name="Qwen3-8B",
        d_model=4096,
        n_layers=36,
        n_heads=32,
        n_kv_heads=8,
        d_head=128,
        context_length=131_072,
        source="Qwen Team 2025, arXiv 2505.09388, table 1, and the released config",
        vocab_size=151_936,
        d_ff=12_288,
        qk_norm=True,
        parameters=8_190_735_360,
        claimed="8.2B",
    ),
    ModelCard(
        name="DeepSeek-V2",
        d_model=5120,
        n_layers=60,
        n_heads=128,
        d_head=128,
        d_latent=512,
        d_rotary=64,
        context_length=131_072,
        source="DeepSeek-AI 2024, arXiv 2405.04434, section 3.1.2, and the released config",
        vocab_size=102_400,
        d_ff=12_288,
        n_experts=160,
        experts_per_token=6,
        d_expert=1536,
        shared_experts=2,
        dense_layers=1,
        d_query=1536,
        claimed="236B",
        claimed_active="21B",
    ),
    ModelCard(
        name="DeepSeek-V3",
        d_model=7168,
        n_layers=61,
        n_heads=128,
        d_head=128,
        d_latent=512,
        d_rotary=64,
        context_length=131_072,
        source="DeepSeek-AI 2024, arXiv 2412.19437, section 4.2, and the released config",
        vocab_size=129_280,
        d_ff=18_432,
        n_experts=256,
        experts_per_token=8,
        d_expert=2048,
        shared_experts=1,
        dense_layers=3,
        d_query=1536,
        claimed="671B",
        claimed_active="37B",
    ),
)


def card_of(name: str) -> ModelCard:
    """The card of this name; CourseError if there is none."""
    for card in CARDS:
        if card.name == name:
            return card
    raise CourseError(
        f"there is no card of {name!r}; use one of: {', '.join(card.name for card in CARDS)}"
    )
