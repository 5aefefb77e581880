"""Two processes, started by torchrun, train what one trains; and where one fails, all end."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from course_lib.runtime import PROJECT_FOLDER, CourseError
from course_lib.training import parallel
from course_lib.training.checkpoint import LOCK, load_run
from course_lib.training.parallel import ALONE, Team
from course_lib.training.presets import TrainingConfig

TEXT = "To be, or not to be: that is the question.\nWhether 'tis nobler in the mind?\n\n" * 40
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
PATIENCE = 240  # seconds; a run that hangs would take five minutes to give up

# a small preset in place of those of the course, and whatever a test does to the rank it names
PROGRAM = """
import os, pathlib, sys, time
from types import MappingProxyType
from course_lib import cli
from course_lib.training import presets, trainer

shape = dict(context_length=8, n_layers=1, n_heads=2, d_model=8, dropout={dropout})
recipe = presets.TrainingConfig(steps=12, batch_size=4, warmup_steps=2, evaluate_every=6)
small = presets.Preset(model=MappingProxyType(shape), training=recipe)
presets.PRESETS = {{**presets.PRESETS, "small": small}}
rank = int(os.environ.get("RANK", "0"))
folder = pathlib.Path(sys.argv[1])
folder.with_suffix(f".{{rank}}").write_text(str(os.getpid()))
step = trainer.Trainer.step

def counted(self, rate):
    if len(self.history) == 3 and rank == {rank}:
        {act}
    return step(self, rate)

trainer.Trainer.step = counted
sys.exit(cli.main(["train", "--corpus", {corpus!r}, "--preset", "small", "--out", sys.argv[1],
                   "--device", "cpu", *sys.argv[2:]]))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "verse.txt").write_text(TEXT, encoding="utf-8")

    def write(act: str = "pass", rank: int = 1, dropout: float = 0.0) -> Path:
        text = PROGRAM.format(act=act, rank=rank, dropout=dropout, corpus=str(folder / "verse.txt"))
        (folder / "program.py").write_text(text, encoding="utf-8")
        return folder / "program.py"

    return write


@pytest.fixture(scope="module")
def whole(program, tmp_path_factory):
    """The folder of a run of two processes, and what they said."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    code, out, err = run(*TORCHRUN, program(), folder)
    assert code == 0, err
    return folder, out


def start(*command) -> subprocess.Popen:
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    environment |= {"PYTHONPATH": str(PROJECT_FOLDER), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        list(map(str, command)),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )


def run(*command) -> tuple[int, str, str]:
    process = start(*command)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def losses(folder: Path) -> list[float]:
    lines = (folder / "history.csv").read_text(encoding="utf-8").splitlines()
    column = lines[0].split(",").index("train_loss")
    return [float(line.split(",")[column]) for line in lines[1:]]


def left_running(folder: Path) -> list[int]:
    """The ranks of a run that are still there, after a moment."""
    pids = {int(file.suffix[1:]): int(file.read_text()) for file in folder.parent.glob("run.[01]")}
    assert len(pids) == 2
    for _ in range(100):
        alive = []
        for rank, pid in pids.items():
            with suppress(ProcessLookupError):
                os.kill(pid, 0)
                alive.append(rank)
        if not alive:
            return []
        time.sleep(0.1)
    return alive


def test_two_processes_train_what_one_trains(program, whole, tmp_path):
    folder, out = whole
    assert out.count("Training ") == out.count("Written to") == 1, "one of them speaks"
    assert "in 2 processes" in out
    assert run(sys.executable, program(), tmp_path / "alone")[0] == 0
    assert losses(folder) == pytest.approx(losses(tmp_path / "alone"), abs=1e-5)
    one, two = (load_run(path)[0].state_dict() for path in (tmp_path / "alone", folder))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, atol=1e-4, rtol=0)
    assert not (folder / LOCK).exists()


def test_a_run_of_two_processes_goes_on_bit_for_bit_also_with_dropout(program, tmp_path):
    file = program(dropout=0.2)
    assert run(*TORCHRUN, file, tmp_path / "whole")[0] == 0
    assert run(*TORCHRUN, file, tmp_path / "run", "--stop-after", "5")[0] == 0
    code, _, err = run(*TORCHRUN, file, tmp_path / "run", "--resume")
    assert code == 0, err
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


@pytest.mark.parametrize(
    "act, named",
    [
        ("raise ValueError('the third step')", "ValueError: the third step"),
        ("os._exit(3)", "exitcode  : 3"),
        ("os.kill(os.getpid(), 9)", "Signal 9"),
    ],
)
def test_if_one_process_fails_all_end_and_it_is_named(program, tmp_path, act, named):
    code, _, err = run(*TORCHRUN, program(act), tmp_path / "run")
    assert code != 0
    assert named in err
    cause = err[err.index("Root Cause") :]
    assert re.search(r"rank\s+: 1 ", cause), cause
    assert left_running(tmp_path / "run") == []


def test_ctrl_c_stops_all_after_the_same_step_and_the_run_goes_on(program, whole, tmp_path):
    here = tmp_path / "here"
    process = start(*TORCHRUN, program(f"open({str(here)!r}, 'w').close(); time.sleep(5)"),
                    tmp_path / "run")  # fmt: skip
    while not here.exists() and process.poll() is None:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert re.search("[45] of 12 steps are done", out), out + err
    assert left_running(tmp_path / "run") == []
    assert run(*TORCHRUN, program(), tmp_path / "run", "--resume")[0] == 0
    assert losses(tmp_path / "run") == losses(whole[0])


def test_a_mistake_is_told_with_the_rank(program, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").touch()
    code, _, err = run(*TORCHRUN, program(), tmp_path / "run")
    assert code != 0
    assert "error: rank 0: " in err and "mine.txt" in err


def test_with_another_number_of_processes_a_run_goes_on_and_says_so(program, tmp_path):
    file = program()
    assert run(*TORCHRUN, file, tmp_path / "run", "--stop-after", "5")[0] == 0
    code, _, err = run(sys.executable, file, tmp_path / "run", "--resume")
    assert code == 0
    assert "2 processes (now 1)" in err


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(CourseError, match=r"a batch of 12 windows .* by 5 processes"):
        Team(0, 5).require_shares(TrainingConfig(batch_size=12))
    Team(0, 4).require_shares(TrainingConfig(batch_size=12))


def test_shares_are_equal_and_together_all_rows():
    rows = torch.arange(12).reshape(6, 2)
    shares = [Team(rank, 3).share(rows) for rank in range(3)]
    assert [len(share) for share in shares] == [2, 2, 2]
    assert sorted(torch.cat(shares)[:, 0].tolist()) == rows[:, 0].tolist()
    assert ALONE.share(rows) is rows


def test_dropout_differs_between_ranks_and_steps_and_is_known():
    def drawn(rank, step, size=2):
        torch.manual_seed(0)
        Team(rank, size).own_random_numbers(7, step)
        return torch.rand(3).tolist()

    assert drawn(0, 1) == drawn(0, 1)
    assert drawn(0, 1) != drawn(1, 1) and drawn(0, 1) != drawn(0, 2)
    assert drawn(0, 1, size=1) == drawn(0, 2, size=1), "one process is left alone"


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(parallel, "choose_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(CourseError, match=r"more processes than GPUs on this machine \(1\)"):
        parallel.join_team()


def test_without_torchrun_there_is_one_process(monkeypatch):
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    assert parallel.join_team("cpu") == (ALONE, "cpu")
