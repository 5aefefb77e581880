"""The command line of start.py: what was asked for, done in order, with one exit code."""

import argparse
import subprocess
import sys
from pathlib import Path

from launcher import jupyter
from launcher.copies import first_lesson, refresh
from launcher.files import can_write, folder_of, work_folder
from launcher.report import StartError, prepare_terminal, say
from launcher.setup import prepare

CHECKOUT = Path(__file__).resolve().parent.parent

DESCRIPTION = """\
Opens the course. The first start makes a Python environment for it in .venv (some minutes,
about 1.4 GB); later ones take seconds. Your notebooks are in work/, and nothing of yours there is
ever overwritten.
"""

USAGE = """\
python3 start.py [lab] [--no-browser] [--port N]
       python3 start.py test [...]"""

EXAMPLES = """\
  python3 start.py                       JupyterLab, with lesson 00
  python3 start.py --no-browser          the same; open the address that it prints
  python3 start.py test                  run the course's own tests
  python3 start.py test -k tokenizer     what follows `test` goes to pytest
"""

OPTIONS = ("--no-browser", "--port", "--help")


def main(arguments: list[str]) -> int:
    """Run start.py with these arguments; returns the exit code: 2 for what the user can mend."""
    prepare_terminal()
    try:
        if arguments[:1] == ["test"]:
            return run_tests(CHECKOUT, arguments[1:])
        options = parse(arguments)
        return open_lab(CHECKOUT, options.port, options.browser)
    except StartError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.strerror or error}: {error.filename or 'no file named'}"
    except KeyboardInterrupt:
        print("\nstart.py: stopped. The next start goes on from here.", file=sys.stderr)
        return 130
    print(f"start.py: {message}", file=sys.stderr)
    return 2


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the options of `lab`; a mistake ends with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="start.py",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "command", nargs="?", choices=["lab", "test"], default="lab", help="lab, if not said"
    )
    parser.add_argument(
        "--no-browser", dest="browser", action="store_false", help="only print the address"
    )
    parser.add_argument(
        "--port",
        type=port_number,
        metavar="N",
        help="listen on this port (otherwise on a free one)",
    )
    for name in (argument.partition("=")[0] for argument in arguments):
        if name.startswith("--") and name not in OPTIONS:  # else its value is taken for a command
            parser.error(f"there is no option {name}; there are: {', '.join(OPTIONS)}")
    options = parser.parse_args(arguments)
    if options.command == "test":
        parser.error("put `test` first; what follows it goes to pytest")
    return options


def port_number(text: str) -> int:
    """A port from the command line."""
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; use a number from 1 to 65535")
    return int(text)


def open_lab(checkout: Path, port: int | None, browser: bool) -> int:
    """Make all ready, and open JupyterLab on lesson 00."""
    if port:
        jupyter.require_free(port)  # before minutes of installing
    environment = prepare(checkout, "lab")
    work = work_folder(checkout)
    if work.parent != checkout:
        say(f"{checkout} cannot be written to; a folder of yours takes its place.")
    for line in refresh(checkout / "notebooks", work):
        say(line)
    jupyter.end_like_ctrl_c()
    return jupyter.serve(environment, work, first_lesson(work), port, browser)


def run_tests(checkout: Path, arguments: list[str]) -> int:
    """Run pytest in the checkout with these arguments, and pass its exit code on."""
    environment = prepare(checkout, "test")
    variables = environment.variables()
    command = [str(environment.python), "-m", "pytest"]
    if not can_write(checkout):
        command, variables = keep_caches_elsewhere(checkout, command, variables)
    with subprocess.Popen([*command, *arguments], cwd=checkout, env=variables) as tests:
        while True:
            try:
                code = tests.wait()
                return code if code >= 0 else 128 - code  # as a shell counts signals
            except KeyboardInterrupt:
                continue  # pytest has it too, and says what it had done


def keep_caches_elsewhere(
    checkout: Path, command: list[str], variables: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Move every cache of the test tools out of a read-only checkout: command and variables."""
    caches = folder_of(checkout) / "caches"
    moved = {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(caches / "hypothesis"),
        "PYTHONPYCACHEPREFIX": str(caches / "bytecode"),
        "RUFF_CACHE_DIR": str(caches / "ruff"),
    }
    return [*command, "-o", f"cache_dir={caches / 'pytest'}"], variables | moved
