"""The ways of writing that are timed write the same texts."""

import pytest
import torch

from benchmarks.generation_speed import (
    VOCABULARY,
    WORKLOADS,
    cached_step,
    generate_step,
    recompute_step,
)
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters


def model_of(n_layers: int) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=11,
        context_length=7,
        n_layers=n_layers,
        n_heads=2,
        d_model=8,
        positions="rotary",
        tied_head=False,
    )
    model = GPT(config).eval()
    for matrix in (p for p in model.parameters() if p.ndim == 2):
        torch.nn.init.normal_(matrix)  # far from even, so that the likeliest token is clear
    return model


def test_recomputing_and_cache_write_the_same_past_a_full_window():
    """With one layer: with more, a cache has seen what lies before the window, too."""
    model, tokens = model_of(n_layers=1), torch.randint(11, (3, 7))
    recompute, cached = recompute_step(model, tokens), cached_step(model, tokens)
    # the cached one chose a first token when it read the prompt
    texts = [torch.cat([recompute() for _ in range(10)], dim=1)[:, 1:]]
    texts.append(torch.cat([cached() for _ in range(9)], dim=1))
    assert texts[0].shape == (3, 9)
    assert torch.equal(*texts)
    assert len(texts[0].unique()) > 2


def test_a_step_of_generation_is_one_token_for_each_text():
    step = generate_step(model_of(n_layers=2), torch.randint(11, (3, 7)))
    assert [step().shape for _ in range(2)] == [(3,)] * 2


def test_the_sizes_are_what_the_names_say():
    for name, workload in WORKLOADS.items():
        size, context, batch = name.split(", ")
        assert context == f"context {workload.shape['context_length']}"
        assert batch == f"batch {workload.batch_size}"
        if workload.batch_size == 1:  # the others have the same shapes
            model = GPT(GPTConfig(vocab_size=VOCABULARY, **workload.shape))
            assert count_parameters(model) / 1e6 == pytest.approx(float(size[:-1]), rel=0.02)
