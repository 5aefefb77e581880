"""Muon: momentum, orthogonalised, so that every direction of a matrix moves equally far.

Let the momentum of a matrix be U S Vᵀ. A few directions dominate it; Muon steps along U Vᵀ instead
(Jordan et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv 2502.16982). A few
rounds of a polynomial, in Newton's and Schulz' manner, replace the decomposition.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

A, B, C = 3.4445, -4.7750, 2.0315  # Jordan's: steep at 0, so that small directions rise soon
ROUNDS = 5


def orthogonalise(matrices: Tensor) -> Tensor:  # (..., rows, columns)
    """About U Vᵀ for each matrix U S Vᵀ, in the same shape and dtype; 0 stays 0.

    X ← A·X + B·(XXᵀ)X + C·(XXᵀ)²X takes each singular value x, at most 1, to Ax + Bx³ + Cx⁵. After
    five rounds all that began above 0.003 lie between 0.68 and 1.21, and swing there instead of
    reaching 1: that is the price of the speed, and training does not notice (Jordan et al.).
    """
    if matrices.shape[-2] > matrices.shape[-1]:
        return orthogonalise(matrices.mT).mT
    x = matrices.reshape(-1, *matrices.shape[-2:])
    # the norm of all entries is at least the largest singular value
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    # in half precision the powers of XXᵀ would lose the small directions
    wide = x.shape[-1] > 1.5 * x.shape[-2] and x.dtype in (torch.float32, torch.float64)
    return (_rounds_on_gram(x) if wide else _rounds(x)).reshape(matrices.shape)


def _rounds(x: Tensor) -> Tensor:  # (matrix, rows, columns)
    for _ in range(ROUNDS):
        gram = x @ x.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
        x = torch.baddbmm(x, polynomial, x, beta=A)
    return x


def _rounds_on_gram(x: Tensor) -> Tensor:  # (matrix, rows, columns)
    """The same for wide x, on the small G = XXᵀ, with one product with x at the end.

    A round multiplies x by P = A + BG + CG², and so G by P on both sides. Polynomials in G
    commute, hence G becomes P²G, and the product of all P can be gathered first.
    """
    gram = x @ x.mT
    product = None
    for i in range(ROUNDS):
        polynomial = torch.baddbmm(gram, gram, gram, beta=B, alpha=C)
        polynomial.diagonal(dim1=-2, dim2=-1).add_(A)
        product = polynomial if product is None else polynomial @ product
        if i < ROUNDS - 1:
            gram = polynomial @ (polynomial @ gram)
    return product @ x


class Muon(torch.optim.Optimizer):
    """Muon for matrices; those of one shape are stacked and orthogonalised at once.

    lr: how far a direction moves; times √(rows/columns) for a tall matrix, so that its larger
        output changes as much (the original rule; Liu et al. have another). momentum: share of the
        old in the running mean of gradients, which then looks one step ahead (Nesterov).
    weight_decay: apart from the gradient, as in AdamW. dtype: of orthogonalise, which is not
        particular; momentum and weights keep theirs.

    torch.optim.Muon does the same, one matrix after the other and always in bfloat16: with the
    matrices of the preset `quick`, on a CPU without bfloat16 instructions, it takes five times as
    long.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        momentum: float,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.dtype = dtype
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
            ahead = self._momentum_ahead(matrices, group["momentum"])
            updates = orthogonalise(ahead.to(self.dtype)).to(ahead.dtype)
            rows, columns = matrices[0].shape
            if group["weight_decay"]:
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
            rate = group["lr"] * max(1, rows / columns) ** 0.5
            torch._foreach_add_(matrices, updates.unbind(), alpha=-rate)

    def _momentum_ahead(self, matrices: list[nn.Parameter], momentum: float) -> Tensor:
        """The running means, one step ahead: (matrix, rows, columns)."""
        for p in matrices:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        means = [self.state[p]["momentum"] for p in matrices]
        gradients = [p.grad for p in matrices]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return torch.stack(torch._foreach_lerp(gradients, means, momentum))
