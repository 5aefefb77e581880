"""Preset `gpu` on CUDA: training speed and the share of the GPU it uses, time to a loss, writing.

At toy size it runs on any device, and its tables name the device.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import cache

import torch

from benchmarks import generation_speed
from benchmarks.generation_speed import Workload
from benchmarks.harness import Case, Comparison, Contestant, Options, Unavailable, repeat
from benchmarks.report import Row, markdown_table, number
from benchmarks.store import Measurement, Results
from benchmarks.training_runs import (
    build_trainer,
    load_shakespeare,
    losses_told,
    run_table,
    toy_preset,
    train,
    with_training,
)
from benchmarks.utilisation import flops_per_token, peak_flops, utilisation
from course_lib.data.corpora import Corpus
from course_lib.runtime import choose_device
from course_lib.training.presets import Preset, get_preset
from course_lib.training.trainer import Record, Trainer

TARGET = 1.49  # full validation loss on this corpus, near 1.47 on the whole tiny Shakespeare
SECONDS = 5.0
CASE = "preset gpu"
WAYS = {
    "float32, eager": {"precision": "float32", "compile": False},
    "auto, eager": {"precision": "auto", "compile": False},
    "float32, compiled": {"precision": "float32", "compile": True},
    "auto, compiled": {"precision": "auto", "compile": True},
}


def make_training(options: Options) -> Comparison:
    """Tokens/s and MFU of a training step: precisions, with torch.compile and without."""
    device = _device(options)
    corpus, preset = load_shakespeare(options.quick_check), _preset(options)
    seconds = 0.0 if options.quick_check else SECONDS
    ways = {name: way for name, way in WAYS.items() if not way["compile"] or _compiles(options)}
    contestants = {
        name: _speed(with_training(preset, **way), corpus, device, seconds)
        for name, way in ways.items()
    }
    baseline = next(iter(ways))

    def rows(results: Results) -> list[Row]:
        base = {"baseline": baseline, "baseline_values": results.rates(CASE, baseline)}
        return [
            Row(what=CASE, **base, contender=name, values=results.rates(CASE, name))
            for name in list(ways)[1:]
        ]

    peak = peak_flops(_name(device), options.peak_tflops)
    return Comparison(
        title="Preset gpu: training tokens/s by precision and torch.compile",
        question=(
            "The same model, batches and optimiser; compiling is not part of the time. *auto* is "
            "the precision that the trainer chooses for the device. Utilisation is a share of what "
            "the GPU could do in 16 bits, whatever a way computes in."
        ),
        cases=[Case(name=CASE, contestants=contestants, threads=options.threads or 1)],
        rounds=options.seeds,
        minutes=0 if options.quick_check else options.seeds * 1.5,
        rows=rows,
        details=lambda results: _utilisation_table(results, list(ways), peak),
        about={"gpu": _name(device)},
    )


def make_loss(options: Options) -> Comparison:
    """Training time to a full validation loss of TARGET, by precision and compile options."""
    device = _device(options)
    corpus, preset = load_shakespeare(options.quick_check), _preset(options)
    if not _compiles(options):
        preset = with_training(preset, compile=False)
    eager = with_training(preset, compile=False)
    contestants = {
        "eager": lambda seed: train(eager, corpus, seed, device),
        "preset gpu": lambda seed: train(preset, corpus, seed, device),
    }
    target = TARGET if options.loss is None else options.loss

    def rows(results: Results) -> list[Row]:
        losses = results.values(CASE, "preset gpu", "loss")
        return [
            Row(
                what=f"loss {target}",
                baseline="eager",
                baseline_values=results.values(CASE, "eager", "seconds"),
                contender="preset gpu",
                values=results.values(CASE, "preset gpu", "seconds"),
                unit="s",
                **losses_told(losses, target),
            )
        ]

    return Comparison(
        title=f"Preset gpu: training time to a full validation loss of {target}",
        question=(
            "Whole runs by the preset; a run reaches the loss if its final model's, over the whole "
            "validation split, is not above it. Seconds of training, evaluation not counted; "
            "those of the first step, which compiles, are part of them and stand apart too. On an "
            "H200, 15 s are to be undercut, and 4 s to be aimed at."
        ),
        cases=[Case(name=CASE, contestants=contestants, threads=options.threads or 1)],
        rounds=options.seeds,
        minutes=0 if options.quick_check else options.seeds * 2,
        rows=rows,
        details=lambda results: run_table(
            [(name, target, run) for name in contestants for run in results.of(CASE, name)]
        ),
        about={"gpu": _name(device)},
    )


def make_cache(options: Options) -> Comparison:
    """Writing with a cache against recomputing the window, in the shape of preset gpu."""
    device = _device(options)
    if options.quick_check:
        workloads = generation_speed.TOY_WORKLOADS
    else:
        workloads = {
            f"10.65M, context 256, batch {batch}": Workload(generation_speed.LARGE, batch)
            for batch in (1, 16, 256)
        }
    seconds = 0.0 if options.quick_check else 1.0
    cases = [
        Case(
            name=name,
            contestants=generation_speed.contestants(workload, seconds, device, _wait(device)),
            threads=options.threads or 1,
        )
        for name, workload in workloads.items()
    ]
    return Comparison(
        title="Writing on a GPU: with a cache against recomputing the window",
        question="As in the comparison `cache`, on the device below; float32.",
        cases=cases,
        rounds=generation_speed.ROUNDS,
        minutes=0 if options.quick_check else 1,
        rows=lambda results: [
            row for name in workloads for row in generation_speed.rows(results, name, workloads)
        ],
        about={"gpu": _name(device)},
    )


def _device(options: Options) -> torch.device:
    """CUDA; for a toy run, or when asked for, any device."""
    device = choose_device(options.device)
    if device.type != "cuda" and not options.quick_check and options.device is None:
        raise Unavailable(
            f"there is no CUDA device here; --quick-check tries it on {device}, and "
            f"--device {device.type} does all of it there, in hours"
        )
    return device


def _compiles(options: Options) -> bool:
    """Whether torch.compile is tried: a toy run on a CPU would wait for a C++ compiler."""
    return not options.quick_check or _device(options).type == "cuda"


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"none ({device})"


def _wait(device: torch.device) -> Callable[[], object]:
    if device.type != "cuda":
        return lambda: None
    return lambda: torch.cuda.synchronize(device)


def _preset(options: Options) -> Preset:
    preset = get_preset("gpu")
    return toy_preset(preset) if options.quick_check else preset


def _speed(preset: Preset, corpus: Corpus, device: torch.device, seconds: float) -> Contestant:
    preset = with_training(preset, steps=10**6, evaluate_every=10**6)

    @cache  # a model is compiled once, not in each round
    def built() -> tuple[Trainer, dict, Iterator[Record]]:
        trainer, way = build_trainer(preset, corpus, 0, device)
        return trainer, way, trainer.run()

    def run(number: int) -> Measurement:
        trainer, way, steps = built()
        measured = repeat(
            lambda: next(steps),
            tokens=preset.training.batch_size * preset.model["context_length"],
            seconds=seconds,
            warm_up=5,
            wait=_wait(device),
        )
        return {**measured, "flops_per_token": flops_per_token(trainer.model), **way}

    return run


def _utilisation_table(results: Results, ways: list[str], peak: float | None) -> str:
    lines = [
        [way, number(statistics.median(results.rates(CASE, way))), utilisation(runs, peak)]
        for way in ways
        for runs in [results.of(CASE, way)]
    ]
    return markdown_table(["way", "tokens/s", "model FLOPs utilisation"], lines)
