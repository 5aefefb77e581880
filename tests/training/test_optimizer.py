"""Weight decay reaches matrices and nothing else; the rest is torch's AdamW."""

import pytest
import torch
from torch import nn

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training.optimizer import make_adamw, parameter_groups


def small_gpt(**values) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=11, context_length=7, n_layers=1, d_model=12, **values))


@pytest.mark.parametrize("tied_head", [True, False])
def test_each_parameter_is_in_one_group(tied_head):
    model = small_gpt(tied_head=tied_head)
    decayed, plain = parameter_groups(list(model.parameters()), 0.1)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    grouped = [id(p) for group in (decayed, plain) for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    names = {id(p): name for name, p in model.named_parameters()}
    assert all("norm" in names[id(p)] or "bias" in names[id(p)] for p in plain["params"])
    assert not any("norm" in names[id(p)] or "bias" in names[id(p)] for p in decayed["params"])


def test_a_step_by_the_papers_formula():
    """First: the rate times the sign of the gradient; decay, apart from it, scales the weight."""
    layer = nn.Linear(3, 2)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    optimizer = make_adamw(layer, 0.01, (0.9, 0.99), 0.5)
    layer.weight.grad = torch.tensor([[1.0, -2.0, 3.0], [-1.0, 5.0, -7.0]])
    layer.bias.grad = torch.tensor([4.0, -4.0])
    optimizer.step()
    decayed = weight * (1 - 0.01 * 0.5)
    torch.testing.assert_close(layer.weight.detach(), decayed - 0.01 * layer.weight.grad.sign())
    torch.testing.assert_close(layer.bias.detach(), bias - 0.01 * layer.bias.grad.sign())


def test_equals_pytorchs_adamw_on_hand_made_groups():
    models = [small_gpt(), small_gpt()]
    matrices = [p for p in models[1].parameters() if p.dim() > 1]
    vectors = [p for p in models[1].parameters() if p.dim() == 1]
    optimizers = [
        make_adamw(models[0], 1e-2, (0.8, 0.95), 0.3),
        torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": 0.3},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=1e-2,
            betas=(0.8, 0.95),
        ),
    ]
    tokens = torch.randint(11, (2, 7))
    for _ in range(3):
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            model(tokens).square().mean().backward()
            optimizer.step()
    for ours, theirs in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(ours, theirs)
