"""Tables that lessons show: found, complete, and a clear word where one is missing or damaged."""

from __future__ import annotations

import importlib.util
import math

import pytest

from course_lib.data import tables
from course_lib.data.tables import load_table, table_path
from course_lib.runtime import CourseError

SHIPPED = sorted(path.stem for path in table_path("any").parent.glob("*.json"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_table_says_where_it_comes_from(name):
    table = load_table(name)
    assert table["command"] == f"python -m benchmarks.lesson_tables.{name}"
    assert importlib.util.find_spec(f"benchmarks.lesson_tables.{name}") is not None
    assert {"date", "machine", "seeds"} <= set(table)
    numbers = list(_numbers({k: v for k, v in table.items() if k not in ("machine", "seeds")}))
    assert len(numbers) > len(table["seeds"]) >= 2
    assert all(math.isfinite(number) for number in numbers)


def _numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "DATA_FOLDER", tmp_path)
    (tmp_path / "tables").mkdir()
    return tmp_path / "tables"


def test_a_missing_table_is_named_with_those_there_are_and_the_remedy(folder):
    (folder / "there.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CourseError, match=r"'scale' \(there are: there\).*lesson_tables\.scale"):
        load_table("scale")


@pytest.mark.parametrize("content", ["", "{", "[1, 2]", '"text"'])
def test_a_damaged_table_is_refused_with_a_remedy(folder, content):
    (folder / "scale.json").write_text(content, encoding="utf-8")
    with pytest.raises(CourseError, match=r"git checkout data/tables/scale\.json"):
        load_table("scale")


def test_a_table_is_written_with_its_origin_and_read_again(folder):
    from benchmarks.lesson_tables import write_table

    write_table("scale", seeds=[0, 1], losses={"√d_k": [2.5, 2.4]})
    table = load_table("scale")
    assert table["losses"] == {"√d_k": [2.5, 2.4]}
    assert table["command"] == "python -m benchmarks.lesson_tables.scale"
    assert table["machine"]["torch"]
