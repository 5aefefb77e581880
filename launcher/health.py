"""What makes a notebook unreadable, and on which line.

Conflict markers that git left, a file that ends in the middle, two cells with one id: Jupyter's own
messages for these name neither the line nor the remedy.
"""

import json
import re
from collections import Counter

MARKER = re.compile(r"^(<{7}|\|{7}|={7}|>{7})(?= |\r?$)", re.MULTILINE)


def fault(data: bytes) -> str | None:
    """What is wrong with the notebook in `data`, as "line N: ..."; None when nothing is."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"line {line}: byte 0x{data[error.start]:02X} is not UTF-8 text"
    try:
        notebook = json.loads(text)
    except json.JSONDecodeError as error:
        return broken_json(text, error)
    except RecursionError:
        return "line 1: brackets are nested too deeply for a notebook"
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        return "line 1: this is not a notebook (it has no list of cells)"
    return duplicate_id(text, [cell.get("id") for cell in cells if isinstance(cell, dict)])


def broken_json(text: str, error: json.JSONDecodeError) -> str:
    """Why `text` is no JSON: git's marks, a missing end, or something else."""
    if found := MARKER.search(text):
        return f"line {line_at(text, found.start())}: a conflict marker of git's ({found[1]})"
    if not text.strip():
        return "line 1: the file is empty"
    cut = error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip())
    if cut:
        return f"line {line_at(text, len(text.rstrip()))}: the file ends in the middle"
    return f"line {error.lineno}: not JSON ({error.msg})"


def duplicate_id(text: str, ids: list) -> str | None:
    """The first id that two cells share, with the line of its second appearance."""
    names = [name for name in ids if isinstance(name, str)]
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is None:
        return None
    pattern = r'"id"\s*:\s*' + re.escape(json.dumps(twice))
    places = [found.start() for found in re.finditer(pattern, text)]
    line = line_at(text, places[1]) if len(places) > 1 else 1
    return f"line {line}: two cells have the id {twice!r}"


def line_at(text: str, position: int) -> int:
    """The number of the line, from 1, at this position of `text`."""
    return text.count("\n", 0, position) + 1
