"""Exercises and quiz of lesson 10: the parts of a training loop."""

import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from course_lib.data import batches
from course_lib.data.batches import evaluation_windows
from course_lib.exercises.model import Choice, Exercise, Misconception, Question
from course_lib.training import schedule, trainer
from course_lib.training.trainer import next_token_loss


def random_windows(tokens, batch_size, context_length, generator):
    """Windows that begin anywhere in tokens (position), each place equally likely.

    Returns inputs and targets, both (batch, position): context_length characters each, and for
    every input the character that follows it. Draw the beginnings with one
    `torch.randint(..., generator=generator)`.
    """
    starts = torch.randint(len(tokens) - context_length, (batch_size, 1), generator=generator)
    positions = starts + torch.arange(context_length)  # (batch, position)
    return tokens[positions], tokens[positions + 1]


def training_step(model, optimizer, inputs, targets, clip):
    """One update in training mode; the loss before it, in nats, as a float.

    inputs, targets: (batch, position); model(inputs): logits (batch, position, vocab_size).
    clip: the largest norm that the whole gradient may have.
    """
    model.train()
    loss = next_token_loss(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()


def warmup_cosine(step, *, steps, warmup, peak, minimum):
    """The learning rate of step 0 ≤ step < steps, a float.

    Steps 0 to warmup: a line, peak/(warmup + 1) at step 0, the peak at step `warmup`.
    After it: half a cosine, down to `minimum` at the last step, steps - 1.
    """
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    progress = (step - warmup) / (steps - 1 - warmup)  # 0 at the peak, 1 at the last step
    return minimum + (peak - minimum) * (1 + math.cos(math.pi * progress)) / 2


def evaluate(model, tokens, batch_size=64):
    """Mean loss in nats, a float, over all characters of tokens (position) but the first.

    No dropout, no gradients. The windows come from
    evaluation_windows(tokens, model.config.context_length, batch_size).
    """
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in evaluation_windows(tokens, model.config.context_length, batch_size):
            loss = next_token_loss(model(inputs), targets)
            total += loss.item() * targets.numel()
    return total / (len(tokens) - 1)


# windows


def _draw(answer, tokens, batch_size, context_length, seed):
    """Two batches in a row from a generator with this seed, and what can be said of them."""
    generator = torch.Generator().manual_seed(seed)
    text, states, drawn = tokens.clone(), [generator.get_state()], []
    for _ in range(2):
        batch = answer(tokens, batch_size, context_length, generator)
        drawn.append(tuple(batch) if isinstance(batch, list) and len(batch) == 2 else batch)
        states.append(generator.get_state())
    return {
        "the generator": _use_of_generator(*states),
        **_look_at_windows(text, context_length, seed, drawn),
        "first batch": drawn[0],
        "second batch": drawn[1],
    }


def _use_of_generator(before, between, after):
    """What two draws did to the generator's state."""
    if torch.equal(before, between):
        return "not used: your numbers come from elsewhere"
    if torch.equal(between, after):
        return "set back at each call: every batch is the first one again"
    return "used"


def _look_at_windows(text, context_length, seed, drawn):
    """In words, what two batches of (inputs, targets) are; texts have different characters only."""
    found = dict.fromkeys(("the inputs", "the targets", "the beginnings"), "not to be made out")
    try:
        inputs, targets = (torch.stack(part) for part in zip(*drawn, strict=True))
        places = torch.full((4 * len(text),), -2 * len(text))  # where each character stands
        places[text] = torch.arange(len(text))
        at, ahead = places[inputs], places[targets] - places[inputs]
    except Exception:  # no tensors, other shapes, numbers that are no characters of the text
        return found
    in_a_row = at.diff(dim=-1).eq(1).all()
    found["the inputs"] = "characters in a row" if in_a_row else "characters that are not in a row"
    found["the targets"] = "each the character after its input"
    if ahead.ne(1).any():
        found["the targets"] = "other characters than those after the inputs"
    generator = torch.Generator().manual_seed(seed)
    count, size = len(text) - context_length, (at.shape[1],)
    starts = [torch.randint(count, size, generator=generator) for _ in drawn]
    right = torch.equal(at[..., 0], torch.stack(starts))
    found["the beginnings"] = "those of torch.randint(len(tokens) - context_length, …)"
    if not right:
        found["the beginnings"] = "other ones"
    return found


def _text(length, seed):
    """As many different numbers, so that each says where it stood."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed)) + length


def _window_cases():
    yield _text(101, 0), 5, 7, 1
    yield _text(23, 1), 3, 2, 2
    yield _text(11, 2), 7, 5, 3
    yield _text(13, 3), 31, 11, 4  # two places to begin
    yield _text(5, 4), 2, 3, 5


def _windows(choose_starts, targets_at=1):
    """A version of random_windows with other beginnings, or other targets."""

    def windows(tokens, batch_size, context_length, generator):
        starts = choose_starts(len(tokens), batch_size, context_length, generator)
        positions = starts + torch.arange(context_length)
        return tokens[positions], tokens[positions + targets_at]

    return windows


def _right_starts(length, batch_size, context_length, generator):
    return torch.randint(length - context_length, (batch_size, 1), generator=generator)


def _sliced(places):
    """Windows as slices, with `places(length, context_length)` beginnings."""

    def windows(tokens, batch_size, context_length, generator):
        count = places(len(tokens), context_length)
        starts = torch.randint(count, (batch_size,), generator=generator)
        inputs = torch.stack([tokens[i : i + context_length] for i in starts])
        return inputs, torch.stack([tokens[i + 1 : i + context_length + 1] for i in starts])

    return windows


def _cut_in_two(tokens, batch_size, context_length, generator):
    inputs, _ = random_windows(tokens, batch_size, context_length, generator)
    return inputs[:, :-1], inputs[:, 1:]


def _one_target(tokens, batch_size, context_length, generator):
    inputs, targets = random_windows(tokens, batch_size, context_length, generator)
    return inputs, targets[:, -1]


def _transposed(tokens, batch_size, context_length, generator):
    inputs, targets = random_windows(tokens, batch_size, context_length, generator)
    return inputs.T, targets.T


def _own_generator(tokens, batch_size, context_length, generator):
    return random_windows(tokens, batch_size, context_length, torch.Generator().manual_seed(0))


def _from_all_over(tokens, batch_size, context_length, generator):
    size = (batch_size, context_length)
    positions = torch.randint(len(tokens) - context_length, size, generator=generator)
    return tokens[positions], tokens[positions + 1]


def _drawn_twice(tokens, batch_size, context_length, generator):
    inputs, _ = random_windows(tokens, batch_size, context_length, generator)
    return inputs, random_windows(tokens, batch_size, context_length, generator)[1]


def _rolled(tokens, batch_size, context_length, generator):
    inputs, _ = random_windows(tokens, batch_size, context_length, generator)
    return inputs, inputs.roll(-1, dims=1)


def _one_piece(tokens, batch_size, context_length, generator):
    """The windows of the opening loop: one piece of text, cut up."""
    size = batch_size * context_length
    start = torch.randint(len(tokens) - size, (1,), generator=generator).item()
    inputs, targets = tokens[start : start + size], tokens[start + 1 : start + size + 1]
    return inputs.view(batch_size, -1), targets.view(batch_size, -1)


def _a_window_further(tokens, batch_size, context_length, generator):
    starts = _right_starts(len(tokens), batch_size, context_length, generator)
    positions = starts + torch.arange(context_length)
    return tokens[positions], tokens[positions + context_length]


def _swapped(tokens, batch_size, context_length, generator):
    inputs, targets = random_windows(tokens, batch_size, context_length, generator)
    return targets, inputs


def _set_back(tokens, batch_size, context_length, generator):
    generator.manual_seed(generator.initial_seed())
    return random_windows(tokens, batch_size, context_length, generator)


def _places(tokens, batch_size, context_length, generator):
    return random_windows(torch.arange(len(tokens)), batch_size, context_length, generator)


def _flat_starts(length, batch_size, context_length, generator):
    return _right_starts(length, batch_size, context_length, generator).flatten()


_FAR = (
    "Some of your windows begin too near the end: no character is left to be the target of the "
    "last one. A window takes context_length characters **and one more**, so the last beginning "
    "is len(tokens) − context_length − 1. `torch.randint(n, …)` draws 0 to n − 1."
)

WINDOWS = Exercise(
    id="10.windows",
    title="Draw random windows",
    stars=2,
    minutes=7,
    solution=random_windows,
    reference=batches.random_windows,
    cases=_window_cases,
    call=_draw,
    misconceptions=(
        Misconception(
            "the last window left out",
            _windows(lambda n, b, t, g: torch.randint(n - t - 1, (b, 1), generator=g)),
            "Your last possible window is never drawn. It begins at len(tokens) − context_length − "
            "1, and `torch.randint(n, …)` draws 0 to n − 1: there are len(tokens) − context_length "
            "places to begin.",
        ),
        Misconception(
            "one place too many",
            _windows(lambda n, b, t, g: torch.randint(n - t + 1, (b, 1), generator=g)),
            _FAR,
        ),
        Misconception("one place too many, sliced", _sliced(lambda n, t: n - t + 1), _FAR),
        Misconception(
            "anywhere at all",
            _windows(lambda n, b, t, g: torch.randint(n, (b, 1), generator=g)),
            _FAR,
        ),
        Misconception("anywhere at all, sliced", _sliced(lambda n, t: n), _FAR),
        Misconception(
            "targets are the inputs",
            _windows(_right_starts, targets_at=0),
            "Your targets are the inputs themselves. A model learns to repeat what it reads in no "
            "time, its loss falls to nearly 0, and it cannot write a word. The target of a character "
            "is the *next* one: positions + 1.",
        ),
        Misconception(
            "targets are the characters before",
            _windows(_right_starts, targets_at=-1),
            "Your targets lie one place to the left: each is the character *before* its input, and "
            "for all but the first one the model has it in front of its eyes. Shift to the right: "
            "positions + 1.",
        ),
        Misconception(
            "targets a window further",
            _a_window_further,
            "Your targets are the window that follows, context_length places further, and near the "
            "end of the text there is none. The target of each input is the very next character: "
            "positions + 1.",
        ),
        Misconception(
            "inputs and targets swapped",
            _swapped,
            "You return the targets first. The order is inputs, targets: the inputs begin where "
            "the window begins.",
        ),
        Misconception(
            "a window cut in two",
            _cut_in_two,
            "You draw context_length characters and take the inputs from the first of them and the "
            "targets from the last, so both are one short. Draw context_length + 1 characters, or "
            "take the targets from the text itself.",
        ),
        Misconception(
            "one target a window",
            _one_target,
            "You give one target a window, the character after its end. A GPT predicts at **every** "
            "position (lesson 04), so there are context_length targets: the window, shifted by one.",
        ),
        Misconception(
            "one beginning for the whole batch",
            _windows(lambda n, b, t, g: torch.randint(n - t, (1, 1), generator=g).expand(b, 1)),
            "All windows of your batch are the same one: only one beginning was drawn. Draw "
            "batch_size of them: `(batch_size, 1)`.",
        ),
        Misconception(
            "generator ignored",
            _windows(lambda n, b, t, g: torch.randint(n - t, (b, 1))),
            "The generator was not used. Then whatever else draws random numbers, dropout say, "
            "changes which windows come next, and no run can be repeated or resumed: pass "
            "`generator=generator` to `torch.randint`.",
        ),
        Misconception(
            "a generator of its own",
            _own_generator,
            "You make a new generator with the same seed at each call, so each batch is the first "
            "one again: the model would see nothing else of the text. Use the generator given.",
        ),
        Misconception(
            "the generator set back",
            _set_back,
            "You give the generator its seed again at each call, so each batch is the first one "
            "again. Who made the generator has seeded it, once; leave it as it comes.",
        ),
        Misconception(
            "one piece cut up",
            _one_piece,
            "You draw one long piece and cut it into windows, as the opening loop does. So all "
            "windows of a batch come from one scene, and a text must be as long as a batch. Draw "
            "batch_size beginnings, one for each window.",
        ),
        Misconception(
            "whole windows only",
            _windows(lambda n, b, t, g: t * torch.randint((n - 1) // t, (b, 1), generator=g)),
            "Your windows begin at multiples of context_length only, so the model always meets the "
            "same pieces. Let them begin anywhere: there are len(tokens) − context_length places.",
        ),
        Misconception(
            "without repetition",
            _windows(lambda n, b, t, g: torch.randperm(n - t, generator=g)[:b, None]),
            "`randperm` draws beginnings that differ within a batch. That is a good way too, but it "
            "gives a smaller batch when the text has few places to begin. Draw with `torch.randint`, "
            "so that your run is the one of this lesson.",
        ),
        Misconception(
            "random decimals",
            _windows(
                lambda n, b, t, g: (torch.rand(b, 1, generator=g) * (n - t)).long(),
            ),
            "Scaling `torch.rand` gives fair beginnings too, but other ones. Draw whole numbers with "
            "`torch.randint`, so that your run is the one of this lesson.",
        ),
        Misconception(
            "a flat row of beginnings",
            _windows(_flat_starts),
            "Beginnings of shape (batch_size,) and `torch.arange(context_length)` lie along the same "
            "axis and cannot be added. Draw them as a column, `(batch_size, 1)`, and each meets all "
            "of the range.",
        ),
        Misconception(
            "characters from all over",
            _from_all_over,
            "You draw a place for each character, so that what you call a window is characters from "
            "all over the text. Draw one beginning a window; the others follow it.",
        ),
        Misconception(
            "drawn twice",
            _drawn_twice,
            "Inputs and targets come from two draws, so that they are from different places. Draw "
            "the beginnings once and use them for both.",
        ),
        Misconception(
            "targets rolled around",
            _rolled,
            "`roll` shifts within the window, so that its last target is its own first character. "
            "The last target stands in the text, one place after the window.",
        ),
        Misconception(
            "places in place of characters",
            _places,
            "These are the positions. Look up what stands there: `tokens[positions]`.",
        ),
        Misconception(
            "axes swapped",
            _transposed,
            "Your windows stand in columns. The batch comes first: (batch, position).",
        ),
    ),
    hints=(
        "With tokens 0 1 2 3 4 and context_length = 3, which beginnings leave room for a target of "
        "the last input? (Two do.) How many are there in general?",
        "`starts` of shape (batch_size, 1) plus `torch.arange(context_length)` of shape "
        "(context_length) gives all positions at once, (batch, position).",
        "`tokens[positions]` looks them all up. The targets are one place further to the right.",
    ),
    why="The window that begins at len(tokens) − context_length − 1 has the text's last character as "
    "its last target, so there are len(tokens) − context_length places. The generator belongs to "
    "the caller: with its state, the windows to come are known, which is what resuming needs.",
)


# the training step


class _Small(nn.Module):
    """Scores the next token from a token and its place; training drops half of what it sees.

    The same half each time, so that nothing here is left to chance. A window longer than
    context_length is refused, as by learned positions.
    """

    def __init__(self, seed, context_length, vocab_size=5, width=7):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.embedding = nn.Parameter(torch.randn(vocab_size, width, generator=generator))
        self.places = nn.Parameter(torch.randn(context_length, width, generator=generator))
        self.head = nn.Parameter(torch.randn(width, vocab_size, generator=generator))
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.kept = torch.rand(width, generator=generator) < 0.5
        self.config = SimpleNamespace(context_length=context_length, vocab_size=vocab_size)
        self.passes = []  # of each: in training mode? recorded for gradients? how many characters?

    def forward(self, tokens):
        if tokens.ndim != 2 or tokens.shape[1] > len(self.places):
            raise ValueError(
                f"tokens of shape {tuple(tokens.shape)} are no batch of windows; give (batch, "
                f"position) with at most context_length = {len(self.places)} positions"
            )
        self.passes.append((self.training, torch.is_grad_enabled(), tokens.numel()))
        hidden = self.embedding[tokens] + self.places[torch.arange(tokens.shape[1])]
        if self.training:
            hidden = 2 * hidden * self.kept
        return hidden @ self.head + self.bias


def _three_steps(answer, seed, clip, batch_size, context_length):
    """The losses of three steps, the parameters after them, and what was seen on the way."""
    model = _Small(seed, context_length)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    followed = []
    optimizer.register_step_post_hook(lambda *_: followed.append(_length_of_gradient(model)))
    generator = torch.Generator().manual_seed(seed)
    text = torch.randint(5, (97,), generator=generator)
    losses, trained = [], True
    for _ in range(3):
        model.eval()  # as an evaluation may have left it
        model.passes.clear()
        inputs, targets = random_windows(text, batch_size, context_length, generator)
        losses.append(answer(model, optimizer, inputs, targets, clip))
        trained = trained and bool(model.passes) and model.passes[0][0]
    return {
        "the model's mode": "training" if trained else "not training",
        "calls of optimizer.step": len(followed),
        "first loss": losses[0],
        "lengths of the gradients followed": (followed + 3 * [0.0])[:3],
        "losses": losses,
        "parameters": torch.cat([p.detach().flatten() for p in model.parameters()]),
    }


def _length_of_gradient(model):
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(gradients).norm().item() if gradients else 0.0


def _step_cases():
    yield 1, 0.5, 3, 7
    yield 2, 2.0, 7, 3
    yield 3, 1000.0, 5, 2


def _step(*, order="zbcs", train=True, loss=next_token_loss, clip=None, result=None):
    """A version of training_step: z zero_grad, b backward, c clip, s step, in another order."""

    def step(model, optimizer, inputs, targets, largest):
        clipping = clip or torch.nn.utils.clip_grad_norm_
        moves = {
            "z": optimizer.zero_grad,
            "b": lambda: value.backward(),
            "c": lambda: clipping(model.parameters(), largest),
            "s": optimizer.step,
        }
        if train:
            model.train()
        value = loss(model(inputs), targets)
        for move in order:
            moves[move]()
        return result(model, value, inputs, targets) if result else value.item()

    return step


def _one_batch_late(model, optimizer, inputs, targets, clip):
    optimizer.step()
    return _step(order="zbc")(model, optimizer, inputs, targets, clip)


def _clip_each(parameters, largest):
    for parameter in parameters:
        torch.nn.utils.clip_grad_norm_([parameter], largest)


def _scale_to(parameters, largest):
    gradients = [parameter.grad for parameter in parameters]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient *= largest / norm


STEP = Exercise(
    id="10.step",
    title="One step of training",
    stars=2,
    minutes=7,
    solution=training_step,
    cases=_step_cases,
    call=_three_steps,
    misconceptions=(
        Misconception(
            "zero_grad forgotten",
            _step(order="bcs"),
            "Your first step is right, and then the gradients pile up: `backward()` *adds* to what "
            "is there. Without `optimizer.zero_grad()` every step follows the sum of all gradients "
            "so far, which is the fault that opens this lesson.",
        ),
        Misconception(
            "the step of the opening loop",
            _step(order="bs", train=False),
            "This is the step of the opening loop, with its faults. Three lines are missing: "
            "`model.train()` at the beginning, `optimizer.zero_grad()` before `backward()`, and the "
            "clipping after it.",
        ),
        Misconception(
            "zero_grad and clipping forgotten",
            _step(order="bs"),
            "Two lines are missing: `optimizer.zero_grad()` before `backward()`, which otherwise "
            "*adds* to the old gradient, and the clipping between `backward()` and `step()`.",
        ),
        Misconception(
            "training mode and clipping forgotten",
            _step(order="zbs", train=False),
            "Two lines are missing: `model.train()` at the beginning, because an evaluation may have "
            "left the model in the other mode, and the clipping between `backward()` and `step()`.",
        ),
        Misconception(
            "training mode and zero_grad forgotten",
            _step(order="bcs", train=False),
            "Two lines are missing: `model.train()` at the beginning, because an evaluation may have "
            "left the model in the other mode, and `optimizer.zero_grad()` before `backward()`, which "
            "otherwise *adds* to the old gradient.",
        ),
        Misconception(
            "one batch late",
            _one_batch_late,
            "You take the step at the beginning, with the gradient of the batch before. Every update "
            "comes one batch late, and the last never. It belongs to the end.",
        ),
        Misconception(
            "step forgotten",
            _step(order="zbc"),
            "The gradient is there, and nobody follows it: your parameters never move. "
            "`optimizer.step()` is missing at the end, or its brackets are.",
        ),
        Misconception(
            "no gradient to follow",
            _step(order="bczs"),
            "Your parameters never move: when `step()` comes there is no gradient. Either "
            "`zero_grad()` stands between `backward()` and `step()` and throws away what was just "
            "computed, or `backward()` is missing, or its brackets are.",
        ),
        Misconception(
            "step before backward",
            _step(order="szbc"),
            "Your step comes before `backward()`. The first one has no gradient to follow, and the "
            "second moves the parameters while the way back still needs them as they were, which "
            "torch refuses. First `backward()`, then `step()`.",
        ),
        Misconception(
            "clipping forgotten",
            _step(order="zbs"),
            "Right where the gradient is small, but nothing is clipped. Clipping changes the "
            "gradients in place, so it belongs between `backward()`, which makes them, and `step()`, "
            "which follows them: `torch.nn.utils.clip_grad_norm_(model.parameters(), clip)`.",
        ),
        Misconception(
            "each tensor clipped by itself",
            _step(clip=_clip_each),
            "You clip the gradient of each tensor by itself, which turns the whole gradient to "
            "another direction. One norm over **all** parameters: hand `model.parameters()` to "
            "`clip_grad_norm_` at once.",
        ),
        Misconception(
            "clipped entry by entry",
            _step(clip=torch.nn.utils.clip_grad_value_),
            "`clip_grad_value_` cuts each entry by itself and turns the gradient to another "
            "direction. `clip_grad_norm_` makes it shorter and keeps its direction.",
        ),
        Misconception(
            "small gradients made large",
            _step(clip=_scale_to),
            "Your gradient always gets the norm `clip`, also when it was smaller. Clipping only "
            "shortens: a small gradient says that little is left to do.",
        ),
        Misconception(
            "evaluation mode left on",
            _step(train=False),
            "Your model trains in evaluation mode, without dropout, because an evaluation before it "
            "had called `model.eval()`. Begin the step with `model.train()`, brackets included.",
        ),
        Misconception(
            "the loss as a tensor",
            _step(result=lambda model, loss, inputs, targets: loss),
            "You return a tensor. An undetached loss carries the whole graph that led to it, and kept "
            "in a list, the graphs of all steps fill the memory. `loss.item()` is the number alone.",
        ),
        Misconception(
            "nothing returned",
            _step(result=lambda model, loss, inputs, targets: None),
            "The step is right, but nothing comes back: end with `return loss.item()`.",
        ),
        Misconception(
            "the loss after the step",
            _step(result=lambda m, loss, x, y: next_token_loss(m(x), y).item()),
            "You measure the loss again after the update. That costs another forward pass, and it "
            "flatters: the model has just learned this very batch. Return the loss that you took "
            "the gradient of.",
        ),
        Misconception(
            "the loss after the step, in evaluation mode",
            _step(result=lambda m, loss, x, y: next_token_loss(m.eval()(x), y).item()),
            "You measure the loss again after the update. That costs another forward pass, and it "
            "flatters: the model has just learned this very batch. Return the loss that you took "
            "the gradient of.",
        ),
        Misconception(
            "perplexity",
            _step(result=lambda model, loss, inputs, targets: math.exp(loss.item())),
            "e to the loss is the *perplexity*: among how many characters the model hesitates, as "
            "it were. Asked for is the loss itself, in nats: `loss.item()`.",
        ),
        Misconception(
            "bits",
            _step(loss=lambda logits, targets: next_token_loss(logits, targets) / math.log(2)),
            "Your loss is in bits. Asked for are nats, as `cross_entropy` gives them: do not divide "
            "by ln 2.",
        ),
        Misconception(
            "inputs as targets",
            lambda model, optimizer, inputs, targets, clip: training_step(
                model, optimizer, inputs, inputs, clip
            ),
            "You score the guesses against the *inputs*. What was to be guessed are the targets.",
        ),
        Misconception(
            "targets as inputs",
            lambda model, optimizer, inputs, targets, clip: training_step(
                model, optimizer, targets, targets, clip
            ),
            "You let the model read the targets. It reads the inputs: `model(inputs)`.",
        ),
        Misconception(
            "shifted once more",
            _step(loss=lambda logits, targets: next_token_loss(logits[:, :-1], targets[:, 1:])),
            "You shift the targets against the logits. They come shifted already: targets[:, i] is "
            "what follows inputs[:, i]. So you ask for the character after the next one.",
        ),
        Misconception(
            "targets first",
            _step(loss=lambda logits, targets: next_token_loss(targets, logits)),
            "The logits come first, then the targets: `next_token_loss(model(inputs), targets)`.",
        ),
        Misconception(
            "softmax before cross_entropy",
            _step(loss=lambda logits, targets: next_token_loss(logits.softmax(dim=-1), targets)),
            "You take the softmax first, and `cross_entropy` takes it once more. It expects the raw "
            "logits; twice softmaxed, all probabilities are nearly equal and hardly anything is "
            "learned.",
        ),
        Misconception(
            "summed, not averaged",
            _step(
                loss=lambda logits, targets: cross_entropy(
                    logits.flatten(0, 1), targets.flatten(), reduction="sum"
                )
            ),
            "Your loss is a sum over all characters of the batch. Asked for is the mean, which does "
            "not change with the size of the batch: the default of `cross_entropy`.",
        ),
        Misconception(
            "the last position only",
            _step(loss=lambda logits, targets: cross_entropy(logits[:, -1], targets[:, -1])),
            "You score the last position of each window only and throw the other predictions away. "
            "Each position has a target: use all of them.",
        ),
        Misconception(
            "axes not flattened",
            _step(loss=cross_entropy),
            "`cross_entropy` wants the classes on axis 1, and these logits have them last: (batch, "
            "position, vocab_size). `next_token_loss` flattens batch and position first.",
        ),
        Misconception(
            "axes reshaped",
            _step(
                loss=lambda logits, targets: cross_entropy(
                    logits.reshape(logits.shape[0], logits.shape[2], logits.shape[1]), targets
                )
            ),
            "`reshape` or `view` cuts the logits anew in reading order, so that classes and "
            "positions are mixed up. Flatten batch and position (`logits.flatten(0, 1)`), or "
            "`transpose(1, 2)`.",
        ),
    ),
    hints=(
        "Which of the calls fills `.grad`, which ones read or change it, which one empties it? And "
        "what does the one that fills it do with a gradient that is there already?",
        "`next_token_loss(model(inputs), targets)` is the loss. In words: into training mode; the "
        "loss; forget the old gradient; the new gradient; clip it; follow it. And return the number.",
        "`model.train()`, loss, `optimizer.zero_grad()`, `loss.backward()`, "
        "`torch.nn.utils.clip_grad_norm_(model.parameters(), clip)`, `optimizer.step()`, "
        "`return loss.item()`.",
    ),
    why="Each line has one place where it is right. `zero_grad` may stand anywhere but between "
    "`backward` and `step`; clipping needs the gradient and must come before it is followed; "
    "`item()` lets go of the graph.",
)


# the schedule


def _all_rates(answer, steps, warmup, peak, minimum):
    """The rates of all steps, in order, each with what kind of step it is."""
    kinds = {warmup: ", at the peak", steps - 1: ", the last"}
    return {
        f"step {step}{kinds.get(step, ', in the warm-up' if step < warmup else '')}": answer(
            step, steps=steps, warmup=warmup, peak=peak, minimum=minimum
        )
        for step in range(steps)
    }


def _schedule_cases():
    yield 23, 5, 2.0, 0.5
    yield 11, 2, 0.01, 0.001
    yield 7, 0, 3.0, 1.0
    yield 13, 11, 1.0, 0.0


def _schedule(
    rise=lambda step, warmup: (step + 1) / (warmup + 1),
    progress=lambda step, steps, warmup: (step - warmup) / (steps - 1 - warmup),
    fall=lambda progress: (1 + math.cos(math.pi * progress)) / 2,
    mix=lambda fall, peak, minimum: minimum + (peak - minimum) * fall,
    rising=lambda step, warmup: step < warmup,
):
    """A version of warmup_cosine with one part of another kind."""

    def rate(step, *, steps, warmup, peak, minimum):
        if rising(step, warmup):
            return peak * rise(step, warmup)
        return mix(fall(progress(step, steps, warmup)), peak, minimum)

    return rate


SCHEDULE = Exercise(
    id="10.schedule",
    title="Warm up, then cool down",
    stars=2,
    minutes=6,
    solution=warmup_cosine,
    reference=schedule.warmup_cosine,
    cases=_schedule_cases,
    call=_all_rates,
    misconceptions=(
        Misconception(
            "starts at zero",
            _schedule(rise=lambda step, warmup: step / warmup),
            "Your first step has the rate 0: a whole batch is computed, and nothing is learned from "
            "it. Step 0 has peak/(warmup + 1): count from step + 1.",
        ),
        Misconception(
            "the peak one step early",
            _schedule(rise=lambda step, warmup: (step + 1) / warmup),
            "Your line reaches the peak one step early, at step warmup − 1, and then has it twice. "
            "With step `warmup` as the first at the peak there are warmup + 1 stairs: divide by "
            "warmup + 1.",
        ),
        Misconception(
            "cosine over all steps",
            _schedule(progress=lambda step, steps, warmup: step / (steps - 1)),
            "Your cosine runs over all steps, so after the warm-up it is part of the way down "
            "already, and the rate drops at the joint. Let it begin where the warm-up ends: "
            "(step − warmup) / (steps − 1 − warmup).",
        ),
        Misconception(
            "cosine not shifted",
            _schedule(progress=lambda step, steps, warmup: step / (steps - 1 - warmup)),
            "You shortened the cosine and did not shift it: it has to be 0 at step `warmup`. Above "
            "the line stands step − warmup.",
        ),
        Misconception(
            "the minimum one step late",
            _schedule(progress=lambda step, steps, warmup: (step - warmup) / (steps - warmup)),
            "Your rate would reach the minimum at step `steps`, which does not exist: the last step "
            "is steps − 1. Divide by steps − 1 − warmup.",
        ),
        Misconception(
            "both ends one step off",
            _schedule(
                rise=lambda step, warmup: (step + 1) / warmup,
                progress=lambda step, steps, warmup: (step - warmup) / (steps - warmup),
            ),
            "Both pieces are one step off: your line has the peak at step warmup − 1 already (divide "
            "by warmup + 1), and your cosine would have the minimum at step `steps`, which does not "
            "exist (divide by steps − 1 − warmup).",
        ),
        Misconception(
            "from zero, and one step late",
            _schedule(
                rise=lambda step, warmup: step / warmup,
                progress=lambda step, steps, warmup: (step - warmup) / (steps - warmup),
            ),
            "Two ends: your first step has the rate 0 and learns nothing (peak · (step + 1) / "
            "(warmup + 1)), and your last one has not reached the minimum, for it is steps − 1 "
            "(divide by steps − 1 − warmup).",
        ),
        Misconception(
            "cosine over all steps, and one more",
            _schedule(progress=lambda step, steps, warmup: step / steps),
            "Your cosine runs over all steps, so after the warm-up it is part of the way down "
            "already, and the rate drops at the joint. Let it begin where the warm-up ends and end "
            "at the last step: (step − warmup) / (steps − 1 − warmup).",
        ),
        Misconception(
            "divided by all steps",
            _schedule(progress=lambda step, steps, warmup: (step - warmup) / steps),
            "Your cosine begins at the right place and is stretched over all steps, so the run ends "
            "before it is down. It has steps − 1 − warmup steps to fall.",
        ),
        Misconception(
            "brackets missing",
            _schedule(
                fall=lambda progress: math.cos(math.pi * progress),
                mix=lambda fall, peak, minimum: minimum + (peak - minimum) * 1 + fall / 2,
            ),
            "Brackets are missing: the whole of (1 + cos(…)) is multiplied by the difference and "
            "halved, not its two parts one by one.",
        ),
        Misconception(
            "halved before added",
            _schedule(fall=lambda progress: 1 + math.cos(math.pi * progress) / 2),
            "You halve the cosine alone, so your factor runs from 1.5 to 0.5. The bracket closes "
            "before the 2: (1 + cos(…)) / 2 runs from 1 to 0.",
        ),
        Misconception(
            "difference without brackets",
            _schedule(mix=lambda fall, peak, minimum: minimum + peak - minimum * fall),
            "Brackets are missing around the difference, so only `minimum` is multiplied by the "
            "cosine: minimum + (peak − minimum) · …",
        ),
        Misconception(
            "π left out",
            _schedule(fall=lambda progress: (1 + math.cos(progress)) / 2),
            "Half a turn is π: without it your cosine stops at 1 radian, far above the minimum. "
            "cos(π · progress).",
        ),
        Misconception(
            "degrees",
            _schedule(fall=lambda progress: (1 + math.cos(180 * progress)) / 2),
            "`math.cos` counts in radians, so half a turn is π and not 180. Your rate jumps up and "
            "down at random.",
        ),
        Misconception(
            "a whole turn",
            _schedule(fall=lambda progress: (1 + math.cos(2 * math.pi * progress)) / 2),
            "A whole cosine goes down and up again, so that training ends at the peak. Half a turn, "
            "from 0 to π, only goes down.",
        ),
        Misconception(
            "a quarter of a turn",
            _schedule(fall=lambda progress: math.cos(math.pi / 2 * progress)),
            "A quarter of a turn, from 0 to π/2, starts flat and ends steep. Half a turn is flat at "
            "both ends: (1 + cos(π · progress)) / 2.",
        ),
        Misconception(
            "cosine below zero",
            _schedule(fall=lambda progress: math.cos(math.pi * progress)),
            "A cosine runs from 1 to −1, so your rate falls below the minimum. Lift and halve it, "
            "(1 + cos(…)) / 2, and it runs from 1 to 0.",
        ),
        Misconception(
            "twice as high",
            _schedule(fall=lambda progress: 1 + math.cos(math.pi * progress)),
            "1 + cos(…) runs from 2 to 0, so your cosine begins above the peak. Halve it.",
        ),
        Misconception(
            "upside down",
            _schedule(fall=lambda progress: (1 - math.cos(math.pi * progress)) / 2),
            "With 1 − cos the rate drops to the minimum after the warm-up and climbs to the peak at "
            "the end. It has to fall: 1 + cos.",
        ),
        Misconception(
            "down to zero",
            _schedule(mix=lambda fall, peak, minimum: peak * fall),
            "Your rate falls to 0. It should end at `minimum`: minimum + (peak − minimum) · …",
        ),
        Misconception(
            "cut off at the minimum",
            _schedule(mix=lambda fall, peak, minimum: max(minimum, peak * fall)),
            "You let the cosine fall to 0 and cut it off at the minimum, which leaves a kink and a "
            "flat end. Stretch it between the two: minimum + (peak − minimum) · …",
        ),
        Misconception(
            "minimum on top",
            _schedule(mix=lambda fall, peak, minimum: minimum + peak * fall),
            "Minimum + peak · … begins at minimum + peak, above the peak. Only the difference may be "
            "scaled: (peak − minimum).",
        ),
        Misconception(
            "a straight line down",
            _schedule(fall=lambda progress: 1 - progress),
            "You go down on a straight line. That is a good schedule too (the recipe at the end of "
            "this lesson has it); asked for is half a cosine.",
        ),
        Misconception(
            "no warm-up",
            _schedule(
                rising=lambda step, warmup: False,
                progress=lambda step, steps, warmup: step / (steps - 1),
            ),
            "There is no warm-up: your first step has the full rate. While step < warmup, the rate "
            "climbs in a line.",
        ),
        Misconception(
            "warm-up from the minimum",
            lambda step, *, steps, warmup, peak, minimum: (
                minimum + (peak - minimum) * step / warmup
                if step < warmup
                else warmup_cosine(step, steps=steps, warmup=warmup, peak=peak, minimum=minimum)
            ),
            "Your line climbs from the minimum. Some programs do that; here it climbs from 0, of which "
            "step 0 has taken one stair already: peak · (step + 1) / (warmup + 1).",
        ),
        Misconception(
            "warm-up from the minimum, one stair up",
            lambda step, *, steps, warmup, peak, minimum: (
                minimum + (peak - minimum) * (step + 1) / (warmup + 1)
                if step < warmup
                else warmup_cosine(step, steps=steps, warmup=warmup, peak=peak, minimum=minimum)
            ),
            "Your line climbs from the minimum. Some programs do that; here it climbs from 0: "
            "peak · (step + 1) / (warmup + 1). The minimum belongs to the end alone.",
        ),
        Misconception(
            "the peak at once",
            _schedule(rise=lambda step, warmup: 1.0),
            "In your warm-up every step has the peak already, so that nothing warms up. Let the rate "
            "climb in a line: peak · (step + 1) / (warmup + 1).",
        ),
    ),
    hints=(
        "Two cases. While step < warmup, count stairs: step 0 is on the first of warmup + 1.",
        "After it, `progress = (step - warmup) / (steps - 1 - warmup)` runs from 0 to 1. What does "
        "(1 + cos(π · progress)) / 2 do meanwhile?",
        "That runs from 1 to 0. Stretch it: `minimum + (peak - minimum) * …`.",
    ),
    why="Both pieces meet at step `warmup` with the peak, and the last step, steps − 1, has the "
    "minimum. The library's own adds the cases in which there is nothing left to divide by.",
)


# evaluation


def _measure(answer, tokens, vocab_size, context_length, batch_size, seed):
    """The loss of a small model that was just trained, and what was seen on the way to it."""
    model = _Small(seed, context_length, vocab_size)
    model.train()
    sizes = () if batch_size == "the default" else (batch_size,)
    loss = answer(model, tokens % vocab_size, *sizes)
    trained, recorded, counts = zip(*model.passes, strict=True) if model.passes else ((), (), ())
    return {
        "dropout": "on in some passes" if any(trained) else "off",
        "gradients": "kept" if any(recorded) else "not kept",
        "characters predicted": min(sum(counts), len(tokens) - 1),  # padding is allowed
        "loss": loss,
    }


def _evaluation_cases():
    yield _text(47, 1), 5, 7, 3, 1  # 6 windows, and 4 characters more
    yield _text(61, 2), 3, 2, 7, 2  # 30 windows, the last two in a batch of their own
    yield _text(23, 3), 7, 5, 19, 3  # 4 windows in one batch, and 2 characters more
    yield _text(31, 4), 3, 7, "the default", 4


def _evaluation(*, train=False, gradients=False, add=None, finish=None):
    """A version of evaluate that adds up, or finishes, in another way."""

    def measure(model, tokens, batch_size=64):
        model.train(train)
        total, count = 0.0, 0
        with torch.set_grad_enabled(gradients):
            for inputs, targets in evaluation_windows(
                tokens, model.config.context_length, batch_size
            ):
                loss = next_token_loss(model(inputs), targets)
                total = total + (add(loss, targets) if add else loss.item() * targets.numel())
                count += 1
        return finish(total, count, tokens, batch_size) if finish else total / (len(tokens) - 1)

    return measure


def _mean_only(loss, targets):
    return loss.item()


def _by_batches(total, count, tokens, batch_size):
    return total / count


def _one_window(model, tokens, batch_size=64):
    model.eval()
    with torch.no_grad():
        return next_token_loss(model(tokens[None, :-1]), tokens[None, 1:]).item()


def _first_batch(model, tokens, batch_size=64):
    model.eval()
    with torch.no_grad():
        inputs, targets = next(evaluation_windows(tokens, model.config.context_length, batch_size))
        return next_token_loss(model(inputs), targets).item()


def _first_share(model, tokens, batch_size=64):
    inputs, _ = next(evaluation_windows(tokens, model.config.context_length, batch_size))
    return _first_batch(model, tokens, batch_size) * inputs.numel() / (len(tokens) - 1)


def _last_batch(model, tokens, batch_size=64):
    model.eval()
    with torch.no_grad():
        for inputs, targets in evaluation_windows(tokens, model.config.context_length, batch_size):
            loss = next_token_loss(model(inputs), targets)
    return loss.item()


def _sizes_swapped(model, tokens, batch_size=64):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for inputs, targets in evaluation_windows(tokens, batch_size, model.config.context_length):
            total += next_token_loss(model(inputs), targets).item() * targets.numel()
    return total / (len(tokens) - 1)


def _whole_windows(model, tokens, batch_size=64):
    length = model.config.context_length
    whole = (len(tokens) - 1) // length * length
    return evaluate(model, tokens[: whole + 1], batch_size)


EVALUATE = Exercise(
    id="10.evaluate",
    title="An honest number",
    stars=2,
    minutes=5,
    solution=evaluate,
    reference=trainer.evaluate,
    cases=_evaluation_cases,
    call=_measure,
    misconceptions=(
        Misconception(
            "mean of the batches' means",
            _evaluation(
                add=_mean_only,
                finish=_by_batches,
            ),
            "You average the batches' means. The last batch is smaller, so its characters count "
            "for more than the others'. Multiply each mean by `targets.numel()` and divide the sum "
            "by the number of all targets.",
        ),
        Misconception(
            "mean of means, gradients kept",
            _evaluation(gradients=True, add=_mean_only, finish=_by_batches),
            "Two things. You average the batches' means, though the last batch is smaller: multiply "
            "each by `targets.numel()` and divide by the number of all targets. And `with "
            "torch.no_grad():` is missing around the loop, so every pass is recorded for nothing.",
        ),
        Misconception(
            "mean of means, nothing switched off",
            _evaluation(train=True, gradients=True, add=_mean_only, finish=_by_batches),
            "Three things. `model.eval()` is missing, so dropout disturbs the predictions; `with "
            "torch.no_grad():` is missing, so every pass is recorded for nothing; and the last batch "
            "is smaller than the others, so its mean must not count as much: multiply each by "
            "`targets.numel()` and divide by the number of all targets.",
        ),
        Misconception(
            "means added, divided by characters",
            _evaluation(add=_mean_only),
            "You add up the batches' *means* and divide by the number of characters, so the number "
            "is far too small. Make a sum of each mean first: `loss.item() * targets.numel()`.",
        ),
        Misconception(
            "windows above, characters below",
            _evaluation(add=lambda loss, targets: loss.item() * len(targets)),
            "`len(targets)` is the number of windows in the batch, and below the line you count "
            "characters. `targets.numel()` counts them above too.",
        ),
        Misconception(
            "the whole text as one window",
            _one_window,
            "You give the model the whole text at once, and it takes context_length characters. "
            "`evaluation_windows` cuts the text for it.",
        ),
        Misconception(
            "weighted by windows",
            _evaluation(
                add=lambda loss, targets: torch.tensor([loss.item() * len(targets), len(targets)]),
                finish=lambda total, count, tokens, batch_size: (total[0] / total[1]).item(),
            ),
            "You weight each batch by its number of windows. The last window may be shorter than "
            "the others, so count characters: `targets.numel()`.",
        ),
        Misconception(
            "every batch taken for a full one",
            _evaluation(
                add=lambda loss, targets: loss.item(),
                finish=lambda total, count, tokens, batch_size: total * batch_size / len(tokens),
            ),
            "You multiply by `batch_size`, which counts windows, and not even all of a batch need be "
            "there. `targets.numel()` is the number of characters that were really predicted.",
        ),
        Misconception(
            "the first character counted",
            _evaluation(finish=lambda total, count, tokens, batch_size: total / len(tokens)),
            "You divide by len(tokens). The first character is nobody's target, so there are "
            "len(tokens) − 1 predictions.",
        ),
        Misconception(
            "not divided",
            _evaluation(finish=lambda total, count, tokens, batch_size: total),
            "That is the sum over all characters. Divide by their number, len(tokens) − 1.",
        ),
        Misconception(
            "dropout left on",
            _evaluation(train=True),
            "Your model is still in training mode, so dropout disturbs each prediction and the loss "
            "comes out wrong, and different every time. Begin with `model.eval()`.",
        ),
        Misconception(
            "gradients kept",
            _evaluation(gradients=True),
            "The number is right, but the passes were recorded for a `backward()` that never comes, "
            "which costs memory and time. Put `with torch.no_grad():` around the loop.",
        ),
        Misconception(
            "dropout and gradients left on",
            _evaluation(train=True, gradients=True),
            "Two things are missing before the loop: `model.eval()`, without which dropout "
            "disturbs the predictions, and `with torch.no_grad():`, without which every pass is "
            "recorded for a `backward()` that never comes.",
        ),
        Misconception(
            "the first batch only",
            _first_batch,
            "You return after the first batch: the `return` belongs behind the loop, not into it.",
        ),
        Misconception(
            "divided after the first batch",
            _first_share,
            "You return after the first batch: the `return` belongs behind the loop, not into it. "
            "Two blanks decide: it stands as far to the left as `with`.",
        ),
        Misconception(
            "the last batch only",
            _last_batch,
            "The loss of each batch takes the place of the one before, so the last one alone is "
            "left. Add them up: `total += loss.item() * targets.numel()`.",
        ),
        Misconception(
            "context length and batch size swapped",
            _sizes_swapped,
            "`evaluation_windows(tokens, context_length, batch_size)`: you give the two numbers the "
            "other way round.",
        ),
        Misconception(
            "perplexity",
            _evaluation(
                finish=lambda total, count, tokens, size: math.exp(total / (len(tokens) - 1))
            ),
            "e to the loss is the *perplexity*: among how many characters the model hesitates, as "
            "it were. Asked for is the loss itself, in nats.",
        ),
        Misconception(
            "bits",
            _evaluation(
                finish=lambda total, count, tokens, size: total / (len(tokens) - 1) / math.log(2)
            ),
            "That is the loss in bits. Asked for are nats, as `cross_entropy` gives them: do not "
            "divide by ln 2.",
        ),
        Misconception(
            "mean of means, dropout left on",
            _evaluation(train=True, add=_mean_only, finish=_by_batches),
            "Two things. `model.eval()` is missing, so dropout disturbs the predictions. And you "
            "average the batches' means, though the last batch is smaller: multiply each by "
            "`targets.numel()` and divide by the number of all targets.",
        ),
        Misconception(
            "the end left out",
            _whole_windows,
            "You leave out what remains after the last whole window. `evaluation_windows` gives it as "
            "a shorter last one.",
        ),
        Misconception(
            "a tensor",
            _evaluation(
                add=lambda loss, targets: loss * targets.numel(),
            ),
            "The value is right, as a tensor. Take the number out of each loss with `loss.item()`.",
        ),
    ),
    hints=(
        "Before the loop: which mode must the model be in, and who needs gradients here?",
        "`next_token_loss` gives the *mean* of a batch. From which number do you get back to the "
        "sum?",
        "`total += loss.item() * targets.numel()` in the loop, `return total / (len(tokens) - 1)` "
        "after it.",
    ),
    why="Every character but the first is predicted once and counts once, whatever the batches: the "
    "number depends on the model and the text alone, so two runs can be compared by it.",
)

EXERCISES = (WINDOWS, STEP, SCHEDULE, EVALUATE)

QUIZ = (
    Question(
        "A new GPT over 63 characters has a loss of 9.1 at its very first step. What do you do?",
        (
            Choice(
                "Train on: a loss falls, that is what training is for.",
                False,
                "It would fall. But the first steps, and perhaps the run, go into undoing a bad start.",
            ),
            Choice(
                "Look at the initialisation first: an even guess costs ln 63 ≈ 4.14.",
                True,
                "Far above ln V, the newborn is sure of something it cannot know, usually because "
                "its logits are too large.",
            ),
            Choice(
                "Lower the learning rate.",
                False,
                "The first loss is measured before the first update. No rate has played a part yet.",
            ),
        ),
    ),
    Question(
        "The training loss goes on falling; the validation loss has been rising since step 60.",
        (
            Choice(
                "The learning rate is too high.",
                False,
                "Then the training loss would suffer as well; here it falls.",
            ),
            Choice(
                "Train longer, until the validation loss follows.",
                False,
                "It will not: the model has begun to learn the training text by heart.",
            ),
            Choice(
                "Keep the weights of step 60, and look for more text or a smaller model.",
                True,
                "From there on the model learns what is true of its training text only. Dropout and "
                "fewer steps are remedies too.",
            ),
        ),
    ),
    Question(
        "The first gradient of one parameter is 1000, that of another 0.001. How far does AdamW's "
        "first step move them (weight decay aside)?",
        (
            Choice(
                "Equally far, by the learning rate.",
                True,
                "Gradient over its own size is ±1. A whole step on the word of one batch is a lot, "
                "and warm-up makes it a small one.",
            ),
            Choice(
                "The first a million times as far.",
                False,
                "So would plain gradient descent. AdamW divides by the root of the mean squared "
                "gradient, which after one step is that gradient's own size.",
            ),
            Choice(
                "The first is clipped, the second is not.",
                False,
                "Clipping shortens the whole gradient by one factor, and AdamW divides such a factor "
                "out again in its first step.",
            ),
        ),
    ),
    Question(
        "Two recipes, each measured on one random batch of the validation split: 2.41 and 2.44.",
        (
            Choice(
                "Measure both on the whole split.",
                True,
                "That takes away the noise of the batch: both are then measured on the same "
                "characters. What is left is the noise between seeds.",
            ),
            Choice(
                "The first is better.",
                False,
                "In this lesson one batch scattered by about 0.07 around the truth: 0.03 says nothing.",
            ),
            Choice(
                "Measure both on the training text, of which there is more.",
                False,
                "More text, but the wrong one: that is where a model that learns by heart looks best.",
            ),
        ),
    ),
    Question(
        "You stopped a run and kept the model's weights, nothing else. What is lost?",
        (
            Choice(
                "The place in the schedule.",
                True,
                "Without the step number the warm-up begins anew, in the middle of the run.",
            ),
            Choice(
                "The state of the random generators.",
                True,
                "Other windows are drawn and other numbers dropped than would have been.",
            ),
            Choice(
                "Nothing: the weights are the model.",
                False,
                "They are enough to write with. To go on training as if nothing had happened takes more.",
            ),
            Choice(
                "AdamW's running averages.",
                True,
                "They start again at zero, so that the next steps are other ones.",
            ),
        ),
    ),
)
