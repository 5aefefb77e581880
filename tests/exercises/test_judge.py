"""What is said of an answer, one kind of answer after the other."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest
import torch

from course_lib.exercises.describe import say_type
from course_lib.exercises.judge import examine
from course_lib.exercises.model import Misconception
from course_lib.exercises.registry import find


def right(scores, scale):
    return torch.softmax(scores * scale, dim=-1)


def turned(into):
    """The right result, turned into something else."""
    return lambda scores, scale: into(right(scores, scale))


class Lying(torch.Tensor):
    """A tensor that says it is equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = None


class AlwaysEqual:
    shape, dtype = (5, 7), torch.float32

    def __eq__(self, other):
        return True

    __hash__ = None


WRONG = [
    # what the answer gives, the reason, words of the message
    (turned(lambda r: None), "type", "is a `return` missing"),
    (turned(lambda r: r.numpy()), "type", "NumPy `ndarray`"),
    (turned(lambda r: r.tolist()), "type", "Python list of 5"),
    (turned(lambda r: (r,)), "type", "Python tuple of 1"),
    (turned(lambda r: 0.5), "type", "a number (float)"),
    (turned(lambda r: 1), "type", "a whole number (int)"),
    (turned(lambda r: True), "type", "`True` or `False`"),
    (turned(lambda r: 1j), "type", "a complex number"),
    (turned(lambda r: "weights"), "type", "text (str)"),
    (turned(lambda r: r.softmax), "type", "are the brackets missing"),
    (turned(lambda r: r.as_subclass(Lying)), "type", "`Lying`, a kind of its own"),
    (turned(lambda r: AlwaysEqual()), "type", "`AlwaysEqual`"),
    (turned(lambda r: numpy.float64(0.5)), "type", "NumPy `float64`"),
    (turned(lambda r: r.to("meta")), "type", "meta tensor"),
    (turned(lambda r: r.to_sparse()), "type", "layout `torch.sparse_coo`"),
    (turned(lambda r: r.sum()), "shape", "One number is left"),
    (turned(lambda r: r[:1]), "shape", "Look at axis 0"),
    (turned(lambda r: r[None]), "shape", "Only axes of size 1 differ"),
    (turned(lambda r: r[0]), "shape", "1 axes, fewer than the 2"),
    (turned(lambda r: r.flip(0).T), "shape", "two axes are swapped"),
    (turned(lambda r: r.double()), "dtype", "torch.float64"),
    (turned(lambda r: r.half()), "dtype", "Half precision"),
    (turned(lambda r: r.bfloat16()), "dtype", "bfloat16 keeps"),
    (turned(lambda r: r.long()), "dtype", "Whole numbers lose"),
    (turned(lambda r: r > 0.5), "dtype", "A comparison gives"),
    (turned(lambda r: r.to(torch.complex64)), "dtype", "Complex numbers come from"),
    (turned(lambda r: r * math.nan), "nan", "35 of 35 entries are NaN, the first at `[0, 0]`"),
    (turned(lambda r: r + 0.001), "values", "35 of 35 entries differ"),
    (turned(lambda r: r + math.inf), "values", "got `inf`"),
    (turned(lambda r: r.requires_grad_()), "gradient", "leave out `Parameter`"),
    (turned(lambda r: torch.nn.Parameter(r)), "gradient", "leave out `Parameter`"),
]


@pytest.mark.parametrize(("answer", "reason", "words"), WRONG, ids=lambda x: str(x)[:24])
def test_each_kind_of_wrong_answer_has_its_own_message(answer, reason, words):
    verdict = examine(find("98.weights"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", reason)
    assert words in verdict.message


def test_all_these_messages_are_different():
    messages = [examine(find("98.weights"), answer).message for answer, _, _ in WRONG]
    assert len(set(messages)) == len(messages) - 1  # Parameter and requires_grad say the same


def test_the_right_answer_passes():
    assert examine(find("98.weights"), right).passed


def test_one_wrong_entry_is_found_and_shown():
    def answer(scores, scale):
        weights = right(scores, scale)
        if scores.shape == (11, 2):
            weights[4, 1] += 0.25
        return weights

    verdict = examine(find("98.weights"), answer)
    assert "1 of 22 entries differ from the expected; the first at `[4, 1]`" in verdict.message
    assert "The largest difference is `0.25`" in verdict.message
    assert verdict.facts == ("Seen in case 3 of 3, with scores (11, 2), scale=2.0.",)


def test_an_exercise_may_say_itself_what_its_case_shows():
    def shown(scores, scale):
        return f"{scores.numel()} scores, times {scale}"

    exercise = dataclasses.replace(find("98.weights"), shown=shown)
    verdict = examine(exercise, turned(lambda r: r + 1))
    assert verdict.facts == ("Seen in case 1 of 3, with 35 scores, times 1.0.",)


def test_a_difference_below_the_tolerance_passes_and_above_does_not():
    assert examine(find("98.weights"), turned(lambda r: r + 1e-6)).passed
    assert not examine(find("98.weights"), turned(lambda r: r + 3e-5)).passed


def test_nothing_yet_comes_before_everything_else():
    assert examine(find("98.weights"), None).status == "not attempted"
    assert examine(find("98.count"), None).status == "not attempted"


def test_an_earlier_reason_is_shown_though_it_comes_in_a_later_case():
    def answer(scores, scale):
        weights = right(scores, scale)
        return weights + 1 if scores.shape == (5, 7) else weights[:1]

    assert examine(find("98.weights"), answer).reason == "shape"


def test_the_course_s_own_function_is_not_an_answer():
    verdict = examine(find("98.weights"), find("98.weights").right_answer())
    assert (verdict.status, verdict.reason) == ("not attempted", "handed back")


@pytest.mark.parametrize("name", ["over queries", "no scale", "transposed"])
def test_a_misconception_is_told_in_its_own_words(name):
    exercise = find("98.weights")
    wrong = next(m for m in exercise.misconceptions if m.name == name)
    verdict = examine(exercise, lambda scores, scale: wrong.implementation(scores, scale))
    assert (verdict.reason, verdict.misconception) == ("misconception", name)
    assert verdict.message == wrong.explanation


def test_a_misconception_of_another_shape_tells_the_shapes_too():
    verdict = examine(find("98.weights"), turned(lambda r: r.T))
    assert verdict.misconception == "transposed"
    assert any("shape `(7, 5)`; expected is `(5, 7)`" in fact for fact in verdict.facts)


def test_a_misconception_in_one_case_only_is_not_that_misconception():
    def answer(scores, scale):
        return torch.softmax(scores * scale, dim=0 if scores.shape == (5, 7) else -1)

    assert examine(find("98.weights"), answer).reason == "values"


def test_an_answer_that_ignores_its_arguments_is_asked_about_the_notebook_s_variables():
    scores_of_the_notebook = torch.ones(5, 7)
    verdict = examine(find("98.weights"), lambda scores, scale: scores_of_the_notebook)
    assert (verdict.status, verdict.reason) == ("not yet", "constant")
    assert "the same result whatever it is given" in verdict.message
    assert verdict.facts[0].startswith("The result has shape `(5, 7)`; expected is `(3, 3)`")
    assert verdict.facts[1].startswith("Seen in case 2 of 3")


def test_a_result_that_must_be_the_same_is_not_asked_about():
    def ones(x):
        return torch.ones(3)

    wrong = (Misconception("a", lambda x: x, "."), Misconception("b", lambda x: -x, "."))
    exercise = dataclasses.replace(
        find("98.weights"),
        solution=ones,
        reference=None,
        cases=[(torch.zeros(3),), (torch.full((3,), 2.0),)],
        misconceptions=wrong,
    )
    assert examine(exercise, lambda x: torch.full((3,), 5.0)).reason == "values"


def test_a_result_instead_of_the_function_is_told():
    verdict = examine(find("98.weights"), torch.ones(5, 7))
    assert verdict.reason == "type" and "without calling it" in verdict.message


def test_wrong_parameters_are_told():
    verdict = examine(find("98.weights"), lambda scores: scores)
    assert verdict.reason == "type" and "`(scores, scale)`" in verdict.message


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (5, "misconception", "number of queries alone"),
        (12, "misconception", "You added"),
        (36, "values", "`answer = 36` is not the value"),
        (35.0, "type", "a number (float)"),
        (True, "type", "`True` or `False`"),
        (torch.tensor(35), "type", "`.item()`"),
        (numpy.int64(35), "type", "NumPy"),
        ("35", "type", "text (str)"),
        (AlwaysEqual(), "type", "AlwaysEqual"),
    ],
)
def test_wrong_values(answer, reason, words):
    verdict = examine(find("98.count"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", reason)
    assert words in verdict.message


def test_a_wrong_value_does_not_give_the_answer_away():
    assert "35" not in str(examine(find("98.count"), 36))


def test_the_right_value_passes():
    assert examine(find("98.count"), 35).passed


def module(change=lambda x: x, **options):
    class Projection(torch.nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.linear = torch.nn.Linear(d_in, d_out, **({"bias": False} | options))

        def forward(self, x):
            return change(self.linear(x))

    return Projection


def test_a_module_is_filled_with_the_reference_s_numbers():
    assert examine(find("98.projection"), module()).passed


def test_what_a_constructor_draws_for_itself_changes_nothing():
    class Projection(module()):
        def __init__(self, d_in, d_out):
            torch.rand(17)
            super().__init__(d_in, d_out)
            torch.nn.init.zeros_(self.linear.weight)

        def forward(self, x):
            noise = torch.rand(3)
            return super().forward(x) + 0 * noise.sum()

    assert examine(find("98.projection"), Projection).passed


def test_dropout_falls_on_the_same_places_whatever_the_constructor_drew():
    class Dropping(module()):
        def forward(self, x):
            return torch.nn.functional.dropout(super().forward(x), 0.5)

    class Own(Dropping):
        def __init__(self, d_in, d_out):
            super().__init__(d_in, d_out)
            torch.rand(5)

    exercise = dataclasses.replace(find("98.projection"), solution=Dropping, reference=None)
    assert examine(exercise, Own).passed


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (module(bias=True), "type", "`linear.bias (5,)`"),
        (module(lambda y: y.detach()), "gradient", "no gradient flows back"),
        (module(lambda y: 2 * y), "misconception", "twice as large"),
        (torch.nn.Linear(3, 5), "type", "the class `Projection` itself"),
        (type("Projection", (), {"__init__": lambda self, a, b: None}), "type", "(nn.Module)"),
    ],
)
def test_wrong_modules(answer, reason, words):
    verdict = examine(find("98.projection"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", reason)
    assert words in verdict.message


def test_gradients_of_a_tuple_are_looked_at_part_by_part():
    def both(x):
        return x * 2, x * 3

    wrong = (Misconception("a", lambda x: (x, x), "."), Misconception("b", lambda x: (x, -x), "."))
    cases = [(torch.ones(3, requires_grad=True),), (torch.ones(5, requires_grad=True),)]
    exercise = dataclasses.replace(
        find("98.weights"), solution=both, reference=None, cases=cases, misconceptions=wrong
    )
    assert examine(exercise, lambda x: (2 * x, 3 * x)).passed
    verdict = examine(exercise, lambda x: (2 * x, (3 * x).detach()))
    assert (verdict.reason, "no gradient flows back" in verdict.message) == ("gradient", True)


def detached_divisor(scores):
    exponentials = scores.exp()
    return exponentials / exponentials.detach().sum(-1, keepdim=True)


def all_detached(scores):
    weights = scores.detach().exp()
    return weights / weights.sum(-1, keepdim=True) + 0 * scores


@pytest.mark.parametrize("answer", [detached_divisor, all_detached])
def test_right_numbers_with_a_wrong_gradient_do_not_pass(answer):
    verdict = examine(find("02.weights"), answer)
    assert (verdict.status, verdict.reason) == ("not yet", "gradient")
    assert "respect to the argument `scores` is not (210 of 210 entries of it)" in verdict.message
    assert "`.detach()`" in verdict.message and verdict.facts[0].startswith("Seen in case 5 of 5")


def max_subtracted(scores):
    exponentials = (scores - scores.max(-1, keepdim=True).values).exp()
    return exponentials / exponentials.sum(-1, keepdim=True)


@pytest.mark.parametrize("answer", [max_subtracted, lambda scores: scores.softmax(-1)])
def test_another_way_to_the_same_gradient_passes(answer):
    assert examine(find("02.weights"), answer).passed


def test_a_parameter_that_would_not_learn_is_named():
    class Frozen(module()):
        def forward(self, x):
            return x @ self.linear.weight.detach().T + 0 * self.linear(x)

    class Stopped(module()):
        def __init__(self, d_in, d_out):
            super().__init__(d_in, d_out)
            self.more = torch.zeros(1, requires_grad=True)
            self.linear.weight.requires_grad_(False)

        def forward(self, x):
            return self.linear(x) + self.more

    for answer in (Frozen, Stopped):
        verdict = examine(find("98.projection"), answer)
        assert (verdict.status, verdict.reason) == ("not yet", "gradient")
        assert "with respect to the parameter `linear.weight` is not (15 of 15" in verdict.message


def test_a_way_back_that_fails_is_told():
    def cut(scores):
        exponentials = scores.exp()
        total = exponentials.sum(-1, keepdim=True)
        result = exponentials / total
        exponentials.mul_(2)
        return result

    verdict = examine(find("02.weights"), cut)
    assert verdict.reason == "gradient" and "changed in place" in verdict.message


def test_the_way_back_is_under_the_time_limit_too():
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            while True:
                pass

    exercise = dataclasses.replace(find("02.weights"), seconds=0.5)
    verdict = examine(exercise, lambda scores: Slow.apply(torch.softmax(scores, -1)))
    assert (verdict.reason, "It was stopped" in verdict.message) == ("time", True)


@pytest.mark.parametrize(
    ("expected", "got", "words"),
    [
        (0.5, "0.5", "quotation marks"),
        (0.5, (0, 5), "decimals have a point"),
        (0.5, [0.5], "square brackets"),
        (0.5, Fraction(1, 2), "Use `float(...)`"),
        (0.5, Decimal("0.5"), "Use `float(...)`"),
        (0.5, torch.tensor(0.5), ".item()"),
        ((0.5, 0.5), torch.ones(2), "Return all 2 parts"),
        ((0.5, 0.5), [0.5, 0.5], "without square brackets makes a tuple"),
    ],
)
def test_a_wrong_type_comes_with_the_remedy_for_it(expected, got, words):
    assert words in say_type(expected, got)


def test_a_whole_number_is_as_good_as_a_decimal_one():
    answer = find("00.even").solution.expected
    assert examine(find("00.even"), 63).misconception == "the number of characters"
    assert examine(find("00.even"), True).reason == "type", "True is no number"
    assert answer == 1 / 63 and examine(find("00.even"), answer).status == "passed"


def test_a_float_of_numpy_is_as_good_as_python_s():
    class Claims(float):
        def __float__(self):
            return 1 / 63

    assert examine(find("00.even"), numpy.float64(1) / 63).passed
    assert examine(find("00.even"), numpy.float64(1) / 26).misconception == "letters only"
    assert not examine(find("00.even"), Claims(0.3)).passed


def test_two_decimals_of_a_small_number_are_too_few():
    assert examine(find("00.even"), 0.02).misconception == "rounded too far"


def test_a_result_that_cannot_be_looked_into_is_still_told_by_its_type():
    class Closed(torch.Tensor):
        @classmethod
        def __torch_function__(cls, *arguments, **options):
            raise RuntimeError("closed")

    endless = []
    endless.append(endless)
    for result in (right(torch.ones(5, 7), 1.0).as_subclass(Closed), endless):
        assert examine(find("98.weights"), lambda scores, scale, it=result: it).reason == "type"
