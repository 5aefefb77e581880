"""Writing with a cache beside writing that computes the whole window anew for each token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from benchmarks.harness import Case, Comparison, Contestant, Options, repeat
from benchmarks.report import Row
from benchmarks.store import Measurement, Results
from course_lib.generation import Sampling, generate_batch
from course_lib.model.cache import CachedGPT
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters, evaluating

RECOMPUTE, CACHED, GENERATE = "recomputing", "CachedGPT", "generate_batch"
VOCABULARY = 63  # as Shakespeare has
ROUNDS = 5
SECONDS = 1.0  # of measuring, each contestant, each round


@dataclass(frozen=True)
class Workload:
    """A shape, how many texts are written at once, and the ratios to reach."""

    shape: Mapping[str, int]
    batch_size: int
    must: float | None = None
    aim: float | None = None


SMALL = {"context_length": 64, "n_layers": 4, "n_heads": 4, "d_model": 128}
LARGE = {"context_length": 256, "n_layers": 6, "n_heads": 6, "d_model": 384}
TOY = {"context_length": 8, "n_layers": 2, "n_heads": 2, "d_model": 8}
WORKLOADS = {
    "0.8M, context 64, batch 1": Workload(SMALL, 1, 3.5, 10),
    "0.8M, context 64, batch 16": Workload(SMALL, 16, 12, 40),
    "10.65M, context 256, batch 1": Workload(LARGE, 1, 10, 25),
    "10.65M, context 256, batch 16": Workload(LARGE, 16, 30, 100),
}
TOY_WORKLOADS = {"toy, batch 1": Workload(TOY, 1), "toy, batch 3": Workload(TOY, 3)}


def make(options: Options) -> Comparison:
    """The comparison for each shape and batch size, with the window full."""
    workloads = TOY_WORKLOADS if options.quick_check else WORKLOADS
    seconds = 0.0 if options.quick_check else SECONDS
    cases = [
        Case(
            name=name,
            contestants=contestants(workload, seconds, torch.device("cpu")),
            threads=options.threads or 1,
        )
        for name, workload in workloads.items()
    ]
    return Comparison(
        title="Writing: with a cache against recomputing the window",
        question=(
            "The window is full: each new token pushes the oldest out. *recomputing* runs the "
            "model over the last `context_length` tokens for each one; *CachedGPT* gives the model "
            "the newest token alone; both then take the likeliest. *generate_batch* is CachedGPT "
            "with all that `generate_batch` does besides, drawing each text's token with its own "
            "generator. Random weights, rotary positions, the rest as in preset `plain`."
        ),
        cases=cases,
        rounds=ROUNDS,
        minutes=0 if options.quick_check else 4,
        rows=lambda results: [row for name in workloads for row in rows(results, name, workloads)],
    )


def rows(results: Results, name: str, workloads: Mapping[str, Workload]) -> list[Row]:
    """The cache, and generation as a whole, against recomputing."""
    workload = workloads[name]
    base = {"baseline": RECOMPUTE, "baseline_values": results.rates(name, RECOMPUTE)}
    goal = {"must": workload.must, "aim": workload.aim}
    return [
        Row(what=name, **base, contender=CACHED, values=results.rates(name, CACHED), **goal),
        Row(what=name, **base, contender=GENERATE, values=results.rates(name, GENERATE)),
    ]


def contestants(
    workload: Workload,
    seconds: float,
    device: torch.device,
    wait: Callable[[], object] = lambda: None,
) -> dict[str, Contestant]:
    """The three ways of writing with one model, each from a full window of random tokens."""
    torch.manual_seed(0)
    config = GPTConfig(vocab_size=VOCABULARY, positions="rotary", **workload.shape)
    model = GPT(config).eval().to(device)
    tokens = torch.randint(VOCABULARY, (workload.batch_size, config.context_length))
    tokens = tokens.to(device)
    measure = {"tokens": workload.batch_size, "seconds": seconds, "wait": wait}

    def measured(step: Callable[[], object]) -> Measurement:
        return {**repeat(step, **measure), "parameters": count_parameters(model)}

    return {
        RECOMPUTE: lambda number: measured(recompute_step(model, tokens)),
        CACHED: lambda number: measured(cached_step(model, tokens)),
        GENERATE: lambda number: measured(generate_step(model, tokens)),
    }


def recompute_step(model: GPT, tokens: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A step that reads the whole window (batch, position) and gives the next tokens (batch, 1)."""
    window = tokens

    def step() -> torch.Tensor:
        nonlocal window
        with torch.inference_mode(), evaluating(model):
            chosen = model(window)[:, -1].argmax(dim=-1, keepdim=True)
        window = torch.cat([window[:, 1:], chosen], dim=1)
        return chosen

    return step


def cached_step(model: GPT, tokens: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A step that reads the newest token of each text and gives the next (batch, 1)."""
    cached = CachedGPT(model, batch_size=len(tokens))
    newest = cached.forward(tokens)[:, -1:].argmax(dim=-1)

    def step() -> torch.Tensor:
        nonlocal newest
        newest = cached.forward(newest)[:, -1:].argmax(dim=-1)
        return newest

    return step


def generate_step(model: GPT, tokens: torch.Tensor) -> Callable[[], torch.Tensor]:
    """A step of generate_batch, whose first one has read the prompt."""
    texts = generate_batch(
        model,
        list(tokens),
        10**9,
        Sampling(),
        [torch.Generator().manual_seed(i) for i in range(len(tokens))],
    )
    next(texts)
    return lambda: next(texts)
