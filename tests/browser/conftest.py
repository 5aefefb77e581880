"""One JupyterLab and one browser for all; a fresh page, and notebooks of its own, for each test."""

from __future__ import annotations

import nbformat
import pytest

pytest.importorskip("playwright", reason="playwright is not installed: pip install -e .[test]")

from tests.browser import lab as laboratory

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}


def pytest_collection_modifyitems(items):
    """Every test of this folder needs the browser, and is left out where there is none."""
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
            if laboratory.CHROMIUM is None:
                item.add_marker(
                    pytest.mark.skip(reason="no Chromium: install the package chromium")
                )


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A JupyterLab of the test's own."""
    server = laboratory.Server(tmp_path_factory.mktemp("lab"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser():
    """Chromium without a window."""
    with laboratory.chromium() as browser:
        yield browser


@pytest.fixture
def lab(server, browser):
    """A page of JupyterLab; afterwards nothing has left this machine and nothing went wrong."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    lab = laboratory.Lab(page, server)
    yield lab
    lab.shut_down_kernels()
    page.close()
    assert lab.foreign == [], "a request left this machine"
    assert lab.errors == [], "an error in the browser's console"


@pytest.fixture
def notebook(server):
    """Writes a notebook of these cells into the server's folder; gives its name."""

    def write(*sources: str, name: str = "test.ipynb") -> str:
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        made = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
        nbformat.write(made, server.folder / name)
        return name

    return write
