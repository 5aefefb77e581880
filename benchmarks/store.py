"""The JSON beside each table: every raw number, written after each round, so that a run that was
stopped goes on where it was. Rounds are whole: what took turns stays together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from course_lib.runtime import CourseError, replace_file

Measurement = dict[str, Any]  # numbers by name, e.g. {"steps": 200, "seconds": 9.1}


class Store:
    """The rounds of one comparison, on disk.

    conditions: machine, code and settings. Rounds measured under others are not gone on with.
    """

    def __init__(self, path: Path, conditions: Mapping[str, Any], *, again: bool = False) -> None:
        self.path = path
        self.data = {"conditions": dict(conditions), "date": "", "rounds": []}
        self.found = 0  # rounds that an earlier run left
        self.replaces = False  # whether an earlier run left results of other conditions
        if not again and path.exists():
            earlier = _read(path)
            self.replaces = earlier["conditions"] != json.loads(json.dumps(conditions))
            if not self.replaces:
                self.data, self.found = earlier, len(earlier["rounds"])

    @property
    def date(self) -> str:
        """The day of the last round, as in 2026-11-30."""
        return self.data["date"]

    def has(self, case: str, number: int) -> bool:
        """Whether this round of this case is measured already."""
        return any((r["case"], r["round"]) == (case, number) for r in self.data["rounds"])

    def add(self, case: str, number: int, measured: dict[str, Measurement], **about: Any) -> None:
        """Keep a round: what each contestant measured. On disk when this returns."""
        entry = {"case": case, "round": number, **about, "measured": measured}
        self.data["rounds"].append(entry)
        self.data["date"] = date.today().isoformat()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.data, ensure_ascii=False, indent=1) + "\n"
        replace_file(self.path, text.encode("utf-8"))

    def results(self) -> Results:
        """What was measured: by case, then by contestant, one measurement a round."""
        return Results(self.data["rounds"])


class Results:
    """Measurements by case and contestant, in the order of the rounds."""

    def __init__(self, rounds: list[dict[str, Any]]) -> None:
        self.rounds = sorted(rounds, key=lambda entry: entry["round"])

    def of(self, case: str, contestant: str) -> list[Measurement]:
        """One measurement a round."""
        return [r["measured"][contestant] for r in self.rounds if r["case"] == case]

    def rates(self, case: str, contestant: str) -> list[float]:
        """Tokens in a second, one number a round."""
        return [m["tokens"] / max(m["seconds"], 1e-9) for m in self.of(case, contestant)]

    def values(self, case: str, contestant: str, name: str) -> list[float]:
        """One of the measured numbers, a round after the other."""
        return [m[name] for m in self.of(case, contestant)]


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict):
            raise ValueError("it holds no results")
        if missing := {"conditions", "date", "rounds"} - data.keys():
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    except (OSError, ValueError) as error:
        raise CourseError(
            f"{path} cannot be used: {error}; move it away, or measure anew with --again"
        ) from None
    return data
