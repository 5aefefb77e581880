"""The course's Python environment: where it lies, what is in it, and whether it is ready.

A stamp inside says what was installed, for which Python, and where. It is written after the fact,
so that whatever stops a start half-way (Ctrl-C, kill, power) is seen and repaired by the next one.
"""

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from launcher.files import write_atomically
from launcher.packages import clean_environment

VERSION = ".".join(map(str, sys.version_info[:2]))
MACHINE = f"{sys.platform}-{platform.machine()}"


@dataclass(frozen=True)
class Environment:
    """A virtual environment in `folder`, for the course in `checkout`."""

    folder: Path
    checkout: Path

    @property
    def commands(self) -> Path:
        """The folder of its programs."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.commands / ("python.exe" if os.name == "nt" else "python")

    @property
    def lock(self) -> Path:
        """The lock file. It is written first, so it also says that the folder is start.py's."""
        return self.folder / "start.lock"

    def variables(self) -> dict[str, str]:
        """The environment variables for programs that run in it."""
        path = os.pathsep.join([str(self.commands), os.environ.get("PATH", os.defpath)])
        # without the last one, a user's own kernel named python3 would come before the course's
        own = {"VIRTUAL_ENV": str(self.folder), "PATH": path, "JUPYTER_PREFER_ENV_PATH": "1"}
        return clean_environment() | own

    def stamp(self) -> dict:
        """What is installed here; empty when unknown, damaged, or of another Python or machine."""
        try:
            stamp = json.loads((self.folder / "attention-course.json").read_text("utf-8"))
            fits = (stamp["python"], stamp["machine"]) == (VERSION, MACHINE)
            return stamp if fits and isinstance(stamp["installed"], dict) else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def write_stamp(self, installed: dict[str, str], unfinished: bool) -> None:
        """Note what is installed, and whether pip is at work."""
        stamp = {
            "python": VERSION,
            "machine": MACHINE,
            "place": self.place(),
            "installed": installed,
            "unfinished": unfinished,
        }
        text = json.dumps(stamp, indent=1)
        write_atomically(self.folder / "attention-course.json", text.encode())

    def place(self) -> list[str]:
        """Where it lies and which course it serves: what a move changes."""
        return [ascii(str(self.folder)), ascii(str(self.checkout))]

    def runs(self) -> bool:
        """Whether its interpreter starts; not so after the Python below it was removed."""
        try:
            done = subprocess.run([self.python, "-I", "-c", ""], capture_output=True)
        except OSError:
            return False
        return done.returncode == 0

    def is_ready(self, part: str, wanted: dict[str, str]) -> bool:
        """Whether `part` is installed as wanted, in this place. Asks no network, writes nothing."""
        stamp = self.stamp()
        return (
            stamp.get("place") == self.place()
            and stamp["installed"].get(part) == wanted[part]
            and self.runs()
        )
