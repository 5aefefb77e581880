"""What the position explorer shows, in numbers: all of them from the library's positions.

Nested lists, as they travel to the browser. Nothing is worked out there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from course_lib.model.attention import attention_weights, causal_mask
from course_lib.model.positions import (
    ALiBi,
    RotaryPositions,
    SinusoidalPositions,
    alibi_slopes,
    rotary_angles,
    rotary_frequencies,
)
from course_lib.plots.labels import visible
from course_lib.runtime import CourseError

MOST = 0.9  # of the weight: how far back a head of ALiBi reads


def named_words(
    d_head: int, words: Mapping[str, tuple[Tensor, Tensor]]
) -> dict[str, tuple[Tensor, Tensor]]:
    """The named queries and keys, those of the caller first."""
    for name, pair in words.items():
        for part, vector in zip(("query", "key"), pair, strict=True):
            if tuple(vector.shape) != (d_head,) or not vector.isfinite().all():
                raise CourseError(
                    f"the {part} of {name!r} has shape {tuple(vector.shape)}; give d_head={d_head} "
                    "finite numbers"
                )
    right = torch.zeros(d_head)
    right[: d_head // 2] = 1  # each pair is (1, 0): an arrow to the right
    ahead = RotaryPositions().rotate(right[None, None, None], torch.tensor([7])).flatten()
    alike = {"key = query": (right, right), "key = query, turned 7 ahead": (right, ahead)}
    return {**words, **alike}


def sinusoidal_numbers(length: int, d_model: int) -> dict:
    """The vectors of all positions, the wavelength of each pair, and all dot products."""
    vectors = SinusoidalPositions(d_model)(torch.arange(length))  # (position, d_model)
    return {
        "vectors": _rounded(vectors),
        "wavelengths": _rounded(2 * math.pi / rotary_frequencies(d_model)),
        "products": _rounded(vectors @ vectors.T),
    }


def rotary_numbers(length: int, words: Mapping[str, tuple[Tensor, Tensor]]) -> dict:
    """Angles, and for each named query and key their turned pairs and products at all positions.

    queries, keys: (pair, position, 2); scores: (query position, key position), of the whole head;
    parts: (pair, distance), what each pair adds, for the distances m − n = 1 − length … length − 1;
    sums: (distance,), of all pairs.
    """
    d_head = next(iter(words.values()))[0].numel()
    positions = torch.arange(length)
    frequencies = rotary_frequencies(d_head)
    rotary, shown = RotaryPositions(), []
    distances = torch.arange(1 - length, length)
    for name, pair in words.items():
        query, key = (
            rotary.rotate(part.detach().float().expand(1, 1, length, d_head), positions)[0, 0]
            for part in pair
        )  # (position, d_head) each
        queries, keys = (part.unflatten(-1, (2, -1)).permute(2, 0, 1) for part in (query, key))
        met = queries[:, distances.clamp(min=0)] * keys[:, (-distances).clamp(min=0)]
        one = {"queries": queries, "keys": keys, "scores": query @ key.T, "parts": met.sum(dim=-1)}
        one["sums"] = one["parts"].sum(dim=0)
        numbers = {what: _rounded(values) for what, values in one.items()}
        shown.append({"name": visible(name).replace("␣", " "), **numbers})
    return {
        "frequencies": _rounded(frequencies, 6),
        "angles": _rounded(rotary_angles(positions, frequencies).T),  # (pair, position)
        "words": shown,
    }


def alibi_numbers(length: int, n_heads: int) -> dict:
    """For each head: slope, penalty by distance, and how the last query reads equal scores.

    weights: (head, distance); halves: tokens until the weight is halved; reach: how many of the
    nearest tokens get 90% of the weight. from_double: heads whose slope is of twice the power.
    """
    positions = torch.arange(length)
    alibi, slopes = ALiBi(n_heads), alibi_slopes(n_heads)
    bias = alibi.score_bias(positions[-1:], positions)  # (head, 1, position)
    equal = torch.zeros(n_heads, length, 1)
    may_attend = causal_mask(positions[-1:], positions)
    weights = attention_weights(equal[:, :1], equal, may_attend, bias)[:, 0].flip(-1)
    return {
        "n_heads": n_heads,
        "slopes": _rounded(slopes, 8),
        "from_double": n_heads - 2 ** math.floor(math.log2(n_heads)),
        "penalties": _rounded(bias[:, 0].flip(-1)),
        "weights": _rounded(weights),
        "halves": _rounded(math.log(2) / slopes),
        "reach": ((weights.cumsum(dim=-1) < MOST).sum(dim=-1) + 1).tolist(),
    }


def _rounded(numbers: Tensor, digits: int = 5) -> list:
    """Nested lists with as many digits as a picture needs, so that less travels."""
    if numbers.ndim > 1:
        return [_rounded(row, digits) for row in numbers]
    return [round(number, digits) + 0.0 for number in numbers.tolist()]  # + 0.0: no −0
