"""Pins what editions.py relies on in nbval, so that a new version fails here, with a reason."""

from __future__ import annotations

import inspect
from importlib.metadata import version

import nbval.kernel
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbval.plugin import IPyNbCell, IPyNbFile

from tests.notebooks.editions import Edition, LessonKernel, Notebook
from tools.normalise import notebook_text


@pytest.fixture
def edition(request: pytest.FixtureRequest, tmp_path) -> Edition:
    """An edition of a notebook with one cell; its kernel is not started."""
    stored = [new_output("stream", name="stdout", text="same\n")]
    cell = new_code_cell("print('same')", id="only", execution_count=1, outputs=stored)
    path = tmp_path / "98_small.ipynb"
    path.write_text(notebook_text(new_notebook(cells=[cell])), encoding="utf-8")
    notebook = Notebook.from_parent(request.session, path=path)
    return next(notebook.collect())


def test_the_version_that_was_tried() -> None:
    assert version("nbval").startswith("0.11."), "look through editions.py, then change this line"


def test_parameters_that_are_passed() -> None:
    wanted = ["self", "name", "parent", "cell_num", "cell", "options"]
    assert list(inspect.signature(IPyNbCell.__init__).parameters) == wanted
    kernel = inspect.signature(nbval.kernel.RunningKernel.__init__).parameters
    assert list(kernel) == ["self", "kernel_name", "cwd", "startup_timeout"]
    message = inspect.signature(nbval.kernel.RunningKernel.get_message).parameters
    assert list(message) == list(inspect.signature(LessonKernel.get_message).parameters)
    assert nbval.kernel.CURRENT_ENV_KERNEL_NAME == ":nbval-parent-env"


def test_methods_that_are_called_or_replaced() -> None:
    for name in ("collect", "setup", "teardown"):
        assert name in vars(IPyNbFile)
    assert "del self.km" in inspect.getsource(nbval.kernel.RunningKernel.stop)
    for name in ("runtest", "compare_outputs", "raise_cell_error", "reportinfo"):
        assert name in vars(IPyNbCell)
    source = inspect.getsource(IPyNbCell.runtest)
    for used in ("config.option.nbval_cell_timeout", "output_timeout", "self.cell.source"):
        assert used in source
    assert "self.test_outputs" in source
    assert "self.cell.execution_count is None" in source  # skips what was not executed


def test_a_cell_has_two_minutes(request: pytest.FixtureRequest) -> None:
    assert request.config.option.nbval_cell_timeout == 120


def test_cells_carry_what_is_read(edition: Edition) -> None:
    (item,) = IPyNbFile.collect(edition)
    assert isinstance(item, IPyNbCell)
    assert (item.cell.id, item.cell_num, item.options["check"]) == ("only", 0, True)
    cell, seconds = edition.collect()
    assert cell.nodeid.endswith("98_small.ipynb::learner::only")
    assert seconds.nodeid.endswith("98_small.ipynb::learner::processor-seconds")


@pytest.mark.parametrize(
    ("output", "same"),
    [
        (new_output("stream", name="stdout", text="same\n"), True),
        (new_output("stream", name="stdout", text="other\n"), False),
        (new_output("display_data", data={"text/plain": "same"}), False),
    ],
)
def test_text_is_compared(edition: Edition, output, same: bool) -> None:
    cell = next(edition.collect())
    assert cell.compare_outputs([output], cell.cell.outputs) is same


def test_standard_error_pictures_and_widget_views_are_not_compared(edition: Edition) -> None:
    cell = next(edition.collect())
    view = "application/vnd.jupyter.widget-view+json"
    picture = new_output("display_data", data={"image/png": "AAAA", view: {"model_id": "1"}})
    more = [new_output("stream", name="stderr", text="7 it/s"), picture, *cell.cell.outputs]
    assert cell.compare_outputs(more, cell.cell.outputs)
