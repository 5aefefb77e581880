"""Answers that loop, print, seed, change their arguments, replace torch or lie."""

import _thread
import contextlib
import math
import random
import sys
import threading
import time

import numpy
import pytest
import torch

import course_lib.exercises as package
from course_lib.exercises import check, exercises_of
from course_lib.exercises.integrity import replaced_functions, restore_functions
from course_lib.exercises.judge import examine
from course_lib.exercises.progress_store import read
from course_lib.exercises.registry import find
from course_lib.exercises.sandbox import listening, run_limited


def right(scores, scale):
    return torch.softmax(scores * scale, dim=-1)


def running():
    """How many answers are running, after those that are ending have ended."""
    for thread in threading.enumerate():
        if thread.name == "exercise":
            thread.join(5)
    return sum(thread.name == "exercise" for thread in threading.enumerate())


def hasty(exercise_id="98.weights", seconds=0.3):
    """The exercise with a short time limit."""
    exercise = find(exercise_id)
    import dataclasses

    return dataclasses.replace(exercise, seconds=seconds)


def loop(scores, scale):
    while True:
        pass


def printing_loop(scores, scale):
    while True:
        print("still here")


def loop_with_bare_except(scores, scale):
    while True:
        try:  # noqa: SIM105
            time.sleep(0.001)
        except:  # noqa: E722
            pass


def stubborn_loop(scores, scale):
    while True:
        try:
            try:
                time.sleep(0.001)
            except:  # noqa: E722
                time.sleep(0.001)
            finally:
                len("x")
        except BaseException:
            continue


def suppressing_loop(scores, scale):
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.001)


LOOPS = [loop, printing_loop, loop_with_bare_except, stubborn_loop, suppressing_loop]


@pytest.mark.parametrize("answer", LOOPS, ids=lambda f: f.__name__)
def test_a_loop_without_end_is_a_named_time_out(answer, capsys):
    threads = running()
    verdict = examine(hasty(), answer)
    assert (verdict.status, verdict.reason) == ("not yet", "time")
    assert "Time-out: `row_weights` was still running after 0.3 seconds" in verdict.message
    assert "It was stopped" in verdict.message
    assert running() == threads
    assert examine(find("98.weights"), right).passed  # the kernel is usable
    assert len(verdict.printed) < 2_000
    assert capsys.readouterr().out == ""


def test_code_that_cannot_be_stopped_is_told_and_leaves_the_kernel_usable(monkeypatch):
    monkeypatch.setattr("course_lib.exercises.sandbox.GRACE_SECONDS", 0.1)
    goes_on = threading.Event()

    def answer(scores, scale):
        goes_on.wait(20)  # one call that does not look at exceptions, as an operation of torch

    verdict = examine(hasty(), answer)
    goes_on.set()
    assert "It could not be stopped" in verdict.message
    assert examine(find("98.weights"), right).passed


def test_a_loop_is_traced_only_after_its_time():
    with listening() as listener:
        traces = []
        ending = run_limited(lambda: traces.append(sys.gettrace()), 5, listener)
    assert (ending, traces) == ("finished", [sys.gettrace()])


def test_ctrl_c_of_the_user_interrupts_the_check():
    started = threading.Event()

    def answer(scores, scale):
        started.set()
        while True:
            pass

    def press():
        started.wait(20)
        _thread.interrupt_main()

    stdout, threads = sys.stdout, running()
    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        examine(find("98.weights"), answer)
    assert sys.stdout is stdout
    assert running() == threads


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError, GeneratorExit])
def test_what_ends_programs_is_shown_as_an_error_of_the_answer(error):
    def answer(scores, scale):
        raise error("from the answer")

    verdict = examine(find("98.weights"), answer)
    assert verdict.reason == "error" and error.__name__ in verdict.message


def test_endless_recursion_is_an_error_at_its_line():
    def answer(scores, scale):
        return answer(scores, scale)

    verdict = examine(find("98.weights"), answer)
    assert verdict.reason == "error" and "RecursionError" in verdict.message
    assert verdict.code == "return answer(scores, scale)"


def test_a_right_answer_that_prints_ten_megabytes_is_not_passed(capsys):
    def answer(scores, scale):
        for _ in range(1_000):
            print("x" * 9_999)
        return right(scores, scale)

    verdict = examine(find("98.weights"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", "conduct")
    assert "printed 30,000,000 characters" in verdict.message
    assert verdict.printed.endswith("and 29,999,000 more characters")
    assert capsys.readouterr().out == ""


def test_of_one_endless_line_only_the_beginning_is_kept_in_memory():
    with listening() as listener:
        run_limited(lambda: print("x" * 10_000_000), 20, listener)
    assert listener.count == 10_000_001 and len(listener.text()) == 20_000


def test_printing_passed_is_not_passing():
    def answer(scores, scale):
        print("PASSED")

    verdict = examine(find("98.weights"), answer)
    assert verdict.status == "not yet" and verdict.printed == "PASSED\n" * 3


def test_of_many_short_lines_only_the_first_are_shown():
    def answer(scores, scale):
        print("\n" * 99 + "end")
        return right(scores, scale)

    verdict = examine(find("98.weights"), answer)
    assert verdict.passed
    assert verdict.printed == "\n" * 20 + "… and 289 more characters"


def test_a_few_prints_are_shown_and_no_matter():
    def answer(scores, scale):
        print("shape", tuple(scores.shape), file=sys.stderr)
        return right(scores, scale)

    verdict = examine(find("98.weights"), answer)
    assert verdict.passed and verdict.printed.startswith("shape (5, 7)\n")


def test_what_another_thread_prints_is_not_the_answer_s(capsys):
    def answer(scores, scale):
        other = threading.Thread(target=print, args=("from elsewhere",))
        other.start()
        other.join()
        return right(scores, scale)

    verdict = examine(find("98.weights"), answer)
    assert verdict.printed == "" and "from elsewhere" in capsys.readouterr().out


def test_changing_an_argument_is_told_by_its_name():
    def answer(scores, scale):
        scores *= scale
        return torch.softmax(scores, dim=-1)

    verdict = examine(find("98.weights"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", "conduct")
    assert "changes its argument `scores`" in verdict.message
    assert examine(find("98.weights"), right).passed


def test_appending_to_a_list_is_told_and_does_not_reach_the_next_check():
    def total(numbers):
        numbers.append(0)
        return sum(numbers)

    exercise = _exercise_on_lists()
    for _ in range(2):
        verdict = examine(exercise, total)
        assert "changes its argument `numbers`" in verdict.message
    assert examine(exercise, sum).passed


def _exercise_on_lists():
    import dataclasses

    from course_lib.exercises.model import Misconception

    def total(numbers):
        return sum(numbers)

    shared = [2, 3, 5]
    return dataclasses.replace(
        find("98.weights"),
        id="98.total",
        solution=total,
        reference=None,
        cases=[(shared,), ([7, 11],)],
        misconceptions=(Misconception("a", len, "x"), Misconception("b", max, "y")),
    )


def test_a_wrong_answer_that_also_changes_its_argument_hears_both():
    def answer(scores, scale):
        return scores.zero_()

    verdict = examine(find("98.weights"), answer)
    assert verdict.reason == "values"
    assert any("Besides, your code changes its argument `scores`" in f for f in verdict.facts)


@pytest.mark.parametrize("seed", [lambda: torch.manual_seed(0), torch.seed])
def test_seeding_is_told_and_undone(seed):
    def answer(scores, scale):
        seed()
        return right(scores, scale)

    torch.manual_seed(0)
    before = torch.get_rng_state()
    verdict = examine(find("98.weights"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", "conduct")
    assert "sets torch's seed" in verdict.message
    assert torch.equal(torch.get_rng_state(), before) and torch.initial_seed() == 0


def test_drawing_random_numbers_is_no_seeding_and_is_undone():
    def answer(scores, scale):
        torch.rand(3), random.random(), numpy.random.rand()
        random.seed(1), numpy.random.seed(1)
        return right(scores, scale)

    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    assert examine(find("98.weights"), answer).passed
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert numpy.random.get_state()[1].tolist() == states[2]


def test_reference_and_answer_draw_the_same_numbers():
    import dataclasses

    from course_lib.exercises.model import Misconception

    def noisy(x):
        return x + torch.rand(3)

    def also_noisy(x):
        return torch.rand(3) + x

    wrong = (
        Misconception("a", lambda x: x, "."),
        Misconception("b", lambda x: x - torch.rand(3), "."),
    )
    cases = [(torch.ones(3),), (torch.zeros(3),)]
    exercise = dataclasses.replace(
        find("98.weights"), solution=noisy, reference=None, cases=cases, misconceptions=wrong
    )
    assert examine(exercise, also_noisy).passed


def test_the_default_dtype_is_put_back():
    def answer(scores, scale):
        torch.set_default_dtype(torch.float64)
        return right(scores, scale)

    verdict = examine(find("98.weights"), answer)
    assert "`set_default_dtype`" in verdict.message
    assert torch.get_default_dtype() == torch.float32


@contextlib.contextmanager
def default(get, set_, value, before):
    assert get() != value
    set_(value)
    try:
        yield
        assert get() == value, "the notebook's own setting stays"
    finally:
        set_(before)


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default device": lambda: default(
        torch.get_default_device, torch.set_default_device, torch.device("meta"), None
    ),
    "default dtype": lambda: default(
        torch.get_default_dtype, torch.set_default_dtype, torch.float64, torch.float32
    ),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_mode_of_the_notebook_makes_no_right_answer_wrong(learner, mode, capsys):
    cells = {
        "02.scores": """
            import torch
            def scaled_scores(query, key):
                return query @ key.transpose(-2, -1) * torch.tensor(query.shape[-1] ** -0.5)
            """,
        "98.projection": """
            import torch
            class Projection(torch.nn.Module):
                def __init__(self, d_in, d_out):
                    super().__init__()
                    self.linear = torch.nn.Linear(d_in, d_out, bias=False)
                def forward(self, x):
                    return self.linear(x.float())
            """,
    }
    for exercise_id, cell in cells.items():
        answer = learner(cell)[find(exercise_id).name]
        with mode():
            assert check(exercise_id, answer) is answer
        assert "Kept for later lessons" in capsys.readouterr().out


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_a_lesson_s_file_is_read_the_same_in_every_mode(mode, monkeypatch, tmp_path):
    (tmp_path / "lesson_97.py").write_text(
        "import torch\nEXERCISES, QUIZ, MADE = (), (), torch.ones(2)\n", encoding="utf-8"
    )
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    with mode():
        exercises_of("97")
    made = sys.modules.pop("course_lib.exercises.lesson_97").MADE
    assert (made.device.type, made.dtype, made.is_inference()) == ("cpu", torch.float32, False)


REPLACED = [
    (torch, "allclose", "torch.allclose"),
    (torch, "softmax", "torch.softmax"),
    (torch.nn.functional, "softmax", "torch.nn.functional.softmax"),
    (torch.Tensor, "softmax", "torch.Tensor.softmax"),
    (torch.Tensor, "__eq__", "torch.Tensor.__eq__"),
    (math, "sqrt", "math.sqrt"),
]


@pytest.mark.parametrize(("place", "name", "shown"), REPLACED)
def test_a_replaced_function_is_named_before_anything_is_judged(monkeypatch, place, name, shown):
    monkeypatch.setattr(place, name, lambda *args, **options: True)
    verdict = examine(find("98.weights"), right)
    assert (verdict.status, verdict.reason) == ("not yet", "replaced")
    assert f"`{shown}` is no longer the original" in verdict.message
    exec(verdict.code)  # what the message says to run
    assert replaced_functions() == []
    assert examine(find("98.weights"), right).passed


def test_a_function_replaced_by_the_answer_itself_is_told_and_put_back():
    original = torch.softmax

    def answer(scores, scale):
        torch.softmax = lambda *args, **options: torch.zeros(1)
        return original(scores * scale, dim=-1)

    verdict = examine(find("98.weights"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", "replaced")
    assert "`torch.softmax`" in verdict.message and torch.softmax is original


def test_a_deleted_function_is_noticed():
    kept = torch.allclose
    del torch.allclose
    try:
        assert "torch.allclose" in replaced_functions()
    finally:
        restore_functions()
    assert torch.allclose is kept


def test_a_check_of_the_learner_s_own_making_records_nothing():
    names = {}
    exec("check = lambda exercise_id, answer: print('PASSED')", names)
    names["check"]("98.weights", right)
    assert read()["exercises"] == {}
    check("98.weights", lambda scores, scale: None)
    assert read()["exercises"]["98.weights"]["passes"] == 0


@pytest.mark.parametrize("name", ["__repr__", "__str__", "__format__"])
def test_what_only_changes_how_a_tensor_looks_is_no_fault(monkeypatch, name):
    monkeypatch.setattr(torch.Tensor, name, lambda *args: "lovely")
    assert examine(find("98.weights"), right).passed


def test_what_torch_compile_replaces_is_no_fault():
    import torch._dynamo  # noqa: F401

    assert replaced_functions() == []
