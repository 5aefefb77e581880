# %% [markdown] name="title"
# # Assemble a GPT from its parts, and meet its cousins BERT and T5
#
# Lesson 09 · [00 Start here](00_start_here.ipynb) · before: [08 The block](08_the_block.ipynb) ·
# next: [10 Train it](10_train_it.ipynb)

# %% [markdown] name="goals"
# **What you will build.** A whole GPT, from the parts you wrote in lessons 02 to 08. It has to give the same numbers as the
# library's, and it has to learn. Then, from the same parts, its two cousins: an encoder that fills in blanks, as BERT does, and,
# if you like, an encoder–decoder that turns one text into another, as T5 does.
#
# **Afterwards you can**
#
# 1. name the four things a GPT has besides its blocks, and say what each is for;
# 2. say what the first loss must be, and find the initialisation at fault when it is not;
# 3. count the parameters of GPT-2 and GPT-3 to the last one, and say where they are;
# 4. say what changes from GPT to BERT to T5, and which tasks suit which;
# 5. give reasons, and their limits, why chat models kept the decoder.
#
# **What you need.** Your parts; where you skipped one, the course's own stands in. From earlier lessons: a loss is a mean surprise, and even
# guessing among V characters costs ln V (01). **Time:** 60 minutes, 24 of them for four exercises; the part on T5 is optional.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.exercises import check, hint, mine, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("09")

# %% [markdown] name="parts-text"
# ## The parts on the table
#
# `mine` fetches what you wrote, if it passed its check. Where you skipped a part, or it did not pass, you get the course's, and
# everything below works all the same. One line for each part says which it is.

# %% name="parts" tags=["nbval-ignore-output"]
attention, causal_mask, masked_attention = mine("02.attention"), mine("04.mask"), mine("04.attention")
split_heads, MultiHeadAttention = mine("05.split"), mine("05.heads")
sinusoidal, rotate = mine("06.sinusoidal"), mine("07.rotate")
LayerNorm, FeedForward, Block = mine("08.norm"), mine("08.feed_forward"), mine("08.block")

# %% name="parts-fit"
x, everyone = torch.randn(2, 5, 8), torch.ones(5, 5, dtype=torch.bool)
plain, masked = attention(x, x, x)[0], masked_attention(x, x, x, everyone)[0]
print("with nothing forbidden, 04's attention is 02's:", torch.allclose(plain, masked, atol=1e-5))

block = Block(8, 2)
read, widen, norm = MultiHeadAttention(8, 2), FeedForward(8, 32), LayerNorm(8)
read.load_state_dict(block.attention.state_dict())
widen.load_state_dict(block.feed_forward.state_dict())
stream = x + read(norm(x), everyone)
stream = stream + widen(norm(stream))
print("a block is made of these parts:               ", torch.allclose(block(x, everyone), stream, atol=1e-5))
assert causal_mask(5).sum() == 15

# %% [markdown] name="question"
# ## Thirty-nine million numbers are missing
#
# In 2019 OpenAI published GPT-2. Its smallest edition has 124,439,808 parameters, numbers that training finds: 12 blocks, d_model 768, 12 heads.
# You have written that block. So let us stack twelve of yours and count. (On the device `meta` PyTorch keeps shapes and no
# numbers, so this takes no memory.)

# %% name="blocks-alone"
def count(module):
    """How many numbers a module learns; one that is used twice counts once."""
    return sum(parameter.numel() for parameter in module.parameters())


with torch.device("meta"):
    twelve = nn.ModuleList(Block(768, 12) for _ in range(12))
print(f"twelve of your blocks: {count(twelve):11,}")
print(f"missing:               {124_439_808 - count(twelve):11,}")

x, may_attend = torch.randn(1, 5, 768), causal_mask(5)
print("one block:", tuple(x.shape), "→", tuple(Block(768, 12)(x, may_attend).shape))
assert count(twelve) == 85_054_464

# %% [markdown] name="question-answer"
# Thirty-nine million short. And there is a worse gap: vectors go in and vectors come out. Such a stack has never seen a character
# and cannot name one. What is missing stands at both ends:
#
# - a **token embedding**, a table with a vector for each character: how a character enters;
# - a **position embedding**, a table with a vector for each place, added to it (lesson 06);
# - a **final norm** after the last block, because the stream of Pre-LN blocks is never normalised itself (lesson 08);
# - a **head**, a matrix that turns the last vector into a score for each character: the **logits**. (An unlucky word: it has nothing to do with the
#   heads of attention.)
#
# ```
#   tokens                         (batch, position)
#     │  token_embedding + position_embedding of 0, 1, 2, …
#     ▼
#   x, the residual stream         (batch, position, d_model)
#     │  block 1   ┐
#     │  …         │ each reads the stream, as may_attend allows, and adds to it
#     │  block N   ┘
#     │  final_norm
#     │  head: its matrix is that of token_embedding
#     ▼
#   logits                         (batch, position, vocab_size)
# ```
#
# ## Both ends on paper
#
# Leave the blocks out for a moment. Three characters a, b, c with vectors of two numbers, three positions, and the text *cab*.
# A matrix for each end would be natural. GPT-2 uses **one for both**: the score of a character is the dot product of the last vector with that
# character's own embedding. This is **weight tying** (Press & Wolf 2017). **Before you run the cell**, take a
# pencil: which character scores highest after *c*, after *a*, after *b*?

# %% name="tiny-loop"
embedding = {"a": [2.0, 0.0], "b": [0.0, 1.0], "c": [-1.0, -1.0]}
position = [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]

by_loop = []
for place, character in enumerate("cab"):
    x = [embedding[character][i] + position[place][i] for i in range(2)]
    scores = [sum(x[i] * embedding[other][i] for i in range(2)) for other in "abc"]
    by_loop.append(scores)
    print(f"at {place} reads {character}: x = {x}, scores of a, b, c: {scores}")

# %% name="tiny-matrix"
E = torch.tensor([embedding[character] for character in "abc"])  # (vocab_size, d_model)
P = torch.tensor(position)  # (context_length, d_model)
tokens = torch.tensor([[2, 0, 1]])  # "cab": (batch, position)

by_matrix = (E[tokens] + P) @ E.T  # (batch, position, vocab_size)

token_embedding = nn.Embedding(3, 2, _weight=E)
head = nn.Linear(2, 3, bias=False)
head.weight = token_embedding.weight  # tied: one parameter, two roles
by_torch = head(token_embedding(tokens) + P)
print("loop = matrix: ", torch.equal(torch.tensor([by_loop]), by_matrix))
print("loop = PyTorch:", torch.equal(torch.tensor([by_loop]), by_torch))

# %% [markdown] name="tiny-answer"
# Each character expects *itself*, here and as a rule. Nothing has read anything yet, so x is still the character's own vector (and a bit of position), and
# few vectors point the way of a vector as it does itself. With a tied head, it is the blocks' job to
# **write something else over it**. (Without positions, and with a head of its own, this would be lesson 01's bigram model,
# squeezed through d_model numbers.)

# %% [markdown] name="formula"
# ## The formula
#
# $$x^{(0)}_i = E_{t_i} + P_i \qquad x^{(l)} = \mathrm{block}_l\big(x^{(l-1)}\big) \qquad
# \mathrm{logits}_i = \mathrm{LN}\big(x^{(N)}_i\big)\,E^\top$$
#
# | symbol | in code | shape |
# |---|---|---|
# | $t_i$ | `tokens[:, i]` | (batch,), whole numbers |
# | $E$ | `token_embedding.weight`, and `head.weight` | (vocab_size, d_model) |
# | $P$ | `position_embedding.weight` | (context_length, d_model) |
# | $x^{(l)}$ | `x` after block l of N | (batch, position, d_model) |
# | $\mathrm{LN}$ | `final_norm` | keeps the shape |
# | $\mathrm{logits}_i$ | what the model returns | (batch, position, vocab_size); row i scores what comes *after* token i |

# %% [markdown] name="ex-gpt-text"
# **Exercise 09.gpt · ★★★ · 10 min.** Put it together, with the names of the docstring. The check fills your GPT with known
# numbers and compares logits, gradients and size. (An `nn.ModuleList` is a list whose layers PyTorch finds.)

# %% name="ex-gpt" tags=["exercise"] course={"exercise": "09.gpt"}
class GPT(nn.Module):
    """Tokens (batch, position) → logits (batch, position, vocab_size): scores for each next token.

    Attributes: token_embedding and position_embedding, each an nn.Embedding; blocks, an
    nn.ModuleList of Block; final_norm, a LayerNorm; head, an nn.Linear without bias whose weight
    is that of token_embedding.
    """

    def __init__(self, vocab_size, context_length, n_layers, d_model, n_heads):
        super().__init__()
        raise NotImplementedError

    def forward(self, tokens):
        raise NotImplementedError

# %% name="check-gpt" tags=["check", "nbval-ignore-output"]
GPT = check("09.gpt", GPT)

# %% [markdown] name="same-text"
# ## Is it the library's?
#
# The library's GPT was tested against PyTorch's own layers. If yours is the same function, then with the same numbers it gives the same
# logits. We also look for a leak, as in lesson 04: change a character, and nothing before it may move.

# %% name="same"
from course_lib.data.batches import random_windows
from course_lib.data.corpora import load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT as LibraryGPT

corpus = load_corpus("shakespeare")  # 63 characters
windows = torch.Generator().manual_seed(0)
inputs, targets = random_windows(corpus.train, 16, 64, windows)  # pieces of text, and what follows each character


def library_twin(gpt, positions="learned"):
    """The library's GPT with this one's numbers."""
    shape = {"context_length": 64, "n_layers": 2, "d_model": 64, "n_heads": 2}
    twin = LibraryGPT(GPTConfig(vocab_size=63, positions=positions, **shape))
    numbers = {name.replace("position_embedding", "position_embedding.embedding"): number
               for name, number in gpt.state_dict().items()
               if positions == "learned" or "position" not in name}
    twin.load_state_dict(numbers)
    return twin.eval()

# %% name="same-numbers"
torch.manual_seed(0)
gpt = GPT(63, 64, 2, 64, 2)
with torch.no_grad():
    logits = gpt(inputs)
    print("logits as the library's:", torch.allclose(logits, library_twin(gpt)(inputs), atol=1e-3))
    print("as many parameters:     ", count(gpt) == count(library_twin(gpt)))
    changed = inputs.clone()
    changed[:, 40] = (inputs[:, 40] + 1) % 63
    moved = (gpt(changed) - logits).abs().amax(dim=(0, 2)) > 1e-3
    print("changed at 40, first place that moves:", moved.nonzero()[0].item())

# %% [markdown] name="order-text"
# ## Two other ways to carry the order
#
# A learned table is GPT-2's choice. Your sinusoids (06) and your rotation (07) fit in too. Sinusoids take the table's place; Vaswani et al. (2017)
# multiply the token vectors beside them by √d_model and give no reason; one is that sinusoids are of size 1. The rotation adds nothing to the stream: it
# turns queries and keys inside attention, and is used in most models of today. Both against the library:

# %% name="order-parts"
class RotaryAttention(nn.Module):
    """The four matrices of another attention; queries and keys are turned before they meet."""

    def __init__(self, plain, n_heads):
        super().__init__()
        self.query, self.key, self.value, self.output = plain.query, plain.key, plain.value, plain.output
        self.n_heads = n_heads

    def forward(self, x, may_attend):
        query, key, value = (split_heads(linear(x), self.n_heads) for linear in (self.query, self.key, self.value))
        places = torch.arange(x.shape[1])
        mixed, _ = masked_attention(rotate(query, places), rotate(key, places), value, may_attend)
        return self.output(mixed.transpose(1, 2).flatten(2))  # heads side by side again


def from_stream(gpt, x):
    """Blocks, final norm and head: the rest of the way, however the order came in."""
    for block in gpt.blocks:
        x = block(x, causal_mask(x.shape[1]))
    return gpt.head(gpt.final_norm(x))

# %% name="order"
with torch.no_grad():
    vectors = gpt.token_embedding(inputs)
    waves = from_stream(gpt, vectors * math.sqrt(64) + sinusoidal(torch.arange(64), 64))
    print("sinusoidal, as the library's:", torch.allclose(waves, library_twin(gpt, "sinusoidal")(inputs), atol=1e-3))
    for block in gpt.blocks:
        block.attention = RotaryAttention(block.attention, n_heads=2)
    turned = from_stream(gpt, vectors)
    print("rotary, as the library's:    ", torch.allclose(turned, library_twin(gpt, "rotary")(inputs), atol=1e-3))

# %% [markdown] name="first-loss-text"
# ## A newborn that is sure
#
# All parts are right. What is its first loss, before any training? A model that knows nothing should
# guess evenly among 63 characters and lose ln 63 = 4.14. **Guess** what yours loses, fresh from PyTorch's default
# **initialisation** (the random numbers it starts with).

# %% name="first-loss"
def first_loss(gpt):
    with torch.no_grad():
        return cross_entropy(gpt(inputs).flatten(0, 1), targets.flatten()).item()


def newborn(seed=0):
    torch.manual_seed(seed)
    gpt = GPT(vocab_size=63, context_length=64, n_layers=2, d_model=64, n_heads=2)
    for table in (gpt.token_embedding, gpt.position_embedding):
        nn.init.normal_(table.weight)  # nn.Embedding's default, whichever way round you tied
    return gpt


for seed in range(3):
    gpt = newborn(seed)
    logits = gpt(inputs)
    repeats = (logits.argmax(dim=-1) == inputs).float().mean()
    largest = logits.amax(dim=-1).mean()
    print(f"seed {seed}: first loss {first_loss(gpt):.0f}, largest logit {largest:.0f} on average,", end=" ")
    print(f"its own character expected at {repeats:.0%} of places")

# %% [markdown] name="first-loss-answer"
# Far worse than knowing nothing. You have seen why, on paper: the newborn expects each character to repeat itself. PyTorch draws embeddings from
# N(0, 1), so a vector of 64 numbers has a length of about 8, and its dot product with a vector that points its way is dozens: a logit that
# leaves nothing for the others. The model is not ignorant, it is **sure, and wrong**.
#
# The remedy is to start small. GPT-2 draws its matrices from N(0, 0.02²), biases are 0, and the matrices that write into the
# stream (`output` in attention and feed-forward, two in each block) are smaller still, by √(2N) for N blocks: 2N independent terms add up in
# the stream, and their variances with them.

# %% name="initialise"
def initialise(gpt, std=0.02):
    """GPT-2's way: every logit starts near 0, so that a new model guesses evenly."""
    for name, parameter in gpt.named_parameters():
        if name.endswith("output.weight"):
            nn.init.normal_(parameter, std=std / math.sqrt(2 * len(gpt.blocks)))
        elif parameter.ndim == 2:
            nn.init.normal_(parameter, std=std)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return gpt


for seed in range(3):
    loss = first_loss(initialise(newborn(seed)))
    print(f"seed {seed}: within 2 % of ln 63: {abs(loss / math.log(63) - 1) < 0.02}")

# %% [markdown] name="break-std-text"
# ## Break it: how small is small?
#
# The same initialisation with other sizes in place of 0.02, three seeds each. **Look for** the size at which the points leave
# the dotted line, ln 63.

# %% name="break-std"
sizes = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
losses = [[first_loss(initialise(newborn(seed), std)) for seed in range(3)] for std in sizes]

ax = plt.subplots(figsize=(6, 3.6))[1]
ax.plot(sizes, losses, "o", color="tab:blue")
ax.axhline(math.log(63), linestyle=":", color="gray")
ax.set_xscale("log")
ax.set_yscale("log")
ax.set_yticks([4, 6, 10, 16], labels=["4", "6", "10", "16"])
ax.minorticks_off()
ax.set_xlabel("standard deviation of every matrix")
ax.set_ylabel("first loss (nats per character)")
plt.show()

# %% name="break-std-shown"
drawn = [line.get_ydata().tolist() for line in ax.lines[:3]]  # a line for each seed
assert [list(run) for run in zip(*losses, strict=True)] == drawn
assert max(losses[sizes.index(0.05)]) < 1.05 * math.log(63) and min(losses[sizes.index(0.2)]) > 1.15 * math.log(63)
assert min(losses[-1]) > 16 and max(losses[-1]) < 24 and 36 < first_loss(newborn()) < 50

# %% [markdown] name="break-std-answer"
# Up to 0.05 the newborn is honest, to five percent; from 0.1 on it is surer with every step. (A wider model leaves the line earlier, for a logit is a
# sum over d_model terms. And at 1 it loses about 20, not 43: here the blocks' matrices are large too, and have written over the character's own
# vector.) Smaller does no harm to the *first* loss. So the first loss finds an initialisation that is too large, never one
# that is too small. Does it matter, when training repairs everything? Both kinds, 60 steps each, with a plain loop (lesson 10 has a better one).

# %% name="train"
def train(model, batch, steps, rate=3e-3):
    """Follow the gradient; the loss of each step. batch() gives what the model reads, and the targets."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        *read, asked = batch()
        loss = cross_entropy(model(*read).flatten(0, 1), asked.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # no step may be huge (lesson 10)
        optimizer.step()
        losses.append(loss.item())
    return losses


def next_characters():
    return random_windows(corpus.train, 16, 64, windows)


large, small = newborn(), initialise(newborn())
large_losses, small_losses = train(large, next_characters, 60), train(small, next_characters, 60)

# %% name="trained" tags=["nbval-ignore-output"]
from course_lib.generation import Sampling, generate_text

written = generate_text(library_twin(small), corpus.tokenizer, "ROMEO:\n", 120, Sampling(temperature=0.7), seed=1)
print("".join(written))
for name, run in {"PyTorch's default": large_losses, "GPT-2's": small_losses}.items():
    print(f"{name:18} first loss {run[0]:5.1f}, mean of the last ten {sum(run[-10:]) / 10:.2f}")

# %% name="trained-bounds"
endings = [sum(run[-10:]) / 10 for run in (large_losses, small_losses)]
assert endings[1] < 0.7 * math.log(63), "it has learned something"
print("the sure one is still behind, by more than 0.2:", endings[0] > endings[1] + 0.2)

# %% [markdown] name="trained-answer"
# Your GPT learns. (It *wrote* through its twin, since the library's writing tools want the library's class.) The one that began too sure is behind:
# it has spent its steps unlearning.
#
# ## Where are the thirty-nine million?
#
# **Exercise 09.parameters · ★★ · 6 min.** Count every number that a GPT of ours learns, by formula, that is by arithmetic: do
# not build the model (GPT-3 would need 700 GB). A linear layer from a to b numbers has
# a · b weights and b biases; a LayerNorm has a weight and a bias for each of its d_model entries; the feed-forward layer is 4 · d_model wide. One argument
# that you might expect is not there. Why is it not needed?

# %% name="ex-parameters" tags=["exercise"] course={"exercise": "09.parameters"}
def gpt_parameters(vocab_size, context_length, n_layers, d_model):
    """How many numbers a GPT of this lesson learns: an int. Heads share d_model evenly."""
    raise NotImplementedError

# %% name="check-parameters" tags=["check", "nbval-ignore-output"]
gpt_parameters = check("09.parameters", gpt_parameters)

# %% [markdown] name="counts-text"
# Formula against model: we build each from *your* class, at full size, without numbers. The vocabulary of both is 50,257 tokens: not characters but
# frequent pieces of words.

# %% name="counts"
published = {  # vocab_size, context_length, n_layers, d_model, n_heads
    "GPT-2 small": (50257, 1024, 12, 768, 12),
    "GPT-2 XL": (50257, 1024, 48, 1600, 25),
    "GPT-3": (50257, 2048, 96, 12288, 96),
}
totals = {}
for name, shape in published.items():
    with torch.device("meta"):
        built, totals[name] = count(GPT(*shape)), gpt_parameters(*shape[:4])
    print(f"{name:11} {built:15,}  as by formula: {built == totals[name]}")
assert totals["GPT-2 small"] == 124_439_808 and totals["GPT-3"] == 174_604_259_328

# %% [markdown] name="counts-answer"
# There they are: 50,257 · 768 = 38,597,376 in the table of tokens, 1,024 · 768 in that of positions, 1,536 in the final norm. The number of heads is
# not needed: heads only divide d_model among themselves. GPT-3's paper prints 175.0 billion (Brown et al. 2020, table 2.1); ours, counted
# with a tied head and all biases, as in GPT-2, is 174.6. (The paper on GPT-2 gave its smallest model 117 million, a mistake, later corrected to 124.)
#
# **Look for** the largest part of each model, and for what becomes of the blue one.

# %% name="shares"
shares = {"token embedding": [], "positions": [], "attention": [], "feed-forward": [], "norms": []}
for (vocab_size, context_length, n_layers, d, _), total in zip(published.values(), totals.values(), strict=True):
    parts = (vocab_size * d, context_length * d, n_layers * (4 * d * d + 4 * d),
             n_layers * (8 * d * d + 5 * d), (2 * n_layers + 1) * 2 * d)
    assert sum(parts) == total
    for name, part in zip(shares, parts, strict=True):
        shares[name].append(part / total)

ax, left = plt.subplots(figsize=(7.4, 2.8), layout="constrained")[1], torch.zeros(3)
for name, part in shares.items():
    ax.barh(list(published), part, left=left, label=name)
    left += torch.tensor(part)
ax.invert_yaxis()
ax.set_xlabel("share of all parameters")
ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.28), ncols=5, frameon=False, fontsize=8)
plt.show()

# %% name="shares-shown"
widths = torch.tensor([[bar.get_width() for bar in bars] for bars in ax.containers])  # (part, model)
assert torch.allclose(widths.sum(dim=0), torch.ones(3).to(widths.dtype))
for bars, name in zip(ax.containers, shares, strict=True):
    print(f"{name:15}", "  ".join(f"{bar.get_width():6.1%}" for bar in bars))

# %% [markdown] name="shares-answer"
# In the smallest GPT-2 nearly a third is vocabulary, and tying saves as much again. In GPT-3 it is less than half a percent: the table grows
# with d_model, the blocks with its square. There, two thirds are feed-forward, one third attention, as lesson 08 counted, and 12 · d_model² · N is a
# good estimate of the whole.

# %% [markdown] name="bert-text"
# ## First cousin: BERT reads both ways
#
# > `Th_ _n_m_l d_d n_t cr_ss th_ r__d b_c__s_ _t w_s t__ t_r_d.`
#
# You can read that. How do you find the vowels in `r__d`? You look at what stands before them **and after them**. A GPT has only what stands before. For
# writing that is all there is, but when the text lies there complete, the causal mask throws half of it away. So leave it out: a stack of blocks
# in which every token reads every token is an **encoder**.
#
# Without the mask it cannot be trained as a GPT is: asked for the next character, it would read it there. **BERT** (Devlin et al. 2018) is trained on
# blanks: some tokens are replaced by a special one, `[MASK]`, and the model says what was there. This is **masked language modelling**. BERT hides
# 15 % of its word pieces, at random. Our tokens are characters, so we hide all vowels, and the running sentence above is what the model gets to see.
#
# **Exercise 09.mask_tokens · ★ · 5 min.** Make what BERT reads, and what it is asked for. `cross_entropy` passes over targets of −100, so that only
# the blanks count.

# %% name="ex-mask" tags=["exercise"] course={"exercise": "09.mask_tokens"}
def mask_tokens(tokens, hidden, mask_token):
    """What BERT reads, and what it has to say: (inputs, targets), each (batch, position), int64.

    tokens: (batch, position), int64. hidden: (batch, position), bool, True = to be hidden.
    inputs: mask_token where hidden, the token elsewhere.
    targets: the token where hidden; -100 elsewhere, which cross_entropy passes over.
    """
    raise NotImplementedError

# %% name="check-mask" tags=["check", "nbval-ignore-output"]
mask_tokens = check("09.mask_tokens", mask_tokens)

# %% [markdown] name="bert-same-text"
# The library's `Encoder` is its GPT without the mask. Is it? *Your* parts, rotation included, must give its numbers once everything is allowed. Then an
# encoder and a GPT get the same task, the same first numbers, the same 200 batches and the same loop. The GPT, when it comes to a blank, knows
# only what stands to the left. **Guess** what share of the vowels each finds.

# %% name="encoder"
from dataclasses import replace

from course_lib.model.encoder import Encoder

vocabulary, MASK = corpus.tokenizer.vocabulary, 63  # one token more than there are characters
vowels = torch.tensor([vocabulary.index(vowel) for vowel in "AEIOUaeiou"])
config = GPTConfig(vocab_size=64, context_length=64, n_layers=2, d_model=64, n_heads=4,
                   positions="rotary", initialisation="xavier")


def blanks(text=corpus.train, batch_size=16):
    tokens, _ = random_windows(text, batch_size, 64, windows)
    return mask_tokens(tokens, torch.isin(tokens, vowels), MASK)


torch.manual_seed(0)
encoder, yours = Encoder(config).eval(), GPT(64, 64, 2, 64, 4)
yours.load_state_dict(encoder.state_dict(), strict=False)  # it has no table of positions
x = yours.token_embedding(inputs)
for block in yours.blocks:
    block.attention = RotaryAttention(block.attention, n_heads=4)
    x = block(x, torch.ones(64, 64, dtype=torch.bool))  # everyone may read everyone
unmasked = yours.head(yours.final_norm(x))
print("your parts without the mask = Encoder:", torch.allclose(unmasked, encoder(inputs), atol=1e-3))

# %% name="bert" tags=["nbval-ignore-output"]
fillers, right = {}, {}
for name, kind in {"reads both ways": Encoder, "reads to the left": LibraryGPT}.items():
    torch.manual_seed(0)
    windows.manual_seed(0)  # the same batches for both
    fillers[name] = kind(config)
    train(fillers[name], blanks, 200)

windows.manual_seed(1)
read, asked = blanks(corpus.validation, 256)
is_asked = asked != -100
right["always the most frequent"] = (asked[is_asked] == asked[is_asked].mode().values).float().mean().item()
for name, model in fillers.items():
    with torch.no_grad():
        right[name] = (model.eval()(read).argmax(dim=-1) == asked)[is_asked].float().mean().item()
for name, share in right.items():
    print(f"{name:25} {share:.0%} of {is_asked.sum():,} vowels right")

# %% [markdown] name="bert-answer"
# The difference is the mask, nothing else. Below is what each makes of the running sentence, which does not stand in Shakespeare. (Do not judge by
# its twenty blanks: chance alone moves such a count by two or three.) All this is one run. The table after it has three seeds of each, longer
# training, matrices drawn small, and a second task: 15 % of all characters hidden at random, as BERT does with word pieces.

# %% name="sentence" tags=["nbval-ignore-output"]
assert 0.25 < right["always the most frequent"] < 0.31 and right["reads both ways"] > 0.45
assert right["reads both ways"] > right["reads to the left"] + 0.03
sentence = "The animal did not cross the road because it was too tired."
tokens = corpus.tokenizer.encode(sentence)[None]
read, asked = mask_tokens(tokens, torch.isin(tokens, vowels), MASK)
print(f"{'it reads':20}", "".join("_" if t == MASK else vocabulary[t] for t in read[0]))
for name, model in fillers.items():
    with torch.no_grad():
        said = torch.where(read == MASK, model(read)[..., :MASK].argmax(dim=-1), read)
    marks = (said == tokens)[read == MASK]
    print(f"{name:20} {corpus.tokenizer.decode(said[0])}   {int(marks.sum())} of {len(marks)}")

# %% name="table"
from course_lib.data.tables import load_table

assert len(said[0]) == len(sentence)
table = load_table("cousins")  # measured by: python -m benchmarks.lesson_tables.cousins
found = {}
print("share of the hidden characters found, seeds", table["seeds"])
for row in table["found"]:
    found[row["hidden"], row["start"], row["model"], row["steps"]] = row["shares"]
    how = f"{row['hidden']:14}  drawn as {row['start']:6}  {row['steps']:4} steps  {row['model']:7}"
    print(how, "  ".join(f"{share:.2f}" for share in row["shares"]), f"  commonest: {row['commonest']:.2f}")
for hidden, points in {"vowels": 0.2, "15 % at random": 0.08}.items():
    assert min(found[hidden, "xavier", "encoder", 1200]) > max(found[hidden, "xavier", "GPT", 1200]) + points
assert min(found["vowels", "xavier", "encoder", 300]) > max(found["vowels", "gpt2", "encoder", 300]) + 0.08

# %% name="table-means"
for hidden in ("vowels", "15 % at random"):
    for steps in (300, 1200):
        both, left = (sum(found[hidden, "xavier", model, steps]) / 3 for model in ("encoder", "GPT"))
        print(f"{hidden:14}  {steps:4} steps: the mean of the encoders is {100 * (both - left):2.0f} points higher")

read, asked = blanks()
for start in ("xavier", "gpt2"):
    for kind in (Encoder, LibraryGPT):
        torch.manual_seed(0)
        first = cross_entropy(kind(replace(config, initialisation=start))(read).flatten(0, 1), asked.flatten()).item()
        print(f"{kind.__name__:7} drawn as {start:6}: first loss {first:.2f} (ln 64 = {math.log(64):.2f})")
        assert abs(first / math.log(64) - 1) < 0.05

# %% [markdown] name="bert-table-answer"
# On vowels the mask makes 13 points after 300 steps and 25 after 1,200; seeds differ by one or two. With 15 % of all characters
# hidden there is hardly a difference at first, and less than lies between two seeds of the encoder; four times the training, and
# it is there, 12 points. So reading both ways is better here, and who had measured early would have denied it. (With BERT's word pieces a blank
# takes away more than a letter. So it does in Chinese, where a character is often a word: 那只动物没有过马＿.)
#
# And here is the initialisation that is too small. All four begin within five percent of ln 64: "Xavier" here concerns the matrices inside
# the blocks, embedding and head stay at 0.02, and these set the first loss. Yet with 0.02 in the blocks too the encoder is ten points short
# after 300 steps, and the GPT one. OpenAI used 0.02 at a d_model of 768 and more; at 64, Xavier's rule (lesson 08)
# gives 0.125 for a square matrix.
#
# A trained BERT is rarely kept to fill in blanks. That was its **pre-training**, on plain text. Then it is **fine-tuned**: a new small head goes on top, and training continues on a task with
# labels, such as whether a review is friendly. Its size? The published BERT-base has 12 blocks of
# d_model 768. You have counted them already: 85,054,464, the very number of the smallest GPT-2. (With a vocabulary of 30,522 the whole is
# smaller: the paper says 110 million.)

# %% [markdown] name="t5-text"
# ## Second cousin, optional: T5 reads one text and writes another
#
# To translate one must read the whole source, both ways, *and* write from left to right. The Transformer of 2017 was built for that: an
# **encoder–decoder**. The encoder reads the source. The **decoder** is a stack of causal blocks with a third part each, **cross-attention**: queries
# from the text that is being written, keys and values from the encoder's result. It is your attention with two texts, and its weights are (target,
# source), no square any more:

# %% name="cross"
x, memory = torch.randn(1, 3, 8), torch.randn(1, 5, 8)  # three tokens being written, five of the source
gathered, weights = attention(x, memory, memory)
print("weights (batch, target, source):", tuple(weights.shape))
library = nn.functional.scaled_dot_product_attention(x, memory, memory)
print("your attention = PyTorch's:     ", torch.allclose(gathered, library, atol=1e-5))

# %% [markdown] name="t5-tasks-text"
# **T5** (Raffel et al. 2019) made every task text to text: a prefix says what is wanted (`translate English to German:`), the answer is text. Ours will have the
# prefixes `copy:`, `reverse:` and `sort:`, and eight letters. **Before you go on, guess**: which task is learned last?
#
# **Exercise 09.shift · ★ · 3 min.** While it writes, the decoder reads what it has written so far. In training it reads the true target, moved one
# place to the right.

# %% name="ex-shift" tags=["exercise"] course={"exercise": "09.shift"}
def decoder_inputs(target, start):
    """What the decoder reads while it writes the target (batch, position): the same shape.

    At each position the target's token before it; at the first one, `start`, a token (int).
    """
    raise NotImplementedError

# %% name="check-shift" tags=["check", "nbval-ignore-output"]
decoder_inputs = check("09.shift", decoder_inputs)

# %% name="t5-task"
from course_lib.model.encoder import EncoderDecoder

tasks = {"copy:": lambda x: x, "reverse:": lambda x: x.flip(1), "sort:": lambda x: x.sort(dim=1).values}
symbols = ["<start>", *tasks, *"abcdefghijklmnopqrstuvwxyz"]
draws = torch.Generator().manual_seed(0)


def examples(task, n):
    """n sources (batch, 9), the prefix and eight random letters, and their targets (batch, 8)."""
    letters = torch.randint(len(tasks) + 1, len(symbols), (n, 8), generator=draws)
    prefix = torch.full((n, 1), symbols.index(task))
    return torch.cat([prefix, letters], dim=1), tasks[task](letters)


def mixed():
    """A batch of all tasks: the source, what the decoder reads, and the targets."""
    sources, targets = zip(*(examples(task, 32) for task in tasks), strict=True)
    target = torch.cat(targets)
    return torch.cat(sources), decoder_inputs(target, start=0), target

# %% name="t5" tags=["nbval-ignore-output"]
torch.manual_seed(0)
t5 = EncoderDecoder(GPTConfig(vocab_size=len(symbols), context_length=9, n_layers=2, d_model=64, n_heads=4,
                              initialisation="xavier"))
train(t5, mixed, 200)
exact = {}
for task in tasks:
    source, target = examples(task, 200)
    exact[task] = (t5.write(source, start=0, length=8) == target).all(dim=1).float().mean().item()
    letters = torch.tensor([[symbols.index(s) for s in (task, *"notebook")]])
    answer = "".join(symbols[t] for t in t5.write(letters, start=0, length=8)[0])
    print(f"{task:9} notebook → {answer}   {exact[task]:.0%} of 200 without a mistake")

# %% [markdown] name="t5-look"
# Where does it look while it writes? Cross-attention of the last block, mean of its heads: a row for each letter it writes, a column for each
# token of the source. **Look for** the diagonals. Which way does each run, and what would a sorting model's picture have to look like?

# %% name="t5-weights"
from course_lib.plots import heatmap, shown

assert exact["copy:"] > 0.7 and exact["reverse:"] > 0.7, "copy and reverse are learned"
print("sort takes longer:", exact["sort:"] < min(exact["copy:"], exact["reverse:"]))
for row in table["exact"]:
    shares = "  ".join(f"{share:.0%}" for share in row["shares"])
    print(f"{row['task']:8} after {row['steps']:4} steps, three seeds:", shares)

figure, grid = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
for task, ax in zip(tasks, grid, strict=True):
    source = torch.tensor([[symbols.index(s) for s in (task, *"notebook")]])
    written = t5.write(source, start=0, length=8)
    with torch.no_grad():
        weights = t5(source, decoder_inputs(written, start=0), return_weights=True)[1][-1][0].mean(dim=0)
    heatmap(weights, [symbols[t] for t in written[0]], [task, *"notebook"], ax=ax, title=task)
    ax.set_ylabel("letter it writes")
plt.show()

# %% name="t5-shown"
columns = {task: shown(ax).argmax(axis=1).tolist() for task, ax in zip(tasks, grid, strict=True)}
assert sum(c == place + 1 for place, c in enumerate(columns["copy:"])) >= 6
assert sum(c == 8 - place for place, c in enumerate(columns["reverse:"])) >= 6

# %% [markdown] name="t5-answer"
# One model, three tasks, told apart by a word in the input: close kin of the prompt. *Copy* reads along one diagonal, *reverse* along the
# other. *Sort* has no fixed path. Half-learned as it is (look at what it wrote), its squares lie on or near the letter in some rows; in others it
# is undecided. In our runs it is learned last, and it does come.

# %% [markdown] name="decoder"
# ## Why chat models kept the decoder
#
# BERT reads better, T5 reads and writes. Nearly every chat model is a GPT all the same. What follows is **opinion**, ours, with the evidence we know of.
#
# - **Any task is a continuation.** GPT-3 showed that one model, never fine-tuned, does tasks it is told in its prompt (Brown et al. 2020). Question and
#   answer are one text, so one stack is enough.
# - **Every token teaches.** BERT is asked about 15 of 100 tokens, a GPT about all of them.
# - **A conversation grows at its end.** Under a causal mask what was read stays valid, and can be kept (the cache of [lesson 12](12_generate.ipynb)). An encoder has to read
#   the whole conversation anew after each turn, since every earlier token may look at the new ones.
# - **Habit.** Once the tools, the fast GPU programs and the experience were there for one kind, the next model was of that kind.
#
# It is *not* that the decoder is better at everything. Raffel et al. compared the two at about equal cost (with twice the parameters) and found
# encoder–decoders better once both were fine-tuned. Wang et al. (2022), with 5 billion parameters, found the causal decoder best at tasks without an
# example right after pre-training, and models that were trained on blanks and read their input both ways best once they had been fine-tuned on many
# tasks. Encoders are still built, for search and classification (Warner et al. 2024), where nothing has to be written.

# %% [markdown] name="practice"
# ## In practice
#
# **BERT's blanks** are not all blanks: of the 15 %, a tenth keeps its token and a tenth gets a random one, because no `[MASK]` will ever come in a real
# text. It also learned whether two sentences belong together; RoBERTa (Liu et al. 2019) left that out and lost nothing. BERT's blocks are Post-LN.
#
# **T5's blanks** are longer: runs of tokens are cut out, and the decoder writes what was there. Its positions are a learned bias on the scores, by distance.
#
# **Tied or not?** Small models usually tie. In large ones the table is a sliver, and many give the head a matrix of its own.
#
# **Which first loss?** ln V, whatever the text: for 50,257 tokens 10.82. The smallest GPT-2 begins a little above, near 11.0: logits with a spread of
# σ = 0.02 · √768 = 0.55 cost about σ²/2 = 0.15 more. If yours is far off, look at the initialisation before anything else.

# %% [markdown] name="recap"
# ## Recap
#
# 1. Besides its blocks a GPT has a **token embedding**, a way to carry the order, a **final norm** and a **head**; with **tied** weights the head is
#    the embedding's matrix.
# 2. A newborn must guess evenly: **first loss ln V**. Larger means sure and wrong: logits too large, an initialisation not small enough. Too small it does not show.
# 3. A block has 12·d² + 13·d parameters; GPT-2 small has **124,439,808** in all, GPT-3 **174,604,259,328**. Heads do not count; GPT-2's vocabulary is
#    a third of the smallest model and nothing to speak of in GPT-3.
# 4. Without the causal mask: an **encoder**, trained on blanks (**BERT**), for texts that lie there complete. An encoder and a decoder with **cross-attention**: **T5**, for one
#    text turned into another.
# 5. Why decoders won chat, in our opinion: any task is a continuation, every token teaches, the past can be kept, and habit; not
#    because they are better at everything.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; two of them have more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("09")

# %% [markdown] name="sources"
# ## Sources
#
# - Vaswani et al. 2017, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): the Transformer, an encoder–decoder.
# - Radford et al. 2019, [*Language Models are Unsupervised Multitask
#   Learners*](https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf): GPT-2; section 2.3 is its
#   architecture in a paragraph, the 1/√N included (its N counts residual layers, two to a block). The
#   corrected sizes stand in the [README of its code](https://github.com/openai/gpt-2).
# - Brown et al. 2020, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165): GPT-3; table 2.1 has the shapes of eight models.
# - Press, Wolf 2017, [arXiv 1608.05859](https://arxiv.org/abs/1608.05859): why embedding and head may be one matrix.
# - Devlin et al. 2018, [arXiv 1810.04805](https://arxiv.org/abs/1810.04805): BERT; section 3.1 is the masking, its appendix C.2 tries other mixtures. Liu et al. 2019, [arXiv
#   1907.11692](https://arxiv.org/abs/1907.11692): RoBERTa, the same more thoroughly trained.
# - Raffel et al. 2019, [arXiv 1910.10683](https://arxiv.org/abs/1910.10683): T5; section 3.2 compares encoder–decoder, decoder, and a decoder that
#   reads its prompt both ways.
# - Wang et al. 2022, [arXiv 2204.05832](https://arxiv.org/abs/2204.05832): the same comparison for models that are only told what to do.
# - Warner et al. 2024, [arXiv 2412.13663](https://arxiv.org/abs/2412.13663): ModernBERT, an encoder with the parts of today.

# %% [markdown] name="next"
# ## Next
#
# Your GPT learned for sixty steps with a plain loop. [**Lesson 10**](10_train_it.ipynb) builds the real one: batches, AdamW, warm-up, clipping,
# an honest measure, and a run that can be stopped and resumed.
