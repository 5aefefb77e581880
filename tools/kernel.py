"""A fresh kernel, the same for the builder and for both editions under test.

Each runs in a scratch folder of its own, with one thread, without the user's start-up files and
progress, on the interpreter that runs this code, whatever kernels are installed.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ipykernel.kernelspec
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.lesson_source import PROJECT_FOLDER

CELL_SECONDS = 120
# Processor time of the kernel and of the processes it has waited for: unlike the clock, it does not
# grow while another program has the processor.
CPU_SECONDS = "sum(__import__('os').times()[:4])"


class CellFailed(Exception):
    """A cell that raised, took too long, or took the kernel down; `index` says which."""

    def __init__(self, index: int, reason: str) -> None:
        self.index = index
        super().__init__(reason)


class _ThisPython(KernelSpecManager):
    """Knows one kernel: the interpreter that runs this code."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The kernel spec of the running interpreter, whatever the name."""
        resources = ipykernel.kernelspec.RESOURCES
        return KernelSpec(resource_dir=resources, **ipykernel.kernelspec.get_kernel_dict())


def lesson_environment(edition: str, scratch: Path) -> dict[str, str]:
    """The variables of a kernel that runs a lesson, with its folders below `scratch`."""
    search_path = [str(PROJECT_FOLDER), os.environ.get("PYTHONPATH", "")]
    return {
        "COURSE_EDITION": edition,
        "COURSE_HOME": str(scratch / "home"),
        "COURSE_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONPATH": os.pathsep.join(filter(None, search_path)),
        "IPYTHONDIR": str(scratch / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else the debugger writes a warning
    }


@contextmanager
def starting(edition: str, scratch: Path) -> Iterator[Path]:
    """Set the variables while a kernel starts, and give its working folder."""
    wanted = lesson_environment(edition, scratch)
    before = {name: os.environ.get(name) for name in wanted}
    for folder in ("home", "here"):
        (scratch / folder).mkdir(parents=True, exist_ok=True)
    os.environ.update(wanted)
    try:
        yield scratch / "here"
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def execute(notebook: NotebookNode, edition: str = "learner") -> float:
    """Run a notebook in place, in a fresh kernel; the processor seconds that it took.

    Raises CellFailed for a cell that raises (unless it is tagged raises-exception), that takes
    more than CELL_SECONDS, or whose kernel dies.
    """
    started = [0]
    notebook.cells.append(new_code_cell(CPU_SECONDS))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        client = NotebookClient(
            notebook,
            km=AsyncKernelManager(kernel_spec_manager=_ThisPython()),
            timeout=CELL_SECONDS,
            shutdown_kernel="immediate",
            record_timing=False,
            store_widget_state=False,
            on_cell_start=lambda cell_index, **_: started.append(cell_index),
        )
        try:
            with starting(edition, Path(scratch)) as here:
                client.execute(cwd=str(here), cleanup_kc=True, stderr=subprocess.DEVNULL)
        except CellExecutionError as error:
            raise CellFailed(
                started[-1], f"raised {error.ename}: {error.evalue}\n{error}"
            ) from None
        except CellTimeoutError:
            raise CellFailed(started[-1], f"took more than {CELL_SECONDS} seconds") from None
        except DeadKernelError as error:
            raise CellFailed(started[-1], f"ended the kernel: {error}") from None
    measured = notebook.cells.pop()
    return float(measured.outputs[0].data["text/plain"])
