"""A run's folder: whole or not there, never executed, and refused when anything in it is off."""

import csv
import errno
import hashlib
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.data.tokenizer import CharTokenizer
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import PROJECT_FOLDER, CourseError
from course_lib.training import checkpoint, files
from course_lib.training.checkpoint import load_run, require_free, restore_weights, save_run
from course_lib.training.trainer import Record

TOKENIZER = CharTokenizer.from_text("\n aé床")
FILES = {"model.safetensors", "config.json", "history.csv", "result.json"}
HISTORY = (
    Record(1, 21, 0.25, 1.6094379, None, 0.001),
    Record(2, 42, 0.5, 1.5, 1.4, 1e-4 / 3),
)


def small_gpt(**values) -> GPT:
    torch.manual_seed(0)
    return GPT(GPTConfig(vocab_size=5, context_length=7, n_layers=2, d_model=12, **values))


def save(folder: Path, model: GPT | None = None) -> GPT:
    model = small_gpt() if model is None else model
    save_run(folder, model, TOKENIZER, {"corpus": "诗", "steps": 2}, HISTORY, {"val_loss": 1.4})
    return model


@pytest.fixture
def run(tmp_path: Path) -> Path:
    save(tmp_path / "run")
    return tmp_path / "run"


def sign_again(folder: Path, **changes) -> None:
    """Rewrite config.json with a checksum that fits, as someone who knows how would."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8")) | changes
    config["checksums"].pop("config.json")
    config["checksums"]["config.json"] = files.checksum(config)
    (folder / "config.json").write_bytes(files.json_bytes(config))


# ---- what is written comes back


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"tied_head": False},
        {"positions": "sinusoidal", "norm": "rms_norm", "feed_forward": "swiglu", "bias": False},
        {"n_experts": 3, "experts_per_token": 1, "capacity_factor": 0.5, "balance_weight": 0.05},
        {"positions": "alibi", "n_kv_heads": 2, "norm_placement": "post", "dropout": 0.5},
    ],
)
def test_round_trip(tmp_path, values):
    model = save(tmp_path / "run", small_gpt(**values))
    loaded, tokenizer, config = load_run(tmp_path / "run")
    assert loaded.config == model.config
    assert tokenizer == TOKENIZER
    assert config["training"] == {"corpus": "诗", "steps": 2}
    assert not any(module.training for module in loaded.modules())
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name])
    tokens = torch.randint(5, (2, 7))
    assert torch.equal(loaded(tokens), model.eval()(tokens))


def test_the_folder_holds_four_files_and_nothing_lies_beside_it(run):
    assert {path.name for path in run.iterdir()} == FILES
    assert list(run.parent.iterdir()) == [run]
    assert b"\r" not in (run / "config.json").read_bytes() + (run / "history.csv").read_bytes()
    assert json.loads((run / "result.json").read_text(encoding="utf-8")) == {"val_loss": 1.4}


def test_history_is_a_table(run):
    with open(run / "history.csv", encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert list(first) == ["step", "tokens", "seconds", "train_loss", "val_loss", "learning_rate"]
    assert (first["step"], first["tokens"], first["val_loss"]) == ("1", "21", "")
    assert float(first["train_loss"]) == pytest.approx(1.6094379, abs=1e-6)
    assert float(second["val_loss"]) == 1.4
    assert float(second["learning_rate"]) == pytest.approx(1e-4 / 3, rel=1e-5)


def test_an_empty_folder_a_missing_parent_spaces_and_chinese_are_fine(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b", tmp_path / "学 习 é's"):
        save(folder)
        assert {path.name for path in folder.iterdir()} == FILES
        load_run(str(folder))


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_others_may_read_what_the_umask_allows(tmp_path):
    umask = os.umask(0o027)
    try:
        save(tmp_path / "run")
    finally:
        os.umask(umask)
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "run" / "model.safetensors").stat().st_mode & 0o777 == 0o640


def test_tied_weights_are_one_matrix_on_disk_and_tied_again(run):
    stored = load_file(run / "model.safetensors")
    assert "head.weight" not in stored
    loaded, *_ = load_run(run)
    for model in (loaded, loaded.to(torch.float64), loaded.to("cpu")):
        assert model.head.weight is model.token_embedding.weight
    assert "head.weight" in checkpoint.weights_to_store(small_gpt(tied_head=False))


def test_a_tied_model_with_two_matrices_is_not_saved(tmp_path):
    model = small_gpt()
    model.head.weight = torch.nn.Parameter(model.head.weight.detach() + 1)
    with pytest.raises(CourseError, match="head should be its embedding, and they differ"):
        save(tmp_path / "run", model)
    assert list(tmp_path.iterdir()) == []
    model.head.weight = torch.nn.Parameter(model.token_embedding.weight.detach().clone())
    save(tmp_path / "run", model)  # equal ones are fine


class _Compiled(torch.nn.Module):
    """What torch.compile gives, as far as names go, without the seconds that its import takes."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._orig_mod = module
        self.config = getattr(module, "config", None)


def test_the_prefix_that_compile_leaves_is_not_written():
    model = small_gpt()
    names = set(checkpoint.weights_to_store(model))
    model.blocks[0] = _Compiled(model.blocks[0])
    assert "blocks.0._orig_mod.attention.query.weight" in model.state_dict()
    assert set(checkpoint.weights_to_store(model)) == names
    assert set(checkpoint.weights_to_store(_Compiled(model))) == names


def test_nor_is_the_one_of_distributed_training():
    class Distributed(torch.nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module, self.config = module, module.config

    model = small_gpt()
    names = set(checkpoint.weights_to_store(model))
    wrapped = Distributed(_Compiled(model))
    assert "module._orig_mod.final_norm.weight" in wrapped.state_dict()
    assert set(checkpoint.weights_to_store(wrapped)) == names


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(run, monkeypatch):
    read_config, replaced = files.read_config, []

    def slow(path):
        config = read_config(path)
        if not replaced:
            replaced.append(path)
            contents = {**files.read_sealed(run)[1], "result.json": b"{}\n"}
            files.replace_folder(run, files.seal({**config, "training": {"steps": 9}}, contents))
        return config

    monkeypatch.setattr(files, "read_config", slow)
    assert load_run(run)[2]["training"] == {"steps": 9}


# ---- weights that do not fit


def test_weights_must_be_the_models_every_one():
    source = Path("m.safetensors")
    whole = checkpoint.weights_to_store(small_gpt())
    restore_weights(small_gpt(), whole, source)
    cases = [
        ({"extra": torch.zeros(1)}, set(), "extra has no place in the model"),
        ({}, {"final_norm.bias"}, "final_norm.bias is missing in it"),
        (
            {"final_norm.bias": torch.zeros(13)},
            set(),
            r"final_norm.bias has shape \(13,\), the model's is \(12,\)",
        ),
        ({"head.weight": torch.zeros(5, 12)}, set(), "a head of its own"),
    ]
    for added, removed, message in cases:
        tensors = {n: t for n, t in (whole | added).items() if n not in removed}
        model = small_gpt()
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with pytest.raises(CourseError, match=f"m.safetensors cannot be used: .*{message}"):
            restore_weights(model, tensors, source)
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, before[name])


def test_a_tied_head_that_is_stored_twice_is_fine():
    model = small_gpt()
    tensors = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    names = set(tensors)
    restore_weights(model, tensors, Path("m"))
    assert torch.equal(model.head.weight, tensors["head.weight"])
    assert model.head.weight is model.token_embedding.weight
    assert set(tensors) == names  # the caller's own is left as it was


def test_a_head_stored_without_its_embedding_is_refused():
    tensors = dict(small_gpt().state_dict())
    del tensors["token_embedding.weight"]
    with pytest.raises(CourseError, match="a head of its own"):
        restore_weights(small_gpt(), tensors, Path("m"))


# ---- a damaged folder


def damaged(path: Path, content: bytes) -> str:
    """The refusal of a run one of whose files has this content."""
    before = path.read_bytes()
    path.write_bytes(content)
    try:
        with pytest.raises(CourseError) as refusal:
            load_run(path.parent)
    finally:
        path.write_bytes(before)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_cut_file_is_refused_by_name(run, name):
    whole = (run / name).read_bytes()
    for content in (b"", whole[: len(whole) // 2], whole[:-3], whole + b"\0"):
        assert "take a sound copy, or train again" in damaged(run / name, content)
    load_run(run)


def test_the_last_byte_of_the_model_counts(run):
    damaged(run / "model.safetensors", (run / "model.safetensors").read_bytes()[:-1])


def test_a_flipped_byte_is_refused_by_name(run):
    for name in sorted(FILES):
        step = 97 if name == "model.safetensors" else 1
        whole = (run / name).read_bytes()
        for position in range(0, len(whole), step):
            flipped = bytes([whole[position] ^ 1])
            damaged(run / name, whole[:position] + flipped + whole[position + 1 :])
    load_run(run)


@pytest.mark.parametrize("content", [b"[]", b"{}", b"null", b'{"checksums": 3}', b"[" * 100_000])
def test_other_json_is_no_configuration(run, content):
    damaged(run / "config.json", content)


def test_a_configuration_of_a_later_format_is_refused(run):
    sign_again(run, format=3)
    with pytest.raises(CourseError, match=r"config.json .*format 3, and this course reads"):
        load_run(run)


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_layers", 10**9), ("d_model", 12 * 10**8), ("d_ff", 2**31 - 1), ("context_length", 10**9)],
)
def test_a_model_larger_than_its_weights_is_refused_before_it_takes_memory(run, field, value):
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    sign_again(run, model={**config["model"], field: value})
    with pytest.raises(
        CourseError, match=r"(model|config).* cannot be used: .*(layers|shape|size)"
    ):
        load_run(run)


def test_loading_does_not_load_torch_s_compiler():
    code = (
        "import sys; from course_lib.data.corpora import DATA_FOLDER;"
        "from course_lib.training.checkpoint import load_run;"
        "load_run(DATA_FOLDER / 'checkpoints' / 'shakespeare');"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=PROJECT_FOLDER).returncode == 0


def test_loading_draws_no_random_numbers(run):
    before = torch.get_rng_state()
    load_run(run)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_field_from_a_later_version_is_named(run):
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    sign_again(run, model={**config["model"], "memory_tokens": 4})
    with pytest.raises(CourseError, match=r"config.json .*unknown fields: memory_tokens; known"):
        load_run(run)


def test_a_vocabulary_of_another_model_is_refused(run):
    sign_again(run, vocabulary="ab")
    with pytest.raises(CourseError, match=r"config.json .*vocabulary"):
        load_run(run)


def test_weights_of_another_run_are_refused(run):
    other = run.parent / "other"
    model = small_gpt()
    with torch.no_grad():
        model.final_norm.bias += 1
    save(other, model)
    message = damaged(run / "model.safetensors", (other / "model.safetensors").read_bytes())
    assert "its checksum is not the one in config.json" in message


@pytest.mark.parametrize("missing", sorted(FILES))
def test_a_missing_file_is_named(run, missing):
    (run / missing).unlink()
    with pytest.raises(CourseError, match=f"{missing} cannot be read: No such file.*has written"):
        load_run(run)


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(CourseError, match="give a run's folder"):
            load_run(folder)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "/", "..", "", "~nobody/x"])
def test_a_name_that_is_no_run_is_refused_as_one(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match=r"cannot be read: .*; give a run's folder"):
        load_run(name)


@pytest.mark.parametrize("name", [".", "", "../run", "last/.."])
def test_a_run_can_be_named_from_within_its_folder(run, monkeypatch, name):
    (run / "last").mkdir()
    monkeypatch.chdir(run)
    load_run(name)


class _Bomb:
    """Unpickling this creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_pickle_is_never_executed(run, tmp_path, name, writer):
    target = tmp_path / "exploded"
    if writer == "pickle":
        (run / name).write_bytes(pickle.dumps(_Bomb(target)))
    else:
        torch.save(_Bomb(target), run / name)
    with pytest.raises(CourseError, match=name):
        load_run(run)
    if name == "model.safetensors":  # and where the checksum says that it is meant
        sha = hashlib.sha256((run / name).read_bytes()).hexdigest()
        sign_again(run, checksums={"config.json": "", "model.safetensors": sha})
        with pytest.raises(CourseError, match=f"{name} cannot be used"):
            load_run(run)
    assert not target.exists()


def test_the_bomb_works(tmp_path):
    pickle.loads(pickle.dumps(_Bomb(tmp_path / "exploded"))).close()
    assert (tmp_path / "exploded").exists()


def test_tensors_that_are_not_the_models_are_refused_also_with_a_fitting_checksum(run):
    save_file({name: torch.zeros(3) for name in "xyz"}, run / "model.safetensors")
    sha = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    sign_again(run, checksums={"config.json": "", "model.safetensors": sha})
    with pytest.raises(CourseError, match=r"model.safetensors cannot be used: .* is missing in it"):
        load_run(run)


# ---- a write that fails


def test_a_folder_that_holds_something_is_left_alone(run):
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(CourseError, match="is not empty, it holds a run; choose another --out"):
        save(run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    file = run.parent / "file"
    file.write_text("x", encoding="utf-8")
    with pytest.raises(CourseError, match="is a file; choose another --out"):
        require_free(file)
    with pytest.raises(CourseError, match="cannot be written"):
        save(file / "run")


@pytest.mark.parametrize("name", ["", "..", "CON", "nul.txt", "a:b", "a\0b", "-rf", "x" * 300])
def test_names_that_cannot_be_folders_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match="choose another name"):
        save(Path(name))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("at", range(1, 5))
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()]
)
def test_a_write_that_fails_or_is_interrupted_leaves_nothing(tmp_path, monkeypatch, at, error):
    calls = []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == at:
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    if isinstance(error, OSError):
        with pytest.raises(CourseError, match=r"run cannot be written to .*: .* needs 1 MB"):
            save(tmp_path / "run")
    else:
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert len(calls) == at


def test_a_limit_on_the_size_of_files(tmp_path):
    resource = pytest.importorskip("resource", reason="limits of a process are POSIX's")
    model = small_gpt(d_ff=200)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(CourseError, match=r"run cannot be written to .*: .* needs 1 MB"):
            save(tmp_path / "run", model)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from pathlib import Path
from course_lib.data.tokenizer import CharTokenizer
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training.checkpoint import save_run

os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
model = GPT(GPTConfig(vocab_size=2, context_length=7, n_layers=1, d_model=32))
save_run(Path(sys.argv[1]), model, CharTokenizer("ab"), {}, [], {})
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_kill_in_the_middle_leaves_no_run_and_a_second_try_succeeds(tmp_path):
    folder = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", KILLED_IN_THE_MIDDLE, str(folder)],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -9
    assert not folder.exists()
    save(folder)
    load_run(folder)


def test_nothing_is_warned_about(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(tmp_path / "run")
        load_run(tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [
        {"vocabulary": None},
        {"vocabulary": 5},
        {"vocabulary": "\ud800"},
        {"model": None},
        {"model": [1]},
        {"model": {"n_heads": "4"}},
    ],
)
def test_a_configuration_that_says_something_else_is_named(tmp_path, change):
    """Its checksum is right, so somebody wrote it so."""
    save(tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    checksums = config["checksums"]
    del checksums["config.json"]
    config = {name: value for name, value in {**config, **change}.items() if value is not None}
    text = json.dumps(config, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    checksums["config.json"] = hashlib.sha256(text.encode("ascii")).hexdigest()
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(CourseError, match=r"config\.json cannot be used"):
        load_run(tmp_path / "run")
