"""A training in a thread: what is wished is obeyed between steps, and leaves no trace in it."""

import threading
import warnings

import pytest
import torch

from course_lib.explorers import training_thread
from course_lib.explorers.training_jobs import TrainerJob
from course_lib.explorers.training_thread import LiveRun
from course_lib.runtime import CourseError, notice
from tests.explorers.training_runs import (
    FOREVER,
    STEPS,
    Watcher,
    at_step,
    await_end,
    losses_of,
    make_trainer,
    straight,
)


@pytest.fixture
def view():
    return Watcher()


@pytest.fixture
def make_run(view):
    """A run of a trainer, in a thread that has ended when the test has."""
    runs = []

    def make(trainer=None, **act_after) -> LiveRun:
        trainer = trainer or make_trainer()
        run = LiveRun(TrainerJob(trainer, None), view)
        view.after = {int(step[1:]): getattr(run, act) for step, act in act_after.items()}
        runs.append(run)
        run.begin(background=True)
        return run

    yield make
    for run in runs:
        run.stop()
        await_end(run)


# ---- to the end


def test_it_trains_in_a_thread_of_its_own_to_the_same_numbers(make_run, view):
    run = make_run()
    assert run.wait() is run and losses_of(run.trainer) == straight()
    assert run.state == "finished" and view.names() == ["training", "finished"]
    assert view.threads == {"training"}
    assert repr(run) == f"<a run, finished, {STEPS} of {STEPS} steps done>"


def test_here_and_now_it_needs_no_thread(view):
    run = LiveRun(TrainerJob(make_trainer(), None), view)
    run.begin(background=False)
    assert run.state == "finished" and losses_of(run.wait().trainer) == straight()
    assert view.threads == {threading.current_thread().name}


# ---- pause, stop, resume


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_pause_holds_after_a_step_and_takes_nothing_from_the_run(make_run, view, dropout):
    run = make_run(make_trainer(dropout=dropout), _7="pause")
    view.await_state("paused")
    assert len(run.trainer.history) == 7 and run.state == "paused"
    before = {name: tensor.clone() for name, tensor in run.trainer.model.state_dict().items()}
    torch.manual_seed(99)  # another cell, meanwhile
    torch.rand(1_000)
    after = run.trainer.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert len(run.trainer.history) == 7
    run.resume()
    run.wait()
    assert view.names() == ["training", "paused", "training", "finished"]
    assert losses_of(run.trainer) == straight(dropout)


def test_a_pause_without_dropout_leaves_the_random_numbers_of_others(make_run, view):
    run = make_run(_7="pause")
    view.await_state("paused")
    torch.manual_seed(99)
    run.resume()
    run.wait()
    drawn = torch.rand(3)
    torch.manual_seed(99)
    assert torch.equal(drawn, torch.rand(3))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_stop_ends_the_thread_and_resume_goes_on_to_the_same_numbers(make_run, view, dropout):
    run = make_run(make_trainer(dropout=dropout), _8="stop")
    assert len(run.wait().trainer.history) == 8 and run.state == "stopped"
    said = f"Stopped after step 8 of {STEPS}. To go on, call resume()."
    assert view.states[-1] == ("stopped", said)
    torch.manual_seed(99)
    run.resume()
    run.wait()
    assert run.state == "finished" and losses_of(run.trainer) == straight(dropout)


def test_a_paused_run_can_be_stopped(make_run, view):
    run = make_run(_7="pause")
    view.await_state("paused")
    run.stop()
    assert len(run.wait().trainer.history) == 7
    assert view.names() == ["training", "paused", "stopped"]


def test_nothing_takes_back_a_stop(make_run, view):
    run = make_run(_7="stop")
    view.after[7] = lambda: (run.stop(), run.pause())
    run.wait()
    assert run.state == "stopped"


def test_a_pause_that_is_taken_back_in_time_is_none(make_run, view):
    run = make_run()
    view.after[STEPS - 1] = lambda: None
    run.pause()
    run.resume()
    run.wait()
    assert losses_of(run.trainer) == straight()


def test_what_has_ended_stays_as_it_is(make_run, view):
    run = make_run()
    run.wait()
    run.pause()
    run.resume()
    run.stop()
    assert run.state == "finished" and view.names() == ["training", "finished"]
    assert run.wait() is run


def test_a_stop_before_the_first_step_keeps_nothing_and_is_no_error(make_run, view):
    trainer = make_trainer()
    run = LiveRun(TrainerJob(trainer, None), view)
    view.opened = lambda *given: (Watcher.opened(view, *given), run.stop())
    run.begin(background=True)
    assert run.wait().trainer.history == [] and run.state == "stopped"


# ---- waiting


def test_waiting_for_a_paused_run_is_refused(make_run, view):
    run = make_run(_7="pause")
    view.await_state("paused")
    with pytest.raises(CourseError, match=r"paused at step 7 .* call resume\(\) before wait"):
        run.wait()
    run.resume()
    assert len(run.wait().trainer.history) == STEPS  # although the state may still say "paused"


def test_the_kernel_s_stop_button_ends_the_run_that_is_waited_for(
    make_run, view, monkeypatch, capsys
):
    run = make_run(_9="pause")
    view.await_state("paused")
    run._wish = "held"  # as if a step took long
    await_event, presses = training_thread._await, iter([True])

    def press(event):
        if next(presses, False):
            raise KeyboardInterrupt
        await_event(event)

    monkeypatch.setattr(training_thread, "_await", press)
    assert len(run.wait().trainer.history) == 9 and run.state == "stopped"
    assert capsys.readouterr().out == f"Stopped after step 9 of {STEPS}. To go on, call resume().\n"


def test_an_error_is_shown_and_raised_by_wait_and_the_run_can_go_on(make_run, view):
    trainer = make_trainer()
    at_step(trainer, 6, lambda: 1 / 0)
    run = make_run(trainer)
    with pytest.raises(ZeroDivisionError):
        run.wait()
    assert run.state == "failed"
    assert view.states[-1] == ("failed", "ZeroDivisionError: division by zero")
    run.resume()
    assert losses_of(run.wait().trainer) == straight()


def test_a_resume_as_soon_as_the_end_is_shown_is_not_lost(make_run, view):
    trainer, ready = make_trainer(), threading.Event()
    at_step(trainer, 8, lambda: ready.wait(FOREVER) and 1 / 0)
    changed = view.changed

    def resume_at_once(state, text=""):
        changed(state, text)
        if state == "failed":
            pressed.start()
            pressed.join(0.2)  # long enough to lose it: the run has not ended yet

    view.changed = resume_at_once
    run = make_run(trainer)
    pressed = threading.Thread(target=run.resume)
    ready.set()
    view.await_state("finished")
    assert losses_of(run.trainer) == straight()


def test_what_hinders_the_beginning_is_raised_where_it_begins(view):
    class Hindered(TrainerJob):
        def run(self, *_):
            raise CourseError("no")

    run = LiveRun(Hindered(make_trainer(), None), view)
    for background in (True, False):
        with pytest.raises(CourseError, match="no"):
            run.begin(background=background)
    assert view.states == [] and repr(run) == "<a run that did not begin>"


# ---- what a thread shares with others


def test_a_model_is_trained_by_one_run_at_a_time(make_run, view):
    run = make_run(_7="pause")
    view.await_state("paused")
    other = LiveRun(TrainerJob(run.trainer, None), Watcher())
    with pytest.raises(CourseError, match="this model is being trained already; stop that run"):
        other.begin(background=True)
    run.stop()
    run.wait()
    other.begin(background=True)
    assert losses_of(other.wait().trainer) == straight()


def test_it_has_the_threads_of_who_began_it_and_gives_no_others_away(make_run, view, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    before, seen = torch.get_num_threads(), []
    try:
        torch.set_num_threads(2)
        trainer = make_trainer()
        trainer.model.register_forward_pre_hook(lambda *_: seen.append(torch.get_num_threads()))
        run = make_run(trainer)
        torch.set_num_threads(1)
        run.wait()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {2}


def test_gradients_are_on_whatever_the_cell_did(make_run):
    with torch.no_grad():
        assert losses_of(make_run().wait().trainer) == straight_with_gradients()


def straight_with_gradients():
    with torch.enable_grad():
        return straight()


def test_its_notices_go_to_the_view_and_those_of_cells_stay_warnings(make_run, view, capfd):
    run = make_run(_7="pause")
    view.await_state("paused")
    view.after[8] = lambda: notice("from the thread")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notice("from a cell")
        run.resume()
        run.wait()
    assert [str(warning.message) for warning in caught] == ["from a cell"]
    assert view.notes == ["from the thread"]
    assert capfd.readouterr() == ("", "")


def test_the_end_of_the_kernel_stops_it_after_a_step_without_measuring(make_run, view):
    asked = []

    class Measuring(TrainerJob):
        def run(self, opened, show, closing):
            text = super().run(opened, show, closing)
            asked.append(closing(True))
            return text

    run = LiveRun(Measuring(make_trainer(), None), view)
    view.after[9] = run.pause
    run.begin(background=True)
    view.await_state("paused")
    run._part()
    assert run.state == "stopped" and len(run.trainer.history) == 9
    assert asked == [False]
    assert training_thread.PARTING > 0
