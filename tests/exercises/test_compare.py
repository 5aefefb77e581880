"""The comparison against torch's own, and its laws."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.exercises.compare import difference, same, unchanged
from course_lib.runtime import CourseError

floats = st.sampled_from([0.0, 1.0, 1 + 1e-6, math.inf, -math.inf, math.nan]) | st.floats(width=32)
lists = st.lists(floats, min_size=3, max_size=3)


@given(lists, lists)
def test_tensors_are_equal_when_torch_says_so(a, b):
    """Oracle: torch.allclose with the same rule, NaN in the same places counting as equal."""
    one, other = torch.tensor(a), torch.tensor(b)
    wide = one.double(), other.double()
    finite = [x.nan_to_num(0.5, 0.5, 0.5) for x in wide]
    special = all(
        torch.equal(test(wide[0]), test(wide[1]))
        for test in (torch.isnan, torch.isposinf, torch.isneginf)
    )
    close = torch.allclose(finite[1], finite[0], rtol=1e-5, atol=1e-5)
    assert (difference(one, other, 1e-5) is None) == (special and close)


@pytest.mark.parametrize(
    ("expected", "got", "kind"),
    [
        ((1, 2), (1, 2), None),
        ((1, 2), [1, 2], "type"),
        ((1, 2), (1, 2, 3), "shape"),
        ((1, torch.ones(2)), (1, torch.ones(3)), "shape"),
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {"b": 1}, "shape"),
        ({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}, None),
        ({"a": (1, 2.0)}, {"a": (1, 2.5)}, "values"),
        ("text", "text", None),
        ("text", "test", "values"),
        (2.0, 2.0 + 1e-6, None),
        (2.0, 2.1, "values"),
        (2.0, math.nan, "nan"),
        (math.nan, math.nan, None),
        (math.inf, math.inf, None),
        (math.inf, -math.inf, "values"),
        (1000, 1001, "values"),
        (1j, 1j, None),
        (True, False, "values"),
        (True, 1, "type"),
        (torch.tensor([2**53, 1]), torch.tensor([2**53 + 1, 1]), "values"),
        (torch.tensor([True]), torch.tensor([False]), "values"),
        (torch.tensor([1j]), torch.tensor([1j]), None),
        (torch.tensor([1j]), torch.tensor([2j]), "values"),
        (torch.tensor([-math.inf]), torch.tensor([0.0]), "values"),
        (torch.tensor([-math.inf]), torch.tensor([-math.inf]), None),
        (torch.tensor([0.0]), torch.tensor([math.inf]), "values"),
        (torch.tensor([]), torch.tensor([]), None),
        (torch.tensor(3.0), torch.tensor(4.0), "values"),
    ],
)
def test_parts_are_compared_by_their_kinds(expected, got, kind):
    found = difference(expected, got, 1e-5)
    assert (found and found.kind) == kind


def test_a_part_is_named():
    found = difference((1, [torch.ones(2)]), (1, [torch.zeros(2)]), 1e-5)
    assert "2 of 2 entries of part `[1][0]` differ" in found.message
    found = difference({"mode": "on", "loss": (1.0,)}, {"loss": (2.0,), "mode": "on"}, 1e-5)
    assert found.message == "Expected of part `['loss'][0]` `1`, got `2`."


def test_the_earliest_reason_of_all_parts_is_told():
    found = difference((1.0, torch.ones(2)), (2.0, torch.ones(3)), 1e-5)
    assert found.kind == "shape"


def test_an_expected_result_that_cannot_be_compared_is_the_author_s_mistake():
    with pytest.raises(CourseError, match="let the exercise's call return"):
        difference({1, 2}, {1, 2}, 1e-5)


def test_the_same_includes_nothing_at_all():
    assert same(None, None) and not same(None, 0) and same((None, 1), (None, 1))
    assert same({"a": None}, {"a": None}) and not same({"a": None}, {"b": None})
    assert not same({"a": None}, [None]) and not same({"a": None}, {"a": None, "b": 1})
    assert not same({1}, {1})  # sets cannot be compared, so they never count as the same


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (torch.zeros(2), torch.ones(2)),
        (torch.zeros(2), torch.zeros(3)),
        (torch.zeros(2), torch.zeros(2, requires_grad=True)),
        ([1], [1, 2]),
        ({"a": torch.zeros(2)}, {"a": torch.ones(2)}),
        ((1, [2]), (1, [3])),
        ([torch.zeros(2)], [5]),
        ("a", "b"),
    ],
)
def test_what_changed_is_seen(before, after):
    assert not unchanged(before, after) and unchanged(before, before)


def test_a_module_that_was_changed_is_seen():
    before, after = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3)
    assert unchanged(before, before) and not unchanged(before, after)
    assert unchanged(torch.tensor([math.nan]), torch.tensor([math.nan]))
