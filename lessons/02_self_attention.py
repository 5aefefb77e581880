# %% [markdown] name="title"
# # Build self-attention in four steps
#
# Lesson 02 · [00 Start here](00_start_here.ipynb) · before: [01 From characters to vectors](01_characters_to_vectors.ipynb) ·
# next: [03 Why divide by √d_k](03_scale.ipynb)

# %% [markdown] name="goals"
# **What you will build.** The function `attention(query, key, value)`: first as a loop over words, which
# you can follow with a pencil, then as three lines of matrix code that give the same numbers as PyTorch.
#
# **Afterwards you can**
#
# 1. say in one sentence each what a query, a key and a value are for;
# 2. work out an attention weight by hand;
# 3. read a matrix of weights: who reads whom;
# 4. explain why one pass of this attention cannot let *tired* or *wide* decide which noun *it* reads, and two can;
# 5. say what attention does not see.
#
# **What you need.** Python, and that `A @ B` is a matrix product. Lesson 01 tells where the vectors of
# words come from; here we set them by hand. **Time:** 60 minutes, 24 of them for four exercises.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.plots import heatmap, shown
from course_lib.runtime import begin_lesson

begin_lesson("02")

# %% [markdown] name="question"
# ## What does *it* mean?
#
# > The animal did not cross the road because **it** was too tired.
# >
# > The animal did not cross the road because **it** was too wide.
#
# In Chinese:
#
# > 那只动物没有过马路，因为**它**太累了。
# >
# > 那只动物没有过马路，因为**它**太宽了。
#
# One word changes at the far end, and *it* (它) jumps from the animal to the road. You did it without
# effort. For a machine that gives each word a vector the two sentences are a problem: *it* has the same
# vector in both. What tells them apart stands elsewhere, so *it* has to **read** other words.
#
# To fit on a sheet of paper we keep four words and give each word four numbers. We **set these numbers
# by hand**, so that every column has a meaning; a trained model finds its own, and they are not labelled.

# %% name="words"
vectors = {  #   living, place, noun, pronoun
    "animal": [1.0, 0.0, 1.0, 0.0],
    "road": [0.0, 1.0, 1.0, 0.0],
    "it": [0.0, 0.0, 0.0, 1.0],
    "tired": [1.0, 0.0, 0.0, 0.0],  # said of what lives
    "wide": [0.0, 1.0, 0.0, 0.0],  # said of places
}
tokens = ["animal", "road", "it", "tired"]
x = torch.tensor([vectors[token] for token in tokens])  # (token, d_model) = (4, 4)
x

# %% [markdown] name="mean-text"
# A token is what a model reads as one unit: a word here, a single character in most lessons. `x` holds one
# row for each token, and `d_model` = 4 numbers in a row.
#
# A first attempt at reading: let every token take the mean of all tokens, itself included. In the picture,
# a row is a token that reads, a column a token that is read, and a number says how much. **Look for** a
# difference between the rows.

# %% name="mean"
equal = torch.full((4, 4), 1 / 4)
ax = heatmap(equal, tokens, numbers=True, title="everyone reads everyone alike")
plt.show()
print(equal @ x)

# %% name="mean-shown"
assert torch.equal(torch.tensor(shown(ax)).float(), equal)
assert torch.equal(equal @ x, (x.sum(dim=0) / 4).expand(4, 4)), "each row is the mean of all"

# %% [markdown] name="mean-answer"
# There is none. Each row became the same mean, and four words have turned into one. A mean is a fine way
# to read, but the *weights* should be the reader's own choice: *it* would do well to give most of its
# attention to *tired*, and little to the rest. **Attention** is this: a weighted mean whose weights
# each token works out for itself.
#
# (A cell that only asserts, like the one above, checks that text and picture agree. You may skip such
# cells.)

# %% [markdown] name="roles"
# ## Three roles: query, key, value
#
# How can a token choose? Think of a notice board. You come with a request; every notice has a headline; you
# compare your request with the headlines, and from those that fit you copy what is written below. Unlike
# you, attention copies from *every* notice, but more from those that fit better. So each token plays three
# parts, each a vector of its own:
#
# - its **query** says *what am I looking for?*
# - its **key** says *what do I offer?*
# - its **value** says *what do I pass on?*
#
# All three are made from the token's vector by a matrix: `w_query`, `w_key` and `w_value`. In a trained
# model the three matrices are learned. Ours are set by hand, for one purpose: a pronoun shall look for a
# word that describes something, because that tells what is being spoken of.

# %% name="matrices"
w_query = torch.tensor(
    [  # columns: living, place, noun, pronoun. What is asked for …
        [0.0, 0.0, 0.0, 0.0],  # … by what lives: nothing
        [0.0, 0.0, 0.0, 0.0],  # … by a place: nothing
        [0.0, 0.0, 0.0, 0.0],  # … by a noun: nothing
        [8.0, 8.0, -8.0, 0.0],  # … by a pronoun: something living or some place, but no noun
    ]
)
w_key = torch.eye(4)  # a token offers what it is
w_value = torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0]))  # it passes on: living, place

query, key, value = x @ w_query, x @ w_key, x @ w_value  # (token, 4) each
query

# %% [markdown] name="step-score"
# ## Step 1: score
#
# Only *it* asks for anything: its 1 stands in the last column, so `x @ w_query` picks the last row of
# `w_query`, and its query is (8, 8, −8, 0). How well does a key fit? Multiply entry by entry and add up: the
# **dot product**. Where both entries have the same sign the sum grows, where the signs differ it falls.
# This number is the **score**.
#
# **Before you look at the next cell's output**, work out all four scores of *it* on paper (the keys are the
# rows of `x`). *Animal* is living too: does it score like *tired*?

# %% name="score"
def dot(a, b):
    return sum(a[i].item() * b[i].item() for i in range(len(a)))


for token, offered in zip(tokens, key, strict=True):
    print(f"it · {token:6} = {dot(query[2], offered):3.0f}")

# %% [markdown] name="step-scale"
# *Animal* is living (+8), but a noun (−8): nothing left. So with *road*. *It* offers no feature that was
# asked for. *Tired* fits.
#
# ## Step 2: scale. Step 3: normalise
#
# We divide every score by √d_k, where **d_k** is the number of entries in a query: 4 here, so by 2. Why? That
# is all of lesson 03. For now: the more entries two vectors have, the larger their dot products tend to
# be, and this makes up for it.
#
# The scores of a row then have to become shares of one whole. The softmax does this in two moves: take
# the exponential of each score (now all are positive), and divide by their sum (now they add up to 1). The
# results are the **weights**. A score that is higher by 1 gets e ≈ 2.72 times the weight. (So the 8 in
# `w_query` is a strong wish: of the four words, *tired* would get a weight of 0.35 with 1 in its place, and of 0.71 with 4.)

# %% [markdown] name="ex-by-hand-text"
# **Exercise 02.by-hand · ★ · 4 min.** The raw scores of *it* are 0, 0, 0 and 8. Scale them, take the
# softmax: which weight does *it* give to *tired*? Pencil and `math.exp` will do; two decimals are enough.
# If you are stuck, put `hint("02.by-hand")` into a cell of its own, three times if need be; at the end of all
# patience there is `solution("02.by-hand")`.

# %% name="ex-by-hand" tags=["exercise"] course={"exercise": "02.by-hand"}
answer = None

# %% name="check-by-hand" tags=["check", "nbval-ignore-output"]
weight_of_tired = check("02.by-hand", answer)

# %% [markdown] name="step-mix"
# ## Step 4: mix
#
# What a token takes home is the mean of all values, weighted by what it read. Here are the four steps
# for all tokens, in plain loops:

# %% name="loops"
def attention_by_loops(query, key, value):
    n, d_k = query.shape
    weights, output = torch.zeros(n, n), torch.zeros(n, value.shape[1])
    for i in range(n):  # token i reads …
        scores = [dot(query[i], key[j]) / math.sqrt(d_k) for j in range(n)]  # steps 1 and 2
        exponentials = [math.exp(score) for score in scores]
        for j in range(n):  # … token j
            weights[i, j] = exponentials[j] / sum(exponentials)  # step 3
            output[i] += weights[i, j] * value[j]  # step 4
    return output, weights


output, weights = attention_by_loops(query, key, value)
print("it reads:   ", dict(zip(tokens, [round(w, 2) for w in weights[2].tolist()], strict=True)))
print("it receives:", [round(number, 2) for number in output[2].tolist()])

# %% name="by-hand-agrees"
assert abs(weights[2, 3].item() - weight_of_tired) < 0.005, "your number is the loop's"
assert torch.allclose(weights.sum(dim=1), torch.ones(4)), "each row of weights sums to 1"
for wish, weight in {1: 0.35, 4: 0.71}.items():  # in place of 8
    assert abs(torch.tensor([0, 0, 0, wish / 2]).softmax(dim=0)[3] - weight) < 0.006

# %% [markdown] name="flow-text"
# The drawing shows the whole way with the real numbers, from token vectors on the left to new token
# vectors on the right. Blue is positive, red negative; each panel has a colour scale of its own, so read the
# numbers. **Look for** the row of *it* in each matrix, and for what happens to tokens that ask for nothing.

# %% name="flow"
from course_lib.plots import attention_flow

scores = torch.tensor([[dot(q, k) for k in key] for q in query]) / 2
steps = {"x": x, "query": query, "key": key, "value": value}
steps |= {"scores": scores, "weights": weights, "output": output}
flow = attention_flow(steps, tokens, features=["living", "place", "noun", "pron."])
plt.show()

# %% name="flow-shown"
for name, matrix in steps.items():
    assert torch.allclose(torch.tensor(shown(flow[name])).float(), matrix), name

# %% [markdown] name="flow-answer"
# *It* came as (0, 0, 0, 1) and read *tired* with a weight of 0.95; it takes home 0.97 of *living* (0.95 from
# *tired*, 0.02 from *animal*, rounded) and hardly any *place*. The other tokens asked for nothing: all their scores
# are 0, so they read everyone alike and receive a plain mean again, now of the values. A softmax cannot read
# *nothing*: its row has to sum to 1.
#
# Now take it apart yourself. Choose a step, then an entry of its matrix, by a click or with the arrow keys: beside it stand the
# numbers it was made of, and how. **Look for** two things: in step 1, which two products cancel where *it* meets *animal*; and in step 3,
# walking along the row of *it*, which part of the fraction stays the same.

# %% name="steps"
from course_lib.explorers.steps_explorer import StepsExplorer

features = ["living", "place", "noun", "pron."]
explorer = StepsExplorer(tokens, query, key, value, features=features, row=2)
explorer

# %% name="steps-shown"
for name, matrix in {"scaled": scores, "weights": weights, "output": output}.items():
    assert torch.allclose(torch.tensor(explorer.data[name]), matrix), "the explorer's numbers are the loop's"

# %% [markdown] name="steps-answer"
# 8 · 1 for *living* and −8 · 1 for *noun*. And below the line stands the same sum for the whole row, so that its
# entries compete: whatever one key gains, the others lose.

# %% [markdown] name="formula"
# ## The formula
#
# Perhaps the most quoted line of the field (Vaswani et al. 2017, section 3.2.1) is these four steps:
#
# $$\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# | symbol | in code | shape | row i is |
# |---|---|---|---|
# | $Q$ | `query = x @ w_query` | (query, d_k) | what token i looks for |
# | $K$ | `key = x @ w_key` | (key, d_k) | what token i offers |
# | $V$ | `value = x @ w_value` | (key, d_v) | what token i passes on |
# | $QK^\top/\sqrt{d_k}$ | `scores` | (query, key) | how well each key fits token i's query |
# | softmax(…) | `weights` | (query, key) | how much token i reads each token; sums to 1 |
# | the result | `output` | (query, d_v) | what token i received |
#
# The softmax runs along each row, over the keys. **d_v** is the number of entries in a value; queries and keys
# must have the same length to be multiplied, values may have another. "Self" in **self-attention** says that queries, keys and
# values come from the same tokens. When $Q$ and $K$ stem from two texts (lesson 09), the axes *query* and
# *key* may differ in length.
#
# Now it is your turn. In three exercises you write the formula without a loop.

# %% [markdown] name="ex-scores-text"
# **Exercise 02.scores · ★ · 6 min.** Steps 1 and 2 for all queries and keys at once. Your function should also
# work for several texts together (a batch), that is, with more axes in front: `...` in the docstring stands
# for any number of them. PyTorch's `@` multiplies the last two axes and repeats this over those in front.

# %% name="ex-scores" tags=["exercise"] course={"exercise": "02.scores"}
def scaled_scores(query, key):
    """How well each query fits each key: (..., query, d_k), (..., key, d_k) → (..., query, key)."""
    raise NotImplementedError

# %% name="check-scores" tags=["check", "nbval-ignore-output"]
scaled_scores = check("02.scores", scaled_scores)

# %% [markdown] name="ex-weights-text"
# **Exercise 02.weights · ★★ · 6 min.** Step 3. PyTorch has `scores.softmax(dim=-1)` (−1: along the last axis, the
# keys), and from the next lesson on we use it. Here you write it with `exp` and `sum`; lesson 03 makes it safe.

# %% name="ex-weights" tags=["exercise"] course={"exercise": "02.weights"}
def softmax_rows(scores):
    """Scores → positive weights whose rows sum to 1: (..., query, key) → (..., query, key)."""
    raise NotImplementedError

# %% name="check-weights" tags=["check", "nbval-ignore-output"]
softmax_rows = check("02.weights", softmax_rows)

# %% [markdown] name="ex-attention-text"
# **Exercise 02.attention · ★★ · 8 min.** Put them together, and mix. Return two things: the output, and the
# weights, because we want to look at them.

# %% name="ex-attention" tags=["exercise"] course={"exercise": "02.attention"}
def attention(query, key, value):
    """(..., query, d_k), (..., key, d_k), (..., key, d_v) → output (..., query, d_v), weights."""
    raise NotImplementedError

# %% name="check-attention" tags=["check", "nbval-ignore-output"]
attention = check("02.attention", attention)

# %% [markdown] name="same-text"
# Loop, matrix, library: three ways to write one thing. If they are the same thing, they give the same numbers.
# The last two come from this course's library and from PyTorch, where large models get theirs.

# %% name="same"
from torch.nn.functional import scaled_dot_product_attention

from course_lib.model.attention import attention as library_attention

output, weights = attention(query, key, value)  # yours, or ours until yours passes
looped, looped_weights = attention_by_loops(query, key, value)
print("like the loop:   ", torch.allclose(output, looped) and torch.allclose(weights, looped_weights))
print("like the library:", torch.allclose(output, library_attention(query, key, value)[0]))
print("like PyTorch:    ", torch.allclose(output, scaled_dot_product_attention(query, key, value)))

# %% [markdown] name="two-passes-text"
# ## A second pass
#
# *It* knows now that something *living* is spoken of. It still does not know what. So let it read once more,
# with another query and value matrix, again set by hand: in this second pass a pronoun looks for a **noun
# of its own kind**. Each token adds what it received to what it was, so that it keeps what it was (lesson 08
# makes this a principle). *It* may look both ways here; a GPT may not look ahead (lesson 04).
#
# We run both sentences through the *same* matrices; one word differs. **Predict**: in the second pass, what
# does *it* read in each?

# %% name="two-passes"
w_query_2 = torch.tensor(
    [  # columns: living, place, noun, pronoun. What is asked for …
        [8.0, 0.0, 0.0, 0.0],  # … by what lives: something living
        [0.0, 8.0, 0.0, 0.0],  # … by a place: a place
        [0.0, 0.0, 0.0, 0.0],  # … by a noun: nothing
        [0.0, 0.0, 8.0, 0.0],  # … by a pronoun: a noun
    ]
)
w_value_2 = torch.eye(4)  # this time everything is passed on
passes = [(w_query, w_key, w_value), (w_query_2, w_key, w_value_2)]


def read_twice(tokens):
    """The tokens' vectors after two passes, and the weights of each pass."""
    x, all_weights = torch.tensor([vectors[token] for token in tokens]), []
    for w_q, w_k, w_v in passes:
        output, weights = attention(x @ w_q, x @ w_k, x @ w_v)
        x = x + output
        all_weights.append(weights)
    return x, all_weights

# %% name="both-sentences"
sentences = [["animal", "road", "it", ending] for ending in ("tired", "wide")]
for sentence in sentences:
    x_twice, both = read_twice(sentence)
    for number, w in enumerate(both, start=1):
        print(f"… {sentence[3]}: in pass {number}, it reads {sentence[w[2].argmax()]} ({w[2].max():.2f})")
    print("    and has become", [round(entry, 1) for entry in x_twice[2].tolist()])

# %% [markdown] name="two-passes-look"
# The same as pictures. **Look for** the row of *it*: where is its dark square on the left, in the first pass,
# and where on the right?

# %% name="two-passes-picture"
figure, grid = plt.subplots(2, 2, figsize=(7.6, 7.4))
for sentence, row in zip(sentences, grid, strict=True):
    for number, (w, ax) in enumerate(zip(read_twice(sentence)[1], row, strict=True), start=1):
        heatmap(w, sentence, ax=ax, numbers=True, title=f"“… {sentence[3]}”, pass {number}")
plt.show()

# %% name="two-passes-shown"
for sentence, row in zip(sentences, grid, strict=True):
    for w, ax in zip(read_twice(sentence)[1], row, strict=True):
        assert torch.allclose(torch.tensor(shown(ax)).float(), w), "the picture shows it"
    first, second = (sentence[shown(ax)[2].argmax()] for ax in row)
    assert (first, second) in {("tired", "animal"), ("wide", "road")}

# %% [markdown] name="two-passes-answer"
# In the first pass *it* reads the describing word, *tired* or *wide*. In the second, having become
# something living or some place, it reads *animal* or *road*, and ends as a living noun or a place noun. Nobody
# wrote "if tired, then animal" anywhere: the only link is the column *living*, which *tired* and *animal* share,
# and the second question was made from the answer to the first. This is one reason why Transformers stack
# layers.
#
# Nor did anything depend on English: write 动物, 马路, 它 and 累 (or 宽) above the same vectors, and 它 reads
# 动物 (or 马路).

# %% [markdown] name="one-pass-text"
# ## Would one pass be enough?
#
# Could cleverer matrices do it at once: read *animal* if the last word is *tired*, *road* if it is *wide*?
# **Write down your guess.** Below we make 1,000 layers at random, random word vectors included, and
# compare how *it* divides its attention between *animal* and *road* in both sentences.

# %% name="one-pass"
generator = torch.Generator().manual_seed(0)
unchanged = 0
for _ in range(1000):
    animal, road, it, tired, wide = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    matrices = torch.randn(3, 8, 8, generator=generator, dtype=torch.float64) / 4
    ratios = []
    for ending in (tired, wide):
        sentence = torch.stack([animal, road, it, ending])
        weights = attention(*(sentence @ matrix for matrix in matrices))[1]
        ratios.append(weights[2, 0] / weights[2, 1])  # animal : road
    unchanged += torch.allclose(ratios[0], ratios[1])
print(f"in {unchanged} of 1000 layers, animal : road is the same beside tired and beside wide")

# %% [markdown] name="one-pass-answer"
# It never moves. Write the two weights down as the softmax makes them and divide: the sum below the line is the
# same for both and cancels,
#
# $$\frac{w(\textit{it} \to \textit{animal})}{w(\textit{it} \to \textit{road})}
# = e^{\,(q_{\textit{it}} \cdot k_{\textit{animal}} \;-\; q_{\textit{it}} \cdot k_{\textit{road}})/\sqrt{d_k}},$$
#
# and neither *tired* nor *wide* is left in it: the query comes from *it* alone, each key from its own word
# alone. So in one pass a third word can take attention away from both, but cannot decide between them. (This
# holds for one attention. Several side by side, the heads of lesson 05, can get round it: *wide* may silence the
# one that reads *animal*, and *tired* the one that reads *road*.) An earlier pass has to bring that word in: into *it*, as
# above, or into *animal* and *road*. All this is about where *it* **reads**; what it received may still be worked
# on afterwards (lesson 08).

# %% [markdown] name="order-text"
# ## What attention does not see
#
# "The animal crossed the road" and "the road crossed the animal" contain the same words. **Predict** what
# happens to the output when we shuffle the tokens: no change, rows that move along, or other numbers?

# %% name="order"
def read(x):
    return attention(x @ w_query_2, x @ w_key, x @ w_value_2)


shuffle = torch.tensor([2, 0, 3, 1])  # it, animal, tired, road
output, weights = read(x)
shuffled_output, shuffled_weights = read(x[shuffle])
print("outputs unchanged: ", torch.allclose(shuffled_output, output))
print("outputs move along:", torch.allclose(shuffled_output, output[shuffle]))
print("weights move along:", torch.allclose(shuffled_weights, weights[shuffle][:, shuffle]))

# %% [markdown] name="order-answer"
# Every token receives what it received before, wherever it stands: self-attention is
# **permutation-equivariant** (shuffle the input, and the outputs shuffle along). It sees *which* tokens
# there are, not in which order. Lessons 06 and 07 mend that.

# %% [markdown] name="break-text"
# ## Break it: leave out the softmax
#
# Is the softmax needed? Let us mix with the bare scores instead, and say our four words once, ten times, a
# hundred times. **Guess** how much *living* the first *it* receives each time: with the softmax it was 0.97.

# %% name="break-softmax"
print("tokens   with softmax   without")
for times in (1, 10, 100):  # the same four words, again and again
    q, k, v = (part.repeat(times, 1) for part in (query, key, value))
    with_softmax, without = attention(q, k, v)[0][2, 0], (scaled_scores(q, k) @ v)[2, 0]
    print(f"{4 * times:6}   {with_softmax:12.2f}   {without:7.0f}")

# %% [markdown] name="break-answer"
# Without the softmax an output is a sum, and grows with the text. With it, an output is a mean: each entry lies
# between the smallest and the largest of that entry among the values, however long the text. Two more things went
# with it: a bare score may be negative, so it is no share; and the keys no longer compete.

# %% [markdown] name="practice"
# ## In practice
#
# **Size.** The weights are n × n: twice the text, four times the scores. [Lesson 14](14_the_bill.ipynb) is about the bill.
#
# **Batches.** Your function works for (batch, token, d_k) too, because it names axes from the end.
#
# **Large scores.** `exp` overflows above 88. PyTorch subtracts the largest score of each row first, which changes
# nothing, because the factor cancels; lesson 03 does the same.
#
# **Learned matrices.** Those of a trained model are found by gradient descent and rarely as tidy as ours.
#
# **Looking ahead.** Our *it* read *tired*, which stands to its right. A GPT writes from left to right and may not do
# that; there the riddle can only be solved once *tired* has been read.
#
# **Reading is not reasoning.** Weights show where a token read. What came of it depends on the values, and on
# every layer after.

# %% [markdown] name="recap"
# ## Recap
#
# 1. A **query** says what a token looks for, a **key** what it offers, a **value** what it passes on; three
#    learned matrices make them from the token's vector.
# 2. A **weight** is the softmax of scaled dot products: *it* read *tired* with e⁴/(e⁴ + 3) ≈ 0.95.
# 3. Row i of the weights is how much token i reads each token. It sums to 1; a column need not.
# 4. In one pass of one attention the ratio of two weights depends only on the query and those two keys, so a third word cannot
#    decide between them. A second pass can ask with what the first one found.
# 5. Attention does not see **order**: it is permutation-equivariant.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Six questions. A wrong choice costs nothing and explains itself.

# %% name="quiz" tags=["quiz"] course={"quiz": 6}
quiz("02")

# %% [markdown] name="sources"
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): section
#   3.2.1 is this lesson in half a page, with the scale explained in a footnote.
# - Bahdanau, Cho, Bengio 2014, *Neural Machine Translation by Jointly Learning to Align and Translate*,
#   [arXiv 1409.0473](https://arxiv.org/abs/1409.0473): where attention for translation began, as a help for a recurrent
#   translator; its scores come from a small network in place of a dot product.
# - Uszkoreit 2017, [*Transformer: A Novel Neural Network Architecture for Language
#   Understanding*](https://research.google/blog/transformer-a-novel-neural-network-architecture-for-language-understanding/):
#   the sentence of the tired animal and the wide street, and what *it* reads in a trained translator.
# - Levesque, Davis, Morgenstern 2012, *The Winograd Schema Challenge* (KR 2012): why such pairs of sentences were
#   proposed as a test of understanding; Kocijan et al. 2022, [arXiv 2201.02387](https://arxiv.org/abs/2201.02387), tell
#   how language models came to pass it.

# %% [markdown] name="next"
# ## Next
#
# We divided by √d_k on trust. [**Lesson 03**](03_scale.ipynb) removes the scale, watches attention freeze, and derives the root.
