"""Whether torch and an NVIDIA GPU, if there is one, know each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from course_lib.doctor.checkout import beside, in_course_environment
from course_lib.doctor.findings import Finding, one_line
from course_lib.doctor.packages import FRESH

GET_STARTED = "the command that pytorch.org/get-started/locally gives for your system"


def gpu() -> tuple[Finding, ...]:
    """What is to be said of this build of torch on this machine."""
    import torch

    return graphics(
        cuda_build=bool(torch.version.cuda),
        available=torch.cuda.is_available(),
        card=beside("launcher.packages").has_nvidia_gpu(),
        hidden=os.environ.get("CUDA_VISIBLE_DEVICES"),
        compute=lambda: torch.ones(2, device="cuda").sum().item(),
    )


def graphics(
    cuda_build: bool,
    available: bool,
    card: bool,
    hidden: str | None,
    compute: Callable[[], object],
) -> tuple[Finding, ...]:
    """What is to be said of a build of torch beside an NVIDIA GPU (card), or none.

    hidden: CUDA_VISIBLE_DEVICES. compute: something small on the GPU, which raises if it fails.
    """
    if not cuda_build:
        if not card:
            return ()
        text = "there is an NVIDIA GPU, and this torch is built without CUDA, so it stays unused"
        linux = sys.platform == "linux" and in_course_environment()
        return (Finding("note", "GPU", text, FRESH if linux else GET_STARTED),)
    if available:
        try:
            compute()
        except RuntimeError as error:
            text = f"torch sees the GPU and cannot compute on it: {one_line(error)}"
            remedy = "update the GPU's driver; until then: --device cpu"
            return (Finding("mend", "GPU", text, remedy),)
        return (Finding("ok", "GPU", "torch computes on it"),)
    if card and hidden is not None:
        text = f"CUDA_VISIBLE_DEVICES={hidden!r} hides the GPU from torch"
        return (Finding("note", "GPU", text, "remove that variable to use it"),)
    if card:
        text = (
            "there is an NVIDIA GPU, and torch cannot use it: its driver is too old, or not running"
        )
        return (Finding("mend", "GPU", text, "update the driver, from nvidia.com/drivers"),)
    text = "torch is built for CUDA, and there is no NVIDIA GPU or no driver: it uses the CPU"
    return (
        Finding(
            "note", "GPU", text, "if the machine has one, install its driver: nvidia.com/drivers"
        ),
    )
