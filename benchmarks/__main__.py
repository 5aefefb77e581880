"""python -m benchmarks [NAME …]: measure, and write a table and its raw numbers."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Options, Unavailable, run_comparison
from course_lib.runtime import CourseError, usable_path

# name: the module and function that make the comparison, and what it compares
COMPARISONS = {
    "training": ("training_speed", "make", "training tokens/s against a plain eager loop"),
    "quick": ("time_to_loss", "make_quick", "time to plain's loss P: preset quick"),
    "laptop": ("time_to_loss", "make_laptop", "time to P − 0.30 and P − 0.40: preset laptop"),
    "cache": ("generation_speed", "make", "cached generation against recomputing"),
    "transformers": ("against_transformers", "make", "cached generation against transformers'"),
    "gpu-training": ("gpu", "make_training", "preset gpu: tokens/s and MFU by precision"),
    "gpu-loss": ("gpu", "make_loss", "preset gpu: training time to a loss"),
    "gpu-cache": ("gpu", "make_cache", "cached generation on a GPU"),
}
WITHOUT_GPU = [name for name in COMPARISONS if not name.startswith("gpu")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparisons that are named, or all that need no GPU; returns the exit code."""
    warnings.filterwarnings("ignore", module="transformers")
    options = _parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):  # a console that lacks a character must not stop us
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    if options.list:
        for name, (_, _, what) in COMPARISONS.items():
            print(f"{name:13s} {what}")
        return 0
    try:
        for name in options.names:
            if name not in COMPARISONS:
                known = ", ".join(COMPARISONS)
                raise CourseError(f"there is no comparison {name!r}; use one of: {known}")
        for name in options.names or WITHOUT_GPU:
            _run(name, options)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            "\nstopped; whole rounds are kept, the same command goes on from them", file=sys.stderr
        )
        return 130
    return 0


def _run(name: str, options: argparse.Namespace) -> None:
    folder = usable_path(options.out, "--out")
    module, function, _ = COMPARISONS[name]
    asked = Options(**{field: getattr(options, field) for field in Options.__dataclass_fields__})
    try:
        comparison = getattr(importlib.import_module(f"benchmarks.{module}"), function)(asked)
    except Unavailable as reason:
        _say(f"{name}: skipped, {reason}")
        return
    text = run_comparison(
        name, comparison, asked, Path(folder), lambda line: _say(f"{name}: {line}"), options.again
    )
    _say(f"\n{text}\nWritten to {folder / name}.md and .json\n")


def _say(line: str) -> None:
    print(line, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Compare speeds; see benchmarks/README.md."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="see --list (default: all that need no GPU)")
    add("--list", action="store_true", help="name the comparisons and end")
    add("--seeds", type=_count, default=3, help="seeds of each training (default: 3)")
    add("--threads", type=_count, metavar="N", help="instead of a comparison's own number")
    add(
        "--quick-check", action="store_true", help="toy sizes: does it run? The numbers say nothing"
    )
    add("--out", default="runs/benchmarks", metavar="DIR", help="default: %(default)s")
    add("--again", action="store_true", help="forget what is measured, and begin anew")
    add("--loss", type=_positive, metavar="P", help="the loss to reach (default: the comparison's)")
    add("--device", metavar="D", help="of the gpu comparisons (default: the best here)")
    add("--peak-tflops", type=_positive, metavar="T", help="of the GPU, where it is not known here")
    parser.set_defaults(names=[])
    return parser


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number above 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
