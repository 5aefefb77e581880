# %% [markdown] name="title"
# # Many experts, few at work: a mixture of experts, and your own project
#
# Lesson 16 · [00 Start here](00_start_here.ipynb) · before: [15 Smaller caches](15_smaller_caches.ipynb) · next: [17 Field guide](17_field_guide.ipynb)

# %% [markdown] name="goals"
# **What you will build.** A layer that has eight times the parameters of a feed-forward layer at twice its
# arithmetic; the loss and the limit that keep it working; and, last of all, a story of your own about a head.
#
# **Afterwards you can**
#
# 1. route tokens to experts, and say which numbers give a gate and why;
# 2. count total and active parameters;
# 3. see routing collapse by load and dead experts, and cure it with a balancing loss;
# 4. say what a capacity drops, and what it costs to move tokens between devices;
# 5. show in-context learning on a model of your own, and tell it from a model that has none;
# 6. make a claim about a head that survives a measurement.
#
# **What you need.** The feed-forward layer of [lesson 08](08_the_block.ipynb), the loop of [lesson
# 10](10_train_it.ipynb), and from [lesson 13](13_look_inside.ipynb) head scores, ablation and the induction model.
# **Time:** 60 minutes, 27 of them for five exercises. Your own capstone comes after that hour: 15 minutes at the
# least, or a weekend. If you want it within the hour, skip 16.mix and 16.capacity (12 minutes): their checks hand you
# the course's answers, and everything below goes on.

# %% name="setup"
import torch
from matplotlib import pyplot as plt
from torch import nn

from course_lib.exercises import check, hint, mine, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("16")

# %% [markdown] name="question"
# ## Sixteen experts, and one does the work
#
# Two thirds of a layer's parameters sit in its feed-forward layer (lesson 08), and every token passes through all of
# them: a comma as well as a rare name. What if there were sixteen such layers side by side, the **experts**, and a
# **router** sent each token to one of them? Such a layer, a **mixture of experts** (MoE), has sixteen times the
# parameters and hardly more arithmetic than one. The library's GPT can be built so. We train a small one on
# Shakespeare for 60 steps and ask how the tokens are shared out: an expert's **load** is its share of them. (Two
# settings are chosen so that a fault shows within seconds: the routers' vectors are drawn larger than usual, from
# N(0, 1), so that choices are clear from the start; and the training is fast and unguarded, with a high rate from the
# first step, no warm-up and no clipping.)

# %% name="newborn"
import math

from course_lib.data.corpora import load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.experts import routings_of
from course_lib.model.gpt import GPT, evaluating

corpus = load_corpus("shakespeare")
windows = corpus.validation[:3200].view(100, 32)  # (batch, position)


def newborn(balance_weight=0.0, seed=0, **changes):
    """A small GPT with 16 experts in each layer; each token goes through one."""
    shape = {"context_length": 32, "n_layers": 2, "d_model": 64, "n_heads": 2} | changes
    torch.manual_seed(seed)
    experts = {"n_experts": 16, "experts_per_token": 1, "balance_weight": balance_weight}
    model = GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **shape, **experts))
    for block in model.blocks:
        nn.init.normal_(block.feed_forward.router.scores.weight)
    return model

# %% name="train"
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Trainer

SETTINGS = {"batch_size": 16, "learning_rate": 3e-3, "minimum_rate": 3e-3, "warmup_steps": 0}
SETTINGS |= {"beta2": 0.999, "weight_decay": 0.0, "gradient_clip": math.inf}


def routings(model):
    """What each layer's router decides about the 3,200 tokens of the windows."""
    with evaluating(model), routings_of(model) as seen:
        model(windows)
    return seen


def sorted_loads(model):
    return torch.stack([r.load.sort(descending=True).values for r in routings(model)])  # (layer, expert)


def train(model, steps):
    """Loads (layer, expert), largest first, by how many steps were done."""
    recipe = TrainingConfig(steps=steps, evaluate_every=steps, **SETTINGS)
    loads = {0: sorted_loads(model)}
    for record in Trainer(model, corpus.train, corpus.validation[:3201], recipe).run():
        if record.step in (5, 20, steps):
            loads[record.step] = sorted_loads(model)
    return loads

# %% [markdown] name="collapse-look"
# **Predict**, then **look for** two things: how many bars reach the dotted line of a fair share before the first
# step, and how many after five.

# %% name="collapse"
collapsed = newborn()
loads = train(collapsed, 60)


def draw(loads):
    axes = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")[1]
    for layer, ax in enumerate(axes):
        for offset, (steps, load) in enumerate(loads.items()):
            ax.bar(torch.arange(16) + 0.22 * offset, load[layer], width=0.22, label=f"{steps} steps")
        ax.axhline(1 / 16, color="gray", linestyle=":")
        ax.set_xlabel("expert, by its load")
        ax.set_title(f"layer {layer}")
    axes[0].set_ylabel("share of the tokens")
    axes[1].legend()
    return axes


axes = draw(loads)
plt.show()

# %% name="collapse-shown"
heights = [[bar.get_height() for bar in bars] for bars in axes[1].containers]  # (steps, expert)
assert heights[0] == loads[0][1].tolist() and max(heights[0]) < 0.25
assert loads[5].amax(dim=1).min() > 0.7 and (loads[60].amax(dim=1) > 0.3).all()
dead = {steps: (load < 0.1 / 16).sum(dim=1) for steps, load in loads.items()}  # (layer,)
reach = {steps: (load >= 1 / 16).sum(dim=1).tolist() for steps, load in loads.items()}  # the dotted line
assert min(reach[0]) >= 5 and max(reach[5]) <= 3
assert (dead[0] <= 1).all() and (dead[5] >= 10).all() and (dead[60] >= 5).all()

# %% [markdown] name="collapse-answer"
# Before the first step no expert is idle, and five in layer 0 and nine in layer 1 have their fair share or more. Five
# steps later one or two have: a single expert takes nearly all tokens, in both layers, and more than ten are
# **dead**: they get less than a tenth of a fair share. This is **routing collapse**. At 60 steps it is milder and far
# from over. We keep sixteen feed-forward layers in memory, and most of what they could learn is not learned.
#
# To mend it we must see how it works. **On paper**: two words, *animal* and *road*, with vectors **set by hand**;
# three experts, with a vector each in the router; each word goes to two of them, the best (**top-2**). A word's score
# for an expert is the dot product of their vectors, and its **gates**, the weights of its two experts, are the
# softmax of the two scores.
#
# | | expert 0: (2, 0) | expert 1: (0, 1) | expert 2: (1, 1) | chosen | gates |
# |---|---|---|---|---|---|
# | animal (1, 0) | 2 | 0 | 1 | 0, 2 | softmax(2, 1) = 0.73, 0.27 |
# | road (½, 3) | 1 | 3 | 3½ | 2, 1 | softmax(3½, 3) = 0.62, 0.38 |
#
# For *animal* the layer gives 0.73 · expert₀(animal) + 0.27 · expert₂(animal). Expert 1 is not run for it at all.

# %% [markdown] name="formula"
# ## The formula
#
# $$s = W_r\,x \qquad y = \sum_{e\,\in\,\mathrm{top}_k(s)} g_e\,\mathrm{FFN}_e(x) \qquad
# g = \begin{cases}\mathrm{softmax}(s)_e & k = 1\\ \mathrm{softmax}(s_{\mathrm{top}_k(s)})_e & k > 1\end{cases}$$
#
# | symbol | in code | shape | is |
# |---|---|---|---|
# | $x$, $y$ | `x`, `output` | (token, d_model) | a token before and after; batch and position are one axis here |
# | $W_r$ | `router.scores.weight` | (expert, d_model) | the router: a vector for each expert |
# | $s$ | `scores` | (token, expert) | how well each expert suits each token |
# | $\mathrm{top}_k$ | `chosen` | (token, k) | the k best experts |
# | $g$ | `gates` | (token, k) | what their outputs are multiplied by |
#
# There are two conventions for the gate, and both are in use. With one expert, Switch (Fedus et al. 2021) keeps its
# probability among all. With several, Mixtral (Jiang et al. 2024) takes the softmax over the chosen ones only. Why
# two? Try k = 1 in the second.

# %% [markdown] name="ex-route-text"
# **Exercise 16.route · ★★ · 5 min.** Choose the k best experts of each token, and give their gates, by the two cases
# of the formula.

# %% name="ex-route" tags=["exercise"] course={"exercise": "16.route"}
def route(scores, k):
    """The k best experts of each token, the best first, and their gates: (token, k) each.

    scores: (token, expert). k = 1: the gate is the expert's probability among all experts.
    k > 1: the gates are the softmax of the k chosen scores.
    """
    raise NotImplementedError

# %% name="check-route" tags=["check", "nbval-ignore-output"]
route = check("16.route", route)

# %% [markdown] name="ex-mix-text"
# With one expert a softmax over its score alone is 1, whatever the score, and the router would get no gradient: hence
# the first case.
#
# Now the sum over the chosen experts. Token by token it would be a short loop (two cells further on it is). But a
# processor would rather multiply many tokens with one matrix than one token with many, so we go through the
# *experts*.
#
# **Exercise 16.mix · ★★★ · 7 min.** Each expert works on the tokens that chose it, all at once, and on no others.

# %% name="ex-mix" tags=["exercise"] course={"exercise": "16.mix"}
def mixture(x, chosen, gates, experts):
    """Each token through its experts: the sum of gate · expert(token), (token, d_model).

    x: (token, d_model); chosen, gates: (token, k). experts: a list; experts[3](some of x) is what
    expert 3 makes of these tokens. Each is to work on its own tokens only.
    """
    raise NotImplementedError

# %% name="check-mix" tags=["check", "nbval-ignore-output"]
mixture = check("16.mix", mixture)

# %% name="same"
from course_lib.model.experts import MixtureOfExperts, Router
from course_lib.model.layers import FeedForward

layer = MixtureOfExperts(Router(2, 3, 2), [FeedForward(2, 5) for _ in range(3)])  # d_model 2, 3 experts, k = 2
layer.router.scores.weight.data = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # as on paper
x = torch.tensor([[1.0, 0.0], [0.5, 3.0]])  # (token, d_model)
chosen, gates = route(layer.router.scores(x), k=2)
print("chosen:", chosen.tolist(), "gates:", [[round(g, 2) for g in row] for row in gates.tolist()])

looped = torch.stack([
    sum(gate * layer.experts[e](token) for e, gate in zip(numbers, weights, strict=True))
    for token, numbers, weights in zip(x, chosen.tolist(), gates, strict=True)
])
mixed = mixture(x, chosen, gates, layer.experts)
print("by tokens = by experts:", torch.allclose(looped, mixed, atol=1e-6))
print("= the library's layer: ", torch.allclose(mixed, layer(x), atol=1e-6))

# %% [markdown] name="count-text"
# ## What do experts cost?
#
# **Total** parameters have to be kept in memory; **active** ones are those that one token meets, and they set the
# arithmetic. Here is one layer of Mixtral 8x7B (8 experts, 2 chosen; d_model 4,096, experts of width 14,336 with
# three matrices each), on PyTorch's `meta` device, which knows shapes and holds no numbers.

# %% name="count"
from course_lib.model.block import make_block
from course_lib.model.experts import count_active_parameters
from course_lib.model.gpt import count_parameters

MIXTRAL = {"d_model": 4096, "n_heads": 32, "n_kv_heads": 8, "d_ff": 14_336, "feed_forward": "swiglu"}
MIXTRAL |= {"n_experts": 8, "experts_per_token": 2, "positions": "rotary", "norm": "rms_norm"}
MIXTRAL |= {"bias": False, "vocab_size": 32_000}
with torch.device("meta"):
    block = make_block(GPTConfig(**MIXTRAL))
outside = 2 * 32_000 * 4096 + 4096  # embedding, head, last norm
total = outside + 32 * count_parameters(block)
print(f"attention of a layer:   {count_parameters(block.attention):13,}")
print(f"its router and experts: {count_parameters(block.feed_forward):13,}")
print(f"what one token meets:   {count_active_parameters(block.feed_forward):13,}")
print(f"all 32 layers, embedding, head: {total:,}")

# %% [markdown] name="ex-active-text"
# So “8x7B” is not 56 billion: there are eight of the feed-forward layers, and one of everything else.
#
# **Exercise 16.active · ★ · 4 min.** Of these 46,702,792,704, how many does one token meet? (Count the embedding as a
# whole, as papers do, though a token uses one row of it.)

# %% name="ex-active" tags=["exercise"] course={"exercise": "16.active"}
answer = None

# %% name="check-active" tags=["check", "nbval-ignore-output"]
active = check("16.active", answer)

# %% name="active-shown"
assert active == outside + 32 * count_active_parameters(block)
print(f"active: {active / 1e9:.1f} of {total / 1e9:.1f} billion, {active / total:.0%}")

# %% [markdown] name="balance-text"
# ## A loss for the router
#
# Nothing in the loss on the text asks for an even load. So we add a term that does, the **balancing loss** (Fedus et al. 2021, equation 4):
#
# $$L_\text{balance} = E \sum_{e=1}^{E} f_e\,P_e$$
#
# $E$ is the number of experts, $f_e$ the load of expert e, counted (over all choices, so that it sums to 1 for any
# k), and $P_e$ its mean probability: the softmax over all experts, averaged over the tokens. A count has no gradient,
# a probability has: the more load $f_e$ an expert has, the harder the gradient presses its $P_e$ down. **Predict**
# the value where everyone gets the same, and where one of 16 experts gets everything.
#
# **Exercise 16.balance · ★★ · 6 min.** This sum, for one layer. The gradient must reach the scores.

# %% name="ex-balance" tags=["exercise"] course={"exercise": "16.balance"}
def balance_loss(scores, k):
    """E · Σ load · P for scores (token, expert), of which each token chooses the k best.

    load: each expert's share of all choices, which sums to 1. P: its mean probability.
    """
    raise NotImplementedError

# %% name="check-balance" tags=["check", "nbval-ignore-output"]
balance_loss = check("16.balance", balance_loss)

# %% name="extremes"
even = torch.eye(16).repeat(4, 1)  # 64 tokens, each expert is the best for four
one = torch.zeros(64, 16)
one[:, 5] = 50.0  # expert 5, for all
two = one.clone()
two[:, 11] = 50.0
second = even + even.roll(1, 0) / 2  # the second choices are even, too
for name, scores, k in (
    ("even", even, 1), ("one has all", one, 1), ("even, top-2", second, 2), ("two have all, top-2", two, 2)
):
    print(f"{name:20} {balance_loss(scores, k).item():5.2f}")
print("our model after 60 steps is nearer to:", "collapse" if routings(collapsed)[1].balance_loss > 4 else "balance")

# %% [markdown] name="cure-text"
# One at balance, and E at collapse, here 16. With top-k the most is E/k, since an expert can have at most one of a
# token's k choices. (Some programs count $f$ as a share of the tokens instead of the choices, and then balance is k.)
#
# The term is multiplied by a small α and added, for each layer, *in training only*: what we report is always the loss
# on the text. The library's trainer does that for a model with experts. The same seed and the same batches as before,
# with α = 0.05. **Look for** the highest bar after 5 and after 60 steps, and mind the axis, which ends much earlier
# than above.

# %% name="cure"
balanced = newborn(balance_weight=0.05)
cured = train(balanced, 60)
axes = draw(cured)
plt.show()

# %% name="cure-shown"
assert [bar.get_height() for bar in axes[0].containers[-1]] == cured[60][0].tolist()
assert torch.equal(cured[0], loads[0]) and cured[5].max() < 0.4
assert cured[60].max() < 0.45 and ((cured[60] < 0.1 / 16).sum(dim=1) <= 4).all()
before_and_after = zip(routings(collapsed), routings(balanced), strict=True)
assert all(without.balance_loss > 4 > with_it.balance_loss for without, with_it in before_and_after)

# %% [markdown] name="table-text"
# After five steps no expert has more than a fifth of the tokens, and after 60 hardly one is dead. That was one seed.
# Now five, for 200 steps (measured by `python -m benchmarks.lesson_tables.experts`), without balancing and with two
# values of α; and besides, an ordinary GPT with *one* feed-forward layer in each block: as many active parameters,
# but for the router. **Predict** which row has the lowest loss.

# %% name="table"
from course_lib.data.tables import load_table

rows = load_table("experts")["rows"]


def span(values, digits=2):
    return f"{min(values):.{digits}f}–{max(values):.{digits}f}"


def show(name):
    row = rows[name]
    seeds = {what: torch.tensor(row[what]["200"]).flatten().tolist() for what in ("largest", "dead") if what in row}
    shares = f"{span(seeds['largest'])}        {span(seeds['dead'], 0):7}" if seeds else " " * 23
    print(f"{name:28}  {shares}   {sum(row['loss']) / 5:.2f} ({span(row['loss'])})")


print(" " * 28, "largest load      dead of 16    loss (range of five seeds)")
for name in ("no balancing", "balancing 0.01", "balancing 0.05", "one feed-forward layer"):
    show(name)

# %% name="table-bounds"
def at_end(what, name):
    """The numbers of both layers and all seeds after 200 steps."""
    return [number for both in rows[name][what]["200"] for number in both]


kinds = ("no balancing", "balancing 0.01", "balancing 0.05")
none, weak, strong = (at_end("largest", name) for name in kinds)
assert min(none) > 0.45 and max(weak) < 0.23 and max(strong) < 0.13
none, weak, strong = (at_end("dead", name) for name in kinds)
assert min(none) >= 6 and max(weak) <= 5 and max(strong) <= 1
none, weak, strong, one = (rows[name]["loss"] for name in (*kinds, "one feed-forward layer"))
assert min(none) < min(strong) and max(strong) < max(none), "inside the spread"
assert max(one) < min(none + weak + strong)

# %% [markdown] name="table-answer"
# Load and dead experts tell collapse from health with every seed. The loss does **not**: with and without balancing
# it is the same within the spread. And the ordinary model beats all of them, with each seed. That is no slip. 200
# steps are 102,400 characters; a plain layer learns from all of them, an expert of sixteen from a sixteenth, if the
# load is even. Experts pay when there is more text than a small model can make use of: at equal arithmetic a Switch
# model reached the quality of its dense twin about seven times sooner (Fedus et al. 2021), on a corpus of hundreds of
# gigabytes. A laptop cannot show that; it can show the machinery.
#
# ## Break it: whose fault is the collapse?
#
# The usual story: an expert that is chosen is trained, becomes better, is chosen more. If that is all, a router that
# *cannot learn* should not collapse. We freeze the routers for ten steps and train the rest. **Predict**: does one
# expert get most tokens all the same?

# %% name="break-frozen"
def likeness(model):
    """Mean cosine of what two tokens bring to layer 1's router."""
    brought = []
    hook = model.blocks[1].feed_forward.register_forward_pre_hook(lambda _, x: brought.append(x[0]))
    routings(model)
    hook.remove()
    return nn.functional.normalize(brought[0].flatten(0, 1), dim=-1).mean(dim=0).square().sum().item()


frozen = newborn()
for block in frozen.blocks:
    block.feed_forward.router.scores.weight.requires_grad_(False)
before = likeness(frozen)
loads_frozen = train(frozen, 10)
print("one expert has most tokens, layer by layer:", (loads_frozen[10].amax(dim=1) > 0.5).tolist())
print("the tokens are alike: before", before > 0.5, "· after", likeness(frozen) > 0.5)
print("after 200 steps, with five seeds (largest load, dead, loss):")
show("no balancing, router frozen")
free, cured_ones = (torch.tensor([rows[name]["alike"][n] for n in ("0", "5")]) for name in (kinds[0], kinds[2]))
assert free[0].max() < 0.1 and free[1].min() > 0.79 and 0.24 < cured_ones[1].min() < cured_ones[1].max() < 0.67

# %% [markdown] name="break-answer"
# It collapses all the same. The router has not moved; the *tokens* have. Within five steps of this fast training (no
# warm-up) their vectors get a large common part: the mean cosine of two of them rises from below 0.1 to 0.8 and more,
# in both layers and with all five seeds of the table, and a router that is shown much the same thing again and again
# gives the same answer. Later the tokens grow apart, and some experts come back. So in *this* experiment “an expert
# that is chosen becomes better” is not what starts the collapse. The balancing loss presses on both sides of the
# product: on the router, and through it on the tokens, which stay less alike (after five steps 0.25 to 0.66 with α =
# 0.05).
#
# ## Room for so many and no more
#
# On real machines experts lie on different devices, and each sets memory aside for a fixed number of tokens, its
# **capacity**: the fair share times a **capacity factor**, 1.25 say. A token whose expert is full is **dropped**. It
# does not vanish: this layer adds nothing to it, and the residual stream carries it past.

# %% [markdown] name="ex-capacity-text"
# **Exercise 16.capacity · ★★ · 5 min.** A loop will do. Who is dropped depends on who is served first; here it goes
# token after token. (A token's own choices are different experts and never compete.)

# %% name="ex-capacity" tags=["exercise"] course={"exercise": "16.capacity"}
def has_room(chosen, n_experts, capacity):
    """Which choices (token, k) find room, bool: an expert takes `capacity` of them and no more.

    First come, first served, token after token. (A token's own choices are different experts.)
    """
    raise NotImplementedError

# %% name="check-capacity" tags=["check", "nbval-ignore-output"]
has_room = check("16.capacity", has_room)

# %% [markdown] name="dropped-text"
# How many of our 3,200 tokens find no room at a capacity factor of 1.25, which is 250 tokens an expert? **Guess** for
# both models before you run it. And a second question: an expert may now be full *because of other tokens*. Does a
# change in one text reach another text of the batch?

# %% name="dropped" tags=["nbval-ignore-output"]
dropped = {}
for name, model in (("collapsed", collapsed), ("balanced", balanced)):
    kept = [has_room(r.chosen, 16, capacity=250) for r in routings(model)]
    dropped[name] = [int((~each).sum()) for each in kept]
    print(f"{name:9} dropped of 3,200, by layer: {dropped[name]}")

# %% name="leak"
assert min(dropped["collapsed"]) > 1600 and max(dropped["balanced"]) < 1300
limited = newborn(capacity_factor=1.0)
texts = windows[:2]
other = texts.clone()
other[0] = windows[7]  # another first text; the second stays
for mode in (True, False):
    with torch.no_grad():
        moved = limited.train(mode)(texts)[1] - limited(other)[1]  # logits of the second text
    print("in training: " if mode else "in evaluation:", "the second text is touched:", bool(moved.abs().max() > 1e-6))

# %% [markdown] name="leak-answer"
# The collapsed model drops most of its tokens, the balanced one about a tenth. And a change in one text does reach
# another, in training. A capacity breaks a rule that has held since lesson 04: that a prediction depends on its own
# past alone. (Ours serves in order, so within a text nothing later matters, but texts earlier in the batch do.) The
# library therefore holds to the capacity in training only. In evaluation and when generating, there is room for all,
# the model is causal, and the cache of [lesson 12](12_generate.ipynb) gives the same logits.
#
# ## Moving tokens
#
# Four devices, four experts on each; each device has a quarter of the texts. A token whose expert lives elsewhere
# travels there, d_model numbers, and its result travels back. **Predict**: what share of the tokens travels when the
# load is even? And how long does everyone wait for the busiest device?

# %% name="devices" tags=["nbval-ignore-output"]
home = torch.arange(4).repeat_interleave(800)  # the device of each token
waits = {}
for name, model in (("collapsed", collapsed), ("balanced", balanced)):
    routing = routings(model)[1]
    device = routing.chosen[:, 0] // 4  # experts 0–3 on device 0, …
    travels = (device != home).float().mean().item()
    waits[name] = 4 * device.bincount(minlength=4).max().item() / 3200
    moved = 2 * travels * 3200 * 64 * 4  # there and back, 64 numbers of 4 bytes
    print(f"{name:9}: {travels:.0%} travel, {moved:,.0f} bytes a layer; "
          f"the busiest device has {waits[name]:.1f} times its share")

# %% name="devices-bounds"
assert waits["balanced"] < 2.2 and waits["collapsed"] > max(1.6, waits["balanced"])
per_token = 2 * 2 * 4096 * 2 * 32  # Mixtral: there and back, two experts, bfloat16, 32 layers
print(f"Mixtral with every expert elsewhere: {per_token:,} bytes for one token, forward")
assert per_token == 2**20

# %% [markdown] name="devices-answer"
# About three quarters travel either way: with four devices that is what chance gives. What collapse costs is the
# **waiting**. A step takes as long as its busiest device, and the other three stand idle. The last line is for
# Mixtral: a mebibyte (2²⁰ bytes) for each token, and as much again for the gradients. It is why experts are kept
# within reach of a fast network, and why their number is not free.

# %% [markdown] name="icl-text"
# ## A model that learns without learning
#
# We go back to attention. The surprise of GPT-3 was that it got better at a task by *reading examples*, its weights
# untouched: **in-context learning** (Brown et al. 2020). The smallest model that does it is the induction model of
# [lesson 13](13_look_inside.ipynb): two layers of attention without feed-forward layers, trained on random sequences
# of 32 tokens that repeat. It is 13's, so train one of your own.

# %% name="icl-train" tags=["nbval-ignore-output"]
from course_lib.training import induction

reader = induction.induction_model(seed=0)
for step, loss in induction.train_induction(reader, steps=250, seed=0, batch_size=24, rate=4e-3):
    if step % 50 == 0:
        print(f"step {step:3}: loss {loss:.2f}")
fresh = induction.repeated_sequences(500, torch.Generator().manual_seed(99))
print(f"of what a new sequence foretells it gets {induction.accuracy(reader, fresh):.0%} right; guessing: {1 / 32:.0%}")

# %% [markdown] name="dictionary-text"
# Now a task that it was never trained for. A small **dictionary**: four words, each with its translation, drawn anew
# for every text. The four pairs come again and again, each time *in another order*, so nothing repeats as a whole. In
# training everything did. Words are tokens 0 to 15, meanings 16 to 31. **Predict** how often it knows the translation
# in the first round, the second, the sixth. **Look for** the first point, beside the dotted line of guessing among 16
# meanings, and for how much a second example adds to the first.

# %% name="dictionary"
generator = torch.Generator().manual_seed(99)
texts, rounds = [], 6
for _ in range(500):
    words, meanings = torch.randperm(16, generator=generator)[:4], torch.randint(16, 32, (4,), generator=generator)
    orders = [torch.randperm(4, generator=generator) for _ in range(rounds)]  # another one each time
    texts.append(torch.cat([torch.stack([words[o], meanings[o]], dim=1).flatten() for o in orders]))
texts = torch.stack(texts)  # word meaning word meaning …: (batch, position)
with evaluating(reader):
    named = reader(texts)[:, :-1:2].argmax(dim=-1)  # what it expects after each word
known = (named == texts[:, 1::2]).float().unflatten(1, (rounds, 4)).mean(dim=(0, 2)).tolist()
ax = plt.subplots(figsize=(6, 3))[1]
ax.plot(range(1, rounds + 1), known, marker="o")
ax.axhline(1 / 16, color="gray", linestyle=":")
ax.set_xlabel("round (how often the pair is read, this time included)")
ax.set_ylabel("translations known")
ax.set_ylim(0, 1)
plt.show()

# %% name="dictionary-shown"
assert list(ax.lines[0].get_ydata()) == known
assert induction.accuracy(reader, fresh) > 0.9 and known[0] < 0.1 and 0.4 < known[1] < 0.8 and known[3] > 0.8
assert torch.tensor(known).diff().min() > -0.02

# %% [markdown] name="character-gpt-text"
# Can every GPT do this? The shipped character GPT reads a passage of Shakespeare, and right after it the same passage
# again. **Predict** how much less the second reading surprises it.

# %% name="character-gpt" tags=["nbval-ignore-output"]
from course_lib.data.corpora import DATA_FOLDER
from course_lib.lens.heads import token_losses
from course_lib.training.checkpoint import load_run

bard, _, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")
once = corpus.validation[: 24 * 100].view(24, 100)
twice = token_losses(bard, torch.cat([once, once], dim=1))  # (batch, position − 1)
first, second = twice[:, 20:99].mean().item(), twice[:, 120:].mean().item()
print(f"the character GPT, nats per character: {first:.2f} at first reading, {second:.2f} at second")

# %% name="character-gpt-bounds"
assert abs(first - second) < 0.05

# %% [markdown] name="icl-answer"
# Next to nothing in the first round (less than guessing: the model does not know that a meaning must follow), more
# than half after *one* example, about nine in ten after three. The weights are what they were: what has grown is the
# text that its heads can search. And it does not come with every language model. Our character GPT reads a passage
# for the second time and is as surprised as before: in Shakespeare, whole passages do not come twice, so presumably
# nothing rewarded a head for looking back that far. In-context learning comes from data in which it *pays*. (Chan et
# al. 2022 study which data those are. Olsson et al. 2022 argue that induction heads are behind most of it: with
# interventions in small models like ours, and with weaker, indirect evidence in large ones.)

# %% [markdown] name="capstone-text"
# ## Capstone: tell the story of a head
#
# This course began with a wish: train a model on a text of your choice, take one layer's attention, find out what a
# head looks at, and tell it. Here is one worked through; then it is your turn.
#
# The shipped model of Tang verse, layer 2, head 0, on a quatrain by Wang Zhihuan (it stands in the training text):
# *the white sun leans on the hills and is gone; the Yellow River enters the sea and flows on*. (Rows and columns of
# the picture are its characters; no Chinese is needed to see the pattern.) **Look for** a dark diagonal in the rows
# of the second line, and another in the fourth. Which character of the line before do they name?

# %% name="look"
from course_lib.lens.capture import capture
from course_lib.plots import heatmap, shown

tang, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "tang")
poem = "\n\n白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"  # in the corpus a poem follows a blank line
seen = capture(tang, tokenizer.encode(poem)[None])
figure, ax = plt.subplots(figsize=(6.6, 6.2), layout="constrained")
heatmap(seen.layer(2)[0, 0], list(poem), ax=ax, title="layer 2, head 0")
plt.show()

# %% name="look-shown"
picture = torch.tensor(shown(ax)).float()
assert torch.allclose(picture, seen.layer(2)[0, 0], atol=1e-6)
reads = {query: picture[query].argmax().item() for query in (*range(8, 12), *range(20, 24))}
assert sum(key == query - 5 for query, key in reads.items()) >= 6, "the counterpart of the character to come"
assert reads[9] == poem.index("依") and poem[9] == "河"

# %% [markdown] name="claim-text"
# In the second line (rows 黄 河 入 海) it looks back to the first, one place further on: after 黄 河 comes 入, and the row
# of 河 reads 依, which stands where 入 will stand. (The comma before 黄 joins in: it reads 白, the first character of the
# line before.) In the fourth line likewise, paler. Chinese couplets are *parallel*: sun and river, leans and enters,
# hills and sea. One poem is an anecdote. As a **claim**: *in a closing line, this head reads the counterpart of the
# character to come.* A claim is two masks: which keys (`counterparts`), and which predictions should need them
# (`in_closing_line`).

# %% name="measure"
from course_lib.lens.heads import attention_on, chance_of
from course_lib.lens.story import loss_without
from course_lib.lens.verse import counterparts, in_closing_line

verse = load_corpus("tang").validation.unfold(0, 256, 256)[::12][:16]  # every twelfth window: (batch, position)
places = counterparts(verse, tokenizer)  # (batch, query, key)
closing = in_closing_line(verse, tokenizer)  # (batch, position − 1)
closing_queries = nn.functional.pad(closing, (0, 1))[..., None]
weights = capture(tang, verse).layer(2)
for name, mask in (("closing lines", places & closing_queries), ("other lines", places & ~closing_queries)):
    scores = attention_on(weights, mask).tolist()
    print(f"{name:13} heads {[round(s, 2) for s in scores]}, chance {chance_of(mask):.2f}")
need = loss_without(tang, verse, 2, 0, closing)

# %% name="needed" tags=["nbval-ignore-output"]
print(f"without head 0: characters of closing lines {need.these:+.3f} nats, the rest {need.others:+.3f} "
      f"(standard error {need.error:.3f})")

# %% name="needed-bounds"
on_closing = attention_on(weights, places & closing_queries)  # (head,)
elsewhere = attention_on(weights, places & ~closing_queries)
assert 0.4 < on_closing[0] < 0.5 and 25 * chance_of(places) < on_closing[0]
assert elsewhere[0] < 0.03 and on_closing[1:].max() < 0.05
assert need.matters and need.these > 0.1 and abs(need.others) < 0.04

# %% [markdown] name="story-text"
# In closing lines the head gives the counterpart 0.4 to 0.5 of its attention, more than 25 times chance; in other
# lines, about as much as chance; and its neighbours do nothing of the kind. Silence it, and closing lines get harder
# to predict, the rest hardly. That is a story with a beginning (a picture), a middle (a score) and an end (a need).
# What it does *not* say: that the head knows what a hill and a sea have in common. It may go by the place alone.
#
# The **rubric** measures such a story on text that its author did not choose: places that many queries have and that
# are few for each; at least twice chance, and a tenth of the head's attention; the need you claim, by two standard
# errors; 40 to 300 words. What it cannot check is for a reader: is there a plainer description that fits as well?
# Would someone who has only the words know where to look? Does it say what was not shown?

# %% name="rubric" tags=["nbval-ignore-output"]
from course_lib.lens.story import Story, heard

told = Story(
    run="tang", corpus="tang", layer=2, head=0, places=counterparts, predictions=in_closing_line, matters=True,
    text="In the closing line of a couplet, head 0 of layer 2 reads, before each character, the one that stands in "
    "the same place of the opening line. Without it closing lines are harder to predict, and others hardly. "
    "It may go by the place alone.",
)
lines = heard(told, "test")
for line in lines:
    print(f"{'met' if line.met else 'NOT MET':8}{line.name}: {line.found}")

# %% name="rubric-bounds"
assert [line.name for line in lines] == ["places", "reading", "need", "telling"] and all(line.met for line in lines)

# %% [markdown] name="ex-story-text"
# **Exercise 16.story · ★★★ · 15 min, or a weekend.** Yours. The best version starts with a text of your own:
# `python -m course_lib train --corpus work/my.txt --preset laptop --out work/runs/mine` in the course's folder, then
# `run="runs/mine", corpus="my.txt"` here, in `work/`. The quick one asks another head of `"tang"` or `"shakespeare"`. (A tip: Tang
# verse rhymes. Lesson 13 found the head that minds it, 3.0; here the finding becomes a claim with its test.) For `"shakespeare"`,
# `places_of_types` in `course_lib.lens.heads` has masks to begin with. A mask is a function of tokens and tokenizer.
# “It does not matter” is a finding: say `matters=False`. The check hears your story on the validation part and on the
# test part of your corpus.

# %% name="ex-story" tags=["exercise"] course={"exercise": "16.story"}
def my_story():
    """A Story about one head of a trained model, made of what you measured."""
    raise NotImplementedError

# %% name="check-story" tags=["check", "nbval-ignore-output"]
my_story = check("16.story", my_story)

# %% [markdown] name="practice"
# ## In practice
#
# **Who does it.** Switch: top-1, up to 2,048 experts. Mixtral 8x7B: 8, top-2. DeepSeek-V3: 256 small experts, 8
# chosen, and one that all tokens share; 671 billion parameters, 37 active. For balance it lowers an offset on the
# scores of overloaded experts, which counts in the choice and not in the gate; only a small loss, within each text,
# is left. It drops no token.
#
# **What is saved is arithmetic.** Memory is not: all experts must lie ready, even for one reader at home who
# generates one token at a time.
#
# **Router in float32.** A rounded score may choose another expert, so the library computes scores in float32 even
# when the rest is in bfloat16.
#
# **Experts of what?** Jiang et al. looked for experts of subjects in Mixtral, and found syntax rather than topics.
# The name promises too much.

# %% [markdown] name="recap"
# ## Recap
#
# 1. A **router** scores experts, the k best run, their outputs are added times their **gates**: for k = 1 the
#    probability among all (or the router would not learn), for more the softmax over the chosen.
# 2. **Total** parameters are kept, **active** ones are met: 46.7 and 12.9 billion for 8 experts, 2 chosen.
# 3. **Collapse** shows in load and dead experts, not in the loss. The balancing loss is 1 at balance and E at
#    collapse (E/k for top-k); α = 0.05 cured it with five seeds of five. A frozen router collapses too: here the
#    tokens had become alike. And at this size one plain layer predicts better.
# 4. A **capacity** drops tokens into the residual stream and makes texts of a batch depend on one another; moving a
#    token costs 2·k·d_model numbers a layer, and all wait for the busiest device.
# 5. **In-context learning**: a dictionary never met, known after a few examples, with weights that stand still. The
#    character GPT does none of it.
# 6. A story about a head is a picture, a score against chance, and a need; and says what it has not shown.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; in one of them two choices are right.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("16")

# %% [markdown] name="sources"
# ## Sources
#
# - Shazeer et al. 2017, *Outrageously Large Neural Networks*, [arXiv 1701.06538](https://arxiv.org/abs/1701.06538):
#   the sparsely gated layer, and the trouble with balance.
# - Lepikhin et al. 2020, *GShard*, [arXiv 2006.16668](https://arxiv.org/abs/2006.16668): experts on thousands of
#   devices; capacity.
# - Fedus, Zoph, Shazeer 2021, *Switch Transformers*, [arXiv 2101.03961](https://arxiv.org/abs/2101.03961): top-1, the
#   balancing loss used here, dropped tokens, the speed-up.
# - Jiang et al. 2024, *Mixtral of Experts*, [arXiv 2401.04088](https://arxiv.org/abs/2401.04088): the sizes of table
#   1, and what its experts are chosen for (section 5).
# - DeepSeek-AI 2024, *DeepSeek-V3*, [arXiv 2412.19437](https://arxiv.org/abs/2412.19437): many small experts, a
#   shared one, balance by shifting scores.
# - Brown et al. 2020, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165): in-context learning, named and measured.
# - Olsson et al. 2022, [arXiv 2209.11895](https://arxiv.org/abs/2209.11895): induction heads and in-context learning;
#   Chan et al. 2022, [arXiv 2205.05055](https://arxiv.org/abs/2205.05055): which data make it appear.

# %% [markdown] name="next"
# ## Next
#
# You have built all of it: attention, positions, blocks, a GPT, its training, its cache, its experts; and you have
# looked inside. **[Lesson 17](17_field_guide.ipynb)**, the field guide, is not timed: cards, model cards, questions, a glossary, and where to
# go on.
