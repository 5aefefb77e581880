"""What makes a stop leave no trace: no half step, the same random numbers, the same arithmetic.

Sums in another order differ in their last bits, and after some steps in all of them. So threads,
precision and attention kernel are part of a run's state, as much as its random numbers are.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError, notice, set_threads
from course_lib.training.parallel import ALONE, Team
from course_lib.training.precision import Precision, choose_precision


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside, Ctrl-C (and a notebook's stop button) waits for the end of the block.

    Python hands the signal to the main thread alone: in another one there is nothing to wait for.
    """
    former = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(former):
        yield
        return
    caught: list[tuple] = []
    signal.signal(signal.SIGINT, lambda *arguments: caught.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
        if caught:
            former(*caught[0])


def random_state(data: torch.Generator, device: torch.device) -> dict[str, Tensor]:
    """The state of the data's generator, of torch's on the CPU, and of the device's own."""
    state = {"data": data.get_state(), "cpu": torch.get_rng_state()}
    if device.type != "cpu":
        state["device"] = torch.get_device_module(device).get_rng_state()
    return state


def set_random_state(state: dict[str, Tensor], data: torch.Generator, device: torch.device) -> None:
    """Go back to random_state's numbers. Those of another kind of device are left out."""
    data.set_state(state["data"])
    torch.set_rng_state(state["cpu"])
    if device.type != "cpu" and "device" in state:
        torch.get_device_module(device).set_rng_state(state["device"])


def machine_of(model: GPT, precision: Precision, team: Team = ALONE) -> dict[str, Any]:
    """What the last bits of every number depend on, besides the recipe."""
    return {
        "device": str(next(model.parameters()).device),
        "threads": torch.get_num_threads(),
        "precision": precision.name,
        "attention_kernel": model.attention_kernel,
        "processes": team.size,
    }


def take_machine(machine: dict[str, Any], model: GPT, team: Team = ALONE) -> Precision:
    """Threads, attention kernel and precision as machine_of gave them; a notice if one is lacking.

    What is lacking here is replaced: the run goes on, with other last bits.
    """
    device = next(model.parameters()).device
    model.attention_kernel = machine["attention_kernel"]
    lacking = []
    if device.type != torch.device(machine["device"]).type:
        lacking.append(f"device {machine['device']} (now {device})")
    try:
        set_threads(machine["threads"])
    except CourseError:
        lacking.append(f"{machine['threads']} threads (now {set_threads()})")
    try:
        name = choose_precision(machine["precision"], device)
    except CourseError:
        name = choose_precision("auto", device)
        lacking.append(f"{machine['precision']} (now {name})")
    if (processes := machine.get("processes", 1)) != team.size:
        lacking.append(f"{processes} processes (now {team.size})")
    if lacking:
        notice(
            f"the run had {', '.join(lacking)}: "
            "it goes on, and its numbers will differ from those of an unbroken run"
        )
    return Precision(name, device)
