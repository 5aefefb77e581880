"""What is computed in 16 bits and what is not, what is chosen where, and what an overflow does."""

import sys

import pytest
import torch
from torch import nn

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError
from course_lib.training.optimizer import make_optimizer
from course_lib.training.precision import Precision, choose_precision
from course_lib.training.presets import TrainingConfig
from course_lib.training.probe import probe
from course_lib.training.trainer import Trainer, next_token_loss

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def small_gpt(**values) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=11, context_length=7, n_layers=2, d_model=12, **values))


def update(model: GPT, optimizer, precision: Precision, seed: int = 0, clip=float("inf")) -> bool:
    tokens = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(seed))
    with precision.autocast():
        logits = model(tokens)
    loss = next_token_loss(logits.float(), tokens.roll(-1, dims=1))
    return precision.backward_and_step(loss, optimizer, model.parameters(), clip)


# ---- the choice


@pytest.mark.parametrize(
    ("wanted", "capability", "chosen"),
    [
        ("auto", (6, 1), "float16"),
        ("auto", (7, 0), "float16"),
        ("auto", (7, 5), "float16"),
        ("auto", (8, 0), "bfloat16"),
        ("auto", (8, 9), "bfloat16"),
        ("auto", (9, 0), "bfloat16"),
        ("auto", (12, 0), "bfloat16"),
        ("bfloat16", (8, 0), "bfloat16"),
        ("float16", (9, 0), "float16"),
        ("float16", (7, 0), "float16"),
        ("float32", (9, 0), "float32"),
        ("float32", (7, 0), "float32"),
    ],
)
def test_on_cuda_the_capability_decides(monkeypatch, wanted, capability, chosen):
    asked = []

    def fake(device):
        asked.append(device)
        return capability

    monkeypatch.setattr(torch.cuda, "get_device_capability", fake)
    device = torch.device("cuda:1")
    assert choose_precision(wanted, device) == chosen
    assert set(asked) == {device}


@pytest.mark.parametrize(
    ("wanted", "device", "chosen"),
    [
        ("auto", MPS, "float32"),
        ("float32", MPS, "float32"),
        ("auto", CPU, "float32"),
        ("float32", CPU, "float32"),
        ("bfloat16", CPU, "bfloat16"),
        ("float16", CPU, "float16"),
    ],
)
def test_off_cuda(wanted, device, chosen):
    assert choose_precision(wanted, device) == chosen


def test_what_a_device_does_not_do_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    message = r"'bfloat16' needs compute capability 8.0, and cuda has 7.5; use auto, float16"
    with pytest.raises(CourseError, match=message):
        choose_precision("bfloat16", CUDA)
    for wanted in HALVES:
        with pytest.raises(CourseError, match=f"'{wanted}' is not for mps; use auto or float32"):
            choose_precision(wanted, MPS)
    with pytest.raises(CourseError, match="precision='fp8' is not known; use one of: float32"):
        choose_precision("fp8", CPU)
    with pytest.raises(CourseError, match="'auto' is no precision; see"):
        Precision("auto", CPU)


# ---- what is computed how


@pytest.mark.parametrize("name", HALVES)
def test_products_are_in_16_bits_and_weights_gradients_and_memory_in_32(name):
    model = small_gpt()
    dtypes = []
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(lambda _, inputs, output: dtypes.append(output.dtype))
    optimizer = make_optimizer(model, TrainingConfig(optimizer="muon"))
    assert update(model, optimizer, Precision(name, CPU))
    assert len(dtypes) == 13
    assert set(dtypes) == {HALVES[name]}
    for tensor in (*model.parameters(), *optimizer.state_dict().values()):
        assert tensor.dtype == torch.float32
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", HALVES)
def test_16_bits_are_near_32(name):
    models = [small_gpt(), small_gpt()]
    for model, precision in zip(models, ("float32", name), strict=True):
        optimizer = make_optimizer(model, TrainingConfig(gradient_clip=1.0))
        optimizer.set_rate(1e-3)
        update(model, optimizer, Precision(precision, CPU))
    gradients = [torch.cat([p.grad.flatten() for p in model.parameters()]) for model in models]
    assert not torch.equal(*gradients)
    assert (gradients[0] - gradients[1]).norm() < 0.02 * gradients[0].norm()


def test_float32_is_the_plain_loop_bit_for_bit():
    models = [small_gpt(), small_gpt()]
    optimizers = [make_optimizer(model, TrainingConfig()) for model in models]
    tokens = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(4))
    for _ in range(3):
        update(models[0], optimizers[0], Precision("float32", CPU), seed=4, clip=0.1)
        next_token_loss(models[1](tokens), tokens.roll(-1, dims=1)).backward()
        nn.utils.clip_grad_norm_(models[1].parameters(), 0.1)
        optimizers[1].step()
        optimizers[1].zero_grad()
    for p, q in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("name", ["float32", *HALVES])
def test_gradients_are_clipped_in_their_own_units(name):
    model = small_gpt()
    optimizer = make_optimizer(model, TrainingConfig())
    precision = Precision(name, CPU)
    norms = []
    for clip in (float("inf"), 0.01):
        optimizer.set_rate(0.0)
        update(model, optimizer, precision, clip=clip)
        norms.append(torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item())
    assert 0.1 < norms[0] < 10  # not times the scale of 65,536
    assert norms[1] == pytest.approx(0.01, rel=1e-3)


def test_without_a_limit_no_norm_is_measured(monkeypatch):
    def measured(*_):
        raise AssertionError("the norm was measured")

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", measured)
    model = small_gpt()
    update(model, make_optimizer(model, TrainingConfig()), Precision("float32", CPU))


# ---- overflow


@pytest.mark.parametrize("recipe", [{}, {"fused_adamw": True}, {"optimizer": "muon"}])
def test_an_overflow_skips_the_whole_step_and_halves_the_scale(recipe):
    model = small_gpt()
    optimizer = make_optimizer(model, TrainingConfig(**recipe))
    precision = Precision("float16", CPU)
    precision.load_state_dict({**precision.state_dict(), "scale": 2.0**40})
    start = {key: value.clone() for key, value in model.state_dict().items()}
    skipped = 0
    while not update(model, optimizer, precision):
        skipped += 1
        assert precision.state_dict()["scale"] == 2.0 ** (40 - skipped)
        assert optimizer.state_dict() == {}
        for key, value in model.state_dict().items():
            assert torch.equal(value, start[key])
    assert 10 < skipped < 35
    assert all(value.isfinite().all() for value in model.state_dict().values())
    steps = {v.item() for k, v in optimizer.state_dict().items() if k.endswith(".step")}
    assert steps == {1.0}


def test_a_run_through_overflows_keeps_its_steps_and_rates():
    tokens = torch.randint(11, (100,), generator=torch.Generator().manual_seed(1))
    config = TrainingConfig(steps=20, warmup_steps=2, batch_size=3, precision="float16")
    trainers = [Trainer(small_gpt(), tokens, tokens, config) for _ in range(2)]
    scaler = trainers[1].precision
    scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0**30})
    for trainer in trainers:
        assert len(list(trainer.run())) == 20
    rates = [[record.learning_rate for record in trainer.history] for trainer in trainers]
    assert rates[0] == rates[1]
    updates = [t.optimizer.state_dict()["final_norm.bias.step"].item() for t in trainers]
    assert updates[0] == 20
    assert 5 <= updates[1] < 20  # the skipped ones are not counted
    assert all(p.isfinite().all() for p in trainers[1].model.parameters())


def test_the_scale_is_kept():
    first, second = Precision("float16", CPU), Precision("float16", CPU)
    assert first.state_dict()["scale"] == 65_536
    first.load_state_dict({**first.state_dict(), "scale": 2.0**9})
    second.load_state_dict(first.state_dict())
    assert second.state_dict()["scale"] == 2.0**9
    for name in ("float32", "bfloat16"):
        assert Precision(name, CPU).state_dict() == {}
        Precision(name, CPU).load_state_dict({})


# ---- a CPU run


def test_a_cpu_run_never_calls_cuda(monkeypatch):
    model = small_gpt(dropout=0.1)
    tokens = torch.randint(11, (100,))

    def called(*_, **__):
        raise AssertionError("CUDA was called")

    names = [
        *("init", "_lazy_init", "_lazy_call", "current_device", "device", "device_count"),
        *("get_device_capability", "get_device_name", "get_device_properties"),
        *("get_rng_state", "set_rng_state", "manual_seed", "manual_seed_all"),
        *("is_bf16_supported", "memory_allocated", "synchronize", "stream"),
    ]
    for name in names:
        monkeypatch.setattr(torch.cuda, name, called)

    def is_available():
        # torch's own AdamW asks, where torch was built with CUDA; that starts nothing
        assert "course_lib" not in sys._getframe(1).f_code.co_filename, "CUDA was asked for"
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    for precision in ("float32", "bfloat16", "float16", "auto"):
        config = TrainingConfig(
            steps=1, warmup_steps=0, batch_size=3, optimizer="muon", precision=precision
        )
        list(Trainer(model, tokens, tokens, config).run())
    probe(model, config, threads=1)
