# %% [markdown] name="title"
# # Pay the bill: quadratic cost and FlashAttention
#
# Lesson 14 · [00 Start here](00_start_here.ipynb) · before: [13 Look inside](13_look_inside.ipynb) · next: [15 Smaller caches](15_smaller_caches.ipynb)

# %% [markdown] name="goals"
# **What you will build.** Attention that never holds its matrix of weights: tile by tile, with a softmax that does
# not wait for the end of the row. This is what runs, under the name of FlashAttention, wherever a large model reads a
# long text.
#
# **Afterwards you can**
#
# 1. say what grows four times when the context doubles, and what only doubles;
# 2. keep a softmax up to date while its scores arrive in pieces, and merge two pieces into one;
# 3. compute exact attention by tiles of any size, and show that it is exact;
# 4. count the bytes that plain and tiled attention move, and say why that decides about speed;
# 5. tell an exact method from an approximate one, and say what a million-token context took.
#
# **What you need.** The masked attention of [lesson 04](04_causal_mask.ipynb), the safe softmax of [lesson
# 03](03_scale.ipynb), FLOPs from [lesson 05](05_many_heads.ipynb). **Time:** 60 minutes, 25 of them for four
# exercises.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("14")

# %% [markdown] name="question"
# ## All of Shakespeare in one go
#
# Our GPT reads 256 characters at a time. Why so few? Its training text is a million characters long; what if it read
# them all at once? One head of one layer then has a weight for each query and each key. **Before you run it**: how
# many bytes do you guess, for the whole corpus? (A float32 takes 4 bytes. On the device `meta` PyTorch keeps shapes
# and no numbers, so we can ask without paying.)

# %% name="matrix-bytes"
from course_lib.data.corpora import load_corpus

corpus = load_corpus("shakespeare")
lengths = {"our sentence, in words": 12, "our GPT": 256, "GPT-3": 2_048, "Llama 3.1": 131_072}
lengths["the corpus"] = len(corpus.train)
for name, n in lengths.items():
    weights = torch.empty(n, n, device="meta")  # (query, key)
    print(f"{name:22} {n:9,} tokens: {weights.nbytes:17,} bytes a head")

# %% [markdown] name="question-answer"
# Four terabytes, for one head of one layer; and while a model trains, plain attention keeps the weights of all heads
# and layers for the way back. Each doubling of the text makes them four times as many: n tokens make n² pairs.
# Attention's cost is **quadratic**.
#
# Yet models that read a million tokens exist. So who paid the bill, or was part of it never due? First we itemise it.
#
# ## Three items: arithmetic, memory, time
#
# We let the shipped GPT read longer and longer texts (with RoPE it can; whether it understands them is another
# matter) and count the FLOPs of its matrix products, in two columns: those with a matrix of *parameters*, and the two
# products of attention, queries with keys and weights with values. **Predict**: by which factor does each column grow
# from line to line?

# %% name="flops"
from torch.utils.flop_counter import FlopCounterMode

from course_lib.data.corpora import DATA_FOLDER
from course_lib.training.checkpoint import load_run

model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")
model.attention_kernel = "explicit"  # the formula written out, so that the counter sees its products
print("tokens   with parameters   query·key and weights·value")
for n in (256, 512, 1024, 2048):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(corpus.validation[None, :n])
    flops = {str(name): count for name, count in counter.get_flop_counts()["Global"].items()}
    with_parameters, pairs = flops["aten.mm"], flops["aten.bmm"]  # one product; a batch of them, by heads
    print(f"{n:6} {with_parameters:17,} {pairs:29,}")
    assert pairs == 4 * (4 * n * n * 128), "4 layers, d_model = 128"
    assert with_parameters == 4 * (16 * n * 128**2) + 2 * n * 128 * 63, "and the head, for 63 characters"
assert 6 * 12_288 == 73_728 and round(100 * 2048 / 73_728) == 3

# %% [markdown] name="flops-answer"
# The first column doubles: projections, feed-forward and head treat each token alone. The second grows four times.
# Where they meet depends on the width. A layer with a feed-forward of 4·d_model has $24\,n\,d^2$ FLOPs with
# parameters and $4\,n^2 d$ without ($d$ is d_model), so they are even at **n = 6·d_model**. (Ours has one of
# 2·d_model, hence 16 in place of 24, and is even at 4·128 = 512, as the second line shows.) For GPT-3, 12,288 wide,
# it is 73,728 tokens; at its 2,048 attention's products are 3 % of the rest. So below such lengths the square is
# *not* what arithmetic is spent on.
#
# What about memory and time? We time one layer's attention, four heads of 64, written out (`attention`), and as
# PyTorch's `scaled_dot_product_attention`, and note the **largest tensor** that any operation makes on the way.
# **Look for** the slopes: on these scales a straight line that climbs twice as steeply is one that grows with the
# square.

# %% name="bill" tags=["nbval-ignore-output"]
import timeit

from torch.nn.functional import scaled_dot_product_attention

from course_lib.model.attention import attention, causal_mask
from course_lib.model.traffic import LargestTensor

ways = {
    "written out": lambda q, k, v, place: attention(q, k, v, causal_mask(place, place))[0],
    "PyTorch's": lambda q, k, v, place: scaled_dot_product_attention(q, k, v, is_causal=True),
}
sizes, seconds, largest_made = [256, 512, 1024, 2048], {name: [] for name in ways}, {name: [] for name in ways}
for name, way in ways.items():
    for n in sizes:
        given = *torch.randn(3, 1, 4, n, 64), torch.arange(n)  # q, k, v: (batch, head, position, d_head)
        with LargestTensor() as made:
            way(*given)
        largest_made[name].append(made.bytes)
        seconds[name].append(min(timeit.repeat("way(*given)", globals=globals(), number=1, repeat=5)))
    print(f"{name:11}", *(f"{1000 * s:6.1f} ms" for s in seconds[name]))

# %% name="bill-picture"
figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.4), layout="constrained")
for name in ways:
    axes[0].loglog(sizes, seconds[name], "o-", label=name)
    axes[1].loglog(sizes, largest_made[name], "o-", label=name)
axes[0].set_ylabel("seconds")
axes[1].set_ylabel("bytes of the largest tensor")
for ax in axes:
    ax.set_xlabel("tokens")
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.minorticks_off()
axes[0].legend()
plt.show()

# %% name="bill-shown"
for ax, measured in zip(axes, (seconds, largest_made), strict=True):
    assert [list(line.get_ydata()) for line in ax.lines] == list(measured.values())
assert largest_made["written out"] == [4 * n * n * 4 for n in sizes], "heads · n² · 4 bytes"
assert largest_made["PyTorch's"] == [4 * n * 64 * 4 for n in sizes], "heads · n · d_head · 4 bytes: the output"

# %% [markdown] name="bill-answer"
# Time climbs for both. But on the right the orange line is less steep: PyTorch's function makes **no tensor larger
# than its output**, and on the machine that made this page it is several times faster, too. (It leaves out the masked
# half; that alone would explain a factor of two.) Its numbers are the same (lesson 04 compared them). How can one
# have the weights of a row without holding the row?
#
# ## Two memories
#
# First, why it matters so much. A GPU's arithmetic units do not reach into its large memory, **HBM** (high-bandwidth
# memory). They work on what lies in a small fast one on the chip, **SRAM**. It is like a desk and an archive down the
# hall: everything is in the archive, but to work on a sheet you have to fetch it. For an A100 Dao et al. (2022,
# section 2.1) give 40–80 GB of HBM at 1.5–2.0 terabytes a second, and on each of its 108 processors 192 KB of SRAM,
# at about 19 terabytes a second together.
#
# Attention written out is three programs, one after the other (a program on a GPU is called a **kernel**, the third of that name): scores;
# softmax; mixing. Each fetches its input from the archive and carries its result back. So the n² scores travel out
# and in, and the n² weights again, while the units wait. For the attention of GPT-2 medium on an A100 (1,024 tokens,
# 16 heads, 64 texts at once), forward and back, the paper reports (figure 2):
#
# | | arithmetic | bytes from and to HBM | time |
# |---|---|---|---|
# | written out | 66.6 GFLOPs | 40.3 GB | 41.7 ms |
# | FlashAttention | 75.2 GFLOPs | 4.4 GB | 7.3 ms |
#
# *More* arithmetic, a ninth of the traffic, less than a fifth of the time. The idea of **FlashAttention**: cut queries, keys and values
# into **tiles** small enough for the desk, and be done with a tile's scores before they would have to leave the desk.
#
# ## The obstacle, on paper
#
# A softmax divides by a sum over the whole row and, to be safe, subtracts the row's largest score. Both are known
# only at the end. Let *it* read four words, in two tiles, with exponentials of the scores chosen by hand:
#
# | | animal | road | because | tired |
# |---|---|---|---|---|
# | exp(score) | 4 | 2 | 2 | 8 |
# | value | 8 | 4 | 4 | 2 |
#
# After the first tile (*animal, road*) the largest number is 4. Measured by it, the sum is 4/4 + 2/4 = 1.5, and the
# mixed values are (4·8 + 2·4)/4 = 10. The second tile brings *tired*, with 8. **On paper**: what must happen to 1.5
# and to 10 before that tile may be added? What are sum and mixed values in the end, and their quotient? (The cell
# goes word by word, as if each were a tile.)

# %% name="loop"
exponentials, values = [4.0, 2.0, 2.0, 8.0], [8.0, 4.0, 4.0, 2.0]

largest, total, mixed = -math.inf, 0.0, 0.0
for number, value in zip(exponentials, values, strict=True):
    score = math.log(number)
    new = max(largest, score)
    rescale = math.exp(largest - new)  # exp(-inf) = 0 at the first key
    total = total * rescale + math.exp(score - new)
    mixed = mixed * rescale + math.exp(score - new) * value
    largest = new
    print(f"read {number:.0f}: largest {math.exp(largest):.0f}, old sums times {rescale:.2f}; ", end="")
    print(f"total {total:.2f}, mixed {mixed:.2f}")
print(f"output {mixed / total:.2f}")

# %% [markdown] name="formula"
# The last line brings a new largest number, 8, and halves what was gathered: 2.00 and 12.00 become 1.00 and 6.00, and
# the key's own 8/8 and 8/8 · 2 are added. The output, 8/2 = 4, is what the whole row gives: (4·8 + 2·4 + 2·4 +
# 8·2)/16.
#
# ## The formula
#
# So a row needs three things of its past, and no old score. After some of its keys, with scores $s_j$:
#
# $$m = \max_j s_j, \qquad \ell = \sum_j e^{s_j - m}, \qquad o = \sum_j e^{s_j - m}\, v_j$$
#
# $$m = \max(m_1, m_2), \qquad \ell = e^{m_1 - m}\,\ell_1 + e^{m_2 - m}\,\ell_2, \qquad
# o = e^{m_1 - m}\, o_1 + e^{m_2 - m}\, o_2$$
#
# | symbol | in code | shape | is |
# |---|---|---|---|
# | $m$ | `largest` | (…, query, 1) | the largest score so far |
# | $\ell$ | `total` | (…, query, 1) | the sum so far, measured by $m$ |
# | $o$ | `mixed` | (…, query, d_v) | the values so far, mixed by the same numbers |
# | $1, 2$ | `one`, `other` | | two parts of the keys |
#
# At the end $o / \ell$ is the output. $e^{m_1 - m}$ brings a part from its own scale to the common one; it is never
# above 1, so nothing overflows. This is the **online softmax**: exact, in one reading ($m$ and $\ell$ by Milakov &
# Gimelshein 2018; Rabe & Staats 2021 keep $o$ along with them).

# %% [markdown] name="ex-online-text"
# **Exercise 14.online · ★★ · 7 min.** First $m$ and $\ell$ alone, for many rows, with scores that come in chunks. You
# get an iterator: whoever has looked at a chunk does not see it again, and nobody is to keep them: all together they
# are the row.

# %% name="ex-online" tags=["exercise"] course={"exercise": "14.online"}
def largest_and_total(chunks):
    """Each row's largest score m, and the sum of exp(score - m), of scores that come in chunks.

    chunks: an iterator, so each is seen once, in a loop; each (query, some keys), one or more keys.
    Returns largest (query, 1) and total (query, 1). Neither joins the chunks nor keeps them.
    """
    raise NotImplementedError

# %% name="check-online" tags=["check", "nbval-ignore-output"]
largest_and_total = check("14.online", largest_and_total)

# %% [markdown] name="break-text"
# ## Break it: forget to rescale
#
# The commonest mistake: `total + …` without the factor. We give it 2,000 rows of 64 random scores, cut in 1, 2, 4 or
# 16 chunks. **Predict** the share of rows whose sum comes out right all the same. (When is nothing to be rescaled?)

# %% name="break-rescale"
def forgetful(chunks):
    largest, total = torch.tensor(-math.inf), 0.0
    for scores in chunks:
        largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        total = total + (scores - largest).exp().sum(dim=-1, keepdim=True)
    return largest, total


scores = torch.randn(2000, 64)  # (query, key)
right_shares = []
for parts in (1, 2, 4, 16):
    chunks = scores.chunk(parts, dim=-1)
    largest, total = largest_and_total(iter(chunks))
    same = torch.isclose(forgetful(chunks)[1], total)
    right_shares.append(same.float().mean().item())
    in_one_go = (scores - largest).exp().sum(dim=-1, keepdim=True)
    print(f"{parts:2} chunks: yours is right: {torch.allclose(total, in_one_go)}; ", end="")
    print(f"forgetful in {right_shares[-1]:.2f} of the rows")
assert all(abs(share - 1 / parts) < 0.05 for share, parts in zip(right_shares, (1, 2, 4, 16), strict=True))

# %% [markdown] name="break-answer"
# All, about half, a quarter, a sixteenth: it is right where the largest score lies in the first chunk, and each chunk
# is as likely to have it. One lucky row proves nothing; a test with a *rising* row finds it at once.

# %% [markdown] name="ex-merge-text"
# ## Parts are like sums
#
# In the formula nothing says that part 1 came first, or that part 2 is a single tile. Two parts of any size make one.
#
# **Exercise 14.merge · ★★ · 5 min.** A part is a tuple: largest, total, mixed. One that has read nothing for a query
# (a tile may be hidden from it) has −inf, 0 and 0 there.

# %% name="ex-merge" tags=["exercise"] course={"exercise": "14.merge"}
def merge(one, other):
    """What is known after two parts of the keys: each (largest, total, mixed), and so is the result.

    largest and total: (..., query, 1), mixed: (..., query, d_v), as in the formula. One of the
    parts may have read nothing for some queries: largest -inf, total 0 and mixed 0 there.
    """
    raise NotImplementedError

# %% name="check-merge" tags=["check", "nbval-ignore-output"]
merge = check("14.merge", merge)

# %% [markdown] name="parts-text"
# `read_tile(query, key, value, may_attend)` of the library makes the part of one tile: the scores of lesson 04, and
# from them the three sums, in float32. First our sheet of paper once more. Then 12 keys, in six parts, merged in
# three orders.

# %% name="parts"
from course_lib.model.online_softmax import read_tile

key, value = torch.tensor(exponentials).log()[:, None], torch.tensor(values)[:, None]  # (key, 1)
one = read_tile(torch.ones(1, 1), key[:2], value[:2])
_, total, mixed = merge(one, read_tile(torch.ones(1, 1), key[2:], value[2:]))
print("on paper: 1.5, 10, then 2, 8:", [round(x.item(), 3) for x in (one[1], one[2], total, mixed)])

q, k, v = torch.randn(5, 4), torch.randn(12, 4), torch.randn(12, 3)
tiles = list(zip(k.split(2), v.split(2), strict=True))
for order in ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 5, 1, 4, 2]):
    known = read_tile(q, *tiles[order[0]])
    for at in order[1:]:
        known = merge(known, read_tile(q, *tiles[at]))
    print(order, "gives attention:", torch.allclose(known[2] / known[1], attention(q, k, v)[0], atol=1e-6))

# %% [markdown] name="ex-tiled-text"
# ## Attention by tiles
#
# Now all of it. Queries are cut into tiles, too. A tile of queries stays on the desk, and the tiles of keys and
# values pass by, one after the other. Query `i` stands at position `i`, and so do keys; the causal mask of a tile is
# made from the positions of its queries and keys, where it is needed. A tile that lies wholly in the future is not
# even fetched.
#
# **Exercise 14.tiled · ★★★ · 10 min.** `read_tile` and your `merge` do the arithmetic; you write the two loops.

# %% name="ex-tiled" tags=["exercise"] course={"exercise": "14.tiled"}
def tiled_attention(query, key, value, query_tile, key_tile):
    """Causal attention by tiles: (..., position, d) each → (..., position, d_v), dtype of query.

    Holds no (query, key) matrix, of scores or of a mask. A tile of keys that lies wholly in the
    future of a tile of queries is not read. Computed in float32, rounded at the end.
    """
    raise NotImplementedError

# %% name="check-tiled" tags=["check", "nbval-ignore-output"]
tiled_attention = check("14.tiled", tiled_attention)

# %% [markdown] name="same-text"
# Exact for *any* tile size? We try all pairs from 1 to 14 on 13 tokens, and the library's `flash_attention` as well.
# Then bfloat16, in which large models compute: how far are yours and plain attention from the result in float64?

# %% name="same"
from course_lib.model.flash import causal_tiles, flash_attention

place = torch.arange(13)
parts = [torch.randn(2, 3, 13, width) for width in (8, 8, 5)]  # query, key, value: (batch, head, position, …)
plain = attention(*parts, causal_mask(place, place))[0]
pairs = [(a, b) for a in range(1, 15) for b in range(1, 15)]
yours = [torch.allclose(tiled_attention(*parts, *pair), plain, atol=1e-6) for pair in pairs]
library = flash_attention(*parts, causal_tiles(place, place), query_tile=3, key_tile=2)
print(f"{len(pairs)} pairs of tile sizes, exact in all: {all(yours)}")
print("the library:", torch.allclose(library, plain, atol=1e-6))

place, short = torch.arange(500), [torch.randn(500, 64).bfloat16() for _ in "qkv"]
exact = attention(*(x.double() for x in short), causal_mask(place, place))[0]
in_tiles, at_once = tiled_attention(*short, 48, 32), attention(*short, causal_mask(place, place))[0]
errors = [(x.double() - exact).abs().mean().item() for x in (exact.bfloat16(), in_tiles, at_once)]
print("bfloat16, yours: no error beyond rounding the output:", errors[1] < 1.02 * errors[0])
print("bfloat16, plain: more than twice that error:         ", errors[2] > 2 * errors[1])

# %% [markdown] name="same-answer"
# **Exact**, in the sense that only the last bits can differ, as they do between two orders of adding up. In bfloat16
# the tiles are even *better*: what is on the desk stays in float32, and rounding happens once. (GPU kernels also
# round the exponentials before they meet the values, for speed; the sums they keep in float32.) How much that matters
# shows when the running sums are kept in bfloat16 instead. Let a query read 1,000 keys alike. The first half of the
# values is 1, the second 0. **Predict** the output.

# %% name="break-bfloat16"
totals, outputs = {}, {}
for dtype in (torch.float32, torch.bfloat16):
    total = mixed = torch.tensor(0.0, dtype=dtype)
    for at in range(1000):  # all scores are equal, so the largest never changes
        total = total + 1
        mixed = mixed + (1 if at < 500 else 0)
    totals[dtype], outputs[dtype] = total.item(), (mixed / total).item()
    print(f"sums in {dtype}: total {totals[dtype]:.0f}, output {outputs[dtype]:.1f}")

# %% [markdown] name="break-bfloat16-answer"
# It should be 0.5, and is 1.0. With 8 binary digits 256 + 1 is 256 again (lesson 07 met that number): the sum stands
# still, and keys after the 256th are not heard. No NaN, no warning. So **running sums stay in float32**, whatever the
# inputs are.
#
# ## Step through it
#
# Queries go down, keys to the right; eight tokens, tiles of 3 queries and 2 keys. Each key is one number, and the
# first four are the scores of our sheet. Each query is a number, too, by which they are multiplied: 1 for *it*, −1
# for *cross*. A number takes 2 bytes. **Look for** three things: the tiles that are never fetched; what happens to
# the sums of *it* when its largest score rises; and the bytes, which grow when something is fetched or an output is
# written, and never by a score.

# %% name="explorer"
from course_lib.explorers.flash_explorer import FlashExplorer

words = ["animal", "did", "cross", "road", "because", "it", "too", "tired"]
query = torch.tensor([1.0, 1, -1, 1, 0.5, 1, -1, 1])[:, None]  # (token, 1)
key = torch.tensor([4.0, 2, 2, 8, 1, 16, 4, 2]).log()[:, None]
value = torch.tensor([8.0, 4, 4, 2, 1, 3, 2, 5])[:, None]
explorer = FlashExplorer(words, query, key, value, query_tile=3, key_tile=2, row=words.index("it"))
explorer

# %% name="explorer-shown"
steps = explorer.data["steps"]
kept = [step["known"][2]["total"] for step in steps if step["rows"] == [3, 6]]
print("total of “it”, step by step:", ", ".join(kept))
assert sum(step["kind"] == "tile" for step in steps) == 9 and kept == ["0.00", "1.50", "2.00", "2.06", "2.06"]
assert (steps[-1]["bytes"], explorer.data["plain"]) == (104, 576)

# %% [markdown] name="explorer-answer"
# Three of twelve tiles lie in the future and stay in the archive. For *it* the largest score rises twice, from ln 4
# to ln 8 and to ln 16, and each time what it had is halved; *cross*, whose query is −1, has its largest score in the
# first tile and never rescales. 104 bytes have moved, where plain attention moves 576.

# %% [markdown] name="traffic-text"
# ## Count the bytes
#
# How fast a method is on a GPU depends on what goes down the hall and back. We play both with an archive that counts
# every byte carried out of it or into it (no mask, to keep it short). **Predict** which moves more for 1,024 tokens,
# and whether the tile of *keys* matters.

# %% name="counted"
class Archive:
    """A large slow memory that counts the bytes read from it and written to it."""

    moved = 0

    def carry(self, tensor):
        self.moved += tensor.nbytes
        return tensor


def plain_run(archive, query, key, value):
    scores = archive.carry(archive.carry(query) @ archive.carry(key).T / math.sqrt(query.shape[-1]))
    weights = archive.carry(archive.carry(scores).softmax(dim=-1))
    return archive.carry(archive.carry(weights) @ archive.carry(value))


def tiled_run(archive, query, key, value, query_tile, key_tile):
    outputs = []
    for own in query.split(query_tile):
        own, known = archive.carry(own), None
        for k, v in zip(key.split(key_tile), value.split(key_tile), strict=True):
            tile = read_tile(own, archive.carry(k), archive.carry(v))
            known = tile if known is None else merge(known, tile)
        outputs.append(archive.carry(known[2] / known[1]))
    return torch.cat(outputs)

# %% name="counted-runs"
query, key, value = torch.randn(3, 1024, 64)
archive = Archive()
plain = plain_run(archive, query, key, value)
counted = {"plain": archive.moved}
for tile_sizes in ((64, 64), (64, 256), (256, 64)):
    archive = Archive()
    assert torch.allclose(tiled_run(archive, query, key, value, *tile_sizes), plain, atol=1e-5)
    counted[tile_sizes] = archive.moved
for name, moved in counted.items():
    print(f"{name!s:10} {moved:12,} bytes")

# %% [markdown] name="ex-bytes-text"
# The tile of keys plays no part. A larger tile of *queries* helps: each tile of queries sends for all the keys and
# values once, and then there are fewer of them.
#
# **Exercise 14.bytes · ★ · 3 min.** A formula, in place of the archive.

# %% name="ex-bytes" tags=["exercise"] course={"exercise": "14.bytes"}
def tiled_bytes(length, d_head, query_tile, number_bytes):
    """Bytes that one head moves tile by tile, without a mask.

    length queries and as many keys, values and outputs, each of d_head numbers of number_bytes.
    """
    raise NotImplementedError

# %% name="check-bytes" tags=["check", "nbval-ignore-output"]
tiled_bytes = check("14.bytes", tiled_bytes)

# %% [markdown] name="bytes-text"
# For plain attention it is 4·n·d + 4·n² numbers: query, key, value and output once, scores and weights out and in.
# How large may the tile be? All that is at work has to fit on the desk; the library's `sram_bytes` adds it up. We
# draw what moves, in 16-bit numbers, d_head 64. **Look for** the slope of the long ends: do the tiles make the
# *traffic* linear?

# %% name="bytes-picture"
from course_lib.model.traffic import plain_bytes, sram_bytes
from course_lib.model.traffic import tiled_bytes as library_bytes

long = [2**power for power in range(8, 18)]
moving = {"plain": [plain_bytes(n, 64) for n in long]}
for tile in (16, 128):
    moving[f"tiles of {tile} queries"] = [tiled_bytes(n, 64, tile, 2) for n in long]
    print(f"tiles of {tile} queries and 64 keys take {sram_bytes(tile, 64, 64):,} bytes of SRAM")
moving["held: query, key, value, output"] = [4 * n * 64 * 2 for n in long]

ax = plt.subplots(figsize=(6.8, 3.6), layout="constrained")[1]
for (name, bytes_moved), style in zip(moving.items(), ("o-", "o-", "o-", ":"), strict=True):
    ax.loglog(long, bytes_moved, style, markersize=3, label=name)
ax.set_xlabel("tokens")
ax.set_ylabel("bytes, one head")
ax.legend()
plt.show()

# %% name="bytes-shown"
assert [list(line.get_ydata()) for line in ax.lines] == list(moving.values())
assert counted["plain"] == plain_bytes(1024, 64, 4) and counted[256, 64] == tiled_bytes(1024, 64, 256, 4)
assert all(tiled_bytes(n, 64, 128, 2) == library_bytes(n, 64, 128, 64, causal=False) for n in long)
plain, small, large, held = (counts[-1] / counts[-2] for counts in moving.values())
assert all(abs(growth - 4) < 0.05 for growth in (plain, small, large)) and held == 2
assert abs(moving["plain"][-1] / moving["tiles of 128 queries"][-1] - 4) < 0.05
assert moving["tiles of 16 queries"][-1] > moving["plain"][-1]
assert sram_bytes(128, 64, 64) < 192 * 1024

# %% [markdown] name="bytes-answer"
# No. What is *held* is linear (dotted); what *moves* grows with the square for all, n²·2d / query_tile numbers in
# place of 4·n². Tiles of 16 queries move *more* than plain attention, tiles of 128 a quarter. So the gain comes from
# the size of the desk: if the tile of queries fills an SRAM of M numbers, it has about M/(4d) rows, and some 8·n²d²/M
# numbers move. Dao et al. (2022, theorem 2) say Θ(n²d²/M), up to a constant factor, where plain attention moves
# Θ(nd + n²). A causal mask halves the tiles' traffic once more, since half of them stay where they are. (We count a
# GPU's registers as desk, and leave its caches out.)
#
# ## The way back
#
# In training, plain attention also keeps its weights until the gradients come. FlashAttention keeps the output and
# one number a query, $m + \ln \ell$, and computes each tile's weights *again* on the way back, as exp(score − that
# number): arithmetic is cheaper than memory traffic. (The first version kept $m$ and $\ell$ apart.) The library's
# `flash_attention` does so.

# %% name="backward"
place, parts = torch.arange(600), [torch.randn(600, 16, requires_grad=True) for _ in "qkv"]
mask = causal_mask(place, place)  # made before we measure
ways = {
    "plain": lambda: attention(*parts, mask)[0],
    "tiles": lambda: flash_attention(*parts, causal_tiles(place, place), query_tile=64, key_tile=64),
}
gradients = {}
for name, way in ways.items():
    with LargestTensor() as made:
        gradients[name] = torch.autograd.grad(way().square().sum(), parts)
    print(f"{name}: largest tensor, forward and back, {made.bytes:,} bytes")
assert 600 * 600 * 4 == 1_440_000 and 600 * 16 * 4 == 38_400
print("the same gradients:", all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*gradients.values(), strict=True)))

# %% [markdown] name="approximate-text"
# Plain, the largest tensor is the matrix of 600 · 600 weights; by tiles it is a query, key or value itself.
#
# ## Exact and approximate
#
# All this saved traffic and memory. Fewer FLOPs need another function. **Sliding-window attention** (Beltagy et
# al. 2020) lets a token read its neighbours alone, with our mask the last w tokens, itself included: about n·w pairs
# in place of n²/2.
#
# | | computes | arithmetic | holds |
# |---|---|---|---|
# | written out | attention | n² | n² |
# | by tiles | the same, but for the last bits | n² | n |
# | sliding window, by tiles | something else | n·w | n |
#
# A test tells them apart: change a word far away, and see whether the answer moves. In our sentence, and in its twin
# 那只动物没有过马路，因为它太累了, we exchange *animal* (动) and look at *it* (它), with random vectors, one layer, and a window of 4.
# **Predict** what each notices.

# %% name="window"
def windowed(query, key, value):
    place = torch.arange(len(query))
    return flash_attention(query, key, value, causal_tiles(place, place, window=4), query_tile=3, key_tile=2)


def plain(query, key, value):
    place = torch.arange(len(query))
    return attention(query, key, value, causal_mask(place, place))[0]


methods = {"plain": plain, "tiles": lambda q, k, v: tiled_attention(q, k, v, 3, 2), "window of 4": windowed}
english = ["The", "animal", "did", "not", "cross", "the", "road", "because", "it", "was", "too", "tired"]
for words, noun, it in ((english, "animal", "it"), (list("那只动物没有过马路，因为它太累了"), "动", "它")):
    x = torch.randn(len(words), 8)
    changed = x.clone()
    changed[words.index(noun)] += 1
    for name, method in methods.items():
        before, after = (method(vectors, vectors, vectors)[words.index(it)] for vectors in (x, changed))
        print(f"exchange {noun}, {name:11}: {it} notices: {not torch.allclose(before, after)}")

# %% [markdown] name="window-loss-text"
# What does a window cost? We put one on the shipped GPT, which was trained without, and measure the loss of the
# second half of texts of 256 characters (easier than lesson 10's whole split), at two places of the validation split.
# **Guess** from which window on it hurts.

# %% name="window-loss" tags=["nbval-ignore-output"]
from torch.nn.functional import cross_entropy

model.attention_kernel = "fused"
window_losses = {}
for start in (0, 40_000):
    piece = corpus.validation[start : start + 32 * 256 + 1]
    inputs, targets = piece[:-1].view(32, 256), piece[1:].view(32, 256)
    for window in (256, 64, 32, 16, 8, 4, 2):
        with torch.no_grad():
            logits = model(inputs, window=window)[:, 128:]
        loss = cross_entropy(logits.flatten(0, 1), targets[:, 128:].flatten()).item()
        window_losses.setdefault(window, []).append(loss)
for window, losses in window_losses.items():
    print(f"window {window:3}: loss", *(f"{loss:.2f}" for loss in losses))

# %% name="window-loss-bounds"
full = torch.tensor(window_losses[256])
cost = {window: torch.tensor(losses) - full for window, losses in window_losses.items()}  # (piece,)
assert cost[64].abs().max() < 0.01 and cost[32].max() < 0.015 and (cost[16] > 0.01).all() and cost[16].max() < 0.06
assert (cost[4] > 0.08).all() and cost[4].max() < 0.3 and (cost[2] > 0.6).all()

first, changed = corpus.validation[None, :100], corpus.validation[None, :100].clone()
changed[0, 0] = (changed[0, 0] + 1) % tokenizer.vocab_size
fine = model.double()  # float64, since the effect becomes faint
with torch.no_grad():
    moved = (fine(first, window=16) - fine(changed, window=16)).abs().amax(dim=-1)[0]
print("window 16: the first character is felt up to place", (moved > 1e-12).nonzero().max().item())
assert moved[10] > 0.01 and moved[60] < 1e-4

# %% [markdown] name="window-answer"
# Hardly at first. A window of 32 costs less than 0.01 nats, 8 costs about 0.05, and only with 4 or 2 characters does
# the model suffer. Two readings, both right. This small model has learned little from what stands far back, so it
# loses little; that says nothing about a model that has to find a name 10,000 tokens ago. And layers pass on what
# they have read: in four layers a window of 16 reaches 4·15 = 60 places, if ever more faintly. Mistral 7B (Jiang et
# al. 2023) was trained with a window of 4,096 in 32 layers. (One model, two pieces of text: no law.)

# %% [markdown] name="million-text"
# ## What a million tokens took
#
# Parts can be merged in any order, *and from anywhere*. **Ring attention** (Liu, Zaharia & Abbeel 2023) spreads a
# text over many devices. Each keeps its queries and a block of keys and values; the blocks go round, and each device
# merges what passes by. Four devices, played by a loop:

# %% name="ring"
q, k, v = torch.randn(3, 80, 16)
place = torch.arange(80).chunk(4)  # positions that each device holds
devices = list(zip(q.chunk(4), place, strict=True))
blocks = list(zip(k.chunk(4), v.chunk(4), place, strict=True))
known = [None] * 4
for step in range(4):
    for device, (own, rows) in enumerate(devices):  # all at once, on real devices
        block_key, block_value, columns = blocks[(device - step) % 4]
        if columns[0] <= rows[-1]:  # else it lies in the future
            part = read_tile(own, block_key, block_value, columns <= rows[:, None])
            known[device] = part if known[device] is None else merge(known[device], part)
output = torch.cat([mixed / total for _, total, mixed in known])
whole = torch.arange(80)
print("plain attention:", torch.allclose(output, attention(q, k, v, causal_mask(whole, whole))[0], atol=1e-5))
print("keys on a device:", len(blocks[0][0]), "of", len(k))

# %% [markdown] name="million-ask"
# So memory need not stop us: with more tokens, take more devices. Arithmetic is still due. **Guess**, for a model of
# 32 layers that is 4,096 wide: how many times the work of all its matrices is attention at a million tokens?

# %% name="million"
layers, d_model = 32, 4096
for n in (8_192, 131_072, 1_000_000):
    attention_flops = layers * 4 * n * n * d_model / 2  # a causal mask leaves half
    other_flops = layers * 24 * n * d_model**2
    print(f"{n:9,} tokens: attention {attention_flops:.1e} FLOPs, {attention_flops / other_flops:5.2f} times the rest")

# %% [markdown] name="practice"
# Twenty times, 2.6·10¹⁷ FLOPs for one reading; at 10¹⁵ a second that is more than four minutes for one device. So a
# million-token context took several things at once: memory that grows with n (Rabe & Staats 2021; Dao et al. 2022), a
# text spread over devices (ring attention), smaller caches ([lesson 15](15_smaller_caches.ipynb)), positions that
# reach so far (lesson 07), and a great deal of arithmetic, which exact attention does not save. Gemini 1.5 (2024)
# reports a million tokens and more, and does not say how. And to *read* is not to *use*: N. F. Liu et al. (2023)
# found models that answered worse when what mattered stood in the middle of a long context.
#
# ## In practice
#
# **How much faster?** The abstract of Dao 2023 sums up FlashAttention as 2–4 times faster than optimised baselines;
# GPT-2 trained up to 3 times faster as a whole (Dao et al. 2022). FlashAttention-2 puts the loop over queries
# outside, as we did (the first version had keys outside and fetched the outputs again and again), and reports about
# twice the speed once more: 50–73 % of an A100's peak.
#
# **You have it already.** `scaled_dot_product_attention` is what the course's GPT calls; PyTorch picks a kernel. Say
# `is_causal=True` rather than handing it a mask: its flash kernel for GPUs takes no mask of your own, and skips the
# future by itself.
#
# **On a CPU** the desk is the processor's cache. The same idea helps, as the first picture showed; by how much
# depends on the machine.

# %% [markdown] name="recap"
# ## Recap
#
# 1. Double the context: projections and feed-forward **double**; scores and mixing take **four times** the
#    arithmetic, and so do the bytes of a matrix of weights. Both kinds of arithmetic are even at n = 6·d_model
#    (feed-forward of 4·d_model, no mask).
# 2. An **online softmax** keeps, for each query, the largest score, the sum and the mixed values; when the largest
#    rises, the others are multiplied by exp(old − new). Two parts **merge** in any order.
# 3. **By tiles** of any size this is attention, exactly; running sums in float32. Forgetting to rescale is right by
#    luck in one row of four, with four tiles.
# 4. Plain attention moves 4·n·d + 4·n² numbers, tiles 2·n·d·(1 + ⌈n/query_tile⌉) (no mask): both **grow with n²**,
#    and the size of the SRAM decides how much is saved. What is *held* grows with n.
# 5. FlashAttention is **exact**; a sliding window is an **approximation**. A million tokens took linear memory, many
#    devices, small caches, and arithmetic: for a model 4,096 wide, twenty times that of all else.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; in one of them two choices are right.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("14")

# %% [markdown] name="sources"
# ## Sources
#
# - Dao, Fu, Ermon, Rudra, Ré 2022, *FlashAttention*, [arXiv 2205.14135](https://arxiv.org/abs/2205.14135): tiles, the
#   way back, theorem 2, and the measurements quoted.
# - Dao 2023, *FlashAttention-2*, [arXiv 2307.08691](https://arxiv.org/abs/2307.08691): the order of loops that we
#   use, and why it is faster.
# - Milakov, Gimelshein 2018, *Online normalizer calculation for softmax*,
#   [arXiv 1805.02867](https://arxiv.org/abs/1805.02867): the running largest score and sum.
# - Rabe, Staats 2021, *Self-attention Does Not Need O(n²) Memory*,
#   [arXiv 2112.05682](https://arxiv.org/abs/2112.05682): the same sums, to save memory.
# - Beltagy, Peters, Cohan 2020, *Longformer*, [arXiv 2004.05150](https://arxiv.org/abs/2004.05150): sliding windows;
#   Jiang et al. 2023, *Mistral 7B*, [arXiv 2310.06825](https://arxiv.org/abs/2310.06825): a large model with one.
# - Liu, Zaharia, Abbeel 2023, *Ring Attention*, [arXiv 2310.01889](https://arxiv.org/abs/2310.01889): parts merged
#   across devices.
# - Gemini Team 2024, *Gemini 1.5*, [arXiv 2403.05530](https://arxiv.org/abs/2403.05530): contexts of a million
#   tokens, reported.
# - N. F. Liu et al. 2023, *Lost in the Middle*, [arXiv 2307.03172](https://arxiv.org/abs/2307.03172): what models
#   make of a long context.

# %% [markdown] name="next"
# ## Next
#
# While a model *writes*, there is one query at a time and no matrix of weights to speak of. What grows then is the
# cache of keys and values ([lesson 12](12_generate.ipynb)), and it has to be read for every token. **[Lesson
# 15](15_smaller_caches.ipynb)** makes it smaller.
