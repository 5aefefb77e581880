"""Exercises and quiz of lesson 12: choosing a character, and a cache that changes nothing but the time."""

import copy
from functools import cache

import torch
from torch import nn

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.model.attention import causal_mask
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT


def top_p(probabilities, p):
    """Keep the likeliest until together they reach p; (vocab_size,) → (vocab_size,), sum 1.

    At least one is kept. `values, order = probabilities.sort(descending=True)` gives the values and their places;
    `out[order] = values` puts them back.
    """
    values, order = probabilities.sort(descending=True)
    likelier = values.cumsum(dim=-1) - values  # what those before it have together
    kept = values.masked_fill(likelier >= p, 0)
    out = torch.zeros_like(probabilities)
    out[order] = kept / kept.sum()
    return out


def mask_after(read, held, new, window):
    """Who may attend to whom: (new, held + new), bool, True = may attend.

    Rows: the new tokens, at positions read, read + 1, …; columns: the held ones, then the new ones.
    """
    query_positions = torch.arange(read, read + new)[:, None]
    key_positions = torch.arange(read - held, read + new)[None, :]
    distance = query_positions - key_positions
    return (distance >= 0) & (distance < window)


class CachedGPT:
    """A GPT that continues after what it has read. cached(tokens): (batch, new) → (batch, new, vocab_size).

    self.keys[layer] and self.values[layer]: None before anything was read, then
    (batch, kv_head, held, d_head), of the last `window` tokens at most.
    """

    def __init__(self, model, window):
        self.model, self.window = model, window
        self.read = 0  # tokens so far
        self.keys = [None] * len(model.blocks)
        self.values = [None] * len(model.blocks)

    @torch.no_grad()
    def __call__(self, tokens):
        """The logits of tokens that follow what has been read."""
        model, new = self.model, tokens.shape[1]
        held = min(self.read, self.window)
        may_attend = mask_after(self.read, held, new, self.window)
        positions = torch.arange(self.read, self.read + new)
        places = model.attention_positions.places(positions, model.config.d_head)
        x = model.embed(tokens, positions)
        for layer, block in enumerate(model.blocks):
            query, key, value = block.attention.project(block.attention_norm(x), places)
            if held:
                key = torch.cat([self.keys[layer], key], dim=2)
                value = torch.cat([self.values[layer], value], dim=2)
            x = x + block.attention.attend(query, key, value, may_attend)[0]
            x = x + block.feed_forward(block.feed_forward_norm(x))
            self.keys[layer] = key[:, :, -self.window :]  # forget only when it has been read
            self.values[layer] = value[:, :, -self.window :]
        self.read += new
        return model.head(model.final_norm(x))


def cache_bytes(batch, length, n_layers, kv_heads, d_head, bytes_per_number):
    """Bytes that keys and values of a batch of texts of this length take."""
    return 2 * batch * length * n_layers * kv_heads * d_head * bytes_per_number


# ---- 12.top_p


def _top_p_cases():
    yield torch.tensor([0.5, 0.41, 0.09]), 0.9
    yield torch.tensor([0.05, 0.95]), 0.9
    yield torch.tensor([0.2, 0.35, 0.05, 0.3, 0.1]), 0.8
    yield torch.tensor([0.0625, 0.5, 0.0625, 0.25, 0.125]), 0.75  # reached exactly by two
    yield torch.tensor([0.1, 0.6, 0.3]), 1e-8
    yield torch.tensor([0.1, 0.6, 0.3]), 1.0
    generator = torch.Generator().manual_seed(12)
    for size, p in ((31, 0.7), (11, 0.95), (7, 0.3)):
        yield (2 * torch.randn(size, generator=generator)).softmax(dim=-1), p
    yield torch.full((5,), 0.2), 0.5  # three of five that are equal, no matter which


def _asked(answer, probabilities, p):
    kept = answer(probabilities, p)
    equal = isinstance(kept, torch.Tensor) and len(probabilities.unique()) == 1
    return kept.sort().values if equal else kept


def _place(values, order, kept):
    return torch.zeros_like(values).scatter(-1, order, kept / kept.sum())


def _stops_before(probabilities, p):
    values, order = probabilities.sort(descending=True)
    kept = values.masked_fill(values.cumsum(dim=-1) > p, 0)
    return _place(values, order, kept)


def _one_too_many(probabilities, p):
    values, order = probabilities.sort(descending=True)
    likelier = values.cumsum(dim=-1) - values
    return _place(values, order, values.masked_fill(likelier > p, 0))


def _each_alone(probabilities, p):
    kept = probabilities * (probabilities >= p)
    return kept / kept.sum()


def _not_renormalised(probabilities, p):
    values, order = probabilities.sort(descending=True)
    likelier = values.cumsum(dim=-1) - values
    return torch.zeros_like(values).scatter(-1, order, values.masked_fill(likelier >= p, 0))


def _left_sorted(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    kept = values.masked_fill(values.cumsum(dim=-1) - values >= p, 0)
    return kept / kept.sum()


def _unlikeliest(probabilities, p):
    values, order = probabilities.sort()
    return _place(values, order, values.masked_fill(values.cumsum(dim=-1) - values >= p, 0))


def _gathered(probabilities, p):
    values, order = probabilities.sort(descending=True)
    kept = values.masked_fill(values.cumsum(dim=-1) - values >= p, 0)
    return (kept / kept.sum())[order]


def _vocabulary_order(probabilities, p):
    kept = probabilities.masked_fill(probabilities.cumsum(dim=-1) - probabilities >= p, 0)
    return kept / kept.sum()


def _softmax_again(probabilities, p):
    values, order = probabilities.sort(descending=True)
    kept = values.masked_fill(values.cumsum(dim=-1) - values >= p, -torch.inf)
    return torch.zeros_like(values).scatter(-1, order, kept.softmax(dim=-1))


def _first_forced(probabilities, p):
    values, order = probabilities.sort(descending=True)
    stays = values.cumsum(dim=-1) <= p
    stays[0] = True
    return _place(values, order, values * stays)


def _counted_short(probabilities, p):
    values, order = probabilities.sort(descending=True)
    n = int((values.cumsum(dim=-1) < p).sum())
    return _place(values, order, torch.cat([values[:n], torch.zeros_like(values[n:])]))


def _counted_short_alone(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    kept = values[: int((values.cumsum(dim=-1) < p).sum())]
    return kept / kept.sum()


def _sorted_mask(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    kept = probabilities.masked_fill(values.cumsum(dim=-1) - values >= p, 0)
    return kept / kept.sum()


def _divided_by_p(probabilities, p):
    values, order = probabilities.sort(descending=True)
    kept = values.masked_fill(values.cumsum(dim=-1) - values >= p, 0)
    return torch.zeros_like(values).scatter(-1, order, kept / p)


def _share_of_the_vocabulary(probabilities, p):
    values, order = probabilities.sort(descending=True)
    n = max(1, int(p * len(values)))
    return _place(values, order, torch.cat([values[:n], torch.zeros_like(values[n:])]))


def _min_p(probabilities, p):
    kept = probabilities * (probabilities >= p * probabilities.max())
    return kept / kept.sum()


def _kept_alone(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    kept = values[values.cumsum(dim=-1) - values < p]
    return kept / kept.sum()


def _by_a_threshold(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    last = values[values.cumsum(dim=-1) - values < p][-1]
    kept = probabilities * (probabilities >= last)
    return kept / kept.sum()


TOP_P = Exercise(
    id="12.top_p",
    title="Keep the likeliest until they reach p",
    stars=2,
    minutes=7,
    solution=top_p,
    cases=_top_p_cases,
    call=_asked,
    misconceptions=(
        Misconception(
            "the one that crosses p is dropped",
            _stops_before,
            "You stop *before* p is reached: the one that crosses the line belongs to the nucleus too. With "
            "0.50, 0.41, 0.09 and p = 0.9 the first two stay, for 0.50 alone is not 0.9. (And where the first alone "
            "is more than p, nothing at all would be left.) Ask of each what the likelier ones have together: "
            "if that is less than p, it is still needed.",
        ),
        Misconception(
            "the one that crosses p is dropped, the first forced to stay",
            _first_forced,
            "`cumsum <= p` drops the one that *crosses* p, and making the first stay mends only the case where it is the one. With "
            "0.50, 0.41, 0.09 and p = 0.9 the first two are needed: 0.50 is not 0.9. Ask what those *before* a token have together, "
            "`cumsum - values`: if that is less than p, the token is needed. The first has nothing before it, so it stays of itself.",
        ),
        Misconception(
            "counted without the one that reaches p",
            _counted_short,
            "`(cumsum < p).sum()` counts those after which p is *not yet* reached. The one that reaches it comes on top: one more. (Where the "
            "first alone is p or more you count none, and 0 / 0 is NaN.)",
        ),
        Misconception(
            "counted without the one that reaches p, and only the kept ones",
            _counted_short_alone,
            "Two things. `(cumsum < p).sum()` counts those after which p is *not yet* reached; the one that reaches it has to stay too. And the "
            "answer has one number for each token of the vocabulary, 0 for those that are out, in the vocabulary's order.",
        ),
        Misconception(
            "a mask in sorted order on unsorted probabilities",
            _sorted_mask,
            "What has to go was found in *sorted* order, and was then taken from probabilities in the order of the vocabulary: place 0 of the one "
            "is the likeliest, place 0 of the other the first character. Zero the sorted values, then put them back, `out[order] = …`.",
        ),
        Misconception(
            "divided by p",
            _divided_by_p,
            "The right ones are kept. But together they have p *or more*, so dividing by p gives a sum above 1. Divide by their own sum.",
        ),
        Misconception(
            "p as a share of the vocabulary",
            _share_of_the_vocabulary,
            "You keep a fixed share of the *characters*, which is top-k again. p is a share of the **probability**: keep the likeliest until "
            "their probabilities together reach p, be that one character or thirty.",
        ),
        Misconception(
            "p times the likeliest",
            _min_p,
            "That is another rule, known as min-p: keep what has at least p times the likeliest one's probability. Top-p looks at the **sum** of the "
            "likeliest.",
        ),
        Misconception(
            "one too many",
            _one_too_many,
            "Where the likelier ones reach p *exactly*, you keep one more. 0.5 + 0.25 reach 0.75, so the third is no "
            "longer needed: drop where what stands before is **at least** p, `>=`.",
        ),
        Misconception(
            "all that equal the last one",
            _by_a_threshold,
            "You find the smallest probability that is kept, and keep whatever is as large. Where several are *equal*, that keeps too many: of "
            "five times 0.2 three reach 0.5, and the other two are no longer needed. Keep by place, not by value.",
        ),
        Misconception(
            "each probability against p",
            _each_alone,
            "You compare each probability with p by itself. It is their **sum**, from the likeliest on, that has to "
            "reach p: `cumsum` of the sorted ones.",
        ),
        Misconception(
            "not renormalised",
            _not_renormalised,
            "The right ones are kept, and their probabilities no longer sum to 1. Divide by their sum.",
        ),
        Misconception(
            "left in sorted order",
            _left_sorted,
            "The numbers are right and in the wrong places: sorted. Token 0 of the vocabulary needs *its* number in "
            "place 0. `sort` also gives the places: `out[order] = …` puts the numbers back.",
        ),
        Misconception(
            "order taken for its inverse",
            _gathered,
            "`kept[order]` sorts once more, by places that belong to the unsorted tensor. You want the opposite: number i of the sorted "
            "ones goes *to* place `order[i]`. So `order` stands on the left: `out[order] = kept`.",
        ),
        Misconception(
            "from the unlikeliest on",
            _unlikeliest,
            "`sort` goes upwards unless told `descending=True`. So you keep the tail and drop the head.",
        ),
        Misconception(
            "not sorted at all",
            _vocabulary_order,
            "You add up in the order of the vocabulary, so what is kept depends on who comes first in the alphabet. "
            "Sort first: the *likeliest* until they reach p.",
        ),
        Misconception(
            "a softmax of probabilities",
            _softmax_again,
            "The right ones are kept; but a softmax of what are probabilities already flattens them. Divide by their "
            "sum: that keeps their ratios.",
        ),
        Misconception(
            "only the kept ones",
            _kept_alone,
            "These are the probabilities of the kept ones alone. The answer has one number for each token of the "
            "vocabulary, 0 for those that are out, so that one knows which is which.",
        ),
    ),
    hints=(
        "Sort downwards, and let `cumsum` add up. What has to be true of those *before* a token for it to be dropped?",
        "`values.cumsum(-1) - values` is what the likelier ones have together. If that is p or more, the token is out.",
        "Back to the vocabulary's order: `out = torch.zeros_like(probabilities)`, then `out[order] = kept / kept.sum()`.",
    ),
    why="A token is needed as long as the likelier ones have not reached p, so the test looks at the sum *before* it. The first "
    "has nothing before it, 0 < p, and always stays. `out[order] = …` undoes the sorting.",
)


# ---- 12.mask


def _mask_cases():
    yield 0, 0, 5, 7  # a prompt, at once
    yield 5, 5, 1, 7  # one token
    yield 5, 5, 3, 11  # a piece
    yield 13, 7, 3, 7  # past the window
    yield 2, 2, 5, 3  # a piece longer than the window
    yield 11, 3, 1, 3
    yield 0, 0, 7, 2


def _mask_by(rule):
    def mask(read, held, new, window):
        queries = torch.arange(read, read + new)[:, None]
        keys = torch.arange(read - held, read + new)[None, :]
        return rule(queries - keys, window)

    return mask


def _square_of_the_new(read, held, new, window):
    seen = torch.ones(new, new, dtype=torch.bool).tril()
    return torch.cat([torch.zeros(new, held, dtype=torch.bool), seen], dim=1)


def _as_if_nothing_was_lost(read, held, new, window):
    queries = torch.arange(read, read + new)[:, None]
    keys = torch.arange(held + new)[None, :]
    return (queries >= keys) & (queries - keys < window)


def _rows_from_what_is_held(read, held, new, window):
    distance = torch.arange(held, held + new)[:, None] - torch.arange(read - held, read + new)
    return (distance >= 0) & (distance < window)


def _and_of_tensors(read, held, new, window):
    distance = torch.arange(read, read + new)[:, None] - torch.arange(read - held, read + new)
    return distance >= 0 and distance < window


def _as_if_all_were_held(read, held, new, window):
    distance = torch.arange(read, read + new)[:, None] - torch.arange(read + new)
    return (distance >= 0) & (distance < window)


MASK = Exercise(
    id="12.mask",
    title="Who may read whom, by positions",
    stars=2,
    minutes=4,
    solution=mask_after,
    cases=_mask_cases,
    misconceptions=(
        Misconception(
            "the triangle in the corner",
            lambda read, held, new, window: torch.ones(new, held + new, dtype=torch.bool).tril(),
            "`tril` begins in the upper left corner, as if the first new token stood at position 0: it then reads one kept key and not the "
            "others. Compare **positions**: row i is at read + i, column j at read − held + j.",
        ),
        Misconception(
            "no mask with a cache",
            lambda read, held, new, window: torch.ones(new, held + new, dtype=torch.bool),
            "Everybody may read everything. For one new token that is right; when several come at once, the first would read those after it. "
            "A prompt's own logits would know the future. (If you did compare distances: `&` binds tighter than `<`, so each comparison needs "
            "its brackets, `(distance >= 0) & (distance < window)`.)",
        ),
        Misconception(
            "no window",
            _mask_by(lambda distance, window: distance >= 0),
            "The future is hidden, the distant past is not: while several tokens come at once, the later ones still have keys before them "
            "that lie `window` or more back. A key is in sight if its distance is less than `window`. (If you did ask for that: `&` binds tighter "
            "than `>=`, so each comparison needs its brackets.)",
        ),
        Misconception(
            "a window of one more",
            _mask_by(lambda distance, window: (distance >= 0) & (distance <= window)),
            "Your window is one too wide: it counts the token itself, so distances 0 … window − 1 are in sight, `< window`.",
        ),
        Misconception(
            "not itself",
            _mask_by(lambda distance, window: (distance > 0) & (distance < window)),
            "A token may read itself: distance 0 is in sight. (The very first one would have nothing to read.)",
        ),
        Misconception(
            "the past is hidden",
            _mask_by(lambda distance, window: (distance <= 0) & (-distance < window)),
            "The sign is turned round: these queries read the future and not the past. Distance is query position minus key position.",
        ),
        Misconception(
            "queries and keys exchanged",
            lambda read, held, new, window: mask_after(read, held, new, window).T,
            "Rows are queries and columns are keys: (new, held + new). Yours is transposed.",
        ),
        Misconception(
            "True for what is hidden",
            lambda read, held, new, window: ~mask_after(read, held, new, window),
            "It is the right mask turned round. Here True means *may attend*.",
        ),
        Misconception(
            "kept keys are never read",
            _square_of_the_new,
            "The new ones read each other and none of the kept keys, so what was read before is forgotten. The kept ones lie before all new "
            "ones: they may be read, within the window.",
        ),
        Misconception(
            "kept keys counted from 0",
            _as_if_nothing_was_lost,
            "You count the columns' positions from 0. Once the window is full, the oldest kept key is no longer the text's first: column 0 is "
            "at position read − held.",
        ),
        Misconception(
            "rows counted from what is held",
            _rows_from_what_is_held,
            "Your columns stand at their positions in the text, from read − held on, and your rows are counted among the held ones, from `held` on. "
            "Past the window these differ: new token i is at position read + i.",
        ),
        Misconception(
            "a triangle moved by what was read",
            lambda read, held, new, window: torch.ones(new, held + new, dtype=torch.bool).tril(
                read
            ),
            "`tril(read)` is right while all that was read is held. Past the window the columns begin at position read − held, so the triangle has "
            "to move by `held`. And what lies `window` or more back has to go as well.",
        ),
        Misconception(
            "a square",
            lambda read, held, new, window: torch.ones(new, new, dtype=torch.bool).tril(),
            "That is a mask for the new tokens among themselves, (new, new). They meet the held keys too: the mask is (new, held + new).",
        ),
        Misconception(
            "a column for each token ever read",
            _as_if_all_were_held,
            "Your columns are all positions from 0 on. Past the window only the last `held` of them are still there: columns are the positions "
            "from read − held to read + new − 1.",
        ),
        Misconception(
            "near in both directions",
            _mask_by(lambda distance, window: distance.abs() < window),
            "`abs` lets a token read the future too, if it is near. The distance, query position minus key position, has to be **0 or more**, "
            "and less than `window`.",
        ),
        Misconception(
            "`and` between tensors, or `&` without brackets",
            _and_of_tensors,
            "`and` asks a whole table for *one* yes or no, and Python turns `a >= 0 & a < w` into such an `and`, because `&` binds tighter than the "
            "comparisons. Compare entry by entry: `(distance >= 0) & (distance < window)`, with the brackets.",
        ),
        Misconception(
            "a mask of 0 and −inf",
            lambda read, held, new, window: torch.zeros(new, held + new).masked_fill(
                ~mask_after(read, held, new, window), -torch.inf
            ),
            "These are numbers to be *added* to scores. The course's convention is a boolean mask, True = may attend.",
        ),
    ),
    hints=(
        "Give every row and every column its position in the text. Which are they, when `read` tokens were read and the last `held` of them are kept?",
        "Rows: `torch.arange(read, read + new)`; columns: `torch.arange(read - held, read + new)`. `[:, None]` and `[None, :]` make a table of differences.",
        "`(distance >= 0) & (distance < window)`.",
    ),
    why="A mask made of positions is right for every way in which tokens come. A mask that asks whether there is a cache is right for the ways "
    "its author thought of. (In the difference `read` cancels: row i and column j are held + i − j apart. So a triangle moved right by `held`, "
    "`ones.tril(held).triu(held − window + 1)`, is the same mask.) The library has one function for all: `causal_mask(query_positions, key_positions, window)`.",
)


# ---- 12.cached

_SHAPES = {
    "rotary": {"positions": "rotary", "n_layers": 2, "n_heads": 3, "d_model": 30},
    "grouped": {"positions": "rotary", "n_layers": 3, "n_heads": 2, "d_model": 28, "n_kv_heads": 1},
    "learned": {"positions": "learned", "n_layers": 2, "n_heads": 2, "d_model": 22},
    "none": {"positions": "none", "n_layers": 2, "n_heads": 5, "d_model": 35, "norm": "rms_norm"},
}
_SAID = {
    "rotary": "RoPE",
    "grouped": "RoPE, two heads that share keys",
    "learned": "learned positions",
    "none": "no positions",
}


@cache
def _made(shape):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = GPT(GPTConfig(vocab_size=11, context_length=23, **_SHAPES[shape]))
        for parameter in model.parameters():  # larger than at birth, so that what is read shows
            parameter.data.normal_(0, 0.4)
    return model.eval()


def _numbers_kept(thing):
    """How many floating-point numbers an object holds on to, the model's left out, each tensor once."""
    count, seen, waiting = 0, set(), [thing]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (nn.Module, type, str)):
            continue
        seen.add(id(thing))
        if isinstance(thing, torch.Tensor):
            count += thing.numel() if thing.is_floating_point() else 0
        elif isinstance(thing, dict):
            waiting += thing.values()
        elif isinstance(thing, (list, tuple, set)):
            waiting += thing
        else:
            waiting += getattr(thing, "__dict__", {}).values()
    return count


def _fed_to(answer, shape, tokens, sizes, window):
    """The logits of each piece, how many tokens were embedded for them, and what is kept of them."""
    model = copy.deepcopy(_made(shape))
    embedded = []
    model.token_embedding.register_forward_hook(
        lambda module, given, out: embedded.append(given[0].numel())
    )
    cached = answer(model, window)
    pieces = tokens.split(list(sizes), dim=1)
    logits = {f"the logits of piece {i}": cached(piece) for i, piece in enumerate(pieces, start=1)}
    config = model.config
    a_token = 2 * config.n_layers * len(tokens) * config.kv_heads * config.d_head
    kept = -(-_numbers_kept(vars(cached)) // a_token)
    return logits | {
        "tokens taken through the layers (each new one once, no old one again)": sum(embedded),
        "tokens whose keys and values are kept in the end": f"at most {window}"
        if kept <= window
        else str(kept),
    }


_FOUND = {}  # what came of our own wrong answers, which are tried whenever a learner's does not pass


def _feed(answer, shape, tokens, sizes, window):
    if not any(answer is known.implementation for known in CACHED.misconceptions):
        return _fed_to(answer, shape, tokens, sizes, window)
    case = (answer, shape, tuple(tokens.shape), sizes, window)
    if case not in _FOUND:
        _FOUND[case] = _fed_to(answer, shape, tokens, sizes, window)
    return dict(_FOUND[case])


def _fed(shape, tokens, sizes, window):
    return f"a GPT with {_SAID[shape]}, {tokens.shape[0]} text(s), pieces of {', '.join(map(str, sizes))} tokens, window {window}"


def _tokens(batch, length):
    return torch.randint(11, (batch, length), generator=torch.Generator().manual_seed(length))


def _cached_cases():
    yield "rotary", _tokens(1, 7), (7,), 23
    yield "rotary", _tokens(1, 5), (1, 1, 1, 1, 1), 23
    yield "rotary", _tokens(2, 13), (5, 1, 7), 23
    yield "learned", _tokens(3, 11), (3, 1, 7), 23
    yield "none", _tokens(2, 11), (2, 5, 4), 23
    yield "rotary", _tokens(2, 17), (3, 1, 7, 1, 5), 5  # past the window, and pieces longer than it
    yield "grouped", _tokens(2, 31), (19, *[1] * 12), 13
    yield "none", _tokens(1, 13), (13,), 3


def _joined(kept, new):
    return new if kept is None else torch.cat([kept, new], dim=2)


def _last(kept, new, window):
    return _joined(kept, new)[:, :, -window:]


def _lengths(cached):
    return 0 if cached.keys[0] is None else cached.keys[0].shape[2]


def _variant(
    *,
    start=lambda cached: cached.read,  # the first new token's position
    held=_lengths,  # how many keys the mask is made for
    mask=mask_after,
    layer_of=lambda layer: layer,  # whose keys are read and kept
    attention_norm=True,
    join=_joined,  # the kept and the new: what is read
    before=lambda together, window: together,  # what is forgotten before it is read
    first_of=lambda attended: attended[0],
    attended=lambda x, read: x + read,
    feed_forward=lambda x, block: x + block.feed_forward(block.feed_forward_norm(x)),
    keep=_last,  # what stays, of the kept and the new
    grown=lambda new, layers: new,
    logits=lambda model, x: model.head(model.final_norm(x)),
):
    """CachedGPT with one of its lines gone wrong."""

    class Wrong(CachedGPT):
        @torch.no_grad()
        def __call__(self, tokens):
            model, new = self.model, tokens.shape[1]
            may_attend = mask(self.read, held(self), new, self.window)
            positions = torch.arange(start(self), start(self) + new)
            places = model.attention_positions.places(positions, model.config.d_head)
            x = model.embed(tokens, positions)
            for layer, block in enumerate(model.blocks):
                at = layer_of(layer)
                normed = block.attention_norm(x) if attention_norm else x
                query, key, value = block.attention.project(normed, places)
                keys = before(join(self.keys[at], key), self.window)
                values = before(join(self.values[at], value), self.window)
                x = attended(x, first_of(block.attention.attend(query, keys, values, may_attend)))
                x = feed_forward(x, block)
                self.keys[at] = keep(self.keys[at], key, self.window)
                self.values[at] = keep(self.values[at], value, self.window)
            self.read += grown(new, len(model.blocks))
            return logits(model, x)

    return Wrong


def _everyone(read, held, new, window):
    return torch.ones(new, held + new, dtype=torch.bool)


def _cropped(together, window):
    return together[:, :, -window:]


class _Anew(CachedGPT):
    """Keeps the tokens in place of the keys."""

    @torch.no_grad()
    def __call__(self, tokens):
        self.text = torch.cat([self.text, tokens], dim=1) if self.read else tokens
        self.read += tokens.shape[1]
        positions = torch.arange(self.read)
        may_attend = causal_mask(positions, positions, self.window)
        x = self.model.embed(self.text, positions)
        for block in self.model.blocks:
            x, _ = block(x, positions, may_attend)
        return self.model.head(self.model.final_norm(x))[:, -tokens.shape[1] :]


class _TheModelAlone(CachedGPT):
    def __call__(self, tokens):
        return self.model(tokens)


class _WithoutMemory(CachedGPT):
    @torch.no_grad()
    def __call__(self, tokens):
        return self.model(tokens, window=min(self.window, 23))


def _one_dropped(kept, new, window):
    together = _joined(kept, new)
    return together[:, :, 1:] if together.shape[2] > window else together


def _room_made(kept, new, window):
    if kept is None:
        return new
    return torch.cat([kept[:, :, -(window - new.shape[2]) :], new], dim=2)


CACHED = Exercise(
    id="12.cached",
    title="A GPT that remembers what it has read",
    stars=3,
    minutes=15,
    solution=CachedGPT,
    cases=_cached_cases,
    call=_feed,
    shown=_fed,
    tolerance=1e-4,
    seconds=30.0,
    misconceptions=(
        Misconception(
            "positions start anew",
            _variant(start=lambda cached: 0),
            "The first piece is right, and every later one believes to stand at position 0 again: its queries and keys are turned by the wrong "
            "angles (or get the wrong learned vectors). Positions go on at `self.read`, and at the end it has to grow: `self.read += new`.",
        ),
        Misconception(
            "one token counted for each call",
            _variant(grown=lambda new, layers: 1),
            "`self.read += 1` is right where tokens come one by one. A piece brings several: `self.read += new`, or what follows it stands too far "
            "to the left.",
        ),
        Misconception(
            "counted once in each layer",
            _variant(grown=lambda new, layers: new * layers),
            "`self.read += new` stands inside the loop, so a token counts once in *each layer*, and what follows stands too far to the right. "
            "All layers read the same tokens: once, after the loop.",
        ),
        Misconception(
            "no mask",
            _variant(mask=_everyone),
            "Token by token it is right; a piece of several is wrong, for its tokens read those after them, too. The mask is needed with a cache as well: "
            "`mask_after(self.read, held, new, self.window)`.",
        ),
        Misconception(
            "no mask once something is kept",
            _variant(
                mask=lambda read, held, new, window: (
                    _everyone(read, held, new, window)
                    if held
                    else mask_after(read, held, new, window)
                )
            ),
            "The first piece is right, and so is a single token after it, which may read all that is kept. A *second piece* of several is not: its "
            "tokens read those after them. Make the mask by positions, whether anything is kept or not.",
        ),
        Misconception(
            "the triangle in the corner",
            _variant(mask=lambda *sizes: _everyone(*sizes).tril()),
            "`tril()` begins in the upper left corner, as if the first new token stood at position 0: it then reads one kept key and not the others. "
            "`mask_after` makes the mask by positions.",
        ),
        Misconception(
            "a mask for all that was ever read",
            _variant(held=lambda cached: cached.read),
            "Your mask has a column for every token that was *read*. Past the window only the last `window` of them are held: "
            "`held = min(self.read, self.window)`, or the length of what is kept.",
        ),
        Misconception(
            "keys cropped, the mask not",
            _variant(before=_cropped),
            "The sizes do not fit: past the window you have cut the keys to the last `window`, and the mask has a column for every held *and* new key. "
            "Cutting the mask too would make it run and be wrong, for the first token of a piece sees further back than its last. **Read first, from all "
            "of them; forget afterwards.**",
        ),
        Misconception(
            "keys cropped before they are read",
            _variant(
                before=_cropped,
                mask=lambda read, held, new, window: mask_after(read, held, new, window)[
                    :, -window:
                ],
            ),
            "A piece longer than one token comes out wrong past the window: you forget before the piece has read. Its first token may still see keys that are "
            "out of sight for its last. Read from all, held and new, under the mask; *then* keep the last `window`.",
        ),
        Misconception(
            "nothing of the past is read",
            _variant(
                join=lambda kept, new: new,
                mask=lambda read, held, new, window: mask_after(read, 0, new, window),
            ),
            "The new tokens read each other alone. What is kept is never read: attention needs the kept keys and values *with* the new ones.",
        ),
        Misconception(
            "only the last piece is kept",
            _variant(keep=lambda kept, new, window: new[:, :, -window:]),
            "Each call keeps its own keys and values and drops those of the calls before. Keep what you have just read from, the kept ones *and* the new, "
            "as far as the window goes.",
        ),
        Misconception(
            "the whole text once more",
            _Anew,
            "The logits are right, and nothing is saved: you keep the *tokens* and run all of them through the model again. Only the new tokens go "
            "through the layers; of the old ones, keep each layer's keys and values.",
        ),
        Misconception(
            "no memory at all",
            _WithoutMemory,
            "Each piece goes through the model as if it were the beginning of the text. What was read before has to be kept, as keys and values "
            "of each layer, and read again. (Does `self.read` grow?)",
        ),
        Misconception(
            "the model, asked anew for each piece",
            _TheModelAlone,
            "The model alone remembers nothing, so each piece is read as if it were the beginning of the text. What was read before has to be "
            "kept, as keys and values of each layer, and the window has to be kept to.",
        ),
        Misconception(
            "the new before the kept",
            _variant(
                join=lambda kept, new: new if kept is None else torch.cat([new, kept], dim=2),
                keep=lambda kept, new, window: (
                    new if kept is None else torch.cat([new, kept], dim=2)
                )[:, :, -window:],
            ),
            "You lay the new keys *before* the kept ones. Attention itself minds no order, but the mask does: its columns are the held ones first, then "
            "the new. `torch.cat([self.keys[layer], key], dim=2)`, so that the last `window` are also the latest.",
        ),
        Misconception(
            "nothing is ever forgotten",
            _variant(
                keep=lambda kept, new, window: _joined(kept, new),
                mask=lambda read, held, new, window: mask_after(read, held, new, read + new),
            ),
            "Up to the window all is right, and past it too much is read. Keep the last `window` keys and values, and let the mask hide "
            "what is further back.",
        ),
        Misconception(
            "kept, though nobody will read it",
            _variant(keep=lambda kept, new, window: _joined(kept, new)),
            "The logits are right, because the mask hides what is out of sight. But the cache goes on growing with the text, and the window is there "
            "to stop that: of all, keep the last `window` **positions**, axis 2, `[:, :, -self.window:]`.",
        ),
        Misconception(
            "the first piece is kept whole",
            _variant(
                keep=lambda kept, new, window: new if kept is None else _last(kept, new, window)
            ),
            "The logits are right. But when nothing is kept yet, you keep the whole first piece, and a prompt can be longer than the window. "
            "Crop in every case.",
        ),
        Misconception(
            "old ones cropped, then appended",
            _variant(
                keep=lambda kept, new, window: _joined(
                    None if kept is None else kept[:, :, -window:], new
                )
            ),
            "The logits are right, and too much is kept: you crop the old ones to the window, and the new ones come on top. Append first, then keep "
            "the last `window` of all.",
        ),
        Misconception(
            "one forgotten at a time",
            _variant(keep=_one_dropped),
            "Past the window you let *one* token go in each call. A piece brings several, and as many have to go: keep the last `window` of all, "
            "`[:, :, -self.window:]`.",
        ),
        Misconception(
            "a slice from −0",
            _variant(keep=_room_made),
            "`[:, :, -room:]` is the last `room` only while room is above 0: `-0` is 0, which keeps everything, and a negative room drops the first "
            "few. That happens when a piece is as long as the window, or longer. Append first, then keep `[:, :, -self.window:]` of all.",
        ),
        Misconception(
            "the oldest are kept",
            _variant(keep=lambda kept, new, window: _joined(kept, new)[:, :, :window]),
            "`[:window]` keeps the *oldest* and throws the new ones away. The last ones are wanted: `[:, :, -self.window:]`.",
        ),
        Misconception(
            "appended to nothing",
            _variant(join=lambda kept, new: torch.cat([kept, new], dim=2)),
            "At first nothing is kept, and `torch.cat` cannot append to `None`. Then the new keys and values are all there is.",
        ),
        Misconception(
            "a tensor asked for yes or no",
            _variant(
                join=lambda kept, new: torch.cat([kept, new], dim=2) if kept else new,
            ),
            "`if keys:` and `if not keys:` ask a whole tensor for *one* yes or no. What you want to know is whether there is one: `if keys is None`.",
        ),
        Misconception(
            "appended as more texts",
            _variant(
                join=lambda kept, new: new if kept is None else torch.cat([kept, new]),
                keep=lambda kept, new, window: new,
            ),
            "`cat` without an axis takes axis 0, which makes more *texts*. Keys are (batch, head, position, d_head), and a token more is one more "
            "position: `dim=2`.",
        ),
        Misconception(
            "appended as more heads",
            _variant(
                join=lambda kept, new: new if kept is None else torch.cat([kept, new], dim=1),
                keep=lambda kept, new, window: new,
            ),
            "Axis 1 holds the heads. Keys are (batch, head, position, d_head), and a token more is one more position: `dim=2`.",
        ),
        Misconception(
            "one cache for all layers",
            _variant(layer_of=lambda layer: 0),
            "All layers share one place: layer 1 finds layer 0's keys there and appends its own. Each layer has keys of its own: `self.keys[layer]`.",
        ),
        Misconception(
            "two results taken for one",
            _variant(first_of=lambda attended: attended),
            "`attend` gives two things, the output and the weights (None, unless they are asked for). The stream is given the first: "
            "`block.attention.attend(…)[0]`.",
        ),
        Misconception(
            "no residual around attention",
            _variant(attended=lambda x, read: read),
            "What attention gives takes the stream's place, where it should be added to it: `x = x + …`.",
        ),
        Misconception(
            "attention's norm forgotten",
            _variant(attention_norm=False),
            "Queries, keys and values are made of the stream as it is. `block.attention_norm(x)` comes before `project`.",
        ),
        Misconception(
            "no feed-forward",
            _variant(feed_forward=lambda x, block: x),
            "Attention is half of a block. After it comes `x = x + block.feed_forward(block.feed_forward_norm(x))`, which needs no cache, for it works on "
            "each token alone.",
        ),
        Misconception(
            "no residual around the feed-forward",
            _variant(feed_forward=lambda x, block: block.feed_forward(block.feed_forward_norm(x))),
            "What the feed-forward layer gives takes the stream's place, where it should be added to it: `x = x + …`.",
        ),
        Misconception(
            "the feed-forward's norm forgotten",
            _variant(feed_forward=lambda x, block: x + block.feed_forward(x)),
            "The feed-forward layer is given the stream as it is. `block.feed_forward_norm` comes between.",
        ),
        Misconception(
            "the final norm forgotten",
            _variant(logits=lambda model, x: model.head(x)),
            "The last block's output goes to the head as it is. `model.final_norm` comes between.",
        ),
        Misconception(
            "vectors in place of logits",
            _variant(logits=lambda model, x: model.final_norm(x)),
            "These are the normed vectors of the last block, (batch, new, d_model). The head makes logits of them: `model.head(…)`.",
        ),
        Misconception(
            "probabilities in place of logits",
            _variant(logits=lambda model, x: model.head(model.final_norm(x)).softmax(dim=-1)),
            "These are probabilities. The model gives **logits**, and so should its cache: temperature comes before the softmax.",
        ),
        Misconception(
            "only the last token's logits",
            _variant(logits=lambda model, x: model.head(model.final_norm(x[:, -1:]))),
            "These are the logits of the last token only. To choose the next character that is all one needs; asked for are those of every new token, so "
            "that each can be compared.",
        ),
    ),
    hints=(
        "Go through lesson 09's forward pass with the new tokens alone. Two things differ: where they stand, and what they read.",
        "Positions are `torch.arange(self.read, self.read + new)`. In each layer: `query, key, value = block.attention.project(block.attention_norm(x), places)`; "
        "then lay key and value after the layer's kept ones, if there are any: `torch.cat([self.keys[layer], key], dim=2)`.",
        "How many are held, in each layer: `held = min(self.read, self.window)`. The mask is `mask_after(self.read, held, new, self.window)`, and it has a column "
        "for *every* held and new key. So read first and forget afterwards.",
        "When attention has read, keep `key[:, :, -self.window:]` and the same of value. After the last layer `self.read += new`.",
    ),
    why="Only the new rows go through the matrices; the kept keys and values stand for all that was read. Positions and mask follow from `self.read`, so the same "
    "code serves a prompt, a piece and a single token. A piece reads before anything is forgotten, for its first token sees further back than its last.",
)


# ---- 12.bytes


def _bytes_cases():
    yield 1, 4096, 80, 64, 128, 2
    yield 3, 256, 4, 4, 32, 4
    yield 1, 4096, 80, 8, 128, 2
    yield 2, 7, 5, 3, 11, 2
    yield 13, 1, 3, 1, 2, 1


def _product(*indices, times=2):
    def wrong(*sizes):
        result = times
        for index in indices:
            result *= sizes[index]
        return result

    return wrong


BYTES = Exercise(
    id="12.bytes",
    title="What a cache takes",
    stars=1,
    minutes=3,
    solution=cache_bytes,
    cases=_bytes_cases,
    misconceptions=(
        Misconception(
            "keys alone",
            _product(0, 1, 2, 3, 4, 5, times=1),
            "That is half of it: each token leaves a key *and* a value.",
        ),
        Misconception(
            "numbers in place of bytes",
            _product(0, 1, 2, 3, 4),
            "That counts numbers. Each takes `bytes_per_number` bytes.",
        ),
        Misconception(
            "one layer",
            _product(0, 1, 3, 4, 5),
            "That is one layer's. Every layer has keys and values of its own.",
        ),
        Misconception(
            "one text",
            _product(1, 2, 3, 4, 5),
            "That is one text's. Every text of the batch has its own cache.",
        ),
        Misconception(
            "one head",
            _product(0, 1, 2, 4, 5),
            "That is one head's: d_head numbers a token and layer. There are `kv_heads` of them.",
        ),
        Misconception(
            "the score matrix",
            lambda batch, length, n_layers, kv_heads, d_head, bytes_per_number: (
                batch * length**2 * n_layers * kv_heads * bytes_per_number
            ),
            "That is the memory of the score matrices, n² for each head. The cache holds keys and values, d_head numbers a token.",
        ),
        Misconception(
            "queries too",
            _product(0, 1, 2, 3, 4, 5, times=3),
            "You count three, query, key and value. A query is used once, by its own token, and is not kept: 2.",
        ),
        Misconception(
            "the length squared",
            _product(0, 1, 1, 2, 3, 4, 5),
            "n² is how many *scores* a whole text has. What is kept is one key and one value for each token: the length comes in once.",
        ),
        Misconception(
            "one token",
            _product(0, 2, 3, 4, 5),
            "That is what *one* token leaves. Every token of the text leaves as much: times `length`.",
        ),
        Misconception(
            "bits",
            _product(0, 1, 2, 3, 4, 5, times=16),
            "That is in bits. Bytes are asked for, and `bytes_per_number` gives them.",
        ),
    ),
    hints=(
        "What does *one* token leave in *one* layer? Then: how many tokens, layers, texts?",
        "A key and a value, each kv_heads · d_head numbers: 2 · kv_heads · d_head · bytes_per_number.",
    ),
    why="A key and a value (2), for each text, token, layer and key–value head, d_head numbers each. Queries are not kept.",
)


EXERCISES = (TOP_P, MASK, CACHED, BYTES)

QUIZ = (
    Question(
        "A story should be lively and free of misspelt words. Which change helps against rare slips and leaves the choice among good continuations open?",
        (
            Choice(
                "top-p 0.9.",
                True,
                "It cuts off the long tail, where the slips come from, and keeps as many candidates as it takes to reach 0.9.",
            ),
            Choice(
                "Temperature 0.",
                False,
                "Then there is no choice at all: greedy, which runs in circles.",
            ),
            Choice(
                "Temperature 1.5.",
                False,
                "That lifts the tail: more slips.",
            ),
            Choice(
                "Another seed.",
                False,
                "A seed chooses among the texts that the rule allows; it does not change the rule.",
            ),
        ),
    ),
    Question(
        "Probabilities 0.6, 0.3, 0.1. What does top-p = 0.5 keep?",
        (
            Choice(
                "Nothing: 0.6 is more than 0.5.",
                False,
                "The likeliest are kept *until* they reach p, so at least one is.",
            ),
            Choice("The first.", True, "0.6 reaches 0.5 already; it is drawn with probability 1."),
            Choice(
                "The first two.",
                False,
                "With the first alone 0.5 is reached, and the second is not needed.",
            ),
        ),
    ),
    Question(
        "Why can keys and values be kept in a GPT, and not in a BERT?",
        (
            Choice(
                "BERT has no keys and values.",
                False,
                "It has the same attention, without the causal mask.",
            ),
            Choice(
                "A BERT is too large.",
                False,
                "Size has nothing to do with it; the mask has.",
            ),
            Choice(
                "In a GPT a token's vectors depend only on it and what comes before; in a BERT each new token changes the vectors of all others.",
                True,
                "The causal mask makes the past final. That is what a cache rests on.",
            ),
        ),
    ),
    Question(
        "A program reads its prompt at once and goes on token by token. Its continuations are worse than the slow version's, from the second new "
        "token on. What do you suspect?",
        (
            Choice(
                "Positions start anew with each call.",
                True,
                "The prompt is right, and each token after it believes to stand at position 0. The first new character is drawn from the prompt's "
                "logits, so it is still right.",
            ),
            Choice(
                "The cache was given no mask.",
                False,
                "That would spoil the prompt's pass, where several tokens come at once. A single token may read all that is kept.",
            ),
            Choice(
                "Values were kept, keys were not.",
                False,
                "Then there would be more values than weights, and the product would fail.",
            ),
        ),
    ),
    Question(
        "The context is doubled, and the cache is full. What doubles?",
        (
            Choice(
                "The bytes of the cache.",
                True,
                "They grow with the length.",
            ),
            Choice(
                "The keys that one new token has to be compared with.",
                True,
                "One dot product for each key that is held.",
            ),
            Choice(
                "The work of the feed-forward layers for one new token.",
                False,
                "They see the new row alone, however long the text is.",
            ),
            Choice(
                "The number of parameters, with RoPE.",
                False,
                "RoPE has none. (A table of learned positions would double.)",
            ),
        ),
    ),
)
