"""How queries and keys are turned in a cached pass; test_cache.py holds the whole to the model."""

import torch

from course_lib.model.positions import RotaryPositions, turn
from course_lib.model.step import side_by_side, turn_pairs


def test_pairs_side_by_side_are_turned_alike():
    heads = torch.randn(2, 3, 1, 6, generator=torch.Generator().manual_seed(0))
    cos, sin = RotaryPositions().places(torch.tensor([5]), 6).rotation
    expected = side_by_side(turn(heads, cos, sin))[:, :, 0]
    got = turn_pairs(side_by_side(heads)[:, :, 0], torch.complex(cos[0], sin[0]))
    torch.testing.assert_close(got, expected)
    assert side_by_side(torch.arange(6)).tolist() == [0, 3, 1, 4, 2, 5]
