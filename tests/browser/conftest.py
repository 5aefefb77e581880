"""One JupyterLab and one page of it for all; each test begins with no notebook open.

A page is loaded once, for that takes longer than most of what is done in it. After a test that
failed, or that ended the kernel of its widgets, it is given up, and the next one gets a new page.
"""

from __future__ import annotations

import shutil

import nbformat
import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install -e .[test]")

from course_lib.runtime import PROJECT_FOLDER
from tools import laboratory
from tools.lab_server import Server

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items):
    """Every test of this folder needs the browser, and is left out where there is none."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
            if laboratory.CHROMIUM is None:
                item.add_marker(
                    pytest.mark.skip(reason="no Chromium: install the package chromium")
                )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A JupyterLab of the test's own."""
    server = Server(tmp_path_factory.mktemp("lab") / "home")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window."""
    with laboratory.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def pages(browser, server):
    """The page in use, while nothing has gone wrong in it."""
    return []


@pytest.fixture
def lab(request, server, browser, pages):
    """A page of JupyterLab; afterwards nothing has left this machine and nothing went wrong."""
    if not pages:
        pages.append(laboratory.Lab(browser.new_page(viewport=laboratory.LAPTOP), server))
    lab = pages.pop()
    lab.errors.clear()  # of how the last test was left
    lab.foreign.clear()
    shutil.rmtree(server.home / "course", ignore_errors=True)  # no progress, no answers
    yield lab
    failed = request.node.stash.get(FAILED, False)
    if failed:
        lab.page.screenshot(path=request.getfixturevalue("tmp_path") / "page.png")
    foreign, errors = lab.foreign.copy(), lab.errors.copy()
    lab.leave()
    # who misses a widget's model may only find out later, and say so in the next test
    if failed or foreign or errors or lab.models_are_lost:
        lab.page.close()
    else:
        pages.append(lab)
    assert foreign == [], "a request left this machine"
    assert errors == [], "an error in the browser's console"


@pytest.fixture
def notebook(server):
    """Writes a notebook of these cells into the server's folder; gives its name."""

    def write(*sources: str, name: str = "test.ipynb") -> str:
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
        nbformat.write(made, server.folder / name)
        return name

    return write


@pytest.fixture
def lesson(lab):
    """Opens a learner's copy of a lesson, named by its number; gives the file."""

    def opened(number: str):
        (built,) = (PROJECT_FOLDER / "notebooks").glob(f"{number}_*.ipynb")
        copy = shutil.copy(built, lab.server.folder / built.name)
        lab.open(built.name)
        return copy

    return opened
