"""Which packages the course needs, from where, and pip, which installs them.

pyproject.toml says what is needed, constraints.txt which versions. pip is called with the user's
own configuration; only PyTorch's CPU build, a tenth of the CUDA build's size, has its own address.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

from launcher.files import digest
from launcher.report import StartError, say

CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
NEEDED_BYTES = 1_500_000_000  # what the lab takes on disk with the CPU build of torch

DISK_FULL = re.compile(r"No space left|Errno 28|not enough space", re.I)
NO_NETWORK = re.compile(
    r"connection broken|Max retries exceeded|NewConnectionError|name resolution|timed out|"
    r"ProxyError|SSLError|Connection (refused|reset|aborted)|unreachable|IncompleteRead",
    re.I,
)
NO_BUILD = re.compile(r"(?:No matching distribution found for|Cannot install) (\S+)")
INSTALLING = "Installing collected packages:"  # so pip says when all is downloaded


class PipError(StartError):
    """pip failed. `changed`: it had begun to install, so half a package may be there."""

    def __init__(self, message: str, changed: bool) -> None:
        super().__init__(message)
        self.changed = changed


def requirements(checkout: Path) -> dict[str, list[str]]:
    """What each part needs, as pyproject.toml has it: {"lab": [...], "test": [...]}."""
    with open(checkout / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    return {"lab": project["dependencies"], "test": project["optional-dependencies"]["test"]}


def fingerprints(checkout: Path) -> dict[str, str]:
    """For each part a hash of what would be installed: another hash, another installation."""
    versions = (checkout / "constraints.txt").read_bytes()
    return {
        part: digest("\n".join(sorted(needs)).encode() + b"\n" + versions)
        for part, needs in requirements(checkout).items()
    }


def refuse_unsupported(folder: Path) -> None:
    """Raise StartError where the course cannot be installed, before anything is downloaded."""
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        raise StartError(
            "PyTorch no longer comes for Intel Macs, so the course cannot run with this Python. "
            "On a Mac with an Apple chip, install Python for Apple silicon; otherwise the course "
            "needs another computer"
        )
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise StartError(
            f"the disk of {folder} has {free / 1e9:.1f} GB free, and the course's packages take "
            f"about {NEEDED_BYTES / 1e9:.1f} GB; make room, then start again"
        )


def has_nvidia_gpu() -> bool:
    """Whether an NVIDIA GPU and its driver are here."""
    if Path("/proc/driver/nvidia/version").exists():
        return True
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, errors="replace", timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listing.returncode == 0 and listing.stdout.startswith("GPU")


def cpu_wheels_answer() -> bool:
    """Whether PyTorch's address for CPU builds can be reached; five seconds at most."""
    try:
        with urllib.request.urlopen(f"{CPU_WHEELS}/torch/", timeout=5):
            return True
    except (OSError, ValueError):
        return False


def torch_source() -> str:
    """Where to take torch from: "cpu" is PyTorch's address for CPU builds, all else pip's source.

    "cuda": a GPU is here; "unreachable": a CPU build was wanted; "default": pip's is a CPU build.
    """
    if sys.platform != "linux":
        return "default"
    if has_nvidia_gpu():
        return "cuda"
    return "cpu" if cpu_wheels_answer() else "unreachable"


def expected_size(source: str) -> str:
    """How much is to be downloaded and stored, for torch from this source."""
    if source == "cuda":
        return "with the CUDA build of PyTorch about 3 GB to download, 7 GB on disk"
    small = "about 350 MB to download, 1.4 GB on disk"
    if source == "unreachable":
        return (
            f"{small}\n            (several GB more if pip finds only PyTorch's CUDA build: "
            "the address of the CPU build cannot be reached)"
        )
    return small


def install(python: Path, checkout: Path, part: str, source: str) -> None:
    """Install what `part` needs ("test" stands on "lab"). Raises PipError."""
    needs = requirements(checkout)
    constraints = ["-c", str(checkout / "constraints.txt")]
    if source == "cpu":
        torch = next(need for need in needs["lab"] if re.match(r"torch\b", need))
        # without its dependencies: those come from the user's own source, like all the rest
        code, _ = run_pip(python, [*constraints, "--no-deps", "--index-url", CPU_WHEELS, torch])
        if code:
            say("  The CPU build of PyTorch could not be had; going on with pip's usual source.")
    wanted = needs["lab"] + (needs["test"] if part == "test" else [])
    code, lines = run_pip(python, [*constraints, *wanted])
    if code:
        raise explain(lines, code)


def run_pip(python: Path, arguments: list[str]) -> tuple[int, list[str]]:
    """`pip install` with these arguments, larger downloads shown: its exit code and lines."""
    command = [str(python), "-P", "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    environment = {**clean_environment(), "PYTHONIOENCODING": "utf-8", "PIP_USER": "0"}
    lines = []
    # close_fds: pip inherits the lock, see launcher/lock.py
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        close_fds=False,
    ) as pip:
        try:
            for line in pip.stdout:
                lines.append(line.rstrip())
                show_progress(lines[-1])
        except KeyboardInterrupt:
            pip.terminate()
            raise
    return pip.returncode, lines


def show_progress(line: str) -> None:
    """Of what pip says, what tells a waiting person that something happens."""
    if found := re.match(r"\s*Downloading (\S+) \(([\d.]+ [MG]B)\)", line):
        say(f"  downloading {found[1].rpartition('/')[2]} ({found[2]})")
    elif line.startswith(INSTALLING):
        say(f"  unpacking {line.count(',') + 1} packages, a minute or two ...")


def explain(lines: list[str], code: int) -> PipError:
    """What pip's failure means for the learner, with pip's own words."""
    said = [line for line in lines if line.startswith(("ERROR:", "WARNING:"))] or lines
    said = [line for line in said if "ResolutionImpossible" not in line]  # leads to pip's manual
    disk_full = [line for line in said if DISK_FULL.search(line)]
    no_network = [line for line in said if NO_NETWORK.search(line)]
    no_build = [line for line in said if NO_BUILD.search(line)]
    if disk_full:
        advice = "the disk is full; make room (1.5 GB at least), then run the same command again"
    elif no_network:
        advice = (
            "pip cannot reach the place it downloads from. Check the network (and the proxy, if "
            "there is one), then run the same command again"
        )
    elif no_build:
        version = ".".join(map(str, sys.version_info[:2]))
        advice = (
            f"pip finds no {NO_BUILD.search(no_build[-1])[1]} that the course could use with "
            f"Python {version} on this machine ({sys.platform}, {platform.machine()}); if pip's "
            "settings are right, try another Python from 3.11 to 3.14"
        )
    else:
        advice = f"pip failed (exit code {code}); see what it says, then run this again"
    shown = (disk_full or no_network)[-1:] or said[-2:]
    words = "".join(f"\n  pip: {shorten(line)}" for line in shown)
    changed = any(line.startswith(INSTALLING) for line in lines)
    return PipError(advice + words, changed)


def shorten(line: str) -> str:
    """A long line's end: there pip names the cause."""
    return line if len(line) <= 160 else f"... {line[-160:]}"


def clean_environment() -> dict[str, str]:
    """This process's environment, without what would mix in the packages of other Pythons."""
    mixed = {"PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__"}
    return {name: value for name, value in os.environ.items() if name not in mixed}
