"""What every explorer shares: its still picture, and a front end that needs no network."""

import re
import shutil
import subprocess

import matplotlib.pyplot as plt
import pytest

from course_lib.explorers import frame
from course_lib.runtime import PROJECT_FOLDER

NODE = shutil.which("node")


class Shown(frame.Explorer):
    _esm = "export default { render() {} };"

    def still(self):
        return plt.figure(figsize=(1, 1))

    def still_text(self):
        return "a square"


@pytest.fixture
def displayed(monkeypatch):
    bundles = []
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: bundles.append(bundle))
    return bundles


@pytest.mark.parametrize("edition", ["learner", "solved"])
def test_an_edition_keeps_the_still_alone(displayed, monkeypatch, edition):
    monkeypatch.setenv("COURSE_EDITION", edition)
    monkeypatch.setattr(frame, "in_notebook", lambda: True)
    plt.close("all")  # another test may have left some
    Shown()._ipython_display_()
    (still,) = displayed
    assert still["image/png"].startswith(b"\x89PNG") and still["text/plain"] == "a square"
    assert plt.get_fignums() == [], "pyplot would show it once more"


def test_a_live_notebook_has_the_still_and_then_the_widget(displayed, monkeypatch):
    monkeypatch.delenv("COURSE_EDITION", raising=False)
    monkeypatch.setattr(frame, "in_notebook", lambda: True)
    Shown()._ipython_display_()
    style, still, live = displayed
    assert frame.MARK in style["text/html"] and "image/png" in still
    assert "application/vnd.jupyter.widget-view+json" in live
    assert not re.search("0x[0-9a-f]{4}", live["text/plain"])


def test_the_front_end_loads_nothing_and_writes_no_markup():
    files = sorted(frame.WEB.iterdir())
    assert {file.suffix for file in files} == {".mjs", ".css"}
    for file in files:
        text = file.read_text(encoding="utf-8")
        for word in ("http:", "https:", "import ", "fetch(", "innerHTML", "outerHTML",
                     "insertAdjacentHTML", "eval(", "@import", "url("):  # fmt: skip
            assert word not in text, f"{word} in {file.name}"


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_the_front_end_computes_what_it_should():
    tests = PROJECT_FOLDER / "tests" / "explorers" / "web"
    files = sorted(map(str, tests.glob("*.test.mjs")))
    done = subprocess.run(
        [NODE, "--test", *files], capture_output=True, encoding="utf-8", timeout=300
    )
    assert files and done.returncode == 0, done.stdout + done.stderr
