"""The optimiser of a recipe: AdamW alone, or Muon for the matrices and AdamW for the rest.

AdamW decays weights apart from the gradient (Loshchilov & Hutter 2019, arXiv 1711.05101). Muon is
for matrices that map the residual stream; embeddings, the head and all vectors keep AdamW.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError
from course_lib.training.muon import Muon
from course_lib.training.precision import choose_precision
from course_lib.training.presets import TrainingConfig

# what each remembers of a parameter, in its shape but for the number of steps
QUANTITIES = {torch.optim.AdamW: ("step", "exp_avg", "exp_avg_sq"), Muon: ("momentum",)}


def parameter_groups(parameters: list[nn.Parameter], weight_decay: float) -> list[dict]:
    """Matrices are decayed; biases and norm weights, which only shift and scale, are not."""
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]


def make_optimizer(model: GPT, config: TrainingConfig) -> ModelOptimizer:
    """What updates the model's parameters by the recipe. Frozen parameters are left out."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = []
    if config.optimizer == "muon":
        matrices = [p for p in model.blocks.parameters() if p.requires_grad and p.ndim == 2]
    by_muon = set(matrices)
    rest = [p for p in trained if p not in by_muon]
    adamw = torch.optim.AdamW(
        parameter_groups(rest, config.weight_decay),
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        fused=config.fused_adamw or None,  # None leaves the choice of a loop to torch
    )
    parts = [(adamw, 1.0)]
    if matrices:
        # rounding to bfloat16 is far less than what the rounds leave off, and GPUs like it
        halves = choose_precision("auto", matrices[0].device) == "bfloat16"
        muon = Muon(
            matrices,
            config.muon_rate,
            config.muon_momentum,
            config.weight_decay,
            dtype=torch.bfloat16 if halves else torch.float32,
        )
        parts.append((muon, config.muon_rate / config.learning_rate))
    return ModelOptimizer(model, parts)


class ModelOptimizer:
    """One or two torch optimisers that act as one, and whose state has the parameters' names.

    parts: each optimiser, with its rate in units of the recipe's learning rate.
    """

    def __init__(self, model: nn.Module, parts: list[tuple[torch.optim.Optimizer, float]]) -> None:
        self.parts = parts
        self.names = {parameter: name for name, parameter in model.named_parameters()}

    @property
    def param_groups(self) -> list[dict]:
        """The groups of all parts."""
        return [group for part, _ in self.parts for group in part.param_groups]

    def set_rate(self, rate: float) -> None:
        """Set the next step's rate, as schedule.learning_rate gives it: Muon's is scaled alike."""
        for part, ratio in self.parts:
            for group in part.param_groups:
                group["lr"] = rate * ratio

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for part, _ in self.parts:
            part.step()

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for part, _ in self.parts:
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Tensor]:
        """What the optimisers remember, as "parameter's name.quantity"; empty before a step.

        The tensors are the optimisers' own, not copies. Rates and the like are the recipe's.
        """
        return {
            f"{self.names[parameter]}.{quantity}": value
            for part, _ in self.parts
            for parameter, quantities in part.state.items()
            for quantity, value in quantities.items()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Remember what state_dict gave, for a model and a recipe like those it came from.

        Raises CourseError, before anything changes, if an entry is missing, unknown or misshapen.
        """
        shapes = {key: value.shape for key, value in state.items()}
        expected = self._shapes() if state else {}
        if shapes != expected:
            key = min(set(shapes.items()) ^ set(expected.items()))[0]
            raise CourseError(
                f"the optimiser's state has {key} of shape {_shape(shapes, key)}, and the model "
                f"trained by this recipe {_shape(expected, key)}; resume with the recipe it is from"
            )
        for part, _ in self.parts:
            parameters = [p for group in part.param_groups for p in group["params"]]
            entries = {
                i: {
                    quantity: state[f"{self.names[parameter]}.{quantity}"].clone()
                    for quantity in QUANTITIES[type(part)]
                }
                for i, parameter in enumerate(parameters if state else [])
            }
            part.load_state_dict({**part.state_dict(), "state": entries})

    def _shapes(self) -> dict[str, torch.Size]:
        """The shape of every entry of the state, once there is one."""
        return {
            f"{self.names[parameter]}.{quantity}": torch.Size()
            if quantity == "step"
            else parameter.shape
            for part, _ in self.parts
            for group in part.param_groups
            for parameter in group["params"]
            for quantity in QUANTITIES[type(part)]
        }


def _shape(shapes: Mapping[str, torch.Size], key: str) -> str:
    return str(tuple(shapes[key])) if key in shapes else "none"
