"""Making an environment ready: created, filled by pip, joined to the course, mended after a move.

Nothing here trusts what an interrupted start left: an environment whose stamp says "unfinished"
is made anew. One that only lacks a part, or whose packages have changed, is added to.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from launcher import packages
from launcher.environment import VERSION, Environment
from launcher.files import can_write, folder_of, no_place, write_atomically
from launcher.lock import only_one
from launcher.report import StartError, say

# Jupyter asks at its first start whether to fetch news from the network; here the answer is no.
LAB_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}
}

# A kernel would warn in the learner's terminal that its messages, which stay on this machine, are
# not encrypted.
KERNEL_SETTINGS = b'c.IPKernelApp.log_level = "ERROR"\n'

# The commands in the environment's bin folder begin with its path: for one that was moved they are
# made anew, by the means that pip itself makes them with.
REMAKE_COMMANDS = """
import importlib.metadata, sys
from pip._vendor.distlib.scripts import ScriptMaker
maker = ScriptMaker(None, sys.argv[1])
maker.clobber = True
for entry in importlib.metadata.entry_points(group="console_scripts"):
    maker.make(f"{entry.name} = {entry.value}")
"""


def prepare(checkout: Path, part: str) -> Environment:
    """An environment with `part` installed: one that is ready, or else one made ready.

    It lies in the checkout. One that is ready there also serves those who cannot write there.
    Raises StartError.
    """
    wanted = packages.fingerprints(checkout)
    places = checkout / ".venv", folder_of(checkout) / ".venv"
    environments = [Environment(place, checkout) for place in places]
    for environment in environments:
        if environment.is_ready(part, wanted):
            return environment
    for environment in environments:
        # venv refuses the sign that separates folders in PATH
        if os.pathsep not in str(environment.folder) and can_write(environment.folder):
            make_ready(environment, part, wanted)
            return environment
    raise StartError(no_place("the Python environment", places))


def make_ready(environment: Environment, part: str, wanted: dict[str, str]) -> None:
    """Do what is missing until `part` is installed. Raises StartError."""
    set_aside_if_foreign(environment)
    environment.folder.mkdir(parents=True, exist_ok=True)
    with only_one(environment.lock):
        if environment.is_ready(part, wanted):  # another start did it meanwhile
            return
        stamp = environment.stamp()
        if stamp and stamp.get("place") != environment.place() and environment.runs():
            mend_after_move(environment, stamp)
        if not environment.is_ready(part, wanted):
            install(environment, part, wanted)


def set_aside_if_foreign(environment: Environment) -> None:
    """Rename an environment of the user's own making: it is not start.py's to change or clear."""
    folder = environment.folder
    if environment.lock.exists() or not folder.exists():
        return
    if folder.is_dir() and not any(folder.iterdir()):
        return
    number = 1
    while (aside := folder.with_name(f"{folder.name}-old-{number}")).exists():
        number += 1
    folder.rename(aside)
    say(f"{folder} was not made by start.py: it is now {aside.name}.")


def install(environment: Environment, part: str, wanted: dict[str, str]) -> None:
    """Create the environment if there is none to stand on, and have pip install `part`."""
    begun = time.monotonic()
    stamp = environment.stamp()
    sound = bool(stamp) and not stamp.get("unfinished") and environment.runs()
    installed = stamp["installed"] if sound else {}
    current = {name: made for name, made in installed.items() if made == wanted.get(name)}
    source = "default" if "lab" in current else packages.torch_source()  # else torch is there
    announce(environment, source, sound, lab_is_there="lab" in current)
    if not sound:
        create(environment)
    environment.write_stamp(current, unfinished=True)
    try:
        packages.install(environment.python, environment.checkout, part, source)
    except packages.PipError as error:
        if not error.changed:  # for example no network: what was there is still sound
            environment.write_stamp(installed, unfinished=False)
        raise
    connect(environment)
    environment.write_stamp(
        current | {name: wanted[name] for name in ("lab", part)}, unfinished=False
    )
    say(f"Ready, after {time.monotonic() - begun:.0f} seconds.\n")


def announce(environment: Environment, source: str, sound: bool, lab_is_there: bool) -> None:
    """Say what is about to be done, how much it is and how long it takes."""
    if lab_is_there:
        say("Adding what the tests need: about 30 MB to download, a minute or so.")
        return
    if sound and environment.stamp()["installed"]:
        say("The packages that the course needs have changed; installing the new ones.")
    elif sound or {entry.name for entry in environment.folder.iterdir()} == {environment.lock.name}:
        say("First start: making a Python environment for the course. This is done once.")
    else:
        say("The last installation was not finished, or was another Python's; making a new one.")
    say(f"  where     {environment.folder}")
    say(f"  how much  {packages.expected_size(source)}")
    say(f"  how long  2 to 10 minutes, most of it downloading (Python {VERSION})\n")


def create(environment: Environment) -> None:
    """Make the bare environment, in place of whatever an interrupted start left there."""
    for entry in environment.folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry != environment.lock:
            entry.unlink()
    packages.refuse_unsupported(environment.folder)
    run_venv(environment.folder)
    environment.write_stamp({}, unfinished=False)


def run_venv(folder: Path, *options: str) -> None:
    """Python's own venv: makes an environment, or sets the paths of an existing one right."""
    missing = [name for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
    if missing:
        raise StartError(
            f"this Python lacks its {missing[0]} module, which makes environments. "
            f"On Debian and Ubuntu: sudo apt install python{VERSION}-venv, then start again"
        )
    # the Python below, should this one be an activated environment's
    base = getattr(sys, "_base_executable", None) or sys.executable
    done = subprocess.run(
        [base, "-I", "-m", "venv", *options, str(folder)],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        close_fds=False,  # see launcher/lock.py
    )
    if done.returncode:
        words = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
        raise StartError(f"Python could not make an environment in {folder}: {words[-1]}")


def connect(environment: Environment) -> None:
    """Let its Python import the course from the checkout, and set the defaults of Jupyter."""
    folder = environment.folder
    base = {"base": str(folder), "platbase": str(folder)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", base))
    # Escaped, since Python reads these files in an encoding that depends on the machine.
    line = f"import sys; sys.path.append({str(environment.checkout)!a})\n"
    write_atomically(site_packages / "attention_course.pth", line.encode("ascii"))
    lab_settings = folder / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    kernel_settings = folder / "etc" / "ipython" / "ipython_kernel_config.py"
    for file, content in (
        (lab_settings, json.dumps(LAB_SETTINGS, indent=1).encode()),
        (kernel_settings, KERNEL_SETTINGS),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, content)


def mend_after_move(environment: Environment, stamp: dict) -> None:
    """Set right what holds the former path: commands, activation, the way to the course."""
    say("The course has been moved or copied; setting its Python environment right ...")
    run_venv(environment.folder, "--without-pip")
    remake = [environment.python, "-I", "-c", REMAKE_COMMANDS, environment.commands]
    subprocess.run(remake, capture_output=True)
    connect(environment)
    environment.write_stamp(stamp["installed"], stamp.get("unfinished", True))
