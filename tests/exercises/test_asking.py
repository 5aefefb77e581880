"""What hint, solution, quiz and the cards show, as HTML and as plain text."""

import re
from html.parser import HTMLParser

import pytest

from course_lib.exercises import check, hint, quiz, quiz_of, solution, solution_source
from course_lib.exercises.cards import SIGNS, Card, html_text, say
from course_lib.exercises.checking import card_of
from course_lib.exercises.judge import examine
from course_lib.exercises.progress_store import read
from course_lib.exercises.quizzes import explanation, quiz_html, quiz_text
from course_lib.exercises.registry import find
from course_lib.exercises.verdict import Verdict, code
from course_lib.runtime import CourseError


class Balance(HTMLParser):
    """Fails on tags that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words = [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_hint_says_which_one_it_is(capsys):
    hint("98.weights")
    assert "Hint 1 of 2: Weights of each row (98.weights)\nWhich axis" in capsys.readouterr().out
    hint("98.weights")
    out = capsys.readouterr().out
    assert "Hint 2 of 2: Weights of each row (98.weights)\n`dim=-1` is the last axis." in out
    assert 'the last one; `solution("98.weights")` shows code' in out


def test_solution_shows_code_and_why(capsys):
    solution("98.weights")
    out = capsys.readouterr().out
    assert "one unit of attention" in out
    assert "    return torch.softmax(scores * scale, dim=-1)" in out


@pytest.mark.parametrize(
    ("exercise", "start"),
    [
        ("98.weights", "def row_weights("),
        ("98.count", "answer = 5 * 7"),
        ("98.projection", "class Projection(nn.Module):"),
    ],
)
def test_the_source_of_a_solution_can_stand_in_the_exercise_cell(exercise, start):
    source = solution_source(exercise)
    assert source.startswith(start) and not source.endswith("\n")
    compile(source, "<cell>", "exec")


@pytest.mark.parametrize("ask", [hint, solution, solution_source])
def test_an_unknown_id_names_close_ones(ask):
    with pytest.raises(CourseError, match=r"did you mean 98\.weights"):
        ask("98.weihgts")


def test_check_returns_the_answer_or_the_course_s(capsys):
    def row_weights(scores, scale):
        return scores

    assert check("98.weights", row_weights) is find("98.weights").reference
    assert check("98.count", 35) == 35
    assert check("98.count", 36) == 35
    assert capsys.readouterr().out.count("Not yet:") == 2


def test_the_course_s_value_is_no_answer_when_the_check_runs_again(monkeypatch, capsys):
    """In a notebook the history tells whether the learner has assigned it since."""
    cells = ["", "answer = 36", 'answer = check("98.count", answer)']
    monkeypatch.setattr("course_lib.exercises.handed_back._cells", lambda: list(cells))
    given = check("98.count", 36)
    cells.append('answer = check("98.count", answer)')
    assert "handed back" in run_check(given, capsys)
    cells.append("other_answer = 1; print(answer == 35)")
    assert "handed back" in run_check(given, capsys)
    cells.append("answer = 35")
    assert "Passed" in run_check(given, capsys)
    assert "Passed" in run_check(given, capsys)


def run_check(answer, capsys):
    capsys.readouterr()
    check("98.count", answer)
    return capsys.readouterr().out


def test_in_the_solved_edition_what_does_not_pass_raises(monkeypatch):
    monkeypatch.setenv("COURSE_EDITION", "solved")
    assert check("98.count", 35) == 35
    for wrong in (36, None):
        with pytest.raises(AssertionError, match=r"98\.count does not pass: "):
            check("98.count", wrong)


def test_in_the_learner_s_edition_the_course_s_is_handed_on(monkeypatch):
    monkeypatch.setenv("COURSE_EDITION", "learner")
    assert check("98.count", None) == 35


def test_a_card_escapes_what_it_shows_and_reads_without_styles():
    card = Card(
        "not yet",
        "a < b & `c`",
        ("**bold** and *stressed*, 2 * 3 * 4, `x * y * z`", "<script>alert(1)</script>"),
        (("Your code printed:", "<b>&\n"),),
    )
    html = card.html()
    assert "<script>" not in html and "&lt;b&gt;&amp;" in html
    assert "<strong>bold</strong> and <em>stressed</em>, 2 * 3 * 4" in html
    assert "<code>x * y * z</code>" in html
    assert Balance(html).words.lstrip().startswith(f"{SIGNS['not yet']} a < b & c")


@pytest.mark.parametrize("text", ["a", "`a`", "a ``b`` `c", "*a*b*c*", "$_$", "x\n`", " "])
def test_what_is_marked_as_code_is_shown_as_it_is(text):
    shown = html_text(f"with {code(text)}, and `more`")
    assert shown == f"with <code>{text}</code>, and <code>more</code>"


def test_a_card_spells_out_what_would_not_be_seen_and_has_no_formulas():
    hidden = "a\x00b\u202ec\ud800\x1b[1m\td\n"
    card = Card("told", hidden, (f"`{hidden}`",), (("", hidden),))
    for shown in (card.html(), card.text()):
        assert shown.count("aU+0000bU+202EcU+D800U+001B[1m\td") == 3
        shown.encode("utf-8")
    assert card.html().startswith('<div class="course-card mathjax_ignore"')


def test_a_card_has_a_sign_and_a_word_for_each_state():
    states = ("passed", "not yet", "not attempted")
    exercise = find("98.weights")
    heads = [card_of(exercise, Verdict(state, "", "m")).text().split("\n")[0] for state in states]
    assert [head.split(":")[0] for head in heads] == [
        "✓ Passed",
        "△ Not yet",
        "○ Not attempted yet",
    ]


def test_colours_follow_the_theme_and_have_fall_backs():
    html = Card("passed", "x", ("y",), (("", "z"),)).html()
    assert re.findall(r"(?:color|background):(?!var|inherit)", html) == []
    assert all("," in value for value in re.findall(r"var\(([^)]*)\)", html))


def test_the_error_s_line_and_what_was_printed_are_shown():
    def row_weights(scores, scale):
        print("here")
        return scores / nothing  # noqa: F821

    card = card_of(find("98.weights"), examine(find("98.weights"), row_weights))
    text = card.text()
    assert "    return scores / nothing" in text and "Your code printed:\n    here" in text


def test_a_console_that_lacks_a_character_shows_a_question_mark(monkeypatch):
    import io
    import sys

    console = io.TextIOWrapper(io.BytesIO(), encoding="cp1252", newline="")
    monkeypatch.setattr(sys, "stdout", console)
    say("✓ 它 é")
    console.flush()
    assert console.buffer.getvalue().decode("cp1252").strip() == "? ? é"


def test_a_quiz_in_a_terminal_is_text_with_the_answers_at_the_end(capsys):
    quiz("98")
    out = capsys.readouterr().out
    assert out == quiz_text(quiz_of("98")) + "\n"
    questions, _, answers = out.partition("Answers\n")
    assert "right" not in questions.replace("several are right", "")
    for question in quiz_of("98"):
        for choice in question.choices:
            assert choice.text in questions and choice.reason in answers


def test_a_quiz_as_html_folds_each_answer():
    html = quiz_html(quiz_of("98"))
    assert Balance(html).words.count("(several are right)") == 1
    assert html.count("<details>") == html.count("<summary>") == 2
    open_part = re.sub(r"<details>.*?</details>", "", html, flags=re.DOTALL)
    for question in quiz_of("98"):
        for choice in question.choices:
            assert choice.reason not in open_part and html_text(choice.reason) in html
    assert quiz_html(quiz_of("98")) == html


def test_an_answer_is_explained_with_a_reason_for_each_choice():
    question = quiz_of("98")[1]
    assert "✓ Right." in explanation(question, frozenset({0, 1}))
    for chosen in (frozenset(), frozenset({0}), frozenset({0, 1, 2})):
        told = explanation(question, chosen)
        assert "△ Not quite." in told and told.count("(your choice)") == len(chosen)
        assert all(html_text(choice.reason) in told for choice in question.choices)


def test_a_live_quiz_records_what_was_chosen(monkeypatch):
    shown = {}
    monkeypatch.setattr("course_lib.exercises.cards.in_notebook", lambda: True)
    monkeypatch.setattr("course_lib.exercises.cards.show_both", lambda html, text: None)
    monkeypatch.setattr(
        "course_lib.explorers.quiz_view.show_quiz",
        lambda questions, explain, record: shown.update(explain=explain, record=record),
    )
    quiz("98")
    shown["record"](0, [1])
    shown["record"](1, [0, 1])
    answers = read()["quizzes"]["98"]
    assert [answers[at]["right"] for at in ("1", "2")] == [False, True]
    assert answers["2"]["chosen"] == [0, 1]
    assert "✓ Right." in shown["explain"](0, frozenset({0}))


def test_an_unknown_lesson_has_no_quiz():
    with pytest.raises(CourseError, match="no exercises for lesson '97'"):
        quiz("97")
