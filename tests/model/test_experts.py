"""Experts against loops over tokens; what the balancing loss and the capacity are to do."""

import math

import pytest
import torch

from course_lib.model.config import GPTConfig
from course_lib.model.copies import feed_forward_step
from course_lib.model.experts import (
    MixtureOfExperts,
    Router,
    count_active_parameters,
    route,
    routings_of,
)
from course_lib.model.gpt import GPT, count_parameters
from course_lib.model.layers import FeedForward, SwiGLU, make_feed_forward
from course_lib.model.snapshot import why_not_cached

D_MODEL, EXPERTS, TOKENS = 7, 5, 23


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def layer_of(k: int, capacity_factor: float | None = None) -> MixtureOfExperts:
    router = Router(D_MODEL, EXPERTS, k, capacity_factor)
    return MixtureOfExperts(router, [FeedForward(D_MODEL, 11) for _ in range(EXPERTS)])


def gpt(**values) -> GPT:
    torch.manual_seed(0)
    shape = {"vocab_size": 11, "context_length": 13, "n_layers": 2, "d_model": 12, "n_heads": 2}
    return GPT(GPTConfig(**(shape | {"n_experts": 5} | values)))


def by_loop(layer: MixtureOfExperts, x: torch.Tensor, capacity: int | None = None):
    """The same, token by token; how many choices were dropped."""
    taken, dropped, outputs = [0] * len(layer.experts), 0, []
    for token in x.reshape(-1, D_MODEL):
        scores = (layer.router.scores.weight @ token).tolist()
        best = sorted(range(EXPERTS), key=lambda e: -scores[e])[: layer.router.k]
        among = range(EXPERTS) if len(best) == 1 else best
        total, output = sum(math.exp(scores[e]) for e in among), torch.zeros(D_MODEL)
        for expert in best:
            if capacity is not None and taken[expert] == capacity:
                dropped += 1
                continue
            taken[expert] += 1
            output = output + math.exp(scores[expert]) / total * layer.experts[expert](token)
        outputs.append(output)
    return torch.stack(outputs).view_as(x), dropped


# ---- oracles


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_layer_equals_a_loop_over_tokens(k):
    layer, x = layer_of(k), torch.randn(3, TOKENS, D_MODEL)
    torch.testing.assert_close(layer(x), by_loop(layer, x)[0])


@pytest.mark.parametrize(("k", "factor"), [(1, 0.5), (1, 1.0), (2, 0.75), (2, 1.05), (3, 0.9)])
def test_with_a_capacity_it_equals_the_loop_too_and_counts_what_it_drops(k, factor):
    layer, x = layer_of(k, factor), torch.randn(3, TOKENS, D_MODEL)
    capacity = math.ceil(factor * 3 * TOKENS * k / EXPERTS)
    expected, dropped = by_loop(layer, x, capacity)
    with routings_of(layer) as routings:
        torch.testing.assert_close(layer(x), expected)
    assert routings[0].dropped == dropped > 0
    assert routings[0].chosen[routings[0].kept].bincount().max() <= capacity


def test_the_layer_has_the_gradients_of_the_loop():
    layer, x = layer_of(2), torch.randn(TOKENS, D_MODEL)
    got = torch.autograd.grad(layer(x).square().sum(), layer.parameters())
    scores = x @ layer.router.scores.weight.T
    best, chosen = scores.topk(2)
    gates = best.softmax(dim=-1)
    every = torch.stack([expert(x) for expert in layer.experts], dim=1)  # (token, expert, d_model)
    picked = every.gather(1, chosen[..., None].expand(-1, -1, D_MODEL))
    expected = torch.autograd.grad(
        (gates[..., None] * picked).sum(dim=1).square().sum(), layer.parameters()
    )
    for ours, theirs in zip(got, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_one_expert_of_one_is_a_feed_forward_layer():
    layer = MixtureOfExperts(Router(D_MODEL, 1, 1), [SwiGLU(D_MODEL, 11)])
    x = torch.randn(2, 3, D_MODEL)
    torch.testing.assert_close(layer(x), layer.experts[0](x))


# ---- gates


def test_the_gate_of_one_is_its_probability_among_all_and_teaches_the_router():
    scores = torch.randn(TOKENS, EXPERTS, requires_grad=True)
    routing = route(scores, 1)
    assert torch.equal(routing.gates[:, 0], scores.softmax(dim=-1).amax(dim=-1))
    assert torch.equal(routing.chosen[:, 0], scores.argmax(dim=-1))
    routing.gates.sum().backward()
    assert (scores.grad != 0).all()


def test_the_gates_of_several_are_their_probabilities_rescaled():
    routing = route(torch.randn(TOKENS, EXPERTS), 3)
    chosen = routing.probabilities.gather(-1, routing.chosen)
    torch.testing.assert_close(routing.gates, chosen / chosen.sum(dim=-1, keepdim=True))
    assert (chosen.diff(dim=-1) <= 0).all(), "the best first"
    assert (routing.chosen.sort(dim=-1).values.diff(dim=-1) > 0).all(), "all different"


# ---- balance


def test_the_balancing_loss_by_its_formula():
    routing = route(torch.randn(TOKENS, EXPERTS), 2)
    total = 0.0
    for expert in range(EXPERTS):
        share = sum(row.count(expert) for row in routing.chosen.tolist()) / (2 * TOKENS)
        assert routing.load[expert].item() == pytest.approx(share)
        total += share * routing.probabilities[:, expert].mean().item()
    assert routing.balance_loss.item() == pytest.approx(EXPERTS * total)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_it_is_1_where_all_experts_are_alike(k):
    shifted = torch.stack([torch.arange(EXPERTS).roll(shift) for shift in range(EXPERTS)])
    routing = route(0.3 * shifted, k)  # each expert is first once, second once, …
    assert routing.load.tolist() == pytest.approx([1 / EXPERTS] * EXPERTS)
    assert routing.balance_loss.item() == pytest.approx(1)


@pytest.mark.parametrize(("k", "largest"), [(1, EXPERTS), (2, EXPERTS / 2), (5, 1)])
def test_it_is_e_over_k_where_the_same_k_take_all(k, largest):
    scores = torch.zeros(TOKENS, EXPERTS)
    scores[:, 2 : 2 + k] = 50.0
    if k == 5:
        scores = torch.full((TOKENS, EXPERTS), 50.0)
    assert route(scores, k).balance_loss.item() == pytest.approx(largest)


def test_following_its_gradient_takes_load_from_the_one_that_has_most():
    scores = (torch.randn(TOKENS, EXPERTS) + torch.tensor([0.0, 0, 2, 0, 0])).requires_grad_()
    routing = route(scores, 1)
    assert routing.load.argmax() == 2
    assert not routing.load.requires_grad
    (gradient,) = torch.autograd.grad(routing.balance_loss, scores)
    assert gradient.sum(dim=0).argmax() == 2
    assert (gradient[:, 2] > 0).all()
    torch.testing.assert_close(gradient.sum(dim=1), torch.zeros(TOKENS), atol=1e-6, rtol=0)


# ---- capacity


def test_first_come_first_served():
    scores = torch.tensor([[3.0, 2, 0], [3, 2, 0], [3, 0, 2], [0, 3, 2]])
    routing = route(scores, 2, capacity=2)
    assert routing.chosen.tolist() == [[0, 1], [0, 1], [0, 2], [1, 2]]
    assert routing.kept.tolist() == [[True, True], [True, True], [False, True], [False, True]]
    assert routing.dropped == 2
    torch.testing.assert_close(routing.load, torch.tensor([3.0, 3, 2]) / 8)


def test_a_token_without_any_room_gets_nothing_so_the_stream_passes_it_on():
    layer = layer_of(1, capacity_factor=1e-6)  # room for one
    x = torch.randn(1, D_MODEL).expand(TOKENS, -1)
    output = layer(x)
    assert (output[0] != 0).any() and (output[1:] == 0).all()


def test_in_training_a_capacity_lets_earlier_tokens_matter_and_no_later_ones():
    layer, x = layer_of(1, 0.5), torch.randn(2, TOKENS, D_MODEL)
    moved = torch.zeros(2 * TOKENS, dtype=torch.bool)
    for changed in range(0, 2 * TOKENS, 3):
        other = x.clone()
        other.view(-1, D_MODEL)[changed] *= -1
        differs = (layer(x) != layer(other)).any(dim=-1).flatten()
        assert not differs[:changed].any()
        differs[changed] = False
        moved |= differs
    assert moved.any(), "another token's room depended on it"
    assert moved[TOKENS:].any()


def test_without_a_capacity_and_outside_training_each_token_is_alone():
    limited, x = layer_of(2, 0.5), torch.randn(2, TOKENS, D_MODEL)
    free = layer_of(2)
    free.load_state_dict(limited.state_dict())
    assert not torch.equal(limited(x), free(x))
    limited.eval()
    with routings_of(limited) as routings:
        assert torch.equal(limited(x), free(x))
    assert routings[0].dropped == 0
    shuffled = torch.randperm(TOKENS)
    torch.testing.assert_close(free(x)[:, shuffled], free(x[:, shuffled]))
    torch.testing.assert_close(free(x)[1], free(x[1]))
    torch.testing.assert_close(free(x)[1, 3], free(x[1, 3]))


# ---- numbers of other kinds


def test_scores_are_computed_in_float32_however_the_rest_is():
    layer, x = layer_of(2), torch.randn(TOKENS, D_MODEL)
    with routings_of(layer) as routings:
        exact = layer(x)
        with torch.autocast("cpu", torch.bfloat16):
            rounded = layer(x)
        low = layer.bfloat16()(x.bfloat16())
    assert rounded.dtype == torch.float32 and low.dtype == torch.bfloat16
    assert all(routing.gates.dtype == torch.float32 for routing in routings)
    assert torch.equal(routings[0].gates, routings[1].gates)
    torch.testing.assert_close(rounded, exact, atol=0.02, rtol=0.05)
    wide = layer.double()
    assert wide(x.double()).dtype == torch.float64


def test_every_expert_has_a_gradient_even_without_a_token():
    layer = layer_of(1)
    with torch.no_grad():
        layer.router.scores.weight.zero_()
        layer.router.scores.weight[3] = 1
    layer(torch.rand(TOKENS, D_MODEL)).sum().backward()
    for number, expert in enumerate(layer.experts):
        for parameter in expert.parameters():
            assert parameter.grad is not None
            assert (parameter.grad != 0).any() == (number == 3)


# ---- in the GPT


def test_the_configuration_reaches_the_layer():
    config = GPTConfig(
        vocab_size=5,
        d_model=12,
        n_experts=5,
        experts_per_token=3,
        capacity_factor=1.25,
        d_ff=17,
        feed_forward="swiglu",
        bias=False,
    )
    layer = make_feed_forward(config)
    assert type(layer) is MixtureOfExperts
    assert [type(expert) for expert in layer.experts] == [SwiGLU] * 5
    assert layer.experts[4].hidden.out_features == 17
    assert (layer.router.k, layer.router.capacity_factor) == (3, 1.25)
    assert layer.router.capacity(40) == 30
    assert layer.router.scores.weight.shape == (5, 12)
    assert not [name for name, _ in layer.named_parameters() if name.endswith("bias")]


def test_experts_start_as_the_layer_that_they_stand_for():
    model = gpt(d_model=128, n_heads=4, n_layers=3)
    for block in model.blocks:
        assert block.feed_forward.router.scores.weight.std().item() == pytest.approx(0.02, rel=0.1)
        for expert in block.feed_forward.experts:
            assert expert.hidden.weight.std().item() == pytest.approx(0.02, rel=0.03)
            expected = 0.02 / math.sqrt(6)
            assert expert.output.weight.std().item() == pytest.approx(expected, rel=0.03)
            assert (expert.hidden.bias == 0).all() and (expert.output.bias == 0).all()
    weights = [expert.hidden.weight for expert in model.blocks[0].feed_forward.experts]
    assert not torch.equal(weights[0], weights[1])
    silent = gpt(initialisation="zero_output")
    for block in silent.blocks:
        assert all((expert.output.weight == 0).all() for expert in block.feed_forward.experts)


def test_routings_come_from_the_pass_itself_layer_by_layer():
    model, tokens = gpt(n_experts=3), torch.randint(11, (2, 7))
    with routings_of(model) as routings:
        model(tokens)
        model(tokens[:, :4])
    assert [len(routing.chosen) for routing in routings] == [14, 14, 8, 8]
    assert not torch.equal(routings[0].probabilities, routings[1].probabilities)
    assert why_not_cached(model) is None, "no hook stays"
    model(tokens)
    assert len(routings) == 4
    with pytest.raises(ZeroDivisionError), routings_of(model):
        raise ZeroDivisionError
    assert why_not_cached(model) is None
    with routings_of(gpt(n_experts=None)) as none:
        pass
    assert none == []


def test_a_copy_for_generation_has_room_for_all():
    layer, x = layer_of(1, 0.5).train(), torch.randn(TOKENS, D_MODEL)
    step = feed_forward_step(layer)
    with torch.no_grad():
        torch.testing.assert_close(step(x), layer.eval()(x))


# ---- how many parameters


def test_8_experts_of_which_2_are_chosen():
    """Mixtral 8x7B (arXiv 2401.04088, table 1): 47B parameters, of which a token meets 13B."""
    config = GPTConfig(
        vocab_size=32_000,
        context_length=32_768,
        n_layers=32,
        d_model=4_096,
        n_heads=32,
        n_kv_heads=8,
        d_ff=14_336,
        n_experts=8,
        experts_per_token=2,
        positions="rotary",
        norm="rms_norm",
        feed_forward="swiglu",
        bias=False,
        tied_head=False,
    )
    with torch.device("meta"):
        model = GPT(config)
    assert count_parameters(model) == 46_702_792_704
    assert count_active_parameters(model) == 12_879_925_248


def test_active_parameters_are_those_that_one_token_gives_a_gradient():
    model = gpt(n_experts=5, experts_per_token=2)
    model(torch.tensor([[3]])).sum().backward()
    layers = [module for module in model.modules() if isinstance(module, MixtureOfExperts)]
    idle = sum(
        sum(p.numel() for p in expert.parameters())
        for layer in layers
        for expert in layer.experts
        if all((p.grad == 0).all() for p in expert.parameters())
    )
    assert idle > 0
    assert count_active_parameters(model) == count_parameters(model) - idle
    plain = gpt(n_experts=None)
    assert count_active_parameters(plain) == count_parameters(plain)
