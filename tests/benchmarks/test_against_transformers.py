"""Both models have the same weights and write the same text. Needs transformers, else skipped."""

import pytest
import torch

from benchmarks.against_transformers import (
    gpt2_twin,
    require_equal_logits,
    write_by_generate,
    write_by_generate_batch,
    write_by_loop,
    writer,
)
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT

pytest.importorskip("transformers")


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    shape = {"vocab_size": 11, "context_length": 7, "n_layers": 2, "n_heads": 2, "d_model": 8}
    model = GPT(GPTConfig(**shape)).eval()
    for parameter in model.parameters():  # biases and norms too, so that each is seen
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def test_the_same_text_by_all_three(model):
    twin, first = gpt2_twin(model), torch.randint(11, (3, 1))
    require_equal_logits(model, twin)
    ours = writer(model, first, 6)()
    assert ours.shape == (3, 7)
    assert torch.equal(ours, write_by_loop(twin, first, 6))
    assert torch.equal(ours, write_by_generate(twin, first, 6))
    assert torch.equal(ours, write_by_generate_batch(model, first, 6))


def test_other_weights_are_no_fair_comparison(model):
    twin = gpt2_twin(model)
    with torch.no_grad():
        twin.transformer.h[1].mlp.c_fc.bias += 0.1
    with pytest.raises(RuntimeError, match="no fair comparison"):
        require_equal_logits(model, twin)
