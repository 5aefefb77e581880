# %% [markdown] name="title"
# # Generate: choose the next character, and remember what was read
#
# Lesson 12 · [00 Start here](00_start_here.ipynb) · before: [11 Train it on a GPU](11_train_on_a_gpu.ipynb) · next: [13 Look inside](13_look_inside.ipynb)

# %% [markdown] name="goals"
# **What you will build.** The rules by which a model's next character is chosen, and a **key–value cache**, which makes
# writing several times as fast and changes nothing else. At the end both write together.
#
# **Afterwards you can**
#
# 1. say why the likeliest continuation is a bad text, and what temperature, top-k and top-p do about it;
# 2. explain which numbers of a causal model never change once computed, and why a BERT cannot keep them;
# 3. write a cache that equals the model without one: for a prompt at once, in pieces, step by step, in batches, past the window;
# 4. name two classic bugs of caches, and the ways of feeding that find them;
# 5. work out how many bytes a cache takes, for a model of any size.
#
# **What you need.** The mask of [lesson 04](04_causal_mask.ipynb), RoPE from [lesson 07](07_rotary_positions.ipynb),
# the GPT of [lesson 09](09_a_gpt_from_its_parts.ipynb). **Time:** 60 minutes, 29 of them for four exercises. A good
# place for a break: after *Write*.

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
# each character is the best one, how good is the text? And how often did Shakespeare himself write the character that
# the model thinks likeliest?

# %% name="greedy" tags=["nbval-ignore-output"]
from course_lib.data.corpora import DATA_FOLDER
from course_lib.generation import (
    Sampling,
    generate_batch,
    generate_text,
    next_token_logits,
    next_token_probabilities,
)
from course_lib.training.checkpoint import load_run

model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")


def write(prompt="ROMEO:\n", length=300, seed=0, use_cache=True, **sampling):
    """What the model writes after the prompt."""
    return "".join(generate_text(model, tokenizer, prompt, length, Sampling(**sampling), seed, use_cache=use_cache))


greedy = write(temperature=0)
print(greedy)

# %% name="greedy-loops"
from course_lib.data.corpora import built_in_file, read_text


def repeated(text, width=12):
    """The share of a text's pieces of 12 characters that stood in it before."""
    pieces = [text[i : i + width] for i in range(len(text) - width + 1)]
    return 1 - len(set(pieces)) / len(pieces)


plays = read_text(built_in_file("shakespeare"))
windows = tokenizer.encode(plays[-4096:]).view(16, 256)  # from the tenth it was not trained on
with torch.no_grad():
    likeliest = model(windows[:, :-1]).argmax(dim=-1)
first_choice = (likeliest == windows[:, 1:]).float().mean().item()
print(f"Shakespeare's next character is the model's first choice {10 * first_choice:.0f} times in 10")
assert repeated(greedy) > 0.2 and greedy.count("the strange of the strange") >= 2 and 0.46 < first_choice < 0.54

# %% [markdown] name="question-answer"
# "And then the strange of the strange of the strange": each step was the best one, and the text repeats itself. This is
# no weakness of small models alone; Holtzman et al. (2020) show it of GPT-2. Shakespeare takes the likeliest character
# only every second time: a text that never surprises says nothing. So we **sample**: draw the next character at random,
# each as often as its probability says. On paper, five characters with logits made by hand:

# %% name="tiny"
import math

letters, logits = "eatoz", [2.0, 1.0, 0.5, 0.0, -2.0]


def softmax_by_loop(scores, temperature=1.0):
    raised = [math.exp(score / temperature) for score in scores]
    return [each / sum(raised) for each in raised]


for temperature in (0.5, 1.0, 2.0):
    shares = softmax_by_loop(logits, temperature)
    print(f"temperature {temperature}: " + "  ".join(f"{c} {p:.2f}" for c, p in zip(letters, shares, strict=True)))
    by_library = next_token_probabilities(torch.tensor(logits), Sampling(temperature=temperature))
    assert torch.allclose(by_library, torch.tensor(shares, dtype=torch.float64), atol=1e-6)

# %% [markdown] name="tiny-answer"
# **Temperature** divides the logits before the softmax (the name comes from physics; lesson 03 did so to
# attention's scores). Below 1
# what is likely gets likelier; towards 0 nothing else is left, which is greedy; above 1 all draw closer.
#
# And to draw? Lay the probabilities end to end on a line from 0 to 1, choose a point, see whose stretch it is in.

# %% name="draw"
def draw(shares):
    """A place at random, each as often as its share says."""
    point, end = torch.rand(()).item(), 0.0
    for place, share in enumerate(shares):
        end += share
        if point < end:
            return place
    return max(range(len(shares)), key=lambda place: shares[place])  # rounding: the shares sum to a little less than 1


torch.manual_seed(12)
drawn = [draw(softmax_by_loop(logits)) for _ in range(2000)]
for place, share in enumerate(softmax_by_loop(logits)):
    print(f"{letters[place]}: probability {share:.2f}, drawn {drawn.count(place) / 2000:.2f}")
    assert abs(drawn.count(place) / 2000 - share) < 0.045  # four spreads of a share near a half

# %% [markdown] name="tail-text"
# Left alone, drawing has a fault of its own. Rare characters are many; each is unlikely, but one of them comes up all
# the time, and a single one spoils a word. So two rules cut off the tail and let the rest share its probability:
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

    At least one is kept. `values, order = probabilities.sort(descending=True)` gives the values and their places;
    `out[order] = values` puts them back.
    """
    raise NotImplementedError

# %% name="check-top-p" tags=["check", "nbval-ignore-output"]
top_p = check("12.top_p", top_p)

# %% [markdown] name="filters-look"
# Now the real thing: after `JULIE`, and after `JULIET:` and a line break, where nearly anything may follow. Green
# lines say where top-k = 5 and top-p = 0.9 cut. **Look for** the line that stays where it is, and for what the two
# temperatures do to the small bars (the axis is logarithmic: each line is a factor of ten).

# %% name="filters-picture"
from course_lib.plots import visible

figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained", sharey=True)
left = {}
for ax, prompt in zip(axes, ("JULIE", "JULIET:\n"), strict=True):
    logits = next_token_logits(model, tokenizer.encode(prompt))
    shares, order = next_token_probabilities(logits, Sampling()).sort(descending=True)
    ax.bar(range(20), shares[:20], color="lightgray", label="temperature 1")
    for temperature, colour in {0.5: "tab:blue", 2.0: "tab:red"}.items():
        others = next_token_probabilities(logits, Sampling(temperature=temperature))[order]
        ax.plot(range(20), others[:20], ".", color=colour, label=f"temperature {temperature}")
    for name, rule, style in (("top-k = 5", {"top_k": 5}, ":"), ("top-p = 0.9", {"top_p": 0.9}, "--")):
        left[prompt, name] = int((next_token_probabilities(logits, Sampling(**rule)) > 0).sum())
        ax.axvline(left[prompt, name] - 0.5, color="tab:green", linestyle=style, label=name)
    labels = [visible(tokenizer.decode([token])) for token in order[:20]]
    ax.set_xticks(range(20), labels, parse_math=False)
    ax.set_title(f"after “{visible(prompt)}”", fontsize=10, parse_math=False)
axes[0].set(yscale="log", ylim=(1e-6, 2), ylabel="probability")
axes[0].legend(fontsize=8)
plt.show()

# %% name="filters-shown"
for (prompt, name), count in left.items():
    print(f"after {prompt!r}, {name}: {count} of {tokenizer.vocab_size} characters are left")
assert left["JULIE", "top-p = 0.9"] <= 2 < 5 < left["JULIET:\n", "top-p = 0.9"]
assert [patch.get_height() for patch in axes[1].patches] == shares[:20].tolist()
assert [line.get_xdata()[0] for line in axes[1].lines[2:]] == [4.5, left["JULIET:\n", "top-p = 0.9"] - 0.5]

with torch.no_grad():
    nucleus = next_token_probabilities(model(windows), Sampling(top_p=0.9))  # (16, 256, vocab_size)
    everything = next_token_probabilities(model(windows), Sampling())
cut = (everything * (nucleus == 0)).sum(dim=-1).mean().item()
print(f"over 4,096 characters of the plays, top-p = 0.9 cuts off {cut:.2f} of the probability")
assert 0.06 < cut < 0.08

# %% [markdown] name="filters-answer"
# Top-k keeps five, whether one character is nearly certain or twenty are possible. Top-p keeps as many as it takes; what
# it cuts off in these plays would be drawn about once in fifteen characters, which is once in three words.
#
# Rules can be combined. The library's order is temperature, then top-k, then top-p, each on what the one before has
# left; other programs apply temperature last, so that the same settings keep other characters.
#
# **Play.** Move the sliders; they act on the next character. Type `JULIE` as the prompt: how hot must it be for anything
# but T to follow? Which settings write verse that you would keep?

# %% name="playground"
from course_lib.explorers.sampling_explorer import SamplingPlayground

SamplingPlayground(model, tokenizer, "JULIET:\n", top_p=0.9, seed=1)

# %% [markdown] name="faults-text"
# What do the rules do to a text? We count two faults: words that are in none of the plays, and pieces that stood there
# before. Eight texts each, so that we see the spread; greedy draws nothing and has one text.

# %% name="faults" tags=["nbval-ignore-output"]
import re

known_words = set(re.findall("[a-z]+", plays.lower()))


def unknown(text):
    """The share of a text's words that are in none of the plays; the last one is cut off and does not count."""
    words = re.findall("[a-z]+", text.lower())[:-1]
    return sum(word not in known_words for word in words) / len(words)


rules = {"greedy": {"temperature": 0}, "temperature 0.5": {"temperature": 0.5}, "top-k 5": {"top_k": 5},
         "top-p 0.9": {"top_p": 0.9}, "free": {}, "temperature 1.5": {"temperature": 1.5}}  # fmt: skip
faults = {}
for name, rule in rules.items():
    generators = [torch.Generator().manual_seed(seed) for seed in range(1 if name == "greedy" else 8)]
    prompts = [tokenizer.encode("ROMEO:\n")] * len(generators)  # all at once
    steps = list(generate_batch(model, prompts, 300, Sampling(**rule), generators))
    texts = [tokenizer.decode(tokens) for tokens in torch.stack(steps, dim=1)]
    faults[name] = [torch.tensor([fault(text) for text in texts]) for fault in (unknown, repeated)]
    print(f"{name:16}" + "".join(f"  {what} {each.mean():4.0%} ± {each.std(correction=0):3.0%}"
          for what, each in zip(("unknown words", "repeated"), faults[name], strict=True)))  # fmt: skip

# %% name="faults-bounds"
mean = {name: [each.mean().item() for each in both] for name, both in faults.items()}
assert mean["greedy"][1] > 0.2 > 0.05 > mean["top-p 0.9"][1]
assert mean["temperature 1.5"][0] > 0.2 > 0.12 > mean["top-p 0.9"][0]
assert mean["free"][0] > 2 * mean["top-p 0.9"][0] > mean["greedy"][0]

# %% [markdown] name="faults-answer"
# Cutting off the tail leaves less than half of the unknown words of free drawing, well outside the spread. Among
# temperature 0.5, top-k and top-p the spread decides nothing: between the circle and the noise there is a wide middle,
# and no best point in it. It depends on whether you want the next line of verse or the next line of a program.
# (Counting faults says nothing about sense. Texts are judged by reading.)
#
# **Against repetition** there are rules of their own. One forbids what would repeat a piece of n tokens (Paulus et al.
# 2017). Another lowers the scores of all tokens used so far (Keskar et al. 2019); made for words, it **penalises** a
# letter for having been there. **Guess** what each does to greedy's circle.

# %% name="no-repeats" tags=["nbval-ignore-output"]
def greedy_but(length, width=None, penalty=1.0):
    """Greedy, without a piece of `width` characters twice; scores of used characters lowered by a factor."""
    tokens = tokenizer.encode("ROMEO:\n").tolist()
    for _ in range(length):
        logits = next_token_logits(model, torch.tensor(tokens))
        used = sorted(set(tokens[7:]))
        logits[used] = torch.where(logits[used] > 0, logits[used] / penalty, logits[used] * penalty)
        for i in range(len(tokens) - width + 1 if width else 0):
            if tokens[i : i + width - 1] == tokens[1 - width :]:
                logits[tokens[i + width - 1]] = -math.inf  # it would complete a piece that is there
        tokens.append(int(logits.argmax()))
    return tokenizer.decode(tokens[7:])


unrepeated, penalised = greedy_but(160, width=8), greedy_but(160, penalty=1.5)
print(unrepeated, penalised, sep="\n\n--- the penalty ---\n\n")

# %% name="no-repeats-holds"
assert repeated(unrepeated, width=8) == 0 and len(unrepeated) == 160
assert repeated(penalised) > 0.02 and len(set(penalised)) > len(set(greedy[:160]))

# %% [markdown] name="cost-text"
# The first leaves no circle, and yet no freedom. The penalty soon loses its grip: after two lines nearly every letter
# has been used, and all are lowered alike; only signs that are new, such as the `;`, gain by it. Sampling does better.
#
# ## The waste
#
# Look at what `greedy_but` does for one more character: it runs the whole model over the *whole* text so far, to use a
# single row of the result. For n characters that makes 1 + 2 + … + n = n(n+1)/2 rows computed, and n used. What of all
# this is new? We take one text, and the same with a character more, and compare each token's key. **Predict** how many
# of the old ones have changed, in layer 0 (the first) and in layer 2: in our GPT, and in one whose mask we take away.

# %% name="what-changes"
from course_lib.model.attention import attention, causal_mask

text = tokenizer.encode("The animal did not cross the road")


@torch.no_grad()
def keys_of(layer, tokens, causal):
    """Keys (position, d_model) of a layer, counted from 0, for tokens (position,)."""
    positions = torch.arange(len(tokens))
    may_attend = causal_mask(positions, positions) if causal else torch.ones(len(tokens), len(tokens), dtype=torch.bool)
    x = model.embed(tokens[None], positions)
    for block in model.blocks[:layer]:
        x, _ = block(x, positions, may_attend)
    block = model.blocks[layer]
    return block.attention.key(block.attention_norm(x))[0]


for layer, causal in ((0, True), (2, True), (0, False), (2, False)):
    change = keys_of(layer, text, causal)[:-1] - keys_of(layer, text[:-1], causal)
    changed = int((change.abs().amax(dim=-1) > 1e-4).sum())  # smaller is rounding
    kind = "causal " if causal else "no mask"
    print(f"{kind}, layer {layer}: {changed} of the {len(text) - 1} old keys have changed")
    assert changed == (len(text) - 1 if layer and not causal else 0)

# %% [markdown] name="formula"
# In layer 0 none, mask or not: its keys are made of each token alone. In layer 2 none with the mask, and all without.
# (None by more than 0.0001; sums in another order differ in their last digits.) Under the causal mask a token depends
# on itself and on what stands before it, so once its key and value are computed, in any layer, they are final. A BERT
# cannot keep them: a new token changes all the others.
#
# So we keep them: this is the **key–value cache** (KV cache). A new token is taken through the layers alone; in each it
# makes its query, its key and its value, lays key and value after the kept ones, and reads:
#
# $$o_t = \mathrm{softmax}\!\left(\frac{q_t K_{\le t}^\top}{\sqrt{d_k}}\right) V_{\le t}, \qquad
# K_{\le t} = \begin{bmatrix} K_{<t} \\ k_t \end{bmatrix}, \quad V_{\le t} = \begin{bmatrix} V_{<t} \\ v_t \end{bmatrix}$$
#
# | symbol | in code | shape | is |
# |---|---|---|---|
# | $t$ | `read` | | tokens read so far: the position of the next one |
# | $q_t, k_t, v_t$ | `query`, `key`, `value` | (batch, head, new, d_head) | made of the new tokens alone |
# | $K_{<t}, V_{<t}$ | `self.keys`, `self.values` | (batch, head, held, d_head) | what the cache holds |
#
# **Why not keep queries?** A query is used once, by its own token. Nobody ever asks for it again.
#
# **Look for** the one dark row on the left: all that a new token costs. The pale rows were computed when their tokens
# came. On the right three come at once, and a token reads the last five, itself included (attention's **window**; lesson 10's windows
# were pieces of text), so five are
# held: which has been forgotten, and why is there a staircase?

# %% name="cache-picture"
from course_lib.plots import heatmap

words, twin = ["The", "animal", "did", "not", "cross", "the", "road"], "那只动物没有过马路"
rows = 0.25 * causal_mask(torch.arange(7), torch.arange(7)).float()
rows[-1] = 1.0
piece = causal_mask(torch.arange(6, 9), torch.arange(1, 9), window=5)  # 6 read, 5 of them held, 3 new
figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
heatmap(rows, words, ax=axes[0], title="“road” is new: one row, six kept columns")
heatmap(piece.float(), list(twin[6:]), list(twin[1:]), ax=axes[1], title="过马路 are new, window 5")
axes[0].axvline(5.5, color="tab:red")
axes[1].axvline(4.5, color="tab:red")
plt.show()

# %% [markdown] name="tiny-cache-text"
# Left of the red line is what the cache holds. 那 is gone, and 只 is held for nobody: one key fewer would do. Each later
# character sees one more, and loses one. **On paper**: four tokens, queries, keys and values of two numbers. The
# fourth comes when three are kept. Its products with the keys are 2, 2, 3 and 1: which value will it mostly read?

# %% name="tiny-cache"
Q = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
K = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.0, -1.0]])
V = torch.tensor([[4.0, 0.0], [0.0, 4.0], [2.0, 2.0], [8.0, 0.0]])

kept_keys, kept_values = K[:3].tolist(), V[:3].tolist()  # after three tokens
kept_keys.append(K[3].tolist())  # the fourth brings its own
kept_values.append(V[3].tolist())
scores = [sum(q * k for q, k in zip(Q[3].tolist(), key, strict=True)) / math.sqrt(2) for key in kept_keys]
weights = softmax_by_loop(scores)
by_loop = [sum(w * value[i] for w, value in zip(weights, kept_values, strict=True)) for i in range(2)]

one_row = torch.softmax(Q[3:] @ K.T / math.sqrt(2), dim=-1) @ V  # (1, 2): a matrix of one row
whole, _ = attention(Q, K, V, causal_mask(torch.arange(4), torch.arange(4)))  # (4, 2): the library, all anew
print("weights:", [round(w, 2) for w in weights], " gathered:", [round(x, 2) for x in by_loop])
print("loop = one row:", torch.allclose(torch.tensor(by_loop), one_row[0]), " one row = row 4 of the whole:",
      torch.allclose(one_row[0], whole[3]))  # fmt: skip
assert piece.int().tolist() == [[0, 1, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1, 1]]

# %% [markdown] name="ex-mask-text"
# If several tokens come at once, a prompt say, they must not read one another's future. The square triangle of lesson 04
# will not do: 3 new queries may meet 8 keys, as in the picture. What counts is **positions**: a query at position m may
# read a key at position n if n ≤ m, and, with a window, if m − n < window.
#
# **Exercise 12.mask · ★★ · 4 min.** `read` tokens were read before, `held` of them are still there (the last ones), and
# `new` tokens follow. The picture on the right is `mask_after(6, 5, 3, 5)`.

# %% name="ex-mask" tags=["exercise"] course={"exercise": "12.mask"}
def mask_after(read, held, new, window):
    """Who may attend to whom: (new, held + new), bool, True = may attend.

    Rows: the new tokens, at positions read, read + 1, …; columns: the held ones, then the new ones.
    """
    raise NotImplementedError

# %% name="check-mask" tags=["check", "nbval-ignore-output"]
mask_after = check("12.mask", mask_after)

# %% [markdown] name="ex-cached-text"
# Now a whole GPT that remembers. You know from lessons 08 and 09 how it goes through its blocks:
# `x + attention(attention_norm(x))`, then `x + feed_forward(feed_forward_norm(x))`, at last
# `model.head(model.final_norm(x))`. The library's GPT opens where the cache has to step in; these four are **new**:
#
# - `model.embed(tokens, positions)`: tokens (batch, new) and their positions (new,) → (batch, new, d_model);
# - `places = model.attention_positions.places(positions, model.config.d_head)`: RoPE's angles for these positions, once
#   for all layers;
# - `query, key, value = block.attention.project(x, places)`: (batch, head, new, d_head) each, turned already;
# - `block.attention.attend(query, key, value, may_attend)[0]`: reads, joins the heads and applies W_O.
#
# In between, lay the new keys and values after the layer's kept ones (axis 2 are the positions). And when the text
# outgrows the window, keep the last `window` of them. Mind the order: the mask has a column for *every* held and new
# key, so **read first, forget afterwards**. (ALiBi is left out; the library's cache adds its bias to the scores.
# `kv_head` in the docstring: heads with keys of their own; here each has.)
#
# **Exercise 12.cached · ★★★ · 15 min.** The check feeds it a prompt in one piece, in pieces, token by token, in batches,
# and far past the window, in models of several shapes, and compares with `model(tokens, window=window)`. It also counts
# what went through the layers, and what is kept.

# %% name="ex-cached" tags=["exercise"] course={"exercise": "12.cached"}
class CachedGPT:
    """A GPT that continues after what it has read. cached(tokens): (batch, new) → (batch, new, vocab_size).

    self.keys[layer] and self.values[layer]: None before anything was read, then
    (batch, kv_head, held, d_head), of the last `window` tokens at most.
    """

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
# Does it change anything but the time? The shipped model, two texts of 300 characters, past its context of 256: at once,
# in three pieces, one by one; and the library's cache, which does the same with a ring in place of `cat`.

# %% name="same"
from course_lib.model import cache as library

play = tokenizer.encode(plays[-4000:-3400]).view(2, 300)
with torch.no_grad():
    uncached = model(play, window=256)
for name, sizes in {"at once": [300], "in pieces": [7, 200, 93], "one by one": [1] * 300}.items():
    cached = CachedGPT(model, window=256)
    logits = torch.cat([cached(piece) for piece in play.split(sizes, dim=1)], dim=1)
    print(f"{name:10} equals the model without a cache: {torch.allclose(logits, uncached, atol=1e-4)}")
librarys = library.CachedGPT(model, batch_size=2)
pieces = [librarys(piece) for piece in play.split(50, dim=1)]
print("the library's does:", torch.allclose(torch.cat(pieces, dim=1), uncached, atol=1e-4))

# %% [markdown] name="summit-text"
# ## Write
#
# Everything is there: **your** cache reads, temperature and **your** top-p decide what may follow, `draw` draws, and
# only the new character goes in again. The running sentence for Shakespeare; its Chinese twin for the Tang model,
# without its 它, "it", a character that the poets of its corpus never used.

# %% name="summit" tags=["nbval-ignore-output"]
def my_text(model, tokenizer, prompt, length, temperature=0.8, p=0.9):
    """What your cache and your top_p write after the prompt."""
    cached, text = CachedGPT(model, window=model.config.context_length), ""
    tokens = tokenizer.encode(prompt)[None]  # (1, position): the prompt at once
    for _ in range(length):
        logits = cached(tokens)[0, -1]  # (vocab_size,): the last token's
        shares = top_p((logits / temperature).softmax(dim=-1), p)
        tokens = torch.tensor([[draw(shares.tolist())]])  # (1, 1): the new one alone
        text += tokenizer.decode(tokens[0])
    return text


torch.manual_seed(1)
poet, characters, _ = load_run(DATA_FOLDER / "checkpoints" / "tang")
english, chinese = "The animal did not cross the road because it was too ", "那只动物没有过马路，因为太累了。"
verse = my_text(model, tokenizer, english, 240)
poem = my_text(poet, characters, chinese, 60)
print(english + verse, chinese + poem, sep="\n\n--- Tang ---\n\n")

# %% name="summit-holds"
assert len(verse) == 240 and set(verse) <= set(tokenizer.vocabulary) and unknown(verse) < 0.3
assert len(poem) == 60 and set(poem) <= set(characters.vocabulary) and "它" not in characters.vocabulary

# %% [markdown] name="break-text"
# ## Break it
#
# Caches have two classic bugs. **Positions that start anew**: each piece believes to stand at position 0. **A mask
# that asks for the cache**: "with a cache a new token may read everything, so no mask is needed", true of one token
# and wrong for a piece of several. We add a third: programs often have a path of their own for one token, because that
# is the frequent case, and there we leave out the newest key. **Predict** which way of feeding finds which: all at
# once, in pieces, one by one? (We build them into the model and use the course's own `CachedGPT`, so that there is one
# bug and no other.)

# %% name="break-cache"
from contextlib import nullcontext
from unittest.mock import patch

from course_lib.exercises.lesson_12 import CachedGPT as Ours
from course_lib.model.attention import MultiHeadAttention

scheme, attend, places = model.attention_positions, MultiHeadAttention.attend, type(model.attention_positions).places


def one_off(self, q, k, v, mask):
    alone = q.shape[2] == 1 and k.shape[2] > 1
    return attend(self, q, k[:, :, :-1], v[:, :, :-1]) if alone else attend(self, q, k, v, mask)


bugs = {
    "no bug": nullcontext(),
    "positions start anew": patch.object(scheme, "places", lambda at, width: places(scheme, at - at[0], width)),
    "no mask": patch.object(MultiHeadAttention, "attend", lambda self, q, k, v, *_: attend(self, q, k, v)),
    "one key short": patch.object(MultiHeadAttention, "attend", one_off),
}
ways, losses = {"at once": [200], "in pieces": [7, 100, 93], "one by one": [1] * 200}, {}

# %% name="break-shown"
from torch.nn.functional import cross_entropy

found = {bug: [] for bug in bugs}
for bug, broken in bugs.items():
    for way, sizes in ways.items():
        cached = Ours(model, window=256)
        with broken:
            logits = torch.cat([cached(piece) for piece in play[:1, :200].split(sizes, dim=1)], dim=1)
        losses[bug, way] = cross_entropy(logits[0, :-1], play[0, 1:200]).item()
        if not torch.allclose(logits, uncached[:1, :200], atol=1e-3):
            found[bug].append(way)
    print(f"{bug:20} is found {' and '.join(found[bug]) or 'nowhere'}; loss one by one {losses[bug, 'one by one']:.1f}")
assert found["positions start anew"] == ["in pieces", "one by one"] and found["no mask"] == ["at once", "in pieces"]
assert found["one key short"] == ["one by one"] and not found["no bug"]
assert losses["positions start anew", "one by one"] > losses["no bug", "one by one"] + 0.3

# %% [markdown] name="break-answer"
# No way of feeding finds all three. So a cache is tested in each. And nothing crashes: with lost positions the
# model still predicts, and its loss tells, 3.6 in place of 1.5 (guessing blindly would cost ln 63 = 4.1); with one key
# short it is 1.6, which nobody would notice in a text.
#
# ## Past the window
#
# What should come out when the text is longer than the context? There are two ways: throw the oldest keys out of the
# cache, or compute the last 256 characters anew, as if nothing had been before them. Are they the same function? We ask
# for the logits after character 300, with the first layer of our model alone, with two, with all four.

# %% name="past-window"
import copy

for layers in (1, 2, 4):
    shallow = copy.deepcopy(model)
    shallow.blocks = shallow.blocks[:layers]
    with torch.no_grad():
        sliding = shallow(play, window=256)[:, -1]  # each token looks back 256
        anew = shallow(play[:, -256:])[:, -1]
    difference = (sliding - anew).abs().max().item()
    print(f"{layers} layer(s): the same logits: {difference < 1e-4}")
    assert difference < 1e-4 if layers == 1 else 1e-3 < difference < 3

# %% [markdown] name="past-window-answer"
# With one layer they are, with more they are not. In layer 1, the second, the key of token 100 was made from what token
# 100 had read, and part of that is out of sight by now. Layer by layer a cache reaches back further,
# layers · (window − 1) + 1 tokens in all; whoever computes anew forgets what lies beyond the window.
#
# Neither is wrong, but one has to say which is meant. With RoPE (or ALiBi, or no positions) ours is a **sliding
# window**: each token reads the last 256, itself included, and with that the cache was compared. Learned and
# sinusoidal positions end with the context: there the library reads the last half anew, from position 0.
#
# ## The gain
#
# **Guess** how much sooner 240 characters are written.

# %% name="twice" tags=["nbval-ignore-output"]
import time

twice = {}
for use_cache in (True, False):
    start = time.perf_counter()
    twice[use_cache] = write(length=240, use_cache=use_cache)
    print(f"{'with' if use_cache else 'without'} the cache: {time.perf_counter() - start:.1f} seconds")

# %% [markdown] name="count-text"
# The same text, sooner. How does the gain grow? We count multiplications, which depend on no machine. A row costs
# 12·d² in the matrices of a layer (lesson 08), and each pair of a query and a key that it may read costs d for the
# score and d for the mixing. (Code that computes the hidden pairs too, and throws them away, has twice as many.)

# %% name="count"
def multiplications(new, n, d=64, layers=2):
    """Of the last `new` of n tokens: in the matrices, and between queries and keys."""
    pairs = sum(range(n - new + 1, n + 1))
    return layers * 12 * d**2 * new, layers * 2 * d * pairs


for n in (64, 767, 8192):
    for way, new in (("all anew", n), ("from the cache", 1)):
        matrices, pairs = multiplications(new, n)
        print(f"{n:5,} characters, {way:14}: matrices {matrices:13,}, pairs {pairs:13,}")
assert twice[True] == twice[False], "with the cache or without, the same text"
assert multiplications(767, 767)[0] == multiplications(767, 767)[1]  # d·n(n+1) = 12·d²·n where n + 1 = 12·d

# %% [markdown] name="gain-text"
# Anew, the matrices' part grows like n and the pairs' part like n²; from 767 characters on the pairs outweigh. From
# the cache, one part is constant and the other grows like n. Now time: a small untrained model with a long context
# (its speed does not depend on what it has learned), one new character after n. Both axes are logarithmic, so the gray
# guides, which grow like n and like n², are both straight. **Look for** the place where the upper curve leaves the one
# for the other.

# %% name="gain" tags=["nbval-ignore-output"]
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT


def milliseconds(work):
    """The shortest of three times, after one to warm up."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return min(times[1:])


long = GPT(GPTConfig(vocab_size=63, context_length=8192, n_layers=2, n_heads=2, d_model=64, positions="rotary")).eval()
lengths = [64, 128, 256, 512, 1024, 2048, 4096, 8192]
taken = {"all anew": [], "from the cache": []}
for n in lengths:
    tokens = torch.randint(63, (1, n))
    cached = library.CachedGPT(long)
    cached(tokens[:, :-4])  # what was read before: the four tries read the rest
    with torch.no_grad():
        taken["all anew"].append(milliseconds(lambda tokens=tokens: long(tokens)))
        taken["from the cache"].append(milliseconds(lambda cached=cached, last=tokens[:, -1:]: cached(last)))

# %% name="gain-picture" tags=["nbval-ignore-output"]
ax = plt.subplots(layout="constrained")[1]
for way, values in taken.items():
    ax.loglog(lengths, values, marker="o", label=way)
for power, at, style in ((1, 4, ":"), (2, -1, "--")):  # through the time for 1,024, and through the last
    guide = [taken["all anew"][at] * (n / lengths[at]) ** power for n in lengths]
    ax.loglog(lengths, guide, style, color="gray", label="like n" if power == 1 else "like n²")
ax.set(xlabel="characters so far (log scale)", ylabel="milliseconds for one more (log scale)")
ax.set_ylim(bottom=0.5 * min(taken["from the cache"]))
ax.legend()
plt.show()

# %% name="gain-shown"
assert [list(line.get_ydata()) for line in ax.lines[:2]] == list(taken.values())
assert taken["all anew"][-1] > 5 * taken["from the cache"][-1], "far apart at the end"

# %% [markdown] name="gain-answer"
# The upper curve starts no steeper than n (a pass has costs that do not depend on n) and ends steeper, on its way to
# n². The cache's stays low, but it is not constant: reading n keys takes time as well.
#
# ## The price
#
# The cache holds a key and a value for each token, in each layer, for each of the heads that have keys of their own
# (`kv_heads`; fewer than heads in [lesson 15](15_smaller_caches.ipynb)), for each text of the batch.
#
# **Exercise 12.bytes · ★ · 3 min.** In float16 a number takes two bytes.

# %% name="ex-bytes" tags=["exercise"] course={"exercise": "12.bytes"}
def cache_bytes(batch, length, n_layers, kv_heads, d_head, bytes_per_number):
    """Bytes that keys and values of a batch of texts of this length take."""
    raise NotImplementedError

# %% name="check-bytes" tags=["check", "nbval-ignore-output"]
cache_bytes = check("12.bytes", cache_bytes)

# %% name="price"
from course_lib.model.model_cards import card_of

card = card_of("Llama-2-70B")
shape = {"batch": 1, "length": 4096, "n_layers": card.n_layers, "d_head": card.d_head, "bytes_per_number": 2}
everyone = cache_bytes(kv_heads=card.n_heads, **shape)  # each of its 64 heads with keys of its own
llama = cache_bytes(kv_heads=card.n_kv_heads, **shape)  # as it is: 8 for all
assert (card.n_layers, card.n_heads, card.n_kv_heads, everyone) == (80, 64, 8, 10_737_418_240)
print(f"64 heads with keys: {everyone / 1e9:.1f} GB = {everyone / 2**30:.1f} GiB; Llama-2-70B: {llama / 1e9:.2f} GB")

config = model.config
ours = cache_bytes(2, 256, config.n_layers, config.kv_heads, config.d_head, 4)
print(f"two texts of our model: {ours:,} bytes; the library allocates {librarys.bytes:,}")
cached = CachedGPT(model, window=256)
cached(play)
print("yours holds no more:", sum(each.nbytes for each in (*cached.keys, *cached.values)) <= ours)

# %% [markdown] name="price-answer"
# Ten gigabytes for *one* text of 4,096 tokens, if all 64 heads of a model of that size had keys of their own.
# Llama-2-70B has 80 layers and 64 heads (so its released `config.json`) and, to save this memory, 8 key–value heads
# (Touvron et al. 2023). The cache grows with the length and with every further text, and each step has to read all of
# it. [Lesson 15](15_smaller_caches.ipynb) makes caches smaller.

# %% [markdown] name="practice"
# ## In practice
#
# A server's day has two parts. In the **prefill** a prompt goes through at once, one large product, and arithmetic is
# the limit. In the **decode** one row follows another, and memory is: every weight is fetched, used once and dropped.
# Hence many servers work on batches, in which the weights fetched serve all texts (Pope et al. 2022).
#
# But texts in a batch have unequal lengths. The library's `generate_batch` pads them on the left, with position −1,
# which no one may read: one more thing that a mask made of positions gets for nothing. And `cat` would copy everything
# for each token, so the library allocates the window once, as a **ring**: position p goes into slot p mod window, and
# the order of keys does not matter to a softmax. Larger servers cut the cache into pages, as a computer does its
# memory (Kwon et al. 2023).
#
# All this adds numbers in another order, so logits differ in their last bits, and once in a long while, where two
# characters are all but tied, another one is drawn. But for such ties the library writes, with one seed on one
# machine, the same text with the cache and without it.

# %% [markdown] name="recap"
# ## Recap
#
# 1. The likeliest next character, again and again, repeats itself; free drawing slips into the tail. **Temperature**
#    sharpens or flattens, **top-k** keeps k, **top-p** keeps as many as it takes to reach p.
# 2. Under the **causal mask** a token's key and value depend on nothing that comes later, so they can be kept. In a BERT
#    all of them change with each new token, but for the first layer's.
# 3. A **cache** appends, takes the new tokens' positions from what was read, masks by positions, reads, and forgets last.
# 4. Two classic bugs are positions that start anew and a mask that asks for the cache. Feeding at once, in pieces and one
#    by one: no single way finds every bug.
# 5. Its price is 2 · batch · length · layers · kv_heads · d_head · bytes: 10.7 GB for one text of 4,096 tokens in 80
#    layers with 64 such heads.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions, the last one with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("12")

# %% [markdown] name="sources"
# ## Sources
#
# - Holtzman et al. 2020, *The Curious Case of Neural Text Degeneration*, [arXiv 1904.09751](https://arxiv.org/abs/1904.09751):
#   why the likeliest text is not a human one, and top-p.
# - Fan, Lewis, Dauphin 2018, [arXiv 1805.04833](https://arxiv.org/abs/1805.04833): top-k, for stories.
# - Paulus, Xiong, Socher 2017, [arXiv 1705.04304](https://arxiv.org/abs/1705.04304): no repeated trigrams; Keskar et al.
#   2019, [arXiv 1909.05858](https://arxiv.org/abs/1909.05858): a penalty on tokens that were used.
# - Pope et al. 2022, [arXiv 2211.05102](https://arxiv.org/abs/2211.05102): what decoding costs in a large model, cache and batch.
# - Kwon et al. 2023, [arXiv 2309.06180](https://arxiv.org/abs/2309.06180): the cache in pages. Touvron et al. 2023,
#   [arXiv 2307.09288](https://arxiv.org/abs/2307.09288): Llama 2; its numbers of layers and heads stand in the released `config.json`.

# %% [markdown] name="next"
# ## Next
#
# The model writes, fast. **[Lesson 13](13_look_inside.ipynb)** looks inside while it does: which head reads what, and
# what is lost without it.
