"""A run from a notebook is the command line's run: the same files, stopped, resumed or not."""

import json
import warnings
from pathlib import Path

import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from course_lib import cli
from course_lib.explorers import training_view
from course_lib.explorers.training_run import as_arguments, train_in
from course_lib.runtime import PROJECT_FOLDER, CourseError, CourseNotice
from course_lib.training.checkpoint import load_run
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
    return train_in(folder, corpus=str(straight.parent / "verse.txt"), preset="muon", **values)


def test_it_writes_what_the_command_line_writes(straight, tmp_path, capsys):
    out = tmp_path / "runs" / "first"
    trainer = begin(straight, out)
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
    assert len(begin(straight, "runs/first", stop_after=15).history) == 15
    path = repr(str(Path("runs/first")))
    said = f"15 of 40 steps are done. To go on: train_in({path}, resume=True)"
    assert capsys.readouterr().out.splitlines()[-1] == said
    steps = [load_run(Path("runs/first") / part)[2]["step"] for part in ("", "last", "best")]
    assert steps == [15, 15, 10]
    train_in("runs/first", resume=True)
    assert_same(Path("runs/first"), straight)
    assert "It goes on after step 15." in capsys.readouterr().out


def test_a_finished_run_is_shown_and_left_as_it_is(straight, capsys):
    before = (straight / "config.json").read_bytes()
    assert len(train_in(straight, resume=True).history) == STEPS
    said = f"{straight} is finished, 40 of 40 steps; a larger steps extends it."
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert (straight / "config.json").read_bytes() == before


def test_an_error_keeps_what_was_trained_and_frees_the_folder(straight, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            training_view._Lines, "update", lambda self, history: len(history) < 7 or 1 / 0
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
        train_in(straight, **wishes)
    assert "--" not in str(told.value)


def test_a_folder_needs_a_name_and_a_new_run_a_text(tmp_path):
    with pytest.raises(CourseError, match=r"^folder '' cannot be used"):
        train_in("")
    with pytest.raises(CourseError, match=r"^corpus is missing: shakespeare or tang"):
        train_in(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_are_arguments_and_other_dashes_are_left():
    told = "--stop-after 3 and runs--a/--b: choose another --out"
    assert as_arguments(told) == "stop_after 3 and runs--a/--b: choose another folder"


# ---- in a real kernel

CELLS = {
    "setup": "import signal\n"
    "from course_lib.explorers.training_run import train_in\n"
    "from course_lib.training import presets, trainer\n"
    "from tests.training.test_resume import PRESETS\n"
    "presets.PRESETS = PRESETS\n"
    "draw, calls = trainer.random_windows, iter(range(1, 1000))\n"
    "def draw_and_stop(*arguments):\n"
    "    if next(calls) == 25:\n"
    "        signal.raise_signal(signal.SIGINT)\n"
    "    return draw(*arguments)\n"
    "trainer.random_windows = draw_and_stop",
    "stopped": "run = train_in('runs/first', corpus='verse.txt', preset='muon')",
    "left": "import json, pathlib\n"
    "folders = [pathlib.Path('runs/first', part) for part in ('', 'last', 'best')]\n"
    "print(len(run.history), *(json.loads((folder / 'config.json').read_bytes())['step']\n"
    "                          for folder in folders))",
    "again": "run = train_in('runs/first', corpus='verse.txt', preset='muon', resume=True)",
    "finished": "run = train_in('runs/first', resume=True)",
    "refused": "train_in('runs/first')",
}


@pytest.fixture(scope="module")
def kernel(straight):
    """A folder, and the outputs of a notebook's cells that run there; a training is stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(PROJECT_FOLDER))
        notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
        place = {"metadata": {"path": straight.parent}}
        NotebookClient(notebook, timeout=120, resources=place, allow_errors=True).execute()
    outputs = (cell.outputs for cell in notebook.cells)
    return straight.parent, dict(zip(CELLS, outputs, strict=True))


def test_the_stop_button_keeps_the_last_model_and_the_best(kernel):
    _, outputs = kernel
    done, *steps = map(int, outputs["left"][0].text.split())
    assert done in (24, 25)  # a trainer may end its step first
    assert steps == [done, done, 20], "the run's own model, last/ and best/"
    picture, said = outputs["stopped"]
    assert set(picture.data) == {"image/png", "text/plain"}
    first, *_, last = said.text.splitlines()
    assert first.startswith(f"Stopped at step {done} of 40.") and "the stop button once" in first
    assert last == f"{done} of 40 steps are done. To go on: train_in('runs/first', resume=True)"


def test_the_same_call_with_resume_ends_as_a_run_without_a_stop(kernel, straight):
    folder, outputs = kernel
    assert_same(folder / "runs" / "first", straight)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CourseNotice)
        load_run(folder / "runs" / "first")
    for name in ("again", "finished"):
        picture, said = outputs[name]
        assert set(picture.data) == {"image/png", "text/plain"}
        assert "characters/s" not in said.text and " s of training" not in said.text
    assert outputs["again"][0] == outputs["finished"][0]


def test_a_mistake_is_one_line_of_ones_own(kernel):
    _, outputs = kernel
    (error,) = outputs["refused"]
    assert error.ename == "CourseError" and "by resume=True" in error.evalue
    assert len(error.traceback) <= 2
