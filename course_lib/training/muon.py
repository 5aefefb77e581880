"""Muon: momentum, orthogonalised: every direction of a matrix moves equally far in a step.

Let the momentum be U S Vᵀ. Gradients of matrices are dominated by few directions; Muon steps along
U Vᵀ instead (Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv
2502.16982). Five matrix polynomials, tuned by Jordan, replace the decomposition.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def orthogonalise(matrices: Tensor) -> Tensor:  # (..., rows, columns)
    """About U Vᵀ for each matrix U S Vᵀ, in the same shape and dtype; 0 stays 0.

    X ← aX + b(XXᵀ)X + c(XXᵀ)²X pushes singular values towards 1, from wherever they are. After
    five rounds those that were above about 1% of the matrix's norm lie between 0.68 and 1.14: the
    coefficients trade an exact 1 for a fast rise (Jordan et al.).
    """
    if matrices.shape[-2] > matrices.shape[-1]:
        return orthogonalise(matrices.mT).mT
    # the norm bounds the largest singular value
    x = matrices / matrices.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    # in half precision, powers of the Gram matrix lose the small singular values
    if x.dtype == torch.float32 and x.shape[-1] > 1.5 * x.shape[-2]:
        return _by_gram_matrix(x)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def _by_gram_matrix(x: Tensor) -> Tensor:
    """The same for wide x: all rounds on the small XXᵀ, and one product with x at the end.

    A round multiplies x by P = aI + bG + cG², a polynomial in G = XXᵀ, and so G by P². The P of
    all rounds commute, so that their product can be gathered first.
    """
    a, b, c = COEFFICIENTS
    gram = x @ x.mT
    identity = torch.eye(gram.shape[-1], dtype=x.dtype, device=x.device)
    product = None
    for i in range(ITERATIONS):
        factor = a * identity + b * gram + c * gram @ gram
        product = factor if product is None else factor @ product
        if i < ITERATIONS - 1:
            gram = factor @ factor @ gram
            gram = (gram + gram.mT) / 2  # rounding must not make it lopsided
    return product @ x


class Muon(torch.optim.Optimizer):
    """Muon for matrices. Those of one shape are stacked and orthogonalised at once.

    lr: how far each direction moves, in units of a weight (rows/columns)^½ larger for tall ones,
        so that outputs change alike. momentum: of the mean of past gradients, which looks one
        step ahead (Nesterov). weight_decay: apart from the gradient, as in AdamW.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float
    ) -> None:
        shapes: dict[tuple[int, ...], list[nn.Parameter]] = {}
        for parameter in params:
            shapes.setdefault(tuple(parameter.shape), []).append(parameter)
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__([{"params": same} for same in shapes.values()], defaults)

    @torch.no_grad()
    def step(self) -> None:
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            matrices = [p for p in group["params"] if p.grad is not None]
            if not matrices:
                continue
            updates = orthogonalise(self._directions(matrices, group["momentum"])).float()
            rows, columns = matrices[0].shape
            rate = group["lr"] * max(1, rows / columns) ** 0.5
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(matrices, updates.unbind(), alpha=-rate)

    def _directions(self, matrices: list[nn.Parameter], momentum: float) -> Tensor:
        """Where the momentum will be, (matrix, rows, columns); bfloat16 on CUDA."""
        gradients = [p.grad for p in matrices]
        for p in matrices:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        averages = [self.state[p]["momentum"] for p in matrices]
        torch._foreach_lerp_(averages, gradients, 1 - momentum)
        ahead = torch.stack(torch._foreach_lerp(gradients, averages, momentum))
        return ahead.bfloat16() if ahead.is_cuda else ahead
