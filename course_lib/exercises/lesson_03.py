"""Exercises and quiz of lesson 03: how large a dot product gets, and what a softmax makes of it."""

import math

import torch

from course_lib.exercises.compare import same
from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value


def entropy(weights):
    """How evenly each row of weights is spread, in nats: (..., query, key) → (..., query).

    A row's entropy is -Σ w ln w. A weight of 0 adds 0.
    """
    logarithms = torch.where(weights > 0, weights.log(), 0.0)
    return -(weights * logarithms).sum(dim=-1)


def safe_softmax(scores):
    """Weights that do not overflow, however large the scores: (..., query, key), rows sum to 1."""
    largest = scores.max(dim=-1, keepdim=True).values
    exponentials = (scores - largest).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def weights_at(query, key, temperature):
    """Attention weights, rows sum to 1: (..., query, d_k), (..., key, d_k) → (..., query, key).

    The scores are divided by √d_k and by the temperature, a number above 0. Also in float16: where
    the scaled scores fit into it, nothing on the way to them may overflow.
    """
    scores = (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1)
    return safe_softmax(scores)


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _entropy_cases():
    yield (_random(5, 7).softmax(dim=-1),)
    yield (torch.eye(3),)  # each row reads one key alone
    yield ((_random(2, 5, 11, seed=1) * 100).softmax(dim=-1),)  # some weights are 0
    yield (torch.full((2, 13), 1 / 13),)
    yield (_random(2, 3, 5, 7, seed=2).double().softmax(dim=-1),)


def _score_cases():
    yield (_random(5, 7),)
    yield (_random(3, 5, seed=1) * 3000,)
    levels = torch.tensor([[200.0], [0.0], [-200.0]])  # each row at a height of its own
    yield (_random(3, 5, seed=2) + levels,)
    yield (_random(2, 11, 3, seed=3) - 150,)
    yield (_random(5, 5, seed=5),)
    yield (torch.full((2, 7), 123.0),)
    yield (_random(2, 3, 5, 7, seed=4).double().requires_grad_(),)


def _weights_cases():
    # no temperature of 1, at which a wrong use of it looks right
    yield _random(5, 3), _random(7, 3, seed=1), 1.5
    yield _random(2, 7, 11, seed=2), _random(2, 5, 11, seed=3), 2.0
    yield _random(3, 13, seed=4), _random(5, 13, seed=5), 0.5
    # scores in the thousands, since the keys agree in most of what they are, and lie close together
    yield _random(3, 2, seed=6).double(), _random(5, 2, seed=7).double() + 1000, 0.5
    query = _random(2, 3, 5, 7, seed=8).double().requires_grad_()
    yield query, _random(2, 3, 11, 7, seed=9).double().requires_grad_(), 5
    # far apart and very hot: a weight that underflowed at temperature 1 cannot be had back
    yield torch.full((2, 3), 10.0), torch.tensor([[0.0, -80, 9, 40, -20]] * 3).T, 1000.0


def _weigh(answer, query, key, temperature):
    """The weights and, where they are right, what becomes of large queries and keys in float16."""
    weights = answer(query, key, temperature)
    in_half = "not tried yet: the weights come first"
    if same(weights_at(query, key, temperature), weights, 1e-5):
        large = torch.full((3, 64), 60.0, dtype=torch.float16)  # q · k = 230,400, scaled 28,800
        in_half = "finite" if answer(large, large, 1.0).isfinite().all() else "not finite"
    return {"the weights": weights, "float16, where scaled scores are 28,800": in_half}


SPREAD = Exercise(
    id="03.spread",
    title="The spread of a dot product",
    stars=1,
    minutes=4,
    solution=value("answer = math.sqrt(25 * 3**2 * 2**2)"),
    tolerance=1e-3,
    misconceptions=(
        Misconception(
            "the variance",
            900.0,
            "900 is the variance: 25 terms of 9 · 4 each. The spread is its square root.",
        ),
        Misconception(
            "entries of spread 1",
            5.0,
            "√25 is right for entries of spread 1. Here a term is the product of a number of spread "
            "3 and one of spread 2, so its variance is 9 · 4, not 1.",
        ),
        Misconception(
            "spreads added up",
            150.0,
            "You added up 25 spreads of 6. Terms of either sign cancel in part: it is the "
            "**variances** that add up, 25 · 36, and the root comes last.",
        ),
        Misconception(
            "one term",
            6.0,
            "6 is the spread of one term, q₁·k₁. The dot product has 25 of them.",
        ),
        Misconception(
            "variances of the factors added",
            math.sqrt(25 * (9 + 4)),
            "You took 9 + 4 for the variance of a term. That is the variance of a *sum* of the two; "
            "a term is their *product*, and for independent numbers of mean 0 the variances multiply: 9 · 4.",
        ),
        Misconception(
            "spreads taken for variances",
            math.sqrt(25 * 3 * 2),
            "You multiplied the spreads, 3 · 2, where the variances belong: 3² · 2² for each term.",
        ),
        Misconception(
            "one of the spreads",
            15.0,
            "That is √25 · 3: the queries' spread is in it, the keys' (2) is not.",
        ),
        Misconception(
            "the other of the spreads",
            10.0,
            "That is √25 · 2: the keys' spread is in it, the queries' (3) is not.",
        ),
        Misconception(
            "spreads of the factors added",
            25.0,
            "That is √25 · (3 + 2), or the number of terms. A term is a product, so the two spreads "
            "multiply: 3 · 2.",
        ),
        Misconception(
            "one",
            1.0,
            "1 is the spread that scaled scores have when the entries have a spread of 1. Here the "
            "plain dot product is asked for, and the entries have spreads of 3 and 2.",
        ),
        Misconception(
            "the mean",
            0.0,
            "0 is the mean of the dot product. The spread says how far from it the values lie.",
        ),
        Misconception(
            "the variance of one term",
            36.0,
            "36 is the variance of one term. Add up 25 of them, then take the root.",
        ),
        Misconception(
            "root of the number, not of the variance",
            5 * 36.0,
            "You took the root of the number of terms and left the variance of a term, 36, as it is. "
            "The root goes over both: √(25 · 36).",
        ),
        Misconception(
            "variance of sums of the factors",
            25 * (9 + 4.0),
            "325 is 25 · (9 + 4). A term is a product, so the variances multiply, 9 · 4; and the spread "
            "is the root of the variance.",
        ),
        Misconception(
            "one variance left out",
            math.sqrt(25 * 9 * 2),
            "One of the spreads is squared, the other not: a term's variance is 3² · 2².",
        ),
        Misconception(
            "the other variance left out",
            math.sqrt(25 * 3 * 4),
            "One of the spreads is squared, the other not: a term's variance is 3² · 2².",
        ),
    ),
    hints=(
        "What is the variance of one term q₁·k₁? Both have mean 0 and are independent, so the "
        "variances multiply: 3² · 2².",
        "Variances of independent terms add up. How many terms are there?",
        "The spread is the square root of the variance: `answer = math.sqrt(25 * …)`.",
    ),
    why="A term has variance 3² · 2² = 36, twenty-five of them 900, and the root is 30. So the spread "
    "grows with √d_k, and in proportion to the spread of the entries on both sides: a scale of "
    "√d_k alone would leave 6.",
)

ENTROPY = Exercise(
    id="03.entropy",
    title="Measure how evenly a row is spread",
    stars=2,
    minutes=6,
    solution=entropy,
    cases=_entropy_cases,
    misconceptions=(
        Misconception(
            "nothing done about zeros",
            lambda weights: -(weights * weights.log()).sum(dim=-1),
            "Right where all weights are positive. A weight of 0 has the logarithm −inf, and 0 · (−inf) "
            "is NaN. Give it the logarithm 0 instead: `torch.where(weights > 0, weights.log(), 0.0)`.",
        ),
        Misconception(
            "sign forgotten",
            lambda weights: torch.special.xlogy(weights, weights).sum(dim=-1),
            "Your numbers are right but for the sign. The logarithm of a share is negative; the minus "
            "in front makes an entropy positive.",
        ),
        Misconception(
            "over the queries",
            lambda weights: -torch.special.xlogy(weights, weights).sum(dim=-2),
            "You add up each column. A row belongs to one query and holds its shares: sum over the "
            "keys, `dim=-1`.",
        ),
        Misconception(
            "over the first axis",
            lambda weights: -torch.special.xlogy(weights, weights).sum(dim=0),
            "`dim=0` is the first axis: the queries of one text, or the texts of a batch. The shares "
            "of one query lie along the last axis: `dim=-1`.",
        ),
        Misconception(
            "over the second axis",
            lambda weights: -torch.special.xlogy(weights, weights).sum(dim=1),
            "`dim=1` is the axis of the keys for one text; with a batch in front it is that of the "
            "queries, or of the heads. Count from the end: `dim=-1`.",
        ),
        Misconception(
            "over everything",
            lambda weights: -torch.special.xlogy(weights, weights).sum(),
            "One number came out. Each row has an entropy of its own: `sum(dim=-1)`.",
        ),
        Misconception(
            "the mean of the terms",
            lambda weights: -torch.special.xlogy(weights, weights).mean(dim=-1),
            "You took the mean over the keys. The weights are the shares of a mean already; the terms "
            "are added up: `sum(dim=-1)`.",
        ),
        Misconception(
            "keepdim",
            lambda weights: -torch.special.xlogy(weights, weights).sum(dim=-1, keepdim=True),
            "The numbers are right, with an axis of size 1 left over. One number a row is asked for: "
            "leave `keepdim` out.",
        ),
        Misconception(
            "whole rows made 0",
            lambda weights: -(weights * weights.log()).sum(dim=-1).nan_to_num(0.0),
            "One weight of 0 makes the sum of its row NaN, and you replace the whole sum by 0. The "
            "row's other weights count: mend the term 0 · ln 0 before you add up.",
        ),
        Misconception(
            "one added inside the logarithm",
            lambda weights: -(weights * (weights + 1).log()).sum(dim=-1),
            "ln(w + 1) is never infinite, and it is another function: at w = 1 it is ln 2, where ln w "
            "is 0. Treat the zeros alone: `torch.where(weights > 0, weights.log(), 0.0)`.",
        ),
        Misconception(
            "a logarithm that wants a number",
            lambda weights: -(weights * math.log(weights)).sum(dim=-1),
            "`math.log` takes one number. A tensor has its own: `weights.log()`.",
        ),
        Misconception(
            "in bits",
            lambda weights: -torch.special.xlogy(weights, weights).sum(dim=-1) / math.log(2),
            "That is the entropy in bits (`log2`). We count in nats, with the natural logarithm, as "
            "losses do: `weights.log()`.",
        ),
        Misconception(
            "common logarithm",
            lambda weights: -torch.special.xlogy(weights, weights).sum(dim=-1) / math.log(10),
            "You took the logarithm to base 10. The natural one is `weights.log()`.",
        ),
        Misconception(
            "not weighted",
            lambda weights: -torch.where(weights > 0, weights.log(), 0.0).sum(dim=-1),
            "You added up the logarithms. Each is weighted by its own weight: −Σ w · ln w. Otherwise "
            "a key that is hardly read would count most.",
        ),
        Misconception(
            "not weighted, zeros included",
            lambda weights: -weights.log().sum(dim=-1),
            "You added up the logarithms, and ln 0 is −inf. Each is weighted by its own weight, "
            "−Σ w · ln w, and a weight of 0 adds 0.",
        ),
        Misconception(
            "softmax first",
            lambda weights: torch.special.entr(weights.softmax(dim=-1)).sum(dim=-1),
            "You took a softmax of the weights. They are shares already: use them as they come.",
        ),
        Misconception(
            "as a share of ln n",
            lambda weights: torch.special.entr(weights).sum(dim=-1) / math.log(weights.shape[-1]),
            "You divided by ln n, the largest possible entropy. That is a good thing to plot, and "
            "we shall; the function is to give the entropy itself.",
        ),
        Misconception(
            "number of keys read",
            lambda weights: torch.special.entr(weights).sum(dim=-1).exp(),
            "That is e to the entropy: the number of keys that would have to be read evenly for it "
            "(the perplexity). A useful number; here stop before the exponential.",
        ),
        Misconception(
            "a large epsilon",
            lambda weights: -(weights * (weights + 1e-3).log()).sum(dim=-1),
            "Adding 0.001 inside the logarithm avoids ln 0 and changes the other numbers too. Treat "
            "the zeros alone: `torch.where(weights > 0, weights.log(), 0.0)`.",
        ),
    ),
    hints=(
        "For one row with no zeros it is `-(weights * weights.log()).sum(dim=-1)`. What does that "
        "give for the row (1, 0)?",
        "0 · ln 0 is 0 · (−inf), which is NaN. `torch.where(condition, a, b)` takes from `a` where the "
        "condition holds and from `b` elsewhere.",
        "`logarithms = torch.where(weights > 0, weights.log(), 0.0)`, then weigh, add up over the "
        "keys, and change the sign.",
    ),
    why="The entropy is the mean of −ln w, each weighted by w. One key alone gives 0; n keys read "
    "evenly give ln n, the largest value there is. As w goes to 0, so does w · ln w: a key that is "
    "not read adds nothing.",
)


def _in_double_precision(scores):
    exponentials = scores.double().exp()
    return (exponentials / exponentials.sum(dim=-1, keepdim=True)).to(scores.dtype)


_OVERFLOW = (
    "Right for small scores. `exp` of a score of 1000 is infinite, and inf/inf is NaN; in a row of "
    "−1000 all exponentials are 0, and so is their sum. Subtract the row's largest score first."
)

SOFTMAX = Exercise(
    id="03.softmax",
    title="A softmax that does not overflow",
    stars=2,
    minutes=6,
    solution=safe_softmax,
    cases=_score_cases,
    misconceptions=(
        Misconception(
            "nothing subtracted",
            lambda scores: scores.exp() / scores.exp().sum(dim=-1, keepdim=True),
            _OVERFLOW,
        ),
        Misconception(
            "the largest of all",
            lambda scores: (
                (scores - scores.max()).exp()
                / (scores - scores.max()).exp().sum(dim=-1, keepdim=True)
            ),
            "You subtract the largest score of the whole tensor. No exponential overflows any more, "
            "but in a row that lies far below, all become 0, and 0/0 is NaN. Each row has a largest score of "
            "its own: `max(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "the mean subtracted",
            lambda scores: (
                (scores - scores.mean(dim=-1, keepdim=True)).exp()
                / (scores - scores.mean(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)
            ),
            "You subtract the row's mean. That changes no weight either, but one score may lie "
            "far above the mean, and its exponential still overflows. With the largest subtracted, "
            "no exponent is above 0.",
        ),
        Misconception(
            "the smallest subtracted",
            lambda scores: (
                (scores - scores.amin(dim=-1, keepdim=True)).exp()
                / (scores - scores.amin(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)
            ),
            "You subtract the smallest score of the row, so all exponents are 0 or more, and overflow "
            "all the sooner. Subtract the largest.",
        ),
        Misconception(
            "the largest of each column",
            lambda scores: (
                (scores - scores.amax(dim=-2, keepdim=True)).exp()
                / (scores - scores.amax(dim=-2, keepdim=True)).exp().sum(dim=-1, keepdim=True)
            ),
            "You subtract the largest score of each column. A number has to be the same for a whole "
            "row to cancel in its shares: `dim=-1`.",
        ),
        Misconception(
            "largest below the line only",
            lambda scores: (
                scores.exp()
                / (scores - scores.amax(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)
            ),
            "The largest score is subtracted below the line only. It cancels if it is subtracted in "
            "both places: make the shifted exponentials once, and use them twice.",
        ),
        Misconception(
            "max with its indices",
            lambda scores: (scores - scores.max(dim=-1, keepdim=True)).exp(),
            "With a `dim`, `max` returns two things: the largest values, and where they stand. Take "
            "`.values`, or use `amax`, which returns the values alone; with `keepdim=True` in either case.",
        ),
        Misconception(
            "keepdim forgotten",
            lambda scores: (scores - scores.amax(dim=-1)).softmax(dim=-1),
            "The largest scores are right, but without `keepdim=True` they are a flat vector, which "
            "PyTorch lays along the columns (or cannot lay at all).",
        ),
        Misconception(
            "keepdim forgotten in the sum",
            lambda scores: (
                (scores - scores.amax(dim=-1, keepdim=True)).exp()
                / (scores - scores.amax(dim=-1, keepdim=True)).exp().sum(dim=-1)
            ),
            "The subtraction is right. The sum lost its axis, so PyTorch lays it along the columns "
            "(or cannot at all): `sum(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "the sum of everything",
            lambda scores: (
                (scores - scores.amax(dim=-1, keepdim=True)).exp()
                / (scores - scores.amax(dim=-1, keepdim=True)).exp().sum()
            ),
            "The subtraction is right. Then you divide by one sum of the whole tensor, so that all rows "
            "together make 1. Each row has its own: `sum(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "subtracted the wrong way round",
            lambda scores: (-scores).softmax(dim=-1),
            "The smallest score gets the largest weight: a sign is turned. It is `scores - largest`, "
            "not `largest - scores`.",
        ),
        Misconception(
            "the largest added",
            lambda scores: (
                (scores + scores.amax(dim=-1, keepdim=True)).exp()
                / (scores + scores.amax(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)
            ),
            "You add the row's largest score, which makes large scores twice as large. Subtract it.",
        ),
        Misconception(
            "divided by the largest",
            lambda scores: (scores / scores.amax(dim=-1, keepdim=True)).softmax(dim=-1),
            "You divide by the largest score. That changes the differences between scores, and with "
            "them the weights. Subtract: then the differences stay.",
        ),
        Misconception(
            "divided by the largest magnitude",
            lambda scores: (scores / scores.abs().amax(dim=-1, keepdim=True)).softmax(dim=-1),
            "You divide by the largest magnitude. That changes the differences between scores, and "
            "with them the weights. Subtract the largest score: then the differences stay.",
        ),
        Misconception(
            "the largest magnitude subtracted",
            lambda scores: (
                (scores - scores.abs().amax(dim=-1, keepdim=True)).exp()
                / (scores - scores.abs().amax(dim=-1, keepdim=True)).exp().sum(dim=-1, keepdim=True)
            ),
            "You subtract the largest magnitude. For a row around −1000 that makes −2000 of it, and "
            "all exponentials are 0. Subtract the largest score with its sign.",
        ),
        Misconception(
            "clamped",
            lambda scores: scores.clamp(-80, 80).softmax(dim=-1),
            "You cut large scores off. Then 1000 and 900 count the same, and the weights are others. "
            "Nothing needs to be cut: subtract the row's largest.",
        ),
        Misconception(
            "clamped from above",
            lambda scores: scores.clamp(max=80).softmax(dim=-1),
            "You cut large scores off. Then 1000 and 900 count the same, and the weights are others. "
            "Nothing needs to be cut: subtract the row's largest.",
        ),
        Misconception(
            "a small number below the line",
            lambda scores: scores.exp() / (scores.exp().sum(dim=-1, keepdim=True) + 1e-9),
            "A small number below the line avoids 0/0. It does not help against inf/inf, and a row of "
            "−1000 gets no weights at all. Subtract the row's largest score first.",
        ),
        Misconception(
            "NaN replaced",
            lambda scores: (scores.exp() / scores.exp().sum(dim=-1, keepdim=True)).nan_to_num(0.0),
            "The NaN are gone, and so is what should stand there. They come from inf/inf and 0/0: "
            "subtract the row's largest score before the exponential.",
        ),
        Misconception(
            "down the columns",
            lambda scores: scores.softmax(dim=-2),
            "Your columns sum to 1. A row belongs to one query, which divides its attention among the "
            "keys: largest and sum run along the last axis, `dim=-1`.",
        ),
        Misconception(
            "along the first axis",
            lambda scores: scores.softmax(dim=0),
            "`dim=0` is the first axis: the queries of one text, or the texts of a batch. Largest and "
            "sum run over the keys, `dim=-1`.",
        ),
        Misconception(
            "along the second axis",
            lambda scores: scores.softmax(dim=1),
            "`dim=1` is the axis of the keys for one text; with a batch in front it is that of the "
            "queries, or of the heads. Count from the end: `dim=-1`, for largest and sum.",
        ),
        Misconception(
            "logarithm of the weights",
            lambda scores: scores.log_softmax(dim=-1),
            "These are the logarithms of the weights (`log_softmax`). They are safe too; here the "
            "weights themselves are asked for.",
        ),
        Misconception(
            "not normalised",
            lambda scores: (scores - scores.amax(dim=-1, keepdim=True)).exp(),
            "The shifted exponentials are right, the largest is 1 in each row. They still have to "
            "become shares: divide by the sum of the row.",
        ),
        Misconception(
            "in double precision",
            _in_double_precision,
            "Double precision moves the limit to a score of 709; it does not remove it. Subtract the "
            "row's largest score, and there is no limit.",
        ),
    ),
    hints=(
        "What happens to the weights of a row when the same number is subtracted from all its scores? "
        "(The quiz of lesson 02 asked.)",
        "Which number, subtracted, makes sure that no exponent is above 0, and that at least one is exactly 0?",
        "`largest = scores.max(dim=-1, keepdim=True).values`, then the softmax of lesson 02 of "
        "`scores - largest`.",
    ),
    why="A factor e⁻ᵐ above and below the line cancels, so subtracting m changes no weight. With m the "
    "row's largest score, exponents are 0 or less: nothing overflows, and the sum below the line is "
    "at least 1. What underflows to 0 was smaller than we can tell from 0 anyway.",
)


def _at(scale):
    """A version of weights_at: softmax of q · k / scale(d_k, temperature), scaled beforehand."""

    def weights(query, key, temperature):
        scores = (query / scale(query.shape[-1], temperature)) @ key.transpose(-2, -1)
        return safe_softmax(scores)

    return weights


def _power_of_weights(query, key, temperature):
    weights = safe_softmax((query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1))
    powers = weights ** (1 / temperature)
    return powers / powers.sum(dim=-1, keepdim=True)


SCALE = Exercise(
    id="03.scale",
    title="Attention at a temperature",
    stars=2,
    minutes=8,
    solution=weights_at,
    cases=_weights_cases,
    call=_weigh,
    misconceptions=(
        Misconception(
            "divided by d_k",
            _at(lambda d_k, t: d_k * t),
            "Your weights are too flat: they are what comes out when scores are divided by **d_k** "
            "instead of √d_k (or query and key by √d_k each). The spread to undo is a standard deviation, not a variance.",
        ),
        Misconception(
            "no scale",
            _at(lambda d_k, t: t),
            "Your weights are too sharp: the temperature is there, the division by √d_k is not. "
            "Divide by both.",
        ),
        Misconception(
            "temperature ignored",
            _at(lambda d_k, t: math.sqrt(d_k)),
            "Right at temperature 1, and the same at any other: the temperature plays no part. Divide "
            "the scaled scores by it as well.",
        ),
        Misconception(
            "multiplied by the temperature",
            _at(lambda d_k, t: math.sqrt(d_k) / t),
            "You multiply by the temperature. Hot should mean flat: divide by it, so that 2 halves "
            "all differences.",
        ),
        Misconception(
            "root of the temperature",
            _at(lambda d_k, t: math.sqrt(d_k * t)),
            "The root goes over d_k only. The temperature divides as it is.",
        ),
        Misconception(
            "multiplied by the root",
            _at(lambda d_k, t: t / math.sqrt(d_k)),
            "You multiply by √d_k. The scale is there to make long vectors' scores smaller: divide.",
        ),
        Misconception(
            "neither scale nor temperature",
            _at(lambda d_k, t: 1),
            "This is the softmax of the plain dot products. They are to be divided twice: by √d_k and by "
            "the temperature.",
        ),
        Misconception(
            "a root that wants a tensor",
            lambda query, key, temperature: query / torch.sqrt(query.shape[-1]),
            "`torch.sqrt` wants a tensor, and `query.shape[-1]` is a plain number, which `math.sqrt` takes.",
        ),
        Misconception(
            "scaled by the number of tokens",
            lambda query, key, temperature: safe_softmax(
                (query / (math.sqrt(query.shape[-2]) * temperature)) @ key.transpose(-2, -1)
            ),
            "You divide by the root of the number of queries. d_k is the length of one query, its last "
            "axis: `query.shape[-1]`.",
        ),
        Misconception(
            "scaled by the number of keys",
            lambda query, key, temperature: safe_softmax(
                (query / (math.sqrt(key.shape[-2]) * temperature)) @ key.transpose(-2, -1)
            ),
            "You divide by the root of the number of keys. d_k is the length of one key, its last axis: "
            "`key.shape[-1]`.",
        ),
        Misconception(
            "scaled after the product",
            lambda query, key, temperature: safe_softmax(
                query @ key.transpose(-2, -1) / (math.sqrt(query.shape[-1]) * temperature)
            ),
            "Right in float32. In float16 the plain product may be above 65,504, hence infinite, and the "
            "division comes too late: inf / 8 is inf. Divide the query (or the key) before the product.",
        ),
        Misconception(
            "an unsafe softmax",
            lambda query, key, temperature: (
                ((query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1)).exp()
                / ((query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1))
                .exp()
                .sum(dim=-1, keepdim=True)
            ),
            "The scores are right; at a low temperature they are large, and your `exp` overflows. Use "
            "`safe_softmax`.",
        ),
        Misconception(
            "weights divided by the temperature",
            lambda query, key, temperature: (
                safe_softmax((query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1))
                / temperature
            ),
            "You divide the weights by the temperature, so that a row no longer sums to 1. Divide the "
            "scores, before the softmax.",
        ),
        Misconception(
            "weights raised to a power",
            _power_of_weights,
            "On paper that is right: wᵢ to the power 1/T, made shares again, is the softmax at temperature "
            "T. But a weight that is too small for the computer has become 0 by then, and no "
            "temperature brings it back: scores of 0 and −1000 at T = 1000 should give 0.73 and 0.27. "
            "Divide the scores, before the softmax.",
        ),
        Misconception(
            "weights divided by both",
            lambda query, key, temperature: (
                safe_softmax(query @ key.transpose(-2, -1))
                / (math.sqrt(query.shape[-1]) * temperature)
            ),
            "You divide the weights, after the softmax, so that a row no longer sums to 1 and is as "
            "sharp as before. Divide the scores, before the softmax.",
        ),
        Misconception(
            "always in float32",
            lambda query, key, temperature: safe_softmax(
                query.float()
                @ key.float().transpose(-2, -1)
                / (math.sqrt(query.shape[-1]) * temperature)
            ).to(query.dtype),
            "You compute in float32 whatever comes. That mends float16, at the price of copies twice as "
            "large, and takes digits away from float64. Divide the query before the product, and each "
            "kind of number is served as it is.",
        ),
        Misconception(
            "softmax over the queries",
            lambda query, key, temperature: (
                (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1)
            ).softmax(dim=-2),
            "Your columns sum to 1. Each query divides its own attention among the keys: the last axis.",
        ),
        Misconception(
            "softmax along the second axis",
            lambda query, key, temperature: (
                (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1)
            ).softmax(dim=1),
            "`dim=1` is the axis of the keys for one text; with a batch in front it is that of the "
            "queries, or of the heads. Count from the end: `dim=-1`.",
        ),
        Misconception(
            "softmax along the first axis",
            lambda query, key, temperature: (
                (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1)
            ).softmax(dim=0),
            "`dim=0` is the first axis: the queries of one text, or the texts of a batch. Each query "
            "divides its attention among the keys: `dim=-1`.",
        ),
        Misconception(
            "rows and columns swapped",
            lambda query, key, temperature: weights_at(key, query, temperature),
            "Rows and columns are swapped: row i must belong to query i, so the query stands on the "
            "left of `@`.",
        ),
        Misconception(
            "scores returned",
            lambda query, key, temperature: (
                (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(-2, -1)
            ),
            "These are the scores at that temperature, and they are right. Make weights of them with "
            "`safe_softmax`.",
        ),
        Misconception(
            "axes counted from the front, for one text",
            lambda query, key, temperature: safe_softmax(
                (query / (math.sqrt(query.shape[-1]) * temperature)) @ key.transpose(0, 1)
            ),
            "`transpose(0, 1)` counts the axes from the front, where a batch has its texts. Count from "
            "the end: `transpose(-2, -1)`.",
        ),
        Misconception(
            "divided by 8",
            _at(lambda d_k, t: 8 * t),
            "8 is √d_k for d_k = 64, and for no other. `math.sqrt(query.shape[-1])` fits every length.",
        ),
    ),
    hints=(
        "Two divisions, one softmax: by √d_k (`query.shape[-1]` is d_k), by the temperature, then "
        "`safe_softmax`.",
        "(q / c) · k is q · k / c. Which of the two stays small on the way?",
        "`query / (math.sqrt(query.shape[-1]) * temperature)` first, then the product with "
        "`key.transpose(-2, -1)`.",
    ),
    why="Dividing the query beforehand gives the same scores, since a factor may be moved through a "
    "sum, and no number on the way is larger than it has to be. The course's library does it for "
    "the same reason. √d_k undoes what the length of the vectors does to the spread; the "
    "temperature is what is left to choose.",
)

EXERCISES = (SPREAD, ENTROPY, SOFTMAX, SCALE)

QUIZ = (
    Question(
        "Why are the scores of attention divided by √d_k?",
        (
            Choice(
                "Dot products of independent entries (mean 0, variance 1) have a spread of √d_k; unscaled, longer vectors "
                "saturate the softmax, at random, and more and more queries get no gradient.",
                True,
                "Variances add up over d_k terms, so the spread is √d_k, and dividing by it makes it 1 "
                "at any length: weights neither one-hot nor flat, and gradients that flow.",
            ),
            Choice(
                "So that each row of weights sums to 1.",
                False,
                "The softmax sees to that, whatever the scale.",
            ),
            Choice(
                "So that a long text does not have larger scores than a short one.",
                False,
                "The number of tokens plays no part in a score. It is the length of the *vectors* that "
                "does.",
            ),
            Choice(
                "To make every query and key a vector of length 1.",
                False,
                "Then every score would be a cosine, between −1 and 1. The scale makes the *spread* of "
                "scores 1, and lets a good match stand out by much more.",
            ),
        ),
    ),
    Question(
        "d_k grows from 64 to 256. What happens to the spread of unscaled scores of independent entries (mean 0, variance 1)?",
        (
            Choice(
                "It stays, since positive and negative terms cancel.",
                False,
                "They cancel in the mean, which stays 0. What is left over grows with √d_k.",
            ),
            Choice(
                "It is four times as large.",
                False,
                "The variance is. The spread is its root; terms of either sign cancel in part.",
            ),
            Choice(
                "It doubles.",
                True,
                "Four times the terms, four times the variance, and the root of that: from 8 to 16.",
            ),
        ),
    ),
    Question(
        "Somebody divides by d_k in place of √d_k. What do we see in a new model with long vectors?",
        (
            Choice(
                "Each query reads one key alone.",
                False,
                "That is what happens without any scale. Here the scores are too small, not too large.",
            ),
            Choice(
                "Rows that are nearly even, even where a key matches the query exactly.",
                True,
                "A perfect match, k = q, scores about 1 and all others about 0: among 64 keys it gets a "
                "weight of 0.04.",
            ),
            Choice(
                "An error, since the weights no longer sum to 1.",
                False,
                "Softmax makes shares of any scores, so nothing complains.",
            ),
        ),
    ),
    Question(
        "A row of weights is one-hot: 1 for one key, 0 for the others. What gradient reaches the query through these weights?",
        (
            Choice(
                "A large one, because the row is certain and perhaps wrong.",
                False,
                "A softmax does not know whether it is wrong. A loss that takes the weight's logarithm "
                "would make up for it, but attention's weights only mix values.",
            ),
            Choice(
                "None: a small change of the query changes no weight.",
                True,
                "The slope of weight i is wᵢ · (kᵢ − mean of the keys read). For the losers wᵢ is 0; for "
                "the winner, that mean *is* its own key.",
            ),
            Choice(
                "Only the winner's key passes one on.",
                False,
                "The winner's weight cannot grow beyond 1, and a small step does not make it fall: the "
                "others are e²⁰ behind, say.",
            ),
        ),
    ),
    Question(
        "A safe softmax subtracts the largest score of the row first. Which of these are true?",
        (
            Choice(
                "No exponential can overflow any more.",
                True,
                "All exponents are 0 or less, so all exponentials lie between 0 and 1.",
            ),
            Choice(
                "No weight changes, but for rounding.",
                True,
                "The same factor stands above and below the line and cancels.",
            ),
            Choice(
                "It makes the division by √d_k unnecessary.",
                False,
                "It mends the arithmetic, not the weights: scores of (40, 0) still give one key everything.",
            ),
            Choice(
                "It makes the weights flatter, like a temperature.",
                False,
                "A temperature divides, and changes differences. Subtracting leaves all differences as "
                "they are.",
            ),
        ),
    ),
)
