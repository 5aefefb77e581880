"""Exercises and quiz of lesson 12: choosing a character, and a cache that changes nothing but the time."""

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.model.attention import causal_mask
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT


def top_p(probabilities, p):
    """Keep the likeliest until together they reach p; (vocab_size,) → (vocab_size,), sum 1.

    At least one is kept. `probabilities.sort(descending=True)` gives values and their places.
    """
    values, order = probabilities.sort(descending=True)
    likelier = values.cumsum(dim=-1) - values  # what those before it have together
    kept = values.masked_fill(likelier >= p, 0)
    return torch.zeros_like(probabilities).scatter(-1, order, kept / kept.sum())


def remember(kept, new, window):
    """The kept keys or values with the new ones after them, the last `window` of them all.

    kept: (batch, head, held, d_head), or None where nothing has been read; new: (batch, head, new, d_head).
    """
    together = new if kept is None else torch.cat([kept, new], dim=2)
    return together[:, :, -window:]


def mask_after(read, held, new, window):
    """Who may attend to whom: (new, held + new), bool, True = may attend.

    Rows: the new tokens, at positions read, read + 1, …; columns: the held ones, then the new ones.
    """
    query_positions = torch.arange(read, read + new)[:, None]
    key_positions = torch.arange(read - held, read + new)[None, :]
    distance = query_positions - key_positions
    return (distance >= 0) & (distance < window)


class CachedGPT:
    """A GPT that continues after what it has read. cached(tokens): (batch, new) → (batch, new, vocab_size)."""

    def __init__(self, model, window):
        self.model, self.window = model, window
        self.read = 0  # tokens so far
        self.keys = [None] * len(model.blocks)
        self.values = [None] * len(model.blocks)

    @torch.no_grad()
    def __call__(self, tokens):
        """The logits of tokens that follow what has been read."""
        model, new = self.model, tokens.shape[1]
        held = 0 if self.keys[0] is None else self.keys[0].shape[2]
        may_attend = mask_after(self.read, held, new, self.window)
        positions = torch.arange(self.read, self.read + new)
        places = model.attention_positions.places(positions, model.config.d_head)
        x = model.embed(tokens, positions)
        for layer, block in enumerate(model.blocks):
            query, key, value = block.attention.project(block.attention_norm(x), places)
            # all that the new tokens may read; a piece can be longer than what is kept of it
            keys = remember(self.keys[layer], key, held + new)
            values = remember(self.values[layer], value, held + new)
            x = x + block.attention.attend(query, keys, values, may_attend)[0]
            x = x + block.feed_forward(block.feed_forward_norm(x))
            self.keys[layer] = remember(keys, key[:, :, :0], self.window)
            self.values[layer] = remember(values, value[:, :, :0], self.window)
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
        yield (2 * torch.randn(size, generator=generator).double()).softmax(dim=-1), p


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


def _kept_alone(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    kept = values[values.cumsum(dim=-1) - values < p]
    return kept / kept.sum()


TOP_P = Exercise(
    id="12.top_p",
    title="Keep the likeliest until they reach p",
    stars=2,
    minutes=7,
    solution=top_p,
    cases=_top_p_cases,
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
            "one too many",
            _one_too_many,
            "Where the likelier ones reach p *exactly*, you keep one more. 0.5 + 0.25 reach 0.75, so the third is no "
            "longer needed: drop where what stands before is **at least** p, `>=`.",
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
            "place 0. `sort` also gives the places: `scatter` puts the numbers back.",
        ),
        Misconception(
            "order taken for its inverse",
            _gathered,
            "`kept[order]` sorts once more, by places that belong to the unsorted tensor. You want the opposite: number i of the sorted "
            "ones goes *to* place `order[i]`, `torch.zeros_like(p).scatter(-1, order, kept)`.",
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
        "Back to the vocabulary's order: `torch.zeros_like(probabilities).scatter(-1, order, kept / kept.sum())`.",
    ),
    why="A token is needed as long as the likelier ones have not reached p, so the test looks at the sum *before* it. The first "
    "has nothing before it, 0 < p, and always stays. `scatter` undoes the sorting.",
)


# ---- 12.remember


def _counted(*shape, start=0.0):
    return start + torch.arange(float(torch.Size(shape).numel())).view(shape)


def _remember_cases():
    yield None, _counted(2, 3, 5, 7), 11
    yield None, _counted(3, 2, 7, 5), 5
    yield _counted(2, 3, 5, 7), _counted(2, 3, 1, 7, start=1000.0), 11
    yield _counted(3, 2, 7, 5), _counted(3, 2, 2, 5, start=1000.0), 7
    yield _counted(2, 5, 3, 7), _counted(2, 5, 11, 7, start=1000.0), 5
    yield _counted(1, 2, 5, 3), _counted(1, 2, 1, 3, start=1000.0), 5


def _on_axis(axis):
    def remembered(kept, new, window):
        together = new if kept is None else torch.cat([kept, new], dim=axis)
        return together[:, :, -window:]

    return remembered


def _with(crop):
    def remembered(kept, new, window):
        return crop(new if kept is None else torch.cat([kept, new], dim=2), window)

    return remembered


def _new_first(kept, new, window):
    together = new if kept is None else torch.cat([new, kept], dim=2)
    return together[:, :, -window:]


def _room_made_first(kept, new, window):
    if kept is None:
        return new
    return torch.cat([kept[:, :, new.shape[2] :], new], dim=2)


REMEMBER = Exercise(
    id="12.remember",
    title="Append, and forget the oldest",
    stars=1,
    minutes=4,
    solution=remember,
    cases=_remember_cases,
    misconceptions=(
        Misconception(
            "appended along the features",
            _on_axis(3),
            "You appended along the last axis, which makes each key wider. A token more is one more along the **positions**, "
            "axis 2 of (batch, head, position, d_head).",
        ),
        Misconception(
            "appended along the heads",
            _on_axis(1),
            "You appended along axis 1, which makes new heads. A token more is one more along the **positions**, axis 2.",
        ),
        Misconception(
            "appended along the batch",
            _on_axis(0),
            "You appended along axis 0, `cat`'s default, which makes new texts of the new tokens. They go along the **positions**, axis 2.",
        ),
        Misconception(
            "nothing forgotten",
            _with(lambda together, window: together),
            "Nothing is ever forgotten, so past the window the cache goes on growing, and tokens are read that should be out of sight. "
            "Of all together keep the last `window`: `[:, :, -window:]`. (Cropping the old ones *before* appending, or the first axis, comes to the same.)",
        ),
        Misconception(
            "the newest forgotten",
            _with(lambda together, window: together[:, :, :window]),
            "`[:window]` keeps the *oldest* and throws the new ones away. The last ones are wanted: `[:, :, -window:]`.",
        ),
        Misconception(
            "cropped along the features",
            _with(lambda together, window: together[..., -window:]),
            "You cropped the last axis, so keys lose numbers, not tokens. Positions are axis 2: `[:, :, -window:]`.",
        ),
        Misconception(
            "new ones first",
            _new_first,
            "The new ones stand before the old. A softmax would not mind, but the mask does: it takes the columns to be in order of position.",
        ),
        Misconception(
            "as many forgotten as come",
            _room_made_first,
            "You forget as many as come in, also while there is still room. Append first; only what is more than `window` goes.",
        ),
        Misconception(
            "only the new ones",
            lambda kept, new, window: new[:, :, -window:],
            "The kept ones are lost: only the new are there. `torch.cat([kept, new], dim=2)` lays them together.",
        ),
    ),
    hints=(
        "Two steps: lay them together along the positions; keep the last `window` of all. And where nothing is kept yet?",
        "`torch.cat([kept, new], dim=2)` if `kept` is not None, else `new`; then a slice of axis 2.",
    ),
    why="Positions are axis 2. Appended first and cropped then, it is right for one new token, for many, and for more than the window holds. A slice "
    "from −window takes all where there are fewer.",
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


MASK = Exercise(
    id="12.mask",
    title="Who may read whom, by positions",
    stars=2,
    minutes=6,
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
            "A prompt's own logits would know the future.",
        ),
        Misconception(
            "no window",
            _mask_by(lambda distance, window: distance >= 0),
            "The future is hidden, the distant past is not: while several tokens come at once, the later ones still have keys before them "
            "that lie `window` or more back. A key is in sight if its distance is less than `window`.",
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
    "its author thought of. The library has one function for all: `causal_mask(query_positions, key_positions, window)`.",
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


def _model(shape):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = GPT(GPTConfig(vocab_size=11, context_length=23, **_SHAPES[shape]))
        for parameter in model.parameters():  # larger than at birth, so that what is read shows
            parameter.data.normal_(0, 0.4)
    return model.eval()


def _feed(answer, shape, tokens, sizes, window):
    """The logits of each piece, and how many tokens were embedded for them."""
    model = _model(shape)
    embedded = []
    model.token_embedding.register_forward_hook(
        lambda module, given, out: embedded.append(given[0].numel())
    )
    cached = answer(model, window)
    pieces = tokens.split(list(sizes), dim=1)
    logits = {f"the logits of piece {i}": cached(piece) for i, piece in enumerate(pieces, start=1)}
    return logits | {"tokens that went through the model": sum(embedded)}


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


def _variant(**changes):
    """CachedGPT with one of its lines gone wrong."""

    class Wrong(CachedGPT):
        @torch.no_grad()
        def __call__(self, tokens):
            model, new = self.model, tokens.shape[1]
            start = 0 if changes.get("start_anew") else self.read
            held = 0 if self.keys[0] is None else self.keys[0].shape[2]
            mask = changes.get("mask", mask_after)(self.read, held, new, self.window)
            positions = torch.arange(start, start + new)
            places = model.attention_positions.places(positions, model.config.d_head)
            x = model.embed(tokens, positions)
            for layer, block in enumerate(model.blocks):
                at = 0 if changes.get("one_cache") else layer
                query, key, value = block.attention.project(block.attention_norm(x), places)
                keys = remember(self.keys[at], key, held + new)
                values = remember(self.values[at], value, held + new)
                if changes.get("cropped_first"):
                    keys, values = keys[:, :, -self.window :], values[:, :, -self.window :]
                    mask = mask[:, -self.window :]
                if changes.get("one_cache"):
                    keys, values = keys[:, :, -(held + new) :], values[:, :, -(held + new) :]
                if changes.get("only_new"):
                    keys, values, mask = key, value, mask_after(self.read, 0, new, self.window)
                attended = block.attention.attend(query, keys, values, mask)[0]
                x = attended if changes.get("no_residual") else x + attended
                x = x + block.feed_forward(block.feed_forward_norm(x))
                room = held + new if changes.get("never_forgets") else self.window
                self.keys[at] = remember(keys, key[:, :, :0], room)
                self.values[at] = remember(values, value[:, :, :0], room)
            self.read += new
            x = x if changes.get("no_final_norm") else model.final_norm(x)
            x = x[:, -1:] if changes.get("last_only") else x
            return x if changes.get("no_head") else model.head(x)

    return Wrong


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


class _WithoutMemory(CachedGPT):
    @torch.no_grad()
    def __call__(self, tokens):
        return self.model(tokens, window=min(self.window, 23))


CACHED = Exercise(
    id="12.cached",
    title="A GPT that remembers what it has read",
    stars=3,
    minutes=11,
    solution=CachedGPT,
    cases=_cached_cases,
    call=_feed,
    shown=_fed,
    tolerance=1e-4,
    seconds=30.0,
    misconceptions=(
        Misconception(
            "positions start anew",
            _variant(start_anew=True),
            "The first piece is right, and every later one believes to stand at position 0 again: its queries and keys are turned by the wrong "
            "angles (or get the wrong learned vectors). Positions go on at `self.read`, and at the end it has to grow: `self.read += new`.",
        ),
        Misconception(
            "no mask",
            _variant(
                mask=lambda read, held, new, window: torch.ones(new, held + new, dtype=torch.bool)
            ),
            "Token by token it is right; a piece of several is wrong, for its tokens read those after them, too. The mask is needed with a cache as well: "
            "`mask_after(self.read, held, new, self.window)`.",
        ),
        Misconception(
            "nothing of the past is read",
            _variant(only_new=True),
            "The new tokens read each other alone. What is kept is never read: attention needs the kept keys and values *with* the new ones.",
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
            "of each layer, and read again.",
        ),
        Misconception(
            "keys cropped before they are read",
            _variant(cropped_first=True),
            "A piece longer than one token comes out wrong past the window: you forget before the piece has read. Its first token may still see keys that are "
            "out of sight for its last. Read from all, held and new, under the mask; *then* keep the last `window`.",
        ),
        Misconception(
            "nothing is ever forgotten",
            _variant(
                never_forgets=True,
                mask=lambda read, held, new, window: mask_after(read, held, new, read + new),
            ),
            "Up to the window all is right, and past it too much is read. Keep the last `window` keys and values (`remember`), and let the mask hide "
            "what is further back.",
        ),
        Misconception(
            "one cache for all layers",
            _variant(one_cache=True),
            "All layers share one place: layer 1 finds layer 0's keys there and appends its own. Each layer has keys of its own: `self.keys[layer]`.",
        ),
        Misconception(
            "no residual around attention",
            _variant(no_residual=True),
            "What attention gives takes the stream's place, where it should be added to it: `x = x + …`.",
        ),
        Misconception(
            "the final norm forgotten",
            _variant(no_final_norm=True),
            "The last block's output goes to the head as it is. `model.final_norm` comes between.",
        ),
        Misconception(
            "vectors in place of logits",
            _variant(no_head=True),
            "These are the normed vectors of the last block, (batch, new, d_model). The head makes logits of them: `model.head(…)`.",
        ),
        Misconception(
            "only the last token's logits",
            _variant(last_only=True),
            "These are the logits of the last token only. To choose the next character that is all one needs; asked for are those of every new token, so "
            "that each can be compared.",
        ),
    ),
    hints=(
        "Go through lesson 09's forward pass with the new tokens alone. Two things differ: where they stand, and what they read.",
        "Positions are `torch.arange(self.read, self.read + new)`. In each layer: `query, key, value = block.attention.project(block.attention_norm(x), places)`; "
        "then lay key and value with the layer's kept ones, and read.",
        "`held` is how many keys are kept now, the same in each layer: 0 if `self.keys[0] is None`, else `self.keys[0].shape[2]`. The mask is "
        "`mask_after(self.read, held, new, self.window)`, and it has a column for *every* held and new key. So read first and forget afterwards.",
        "Read from `remember(self.keys[layer], key, held + new)`, all of them; keep `[:, :, -self.window:]` of that. At the end `self.read += new`.",
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


EXERCISES = (TOP_P, REMEMBER, MASK, CACHED, BYTES)

QUIZ = (
    Question(
        "A story should be lively and free of misspelt words. Which change helps against rare slips and leaves the choice among good continuations open?",
        (
            Choice(
                "Temperature 0.",
                False,
                "Then there is no choice at all: greedy, which runs in circles.",
            ),
            Choice(
                "top-p 0.9.",
                True,
                "It cuts off the long tail, where the slips come from, and keeps as many candidates as it takes to reach 0.9.",
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
                "In a GPT a token's vectors depend only on it and what comes before; in a BERT each new token changes the vectors of all others.",
                True,
                "The causal mask makes the past final. That is what a cache rests on.",
            ),
            Choice(
                "A BERT is too large.",
                False,
                "Size has nothing to do with it; the mask has.",
            ),
        ),
    ),
    Question(
        "A program reads its prompt at once and goes on token by token. Its continuations are a little worse than the slow version's, from the second new "
        "token on. What do you suspect?",
        (
            Choice(
                "The cache was given no mask.",
                False,
                "That would spoil the prompt's pass, where several tokens come at once. A single token may read all that is kept.",
            ),
            Choice(
                "Positions start anew with each call.",
                True,
                "The prompt is right, and each token after it believes to stand at position 0. The first new character is drawn from the prompt's "
                "logits, so it is still right.",
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
