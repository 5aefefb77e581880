"""Both editions of each notebook under nbval: all that hooks into nbval's classes is in this file.

The learner's edition is the notebook as it lies in notebooks/, its exercises unsolved. In the
solved one each exercise cell's source is replaced by its solution when the cells are collected;
there is no second copy. All other cells give the stored outputs in both. Node ids read
notebooks/02_self_attention.ipynb::solved::cell-name. test_nbval.py pins what is relied on here.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import pytest
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile

from tools.budgets import SLACK, read_budgets
from tools.kernel import CELL_SECONDS, CPU_SECONDS, starting
from tools.lesson_source import LessonError

EDITIONS = ("learner", "solved")
NOT_ATTEMPTED = "not attempted"


def pytest_configure(config: pytest.Config) -> None:
    """Give a cell the same time as the builder does; nbval's own limit is 2000 seconds."""
    config.option.nbval_cell_timeout = CELL_SECONDS


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the notebooks of the course, and no learner's copy of them."""
    if file_path.suffix == ".ipynb" and file_path.parent == parent.config.rootpath / "notebooks":
        return Notebook.from_parent(parent, path=file_path)
    return None


class LessonKernel(RunningKernel):
    """nbval's kernel, whose end is noticed at once and not when the time limit is over."""

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        """The next message; raises queue.Empty after `timeout` seconds without one."""
        end = time.monotonic() + (CELL_SECONDS if timeout is None else timeout)
        while True:
            try:
                return super().get_message(stream, timeout=1)
            except Empty:
                if not self.is_alive():
                    raise RuntimeError("the kernel has ended") from None
                if time.monotonic() >= end:
                    raise


class Notebook(pytest.File):
    """A notebook file: two editions."""

    def collect(self) -> Iterator[Edition]:
        """The learner's edition and the solved one."""
        for name in EDITIONS:
            nodeid = f"{self.nodeid}::{name}"
            yield Edition.from_parent(self, path=self.path, name=name, nodeid=nodeid)


class Edition(IPyNbFile):
    """One edition of a notebook, in a kernel of its own."""

    def __init__(self, **arguments) -> None:
        super().__init__(**arguments)
        # Progress bars and warnings go to standard error, with timings and paths.
        self.skip_compare = (*self.skip_compare, "stderr")
        self.scratch: tempfile.TemporaryDirectory | None = None

    def collect(self) -> Iterator[pytest.Item]:
        """The code cells by name, and last the processor seconds of them all."""
        for item in super().collect():
            cell, name = item.cell, item.cell.get("id", item.name)
            if self.name == "solved" and "exercise" in cell.metadata.get("tags", ()):
                cell.source = solution(cell.metadata.course.exercise)
            yield EditionCell.from_parent(
                self, name=name, cell_num=item.cell_num, cell=cell, options=item.options
            )
        yield ProcessorSeconds.from_parent(self, name="processor-seconds")

    def setup(self) -> None:
        """Start the kernel of this interpreter, in a scratch folder, told its edition."""
        self.scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with starting(self.name, Path(self.scratch.name)) as here:
            self.kernel = LessonKernel(
                CURRENT_ENV_KERNEL_NAME, cwd=str(here), startup_timeout=CELL_SECONDS
            )

    def teardown(self) -> None:
        """Stop the kernel and remove its folder."""
        if hasattr(self.kernel, "km"):  # nbval deletes it when it has stopped a kernel itself
            self.kernel.stop()
        if self.scratch is not None:
            self.scratch.cleanup()


def solution(exercise: str) -> str:
    """The source that takes an exercise cell's place."""
    from course_lib.exercises import solution_source

    return solution_source(exercise)


class EditionCell(IPyNbCell):
    """A code cell: run, and compared with its stored output."""

    def __init__(self, **arguments) -> None:
        super().__init__(**arguments)
        self.output_timeout = 60  # after the cell has ended; 5 s are too few on a busy machine

    def runtest(self) -> None:
        """Run the cell; in the learner's edition its check must see that nothing was tried."""
        if self.cell.execution_count is None:  # nbval would pass it for no reason
            self.raise_cell_error(
                "The notebook was not executed; build it: python -m tools.build_notebooks"
            )
        super().runtest()
        if self.parent.name == "learner" and "check" in self.cell.metadata.get("tags", ()):
            shown = "".join(str(output) for output in self.test_outputs)
            if NOT_ATTEMPTED not in shown.lower():
                self.raise_cell_error(f"An unsolved exercise's check must say: {NOT_ATTEMPTED}")

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place that a report gives."""
        return self.path, 0, f"{self.parent.name} edition, cell {self.name}"


class ProcessorSeconds(pytest.Item):
    """The processor time of an edition's kernel, against SLACK times the lesson's budget."""

    def runtest(self) -> None:
        """Ask the kernel how long it has worked."""
        number, kernel = self.path.name[:2], self.parent.kernel
        budget = read_budgets(self.config.rootpath).get(number)
        if budget is None:
            raise LessonError(f"lesson {number} has no budget in lessons/budgets.toml; add it")
        if not kernel.is_alive():
            pytest.fail("the kernel has ended; see the cells before")
        message = kernel.kc.execute("", user_expressions={"seconds": CPU_SECONDS})
        reply = kernel.kc.get_shell_msg(timeout=CELL_SECONDS)
        while reply["parent_header"].get("msg_id") != message:
            reply = kernel.kc.get_shell_msg(timeout=CELL_SECONDS)
        seconds = float(reply["content"]["user_expressions"]["seconds"]["data"]["text/plain"])
        self.user_properties.append(("processor seconds", seconds))
        assert seconds <= SLACK * budget, (
            f"{seconds:.0f} processor seconds, {SLACK} times the budget of {budget} "
            "(lessons/budgets.toml); make its experiments smaller"
        )

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place that a report gives."""
        return self.path, 0, f"{self.parent.name} edition, processor seconds"
