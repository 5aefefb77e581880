"""Exercises and quiz of lesson 07: rotary positions, their two layouts, and a longer context."""

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.model import positions as library


def position_angles(positions, d_head, base=10_000.0):
    """Radians by which each pair is turned: positions (position,) → (position, d_head/2), float32.

    Pair i = 0, 1, … d_head/2 − 1 at position m: m · base^(−2i/d_head). d_head is even.
    """
    exponents = torch.arange(0, d_head, 2) / d_head  # 2i/d_head, (pair,)
    return positions.float()[:, None] * base**-exponents


def rotate(heads, positions):
    """Heads with each pair of entries (i, i + d_head/2) turned by its angle at its position.

    heads: (batch, head, position, d_head), positions: (position,) → same shape and dtype.
    """
    angles = position_angles(positions, heads.shape[-1])  # (position, d_head/2)
    cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    a, b = heads.chunk(2, dim=-1)  # the halves: entry i of each makes pair i
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def to_half_split(rows, n_heads):
    """Rows of a query or key matrix, or its bias, from interleaved to half-split order.

    rows: (n_heads · d_head, …), in each head 0, 1, 2, 3 … of which 2i and 2i + 1 are pair i → the
    same rows, in each head first all even ones, then all odd ones: i and i + d_head/2 are pair i.
    """
    pairs = rows.unflatten(0, (n_heads, -1, 2))  # (head, pair, 2, …)
    return pairs.transpose(1, 2).flatten(0, 2)  # (head, 2, pair, …), and in one row again


def ntk_base(base, factor, d_head):
    """The base with which the slowest pair turns `factor` times as slowly as with `base`, a float.

    The fastest pair (i = 0) turns 1 radian a position with any base; the slowest is the last one.
    """
    return base * factor ** (d_head / (d_head - 2))


class _Even(list):
    """One tensor with an axis that has to be even, shown as its shape.

    The other arguments of a case have prime sizes, and the only even prime is 2: kept in a list, a
    tensor is not held to them. Its axes all differ all the same.
    """

    def __repr__(self):
        return str(tuple(self[0].shape))


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# angles


def _angle_cases():
    yield torch.tensor([0, 1, 2, 3, 4]), 6
    yield torch.tensor([5, 0, 3, 3, 40, 17, 2]), 10
    yield torch.tensor([257, 1001, 4099]), 26, 500.0
    yield torch.tensor([2, 9]), 4, 100.0


def _library_angles(positions, d_head, base=10_000.0):
    return library.rotary_angles(positions, library.rotary_frequencies(d_head, base))


def _by_frequency(frequencies):
    """Angles with other frequencies: `frequencies(pair numbers, d_head, base)`."""

    def angles(positions, d_head, base=10_000.0):
        return positions.float()[:, None] * frequencies(torch.arange(d_head // 2), d_head, base)

    return angles


def _transposed_angles(positions, d_head, base=10_000.0):
    return position_angles(positions, d_head, base).T


def _twice_angles(positions, d_head, base=10_000.0):
    angles = position_angles(positions, d_head, base)
    return torch.cat([angles, angles], dim=-1)


def _one_for_each_entry(positions, d_head, base=10_000.0):
    return positions.float()[:, None] * base ** -(torch.arange(d_head) / d_head)


def _pairwise_twice(positions, d_head, base=10_000.0):
    return position_angles(positions, d_head, base).repeat_interleave(2, dim=-1)


def _in_bfloat16(positions, d_head, base=10_000.0):
    frequencies = base ** -(torch.arange(0, d_head, 2) / d_head)
    return positions.bfloat16()[:, None] * frequencies.bfloat16()


def _bfloat16_and_back(positions, d_head, base=10_000.0):
    return _in_bfloat16(positions, d_head, base).float()


def _positions_rounded(positions, d_head, base=10_000.0):
    return position_angles(positions.bfloat16(), d_head, base)


def _double_angles(positions, d_head, base=10_000.0):
    return position_angles(positions, d_head, base).double()


def _own_base(positions, d_head, base=10_000.0):
    return position_angles(positions, d_head)


def _counted_anew(positions, d_head, base=10_000.0):
    return position_angles(torch.arange(len(positions)), d_head, base)


def _from_one(positions, d_head, base=10_000.0):
    return position_angles(positions + 1, d_head, base)


def _flat_product(positions, d_head, base=10_000.0):
    return positions.float() * base ** -(torch.arange(0, d_head, 2) / d_head)


def _cosines(positions, d_head, base=10_000.0):
    return position_angles(positions, d_head, base).cos()


ANGLES = Exercise(
    id="07.angles",
    title="How far each pair turns",
    stars=1,
    minutes=5,
    solution=position_angles,
    reference=_library_angles,
    cases=_angle_cases,
    misconceptions=(
        Misconception(
            "minus forgotten",
            _by_frequency(lambda i, d, base: base ** (2 * i / d)),
            "The minus of the exponent is missing, so your later pairs turn faster and faster, up "
            "to thousands of radians a position. They shall turn slower and slower: "
            "base^(**−**2i/d_head).",
        ),
        Misconception(
            "half the exponent",
            _by_frequency(lambda i, d, base: base ** -(i / d)),
            "Your exponents are i/d_head; the formula has 2i/d_head. With half of it the slowest "
            "pair is far too fast: the pairs share the range from 1 down to nearly 1/base among "
            "them.",
        ),
        Misconception(
            "divided by the number of pairs",
            _by_frequency(lambda i, d, base: base ** -(2 * i / (d // 2))),
            "Your exponents are twice as large: 2i over the number of *pairs*. It is 2i over "
            "d_head, which is the same as i over the number of pairs.",
        ),
        Misconception(
            "not divided by d_head",
            _by_frequency(lambda i, d, base: base ** -(2.0 * i)),
            "Your exponents are 0, −2, −4 …: the division by d_head is missing, and from the "
            "second pair on hardly anything turns.",
        ),
        Misconception(
            "one pair ahead",
            _by_frequency(lambda i, d, base: base ** -(2 * (i + 1) / d)),
            "You count the pairs from 1. Pair 0 turns by base⁰ = 1 radian a position.",
        ),
        Misconception(
            "down to one over the base",
            _by_frequency(lambda i, d, base: base ** -(i / max(1, d // 2 - 1))),
            "Your slowest pair turns by exactly 1/base. That is one way to share the range, and "
            "not the formula's: there the last pair has i = d_head/2 − 1, an exponent a little "
            "short of 1.",
        ),
        Misconception(
            "all alike",
            _by_frequency(lambda i, d, base: torch.ones(len(i))),
            "All your pairs turn by 1 radian a position. After 6.28 positions all would be back "
            "where they began, and far could not be told from near. Pair i is slower by "
            "base^(−2i/d_head).",
        ),
        Misconception(
            "evenly slower",
            _by_frequency(lambda i, d, base: 1 - 2 * i / d),
            "Your speeds fall in equal *steps*. In the formula they fall by an equal *factor*, so "
            "that there are pairs for short, middling and very long distances.",
        ),
        Misconception(
            "whole turns",
            _by_frequency(lambda i, d, base: 2 * torch.pi * base ** -(2 * i / d)),
            "Your angles are 2π times too large. The formula gives radians: pair 0 turns by 1 "
            "radian a position, about a sixth of a whole turn.",
        ),
        Misconception(
            "an angle for each entry",
            _one_for_each_entry,
            "You have d_head angles, one for each entry. The two entries of a pair turn together, "
            "by one angle, so there are d_head/2: `torch.arange(0, d_head, 2)` gives the 2i.",
        ),
        Misconception(
            "halves side by side",
            _twice_angles,
            "Your angles are right and stand there twice, side by side (some implementations need "
            "them so). Here each pair has one: (position, d_head/2).",
        ),
        Misconception(
            "each one twice",
            _pairwise_twice,
            "Your angles are right and each stands there twice, once for either entry of a pair. "
            "Here each pair has one: (position, d_head/2).",
        ),
        Misconception(
            "axes swapped",
            _transposed_angles,
            "Rows and columns are swapped: a row belongs to a position, a column to a pair. "
            "`positions[:, None]` makes a column of the positions.",
        ),
        Misconception(
            "positions not a column",
            _flat_product,
            "`positions * frequencies` pairs the first position with the first frequency, and so "
            "on, and fails where there are more of the one. Each position meets each frequency if "
            "one of them is a column: `positions[:, None]`.",
        ),
        Misconception(
            "bfloat16",
            _in_bfloat16,
            "Your angles are bfloat16, which has eight binary digits: position 257 is rounded to "
            "256, and two neighbours turn alike. Angles are kept in float32 even where the model "
            "is not.",
        ),
        Misconception(
            "bfloat16 and back",
            _bfloat16_and_back,
            "Your angles went through bfloat16, and `.float()` afterwards does not bring back "
            "what was rounded away: position 257 has become 256. Compute them in float32.",
        ),
        Misconception(
            "positions rounded",
            _positions_rounded,
            "Your positions went through bfloat16, where 257 is rounded to 256. Keep them whole "
            "numbers, or float32.",
        ),
        Misconception(
            "float64",
            _double_angles,
            "These are right, in double precision. Asked for is float32, which is exact enough "
            "and half the size: `positions.float()`.",
        ),
        Misconception(
            "base fixed",
            _own_base,
            "You use the base 10,000 whatever `base` is. The end of the lesson changes it.",
        ),
        Misconception(
            "counted anew",
            _counted_anew,
            "You count 0, 1, 2 … in place of the positions given. They need not begin at 0 or "
            "come in a row: when a text is written token by token (lesson 12), there is one, and "
            "it is the last.",
        ),
        Misconception(
            "counted from one",
            _from_one,
            "You add 1 to the positions. They are to be taken as they are; position 0 turns by "
            "nothing.",
        ),
        Misconception(
            "cosines already",
            _cosines,
            "These are the cosines. The angles themselves are asked for.",
        ),
    ),
    hints=(
        "First the speeds, one for each pair: `torch.arange(0, d_head, 2)` is 0, 2, 4 …, the 2i "
        "of the formula.",
        "`base ** -(torch.arange(0, d_head, 2) / d_head)` are the speeds, (pair,). What shape "
        "must the positions have so that each meets each speed?",
        "`positions.float()[:, None]` is a column, (position, 1). Column times row gives "
        "(position, pair).",
    ),
    why="An angle is position times speed. Pair 0 turns fastest, 1 radian a position; each next "
    "one is slower by the same factor. A column times a row gives all products at once.",
)


# rotate


def _rotate_cases():
    yield _Even([_random(2, 3, 5, 14)]), torch.arange(5)
    yield _Even([_random(1, 2, 7, 6, seed=1)]), torch.tensor([30, 4, 11, 4, 0, 2, 39])
    yield _Even([_random(3, 1, 2, 4, seed=2)]), torch.tensor([7, 8])
    trainable = _random(3, 2, 11, 10, seed=3).double().requires_grad_()
    yield _Even([trainable]), torch.arange(11) + 13


def _turned(answer, heads, positions):
    """What an answer makes of heads, which it gets without the list around them."""
    return answer(*heads, positions)


def _library_rotate(heads, positions):
    return library.RotaryPositions().rotate(heads, positions)


def _rotated(combine, angles=position_angles):
    """A version of rotate: `combine(first half, second half, cos, sin)`."""

    def rotate(heads, positions):
        turn = angles(positions, heads.shape[-1])
        cos, sin = turn.cos().to(heads.dtype), turn.sin().to(heads.dtype)
        return combine(*heads.chunk(2, dim=-1), cos, sin)

    return rotate


def _joined(a, b):
    return torch.cat([a, b], dim=-1)


def _interleaved(heads, positions, join=lambda a, b: torch.stack([a, b], dim=-1).flatten(-2)):
    angles = position_angles(positions, heads.shape[-1])
    cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    a, b = heads[..., 0::2], heads[..., 1::2]
    return join(a * cos - b * sin, b * cos + a * sin)


def _from_interleaved(heads, positions):
    return _interleaved(heads, positions, _joined)


def _layouts_mixed(heads, positions):
    angles = position_angles(positions, heads.shape[-1]).repeat_interleave(2, dim=-1)
    a, b = heads.chunk(2, dim=-1)
    return (heads * angles.cos() + torch.cat([-b, a], dim=-1) * angles.sin()).to(heads.dtype)


def _added(heads, positions):
    angles = position_angles(positions, heads.shape[-1])
    return heads + torch.cat([angles.sin(), angles.cos()], dim=-1).to(heads.dtype)


def _in_place(heads, positions):
    angles = position_angles(positions, heads.shape[-1])
    cos, sin = angles.cos().to(heads.dtype), angles.sin().to(heads.dtype)
    turned = heads.clone()
    a, b = turned.chunk(2, dim=-1)  # views: the next line changes a as well
    turned[..., : a.shape[-1]] = a * cos - b * sin
    turned[..., a.shape[-1] :] = b * cos + a * sin
    return turned


def _mirrored(heads, positions):
    angles = position_angles(positions, heads.shape[-1])
    cos, sin = torch.cat([angles, angles], -1).cos(), torch.cat([-angles, angles], -1).sin()
    return (heads * cos + heads.flip(-1) * sin).to(heads.dtype)


def _places_counted(heads, positions):
    return rotate(heads, torch.arange(len(positions)))


def _places_from_one(heads, positions):
    return rotate(heads, positions + 1)


def _along_heads(heads, positions):
    return rotate(heads.transpose(1, 2), positions).transpose(1, 2)


def _cut_off(heads, positions):
    return rotate(heads.detach(), positions)


ROTATE = Exercise(
    id="07.rotate",
    title="Turn every pair",
    stars=2,
    minutes=8,
    solution=rotate,
    reference=_library_rotate,
    cases=_rotate_cases,
    call=_turned,
    tolerance=1e-4,
    misconceptions=(
        Misconception(
            "neighbours paired",
            _interleaved,
            "You pair the neighbours, 2i with 2i + 1: the *interleaved* layout. It is as good as "
            "ours, and the paper's own, but the two do not mix, as this lesson will show. Here "
            "entry i goes with entry i + d_head/2: `heads.chunk(2, dim=-1)` gives the halves.",
        ),
        Misconception(
            "neighbours paired, halves joined",
            _from_interleaved,
            "You take the pairs from neighbours (2i, 2i + 1) and put them back as halves, so that "
            "entries change their places on the way. Take them from the halves: `heads.chunk(2, "
            "dim=-1)`.",
        ),
        Misconception(
            "halves taken, neighbours joined",
            _rotated(
                lambda a, b, cos, sin: torch.stack(
                    [a * cos - b * sin, b * cos + a * sin], dim=-1
                ).flatten(-2)
            ),
            "You take the pairs from the halves and put them back as neighbours, so that entries "
            "change their places on the way. Put the halves back side by side: `torch.cat([…, …], "
            "dim=-1)`.",
        ),
        Misconception(
            "two layouts mixed",
            _layouts_mixed,
            "Your sines and cosines are laid out for neighbours (each angle twice in a row), and "
            "your entries are exchanged by halves. So the two entries of a pair turn by different "
            "angles, which is no rotation. Use one layout for both: `torch.cat([angles, angles], "
            "dim=-1)`.",
        ),
        Misconception(
            "partner from the mirror",
            _mirrored,
            "`flip` mirrors the whole head, so that entry i meets entry d_head − 1 − i. Its "
            "partner is entry i + d_head/2: exchange the halves without turning them round, "
            "`heads.roll(d_head // 2, dims=-1)`.",
        ),
        Misconception(
            "turned backwards",
            _rotated(lambda a, b, cos, sin: _joined(a * cos + b * sin, b * cos - a * sin)),
            "You turn clockwise: the signs of the two sines are exchanged. The scores would still "
            "depend on the distance alone, but no weights trained the usual way round would fit: "
            "(a, b) → (a cos − b sin, b cos + a sin).",
        ),
        Misconception(
            "first entry twice",
            _rotated(lambda a, b, cos, sin: _joined(a * cos - b * sin, a * cos + b * sin)),
            "Your second half is a cos + b sin. There the two entries change parts: b goes with the "
            "cosine and a with the sine, b cos + a sin.",
        ),
        Misconception(
            "entries exchanged",
            _rotated(lambda a, b, cos, sin: _joined(b * cos - a * sin, a * cos + b * sin)),
            "a and b have changed places. a is the first half, and at position 0, where the cosine is 1 "
            "and the sine 0, nothing may move: a cos − b sin first, then b cos + a sin.",
        ),
        Misconception(
            "both signs plus",
            _rotated(lambda a, b, cos, sin: _joined(a * cos + b * sin, b * cos + a * sin)),
            "Both your sines have a plus. Then a vector changes its length, and it is no "
            "rotation: the first entry needs a minus, a cos **−** b sin.",
        ),
        Misconception(
            "both signs minus",
            _rotated(lambda a, b, cos, sin: _joined(a * cos - b * sin, b * cos - a * sin)),
            "Both your sines have a minus. Then a vector changes its length, and it is no "
            "rotation: the second entry needs a plus, b cos **+** a sin.",
        ),
        Misconception(
            "sine and cosine exchanged",
            _rotated(lambda a, b, cos, sin: _joined(a * sin - b * cos, b * sin + a * cos)),
            "Sine and cosine are exchanged. At position 0 the angle is 0, and nothing may change: "
            "the entry itself goes with the cosine, which is 1 there.",
        ),
        Misconception(
            "first half used after it was changed",
            _in_place,
            "Your second half is computed from a first half that has been overwritten already: "
            "slices and chunks are views of the same memory. Compute both new halves first, then "
            "put them together.",
        ),
        Misconception(
            "only stretched",
            _rotated(lambda a, b, cos, sin: _joined(a * cos, b * cos)),
            "You multiply by the cosine alone, which makes entries shorter. In a turn each entry "
            "also takes from its partner: a cos − b sin, b cos + a sin.",
        ),
        Misconception(
            "no partner",
            _rotated(lambda a, b, cos, sin: _joined(a * cos - a * sin, b * cos + b * sin)),
            "Each entry is mixed with itself. In a turn it takes from its *partner*: "
            "a cos − **b** sin, b cos + **a** sin.",
        ),
        Misconception(
            "halves in the other order",
            _rotated(lambda a, b, cos, sin: _joined(b * cos + a * sin, a * cos - b * sin)),
            "Both halves are right and stand in the other order: first a cos − b sin, then b cos "
            "+ a sin.",
        ),
        Misconception(
            "added",
            _added,
            "You *add* sines and cosines, as the sinusoidal positions of lesson 06 do to "
            "embeddings. Here queries and keys are turned: a cos − b sin, b cos + a sin.",
        ),
        Misconception(
            "all pairs alike",
            _rotated(
                lambda a, b, cos, sin: _joined(a * cos - b * sin, b * cos + a * sin),
                _by_frequency(lambda i, d, base: torch.ones(len(i))),
            ),
            "All your pairs turn at the same speed, 1 radian a position. Pair i turns by "
            "`position_angles(positions, d_head)[:, i]`.",
        ),
        Misconception(
            "half the exponent",
            _rotated(
                lambda a, b, cos, sin: _joined(a * cos - b * sin, b * cos + a * sin),
                _by_frequency(lambda i, d, base: base ** -(i / d)),
            ),
            "Your turning is right and the speeds are not: base^(−i/d_head) in place of "
            "base^(−2i/d_head). `position_angles` gives the right ones.",
        ),
        Misconception(
            "width of a half",
            _rotated(
                lambda a, b, cos, sin: _joined(a * cos - b * sin, b * cos + a * sin),
                _by_frequency(lambda i, d, base: base ** -(2 * i / (d // 2))),
            ),
            "Your speeds are those of a head half as wide: d_head is the whole last axis, "
            "`heads.shape[-1]`.",
        ),
        Misconception(
            "positions counted anew",
            _places_counted,
            "You count 0, 1, 2 … in place of the positions given. Tokens need not begin at 0 or "
            "come in a row: use `positions`.",
        ),
        Misconception(
            "positions from one",
            _places_from_one,
            "You add 1 to the positions. The scores would not notice (why?), but position 0 is to "
            "turn by nothing.",
        ),
        Misconception(
            "along the heads",
            _along_heads,
            "You turn along the axis of the heads. The axes are (batch, head, position, d_head): "
            "angles of shape (position, d_head/2) fit the last two as they are.",
        ),
        Misconception(
            "nothing turned",
            lambda heads, positions: heads.clone(),
            "These are the heads as they came. Turn each pair by its angle.",
        ),
        Misconception(
            "gradient cut",
            _cut_off,
            "The numbers are right, but `.detach()` cuts the way back on which gradients flow, "
            "and nothing before it would learn.",
        ),
    ),
    hints=(
        "`angles = position_angles(positions, heads.shape[-1])` is (position, d_head/2). Take its "
        "cosine and sine; they fit the last two axes of half a head as they are.",
        "`a, b = heads.chunk(2, dim=-1)` gives the two halves: entry i of a and entry i of b are "
        "pair i.",
        "The new halves are a cos − b sin and b cos + a sin. `torch.cat([…, …], dim=-1)` puts "
        "them side by side.",
    ),
    why="Entry i of the first half and entry i of the second are the two coordinates of pair i, "
    "so four products of halves turn all pairs of all heads at once. Position 0 is left as it is, "
    "and lengths never change.",
)


# convert


def _convert_cases():
    yield _Even([_random(3 * 10, 7)]), 3
    yield _Even([_random(2 * 14, 3, seed=1)]), 2
    yield _Even([_random(5 * 4, seed=2)]), 5  # a bias
    yield _Even([_random(1 * 6, 5, seed=3)]), 1
    yield _Even([_random(2 * 6, 11, seed=4).double()]), 2  # weights, to be moved as they are


def _converted(answer, rows, n_heads):
    """What an answer makes of rows, which it gets without the list around them."""
    return answer(*rows, n_heads)


def _by_order(order):
    """A version of to_half_split: `order(d_head)` says which row of a head comes where."""

    def convert(rows, n_heads):
        d_head = len(rows) // n_heads
        starts = torch.arange(n_heads)[:, None] * d_head
        return rows[(starts + order(d_head)).flatten()]

    return convert


def _evens_then_odds(d_head):
    return torch.arange(d_head).view(-1, 2).T.flatten()


def _first_head_for_all(rows, n_heads):
    return rows[_evens_then_odds(len(rows) // n_heads).repeat(n_heads)]


def _columns(rows, n_heads):
    return rows[:, _evens_then_odds(rows.shape[-1])]


def _for_matrices_only(rows, n_heads):
    pairs = rows.reshape(n_heads, -1, 2, rows.shape[1])
    return pairs.transpose(1, 2).reshape(rows.shape)


def _not_flattened(rows, n_heads):
    return rows.unflatten(0, (n_heads, -1, 2)).transpose(1, 2)


def _on_its_side(rows, n_heads):
    return to_half_split(rows, n_heads).t()  # a bias stays as it is


def _heads_as_width(rows, n_heads):
    return to_half_split(rows, len(rows) // n_heads // 2)


CONVERT = Exercise(
    id="07.convert",
    title="From one layout to the other",
    stars=2,
    minutes=7,
    solution=to_half_split,
    cases=_convert_cases,
    call=_converted,
    misconceptions=(
        Misconception(
            "heads forgotten",
            lambda rows, n_heads: torch.cat([rows[0::2], rows[1::2]]),
            "You sort the whole matrix at once, so that the heads are torn apart: its first half "
            "holds the even rows of all of them. Each head has its own d_head rows, and each is "
            "sorted by itself.",
        ),
        Misconception(
            "the other way round",
            _by_order(lambda d: torch.arange(d).view(2, -1).T.flatten()),
            "This goes from half-split to interleaved, the way back. Yours puts row i + d_head/2 "
            "behind row i; wanted are first all even rows, then all odd ones.",
        ),
        Misconception(
            "reshaped only",
            lambda rows, n_heads: rows.clone(),
            "Nothing has moved. `view` and `reshape` cut anew in reading order, there and back; "
            "it takes a `transpose` between them to bring row 2 next to row 0.",
        ),
        Misconception(
            "odd rows first",
            _by_order(lambda d: torch.arange(d).view(-1, 2).flip(1).T.flatten()),
            "Your odd rows come first. Row 2i is the first coordinate of pair i, so the even rows "
            "are the first half. (Exchanged, every pair would turn backwards.)",
        ),
        Misconception(
            "halves exchanged as blocks",
            _by_order(lambda d: torch.arange(d).roll(d // 2)),
            "You exchange the two halves of each head. The rows to be gathered are the even ones: "
            "0, 2, 4 …",
        ),
        Misconception(
            "columns",
            _columns,
            "You reorder the columns. A column belongs to an entry of the token's vector, which "
            "has no pairs; a *row* of the matrix makes one entry of a query or key.",
        ),
        Misconception(
            "first head for all",
            _first_head_for_all,
            "Every head got the rows of the first one. The order within a head is right; to find "
            "head h's rows, add h · d_head.",
        ),
        Misconception(
            "matrices only",
            _for_matrices_only,
            "Right for a matrix, but a bias has no second axis. `rows.unflatten(0, (n_heads, -1, "
            "2))` splits the first axis and leaves what comes after it alone, whether it is there "
            "or not.",
        ),
        Misconception(
            "left in pieces",
            _not_flattened,
            "The order is right and the shape is not: the first axis is still split in three. "
            "`.flatten(0, 2)` makes one of them again.",
        ),
        Misconception(
            "on its side",
            _on_its_side,
            "The order is right, but your matrix lies on its side. PyTorch's `nn.Linear` keeps "
            "(output, input), so the rows are where queries come from: leave it as it came.",
        ),
        Misconception(
            "pairs taken for heads",
            _heads_as_width,
            "You split by the number of pairs in place of the number of heads. The first axis is "
            "(n_heads · d_head): `unflatten(0, (n_heads, -1, 2))`.",
        ),
    ),
    hints=(
        "Write down the order for one head of 6 rows: 0 1 2 3 4 5 becomes 0 2 4 1 3 5. For two "
        "heads it happens twice, each within its own 6 rows.",
        "`rows.unflatten(0, (n_heads, -1, 2))` names three axes of the rows: head, pair, and "
        "which of the two. Which two of these must change places?",
        "`.transpose(1, 2)` makes it (head, 2, pair, …), and `.flatten(0, 2)` one axis again.",
    ),
    why="Seen as (head, pair, 2), interleaved rows have the pair outside and its two coordinates "
    "inside; half-split has it the other way round. So the change is a transpose, and queries and "
    "keys get the same new order, which leaves every dot product between them as it was.",
)


# ntk


def _ntk_cases():
    yield 10_000.0, 4.0, 32
    yield 100.0, 4.0, 4
    yield 500_000.0, 8.0, 128
    yield 10_000.0, 1.0, 10
    yield 500.0, 2.5, 6


NTK = Exercise(
    id="07.ntk",
    title="A base for a longer text",
    stars=2,
    minutes=5,
    solution=ntk_base,
    cases=_ntk_cases,
    misconceptions=(
        Misconception(
            "base times factor",
            lambda base, factor, d_head: base * factor,
            "Close, and not quite: multiplying the base by the factor slows the last pair by "
            "factor^((d_head − 2)/d_head), a little too little, since its exponent is a little "
            "short of 1. Solve for the base with which the slowing is exactly `factor`.",
        ),
        Misconception(
            "exponent upside down",
            lambda base, factor, d_head: base * factor ** ((d_head - 2) / d_head),
            "Your exponent is (d_head − 2)/d_head, the last pair's own. To undo it the factor "
            "needs its inverse, d_head/(d_head − 2).",
        ),
        Misconception(
            "base not a factor",
            lambda base, factor, d_head: factor ** (d_head / (d_head - 2)),
            "That is what the base has to be multiplied by. The new base itself is asked for.",
        ),
        Misconception(
            "the speed",
            lambda base, factor, d_head: base ** (-(d_head - 2) / d_head) / factor,
            "That is the speed that the slowest pair shall have, in radians a position. Which base "
            "gives it? Set newbase^(−(d_head − 2)/d_head) equal to it and solve.",
        ),
        Misconception(
            "divided",
            lambda base, factor, d_head: base / factor ** (d_head / (d_head - 2)),
            "You made the base smaller, and the slow pairs faster. A larger base makes them "
            "slower.",
        ),
        Misconception(
            "the base to that power",
            lambda base, factor, d_head: (base * factor) ** (d_head / (d_head - 2)),
            "The exponent belongs to the factor alone. For a factor of 1 the base must stay as it "
            "is.",
        ),
        Misconception(
            "pairs in place of entries",
            lambda base, factor, d_head: base * factor ** (d_head // 2 / max(1, d_head // 2 - 2)),
            "You put the number of pairs where d_head belongs. The last pair has 2i = d_head − 2.",
        ),
        Misconception(
            "one too many",
            lambda base, factor, d_head: base * factor ** (d_head / (d_head - 1)),
            "You took d_head − 1 for the last exponent. The last pair is i = d_head/2 − 1, so 2i "
            "is d_head − 2.",
        ),
        Misconception(
            "too large by far",
            lambda base, factor, d_head: base * factor ** (d_head - 2),
            "The exponent is d_head/(d_head − 2), a number a little above 1. Yours is the "
            "denominator alone.",
        ),
        Misconception(
            "exponent of the pair before",
            lambda base, factor, d_head: base * factor ** (2 / (d_head - 2)),
            "Write the condition down: newbase^(−(d_head − 2)/d_head) = base^(−(d_head − "
            "2)/d_head) / factor. Taking both sides to the power −d_head/(d_head − 2) gives the "
            "factor the exponent d_head/(d_head − 2), not 2/(d_head − 2).",
        ),
        Misconception(
            "unchanged",
            lambda base, factor, d_head: base,
            "That is the old base. With it the slowest pair is as fast as it was.",
        ),
        Misconception(
            "rounded",
            lambda base, factor, d_head: float(round(base * factor ** (d_head / (d_head - 2)))),
            "Right, and rounded to a whole number. A base may have a fraction; leave it.",
        ),
        Misconception(
            "a whole exponent",
            lambda base, factor, d_head: base * factor ** (d_head // (d_head - 2)),
            "`//` drops the fraction of the exponent, which is all that matters here: write "
            "d_head / (d_head − 2).",
        ),
    ),
    hints=(
        "The last pair is i = d_head/2 − 1. What is its 2i/d_head, and so its speed with the old "
        "base?",
        "Write c for (d_head − 2)/d_head. The condition is newbase^(−c) = base^(−c) / factor, or "
        "newbase^c = base^c · factor.",
        "Take both sides to the power 1/c: newbase = base · factor^(1/c), and 1/c is "
        "d_head/(d_head − 2).",
    ),
    why="The slowest pair turns base^(−(d_head − 2)/d_head) a position. For that to shrink by the "
    "factor, the base has to grow by factor^(d_head/(d_head − 2)). Pair 0 has the exponent 0 and "
    "does not notice; those between are slowed the more, the slower they were.",
)

EXERCISES = (ANGLES, ROTATE, CONVERT, NTK)

QUIZ = (
    Question(
        "With RoPE, a query vector q at position 8 and a key vector k at position 1 score s "
        "before the softmax. What do the same q and k score at positions 108 and 101?",
        (
            Choice(
                "It depends on the words in between.",
                False,
                "A score is made from one query and one key. What stands between them has scores "
                "of its own.",
            ),
            Choice(
                "Less than s, because both stand further back.",
                False,
                "Where both stand does not matter, only how far the key is behind: 7, as before.",
            ),
            Choice(
                "s again.",
                True,
                "Both are turned further by the same angles, and what counts is the angle between "
                "them: the score depends on q, k and 108 − 101.",
            ),
            Choice(
                "s plus something that the values add, since they are turned too.",
                False,
                "Values are not turned, and play no part in a score.",
            ),
        ),
    ),
    Question(
        "You load weights that were trained with interleaved pairs into code that turns "
        "half-split pairs. What happens?",
        (
            Choice(
                "It runs, and predicts badly.",
                True,
                "Each entry is turned with a partner it was not trained with, at another speed. "
                "The loss says so, and nothing else.",
            ),
            Choice(
                "An error: the shapes do not fit.",
                False,
                "The shapes are the same. Nothing complains, which is what makes it a trap.",
            ),
            Choice(
                "Reordering the rows of the query and key matrices (and biases) mends it.",
                True,
                "The same reordering for both leaves their dot products as they were and brings "
                "the partners where the code looks for them.",
            ),
            Choice(
                "It runs, but a score no longer depends on the distance m − n alone.",
                False,
                "They do: it is still a rotation of pairs. So a test of that law does not find "
                "the fault.",
            ),
        ),
    ),
    Question(
        "A model computes in bfloat16. Why are RoPE's angles computed in float32 all the same?",
        (
            Choice(
                "Because bfloat16 has eight binary digits, so that 257 becomes 256 and neighbours "
                "turn alike.",
                True,
                "Whole numbers above 256 are rounded, and an angle needs its fraction too. The "
                "cosines and sines, between −1 and 1, may be rounded afterwards.",
            ),
            Choice(
                "Because bfloat16 cannot hold numbers as large as a position.",
                False,
                "It holds numbers as large as float32 does. What it lacks is digits.",
            ),
            Choice(
                "Because cosine and sine are slow in bfloat16.",
                False,
                "Speed is not the reason; the angles are a small table in any precision.",
            ),
        ),
    ),
    Question(
        "A score depends on where two tokens stand only by their distance m − n. Does a model with RoPE, trained on 64 characters, "
        "therefore read 256 as well as 64?",
        (
            Choice(
                "Yes: a distance means the same everywhere.",
                False,
                "It does, but distances above 63 never occurred in training, and nothing made the "
                "model treat them sensibly. Measured here: its loss grows.",
            ),
            Choice(
                "No: past 64 most pairs reach angles they never had in training.",
                True,
                "The slow pairs had not turned once in 64 positions, and what the model does with the "
                "new angles was never trained. They are one reason; the model without positions got "
                "worse too.",
            ),
            Choice(
                "No: there are no angles for positions past the trained length.",
                False,
                "There are, the formula goes on without end; that is true of *learned* positions.",
            ),
        ),
    ),
    Question(
        "Our RoPE model is stretched to four times its length without further training. Which "
        "statements fit what was measured?",
        (
            Choice(
                "YaRN is better than the others with any setting.",
                False,
                "With the ramp that its paper recommends for models trained on thousands of "
                "tokens, even our fastest pair was slowed.",
            ),
            Choice(
                "YaRN with a ramp of 1–4 helps: it leaves alone the pairs that turn often within 64 "
                "positions, and slows the others.",
                True,
                "What tells neighbours apart stays as it was trained, and the slow pairs meet no angles "
                "that they have not seen.",
            ),
            Choice(
                "Position interpolation slows the fast pairs too, so near neighbours look nearer "
                "than they ever were, and the loss is worst.",
                True,
                "It needs some training at the new length, as its authors say, and as ours showed.",
            ),
            Choice(
                "Stretched models predict better than one that reads only the last 64 characters.",
                False,
                "None did here: the best of them did less harm than no stretching, which is not the same "
                "as a gain.",
            ),
        ),
    ),
)
