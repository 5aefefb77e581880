"""What this machine has: facts, nothing to be mended."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from course_lib.doctor.checkout import in_course_environment
from course_lib.doctor.findings import Finding
from course_lib.runtime import available_threads

# What makes matrix products fast, as torch names it: ours, what it is for
INSTRUCTIONS = {
    "avx2": "AVX2",
    "avx512_f": "AVX-512",
    "avx512_bf16": "AVX-512 bfloat16",
    "amx_bf16": "AMX bfloat16",
    "neon": "NEON",
    "bf16": "bfloat16",
    "sve": "SVE",
}
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container on Linux


def python() -> tuple[Finding, ...]:
    """Which Python this is, and whose."""
    if in_course_environment():
        whose = "the environment that start.py made"
    elif os.environ.get("CONDA_PREFIX") and sys.prefix.startswith(os.environ["CONDA_PREFIX"]):
        whose = "a conda environment"
    elif sys.prefix != sys.base_prefix:
        whose = "a virtual environment"
    else:
        whose = "no environment of its own"
    name = platform.python_implementation()
    text = f"{name} {platform.python_version()}, {whose}: {sys.executable}"
    return (Finding("has", "Python", text),)


def system() -> tuple[Finding, ...]:
    """Operating system, processor, cores, memory."""
    usable, cores = available_threads(), os.cpu_count() or 1
    shared = "" if usable == cores else f", {usable} of them for this program"
    return (
        Finding("has", "system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        Finding("has", "processor", f"{processor_name()}; cores: {cores}{shared}{busy(usable)}"),
    )


def busy(usable: int) -> str:
    """A warning that what is measured now is too slow, if more programs run than cores."""
    running = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0  # not on Windows
    if running <= usable:
        return ""
    return f"; busy ({running:.0f} programs want to run), so times below are too long"


def processor_name() -> str:
    """The processor's name, as its maker gives it."""
    try:
        if sys.platform == "linux":
            for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
        if sys.platform == "darwin":
            asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(asked, capture_output=True, text=True, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        pass
    return platform.processor() or platform.machine()


def memory() -> tuple[Finding, ...]:
    """Memory in all and free; what a container may use, where it may use less."""
    import psutil  # comes with JupyterLab's kernel

    held = psutil.virtual_memory()
    text = f"{held.total / 1e9:.1f} GB, {held.available / 1e9:.1f} GB of it free"
    if (limit := container_limit(MEMORY_LIMIT)) and limit < held.total:
        text += f"; this container may use {limit / 1e9:.1f} GB"
    return (Finding("has", "memory", text),)


def container_limit(file: Path) -> int | None:
    """The bytes that a container may use, from the kernel's file; None for all there are."""
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):  # no container, or "max"
        return None


def torch_build() -> tuple[Finding, ...]:
    """torch's version, what it was built for, and the instructions it finds in the processor."""
    import torch

    if torch.version.cuda:
        build = f"built for CUDA {torch.version.cuda}"
    elif torch.version.hip:
        build = f"built for ROCm {torch.version.hip}"
    else:
        build = (
            "built for Apple GPUs" if torch.backends.mps.is_built() else "built for the CPU alone"
        )
    found = capabilities()
    level = torch.backends.cpu.get_cpu_capability()
    return (
        Finding("has", "torch", f"{torch.__version__}, {build}; plain products use {level}"),
        Finding("has", "instructions", instructions(found)),
    )


def capabilities() -> Mapping[str, object]:
    """What torch knows of the processor; before 2.10 it has a question for each instruction."""
    import torch

    if hasattr(torch.cpu, "get_capabilities"):
        return torch.cpu.get_capabilities()
    questions = {
        "avx2": "_is_avx2_supported",
        "avx512_f": "_is_avx512_supported",
        "avx512_bf16": "_is_avx512_bf16_supported",
        "amx_bf16": "_is_amx_tile_supported",
    }
    return {
        name: bool(getattr(torch.cpu, question, lambda: False)())
        for name, question in questions.items()
    }


def instructions(found: Mapping[str, object]) -> str:
    """Those of the processor's instructions that speed up training, by name."""
    there = [name for key, name in INSTRUCTIONS.items() if found.get(key)]
    sixteen = any("bfloat16" in name for name in there)
    listed = ", ".join(there) or "none of those that speed up matrix products"
    return listed if sixteen else f"{listed}; none for bfloat16, so float32 is the faster"


def devices() -> tuple[Finding, ...]:
    """The devices that torch can compute on."""
    import torch

    found = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(number)
            found.append(
                f"cuda:{number} ({card.name}, compute capability {card.major}.{card.minor}, "
                f"{card.total_memory / 1e9:.0f} GB)"
            )
    if torch.backends.mps.is_available():
        found.append("mps (Apple GPU)")
    return (Finding("has", "devices", ", ".join([*found, "cpu"])),)
