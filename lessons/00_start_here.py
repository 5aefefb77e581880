# %% [markdown] name="title"
# # Start here: watch a small GPT write, and see what it reads
#
# Lesson 00 · next: [01 From characters to vectors](01_characters_to_vectors.ipynb)
#
# Welcome. In this course you build a **GPT** (generative pre-trained transformer), the kind of program
# that chat assistants are made of, out of little more than matrix products. You train it on Shakespeare
# or on Tang poetry, on your own computer. Then you open it and look at what it reads while it writes.
#
# On this page a small GPT is there already. You watch it write, see what it reads, and learn what a good
# guess costs. Two tiny exercises show how exercises work. A check of your machine and a map of the course
# come last. It takes about 20 minutes, and nothing can break. For the course you need Python (functions,
# loops, a class now and then) and matrices as at school; NumPy helps. All else is explained on the way.

# %% [markdown] name="how-to-run"
# ## This page is a notebook
#
# A **notebook** is a page of text and code, in **cells**. Click into the grey cell below and press
# **Shift + Enter**: its code runs, what it prints appears under it, and the next cell is selected. Go on
# like this from top to bottom. The program that does the work is the **kernel**. It remembers what the
# cells above have made, so the order matters.
#
# Under the cells you see what came out when we built this page; when you run a cell, your own result
# replaces it. You need not understand the code here; in the course you will write most of it yourself.
# Some cells begin with `assert`: there the page checks what it tells you, and no output is good news.

# %% name="setup"
import math

import matplotlib.pyplot as plt
import torch

from course_lib.exercises import check, hint, mine, progress, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("00")

# %% [markdown] name="writes"
# ## It writes
#
# A **language model** guesses what comes next in a text. Ours guesses one character at a time: guess,
# append, guess again, and it writes. All it knows lies in its **parameters**, a large heap of numbers. In
# **training** it read eight plays by Shakespeare (of the eighth, the beginning), nearly three times, in pieces. After each
# handful of pieces all parameters were moved a little, so that the next guesses would be better. In lesson 10 you do that yourself, in minutes. Here
# is the result, ready to use.

# %% name="load"
from course_lib.data.corpora import DATA_FOLDER
from course_lib.model.gpt import GPT, count_parameters
from course_lib.training.checkpoint import load_run

model, tokenizer, config = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")
print(f"{count_parameters(model):,} parameters, {config['training']['steps']:,} steps of training")
print(f"{tokenizer.vocab_size} characters: {tokenizer.vocabulary!r}")

# %% [markdown] name="newborn-text"
# These characters are its **vocabulary**, the only ones it can read or write (`\n` stands for a line
# break). First, for comparison, the same program before training: a newborn, most of whose parameters are drawn
# at random. We give both the same beginning, called the **prompt**: `ROMEO:`

# %% name="newborn-writes" tags=["nbval-ignore-output"]
from course_lib.generation import Sampling, generate_text

rather_safe = Sampling(temperature=0.5)  # likely characters rather than daring ones (lesson 12)


def perform(model, prompt, length=150, seed=7):
    """Print a prompt and its continuation, as it is written; return the continuation."""
    written = ""
    print(prompt, end="")
    for character in generate_text(model, tokenizer, prompt, length, rather_safe, seed):
        print(character, end="", flush=True)
        written += character
    return written


newborn = GPT(model.config).eval()
noise = perform(newborn, "ROMEO:", length=100)

# %% [markdown] name="trained-text"
# Noise. And now the trained one. **Before you run it**, guess: what will 541,568 trained numbers make of
# `ROMEO:`?

# %% name="trained-writes" tags=["nbval-ignore-output"]
verse = perform(model, "ROMEO:", length=300)

# %% [markdown] name="words-text"
# Are these words? We count those that occur in the plays.

# %% name="words" tags=["nbval-ignore-output"]
import re

from course_lib.data.corpora import built_in_file, load_corpus, read_text

plays = read_text(built_in_file("shakespeare"))
known_words = set(re.findall(r"[A-Za-z]+", plays))
for name, text in {"newborn": noise, "trained": verse}.items():
    words = re.findall(r"[A-Za-z]+", text)
    known = [word for word in words if word in known_words]
    print(f"{name}: {len(known)} of {len(words)} words occur in Shakespeare's plays")
assert len(known) > 0.6 * len(words), "most words of the trained model are words"

# %% [markdown] name="writes-answer"
# Look at the form before you look for sense. A name in capitals, a colon, a line break. Lines about as
# long as lines of verse are, beginning with a capital. An empty line, and the next speaker. Nobody
# programmed any of this: the program was told nothing of names, lines or words. It was given characters,
# and had to find out the rest. On our machine the next to speak is AUTOLYCUS, a pickpocket in one of the plays.
# And where it makes up a word, it makes up a good one: *pender* and *courter* are in none of them.
#
# What they say makes no sense. Sense takes size: GPT-3 has 174,604,259,328 parameters, some 322,000 times
# as many (Brown et al. 2020, [arXiv 2005.14165](https://arxiv.org/abs/2005.14165); lesson 09 counts
# them), and read far more than eight plays. The parts it is made of are those that you will build.
#
# Now try a prompt of your own. The next cell gives you a playground (on a web page or before you run it,
# there is only its picture). Put your prompt into its first field and press **Write**; **Stop** stops it.
# The **seed** is a number that fixes all random choices: the same seed writes the same verse, another seed
# another one. And what if the prompt has a character that the model does not know, say a `7`? Try it. A
# message in red is no accident: read it, mend the prompt, and go on.
#
# The bars are the model's guess at the next character: the higher, the likelier. Press **One character** a
# few times. **Look for** a character that leaves it no doubt, and for one that might be anything. The
# *temperature* makes it careful (low) or daring (high); how, and what top-k and top-p remove, lesson 12
# tells.

# %% name="your-prompt"
from course_lib.explorers.sampling_explorer import SamplingPlayground

SamplingPlayground(model, tokenizer, "My lord, the dragon ", temperature=0.5, seed=1)

# %% [markdown] name="your-prompt-answer"
# Within a word there is often one tall bar, after a space there are many small ones: the ends of words are easy to
# guess, their beginnings are not. Click into what was written, and the arrow keys take you back to
# the bars of each choice.

# %% name="writes-sound"
for text in (noise, verse):
    assert text and set(text) <= set(tokenizer.vocabulary)
assert len(verse) == 300 and round(174_604_259_328 / count_parameters(model), -3) == 322_000
assert "AUTOLYCUS" in plays and not {"pender", "courter"} & known_words
again = ["".join(generate_text(model, tokenizer, "ROMEO:", 20, seed=7)) for _ in range(2)]
assert again[0] == again[1], "the same seed writes the same verse"

# %% [markdown] name="reads"
# ## It reads
#
# Before each guess the model reads what stands there so far, and it chooses what to read: this is
# **attention** (Bahdanau et al. 2014, [arXiv 1409.0473](https://arxiv.org/abs/1409.0473), used it to help
# another kind of network; Vaswani et al. 2017, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762),
# found that it is *all you need*). Our model has 4 **layers**, one after the other, and in each layer 4
# **heads** that read side by side. At every character, each head shares out one unit of attention among
# the characters up to there. The shares are its **attention weights**.
#
# Let it read two lines of *The Tempest*, a play that it was not trained on, and draw one head as a
# **heatmap**: a row is a character that reads, a column one that is read, and the darker the square, the
# larger the weight. ␣ is a space, ⏎ the line break. Above the diagonal all is white, because what comes
# later is not there to be read.
#
# **Look for** the dark stripe. Which character does a row read there? And which rows leave it?

# %% name="previous-head"
from course_lib.lens.capture import capture
from course_lib.plots import heatmap, shown, visible

line = "Thou dost snore distinctly;\nThere's meaning in thy snores."
tokens = tokenizer.encode(line)[None]  # the characters as numbers, (text, position) = (1, 58)
reading = capture(model, tokens)  # runs the model, and keeps what it read


def draw(layer, head):
    ax = plt.subplots(figsize=(9, 9))[1]
    heatmap(reading.layer(layer)[0, head], line, ax=ax, title=f"layer {layer}, head {head}")
    ax.tick_params(labelsize=8)
    return ax


ax = draw(layer=0, head=3)
plt.show()

# %% name="previous-head-shown"
weights = torch.tensor(shown(ax)).float()
assert torch.equal(weights, reading.layer(0)[0, 3])
assert torch.allclose(weights.sum(dim=1), torch.ones(58)), "each row shares out 1"
assert weights.triu(1).max() == 0, "nothing is read before it is there"
read_before = weights.diagonal(-1)  # row i + 1 reads character i
is_letter = torch.tensor([character.isalpha() for character in line[1:]])
assert read_before[is_letter].min() > 0.5 and read_before[~is_letter].max() < 0.2

# %% [markdown] name="previous-head-answer"
# The stripe lies one step below the diagonal: from each letter, this head reads the character before it.
# Spaces, marks and the line break leave the stripe, and share out their attention elsewhere.
#
# Or are we seeing faces in the clouds? A picture of two lines proves little, so we count. Over 6,400
# characters that the model was not trained on: how much does this head read the character before, and how
# much would it be if it shared its attention evenly?

# %% name="previous-head-measured"
corpus = load_corpus("shakespeare")
unseen = corpus.validation[:6400].view(25, 256)  # (text, position)
unseen_reading = capture(model, unseen)
position = torch.arange(256)


def share_read(place, layer, head):
    """The mean weight on one place for each position (-1: none), and what an even reader gives it."""
    weights = unseen_reading.layer(layer)[:, head]  # (text, query, key)
    weight = weights.gather(2, place.clamp(min=0)[:, :, None])[:, :, 0]
    even = (1 / (position + 1)).expand_as(weight)
    return weight[place >= 0].mean().item(), even[place >= 0].mean().item()


before = (position - 1).expand_as(unseen)
previous, evenly = share_read(before, layer=0, head=3)
print(f"the character before: head 3 {previous:.2f}, an even reader {evenly:.2f}")
assert previous > 20 * evenly

# %% [markdown] name="line-head-text"
# More than twenty times as much: no cloud. Now a head of the last layer. **Before you run it**, guess: if the first
# layer's looks at the neighbour, how far back might this one look, and for what? **Look
# for** its dark column, and for the rows where it has a gap.

# %% name="line-head"
ax = draw(layer=3, head=2)
plt.show()
line_breaks = torch.where(unseen == tokenizer.encode("\n"), position, -1)
line_start = line_breaks.cummax(dim=1).values  # the latest line break; -1: none so far
reads_start, evenly = share_read(line_start, layer=3, head=2)
print(f"the latest line break: head 2 {reads_start:.2f}, an even reader {evenly:.2f}")

# %% name="line-head-shown"
weights = torch.tensor(shown(ax)).float()
assert torch.equal(weights, reading.layer(3)[0, 2]) and reads_start > 20 * evenly
column = dict(enumerate(weights[:, line.index("\n")].tolist()))
assert all(column[row] > 0.9 for row in (30, 32, 42, 49)), "e, e, g, y"
assert all(column[row] < 0.05 for row in range(28, 58) if line[row] in " i"), "spaces, i"

# %% [markdown] name="line-head-answer"
# The dark column is ⏎: in the second line, this head reads where the *line* began. But not from every row.
# The *e* of *There* does, the *g* of *meaning*, the *y* of *thy*; the *i* of *in* does not, and no space does. Do you see what the rows
# have in common that read it?
#
# A word can end there. So a space or a new line may be next, and which of the two depends on how long the line is by now: that is what one
# would look back for. It is a suspicion, and we can test it. In the unseen text we know what came next:

# %% name="line-head-tested"
space, line_break = tokenizer.encode(" \n")
ends_word = (unseen == space) | (unseen == line_break)
one_is_next = torch.cat([ends_word[:, 1:], torch.zeros(25, 1, dtype=torch.bool)], dim=1)
reads = {}
for name, chosen in {"the word ends here": one_is_next, "it goes on": ~one_is_next}.items():
    rows = chosen & ~ends_word  # letters and marks alone
    reads[name], _ = share_read(torch.where(rows, line_start, -1), layer=3, head=2)
    print(f"{name:18}: {reads[name]:.2f} of the attention on the latest line break")
assert reads["the word ends here"] > 3 * reads["it goes on"]

# %% [markdown] name="line-head-tested-answer"
# Three times as much where a word is over, though the head cannot know what comes next. The suspicion stands. It is not proved: we
# have seen where the head reads, and not what the model does with it.
#
# Nobody told the model what a word is, or a line. Few heads are so tidy. Here are all sixteen: choose one
# of the small maps, then point at a character, or move along the text with the arrow keys, and see where
# that head reads. Another text can be typed in. **Look for** a second head with a stripe below the diagonal, and for some that read all over the
# place.

# %% name="all-heads"
from course_lib.explorers.attention_explorer import AttentionExplorer

AttentionExplorer(model, tokenizer, "Thou dost snore distinctly;", layer=1, head=1)

# %% name="all-heads-measured"
previous = {
    (layer, head): share_read(before, layer, head)[0] for layer in range(4) for head in range(4)
}
strongest = sorted(previous, key=previous.get, reverse=True)
for layer, head in strongest[:2]:
    print(f"layer {layer}, head {head}: {previous[layer, head]:.2f} on the character before")
assert previous[strongest[2]] < 0.4 < 0.5 < previous[strongest[1]]

# %% [markdown] name="all-heads-answer"
# The second one is in layer 2, head 3: more than half of its attention goes to the character before. Others, like heads 1 and 2 of layer 0, spread theirs so thinly that
# nothing stands out. Lesson 13 finds names for more of them, and switches heads off to see what they are good for. Until
# then remember: attention weights show **where a head read, not why the model answered**.

# %% [markdown] name="guesses-text"
# ## What a good guess costs
#
# A guess is not one character. The model gives each of its 63 characters a **probability**, a share of 1,
# and when it writes, the next character is drawn by lot, the likelier ones more often. Here are the six
# likeliest characters after three prompts. **Look for** the prompt that leaves the model least in doubt,
# and the one that leaves it most. *Hamlet* is not among the plays it has read.

# %% name="guesses"
from course_lib.generation import next_token_logits


def guess(prompt):
    """The probability of each character to come next: (vocab_size,)."""
    return next_token_logits(model, tokenizer.encode(prompt)).softmax(dim=0)


prompts = ("ROMEO", "HAMLET", "my ")
figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True)
for ax, prompt in zip(axes, prompts, strict=True):
    likeliest = guess(prompt).topk(6)
    ax.bar(range(6), likeliest.values)
    ax.set_xticks(range(6), [visible(c) for c in tokenizer.decode(likeliest.indices)])
    ax.set_title(f"after “{visible(prompt)}”")
axes[0].set_ylabel("probability")
plt.show()

# %% name="guesses-shown"
top = {prompt: guess(prompt).max().item() for prompt in prompts}
for ax, (prompt, probability) in zip(axes, top.items(), strict=True):
    print(f"the likeliest after {prompt!r} has {probability:.2f}")
    assert ax.patches[0].get_height() == probability, "the first bar shows it"
assert "hamlet" not in plays.lower()
assert all(tokenizer.decode(guess(p).argmax()[None]) == ":" for p in prompts[:2]), "a colon"

# %% [markdown] name="guesses-answer"
# After `ROMEO` a colon is very likely. After `HAMLET` too, though the model has never met him: it did
# not only learn names by heart, it learned what the name of a speaker looks like. After *my* and a space
# a new word begins, and nobody could know which. That is doubt for a good reason.
#
# How do we say in one number how well a model guesses, if doubt can be right? By what it thought of the
# character that then really came. If it had given that the probability *p*, its **surprise** is −ln *p*:
# nothing if it was certain, and the more, the less it was expected. (The logarithm is the natural one, and
# the unit is then called a **nat**.) You are about to write this down.

# %% [markdown] name="exercises"
# ## Your turn: how exercises work
#
# An exercise is a cell with something left open, and a check below it. The stars say how hard it is (★ to
# ★★★); the minutes are a guide and not a race. A wrong answer costs nothing. The check says what is
# wrong, and it knows many ways to go astray. Then it hands on the course's own answer, so that every
# later cell works, whatever you wrote.
#
# To see that this is so, **be wrong on purpose**, once.
#
# **Exercise 00.even · ★ · 2 min.** Who knows nothing should guess evenly, and give each character of the
# vocabulary the same probability. Which?
#
# 1. First answer as if there were only the 26 letters of the alphabet: replace `None` by `1 / 26`. Run
#    that cell and the check below it, and read what it says.
# 2. The cell after the check gives a hint. Run it again: one more. Then write `solution` in place of
#    `hint`, and you get the solution with its reason.
# 3. Now give the right answer, and run the check again.

# %% name="ex-even" tags=["exercise"] course={"exercise": "00.even"}
answer = None

# %% name="check-even" tags=["check", "nbval-ignore-output"]
even_guess = check("00.even", answer)

# %% name="help-even"
hint("00.even")

# %% [markdown] name="ex-surprise-text"
# Most exercises ask for a function. Its beginning is there and says what goes in and what comes out; you
# replace the line with `raise NotImplementedError`.
#
# **Exercise 00.surprise · ★ · 3 min.** Write the surprise, −ln p, as a function. Python's natural
# logarithm is `math.log`. Be wrong here too if you like: forget the minus, or take `math.log10`. For a
# hint, put `hint("00.surprise")` into a new cell.


# %% name="ex-surprise" tags=["exercise"] course={"exercise": "00.surprise"}
def surprise(probability):
    """The surprise, in nats, at what had this probability: a number above 0, at most 1 → −ln p."""
    raise NotImplementedError


# %% name="check-surprise" tags=["check", "nbval-ignore-output"]
surprise = check("00.surprise", surprise)

# %% [markdown] name="use-text"
# Let us put your function to work (or ours,
# until yours passes). What does the colon after `ROMEO` cost, first for an even guess, then for the
# trained model?

# %% name="use"
print(f"even guess: {surprise(even_guess):.2f} nats")
print(f"trained:    {surprise(top['ROMEO']):.2f} nats")

# %% [markdown] name="surprise-line-text"
# Now every character of our two lines, with a dotted line for an even guess. **Look for** the two tallest
# bars: what is it that surprises the model so, twice? And which character, wherever it comes, has a low
# one?

# %% name="surprise-line"
guesses = reading.logits[0].softmax(dim=1)  # row i: the guess for character i + 1
costs = [surprise(guesses[i, tokens[0, i + 1]].item()) for i in range(len(line) - 1)]
figure, ax = plt.subplots(figsize=(9, 2.8))
ax.bar(range(len(costs)), costs)
ax.axhline(math.log(63), linestyle=":", color="gray")
ax.set_xticks(range(len(costs)), [visible(character) for character in line[1:]])
ax.tick_params(axis="x", labelsize=8, length=0)
ax.set_ylabel("surprise (nats)")
ax.set_xlabel("the character that came")
plt.show()

# %% name="surprise-line-shown"
assert [bar.get_height() for bar in ax.patches] == costs
for i in sorted(sorted(range(len(costs)), key=costs.__getitem__)[-2:]):
    print(f"{costs[i]:.1f} nats for the {line[i + 1]!r} in {line[i : i + 5]!r}")
training_text = tokenizer.decode(corpus.train)
for start in ("s", "sn", "snor"):
    count = len(re.findall(r"[ \n]" + start, training_text))
    print(f"{count} words of the training text begin with {start!r}")
for cost, character, last in zip(costs, line[1:], line[:-1], strict=True):
    assert character != " " or cost < 0.7, "spaces are expected"
    assert last != " " or cost > 0.8, "what comes after them is less so"

# %% [markdown] name="surprise-line-answer"
# The *n* of *snore*, and the *n* of *snores*. Of 11,309 words that begin with s, the model has seen 17 go on
# with n: a surprise of −ln(17/11309) = 6.5 nats, nearly what it paid. (That nobody ever *snored* in its
# training comes on top, at the r.)
# The spaces are all among the low bars: each costs less than 0.7 nats, most of them next to nothing, and the character after it
# more than that. Where a word ends is easy to see; which one comes next is news.
#
# The mean surprise over a text is called the **loss**, and it is *the* number of this field: training is
# nothing else than making it smaller. Here it is over 20,000 characters that were kept back from
# training:

# %% name="loss"
from course_lib.training.trainer import evaluate

losses = {
    "newborn": evaluate(newborn, corpus.validation[:20_000]),
    "trained": evaluate(model, corpus.validation[:20_000]),
}
print(f"even guess  {math.log(63):.2f} = ln 63")
for name, loss in losses.items():
    print(f"{name:10}  {loss:.2f}, like an even guess among {math.exp(loss):.0f} characters")

# %% name="loss-bounds"
assert abs(losses["newborn"] - math.log(63)) < 1e-4, "a newborn guesses evenly"
assert 1.4 < losses["trained"] < 1.55
recipe = config["training"]
characters_read = recipe["steps"] * recipe["batch_size"] * model.config.context_length
assert 2.7 < characters_read / len(corpus.train) < 3, "nearly three times"

# %% [markdown] name="loss-answer"
# The newborn guesses evenly. Its numbers are random but for those of the last step, which are zero, so that it begins without an
# opinion. (Where they are random too, it begins with opinions that have no reason, and pays a little more.)
# Training brought the loss down to 1.45, as if the model hesitated no longer between all 63 characters
# but between four.

# %% [markdown] name="kept-text"
# ### What you solve is yours
#
# An answer that passes is written to the folder `work/answers`, as plain Python that you can read. You,
# or a later lesson, fetch it with `mine`: so the GPT of lesson 09 can be made of your own parts. Where
# there is nothing of yours yet, `mine` gives the course's, and says so.

# %% name="kept"
my_surprise = mine("00.surprise")
print(f"{my_surprise(1 / 63):.2f}")

# %% [markdown] name="progress-text"
# And this is how far you are: a line for each lesson, a box for each exercise (✓ passed, △ tried, ○ open;
# click on the boxes for their names), and where to go on. It counts attempts and hints, for your eyes
# only: nothing leaves your computer.

# %% name="progress" tags=["nbval-ignore-output"]
progress()

# %% name="progress-shown"
from course_lib.exercises import progress_rows

assert {"00.even", "00.surprise"} <= {row.id for row in progress_rows()}

# %% [markdown] name="machine-text"
# ## Is everything in place?
#
# If you have come this far, nearly everything is. Two cells make sure: the first shows what differs from
# machine to machine, the second holds the fingerprints (SHA-256) of the course's texts against what they
# must be everywhere. (That of the model was checked when you loaded it.)

# %% name="machine" tags=["nbval-ignore-output"]
import os
import platform
import sys

from course_lib.exercises.places import progress_file
from course_lib.runtime import choose_device

device = choose_device()
print(f"Python {platform.python_version()} on {platform.system()} ({platform.machine()})")
print(f"PyTorch {torch.__version__}, with {torch.get_num_threads()} of {os.cpu_count()} threads")
print(f"computes on: {device}")
if progress_file() is None:
    print("progress: not kept while this page is built or tested")
else:
    folder = next(place for place in progress_file().parents if place.exists())
    print("progress:", progress_file(), "" if os.access(folder, os.W_OK) else "CANNOT BE WRITTEN")

# %% name="data"
import subprocess

checked = subprocess.run(
    [sys.executable, DATA_FOLDER / "prepare.py", "--check"], capture_output=True, encoding="utf-8"
)
print(checked.stdout + checked.stderr, end="")

# %% name="in-place"
assert (3, 11) <= sys.version_info[:2] <= (3, 14), "the course is for Python 3.11 to 3.14"
ones = torch.ones(7, 7, device=device)
assert (ones @ ones == 7).all(), "the device can compute"
assert checked.returncode == 0, "a text of the data folder is missing or was changed"

# %% [markdown] name="stuck"
# ## When you are stuck
#
# **A cell complains.** The last line of the message says what is wrong, the arrow above it where. If a
# name “is not defined”, a cell further up has not been run.
#
# **Everything is odd.** In the menu *Kernel*, choose *Restart Kernel and Run All Cells…*: a fresh start
# from the top, with your answers still in their cells. The button ■ stops a cell that runs and runs.
#
# **Nothing is left of the lesson.** Your notebooks lie in `work/`, and no update overwrites them. Rename
# yours, run `python3 start.py` again, and a fresh copy stands beside it. Progress and answers stay.
#
# **An exercise resists.** Print the shapes. Ask for the hints, one by one. Look at the solution, and
# write it down the day after without looking. That is how it is meant.
#
# **The course is wrong, and you are right.** It happens. Please tell us which cell, and what you
# expected; the file CONTRIBUTING.md in the course's folder says how.

# %% [markdown] name="map"
# ## A map of the course
#
# Sixteen lessons of about an hour each, best in this order, and a field guide to look things up in.
# Lessons 06, 07 and 08 name a place for a break, and keep their last part for another day.
#
# | | lesson | what you build |
# |---|---|---|
# | 01 | [From characters to vectors](01_characters_to_vectors.ipynb) | a tokenizer, an embedding, a bigram model; an LSTM to compare with |
# | 02 | [Build self-attention in four steps](02_self_attention.ipynb) | attention, as a loop and as three lines of matrix code |
# | 03 | [Why divide by √d_k](03_scale.ipynb) | the argument for it, and a model whose attention freezes without |
# | 04 | [The causal mask and next-token training](04_causal_mask.ipynb) | a model that cannot look ahead |
# | 05 | [Many heads](05_many_heads.ipynb) | multi-head attention |
# | 06 | [Word order I: sinusoidal, learned, ALiBi](06_word_order.ipynb) | three ways to say where a word stands |
# | 07 | [Word order II: RoPE](07_rotary_positions.ipynb) | rotary positions, and longer contexts |
# | 08 | [The block](08_the_block.ipynb) | residual stream, normalisation, feed-forward layer |
# | 09 | [A GPT from its parts, and its cousins BERT and T5](09_a_gpt_from_its_parts.ipynb) | the whole GPT |
# | 10 | [Train it: the loop](10_train_it.ipynb) | a training loop that stops and resumes; your own Shakespeare |
# | 11 | [Train it on a GPU](11_train_on_a_gpu.ipynb) | the real runs, on Shakespeare and on Tang poetry, and their speed |
# | 12 | [Generate](12_generate.ipynb) | samplers, and a cache that changes nothing but the time |
# | 13 | [Look inside](13_look_inside.ipynb) | attention capture, names for heads, heads switched off |
# | 14 | [The bill](14_the_bill.ipynb) | attention in tiles, as FlashAttention does it |
# | 15 | [Smaller caches: MQA, GQA and MLA](15_smaller_caches.ipynb) | shared and compressed keys and values |
# | 16 | [Mixture of experts, and your own project](16_mixture_of_experts.ipynb) | a layer of experts; then, a corpus of your choice |
# | 17 | [Field guide](17_field_guide.ipynb) (untimed) | nothing: cards, papers, glossary, to look things up |
#
# If you know PyTorch, you can begin with 02. If you come for one topic, each lesson says at its top what
# it needs.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Every lesson ends with one. Choose, and each choice explains itself, the wrong ones too. Four questions
# about this page:

# %% name="quiz" tags=["quiz"] course={"quiz": 4}
quiz("00")

# %% [markdown] name="next"
# ## Next
#
# [**Lesson 01**](01_characters_to_vectors.ipynb) turns characters into vectors and lets simpler models than attention try their luck first.
# Its neighbour [02](02_self_attention.ipynb) builds the attention whose traces you saw above.
