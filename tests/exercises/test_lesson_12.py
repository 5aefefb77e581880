"""Lesson 12's checks: other right ways pass, wrong ones are refused, and most are told why."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_12 import (
    CachedGPT,
    cache_bytes,
    mask_after,
    top_p,
)
from course_lib.exercises.registry import find
from course_lib.generation import Sampling, next_token_probabilities
from course_lib.model import cache as library
from course_lib.model.attention import attention_weights, causal_mask
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT

# ---- right, in other words


def by_scatter(probabilities, p):
    values, order = probabilities.sort(descending=True)
    kept = values * (values.cumsum(-1) - values < p)
    return torch.zeros_like(probabilities).scatter(0, order, kept / kept.sum())


def by_counting(probabilities, p):
    values, order = probabilities.sort(descending=True)
    n = int((values.cumsum(-1) < p).sum()) + 1
    out = torch.zeros_like(probabilities)
    out[order[:n]] = probabilities[order[:n]]
    return out / out.sum()


def by_the_place_of_each(probabilities, p):
    values, order = probabilities.sort(descending=True)
    kept = values.masked_fill(values.cumsum(-1) - values >= p, 0)
    return (kept / kept.sum())[order.argsort()]


def one_after_another(probabilities, p):
    left, together = torch.zeros_like(probabilities), 0.0
    for place in probabilities.argsort(descending=True):
        left[place] = probabilities[place]
        together += probabilities[place]
        if together >= p:
            break
    return left / left.sum()


def in_plain_python(probabilities, p):
    kept, together = {}, 0.0
    for place, share in sorted(enumerate(probabilities.tolist()), key=lambda pair: -pair[1]):
        kept[place], together = share, together + share
        if together >= p:
            break
    return torch.tensor([kept.get(i, 0.0) / together for i in range(len(probabilities))])


def shifted_sum(probabilities, p):
    values, order = torch.sort(probabilities, descending=True)
    gone = torch.cumsum(values, 0) >= p
    gone[1:] = gone[:-1].clone()
    gone[0] = False
    values[gone] = 0
    out = torch.empty_like(values)
    out[order] = values
    return out / out.sum()


def moved_triangle(read, held, new, window):
    ones = torch.ones(new, held + new, dtype=torch.bool)
    return ones.tril(held) & ones.triu(held - window + 1)


def the_librarys_mask(read, held, new, window):
    return causal_mask(
        torch.arange(read, read + new), torch.arange(read - held, read + new), window
    )


def square_by_square(read, held, new, window):
    mask = torch.zeros(new, held + new, dtype=torch.bool)
    for i in range(new):
        for j in range(held + new):
            mask[i, j] = 0 <= (held + i - j) < window
    return mask


def rows_of_the_whole(read, held, new, window):
    everyone = torch.arange(read + new)
    return causal_mask(everyone, everyone, window)[read:, read - held :]


def sum_of_bytes(batch, length, n_layers, kv_heads, d_head, bytes_per_number):
    token = sum(2 * kv_heads * d_head for _ in range(n_layers))
    return token * batch * length * bytes_per_number


class Learners(CachedGPT):
    """As one writes it, in steps that can go wrong one by one."""

    def held(self):
        return 0 if self.keys[0] is None else self.keys[0].shape[2]

    def mask(self, new):
        return mask_after(self.read, self.held(), new, self.window)

    def join(self, kept, new):
        return new if kept is None else torch.cat([kept, new], dim=2)

    def read_from(self, together):
        return together

    def kept(self, together, new):
        return together[:, :, -self.window :]

    def attended(self, block, *given):
        return block.attention.attend(*given)[0]

    @torch.no_grad()
    def __call__(self, tokens):
        new = tokens.shape[1]
        may_attend = self.mask(new)
        positions = torch.arange(self.read, self.read + new)
        scheme, d_head = self.model.attention_positions, self.model.config.d_head
        places = scheme.places(positions, d_head)
        x = self.model.embed(tokens, positions)
        for layer, block in enumerate(self.model.blocks):
            q, k, v = block.attention.project(block.attention_norm(x), places)
            keys, values = self.join(self.keys[layer], k), self.join(self.values[layer], v)
            x = x + self.attended(
                block, q, self.read_from(keys), self.read_from(values), may_attend
            )
            x = x + block.feed_forward(block.feed_forward_norm(x))
            self.keys[layer], self.values[layer] = self.kept(keys, k), self.kept(values, v)
        self.read += new
        return self.model.head(self.model.final_norm(x))


class OneLess(Learners):
    """One key fewer is enough: a new token brings its own."""

    def kept(self, together, new):
        return together[:, :, together.shape[2] - min(together.shape[2], self.window - 1) :]


class OwnAttention(Learners):
    """Scores, mask, softmax and the mixing by hand."""

    def attended(self, block, q, k, v, may_attend):
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        mixed = attention_weights(q, k, may_attend) @ v
        return block.attention.output(mixed.transpose(1, 2).flatten(2))


class MaskInTheLoop(Learners):
    def attended(self, block, q, k, v, may_attend):
        held = k.shape[2] - q.shape[2]
        may_attend = moved_triangle(self.read, held, q.shape[2], self.window)
        return block.attention.attend(q, k, v, may_attend)[0]


class Pieces(CachedGPT):
    """Lists of pieces, laid together when they are read."""

    def __init__(self, model, window):
        super().__init__(model, window)
        self.pieces = [([], []) for _ in model.blocks]

    @torch.no_grad()
    def __call__(self, tokens):
        model, new = self.model, tokens.shape[1]
        held = sum(piece.shape[2] for piece in self.pieces[0][0])
        positions = torch.arange(self.read, self.read + new)
        places = model.attention_positions.places(positions, model.config.d_head)
        x = model.embed(tokens, positions)
        for (keys, values), block in zip(self.pieces, model.blocks, strict=True):
            q, k, v = block.attention.project(block.attention_norm(x), places)
            keys.append(k)
            values.append(v)
            k, v = torch.cat(keys, dim=2), torch.cat(values, dim=2)
            may_attend = mask_after(self.read, held, new, self.window)
            x = x + block.attention.attend(q, k, v, may_attend)[0]
            x = x + block.feed_forward(block.feed_forward_norm(x))
            keys[:], values[:] = [k[:, :, -self.window :]], [v[:, :, -self.window :]]
        self.read += new
        return model.head(model.final_norm(x))


class PiecesTakenApart(Learners):
    """Token by token, whatever comes: nobody needs a mask."""

    def mask(self, new):
        return None

    def read_from(self, together):
        return together[:, :, -self.window :]

    def __call__(self, tokens):
        read = super().__call__
        return torch.cat([read(token) for token in tokens.split(1, dim=1)], dim=1)


class Slid(CachedGPT):
    """Room for the window from the beginning, filled from the right; what is empty is masked."""

    @torch.no_grad()
    def __call__(self, tokens):
        model, new = self.model, tokens.shape[1]
        positions = torch.arange(self.read, self.read + new)
        at = torch.arange(self.read - self.window, self.read + new)
        may_attend = causal_mask(positions, at.clamp(min=-1), self.window)
        places = model.attention_positions.places(positions, model.config.d_head)
        x = model.embed(tokens, positions)
        for layer, block in enumerate(model.blocks):
            q, k, v = block.attention.project(block.attention_norm(x), places)
            if self.keys[layer] is None:
                empty = k.new_zeros(*k.shape[:2], self.window, k.shape[3])
                self.keys[layer], self.values[layer] = empty, empty.clone()
            k = torch.cat([self.keys[layer], k], dim=2)
            v = torch.cat([self.values[layer], v], dim=2)
            self.keys[layer], self.values[layer] = k[:, :, new:], v[:, :, new:]
            x = x + block.attention.attend(q, k, v, may_attend)[0]
            x = x + block.feed_forward(block.feed_forward_norm(x))
        self.read += new
        return model.head(model.final_norm(x))


RIGHT = [
    ("12.top_p", by_scatter),
    ("12.top_p", by_counting),
    ("12.top_p", by_the_place_of_each),
    ("12.top_p", one_after_another),
    ("12.top_p", in_plain_python),
    ("12.top_p", shifted_sum),
    ("12.mask", moved_triangle),
    ("12.mask", the_librarys_mask),
    ("12.mask", square_by_square),
    ("12.mask", rows_of_the_whole),
    ("12.cached", Learners),
    ("12.cached", OneLess),
    ("12.cached", OwnAttention),
    ("12.cached", MaskInTheLoop),
    ("12.cached", Pieces),
    ("12.cached", PiecesTakenApart),
    ("12.cached", Slid),
    ("12.bytes", sum_of_bytes),
]


@pytest.mark.parametrize(("exercise", "answer"), RIGHT)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


# ---- wrong, as learners write it: told why


def first_stays(probabilities, p):
    values, order = probabilities.sort(descending=True)
    keep = torch.cumsum(values, 0) <= p
    keep[0] = True
    out = torch.zeros_like(probabilities)
    out[order[keep]] = values[keep]
    return out / out.sum()


def without_plus_one(probabilities, p):
    values, order = probabilities.sort(descending=True)
    n = (values.cumsum(0) < p).sum()
    values[n:] = 0
    out = torch.zeros_like(probabilities)
    out[order] = values / values.sum()
    return out


def first_n(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    values = values[: (values.cumsum(0) < p).sum()]
    return values / values.sum()


def masked_where_it_is_not(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    out = probabilities.clone()
    out[values.cumsum(0) - values >= p] = 0
    return out / out.sum()


def over_p(probabilities, p):
    values, order = probabilities.sort(descending=True)
    out = torch.zeros_like(probabilities)
    out[order] = values * (values.cumsum(0) - values < p) / p
    return out


def share_of_characters(probabilities, p):
    n = max(1, int(p * len(probabilities)))
    values, places = probabilities.topk(n)
    out = torch.zeros_like(probabilities)
    out[places] = values / values.sum()
    return out


def min_p(probabilities, p):
    out = torch.where(probabilities >= p * probabilities.max(), probabilities, 0.0)
    return out / out.sum()


def by_value(probabilities, p):
    values, _ = probabilities.sort(descending=True)
    smallest = values[values.cumsum(0) - values < p].min()
    out = torch.where(probabilities >= smallest, probabilities, 0.0)
    return out / out.sum()


def rows_in_the_cache(read, held, new, window):
    rows, columns = torch.arange(held, held + new)[:, None], torch.arange(read - held, read + new)
    return (columns <= rows) & (rows - columns < window)


def chained(read, held, new, window):
    distance = torch.arange(read, read + new)[:, None] - torch.arange(read - held, read + new)
    return distance >= 0 & distance < window


def half_bracketed(read, held, new, window):
    distance = torch.arange(read, read + new)[:, None] - torch.arange(read - held, read + new)
    return (distance >= 0) & distance < window


def other_half_bracketed(read, held, new, window):
    distance = torch.arange(read, read + new)[:, None] - torch.arange(read - held, read + new)
    return distance >= 0 & (distance < window)


def both_ways(read, held, new, window):
    distance = torch.arange(read, read + new)[:, None] - torch.arange(read - held, read + new)
    return abs(distance) < window


def triangle_at_read(read, held, new, window):
    return torch.ones(new, held + new).tril(diagonal=read).bool()


def a_square(read, held, new, window):
    return torch.tril(torch.ones(new, new)).bool()


def all_columns(read, held, new, window):
    rows, columns = torch.arange(read, read + new)[:, None], torch.arange(read + new)
    return (columns <= rows) & (rows - columns < window)


class NeverCropped(Learners):
    """What the reviewer found to pass: the mask hides the growth."""

    def kept(self, together, new):
        return together


class WrongAxisCropped(Learners):
    def kept(self, together, new):
        return together[-self.window :]


class CroppedFirst(Learners):
    """The most natural first attempt: append and forget in one go, then read."""

    def read_from(self, together):
        return together[:, :, -self.window :]


class MaskForAllRead(Learners):
    def held(self):
        return self.read


class CornerTriangle(Learners):
    def mask(self, new):
        return torch.ones(new, self.held() + new, dtype=torch.bool).tril()


class MaskOnlyAtFirst(Learners):
    def mask(self, new):
        return super().mask(new) if self.read == 0 else None


class LastPieceKept(Learners):
    def kept(self, together, new):
        return new[:, :, -self.window :]


class Tuples(Learners):
    def attended(self, block, *given):
        return block.attention.attend(*given)


class NotAppendedToNone(Learners):
    def join(self, kept, new):
        return torch.cat([kept, new], dim=2)


class AskedForTruth(Learners):
    def join(self, kept, new):
        return new if not kept else torch.cat([kept, new], dim=2)


class FirstWhole(Learners):
    def kept(self, together, new):
        return new if self.read == 0 else together[:, :, -self.window :]


class CountsCalls(Learners):
    def __call__(self, tokens):
        logits = super().__call__(tokens)
        self.read += 1 - tokens.shape[1]
        return logits


class CountsInTheLoop(Learners):
    """self.read += new, indented too far."""

    def __call__(self, tokens):
        logits = super().__call__(tokens)
        self.read += (len(self.model.blocks) - 1) * tokens.shape[1]
        return logits


class NewFirst(Learners):
    def join(self, kept, new):
        return new if kept is None else torch.cat([new, kept], dim=2)


class ModelAlone(CachedGPT):
    def __call__(self, tokens):
        return self.model(tokens)


class Probabilities(Learners):
    def __call__(self, tokens):
        return super().__call__(tokens).softmax(dim=-1)


TOLD = [
    ("12.top_p", first_stays, "the one that crosses p is dropped, the first forced to stay"),
    ("12.top_p", without_plus_one, "counted without the one that reaches p"),
    ("12.top_p", first_n, "counted without the one that reaches p, and only the kept ones"),
    ("12.top_p", masked_where_it_is_not, "a mask in sorted order on unsorted probabilities"),
    ("12.top_p", over_p, "divided by p"),
    ("12.top_p", share_of_characters, "p as a share of the vocabulary"),
    ("12.top_p", min_p, "p times the likeliest"),
    ("12.top_p", by_value, "all that equal the last one"),
    ("12.mask", rows_in_the_cache, "rows counted from what is held"),
    ("12.mask", chained, "`and` between tensors, or `&` without brackets"),
    ("12.mask", half_bracketed, "no mask with a cache"),
    ("12.mask", other_half_bracketed, "no window"),
    ("12.mask", both_ways, "near in both directions"),
    ("12.mask", triangle_at_read, "a triangle moved by what was read"),
    ("12.mask", a_square, "a square"),
    ("12.mask", all_columns, "a column for each token ever read"),
    ("12.cached", NeverCropped, "kept, though nobody will read it"),
    ("12.cached", WrongAxisCropped, "kept, though nobody will read it"),
    ("12.cached", CroppedFirst, "keys cropped, the mask not"),
    ("12.cached", MaskForAllRead, "a mask for all that was ever read"),
    ("12.cached", CornerTriangle, "the triangle in the corner"),
    ("12.cached", MaskOnlyAtFirst, "no mask once something is kept"),
    ("12.cached", LastPieceKept, "only the last piece is kept"),
    ("12.cached", Tuples, "two results taken for one"),
    ("12.cached", NotAppendedToNone, "appended to nothing"),
    ("12.cached", AskedForTruth, "a tensor asked for yes or no"),
    ("12.cached", FirstWhole, "the first piece is kept whole"),
    ("12.cached", CountsCalls, "one token counted for each call"),
    ("12.cached", CountsInTheLoop, "counted once in each layer"),
    ("12.cached", NewFirst, "the new before the kept"),
    ("12.cached", ModelAlone, "the model, asked anew for each piece"),
    ("12.cached", Probabilities, "probabilities in place of logits"),
]


@pytest.mark.parametrize(("exercise", "answer", "name"), TOLD)
def test_a_wrong_answer_as_learners_write_it_is_told_why(exercise, answer, name):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet"
    assert verdict.misconception == name, verdict


# ---- wrong in ways that nobody foresaw: refused all the same


class ForgetsTheValues(Learners):
    def __call__(self, tokens):
        logits = super().__call__(tokens)
        self.values = [torch.zeros_like(values) for values in self.values]
        return logits


class KeepsTheTextToo(Learners):
    """Right, but for a second copy of everything."""

    def kept(self, together, new):
        self.archive = [*getattr(self, "archive", []), new]
        return super().kept(together, new)


class HidesItInAnObject(Learners):
    """The same in an object of its own."""

    def kept(self, together, new):
        self.box = getattr(self, "box", None) or SimpleNamespace()
        self.box.more = [*getattr(self.box, "more", []), together]
        return super().kept(together, new)


class TwoShort(Learners):
    def kept(self, together, new):
        return together[:, :, together.shape[2] - min(together.shape[2], self.window - 2) :]


class MaskUpsideDown(Learners):
    def mask(self, new):
        return super().mask(new).flip(0)


def no_sum(probabilities, p):
    return probabilities * (probabilities >= 1 - p)


def always_two(probabilities, p):
    values, places = probabilities.topk(2)
    return torch.zeros_like(probabilities).scatter(0, places, values / values.sum())


def floats(read, held, new, window):
    return mask_after(read, held, new, window).float()


def always_two_bytes(batch, length, n_layers, kv_heads, d_head, bytes_per_number):
    return 2 * batch * length * n_layers * kv_heads * d_head * 2


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("12.cached", ForgetsTheValues),
        ("12.cached", KeepsTheTextToo),
        ("12.cached", HidesItInAnObject),
        ("12.cached", TwoShort),
        ("12.cached", MaskUpsideDown),
        ("12.top_p", no_sum),
        ("12.top_p", always_two),
        ("12.mask", floats),
        ("12.bytes", always_two_bytes),
    ],
)
def test_a_wrong_answer_that_nobody_foresaw_is_refused(exercise, answer):
    assert examine(find(exercise), answer).status == "not yet"


def test_what_is_kept_too_long_is_said_in_words():
    verdict = examine(find("12.cached"), KeepsTheTextToo)
    assert "whose keys and values are kept" in verdict.message
    assert "at most 5" in verdict.message or "at most 23" in verdict.message, verdict


# ---- the solutions against the library


@pytest.mark.parametrize("p", [1e-8, 0.3, 0.75, 0.9, 1.0])
def test_top_p_is_the_librarys(p):
    logits = torch.randn(31, generator=torch.Generator().manual_seed(3)).double()
    expected = next_token_probabilities(logits, Sampling(top_p=p))
    torch.testing.assert_close(top_p(logits.softmax(dim=-1), p), expected)


@pytest.mark.parametrize("sizes", [(31,), (3, 1, 19, 1, 7), (1,) * 31])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_the_cache_is_the_librarys(sizes, kv_heads):
    torch.manual_seed(5)
    config = GPTConfig(
        vocab_size=11,
        context_length=13,
        n_layers=3,
        n_heads=2,
        n_kv_heads=kv_heads,
        d_model=28,
        positions="rotary",
    )
    model = GPT(config).eval()
    tokens = torch.randint(11, (2, 31))
    ours, librarys = CachedGPT(model, window=13), library.CachedGPT(model, batch_size=2)
    for piece in tokens.split(list(sizes), dim=1):
        torch.testing.assert_close(ours(piece), librarys(piece), atol=1e-4, rtol=1e-4)
    held = sum(each.nbytes for each in (*ours.keys, *ours.values))
    assert held == librarys.bytes == cache_bytes(2, 13, 3, kv_heads, 14, 4)
