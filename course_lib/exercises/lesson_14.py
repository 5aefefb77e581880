"""Exercises and quiz of lesson 14: an online softmax, its parts merged, attention by tiles, its bytes."""

import math
import weakref

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.model.online_softmax import read_tile
from course_lib.model.traffic import LargestTensor


def largest_and_total(chunks):
    """Each row's largest score m, and the sum of exp(score - m), of scores that come in chunks.

    chunks: an iterator, so each is seen once, in a loop; each (query, some keys), one or more keys.
    Returns largest (query, 1) and total (query, 1). Neither joins the chunks nor keeps them.
    """
    largest, total = None, None
    for scores in chunks:
        here = scores.amax(dim=-1, keepdim=True)
        new = here if largest is None else torch.maximum(largest, here)
        added = (scores - new).exp().sum(dim=-1, keepdim=True)
        total = added if total is None else total * (largest - new).exp() + added
        largest = new
    return largest, total


def merge(one, other):
    """What is known after two parts of the keys: each (largest, total, mixed), and so is the result.

    largest and total: (..., query, 1), mixed: (..., query, d_v), as in the formula. One of the
    parts may have read nothing for some queries: largest -inf, total 0 and mixed 0 there.
    """
    largest = torch.maximum(one[0], other[0])
    first, second = (one[0] - largest).exp(), (other[0] - largest).exp()
    total = one[1] * first + other[1] * second
    mixed = one[2] * first + other[2] * second
    return largest, total, mixed


def tiled_attention(query, key, value, query_tile, key_tile):
    """Causal attention by tiles: (..., position, d) each → (..., position, d_v), dtype of query.

    Holds no (query, key) matrix, of scores or of a mask. A tile of keys that lies wholly in the
    future of a tile of queries is not read. Computed in float32, rounded at the end.
    """
    n, outputs = query.shape[-2], []
    for start in range(0, n, query_tile):
        rows = torch.arange(start, min(start + query_tile, n))
        known = None
        for first in range(0, int(rows[-1]) + 1, key_tile):
            columns = torch.arange(first, min(first + key_tile, n))
            may_attend = columns <= rows[:, None]  # (query, key) of this tile, by positions
            tile = read_tile(
                query[..., rows, :], key[..., columns, :], value[..., columns, :], may_attend
            )
            known = tile if known is None else merge(known, tile)
        _, total, mixed = known
        outputs.append(mixed / total)
    return torch.cat(outputs, dim=-2).to(query.dtype)


def tiled_bytes(length, d_head, query_tile, number_bytes):
    """Bytes that one head moves tile by tile, without a mask.

    length queries and as many keys, values and outputs, each of d_head numbers of number_bytes.
    """
    tiles = math.ceil(length / query_tile)  # the last may be shorter
    numbers = 2 * length * d_head + tiles * 2 * length * d_head
    return numbers * number_bytes


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


# largest and total


def _chunk_cases():
    """Rising, falling and even scores, some far below 0, some that overflow without care."""
    yield _chunks(5, (3, 2, 7), seed=0)
    yield _chunks(7, (2, 11, 3, 5), seed=1, by=-30.0)
    yield _chunks(3, (5,), seed=2, by=-7.0)
    yield _chunks(2, (3, 3, 3, 3, 3), seed=3, by=200.0)
    yield (tuple(torch.zeros(3, size) for size in (2, 7, 5)),)


def _chunks(queries, sizes, seed, by=0.0):
    scores = 3 * _random(queries, sum(sizes), seed=seed) + by
    return (tuple(scores.split(list(sizes), dim=-1)),)


def _ask_chunks(answer, chunks):
    """What an answer gives, and whether it ever held several chunks: as one tensor, or in a list.

    Three at once are no fault: a loop's variable keeps one until the next has come, and the first
    may have been taken before the loop.
    """
    kept, most = [], 0

    def one_by_one():
        nonlocal most
        for chunk in chunks:
            given = chunk.clone()
            kept.append(weakref.ref(given))
            yield given
            del given
            most = max(most, sum(each() is not None for each in kept))

    with LargestTensor() as seen:
        result = answer(one_by_one())
    result = tuple(result) if isinstance(result, list) else result
    joined = len(chunks) > 1 and seen.bytes > max(chunk.nbytes for chunk in chunks)
    return {
        "largest and total": result,
        "held at once": "several chunks" if joined or most > 3 else "one chunk",
    }


def _asked_chunks(chunks):
    sizes = ", ".join(str(tuple(chunk.shape)) for chunk in chunks)
    return f"chunks of shape {sizes}"


def _online(step, first=None):
    """A loop over the chunks: step(largest, total, scores) gives the two after a chunk."""

    def answer(chunks):
        largest, total = None, None
        for scores in chunks:
            if largest is None:
                shape = (len(scores), 1)
                start = -math.inf if first is None else first
                largest, total = torch.full(shape, start), torch.zeros(shape)
            largest, total = step(largest, total, scores)
        return largest, total

    return answer


def _new(largest, scores):
    return torch.maximum(largest, scores.amax(dim=-1, keepdim=True))


def _sum(scores, largest):
    return (scores - largest).exp().sum(dim=-1, keepdim=True)


def _not_rescaled(largest, total, scores):
    new = _new(largest, scores)
    return new, total + _sum(scores, new)


def _rescaled_too_much(largest, total, scores):
    new = _new(largest, scores)
    return new, (total + _sum(scores, new)) * (largest - new).exp().nan_to_num()


def _rescaled_wholly(largest, total, scores):
    new = _new(largest, scores)
    factor = torch.where(largest.isinf(), 1.0, (largest - new).exp())
    return new, (total + _sum(scores, new)) * factor


def _wrong_way(largest, total, scores):
    new = _new(largest, scores)
    factor = torch.where(largest.isinf(), 1.0, (new - largest).exp())
    return new, total * factor + _sum(scores, new)


def _wrong_way_from_nothing(largest, total, scores):
    new = _new(largest, scores)
    return new, total * (new - largest).exp() + _sum(scores, new)


def _own_scale(largest, total, scores):
    here = scores.amax(dim=-1, keepdim=True)
    return torch.maximum(largest, here), total + _sum(scores, here)


def _old_scale(largest, total, scores):
    old = torch.where(largest.isinf(), scores.amax(dim=-1, keepdim=True), largest)
    return _new(largest, scores), total * (old - _new(largest, scores)).exp() + _sum(scores, old)


def _by_difference(largest, total, scores):
    new = _new(largest, scores)
    return new, total * torch.where(largest.isinf(), 1.0, largest - new) + _sum(scores, new)


def _correct_step(largest, total, scores):
    new = _new(largest, scores)
    return new, total * (largest - new).exp() + _sum(scores, new)


def _forgotten(largest, total, scores):
    new = _new(largest, scores)
    return new, _sum(scores, new)


def _no_largest(largest, total, scores):
    return _new(largest, scores), total + scores.exp().sum(dim=-1, keepdim=True)


def _by_quotient(largest, total, scores):
    new = _new(largest, scores)
    return new, total * (largest.exp() / new.exp()) + _sum(scores, new)


def _one_largest(chunks):
    largest, total = torch.tensor(-math.inf), 0.0
    for scores in chunks:
        new = torch.maximum(largest, scores.max())
        total = total * (largest - new).exp() + _sum(scores, new)
        largest = new
    return largest, total


def _last_largest(largest, total, scores):
    here = scores.amax(dim=-1, keepdim=True)
    return here, total * (largest - here).exp() + _sum(scores, here)


def _joined(chunks):
    scores = torch.cat(list(chunks), dim=-1)
    largest = scores.amax(dim=-1, keepdim=True)
    return largest, _sum(scores, largest)


def _listed(chunks):
    chunks = list(chunks)
    largest = torch.stack([scores.amax(dim=-1, keepdim=True) for scores in chunks]).amax(dim=0)
    return largest, sum(_sum(scores, largest) for scores in chunks)


def _two_loops(chunks):
    largest, total = None, None
    for scores in chunks:
        here = scores.amax(dim=-1, keepdim=True)
        largest = here if largest is None else torch.maximum(largest, here)
        total = torch.zeros_like(largest)
    for scores in chunks:
        total = total + _sum(scores, largest)
    return largest, total


def _then(change):
    """The right answer, changed at the end."""

    def answer(chunks):
        return change(*largest_and_total(chunks))

    return answer


ONLINE = Exercise(
    id="14.online",
    title="A softmax that need not wait",
    stars=2,
    minutes=7,
    solution=largest_and_total,
    cases=_chunk_cases,
    call=_ask_chunks,
    shown=_asked_chunks,
    misconceptions=(
        Misconception(
            "the old sum not rescaled",
            _online(_not_rescaled),
            "The sum so far stands on the old largest score, and you add to it terms that stand on the new "
            "one. Right only where the largest score never changes. Multiply the old sum by exp(old largest − new "
            "largest) first. (If you do: is `largest` still the *old* one at that point, or have you overwritten it?)",
        ),
        Misconception(
            "multiplied the wrong way round",
            _online(_wrong_way),
            "You multiply the old sum by exp(new − old), which is above 1. The new largest score is larger, so terms "
            "measured against it are smaller: exp(old − new).",
        ),
        Misconception(
            "the wrong way round, from −inf",
            _online(_wrong_way_from_nothing),
            "At the first chunk, with a largest score of −inf so far, exp(new − old) is exp(∞), and 0 · ∞ is NaN. The other "
            "way round, exp(old − new), it is exp(−∞) = 0, and right at every later chunk too.",
        ),
        Misconception(
            "each chunk on its own scale",
            _online(_own_scale),
            "Each chunk's terms stand on that chunk's own largest score, and terms on different scales cannot be added. "
            "Find the new largest score first, of all chunks so far; then bring the old sum to it, and the chunk's terms.",
        ),
        Misconception(
            "the new terms on the old scale",
            _online(_old_scale),
            "The old sum is on the new scale, and the chunk's terms are on the old one: score − old largest. Subtract "
            "the *new* largest score from the chunk's scores.",
        ),
        Misconception(
            "the whole sum rescaled",
            _online(_rescaled_wholly),
            "You rescale the sum after the chunk has been added. Its terms stand on the new largest score already; "
            "only the *old* sum has to be multiplied.",
        ),
        Misconception(
            "the whole sum rescaled, from −inf",
            _online(_rescaled_too_much),
            "You rescale the sum after the chunk has been added. Its terms stand on the new largest score already, and at "
            "the first chunk exp(−∞ − new) = 0 wipes them out. Only the *old* sum has to be multiplied.",
        ),
        Misconception(
            "multiplied by the difference",
            _online(_by_difference),
            "You multiply the old sum by old − new. A difference of scores is a *factor* between their exponentials: exp(old − "
            "new).",
        ),
        Misconception(
            "one largest score for all rows",
            _one_largest,
            "You took one largest score for all rows: `.max()` without an axis. Each row is a query with a softmax of its own: "
            "`amax(dim=-1, keepdim=True)`.",
        ),
        Misconception(
            "a quotient of exponentials",
            _online(_by_quotient),
            "Your factor is exp(old) / exp(new). On paper that is exp(old − new), but where scores are large both overflow, and ∞/∞ is NaN. "
            "Subtract first, then take the exponential.",
        ),
        Misconception(
            "only the last chunk",
            _online(_forgotten),
            "The total is that of the last chunk alone. The old sum, rescaled, has to be added to it.",
        ),
        Misconception(
            "no largest score subtracted",
            _online(_no_largest),
            "Your total is Σ exp(score), with nothing subtracted. It overflows where scores are large, and vanishes where "
            "all lie far below 0 (the check has both). Subtract the largest score so far, and rescale when it changes.",
        ),
        Misconception(
            "begins at 0",
            _online(_correct_step, first=0.0),
            "You begin with a largest score of 0. Where all scores lie below 0 it stays there, and it is none of them. "
            "Begin with −inf, or with the first chunk.",
        ),
        Misconception(
            "the largest of the last chunk",
            _online(_last_largest),
            "Your `largest` is that of the last chunk. It has to be the largest of all chunks so far: "
            "`torch.maximum(largest, here)`.",
        ),
        Misconception(
            "joined",
            _joined,
            "The numbers are right, but you held several chunks at once in one tensor, as by `torch.cat`. "
            "That is the whole row again, and the row is what we have no room for. Keep two numbers a row, and forget each "
            "chunk after its turn.",
        ),
        Misconception(
            "kept in a list",
            _listed,
            "The numbers are right, but you kept all chunks, in a list, to read them twice. Together they are the whole row, and "
            "the row is what we have no room for. Keep two numbers a row, and let each chunk go after its turn.",
        ),
        Misconception(
            "two loops",
            _two_loops,
            "You loop over the chunks twice, first for the largest score and then for the sum. The second loop finds "
            "nothing: an iterator gives each chunk once. Keep both up in *one* loop. (Reading twice would work, at twice "
            "the price of reading; that price is what this lesson is about.)",
        ),
        Misconception(
            "the other order",
            _then(lambda largest, total: (total, largest)),
            "Both are right, in the other order: the largest score comes first.",
        ),
        Misconception(
            "without the last axis",
            _then(lambda largest, total: (largest[:, 0], total[:, 0])),
            "Right numbers, of shape (query,). Keep the axis, (query, 1): `keepdim=True`. Then they can be subtracted "
            "from scores (query, key) as they are.",
        ),
        Misconception(
            "the logarithm of the sum",
            _then(lambda largest, total: (largest, largest + total.log())),
            "That is m + ln of the sum, the logarithm of Σ exp(score). A useful number (the way back needs it), but here "
            "the sum itself is wanted.",
        ),
    ),
    hints=(
        "On paper: after the numbers 4 and 2 the sum was 4/4 + 2/4. Then came an 8. What is to be done with the sum "
        "before 8/8 may be added?",
        "For each chunk: the new largest score (`torch.maximum`, and `amax(dim=-1, keepdim=True)` of the chunk); the old total "
        "times exp(old largest − new largest); plus Σ exp(score − new largest) of the chunk. Only then overwrite `largest`.",
        "Begin with `None` and take the first chunk as it is, or with −inf and 0: exp(−inf − new) is 0.",
    ),
    why="Dividing by e^m only keeps numbers small, so m may be any number as long as *all* terms use the same one. When a "
    "larger score turns up, all old terms change by one common factor, exp(old − new), and so does their sum. No old score "
    "is needed for that.",
)


# merge


def _merge_cases():
    yield _two_parts(5, 3, 7, 2, seed=0)
    yield _two_parts(3, 11, 5, 7, seed=1, by=150.0)
    yield _two_parts(7, 2, 3, 5, seed=2, by=-150.0)
    one, other = _two_parts(5, 7, 2, 3, seed=3)
    yield _silent(one, 1), _silent(other, 3)


def _two_parts(queries, keys, more_keys, d_value, seed, by=0.0):
    """Two parts of 2 texts, as tuples; the second part's scores are `by` higher."""
    parts = []
    for at, (size, shift) in enumerate(((keys, 0.0), (more_keys, by))):
        scores = 3 * _random(2, queries, size, seed=10 * seed + at) + shift
        largest = scores.amax(dim=-1, keepdim=True)
        exponentials = (scores - largest).exp()
        value = _random(2, size, d_value, seed=10 * seed + 5 + at)
        parts.append((largest, exponentials.sum(dim=-1, keepdim=True), exponentials @ value))
    return tuple(parts)


def _silent(part, row):
    """The part with one row that has read nothing."""
    part = tuple(x.clone() for x in part)
    for x, nothing in zip(part, (-math.inf, 0.0, 0.0), strict=True):
        x[:, row] = nothing
    return part


def _ask_merge(answer, one, other):
    merged = answer(one, other)
    return tuple(merged) if isinstance(merged, (list, tuple)) else merged


def _asked_merge(one, other):
    shapes = ", ".join(str(tuple(x.shape)) for x in one)
    higher = (other[0] - one[0]).nan_to_num(0, 0, 0).mean().item()
    return f"parts of shapes {shapes}; the other's largest scores are higher by {higher:.0f} on average"


def _merged(of_total, of_mixed=None, combine=torch.maximum):
    """A merge with its own factors: of_total(part, largest) for total, of_mixed for mixed."""

    def answer(one, other):
        largest = combine(one[0], other[0])
        factors = [of_total(part, largest) for part in (one, other)]
        mixing = factors if of_mixed is None else [of_mixed(part, largest) for part in (one, other)]
        total = one[1] * factors[0] + other[1] * factors[1]
        return largest, total, one[2] * mixing[0] + other[2] * mixing[1]

    return answer


def _factor(part, largest):
    return (part[0] - largest).exp()


def _one(part, largest):
    return torch.ones_like(largest)


def _inverse(part, largest):
    return (largest - part[0]).exp()


def _only_the_first(one, other):
    largest = torch.maximum(one[0], other[0])
    factor = (one[0] - largest).exp()
    return largest, one[1] * factor + other[1], one[2] * factor + other[2]


def _crossed(one, other):
    largest = torch.maximum(one[0], other[0])
    first, second = (one[0] - largest).exp(), (other[0] - largest).exp()
    return largest, one[1] * second + other[1] * first, one[2] * second + other[2] * first


def _divided(one, other):
    largest, total, mixed = merge(one, other)
    return largest, total, mixed / total


def _of_outputs(one, other):
    """Takes mixed for an output already divided by its total."""
    largest = torch.maximum(one[0], other[0])
    first, second = (one[0] - largest).exp() * one[1], (other[0] - largest).exp() * other[1]
    return largest, first + second, one[2] * first + other[2] * second


def _on_its_own_scale(one, other):
    factor = (other[0] - one[0]).exp()
    return one[0], one[1] + other[1] * factor, one[2] + other[2] * factor


def _pythons_max(one, other):
    largest = max(one[0], other[0])
    first, second = (one[0] - largest).exp(), (other[0] - largest).exp()
    return largest, one[1] * first + other[1] * second, one[2] * first + other[2] * second


def _one_for_all(one, other):
    largest = torch.maximum(one[0], other[0]).max()
    first, second = (one[0] - largest).exp(), (other[0] - largest).exp()
    return largest, one[1] * first + other[1] * second, one[2] * first + other[2] * second


def _larger_part(one, other):
    first = one[0] >= other[0]
    return tuple(torch.where(first, a, b) for a, b in zip(one, other, strict=True))


MERGE = Exercise(
    id="14.merge",
    title="Two parts become one",
    stars=2,
    minutes=5,
    solution=merge,
    cases=_merge_cases,
    call=_ask_merge,
    shown=_asked_merge,
    misconceptions=(
        Misconception(
            "added as they are",
            _merged(_one),
            "You add totals and mixed values that stand on different largest scores. Bring both parts to the common one "
            "first: multiply each by exp(its own largest − common largest).",
        ),
        Misconception(
            "mixed values not rescaled",
            _merged(_factor, _one),
            "The totals are rescaled, and the mixed values are not. They are sums of the same exponentials, each times a "
            "value: the same factor applies.",
        ),
        Misconception(
            "totals not rescaled",
            _merged(_one, _factor),
            "The mixed values are rescaled, and the totals are not. Both are sums of the same exponentials: the same "
            "factor applies.",
        ),
        Misconception(
            "multiplied the wrong way round",
            _merged(_inverse),
            "Your factors are exp(common largest − own largest), 1 or more. Terms measured against a larger score are "
            "smaller: exp(own − common), 1 or less.",
        ),
        Misconception(
            "only the first is rescaled",
            _only_the_first,
            "You rescale the first part only. That is right where the second has the larger score; where the *first* has it, "
            "the second must be rescaled. Do it to both: one of the factors is then exp(0) = 1.",
        ),
        Misconception(
            "factors exchanged",
            _crossed,
            "Each part is multiplied by the other's factor. A part's factor is exp(*its own* largest − common largest).",
        ),
        Misconception(
            "the smaller of the two",
            _merged(_factor, combine=torch.minimum),
            "You took the smaller of the two largest scores. The factors are then above 1 and can overflow, and a part that "
            "has read nothing, −inf, spoils the other. `torch.maximum`.",
        ),
        Misconception(
            "already divided",
            _divided,
            "You divided the mixed values by the total. That is the last step, after *all* parts; a part that is divided can "
            "no longer be added to another. Leave `mixed` as a sum.",
        ),
        Misconception(
            "taken for outputs",
            _of_outputs,
            "You multiply `mixed` by its total as well, as if it were an output already divided by it. It is still a sum, Σ "
            "exp(score − largest) · value: the factor exp(own − common) is enough.",
        ),
        Misconception(
            "on the first part's scale",
            _on_its_own_scale,
            "You keep the first part's largest score and bring the second to it. On paper that is as good. In floating point "
            "exp(other − own) overflows when the second part's scores are much larger (one case has a lead of 150), and it "
            "fails where the first has read nothing. Use the larger of the two.",
        ),
        Misconception(
            "Python's max",
            _pythons_max,
            "Python's `max` compares two tensors as a whole and does not know which is larger. `torch.maximum` compares entry "
            "by entry.",
        ),
        Misconception(
            "one largest score for all",
            _one_for_all,
            "You took one largest score for all queries, `.max()`. Each query has its own; a row whose scores lie far below "
            "the others' would vanish. `torch.maximum(one[0], other[0])` keeps them apart.",
        ),
        Misconception(
            "a quotient of exponentials",
            _merged(lambda part, largest: part[0].exp() / largest.exp()),
            "Your factors are exp(own) / exp(common). On paper that is exp(own − common), but where the scores are large both overflow, and "
            "∞/∞ is NaN. Subtract first, then take the exponential.",
        ),
        Misconception(
            "the larger part wins",
            _larger_part,
            "For each query you keep the part with the larger score and drop the other. Its keys have weights, too: both parts are "
            "added, each brought to the common largest score.",
        ),
    ),
    hints=(
        "Both totals are sums of exp(score − m), each with an m of its own. By what do you multiply one so that it stands on "
        "the larger m?",
        "Common largest: `torch.maximum(one[0], other[0])`. Factor of each part: exp(its own largest − common largest). One of the "
        "two is always 1.",
        "total = one[1] · factor of one + other[1] · factor of other, and mixed likewise. exp(−inf) is 0, so a row that has "
        "read nothing needs no special care.",
    ),
    why="A part stands for its keys completely: with m, ℓ and O on a common scale, two parts add up like the sums that they "
    "are. Since sums may be taken in any order, so may parts: that lets many processors read different keys at once.",
)


# attention by tiles


def _tiled_cases():
    yield *_parts(7, 3, 5, front=(2,), seed=0), 3, 2
    yield *_parts(11, 5, 2, front=(2, 3), seed=1), 2, 7
    yield *_parts(5, 2, 3, seed=2), 13, 17
    yield *(x.bfloat16() for x in _parts(13, 7, 3, front=(2,), seed=4)), 5, 3
    yield *_spoilt(7, 3, 5, seed=5), 3, 2
    yield *_parts(101, 2, 3, seed=6), 7, 11


def _parts(n, d_head, d_value, front=(), seed=0):
    query = 2 * _random(*front, n, d_head, seed=3 * seed)
    return (
        query,
        _random(*front, n, d_head, seed=3 * seed + 1),
        _random(*front, n, d_value, seed=3 * seed + 2),
    )


def _spoilt(n, d_head, d_value, seed):
    """The last value is infinite: 0 · ∞ is NaN in every row of a tile of queries that reads it."""
    query, key, value = _parts(n, d_head, d_value, seed=seed)
    value[-1] = math.inf
    return query, key, value


def _ask_tiled(answer, query, key, value, query_tile, key_tile):
    """The output; for a long text also whether something with a place for every pair was made."""
    n = query.shape[-2]
    with LargestTensor() as seen:
        output = answer(query, key, value, query_tile, key_tile)
    if n < 100:
        return output
    made = "a matrix for all queries and keys" if seen.bytes >= n * n else "tiles only"
    return {"output": output, "made on the way": made}


def _asked_tiled(query, key, value, query_tile, key_tile):
    spoilt = ", the last value infinite" if value.isinf().any() else ""
    return (
        f"query {tuple(query.shape)}, value {tuple(value.shape)}{spoilt}, dtype {query.dtype}, "
        f"query_tile={query_tile}, key_tile={key_tile}"
    )


def _by_tiles(
    mask_of=lambda rows, columns: columns <= rows[:, None],
    reads=lambda first, rows: first <= rows[-1],
    read=read_tile,
    end=lambda total, mixed, dtype: (mixed / total).to(dtype),
    length=lambda n, tile: n,
    join=-2,
):
    """Attention by tiles with one of its pieces exchanged."""

    def answer(query, key, value, query_tile, key_tile):
        n, outputs = query.shape[-2], []
        for start in range(0, length(n, query_tile), query_tile):
            rows = torch.arange(start, min(start + query_tile, n))
            known = None
            for first in range(0, length(n, key_tile), key_tile):
                columns = torch.arange(first, min(first + key_tile, n))
                if not reads(first, rows):
                    continue
                parts = query[..., rows, :], key[..., columns, :], value[..., columns, :]
                tile = read(*parts, mask_of(rows, columns))
                known = tile if known is None else merge(known, tile)
            outputs.append(end(known[1], known[2], query.dtype))
        return torch.cat(outputs, dim=join)

    return answer


def _read_roughly(query, key, value, may_attend):
    """A tile in the dtype that it comes in."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~may_attend, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True)
    exponentials = (scores - largest.clamp_min(-1e30)).exp()
    return largest, exponentials.sum(dim=-1, keepdim=True), exponentials @ value


def _read_unscaled(query, key, value, may_attend):
    return read_tile(query * math.sqrt(query.shape[-1]), key, value, may_attend)


def _read_and_divide(query, key, value, may_attend):
    largest, total, mixed = read_tile(query, key, value, may_attend)
    return largest, total, mixed / total


def _plain(query, key, value, query_tile, key_tile):
    rows = torch.arange(query.shape[-2])
    _, total, mixed = read_tile(query, key, value, rows <= rows[:, None])
    return (mixed / total).to(query.dtype)


def _whole_mask(query, key, value, query_tile, key_tile):
    n = query.shape[-2]
    whole = torch.ones(n, n, dtype=torch.bool).tril()
    inner = _by_tiles(mask_of=lambda rows, columns: whole[rows][:, columns])
    return inner(query, key, value, query_tile, key_tile)


def _beyond_the_end(query, key, value, query_tile, key_tile):
    n, outputs = query.shape[-2], []
    for start in range(0, n, query_tile):
        rows = torch.arange(start, min(start + query_tile, n))
        known = None
        for first in range(0, start + query_tile, key_tile):
            columns = torch.arange(first, min(first + key_tile, n))
            parts = query[..., rows, :], key[..., columns, :], value[..., columns, :]
            tile = read_tile(*parts, columns <= rows[:, None])
            known = tile if known is None else merge(known, tile)
        outputs.append(known[2] / known[1])
    return torch.cat(outputs, dim=-2).to(query.dtype)


def _not_reset(query, key, value, query_tile, key_tile):
    n, outputs, known = query.shape[-2], [], None
    for start in range(0, n, query_tile):
        rows = torch.arange(start, min(start + query_tile, n))
        for first in range(0, int(rows[-1]) + 1, key_tile):
            columns = torch.arange(first, min(first + key_tile, n))
            may_attend = columns <= rows[:, None]
            tile = read_tile(
                query[..., rows, :], key[..., columns, :], value[..., columns, :], may_attend
            )
            known = tile if known is None else merge(known, tile)
        outputs.append(known[2] / known[1])
    return torch.cat(outputs, dim=-2).to(query.dtype)


def _mean_of_tiles(query, key, value, query_tile, key_tile):
    """The outputs of the tiles, averaged."""
    n, outputs = query.shape[-2], []
    for start in range(0, n, query_tile):
        rows, found = torch.arange(start, min(start + query_tile, n)), []
        for first in range(0, int(rows[-1]) + 1, key_tile):
            columns = torch.arange(first, min(first + key_tile, n))
            may_attend = columns <= rows[:, None]
            tile = read_tile(
                query[..., rows, :], key[..., columns, :], value[..., columns, :], may_attend
            )
            found.append((tile[2] / tile[1]).nan_to_num(0))
        outputs.append(sum(found) / len(found))
    return torch.cat(outputs, dim=-2).to(query.dtype)


TILED = Exercise(
    id="14.tiled",
    title="Attention, tile by tile",
    stars=3,
    minutes=10,
    solution=tiled_attention,
    cases=_tiled_cases,
    call=_ask_tiled,
    shown=_asked_tiled,
    misconceptions=(
        Misconception(
            "no mask",
            _by_tiles(mask_of=lambda rows, columns: None, reads=lambda first, rows: True),
            "Every query reads every key: the causal mask is missing. In a tile it is `columns <= rows[:, None]`, with the "
            "*positions* of the tile's keys and queries.",
        ),
        Misconception(
            "future tiles left out, the rest unmasked",
            _by_tiles(mask_of=lambda rows, columns: None),
            "You leave out the tiles of the future, which is right, and mask nothing in those you read. A tile on the "
            "diagonal lies partly in the future: it needs the mask `columns <= rows[:, None]`.",
        ),
        Misconception(
            "the mask of a tile on its own",
            _by_tiles(
                mask_of=lambda rows, columns: torch.ones(
                    len(rows), len(columns), dtype=torch.bool
                ).tril()
            ),
            "Your mask is a triangle in each tile, as if each began at position 0. What a query may read goes by "
            "*positions* in the text: query `start + i` may read key `first + j` where first + j ≤ start + i.",
        ),
        Misconception(
            "the mask transposed",
            _by_tiles(mask_of=lambda rows, columns: columns >= rows[:, None]),
            "Your mask lets queries read what comes *after* them. A query may read keys at or before its own position: "
            "`columns <= rows[:, None]`.",
        ),
        Misconception(
            "the mask compared without a new axis",
            _by_tiles(mask_of=lambda rows, columns: columns <= rows),
            "`columns <= rows` compares the first with the first and the second with the second. Every query is to meet every key, (query, "
            "key): give the rows an axis of their own, `columns <= rows[:, None]`.",
        ),
        Misconception(
            "without itself",
            _by_tiles(mask_of=lambda rows, columns: columns < rows[:, None]),
            "No query reads itself, and the first reads nothing at all: 0/0. A key at the query's own position may be read: `<=`.",
        ),
        Misconception(
            "tiles of the future read",
            _by_tiles(reads=lambda first, rows: True),
            "The output is right, but you read tiles that lie wholly in the future, and threw them away by the mask. One case "
            "has an infinite value in such a tile, and 0 · ∞ is NaN. Stop the inner loop behind the last query of the tile: about half "
            "of all tiles need not be read at all.",
        ),
        Misconception(
            "stopped at the tile's first query",
            _by_tiles(reads=lambda first, rows: first <= rows[0]),
            "You stop at the *first* query of the tile, so the later ones miss keys that they may read. Go on as long as the tile "
            "of keys begins at or before the **last** query of the tile.",
        ),
        Misconception(
            "beyond the end",
            _beyond_the_end,
            "Where the last tile of queries is shorter, your inner loop goes on beyond the end of the text, to a tile of keys that begins "
            "behind it. Let it stop behind the last query that there is, `rows[-1] + 1`, which is n at most.",
        ),
        Misconception(
            "one key short",
            _by_tiles(reads=lambda first, rows: first < rows[-1]),
            "A tile of keys that begins just at the last query's position is left out, though that query may read it: itself. `range` "
            "stops *before* its end, so the end is `rows[-1] + 1`.",
        ),
        Misconception(
            "the last tiles dropped",
            _by_tiles(length=lambda n, tile: n // tile * tile or n),
            "Where the tile size does not divide the length, the rest is missing. Let `range(0, n, tile)` find the "
            "beginnings: the last tile is shorter, and ends at n.",
        ),
        Misconception(
            "not divided",
            _by_tiles(end=lambda total, mixed, dtype: mixed.to(dtype)),
            "These are the mixed values, Σ exp(score − m) · value. Divide by the total when a tile of queries has read all of its keys.",
        ),
        Misconception(
            "divided in each tile",
            _by_tiles(read=_read_and_divide),
            "You divide in each tile *and* at the end. A part that is divided is no sum any more, and cannot be merged: leave mixed as it is, "
            "and divide once, after the last tile of keys.",
        ),
        Misconception(
            "divided in each tile, not at the end",
            _by_tiles(read=_read_and_divide, end=lambda total, mixed, dtype: mixed.to(dtype)),
            "You divide in each tile and add up the quotients. They stand on different totals. `merge` adds *sums*; divide once, after the "
            "last tile of keys.",
        ),
        Misconception(
            "left in float32",
            _by_tiles(end=lambda total, mixed, dtype: mixed / total),
            "Right, and of dtype float32 also where the query is bfloat16. Round once, at the very end: `.to(query.dtype)`.",
        ),
        Misconception(
            "computed in bfloat16",
            _by_tiles(read=_read_roughly),
            "Where the inputs are bfloat16 you compute in bfloat16: scores, exponentials and sums are each rounded to two or three "
            "digits. Bring the tile to float32 first (`read_tile` does), and round the output only.",
        ),
        Misconception(
            "no scale",
            _by_tiles(read=_read_unscaled),
            "These are the outputs of scores that were not divided by √d_k. `read_tile` does it for you; in code of your own, divide the "
            "query before the product (lesson 03).",
        ),
        Misconception(
            "all at once",
            _plain,
            "This computes the whole (query, key) matrix. The numbers are right, but it is the matrix we have no room for. Two loops: over "
            "tiles of queries, and inside it over tiles of keys, `merge` after each.",
        ),
        Misconception(
            "the whole mask",
            _whole_mask,
            "The scores come tile by tile, but you first make a mask for *all* queries and keys: that is a (query, key) matrix, too. "
            "Make the mask of a tile from its positions: `columns <= rows[:, None]`.",
        ),
        Misconception(
            "not begun anew",
            _not_reset,
            "What is known of one tile of queries is merged into the next. Each tile of queries begins anew: `known = None` belongs inside "
            "the outer loop.",
        ),
        Misconception(
            "the mean over tiles",
            _mean_of_tiles,
            "You divide in each tile and take the mean of the tiles' outputs, as if every tile had the same weight. A tile with larger "
            "exponentials weighs more: `merge` the sums, and divide once at the end.",
        ),
        Misconception(
            "joined along the first axis",
            _by_tiles(join=0),
            "You joined the tiles along the first axis, which is the batch where there is one. Positions are the last axis but one: "
            "`dim=-2`.",
        ),
    ),
    hints=(
        "Two loops. The outer one takes a tile of queries and, at its end, divides mixed by total. The inner one takes tiles of keys and "
        "values, from the first up to the tile that holds the last of these queries.",
        "`rows = torch.arange(start, min(start + query_tile, n))` are positions and indices at once: `query[..., rows, :]`. The same for "
        "`columns`; then the mask of the tile is `columns <= rows[:, None]`.",
        "`known = tile if known is None else merge(known, tile)`. After the inner loop: `_, total, mixed = known`, append `mixed / "
        "total`. At the end `torch.cat(outputs, dim=-2).to(query.dtype)`.",
    ),
    why="Each tile of queries meets the tiles of keys one after the other and keeps only its part (largest, total, mixed). What it "
    "gives is exactly attention, for any tile sizes, since parts add up like sums. The mask goes by positions, so it can be made "
    "where it is needed, and whole tiles of the future cost nothing.",
)


# bytes


def _bytes_cases():
    yield 1009, 61, 101, 2
    yield 997, 31, 7, 4
    yield 13, 5, 29, 2
    yield 211, 2, 211, 3
    yield 211, 3, 1, 2


def _ask_bytes(answer, length, d_head, query_tile, number_bytes):
    """A whole number also where it was computed as a float."""
    found = answer(length, d_head, query_tile, number_bytes)
    return int(found) if isinstance(found, float) and found.is_integer() else found


def _bytes(numbers):
    """numbers(n, d, tiles): with tiles rounded up."""

    def answer(length, d_head, query_tile, number_bytes):
        return number_bytes * numbers(length, d_head, -(-length // query_tile))

    return answer


def _bytes_of_square_tiles(length, d_head, query_tile, number_bytes):
    tiles = math.ceil(length / query_tile)
    return number_bytes * d_head * (2 * length + 2 * tiles * tiles * query_tile)


BYTES = Exercise(
    id="14.bytes",
    title="What the tiles move",
    stars=1,
    minutes=3,
    solution=tiled_bytes,
    cases=_bytes_cases,
    call=_ask_bytes,
    misconceptions=(
        Misconception(
            "rounded down",
            lambda length, d_head, query_tile, number_bytes: (
                number_bytes * length * d_head * (2 + 2 * (length // query_tile))
            ),
            "`length // query_tile` forgets the last, shorter tile of queries, which reads all keys and values like the others. Round up: "
            "`math.ceil(length / query_tile)`.",
        ),
        Misconception(
            "a share of a tile",
            lambda length, d_head, query_tile, number_bytes: (
                number_bytes * length * d_head * (2 + 2 * length / query_tile)
            ),
            "With `/` you have a share of a tile. The last tile of queries may be shorter, but it reads all keys and values: "
            "round up, `math.ceil(length / query_tile)`.",
        ),
        Misconception(
            "all read once",
            _bytes(lambda n, d, tiles: 4 * n * d),
            "You count each number once. Keys and values are read again *for each tile of queries*: after one tile of queries has met them "
            "they are no longer in the small memory.",
        ),
        Misconception(
            "values forgotten",
            _bytes(lambda n, d, tiles: n * d * (2 + tiles)),
            "For each tile of queries you read the keys. The values are read too: twice as many numbers.",
        ),
        Misconception(
            "outputs forgotten",
            _bytes(lambda n, d, tiles: n * d * (1 + 2 * tiles)),
            "The outputs are missing: length · d_head numbers that are written, once.",
        ),
        Misconception(
            "queries and outputs forgotten",
            _bytes(lambda n, d, tiles: n * d * 2 * tiles),
            "Keys and values are right. Add the queries, read once, and the outputs, written once.",
        ),
        Misconception(
            "queries and outputs each time",
            _bytes(lambda n, d, tiles: n * d * 4 * tiles),
            "You let queries and outputs move for each tile as often as the keys. A tile of queries is read once and stays; its "
            "output is written once. Only keys and values come again and again.",
        ),
        Misconception(
            "keys and values once more",
            _bytes(lambda n, d, tiles: n * d * (4 + 2 * tiles)),
            "You count the keys and values once by themselves, and then once for each tile of queries. The second is all of it: only queries "
            "and outputs move once.",
        ),
        Misconception(
            "anew for each query",
            lambda length, d_head, query_tile, number_bytes: (
                number_bytes * length * d_head * (2 + 2 * length)
            ),
            "You fetch the keys and values for each *query*. All queries of a tile share one fetching; that is what the tile is for: "
            "`math.ceil(length / query_tile)` times.",
        ),
        Misconception(
            "whole tiles of keys",
            _bytes_of_square_tiles,
            "You let every tile of queries meet as many tiles of keys of the same size, the last one counted as full. However the keys are cut, "
            "a tile of queries reads `length` of them.",
        ),
        Misconception(
            "numbers, not bytes",
            lambda length, d_head, query_tile, number_bytes: (
                length * d_head * (2 + 2 * math.ceil(length / query_tile))
            ),
            "That is how many *numbers* move. Each has `number_bytes` bytes.",
        ),
        Misconception(
            "the matrix",
            lambda length, d_head, query_tile, number_bytes: (
                number_bytes * (4 * length * d_head + 4 * length**2)
            ),
            "That is plain attention, which writes and reads the n² scores and weights. Tile by tile they never leave the small memory.",
        ),
        Misconception(
            "the matrix, and tiles",
            _bytes(lambda n, d, tiles: n * d * (2 + 2 * tiles) + n * n),
            "You added length² for the scores. They are made in the small memory and die there: nothing of them moves.",
        ),
        Misconception(
            "tiles times their size",
            lambda length, d_head, query_tile, number_bytes: (
                number_bytes
                * d_head
                * (2 * length + 2 * math.ceil(length / query_tile) * query_tile)
            ),
            "You let each tile of queries read `query_tile` keys and values. It reads *all* of them, `length`.",
        ),
    ),
    hints=(
        "Walk through `tiled_run`: what is read how often, what is written how often? The scores are neither.",
        "Queries: read once. Outputs: written once. Keys and values: once for each tile of queries, and there are "
        "`math.ceil(length / query_tile)` of these.",
    ),
    why="Queries and outputs move once, n·d numbers each. Each of the ⌈n / query_tile⌉ tiles of queries reads all keys and values, "
    "2·n·d. The tile of keys does not appear: however they are cut, all of them are read.",
)

EXERCISES = (ONLINE, MERGE, TILED, BYTES)

QUIZ = (
    Question(
        "You double the context. What happens to one pass of a layer?",
        (
            Choice(
                "Scores and mixing take four times the arithmetic.",
                True,
                "They work on n² pairs: (2n)² = 4n². No way of computing *exact* attention in this lesson changes that.",
            ),
            Choice(
                "Projections and feed-forward take four times the arithmetic.",
                False,
                "They treat each token alone: twice the tokens, twice the work. While n is far below 6·d_model, this is the larger part.",
            ),
            Choice(
                "A matrix of weights, if it is kept, takes four times the memory.",
                True,
                "n² numbers a head. It is the one part of the bill that can be avoided altogether.",
            ),
            Choice(
                "With FlashAttention everything only doubles.",
                False,
                "The memory that is *held* doubles. Arithmetic still grows four times, and so do, for long texts, the bytes that move.",
            ),
        ),
    ),
    Question(
        "Why is FlashAttention faster?",
        (
            Choice(
                "It does less arithmetic.",
                False,
                "It does slightly more: rescaling on the way, and on the way back all scores once more. (Leaving out the future's tiles "
                "halves it, but that is the mask's doing.)",
            ),
            Choice(
                "It leaves out keys with small weights.",
                False,
                "It reads every key that may be read. What leaves keys out, such as a sliding window, computes another function.",
            ),
            Choice(
                "It moves far fewer bytes between the large slow memory and the small fast one.",
                True,
                "The n² scores and weights never leave the small memory. Arithmetic units no longer wait for them.",
            ),
        ),
    ),
    Question(
        "Tile by tile, the next tile brings a row a score larger than all before. What happens to what the row has gathered?",
        (
            Choice(
                "Its total and its mixed values are multiplied by exp(old largest − new largest).",
                True,
                "One factor for the whole row, below 1. Then the new tile is added.",
            ),
            Choice(
                "It begins anew, since its weights were wrong.",
                False,
                "Only their common factor was. All of them change alike.",
            ),
            Choice(
                "Nothing; the new tile is multiplied by exp(new largest − old largest) and added.",
                False,
                "On paper that would do. But this factor has no bound, and overflows: with scores that lead by 89 it is infinite in float32.",
            ),
            Choice(
                "All old scores are computed again.",
                False,
                "None is needed: their sums are enough. (The way *back* does compute them again.)",
            ),
        ),
    ),
    Question(
        "Which of these give other numbers than plain attention, beyond rounding?",
        (
            Choice(
                "Attention by tiles, with a tile size that does not divide the length.",
                False,
                "The last tile is shorter. Exact for any size.",
            ),
            Choice(
                "A sliding window over the last 4,096 tokens of 100,000.",
                True,
                "A key farther back has no weight at all. It is cheaper because it computes something else.",
            ),
            Choice(
                "Keys spread over eight devices, whose parts are merged.",
                False,
                "Parts may be merged in any order, from any place. Only the last bits depend on it.",
            ),
        ),
    ),
    Question(
        "The small memory doubles, and we double the tile of queries with it. The bytes that keys and values move …",
        (
            Choice(
                "… stay the same.",
                False,
                "Each tile of queries reads all of them, and there are half as many tiles now.",
            ),
            Choice(
                "… double.",
                False,
                "Larger tiles are read by more queries at once, so fewer readings are needed.",
            ),
            Choice(
                "… halve.",
                True,
                "Half as many tiles of queries read them all: n²·2d / query_tile numbers.",
            ),
        ),
    ),
)
