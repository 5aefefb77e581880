"""Exercises and quiz of lesson 06: sinusoidal vectors, and ALiBi's slopes and penalties."""

import math

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value
from course_lib.model.positions import alibi_slopes as library_slopes


def sinusoidal(positions, d_model):
    """Positions, whole numbers (position,) → their vectors (position, d_model), float32.

    Columns 2i and 2i + 1 hold the sine and the cosine of position / 10000^(2i / d_model).
    d_model is even.
    """
    speeds = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)  # (pair,)
    angles = positions[:, None] * speeds  # (position, pair)
    vectors = torch.zeros(len(positions), d_model)
    vectors[:, 0::2] = angles.sin()
    vectors[:, 1::2] = angles.cos()
    return vectors


def alibi_slopes(n_heads):
    """One positive slope for each head: n_heads, a whole number from 1 on → (head,), float32."""
    power = 2 ** int(math.log2(n_heads))  # the power of two that is not above n_heads
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    of_the_next = [2 ** (-8 * i / (2 * power)) for i in range(1, 2 * power + 1)]
    return torch.tensor(slopes + of_the_next[0::2][: n_heads - power])


def alibi_bias(slopes, query_positions, key_positions):
    """What ALiBi adds to the scores: slopes (head,), positions (query,) and (key,), whole numbers
    → (head, query, key). Minus the head's slope times the distance, in either direction.
    """
    distance = (query_positions[:, None] - key_positions).abs()  # (query, key)
    return -slopes[:, None, None] * distance


def _sinusoidal_cases():
    yield torch.arange(5), 14
    yield torch.tensor([3, 0, 64, 11, 2, 101, 7]), 6  # no 0, 1, 2 …
    yield torch.arange(11), 2
    yield torch.tensor([29, 28]), 22


def _slopes_cases():
    yield from ((n_heads,) for n_heads in (8, 2, 4, 1, 16, 12, 3, 7, 20))


def _bias_cases():
    yield library_slopes(2), torch.arange(5), torch.arange(5)
    yield library_slopes(3), torch.tensor([11, 12]), torch.arange(13)  # the last two of a text
    yield library_slopes(7), torch.tensor([40, 3, 17]), torch.tensor([5, 41, 0, 17, 8])
    yield torch.tensor([0.7, 0.2]), torch.tensor([2]), torch.arange(3)


def _angles(positions, d_model, exponents=None):
    exponents = torch.arange(0, d_model, 2) / d_model if exponents is None else exponents
    return positions[:, None] / 10_000**exponents


def _woven(angles):
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def _numbered_pairs(d_model):
    return torch.arange(d_model // 2)


def _own_speed_for_each_column(positions, d_model):
    angles = _angles(positions, d_model, torch.arange(d_model) / d_model)
    vectors = torch.zeros(len(positions), d_model)
    vectors[:, 0::2], vectors[:, 1::2] = angles[:, 0::2].sin(), angles[:, 1::2].cos()
    return vectors


def _doubled_column_numbers(positions, d_model):
    angles = _angles(positions, d_model, 2 * torch.arange(d_model) / d_model)
    vectors = torch.zeros(len(positions), d_model)
    vectors[:, 0::2], vectors[:, 1::2] = angles[:, 0::2].sin(), angles[:, 1::2].cos()
    return vectors


def _sines_and_zeros(positions, d_model):
    vectors = sinusoidal(positions, d_model)
    vectors[:, 1::2] = 0
    return vectors


def _no_new_axis(positions, d_model):
    speeds = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
    return _woven(positions * speeds)


def _power_below(n_heads):
    return 2 ** int(math.log2(n_heads))


def _sequence(n_heads):
    return [2 ** (-8 * i / n_heads) for i in range(1, n_heads + 1)]


def _between(n_heads, first=0, step=2):
    power = _power_below(n_heads)
    return torch.tensor(_sequence(power) + _sequence(2 * power)[first::step][: n_heads - power])


def _distance(query_positions, key_positions):
    return (query_positions[:, None] - key_positions).abs()


SINUSOIDAL = Exercise(
    id="06.sinusoidal",
    title="A clock with many hands",
    stars=2,
    minutes=8,
    solution=sinusoidal,
    cases=_sinusoidal_cases,
    tolerance=1e-4,
    misconceptions=(
        Misconception(
            "halves in place of pairs",
            lambda positions, d_model: torch.cat(
                [_angles(positions, d_model).sin(), _angles(positions, d_model).cos()], dim=1
            ),
            "All sines come first here, then all cosines. Some programs do so, and the vectors hold the "
            "same numbers; but our columns are pairs: 0 and 1 belong to one speed, 2 and 3 to the next. "
            "`vectors[:, 0::2]` are the even columns.",
        ),
        Misconception(
            "exponents half as large",
            lambda positions, d_model: _woven(
                _angles(positions, d_model, _numbered_pairs(d_model) / d_model)
            ),
            "Your exponents are i / d_model. The formula says 2i / d_model: with i up to d_model/2, they "
            "run through the whole range from 0 to nearly 1, and the slowest hand is nearly 10,000 times "
            "as slow as the first.",
        ),
        Misconception(
            "exponents twice as large",
            lambda positions, d_model: _woven(
                _angles(positions, d_model, torch.arange(0, d_model, 2) / (d_model // 2))
            ),
            "Your exponents are 4i / d_model, up to nearly 2: the 2 is counted twice. Either "
            "`torch.arange(0, d_model, 2) / d_model`, or `torch.arange(d_model // 2) / (d_model // 2)`.",
        ),
        Misconception(
            "exponents up to 1",
            lambda positions, d_model: _woven(
                _angles(positions, d_model, _numbered_pairs(d_model) / max(d_model // 2 - 1, 1))
            ),
            "Your exponents run from 0 to 1 with the ends included. In the formula the last one is "
            "(d_model − 2) / d_model, a little less than 1. (An early program of the paper's authors did "
            "it your way, so you are in good company.)",
        ),
        Misconception(
            "cosine first",
            lambda positions, d_model: torch.stack(
                [_angles(positions, d_model).cos(), _angles(positions, d_model).sin()], dim=-1
            ).flatten(1),
            "Sine and cosine have changed places: the even columns hold the sine. At position 0 every "
            "even column is 0 and every odd one 1.",
        ),
        Misconception(
            "sines only",
            lambda positions, d_model: (
                _angles(positions, d_model).sin().repeat_interleave(2, dim=1)
            ),
            "Every column is a sine. The odd columns hold the cosine of the same angle: a sine alone does "
            "not tell where the hand points, for it takes each value twice in a turn.",
        ),
        Misconception(
            "a speed for each column",
            _own_speed_for_each_column,
            "Each column has a speed of its own here. Columns 2i and 2i + 1 share one, that of 2i: they "
            "are the two coordinates of one hand.",
        ),
        Misconception(
            "column numbers doubled",
            _doubled_column_numbers,
            "You doubled the number of the column. The formula's i counts *pairs*: the column itself is "
            "2i, so the exponent of column 6 is 6 / d_model.",
        ),
        Misconception(
            "multiplied in place of divided",
            lambda positions, d_model: _woven(
                _angles(positions, d_model, -torch.arange(0, d_model, 2) / d_model)
            ),
            "You multiply the position by 10000^(2i/d_model). Divide: later hands should be slower. "
            "Yours turn many times between one token and the next.",
        ),
        Misconception(
            "rows counted in place of positions",
            lambda positions, d_model: sinusoidal(torch.arange(len(positions)), d_model),
            "You number the rows 0, 1, 2 … Use the positions that are given: they need not begin at 0, "
            "nor be in order. (A model that writes token after token asks for one position at a time.)",
        ),
        Misconception(
            "counted from 1",
            lambda positions, d_model: sinusoidal(positions + 1, d_model),
            "Your positions are one too large: they are used as they come, and position 0 has sine 0 and "
            "cosine 1.",
        ),
        Misconception(
            "whole turns",
            lambda positions, d_model: _woven(2 * math.pi * _angles(positions, d_model)),
            "You multiply the angle by 2π, so the first hand makes a whole turn for each token and always "
            "points to where it began. The angle is position / 10000^(2i/d_model), in radians.",
        ),
        Misconception(
            "whole-number division",
            lambda positions, d_model: _woven(
                _angles(positions, d_model, torch.arange(0, d_model, 2) // d_model)
            ),
            "`//` drops the fraction, and 2i // d_model is always 0: all hands turn at one speed. Use `/`.",
        ),
        Misconception(
            "another base",
            lambda positions, d_model: _woven(
                positions[:, None] / 1_000 ** (torch.arange(0, d_model, 2) / d_model)
            ),
            "Your base is 1,000; the formula has 10,000.",
        ),
        Misconception(
            "an exponential without the logarithm",
            lambda positions, d_model: _woven(
                positions[:, None] * torch.exp(-torch.arange(0, d_model, 2) / d_model)
            ),
            "`exp(−2i/d_model)` has e as its base. For 10,000 it is `exp(−2i/d_model · ln 10000)`, or "
            "`10_000 ** (…)`.",
        ),
        Misconception(
            "not transposed back",
            lambda positions, d_model: sinusoidal(positions, d_model).T,
            "Rows and columns are swapped: a row belongs to a position, a column to a dimension.",
        ),
        Misconception(
            "angles only",
            lambda positions, d_model: _angles(positions, d_model),
            "These are the angles, one for each pair. Each gives two columns: its sine and its cosine.",
        ),
        Misconception(
            "odd columns left at 0",
            _sines_and_zeros,
            "Your even columns are right, and the odd ones are still 0. They hold the cosines: "
            "`vectors[:, 1::2] = angles.cos()`.",
        ),
        Misconception(
            "multiplied by the root of the width",
            lambda positions, d_model: math.sqrt(d_model) * sinusoidal(positions, d_model),
            "Your vectors are √d_model times too long. It is the *token's* vector that the model "
            "multiplies by √d_model; the position's is added as it is.",
        ),
        Misconception(
            "no axis for the pairs",
            _no_new_axis,
            "`positions * speeds` wants two vectors of one length. Every position has to meet every speed: "
            "`positions[:, None] * speeds` gives (position, pair).",
        ),
        Misconception(
            "in degrees",
            lambda positions, d_model: _woven(torch.deg2rad(_angles(positions, d_model))),
            "You take the angles for degrees. They are radians, which is what `sin` and `cos` expect.",
        ),
    ),
    hints=(
        "First the speeds, one for each pair: `10_000 ** (-torch.arange(0, d_model, 2) / d_model)`. "
        "How many are there?",
        "Every position has to meet every speed: `positions[:, None] * speeds` has the shape "
        "(position, d_model/2).",
        "Make room with `vectors = torch.zeros(len(positions), d_model)` and fill the even columns, "
        "`vectors[:, 0::2] = …`, then the odd ones.",
    ),
    why="The speeds form a geometric sequence from 1 down to nearly 1/10,000, and each angle gives the two "
    "coordinates of a hand. Nothing is learned, so any position has its vector, also one that no "
    "training ever met. Whether a model can *use* that vector is another question.",
)

DISCOUNT = Exercise(
    id="06.discount",
    title="Four steps further away",
    stars=1,
    minutes=3,
    solution=value("answer = math.exp((5 - 1) * 0.5)"),
    tolerance=2e-3,
    misconceptions=(
        Misconception(
            "the difference of the scores",
            2.0,
            "2 is by how much the scores differ: −0.5 and −2.5. The weights come out of a softmax, and "
            "there a lead of 2 in the score is a factor of e² in the weight.",
        ),
        Misconception(
            "slope forgotten",
            math.exp(4),
            "You took the exponential of the difference in distance, 4. Each step costs half a point, "
            "the slope: the scores differ by 4 · 0.5.",
        ),
        Misconception(
            "the far key's penalty alone",
            math.exp(2.5),
            "That compares the far key with a key at distance 0. The near one pays something too: it "
            "is one token back, and its score is 0.5 lower.",
        ),
        Misconception(
            "ratio of the distances",
            5.0,
            "You divided the distances. The penalty grows in proportion to the distance, but it is a "
            "penalty on the *score*; what the softmax makes of it falls much faster.",
        ),
        Misconception(
            "the other way round",
            math.exp(-2),
            "That is how much of the near key's weight the far one gets. Asked for is the other "
            "ratio, near to far, which is above 1.",
        ),
        Misconception(
            "powers of two",
            4.0,
            "2² = 4: the slopes of ALiBi are powers of two, the softmax takes powers of e.",
        ),
        Misconception(
            "the penalties added",
            math.exp(3),
            "e³: you added the two penalties (or counted 1 + 5 steps). A softmax looks at the difference "
            "of two scores, here 2.",
        ),
        Misconception(
            "one step only",
            math.exp(0.5),
            "That is the factor of a single step. From the near key to the far one there are four, and the "
            "factors multiply.",
        ),
        Misconception(
            "the penalties added, with their minus",
            math.exp(-3),
            "e⁻³: you added the two penalties. A softmax looks at the difference of two scores, here 2, "
            "and near to far is above 1.",
        ),
        Misconception(
            "rounded to a whole number",
            7.0,
            "Right when rounded to a whole number; one decimal at least is asked for, because a neighbour "
            "of 7 may be a slip.",
        ),
        Misconception(
            "powers of ten",
            10.0**2,
            "You took a power of 10. The softmax has e ≈ 2.718 in its place.",
        ),
    ),
    hints=(
        "By how much does ALiBi lower the score of each key? Slope times distance.",
        "The scores were equal before. Now they differ by 4 · 0.5. What does a softmax make of two "
        "scores that differ by so much? Lesson 02: a lead of 1 is a factor of e.",
        "`math.exp(…)` of the difference.",
    ),
    why="The penalties are 0.5 and 2.5, so the near key leads by 2, and e² ≈ 7.39. Four steps with a "
    "slope of 1/2 cost as much as eight with 1/4: the slope decides how far a head sees.",
)

SLOPES = Exercise(
    id="06.slopes",
    title="A slope for each head",
    stars=3,
    minutes=8,
    solution=alibi_slopes,
    reference=library_slopes,
    cases=_slopes_cases,
    misconceptions=(
        Misconception(
            "the formula for any number",
            lambda n_heads: torch.tensor(_sequence(n_heads)),
            "Right for 1, 2, 4, 8 and 16 heads. For other numbers the authors do not use the formula with "
            "that number: they take the slopes of the power of two below, and fill up with slopes of "
            "twice that power.",
        ),
        Misconception(
            "no slopes between",
            lambda n_heads: torch.tensor(_sequence(_power_below(n_heads))),
            "These are the slopes of the power of two below. Heads that are left over get slopes too: "
            "every second one of the sequence for twice as many.",
        ),
        Misconception(
            "every second, from the wrong one on",
            lambda n_heads: _between(n_heads, first=1),
            "You take the second, fourth … of the longer sequence. Those are in the shorter one already: "
            "two heads would have the same slope. Take the first, third …, `[0::2]`.",
        ),
        Misconception(
            "not every second",
            lambda n_heads: _between(n_heads, step=1),
            "You take the first slopes of the longer sequence one after the other. Every second one of "
            "them stands in the shorter sequence already: `[0::2]`.",
        ),
        Misconception(
            "the first of the power above",
            lambda n_heads: torch.tensor(_sequence(2 ** math.ceil(math.log2(n_heads)))[:n_heads]),
            "You take the sequence of the power of two *above* and drop its end. The end holds the small "
            "slopes, the heads that see far. Begin with the power *below*, and fill up.",
        ),
        Misconception(
            "sorted",
            lambda n_heads: alibi_slopes(n_heads).sort(descending=True).values,
            "The slopes are right and sorted. In the authors' order those of the power of two come first "
            "and the others after. To a new model the order is nothing, but published weights "
            "belong to their heads.",
        ),
        Misconception(
            "beginning at 1",
            lambda n_heads: torch.tensor(
                [
                    *(2 ** (-8 * i / _power_below(n_heads)) for i in range(_power_below(n_heads))),
                    *_sequence(2 * _power_below(n_heads))[0::2][: n_heads - _power_below(n_heads)],
                ]
            ),
            "Your first slope is 2⁰ = 1. Count i from 1: the first is 2^(−8/n), and the last is 2^(−8) "
            "whatever n is.",
        ),
        Misconception(
            "halved each time",
            lambda n_heads: torch.tensor([2.0**-i for i in range(1, n_heads + 1)]),
            "You halve from head to head. That is right for 8 heads. For n heads the step is 2^(−8/n), so "
            "that the last slope is always 2^(−8) = 1/256.",
        ),
        Misconception(
            "growing",
            lambda n_heads: 1 / alibi_slopes(n_heads),
            "Your slopes are above 1: the exponents lack their minus.",
        ),
        Misconception(
            "negative",
            lambda n_heads: -alibi_slopes(n_heads),
            "The sizes are right. The slopes themselves are positive; the minus comes when they are "
            "turned into a penalty, in the next exercise.",
        ),
        Misconception(
            "exponents only",
            lambda n_heads: alibi_slopes(n_heads).log2(),
            "These are the exponents. The slopes are 2 to the power of them.",
        ),
        Misconception(
            "powers of e",
            lambda n_heads: (alibi_slopes(n_heads).log2()).exp(),
            "You took powers of e. The slopes are powers of 2.",
        ),
        Misconception(
            "a list",
            lambda n_heads: alibi_slopes(n_heads).tolist(),
            "The numbers are right; they stand in a list. `torch.tensor(…)` makes a tensor of it.",
        ),
        Misconception(
            "whole numbers to a negative power",
            lambda n_heads: 2 ** -torch.arange(1, n_heads + 1),
            "PyTorch keeps whole numbers whole, and 2⁻¹ is none. Divide first (`-8 * torch.arange(…) / n` "
            "has fractions), or write `2.0`. And mind that halving is right for 8 heads only.",
        ),
    ),
    hints=(
        "First for a power of two: 2^(−8·1/n), 2^(−8·2/n), …, 2^(−8·n/n). A list comprehension over "
        "`range(1, n + 1)` will do.",
        "For other numbers you need the power of two that is not above: `2 ** int(math.log2(n_heads))`. "
        "For 12 heads that is 8, and 4 heads are left.",
        "Those left over take every second slope, `[0::2]`, of the sequence for 2 · power, as many as "
        "are missing: `[: n_heads - power]`.",
    ),
    why="Every second slope of 16 heads is one of the 8. The others lie above the first of these and in the "
    "gaps between them, and 12 heads get the four steepest. So all heads have different slopes, whatever "
    "their number.",
)

BIAS = Exercise(
    id="06.bias",
    title="What distance costs",
    stars=2,
    minutes=5,
    solution=alibi_bias,
    cases=_bias_cases,
    misconceptions=(
        Misconception(
            "direction kept",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * (query_positions[:, None] - key_positions)
            ),
            "Keys behind the query have their penalty, but those ahead get a *reward* that grows with the "
            "distance. A distance has no sign: take `.abs()`. (Under a causal mask nobody would notice, "
            "for there nothing ahead is read.)",
        ),
        Misconception(
            "nothing to pay for what is ahead",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * (query_positions[:, None] - key_positions).clamp(min=0)
            ),
            "Keys ahead cost nothing here. Under a causal mask that would do; a model that reads both ways "
            "needs the distance in either direction: `.abs()`.",
        ),
        Misconception(
            "a reward",
            lambda slopes, query_positions, key_positions: (
                slopes[:, None, None] * _distance(query_positions, key_positions)
            ),
            "The minus is missing: a key would be read the more, the farther away it is.",
        ),
        Misconception(
            "indices in place of positions",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None]
                * _distance(torch.arange(len(query_positions)), torch.arange(len(key_positions)))
            ),
            "You number queries and keys yourself, from 0. Use the positions that are given: when a model "
            "writes, its only query stands at the end of the text, not at 0 (lesson 12).",
        ),
        Misconception(
            "axes of query and key swapped",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * _distance(query_positions, key_positions).transpose(0, 1)
            ),
            "Rows and columns are swapped: a row belongs to a query. The queries get the new axis at the "
            "end, `query_positions[:, None]`.",
        ),
        Misconception(
            "heads last",
            lambda slopes, query_positions, key_positions: (
                -slopes * _distance(query_positions, key_positions)[..., None]
            ),
            "The numbers are right, but the heads are the last axis. Scores are (head, query, key), so the "
            "slopes need two new axes behind: `slopes[:, None, None]`.",
        ),
        Misconception(
            "slopes without new axes",
            lambda slopes, query_positions, key_positions: (
                -slopes * _distance(query_positions, key_positions)
            ),
            "`slopes * distance` lays the slopes along the keys. Every head has its own (query, key) "
            "matrix: give the slopes two more axes, `slopes[:, None, None]`.",
        ),
        Misconception(
            "slopes with one new axis",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None] * _distance(query_positions, key_positions)
            ),
            "`slopes[:, None]` lays the slopes along the queries. For (head, query, key) they need two new "
            "axes behind them: `slopes[:, None, None]`.",
        ),
        Misconception(
            "distances without a new axis",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * (query_positions - key_positions).abs()
            ),
            "`query_positions - key_positions` compares query i with key i alone, and fails where their "
            "numbers differ. Every query has to meet every key: `query_positions[:, None] - key_positions`.",
        ),
        Misconception(
            "no head axis",
            lambda slopes, query_positions, key_positions: (
                -slopes[0] * _distance(query_positions, key_positions)
            ),
            "That is the first head's penalty. Each head has its own: (head, query, key).",
        ),
        Misconception(
            "one batch axis too many",
            lambda slopes, query_positions, key_positions: (
                -slopes[None, :, None, None] * _distance(query_positions, key_positions)
            ),
            "Right, with an axis for the batch in front. The penalty is the same for every text, so it has "
            "none: (head, query, key).",
        ),
        Misconception(
            "the exponential already",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * _distance(query_positions, key_positions)
            ).exp(),
            "These are the factors by which the *weights* shrink. ALiBi adds to the scores, and leaves the "
            "exponential to the softmax.",
        ),
        Misconception(
            "masked already",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * _distance(query_positions, key_positions)
            ).masked_fill(query_positions[:, None] < key_positions, -math.inf),
            "Your penalty hides what is ahead as well. That is the mask's work (lesson 04), and a model "
            "that reads both ways has none. The penalty itself is finite everywhere.",
        ),
        Misconception(
            "squared",
            lambda slopes, query_positions, key_positions: (
                -slopes[:, None, None] * _distance(query_positions, key_positions) ** 2
            ),
            "You squared the distance. ALiBi's L stands for *linear*: twice as far costs twice as much.",
        ),
        Misconception(
            "counted from the start of the text",
            lambda slopes, query_positions, key_positions: (
                slopes[:, None, None]
                * key_positions.expand(len(query_positions), len(key_positions))
            ),
            "That is slope · key position, the same for every query. Under a causal mask the weights come "
            "out the same, because a softmax does not see what is added to a whole row, and some programs "
            "save work this way. Asked for is the penalty itself: 0 where query and key stand together.",
        ),
        Misconception(
            "divided by the slope",
            lambda slopes, query_positions, key_positions: (
                -_distance(query_positions, key_positions) / slopes[:, None, None]
            ),
            "You divide by the slope. Multiply: a head with a large slope pays more for each step.",
        ),
    ),
    hints=(
        "First the distance of every query from every key: a (query, key) matrix, from "
        "`query_positions[:, None] - key_positions`. A distance has no sign.",
        "The slopes have to stand in front of it as an axis of their own: `slopes[:, None, None]` has "
        "the shape (head, 1, 1).",
        "Multiply the two, and mind the minus.",
    ),
    why="The distance is computed once, and each head multiplies it by its own slope. Because it comes from "
    "*positions*, the same function serves a text as a whole and a single new token at its end.",
)

EXERCISES = (SINUSOIDAL, DISCOUNT, SLOPES, BIAS)

QUIZ = (
    Question(
        "A model reads both ways, without a mask and without positions. You shuffle its tokens. What "
        "changes?",
        (
            Choice(
                "Nothing: the outputs are the same, in the same places.",
                False,
                "That would be *invariance*. The output at place 0 belongs to the token at place 0, and "
                "that is another one now.",
            ),
            Choice(
                "The outputs move along with their tokens, each unchanged.",
                True,
                "It is equivariant, in every layer and so as a whole. A token cannot know who its left "
                "neighbour is.",
            ),
            Choice(
                "With two layers or more the outputs change.",
                False,
                "Each layer only passes the shuffle on. Depth helps a *causal* model, where the mask "
                "breaks the symmetry.",
            ),
        ),
    ),
    Question(
        "Why does a GPT without any positions still know something of the order?",
        (
            Choice(
                "Its embedding numbers the tokens.",
                False,
                "Embeddings say which token it is, the same wherever it stands.",
            ),
            Choice(
                "It does not; it is blind to order like any attention.",
                False,
                "That holds without a mask. With it, two layers told the letters' order apart above, and "
                "Haviv et al. found the same in large models.",
            ),
            Choice(
                "The causal mask lets each token see only itself and those before it.",
                True,
                "So the fifth token averages over five tokens and the first over one: what they gather "
                "differs, and the next layer can read it. One layer alone sees at each place a *set* of "
                "earlier tokens.",
            ),
        ),
    ),
    Question(
        "What is true of the dot product of two sinusoidal position vectors?",
        (
            Choice(
                "It tells whether the other stands to the left or to the right.",
                False,
                "The cosine is the same for three places to the left and three to the right. To tell sides apart a model has to "
                "turn one of the two first, as our hand-set key matrix did.",
            ),
            Choice(
                "It depends on how far apart they are, and on nothing else.",
                True,
                "sin·sin + cos·cos is the cosine of the difference of two angles, so the positions "
                "themselves drop out.",
            ),
            Choice(
                "It falls steadily: the farther, the smaller.",
                False,
                "On the whole it falls at first, but it wavers: some distances score higher than nearer "
                "ones.",
            ),
        ),
    ),
    Question(
        "A model with learned positions was trained on 64 characters. You give it 65.",
        (
            Choice(
                "It cannot: it has no vector for position 64.",
                True,
                "And a longer table would not help by itself: rows that no training has touched are noise.",
            ),
            Choice(
                "It works, a little worse than before.",
                False,
                "There is no 65th row in its table. The library refuses, and says why; plain PyTorch stops "
                "with an index error.",
            ),
            Choice(
                "It starts again with the first row.",
                False,
                "Nothing tells it to. If you reuse rows, two tokens claim to stand in the same place.",
            ),
        ),
    ),
    Question(
        "Which of these hold for ALiBi?",
        (
            Choice(
                "Without a causal mask it cannot tell left from right.",
                True,
                "A distance has no sign. Mirror the text, and all outputs are mirrored: hence the ceiling "
                "of one half in our task.",
            ),
            Choice(
                "A head with a large slope sees farther.",
                False,
                "The other way round: each step costs it more, so its view is short.",
            ),
            Choice(
                "It adds nothing to the embeddings and has no parameters.",
                True,
                "It acts on the scores alone, and the slopes are fixed in advance.",
            ),
            Choice(
                "With two heads even its most near-sighted head discounts a neighbour by a few percent only.",
                True,
                "The slopes are 1/16 and 1/256, and e^(−1/16) is 0.94. With eight heads the steepest is 1/2, "
                "and a neighbour keeps 0.61 of its weight.",
            ),
            Choice(
                "It must know the longest text in advance.",
                False,
                "A distance of 1,000 has its penalty whether or not training ever met one.",
            ),
        ),
    ),
)
