# %% [markdown] name="title"
# # Generate: choose the next character, and remember what was read
#
# Lesson 12 · [00 Start here](00_start_here.ipynb) · before: 11 Train it on a GPU · next: [13 Look inside](13_look_inside.ipynb)

# %% [markdown] name="goals"
# **What you will build.** The rules by which a model's next character is chosen, and a **key–value cache**, which makes
# writing several times as fast and changes nothing else.
#
# **Afterwards you can**
#
# 1. say why the likeliest continuation is a bad text, and what temperature, top-k and top-p do about it;
# 2. explain which numbers of a causal model never change once computed, and why no other model has that;
# 3. write a cache that equals the model without one: for a prompt at once, in pieces, step by step, in batches, past the window;
# 4. name the two bugs that caches have, and the tests that find them;
# 5. work out how many bytes a cache takes, for a model of any size.
#
# **What you need.** The mask of [lesson 04](04_causal_mask.ipynb), RoPE from [lesson 07](07_rotary_positions.ipynb),
# the GPT of [lesson 09](09_a_gpt_from_its_parts.ipynb). **Time:** 60 minutes, 28 of them for five exercises.

# %% name="setup"
import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("12")

# %% [markdown] name="question"
# ## The best next character, every time
#
# A GPT does not write. It gives each character of its vocabulary a score, the **logits**, and a softmax makes them
# probabilities. Somebody has to choose one, append it, and ask again. The obvious rule takes the likeliest:
# **greedy** decoding. We let the Shakespeare model that comes with the course continue `ROMEO:`. **Guess** first: if
# each character is the best one, how good is the text?

# %% name="greedy" tags=["nbval-ignore-output"]
from course_lib.data.corpora import DATA_FOLDER
from course_lib.generation import (
    Sampling,
    generate_text,
    next_token_logits,
    next_token_probabilities,
)
from course_lib.training.checkpoint import load_run

model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")


def write(prompt="ROMEO:\n", length=240, seed=0, **sampling):
    """What the model writes after the prompt."""
    return "".join(generate_text(model, tokenizer, prompt, length, Sampling(**sampling), seed))


greedy = write(temperature=0)
print(greedy)

# %% name="greedy-loops"
def repeated(text, width=12):
    """The share of a text's pieces of 12 characters that stood in it before."""
    pieces = [text[i : i + width] for i in range(len(text) - width + 1)]
    return 1 - len(set(pieces)) / len(pieces)


assert repeated(greedy) > 0.2 and greedy.count("strange of the strange") >= 2

# %% [markdown] name="question-answer"
# The strange of the strange of the strange. Each step was the best one, and the text runs in a circle. This is no
# weakness of a small model alone: large ones do it too (Holtzman et al. 2020 show it of GPT-2). Shakespeare himself
# seldom writes what is likeliest; a text that never surprises says nothing. So we **sample**: draw the next
# character at random, each as often as its probability says. And if the drawing is left alone?

# %% name="free" tags=["nbval-ignore-output"]
free = write(temperature=1.0, length=120)
wild = write(temperature=1.5, length=120)
print(free, wild, sep="\n\n--- and hotter ---\n\n")

# %% [markdown] name="tiny-text"
# Better, with slips: rare characters are many, and though each is unlikely, one of them is drawn every few words. All
# rules of this lesson move between these two ends. On paper, five characters with logits made by hand:

# %% name="tiny"
import math

letters, logits = "eatoz", [2.0, 1.0, 0.5, 0.0, -2.0]


def softmax_by_loop(scores, temperature):
    raised = [math.exp(score / temperature) for score in scores]
    return [each / sum(raised) for each in raised]


for temperature in (0.5, 1.0, 2.0):
    shares = softmax_by_loop(logits, temperature)
    print(f"temperature {temperature}: " + "  ".join(f"{c} {p:.2f}" for c, p in zip(letters, shares, strict=True)))
    by_library = next_token_probabilities(torch.tensor(logits), Sampling(temperature=temperature))
    assert torch.allclose(by_library, torch.tensor(shares, dtype=torch.float64), atol=1e-6)

# %% [markdown] name="tiny-answer"
# **Temperature** divides the logits before the softmax (the name comes from physics; lesson 03 met it as √d_k). Below 1
# what is likely gets likelier; towards 0 nothing else is left, which is greedy; above 1 all draw level.
#
# The other two rules cut off the tail and let the rest share its probability:
#
# - **top-k** (Fan et al. 2018) keeps the k likeliest characters;
# - **top-p**, or *nucleus* sampling (Holtzman et al. 2020), keeps the likeliest until their probabilities together reach p.
#
# **Predict**: at temperature 1, what do top-k with k = 2 and top-p with p = 0.8 keep of the five letters?

# %% name="tiny-filters"
for name, rule in {"top-k 2": Sampling(top_k=2), "top-p 0.8": Sampling(top_p=0.8)}.items():
    kept = next_token_probabilities(torch.tensor(logits), rule)
    print(f"{name}: " + "  ".join(f"{c} {p:.2f}" for c, p in zip(letters, kept.tolist(), strict=True)))

# %% [markdown] name="ex-top-p-text"
# e and a have 0.57 + 0.21, a little less than 0.8, so *t* stays too: p is to be **reached**.
#
# **Exercise 12.top_p · ★★ · 7 min.** Write it. Which character goes is decided in order of probability; the answer is in
# the order of the vocabulary.

# %% name="ex-top-p" tags=["exercise"] course={"exercise": "12.top_p"}
def top_p(probabilities, p):
    """Keep the likeliest until together they reach p; (vocab_size,) → (vocab_size,), sum 1.

    At least one is kept. `probabilities.sort(descending=True)` gives values and their places.
    """
    raise NotImplementedError

# %% name="check-top-p" tags=["check", "nbval-ignore-output"]
top_p = check("12.top_p", top_p)

# %% [markdown] name="filters-look"
# Now the real thing: after `JULIE`, and after `JULIET:` and a line break, where nearly anything may follow. **Look for** how many bars
# top-k = 5 leaves in each picture (green), and how many top-p = 0.9.

# %% name="filters-picture"
from course_lib.plots import visible

figure, axes = plt.subplots(2, 2, figsize=(9.6, 5.2), layout="constrained", sharey="row")
kept_bars = {}
for row, prompt in zip(axes, ("JULIE", "JULIET:\n"), strict=True):
    logits = next_token_logits(model, tokenizer.encode(prompt))
    everything, order = next_token_probabilities(logits, Sampling()).sort(descending=True)
    for ax, (name, rule) in zip(row, {"top-k = 5": {"top_k": 5}, "top-p = 0.9": {"top_p": 0.9}}.items(), strict=True):
        kept = next_token_probabilities(logits, Sampling(**rule))[order]
        ax.bar(range(20), everything[:20], color="lightgray")
        ax.bar(range(20), kept[:20], width=0.45, color="tab:green")
        labels = [visible(tokenizer.decode([token])) for token in order[:20]]
        ax.set_xticks(range(20), labels, parse_math=False)
        ax.set_title(f"after “{visible(prompt)}”, {name}", fontsize=10, parse_math=False)
        kept_bars[prompt, name] = int((kept > 0).sum())
for ax in axes[:, 0]:
    ax.set_ylabel("probability")
plt.show()

# %% name="filters-shown"
for (prompt, name), count in kept_bars.items():
    print(f"after {prompt!r}, {name}: {count} of {tokenizer.vocab_size} characters are left")
assert kept_bars["JULIE", "top-p = 0.9"] <= 2 < 5 < kept_bars["JULIET:\n", "top-p = 0.9"]
assert [round(bar.get_height(), 4) for bar in axes[0, 0].patches[:20]] == sorted(
    (round(bar.get_height(), 4) for bar in axes[0, 0].patches[:20]), reverse=True
), "the bars fall"

# %% [markdown] name="filters-answer"
# Top-k keeps five, whether one character is nearly certain or twenty are possible: too many above, too few below. Top-p
# keeps as many as it takes. Rules can be combined; the usual order, and the library's, is temperature, then top-k,
# then top-p, each on what the one before has left.
#
# What do they do to the text? We count two faults: words that are in none of the plays, and pieces that stood there before.

# %% name="faults" tags=["nbval-ignore-output"]
import re

from course_lib.data.corpora import built_in_file, read_text

known_words = set(re.findall("[a-z]+", read_text(built_in_file("shakespeare")).lower()))


def unknown(text):
    """The share of a text's words that are in none of the plays."""
    words = re.findall("[a-z]+", text.lower())
    return sum(word not in known_words for word in words) / len(words)


rules = {"greedy": {"temperature": 0}, "top-p 0.9": {"top_p": 0.9}, "free": {}, "temperature 1.5": {"temperature": 1.5}}
faults = {}
for name, rule in rules.items():
    texts = [write(seed=seed, **rule) for seed in (1, 2, 3)]
    faults[name] = [sum(map(fault, texts)) / 3 for fault in (unknown, repeated)]
    print(f"{name:16} unknown words {faults[name][0]:4.0%}   repeated {faults[name][1]:4.0%}   (three seeds)")

# %% name="faults-bounds"
assert faults["greedy"][1] > 0.2 > 0.05 > faults["top-p 0.9"][1]
assert faults["temperature 1.5"][0] > 0.2 > 0.12 > faults["top-p 0.9"][0]
assert faults["free"][0] > faults["greedy"][0]

# %% [markdown] name="faults-answer"
# Between the circle and the noise there is a wide middle, and no best point in it: it depends on whether you want the
# next line of verse or the next line of a program. (Counting faults says nothing about sense. Texts are judged by reading.)
#
# **Against repetition** there are rules of their own: forbid what would repeat a piece of n tokens (Paulus et al. 2017), or
# lower the scores of all tokens used so far (Keskar et al. 2019), which suits words and not letters: who would write
# without a second e? The first, on top of greedy:

# %% name="no-repeats" tags=["nbval-ignore-output"]
def without_repeats(length, width=8):
    tokens = tokenizer.encode("ROMEO:\n").tolist()
    for _ in range(length):
        logits = next_token_logits(model, torch.tensor(tokens))
        tail = tokens[1 - width :]
        for i in range(len(tokens) - width + 1):
            if tokens[i : i + width - 1] == tail:
                logits[tokens[i + width - 1]] = -math.inf  # it would complete a piece of 8 that is there
        tokens.append(int(logits.argmax()))
    return tokenizer.decode(tokens[7:])


stubborn = without_repeats(160)
print(stubborn)

# %% name="no-repeats-holds"
assert repeated(stubborn, width=8) == 0 and len(stubborn) == 160

# %% [markdown] name="cost-text"
# No circle, and yet no freedom. Sampling does better.
#
# ## The waste
#
# Look at what `without_repeats` does for one more character: it runs the whole model over the *whole* text so far, to
# use a single row of the result. For n characters that makes 1 + 2 + … + n = n(n+1)/2 rows computed, and n used. What
# of all this is new? We take one text, and the same with a character more, and compare what layer 2 makes of
# them: each token's key and value. **Predict** how many of the old ones have changed, first in our GPT, then in one
# whose mask we take away.

# %% name="what-changes"
from course_lib.model.attention import causal_mask

text = tokenizer.encode("The animal did not cross the road")


@torch.no_grad()
def keys_of_layer_2(tokens, causal):
    """Keys (position, d_model) of the third block, for tokens (position,)."""
    positions = torch.arange(len(tokens))
    may_attend = causal_mask(positions, positions) if causal else torch.ones(len(tokens), len(tokens), dtype=torch.bool)
    x = model.embed(tokens[None], positions)
    for block in model.blocks[:2]:
        x, _ = block(x, positions, may_attend)
    return model.blocks[2].attention.key(model.blocks[2].attention_norm(x))[0]


for causal in (True, False):
    change = keys_of_layer_2(text, causal)[:-1] - keys_of_layer_2(text[:-1], causal)
    changed = int((change.abs().amax(dim=-1) > 1e-4).sum())
    print(f"{'causal' if causal else 'no mask'}: {changed} of the {len(text) - 1} old keys have changed")
    assert changed == (0 if causal else len(text) - 1)

# %% [markdown] name="formula"
# None. With the causal mask a token depends on itself and on what stands before it, so once its key and its value are
# computed, in any layer, they are final. A BERT has no such luck: a new token changes all the others.
#
# So we keep them: this is the **key–value cache** (KV cache). A new token is taken through the layers alone; in each it makes its query, its key and its
# value, lays key and value with the kept ones, and reads:
#
# $$o_t = \mathrm{softmax}\!\left(\frac{q_t K_{\le t}^\top}{\sqrt{d_k}}\right) V_{\le t}, \qquad
# K_{\le t} = \begin{bmatrix} K_{<t} \\ k_t \end{bmatrix}, \quad V_{\le t} = \begin{bmatrix} V_{<t} \\ v_t \end{bmatrix}$$
#
# | symbol | in code | shape | is |
# |---|---|---|---|
# | $t$ | `read` | | tokens read so far: the position of the next one |
# | $q_t, k_t, v_t$ | `query`, `key`, `value` | (batch, head, new, d_head) | made of the new tokens alone |
# | $K_{<t}, V_{<t}$ | `kept` | (batch, head, held, d_head) | what the cache holds |
#
# For each new token the layers' matrices then work on one row in place of t, and attention takes t products in place of t².
#
# **Why not keep queries?** A query is used once, by its own token. Nobody ever asks for it again.

# %% [markdown] name="ex-remember-text"
# A text may outgrow the model's context. We then let the oldest go: the cache holds the last `window` tokens.
#
# **Exercise 12.remember · ★ · 4 min.**

# %% name="ex-remember" tags=["exercise"] course={"exercise": "12.remember"}
def remember(kept, new, window):
    """The kept keys or values with the new ones after them, the last `window` of them all.

    kept: (batch, head, held, d_head), or None where nothing has been read; new: (batch, head, new, d_head).
    """
    raise NotImplementedError

# %% name="check-remember" tags=["check", "nbval-ignore-output"]
remember = check("12.remember", remember)

# %% [markdown] name="ex-mask-text"
# If several tokens come at once, a prompt say, they must not read one another's future. The square triangle of lesson 04 will not
# do: 3 new queries may meet 10 keys, 7 of them kept. What counts is **positions**: a query at position m may read a
# key at position n if n ≤ m, and, with a window, if m − n < window.
#
# **Exercise 12.mask · ★★ · 6 min.** `read` tokens were read before, `held` of them are still there (the last ones), and `new`
# tokens follow.

# %% name="ex-mask" tags=["exercise"] course={"exercise": "12.mask"}
def mask_after(read, held, new, window):
    """Who may attend to whom: (new, held + new), bool, True = may attend.

    Rows: the new tokens, at positions read, read + 1, …; columns: the held ones, then the new ones.
    """
    raise NotImplementedError

# %% name="check-mask" tags=["check", "nbval-ignore-output"]
mask_after = check("12.mask", mask_after)

# %% [markdown] name="ex-cached-text"
# Both together, in a GPT. Its parts, as you know them from lesson 09:
#
# - `model.embed(tokens, positions)` gives (batch, new, d_model);
# - in each of `model.blocks`: `x + attention(attention_norm(x))`, then `x + feed_forward(feed_forward_norm(x))`;
# - `block.attention.project(x, places)` gives query, key and value, (batch, head, new, d_head) each, turned by RoPE if the model
#   has it, where `places = model.attention_positions.places(positions, model.config.d_head)`;
# - `block.attention.attend(query, key, value, may_attend)[0]` reads, joins the heads and applies W_O;
# - `model.head(model.final_norm(x))` gives the logits.
#
# **Exercise 12.cached · ★★★ · 11 min.** Your own `remember` and `mask_after` do the rest. The check feeds it a prompt in one piece, in pieces, token
# by token, in batches, and far past the window, in models of several shapes, and compares with `model(tokens, window=window)`.

# %% name="ex-cached" tags=["exercise"] course={"exercise": "12.cached"}
class CachedGPT:
    """A GPT that continues after what it has read. cached(tokens): (batch, new) → (batch, new, vocab_size)."""

    def __init__(self, model, window):
        self.model, self.window = model, window
        self.read = 0  # tokens so far
        self.keys = [None] * len(model.blocks)
        self.values = [None] * len(model.blocks)

    @torch.no_grad()
    def __call__(self, tokens):
        raise NotImplementedError

# %% name="check-cached" tags=["check", "nbval-ignore-output"]
CachedGPT = check("12.cached", CachedGPT)

# %% [markdown] name="same-text"
# Does it change anything but the time? The shipped model, 300 characters of a play, past its context of 256: at
# once, in three pieces, one by one; and the library's cache, which does the same with a ring in place of `cat`.

# %% name="same"
from course_lib.model import cache as library

play = tokenizer.encode(read_text(built_in_file("shakespeare"))[-4000:-3700])[None]  # (1, 300)
with torch.no_grad():
    uncached = model(play, window=256)
for name, sizes in {"at once": [300], "in pieces": [7, 200, 93], "one by one": [1] * 300}.items():
    cached = CachedGPT(model, window=256)
    logits = torch.cat([cached(piece) for piece in play.split(sizes, dim=1)], dim=1)
    print(f"{name:10} equals the model without a cache: {torch.allclose(logits, uncached, atol=1e-4)}")
librarys = library.CachedGPT(model)
print("the library's too:", torch.allclose(torch.cat([librarys(t) for t in play.split(50, dim=1)], dim=1), uncached, atol=1e-4))

# %% [markdown] name="break-text"
# ## Break it
#
# Caches have two classic bugs. **Positions that start anew**: each piece believes to stand at position 0. **A mask that asks
# for the cache**: "with a cache a new token may read everything, so no mask is needed", true of one token and wrong for a piece of
# several. **Predict**, for both, which way of feeding finds them: all at once, in pieces, one by one? (We build them into the model and use
# the course's own `CachedGPT`, so that there is one bug and no other.)

# %% name="break-cache"
from contextlib import nullcontext
from unittest.mock import patch

from course_lib.exercises.lesson_12 import CachedGPT as Ours
from course_lib.model.attention import MultiHeadAttention

scheme, attend, places = model.attention_positions, MultiHeadAttention.attend, type(model.attention_positions).places
bugs = {
    "no bug": nullcontext(),
    "positions start anew": patch.object(scheme, "places", lambda at, width: places(scheme, at - at[0], width)),
    "no mask": patch.object(MultiHeadAttention, "attend", lambda self, q, k, v, *_: attend(self, q, k, v)),
}
found = {}
for bug, broken in bugs.items():
    for name, sizes in {"at once": [200], "in pieces": [7, 100, 93], "one by one": [1] * 200}.items():
        cached = Ours(model, window=256)
        with broken:
            logits = torch.cat([cached(piece) for piece in play[:, :200].split(sizes, dim=1)], dim=1)
        found[bug, name] = not torch.allclose(logits, uncached[:, :200], atol=1e-3)
    print(f"{bug:20} " + "   ".join(f"{name}: {'wrong' if found[bug, name] else 'right'}" for _, name in list(found)[-3:]))

# %% name="break-shown"
assert [name for (bug, name), wrong in found.items() if wrong and bug == "positions start anew"] == ["in pieces", "one by one"]
assert [name for (bug, name), wrong in found.items() if wrong and bug == "no mask"] == ["at once", "in pieces"]
assert not any(wrong for (bug, _), wrong in found.items() if bug == "no bug")

# %% [markdown] name="break-answer"
# Each bug hides from one way of feeding, and a program that reads the prompt at once and then goes on one by one meets both ways. So a cache is tested in all
# three. Neither bug crashes; with lost positions the model still writes, only worse.
#
# ## Past the window
#
# What should come out when the text is longer than the context? There are two ways, and they are **not the same function**:
# throw the oldest keys out of the cache, or compute the last 256 characters anew, as if nothing had been before them.

# %% name="past-window" tags=["nbval-ignore-output"]
with torch.no_grad():
    from_cache = uncached[0, -1]  # position 299, where every token looked back 256
    anew = model(play[:, -256:])[0, -1]
difference = (from_cache - anew).abs().max().item()
print(f"the logits differ by up to {difference:.3f}")

# %% name="past-window-bound"
assert 1e-3 < difference < 2, "not the same, and not by rounding"

# %% [markdown] name="past-window-answer"
# The key of token 100, in layer 2, was made from what token 100 had read, and it had read tokens that are out of sight by now. Through
# the layers a cache remembers up to layers × window tokens; whoever computes anew forgets all of it. With one layer the two are
# the same, with two no longer.
#
# Neither is wrong, but one has to say which is meant. With RoPE (or ALiBi, or no positions) ours is a **sliding window**: each token
# reads the last 256, itself included, as in one pass under a mask with a band, and that is what the cache was compared with. Learned and
# sinusoidal positions end with the context: there the library reads the last half anew, from position 0.
#
# ## The gain
#
# How much time does it save? A small untrained model with a long context (the time does not depend on what it has learned), one new
# character after n: all anew, or from the cache. **Guess** the shape of both curves, then **look for** the place where the upper one gets
# steeper than a straight line.

# %% name="gain" tags=["nbval-ignore-output"]
import time

from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT

long = GPT(GPTConfig(vocab_size=63, context_length=8192, n_layers=2, n_heads=2, d_model=64, positions="rotary")).eval()


@torch.no_grad()
def shortest(reader, tokens):
    """Milliseconds that reading these tokens takes, the shortest of three times."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        reader(tokens)
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


lengths = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
milliseconds = {"all anew": [], "from the cache": []}
for n in lengths:
    tokens = torch.randint(63, (1, n))
    milliseconds["all anew"].append(shortest(long, tokens))
    cached = library.CachedGPT(long)
    cached(tokens[:, :-4])  # what was read before
    milliseconds["from the cache"].append(shortest(cached, tokens[:, -1:]))

# %% name="gain-picture" tags=["nbval-ignore-output"]
ax = plt.subplots()[1]
for way, values in milliseconds.items():
    ax.loglog(lengths, values, marker="o", label=way)
ax.set_xlabel("characters so far")
ax.set_ylabel("milliseconds for one more")
ax.legend()
plt.show()

# %% name="gain-shown"
assert [list(line.get_ydata()) for line in ax.lines] == list(milliseconds.values())
assert milliseconds["all anew"][-1] > 5 * milliseconds["from the cache"][-1], "far apart at the end"

# %% [markdown] name="gain-answer"
# On our machine 8,192 characters took hundreds of milliseconds anew and a few from the cache. Anew, time first grows a little, then
# like n, and from about 2,000 on faster than that: there the n × n scores outweigh the n rows that go through the matrices. (The picture shows
# time, which depends on the machine; the count does not: rows computed are n against 1, scores n² against n.) The cache's line stays low but not flat:
# reading n keys takes time as well.
#
# ## The price
#
# The cache holds a key and a value for each token, in each layer, for each of the heads that have keys of their own (`kv_heads`; fewer than heads in
# [lesson 15](15_smaller_caches.ipynb)), for each text of the batch.
#
# **Exercise 12.bytes · ★ · 3 min.** In float16 a number takes two bytes.

# %% name="ex-bytes" tags=["exercise"] course={"exercise": "12.bytes"}
def cache_bytes(batch, length, n_layers, kv_heads, d_head, bytes_per_number):
    """Bytes that keys and values of a batch of texts of this length take."""
    raise NotImplementedError

# %% name="check-bytes" tags=["check", "nbval-ignore-output"]
cache_bytes = check("12.bytes", cache_bytes)

# %% name="price"
shape = {"batch": 1, "length": 4096, "n_layers": 80, "d_head": 128, "bytes_per_number": 2}
everyone = cache_bytes(kv_heads=64, **shape)  # every one of 64 heads has keys of its own
llama = cache_bytes(kv_heads=8, **shape)  # Llama-2-70B: 8 for all
print(f"64 heads with keys: {everyone / 1e9:.1f} GB = {everyone / 2**30:.1f} GiB; Llama-2-70B: {llama / 1e9:.2f} GB")

config = model.config
ours = cache_bytes(3, 256, config.n_layers, config.kv_heads, config.d_head, 4)
print(f"three texts of our model: {ours:,} bytes; allocated: {library.CachedGPT(model, batch_size=3).bytes:,}")
cached = CachedGPT(model, window=256)
cached(play.expand(3, -1))
held = sum(each.numel() * each.element_size() for each in (*cached.keys, *cached.values))
print("yours holds as many:", held == ours)

# %% [markdown] name="price-answer"
# Ten gigabytes for *one* text of 4,096 tokens, if all 64 heads of a model of that size had keys of their own; Llama-2-70B has 80 layers and 64
# heads, and to save this memory 8 key–value heads (Touvron et al. 2023). It grows with the length and with every further text, and each step has to read all of
# it. So long texts are short of memory, not of arithmetic. [Lesson 15](15_smaller_caches.ipynb) makes caches smaller.

# %% [markdown] name="practice"
# ## In practice
#
# **Prefill and decode.** The prompt goes through at once, one large product; then one row at a time. The first is bound by arithmetic, the second by
# memory: for a single row every weight is fetched, used once and dropped. Hence batches: the weights fetched serve all texts (Pope et al. 2022).
#
# **Texts of unequal length** in a batch are padded on the left, with position −1: no one may read it. The library's `generate_batch` does so.
#
# **A ring in place of `cat`.** `cat` copies everything for each token. The library allocates the window once and writes position p into slot p mod window;
# the order of keys does not matter to a softmax. Servers cut the cache into pages, as a computer does its memory (Kwon et al. 2023).
#
# **The same text?** A cache adds in another order, so logits differ in their last bits, and once in a long while another character is drawn. With
# the same seed and the same machine, the library writes the same with and without it, but for such ties.

# %% [markdown] name="recap"
# ## Recap
#
# 1. The likeliest next character, again and again, runs in circles; free drawing slips into the tail. **Temperature** sharpens or flattens, **top-k**
#    keeps k, **top-p** keeps as many as it takes to reach p.
# 2. Under the **causal mask** a token's key and value depend on nothing that comes later, so they can be kept. Without the mask every one of them changes.
# 3. A **cache** appends, takes the new tokens' positions from what was read, and masks by positions. Tested at once, in pieces, one by one, in batches and past the window.
# 4. Its two bugs, positions that start anew and a mask that asks for the cache, each hide from one way of feeding.
# 5. Its price is 2 · batch · length · layers · kv_heads · d_head · bytes: 10.7 GB for one text of 4,096 tokens in 80 layers with 64 such heads.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions, the last one with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("12")

# %% [markdown] name="sources"
# ## Sources
#
# - Holtzman et al. 2020, *The Curious Case of Neural Text Degeneration*, [arXiv 1904.09751](https://arxiv.org/abs/1904.09751): why the likeliest text is not
#   a human one, and top-p.
# - Fan, Lewis, Dauphin 2018, [arXiv 1805.04833](https://arxiv.org/abs/1805.04833): top-k, for stories.
# - Paulus, Xiong, Socher 2017, [arXiv 1705.04304](https://arxiv.org/abs/1705.04304): no repeated trigrams; Keskar et al. 2019,
#   [arXiv 1909.05858](https://arxiv.org/abs/1909.05858): a penalty on tokens that were used.
# - Pope et al. 2022, [arXiv 2211.05102](https://arxiv.org/abs/2211.05102): what decoding costs in a large model, cache and batch.
# - Kwon et al. 2023, [arXiv 2309.06180](https://arxiv.org/abs/2309.06180): the cache in pages. Touvron et al. 2023, [arXiv 2307.09288](https://arxiv.org/abs/2307.09288): Llama 2.

# %% [markdown] name="next"
# ## Next
#
# The model writes, fast. **[Lesson 13](13_look_inside.ipynb)** looks inside while it does: which head reads what, and what is lost without it.
