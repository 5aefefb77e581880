# %% [markdown] name="title"
# # Look inside: what the heads do
#
# Lesson 13 · [00 Start here](00_start_here.ipynb) · before: [12 Generate](12_generate.ipynb) · next: [14 The bill](14_the_bill.ipynb)

# %% [markdown] name="goals"
# **What you will build.** Scores that say what a head reads, and a switch that silences it in the running model. With
# both we look into the two GPTs that come with the course, one trained on Shakespeare, one on Tang poetry.
#
# **Afterwards you can**
#
# 1. take the weights of any head from the pass that really ran;
# 2. score a head for six types, and say what a score of chance would be;
# 3. ablate a head, by zeros or by its mean, and name the predictions that get worse;
# 4. train a model in which an induction head forms, and say why it takes two layers;
# 5. say what a picture of attention shows, and give four cases where it misleads.
#
# **What you need.** Heads and ablation ([lesson 05](05_many_heads.ipynb)), the residual stream ([lesson
# 08](08_the_block.ipynb)), losses in nats ([lesson 10](10_train_it.ipynb)). **Time:** 60 minutes, 23 of them for four
# exercises.

# %% name="setup"
import torch
from matplotlib import pyplot as plt

from course_lib.exercises import check, hint, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("13")

# %% [markdown] name="question"
# ## Which head knows that the verse must rhyme?
#
# A couplet of Tang verse is two half-lines, closed by ， and 。, and the couplets of a poem rhyme with one another, on
# the character before 。. Nobody told our model. It has 4 layers of 4 heads; we write **3.1** for head 1 of layer 3,
# both counted from 0. One of the sixteen is about the rhyme, and before the lesson ends we shall know which, and how
# we know.
#
# Can one see it? Here are the four heads of layer 3 on two couplets of a poem that was kept from training. (*In town
# a girl with fine brows, jade tinkling at her belt, plays with a parrot among flowers, a lute under the moon …* Its
# rhymes, 珊 弹 看 寒, all end in -an today.) **Look for** the row of 下, the character before the second rhyme: there 弹 is
# predicted. Which head would you bet on?

# %% name="look"
from course_lib.data.corpora import DATA_FOLDER, load_corpus
from course_lib.lens.capture import capture
from course_lib.plots import head_grid, heatmap, shown
from course_lib.training.checkpoint import load_run

corpora = {name: load_corpus(name) for name in ("shakespeare", "tang")}
models = {name: load_run(DATA_FOLDER / "checkpoints" / name)[0] for name in corpora}

tang = corpora["tang"].tokenizer
poems = tang.decode(corpora["tang"].validation).split("\n\n")
poem = next(poem for poem in poems if poem.startswith("城中娥眉女"))  # by Hanshan
tokens = tang.encode(poem)  # (position,)
seen = capture(models["tang"], tokens[None, :26])
axes = head_grid(seen.layer(3)[0], poem[:26])
plt.show()

# %% name="look-shown"
assert torch.allclose(torch.tensor(shown(axes[2])).float(), seen.layer(3)[0, 2])
print(poem)
print("layers:", len(seen.weights), "· weights of one (batch, head, query, key):", tuple(seen.layer(3).shape))
print("each row sums to 1:", all(torch.allclose(w.sum(dim=-1), torch.ones(1, 4, 26)) for w in seen.weights))
plain = models["tang"](tokens[None, :26])
print("the pass that shows its weights predicts the same:", torch.allclose(seen.logits, plain, atol=1e-4))

# %% [markdown] name="question-answer"
# Specks. One can tell a story about each panel, which is the trouble: eyes find stories. And this is one layer and
# one poem. We need a number, a **head score**, for each thing that a head might do, over many texts, and beside it
# the number that chance would give. And since a head may read what the model then makes no use of, we need an
# experiment as well.
#
# `capture` runs the model as it is and keeps each layer's weights: there is no second copy of attention that might
# differ from the one that answers. The last line checks it.
#
# ## A type, as a number
#
# A head type is a rule that says, for each query, which keys it would read. Some head types that were
# found in trained Transformers (Clark et al. 2019; Olsson et al. 2022):
#
# | type | reads |
# |---|---|
# | previous token | the token just before |
# | first token | position 0, whatever stands there: a place to rest, called an **attention sink** |
# | same token | former copies of the query's token |
# | newline, line start | the last newline before, and the token after it |
# | induction | the token *after* a former copy of the query's |
#
# On paper: five tokens, A B C A B, and one head whose weights we **set by hand** (row i of the next cell, with its
# i + 1 weights). How much does it read the token before, on average over rows 1 to 4? How much does it read what
# follows a former copy? For the second A (row 3) that is the B at place 1, for the second B (row 4) the C at place 2.
# Work out both means before you run the cell. And what would a head score that reads evenly all it may?

# %% name="paper"
row_of = [[1.0], [0.5, 0.5], [0.1, 0.8, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.1, 0.1]]
weights = torch.tensor([row + [0.0] * (5 - len(row)) for row in row_of])  # (query, key)
letters = torch.tensor([[0, 1, 2, 0, 1]])  # A B C A B, (batch, position)

for name, sought in {"previous": {1: 0, 2: 1, 3: 2, 4: 3}, "induction": {3: 1, 4: 2}}.items():
    read = [weights[query, key].item() for query, key in sought.items()]
    even = [1 / (query + 1) for query in sought]  # query i may read i + 1 tokens
    print(f"{name:9}  score {sum(read) / len(read):.2f}, chance {sum(even) / len(even):.2f}")

# %% [markdown] name="formula"
# ## The formula
#
# Let $S(q)$ be the keys that a type would read from query $q$, and $Q$ the queries that have any. A head with weights
# $A$ scores
#
# $$\mathrm{score} = \frac{1}{|Q|} \sum_{q \in Q} \sum_{k \in S(q)} A_{qk}, \qquad
# \mathrm{chance} = \frac{1}{|Q|} \sum_{q \in Q} \frac{|S(q)|}{q + 1}$$
#
# | symbol | in code | is |
# |---|---|---|
# | $A_{qk}$ | `weights`, (batch, head, query, key) | weight of query q on key k |
# | $S(q)$ | a row of `places`, a mask here: (batch, query, key), bool | the keys that the type would read (a set, no matrix) |
# | $Q$ | `places.any(dim=-1)` | queries for which the type can exist |
# | $q + 1$ | | tokens that query q may read, itself included |
#
# **Chance** is the score of a head that reads evenly. It can be large where many places count: letters recur, so
# *same token* has a chance of 0.06 in English. Queries without a place are left out, else a head would be blamed for
# not reading what is not there.
#
# As matrices, and with the library:

# %% name="matrix"
from course_lib.lens.heads import attention_on, chance_of, places_of_types

places = places_of_types(letters)["induction"]  # (batch, query, key)
print(places[0].int())
by_hand = (weights * places).sum(dim=-1)[places.any(dim=-1)].mean()
by_library = attention_on(weights[None, None], places)  # one text, one head
print(f"score {by_hand:.2f}, by the library {by_library.item():.2f}, chance {chance_of(places):.3f}")

# %% [markdown] name="ex-previous-text"
# **Exercise 13.previous · ★ · 4 min.** The simplest type, for all heads of a layer and a batch of texts.

# %% name="ex-previous" tags=["exercise"] course={"exercise": "13.previous"}
def previous_token_score(weights):
    """Each head's mean weight on the token just before, over all queries but the first.

    weights: (batch, head, query, key) → (head,)
    """
    raise NotImplementedError

# %% name="check-previous" tags=["check", "nbval-ignore-output"]
previous_token_score = check("13.previous", previous_token_score)

# %% [markdown] name="ex-chance-text"
# **Exercise 13.chance · ★★ · 5 min.** What a head scores that reads evenly.

# %% name="ex-chance" tags=["exercise"] course={"exercise": "13.chance"}
def chance(places):
    """The score, a float, of a head that gives each token it may read the same weight.

    places: (batch, query, key), bool, True = the type would read it; never a key after the query.
    """
    raise NotImplementedError

# %% name="check-chance" tags=["check", "nbval-ignore-output"]
chance = check("13.chance", chance)

# %% [markdown] name="ex-induction-text"
# **Exercise 13.induction · ★★★ · 8 min.** The places of the last type, for any tokens. Compare with the paper
# example.

# %% name="ex-induction" tags=["exercise"] course={"exercise": "13.induction"}
def induction_places(tokens):
    """Which keys follow a former copy of the query's token: (batch, position) → (batch, query, key), bool.

    True where tokens[key − 1] == tokens[query], and key stands before query.
    """
    raise NotImplementedError

# %% name="check-induction" tags=["check", "nbval-ignore-output"]
induction_places = check("13.induction", induction_places)

# %% [markdown] name="scores-text"
# ## The heads of both models
#
# Windows of 256 characters from the validation splits, 16 of Shakespeare and 8 of Tang. **Predict**: which of the
# types will a model of *characters* need most? Which can it do without? **Look for** numbers far above the chance at
# the left.

# %% name="scores"
from course_lib.lens.heads import head_scores


def windows_of(name, windows, length=256):
    """(window, length + 1), evenly spaced in the validation split."""
    text = corpora[name].validation
    starts = torch.linspace(0, len(text) - length - 1, windows).long()
    return torch.stack([text[start : start + length + 1] for start in starts])


def board(rows, title, limit):
    """Numbers of all heads: one row for each name, (layer, head) side by side."""
    table = torch.stack([each.flatten() for each in rows.values()])  # (row, layer · head)
    ax = plt.subplots(figsize=(10, 0.9 + 0.34 * len(rows)))[1]
    ax.imshow(table, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    for row, column in torch.cartesian_prod(torch.arange(len(rows)), torch.arange(table.shape[1])).tolist():
        value = round(table[row, column].item(), 2) + 0.0  # + 0.0: no "-0.00"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8,
                color="white" if abs(value) > 0.6 * limit else "black")
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xticks(range(table.shape[1]), [f"{column // 4}.{column % 4}" for column in range(table.shape[1])])
    ax.set_title(title)
    return ax

# %% name="scores-board"
texts = {"shakespeare": windows_of("shakespeare", 16), "tang": windows_of("tang", 8)}
scores, boards = {}, {}
for name, text in texts.items():
    newline = corpora[name].tokenizer.encode("\n").item()
    scores[name] = head_scores(capture(models[name], text[:, :-1]), newline)
    rows = {f"{kind}, chance {found.chance:.2f}": found.score for kind, found in scores[name].items()}
    boards[name] = board(rows, f"{name}: attention on places of each type", limit=0.7)
    plt.show()

# %% name="scores-shown"
for name in scores:
    for kind in ("previous token", "newline"):
        found = scores[name][kind]
        layer, head = divmod(found.score.argmax().item(), 4)
        times = found.score.max().item() / found.chance
        print(f"{name:11} {kind:14}  strongest is {layer}.{head}, {times:.0f} times chance")

seen, places = capture(models["tang"], text[:, :-1]), induction_places(text[:, :-1])
previous, found = scores["tang"]["previous token"].score, scores["tang"]["induction"]
print("your scores agree:", torch.allclose(previous_token_score(seen.layer(2)), previous[2], atol=1e-4),
      torch.allclose(attention_on(seen.layer(1), places), found.score[1], atol=1e-4),
      abs(chance(places) - found.chance) < 1e-4)
assert torch.equal(torch.tensor(boards["tang"].images[0].get_array()[0]), previous.flatten())
assert all(found["first token"].score.max() < found["first token"].chance for found in scores.values()), "no sink"
best = {kind: found.score.max().item() for kind, found in scores["shakespeare"].items()}
assert best["induction"] < scores["shakespeare"]["induction"].chance + 0.02
assert 0.5 < best["previous token"] < 0.7 and 0.2 < best["newline"] < 0.35

# %% [markdown] name="scores-answer"
# **Found.** Heads that read the token before: 0.3 and 2.3 in Shakespeare, 2.3 in Tang, with more than half of their
# weight, where chance is 0.02. Heads that read the last newline: 3.2 in Shakespeare and several in Tang.
#
# **None found.** No head rests on the first token: all give it no *more* than chance. (Large models have such sinks,
# and lose much when their first tokens are dropped from a cache; Xiao et al. 2023.) In Shakespeare no head is above
# chance for induction. "None found" is a result.
#
# **Doubtful.** In Tang, 2.2 scores 0.09 on *line start*, six times its chance, and 1.0 scores 0.08 on *induction*,
# hardly more than chance. Is the first one real, and the second one not? Chance is a poor yardstick for a head that
# mostly reads what is near: the last line start is near, and copies are mostly far. A fairer one: while the head
# reads text 1, take the places of text 2. They lie about as far back, and nothing of the kind stands there: what the
# head gives to them, it gives to the position. (This is a permutation baseline; `head_scores` calls it `elsewhere`.)

# %% name="elsewhere"
for name, kind, layer, head in (
    ("tang", "line start", 2, 2),
    ("tang", "induction", 1, 0),
    ("shakespeare", "same token", 3, 1),
    ("shakespeare", "newline", 3, 2),
):
    found = scores[name][kind]
    here, there = found.score[layer, head].item(), found.elsewhere[layer, head].item()
    print(f"{name:11} {layer}.{head} {kind:10}  {here:.2f}, ", end="")
    print(f"places of another text {there:.2f}, chance {found.chance:.2f}")

line_start, induction = scores["tang"]["line start"], scores["tang"]["induction"]
assert line_start.elsewhere[2, 2] > 0.8 * line_start.score[2, 2] > 4 * line_start.chance
assert induction.score[1, 0] > 2 * induction.elsewhere[1, 0]

# %% [markdown] name="elsewhere-answer"
# The other way round. Tang's 2.2 reads as much where line starts of another text are: it goes by position, and chance
# flattered it. Tang's 1.0 does prefer what follows a copy: more than twice what it gives to the same positions
# without one. Still faint, and not to be called an induction head: 0.9 of its weight goes elsewhere. Shakespeare's
# 3.2 is clear by either yardstick.
#
# ## Pictures, now that we know where to look
#
# **Look for** the dark line next to the
# diagonal, and for dark columns. What stands at their top and bottom ends?

# %% name="pictures"
passage = "KATE:\nI knew him well,\nlong ago."
shown_heads = (
    ("shakespeare", passage, 0, 3),
    ("shakespeare", passage, 3, 2),
    ("tang", poem[:32], 2, 3),
    ("tang", poem[:32], 1, 1),
)
figure, grid = plt.subplots(2, 2, figsize=(7.8, 8.2), layout="constrained")
for (name, text, layer, head), ax in zip(shown_heads, grid.flat, strict=True):
    read = capture(models[name], corpora[name].tokenizer.encode(text)[None]).layer(layer)[0, head]
    heatmap(read, text, ax=ax, title=f"{name}, {layer}.{head}")
    ax.tick_params(labelsize=7, length=2)
plt.show()

# %% name="pictures-shown"
seen_maps = [torch.tensor(shown(ax)) for ax in grid.flat]
for each in (seen_maps[0], seen_maps[2]):
    assert each.diagonal(-1).mean() > 0.4, "the line next to the diagonal"
column = passage.index("\n", 10)  # the end of the second line
on_newline = seen_maps[1][column + 1 :, column].mean().item()
print("Shakespeare's 3.2, the last line, its weight on the ⏎ before it:", round(on_newline, 1))
stops = torch.isin(tokens[:32], tang.encode("\n，")).nonzero().flatten()
last_stop = [(query, stops[stops < query][-1].item()) for query in range(7, 32)]
on_stop = sum(seen_maps[3][at].item() for at in last_stop) / len(last_stop)
print("Tang's 1.1, its weight on the last ⏎ or ，:", round(on_stop, 1))

# %% [markdown] name="explorer-text"
# A column begins at a newline and ends with the next: from all over its line, at the ends of words most of all
# ([lesson 00](00_start_here.ipynb)), Shakespeare's 3.2 looks back at where the line began. Tang's 1.1 does so even more, and not only at ⏎. It reads the last ⏎ *or* ，, where the half-line
# began. Its score for *newline*, 0.36, was no more than half the truth: a score is as good as the rule that we
# thought of.
#
# To leaf through all heads on a text of your own, use this explorer (a still of one layer where the page is not
# running). In which layers are the lines near the diagonal, in which the columns?

# %% name="explorer"
from course_lib.explorers.attention_explorer import AttentionExplorer

AttentionExplorer(models["shakespeare"], corpora["shakespeare"].tokenizer, passage, layer=3, head=2)

# %% [markdown] name="ablate-text"
# ## Does it matter? Ask the model
#
# Where a head reads does not tell what it is good for. So we silence it and look at the loss, character by character.
# In lesson 05 we cut a head's columns out of W_O, in a copy of the model. Here we leave the model alone and reach
# into its pass: just before W_O the heads lie side by side, (batch, position, d_model), and we replace one head's
# numbers.
#
# **Exercise 13.ablate · ★★ · 6 min.**

# %% name="ex-ablate" tags=["exercise"] course={"exercise": "13.ablate"}
def replace_head(merged, head, n_heads, said):
    """A copy of merged in which one head, counted from 0, says the same at every position.

    merged: (batch, position, n_heads · d_head), the heads side by side; said: (d_head,)
    """
    raise NotImplementedError

# %% name="check-ablate" tags=["check", "nbval-ignore-output"]
replace_head = check("13.ablate", replace_head)

# %% [markdown] name="hook-text"
# How do we get in? By a **hook**, a function that a module calls when it runs (lesson 03 had one). A *forward
# pre-hook* is given what the module is about to take in, and what it returns is taken instead. Ours sits on `output`,
# which is W_O.

# %% name="hook"
from course_lib.lens.heads import ablated, mean_outputs, token_losses

model, text = models["shakespeare"], texts["shakespeare"]


def silence(module, inputs):
    return replace_head(inputs[0], head=3, n_heads=4, said=torch.zeros(32))


handle = model.blocks[0].attention.output.register_forward_pre_hook(silence)
by_hand = token_losses(model, text)  # nats, (batch, position − 1): entry i is the surprise at character i + 1
handle.remove()  # or it would stay

with ablated(model, [(0, 3)]):  # the library's switch: layer 0, head 3
    by_library = token_losses(model, text)
print("as the library does it:", torch.allclose(by_hand, by_library, atol=1e-4))
print("worse than the whole model:", bool(by_hand.mean() > token_losses(model, text).mean() + 0.2))

# %% [markdown] name="mean-text"
# **Zeros, or what?** Michel et al. (2019) put zeros. But a head may say nearly the same whatever the text, and the
# layers after it have learned to count on that constant; zeros take it away, and they stumble over numbers that they
# never met. So we put the head's **mean** over many texts: what it says anyway stays, and what it *read* is gone
# (**mean ablation**; Wang et al. 2022 use a kind of it). The Tang model shows the difference:

# %% name="zero-or-mean" tags=["nbval-ignore-output"]
whole = {name: token_losses(models[name], texts[name]) for name in models}
means = {name: mean_outputs(models[name], texts[name][:, :-1]) for name in models}  # for each layer (head, d_head)
lost = {}
for head in (0, 3):
    for what, said in (("zeros", None), ("mean", means["tang"])):
        with ablated(models["tang"], [(0, head)], said):
            lost[head, what] = (token_losses(models["tang"], texts["tang"]) - whole["tang"]).mean().item()
    print(f"tang 0.{head}: loss + {lost[head, 'zeros']:.3f} by zeros, + {lost[head, 'mean']:.3f} by its mean")

# %% [markdown] name="worse-text"
# By zeros one would take Tang's 0.3 for a head that matters a little. It says nearly the same in every text.
#
# Now all heads of the Shakespeare model, one at a time, by their mean. The loss is a mean too, over all characters,
# so we split it by **kinds of predictions**: which character was to be predicted? **Predict**: what will miss the
# previous-token head 0.3, and what the newline head 3.2?

# %% name="worse"
from course_lib.lens.predictions import kinds_of_predictions

assert lost[3, "zeros"] > 0.015 and abs(lost[3, "mean"]) < 0.01, "what we saw of tang 0.3"


def worse_without(name):
    """Nats lost without each head: for each kind of prediction, (layer, head)."""
    kinds = kinds_of_predictions([corpora[name].tokenizer.decode(row) for row in texts[name]])
    worse = {f"{kind} ({int(where.sum())})": torch.zeros(4, 4) for kind, where in kinds.items()}
    for layer, head in torch.cartesian_prod(torch.arange(4), torch.arange(4)).tolist():
        with ablated(models[name], [(layer, head)], means[name]):
            more = token_losses(models[name], texts[name]) - whole[name]  # (batch, position − 1)
        for kind, where in zip(worse, kinds.values(), strict=True):
            worse[kind][layer, head] = more[where].mean()
    return worse


worse = {"shakespeare": worse_without("shakespeare")}
ax = board(worse["shakespeare"], "shakespeare: nats lost without the head, by what is to be predicted", limit=1)
plt.show()

# %% name="worse-shown"
lost = {kind.partition(" (")[0]: each for kind, each in worse["shakespeare"].items()}
assert torch.equal(torch.tensor(ax.images[0].get_array()[0]), lost["blank line"].flatten())
assert lost["space"].argmax() == lost["inside a word"].argmax() == 3
assert lost["space"][0, 3] > 0.5 > 0.15 > lost["first letter"][0, 3]
second, first = lost["end of line"].flatten().sort().values[-2:]
assert lost["end of line"].argmax() == 14 and first > 2 * second
assert lost["blank line"].argmax() == 2 and lost["blank line"][0, 2] > 2

# %% [markdown] name="worse-answer"
# The names hold. Without **0.3**, spelling suffers: letters inside words (0.4 nats) and above all the space that ends
# them (0.7), hardly the first letter of a word, for which the character before, a space, says little. Without
# **3.2**, *ends of lines* suffer more than without any other head. That fits a story: a model that does not see how
# far back the line began does not know when it is full.
#
# ## Four ways to be misled
#
# **1. The same picture, another job.** 2.3 reads the token before about as much as 0.3 does. Its column on this
# board? Pale: the model hardly needs it. *Where* is not *what for*. (Presumably the stream has held the neighbour
# since 0.3 fetched it.)
#
# **2. No picture at all.** The largest number on the board stands in the column of **0.2**, and no score has named
# 0.2: none of its scores is above 0.1. Yet without it the *blank lines* between speeches go wrong, 28 of 4,096
# predictions, and the capitals of the names that follow. A mean over thousands of queries says little about a head
# that has one rare job. Here are its weights for the queries that matter, those on a newline, from which the next
# line is predicted:

# %% name="rare-job"
reads = capture(model, text[:, :-1]).layer(0)[:, 2]  # head 0.2: (batch, query, key)
at_newline = text[:, :-1] == corpora["shakespeare"].tokenizer.encode("\n").item()
at_newline[:, :8] = False  # who has something to look back on


def by_distance(queries, back=3):
    """Mean weight of these queries on the tokens 1, 2, … back."""
    return [round(reads.diagonal(-d, 1, 2)[queries[:, d:]].mean().item(), 2) for d in range(1, back + 1)]


print("all queries:     ", by_distance(torch.ones_like(at_newline)))
print("queries on a ⏎:  ", by_distance(at_newline))
assert sum(by_distance(at_newline)[:2]) > 2.5 * sum(by_distance(torch.ones_like(at_newline))[:2])

# %% [markdown] name="received-text"
# On all queries it spreads its weight far and wide; on a newline it looks one and two back, where the line ended.
# Average over the right queries, and something like a type appears. Which queries are the right ones, the ablation
# told us.
#
# **3. Read, and not received.** What a token receives is weight times *value*, through W_O, and values differ in
# length. Kobayashi et al. (2020) therefore measure the length of that product, weight · value · W_O: what is **passed
# on**. Tang's 2.0 gives newlines 0.30 of its weight. How much of what it passes on comes from them?

# %% name="received"
from course_lib.lens.heads import passed_on

seen = capture(models["tang"], texts["tang"][:, :-1])
newlines = places_of_types(seen.tokens, newline)["newline"]
received = passed_on(models["tang"], seen, layer=2)  # lengths, (batch, head, query, key)
received = received / received.sum(dim=-1, keepdim=True)
for head in range(4):
    weight, share = (attention_on(each, newlines)[head].item() for each in (seen.layer(2), received))
    print(f"tang 2.{head}: newlines get {weight:.2f} of the weight, and give {share:.2f} of what is passed on")

# %% [markdown] name="rhyme-text"
# From newlines 2.0 receives a third less than its weights suggest, since their values are short for it. (The fourth
# way waits below, in a model that we train.)
#
# ## The rhyme
#
# So we find the head of our question neither by its picture nor by its type. We ask which head the *ends of
# couplets*, the characters before 。, cannot do without. **Look for** a column that is dark in that row and pale in
# all others.

# %% name="rhyme"
worse["tang"] = worse_without("tang")
ax = board(worse["tang"], "tang: nats lost without the head, by what is to be predicted", limit=1)
plt.show()

# %% name="rhyme-shown"
lost = {kind.partition(" (")[0]: each for kind, each in worse["tang"].items()}
assert torch.equal(torch.tensor(ax.images[0].get_array()[2]), lost["end of half-line"].flatten())
others = torch.stack([each for kind, each in lost.items() if kind != "end of couplet"])  # (kind, layer, head)
only = lost["end of couplet"] - others.amax(dim=0)  # worse there than for any other kind
layer, head = divmod(only.argmax().item(), 4)
print(f"needed for the ends of couplets and for nothing else: {layer}.{head}")
assert (layer, head) == (3, 0) and lost["end of couplet"][3, 0] > 0.3 and others[:, 3, 0].max() < 0.1
assert lost["end of couplet"][2, 1] > 0.3 and others[:, 2, 1].max() > 0.3, "2.1 serves more than one kind"
assert lost["end of couplet"][1, 3] > 0.3 and others[:, 1, 3].max() > 0.3, "so does 1.3"
assert max(found.score[3, 0] for found in scores["tang"].values()) < 0.12

# %% [markdown] name="rhyme-answer"
# **3.0**: without it the last character of a couplet costs 0.4 nats more, and no other kind of character loses as
# much as 0.1. (1.3 and 2.1 are needed there as much, but elsewhere too.) The scores would not have named it: none is
# above 0.1. And at the top of this page its panel was the palest of the four.
#
# Now that we know the head *and* the queries, we may look, at a poem on which it shows well: willows by the river, by
# Yu Xuanji. It rhymes on 楼 头 舟 愁, today still. **Look for** the rows of 人, 客 and 添, from which 头, 舟 and 愁 are to be
# predicted. A red circle marks each former rhyme. Which rhyme does the head read?

# %% name="rhyme-picture"
poem = next(poem for poem in poems if poem.startswith("翠色连荒岸"))
tokens = tang.encode(poem)
seen = capture(models["tang"], tokens[None])
ax = plt.subplots(figsize=(8, 8.2))[1]
heatmap(seen.layer(3)[0, 0], poem, ax=ax, title="tang, 3.0, over a whole poem")
rhymes = [at for at in range(len(poem) - 1) if poem[at + 1] == "。"]
queries, keys = zip(*[(at - 1, earlier) for at in rhymes for earlier in rhymes if earlier < at], strict=True)
ax.scatter(keys, queries, s=90, facecolors="none", edgecolors="tab:red")
plt.show()

# %% name="rhyme-picture-shown"
assert torch.tensor(shown(ax))[list(queries), list(keys)].sum() > 2.5, "three rows, nearly all of their weight"
weights = capture(models["tang"], texts["tang"][:, :-1]).layer(3)[:, 0]  # head 3.0: (batch, query, key)
reads, even = [], []
for row, verse in zip(weights, map(tang.decode, texts["tang"]), strict=True):
    ends = [at for at in range(1, 256) if verse[at + 1 : at + 2] == "。"]
    reads += [row[ends[i] - 1, ends[i - 3 : i]].sum().item() for i in range(3, len(ends))]
    even += [3 / ends[i] for i in range(3, len(ends))]  # query ends[i] − 1 may read ends[i] tokens
mean_read, mean_even = sum(reads) / len(reads), sum(even) / len(even)
print(f"in all {len(reads)} places the last three rhymes get {mean_read:.1f} of its weight; chance {mean_even:.2f}")

# %% [markdown] name="rhyme-found"
# Nearly all the weight of the three rows lies in the circles, mostly in one of them, and over all our verse more than
# half of it. So it reads the rhymes; does the model *answer* by them? Reading is no proof, but we can try: change the
# rhymes. We write other characters in their places, 人 春 新 (*ren, chun, xin* today; they rhymed then) or 家 花 斜 (all in
# -a then), and ask what the model expects for the last one.

# %% name="other-rhymes"
def expected(verse):
    """The three characters that the model finds likeliest for the poem's last rhyme."""
    logits = models["tang"](tang.encode(verse)[None])[0, rhymes[-1] - 1]
    return " ".join(tang.decode(logits.topk(3).indices))


blind = set()
for others in ("楼头舟", "人春新", "家花斜"):
    verse = list(poem)
    for at, character in zip(rhymes[:3], others, strict=True):
        verse[at] = character
    with ablated(models["tang"], [(3, 0)], means["tang"]):
        without = expected("".join(verse))
    blind.add(frozenset(without))
    print(f"after {' '.join(others)}: {expected(''.join(verse))}   without 3.0: {without}")
assert len(blind) == 1, "without 3.0 the same three, whatever the rhymes"

# %% [markdown] name="other-rhymes-answer"
# 愁 and 秋 rhyme with 楼, 春 with 人, 茶 with 家. (The others do not: the meaning of the line has its say, too.) Without 3.0
# the model expects the same three characters *whatever the rhymes were*. On this poem, that is more than a picture:
# the head reads there, what stands there changes the answer, and it does so through this head. And nobody told the
# model that verse rhymes, nor how a character sounds.
#
# Is it chance that *this* model has such a head? The same recipe from two other seeds:

# %% name="seeds"
from course_lib.data.tables import load_table

table = load_table("head_roles")
print(table["command"])
for seed, found in zip(table["seeds"], table["models"], strict=True):
    lost = {kind: torch.tensor(each) for kind, each in found["worse"].items() if kind != "all"}
    rhyme = lost.pop("end of couplet")
    only = (rhyme > 0.3) & (torch.stack(list(lost.values())).amax(dim=0) < 0.1)  # (layer, head)
    named = [f"{layer}.{head} ({rhyme[layer, head]:.2f} nats)" for layer, head in only.nonzero().tolist()]
    print(f"seed {seed}: missed at the ends of couplets and nowhere else:", ", ".join(named) or "none")

# %% [markdown] name="seeds-answer"
# (Seed 0 is our model, on 32 windows in place of 8.) With seed 1 there are two, and not the same head: who takes a
# job is chance. With seed 2 there is none; the work is shared out, or not done. The story of a head is the story of
# one model.
#
# ## An induction head, from nothing
#
# None of these models had an induction head. What would it be good for? For text that repeats: *… K X …* *K*, and the
# head finds the former K, reads what came after it, and predicts X, whatever K and X are. So we make a task in which
# nothing else helps: 48 random tokens of 32 kinds, where the first 12 to 24 repeat over and over. Before they do,
# nothing can be known; from the second token of the repetition on, nearly everything follows.
#
# **Why one layer cannot do it.** The query holds K. It looks for the token *after* the former K. But in the first
# layer a key is made of its own token, X, and its place; nothing in it says "K stood before me". It takes two steps
# (Elhage et al. 2021):
#
# 1. a head of layer 0 reads the token before, and writes into X's residual stream: *before me, K*;
# 2. a head of layer 1 asks for *before me, K*, finds X, and passes X on.
#
# The model has two layers of attention and no feed-forward (`feed_forward="none"`). Every 20 steps we measure how
# many of the foretold tokens it gets right (guessing: 0.03), and the best head of each type. **Predict**: does the
# accuracy rise steadily? Which of the two types comes first?

# %% name="induction" tags=["nbval-ignore-output"]
from course_lib.training import induction

trial = induction.repeated_sequences(60, torch.Generator().manual_seed(99))


def watch(n_layers, steps=160):
    """The trained model, and every 20 steps (step, accuracy, best score in the first layer, in the last)."""
    model, curve = induction.induction_model(0, n_layers), []
    for step, _ in induction.train_induction(model, steps + 1, seed=0):
        if step % 20 == 0:
            found = head_scores(capture(model, trial.tokens))
            best = (found["previous token"].score[0].max(), found["induction"].score[-1].max())
            curve.append((step, induction.accuracy(model, trial), *map(float, best)))
    return model, torch.tensor(curve)


inducer, two_layers = watch(2)
_, ax = plt.subplots(figsize=(6.8, 3.4))
names = ("accuracy", "best previous-token head, layer 0", "best induction head, layer 1")
for column, name in enumerate(names, start=1):
    ax.plot(two_layers[:, 0], two_layers[:, column], "o-", markersize=3, label=name)
ax.set_xlabel("step")
ax.legend()
plt.show()

# %% name="induction-shown"
assert torch.equal(torch.tensor(ax.lines[0].get_ydata()), two_layers[:, 1])
assert two_layers[4, 1] < 0.3 and two_layers[-1, 1] > 0.9, "nothing for long, then nearly all"
assert two_layers[-1, 2] > 0.7 and two_layers[-1, 3] > 0.75
assert 0.05 < head_scores(capture(inducer, trial.tokens))["induction"].chance < 0.1

# %% [markdown] name="induction-answer"
# Not steadily. For a hundred steps little happens; then, within some fifty, both types appear *together* and the
# accuracy goes with them. Neither is of much use without the other, so neither grows alone. Olsson et al. (2022)
# report a sudden change in large models too: the curve of their loss has a bump at the time when induction heads
# form.
#
# ## Break it: one layer
#
# The same with one layer of attention. **Predict** its accuracy.

# %% name="break-one-layer" tags=["nbval-ignore-output"]
_, one_layer = watch(1)
print(f"after {int(one_layer[-1, 0])} steps: one layer {one_layer[-1, 1]:.2f}, two layers {two_layers[-1, 1]:.2f}")

# %% name="break-one-layer-sound"
table = load_table("induction")
print(table["command"], "\nafter 200 steps, for seeds", *table["seeds"])
for name, found in table["models"].items():
    print(f"{name:10} accuracy", *(f"{each['accuracy']:.2f}" for each in found))
assert one_layer[-1, 1] < 0.25

# %% [markdown] name="one-layer-answer"
# One answer in six is right, with every seed: better than guessing, presumably since what stood 12 to 24 places back
# is a good bet; but it cannot tell which.
#
# **4. The silence that nobody notices.** Back to two layers. All four heads of layer 1 are induction heads, with more
# than 0.7 of their weight on such places. **Predict**: the accuracy without one of them? Without all?

# %% name="redundant"
found = head_scores(capture(inducer, trial.tokens))
assert found["induction"].score[1].min() > 0.7
silent = mean_outputs(inducer, trial.tokens)
groups = {"one of layer 1": [(1, 0)], "another one": [(1, 3)], "all four of layer 1": [(1, head) for head in range(4)]}
groups["the previous-token head"] = [(0, int(found["previous token"].score[0].argmax()))]
before = induction.accuracy(inducer, trial)
for name, heads in groups.items():
    with ablated(inducer, heads, silent):
        left = induction.accuracy(inducer, trial)
    print(f"without {name:24}", "as before" if left > before - 0.05 else "guessing" if left < 0.1 else "much is lost")

# %% [markdown] name="redundant-answer"
# Without one the model does as before, without all it guesses. So a head that costs nothing may be doing just
# what the model lives by; the others do it as well. To find out, silence *groups*.

# %% [markdown] name="practice"
# ## In practice
#
# **What heads others found.** In BERT: heads for the token before or after, for separators (a place to rest), for
# objects of verbs and for mentions of the same thing (Clark et al. 2019). The names are ours.
#
# **Is attention an explanation?** Jain & Wallace (2019) altered the weights of trained RNN classifiers greatly,
# and the answers often stayed. Wiegreffe & Pinter (2019) reply that it depends on what one calls an explanation, and
# propose tests. Either way, a picture of weights alone proves nothing. Besides, what a head of layer 3 reads at a place is no longer the
# character alone: the stream holds what earlier layers brought there.
#
# **And our sentence?** In Shakespeare's 3.2, *it* gives *animal* half of its weight and *road* nearly none. So it knows
# what is tired? *because*, one word before, gives *animal* as much; and with the two nouns exchanged, *it* reads *animal*
# and *road* about alike, and little of either. The first picture fitted a story; that made it no finding.
#
# **Cost.** Capture keeps h·n² weights a layer: for 32 layers of 32 heads and 4,096 tokens in 16 bits 34 GB.

# %% name="practice-numbers"
assert round(32 * 32 * 4096**2 * 2 / 1e9) == 34  # layers, heads, weights, bytes

for nouns in (("animal", "road"), ("road", "animal")):
    sentence = "The {} did not cross the {} because it was too tired.".format(*nouns)
    weights = capture(models["shakespeare"], corpora["shakespeare"].tokenizer.encode(sentence)[None]).layer(3)[0, 2]
    for reader in ("because", "it"):
        query = sentence.index(f" {reader} ") + len(reader)  # its last letter
        read = {n: weights[query, (at := sentence.index(n)) : at + len(n)].sum().item() for n in nouns}
        print(f"{sentence[:12]}… {reader} reads", *(f"{noun} {read[noun]:.1f}" for noun in sorted(read)))
        close = abs(read["animal"] - (0.5 if nouns[0] == "animal" else 0.06)) < 0.06
        assert close and read["road"] < 0.13

# %% [markdown] name="recap"
# ## Recap
#
# 1. `capture` takes **weights** from the pass that ran; the model that shows them is the model that answers.
# 2. A **head score** is the mean attention on the places of a type. It needs its **chance**: even attention; or,
#    against mere position, the places of another text. We found heads for the token before and for the newline, none
#    for induction.
# 3. **Ablate** by the mean over many texts, not by zeros, and split the loss by **kinds of predictions**. Spelling
#    needs 0.3, ends of lines 3.2, and the rhyme of Tang 3.0.
# 4. An **induction head** finds the former copy and reads what came after. It needs a head in a layer before it that
#    writes down who stood before whom; so with one layer it never forms, and with two the pair forms at once.
# 5. A picture shows where a head **read**. It misleads where two heads read alike and do different things, where a
#    rare job drowns in a mean, where the value is short, and where others would do the same.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Five questions; in the last one two choices are right.

# %% name="quiz" tags=["quiz"] course={"quiz": 5}
quiz("13")

# %% [markdown] name="sources"
# ## Sources
#
# - Clark, Khandelwal, Levy, Manning 2019, *What Does BERT Look At?*,
#   [arXiv 1906.04341](https://arxiv.org/abs/1906.04341): head types with scores, in BERT.
# - Michel, Levy, Neubig 2019, *Are Sixteen Heads Really Better than One?*,
#   [arXiv 1905.10650](https://arxiv.org/abs/1905.10650): heads set to zero, one and many at a time.
# - Wang et al. 2022, *Interpretability in the Wild*, [arXiv 2211.00593](https://arxiv.org/abs/2211.00593): mean
#   ablation, and backup heads that step in, in GPT-2 small.
# - Elhage et al. 2021, [*A Mathematical Framework for Transformer
#   Circuits*](https://transformer-circuits.pub/2021/framework/index.html): attention-only models of two layers, and
#   how their heads work together.
# - Olsson et al. 2022, *In-context Learning and Induction Heads*,
#   [arXiv 2209.11895](https://arxiv.org/abs/2209.11895): the same in large models, and the bump.
# - Xiao et al. 2023, *Efficient Streaming Language Models with Attention Sinks*,
#   [arXiv 2309.17453](https://arxiv.org/abs/2309.17453): heads that rest on the first tokens.
# - Kobayashi, Kuribayashi, Yokoi, Inui 2020, *Attention is Not Only a Weight*,
#   [arXiv 2004.10102](https://arxiv.org/abs/2004.10102): weight times the length of the value.
# - Jain, Wallace 2019, *Attention is not Explanation*, [arXiv 1902.10186](https://arxiv.org/abs/1902.10186), and
#   Wiegreffe, Pinter 2019, *Attention is not not Explanation*, [arXiv 1908.04626](https://arxiv.org/abs/1908.04626):
#   read both.

# %% [markdown] name="next"
# ## Next
#
# All that we captured here are matrices of n × n. **[Lesson 14](14_the_bill.ipynb)** counts what they cost, and
# computes attention without ever keeping one.
