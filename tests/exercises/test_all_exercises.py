"""Every exercise of the course: stub, solution, misconceptions, and references against torch.

The lessons name the exercises; the library must have exactly these, so that an empty registry does
not pass for want of anything to test.
"""

import ast
import collections

import pytest
import torch

from course_lib.exercises import all_exercises, quiz_of, solution_source
from course_lib.exercises.judge import examine
from course_lib.exercises.registry import lessons
from course_lib.exercises.trial import named_arguments, run_case
from tools.lesson_source import lesson_paths, read_lesson

EXERCISES = all_exercises()
LESSONS = {path.name[:2]: read_lesson(path) for path in lesson_paths()}
STUBS = {
    cell.course["exercise"]: (lesson, cell)
    for lesson in LESSONS.values()
    for cell in lesson.cells
    if "exercise" in cell.tags
}
MISCONCEPTIONS = [(e, m) for e in EXERCISES for m in e.misconceptions]
QUIZZES = [lesson for lesson in lessons() if lesson in LESSONS]

each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)


def imports_of(lesson):
    """The names that a lesson's import statements bind."""
    names = {"__name__": "__main__"}
    for cell in lesson.cells:
        for node in cell.tree.body if cell.kind == "code" else ():
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                exec(compile(ast.Module([node], []), "<imports>", "exec"), names)
    return names


def test_the_exercises_are_those_of_the_lessons():
    assert LESSONS and EXERCISES
    assert sorted(exercise.id for exercise in EXERCISES) == sorted(STUBS)


@each_exercise
def test_the_stub_is_not_attempted(exercise):
    lesson, cell = STUBS[exercise.id]
    names = imports_of(lesson)
    exec(compile(cell.source, "<stub>", "exec"), names)
    assert examine(exercise, names[exercise.name]).status == "not attempted"


@each_exercise
def test_the_solution_passes_from_its_source(exercise):
    """As in the solved edition: the source is a new function, in the lesson's own namespace."""
    names = imports_of(STUBS[exercise.id][0])
    names |= {other.name: other.right_answer() for other in EXERCISES if other.id != exercise.id}
    exec(compile(solution_source(exercise.id), "<solution>", "exec"), names)
    verdict = examine(exercise, names[exercise.name])
    assert verdict.passed, verdict
    assert verdict.printed == ""


@pytest.mark.parametrize(
    ("exercise", "misconception"), MISCONCEPTIONS, ids=lambda x: getattr(x, "id", None) or x.name
)
def test_a_misconception_is_refused_in_its_own_words(exercise, misconception):
    answer = misconception.implementation
    verdict = examine(exercise, answer)
    assert verdict.status == "not yet"
    assert verdict.misconception == misconception.name
    assert verdict.message == misconception.explanation


@each_exercise
def test_sizes_are_distinct_primes_so_that_a_swapped_axis_cannot_pass(exercise):
    """Sizes are primes, and each tensor has, in some case, axes that all differ."""
    told_apart = collections.defaultdict(bool)
    for case in exercise.fresh_cases() if exercise.kind != "value" else ():
        for name, argument in named_arguments(exercise, case):
            if isinstance(argument, torch.Tensor):
                sizes = [size for size in argument.shape if size > 1]
                assert all(is_prime(size) for size in sizes), (name, argument.shape)
                told_apart[name] |= len(set(sizes)) == len(sizes)
    assert all(told_apart.values()), dict(told_apart)


def is_prime(number):
    return number > 1 and all(number % divisor for divisor in range(2, number))


@each_exercise
def test_the_solution_leaves_its_arguments_and_the_seed_alone(exercise):
    if exercise.kind == "value":
        return
    torch.manual_seed(1)
    before = torch.get_rng_state()
    for case, fresh in zip(exercise.fresh_cases(), exercise.fresh_cases(), strict=True):
        run_case(exercise, exercise.reference, case)
        for (name, used), (_, new) in zip(
            named_arguments(exercise, case), named_arguments(exercise, fresh), strict=True
        ):
            if isinstance(used, torch.Tensor):
                assert torch.equal(used, new), name
    if exercise.kind == "function":
        assert torch.equal(before, torch.get_rng_state())


@each_exercise
def test_cases_differ_and_are_the_same_each_time(exercise):
    if exercise.kind == "value":
        return
    first, second = exercise.fresh_cases(), exercise.fresh_cases()
    assert repr(first) == repr(second)
    assert len({repr(case) for case in first}) == len(first)


def test_no_two_titles_or_hints_are_the_same():
    for texts in ([e.title for e in EXERCISES], [hint for e in EXERCISES for hint in e.hints]):
        assert [t for t, count in collections.Counter(texts).items() if count > 1] == []


@pytest.mark.parametrize("lesson", QUIZZES)
def test_a_quiz_has_four_to_six_questions_with_a_reason_for_each_choice(lesson):
    questions = quiz_of(lesson)
    (cell,) = [cell for cell in LESSONS[lesson].cells if "quiz" in cell.tags]
    assert cell.course["quiz"] == len(questions)
    assert 4 <= len(questions) <= 6
    for question in questions:
        assert len(question.choices) >= 2 and 0 < len(question.right) < len(question.choices)
        reasons = [choice.reason for choice in question.choices]
        assert all(len(reason.split()) >= 3 for reason in reasons)
        assert len(set(reasons)) == len(reasons)


def test_no_place_in_a_quiz_is_a_safe_guess():
    """Choices are shown in their order here: who always takes the second is right now and then."""
    questions = [question for lesson in QUIZZES for question in quiz_of(lesson)]
    places = [min(question.right) for question in questions if len(question.right) == 1]
    assert len(places) > 50
    assert max(collections.Counter(places).values()) <= 0.45 * len(places)
