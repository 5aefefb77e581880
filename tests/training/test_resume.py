"""A run that was stopped, anywhere and by anything, ends as one that was not: bit for bit."""

import errno
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
import torch

from course_lib import cli
from course_lib.data.tokenizer import CharTokenizer
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import PROJECT_FOLDER, CourseError, CourseNotice
from course_lib.training import files
from course_lib.training.checkpoint import load_run
from course_lib.training.precision import Precision
from course_lib.training.presets import Preset, TrainingConfig
from course_lib.training.resume import uninterrupted
from course_lib.training.run_folder import RunFolder, Saved
from course_lib.training.trainer import Trainer

STEPS = 40
TEXT = "To be, or not to be: that is the question.\nWhether 'tis nobler in the mind?\n\n" * 20
SHAPE = {"context_length": 7, "n_layers": 1, "n_heads": 2, "d_model": 8, "dropout": 0.2}
ADAMW = TrainingConfig(
    steps=STEPS, batch_size=3, warmup_steps=5, evaluate_every=10, learning_rate=0.01
)
MUON = replace(ADAMW, optimizer="muon", schedule="linear", fused_adamw=True, gradient_clip=1.0)
PRESETS = {
    "plain": Preset(model=MappingProxyType(SHAPE), training=ADAMW),
    "muon": Preset(
        model=MappingProxyType({**SHAPE, "positions": "rotary", "tied_head": False}), training=MUON
    ),
    "experts": Preset(
        model=MappingProxyType(
            {**SHAPE, "n_experts": 4, "experts_per_token": 1, "capacity_factor": 0.75}
        ),
        training=ADAMW,
    ),
    "shuffled": Preset(model=MappingProxyType(SHAPE), training=replace(ADAMW, windows="shuffled")),
}


@pytest.fixture(autouse=True)
def _tiny_presets(monkeypatch):
    monkeypatch.setattr("course_lib.training.presets.PRESETS", PRESETS)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    text = tmp_path_factory.mktemp("corpus") / "verse.txt"
    text.write_text(TEXT, encoding="utf-8")
    return text


def train(out: Path, *arguments: str) -> int:
    return cli.main(["train", "--out", str(out), *arguments])


def begin(out: Path, corpus: Path, preset: str = "plain", *arguments: str) -> int:
    return train(out, "--corpus", str(corpus), "--preset", preset, *arguments)


@pytest.fixture(scope="module")
def straight(tmp_path_factory, corpus):
    """For each preset, the folder of a run without a stop; made when it is first asked for."""
    made: dict[str, Path] = {}

    def run(preset: str) -> Path:
        if preset not in made:
            made[preset] = tmp_path_factory.mktemp("straight") / preset
            assert begin(made[preset], corpus, preset) == 0
        return made[preset]

    return run


def what_a_run_left(folder: Path) -> dict[str, object]:
    """Every file, but for the seconds that steps took and what hangs on them."""
    left: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.name == "history.csv":
            left[name] = [
                line.split(",")[:2] + line.split(",")[3:] for line in path.read_text().splitlines()
            ]
        elif path.name in ("result.json", "config.json"):
            content = json.loads(path.read_text(encoding="utf-8"))
            for timed in ("train_seconds", "tokens_per_second", "checksums"):
                content.pop(timed, None)
            left[name] = content
        elif path.is_file():
            left[name] = path.read_bytes()
    return left


def assert_same(folder: Path, other: Path) -> None:
    first, second = what_a_run_left(folder), what_a_run_left(other)
    assert sorted(first) == sorted(second)
    assert {"last/training.safetensors", "best/model.safetensors", "result.json"} <= set(first)
    assert [name for name in first if first[name] != second[name]] == []


class Stop(RuntimeError):
    """What goes wrong in a loop."""


def raising(error: BaseException, at: int, original, *, after: bool = False):
    """The original, but for its call number `at`, which ends in the error, once."""
    calls = iter(range(1, 10**9))

    def wrapped(*arguments, **keywords):
        stop = next(calls) == at
        if stop and not after:
            raise error
        result = original(*arguments, **keywords)
        if stop:
            raise error
        return result

    return wrapped


# ---- stops, and the same end


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stops", [[20], [1], [9, 21, 39], [10, 20, 30]])
def test_stop_after_and_resume_equals_a_run_without_a_stop(
    tmp_path, corpus, straight, preset, stops, capsys
):
    out = tmp_path / "run"
    assert begin(out, corpus, preset, "--stop-after", str(stops[0])) == 0
    for stop in stops[1:]:
        assert train(out, "--resume", "--stop-after", str(stop)) == 0
        assert json.loads((out / "result.json").read_text())["steps"] == stop
    printed = capsys.readouterr().out
    assert (
        f"{stops[-1]} of 40 steps are done. To go on: python -m course_lib train --resume"
        in printed
    )
    assert "Test loss" not in printed
    assert json.loads((out / "result.json").read_text())["test_loss"] is None
    assert train(out, "--resume") == 0
    assert f"goes on after step {stops[-1]}" in (printed := capsys.readouterr().out)
    assert printed.count("Test loss") == 1
    assert_same(out, straight(preset))


@pytest.mark.parametrize(
    ("preset", "error"),
    [("plain", KeyboardInterrupt()), ("muon", Stop("lost"))],
    ids=["plain", "muon"],
)
@pytest.mark.parametrize(
    "where",
    [
        "trainer.Trainer.step",
        "trainer.random_windows",
        "trainer.next_token_loss",
        "precision.Precision.backward_and_step",
        "optimizer.ModelOptimizer.step",
    ],
)
def test_a_stop_inside_a_step(tmp_path, corpus, straight, monkeypatch, preset, error, where):
    """Windows were drawn, dropout too, gradients are there: nothing of it may be left."""
    out, target = tmp_path / "run", f"course_lib.training.{where}"
    owner = sys.modules["course_lib.training." + where.split(".")[0]]
    original = owner
    for name in where.split(".")[1:]:
        original = getattr(original, name)
    with monkeypatch.context() as patch:
        after = where.endswith(("windows", "loss"))
        patch.setattr(target, raising(error, 25, original, after=after))
        if isinstance(error, Stop):
            with pytest.raises(Stop):
                begin(out, corpus, preset)
        else:
            assert begin(out, corpus, preset) == 130
    assert len((out / "last" / "history.csv").read_text().splitlines()) >= 1 + 20
    assert train(out, "--resume") == 0
    assert_same(out, straight(preset))


@pytest.mark.parametrize("preset", PRESETS)
def test_an_update_that_breaks_in_the_middle_is_not_saved(
    tmp_path, corpus, straight, monkeypatch, preset
):
    out = tmp_path / "run"
    original = torch.optim.AdamW.step
    with monkeypatch.context() as patch:
        patch.setattr("torch.optim.AdamW.step", raising(Stop("torn"), 25, original, after=True))
        with pytest.raises(Stop):
            begin(out, corpus, preset)
    assert len((out / "last" / "history.csv").read_text().splitlines()) == 1 + 20
    assert train(out, "--resume") == 0
    assert_same(out, straight(preset))


def test_a_torn_trainer_neither_goes_on_nor_gives_its_state(monkeypatch):
    trainer = small_trainer()
    with monkeypatch.context() as patch:
        patch.setattr(
            "torch.optim.AdamW.step", raising(Stop(), 1, torch.optim.AdamW.step, after=True)
        )
        with pytest.raises(Stop):
            next(trainer.run())
    for use in (trainer.state_dict, lambda: next(trainer.run())):
        with pytest.raises(CourseError, match="step 1 was stopped in the middle of its update"):
            use()


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends a process there")
@pytest.mark.parametrize("where", ["random_windows", "next_token_loss"])
def test_a_real_ctrl_c_waits_for_the_end_of_the_step(
    tmp_path, corpus, straight, monkeypatch, where
):
    out = tmp_path / "run"
    module = sys.modules["course_lib.training.trainer"]
    calls, original = iter(range(1, 10**6)), getattr(module, where)

    def signalled(*arguments):
        if next(calls) == 25:
            os.kill(os.getpid(), signal.SIGINT)
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, where, signalled)
        assert begin(out, corpus) == 130
    assert json.loads((out / "result.json").read_text())["steps"] in range(20, 26)
    assert train(out, "--resume") == 0
    assert_same(out, straight("plain"))


def test_who_stops_twice_at_once_loses_nothing(tmp_path, corpus, straight, monkeypatch):
    out = tmp_path / "run"
    module = sys.modules["course_lib.training.trainer"]
    draw, fsync, drawn, impatient = module.random_windows, os.fsync, [], iter([True])

    def signalled(*arguments):
        drawn.append(arguments)
        if len(drawn) == 25:
            signal.raise_signal(signal.SIGINT)
        return draw(*arguments)

    def signalled_again(file):
        if len(drawn) == 25 and next(impatient, False):
            signal.raise_signal(signal.SIGINT)
        return fsync(file)

    with monkeypatch.context() as patch:
        patch.setattr(module, "random_windows", signalled)
        patch.setattr(os, "fsync", signalled_again)
        assert begin(out, corpus) == 130
    assert next(impatient, None) is None
    steps = [json.loads((out / f).read_text())["step"] for f in ("last/config.json", "config.json")]
    assert steps[0] == steps[1] > 20
    assert train(out, "--resume") == 0
    assert_same(out, straight("plain"))


@pytest.mark.parametrize("error", [Stop("lost"), KeyboardInterrupt()], ids=["exception", "Ctrl-C"])
@pytest.mark.parametrize("at", [1, 3, 4])  # of the evaluations, of which the fourth is the last
def test_a_stop_in_an_evaluation(tmp_path, corpus, straight, monkeypatch, error, at):
    out = tmp_path / "run"
    evaluate = sys.modules["course_lib.training.trainer"].evaluate
    with monkeypatch.context() as patch:
        patch.setattr("course_lib.training.trainer.evaluate", raising(error, at, evaluate))
        if isinstance(error, Stop):
            with pytest.raises(Stop):
                begin(out, corpus)
        else:
            assert begin(out, corpus) == 130
    assert train(out, "--resume") == 0
    assert_same(out, straight("plain"))


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("at", [1, 2, 3, 4, 7, 9])
def test_ctrl_c_while_a_checkpoint_is_written(tmp_path, corpus, straight, monkeypatch, call, at):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, raising(KeyboardInterrupt(), at, getattr(os, call)))
        assert begin(out, corpus) == 130
    assert not list(out.glob("**/*.draft")) and not list(out.glob("**/.*.former"))
    assert train(out, "--resume") == 0
    assert_same(out, straight("plain"))


def test_20_steps_are_10_and_10(tmp_path, corpus):
    assert begin(tmp_path / "whole", corpus, "plain", "--steps", "20") == 0
    assert begin(tmp_path / "parts", corpus, "plain", "--steps", "20", "--stop-after", "10") == 0
    assert train(tmp_path / "parts", "--resume") == 0
    assert_same(tmp_path / "parts", tmp_path / "whole")


def test_in_memory_too_a_state_brings_a_trainer_to_the_same_end():
    whole, first, second = small_trainer(), small_trainer(), small_trainer()
    torch.manual_seed(1)
    list(whole.run())
    torch.manual_seed(1)
    for record in first.run():
        if record.step == 7:
            break
    state = first.state_dict()
    torch.manual_seed(99)
    second.model.load_state_dict(first.model.state_dict())
    second.load_state_dict(state)
    list(second.run())
    assert [r.train_loss for r in second.history] == [r.train_loss for r in whole.history]
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])


def small_trainer(model_values=None, precision=None, **values) -> Trainer:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=11, **SHAPE | (model_values or {})))
    tokens = torch.randint(11, (300,), generator=torch.Generator().manual_seed(5))
    recipe = replace(ADAMW, steps=12, evaluate_every=4)
    return Trainer(
        model, tokens[:250], tokens[250:], replace(recipe, **values), precision=precision
    )


def keep(folder: Path, trainer: Trainer, *, steps: int) -> None:
    """Train up to a step and save, as the command line does."""
    with RunFolder(folder) as run:
        run.begin(trainer, CharTokenizer("abcdefghijk"), {"corpus": "c", "preset": "p"}, {})
        for record in run.train(trainer):
            if record.step == steps:
                break
        run.save(trainer)


def read(folder: Path) -> Saved:
    with RunFolder(folder, resume=True) as run:
        return run.saved()


# ---- threads, precision and kernel belong to the run


def test_threads_kernel_and_precision_are_those_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    torch.set_num_threads(3)
    bfloat16 = Precision("bfloat16", torch.device("cpu"))
    trainer = small_trainer(precision=bfloat16)
    trainer.model.attention_kernel = "explicit"
    keep(tmp_path / "run", trainer, steps=5)
    list(trainer.run())
    torch.set_num_threads(1)
    saved = read(tmp_path / "run")
    assert saved.state["machine"] == {
        "device": "cpu", "threads": 3, "precision": "bfloat16", "attention_kernel": "explicit",
        "processes": 1,
    }  # fmt: skip
    again = small_trainer()
    again.model.load_state_dict(saved.model.state_dict())
    again.load_state_dict(saved.state)
    assert torch.get_num_threads() == 3
    assert (again.precision.name, again.model.attention_kernel) == ("bfloat16", "explicit")
    list(again.run())
    assert [r.train_loss for r in again.history] == [r.train_loss for r in trainer.history]


@pytest.mark.parametrize(
    ("lacking", "message"),
    [({"threads": 9999}, "9999 threads"), ({"device": "cuda:0"}, r"device cuda:0 \(now cpu\)")],
)
def test_a_machine_that_lacks_something_goes_on_with_a_notice(lacking, message):
    trainer = small_trainer()
    next(trainer.run())
    state = trainer.state_dict()
    state["machine"] = {**state["machine"], **lacking}
    with pytest.warns(CourseNotice, match=f"{message}.*numbers will differ"):
        trainer.load_state_dict(state)
    assert len(list(trainer.run())) == 11


def test_ctrl_c_is_only_held_back_inside():
    reached = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        reached.append("end")
    assert reached == ["end"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_the_history_comes_back_exactly(tmp_path):
    trainer = small_trainer()
    keep(tmp_path / "run", trainer, steps=9)
    history = read(tmp_path / "run").state["history"]
    for record, row in zip(trainer.history, history, strict=True):
        assert row["seconds"] == pytest.approx(record.seconds, abs=6e-4)
        row["seconds"] = record.seconds
        assert row == vars(record)


# ---- what is best


def test_best_is_the_lowest_validation_loss(tmp_path, monkeypatch):
    losses = iter([3.0, 1.0, 2.0])
    monkeypatch.setattr("course_lib.training.trainer.evaluate", lambda *_, **__: next(losses))
    trainer = small_trainer()
    weights = {}
    with RunFolder(tmp_path / "run") as run:
        run.begin(trainer, CharTokenizer("abcdefghijk"), {}, {})
        for record in run.train(trainer):
            weights[record.step] = trainer.model.head.weight.detach().clone()
        run.finish(trainer)
    best, _, config = load_run(tmp_path / "run" / "best")
    assert (config["step"], config["val_loss"]) == (8, 1.0)
    assert torch.equal(best.head.weight, weights[8])
    assert torch.equal(load_run(tmp_path / "run")[0].head.weight, weights[12])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["best_step"], result["best_val_loss"], result["val_loss"]) == (8, 1.0, 2.0)


@pytest.mark.filterwarnings("ignore::course_lib.runtime.CourseNotice")
def test_without_a_validation_loss_the_best_is_the_last(tmp_path):
    trainer = small_trainer()
    trainer.validation_tokens = trainer.validation_tokens[:3]
    keep(tmp_path / "run", trainer, steps=12)
    assert {r.val_loss for r in trainer.history} == {None} and trainer.finished
    best, _, config = load_run(tmp_path / "run" / "best")
    assert config["step"] == 12
    assert torch.equal(best.head.weight, trainer.model.head.weight)


def test_a_stop_before_the_first_evaluation_leaves_a_best_that_the_next_one_replaces(
    tmp_path, corpus, capsys
):
    begin(tmp_path / "run", corpus, "plain", "--stop-after", "3")
    assert load_run(tmp_path / "run" / "best")[2]["step"] == 3
    train(tmp_path / "run", "--resume", "--stop-after", "10")
    assert load_run(tmp_path / "run" / "best")[2]["step"] == 10


def test_a_loss_that_is_not_a_number_is_never_the_best(monkeypatch):
    losses = iter([float("nan"), 2.0, float("nan")])
    monkeypatch.setattr("course_lib.training.trainer.evaluate", lambda *_, **__: next(losses))
    trainer = small_trainer()
    list(trainer.run())
    assert (trainer.best_step, trainer.best_loss) == (8, 2.0)


def test_the_test_part_is_looked_at_once_and_at_the_end(monkeypatch):
    parts = []

    def evaluate(model, tokens, part="validation"):
        parts.append(part)
        return 1.0

    monkeypatch.setattr("course_lib.training.trainer.evaluate", evaluate)
    trainer = small_trainer()
    trainer.test_tokens = trainer.validation_tokens
    for record in trainer.run():
        if record.step == 6:
            assert trainer.result()["test_loss"] is None
    assert "test" not in parts
    assert trainer.result()["test_loss"] == 1.0
    assert parts.count("test") == 1
    assert "test_loss" not in trainer.state_dict()


# ---- killed in the middle of a write


def snapshots_of(monkeypatch, folder: Path, into: Path, work) -> list[Path]:
    """What a kill would leave at each call that changes a file: a copy of the folder before it."""
    copies: list[Path] = []

    def watched(original):
        def call(*arguments, **keywords):
            if folder.exists() and str(into) not in str(arguments[0]):
                copies.append(into / str(len(copies)))
                with monkeypatch.context() as patch:
                    for owner, name, own in originals:
                        patch.setattr(owner, name, own)
                    shutil.copytree(folder, copies[-1])
            return original(*arguments, **keywords)

        return call

    places = [(os, "fsync"), (os, "replace"), (shutil, "rmtree"), (Path, "unlink"), (Path, "mkdir")]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    with monkeypatch.context() as patch:
        for owner, name, original in originals:
            patch.setattr(owner, name, watched(original))
        work()
    return copies


@pytest.mark.filterwarnings("ignore::course_lib.runtime.CourseNotice")
def test_whatever_moment_a_kill_comes_at_a_whole_checkpoint_loads(tmp_path, monkeypatch):
    folder, trainer = tmp_path / "run", small_trainer()
    keep(folder, trainer, steps=4)
    with RunFolder(folder, resume=True) as run:
        run.begin(trainer, CharTokenizer("abcdefghijk"), {"corpus": "c", "preset": "p"}, {})
        run.finish(trainer)
        for record in trainer.run():
            if record.step == 8:
                break

        def work() -> None:
            run.save(trainer)
            run.finish(trainer)

        copies = snapshots_of(monkeypatch, folder, tmp_path / "copies", work)
    assert len(copies) > 20
    steps = []
    for copy in copies:
        load_run(copy)
        for part in ("best", "last"):
            assert load_run(copy / part)[2]["step"] in (4, 8)
        saved = read(copy)
        again = small_trainer()
        again.model.load_state_dict(saved.model.state_dict())
        again.load_state_dict(saved.state)
        steps.append(len(again.history))
    assert steps == sorted(steps) and {4, 8} == set(steps)
    with RunFolder(copies[len(copies) // 2], resume=True) as run:  # and what it left is cleared
        run.begin(trainer, CharTokenizer("abcdefghijk"), {}, {})
        run.save(trainer)
        run.finish(trainer)
    left = {path.name for path in copies[len(copies) // 2].iterdir()}
    assert left == {
        "best",
        "last",
        "model.safetensors",
        "config.json",
        "history.csv",
        "result.json",
    }


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from tests.training import test_resume as t
import course_lib.training.presets as presets
presets.PRESETS = t.PRESETS
calls, replace = iter(range(1, 10**6)), os.replace
def killed(*arguments):
    if next(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(*arguments)
os.replace = killed
t.begin(t.Path(sys.argv[3]), t.Path(sys.argv[4]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_real_kill_between_two_moves(tmp_path, corpus, straight):
    """The third move takes the former best/ aside, so that before the fourth there is none."""
    out = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(PROJECT_FOLDER), "4", str(out), str(corpus)]
    done = subprocess.run(
        command, cwd=PROJECT_FOLDER, capture_output=True, timeout=300, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (out / "best").exists() and not (out / "result.json").exists()
    with pytest.warns(CourseNotice, match="has no final model"):
        assert load_run(out)[2]["step"] == 10
    load_run(out / "best")
    assert train(out, "--resume") == 0
    assert_same(out, straight("plain"))


# ---- no room


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("at", [1, 3])
def test_a_full_disk_leaves_the_former_checkpoint(
    tmp_path, corpus, straight, monkeypatch, call, at, capsys
):
    out = tmp_path / "run"
    begin(out, corpus, "plain", "--stop-after", "15")
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    before = read(out)
    original, calls = getattr(os, call), iter(range(1, 10**6))

    def failing(*arguments):
        if next(calls) >= at:
            raise full
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        assert train(out, "--resume") == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("error: ") and "No space left" in message and "needs 1 MB" in message
    load_run(out), load_run(out / "best")
    assert len(read(out).state["history"]) >= len(before.state["history"])
    assert train(out, "--resume") == 0
    assert_same(out, straight("plain"))


def test_a_limit_on_the_size_of_files_leaves_the_former_checkpoint(tmp_path, corpus, capsys):
    resource = pytest.importorskip("resource", reason="limits of a process are POSIX's")
    out = tmp_path / "run"
    begin(out, corpus, "plain", "--stop-after", "15")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        assert train(out, "--resume") == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "needs 1 MB" in capsys.readouterr().err
    assert len(read(out).state["history"]) == 15
    load_run(out), load_run(out / "best")


def test_a_missing_temporary_folder_stops_nobody(tmp_path, corpus, monkeypatch, capsys):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(tmp_path / "nowhere"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert begin(tmp_path / "run", corpus, "plain", "--stop-after", "2") == 0
    assert train(tmp_path / "run", "--resume", "--stop-after", "4") == 0


# ---- damage


def copy_of(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))


class _Bomb:
    """Unpickling this creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


PLACES = [
    "model.safetensors", "config.json", "history.csv", "result.json",
    "best/model.safetensors", "best/config.json",
    "last/model.safetensors", "last/config.json", "last/history.csv",
    "last/training.safetensors", "last/training.json",
]  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_every_damaged_file_is_named_and_nothing_executed(
    tmp_path, straight, monkeypatch, name, capsys
):
    run = copy_of(straight("plain"), tmp_path)
    assert sorted(PLACES) == sorted(
        path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()
    )
    path = run / name
    whole, target = path.read_bytes(), tmp_path / "exploded"
    torch.save(_Bomb(target), tmp_path / "torch.pt")
    flips = {0, 9, len(whole) // 3, len(whole) // 2, len(whole) - 2, len(whole) - 1}
    contents = [
        b"", whole[: len(whole) // 2], whole[:-1], whole + b"\0", pickle.dumps(_Bomb(target)),
        (tmp_path / "torch.pt").read_bytes(),
        *(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :] for i in flips),
    ]  # fmt: skip
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(CourseError, match="cannot be used") as refusal:
            load_run(path.parent)
        assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)
        if name.startswith("last/"):
            assert train(run, "--resume") == 2
            assert str(path) in capsys.readouterr().err
    path.unlink()
    if name != "config.json":
        with pytest.raises(CourseError, match="cannot be read"):
            load_run(path.parent)
    assert not target.exists()


@pytest.mark.parametrize("name", ["training.safetensors", "training.json", "history.csv"])
def test_a_pickle_with_a_fitting_checksum_is_not_executed_either(tmp_path, straight, name):
    run = copy_of(straight("plain"), tmp_path)
    target = tmp_path / "exploded"
    resign(run / "last", {name: pickle.dumps(_Bomb(target))})
    with pytest.raises(CourseError, match=f"{name} cannot be used"):
        read(run)
    assert not target.exists()


def resign(folder: Path, changes: dict[str, bytes]) -> None:
    """Put other files into a folder, with checksums that fit, as someone who knows how would."""
    config, contents = files.read_sealed(folder)
    files.replace_folder(folder, files.seal(config, contents | changes))


def test_a_state_of_another_model_is_refused(tmp_path, corpus, straight, capsys):
    run = copy_of(straight("plain"), tmp_path)
    _, contents = files.read_sealed(straight("muon") / "last")
    resign(run / "last", {"training.safetensors": contents["training.safetensors"]})
    assert train(run, "--resume", "--steps", "60") == 2
    assert "last/training" in capsys.readouterr().err.replace("\\", "/")


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "other.pkl", ""])
def test_config_names_no_file_elsewhere(tmp_path, straight, name):
    run = copy_of(straight("plain"), tmp_path)
    config = files.read_config(run / "config.json")
    config["checksums"][name] = "0" * 64
    config["checksums"]["config.json"] = files.checksum(config)
    (run / "config.json").write_bytes(files.json_bytes(config))
    with pytest.raises(CourseError, match=r"config\.json cannot be used: it names the files"):
        load_run(run)


# ---- what the command line says


def test_a_folder_that_holds_a_run_needs_resume(straight, corpus, capsys):
    before = what_a_run_left(straight("plain"))
    assert begin(straight("plain"), corpus) == 2
    assert "not empty, it holds a run; go on with it by --resume" in capsys.readouterr().err
    assert what_a_run_left(straight("plain")) == before


def test_a_finished_run_is_left_as_it_is(straight, capsys):
    before = what_a_run_left(straight("plain"))
    assert train(straight("plain"), "--resume") == 0
    assert "is finished, 40 of 40 steps; a larger --steps extends it" in capsys.readouterr().out
    assert what_a_run_left(straight("plain")) == before


def test_resume_without_a_checkpoint_begins_at_step_0(tmp_path, corpus, straight, capsys):
    assert begin(tmp_path / "run", corpus, "plain", "--resume") == 0
    assert "note: " in (message := capsys.readouterr().err) and "begins at step 0" in message
    assert_same(tmp_path / "run", straight("plain"))
    assert train(tmp_path / "other", "--resume") == 2
    assert "--corpus is missing: shakespeare or tang, or a text file" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_resume_does_not_begin_among_other_files_or_over_a_model(
    tmp_path, corpus, straight, capsys
):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    assert begin(tmp_path, corpus, "plain", "--resume") == 2
    assert "holds 'notes.txt' and no run" in capsys.readouterr().err
    run = copy_of(straight("plain"), tmp_path)
    shutil.rmtree(run / "last")
    assert begin(run, corpus, "plain", "--resume") == 2
    assert "a model without the state of its training" in capsys.readouterr().err
    load_run(run)
    run = copy_of(straight("plain"), tmp_path / "whole")
    assert train(run / "last", "--resume") == 2
    assert f"; give {run.resolve()}, or choose another" in capsys.readouterr().err


def test_a_longer_schedule_says_what_the_rate_does(tmp_path, straight, capsys):
    run = copy_of(straight("plain"), tmp_path)
    assert train(run, "--resume", "--steps", "60") == 0
    printed = capsys.readouterr()
    assert "from 40 to 60 steps: the learning rate was 0.0001 at step 40, is " in printed.err
    assert "and falls to 0.0001 at step 60" in printed.err
    rows = (run / "history.csv").read_text().splitlines()
    before, after = float(rows[40].split(",")[-1]), float(rows[41].split(",")[-1])
    assert before == 1e-4 < after and f"is {after:.3g} at step 41" in printed.err
    assert len(rows) == 61
    assert load_run(run)[2]["training"]["steps"] == 60
    assert train(run, "--resume") == 0
    assert "60 of 60" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "stored"),
    [
        (["--seed", "7"], "--seed 7 contradicts the run, which has 0"),
        (["--preset", "muon"], "--preset muon contradicts the run, which has plain"),
        (["--steps", "30"], "--steps 30 contradicts the run, whose schedule has 40 steps and 10"),
        (["--stop-after", "0"], "--stop-after 0 must be a whole number, 1 or above"),
    ],
)
def test_options_that_contradict_the_run_are_refused(tmp_path, corpus, capsys, arguments, stored):
    out = tmp_path / "run"
    begin(out, corpus, "plain", "--stop-after", "10")
    before = what_a_run_left(out)
    capsys.readouterr()
    assert train(out, "--resume", *arguments) == 2
    message = capsys.readouterr().err
    assert stored in message and message.count("\n") == 1
    assert what_a_run_left(out) == before
    agreeing = ["--seed", "0", "--preset", "plain", "--steps", "40", "--threads", "1"]
    assert train(out, "--resume", *agreeing, "--device", "cpu", "--stop-after", "11") == 0


def test_other_threads_are_refused(tmp_path, corpus, monkeypatch, capsys):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    begin(tmp_path / "run", corpus, "plain", "--stop-after", "10")
    assert train(tmp_path / "run", "--resume", "--threads", "2") == 2
    assert "--threads 2 contradicts the run, which has 1" in capsys.readouterr().err


def test_another_text_is_refused(tmp_path, corpus, capsys):
    out, other = tmp_path / "run", tmp_path / "verse.txt"
    begin(out, corpus, "plain", "--stop-after", "10")
    other.write_text(TEXT.replace("nobler", "rebonl"), encoding="utf-8")
    assert train(out, "--resume", "--corpus", str(other)) == 2
    assert f"{other} is not the text of the run: its checksum is " in capsys.readouterr().err
    shutil.copy(corpus, other)
    assert train(out, "--resume", "--corpus", str(other), "--stop-after", "11") == 0


def test_a_moved_text_can_be_named(tmp_path, corpus, capsys):
    text = Path(shutil.copy(corpus, tmp_path / "a.txt"))
    begin(tmp_path / "run", text, "plain", "--stop-after", "10")
    text.rename(tmp_path / "b.txt")
    assert train(tmp_path / "run", "--resume") == 2
    assert re.search("a.txt.*; say by --corpus where it is now", capsys.readouterr().err)
    assert (
        train(
            tmp_path / "run", "--resume", "--corpus", str(tmp_path / "b.txt"), "--stop-after", "11"
        )
        == 0
    )


def test_stopping_where_it_already_is_or_past_the_end(tmp_path, corpus, capsys):
    out = tmp_path / "run"
    begin(out, corpus, "plain", "--steps", "30", "--stop-after", "10")
    before = what_a_run_left(out)
    assert train(out, "--resume", "--stop-after", "5") == 0
    assert "10 of 30 steps are done" in capsys.readouterr().out
    assert what_a_run_left(out) == before
    assert train(out, "--resume", "--stop-after", "500") == 0
    assert "Test loss" in capsys.readouterr().out


def test_two_processes_do_not_train_into_one_folder(tmp_path, corpus, capsys):
    out = tmp_path / "run"
    begin(out, corpus, "plain", "--stop-after", "10")
    with RunFolder(out, resume=True):
        assert train(out, "--resume") == 2
        assert "another training is writing into" in capsys.readouterr().err
    with RunFolder(tmp_path / "new"):
        assert begin(tmp_path / "new", corpus) == 2
        assert begin(tmp_path / "new", corpus, "plain", "--resume") == 2
    assert not (tmp_path / "new").exists()
    assert train(out, "--resume", "--stop-after", "11") == 0
    assert not list(out.glob(".*"))


def test_what_is_being_done_is_said(tmp_path, corpus, capsys, monkeypatch):
    begin(tmp_path / "a", corpus, "plain", "--stop-after", "1", "--device", "cpu")
    printed = capsys.readouterr().out
    assert "on cpu, in float32, fused attention, threads: 1 (as asked for)" in printed
    monkeypatch.delenv("COURSE_THREADS")
    monkeypatch.setattr("course_lib.training.probe.available_threads", lambda: 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    begin(tmp_path / "b", corpus, "plain", "--stop-after", "1", "--device", "cpu")
    assert "(probed: " in (printed := capsys.readouterr().out) and " ms a step)" in printed
    train(tmp_path / "b", "--resume", "--stop-after", "2")
    assert "(as in the checkpoint)" in capsys.readouterr().out


def test_an_older_final_model_says_that_the_training_went_on(tmp_path, corpus):
    out = tmp_path / "run"
    begin(out, corpus, "plain", "--stop-after", "10")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_run(out)
    former = {p.name: p.read_bytes() for p in out.iterdir() if p.is_file()}
    train(out, "--resume", "--stop-after", "15")
    for name, content in former.items():
        (out / name).write_bytes(content)
    with pytest.warns(CourseNotice, match=r"model of step 10; the training went on to step 15"):
        assert load_run(out)[2]["step"] == 10
