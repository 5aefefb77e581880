"""Models on disk: a folder with a model's weights, and all that is needed to use them.

    model.safetensors   the weights; a format that holds numbers and nothing that could run
    config.json         the model's configuration, its vocabulary, how it was trained, checksums
    history.csv         a line for each step, exact;  result.json: where it ended

While it trains, a run's folder holds last/ and best/ too, folders of the same kind (run_folder).
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors
from torch.overrides import TorchFunctionMode

from course_lib.data.tokenizer import CharTokenizer
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError, notice, usable_path
from course_lib.training.files import (
    CONFIG,
    HISTORY,
    MODEL,
    RESULT,
    damaged,
    json_bytes,
    read_config,
    read_sealed,
    replace_folder,
    seal,
    whole,
)
from course_lib.training.trainer import Record

LAST, BEST, LOCK = "last", "best", ".lock"


def save_run(
    folder: Path,
    model: GPT,
    tokenizer: CharTokenizer,
    training: dict[str, Any],
    history: Sequence[Record],
    result: dict[str, Any],
) -> None:
    """Write a finished run to `folder`, which must not exist yet or be empty. Whole or not at all.

    Raises CourseError if the folder holds something, or cannot be written.
    """
    require_free(Path(folder))
    folder = Path(folder).resolve()  # a link to a folder is as good as the folder
    weights = dump_tensors(weights_to_store(model))
    files = {MODEL: weights, HISTORY: history_csv(history), RESULT: json_bytes(result)}
    replace_folder(folder, seal(describe(model, tokenizer, training), files))


def describe(model: GPT, tokenizer: CharTokenizer, training: dict[str, Any]) -> dict[str, Any]:
    """What config.json says, but for the checksums."""
    return {
        "model": model.config.to_dict(),
        "vocabulary": tokenizer.vocabulary,
        "training": training,
    }


def load_run(
    folder: str | Path, device: torch.device | str = "cpu"
) -> tuple[GPT, CharTokenizer, dict[str, Any]]:
    """The model (in evaluation mode), its tokenizer, and all of config.json, from a run's folder.

    Its last/ and best/ can be given too. A run that was killed has no final model: then it is
    last/, with a notice. Nothing in the folder is ever executed. Raises CourseError naming the
    file that is missing, cut, altered or does not fit.
    """
    folder = Path(folder)
    last = whole(folder / LAST)
    if not os.path.exists(whole(folder) / CONFIG) and os.path.exists(last):
        notice(f"{folder} has no final model, for its training did not end; using {last}")
        folder = last
    config, files = read_sealed(folder)
    _say_what_is_newer(config, last)
    model, tokenizer = rebuild(folder, config, files[MODEL])
    return model.to(device).eval(), tokenizer, config


def rebuild(folder: Path, config: dict[str, Any], weights: bytes) -> tuple[GPT, CharTokenizer]:
    """The model and its tokenizer from what read_sealed gave. CourseError naming the file."""
    if not (isinstance(config.get("vocabulary"), str) and isinstance(config.get("model"), dict)):
        raise damaged(folder / CONFIG, "it lacks the vocabulary or the model's configuration")
    tensors = read_tensors(folder / MODEL, weights)
    try:
        tokenizer = CharTokenizer(config["vocabulary"])
        shape = GPTConfig.from_dict(config["model"])
    except CourseError as error:
        raise damaged(folder / CONFIG, str(error)) from None
    if shape.n_layers > len(tensors):
        raise damaged(folder / MODEL, f"its {len(tensors)} tensors are no {shape.n_layers} layers")
    try:
        # no memory is taken for sizes that the weights do not have
        with torch.device("meta"), _Undrawn():
            model = GPT(shape)
    except RuntimeError as error:  # not even a number of bytes
        raise damaged(folder / CONFIG, str(error).splitlines()[0]) from None
    if model.config.vocab_size != tokenizer.vocab_size:
        raise damaged(folder / CONFIG, "its vocabulary does not have the model's vocab_size")
    restore_weights(model, tensors, folder / MODEL)
    return model, tokenizer


class _Undrawn(TorchFunctionMode):
    """Draws no first values for parameters. Without memory there is nothing to draw, and torch
    would load its compiler to find that out, which takes seconds."""

    def __torch_function__(self, function, types, given=(), named=None):
        if function.__name__ in ("normal_", "uniform_", "kaiming_uniform_"):
            return given[0] if given else named["tensor"]
        return function(*given, **(named or {}))


def read_tensors(path: Path, content: bytes) -> dict[str, torch.Tensor]:
    """The tensors in a safetensors file. CourseError, naming it, if it is none."""
    try:
        return load_tensors(content)
    except SafetensorError as error:
        raise damaged(path, str(error)) from None


def weights_to_store(model: GPT) -> dict[str, torch.Tensor]:
    """The model's tensors by name, on the CPU; a tied head is the embedding and stored once.

    Raises CourseError if the model should be tied and holds two different matrices.
    """
    state = {plain_name(name): tensor.detach() for name, tensor in model.state_dict().items()}
    if model.config.tied_head:
        head, embedding = state.pop("head.weight"), state["token_embedding.weight"]
        if head.data_ptr() != embedding.data_ptr() and not torch.equal(head, embedding):
            raise CourseError(
                "the model's head should be its embedding, and they differ; set model.head.weight "
                "= model.token_embedding.weight, or build the model with tied_head=False"
            )
    return {name: tensor.cpu().contiguous() for name, tensor in state.items()}


def plain_name(name: str) -> str:
    """A parameter's name without what torch.compile and DistributedDataParallel put before it."""
    return ".".join(part for part in name.split(".") if part not in ("_orig_mod", "module"))


def restore_weights(model: GPT, tensors: dict[str, torch.Tensor], source: Path) -> None:
    """Copy stored tensors into the model. Names and shapes must be the model's, every one.

    A tied model's head may be stored too, if it is the embedding. A model on the device "meta",
    which has shapes and no numbers, is moved to the CPU.
    """
    expected, tensors = model.state_dict(), dict(tensors)
    if model.config.tied_head:
        head = tensors.pop("head.weight", None)
        embedding = tensors.get("token_embedding.weight")
        if head is not None and (embedding is None or not torch.equal(head, embedding)):
            raise damaged(source, "it has a head of its own, and the model's head is tied")
        expected.pop("head.weight")
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            where = "is missing in it" if name not in tensors else "has no place in the model"
            raise damaged(source, f"{name} {where}")
        if tensors[name].shape != expected[name].shape:
            raise damaged(
                source,
                f"{name} has shape {tuple(tensors[name].shape)}, "
                f"the model's is {tuple(expected[name].shape)}",
            )
    if next(model.parameters()).is_meta:
        model.to_empty(device="cpu")
        if model.config.tied_head:
            model.head.weight = model.token_embedding.weight
    model.load_state_dict(tensors, strict=False)


def require_free(folder: Path) -> None:
    """Refuse a place for a new run that holds something already."""
    usable_path(str(folder), "the run's folder")
    try:
        if folder.is_dir() and (held := sorted(path.name for path in folder.iterdir())):
            what = "holds a run" if {CONFIG, LAST, LOCK} & set(held) else f"holds {held[0]!r}"
            remedy = "go on with it by --resume, or " if {LAST, LOCK} & set(held) else ""
            raise CourseError(f"{folder} is not empty, it {what}; {remedy}choose another --out")
        if folder.exists() and not folder.is_dir():
            raise CourseError(f"{folder} is a file; choose another --out")
    except OSError as error:
        raise CourseError(
            f"{folder} cannot be looked at: {error.strerror}; choose another --out"
        ) from None


def history_csv(history: Iterable[Record]) -> bytes:
    """A table with a line for each step. Numbers are written so that they come back exactly."""
    names = [field.name for field in fields(Record)]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, names, lineterminator="\n")
    writer.writeheader()
    for record in history:
        row = asdict(record)
        row["seconds"] = f"{record.seconds:.3f}"
        row["val_loss"] = "" if record.val_loss is None else record.val_loss
        writer.writerow(row)
    return table.getvalue().encode("utf-8")


def read_history(path: Path, content: bytes) -> list[dict[str, Any]]:
    """The fields of each Record, from history_csv. CourseError, naming the file, if it is none."""
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode("utf-8"), newline="")))
        return [
            {name: int(row[name]) for name in ("step", "tokens")}
            | {name: float(row[name]) for name in ("seconds", "train_loss", "learning_rate")}
            | {"val_loss": float(row["val_loss"]) if row["val_loss"] else None}
            for row in rows
        ]
    except (ValueError, KeyError, TypeError, csv.Error):
        raise damaged(path, "it is not the history of a run") from None


def _say_what_is_newer(config: dict[str, Any], last: Path) -> None:
    with suppress(CourseError):  # what is wrong in last/ does not concern this model
        done = read_config(last / CONFIG).get("step", 0)
        if done > config.get("step", done):
            notice(
                f"this is the model of step {config['step']:,}; the training went on to step "
                f"{done:,}, whose model is {last}"
            )
