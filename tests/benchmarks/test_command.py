"""The command line, and that every comparison runs at a toy size."""

import importlib.util
import json

import pytest
import torch

from benchmarks import harness
from benchmarks.__main__ import COMPARISONS, WITHOUT_GPU, main

INSTALLED = importlib.util.find_spec("transformers") is not None
TOY = ["--quick-check", "--seeds", "1", "--threads", "1", "--device", "cpu"]


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_runs(name, tmp_path, capsys):
    if name == "transformers" and not INSTALLED:
        pytest.skip("transformers is not installed")
    assert main([name, *TOY, "--out", str(tmp_path)]) == 0
    page = (tmp_path / f"{name}.md").read_text(encoding="utf-8")
    assert page in capsys.readouterr().out
    assert harness.TOY in page
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert len(tables) >= 3
    data = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    measured = [m for r in data["rounds"] for m in r["measured"].values()]
    assert all(m["seconds"] > 0 and m["tokens"] > 0 for m in measured)
    if name.startswith("gpu"):
        assert data["conditions"]["machine"]["gpu"] == "none (cpu)"
        assert "GPU: none (cpu)" in page


def test_without_transformers_it_is_skipped_with_a_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["transformers", *TOY, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("transformers: skipped") and ".[benchmarks]" in said
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu_the_gpu_comparisons_are_skipped(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(["gpu-loss", "--out", str(tmp_path)]) == 0
    assert "gpu-loss: skipped, there is no CUDA device here" in capsys.readouterr().out


def test_all_but_the_gpu_s_are_the_default(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("benchmarks.__main__._run", lambda name, options: asked.append(name))
    assert main([]) == 0
    assert asked == WITHOUT_GPU == ["training", "quick", "laptop", "cache", "transformers"]


def test_list_names_them_all(capsys):
    assert main(["--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == list(COMPARISONS)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["speed"], "speed"),
        (["quick", "--seeds", "0"], "'0' must be a whole number of at least 1"),
        (["quick", "--threads", "-1"], "'-1' must be"),
        (["quick", "--loss", "nan"], "'nan' must be"),
        (["gpu-training", "--peak-tflops", "0"], "'0' must be"),
        (["quick", "--quick-check", "--threads", "4096"], "threads=4096 is not possible here"),
        (["quick", "--out", ".."], "--out '..' cannot be used"),
        (["gpu-loss", "--device", "abacus"], "'abacus' is not available here"),
    ],
)
def test_mistakes_end_with_2_and_a_line(arguments, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main(arguments))
    assert ended.value.code == 2
    assert part in capsys.readouterr().err.splitlines()[-1]
    assert "Traceback" not in capsys.readouterr().err


def test_a_stop_says_how_to_go_on(monkeypatch, capsys):
    def stopped(name, options):
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.__main__._run", stopped)
    assert main(["quick"]) == 130
    assert "the same command goes on" in capsys.readouterr().err
