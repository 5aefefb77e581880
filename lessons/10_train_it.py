# %% [markdown] name="title"
# # Train a GPT: build the loop, and know when it lies
#
# Lesson 10 · [00 Start here](00_start_here.ipynb) · before: [09 A GPT from its parts](09_a_gpt_from_its_parts.ipynb) · next: [11 Train it on a GPU](11_train_on_a_gpu.ipynb)

# %% [markdown] name="goals"
# **What you will build.** A training loop of your own, from four parts: random windows, one step, a
# learning rate that rises and falls, an honest measure. With the library's version of it, which is the same but can be
# stopped and resumed, you then train a GPT on Shakespeare.
#
# **Afterwards you can**
#
# 1. say what the loss of a new model must be, and why;
# 2. put the lines of a training step in their right order, and give a reason for each;
# 3. explain what AdamW does with a gradient, and why a run warms up;
# 4. measure a model so that two runs can be compared;
# 5. read a loss curve: too slow, too fast, no warm-up, overfitting;
# 6. stop a run, resume it, and get the very same run.
#
# **What you need.** PyTorch's tensors; the GPT of lesson 09 as a box that turns characters into scores; the surprise of
# lesson 00. **Time:** 60 minutes, 25 of them for four exercises.

# %% name="setup"
import math

import torch
from matplotlib import pyplot as plt
from torch.nn.functional import cross_entropy

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("10")

# %% [markdown] name="question"
# ## A loop that runs and does not learn
#
# Nine lessons went into the model. Training it looks like the easy part: take a piece of text, let the model guess each
# next character, and move its parameters so that the mean surprise, the loss, gets smaller. First a text and a GPT small enough that we can
# afford many runs. (It is the library's, which gave the same numbers as yours in lesson 09, and can be saved and resumed.)

# %% name="newborn"
from course_lib.data.corpora import load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters

corpus = load_corpus("shakespeare")
text = corpus.train  # characters as numbers, (position,)


def newborn(seed=0, **changes):
    """A small GPT before training; the same seed gives the same random parameters."""
    shape = {"context_length": 32, "n_layers": 2, "n_heads": 2, "d_model": 64} | changes
    torch.manual_seed(seed)
    return GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **shape))


print(f"{count_parameters(newborn()):,} parameters, {corpus.tokenizer.vocab_size} characters")
for part in ("train", "validation", "test"):
    print(f"{part}: {len(getattr(corpus, part)):,} characters")

# %% [markdown] name="splits"
# The text comes in three parts. The model learns from the **training split**. The validation split (lesson 01) is kept from it, and
# we use it to compare runs and to choose. Whoever chooses by a number flatters that number, so there is a third, the **test
# split**, which is looked at once, at the very end.
#
# Here is a loop as one might write it on a first try. An **optimiser** (`AdamW`) moves the parameters, a step at a time, the way that
# `backward` finds. It runs, and no line of it complains. **Before you look at the picture**: where will the curve begin, and where
# end? The dotted line is the loss of an even guess, ln 63.

# %% name="careless"
model = newborn()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(0)
careless = []
for _ in range(150):
    start = torch.randint(len(text) - 512, (1,), generator=generator).item()
    inputs = text[start : start + 512].view(16, 32)
    targets = text[start + 1 : start + 513].view(16, 32)
    loss = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    careless.append(loss.item())

ax = plt.subplots()[1]
ax.plot(careless)
ax.axhline(math.log(63), linestyle=":", color="gray")
ax.set_xlabel("step")
ax.set_ylabel("loss (nats per character)")
plt.show()

# %% name="careless-shown"
assert list(ax.lines[0].get_ydata()) == careless
assert abs(careless[0] - math.log(63)) < 0.05, "it begins at an even guess"
assert min(careless) < 3.6 and sum(careless[-20:]) / 20 > 1.5 * math.log(63), "and ends far above"

# %% [markdown] name="careless-answer"
# It begins at the dotted line, falls a little, and then climbs to several times the loss of knowing nothing at all. This is
# what makes training hard to get right: a wrong loop raises no exception. It learns badly, and the worse ones among them
# learn *almost* well. So we build each part where it can be seen to be right. (One line is missing above. You may guess which.)

# %% [markdown] name="windows-text"
# ## What the model reads: random windows
#
# A model with a context of T characters reads a **window**: T inputs, and for each input its target (lesson 04), the character that
# follows it. So a window takes T + 1 characters. On paper, with T = 3 and a text of seven:

# %% name="windows-tiny"
tiny = "to be or"[:7]
for start in range(len(tiny) - 3):
    inputs, targets = tiny[start : start + 3], tiny[start + 1 : start + 4]
    print(f"begins at {start}:  inputs {inputs!r}  targets {targets!r}")

# %% [markdown] name="ex-windows-text"
# Four places to begin, 7 − 3. Where shall a window begin? Anywhere, at random: then the model meets a character now early, now
# late in a window, and hardly ever the same batch twice. A batch is several windows at once, whose losses are averaged. (The
# opening loop cut one long piece into windows: one scene at a time.)
#
# **Exercise 10.windows · ★★ · 7 min.** Draw a batch. Numbers drawn from a generator of its own stay the same whatever else
# draws numbers; that will matter when we resume a run.

# %% name="ex-windows" tags=["exercise"] course={"exercise": "10.windows"}
def random_windows(tokens, batch_size, context_length, generator):
    """Windows that begin anywhere in tokens (position), each place equally likely.

    Returns inputs and targets, both (batch, position): context_length characters each, and for
    every input the character that follows it. Draw the beginnings with one
    `torch.randint(..., generator=generator)`.
    """
    raise NotImplementedError

# %% name="check-windows" tags=["check", "nbval-ignore-output"]
random_windows = check("10.windows", random_windows)

# %% [markdown] name="formula"
# ## What is made small, and how
#
# **Cross-entropy** is the mean surprise at the targets. The gradient g of a parameter θ is the slope of the loss: how much it
# would grow if θ grew a little. `loss.backward()` works it out for all parameters at once. **AdamW** (Kingma & Ba 2014; Loshchilov &
# Hutter 2019) moves each parameter against its gradient, with its own idea of how far:
#
# $$L = -\frac{1}{N}\sum_{i} \ln p_i \qquad
# \theta \leftarrow \theta - \eta\,\lambda\,\theta - \eta\,\frac{\hat m}{\sqrt{\hat v}+\epsilon}$$
#
# | symbol | in code | is |
# |---|---|---|
# | $p_i$ | `logits.softmax(-1)[i, target]` | the probability the model gave to target i, from its scores, the logits |
# | $N$ | `targets.numel()` | number of targets: batch × position |
# | $\eta$ | `rate` | the **learning rate**, another one at each step |
# | $\hat m$ | `unbiased_mean`: running mean of g, decay $\beta_1$ | where the gradient has been pointing |
# | $\hat v$ | `unbiased_square`: running mean of g², decay $\beta_2$ | how large it has been |
# | $\epsilon$ | `1e-8` | keeps from dividing by 0 |
# | $\lambda$ | `weight_decay` | how fast a parameter that nothing pulls at shrinks, times η |
#
# First the loss. Three predictions over a vocabulary of three, as a loop, as one line, and by PyTorch.

# %% name="loss-tiny"
logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])  # (position, vocab_size)
targets = torch.tensor([0, 1, 2])

surprise = 0.0
for scores, target in zip(logits.tolist(), targets.tolist(), strict=True):
    probability = math.exp(scores[target]) / sum(math.exp(score) for score in scores)
    surprise += -math.log(probability) / len(targets)
    print(f"probability {probability:.2f}, surprise {-math.log(probability):.2f}")
by_matrix = -logits.softmax(dim=-1)[torch.arange(3), targets].log().mean()
print("loop = matrix:  ", math.isclose(surprise, by_matrix, rel_tol=1e-5))
print("loop = PyTorch: ", math.isclose(surprise, cross_entropy(logits, targets), rel_tol=1e-5))

# %% [markdown] name="first-loss-text"
# The third row knows nothing: 1/3 each, a surprise of ln 3. A newborn GPT knows nothing either, so before its first step
# its loss should be about ln V for V characters (lesson 09). This is the cheapest test there is.

# %% name="first-loss"
from course_lib.training.trainer import next_token_loss  # cross_entropy of all positions

generator = torch.Generator().manual_seed(0)
inputs, targets = random_windows(text, 16, 32, generator)
first_loss = next_token_loss(newborn()(inputs), targets)
print("within 2 % of ln 63 = 4.14:", abs(first_loss.item() / math.log(63) - 1) < 0.02)

# %% [markdown] name="adamw-text"
# Now AdamW, for a single parameter. Its averages start at 0 and are too small at first; dividing by 1 − βᵗ at step t corrects
# that (it is the hat in the formula). **Predict**: one parameter has a first gradient of 1000, another of 0.001. The rate is 0.01. How far does the first step
# move each?

# %% name="adamw"
def adamw_by_hand(theta, gradients, rate=0.01, beta1=0.9, beta2=0.99, decay=0.1):
    """Where one parameter is after each step."""
    mean = square = 0.0
    path = []
    for t, gradient in enumerate(gradients, start=1):
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        unbiased_mean, unbiased_square = mean / (1 - beta1**t), square / (1 - beta2**t)
        theta -= rate * decay * theta
        theta -= rate * unbiased_mean / (math.sqrt(unbiased_square) + 1e-8)
        path.append(theta)
    return path


for gradient in (1000.0, 0.001):
    print(f"gradient {gradient:8}: moves by {adamw_by_hand(0.0, [gradient])[0]:.4f}")

theta = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
adamw = torch.optim.AdamW([theta], lr=0.01, betas=(0.9, 0.99), weight_decay=0.1)
gradients, path = [3.0, -1.0, 0.2, 0.2], []
for gradient in gradients:
    theta.grad = torch.tensor(gradient, dtype=torch.float64)
    adamw.step()
    path.append(theta.item())
print("by hand = PyTorch:", torch.allclose(torch.tensor(path), torch.tensor(adamw_by_hand(0.5, gradients))))

# %% [markdown] name="adamw-answer"
# Both by 0.01, the rate: a gradient divided by its own size is ±1. Later, a parameter whose gradients keep their sign moves
# by nearly the whole rate, and one whose gradients disagree moves little. But at the first step there is one gradient and nothing
# to disagree with, so *every* parameter moves at full speed, on the word of a single batch. Hence the **warm-up**: the
# first steps get a small rate.
#
# The term with λ is **weight decay**. It keeps matrices from growing without a reason, and stands apart from the gradient, so that
# $\hat v$ does not rescale it. By custom, what only shifts or scales (a bias, the scale of a norm) is spared, so parameters come in
# two groups (a tied head is the embedding's own matrix, and stands in them once):

# %% name="groups"
from course_lib.training.optimizer import parameter_groups

for group in parameter_groups(list(newborn().parameters()), weight_decay=0.1):
    tensors = group["params"]
    axes = sorted({tensor.ndim for tensor in tensors})
    numbers = sum(tensor.numel() for tensor in tensors)
    print(f"decay {group['weight_decay']}: {len(tensors)} tensors with {axes} axes, {numbers:,} numbers")

# %% [markdown] name="ex-step-text"
# ## One step
#
# PyTorch *adds* each new gradient to the one that is there (useful when a batch is computed in pieces), so the old one has
# to be forgotten. And now and then a batch has a monstrous gradient. **Clipping** (Pascanu et al. 2013) takes the gradient of
# all parameters as one long vector and, if its length (its **norm**, no kin of a block's) is above a limit, shortens it, in the same direction. Last, a model may have
# **dropout**: in training mode a random part of its numbers is set to 0, so that it relies on no single one.
#
# **Exercise 10.step · ★★ · 7 min.** One step. It takes six calls; their order is yours to find. Here they stand in that of
# the alphabet: `loss.backward`, `model.train` (training mode: dropout on), `next_token_loss`, `optimizer.step`,
# `optimizer.zero_grad`, `torch.nn.utils.clip_grad_norm_(model.parameters(), clip)`.

# %% name="ex-step" tags=["exercise"] course={"exercise": "10.step"}
def training_step(model, optimizer, inputs, targets, clip):
    """One update in training mode; the loss before it, in nats, as a float.

    inputs, targets: (batch, position); model(inputs): logits (batch, position, vocab_size).
    clip: the largest norm that the whole gradient may have.
    """
    raise NotImplementedError

# %% name="check-step" tags=["check", "nbval-ignore-output"]
training_step = check("10.step", training_step)

# %% [markdown] name="one-batch-text"
# So the opening loop lacked `zero_grad`, and every step followed the sum of all gradients so far.
#
# ## Overfit one batch first
#
# Before a long run, a short one: train on **one batch, again and again**. Our model has 400 parameters for each character of it,
# room to learn it by heart, so the loss must fall to nearly 0. If it does not, something is broken, and you know it in a
# second or two. We **break it** on purpose, twice: once with the step of the opening loop, and once with the targets of the wrong windows.
# **Predict** which of the two this test finds.

# %% name="break-one-batch"
def careless_step(model, optimizer, inputs, targets, clip):
    loss = next_token_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return loss.item()


def after_100_steps(step, inputs, targets):
    model = newborn()
    groups = parameter_groups(list(model.parameters()), weight_decay=0.0)
    optimizer = torch.optim.AdamW(groups, lr=0.003)
    return [step(model, optimizer, inputs, targets, 1.0) for _ in range(100)][-1]


inputs, targets = random_windows(text, 8, 32, torch.Generator().manual_seed(0))
endings = {
    "right": after_100_steps(training_step, inputs, targets),
    "as in the opening loop": after_100_steps(careless_step, inputs, targets),
    "targets of other windows": after_100_steps(training_step, inputs, targets.flip(0)),
}
for name, loss in endings.items():
    print(f"{name:24} learned by heart: {loss < 0.2}")

# %% [markdown] name="one-batch-answer"
# The opening loop is found out at once. The wrong targets are not: the model learns nonsense by heart as willingly as
# sense. This test says that the parts work together; that the data are right, only looking at them says. (Print a window. Always.)

# %% [markdown] name="ex-schedule-text"
# ## How far: a rate that rises and falls
#
# After the warm-up the rate should come down again: large steps cover ground, small ones settle. A half **cosine**
# (Loshchilov & Hutter 2017) is flat at both ends and steep between.
#
# **Exercise 10.schedule · ★★ · 6 min.** The rate of each step. Mind the ends: the first step must not be 0, the last one is
# `steps - 1`.

# %% name="ex-schedule" tags=["exercise"] course={"exercise": "10.schedule"}
def warmup_cosine(step, *, steps, warmup, peak, minimum):
    """The learning rate of step 0 ≤ step < steps, a float.

    Steps 0 to warmup: a line, peak/(warmup + 1) at step 0, the peak at step `warmup`.
    After it: half a cosine, down to `minimum` at the last step, steps - 1.
    """
    raise NotImplementedError

# %% name="check-schedule" tags=["check", "nbval-ignore-output"]
warmup_cosine = check("10.schedule", warmup_cosine)

# %% [markdown] name="recipe-text"
# How many steps, how large a batch, which rates: together they are a **recipe**, and in this course a recipe is one
# dataclass. Here is one for our small model. **Look for** the place where the two pieces of its schedule meet; the dashed line is
# another schedule of the library's.

# %% name="recipe"
from dataclasses import replace

from course_lib.training.presets import TrainingConfig
from course_lib.training.schedule import learning_rate

recipe = TrainingConfig(
    steps=150, batch_size=16, learning_rate=0.01, minimum_rate=0.001, warmup_steps=30, evaluate_every=150
)
ends = {"steps": 150, "warmup": 30, "peak": 0.01, "minimum": 0.001}
cosine = [warmup_cosine(step, **ends) for step in range(150)]
linear = [learning_rate(step, replace(recipe, schedule="linear")) for step in range(150)]
ax = plt.subplots(figsize=(6.4, 2.8))[1]
ax.plot(cosine, label="warm-up and cosine")
ax.plot(linear, "--", label="warm-up, peak, and line")
ax.set_xlabel("step")
ax.set_ylabel("learning rate")
ax.legend()
plt.show()

# %% name="recipe-shown"
assert list(ax.lines[0].get_ydata()) == cosine and cosine.index(max(cosine)) == 30
assert cosine[0] > 0 and math.isclose(cosine[-1], 0.001) and math.isclose(cosine[30], 0.01)
assert all(math.isclose(a, learning_rate(i, recipe)) for i, a in enumerate(cosine))

# %% [markdown] name="loop-text"
# They meet at step 30, at the peak, without a jump. (The dashed line stays at the peak for a while. Until it falls nothing depends on
# the number of steps, so a run can be prolonged from there; a cosine would have had to know; Hägele et al. 2024.)
#
# ## The loop
#
# All the parts are there. This is the whole loop, of your parts or ours. We hold it against the library's `Trainer`, over 20 steps:
# the same windows, the same losses?

# %% name="loop"
from course_lib.data.batches import evaluation_windows
from course_lib.training.trainer import Trainer


def train(model, recipe):
    """Train on the training split by the recipe; the loss of each step."""
    groups = parameter_groups(list(model.parameters()), recipe.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2))
    generator = torch.Generator().manual_seed(recipe.seed)
    losses = []
    for step in range(recipe.steps):
        ends = {"peak": recipe.learning_rate, "minimum": recipe.minimum_rate}
        rate = warmup_cosine(step, steps=recipe.steps, warmup=recipe.warmup_steps, **ends)
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = random_windows(text, recipe.batch_size, model.config.context_length, generator)
        losses.append(training_step(model, optimizer, *batch, recipe.gradient_clip))
    return losses


short = replace(recipe, steps=20, warmup_steps=4)
library = [record.train_loss for record in Trainer(newborn(), text, corpus.validation, short).run()]
yours = train(newborn(), short)
print("the same losses:", torch.allclose(torch.tensor(yours), torch.tensor(library), atol=1e-3))

# %% [markdown] name="ex-evaluate-text"
# ## An honest number
#
# The training loss jumps with each batch, and it is measured on text that the model learns from. What counts is the loss on
# the validation split, on **all** of it, each character predicted once. The library's `evaluation_windows` cuts a text into
# windows that do not overlap, in batches; the last batch may be smaller, and the last window shorter. (It is imported already.)
#
# **Exercise 10.evaluate · ★★ · 5 min.** Dropout off, no gradients, and every character counts once.

# %% name="ex-evaluate" tags=["exercise"] course={"exercise": "10.evaluate"}
def evaluate(model, tokens, batch_size=64):
    """Mean loss in nats, a float, over all characters of tokens (position) but the first.

    No dropout, no gradients. The windows come from
    evaluation_windows(tokens, model.config.context_length, batch_size).
    """
    raise NotImplementedError

# %% name="check-evaluate" tags=["check", "nbval-ignore-output"]
evaluate = check("10.evaluate", evaluate)

# %% [markdown] name="noise-text"
# Why all of it? Many programs take a few random batches, because it is quicker. We train the small model, measure it on the whole
# split, and then forty times on one random batch and forty times on the mean of eight. **Look for** the width of the two
# clouds, and for the two dotted lines: 0.03 apart, they are a difference that one would like to see.

# %% name="noise"
trained = newborn()
good = train(trained, recipe)
whole = evaluate(trained, corpus.validation)

generator = torch.Generator().manual_seed(1)
clouds = {1: [], 8: []}
for batches, losses in clouds.items():
    for _ in range(40):
        inputs, targets = random_windows(corpus.validation, 16 * batches, 32, generator)
        with torch.no_grad():
            losses.append(next_token_loss(trained(inputs), targets).item())

ax = plt.subplots(figsize=(6.4, 2.4))[1]
for row, losses in enumerate(clouds.values()):
    ax.plot(losses, [row] * 40, "o", alpha=0.5)
for loss in (whole, whole + 0.03):
    ax.axvline(loss, linestyle=":", color="gray")
ax.set_yticks([0, 1], ["one batch", "eight batches"])
ax.set_ylim(-0.5, 1.5)
ax.set_xlabel("validation loss (nats per character)")
plt.show()

# %% name="noise-shown"
spread = {batches: torch.tensor(losses).std().item() for batches, losses in clouds.items()}
assert [list(line.get_xdata()) for line in ax.lines[:2]] == list(clouds.values())
assert 0.04 < spread[1] < 0.1 and 0.01 < spread[8] < 0.04, "about 0.07, and about a third"
wrong = {k: sum(a > b + 0.03 for a in c for b in c) / 40**2 for k, c in clouds.items()}
assert 0.3 < wrong[1] < 0.45 and 0.1 < wrong[8] < 0.3, "how often the worse model looks better"
assert 2.4 < whole < 2.65 and evaluate(trained, corpus.validation) == whole

# %% [markdown] name="noise-answer"
# One batch scatters by about 0.07 around the truth, eight by about a third of it: eight times the characters, √8 times the
# certainty. Give two models, the second worse by 0.03, a batch each: in four of ten pairs of points the worse one looks better, and with
# eight batches still in two of ten. The whole split gives the same number each time, here in about a second. (It does not take away the luck of the
# run itself, to which we come; and it is one text: on another the number would be another one.)

# %% [markdown] name="curves-text"
# ## Break it: read a loss curve
#
# The same model, the same windows, the same 150 steps; in each run but the first one thing of the recipe is wrong. **Before you run it**, draw
# with your finger: what does a rate look like that is thirty times too low? Ten times too high? A right one without warm-up? The
# dotted line is what it costs to know how frequent each character is, and nothing else.

# %% name="break-recipe"
from course_lib.plots.curves import trailing_mean

recipes = {
    "right": recipe,
    "rate 0.0003": replace(recipe, learning_rate=0.0003, minimum_rate=0.00003),
    "rate 0.1": replace(recipe, learning_rate=0.1, minimum_rate=0.01),
    "no warm-up": replace(recipe, warmup_steps=0),
}
curves = {name: good if name == "right" else train(newborn(), r) for name, r in recipes.items()}

share = torch.bincount(text) / len(text)
ax = plt.subplots()[1]
for name, losses in curves.items():
    ax.plot(trailing_mean(losses, 20), label=name)
ax.axhline(-(share * share.log()).sum().item(), linestyle=":", color="gray")
ax.set_xlabel("step")
ax.set_ylabel("training loss, mean of 20 steps")
ax.legend()
plt.show()

# %% name="break-recipe-shown"
endings = {line.get_label(): line.get_ydata()[-1] for line in ax.lines}
assert list(ax.lines[0].get_ydata()) == trailing_mean(good, 20) and endings["right"] < 2.6
assert all(endings[name] > endings["right"] + 0.3 for name in recipes if name != "right")
frequencies = ax.lines[-1].get_ydata()[0]
assert 3.2 < frequencies < 3.4 and abs(ax.lines[3].get_ydata()[40] - frequencies) < 0.15
assert all(abs(loss - frequencies) < 0.3 for loss in ax.lines[2].get_ydata()[30:])

# %% [markdown] name="curves-answer"
# **Too low** is the smooth, late one: no jump, no hurry, and the schedule ends before it has got anywhere. **Too high** falls fast
# for a dozen steps and then stays near the dotted line: the first large steps have thrown the model to a place where it knows the
# characters' frequencies and little else, and it does not find back. **Without warm-up**, the right rate does the same, crawls out, and has lost
# the race. (The difference is many times that between two seeds, which you will see below. Other settings do without a warm-up, such as lesson 08's
# Pre-LN models at a fifth of this rate. The corner at step 20 is the averaging's: there the very first losses leave the mean.)
#
# One more, the most important. We give the same model only 1,000 characters to learn from. **Look for** the step at which the
# two curves part.

# %% name="overfit"
from course_lib.plots import loss_curve

small = Trainer(newborn(), text[:1000], corpus.validation[:10_001], replace(recipe, evaluate_every=10))
history = list(small.run())
measured = [(record.step, record.val_loss) for record in history if record.val_loss]
ax = loss_curve([r.step for r in history], [r.train_loss for r in history], measured)
ax.legend(loc="lower left")
ax.axvline(small.best_step, linestyle=":", color="gray")
plt.show()

# %% name="overfit-shown"
validation = dict(measured)
assert list(ax.lines[0].get_ydata()) == [record.train_loss for record in history]
assert list(ax.lines[1].get_ydata()) == list(validation.values())
assert 10 <= small.best_step <= 50 and validation[small.best_step] == min(validation.values())
assert history[-1].train_loss < 2 and validation[150] > min(validation.values()) + 0.4

# %% [markdown] name="overfit-answer"
# For twenty or thirty steps both fall. Then the training loss goes on falling and the validation loss climbs: the model learns
# these 1,000 characters by heart, and what it learns is not true of other text. This is **overfitting**, and the training
# curve alone looks like a triumph. The dotted line marks the model to keep; a run from the command line keeps it, in a folder
# `best/`. Remedies: more text, a smaller model, dropout, fewer steps.

# %% [markdown] name="resume-text"
# ## Stop, resume, and get the very same run
#
# A long run will be interrupted: a lid closes, a cluster wants its machine back. What must be kept so that it goes on *as if
# nothing had happened*, in a **checkpoint**? Ten steps, everything that changes copied, ten more. Then we go back to the copy, but leave one part
# out. **Predict** for each part: does the next loss (step 11) differ, or only the one after it?

# %% name="resume"
import copy


def start():
    """A model with dropout, what moves it, and what draws its windows; nothing trained yet."""
    model = newborn(dropout=0.2)
    optimizer = torch.optim.AdamW(parameter_groups(list(model.parameters()), 0.1), lr=0.01)
    return model, optimizer, torch.Generator().manual_seed(0)


def go_on(model, optimizer, generator, step):
    """Ten steps more; their losses."""
    losses = []
    for at in range(step, step + 10):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(at, short)
        losses.append(training_step(model, optimizer, *random_windows(text, 16, 32, generator), 1.0))
    return losses

# %% name="break-resume"
model, optimizer, generator = start()
go_on(model, optimizer, generator, step=0)
kept = copy.deepcopy([model.state_dict(), optimizer.state_dict(), generator.get_state()])
dropout = torch.get_rng_state()  # dropout draws from torch's own generator
undisturbed = go_on(model, optimizer, generator, step=10)

for left_out in ("nothing", "weights", "optimiser", "windows", "dropout", "step"):
    model, optimizer, generator = start()
    if left_out != "weights":
        model.load_state_dict(kept[0])
    if left_out != "optimiser":
        optimizer.load_state_dict(copy.deepcopy(kept[1]))
    if left_out != "windows":
        generator.set_state(kept[2])
    if left_out != "dropout":
        torch.set_rng_state(dropout)
    resumed = go_on(model, optimizer, generator, step=0 if left_out == "step" else 10)
    differs = [11 + i for i in range(10) if resumed[i] != undisturbed[i]]
    print(f"without {left_out:10}", f"differs from step {differs[0]} on" if differs else "the very same run")

# %% [markdown] name="resume-answer"
# With everything there, all ten losses are equal to the last bit (`!=` compares them so), on one machine with the same software. Weights, windows and dropout show at once. The
# optimiser's averages and the step, which decides the rate, take part in the *update*, so they show one step later; and
# had we kept only the weights, no error message would ever have told us.
#
# The library keeps all of it, with the number of threads besides, because another number adds up in another order:

# %% name="resume-library"
whole_run = [r.train_loss for r in Trainer(newborn(dropout=0.2), text, corpus.validation, short).run()]

first = Trainer(newborn(dropout=0.2), text, corpus.validation, short)
for record in first.run():
    if record.step == 10:
        break  # the lid closes
state = copy.deepcopy([first.model.state_dict(), first.state_dict()])

second = Trainer(newborn(dropout=0.2), text, corpus.validation, short)
second.model.load_state_dict(state[0])
second.load_state_dict(state[1])
print("the very same run:", [record.train_loss for record in second.run()] == whole_run[10:])

# %% [markdown] name="presets-text"
# ## Better recipes, one line at a time
#
# `plain` is the recipe one finds in most tutorials, and the yardstick of this course. `quick` reaches about its loss in
# a fraction of the time. A recipe is data, so we can ask for the difference:

# %% name="presets"
from course_lib.training.presets import get_preset

plain, quick = get_preset("plain"), get_preset("quick")
shape = {"vocab_size": corpus.tokenizer.vocab_size}
before = GPTConfig(**shape, **plain.model).to_dict() | plain.training.to_dict()
after = GPTConfig(**shape, **quick.model).to_dict() | quick.training.to_dict()
for field in before:
    if before[field] != after[field]:
        print(f"{field:15} {before[field]!s:>10}  →  {after[field]}")

# %% [markdown] name="one-change-text"
# (`d_ff`, the width of the feed-forward, is 4 × 128 = 512 where it says None.) [Lesson 11](11_train_on_a_gpu.ipynb) measures what each line brings. One of them here, on our small model: **Muon** (Jordan et al. 2024),
# which instead of adapting the rate to each number turns the averaged gradient of each matrix into a matrix that stretches all directions
# alike. Twice each, with two seeds: a difference is only one if it is larger than that between seeds. (Two are the least; and a
# fair contest gives each its best rate. Try 0.005 for AdamW: it gains a little, far less than this.)

# %% name="one-change" tags=["nbval-ignore-output"]
runs = {("adamw", 0): whole}
for optimizer, seed in (("adamw", 1), ("muon", 0), ("muon", 1)):
    trainer = Trainer(newborn(seed), text, corpus.validation, replace(recipe, optimizer=optimizer, seed=seed))
    runs[optimizer, seed] = list(trainer.run())[-1].val_loss
for (optimizer, seed), loss in runs.items():
    print(f"{optimizer:6} seed {seed}: validation loss {loss:.2f}")

# %% name="one-change-bounds"
seeds = max(abs(runs[name, 0] - runs[name, 1]) for name in ("adamw", "muon"))
gain = sum(runs["adamw", seed] - runs["muon", seed] for seed in (0, 1)) / 2
print("Muon gains more than twice the difference between seeds:", gain > 2 * seeds)
assert 0.1 < gain < 0.25 and seeds < 0.06

# %% [markdown] name="real-text"
# ## The real run
#
# Now `quick` as it is, a wider model with twice the context, for 240 steps. It takes half a minute or less on one thread. First we keep a
# sample of what the newborn writes, and what our sentence costs it; then the run. In a live notebook it has a dashboard, with new samples beside the curve: **look for** what comes
# first, words, lines or speakers. And look for the orange points, the loss on the whole validation split: above or below the blue line?
# (Pause holds the run and Stop ends it after a whole step; Resume goes on. The cell ends at once, so the next one waits for the run.)

# %% name="before"
from course_lib.generation import Sampling, generate_text


def sample(model, length=200):
    """What it writes after ROMEO: and a line break, rather safely (lesson 12 explains how)."""
    written = generate_text(model, corpus.tokenizer, "ROMEO:\n", length, Sampling(temperature=0.6), seed=4)
    return "".join(written)


@torch.no_grad()
def riddle_costs(model):
    """Mean surprise, in nats, at the characters of the course's sentence."""
    tokens = corpus.tokenizer.encode("The animal did not cross the road because it was too tired.")[None]
    return next_token_loss(model.eval()(tokens[:, :-1]), tokens[:, 1:]).item()


torch.manual_seed(0)
model = GPT(GPTConfig(**shape, **quick.model))
noise, riddle_before = sample(model, 80), riddle_costs(model)

# %% name="real-run" tags=["nbval-ignore-output"]
from course_lib.explorers.training_run import watch

trainer = Trainer(
    model, text, corpus.validation, replace(quick.training, evaluate_every=120), test_tokens=corpus.test
)
run = watch(trainer, corpus.tokenizer, prompt="ROMEO:\n")

# %% name="after" tags=["nbval-ignore-output"]
history = run.wait().trainer.history
assert len(history) == quick.training.steps, "stopped: press Resume, then run this cell again"
verse = sample(model)
print(noise, verse, sep=f"\n\n--- after {len(history)} steps ---\n\n")
result = trainer.result()
print(f"\n{result['parameters']:,} parameters")
print(f"validation {result['val_loss']:.2f}, test {result['test_loss']:.2f} nats per character")
riddle_after = riddle_costs(model)
print(f"“The animal did not cross …”: {riddle_before:.2f} before, {riddle_after:.2f} after")

# %% [markdown] name="real-answer"
# From noise to something with lines and mostly English words. The lengths of words and lines and the speakers in capitals came first, within
# the first hundred steps; then more and more of the words were words. The test split, the rest of *The Tempest*, has been looked at
# once, now. Our sentence, which no play of his has, cost the newborn an even guess, 4.14 nats a character, and costs it about
# 2.0 now, a little more than the plays. (It learned to spell. Whether it knows *who* was tired, this number does not say.)
#
# The last point lies above the line. Overfitting, already? **Predict**: what would the loss be on training text that the run has never
# read? Its generator can be wound back, so we can say which that is.

# %% name="never-read" tags=["nbval-ignore-output"]
generator = torch.Generator().manual_seed(quick.training.seed)
was_read, places = torch.zeros(len(text), dtype=torch.bool), torch.arange(len(text))
for _ in range(quick.training.steps):  # the run's own windows once more, as places
    windows = random_windows(places, quick.training.batch_size, model.config.context_length, generator)
    was_read[windows[1]] = True  # what was a target
print(f"read in training: {was_read.float().mean():.0%} of the training split")

surprises, model = [], model.eval()
with torch.no_grad():
    for inputs, targets in evaluation_windows(text[:100_001], model.config.context_length, 64):
        logits = model(inputs).flatten(0, 1)
        surprises.append(cross_entropy(logits, targets.flatten(), reduction="none"))
surprises, read = torch.cat(surprises), was_read[1:100_001]
losses = {"read": surprises[read].mean().item(), "never read": surprises[~read].mean().item()}
for name, loss in losses.items():
    print(f"{name:10} {loss:.2f}")

# %% name="real-run-bounds"
import re

assert abs(history[0].train_loss - math.log(63)) < 0.1
assert sum(r.train_loss for r in history[-20:]) / 20 < result["val_loss"], "the point lies above"
assert 1.8 < result["val_loss"] < 1.95 and 1.7 < result["test_loss"] < 2.1
words = set(re.findall("[a-z]+", corpus.tokenizer.decode(text).lower()))
known = [word in words for word in re.findall("[a-z]+", verse.lower())]
print("most of its words are words:", sum(known) > 0.6 * len(known))
assert 0.1 < was_read.float().mean() < 0.5, "most of the training split was never read"
assert losses["never read"] < result["val_loss"] - 0.08, "and is easier than the validation split"
assert -0.02 < losses["never read"] - losses["read"] < 0.1, "hardly harder than what was read"
assert abs(riddle_before - math.log(63)) < 0.1, "the sentence, before and after"
assert result["val_loss"] < riddle_after < 2.2

# %% [markdown] name="never-read-answer"
# Hardly: what the run never read costs it little more than what it read. The validation split is harder for another reason. It is
# other plays, with names and words of their own. A gap between the two curves may come from either; what tells overfitting is a
# validation loss that *rises*.
#
# ## From the command line
#
# `laptop` is a larger and longer run of the same kind, and goes well below this loss in some minutes of a laptop's CPU. Long
# runs are better started from a terminal, in the course's folder, where they outlive the notebook. (First, once in each terminal,
# `source .venv/bin/activate`, on Windows `.venv\Scripts\activate`.)
#
# ```
# python -m course_lib train --corpus shakespeare --preset laptop --out work/runs/mine --stop-after 300
# python -m course_lib train --out work/runs/mine --resume
# python -m course_lib generate --checkpoint work/runs/mine --prompt "ROMEO:"
# ```
#
# `--stop-after` ends a run as an interrupt would; Ctrl-C does the same. The folder then holds `last/`, from which `--resume` goes
# on, and `best/`, the weights with the lowest validation loss.
#
# In a notebook, `run = train_live("runs/mine", corpus="shakespeare", preset="laptop")` from `course_lib.explorers.training_run` trains into such a
# folder too, on a dashboard; its Stop is the interrupt, and Resume, or `train_live("runs/mine", resume=True)` another day, goes on.

# %% [markdown] name="practice"
# ## In practice
#
# **Which rate?** Try a few, a factor of three apart, for a short while. A rule of thumb: a little below the one that breaks.
#
# **Batches too large for the memory** are computed in pieces: several `backward()` before one `step()`, each loss divided by the number
# of pieces. That is why gradients add up.
#
# **Clipping and AdamW.** AdamW divides by the gradient's usual size, so a factor that is always the same changes nothing. Clipping
# helps against the gradient that is *un*usually large.
#
# **Large models** see most of their text once or less (GPT-3: Brown et al. 2020, table 2.2), so overfitting is seldom their trouble. They
# have losses that jump, and runs that take weeks: they keep a checkpoint every so often, and resume.
#
# **Same numbers elsewhere?** Another processor or another number of threads adds in another order. The last bits differ, and
# training makes such differences grow.

# %% [markdown] name="recap"
# ## Recap
#
# 1. A new model knows nothing, so its first **loss** is about ln V: here ln 63 = 4.14.
# 2. A **step**: training mode, loss, forget the old gradient, `backward`, clip the whole of it, `step`. Gradients add up unless forgotten.
# 3. **AdamW** divides each gradient's average by its usual size, so its first step moves everything by the full rate: **warm up**.
# 4. Measure on the **whole validation split**, dropout off, each character once; a random batch is off by 0.07. A difference no
#    larger than that between seeds is none.
# 5. Smooth and far above at the end: too slow. Stuck where it knows frequencies only: too fast, or no warm-up. Validation rising while training falls:
#    **overfitting**.
# 6. To resume, keep weights, the optimiser's averages, all random generators, and the step.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions, the last one with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("10")

# %% [markdown] name="sources"
# ## Sources
#
# - Kingma, Ba 2014, *Adam*, [arXiv 1412.6980](https://arxiv.org/abs/1412.6980): the two averages and their correction, in one page of
#   algorithm. Loshchilov, Hutter 2019, [arXiv 1711.05101](https://arxiv.org/abs/1711.05101): why decay stands apart from the gradient, the W of AdamW.
# - Loshchilov, Hutter 2017, *SGDR*, [arXiv 1608.03983](https://arxiv.org/abs/1608.03983): the cosine, there with restarts; Hägele et al. 2024,
#   [arXiv 2405.18392](https://arxiv.org/abs/2405.18392): a constant rate with a short fall does as well, and can be prolonged.
# - Ma, Yarats 2019, [arXiv 1910.04209](https://arxiv.org/abs/1910.04209): warm-up explained by the size of Adam's first updates.
# - Pascanu, Mikolov, Bengio 2013, [arXiv 1211.5063](https://arxiv.org/abs/1211.5063): gradients that explode, and clipping their norm.
# - Karpathy 2019, [*A Recipe for Training Neural Networks*](https://karpathy.github.io/2019/04/25/recipe/): look at the data, check the
#   first loss, overfit one batch, and much more of the kind.
# - Jordan et al. 2024, [*Muon*](https://kellerjordan.github.io/posts/muon/): the optimiser of `quick`, for matrices alone.

# %% [markdown] name="next"
# ## Next
#
# **[Lesson 11](11_train_on_a_gpu.ipynb)** takes this loop to the whole machine: lower precision, compiled kernels, a GPU where there is one, and Tang poetry. It measures
# what each line of a recipe brings.
