"""Experiments with several seeds whose result a lesson shows, each a module of its own.

    python -m benchmarks.lesson_tables.NAME

writes data/tables/NAME.json. The lesson runs the experiment once, small; one run alone would
mislead where seeds differ, and a notebook has no time for all of them.
"""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import torch
from torch import Tensor

from benchmarks.machine import describe_machine
from course_lib.data.batches import random_windows
from course_lib.data.tables import table_path
from course_lib.model.gpt import GPT
from course_lib.runtime import replace_file
from course_lib.training.trainer import next_token_loss


def write_table(name: str, **content: Any) -> None:
    """Write what was measured, and how it came about, to data/tables/NAME.json.

    content: usually seeds, settings, and the numbers, one a seed. To be called as often as there
    is something new, so that nothing measured is lost.
    """
    table = {
        "command": f"python -m benchmarks.lesson_tables.{name}",
        "date": date.today().isoformat(),
        "machine": describe_machine(),
        **content,
    }
    text = json.dumps(table, ensure_ascii=False, indent=1) + "\n"
    path = table_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode("utf-8"))


def train_on_windows(
    model: GPT, text: Tensor, seed: int, *, steps: int, batch_size: int, rate: float
) -> None:
    """Train a GPT by plain AdamW at one rate, on random windows of a text (position).

    A window is as long as the model's context.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    windows = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        inputs, targets = random_windows(text, batch_size, model.config.context_length, windows)
        loss = next_token_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
