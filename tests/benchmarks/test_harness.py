"""Turns are taken in order, every number is kept, and a stopped run goes on where it was."""

import json

import pytest

from benchmarks import harness
from benchmarks.harness import Case, Comparison, Options, repeat, run_comparison
from benchmarks.report import Row
from benchmarks.store import Store
from course_lib.runtime import CourseError


class Turns:
    """A comparison whose contestants write down that they were called."""

    def __init__(self, rounds: int = 3, stop_at: int | None = None) -> None:
        self.calls: list[str] = []
        self.stop_at = stop_at
        self.said: list[str] = []
        cases = [
            Case(name=case, threads=1, contestants={"a": self.one("a"), "b": self.one("b")})
            for case in ("x", "y")
        ]
        self.comparison = Comparison(
            title="Turns",
            question="Who is called when?",
            cases=cases,
            rounds=rounds,
            minutes=0,
            rows=lambda results: [
                Row(
                    what="x",
                    baseline="a",
                    baseline_values=results.rates("x", "a"),
                    contender="b",
                    values=results.rates("x", "b"),
                )
            ],
        )

    def one(self, name: str):
        def contestant(number: int) -> dict:
            if len(self.calls) == self.stop_at:
                raise KeyboardInterrupt
            self.calls.append(f"{name}{number}")
            return {"seconds": 2.0 if name == "a" else 1.0, "tokens": 10 + number}

        return contestant

    def run(self, folder, options=None, **more) -> str:
        return run_comparison(
            "turns", self.comparison, options or Options(), folder, self.said.append, **more
        )


def test_contestants_alternate_round_by_round(tmp_path):
    turns = Turns(rounds=2)
    turns.run(tmp_path)
    assert turns.calls == ["a0", "b0", "a0", "b0", "a1", "b1", "a1", "b1"]


def test_every_number_is_in_the_json_and_the_table_beside(tmp_path):
    text = Turns().run(tmp_path)
    assert (tmp_path / "turns.md").read_text(encoding="utf-8") == text
    assert "**2.00** (2.00–2.00)" in text
    data = json.loads((tmp_path / "turns.json").read_text(encoding="utf-8"))
    assert [(r["case"], r["round"]) for r in data["rounds"]] == [
        (case, number) for number in range(3) for case in "xy"
    ]
    assert data["rounds"][-1]["measured"]["b"] == {"seconds": 1.0, "tokens": 12}
    assert data["conditions"]["command"] == "python -m benchmarks turns"
    assert data["conditions"]["machine"]["torch"]


def test_a_stopped_run_goes_on_with_whole_rounds(tmp_path):
    first = Turns(stop_at=3)  # in the middle of the second case's first round
    with pytest.raises(KeyboardInterrupt):
        first.run(tmp_path)
    second = Turns()
    second.run(tmp_path)
    assert second.calls == ["a0", "b0", *["a1", "b1"] * 2, *["a2", "b2"] * 2]
    assert any("going on: 1 of 6" in line for line in second.said)


def test_what_is_complete_is_not_measured_twice_unless_asked(tmp_path):
    text = Turns().run(tmp_path)
    second = Turns()
    assert second.run(tmp_path) == text
    assert second.calls == []
    second.run(tmp_path, again=True)
    assert len(second.calls) == 12


@pytest.mark.parametrize("changed", ["code", "machine", "options"])
def test_rounds_under_other_conditions_are_not_mixed(tmp_path, monkeypatch, changed):
    Turns().run(tmp_path)
    second, options = Turns(), Options()
    if changed == "code":
        monkeypatch.setattr(harness, "code_digest", lambda: "another")
    elif changed == "machine":
        monkeypatch.setattr(harness, "describe_machine", lambda: harness_machine("other"))
    else:
        options = Options(loss=1.5)
    second.run(tmp_path, options)
    assert len(second.calls) == 12
    assert any("measuring anew" in line for line in second.said)


def harness_machine(processor: str) -> dict:
    keys = ("cores", "bfloat16", "system", "python", "torch")
    return {"processor": processor, **dict.fromkeys(keys, "1")}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"rounds": []}'])
def test_a_file_that_holds_no_results_is_named(tmp_path, content):
    (tmp_path / "turns.json").write_text(content, encoding="utf-8")
    with pytest.raises(CourseError, match=r"turns\.json cannot be used.*--again"):
        Store(tmp_path / "turns.json", {})
    assert Store(tmp_path / "turns.json", {}, again=True).found == 0


def test_toy_sizes_are_marked(tmp_path):
    assert harness.TOY in Turns().run(tmp_path, Options(quick_check=True))
    assert harness.TOY not in Turns().run(tmp_path / "whole")


def test_options_as_they_are_typed():
    assert Options().as_arguments() == ""
    options = Options(seeds=1, threads=2, peak_tflops=989.0, quick_check=True)
    assert options.as_arguments() == "--seeds 1 --threads 2 --peak-tflops 989.0 --quick-check"


def test_repeat_counts_what_it_measures():
    calls, waits = [], []
    measured = repeat(
        lambda: calls.append(1),
        tokens=5,
        seconds=0,
        at_least=4,
        warm_up=3,
        wait=lambda: waits.append(len(calls)),
    )
    assert len(calls) == 3 + 4
    assert (measured["steps"], measured["tokens"]) == (4, 20)
    assert measured["seconds"] > 0
    assert waits == [3, 7]  # before the clock starts and before it stops
