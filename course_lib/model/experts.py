"""A mixture of experts: many feed-forward layers, of which each token passes through a few.

A router scores the experts for a token, the k best work on it, and their outputs are added, times
their gates:  output(x) = Σ over the k chosen e of  gate_e · expert_e(x).  Parameters grow with the
number of experts, arithmetic with k (Shazeer et al. 2017, arXiv 1701.06538). Lesson 16 builds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Routing:
    """What a router decided for some tokens.

    chosen (token, k): numbers of the experts, the best first. gates (token, k): what their outputs
    are multiplied by. probabilities (token, expert): the softmax over all experts. kept (token, k),
    bool: False where the expert had no room left.
    """

    chosen: Tensor
    gates: Tensor
    probabilities: Tensor
    kept: Tensor

    @property
    def load(self) -> Tensor:
        """Each expert's share of all choices, (expert,), kept or not. It sums to 1."""
        counts = self.chosen.flatten().bincount(minlength=self.probabilities.shape[-1])
        return counts.to(self.probabilities.dtype) / self.chosen.numel()

    @property
    def dropped(self) -> int:
        """How many choices found no room."""
        return int((~self.kept).sum())

    @property
    def balance_loss(self) -> Tensor:
        """E · Σ load_e · P_e, with P_e the mean probability of expert e (Fedus et al. 2021, arXiv
        2101.03961, equation 4): 1 where all experts are alike.

        E, the number of experts, is the most for top-1: all tokens and all probability for one. For
        top-k it is E/k, since an expert has at most 1/k of the choices. The load has no gradient;
        the probabilities of those with much load are pressed down.
        """
        shares = self.probabilities.mean(dim=0)
        return self.probabilities.shape[-1] * (self.load * shares).sum()


def route(scores: Tensor, k: int, capacity: int | None = None) -> Routing:
    """Scores (token, expert) → the k best experts of each token and their gates.

    For k = 1 the gate is the expert's probability among all (Switch; Fedus et al. 2021): a softmax
    over one is 1 whatever the score, and would teach the router nothing. For more it is the softmax
    over the chosen k (Mixtral; Jiang et al. 2024, arXiv 2401.04088): their probabilities, rescaled
    to sum to 1. capacity: how many choices an expert takes; first come, first served, in the order
    of the tokens (one token's choices are different experts and do not compete).
    """
    probabilities = scores.softmax(dim=-1)
    best, chosen = scores.topk(k, dim=-1)
    gates = probabilities.gather(-1, chosen) if k == 1 else best.softmax(dim=-1)
    kept = torch.ones_like(chosen, dtype=torch.bool)
    if capacity is not None:
        one_hot = F.one_hot(chosen.flatten(), scores.shape[-1])  # (choice, expert)
        queue = one_hot.cumsum(dim=0).gather(-1, chosen.flatten()[:, None])  # 1 for the first
        kept = (queue <= capacity).view_as(chosen)
    return Routing(chosen, gates, probabilities, kept)


def mix(x: Tensor, routing: Routing, experts: Sequence) -> Tensor:
    """Tokens x (token, d_model) through their experts: Σ gate · expert(x), (token, d_model).

    A choice that was dropped adds nothing. An expert without tokens is run on none of them, so that
    its weights have a gradient, of zeros, like all others.
    """
    output = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, choice = ((routing.chosen == number) & routing.kept).nonzero(as_tuple=True)
        gated = routing.gates[token, choice, None] * expert(x[token])
        output = output.index_add(0, token, gated.to(x.dtype))
    return output


class Router(nn.Module):
    """Scores experts by a product with a vector of each, and chooses.

    It computes in float32 at least, for a rounded score may choose another expert (Fedus et al.
    2021, section 2.4). capacity_factor: an expert takes that many times its fair share of the
    tokens that are in the batch; None: all that choose it. Only training knows of capacity.
    """

    def __init__(
        self, d_model: int, n_experts: int, k: int, capacity_factor: float | None = None
    ) -> None:
        super().__init__()
        self.scores = nn.Linear(d_model, n_experts, bias=False)
        self.k = k
        self.capacity_factor = capacity_factor

    def forward(self, x: Tensor) -> Routing:
        """Tokens (token, d_model) → who works on them."""
        wide = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            scores = F.linear(x.to(wide), self.scores.weight.to(wide))
        return route(scores, self.k, self.capacity(len(x)) if self.training else None)

    def capacity(self, tokens: int) -> int | None:
        """How many of so many tokens' choices an expert takes: its fair share times the factor."""
        if self.capacity_factor is None:
            return None
        return math.ceil(self.capacity_factor * tokens * self.k / self.scores.out_features)


class MixtureOfExperts(nn.Module):
    """In the place of a feed-forward layer: each token goes through the k experts of its router.

    Every token is alone, as in a feed-forward layer, but for a capacity: then the tokens of a batch
    that come first, other texts included, decide in training whether there is room for one.
    """

    def __init__(self, router: Router, experts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.router = router
        self.experts = nn.ModuleList(experts)

    def forward(self, x: Tensor) -> Tensor:
        """(..., d_model) → (..., d_model). A token all of whose choices are dropped gives 0."""
        tokens = x.reshape(-1, x.shape[-1])
        return mix(tokens, self.router(tokens), self.experts).view_as(x)


@contextmanager
def routings_of(model: nn.Module) -> Iterator[list[Routing]]:
    """Inside, a list that takes the routing of each layer of each pass, as it happens."""
    seen: list[Routing] = []
    hooks = [
        module.register_forward_hook(lambda _, __, routing: seen.append(routing))
        for module in model.modules()
        if isinstance(module, Router)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def count_active_parameters(model: nn.Module) -> int:
    """Trained numbers that one token meets: all of them but the experts that it does not choose."""
    active = sum(parameter.numel() for parameter in model.parameters())
    for layer in model.modules():
        if isinstance(layer, MixtureOfExperts):
            one = sum(parameter.numel() for parameter in layer.experts[0].parameters())
            active -= (len(layer.experts) - layer.router.k) * one
    return active
