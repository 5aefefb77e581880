"""Exercises and quizzes as a learner does them: typed into the page, and answered in the page."""

from __future__ import annotations

import pytest

HOSTILE = (
    "<img src=x onerror=window.hit=1>", "</script><script>window.hit=1</script>", "$_$ and $x^2$",
    "`code` **bold** *a*b*c*", "&amp;", "\u202eabc", "a\x00b",
)  # fmt: skip
LITERAL = [*HOSTILE[:5], "U+202Eabc", "aU+0000b"]
QUIZ = ".course-quiz-live > .widget-vbox"


def type_over(lab, cell, text):
    """Select all that stands in a cell, and type; then run it by Ctrl + Enter."""
    lab.go_to(cell).locator(".cm-content").click()
    lab.page.keyboard.press("Control+a")
    type_and_run(lab, text)


def type_over_last_line(lab, cell, text):
    """Select the last line, from its indentation on, and type; then run the cell."""
    lab.go_to(cell).locator(".cm-content").click()
    lab.page.keyboard.press("Control+End")
    lab.page.keyboard.press("Shift+Home")
    type_and_run(lab, text)


def type_and_run(lab, text):
    lab.page.keyboard.type(text)
    lab.page.keyboard.press("Control+Enter")


def test_a_value_is_answered_wrongly_and_rightly_with_hints_between(lab, lesson):
    lesson("00")
    lab.run("setup")
    lab.run("ex-even")
    assert "○ Not attempted yet" in lab.run("check-even")
    type_over(lab, "ex-even", "answer = 1 / 26")
    said = lab.run("check-even")
    assert "△ Not yet: An even guess" in said
    assert "That would be right if there were 26 characters." in said
    assert "Hint 1 of 2" in lab.run("help-even")
    assert "Hint 2 of 2" in lab.run("help-even")
    type_over(lab, "help-even", 'solution("00.even")')
    assert "answer = 1 / 63" in lab.run("help-even")
    type_over(lab, "ex-even", "answer = 1 / 63")
    assert "✓ Passed: An even guess" in lab.run("check-even")
    lab.run("progress")
    lab.page.click("tr[data-lesson='00'] summary")
    row = lab.page.inner_text("tr[data-lesson='00'] li:has-text('An even guess')")
    assert row == "✓ An even guess ★ 2 min: passed, 2 attempts, 2 hints"


def test_a_function_is_written_line_by_line(lab, lesson):
    lesson("00")
    lab.run("setup")
    type_over_last_line(lab, "ex-surprise", "return math.log(probability)")
    said = lab.run("check-surprise")
    assert "△ Not yet" in said and "Put a minus in front." in said
    type_over_last_line(lab, "ex-surprise", "return -math.log(probability)")
    assert "✓ Passed" in lab.run("check-surprise")
    type_over(lab, "ex-surprise", "def surprise(probability):\nodds = 1 / probability\nreturn odds")
    assert "For an even guess, 63" in lab.run("check-surprise").replace("for", "For")


def test_what_an_answer_says_is_shown_literally(lab, notebook):
    said = " | ".join(HOSTILE)
    function = f"def surprise(probability):\n    print({said!r})\n    raise ValueError({said!r})"
    setup = "from course_lib.exercises import cards, check"
    plain = "cards.show(cards.Card('told', 'from $5$ to $x^2$'))"
    formula = "from IPython.display import HTML\nHTML('<p>$y^2$</p>')"
    lab.open(notebook(setup, function, 'check("00.surprise", surprise)', plain, formula))
    lab.run_all()
    lab.page.wait_for_selector("p mjx-container")  # formulas of the page are drawn by now
    assert lab.page.locator(".course-card").last.inner_text() == "▸ from $5$ to $x^2$"
    card = lab.page.locator(".course-card").first
    shown = card.inner_text()
    assert [text for text in LITERAL if shown.count(text) < 2] == []  # the error and the print
    assert card.locator("img, script, mjx-container, em").count() == 0
    assert lab.page.evaluate("window.hit") is None


def test_a_loop_without_end_is_a_time_out_and_the_kernel_works_on(lab, lesson):
    lesson("00")
    lab.run("setup")
    patience = "from course_lib.exercises.registry import find\n"
    patience += "object.__setattr__(find('00.surprise'), 'seconds', 1.0)"
    lab.write("load", patience)
    lab.run("load")
    lab.write("ex-surprise", "def surprise(probability):\n    while True:\n        pass")
    lab.run("ex-surprise")
    said = lab.run("check-surprise")
    assert "Time-out: surprise was still running after 1 seconds" in said
    assert "It was stopped, and the notebook works on." in said
    lab.write("load", "print('six times seven is', 6 * 7)")
    assert lab.run("load") == "six times seven is 42"


@pytest.fixture
def questions(lab, lesson):
    """The live quiz of lesson 02, one locator a question."""
    lesson("02")
    lab.run("setup")
    lab.run("quiz")
    lab.page.wait_for_selector(QUIZ)
    return lab.page.locator(QUIZ)


def test_a_quiz_is_answered_by_mouse_and_by_keyboard(lab, questions):
    assert questions.count() == 6
    first = questions.first
    choices = first.locator("input[type=radio]")
    reasons = first.locator(".widget-html").last
    verdicts = {"✓ Right.": 0, "△ Not quite.": 0}
    for at in range(choices.count()):
        choices.nth(at).check()
        reasons.locator(f"li:nth-child({at + 1}):has-text('(your choice)')").wait_for()
        verdicts[reasons.locator("strong").first.inner_text()] += 1
    assert verdicts == {"✓ Right.": 1, "△ Not quite.": choices.count() - 1}
    lab.do("notebook:enter-command-mode")  # in which arrow keys are JupyterLab's
    second = questions.nth(1)
    second.locator("input").first.focus()
    lab.page.keyboard.press("Space")
    second.locator("li:first-child:has-text('(your choice)')").wait_for()
    lab.page.keyboard.press("ArrowDown")
    second.locator("li:nth-child(2):has-text('(your choice)')").wait_for()
    assert lab.page.locator(".course-quiz").is_hidden()  # the folded answers step back
