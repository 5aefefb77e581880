# %% [markdown] name="title"
# # Tell a model where its words stand: sinusoidal, learned, ALiBi
#
# Lesson 06 · [00 Start here](00_start_here.ipynb) · before: [05 Many heads](05_many_heads.ipynb) ·
# next: [07 Rotary positions](07_rotary_positions.ipynb)

# %% [markdown] name="goals"
# **What you will build.** Two of the three classic ways to give attention a sense of order: the sinusoidal vectors of the first
# Transformer, and ALiBi's penalty on distance. The third, a learned table, you will see run into its own end.
#
# **Afterwards you can**
#
# 1. say what attention without positions cannot tell, and why a causal model is the exception;
# 2. read a sinusoidal vector as a clock with many hands, and say what its dot products know;
# 3. say what a learned table costs, and where it stops;
# 4. work out what ALiBi does to a weight, for any number of heads;
# 5. choose between them by what was measured, within the trained length and beyond it.
#
# **What you need.** Attention and its shuffled rows (lesson 02), the causal mask (04), heads (05). Whole models are boxes here.
# **Time:** 60 minutes, 24 of them for four exercises, as far as *Trained side by side*; that part takes 20 more, and may be
# read another day.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt
from torch.nn.functional import cross_entropy

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("06")

# %% [markdown] name="question"
# ## Who crossed whom?
#
# > The animal crossed the road. The road crossed the animal.
# >
# > 动物穿过马路。马路穿过动物。
#
# The same words, and one of the two you will never see. Lesson 02 found that attention does not tell them apart: shuffle the tokens,
# and the outputs are shuffled along. Is that still so in a whole model, with layers, heads and feed-forward parts? We take the library's
# `Encoder`: a GPT *without* the causal mask, in which every token reads all others, on both sides. With `positions="none"` nothing tells
# it where a token stands. **Predict**: does *animal* get the same output in both sentences?

# %% name="who-crossed"
from course_lib.model.config import GPTConfig
from course_lib.model.encoder import Encoder
from course_lib.model.gpt import GPT, count_parameters


def newborn(kind, vocab_size, positions, seed=0, **changes):
    """A small untrained model; the same seed gives the same random numbers."""
    torch.manual_seed(seed)
    shape = {"n_layers": 2, "n_heads": 8, "d_model": 64} | changes
    start = {"initialisation": "xavier", "tied_head": False}  # small tasks are learned fast from here
    return kind(GPTConfig(vocab_size=vocab_size, positions=positions, **start | shape))


words = ["the", "animal", "crossed", "the", "road"]
vocabulary = sorted(set(words))
sentence = torch.tensor([[vocabulary.index(word) for word in words]])  # (batch, position)
turned = torch.tensor([0, 4, 2, 3, 1])  # the road crossed the animal
for positions in ("none", "learned"):
    model = newborn(Encoder, 4, positions)
    first, second = model(sentence)[0], model(sentence[:, turned])[0]  # (position, vocab_size)
    print(f"{positions}: animal gets the same output: {torch.allclose(first[1], second[4], atol=1e-4)}")

# %% [markdown] name="task-text"
# With `"none"` it does. Every part of the model either treats each token alone or mixes them by attention, so the whole is
# **equivariant**: shuffle the input, and the output shuffles along. (*Invariant* would mean that the output does not change at all.)
#
# What does that cost? Here is a task that asks for order and nothing else: eight letters in random order, and every letter has to name the
# one **to its left**. The first names the last, as if they stood in a circle.

# %% name="task"
def shuffled_letters(texts, generator):
    """Eight letters in random order, and for each the letter to its left: both (text, position)."""
    letters = torch.rand(texts, 8, generator=generator).argsort(dim=1)
    return letters, letters.roll(1, dims=1)


letters, left = shuffled_letters(1, torch.Generator().manual_seed(0))
for name, row in (("letters", letters), ("to name", left)):
    print(name, " ".join("ABCDEFGH"[number] for number in row[0].tolist()))

# %% [markdown] name="learn-text"
# We train the blind encoder, and one with a learned vector for each position added (more of that below). **Before you look**: a guess at
# random among the other seven letters is right in 1 of 7 cases. Where will each curve end? **Look for** the dotted line at 1/7.
# (One seed is shown, here and below. The ceilings hold for any; for the rest you can try `newborn(…, seed=1)`.)

# %% name="learn"
def learn(model, steps=100, first=0):
    """Train on fresh texts; every 10 steps the share of right answers on 250 others, from `first` on."""
    test, answers = shuffled_letters(250, torch.Generator().manual_seed(1))
    generator, curve = torch.Generator().manual_seed(0), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for step in range(1, steps + 1):
        letters, left = shuffled_letters(32, generator)
        loss = cross_entropy(model(letters)[:, first:].flatten(0, 1), left[:, first:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            with torch.no_grad():
                right = model(test).argmax(dim=-1) == answers  # (text, position)
            curve.append(right[:, first:].float().mean().item())
    return curve

# %% name="blind"
def draw(curves, ceilings):
    ax = plt.subplots(figsize=(6.4, 3.0))[1]
    for name, curve in curves.items():
        ax.plot(range(10, 10 * len(curve) + 1, 10), curve, "--" if "2" in name else "-", label=name)
    for ceiling in ceilings:
        ax.axhline(ceiling, linestyle=":", color="gray")
    ax.set(xlabel="step", ylabel="share of right answers", ylim=(0, 1.05))
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    plt.show()
    return ax


curves = {positions: learn(newborn(Encoder, 8, positions)) for positions in ("none", "learned")}
ax = draw(curves, [1 / 7])

# %% name="blind-shown"
assert [list(line.get_ydata()) for line in ax.lines[:2]] == list(curves.values())
print("without positions, never far from 1/7:", all(abs(share - 1 / 7) < 0.05 for share in curves["none"]))
print("with positions, right at the end:", curves["learned"][-1] > 0.98)

# %% [markdown] name="blind-answer"
# No amount of training would lift the lower curve. *A* gets one and the same output in all orders of the eight letters, and each of the
# other seven stands to its left equally often: 1/7 is not a habit but a ceiling.
#
# ## A causal model is not blind
#
# One often reads that "Transformers without positions are blind to order". For a GPT, which has a causal mask, that is **not so**. The mask
# itself tells: the first token sees one token, the fifth sees five. We swap the first two letters of a text and watch the output at the *last*
# one, in a model with one layer and in one with two, both without positions. **Predict** both.

# %% name="causal"
text = torch.arange(8)[None]
swapped = text[:, [1, 0, 2, 3, 4, 5, 6, 7]]
for n_layers in (1, 2):
    model = newborn(GPT, 8, "none", n_layers=n_layers)
    same = torch.allclose(model(text)[0, -1], model(swapped)[0, -1], atol=1e-4)
    print(f"{n_layers} layer(s): the last output stays the same: {same}")

# %% [markdown] name="causal-task-text"
# With one layer, the last token still reads a *set* of earlier tokens. But tokens one and two have not read the same, since only the second
# one saw the first, and a second layer reads what they found. Does this help in our task? The first letter cannot see the last one now, so
# only the other seven count. A letter that sees i earlier ones, and not their order, guesses right in 1 of i cases: over all seven, the mean of 1, 1/2, …, 1/7.

# %% name="causal-task" tags=["nbval-ignore-output"]
as_a_set = sum(1 / i for i in range(1, 8)) / 7
print(f"who knows the set of earlier letters only: {as_a_set:.2f}")
causal = {n: learn(newborn(GPT, 8, "none", n_layers=n), steps=60, first=1)[-1] for n in (1, 2)}
for n_layers, share in causal.items():
    print(f"causal, without positions, {n_layers} layer(s): {share:.2f}")

# %% name="causal-task-bounds"
assert 0.36 < as_a_set < 0.38
print("one layer stays at that ceiling:", abs(causal[1] - as_a_set) < 0.05)
print("two layers nearly solve the task:", causal[2] > 0.9)

# %% [markdown] name="causal-answer"
# Two layers all but solve the task, so the mask alone can carry the order of all eight letters. (*How* the second layer makes it out we have not looked into.)
# Haviv et al. (2022) found large GPTs without positions only a little worse than those with them. On real text our small one will be clearly the worst within
# the trained length, as the table at the end shows, and an encoder has no mask to learn from. It is better to say where things stand, by a **position encoding**.
#
# ## First way: a clock with many hands
#
# We could add the position itself, 0, 1, 2, … to a token's vector. It would soon be larger than anything the token has to say. Vaswani et al. (2017)
# write the position as a clock does: a fast hand tells neighbours apart, slower ones tell how late it is, and no hand is ever longer
# than 1. A hand is two numbers, the **sine** and the **cosine** of its angle. Here are three hands, by loops, for a vector of 6:

# %% name="loops"
def sinusoidal_by_loops(positions, d_model):
    vectors = torch.zeros(len(positions), d_model)
    for row, position in enumerate(positions.tolist()):
        for i in range(d_model // 2):  # hand i
            angle = position / 10_000 ** (2 * i / d_model)
            vectors[row, 2 * i] = math.sin(angle)
            vectors[row, 2 * i + 1] = math.cos(angle)
    return vectors


sinusoidal_by_loops(torch.arange(5), 6)

# %% [markdown] name="formula"
# The two columns on the left run through their values quickly; those on the right have hardly moved after five tokens. As a formula (their section 3.5):
#
# $$\mathrm{PE}(p, 2i) = \sin\frac{p}{10000^{2i/d}} \qquad \mathrm{PE}(p, 2i+1) = \cos\frac{p}{10000^{2i/d}}$$
#
# | symbol | in code | is |
# |---|---|---|
# | $p$ | `positions` | where a token stands, from 0 on; a row of the result |
# | $d$ | `d_model` | width of a token's vector |
# | $2i$, $2i+1$ | the columns of a pair, i = 0 … d/2 − 1 | which hand: its sine, its cosine |
# | $1/10000^{2i/d}$ | `1 / 10_000 ** (2 * i / d_model)` | how far hand i turns with each token, in radians |
#
# After $2\pi \cdot 10000^{2i/d}$ tokens a hand has gone round once: its **wavelength**.

# %% [markdown] name="ex-sinusoidal-text"
# **Exercise 06.sinusoidal · ★★ · 8 min.** The same without a loop. The positions need not be 0, 1, 2, …: a model that writes asks for
# one position at a time. (`vectors[:, 0::2]` are the even columns of a matrix.)

# %% name="ex-sinusoidal" tags=["exercise"] course={"exercise": "06.sinusoidal"}
def sinusoidal(positions, d_model):
    """Positions, whole numbers (position,) → their vectors (position, d_model), float32.

    Columns 2i and 2i + 1 hold the sine and the cosine of position / 10000^(2i / d_model).
    d_model is even.
    """
    raise NotImplementedError

# %% name="check-sinusoidal" tags=["check", "nbval-ignore-output"]
sinusoidal = check("06.sinusoidal", sinusoidal)

# %% [markdown] name="same-text"
# Loop, matrix, library. And what the model does with it: the vector is **added** to the token's, so that what the first layer reads is
# word and place in one. A new token's vector is short beside the clock's, whose length is √(d/2) at every position. So
# here the library, like the paper, multiplies the token by √d_model first; it still begins as the shorter of the two.

# %% name="same"
from course_lib.model.positions import SinusoidalPositions

positions = torch.arange(64)
vectors = sinusoidal(positions, 64)  # yours, or ours until yours passes
print("like the loop:   ", torch.allclose(vectors, sinusoidal_by_loops(positions, 64), atol=1e-4))
print("like the library:", torch.allclose(vectors, SinusoidalPositions(64)(positions), atol=1e-4))

model = newborn(GPT, 8, "sinusoidal")
tokens = model.token_embedding(text)  # (batch, position, d_model)
x = math.sqrt(64) * tokens + vectors[:8]
print("added to the tokens:", torch.allclose(model.embed(text, positions[:8]), x, atol=1e-4))
assert torch.allclose(vectors.norm(dim=1), torch.tensor(math.sqrt(32))), "the same length everywhere"
token, clock = tokens.norm(dim=-1).mean(), vectors.norm(dim=1).mean()
print(f"lengths: a token {token:.2f}, times √64 {8 * token:.1f}, the clock √32 = {clock:.2f}")
print("parameters:", count_parameters(SinusoidalPositions(64)))

# %% [markdown] name="picture-text"
# Here are all 64 vectors as a map: a row for each position, a column for each dimension. Choose a pair of columns, that is a hand, and a position: by the sliders,
# by a click, or with arrow keys on the map. Beside it stand the hand's two waves, and the dot product of the chosen vector with all others. Drag the position from one end to the
# other, and in the row of clocks (or among the columns of the map) **look for** the hands that hardly move. Then three things in the dot products: does it matter *on which side* a neighbour stands, is nearer
# always larger, and does the curve change from one position to the next?

# %% name="picture"
from course_lib.explorers.position_explorer import PositionExplorer

explorer = PositionExplorer(d_model=64, length=64, view="sinusoidal")
explorer

# %% name="picture-shown"
table = sinusoidal(torch.arange(512), 64)
grid = table @ table.T  # (position, position)
drawn = {name: torch.tensor(explorer.data["sinusoidal"][name]) for name in ("vectors", "products", "wavelengths")}
assert torch.allclose(drawn["vectors"], vectors, atol=1e-4)
assert torch.allclose(drawn["products"], grid[:64, :64], atol=1e-3)
for distance in (1, 7, 100):
    assert (grid.diagonal(distance) - grid[0, distance]).abs().max() < 1e-2, "the distance alone counts"
wavelengths = 2 * math.pi * 10_000 ** (torch.arange(0, 64, 2) / 64)
assert torch.allclose(drawn["wavelengths"], wavelengths, rtol=1e-4)
print(f"wavelengths from {wavelengths[0]:.2f} to {wavelengths[-1]:,.0f} tokens")
rises = (grid[0, 1:65].diff() > 0.01).sum().item()
print("always falling with the distance:", rises == 0)
lazy = (63 * 2 * math.pi / wavelengths < 0.5).sum().item()
print("hands that move by less than half a radian within 64 tokens:", lazy, "of 32")

# %% [markdown] name="picture-answer"
# 15 of the 32 hands hardly move within 64 tokens. The curve of dot products is the same on both sides,
# wherever its middle is: sin·sin + cos·cos is the cosine of the *difference* of two angles, so
# PE(p) · PE(p + k) = Σ cos(k / 10000^(2i/d)). The product knows the distance, but not the direction. And it wavers: nearer is not always larger.
#
# How then can a head read "the token before me"? By **turning** one of the two vectors. Going one token ahead turns each hand by a fixed angle,
# the same at all positions, and that is a matrix. With it as the key matrix, set by hand, a key at p′ looks like position p′ + 1, and the query at p finds
# it one place to its left. The tokens play no part. **Look for** the dark squares.

# %% name="turn"
from course_lib.model.attention import attention_weights
from course_lib.plots import heatmap, shown

sentence = ["the", "animal", "did", "not", "cross", "the", "road", "because", "it", "was", "too", "tired"]
speeds = 10_000 ** (-torch.arange(0, 64, 2) / 64)
ahead = torch.block_diag(  # one small matrix for each hand
    *[torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]) for a in speeds.tolist()]
)
print("turned by one = one further:", torch.allclose(table[:-1] @ ahead, table[1:], atol=1e-3))
w_query = 50 * torch.eye(64)  # a strong wish, as in lesson 02
weights = attention_weights(table[:12] @ w_query, table[:12] @ ahead)
ax = heatmap(weights, sentence, title="set by hand: read the token before")
plt.show()

# %% name="turn-shown"
assert torch.allclose(torch.tensor(shown(ax)).float(), weights)
assert weights[1:].argmax(dim=1).tolist() == list(range(11)), "each but the first reads its left neighbour"
assert weights.diagonal(-1).min() > 0.9 and weights[0].argmax() == 0

# %% [markdown] name="break-text"
# Each word reads the one to its left. The first has none, and without a mask it reads the key that comes nearest: its own.
#
# ## Break it: hands of one speed
#
# Do we need so many speeds? Take 32 hands that all turn like the fastest, or all like the slowest. **Predict** what the dot product with
# position 0 will look like. **Look for** a distance at which the curve of the fast hands is back at its top.

# %% name="break-speeds"
distances = torch.arange(61)
ax = plt.subplots(figsize=(6.4, 3.0))[1]
ax.plot(distances, 32 * torch.cos(distances * speeds[0]), label="all as fast as the first")
ax.plot(distances, 32 * torch.cos(distances * speeds[-1]), label="all as slow as the last")
ax.plot(distances, grid[0, :61], label="one of each speed")
ax.set(xlabel="distance", ylabel="dot product")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, fontsize="small")
plt.show()

# %% name="break-shown"
fast, slow, mixed = (torch.tensor(line.get_ydata()) for line in ax.lines)
print(f"44 tokens away, of 32: fast {fast[44]:.1f}, slow {slow[44]:.1f}, mixed {mixed[44]:.0f}")
assert fast[1:].argmax() == 43 and slow.min() > 31.9 and mixed[1:].max() < 31.5

# %% [markdown] name="break-answer"
# With fast hands alone, a token 44 places away looks like the token itself: 44 is almost exactly seven turns (2π · 7 = 43.98). With slow hands alone all
# sixty look alike. A clock needs both.
#
# ## Second way: a learned table
#
# Why not let training find the vectors? BERT and GPT-2 have a **learned** table, one row of `d_model` parameters for each position, added
# to the tokens like the clock. It is the least one can do, and it has an end. What happens at the 65th token?

# %% name="learned"
from course_lib.runtime import CourseError

model = newborn(GPT, 8, "learned")
print("rows and columns:", tuple(model.position_embedding.embedding.weight.shape))
print("parameters of our table:", f"{64 * 64:,}", "· of GPT-2's, 1,024 × 768:", f"{1024 * 768:,}")
model(torch.zeros(1, 64, dtype=torch.long))
try:
    model(torch.zeros(1, 65, dtype=torch.long))
except CourseError as error:
    print(error)

# %% [markdown] name="alibi-text"
# A larger table is no help by itself: rows that no training text has reached stay as random as they began. We shall measure that too.
#
# ## Third way: let distance cost something
#
# Press et al. (2022) leave the embeddings alone. In **ALiBi**, "attention with linear biases", each score is lowered by a *slope* times the distance
# between query and key ($m_h$ is the slope of head h; $p$ and $p'$ are the positions of query and key):
#
# $$\mathrm{score}_h(p, p') = \frac{q_p \cdot k_{p'}}{\sqrt{d_k}} - m_h\,|p - p'|$$
#
# Nothing is learned. By loops, for four tokens and a slope of 1/2:

# %% name="alibi-loop"
penalty = torch.zeros(4, 4)  # (query, key)
for p in range(4):
    for other in range(4):
        penalty[p, other] = -0.5 * abs(p - other)
penalty

# %% [markdown] name="ex-discount-text"
# **Exercise 06.discount · ★ · 3 min.** Two keys have the same score before ALiBi. One stands 1 token back, the other 5. The slope is 0.5.
# After the softmax, how many times the weight of the far one does the near one get? (To one decimal or better.)

# %% name="ex-discount" tags=["exercise"] course={"exercise": "06.discount"}
answer = None

# %% name="check-discount" tags=["check", "nbval-ignore-output"]
near_to_far = check("06.discount", answer)

# %% [markdown] name="slopes-text"
# So a penalty on the score is a discount on the weight: every ln 2 / $m$ tokens further away, it halves. Each head has a slope of its own, so some heads are
# near-sighted and others far-sighted. For n heads, n a power of two, the slopes are
#
# $$m_h = 2^{-8h/n},\qquad h = 1, \dots, n.$$
#
# For 8 heads: 1/2, 1/4, …, 1/256. The last one is always 1/256. The paper's models all have such numbers of heads. For others the authors' program takes the
# slopes of the power of two **below** (of 8, for 12 heads) and then, for the heads that are left, the first, third, fifth … slope of **twice** that power.

# %% [markdown] name="ex-slopes-text"
# **Exercise 06.slopes · ★★★ · 8 min.** Write it. For 3 heads: 1/16 and 1/256, those of two heads, then 1/4, the first of four.

# %% name="ex-slopes" tags=["exercise"] course={"exercise": "06.slopes"}
def alibi_slopes(n_heads):
    """One positive slope for each head: n_heads, a whole number from 1 on → (head,), float32."""
    raise NotImplementedError

# %% name="check-slopes" tags=["check", "nbval-ignore-output"]
alibi_slopes = check("06.slopes", alibi_slopes)

# %% [markdown] name="ex-bias-text"
# **Exercise 06.bias · ★★ · 5 min.** The penalties of all heads at once, from positions. Queries and keys may stand at different places and differ in number.

# %% name="ex-bias" tags=["exercise"] course={"exercise": "06.bias"}
def alibi_bias(slopes, query_positions, key_positions):
    """What ALiBi adds to the scores: slopes (head,), positions (query,) and (key,), whole numbers
    → (head, query, key). Minus the head's slope times the distance, in either direction.
    """
    raise NotImplementedError

# %% name="check-bias" tags=["check", "nbval-ignore-output"]
alibi_bias = check("06.bias", alibi_bias)

# %% name="alibi-same"
from course_lib.model.attention import causal_mask
from course_lib.model.positions import ALiBi

bias = alibi_bias(alibi_slopes(12), positions, positions)
print("like the loop:   ", torch.allclose(alibi_bias(torch.tensor([0.5]), positions[:4], positions[:4])[0], penalty))
print("like the library:", torch.allclose(bias, ALiBi(12).score_bias(positions, positions)))
print("a slope of its own for each of 12 heads:", len(set(alibi_slopes(12).tolist())) == 12)
far_apart = alibi_bias(torch.tensor([0.5]), torch.tensor([9]), torch.tensor([8, 4]))[0, 0]
print("your factor:", math.isclose((far_apart[0] - far_apart[1]).exp().item(), near_to_far, rel_tol=0.01))

# %% [markdown] name="heads-text"
# What do such heads see, when all their scores are equal and the mask is causal? The explorer draws what each head adds to a score, and the weights that the last of 64
# tokens then gives, by distance. Choose four heads, then two, eight, and twelve. **Look for** the most near-sighted head of each: how many tokens get nine tenths of its weight?

# %% name="heads"
explorer = PositionExplorer(length=64, n_heads=4, view="alibi")
explorer

# %% name="heads-shown"
drawn = {one["n_heads"]: one for one in explorer.data["alibi"]}
for n_heads in (2, 4, 8, 12):
    slopes = alibi_slopes(n_heads)
    equal = torch.zeros(n_heads, 64, 8)  # queries and keys that ask and offer nothing: (head, position, d_head)
    bias = alibi_bias(slopes, positions, positions)
    weights = attention_weights(equal, equal, causal_mask(positions, positions), bias)
    last_row = weights[:, -1].flip(-1)  # (head, distance)
    assert torch.allclose(torch.tensor(drawn[n_heads]["weights"]), last_row, atol=1e-4), "the explorer's are yours"
    steepest, flattest = slopes.argmax(), slopes.argmin()
    reach = (last_row.cumsum(dim=-1) < 0.9).sum(dim=-1) + 1
    print(
        f"{n_heads:2} heads, steepest slope {slopes[steepest]:.3f}: "
        f"halves every {math.log(2) / slopes[steepest]:4.1f} tokens, "
        f"nine tenths to the last {reach[steepest]:2}; with the flattest slope {reach[flattest]}"
    )

# %% [markdown] name="all-text"
# With twelve heads the most near-sighted one (head 8, from the slopes in between) lives on four tokens, with eight on five, with two on more than half the text. The flattest slope reads nearly
# all alike, whatever the number of heads. Training can still make any key score higher, and so overrule a penalty.
#
# ## The three, on the task
#
# Back to the eight letters and the encoder that reads both ways. Learned positions solved the task. **Predict** what sinusoidal ones do, and ALiBi: one of them has a
# ceiling of its own. A fourth model has ALiBi with *two* heads in place of eight. Which slopes are these, and will they do?

# %% name="all"
for scheme in ("sinusoidal", "alibi"):
    curves[scheme] = learn(newborn(Encoder, 8, scheme))
curves["alibi, 2 heads"] = learn(newborn(Encoder, 8, "alibi", n_heads=2))
ax = draw(curves, [1 / 7, 1 / 2])

# %% name="all-shown"
assert [list(line.get_ydata()) for line in ax.lines[:5]] == list(curves.values())
print("sinusoidal, right at the end:", curves["sinusoidal"][-1] > 0.98)
print("ALiBi with 8 heads, at one half:", 0.4 < curves["alibi"][-1] < 0.55)
print("ALiBi with 2 heads, still near 1/7:", abs(curves["alibi, 2 heads"][-1] - 1 / 7) < 0.05)
model = newborn(Encoder, 8, "alibi")
mirrored = torch.allclose(model(text).flip(1), model(text.flip(1)), atol=1e-4)
print("mirror the text, and the outputs are mirrored:", mirrored)

# %% [markdown] name="all-answer"
# ALiBi knows its neighbours, but not which is the left one: a distance has no sign. Whatever it learns, in the mirrored text every letter gives the same
# answer, and there its left neighbour is the other one. One half is its ceiling *without a mask*. It was made for causal models, where all that is read
# lies to the left; for encoders one of its authors proposes changes (see the sources).
#
# With two heads, after 100 steps, it is still at 1/7. The slopes are 1/16 and 1/256: even the steeper one discounts a neighbour by 6% only, and the next
# token by as much again, so no head is near-sighted. Or are two heads too few? We tell these apart by putting *your* function into the model, with slopes that
# we choose.

# %% name="own-slopes"
model = newborn(Encoder, 8, "alibi", n_heads=2)
model.attention_positions.score_bias = lambda query_positions, key_positions: alibi_bias(
    torch.tensor([1 / 2, 1 / 4]), query_positions, key_positions
)
print("two heads, slopes 1/2 and 1/4, at one half:", 0.4 < learn(model)[-1] < 0.55)
print("a neighbour's discount with slope 1/16:", round(1 - math.exp(-1 / 16), 2))

# %% [markdown] name="side-by-side-text"
# Two heads are enough; it was the slopes. With ALiBi the number of heads sets the steepest slope, and training does not change it.
#
# **A good place for a break.** The rest may wait for another day. With a fresh kernel then, select this cell and choose
# *Run → Run All Above Selected Cell*; what you have passed comes back.
#
# ## Trained side by side
#
# Now real text, and a question that was folklore for years: train on 64 characters, and read 512. The authors of the sinusoidal vectors chose them in part
# because they hoped that a model might go on beyond the trained length. We train three GPTs of eight heads on Shakespeare, alike but for positions (and for the factor
# √64 = 8 on the tokens of the sinusoidal one), and test each on windows of 64, 128 and 512 characters. What counts is always the loss on the *same* characters, the last 32 of each window.
# **Predict** for each: does more context help, harm, or fail?

# %% name="train"
from course_lib.data.batches import random_windows
from course_lib.data.corpora import load_corpus

corpus = load_corpus("shakespeare")


def train(model, steps=250):
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for _ in range(steps):
        inputs, targets = random_windows(corpus.train, 8, 64, generator)
        loss = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def loss_at(model, length):
    """Mean loss of the last 32 characters in 50 windows of this length; they end at the same places."""
    places = 1_024 * torch.arange(1, 51)[:, None] + torch.arange(-length, 0)  # (window, position)
    with torch.no_grad():
        logits = model(corpus.validation[places])[:, -32:]
    return cross_entropy(logits.flatten(0, 1), corpus.validation[places + 1][:, -32:].flatten()).item()

# %% name="side-by-side" tags=["nbval-ignore-output"]
start = {"initialisation": "gpt2", "tied_head": True}  # as the course's other GPTs, and the table below
trained = {scheme: train(newborn(GPT, 63, scheme, **start)) for scheme in ("sinusoidal", "learned", "alibi")}
longer = newborn(GPT, 63, "learned", context_length=512, **start)
state = trained["learned"].state_dict()
name = "position_embedding.embedding.weight"
state[name] = torch.cat([state[name], longer.state_dict()[name][64:]])  # rows 64 to 511: untrained
longer.load_state_dict(state)

losses = {}
for scheme, model in (trained | {"learned, longer table": longer}).items():
    lengths = (64,) if scheme == "learned" else (64, 128, 512)
    losses[scheme] = {length: loss_at(model, length) for length in lengths}
    print(f"{scheme:22}", "  ".join(f"{length}: {loss:.2f}" for length, loss in losses[scheme].items()))
vectors_of = {"a fresh row": state[name][64:], "a trained row": state[name][:64]}
vectors_of["a token"] = state["token_embedding.weight"]
sizes = {what: vectors.norm(dim=1).mean().item() for what, vectors in vectors_of.items()}
print("mean length of", ", ".join(f"{what}: {size:.2f}" for what, size in sizes.items()))

# %% name="side-by-side-bounds"
harm = {scheme: by_length[512] - by_length[64] for scheme, by_length in losses.items() if 512 in by_length}
assert harm["sinusoidal"] > 0.25 and harm["learned, longer table"] > 0.03, "harmed by what stands beyond 64"
assert losses["sinusoidal"][128] > losses["sinusoidal"][64] + 0.15
assert harm["learned, longer table"] < harm["sinusoidal"]
assert 0 < sizes["a fresh row"] < sizes["a trained row"] < sizes["a token"] / 2
assert abs(harm["alibi"]) < 0.03, "neither helped nor harmed"
assert losses["alibi"][64] < min(losses["sinusoidal"][64], losses["learned"][64]) - 0.1
print("what is said below holds")

# %% [markdown] name="side-by-side-answer"
# **Sinusoidal** vectors exist for every position, and still the loss has climbed at 128 already: that a vector *can be computed* does not
# mean that the model has learned to read it. The **longer table** does harm too, less of it; its fresh rows are short beside a trained token, and presumably say little.
# Only **ALiBi** goes on as if nothing had happened: a distance of 400 is nothing but a larger discount. It does not get *better* either, with eight times the text to
# read. And it is ahead within 64 already, presumably because near characters matter most: the others have to find that out, and it was told.

# %% [markdown] name="table-text"
# One short run is one short run. The next table was measured with over three times as many steps, batches twice as large, and three seeds, by
# `python -m benchmarks.lesson_tables.positions`. All five schemes of the library are in it (*rotary* is the subject of lesson 07) with **two** heads, and
# some with eight. **Predict** where ALiBi with two heads will lie, then **look for** the lines that stay flat, and for those that are low at 64.

# %% name="table"
from course_lib.data.tables import load_table

measured = load_table("positions")
rows = {f"{scheme}, 2 heads": by_length for scheme, by_length in measured["loss"].items()}
rows |= {f"{scheme}, 8 heads": by_length for scheme, by_length in measured["loss_with_more_heads"].items()}
ax = plt.subplots(figsize=(6.4, 4.4))[1]
print("mean (range)       " + "".join(f"{length:>17}" for length in measured["lengths"]))
for name, by_length in rows.items():
    runs = {int(length): values for length, values in by_length.items() if None not in values}
    means = [sum(values) / len(values) for values in runs.values()]
    cells = zip(means, runs.values(), strict=True)
    print(f"{name:19}" + "".join(f"{m:5.2f} ({min(v):.2f}–{max(v):.2f})" for m, v in cells))
    (line,) = ax.plot(runs.keys(), means, "o--" if "8" in name else "o-", label=name)
    for length, values in runs.items():
        ax.plot([length] * len(values), values, ".", color=line.get_color(), alpha=0.5)
ax.set_xscale("log", base=2)
ax.set_xticks(measured["lengths"], measured["lengths"])
ax.set(xlabel="length of the window (trained at 64)", ylabel="loss (nats per character)")
ax.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
print("seeds:", measured["seeds"])

# %% name="table-shown"
mean = {name: {n: sum(v) / len(v) for n, v in by.items() if None not in v} for name, by in rows.items()}
two = {name: by for name, by in mean.items() if name.endswith("2 heads")}
assert list(two["learned, 2 heads"]) == ["64"] and len(measured["seeds"]) == 3
assert min(two, key=lambda name: two[name]["64"]) == "rotary, 2 heads"
assert sorted(two, key=lambda name: two[name]["64"])[-2:] == ["alibi, 2 heads", "none, 2 heads"]
assert two["sinusoidal, 2 heads"]["512"] > two["none, 2 heads"]["512"] + 0.4
assert two["rotary, 2 heads"]["512"] > two["rotary, 2 heads"]["64"] + 0.5
for name in ("alibi, 2 heads", "alibi, 8 heads"):
    assert abs(mean[name]["512"] - mean[name]["64"]) < 0.03, "flat"
gain = {scheme: two[f"{scheme}, 2 heads"]["64"] - mean[f"{scheme}, 8 heads"]["64"] for scheme in ("learned", "alibi")}
near, far = ([mean[f"{scheme}, 8 heads"][n] for scheme in ("rotary", "alibi")] for n in ("64", "512"))
assert near[0] < near[1] < near[0] + 0.02 and far[0] > far[1] + 1.2
assert max((name for name in mean if "512" in mean[name]), key=lambda name: mean[name]["512"]) == "rotary, 8 heads"
print("lower at 64 with eight heads, by:", {scheme: round(by, 2) for scheme, by in gain.items()})
assert gain["alibi"] > 0.2 and abs(gain["learned"]) < 0.05

# %% [markdown] name="table-answer"
# With two heads ALiBi is the flattest line, and at 64 it lies behind all but no positions at all. "It pays inside for what it can do outside", one reads. Look at its
# dashed line: with **eight** heads, the steepest slope being 1/2, it gains 0.27 and stays as flat. Learned positions gain nothing by the same change. So what it
# paid for was most likely the want of a near-sighted head, as with the letters. Beyond 64 sinusoidal vectors end up *worse than no positions*, and rotary ones,
# lowest at 64, climb as well. With two heads how steeply depends on the seed; with eight they end at 3.4, higher than every other line of the table (none and
# sinusoidal were measured with two heads only).

# %% [markdown] name="practice"
# ## In practice
#
# **Who uses what.** BERT and GPT-2 have learned tables, BLOOM has ALiBi (Le Scao et al. 2022), LLaMA and most open models after it the rotary positions of
# lesson 07.
#
# **Which is best?** Here, at 64: rotary and ALiBi with eight heads, 0.01 apart, as much as two seeds are. Beyond: ALiBi. Mind that these are
# small models of characters, trained for a minute, and what such a model can use is near. In the paper of 2017 a learned table and sinusoidal vectors came out
# nearly equal.
#
# **Cost.** Vectors are added once, before the first layer. ALiBi acts in every layer, and its penalties fill a matrix (head, query, key), unless the program
# that computes attention works them out on the way. In a causal model programs often add slope · key position instead: for a given query that differs by a
# constant, which a softmax does not see.
#
# **Fixed slopes.** Press et al. tried to learn them, and these went less well beyond the trained length than fixed ones.
#
# **Positions, not indices.** When a model writes one token at a time ([lesson 12](12_generate.ipynb)), its first row is not position 0: so our functions take positions.

# %% [markdown] name="recap"
# ## Recap
#
# 1. Without positions and without a mask a model is **equivariant**, and 1/7 was its ceiling. A causal model is not blind: its mask
#    tells, from the second layer on.
# 2. A **sinusoidal** vector is a clock with many hands. The dot product of two depends on their distance alone, wavers, and does not
#    know the direction; a turn, which is a matrix, adds it. No parameters.
# 3. A **learned** table costs context_length × d_model parameters and ends with its last row.
# 4. **ALiBi** lowers each score by slope × distance, and so discounts the weight. Slopes run from 2^(−8/n) down to 1/256, so few heads means no near-sighted one. Without
#    a mask it cannot tell left from right.
# 5. Trained at 64 and tested at 512, sinusoidal vectors do harm, a learned table ends, and ALiBi stays as good as it was, without getting better.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions, the last one with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("06")

# %% [markdown] name="sources"
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): section 3.5 has the sinusoidal vectors and the hope of
#   going beyond the trained length; row E of its table 3 finds a learned table as good within it.
# - Devlin et al. 2018, *BERT*, [arXiv 1810.04805](https://arxiv.org/abs/1810.04805), and Radford et al. 2019, [*GPT-2*](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf):
#   learned tables, of 512 and of 1,024 rows.
# - Press, Smith, Lewis 2022, *Train Short, Test Long*, [arXiv 2108.12409](https://arxiv.org/abs/2108.12409): ALiBi, and the measurement that sinusoidal models do not go beyond
#   their length. On encoders, one of its authors: [attention_with_linear_biases, issue 5](https://github.com/ofirpress/attention_with_linear_biases/issues/5).
# - Le Scao et al. 2022, *BLOOM*, [arXiv 2211.05100](https://arxiv.org/abs/2211.05100): a model of 176 billion parameters that chose ALiBi, and why.
# - Haviv et al. 2022, *Transformer Language Models without Positional Encodings Still Learn Positional Information*, [arXiv 2203.16634](https://arxiv.org/abs/2203.16634): why a causal model is not blind.
# - Kazemnejad et al. 2023, [arXiv 2305.19466](https://arxiv.org/abs/2305.19466): five schemes on small tasks beyond the trained length, where none at all did well.

# %% [markdown] name="next"
# ## Next
#
# The clock's hands and ALiBi's distance can be had in one: [**lesson 07**](07_rotary_positions.ipynb) turns queries and keys themselves, so that every score depends on
# the distance, sign included, and then measures how far that reaches.
