"""The chain of products that wait: counted where it is known, and of one length for attention."""

import pytest
import torch
from torch import nn

from course_lib.model.attention import attention
from course_lib.model.waiting import longest_chain
from course_lib.runtime import CourseError


@pytest.mark.parametrize("depth", [1, 2, 5, 2003])
def test_products_in_a_row_are_counted_however_many(depth):
    matrix, result = torch.eye(3, requires_grad=True), torch.ones(2, 3)
    for _ in range(depth):
        result = (result @ matrix).tanh() + 1
    assert longest_chain(result) == depth


def test_products_side_by_side_do_not_wait():
    a, b, c = torch.randn(3, 3, 3, requires_grad=True)
    assert longest_chain((a @ b) + (b @ c) + (c @ a)) == 1
    assert longest_chain((a @ b @ c) + (b @ c)) == 2


def test_no_product_is_no_chain():
    assert longest_chain(torch.ones(3, requires_grad=True).exp().sum()) == 0


@pytest.mark.parametrize("length", [2, 7, 31])
def test_a_recurrent_chain_grows_with_the_text_and_attention_s_does_not(length):
    cell, projections = nn.RNNCell(5, 5), [nn.Linear(5, 5) for _ in range(3)]
    x, state = torch.randn(2, length, 5), torch.zeros(2, 5, requires_grad=True)
    for t in range(length):
        state = cell(x[:, t], state)
    assert longest_chain(state) == length
    output, _ = attention(*(projection(x) for projection in projections))
    assert longest_chain(output) == 3  # key, score, mixture


def test_a_result_that_remembers_nothing_is_refused():
    with pytest.raises(CourseError, match="does not remember what it was made from"):
        longest_chain(torch.ones(2, 2) @ torch.ones(2, 2))
