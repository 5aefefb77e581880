# %% [markdown] name="title"
# # Read for several reasons at once: many heads
#
# Lesson 05 · [00 Start here](00_start_here.ipynb) · before: [04 The causal mask](04_causal_mask.ipynb) ·
# next: [06 Word order I](06_word_order.ipynb)

# %% [markdown] name="goals"
# **What you will build.** The layer that every Transformer has: `MultiHeadAttention`, several attentions that read
# side by side in one set of matrix products. Lesson 09 puts yours into a GPT.
#
# **Afterwards you can**
#
# 1. say what one attention cannot do in one pass, and two side by side can;
# 2. cut a vector into heads and glue them together again, and tell the right way from one that runs and is wrong;
# 3. count the parameters and the arithmetic of a layer with any number of heads;
# 4. show, on a task, what a second head buys, and when one is enough;
# 5. silence one head and measure what is lost.
#
# **What you need.** The attention of [lesson 02](02_self_attention.ipynb) and its mask,
# [lesson 04](04_causal_mask.ipynb). **Time:** 60 minutes, 25 of them for five exercises.

# %% name="setup"
import torch
from matplotlib import pyplot as plt
from torch import nn

from course_lib.exercises import check, hint, mine, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("05")

# %% [markdown] name="question"
# ## One reader, one row of weights
#
# > The animal did not cross the road because **it** was too tired. (… too wide.)
#
# In [lesson 02](02_self_attention.ipynb) *it* found its noun in two passes, and we proved that one pass of one
# attention cannot do it: how *it* divides its weight between *animal* and *road* does not depend on any third word.
# Here is that failure once more, without a mask, since *it* has to look ahead. Each word has four numbers **set by
# hand**, other ones than there: its *kind* (+1 what lives, −1 places), what it is *said of* (+1 of what lives, −1 of
# places), whether it is a noun, whether a pronoun. A pronoun asks for a noun; keys and values are the words' vectors.

# %% name="one-head"
attention = mine("02.attention")

vectors = {  #   kind, said of, noun, pronoun
    "animal": [1.0, 0.0, 1.0, 0.0],
    "road": [-1.0, 0.0, 1.0, 0.0],
    "it": [0.0, 0.0, 0.0, 1.0],
    "tired": [0.0, 1.0, 0.0, 0.0],
    "wide": [0.0, -1.0, 0.0, 0.0],
}
sentences = {ending: ["animal", "road", "it", ending] for ending in ("tired", "wide")}
inputs = {ending: torch.tensor([vectors[word] for word in words]) for ending, words in sentences.items()}

w_query = torch.zeros(4, 4)
w_query[3] = torch.tensor([0.0, 0.0, 8.0, 0.0])  # a pronoun looks for a noun
for ending, x in inputs.items():  # (token, d_model)
    output, weights = attention(x @ w_query, x, x)
    shares = ", ".join(f"{word} {w:.2f}" for word, w in zip(sentences[ending], weights[2], strict=True))
    print(f"it reads {shares}; it receives kind {output[2, 0]:.2f}")

# %% [markdown] name="question-answer"
# Half an animal and half a road: their kinds, +1 and −1, cancel. The weights of one token are one row, and the row sums
# to 1. Whoever has one unit of attention and two things to look after gets a **mixture**, and an *even* mixture does not
# tell what it was made of. (Could *it* not read *tired* instead? Yes, and learn that something living is meant. But not *what*: whatever
# else stands in the vector of *animal*, *tired* cannot pass it on.)
#
# ## Two readers
#
# So let *it* read twice at the same time. We cut its query in two halves, and the keys and values likewise, and run
# two small attentions. Each is called a **head**. A pronoun's two wishes, again set by hand:
#
# - **head 0** looks for something living (8 for *kind* +1), but even more for a word *said of places* (16);
# - **head 1** looks for a place, but even more for a word *said of what lives*.
#
# What a noun passes on is its kind, and that it is a noun. *Tired* and *wide* pass on **nothing**. **Before you run
# it**: what does each head read beside *tired*, and beside *wide*?

# %% name="two-heads-by-loop"
w_query = torch.zeros(4, 4)
w_query[3] = torch.tensor([8.0, -16.0, -8.0, 16.0])  # columns 0 and 1: head 0; columns 2 and 3: head 1
w_key = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]])  # (kind, said of), twice
w_value = torch.tensor([[1.0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]])  # (kind, noun), twice
w_output = torch.tensor([[1.0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0]])  # back to kind and noun


def by_loop(x, n_heads):
    """Output (token, d_model) and weights (head, query, key)."""
    query, key, value = x @ w_query, x @ w_key, x @ w_value
    d_head = x.shape[-1] // n_heads
    outputs, all_weights = [], []
    for head in range(n_heads):
        columns = slice(head * d_head, (head + 1) * d_head)
        output, weights = attention(query[:, columns], key[:, columns], value[:, columns])
        outputs.append(output)
        all_weights.append(weights)
    return torch.cat(outputs, dim=-1) @ w_output, torch.stack(all_weights)

# %% name="two-heads"
for ending, x in inputs.items():
    output, weights = by_loop(x, n_heads=2)
    reads = [sentences[ending][row.argmax()] for row in weights[:, 2]]
    print(f"… {ending}: head 0 reads {reads[0]}, head 1 reads {reads[1]}", end="; ")
    print(f"it receives kind {output[2, 0]:.2f}, noun {output[2, 2]:.2f}")

# %% [markdown] name="two-heads-look"
# In one pass *it* has become a living noun beside *tired* and a place beside *wide*. The picture shows both sentences.
# **Look for** the row of *it*, and in it for the squares of *animal* and *road*: does any head decide between the two?

# %% name="two-heads-picture"
from course_lib.plots import heatmap, shown

figure, grid = plt.subplots(2, 2, figsize=(7.6, 7.4), layout="constrained")
for (ending, x), row in zip(inputs.items(), grid, strict=True):
    for head, ax in enumerate(row):
        title = f"“… {ending}”, head {head}"
        heatmap(by_loop(x, 2)[1][head], sentences[ending], ax=ax, numbers=True, title=title)
plt.show()

# %% name="two-heads-shown"
seen = [[torch.tensor(shown(ax)) for ax in row] for row in grid]  # by sentence, by head
assert [[int(weights[2].argmax()) for weights in row] for row in seen] == [[0, 3], [3, 1]]
for head in (0, 1):
    ratios = [seen[sentence][head][2, 0] / seen[sentence][head][2, 1] for sentence in (0, 1)]
    assert torch.allclose(ratios[0], ratios[1], rtol=1e-3), "lesson 02 holds for each head"
assert round((seen[1][0][2, 3] / seen[1][0][2, 0]).item()) == 286

# %% [markdown] name="two-heads-answer"
# None does, and lesson 02's proof stands: in each head *animal* : *road* is the same in both sentences. Head 0 always
# prefers *animal*, and *wide* draws its attention away; what *wide* has to give is nothing, so head 0 falls silent.
# Head 1 is silenced by *tired*. Since a softmax cannot read nothing, a word with an empty value is how a head keeps
# quiet. (On paper: in head 0 beside *wide*, *it* scores *animal* with 8 and *wide* with 16. Over √2 that is a lead of
# 5.66, and e^5.66 ≈ 286: *wide* gets 286 times as much. The Chinese twin, 那只动物没有过马路，因为它太累了, works with
# the same numbers.)
#
# Side by side the two outputs are (kind, noun, kind, noun), and `w_output` adds what belongs together. Heads side by
# side, and such a matrix behind them: that is **multi-head attention**.

# %% [markdown] name="formula"
# ## The formula
#
# $$\mathrm{MultiHead}(X) = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\,W^O, \qquad
# \mathrm{head}_i = \mathrm{Attention}(X W_i^Q,\; X W_i^K,\; X W_i^V)$$
#
# | symbol | in code | shape | is |
# |---|---|---|---|
# | $h$ | `n_heads` | | number of heads |
# | $W_i^Q, W_i^K, W_i^V$ | columns of `w_query`, `w_key`, `w_value` | (d_model, d_head) | what head i asks, offers, passes on |
# | $\mathrm{head}_i$ | `output` | (position, d_head) | what head i brings |
# | Concat | `torch.cat(…, dim=-1)` | (position, d_model) | the heads side by side |
# | $W^O$ | `w_output` | (d_model, d_model) | what becomes of it, for all heads together |
#
# The width of a head is **d_head** = d_model / h. In the original Transformer 512 = 8 × 64 (Vaswani et al. 2017,
# section 3.2.2); in GPT-3 12,288 = 96 × 128 (Brown et al. 2020, table 2.1). A head's scores are divided by √d_head,
# the length of *its* queries: within a head d_head is what d_k and d_v were in lesson 02.
#
# The formula numbers heads from 1; our code, from 0. Concat and $W^O$ look like one step for all heads; read it as a
# **sum**: each head's output, times its own d_head rows of $W^O$, is what this head adds. You will need that to
# silence a head.

# %% name="sum-of-heads"
x = inputs["tired"]
query, key, value = x @ w_query, x @ w_key, x @ w_value
added = 0
for part in (slice(0, 2), slice(2, 4)):  # head 0, head 1
    added = added + attention(query[:, part], key[:, part], value[:, part])[0] @ w_output[part]
print("Concat · W_O is a sum over heads:", torch.allclose(added, by_loop(x, 2)[0]))

# %% [markdown] name="layout-text"
# ## Without the loop
#
# A loop over 96 heads keeps a processor waiting. `@` multiplies the last two axes and repeats this over all axes in
# front; so if the heads were an axis in front, (head, position, d_head), one `attention` would serve them all. How do
# we get there? Three tokens with four numbers; 21 is token 2, column 1.
#
# **Predict** which of the two lines below gives head 0 the columns 0 and 1 of each token. Both have the right shape.

# %% name="layout"
tiny = torch.tensor([[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]])  # (position, d_model)
print("A:", tiny.view(2, 3, 2).tolist())
print("B:", tiny.view(3, 2, 2).transpose(0, 1).tolist())

# %% [markdown] name="layout-answer"
# B does. `view` moves no number: it reads all in order and cuts them anew. So the cut has to follow the order in
# which they lie, position before head, and only then do the two axes change places. A looks shorter and raises no
# error, and its head 0 has token 0 twice, then a piece of token 1, and never sees token 2. We come back to what that
# does. (`reshape` is `view` where that is possible, and copies where it is not.)

# %% [markdown] name="ex-split-text"
# **Exercise 05.split · ★★ · 6 min.** The same for a batch.

# %% name="ex-split" tags=["exercise"] course={"exercise": "05.split"}
def split_heads(x, n_heads):
    """Cut the last axis into heads: (batch, position, d_model) → (batch, head, position, d_head)."""
    raise NotImplementedError

# %% name="check-split" tags=["check", "nbval-ignore-output"]
split_heads = check("05.split", split_heads)

# %% [markdown] name="ex-merge-text"
# **Exercise 05.merge · ★ · 3 min.** And back: Concat.

# %% name="ex-merge" tags=["exercise"] course={"exercise": "05.merge"}
def merge_heads(heads):
    """The heads side by side again: (batch, head, position, d_head) → (batch, position, d_model)."""
    raise NotImplementedError

# %% name="check-merge" tags=["check", "nbval-ignore-output"]
merge_heads = check("05.merge", merge_heads)

# %% name="matrix"
x = torch.stack(list(inputs.values()))  # both sentences: (batch, position, d_model)
heads = [split_heads(x @ w, 2) for w in (w_query, w_key, w_value)]
output, weights = attention(*heads)  # (batch, head, position, d_head), (batch, head, query, key)
output = merge_heads(output) @ w_output

looped = [by_loop(sentence, 2) for sentence in x]
print("outputs like the loop:", torch.allclose(output, torch.stack([each[0] for each in looped])))
print("weights like the loop:", torch.allclose(weights, torch.stack([each[1] for each in looped])))

# %% name="masked"
causal_mask, masked_attention = mine("04.mask"), mine("04.attention")

may_attend = causal_mask(8)  # (query, key), bool: True = may attend
output, weights = masked_attention(*torch.randn(3, 2, 5, 8, 4), may_attend)  # query, key, value of 2 texts, 5 heads
print("weights (batch, head, query, key):", tuple(weights.shape))
print("nothing above the diagonal, in any head:", torch.equal(weights, weights.tril()))

# %% [markdown] name="ex-heads-text"
# Now as a layer that can be trained, an `nn.Module` like the Reader of lesson 04: `super().__init__()` first, then the
# layers as attributes. The four matrices are `nn.Linear(d_model, d_model)`, each with its bias (lesson 01); one matrix
# for each role holds that role's columns of *all* heads.
#
# **Exercise 05.heads · ★★★ · 8 min.** The names of the attributes matter: the check fills them with numbers.
# `masked_attention(query, key, value, may_attend)` is lesson 04's; as you saw, one mask serves all heads.

# %% name="ex-heads" tags=["exercise"] course={"exercise": "05.heads"}
class MultiHeadAttention(nn.Module):
    """n_heads attentions side by side: (batch, position, d_model) → (batch, position, d_model).

    Attributes query, key, value, output: nn.Linear(d_model, d_model). may_attend (query, key): bool.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, may_attend):
        raise NotImplementedError

# %% name="check-heads" tags=["check", "nbval-ignore-output"]
MultiHeadAttention = check("05.heads", MultiHeadAttention)

# %% [markdown] name="same-text"
# Does it agree with the library's layer, and with PyTorch's own? The latter keeps W_Q, W_K and W_V in one tall
# matrix, and its mask means the opposite: True = may **not** attend. A trap worth knowing.

# %% name="same"
from course_lib.model import attention as library

x = torch.randn(3, 8, 12)  # (batch, position, d_model)
layer = MultiHeadAttention(12, 2)  # yours, or ours until yours passes

ours = library.MultiHeadAttention(12, 2)
ours.load_state_dict(layer.state_dict())
theirs = nn.MultiheadAttention(12, 2, batch_first=True)
theirs.out_proj.load_state_dict(layer.output.state_dict())
projections = (layer.query, layer.key, layer.value)
theirs.in_proj_weight.data = torch.cat([each.weight.data for each in projections])
theirs.in_proj_bias.data = torch.cat([each.bias.data for each in projections])

output = layer(x, may_attend)
print("like the library:", torch.allclose(output, ours(x, torch.arange(8), may_attend)[0], atol=1e-5))
print("like PyTorch:    ", torch.allclose(output, theirs(x, x, x, attn_mask=~may_attend)[0], atol=1e-5))

# %% [markdown] name="break-text"
# ## Break it: `view` alone
#
# Back to line A. We split as it does, and leave all else as it is: same shapes, same matrices, causal mask. Then the
# leak test of lesson 04: change token 5 of 8. Only outputs 5, 6 and 7 may move. **Predict** which do.

# %% name="break-view"
def by_view(x, n_heads):
    return x.view(x.shape[0], n_heads, x.shape[1], -1)  # line A, for a batch


def outputs_of(split, x):
    heads = [split(each(x), 2) for each in projections]
    return layer.output(merge_heads(masked_attention(*heads, may_attend)[0]))


changed = x.clone()
changed[:, 5] += 1
for name, split in {"split_heads": split_heads, "view alone ": by_view}.items():
    moved = (outputs_of(split, changed) - outputs_of(split, x)).abs().amax(dim=(0, 2)) > 1e-4
    print(f"{name}: the outputs that move are {moved.nonzero().flatten().tolist()}")

# %% [markdown] name="break-answer"
# With line A, row 2 of head 1 *is* the first half of token 5, and the mask, which knows rows only, lets position 2
# read it. Three tokens know of the future. In training the loss would look wonderful (lesson 04); nothing would
# crash. Leak tests are cheap: keep one.

# %% [markdown] name="ex-count-text"
# ## What do heads cost?
#
# **Exercise 05.count · ★ · 3 min.** First on paper: how many parameters has `MultiHeadAttention(512, 8)`, biases
# included?

# %% name="ex-count" tags=["exercise"] course={"exercise": "05.count"}
answer = None

# %% name="check-count" tags=["check", "nbval-ignore-output"]
parameters = check("05.count", answer)

# %% [markdown] name="cost-text"
# And the arithmetic? For n tokens the four **projections** (the products with W_Q, W_K, W_V and W_O) take $4\,n\,d_\text{model}^2$ multiplications with an addition
# each; the scores of one head $n^2\,d_\text{head}$ and so does its mixing, which for h heads makes
# $2\,n^2\,h\,d_\text{head} = 2\,n^2\,d_\text{model}$. The h has gone. **FLOPs** (floating-point operations) count
# multiplication and addition apart, so twice as many. PyTorch counts those of matrix products while a layer runs:

# %% name="cost"
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

n, d_model = 256, 512
every = torch.ones(n, n, dtype=torch.bool)
wide = torch.randn(1, n, d_model)
for n_heads in (1, 8, 64):
    candidate = MultiHeadAttention(d_model, n_heads)
    # without PyTorch's own fused routines, whose products the counter does not see
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        candidate(wide, every)
    numbers, flops = sum(p.numel() for p in candidate.parameters()), counter.get_total_flops()
    print(f"{n_heads:2} heads: {numbers:,} parameters, {flops:,} FLOPs, {n_heads * n * n:9,} weights")
    assert numbers == parameters and flops == 2 * (4 * n * d_model**2 + 2 * n * n * d_model)

# %% [markdown] name="time-text"
# The same parameters and the same FLOPs. One thing does grow: there is a matrix of weights *for each head*, and each
# entry takes an exponential and a place in memory, which this counter leaves out. Does it show on the clock? **Guess**
# first: how much longer do 8 heads take here, and 64?

# %% name="time" tags=["nbval-ignore-output"]
import time

seconds = {}
for n_heads in (1, 8, 64):
    candidate, runs = MultiHeadAttention(d_model, n_heads), []
    with torch.no_grad():
        for _ in range(7):
            start = time.perf_counter()
            candidate(wide, every)
            runs.append(time.perf_counter() - start)
    seconds[n_heads] = min(runs)  # the run that was disturbed least
for n_heads in (8, 64):
    print(f"{n_heads:2} heads take {seconds[n_heads] / seconds[1]:.1f} times as long as one")

# %% name="weights-grow"
for n_heads in (1, 8, 64):
    heads = split_heads(wide, n_heads)
    weights = masked_attention(heads, heads, heads, every)[1]
    print(f"{n_heads:2} heads: {weights.numel() * weights.element_size() / 1e6:5.1f} million bytes of weights")
    assert weights.numel() == n_heads * n * n

# %% [markdown] name="time-answer"
# What the clock says depends on the machine, and on what else it has to do; above stands what it said here, on one
# thread of a CPU. What does not depend on it is the second list: 64 times as many weights, each written and read again
# several times. So "heads are free" is true of parameters and matrix products, and not of all the rest. Programs that
# never write the weights down make up for much of it ([lesson 14](14_the_bill.ipynb)).

# %% [markdown] name="planted-text"
# ## What does a second head buy?
#
# Two relations, planted by us: texts of 16 random tokens out of 16 kinds, and at each position the layer has to tell
# which token stands **one before** and which **three before**. Nothing else helps; a guess is right once in 16, or
# 0.06. Each token vector gets a learned vector of its position added, so that heads can find places (lesson 06 is
# about such vectors). Behind the attention there are two linear read-outs and no more:
# `nn.Identity`, between them, hands on what it gets. (It keeps a place for a layer that comes later, with `nn.GELU`, a
# bend, in its middle.)
#
# One head of 64, or two of 32: the same parameters. **Predict** both accuracies of each.

# %% name="planted"
import copy

from torch.nn.functional import cross_entropy

KINDS, LENGTH = 16, 16
may_attend = causal_mask(LENGTH)


class TwoQuestions(nn.Module):
    """One attention layer; at each position two read-outs: the token one before, and three before."""

    def __init__(self, n_heads, feed_forward=False, d_model=64):
        super().__init__()
        self.token_embedding = nn.Embedding(KINDS, d_model)
        self.position_embedding = nn.Embedding(LENGTH, d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        layers = [nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)]
        self.after = nn.Sequential(*layers) if feed_forward else nn.Identity()
        self.read_outs = nn.ModuleList(nn.Linear(d_model, KINDS) for _ in range(2))

    def embed(self, tokens):
        return self.token_embedding(tokens) + self.position_embedding.weight  # (batch, position, d_model)

    def forward(self, tokens):
        read = self.after(self.attention(self.embed(tokens), may_attend))
        return [read_out(read)[:, 3:] for read_out in self.read_outs]  # from position 3 on

# %% name="train"
def answers_of(tokens):
    """For positions 3 and on: the token one before, the token three before; (batch, position)."""
    return tokens[:, 2:-1], tokens[:, :-3]


def train(n_heads, seed, feed_forward=False, steps=300):
    torch.manual_seed(seed)
    model = TwoQuestions(n_heads, feed_forward)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        tokens = torch.randint(KINDS, (32, LENGTH))
        pairs = zip(model(tokens), answers_of(tokens), strict=True)
        loss = sum(cross_entropy(scores.flatten(0, 1), right.flatten()) for scores, right in pairs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


@torch.no_grad()
def accuracies(model):
    tokens = torch.randint(KINDS, (500, LENGTH), generator=torch.Generator().manual_seed(99))
    pairs = zip(model(tokens), answers_of(tokens), strict=True)
    return [(scores.argmax(dim=-1) == right).float().mean().item() for scores, right in pairs]

# %% name="heads-compared" tags=["nbval-ignore-output"]
models, results = {}, {}


def compare(name, n_heads, feed_forward=False):
    """Train with three seeds, print the accuracies, keep both: results[name] is (seed, relation)."""
    models[name] = [train(n_heads, seed, feed_forward) for seed in (0, 1, 2)]
    results[name] = torch.tensor([accuracies(model) for model in models[name]])
    both = "  ".join(f"{one:.2f} / {three:.2f}" for one, three in results[name].tolist())
    print(f"{name:16}  one / three before, for three seeds:  {both}")


compare("one head", 1)
compare("two heads", 2)

# %% name="heads-compared-sound"
one_head = results["one head"]  # (seed, relation)
assert (one_head.amax(dim=1) - 0.9).abs().max() < 0.07 and (one_head.amin(dim=1) - 0.25).abs().max() < 0.1
assert (results["two heads"] > 0.97).all()
sizes = [sum(p.numel() for p in each[0].attention.parameters()) for each in models.values()]
print("parameters of the attention:", sizes)

# %% [markdown] name="planted-answer"
# One head answers one question nine times in ten, and the other about two times in ten; which is which depends on the
# seed. Two heads answer both (1.00), with as many parameters. The spread between seeds is small beside that.
#
# Why can one head not share itself out, 0.7 for one place and 0.3 for the other? What comes out is 0.7 a + 0.3 b, and
# a read-out is linear: it makes of the mixture the same mixture of what it makes of a and of b alone. The token with
# the larger share calls its own name louder, in *both* read-outs.
#
# (On paper. Let the shares go by place alone, p and q, with p > q > 0. Let $f(t)$ say how much louder a read-out calls
# *a* than *b* when it is given token t, and c what biases add to that. To name always the token with share q, it needs
# $p f(a) + q f(a) + c > 0$ and $p f(b) + q f(b) + c < 0$; subtract, and $f(a) > f(b)$. It also needs
# $p f(b) + q f(a) + c > 0$ and $p f(a) + q f(b) + c < 0$; subtract, and $(q - p)(f(a) - f(b)) > 0$, so $f(a) < f(b)$.
# It cannot have both. Our head does better than guessing, 0.06, because its shares need not go by place alone.)
#
# Now a warning. We put an **FFN** behind the attention, a feed-forward layer: two linear layers with a bend between
# them (lesson 08). **Predict** what one head can do then.

# %% name="with-ffn" tags=["nbval-ignore-output"]
compare("one head and FFN", 1, feed_forward=True)

# %% name="with-ffn-sound"
assert (results["one head and FFN"] > 0.97).all()
print("parameters of the FFN:", sum(p.numel() for p in models["one head and FFN"][0].after.parameters()))

# %% [markdown] name="with-ffn-answer"
# The FFN is not linear, can pull 0.7 a + 0.3 b apart, and *one head is enough again*. In a whole Transformer there is
# always such a layer behind the heads, so "one head cannot do it" is true of attention, not of the model. The second
# head gets the two apart for nothing; this FFN takes 33,088 parameters to do it, beside 16,640 of the attention.
#
# Where do the heads read? **Look for** stripes parallel to the diagonal: how many in each panel, and how dark?

# %% name="stripes"
@torch.no_grad()
def weights_of(model, n_heads):
    """Weights of a model's heads, the mean over 100 texts: (head, query, key)."""
    x = model.embed(torch.randint(KINDS, (100, LENGTH), generator=torch.Generator().manual_seed(7)))
    query, key = (split_heads(each(x), n_heads) for each in (model.attention.query, model.attention.key))
    return masked_attention(query, key, key, may_attend)[1].mean(dim=0)


one, two = weights_of(models["one head"][0], 1), weights_of(models["two heads"][0], 2)
panels = {"one head": one[0], "two heads: head 0": two[0], "two heads: head 1": two[1]}
figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained")
for (title, weights), ax in zip(panels.items(), axes, strict=True):
    heatmap(weights, [str(place) for place in range(LENGTH)], ax=ax, title=title)
plt.show()

# %% name="stripes-shown"
def stripe(ax, back):
    """Mean weight on the token so many places back, for positions 3 and on."""
    return torch.tensor(shown(ax))[3:].diagonal(3 - back).mean().item()


darkness = torch.tensor([[stripe(ax, back) for back in (1, 3)] for ax in axes])  # (panel, relation)
reads = darkness[1:].argmax(dim=1)  # for each of the two heads: which relation?
assert sorted(reads.tolist()) == [0, 1] and (darkness[1:].amax(dim=1) > 0.9).all()
assert (darkness[1:].amin(dim=1) < 0.1).all() and (darkness[0] > 0.2).all()
assert darkness[0].argmax() == results["one head"][0].argmax(), "the darker stripe is the one answered right"

# %% [markdown] name="stripes-answer"
# Two heads: one black stripe each, three back and one back, who does which was chance. One head: two stripes at half
# strength in the same row, and the darker one belongs to the question that it answers right. (Rows 0 to 2 lie before
# the first question and do as they like.)

# %% [markdown] name="ex-ablate-text"
# ## Silence a head
#
# To **ablate** a part is to take it out and see what is lost. A head can be taken out alone, since the layer's output
# is a sum over heads.
#
# **Exercise 05.ablate · ★★ · 5 min.** Mind that `nn.Linear` computes x · weightᵀ + bias: it keeps its weight as (out,
# in), so the *rows* of W_O in the formula are *columns* here. `copy.deepcopy` makes a copy that shares nothing.

# %% name="ex-ablate" tags=["exercise"] course={"exercise": "05.ablate"}
def without_head(layer, head, n_heads):
    """A copy of a MultiHeadAttention in which one head, counted from 0, adds nothing.

    The layer itself stays as it is. layer.output.weight: (to d_model, from the merged heads).
    """
    raise NotImplementedError

# %% name="check-ablate" tags=["check", "nbval-ignore-output"]
without_head = check("05.ablate", without_head)

# %% [markdown] name="ablate-text"
# Now the trained model with two heads. **Predict** the four numbers from the picture above.

# %% name="ablate" tags=["nbval-ignore-output"]
lost = []
for head in (0, 1):
    model = copy.deepcopy(models["two heads"][0])
    model.attention = without_head(model.attention, head, n_heads=2)
    lost.append(accuracies(model))
    print(f"without head {head}: one before {lost[head][0]:.2f}, three before {lost[head][1]:.2f}")

# %% name="ablate-sound"
for head in (0, 1):
    assert lost[head][reads[head]] < 0.15, "what it read is lost …"
    assert lost[head][1 - reads[head]] > 0.97, "… and the other relation is not"

# %% [markdown] name="ablate-answer"
# A clean cut: what the silenced head read is down to guessing, 0.06, and the other relation is whole. Do not expect
# this of a trained Transformer: there a relation may be spread over heads and layers, heads may stand in for one
# another, and what a head reads is not all that it does.

# %% [markdown] name="convolution-text"
# ## An aside: the kernels of a convolution, a head's cousins
#
# (For those who know convolutional networks. If you do not, go on at *In practice*: nothing later needs it.)
#
# A layer of a convolutional network has many **kernels**, small grids of weights (no kin of the notebook's kernel). Each
# slides over the picture and looks for its own thing, an edge here, a patch of green there, and their findings are
# stacked. Heads are like that, with one difference: a kernel looks at fixed places, and a head chooses its places by
# what stands there. If a head's weights *are* fixed to
# one distance, the likeness is exact: two heads that read one and three before are a convolution with two taps
# (Cordonnier et al. 2020 prove more).

# %% name="convolution"
from torch.nn.functional import conv1d, pad

x, matrices = torch.randn(9, 6), torch.randn(2, 6, 6)  # (position, d_model); for each head W_V · W_O
back = {steps: torch.ones(9 - steps).diag(-steps) for steps in (1, 3)}  # weights: row i reads i − steps
two_heads = back[1] @ x @ matrices[0] + back[3] @ x @ matrices[1]

kernel = torch.zeros(6, 6, 4)  # (out, in, tap): taps look 3, 2, 1 and 0 back
kernel[:, :, 2], kernel[:, :, 0] = matrices[0].T, matrices[1].T
convolved = conv1d(pad(x.T, (3, 0)), kernel).T
print("two heads with fixed weights = a convolution:", torch.allclose(two_heads, convolved, atol=1e-5))

# %% [markdown] name="practice"
# ## In practice
#
# **What real heads do.** Nobody assigns them; they start from different random numbers. In BERT, Clark et al. (2019)
# found heads that read the neighbour to the left or right, heads that read separators, heads that tie a determiner to
# its noun or an object to its verb, and one that often links a mention to an earlier one of the same thing, as *it*
# to *the animal*. In networks trained on nested brackets, Ebrahimi et al. (2020) found weights that work like a stack
# of those still open. [Lesson 13](13_look_inside.ipynb) looks for such heads in our own GPT, with scores against chance, and does not find
# all of them.
#
# **How many?** In the original Transformer one head was 0.9 BLEU, points of translation quality, worse than the best
# setting, and 32 heads were worse than 8, too (Vaswani et al. 2017, table 3, row A), perhaps because 16 columns are
# little to compare by. d_head is often 64 or 128; wider models get more heads.
#
# **Not all are needed.** Michel et al. (2019) silenced heads of trained models one by one; for most the quality
# hardly moved. That speaks of a finished model and of one head at a time, not of training without them.
#
# **Memory.** n² weights *a head*: 96 heads and 2,048 tokens make 402,653,184 for one text and layer. [Lesson 14](14_the_bill.ipynb) does
# without keeping them.

# %% name="practice-numbers"
assert 96 * 2048**2 == 402_653_184 and 8 * 64 == 512 and 96 * 128 == 12_288

# %% [markdown] name="recap"
# ## Recap
#
# 1. A head has one row of weights a token; what it reads in two places it hands on as a mixture. **Two heads** read
#    for two reasons and keep apart what they found; with them *it* finds its noun in one pass.
# 2. **Split**: cut (batch, position, head, d_head), then transpose to (batch, head, position, d_head). `view` alone
#    has the right shape and leaks the future.
# 3. h heads have the **parameters and FLOPs** of one wide head, 4·(d_model² + d_model) and 2·(4·n·d_model² +
#    2·n²·d_model). Weights, and with them exponentials and memory, are h·n².
# 4. Of two planted relations **one head** got one right (about 0.9) and the other seldom (0.2 to 0.3); **two heads** got
#    both (1.00), with three seeds each. With an FFN behind it, one head did so too.
# 5. The layer's output is a **sum** over heads, so one can be silenced by its part of W_O.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; in one of them two choices are right.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("05")

# %% [markdown] name="sources"
# ## Sources
#
# - Vaswani et al. 2017, *Attention Is All You Need*, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): section
#   3.2.2 is the layer; table 3 (A) varies the number of heads.
# - Clark, Khandelwal, Levy, Manning 2019, *What Does BERT Look At?*, [arXiv
#   1906.04341](https://arxiv.org/abs/1906.04341): what single heads of a trained model read.
# - Michel, Levy, Neubig 2019, *Are Sixteen Heads Really Better than One?*, [arXiv
#   1905.10650](https://arxiv.org/abs/1905.10650): how many can be taken out afterwards.
# - Cordonnier, Loukas, Jaggi 2020, *On the Relationship between Self-Attention and Convolutional Layers*, [arXiv
#   1911.03584](https://arxiv.org/abs/1911.03584): enough heads can be any convolution.
# - Ebrahimi, Gelda, Zhang 2020, *How Can Self-Attention Networks Recognize Dyck-n Languages?*, [arXiv
#   2010.04303](https://arxiv.org/abs/2010.04303): brackets, and what is read for them.
# - Brown et al. 2020, *Language Models are Few-Shot Learners*, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165):
#   table 2.1 lists heads and widths of GPT-3's sizes.

# %% [markdown] name="next"
# ## Next
#
# Our two heads found *one before* because we gave them vectors of positions. Without these a head does not know where
# anything stands, but for what the mask gives away. [**Lesson 06**](06_word_order.ipynb) shows how blind that is, and three ways to tell it.
