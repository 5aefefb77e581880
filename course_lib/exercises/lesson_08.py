"""Exercises and quiz of lesson 08: LayerNorm, the feed-forward layer, and the Pre-LN block."""

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from course_lib.exercises.lesson_05 import MultiHeadAttention
from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value
from course_lib.exercises.trial import WrongParts


class LayerNorm(nn.Module):
    """Normalise each token's vector for itself: (..., d_model) → (..., d_model).

    Mean 0 and variance 1 over d_model (ε = 1e-5 is added to the variance), then times `weight` plus
    `bias`: parameters (d_model,) that start as ones and as zeros.
    """

    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        """(..., d_model) → (..., d_model)."""
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = (centred**2).mean(dim=-1, keepdim=True)
        return centred / (variance + 1e-5).sqrt() * self.weight + self.bias


class FeedForward(nn.Module):
    """Widen, bend, narrow, for each token alone: (..., d_model) → (..., d_model).

    `hidden`: nn.Linear from d_model to d_ff; GELU; `output`: nn.Linear from d_ff to d_model.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden = nn.Linear(d_model, d_ff)
        self.output = nn.Linear(d_ff, d_model)

    def forward(self, x):
        """(..., d_model) → (..., d_model)."""
        return self.output(nn.functional.gelu(self.hidden(x)))


class Block(nn.Module):
    """A Pre-LN block: x (batch, position, d_model) → the same shape.

    attention_norm, attention, feed_forward_norm, feed_forward (4·d_model wide); attention is called
    with (x, may_attend), and may_attend (query, key) is True where a query may read.
    """

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention_norm = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward_norm = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, 4 * d_model)

    def forward(self, x, may_attend):
        """(batch, position, d_model) and (query, key) → (batch, position, d_model)."""
        x = x + self.attention(self.attention_norm(x), may_attend)
        return x + self.feed_forward(self.feed_forward_norm(x))


def _random(*shape, seed=0, scale=1.0, mean=0.0):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (mean + scale * numbers).requires_grad_()


class _Drawn:
    """Mixed into a module: the numbers that every answer is given, named as the task names them."""

    def __repr__(self):
        return "random numbers"


def _drawn(kind, *sizes):
    """A module whose parameters are random, norms included: at the start two norms are alike."""
    with torch.random.fork_rng(devices=[]):  # the notebook's random numbers are none of ours
        torch.manual_seed(sizes[0])
        module = kind(*sizes)
        for part in module.parameters():
            nn.init.normal_(part, std=part.shape[-1] ** -0.5 if part.dim() > 1 else 1.0)
    return module


def _filled(answer, sizes, inputs, parameters):
    """What an answer's module makes of its inputs, with these numbers as its parameters."""
    module, numbers = answer(*sizes), dict(parameters.named_parameters())
    wanted = {part: tuple(tensor.shape) for part, tensor in numbers.items()}
    _require_parts(module, type(module).__name__, wanted)
    return functional_call(module, numbers, inputs)


def _require_parts(module, name, wanted):
    """Refuse what is no module, or whose parameters that learn are others than {name: shape}."""
    if not isinstance(module, nn.Module):
        raise WrongParts(f"`{name}` is not a module yet: write `class {name}(nn.Module)`.")
    found = {part: tuple(tensor.shape) for part, tensor in module.state_dict().items()}
    lacking = [f"`{part} {shape}`" for part, shape in wanted.items() if found.get(part) != shape]
    strange = [f"`{part} {shape}`" for part, shape in found.items() if wanted.get(part) != shape]
    if lacking or strange:
        verbs = {"misses": lacking, "does not know": strange}
        said = ", and ".join(f"{verb} {_some(parts)}" for verb, parts in verbs.items() if parts)
        raise WrongParts(
            f"Among the parameters of your module the check {said}. Use the names and shapes of the "
            "task."
        )
    require_learning(module, wanted)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    first: dict[int, str] = {}  # by the tensor's identity
    for part in wanted:
        other = first.setdefault(id(parameters[part]), part)
        if other != part:
            raise WrongParts(
                f"`{other}` and `{part}` are one parameter under two names: what the one learns, the "
                "other has to follow. Make two parts."
            )


def require_learning(module, wanted):
    """Refuse a module in which one of these names is no parameter, or one that is frozen."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    learning = {part for part, tensor in parameters.items() if tensor.requires_grad}
    fixed = [f"`{part}`" for part in wanted if part not in learning]
    if fixed:
        raise WrongParts(
            f"There, but no parameter that learns: {_some(fixed)}. An optimiser is given what "
            "`parameters()` finds, and changes what asks for a gradient. Wrap it in `nn.Parameter(…)`, "
            "in place of a buffer, and leave `requires_grad` on."
        )


def _some(parts):
    return ", ".join(parts[:4]) + (f" and {len(parts) - 4} more" if len(parts) > 4 else "")


# LayerNorm


def _normalise(answer, x, weight, bias):
    """What the parameters are before training, and the result with others in their place."""
    d_model = len(weight)
    module = answer(d_model)
    _require_parts(module, "LayerNorm", {"weight": (d_model,), "bias": (d_model,)})
    if isinstance(module, nn.LayerNorm):
        raise WrongParts(
            "PyTorch's own nn.LayerNorm under another name: right, and nothing learned. Derive from "
            "`nn.Module`, and write the three lines."
        )
    start = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    result = functional_call(module, {"weight": weight, "bias": bias}, (x,))
    return {
        "weight at the start": start["weight"],
        "bias at the start": start["bias"],
        "result": result,
    }


def _norm_cases():
    yield _random(5, 7), _random(7, seed=1), _random(7, seed=2)
    yield _random(2, 3, 7, seed=3, scale=5.0, mean=2.0), _random(7, seed=4), _random(7, seed=5)
    yield _random(3, 5, 11, seed=6, scale=3e-3), _random(11, seed=7), _random(11, seed=8)
    yield _random(2, 3, 5, 13, seed=9, mean=-1.0), _random(13, seed=10), _random(13, seed=11)


def _norm(forward, weight=torch.ones, bias=torch.zeros):
    """A version of LayerNorm with another forward(x, weight, bias), or that starts otherwise."""

    class LayerNorm(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.weight = nn.Parameter(weight(d_model))
            self.bias = nn.Parameter(bias(d_model))

        def forward(self, x):
            return forward(x, self.weight, self.bias)

    return LayerNorm


def _standard(x, dim=-1, correction=0):
    mean = x.mean(dim=dim, keepdim=True)
    return (x - mean) / (x.var(dim=dim, keepdim=True, correction=correction) + 1e-5).sqrt()


def _right_norm(x, weight, bias):
    return _standard(x) * weight + bias


def _with_another_epsilon(epsilon):
    def forward(x, weight, bias):
        centred = x - x.mean(-1, keepdim=True)
        return centred / ((centred**2).mean(-1, keepdim=True) + epsilon).sqrt() * weight + bias

    return forward


def _over_the_length(epsilon):
    def forward(x, weight, bias):
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.norm(dim=-1, keepdim=True) + epsilon) * weight + bias

    return forward


def _root_of_the_deviation(correction):
    def forward(x, weight, bias):
        centred = x - x.mean(-1, keepdim=True)
        deviation = x.std(-1, keepdim=True, correction=correction)
        return centred / (deviation + 1e-5).sqrt() * weight + bias

    return forward


class _PlainTensors(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = torch.ones(d_model)
        self.bias = torch.zeros(d_model)


class _Wrapped(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)


class _NoBias(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))


class _SingleNumbers(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))


NORM = Exercise(
    id="08.norm",
    title="LayerNorm by hand",
    stars=2,
    minutes=7,
    solution=LayerNorm,
    cases=_norm_cases,
    call=_normalise,
    misconceptions=(
        Misconception(
            "sample variance",
            _norm(lambda x, w, b: _standard(x, correction=1) * w + b),
            "Your variance divides by d_model − 1, which is what `x.var(dim=-1)` does unless told "
            "otherwise. Nothing is estimated here from a sample: these d_model numbers are all there "
            "are. Use `correction=0`, or the mean of the squared deviations.",
        ),
        Misconception(
            "ε outside the root",
            _norm(
                lambda x, w, b: (
                    (x - x.mean(-1, keepdim=True))
                    / (x.std(-1, keepdim=True, correction=0) + 1e-5)
                    * w
                    + b
                )
            ),
            "Right for vectors of ordinary size. You add ε after the root; the formula adds it to "
            "the variance, √(variance + ε), which matters when the numbers are small, and whose slope "
            "stays finite when all of them are equal.",
        ),
        Misconception(
            "sample deviation, ε outside the root",
            _norm(
                lambda x, w, b: (
                    (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5) * w + b
                )
            ),
            "Two small things: `x.std` divides by d_model − 1 (say `correction=0`), and ε belongs to "
            "the variance, under the root.",
        ),
        Misconception(
            "sample deviation, no ε",
            _norm(lambda x, w, b: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True) * w + b),
            "Two small things: `x.std` divides by d_model − 1, for a sample; these d_model numbers are "
            "all there are, so say `correction=0`. And ε = 1e-5 is missing, under the root: a vector "
            "whose numbers are all equal would give 0/0.",
        ),
        Misconception(
            "no ε",
            _norm(
                lambda x, w, b: (
                    (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0) * w + b
                )
            ),
            "Right but for ε = 1e-5 under the root. A vector whose numbers are all equal has variance "
            "0, and without ε the result would be 0/0.",
        ),
        *(
            Misconception(
                f"ε = {epsilon:g}",
                _norm(_with_another_epsilon(epsilon)),
                f"Your ε is {epsilon:g}, as in some models. Here it is 1e-5, PyTorch's default; for small "
                "numbers the two differ, and whoever loads a model needs its own.",
            )
            for epsilon in (1e-6, 1e-8)
        ),
        *(
            Misconception(
                name,
                _norm(_over_the_length(epsilon)),
                "You divide by the length of the deviations, the root of the *sum* of their squares. The "
                "standard deviation is the root of their *mean*, so your numbers are too small by "
                "√d_model: `.mean(dim=-1, keepdim=True)` of the squares, plus ε, then the root.",
            )
            for name, epsilon in {"length": 0.0, "length, ε outside the root": 1e-5}.items()
        ),
        *(
            Misconception(
                name,
                _norm(_root_of_the_deviation(correction)),
                "`x.std` is a root already, that of the variance, and you take the root of it once more. "
                "Root of (variance + ε), once: `x.var(…, correction=0)`, or the mean of the squared "
                "deviations.",
            )
            for name, correction in {"root of std": 0, "root of sample std": 1}.items()
        ),
        Misconception(
            "brackets forgotten",
            _norm(
                lambda x, w, b: (
                    x
                    - x.mean(-1, keepdim=True)
                    / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()
                    * w
                    + b
                )
            ),
            "Python divides before it subtracts: without brackets only the mean is divided. Write "
            "`(x - mean) / …`.",
        ),
        Misconception(
            "ε behind the fraction",
            _norm(
                lambda x, w, b: (
                    (
                        (
                            (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, correction=0)
                        ).sqrt()
                        + 1e-5
                    )
                    * w
                    + b
                )
            ),
            "The brackets close too late: you take the root of the whole fraction, which does not exist "
            "where a number lies below the mean. Root of (variance + ε) first, then divide.",
        ),
        Misconception(
            "no root",
            _norm(
                lambda x, w, b: (
                    (x - x.mean(-1, keepdim=True))
                    / (x.var(-1, keepdim=True, correction=0) + 1e-5)
                    * w
                    + b
                )
            ),
            "You divide by the variance. It is measured in squares: its root, the standard deviation, "
            "has the size of the numbers themselves, and dividing by that leaves a variance of 1.",
        ),
        Misconception(
            "over the tokens",
            _norm(lambda x, w, b: _standard(x, dim=-2) * w + b),
            "You average over the tokens, `dim=-2`. Then a token's result depends on its neighbours, "
            "and on how many there are; in a GPT it would see the future. Each token is normalised for "
            "itself, over its own d_model numbers: `dim=-1`.",
        ),
        Misconception(
            "over the first axis",
            _norm(lambda x, w, b: _standard(x, dim=0) * w + b),
            "You average over the first axis, the texts of a batch (that is *batch* normalisation). "
            "Here each token is normalised for itself: `dim=-1`.",
        ),
        Misconception(
            "over the second axis",
            _norm(lambda x, w, b: _standard(x, dim=1) * w + b),
            "`dim=1` is d_model for a matrix, and the tokens for a batch of texts. Counted from the "
            "end, `dim=-1` is d_model in both.",
        ),
        Misconception(
            "over tokens and numbers",
            _norm(lambda x, w, b: _standard(x, dim=(-2, -1)) * w + b),
            "You take one mean and one variance for all tokens together. Each token has its own: "
            "`dim=-1` alone.",
        ),
        Misconception(
            "over everything",
            _norm(lambda x, w, b: (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() * w + b),
            "`x.mean()` without an axis is the mean of the whole tensor. Each token has its own mean "
            "and variance: `dim=-1, keepdim=True`.",
        ),
        Misconception(
            "keepdim forgotten",
            _norm(lambda x, w, b: (x - x.mean(dim=-1)) / (x.var(dim=-1) + 1e-5).sqrt() * w + b),
            "Each token has one mean, but without `keepdim=True` the axis it came from is gone, and "
            "PyTorch lays the means along another one. It fails where the sizes differ, and is "
            "quietly wrong where they agree.",
        ),
        Misconception(
            "mean left in",
            _norm(lambda x, w, b: x / ((x**2).mean(dim=-1, keepdim=True) + 1e-5).sqrt() * w + b),
            "You divide by the root of the mean square and leave the mean where it is: that is "
            "RMSNorm, with a bias. LayerNorm subtracts the mean first.",
        ),
        Misconception(
            "mean taken from the variance only",
            _norm(
                lambda x, w, b: (
                    x / (x.var(dim=-1, keepdim=True, correction=0) + 1e-5).sqrt() * w + b
                )
            ),
            "The variance is right, but the mean is still in the numbers that you divide: "
            "`x - mean` belongs above the line.",
        ),
        Misconception(
            "centred, not scaled",
            _norm(lambda x, w, b: (x - x.mean(dim=-1, keepdim=True)) * w + b),
            "The mean is 0 now, but the size is what it was. Divide by √(variance + ε).",
        ),
        Misconception(
            "weight and bias forgotten",
            _norm(lambda x, w, b: _standard(x)),
            "The normalising is right. `weight` and `bias` are there but never used: after training "
            "they are no longer ones and zeros. Multiply by the one, add the other.",
        ),
        Misconception(
            "bias forgotten",
            _norm(lambda x, w, b: _standard(x) * w),
            "Right up to the weight. The bias is 0 before training, so you would not miss it yet; "
            "add it at the end.",
        ),
        Misconception(
            "weight forgotten",
            _norm(lambda x, w, b: _standard(x) + b),
            "The weight is missing. It is 1 before training, so nothing shows yet; multiply by it "
            "before the bias is added.",
        ),
        Misconception(
            "bias before weight",
            _norm(lambda x, w, b: (_standard(x) + b) * w),
            "You add the bias and then multiply by the weight. First the weight, then the bias: "
            "otherwise the weight scales the bias too.",
        ),
        Misconception(
            "weight starts at zero",
            _norm(_right_norm, weight=torch.zeros),
            "Your weight starts as zeros, so a new layer answers 0 to everything, and all that lies "
            "behind it sees nothing. It starts as ones.",
        ),
        Misconception(
            "starts at random",
            _norm(_right_norm, weight=torch.randn, bias=torch.randn),
            "The forward pass is right. Weight and bias start at random, as matrices do; here they "
            "start as ones and zeros, so that a new layer only normalises.",
        ),
        Misconception(
            "weight starts at random",
            _norm(_right_norm, weight=torch.randn),
            "The forward pass is right. The weight starts at random, as a matrix does; it starts as "
            "ones, so that a new layer only normalises.",
        ),
        Misconception(
            "plain tensors",
            _PlainTensors,
            "The layer has no parameters: `weight` and `bias` are missing, or they are plain tensors. An "
            "optimiser is given what `parameters()` finds, and finds only what is wrapped: "
            "`nn.Parameter(torch.ones(d_model))`, and zeros for the bias.",
        ),
        Misconception(
            "wrapped",
            _Wrapped,
            "PyTorch's own nn.LayerNorm inside yours: right, and nothing learned. It also hides the "
            "parameters one storey down, as `norm.weight`. Write the three lines.",
        ),
        Misconception(
            "no bias parameter",
            _NoBias,
            "There is no `bias` yet. Some newer models do without; this one has it: "
            "`nn.Parameter(torch.zeros(d_model))`.",
        ),
        Misconception(
            "one number for all",
            _SingleNumbers,
            "Your weight and bias are one number each. Every column has its own: (d_model,) of them.",
        ),
    ),
    hints=(
        "In `__init__`: `self.weight = nn.Parameter(torch.ones(d_model))`, and the bias likewise with "
        "zeros. In `forward`, first the mean of each token: which axis, and what keeps its place?",
        "`centred = x - x.mean(dim=-1, keepdim=True)`. The variance is the mean of `centred**2` over "
        "the same axis.",
        "`centred / (variance + 1e-5).sqrt()`, then times `self.weight`, plus `self.bias`.",
    ),
    why="Mean and variance belong to one token: the last axis, kept with size 1 so that they line up. "
    "Weight and bias give the layer back what it needs of size and place, learned, for each "
    "column one number.",
)


# the feed-forward layer


class _DrawnFeedForward(_Drawn, FeedForward):
    pass


def _widen(answer, d_model, d_ff, x, parameters):
    return _filled(answer, (d_model, d_ff), (x,), parameters)


def _feed_forward_cases():
    yield 3, 11, _random(5, 3), _drawn(_DrawnFeedForward, 3, 11)
    yield 7, 5, _random(2, 3, 7, seed=1), _drawn(_DrawnFeedForward, 7, 5)
    yield 5, 13, _random(2, 3, 7, 5, seed=2), _drawn(_DrawnFeedForward, 5, 13)


def _feed_forward(forward):
    """A version of FeedForward with another forward(x, hidden, output)."""

    class FeedForward(nn.Module):
        def __init__(self, d_model, d_ff):
            super().__init__()
            self.hidden = nn.Linear(d_model, d_ff)
            self.output = nn.Linear(d_ff, d_model)

        def forward(self, x):
            return forward(x, self.hidden, self.output)

    return FeedForward


class _FourTimes(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden = nn.Linear(d_model, 4 * d_model)
        self.output = nn.Linear(4 * d_model, d_model)


class _WithoutBias(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden = nn.Linear(d_model, d_ff, bias=False)
        self.output = nn.Linear(d_ff, d_model, bias=False)


class _Sequence(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))


class _SidesSwapped(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden = nn.Linear(d_ff, d_model)
        self.output = nn.Linear(d_model, d_ff)


class _OutputAsWide(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.hidden = nn.Linear(d_model, d_ff)
        self.output = nn.Linear(d_ff, d_ff)


_gelu = functional.gelu


def _quick_gelu(x):
    return x * (1.702 * x).sigmoid()


FEED_FORWARD = Exercise(
    id="08.feed_forward",
    title="Widen, bend, narrow",
    stars=1,
    minutes=5,
    solution=FeedForward,
    cases=_feed_forward_cases,
    call=_widen,
    misconceptions=(
        Misconception(
            "no activation",
            _feed_forward(lambda x, hidden, output: output(hidden(x))),
            "The bend is missing between the two matrices. Without it they multiply into one matrix, "
            "and the wide layer between was for nothing.",
        ),
        Misconception(
            "ReLU",
            _feed_forward(lambda x, hidden, output: output(hidden(x).relu())),
            "Right, with ReLU, as in the original paper. Asked for is GELU, as in GPT-2: "
            "`nn.functional.gelu`.",
        ),
        Misconception(
            "GELU, approximated",
            _feed_forward(lambda x, hidden, output: output(_gelu(hidden(x), approximate="tanh"))),
            "That is the approximation by tanh, which GPT-2 itself uses: nearly the same, and off in "
            "the third or fourth decimal. Here it is the exact one: no `approximate`.",
        ),
        Misconception(
            "SiLU",
            _feed_forward(lambda x, hidden, output: output(functional.silu(hidden(x)))),
            "That is SiLU, x·sigmoid(x), the bend inside of SwiGLU. Asked for is GELU: "
            "`nn.functional.gelu`.",
        ),
        Misconception(
            "GELU, approximated by a sigmoid",
            _feed_forward(lambda x, hidden, output: output(_quick_gelu(hidden(x)))),
            "x·sigmoid(1.702·x) is the quick approximation of GELU, off in the third decimal. Asked for "
            "is the exact one: `nn.functional.gelu`.",
        ),
        Misconception(
            "a layer called as a function",
            _feed_forward(lambda x, hidden, output: output(nn.GELU(hidden(x)))),
            "`nn.GELU(…)` makes a layer, and takes no tensor. Call the function, "
            "`nn.functional.gelu(…)`, or make the layer in `__init__`.",
        ),
        Misconception(
            "sigmoid",
            _feed_forward(lambda x, hidden, output: output(hidden(x).sigmoid())),
            "A sigmoid squeezes each number between 0 and 1, and its slope fades on both sides. Asked "
            "for is GELU.",
        ),
        Misconception(
            "tanh",
            _feed_forward(lambda x, hidden, output: output(hidden(x).tanh())),
            "tanh squeezes each number between −1 and 1, and its slope fades on both sides. Asked for "
            "is GELU.",
        ),
        Misconception(
            "bent at the end",
            _feed_forward(lambda x, hidden, output: _gelu(output(hidden(x)))),
            "The bend comes after both matrices, which therefore multiply into one; and what is written "
            "into the stream could hardly ever be negative. It belongs between them.",
        ),
        Misconception(
            "bent twice",
            _feed_forward(lambda x, hidden, output: _gelu(output(_gelu(hidden(x))))),
            "One bend too many: the one at the end. The stream has to be able to take away as well as to "
            "add, so what is written stays unbent.",
        ),
        Misconception(
            "bent first",
            _feed_forward(lambda x, hidden, output: output(hidden(_gelu(x)))),
            "You bend the input, and then both matrices multiply into one. First `hidden`, then the "
            "bend, then `output`.",
        ),
        Misconception(
            "added to x",
            _feed_forward(lambda x, hidden, output: x + output(_gelu(hidden(x)))),
            "You add x. The sum belongs to the block, around this layer, so that it adds x once: "
            "return only what is to be written.",
        ),
        Misconception(
            "normalised inside",
            _feed_forward(
                lambda x, hidden, output: output(
                    _gelu(hidden(functional.layer_norm(x, x.shape[-1:])))
                )
            ),
            "You normalise inside. The norm is a part of the block, with parameters of its own; this "
            "layer takes x as it comes.",
        ),
        Misconception(
            "the hidden layer returned",
            _feed_forward(lambda x, hidden, output: _gelu(hidden(x))),
            "You return the wide hidden layer. `output` brings it back to d_model, so that it can be "
            "added to the stream.",
        ),
        Misconception(
            "softmax",
            _feed_forward(lambda x, hidden, output: output(hidden(x).softmax(dim=-1))),
            "A softmax makes the hidden numbers compete for one whole. Here each one bends for itself: "
            "GELU.",
        ),
        Misconception(
            "always four times",
            _FourTimes,
            "You make it 4·d_model wide whatever is asked. The width comes as `d_ff`; four times is the "
            "block's choice.",
        ),
        Misconception(
            "without biases",
            _WithoutBias,
            "Your matrices have no bias. A hidden unit needs one as its threshold: leave `bias` at its "
            "default.",
        ),
        Misconception(
            "a sequence",
            _Sequence,
            "`nn.Sequential` computes the right thing, and names the parts layers.0 and layers.2. Lesson "
            "09 loads and counts them by name: call them `hidden` and `output`.",
        ),
        Misconception(
            "sides swapped",
            _SidesSwapped,
            "`nn.Linear(a, b)` goes from a numbers to b. `hidden` goes from d_model to d_ff, `output` "
            "back.",
        ),
        Misconception(
            "output as wide",
            _OutputAsWide,
            "`output` goes from d_ff back to d_model: what comes out is added to the stream, so it must "
            "be as wide.",
        ),
    ),
    hints=(
        "Two `nn.Linear` in `__init__`: `hidden` from d_model to d_ff, `output` back.",
        "In `forward`: hidden, then `nn.functional.gelu`, then output. Nothing is added here: the sum "
        "is the block's.",
    ),
    why="`nn.Linear` acts on the last axis and repeats over those in front, so each token of each text "
    "goes through by itself, with the same two matrices.",
)

WIDTH = Exercise(
    id="08.width",
    title="Equal parameters",
    stars=1,
    minutes=4,
    solution=value("answer = 2 * 768 * 3072 / (3 * 768)"),
    misconceptions=(
        Misconception(
            "the same width",
            3072.0,
            "With the same width SwiGLU has three matrices of that size to the other's two: half as "
            "many parameters again, and the comparison would be unfair.",
        ),
        Misconception(
            "the wrong way round",
            4608.0,
            "You made it wider by 3/2. It has *more* matrices, so each has to be smaller.",
        ),
        Misconception(
            "not yet divided by three",
            6144.0,
            "2 · 3072 is what the three matrices have to share: divide by 3.",
        ),
        Misconception(
            "half",
            1536.0,
            "Half the width would fit four matrices. There are three: two thirds.",
        ),
        Misconception(
            "a third",
            1024.0,
            "A third is what one matrix would leave for three. The other layer has two: two thirds of "
            "3072.",
        ),
        Misconception(
            "three quarters",
            2304.0,
            "That is 3 · 768, three quarters of 3072. Set 3 · 768 · d_ff equal to 2 · 768 · 3072.",
        ),
        Misconception(
            "the number of parameters",
            2.0 * 768 * 3072,
            "That is how many weights each of the two layers has. Asked for is the width that gives "
            "SwiGLU as many.",
        ),
        Misconception(
            "one matrix of it",
            2.0 * 768 * 3072 / 3,
            "That is the number of weights in one of the three matrices. Each is 768 numbers high: "
            "divide by 768.",
        ),
        Misconception(
            "a factor",
            8 / 3,
            "The factor is right: 8/3 · d_model. Asked for is the width itself.",
        ),
        Misconception(
            "a ratio of widths",
            2 / 3,
            "The ratio is right: two thirds of 3072. Asked for is the width itself.",
        ),
    ),
    hints=(
        "GELU's layer has two matrices of 768 · 3072 numbers. How many has SwiGLU's, and how large is "
        "each?",
        "2 · 768 · 3072 = 3 · 768 · d_ff. The 768 cancels.",
    ),
    why="Three matrices for two, so each has two thirds of the size: 8/3 · d_model in place of "
    "4 · d_model. The first Llama's d_ff is made by this rule, rounded up.",
)


# the block


class _DrawnBlock(_Drawn, Block):
    pass


def _through(answer, n_heads, x, may_attend, parameters):
    return _filled(answer, (x.shape[-1], n_heads), (x, may_attend), parameters)


def _block_cases():
    everyone = torch.ones(5, 5).bool()
    yield 5, _random(2, 3, 5), torch.ones(3, 3).tril().bool(), _drawn(_DrawnBlock, 5, 5)
    yield 1, _random(3, 2, 7, seed=1), torch.ones(2, 2).tril().bool(), _drawn(_DrawnBlock, 7, 1)
    yield 11, _random(2, 5, 11, seed=2), everyone, _drawn(_DrawnBlock, 11, 11)
    yield 1, _random(5, 1, 3, seed=3), torch.ones(1, 1).bool(), _drawn(_DrawnBlock, 3, 1)


def _block(forward, heads=None):
    """A version of Block with another forward(parts, x, may_attend), or number of heads."""

    class Block(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.attention_norm = LayerNorm(d_model)
            self.attention = MultiHeadAttention(d_model, heads or n_heads)
            self.feed_forward_norm = LayerNorm(d_model)
            self.feed_forward = FeedForward(d_model, 4 * d_model)

        def forward(self, x, may_attend):
            return forward(self, x, may_attend)

    return Block


def _read(block, x, may_attend):
    return block.attention(block.attention_norm(x), may_attend)


def _think(block, x):
    return block.feed_forward(block.feed_forward_norm(x))


def _right_block(block, x, may_attend):
    x = x + _read(block, x, may_attend)
    return x + _think(block, x)


def _post(block, x, may_attend):
    x = block.attention_norm(x + block.attention(x, may_attend))
    return block.feed_forward_norm(x + block.feed_forward(x))


def _stream_normalised(block, x, may_attend):
    x = block.attention_norm(x)
    x = x + block.attention(x, may_attend)
    x = block.feed_forward_norm(x)
    return x + block.feed_forward(x)


def _old_stream(block, x, may_attend):
    y = x + _read(block, x, may_attend)
    return x + _think(block, y)


def _same_norm(block, x, may_attend):
    x = x + _read(block, x, may_attend)
    return x + block.feed_forward(block.attention_norm(x))


def _norms_swapped(block, x, may_attend):
    x = x + block.attention(block.feed_forward_norm(x), may_attend)
    return x + block.feed_forward(block.attention_norm(x))


def _feed_forward_first(block, x, may_attend):
    x = x + _think(block, x)
    return x + _read(block, x, may_attend)


def _no_norms(block, x, may_attend):
    x = x + block.attention(x, may_attend)
    return x + block.feed_forward(x)


def _one_norm(block, x, may_attend):
    x = x + _read(block, x, may_attend)
    return x + block.feed_forward(x)


def _no_residual_around_attention(block, x, may_attend):
    x = _read(block, x, may_attend)
    return x + _think(block, x)


def _no_residual_around_feed_forward(block, x, may_attend):
    return _think(block, x + _read(block, x, may_attend))


def _normed_sum(block, x, may_attend):
    """The feed-forward's norm is applied to the stream, and added to there."""
    x = x + _read(block, x, may_attend)
    normed = block.feed_forward_norm(x)
    return normed + block.feed_forward(normed)


def _norm_after(block, x, may_attend):
    x = x + block.attention_norm(block.attention(x, may_attend))
    return x + block.feed_forward_norm(block.feed_forward(x))


def _in_place(block, x, may_attend):
    x += _read(block, x, may_attend)
    x += _think(block, x)
    return x


def _mask_not_handed_on(block, x, may_attend):
    x = x + block.attention(block.attention_norm(x))
    return x + _think(block, x)


def _own_mask(block, x, may_attend):
    return _right_block(block, x, torch.ones_like(may_attend).tril())


def _everyone(block, x, may_attend):
    return _right_block(block, x, torch.ones_like(may_attend))


def _upside_down(block, x, may_attend):
    return _right_block(block, x, may_attend.transpose(-2, -1))


class _AsWide(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention_norm = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward_norm = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_model)


class _TiedNorms(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention_norm = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward_norm = self.attention_norm
        self.feed_forward = FeedForward(d_model, 4 * d_model)


class _OneNormOnly(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, 4 * d_model)
        self.norm = LayerNorm(d_model)


_TWO_NORMS = (
    "You use `attention_norm` for both. There are two, each made by its own `LayerNorm(d_model)`, with "
    "weights of their own, because the two parts want to read different things."
)

BLOCK = Exercise(
    id="08.block",
    title="The block",
    stars=2,
    minutes=8,
    solution=Block,
    cases=_block_cases,
    call=_through,
    tolerance=1e-4,
    misconceptions=(
        Misconception(
            "Post-LN",
            _block(_post),
            "This is Post-LN, norm(x + f(x)), as in the paper of 2017: right for that, and our next "
            "topic. Asked for is Pre-LN, x + f(norm(x)): the norm stands before each part, and nothing "
            "stands in the stream.",
        ),
        Misconception(
            "the stream normalised",
            _block(_stream_normalised),
            "You normalise the stream itself (`x = norm(x)`) and add to that. The norm is for what the "
            "part *reads*: `x + f(norm(x))`, with x itself, as it came, on the left of the plus.",
        ),
        Misconception(
            "the second stream normalised",
            _block(_normed_sum),
            "The first half is right. In the second you add to the normalised vector; the sum goes to "
            "the stream as it came: `x + self.feed_forward(self.feed_forward_norm(x))`.",
        ),
        Misconception(
            "norm after the part",
            _block(_norm_after),
            "Your norms stand in the branch, but behind the parts: x + norm(f(x)). Some models do that "
            "(OLMo 2). In ours each part *reads* a normalised copy: x + f(norm(x)).",
        ),
        Misconception(
            "in place",
            _block(_in_place),
            "`x += …` writes into the tensor that the caller handed in, which others may still need, the "
            "gradient among them. `x = x + …` makes a new one.",
        ),
        Misconception(
            "no residual",
            _block(lambda block, x, may_attend: _think(block, _read(block, x, may_attend))),
            "There is no sum in it: each part replaces the stream. What the token was is lost, and so "
            "is the short way for the gradient. `x = x + …`, twice.",
        ),
        Misconception(
            "no feed-forward layer",
            _block(lambda block, x, mask: x + _read(block, x, mask)),
            "That is the first of two lines. The second is for the feed-forward layer, and has the same "
            "form.",
        ),
        Misconception(
            "no residual around attention",
            _block(_no_residual_around_attention),
            "Attention replaces the stream here: each token keeps only what it read. Add it: "
            "`x = x + self.attention(…)`.",
        ),
        Misconception(
            "no residual around the feed-forward layer",
            _block(_no_residual_around_feed_forward),
            "The feed-forward layer replaces the stream here. Add what it writes: "
            "`x + self.feed_forward(…)`.",
        ),
        Misconception(
            "the sum goes to the old stream",
            _block(_old_stream),
            "The feed-forward layer reads the stream after attention, and you add its result to the "
            "stream *before* it: what attention wrote is lost. Let `x` itself be the stream, and add "
            "twice.",
        ),
        Misconception(
            "side by side",
            _block(lambda block, x, mask: x + _read(block, x, mask) + _think(block, x)),
            "Both parts read the same x here, side by side. Some models do that (GPT-J), because it is "
            "faster. In ours the feed-forward layer comes second, and works on what attention brought.",
        ),
        Misconception(
            "feed-forward first",
            _block(_feed_forward_first),
            "The order is the other one: attention first, so that the feed-forward layer can work on "
            "what it brought.",
        ),
        Misconception(
            "no norms",
            _block(_no_norms),
            "The sums are right, the norms are missing. Each part reads a normalised copy: "
            "`self.attention(self.attention_norm(x), may_attend)`.",
        ),
        Misconception(
            "second norm forgotten",
            _block(_one_norm),
            "The feed-forward layer reads the bare stream. It has a norm of its own: "
            "`self.feed_forward_norm(x)`.",
        ),
        Misconception("the same norm twice", _block(_same_norm), _TWO_NORMS),
        Misconception("one norm under two names", _TiedNorms, _TWO_NORMS),
        Misconception(
            "one head",
            _block(_right_block, heads=1),
            "`n_heads` plays no part: your attention has one head, whatever is asked. Hand it on: "
            "`MultiHeadAttention(d_model, n_heads)`.",
        ),
        Misconception(
            "norms swapped",
            _block(_norms_swapped),
            "The two norms have changed places. Before training nobody would see it, for both are ones "
            "and zeros.",
        ),
        Misconception(
            "a norm more",
            _block(lambda block, x, mask: block.feed_forward_norm(_right_block(block, x, mask))),
            "Right up to the last line, which normalises the stream once more. A Pre-LN model has one "
            "such norm after its *last* block; it belongs to the model (lesson 09).",
        ),
        Misconception(
            "everyone reads everyone",
            _block(_everyone),
            "The mask plays no part: every token reads every token. Hand `may_attend` on to attention.",
        ),
        Misconception(
            "mask not handed on",
            _block(_mask_not_handed_on),
            "Attention is called without its mask. It takes two arguments: the normalised stream, and "
            "`may_attend`.",
        ),
        Misconception(
            "mask turned round",
            _block(lambda block, x, mask: _right_block(block, x, ~mask)),
            "`~may_attend` is True where a query may *not* read. Some of PyTorch's layers want it so; "
            "ours takes `may_attend` as it is.",
        ),
        Misconception(
            "a mask of one's own",
            _block(_own_mask),
            "You make a causal mask inside. The block is handed one, which need not be causal (BERT's is "
            "not): pass `may_attend` on.",
        ),
        Misconception(
            "mask transposed",
            _block(_upside_down),
            "Your mask lies on its side: each token reads those *after* it. Row = who reads, column = "
            "who is read; hand it on as it is.",
        ),
        Misconception(
            "as wide as the stream",
            _AsWide,
            "Your feed-forward layer is d_model wide. It is `FeedForward(d_model, 4 * d_model)`.",
        ),
        Misconception(
            "one norm for all",
            _OneNormOnly,
            "There is one norm, and it has another name. The block has two: `attention_norm` and "
            "`feed_forward_norm`.",
        ),
    ),
    hints=(
        "In `__init__`, four parts: two `LayerNorm(d_model)`, `MultiHeadAttention(d_model, n_heads)`, "
        "and `FeedForward(d_model, 4 * d_model)`.",
        "`forward` is two lines of the same form, x + f(norm(x)). Attention takes a second argument, "
        "`may_attend`.",
        "`x = x + self.attention(self.attention_norm(x), may_attend)`; the second line likewise, "
        "without a mask, because there each token is alone.",
    ),
    why="Two lines of one form. x stands alone on the left of each plus, so there is a way from the "
    "top of the model to its bottom on which nothing multiplies it.",
)

EXERCISES = (NORM, FEED_FORWARD, WIDTH, BLOCK)

QUIZ = (
    Question(
        "In 48 layers of the form x + f(x), why does a gradient from the top reach the first one?",
        (
            Choice(
                "Each layer's slope is 1 + f′(x), so one way down multiplies by 1 at every layer.",
                True,
                "What goes through the sums alone arrives as it left; what goes through the layers "
                "comes on top of that.",
            ),
            Choice(
                "The optimiser makes small gradients larger.",
                False,
                "Adam divides a gradient by its usual size, but here no optimiser had run yet: we "
                "measured the gradients themselves.",
            ),
            Choice(
                "f is trained to have a slope near 1.",
                False,
                "It was not trained at all when we measured. The 1 is in the sum, not in f.",
            ),
        ),
    ),
    Question(
        "We add 5 to every number of a token's vector. Whose result stays the same (weights 1, biases 0)?",
        (
            Choice(
                "RMSNorm's",
                False,
                "It subtracts no mean: all numbers come closer to one another in ratio. What it does "
                "not see is a common *factor*.",
            ),
            Choice(
                "LayerNorm's",
                True,
                "The mean grows by 5 too and is subtracted; the variance does not change.",
            ),
            Choice(
                "Neither's",
                False,
                "Work it out for (1, 3, 5, 7): LayerNorm sees the deviations −3, −1, 1, 3 before and "
                "after.",
            ),
        ),
    ),
    Question(
        "What does the feed-forward layer of a block do for a token?",
        (
            Choice(
                "It brings in what other tokens know.",
                False,
                "That is attention's part. We changed one token, and behind the feed-forward layer "
                "only that one had moved.",
            ),
            Choice(
                "It makes all tokens alike.",
                False,
                "Its matrices are the same for all, its results are not: each depends on the token.",
            ),
            Choice(
                "It makes new features of what the token's vector holds, the same way at each place.",
                True,
                "Each hidden unit looks for a combination, as ours for living *and* noun, and writes "
                "something when it finds it.",
            ),
        ),
    ),
    Question(
        "“Two thirds are feed-forward.” Of what?",
        (
            Choice(
                "Of the parameters of a block that has d_ff = 4 · d_model.",
                True,
                "8 · d_model² of 12 · d_model²; biases and norms hardly count.",
            ),
            Choice(
                "Of the parameters of every GPT.",
                False,
                "Embeddings count too: in GPT-2 with 124 million parameters the feed-forward layers "
                "hold less than half.",
            ),
            Choice(
                "Of the time that a block takes.",
                False,
                "Parameters are not time: attention's scores have none, and cost more the longer the "
                "text is.",
            ),
        ),
    ),
    Question(
        "Which of these hold for Pre-LN?",
        (
            Choice(
                "It is better than Post-LN in every setting.",
                False,
                "It asks for less care. Well tuned, with a warm-up, Post-LN trains large models too: the "
                "first Transformer and BERT were built so.",
            ),
            Choice(
                "It is what the paper of 2017 used.",
                False,
                "That was norm(x + f(x)), Post-LN, with a warm-up of 4,000 steps.",
            ),
            Choice(
                "After the last block one more norm is needed.",
                True,
                "The stream has grown with each sum, and nothing has normalised it since.",
            ),
            Choice(
                "The norm stands in the branch; the stream itself is only added to.",
                True,
                "x + f(norm(x)): on the left of the plus x is as it came.",
            ),
        ),
    ),
    Question(
        "You leave the activation out of every feed-forward layer. What happens?",
        (
            Choice(
                "The layer can only do what one matrix does, at eight times its parameters.",
                True,
                "output(hidden(x)) is linear in x. It could never say *living and noun*.",
            ),
            Choice(
                "Nothing much: the layer is as wide as before.",
                False,
                "Width alone does nothing: the two matrices multiply into one of d_model × d_model.",
            ),
            Choice(
                "The model cannot be trained.",
                False,
                "It trains; our table shows how well. Attention's softmax bends as well.",
            ),
        ),
    ),
)
