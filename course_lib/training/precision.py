"""Precision: matrix products in 16 bits where that is faster, weights and loss in 32.

bfloat16 has float32's range and 8 bits of precision; float16 has 11, and a range so small that
gradients vanish unless the loss is scaled up first (Micikevicius et al. 2018, arXiv 1710.03740).
The weights stay float32, so that small updates are not rounded away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course_lib.runtime import CourseError
from course_lib.training.presets import CHOICES

if TYPE_CHECKING:
    from course_lib.training.optimizer import ModelOptimizer


def choose_precision(wanted: str, device: torch.device) -> str:
    """ "float32", "bfloat16" or "float16": the wanted one, or for "auto" the best on the device.

    CUDA: bfloat16 from compute capability 8.0 on, float16 before. MPS and CPU: float32; only some
    processors have instructions for bfloat16, and probe.probe measures whether this one gains by
    them. Raises CourseError for what the device does not do.
    """
    if wanted not in CHOICES["precision"]:
        raise CourseError(
            f"precision={wanted!r} is not known; use one of: {', '.join(CHOICES['precision'])}"
        )
    if device.type == "cuda":
        capability = torch.cuda.get_device_capability(device)
        best = "bfloat16" if capability >= (8, 0) else "float16"
        if wanted == "bfloat16" and best != "bfloat16":
            raise CourseError(
                f"precision='bfloat16' needs compute capability 8.0, and {device} has "
                f"{capability[0]}.{capability[1]}; use auto, float16 or float32"
            )
        return best if wanted == "auto" else wanted
    if device.type == "mps" and wanted not in ("auto", "float32"):
        raise CourseError(f"precision={wanted!r} is not for {device}; use auto or float32")
    return "float32" if wanted == "auto" else wanted


class Precision:
    """How a model is computed and updated in one of the three precisions.

    with precision.autocast():
        logits = model(inputs)
    precision.backward_and_step(loss_of(logits.float()), optimizer, parameters, clip)
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name not in ("float32", "bfloat16", "float16"):
            raise CourseError(f"{name!r} is no precision; see precision.choose_precision")
        self.name = name
        self.device = device
        self.scaler = torch.amp.GradScaler(device.type) if name == "float16" else None

    def autocast(self) -> AbstractContextManager:
        """Inside: what gains by it is computed in 16 bits. Nothing at all for float32."""
        if self.name == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def backward_and_step(
        self,
        loss: Tensor,
        optimizer: ModelOptimizer,
        parameters: Iterable[nn.Parameter],
        clip: float = float("inf"),
        average: Callable[[Iterable[nn.Parameter]], None] | None = None,
    ) -> bool:
        """Gradients of the loss, clipped to a norm of `clip`, and one step. Whether it was made.

        average: called on the parameters before clipping, where several processes have gradients.

        In float16 a gradient that overflowed skips the step, whole, and halves the scale: the
        optimiser then remembers nothing of it.
        """
        optimizer.zero_grad()
        parameters = list(parameters)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        if average is not None:
            average(parameters)
        if self.scaler is None:
            _clip(parameters, clip)
            optimizer.step()
            return True
        self.scaler.unscale_(optimizer)
        _clip(parameters, clip)
        self.scaler.step(optimizer)
        before = self.scaler.get_scale()
        self.scaler.update()
        return self.scaler.get_scale() >= before

    def state_dict(self) -> dict[str, Any]:
        """The scale of the loss, JSON-ready; empty unless float16."""
        return {} if self.scaler is None else self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with state_dict's scale."""
        if self.scaler is not None:
            self.scaler.load_state_dict(state)


def _clip(parameters: Iterable[nn.Parameter], norm: float) -> None:
    if norm < float("inf"):  # measuring the norm costs time too
        torch.nn.utils.clip_grad_norm_(parameters, norm)
