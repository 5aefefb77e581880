"""Exercises and quiz of lesson 16: route, mix, balance, make room; and a head's story, measured."""

from dataclasses import replace

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question, value
from course_lib.lens.story import Story, heard
from course_lib.lens.verse import counterparts, in_closing_line


def route(scores, k):
    """The k best experts of each token, the best first, and their gates: (token, k) each.

    scores: (token, expert). k = 1: the gate is the expert's probability among all experts.
    k > 1: the gates are the softmax of the k chosen scores.
    """
    best, chosen = scores.topk(k, dim=-1)
    if k == 1:
        return chosen, scores.softmax(dim=-1).gather(-1, chosen)
    return chosen, best.softmax(dim=-1)


def mixture(x, chosen, gates, experts):
    """Each token through its experts: the sum of gate · expert(token), (token, d_model).

    x: (token, d_model); chosen, gates: (token, k). experts: a list; experts[3](some of x) is what
    expert 3 makes of these tokens. Each is to work on its own tokens only.
    """
    output = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, choice = (chosen == number).nonzero(as_tuple=True)
        output = output.index_add(0, token, gates[token, choice, None] * expert(x[token]))
    return output


def balance_loss(scores, k):
    """E · Σ load · P for scores (token, expert), of which each token chooses the k best.

    load: each expert's share of all choices, which sums to 1. P: its mean probability.
    """
    n_experts = scores.shape[-1]
    chosen = scores.topk(k, dim=-1).indices
    load = chosen.flatten().bincount(minlength=n_experts) / chosen.numel()
    mean_probability = scores.softmax(dim=-1).mean(dim=0)
    return n_experts * (load * mean_probability).sum()


def has_room(chosen, n_experts, capacity):
    """Which choices (token, k) find room, bool: an expert takes `capacity` of them and no more.

    First come, first served, token after token. (A token's own choices are different experts.)
    """
    taken = [0] * n_experts
    kept = torch.zeros_like(chosen, dtype=torch.bool)
    for token, experts in enumerate(chosen.tolist()):
        for choice, expert in enumerate(experts):
            if taken[expert] < capacity:
                taken[expert] += 1
                kept[token, choice] = True
    return kept


def my_story():
    """A Story about one head of a trained model, made of what you measured."""
    return Story(
        run="tang",
        corpus="tang",
        layer=2,
        head=0,
        places=counterparts,
        predictions=in_closing_line,
        matters=True,
        text="""Head 0 of layer 2 waits for the second line of a couplet. There, before each
        character, it looks to the one that stands in the same place of the first line, as a poet
        does who matches sky with earth. In first lines, which have nothing to match, it reads
        elsewhere. Without it the characters of second lines are harder to predict, and those of
        first lines hardly are. That it looks for a match of meaning is not shown: it may go by the
        place alone.""",
    )


# How answers are run


class _Expert:
    """A layer that counts the tokens it works on."""

    def __init__(self, matrix):
        self.matrix, self.worked_on = matrix, 0

    def __call__(self, x):
        self.worked_on += x.reshape(-1, x.shape[-1]).shape[0]
        return torch.tanh(x @ self.matrix)


def _mix(answer, x, chosen, gates, matrices):
    experts = [_Expert(matrix) for matrix in matrices]
    output = answer(x, chosen, gates, experts)
    return {
        "output": output,
        "how many tokens each expert worked on": [expert.worked_on for expert in experts],
    }


def _mix_given(x, chosen, gates, matrices):
    return f"x {tuple(x.shape)}, chosen {chosen.tolist()}, gates likewise, {len(matrices)} experts"


def _tell(answer, part):
    """The rubric's lines: "met", or what to do."""
    story = answer()
    if not isinstance(story, Story):
        return f"a {type(story).__name__}, and no Story"
    return {line.name: "met" if line.met else line.remedy for line in heard(story, part)}


def _told_on(part):
    return f"the {part} part of the story's corpus"


# Cases


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _route_cases():
    yield _random(7, 5), 2
    yield _random(5, 3, seed=1), 1
    yield _random(11, 7, seed=2), 3
    yield _random(3, 5, seed=3).requires_grad_(), 1
    yield _random(5, 7, seed=4).requires_grad_(), 2


def _mix_cases():
    for tokens, experts, d_model, k, seed in ((7, 5, 3, 2, 0), (11, 3, 5, 1, 1), (5, 7, 2, 3, 2)):
        chosen, gates = route(_random(tokens, experts, seed=seed), k)
        matrices = list(_random(experts, d_model, d_model, seed=seed + 10))
        x = _random(tokens, d_model, seed=seed + 20)
        if seed == 2:
            x, gates = x.requires_grad_(), gates.requires_grad_()
        yield x, chosen, gates, matrices
    one = torch.tensor([[1], [1], [1]])  # an expert without tokens
    yield _random(3, 2), one, torch.tensor([[0.5], [1.0], [0.25]]), list(_random(2, 2, 2))


def _balance_cases():
    yield _random(7, 5), 1
    yield _random(11, 3, seed=1), 2
    yield 3 * _random(13, 7, seed=2), 3
    yield torch.tensor([[9.0, 0, 0, 0, 0]]).expand(7, 5).clone(), 1
    yield _random(5, 7, seed=3).requires_grad_(), 1
    yield _random(7, 3, seed=4).requires_grad_(), 2


def _room_cases():
    yield torch.tensor([[0], [0], [1], [0], [1]]), 3, 2
    yield torch.tensor([[0, 1], [0, 1], [0, 2], [1, 2], [2, 0]]), 3, 2
    for tokens, experts, k, capacity, seed in ((11, 5, 2, 3, 0), (7, 3, 1, 1, 1), (13, 7, 3, 5, 2)):
        yield route(_random(tokens, experts, seed=seed), k)[0], experts, capacity


# Wrong ways


def _rescaled_always(scores, k):
    best, chosen = scores.topk(k, dim=-1)
    return chosen, best.softmax(dim=-1)


def _never_rescaled(scores, k):
    chosen = scores.topk(k, dim=-1).indices
    return chosen, scores.softmax(dim=-1).gather(-1, chosen)


def _raw_scores(scores, k):
    best, chosen = scores.topk(k, dim=-1)
    return chosen, best


def _worst(scores, k):
    return route(-scores, k)


def _worst_with_their_gates(scores, k):
    best, chosen = scores.topk(k, dim=-1, largest=False)
    if k == 1:
        return chosen, scores.softmax(dim=-1).gather(-1, chosen)
    return chosen, best.softmax(dim=-1)


def _worst_first(scores, k):
    chosen, gates = route(scores, k)
    return chosen.flip(-1), gates.flip(-1)


def _over_tokens(scores, k):
    best, chosen = scores.topk(k, dim=-1)
    if k == 1:
        return chosen, scores.softmax(dim=0).gather(-1, chosen)
    return chosen, best.softmax(dim=0)


def _softmax_twice(scores, k):
    best, chosen = scores.softmax(dim=-1).topk(k, dim=-1)
    return chosen, best if k == 1 else best.softmax(dim=-1)


def _divided_scores(scores, k):
    best, chosen = scores.topk(k, dim=-1)
    return chosen, route(scores, 1)[1] if k == 1 else best / best.sum(dim=-1, keepdim=True)


def _sorted_by_number(scores, k):
    chosen, gates = route(scores, k)
    chosen, order = chosen.sort(dim=-1)
    return chosen, gates.gather(-1, order)


def _dense(scores, k):
    chosen, gates = route(scores, k)
    return chosen, torch.zeros_like(scores).scatter(-1, chosen, gates)


ROUTE = Exercise(
    id="16.route",
    title="Which experts, and with which gates",
    stars=2,
    minutes=5,
    solution=route,
    cases=_route_cases,
    misconceptions=(
        Misconception(
            "a softmax over one",
            _rescaled_always,
            "Right for k > 1. For k = 1 your gates are all 1, since a softmax over *one* score is "
            "1 whatever the score. Then the router has no influence on the output but by its "
            "choice, which has no gradient, and it never learns. So with one expert the gate is "
            "its probability among **all**.",
        ),
        Misconception(
            "never rescaled",
            _never_rescaled,
            "These are the chosen experts' probabilities among all experts. For k = 1 that is "
            "what is asked. For k > 1 they should sum to 1 over the k chosen: take the softmax of "
            "the k chosen scores (or divide by their sum, which is the same).",
        ),
        Misconception(
            "scores as gates",
            _raw_scores,
            "The choice is right, and your gates are the scores themselves, which may be "
            "negative. Gates are probabilities.",
        ),
        Misconception(
            "the worst experts",
            _worst,
            "You route each token to the experts with the *lowest* scores, as if the scores had "
            "the other sign.",
        ),
        Misconception(
            "topk of the smallest",
            _worst_with_their_gates,
            "`largest=False` finds the experts with the *lowest* scores. A high score means: this "
            "expert, please.",
        ),
        Misconception(
            "the best last",
            _worst_first,
            "The right experts with the right gates, in ascending order, as `argsort` gives them. "
            "Asked for is the best first, so that `chosen[:, 0]` is each token's favourite.",
        ),
        Misconception(
            "a softmax over the tokens",
            _over_tokens,
            "Your softmax runs over the *tokens* (`dim=0`), so tokens compete for an expert. Each "
            "token divides one unit among experts: `dim=-1`.",
        ),
        Misconception(
            "softmax of the softmax",
            _softmax_twice,
            "You take the softmax of probabilities. They lie between 0 and 1, so that the second "
            "softmax makes them nearly alike. Take the softmax of the chosen **scores**; or "
            "divide the chosen probabilities by their sum.",
        ),
        Misconception(
            "a gate for every expert",
            _dense,
            "Your gates have a column for *each* expert, with zeros for the others. The numbers "
            "are right; here they are wanted as (token, k), beside `chosen`.",
        ),
        Misconception(
            "scores divided by their sum",
            _divided_scores,
            "You divide the chosen *scores* by their sum. Scores may be negative, and then a gate "
            "is negative or larger than 1. The softmax takes exponentials first.",
        ),
        Misconception(
            "sorted by number",
            _sorted_by_number,
            "The right experts with the right gates, but in the order of their numbers. Asked for "
            "is the best first, as `topk` gives them.",
        ),
        Misconception(
            "topk as it is",
            lambda scores, k: tuple(scores.topk(k, dim=-1)),
            "`topk` gives two things, values and indices, in this order. The indices are "
            "`chosen`, and come first here; the values are scores, which are not gates yet.",
        ),
        Misconception(
            "gates first",
            lambda scores, k: route(scores, k)[::-1],
            "Right, in the other order: first `chosen`, then the gates.",
        ),
    ),
    hints=(
        "`scores.topk(k, dim=-1)` gives values and indices, the best first.",
        "For k > 1 take the softmax of these values. For k = 1 it would be 1: take the softmax "
        "over all experts, and of it what was chosen.",
        "`probabilities.gather(-1, chosen)` picks for each token its chosen columns.",
    ),
    why="The choice itself has no gradient: a score can grow a little, and the same expert is "
    "chosen. The router learns by the **gates** alone. If using an expert more would have lowered "
    "the loss, its gate is pulled up, and with it the score. Hence the odd convention for one "
    "expert: its gate has to depend on its score.",
)


def _all_on_all(x, chosen, gates, experts):
    dense = torch.zeros(len(x), len(experts)).scatter(-1, chosen, gates)
    return sum(dense[:, number, None] * expert(x) for number, expert in enumerate(experts))


def _no_gates(x, chosen, gates, experts):
    return mixture(x, chosen, torch.ones_like(gates), experts)


def _mean_of_k(x, chosen, gates, experts):
    return mixture(x, chosen, gates / chosen.shape[-1], experts)


def _last_wins(x, chosen, gates, experts):
    output = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, choice = (chosen == number).nonzero(as_tuple=True)
        output = output.index_copy(0, token, gates[token, choice, None] * expert(x[token]))
    return output


def _first_gate(x, chosen, gates, experts):
    return mixture(x, chosen, gates[:, :1].expand_as(gates), experts)


def _first_choice_only(x, chosen, gates, experts):
    return mixture(x, chosen[:, :1], gates[:, :1], experts)


def _with_the_stream(x, chosen, gates, experts):
    return x + mixture(x, chosen, gates, experts)


def _by_choice(x, chosen, gates, experts):
    slots = torch.arange(chosen.shape[-1]).expand_as(chosen) % len(experts)
    return mixture(x, slots, gates, experts)


def _all_gates_of_the_token(x, chosen, gates, experts):
    return mixture(x, chosen, gates.sum(dim=-1, keepdim=True).expand_as(gates), experts)


def _plain_mean(x, chosen, gates, experts):
    return mixture(x, chosen, torch.full_like(gates, 1 / gates.shape[-1]), experts)


def _thrown_away(x, chosen, gates, experts):
    mixture(x, chosen, gates, experts)
    return torch.zeros_like(x)


def _no_axis_for_gates(x, chosen, gates, experts):
    output = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, choice = (chosen == number).nonzero(as_tuple=True)
        output = output.index_add(0, token, gates[token, choice] * expert(x[token]))
    return output


def _gated_before(x, chosen, gates, experts):
    output = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        token, choice = (chosen == number).nonzero(as_tuple=True)
        output = output.index_add(0, token, expert(gates[token, choice, None] * x[token]))
    return output


MIX = Exercise(
    id="16.mix",
    title="Each token through its experts",
    stars=3,
    minutes=7,
    solution=mixture,
    cases=_mix_cases,
    call=_mix,
    shown=_mix_given,
    misconceptions=(
        Misconception(
            "everyone works on everything",
            _all_on_all,
            "The numbers are right, and nothing is saved: each expert worked on *all* tokens, and "
            "most of its work was multiplied by a gate of 0. Give an expert only the rows of `x` "
            "that chose it: `expert(x[token])`.",
        ),
        Misconception(
            "no gates",
            _no_gates,
            "You add up the experts' outputs without their gates. Then the router's scores have "
            "no part in the output, and it cannot learn.",
        ),
        Misconception(
            "a mean over the choices",
            _mean_of_k,
            "You divide by k as well. The gates are the weights of the sum already; for k > 1 "
            "they sum to 1.",
        ),
        Misconception(
            "the last expert wins",
            _last_wins,
            "A token with several experts keeps only what the **last** of them wrote: you assign "
            "where you should add (`+=`, or `index_add`).",
        ),
        Misconception(
            "one gate for all choices",
            _first_gate,
            "You multiply all experts of a token by its *first* gate. Gate j belongs to choice j: "
            "`gates[token, choice]`.",
        ),
        Misconception(
            "the first choice only",
            _first_choice_only,
            "Only the first choice of each token is followed. `(chosen == "
            "number).nonzero(as_tuple=True)` finds the tokens that chose an expert, *and* as "
            "which choice.",
        ),
        Misconception(
            "the stream added",
            _with_the_stream,
            "You add x itself. The block does that (lesson 08); this layer gives only what is to "
            "be added.",
        ),
        Misconception(
            "choice taken for number",
            _by_choice,
            "You ask expert 0 for first choices, expert 1 for second ones. `chosen[t, j]` is the "
            "*number* of the expert: `experts[chosen[t, j]]`.",
        ),
        Misconception(
            "all gates of the token",
            _all_gates_of_the_token,
            "You multiply each expert's output by *all* gates of the token, added up. Each choice "
            "has one gate: `gates[token, choice]`.",
        ),
        Misconception(
            "a plain mean",
            _plain_mean,
            "You take the mean of what the chosen experts give, without the gates. Then the best "
            "choice counts no more than the last, and the router cannot learn.",
        ),
        Misconception(
            "the sum is thrown away",
            _thrown_away,
            "Your output is 0. `output.index_add(…)` leaves `output` as it is and *returns* the "
            "sum: `output = output.index_add(…)`.",
        ),
        Misconception(
            "gates without an axis of their own",
            _no_axis_for_gates,
            "`gates[token, choice]` has one axis, (token,), and what the expert gives has two, "
            "(token, d_model): `*` holds the gates against the wrong axis. `gates[token, choice, "
            "None]` is (token, 1), a gate for each row.",
        ),
        Misconception(
            "gated before the expert",
            _gated_before,
            "You multiply what the expert is *given*. It bends its input, so that is not the same "
            "as multiplying what it gives back.",
        ),
    ),
    hints=(
        "Go through the experts, not through the tokens. Which tokens chose expert 3, and as "
        "which choice?",
        "`token, choice = (chosen == number).nonzero(as_tuple=True)`; the expert works on "
        "`x[token]`.",
        "Multiply by `gates[token, choice, None]` and add the rows where they belong: `output = "
        "output.index_add(0, token, …)`.",
    ),
    why="A loop over experts is a loop over a few matrix products, each with all the tokens of "
    "one expert. An expert without tokens is called with none of them, and adds nothing.",
)


def _without_e(scores, k):
    return balance_loss(scores, k) / scores.shape[-1]


def _soft_load(scores, k):
    share = scores.softmax(dim=-1).mean(dim=0)
    return scores.shape[-1] * share.square().sum()


def _hard_only(scores, k):
    chosen = scores.topk(k, dim=-1).indices
    load = chosen.flatten().bincount(minlength=scores.shape[-1]) / chosen.numel()
    return scores.shape[-1] * load.square().sum() + 0 * scores.sum()


def _sums_to_k(scores, k):
    return k * balance_loss(scores, k)


def _first_choices(scores, k):
    load = scores.argmax(dim=-1).bincount(minlength=scores.shape[-1]) / len(scores)
    return scores.shape[-1] * (load * scores.softmax(dim=-1).mean(dim=0)).sum()


def _counts(scores, k):
    counts = scores.topk(k, dim=-1).indices.flatten().bincount(minlength=scores.shape[-1])
    return scores.shape[-1] * (counts * scores.softmax(dim=-1).mean(dim=0)).sum()


def _summed_probabilities(scores, k):
    return balance_loss(scores, k) * len(scores)


def _each(scores, k):
    n_experts = scores.shape[-1]
    chosen = scores.topk(k, dim=-1).indices
    load = chosen.flatten().bincount(minlength=n_experts) / chosen.numel()
    return n_experts * load * scores.softmax(dim=-1).mean(dim=0)


def _raw_mean(scores, k):
    n_experts = scores.shape[-1]
    chosen = scores.topk(k, dim=-1).indices
    load = chosen.flatten().bincount(minlength=n_experts) / chosen.numel()
    return n_experts * (load * scores.mean(dim=0)).sum()


def _over_the_tokens(scores, k):
    n_experts = scores.shape[-1]
    chosen = scores.topk(k, dim=-1).indices
    load = chosen.flatten().bincount(minlength=n_experts) / chosen.numel()
    return n_experts * (load * scores.softmax(dim=0).mean(dim=0)).sum()


def _gates_for_probabilities(scores, k):
    n_experts = scores.shape[-1]
    best, chosen = scores.topk(k, dim=-1)
    load = chosen.flatten().bincount(minlength=n_experts) / chosen.numel()
    gates = torch.zeros_like(scores).scatter(-1, chosen, best.softmax(dim=-1))
    return n_experts * (load * gates.mean(dim=0)).sum()


def _tokens_for_experts(scores, k):
    return balance_loss(scores, k) * len(scores) / scores.shape[-1]


def _short_count(scores, k):
    chosen = scores.topk(k, dim=-1).indices
    load = chosen.flatten().bincount() / chosen.numel()
    return scores.shape[-1] * (load * scores.softmax(dim=-1).mean(dim=0)).sum()


def _one_too_many(chosen, n_experts, capacity):
    return has_room(chosen, n_experts, capacity + 1)


def _choices_in_rounds(chosen, n_experts, capacity):
    order = has_room(chosen.T.reshape(-1, 1), n_experts, capacity)
    return order.view(chosen.T.shape).T.contiguous()


def _each_round_alone(chosen, n_experts, capacity):
    columns = [has_room(column[:, None], n_experts, capacity) for column in chosen.T]
    return torch.cat(columns, dim=1)


def _last_come(chosen, n_experts, capacity):
    return has_room(chosen.flip(0, 1), n_experts, capacity).flip(0, 1)


def _for_all_together(chosen, n_experts, capacity):
    places = torch.arange(chosen.numel()).view(chosen.shape)
    return places < capacity * n_experts


def _whole_tokens(chosen, n_experts, capacity):
    kept = has_room(chosen, n_experts, capacity)
    return kept.all(dim=-1, keepdim=True).expand_as(kept).clone()


def _first_tokens(chosen, n_experts, capacity):
    return (torch.arange(len(chosen)) < capacity)[:, None].expand_as(chosen).clone()


def _one_choice_a_token(chosen, n_experts, capacity):
    taken = [0] * n_experts
    kept = torch.zeros_like(chosen, dtype=torch.bool)
    for token, experts in enumerate(chosen.tolist()):
        for choice, expert in enumerate(experts):
            if taken[expert] < capacity:
                taken[expert] += 1
                kept[token, choice] = True
                break
    return kept


def _counts_anew(chosen, n_experts, capacity):
    return torch.full_like(chosen, capacity > 0, dtype=torch.bool)


def _total_per_expert(chosen, n_experts, capacity):
    counts = chosen.flatten().bincount(minlength=n_experts)
    return (counts <= capacity)[chosen]


TOTAL = 46_702_792_704
EXPERT = 3 * 4_096 * 14_336

ACTIVE = Exercise(
    id="16.active",
    title="Eight experts, two of them chosen",
    stars=1,
    minutes=4,
    solution=value("answer = 46_702_792_704 - 32 * (8 - 2) * 3 * 4_096 * 14_336"),
    misconceptions=(
        Misconception(
            "two eighths of all",
            TOTAL * 2 // 8,
            "You took 2/8 of *everything*. Only experts are chosen: attention, norms, routers, "
            "embeddings and head are met by each token.",
        ),
        Misconception(
            "one layer",
            TOTAL - 6 * EXPERT,
            "You took six idle experts away, of *one* layer. There are 32 layers, with six idle "
            "experts each.",
        ),
        Misconception(
            "two matrices an expert",
            TOTAL - 32 * 6 * 2 * 4_096 * 14_336,
            "You gave an expert two matrices. These experts are SwiGLU layers, with three: gate, "
            "hidden, output (lesson 08).",
        ),
        Misconception(
            "two experts taken away",
            TOTAL - 32 * 2 * EXPERT,
            "You took away the two that are chosen. The six others are those that a token does "
            "not meet.",
        ),
        Misconception(
            "seven taken away",
            TOTAL - 32 * 7 * EXPERT,
            "You left one expert in each layer. Each token meets two.",
        ),
        Misconception(
            "the chosen experts alone",
            32 * 2 * EXPERT,
            "That is what the chosen experts have. A token also meets attention, norms, routers, "
            "embeddings and head.",
        ),
        Misconception(
            "the idle ones",
            32 * 6 * EXPERT,
            "That is what a token does *not* meet. Take it from the total.",
        ),
        Misconception(
            "the feed-forward layers alone",
            32 * (2 * EXPERT + 8 * 4_096),
            "You took 32 times what a token meets of a layer's router and experts. It also meets "
            "the attention of each layer, and embedding, head and norms.",
        ),
        Misconception(
            "embedding, head and norms forgotten",
            32 * (2 * EXPERT + 8 * 4_096 + 41_943_040),
            "You added up the 32 layers' attention, routers and experts. Left out are embedding, "
            "head and norms. Shorter: take the idle experts from the total.",
        ),
        Misconception(
            "rounded",
            12_900_000_000,
            "Rounded, that is right. Asked for is the exact count, as the total is given.",
        ),
        Misconception(
            "thirteen billion",
            13_000_000_000,
            "So the paper says, rounded. Count them exactly: the total, less the experts that a "
            "token does not meet.",
        ),
        Misconception(
            "twice seven billion",
            14_000_000_000,
            "Two times seven billion would hold if the “7B” were experts alone. But attention, "
            "embedding and head are in each of these seven, and are met once.",
        ),
        Misconception(
            "eight times seven billion",
            56_000_000_000,
            "“8x7B” suggests 56 billion, but the eight share everything except their feed-forward "
            "layers: the total is 46.7 billion, and what one token meets is less.",
        ),
    ),
    hints=(
        "How many numbers has one expert? Three matrices of 4,096 × 14,336.",
        "In each of the 32 layers six experts are not met. Take these from the total.",
    ),
    why="One expert has 3 · 4,096 · 14,336 = 176,160,768 parameters; 32 layers with six idle ones "
    "leave 12.9 billion of 46.7. That is the paper's “13B active”.",
)

BALANCE = Exercise(
    id="16.balance",
    title="The balancing loss",
    stars=2,
    minutes=6,
    solution=balance_loss,
    cases=_balance_cases,
    misconceptions=(
        Misconception(
            "without E",
            _without_e,
            "The sum is right; it is not multiplied by the number of experts. With it, balance is "
            "1 however many experts there are. (A mean in place of the sum divides by E as well.)",
        ),
        Misconception(
            "probabilities alone",
            _soft_load,
            "You multiply the mean probability by itself. What has to be evened out is who "
            "*works*: the load is counted from the choices. A router that gives one expert 0.26 "
            "and three others 0.25, 0.25 and 0.24 looks balanced to you, and sends every token to "
            "one.",
        ),
        Misconception(
            "choices alone",
            _hard_only,
            "You multiply the load by itself. Counting has no gradient, so nobody would learn "
            "from this loss. One of the two factors has to be the mean *probability*.",
        ),
        Misconception(
            "a load that sums to k",
            _sums_to_k,
            "Your load is a share of the *tokens*: with k choices a token it sums to k, and "
            "balance would be k. Divide by the number of choices, `chosen.numel()`.",
        ),
        Misconception(
            "first choices only",
            _first_choices,
            "You count each token's best expert only. All k chosen experts have to work: count "
            "all of `topk(k)`.",
        ),
        Misconception(
            "counts in place of shares",
            _counts,
            "Your load counts choices, and so grows with the batch. A share is wanted: divide by "
            "the number of choices.",
        ),
        Misconception(
            "probabilities summed over tokens",
            _summed_probabilities,
            "You add the probabilities up over the tokens. P is their *mean* over the tokens.",
        ),
        Misconception(
            "one number for each expert",
            _each,
            "That is each expert's part. The loss is their sum, one number.",
        ),
        Misconception(
            "scores for probabilities",
            _raw_mean,
            "You take the mean of the *scores*. P is the mean of the probabilities: the softmax "
            "over the experts first.",
        ),
        Misconception(
            "a softmax over the tokens",
            _over_the_tokens,
            "Your softmax runs over the tokens (`dim=0`). Each token divides one unit of "
            "probability among the *experts*: `dim=-1`.",
        ),
        Misconception(
            "gates for probabilities",
            _gates_for_probabilities,
            "Your P is the mean of the *gates*, in which experts that were not chosen count 0. P "
            "is the mean probability, the softmax over **all** experts: only so does a dead "
            "expert get a gradient that could bring it back.",
        ),
        Misconception(
            "tokens for experts",
            _tokens_for_experts,
            "You multiply by `len(scores)`, the number of tokens. E is the number of *experts*, "
            "`scores.shape[-1]`.",
        ),
        Misconception(
            "the last experts are forgotten",
            _short_count,
            "`bincount` makes as many counts as the largest number that it meets. If nobody chose "
            "the last expert, its count is missing: `bincount(minlength=n_experts)`.",
        ),
    ),
    hints=(
        "Three steps: who is chosen how often, as a share; how probable each is on average; the "
        "sum of products, times E.",
        "`chosen.flatten().bincount(minlength=n_experts)` counts. Divide by how many choices "
        "there are.",
        "P is `scores.softmax(dim=-1).mean(dim=0)`.",
    ),
    why="The product pulls down the probability of those that have much load, and hardly touches "
    "the others. The load itself is a count and has no gradient; the probability carries it. "
    "Where all is even, load = P = 1/E, and E · E · 1/E² = 1.",
)

ROOM = Exercise(
    id="16.capacity",
    title="First come, first served",
    stars=2,
    minutes=5,
    solution=has_room,
    cases=_room_cases,
    misconceptions=(
        Misconception(
            "one too many",
            _one_too_many,
            "Your experts take one more than their capacity: with `taken <= capacity` there is "
            "still room when it is full. Ask `taken < capacity`, then count.",
        ),
        Misconception(
            "inverted",
            lambda *case: ~has_room(*case),
            "You mark the choices that find *no* room. True is for those that do.",
        ),
        Misconception(
            "all first choices first",
            _choices_in_rounds,
            "You serve the first choices of all tokens before anyone's second. GShard does it so, "
            "and there is something to say for it: but then a token's second choice depends on "
            "tokens that come *later*. Here it goes token after token.",
        ),
        Misconception(
            "a capacity for each round",
            _each_round_alone,
            "First and second choices are counted apart, so an expert takes up to k times its "
            "capacity. It has one pair of hands: one count for each expert.",
        ),
        Misconception(
            "last come, first served",
            _last_come,
            "You serve from the end. The first token comes first.",
        ),
        Misconception(
            "room for all together",
            _for_all_together,
            "You count all choices together, as if experts could help one another out. Each has a "
            "capacity of its own, which is why some drop tokens while others idle.",
        ),
        Misconception(
            "all choices of a token, or none",
            _whole_tokens,
            "You drop a token's other choices along with the one that found no room. They are "
            "kept: it then gets a part of its sum.",
        ),
        Misconception(
            "the first tokens",
            _first_tokens,
            "You let the first `capacity` tokens in, whichever expert they chose. Count for each "
            "expert apart.",
        ),
        Misconception(
            "one choice a token",
            _one_choice_a_token,
            "You stop at a token's first choice that finds room. Each of its k choices is served "
            "if there is room, for its output is a *sum* over them.",
        ),
        Misconception(
            "counted anew for each token",
            _counts_anew,
            "With you nobody is ever dropped: the count starts anew with each token, or never "
            "rises. One list for all tokens: `taken = [0] * n_experts` before the loop, and "
            "`taken[expert] += 1` in it.",
        ),
        Misconception(
            "all or nobody",
            _total_per_expert,
            "An expert that too many chose is closed to *all* of them with you. It works on the "
            "first `capacity`, and the rest are dropped.",
        ),
    ),
    hints=(
        "Keep a list of how many each expert has taken, and go through tokens and choices in "
        "order.",
        "`for token, experts in enumerate(chosen.tolist()): for choice, expert in "
        "enumerate(experts): …`",
        "Room is where `taken[expert] < capacity`; then count it and set `kept[token, choice] = "
        "True`.",
    ),
    why="A loop is enough here. The library counts for all at once: the running sum of one-hot "
    "rows says for each choice the how-manieth of its expert it is.",
)


def _other_head():
    return _changed(head=1)


def _reads_everything():
    def all_before(tokens, tokenizer):
        length = tokens.shape[1]
        return torch.ones(len(tokens), length, length, dtype=torch.bool).tril()

    return _changed(places=all_before)


def _reads_nothing():
    def none(tokens, tokenizer):
        return torch.zeros_like(counterparts(tokens, tokenizer))

    return _changed(places=none)


def _reads_the_future():
    def after(tokens, tokenizer):
        return counterparts(tokens, tokenizer).transpose(1, 2)

    return _changed(places=after)


def _says_it_does_not_matter():
    return _changed(matters=False)


def _first_lines():
    def elsewhere(tokens, tokenizer):
        return ~in_closing_line(tokens, tokenizer)

    return _changed(predictions=elsewhere)


def _one_sentence():
    return _changed(text="Head 0 of layer 2 reads the line before.")


def _changed(**changes):
    return replace(my_story(), **changes)


STORY = Exercise(
    id="16.story",
    title="Capstone: what does your head look at?",
    stars=3,
    minutes=15,
    solution=my_story,
    cases=[("validation",), ("test",)],
    call=_tell,
    shown=_told_on,
    seconds=60.0,
    misconceptions=(
        Misconception(
            "a head that does not",
            _other_head,
            "This head does not read these places much: less than twice what chance gives them, or "
            "less than a tenth of its attention, so there is no story about it. The picture of *one* "
            "text may have misled you; or you counted from 1: layers and heads count from 0.",
        ),
        Misconception(
            "it reads what came before",
            _reads_everything,
            "Your places are (nearly) all that a head may read. Of course it reads them: it has "
            "no choice. A story is about *few* places, so that reading them is no accident.",
        ),
        Misconception(
            "no places",
            _reads_nothing,
            "Hardly any query has one of your places, so there is nothing to measure. Print `places(tokens, "
            "tokenizer).sum()`: does the mask find what you mean, with this tokenizer's numbers?",
        ),
        Misconception(
            "the future",
            _reads_the_future,
            "Some of your places lie *after* the query, where no head of a GPT can look. "
            "`places[b, q, k]` means: query q reads key k, with k ≤ q. Are your two axes "
            "exchanged?",
        ),
        Misconception(
            "it does not matter, it says",
            _says_it_does_not_matter,
            "You say that these predictions do not need the head, and without it they get worse, "
            "by more than two standard errors more than the others. `loss_without` gives the "
            "numbers. Report what was measured.",
        ),
        Misconception(
            "the wrong predictions",
            _first_lines,
            "You say that these predictions need the head, and they do not need it more than the "
            "others. Which ones would? Follow the story: what is predicted at the queries that "
            "read your places?",
        ),
        Misconception(
            "one sentence",
            _one_sentence,
            "The measurements are in order, and the story is missing or too long: 40 to "
            "300 words, for someone who has not seen the picture. What it reads, when, how you know, and what "
            "you did *not* show.",
        ),
    ),
    hints=(
        "Begin with a picture: `capture` a text, draw the heads of one layer, and put into words "
        "what one of them seems to do.",
        "Make the words a mask: for each query, which keys? `attention_on(weights, mask)` against "
        "`chance_of(mask)` says whether you are right, for all heads of a layer at once.",
        "Then ask which predictions it should help, and let `loss_without` tell. “It does not "
        "matter” is a finding, too.",
        "The worked example above meets the rubric: change one thing at a time until it is yours.",
    ),
    why="A picture suggests, a score against chance confirms, and an ablation says whether it "
    "matters. The rubric measures on text that you did not choose. Whether the words are true to "
    "the numbers, another reader has to tell you.",
)

EXERCISES = (ROUTE, MIX, ACTIVE, BALANCE, ROOM, STORY)

QUIZ = (
    Question(
        "A layer has 8 experts, and each token goes through 2. Compared with a layer that has one "
        "of these experts …",
        (
            Choice(
                "it has twice the parameters and takes 8 times the arithmetic.",
                False,
                "The other way round: parameters go with the number of experts, arithmetic with "
                "how many are chosen.",
            ),
            Choice(
                "it has about 8 times the parameters and takes about twice the arithmetic.",
                True,
                "All eight have to be kept, two are run. The router's part is small.",
            ),
            Choice(
                "it needs no more memory, since six experts are idle.",
                False,
                "Another token of the same batch wants those six. All must lie ready.",
            ),
        ),
    ),
    Question(
        "Why is the gate of a single chosen expert its probability among *all* experts?",
        (
            Choice(
                "Because gates have to sum to 1.",
                False,
                "They do not, for k = 1: the gate of the chosen one is below 1. That is the price.",
            ),
            Choice(
                "Because it is faster.", False, "It takes a softmax over more numbers, if anything."
            ),
            Choice(
                "Because a softmax over one score is always 1, and the router would get no "
                "gradient from the prediction.",
                True,
                "The choice itself has no gradient; the gate is how the router learns.",
            ),
        ),
    ),
    Question(
        "16 experts, top-1. The balancing loss, E · Σ load · P, is 16. What follows?",
        (
            Choice(
                "One expert has all tokens, and nearly all of the probability.",
                True,
                "It is the largest value: 16 · 1 · 1.",
            ),
            Choice(
                "All experts have the same load.",
                False,
                "Then it would be 1, whatever their number.",
            ),
            Choice(
                "The model predicts badly.",
                False,
                "It says nothing about predictions. In our runs the loss on the text was the same "
                "with a load of nearly one expert as with an even load.",
            ),
        ),
    ),
    Question(
        "What happens to a token whose expert is full?",
        (
            Choice(
                "Nothing is added to it in this layer: the residual stream carries it past.",
                True,
                "That is why dropping is possible at all. The next layer has another router.",
            ),
            Choice(
                "It goes to its next best expert.",
                False,
                "Some systems do that; here, as in Switch, it passes by.",
            ),
            Choice(
                "It is removed from the text, and not predicted.",
                False,
                "It stays where it is; attention reads it, and its loss counts.",
            ),
            Choice(
                "Whether it happens depends on other tokens of the batch.",
                True,
                "With a capacity tokens compete, even those of different texts. That is why ours "
                "holds in training only.",
            ),
        ),
    ),
    Question(
        "Our induction model completes a dictionary that it has never met, better with every "
        "repetition. What has changed between the first repetition and the fifth?",
        (
            Choice(
                "Its weights, a little at each example.",
                False,
                "Nothing is trained here: there is no loss, no gradient, no step.",
            ),
            Choice(
                "The context: there are more examples for its heads to find.",
                True,
                "Weights stay as they are. In-context learning happens in the forward pass.",
            ),
            Choice(
                "Nothing: any language model does that.",
                False,
                "Our character GPT does not: a text that it reads twice surprises it as much the "
                "second time.",
            ),
        ),
    ),
)
