"""python -m course_lib train | generate | attention | progress.

A user's mistake ends with exit code 2 and one line that says what was given, what is allowed and
what to do. torch is imported only by the commands that compute.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import NoReturn

from course_lib.runtime import (
    CourseError,
    CourseNotice,
    choose_device,
    replace_file,
    set_threads,
    usable_path,
)

PICTURES = (".png", ".svg", ".pdf")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    sys.stdout, sys.stderr = sys.stdout or io.StringIO(), sys.stderr or io.StringIO()  # `>&-`
    for stream in (sys.stdout, sys.stderr):  # a console that lacks a character must not stop us
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.simplefilter("always", CourseNotice)
        warnings.showwarning = _show_notice
        try:
            options = _parser().parse_args(arguments)
            code = options.command(options)
            sys.stdout.flush()
            return code
        except CourseError as error:
            return _fail(str(error))
        except BrokenPipeError:  # the reader, `head` say, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 0
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left unwritten stays so
            return _fail(f"{error.filename or 'the output'} cannot be written: {error.strerror}")
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
            return 130


def train(options: argparse.Namespace) -> int:
    """Train a GPT by a preset and write the run's folder."""
    import torch

    from course_lib.data.corpora import load_corpus, require_windows
    from course_lib.model.config import GPTConfig
    from course_lib.model.gpt import GPT, count_parameters
    from course_lib.training.checkpoint import require_free, require_writable, save_run
    from course_lib.training.presets import get_preset
    from course_lib.training.trainer import Trainer

    out = usable_path(options.out, "--out")
    require_free(out)
    preset = get_preset(options.preset)
    recipe = preset.training.adapted(steps=options.steps, seed=options.seed)
    threads = set_threads(options.threads)
    device = choose_device(options.device)
    corpus = load_corpus(options.corpus, encoding=options.encoding)
    config = GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **preset.model)
    require_windows(corpus.train, config.context_length)
    torch.manual_seed(recipe.seed)
    model = GPT(config).to(device)
    require_writable(out, model)
    with redirect_stdout(_Patient(sys.stdout)), redirect_stderr(_Patient(sys.stderr)):
        print(
            f"Training {count_parameters(model):,} parameters on {len(corpus.train):,} characters "
            f"of {corpus.name}: {recipe.steps:,} × {recipe.batch_size} windows of "
            f"{config.context_length} characters, on {device}, threads: {threads}."
        )
        trainer = Trainer(model, corpus.train, corpus.validation, recipe)
        code = _train_with_bar(trainer)
        try:
            result = trainer.result()
        except KeyboardInterrupt:
            result = trainer.result(measure=False)
        training = {"corpus": corpus.name, "preset": options.preset, **recipe.to_dict()}
        save_run(out, model, corpus.tokenizer, training, trainer.history, result)
        print(_summary(result), f"Written to {out}", sep="\n")
        return code


def generate(options: argparse.Namespace) -> int:
    """Write a continuation of the prompt to standard output, character by character."""
    from course_lib.generation import Sampling, generate_text
    from course_lib.training.checkpoint import load_run

    sampling = Sampling(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    set_threads(options.threads)
    model, tokenizer, _ = load_run(options.checkpoint, choose_device(options.device))
    text = generate_text(model, tokenizer, options.prompt, options.length, sampling, options.seed)
    first = next(text, "")  # what is wrong with the prompt shows before it is repeated
    print(options.prompt, end=first, flush=True)
    for character in text:
        print(character, end="", flush=True)
    print()
    return 0


def attention(options: argparse.Namespace) -> int:
    """Draw, for each head of one layer, where each character of a text reads."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from course_lib.data.tokenizer import normalise
    from course_lib.generation import crop_prompt
    from course_lib.lens.capture import capture
    from course_lib.plots import head_grid
    from course_lib.training.checkpoint import load_run

    out = usable_path(options.out, "--out")
    if out.suffix.lower() not in PICTURES:
        raise CourseError(f"--out {out} is no picture; end its name with {', '.join(PICTURES)}")
    if not normalise(options.text):  # a byte-order mark alone is nothing too
        raise CourseError(
            f'--text "{options.text}" has nothing to read; give at least one character'
        )
    set_threads()
    model, tokenizer, _ = load_run(options.checkpoint)
    tokens = crop_prompt(tokenizer.encode(options.text), model.config.context_length, "the text")
    weights = capture(model, tokens[None]).layer(options.layer)[0]
    axes = head_grid(weights.numpy(), tokenizer.decode(tokens), title=f"layer {options.layer}")
    picture = io.BytesIO()
    axes[0].figure.savefig(picture, format=out.suffix[1:].lower(), dpi=120)
    plt.close(axes[0].figure)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        replace_file(out, picture.getvalue())
    except OSError as error:
        raise CourseError(
            f"{out} cannot be written: {error.strerror}; choose another --out"
        ) from None
    print(f"{len(weights)} heads of layer {options.layer}, {len(tokens)} characters: {out}")
    return 0


def progress(options: argparse.Namespace) -> int:
    """Print how far the learner has come, lesson by lesson."""
    from course_lib.exercises import progress_text

    print(progress_text())
    return 0


def _train_with_bar(trainer) -> int:
    """Train, with a bar of loss, tokens/s and time left; 0, or 130 if stopped by Ctrl-C."""
    from tqdm import tqdm

    steps = trainer.config.steps
    try:
        with tqdm(total=steps, unit="step", dynamic_ncols=True) as bar:
            for record in trainer.run():
                bar.update()
                rate = record.tokens / max(record.seconds, 1e-9)
                bar.set_postfix_str(
                    f"loss {record.train_loss:.3f}, {rate:,.0f} characters/s", refresh=False
                )
                if record.val_loss is not None:
                    bar.write(f"step {record.step:5,d}: validation loss {record.val_loss:.4f}")
    except KeyboardInterrupt:
        if not trainer.history:
            raise
        print(
            f"Stopped at step {len(trainer.history):,} of {steps:,}. Measuring the loss and saving "
            "takes some seconds; Ctrl-C once more skips the measuring.",
            file=sys.stderr,
        )
        return 130
    return 0


def _summary(result: dict) -> str:
    seconds = f"{result['train_seconds']:.1f} s of training"
    speed = f"{result['tokens_per_second']:,.0f} characters/s"
    if result["val_loss"] is None:
        return f"No validation loss was measured; {seconds}, {speed}"
    return f"Validation loss {result['val_loss']:.4f} nats per character; {seconds}, {speed}"


class _Patient(io.TextIOBase):
    """A stream whose reader may go away (`| head`, a full disk): the training goes on."""

    def __init__(self, stream) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            self.stream.write(text)
            self.stream.flush()
        return len(text)

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    @property
    def encoding(self) -> str:
        return self.stream.encoding


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        if message.endswith("expected one argument"):
            message += " (one that begins with - is written --option=VALUE)"
        raise CourseError(f"{message}; see `{self.prog} --help`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m course_lib",
        allow_abbrev=False,
        description="Train, use and open a small GPT.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(function, summary: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            function.__name__, help=summary, description=function.__doc__, allow_abbrev=False
        )
        added.set_defaults(command=function)
        return added

    of_train = command(train, "train a character GPT")
    add = of_train.add_argument
    add("--corpus", required=True, help="shakespeare, tang, or a text file of your own")
    add("--preset", default="plain", help="the recipe (default: plain)")
    add("--out", required=True, metavar="DIR", help="a new folder for the run")
    add("--steps", type=int, help="length of the run, instead of the preset's")
    add("--seed", type=int, default=0, help="of weights and data (default: 0)")
    add("--encoding", default="utf-8", help="of a text file of your own (default: utf-8)")
    _add_machine_options(of_train)

    of_generate = command(generate, "let a trained GPT write")
    add = of_generate.add_argument
    add("--checkpoint", required=True, metavar="DIR", help="the folder of a run")
    add("--prompt", default="", metavar="TEXT", help="what to continue (default: a new line)")
    add("--length", type=int, default=500, metavar="N", help="characters to write (default: 500)")
    add("--temperature", type=float, default=0.8, metavar="T", help="0 is greedy (default: 0.8)")
    add("--top-k", type=int, metavar="K", help="choose among the K likeliest only")
    add("--top-p", type=float, metavar="P", help="choose among the likeliest that reach P")
    add("--seed", type=int, default=0, help="of the choices (default: 0)")
    _add_machine_options(of_generate)

    of_attention = command(attention, "draw where each head of a layer reads")
    add = of_attention.add_argument
    add("--checkpoint", required=True, metavar="DIR", help="the folder of a run")
    add("--text", required=True, help="what the model reads")
    add("--layer", type=int, default=0, metavar="L", help="counted from 0 (default: 0)")
    add("--out", required=True, metavar="FILE.png", help="the picture")

    command(progress, "show which exercises you have passed")
    return parser


def _add_machine_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", metavar="D", help="cpu, cuda or mps (default: the best here)")
    parser.add_argument("--threads", type=int, metavar="N", help="of the processor (default: 1)")


def _show_notice(message, category, filename, lineno, file=None, line=None) -> None:
    if issubclass(category, CourseNotice):
        print(f"note: {message}", file=sys.stderr)


def _fail(message: str) -> int:
    print(f"error: {' '.join(message.splitlines())}", file=sys.stderr)
    return 2
