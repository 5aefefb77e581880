# %% [markdown] name="title"
# # Hide the future: the causal mask and next-token training
#
# Lesson 04 · [00 Start here](00_start_here.ipynb) · before: [03 Why divide by √d_k](03_scale.ipynb) ·
# next: [05 Many heads](05_many_heads.ipynb)

# %% [markdown] name="goals"
# **What you will build.** Attention that reads only what may be read, the mask that keeps the future hidden, and a test
# that finds out any model that peeks. With them, a small model learns to write one character after another.
#
# **Afterwards you can**
#
# 1. say what goes wrong, in training and in writing, when the mask is forgotten;
# 2. say why a hidden score becomes −∞ before the softmax, and neither 0 nor something after it;
# 3. explain how one pass over T tokens trains T predictions;
# 4. test any model for a leak;
# 5. mask padding, and say what a row with nothing to read should give;
# 6. choose between reading back and reading both ways.
#
# **What you need.** The attention of [lesson 02](02_self_attention.ipynb) and the loss of
# [lesson 00](00_start_here.ipynb). **Time:** 60 minutes, 23 of them for four exercises.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import check, hint, mine, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("04")

# %% [markdown] name="question"
# ## A model that is too good
#
# A GPT writes one token after another, so it is trained to guess the next one. Any text is full of examples. The first
# five words of our sentence hold four:
#
# | the model has read | and must guess: its **target** |
# |---|---|
# | The | animal |
# | The animal | did |
# | The animal did | not |
# | The animal did not | cross |
#
# So a piece of T + 1 tokens gives T inputs, the first T, and T targets, the last T: for each input the token after it. (T
# counts tokens from now on; lesson 03's was a temperature.)

# %% [markdown] name="ex-targets-text"
# **Exercise 04.targets · ★ · 3 min.** Cut inputs and targets out of a piece of text, or out of many at once: `...` in
# the docstring stands for any number of axes in front.

# %% name="ex-targets" tags=["exercise"] course={"exercise": "04.targets"}
def inputs_and_targets(tokens):
    """Tokens (..., T + 1) → inputs (..., T), and for each of them the token that follows."""
    raise NotImplementedError

# %% name="check-targets" tags=["check", "nbval-ignore-output"]
inputs_and_targets = check("04.targets", inputs_and_targets)

# %% [markdown] name="reader-text"
# Now a model. Each character gets a vector (lesson 01), and so does each place (its **position**), added to it, for attention alone does not know where a token
# stands (lesson 06 has more to say on this). One attention reads. What it brings is added to what was there, and a last matrix
# turns each result into scores for the next character. Which attention, is left open: `attend`.
#
# We write it as an `nn.Module`, PyTorch's class for whatever has parameters. `super().__init__()` sets up its lists and has to come first; from then on each
# attribute that is itself a layer is entered there, so that `model.parameters()` finds all the numbers to train. Calling the object,
# `model(tokens)`, runs its `forward`. With `bias=False` a layer is a matrix and no more, as W_Q, W_K and W_V are in lesson 02.

# %% name="reader"
from course_lib.data.corpora import load_corpus

corpus = load_corpus("shakespeare")
text, tokenizer = corpus.train, corpus.tokenizer  # (position,) characters as numbers
T, n_characters = 32, tokenizer.vocab_size


class Reader(nn.Module):
    """Tokens (..., position) → scores of every next token (..., position, vocab_size)."""

    def __init__(self, attend, d_model=64):
        super().__init__()
        self.attend = attend
        self.token_embedding = nn.Embedding(n_characters, d_model)
        self.position_embedding = nn.Embedding(T, d_model)
        self.query, self.key, self.value = (nn.Linear(d_model, d_model, bias=False) for _ in "qkv")
        self.scores = nn.Linear(d_model, n_characters)

    def read(self, tokens):
        """What each token has become, (..., position, d_model), and the weights it read with."""
        x = self.token_embedding(tokens) + self.position_embedding(torch.arange(tokens.shape[-1]))
        output, weights = self.attend(self.query(x), self.key(x), self.value(x))
        return x + output, weights

    def forward(self, tokens):
        return self.scores(self.read(tokens)[0])

# %% [markdown] name="train-text"
# We train it on Shakespeare with the attention of lesson 02, yours if it passed its check: every token reads every token.
# Each step takes 32 pieces of T + 1 = 33 characters from anywhere in the text, and moves the parameters so that the mean surprise
# at the targets gets smaller. (`AdamW` is lesson 01's Adam, which also pulls the parameters a little towards 0; lesson 10 looks into it, and into the loop.) **Predict**: an even guess among 63 characters costs ln 63 = 4.14 nats, and the bigram
# model of lesson 01, which knows only the character before, about 2.5 (the dotted line). Where will this one end?

# %% name="train"
def train(attend, steps=400, seed=0):
    """A trained Reader, and the loss of each step."""
    torch.manual_seed(seed)
    model, losses = Reader(attend), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(steps):
        starts = torch.randint(len(text) - T, (32, 1))
        inputs, targets = inputs_and_targets(text[starts + torch.arange(T + 1)])
        loss = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


attention = mine("02.attention")
peeking, peeking_losses = train(attention)

# %% name="peeking-curve"
pairs = torch.bincount(text[:-1] * n_characters + text[1:], minlength=n_characters**2)
pairs = pairs.view(n_characters, n_characters)  # (before, after)
shares = pairs / pairs.sum(dim=1, keepdim=True)
bigram_loss = -(pairs * shares.log()).nansum().item() / pairs.sum().item()

ax = plt.subplots(figsize=(6.4, 2.8))[1]
ax.plot(peeking_losses)
ax.axhline(bigram_loss, linestyle=":", color="gray")
ax.set_xlabel("step")
ax.set_ylabel("loss (nats per character)")
plt.show()

# %% name="peeking-curve-shown"
assert list(ax.lines[0].get_ydata()) == peeking_losses and peeking_losses[0] > 4
assert 2.4 < bigram_loss < 2.5 and ax.lines[1].get_ydata()[0] == bigram_loss
peeking_end = sum(peeking_losses[-50:]) / 50
print("below the dotted line by step 30:", peeking_losses[30] < bigram_loss)
print("at the end about 0.1 nats:", 0.05 < peeking_end < 0.15)

# %% [markdown] name="peeking-answer"
# It falls through the bigram's dotted line within 30 steps, and ends near 0.1 nats. Too good to be true. When Shannon
# (1951) let people guess English letter by letter (26 letters and the space), he estimated that, with a hundred letters to go by, what is left lies between 0.6 and 1.3 bits a letter, which is 0.4 to
# 0.9 nats. And here is one layer, trained for some seconds, that hesitates less. Let it write:

# %% name="peeking-writes" tags=["nbval-ignore-output"]
@torch.no_grad()
def write(model, prompt, seed=0):
    """The prompt, continued until T characters are there, each drawn from the model's guess."""
    tokens, generator = tokenizer.encode(prompt), torch.Generator().manual_seed(seed)
    while len(tokens) < T:
        guess = model(tokens)[-1].softmax(dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(guess, 1, generator=generator)])
    return tokenizer.decode(tokens)


for seed in range(3):
    print(repr(write(peeking, "The king ", seed)))

# %% [markdown] name="peeking-look"
# That is not the hand of one who hesitates less than a reader of English. So what does it do? We let it read a line of 32 characters, and
# draw its attention weights. **Look for** the dark stripe. On which side of the diagonal is it?

# %% name="peeking-weights"
from course_lib.plots import heatmap, shown

line = "The animal did not cross the road"[:T]
_, weights = peeking.read(tokenizer.encode(line))
ax = heatmap(weights, line)
plt.show()

# %% name="peeking-weights-shown"
assert torch.equal(torch.tensor(shown(ax)).float(), weights)
assert weights.diagonal(1).mean() > 0.9, "row i reads place i + 1"
inputs, targets = inputs_and_targets(text[: 300 * (T + 1)].view(300, T + 1))
surprises = cross_entropy(peeking(inputs).transpose(1, 2), targets, reduction="none")
share = (surprises[:, -1].sum() / surprises.sum()).item()
print("the last row has more than nine tenths of the loss:", share > 0.9)

# %% [markdown] name="peeking-why"
# One place to the *right* of it. Row i has to guess token i + 1, and token i + 1 stands in the same piece (or **window**), one place on; so it
# learned to look there and copy. Only the last row has nothing to its right and must really guess, and more than nine tenths of the loss that is left is its own. What was learned is
# good for nothing: in writing, the next token is not there yet. A way for the answer to reach the guess is called a
# **leak**. (The validation split does not find it out: copying works on any text.)
#
# So while it trains, no token may read what comes after it.

# %% [markdown] name="paper"
# ## Read only what is there
#
# Let us do it on paper. Four words, and scores that are chosen by hand so that their exponentials are whole numbers. Row
# *animal*: 3, 1, 2, 2. **Before you run the cell**, what are its four weights if it may read everything? And if only *The* and itself
# are there?

# %% name="loop"
words = ["The", "animal", "did", "not"]
exponentials = torch.tensor([[2.0, 5, 3, 2], [3, 1, 2, 2], [1, 6, 3, 2], [1, 2, 6, 1]])
query = 2 * exponentials.log()  # d_k = 4, so that the scaled scores are …
key = torch.eye(4)  # … the logarithms of the numbers above
value = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])


def causal_by_loops(query, key, value):
    """Each token reads itself and what stands before it; nothing else is even looked at."""
    n, d_k = query.shape
    weights, output = torch.zeros(n, n), torch.zeros(n, value.shape[1])
    for i in range(n):
        row = [math.exp(query[i] @ key[j] / math.sqrt(d_k)) for j in range(i + 1)]  # up to i
        for j in range(i + 1):
            weights[i, j] = row[j] / sum(row)
            output[i] += weights[i, j] * value[j]
    return output, weights


looped, looped_weights = causal_by_loops(query, key, value)
print(words[1], "reads, of all:      ", attention(query, key, value)[1][1])
print(words[1], "reads, looking back:", looped_weights[1])

# %% [markdown] name="formula"
# Of everything: 3/8, 1/8, 2/8, 2/8. Looking back: 3/4 and 1/4.
#
# ## The formula
#
# A loop is slow. So we keep the matrix product, which computes all scores, and make those that must not be
# read worth nothing:
#
# $$\mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V, \qquad M_{ij} = \begin{cases} 0 & \text{if } j \le i \\ -\infty & \text{if } j > i\end{cases}$$
#
# | symbol | in code | shape | says |
# |---|---|---|---|
# | $i$, $j$ | row, column | | the token that reads; the token read |
# | $j \le i$ | `may_attend` | (query, key), bool | True: i may read j |
# | $+\,M$ | `scores.masked_fill(~may_attend, -math.inf)` | (query, key) | hidden scores become −∞, the others stay |
#
# $e^{-\infty}$ is 0, so a hidden token gets no weight and has no part in the sum below the line: each row is the softmax over what it may
# read. `may_attend` is a **mask**. The one in the formula, True in the lower triangle, is the **causal mask**: what comes later
# must not act on what came before. ($V$ in the formula are lesson 02's values, not the number of characters in lesson 01's ln V.)

# %% [markdown] name="ex-mask-text"
# **Exercise 04.mask · ★ · 4 min.** Make the causal mask. Row: who reads. Column: what is read.

# %% name="ex-mask" tags=["exercise"] course={"exercise": "04.mask"}
def causal_mask(length):
    """Who may read whom: may_attend (query, key) = (length, length), bool.

    True where the query may read the key: the key stands at its place or before it.
    """
    raise NotImplementedError

# %% name="check-mask" tags=["check", "nbval-ignore-output"]
causal_mask = check("04.mask", causal_mask)

# %% [markdown] name="break-text"
# ## Break it: 0 in place of −∞, after in place of before
#
# Why so drastic? Three ways to hide: 0 in place of a score; 0 in place of a weight, after the softmax; −∞ before it. We look at row *animal*, which may read
# *The* and itself. Then we exchange a word that is hidden from it, so that the number at *not* is 20 in place of 2. **Predict** for each way: does the
# row sum to 1? Does the exchange show?

# %% name="break-three-ways"
may_attend = causal_mask(4)
ways = {
    "0 before": lambda scores: scores.masked_fill(~may_attend, 0.0).softmax(dim=-1),
    "0 after": lambda scores: scores.softmax(dim=-1).masked_fill(~may_attend, 0.0),
    "-inf before": lambda scores: scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1),
}
exchanged = exponentials.clone()
exchanged[1, 3] = 20
for name, way in ways.items():
    row, again = way(exponentials.log())[1], way(exchanged.log())[1]
    print(f"{name:11}: {row}, of what it may read {row[:2].sum():.2f}, then {again[:2].sum():.2f}")

# %% [markdown] name="break-answer"
# **0 before** is no prohibition: e⁰ = 1, as much as the token's own score gets here, so the hidden words still receive a third of
# the row, and their values flow in. **0 after** lets no value through, but the hidden words have had their part in the sum below the line: the row sums to 1/2, then to 4/26,
# and by its size the future shines through. Only **−∞ before** is what the loop gave.
#
# (And dividing what is left after by its sum? On paper that is the same. In floating point it breaks where a hidden
# score is so large that nothing is left to divide: try it in the exercise.)

# %% [markdown] name="ex-attention-text"
# **Exercise 04.attention · ★★ · 8 min.** Attention with a mask, any mask. One mask often serves a whole batch, for PyTorch
# **broadcasts**: where two shapes do not match, an axis that is missing in front or has size 1 is repeated.
# A query may be allowed to read nothing at all (we shall meet one). Its output and weights are to be zeros.

# %% name="ex-attention" tags=["exercise"] course={"exercise": "04.attention"}
def masked_attention(query, key, value, may_attend):
    """Attention that gives weight only where may_attend is True.

    query (..., query, d_k), key (..., key, d_k), value (..., key, d_v); may_attend bool,
    (query, key) or any shape that broadcasts to (..., query, key).
    Returns output (..., query, d_v) and weights (..., query, key). The row of a query that may
    read nothing is zeros, in both.
    """
    raise NotImplementedError

# %% name="check-attention" tags=["check", "nbval-ignore-output"]
masked_attention = check("04.attention", masked_attention)

# %% name="same"
from torch.nn.functional import scaled_dot_product_attention

from course_lib.model.attention import attention as library_attention

output, weights = masked_attention(query, key, value, causal_mask(4))
print("like the loop:   ", torch.allclose(output, looped) and torch.allclose(weights, looped_weights))
print("like the library:", torch.allclose(output, library_attention(query, key, value, causal_mask(4))[0]))
torchs = scaled_dot_product_attention(query[None], key[None], value[None], is_causal=True)[0]
print("like PyTorch:    ", torch.allclose(output, torchs))

# %% [markdown] name="ex-leak-text"
# ## A test that finds every peeker
#
# Forgetting a mask raises no error, so we want a test. It should not read the code, for a leak may have many causes. It should
# *try*: put another token in one place, and see whether an output **before** that place moves. (Not to the last digit: another
# token may change how a machine rounds.)
#
# **Exercise 04.leak · ★★ · 8 min.** Write it. Try all places; for some models one is not enough.

# %% name="ex-leak" tags=["exercise"] course={"exercise": "04.leak"}
def leaks(model, tokens, vocab_size):
    """Whether another token at some place changes an output at an earlier place: True or False.

    model(tokens): (position,), integers from 0 to vocab_size - 1 → (position, d).
    Differences up to 1e-4 are rounding; any larger one, in a single number, is a leak. The tokens
    you were given must stay as they are.
    """
    raise NotImplementedError

# %% name="check-leak" tags=["check", "nbval-ignore-output"]
leaks = check("04.leak", leaks)

# %% name="leak-table"
def look_back(query, key, value):
    """Causal attention: (..., position, d) each."""
    return masked_attention(query, key, value, causal_mask(query.shape[-2]))


def struck_out(query, key, value):
    """The mask after the softmax."""
    weights = attention(query, key, value)[1].tril()
    return weights @ value, weights


tokens = tokenizer.encode(line)
with torch.no_grad():
    for name, attend in {"no mask": attention, "0 after": struck_out, "causal": look_back}.items():
        torch.manual_seed(0)
        print(f"{name:8} leaks: {leaks(Reader(attend), tokens, n_characters)}")

# %% [markdown] name="one-pass-text"
# ## One pass, T predictions
#
# The causal model has a second virtue. Let it read all 32 characters at once; then 32 times, first one character, then two, up
# to all, and keep the last row of each. **Predict**: are the 32 rows the same?

# %% name="one-pass"
torch.manual_seed(0)
model = Reader(look_back)
with torch.no_grad():
    at_once = model(tokens)  # (T, vocab_size), one pass
    one_by_one = torch.stack([model(tokens[:t])[-1] for t in range(1, T + 1)])  # T passes
print("the same scores:", torch.allclose(at_once, one_by_one, atol=1e-5))
print(f"tokens read: {len(tokens)} in one pass, {sum(range(1, T + 1))} in {T}")

# %% [markdown] name="one-pass-answer"
# The same. A row of the causal model cannot know whether the text goes on after it, so one pass holds all T guesses that the model would make while
# the text grows, and each is honest. One pass, T targets, one loss, and (T + 1)/2 times fewer tokens to read: 16.5 times here, 512 times for
# T = 1,023. This is why GPTs are trained the way they are. An LSTM has as many targets, but its T steps must wait for one another (lesson 01);
# here all rows are computed at once.
#
# Note that the model always reads the *true* text up to each place, whatever it would have guessed itself; this is called **teacher
# forcing**.
#
# ## Train it again
#
# The same model, the same pieces, the same steps, with the mask. For both kinds we measure on the validation split, with two seeds, and in two ways: as in training, with all 32
# characters there, and as in writing, with none there after the one that guesses. **Predict** the four numbers, roughly.

# %% name="honest"
looking_back, _ = train(look_back)
inputs, targets = inputs_and_targets(corpus.validation[: 300 * (T + 1)].view(300, T + 1))


@torch.no_grad()
def two_losses(model):
    """The mean loss with everything there, and with nothing there after the guess."""
    grown = torch.stack([model(inputs[:, :t])[:, -1] for t in range(1, T + 1)], dim=1)
    return [cross_entropy(s.flatten(0, 1), targets.flatten()).item() for s in (model(inputs), grown)]


losses = {
    ("both ways", 0): two_losses(peeking),
    ("both ways", 1): two_losses(train(attention, seed=1)[0]),
    ("looking back", 0): two_losses(looking_back),
    ("looking back", 1): two_losses(train(look_back, seed=1)[0]),
}

# %% name="honest-table" tags=["nbval-ignore-output"]
print("validation loss     as in training   as in writing")
for (name, seed), (training, writing) in losses.items():
    print(f"{name:12} seed {seed}: {training:12.2f} {writing:15.2f}")
for seed in range(3):
    print(repr(write(looking_back, "The king ", seed)))

# %% name="honest-bounds"
for seed in (0, 1):
    training, writing = losses["both ways", seed]
    assert 0.05 < training < 0.15 and writing > math.log(n_characters)
    training, writing = losses["looking back", seed]
    assert abs(training - writing) < 1e-4 and 2.2 < writing < 2.4 < bigram_loss
print("the same in training and in writing, when looking back:", abs(training - writing) < 1e-4)

# %% [markdown] name="honest-answer"
# Without the mask: 0.1 with everything there, though this is text it has never seen, and in writing worse than an even guess, 4.14, with both seeds. It is sure of itself, and
# wrong. With the mask both numbers are the same number, because they are the same guesses. About 2.3 looks worse than 0.1 and
# is better by far: below the bigram's, for each guess can use all that came before. (It is still no Shakespeare. One attention is a beginning.)
#
# A low loss is only good news if the task was the right one.

# %% [markdown] name="padding-text"
# ## Padding
#
# Texts in a batch differ in length, and a tensor has straight edges, so the shorter ones are filled up with **padding**, tokens that mean
# nothing and that nobody should read. That is a second mask, and the two are combined with `&`. To continue several texts at once, one pads on the *left*, so that
# all end at the same place. **Look for** rows that are white throughout.

# %% name="padding"
is_token = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]], dtype=torch.bool)  # (batch, position)
may_attend = causal_mask(4) & is_token[:, None, :]  # (batch, query, key)

batch = [["The", "animal", "did", "not"], ["<pad>", "<pad>", "It", "was"]]
figure, axes = plt.subplots(1, 2, figsize=(7.6, 4))
for ax, labels, mask in zip(axes, batch, may_attend, strict=True):
    heatmap(mask.float(), labels, ax=ax, title="who may read whom")
plt.show()

# %% name="padding-shown"
assert all(torch.equal(torch.tensor(shown(ax)).bool(), m) for ax, m in zip(axes, may_attend, strict=True))
print("nothing to read:", (~may_attend.any(dim=-1)).tolist())
assert torch.finfo(torch.float16).max == 65504  # for "In practice"

# %% [markdown] name="nothing-text"
# The padding's own rows. They look back, and there is nothing but padding. A softmax over −∞ alone is 0/0, which is NaN, "not a number" (lesson 03). Nobody needs these rows;
# can we let them be? We read twice, as with two layers, with three attentions: the formula as it stands; the same, with every
# NaN replaced by 0; and yours. **Predict**: of the 8 rows, how many are NaN after the second reading? And what do the gradients say?

# %% name="break-nothing"
def by_formula(query, key, value, may_attend, repair=False):
    m = torch.zeros(may_attend.shape).masked_fill(~may_attend, -math.inf)
    weights = (query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + m).softmax(dim=-1)
    weights = weights.nan_to_num(0.0) if repair else weights
    return weights @ value, weights


def repaired(*arguments):
    return by_formula(*arguments, repair=True)


attentions = {"as it stands": by_formula, "NaN replaced": repaired, "yours": masked_attention}
for name, attend in attentions.items():
    x = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    once = attend(x, x, x, may_attend)[0]
    twice = attend(once, once, once, may_attend)[0]
    twice[:, -1].sum().backward()  # a loss that asks for the last tokens alone
    bad = [rows.isnan().any(dim=-1).sum().item() for rows in (once, twice, x.grad)]
    print(f"{name:12}  NaN rows: {bad[0]} after one, {bad[1]} after two, {bad[2]} in the gradient")

# %% [markdown] name="nothing-answer"
# The formula: two, then four. The whole second text is lost, though it gives the padding a weight of 0, for 0 · NaN is NaN. Replacing the
# NaN mends the numbers and not the gradients: on the way back through that softmax 0/0 comes up once more, an addition hands it on, and after one
# step the parameters are NaN too. Yours has none. (Ours fills with `masked_fill`, which passes nothing back from what it filled.) **A row with nothing to read
# gives zeros, and takes part in no gradient.**

# %% [markdown] name="both-ways-text"
# ## Looking back, or both ways?
#
# In [lesson 02](02_self_attention.ipynb), *it* read *tired*, which stands to its right. Here are its words and matrices again, the same attention, both ways
# and with the causal mask. **Look for** the row of *it*: where does its attention go when *tired* is hidden?

# %% name="both-ways"
vectors = {  #   living, place, noun, pronoun, as in lesson 02
    "animal": [1.0, 0.0, 1.0, 0.0],
    "road": [0.0, 1.0, 1.0, 0.0],
    "it": [0.0, 0.0, 0.0, 1.0],
    "tired": [1.0, 0.0, 0.0, 0.0],
    "wide": [0.0, 1.0, 0.0, 0.0],
}
w_query = torch.zeros(4, 4)
w_query[3] = torch.tensor([8.0, 8.0, -8.0, 0.0])  # a pronoun asks for what describes something
w_value = torch.diag(torch.tensor([1.0, 1.0, 0.0, 0.0]))


def read(sentence, may_attend):
    x = torch.tensor([vectors[word] for word in sentence])
    return masked_attention(x @ w_query, x, x @ w_value, may_attend)


tired, wide = (["animal", "road", "it", ending] for ending in ("tired", "wide"))
masks = {"both ways": torch.ones(4, 4, dtype=torch.bool), "looking back": causal_mask(4)}
figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.8))
for ax, (name, mask) in zip(axes, masks.items(), strict=True):
    heatmap(read(tired, mask)[1], tired, ax=ax, numbers=True, title=name)
plt.show()

# %% name="both-ways-shown"
for ax, (name, mask) in zip(axes, masks.items(), strict=True):
    assert torch.allclose(torch.tensor(shown(ax)).float(), read(tired, mask)[1])
    same = torch.equal(read(tired, mask)[0][2], read(wide, mask)[0][2])
    print(f"{name:12}: “it” receives the same beside “tired” and beside “wide”: {same}")
shuffle = torch.tensor([2, 0, 3, 1])
shuffled = read([tired[i] for i in shuffle], causal_mask(4))[0]
moved_along = torch.allclose(shuffled, read(tired, causal_mask(4))[0][shuffle])
print("looking back, shuffled words give the same outputs, shuffled:", moved_along)

# %% [markdown] name="both-ways-answer"
# To *animal*, *road* and itself, a third each: nothing there answers its question. And it is the same whether the sentence ends in *tired* or in *wide*, in any number of layers. In
# a model that looks back the riddle can be solved by *tired* itself, which may read *it* and both nouns, or by what comes later. The Chinese twin is no better off: 累 and 宽
# stand after 它.
#
# So reading both ways knows more about each token. **Bidirectional** models, such as BERT (Devlin et al. 2018; lesson 09), do that where a text is complete and is to be understood. To train
# them some tokens are hidden, and only those are guessed: BERT picks 15% of them, so that a piece trains few predictions, where
# the causal mask trains one at every token. And they cannot write as a GPT does. T5 (lesson 09) has both: it reads a question both ways and writes the answer looking back.
#
# The last line is a by-product. In lesson 02 shuffled words gave the same outputs, shuffled. With the mask they do not: the first token
# reads one, the second two. Already the mask tells something of the order.

# %% [markdown] name="practice"
# ## In practice
#
# **Two conventions.** In `scaled_dot_product_attention`, True means *may* be read, as here. In PyTorch's `nn.MultiheadAttention` and
# `nn.Transformer`, True means *may not*. A mask the wrong way round raises no error. A leak test finds it.
#
# **−1e9.** Much code fills with a large negative number. It gives the same wherever there is something to read; a row with nothing to read becomes an
# average of what is hidden. Float16 ends at ±65,504, so −1e9 does not even fit.
#
# **The work is not halved.** `masked_fill` throws away what was computed. PyTorch's fused routines, several steps in one (they are called
# kernels too, and are not the notebook's), skip it when told `is_causal` ([lesson 14](14_the_bill.ipynb)).
#
# **Padding on the right** needs no mask of its own in a causal model, as no real token looks there; its targets are left out of the
# loss (`cross_entropy(..., ignore_index=...)`). On the left it
# does, and places are then counted from the first real token. The texts of lesson 10 are cut to one length, without padding.
#
# **Other leaks.** Not all come from attention: averaging over positions, statistics of a whole batch, or targets that
# stand among the inputs have the same effect, and the same sign: a loss too good to be true.

# %% [markdown] name="recap"
# ## Recap
#
# 1. Without the mask the model copies its target from the next place: about 0.1 nats in training, worse than an even guess in writing.
# 2. **−∞ before the softmax** gives a weight of exactly 0 and no part in the row's sum. 0 before is e⁰ = 1; 0 after leaves rows that do not
#    sum to 1, and whose size depends on the future.
# 3. Row t of a causal model is what it would say if the text ended there, so **one pass trains T predictions**.
# 4. A **leak test** changes a later token and looks at earlier outputs. It needs no look at the code.
# 5. **Padding** is masked with `&`. A row with nothing to read gives zeros, and no NaN on the way back either.
# 6. **Looking back** to write, **both ways** to understand what is already there.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions. In some, more than one choice is right.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("04")

# %% [markdown] name="sources"
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): section 3.2.3 masks the
#   decoder, the half that writes, in one sentence, with −∞ inside the softmax, so that nothing flows from right to left.
# - Radford et al. 2018, [*Improving Language Understanding by Generative
#   Pre-Training*](https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf): the first GPT, a stack of such
#   masked layers trained on the next token.
# - Devlin et al. 2018, *BERT*, [arXiv 1810.04805](https://arxiv.org/abs/1810.04805): why reading both ways needs another task, and the 15%.
# - Shannon 1951, [*Prediction and Entropy of Printed English*](https://doi.org/10.1002/j.1538-7305.1951.tb01366.x): people guess the
#   next letter; the yardstick for "too good to be true".
# - Williams, Zipser 1989, [*A Learning Algorithm for Continually Running Fully Recurrent Neural
#   Networks*](https://doi.org/10.1162/neco.1989.1.2.270): teacher forcing, for recurrent networks.

# %% [markdown] name="next"
# ## Next
#
# One attention has one question per token. [**Lesson 05**](05_many_heads.ipynb) lets several ask at once, side by side.
