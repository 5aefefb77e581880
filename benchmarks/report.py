"""Raw numbers in, a Markdown table out: medians, their spread, and how many times as fast.

The ratio is that of the medians; beside it stand the smallest and the largest ratio of a single
round, in which both contestants ran one after the other.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.machine import gains_by_bfloat16


@dataclass(frozen=True, kw_only=True)
class Row:
    """A contender beside its baseline, one number a round each.

    unit: "s", where less is faster, or a rate such as "tokens/s". must, aim: the ratio to reach.
    note: what the ratio alone would hide, e.g. how many runs reached their loss. counts: whether
        there is a ratio at all; a loss that was not reached was not reached in any time.
    """

    what: str
    baseline: str
    baseline_values: Sequence[float]
    contender: str
    values: Sequence[float]
    unit: str = "tokens/s"
    must: float | None = None
    aim: float | None = None
    note: str = ""
    counts: bool = True

    @property
    def ratio(self) -> float:
        """How many times as fast the contender is, by the medians."""
        return self._faster(statistics.median(self.baseline_values), statistics.median(self.values))

    @property
    def ratio_spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of one round."""
        ratios = [
            self._faster(*pair) for pair in zip(self.baseline_values, self.values, strict=True)
        ]
        return min(ratios), max(ratios)

    def _faster(self, baseline: float, contender: float) -> float:
        return baseline / contender if self.unit == "s" else contender / baseline


def must_with_bfloat16(with_it: float, without: float) -> float:
    """The ratio to reach on this processor, which gains by bfloat16 or does not."""
    return with_it if gains_by_bfloat16() else without


def number(value: float) -> str:
    """Three significant digits: 0.0123, 4.56, 78.9; whole numbers from 100 on: 1,234."""
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def with_spread(values: Sequence[float]) -> str:
    """The median, and in brackets the smallest and the largest."""
    median = number(statistics.median(values))
    return f"{median} ({number(min(values))}–{number(max(values))})"


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Cells as a Markdown table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def ratio_table(rows: Sequence[Row]) -> str:
    """The rows as Markdown: the same columns for every comparison."""
    header = ["case", "baseline", "contender", "times as fast", "must", "aim", "note"]
    lines = []
    for row in rows:
        low, high = row.ratio_spread
        lines.append(
            [
                row.what,
                f"{row.baseline}: {with_spread(row.baseline_values)} {row.unit}",
                f"{row.contender}: {with_spread(row.values)} {row.unit}",
                f"**{number(row.ratio)}** ({number(low)}–{number(high)})" if row.counts else "none",
                "" if row.must is None else f"{row.must:g}",
                "" if row.aim is None else f"{row.aim:g}",
                row.note,
            ]
        )
    return markdown_table(header, lines)


def provenance(conditions: Mapping[str, Any], date: str, rounds: int, json_name: str) -> str:
    """Where the numbers come from, as a list in Markdown."""
    machine = conditions["machine"]
    return (
        f"- Machine: {machine['processor']}, cores: {machine['cores']}, bfloat16 instructions: "
        f"{machine['bfloat16']}; {machine['system']}, Python {machine['python']}, "
        f"torch {machine['torch']}"
        + (f"; GPU: {machine['gpu']}" if "gpu" in machine else "")
        + f"\n- Measured on {date} by `{conditions['command']}`; rounds: {rounds}, the contestants "
        "of a round one after the other. A number is the median of the rounds, in brackets the "
        f"smallest and the largest.\n- Every raw number: {json_name}. Code: {conditions['code']}.\n"
    )
