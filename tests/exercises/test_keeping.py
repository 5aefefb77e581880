"""Answers that pass are kept as plain Python and given back."""

import subprocess
import sys

import numpy
import pytest
import torch

from course_lib.exercises import check, mine
from course_lib.exercises.registry import find
from course_lib.exercises.sources import CannotKeep, portable_source
from course_lib.runtime import CourseNotice

ANSWER = """
import torch
def row_weights(scores, scale):
    return torch.softmax(scores * scale, dim=-1)
"""


@pytest.fixture
def file(course_home):
    return course_home / "answers" / "lesson_98.py"


def hand_in(learner, source, name="row_weights", exercise="98.weights", **given):
    names = learner(source, **given)
    return check(exercise, names[name])


def assert_is_mine(capsys, exercise="98.weights"):
    capsys.readouterr()
    found = mine(exercise)
    assert capsys.readouterr().out.startswith(f"{exercise}: your own, from ")
    return found


def assert_is_the_course_s(capsys, *words, exercise="98.weights"):
    capsys.readouterr()
    found = mine(exercise)
    told = capsys.readouterr().out
    assert told.startswith(f"{exercise}: the course's") and told.count("\n") == 1
    assert all(word in told for word in words), told
    assert found is find(exercise).right_answer() or found == find(exercise).right_answer()


def test_the_learner_s_own_comes_back(learner, capsys, file):
    hand_in(learner, ANSWER)
    assert f"Kept for later lessons in {file}" in capsys.readouterr().out
    found = assert_is_mine(capsys)
    assert found is not find("98.weights").solution
    x = torch.randn(2, 3)
    assert torch.equal(found(x, 2.0), torch.softmax(2 * x, -1))


def test_the_file_is_plain_python_that_runs_alone(learner, file):
    hand_in(learner, ANSWER)
    code = file.read_text(encoding="utf-8") + "print(row_weights(torch.zeros(1, 2), 1.0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "tensor([[0.5000, 0.5000]])\n"


def test_without_an_answer_the_course_s_is_given_and_said(capsys):
    assert_is_the_course_s(capsys, "your own will be here once its check has passed")


def test_a_wrong_answer_is_not_kept(learner, file, capsys):
    hand_in(learner, "def row_weights(scores, scale):\n    return scores")
    assert not file.exists()
    assert_is_the_course_s(capsys)


def test_a_worse_answer_later_leaves_the_kept_one(learner, capsys):
    hand_in(learner, ANSWER)
    hand_in(learner, "def row_weights(scores, scale):\n    return scores")
    assert_is_mine(capsys)


def test_helpers_imports_and_constants_come_along(learner, capsys, file):
    source = """
    import math
    import torch
    import torch.nn.functional as F
    from torch import softmax as soft, Tensor
    from math import sqrt

    AXIS, SIZES, FAR = -1, {"a": (1, 2.5)}, float("inf")
    KIND = torch.float32
    SHIFT = torch.tensor([0.0])

    def helper(x: Tensor) -> Tensor:
        assert math.pi > 3 and sqrt(4) == 2 and SIZES["a"] == (1, 2.5) and FAR > 1
        return other(x)

    def other(x, again=True):
        return helper_of_none(x) if not again else soft(x.to(KIND), dim=AXIS)

    def helper_of_none(x):
        return other(x)

    double = lambda x: 2 * x

    class Half:
        def __call__(self, x):
            return double(x) / 4

    def row_weights(scores: Tensor, scale: float, _unused=AXIS):
        return helper(Half()(scores * scale * 2) + SHIFT) + 0 * F.relu(scores)
    """
    hand_in(learner, source)
    found = assert_is_mine(capsys)
    assert found(torch.zeros(1, 2), 1.0).tolist() == [[0.5, 0.5]]
    text = file.read_text(encoding="utf-8")
    for line in (
        "import torch.nn.functional as F",
        "from torch import softmax as soft",
        "AXIS = -1",
    ):
        assert text.count(line) == 1


def test_what_an_earlier_check_gave_back_is_imported(learner, capsys, file):
    """A wrong helper is replaced by the course's; a later answer may call it."""
    given = hand_in(learner, "def row_weights(scores, scale):\n    return scores")
    source = """
    import torch
    class Projection(torch.nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.linear = torch.nn.Linear(d_in, d_out, bias=False)
        def forward(self, x):
            return self.linear(x) + 0 * weights(x, 1.0).sum()
    """
    hand_in(learner, source, "Projection", "98.projection", weights=given)
    assert "import row_weights as weights" in file.read_text(encoding="utf-8")
    assert_is_mine(capsys, "98.projection")


def test_an_answer_may_build_on_one_that_came_from_mine(learner, capsys, file):
    hand_in(learner, ANSWER)
    earlier = mine("98.weights")
    source = """
    import torch
    class Projection(torch.nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.linear = torch.nn.Linear(d_in, d_out, bias=False)
        def forward(self, x):
            return self.linear(x) + 0 * row_weights(x, 1.0).sum()
    """
    hand_in(learner, source, "Projection", "98.projection", row_weights=earlier)
    assert file.read_text(encoding="utf-8").count("def row_weights") == 2
    assert_is_mine(capsys, "98.projection")


HELPED = """
import torch
def row_weights(scores, scale):
    return helper(scores * scale)
"""
HELPER = """
import torch
def helper(x):
    return torch.softmax(x, -1) * FACTOR
FACTOR = 1.0
"""
LAYER = """
import torch
class Layer(torch.nn.Module):
    def forward(self, x):
        return 0 * helper(x).sum()
"""
BOTH = """
import torch
class Projection(torch.nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.linear = torch.nn.Linear(d_in, d_out, bias=False)
        self.layer = Layer()
    def forward(self, x):
        return self.linear(x) + self.layer(x) + 0 * row_weights(x, 1.0).sum()
"""


@pytest.mark.parametrize("other", ["", " * 1.0"], ids=["same text", "other text"])
def test_a_helper_that_comes_with_two_answers_is_one_where_its_text_is(learner, capsys, other):
    first = learner(HELPER)["helper"]
    second = learner(HELPER.replace("* FACTOR", f"* FACTOR{other}"))["helper"]
    given = {
        "row_weights": learner(HELPED, helper=first)["row_weights"],
        "Layer": learner(LAYER, helper=second)["Layer"],
    }
    assert first is not second
    hand_in(learner, BOTH, "Projection", "98.projection", **given)
    told = capsys.readouterr().out
    if other:
        assert "could not be kept for later lessons: two different things in it" in told
        assert "`helper`" in told
    else:
        assert_is_mine(capsys, "98.projection")


def test_a_function_under_another_name_is_kept_under_the_exercise_s(learner, capsys):
    source = "import torch\nmine_too = lambda scores, scale: torch.softmax(scores * scale, -1)"
    hand_in(learner, source, "mine_too")
    assert_is_mine(capsys)


def test_a_value_is_kept(learner, capsys):
    hand_in(learner, "answer = 35", "answer", "98.count")
    assert assert_is_mine(capsys, "98.count") == 35


@pytest.mark.parametrize(
    "value",
    [
        1.5,
        float("inf"),
        "é\n",
        (1, [2.0]),
        {"a": None},
        torch.tensor([[1.0, float("inf")]]),
        torch.tensor([True]),
    ],
    ids=repr,
)
def test_constants_are_written_as_python_that_reads_them_back(value):
    names = {}
    exec(portable_source("answer", value), names)
    if isinstance(value, torch.Tensor):
        assert torch.equal(names["answer"], value) and names["answer"].dtype == value.dtype
    else:
        assert names["answer"] == value


CANNOT_BE_KEPT = {
    "it uses `big` (a `Tensor`) of the notebook": """
        big = torch.zeros(2_003)
        def row_weights(scores, scale):
            return torch.softmax(scores * scale + big[0], -1)
        """,
    "it uses `layer` (a `Linear`) of the notebook": """
        layer = torch.nn.Linear(2, 2)
        def row_weights(scores, scale):
            return torch.softmax(scores * scale + 0 * layer.weight[0, 0].detach(), -1)
        """,
    "it uses `k` of a function around it": """
        def around(k):
            def row_weights(scores, scale):
                return torch.softmax(scores * scale + k, -1)
            return row_weights
        row_weights = around(0)
        """,
    "on its own it does not pass its check any more": """
        left = 3
        def row_weights(scores, scale):
            global left
            left -= 1
            assert left >= 0
            return torch.softmax(scores * scale, -1)
        """,
}


@pytest.mark.parametrize("reason", CANNOT_BE_KEPT)
def test_what_cannot_be_kept_says_why_and_passes_all_the_same(learner, capsys, file, reason):
    names = learner(CANNOT_BE_KEPT[reason], torch=torch)
    answer = check("98.weights", names["row_weights"])
    assert answer is names["row_weights"] and not file.exists()
    assert f"could not be kept for later lessons: {reason}" in capsys.readouterr().out


def test_a_function_without_source_cannot_be_kept():
    names = {"torch": torch, "__name__": "__main__"}
    exec(ANSWER, names)
    with pytest.raises(CannotKeep, match="the source of `row_weights` is not known"):
        portable_source("row_weights", names["row_weights"])


def test_passing_again_replaces_one_section_and_keeps_the_rest(learner, file, capsys):
    hand_in(learner, ANSWER)
    hand_in(learner, "answer = 35", "answer", "98.count")
    text = file.read_text(encoding="utf-8")
    file.write_text("# my own note\n" + text + "\nmy_own = 1\n", encoding="utf-8")
    hand_in(learner, ANSWER.replace("dim=-1", "dim=1"))
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# my own note\n") and text.endswith("my_own = 1\n")
    assert text.count("def row_weights") == 1 and "dim=1" in text and "answer = 35" in text
    assert_is_mine(capsys)
    assert_is_mine(capsys, "98.count")


def test_a_section_whose_end_was_deleted_costs_nothing_else(learner, file, capsys):
    hand_in(learner, ANSWER)
    file.write_text(
        file.read_text(encoding="utf-8").replace("# --- end of 98.weights ---", "keep_me = 1"),
        encoding="utf-8",
    )
    assert_is_the_course_s(capsys)
    hand_in(learner, ANSWER)
    assert "keep_me = 1" in file.read_text(encoding="utf-8")
    assert_is_mine(capsys)


def test_windows_line_ends_are_read(learner, file, capsys):
    hand_in(learner, ANSWER)
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert_is_mine(capsys)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("dim=-1", "dim=0", "does not pass its check any more: Your *columns* sum to 1"),
        ("return", "retrun", "does not load: SyntaxError"),
        ("import torch", "import no_such_module", "does not load: ModuleNotFoundError"),
        ("def row_weights", "def rows", "does not define `row_weights`"),
    ],
)
def test_a_kept_answer_that_no_longer_works_is_reported(learner, file, capsys, old, new, words):
    hand_in(learner, ANSWER)
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert_is_the_course_s(capsys, words)


def test_a_kept_answer_that_never_ends_is_reported(learner, file, capsys, monkeypatch):
    monkeypatch.setattr("course_lib.exercises.keeping.LOAD_SECONDS", 0.3)
    hand_in(learner, ANSWER)
    text = file.read_text(encoding="utf-8").replace("import torch", "while True: pass")
    file.write_text(text, encoding="utf-8")
    assert_is_the_course_s(capsys, "does not load: it takes too long")


@pytest.mark.parametrize("damage", ["folder", "bytes"])
def test_a_damaged_file_is_set_aside_with_a_warning(learner, file, capsys, damage):
    if damage == "folder":
        file.mkdir(parents=True)
    else:
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\xff\xfe# caf\xe9")
    with pytest.warns(CourseNotice, match=r"set aside as lesson_98.damaged-1.py"):
        hand_in(learner, ANSWER)
    assert_is_mine(capsys)


def test_a_place_that_cannot_be_written_is_told_and_the_answer_passes(learner, course_home, capsys):
    course_home.mkdir()
    (course_home / "answers").write_text("a file", encoding="utf-8")
    hand_in(learner, ANSWER)
    out = capsys.readouterr().out
    assert "Passed" in out and "could not be kept for later lessons" in out


@pytest.mark.parametrize("edition", ["learner", "solved"])
def test_an_edition_run_keeps_nothing_and_prints_the_same_everywhere(
    learner, file, capsys, monkeypatch, edition
):
    hand_in(learner, ANSWER)
    before = file.read_bytes()
    monkeypatch.setenv("COURSE_EDITION", edition)
    hand_in(learner, ANSWER.replace("dim=-1", "dim=1"))
    assert file.read_bytes() == before
    assert_is_the_course_s(capsys)


def test_answers_lie_in_the_checkout_s_work_folder(monkeypatch, tmp_path):
    from course_lib.exercises import places

    monkeypatch.delenv("COURSE_HOME")
    monkeypatch.setattr(places, "PROJECT_FOLDER", tmp_path)
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *a, **k: str(tmp_path / "data"))
    assert places.answers_file("02") == tmp_path / "data" / "answers" / "lesson_02.py"
    (tmp_path / "lessons").mkdir()
    assert places.answers_file("02") == tmp_path / "work" / "answers" / "lesson_02.py"
    monkeypatch.setattr(places.os, "access", lambda *args: False)
    assert places.answers_file("02") == tmp_path / "data" / "answers" / "lesson_02.py"


def test_a_value_of_numpy_is_kept_as_a_plain_number(capsys, course_home):
    check("00.even", numpy.float64(1) / 63)
    assert_is_mine(capsys, "00.even")
    text = (course_home / "answers" / "lesson_00.py").read_text(encoding="utf-8")
    assert f"answer = {1 / 63!r}\n" in text


def test_a_decimal_value_handed_back_under_another_name_is_not_the_learner_s(capsys, monkeypatch):
    """Whatever the history says: the same float object cannot come out of a computation."""
    from course_lib.exercises import handed_back

    cells = ["answer = 0.3", 'even_guess = check("00.even", answer)']
    monkeypatch.setattr(handed_back, "_cells", lambda: list(cells))
    even_guess = check("00.even", 0.3)
    cells.append("answer = even_guess")
    check("00.even", even_guess)
    assert "handed back" in capsys.readouterr().out
    check("00.even", 1 / 63)
    assert "✓ Passed" in capsys.readouterr().out
