"""What a run leaves behind: a folder that is either whole or not there.

    model.safetensors   the weights; a format that holds numbers and nothing that could run
    config.json         the model's configuration, its vocabulary, how it was trained, checksums
    history.csv         a line for each step;  result.json: where it ended

The folder is written beside its place under another name, then moved there in one step.
"""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors

from course_lib.data.tokenizer import CharTokenizer
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError, usable_path
from course_lib.training.trainer import Record

FORMAT = 1
MODEL, CONFIG, HISTORY, RESULT = "model.safetensors", "config.json", "history.csv", "result.json"


def save_run(
    folder: Path,
    model: GPT,
    tokenizer: CharTokenizer,
    training: dict[str, Any],
    history: Sequence[Record],
    result: dict[str, Any],
) -> None:
    """Write a run to `folder`, which must not exist yet or be empty. Whole or not at all.

    Raises CourseError if the folder holds something, or cannot be written.
    """
    require_free(Path(folder))
    folder = Path(folder).resolve()  # a link to a folder is as good as the folder
    weights = dump_tensors(weights_to_store(model))
    config = {
        "format": FORMAT,
        "model": model.config.to_dict(),
        "vocabulary": tokenizer.vocabulary,
        "training": training,
        "checksums": {MODEL: hashlib.sha256(weights).hexdigest()},
    }
    config["checksums"][CONFIG] = _checksum(config)
    partial = _folder_beside(folder, len(weights))
    try:
        _write(partial / MODEL, weights)
        _write(partial / CONFIG, json_bytes(config))
        _write(partial / HISTORY, _history_csv(history))
        _write(partial / RESULT, json_bytes(result))
        partial.chmod(0o777 & ~_umask())
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    except OSError as error:
        raise _cannot_write(folder, error, len(weights)) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load_run(
    folder: str | Path, device: torch.device | str = "cpu"
) -> tuple[GPT, CharTokenizer, dict[str, Any]]:
    """The model (in evaluation mode), its tokenizer, and all of config.json, from a run's folder.

    Nothing in the folder is ever executed. Raises CourseError naming the file that is missing,
    cut, altered or does not fit.
    """
    folder = Path(folder)
    config = _read_config(folder / CONFIG)
    weights = _read(folder / MODEL)
    if hashlib.sha256(weights).hexdigest() != config["checksums"].get(MODEL):
        raise _damaged(folder / MODEL, "its checksum is not the one in config.json")
    try:
        tensors = load_tensors(weights)
    except SafetensorError as error:
        raise _damaged(folder / MODEL, str(error)) from None
    try:
        tokenizer = CharTokenizer(config["vocabulary"])
        model = GPT(GPTConfig.from_dict(config["model"]))
    except CourseError as error:
        raise _damaged(folder / CONFIG, str(error)) from None
    if model.config.vocab_size != tokenizer.vocab_size:
        raise _damaged(folder / CONFIG, "its vocabulary does not have the model's vocab_size")
    restore_weights(model, tensors, folder / MODEL)
    return model.to(device).eval(), tokenizer, config


def weights_to_store(model: GPT) -> dict[str, torch.Tensor]:
    """The model's tensors by name, on the CPU; a tied head is the embedding and stored once.

    Raises CourseError if the model should be tied and holds two different matrices.
    """
    # torch.compile puts _orig_mod before the names of what it wraps
    state = {name.replace("_orig_mod.", ""): t.detach() for name, t in model.state_dict().items()}
    if model.config.tied_head:
        head, embedding = state.pop("head.weight"), state["token_embedding.weight"]
        if head.data_ptr() != embedding.data_ptr() and not torch.equal(head, embedding):
            raise CourseError(
                "the model's head should be its embedding, and they differ; set model.head.weight "
                "= model.token_embedding.weight, or build the model with tied_head=False"
            )
    return {name: tensor.cpu().contiguous() for name, tensor in state.items()}


def restore_weights(model: GPT, tensors: dict[str, torch.Tensor], source: Path) -> None:
    """Copy stored tensors into the model. Names and shapes must be the model's, every one.

    A tied model's head may be stored too, if it is the embedding.
    """
    expected, tensors = model.state_dict(), dict(tensors)
    if model.config.tied_head:
        head = tensors.pop("head.weight", None)
        embedding = tensors.get("token_embedding.weight")
        if head is not None and (embedding is None or not torch.equal(head, embedding)):
            raise _damaged(source, "it has a head of its own, and the model's head is tied")
        expected.pop("head.weight")
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors or name not in expected:
            where = "is missing in it" if name not in tensors else "has no place in the model"
            raise _damaged(source, f"{name} {where}")
        if tensors[name].shape != expected[name].shape:
            raise _damaged(
                source,
                f"{name} has shape {tuple(tensors[name].shape)}, "
                f"the model's is {tuple(expected[name].shape)}",
            )
    model.load_state_dict(tensors, strict=False)


def require_free(folder: Path) -> None:
    """Refuse a place for a run that holds something already."""
    usable_path(str(folder), "the run's folder")
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise CourseError(f"{folder} is not empty; choose another --out, or move it away first")
        if folder.exists() and not folder.is_dir():
            raise CourseError(f"{folder} is a file; choose another --out")
    except OSError as error:
        raise CourseError(
            f"{folder} cannot be looked at: {error.strerror}; choose another --out"
        ) from None


def require_writable(folder: Path, model: GPT) -> None:
    """Refuse, before a long training, a place where the run could not be written afterwards."""
    folder = Path(folder).resolve()
    size = sum(tensor.nbytes for tensor in weights_to_store(model).values())
    _folder_beside(folder, size).rmdir()
    if shutil.disk_usage(folder.parent).free < size + 1e6:
        raise _cannot_write(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), size)


def _folder_beside(folder: Path, size: int) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", dir=folder.parent))
    except OSError as error:
        raise _cannot_write(folder, error, size) from None


def json_bytes(value: object) -> bytes:
    """JSON as people read it, UTF-8, one newline at the end."""
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def _history_csv(history: Sequence[Record]) -> bytes:
    names = [field.name for field in fields(Record)]
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, names, lineterminator="\n")
    writer.writeheader()
    for record in history:
        row = asdict(record)
        row["seconds"] = f"{record.seconds:.3f}"
        row["train_loss"] = f"{record.train_loss:.6f}"
        row["val_loss"] = "" if record.val_loss is None else f"{record.val_loss:.6f}"
        row["learning_rate"] = f"{record.learning_rate:.6g}"
        writer.writerow(row)
    return table.getvalue().encode("utf-8")


def _read_config(path: Path) -> dict[str, Any]:
    content = _read(path)
    try:
        config = json.loads(content.decode("utf-8"))
        stored = config["checksums"].pop(CONFIG)
    except (ValueError, RecursionError) as error:  # what a damaged JSON can raise
        raise _damaged(path, str(error)) from None
    except (KeyError, TypeError, AttributeError):
        raise _damaged(path, "it is not the configuration of a run") from None
    if config.get("format") != FORMAT:
        raise _damaged(
            path, f"it has format {config.get('format')!r}, and this course reads {FORMAT}"
        )
    if stored != _checksum(config):
        raise _damaged(path, "its checksum is not its own: it was cut or edited")
    if not (isinstance(config.get("vocabulary"), str) and isinstance(config.get("model"), dict)):
        raise _damaged(path, "it lacks the vocabulary or the model's configuration")
    return config


def _checksum(config: dict[str, Any]) -> str:
    text = json.dumps(config, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CourseError(
            f"{path} cannot be read: {error.strerror}; give a run's folder, the one that "
            "`train --out` named, with all its files"
        ) from None


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def _damaged(path: Path, what: str) -> CourseError:
    return CourseError(f"{path} cannot be used: {what}; take a sound copy, or train again")


def _cannot_write(folder: Path, error: OSError, weights: int) -> CourseError:
    needed = weights / 1e6 + 1
    return CourseError(
        f"the run cannot be written to {folder}: {error.strerror}; it needs {needed:.0f} MB, "
        "in a folder that may be written to"
    )
