"""Published models by the numbers that decide what their caches take. Lesson 15 computes with them.

    bytes = layers · numbers of a token in a layer · tokens · batch · bytes of a number

A token leaves 2 · n_kv_heads · d_head numbers in a layer, or d_latent + d_rotary (multi-head latent
attention). The web page of the explorer has the same arithmetic; tests hold both together.
"""

from __future__ import annotations

from dataclasses import dataclass

from course_lib.model.config import require_positive
from course_lib.runtime import CourseError

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1}


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """What a model's paper, or its published configuration, says about its attention.

    d_model, n_layers, n_heads, n_kv_heads, d_head: as in GPTConfig; d_head · n_heads need not be
    d_model. context_length: the longest text it was made for. window: tokens that its layers look
    back, or None for all. d_latent, d_rotary: of multi-head latent attention, whose n_kv_heads is
    None. source: where the numbers stand.
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


LLAMA_2 = "Touvron et al. 2023, arXiv 2307.09288, table 1 and section 2.2, and the released config"
LLAMA_3 = "Grattafiori et al. 2024, arXiv 2407.21783, table 3"
QWEN_25 = "Qwen Team 2024, arXiv 2412.15115, table 1, and the released config"

CARDS = (
    ModelCard(
        name="GPT-2 small",
        d_model=768,
        n_layers=12,
        n_heads=12,
        n_kv_heads=12,
        d_head=64,
        context_length=1024,
        source="Radford et al. 2019, table 2, and the released config",
    ),
    ModelCard(
        name="GPT-2 XL",
        d_model=1600,
        n_layers=48,
        n_heads=25,
        n_kv_heads=25,
        d_head=64,
        context_length=1024,
        source="Radford et al. 2019, table 2, and the released config",
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
        source="DeepSeek-AI 2024, arXiv 2405.04434, section 3.1.2",
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
        source="DeepSeek-AI 2024, arXiv 2412.19437, section 4.2",
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
