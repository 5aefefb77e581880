"""A model made faster by torch.compile where that works, and the model itself where it does not.

torch.compile needs a C++ compiler on a CPU and Triton on a GPU. Whether they are there shows when
the first batch comes: a run goes on without, slower.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.model.gpt import GPT
from course_lib.runtime import notice


def worth_compiling(device: torch.device) -> bool:
    """Whether kernels of its own save a training more time than making them takes.

    On two cores of a CPU those of the preset `gpu` took over two minutes.
    """
    return device.type == "cuda"


class Compiled:
    """The model's forward pass, compiled; it shares the model's weights."""

    def __init__(self, model: GPT) -> None:
        self.model = model
        self._forward = None

    def __call__(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, position) → logits (batch, position, vocab_size)."""
        if self._forward is self.model:
            return self.model(tokens)
        try:
            if self._forward is None:  # `or` would ask a compiled module for its length
                self._forward = torch.compile(self.model)
            return self._forward(tokens)
        except Exception as error:  # of torch, of a compiler, of the system: all mean the same
            logits = self.model(tokens)  # or it is the model's own mistake, which is raised here
            self._forward = self.model
            reason = next((line for line in str(error).splitlines() if line), "no reason given")
            notice(
                f"torch.compile does not work here ({type(error).__name__}: {reason[:150]}): the "
                "training goes on without it, slower; `python -m course_lib doctor` says what this "
                "machine has"
            )
            return logits
