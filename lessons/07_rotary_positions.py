# %% [markdown] name="title"
# # Turn word order into an angle: RoPE
#
# Lesson 07 · [00 Start here](00_start_here.ipynb) · before: [06 Word order I](06_word_order.ipynb) ·
# next: [08 The block](08_the_block.ipynb)

# %% [markdown] name="goals"
# **What you will build.** `rotate(heads, positions)`, the way in which LLaMA, Qwen and many others tell their attention
# where each token stands: queries and keys are *turned*, by an angle that grows with the position.
#
# **Afterwards you can**
#
# 1. prove on one line that the score of a query and a key then depends on how far one stands behind the other, not on where they stand;
# 2. turn the pairs of a head, and say how fast each of them turns;
# 3. tell the two layouts apart, and convert weights from one to the other;
# 4. say why the angles stay in float32;
# 5. say what a model with RoPE does past the length it was trained at, and what three ways of stretching it change.
#
# **What you need.** Heads (lesson 05), the positions of lesson 06, and sine and cosine from school. **Time:** 60 minutes,
# 20 of them for three exercises, as far as *Stretch the clock*; that part has the fourth exercise, takes 25 more, and may be
# read another day.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("07")

# %% [markdown] name="question"
# ## The same two words, further down the page
#
# > The animal did not cross the road because it was too tired.
#
# *It* stands seven words after *animal*. Suppose *yesterday* comes in front, or a whole paragraph: *animal* is still seven
# words back, and *it* still means it. Do the positions of lesson 06, added to the embedding, see it that way? We
# give both words random vectors, draw a query and a key matrix, add sinusoidal positions, and compute the score of *it* with
# *animal* while more and more words come in front. **Look for** a flat line.

# %% name="moved"
from course_lib.model.positions import SinusoidalPositions

sentence = ["The", "animal", "did", "not", "cross", "the", "road", "because", "it", "was", "too", "tired"]
generator = torch.Generator().manual_seed(7)
it, animal = torch.randn(2, 32, generator=generator)  # a word vector each, (d_model,)
w_query, w_key = torch.randn(2, 32, 32, generator=generator) / math.sqrt(32)

in_front = torch.arange(200)  # words that come before the sentence
vectors = SinusoidalPositions(32)(torch.arange(220))  # (position, d_model)
query = (it + vectors[sentence.index("it") + in_front]) @ w_query
key = (animal + vectors[sentence.index("animal") + in_front]) @ w_key
added = (query * key).sum(dim=-1) / math.sqrt(32)

ax = plt.subplots(figsize=(6.4, 2.4))[1]
ax.plot(in_front, added)
ax.set_xlabel("words in front of the sentence")
ax.set_ylabel("score of it · animal")
plt.show()

# %% name="moved-shown"
assert torch.equal(torch.tensor(ax.lines[0].get_ydata()), added)
assert added.max() - added.min() > 1, "far from flat"

# %% [markdown] name="question-answer"
# Anything but flat. Multiply out (word + place) · (word + place), and there are four products: word with word, word with
# place twice, place with place. Only the first stays. The two in the middle change with every step down the page, and so does the last unless the
# matrices are of a special kind (lesson 06). A model has to learn to live with that.
# ALiBi does see the distance alone, but all it can do is take something off, the further the more, whatever the words are.
#
# Can a score depend on *both words and on how far one stands behind the other*, and on nothing else? Su et al. (2021) found an operation
# that does it: do not add, **turn**.
#
# ## One pair of numbers, on paper
#
# Take queries and keys of two numbers, points in a plane. Turn a vector by a quarter (90°) for each position: at
# position 0 it stays, at 1 it is turned once, and so on. A quarter turn makes (−b, a) of (a, b). Let the query be (2, 1) and
# the key (3, 1), the same ones at every position. **On paper**: what do they score with the query at 1 and the key at 0? At 2 and 1? At 0 and 1?

# %% name="quarter-turns"
def turn(a, b, angle):
    """The point (a, b), turned by an angle in radians, anticlockwise."""
    return a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)


quarter = math.pi / 2
for m in range(4):
    q = turn(2, 1, m * quarter)
    keys = [turn(3, 1, n * quarter) for n in range(4)]
    print(f"query at {m}, key at 0, 1, 2, 3:", [round(q[0] * k[0] + q[1] * k[1]) for k in keys])

# %% [markdown] name="quarter-answer"
# Every diagonal has one number: −1 wherever the key is one behind the query, 1 wherever it is one ahead, 7 where they stand together. Turn
# two arrows by the same angle, and the angle *between* them stays. So the score depends on how far apart they
# stand and in which order, and on nothing else about their places. And it still depends on the words: other arrows, other numbers.
#
# One flaw: three behind scores like one ahead (look at the corners). Quarter turns come round after four positions, as a clock with one hand
# after twelve hours. So we shall want several hands, of different speeds.

# %% [markdown] name="formula"
# ## The formula
#
# A head has more than two numbers, so **RoPE** (rotary position embedding; Su et al. 2021) splits them into pairs and
# turns each pair at a speed of its own. Pair $i$ of a vector at position $m$:
#
# $$\begin{pmatrix} a' \\ b' \end{pmatrix} =
# \underbrace{\begin{pmatrix} \cos m\theta_i & -\sin m\theta_i \\ \sin m\theta_i & \cos m\theta_i \end{pmatrix}}_{R(m\theta_i)}
# \begin{pmatrix} a \\ b \end{pmatrix}, \qquad \theta_i = 10000^{-2i/d}$$
#
# | symbol | in code | is |
# |---|---|---|
# | $m$ | `positions`, (position,) | where the token stands ($p$ in lesson 06, whose $m_h$ was a slope) |
# | $d$ | `d_head` | numbers in a query or key of one head, even |
# | $i$ | `0 … d_head/2 − 1` | the pair |
# | $\theta_i$ | `base ** -(2 * i / d_head)` | radians that pair $i$ turns with each position |
# | $m\theta_i$ | `angles`, (position, pair) | how far it has turned |
# | $a, b$ | entries i and i + d_head/2 of `heads` | the pair's two coordinates |
#
# **The proof.** To transpose $R$ is to change the signs of its sines, and that is the turn back: $R(\alpha)^\top = R(-\alpha)$. Two turns add up:
# $R(\alpha)R(\beta) = R(\alpha + \beta)$. So, for a query pair $q$ at $m$ and a key pair $k$ at $n$:
#
# $$\langle R(m\theta)\,q,\; R(n\theta)\,k\rangle \;=\; q^\top R(m\theta)^\top R(n\theta)\, k \;=\; q^\top R\big((n-m)\theta\big)\, k$$
#
# Only $m - n$ is left. From here on *distance* means $m - n$, with its sign: one behind and one ahead are two distances. (ALiBi's had none.)
# The whole score is the sum over pairs, so it holds for the whole. Written out for $q = (a, b)$, $k = (c, d)$ it is
# $(ac + bd)\cos((m-n)\theta) + (ad - bc)\sin((m-n)\theta)$: on our sheet 7 times the cosine and −1 times the sine.
#
# The speeds are those of lesson 06's sinusoids, from 1 radian a position (pair 0) down to nearly 1/10000. The fast hands tell neighbours
# apart, the slow ones far from near. Values are **not** turned: they are what is passed on, not where it is found.

# %% [markdown] name="ex-angles-text"
# **Exercise 07.angles · ★ · 5 min.** All angles at once: each position with each pair.

# %% name="ex-angles" tags=["exercise"] course={"exercise": "07.angles"}
def position_angles(positions, d_head, base=10_000.0):
    """Radians by which each pair is turned: positions (position,) → (position, d_head/2), float32.

    Pair i = 0, 1, … d_head/2 − 1 at position m: m · base^(−2i/d_head). d_head is even.
    """
    raise NotImplementedError

# %% name="check-angles" tags=["check", "nbval-ignore-output"]
position_angles = check("07.angles", position_angles)

# %% [markdown] name="ex-rotate-text"
# Which numbers of a head make a pair? Any pairing will do, as long as it is always the same. We pair entry i with entry
# i + d_head/2, the **half-split layout**: for d_head = 8 the pairs are (0, 4), (1, 5), (2, 6), (3, 7). So the first half holds all the a's and the
# second half all the b's, and four products of halves turn everything. Lesson 09 builds your function into a GPT.
#
# **Exercise 07.rotate · ★★ · 8 min.** Turn queries or keys.

# %% name="ex-rotate" tags=["exercise"] course={"exercise": "07.rotate"}
def rotate(heads, positions):
    """Heads with each pair of entries (i, i + d_head/2) turned by its angle at its position.

    heads: (batch, head, position, d_head), positions: (position,) → same shape and dtype.
    """
    raise NotImplementedError

# %% name="check-rotate" tags=["check", "nbval-ignore-output"]
rotate = check("07.rotate", rotate)

# %% [markdown] name="same-text"
# Loop, matrix, your function, library: the same numbers? The loop turns one pair after the other. The matrix is $R$ for a whole
# head, mostly zeros, which is why nobody multiplies by it in earnest; but with it the proof can be checked as it stands.

# %% name="loops"
def rotate_by_loops(x, positions):
    """One head, (position, d_head), pair by pair."""
    turned, half = x.clone(), x.shape[-1] // 2
    for row, m in enumerate(positions.tolist()):
        for i in range(half):
            angle = m * 10_000 ** (-2 * i / x.shape[-1])
            turned[row, i], turned[row, i + half] = turn(x[row, i], x[row, i + half], angle)
    return turned


def rotation_matrix(m, d_head):
    """R for all pairs at position m: (d_head, d_head)."""
    columns = torch.eye(d_head)  # where a matrix sends the unit vectors, these are its columns
    return rotate_by_loops(columns, torch.full((d_head,), m)).T

# %% name="same"
from course_lib.model.positions import RotaryPositions

places = torch.arange(12)
x = torch.randn(1, 1, 12, 8, generator=generator)  # (batch, head, position, d_head)
turned = rotate(x, places)
by_matrix = torch.stack([rotation_matrix(m, 8) @ x[0, 0, m] for m in range(12)])
print("like the loop:   ", torch.allclose(turned[0, 0], rotate_by_loops(x[0, 0], places), atol=1e-5))
print("like the matrix: ", torch.allclose(turned[0, 0], by_matrix, atol=1e-5))
print("like the library:", torch.allclose(turned, RotaryPositions().rotate(x, places), atol=1e-5))
R8, R1, back = (rotation_matrix(m, 8) for m in (8, 1, 1 - 8))
print("R(8)ᵀ R(1) = R(1 − 8):", torch.allclose(R8.T @ R1, back, atol=1e-5))

# %% [markdown] name="relative-text"
# Now the opening experiment once more, with the same words and matrices, turned instead of added. **Look for** the flat line. And
# in Chinese: 那只动物没有过马路，因为它太累了, a character each, and 昨天， (*yesterday*) in front.

# %% name="relative"
it_query = (it @ w_query).expand(1, 1, 200, 32)  # the same query, 200 times
animal_key = (animal @ w_key).expand(1, 1, 200, 32)
it_turned, animal_turned = rotate(it_query, 8 + in_front), rotate(animal_key, 1 + in_front)
scores = (it_turned * animal_turned).sum(dim=-1).flatten() / math.sqrt(32)

ax = plt.subplots(figsize=(6.4, 2.4))[1]
ax.plot(in_front, added, label="positions added")
ax.plot(in_front, scores, label="turned")
ax.set_xlabel("words in front of the sentence")
ax.set_ylabel("score of it · animal")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
plt.show()

# %% name="riddle"
riddle = "那只动物没有过马路，因为它太累了"
alphabet = sorted(set("昨天" + riddle))
characters = torch.randn(len(alphabet), 32, generator=generator)


def scores_of(text):
    """All scores of a text whose characters have random vectors: (query, key)."""
    x, places = characters[[alphabet.index(c) for c in text]], torch.arange(len(text))
    query, key = rotate((x @ w_query)[None, None], places), rotate((x @ w_key)[None, None], places)
    return (query @ key.transpose(-2, -1))[0, 0]


later = scores_of("昨天，" + riddle)[3:, 3:]
print("with 昨天， in front, the same 16 × 16 scores:", torch.allclose(later, scores_of(riddle), atol=1e-3))

# %% name="relative-shown"
assert [line.get_label() for line in ax.lines] == ["positions added", "turned"]
assert torch.equal(torch.tensor(ax.lines[1].get_ydata()), scores)
assert scores.max() - scores.min() < 1e-3, "flat"
assert later.shape == (16, 16)

# %% [markdown] name="relative-answer"
# Flat, for these words and any others, and without any parameter.
#
# Now turn it yourself. Two arrows are one pair of the query of *it* and of the key of *animal*; pale, as they were before turning. The small dials have all 16 pairs. Three
# things to **look for**: Press *both one later* again and again: what moves, and which numbers stay? Step through the pairs with the slider: from which on does hardly anything turn? And
# choose *key = query, turned 7 ahead*: at which distance is the lowest curve at its top? (Dot products here are not divided by √d_k.)

# %% name="turning"
from course_lib.explorers.position_explorer import PositionExplorer

words = {"it · animal": (it @ w_query, animal @ w_key)}
explorer = PositionExplorer(d_head=32, length=64, view="rotary", words=words)
explorer

# %% name="turning-shown"
drawn, *_, ahead = (one["scores"] for one in explorer.data["rotary"]["words"])  # (query position, key position)
assert abs(drawn[8][1] / math.sqrt(32) - scores[0]) < 1e-4, "the score that is drawn above"
assert all(abs(drawn[8 + i][1 + i] - drawn[8][1]) < 1e-3 for i in range(55)), "both later: the same"
assert max(range(64), key=lambda n: ahead[63][n]) == 63 - 7

# %% [markdown] name="turning-answer"
# The arrows go round together, and the angle between them stays: so do the product of this pair and that of all. The slow pairs, from 10 or so, hardly turn
# in 64 positions. And the last curve has its top at distance 7, which leads to a use.
#
# ## Seven words back
#
# What can a head do with it? If the key is the query itself, all pairs agree best at distance 0. But a key
# may also be made as if it had been turned a few positions *ahead*. Then it fits best a query that stands that much later. In the next cell
# we **set by hand** one query for all words and one key for all words, the same vector turned by seven positions. (The library's
# `causal_mask` is given the positions of queries and keys, where lesson 04's had a length.) **Look for** the
# word that *it* reads, and for the rows above it.

# %% name="seven-back"
from course_lib.model.attention import attention_weights, causal_mask
from course_lib.plots import heatmap, shown

same = torch.full((1, 1, 12, 32), 5.0)  # whatever the word
query = rotate(same, places)
key = rotate(rotate(same, torch.full((12,), 7)), places)  # turned by 7, then to its place
weights = attention_weights(query, key, causal_mask(places, places))[0, 0]
ax = heatmap(weights, sentence, title="set by hand: seven words back")
plt.show()

# %% name="seven-back-shown"
assert torch.allclose(torch.tensor(shown(ax)).float(), weights)
reads = [sentence[weights[row].argmax()] for row in range(12)]
assert reads[8] == "animal" and weights[8, 1] > 0.9
assert all(weights[row].argmax() == row - 7 and weights[row].max() > 0.9 for row in range(7, 12))
assert reads[9] == "did"

# %% [markdown] name="seven-back-answer"
# *It* reads *animal*, *was* reads *did*, each its seventh word back. The first seven words have no such word, and read whatever
# fits a little: a softmax cannot read nothing. The number 7 sits in the keys. A trained
# model can put it there, for any distance, and mix it with what the words mean.
#
# One often reads that RoPE makes far tokens weaker. Su et al. (section 3.4.3) show that a *bound* falls with the distance. Whether the score does is up to query and
# key. **Predict** where each of three keys, turned ahead by 0, 7 and 150, scores best over 200 distances.

# %% name="best-distance"
distance = torch.arange(200)
alike = torch.ones(1, 1, 1, 32)
query = rotate(alike, torch.tensor([200]))
for ahead in (0, 7, 150):
    key = rotate(alike, torch.tensor([ahead])).expand(1, 1, 200, 32)
    by_distance = (query * rotate(key, 200 - distance)).sum(dim=-1).flatten() / 32
    print(f"turned ahead by {ahead:3}: best at distance {by_distance.argmax():3} ({by_distance.max():.2f}), "
          f"at distance 0 {by_distance[0]:.1f}")

# %% [markdown] name="train-text"
# At 0, 7 and 150. Far is not weaker by itself (Barbero et al. 2024 look at what trained models make of it).
#
# ## A model that does not know where it stands
#
# Time for a trained model: two layers, two heads, 64 characters of context, Shakespeare, 900 steps, some twenty seconds. (Lesson 10 takes
# the loop apart. We judge by the loss, the mean surprise in nats, at the last 32 characters of each window: they
# have something to look back on.) **Predict** what happens to its predictions when we tell it that its text begins
# at position 1,000.

# %% name="train"
from torch.nn.functional import cross_entropy

from course_lib.data.batches import random_windows
from course_lib.data.corpora import load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT

corpus = load_corpus("shakespeare")
torch.manual_seed(0)
shape = {"context_length": 64, "n_layers": 2, "n_heads": 2, "d_model": 64, "positions": "rotary"}
model = GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **shape))

optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
which_windows = torch.Generator().manual_seed(0)
for _ in range(900):
    inputs, targets = random_windows(corpus.train, 16, 64, which_windows)
    loss = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %% name="anywhere"
ends = torch.arange(512, len(corpus.validation), 256)  # where windows end, whatever their length


def losses(model, length):
    """Mean loss at each position of windows of this length: (position,)."""
    found = []
    for some in ends.split(64):
        window = corpus.validation[some[:, None] + torch.arange(-length, 1)]
        with torch.no_grad():
            logits = model(window[:, :-1])
        found.append(cross_entropy(logits.transpose(1, 2), window[:, 1:], reduction="none"))
    return torch.cat(found).mean(dim=0)


def last_loss(model, length):
    """Mean loss of the last 32 characters, the same ones for any length."""
    return losses(model, length)[-32:].mean().item()


with torch.no_grad():
    inputs = corpus.validation[None, :64]
    here, there = (model(inputs, positions=torch.arange(64) + start) for start in (0, 1000))
print("positions 0–63 and 1,000–1,063 predict alike:", torch.allclose(here, there, atol=0.01))
trained = last_loss(model, 64)
assert 1.8 < trained < 2.1, "well below ln 63 = 4.14"

# %% [markdown] name="layout-text"
# It is all the same to the model: nowhere does it see a position, only distances. (And, through the mask, how many tokens came before; lesson 06.)
#
# ## The classic trap: two layouts
#
# The paper, and Meta's own LLaMA, pair *neighbours*: (0, 1), (2, 3), (4, 5), (6, 7). This is the **interleaved layout**. GPT-NeoX, Hugging Face's
# LLaMA and this course pair halves. Here is the interleaved one. **Predict**: does it obey the law of distances too? Does it
# give the same scores?

# %% name="layouts"
def rotate_interleaved(heads, positions):
    """The paper's layout: entries 2i and 2i + 1 are pair i."""
    angles = position_angles(positions, heads.shape[-1])
    a, b = heads[..., 0::2], heads[..., 1::2]
    turned = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
    return torch.stack(turned, dim=-1).flatten(-2)


query, key = torch.randn(2, 1, 1, 12, 32, generator=generator)
results = {}
for name, turned in (("half-split", rotate), ("interleaved", rotate_interleaved)):
    near, far = (turned(query, at) @ turned(key, at).transpose(-2, -1) for at in (places, places + 100))
    print(f"{name:11}: distance alone counts: {torch.allclose(near, far, atol=1e-3)}")
    results[name] = near
print("the same scores:", torch.allclose(*results.values(), atol=1e-3))

# %% [markdown] name="ex-convert-text"
# Both are right, and they are not the same. Shapes agree, no error is raised, and the test that one would write first (distance
# alone) passes. Yet weights trained in one layout are wrong in the other.
#
# The cure: put the *rows* of the query and key matrices in another order, once. Row j of `nn.Linear`'s weight makes entry j
# of the output, so within each head the rows 0, 2, 4 … (all a's) come first, then 1, 3, 5 … (all b's). Query and key get the same new order, and a
# dot product does not mind in which order it adds up. A bias, if there is one, is reordered too. Values stay.
#
# **Exercise 07.convert · ★★ · 7 min.** The order is within each head: `rows` holds the heads one below the other.

# %% name="ex-convert" tags=["exercise"] course={"exercise": "07.convert"}
def to_half_split(rows, n_heads):
    """Rows of a query or key matrix, or its bias, from interleaved to half-split order.

    rows: (n_heads · d_head, …), in each head 0, 1, 2, 3 … of which 2i and 2i + 1 are pair i → the
    same rows, in each head first all even ones, then all odd ones: i and i + d_head/2 are pair i.
    """
    raise NotImplementedError

# %% name="check-convert" tags=["check", "nbval-ignore-output"]
to_half_split = check("07.convert", to_half_split)

# %% [markdown] name="break-layout-text"
# **Break it.** We make of our model what someone with the other layout would have trained: the same model, rows in interleaved order. First we
# hand it to our half-split code as it comes, then converted. **Guess** the loss in each case. (Knowing nothing costs ln 63 = 4.14.)

# %% name="break-layout" tags=["nbval-ignore-output"]
import copy


def reordered(model, order):
    """A copy of the model whose query and key rows, and biases, are in another order."""
    other = copy.deepcopy(model)
    for block in other.blocks:
        for linear in (block.attention.query, block.attention.key):
            for part in linear.parameters():
                part.data = order(part.data)
    return other


way_back = to_half_split(torch.arange(64), 2).argsort()  # from half-split to interleaved
foreign = reordered(model, lambda rows: rows[way_back])
converted = reordered(foreign, lambda rows: to_half_split(rows, 2))
layout_losses = {
    "as trained": trained,
    "interleaved weights, half-split code": last_loss(foreign, 64),
    "converted": last_loss(converted, 64),
}
for name, loss in layout_losses.items():
    print(f"{name:37} {loss:.2f}")

# %% name="break-layout-bounds"
x = torch.randn(1, 12, 64, generator=generator)
first, theirs = model.blocks[0].attention, foreign.blocks[0].attention
own = rotate(first.query(x).unflatten(-1, (2, 32)).transpose(1, 2), places)
other = rotate_interleaved(theirs.query(x).unflatten(-1, (2, 32)).transpose(1, 2), places)
assert torch.allclose(own.norm(dim=-1), other.norm(dim=-1), atol=1e-4), "in its own layout it is our model"
assert torch.allclose(other[..., 0::2], own[..., :16], atol=1e-4)
_, wrong, mended = layout_losses.values()
assert abs(mended - trained) < 1e-4 and trained + 0.6 < wrong < math.log(63) - 0.3

# %% [markdown] name="break-layout-answer"
# A nat or so is lost, and it is all back once the rows are in order. No message, no NaN, no wrong shape. It still does better than an even guess,
# so it looks like a model that was badly trained. Whoever brings a model into other code compares its *logits* (the scores before the last softmax) with the original's.

# %% [markdown] name="bfloat-text"
# ## Break it: angles in bfloat16
#
# Large models compute in **bfloat16**: as large numbers as float32, but with 8 binary digits instead of 24. For weights that is enough. For
# angles? We score *it* · *animal* once more, 0 to 2,000 words further down, with nothing in bfloat16 but the angles. **Look for**
# the first place where the points leave the line.

# %% name="break-bfloat16"
def rotate_roughly(heads, positions):
    """As rotate, with angles computed in bfloat16."""
    speeds = position_angles(torch.tensor([1]), heads.shape[-1]).bfloat16()
    angles = (positions.bfloat16()[:, None] * speeds).float()
    a, b = heads.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


print("254 to 261 in bfloat16:", [int(p) for p in torch.arange(254, 262).bfloat16()])
down = torch.arange(0, 2000, 5)
pair = it_query[:, :, :1].expand(1, 1, 400, 32), animal_key[:, :, :1].expand(1, 1, 400, 32)
fine, rough = (
    (turned(pair[0], 8 + down) * turned(pair[1], 1 + down)).sum(dim=-1).flatten() / math.sqrt(32)
    for turned in (rotate, rotate_roughly)
)
ax = plt.subplots(figsize=(8, 2.4))[1]
ax.plot(down, rough, ".", markersize=3, label="bfloat16 angles")
ax.plot(down, fine, label="float32 angles")
ax.set_xlabel("words in front of the sentence")
ax.set_ylabel("score of it · animal")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %% name="break-bfloat16-shown"
assert torch.equal(torch.tensor(ax.lines[0].get_ydata()), rough)
assert torch.equal(torch.tensor(ax.lines[1].get_ydata()), fine)
error = (rough - fine).abs()
assert fine.max() - fine.min() < 2e-3 and error[down > 1000].mean() > 0.2
assert error[down < 10].max() < 0.1 and error[(down > 50) & (down < 250)].max() > 0.1
for at, dtype, step in (100, torch.bfloat16, 1 / 2), (100, torch.float32, 1 / 131_072), (1e6, torch.float32, 1 / 16):
    radians = torch.tensor(at, dtype=dtype)
    assert radians.nextafter(torch.tensor(math.inf, dtype=dtype)) - radians == step

# %% [markdown] name="bfloat-answer"
# They tremble from the start, fly apart at 256, and after a thousand words the score is noise. From 256 on every second whole number is missing, so
# that neighbours turn alike, and later more; before that it is the *fraction* of an angle that gets lost: at 100 radians, bfloat16 counts in steps of
# half a radian. (float32 does so in steps of 1/131,072. At a million radians even it is down to steps of 1/16.) So: positions as whole numbers, angles in float32, their
# cosines and sines (between −1 and 1) rounded to the model's precision at the very end. The library does this in `rotary_angles` and `turn`.

# %% [markdown] name="long-text"
# ## Train short, test long
#
# To **extrapolate** is to go beyond what one was trained on. "RoPE is relative, so it extrapolates to longer texts": that sounds like a proof. The table at the end of
# lesson 06 has the answer for five schemes (*rotary* is RoPE), trained on 64 characters with **three seeds**, and tested with up to 512, on the same characters each time.
# We read it once more, only the lines that matter here: RoPE and ALiBi, with two heads and with eight, and a model without positions. **Before you run it**, from memory or by a guess: which is best
# inside 64, which at 512?

# %% name="five-schemes"
from course_lib.data.tables import load_table


def mean_and_range(losses):
    """A mean over seeds, and in brackets from which to which."""
    return f"{sum(losses) / len(losses):.2f} ({min(losses):.2f}–{max(losses):.2f})"


five, eight_heads = load_table("positions")["loss"], load_table("positions")["loss_with_more_heads"]
rows = {f"{scheme}, 2 heads": five[scheme] for scheme in ("rotary", "alibi", "none")}
rows |= {f"{scheme}, 8 heads": eight_heads[scheme] for scheme in ("rotary", "alibi")}
print(" " * 15, *(f"{length:>4} characters " for length in five["rotary"]))
for scheme, by_length in rows.items():
    print(f"{scheme:15}", *(mean_and_range(losses) for losses in by_length.values()))

# %% name="five-schemes-bounds"
for seed in range(3):
    at = {n: {s: by[n][seed] for s, by in five.items() if by[n][seed]} for n in five["rotary"]}
    assert min(at["64"], key=at["64"].get) == "rotary" and min(at["512"], key=at["512"].get) == "alibi"
    assert at["512"]["rotary"] > at["256"]["rotary"] > at["128"]["rotary"] > at["64"]["rotary"] + 0.2
    assert "learned" not in at["128"]
    assert at["512"]["alibi"] < at["64"]["alibi"] + 0.02 and at["512"]["none"] > at["64"]["none"] + 0.1
    assert all(max(at[n], key=at[n].get) == "sinusoidal" for n in ("128", "256"))
for losses_there in eight_heads["alibi"].values():
    for alibi, rotary in zip(losses_there, eight_heads["rotary"]["64"], strict=True):
        assert abs(alibi - rotary) < 0.02, "within 0.02 of RoPE at 64, at every length"
assert all(abs(loss - 3.4) < 0.05 for loss in eight_heads["rotary"]["512"])
others = [losses["512"] for losses in five.values() if None not in losses["512"]]
assert max(max(losses) for losses in others) < min(eight_heads["rotary"]["512"])
behind = [far > none for far, none in zip(five["rotary"]["512"], five["none"]["512"], strict=True)]
assert sum(behind) == 2, "RoPE at 512, with two of three seeds"

# %% [markdown] name="five-answer"
# Inside its length RoPE is the best of lesson 06's five with two heads, with each seed; past it, it is not what the slogan says. Its loss grows with what it
# reads beyond 64, with two of three seeds until it lies behind a model without any positions. A distance means the same everywhere, and that is proved. But distances of 64 and more
# never occurred, and the model was never told what to do with them. Learned positions cannot be asked; ALiBi, for which a new distance is only a somewhat larger discount, hardly changes.
# It is behind inside; but two heads leave it without a steep slope (lesson 06), and with eight it is within 0.02 of RoPE at 64 and stays there at every length. RoPE
# with eight heads ends at 3.4 when it reads 512, higher than every other line of lesson 06's table (which has none and
# sinusoidal with two heads only).
#
# Why does it hurt? The angles are one suspect. **Look for** the pairs (rows) that show, right of the line, colours which they had not shown left of it.

# %% name="turns"
speeds = position_angles(torch.tensor([1]), 32)[0]  # radians a position, (pair,)
turns = 64 * speeds / (2 * math.pi)
print("whole turns of each pair in 64 positions:", [round(t, 1) for t in turns.tolist()])
cosines = position_angles(torch.arange(256), 32).cos().T.numpy()  # (pair, position)
ax = plt.subplots(figsize=(6.8, 2.8))[1]
ax.imshow(cosines, aspect="auto", cmap="RdBu", vmin=-1, vmax=1, interpolation="nearest")
ax.axvline(64, color="black", linestyle=":")
ax.set_xlabel("distance")
ax.set_ylabel("pair")
ax.set_yticks(range(0, 16, 3))
ax.set_title("cosine of the angle: blue 1, red −1")
plt.show()

# %% name="turns-shown"
assert (shown(ax) == cosines).all()
assert (turns >= 1).sum() == 5 and ax.lines[0].get_xdata()[0] == 64

# %% [markdown] name="stretch-text"
# The first five of the sixteen pairs make a whole turn in 64 positions and have seen every angle. The others meet new ones past the line, those in the middle most; the last
# few hardly move even now. (New angles are not the whole story: the model without positions, which has none, got worse too.)
#
# **A good place for a break.** The rest may wait for another day. With a fresh kernel then, select this cell and choose
# *Run → Run All Above Selected Cell*; what you have passed comes back.
#
# ## Stretch the clock
#
# So slow the hands down. To read $s$ times the trained length $L$:
#
# - **Position interpolation** (Chen et al. 2023): all pairs $s$ times as slow, $\theta_i / s$. No angles beyond those met, but neighbours now
#   differ by less than they ever did.
# - **NTK-aware** (bloc97 2023): a larger base. Pair 0 stays as it is, the last is $s$ times as slow, those between are slowed the more,
#   the slower they were.
# - **YaRN** (Peng et al. 2023): look at how often a pair turns within $L$. More than β turns: left alone. Fewer than α: $s$ times as slow. Between: a
#   blend. And scores are multiplied by $(0.1\ln s + 1)^2$, fitted by experiment (our reading: over a longer text attention spreads thinner). α–β is
#   the **ramp**; the paper recommends 1–32 for LLaMA.
#
# **Exercise 07.ntk · ★★ · 5 min.** On paper: with which base is the slowest pair, $i = d/2 - 1$, exactly $s$ times as slow?

# %% name="ex-ntk" tags=["exercise"] course={"exercise": "07.ntk"}
def ntk_base(base, factor, d_head):
    """The base with which the slowest pair turns `factor` times as slowly as with `base`, a float.

    The fastest pair (i = 0) turns 1 radian a position with any base; the slowest is the last one.
    """
    raise NotImplementedError

# %% name="check-ntk" tags=["check", "nbval-ignore-output"]
ntk_base = check("07.ntk", ntk_base)

# %% [markdown] name="slowing-text"
# How much does each method slow pairs 0, 4, 8 and 15, for four times the length? Before you run it: YaRN's ramp of 1–32 was
# chosen for a trained length of thousands. What does it do to our pair 0, which makes 10 turns in 64 positions?

# %% name="slowing"
from course_lib.model.positions import rotary_frequencies

methods = {  # scaling, ramp
    "as trained": ("none", (1.0, 32.0)),
    "interpolation": ("linear", (1.0, 32.0)),
    "NTK-aware": ("ntk", (1.0, 32.0)),
    "YaRN, ramp 1–32": ("yarn", (1.0, 32.0)),
    "YaRN, ramp 1–4": ("yarn", (1.0, 4.0)),
}
for name, (scaling, ramp) in methods.items():
    stretched = rotary_frequencies(32, 10_000.0, scaling, 4.0, 64, ramp)
    print(f"{name:16}", *(f"pair {i}: {speeds[i] / stretched[i]:.1f}" for i in (0, 4, 8, 15)), sep="  ")
ours = position_angles(places, 32, base=ntk_base(10_000.0, 4.0, 32))
library = places[:, None] * rotary_frequencies(32, scaling="ntk", factor=4.0)
print("your base gives the library's NTK-aware angles:", torch.allclose(ours, library, atol=1e-4))

# %% [markdown] name="measure-text"
# Interpolation slows all alike. YaRN with 1–32 slows even the fastest pair to less than half its speed; with 1–4 it leaves it alone. Now the trained weights, without
# any further training, on 256 characters. The dotted line is the reader who takes no risk and looks at the last 64
# characters only. **Look for** two things: where each curve leaves the dotted line, and whether any ends below it.

# %% name="stretch" tags=["nbval-ignore-output"]
from dataclasses import replace

from course_lib.plots.curves import trailing_mean


def stretched_model(scaling, ramp):
    """The trained weights in a model that reads 256 characters."""
    factor = 1.0 if scaling == "none" else 4.0
    changes = {"rotary_scaling": scaling, "rotary_factor": factor, "rotary_ramp": ramp}
    other = GPT(replace(model.config, context_length=256, **changes))
    other.load_state_dict(model.state_dict())  # RoPE has no parameters, so they fit
    return other


curves = {name: losses(stretched_model(*how), 256) for name, how in methods.items()}
ax = plt.subplots(figsize=(7.2, 3.8))[1]
for name, curve in curves.items():
    ax.plot(range(31, 256), trailing_mean(curve.tolist(), 32)[31:], label=name)  # whole means only
ax.axhline(trained, color="gray", linestyle=":")
ax.set_ylim(1.8, 3.7)
ax.set_xlabel("position in a window of 256")
ax.set_ylabel("loss, mean of 32 positions")
ax.legend(loc="center", bbox_to_anchor=(0.55, 0.44), ncols=2)
plt.show()

# %% name="stretch-bounds"
at_the_end = {name: curve[-32:].mean().item() for name, curve in curves.items()}
for line, name in zip(ax.lines, curves, strict=False):
    assert abs(line.get_ydata()[-1] - at_the_end[name]) < 1e-4
plain, interpolated, ntk, wide, narrow = at_the_end.values()
assert interpolated > trained + 0.8 and wide > trained + 0.6 and narrow < plain - 0.05 and interpolated > plain
twice = {name: curve[96:128].mean().item() for name, curve in curves.items()}
assert twice["NTK-aware"] < twice["as trained"] - 0.05 and ntk < plain + 0.2
assert min(at_the_end.values()) > trained, "none beats the reader of 64 characters"
assert curves["as trained"][64:85].mean() < trained + 0.1 and curves["as trained"][128:160].mean() > trained + 0.15
assert curves["NTK-aware"][96:128].mean() < trained + 0.15 and curves["NTK-aware"][176:].mean() > trained + 0.15
level = [curves["YaRN, ramp 1–4"][at : at + 32].mean() for at in range(32, 256, 32)]
assert level[0] > curves["as trained"][32:64].mean() + 0.02 and max(level) < trained + 0.2, "level, a little higher"

# %% [markdown] name="stretch-answer"
# Nothing breaks at 64 itself. From about 90 on (in a mean over the last 32) the plain model loses its way. NTK-aware
# scaling puts that off to about 140; YaRN with the fitting ramp stays nearly level, a little higher from the start. Interpolation and the ramp of 1–32 are far
# above. None ends below the dotted line.
#
# One seed is one model. Here are three (measured by `python -m benchmarks.lesson_tables.extension`), with what the stretch costs a
# text of 64 characters, and what comes out when training goes on for 100 steps at 256. The first row is the careful reader again; its 100 steps
# were at 64, with as many characters in each. **Predict**: which row is lowest in the last column?

# %% name="three-seeds"
table = load_table("extension")["loss"]
print(" " * 16, "64 characters    256 characters   after 100 steps")
for name, row in table.items():
    tuned = row.get("256 tuned") or row["64 tuned"]
    columns = [row["64"], row.get("256"), tuned]
    print(f"{name:16}", *(mean_and_range(c) if c else " " * 16 for c in columns))

# %% name="three-seeds-bounds"
plain, interpolated, ntk, wide, narrow = (table[name] for name in methods)
careful = table["64 characters"]
for seed in range(3):
    assert narrow["256"][seed] < ntk["256"][seed] < plain["256"][seed] < interpolated["256"][seed]
    assert narrow["256"][seed] > careful["64"][seed] + 0.1, "no method beats the careful reader"
    assert interpolated["64"][seed] > careful["64"][seed] + 1.2 and wide["64"][seed] > careful["64"][seed] + 0.8
    assert interpolated["256"][seed] > wide["256"][seed], "interpolation is worst"
    assert 0.08 < narrow["64"][seed] - plain["64"][seed] < 0.165, "what YaRN costs a short text"
    tuned = [row["256 tuned"][seed] for row in (plain, interpolated, ntk, wide, narrow)]
    assert careful["64 tuned"][seed] < min(tuned) < careful["64 tuned"][seed] + 0.02, "nor after training"
    assert max(plain["256 tuned"][seed] - tuned[4], plain["256 tuned"][seed] - tuned[2]) < 0.02
assert [round(loss, 2) for loss in plain["256"]] == [2.28, 2.46, 2.95] and wide["256"][2] < plain["256"][2]
assert max(interpolated["256 tuned"]) < 2.1 and min(wide["256"]) > 2.8

# %% [markdown] name="three-seeds-answer"
# **Without training**, YaRN helps with every seed if its ramp fits the length trained at, and costs a short text 0.09 to 0.16. NTK-aware scaling helps less. How badly the plain
# model loses its way is a matter of luck: 2.28, 2.46 and 2.95 with three seeds, the last one worse than even the ramp of 1–32.
#
# Interpolation costs more than a nat and the wide ramp nearly one, on *short* texts too: they slow the very hands that tell a neighbour from the one after it, and
# presumably that is what counts for spelling. This is no fault of the method: Chen et al. propose interpolation *with* some training, and after 100 steps most of the harm is mended.
#
# **With training**, the plain model gets there as well, unstretched. And the lowest number is the careful reader's, with each of the three seeds, if by less than
# 0.02 (seeds differ by more): our small model finds nothing beyond 64 characters that pays. A method that "extends the context" promises that a long text does no harm. Whether it does any good is another question, and has to be measured
# like this, on the same characters, against the short reader.

# %% [markdown] name="practice"
# ## In practice
#
# **Cost.** No parameters, and a few multiplications for each entry of a query or key. The cosines are the same for all layers and heads: computed once.
#
# **A cache** ([lesson 12](12_generate.ipynb)) keeps keys as they were turned. A later token does not change that, since each is turned by its own position.
#
# **The base.** A larger one makes all hands but the first slower. Code Llama was trained further with 1,000,000, Llama 3 from the start with 500,000, for longer texts
# (Rozière et al. 2023; Grattafiori et al. 2024).
#
# **Part of a head.** Some models turn a quarter of each head and leave the rest without a position (GPT-NeoX-20B; Black et al. 2022).
#
# **Two tests for a model in new code**: logits against the original's, and the same at positions above 256.

# %% [markdown] name="recap"
# ## Recap
#
# 1. Query and key are **turned**, pair by pair, by position times speed. $R(m)^\top R(n) = R(n - m)$, so a score depends on both vectors and on $m - n$.
# 2. Pair $i$ turns base^(−2i/d_head) radians a position: fast hands for neighbours, slow ones for far away. A key can be made to fit best at any distance.
# 3. **Half-split** pairs i with i + d_head/2, **interleaved** 2i with 2i + 1. The wrong one raises no error; reordering the query and key rows, head by head, mends it.
# 4. Angles stay in **float32**: bfloat16 has no 257, and no fraction of a large angle.
# 5. With two heads RoPE was best inside 64 characters, and got worse beyond: relative is not extrapolating. Without training, YaRN with a fitting ramp helped, NTK-aware for
#    a while, interpolation did harm; none beat reading the last 64 characters.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; two of them have more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("07")

# %% [markdown] name="sources"
# ## Sources
#
# - Su et al. 2021, *RoFormer*, [arXiv 2104.09864](https://arxiv.org/abs/2104.09864): RoPE, derived from the wish for a score of $m - n$ (section 3.2),
#   and the bound that falls with distance (3.4.3).
# - Touvron et al. 2023, *LLaMA*, [arXiv 2302.13971](https://arxiv.org/abs/2302.13971), and Bai et al. 2023, *Qwen*, [arXiv 2309.16609](https://arxiv.org/abs/2309.16609): two
#   families of models that use it.
# - Black et al. 2022, *GPT-NeoX-20B*, [arXiv 2204.06745](https://arxiv.org/abs/2204.06745): rotary positions on a quarter of each head, in the layout of this lesson.
# - Press, Smith, Lewis 2022, [arXiv 2108.12409](https://arxiv.org/abs/2108.12409): *Train Short, Test Long*, the paper of ALiBi; and Kazemnejad et al. 2023,
#   [arXiv 2305.19466](https://arxiv.org/abs/2305.19466), who compare five schemes on length, with results of their own.
# - Chen et al. 2023, [arXiv 2306.15595](https://arxiv.org/abs/2306.15595): position interpolation, with the training it needs; bloc97 2023, *NTK-Aware Scaled RoPE*, a post on
#   Reddit's r/LocalLLaMA; Peng et al. 2023, *YaRN*, [arXiv 2309.00071](https://arxiv.org/abs/2309.00071), which tells the history of all three.
# - Barbero et al. 2024, *Round and Round We Go!*, [arXiv 2410.06205](https://arxiv.org/abs/2410.06205): what a trained model uses fast and slow pairs for; RoPE
#   need not decay.
# - Rozière et al. 2023, *Code Llama*, [arXiv 2308.12950](https://arxiv.org/abs/2308.12950), and Grattafiori et al. 2024, *The Llama 3 Herd of Models*,
#   [arXiv 2407.21783](https://arxiv.org/abs/2407.21783): larger bases for longer texts.

# %% [markdown] name="next"
# ## Next
#
# Heads that know what they read and where it stands. [**Lesson 08**](08_the_block.ipynb) puts them into a block: with a stream that runs past them, norms that keep it in bounds, and a layer in
# which each token thinks for itself.
