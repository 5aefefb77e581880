"""Who updates which parameter, how it is decayed, and that what is remembered can be put back."""

import pytest
import torch
from torch import nn

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError
from course_lib.training import optimizer as module
from course_lib.training.muon import Muon
from course_lib.training.optimizer import ModelOptimizer, make_optimizer
from course_lib.training.presets import TrainingConfig
from course_lib.training.schedule import learning_rate

MODELS = {
    "plain": {},
    "untied": {"tied_head": False},
    "no bias": {"bias": False, "positions": "rotary"},
    "grouped": {"n_heads": 4, "n_kv_heads": 2, "positions": "alibi"},
    "swiglu": {"feed_forward": "swiglu", "norm": "rms_norm", "positions": "none"},
    "post": {"norm_placement": "post", "positions": "sinusoidal"},
    "odd widths": {"d_ff": 13, "n_heads": 1, "n_layers": 3},
    "quick's": {
        "positions": "rotary",
        "norm": "rms_norm",
        "feed_forward": "relu_squared",
        "initialisation": "zero_output",
        "bias": False,
        "tied_head": False,
    },
    "experts": {"n_experts": 5, "experts_per_token": 1},
    "norms of queries and keys": {"qk_norm": True},
}
RECIPES = {
    "adamw": {},
    "fused": {"fused_adamw": True},
    "muon": {"optimizer": "muon"},
    "muon, fused": {"optimizer": "muon", "fused_adamw": True},
}


def small_gpt(**values) -> GPT:
    torch.manual_seed(0)
    values = {"n_layers": 2, "n_heads": 2} | values
    return GPT(GPTConfig(vocab_size=11, context_length=7, d_model=12, **values))


def train(model: GPT, optimizer: ModelOptimizer, steps: range) -> list[float]:
    """Some steps at a falling rate, on windows that depend on the step alone; the losses."""
    losses = []
    for step in steps:
        tokens = torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(step))
        optimizer.set_rate(1e-2 / (step + 1))
        optimizer.zero_grad()
        loss = model(tokens).log_softmax(-1)[..., 0].mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- groups


@pytest.mark.parametrize("model_values", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_each_parameter_is_in_one_group(model_values, recipe):
    model = small_gpt(**model_values)
    optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.1, **recipe))
    grouped = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())


@pytest.mark.parametrize("model_values", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_vectors_are_not_decayed_and_all_else_is(model_values, recipe):
    model = small_gpt(**model_values)
    optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.1, **recipe))
    names = {id(p): name for name, p in model.named_parameters()}
    for group in optimizer.param_groups:
        assert group["weight_decay"] in (0.1, 0.0)
        for p in group["params"]:
            is_vector = "norm" in names[id(p)] or "bias" in names[id(p)]
            assert group["weight_decay"] == (0.0 if is_vector else 0.1)


@pytest.mark.parametrize("model_values", MODELS.values(), ids=MODELS)
def test_muon_has_the_matrices_of_blocks_and_nothing_else(model_values):
    model = small_gpt(**model_values)
    optimizer = make_optimizer(model, TrainingConfig(optimizer="muon"))
    (by_muon,) = [part for part, _ in optimizer.parts if isinstance(part, Muon)]
    matrices = {module.weight for module in model.blocks.modules() if isinstance(module, nn.Linear)}
    assert {p for group in by_muon.param_groups for p in group["params"]} == matrices


def test_muon_is_as_the_recipe_says():
    recipe = TrainingConfig(optimizer="muon", muon_momentum=0.7, weight_decay=0.2)
    muon, _ = make_optimizer(small_gpt(), recipe).parts[1]
    for group in muon.param_groups:
        assert (group["momentum"], group["weight_decay"]) == (0.7, 0.2)


@pytest.mark.parametrize(
    ("best", "dtype"),
    [
        ("bfloat16", torch.bfloat16),
        ("float16", torch.float32),
        ("float32", torch.float32),
    ],
)
def test_muon_computes_in_bfloat16_where_the_device_does(monkeypatch, best, dtype):
    monkeypatch.setattr(module, "choose_precision", lambda wanted, device: best)
    optimizer = make_optimizer(small_gpt(), TrainingConfig(optimizer="muon"))
    assert optimizer.parts[1][0].dtype == dtype


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_frozen_parameters_stay(recipe):
    model = small_gpt(tied_head=False)
    frozen = [model.token_embedding.weight, model.blocks[0].attention.query.weight]
    before = [p.detach().clone() for p in frozen]
    for p in frozen:
        p.requires_grad_(False)
    optimizer = make_optimizer(model, TrainingConfig(**recipe))
    train(model, optimizer, range(2))
    for p, value in zip(frozen, before, strict=True):
        assert torch.equal(p, value)


# ---- AdamW


def test_a_step_by_the_papers_formula():
    """First: the rate times the sign of the gradient; decay, apart from it, scales the weight."""
    model = small_gpt()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = make_optimizer(model, TrainingConfig(learning_rate=0.01, weight_decay=0.5))
    for i, p in enumerate(model.parameters()):
        p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(i)) + 0.01
    optimizer.set_rate(0.01)
    optimizer.step()
    for name, p in model.named_parameters():
        decay = 0.5 if p.ndim == 2 else 0.0
        expected = before[name] * (1 - 0.01 * decay) - 0.01 * p.grad.sign()
        torch.testing.assert_close(p.detach(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_equals_pytorchs_adamw_on_hand_made_groups(fused):
    models = [small_gpt(), small_gpt()]
    matrices = [p for p in models[1].parameters() if p.dim() > 1]
    vectors = [p for p in models[1].parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": 0.3},
        {"params": vectors, "weight_decay": 0.0},
    ]
    theirs = torch.optim.AdamW(groups, lr=1.0, betas=(0.8, 0.95), fused=fused)
    config = TrainingConfig(beta1=0.8, beta2=0.95, weight_decay=0.3, fused_adamw=fused)
    ours = make_optimizer(models[0], config)
    tokens = torch.randint(11, (2, 7))
    for step in range(4):
        rate = learning_rate(step * 600, config)
        ours.set_rate(rate)
        for group in theirs.param_groups:
            group["lr"] = rate
        for model, optimizer in zip(models, (ours, theirs), strict=True):
            optimizer.zero_grad()
            model(tokens).square().mean().backward()
            optimizer.step()
    for p, q in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(p, q)


def test_fused_is_the_same_but_for_rounding():
    models = [small_gpt(), small_gpt()]
    for model, fused in zip(models, (False, True), strict=True):
        train(model, make_optimizer(model, TrainingConfig(fused_adamw=fused)), range(4))
    for p, q in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-4)


# ---- the rate


def test_the_rate_is_taken_as_it_is_and_muons_goes_along():
    config = TrainingConfig(optimizer="muon", learning_rate=0.008, muon_rate=0.02)
    optimizer = make_optimizer(small_gpt(), config)
    for rate in (0.008, 0.0051, 0.0):
        optimizer.set_rate(rate)
        for part, _ in optimizer.parts:
            (lr,) = {group["lr"] for group in part.param_groups}
            assert lr == (pytest.approx(rate * 2.5) if isinstance(part, Muon) else rate)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_at_rate_zero_nothing_moves(recipe):
    model = small_gpt()
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = make_optimizer(model, TrainingConfig(weight_decay=0.5, **recipe))
    optimizer.set_rate(0.0)
    model(torch.randint(11, (2, 7))).square().mean().backward()
    optimizer.step()
    for p, value in zip(model.parameters(), before, strict=True):
        assert torch.equal(p, value)


def test_gradients_are_forgotten():
    model = small_gpt()
    optimizer = make_optimizer(model, TrainingConfig(optimizer="muon"))
    model(torch.randint(11, (2, 7))).sum().backward()
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


# ---- what is remembered


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_put_back_it_goes_on_bit_for_bit(recipe, stop):
    config = TrainingConfig(**recipe)
    straight = small_gpt(tied_head=False)
    expected = train(straight, make_optimizer(straight, config), range(6))

    first = small_gpt(tied_head=False)
    optimizer = make_optimizer(first, config)
    losses = train(first, optimizer, range(stop))
    state = {key: value.clone() for key, value in optimizer.state_dict().items()}
    weights = {key: value.clone() for key, value in first.state_dict().items()}
    train(first, optimizer, range(7, 9))  # what happens afterwards does not reach the copies

    second = small_gpt(tied_head=False, initialisation="xavier")
    second.load_state_dict(weights)
    optimizer = make_optimizer(second, config)
    train(second, optimizer, range(20, 21))  # and is forgotten
    second.load_state_dict(weights)
    optimizer.load_state_dict(state)
    losses += train(second, optimizer, range(stop, 6))
    assert losses == expected
    for p, q in zip(straight.parameters(), second.parameters(), strict=True):
        assert torch.equal(p, q)


def test_the_state_is_tensors_by_parameter():
    model = small_gpt()
    optimizer = make_optimizer(model, TrainingConfig(optimizer="muon"))
    assert optimizer.state_dict() == {}
    train(model, optimizer, range(2))
    state = optimizer.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert state["blocks.1.attention.key.weight.momentum"].shape == (12, 12)
    assert state["token_embedding.weight.exp_avg_sq"].shape == (11, 12)
    assert state["final_norm.bias.step"].item() == 2
    assert {key.rpartition(".")[0] for key in state} == {n for n, _ in model.named_parameters()}


def test_what_was_loaded_is_a_copy():
    model = small_gpt()
    optimizer = make_optimizer(model, TrainingConfig(optimizer="muon"))
    train(model, optimizer, range(2))
    state = {key: value.clone() for key, value in optimizer.state_dict().items()}
    before = {key: value.clone() for key, value in state.items()}
    optimizer.load_state_dict(state)
    train(model, optimizer, range(2))
    for key, value in state.items():
        assert torch.equal(value, before[key])


@pytest.mark.parametrize(
    ("recipe", "other", "changes", "message"),
    [
        ("adamw", "adamw", {"head.bias.step": torch.tensor(1.0)}, "head.bias.step of shape"),
        ("adamw", "adamw", {"final_norm.bias.step": None}, "final_norm.bias.step of shape none, "),
        ("adamw", "adamw", {"final_norm.bias.exp_avg": torch.zeros(13)}, "exp_avg of shape (13,)"),
        ("muon", "adamw", {}, "and the model trained by this recipe"),
        ("adamw", "muon", {}, "resume with the recipe it is from"),
    ],
)
def test_a_state_of_something_else_is_refused(recipe, other, changes, message):
    model = small_gpt()
    optimizer = make_optimizer(model, TrainingConfig(**RECIPES[recipe]))
    train(model, optimizer, range(1))
    state = {**optimizer.state_dict(), **changes}
    state = {key: value for key, value in state.items() if value is not None}
    target = make_optimizer(model, TrainingConfig(**RECIPES[other]))
    with pytest.raises(CourseError) as refusal:
        target.load_state_dict(state)
    assert message in str(refusal.value)
    assert target.state_dict() == {}
