"""Lesson 16's table: 16 experts, with and without the balancing loss, over five seeds.

    python -m benchmarks.lesson_tables.experts

How much of the tokens the most wanted expert has, and how many experts are dead, as training goes
on; and whether the loss notices. One thread; about eight minutes.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from benchmarks.lesson_tables import write_table
from course_lib.data.corpora import Corpus, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.experts import Router, routings_of
from course_lib.model.gpt import GPT, evaluating
from course_lib.runtime import set_threads
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Trainer

SEEDS = (0, 1, 2, 3, 4)
EXPERTS = 16
STEPS = 200
LOOK_AT = (0, 5, 20, 100, 200)  # steps after which the loads are measured
ROWS = {  # balancing weight (None: no experts at all), whether the router learns
    "no balancing": (0.0, True),
    "no balancing, router frozen": (0.0, False),
    "balancing 0.01": (0.01, True),
    "balancing 0.05": (0.05, True),
    "one feed-forward layer": (None, True),
}
SETTINGS = {
    "corpus": "shakespeare",
    "model": "2 layers, d_model 64, 2 heads, context 32, 16 experts of width 256, top-1",
    "initialisation": "gpt2, routers N(0, 1)",
    "training": "200 steps of 16 windows, AdamW (0.9, 0.999) at 0.003, no warm-up, no decay",
    "largest, dead": "by layer, on 3,200 characters of the validation split; dead: fewer tokens "
    "than a tenth of a fair share",
    "alike": "mean cosine of the vectors that two random tokens bring to a router, by layer",
    "loss": "nats per character on the first 20,000 characters of the validation split",
}


def newborn(corpus: Corpus, balance_weight: float | None, learns: bool, seed: int) -> GPT:
    """A model before training, with experts unless the weight is None."""
    experts = {"n_experts": EXPERTS, "experts_per_token": 1, "balance_weight": balance_weight}
    torch.manual_seed(seed)
    model = GPT(
        GPTConfig(
            vocab_size=corpus.tokenizer.vocab_size,
            context_length=32,
            n_layers=2,
            d_model=64,
            n_heads=2,
            **({} if balance_weight is None else experts),
        )
    )
    for module in model.modules():
        if isinstance(module, Router):
            nn.init.normal_(module.scores.weight, std=1.0)
            module.scores.weight.requires_grad_(learns)
    return model


def look_at(model: GPT, corpus: Corpus) -> dict[str, list]:
    """Largest load, dead experts and likeness of the tokens, each by layer."""
    windows = corpus.validation[: 100 * 32].view(100, 32)
    brought: list[torch.Tensor] = []
    routers = [module for module in model.modules() if isinstance(module, Router)]
    hooks = [r.register_forward_pre_hook(lambda _, x: brought.append(x[0])) for r in routers]
    with evaluating(model), routings_of(model) as routings:
        model(windows)
    for hook in hooks:
        hook.remove()
    return {
        "largest": [round(routing.load.max().item(), 3) for routing in routings],
        "dead": [int((routing.load < 0.1 / EXPERTS).sum()) for routing in routings],
        "alike": [round(likeness(x), 3) for x in brought],
    }


def likeness(x: torch.Tensor) -> float:
    """Mean cosine of two vectors drawn from x (token, d_model)."""
    return nn.functional.normalize(x, dim=-1).mean(dim=0).square().sum().item()


def train(model: GPT, corpus: Corpus, seed: int, steps: int = STEPS) -> tuple[dict, float]:
    """What was seen, by the number of steps done, and the validation loss at the end."""
    recipe = TrainingConfig(
        steps=steps,
        batch_size=16,
        learning_rate=3e-3,
        minimum_rate=3e-3,
        warmup_steps=0,
        beta2=0.999,
        weight_decay=0.0,
        gradient_clip=math.inf,
        evaluate_every=steps,
        seed=seed,
    )
    trainer = Trainer(model, corpus.train, corpus.validation[:20_001], recipe)
    seen = {"0": look_at(model, corpus)}
    for record in trainer.run():
        if record.step in LOOK_AT:
            seen[str(record.step)] = look_at(model, corpus)
    return seen, round(record.val_loss, 4)


def main() -> None:
    """Measure every row; what is measured is on disk after each."""
    set_threads(1)
    corpus = load_corpus("shakespeare")
    rows: dict[str, dict] = {}
    for name, (weight, learns) in ROWS.items():
        runs = [train(newborn(corpus, weight, learns, seed), corpus, seed) for seed in SEEDS]
        row: dict = {"loss": [loss for _, loss in runs]}
        if weight is not None:
            for what in ("largest", "dead", "alike"):  # step → one list a seed, of both layers
                row[what] = {str(s): [seen[str(s)][what] for seen, _ in runs] for s in LOOK_AT}
        rows[name] = row
        write_table("experts", seeds=SEEDS, threads=1, settings=SETTINGS, rows=rows)
        print(name, row, flush=True)


if __name__ == "__main__":
    main()
