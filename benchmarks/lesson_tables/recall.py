"""Lesson 01's game of recall with several seeds: who finds a letter again, over which distance.

    python -m benchmarks.lesson_tables.recall        about seven minutes on one thread

What runs are the lesson's own cells, so that there is no second copy of the task, the models and
the training. The lesson shows the result and runs one seed of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from benchmarks.lesson_tables import write_table
from course_lib.exercises.registry import find
from course_lib.model.recurrent import RecurrentModel
from course_lib.runtime import set_threads
from tools.lesson_source import lesson_paths, read_lesson

CELLS = ("recall-task", "readers", "recall")
SEEDS = (0, 1, 2, 3, 4)
SHORT, LONG = 300, 1200  # steps
OPEN = 3.0  # added to the forget gate's input: it begins at sigmoid(3) = .95
VOCABULARY = 35


def lesson_names() -> dict[str, Any]:
    """What the lesson's cells define: the task, both readers, and their training."""
    names = {"torch": torch, "nn": nn, "RecurrentModel": RecurrentModel}
    names["Tokenizer"] = find("01.tokenizer").right_answer()
    (path,) = lesson_paths(numbers=["01"])
    cells = {cell.name: cell.source for cell in read_lesson(path).cells}
    for name in CELLS:
        exec(compile(cells[name], f"<{name}>", "exec"), names)  # our own text, from the lesson
    return names


def open_gates(reader: RecurrentModel) -> RecurrentModel:
    """The same LSTM, with forget gates that begin open."""
    d_model = reader.recurrent.hidden_size
    with torch.no_grad():
        reader.recurrent.bias_ih_l0[d_model : 2 * d_model] = OPEN  # input, forget, cell, output
    return reader


def large_vectors(reader: nn.Module) -> nn.Module:
    """The same attention, with embeddings of the size that torch gives them."""
    nn.init.normal_(reader.embedding.weight)
    return reader


Contests = dict[str, tuple[Callable[[int], nn.Module], int, tuple[int, ...]]]


def contests(names: dict[str, Any]) -> Contests:
    """Name → how to make the reader from a vocabulary's size, steps, distances."""
    attention, lstm = names["AttentionReader"], names["LSTMReader"]
    return {
        f"attention, {SHORT} steps": (attention, SHORT, (4, 8, 16, 64)),
        f"attention, large vectors, {SHORT} steps": (
            lambda size: large_vectors(attention(size)),
            SHORT,
            (4, 16, 64),
        ),
        f"LSTM, {SHORT} steps": (lstm, SHORT, (4, 8, 16, 64)),
        f"LSTM, {LONG} steps": (lstm, LONG, (16, 64)),
        f"LSTM, gates open, {SHORT} steps": (lambda size: open_gates(lstm(size)), SHORT, (16, 64)),
        f"LSTM, gates open, {LONG} steps": (lambda size: open_gates(lstm(size)), LONG, (64,)),
    }


def main() -> None:
    """Train everything, seed by seed, and write the table after each."""
    set_threads(1)
    names = lesson_names()
    runs: dict[str, dict[int, list[float]]] = {}
    for done, seed in enumerate(SEEDS, start=1):
        for name, (make, steps, distances) in contests(names).items():
            for distance in distances:
                torch.manual_seed(seed)
                accuracy = names["train_to_recall"](make(VOCABULARY), distance, steps, seed)
                runs.setdefault(name, {}).setdefault(distance, []).append(accuracy)
                print(f"seed {seed}  {name:36} {distance:3}  {accuracy:.3f}", flush=True)
        write_table("recall", seeds=SEEDS[:done], runs=runs)


if __name__ == "__main__":
    main()
