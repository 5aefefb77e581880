"""Which machine and which code gave a number: a ratio without them cannot be checked."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path

import torch

from course_lib.runtime import PROJECT_FOLDER

BFLOAT16_FLAGS = ("amx_bf16", "avx512_bf16", "bf16")  # of x86 and, the last one, of ARM
# by avx512_bf16 alone products take twice as long as in float32 (torch 2.13, Emerald Rapids)
FAST_BFLOAT16_FLAGS = ("amx_bf16", "bf16")
# a change elsewhere (a plot, an exercise) leaves the numbers as they are
MEASURED = ("benchmarks", "course_lib/model", "course_lib/data", "course_lib/training")


def describe_machine() -> dict[str, str | int]:
    """Processor, cores, system, Python and torch."""
    return {
        "processor": processor_name(),
        "cores": os.cpu_count() or 1,
        "bfloat16": " ".join(bfloat16_instructions()) or "none known",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def processor_name() -> str:
    """The processor as its maker calls it, where the system tells."""
    for line in _processor_lines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    if platform.system() == "Darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, encoding="utf-8"
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return platform.processor() or platform.machine() or "unknown"


def bfloat16_instructions() -> list[str]:
    """The processor's instructions for bfloat16 that the system lists; empty where none or unknown.

    Without them bfloat16 is emulated, and slower than float32.
    """
    flags: set[str] = set()
    for line in _processor_lines():
        if line.startswith(("flags", "Features")):
            flags.update(line.partition(":")[2].split())
    return [flag for flag in BFLOAT16_FLAGS if flag in flags]


def gains_by_bfloat16() -> bool:
    """Whether the processor's instructions make products in bfloat16 faster than in float32."""
    return any(flag in FAST_BFLOAT16_FLAGS for flag in bfloat16_instructions())


def code_digest(folder: Path = PROJECT_FOLDER) -> str:
    """Short checksum of the source that is measured: results of two versions are never mixed."""
    digest = hashlib.sha256()
    tables = folder / "benchmarks" / "lesson_tables"  # experiments of lessons: no speed in them
    files = [file for part in MEASURED for file in (folder / part).rglob("*.py")]
    files = [file for file in files if tables not in file.parents]
    files += [folder / "course_lib" / "generation.py", folder / "course_lib" / "runtime.py"]
    for file in sorted(files):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:12]


def load() -> float | None:
    """How many processes wanted a core, on average of the last minute; None where not told."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _processor_lines() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return []
