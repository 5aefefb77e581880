"""The peer computes the same function as preset plain, and learns."""

import torch

from benchmarks.eager_loop import EagerGPT, EagerLoop
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters

SHAPE = {"vocab_size": 11, "context_length": 7, "n_layers": 2, "n_heads": 2, "d_model": 8}


def twins() -> tuple[GPT, EagerGPT]:
    """Preset plain's model, small, and the eager one with its weights."""
    torch.manual_seed(0)
    ours, eager = GPT(GPTConfig(**SHAPE)), EagerGPT(**SHAPE)
    for parameter in ours.parameters():  # biases and norms too, so that each is seen
        torch.nn.init.normal_(parameter, std=0.3)
    state = {"tokens.weight": ours.token_embedding.weight, "head.weight": ours.head.weight}
    state["positions.weight"] = ours.position_embedding.embedding.weight
    state |= {f"norm.{n}": p for n, p in ours.final_norm.named_parameters()}
    for i, block in enumerate(ours.blocks):
        attention = block.attention
        parts = {
            "attention_norm": block.attention_norm,
            "attention.output": attention.output,
            "feed_forward_norm": block.feed_forward_norm,
            "feed_forward.0": block.feed_forward.hidden,
            "feed_forward.2": block.feed_forward.output,
        }
        for name, part in parts.items():
            state |= {f"blocks.{i}.{name}.{n}": p for n, p in part.named_parameters()}
        for n in ("weight", "bias"):
            joint = [getattr(linear, n) for linear in (attention.query, attention.key)]
            state[f"blocks.{i}.attention.qkv.{n}"] = torch.cat(
                [*joint, getattr(attention.value, n)]
            )
    eager.load_state_dict(state)
    return ours, eager


def test_the_same_function_as_plain():
    ours, eager = twins()
    tokens = torch.randint(11, (3, 7))
    torch.testing.assert_close(eager(tokens), ours(tokens), rtol=1e-4, atol=1e-5)
    assert count_parameters(eager) == count_parameters(ours)


def test_the_loop_learns_a_text_that_repeats():
    torch.manual_seed(0)
    text = torch.arange(11).repeat(30)
    model = EagerGPT(**{**SHAPE, "d_model": 32})
    loop = EagerLoop(model, text, batch_size=4, steps=150, seed=0)
    losses = [loop.step() for _ in range(150)]
    assert losses[0] > 2.3 and losses[-1] < 0.5


def test_its_rate_warms_up_and_falls():
    loop = EagerLoop(EagerGPT(**SHAPE), torch.zeros(20, dtype=torch.long), 1, 300, 0)
    rates = []
    for loop.done in (0, 50, 100, 200, 300, 10**6):
        rates.append(loop._rate())
    assert rates[0] < rates[1] < rates[2] == 1e-3 > rates[3] > rates[4] == rates[5]
