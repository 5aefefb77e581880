import dataclasses

import pytest

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value
from course_lib.exercises.registry import find
from course_lib.runtime import CourseError


def changed(**fields):
    return dataclasses.replace(find("98.weights"), reference=None, **fields)


@pytest.mark.parametrize("cases", [(), list, lambda: iter(())])
def test_an_exercise_without_cases_is_an_error(cases):
    with pytest.raises(CourseError, match="has 0 cases; a check needs two or more"):
        changed(cases=cases)


def test_one_case_is_too_few():
    with pytest.raises(CourseError, match="has 1 cases"):
        changed(cases=[(1, 2)])


def test_a_case_that_is_no_tuple_is_refused():
    with pytest.raises(CourseError, match=r"no tuple of arguments; write \(x,\)"):
        changed(cases=[1, 2])


@pytest.mark.parametrize(
    "wrong", ["weights", "2.weights", "02.Weights", "02/../x", "02.", "02.a b"]
)
def test_ids_that_could_not_name_a_section_are_refused(wrong):
    with pytest.raises(CourseError, match="is not a lesson number, a dot and a name"):
        changed(id=wrong)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hints": ("one",)}, "at least two hints"),
        ({"hints": "not a tuple"}, "at least two hints"),
        ({"misconceptions": ()}, "two or more misconceptions"),
        ({"why": " "}, "has no why"),
        ({"title": ""}, "has no title"),
        ({"stars": 0}, "stars=0"),
        ({"minutes": 0}, "minutes=0"),
    ],
)
def test_an_exercise_with_a_gap_is_refused(fields, message):
    with pytest.raises(CourseError, match=message):
        changed(**fields)


def test_two_misconceptions_of_one_name_are_refused():
    twice = (Misconception("same", len, "x"), Misconception("same", abs, "y"))
    with pytest.raises(CourseError, match="names of their own"):
        changed(misconceptions=twice)


def test_a_misconception_must_be_what_the_solution_is():
    mixed = (Misconception("a value", 3, "x"), Misconception("a function", len, "y"))
    with pytest.raises(CourseError, match="'a value' must be a function like the solution"):
        changed(misconceptions=mixed)
    with pytest.raises(CourseError, match="'a function' must be a value like the solution"):
        dataclasses.replace(find("98.count"), misconceptions=mixed)


@pytest.mark.parametrize("source", ["", "2 * 3", "answer = 2\nprint(answer)"])
def test_the_source_of_a_value_ends_in_an_assignment(source):
    with pytest.raises(CourseError, match="does not end in an assignment"):
        value(source)


def test_a_value_without_expected_value_is_an_error():
    with pytest.raises(CourseError, match="no expected value"):
        value("answer = None")


def test_a_value_knows_torch_math_and_what_is_given():
    solution = value("size = 2\nanswer = math.sqrt(16) + torch.ones(size).sum() + more", more=1)
    assert (solution.name, solution.expected.item()) == ("answer", 7)


def test_a_value_has_no_cases():
    with pytest.raises(CourseError, match="a value has no cases"):
        dataclasses.replace(find("98.count"), cases=[(1,), (2,)])


def test_cases_are_new_each_time():
    exercise = find("98.weights")
    exercise.fresh_cases()[0][0].zero_()
    assert exercise.fresh_cases()[0][0].abs().sum() > 0


@pytest.mark.parametrize("rights", [(True, True), (False, False)])
def test_a_question_needs_a_right_and_a_wrong_choice(rights):
    with pytest.raises(CourseError, match="at least one right and one wrong"):
        Question("?", tuple(Choice("a", right, "because") for right in rights))


def test_a_choice_needs_a_reason():
    with pytest.raises(CourseError, match="has no reason"):
        Question("?", (Choice("a", True, "because"), Choice("b", False, " ")))


def test_kinds_and_names():
    found = {name: find(f"98.{name}") for name in ("weights", "count", "projection")}
    assert {e.kind for e in found.values()} == {"function", "value", "class"}
    assert [e.name for e in found.values()] == ["row_weights", "answer", "Projection"]
    assert isinstance(found["count"], Exercise)
