"""python -m course_lib train | generate | attention | doctor | progress.

A user's mistake ends with exit code 2 and one line that says what was given, what is allowed and
what to do. torch is imported only by the commands that compute.
"""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import warnings
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import fields
from typing import NoReturn

from course_lib.runtime import (
    CourseError,
    CourseNotice,
    choose_device,
    out_of_memory,
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
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            return _fail(
                f"there is not enough memory ({str(error)[:200]}); close other programs, or use a "
                "smaller preset or text"
            )
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
            return 130


def train(options: argparse.Namespace) -> int:
    """Train a GPT by a preset, or go on with a run that was stopped, and write the run's folder.

    torchrun starts it in several processes, of which one, the leader, writes and speaks.
    """
    from course_lib.training.parallel import join_team
    from course_lib.training.run_folder import LeadersFolder, RunFolder
    from course_lib.training.screen import Patient, ending, nothing_to_do, show_bar, stopped
    from course_lib.training.session import Wishes, open_session

    out = usable_path(options.out, "--out")
    team, options.device = join_team(options.device)
    wishes = Wishes(**{field.name: getattr(options, field.name) for field in fields(Wishes)})
    with ExitStack() as stack:
        stack.callback(team.disband)
        if not team.leads:
            warnings.simplefilter("ignore", CourseNotice)  # the leader has the same to say
            stack.enter_context(redirect_stdout(io.StringIO()))
        folder = (RunFolder if team.leads else LeadersFolder)(out, resume=options.resume)
        stack.enter_context(folder)
        team.wait()  # for the leader to take the folder
        session = open_session(folder, wishes, team)
        trainer = session.trainer
        if session.finished:
            print(nothing_to_do(trainer, out, "--steps"))
            return 0
        stack.enter_context(redirect_stdout(Patient(sys.stdout)))
        stack.enter_context(redirect_stderr(Patient(sys.stderr)))
        print(session.describe())
        done, steps = len(trainer.history), trainer.config.steps
        was_stopped = session.train(
            lambda records: show_bar(records, done, steps, hidden=not team.leads),
            wishes.stop_after,
        )
        if was_stopped and team.size == 1:
            print(stopped(trainer, "Ctrl-C"), file=sys.stderr)
        # torchrun gives its processes 30 s after a Ctrl-C
        result = session.finish(measure=not was_stopped or team.size == 1)
        again = f"python -m course_lib train --resume --out {shlex.quote(str(out))}"
        if team.leads:
            print(ending(trainer, result, out, again))
        team.wait()  # for the leader to write
        return 130 if was_stopped else 0


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


def doctor(options: argparse.Namespace) -> int:
    """Print what this machine has, which preset suits it, and what is to be mended, and how."""
    from course_lib.doctor import print_report

    return print_report()


def progress(options: argparse.Namespace) -> int:
    """Print how far the learner has come, lesson by lesson."""
    from course_lib.exercises import progress_text

    print(progress_text())
    return 0


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
    add("--corpus", help="shakespeare, tang, or a text file of your own")
    add("--preset", help="the recipe: plain, quick, laptop or gpu (default: plain)")
    path = os.path.expanduser  # a shell leaves the ~ of --out=~/run to us
    add("--out", required=True, metavar="DIR", type=path, help="a new folder for the run")
    add("--resume", action="store_true", help="go on with the run in DIR, by its own settings")
    add("--steps", type=int, metavar="N", help="length of the schedule, instead of the preset's")
    add("--stop-after", type=int, metavar="N", help="stop when N steps of the run are done")
    add("--seed", type=int, help="of weights and data (default: 0)")
    add("--encoding", help="of a text file of your own (default: utf-8)")
    _add_machine_options(of_train, "what a short probe finds fastest")

    of_generate = command(generate, "let a trained GPT write")
    add = of_generate.add_argument
    add("--checkpoint", required=True, metavar="DIR", type=path, help="the folder of a run")
    add("--prompt", default="", metavar="TEXT", help="what to continue (default: a new line)")
    add("--length", type=int, default=500, metavar="N", help="characters to write (default: 500)")
    add("--temperature", type=float, default=0.8, metavar="T", help="0 is greedy (default: 0.8)")
    add("--top-k", type=int, metavar="K", help="choose among the K likeliest only")
    add("--top-p", type=float, metavar="P", help="choose among the likeliest that reach P")
    add("--seed", type=int, default=0, help="of the choices (default: 0)")
    _add_machine_options(of_generate, "1")

    of_attention = command(attention, "draw where each head of a layer reads")
    add = of_attention.add_argument
    add("--checkpoint", required=True, metavar="DIR", type=path, help="the folder of a run")
    add("--text", required=True, help="what the model reads")
    add("--layer", type=int, default=0, metavar="L", help="counted from 0 (default: 0)")
    add("--out", required=True, metavar="FILE.png", type=path, help="the picture")

    command(doctor, "what this machine has, which preset suits it, what is to be mended")
    command(progress, "show which exercises you have passed")
    return parser


def _add_machine_options(parser: argparse.ArgumentParser, threads: str) -> None:
    add = parser.add_argument
    add("--device", metavar="D", help="cpu, cuda or mps (default: the best here)")
    add("--threads", type=int, metavar="N", help=f"of the processor (default: {threads})")


def _show_notice(message, category, filename, lineno, file=None, line=None) -> None:
    if issubclass(category, CourseNotice):
        say = print
        if "tqdm" in sys.modules:  # there may be a bar, whose line is not to be written into
            say = sys.modules["tqdm"].tqdm.write
        say(f"note: {message}", file=sys.stderr)


def _fail(message: str) -> int:
    rank = os.environ.get("RANK")  # of one process among several
    who = "" if rank is None else f"rank {rank}: "
    print(f"error: {who}{' '.join(message.splitlines())}", file=sys.stderr)
    return 2
