"""What the probe finds on machines made up for it, and that a real one leaves no trace."""

import json

import pytest
import torch

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training import probe as module
from course_lib.training.presets import TrainingConfig
from course_lib.training.probe import Machine, StepTimer, probe


def small_gpt(**values) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=11, context_length=7, n_layers=1, d_model=12, **values))


def recipe(precision: str = "float32", **values) -> TrainingConfig:
    return TrainingConfig(**{"batch_size": 3, "precision": precision, **values})


class Clock:
    """A machine whose steps take what a table says: (threads, precision, kernel) → milliseconds."""

    def __init__(self, table: dict, first: float = 1.0) -> None:
        self.table, self.first, self.calls = table, first, []

    def __call__(self, machine: Machine) -> float:
        way = (machine.threads, machine.precision, machine.attention_kernel)
        self.calls.append(way)
        return self.table[way] * (self.first if self.calls.count(way) == 1 else 1.0)


def auto(threads: int, fused: float, explicit: float, half_fused: float, half: float) -> dict:
    return {
        (threads, "float32", "fused"): fused,
        (threads, "float32", "explicit"): explicit,
        (threads, "bfloat16", "fused"): half_fused,
        (threads, "bfloat16", "explicit"): half,
    }


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ((40, 50, 90, 80), ("float32", "fused", 40)),
        ((40, 30, 90, 80), ("float32", "explicit", 30)),
        ((40, 50, 20, 30), ("bfloat16", "fused", 20)),
        ((40, 50, 60, 20), ("bfloat16", "explicit", 20)),  # neither change alone would have won
        ((40, 30, 25, 20), ("bfloat16", "explicit", 20)),
        ((40, 37, 39, 38), ("float32", "fused", 40)),  # too little to leave what is usual
        ((40, 40, 40, 40), ("float32", "fused", 40)),
    ],
)
def test_kernel_and_precision(times, found):
    machine = probe(small_gpt(), recipe("auto"), threads=1, timer=Clock(auto(1, *times)))
    assert (machine.precision, machine.attention_kernel, machine.milliseconds) == found
    assert machine.threads == 1


@pytest.mark.parametrize(
    ("times", "available", "threads", "milliseconds"),
    [
        ({1: 40, 2: 25}, 2, 2, 25),
        ({1: 40, 2: 38}, 2, 1, 40),
        ({1: 40, 2: 320}, 2, 1, 40),
        ({1: 40, 2: 25, 4: 15, 6: 14}, 6, 4, 15),
        ({1: 40}, 1, 1, None),  # nothing to compare
    ],
)
def test_threads(monkeypatch, times, available, threads, milliseconds):
    monkeypatch.setattr(module, "available_threads", lambda: available)
    clock = Clock({(n, "float32", "fused"): time for n, time in times.items()})
    machine = probe(small_gpt(), recipe(), timer=clock)
    assert machine == Machine(threads=threads, precision="float32", milliseconds=milliseconds)


def test_kernel_and_precision_are_tried_with_the_threads_that_were_found(monkeypatch):
    monkeypatch.setattr(module, "available_threads", lambda: 2)
    clock = Clock(auto(2, 25, 20, 50, 40) | {(1, "float32", "fused"): 40})
    machine = probe(small_gpt(), recipe("auto"), timer=clock)
    assert machine == Machine(
        threads=2, precision="float32", attention_kernel="explicit", milliseconds=20
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_recipe_that_says_how_is_computed_so(precision):
    """Then all that could be found is the number of threads."""
    machine = probe(small_gpt(), recipe(precision), threads=2, timer=Clock({}))
    assert machine == Machine(threads=2, precision=precision)


def test_the_first_step_counts_for_neither():
    clock = Clock(auto(1, 40, 20, 90, 90), first=2.9)
    assert probe(small_gpt(), recipe("auto"), 1, clock).attention_kernel == "explicit"


def test_a_stop_of_the_machine_decides_nothing():
    clock = Clock(auto(1, 40, 30, 90, 90))
    times = clock.table

    def with_a_pause(machine: Machine) -> float:
        pause = 20 if len(clock.calls) == 4 else 1  # in one step of the explicit kernel
        return pause * clock(machine)

    assert probe(small_gpt(), recipe("auto"), 1, with_a_pause).attention_kernel == "explicit"
    assert clock.calls[4] == (1, "float32", "explicit")
    assert times[clock.calls[4]] == 30


def test_what_is_far_slower_is_tried_once():
    clock = Clock(auto(1, 40, 41, 200, 200))
    probe(small_gpt(), recipe("auto"), 1, clock)
    assert clock.calls.count((1, "bfloat16", "fused")) == 1
    assert clock.calls.count((1, "bfloat16", "explicit")) == 1


def test_long_steps_are_timed_once():
    clock = Clock(auto(1, 4_000, 3_000, 2_000, 9_000))
    assert probe(small_gpt(), recipe("auto"), 1, clock).precision == "bfloat16"
    assert len(clock.calls) < 12


@pytest.mark.parametrize(("capability", "precision"), [((7, 0), "float16"), ((9, 0), "bfloat16")])
def test_on_a_gpu_nothing_is_timed(monkeypatch, capability, precision):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    model = small_gpt()
    monkeypatch.setattr(model, "parameters", lambda: iter([_OnCuda()]))
    assert probe(model, recipe("auto")) == Machine(threads=1, precision=precision)
    assert probe(model, recipe("auto"), threads=3).threads == 3


class _OnCuda:
    device = torch.device("cuda")


def test_a_finding_is_json():
    machine = Machine(threads=2, precision="bfloat16", milliseconds=1.5)
    assert json.loads(json.dumps(machine.to_dict())) == {
        "threads": 2,
        "precision": "bfloat16",
        "attention_kernel": "fused",
        "milliseconds": 1.5,
    }


# ---- a real one


def test_a_probe_leaves_no_trace(monkeypatch):
    monkeypatch.setattr(module, "available_threads", lambda: 2)
    model = small_gpt(dropout=0.3).eval()
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    torch.manual_seed(5)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    machine = probe(model, recipe("auto", optimizer="muon"))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert not model.training
    assert model.attention_kernel == "fused"
    assert all(p.grad is None for p in model.parameters())
    for key, value in model.state_dict().items():
        assert torch.equal(value, weights[key])
    assert machine.threads in (1, 2)
    assert machine.milliseconds > 0


def test_a_step_is_the_recipes_but_for_its_size():
    model = small_gpt()
    timer = StepTimer(model, recipe("auto", batch_size=1_000, compile=True, optimizer="muon"))
    seen = []
    model.token_embedding.register_forward_pre_hook(
        lambda _, inputs: seen.append((inputs[0].shape, torch.get_num_threads()))
    )
    way = Machine(threads=1, precision="bfloat16", attention_kernel="explicit")
    assert timer(way) > 0
    (trainer,) = timer.trainers.values()
    assert trainer.config.optimizer == "muon"
    assert trainer.config.precision == trainer.precision.name == "bfloat16"
    assert trainer.model.attention_kernel == "explicit"
    assert seen == [((2_048 // 7, 7), 1)]
    timer(way)
    assert len(timer.trainers) == 1  # made once, so that a second step is a second step
    assert timer.trainers[way].optimizer.state_dict()["final_norm.bias.step"].item() == 2
