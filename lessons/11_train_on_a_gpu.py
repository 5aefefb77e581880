# %% [markdown] name="title"
# # Train it for real: what a GPU does, and what a recipe does
#
# Lesson 11 · [00 Start here](00_start_here.ipynb) · before: [10 Train it](10_train_it.ipynb) · next: [12 Generate](12_generate.ipynb)

# %% [markdown] name="goals"
# **What you will do.** Train on Shakespeare and on Tang poetry with all that your machine has, and measure what each
# trick brings. Everything runs without a GPU, smaller; with an NVIDIA GPU, the same cells run the large recipe.
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
# ## Half a day, or a few seconds
#
# The preset `gpu` of this course is a GPT of some ten million parameters, trained for 1,500 steps of 64 windows of 256
# characters. How long does that take? On an ordinary processor core, half a day; on a large GPU, seconds. We can know
# that before we start, for a training is a known amount of arithmetic: nearly all of it is matrix products.
#
# A product of a (7, 3) and a (3, 5) matrix makes 7 · 5 numbers, each from 3 multiplications and 3 additions (the first
# is to 0): 2 · 7 · 3 · 5 **FLOPs** (floating-point operations, lesson 05). Seen as a layer with 3 · 5 parameters and 7
# rows, that is 2 FLOPs for each parameter and each row that passes. A row is a token, so forward costs 2 FLOPs a
# parameter and token. And backward? **Predict**: how many times as many as forward? PyTorch has a counter that watches
# every product.

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
# Twice: one product gives the gradient of the parameters, another one that of the input. So each parameter costs **6
# FLOPs a token**, 2 forward and 4 backward. Attention has products without parameters. A token's query meets T keys of
# d numbers in all heads together: 2 · T · d for the scores, and as much again for mixing the values; thrice that with
# backward makes 12 · T · d in each layer:
#
# $$F_\text{token} = 6\,N + 12\,L\,d\,T, \qquad F_\text{training} = F_\text{token} \cdot \text{steps} \cdot B \cdot T$$
#
# $$\text{seconds} = \frac{F_\text{training}}{\text{MFU} \cdot \text{peak}}$$
#
# | symbol | in code | is |
# |---|---|---|
# | $N$ | `parameters` | those of the matrices that tokens are multiplied by (an embedding that is only looked up is none) |
# | $L, d, T$ | `n_layers`, `d_model`, `context_length` | layers, width, tokens of a window |
# | $B$ | `batch_size` | windows in a step |
# | peak | `peak` | FLOPs a second that the device can do at most |
# | MFU | `share` | **model FLOPs utilisation**: the share of the peak that the training gets |
#
# (Chowdhery et al. 2022, appendix B. The half of attention that the causal mask hides is counted as if it were needed:
# a custom.)

# %% [markdown] name="ex-flops-text"
# On paper: 1,000 parameters, 2 layers of width 16, windows of 8 tokens. A token costs 6 · 1,000 + 12 · 2 · 16 · 8 =
# 9,072 FLOPs. Ten steps of 4 windows train on 10 · 4 · 8 = 320 tokens, so all costs 2,903,040.
#
# **Exercise 11.flops · ★ · 5 min.** The same for any training.

# %% name="ex-flops" tags=["exercise"] course={"exercise": "11.flops"}
def training_flops(parameters, n_layers, d_model, context_length, steps, batch_size):
    """FLOPs of a whole training, forward and backward, by the formula above."""
    raise NotImplementedError

# %% name="check-flops" tags=["check", "nbval-ignore-output"]
training_flops = check("11.flops", training_flops)

# %% name="gpu-work"
from course_lib.data.batches import random_windows
from course_lib.data.corpora import DATA_FOLDER, load_corpus
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.training.presets import get_preset
from course_lib.training.trainer import Trainer, next_token_loss

corpora = {name: load_corpus(name) for name in ("shakespeare", "tang")}
shakespeare, tang = corpora.values()


def newborn(preset, corpus, seed=0, device="cpu"):
    """A GPT of this preset's shape, before training."""
    torch.manual_seed(seed)
    return GPT(GPTConfig(vocab_size=corpus.tokenizer.vocab_size, **preset.model)).to(device)


def work_of(preset, corpus):
    """FLOPs of a whole training by this preset."""
    model, recipe = newborn(preset, corpus), preset.training
    matrices = [part.weight for part in model.modules() if isinstance(part, torch.nn.Linear)]
    shape = (model.config.n_layers, model.config.d_model, model.config.context_length)
    return training_flops(sum(m.numel() for m in matrices), *shape, recipe.steps, recipe.batch_size)


work = {name: work_of(get_preset(name), shakespeare) for name in ("quick", "plain", "laptop", "gpu")}
for name, flops in work.items():
    print(f"{name:7} {flops:.1e} FLOPs")

# %% [markdown] name="counted-text"
# 1.7 · 10¹⁵ for `gpu`. Is the formula true of a real model, with all its parts? We let PyTorch count one step of
# `quick`, forward and backward. (With attention written out, so that the counter sees every product.)

# %% name="counted"
quick = get_preset("quick")
model = newborn(quick, shakespeare)
model.attention_kernel = "explicit"
inputs, targets = random_windows(shakespeare.train, 2, 64, torch.Generator().manual_seed(0))
with FlopCounterMode(display=False) as counter:
    next_token_loss(model(inputs), targets).backward()
counted, share_of_run = counter.get_total_flops(), 2 / (quick.training.steps * quick.training.batch_size)
print(f"counted {counted:,}; by the formula {work['quick'] * share_of_run:,.0f}")
assert counted == round(work["quick"] * share_of_run)

# %% [markdown] name="peak-text"
# To the last operation. (Norms, softmax and the like are not products, and next to nothing.)
#
# ## What a GPU is
#
# A processor core works through a program quickly, on a few numbers at a time. A **GPU** has thousands of small
# arithmetic units that do the same to different numbers. Matrix products are made for it: each number of the result is
# a sum of its own, and none waits for another. Three things follow for our code:
#
# - A GPU has its **own memory**. Models and tensors are moved there with `.to(device)`, and an operation whose inputs
#   lie in two memories is an error, the first that everybody meets.
# - It **works on while Python goes on**: Python only queues the operations. Before a clock is read, one has to wait
#   until the queue is empty.
# - **Starting** an operation takes some microseconds, however small it is. Few and large ones are what a GPU likes.
#
# PyTorch's device `meta` holds shapes and no numbers, so you can meet that error here, GPU or not:

# %% name="on-device"
device = choose_device()  # "cuda" for an NVIDIA GPU, else "mps" for an Apple one, else "cpu"
model = newborn(quick, shakespeare).to(device)
print("both moved:", tuple(model(inputs.to(device)).shape))
try:
    newborn(quick, shakespeare)(inputs.to("meta"))
except RuntimeError as error:
    print("one left behind: RuntimeError, about a device:", "device" in str(error))

# %% [markdown] name="peak-what"
# How fast is your device? We let it multiply large matrices, its best discipline. That is the **peak** we hold the
# training against; makers' data sheets name higher ones.

# %% name="peak" tags=["nbval-ignore-output"]
# a CPU's own time, which other programs change little; a GPU has only the clock on the wall
clock = time.process_time if device.type == "cpu" else time.perf_counter


def wait():
    """Let a GPU finish what is in its queue."""
    if device.type != "cpu":
        getattr(torch, device.type).synchronize()


def measured_peak(dtype, size=1024 if device.type == "cpu" else 8192):
    """FLOPs a second of a product of large matrices; the best of four."""
    a = torch.randn(size, size, device=device).to(dtype)
    seconds = []
    for _ in range(4):
        wait()
        start = clock()
        a @ a
        wait()
        seconds.append(clock() - start)
    return 2 * size**3 / min(seconds)


peak = measured_peak(torch.float32)
print(f"device {device.type}, {torch.get_num_threads()} thread(s): {peak / 1e9:,.0f} billion FLOPs a second in float32")
print(f"preset gpu at this speed, all the time: {work['gpu'] / peak / 3600:.1f} hours; "
      f"at the 989,000 billion of an NVIDIA H200: {work['gpu'] / 989e12:.0f} s")  # fmt: skip

# %% [markdown] name="bits-text"
# ## Fewer bits
#
# Where does a GPU get such a speed from? From its many units, and, for the most part, from **16 bits** in place of 32:
# half the memory to move, and units made for them. There are two ways to spend 16 bits, and both give something up.
# **Predict** what becomes of 1.001, of 70,000 and of 0.00000001 in each.

# %% name="formats"
formats = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
print(f"{'':10}{'1.001':>12}{'70,000':>12}{'1e-8':>12}{'next after 1':>15}{'smallest normal':>18}")
for name, dtype in formats.items():
    stored = [torch.tensor(x).to(dtype).item() for x in (1.001, 70_000.0, 1e-8)]
    info = torch.finfo(dtype)
    print(f"{name:10}" + "".join(f"{x:12.6g}" for x in stored) + f"{1 + info.eps:15.8g}{info.smallest_normal:18.1e}")
assert peak > 1e8 and 1e15 < work["gpu"] < 3e15  # of the cell before

# %% [markdown] name="formats-answer"
# (Lessons 03 and 07 met both.) **float16** spends its bits on precision: 1.001 is nearly right, but 70,000 is infinite and 10⁻⁸ is nothing.
# **bfloat16** spends them on range, that of float32, with steps of nearly one percent: 1.001 is 1. So products are
# computed in 16 bits, and what must not be lost is kept in 32: this is **mixed precision** (Micikevicius et al. 2018).
#
# ## Break it: weights in 16 bits
#
# What must not be lost? A weight near 1 and a step of 0.001: in bfloat16 the weight stays where it is. Does that happen
# to a whole training? We train the same model twice; the second time, each weight is rounded to bfloat16 after every
# step, as if it were *stored* so. Only that differs. **Predict**: does it learn nothing, a little less, or the same?

# %% name="break-weights" tags=["nbval-ignore-output"]
from dataclasses import replace

small = replace(get_preset("plain").training.adapted(steps=150), batch_size=8, evaluate_every=150)
shape = {"context_length": 32, "n_layers": 2, "n_heads": 2, "d_model": 64}


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
    print(f"weights in {name:9} losses", *(f"{loss:.3f}" for loss, _ in runs),
          f" the last step changed {runs[0][1]:.0%} of them")  # fmt: skip

# %% name="break-shown"
for (full, all_move), (half, few_move) in zip(endings["float32"], endings["bfloat16"], strict=True):
    assert half > full + 0.015 and few_move < 0.6 < all_move, "worse with each seed, and most weights stand still"

# %% [markdown] name="break-answer"
# A little less, with each of the three seeds, after 150 steps already; and at the end, when steps are small, most
# weights no longer move. Hence **master weights** in float32, and copies in 16 bits for the products. `torch.autocast`
# makes these as it goes: inside its `with` block each product converts what it reads.

# %% name="autocast"
layer = torch.nn.Linear(3, 5)
with torch.autocast("cpu", dtype=torch.bfloat16):
    output = layer(torch.randn(7, 3))
output.float().sum().backward()  # the loss, a sum of many numbers, in float32
for name, tensor in {"weight": layer.weight, "output": output, "gradient": layer.weight.grad}.items():
    print(f"{name:8} {tensor.dtype}")
assert output.dtype == torch.bfloat16 and layer.weight.dtype == layer.weight.grad.dtype == torch.float32

# %% [markdown] name="vanish-text"
# Three lines are all it takes: the forward pass inside the block, the loss outside and in float32, backward as ever.
#
# ## Small gradients
#
# bfloat16's range saves gradients from vanishing. NVIDIA's GPUs before 2020 have float16 alone. What does a gradient
# look like, at the logits, where it begins? For each token and character it is p − 1 if that character came and p if it
# did not, divided by the B · T tokens that the loss is a mean over; and 64 · 256 tokens make that small. **Guess** what
# share of these numbers is 0 in float16, and what multiplying by 2⁸ or 2¹⁶ changes.

# %% name="vanish" tags=["nbval-ignore-output"]
from course_lib.training.checkpoint import load_run

shipped = {name: load_run(DATA_FOLDER / "checkpoints" / name) for name in corpora}
model = shipped["shakespeare"][0].eval()
inputs, targets = random_windows(shakespeare.train, 4, 256, torch.Generator().manual_seed(0))
with torch.no_grad():
    probabilities = model(inputs).softmax(dim=-1)
at_logits = (probabilities - torch.nn.functional.one_hot(targets, probabilities.shape[-1])) / (64 * 256)
vanished = {power: ((at_logits * 2**power).half() == 0).float().mean().item() for power in (0, 8, 16)}
for power, lost in vanished.items():
    print(f"times 2^{power:<2}: {lost:4.0%} of the gradient vanishes in float16")

# %% name="vanish-bound"
assert vanished[0] > 0.5 > vanished[8] > vanished[16] and vanished[16] < 0.1

# %% [markdown] name="ex-unscale-text"
# Most of it, and a factor brings it back: **loss scaling**. The loss is multiplied by a power of two before `backward`,
# so all gradients are; before the step they are divided by it again, in float32. And if the factor was too large, some
# are infinite: the step is skipped and the factor halved. When all goes well for long, it is doubled.
#
# On paper: the scale is 1,024 and a gradient comes out as 3 · 10⁻⁵, which float16 can hold. Divided by 1,024 it is 2.9
# · 10⁻⁸: in float32 that is a number like any other, in float16 it is 0.
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

# %% [markdown] name="by-hand-text"
# With it we can train in float16 by hand. A tiny model in float32 keeps the master weights; a copy in float16 computes.
# We begin with a scale of 2²⁴, which is far too large. **Predict** what happens to the first steps. Then **look for**
# the scale that stays.

# %% name="by-hand" tags=["nbval-ignore-output"]
import copy

torch.manual_seed(0)
master = GPT(GPTConfig(vocab_size=63, context_length=16, n_layers=1, n_heads=2, d_model=32))
in_half = copy.deepcopy(master).half()
optimizer = torch.optim.AdamW(master.parameters(), lr=0.003)
generator = torch.Generator().manual_seed(0)
scale, made, losses = 2.0**24, [], []
for _ in range(60):
    for low, full in zip(in_half.parameters(), master.parameters(), strict=True):
        low.data.copy_(full.data)  # rounds to float16
        low.grad = None
    inputs, targets = random_windows(shakespeare.train, 8, 16, generator)
    loss = next_token_loss(in_half(inputs).float(), targets)
    (loss * scale).backward()
    gradients, usable = unscale([low.grad for low in in_half.parameters()], scale)
    if usable:
        for full, gradient in zip(master.parameters(), gradients, strict=True):
            full.grad = gradient
        optimizer.step()
    else:
        scale /= 2
    made.append(usable)
    losses.append(loss.item())
print(f"{made.count(False)} steps skipped, {made.index(True)} of them at the start; scale at the end {scale:,.0f}")
print(f"loss at first {losses[0]:.2f}, at the end {sum(losses[-10:]) / 10:.2f}")

# %% name="by-hand-shown"
assert 3 <= made.index(True) <= 12 and made.count(False) < 20 and scale < 2**22
assert len(set(losses[: made.index(True) + 1])) > 1 and sum(losses[-10:]) / 10 < losses[0] - 0.8
scaler = torch.amp.GradScaler("cpu")
print(f"PyTorch's own: from {scaler.get_scale():,.0f}, times {scaler.get_backoff_factor()} after an overflow, "
      f"times {scaler.get_growth_factor():.0f} after {scaler.get_growth_interval():,} good steps")  # fmt: skip

# %% [markdown] name="ways-text"
# The first steps are lost, each halves the scale, and then it fits. `torch.amp.GradScaler` does the same, and the
# library uses it where float16 is all there is.
#
# ## What does your device gain?
#
# `python -m course_lib train` chooses by itself (`precision="auto"`): bfloat16 on newer NVIDIA GPUs, float16 with a
# scaler on older ones, float32 on Apple's, and on a CPU what a short measurement finds. We look at the choices one at a
# time, in tokens a second against plain float32:
#
# - **fused attention**: one routine in place of scores, softmax and product ([lesson 14](14_the_bill.ipynb));
# - **autocast** to 16 bits (left out on Apple's GPUs, where the course stays with float32);
# - **fused AdamW**: one pass over each parameter, in place of a dozen small operations;
# - on NVIDIA also **torch.compile**, which writes routines for this very model and joins small operations into large
#   ones. That takes a minute or more before the first step; on two cores of a CPU we saw over two minutes, so there we
#   leave it out.
#
# **Predict** which of them helps on *your* device.

# %% name="ways"
from course_lib.training.precision import choose_precision

large = device.type == "cuda"
preset = get_preset("gpu" if large else "quick")


def sixteen_bits(device):
    """The 16-bit format to try on a device; None where the course stays with float32."""
    if device.type == "cuda":
        return choose_precision("auto", device)
    return "bfloat16" if device.type == "cpu" else None


def ways_on(device):
    """Name → (what it changes in the recipe, the attention kernel)."""
    half = sixteen_bits(device)
    ways = {"plain": ({}, "explicit"), "fused attention": ({}, "fused")}
    ways["fused AdamW"] = {"fused_adamw": True}, "explicit"
    if half:
        ways[half] = {"precision": half}, "explicit"
    if device.type == "cuda":
        ways["all, compiled"] = {"precision": half, "fused_adamw": True, "compile": True}, "fused"
    return ways

# %% name="ways-measured" tags=["nbval-ignore-output"]
steps, tokens = 10 if large else 2, preset.training.batch_size * preset.model["context_length"]
plain = replace(preset.training, precision="float32", fused_adamw=False, compile=False)
trainers, seconds = {}, {}
for way, (changes, kernel) in ways_on(device).items():
    model = newborn(preset, shakespeare, device=device)
    model.attention_kernel = kernel
    trainers[way] = Trainer(model, shakespeare.train, shakespeare.validation, replace(plain, **changes))
    for _ in range(2):  # the first ones take longer
        trainers[way].step(0.001)
for _ in range(4):  # in turn, so that whatever else the machine does hits all alike
    for way, trainer in trainers.items():
        wait()
        start = clock()
        for _ in range(steps):
            trainer.step(0.001)
        wait()
        seconds.setdefault(way, []).append((clock() - start) / steps)
peaks = {"float32": peak, "16 bits": measured_peak(getattr(torch, sixteen_bits(device))) if large else peak}
step_work = work["gpu" if large else "quick"] / preset.training.steps
for way, trainer in trainers.items():
    best = min(seconds[way])
    share = step_work / best / peaks["float32" if trainer.precision.name == "float32" else "16 bits"]
    print(f"{way:15} {tokens / best:9,.0f} tokens/s, {min(seconds['plain']) / best:.2f} times plain, MFU {share:4.0%}")
fastest = min(min(each) for each in seconds.values())
print(f"preset gpu at so many FLOPs a second: {work['gpu'] / (step_work / fastest) / 3600:.2f} hours")

# %% name="ways-bound"
assert set(seconds) == set(ways_on(device)) and all(min(each) > 0 for each in seconds.values())
del trainers, trainer, model  # and the memory that they hold

# %% [markdown] name="ways-answer"
# On the CPU on which this page was built, which has no instructions for bfloat16, half as many bits make it *slower*:
# each product is converted there and back. Had we believed what is true of GPUs, we would have lost time. The two fused
# ones bring something or nothing: run the cell again, and see how much of it is chance on a machine that does other
# things, too. **Measure on your own device**: that is what the library's probe does before a run.
#
# (The MFU on a CPU is a share of its float32 peak; on a GPU, of the peak in the format that the way computes in.) A
# quarter or a third is what we got with so small a model, and there is the half day of the beginning: the hours at
# full speed, divided by the MFU.
#
# ## What does a recipe gain?
#
# Faster steps are one half. The other: steps that learn more. Lesson 10 ended with the preset `quick`, which comes out
# near `plain` in less than a tenth of its time. What did it? `quick` *is* `plain` with nine changes, some
# of several settings, and so it is written down:

# %% name="changes"
from course_lib.training.presets import PLAIN, TO_QUICK, steps_of

for number, change in enumerate(TO_QUICK, start=1):
    settings = {**change.model, **change.training}
    print(f"{number} {change.name}: " + ", ".join(f"{name}={new}" for name, new in settings.items()))
assert steps_of(PLAIN, TO_QUICK)[-1] == get_preset("quick")

# %% [markdown] name="ladder-text"
# Each change was measured on top of those before it, in whole runs with three seeds; a seed draws the same weights
# (where the shapes are the same) and the same windows for each. **Before you look**: which three bring most? **Look
# for** changes whose points overlap with those of the line before (they have shown little or nothing), and for changes
# that make it *worse*.

# %% name="ladder"
from itertools import pairwise

from course_lib.data.tables import load_table

table = load_table("plain_to_quick")
for row in table["rows"]:
    low, mid, high = sorted(row["losses"])
    print(f"{mid:.3f} ({low:.3f}–{high:.3f}) {sorted(row['seconds'])[1]:6.1f} s {row['parameters']:8,} parameters  "
          f"{row['recipe']}")  # fmt: skip
print(f"seeds {table['seeds']}, one thread; {table['machine']['processor']}, {table['date']}; {table['command']}")

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
gains = [before - after for before, after in pairwise(medians)]
print("gained:", *(f"{gain:+.2f}" for gain in gains), "nats")
print(f"quick's seconds are {spent[-1] / spent[0]:.0%} of plain's")
assert 0.35 < gains[1] < 0.4 and all(0.09 < gains[n] < 0.13 for n in (2, 5)) and -gains[0] > 0.5
assert min(measured[4]) < max(measured[3]) and min(measured[3]) < max(measured[4]), "ReLU²: the points overlap"
assert min(measured[5]) > max(measured[4]), "outputs from 0: worse with each seed"
by_seed = [before - after for before, after in zip(measured[6], measured[7], strict=True)]
assert max(measured[7]) > min(measured[6]) and min(by_seed) > 0 and max(by_seed) < 0.02, "overlap, and each gains"
assert min(measured[8]) > max(measured[7]) and 0.02 < -gains[7] < 0.04 and 0.35 < spent[8] / spent[7] < 0.42
assert spent[1] / spent[0] < 0.14 and spent[5] < spent[4]
assert abs(gains[8]) < 0.001 and medians[-1] < medians[0] and spent[-1] < 0.1 * spent[0]

# %% [markdown] name="ladder-answer"
# Two changes are *bought with loss*: fewer steps cost half a nat and save seven eighths of the time; half the layers
# cost 0.03 and save three fifths of what is left. Three pay for them: **Muon** (0.37 nats), rotary positions, and a
# head of its own with larger steps (0.11 each).
#
# The rest is less than folklore says. ReLU² shows nothing here: the points overlap. So do those of the straight
# schedule, though seed by seed each of the three gains, by one or two hundredths: a hint, no more. Outputs that begin
# at 0, without biases, are *worse* with each of the three seeds where they come in, and save some time. Whether they
# help once the steps are larger, this table cannot say: it measures one order of changes. (Take one change out of
# `quick` and train: that tells.) And the last line brings nothing on the processor that measured it, which has no fast
# 16 bits. On yours it may.
#
# To compare two recipes, look at the loss for equal time, or the time for equal loss, never at one alone.
#
# One of the changes on your device, for 40 steps: **Muon** against AdamW. AdamW rescales each number by itself; Muon
# makes the whole step of a matrix about equally large in all directions (Jordan et al. 2024). The gap is smaller than
# in the table, as the runs are a sixth as long.

# %% name="muon-here" tags=["nbval-ignore-output"]
muon_losses = {}
for candidate in steps_of(PLAIN, TO_QUICK)[1:3]:
    recipe = replace(candidate.training.adapted(steps=40), evaluate_every=40)
    model = newborn(candidate, shakespeare, device=device)
    trainer = Trainer(model, shakespeare.train, shakespeare.validation[:10_001], recipe)
    muon_losses[recipe.optimizer] = list(trainer.run())[-1].val_loss
    print(f"{recipe.optimizer:6} after 40 steps: {muon_losses[recipe.optimizer]:.2f}")

# %% name="muon-bound"
assert muon_losses["muon"] < muon_losses["adamw"] - 0.04

# %% [markdown] name="runs-text"
# ## The real runs
#
# Two corpora, Shakespeare and poems of the Tang dynasty. On an NVIDIA GPU the next cell trains ten million parameters
# on each, for some minutes at most (estimated; see the end of this page). Elsewhere it trains `quick` for 120 steps,
# half a minute in all, so that you see it work. What a long run on a CPU gives comes with the course: two models
# trained by `laptop`, in four and six minutes of one thread.
#
# **Predict** which of the two losses will be higher, before any training and after it.

# %% name="runs" tags=["nbval-ignore-output"]
real = {}
for name, corpus in corpora.items():
    recipe = preset.training if large else replace(preset.training.adapted(steps=120), evaluate_every=120)
    model = newborn(preset, corpus, device=device)
    trainer = Trainer(model, corpus.train, corpus.validation, recipe)
    for record in trainer.run():
        if record.val_loss is not None:
            print(f"{name}: {record.step} steps, {record.seconds:.0f} s, "
                  f"{record.tokens / record.seconds:,.0f} characters/s, validation {record.val_loss:.3f}")  # fmt: skip
    real[name] = model, trainer.best_loss

# %% name="runs-bounds"
for name, corpus in corpora.items():
    guess = math.log(corpus.tokenizer.vocab_size)
    print(f"{name}: {corpus.tokenizer.vocab_size:,} characters, an even guess costs {guess:.2f} nats")
    assert real[name][1] < 0.75 * guess, "far better than an even guess"

# %% [markdown] name="ex-bits-text"
# (On a GPU, does the last validation loss lie above the one before? A model of ten million parameters can learn a small
# text by heart: lesson 10's overfitting. The best one counts.)
#
# The loss on Tang verse is far higher. Is Chinese harder, or our model worse at it? A new model knows nothing and pays
# ln V: the alphabet of the poems has 3,002 characters, so it starts higher. And a Chinese character says more than a
# letter. To compare, one needs the same unit, and the usual one is **bits per** something (lesson 01: per character): 1 nat is 1/ln 2 bits, and a
# loss is a mean over *tokens*, of which a text may have more or fewer than characters or bytes.
#
# On paper: 4 tokens of 1.5 nats each cost 6 nats, or 6/ln 2 = 8.66 bits. If the text has 12 bytes, that is 0.72 bits
# per byte.
#
# **Exercise 11.bits · ★ · 5 min.** A text was cut into `tokens` pieces, and the model's mean loss over them is `loss`
# nats. How many bits does it need for each of the text's `units`, characters or bytes?

# %% name="ex-bits" tags=["exercise"] course={"exercise": "11.bits"}
def bits_per_unit(loss, tokens, units):
    """Bits for each unit of a text of so many units, whose tokens cost `loss` nats on average."""
    raise NotImplementedError

# %% name="check-bits" tags=["check", "nbval-ignore-output"]
bits_per_unit = check("11.bits", bits_per_unit)

# %% name="bits"
import json

files = {name: DATA_FOLDER / "checkpoints" / name / "result.json" for name in corpora}
results = {name: json.loads(file.read_text("utf-8")) for name, file in files.items()}
for name, corpus in corpora.items():
    loss, tokens = results[name]["val_loss"], len(corpus.validation)
    in_bytes = len(corpus.tokenizer.decode(corpus.validation).encode("utf-8"))
    print(f"{name:12} {loss:.2f} nats = {bits_per_unit(loss, tokens, tokens):.2f} bits per character "
          f"(an even guess: {math.log2(corpus.tokenizer.vocab_size):.2f}), "
          f"{bits_per_unit(loss, tokens, in_bytes):.2f} bits per byte of UTF-8")  # fmt: skip

twin = corpora["tang"].tokenizer.encode("\n那只动物没有过马路，因为太累了。")  # without 它, which no poem has
with torch.no_grad():
    logits = shipped["tang"][0].eval()(twin[None, :-1])
twin_loss = torch.nn.functional.cross_entropy(logits[0], twin[1:]).item()
print(f"our sentence: {twin_loss:.1f} nats a character; a new model pays {math.log(3002):.1f}")

# %% [markdown] name="bits-answer"
# Per character the poems cost more than two and a half times as much; per byte, less than Shakespeare, since a Chinese
# character has three bytes in UTF-8. Neither number says which language is *harder*, and no loss can be compared across
# corpora as if it were a mark. Bits per byte compares **models** with different vocabularies on the **same** text.
#
# Our sentence about the animal costs the model of Tang verse nearly what a new one would pay: it is prose of today, and a
# loss is always that of a model *on a text*.
#
# ## Does it keep the form?
#
# Lines of Tang verse have, for the most part, five or seven characters, and a poem keeps to one of the two. Nobody told
# the model. We let the shipped one write, and yours, and count. For comparison we shuffle the characters of real poems:
# as many commas, anywhere. **Guess** the shares of lines of five or seven; then **look for** the bar at six.

# %% name="verse" tags=["nbval-ignore-output"]
import re
from collections import Counter

from course_lib.generation import Sampling, generate_text


def line_lengths(text):
    """How many lines have how many characters; a line ends at a comma, a stop or a line break."""
    return Counter(len(line) for line in re.split(r"[，。？！；：、\n]", text) if line)


def poems(model, length=400, seed=0):
    return "".join(generate_text(model, tang.tokenizer, "\n", length, Sampling(temperature=0.8), seed))


poets = tang.validation[:8000]
shuffled = poets[torch.randperm(len(poets), generator=torch.Generator().manual_seed(0))]
texts = {"poets": tang.tokenizer.decode(poets), "shuffled": tang.tokenizer.decode(shuffled),
         "laptop": poems(shipped["tang"][0]), "yours": poems(real["tang"][0])}  # fmt: skip
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
# The form is there: five or seven, hardly ever six, and hardly a poem mixes them. Shuffled commas give no such lengths.
# Yours, after a run of its own, is on its way or there. Whether it is *poetry* is another question, and counting does
# not answer it. ([Lesson 13](13_look_inside.ipynb) finds heads that look back to where a line began, and one that minds
# the rhyme.)
#
# ## Several GPUs
#
# One batch, shared: each GPU has a copy of the model, computes the gradient of its rows, and then they **average** and
# make the same step. This is **data parallelism**. On paper: a batch of four rows, a loss that is a mean over rows, and
# its gradients 1, 3, 5 and 7. Two GPUs with two rows each find (1 + 3)/2 = 2 and (5 + 7)/2 = 6, and their mean 4 is the
# gradient of all four. What if one has three rows, and finds 3, and the other has one, and finds 7? The mean of 3 and 7
# is 5, which is wrong.
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

model = newborn(quick, shakespeare)
inputs, targets = random_windows(shakespeare.train, 12, 64, torch.Generator().manual_seed(0))


def gradient(inputs, targets):
    model.zero_grad()
    next_token_loss(model(inputs), targets).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


whole, shared = gradient(inputs, targets), []
for rank in range(4):  # what four GPUs would do at the same time
    team = Team(rank, size=4)
    shared.append(gradient(team.share(inputs), team.share(targets)))
print("four equal shares are the whole:", torch.allclose(together(shared, [3, 3, 3, 3]), whole, atol=1e-6))
unequal = [gradient(inputs[:9], targets[:9]), gradient(inputs[9:], targets[9:])]
print("nine rows and three, too:", torch.allclose(together(unequal, [9, 3]), whole, atol=1e-6))
print("by their plain mean:", torch.allclose((unequal[0] + unequal[1]) / 2, whole, atol=1e-6))
print(f"a gradient has {whole.numel() * 4 / 1e6:.1f} million bytes, which have to be sent at every step")

# %% [markdown] name="torchrun-text"
# The library insists on equal shares, so the plain mean is right there. The command is one line longer than for one
# GPU. `torchrun` comes with PyTorch; it starts one process for each GPU and tells them their **ranks**, 0 to 3:
#
# ```
# torchrun --standalone --nproc-per-node 4 \
#     -m course_lib train --corpus tang --preset gpu --out runs/tang
# ```
#
# Rank 0 measures, saves and speaks. If one process fails, all end, and the first to fail is named. It works on a CPU as
# well (`--device cpu`), where it saves no time and shows that the losses are the same. What it costs is sending the
# gradients, at every step, over whatever connects the GPUs.
#
# ## What to expect
#
# How long does preset `gpu` take elsewhere? From the FLOPs, if a training gets between 20 and 50 % of a device's peak:
# a *guess*, which makes each of these an **estimate**. A large GPU may well get less from so small a model, and
# compiling comes on top. Peaks by the makers: NVIDIA's in 16 bits, without sparsity; Apple's in float32, in which the
# course trains there. A CPU core with AVX2 does 32 FLOPs a cycle: 8 numbers, 2 units, and each multiplies and adds.
# **Measured** are the runs of this course on one CPU thread.

# %% name="bands"
from course_lib.runtime import duration

makers = {"NVIDIA T4": 65e12, "NVIDIA RTX 4090": 165e12, "NVIDIA A100": 312e12, "NVIDIA H200": 989e12,
          "Apple M1": 2.6e12, "Apple M1 Max": 10.4e12, "a CPU core of 3 GHz": 3e9 * 32}  # fmt: skip
for name, top in makers.items():
    low, high = (duration(work["gpu"] / (share * top)) for share in (0.5, 0.2))
    print(f"gpu on {name:19}  estimated  {low} to {high}")
for name, row in {"plain": table["rows"][0], "quick": table["rows"][-1]}.items():
    low, high = (duration(pick(row["seconds"])) for pick in (min, max))
    print(f"{name:6} on one CPU thread    measured   {low} to {high}")
for name, result in results.items():
    print(f"laptop on one CPU thread    measured   {duration(result['train_seconds'])}, {name}")

# %% [markdown] name="practice"
# ## In practice
#
# **Nobody had run this course on a GPU** when this page was built: the numbers for GPUs above are estimates. If you
# have one, `python -m benchmarks gpu-training gpu-loss` measures it, and we would like to know.
#
# **Apple's GPUs** (`mps`) compute in float32 here. We expect them to help with the larger presets, and to lose on
# `quick`, where starting each operation may take longer than computing it. Your line *plain* above, against
# `choose_device("cpu")`, tells.
#
# **Small models leave large GPUs idle.** Larger batches and `torch.compile` help; a model of half a million parameters
# never fills an H200.
#
# **Out of memory?** A GPU's memory holds weights, gradients, AdamW's averages and, most of all, what forward keeps for
# backward, which grows with the batch. Halve `batch_size` and add up two gradients before each step (lesson 10, in
# practice).
#
# **Two threads are not twice as fast**, and on a small shared machine they can be much slower than one: `train` finds
# out by a short race.

# %% [markdown] name="recap"
# ## Recap
#
# 1. A training is 6 FLOPs for each parameter and token, and something for attention. Divided by the time and the
#    device's peak: **MFU**.
# 2. **bfloat16** has range and little precision, **float16** precision and little range. Master weights and sums stay
#    in float32; with float16 the **loss is scaled**.
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
# - Micikevicius et al. 2018, *Mixed Precision Training*, [arXiv 1710.03740](https://arxiv.org/abs/1710.03740): master
#   weights and loss scaling.
# - Kalamkar et al. 2019, [arXiv 1905.12322](https://arxiv.org/abs/1905.12322): training in bfloat16 without scaling.
# - Chowdhery et al. 2022, *PaLM*, [arXiv 2204.02311](https://arxiv.org/abs/2204.02311): model FLOPs utilisation, in
#   appendix B. Kaplan et al. 2020, [arXiv 2001.08361](https://arxiv.org/abs/2001.08361): 6 FLOPs for each parameter and
#   token.
# - Jordan et al. 2024, [*Muon*](https://kellerjordan.github.io/posts/muon/). So et al. 2021, *Primer*, [arXiv
#   2109.08668](https://arxiv.org/abs/2109.08668): ReLU², found by search.
# - Li et al. 2020, *PyTorch Distributed*, [arXiv 2006.15704](https://arxiv.org/abs/2006.15704): data parallelism as
#   PyTorch does it.
# - The peaks: NVIDIA's data sheets of T4, A100 and H200 and its white paper on the Ada architecture (RTX 4090); Apple's
#   announcements of M1 (2020) and M1 Max (2021).

# %% [markdown] name="next"
# ## Next
#
# The model is trained. **[Lesson 12](12_generate.ipynb)** lets it write: which character to choose, and how to write
# fast.
