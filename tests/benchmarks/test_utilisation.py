"""The arithmetic of utilisation, by hand."""

import pytest
import torch

from benchmarks.utilisation import PEAK_TFLOPS, flops_per_token, peak_flops, utilisation
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT

SHAPE = {"vocab_size": 11, "context_length": 7, "n_layers": 2, "n_heads": 2, "d_model": 8}


def test_operations_of_a_token_as_torch_counts_them():
    """Forward and backward of whole windows; torch counts matrix products alone."""
    model = GPT(GPTConfig(**SHAPE, bias=False, positions="rotary", tied_head=False))
    model.attention_kernel = "explicit"
    tokens = torch.randint(11, (3, 7))
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model(tokens).sum().backward()
    vectors = sum(p.numel() for p in model.parameters() if p.ndim == 1)
    assert flops_per_token(model) * 21 == counter.get_total_flops() + 6 * vectors * 21


def test_a_tied_head_counts_and_a_table_that_is_only_looked_up_does_not():
    tied, untied = (GPT(GPTConfig(**SHAPE, tied_head=tied)) for tied in (True, False))
    assert flops_per_token(tied) == flops_per_token(untied)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [("NVIDIA H200", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA H100 80GB HBM3", 989), ("L4", 121)],
)
def test_peaks_are_found_by_the_device_s_name(name, tflops):
    assert peak_flops(name, None) == tflops * 1e12


def test_no_name_hides_behind_a_shorter_one():
    for name, tflops in PEAK_TFLOPS.items():
        assert peak_flops(f"NVIDIA {name}", None) == tflops * 1e12


def test_an_unknown_peak_is_asked_for_and_a_given_one_taken():
    runs = [{"tokens": 100, "flops_per_token": 3_000, "seconds": s} for s in (1.0, 3.0, 2.0)]
    assert "--peak-tflops" in utilisation(runs, peak_flops("Loom 2", None))
    assert utilisation(runs, peak_flops("Loom 2", 1e-6)) == "15.0 %"  # 150,000 of 1,000,000
