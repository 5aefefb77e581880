"""Training speed of one and the same model: the course's trainer beside a plain eager loop."""

from __future__ import annotations

import torch

from benchmarks.eager_loop import EagerGPT, EagerLoop
from benchmarks.harness import Case, Comparison, Contestant, Options, repeat
from benchmarks.report import Row, must_with_bfloat16
from benchmarks.store import Results
from benchmarks.training_runs import build_trainer, load_shakespeare, toy_preset, with_training
from course_lib.data.corpora import Corpus
from course_lib.training.presets import Preset, get_preset

EAGER, PLAIN, FAST = "eager loop", "trainer, plain", "trainer, fast"
SECONDS = 8.0  # of measuring, each contestant, each round
# nothing that changes what is computed: the same model, windows, steps and clipping
FAST_SETTINGS = {"fused_adamw": True, "precision": "auto"}


def make(options: Options) -> Comparison:
    """The comparison, on one thread and on two."""
    corpus = load_shakespeare(options.quick_check)
    plain = get_preset("plain")
    if options.quick_check:
        plain = toy_preset(plain)
    seconds = 0.0 if options.quick_check else SECONDS
    threads = (1, 2) if options.threads is None else (options.threads,)
    contestants = {
        EAGER: _eager(plain, corpus, seconds),
        PLAIN: _trainer(plain, corpus, seconds),
        FAST: _trainer(with_training(plain, **FAST_SETTINGS), corpus, seconds),
    }
    cases = [Case(name=_case(n), contestants=contestants, threads=n) for n in threads]
    return Comparison(
        title="Training tokens/s: the course's trainer against a plain eager loop",
        question=(
            "The model of preset `plain` (the same function: a test copies the weights), the same "
            "batches, steps and clipping. The eager loop is `benchmarks/eager_loop.py`, what a "
            "learner finds elsewhere: torch.nn modules, float32, torch's fused attention, its "
            "default AdamW. *fast* differs from *plain* by "
            f"{', '.join(f'{name}={value!r}' for name, value in FAST_SETTINGS.items())}."
        ),
        cases=cases,
        rounds=options.seeds,
        minutes=options.seeds * len(cases) * len(contestants) * (seconds + 0.5) / 60,
        rows=lambda results: [row for n in threads for row in _rows(results, n)],
    )


def _rows(results: Results, threads: int) -> list[Row]:
    case = _case(threads)
    eager = {"baseline": EAGER, "baseline_values": results.rates(case, EAGER)}
    return [
        Row(
            what=case,
            **eager,
            contender=FAST,
            values=results.rates(case, FAST),
            must=must_with_bfloat16(1.6, without=1.1),
            aim=4,
        ),
        Row(what=case, **eager, contender=PLAIN, values=results.rates(case, PLAIN)),
    ]


def _case(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _eager(preset: Preset, corpus: Corpus, seconds: float) -> Contestant:
    def run(number: int) -> dict:
        torch.manual_seed(number)
        shape = {"vocab_size": corpus.tokenizer.vocab_size, **preset.model}
        training = preset.training
        loop = EagerLoop(
            EagerGPT(**shape), corpus.train, training.batch_size, training.steps, number
        )
        tokens = training.batch_size * shape["context_length"]
        return repeat(loop.step, tokens=tokens, seconds=seconds)

    return run


def _trainer(preset: Preset, corpus: Corpus, seconds: float) -> Contestant:
    # never evaluated in between: steps beyond what is measured
    preset = with_training(preset, steps=10**6, evaluate_every=10**6)

    def run(number: int) -> dict:
        trainer, way = build_trainer(preset, corpus, number)
        steps = trainer.run()
        tokens = preset.training.batch_size * preset.model["context_length"]
        return {**repeat(lambda: next(steps), tokens=tokens, seconds=seconds), **way}

    return run
