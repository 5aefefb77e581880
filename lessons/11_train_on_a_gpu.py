# %% [markdown] name="title"
# # Train it for real: what a GPU does, and what a recipe does
#
# Lesson 11 · [00 Start here](00_start_here.ipynb) · before: [10 Train it](10_train_it.ipynb) · next: [12 Generate](12_generate.ipynb)

# %% [markdown] name="goals"
# **What you will do.** Train on Shakespeare and on Tang poetry with all that your machine has, and measure what each trick
# brings. Everything runs without a GPU, smaller; with one, the same cells use it.
#
# **Afterwards you can**
#
# 1. work out how much arithmetic a training is, and what share of a device's speed yours uses;
# 2. say what 16 bits cost and where 32 are needed, and scale a loss so that small gradients survive;
# 3. tell a trick that saves work from one that learns more, by changing one thing at a time;
# 4. compare losses of texts with different alphabets;
# 5. count whether a poem keeps its form;
# 6. share a batch among several GPUs and get the same step.
#
# **What you need.** The loop of [lesson 10](10_train_it.ipynb). **Time:** 60 minutes, 22 of them for four exercises.

# %% name="setup"
import math
import time

import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson, choose_device

begin_lesson("11")

# %% [markdown] name="question"
# ## Eleven hours, or five seconds
#
# The preset `gpu` of this course is a GPT of some ten million parameters, for 1,500 steps of 64 windows of 256 characters. How
# long does that take? On an ordinary processor core, half a day; on a large GPU, seconds. We can know that before we start, for
# a training is a known amount of arithmetic: nearly all of it is matrix products.
#
# A product of a (7, 3) and a (3, 5) matrix makes 7 · 5 numbers, each from 3 multiplications and 3 additions: 2 · 7 · 3 · 5
# **FLOPs** (floating-point operations, lesson 05). Seen as a layer: 2 for each *parameter* and each row that passes. And
# backward? **Predict**: how many times as many as forward?

# %% name="flops-tiny"
from torch.utils.flop_counter import FlopCounterMode

by_loop = sum(2 for row in range(7) for column in range(5) for _ in range(3))

rows = torch.randn(7, 3, requires_grad=True)
layer = torch.nn.Linear(3, 5, bias=False)
counts = {}
with FlopCounterMode(display=False) as counter:
    output = layer(rows)
    counts["forward"] = counter.get_total_flops()
    output.sum().backward()
    counts["backward"] = counter.get_total_flops() - counts["forward"]
print(f"by loop {by_loop}, by PyTorch's counter {counts['forward']}; backward {counts['backward']}")
assert by_loop == counts["forward"] == 2 * 15 * 7 and counts["backward"] == 2 * counts["forward"]

# %% [markdown] name="formula"
# Twice: one product gives the gradient of the parameters, another one that of the input. So each parameter costs **6 FLOPs
# a token**, 2 forward and 4 backward. Attention has products without parameters: with T tokens in sight, scores and mixing take
# 2 · 2 · T · d_model a token and layer, and thrice that with backward:
#
# $$F_\text{token} = 6\,N + 12\,L\,d\,T, \qquad F_\text{training} = F_\text{token} \cdot \text{steps} \cdot B \cdot T, \qquad
# \text{seconds} = \frac{F_\text{training}}{\text{MFU} \cdot \text{peak}}$$
#
# | symbol | in code | is |
# |---|---|---|
# | $N$ | `parameters` | the parameters that take part in products (an embedding that is only looked up does not) |
# | $L, d, T$ | `n_layers`, `d_model`, `context_length` | layers, width, tokens of a window |
# | $B$ | `batch_size` | windows in a step |
# | peak | `peak` | FLOPs a second that the device can do at most |
# | MFU | `utilisation` | **model FLOPs utilisation**: the share of the peak that the training gets |
#
# (Chowdhery et al. 2022, appendix B. The causal half of attention that nobody reads is counted as if it were computed, a custom.)
#
# **Exercise 11.flops · ★ · 5 min.**

# %% name="ex-flops" tags=["exercise"] course={"exercise": "11.flops"}
def training_flops(parameters, n_layers, d_model, context_length, steps, batch_size):
    """FLOPs of a whole training, forward and backward, by the formula above."""
    raise NotImplementedError

# %% name="check-flops" tags=["check", "nbval-ignore-output"]
training_flops = check("11.flops", training_flops)

# %% name="gpu-work"
from course_lib.data.corpora import DATA_FOLDER, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.training.presets import get_preset

corpora = {name: load_corpus(name) for name in ("shakespeare", "tang")}


def newborn(preset, corpus, seed=0, device="cpu"):
    """A GPT of this preset's shape, before training."""
    torch.manual_seed(seed)
    return GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **preset.model)).to(device)


def work_of(preset, corpus):
    """FLOPs of a whole training by this preset."""
    model, recipe = newborn(preset, corpus), preset.training
    parameters = count_parameters(model) - model.token_embedding.weight.numel() * (not model.config.tied_head)
    shape = (model.config.n_layers, model.config.d_model, model.config.context_length)
    return training_flops(parameters, *shape, recipe.steps, recipe.batch_size)


for name in ("quick", "plain", "laptop", "gpu"):
    print(f"{name:7} {work_of(get_preset(name), corpora['shakespeare']):.1e} FLOPs")

# %% [markdown] name="peak-text"
# And what can your device do? We let it multiply large matrices, its best discipline. That is the **peak** we hold the training
# against; makers' data sheets name higher ones.

# %% name="peak" tags=["nbval-ignore-output"]
device = choose_device()


def wait():
    """A GPU works on while Python goes on: before a clock is read, let it finish."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def measured_peak(dtype, size=1024 if device.type == "cpu" else 8192):
    a = torch.randn(size, size, device=device).to(dtype)
    seconds = []
    for _ in range(4):
        wait()
        start = time.perf_counter()
        a @ a
        wait()
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / min(seconds)


peak = measured_peak(torch.float32)
hours = work_of(get_preset("gpu"), corpora["shakespeare"]) / peak / 3600
print(f"device {device}, {torch.get_num_threads()} thread(s): {peak / 1e9:,.0f} billion FLOPs a second in float32")
print(f"preset gpu, if nothing else took time: {hours:.1f} hours; at an H200's 989,000 billion, {hours * 3600 * peak / 989e12:.0f} s")

# %% name="peak-bound"
assert peak > 1e8 and 1e15 < work_of(get_preset("gpu"), corpora["shakespeare"]) < 3e15

# %% [markdown] name="bits-text"
# ## Fewer bits
#
# Where does a GPU get such a speed from? Thousands of small arithmetic units, and, for the most part, **16 bits** in place of 32: half the
# memory to move, and units made for it. There are two ways to spend 16 bits, and both give something up. **Predict** what becomes of 1.001, of
# 70,000 and of 0.00000001 in each.

# %% name="formats"
formats = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
print(f"{'':10}{'1.001':>12}{'70,000':>12}{'1e-8':>12}{'next after 1':>15}{'smallest normal':>18}")
for name, dtype in formats.items():
    stored = [torch.tensor(x).to(dtype).item() for x in (1.001, 70_000.0, 1e-8)]
    info = torch.finfo(dtype)
    print(f"{name:10}" + "".join(f"{x:12.6g}" for x in stored) + f"{1 + info.eps:15.6g}{info.smallest_normal:18.1e}")

# %% [markdown] name="formats-answer"
# **float16** is fine-grained and short-sighted: 70,000 is infinite, and 10⁻⁸ is nothing. **bfloat16** has the range of float32 and steps of nearly
# one percent: 1.001 is 1. So products are computed in 16 bits and what must not be lost is kept in 32: this is **mixed precision**
# (Micikevicius et al. 2018).
#
# ## Break it: weights in 16 bits
#
# A weight near 1 and a step of 0.001: in bfloat16 the weight stays where it is. Does that happen to a whole training? We train the same
# model twice; the second time, each weight is rounded to bfloat16 after every step, as if it were *stored* so. Only that differs.

# %% name="break-weights" tags=["nbval-ignore-output"]
from dataclasses import replace

from course_lib.training.trainer import Trainer

small = replace(get_preset("plain").training.adapted(steps=150), batch_size=8, evaluate_every=150)
shape = {"context_length": 32, "n_layers": 2, "n_heads": 2, "d_model": 64}
shakespeare = corpora["shakespeare"]


def trained_with(rounded, seed):
    """The mean of the last training losses, and the share of weights that the last step changed."""
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=shakespeare.tokenizer.vocab_size, **shape))
    trainer = Trainer(model, shakespeare.train, shakespeare.validation[:4001], replace(small, seed=seed))
    for record in trainer.run():
        for weight in model.parameters() if rounded else ():
            weight.data.copy_(weight.bfloat16())
        if record.step == 149:
            kept = [weight.detach().clone() for weight in model.parameters()]
    changed = sum((new != old).sum().item() for new, old in zip(model.parameters(), kept, strict=True))
    return sum(r.train_loss for r in trainer.history[-30:]) / 30, changed / count_parameters(model)


endings = {"float32": [trained_with(False, seed) for seed in range(3)],
           "bfloat16": [trained_with(True, seed) for seed in range(3)]}  # fmt: skip
for name, runs in endings.items():
    print(f"weights in {name:9} losses", *(f"{loss:.3f}" for loss, _ in runs), f" the last step changed {runs[0][1]:.0%} of them")

# %% name="break-shown"
for (full, all_move), (half, few_move) in zip(endings["float32"], endings["bfloat16"], strict=True):
    assert half > full + 0.015 and few_move < 0.6 < all_move, "worse with each seed, and most weights stand still"

# %% [markdown] name="break-answer"
# The loss is a little higher with each seed, after 150 steps already; and late in training, when steps are small, most weights no longer move. Hence **master weights** in float32, and copies in 16 bits for the
# products; `torch.autocast` makes those as it goes.
#
# ## Small gradients
#
# bfloat16's range saves gradients from vanishing. GPUs before 2020 have float16 alone. What does a gradient look like at the logits? It is
# (p − 1 or p − 0) / (B · T), and with 64 × 256 tokens in a batch that is small. **Guess** what share of them is 0 in float16.

# %% name="vanish" tags=["nbval-ignore-output"]
from course_lib.data.batches import random_windows
from course_lib.training.checkpoint import load_run

shipped = {name: load_run(DATA_FOLDER / "checkpoints" / name) for name in corpora}
model = shipped["shakespeare"][0].eval()
inputs, targets = random_windows(shakespeare.train, 4, 256, torch.Generator().manual_seed(0))
with torch.no_grad():
    probabilities = model(inputs).softmax(dim=-1)
at_logits = (probabilities - torch.nn.functional.one_hot(targets, probabilities.shape[-1])) / (64 * 256)
for power in (0, 8, 16):
    lost = ((at_logits * 2**power).half() == 0).float().mean()
    print(f"times 2^{power:<2}: {lost:4.0%} of the gradient vanishes in float16")

# %% name="vanish-bound"
vanished = [((at_logits * 2**power).half() == 0).float().mean().item() for power in (0, 16)]
assert vanished[0] > 0.5 > 0.1 > vanished[1]

# %% [markdown] name="ex-unscale-text"
# Most of it, and a factor brings it back: **loss scaling**. The loss is multiplied by a power of two before `backward`, so all gradients
# are; before the step they are divided by it again, in float32. And if the factor was too large, some are infinite: the step is skipped and the
# factor halved. When all goes well for long, it is doubled.
#
# **Exercise 11.unscale · ★★ · 6 min.** What comes between `backward` and the step.

# %% name="ex-unscale" tags=["exercise"] course={"exercise": "11.unscale"}
def unscale(gradients, scale):
    """Scaled gradients in float16 → the gradients in float32, and whether the step may be made.

    gradients: a list of tensors, left as they are. The step may be made if every number is finite.
    Returns the list of float32 tensors, and a bool.
    """
    raise NotImplementedError

# %% name="check-unscale" tags=["check", "nbval-ignore-output"]
unscale = check("11.unscale", unscale)

# %% [markdown] name="ways-text"
# ## What does your device gain?
#
# The library chooses by itself (`precision="auto"`): bfloat16 where it is fast, float16 with a scaler on older GPUs, and on a CPU what a short
# measurement finds. We look at the choices one at a time, tokens a second against plain float32: **fused attention** (one routine in place
# of scores, softmax and product, [lesson 14](14_the_bill.ipynb)), **autocast** to bfloat16, **fused AdamW** (one pass over each parameter), on NVIDIA also
# **torch.compile** (it writes routines for this very model). **Predict** which of them helps on *your* device.

# %% name="ways" tags=["nbval-ignore-output"]
large = device.type == "cuda"
preset = get_preset("gpu" if large else "quick")
plain_way = {"precision": "float32", "fused_adamw": False, "compile": False}
ways = {"plain": ({}, "explicit"), "fused attention": ({}, "fused"), "bfloat16": ({"precision": "bfloat16"}, "explicit"),
        "fused AdamW": ({"fused_adamw": True}, "explicit")}  # fmt: skip
if large:
    ways["compiled, with all"] = ({"precision": "bfloat16", "fused_adamw": True, "compile": True}, "fused")

trainers, speeds = {}, {way: [] for way in ways}
for way, (changes, kernel) in ways.items():
    model = newborn(preset, shakespeare, device=device)
    model.attention_kernel = kernel
    recipe = replace(preset.training, **{**plain_way, **changes})
    trainers[way] = Trainer(model, shakespeare.train, shakespeare.validation, recipe)
    trainers[way].step(0.001)  # the first one takes longer
for _ in range(4):  # in turn, so that whatever else the machine does hits all alike
    for way, trainer in trainers.items():
        wait()
        start = time.perf_counter()
        for _ in range(20 if large else 2):
            trainer.step(0.001)
        wait()
        speeds[way].append((20 if large else 2) / (time.perf_counter() - start))
tokens = preset.training.batch_size * preset.model["context_length"]
per_token = work_of(preset, shakespeare) / preset.training.steps / tokens
for way, all_speeds in speeds.items():
    best = max(all_speeds)
    print(f"{way:18} {best * tokens:9,.0f} tokens/s, {best / max(speeds['plain']):.2f} times plain; "
          f"{best * tokens * per_token / peak:4.0%} of the peak measured above")  # fmt: skip

# %% name="ways-bound"
assert set(speeds) == set(ways) and all(min(each) > 0 for each in speeds.values())

# %% [markdown] name="ways-answer"
# On the CPU on which this page was built, without instructions for bfloat16, half as many bits make it *slower*: each product is converted there and
# back. The two fused ones bring something or nothing: run the cell again, and see how much of it is chance on a machine that does other things, too. Had we
# believed what is true of GPUs, we would have lost time. (On a GPU the share is of the float32 peak, so it may exceed 100 %.) **Measure on your own device**: that is what the library's probe does before a run.
#
# ## What does a recipe gain?
#
# Faster steps are one half. The other: steps that learn more. Lesson 10 ended with the preset `quick`, which comes out near `plain` in less than a tenth of its
# time. What did it? `quick` *is* `plain` with nine changes, and so it is written down:

# %% name="changes"
from course_lib.training.presets import PLAIN, TO_QUICK, steps_of

for number, change in enumerate(TO_QUICK, start=1):
    print(f"{number} {change.name}: " + ", ".join(f"{name}={new}" for name, new in {**change.model, **change.training}.items()))
assert steps_of(PLAIN, TO_QUICK)[-1] == get_preset("quick")

# %% [markdown] name="ladder-text"
# Each change was measured on top of those before it, in whole runs with three seeds. **Before you look**: which three
# bring most? **Look for** changes whose points overlap with those of the line before (they have shown nothing), and for changes
# that make it *worse*.

# %% name="ladder"
from course_lib.data.tables import load_table

table = load_table("plain_to_quick")
for row in table["rows"]:
    low, mid, high = sorted(row["losses"])
    print(f"{mid:.3f} ({low:.3f}–{high:.3f})  {sorted(row['seconds'])[1]:6.1f} s  {row['parameters']:9,} parameters  {row['recipe']}")
print(f"seeds {table['seeds']}, one thread; {table['machine']['processor']}, {table['date']}; {table['command']}")

# %% name="ladder-picture"
figure, ax = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
names = [row["recipe"] for row in table["rows"]]
for place, row in enumerate(table["rows"]):
    ax.plot(row["losses"], [place] * 3, "o", color="tab:blue", alpha=0.6)
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.set_xlabel("validation loss at the end (nats per character), three seeds")
plt.show()

# %% name="ladder-shown"
measured = [row["losses"] for row in table["rows"]]
assert [list(line.get_xdata()) for line in ax.lines] == measured and len(measured) == len(TO_QUICK) + 1
medians = [sorted(losses)[1] for losses in measured]
spent = [sorted(row["seconds"])[1] for row in table["rows"]]
gains = [before - after for before, after in zip(medians, medians[1:])]
print("gained:", *(f"{gain:+.2f}" for gain in gains), f"nats; quick's seconds are {spent[-1] / spent[0]:.0%} of plain's")
assert 0.35 < gains[1] < 0.4 and all(0.09 < gains[n] < 0.13 for n in (2, 5)) and -gains[0] > 0.5
assert min(measured[4]) < max(measured[3]) and min(measured[3]) < max(measured[4]), "ReLU²: the points overlap"
assert min(measured[5]) > max(measured[4]), "outputs from 0: worse with each seed"
assert 0 < gains[6] < 0.03 and 0 > gains[7] > -0.05 and spent[8] < 0.5 * spent[7]
assert abs(gains[8]) < 0.001 and medians[-1] < medians[0] and spent[-1] < 0.1 * spent[0]

# %% [markdown] name="ladder-answer"
# Two changes are *bought with loss*: fewer steps cost half a nat and save seven eighths of the time; half the layers cost 0.03 and save three fifths of what is
# left. Three pay for them: **Muon** (0.37 nats), rotary positions and a head of its own with larger steps (0.11 each).
#
# The rest is less than folklore says. ReLU² shows nothing here: the points overlap. The straight schedule gains hundredths. Outputs that begin at 0, without
# biases, are *worse* with each of the three seeds where they come in, and save a little time. Whether they help once the steps are larger, this table cannot
# say: it measures one order of changes. (Take one change out of `quick` and train: that tells.) And the last line brings nothing on the processor that measured
# it, which has no fast 16 bits. On yours it may.
#
# To compare two recipes, look at the loss for equal time, or the time for equal loss, never at one alone.
#
# One of the changes on your device, for 60 steps: **Muon** against AdamW. AdamW rescales each number by itself; Muon makes the
# whole step of a matrix about equally large in all directions (Jordan et al. 2024).

# %% name="muon-here" tags=["nbval-ignore-output"]
muon_losses = {}
for candidate in steps_of(PLAIN, TO_QUICK)[1:3]:
    recipe = replace(candidate.training.adapted(steps=60), evaluate_every=60)
    model = newborn(candidate, shakespeare, device=device)
    trainer = Trainer(model, shakespeare.train, shakespeare.validation[:20_001], recipe)
    muon_losses[recipe.optimizer] = list(trainer.run())[-1].val_loss
    print(f"{recipe.optimizer:6} after 60 steps: {muon_losses[recipe.optimizer]:.2f}")

# %% name="muon-bound"
assert muon_losses["muon"] < muon_losses["adamw"] - 0.1

# %% [markdown] name="runs-text"
# ## The real runs
#
# Two corpora, Shakespeare and poems of the Tang dynasty. On a GPU the next cell trains ten million parameters on each, for some minutes at most; without one,
# `quick` for 120 steps, so that you see it work. What a long run on a CPU gives comes with the course: two models trained by
# `laptop`, in four and six minutes of one thread.

# %% name="runs" tags=["nbval-ignore-output"]
from course_lib.training.precision import Precision, choose_precision

real = {}
for name, corpus in corpora.items():
    recipe = preset.training if large else replace(preset.training.adapted(steps=120), evaluate_every=120)
    model = newborn(preset, corpus, device=device)
    precision = Precision(choose_precision(recipe.precision, device), device)
    trainer = Trainer(model, corpus.train, corpus.validation, recipe, precision=precision)
    *_, last = trainer.run()
    real[name] = model, last.val_loss
    print(f"{name}: {last.step} steps, {last.seconds:.0f} s, {last.tokens / last.seconds:,.0f} characters/s, "
          f"validation {last.val_loss:.3f}")  # fmt: skip

# %% name="runs-bounds"
for name, corpus in corpora.items():
    assert real[name][1] < 0.75 * math.log(corpus.tokenizer.vocab_size), "far better than an even guess"

# %% [markdown] name="ex-bits-text"
# The loss on Tang verse is far higher. Is Chinese harder, or our model worse at it? An even guess costs ln V nats: ln 63 here, ln 3,002 there. And
# a Chinese character says more than a letter. To compare, one needs the same unit, and the usual one is **bits per** something: 1 nat is
# 1/ln 2 bits, and a loss is a mean over *tokens*, of which a text may have more or fewer than characters or bytes.
#
# **Exercise 11.bits · ★ · 5 min.** A text was cut into `tokens` pieces, and the model's mean loss over them is `loss` nats. How many bits does it
# need for each of the text's `units`, characters or bytes?

# %% name="ex-bits" tags=["exercise"] course={"exercise": "11.bits"}
def bits_per_unit(loss, tokens, units):
    """Bits for each unit of a text of so many units, whose tokens cost `loss` nats on average."""
    raise NotImplementedError

# %% name="check-bits" tags=["check", "nbval-ignore-output"]
bits_per_unit = check("11.bits", bits_per_unit)

# %% name="bits"
import json

for name, corpus in corpora.items():
    result = json.loads((DATA_FOLDER / "checkpoints" / name / "result.json").read_text(encoding="utf-8"))
    tokens = len(corpus.validation)
    in_bytes = len(corpus.tokenizer.decode(corpus.validation).encode("utf-8"))
    per_character = bits_per_unit(result["val_loss"], tokens, tokens)
    print(f"{name:12} {result['val_loss']:.2f} nats = {per_character:.2f} bits per character "
          f"(an even guess: {math.log2(corpus.tokenizer.vocab_size):.2f}), "
          f"{bits_per_unit(result['val_loss'], tokens, in_bytes):.2f} bits per byte of UTF-8")  # fmt: skip

# %% [markdown] name="bits-answer"
# Per character the poems cost two and a half times as much; per byte, less than Shakespeare, since a Chinese character has three bytes in UTF-8. Neither number says which
# language is *harder*, and no loss can be compared across corpora as if it were a mark. Bits per byte compares **models** with different
# vocabularies on the **same** text.
#
# ## Does it keep the form?
#
# Lines of Tang verse have five or seven characters, and a poem keeps to one of them. Nobody told the model. We let the shipped one write, and
# yours, and count. For comparison we shuffle the characters of real poems: as many commas, anywhere. **Guess** the shares of lines of five or seven; then **look for** the bars between five and seven.

# %% name="verse" tags=["nbval-ignore-output"]
import re
from collections import Counter

from course_lib.generation import Sampling, generate_text

tang = corpora["tang"]


def line_lengths(text):
    """How many lines have how many characters; a line ends at a comma, a stop or a line break."""
    return Counter(len(line) for line in re.split(r"[，。？！；：、\n]", text) if line)


def poems(model, length=400, seed=0):
    return "".join(generate_text(model, tang.tokenizer, "\n", length, Sampling(temperature=0.8), seed))


poets = tang.validation[:8000]
shuffled = poets[torch.randperm(len(poets), generator=torch.Generator().manual_seed(0))]
texts = {"poets": tang.tokenizer.decode(poets), "shuffled": tang.tokenizer.decode(shuffled),
         "laptop": poems(shipped["tang"][0]), "yours": poems(real["tang"][0].eval())}  # fmt: skip
shares = {}
for name, text in texts.items():
    lengths = line_lengths(text)
    shares[name] = (lengths[5] + lengths[7]) / lengths.total()
    print(f"{name:8} {shares[name]:4.0%} of {lengths.total()} lines have five or seven characters")
whole = texts["laptop"].split("\n\n")[1:-1]
mixed = [len(line_lengths(poem)) > 1 for poem in whole]
print(f"of {len(whole)} whole poems by laptop, {sum(mixed)} mix lengths. The first:\n{whole[0]}")

# %% name="verse-picture" tags=["nbval-ignore-output"]
figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained", sharey=True)
for ax, (name, text) in zip(axes, texts.items(), strict=True):
    lengths = line_lengths(text)
    ax.bar(range(1, 16), [lengths[n] / lengths.total() for n in range(1, 16)])
    ax.set_title(name)
    ax.set_xlabel("characters in a line")
axes[0].set_ylabel("share of lines")
plt.show()

# %% name="verse-shown"
assert shares["poets"] > 0.95 and shares["laptop"] > 0.85 > 0.4 > shares["shuffled"]
assert len(whole) > 5 and sum(mixed) <= 0.2 * len(whole), "hardly a poem mixes lengths"
assert all(len(ax.patches) == 15 for ax in axes)

# %% [markdown] name="verse-answer"
# The form is there: five or seven, hardly ever six, and hardly a poem mixes them. Shuffled commas give no such lengths. Yours, after a run of its own, is
# on its way or there. Whether it is *poetry* is another question, and counting does not
# answer it. ([Lesson 13](13_look_inside.ipynb) looks for the heads that count.)
#
# ## Several GPUs
#
# One batch, shared: each GPU has a copy of the model, computes the gradient of its rows, and then they **average** and make the same step. This is **data
# parallelism**. On paper: a batch of four rows, a loss that is a mean over rows, and its gradients 1, 3, 5 and 7. Two GPUs with two rows each find (1 + 3)/2 = 2 and
# (5 + 7)/2 = 6, and their mean 4 is the gradient of all four. What if one has three rows and the other has one?
#
# **Exercise 11.together · ★★ · 6 min.** The general case.

# %% name="ex-together" tags=["exercise"] course={"exercise": "11.together"}
def together(gradients, rows):
    """The gradient of the mean loss over all rows, from each process's own.

    gradients: one tensor for each process, the gradient of the mean loss over its rows; rows: how many each had.
    """
    raise NotImplementedError

# %% name="check-together" tags=["check", "nbval-ignore-output"]
together = check("11.together", together)

# %% name="shares-equal"
from course_lib.training.parallel import Team
from course_lib.training.trainer import next_token_loss

model = newborn(get_preset("quick"), shakespeare)
inputs, targets = random_windows(shakespeare.train, 12, 64, torch.Generator().manual_seed(0))


def gradient(inputs, targets):
    model.zero_grad()
    next_token_loss(model(inputs), targets).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


shared = []
for rank in range(4):  # what four GPUs would do at the same time
    team = Team(rank, size=4)
    shared.append(gradient(team.share(inputs), team.share(targets)))
whole = gradient(inputs, targets)
print("four shares together are the whole:", torch.allclose(together(shared, [3, 3, 3, 3]), whole, atol=1e-6))
print(f"each GPU sends {whole.numel() * 4 / 1e6:.1f} million bytes of gradients at every step")

# %% [markdown] name="torchrun-text"
# The command is one line longer than for one GPU. `torchrun` comes with PyTorch; it starts one process for each GPU and tells them their ranks:
#
# ```
# torchrun --standalone --nproc-per-node 4 -m course_lib train --corpus tang --preset gpu --out runs/tang
# ```
#
# Rank 0 measures, saves and speaks. If one process fails, all end, and the first to fail is named. It works on a CPU as well (`--device cpu`), where it saves
# no time and shows that the losses are the same. What it costs is sending the gradients, at every step, over whatever connects the GPUs.
#
# ## What to expect
#
# How long does preset `gpu` take elsewhere? From the FLOPs, if a training gets between 20 and 50 % of a device's peak, a *guess* that makes each of
# these an **estimate**; measured are the two runs of `laptop` that come with the course. Peaks by the makers: NVIDIA's in 16 bits, without
# sparsity; Apple's in float32, in which the course trains there. A CPU core with AVX2 does 32 FLOPs a cycle: 8 numbers, 2 units, and each
# multiplies and adds.

# %% name="bands"
makers = {"NVIDIA T4": 65e12, "NVIDIA RTX 4090": 165e12, "NVIDIA A100": 312e12, "NVIDIA H200": 989e12,
          "Apple M1": 2.6e12, "Apple M1 Max": 10.4e12, "a CPU core of 3 GHz": 3e9 * 32}  # fmt: skip
for name, top in makers.items():
    low, high = (work_of(get_preset("gpu"), shakespeare) / (share * top) / 60 for share in (0.5, 0.2))
    print(f"{name:21} gpu     {low:6.1f} to {high:6.1f} minutes   estimated")
for name in corpora:
    result = json.loads((DATA_FOLDER / "checkpoints" / name / "result.json").read_text(encoding="utf-8"))
    print(f"{'one CPU thread':21} laptop  {result['train_seconds'] / 60:6.1f} minutes             measured, on {name}")

# %% [markdown] name="practice"
# ## In practice
#
# **Nobody has run this course on a GPU yet** when this page was built: the numbers for GPUs above are estimates. If you have one, `python -m benchmarks gpu-training
# gpu-loss` measures it, and we would like to know.
#
# **Apple's GPUs** (`mps`) compute in float32 here. They help with the larger presets; for `quick` the time to start each operation outweighs the gain.
#
# **Small models leave large GPUs idle.** Each operation takes some microseconds to start, whatever its size. Larger batches and `torch.compile`, which joins
# operations, help; a model of half a million parameters never fills an H200.
#
# **Compiling takes a minute or more** before the first step: worth it for runs of many minutes.
#
# **Two threads are not twice as fast**, and on a small shared machine they can be much slower than one: the library finds out by a short race.

# %% [markdown] name="recap"
# ## Recap
#
# 1. A training is 6 FLOPs for each parameter and token, and something for attention. Divided by the time and the device's peak: **MFU**.
# 2. **bfloat16** has range and little precision, **float16** precision and little range. Master weights and sums stay in float32; with float16 the **loss is scaled**.
# 3. A trick either saves time or improves the loss. Change one thing at a time, with several seeds, and look at both.
# 4. Losses of different alphabets compare as **bits per byte** of the same text, and not across texts.
# 5. Verse form can be counted: lines of five or seven characters.
# 6. **Data parallelism** averages the gradients of equal shares and makes the step of the whole batch.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions, the last one with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("11")

# %% [markdown] name="sources"
# ## Sources
#
# - Micikevicius et al. 2018, *Mixed Precision Training*, [arXiv 1710.03740](https://arxiv.org/abs/1710.03740): master weights and loss scaling.
# - Kalamkar et al. 2019, [arXiv 1905.12322](https://arxiv.org/abs/1905.12322): training in bfloat16 without scaling.
# - Chowdhery et al. 2022, *PaLM*, [arXiv 2204.02311](https://arxiv.org/abs/2204.02311): model FLOPs utilisation, in appendix B. Kaplan et al. 2020,
#   [arXiv 2001.08361](https://arxiv.org/abs/2001.08361): 6 FLOPs for each parameter and token.
# - Jordan et al. 2024, [*Muon*](https://kellerjordan.github.io/posts/muon/). So et al. 2021, *Primer*, [arXiv 2109.08668](https://arxiv.org/abs/2109.08668): ReLU², found by search.
# - Li et al. 2020, *PyTorch Distributed*, [arXiv 2006.15704](https://arxiv.org/abs/2006.15704): data parallelism as PyTorch does it.

# %% [markdown] name="next"
# ## Next
#
# The model is trained. **[Lesson 12](12_generate.ipynb)** lets it write: which character to choose, and how to write fast.
