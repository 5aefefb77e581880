"""Lesson 00 in JupyterLab: its explorers are live, and the board of progress is there."""

from __future__ import annotations

import shutil

from course_lib.runtime import PROJECT_FOLDER

NAME = "00_start_here.ipynb"


def test_the_explorers_are_live_and_the_board_says_where_one_stopped(lab, server):
    shutil.copy(PROJECT_FOLDER / "notebooks" / NAME, server.folder / NAME)
    lab.open(NAME)
    lab.run_all()
    lab.page.wait_for_selector(".course-sampling[data-kept]", state="attached")
    lab.page.wait_for_selector(".course-attention[data-query]", state="attached")
    board = lab.page.locator(".course-board")
    board.scroll_into_view_if_needed()
    board.locator("table").wait_for(state="visible")
    board.locator("text=exercises passed").wait_for(state="visible")
    here = board.locator("tr", has_text="▸")
    assert here.count() == 1 and here.get_attribute("data-lesson") == "00"
    link = here.locator("a")
    assert link.inner_text().startswith("00 Start here")
    assert NAME in link.get_attribute("href")
    here.locator("summary").click()
    assert "From probability to surprise" in here.inner_text()
