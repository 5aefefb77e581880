# %% [markdown] name="title"
# # Remember less: MQA, GQA and MLA
#
# Lesson 15 · [00 Start here](00_start_here.ipynb) · before: [14 The bill](14_the_bill.ipynb) · next: [16 Mixture of experts](16_mixture_of_experts.ipynb)

# %% [markdown] name="goals"
# **What you will build.** Attention whose heads share their keys and values; a conversion that makes a trained model
# of lesson 05's kind share them; and the step that lets multi-head latent attention read a short summary of each
# token as it is.
#
# **Afterwards you can**
#
# 1. say what a cache costs in memory and in time, and which numbers of a model decide it;
# 2. let query heads share keys in groups, in the right order;
# 3. convert a trained model, and judge what a short training repairs;
# 4. move W_UK out of the keys and into the query, and say why rotary positions stand in the way;
# 5. read losses seed by seed, and say what follows from them and what does not.
#
# **What you need.** Heads (lesson 05), RoPE ([07](07_rotary_positions.ipynb)), and the KV cache of [lesson
# 12](12_generate.ipynb): keys and values of what was read are kept, and a new token is worked through alone.
# **Time:** 60 minutes, 26 of them for four exercises.

# %% name="setup"
import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, mine, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("15")

# %% [markdown] name="question"
# ## The model fits. How many readers do?
#
# Llama-2-70B has 69 billion weights, 138 GB in 16 bits. Say that we have a machine with eight GPUs of 80 GB, 640 GB
# in all: 502 GB are left for caches. The weights are there once for everybody, but each conversation needs a cache of
# its own. The model has 80 layers and 64 query heads of width 128. Built as in lesson 05, it would have 64 key and
# value heads too, and a conversation of 4,096 tokens the cache of 10.7 GB that [lesson 12](12_generate.ipynb) ended
# with. **Guess** how many of these fit, and how many with the 8 key heads that it really has.

# %% name="readers"
from dataclasses import replace

from course_lib.model.model_cards import cache_bytes, card_of

published = card_of("Llama-2-70B")
free = 8 * 80 * 10**9 - 2 * 68_976_648_192  # bytes; it has 68,976,648,192 weights
for n_kv_heads in (64, published.n_kv_heads):
    each = cache_bytes(replace(published, n_kv_heads=n_kv_heads), tokens=4096)
    print(f"{n_kv_heads:2} key heads: {each / 1e9:5.2f} GB a conversation, {free // each} of them fit")

# %% name="readers-shown"
assert cache_bytes(replace(published, n_kv_heads=64), 4096) == 2 * 80 * 64 * 128 * 4096 * 2 == 10_737_418_240
assert round(free / 1e9) == 502 and free // 10_737_418_240 == 46 and free // cache_bytes(published, 4096) == 374

# %% [markdown] name="question-answer"
# Forty-six, on eight large GPUs; and 374 as it was published. Memory is only half of it. For each new token the whole
# cache is fetched from memory, all 10.74 GB, to be multiplied with *one* query a head. The processor waits for memory
# most of that time, so fewer bytes should be less time, too. We shall measure it.
#
# What can we leave out? [Lesson 12](12_generate.ipynb)'s formula has these factors, for each text:
#
# > 2 (keys, values) · layers · **key heads** · **width of a head** · tokens · bytes of a number
#
# Fewer *tokens* is [lesson 14](14_the_bill.ipynb)'s window. This lesson is about the two in bold: fewer heads that
# keep something, or less kept for all of them together.
#
# ## One table of keys, several questions
#
# Four query heads, but only two heads of keys: query heads 0 and 1 share key head 0, query heads 2 and 3 the other
# one. Numbers **set by hand**: key head 0 says whether a word *is* something living or a place; key head 1, what it
# is *said of*. **Predict**: heads 0 and 1 share their keys. Must they read the same word?

# %% name="by-loop"
causal_mask, masked_attention = mine("04.mask"), mine("04.attention")

words = ["animal", "road", "it", "tired"]
keys = torch.tensor([  # (kv_head, key, d_head)
    [[1.0, 0], [0, 1], [0, 0], [0, 0]],  # (living, place)
    [[0.0, 0], [0, 0], [0, 0], [1, 0]],  # (said of what lives, said of places)
])
it_asks = torch.tensor([[8.0, 0], [0, 8], [8, 0], [0, 8]])  # the queries of "it": (head, d_head)

for head in range(4):
    kv_head = head // 2
    scores = [sum(q * k for q, k in zip(it_asks[head], key, strict=True)) / 2**0.5 for key in keys[kv_head]]
    weights = torch.stack(scores).softmax(dim=0)
    shown = ", ".join(f"{word} {weight:.2f}" for word, weight in zip(words, weights, strict=True))
    print(f"head {head}, by key head {kv_head}: {shown}")

# %% [markdown] name="by-loop-answer"
# They need not: head 0 reads *animal*, head 1 *road*. Sharing keys is sharing the *table*, not the question. Head 3
# looks for something said of places, and nothing here is, so it reads all alike. (The Chinese twin, 它 between 动物, 马路
# and 累, works with the same numbers.)
#
# Several query heads that share a key head and its values are a **group**. (A **key head** in this lesson always
# means keys *and* values of a head; papers say **KV head**, and our code `n_kv_heads`.) **Grouped-query attention** (GQA;
# Ainslie et al. 2023) has some key heads, each with a group; **multi-query attention** (MQA; Shazeer 2019) has one,
# for all; lesson 05's kind, a key head for each query head, is then called **MHA**, multi-head attention. Groups are
# *neighbouring* heads: with 6 query heads and 3 key heads, query heads 0 and 1 read key head 0, the next two key head
# 1, and so on. It is a convention, but a model trained with it works with no other.

# %% [markdown] name="ex-groups-text"
# **Exercise 15.groups · ★★ · 6 min.** `masked_attention(query, key, value, may_attend)` of lesson 04 gives output and
# weights, and wants as many key heads as query heads. Make keys and values fit, call it, and return the output.

# %% name="ex-groups" tags=["exercise"] course={"exercise": "15.groups"}
def grouped_attention(query, key, value, may_attend):
    """Attention whose query heads share keys and values in groups of neighbours.

    query: (batch, head, query, d_head), key and value: (batch, kv_head, key, d_head),
    may_attend: (query, key), bool → output (batch, head, query, d_head)
    """
    raise NotImplementedError

# %% name="check-groups" tags=["check", "nbval-ignore-output"]
grouped_attention = check("15.groups", grouped_attention)

# %% [markdown] name="same-text"
# The loop, your function, and the library's layer, which has had `n_kv_heads` all along: the same numbers?

# %% name="same"
from course_lib.model.attention import MultiHeadAttention

output = grouped_attention(it_asks[None, :, None], keys[None], keys[None], torch.ones(1, 4).bool())
print("head 3 as in the loop:", torch.allclose(output[0, 3, 0], weights @ keys[1]))

x, places = torch.randn(2, 7, 24), torch.arange(7)
for n_kv_heads in (6, 3, 2, 1):
    layer = MultiHeadAttention(24, 6, n_kv_heads=n_kv_heads)
    query, key, value = layer.project(x, layer.positions.places(places, layer.d_head))
    output = layer.output(grouped_attention(query, key, value, causal_mask(7)).transpose(1, 2).flatten(2))
    same = torch.allclose(output, layer(x, places, causal_mask(7))[0], atol=1e-5)
    kept = key[0, :, 0].numel() + value[0, :, 0].numel()  # of one token
    print(f"key heads: {n_kv_heads}, kept of a token: {kept} numbers, like the library: {same}")

# %% [markdown] name="convert-text"
# ## Convert a trained model
#
# Must a model be trained anew to share? Ainslie et al. convert a trained MHA model: the key matrix of each group
# becomes the **mean** of its heads' key matrices, and its value matrix that of their value matrices; then the model
# is trained on, for a twentieth of the steps of its first training (they call it *uptraining*). We do it to the
# Shakespeare model that comes with the course: four layers, four heads.
#
# **Exercise 15.convert · ★★ · 6 min.** The heart of it: one matrix in, the smaller one out. Head h is made by rows
# h·d_head to (h + 1)·d_head − 1.

# %% name="ex-convert" tags=["exercise"] course={"exercise": "15.convert"}
def share_heads(weight, n_heads, n_kv_heads):
    """The weight of a key or value matrix for fewer heads: each the mean of its group's heads.

    weight: (n_heads · d_head, d_model) → (n_kv_heads · d_head, d_model); rows as nn.Linear has them
    """
    raise NotImplementedError

# %% name="check-convert" tags=["check", "nbval-ignore-output"]
share_heads = check("15.convert", share_heads)

# %% [markdown] name="convert-predict"
# The shipped model's loss is 1.49 on the validation split; an even guess costs ln 63 = 4.14. **Predict** the loss
# with two key heads for four query heads, at once: a little worse, half-way, useless? And for another way, which one
# would think cruder: each group keeps the keys and values of its *first* head and drops the other's.

# %% name="convert"
from course_lib.data.corpora import DATA_FOLDER, load_corpus
from course_lib.model.gpt import GPT
from course_lib.training.checkpoint import load_run
from course_lib.training.trainer import evaluate

corpus = load_corpus("shakespeare")
some = corpus.validation[:20_000]
shipped = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")[0]


def converted(model, n_kv_heads, share):
    """A copy that shares key heads; share(weight, n_heads, n_kv_heads) makes each smaller matrix."""
    fewer = GPT(replace(model.config, n_kv_heads=n_kv_heads))
    weights = model.state_dict()
    for name, weight in weights.items():
        if "attention.key.w" in name or "attention.value.w" in name:
            weights[name] = share(weight, model.config.n_heads, n_kv_heads)
    fewer.load_state_dict(weights)
    return fewer


def first_heads(weight, n_heads, n_kv_heads):
    return weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))[:, 0].flatten(0, 1)

# %% name="convert-losses" tags=["nbval-ignore-output"]
at_once = {"as it is": evaluate(shipped, some)}
for name, share in {"mean": share_heads, "first": first_heads}.items():
    at_once[name] = evaluate(converted(shipped, 2, share), some)
print("loss at once, on 20,000 characters:", {name: round(loss, 2) for name, loss in at_once.items()})

key = shipped.blocks[0].attention.key.weight
likeness = torch.corrcoef(key.unflatten(0, (4, -1)).flatten(1))[0, 1].item()  # of the matrices of heads 0 and 1
print(f"correlation of two heads' key matrices: {likeness:.2f}; "
      f"size of their mean, of their own: {(share_heads(key, 4, 2).norm() / first_heads(key, 4, 2).norm()):.2f}")

# %% name="convert-bounds"
half_way = (at_once["as it is"] + torch.tensor(63.0).log().item()) / 2  # from the model to an even guess
assert 1.4 < at_once["as it is"] < 1.6 and half_way < at_once["first"] < at_once["mean"] - 0.2
assert abs(likeness) < 0.1, "nothing in common"

# %% [markdown] name="convert-answer"
# Worse than half-way to guessing; and the mean, the careful way, is *worse* than dropping a head. The second line
# hints at why: the key matrices of two heads have nothing in common (correlation about 0; so their mean has √½ = 0.7
# of the size). With a mean key, head 0's score is half the right one plus half of its query times a key made for
# *another* head, and so it is for head 1: both read badly. Whoever keeps the first head keeps one of two readers
# whole.
#
# But the paper's claim is about the loss *after* training. Here are 40 steps of it, for the mean. The table below has
# 100 steps, with three seeds, for both ways, for random numbers in place of the key and value matrices, and for the
# model *unchanged*, since 100 more steps might change the loss by themselves. **Predict** the order of the four after
# training.

# %% name="recover" tags=["nbval-ignore-output"]
from course_lib.data.batches import random_windows
from course_lib.training.trainer import next_token_loss


def train(model, steps, batch_size, rate, seed=0):
    """Plain AdamW on random windows of the training split, as in lesson 10."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        inputs, targets = random_windows(corpus.train, batch_size, model.config.context_length, generator)
        loss = next_token_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


shared = converted(shipped, 2, share_heads)
train(shared, steps=40, batch_size=8, rate=1e-3)
recovered = evaluate(shared, some)
print(f"mean of two heads: {at_once['mean']:.2f} at once, {recovered:.2f} after 40 steps")

# %% name="recover-table"
from course_lib.data.tables import load_table

table = load_table("smaller_caches")


def mean_and_range(losses, digits=2):
    """A mean over seeds, and in brackets from which to which."""
    return "{:.{d}f} ({:.{d}f}–{:.{d}f})".format(sum(losses) / len(losses), min(losses), max(losses), d=digits)


print("measured by:", table["command"])
print(" " * 15, "at once          after 100 steps    (losses: mean over seeds, and range)")
for what, by_seed in table["conversion"]["losses"].items():
    print(f"{what:15}", *(mean_and_range(losses) for losses in zip(*by_seed, strict=True)))

# %% name="recover-bounds"
assert recovered < 1.75 < at_once["mean"] - 1
conversion = table["conversion"]["losses"]
for n in (2, 1):
    mean, first, new = (conversion[f"{n} heads, {way}"] for way in ("mean", "first", "random"))
    for seed, (at_first, after) in enumerate(conversion["unchanged"]):
        assert mean[seed][0] > first[seed][0] + 0.1, "at once the mean is worse …"
        assert mean[seed][1] < first[seed][1] - 0.1 < new[seed][1] - 0.3, "… and after training it is best"
        assert after + 0.02 < mean[seed][1] < after + 0.2 and at_first < after

# %% [markdown] name="recover-answer"
# The order has turned round, with each of three seeds: **after** training the mean is best, then the first head, and
# random numbers come last, as Ainslie et al. found. The mean of two unrelated matrices is useless as it stands, but
# it holds half of both, and training can build on it. (One difference: their converted T5 was usable with GQA at
# once, and only MQA needed the training.) A first look, without training, would have recommended the wrong way.
#
# And the unchanged model? 100 steps of our plain training, at a high and constant rate, made it *worse*: from 1.49 to
# 1.54. That 1.54 is what the others should be held against: two key heads cost about 0.04 more, one costs about 0.18.
# Longer training may close the gap; we did not try.
#
# ## One summary for all heads
#
# The other way to keep less: not fewer heads, but less of a token. All keys and values of all heads are made of *one*
# vector, the token's x of d_model numbers. Why keep 2·d_model numbers of keys and values, when x itself would do?
# That is half the cache of MHA, and nothing is lost, for keys and values can be made again. And a narrower summary of
# x would be less still: **multi-head latent attention** (MLA; DeepSeek-AI 2024) keeps a **latent** $c = xW^{DKV}$ (D
# for *down*), short and the same for all heads. Each head i has two matrices that make its own key and value of it:
# $cW^{UK}_i$ and $cW^{UV}_i$ (U for *up*; the code writes `w_uk`).
#
# The catch: at each step the keys and values of the whole past would have to be made anew from the latents, for every
# head. Unless … **On paper**, a latent of two numbers, a head of three:
#
# > c = (2, 1), W_UK = [[1, 0, 2], [0, 3, 1]], q = (1, 1, 1)
#
# Make the key, c W_UK, and its product with q. Then multiply q with W_UKᵀ first, and the result with c.

# %% name="paper"
c = torch.tensor([2, 1])  # (d_latent,)
w_uk = torch.tensor([[1, 0, 2], [0, 3, 1]])  # (d_latent, d_head)
q = torch.tensor([1, 1, 1])  # (d_head,)
print("key:", (c @ w_uk).tolist(), "  score:", (q @ (c @ w_uk)).item())
print("q W_UKᵀ:", (q @ w_uk.T).tolist(), "  score:", ((q @ w_uk.T) @ c).item())

# %% [markdown] name="paper-answer"
# Ten both times: $q\,(cW^{UK})^\top = (q\,W^{UK\top})\,c^\top$, brackets may move. In the first line W_UK is applied
# to *each token of the past*; in the second once, to the new query, and the past is read as it lies in the cache.
# W_UK is **absorbed** into the query. The values likewise: the weighted mean of values c W_UV is the weighted mean of
# the latents, times W_UV.
#
# **Exercise 15.absorb · ★★★ · 9 min.** The check also looks at what you make on the way: no key or value of a past
# token. (No mask: as in a step with a cache, all of it may be read.)

# %% name="ex-absorb" tags=["exercise"] course={"exercise": "15.absorb"}
def absorbed_attention(query, latent, up_key, up_value):
    """Attention over latents; no key or value of any head is ever made.

    query: (batch, head, query, d_head), latent: (batch, key, d_latent),
    up_key, up_value: (head, d_latent, d_head) → output (batch, head, query, d_head)
    """
    raise NotImplementedError

# %% name="check-absorb" tags=["check", "nbval-ignore-output"]
absorbed_attention = check("15.absorb", absorbed_attention)

# %% [markdown] name="absorbed-text"
# Again three ways: a loop that expands every key, all heads at once, and absorbed; then the library's layer. How many
# numbers does each way make of the past, for one new token after 1,000, with 8 heads of 16 and a latent of 32?

# %% name="absorbed"
latent = torch.randn(1, 1000, 32)  # (batch, key, d_latent), all that is kept
query = torch.randn(1, 8, 1, 16)
up_key, up_value = torch.randn(2, 8, 32, 16) / 32**0.5

keys, values = latent[:, None] @ up_key, latent[:, None] @ up_value  # (batch, head, key, d_head)
scores = torch.stack([torch.stack([query[0, h, 0] @ key for key in keys[0, h]]) for h in range(8)]) / 4
by_loop = torch.stack([scores[h].softmax(dim=0) @ values[0, h] for h in range(8)])
expanded = masked_attention(query, keys, values, torch.ones(1, 1000).bool())[0]
absorbed = absorbed_attention(query, latent, up_key, up_value)
print("loop, expanded, absorbed are equal:", torch.allclose(by_loop, expanded[0, :, 0], atol=1e-5),
      torch.allclose(expanded, absorbed, atol=1e-5))
print(f"made of the past: expanded {keys.numel() + values.numel():,} numbers at each step, absorbed none")

# %% name="same-latent"
from course_lib.model.latent_attention import LatentAttention

layer = LatentAttention(24, 6, d_latent=7)
x, places = torch.randn(2, 11, 24), layer.positions.places(torch.arange(11), 0)
output, weights = layer(x, places, causal_mask(11), return_weights=True)
kept, _ = layer.compress(x, places)  # (batch, position, d_latent)
again, same_weights = layer.absorbed(x, kept, None, places, causal_mask(11))
print("kept:", tuple(kept.shape), " outputs equal:", torch.allclose(output, again, atol=1e-5),
      " weights equal:", torch.allclose(weights, same_weights, atol=1e-5))

query = layer.turned_query(x, places)[:, :, -1:]  # of the last token (nothing is turned here: d_rotary is 0)
last = absorbed_attention(query, kept, layer.by_head(layer.key), layer.by_head(layer.value))
last = layer.output(last.transpose(1, 2).flatten(2))[:, 0]
print("yours, for the last token:", torch.allclose(last, output[:, -1], atol=1e-5))

# %% [markdown] name="break-text"
# ## Break it: turn the keys
#
# What we left out is the position. With RoPE (lesson 07) a query at position m and a key at n are turned, by R(m) and
# R(n), before they meet. Here the key is $cW^{UK}$, and its turn stands *between* W_UK and the query. **Predict**: if
# we turn the query, absorb W_UK into it and read the latents, which scores come out right: all, none, those of one
# distance?

# %% name="break-rope"
rotate = mine("07.rotate")

here, past = torch.tensor([5]), torch.arange(6)
query, latent = torch.randn(1, 1, 1, 8), torch.randn(1, 6, 3)
w_uk = torch.randn(3, 8)
true = rotate(query, here) @ rotate(latent[:, None] @ w_uk, past).transpose(-2, -1)
absorbed = rotate(query, here) @ w_uk.T @ latent[:, None].transpose(-2, -1)
print("turned query, absorbed:", [round(x, 1) for x in (absorbed - true).flatten().tolist()], "off")
for n in past.tolist():
    right = rotate(query, here - n) @ w_uk.T @ latent[:, n, :, None]
    assert torch.allclose(right.flatten(), true[..., n].flatten(), atol=1e-4), "one absorbed query a distance"

# %% name="break-rope-shown"
off = (absorbed - true).abs().flatten()
assert off[0] < 1e-4 and off[1:].min() > 1e-3

# %% [markdown] name="break-answer"
# Only the key at position 0 is right, which is not turned at all. For each *other* distance the query would have to
# be turned and absorbed anew (the loop in the cell does so, and is right): one absorbed query for each token of the
# past, and nothing is won.
#
# DeepSeek's way out is **decoupled RoPE**: leave these keys without a position, and give each query d_rotary further
# entries that *are* turned. What they meet is one turned key of d_rotary numbers that **all heads share**, made of x.
# It is kept beside the latent, and the two scores are added.

# %% [markdown] name="formula"
# ## The formula
#
# For token $t$ with input $x_t$, a token $s$ that it may read, and head $i$. (One detail is new: the latent goes
# through a norm, lesson 08's RMSNorm.)
#
# $$c_t = \mathrm{norm}(x_t W^{DKV}), \quad k_{t,i} = [\,c_t W_i^{UK};\; R_t(x_t W^{KR})\,], \quad v_{t,i} = c_t W_i^{UV}, \quad
# q_{t,i} = [\,x_t W_i^{Q};\; R_t(x_t W_i^{QR})\,]$$
#
# $$\mathrm{score}_{t,s,i} = \frac{q_{t,i} \cdot k_{s,i}}{\sqrt{d_{head} + d_{rotary}}}
# = \frac{(x_t W_i^{Q} W_i^{UK\top}) \cdot c_s \;+\; R_t(x_t W_i^{QR}) \cdot R_s(x_s W^{KR})}{\sqrt{d_{head} + d_{rotary}}}$$
#
# | symbol | in `LatentAttention` | shape | is |
# |---|---|---|---|
# | $W^{DKV}$, norm | `latent`, `latent_norm` | (d_model, d_latent) | down to the latent, for all heads; an RMSNorm |
# | $W_i^{UK}, W_i^{UV}$ | `key`, `value` | (d_latent, d_head) | up to head i's key and value |
# | $W_i^{Q}, W_i^{QR}$ | `query` | (d_model, d_head + d_rotary) | head i's query, and its part that is turned |
# | $W^{KR}$ | `rotary_key` | (d_model, d_rotary) | the one turned key |
# | $R_t$ | `turn` | | RoPE at position t |
# | [ ; ] | `torch.cat(…, dim=-1)` | | one beside the other |
#
# Kept of a token in one layer, g being the number of key heads:
#
# | MHA | GQA | MQA | MLA |
# |---|---|---|---|
# | 2 · n_heads · d_head | 2 · g · d_head | 2 · d_head | d_latent + d_rotary |
#
# ## The four in one GPT
#
# Two layers, width 128, eight heads of 16, and four models that differ in their attention alone. What an attention
# saves in parameters we give to the feed-forward layer (a larger d_ff), so that all four have the same number, to
# within 64. Then a cache of each, for eight texts of 4,096 tokens: **predict** which is smallest, and which is
# fastest.

# %% name="four-kinds"
from course_lib.model.cache import CachedGPT
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import count_parameters

KINDS = {"MHA": {}, "GQA": {"n_kv_heads": 2}, "MQA": {"n_kv_heads": 1}, "MLA": {"d_latent": 32, "d_rotary": 8}}
SHAPE = {"n_layers": 2, "n_heads": 8, "positions": "rotary", "norm": "rms_norm", "bias": False}


def same_size(kind, d_model=128, context_length=64):
    """The model of this kind, whose d_ff makes it as large as the one of MHA."""
    shape = SHAPE | {"vocab_size": 63, "d_model": d_model, "context_length": context_length}
    plain, model = GPT(GPTConfig(**shape)), GPT(GPTConfig(**shape, **KINDS[kind]))
    missing = count_parameters(plain) - count_parameters(model)
    d_ff = 4 * d_model + round(missing / (2 * d_model * model.config.n_layers))
    return GPT(GPTConfig(**shape, **KINDS[kind], d_ff=d_ff))

# %% name="bytes-measured"
caches = {}
for kind in KINDS:
    model = same_size(kind, context_length=4096)
    caches[kind] = CachedGPT(model, batch_size=8)
    numbers = 8 + 32 if kind == "MLA" else 2 * 16 * model.config.kv_heads  # of a token in a layer
    held = caches[kind].keys.untyped_storage().nbytes()
    if kind != "MLA":  # where keys and values are the same latents
        held += caches[kind].values.untyped_storage().nbytes()
    print(f"{kind}: {count_parameters(model):,} parameters, d_ff {model.config.d_ff}; {numbers:3} numbers a token, "
          f"cache {held:,} bytes, by formula {2 * numbers * 4096 * 8 * 4:,}")
    assert held == caches[kind].bytes == 2 * numbers * 4096 * 8 * 4

# %% name="cached-same"
with torch.no_grad():
    for kind in KINDS:
        model, tokens = same_size(kind), corpus.validation[None, :40]
        cache = CachedGPT(model)
        steps = torch.cat([cache(token) for token in tokens.split(1, dim=1)], dim=1)  # one token at a time
        print(f"{kind}: with its cache as without, {torch.allclose(steps, model(tokens), atol=1e-5)}")

# %% name="speed" tags=["nbval-ignore-output"]
import time

milliseconds = {kind: [] for kind in KINDS}
for _ in range(15):
    for kind, cache in caches.items():
        cache.read = [4000] * 8  # as if so much had been read: what lies in the cache does not change the time
        started = time.perf_counter()
        cache(torch.zeros(8, 1, dtype=torch.int64))
        milliseconds[kind].append(1000 * (time.perf_counter() - started))
median = {kind: sorted(times)[7] for kind, times in milliseconds.items()}
print("a step of 8 texts:", ", ".join(f"{kind} {each:.1f} ms" for kind, each in median.items()))

# %% [markdown] name="speed-look"
# **Look for** the bar on the right that is longer than the left panel would make you expect.

# %% name="bars" tags=["nbval-ignore-output"]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.4), sharey=True, layout="constrained")
left.barh(list(KINDS), [cache.bytes / 1e6 for cache in caches.values()], color="tab:blue")
left.set_xlabel("cache, million bytes")
right.barh(list(KINDS), list(median.values()), color="tab:orange")
right.set_xlabel("one step, milliseconds")
left.invert_yaxis()
plt.show()

# %% name="bars-shown"
assert [round(bar.get_width(), 1) for bar in left.patches] == [67.1, 16.8, 8.4, 10.5]
assert [bar.get_width() for bar in right.patches] == list(median.values())

# %% [markdown] name="bars-answer"
# The bytes are those of the formula, to the last one: a quarter, an eighth, and with MLA less than a sixth. (The
# tensor that MLA's cache holds has 32 + 8 numbers a token and is keys and values in one.) Time follows in rough
# steps, since a step has other work to do. And MLA, with fewer bytes than GQA, was no faster when these pages were
# written: for each token of the past an absorbed head multiplies 40 numbers for the score and mixes 32, where the
# others need 16 and 16. It trades memory for arithmetic: a good trade where arithmetic waits for memory, as on a GPU,
# and less of one on our processor.
#
# ## Which one writes best?
#
# Smaller caches must cost something, mustn't they? First a short run here, with models of half the width and 80
# steps; then the table, 600 steps at width 128 with five seeds. The same seed means the same windows of text for all
# four, so they can be compared seed by seed. **Look for** a kind that is worse than MHA with every seed, and for one
# that is not.

# %% name="train-four" tags=["nbval-ignore-output"]
losses = {}
for kind in KINDS:
    torch.manual_seed(0)
    model = same_size(kind, d_model=64)
    train(model, steps=80, batch_size=8, rate=3e-3)
    losses[kind] = evaluate(model, some)
print("one seed, 80 steps:", {kind: round(loss, 2) for kind, loss in losses.items()})

# %% name="five-seeds"
assert max(losses.values()) - min(losses.values()) < 0.25 and max(losses.values()) < 3.0

print("measured by:", table["command"], "; parameters:", table["parameters"])
ax = plt.subplots(figsize=(6.4, 2.6))[1]
for row, (kind, by_seed) in enumerate(table["losses"].items()):
    ax.plot(by_seed, [row] * len(by_seed), "o", alpha=0.6)
    ax.plot([sum(by_seed) / len(by_seed)], [row], "k|", markersize=18)
    against = [f"{loss - mha:+.3f}" for loss, mha in zip(by_seed, table["losses"]["MHA"], strict=True)]
    print(f"{kind}: {mean_and_range(by_seed, digits=3)}, against MHA by seed:", *against)
ax.set_yticks(range(4), table["losses"])
ax.set_ylim(3.5, -0.5)
ax.set_xlabel("validation loss; one dot a seed, the line is their mean")
plt.show()

# %% name="five-seeds-bounds"
by_kind = table["losses"]
assert [line.get_xdata().tolist() for line in ax.lines[::2]] == [list(by_kind[kind]) for kind in KINDS]
against = {k: [a - b for a, b in zip(by_kind[k], by_kind["MHA"], strict=True)] for k in KINDS}
assert min(against["GQA"]) < 0 < max(against["GQA"]) < 0.03, "now better, now worse"
for kind in ("MQA", "MLA"):
    assert min(against[kind]) > 0.01 and max(against[kind]) < 0.06, "worse with each seed, by 1 or 2 %"

# %% [markdown] name="five-seeds-answer"
# **GQA**, with a quarter of the cache: its dots lie among those of MHA, now better, now worse. We see no difference.
# **MQA** and **MLA**, with an eighth and less than a sixth, are worse with *every* seed, by 0.01 to 0.05 of 2.1 nats.
# That is small, but were it luck, all five would fall on one side as seldom as five coins all show heads: once in 32.
#
# What may be concluded? That with two layers, eight heads, 600 steps and one learning rate these two learn a little
# less in the same time. Not whether they would catch up with more steps, with a wider latent or a rate of their own;
# and nothing about models ten thousand times larger. With seed 1 alone we would have called GQA the best of the four;
# and when these pages were written, the short run above put MLA *first*.
#
# The papers have models large enough to tell. Shazeer (2019) found MQA a little worse than MHA in translation;
# Ainslie et al. (2023), who converted T5 models, found GQA with 8 groups close to MHA in quality and close to MQA in
# speed. DeepSeek-AI (2024, appendix D) disagree about GQA: of their models of 7 billion parameters the one with MHA
# was clearly better, on four hard benchmarks, than those with GQA and MQA. And on mixture-of-experts models of 16 and
# 250 billion they report that MLA is *better* than MHA on most of their benchmarks, with 14 % and 4 % of its cache.
#
# ## Real models
#
# **Exercise 15.fit · ★ · 5 min.** Back to the opening question, now for any model. A card is a record of a model's
# numbers, like `published` above; `card.d_latent` is None for all kinds but MLA.

# %% name="ex-fit" tags=["exercise"] course={"exercise": "15.fit"}
def texts_that_fit(card, tokens, free_bytes, bytes_per_number):
    """How many texts of so many tokens have their caches in the memory that is left: an int.

    card: n_layers, n_heads, n_kv_heads, d_head; or, with MLA, d_latent and d_rotary, which are
    None for the others. (No windows.)
    """
    raise NotImplementedError

# %% name="check-fit" tags=["check", "nbval-ignore-output"]
texts_that_fit = check("15.fit", texts_that_fit)

# %% [markdown] name="cards-text"
# And the cards of some published models; `card.source` says where their numbers stand. The last three columns:
# numbers that one token leaves in a layer, bytes that it leaves in all of them, in 16 bits, and how many texts of
# 4,096 tokens have room in 40 GB. **Look for** two models of about 70 billion weights or more whose caches differ by
# more than ten times.

# %% name="cards"
from course_lib.model.model_cards import CARDS

for card in CARDS:
    kept = f"{card.d_latent} + {card.d_rotary}" if card.kind == "MLA" else f"2 × {card.n_kv_heads} × {card.d_head}"
    fit = texts_that_fit(replace(card, window=None), 4096, 40 * 10**9, 2)
    print(f"{card.name:15} {card.kind}, {card.n_layers:3} layers, {card.n_heads:3} heads; "
          f"{kept:12} numbers, {cache_bytes(card, 1):>9,} bytes {fit:5}")

# %% name="cards-shown"
assert texts_that_fit(published, 4096, free, 2) == 374
assert cache_bytes(card_of("GPT-3 175B"), 1) == max(cache_bytes(card, 1) for card in CARDS) == 4_718_592
assert round(cache_bytes(card_of("GPT-3 175B"), 1) / cache_bytes(published, 1)) == 14
assert 67 < cache_bytes(card_of("GPT-3 175B"), 1) / cache_bytes(card_of("DeepSeek-V3"), 1) < 68
assert 2 * 128 * 128 / (512 + 64) > 56 and round((512 + 64) / (2 * 128), 2) == 2.25

# %% [markdown] name="explorer-text"
# The same as bars, for any length, any number of texts and any precision. **Look for** the length at which Mistral's
# bar stops growing, and choose DeepSeek-V3: the line below says what heads of their own would take.

# %% name="explorer"
from course_lib.explorers.cache_calculator import CacheCalculator

CacheCalculator(tokens=8192)

# %% [markdown] name="cards-answer"
# Mistral's bar stops at 4,096 tokens, its window. GPT-3 leaves 4.7 MB a token, 14 times as much as Llama-2-70B;
# DeepSeek-V3, which has more weights (671 billion, of which a token uses 37), leaves a 67th of that. Its 128 heads
# would take 57 times as much if each kept its own keys and values: with 576 numbers it is as cheap as GQA with 2.25
# key heads of 128.
#
# ## In practice
#
# **Who uses what.** LLaMA-2 has GQA in its 34B and 70B models, and MHA in the smaller; Llama 3 has 8 key heads in all
# sizes; Mistral-7B 8, Qwen2.5-7B 4. PaLM and Falcon-7B have MQA, DeepSeek-V2 and V3 have MLA.
#
# **Why 8?** One reason is the machine. A model is often cut over eight GPUs, each with some of the heads. A single
# key head would have to be copied to all of them (Ainslie et al., section 2.2), and the saving be gone; with eight,
# each has its own.
#
# **Training** hardly gets cheaper by it: there is no cache, and all queries come at once. There MLA is expanded;
# absorbed it would compute more. (DeepSeek compress the queries, too, which saves memory in training and none in the
# cache; we left that out.)
#
# **W_UV** can be absorbed likewise, into the matrix of the output that follows it. The library's cached step does
# both.
#
# **All this multiplies** with fewer bytes a number and with windows ([lesson 14](14_the_bill.ipynb)): the factors of
# the formula are independent.

# %% [markdown] name="recap"
# ## Recap
#
# 1. A cache costs 2 · layers · key heads · d_head numbers a token, for **each text**, and all of it is read for each
#    new token. The number of *query* heads does not occur.
# 2. In a **group** neighbouring query heads share keys and values, and still read different tokens, since their
#    queries differ.
# 3. **Converting** by the mean of heads wrecked our model at once, more than dropping heads did; after a short
#    training it was the best of three ways, with each of three seeds.
# 4. **MLA** keeps one latent for all heads. W_UK is absorbed into the query, W_UV comes after the mixture: equal
#    numbers, no key ever made. A turn in between would spoil that, so a small shared key is turned apart.
# 5. With equal steps and parameters our **GQA could not be told from MHA**; MQA and MLA were 1 or 2 % worse with each
#    of five seeds. What that says of large models: nothing.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; in one of them two choices are right.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("15")

# %% [markdown] name="sources"
# ## Sources
#
# - Shazeer 2019, *Fast Transformer Decoding: One Write-Head is All You Need*, [arXiv
#   1911.02150](https://arxiv.org/abs/1911.02150): MQA, and why decoding waits for memory.
# - Ainslie et al. 2023, *GQA*, [arXiv 2305.13245](https://arxiv.org/abs/2305.13245): groups, and the conversion with
#   5 % of the first training.
# - DeepSeek-AI 2024, *DeepSeek-V2*, [arXiv 2405.04434](https://arxiv.org/abs/2405.04434): MLA, section 2.1; its
#   comparison with the others in appendix D. *DeepSeek-V3 Technical Report*, [arXiv
#   2412.19437](https://arxiv.org/abs/2412.19437).
# - Touvron et al. 2023, *Llama 2*, [arXiv 2307.09288](https://arxiv.org/abs/2307.09288), section 2.2; Grattafiori et
#   al. 2024, *The Llama 3 Herd of Models*, [arXiv 2407.21783](https://arxiv.org/abs/2407.21783), table 3; Jiang et
#   al. 2023, *Mistral 7B*, [arXiv 2310.06825](https://arxiv.org/abs/2310.06825); Qwen Team 2024, *Qwen2.5*, [arXiv
#   2412.15115](https://arxiv.org/abs/2412.15115), and 2025, *Qwen3*, [arXiv
#   2505.09388](https://arxiv.org/abs/2505.09388); Jiang et al. 2024, *Mixtral of Experts*, [arXiv
#   2401.04088](https://arxiv.org/abs/2401.04088): the numbers of the cards.
# - Chowdhery et al. 2022, *PaLM*, [arXiv 2204.02311](https://arxiv.org/abs/2204.02311), and Almazrouei et al. 2023,
#   *The Falcon Series*, [arXiv 2311.16867](https://arxiv.org/abs/2311.16867): models with MQA.
# - Pope et al. 2022, *Efficiently Scaling Transformer Inference*, [arXiv
#   2211.05102](https://arxiv.org/abs/2211.05102): what is read, and when, on many processors.

# %% [markdown] name="next"
# ## Next
#
# We saved on what is *kept*. **[Lesson 16](16_mixture_of_experts.ipynb)** saves on what is *computed*: many
# feed-forward layers, of which each token uses a few. And then the course hands over to you.
