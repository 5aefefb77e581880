"""Attention weights from the forward pass that really ran, with what each layer read.

Nothing is computed a second time: the model's own layers are asked for their weights. They show
where a head read, not why the model answered (lesson 13).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from course_lib.model.gpt import GPT, evaluating
from course_lib.runtime import CourseError


@dataclass(frozen=True)
class Capture:
    """One pass over a batch of tokens.

    tokens (batch, position); logits (batch, position, vocab_size);
    weights: for each layer, (batch, head, query, key), rows sum to 1;
    attention_inputs: for each layer, what its attention was given, (batch, position, d_model).
    """

    tokens: Tensor
    logits: Tensor
    weights: tuple[Tensor, ...]
    attention_inputs: tuple[Tensor, ...]

    def layer(self, index: int) -> Tensor:
        """The weights of one layer, counted from 0; CourseError if there is no such layer."""
        if not 0 <= index < len(self.weights):
            raise CourseError(
                f"there is no layer {index}; the model has layers 0 to {len(self.weights) - 1}"
            )
        return self.weights[index]


def capture(model: GPT, tokens: Tensor) -> Capture:
    """Run the model once on tokens (batch, position), in evaluation mode, and keep what it read."""
    inputs: list[Tensor] = []
    hooks = [
        block.attention.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
        for block in model.blocks
    ]
    try:
        with evaluating(model):
            logits, weights = model(tokens, return_weights=True)
    finally:
        for hook in hooks:
            hook.remove()
    return Capture(tokens, logits, weights, tuple(inputs))
