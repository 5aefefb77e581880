"""Exercises and quiz of lesson 05: several attentions side by side, split, merged, counted, silenced."""

import copy
import math

import torch
from torch import nn

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value
from course_lib.exercises.trial import WrongParts
from course_lib.model.attention import attention as masked_attention
from course_lib.model.attention import causal_mask


def split_heads(x, n_heads):
    """Cut the last axis into heads: (batch, position, d_model) → (batch, head, position, d_head)."""
    batch, position, d_model = x.shape
    heads = x.reshape(batch, position, n_heads, d_model // n_heads)
    return heads.transpose(1, 2)


def merge_heads(heads):
    """The heads side by side again: (batch, head, position, d_head) → (batch, position, d_model)."""
    return heads.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """n_heads attentions side by side: (batch, position, d_model) → (batch, position, d_model).

    Attributes query, key, value, output: nn.Linear(d_model, d_model). may_attend (query, key): bool.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x, may_attend):
        """One mask for all heads; what they found goes through `output` together."""
        query = split_heads(self.query(x), self.n_heads)
        key = split_heads(self.key(x), self.n_heads)
        value = split_heads(self.value(x), self.n_heads)
        output, _ = masked_attention(query, key, value, may_attend)
        return self.output(merge_heads(output))


def without_head(layer, head, n_heads):
    """A copy of a MultiHeadAttention in which one head, counted from 0, adds nothing.

    The layer itself stays as it is. layer.output.weight: (to d_model, from the merged heads).
    """
    silenced = copy.deepcopy(layer)
    d_head = layer.output.in_features // n_heads
    with torch.no_grad():
        silenced.output.weight[:, head * d_head : (head + 1) * d_head] = 0
    return silenced


# How answers are run. A case's x has its heads apart, (batch, position, head, d_head), so that every
# size is a prime; side by side they are the (batch, position, d_model) that an answer is given, and
# that `shown` tells of.


def _split(answer, x):
    return answer(x.flatten(2), x.shape[2])


def _split_of(x):
    return f"x {tuple(x.flatten(2).shape)}, n_heads={x.shape[2]}"


def _run_layer(answer, x, mask):
    """The output of a layer of the answer's, filled with the same numbers each time."""
    _, position, n_heads, d_head = x.shape
    layer = _filled(answer(n_heads * d_head, n_heads), n_heads * d_head)
    return layer(x.flatten(2), _mask(mask, position))


def _layer_of(x, mask):
    _, position, n_heads, d_head = x.shape
    masks = {
        "earlier": f"causal_mask({position})",
        "later": f"causal_mask({position}).T",
        "all": f"all True ({position}, {position})",
    }
    return (
        f"d_model={n_heads * d_head}, n_heads={n_heads}, x {tuple(x.flatten(2).shape)}, "
        f"may_attend {masks[mask]}"
    )


def _filled(layer, d_model):
    sizes = {"weight": (d_model, d_model), "bias": (d_model,)}
    names = ("query", "key", "value", "output")
    wanted = {f"{name}.{part}": shape for name in names for part, shape in sizes.items()}
    found = _shapes(layer) if isinstance(layer, nn.Module) else {}
    if found != wanted:
        raise WrongParts(
            f"With d_model = {d_model} your layer has the parameters {_list(found)}; the check fills "
            f"in {_list(wanted)}. Use these names and shapes: four `nn.Linear(d_model, d_model)`."
        )
    generator = torch.Generator().manual_seed(d_model)
    numbers = {name: torch.randn(shape, generator=generator) for name, shape in wanted.items()}
    layer.load_state_dict({name: 2 * part / math.sqrt(d_model) for name, part in numbers.items()})
    return layer


def _shapes(module):
    return {name: tuple(part.shape) for name, part in module.state_dict().items()}


def _list(shapes):
    return ", ".join(f"`{name} {shape}`" for name, shape in shapes.items()) or "none"


def _mask(kind, length):
    places = torch.arange(length)
    earlier = causal_mask(places, places)
    return {"earlier": earlier, "later": earlier.T, "all": torch.ones_like(earlier)}[kind]


def _silence(answer, x, head):
    """What the copy puts out, and whether the layer given was left alone."""
    _, position, n_heads, d_head = x.shape
    with torch.random.fork_rng(devices=[]):  # the notebook's random numbers are none of ours
        layer = MultiHeadAttention(n_heads * d_head, n_heads)
    _filled(layer, n_heads * d_head)
    before = copy.deepcopy(layer.state_dict())
    silenced = answer(layer, head, n_heads)
    x, after = x.flatten(2), layer.state_dict()
    same = all(torch.equal(before[name], after[name]) for name in before)
    output = silenced(x, _mask("earlier", position)) if callable(silenced) else silenced
    return {
        "the layer given": "as it was" if same else "changed",
        "what the silenced layer puts out": output,
    }


def _silenced_of(x, head):
    n_heads = x.shape[2]
    return f"a layer of d_model={n_heads * x.shape[3]}, head={head}, n_heads={n_heads}"


def _counted(*shape):
    """0, 1, 2 … in this shape, so that a message tells which number went where."""
    return torch.arange(math.prod(shape), dtype=torch.float32).view(shape)


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _split_cases():
    yield (_counted(2, 5, 3, 7),)
    yield (_counted(3, 7, 2, 5),)
    yield (_counted(1, 5, 7, 2),)
    yield (_counted(2, 3, 1, 5),)
    yield (_random(3, 2, 5, 7).double().requires_grad_(),)


def _merge_cases():
    yield (_counted(2, 5, 3, 7),)
    yield (_counted(3, 2, 7, 5),)
    yield (_counted(1, 7, 5, 2),)
    yield (_counted(2, 1, 3, 5),)
    yield (_random(3, 5, 2, 7).double().requires_grad_(),)


def _layer_cases():
    yield _random(2, 5, 3, 7), "earlier"
    yield _random(3, 7, 2, 5, seed=1), "later"
    yield _random(1, 5, 7, 2, seed=2), "all"
    yield _random(2, 3, 1, 5, seed=3), "earlier"
    yield _random(2, 3, 5, 7, seed=4).requires_grad_(), "earlier"


def _silence_cases():
    yield _random(2, 5, 3, 7), 0
    yield _random(3, 7, 2, 5, seed=1), 1
    yield _random(1, 3, 5, 2, seed=2), 3


# Wrong ways to split and merge


def _interleaved(x, n_heads):
    batch, position, d_model = x.shape
    return x.reshape(batch, position, d_model // n_heads, n_heads).permute(0, 3, 1, 2)


def _by_view(x, n_heads):
    batch, position, d_model = x.shape
    return x.reshape(batch, n_heads, position, d_model // n_heads)


def _swapped_roles(x, n_heads):
    batch, position, d_model = x.shape
    return x.reshape(batch, position, d_model // n_heads, n_heads).transpose(1, 2)


def _transposed_first(x, n_heads):
    batch, position, d_model = x.shape
    return x.transpose(1, 2).reshape(batch, n_heads, position, d_model // n_heads)


def _float_width(x, n_heads, cut="view"):
    batch, position, d_model = x.shape
    return getattr(x, cut)(batch, position, n_heads, d_model / n_heads).transpose(1, 2)


def _slices_from(x, n_heads):
    d_head = x.shape[-1] // n_heads
    return torch.stack([x[..., head : head + d_head] for head in range(n_heads)], dim=1)


_VIEW = (
    "The shape is right and the numbers are in the wrong places. `view` and `reshape` move nothing: "
    "they read all numbers in order and cut them anew. Cut into (batch, **position, head**, d_head), "
    "which is how they lie, and *then* let the two axes change places with `transpose(1, 2)`. In a "
    "layer this mistake raises no error: heads see pieces of other tokens, also of later ones."
)
_FLOAT = "`d_model / n_heads` is a float, 3.0 say, and a shape wants whole numbers: `d_model // n_heads`."

SPLIT = Exercise(
    id="05.split",
    title="From one wide vector to heads",
    stars=2,
    minutes=6,
    solution=split_heads,
    cases=_split_cases,
    call=_split,
    shown=_split_of,
    misconceptions=(
        Misconception("view without transpose", _by_view, _VIEW),
        Misconception(
            "heads interleaved",
            _interleaved,
            "Your head 0 has every n_heads-th column of a token. Heads are neighbouring columns: "
            "columns 0 to d_head − 1 are head 0, and so on. In `reshape` the head comes before "
            "d_head: (batch, position, n_heads, d_head).",
        ),
        Misconception(
            "not transposed",
            lambda x, n_heads: x.unflatten(-1, (n_heads, -1)),
            "The cut is right: (batch, position, head, d_head). Attention multiplies the last two axes, "
            "and those should be position and d_head: `transpose(1, 2)` brings the heads forward, beside "
            "the batch.",
        ),
        Misconception(
            "head and d_head swapped",
            _swapped_roles,
            "You have as many heads as a head is wide, and they are as wide as there should be heads: "
            "(…, d_head, n_heads) in place of (…, n_heads, d_head) in the `reshape`.",
        ),
        Misconception(
            "the wrong two axes",
            lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).transpose(2, 3),
            "The cut is right, and then head and d_head change places. It is *position* and *head* that "
            "should: axes 1 and 2.",
        ),
        Misconception(
            "head in the last place",
            lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).transpose(1, 3),
            "The cut is right, and then position and d_head change places. It is *position* and *head* "
            "that should: axes 1 and 2.",
        ),
        Misconception(
            "transposed before the cut",
            _transposed_first,
            "You transpose first and cut then. After the transposition the numbers of a column lie side "
            "by side, and the cut goes through them. First cut the last axis, then transpose.",
        ),
        Misconception(
            "cut in the wrong order, then transposed",
            lambda x, n_heads: _by_view(x, n_heads).transpose(1, 2),
            "The cut is (batch, head, position, d_head) already, and `transpose` then turns its axes round. Two "
            "faults: the order of the axes, and with it the numbers, for `view` moves none and has "
            "cut through the tokens. Cut in the order in which they lie, (batch, **position, head**, d_head), "
            "then `transpose(1, 2)`.",
        ),
        Misconception(
            "heads before the batch",
            lambda x, n_heads: x.unflatten(-1, (n_heads, -1)).permute(2, 0, 1, 3),
            "The numbers are right; the heads stand before the batch. Expected is (batch, head, "
            "position, d_head): with `stack`, `dim=1`.",
        ),
        Misconception(
            "a tuple of heads",
            lambda x, n_heads: x.chunk(n_heads, dim=-1),
            "These are the right pieces, as a tuple of separate tensors. One tensor is asked for, so that "
            "one matrix product serves all heads: `torch.stack(pieces, dim=1)`.",
        ),
        Misconception(
            "positions in place of columns",
            lambda x, n_heads: torch.stack(x.chunk(n_heads, dim=1), dim=1),
            "You deal out the *positions* among the heads, so each would see a part of the text. Every "
            "head sees all positions and a part of each vector: cut the last axis.",
        ),
        Misconception(
            "every head gets all",
            lambda x, n_heads: x[:, None].expand(-1, n_heads, -1, -1),
            "Every head has the whole vector here. A head gets d_head = d_model / n_heads of its "
            "columns, so that many heads cost no more than a wide one.",
        ),
        Misconception(
            "a width with a decimal point",
            _float_width,
            _FLOAT,
        ),
        Misconception(
            "a width with a decimal point, in reshape",
            lambda x, n_heads: _float_width(x, n_heads, "reshape"),
            _FLOAT,
        ),
        Misconception(
            "heads folded into the batch",
            lambda x, n_heads: split_heads(x, n_heads).flatten(0, 1),
            "The heads are right, and folded into the batch: (batch · head, position, d_head). Some "
            "programs do that; here they keep an axis of their own.",
        ),
        Misconception(
            "heads one after the other",
            lambda x, n_heads: torch.cat(x.chunk(n_heads, dim=-1), dim=1),
            "The pieces are right, and `cat` lays them one after the other along the positions. The heads "
            "need an axis of their own: `torch.stack(pieces, dim=1)`.",
        ),
        Misconception(
            "slices that overlap",
            _slices_from,
            "Your slices begin at columns 0, 1, 2 … and overlap. Head 1 begins where head 0 ends: from "
            "`head * d_head` to `(head + 1) * d_head`.",
        ),
        Misconception(
            "head 0 alone",
            lambda x, n_heads: x[..., : x.shape[-1] // n_heads],
            "That is head 0 alone. All heads are asked for, on an axis of their own: (batch, head, "
            "position, d_head).",
        ),
    ),
    hints=(
        "Which numbers belong to head 0? The first d_head of **each** token. Which two axes have to come "
        "out of the last one?",
        "Cut the last axis where it is: `x.reshape(batch, position, n_heads, d_head)`. Now head and "
        "d_head are axes of their own, and no number has moved.",
        "Let position and head change places: `.transpose(1, 2)`.",
    ),
    why="The cut only renames what lies side by side: d_model columns become n_heads × d_head. The "
    "`transpose` then says in which order the axes are to be read. Batch and head stand in front, "
    "where `@` repeats its product over them, so all heads are one matrix product away.",
)

MERGE = Exercise(
    id="05.merge",
    title="Heads side by side again",
    stars=1,
    minutes=3,
    solution=merge_heads,
    cases=_merge_cases,
    misconceptions=(
        Misconception(
            "reshaped only",
            lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1),
            "The shape is right and the numbers are in the wrong places: `reshape` cut them anew in the "
            "order (head, position), so a row holds pieces of several tokens. Transpose back first.",
        ),
        Misconception(
            "view after transpose",
            lambda heads: heads.transpose(1, 2).view(heads.shape[0], heads.shape[2], -1),
            "`transpose` is right. After it the numbers no longer lie in reading order, and `view`, which "
            "never copies, refuses. `reshape` and `flatten` copy where they must.",
        ),
        Misconception(
            "interleaved",
            lambda heads: heads.permute(0, 2, 3, 1).flatten(2),
            "You merge (d_head, head), so the heads' columns alternate. Head 0 comes first as a whole, "
            "then head 1: the order is (batch, position, **head, d_head**) before they are merged.",
        ),
        Misconception(
            "heads added",
            lambda heads: heads.sum(dim=1),
            "You add the heads up. Then nobody can tell any more which head found what; side by "
            "side, each keeps its columns, and W_O decides how they are added.",
        ),
        Misconception(
            "heads averaged",
            lambda heads: heads.mean(dim=1),
            "You take the mean of the heads, and a mean forgets who said what: that is what several "
            "heads are to mend. Put them side by side.",
        ),
        Misconception(
            "not merged",
            lambda heads: heads.transpose(1, 2),
            "The order is right: (batch, position, head, d_head). Now make one axis of the last two: "
            "`.flatten(2)`.",
        ),
        Misconception(
            "positions and heads merged",
            lambda heads: heads.flatten(1, 2),
            "You merged head and position: one head's tokens follow the other's. Merged are head and "
            "d_head, the columns of one token.",
        ),
        Misconception(
            "transposed, and the wrong axes merged",
            lambda heads: heads.transpose(1, 2).flatten(1, 2),
            "The transposition is right, and then position and head are merged. Merge the last two axes: "
            "`.flatten(2)`.",
        ),
        Misconception(
            "merged without a transposition",
            lambda heads: heads.flatten(2),
            "Without the transposition the last two axes are position and d_head. Bring position "
            "forward first: `transpose(1, 2)`.",
        ),
    ),
    hints=(
        "Undo `split_heads` step by step, in the opposite order.",
        "`heads.transpose(1, 2)` is (batch, position, head, d_head). `.flatten(2)` makes one axis of all "
        "from axis 2 on.",
    ),
    why="First the axes go back to the order in which a token's columns are to lie, then the last two "
    "are read as one. `flatten` copies here, which `view` would refuse.",
)


# Wrong ways to attend


def _parts(layer, x, split=split_heads):
    return tuple(split(part(x), layer.n_heads) for part in (layer.query, layer.key, layer.value))


def _layer(forward):
    """The solution with another forward."""
    return type("MultiHeadAttention", (MultiHeadAttention,), {"forward": forward})


def _with(split=split_heads, merge=merge_heads):
    """The solution with another way to split, or to merge."""

    def forward(self, x, may_attend):
        output, _ = masked_attention(*_parts(self, x, split), may_attend)
        return self.output(merge(output))

    return _layer(forward)


def _merge_by_reshape(heads):
    return heads.reshape(heads.shape[0], heads.shape[2], -1)


def _merge_interleaved(heads):
    return heads.permute(0, 2, 3, 1).flatten(2)


def _masked_by(change):
    """The solution with another mask."""
    return _layer(
        lambda self, x, may_attend: self.output(
            merge_heads(masked_attention(*_parts(self, x), change(may_attend))[0])
        )
    )


def _always_causal(may_attend):
    return torch.ones_like(may_attend).tril()


def _without_output(self, x, may_attend):
    return merge_heads(masked_attention(*_parts(self, x), may_attend)[0])


def _one_wide_head(self, x, may_attend):
    return self.output(masked_attention(self.query(x), self.key(x), self.value(x), may_attend)[0])


def _scaled_by_d_model(self, x, may_attend):
    query, key, value = _parts(self, x)
    return self.output(
        merge_heads(masked_attention(query / math.sqrt(self.n_heads), key, value, may_attend)[0])
    )


def _scaled_twice(self, x, may_attend):
    query, key, value = _parts(self, x)
    query = query / math.sqrt(query.shape[-1])
    return self.output(merge_heads(masked_attention(query, key, value, may_attend)[0]))


def _swapped(self, x, may_attend):
    query, key, value = _parts(self, x)
    return self.output(merge_heads(masked_attention(key, query, value, may_attend)[0]))


def _not_projected(self, x, may_attend):
    heads = split_heads(x, self.n_heads)
    return self.output(merge_heads(masked_attention(heads, heads, heads, may_attend)[0]))


def _values_not_projected(self, x, may_attend):
    query, key, _ = _parts(self, x)
    heads = split_heads(x, self.n_heads)
    return self.output(merge_heads(masked_attention(query, key, heads, may_attend)[0]))


def _keys_as_values(self, x, may_attend):
    query, key, _ = _parts(self, x)
    return self.output(merge_heads(masked_attention(query, key, key, may_attend)[0]))


def _values_as_keys(self, x, may_attend):
    query, key, value = _parts(self, x)
    return self.output(merge_heads(masked_attention(query, value, key, may_attend)[0]))


def _glued_to_nothing(self, x, may_attend):
    output, _ = masked_attention(*_parts(self, x), may_attend)
    return self.output(output.transpose(1, 2))


def _whole_width_each(self, x, may_attend):
    parts = (self.query(x), self.key(x), self.value(x))
    found = [masked_attention(*parts, may_attend)[0] for _ in range(self.n_heads)]
    return self.output(torch.cat(found, dim=-1))


def _output_for_each_head(self, x, may_attend):
    output, _ = masked_attention(*_parts(self, x), may_attend)
    pieces = torch.zeros_like(output).unsqueeze(1).repeat(1, self.n_heads, 1, 1, 1)
    for head in range(self.n_heads):
        pieces[:, head, head] = output[:, head]
    return sum(self.output(merge_heads(piece)) for piece in pieces.unbind(dim=1))


def _with_weights(self, x, may_attend):
    output, weights = masked_attention(*_parts(self, x), may_attend)
    return self.output(merge_heads(output)), weights


def _weights_not_unpacked(self, x, may_attend):
    return self.output(merge_heads(masked_attention(*_parts(self, x), may_attend)))


def _with_residual(self, x, may_attend):
    return x + MultiHeadAttention.forward(self, x, may_attend)


def _averaged(self, x, may_attend):
    return self.output(masked_attention(*_parts(self, x), may_attend)[0].mean(dim=1))


def _added_before_output(self, x, may_attend):
    output, _ = masked_attention(*_parts(self, x), may_attend)
    merged = merge_heads(output)
    return self.output(merged) + merged


def _split_first(self, x, may_attend):
    heads = split_heads(x, self.n_heads)
    parts = (part(heads) for part in (self.query, self.key, self.value))
    return self.output(merge_heads(masked_attention(*parts, may_attend)[0]))


def _queries_only(self, x, may_attend):
    query = split_heads(self.query(x), self.n_heads)
    return self.output(merge_heads(masked_attention(query, query, query, may_attend)[0]))


def _masked_with_zero(self, x, may_attend):
    query, key, value = _parts(self, x)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~may_attend, 0).softmax(dim=-1)
    return self.output(merge_heads(weights @ value))


HEADS = Exercise(
    id="05.heads",
    title="Multi-head attention",
    stars=3,
    minutes=8,
    solution=MultiHeadAttention,
    cases=_layer_cases,
    call=_run_layer,
    shown=_layer_of,
    misconceptions=(
        Misconception(
            "split by view",
            _with(split=_by_view),
            "Query, key and value were cut with `view` or `reshape` straight into (batch, head, position, "
            "d_head), without a transposition. The shapes fit, and row i of a head is no longer token i: "
            "it holds pieces of other tokens, later ones among them. Use `split_heads`.",
        ),
        Misconception(
            "split and merged by view",
            _with(split=_by_view, merge=_merge_by_reshape),
            "You cut and glue with `view` or `reshape` alone. The two undo each other, and still the heads "
            "in between hold pieces of several tokens, so attention mixes what the mask should keep "
            "apart. Use `split_heads` and `merge_heads`.",
        ),
        Misconception(
            "merged by reshape",
            _with(merge=_merge_by_reshape),
            "The heads are right; glued together with `reshape` alone, their rows get into other tokens. "
            "Transpose back first: `merge_heads`.",
        ),
        Misconception(
            "heads interleaved",
            _with(split=_interleaved, merge=_merge_interleaved),
            "Your head 0 is made of every n_heads-th column. Trained from the start such a layer would do as "
            "well, but weights trained with one layout are wrong in the other. Here, as nearly everywhere, "
            "a head is d_head neighbouring columns: use `split_heads` and `merge_heads`.",
        ),
        Misconception(
            "W_O forgotten",
            _layer(_without_output),
            "The heads are right and side by side; they have still to go through `self.output`, W_O. Without it "
            "a head could write into its own columns only.",
        ),
        Misconception(
            "mask ignored",
            _masked_by(lambda may_attend: None),
            "`may_attend` is not used, so tokens read what they must not. Pass it on to `masked_attention`; the "
            "same mask serves every head.",
        ),
        Misconception(
            "mask turned round",
            _masked_by(lambda may_attend: ~may_attend),
            "The mask is turned round. In this course True means *may attend*, and `masked_attention` takes it as "
            "it is. (PyTorch's `nn.MultiheadAttention` means the opposite.)",
        ),
        Misconception(
            "always causal",
            _masked_by(_always_causal),
            "You use a causal mask whatever comes. Which keys may be read is the caller's choice: pass "
            "`may_attend` on.",
        ),
        Misconception(
            "scaled by d_model",
            _layer(_scaled_by_d_model),
            "Your scores are divided by √d_model. A head's queries and keys have d_head entries, and "
            "√d_head is the spread to undo (lesson 03). `masked_attention` takes it from the queries that it gets.",
        ),
        Misconception(
            "scaled twice",
            _layer(_scaled_twice),
            "Your scores are divided by √d_head twice, that is by d_head: `masked_attention` does it itself. "
            "Give it the queries as they are.",
        ),
        Misconception(
            "one wide head",
            _layer(_one_wide_head),
            "This is one wide head: nothing was split, so each token has one row of weights. Split "
            "query, key and value before attention and merge its output.",
        ),
        Misconception(
            "query and key swapped",
            _layer(_swapped),
            "Query and key have changed places. The token that reads asks with its query: `masked_attention(query, "
            "key, value, may_attend)`.",
        ),
        Misconception(
            "not projected",
            _layer(_not_projected),
            "You split x itself. Each head needs queries, keys and values of its own, made by `self.query`, "
            "`self.key` and `self.value`: first project, then split.",
        ),
        Misconception(
            "values not projected",
            _layer(_values_not_projected),
            "Queries and keys are right; the values are x itself. What a token passes on is made by "
            "`self.value`.",
        ),
        Misconception(
            "keys as values",
            _layer(_keys_as_values),
            "The mixture is one of keys. A key is what a token is found by; what it passes on comes from "
            "`self.value`.",
        ),
        Misconception(
            "keys and values swapped",
            _layer(_values_as_keys),
            "Key and value have changed places: `masked_attention(query, key, value, may_attend)`. Scores come "
            "from query and key, and it is the values that are mixed.",
        ),
        Misconception(
            "brought back, not glued",
            _layer(_glued_to_nothing),
            "`transpose(1, 2)` is right, and then each head on its own, d_head wide, goes into `self.output`, which "
            "takes d_model. The heads have to be one axis first: `merge_heads` does both.",
        ),
        Misconception(
            "every head the whole width",
            _layer(_whole_width_each),
            "Every head gets the whole of query, key and value, so all do the same, and side by side they are "
            "n_heads · d_model wide. A head gets its own d_head columns: `split_heads`.",
        ),
        Misconception(
            "W_O's bias once a head",
            _layer(_output_for_each_head),
            "You send each head through `self.output` and add up. The matrices are right (it is a sum over heads), "
            "but `self.output` adds its bias each time, n_heads times in all. Merge first, then `self.output` once.",
        ),
        Misconception(
            "weights returned too",
            _layer(_with_weights),
            "The output is right. Return it alone: a layer whose output has the shape of its input can be "
            "stacked.",
        ),
        Misconception(
            "output and weights not told apart",
            _layer(_weights_not_unpacked),
            "`masked_attention` returns two things, output and weights, and `merge_heads` got both. Take the first: "
            "`output, _ = masked_attention(…)`.",
        ),
        Misconception(
            "input added",
            _layer(_with_residual),
            "You add x to the output. That will be a good idea, and lesson 08 does it outside of this "
            "layer; here the attention alone is asked for.",
        ),
        Misconception(
            "merged heads added",
            _layer(_added_before_output),
            "You add the merged heads to what W_O makes of them. The output of W_O alone is asked for.",
        ),
        Misconception(
            "heads averaged",
            _layer(_averaged),
            "You average or add up the heads, which leaves d_head columns and mixes what the heads were to "
            "keep apart. Put them side by side: `merge_heads`.",
        ),
        Misconception(
            "a head in a wide layer",
            _layer(_split_first),
            "A head has d_head columns, and the four `nn.Linear` take d_model. So project x first and then "
            "split; and put the heads side by side, along the last axis, before `self.output`: `merge_heads`.",
        ),
        Misconception(
            "one projection for all three",
            _layer(_queries_only),
            "Query, key and value are all made by `self.query`. Each role has a layer of its own: what a token "
            "looks for is not what it offers, nor what it passes on.",
        ),
        Misconception(
            "masked with 0",
            _layer(_masked_with_zero),
            "Scores that are masked with 0 still get weight: e⁰ is 1. Lesson 04 puts −inf there, and "
            "`masked_attention` does so for you.",
        ),
        Misconception(
            "heads not brought forward",
            _with(
                split=lambda x, n_heads: x.unflatten(-1, (n_heads, -1)),
                merge=lambda h: h.flatten(2),
            ),
            "The heads stand behind the positions, so attention compares the heads of one token with each "
            "other, and the mask does not fit. `split_heads` brings the heads forward.",
        ),
    ),
    hints=(
        "In `__init__`: `super().__init__()`, keep n_heads, and make four `nn.Linear(d_model, d_model)` named "
        "query, key, value, output. One matrix for each role serves all heads: its columns are dealt out.",
        "In `forward`, in this order: project, split, attend, merge, `self.output`. You have `split_heads` and "
        "`merge_heads`.",
        "`masked_attention(query, key, value, may_attend)` takes (batch, head, position, d_head) as it is, and returns "
        "output and weights.",
    ),
    why="Project, split, attend, merge, and W_O. No loop over heads: batch and head are axes in front, over "
    "which the matrix products repeat. The mask (query, key) is the same for each head and is repeated "
    "likewise.",
)

COUNT = Exercise(
    id="05.count",
    title="What do eight heads weigh?",
    stars=1,
    minutes=3,
    solution=value("answer = 4 * (512 * 512 + 512)"),
    misconceptions=(
        Misconception(
            "without biases",
            4 * 512 * 512,
            "That is right for the paper's layer, which has matrices only. An `nn.Linear` adds a bias, a "
            "constant for each of its 512 outputs: four times 512 more.",
        ),
        Misconception(
            "W_O forgotten",
            3 * (512 * 512 + 512),
            "These are query, key and value. The fourth matrix is W_O, `output`.",
        ),
        Misconception(
            "W_O and biases forgotten",
            3 * 512 * 512,
            "Query, key and value without their biases. `output` is missing too, and each `nn.Linear` has 512 "
            "biases.",
        ),
        Misconception(
            "times eight",
            8 * 4 * (512 * 512 + 512),
            "You gave each head four full matrices. The heads share d_model among them: a head's queries have "
            "512 / 8 = 64 columns, and eight times 64 is 512 again.",
        ),
        Misconception(
            "times eight, without biases",
            8 * 4 * 512 * 512,
            "You gave each head four full matrices (and no biases). The heads share d_model among them: eight times "
            "64 columns are 512 again, in one matrix for each role.",
        ),
        Misconception(
            "times eight, but one W_O",
            (8 * 3 + 1) * (512 * 512 + 512),
            "You gave each head full matrices for query, key and value. A head's part has 64 columns, so the "
            "eight together fill one matrix of 512 × 512 for each role.",
        ),
        Misconception(
            "a head reads its own slice only",
            8 * 4 * (64 * 64 + 64),
            "You counted a 64 × 64 matrix for each head and role. A head *makes* 64 numbers, but it makes them "
            "from all 512 of the token: 512 × 64.",
        ),
        Misconception(
            "a single head's slice",
            4 * (64 * 64 + 64),
            "You counted four matrices of 64 × 64. The four `nn.Linear` of the layer go from 512 to 512.",
        ),
        Misconception(
            "one head",
            4 * (512 * 64 + 64),
            "That is one of the eight heads (and its W_O would be 64 × 512). The layer has all eight.",
        ),
        Misconception(
            "one head, without biases",
            4 * 512 * 64,
            "If you counted 4 · 512 · 64: that is one of the eight heads. If it was 8 · 4 · 64 · 64: a head makes "
            "64 numbers, but from all 512 of the token. And each `nn.Linear` has 512 biases.",
        ),
        Misconception(
            "no bias in W_O",
            4 * 512 * 512 + 3 * 512,
            "Nearly: the fourth `nn.Linear`, `output`, has 512 biases as well.",
        ),
        Misconception(
            "one matrix",
            512 * 512 + 512,
            "That is one `nn.Linear`. The layer has four: query, key, value, output.",
        ),
        Misconception(
            "one bias",
            4 * 512 * 512 + 512,
            "The matrices are right. Each of the four has a bias of 512 of its own.",
        ),
        Misconception(
            "two bytes or four",
            4 * 4 * (512 * 512 + 512),
            "That would be bytes, at four a number. Asked for are the parameters: how many numbers.",
        ),
    ),
    hints=(
        "How many matrices has the layer, and of which shape is each? Does n_heads occur in their shapes?",
        "`nn.Linear(512, 512)` has 512 · 512 weights and 512 biases. There are four of them.",
    ),
    why="Four linear layers from 512 to 512, with 512 biases each: 1,050,624 parameters. The number of heads "
    "does not occur. It says how the columns are dealt out, not how many there are.",
)


# Wrong ways to silence a head


def _change(change):
    """A deep copy of the layer in which `change(copy, slice of the head, …)` was done."""

    def silence(layer, head, n_heads):
        silenced = copy.deepcopy(layer)
        d_head = layer.output.in_features // n_heads
        with torch.no_grad():
            change(silenced, slice(head * d_head, (head + 1) * d_head), head, n_heads)
        return silenced

    return silence


def _rows(layer, columns, head, n_heads):
    layer.output.weight[columns] = 0


def _every_nth(layer, columns, head, n_heads):
    layer.output.weight[:, head::n_heads] = 0


def _counted_from_one(layer, columns, head, n_heads):
    width = columns.stop - columns.start
    layer.output.weight[:, (head - 1) * width : head * width] = 0


def _n_heads_wide(layer, columns, head, n_heads):
    layer.output.weight[:, head * n_heads : (head + 1) * n_heads] = 0


def _one_column(layer, columns, head, n_heads):
    layer.output.weight[:, head] = 0


def _no_query(layer, columns, head, n_heads):
    layer.query.weight[columns] = 0
    layer.query.bias[columns] = 0


def _query_weight(layer, columns, head, n_heads):
    layer.query.weight[columns] = 0


def _value_weight(layer, columns, head, n_heads):
    layer.value.weight[columns] = 0


def _value_columns(layer, columns, head, n_heads):
    layer.value.weight[:, columns] = 0


def _and_the_bias(layer, columns, head, n_heads):
    layer.output.weight[:, columns] = 0
    layer.output.bias[:] = 0


def _bias_part(layer, columns, head, n_heads):
    layer.output.weight[:, columns] = 0
    layer.output.bias[columns] = 0


def _all_of_it(layer, columns, head, n_heads):
    layer.output.weight[:] = 0


def _only_this(layer, columns, head, n_heads):
    kept = layer.output.weight[:, columns].clone()
    layer.output.weight[:] = 0
    layer.output.weight[:, columns] = kept


def _rows_and_bias(layer, columns, head, n_heads):
    layer.output.weight[columns] = 0
    layer.output.bias[columns] = 0


def _from_here_on(layer, columns, head, n_heads):
    layer.output.weight[:, columns.start :] = 0


def _up_to_here(layer, columns, head, n_heads):
    layer.output.weight[:, : columns.stop] = 0


def _ends_at_the_width(layer, columns, head, n_heads):
    layer.output.weight[:, columns.start : columns.stop - columns.start] = 0


def _begins_at_head(layer, columns, head, n_heads):
    layer.output.weight[:, head : head + columns.stop - columns.start] = 0


def _nothing(layer, columns, head, n_heads):
    layer.output.weight[:, columns] * 0


def _others_louder(layer, columns, head, n_heads):
    layer.output.weight[:, columns] = 0
    layer.output.weight *= n_heads / (n_heads - 1)


def _in_place(layer, head, n_heads):
    d_head = layer.output.in_features // n_heads
    with torch.no_grad():
        layer.output.weight[:, head * d_head : (head + 1) * d_head] = 0
    return layer


def _with_gradients_on(layer, head, n_heads):
    silenced = copy.deepcopy(layer)
    d_head = layer.output.in_features // n_heads
    silenced.output.weight[:, head * d_head : (head + 1) * d_head] = 0
    return silenced


WITHOUT = Exercise(
    id="05.ablate",
    title="Silence a head",
    stars=2,
    minutes=5,
    solution=without_head,
    cases=_silence_cases,
    call=_silence,
    shown=_silenced_of,
    misconceptions=(
        Misconception(
            "rows of W_O",
            _change(_rows),
            "You set *rows* of `output.weight` to 0. An `nn.Linear` keeps its weight as (out, in): rows are "
            "what it puts out, columns what comes in, and it is the merged heads that come in. As it is, a "
            "piece of every token's output is missing, of all heads: `weight[:, …]`.",
        ),
        Misconception(
            "rows and bias of W_O",
            _change(_rows_and_bias),
            "You set *rows* of `output.weight`, and their biases, to 0: a piece of every token's output, of all "
            "heads. An `nn.Linear` keeps its weight as (out, in), so what comes *in*, the merged heads, meets its "
            "columns: `weight[:, …]`. The bias belongs to no head.",
        ),
        Misconception(
            "the layer itself changed",
            _in_place,
            "The head is silent, and in the layer you were given too, so it cannot be compared with itself any "
            "more. (`copy.copy` shares the weights with the original.) Work on a `copy.deepcopy(layer)`.",
        ),
        Misconception(
            "every n_heads-th column",
            _change(_every_nth),
            "You set every n_heads-th column to 0. A head is d_head neighbouring columns: `head * d_head` to "
            "`(head + 1) * d_head`.",
        ),
        Misconception(
            "counted from 1",
            _change(_counted_from_one),
            "You silence the head before. Heads are counted from 0: head 0 has the first d_head columns.",
        ),
        Misconception(
            "from this head on",
            _change(_from_here_on),
            "This head is silent, and all heads after it too. Its columns end at `(head + 1) * d_head`.",
        ),
        Misconception(
            "up to this head",
            _change(_up_to_here),
            "This head is silent, and all heads before it too. Its columns begin at `head * d_head`.",
        ),
        Misconception(
            "the end of the slice",
            _change(_ends_at_the_width),
            "Right for head 0 only. `[:, head * d_head : d_head]` is empty for all others: the second number of a "
            "slice says where it ends, `(head + 1) * d_head`, and not how long it is.",
        ),
        Misconception(
            "begins at column head",
            _change(_begins_at_head),
            "Right for head 0 only: you begin at column `head`. Head 1 begins where head 0 ends, so begin at "
            "`head * d_head`.",
        ),
        Misconception(
            "nothing silenced",
            _change(_nothing),
            "The copy still does all that the layer does. `weight[…] * 0` makes a new tensor and leaves the weight "
            "alone; to write into it, say `weight[…] = 0`. And it is the copy's weight that should change.",
        ),
        Misconception(
            "the others louder",
            _change(_others_louder),
            "The head is silent, and you made the others louder in turn, as dropout would. Here we ask what is lost "
            "when nobody steps in: leave the others as they are.",
        ),
        Misconception(
            "n_heads columns",
            _change(_n_heads_wide),
            "You set n_heads columns to 0. A head is d_head wide, `layer.output.in_features // n_heads`.",
        ),
        Misconception(
            "one column",
            _change(_one_column),
            "You set one column to 0. A head has d_head of them: `head * d_head` to `(head + 1) * d_head`.",
        ),
        Misconception(
            "queries or keys silenced",
            _change(_no_query),
            "With queries of zeros, or keys that are all alike, all scores of a row are equal, and a softmax makes "
            "equal weights of them: the head now reads everything alike, and still passes on what it read. Cut what "
            "it *adds*: its columns of "
            "`output.weight`.",
        ),
        Misconception(
            "query weights silenced",
            _change(_query_weight),
            "You silence the head's part of `query.weight`. Its query is now the same for every token, and the head "
            "still reads and passes on. Cut what it *adds*: its columns of `output.weight`.",
        ),
        Misconception(
            "value weights, not their biases",
            _change(_value_weight),
            "The head's values no longer depend on the tokens, but their bias is left, so the head still adds a "
            "constant. Either set that bias to 0 too, or cut the head's columns of `output.weight`.",
        ),
        Misconception(
            "columns of the values",
            _change(_value_columns),
            "You set columns of `value.weight` to 0: a part of what comes *in*, for all heads. A head's values are "
            "rows there. What it adds are its columns of `output.weight`.",
        ),
        Misconception(
            "the bias of W_O too",
            _change(_and_the_bias),
            "The head's columns are cut, and the bias of `output` is gone too. That constant belongs to no head: "
            "leave it.",
        ),
        Misconception(
            "a part of W_O's bias too",
            _change(_bias_part),
            "The head's columns are cut; leave the bias of `output` alone. Its entries are those of the output, "
            "and belong to no head.",
        ),
        Misconception(
            "all heads",
            _change(_all_of_it),
            "You silenced all heads. One head's part of `output.weight` is d_head columns.",
        ),
        Misconception(
            "the others",
            _change(_only_this),
            "You silenced all heads but this one. That answers another question (what can it do alone?); here the "
            "others go on.",
        ),
        Misconception(
            "gradients on",
            _with_gradients_on,
            "PyTorch keeps watch over parameters for the sake of gradients, and does not let them be changed in "
            "place. Put the change under `with torch.no_grad():`.",
        ),
    ),
    hints=(
        "A head speaks through W_O alone. Merged, the heads lie side by side; which of the numbers that come into "
        "`layer.output` are those of head 1?",
        "`copy.deepcopy(layer)` first. Head 1 is columns d_head to 2·d_head − 1 of `output.weight` (out, in).",
        "Under `with torch.no_grad():`, `silenced.output.weight[:, head * d_head : (head + 1) * d_head] = 0`.",
    ),
    why="What a layer adds is the sum of what its heads add, each through its own columns of W_O. With these at 0 the "
    "head may read what it likes; nobody hears of it. The others are untouched.",
)

EXERCISES = (SPLIT, MERGE, HEADS, COUNT, WITHOUT)

QUIZ = (
    Question(
        "Why several heads, when one wide head has as many parameters?",
        (
            Choice(
                "Because each head has a row of weights of its own, so a token can read several places for several reasons "
                "and keep apart what it found.",
                True,
                "One head has one row that sums to 1; what it reads in two places it hands on as one mixture.",
            ),
            Choice(
                "Because more heads have more parameters, and these learn more.",
                False,
                "They have exactly as many: four matrices of d_model × d_model, whatever the number of heads.",
            ),
            Choice(
                "Because several heads need much less arithmetic.",
                False,
                "The matrix products cost the same. Only the softmax grows, since there is one matrix of weights a head.",
            ),
            Choice(
                "Because the heads are told beforehand what to look for, each something else.",
                False,
                "Nobody tells them. They start from different random numbers, and training does the rest; several may "
                "end up doing the same.",
            ),
        ),
    ),
    Question(
        "A layer splits with x.view(batch, n_heads, position, d_head) and no transpose. What happens?",
        (
            Choice(
                "An error: the shapes do not fit.",
                False,
                "They fit everywhere, and this is what makes the mistake so costly.",
            ),
            Choice(
                "It runs, and row i of a head holds pieces of other tokens than token i.",
                True,
                "`view` cuts the numbers in the order in which they lie. Under a causal mask the future leaks in.",
            ),
            Choice(
                "Nothing bad: the heads are another, equally good choice of columns.",
                False,
                "That would be true of interleaved columns. Here whole tokens get mixed up, and with them who reads whom.",
            ),
        ),
    ),
    Question(
        "d_model = 512. We go from 8 heads of 64 to 16 heads of 32. What changes?",
        (
            Choice(
                "Each score is a dot product of 32 terms, and is divided by √32.",
                True,
                "The scale belongs to the length of a head's queries, d_head.",
            ),
            Choice(
                "Each head now reads a part of the text only.",
                False,
                "Each head reads every position. What is divided among the heads is the width of the vectors.",
            ),
            Choice(
                "The number of parameters doubles.",
                False,
                "W_Q, W_K, W_V and W_O are 512 × 512 as before; their columns are dealt out in another way.",
            ),
            Choice(
                "There are twice as many weights of attention to compute and to keep.",
                True,
                "One n × n matrix a head: 16 in place of 8. It is the part that grows with the number of heads.",
            ),
        ),
    ),
    Question(
        "What does W_O do?",
        (
            Choice(
                "It makes the weights of the heads sum to 1.",
                False,
                "The softmax has done that, in each head and row.",
            ),
            Choice(
                "It chooses which head is right for this token.",
                False,
                "It is the same matrix for all tokens and weighs nothing by content. A head that has nothing to say has to "
                "see to that itself, by reading a token with an empty value.",
            ),
            Choice(
                "It brings the heads' outputs, side by side, together: each head's d_head numbers are turned into d_model "
                "numbers, and these are added up.",
                True,
                "Concat · W_O is a sum over heads, each with its own rows of W_O; that is why a head can be taken out alone.",
            ),
        ),
    ),
    Question(
        "In some large model you silence one head, and the loss hardly moves. What follows?",
        (
            Choice(
                "The head does nothing.",
                False,
                "It may do what another head does as well, so that neither is missed alone; or it may matter for texts "
                "that were not measured.",
            ),
            Choice(
                "The model could as well have been trained without this head.",
                False,
                "That is another experiment. What training needs and what the finished model needs are different questions.",
            ),
            Choice(
                "On these texts, the model as it is can do without this head.",
                True,
                "That is what was measured, and no more. Michel et al. (2019) found it to be true of many heads, one at a time.",
            ),
        ),
    ),
)
