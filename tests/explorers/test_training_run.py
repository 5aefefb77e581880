"""A run from a notebook is the command line's run: the same files, stopped, resumed or not."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from jupyter_client.manager import KernelManager

from course_lib import cli
from course_lib.explorers import frame, training_run, training_view
from course_lib.explorers.training_jobs import FolderJob, as_arguments
from course_lib.explorers.training_run import train_live
from course_lib.explorers.training_thread import LiveRun
from course_lib.runtime import PROJECT_FOLDER, CourseError, CourseNotice
from course_lib.training.checkpoint import load_run
from course_lib.training.session import Wishes
from tests.explorers.training_runs import FOREVER, Watcher, await_end
from tests.training.test_resume import PRESETS, STEPS, TEXT, assert_same


@pytest.fixture(autouse=True)
def _tiny_presets(monkeypatch):
    monkeypatch.setattr("course_lib.training.presets.PRESETS", PRESETS)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The folder of a run that the command line made, without a stop; its text lies beside it."""
    folder = tmp_path_factory.mktemp("straight")
    text = folder / "verse.txt"
    text.write_text(TEXT, encoding="utf-8")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("course_lib.training.presets.PRESETS", PRESETS)
        command = ["train", "--corpus", str(text), "--preset", "muon", "--out", str(folder / "run")]
        assert cli.main(command) == 0
    torch.set_num_threads(threads)
    return folder / "run"


def begin(straight: Path, folder: Path, **values):
    return train_live(folder, corpus=str(straight.parent / "verse.txt"), preset="muon", **values)


def test_it_writes_what_the_command_line_writes(straight, tmp_path, capsys):
    out = tmp_path / "runs" / "first"
    trainer = begin(straight, out).trainer
    assert_same(out, straight)
    assert trainer.finished and len(trainer.history) == STEPS
    model, tokenizer, config = load_run(out)
    assert set(TEXT) <= set(tokenizer.vocabulary) and config["step"] == STEPS
    assert torch.equal(model.head.weight, trainer.model.head.weight)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("Training ") and printed[1] == f"step 0 of {STEPS}"
    assert printed[-1] == f"Written to {out}" and "Validation loss" in "".join(printed[-4:])


def test_stopped_early_it_goes_on_to_the_same_end(straight, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = begin(straight, "runs/first", stop_after=15)
    assert run.state == "stopped" and len(run.trainer.history) == 15
    path = repr(str(Path("runs/first")))
    said = f"15 of 40 steps are done. To go on: train_live({path}, resume=True)"
    assert capsys.readouterr().out.splitlines()[-1] == said
    steps = [load_run(Path("runs/first") / part)[2]["step"] for part in ("", "last", "best")]
    assert steps == [15, 15, 10]
    train_live("runs/first", resume=True)
    assert_same(Path("runs/first"), straight)
    assert "It goes on after step 15." in capsys.readouterr().out


def test_a_finished_run_is_shown_and_left_as_it_is(straight, capsys):
    before = (straight / "config.json").read_bytes()
    run = train_live(straight, resume=True)
    assert run.state == "finished" and len(run.trainer.history) == STEPS
    said = f"{straight} is finished, 40 of 40 steps; a larger steps extends it."
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert (straight / "config.json").read_bytes() == before


def test_an_error_keeps_what_was_trained_and_frees_the_folder(straight, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            training_view.Lines, "stepped", lambda self: len(self.trainer.history) < 7 or 1 / 0
        )
        with pytest.raises(ZeroDivisionError):
            begin(straight, tmp_path / "run")
    begin(straight, tmp_path / "run", resume=True)
    assert_same(tmp_path / "run", straight)


def test_a_stop_before_the_first_step_leaves_nothing(straight, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("course_lib.training.trainer.random_windows", stop)
    with pytest.raises(KeyboardInterrupt):
        begin(straight, tmp_path / "run")
    assert not list(tmp_path.glob("run*"))


def test_threads_are_those_of_before(straight, tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        begin(straight, tmp_path / "run", threads=1, steps=2)
        assert torch.get_num_threads() == 2
        with pytest.raises(CourseError):
            begin(straight, tmp_path / "run", threads=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["threads"] == 1


# ---- refusals, in a notebook's words


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({}, "holds a run; go on with it by resume=True, or choose another folder"),
        ({"resume": True, "preset": "plain"}, "preset plain contradicts the run, which has muon"),
        ({"resume": True, "steps": 20}, "not shortened: use stop_after"),
        ({"stop_after": "20"}, "stop_after '20' must be a whole number, 1 or above"),
        ({"steps": 0}, "^steps 0 must be a whole number"),
    ],
)
def test_mistakes_are_told_by_the_names_of_the_arguments(straight, wishes, message):
    with pytest.raises(CourseError, match=message) as told:
        train_live(straight, **wishes)
    assert "--" not in str(told.value)


def test_a_folder_needs_a_name_and_a_new_run_a_text(tmp_path):
    with pytest.raises(CourseError, match=r"^folder '' cannot be used"):
        train_live("")
    with pytest.raises(CourseError, match=r"^corpus is missing: shakespeare or tang"):
        train_live(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_are_arguments_and_other_dashes_are_left():
    told = "--stop-after 3 and runs--a/--b: choose another --out"
    assert as_arguments(told) == "stop_after 3 and runs--a/--b: choose another folder"


# ---- in a thread, as in a live notebook


@pytest.fixture
def live(monkeypatch):
    """As in a notebook: the runs that were begun end with the test."""
    runs = []

    def remember(*given):
        runs.append(LiveRun(*given))
        return runs[-1]

    class Handle:
        def update(self, bundle, raw):
            pass

    monkeypatch.setattr(training_run, "LiveRun", remember)
    monkeypatch.setattr(training_run, "in_notebook", lambda: True)
    monkeypatch.setattr(frame, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda *_, **__: Handle())
    yield
    for run in runs:
        run.stop()
        assert run._ended.wait(FOREVER)


def paced(straight, folder, **after):
    """A run in a thread, with what it does after some steps."""
    view = Watcher()
    wishes = Wishes(corpus=str(straight.parent / "verse.txt"), preset="muon")
    run = LiveRun(FolderJob(folder, wishes, False), view)
    view.after = {int(step[1:]): getattr(run, act) for step, act in after.items()}
    run.begin(background=True)
    return run, view


def test_with_a_dashboard_and_samples_the_files_are_the_same(live, straight, tmp_path):
    run = begin(straight, tmp_path / "run", prompt="To be").wait()
    assert run.state == "finished"
    assert_same(tmp_path / "run", straight)


def test_stopped_and_resumed_in_a_thread_the_files_are_the_same(straight, tmp_path):
    run, view = paced(straight, tmp_path / "run", _15="stop")
    await_end(run)
    assert run.state == "stopped" and len(run.trainer.history) == 15
    steps = [load_run(tmp_path / "run" / part)[2]["step"] for part in ("", "last", "best")]
    assert steps == [15, 15, 10]
    torch.manual_seed(99)  # another cell, meanwhile
    view.after = {27: run.pause}
    run.resume()
    view.await_state("paused")
    torch.rand(100)
    run.resume()
    run.wait()
    assert_same(tmp_path / "run", straight)
    assert view.names() == [
        "training", "closing", "stopped", "training", "paused", "training", "closing", "finished",
    ]  # fmt: skip


def test_stop_after_ends_it_and_resume_goes_on_to_the_end(live, straight, tmp_path):
    run = begin(straight, tmp_path / "run", stop_after=15).wait()
    assert run.state == "stopped" and len(run.trainer.history) == 15
    run.resume()
    run.wait()
    assert_same(tmp_path / "run", straight)


def test_a_folder_has_one_run_at_a_time(live, straight, tmp_path):
    run, view = paced(straight, tmp_path / "run", _15="pause")
    view.await_state("paused")
    with pytest.raises(CourseError, match="holds a run; go on with it by resume=True"):
        begin(straight, tmp_path / "run")
    with pytest.raises(CourseError, match=r"another training is writing into .*another folder"):
        begin(straight, tmp_path / "run", resume=True)
    run.stop()
    await_end(run)
    begin(straight, tmp_path / "run", resume=True).wait()
    assert_same(tmp_path / "run", straight)


def test_what_hinders_a_resume_is_shown_and_raised_by_wait(straight, tmp_path):
    run, view = paced(straight, tmp_path / "run", _15="stop")
    await_end(run)
    (tmp_path / "run" / "last" / "training.json").write_bytes(b"{}")
    run.resume()
    view.await_state("failed")
    with pytest.raises(CourseError, match=r"damaged|checksum"):
        run.wait()


def test_a_mistake_is_raised_by_the_call_and_shows_no_dashboard(live, straight, tmp_path):
    for wishes in ({"preset": "nope"}, {"corpus": "nope.txt"}, {"prompt": "床"}):
        with pytest.raises(CourseError):
            train_live(
                tmp_path / "run",
                **{"corpus": str(straight.parent / "verse.txt"), "preset": "muon", **wishes},
            )
        assert not (tmp_path / "run").exists()


# ---- in a real kernel

SETUP = """
from course_lib.explorers.training_run import train_live
from course_lib.training import presets, trainer
from tests.training.test_resume import PRESETS
presets.PRESETS = PRESETS
def begin(folder, at, act):
    "A run whose step `at` ends when the run has been told to do something."
    draw, calls = trainer.random_windows, iter(range(1, 1000))
    def held(*arguments):
        if next(calls) == at:
            act()
        return draw(*arguments)
    trainer.random_windows = held
    return train_live(folder, corpus='verse.txt', preset='muon')
"""
INTERRUPTED = """
import signal, threading
def press():
    pressed.wait()
    signal.raise_signal(signal.SIGINT)  # as the kernel manager does, from its thread
    while run._wish != 'stop': pass
pressed = threading.Event()
run = begin('interrupted', 25, press)
"""
PAUSED = """
run = None
def pause():
    while run is None: pass
    run.pause()
run = begin('paused', 25, pause)
while run.state != 'paused': pass
"""

HELD = """
import threading
run, held = None, threading.Event()
def hold():
    held.set()
    while run is None or run._wish == 'train': pass
run = begin('restarted', 25, hold)
held.wait()
"""


class Kernel:
    """A kernel of a live notebook, without its page."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(shutdown_wait_time=FOREVER)
        self.manager.start_kernel(cwd=str(folder))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(FOREVER)

    def run(self, source: str) -> dict[str, list]:
        """Execute a cell; what it shows, by the kind of the message."""
        shown: dict[str, list] = {}
        self.client.execute_interactive(
            source,
            timeout=FOREVER,
            allow_stdin=False,
            output_hook=lambda message: shown.setdefault(message["msg_type"], []).append(
                message["content"]
            ),
        )
        return shown

    def new_subshell(self) -> str:
        """What JupyterLab sends a page's messages to, by its name."""
        if "kernel subshells" not in self.ask_control("kernel_info_request")["supported_features"]:
            pytest.skip("this kernel has no subshells: a button waits for the end of a cell")
        return self.ask_control("create_subshell_request")["subshell_id"]

    def ask_control(self, question: str) -> dict:
        """The answer to a question without content."""
        message = self.client.session.msg(question)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=FOREVER)
            if reply["parent_header"]["msg_id"] == message["header"]["msg_id"]:
                return reply["content"]

    def press(self, wish: str, model: str, subshell: str) -> None:
        """A button of a dashboard, as its page sends it."""
        data = {"method": "custom", "content": {"wish": wish}}
        message = self.client.session.msg("comm_msg", {"comm_id": model, "data": data})
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def shut_down(self) -> None:
        """As JupyterLab does when a notebook's kernel is shut down."""
        self.client.stop_channels()
        self.manager.shutdown_kernel()


@pytest.fixture(scope="module")
def new_kernel(straight):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PROJECT_FOLDER))
        patch.delenv("COURSE_EDITION", raising=False)

        def start() -> Kernel:
            kernel = Kernel(straight.parent)
            kernel.run(SETUP)
            return kernel

        yield start


@pytest.fixture(scope="module")
def kernel(new_kernel):
    kernel = new_kernel()
    yield kernel
    kernel.shut_down()


def test_the_cell_ends_at_once_and_nothing_is_printed(kernel, straight):
    shown = kernel.run("run = begin('quiet', 0, None)")
    assert "stream" not in shown and "error" not in shown
    _, still, live = (content["data"] for content in shown["display_data"])
    assert set(still) == {"image/png", "text/plain"}
    assert "application/vnd.jupyter.widget-view+json" in live
    shown = kernel.run("run.wait()")
    assert "stream" not in shown
    (result,) = shown["execute_result"]
    assert result["data"]["text/plain"] == "<a run, finished, 40 of 40 steps done>"
    assert_same(straight.parent / "quiet", straight)


def test_the_stop_button_during_wait_keeps_the_last_model_and_the_best(kernel, straight):
    kernel.run(INTERRUPTED)
    shown = kernel.run("pressed.set(); run.wait()")
    assert "error" not in shown
    said = "".join(content["text"] for content in shown["stream"])
    assert "25 of 40 steps are done. To go on: train_live('interrupted', resume=True)" in said
    folder = straight.parent / "interrupted"
    steps = [load_run(folder / part)[2]["step"] for part in ("", "last", "best")]
    assert steps == [25, 25, 20]
    kernel.run("train_live('interrupted', resume=True).wait()")
    assert_same(folder, straight)


def test_the_end_of_the_kernel_leaves_the_last_step(new_kernel, straight):
    kernel = new_kernel()
    kernel.run(PAUSED)
    kernel.shut_down()
    folder = straight.parent / "paused"
    assert [load_run(folder / part)[2]["step"] for part in ("", "last")] == [25, 25]
    with warnings.catch_warnings():
        warnings.simplefilter("error", CourseNotice)
        train_live(folder, resume=True)
    assert_same(folder, straight)


def test_a_restart_of_the_kernel_in_a_step_loses_nothing_of_it(new_kernel, straight):
    kernel = new_kernel()
    kernel.run(HELD)
    kernel.manager.restart_kernel()
    kernel.client.wait_for_ready(FOREVER)
    folder = straight.parent / "restarted"
    assert [load_run(folder / part)[2]["step"] for part in ("", "last")] == [25, 25]
    kernel.run(SETUP)
    shown = kernel.run("train_live('restarted', resume=True).wait()")
    assert "40 of 40 steps done" in shown["execute_result"][0]["data"]["text/plain"]
    assert_same(folder, straight)
    kernel.shut_down()


def test_a_button_is_heard_while_a_cell_waits_though_another_shell_spoke_last(kernel, straight):
    subshell = kernel.new_subshell()
    shown = kernel.run(HELD.replace("restarted", "heard"))
    data = shown["display_data"][-1]["data"]["application/vnd.jupyter.widget-view+json"]
    waiting = kernel.client.execute("run.wait()")
    kernel.press("stop", data["model_id"], subshell)
    kernel.client._recv_reply(waiting, timeout=FOREVER)
    shown = kernel.run("run")
    said = shown["execute_result"][0]["data"]["text/plain"]
    assert said == "<a run, stopped, 25 of 40 steps done>"


def test_a_mistake_is_one_line_of_ones_own(kernel, straight):
    shown = kernel.run("train_live('quiet2')")
    (error,) = shown["error"]
    assert error["ename"] == "CourseError" and error["evalue"].startswith("corpus is missing")
    assert len(error["traceback"]) <= 2
