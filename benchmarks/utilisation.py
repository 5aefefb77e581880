"""How much of a GPU a training uses: model FLOPs utilisation.

It is the arithmetic that the model needs over what the GPU could do in that time. A token of
training needs 6 · parameters + 12 · n_layers · d_model · context_length operations (Chowdhery et
al. 2022, arXiv 2204.02311, appendix B), and no credit is given for computing anything twice.
"""

from __future__ import annotations

import statistics

from benchmarks.store import Measurement
from course_lib.model.gpt import GPT, count_parameters

# dense bfloat16 (float16 where the GPU has no bfloat16) in 10¹² operations a second, as the maker
# states it; longer names first, for "H100 PCIe" is not "H100"
PEAK_TFLOPS = {
    "B200": 2250,
    "H200": 989,
    "H100 PCIe": 756,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "L4": 121,
    "A10": 125,
    "T4": 65,
    "V100": 125,
    "RTX 5090": 209.5,
    "RTX 4090": 165.2,
    "RTX 3090": 71,
}


def flops_per_token(model: GPT) -> int:
    """Operations that training on one token needs, forward and backward.

    An embedding that is only looked up computes nothing and is not counted.
    """
    config = model.config
    parameters = count_parameters(model)
    if not config.tied_head:
        parameters -= model.token_embedding.weight.numel()
    return 6 * parameters + 12 * config.n_layers * config.d_model * config.context_length


def peak_flops(name: str, given_tflops: float | None) -> float | None:
    """What the GPU of that name can do in a second; None if it is not known."""
    if given_tflops is not None:
        return given_tflops * 1e12
    return next((peak * 1e12 for gpu, peak in PEAK_TFLOPS.items() if gpu in name), None)


def utilisation(measurements: list[Measurement], peak: float | None) -> str:
    """The median share of the GPU's operations that a way of training uses, in per cent."""
    if peak is None:
        return "unknown: give --peak-tflops"
    shares = [m["tokens"] * m["flops_per_token"] / m["seconds"] / peak for m in measurements]
    return f"{100 * statistics.median(shares):.1f} %"
