"""Contestants take turns, A B A B, in one process with the same threads, and every number is kept.

A machine is never as quiet twice: what is compared must run side by side. So the unit is a round,
in which each contestant of a case runs once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.machine import code_digest, describe_machine, load
from benchmarks.report import Row, provenance, ratio_table
from benchmarks.store import Measurement, Results, Store
from course_lib.runtime import replace_file, set_threads

Contestant = Callable[[int], Measurement]  # is given the number of the round
Say = Callable[[str], None]

TOY = "**Toy sizes (--quick-check): these numbers mean nothing.**"


class Unavailable(Exception):
    """A comparison that cannot be run here; the message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asked for.

    seeds: seeds of trainings. threads: None for those of the comparison. quick_check: toy sizes.
    loss: the loss to reach, instead of the baseline's own. device, peak_tflops: for the GPU's.
    """

    seeds: int = 3
    threads: int | None = None
    quick_check: bool = False
    loss: float | None = None
    device: str | None = None
    peak_tflops: float | None = None

    def as_arguments(self) -> str:
        """The options as they are typed, those left at their default left out."""
        given = [f"--seeds {self.seeds}"] if self.seeds != 3 else []
        for name in ("threads", "loss", "device", "peak_tflops"):
            if (value := getattr(self, name)) is not None:
                given.append(f"--{name.replace('_', '-')} {value}")
        return " ".join([*given, "--quick-check"] if self.quick_check else given)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Contestants that do the same work, each with a name."""

    name: str
    contestants: Mapping[str, Contestant]
    threads: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared, how often, and what is read from it.

    minutes: about how long it takes on two cores. rows: the table, from the results. details:
    Markdown for below the table. about: what else the numbers depend on, such as a GPU's name.
    """

    title: str
    question: str
    cases: Sequence[Case]
    rounds: int
    minutes: float
    rows: Callable[[Results], Sequence[Row]]
    details: Callable[[Results], str] = lambda results: ""
    about: Mapping[str, str] = field(default_factory=dict)


def conditions_of(name: str, comparison: Comparison, options: Options) -> dict[str, Any]:
    """Under what the numbers were measured: rounds under other conditions are never mixed."""
    command = f"python -m benchmarks {name} {options.as_arguments()}".strip()
    return {
        "comparison": name,
        "command": command,
        "machine": {**describe_machine(), **comparison.about},
        "code": code_digest(),
        "rounds": comparison.rounds,
        "threads": {case.name: case.threads for case in comparison.cases},
    }


def run_comparison(
    name: str, comparison: Comparison, options: Options, folder: Path, say: Say, again: bool = False
) -> str:
    """Measure what is not measured yet, write NAME.json and NAME.md, return the table."""
    conditions = conditions_of(name, comparison, options)
    store = Store(folder / f"{name}.json", conditions, again=again)
    total = comparison.rounds * len(comparison.cases)
    say(f"{comparison.title}: about {max(1, round(comparison.minutes))} min in all")
    if store.found == total:
        say(f"measured already, on {store.date}; --again measures anew")
    elif store.found:
        say(f"going on: {store.found} of {total} rounds were measured on {store.date}")
    elif store.replaces:
        say("what is there was measured with other code, machine or options: measuring anew")
    _measure(comparison, store, total, say)
    text = report(comparison, store, options.quick_check)
    replace_file(folder / f"{name}.md", text.encode("utf-8"))
    return text


def report(comparison: Comparison, store: Store, toy: bool) -> str:
    """The whole page in Markdown."""
    results, conditions = store.results(), store.data["conditions"]
    parts = [
        f"# {comparison.title}",
        *([TOY] if toy else []),
        comparison.question,
        ratio_table(comparison.rows(results)),
        comparison.details(results),
        provenance(conditions, store.date, comparison.rounds, store.path.name),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _measure(comparison: Comparison, store: Store, total: int, say: Say) -> None:
    started, done, left = time.perf_counter(), 0, total - store.found
    for number in range(comparison.rounds):
        for case in comparison.cases:
            if store.has(case.name, number):
                continue
            set_threads(case.threads)
            say(f"round {number + 1} of {comparison.rounds}, {case.name} (threads: {case.threads})")
            busy, measured = load(), {}
            for name, contestant in case.contestants.items():
                measured[name] = contestant(number)
                say(f"    {name}: {told(measured[name])}")
            store.add(case.name, number, measured, load=busy)
            done += 1
            minutes = (time.perf_counter() - started) / done * (left - done) / 60
            say(f"    about {minutes:.1f} min left")


def told(measurement: Measurement) -> str:
    """A measurement in words, for the progress line."""
    parts = [f"{measurement['seconds']:.2f} s"]
    if "tokens" in measurement:
        parts.append(f"{measurement['tokens'] / max(measurement['seconds'], 1e-9):,.0f} tokens/s")
    if measurement.get("loss") is not None:
        parts.append(f"loss {measurement['loss']:.4f}")
    return ", ".join(parts)


def repeat(
    step: Callable[[], object],
    *,
    tokens: int,
    seconds: float,
    at_least: int = 3,
    warm_up: int = 2,
    wait: Callable[[], object] = lambda: None,
) -> Measurement:
    """Repeat a step of so many tokens for about so many seconds, after some that do not count.

    wait: returns when the device has done what it was given; a GPU works while Python goes on.
    """
    for _ in range(warm_up):
        step()
    wait()
    steps, started = 0, time.perf_counter()
    while steps < at_least or time.perf_counter() - started < seconds:
        step()
        steps += 1
    wait()
    elapsed = time.perf_counter() - started
    return {"steps": steps, "tokens": steps * tokens, "seconds": elapsed}
