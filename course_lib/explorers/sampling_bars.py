"""What temperature, top-k and top-p make of a distribution, in the numbers that bars are drawn of.

Thin: each number is generation.next_token_probabilities, with no filter, with the temperature, with
top-k besides, and with all. They only lower or raise probabilities; their order stays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from course_lib.data.tokenizer import CharTokenizer
from course_lib.generation import Sampling, next_token_probabilities
from course_lib.plots.labels import visible
from course_lib.runtime import CourseError

MOST_BARS = 24  # characters that have a bar of their own
FATES = ("temperature", "top-k", "top-p")  # what can remove a character, in this order


def sampling_bars(
    logits: Tensor,  # (vocab_size,)
    sampling: Sampling,
    tokenizer: CharTokenizer,
    drawn: int | None = None,
) -> dict[str, Any]:
    """The likeliest characters, the others together, and what was removed by which filter.

    bars, the likeliest first: label, raw (its probability at temperature 1), heated (at this
    temperature), final (after the filters), fate ("kept", or what removed it: one of FATES).
    others: the same numbers added up, and how many they are. kept: how many characters are left, of
    all (`of`). removed: for each of FATES how many, and how much of the heated probability. drawn:
    the drawn token's rank, from 0, and its bar. Raises CourseError for logits that are NaN.
    """
    raw = next_token_probabilities(logits, Sampling())
    if raw.isnan().any():
        raise CourseError(
            "the model's scores are not numbers (NaN), so there are no probabilities to show; go "
            "back to an earlier checkpoint or lower the learning rate"
        )
    heated = next_token_probabilities(logits, Sampling(temperature=sampling.temperature))
    after_k = next_token_probabilities(logits, replace(sampling, top_p=None))
    final = next_token_probabilities(logits, sampling)
    gone = {"temperature": heated == 0, "top-k": after_k == 0, "top-p": final == 0}
    order = logits.double().sort(descending=True, stable=True).indices

    def fate(token: int) -> str:
        return next((name for name in FATES if gone[name][token]), "kept")

    def numbers(tokens: Tensor) -> dict[str, float]:
        stages = {"raw": raw, "heated": heated, "final": final}
        return {name: stage[tokens].sum().item() for name, stage in stages.items()}

    def bar(token: Tensor) -> dict[str, Any]:
        label = visible(tokenizer.decode([token.item()]))
        return {"label": label, **numbers(token), "fate": fate(token.item())}

    removed, before = {}, heated.new_zeros(len(heated)).bool()
    for name in FATES:
        here = gone[name] & ~before
        removed[name] = {"count": here.sum().item(), "heated": heated[here].sum().item()}
        before = before | here
    others = order[MOST_BARS:]
    return {
        "bars": [bar(token) for token in order[:MOST_BARS]],
        "others": {
            "count": len(others),
            "kept": (final[others] > 0).sum().item(),
            **numbers(others),
        },
        "kept": (final > 0).sum().item(),
        "of": len(final),
        "removed": removed,
        "drawn": None if drawn is None else _drawn(order, drawn, bar),
    }


def _drawn(order: Tensor, token: int, bar) -> dict[str, Any]:
    rank = (order == token).nonzero().item()
    return {"rank": rank, **bar(order[rank])}
