# %% [markdown] name="title"
# # Why divide by √d_k: keep attention neither frozen nor blind
#
# Lesson 03 · [00 Start here](00_start_here.ipynb) · before: [02 Build self-attention](02_self_attention.ipynb) ·
# next: [04 The causal mask](04_causal_mask.ipynb)

# %% [markdown] name="goals"
# **What you will build.** A measure of how sure attention is, a softmax that no score can overflow, and attention
# with a temperature. With them you watch what becomes of a model whose scores are scaled wrongly.
#
# **Afterwards you can**
#
# 1. derive the spread of a dot product, and say where the derivation stops being true;
# 2. explain what a saturated softmax does to weights and to gradients;
# 3. give the reason for √d_k, and against d_k;
# 4. read a scale as a temperature;
# 5. write a softmax that survives large scores and 16-bit numbers.
#
# **What you need.** The attention of lesson 02. We use mean, variance and derivatives, and recall each. **Time:**
# 60 minutes, 24 of them for four exercises.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.plots import heatmap, shown
from course_lib.runtime import begin_lesson

begin_lesson("03")

# %% [markdown] name="question"
# ## The same recipe with longer vectors
#
# In lesson 02 a word had four numbers, we divided the scores by √4 = 2 on trust, and *it* read *tired* with a
# weight of 0.95. Four numbers are for paper. A head of the first Transformer compares queries and keys of 64
# numbers (Vaswani et al. 2017), one of GPT-3's of 128 (Brown et al. 2020). What changes when vectors get longer?
#
# We take our sentence and give each word a random query and a random key, as a model may have them at birth,
# before it has learned anything: nobody has a reason to prefer anybody. The scores are dot products, **not scaled**.
# **Look for** the number of words that a row reads, from the left picture to the right one.

# %% name="longer"
words = ["The", "animal", "did", "not", "cross", "the", "road", "because", "it", "was", "too", "tired"]


def random_vectors(*shape, seed=0):
    """Independent entries of mean 0 and variance 1; the same seed gives the same numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


figure, row = plt.subplots(1, 3, figsize=(11, 4.4), sharey=True)
for d_k, ax in zip((4, 64, 512), row, strict=True):
    query, key = random_vectors(2, len(words), d_k)
    heatmap((query @ key.T).softmax(dim=-1), words, ax=ax, title=f"{d_k} numbers a word, not scaled")
    ax.set_ylabel("query" if ax is row[0] else "")
plt.show()

# %% name="longer-shown"
largest = [float(shown(ax).max(axis=1).mean()) for ax in row]
print("mean of the largest weight of a row:", [round(weight, 1) for weight in largest])
assert largest[0] < 0.5 and largest[1] > 0.75 and largest[2] > 0.9

# %% [markdown] name="longer-answer"
# On the left most rows are shared out among several words. On the right most are **one-hot**: one weight is about
# 1, the others are about 0. The softmax is **saturated**. Each word has made up its mind, at random, before the
# first step of training. (And so would each character of 那只动物没有过马路: the words play no part in it.)
#
# Is that bad? A model could unlearn it. We shall see that it hardly can: where a softmax is saturated, it has no
# slope to learn along. First, though: where do the large scores come from?

# %% [markdown] name="paper-text"
# ## On paper: vectors of signs
#
# Let every entry be +1 or −1. For two entries, take the query (1, 1). The four possible keys (1, 1), (1, −1),
# (−1, 1), (−1, −1) give the scores 2, 0, 0, −2. Their mean is 0. The **variance** is the mean of the squared
# distances from the mean, here (4 + 0 + 0 + 4)/4 = 2. Its root, √2, we call the **spread** (the standard
# deviation): about how far from the mean a score lies.
#
# With three entries, the eight keys give 3 once, 1 three times, −1 three times, −3 once: a variance of
# (9 + 3 + 3 + 9)/8 = 3. **Write down your guess for four entries**, and check it by loop, by matrix, and by
# PyTorch's own `var`.

# %% name="signs"
from itertools import product

signs = list(product([-1.0, 1.0], repeat=4))  # all 16 vectors of four signs
scores = [sum(a * b for a, b in zip(q, k, strict=True)) for q in signs for k in signs]
mean = sum(scores) / len(scores)
print("loop:   ", mean, sum((score - mean) ** 2 for score in scores) / len(scores))

matrix = torch.tensor(signs)  # (vector, entry)
scores = matrix @ matrix.T
print("matrix: ", scores.mean().item(), (scores - scores.mean()).square().mean().item())
print("library:", scores.mean().item(), scores.var(correction=0).item())

# %% [markdown] name="formula"
# ## The formula
#
# As many as there are entries. This holds not for signs alone. Let all entries of query and key be independent of
# each other, with mean 0 and variance 1. A term $q_i k_i$ then has mean 0, and its square the mean 1 · 1. And
# **variances of independent terms add up**:
#
# $$\mathrm{Var}(q \cdot k) = \sum_{i=1}^{d_k} \mathrm{Var}(q_i k_i) = \sum_{i=1}^{d_k} \mathrm{E}[q_i^2]\,\mathrm{E}[k_i^2] = d_k
# \qquad\Rightarrow\qquad \mathrm{spread}\!\left(\frac{q \cdot k}{\sqrt{d_k}}\right) = 1$$
#
# | symbol | in code | shape | is |
# |---|---|---|---|
# | $q$, $k$ | a row of `query`, of `key` | (d_k) | what a token looks for, what it offers |
# | $q \cdot k$ | an entry of `query @ key.T` | (query, key) for all | a score before scaling |
# | $d_k$ | `query.shape[-1]` | a number | entries in a query |
# | $\mathrm{E}$ | `.mean()` | | the mean over many draws |
#
# Why not d_k terms, d_k times the spread? Because terms of either sign cancel in part. If all pulled the same
# way, the sum would grow like d_k; as they do not agree, it grows like the root.

# %% [markdown] name="measure-text"
# So much for theory. **Before running the cell**, say what the spread will be for 512 entries.

# %% name="measure"
measured = {}
for d_k in (4, 64, 512):
    query, key = random_vectors(2, 10_000, d_k)  # 10,000 pairs
    scores = (query * key).sum(dim=-1)
    measured[d_k] = scores.std().item()
    print(f"{d_k:3d} entries: spread {measured[d_k]:4.1f}, theory {math.sqrt(d_k):4.1f}")
assert all(abs(spread / math.sqrt(d_k) - 1) < 0.03 for d_k, spread in measured.items())

# %% [markdown] name="measure-answer"
# 2, 8 and about 22.6. Now put yourself in the softmax's place. At 512 entries, scores that lie 20 apart are
# nothing special, and a lead of 20 means e²⁰ times the weight, half a billion. Divide by √d_k, and the spread is
# 1 whatever the length. Two scores then lie about √2 apart, and their weights differ by a factor of about four.

# %% [markdown] name="ex-spread-text"
# **Exercise 03.spread · ★ · 4 min.** A query has 25 entries of mean 0 and *spread 3*, a key 25 entries of mean 0
# and *spread 2*, all independent. What is the spread of their dot product? (`hint("03.spread")` helps, in a cell
# of its own.)

# %% name="ex-spread" tags=["exercise"] course={"exercise": "03.spread"}
answer = None

# %% name="check-spread" tags=["check", "nbval-ignore-output"]
spread_of_product = check("03.spread", answer)

# %% [markdown] name="assumptions-text"
# ## Where the derivation ends
#
# It has three assumptions: mean 0, variance 1, independence. The exercise broke the second. Let us break the
# others. First we give all entries the **mean 1**. Then we take key and query to be *the same* vector, the
# contrary of independent. **Predict** the mean score at 512 entries for each.

# %% name="assumptions"
found = {}
for name, shift in {"as assumed": 0.0, "mean 1": 1.0}.items():
    query, key = random_vectors(2, 1000, 512) + shift
    scores = query @ key.T  # (query, key): each with each
    found[name] = (scores.mean(), scores.std(), scores.std(dim=-1).mean())
query = random_vectors(1000, 512)
scores = (query * query).sum(dim=-1)  # each query with its twin
found["key = query"] = (scores.mean(), scores.std())

for name, (mean, *spreads) in found.items():
    scaled = [f"{spread / math.sqrt(512):.2f}" for spread in spreads]
    print(f"{name:11}: mean score {abs(mean):3.0f}; spread / √d_k: {', within a row '.join(scaled)}")

# %% name="assumptions-hold"
assert abs(found["as assumed"][0]) < 0.5 and abs(found["mean 1"][0] - 512) < 5
assert abs(found["mean 1"][1] / math.sqrt(512) - math.sqrt(3)) < 0.05
assert abs(found["mean 1"][2] / math.sqrt(512) - math.sqrt(2)) < 0.05
assert abs(found["key = query"][0] - 512) < 5
assert abs(found["key = query"][1] / math.sqrt(512) - math.sqrt(2)) < 0.1

# %% [markdown] name="assumptions-answer"
# **Mean 1** breaks it. Each term now has the mean 1 · 1, so a score has the mean d_k = 512; and the variance
# becomes 3·d_k, a spread of 1.73·√d_k. The mean itself does no harm: it is the same for a whole row, and a
# softmax sees differences only. What differs *within a row* has the spread √2·√d_k. In a newborn model layer
# norms (lesson 08) and small random matrices keep the entries near mean 0.
#
# **Twins** score 512 too: all terms pull the same way, and the sum grows like d_k. (A term is a square, of
# variance 2, so the spread is about √2·√d_k.) Scaled, the score is √512 = 22.6, among scores of spread 1. This
# is how attention can speak up at all: √d_k makes *chance* small, and leaves a real match large. Training makes
# queries and keys depend on each other, so the derivation describes a model at birth.

# %% [markdown] name="ex-entropy-text"
# ## How sure is a row?
#
# To follow saturation we need one number a row. The **entropy** is the mean surprise of the weights, −Σ w ln w.
# It is 0 where one key is read alone, and ln n, the largest it can be, where n keys are read evenly.
#
# **Exercise 03.entropy · ★★ · 6 min.** Mind the zeros: 0 · ln 0 shall count as 0. In PyTorch `log` of 0 is −inf, and
# 0 · (−inf) gives not 0 but **NaN**, "not a number", which spoils every number it touches.

# %% name="ex-entropy" tags=["exercise"] course={"exercise": "03.entropy"}
def entropy(weights):
    """How evenly each row of weights is spread, in nats: (..., query, key) → (..., query).

    A row's entropy is -Σ w ln w. A weight of 0 adds 0.
    """
    raise NotImplementedError

# %% name="check-entropy" tags=["check", "nbval-ignore-output"]
entropy = check("03.entropy", entropy)

# %% [markdown] name="slope-text"
# ## What saturation does to learning
#
# Training moves parameters a little against their gradient (lesson 01). The loss depends on the query through
# the weights, so we ask: *how much do the weights move when the query moves a little?* With c for
# whatever we divide by, the derivative of the softmax is
#
# $$\frac{\partial w_i}{\partial q} = \frac{w_i}{c}\,\Bigl(k_i - \sum_j w_j k_j\Bigr)$$
#
# A weight moves only as far as it is not 0, and only as far as its key differs from the mean of the keys that are
# read. **Before you go on**: what is left of this when the weights are one-hot, for the winner, and for the
# others? Here is the formula, held against PyTorch's automatic derivative.

# %% name="slope"
divisors = {"no scale": lambda d_k: 1, "√d_k": math.sqrt, "d_k": lambda d_k: d_k}


def slopes(query, key, divisor):
    """d weight / d query for all: (query, d_k), (key, d_k) → (query, key, d_k)."""
    weights = (query @ key.T / divisor).softmax(dim=-1)
    read = weights @ key  # (query, d_k): the mean of the keys read
    return weights[..., None] * (key - read[:, None]) / divisor


query, key = random_vectors(1, 4), random_vectors(5, 4, seed=1)
automatic = torch.autograd.functional.jacobian(lambda q: (key @ q / 2).softmax(dim=-1), query[0])
print("formula = automatic derivative:", torch.allclose(slopes(query, key, 2)[0], automatic, atol=1e-6))
for step in (0.1, 100):  # the same query, short and very long
    print(f"query times {step:5}: steepest slope {slopes(step * query, key, 2).abs().max():.3f}")

# %% [markdown] name="slope-answer"
# Nothing is left. For the losers $w_i$ = 0, and for the winner the mean of what is read *is* its own key. The
# weights do not answer any more, so the query gets no gradient: a vanishing gradient, as lesson 01's LSTM had it
# over long distances. The query is stuck with a choice it made at random.
#
# Now all together: 100 queries, 64 keys, vectors from 4 to 1,024 entries, and three ways to scale. We measure the
# mean entropy of a row, and how large the slope of a query is (the root of the sum of squares).

# %% name="saturation"
lengths = [4, 16, 64, 256, 1024]
curves = {name: [] for name in divisors}
for d_k in lengths:
    query, key = random_vectors(100, d_k), random_vectors(64, d_k, seed=1)
    for name, divisor in divisors.items():
        mean_entropy = entropy((query @ key.T / divisor(d_k)).softmax(dim=-1)).mean()
        size = slopes(query, key, divisor(d_k)).flatten(1).norm(dim=-1)  # (query,)
        low, middle, high = size.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()
        curves[name].append([mean_entropy.item(), low, middle, high, size.mean().item()])

# %% [markdown] name="saturation-text"
# On the left the entropy, with ln 64 dotted. On the right the slope: the line is the median query, the band holds
# the middle eight of ten. Mind the logarithmic scale: a step on it is a factor of ten. **Look for** the curve that
# stays level in both pictures, and for the width of the bands.

# %% name="saturation-drawn"
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6))
for name, rows in curves.items():
    entropies, low, middle, high, _ = zip(*rows, strict=True)
    left.semilogx(lengths, entropies, "o-")
    right.loglog(lengths, middle, "o-", label=name)
    right.fill_between(lengths, low, high, alpha=0.2)
left.axhline(math.log(64), linestyle=":", color="gray")
left.set(xlabel="d_k", ylabel="entropy of a row (nats)")
right.set(xlabel="d_k", ylabel="slope of the weights", ylim=(1e-6, 20))
right.legend()
for ax in (left, right):
    ax.set_xticks(lengths, [f"{d_k:,}" for d_k in lengths])
plt.show()

# %% name="saturation-shown"
none, root, full = (torch.tensor(rows, dtype=torch.float64) for rows in curves.values())
for at, rows in enumerate((none, root, full)):
    assert torch.allclose(torch.tensor(left.lines[at].get_ydata(), dtype=torch.float64), rows[:, 0])
    assert torch.allclose(torch.tensor(right.lines[at].get_ydata(), dtype=torch.float64), rows[:, 2])
assert (root[:, 0] - 3.66).abs().max() < 0.1 and (root[:, 2] - 0.18).abs().max() < 0.03
assert full[-1, 0] > 4.15 and abs(full[1, 2] / full[4, 2] - 8) < 1, "1/√d_k: √(1024/16) = 8"
assert none[-1, 0] < 0.2 and none[2, 1] < 0.1 and none[4, 1] < 1e-8 and (none[2:, 3] > 3).all()
assert none[2, 2] > 5 * root[2, 2] and none[4, 2] < root[4, 2] / 30 and (none[1:, 4] > 1).all()

# %% [markdown] name="saturation-answer"
# **√d_k** stays level: at any length a row has an entropy of about 3.7, and nearly all queries have a slope of
# about 0.2. **Divided by d_k** everything is soon read evenly, and the slope falls like 1/√d_k: the derivative is
# divided by c = d_k, while the keys in it are only about √d_k long.
#
# **Without a scale** the entropy falls to 0.1, and the slopes become a lottery. Of the queries with 64 entries
# one in ten has a slope below 0.1, with 1,024 entries next to nothing; another one in ten has more than 3, since
# it happens to stand between two keys.
#
# One often reads that without the scale "the gradients vanish". They do for more and more queries as vectors
# grow: at 1,024 the typical one here has a thirtieth of its scaled slope. But not for all, and not on the mean, which
# is above 1 from 16 entries on; at 64 the typical slope is even larger than the scaled one, because nothing
# divides it. A few queries shout, and the others are mute.

# %% [markdown] name="match-text"
# ## Why not divide by d_k?
#
# Flat weights have a slope of their own, and a model could learn sharper ones. What is wrong with them at birth?
# Think of what attention is for: to find a key that fits, and to leave it open if none does. 64 keys of 64
# entries; first none of them fits, then one *is* the query. **Predict** its weight for each scale.

# %% name="match"
query, key = random_vectors(200, 64), random_vectors(64, 64, seed=1)
unfit = query @ key.T
fitting = unfit.clone()
fitting[:, 0] = (query * query).sum(dim=-1)  # the score if key 0 were the query itself

print("            nothing fits:    one key fits:")
print("            largest weight   its weight")
for name, divisor in divisors.items():
    by_chance = (unfit / divisor(64)).softmax(dim=-1).max(dim=-1).values.mean()
    found = (fitting / divisor(64)).softmax(dim=-1)[:, 0].mean()
    print(f"{name:11} {by_chance:8.2f} {found:16.2f}")

# %% [markdown] name="match-answer"
# Without a scale attention is **frozen**: it gives one key 0.8 even where nothing fits. Divided by d_k it is
# **blind**: even a perfect match scores only about 1 where the others score about 0, and gets 0.04, where an even
# share is 1/64 ≈ 0.016. √d_k does both: open where nothing fits (0.11), sure where something does (0.94).

# %% [markdown] name="temperature-text"
# ## A scale is a temperature
#
# Divide the scaled scores once more, by a number T. Below 1 it makes leads longer and weights sharper, above 1 it
# flattens them. T is called the **temperature**, a word from physics, where a softmax tells how often a hot body
# is in which state. ([Lesson 12](12_generate.ipynb) uses it to make a GPT write boldly or carefully.) The scaled scores of *it* in
# lesson 02 were 0, 0, 0 and 4. **Look for** the row of T = 1, and for what *no scale* and *d_k* would be as
# temperatures: d_k was 4.

# %% name="temperature"
temperatures = [0.1, 0.5, 1.0, 2.0, 10.0]
scores = torch.tensor([0.0, 0.0, 0.0, 4.0])
rows = torch.stack([(scores / temperature).softmax(dim=-1) for temperature in temperatures])
labels = [f"{temperature:g}" for temperature in temperatures]
ax = heatmap(rows, labels, ["animal", "road", "it", "tired"], numbers=True, title="what it reads")
ax.set_ylabel("temperature T")
plt.show()

# %% name="temperature-shown"
assert torch.allclose(torch.tensor(shown(ax)).float(), rows)
assert torch.allclose(rows[1], torch.tensor([0.0, 0, 0, 8]).softmax(dim=-1)), "no scale: T = 1/√4"
assert torch.allclose(rows[3], torch.tensor([0.0, 0, 0, 8 / 4]).softmax(dim=-1)), "by d_k: T = √4"
assert abs(1 / math.sqrt(512) - 0.04) < 0.005 and abs(math.sqrt(512) - 22.6) < 0.05
for at, weight in enumerate((1.0, 0.999, 0.948, 0.711, 0.332)):
    assert abs(rows[at, 3] - weight) < 0.001

# %% [markdown] name="temperature-answer"
# Not scaling is the temperature 1/√d_k, here 0.5; dividing by d_k is √d_k, here 2. At d_k = 4 either is bearable.
# But the one gets colder and the other hotter as vectors grow, and at 512 they are 0.04 and 22.6. √d_k keeps the
# temperature at 1 for any length, so that one recipe fits models of all sizes. As T goes to 0 a softmax becomes a
# choice of the largest; as it grows, a plain mean.

# %% [markdown] name="overflow-text"
# ## When the numbers run out
#
# Large scores have a second trouble, in arithmetic. Graphics processors like numbers of 16 bits, for half the
# memory and more speed. Two formats are common: `float16` keeps three digits and ends at 65,504; `bfloat16` keeps
# two, and reaches as far as the usual `float32`. What is the largest score whose exponential still fits?

# %% name="overflow"
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    limit = torch.finfo(dtype).max
    print(f"{dtype!s:14} largest number {limit:.1e}, exp fits up to {math.log(limit):.1f}")

scores = torch.tensor([12.0, 11.0, 0.0], dtype=torch.float16)
exponentials = scores.exp()
print(exponentials)
print(exponentials / exponentials.sum())  # the softmax of lesson 02

# %% [markdown] name="ex-softmax-text"
# A score of 12 is infinite after `exp`, and inf/inf is NaN once more. In float32 the same happens at 89. The way out:
# a number subtracted from *all scores of a row* changes no weight (lesson 02's quiz), so we are free to choose it.
#
# **Exercise 03.softmax · ★★ · 6 min.** Write a softmax that no score can overflow. (Once more without
# `torch.softmax`.)

# %% name="ex-softmax" tags=["exercise"] course={"exercise": "03.softmax"}
def safe_softmax(scores):
    """Weights that do not overflow, however large the scores: (..., query, key), rows sum to 1."""
    raise NotImplementedError

# %% name="check-softmax" tags=["check", "nbval-ignore-output"]
safe_softmax = check("03.softmax", safe_softmax)

# %% name="same"
high = [1000.0, 999.0, 998.0]
shifted = [math.exp(score - max(high)) for score in high]
by_loop = torch.tensor([number / sum(shifted) for number in shifted])
by_matrix = safe_softmax(torch.tensor([high]))[0]
print("loop = matrix: ", torch.allclose(by_loop, by_matrix))
print("loop = PyTorch:", torch.allclose(by_loop, torch.tensor(high).softmax(dim=-1)))
print("as for 2, 1, 0:", torch.allclose(by_loop, torch.tensor([2.0, 1.0, 0.0]).softmax(dim=-1)))
print("in float16:    ", safe_softmax(scores).isfinite().all().item())

# %% [markdown] name="product-text"
# PyTorch's softmax does it too. One place is left where numbers can run out: *before* the softmax. Let a query
# and its keys have 64 entries of 60. The score is 60 · 60 · 64 = 230,400, and divided by 8 it is 28,800, which
# fits into float16. **Guess** what the two lines give.

# %% name="product"
large = torch.full((3, 64), 60.0, dtype=torch.float16)
print("product, then scale:", (large @ large.T / 8).isfinite().all().item())
print("scale, then product:", ((large / 8) @ large.T).isfinite().all().item())

# %% [markdown] name="ex-scale-text"
# The product is infinite before the division comes. So the course's library divides the *query*, before the
# product.
#
# **Exercise 03.scale · ★★ · 8 min.** Attention weights at a temperature. Scale first; your `safe_softmax` is at
# hand. The check also tries the vectors of the last cell.

# %% name="ex-scale" tags=["exercise"] course={"exercise": "03.scale"}
def weights_at(query, key, temperature):
    """Attention weights, rows sum to 1: (..., query, d_k), (..., key, d_k) → (..., query, key).

    The scores are divided by √d_k and by the temperature, a number above 0. Also in float16: where
    the scaled scores fit into it, nothing on the way to them may overflow.
    """
    raise NotImplementedError

# %% name="check-scale" tags=["check", "nbval-ignore-output"]
weights_at = check("03.scale", weights_at)

# %% name="same-scale"
from torch.nn.functional import scaled_dot_product_attention

from course_lib.model.attention import attention_weights

query, key = random_vectors(2, 5, 64)
print("T = 1, the library:", torch.allclose(weights_at(query, key, 1), attention_weights(query, key), atol=1e-6))
value = torch.eye(5)  # then the output is the weights
by_torch = scaled_dot_product_attention(query[None], key[None], value[None], scale=1 / 8 / 2)[0]
print("T = 2, PyTorch:    ", torch.allclose(weights_at(query, key, 2), by_torch, atol=1e-6))

# %% [markdown] name="model-text"
# ## Break it: train without the scale
#
# All this was about models at birth. Does it matter to one that learns? We train a small GPT, two layers with one
# head each and d_k = 128, on Shakespeare. The GPT is a box here (lesson 09 opens it; 10 does so with training).
# Two things are special. Queries and keys start with entries of size 1, as in the derivation. And a **hook**, a
# function that PyTorch calls with what a layer gives, changes the queries so that the library's scale becomes ours.

# %% name="model"
from course_lib.data.batches import random_windows
from course_lib.data.corpora import load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.training.trainer import next_token_loss

corpus = load_corpus("shakespeare")


def newborn(divisor, seed=0):
    """A GPT before training, whose scores are divided by `divisor` in place of √d_k."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, n_layers=2, d_model=128, n_heads=1))
    factor = math.sqrt(128) / divisor  # the library divides by √d_k already
    for block in model.blocks:
        for linear in (block.attention.query, block.attention.key):
            torch.nn.init.normal_(linear.weight, std=1 / math.sqrt(128))
        block.attention.query.register_forward_hook(lambda _module, _inputs, query: query * factor)
    return model


# %% name="birth"
inputs, _ = random_windows(corpus.train, 8, 64, torch.Generator().manual_seed(1))
for name, divisor in divisors.items():
    weights = newborn(divisor(128))(inputs, return_weights=True)[1][0]  # (batch, head, query, key)
    last = weights[:, :, -1]  # the last character's row: it may read all 64
    print(f"{name:9} entropy at birth {entropy(last).mean():.1f} of {math.log(64):.1f}")

# %% [markdown] name="train-text"
# As in theory. Now we train each for 100 steps on the same text, from the same random numbers. **Which order will
# the three curves have?** Lower is better.

# %% name="break-scale"
from course_lib.plots.curves import trailing_mean


def train(model, steps=100, seed=0):
    """The loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)  # Adam (lesson 01), with a pull to 0
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        inputs, targets = random_windows(corpus.train, 8, 64, generator)
        loss = next_token_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


ax = plt.subplots()[1]
for name, divisor in divisors.items():
    ax.plot(trailing_mean(train(newborn(divisor(128))), 20), label=name)
ax.set(xlabel="step", ylabel="training loss, mean of 20 steps (nats)")
ax.legend()
plt.show()

# %% name="break-scale-shown"
endings = {line.get_label(): line.get_ydata()[-1] for line in ax.lines}
assert list(endings) == list(divisors) and all(2.3 < loss < 2.8 for loss in endings.values())
assert endings["no scale"] > endings["√d_k"] + 0.05 and abs(endings["d_k"] - endings["√d_k"]) < 0.05

# %% [markdown] name="table-text"
# Without a scale the model learns too, but stays behind. √d_k and d_k can hardly be told apart so early. (The
# corner at step 20 is the averaging's.)
#
# One seed is one throw of the dice, and a notebook has no time for more. Here is a table measured beforehand:
# five seeds, 300 steps, the loss on the whole validation split (lesson 01; the command is printed with it). In its
# second half the matrices that make queries and keys start smaller, with entries of 0.02, as in GPT-2 and our library,
# so that queries have entries of size 0.23. **Predict**: does the missing scale still hurt there?

# %% name="table"
from course_lib.data.tables import load_table

table = load_table("scale")
print(table["command"], "·", table["date"])
for start, by_divisor in table["losses"].items():
    print(f"\n{start}, {len(by_divisor['1'])} seeds:   mean    smallest … largest")
    for name, losses in by_divisor.items():
        name = {"1": "no scale"}.get(name, name)
        print(f"   {name:16} {sum(losses) / len(losses):.3f}    {min(losses):.3f} … {max(losses):.3f}")

# %% name="table-shown"
large, small = table["losses"].values()  # by divisor, one loss a seed
assert all(len(losses) == 5 for half in (large, small) for losses in half.values())
assert max(large["√d_k"]) + 0.1 < min(large["d_k"]) and max(large["d_k"]) + 0.02 < min(large["1"])
assert max(small["1"]) < min(small["√d_k"]) and max(small["√d_k"]) < min(small["d_k"])
size = 0.02 * math.sqrt(128)  # of a query's entries in the second half
unscaled = size**2 * math.sqrt(128)  # spread of its scores
assert abs(size - 0.23) < 0.005 and abs(unscaled - 0.58) < 0.005 and abs(unscaled / math.sqrt(128) - 0.05) < 0.005

# %% [markdown] name="table-answer"
# **With entries of size 1**, as in the derivation, √d_k wins with every seed: by about 0.2 over d_k and 0.3 over
# no scale, which is several times the distance between seeds.
#
# **With smaller entries the order turns round**, and no scale is the best, again with every seed. The derivation
# holds; its assumption does not. Entries of size 0.23 give *unscaled* scores a spread of 0.23² · √128 ≈ 0.6,
# which needs no scale. √d_k makes 0.05 of that, so attention starts nearly blind, and has to grow sharp first.
# (After 300 steps. The table does not say what is left of it after 30,000.) What counts is the spread that
# arrives at the softmax, and start and scale make it together. √d_k is the part that depends on the length.

# %% [markdown] name="practice"
# ## In practice
#
# **Heads.** d_k is the length of *one head's* queries (lesson 05), not of the whole token vector.
#
# **No scale** is possible where the matrices start small enough, as the second half of the table shows: the scale
# then sits in the start. T5 does it so: its query matrix starts smaller by √d_k (Raffel et al. 2019, in their code).
#
# **Training** makes queries and keys agree, and then scores can grow like d_k, as twins do. So there is a case
# for d_k after all: Yang et al. 2022 divide by it, times a constant that is tuned at a small size, when the
# settings of a small model are to hold for a wide one. Others fix the length of queries and keys (Henry et al.
# 2020), so that it cannot run away; the library's `qk_norm` is of that kind. Rows that lose their entropy in
# training are a known trouble (Zhai et al. 2023).
#
# **Not each softmax suffers.** The one at a model's end is followed by a logarithm, and the slope of ln w by its
# own score is 1 − w: largest when the model is most wrong. Attention's weights mix values, and no logarithm comes
# to their rescue.
#
# **Masks.** In a row of −inf alone the largest score is −inf, and −inf − (−inf) is NaN again. Lesson 04 meets it.

# %% [markdown] name="recap"
# ## Recap
#
# 1. With independent entries of mean 0 and variance 1, a dot product has the variance d_k and the **spread**
#    √d_k. Mean 1 breaks it, and so does training.
# 2. A **saturated** softmax is one-hot; its weights have no slope, and no gradient reaches the query. Unscaled,
#    that befalls more and more queries as vectors grow.
# 3. **√d_k** makes the spread 1 at any length. Without it attention is frozen; divided by d_k it is blind, and
#    even a perfect match gets 0.04 of 64 keys.
# 4. A scale is a **temperature**: no scale is T = 1/√d_k, d_k is T = √d_k.
# 5. Subtract the row's largest score, and no exponential overflows; scale before the product, and the scores do
#    not either.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions, the last one with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("03")

# %% [markdown] name="sources"
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762):
#   section 3.2.1 suspects that large dot products push the softmax where its gradients are tiny; footnote 4 is
#   our derivation in two lines.
# - Yang et al. 2022, *Tensor Programs V*, [arXiv 2203.03466](https://arxiv.org/abs/2203.03466): why 1/d_k where
#   queries and keys have learned to agree.
# - Raffel et al. 2019, [arXiv 1910.10683](https://arxiv.org/abs/1910.10683): T5.
# - Henry et al. 2020, *Query-Key Normalization*, [arXiv 2010.04245](https://arxiv.org/abs/2010.04245): queries
#   and keys of length 1, and a learned factor in place of 1/√d_k. Zhai et al. 2023, [arXiv 2303.06296](https://arxiv.org/abs/2303.06296):
#   entropy that collapses in training, and a remedy.
# - Blanchard, Higham, Higham 2019, [arXiv 1909.03469](https://arxiv.org/abs/1909.03469): what subtracting the
#   largest score does to rounding errors: no harm.
# - Micikevicius et al. 2018, *Mixed Precision Training*, [arXiv 1710.03740](https://arxiv.org/abs/1710.03740):
#   how to train with 16 bits, and where 32 are needed.
# - Brown et al. 2020, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165): table 2.1 has GPT-3's 96 heads of
#   128.

# %% [markdown] name="next"
# ## Next
#
# Our *it* may still read *tired*, which stands to its right. A model that is to *guess* the next word must not
# see it. [**Lesson 04**](04_causal_mask.ipynb) covers its eyes, with the −inf that a softmax turns into 0.
