"""Exercises and quiz of lesson 02: scaled dot-product attention, part by part."""

import math

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value


def scaled_scores(query, key):
    """How well each query fits each key: (..., query, d_k), (..., key, d_k) → (..., query, key)."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def softmax_rows(scores):
    """Scores → positive weights whose rows sum to 1: (..., query, key) → (..., query, key)."""
    exponentials = scores.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def attention(query, key, value):
    """(..., query, d_k), (..., key, d_k), (..., key, d_v) → output (..., query, d_v), weights."""
    weights = softmax_rows(scaled_scores(query, key))
    return weights @ value, weights


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _trainable(*shape, seed=0):
    """As in training: gradients flow, in double precision, with two axes in front."""
    return _random(*shape, seed=seed).double().requires_grad_()


def _query_key_cases():
    yield _random(5, 3), _random(5, 3, seed=1)
    yield _random(2, 7, 11, seed=2), _random(2, 7, 11, seed=3)
    yield _random(3, 13, seed=4), _random(5, 13, seed=5)
    yield _random(1, 7, seed=6), _random(5, 7, seed=7)
    yield _trainable(2, 3, 5, 7), _trainable(2, 3, 11, 7, seed=1)


def _score_cases():
    yield (_random(5, 7),)
    yield (_random(3, 3, seed=1),)
    yield (_random(2, 11, 5, seed=2),)
    yield (_random(1, 7, seed=3),)
    yield (_trainable(2, 3, 5, 7),)


def _attention_cases():
    yield _random(5, 3), _random(5, 3, seed=1), _random(5, 7, seed=2)
    yield _random(2, 3, 5, seed=3), _random(2, 3, 5, seed=4), _random(2, 3, 11, seed=5)
    yield _random(1, 7, seed=6), _random(5, 7, seed=7), _random(5, 3, seed=8)
    yield _trainable(2, 3, 5, 7), _trainable(2, 3, 11, 7, seed=1), _trainable(2, 3, 11, 13, seed=2)


def _scores_with_t(query, key):
    reversed_key = key.permute(*range(key.ndim - 1, -1, -1))  # key.T, without its warning
    return query @ reversed_key / math.sqrt(query.shape[-1])


def _over_the_last_two_axes(scores):
    exponentials = scores.exp()
    return exponentials / exponentials.sum(dim=(-2, -1), keepdim=True)


BY_HAND = Exercise(
    id="02.by-hand",
    title="How much does “it” read “tired”?",
    stars=1,
    minutes=4,
    solution=value("answer = math.exp(4) / (3 * math.exp(0) + math.exp(4))"),
    tolerance=2.5e-3,
    misconceptions=(
        Misconception(
            "too sure",
            1.0,
            "That is nearly 1, which is too sure. Three slips lead there: leaving the scores at 8 "
            "(they are divided by √d_k = √4 = 2 first); leaving out the three zeros, whose "
            "exponential is not 0 but 1; or taking no exponential at all. Each of the three other "
            "words gets a little.",
        ),
        Misconception(
            "divided by d_k",
            math.exp(2) / (3 + math.exp(2)),
            "You divided the score by d_k = 4. The formula divides by the square root, √4 = 2, "
            "which leaves a score of 4.",
        ),
        Misconception(
            "the score, not the weight",
            4.0,
            "4 is the scaled score. A weight is what the softmax makes of it: a share of the whole "
            "between 0 and 1, so e⁴ has still to be compared with what the other three words get.",
        ),
        Misconception(
            "not yet a share",
            math.exp(4),
            "e⁴ is the right exponential. To make it a share, divide by the sum of all four "
            "exponentials, that of “tired” included.",
        ),
        Misconception(
            "a ratio to the others",
            math.exp(4) / 3,
            "You divided by the other three words alone. A share is a part of the whole: the sum "
            "below the line holds e⁴ too.",
        ),
        Misconception(
            "without the exponential of zero",
            math.exp(4) / (math.exp(4) + 1),
            "You counted one word beside “tired”; there are three, each with the score 0, and each "
            "adds e⁰ = 1 to the sum.",
        ),
        Misconception(
            "one decimal",
            0.9,
            "Right to one decimal, or nearly so; two are asked for, because the second one tells the "
            "usual slips apart.",
        ),
        Misconception(
            "cut, not rounded",
            0.94,
            "You cut after the second digit: 0.9479 is rounded to 0.95.",
        ),
        Misconception(
            "five words",
            math.exp(4) / (math.exp(4) + 4),
            "There are four words in all, “tired” and three others. The sum has e⁴ once and e⁰ = 1 "
            "three times.",
        ),
        Misconception(
            "another word's weight",
            1 / (3 + math.exp(4)),
            "That is the weight of one of the other words. “tired” has e⁴ above the line.",
        ),
        Misconception(
            "the raw score",
            8.0,
            "8 is the raw score. It has still to be scaled, and the softmax to make a share of it.",
        ),
        Misconception(
            "a percentage",
            100 * math.exp(4) / (3 + math.exp(4)),
            "Right, as a percentage. Weights are shares of 1: divide by 100.",
        ),
        Misconception(
            "no exponential",
            4 / (4 + 3),
            "You added 4 and three ones. If zeros count as e⁰ = 1, then 4 counts as e⁴ ≈ 54.6.",
        ),
        Misconception(
            "all equal",
            0.25,
            "A quarter is what “it” would give each word if all scores were equal. They are not: "
            "“tired” has 8 before scaling, the others 0.",
        ),
    ),
    hints=(
        "The raw scores of “it” are 0, 0, 0 and 8. What is √d_k, and what are the four scores after "
        "dividing by it?",
        "Take the exponential of each of the four scaled scores 0, 0, 0, 4 (e⁰ = 1, e⁴ ≈ 54.6).",
        "The weight of “tired” is its exponential divided by the sum of all four. Python can do the "
        "arithmetic: `answer = math.exp(4) / (…)`.",
    ),
    why="Scaled by √4 = 2, the scores are 0, 0, 0, 4. Their exponentials are 1, 1, 1 and e⁴ ≈ 54.6, "
    "so “tired” gets 54.6 of 57.6, which is 0.948: a score that leads by 4 takes nearly all.",
)

SCORES = Exercise(
    id="02.scores",
    title="Score and scale, without a loop",
    stars=1,
    minutes=6,
    solution=scaled_scores,
    cases=_query_key_cases,
    misconceptions=(
        Misconception(
            "no scale",
            lambda query, key: query @ key.transpose(-2, -1),
            "These are the dot products, and they are right; step 2 is missing. Divide by √d_k, "
            "where d_k is the number of entries in one query: `query.shape[-1]`.",
        ),
        Misconception(
            "divided by d_k",
            lambda query, key: query @ key.transpose(-2, -1) / query.shape[-1],
            "Your scores are divided by d_k; the formula says √d_k. Lesson 03 shows what the "
            "difference does to a model.",
        ),
        Misconception(
            "scaled by the number of tokens",
            lambda query, key: query @ key.transpose(-2, -1) / math.sqrt(query.shape[-2]),
            "You divide by the root of the number of tokens. d_k is the length of one query, its "
            "last axis: `query.shape[-1]`. A text does not grow harder to read word by word.",
        ),
        Misconception(
            "scaled by the first axis",
            lambda query, key: query @ key.transpose(-2, -1) / math.sqrt(query.shape[0]),
            "You divide by the root of the first axis, `query.shape[0]` or `len(query)`. That is "
            "the number of tokens, or of texts in a batch. d_k is the last axis: `query.shape[-1]`.",
        ),
        Misconception(
            "rows and columns swapped",
            lambda query, key: key @ query.transpose(-2, -1) / math.sqrt(query.shape[-1]),
            "Rows and columns are swapped: entry [i, j] here is key i with query j. Row i must "
            "belong to query i, so the query stands on the left of `@` and the key is transposed.",
        ),
        Misconception(
            "scaled by the number of keys",
            lambda query, key: query @ key.transpose(-2, -1) / math.sqrt(key.shape[-2]),
            "You divide by the root of the number of keys. d_k is the number of entries in one of "
            "them, the last axis: `key.shape[-1]`.",
        ),
        Misconception(
            "scaled by the length of the keys' tensor",
            lambda query, key: query @ key.transpose(-2, -1) / math.sqrt(len(key)),
            "`len(key)` is the first axis: the number of keys, or of texts in a batch. d_k is the "
            "last axis: `key.shape[-1]`.",
        ),
        Misconception(
            "scaled by the second axis",
            lambda query, key: query @ key.transpose(-2, -1) / math.sqrt(query.shape[1]),
            "`shape[1]` is d_k for one text, and the number of tokens in a batch of texts. Counted "
            "from the end, `shape[-1]` is d_k in both.",
        ),
        Misconception(
            "always divided by 2",
            lambda query, key: query @ key.transpose(-2, -1) / 2,
            "You divide by 2, which is √d_k in our example, where d_k = 4. Other queries have other "
            "lengths: `math.sqrt(query.shape[-1])`.",
        ),
        Misconception(
            "softmax already",
            lambda query, key: scaled_scores(query, key).softmax(dim=-1),
            "These are weights already. Stop after the division; the softmax is the next exercise.",
        ),
        Misconception(
            "key reshaped",
            lambda query, key: (
                query
                @ key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2])
                / math.sqrt(query.shape[-1])
            ),
            "`reshape` gives the right shape and cuts the numbers anew in reading order: no row "
            "becomes a column. `transpose(-2, -1)` does that.",
        ),
        Misconception(
            "axes counted from the front, for one text",
            lambda query, key: query @ key.transpose(0, 1) / math.sqrt(query.shape[-1]),
            "`transpose(0, 1)` counts the axes from the front. For one text these are the right ones; "
            "for a batch they are texts and tokens. Count from the end: `transpose(-2, -1)`.",
        ),
        Misconception(
            "axes counted from the front, for a batch",
            lambda query, key: query @ key.transpose(1, 2) / math.sqrt(query.shape[-1]),
            "`transpose(1, 2)` is right for a batch and fails for one text, which has no axis 2. "
            "Count from the end, `transpose(-2, -1)`, and it fits both.",
        ),
        Misconception(
            "einsum with fixed axes",
            lambda query, key: torch.einsum("qd,kd->qk", query, key) / math.sqrt(query.shape[-1]),
            "The einsum is right for one text. For any axes in front of it, write an ellipsis: "
            "`...qd,...kd->...qk`.",
        ),
        Misconception(
            "a root that wants a tensor",
            lambda query, key: query @ key.transpose(-2, -1) / torch.sqrt(query.shape[-1]),
            "`torch.sqrt` wants a tensor, and `query.shape[-1]` is a plain number: `math.sqrt` takes "
            "it.",
        ),
        Misconception(
            "key not transposed",
            lambda query, key: query @ key / math.sqrt(query.shape[-1]),
            "A matrix product pairs the rows on its left with the columns on its right. The keys are "
            "rows, so they have to be laid on their side first: `key.transpose(-2, -1)`.",
        ),
        Misconception(
            "transposed with .T",
            _scores_with_t,
            "`.T` reverses all axes. For one text that is the transpose; for a batch it moves the "
            "batch to the end. `key.transpose(-2, -1)` (or `key.mT`) swaps the last two alone.",
        ),
        Misconception(
            "each query with its own key only",
            lambda query, key: (query * key).sum(dim=-1) / math.sqrt(query.shape[-1]),
            "`query * key` multiplies query i with key i and no other. Every query has to meet every "
            "key, which is what the matrix product `query @ key.transpose(-2, -1)` does.",
        ),
        Misconception(
            "multiplied by the root",
            lambda query, key: query @ key.transpose(-2, -1) * math.sqrt(query.shape[-1]),
            "You multiply by √d_k. The scale is there to make long vectors' scores smaller: divide.",
        ),
    ),
    hints=(
        "`A @ B` pairs the rows of A with the columns of B. Queries and keys are both rows: what has "
        "to happen to the keys first?",
        "Negative axes count from the end, so that the same line serves one text and a batch of "
        "them: the last two axes of the key change places, `transpose(-2, -1)`.",
        "d_k is `query.shape[-1]`; divide the product by `math.sqrt` of it.",
    ),
    why="One matrix product computes all dot products at once: row i of the query against every "
    "key. Writing the axes from the end (-2, -1) leaves any axes before them, a batch say, alone.",
)

WEIGHTS = Exercise(
    id="02.weights",
    title="A softmax of your own",
    stars=2,
    minutes=6,
    solution=softmax_rows,
    cases=_score_cases,
    misconceptions=(
        Misconception(
            "down the columns",
            lambda scores: scores.exp() / scores.exp().sum(dim=-2, keepdim=True),
            "Your columns sum to 1, not your rows. A row belongs to one token that reads, and it is "
            "the reader who divides its attention: sum over the keys, the last axis, `dim=-1`.",
        ),
        Misconception(
            "along the first axis",
            lambda scores: scores.softmax(dim=0),
            "`dim=0` is the first axis (Python's own `sum(…)` adds along it as well): the queries of "
            "one text, or the texts of a batch. It is the "
            "reader who divides its attention among the keys, and those are the last axis: `dim=-1`.",
        ),
        Misconception(
            "axis not named",
            lambda scores: scores.softmax(dim=0 if scores.ndim in (0, 1, 3) else 1),
            "Without `dim`, PyTorch guesses the axis: the keys for one text, the texts themselves in a "
            "batch. Say which axis is meant: `dim=-1`.",
        ),
        Misconception(
            "along the second axis",
            lambda scores: scores.softmax(dim=1),
            "`dim=1` is the keys for one text, and right there; in a batch the axes are (text, query, "
            "key), and 1 is the queries. Count from the end: `dim=-1` is the keys in both.",
        ),
        Misconception(
            "over the whole matrix",
            _over_the_last_two_axes,
            "All weights together sum to 1 here. Each row must do so for itself, because each token "
            "divides its own attention: sum over `dim=-1` and keep that axis with `keepdim=True`.",
        ),
        Misconception(
            "over everything",
            lambda scores: scores.exp() / scores.exp().sum(),
            "`sum()` without an axis adds up the whole tensor. Each row must sum to 1 for itself: "
            "`sum(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "no exponential",
            lambda scores: scores / scores.sum(dim=-1, keepdim=True),
            "These are the scores divided by their sum. Scores can be negative, so such weights can "
            "be negative or huge. Take the exponential first: it makes every score positive.",
        ),
        Misconception(
            "not normalised",
            lambda scores: scores.exp(),
            "The exponentials are right; they still have to become shares. Divide each by the sum "
            "of its row.",
        ),
        Misconception(
            "exponential of the sum",
            lambda scores: scores.exp() / scores.sum(dim=-1, keepdim=True).exp(),
            "You divided by the exponential of the sum. It should be the sum of the exponentials: "
            "first `exp`, then `sum`.",
        ),
        Misconception(
            "new axis in second place",
            lambda scores: scores.exp() / scores.exp().sum(dim=-1)[:, None],
            "`[:, None]` puts the new axis in second place, which is right for one text only. "
            "`[..., None]`, or `keepdim=True`, puts it last.",
        ),
        Misconception(
            "a root for a second time",
            lambda scores: (scores / math.sqrt(scores.shape[-1])).softmax(dim=-1),
            "You scale here too. `scaled_scores` has done that; a softmax takes the scores as they "
            "come.",
        ),
        Misconception(
            "logarithm of the weights",
            lambda scores: scores.log_softmax(dim=-1),
            "These are the logarithms of the weights (`log_softmax`), useful for a loss. To mix values "
            "we need the weights themselves.",
        ),
        Misconception(
            "powers of two",
            lambda scores: 2**scores / (2**scores).sum(dim=-1, keepdim=True),
            "You took powers of 2. The softmax takes powers of e: `scores.exp()`. (Both give shares; "
            "e has the simpler derivative.)",
        ),
        Misconception(
            "absolute values",
            lambda scores: scores.abs() / scores.abs().sum(dim=-1, keepdim=True),
            "Absolute values are positive, but −3 would weigh as much as 3. A low score should mean "
            "little: the exponential keeps the order.",
        ),
        Misconception(
            "exponential of one number",
            lambda scores: math.exp(scores),
            "`math.exp` takes one number. A tensor has its own: `scores.exp()` takes all of them.",
        ),
        Misconception(
            "sigmoid",
            lambda scores: scores.sigmoid(),
            "A sigmoid squeezes each score for itself between 0 and 1, and a row need not sum to 1. "
            "In a softmax the keys compete: what one wins, the others lose.",
        ),
        Misconception(
            "keepdim forgotten",
            lambda scores: scores.exp() / scores.exp().sum(dim=-1),
            "The row sums are right, but without `keepdim=True` they are a flat vector, and PyTorch "
            "lays it along the columns: entry [i, j] is divided by the sum of row j. Where the sizes "
            "differ it fails; where they agree it is quietly wrong.",
        ),
    ),
    hints=(
        "Two lines are enough: `exponentials = scores.exp()`, then each one's share of its row.",
        "`exponentials.sum(dim=-1)` adds up each row. Print its shape beside that of the "
        "exponentials: can the one be divided by the other, row by row?",
        "`keepdim=True` keeps the summed axis with size 1, so that each row is divided by its own "
        "sum.",
    ),
    why="The exponential makes every score positive and turns differences into ratios: one more in "
    "the score is e ≈ 2.72 times the weight. Dividing by the row's sum makes shares of it.",
)

ATTENTION = Exercise(
    id="02.attention",
    title="Attention",
    stars=2,
    minutes=8,
    solution=attention,
    cases=_attention_cases,
    misconceptions=(
        Misconception(
            "weights transposed",
            lambda query, key, value: (
                softmax_rows(scaled_scores(query, key)).transpose(-2, -1) @ value,
                softmax_rows(scaled_scores(query, key)),
            ),
            "The weights you return are right, but they are transposed before the mixing: each "
            "token now gets what others read of it, instead of what it reads. Use `weights @ value`.",
        ),
        Misconception(
            "weights not returned",
            lambda query, key, value: softmax_rows(scaled_scores(query, key)) @ value,
            "The output is right. Return the weights as well, so that we can look at them: "
            "`return output, weights`.",
        ),
        Misconception(
            "output not returned",
            lambda query, key, value: softmax_rows(scaled_scores(query, key)),
            "The weights are right. Mix the values with them, and return both: "
            "`return weights @ value, weights`.",
        ),
        Misconception(
            "scores returned in place of weights",
            lambda query, key, value: (
                softmax_rows(scaled_scores(query, key)) @ value,
                scaled_scores(query, key),
            ),
            "The output is right, but the second result holds the scores. Return the weights: what "
            "came out of the softmax.",
        ),
        Misconception(
            "scaled twice",
            lambda query, key, value: (
                softmax_rows(scaled_scores(query, key) / math.sqrt(query.shape[-1])) @ value,
                softmax_rows(scaled_scores(query, key) / math.sqrt(query.shape[-1])),
            ),
            "The scores are divided by √d_k twice: `scaled_scores` has done it already.",
        ),
        Misconception(
            "scaled by the values' length",
            lambda query, key, value: (
                softmax_rows(query @ key.transpose(-2, -1) / math.sqrt(value.shape[-1])) @ value,
                softmax_rows(query @ key.transpose(-2, -1) / math.sqrt(value.shape[-1])),
            ),
            "You divide by the root of d_v, the length of a value. It is queries and keys that are "
            "multiplied: take the root of `query.shape[-1]`.",
        ),
        Misconception(
            "softmax over the second axis",
            lambda query, key, value: (
                scaled_scores(query, key).softmax(dim=1) @ value,
                scaled_scores(query, key).softmax(dim=1),
            ),
            "Your softmax runs over `dim=1`: the keys for one text, the queries in a batch. Use "
            "`softmax_rows`, or `dim=-1`.",
        ),
        Misconception(
            "entry by entry in place of mixing",
            lambda query, key, value: (softmax_rows(scaled_scores(query, key)) * value, None),
            "`weights * value` multiplies entry by entry. Mixing adds up whole values, each with its "
            "weight: that is the matrix product, `weights @ value`.",
        ),
        Misconception(
            "output and weights in the other order",
            lambda query, key, value: (
                softmax_rows(scaled_scores(query, key)),
                softmax_rows(scaled_scores(query, key)) @ value,
            ),
            "Both parts are right, in the other order: first the output, then the weights.",
        ),
        Misconception(
            "factors of the mixing swapped",
            lambda query, key, value: (value @ softmax_rows(scaled_scores(query, key)), None),
            "`value @ weights` pairs the wrong axes. Output row i is the sum over j of "
            "weights[i, j] · value[j]: the weights stand on the left, `weights @ value`.",
        ),
        Misconception(
            "scale forgotten",
            lambda query, key, value: (
                softmax_rows(query @ key.transpose(-2, -1)) @ value,
                softmax_rows(query @ key.transpose(-2, -1)),
            ),
            "These come out when the scores are not scaled. Use your `scaled_scores`, which divides "
            "by √d_k.",
        ),
        Misconception(
            "softmax forgotten",
            lambda query, key, value: (
                scaled_scores(query, key) @ value,
                scaled_scores(query, key),
            ),
            "The second result holds scores, not weights: its rows do not sum to 1. Put "
            "`softmax_rows` between the scores and the mixing.",
        ),
        Misconception(
            "softmax twice",
            lambda query, key, value: (
                softmax_rows(softmax_rows(scaled_scores(query, key))) @ value,
                softmax_rows(softmax_rows(scaled_scores(query, key))),
            ),
            "A softmax of a softmax: the first one's results all lie between 0 and 1, so the second "
            "one makes them nearly equal. Once is enough.",
        ),
        Misconception(
            "query and key swapped",
            lambda query, key, value: (
                softmax_rows(scaled_scores(key, query)) @ value,
                softmax_rows(scaled_scores(key, query)),
            ),
            "Query and key have changed places: row i belongs to key i. The token that reads asks "
            "with its query: `scaled_scores(query, key)`.",
        ),
        Misconception(
            "output added to the values",
            lambda query, key, value: (
                value + softmax_rows(scaled_scores(query, key)) @ value,
                softmax_rows(scaled_scores(query, key)),
            ),
            "You add the values to the mixture. Adding what was there before (a residual connection) "
            "is a good idea, and lesson 08 does it, with the token vectors and outside of attention.",
        ),
        Misconception(
            "keys mixed in place of values",
            lambda query, key, value: (
                softmax_rows(scaled_scores(query, key)) @ key,
                softmax_rows(scaled_scores(query, key)),
            ),
            "The mixture is one of keys. A key is what a token is found by; what it passes on is its "
            "value: `weights @ value`.",
        ),
    ),
    hints=(
        "You have both parts already: `scaled_scores` and `softmax_rows`. Their result is the "
        "weights.",
        "Output row i is the sum over j of weights[i, j] · value[j]. Which matrix product is that?",
        "`return weights @ value, weights`: the output first, then the weights.",
    ),
    why="The whole formula in two lines. The weights are returned too, because looking at them is "
    "half the fun of this course.",
)

EXERCISES = (BY_HAND, SCORES, WEIGHTS, ATTENTION)

QUIZ = (
    Question(
        "The weights form an n × n matrix. What does its row 3 say?",
        (
            Choice(
                "How much each token reads token 3.",
                False,
                "That is column 3. A column need not sum to 1: a token may be read by all or by none.",
            ),
            Choice(
                "How much token 3 reads each token.",
                True,
                "A row belongs to the token that reads (the query), and its entries sum to 1.",
            ),
            Choice(
                "How important token 3 is for the meaning of the text.",
                False,
                "Weights say where a token read. They are no measure of importance, and another "
                "layer may read quite differently.",
            ),
        ),
    ),
    Question(
        "“it” scores three keys with 1, 1 and 1. Then every score rises by 5. What are the weights?",
        (
            Choice(
                "1/3 each before; near 1 each after.",
                False,
                "A row sums to 1 whatever the scores are, so three weights cannot all be near 1.",
            ),
            Choice(
                "1 each before, 6 each after.",
                False,
                "These are the scores. Weights are shares of one whole.",
            ),
            Choice(
                "1/3 each, before and after.",
                True,
                "Equal scores give equal shares, and a softmax sees only differences: the factor e⁵ "
                "stands above and below the line and cancels.",
            ),
        ),
    ),
    Question(
        "Why can one pass of this lesson's attention not make “it” read “animal” beside “tired” and “road” beside “wide”?",
        (
            Choice(
                "“tired” stands too far from “it”.",
                False,
                "Distance plays no part: our attention does not even know where words stand.",
            ),
            Choice(
                "One pass has too few parameters; larger matrices would do it.",
                False,
                "We drew a thousand layers at random, and the ratio never moved; size changes nothing "
                "about what cancels.",
            ),
            Choice(
                "The ratio of two weights of one query depends on that query and those two keys only.",
                True,
                "The sum below the line cancels in the ratio, and with it every other word. In one "
                "pass “it” asks the same question in both sentences, and “animal” and “road” offer the "
                "same keys.",
            ),
        ),
    ),
    Question(
        "You shuffle the words of a text and run this lesson's self-attention again.",
        (
            Choice(
                "The outputs are the same vectors, shuffled along.",
                True,
                "This is permutation equivariance: a word gets the same mixture wherever it stands.",
            ),
            Choice(
                "The outputs do not change at all.",
                False,
                "That would be invariance. Row 0 of the output belongs to whatever word is at place "
                "0 now, so the rows move with their words.",
            ),
            Choice(
                "Each output changes in an unforeseeable way.",
                False,
                "Scores depend on pairs of vectors, and the pairs are the same in every order.",
            ),
        ),
    ),
    Question(
        "Which of these does training change directly?",
        (
            Choice(
                "The vectors that the words start from.",
                True,
                "The embedding is a matrix of parameters too: lesson 01 looks tokens up in it.",
            ),
            Choice(
                "The factor 1/√d_k.",
                False,
                "It follows from the width of the vectors and is no parameter; lesson 03 derives it.",
            ),
            Choice(
                "The matrices that make queries, keys and values.",
                True,
                "They are the layer's parameters; gradient descent adjusts them.",
            ),
            Choice(
                "The n × n attention weights.",
                False,
                "They are computed anew from each text, and exist for that text only.",
            ),
        ),
    ),
    Question(
        "“it” reads “tired” with a weight of 0.95, and the value of “tired” is all zeros. What happens?",
        (
            Choice(
                "“it” becomes almost a copy of “tired”.",
                False,
                "Not the word's vector is mixed in, but its value, which here holds nothing.",
            ),
            Choice(
                "“it” receives almost nothing from it.",
                True,
                "The weight says where it read, the value what was passed on; 0.95 times nothing is "
                "nothing.",
            ),
            Choice(
                "The softmax gives the weight to other words.",
                False,
                "Values come after the softmax and cannot change the weights.",
            ),
        ),
    ),
)
