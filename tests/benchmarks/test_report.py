"""Medians, spreads and the table that shows them."""

import pytest

from benchmarks import report
from benchmarks.report import Row, number, provenance, ratio_table, with_spread


def row(**values) -> Row:
    defaults = {
        "what": "a case",
        "baseline": "slow",
        "baseline_values": [10.0, 30.0, 20.0],
        "contender": "fast",
        "values": [50.0, 60.0, 90.0],
    }
    return Row(**{**defaults, **values})


def test_ratio_is_of_the_medians_and_its_spread_of_the_rounds():
    assert row().ratio == 60 / 20
    assert row().ratio_spread == (60 / 30, 50 / 10)


def test_less_time_is_faster():
    timed = row(unit="s")
    assert timed.ratio == 20 / 60
    assert timed.ratio_spread == (10 / 50, 30 / 60)


def test_rounds_must_match():
    with pytest.raises(ValueError, match="shorter"):
        _ = row(values=[1.0, 2.0]).ratio_spread


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.5, "1,234"), (99.96, "100"), (78.94, "78.9"), (4.0, "4.00"), (0.01234, "0.0123")],
)
def test_three_digits(value: float, text: str):
    assert number(value) == text


def test_median_with_its_spread():
    assert with_spread([3.0, 1.0, 2.0]) == "2.00 (1.00–3.00)"


def test_table_says_everything_once():
    table = ratio_table([row(must=2.5, aim=10, note="a note"), row(unit="s", counts=False)])
    head, rule, first, second = table.splitlines()
    assert head.count("|") == rule.count("|") == first.count("|") == second.count("|")
    assert first == (
        "| a case | slow: 20.0 (10.0–30.0) tokens/s | fast: 60.0 (50.0–90.0) tokens/s "
        "| **3.00** (2.00–5.00) | 2.5 | 10 | a note |"
    )
    assert "| none |" in second  # what was not reached has no ratio


def test_goals_follow_the_processor(monkeypatch):
    monkeypatch.setattr(report, "gains_by_bfloat16", lambda: False)
    assert report.must_with_bfloat16(1.6, without=1.1) == 1.1
    monkeypatch.setattr(report, "gains_by_bfloat16", lambda: True)
    assert report.must_with_bfloat16(1.6, without=1.1) == 1.6


def test_provenance_names_machine_date_and_command():
    machine = {
        "processor": "Abacus 9",
        "cores": 3,
        "bfloat16": "none known",
        "system": "Linux",
        "python": "3.13.0",
        "torch": "2.13.0",
    }
    conditions = {"machine": machine, "command": "python -m benchmarks x", "code": "abc"}
    text = provenance(conditions, "2026-11-30", 3, "x.json")
    for part in ("Abacus 9", "cores: 3", "torch 2.13.0", "2026-11-30", "`python -m benchmarks x`"):
        assert part in text
    assert "GPU" not in text
    gpu = {**conditions, "machine": {**machine, "gpu": "Loom 2"}}
    assert "GPU: Loom 2" in provenance(gpu, "2026-11-30", 3, "x.json")
