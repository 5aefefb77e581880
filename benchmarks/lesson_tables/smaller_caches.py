"""Lesson 15's table: four attentions with ever smaller caches in one GPT, and a model converted.

    python -m benchmarks.lesson_tables.smaller_caches

writes data/tables/smaller_caches.json. "Same budget" means the same steps on the same windows, and
as many parameters: what an attention saves goes into the feed-forward layer. And the shipped
Shakespeare model is made to share its key and value heads, and trained on for a little; beside it
the same training without any change, for that alone may help. One thread; about half an hour.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.lesson_tables import train_on_windows, write_table
from course_lib.data.corpora import DATA_FOLDER, Corpus, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.runtime import set_threads
from course_lib.training.checkpoint import load_run
from course_lib.training.trainer import evaluate

SEEDS = (0, 1, 2, 3, 4)
SHAPE = {
    "context_length": 64,
    "n_layers": 2,
    "d_model": 128,
    "n_heads": 8,
    "positions": "rotary",
    "norm": "rms_norm",
    "bias": False,
}
KINDS = {  # d_head is 16
    "MHA": {"n_kv_heads": 8},
    "GQA": {"n_kv_heads": 2},
    "MQA": {"n_kv_heads": 1},
    "MLA": {"d_latent": 32, "d_rotary": 8},
}
STEPS, BATCH, RATE = 600, 8, 0.001

HEADS_LEFT = (2, 1)  # of the shipped model's four
WAYS = ("mean", "first", "random")
CONVERTED_SEEDS = (0, 1, 2)
RECOVERY_STEPS = (100,)
RECOVERY_BATCH, RECOVERY_RATE = 8, 0.001


def config_of(vocab_size: int, kind: str) -> GPTConfig:
    """The configuration of this kind, with as many parameters as MHA, to less than one d_ff."""

    def size(config: GPTConfig) -> int:
        with torch.device("meta"):
            return count_parameters(GPT(config))

    config = GPTConfig(vocab_size=vocab_size, **SHAPE, **KINDS[kind])
    missing = size(GPTConfig(vocab_size=vocab_size, **SHAPE)) - size(config)
    width = 2 * config.d_model * config.n_layers  # parameters of one more hidden unit in each layer
    return replace(config, d_ff=config.hidden_width + round(missing / width))


def measure_kinds(corpus: Corpus, seeds: Sequence[int] = SEEDS, steps: int = STEPS) -> Iterator:
    """(kind, validation loss) of each model, seed by seed."""
    for seed in seeds:
        for kind in KINDS:
            torch.manual_seed(seed)
            model = GPT(config_of(corpus.tokenizer.vocab_size, kind))
            train_on_windows(model, corpus.train, seed, steps=steps, batch_size=BATCH, rate=RATE)
            yield kind, round(evaluate(model, corpus.validation), 4)


def shared(weight: Tensor, n_heads: int, n_kv_heads: int, way: str) -> Tensor:
    """A key or value matrix (n_heads · d_head, d_model) for n_kv_heads, each from one group.

    "mean": of the group's heads, as Ainslie et al. 2023 recommend; "first": its first head; or
    "random": numbers of the same spread.
    """
    groups = weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))  # (kv head, of group, …)
    if way == "mean":
        return groups.mean(dim=1).flatten(0, 1)
    first = groups[:, 0].flatten(0, 1)
    return first if way == "first" else torch.randn_like(first) * weight.std()


def converted(model: GPT, n_kv_heads: int, way: str) -> GPT:
    """A copy of a model of MHA whose query heads share n_kv_heads keys and values."""
    config = model.config
    fewer = GPT(replace(config, n_kv_heads=n_kv_heads))
    weights = {
        name: shared(weight, config.n_heads, n_kv_heads, way)
        if name.endswith(("attention.key.weight", "attention.value.weight"))
        else weight
        for name, weight in model.state_dict().items()
    }
    fewer.load_state_dict(weights)
    return fewer


def recovery(model: GPT, corpus: Corpus, seed: int, stops: Sequence[int]) -> list[float]:
    """The validation loss at once and after so many steps of further training, each from anew."""
    losses = [round(evaluate(model, corpus.validation), 4)]
    for steps in stops:
        trained = copy.deepcopy(model)
        train_on_windows(
            trained,
            corpus.train,
            seed,
            steps=steps,
            batch_size=RECOVERY_BATCH,
            rate=RECOVERY_RATE,
        )
        losses.append(round(evaluate(trained, corpus.validation), 4))
    return losses


def measure_conversion(
    corpus: Corpus, seeds: Sequence[int] = CONVERTED_SEEDS, stops: Sequence[int] = RECOVERY_STEPS
) -> Iterator[tuple[str, list[float]]]:
    """(what was done, losses) seed by seed: nothing, or "2 heads, mean" and so on."""
    shipped = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")[0]
    for seed in seeds:
        yield "unchanged", recovery(shipped, corpus, seed, stops)
        for n_kv_heads in HEADS_LEFT:
            for way in WAYS:
                torch.manual_seed(seed)
                model = converted(shipped, n_kv_heads, way)
                yield f"{n_kv_heads} heads, {way}", recovery(model, corpus, seed, stops)


def write(losses: dict[str, list[float]], conversion: dict[str, list[list[float]]]) -> None:
    """Write what was measured and how it came about."""
    corpus = load_corpus("shakespeare")
    configs = {kind: config_of(corpus.tokenizer.vocab_size, kind) for kind in KINDS}
    with torch.device("meta"):
        sizes = {kind: count_parameters(GPT(config)) for kind, config in configs.items()}
    write_table(
        "smaller_caches",
        what="loss in nats a character on the whole validation split, one for each seed; of "
        "converted models at once and after so many further steps",
        threads=1,
        seeds=list(SEEDS),
        model=SHAPE,
        kinds=KINDS,
        training={"steps": STEPS, "batch_size": BATCH, "learning_rate": RATE},
        parameters=sizes,
        d_ff={kind: config.d_ff for kind, config in configs.items()},
        losses=losses,
        conversion={
            "checkpoint": "data/checkpoints/shakespeare",
            "seeds": list(CONVERTED_SEEDS),
            "steps": [0, *RECOVERY_STEPS],
            "training": {"batch_size": RECOVERY_BATCH, "learning_rate": RECOVERY_RATE},
            "losses": conversion,
        },
    )


def main() -> None:
    """Measure all of it; what is measured is on disk after each model."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    losses: dict[str, list[float]] = {kind: [] for kind in KINDS}
    conversion: dict[str, list[list[float]]] = {}
    for what, found in measure_conversion(corpus):
        conversion.setdefault(what, []).append(found)
        write(losses, conversion)
        print(f"{what}: {found}", flush=True)
    for kind, loss in measure_kinds(corpus):
        losses[kind].append(loss)
        write(losses, conversion)
        print(f"{kind}: {loss}", flush=True)


if __name__ == "__main__":
    main()
