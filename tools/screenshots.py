"""Look at lessons as learners see them: python -m tools.screenshots 02 --theme dark

Opens each lesson in JupyterLab in headless Chromium, runs all its cells, and writes a picture of
each screenful to a folder outside the repository: a new temporary one, or that of `--to`.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
import tempfile
from pathlib import Path

from course_lib.runtime import PROJECT_FOLDER
from tools.lab_server import Server
from tools.laboratory import CHROMIUM, LAPTOP, THEMES, Lab, chromium
from tools.lesson_source import LessonError, lesson_paths

# Scrolls to a place, lets the browser draw it; says how much is seen, and where the last cell ends.
SCROLL = """async to => {
    const notebook = window.jupyterapp.shell.currentWidget.content.node;
    const page = notebook.querySelector('.jp-WindowedPanel-outer');
    page.scrollTop = to;
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
    for (const image of page.querySelectorAll('img')) await image.decode().catch(() => {});
    const cells = notebook.querySelectorAll('.jp-Cell');
    const end = cells[cells.length - 1].getBoundingClientRect().bottom;
    return [page.clientHeight, end - page.getBoundingClientRect().top + page.scrollTop];
}"""
OVERLAP = 24  # pixels: no line is cut in both of two pictures


def shoot(lab: Lab, folder: Path, name: str) -> list[Path]:
    """Write NAME-01.png, NAME-02.png … of the open notebook, from top to bottom."""
    pictures, top, end = [], 0, math.inf
    while top + OVERLAP < end:
        screenful, end = lab.page.evaluate(SCROLL, top)
        pictures.append(folder / f"{name}-{len(pictures) + 1:02d}.png")
        lab.page.screenshot(path=pictures[-1])
        top += screenful - OVERLAP
    return pictures


def shoot_lessons(numbers: list[str], themes: list[str], size: dict, folder: Path) -> None:
    """Run each lesson once and write its pictures in each theme."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home, chromium() as browser:
        server = Server(Path(home) / "home")
        server.start()
        lab = Lab(browser.new_page(viewport=size), server)
        try:
            for path in lesson_paths(PROJECT_FOLDER, numbers):
                built = PROJECT_FOLDER / "notebooks" / f"{path.stem}.ipynb"
                lab.open(Path(shutil.copy(built, server.folder)).name)
                lab.run_all()
                for theme in themes:
                    lab.change_theme(theme)
                    pictures = shoot(lab, folder, f"{path.name[:2]}-{theme}")
                    print(f"{pictures[0]} … {pictures[-1].name}", flush=True)
                lab.leave()
        finally:
            lab.page.close()  # before it misses its server
            server.stop()
    for error in lab.errors:
        print(f"in the browser's console: {error}", file=sys.stderr)


def folder_outside(text: str) -> Path:
    """A folder from the command line, made if need be; one in the repository is refused."""
    folder = Path(text).absolute()
    if folder.resolve().is_relative_to(PROJECT_FOLDER):
        raise argparse.ArgumentTypeError(f"{text} is in the repository; name a folder outside it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 is well, 2 a lesson that is not there, or no Chromium."""
    parser = argparse.ArgumentParser(prog="python -m tools.screenshots", description=__doc__)
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers; all by default")
    parser.add_argument("--theme", choices=[*THEMES, "both"], default="both")
    parser.add_argument("--width", type=int, default=LAPTOP["width"], metavar="PIXELS")
    parser.add_argument("--height", type=int, default=LAPTOP["height"], metavar="PIXELS")
    parser.add_argument("--to", type=folder_outside, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        lesson_paths(PROJECT_FOLDER, options.lessons)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 2
    if CHROMIUM is None:
        print("no Chromium here; install the package chromium", file=sys.stderr)
        return 2
    themes = [*THEMES] if options.theme == "both" else [options.theme]
    size = {"width": options.width, "height": options.height}
    folder = options.to or Path(tempfile.mkdtemp(prefix="screenshots-"))
    shoot_lessons(options.lessons, themes, size, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
