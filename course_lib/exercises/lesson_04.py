"""Exercises and quiz of lesson 04: targets, the causal mask, masked attention, a leak test."""

import itertools
import math

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.model import attention as library


def inputs_and_targets(tokens):
    """Tokens (..., T + 1) → inputs (..., T), and for each of them the token that follows."""
    return tokens[..., :-1], tokens[..., 1:]


def causal_mask(length):
    """Who may read whom: may_attend (query, key) = (length, length), bool.

    True where the query may read the key: the key stands at its place or before it.
    """
    place = torch.arange(length)
    return place[None, :] <= place[:, None]  # key <= query


def masked_attention(query, key, value, may_attend):
    """Attention that gives weight only where may_attend is True.

    query (..., query, d_k), key (..., key, d_k), value (..., key, d_v); may_attend bool,
    (query, key) or any shape that broadcasts to (..., query, key).
    Returns output (..., query, d_v) and weights (..., query, key). The row of a query that may
    read nothing is zeros, in both.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    weights = weights.masked_fill(~may_attend, 0.0)  # a row of -inf alone came out as NaN
    return weights @ value, weights


def leaks(model, tokens, vocab_size):
    """Whether another token at some place changes an output at an earlier place: True or False.

    model(tokens): (position,), integers from 0 to vocab_size - 1 → (position, d).
    Differences up to 1e-4 are rounding; any larger one, in a single number, is a leak. The tokens
    you were given must stay as they are.
    """
    outputs = model(tokens)
    for place in range(1, len(tokens)):
        changed = tokens.clone()
        changed[place] = (tokens[place] + 1) % vocab_size
        difference = model(changed)[:place] - outputs[:place]
        if difference.abs().max() > 1e-4:
            return True
    return False


# targets


def _tokens(*shape, seed):
    """As many different numbers, so that each says where it stood."""
    order = torch.randperm(math.prod(shape), generator=torch.Generator().manual_seed(seed))
    return 3 * order.view(shape)


def _target_cases():
    yield (_tokens(5, seed=0),)
    yield (_tokens(3, 7, seed=1),)
    yield (_tokens(2, 3, 11, seed=2),)
    yield (_tokens(2, seed=3),)


TARGETS = Exercise(
    id="04.targets",
    title="What is to be predicted",
    stars=1,
    minutes=3,
    solution=inputs_and_targets,
    cases=_target_cases,
    misconceptions=(
        Misconception(
            "rolled",
            lambda tokens: (tokens, tokens.roll(-1, dims=-1)),
            "`roll` pushes the first token round to the end: your last target is the first token, "
            "which did not come next. The last token has no successor here, so it is a target and "
            "no input, and both parts have one token less than the piece.",
        ),
        Misconception(
            "rolled, then cut",
            lambda tokens: (tokens[..., :-1], tokens[..., :-1].roll(-1, dims=-1)),
            "You rolled the inputs. Their last target is then the first token again. Take the "
            "targets from the tokens themselves: `tokens[..., 1:]`.",
        ),
        Misconception(
            "the same twice",
            lambda tokens: (tokens, tokens),
            "Inputs and targets are the same here: a model that repeats what it reads would have no "
            "loss. The target is the token that *follows*.",
        ),
        Misconception(
            "the same twice, cut",
            lambda tokens: (tokens[..., :-1], tokens[..., :-1]),
            "The inputs are right, and the targets are the inputs once more. They begin one token "
            "later, and end one later.",
        ),
        Misconception(
            "backwards",
            lambda tokens: (tokens[..., 1:], tokens[..., :-1]),
            "Inputs and targets have changed places: this trains a model to guess the token *before*.",
        ),
        Misconception(
            "two ahead",
            lambda tokens: (tokens[..., :-2], tokens[..., 2:]),
            "Your targets are two tokens ahead. Next is one: `tokens[..., 1:]`.",
        ),
        Misconception(
            "along the first axis",
            lambda tokens: (tokens[:-1], tokens[1:]),
            "`tokens[:-1]` cuts along the first axis. For one piece that is right; in a batch it "
            "drops a whole piece, and each is to predict its neighbour. Cut the last axis: "
            "`tokens[..., :-1]`.",
        ),
        Misconception(
            "second axis named",
            lambda tokens: (tokens[:, :-1], tokens[:, 1:]),
            "`tokens[:, …]` names the second axis, which is right for a batch of pieces alone. "
            "`tokens[..., :-1]` cuts the last axis, whatever stands in front.",
        ),
        Misconception(
            "inputs not cut",
            lambda tokens: (tokens, tokens[..., 1:]),
            "The targets are right. You have one input too many: after the last token we do not know "
            "what came, so it cannot be an input.",
        ),
        Misconception(
            "the last target alone",
            lambda tokens: (tokens[..., :-1], tokens[..., -1]),
            "You kept one target, the last one. Each input has its own: T inputs, T targets. That is "
            "what makes next-token training so cheap.",
        ),
        Misconception(
            "the last target alone, kept as an axis",
            lambda tokens: (tokens[..., :-1], tokens[..., -1:]),
            "You kept one target, the last one: `-1:` is a slice that begins at the last token. The targets "
            "begin at the second, `1:`.",
        ),
        Misconception(
            "a list of pairs",
            lambda tokens: list(zip(tokens[..., :-1], tokens[..., 1:], strict=True)),
            "You return a list of pairs, an input and its target each. Asked for are two tensors: all inputs "
            "and all targets, each a slice of the tokens. PyTorch then treats all pairs at once.",
        ),
        Misconception(
            "a list of pairs, along the first axis",
            lambda tokens: list(itertools.pairwise(tokens)),
            "You return a list of pairs. Asked for are two tensors: all inputs and all targets, each a slice "
            "of the tokens along their last axis, `tokens[..., :-1]`.",
        ),
        Misconception(
            "a list of pairs, one by one",
            lambda tokens: [
                (tokens[..., place], tokens[..., place + 1])
                for place in range(tokens.shape[-1] - 1)
            ],
            "You return a list of pairs, one token and the next each. Asked for are two tensors: all inputs and "
            "all targets, each a slice of the tokens.",
        ),
        Misconception(
            "a list of beginnings",
            lambda tokens: [
                (tokens[..., :end], tokens[..., end]) for end in range(1, tokens.shape[-1])
            ],
            "You return each beginning of the text with its next token: the table above, row by row. Asked for "
            "are two tensors. The model reads all inputs in one go, and its row t has then read the beginning "
            "up to t; so the inputs are the tokens but the last, once.",
        ),
        Misconception(
            "length of the first axis",
            lambda tokens: (tokens[..., : len(tokens) - 1], tokens[..., 1:]),
            "`len(tokens)` is the first axis: T + 1 for one piece, but the number of pieces in a batch. "
            "`:-1` needs no length.",
        ),
        Misconception(
            "the next number",
            lambda tokens: (tokens[..., :-1], tokens[..., :-1] + 1),
            "You added 1 to the tokens: the next number of the vocabulary. Meant is the next token of "
            "the text.",
        ),
    ),
    hints=(
        "Write five letters in a row, and below each the letter that comes next. Where does the row "
        "below begin, and where must the row above end?",
        "A slice that leaves out the last entry is `[..., :-1]`; one that leaves out the first, "
        "`[..., 1:]`. The three dots stand for all axes in front.",
    ),
    why="T + 1 tokens in a row hold T pairs of a token and its successor. The first is no target, "
    "the last no input, and the same tokens serve twice.",
)


# mask


def _library_mask(length):
    """causal_mask(length), by the library."""
    place = torch.arange(length)
    return library.causal_mask(place, place)


def _mask_cases():
    return [(5,), (3,), (2,), (1,), (11,)]


MASK = Exercise(
    id="04.mask",
    title="The lower triangle",
    stars=1,
    minutes=4,
    solution=causal_mask,
    reference=_library_mask,
    cases=_mask_cases,
    misconceptions=(
        Misconception(
            "upper triangle",
            lambda length: torch.ones(length, length).triu().bool(),
            "This is the upper triangle: row i is True from i on, so each token reads what comes "
            "*after* it. A row is the reader (query), a column what is read (key): row i must be "
            "True up to column i. `tril` keeps the lower triangle.",
        ),
        Misconception(
            "without the diagonal",
            lambda length: torch.ones(length, length).tril(-1).bool(),
            "The diagonal is False: no token reads itself, and the first one nothing at all. A token "
            "has been read when its successor is predicted, so it may read itself.",
        ),
        Misconception(
            "one too far",
            lambda length: torch.ones(length, length).tril(1).bool(),
            "Row i is True up to column i + 1, and token i + 1 is just what row i must predict: the "
            "smallest leak there is, and a fatal one.",
        ),
        Misconception(
            "what is hidden",
            lambda length: torch.ones(length, length).triu(1).bool(),
            "Yours is True where a token must *not* read. Our masks say `may_attend`, so True means "
            "*may*. (PyTorch itself has both conventions; see *In practice*.)",
        ),
        Misconception(
            "numbers in place of booleans",
            lambda length: torch.ones(length, length).tril(),
            "The triangle is right, but it holds the numbers 1.0 and 0.0. A mask says yes or no: "
            "`.bool()` makes it True and False, and `~` can then turn it round.",
        ),
        Misconception(
            "what is added to the scores",
            lambda length: torch.zeros(length, length).masked_fill(
                ~causal_mask(length), float("-inf")
            ),
            "That is the matrix M which the formula adds to the scores: 0 and −∞. Asked for is the "
            "mask it is made from: True and False.",
        ),
        Misconception(
            "everything",
            lambda length: torch.ones(length, length, dtype=torch.bool),
            "All True: everyone reads everyone, as in lesson 02. Keep the lower triangle.",
        ),
        Misconception(
            "each token itself alone",
            lambda length: torch.eye(length, dtype=torch.bool),
            "Each token reads only itself here. It may read all that came before it as well.",
        ),
        Misconception(
            "a list",
            lambda length: [[key <= query for key in range(length)] for query in range(length)],
            "The entries are right, in a Python list. Make a tensor of it, `torch.tensor(…)`, so "
            "that it can mask scores.",
        ),
        Misconception(
            "whole numbers",
            lambda length: torch.ones(length, length, dtype=torch.int64).tril(),
            "The triangle is right, but it holds the whole numbers 1 and 0, and `~1` is −2. "
            "`.bool()` makes it True and False.",
        ),
        Misconception(
            "with axes in front",
            lambda length: causal_mask(length)[None, None],
            "The triangle is right, with two axes of size 1 in front of it. Leave them out: (query, "
            "key) fits every batch, for PyTorch repeats an axis that is missing in front.",
        ),
        Misconception(
            "one axis added to both",
            lambda length: torch.arange(length) <= torch.arange(length),
            "Two vectors of the same shape are compared entry by entry: each place with itself. Give "
            "them different axes, `place[None, :] <= place[:, None]`, and every key meets every query. (If "
            "you took one row of the triangle: all rows are asked for, one for each query.)",
        ),
        Misconception(
            "a line of ones",
            lambda length: torch.ones(length).tril().bool(),
            "`tril` wants a matrix, and `torch.ones(length)` is one row: `torch.ones(length, length)`.",
        ),
        Misconception(
            "from the other corner",
            lambda length: torch.ones(length, length).tril().flip(-1).bool(),
            "Your triangle is a mirror image: row 0 may read the *last* token. Row i is True from "
            "column 0 to column i.",
        ),
    ),
    hints=(
        "Draw the mask for three tokens. Which columns may row 0 read? Row 1? Row 2?",
        "Row i, column j is True where j ≤ i. PyTorch compares whole vectors: what comes out of "
        "`torch.arange(3)[None, :] <= torch.arange(3)[:, None]`?",
        "Another way: `torch.ones(length, length)` has a method `tril`, and the result one `bool`.",
    ),
    why="The key's place is compared with the query's: `place[None, :]` runs along the columns (keys), "
    "`place[:, None]` down the rows (queries), and ≤ includes the token itself.",
)


# masked attention


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _trainable(*shape, seed=0):
    """As in training: gradients flow, in double precision."""
    return _random(*shape, seed=seed).double().requires_grad_()


def _some(*shape, seed):
    """A mask at random, about half of it True; row 1 is empty, row 2 is not."""
    may_attend = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    may_attend[..., 1, :] = False
    may_attend[..., 2, 2] = True
    return may_attend


def _attention_cases():
    yield _random(5, 3), _random(5, 3, seed=1), _random(5, 7, seed=2), causal_mask(5)
    yield (
        _random(2, 3, 5, seed=3),
        _random(2, 7, 5, seed=4),
        _random(2, 7, 11, seed=5),
        _some(3, 7, seed=6),
    )
    is_token = torch.arange(7) < torch.tensor([7, 3])[:, None]
    yield (
        _random(2, 3, 5, seed=7),
        _random(2, 7, 5, seed=8),
        _random(2, 7, 11, seed=9),
        is_token[:, None, :],
    )
    yield (
        _trainable(2, 3, 5, 7),
        _trainable(2, 3, 11, 7, seed=1),
        _trainable(2, 3, 11, 13, seed=2),
        _some(5, 11, seed=3),
    )
    yield _far_apart()


def _far_apart():
    """What may be read scores about -1000, what is hidden about +1000."""
    query, key = _random(3, 2, seed=10).double(), _random(5, 2, seed=11).double()
    query[:, 0] = 1
    key[:, 0] = key[:, 0] / 10 - 1000 * math.sqrt(2)
    key[3:, 0] += 2000 * math.sqrt(2)
    may_attend = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]).bool()
    return query, key, _random(5, 7, seed=12).double(), may_attend


def _attend(answer, query, key, value, may_attend):
    """The answer's result, and whether gradients come back from its output as numbers."""
    result = answer(query, key, value, may_attend)
    return {"result": result, "gradients": _gradients(result, (query, key, value))}


def _gradients(result, inputs):
    """In a word, what flows back from the output: "numbers", or "NaN" where one is none."""
    try:
        found = torch.autograd.grad(result[0].sum(), inputs, allow_unused=True, retain_graph=True)
    except Exception:  # nothing asked for, or nothing to flow back from: not told here
        return "numbers"
    return "NaN" if any(g is not None and g.isnan().any() for g in found) else "numbers"


def _library_attention(query, key, value, may_attend):
    """masked_attention(query, key, value, may_attend), by the library."""
    return library.attention(query, key, value, may_attend)


def _scores(query, key):
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def _by_weights(weights_of):
    """An answer whose weights are weights_of(scores, may_attend)."""

    def answer(query, key, value, may_attend):
        weights = weights_of(_scores(query, key), may_attend)
        return weights @ value, weights

    return answer


def _by_scores(scores_of):
    """An answer that is right but for its scores, scores_of(query, key)."""

    def answer(query, key, value, may_attend):
        weights = _masked_softmax(scores_of(query, key), may_attend)
        return weights @ value, weights

    return answer


def _masked_softmax(scores, may_attend):
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~may_attend, 0.0)


def _renormalised(scores, may_attend):
    weights = scores.softmax(dim=-1) * may_attend
    return weights / weights.sum(dim=-1, keepdim=True)


def _renormalised_safely(scores, may_attend):
    weights = scores.softmax(dim=-1) * may_attend
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)


def _exponentials(divide):
    """Weights from exponentials that are struck out, without taking off the largest first."""

    def weights_of(scores, may_attend):
        exponentials = scores.exp() * may_attend
        return divide(exponentials, exponentials.sum(dim=-1, keepdim=True))

    return weights_of


def _added(scores, may_attend):
    hidden = torch.zeros(may_attend.shape).masked_fill(~may_attend, -math.inf)
    return (scores + hidden).softmax(dim=-1).nan_to_num(0.0)


def _indexed(scores, may_attend):
    scores[~may_attend] = -math.inf
    return scores.softmax(dim=-1).nan_to_num(0.0)


def _its_own_triangle(scores, may_attend):
    return _masked_softmax(scores, torch.ones(scores.shape[-2:]).tril().bool())


def _rows_without_keepdim(scores, may_attend):
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~may_attend.any(dim=-1), 0.0)


def _output_mended(query, key, value, may_attend):
    weights = _scores(query, key).masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    return (weights @ value).nan_to_num(0.0), weights


def _weights_mended_late(query, key, value, may_attend):
    weights = _scores(query, key).masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    return weights @ value, weights.nan_to_num(0.0)


def _softmax_over(dim):
    def weights_of(scores, may_attend):
        weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=dim)
        return weights.masked_fill(~may_attend, 0.0)

    return weights_of


_BY_HAND = (
    "Exponentials, the hidden ones struck out, the rest divided by its sum: right on paper. But `exp` of a "
    "large score is infinite, ∞ · 0 is NaN, and exponentials that have all rounded to 0 leave 0/0. PyTorch's "
    "`softmax` takes the largest score off first (lesson 03), and knows what to do with −∞: fill, then softmax."
)

_SUBTRACTED = (
    "Right wherever there is something to read: so far down no hidden score gets any weight. But in a row "
    "that may read nothing *all* scores are lowered alike, and a softmax does not notice a constant taken off "
    "the whole row (lesson 03): the weight goes to what is hidden. Such a row has to be zeros: fill the weights "
    "with 0 where `may_attend` is False."
)

ATTENTION = Exercise(
    id="04.attention",
    title="Masked attention",
    stars=2,
    minutes=8,
    solution=masked_attention,
    reference=_library_attention,
    call=_attend,
    cases=_attention_cases,
    misconceptions=(
        Misconception(
            "no mask",
            _by_weights(lambda scores, may_attend: scores.softmax(dim=-1)),
            "The mask plays no part yet. Where `may_attend` is False, the score has to become −∞ "
            "before the softmax: `scores.masked_fill(~may_attend, -math.inf)`.",
        ),
        Misconception(
            "zero before the softmax",
            _by_weights(
                lambda scores, may_attend: scores.masked_fill(~may_attend, 0.0).softmax(dim=-1)
            ),
            "A score of 0 is no prohibition: e⁰ = 1, which is more than any negative score gets. "
            "(Multiplying the scores by the mask does the same.) Only −∞ gives e⁻∞ = 0.",
        ),
        Misconception(
            "zero after the softmax",
            _by_weights(
                lambda scores, may_attend: scores.softmax(dim=-1).masked_fill(~may_attend, 0.0)
            ),
            "You strike weights out after the softmax. What is left no longer sums to 1, and it still "
            "depends on the hidden tokens: they have had their part in the sum below the line. Hide "
            "them before.",
        ),
        Misconception(
            "zero after, divided by the rest",
            _by_weights(_renormalised),
            "On paper this is right: weights struck out, the rest divided by its sum. In floating "
            "point a hidden key with a large score takes everything first, what is left rounds to 0, "
            "and 0/0 is NaN. A row that may read nothing is 0/0 too. (So it is with exponentials by "
            "hand.) Fill before the softmax, which takes the largest score off first.",
        ),
        Misconception(
            "zero after, divided by a little more",
            _by_weights(_renormalised_safely),
            "The `clamp` (or a small number added) hides the 0/0, not its cause: a hidden key with a "
            "large score has taken everything before you strike it out, and a row that should read "
            "something reads nothing. Hide before the softmax.",
        ),
        Misconception(
            "the wrong way round",
            _by_weights(
                lambda scores, may_attend: _masked_softmax(scores, ~may_attend),
            ),
            "You hide what may be read, and show what may not. `masked_fill` fills where its mask is "
            "True, so it needs `~may_attend`.",
        ),
        Misconception(
            "the wrong way round, NaN left",
            _by_weights(
                lambda scores, may_attend: scores.masked_fill(may_attend, -math.inf).softmax(dim=-1)
            ),
            "`masked_fill` fills where its mask is True: with `may_attend` you hide what may be read. "
            "Give it `~may_attend`. (Then see to the rows that may read nothing.)",
        ),
        Misconception(
            "a large negative number",
            _by_weights(
                lambda scores, may_attend: scores.masked_fill(~may_attend, -1e9).softmax(dim=-1)
            ),
            "Right wherever there is something to read: e to the power of a huge negative number rounds "
            "to 0. But in a row that may read nothing all scores are now *equal*, and the softmax "
            "spreads the weight over what is hidden. Such a row has to be zeros.",
        ),
        Misconception(
            "a large number subtracted",
            _by_weights(lambda scores, may_attend: (scores - 1e9 * ~may_attend).softmax(dim=-1)),
            _SUBTRACTED,
        ),
        Misconception(
            "a number subtracted",
            _by_weights(lambda scores, may_attend: (scores - 1e4 * ~may_attend).softmax(dim=-1)),
            _SUBTRACTED,
        ),
        Misconception(
            "a number that is not negative enough",
            _by_weights(
                lambda scores, may_attend: scores.masked_fill(~may_attend, -100.0).softmax(dim=-1)
            ),
            "−100 is not low enough: our check has rows whose allowed scores are lower still, and "
            "there the hidden keys win. −∞ lies below every score.",
        ),
        Misconception(
            "NaN where there is nothing to read",
            _by_weights(
                lambda scores, may_attend: scores.masked_fill(~may_attend, -math.inf).softmax(
                    dim=-1
                )
            ),
            "Right wherever there is something to read. In a row that may read nothing all scores are "
            "−∞, the sum below the line is 0, and 0/0 is NaN. Fill the weights too: where "
            "`may_attend` is False they have to be 0. (Multiplying by 0 is not enough, for 0 · NaN is NaN. If you *added* −∞, use `masked_fill` there as well: "
            "an addition hands NaN on to the gradients.)",
        ),
        Misconception(
            "NaN in the gradient alone",
            _by_weights(_added),
            "The numbers are right, but their **gradients** are NaN: it came up, and was replaced too "
            "late or beside an addition. On the way back 0/0 comes up once more in the softmax of a row of "
            "−∞ alone. An *addition* of −∞ passes it on to query and key; `masked_fill` passes nothing back "
            "from what it filled. So fill the scores before the softmax, and the weights right after it, "
            "before they are mixed.",
        ),
        Misconception(
            "exponentials by hand, divided by a little more",
            _by_weights(_exponentials(lambda shares, total: shares / (total + 1e-9))),
            _BY_HAND,
        ),
        Misconception(
            "exponentials by hand, NaN replaced",
            _by_weights(_exponentials(lambda shares, total: (shares / total).nan_to_num(0.0))),
            _BY_HAND,
        ),
        Misconception(
            "minus infinity times zero",
            _by_weights(
                lambda scores, may_attend: (scores + ~may_attend * -math.inf).softmax(dim=-1)
            ),
            "`~may_attend * -math.inf` is 0 · (−∞) where the token may read, and that is NaN, not 0. "
            "`masked_fill` puts −∞ where it belongs and touches nothing else.",
        ),
        Misconception(
            "a triangle of its own",
            _by_weights(_its_own_triangle),
            "You mask with a triangle of your own making. The mask is an argument, and it need not be "
            "causal: padding, below, gives another one. Use `may_attend`.",
        ),
        Misconception(
            "boolean index",
            _by_weights(_indexed),
            "`scores[~may_attend] = …` wants a mask of the very shape of the scores. One mask should "
            "serve a whole batch: `masked_fill` broadcasts it.",
        ),
        Misconception(
            "rows without keepdim",
            _by_weights(_rows_without_keepdim),
            "`may_attend.any(dim=-1)` has lost the axis of the keys, and PyTorch lays it along the "
            "columns. `any(dim=-1, keepdim=True)` keeps it; filling by `~may_attend` does without.",
        ),
        Misconception(
            "output mended, weights not",
            _output_mended,
            "The output is right. The weights you return still hold NaN in the row that may read "
            "nothing. Mend them first, and mix with the mended ones.",
        ),
        Misconception(
            "weights mended, output not",
            _weights_mended_late,
            "The weights are right. The output was mixed before you mended them, so it still holds "
            "NaN. Mend first, then mix.",
        ),
        Misconception(
            "scale forgotten",
            _by_scores(lambda query, key: query @ key.transpose(-2, -1)),
            "Masked rightly, but the scores are not scaled. Divide by √d_k, with d_k = "
            "`query.shape[-1]` (lesson 03).",
        ),
        Misconception(
            "divided by d_k",
            _by_scores(lambda query, key: query @ key.transpose(-2, -1) / query.shape[-1]),
            "Masked rightly, but the scores are divided by d_k in place of √d_k (lesson 03).",
        ),
        Misconception(
            "over the queries",
            _by_weights(_softmax_over(-2)),
            "Your softmax runs down the columns, over the queries. It is the reader who divides its "
            "attention: along the keys, `dim=-1`.",
        ),
        Misconception(
            "over the second axis",
            _by_weights(_softmax_over(1)),
            "Your softmax runs over `dim=1`: the keys for one text, the queries in a batch. `dim=-1` "
            "is the keys in both.",
        ),
        Misconception(
            "weights not returned",
            lambda query, key, value, may_attend: masked_attention(query, key, value, may_attend)[
                0
            ],
            "The output is right. Return the weights as well: `return output, weights`.",
        ),
        Misconception(
            "in the other order",
            lambda query, key, value, may_attend: masked_attention(query, key, value, may_attend)[
                ::-1
            ],
            "Both are right, in the other order: first the output, then the weights.",
        ),
        Misconception(
            "key not transposed",
            _by_scores(lambda query, key: query @ key / math.sqrt(query.shape[-1])),
            "A matrix product pairs rows with columns, and the keys are rows: lay them on their side, "
            "`key.transpose(-2, -1)`.",
        ),
        Misconception(
            "transposed with .T",
            _by_scores(
                lambda query, key: (
                    query @ key.permute(*range(key.ndim)[::-1]) / math.sqrt(query.shape[-1])
                )
            ),
            "`.T` reverses all axes. For one text that is the transpose; for a batch, "
            "`key.transpose(-2, -1)` is.",
        ),
    ),
    hints=(
        "Begin as in lesson 02: scaled scores, softmax, mixture. At which of the three steps must the "
        "mask come in, so that hidden keys have no part in the sum below the line?",
        "`scores.masked_fill(~may_attend, -math.inf)` puts −∞ where `may_attend` is False, and "
        "broadcasts. What does the softmax then make of a row of −∞ alone? Try "
        "`torch.full((3,), -math.inf).softmax(dim=0)`.",
        "Fill twice: −∞ into the scores before the softmax, 0 into the weights after it. Then mix, and "
        "return both.",
    ),
    why="Before the softmax −∞ takes a hidden key out of the sum; after it, filling with 0 changes only "
    "the rows that had nothing to read. And since what is filled in passes no gradient back, the NaN "
    "stays inside on the way back, too.",
)


# leak


def _models(vocab_size):
    """Models that read honestly and models that peek, each a function of tokens (position,)."""
    table = _random(vocab_size, 3, seed=vocab_size)
    table[:, 0] = 1 + torch.arange(vocab_size) / 2

    def of_vectors(work):
        return lambda tokens: work(table[_known(tokens, vocab_size)])

    return {name: of_vectors(work) for name, work in (_HONEST | _PEEKING).items()}


def _known(tokens, vocab_size):
    if tokens.min() < 0 or tokens.max() >= vocab_size:
        raise IndexError("the model knows no such token")
    return tokens


def _from_the_end(x):
    """The sum up to each token, as the sum of all less that of the later ones: other rounding."""
    later = x.flip(0).cumsum(dim=0).flip(0) - x
    return x.sum(dim=0) - later


def _shifted(x, by):
    """Each token reads the one `by` places on, itself where there is none."""
    places = torch.arange(len(x))
    places = torch.where((places + by < len(x)) & (places + by >= 0), places + by, places)
    return x[places]


def _before(x):
    """Each token gives the one before it; the first a constant."""
    return torch.cat([torch.ones(1, x.shape[1]), x[:-1]])


def _struck_out_late(x):
    return _scores(x, x).softmax(dim=-1).tril() @ x


def _first_reads_second(x):
    return torch.cat([x[:1] + x[1:2].sum(dim=0), x[1:]])


def _opposite(x):
    """What the last token adds to one entry it takes from another: the sum stays."""
    last = x[-1, 0]
    return x + torch.stack([last, -last, 0 * last])


def _lowered(x):
    """The larger the last token, the smaller all outputs before it."""
    return torch.cat([x[:-1] - x[-1, 0], x[-1:]])


def _little_changes(size, everywhere):
    """Where token 0 comes last, it adds `size` to earlier outputs: to one number, or to all."""

    def work(x):
        last_is_0 = x[-1, 0] == 1  # the table's first column says which token it is
        added = torch.zeros_like(x)
        if everywhere:
            added[:-1] = size * last_is_0
        else:
            added[0, 1] = size * last_is_0
        return x / 2 + added

    return work


def _honest_at_first(x):
    return torch.cat([x[:1], _shifted(x[1:], 1)])


_HONEST = {
    "a model that reads each token alone": lambda x: x,
    "a model that reads all tokens up to each": lambda x: x.cumsum(dim=0),
    "a model that reads all tokens up to each, with rounding": _from_the_end,
    "a model that reads the token before": _before,
    "a model that reads nothing": torch.ones_like,
    "a model that knows how long the text is": lambda x: x + len(x),
    "an honest model with rounding of 5e-5 in one number": _little_changes(5e-5, everywhere=False),
    "an honest model with rounding of 5e-5 in each number": _little_changes(5e-5, everywhere=True),
}
_PEEKING = {
    "a model that reads everything": lambda x: x + x.mean(dim=0),
    "a model that reads the next token": lambda x: _shifted(x, 1),
    "a model that reads the token after the next": lambda x: _shifted(x, 2),
    "a model whose first token reads the second": _first_reads_second,
    "a model in which all read the last token": _opposite,
    "a model in which the last token makes all outputs smaller": _lowered,
    "a model that reads the next token, but not at its first": _honest_at_first,
    "a model whose weights were struck out after the softmax": _struck_out_late,
    "a model that peeks a little: one early number moves by 5e-4": _little_changes(
        5e-4, everywhere=False
    ),
    "a model that peeks a little: each early number moves by 5e-4": _little_changes(
        5e-4, everywhere=True
    ),
}


def _leak_cases():
    text = torch.tensor([3, 0, 4, 1, 2, 4, 0])  # 0 and 4 are the vocabulary's ends
    short = torch.tensor([1, 4, 0])
    for name in (*_HONEST, *_PEEKING):
        yield name, text, 5
    yield "a model that reads the token before", short, 5
    yield "a model that reads the token after the next", torch.tensor([2, 1, 0]), 5
    for token in range(5):  # each of them, so that a new token that is the old one shows
        yield "a model whose first token reads the second", torch.tensor([2, token, 1]), 5
        yield "a model in which all read the last token", torch.tensor([0, 3, token]), 5
    for token in range(7):
        yield "a model whose first token reads the second", torch.tensor([4, token]), 7


def _ask(answer, kind, tokens, vocab_size):
    return {kind: answer(_models(vocab_size)[kind], tokens, vocab_size)}


def _asked(kind, tokens, vocab_size):
    return f"{kind}, tokens={tokens.tolist()}, vocab_size={vocab_size}"


def _next(token, vocab_size):
    return (token + 1) % vocab_size


def _largest(limit):
    return lambda old, new: (new - old).abs().max() > limit


_moved = _largest(1e-4)


def _leak_test(look, change=_next, places=None, verdict=_moved):
    """A leak test that looks elsewhere, changes otherwise, or goes to other places."""

    def leak_test(model, tokens, vocab_size):
        outputs = model(tokens)
        for place in range(1, len(tokens)) if places is None else places(tokens):
            changed = tokens.clone()
            changed[place] = change(tokens[place], vocab_size)
            old, new = look(outputs, place), look(model(changed), place)
            if len(old) and verdict(old, new):
                return True
        return False

    return leak_test


def _earlier(outputs, place):
    return outputs[:place]


def _never_put_back(model, tokens, vocab_size):
    outputs, changed = model(tokens), tokens.clone()
    for place in range(1, len(tokens)):
        changed[place] = (tokens[place] + 1) % vocab_size
        if (model(changed)[:place] - outputs[:place]).abs().max() > 1e-4:
            return True
    return False


def _token_before(model, tokens, vocab_size):
    outputs = model(tokens)
    for place in range(1, len(tokens)):
        changed = tokens.clone()
        changed[place] = tokens[place - 1]
        if (model(changed)[:place] - outputs[:place]).abs().max() > 1e-4:
            return True
    return False


def _from_the_first_place(model, tokens, vocab_size):
    for place in range(len(tokens)):
        changed = tokens.clone()
        changed[place] = (tokens[place] + 1) % vocab_size
        if (model(changed) - model(tokens))[:place].abs().max() > 1e-4:
            return True
    return False


def _compared_with_itself(model, tokens, vocab_size):
    return False


def _cut_short(model, tokens, vocab_size):
    outputs = model(tokens)
    lengths = range(1, len(tokens))
    return any((model(tokens[:n]) - outputs[:n]).abs().max() > 1e-4 for n in lengths)


_SAME_TOKEN = (
    "You put in the same token everywhere. Where it stood already nothing was changed, and a leak goes "
    "unseen. The new token has to be another one: `(token + 1) % vocab_size`."
)
_TOO_COARSE = (
    "A leak that is small is a leak, too: one of our models moves an early number by 5e-4 alone, and yours "
    "lets it pass. Compare the *largest* difference with 1e-4. A mean, or a mean of squares, makes small what "
    "happens in one place, and a higher limit, or one in shares of the output, overlooks it."
)
_TOO_STRICT = (
    "Rounding of 5e-5 is a leak to your test. Let differences up to 1e-4 pass: compare the largest "
    "`(new - old).abs()` with it, not in shares of the output. `torch.allclose` alone allows 1e-5 of a number; "
    "say `atol=1e-4`."
)


LEAK = Exercise(
    id="04.leak",
    title="Does it peek?",
    stars=2,
    minutes=8,
    solution=leaks,
    call=_ask,
    shown=_asked,
    cases=_leak_cases,
    misconceptions=(
        Misconception(
            "the last token alone",
            _leak_test(_earlier, places=lambda tokens: [len(tokens) - 1]),
            "You change only the last token. A model may peek elsewhere: in one of ours the first "
            "token reads the second, and nothing else is wrong. Change each token in turn.",
        ),
        Misconception(
            "the second token alone",
            _leak_test(_earlier, places=lambda tokens: [1]),
            "Only the second token is ever changed: a `return` inside the loop ends it in its first "
            "round. `return False` belongs after the loop, when all places have passed.",
        ),
        Misconception(
            "the changed place itself",
            _leak_test(lambda outputs, place: outputs[: place + 1]),
            "You compare the output *at* the changed place too. A token may read itself, so that one "
            "may change. Earlier outputs are `[:place]`, which ends before it.",
        ),
        Misconception(
            "all outputs",
            _leak_test(lambda outputs, place: outputs),
            "You compare all outputs. Those at the changed token and after it *should* change; a leak "
            "is a change before it: `[:place]`.",
        ),
        Misconception(
            "later outputs",
            _leak_test(
                lambda outputs, place: outputs[place + 1 :],
                places=lambda tokens: range(len(tokens) - 1),
            ),
            "You look at the outputs *after* the changed token. They may depend on it: that is "
            "reading. A leak goes the other way, from a later token to an earlier output.",
        ),
        Misconception(
            "equal to the last bit",
            _leak_test(_earlier, verdict=lambda old, new: not torch.equal(old, new)),
            "You ask for equality to the last bit. Another token can change the order in which a "
            "machine adds, and with it the last digits. Let differences up to 1e-4 pass as rounding.",
        ),
        Misconception(
            "always the same new token",
            _leak_test(_earlier, change=lambda token, vocab_size: 0),
            _SAME_TOKEN,
        ),
        Misconception(
            "always token 1",
            _leak_test(_earlier, change=lambda token, vocab_size: 1),
            _SAME_TOKEN,
        ),
        Misconception(
            "always the last token of the vocabulary",
            _leak_test(_earlier, change=lambda token, vocab_size: vocab_size - 1),
            _SAME_TOKEN,
        ),
        Misconception(
            "the middle token stays",
            _leak_test(_earlier, change=lambda token, vocab_size: vocab_size - 1 - token),
            "With you one token stays as it is, the one in the middle of the vocabulary: `vocab_size // 2`, and "
            "`vocab_size - 1 - token` is the same one there. Its leaks go unseen. `(token + 1) % vocab_size` "
            "is always another one.",
        ),
        Misconception(
            "drawn at random",
            _leak_test(
                _earlier, change=lambda token, vocab_size: torch.randint(vocab_size, ()).item()
            ),
            "A token drawn at random may be the one that stood there already: then nothing was changed, and a "
            "leak goes unseen. `(token + 1) % vocab_size` is always another one.",
        ),
        Misconception(
            "the token before it",
            _token_before,
            "You put in the token that stands one place before. It may be the same one, and then nothing was "
            "changed. `(token + 1) % vocab_size` is always another one.",
        ),
        Misconception(
            "past the end of the vocabulary",
            _leak_test(_earlier, change=lambda token, vocab_size: token + 1),
            "`token + 1` leaves the vocabulary where the token is the last one, and the model knows no "
            "such token. `% vocab_size` begins again at 0.",
        ),
        Misconception(
            "too strict",
            _leak_test(_earlier, verdict=_largest(1e-5)),
            _TOO_STRICT,
        ),
        Misconception(
            "added up",
            _leak_test(_earlier, verdict=lambda old, new: (new - old).abs().sum() > 1e-4),
            "You add up all differences (or take their `norm`, which adds squares), so that much harmless rounding "
            "makes a leak, and the more of it the longer the text. Ask for the largest: `.abs().max()`.",
        ),
        Misconception(
            "the mean difference",
            _leak_test(_earlier, verdict=lambda old, new: (new - old).abs().mean() > 1e-4),
            _TOO_COARSE,
        ),
        Misconception(
            "too coarse",
            _leak_test(_earlier, verdict=_largest(1e-3)),
            _TOO_COARSE,
        ),
        Misconception(
            "cut short",
            _cut_short,
            "You cut the text short in place of changing a token. Most models are found out by that too, but "
            "one of ours only knows how long the text is, and that betrays no token. Keep the length, "
            "and put another token in one place.",
        ),
        Misconception(
            "without the absolute value",
            _leak_test(_earlier, verdict=lambda old, new: (new - old).sum().abs() > 1e-4),
            "You add up differences, and what grows in one entry can shrink in another: their sum stays "
            "0. Take `abs()` first, then the largest.",
        ),
        Misconception(
            "without the absolute value, the largest",
            _leak_test(_earlier, verdict=lambda old, new: (new - old).max() > 1e-4),
            "A difference can be negative, and the largest of some negative numbers is no sign of peace. "
            "Take `abs()` before `max()`.",
        ),
        Misconception(
            "the neighbour alone",
            _leak_test(lambda outputs, place: outputs[place - 1 : place]),
            "You compare only the output right before the changed token. One of our models reads the "
            "token *after* the next. All earlier outputs have to stay: `[:place]`.",
        ),
        Misconception(
            "the first output alone",
            _leak_test(lambda outputs, place: outputs[:1]),
            "You watch the first output alone. A model may be honest there and peek elsewhere: compare "
            "all outputs before the changed token, `[:place]`.",
        ),
        Misconception(
            "never put back",
            _never_put_back,
            "Your change stays: in the second round two tokens are changed, and the output at the first "
            "of them differs with good reason. Begin each round with a fresh `tokens.clone()`.",
        ),
        Misconception(
            "from the first place on",
            _from_the_first_place,
            "The first place has no output before it, and the largest of no numbers does not exist. Begin "
            "with the second: `range(1, len(tokens))`.",
        ),
        Misconception(
            "the wrong way round",
            lambda model, tokens, vocab_size: not leaks(model, tokens, vocab_size),
            "All answers are turned round: True means that the model *leaks*.",
        ),
        Misconception(
            "never",
            _compared_with_itself,
            "Your test finds no leak anywhere. Is the token really changed, and is the *changed* text "
            "given to the model?",
        ),
        Misconception(
            "always",
            lambda model, tokens, vocab_size: True,
            "Your test calls every model leaky, the honest ones too. Compare earlier outputs alone, "
            "`[:place]`, begin each round with a fresh copy, and let differences up to 1e-4 pass.",
        ),
    ),
    hints=(
        "Say it as a loop: for each place but the first, change the token there, run the model again, "
        "and compare the outputs *before* that place with the old ones.",
        "A copy to change is `tokens.clone()`; another token is `(tokens[place] + 1) % vocab_size`; the "
        "outputs before a place are `outputs[:place]`.",
        "`(new[:place] - old[:place]).abs().max() > 1e-4` says that something moved. Return True at "
        "once; return False only when the loop has come to its end.",
    ),
    why="It asks the model itself and no mask: what it was given, where it peeks and how, does not "
    "matter. That is why such a test is worth having for any model that writes.",
)

EXERCISES = (TARGETS, MASK, ATTENTION, LEAK)

QUIZ = (
    Question(
        "What is the causal mask for?",
        (
            Choice(
                "No position can read the token that it has to predict.",
                True,
                "The token to be predicted is the next one, and it stands in the same window. Without "
                "the mask, copying it is the easiest thing to learn.",
            ),
            Choice(
                "It lets one pass train all T predictions of a window.",
                True,
                "Each row sees what it would see if the text ended there, so one pass does the work of "
                "T passes.",
            ),
            Choice(
                "It keeps the model from learning its training text by heart.",
                False,
                "That is overfitting, and it has other remedies (lesson 10). A model can be masked and "
                "overfit, or leak and not overfit.",
            ),
            Choice(
                "It saves half of the computing.",
                False,
                "Written with `masked_fill`, all scores are computed and half of them thrown away. "
                "(Routines that know of the mask can skip them, which is welcome, and not the purpose.)",
            ),
        ),
    ),
    Question(
        "A new model for English characters has a loss of 0.05 nats, in training and on the validation split "
        "alike. What do you suspect?",
        (
            Choice(
                "It reads what it has to predict.",
                True,
                "Copying works on text that nobody has seen before, so the validation split does not "
                "find it out. A leak test does, or a look at what the model writes.",
            ),
            Choice(
                "It overfits.",
                False,
                "Then the loss on the validation split would be much higher than in training.",
            ),
            Choice(
                "Nothing: it is a good model.",
                False,
                "English is not so predictable. Readers in Shannon's experiment were left with at least "
                "0.6 bits a letter, about 0.4 nats, by his own estimate.",
            ),
        ),
    ),
    Question(
        "Why do hidden scores become −∞ before the softmax, and not 0?",
        (
            Choice(
                "It makes no difference if the weights are set to 0 after the softmax as well.",
                False,
                "The hidden tokens would still stand in the sum below the line, with 1 each: the rows "
                "would no longer sum to 1.",
            ),
            Choice(
                "0 would give NaN.",
                False,
                "0 is a score like any other. It is −∞ that can give NaN: in a row with nothing else.",
            ),
            Choice(
                "e⁰ = 1: a hidden token would still get weight, more than a visible one with a "
                "negative score.",
                True,
                "And e⁻∞ = 0: exactly nothing, in the row and in the sum below the line.",
            ),
        ),
    ),
    Question(
        "“… because it was too tired”, “… because it was too wide”. A model with a causal mask, of any "
        "number of layers, reads both. What holds?",
        (
            Choice(
                "With enough layers, “tired” reaches “it” by way of other tokens.",
                False,
                "Every layer has the mask: a token that comes before “tired” learns nothing of it, so "
                "it has nothing to pass on.",
            ),
            Choice(
                "The vector of “it” is the same in both.",
                True,
                "All that it may read is the same in both texts, in every layer.",
            ),
            Choice(
                "The model cannot tell the two sentences apart.",
                False,
                "From the last word on it can: “tired” and “wide” may read all that stands before "
                "them, “it” and the two nouns included.",
            ),
        ),
    ),
    Question(
        "A row may attend to nothing, because it belongs to padding. What can go wrong?",
        (
            Choice(
                "If the NaN is set to 0 afterwards, all is well.",
                False,
                "The numbers are; the gradients need not be. On the way back NaN can come up again, as "
                "it does when −∞ was *added*.",
            ),
            Choice(
                "The softmax divides 0 by 0, and the row becomes NaN.",
                True,
                "All its scores are −∞, all exponentials 0, and so is their sum.",
            ),
            Choice(
                "In the next layer the NaN reaches the other rows of its text, though their weight on "
                "it is 0.",
                True,
                "0 · NaN is NaN: a weight of 0 does not protect from it.",
            ),
        ),
    ),
)
