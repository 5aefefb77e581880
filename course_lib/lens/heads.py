"""What heads read, as numbers, and whether it matters.

A score names a head's type: the attention it gives to places of one kind (the token before, the
last newline, the token after a former copy of this one), beside what uniform attention would give.
Ablation asks the model itself: a head's output is replaced, in the pass that runs, and the loss at
each position tells which predictions needed it. Lesson 13; head types: Clark et al. 2019, arXiv
1906.04341, and Olsson et al. 2022, arXiv 2209.11895.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.lens.capture import Capture
from course_lib.model.gpt import GPT, evaluating
from course_lib.runtime import CourseError

Head = tuple[int, int]  # layer and head, both counted from 0


def places_of_types(tokens: Tensor, newline: int | None = None) -> dict[str, Tensor]:
    """For each type of head, which keys it would read: bool (batch, query, key), by its name.

    A place is always before the query, never the query itself. tokens: (batch, position).

    previous token: the one just before. first token: position 0, where a head that has nothing to
    read can rest (Xiao et al. 2023, arXiv 2309.17453). same token: former copies of the query's.
    induction: what came after a former copy. With the number of the newline token also newline: the
    last one before, and line start: the first token after it.
    """
    length = tokens.shape[1]
    place = torch.arange(length, device=tokens.device)
    before = (place[:, None] > place).expand(len(tokens), -1, -1)  # (batch, query, key)
    same = (tokens[:, :, None] == tokens[:, None, :]) & before
    places = {
        "previous token": before & (place[:, None] == place + 1),
        "first token": before & (place == 0),
        "same token": same,
        "induction": F.pad(same, (1, 0))[..., :-1] & before,
    }
    if newline is not None:
        found = torch.where(tokens == newline, place, -1)  # (batch, position)
        last = F.pad(found.cummax(dim=1).values, (1, 0), value=-1)[:, :-1]  # before each query
        places["newline"] = (place == last[..., None]) & before
        places["line start"] = (place == last[..., None] + 1) & (last >= 0)[..., None] & before
    return places


@dataclass(frozen=True)
class HeadScore:
    """How much all heads of a model read places of one kind.

    score: (layer, head), the attention on these places, a mean over the queries that have any.
    chance: the same for a head that reads evenly all it may read.
    elsewhere: (layer, head), the score for the places that another text of the batch has. A head
        that goes by position alone scores as high there; one that goes by what stands there, less.
    queries: over how many the mean was taken.
    """

    name: str
    score: Tensor
    chance: float
    elsewhere: Tensor
    queries: int


def head_scores(seen: Capture, newline: int | None = None) -> dict[str, HeadScore]:
    """The score of every head for every type in places_of_types, by the type's name.

    Types that no query of these tokens has a place for are left out. CourseError for one text
    alone, for then there is no other to compare with.
    """
    if len(seen.tokens) < 2:
        raise CourseError("one text has no other to compare with; capture two or more")
    scores = {}
    for name, places in places_of_types(seen.tokens, newline).items():
        if not places.any():
            continue
        scores[name] = HeadScore(
            name,
            torch.stack([attention_on(weights, places) for weights in seen.weights]),
            chance_of(places),
            torch.stack([attention_on(weights, places.roll(1, 0)) for weights in seen.weights]),
            int(places.any(dim=-1).sum()),
        )
    return scores


def attention_on(
    weights: Tensor,  # (batch, head, query, key)
    places: Tensor,  # (batch, query, key), bool
) -> Tensor:  # (head,)
    """The attention that each head gives to these places, a mean over queries that have any."""
    read = torch.einsum("bhqk,bqk->bqh", weights, places.to(weights.dtype))
    return read[places.any(dim=-1)].mean(dim=0)


def chance_of(places: Tensor) -> float:
    """attention_on for a head that reads evenly all tokens up to the query.

    places: (batch, query, key), bool.
    """
    may_read = torch.arange(1, places.shape[1] + 1, device=places.device)
    return (places.sum(dim=-1) / may_read)[places.any(dim=-1)].mean().item()


def mean_outputs(model: GPT, tokens: Tensor) -> tuple[Tensor, ...]:
    """What each head puts out on average, over all positions of tokens (batch, position).

    For each layer (head, d_head): what `ablated` can put in a head's place.
    """
    means: list[Tensor] = []

    def keep(_, arguments: tuple[Tensor]) -> None:
        means.append(arguments[0].flatten(0, 1).mean(dim=0))

    with ExitStack() as hooks, evaluating(model):
        for block in model.blocks:
            hooks.enter_context(block.attention.output.register_forward_pre_hook(keep))
        model(tokens)
    return tuple(mean.unflatten(0, (model.config.n_heads, -1)) for mean in means)


@contextmanager
def ablated(
    model: GPT, heads: Collection[Head], means: Sequence[Tensor] | None = None
) -> Iterator[GPT]:
    """Inside, these heads, each (layer, head), no longer say what they read.

    Their output, before W_O, is 0 (Michel et al. 2019, arXiv 1905.10650), or with means, from
    mean_outputs, what it is on average. A mean keeps what a head says whatever the text is: later
    layers count on it, and are given numbers that they know. Zeros take it away as well.

    The model itself runs, by either kernel; afterwards, also after an error, it is as before.
    CourseError for a head that it does not have.
    """
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        if not (0 <= layer < model.config.n_layers and 0 <= head < model.config.n_heads):
            raise CourseError(
                f"there is no head {head} in layer {layer}; the model has layers 0 to "
                f"{model.config.n_layers - 1} with heads 0 to {model.config.n_heads - 1} each"
            )
        by_layer.setdefault(layer, []).append(head)
    with ExitStack() as hooks:
        for layer, silent in by_layer.items():
            said = 0.0 if means is None else means[layer][silent]
            hook = _replacing(silent, said, model.config.n_heads)
            output = model.blocks[layer].attention.output
            hooks.enter_context(output.register_forward_pre_hook(hook))
        yield model


def _replacing(silent: list[int], said: Tensor | float, n_heads: int):
    def hook(_, arguments: tuple[Tensor]) -> Tensor:
        merged = arguments[0].unflatten(-1, (n_heads, -1)).clone()  # (batch, position, head, …)
        merged[..., silent, :] = said
        return merged.flatten(-2)

    return hook


def token_losses(model: GPT, tokens: Tensor) -> Tensor:
    """Surprise in nats at each token but the first: tokens (batch, position) → (…, position − 1).

    Entry i is that of token i + 1, predicted at position i.
    """
    with evaluating(model):
        logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")


def passed_on(model: GPT, seen: Capture, layer: int) -> Tensor:
    """How much each query receives from each key: (batch, head, query, key).

    The length of weight · value · W_O (Kobayashi et al. 2020, arXiv 2004.10102): a head that reads
    a token whose value is next to nothing receives next to nothing.
    """
    weights, attention = seen.layer(layer), model.blocks[layer].attention
    with evaluating(model):
        values = attention.value(seen.attention_inputs[layer])  # (batch, key, kv_head · d_head)
        values = values.unflatten(-1, (-1, attention.d_head)).transpose(1, 2)
        values = attention.for_each_query_head(values)  # (batch, head, key, d_head)
        matrices = attention.output.weight.unflatten(1, (attention.n_heads, -1))
        lengths = torch.einsum("bhkd,ohd->bhko", values, matrices).norm(dim=-1)
    return weights * lengths[:, :, None, :]
