"""Muon against the decomposition it stands for, against torch's own, and a step by hand."""

import pytest
import torch
from torch import Tensor, nn

from course_lib.training.muon import Muon, _rounds, _rounds_on_gram, orthogonalise

SHAPES = [(7, 7), (5, 23), (23, 5), (11, 13), (13, 11), (1, 7), (7, 1)]
LOWEST, HIGHEST = 0.68, 1.21


def random(*shape: int, seed: int = 0, dtype=torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def five_rounds(value: float) -> float:
    """What becomes of one singular value, by the post's numbers."""
    for _ in range(5):
        value = 3.4445 * value - 4.7750 * value**3 + 2.0315 * value**5
    return value


# ---- orthogonalise


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_each_singular_value_goes_through_the_polynomial_and_directions_stay(
    shape, dtype, tolerance
):
    matrix = random(*shape, dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    # a law of our own for the values, from large to hardly there
    s = torch.tensor([10.0**-i for i in range(len(s))], dtype=torch.float64)
    norm = s.square().sum().sqrt().item()
    after = torch.tensor([five_rounds(x / norm) for x in s.tolist()], dtype=torch.float64)
    expected = u @ torch.diag(after) @ v
    result = orthogonalise((u @ torch.diag(s) @ v).to(dtype))
    assert (result.shape, result.dtype) == (matrix.shape, dtype)
    torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_result_is_near_u_vt(shape):
    matrix = random(*shape)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    assert s.min() > 0.003 * matrix.norm()
    inside = u.mT @ orthogonalise(matrix) @ v.mT  # what is left of S
    assert inside.diagonal().min() > LOWEST
    assert inside.diagonal().max() < HIGHEST
    torch.testing.assert_close(inside, inside.diagonal().diag(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("shape", [(3, 5, 23), (2, 7, 7), (4, 1, 9)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_the_rounds_on_the_gram_matrix_are_the_same(shape, dtype, tolerance):
    x = random(*shape, dtype=dtype)
    x = x / x.norm(dim=(-2, -1), keepdim=True)
    torch.testing.assert_close(_rounds_on_gram(x), _rounds(x), atol=tolerance, rtol=0)


@pytest.mark.parametrize("shape", [(5, 23), (23, 5), (7, 7)])
def test_a_stack_is_as_one_by_one(shape):
    stack = random(2, 3, *shape) * torch.tensor([1.0, 100.0, 1e-3])[:, None, None]
    result = orthogonalise(stack)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(result[i, j], orthogonalise(stack[i, j]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("shape", [(5, 23), (23, 5), (7, 7)])
@pytest.mark.parametrize("scale", [1e-3, 1e6])
def test_the_size_of_the_momentum_does_not_matter(shape, scale):
    matrix = random(*shape)
    torch.testing.assert_close(
        orthogonalise(scale * matrix), orthogonalise(matrix), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize("shape", [(5, 23), (7, 7)])
def test_zero_stays_zero_and_tiny_is_finite(shape):
    assert torch.equal(orthogonalise(torch.zeros(2, *shape)), torch.zeros(2, *shape))
    assert orthogonalise(torch.full(shape, 1e-30)).isfinite().all()


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_stays_near_the_band(shape):
    matrix = random(*shape).bfloat16()
    result = orthogonalise(matrix)
    assert result.dtype == torch.bfloat16
    values = torch.linalg.svdvals(result.float())
    assert values.min() > LOWEST - 0.1
    assert values.max() < HIGHEST + 0.1


# ---- a step


@pytest.mark.parametrize(("shape", "factor"), [((5, 23), 1.0), ((23, 5), 4.6**0.5), ((7, 7), 1.0)])
def test_steps_by_hand(shape, factor):
    weight = nn.Parameter(random(*shape))
    optimizer = Muon([weight], lr=0.1, momentum=0.75, weight_decay=0.5)
    expected, mean = weight.detach().clone(), torch.zeros(shape)
    for step in range(1, 4):
        gradient = random(*shape, seed=step)
        weight.grad = gradient.clone()
        optimizer.step()
        mean = 0.75 * mean + 0.25 * gradient
        ahead = 0.75 * mean + 0.25 * gradient
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * factor * orthogonalise(ahead)
        torch.testing.assert_close(weight.detach(), expected, atol=1e-5, rtol=0)
        assert torch.equal(weight.grad, gradient)


def test_as_torchs_own_up_to_its_bfloat16():
    shapes = [(5, 23), (23, 5), (7, 7), (5, 23)]
    ours = [nn.Parameter(random(*shape, seed=i)) for i, shape in enumerate(shapes)]
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    optimizers = [
        Muon(ours, lr=0.1, momentum=0.9, weight_decay=0.3),
        torch.optim.Muon(theirs, lr=0.1, momentum=0.9, weight_decay=0.3),
    ]
    for step in range(4):
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            a.grad = random(*a.shape, seed=100 * step + i)
            b.grad = a.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=0.03, rtol=0)


def test_a_matrix_without_a_gradient_stays_and_is_not_remembered():
    moved, left = nn.Parameter(random(3, 5)), nn.Parameter(random(3, 5, seed=1))
    before = left.detach().clone()
    optimizer = Muon([moved, left], lr=0.1, momentum=0.9, weight_decay=0.5)
    optimizer.step()
    assert not optimizer.state
    moved.grad = random(3, 5, seed=2)
    optimizer.step()
    assert torch.equal(left.detach(), before)
    assert set(optimizer.state) == {moved}


def test_the_rounds_may_be_in_bfloat16_and_the_rest_is_not():
    weights = [nn.Parameter(random(5, 7)) for _ in range(2)]
    for weight, dtype in zip(weights, (torch.float32, torch.bfloat16), strict=True):
        optimizer = Muon([weight], lr=0.1, momentum=0.9, dtype=dtype)
        weight.grad = random(5, 7, seed=1)
        optimizer.step()
        assert weight.dtype == optimizer.state[weight]["momentum"].dtype == torch.float32
    assert not torch.equal(*weights)
    torch.testing.assert_close(*weights, atol=0.01, rtol=0)
