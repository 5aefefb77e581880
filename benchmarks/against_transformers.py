"""Writing with the course's cache beside transformers' GPT-2, with the cache of its own.

Both hold the same weights: the course's are copied into transformers' model, and their logits are
compared before anything is timed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.generation_speed import LARGE, SMALL, TOY, VOCABULARY, Workload
from benchmarks.harness import Case, Comparison, Contestant, Options, Unavailable, repeat
from benchmarks.report import Row
from benchmarks.store import Measurement, Results
from course_lib.generation import Sampling, generate_batch
from course_lib.model.cache import CachedGPT
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT

OURS, OURS_WHOLE = "CachedGPT", "generate_batch"
LOOP, GENERATE = "transformers, loop", "transformers, generate()"
WORKLOADS = {
    "0.8M, context 64, batch 1": Workload(SMALL, 1, 2.5, 5),
    "0.8M, context 64, batch 16": Workload(SMALL, 16, 4, 10),
    "10.65M, context 256, batch 1": Workload(LARGE, 1, 2.5, 5),
    "10.65M, context 256, batch 16": Workload(LARGE, 16, 4, 10),
}
TOY_WORKLOADS = {"toy, batch 1": Workload(TOY, 1), "toy, batch 3": Workload(TOY, 3)}
ROUNDS = 5
SECONDS = 1.5  # of measuring, each contestant, each round, and at least one whole text


def make(options: Options) -> Comparison:
    """The comparison for each shape and batch size. Unavailable without transformers."""
    if importlib.util.find_spec("transformers") is None:
        raise Unavailable(
            "transformers is not installed; python -m pip install -e '.[benchmarks]' brings it"
        )
    import transformers

    workloads = TOY_WORKLOADS if options.quick_check else WORKLOADS
    seconds = 0.0 if options.quick_check else SECONDS
    return Comparison(
        title="Writing with a cache: the course's against transformers' GPT-2",
        question=(
            "One model, the same weights in both (logits are compared first), in the shape of "
            "GPT-2: learned positions, exact GELU, no dropout. From one token each, texts are "
            "written until the context is full, always the likeliest token. *loop* calls "
            "transformers' model token by token with its cache, the least it can cost, as does "
            "*CachedGPT* with ours; *generate()* and *generate_batch* are what users call."
        ),
        cases=[
            Case(
                name=name,
                contestants=_contestants(workload, seconds),
                threads=options.threads or 1,
            )
            for name, workload in workloads.items()
        ],
        rounds=ROUNDS,
        minutes=0 if options.quick_check else 6,
        rows=lambda results: [row for name in workloads for row in _rows(results, name, workloads)],
        about={"transformers": transformers.__version__},
    )


def _rows(results: Results, name: str, workloads: dict[str, Workload]) -> list[Row]:
    def row(ours: str, theirs: str, **goal: float | None) -> Row:
        return Row(
            what=name,
            contender=ours,
            values=results.rates(name, ours),
            baseline=theirs,
            baseline_values=results.rates(name, theirs),
            **goal,
        )

    workload = workloads[name]
    return [
        row(OURS, LOOP),
        row(OURS_WHOLE, GENERATE, must=workload.must, aim=workload.aim),
    ]


def _contestants(workload: Workload, seconds: float) -> dict[str, Contestant]:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=VOCABULARY, **workload.shape)).eval()
    twin = gpt2_twin(model)
    first = torch.randint(VOCABULARY, (workload.batch_size, 1))
    length = model.config.context_length - 1  # with the first one a full context
    require_equal_logits(model, twin)

    def measured(write: Callable[[], Any]) -> Measurement:
        tokens = workload.batch_size * length
        return repeat(write, tokens=tokens, seconds=seconds, at_least=1, warm_up=1)

    return {
        LOOP: lambda number: measured(lambda: write_by_loop(twin, first, length)),
        GENERATE: lambda number: measured(lambda: write_by_generate(twin, first, length)),
        OURS: lambda number: measured(writer(model, first, length)),
        OURS_WHOLE: lambda number: measured(lambda: write_by_generate_batch(model, first, length)),
    }


def writer(model: GPT, first: torch.Tensor, length: int) -> Callable[[], torch.Tensor]:
    """What continues `first` (batch, 1) with the course's cache: (batch, 1 + length)."""
    cached = CachedGPT(model, batch_size=len(first))

    def write() -> torch.Tensor:
        cached.reset()
        written = [first]
        for _ in range(length):
            written.append(cached.forward(written[-1])[:, -1:].argmax(dim=-1))
        return torch.cat(written, dim=1)

    return write


def write_by_generate_batch(model: GPT, first: torch.Tensor, length: int) -> torch.Tensor:
    """The same by the course's own generation, greedy."""
    generators = [torch.Generator() for _ in first]
    chosen = generate_batch(model, list(first), length, Sampling(temperature=0.0), generators)
    return torch.cat([first, torch.stack(list(chosen), dim=1)], dim=1)


@torch.inference_mode()
def write_by_loop(twin: Any, first: torch.Tensor, length: int) -> torch.Tensor:
    """The same with transformers' model and cache, called token by token."""
    from transformers import DynamicCache

    written, cache = [first], DynamicCache()
    for _ in range(length):
        # by place, for the cache's argument has changed its name between versions
        logits = twin(written[-1], cache, use_cache=True).logits
        written.append(logits[:, -1:].argmax(dim=-1))
    return torch.cat(written, dim=1)


def write_by_generate(twin: Any, first: torch.Tensor, length: int) -> torch.Tensor:
    """The same by transformers' generate(), greedy."""
    return twin.generate(
        first,
        attention_mask=torch.ones_like(first),
        max_new_tokens=length,
        do_sample=False,
        use_cache=True,
    )


def gpt2_twin(model: GPT) -> Any:
    """transformers' GPT2LMHeadModel with the weights of a GPT in GPT-2's shape."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = model.config
    twin = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=config.vocab_size,
            n_positions=config.context_length,
            n_embd=config.d_model,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            activation_function="gelu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,  # nothing ends a text before its length
            pad_token_id=None,
        )
    )
    twin.load_state_dict(_gpt2_weights(model), strict=True)
    return twin.eval()


def _gpt2_weights(model: GPT) -> dict[str, torch.Tensor]:
    """The model's tensors under GPT-2's names; its matrices are (input, output), ours the other."""
    weights = {
        "transformer.wte.weight": model.token_embedding.weight,
        "transformer.wpe.weight": model.position_embedding.embedding.weight,
        "transformer.ln_f.weight": model.final_norm.weight,
        "transformer.ln_f.bias": model.final_norm.bias,
        "lm_head.weight": model.head.weight,
    }
    for i, block in enumerate(model.blocks):
        attention, place = block.attention, f"transformer.h.{i}."
        joint = (attention.query, attention.key, attention.value)
        for name, linears in (
            ("attn.c_attn", joint),
            ("attn.c_proj", (attention.output,)),
            ("mlp.c_fc", (block.feed_forward.hidden,)),
            ("mlp.c_proj", (block.feed_forward.output,)),
        ):
            weights[f"{place}{name}.weight"] = torch.cat([linear.weight.T for linear in linears], 1)
            weights[f"{place}{name}.bias"] = torch.cat([linear.bias for linear in linears])
        for name, norm in (("ln_1", block.attention_norm), ("ln_2", block.feed_forward_norm)):
            weights[f"{place}{name}.weight"] = norm.weight
            weights[f"{place}{name}.bias"] = norm.bias
    return {name: tensor.detach() for name, tensor in weights.items()}


def require_equal_logits(model: GPT, twin: Any) -> None:
    """RuntimeError if the two models do not compute the same."""
    tokens = torch.randint(model.config.vocab_size, (2, model.config.context_length))
    with torch.inference_mode():
        difference = (model(tokens) - twin(tokens).logits).abs().max().item()
    if difference > 1e-4:
        raise RuntimeError(f"the models differ by {difference} in their logits: no fair comparison")
