"""The engine in a real kernel: cards, source from cells, the history, a time-out."""

import json
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

FIXTURES = Path(__file__).parent / "fixture_lessons"
SETUP = f"""
import torch
import course_lib.exercises as package
package.__path__.append({str(FIXTURES)!r})
from course_lib.exercises import check, hint, mine, progress, quiz
"""
MODULE = """
class Projection(torch.nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.linear = torch.nn.Linear(d_in, d_out, bias=False)

    def forward(self, x):
        return self.linear(x)
"""
WEIGHTS = """import os
def row_weights(scores, scale):
    return torch.softmax(scores * scale, dim=-1)
"""
CELLS = {
    "setup": SETUP,
    "stub": "answer = None",
    "check stub": 'answer = check("98.count", answer)',
    "check again": 'answer = check("98.count", answer)',
    "own": "answer = 35",
    "check own": 'answer = check("98.count", answer)',
    "error": "def row_weights(scores, scale):\n    x = 1\n    return scores / nothing",
    "check error": 'row_weights = check("98.weights", row_weights)',
    "loop": "def row_weights(scores, scale):\n    while True:\n        print('on and on')",
    "short": "from course_lib.exercises.registry import find\n"
    "object.__setattr__(find('98.weights'), 'seconds', 0.5)",
    "check loop": 'row_weights = check("98.weights", row_weights)',
    "class": MODULE,
    "check class": 'Projection = check("98.projection", Projection)',
    "mine": 'mine("98.projection")',
    "timed": "%%time\n" + WEIGHTS,
    "check timed": 'check("98.weights", row_weights)',
    "opens": WEIGHTS.replace("return", "open(os.devnull).close(); return"),
    "check opens": 'check("98.weights", row_weights);',
    "quiz": 'quiz("98")',
    "progress": "progress()",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """The outputs of each cell of one run."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_HOME", str(folder / "home"))
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        patch.delenv("COURSE_EDITION", raising=False)
        notebook = new_notebook(cells=[new_code_cell(source) for source in CELLS.values()])
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": folder}}).execute()
    by_name = {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}
    return by_name | {"home": folder / "home"}


def card(outputs, name):
    (output,) = outputs[name]
    assert output.output_type == "display_data"
    assert set(output.data) == {"text/html", "text/plain"}
    return output.data["text/plain"]


def test_a_card_is_html_and_plain_text(outputs):
    assert card(outputs, "check stub").startswith(
        "○ Not attempted yet: How many weights? (98.count)"
    )
    assert outputs["check stub"][0].data["text/html"].startswith('<div class="course-card ')


def test_the_check_cell_run_twice_does_not_pass_with_the_course_s_value(outputs):
    assert "handed back" in card(outputs, "check again")
    assert card(outputs, "check own").startswith("✓ Passed")


def test_an_error_is_shown_at_its_line_of_the_cell(outputs):
    text = card(outputs, "check error")
    assert "line 3 of the cell, in `row_weights`" in text
    assert "    return scores / nothing" in text


def test_a_loop_that_prints_is_a_time_out_and_prints_nothing_into_the_notebook(outputs):
    text = card(outputs, "check loop")
    assert "Time-out" in text and "It was stopped" in text and len(text) < 3_000


def test_a_class_of_a_cell_is_kept_and_comes_back(outputs):
    assert "Kept for later lessons" in card(outputs, "check class")
    told = "".join(output.text for output in outputs["mine"] if output.output_type == "stream")
    assert told.startswith("98.projection: your own, from ")
    assert (outputs["home"] / "answers" / "lesson_98.py").read_text("utf-8").count(MODULE) == 1


def test_a_timed_cell_passes_and_says_how_it_could_be_kept(outputs):
    text = outputs["check timed"][0].data["text/plain"]
    assert text.startswith("✓ Passed") and "take the line with `%%` out" in text


def test_a_function_that_opens_a_file_is_kept(outputs):
    """IPython puts its own `open` among the notebook's names."""
    assert "Kept for later lessons" in card(outputs, "check opens")


def test_a_quiz_is_html_for_the_page_and_widgets_for_the_kernel(outputs):
    page, live = outputs["quiz"]
    assert set(page.data) == {"text/html", "text/plain"}
    assert page.data["text/html"].count("<details>") == 2
    assert "application/vnd.jupyter.widget-view+json" in live.data
    assert live.data["text/plain"] == "Run this cell to answer the quiz here."


def test_progress_is_a_board(outputs):
    (output,) = outputs["progress"]
    assert (
        "course-board" in output.data["text/html"]
        and "How many weights?" in output.data["text/plain"]
    )
    kept = json.loads((outputs["home"] / "progress.json").read_text("utf-8"))["exercises"]
    assert (kept["98.count"]["attempts"], kept["98.count"]["passes"]) == (1, 1)
