"""A broken notebook is named with its line."""

from __future__ import annotations

import json

import pytest

from launcher.health import fault


def notebook(*ids: str) -> str:
    cells = [{"cell_type": "markdown", "id": name, "metadata": {}, "source": []} for name in ids]
    return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


GOOD = notebook("one", "two")
LINES = GOOD.splitlines(keepends=True)
CONFLICT = "".join(LINES[:6]) + "<<<<<<< HEAD\n 1\n=======\n 2\n>>>>>>> main\n" + "".join(LINES[6:])


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "\ufeff" + GOOD,
        json.dumps(json.loads(GOOD)),
        notebook(),
        notebook('say "hi" <<<<<<< HEAD', "======="),
    ],
)
def test_a_good_notebook_has_no_fault(text):
    assert fault(text.encode()) is None


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (CONFLICT, 7, "conflict marker of git's (<<<<<<<)"),
        (CONFLICT.replace("\n", "\r\n"), 7, "conflict marker"),
        (GOOD[: GOOD.index('"two"') + 3], 11, "ends in the middle"),
        (GOOD[: GOOD.index('"id": "two"')], 10, "ends in the middle"),
        ("".join(LINES[:-1]), len(LINES) - 1, "ends in the middle"),
        ("", 1, "empty"),
        ("\n\n", 1, "empty"),
        (GOOD.replace('"one",', '"one"'), 6, "not JSON"),
        (GOOD.encode().replace(b"two", b"t\xe9o"), 11, "byte 0xE9 is not UTF-8"),
        (GOOD.encode("utf-16"), 1, "byte 0xFF is not UTF-8"),
        (notebook("one", "two", "one"), 17, "two cells have the id 'one'"),
        (json.dumps(json.loads(notebook("a", "a"))), 1, "two cells have the id 'a'"),
        ("[]", 1, "not a notebook"),
        ("{}", 1, "not a notebook"),
        ('{"cells": 3}', 1, "not a notebook"),
        ("[" * 100_000, 1, "nested"),
    ],
)
def test_a_fault_is_named_with_its_line(data, line, words):
    found = fault(data if isinstance(data, bytes) else data.encode())
    assert found is not None
    assert found.startswith(f"line {line}: ") and words in found
