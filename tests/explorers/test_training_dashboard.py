"""What the dashboard sends: everything once, and samples that change nothing in the run."""

import base64

import pytest
import torch

from course_lib.explorers import training_dashboard
from course_lib.explorers.training_dashboard import TrainingDashboard
from course_lib.explorers.training_jobs import TrainerJob
from course_lib.explorers.training_thread import LiveRun
from course_lib.explorers.training_view import plan, points, validation
from course_lib.runtime import CourseError
from tests.explorers.training_runs import (
    STEPS,
    TOKENIZER,
    Watcher,
    at_step,
    await_end,
    losses_of,
    make_trainer,
    straight,
)

NEVER = float("inf")


class Told(TrainingDashboard, Watcher):
    """A dashboard that remembers what it was told, and what it sent."""

    def __init__(self, prompt="", **options):
        Watcher.__init__(self)
        super().__init__(prompt, **options)
        self.sent = []
        self.observe(lambda change: self.sent.append((change["name"], change["new"])))

    def opened(self, *given):
        super().opened(*given)
        self.trainer = given[0]

    def stepped(self):
        super().stepped()
        Watcher.stepped(self)

    def changed(self, state, text=""):
        super().changed(state, text)
        Watcher.changed(self, state, text)

    note = TrainingDashboard.note

    def of(self, name):
        return [value for key, value in self.sent if key == name]


@pytest.fixture(autouse=True)
def _short_samples(monkeypatch):
    monkeypatch.setattr(training_dashboard, "LENGTH", 20)


@pytest.fixture
def begun():
    """Begins a run with a dashboard; it has ended when the test has."""
    runs = []

    def begin(trainer=None, prompt="", every=0, tokenizer=TOKENIZER, **after):
        dashboard = Told(prompt, every=every)
        dashboard.run = run = LiveRun(TrainerJob(trainer or make_trainer(), tokenizer), dashboard)
        dashboard.after = {int(step[1:]): getattr(run, act) for step, act in after.items()}
        run.begin(background=True)
        runs.append(run)
        return dashboard

    yield begin
    for run in runs:
        run.stop()
        await_end(run)


# ---- numbers


def test_at_the_end_all_of_the_run_is_there(begun):
    dashboard = begun()
    trainer = dashboard.run.wait().trainer
    whole = {"points": points(trainer.history, 0, STEPS), "validation": validation(trainer.history)}
    assert dashboard.curve == whole and len(whole["points"]) == STEPS
    assert [step for step, _ in whole["validation"]] == [10, 20, 23]
    assert dashboard.plan == plan(trainer.config) and dashboard.steps == STEPS
    assert dashboard.state == "finished" and dashboard.progress["done"] == STEPS
    assert dashboard.progress["step"] == "23 of 23" and dashboard.message == ""


def test_only_what_is_new_is_sent_and_nothing_is_left_out(begun):
    dashboard = begun(make_trainer(steps=100))
    history = dashboard.run.wait().trainer.history
    more, wholes = dashboard.of("more"), dashboard.of("curve")
    assert len(more) > 80 and all(len(new["points"]) == 1 for new in more)
    assert 10 <= len(wholes) <= 15
    steps = [new["points"][0][0] for new in more]
    assert steps == [n for n in range(1, 101) if n % 10]
    assert all(new["after"] == step - 1 for new, step in zip(more, steps, strict=True))
    assert [new["points"][0] for new in more] == [
        row for row in points(history, 0, 100) if row[0] % 10
    ]


def test_between_two_updates_time_has_to_pass(begun):
    dashboard = begun(make_trainer(steps=100), every=NEVER)
    dashboard.run.wait()
    assert dashboard.of("more") == [] and len(dashboard.of("progress")) <= 15


def test_a_page_that_is_opened_later_is_given_the_whole(begun):
    dashboard = begun(make_trainer(steps=100), every=NEVER, _57="pause")
    dashboard.await_state("paused")
    dashboard.set_trait("curve", {})  # as if it had last been sent long ago
    state = dashboard.get_state()
    assert len(state["curve"]["points"]) == 57 and state["state"] == "paused"
    assert "curve" not in dashboard.get_state("state")


# ---- samples


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_samples_are_written_through_the_run_and_change_nothing_in_it(begun, dropout):
    dashboard = begun(make_trainer(dropout=dropout), prompt="ab")
    trainer = dashboard.run.wait().trainer
    assert losses_of(trainer) == straight(dropout)
    assert [sample["step"] for sample in dashboard.samples] == [*range(0, 23, 2), 23]
    texts = [sample["text"] for sample in dashboard.samples]
    assert all(len(text) == 20 and set(text) <= set("abcdefg") for text in texts)
    assert len(set(texts)) > 1


def test_a_sample_is_written_once_at_a_step(begun):
    dashboard = begun(make_trainer(steps=100), _30="stop")
    dashboard.run.wait()
    dashboard.run.resume()
    dashboard.run.wait()
    assert [sample["step"] for sample in dashboard.samples] == list(range(0, 101, 10))


def test_without_a_tokenizer_there_are_none(begun):
    dashboard = begun(tokenizer=None, prompt="床")
    dashboard.run.wait()
    assert dashboard.samples == []


def test_a_prompt_with_unknown_characters_is_refused_at_once(begun):
    with pytest.raises(CourseError, match=r"U\+5E8A"):
        begun(prompt="床")


def test_a_prompt_is_shown_so_that_it_can_be_read():
    assert TrainingDashboard("a\x00\u202e<b>").prompt == "aU+0000U+202E<b>"


def test_a_long_prompt_is_told_once(begun):
    dashboard = begun(prompt="abcdefg")
    dashboard.run.wait()
    (note,) = dashboard.notes
    assert "has 7 characters; the model reads the last 5" in note


def test_a_model_that_has_lost_its_numbers_says_so_in_place_of_a_text(begun):
    trainer = make_trainer()

    def lose():
        with torch.no_grad():
            trainer.model.head.weight.fill_(float("nan"))

    at_step(trainer, 5, lose)
    dashboard = begun(trainer)
    dashboard.run.wait()
    assert "not numbers (NaN)" in dashboard.samples[-1]["text"]
    assert dashboard.curve["points"][-1][1] is None and dashboard.progress["loss"] == "nan"
    assert any("diverged" in note for note in dashboard.notes)


# ---- buttons


def press(dashboard, wish):
    dashboard._handle_custom_msg({"wish": wish}, [])


def test_the_buttons_pause_go_on_and_stop(begun):
    dashboard = begun(_7="pause")
    dashboard.await_state("paused")
    dashboard.after = {9: lambda: press(dashboard, "pause"), 12: lambda: press(dashboard, "stop")}
    press(dashboard, "resume")
    dashboard.await_state("paused", times=2)
    assert dashboard.progress["done"] == 9
    press(dashboard, "resume")
    dashboard.await_state("stopped")
    await_end(dashboard.run)
    assert dashboard.progress["done"] == 12 and dashboard.ending.startswith("Stopped after step 12")
    press(dashboard, "resume")
    dashboard.await_state("finished")
    assert losses_of(dashboard.trainer) == straight() and dashboard.ending == ""


def test_other_messages_are_left_alone(begun):
    dashboard = begun(_7="pause")
    dashboard.await_state("paused")
    for content in ({}, {"wish": "begin"}, {"wish": ["stop"]}, {"wish": None}):
        dashboard._handle_custom_msg(content, [])
    assert dashboard.run.state == "paused"


def test_an_error_is_shown_and_gone_when_it_goes_on(begun):
    trainer = make_trainer()
    at_step(trainer, 5, lambda: 1 / 0)
    dashboard = begun(trainer)
    dashboard.await_state("failed")
    await_end(dashboard.run)
    assert dashboard.message == "ZeroDivisionError: division by zero" and dashboard.ending == ""
    press(dashboard, "resume")
    dashboard.await_state("finished")
    assert dashboard.message == ""


# ---- the picture that stays


@pytest.fixture
def stills(monkeypatch):
    """The bundles of each picture that is displayed, the first and its updates."""
    shown = []

    class Handle:
        def update(self, bundle, raw):
            shown.append(bundle)

    def display(bundle, raw, display_id):
        shown.append(bundle)
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    return shown


def test_what_stays_in_the_notebook_is_the_curve_as_it_is_at_a_pause_and_at_the_end(begun, stills):
    dashboard = begun(_7="pause")
    dashboard.await_state("paused")
    dashboard._ipython_display_()
    dashboard.run.resume()
    dashboard.run.wait()
    assert len(stills) >= 2 and stills[0] != stills[-1]
    (ax,) = dashboard.still().axes
    assert len(ax.lines[0].get_xdata()) == STEPS
    for bundle in stills:
        assert bundle["image/png"].startswith(b"\x89PNG") and len(bundle["image/png"]) < 60_000
        assert bundle["text/plain"] == dashboard.still_text()
    assert base64.b64encode(stills[-1]["image/png"]) == base64.b64encode(
        dashboard._bundle()["image/png"]
    )
