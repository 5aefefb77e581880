"""Which code and which processor a number belongs to."""

import pytest

from benchmarks import machine


@pytest.fixture
def code(tmp_path):
    for part in (*machine.MEASURED, "course_lib/plots"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "module.py").write_bytes(b"a = 1\n")
    for name in ("generation", "runtime"):
        (tmp_path / "course_lib" / f"{name}.py").write_bytes(b"")
    return tmp_path


def test_the_digest_follows_what_is_measured_alone(code):
    before = machine.code_digest(code)
    (code / "course_lib" / "plots" / "module.py").write_bytes(b"a = 2\n")
    (code / "benchmarks" / "lesson_tables").mkdir()
    (code / "benchmarks" / "lesson_tables" / "recall.py").write_bytes(b"a = 2\n")
    assert machine.code_digest(code) == before
    (code / "course_lib" / "training" / "module.py").write_bytes(b"a = 2\n")
    assert machine.code_digest(code) != before


def test_the_digest_is_the_same_with_the_line_ends_of_windows(code):
    before = machine.code_digest(code)
    (code / "benchmarks" / "module.py").write_bytes(b"a = 1\r\n")
    assert machine.code_digest(code) == before


LINUX = ["model name\t: Abacus 9", "flags\t\t: fpu amx_bf16 avx512_bf16 sse"]


def test_processor_and_its_bfloat16_are_read(monkeypatch):
    monkeypatch.setattr(machine, "_processor_lines", lambda: LINUX)
    assert machine.processor_name() == "Abacus 9"
    assert machine.bfloat16_instructions() == ["amx_bf16", "avx512_bf16"]


@pytest.mark.parametrize(
    ("flags", "gains"),
    [("avx512_bf16", False), ("avx512_bf16 amx_bf16", True), ("bf16", True), ("sse", False)],
)
def test_which_instructions_make_bfloat16_faster(monkeypatch, flags, gains):
    monkeypatch.setattr(machine, "_processor_lines", lambda: [f"flags\t\t: fpu {flags}"])
    assert machine.gains_by_bfloat16() == gains


def test_a_processor_that_tells_nothing_has_a_name_all_the_same(monkeypatch):
    monkeypatch.setattr(machine, "_processor_lines", list)
    assert machine.processor_name()
    assert machine.bfloat16_instructions() == []


def test_the_description_can_be_stored():
    described = machine.describe_machine()
    assert all(isinstance(value, str | int) for value in described.values())
    assert described["cores"] >= 1
