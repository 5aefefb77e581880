"""The steps of attention by tiles, in numbers and words, for the explorer that shows them.

A step is a dictionary: what is fetched or written, the scores of its tile, what each of its queries
knows afterwards, and a sentence for each that says how. Computed with the library's own parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.model.flash import causal_tiles, tiles, visited_tiles
from course_lib.model.online_softmax import Partial, merge, nothing_read, read_tile, tile_scores

Step = dict[str, Any]


def flash_steps(
    labels: Sequence[str],
    query: Tensor,  # (token, d)
    key: Tensor,  # (token, d)
    value: Tensor,  # (token, d_value)
    query_tile: int,
    key_tile: int,
) -> Iterator[Step]:
    """All steps of causal attention by tiles, in order.

    kind: "fetch" (a tile of queries), "tile" (keys and values that it meets), "write" (its
    outputs). rows and columns: from and to; numbers: how many are moved; title; and one entry a
    query: known (largest, total, mixed, at the end output) and said. Numbers are text.
    """
    places = torch.arange(len(labels))
    for rows in tiles(len(labels), query_tile):
        own, asking = query[rows], labels[rows]
        known = nothing_read(own, value)
        yield {
            "kind": "fetch",
            "rows": [rows.start, rows.stop],
            "numbers": own.numel(),
            "title": f"Fetch the queries of {_list(asking)}. They stay until their rows are done.",
            "known": _shown(known),
            "said": [f"{label} has read nothing yet." for label in asking],
        }
        for columns, may_attend in visited_tiles(
            rows, len(labels), causal_tiles(places, places), key_tile
        ):
            tile = read_tile(own, key[columns], value[columns], may_attend)
            after = merge(known, tile)
            yield {
                "kind": "tile",
                "rows": [rows.start, rows.stop],
                "columns": [columns.start, columns.stop],
                "numbers": key[columns].numel() + value[columns].numel(),
                "title": f"Fetch keys and values of {_list(labels[columns])}. Their scores are "
                "used at once, and never written.",
                "scores": _texts(tile_scores(own, key[columns], may_attend)),
                "known": _shown(after),
                "said": _sentences(asking, known, tile, after),
            }
            known = after
        outputs = [_list(row) for row in _texts(known.output())]
        last = [
            row | {"output": output} for row, output in zip(_shown(known), outputs, strict=True)
        ]
        yield {
            "kind": "write",
            "rows": [rows.start, rows.stop],
            "numbers": known.mixed.numel(),
            "title": f"Write the outputs of {_list(asking)}: mixed / total.",
            "known": last,
            "said": [
                f"{label}: output = {row['mixed']} / {row['total']} = {row['output']}"
                for label, row in zip(asking, last, strict=True)
            ],
        }


def _sentences(asking: Sequence[str], before: Partial, tile: Partial, after: Partial) -> list[str]:
    """For each query of a tile, how its sums came about."""
    factor = (before.largest - after.largest).exp()
    added = tile.total * (tile.largest - after.largest).exp()
    columns = (
        before.largest,
        tile.largest,
        after.largest,
        before.total,
        factor,
        added,
        after.total,
    )
    rows = torch.cat(columns, dim=-1).tolist()
    return [_sentence(label, *row) for label, row in zip(asking, rows, strict=True)]


def _sentence(
    label: str, old: float, own: float, new: float, *sums: float
) -> str:  # sums: total before, factor, what the tile adds, total after
    if own == -math.inf:
        return f"{label} may read none of these keys: nothing changes for it."
    before, factor, added, after = map(_number, sums)
    if old == -math.inf:
        return f"{label}: its first scores. The largest is {_number(new)}, the total {after}."
    if new > old:
        power = f"{_number(old)} − {_signed(new)}"
        change = (
            f"the largest score rises from {_number(old)} to {_number(new)}, so what it had is "
            f"multiplied by e^({power}) = {factor}"
        )
    else:
        change = f"the largest score stays {_number(new)}"
    return f"{label}: {change}. total = {before} · {factor} + {added} = {after}"


def _shown(known: Partial) -> list[dict[str, str]]:
    """largest, total and mixed of each query, as text."""
    columns = [[_list(numbers) for numbers in _texts(part)] for part in known]
    names = ("largest", "total", "mixed")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _texts(matrix: Tensor) -> list[list[str]]:
    return [[_number(number) for number in row] for row in matrix.tolist()]


def _number(number: float) -> str:
    """Two digits, a true minus, no −0."""
    if math.isinf(number):
        return "∞" if number > 0 else "−∞"
    return f"{round(number, 2) + 0.0:.2f}".replace("-", "−")


def _signed(number: float) -> str:
    """A number to be subtracted: in brackets if it is below 0."""
    return f"({_number(number)})" if number < 0 else _number(number)


def _list(words: Sequence[str]) -> str:
    return ", ".join(words)
