"""Exercises that the tests of the engine answer, rightly and wrongly."""

import torch
from torch import Tensor, nn

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value


def row_weights(scores: Tensor, scale: float) -> Tensor:
    """Weights of each row. scores: (query, key) -> (query, key)."""
    return torch.softmax(scores * scale, dim=-1)


def _cases():
    generator = torch.Generator().manual_seed(98)
    return [
        (torch.randn(5, 7, generator=generator), 1.0),
        (torch.randn(3, 3, generator=generator), 0.5),
        (torch.randn(11, 2, generator=generator), 2.0),
    ]


def _over_queries(scores, scale):
    return torch.softmax(scores * scale, dim=0)


def _no_scale(scores, scale):
    return torch.softmax(scores, dim=-1)


def _transposed(scores, scale):
    return torch.softmax(scores * scale, dim=-1).T


WEIGHTS = Exercise(
    id="98.weights",
    title="Weights of each row",
    stars=1,
    minutes=5,
    solution=row_weights,
    cases=_cases,
    hints=("Which axis must sum to 1?", "`dim=-1` is the last axis."),
    misconceptions=(
        Misconception(
            "over queries", _over_queries, "Your *columns* sum to 1, not your rows: `dim=0`."
        ),
        Misconception("no scale", _no_scale, "The scores went in without `scale`."),
        Misconception("transposed", _transposed, "Rows and columns of your result are swapped."),
    ),
    why="Each query divides one unit of attention among the keys, so each row sums to 1.",
)

COUNT = Exercise(
    id="98.count",
    title="How many weights?",
    stars=1,
    minutes=2,
    solution=value("answer = 5 * 7"),
    hints=("Each query has one weight for each key.", "Multiply."),
    misconceptions=(
        Misconception("sum", 12, "You added the two numbers; each query meets *each* key."),
        Misconception("queries only", 5, "That is the number of queries alone."),
    ),
    why="Five queries meet seven keys each.",
)


class Projection(nn.Module):
    """A linear map without bias. forward: (position, d_in) -> (position, d_out)."""

    def __init__(self, d_in: int, d_out: int):
        super().__init__()
        self.linear = nn.Linear(d_in, d_out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(position, d_in) -> (position, d_out)."""
        return self.linear(x)


class _Doubled(Projection):
    def forward(self, x):
        return 2 * self.linear(x)


class _Detached(Projection):
    def forward(self, x):
        return self.linear(x) + x.sum() * 0 + 1


PROJECTION = Exercise(
    id="98.projection",
    title="A linear map",
    stars=2,
    minutes=10,
    solution=Projection,
    cases=lambda: [((3, 5), (torch.ones(2, 3),)), ((7, 2), (torch.ones(11, 7),))],
    hints=("nn.Linear has a bias unless told otherwise.", "bias=False"),
    misconceptions=(
        Misconception("doubled", _Doubled, "The result is twice as large as it should be."),
        Misconception("bias", _Detached, "A one was added: there is no bias here."),
    ),
    why="A linear map without bias keeps zero at zero.",
)

EXERCISES = (WEIGHTS, COUNT, PROJECTION)

QUIZ = (
    Question(
        "What sums to 1?",
        (
            Choice("Each row", True, "Each query divides one unit among the keys."),
            Choice("Each column", False, "A key may be read by all queries, or by none."),
            Choice("Nothing", False, "Softmax makes positive numbers that sum to 1."),
        ),
    ),
    Question(
        "Which of these are sizes of a score matrix of 5 tokens?",
        (
            Choice("5 × 5", True, "One score for each pair."),
            Choice("25 entries", True, "5 × 5 = 25."),
            Choice("5 × d_model", False, "That is the shape of the queries."),
        ),
    ),
)
