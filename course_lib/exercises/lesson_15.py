"""Exercises and quiz of lesson 15: heads that share keys, a model converted, latents absorbed."""

import math
from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.model.attention import attention as masked_attention
from course_lib.model.attention import causal_mask
from course_lib.model.model_cards import ModelCard


def grouped_attention(query, key, value, may_attend):
    """Attention whose query heads share keys and values in groups of neighbours.

    query: (batch, head, query, d_head), key and value: (batch, kv_head, key, d_head),
    may_attend: (query, key), bool → output (batch, head, query, d_head)
    """
    group = query.shape[1] // key.shape[1]  # query heads for each key head
    key = key.repeat_interleave(group, dim=1)  # heads 0, 0, 1, 1, …
    value = value.repeat_interleave(group, dim=1)
    output, _ = masked_attention(query, key, value, may_attend)
    return output


def share_heads(weight, n_heads, n_kv_heads):
    """The weight of a key or value matrix for fewer heads: each the mean of its group's heads.

    weight: (n_heads · d_head, d_model) → (n_kv_heads · d_head, d_model); rows as nn.Linear has them
    """
    groups = weight.unflatten(
        0, (n_kv_heads, n_heads // n_kv_heads, -1)
    )  # (kv_head, of group, d_head, …)
    return groups.mean(dim=1).flatten(0, 1)


def absorbed_attention(query, latent, up_key, up_value):
    """Attention over latents; no key or value of any head is ever made.

    query: (batch, head, query, d_head), latent: (batch, key, d_latent),
    up_key, up_value: (head, d_latent, d_head) → output (batch, head, query, d_head)
    """
    d_head = query.shape[-1]
    absorbed = query @ up_key.transpose(-2, -1)  # q W_UKᵀ: (batch, head, query, d_latent)
    scores = absorbed @ latent[:, None].transpose(-2, -1) / d_head**0.5
    mixed = scores.softmax(dim=-1) @ latent[:, None]  # (batch, head, query, d_latent)
    return mixed @ up_value


def texts_that_fit(card, tokens, free_bytes, bytes_per_number):
    """How many texts of so many tokens have their caches in the memory that is left: an int.

    card: n_layers, n_heads, n_kv_heads, d_head; or, with MLA, d_latent and d_rotary, which are
    None for the others. (No windows.)
    """
    if card.d_latent is None:
        numbers = 2 * card.n_kv_heads * card.d_head
    else:
        numbers = card.d_latent + card.d_rotary
    return free_bytes // (card.n_layers * numbers * tokens * bytes_per_number)


# How answers are run


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _grouped(answer, query, key, value, mask):
    """query has its groups apart, (batch, kv_head, of group, query, d_head): all sizes are primes."""
    places = (torch.arange(query.shape[3]), torch.arange(key.shape[2]))
    may_attend = causal_mask(*places) if mask == "earlier" else torch.ones(*map(len, places)).bool()
    return answer(query.flatten(1, 2), key, value, may_attend)


def _grouped_of(query, key, value, mask):
    heads = query.flatten(1, 2)
    kind = "causal" if mask == "earlier" else "all True"
    return f"query {tuple(heads.shape)}, key and value {tuple(key.shape)}, may_attend {kind}"


def _grouped_cases():
    yield (
        _random(2, 3, 2, 5, 7),
        _random(2, 3, 5, 7, seed=1),
        _random(2, 3, 5, 7, seed=2),
        "earlier",
    )
    yield _random(3, 2, 5, 11, 7), _random(3, 2, 13, 7, seed=1), _random(3, 2, 13, 7, seed=2), "all"
    yield (
        _random(2, 1, 5, 3, 7),
        _random(2, 1, 3, 7, seed=1),
        _random(2, 1, 3, 7, seed=2),
        "earlier",
    )
    yield _random(1, 5, 1, 3, 2), _random(1, 5, 3, 2, seed=1), _random(1, 5, 3, 2, seed=2), "all"


def _shared(answer, weight, n_kv_heads):
    """weight has its heads and groups apart: (kv_head, of group, d_head, d_model)."""
    return answer(weight.flatten(0, 2), weight.shape[0] * weight.shape[1], n_kv_heads)


def _shared_of(weight, n_kv_heads):
    n_heads = weight.shape[0] * weight.shape[1]
    return f"weight {tuple(weight.flatten(0, 2).shape)}, n_heads={n_heads}, n_kv_heads={n_kv_heads}"


def _shared_cases():
    for kv_heads, group, d_head, d_model in (
        (3, 2, 5, 7),
        (2, 3, 7, 5),
        (1, 5, 2, 3),
        (5, 1, 3, 2),
    ):
        yield _random(kv_heads, group, d_head, d_model), kv_heads


class _Shapes(TorchDispatchMode):
    """Notes the number of entries of every tensor that is made while it is on.

    products: how many products with a matrix gave so many entries.
    """

    PRODUCTS = (torch.ops.aten.mv, torch.ops.aten.mm, torch.ops.aten.bmm)

    def __init__(self):
        super().__init__()
        self.entries = set()
        self.products = Counter()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        self.entries |= {
            leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)
        }
        if operator.overloadpacket in self.PRODUCTS:
            self.products[result.numel()] += 1
        return result


def _absorb(answer, query, latent, up_key, up_value):
    batch, n_heads, n_queries, d_head = query.shape
    with _Shapes() as seen:
        output = answer(query, latent, up_key, up_value)
    keys_of_a_head = batch * latent.shape[1] * d_head
    expanded = seen.entries & {keys_of_a_head, n_heads * keys_of_a_head, latent.shape[1] * d_head}
    # one by one: more products of d_head entries than there are outputs of a head
    singly = seen.products[d_head] > batch * n_heads * n_queries
    return {"output": output, "keys or values of a head were made": bool(expanded) or singly}


def _absorb_cases():
    yield (
        _random(2, 3, 5, 7),
        _random(2, 13, 11, seed=1),
        _random(3, 11, 7, seed=2),
        _random(3, 11, 7, seed=3),
    )
    yield (
        _random(3, 5, 2, 13),
        _random(3, 17, 7, seed=1),
        _random(5, 7, 13, seed=2),
        _random(5, 7, 13, seed=3),
    )
    yield (
        _random(5, 2, 3, 7),
        _random(5, 19, 2, seed=1),
        _random(2, 2, 7, seed=2),
        _random(2, 2, 7, seed=3),
    )


def _fit(answer, values, tokens, free_bytes, bytes_per_number):
    card = ModelCard(name="a model", source="", d_model=0, context_length=0, **values)
    return answer(card, tokens, free_bytes, bytes_per_number)


def _fit_of(values, tokens, free_bytes, bytes_per_number):
    told = ", ".join(f"{name}={number}" for name, number in values.items())
    return f"card with {told}; tokens={tokens}, free_bytes={free_bytes}, bytes_per_number={bytes_per_number}"


def _fit_cases():
    yield {"n_layers": 5, "n_heads": 7, "n_kv_heads": 7, "d_head": 11}, 13, 10_000_000, 2
    yield {"n_layers": 3, "n_heads": 14, "n_kv_heads": 2, "d_head": 17}, 101, 30_000_000, 4
    yield {"n_layers": 7, "n_heads": 13, "n_kv_heads": 1, "d_head": 5}, 19, 9_999_991, 2
    mla = {"n_layers": 3, "n_heads": 11, "d_head": 13, "d_latent": 23, "d_rotary": 2}
    yield mla, 31, 10_000_019, 2
    yield {"n_layers": 2, "n_heads": 3, "n_kv_heads": 3, "d_head": 5}, 1009, 50_000, 4


# Wrong ways to share


def _attend(query, key, value, may_attend):
    return masked_attention(query, key, value, may_attend)[0]


def _tiled(query, key, value, may_attend):
    group = query.shape[1] // key.shape[1]
    return _attend(query, key.repeat(1, group, 1, 1), value.repeat(1, group, 1, 1), may_attend)


def _queries_averaged(query, key, value, may_attend):
    query = query.unflatten(1, (key.shape[1], -1)).mean(dim=2)
    return _attend(query, key, value, may_attend)


def _first_for_all(query, key, value, may_attend):
    return _attend(query, key[:, :1], value[:, :1], may_attend)


def _by_kv_heads(query, key, value, may_attend):
    n = key.shape[1]
    return _attend(
        query, key.repeat_interleave(n, dim=1), value.repeat_interleave(n, dim=1), may_attend
    )


def _values_tiled(query, key, value, may_attend):
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat(1, group, 1, 1)
    return _attend(query, key, value, may_attend)


def _unmasked(query, key, value, may_attend):
    return grouped_attention(query, key, value, torch.ones_like(may_attend))


def _not_repeated(query, key, value, may_attend):
    return _attend(query, key, value, may_attend)


def _unscaled_groups(query, key, value, may_attend):
    group = query.shape[1] // key.shape[1]
    key, value = (heads.repeat_interleave(group, dim=1) for heads in (key, value))
    scores = (query @ key.transpose(-2, -1)).masked_fill(~may_attend, -torch.inf)
    return scores.softmax(dim=-1) @ value


def _both_parts(query, key, value, may_attend):
    group = query.shape[1] // key.shape[1]
    key, value = (heads.repeat_interleave(group, dim=1) for heads in (key, value))
    return masked_attention(query, key, value, may_attend)


GROUPS = Exercise(
    id="15.groups",
    title="Query heads that share keys",
    stars=2,
    minutes=6,
    solution=grouped_attention,
    cases=_grouped_cases,
    call=_grouped,
    shown=_grouped_of,
    hints=(
        "`masked_attention` wants as many key heads as query heads. How many query heads does each "
        "key head serve?",
        "With 6 query heads and 3 key heads, the query heads need the key heads 0, 0, 1, 1, 2, 2, in "
        "this order.",
        "`torch.tensor([0, 1, 2]).repeat_interleave(2)` gives just that; along the axis of heads it is "
        "`key.repeat_interleave(group, dim=1)`. The values likewise.",
    ),
    misconceptions=(
        Misconception(
            "tiled",
            _tiled,
            "`repeat` lays the key heads side by side as 0, 1, 2, 0, 1, 2, so that query head 1 reads "
            "key head 1. Groups are *neighbours*: 0, 0, 1, 1, 2, 2. Both run and train; but weights "
            "made with the one are wrong in the other. `repeat_interleave` repeats each head in its "
            "place.",
        ),
        Misconception(
            "values tiled",
            _values_tiled,
            "Your weights are right: keys are shared by neighbours. The values come in another order, "
            "0, 1, 2, 0, 1, 2, so that a head reads by one head's keys and takes another head's values.",
        ),
        Misconception(
            "queries averaged",
            _queries_averaged,
            "You made one query of each group, and with it one output. Only keys and values are shared: "
            "each query head asks its own question and brings its own answer, (batch, head, query, "
            "d_head) as before. What shrinks is what a cache keeps, and queries are not kept.",
        ),
        Misconception(
            "the first key head for all",
            _first_for_all,
            "All your query heads read key head 0: that is MQA, made of a layer that has more key heads. "
            "Each group of neighbours has one of its own.",
        ),
        Misconception(
            "repeated n_kv_heads times",
            _by_kv_heads,
            "You repeated each key head `n_kv_heads` times. A key head serves `n_heads // n_kv_heads` "
            "query heads, the size of its group.",
        ),
        Misconception(
            "mask ignored",
            _unmasked,
            "Heads are shared rightly, but queries read keys that `may_attend` forbids. One mask serves "
            "all heads, as in lesson 05: hand it on.",
        ),
        Misconception(
            "not as many key heads as query heads",
            _not_repeated,
            "`masked_attention` met more query heads than heads of keys, or of values. Both keys and "
            "values have to be repeated, along the axis of heads (`dim=1`), until there is one for each "
            "query head.",
        ),
        Misconception(
            "not scaled",
            _unscaled_groups,
            "Heads are shared rightly, but the scores are not divided by √d_head (lesson 03). "
            "`masked_attention` does it for you.",
        ),
        Misconception(
            "weights as well",
            _both_parts,
            "`masked_attention` gives two things, output and weights. Return the output alone.",
        ),
    ),
    why="The heads of a group differ in their **queries**. They search one table of keys for different "
    "things and take what they find from one table of values. Repeating the heads makes the shapes fit; "
    "the cache keeps the table once, and a good kernel reads it once for the whole group.",
)


def _each(weight, n_heads, n_kv_heads, choose):
    groups = weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))
    return choose(groups).flatten(0, 1)


def _far_groups(weight, n_heads, n_kv_heads):
    groups = weight.unflatten(0, (n_heads // n_kv_heads, n_kv_heads, -1))
    return groups.mean(dim=0).flatten(0, 1)


def _neighbouring_rows(weight, n_heads, n_kv_heads):
    return weight.unflatten(0, (-1, n_heads // n_kv_heads)).mean(dim=1)


def _columns(weight, n_heads, n_kv_heads):
    if weight.shape[1] % n_heads:
        return weight[:, : weight.shape[1] * n_kv_heads // n_heads]
    groups = weight.unflatten(1, (n_kv_heads, n_heads // n_kv_heads, -1))
    return groups.mean(dim=2).flatten(1, 2)


def _groups_of_kv_heads(weight, n_heads, n_kv_heads):
    groups = weight.unflatten(0, (n_heads // n_kv_heads, n_kv_heads, -1))
    return groups.mean(dim=1).flatten(0, 1)


def _repeated(weight, n_heads, n_kv_heads):
    shared = share_heads(weight, n_heads, n_kv_heads).unflatten(0, (n_kv_heads, -1))
    return shared.repeat_interleave(n_heads // n_kv_heads, dim=0).flatten(0, 1)


def _all_heads(weight, n_heads, n_kv_heads):
    mean = weight.unflatten(0, (n_heads, -1)).mean(dim=0)
    return mean.repeat(n_kv_heads, 1)


CONVERT = Exercise(
    id="15.convert",
    title="Fewer key heads for a trained model",
    stars=2,
    minutes=6,
    solution=share_heads,
    cases=_shared_cases,
    call=_shared,
    shown=_shared_of,
    hints=(
        "Rows 0 to d_head − 1 of the weight make head 0, the next d_head rows head 1. Which rows make "
        "the first group?",
        "Cut the rows into (n_kv_heads, heads of a group, d_head) first; `-1` lets torch work out the "
        "last of them.",
        "`weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))`, then the mean over the heads of "
        "a group, and `flatten` the first two axes together again.",
    ),
    misconceptions=(
        Misconception(
            "heads far apart",
            _far_groups,
            "You averaged every n_kv_heads-th head, such as 0 with 2 and 1 with 3. The attention lets "
            "*neighbours* share: query heads 0 and 1 read key head 0. So its mean must be that of heads "
            "0 and 1, or they read keys that they were never trained with.",
        ),
        Misconception(
            "neighbouring rows",
            _neighbouring_rows,
            "You averaged neighbouring rows, which are entries of *one* head. What is to be averaged is "
            "entry i of one head with entry i of the next, d_head rows further down.",
        ),
        Misconception(
            "first head of each group",
            lambda weight, n_heads, n_kv_heads: _each(
                weight, n_heads, n_kv_heads, lambda g: g[:, 0]
            ),
            "You kept the first head of each group and dropped the others. It is a way to convert, and "
            "we shall try it; asked for is the mean.",
        ),
        Misconception(
            "sum",
            lambda weight, n_heads, n_kv_heads: _each(
                weight, n_heads, n_kv_heads, lambda g: g.sum(1)
            ),
            "That is the sum of the group's heads. Keys would be longer by the size of the group, and "
            "with them all scores: divide.",
        ),
        Misconception(
            "divided by all heads",
            lambda weight, n_heads, n_kv_heads: _each(
                weight, n_heads, n_kv_heads, lambda g: g.sum(1) / n_heads
            ),
            "You divided each group's sum by the number of *all* heads. A mean divides by how many were "
            "added up: the heads of a group, `n_heads // n_kv_heads`.",
        ),
        Misconception(
            "divided by the number of groups",
            lambda weight, n_heads, n_kv_heads: _each(
                weight, n_heads, n_kv_heads, lambda g: g.sum(1) / n_kv_heads
            ),
            "You divided each group's sum by `n_kv_heads`, which is how many groups there are. A mean "
            "divides by how many were added up: the heads of *one* group, `n_heads // n_kv_heads`.",
        ),
        Misconception(
            "groups of n_kv_heads heads",
            _groups_of_kv_heads,
            "You made groups of `n_kv_heads` heads each. It is the other way round: there are "
            "`n_kv_heads` groups, of `n_heads // n_kv_heads` heads. With 6 heads over 3 that is three "
            "pairs, not two triples.",
        ),
        Misconception(
            "the first heads of all",
            lambda weight, n_heads, n_kv_heads: weight[: len(weight) * n_kv_heads // n_heads],
            "You kept the first `n_kv_heads` heads and dropped the others. Query heads 2 and 3 would read "
            "head 1's keys, which were made for another. Each group gets the mean of *its own* heads.",
        ),
        Misconception(
            "columns",
            _columns,
            "You cut columns. `nn.Linear` keeps its weight as (out, in): heads lie in the *rows*, and the "
            "columns are the d_model numbers of the input.",
        ),
        Misconception(
            "repeated again",
            _repeated,
            "Your means are right, but each is there once for every query head, so that nothing has "
            "become smaller. The matrix should have n_kv_heads · d_head rows; repeating is the "
            "attention's work.",
        ),
        Misconception(
            "mean of all heads",
            _all_heads,
            "You averaged *all* heads, and gave each group the same mean. Each group has a mean of its "
            "own.",
        ),
    ),
    why="Heads lie in the rows, one after the other, groups are neighbours: so cut (kv_head, heads of a "
    "group, d_head) and average the middle axis. Ainslie et al. call it mean pooling. Queries and the "
    "output matrix stay as they are.",
)


def _scores_to_output(scores, latent, up_value):
    return scores.softmax(dim=-1) @ latent[:, None] @ up_value


def _absorbed_scores(query, latent, up_key):
    return query @ up_key.transpose(-2, -1) @ latent[:, None].transpose(-2, -1)


def _expanded(query, latent, up_key, up_value):
    key, value = latent[:, None] @ up_key, latent[:, None] @ up_value
    return (query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5).softmax(dim=-1) @ value


def _by_latent_width(query, latent, up_key, up_value):
    scores = _absorbed_scores(query, latent, up_key) / latent.shape[-1] ** 0.5
    return _scores_to_output(scores, latent, up_value)


def _by_head_width(query, latent, up_key, up_value):
    scores = _absorbed_scores(query, latent, up_key) / query.shape[-1]
    return _scores_to_output(scores, latent, up_value)


def _no_head_axis(query, latent, up_key, up_value):
    return query @ up_key.transpose(-2, -1) @ latent.transpose(-2, -1)


def _no_scale(query, latent, up_key, up_value):
    return _scores_to_output(_absorbed_scores(query, latent, up_key), latent, up_value)


def _latent_out(query, latent, up_key, up_value):
    scores = _absorbed_scores(query, latent, up_key) / query.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ latent[:, None]


def _not_transposed(query, latent, up_key, up_value):
    return query @ up_key @ latent[:, None].transpose(-2, -1)


def _all_axes_reversed(query, latent, up_key, up_value):
    return query @ up_key.permute(2, 1, 0) @ latent[:, None].transpose(-2, -1)


def _key_matrix_twice(query, latent, up_key, up_value):
    return absorbed_attention(query, latent, up_key, up_key)


def _matrices_exchanged(query, latent, up_key, up_value):
    return absorbed_attention(query, latent, up_value, up_key)


def _value_matrix_twice(query, latent, up_key, up_value):
    return absorbed_attention(query, latent, up_value, up_value)


def _over_queries(query, latent, up_key, up_value):
    scores = _absorbed_scores(query, latent, up_key) / query.shape[-1] ** 0.5
    return scores.softmax(dim=-2) @ latent[:, None] @ up_value


ABSORB = Exercise(
    id="15.absorb",
    title="Read the latents as they are",
    stars=3,
    minutes=9,
    solution=absorbed_attention,
    cases=_absorb_cases,
    call=_absorb,
    hints=(
        "A score is q · (c W_UK). Where can the brackets go instead, so that c stays as it is?",
        "q W_UKᵀ first: `query @ up_key.transpose(-2, -1)`, (batch, head, query, d_latent). What it is "
        "multiplied with is the same for all heads: `latent[:, None]`, (batch, 1, key, d_latent).",
        "The mean of values c W_UV is (the mean of the c) W_UV: mix the latents by the weights, and "
        "multiply by `up_value` afterwards.",
        "The scores are the same numbers as before, so they are divided by what they were divided by.",
    ),
    misconceptions=(
        Misconception(
            "expanded",
            _expanded,
            "The numbers are right; but on the way you made the keys, or the values, of every token of the "
            "past anew. Move the brackets: q · (c W_UK) = (q W_UKᵀ) · c. The values likewise: weights "
            "@ latent first, which is (batch, head, query, d_latent), and `up_value` afterwards.",
        ),
        Misconception(
            "divided by √d_latent",
            _by_latent_width,
            "You divided by the root of the width of the *absorbed* query. The scores are the very "
            "numbers that q · k would be; only the brackets moved. So it is still √d_head.",
        ),
        Misconception(
            "divided by d_head",
            _by_head_width,
            "You divided by d_head; its *root* is what evens out the spread of a dot product (lesson 03).",
        ),
        Misconception(
            "no axis for the heads",
            _no_head_axis,
            "The absorbed query is (batch, head, query, d_latent), and `latent` is (batch, key, d_latent): "
            "without an axis for the heads, `@` holds its batch against your heads. `latent[:, None]` is "
            "(batch, 1, key, d_latent), the same for each head.",
        ),
        Misconception(
            "not scaled",
            _no_scale,
            "The scores are not divided by √d_head (lesson 03).",
        ),
        Misconception(
            "latents handed on",
            _latent_out,
            "What you return are mixed latents, (batch, head, query, d_latent). W_UV, left out so far, "
            "makes of them what each head brings: `@ up_value`.",
        ),
        Misconception(
            "up_key not transposed",
            _not_transposed,
            "`query @ up_key` multiplies d_head with d_latent, which do not fit. From q · (c W) to "
            "(q Wᵀ) · c the matrix is transposed: its last two axes, since the first is the head.",
        ),
        Misconception(
            "W_UV for both",
            _value_matrix_twice,
            "Your scores use `up_value`. Keys are made by `up_key`, and it is they that a query meets.",
        ),
        Misconception(
            "W_UK for both",
            _key_matrix_twice,
            "Your weights are right, but what is mixed by them then goes through `up_key`. Values are "
            "made by `up_value`: it is the last product.",
        ),
        Misconception(
            "matrices exchanged",
            _matrices_exchanged,
            "You exchanged the two matrices. `up_key` belongs to the scores, and is absorbed into the "
            "query; `up_value` comes after the mixture.",
        ),
        Misconception(
            "all axes turned round",
            _all_axes_reversed,
            "`up_key` has three axes, (head, d_latent, d_head), and `.T` turns round all of them, the "
            "head as well. Exchange the last two only: `up_key.transpose(-2, -1)`, or `up_key.mT`.",
        ),
        Misconception(
            "softmax over queries",
            _over_queries,
            "Your softmax runs over the queries. A query divides its attention among the keys, the last "
            "axis.",
        ),
    ),
    why="Matrix products may be bracketed as one likes. `q W_UKᵀ` costs one small product for each new "
    "query, whatever the length of the past; expanding the keys costs one for each token of the past. "
    "Nothing is approximated.",
)


def _numbers(card):
    return (
        2 * card.n_kv_heads * card.d_head
        if card.d_latent is None
        else card.d_latent + card.d_rotary
    )


def _fits(card, tokens, free_bytes, bytes_per_number, numbers):
    return free_bytes // (card.n_layers * numbers * tokens * bytes_per_number)


def _float_division(card, tokens, free_bytes, bytes_per_number):
    return free_bytes / (card.n_layers * _numbers(card) * tokens * bytes_per_number)


def _rounded_up(card, tokens, free_bytes, bytes_per_number):
    return math.ceil(_float_division(card, tokens, free_bytes, bytes_per_number))


def _query_heads(card, *rest):
    numbers = 2 * card.n_heads * card.d_head if card.d_latent is None else _numbers(card)
    return _fits(card, *rest, numbers)


def _keys_only(card, *rest):
    return _fits(card, *rest, _numbers(card) // 2 if card.d_latent is None else _numbers(card))


def _latent_twice(card, *rest):
    twice = 1 if card.d_latent is None else 2
    return _fits(card, *rest, twice * _numbers(card))


def _two_latents(card, *rest):
    if card.d_latent is None:
        return _fits(card, *rest, _numbers(card))
    return _fits(card, *rest, 2 * card.d_latent + card.d_rotary)


def _mla_expanded(card, *rest):
    if card.d_latent is None:
        return _fits(card, *rest, _numbers(card))
    return _fits(card, *rest, 2 * card.n_heads * card.d_head)


def _latent_for_each_head(card, *rest):
    heads = 1 if card.d_latent is None else card.n_heads
    return _fits(card, *rest, heads * _numbers(card))


def _turned_key_for_each_head(card, *rest):
    if card.d_latent is None:
        return _fits(card, *rest, _numbers(card))
    return _fits(card, *rest, card.d_latent + card.n_heads * card.d_rotary)


def _no_turned_key(card, *rest):
    return _fits(card, *rest, _numbers(card) if card.d_latent is None else card.d_latent)


def _one_layer(card, tokens, free_bytes, bytes_per_number):
    return free_bytes // (_numbers(card) * tokens * bytes_per_number)


def _numbers_for_bytes(card, tokens, free_bytes, bytes_per_number):
    return _fits(card, tokens, free_bytes, 1, _numbers(card))


def _rounded(card, *rest):
    return round(_float_division(card, *rest))


def _two_bytes(card, tokens, free_bytes, bytes_per_number):
    return _fits(card, tokens, free_bytes, 2, _numbers(card))


def _group_size(card, *rest):
    if card.d_latent is not None:
        return _fits(card, *rest, _numbers(card))
    return _fits(card, *rest, 2 * (card.n_heads // card.n_kv_heads) * card.d_head)


def _heads_for_numbers(card, *rest):
    return _fits(card, *rest, 2 * card.n_kv_heads if card.d_latent is None else _numbers(card))


def _no_latent(card, *rest):
    return _fits(card, *rest, 2 * card.n_kv_heads * card.d_head)


def _bytes_of_a_text(card, tokens, free_bytes, bytes_per_number):
    return card.n_layers * _numbers(card) * tokens * bytes_per_number


def _one_token(card, tokens, free_bytes, bytes_per_number):
    return _fits(card, 1, free_bytes, bytes_per_number, _numbers(card))


FIT = Exercise(
    id="15.fit",
    title="How many texts fit?",
    stars=1,
    minutes=5,
    solution=texts_that_fit,
    cases=_fit_cases,
    call=_fit,
    shown=_fit_of,
    hints=(
        "How many numbers does one token leave in one layer? There are two cases, and `card.d_latent` "
        "tells which.",
        "Bytes of one text: layers · numbers · tokens · bytes of a number. What fits is how often that "
        "goes into `free_bytes`, whole times.",
    ),
    misconceptions=(
        Misconception(
            "part of a text",
            _float_division,
            "A float: `/` counts parts of a text. Whole texts are asked for: `//`.",
        ),
        Misconception(
            "rounded up",
            _rounded_up,
            "You rounded up: the last of your texts has only a part of its cache in memory.",
        ),
        Misconception(
            "query heads",
            _query_heads,
            "You count a key and a value for every *query* head. Kept are those of the `n_kv_heads` that "
            "they share: it is what this lesson is about.",
        ),
        Misconception(
            "keys only",
            _keys_only,
            "Keys *and* values are kept: twice n_kv_heads · d_head. (Only a latent serves for both.)",
        ),
        Misconception(
            "latent twice",
            _latent_twice,
            "With MLA you count twice too many. Keys and values are made of *one* latent, kept once; there is "
            "no turned value either.",
        ),
        Misconception(
            "a latent for keys and one for values",
            _two_latents,
            "You count two latents a token, one for keys and one for values. Both are made of the *same* "
            "one: W_UK and W_UV read one c.",
        ),
        Misconception(
            "keys and values of each head with MLA",
            _mla_expanded,
            "With MLA you count a key and a value for each head. These are never kept: a cache of MLA has "
            "the latent, of which they could be made, and the turned key.",
        ),
        Misconception(
            "a latent for each head",
            _latent_for_each_head,
            "You count a latent for each head. One latent serves all of them; each head has its own W_UK "
            "and W_UV, and these are weights, not cache.",
        ),
        Misconception(
            "a turned key for each head",
            _turned_key_for_each_head,
            "The turned key is shared by all heads: d_rotary numbers a token, once.",
        ),
        Misconception(
            "no turned key",
            _no_turned_key,
            "With MLA a token leaves its latent *and* the turned key, which has the position: d_latent + "
            "d_rotary.",
        ),
        Misconception(
            "one layer",
            _one_layer,
            "That is the cache of one layer. Every layer keeps its own.",
        ),
        Misconception(
            "numbers for bytes",
            _numbers_for_bytes,
            "You divided bytes by a count of numbers. Each number takes `bytes_per_number` bytes.",
        ),
        Misconception(
            "rounded",
            _rounded,
            "You rounded to the nearest whole number, which is up half of the time; then the last of "
            "your texts has only a part of its cache in memory. `//` rounds down.",
        ),
        Misconception(
            "always two bytes",
            _two_bytes,
            "You took two bytes a number. Use `bytes_per_number`: in float32 it is four, and half as "
            "many texts fit.",
        ),
        Misconception(
            "heads of a group",
            _group_size,
            "You count `n_heads // n_kv_heads`, which is how many query heads share one key head. Kept "
            "are the key heads: `n_kv_heads` of them.",
        ),
        Misconception(
            "heads for numbers",
            _heads_for_numbers,
            "You count heads. Each keeps a key and a value of `d_head` numbers for every token.",
        ),
        Misconception(
            "MLA treated like the others",
            _no_latent,
            "A card with MLA has no key heads: its `n_kv_heads` is None, and None cannot be multiplied. "
            "Ask `if card.d_latent is None:` first, and count d_latent + d_rotary where it is not.",
        ),
        Misconception(
            "bytes of one text",
            _bytes_of_a_text,
            "That is what *one* text takes. How often does it go into `free_bytes`?",
        ),
        Misconception(
            "one token",
            _one_token,
            "That is how many *tokens* fit. Each text has `tokens` of them.",
        ),
    ),
    why="A token leaves `2 · n_kv_heads · d_head` numbers in a layer, or `d_latent + d_rotary`. The number "
    "of query heads does not occur: queries are used once and not kept.",
)

EXERCISES = (GROUPS, CONVERT, ABSORB, FIT)

QUIZ = (
    Question(
        "GQA with 8 key heads in place of 64: what becomes smaller?",
        (
            Choice(
                "The cache, to an eighth.",
                True,
                "Keys and values of 8 heads are kept in place of 64.",
            ),
            Choice(
                "What is read from memory for each new token's attention, to an eighth.",
                True,
                "A step reads the whole cache once, if the kernel serves a group in one go.",
            ),
            Choice(
                "The number of attention weights, to an eighth.",
                False,
                "There are as many query heads as before, and each has its own row of weights over all tokens.",
            ),
            Choice(
                "The arithmetic of scores and mixtures, to an eighth.",
                False,
                "Each query head still meets every key; only fetching the keys is shared.",
            ),
        ),
    ),
    Question(
        "Two query heads share their keys. Do they read the same tokens?",
        (
            Choice(
                "Not necessarily: their queries differ, and score the same keys differently.",
                True,
                "In our example one head read *animal* and one *road*, by the same keys.",
            ),
            Choice(
                "Yes: equal keys give equal weights.",
                False,
                "A weight comes from query *and* key; the queries are not shared.",
            ),
            Choice(
                "Yes, but they take different values there.",
                False,
                "It is the other way round: the values are shared too, and the weights differ.",
            ),
        ),
    ),
    Question(
        "MLA caches a latent c of a token. What does weight absorption save?",
        (
            Choice(
                "Cache: without absorption the keys would have to be kept.",
                False,
                "The latent alone could be kept and expanded when needed; that costs arithmetic, not cache.",
            ),
            Choice(
                "Making keys and values of the whole past from the latents at each step.",
                True,
                "W_UK is applied to the new query, and W_UV to the mixture: once a step, not once a token of the past.",
            ),
            Choice(
                "Precision: absorbed scores are approximations of the true ones.",
                False,
                "They are equal but for rounding: only the brackets of a product have moved.",
            ),
        ),
    ),
    Question(
        "Why does MLA keep a small turned key beside the latent?",
        (
            Choice(
                "A latent cannot be turned, since its width is odd.",
                False,
                "Its width is 512 in DeepSeek-V2; turning the latent would be possible, and is another model.",
            ),
            Choice(
                "Each head needs a turned key of its own.",
                False,
                "One turned key serves all heads, which is why it costs so little.",
            ),
            Choice(
                "A turn between W_UK and the query depends on the position, so that there is no one matrix to absorb.",
                True,
                "q R(n − m) W_UKᵀ differs for each distance; so the part that is turned is kept apart.",
            ),
        ),
    ),
    Question(
        "In our table MQA and MLA came out a little worse than MHA with each of five seeds, GQA now better and "
        "now worse. What follows?",
        (
            Choice(
                "At this size and length of training two key heads did as well as eight, and MQA and MLA not "
                "quite; of large models the table says nothing.",
                True,
                "It is what was measured, and no more. For large models there are the papers.",
            ),
            Choice(
                "MLA is worse than MHA.",
                False,
                "It was here, with a latent of 32 numbers and 600 steps. For models of 16 and 250 billion "
                "parameters its authors report the opposite.",
            ),
            Choice(
                "GQA is exactly as good as MHA.",
                False,
                "Not to see a difference with five seeds is not to know that there is none.",
            ),
            Choice(
                "One seed would have done, for the order is the same with each.",
                False,
                "With one seed GQA was the best of the four, with another MHA.",
            ),
        ),
    ),
)
