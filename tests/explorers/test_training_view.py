"""Training watched: the line's numbers, the curve's points, and real kernels with a stop in one."""

import base64
from pathlib import Path

import IPython.display
import pytest
import torch
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from course_lib.explorers import training_view
from course_lib.explorers.training_view import curve, progress_line, watch
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Record, Trainer
from tools.lesson_source import Cell
from tools.normalise import output_problems

STEPS = 23


def make_trainer(steps: int = STEPS) -> Trainer:
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=7, context_length=5, n_layers=1, d_model=8, n_heads=2))
    tokens = torch.randint(7, (300,), generator=torch.Generator().manual_seed(1))
    recipe = TrainingConfig(steps=steps, warmup_steps=2, batch_size=3, evaluate_every=10)
    return Trainer(model, tokens[:200], tokens[200:], recipe)


def at_step(trainer: Trainer, step: int, act) -> None:
    """Call `act`, once, in the middle of that step of a training."""

    def look(model, arguments):
        if model.training and len(trainer.history) == step - 1:
            hook.remove()
            act()

    hook = trainer.model.register_forward_pre_hook(look)


def stop() -> None:
    raise KeyboardInterrupt


def records(seconds: list[float], val_loss: float | None = None) -> list[Record]:
    """Steps that each took so long, of 100 characters, with losses 1, 2, 3, …"""
    passed = [sum(seconds[: n + 1]) for n in range(len(seconds))]
    return [
        Record(n + 1, 100 * (n + 1), passed[n], float(n + 1), val_loss if n == 1 else None, 0.1)
        for n in range(len(seconds))
    ]


# ---- the line


def test_before_the_first_step_the_line_has_no_numbers_to_give():
    assert progress_line([], 2_000) == "step 0 of 2,000"


def test_the_line_has_step_loss_speed_and_time_left():
    line = progress_line(records([0.5, 0.5, 0.5, 0.5], val_loss=2.5), 1_000)
    assert line == (
        "step 4 of 1,000, loss 2.500, validation 2.500, 200 characters/s, 8 min 18 s left"
    )


def test_speed_is_that_of_recent_steps_and_the_loss_a_mean_of_some():
    history = records([9.0] * 10 + [0.01] * training_view.RECENT)
    line = progress_line(history, 160)
    assert "10,000 characters/s, 1 s left" in line
    assert f"loss {(41 + 60) / 2:.3f}" in line


def test_a_clock_that_stands_still_divides_by_nothing():
    assert "0 s left" in progress_line(records([0.0]), 1)


# ---- the curve


def test_the_curve_has_every_step_and_validation_and_room_for_the_rest():
    history = records([0.1] * 5, val_loss=2.5)
    (ax,) = curve(history, 40).axes
    pale, smooth, validation = ax.lines
    assert pale.get_xydata().tolist() == [[n, n] for n in range(1, 6)]
    assert smooth.get_ydata() == pytest.approx([1, 1.5, 2, 2.5, 3])
    assert validation.get_xydata().tolist() == [[2, 2.5]]
    assert ax.get_xlim() == pytest.approx((0, 40.8))


# ---- watching


def test_outside_a_notebook_it_prints_a_line_at_each_tenth(capsys):
    trainer = make_trainer()
    assert watch(trainer) is trainer.history and len(trainer.history) == STEPS
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        f"step {n} of 23" for n in (0, 3, 5, 7, 10, 12, 14, 17, 19, 21, 23)
    ]
    assert lines[-1].endswith("0 s left")


def test_to_watch_changes_nothing_of_the_training(displays):
    unwatched = make_trainer()
    losses = [record.train_loss for record in unwatched.run()]
    assert [record.train_loss for record in watch(make_trainer(), every=0)] == losses


def test_a_stop_says_how_to_go_on_and_going_on_is_as_if_there_had_been_none(capsys):
    losses = [record.train_loss for record in make_trainer().run()]
    trainer = make_trainer()
    at_step(trainer, 8, stop)
    assert len(watch(trainer)) == 7
    said = "Stopped after step 7 of 23. To go on, call watch(trainer) again."
    assert capsys.readouterr().out.splitlines()[-1] == said
    assert [record.train_loss for record in watch(trainer)] == losses
    assert "Stopped" not in capsys.readouterr().out


def test_an_error_in_training_is_not_hidden_and_leaves_the_picture(displays):
    trainer = make_trainer()
    at_step(trainer, 3, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        watch(trainer)
    assert set(displays[-1]) == {"image/png", "text/plain"}


@pytest.fixture
def displays(monkeypatch):
    """What is displayed, as in a kernel; each is a MIME bundle."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data)

    def display(data, raw, display_id):
        shown.append(data)
        return Handle()

    monkeypatch.setattr(training_view, "in_notebook", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)
    return shown


@pytest.mark.parametrize("drawing", [0.01, 0.06, 0.4])
def test_pictures_take_little_of_the_time_and_lines_come_twice_a_second(
    monkeypatch, displays, drawing
):
    """On a clock of our own: a step takes 10 ms, a picture `drawing` seconds."""
    clock = [0.0]
    drawn = []

    def draw(figure):
        clock[0] += drawing
        drawn.append(clock[0])
        return b"%d" % len(drawn)

    monkeypatch.setattr(training_view.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(training_view, "png", draw)
    view = training_view._NotebookView(10_000, every=0.5)
    view.begin([])
    for done in range(1, 6_001):
        clock[0] += 0.01
        view.update(records([0.01] * 3)[:done])
    assert len(drawn) > 2 and drawing * (len(drawn) - 1) < 0.03 * clock[0]
    assert drawn[1] < drawn[0] + 1.5 + drawing, "a curve is soon there"
    lines = [data for data in displays if "text/html" in data]
    assert 60 < len(lines) <= clock[0] / 0.5 + 1
    assert b"%d" % len(drawn) == base64.b64decode(view.picture)


def test_while_it_trains_the_line_is_above_a_picture_of_a_known_size(displays):
    watch(make_trainer(), every=0)
    during = displays[1]["text/html"]
    assert during.startswith("<div>step 1 of 23, loss ")
    assert 'width="512" height="288"' in during
    first, last = displays[0], displays[-1]
    assert first["text/plain"] == last["text/plain"]
    for bundle in (first, last):
        picture = base64.b64decode(bundle["image/png"])
        size = int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])
        assert size == (512, 288)
        assert len(picture) < 60_000


def test_the_same_training_leaves_the_same_picture(displays):
    watch(make_trainer())
    first = displays[-1]
    watch(make_trainer())
    assert displays[-1] == first


# ---- in a real kernel

CELLS = {
    "setup": "import signal\n"
    "from course_lib.explorers.training_view import watch\n"
    "from tests.explorers.test_training_view import at_step, make_trainer\n"
    "trainer = make_trainer()\n"
    "at_step(trainer, 8, lambda: signal.raise_signal(signal.SIGINT))",
    "stopped": "history = watch(trainer, every=0)",
    "where": "print(len(history), history is trainer.history)",
    "again": "history = watch(trainer, every=0)",
    "end": "print([record.step for record in history] == list(range(1, 24)))",
}


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell of one run in a kernel, which is stopped as its button does it."""
    with pytest.MonkeyPatch.context() as patch:
        root = Path(__file__).parents[2]
        patch.setenv("PYTHONPATH", str(root))
        notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": root}}).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def test_a_stopped_cell_keeps_its_picture_and_says_how_to_go_on(outputs):
    picture, line = outputs["stopped"]
    assert set(picture.data) == {"image/png", "text/plain"}
    done = int(outputs["where"][0].text.split()[0])  # a trainer may end its step first
    assert done in (7, 8) and outputs["where"][0].text == f"{done} True\n"
    said = f"Stopped after step {done} of 23. To go on, call watch(trainer) again.\n"
    assert line.text == said


def test_the_next_call_goes_on_to_the_end(outputs):
    assert outputs["end"][0].text == "True\n"


def test_what_is_stored_is_one_picture_and_a_text_without_numbers(outputs):
    (output,) = outputs["again"]
    assert output.output_type == "display_data"
    assert set(output.data) == {"image/png", "text/plain"} and not output.metadata
    assert not any(character.isdigit() for character in output.data["text/plain"])
    assert base64.b64decode(output.data["image/png"]).startswith(b"\x89PNG")
    cell = Cell("again", "code", CELLS["again"], tags=(), course={}, line=1)
    assert list(output_problems(cell, outputs["again"])) == []
