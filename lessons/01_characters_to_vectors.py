# %% [markdown] name="title"
# # Turn characters into vectors, and see what attention must solve
#
# Lesson 01 · before: [00 Start here](00_start_here.ipynb) ·
# next: [02 Build self-attention](02_self_attention.ipynb)

# %% [markdown] name="goals"
# **What you will build.** A tokenizer, an embedding, and the smallest language model that there is, twice: by counting
# and by learning. Then a harder task, on which a recurrent network and attention compete.
#
# **Afterwards you can**
#
# 1. turn a text into numbers and back, and say what to do with a character that is not known;
# 2. say why a lookup in a table is a matrix product;
# 3. work out what a text costs a model, in nats and in bits;
# 4. say why counting does not get far, and what vectors have to do with it;
# 5. explain what an LSTM finds hard and attention does not, and what attention pays for it.
#
# **What you need.** Python, and that `A @ B` is a matrix product; the surprise −ln p of lesson 00.
#
# **Time:** 60 minutes, 25 of them for five exercises, without the part that is marked as one for a second reading.

# %% name="setup"
import math
from itertools import pairwise

import torch
from matplotlib import pyplot as plt
from torch import nn

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("01")

# %% [markdown] name="question"
# ## What comes after *t*?
#
# To a computer a character is a number already: in Unicode, *t* is 116. What comes after a *t* in Shakespeare's plays?
# Let a program answer with a single number: the mean of all codes that follow, which has the least squared error.
#
# **Look for** the dashed line. Which characters are its neighbours, and how often do they follow a *t*?

# %% name="codes"
from course_lib.data.corpora import load_corpus
from course_lib.plots import visible

corpus = load_corpus("shakespeare")
plays = corpus.tokenizer.decode(corpus.train)
followers = [ord(after) for before, after in pairwise(plays) if before == "t"]
times = torch.bincount(torch.tensor(followers), minlength=128)
mean_code = sum(followers) / len(followers)
nearest = round(mean_code)

ax = plt.subplots(figsize=(8, 2.6))[1]
ax.bar(range(128), times)
ax.axvline(mean_code, linestyle="--", color="tab:red")
marked = [*times.topk(4).indices.tolist(), nearest]
ax.set_xticks(marked, [visible(chr(code)) for code in marked])
ax.set_xlabel("code of the character after t")
ax.set_ylabel("times")
plt.show()
print(f"the mean is {mean_code:.1f}, next to {chr(nearest)!r}, which follows {times[nearest]} times")

# %% name="codes-shown"
assert [bar.get_height() for bar in ax.patches] == times.tolist()
assert times[74:91].sum() == 0 and 80 < mean_code < 85, "J to Z: no bar to either side of the line"

# %% [markdown] name="question-answer"
# The mean, 82.7, lies where there is nothing: between the space (32) and *h* (104) it finds the capitals R and S, which
# never follow a *t*. A character is no quantity. We need three things instead:
#
# 1. a number that is a *name* and nothing more (a tokenizer);
# 2. for each character a *vector*, with room for what it has in common with others (an embedding);
# 3. as an answer, a *probability for each character* (a model).
#
# ## Numbers as names
#
# A **tokenizer** turns a text into whole numbers and back. Ours takes the different characters of a text, its
# vocabulary, in sorted order; a character's number, its **id**, is its place there. On paper, with a fruit:

# %% name="papaya"
word = "papaya"
vocabulary = sorted(set(word))
ids = [vocabulary.index(character) for character in word]
print(vocabulary, ids)

# %% [markdown] name="ex-tokenizer-text"
# **Exercise 01.tokenizer · ★★ · 8 min.** Make it a class. What should it do with a *z*? A tokenizer that makes
# something up hands the model another text than yours, without a word. So `encode` shall stop, and say which character
# it does not know.

# %% name="ex-tokenizer" tags=["exercise"] course={"exercise": "01.tokenizer"}
class Tokenizer:
    """Characters to whole numbers and back.

    vocabulary: a string, each different character of the text once, in the order of `sorted`;
    the number of a character is its place in it.
    """

    def __init__(self, text):
        raise NotImplementedError

    def encode(self, text):
        """The characters' numbers, a list of ints. ValueError, naming it, at an unknown character."""
        raise NotImplementedError

    def decode(self, numbers):
        """The text that has these numbers, a string."""
        raise NotImplementedError

# %% name="check-tokenizer" tags=["check", "nbval-ignore-output"]
Tokenizer = check("01.tokenizer", Tokenizer)

# %% [markdown] name="tokenizer-same-text"
# The course's own tokenizer should give the same numbers. We try both on the course's sentence, in English and in
# Chinese; then that of the plays meets something that Shakespeare never wrote.

# %% name="tokenizer-same"
from course_lib.data.tokenizer import CharTokenizer

english = "The animal did not cross the road because it was too tired."
chinese = "那只动物没有过马路，因为它太累了。"
for sentence in (english, chinese):
    own, library = Tokenizer(sentence), CharTokenizer.from_text(sentence)
    numbers = own.encode(sentence)
    print(f"{len(numbers)} characters, {len(own.vocabulary)} of them different;", end=" ")
    print("like the library:", numbers == library.encode(sentence).tolist() and own.decode(numbers) == sentence)

V = corpus.tokenizer.vocab_size
print(f"the plays: {V} different characters;", f"Tang verse: {load_corpus('tang').tokenizer.vocab_size:,}")
try:
    corpus.tokenizer.encode("Romeo, 16")
except ValueError as error:
    print(str(error).partition(";")[0], "…")

# %% [markdown] name="tokenizer-answer"
# The same sentence takes 59 characters in English and 17 in Chinese, where nearly each of them is a word or half of
# one. Whatever a model reads as one unit is called a **token**. Ours are characters; large models read pieces of words.
#
# ## A vector for each name
#
# An **embedding** is a table with one row for each token; the row is the token's **vector**, and its length is called
# `d_model`. To embed a text, look up its rows. A model shall *learn* the table, so one must be able to differentiate a
# lookup, and one can: it is a matrix product. A **one-hot vector** has a 1 at the place of the token and 0 elsewhere.

# %% [markdown] name="ex-one-hot-text"
# From here on numbers lie in **tensors**, PyTorch's arrays. They work much like NumPy's: a tensor has a shape and one
# kind of number (`dtype`); `a[ids]` picks rows, `@` multiplies matrices, `.sum(dim=1)` adds along an axis. We write a
# shape as the names of its axes: (position, vocab_size) has a row for each position of a text.
#
# **Exercise 01.one-hot · ★ · 4 min.** Write the one-hot vectors of a text, one in each row.

# %% name="ex-one-hot" tags=["exercise"] course={"exercise": "01.one-hot"}
def one_hot(ids, vocab_size):
    """Row i is 1 at place ids[i] and 0 elsewhere: (position,) → (position, vocab_size), float32."""
    raise NotImplementedError

# %% name="check-one-hot" tags=["check", "nbval-ignore-output"]
one_hot = check("01.one-hot", one_hot)

# %% name="embedding"
ids = torch.tensor(ids)  # p a p a y a: (position,)
table = torch.tensor([[0.1, 0.2], [1.0, 0.0], [0.0, 3.0]])  # (vocab_size, d_model): a, p, y

by_loop = torch.zeros(6, 2)
for i, hot in enumerate(one_hot(ids, 3)):
    for row in range(3):
        by_loop[i] += hot[row] * table[row]
as_product = one_hot(ids, 3) @ table  # (position, vocab_size) @ (vocab_size, d_model)
by_library = nn.Embedding.from_pretrained(table)(ids)
print(by_loop)
print("loop = product = lookup = library:", all(torch.equal(by_loop, x) for x in (as_product, table[ids], by_library)))

# %% [markdown] name="embedding-answer"
# The 1 picks its row, the zeros add nothing. Every *a* has the same vector, wherever it stands: an embedding knows
# nothing of the neighbours.
#
# ## The smallest language model
#
# A **bigram** is a pair of neighbours. A **bigram model** guesses the next character from the present one alone: it
# needs a table that says how often each comes after each. **Work it out for *papaya* on paper** before you read on:
# five pairs.

# %% name="count"
by_loop = torch.zeros(3, 3, dtype=torch.int64)  # (before, after)
for before, after in pairwise(ids):
    by_loop[before, after] += 1


def count_pairs(ids, vocab_size):
    """How often each character comes after each: (position,) → (before, after)."""
    pairs = ids[:-1] * vocab_size + ids[1:]  # one number for each kind of pair
    return torch.bincount(pairs, minlength=vocab_size**2).view(vocab_size, vocab_size)


as_product = one_hot(ids[:-1], 3).T @ one_hot(ids[1:], 3)
print(by_loop)
others = as_product.long(), count_pairs(ids, 3)
print("loop = product = bincount:", all(torch.equal(by_loop, other) for other in others))

# %% [markdown] name="ex-bigram-text"
# Rows and columns are a, p, y. After *a* came *p* once and *y* once; after *p* twice *a*.
#
# **Exercise 01.bigram · ★ · 5 min.** Make probabilities of the counts. A pair that was never counted would get a
# probability of 0, and never is a long time; so each count is raised by a small number first. This is called
# **smoothing**.

# %% name="ex-bigram" tags=["exercise"] course={"exercise": "01.bigram"}
def bigram_probabilities(counts, smoothing):
    """Counts (before, after) → probabilities of what comes after: same shape, rows sum to 1.

    `smoothing` is added to every count first.
    """
    raise NotImplementedError

# %% name="check-bigram" tags=["check", "nbval-ignore-output"]
bigram_probabilities = check("01.bigram", bigram_probabilities)

# %% [markdown] name="bigram-picture-text"
# Now the plays, a million characters. In the picture a row is the character before, a column the one after, and dark
# means likely. **Look for** rows with a single dark square, columns that are dark in many rows, and a large block that
# is empty.

# %% name="bigram-picture"
from course_lib.plots import shown
from course_lib.plots.labels import label_axis

counts = count_pairs(corpus.train, V)  # (before, after)
probabilities = bigram_probabilities(counts, 1.0)
ax = plt.subplots(figsize=(9, 9))[1]
ax.imshow(probabilities, cmap="Blues", vmin=0, vmax=1)
for axis, name in ((ax.yaxis, "before"), (ax.xaxis, "after")):
    label_axis(axis, corpus.tokenizer.vocabulary)
    axis.set_label_text(name)
ax.tick_params(labelsize=8)
plt.show()

# %% name="bigram-picture-shown"
assert torch.equal(torch.tensor(shown(ax)), probabilities)


def chance(before, characters):
    """The probability that one of these characters comes after `before`."""
    row = probabilities[corpus.tokenizer.encode(before)[0]]
    return row[corpus.tokenizer.encode(characters)].sum().item()


assert chance("q", "u") > 0.9 and chance("v", "e") > 0.7
assert all(chance(small, corpus.tokenizer.vocabulary[11:37]) < 0.05 for small in "abcdefghijklmnop")

# %% [markdown] name="bigram-picture-answer"
# After *q* comes *u*, after *v* mostly *e*; after a full stop or a colon, a new line. The space and *e*, the commonest
# characters, are dark in many rows. And after a small letter there is hardly ever a capital.

# %% [markdown] name="formula"
# ## What a text costs
#
# How good is the table? As in lesson 00, we take the mean surprise, the loss:
#
# $$L = -\frac{1}{N}\sum_{i=1}^{N} \ln P_{x_i,\,x_{i+1}}
# \qquad\text{an even guess: } L = \ln V
# \qquad\text{in bits: } L / \ln 2$$
#
# | symbol | in code | is |
# |---|---|---|
# | $x_i$ | `ids[i - 1]` | the i-th character of the text |
# | $N$ | `len(ids) - 1` | the number of pairs |
# | $P_{ab}$ | `probabilities[a, b]` | (before, after): the probability of b after a |
# | $V$ | `vocab_size` | the number of different characters |
#
# *Papaya* by hand: after *p* there is no doubt, after *a* it is half and half. So
# $L = (0 + \ln 2 + 0 + \ln 2 + 0)/5 \approx 0.28$ nats; an even guess would cost $\ln 3 \approx 1.10$.

# %% [markdown] name="ex-loss-text"
# **Exercise 01.loss · ★★ · 5 min.** Write it for any text, without a loop.

# %% name="ex-loss" tags=["exercise"] course={"exercise": "01.loss"}
def mean_surprise(probabilities, ids):
    """Mean of −ln p over all pairs of neighbours in ids (position,), in nats, a float.

    probabilities: (before, after); p is the entry of the pair.
    """
    raise NotImplementedError

# %% name="check-loss" tags=["check", "nbval-ignore-output"]
mean_surprise = check("01.loss", mean_surprise)

# %% [markdown] name="break-text"
# ## Break it: no smoothing
#
# We counted in one part of the plays, and measure on another that was kept back, the **validation split**. **Predict**:
# what does the loss become without smoothing, if one pair there is new?

# %% name="break-zero"
papaya = bigram_probabilities(count_pairs(ids, 3), 0.0)
assert math.isclose(mean_surprise(papaya, ids), 2 * math.log(2) / 5, rel_tol=1e-5)

kept_back = corpus.validation
new = (counts[kept_back[:-1], kept_back[1:]] == 0).sum().item()
print(f"{new} of the {len(kept_back) - 1:,} pairs of the other part never occurred in the counted one")
for smoothing in (0.0, 0.01, 1.0, 100.0, 10_000.0):
    loss = mean_surprise(bigram_probabilities(counts, smoothing), kept_back)
    print(f"smoothing {smoothing:8}: {loss:.2f} nats")

# %% [markdown] name="break-answer"
# Fewer than two pairs in a thousand, and the price is infinite: to say *never* and be wrong once is unforgivable. Any
# small number heals it. A large one drowns what was counted, and the loss goes back towards ln 63 ≈ 4.14.
#
# ## The same table, learned
#
# For this model the best table is known: the shares themselves. Later models have no such formula. What works for all
# is **gradient descent**: begin anywhere, and again and again move each number a little against its **gradient**, which
# says how much the loss would change if this number grew a little. PyTorch's `backward` works it out: tensors remember
# what they were made from, except under `torch.no_grad()`.
#
# We learn a table of **scores**, any numbers. The **softmax** makes probabilities of a row of them: take the
# exponential of each (now all are positive), and divide by their sum (now they add up to 1). All scores begin at 0.
# **Predict** where the curve begins, and where it ends.

# %% name="learn"
share = counts / counts.sum()  # equal pairs cost the same, so each kind is worked out once
scores = torch.zeros(V, V, requires_grad=True)  # (before, after)
learning = []
for _ in range(2000):
    loss = -(share * scores.log_softmax(dim=-1)).sum()  # mean surprise over all pairs
    loss.backward()
    with torch.no_grad():
        scores -= 50 * scores.grad  # a large step, because the shares are small
    scores.grad = None
    learning.append(loss.item())

counted = mean_surprise(bigram_probabilities(counts, 0.0), corpus.train)
ax = plt.subplots(figsize=(6.4, 3))[1]
ax.plot(range(1, 2001), learning)
for level in (math.log(V), counted):
    ax.axhline(level, linestyle=":", color="gray")
ax.set_xscale("log")
ax.set_xlabel("step")
ax.set_ylabel("loss (nats per character)")
plt.show()

# %% name="learn-shown"
assert list(ax.lines[0].get_ydata()) == learning
print("begins at an even guess, ln 63:", math.isclose(learning[0], math.log(63), rel_tol=1e-5))
print(f"counted {counted:.2f}, learned {learning[-1]:.2f}")
assert counted < learning[-1] < counted + 0.01
rare = corpus.tokenizer.encode("&")[0]
off = (scores.softmax(dim=-1) - bigram_probabilities(counts, 0.0)).abs().amax(dim=-1)  # (before,)
assert counts[rare].sum() == 11 and off[rare] > 0.9 and (off > 0.05).sum() == 5

# %% [markdown] name="learn-answer"
# From the upper dotted line nearly to the lower. The rows of rare characters are not there yet: *&* occurs 11 times in a
# million, so its share, and with it its gradient, is tiny. The loss hardly notices. And the table is a network: an
# embedding with `d_model` = 63, whose vectors are used as scores.

# %% [markdown] name="ex-bits-text"
# **Exercise 01.bits · ★ · 3 min.** Nats are handy for formulas. People who compress files count **bits**: an even guess
# between two costs one bit.

# %% name="ex-bits" tags=["exercise"] course={"exercise": "01.bits"}
def bits_per_character(nats):
    """A loss in nats per character → the same in bits per character, a float."""
    raise NotImplementedError

# %% name="check-bits" tags=["check", "nbval-ignore-output"]
bits_per_character = check("01.bits", bits_per_character)

# %% [markdown] name="ladder-text"
# Now the validation split, in both units. "Frequencies" knows how often each character occurs, no more. The last line is
# the GPT of lesson 00, on the whole split (lesson 00 took its first 20,000 characters, and got 1.45). **Guess** how much
# better it is than a table of pairs.

# %% name="ladder"
import json

from course_lib.data.corpora import DATA_FOLDER

result = json.loads((DATA_FOLDER / "checkpoints" / "shakespeare" / "result.json").read_text("utf-8"))
frequencies = (torch.bincount(corpus.train, minlength=V) / len(corpus.train)).expand(V, V)
ladder = {
    "even guess": math.log(V),
    "frequencies": mean_surprise(frequencies, kept_back),
    "bigram": mean_surprise(probabilities, kept_back),
    "GPT": result["val_loss"],
}
for name, nats in ladder.items():
    print(f"{name:12} {nats:.2f} nats = {bits_per_character(nats):.2f} bits per character")
assert 1.2 < (ladder["frequencies"] - ladder["bigram"]) / math.log(2) < 1.3
assert 1.4 < (ladder["bigram"] - ladder["GPT"]) / math.log(2) < 1.5

# %% [markdown] name="ladder-answer"
# **Bits per character** are what a perfect compressor, led by the model, would need for each; stored plainly, each
# takes 8. One step back (bigram) saves more than a bit. A GPT, which looks up to 256 characters back, saves nearly one
# and a half more. (Papers often give e to the loss in nats, the **perplexity**: among how many equally likely characters
# the model hesitates. For an even guess that is 63.)
#
# ## What the vectors are good for
#
# Our table has 63 numbers for each character. Now each gets only *two*: an embedding of width 2, and a second matrix
# that makes 63 scores of them. (`nn.Linear` is such a matrix, and adds to each output a learned constant, the **bias**.)
# The characters have to share. (Adam is gradient descent with a step of its own for each number, and `lr` sets the size
# of all: lesson 10. `zero_grad` empties the gradients, to which `backward` would add.) **Look for** a, e, i, o and u.

# %% name="vectors"
def learn_vectors(seed):
    """Two numbers for each character (before, d_model), and the loss that is left."""
    torch.manual_seed(seed)
    embedding, to_scores = nn.Embedding(V, 2), nn.Linear(2, V)
    optimizer = torch.optim.Adam([*embedding.parameters(), *to_scores.parameters()], lr=0.05)
    for _ in range(600):
        scores = to_scores(embedding.weight)  # (before, after)
        loss = -(share * scores.log_softmax(dim=-1)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return embedding.weight.detach(), loss.item()


vectors, loss = learn_vectors(seed=0)
ax = plt.subplots(figsize=(6.4, 6))[1]
kinds = {"aeiou": "tab:red", "bcdfghjklmnpqrstvwxyz": "tab:blue"}
for character, (x, y) in zip(corpus.tokenizer.vocabulary, vectors.tolist(), strict=True):
    color = next((kinds[kind] for kind in kinds if character in kind), "gray")
    ax.text(x, y, visible(character), color=color, ha="center", va="center")
(left, bottom), (right, top) = vectors.amin(dim=0) - 0.5, vectors.amax(dim=0) + 0.5
ax.set(xlim=(left, right), ylim=(bottom, top), xlabel="first number", ylabel="second number")
plt.show()

# %% name="vectors-shown"
assert {text.get_text() for text in ax.texts} == {visible(c) for c in corpus.tokenizer.vocabulary}
assert ladder["bigram"] < loss < ladder["frequencies"], "two numbers are worth something"
for seed in (0, 1, 2):
    vectors, _ = learn_vectors(seed)
    vowels, consonants = (vectors[corpus.tokenizer.encode(kind)] for kind in kinds)
    ratio = torch.pdist(vowels).mean() / torch.cdist(vowels, consonants).mean()
    print(f"seed {seed}: vowels are at least twice as near to vowels as to consonants:", (ratio < 0.5).item())

# %% [markdown] name="vectors-answer"
# The vowels stand together, and most consonants in a crowd of their own; with other seeds the picture turns, and the
# vowels stay together. Nobody told the table what a vowel is: characters that are *followed by* similar things got
# similar vectors.
#
# ## How far back must one look?
#
# Then let us count what comes after *th*, after *the*, after *the animal*. Of all pieces of k characters in the
# validation split, how many never occurred in the million that we counted? **Guess** for k = 8.

# %% name="far"
kept_text = corpus.tokenizer.decode(kept_back)
unseen = {}
for k in (1, 2, 4, 8, 16):
    known = {plays[i : i + k] for i in range(len(plays) - k + 1)}
    pieces = [kept_text[i : i + k] for i in range(len(kept_text) - k + 1)]
    unseen[k] = sum(piece not in known for piece in pieces) / len(pieces)
    print(f"k = {k:2}: {len(known):7,} different pieces; never seen before: {unseen[k]:4.0%}")

# %% [markdown] name="far-answer"
# Half of all pieces of 8 characters are new, and nearly all of 16: counting runs out of text. To a table, *the animal*
# and *the animals* are two strangers; vectors let similar contexts share. So we need a way to make one vector out of
# *many* characters, near and far.
#
# ## One memory for everything: RNN and LSTM
#
# A **recurrent network** (RNN) reads one token at a time and keeps a single vector, its **state**: the new state is
# made of the old one and of the new token. With states of one number, on paper, $h_t = \tanh(x_t + \tfrac12 h_{t-1})$;
# the token to remember is 1, all later ones are 0:

# %% name="rnn"
state, states = 0.0, []
for x in (1.0, 0.0, 0.0, 0.0, 0.0, 0.0):
    state = math.tanh(x + 0.5 * state)
    states.append(state)
print([round(state, 3) for state in states])

# %% [markdown] name="lstm-text"
# It fades: half is left at each step, and a little less at first. An **LSTM** (Hochreiter & Schmidhuber 1997; with the
# gate $f$, Gers et al. 2000) keeps a second vector, the memory $c$, and three **gates**, numbers between 0 and 1 that
# it works out from the token and the state: how much to keep ($f$, the forget gate), to write ($i$), to show ($o$).
#
# $$c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad h_t = o_t \odot \tanh(c_t)$$
#
# ($\odot$ multiplies entry by entry; $g_t$ is what there is to write.) With $f = 1$ nothing would fade. But a newborn's
# gates stand near $\tfrac12$. The library's `RecurrentModel` is an embedding, an LSTM and a matrix that makes scores of
# each state. Here is its LSTM as a loop:

# %% name="lstm"
from course_lib.model.recurrent import RecurrentModel

reader = RecurrentModel(vocab_size=V, d_model=64)
cell = nn.LSTMCell(64, 64)  # one step, with the same weights
cell.load_state_dict({name.removesuffix("_l0"): w for name, w in reader.recurrent.state_dict().items()})
x = reader.token_embedding(corpus.tokenizer.encode(english)[None])  # (batch, position, d_model)


def read_by_steps(x):
    """The state after each character: (batch, position, d_model)."""
    hidden = memory = torch.zeros(len(x), 64)
    states = []
    for t in range(x.shape[1]):  # character t has to wait for the state after t − 1
        hidden, memory = cell(x[:, t], (hidden, memory))
        states.append(hidden)
    return torch.stack(states, dim=1)


print("loop = library:", torch.allclose(read_by_steps(x), reader.recurrent(x)[0], atol=1e-5))

# %% [markdown] name="recall-text"
# ## A task that needs memory
#
# What *it* means depends on a word far away. We boil that down to a game: a capital, then small letters at random, then
# a question mark: which capital was it? There are eight, so a blind guess is right in 1 of 8.

# %% name="recall-task"
letters = Tokenizer("?ABCDEFGHabcdefghijklmnopqrstuvwxyz")  # numbers 0, 1 to 8, 9 to 34


def recall_batch(distance, size, generator):
    """Texts (batch, position), `distance` small letters between capital and “?”; the capitals (batch,)."""
    capital = torch.randint(1, 9, (size, 1), generator=generator)
    small = torch.randint(9, 35, (size, distance), generator=generator)
    question = torch.zeros(size, 1, dtype=torch.int64)
    return torch.cat([capital, small, question], dim=1), capital[:, 0]


texts, answers = recall_batch(12, 3, torch.Generator().manual_seed(0))
for text, answer in zip(texts.tolist(), answers.tolist(), strict=True):
    print(letters.decode(text), "→", letters.decode([answer]))

# %% [markdown] name="reader-text"
# Against the LSTM we set one layer of attention, for now as a box; lesson 02 opens it. The question mark compares
# itself with *every* character of the text, directly, and takes home a mixture of their vectors. Its weights say how
# much of each. (Each model gets first vectors of a size that suits it: the LSTM large ones, attention small ones. An
# `nn.Module` is PyTorch's form for whatever has parameters: what it computes stands in `forward`. Lesson 04 explains it.)
#
# Both have vectors of width 64, both see 300 **batches**, 64 texts at once. **Predict** for each: what becomes of its
# accuracy when 4, 16, 64 letters lie between?

# %% name="readers"
from course_lib.model.attention import attention


class AttentionReader(nn.Module):
    """Scores (batch, vocab_size) of the answer, by one layer of attention without positions."""
    def __init__(self, vocab_size=35, d_model=64):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.embedding.weight, std=0.02)  # small, as in a GPT
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))
        self.to_scores = nn.Linear(d_model, vocab_size)

    def read(self, x):
        """What the last character takes home (batch, 1, d_model), and its weights (batch, 1, position)."""
        return attention(self.query(x[:, -1:]), self.key(x), self.value(x))

    def forward(self, tokens):
        return self.to_scores(self.read(self.embedding(tokens))[0][:, -1])


class LSTMReader(RecurrentModel):
    """The same scores, from an LSTM's last state."""

    def forward(self, tokens):
        return super().forward(tokens)[:, -1]

# %% name="recall"
from torch.nn.functional import cross_entropy  # mean surprise, from scores


def train_to_recall(model, distance, steps=300, seed=0):
    """The share of 1,000 new texts that the model gets right after training on this distance."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(steps):
        texts, answers = recall_batch(distance, 64, generator)
        optimizer.zero_grad()
        cross_entropy(model(texts), answers).backward()
        optimizer.step()
    texts, answers = recall_batch(distance, 1000, generator)
    with torch.no_grad():
        return (model(texts).argmax(dim=-1) == answers).double().mean().item()

# %% name="recall-run" tags=["nbval-ignore-output"]
accuracy = {}
for distance in (4, 16, 64):
    for kind in (LSTMReader, AttentionReader):
        torch.manual_seed(0)
        model = kind(35)
        accuracy[kind.__name__, distance] = train_to_recall(model, distance)
    print(distance, {name: round(a, 2) for (name, d), a in accuracy.items() if d == distance})

# %% name="recall-bounds"
finder = model  # the last one: attention, with 64 letters in between
assert accuracy["LSTMReader", 4] > 0.95
assert max(accuracy["LSTMReader", distance] for distance in (16, 64)) < 0.3, "hardly a blind guess's 0.125"
assert all(accuracy["AttentionReader", distance] > 0.99 for distance in (4, 16, 64))

# %% [markdown] name="fade-text"
# ## For a second reading: why is it hard?
#
# (You may leave this out for now and go on at *What has to wait for what*. In short: in an LSTM what a far character has
# to teach fades on its way back, unless the gates begin open.)
#
# Not because an LSTM could not hold a letter: its gates need only stay open. But it has to *learn* that, and it learns
# from the gradient: had the vector of the capital been a little different, how would the last state differ? **Look
# for** how much of this is left 16 characters back, and 64, before any training. (*Gates open* is an LSTM whose gate
# $f$ begins near 0.95.)

# %% name="fade"
def influence(last_state, embedding):
    """How much each character's vector moves the last state, in a newborn model: (position,)."""
    texts, _ = recall_batch(63, 16, torch.Generator().manual_seed(0))  # 65 characters
    x = embedding(texts).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(last_state(x).sum(), x)
    return gradient.norm(dim=-1).mean(dim=0)


torch.manual_seed(0)
rnn, lstm, open_lstm = RecurrentModel(35, cell="rnn"), LSTMReader(35), LSTMReader(35)
open_lstm.recurrent.bias_ih_l0.data[64:128] = 3  # added to what f is made of
direct = AttentionReader()
curves = {
    name: influence(lambda x, m=m: m.recurrent(x)[0][:, -1], m.token_embedding)
    for name, m in {"RNN": rnn, "LSTM": lstm, "LSTM, gates open": open_lstm}.items()
}
curves["attention"] = influence(lambda x: direct.read(x)[0][:, -1], direct.embedding)

ax = plt.subplots(figsize=(8, 3.4))[1]
for name, curve in curves.items():
    ax.semilogy(range(64, -1, -1), curve, label=name)
ax.set(xlabel="characters back", ylabel="influence on the last state")
ax.legend(loc="lower left")
plt.show()

# %% name="fade-shown"
kept = {}
for line, (name, curve) in zip(ax.lines, curves.items(), strict=True):
    assert line.get_ydata().tolist() == curve.tolist()
    ratio = (curve[0] / curve[-2]).item()  # 64 characters back, against 1
    kept[name] = ratio ** (1 / 63)
    print(f"{name:17} keeps {kept[name]:4.0%} with each character; after 63 of them {ratio:.0e}")
assert kept["RNN"] < 0.5 < kept["LSTM"] < 0.7 < 0.95 < kept["LSTM, gates open"]

# %% [markdown] name="fade-answer"
# In the RNN more than half is lost with each character, in the LSTM more than a third, and such losses multiply. This
# is the **vanishing gradient** (Hochreiter 1991; Bengio et al. 1994). Gates that begin open let it through. Attention
# at first reads all 65 characters alike: a little from each, and no less from the farthest.
#
# ## Does this explain it?
#
# If it does, an LSTM whose gates begin open should learn what the other could not. We test it with five seeds each. To
# be fair to the LSTM some runs have four times the steps; to be fair to both, some attention has first vectors as large
# as the LSTM's. It took minutes (`python -m benchmarks.lesson_tables.recall`). **Look for** the cliff, for what open
# gates do to it, and for points of one colour that lie far apart.

# %% name="seeds"
from course_lib.data.tables import load_table

runs = load_table("recall")["runs"]  # model → distance → right answers, one for each seed
places = {"4": 0, "8": 1, "16": 2, "64": 3}
ax = plt.subplots(figsize=(8, 3.4))[1]
for number, (name, by_distance) in enumerate(runs.items()):
    shift = (number - 2.5) / 8  # so that no model hides another
    points = [(places[d] + shift, a) for d, accuracies in by_distance.items() for a in accuracies]
    ax.plot(*zip(*points, strict=True), "o", alpha=0.5, label=name)
ax.axhline(1 / 8, linestyle=":", color="gray")
ax.vlines([0.5, 1.5, 2.5], 0, 1.05, color="gray", linewidth=0.5)
ax.set_xticks(range(4), places)
ax.set(xlabel="letters between capital and question mark", ylabel="right answers", ylim=(0, 1.05))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
plt.show()

# %% name="seeds-shown"
for line, (name, by_distance) in zip(ax.lines[:-1], runs.items(), strict=True):
    assert line.get_label() == name
    assert line.get_ydata().tolist() == [a for accuracies in by_distance.values() for a in accuracies]
    spans = [f"{d}: {min(a):.2f} to {max(a):.2f}" for d, a in by_distance.items()]
    print(f"{name:35}", ", ".join(spans))
small, large, short, long, open_short, open_long = runs.values()
assert all(min(a) == 1 for a in [*small.values(), short["4"], short["8"], open_short["16"]])
assert max(*short["16"], *short["64"]) < 0.2 and max(*long["16"], *long["64"]) < 0.3
assert [sum(a > 0.99 for a in run["64"]) for run in (open_short, open_long, large)] == [3, 4, 0]
assert all(min(large[d]) < 0.8 and max(large[d]) == 1 for d in ("4", "16"))

# %% [markdown] name="seeds-answer"
# Attention is right at every distance, with every seed. The LSTM is over the cliff at 16 letters, and four times the
# steps hardly help. Open gates carry it across 16 with every seed, in the same 300 steps, and across 64 with three of
# five (four, with 1,200). So what it lacked was not room, but mostly a gradient. And attention with large first vectors
# gets stuck with some seeds at 4 and 16, with all at 64: it has its own ways to fail.

# %% [markdown] name="wait-text"
# ## What has to wait for what
#
# An LSTM has a second trouble: its many steps have to wait for one another. State *t* cannot be worked out before state
# *t* − 1 is there. Tensors remember what they were made from, so the library can count the longest chain of matrix
# products in which each needs the one before. **Predict** the numbers for 64 characters.

# %% name="wait"
from course_lib.model.waiting import longest_chain

print("characters   LSTM   attention")
for n in (8, 16, 32, 64):
    x = torch.randn(1, n, 64)
    by_lstm = longest_chain(reader.head(read_by_steps(x)[:, -1]))  # head: its matrix that makes scores
    by_attention = longest_chain(finder.to_scores(finder.read(x)[0][:, -1]))
    print(f"{n:10}   {by_lstm:4}   {by_attention:9}")

# %% [markdown] name="wait-answer"
# The LSTM's chain grows with the text: n characters take n + 1 products, one after the other. Attention's is always
# four long: key, score, mixture, and the matrix at the end. All characters are worked on at once, and that is what a
# GPU is made for.
#
# ## Break it: two capitals
#
# The attention that we trained with 64 letters in between has never seen a short text. We give it four: the game as it
# knows it; the capital in the middle; and *two* capitals, in either order. **Look for** the dark squares. Will it tell
# the last two texts apart?

# %% name="break-order"
from course_lib.plots import heatmap

two_capitals = ("GjwkdBpzoa?", "BjwkdGpzoa?")
figure, axes = plt.subplots(4, 1, figsize=(7, 5))
for ax, text in zip(axes, ("Gjwkdbpzoa?", "jwkdGbpzoa?", *two_capitals), strict=True):
    x = finder.embedding(torch.tensor([letters.encode(text)]))
    heatmap(finder.read(x)[1][0], ["?"], list(text), ax=ax, numbers=True)
    ax.set_xlabel("")
    ax.set_ylabel("")
plt.show()

# %% name="break-order-shown"
assert shown(axes[0])[0, 0] > 0.9 and shown(axes[1])[0, 4] > 0.9, "it finds the capital"
first, second = (torch.tensor([letters.encode(text)]) for text in two_capitals)
for name, reader in {"attention": finder, "LSTM": LSTMReader(35)}.items():
    print(f"{name}: the same scores in both orders:", torch.allclose(reader(first), reader(second), atol=1e-4))

# %% [markdown] name="break-order-answer"
# It finds the capital wherever it stands, at a distance that it was never trained on. But *which came first?* it cannot
# say: both orders give it the same scores. It compares vectors, and a vector does not say where it stands. An LSTM,
# even a newborn one, hears the difference. Lessons 06 and 07 will have to add order.
#
# ## How attention came to be all
#
# In 2014 the new, *neural* translators were recurrent: one network read the sentence into a single vector, another wrote
# the translation from it, and long sentences suffered. Bahdanau, Cho and Bengio let the writing network look back at
# *all* states of the reading one, with weights of its own choosing: attention, as a help for a recurrent network.
# Vaswani et al. (2017) kept the help and dropped the recurrence. That is the **Transformer**.

# %% [markdown] name="practice"
# ## In practice
#
# **Fewer steps in a row is not less work.** Attention compares every token with every other: twice the text, four times
# the comparisons ([lesson 14](14_the_bill.ipynb)).
#
# **Recurrence is not dead.** One state of fixed size is cheap when one writes, and newer recurrent models, whose gates
# do not depend on the state, train with hardly any waiting: some log₂ n steps in a row (for instance Mamba, Gu & Dao
# 2023).

# %% [markdown] name="recap"
# ## Recap
#
# 1. A **tokenizer** gives each token of its vocabulary a number, which is a name. At an unknown character it stops and
#    names it.
# 2. An **embedding** is a table of vectors; a lookup is the product of a one-hot vector with the table, so it can be
#    learned.
# 3. A text costs a model the mean of −ln p: ln V for an even guess; divided by ln 2 it is in **bits per character**.
#    Counting and gradient descent reach nearly the same loss (2.45 and 2.46).
# 4. Long contexts cannot be counted, for nearly all of them are new. Vectors let similar things share.
# 5. An LSTM reads one token after another into one memory, through which a gradient fades unless the gates are open.
#    Attention reaches each token in one step. It pays with comparisons of all with all, and does not see order.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; some have more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("01")

# %% [markdown] name="sources"
# ## Sources
#
# - Shannon 1951, *Prediction and Entropy of Printed English*, [doi
#   10.1002/j.1538-7305.1951.tb01366.x](https://doi.org/10.1002/j.1538-7305.1951.tb01366.x): bits per letter.
# - Hochreiter 1991 (thesis, TU München, in German) and Bengio, Simard, Frasconi 1994, [doi
#   10.1109/72.279181](https://doi.org/10.1109/72.279181): the vanishing gradient.
# - Bengio et al. 2003, *A Neural Probabilistic Language Model*, [JMLR
#   3](https://www.jmlr.org/papers/v3/bengio03a.html): learned vectors of words, against contexts that no counting has
#   seen.
# - Hochreiter & Schmidhuber 1997, *Long Short-Term Memory*, [doi
#   10.1162/neco.1997.9.8.1735](https://doi.org/10.1162/neco.1997.9.8.1735): a memory with gates. Gers, Schmidhuber,
#   Cummins 2000, [doi 10.1162/089976600300015015](https://doi.org/10.1162/089976600300015015): the
#   forget gate.
# - Jozefowicz, Zaremba, Sutskever 2015, *An Empirical Exploration of Recurrent Network Architectures*, [PMLR
#   37](https://proceedings.mlr.press/v37/jozefowicz15.html): begin with open forget gates.
# - Bahdanau, Cho, Bengio 2014, [arXiv 1409.0473](https://arxiv.org/abs/1409.0473): attention, as a help for a recurrent
#   translator.
# - Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): only
#   attention; its table 1 compares steps that wait, longest paths and arithmetic.
# - Gu & Dao 2023, *Mamba*, [arXiv 2312.00752](https://arxiv.org/abs/2312.00752): a recurrent model of today.

# %% [markdown] name="next"
# ## Next
#
# Attention was a box here: compare, weigh, mix. [Lesson 02](02_self_attention.ipynb) opens it, and *it* finds out who
# was tired.
