"""Exercises and quiz of lesson 11: the arithmetic of a training, 16 bits, bits per byte, shared batches."""

import math

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.exercises.trial import WrongParts


def training_flops(parameters, n_layers, d_model, context_length, steps, batch_size):
    """FLOPs of a whole training, forward and backward, by the formula above."""
    per_token = 6 * parameters + 12 * n_layers * d_model * context_length
    return per_token * steps * batch_size * context_length


def unscale(gradients, scale):
    """Scaled gradients in float16 → the gradients in float32, and whether the step may be made.

    gradients: a list of tensors, left as they are. The step may be made if every number is finite.
    Returns the list of float32 tensors, and a bool.
    """
    unscaled = [gradient.float() / scale for gradient in gradients]
    usable = all(bool(gradient.isfinite().all()) for gradient in unscaled)
    return unscaled, usable


def bits_per_unit(loss, tokens, units):
    """Bits for each unit of a text of so many units, whose tokens cost `loss` nats on average."""
    return loss * tokens / units / math.log(2)


def together(gradients, rows):
    """The gradient of the mean loss over all rows, from each process's own.

    gradients: one tensor for each process, the gradient of the mean loss over its rows; rows: how many each had.
    """
    total = sum(gradient * count for gradient, count in zip(gradients, rows, strict=True))
    return total / sum(rows)


# ---- 11.flops


def _flops_cases():
    yield 1000, 2, 16, 8, 10, 4
    yield 10_650_000, 6, 384, 256, 1500, 64
    yield 7, 3, 5, 11, 13, 17
    yield 541_568, 4, 128, 256, 1400, 8


def _flops(per_token, per_step=lambda batch, context: batch * context):
    def wrong(parameters, n_layers, d_model, context_length, steps, batch_size):
        each = per_token(parameters, n_layers, d_model, context_length)
        return each * steps * per_step(batch_size, context_length)

    return wrong


FLOPS = Exercise(
    id="11.flops",
    title="How much arithmetic is a training?",
    stars=1,
    minutes=5,
    solution=training_flops,
    cases=_flops_cases,
    misconceptions=(
        Misconception(
            "forward only",
            _flops(lambda n, layers, d, t: 2 * n + 4 * layers * d * t),
            "That is the forward pass alone. Backward takes twice as much again: one product for "
            "the gradient of the parameters, one for that "
            "of the input. In all 6 a parameter and token, and 12 · L · d · T.",
        ),
        Misconception(
            "backward only",
            _flops(lambda n, layers, d, t: 4 * n + 8 * layers * d * t),
            "That is the backward pass alone; the forward pass adds half as much again.",
        ),
        Misconception(
            "multiplications only",
            _flops(lambda n, layers, d, t: 3 * n + 6 * layers * d * t),
            "You count a multiplication with its addition as one. FLOPs count both.",
        ),
        Misconception(
            "attention forgotten",
            _flops(lambda n, layers, d, t: 6 * n),
            "The products of attention have no parameters, so 6 N leaves them out: they add 12 · "
            "L · d · T a token.",
        ),
        Misconception(
            "attention's forward pass alone",
            _flops(lambda n, layers, d, t: 6 * n + 4 * layers * d * t),
            "You count attention's forward pass, 4 · L · d · T, and for the parameters both "
            "passes. Attention's products have a backward pass too: thrice "
            "as much, 12 · L · d · T.",
        ),
        Misconception(
            "half of attention",
            _flops(lambda n, layers, d, t: 6 * n + 6 * layers * d * t),
            "You leave out the half of attention that the causal mask hides. That is a sensible "
            "thing to count, but the formula, by custom, counts all of it: "
            "12 · L · d · T.",
        ),
        Misconception(
            "T squared",
            _flops(lambda n, layers, d, t: 6 * n + 12 * layers * d * t * t),
            "T² is the attention of a whole window. For *one* token it is 12 · L · d · T, since a "
            "token meets T keys; the other T comes with the number of tokens.",
        ),
        Misconception(
            "attention without T",
            _flops(lambda n, layers, d, t: 6 * n + 12 * layers * d),
            "Attention's 12 · L · d has to be multiplied by T for each token: it meets T keys. "
            "Then, with the number of tokens, T comes in once more.",
        ),
        Misconception(
            "six times everything",
            _flops(lambda n, layers, d, t: 6 * (n + 12 * layers * d * t)),
            "The 12 of attention is forward and backward already, 3 · 4. Only the parameters are "
            "multiplied by 6.",
        ),
        Misconception(
            "no brackets",
            lambda parameters, n_layers, d_model, context_length, steps, batch_size: (
                6 * parameters
                + 12 * n_layers * d_model * context_length * steps * batch_size * context_length
            ),
            "Python multiplies before it adds, so only attention is multiplied by the number of "
            "tokens. Put brackets around the sum for one token.",
        ),
        Misconception(
            "one layer's attention",
            _flops(lambda n, layers, d, t: 6 * n + 12 * d * t),
            "Attention happens in each of the n_layers layers; you count one.",
        ),
        Misconception(
            "one token a window",
            _flops(
                lambda n, layers, d, t: 6 * n + 12 * layers * d * t, lambda batch, context: batch
            ),
            "You count one token for each window. A window has context_length tokens, and every "
            "one is trained on: steps · batch_size · context_length.",
        ),
        Misconception(
            "one window a step",
            _flops(
                lambda n, layers, d, t: 6 * n + 12 * layers * d * t, lambda batch, context: context
            ),
            "You count one window for each step; there are batch_size of them.",
        ),
        Misconception(
            "one step",
            lambda parameters, n_layers, d_model, context_length, steps, batch_size: (
                (6 * parameters + 12 * n_layers * d_model * context_length)
                * batch_size
                * context_length
            ),
            "That is a single step. The training has `steps` of them.",
        ),
        Misconception(
            "one token",
            lambda parameters, n_layers, d_model, context_length, steps, batch_size: (
                6 * parameters + 12 * n_layers * d_model * context_length
            ),
            "That is F_token, the work for one token. Multiply it by the number of tokens: steps "
            "· batch_size · context_length.",
        ),
    ),
    hints=(
        "First one token: 6 for each parameter, and attention's 12 · L · d · T.",
        "Then how many tokens are trained on: steps · batch_size · context_length.",
    ),
    why="Work a token times tokens. Backward is two products for each one forward, so 2 + 4 = 6 for a "
    "parameter, and 4 + 8 = 12 for attention's two products.",
)


# ---- 11.unscale


def _scaled(*numbers):
    return torch.tensor(numbers, dtype=torch.float16)


def _unscale_cases():
    generator = torch.Generator().manual_seed(11)
    noise = torch.randn(5, 3, generator=generator)
    yield [noise.half(), _scaled(1.0, -2.0)], 1024.0
    yield [(noise * 1e-3).half(), torch.randn(7, generator=generator).half()], 65536.0
    yield [_scaled(math.inf, 1.0, 2.0)], 4.0
    yield [_scaled(1.0, 2.0, 3.0), _scaled(5.0, math.inf)], 256.0
    yield [_scaled(-math.inf, 2.0, 3.0), _scaled(5.0, 4.0)], 256.0
    yield [_scaled(5.0, 4.0, 1.0), _scaled(math.nan, 4.0)], 2.0
    yield [_scaled(math.inf, 2.0), _scaled(5.0, -7.0, 4.0)], 16.0
    yield [_scaled(1.0, 2.0), _scaled(3.0, -math.inf, 4.0)], 8.0
    yield [_scaled(math.inf, -math.inf), _scaled(math.nan, math.nan, math.nan)], 32.0
    yield (
        [_scaled(60000.0, -60000.0, 3.0)],
        0.5,
    )  # finite also after a division that makes it larger


def _result(answer, gradients, scale):
    result = answer(gradients, scale)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise WrongParts(
            "Two things are asked for: the list of float32 gradients, and whether the step may be "
            "made. End with `return unscaled, usable`."
        )
    unscaled, usable = result
    if unscaled is None or isinstance(unscaled, (bool, torch.Tensor)):
        raise WrongParts(
            "The first of your two results has to be a list with one float32 tensor for each "
            "gradient, also where the step may not be made. The second is the bool."
        )
    named = {f"gradient {i}": gradient for i, gradient in enumerate(unscaled, start=1)}
    return named | {"may the step be made": usable}


def _made(change, usable):
    def wrong(gradients, scale):
        return [change(gradient, scale) for gradient in gradients], usable(gradients)

    return wrong


def _all_finite(gradients):
    return all(bool(gradient.isfinite().all()) for gradient in gradients)


def _divided(gradient, scale):
    return gradient.float() / scale


def _zeros_for_infinities(gradients, scale):
    unscaled = [_divided(gradient, scale) for gradient in gradients]
    return [gradient.nan_to_num(0.0, 0.0, 0.0) for gradient in unscaled], _all_finite(gradients)


def _nothing_to_use(gradients, scale):
    usable = _all_finite(gradients)
    return [_divided(gradient, scale) for gradient in gradients] if usable else [], usable


def _in_place(gradients, scale):
    for gradient in gradients:
        gradient.div_(scale)
    return [gradient.float() for gradient in gradients], _all_finite(gradients)


UNSCALE = Exercise(
    id="11.unscale",
    title="Take the scale out again",
    stars=2,
    minutes=6,
    solution=unscale,
    cases=_unscale_cases,
    call=_result,
    misconceptions=(
        Misconception(
            "divided in float16",
            _made(lambda gradient, scale: (gradient / scale).float(), _all_finite),
            "You divide in float16 and convert afterwards. The division brings back the small "
            "numbers that the scale was to save, and in float16 they "
            "vanish after all. First `float()`, then divide.",
        ),
        Misconception(
            "still in float16",
            _made(lambda gradient, scale: gradient / scale, _all_finite),
            "The gradients are still float16, so small ones have vanished in the division. "
            "Convert first: `gradient.float() / scale`.",
        ),
        Misconception(
            "not divided",
            _made(lambda gradient, scale: gradient.float(), _all_finite),
            "The gradients are still `scale` times too large. The loss was multiplied, so divide "
            "by the same factor.",
        ),
        Misconception(
            "multiplied",
            _made(lambda gradient, scale: gradient.float() * scale, _all_finite),
            "You multiply once more. The loss was multiplied by the scale before `backward`; now "
            "it has to come out again: divide.",
        ),
        Misconception(
            "NaN alone is looked for",
            _made(_divided, lambda gradients: not any(bool(g.isnan().any()) for g in gradients)),
            "You look for NaN alone. What overflows in float16 is **infinite**, and an infinite "
            "gradient must not be followed either: `isfinite`.",
        ),
        Misconception(
            "infinity alone is looked for",
            _made(_divided, lambda gradients: not any(bool(g.isinf().any()) for g in gradients)),
            "You look for infinities alone. Infinity minus infinity is NaN, so NaN occurs too: "
            "`isfinite` is false for both.",
        ),
        Misconception(
            "the last one decides",
            _made(_divided, lambda gradients: bool(gradients[-1].isfinite().all())),
            "Only the last gradient decides. One bad number anywhere spoils the step: `all` of "
            "them have to be finite.",
        ),
        Misconception(
            "the first one decides",
            _made(_divided, lambda gradients: bool(gradients[0].isfinite().all())),
            "Only the first gradient decides. One bad number anywhere spoils the step: `all` of "
            "them have to be finite.",
        ),
        Misconception(
            "any will do",
            _made(
                _divided,
                lambda gradients: any(bool(gradient.isfinite().all()) for gradient in gradients),
            ),
            "You ask whether *some* gradient is finite. *All* have to be.",
        ),
        Misconception(
            "any number will do",
            _made(_divided, lambda gradients: all(bool(g.isfinite().any()) for g in gradients)),
            "You ask whether each gradient has *some* finite number. Every number has to be: "
            "`isfinite().all()`.",
        ),
        Misconception(
            "minus infinity overlooked",
            _made(_divided, lambda gradients: all(bool((g < math.inf).all()) for g in gradients)),
            "You look at the upper end alone. A gradient overflows to **−**infinity as well; "
            "`isfinite` is false for both, and for NaN.",
        ),
        Misconception(
            "plus infinity alone is looked for",
            _made(
                _divided,
                lambda gradients: not any(bool((g == math.inf).any()) for g in gradients),
            ),
            "You look for +infinity alone. A gradient overflows to −infinity as well, and NaN "
            "occurs too: `isfinite` is false for all three.",
        ),
        Misconception(
            "zeros for infinities",
            _zeros_for_infinities,
            "You put zeros where the numbers were infinite. The rest of that gradient is not to "
            "be trusted either; the step is skipped, and the gradients are given "
            "back as they came out.",
        ),
        Misconception(
            "nothing where the step is skipped",
            _nothing_to_use,
            "You give no gradients when the step may not be made. Give the list in either case; "
            "whether it is used is what the second value says.",
        ),
        Misconception(
            "the step is always made",
            _made(_divided, lambda gradients: True),
            "You say yes to everything. If a number is infinite or NaN the step has to be "
            "skipped, or the weights are lost.",
        ),
        Misconception(
            "the answer turned round",
            _made(_divided, lambda gradients: not _all_finite(gradients)),
            "The second value says whether the step **may be made**; yours says whether something "
            "went wrong.",
        ),
        Misconception(
            "changed in place",
            _in_place,
            "You divide in place: the list that was given to you is changed, and in float16 at "
            "that. Make new tensors.",
        ),
    ),
    hints=(
        "In which dtype must the division happen, so that nothing vanishes?",
        "`gradient.float() / scale` for each. For the second value: `gradient.isfinite().all()`, "
        "for all of them.",
    ),
    why="In float32 the division can make numbers as small as 10⁻³⁸. An overflow anywhere means the "
    "scale was too large for this batch: the step is skipped, "
    "whole, so that all weights stay of one step.",
)


# ---- 11.bits


def _bits_cases():
    yield 1.5, 1000, 1000
    yield 4.0, 1000, 3000
    yield 3.2, 700, 2300
    yield 0.0, 11, 13


BITS = Exercise(
    id="11.bits",
    title="From nats a token to bits a byte",
    stars=1,
    minutes=5,
    solution=bits_per_unit,
    cases=_bits_cases,
    misconceptions=(
        Misconception(
            "nats",
            lambda loss, tokens, units: loss * tokens / units,
            "These are nats. One nat is 1/ln 2 = 1.44 bits: divide by ln 2.",
        ),
        Misconception(
            "multiplied by ln 2",
            lambda loss, tokens, units: loss * tokens / units * math.log(2),
            "You multiply by ln 2. A nat is *more* than a bit, 1/ln 2 = 1.44 of them: divide.",
        ),
        Misconception(
            "a token",
            lambda loss, tokens, units: loss / math.log(2),
            "That is bits a *token*. The whole text costs loss · tokens; share that out among the "
            "units.",
        ),
        Misconception(
            "units over tokens",
            lambda loss, tokens, units: loss * units / tokens / math.log(2),
            "The ratio is turned round. The text costs loss · **tokens**, and is shared out among "
            "its **units**.",
        ),
        Misconception(
            "the tokens forgotten",
            lambda loss, tokens, units: loss / units / math.log(2),
            "You share out the loss of a single token. The whole text costs loss · tokens.",
        ),
        Misconception(
            "perplexity of a token",
            lambda loss, tokens, units: math.exp(loss) * tokens / units,
            "e to the loss is the perplexity. Asked for are bits, and the loss is a logarithm "
            "already: divide it by ln 2.",
        ),
        Misconception(
            "bytes of information",
            lambda loss, tokens, units: loss * tokens / units / math.log(2) / 8,
            "You divide by 8, as if bits were to become bytes. Bits *per* byte of the text are "
            "bits, shared out among its bytes.",
        ),
        Misconception(
            "the whole text",
            lambda loss, tokens, units: loss * tokens / math.log(2),
            "Those are the bits of the whole text. Divide by the number of units.",
        ),
        Misconception(
            "log 2 to base 10",
            lambda loss, tokens, units: loss * tokens / units / math.log10(2),
            "`log10(2)` turns decimal digits into bits. The loss is in nats, with the natural "
            "logarithm: `math.log(2)`.",
        ),
        Misconception(
            "the logarithm of the loss",
            lambda loss, tokens, units: math.log2(loss) * tokens / units,
            "The loss is a logarithm already. To change its base it is divided by ln 2, not taken "
            "once more.",
        ),
        Misconception(
            "perplexity",
            lambda loss, tokens, units: math.exp(loss * tokens / units),
            "That is a perplexity: among how many equally likely units the model hesitates. Asked "
            "for are bits.",
        ),
    ),
    hints=(
        "How many nats does the whole text cost? Then share them out among the units.",
        "1 nat = 1/ln 2 bits: divide by `math.log(2)`.",
    ),
    why="The text's cost does not depend on how it is cut; only the unit it is shared out to does. "
    "That is why bits per byte compares models with different vocabularies on one text.",
)


# ---- 11.together


def _together_cases():
    generator = torch.Generator().manual_seed(4)

    def random(*shape):
        return torch.randn(shape, generator=generator)

    yield [random(5), random(5)], [2, 2]
    yield [random(3, 7), random(3, 7)], [3, 1]
    yield [random(11), random(11), random(11)], [2, 7, 5]
    yield [random(2, 3)], [5]
    yield [random(5).double(), random(5).double(), random(5).double()], [1, 0, 3]


def _stacked(gradients):
    return torch.stack(list(gradients))


TOGETHER = Exercise(
    id="11.together",
    title="The gradient of shared batches",
    stars=2,
    minutes=6,
    solution=together,
    cases=_together_cases,
    misconceptions=(
        Misconception(
            "the plain mean",
            lambda gradients, rows: _stacked(gradients).mean(dim=0),
            "With equal shares the plain mean is right. With three rows here and one there, the "
            "one row would count as much as the three "
            "together. Weigh each gradient by its rows: Σ rows · gradient / Σ rows.",
        ),
        Misconception(
            "the sum",
            lambda gradients, rows: _stacked(gradients).sum(dim=0),
            "A sum of means is too large: n processes would make steps n times as long. Each "
            "gradient is a mean over its rows; what is asked for is the mean over "
            "*all* rows.",
        ),
        Misconception(
            "weighted, and not divided",
            lambda gradients, rows: sum(g * n for g, n in zip(gradients, rows, strict=True)),
            "The weights are right; now divide by the number of all rows, so that it is a mean "
            "again.",
        ),
        Misconception(
            "weighted, divided by the processes",
            lambda gradients, rows: (
                sum(g * n for g, n in zip(gradients, rows, strict=True)) / len(rows)
            ),
            "You divide by the number of processes. The weights are numbers of rows, so divide by "
            "the number of all rows.",
        ),
        Misconception(
            "a mean of weighted parts",
            lambda gradients, rows: (
                sum(g * n for g, n in zip(gradients, rows, strict=True)) / sum(rows) / len(rows)
            ),
            "Your parts are weighted by their share of all rows, so their *sum* is the mean "
            "already; you divide by the number of processes on top.",
        ),
        Misconception(
            "shares by whole numbers",
            lambda gradients, rows: sum(
                g * (n // sum(rows)) for g, n in zip(gradients, rows, strict=True)
            ),
            "`//` divides whole numbers, so every share below 1 is 0. A share is `n / sum(rows)`.",
        ),
        Misconception(
            "the others' rows",
            lambda gradients, rows: (
                sum(g * (sum(rows) - n) for g, n in zip(gradients, rows, strict=True)) / sum(rows)
            ),
            "Each gradient is weighed by the rows that it has *not* seen. The more rows a process "
            "had, the more its mean counts: weigh by its own.",
        ),
        Misconception(
            "divided by its rows",
            lambda gradients, rows: sum(
                g / max(n, 1) for g, n in zip(gradients, rows, strict=True)
            ),
            "Each gradient is a mean over its rows already, and you divide by them once more. To "
            "undo the mean, *multiply* by the rows; then add, "
            "and divide by the number of all rows.",
        ),
        Misconception(
            "divided by all rows alone",
            lambda gradients, rows: _stacked(gradients).sum(dim=0) / sum(rows),
            "You add the means and divide by all rows. The means have to be turned into sums "
            "first: each times its own number of rows.",
        ),
        Misconception(
            "the largest share wins",
            lambda gradients, rows: gradients[max(range(len(rows)), key=lambda i: rows[i])],
            "That is the gradient of the process with the most rows, and the others' work is lost.",
        ),
        Misconception(
            "a list",
            lambda gradients, rows: [
                g * n / sum(rows) for g, n in zip(gradients, rows, strict=True)
            ],
            "These are the weighted parts, as a list. Their sum is the gradient: one tensor.",
        ),
        Misconception(
            "concatenated",
            lambda gradients, rows: torch.cat(list(gradients)),
            "The gradients stand one after the other. All are gradients of the *same* parameters, "
            "so they are added number by number.",
        ),
    ),
    hints=(
        "A mean over rows, times the number of rows, is a sum over rows. And sums can be added.",
        "Σ rows · gradient, divided by Σ rows.",
    ),
    why="Undo each mean, add, and make the mean over all. With equal shares it is the plain mean, "
    "which is why batches are cut evenly.",
)


EXERCISES = (FLOPS, UNSCALE, BITS, TOGETHER)

QUIZ = (
    Question(
        "A training of a 1-billion-parameter model on 20 billion tokens: about how many FLOPs "
        "(attention left out)?",
        (
            Choice(
                "2 · 10¹⁹",
                False,
                "1 billion times 20 billion: that is one FLOP for each parameter and token. There "
                "are six.",
            ),
            Choice(
                "4 · 10¹⁹", False, "That is the forward pass alone: 2 for each parameter and token."
            ),
            Choice("1.2 · 10²⁰", True, "6 · 10⁹ · 2 · 10¹⁰: two forward, four backward."),
        ),
    ),
    Question(
        "Why are weights kept in float32, when the products are computed in bfloat16?",
        (
            Choice(
                "A small step would be rounded away: 1 + 0.001 is 1 in bfloat16.",
                True,
                "Steps are far smaller than weights, and bfloat16 has only about two and a half "
                "decimal digits.",
            ),
            Choice("bfloat16 cannot hold large weights.", False, "Its range is that of float32."),
            Choice(
                "Products of 16-bit weights would be slower.",
                False,
                "They are faster, and the copies made for them are 16-bit.",
            ),
        ),
    ),
    Question(
        "Training in float16, the scale of the loss is 65,536, and a gradient comes out infinite. "
        "What happens?",
        (
            Choice(
                "The infinite numbers are set to 0 and the step is made.",
                False,
                "The other numbers of that tensor are not to be trusted, and a part of the step "
                "is not the step.",
            ),
            Choice(
                "The step is skipped and the scale halved.",
                True,
                "Nothing is lost but one batch; most likely the next one fits.",
            ),
            Choice(
                "Training goes on in float32.",
                False,
                "It could, but then it would be slow; a smaller scale is enough.",
            ),
        ),
    ),
    Question(
        "Model A: 1.4 nats a character on Shakespeare. Model B: 3.9 nats a character on Tang "
        "verse. Which is the better model?",
        (
            Choice(
                "A: its loss is lower.",
                False,
                "It answers an easier question: 63 characters against 3,002, and other texts.",
            ),
            Choice(
                "B: it is further below an even guess.",
                False,
                "ln 3,002 is 8.0, so it is; but how far one *can* get below depends on the text.",
            ),
            Choice(
                "Nothing can be said.",
                True,
                "Losses compare models on the same text. Bits per byte make different "
                "vocabularies comparable, not different texts.",
            ),
        ),
    ),
    Question(
        "Four GPUs train with a batch of 64, shared. Which is true?",
        (
            Choice(
                "Each has a copy of all weights.",
                True,
                "That is data parallelism; larger models are cut up in other ways.",
            ),
            Choice(
                "The step is the one that a single GPU would make with the batch of 64, but for "
                "rounding.",
                True,
                "The mean of the gradients of equal shares is the gradient of the whole.",
            ),
            Choice(
                "Each GPU makes steps of its own, and weights are averaged at the end.",
                False,
                "They average gradients at every step, so that the weights never differ.",
            ),
            Choice(
                "It is four times as fast, whatever the model.",
                False,
                "Gradients have to be sent at each step, and a small share may not fill a GPU.",
            ),
        ),
    ),
)
