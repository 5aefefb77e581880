"""The field guide's links, clicked: to a cell of another lesson, and to a section of its own."""

from __future__ import annotations

import shutil

import pytest

from course_lib.runtime import PROJECT_FOLDER

IN_VIEW = """wanted => {
    const panel = window.jupyterapp.shell.currentWidget;
    const cell = panel?.content?.widgets?.find(each => each.model.id === wanted);
    if (!cell || !cell.isAttached) return false;
    const seen = panel.content.node.getBoundingClientRect();
    const { top, bottom } = cell.node.getBoundingClientRect();
    return bottom > seen.top && top < seen.bottom;
}"""

IDLE = """() => {
    const { sessionContext } = window.jupyterapp.shell.currentWidget;
    return sessionContext?.session?.kernel?.status === 'idle';
}"""


def click(lab, cell: str, target: str) -> None:
    """Click a link of a cell of the guide."""
    shown = lab.go_to(cell)
    link = shown.locator(f"a[href*='{target}'], a[data-commandlinker-args*='{target}']").first
    link.scroll_into_view_if_needed()
    link.click()


def in_view(lab, cell: str) -> None:
    """Wait until the cell is seen, and still is a little later, when all has been laid out."""
    lab.page.wait_for_function(IN_VIEW, arg=cell, timeout=60_000)
    lab.page.wait_for_timeout(1500)
    assert lab.page.evaluate(IN_VIEW, cell)
    lab.page.wait_for_function(IDLE, timeout=120_000)  # a kernel that is still starting complains


@pytest.mark.parametrize("name", ["01_characters_to_vectors#ex-one-hot", "14_the_bill#million"])
def test_a_link_of_the_index_opens_the_lesson_at_the_cell(lab, lesson, name):
    file, _, cell = name.partition("#")
    shutil.copy(PROJECT_FOLDER / "notebooks" / f"{file}.ipynb", lab.server.folder)
    lesson("17")
    click(lab, f"index-{file[:2]}", f"cell-id={cell}")
    in_view(lab, cell)
    assert lab.page.evaluate("jupyterapp.shell.currentWidget.context.path") == f"{file}.ipynb"


@pytest.mark.parametrize("section", ["glossary", "index", "laptop-text", "questions"])
def test_a_link_of_the_title_goes_to_the_section(lab, lesson, section):
    lesson("17")
    click(lab, "title", f"#cell-id={section}")
    in_view(lab, section)
