"""Exercises and quiz of lesson 13: scores that name a head's type, their chance, and ablation."""

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.lens.heads import chance_of, places_of_types


def previous_token_score(weights):
    """Each head's mean weight on the token just before, over all queries but the first.

    weights: (batch, head, query, key) → (head,)
    """
    before = weights.diagonal(offset=-1, dim1=-2, dim2=-1)  # (batch, head, query − 1)
    return before.mean(dim=(0, 2))


def chance(places):
    """The score, a float, of a head that gives each token it may read the same weight.

    places: (batch, query, key), bool, True = the type would read it; never a key after the query.
    """
    may_read = torch.arange(1, places.shape[1] + 1)  # query i reads i + 1 tokens
    score = places.sum(dim=-1) / may_read  # (batch, query)
    return score[places.any(dim=-1)].mean().item()


def induction_places(tokens):
    """Which keys follow a former copy of the query's token: (batch, position) → (batch, query, key), bool.

    True where tokens[key − 1] == tokens[query], and key stands before query.
    """
    same = tokens[:, :, None] == tokens[:, None, :]  # (batch, query, key)
    places = torch.zeros_like(same)
    places[:, :, 1:] = same[:, :, :-1]  # one to the right: what follows the copy
    return places.tril(diagonal=-1)


def replace_head(merged, head, n_heads, said):
    """A copy of merged in which one head, counted from 0, says the same at every position.

    merged: (batch, position, n_heads · d_head), the heads side by side; said: (d_head,)
    """
    d_head = merged.shape[-1] // n_heads
    replaced = merged.clone()
    replaced[:, :, head * d_head : (head + 1) * d_head] = said
    return replaced


# Cases. Sizes are primes, so that a swapped axis cannot pass. A square of weights, or heads side by
# side, would break that: so a case has what they are made of, and `call` makes them.


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _tokens(*shape, kinds, seed=0):
    return torch.randint(kinds, shape, generator=torch.Generator().manual_seed(seed))


def _weights(x):
    """Weights (batch, head, query, key) of vectors (batch, head, position, width), under the mask."""
    may_attend = torch.ones(x.shape[2], x.shape[2], dtype=torch.bool).tril()
    return (x @ x.transpose(-2, -1)).masked_fill(~may_attend, -torch.inf).softmax(dim=-1)


def _score(answer, x):
    return answer(_weights(x))


def _score_of(x):
    return f"weights {tuple(_weights(x).shape)}"


def _weights_cases():
    yield (_random(2, 3, 7, 5),)
    yield (_random(5, 2, 3, 7, seed=1),)
    yield (_random(1, 5, 11, 2, seed=2).double(),)


def _places(tokens, kind):
    return places_of_types(tokens, newline=1)[kind]


def _chance(answer, tokens, kind):
    return answer(_places(tokens, kind))


def _chance_of(tokens, kind):
    return f"places {tuple(_places(tokens, kind).shape)} of the type “{kind}”"


def _places_cases():
    yield _tokens(2, 11, kinds=3), "same token"
    yield _tokens(3, 7, kinds=5, seed=1), "induction"
    yield _tokens(5, 13, kinds=2, seed=2), "newline"
    yield _tokens(1, 5, kinds=2, seed=3), "first token"


def _tokens_cases():
    yield (torch.tensor([[0, 1, 2, 0, 1]]),)
    yield (_tokens(2, 11, kinds=3, seed=1),)
    yield (_tokens(5, 7, kinds=2, seed=2),)
    yield (_tokens(3, 13, kinds=7, seed=3),)


def _replace(answer, heads, head, said):
    """What comes back, and whether the tensor given was left alone."""
    merged = heads.flatten(2).clone()
    replaced = answer(merged, head, heads.shape[2], said)
    same = torch.equal(merged, heads.flatten(2))
    return {"the tensor given": "as it was" if same else "changed", "what comes back": replaced}


def _replace_of(heads, head, said):
    what = "zeros" if not said.any() else "numbers"
    merged = tuple(heads.flatten(2).shape)
    return f"merged {merged}, head={head}, n_heads={heads.shape[2]}, said: {len(said)} {what}"


def _heads_cases():
    yield _random(2, 5, 3, 7), 0, torch.zeros(7)
    yield _random(3, 7, 5, 2, seed=1), 3, _random(2, seed=2)
    yield _random(1, 11, 2, 5, seed=3), 1, _random(5, seed=4)
    yield _random(5, 3, 7, 2, seed=5), 6, _random(2, seed=6)


# 13.previous


def _sum_over_all(weights):
    before = weights.diagonal(offset=-1, dim1=-2, dim2=-1)
    return before.sum(dim=-1).mean(dim=0) / weights.shape[-1]


PREVIOUS = Exercise(
    id="13.previous",
    title="Score the previous-token type",
    stars=1,
    minutes=4,
    solution=previous_token_score,
    cases=_weights_cases,
    call=_score,
    shown=_score_of,
    misconceptions=(
        Misconception(
            "itself",
            lambda weights: weights.diagonal(dim1=-2, dim2=-1).mean(dim=(0, 2)),
            "You took the main diagonal: how much each token reads *itself*. The token before stands one column to the "
            "left of it, `offset=-1`.",
        ),
        Misconception(
            "the token after",
            lambda weights: weights.diagonal(offset=1, dim1=-2, dim2=-1).mean(dim=(0, 2)),
            "All zeros: you took the diagonal *above* the main one, where key = query + 1. That is the future, and the mask "
            "forbids it. A row is a query and a column a key, so key = query − 1 lies below.",
        ),
        Misconception(
            "the first query counted",
            _sum_over_all,
            "You divide by the number of all queries. The first has no token before it, and cannot be blamed for not "
            "reading one: the mean is over the others.",
        ),
        Misconception(
            "one score for the whole layer",
            lambda weights: weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(),
            "You averaged over the heads too, and what one head does is lost among the others. Keep that axis: the mean is "
            "over batch and query.",
        ),
        Misconception(
            "a score for each text",
            lambda weights: weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=-1),
            "You have a score for each head *and each text*. The type is the head's: average over the batch as well.",
        ),
        Misconception(
            "a score for each text, the heads averaged",
            lambda weights: weights.diagonal(offset=-1, dim1=-2, dim2=-1).mean(dim=(1, 2)),
            "You have a score for each *text*: the mean is over heads and queries. It is the head that has a type. The axes are (batch, "
            "head, query − 1): average over the first and the last, `dim=(0, 2)`.",
        ),
        Misconception(
            "the diagonal of batch and head",
            lambda weights: weights.diagonal(offset=-1).mean(dim=(0, 2)),
            "Left alone, `diagonal` takes the first two axes, batch and head. The square we mean is query × key, the last two: "
            "`weights.diagonal(offset=-1, dim1=-2, dim2=-1)`.",
        ),
        Misconception(
            "a block for its diagonal",
            lambda weights: weights[:, :, 1:, :-1].mean(dim=(0, 2, 3)),
            "You cut the right block, queries from 1 on and keys up to the last but one, and averaged all of it. The token before "
            "is only its diagonal: query i with key i − 1.",
        ),
        Misconception(
            "two before",
            lambda weights: weights.diagonal(offset=-2, dim1=-2, dim2=-1).mean(dim=(0, 2)),
            "You took the token *two* before: its diagonal is `offset=-2`, and that of the token before is `offset=-1`.",
        ),
        Misconception(
            "a sum",
            lambda weights: weights.diagonal(offset=-1, dim1=-2, dim2=-1).sum(dim=(0, 2)),
            "You added the weights up. A score is a mean, so that it does not grow with the length or the number of texts.",
        ),
        Misconception(
            "the largest",
            lambda weights: weights.diagonal(offset=-1, dim1=-2, dim2=-1).amax(dim=(0, 2)),
            "You took the largest weight. Any head reads the token before *somewhere*; a type is what it does on the mean.",
        ),
        Misconception(
            "how often it is read most",
            lambda weights: (
                (weights[:, :, 1:].argmax(dim=-1) == torch.arange(weights.shape[-1] - 1))
                .float()
                .mean(dim=(0, 2))
            ).to(weights.dtype),
            "You counted how often the token before is the one read *most*. That is a fair measure, but another one: it cannot "
            "tell a weight of 0.9 from one of 0.3. Here we want the mean weight.",
        ),
    ),
    hints=(
        "Row i, column i − 1. On paper, mark these squares in a 4 × 4 matrix.",
        "`weights.diagonal(offset=-1, dim1=-2, dim2=-1)` gives them all: (batch, head, query − 1).",
        "Then the mean over batch and query, `dim=(0, 2)`.",
    ),
    why="The squares (i, i − 1) are a diagonal, and it has one entry fewer than there are queries: the first is left out by "
    "itself.",
)

# 13.chance


def _all_queries(places):
    may_read = torch.arange(1, places.shape[1] + 1)
    return (places.sum(dim=-1) / may_read).mean().item()


def _without_itself(places):
    may_read = torch.arange(places.shape[1]).clamp(min=1)
    return (places.sum(dim=-1) / may_read)[places.any(dim=-1)].mean().item()


def _whole_row(places):
    return (places.sum(dim=-1) / places.shape[-1])[places.any(dim=-1)].mean().item()


def _one_place(places):
    may_read = torch.arange(1, places.shape[1] + 1).expand(len(places), -1)
    return (1 / may_read)[places.any(dim=-1)].mean().item()


def _pooled(places):
    found = places.any(dim=-1)
    may_read = torch.arange(1, places.shape[1] + 1).expand(len(places), -1)
    return (places.sum() / may_read[found].sum()).item()


def _counted_over_queries(places):
    may_read = torch.arange(1, places.shape[1] + 1)
    return (places.sum(dim=1) / may_read)[places.any(dim=-1)].mean().item()


def _share_of_the_matrix(places):
    return places.float().mean().item()


def _of_the_lower_triangle(places):
    length = places.shape[1]
    return (places.sum() / (len(places) * length * (length + 1) / 2)).item()


def _by_text(places):
    return sum(chance(text[None]) for text in places if text.any()) / len(places)


CHANCE = Exercise(
    id="13.chance",
    title="What chance would score",
    stars=2,
    minutes=5,
    solution=chance,
    reference=chance_of,
    cases=_places_cases,
    call=_chance,
    shown=_chance_of,
    misconceptions=(
        Misconception(
            "all queries",
            _all_queries,
            "You average over *all* queries. Those without a place have no part in the score, and so none in its chance: "
            "`[places.any(dim=-1)]` before the mean.",
        ),
        Misconception(
            "only the first query left out",
            lambda places: (
                (places.sum(dim=-1) / torch.arange(1, places.shape[1] + 1))[:, 1:].mean().item()
            ),
            "You left out the first query alone. Others may have no place either, as a token that has not come before has no former copy: "
            "keep the queries that have one, `[places.any(dim=-1)]`.",
        ),
        Misconception(
            "one over the places",
            lambda places: (1 / places.sum(dim=-1)[places.any(dim=-1)]).mean().item(),
            "You spread the unit over the *places*: that is a head that reads nothing else. Even attention spreads it over all i + 1 tokens "
            "that query i may read, and the places get their share.",
        ),
        Misconception(
            "itself forgotten",
            _without_itself,
            "Query i may read i + 1 tokens: those before it, and *itself*. You divided by i.",
        ),
        Misconception(
            "no mask",
            _whole_row,
            "You divide by the length of the row, as if an early query could read the whole text. Under the mask query i "
            "reads i + 1 tokens, and spreads its one unit over these.",
        ),
        Misconception(
            "one place each",
            _one_place,
            "You reckon with one place a query. A type may have several, as *same token* has, and even attention gives "
            "to each of them: count them, `places.sum(dim=-1)`.",
        ),
        Misconception(
            "places over tokens, pooled",
            _pooled,
            "You divided the number of all places by that of all tokens that may be read. A score is a mean over *queries*: "
            "divide in each row first, then average. Otherwise late queries, which may read more, count for more.",
        ),
        Misconception(
            "counted over queries",
            _counted_over_queries,
            "`sum(dim=1)` counts, for each *key*, the queries that would read it. Here each query's keys are to be counted: the last "
            "axis, `dim=-1`.",
        ),
        Misconception(
            "share of the whole matrix",
            _share_of_the_matrix,
            "This is the share of True in the whole matrix, the forbidden half and queries without a place included. Ask row "
            "by row: what does a query give to its places if it spreads one unit over i + 1 tokens?",
        ),
        Misconception(
            "share of the lower triangle",
            _of_the_lower_triangle,
            "This is the share of True in the lower triangle, queries without a place included. Ask row by row: what does a "
            "query give to its places, and average over queries that have any.",
        ),
        Misconception(
            "a mean of the texts' means",
            _by_text,
            "You averaged in each text, and then the texts. With another number of queries in each, that counts some for more "
            "than others: take one mean over all queries of all texts that have a place.",
        ),
        Misconception(
            "how often there is a place",
            lambda places: places.any(dim=-1).float().mean().item(),
            "This is the share of queries that have a place. Of these, what does even attention give to the places?",
        ),
    ),
    hints=(
        "Query i gives each of its i + 1 tokens 1 / (i + 1). How much do the places get, if there are three?",
        "`places.sum(dim=-1) / torch.arange(1, n + 1)`, (batch, query), is the answer for each query.",
        "Which queries count? `places.any(dim=-1)`. The mean over these, and `.item()` makes a float of it.",
    ),
    why="Even attention gives a query's places their share of what it may read, |S(q)| / (q + 1), and the mean goes over the same "
    "queries as the score's: then the two can be compared.",
)

# 13.induction


def _same(tokens):
    return tokens[:, :, None] == tokens[:, None, :]


def _shifted(same, steps=1):
    """Each row moved to the right."""
    places = torch.zeros_like(same)
    places[:, :, steps:] = same[:, :, :-steps]
    return places


def _rolled(tokens):
    return _same(tokens).roll(1, dims=-1).tril(diagonal=-1)


def _last_copy_only(tokens):
    places = induction_places(tokens)
    latest = torch.where(places, torch.arange(tokens.shape[1]), -1).amax(dim=-1, keepdim=True)
    return places & (torch.arange(tokens.shape[1]) == latest)


def _first_copy_only(tokens):
    places = induction_places(tokens)
    n = tokens.shape[1]
    first = torch.where(places, torch.arange(n), n).amin(dim=-1, keepdim=True)
    return places & (torch.arange(n) == first)


def _by_the_token_before(tokens):
    """Copies of the token before the query: the answer to a question asked one step too late."""
    same = _same(tokens)
    places = torch.zeros_like(same)
    places[:, 1:] = same[:, :-1]
    return places.tril(diagonal=-1)


def _contexts_agree(tokens):
    same = _same(tokens)
    places = torch.zeros_like(same)
    places[:, 1:, 1:] = same[:, :-1, :-1]
    return places.tril(diagonal=-1)


def _with_predecessors(tokens, first):
    """Keys by the token before them, with something invented before the first."""
    predecessors = torch.cat([first, tokens[:, :-1]], dim=1)
    return (tokens[:, :, None] == predecessors[:, None, :]).tril(diagonal=-1)


def _the_answer(tokens):
    same = _same(tokens)
    places = torch.zeros_like(same)
    places[:, :-1] = same[:, 1:]
    return places.tril(diagonal=-1)


def _next_equals(tokens):
    same = _same(tokens)
    places = torch.zeros_like(same)
    places[:, :, :-1] = same[:, :, 1:]
    return places.tril(diagonal=-1)


INDUCTION = Exercise(
    id="13.induction",
    title="Where an induction head would read",
    stars=3,
    minutes=8,
    solution=induction_places,
    reference=lambda tokens: places_of_types(tokens)["induction"],
    cases=_tokens_cases,
    misconceptions=(
        Misconception(
            "the copy itself",
            lambda tokens: _same(tokens).tril(diagonal=-1),
            "These are the former copies themselves, the type *same token*. An induction head reads what came *after* them: "
            "one column further to the right.",
        ),
        Misconception(
            "the copy and itself",
            lambda tokens: _same(tokens).tril(),
            "These are the copies of the query's token, itself included. An induction head reads what came *after* a former "
            "copy: one column further to the right, and before the query.",
        ),
        Misconception(
            "what came before the copy",
            _next_equals,
            "You moved the copies to the *left*: these are the tokens before them. Key k is right where tokens[k − 1] is the "
            "query's token, so column k takes what column k − 1 has.",
        ),
        Misconception(
            "the future too",
            lambda tokens: _shifted(_same(tokens)),
            "Without a limit the keys after the query are marked as well, and no head may read these. `tril(diagonal=-1)` "
            "keeps what stands before the query.",
        ),
        Misconception(
            "the query too",
            lambda tokens: _shifted(_same(tokens)).tril(),
            "Where a token comes twice in a row, you mark the query itself: it follows its copy. The task wants keys that stand "
            "*before* the query: `tril(diagonal=-1)`, as the last step. (Cut first and then moved to the right, a copy just before "
            "the query lands on the query.)",
        ),
        Misconception(
            "the future only",
            lambda tokens: _shifted(_same(tokens)).triu(diagonal=1),
            "You kept the wrong side: with rows for queries, `triu` leaves the keys *after* the query. `tril(diagonal=-1)` keeps those before it.",
        ),
        Misconception(
            "not the token just before",
            lambda tokens: _shifted(_same(tokens)).tril(diagonal=-2),
            "You cut one diagonal too many. Where a token stood two back, what followed it is the token just before the query, and that "
            "may be read: `tril(diagonal=-1)`.",
        ),
        Misconception(
            "rolled",
            _rolled,
            "`roll` brings what leaves at the right in at the left: where the last token equals the query's, place 0 is marked. "
            "Nothing came before place 0. Fill that column with False.",
        ),
        Misconception(
            "a token 0 before the first",
            lambda tokens: _with_predecessors(tokens, torch.zeros_like(tokens[:, :1])),
            "You put a token 0 in front of the text, and 0 is a token like any other: place 0 is marked wherever the query is a 0. "
            "Nothing came before place 0, so its column is False (a number that is no token, such as −1, would do too).",
        ),
        Misconception(
            "the first token before itself",
            lambda tokens: _with_predecessors(tokens, tokens[:, :1]),
            "You let the first token stand before itself: place 0 is marked wherever the query equals it. Nothing came before "
            "place 0, so its column is False.",
        ),
        Misconception(
            "the answer itself",
            _the_answer,
            "You compare keys with the token *after* the query: the answer, which no head can know. An induction head finds the former "
            "copy of the query's own token, and trusts that what followed then will follow now.",
        ),
        Misconception(
            "query and key swapped",
            lambda tokens: (
                _shifted(_same(tokens).transpose(1, 2)).tril(diagonal=-1).transpose(1, 2)
            ),
            "Rows are queries and columns are keys, (batch, query, key), and a key stands before its query: below the diagonal. "
            "Yours are above it.",
        ),
        Misconception(
            "the last copy only",
            _last_copy_only,
            "You mark what follows the *last* copy alone. The rule takes all of them: an induction head may read any.",
        ),
        Misconception(
            "the first copy only",
            _first_copy_only,
            "You mark what follows the *first* copy alone. The rule takes all of them: an induction head may read any.",
        ),
        Misconception(
            "copies of the token before",
            _by_the_token_before,
            "You look for copies of the token *before* the query, tokens[key] == tokens[query − 1]. It is the key that looks one "
            "back: tokens[key − 1] == tokens[query].",
        ),
        Misconception(
            "the tokens before agree",
            _contexts_agree,
            "You compare what stands before the key with what stands before the *query*. It is the query's own token that has to "
            "stand before the key: tokens[key − 1] == tokens[query].",
        ),
        Misconception(
            "numbers",
            lambda tokens: induction_places(tokens).int(),
            "The places are right, as whole numbers. A mask is bool, True or False, as everywhere in this course: leave the "
            "comparison as it comes, or use `.bool()`.",
        ),
    ),
    hints=(
        "Begin with the copies: `tokens[:, :, None] == tokens[:, None, :]` is (batch, query, key), True where the two tokens are equal.",
        "What follows a copy at k − 1 stands at k. So column k of the answer is column k − 1 of the copies, and column 0 is empty.",
        "Last, keep only keys before the query: `.tril(diagonal=-1)`.",
    ),
    why="The comparison of all pairs marks the copies; one step to the right marks what followed them; the triangle keeps what "
    "has been read when the query asks.",
)

# 13.ablate


def _in_place(merged, head, n_heads, said):
    d_head = merged.shape[-1] // n_heads
    merged[:, :, head * d_head : (head + 1) * d_head] = said
    return merged


def _change(write):
    """replace_head with another way to write."""

    def replace(merged, head, n_heads, said):
        replaced = merged.clone()
        write(replaced, head, n_heads, said, merged.shape[-1] // n_heads)
        return replaced

    return replace


def _interleaved(merged, head, n_heads, said, width):
    merged[:, :, head::n_heads] = said


def _from_one(merged, head, n_heads, said, width):
    at = (head - 1) % n_heads
    merged[:, :, at * width : (at + 1) * width] = said


def _from_column_head(merged, head, n_heads, said, width):
    merged[:, :, head : head + width] = said


def _of_n_heads(merged, head, n_heads, said, width):
    merged[:, :, head * n_heads : (head + 1) * n_heads] = said


def _zeros(merged, head, n_heads, said, width):
    merged[:, :, head * width : (head + 1) * width] = 0


def _added(merged, head, n_heads, said, width):
    merged[:, :, head * width : (head + 1) * width] += said


def _taken_off(merged, head, n_heads, said, width):
    merged[:, :, head * width : (head + 1) * width] -= said


def _last_position(merged, head, n_heads, said, width):
    merged[:, -1, head * width : (head + 1) * width] = said


def _others(merged, head, n_heads, said, width):
    kept = merged[:, :, head * width : (head + 1) * width].clone()
    merged[:] = said.repeat(n_heads)
    merged[:, :, head * width : (head + 1) * width] = kept


def _all_heads(merged, head, n_heads, said, width):
    merged[:] = said.repeat(n_heads)


def _own_mean(merged, head, n_heads, said, width):
    own = merged[:, :, head * width : (head + 1) * width]
    own[:] = own.mean(dim=(0, 1))


def _to_the_end(merged, head, n_heads, said, width):
    rest = n_heads - head
    merged[:, :, head * width :] = said.repeat(rest)


def _nothing(merged, head, n_heads, said, width):
    merged[:, :, head * width : (head + 1) * width] * 0 + said


ABLATE = Exercise(
    id="13.ablate",
    title="Put words in a head's mouth",
    stars=2,
    minutes=6,
    solution=replace_head,
    cases=_heads_cases,
    call=_replace,
    shown=_replace_of,
    misconceptions=(
        Misconception(
            "in place",
            _in_place,
            "The head says what it should, but you wrote into the tensor that you were given, and it belongs to the pass that is "
            "running. Work on a copy: `merged.clone()`.",
        ),
        Misconception(
            "interleaved",
            _change(_interleaved),
            "You replaced every n_heads-th number. The heads lie side by side (lesson 05): head 1 has the numbers d_head to "
            "2·d_head − 1.",
        ),
        Misconception(
            "counted from 1",
            _change(_from_one),
            "You replaced the head before. Heads are counted from 0: head 0 has the first d_head numbers.",
        ),
        Misconception(
            "begins at column head",
            _change(_from_column_head),
            "Right for head 0 only: you begin at column `head`. Head 1 begins where head 0 ends, at `head * d_head`.",
        ),
        Misconception(
            "heads of n_heads numbers",
            _change(_of_n_heads),
            "Each head has d_head = width // n_heads numbers, and you cut pieces of `n_heads` numbers. Head h has the numbers from `h * d_head` "
            "up to `(h + 1) * d_head`.",
        ),
        Misconception(
            "always zeros",
            _change(_zeros),
            "You put zeros, whatever `said` is. Right for zero ablation alone; here the head is to say `said`.",
        ),
        Misconception(
            "added",
            _change(_added),
            "You *added* `said`. The head then still says what it read; replace its numbers.",
        ),
        Misconception(
            "taken off",
            _change(_taken_off),
            "You *subtracted* `said`. With the mean that centres what the head says, and what depends on the text, the very "
            "thing to be taken out, is all still there. Replace its numbers.",
        ),
        Misconception(
            "the last position only",
            _change(_last_position),
            "You replaced the head at the last position. Every position is a prediction (lesson 04): replace it at all of them.",
        ),
        Misconception(
            "the other heads",
            _change(_others),
            "You replaced all heads but this one.",
        ),
        Misconception(
            "all heads",
            _change(_all_heads),
            "You replaced all heads. One head is d_head of the numbers: `head * d_head` to `(head + 1) * d_head`.",
        ),
        Misconception(
            "from this head on",
            _change(_to_the_end),
            "This head is replaced, and all after it. Its numbers end at `(head + 1) * d_head`.",
        ),
        Misconception(
            "its mean over this batch",
            _change(_own_mean),
            "You put the head's mean over *this* batch. What it is to say is given: `said`.",
        ),
        Misconception(
            "nothing replaced",
            _change(_nothing),
            "Nothing has changed. `x[…] * 0 + said` makes a new tensor and leaves x alone; to write into it say `x[…] = said`.",
        ),
    ),
    hints=(
        "Side by side the heads are d_head numbers each: `merged.shape[-1] // n_heads`. Which are those of head 1?",
        "`replaced = merged.clone()`, then write into a slice of its last axis.",
        "`replaced[:, :, head * d_head : (head + 1) * d_head] = said`: (d_head,) is repeated over batch and position.",
    ),
    why="Between the weighted values and W_O the heads lie side by side and nothing has been mixed yet. That is the one "
    "place where a head can be replaced alone.",
)

EXERCISES = (PREVIOUS, CHANCE, INDUCTION, ABLATE)

QUIZ = (
    Question(
        "A head scores 0.09 on *same token*; chance is 0.06. What do you do first?",
        (
            Choice(
                "Call it a same-token head: it is above chance.",
                False,
                "Half as much again as even attention, and 0.91 of its weight goes elsewhere. Sixteen heads and six types are 96 "
                "chances to be a little above.",
            ),
            Choice(
                "Compare it with the places of another text, with other heads, and ablate it.",
                True,
                "Places of another text tell reading by content from reading by position; ablation tells whether it matters.",
            ),
            Choice(
                "Nothing: scores below 0.5 mean nothing.",
                False,
                "Our newline head scores 0.3, more than twenty times its chance, and its ablation hurts what one would expect.",
            ),
        ),
    ),
    Question(
        "Why replace a head's output by its mean rather than by zeros?",
        (
            Choice(
                "Because zeros raise an error in the layers that follow.",
                False,
                "They run. But the layers get numbers they have never seen, and the loss then holds that as well.",
            ),
            Choice(
                "Because the loss then cannot get worse.",
                False,
                "It gets worse wherever the head's reading is needed. Seldom, and by a little, it gets better.",
            ),
            Choice(
                "Because the mean keeps what the head says whatever the text is, so that only what depends on the text is "
                "taken out.",
                True,
                "In the Tang model head 0.3 says nearly the same everywhere: zeros cost something, the mean next to nothing.",
            ),
        ),
    ),
    Question(
        "Two heads read the token before with the same mean weight. What follows?",
        (
            Choice(
                "About what they are good for, nothing yet.",
                True,
                "Where is not what, and not what for. Ablate both, and look at the predictions.",
            ),
            Choice(
                "They do the same, so one of them could go.",
                False,
                "Where they read is half of it: what they take from there, and who reads what they write, are their own. Ours "
                "differ several times over in what their silence costs.",
            ),
            Choice(
                "They read the token before for the same queries.",
                False,
                "A mean of 0.5 may be half of the weight always, or all of it half of the time.",
            ),
        ),
    ),
    Question(
        "Why does an induction head need a layer before it?",
        (
            Choice(
                "Because with two layers there are more parameters.",
                False,
                "A wider single layer could not do it either: it is about what a key can know.",
            ),
            Choice(
                "Because its keys have to say which token stood *before* them, and a head of an earlier layer has to have "
                "written that there.",
                True,
                "In the first layer a key is made of its own token alone. Previous-token heads write the neighbour into the stream.",
            ),
            Choice(
                "Because the first layer cannot see the former copy.",
                False,
                "It can read any token before. It can find the copy of the query's token; what it cannot find is the token after it.",
            ),
        ),
    ),
    Question(
        "You silence a head that reads strongly, and nothing gets worse. Which explanations are left?",
        (
            Choice(
                "Other heads do the same, and any of them is enough.",
                True,
                "So it is with the four induction heads of our small model: one is not missed, all four are.",
            ),
            Choice(
                "It matters for predictions that were not measured, or that drown in the mean.",
                True,
                "The rhyme is one character in thirteen. Split the loss by kinds of predictions, and use other texts.",
            ),
            Choice(
                "Its weights were computed wrongly.",
                False,
                "They come from the pass that ran. A head may read strongly and be of no use.",
            ),
        ),
    ),
)
