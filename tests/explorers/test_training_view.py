"""A training in numbers and pictures: the line, the points of the curves, the small views."""

import base64
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from course_lib.explorers import training_view
from course_lib.explorers.training_run import watch
from course_lib.explorers.training_view import (
    MOST_POINTS,
    RECENT,
    curve,
    plan,
    points,
    progress,
    progress_line,
    readable,
    validation,
)
from course_lib.plots.curves import trailing_mean
from course_lib.training.presets import TrainingConfig
from course_lib.training.schedule import learning_rate
from tests.explorers.training_runs import STEPS, at_step, losses_of, make_trainer, records, straight
from tools.lesson_source import Cell
from tools.normalise import output_problems

# ---- the line


def test_before_the_first_step_the_line_has_no_numbers_to_give():
    assert progress_line([], 2_000) == "step 0 of 2,000"


def test_the_line_has_step_loss_speed_and_time_left():
    history = records([0.5, 0.5, 0.5, 0.5], val_loss=2.5)
    assert progress_line(history, 1_000) == (
        "step 4 of 1,000, loss 2.500, validation 2.500, 200 characters/s, 8 min 18 s left"
    )
    assert progress(history, 1_000)["rate"] == "0.1"


def test_speed_is_that_of_recent_steps_and_the_loss_a_mean_of_some():
    history = records([9.0] * 10 + [0.01] * RECENT)
    line = progress_line(history, 160)
    assert "10,000 characters/s, 1 s left" in line
    assert f"loss {(41 + 60) / 2:.3f}" in line


def test_a_clock_that_stands_still_divides_by_nothing():
    assert "0 s left" in progress_line(records([0.0]), 1)


# ---- the curves


def test_points_are_steps_losses_their_means_and_rates():
    history = records([0.1] * 45)
    found = points(history, 0, 45)
    assert [row[:2] for row in found] == [[n, n] for n in range(1, 46)]
    assert [row[2] for row in found] == pytest.approx(
        trailing_mean(range(1, 46), training_view.SMOOTHING)
    )
    assert {row[3] for row in found} == {0.1}
    assert points(history, 40, 45) == found[40:] and points(history, 45, 45) == []


@pytest.mark.parametrize("steps", [1_000, 1_001, 2_500, 20_000])
def test_a_long_run_has_not_more_points_than_can_be_seen(steps):
    history = records([0.1] * steps)
    found = points(history, 0, steps)
    assert MOST_POINTS / 2 <= len(found) <= MOST_POINTS
    every = found[1][0] - found[0][0]
    assert [row[0] for row in found] == list(range(every, steps + 1, every))
    pieces = [points(history[:n], after, steps) for after, n in ((0, 7), (7, 333), (333, steps))]
    assert [row for piece in pieces for row in piece] == found


def test_a_loss_that_is_no_number_is_none():
    history = records([0.1] * 3, val_loss=float("inf"))
    history[1] = type(history[1])(2, 200, 0.2, float("nan"), float("inf"), 0.1)
    assert points(history, 1, 3)[0][:3] == [2, None, None]
    assert validation(history) == [[2, None]]


def test_validation_has_the_steps_where_it_was_measured():
    history = records([0.1] * 5, val_loss=2.5)
    assert validation(history) == [[2, 2.5]] and validation(history, 2) == []


@pytest.mark.parametrize("steps", [1, 2, 40, 5_000])
def test_the_plan_is_the_schedule_from_the_first_step_to_the_last(steps):
    config = TrainingConfig(steps=steps, warmup_steps=min(30, steps - 1))
    rows = plan(config)
    assert rows[0][0] == 1 and rows[-1][0] == steps and len(rows) <= 400
    assert all(rate == learning_rate(step - 1, config) for step, rate in rows)
    assert max(rate for _, rate in rows) == max(learning_rate(s, config) for s in range(steps))


def test_the_curve_has_every_step_and_validation_and_room_for_the_rest():
    history = records([0.1] * 5, val_loss=2.5)
    (ax,) = curve(history, 40).axes
    pale, smooth, measured = ax.lines
    assert pale.get_xydata().tolist() == [[n, n] for n in range(1, 6)]
    assert smooth.get_ydata() == pytest.approx([1, 1.5, 2, 2.5, 3])
    assert measured.get_xydata().tolist() == [[2, 2.5]]
    assert ax.get_xlim() == pytest.approx((0, 40.8))


def test_what_a_model_writes_can_be_read_whatever_it_is():
    assert readable("a b\n<img>$_$\x00\u202e床") == "a b\n<img>$_$U+0000U+202E床"


# ---- outside a notebook


def test_outside_a_notebook_it_prints_a_line_at_each_tenth(capsys):
    run = watch(make_trainer())
    assert run.state == "finished" and losses_of(run.trainer) == straight()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        f"step {n} of 23" for n in (0, 3, 5, 7, 10, 12, 14, 17, 19, 21, 23)
    ]
    assert lines[-1].endswith("0 s left")


def test_a_stop_says_how_to_go_on_and_going_on_is_as_if_there_had_been_none(capsys):
    trainer = make_trainer()
    at_step(trainer, 8, stop)
    run = watch(trainer)
    assert run.state == "stopped" and len(trainer.history) == 7
    said = "Stopped after step 7 of 23. To go on, call resume()."
    assert capsys.readouterr().out.splitlines()[-1] == said
    run.resume()
    assert losses_of(trainer) == straight()
    assert "Stopped" not in capsys.readouterr().out


def stop() -> None:
    raise KeyboardInterrupt


# ---- when a notebook is built or tested

CELLS = {
    "setup": "from course_lib.explorers.training_run import watch\n"
    "from tests.explorers.training_runs import at_step, make_trainer\n"
    "trainer = make_trainer()",
    "run": "run = watch(trainer)",
    "shown": "run",
    "end": "print([r.step for r in run.wait().trainer.history] == list(range(1, 24)))",
    "failing": "trainer = make_trainer()\nat_step(trainer, 3, lambda: 1 / 0)\nwatch(trainer)",
}


@pytest.fixture(scope="module", params=["learner", "solved"])
def outputs(request):
    """The outputs of each cell of one run in a kernel, as the builder runs it."""
    with pytest.MonkeyPatch.context() as patch:
        root = Path(__file__).parents[2]
        patch.setenv("PYTHONPATH", str(root))
        patch.setenv("COURSE_EDITION", request.param)
        notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
        place = {"metadata": {"path": root}}
        NotebookClient(notebook, timeout=120, resources=place, allow_errors=True).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def test_what_is_stored_is_one_picture_and_a_text_without_numbers(outputs):
    (output,) = outputs["run"]
    assert output.output_type == "display_data"
    assert set(output.data) == {"image/png", "text/plain"} and not output.metadata
    assert not any(character.isdigit() for character in output.data["text/plain"])
    picture = base64.b64decode(output.data["image/png"])
    assert picture.startswith(b"\x89PNG") and len(picture) < 60_000
    assert (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24])) == (512, 288)
    cell = Cell("run", "code", CELLS["run"], tags=(), course={}, line=1)
    assert list(output_problems(cell, outputs["run"])) == []


def test_the_picture_is_that_of_the_whole_run(outputs):
    picture = training_view.png(curve(_finished().history, STEPS))
    assert base64.b64decode(outputs["run"][0].data["image/png"]) == picture


def _finished():
    trainer = make_trainer()
    list(trainer.run())
    return trainer


def test_the_next_cells_have_its_end(outputs):
    assert outputs["end"][0].text == "True\n"
    said = outputs["shown"][0].data["text/plain"]
    assert said == "<a run, finished, 23 of 23 steps done>"


def test_an_error_is_not_hidden_and_leaves_the_picture(outputs):
    picture, error = outputs["failing"]
    assert set(picture.data) == {"image/png", "text/plain"}
    assert error.ename == "ZeroDivisionError"
