"""Facts of the machine, and estimates: from fakes, and once from this one."""

import os
from types import SimpleNamespace

import pytest
import torch

from course_lib.doctor import machine, speed
from course_lib.training.presets import PRESETS


def test_the_facts_of_this_machine_have_numbers():
    subjects = [
        finding.subject
        for look in (machine.python, machine.system, machine.memory, machine.devices)
        for finding in look()
    ]
    assert subjects == ["Python", "system", "processor", "memory", "devices"]
    assert f"cores: {os.cpu_count()}" in machine.system()[1].text
    assert torch.__version__ in machine.torch_build()[0].text
    assert machine.devices()[0].text.endswith("cpu")


@pytest.mark.parametrize(
    ("content", "limit"), [("2000000000\n", 2_000_000_000), ("max\n", None), (None, None)]
)
def test_the_limit_of_a_container(tmp_path, content, limit):
    file = tmp_path / "memory.max"
    if content:
        file.write_text(content, encoding="ascii")
    assert machine.container_limit(file) == limit


def test_a_container_that_may_use_less_than_there_is(tmp_path, monkeypatch):
    file = tmp_path / "memory.max"
    file.write_text("500000000", encoding="ascii")
    monkeypatch.setattr(machine, "MEMORY_LIMIT", file)
    assert machine.memory()[0].text.endswith("this container may use 0.5 GB")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {"avx2": True, "avx512_f": True, "avx512_bf16": True, "amx_bf16": True},
            "AVX2, AVX-512, AVX-512 bfloat16, AMX bfloat16",
        ),
        ({"avx2": True, "amx_bf16": False}, "AVX2; none for bfloat16, so float32 is the faster"),
        ({"neon": True, "bf16": True}, "NEON, bfloat16"),
        (
            {},
            "none of those that speed up matrix products; none for bfloat16, "
            "so float32 is the faster",
        ),
    ],
)
def test_instructions_by_name(found, said):
    assert machine.instructions(found) == said


def test_an_older_torch_is_asked_instruction_by_instruction(monkeypatch):
    older = SimpleNamespace(_is_avx2_supported=lambda: True, _is_amx_tile_supported=lambda: False)
    monkeypatch.setattr(torch, "cpu", older)
    assert machine.instructions(machine.capabilities()).startswith("AVX2; none for bfloat16")


class Card:
    name, major, minor, total_memory = "NVIDIA H200", 9, 0, 150e9


def test_a_gpu_with_its_capability_and_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: Card)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    said = "cuda:0 (NVIDIA H200, compute capability 9.0, 150 GB), mps (Apple GPU), cpu"
    assert machine.devices()[0].text == said


def test_a_busy_machine_says_so(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (7.8, 1.0, 1.0), raising=False)
    assert "busy (8 programs want to run)" in machine.busy(2)
    assert machine.busy(8) == ""
    monkeypatch.delattr(os, "getloadavg")
    assert machine.busy(2) == ""


# ---- speed


def test_a_large_preset_is_reckoned_from_the_work_of_a_smaller_one():
    asked = []

    def measure(preset):
        asked.append(preset)
        return speed.work(preset) * 1e-10

    times = speed.estimates(PRESETS, measure)
    assert times.keys() == PRESETS.keys()
    for name, preset in PRESETS.items():
        assert times[name] == pytest.approx(speed.work(preset) * 1e-10 * preset.training.steps)
    assert PRESETS["quick"] in asked and PRESETS["gpu"] not in asked
    del asked[:]
    speed.estimates(PRESETS, lambda preset: asked.append(preset) or 0.001)
    assert len(asked) == len(PRESETS), "where all are fast, all are measured"


def times(laptop: float) -> dict[str, float]:
    return {"quick": laptop / 10, "plain": laptop, "laptop": laptop, "gpu": laptop * 100}


@pytest.mark.parametrize(
    ("device", "laptop", "best", "why"),
    [
        ("cuda", 60.0, "gpu", "there is an NVIDIA GPU"),
        ("cpu", 90.0, "laptop", "without an NVIDIA GPU"),
        ("mps", 90.0, "laptop", "without an NVIDIA GPU"),
        ("cpu", 7_000.0, "quick", "`laptop` would take about 2 h"),
    ],
)
def test_the_preset_that_suits(device, laptop, best, why):
    first, *others = speed.advice(times(laptop), device)
    assert first.subject == best and "suits this machine: " in first.text and why in first.text
    assert {finding.subject for finding in others} == PRESETS.keys() - {best}
    assert all("suits" not in finding.text for finding in others)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "1 s"), (14.3, "14 s"), (83, "1 min"), (1_000, "17 min"), (7_000, "2 h"),
     (5_000, "1 h 20 min"), (100_000, "28 h")],
)  # fmt: skip
def test_an_estimate_has_few_digits(seconds, said):
    assert speed.about(seconds) == said


def test_measuring_disturbs_neither_random_numbers_nor_threads(monkeypatch):
    monkeypatch.setattr(speed, "SECONDS", 0.001)
    monkeypatch.setattr(speed, "PRESETS", {"laptop": PRESETS["quick"]})
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    (finding,) = speed.presets()
    assert finding.text.startswith("about ")
    assert torch.equal(torch.get_rng_state(), state) and torch.get_num_threads() == threads
