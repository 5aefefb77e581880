# %% [markdown] name="title"
# # Build the block: a stream, two norms, and a layer that works alone
#
# Lesson 08 · [00 Start here](00_start_here.ipynb) · before: [07 Rotary positions](07_rotary_positions.ipynb) ·
# next: [09 A GPT from its parts](09_a_gpt_from_its_parts.ipynb)

# %% [markdown] name="goals"
# **What you will build.** The block that a GPT is a stack of: `LayerNorm`, `FeedForward`, and `Block`, which joins them to
# lesson 05's attention.
#
# **Afterwards you can**
#
# 1. say why a gradient gets through 48 layers with residual connections, and what happens without;
# 2. work out LayerNorm with a pencil, and say what RMSNorm leaves out;
# 3. tell what attention does to a token from what the feed-forward layer does;
# 4. draw a block, Pre-LN and Post-LN, and say what the place of the norm changes;
# 5. count a block's parameters, and say what the famous two thirds are two thirds of.
#
# **What you need.** Attention with heads and a mask (lessons 04 and 05), and what a gradient is. **Time:** 60 minutes, 24 of them
# for four exercises, as far as *Where the norm stands*; the rest takes 20 more, and may be read another day.

# %% name="setup"
import torch
from matplotlib import pyplot as plt
from torch import nn

from course_lib.exercises import check, hint, mine, quiz, solution
from course_lib.runtime import begin_lesson

begin_lesson("08")

# %% [markdown] name="question"
# ## Forty-eight layers, and the first one hears nothing
#
# In lesson 02 *it* needed two passes of attention to find the animal. Large models make many more: the largest GPT-2 has 48
# layers (Radford et al. 2019). So let us stack 48. For now a layer is the plainest thing that can learn: two matrices with a
# bend between them, `max(number, 0)`, working on the numbers of each token. The loss sits on the roof of this tower, and a
# layer learns from the gradient that reaches it. So we send one of length 1 in at the top, and measure how long it is below
# each layer.

# %% name="tower"
def tower(depth=48, d_model=32, careful=False):
    """Layers of two matrices with a bend. careful: drawn so that vectors keep their length on the way up."""
    layers = nn.ModuleList()
    for _ in range(depth):
        widen = nn.Linear(d_model, 2 * d_model, bias=False)
        narrow = nn.Linear(2 * d_model, d_model, bias=False)
        if careful:
            nn.init.normal_(widen.weight, std=(1 / d_model) ** 0.5)
            nn.init.normal_(narrow.weight, std=(2 / (2 * d_model)) ** 0.5)  # the bend halves the square
        layers.append(nn.Sequential(widen, nn.ReLU(), narrow))
    return layers


def climb(layers, x, residual):
    """The vectors below each layer, and those above the last: depth + 1 of them."""
    vectors = [x]
    for layer in layers:
        change = layer(vectors[-1])
        vectors.append(vectors[-1] + change if residual else change)
    return vectors

# %% [markdown] name="reach-text"
# We try three towers: as PyTorch draws it; with matrices drawn with care, so that vectors stay about as long as they were (He
# et al. 2015); and with a single change: what a layer computes is **added** to what it was given, `x + layer(x)`. **Look for**
# the left end of each curve, at the first layer. The scale is logarithmic.

# %% name="reach"
def reach(layers, residual):
    """The length of the gradient below each layer, for one of length 1 at the top."""
    generator = torch.Generator().manual_seed(0)
    x, above = torch.randn(2, 64, 32, generator=generator, dtype=torch.float64)
    vectors = climb(layers.double(), x.requires_grad_(), residual)
    return [g.norm().item() for g in torch.autograd.grad(vectors[-1], vectors, above / above.norm())]


towers = {  # careful, residual
    "layer(x)": (False, False),
    "layer(x), drawn with care": (True, False),
    "x + layer(x)": (False, True),
}
reaches = {name: reach(tower(careful=careful), residual) for name, (careful, residual) in towers.items()}
ax = plt.subplots()[1]
for (name, lengths), style in zip(reaches.items(), ("-", "--", "-"), strict=True):
    ax.semilogy(lengths, style, label=name)
ax.set_xlabel("layers below (0: the first layer's input, 48: the top)")
ax.set_ylabel("length of the gradient")
ax.legend()
plt.show()

# %% name="reach-shown"
assert [list(line.get_ydata()) for line in ax.lines] == list(reaches.values())
plain, with_care, added = (lengths[0] for lengths in reaches.values())
print(f"of a gradient of length 1 arrive: {plain:.0e}, {with_care:.1f} with care, {added:.1f} with sums")
assert plain < 1e-30 and plain ** (1 / 48) < 1 / 4 and 0.1 < with_care < 1 < added

# %% [markdown] name="reach-answer"
# As PyTorch draws it, each layer takes three quarters of the gradient and more: less than a part in 10³⁰ arrives. Careful
# drawing keeps a good part (we shall see what that is worth). With the sum it arrives longer than it left, and nobody had to be
# careful.
#
# ## x + f(x)
#
# Why does a plus sign do that? Take layers that only multiply a number by 0.1. Three of them on top of each other have the slope
# 0.1 · 0.1 · 0.1 = 0.001. With the sum, each has the slope 1 + 0.1, and
#
# $$1.1^3 = 1 + 3 \cdot 0.1 + 3 \cdot 0.01 + 0.001.$$
#
# Read the right side as a list of ways down: one that goes round all three layers, three through one of them, three through
# two, one through all (Veit et al. 2016). The way round everything is multiplied by 1 each time, so it is as good at 48 layers
# as at 3. **Predict**: with 48 layers, which ways carry most: those through none, through a few, or through nearly all?

# %% name="ways"
import math

ways = [math.comb(48, through) * 0.1**through for through in range(49)]  # how many ways · what each carries
print(f"without the sum: {0.1**48:.0e}   with it: {sum(ways):.0f} = 1.1**48: {math.isclose(sum(ways), 1.1**48)}")
for through in (0, 2, 4, 6, 10, 20):
    print(f"ways through {through:2} layers carry {ways[through] / sum(ways):6.1%}")

# %% [markdown] name="ways-answer"
# With slopes of 0.1, ways through about four layers carry most. Veit et al. find the like in a trained network. The sum
# `x + f(x)` is called a **residual connection** (He et al. 2015): the layer need only learn what is left to change.
#
# ## Break it: take the sums out
#
# A gradient of the right length might still say nothing. So we let the three towers learn Shakespeare's next character from the
# one before: an embedding below, a matrix above, 60 steps with Adam (an optimiser; lesson 10 takes it apart), three seeds. The
# yardstick: who knows only how frequent each character is has a loss of 3.31 (on the training text; lesson 01's 3.34 was the
# validation split's). **Predict** the tower drawn with care.

# %% name="break-residual" tags=["nbval-ignore-output"]
from course_lib.data.batches import random_windows
from course_lib.data.corpora import load_corpus
from course_lib.training.trainer import next_token_loss

corpus = load_corpus("shakespeare")

def trained(careful, residual, seed):
    """The mean loss of the last 20 of 60 steps."""
    torch.manual_seed(seed)
    layers, embedding, head = tower(careful=careful), nn.Embedding(63, 32), nn.Linear(32, 63)
    parameters = nn.ModuleList([layers, embedding, head]).parameters()
    optimizer = torch.optim.Adam(parameters, lr=0.001, fused=True)  # fused: the same steps, sooner
    generator, losses = torch.Generator().manual_seed(seed), []
    for _ in range(60):
        inputs, targets = random_windows(corpus.train, 8, 16, generator)
        loss = next_token_loss(head(climb(layers, embedding(inputs), residual)[-1]), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-20:]) / 20


endings = {name: [trained(*kind, seed) for seed in range(3)] for name, kind in towers.items()}
for name, losses in endings.items():
    print(f"{name:26} losses of three seeds:", *(f"{loss:.2f}" for loss in losses))

# %% name="alike"
def cosines_at_the_top(careful, residual):
    """The mean cosine between 64 random vectors after the climb, and of each with itself as it came in."""
    torch.manual_seed(0)
    bottom = torch.randn(64, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    top = nn.functional.normalize(climb(tower(careful=careful).double(), bottom, residual)[-1], dim=-1)
    others = ((top @ top.T).sum() - 64).item() / (64 * 63)
    return others, nn.functional.cosine_similarity(top, bottom).mean().item()


kinds = {"drawn with care": (True, False), "with sums": (False, True), "both": (True, True)}
cosines = {name: cosines_at_the_top(*kind) for name, kind in kinds.items()}
for name, (others, itself) in cosines.items():
    print(f"cosine at the top, {name:15}: with the others {others:.2f}, with what came in {abs(itself):.1f}")
assert cosines["drawn with care"][0] > 0.98 and cosines["both"][0] > 0.85 and abs(cosines["both"][1]) < 0.05
assert 0.4 < cosines["with sums"][0] < 0.55 and cosines["with sums"][1] > 0.25
plain, with_care, added = endings.values()
assert min(plain) > 4 and min(with_care) > 3.1 and max(with_care) < 3.31 and max(added) < 3.05
share = torch.bincount(corpus.train) / len(corpus.train)
assert abs(-(share * share.log()).sum().item() - 3.31) < 0.01

# %% [markdown] name="break-residual-answer"
# In so few steps only the tower with sums learns much, in every seed. The first hardly leaves an even guess, ln 63 = 4.14. The
# careful one has gradients of a good length, and gets just below the frequencies: with each bend the vectors turn towards one
# another, until those that began in random directions all point nearly the same way (a **cosine** of 1: the same direction; 0:
# at right angles). Which character it was can hardly be seen any more. With sums the cosine comes to a half.
#
# The plus sign does not do that alone. With both, sums and careful matrices, it is 0.9 again: each layer writes as much as it
# reads, and of what came in nothing is left to be seen. PyTorch draws smaller numbers, which write little, and the top still
# resembles what came in. A sum keeps that as long as the writes stay small beside it; we come back to this.
#
# ## The stream
#
# What arrives at the top is what came in, plus everything that was ever written:
#
# $$x_{48} = x_0 + f_1(x_0) + f_2(x_1) + \dots + f_{48}(x_{47})$$
#
# Each token has one vector that runs from bottom to top, the **residual stream**. A layer reads all of it, and writes by
# adding. What an early one wrote, any later one can read, and a write in columns that nobody else uses leaves the rest
# untouched (Elhage et al. 2021). Lesson 02 did so already: *it* kept what it was and added what it had received. Here that is a
# ledger, set by hand, with a fifth column that nobody has written to yet.

# %% name="ledger"
columns = ["living", "place", "noun", "pronoun", "creature"]
stream = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0])  # "it", as it comes from the embedding
writes = {
    "attention 1, read in tired": [1.0, 0.0, 0.0, 0.0, 0.0],
    "attention 2, read in animal": [0.0, 0.0, 1.0, 0.0, 0.0],
}
print(f"{'embedding':30}", stream.tolist())
for writer, change in writes.items():
    stream = stream + torch.tensor(change)
    print(f"{'+ ' + writer:30}", stream.tolist())

# %% [markdown] name="ledger-answer"
# *It* (or 它) has gathered that something living is meant, and a noun: a creature, then. But *living* **and** *noun* is a conclusion,
# and attention gathers. Who writes the fifth column? First, a trouble with sums.
#
# ## Sums grow
#
# A stream that is only added to gets longer. We take the tower with both, sums and careful matrices, whose results are about as
# long as what they read, and measure the **size** of the vectors: the root of the mean of their squared numbers. Once each
# layer reads the stream as it is; once a copy brought to size 1, by `nn.LayerNorm`. **Predict** the size after 48 layers, both
# times.

# %% name="growth"
def sizes(norm):
    """The size of 64 tokens' vectors below each layer and at the top."""
    torch.manual_seed(0)
    layers, x = tower(careful=True), torch.randn(64, 32)
    found = [x.square().mean().sqrt().item()]
    for layer in layers:
        x = x + layer(norm(x))
        found.append(x.square().mean().sqrt().item())
    return found


bare, normed = sizes(nn.Identity()), sizes(nn.LayerNorm(32))
print("without norm: over a million:", bare[48] > 1e6)
for depth in (0, 12, 24, 48):
    print(f"with norm, after {depth:2} layers: {normed[depth]:.1f}   √(1 + layers) = {math.sqrt(1 + depth):.1f}")

# %% [markdown] name="growth-answer"
# If a layer adds something as long as its input, and on average at right angles to it, the square doubles each time: 48
# doublings make hundreds of trillions, whose root is in the millions. If it reads a copy of size 1, it adds about 1 to the
# square: √49 = 7. That is why a norm stands before each layer. (Where else it could stand comes later.)
#
# ## LayerNorm by hand
#
# **LayerNorm** (Ba et al. 2016) takes the numbers of *one token's* vector: subtract their mean, then divide by their standard
# deviation, the root of the mean squared deviation. On paper, for (1, 3, 5, 7): the mean is 4; the deviations −3, −1, 1, 3;
# their squares 9, 1, 1, 9 have the mean 5. The result is (−3, −1, 1, 3)/√5. **Predict** the second token's.

# %% name="norm-loops"
def norm_by_loops(x, epsilon=1e-5):
    result = torch.zeros_like(x)
    for t, numbers in enumerate(x.tolist()):  # one token …
        mean = sum(numbers) / len(numbers)
        variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
        for i, number in enumerate(numbers):  # … and its d_model numbers
            result[t, i] = (number - mean) / math.sqrt(variance + epsilon)
    return result


tiny = torch.tensor([[1.0, 3.0, 5.0, 7.0], [110.0, 130.0, 150.0, 170.0]])  # (token, d_model)
print(norm_by_loops(tiny))

# %% [markdown] name="ex-norm-text"
# The same: a factor and a shift that all numbers share are gone. The small ε keeps the root from being 0 when all numbers are equal.
# At the end, two learned vectors give back what a later layer may need: times `weight`, plus `bias`, column by column.
#
# **Exercise 08.norm · ★★ · 7 min.** LayerNorm without a loop, for any number of axes in front. A parameter is an `nn.Parameter(…)`.

# %% name="ex-norm" tags=["exercise"] course={"exercise": "08.norm"}
class LayerNorm(nn.Module):
    """Normalise each token's vector for itself: (..., d_model) → (..., d_model).

    Mean 0 and variance 1 over d_model (ε = 1e-5 is added to the variance), then times `weight` plus
    `bias`: parameters (d_model,) that start as ones and as zeros.
    """

    def __init__(self, d_model):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError

# %% name="check-norm" tags=["check", "nbval-ignore-output"]
LayerNorm = check("08.norm", LayerNorm)

# %% [markdown] name="rms-text"
# **RMSNorm** (Zhang & Sennrich 2019) leaves out half of it: no mean is subtracted and there is no bias; x is divided by its size. Llama
# and most of its contemporaries use it. Loop, matrix and library once more, and then both norms of vectors that were shifted or
# multiplied. **Predict** the last column.

# %% name="rms"
from course_lib.model import layers as library

norm, rms_norm = LayerNorm(4), library.RMSNorm(4)
print("LayerNorm: loop = yours: ", torch.allclose(norm(tiny), norm_by_loops(tiny), atol=1e-5))
print("           = library's:  ", torch.allclose(norm(tiny), library.LayerNorm(4)(tiny), atol=1e-5))
print("           = PyTorch's:  ", torch.allclose(norm(tiny), nn.LayerNorm(4)(tiny), atol=1e-5))

x = tiny[:1]
print("RMSNorm:   by hand:      ", torch.allclose(rms_norm(x), x / x.square().mean().sqrt(), atol=1e-5))
print("LayerNorm is RMSNorm of x − mean:", torch.allclose(norm(x), rms_norm(x - x.mean()), atol=1e-5))
for name, changed in {"x · 10": 10 * x, "x + 100": x + 100, "−x": -x}.items():
    same = [torch.allclose(n(changed), n(x), atol=1e-4) for n in (norm, rms_norm)]
    print(f"{name:8} normalised as x is? LayerNorm {same[0]!s:6} RMSNorm {same[1]}")

# %% [markdown] name="rms-answer"
# Neither sees a positive factor (ε apart); only LayerNorm is blind to a shift. RMSNorm saves a subtraction, a mean and half of
# the parameters, and trains about as well: a table below says how well here. Both work inside one token. (Batch normalisation,
# common for images, averages over the batch, so in training a token's result would depend on other texts and on tokens after
# it; afterwards it uses stored averages, which for texts of changing length fit less well.)
#
# ## The layer that works alone
#
# Back to the ledger's fifth column. *Creature* = *living* **and** *noun*. Attention's softmax decides how *much* is read; what it writes
# is a matrix times what it read. Can a matrix say *and*? We ask for the best one there is, by least squares, over the four cases; then
# one **hidden unit**: a weighted sum, a threshold, and the bend, whose name is **ReLU**.

# %% name="and"
cases = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])  # living, noun
wanted = torch.tensor([0.0, 0.0, 0.0, 1.0])  # creature
with_one = torch.cat([cases, torch.ones(4, 1)], dim=1)  # a column for a bias
best = torch.linalg.lstsq(with_one, wanted[:, None]).solution
print("best matrix and bias:", (with_one @ best).flatten().add(1e-6).round(decimals=2).tolist())
print("relu(living + noun − 1):", (cases.sum(dim=1) - 1).relu().tolist())

looks_for = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0])  # a row of the first matrix: living, noun
writes_to = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])  # a column of the second: creature
stream = stream + (stream @ looks_for - 1).relu() * writes_to
print("it:", dict(zip(columns, stream.tolist(), strict=True)))

# %% [markdown] name="and-answer"
# The best matrix gives 0.75 where it should be 1, and −0.25 where it should be 0. One hidden unit does it exactly: it **looks
# for** a combination, and when it finds it, writes a feature into the stream. A **feed-forward layer** (FFN) is many such
# units, by custom d_ff = 4 · d_model: a first matrix with thresholds, a bend (an **activation function**), a second matrix, for **each token alone**. What
# trained units look for can be read off in part: shallow patterns below, meanings above (Geva et al. 2021).
#
# Which bend? ReLU is the plainest. GPT-2 takes **GELU**, x · Φ(x) (Hendrycks & Gimpel 2016), where Φ(x) is the share of a normal
# distribution that lies below x. **SiLU** is x · sigmoid(x). **Look for** what each does to −1.

# %% name="bends"
x = torch.linspace(-4, 4, 161)
bends = {"ReLU": nn.functional.relu, "GELU": nn.functional.gelu, "SiLU": nn.functional.silu}
ax = plt.subplots(figsize=(6.4, 2.8))[1]
for name, bend in bends.items():
    ax.plot(x, bend(x), label=name)
ax.axvline(-1, linestyle=":", color="gray")
ax.set_xlabel("a hidden unit's sum")
ax.set_ylabel("what it passes on")
ax.set_ylim(-0.5, 3)
ax.legend()
plt.show()

hidden, output = nn.Linear(5, 20), nn.Linear(20, 5)  # and no bend at all?
x = torch.randn(7, 5)
one_matrix, one_bias = output.weight @ hidden.weight, output.weight @ hidden.bias + output.bias
print("two matrices are one:", torch.allclose(output(hidden(x)), x @ one_matrix.T + one_bias, atol=1e-5))

# %% name="bends-shown"
relu, gelu, silu = (torch.tensor(line.get_ydata()) for line in ax.lines[:3])
assert relu[60] == 0 and abs(gelu[60] + 0.16) < 0.005 and abs(silu[60] + 0.27) < 0.005
assert torch.equal(gelu, nn.functional.gelu(torch.linspace(-4, 4, 161)))
phi = torch.distributions.Normal(0.0, 1.0).cdf(torch.linspace(-4, 4, 161))
assert torch.allclose(gelu, torch.linspace(-4, 4, 161) * phi, atol=1e-5)

# %% [markdown] name="bends-answer"
# ReLU passes nothing on, and its slope there is 0, so a unit learns nothing while it is below its threshold for every token.
# The other two pass on a little (−0.16 and −0.27) and are smooth, with a slope on both sides. With no bend at all, the two
# matrices multiply into one: the width of 4 · d_model would be for nothing.

# %% [markdown] name="ex-feed-forward-text"
# **Exercise 08.feed_forward · ★ · 5 min.** The layer, with GELU. `nn.Linear(a, b)` is a matrix with a bias, from a numbers to b. Nothing
# is added to x here; the block will do that.

# %% name="ex-feed-forward" tags=["exercise"] course={"exercise": "08.feed_forward"}
class FeedForward(nn.Module):
    """Widen, bend, narrow, for each token alone: (..., d_model) → (..., d_model).

    `hidden`: nn.Linear from d_model to d_ff; GELU; `output`: nn.Linear from d_ff to d_model.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        raise NotImplementedError

# %% name="check-feed-forward" tags=["check", "nbval-ignore-output"]
FeedForward = check("08.feed_forward", FeedForward)

# %% name="same-feed-forward"
def feed_forward_by_loops(x, hidden, output):
    result = output.bias.repeat(len(x), 1)
    for t in range(len(x)):  # each token alone
        for unit in range(len(hidden.weight)):  # what it looks for, and what it writes
            found = nn.functional.gelu(x[t] @ hidden.weight[unit] + hidden.bias[unit])
            result[t] = result[t] + found * output.weight[:, unit]
    return result


x, layer, theirs = torch.randn(3, 5), FeedForward(5, 20), library.FeedForward(5, 20)
theirs.load_state_dict(layer.state_dict())
by_pytorch = nn.Sequential(layer.hidden, nn.GELU(), layer.output)
print("loop = yours:", torch.allclose(feed_forward_by_loops(x, layer.hidden, layer.output), layer(x), atol=1e-6))
print("= library's: ", torch.allclose(theirs(x), layer(x), atol=1e-6))
print("= PyTorch's: ", torch.allclose(by_pytorch(x), layer(x), atol=1e-6))

# %% [markdown] name="ex-width-text"
# Newer models open and close each hidden unit by a second one. **SwiGLU** (Shazeer 2020) is `output(silu(gate(x)) * hidden(x))`:
# three matrices in place of two. To be compared fairly, it should have as many parameters as the other.
#
# **Exercise 08.width · ★ · 4 min.** d_model is 768, and the layer with GELU has d_ff = 3072. Which d_ff gives SwiGLU as many
# parameters? (Leave the biases out.)

# %% name="ex-width" tags=["exercise"] course={"exercise": "08.width"}
answer = None

# %% name="check-width" tags=["check", "nbval-ignore-output"]
swiglu_width = check("08.width", answer)

# %% [markdown] name="kinds-text"
# Which kind learns best? We gave the library's GPT (lesson 09 builds it), two blocks of it, each kind in turn, with five seeds,
# and drew its matrices in two ways: small (spread 0.02, as GPT-2), and **Xavier**, of a spread that fits their width (Glorot &
# Bengio 2010). `python -m benchmarks.lesson_tables.feed_forward_kinds` did it beforehand, and wrote a file, settings included.
# **Predict** the order of ReLU, GELU and SwiGLU.

# %% name="kinds"
from course_lib.data.tables import load_table
from course_lib.model.gpt import GPT, count_parameters

gelu = library.FeedForward(768, 3072, bias=False)
swiglu = library.SwiGLU(768, int(swiglu_width), bias=False)
print("as many parameters:", count_parameters(gelu) == count_parameters(swiglu))

small, fitted = {}, {}  # losses in nats a character, one a seed
for row in load_table("feed_forward_kinds")["rows"]:
    (small if row["initialisation"] == "gpt2" else fitted)[row["kind"]] = row["losses"]
print(f"{'':24}  drawn small             Xavier        mean, and (best seed to worst seed)")
for kind in small:
    both = (small[kind], fitted[kind])
    print(f"{kind:24}", *(f" {sum(five) / 5:.3f} ({min(five):.2f} to {max(five):.2f})" for five in both))

# %% name="kinds-start"
x = torch.randn(1_000, 64)
newborns = {"GELU": library.FeedForward(64, 256, bias=False), "SwiGLU": library.SwiGLU(64, 171, bias=False)}
for name, layer in newborns.items():
    for matrix in layer.parameters():
        nn.init.normal_(matrix, std=0.02)
    print(f"drawn small, {name:6} writes numbers of size {layer(x).square().mean().sqrt():.3f}")

gelu, swiglu = "GELU, width 256", "SwiGLU, width 171"
no_layer, with_gelu, with_swiglu = (sum(small[kind]) for kind in ("none", gelu, swiglu))
assert max(small[gelu]) + 0.1 < min(small[swiglu]) and 4.5 > (no_layer - with_gelu) / (no_layer - with_swiglu) > 3.5
assert sum(fitted[swiglu]) / 5 + 0.02 < sum(fitted[gelu]) / 5 < max(fitted["ReLU, width 256"])
for losses in (small, fitted):
    unbent = losses["no activation"]
    for bent in (losses["ReLU, width 256"], losses[gelu]):
        assert sum(bent) / 5 + 0.06 < sum(unbent) / 5 and max(bent) < min(unbent)
assert sum(fitted["none"]) < sum(fitted["no activation"])
for losses in (small, fitted):
    assert abs(sum(losses[gelu]) - sum(losses[gelu + ", RMSNorm"])) / 5 < 0.01

# %% [markdown] name="kinds-answer"
# Two starts, two winners. Drawn small, ReLU and GELU are far ahead, and SwiGLU gains on no layer at all only a quarter of what
# GELU does. Presumably because it *multiplies* two hidden numbers: where both start small, what it writes starts many times
# smaller still. Drawn as Xavier says, it is ahead of GELU by 0.03, and ReLU against GELU lies inside the spread of the seeds.
# So "which kind is best?" has no answer without "from which start, for how long?". (In Shazeer's much longer training SwiGLU is
# a little ahead of both.)
#
# Two results are the same from both starts. Without a bend the wide layer is far behind ReLU and GELU of the same width, from
# Xavier even behind none. And RMSNorm in place of LayerNorm changes the mean by less than 0.01.

# %% [markdown] name="formula"
# ## The block
#
# Now everything has its place. A **block** is two sums: of attention, which moves information **between** tokens, and of the
# feed-forward layer, which transforms **each one alone**. Both read a normalised copy of the stream, and both write by adding:
#
# $$y = x + \mathrm{MHA}(\mathrm{LN}_1(x)), \qquad z = y + \mathrm{FFN}(\mathrm{LN}_2(y))$$
#
# $$\mathrm{LN}(x) = \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} \odot g + b, \qquad
# \mathrm{FFN}(x) = W_2\,\mathrm{GELU}(W_1 x + b_1) + b_2$$
#
# | symbol | in code | axis or shape |
# |---|---|---|
# | $x, y, z$ | `x`, the stream | (batch, position, d_model) |
# | $\mu, \sigma^2$ | `x.mean(dim=-1)`, the mean of `centred**2` | one each for every token, over d_model |
# | $g, b$ | `norm.weight`, `norm.bias` | (d_model,); $\odot$: column by column |
# | $W_1, b_1$ | `feed_forward.hidden` | d_model → d_ff |
# | $W_2, b_2$ | `feed_forward.output` | d_ff → d_model |
# | MHA | `attention(x, may_attend)`, lesson 05 | the only part that sees other positions |

# %% name="attention-of-05"
MultiHeadAttention = mine("05.heads")  # MultiHeadAttention(d_model, n_heads); attention(x, may_attend)

# %% [markdown] name="ex-block-text"
# **Exercise 08.block · ★★ · 8 min.** Join the parts. Your own attention of lesson 05 has just been fetched, or the course's if
# there is none.

# %% name="ex-block" tags=["exercise"] course={"exercise": "08.block"}
class Block(nn.Module):
    """A Pre-LN block: x (batch, position, d_model) → the same shape.

    Parts: attention_norm, attention, feed_forward_norm, feed_forward (4·d_model wide). attention is
    called with (x, may_attend), and may_attend (query, key) is True where a query may read.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        raise NotImplementedError

    def forward(self, x, may_attend):
        raise NotImplementedError

# %% name="check-block" tags=["check", "nbval-ignore-output"]
Block = check("08.block", Block)

# %% [markdown] name="moves-text"
# Who reaches whom? We change one token, and note which tokens come out different: behind the attention alone, behind the feed-forward
# layer alone, behind the whole block. **Look for** the diagonal.

# %% name="moves"
from course_lib.plots import heatmap, shown

words, may_attend = ["The", "animal", "did", "not", "cross"], torch.ones(5, 5).tril().bool()
block, x = Block(8, 2), torch.randn(1, 5, 8)

def reached(part):
    """(token that moved, token that was changed): 1 where the one depends on the other."""
    found = torch.zeros(5, 5)
    for changed in range(5):
        other = x.clone()
        other[0, changed] += torch.randn(8)
        found[:, changed] = (part(other) - part(x))[0].abs().amax(dim=-1) > 1e-6
    return found


parts = {
    "attention": lambda x: block.attention(block.attention_norm(x), may_attend),
    "feed-forward": lambda x: block.feed_forward(block.feed_forward_norm(x)),
    "block": lambda x: block(x, may_attend),
}
figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.6))
for ax, (name, part) in zip(axes, parts.items(), strict=True):
    heatmap(reached(part), words, ax=ax, title=name).set(
        xlabel="this token was changed", ylabel="this one moved" if ax is axes[0] else "")
plt.show()

# %% name="moves-shown"
triangle, alone, whole = (torch.tensor(shown(ax)) for ax in axes)
assert torch.equal(alone, torch.eye(5)), "only the token itself"
assert torch.equal(triangle, torch.ones(5, 5).tril()) and torch.equal(whole, triangle)
from course_lib.model.attention import MultiHeadAttention as LibraryAttention
from course_lib.model.block import PreNormBlock

theirs = PreNormBlock(LibraryAttention(8, 2), library.FeedForward(8, 32), library.LayerNorm(8), library.LayerNorm(8))
theirs.load_state_dict(block.state_dict())
print("yours = library's:", torch.allclose(block(x, may_attend), theirs(x, torch.arange(5), may_attend)[0], atol=1e-5))

# %% [markdown] name="moves-answer"
# Behind the feed-forward layer only the changed token moves. Behind attention it is that token and all after it (the causal
# mask), and the block inherits the triangle. So a model without attention could never know what stands before.
#
# **A good place for a break.** The rest may wait for another day. With a fresh kernel then, select this cell and choose
# *Run → Run All Above Selected Cell*; what you have passed comes back.
#
# ## Where the norm stands
#
# The paper of 2017 put the norm elsewhere: norm(x + f(x)), *on* the stream, **Post-LN**. What you built, x + f(norm(x)), is
# **Pre-LN**, the way of GPT-2 and nearly all after it. **Look for** what stands on the thick line, from its foot to its tip.

# %% name="drawing"
def draw_block(ax, post):
    """A block from below to above: the stream is the thick line, the parts stand beside it."""
    ax.annotate("", (0, 10), (0, -0.8), arrowprops={"arrowstyle": "-|>", "lw": 4, "color": "tab:blue"})
    arrow = {"arrowstyle": "-|>", "color": "0.4", "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
    box = {"boxstyle": "round,pad=0.4", "fc": "white", "ec": "0.3"}
    for foot, part in ((0, "attention\nbetween tokens"), (5, "feed-forward\neach token alone")):
        norm = (0, foot + 4.1) if post else (2.6, foot + 0.9)
        ax.plot([0, 2.6, 2.6], [foot, foot, foot + 3.1], color="0.4", lw=1.5)
        ax.annotate("", (0.25, foot + 3.1), (2.6, foot + 3.1), arrowprops=arrow)
        ax.text(2.6, foot + 2, part, ha="center", va="center", bbox=box | {"fc": "#dbe9f6"})
        ax.text(*norm, "norm", ha="center", va="center", bbox=box)
        ax.text(0, foot + 3.1, "+", ha="center", va="center", bbox=box | {"boxstyle": "circle,pad=0.2"})
    ax.set(xlim=(-1.2, 4.6), ylim=(-1, 10.2), title="Post-LN: norm(x + f(x))" if post else "Pre-LN: x + f(norm(x))")
    ax.axis("off")


figure, axes = plt.subplots(1, 2, figsize=(8, 5.6))
for ax, post in zip(axes, (False, True), strict=True):
    draw_block(ax, post)
plt.show()

# %% name="drawing-shown"
for ax, count in zip(axes, (2, 4), strict=True):
    on_stream = [text.get_text() for text in ax.texts if text.get_text() and text.get_position()[0] == 0]
    assert on_stream.count("+") == 2 and len(on_stream) == count

# %% [markdown] name="drawing-answer"
# In Pre-LN only sums stand on the line, so on the way round everything each slope is 1. In Post-LN every second thing on it is
# a norm: there is no such way, and each norm rescales the gradient that passes. Xiong et al. (2020) found for Post-LN large
# gradients near the output at the start. Is that so here? Models of 12 blocks, newborn, five seeds. **Look for** the first and
# the last block.

# %% name="at-birth"
from course_lib.model.config import GPTConfig


def newborn(placement, n_layers, seed):
    """The library's GPT before training, embeddings of size 0.7, matrices as Glorot & Bengio 2010."""
    torch.manual_seed(seed)
    shape = {"context_length": 32, "n_layers": n_layers, "d_model": 64, "n_heads": 4, "tied_head": False}
    model = GPT(GPTConfig(vocab_size=63, norm_placement=placement, initialisation="xavier", **shape))
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.7)
    return model


def gradients_at_birth(placement, seed):
    """The length of the gradient of each feed-forward layer's second matrix."""
    model = newborn(placement, 12, seed)
    windows = random_windows(corpus.train, 8, 32, torch.Generator().manual_seed(seed))
    next_token_loss(model(windows[0]), windows[1]).backward()
    return [block.feed_forward.output.weight.grad.norm().item() for block in model.blocks]

# %% name="at-birth-picture"
birth = {p: torch.tensor([gradients_at_birth(p, seed) for seed in range(5)]) for p in ("post", "pre")}
ax = plt.subplots(figsize=(6.4, 3))[1]
for (placement, lengths), colour in zip(birth.items(), ("tab:orange", "tab:blue"), strict=True):
    ax.plot(range(1, 13), lengths.T, color=colour, alpha=0.3)
    ax.plot(range(1, 13), lengths.mean(dim=0), "o-", color=colour, label=f"{placement.capitalize()}-LN")
ax.set_xlabel("block (12: the last)")
ax.set_ylabel("length of the gradient")
ax.set_ylim(bottom=0)
ax.legend()
plt.show()

# %% name="at-birth-shown"
post, pre = birth["post"], birth["pre"]
assert torch.allclose(torch.tensor(ax.lines[5].get_ydata()), post.mean(dim=0))
for name, at in {"first": 0, "last": -1}.items():
    ratio = post[:, at].mean() / pre[:, at].mean()
    print(f"{name} block: Post-LN's gradient is about {ratio:.0f} times Pre-LN's")
assert (pre[:, 0] > 1.5 * pre[:, -1]).all()
assert (post[:, 0] < 1.3 * pre[:, 0]).all() and (post[:, 0] > 0.7 * pre[:, 0]).all()
assert (post[:, -1] > 2 * pre[:, -1]).all() and (post[:, 0] > post[:, -1] / 2).all(), "in every seed"

# %% [markdown] name="at-birth-answer"
# At the first block the two are about alike. Towards the top Pre-LN's becomes shorter: an early write is also read by all
# blocks above it, while the stream is still short; a late one only adds to a long stream, which the last norm divides by its
# size. Post-LN's is three times as long as Pre-LN's at the last block, and loses at most half of that on its way down. (That it
# *vanishes*, as is often told, is not so at 12 blocks drawn this way.)
#
# Xiong et al. saw in this the reason why Post-LN asks for a **warm-up**: the learning rate (`lr` in the loops so far), which
# scales every step, rises to its full value over the first steps (4,000 of them in 2017). It can hardly be the whole reason,
# since Adam evens out the size of gradients; Liu et al. (2020) find that Post-LN's output reacts more strongly to each small
# change of its weights. Does it ask for one here? We train models of six blocks (by the library's `Trainer`, lesson 10's loop): Post-LN without
# warm-up and with 100 steps of it, and Pre-LN without. **Look for** the curve that stays at the dotted line, the loss of who
# knows the frequencies only.

# %% name="warm-up" tags=["nbval-ignore-output"]
from course_lib.plots.curves import trailing_mean
from course_lib.training.presets import TrainingConfig
from course_lib.training.trainer import Trainer

curves, rate = {}, 0.002
for placement, warmup in (("post", 0), ("post", 100), ("pre", 0)):
    recipe = TrainingConfig(
        steps=200, batch_size=8, learning_rate=rate, minimum_rate=rate, warmup_steps=warmup,
        beta2=0.999, weight_decay=0.0, gradient_clip=math.inf, evaluate_every=200,
    )
    trainer = Trainer(newborn(placement, 6, seed=0), corpus.train, corpus.validation[:100], recipe)
    name = f"{placement.capitalize()}-LN, {'warm-up' if warmup else 'no warm-up'}"
    curves[name] = [record.train_loss for record in trainer.run()]
ax = plt.subplots()[1]
for (name, losses), style in zip(curves.items(), ("-", "--", "-"), strict=True):
    ax.plot(trailing_mean(losses, 20), style, color="tab:orange" if "Post" in name else "tab:blue", label=name)
ax.axhline(3.31, linestyle=":", color="gray")
ax.set_xlabel("step")
ax.set_ylabel("training loss, mean of 20 steps")
ax.legend()
plt.show()

# %% name="warm-up-bounds"
endings = {line.get_label(): line.get_ydata()[-1] for line in ax.lines[:3]}
assert endings["Post-LN, no warm-up"] > 3.2, "it knows the frequencies, hardly more"
assert endings["Post-LN, no warm-up"] - 0.15 > endings["Post-LN, warm-up"] > endings["Pre-LN, no warm-up"] + 0.15

# %% [markdown] name="placement-text"
# One seed is one story. Five seeds, three settings, longer runs, the loss on text not trained on, from a file again
# (`python -m benchmarks.lesson_tables.norm_placement`). **Look for** rows whose five losses do not agree.

# %% name="placement"
known = -share[corpus.validation[:20_001]].log().mean()
print(f"who knows the frequencies only: {known:.2f}")
found = {}
for row in load_table("norm_placement")["rows"]:
    key = row["layers"], row["rate"], row["placement"], row["warmup"]
    found[key] = row["losses"]
    print("{:2} blocks, rate {}, {}-LN, warm-up {:3}:".format(*key).ljust(40), *(f"{x:.2f}" for x in row["losses"]))

fails = {key: sum(loss > known - 0.02 for loss in losses) for key, losses in found.items()}
assert fails[6, 0.001, "post", 0] == 1 and fails[12, 0.002, "post", 100] == 5
assert sum(fails[key] for key in fails if key[2] == "pre") == fails[6, 0.001, "post", 100] == 0
best, rescued, stuck = found[6, 0.002, "pre", 0], found[6, 0.002, "post", 100], found[6, 0.002, "post", 0]
assert max(best) + 0.1 < min(rescued) < max(rescued) + 0.5 < min(stuck) and max(stuck) - known < 0.02
assert all(slow > quick for slow, quick in zip(found[6, 0.002, "pre", 100], best, strict=True))

# %% [markdown] name="placement-answer"
# With six blocks and the rate 0.002 all seeds tell the same. Post-LN without warm-up stays at the frequencies; 100 steps of
# warm-up rescue it. Pre-LN is better than both, and each seed ends a little higher with a warm-up than without.
#
# How far does that reach? At half the rate four of five Post-LN models learn without warm-up, and one needs it: a single run
# could have told either story. At twelve blocks the same warm-up rescues none of the five. Pre-LN learns in all three settings,
# which makes it the more forgiving of the two. That it is the better model at every size is not shown by small models and short
# runs.

# %% [markdown] name="count-text"
# ## Two thirds of what?
#
# "Two thirds of a Transformer's parameters are feed-forward" is said often. We count a block as wide as GPT-2's. **Predict** on
# paper first, without biases: attention has four matrices of d² numbers, the feed-forward layer two of 4d².

# %% name="count"
block = Block(768, 12)
names = ("attention_norm", "attention", "feed_forward_norm", "feed_forward")
parts = {name: count_parameters(getattr(block, name)) for name in names}
for name, count in parts.items():
    print(f"{name:18} {count:9,}   {count / sum(parts.values()):6.1%} of the block")
gpt2 = 124_439_808  # all of GPT-2: lesson 09 counts it
print(f"12 feed-forward layers: {12 * parts['feed_forward'] / gpt2:.1%} of GPT-2's {gpt2:,}")
assert sum(parts.values()) == 7_087_872 and 12 * parts["feed_forward"] < gpt2 / 2

# %% [markdown] name="count-answer"
# 8d² of 12d²: two thirds **of a block**, with d_ff = 4 · d_model and as many key and value heads as query heads ([lesson 15](15_smaller_caches.ipynb) has
# fewer). Of all of
# GPT-2 it is less than half, because its embeddings count too; in a model that is deep and wide they hardly do. It is a share
# of parameters, not of time: attention's scores have no parameters, and grow with the square of the text ([lesson 14](14_the_bill.ipynb)).

# %% [markdown] name="practice"
# ## In practice
#
# **A last norm.** Pre-LN leaves the stream as long as it has become, so after the last block comes one more norm (lesson 09).
#
# **Smaller at the start.** GPT-2 divides the matrices that write into the stream by √(2 · layers), so that the sum of all
# writes starts about as large as one.
#
# **Elsewhere.** Some models let attention and feed-forward read the same x and add both (GPT-J); some put the norm behind the
# part, still in the branch, x + norm(f(x)) (OLMo 2, arXiv 2501.00656).
#
# **Names.** "Layer" may mean a block, or one of its two parts.

# %% [markdown] name="recap"
# ## Recap
#
# 1. With **x + f(x)** one way down goes round all layers, so the gradient arrives; what came in can be read above, if the
# writes stay small.
# 2. **LayerNorm**: per token, minus the mean, divided by the standard deviation, times weight, plus bias. **RMSNorm** leaves out mean and bias.
# 3. **Attention** moves information between tokens; the **feed-forward layer** draws conclusions in each token alone.
# 4. **Pre-LN** keeps the stream free; **Post-LN** puts a norm on it after each sum, and depends more on warm-up, rate and depth.
# 5. Feed-forward layers hold two thirds of a **block's** parameters; of GPT-2 with its embeddings, less than half.

# %% [markdown] name="quiz-text"
# ## Quiz
#
# Six questions, one of them with more than one right choice.

# %% name="quiz" tags=["quiz"] course={"quiz": 6}
quiz("08")

# %% [markdown] name="sources"
# ## Sources
#
# - He et al. 2015, *Deep Residual Learning*, [arXiv 1512.03385](https://arxiv.org/abs/1512.03385): the sum. Careful drawing:
#   [arXiv 1502.01852](https://arxiv.org/abs/1502.01852); before it, Glorot, Bengio 2010, *Understanding the Difficulty of Training Deep
#   Feedforward Neural Networks*.
# - Veit, Wilber, Belongie 2016, [arXiv 1605.06431](https://arxiv.org/abs/1605.06431): a sum of many short ways.
# - Elhage et al. 2021, [*A Mathematical Framework for Transformer Circuits*](https://transformer-circuits.pub/2021/framework/index.html):
#   the residual stream.
# - Ba, Kiros, Hinton 2016, *Layer Normalization*, [arXiv 1607.06450](https://arxiv.org/abs/1607.06450); Zhang, Sennrich 2019, *RMSNorm*,
#   [arXiv 1910.07467](https://arxiv.org/abs/1910.07467).
# - Xiong et al. 2020, [arXiv 2002.04745](https://arxiv.org/abs/2002.04745): Pre-LN and Post-LN at the start of training; Liu et al. 2020,
#   [arXiv 2004.08249](https://arxiv.org/abs/2004.08249): another reason for the warm-up.
# - Hendrycks, Gimpel 2016, *GELU*, [arXiv 1606.08415](https://arxiv.org/abs/1606.08415); Shazeer 2020, *GLU Variants*,
#   [arXiv 2002.05202](https://arxiv.org/abs/2002.05202): a few pages, many kinds, and a last sentence worth the reading.
# - Geva et al. 2021, [arXiv 2012.14913](https://arxiv.org/abs/2012.14913): what hidden units of a trained model look for and write.
# - Vaswani et al. 2017, [arXiv 1706.03762](https://arxiv.org/abs/1706.03762): sections 3.1 and 3.3, the block with Post-LN and ReLU;
#   5.3, the warm-up. Radford et al. 2019, *Language Models are Unsupervised Multitask Learners*, section 2.3: GPT-2 moves the norm.

# %% [markdown] name="next"
# ## Next
#
# The block is built. [**Lesson 09**](09_a_gpt_from_its_parts.ipynb) stacks it, puts an embedding below and a matrix above, and has a GPT made of your own parts.
