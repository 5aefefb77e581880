"""What a head looks at, told as a story whose claims are measured: the capstone of lesson 16.

A story names a head, the places it reads, and the predictions that are said to need it or not. The
rubric measures what can be measured, on a part of the corpus that the story does not choose:
attention against chance (heads.py), and loss without the head. Whether the words are true to it is
for a reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from course_lib.data.corpora import DATA_FOLDER, load_corpus
from course_lib.data.tokenizer import CharTokenizer
from course_lib.lens.capture import capture
from course_lib.lens.heads import ablated, attention_on, chance_of, token_losses
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError
from course_lib.training.checkpoint import load_run

WINDOWS = 10  # of a part, at most
LEAST_QUERIES = 100  # that have a place to read
CHANCE = 0.25  # more would be "it reads something"
TIMES_CHANCE = 2.0
LEAST_ATTENTION = 0.1  # with less, nearly all that the head reads is elsewhere
WORDS = (40, 300)
STANDARD_ERRORS = 2.0


@dataclass(frozen=True, kw_only=True)
class Story:
    """What a head is said to do.

    run: the folder of a run, or "shakespeare" or "tang" for a shipped one. corpus: the name of a
        corpus, or a text file. layer, head: from 0.
    places: tokens (batch, position) and the tokenizer → bool (batch, query, key), what it reads.
    predictions: the same → bool (batch, position − 1), entry i for the prediction of token i + 1:
        those that need the head, if any do.
    matters: whether, by your measurement, these predictions get worse without the head than the
        others do. False is an answer.
    text: the story, for someone who has not seen the picture.
    """

    run: str
    corpus: str
    layer: int
    head: int
    places: Callable[[Tensor, CharTokenizer], Tensor]
    predictions: Callable[[Tensor, CharTokenizer], Tensor]
    matters: bool
    text: str


@dataclass(frozen=True)
class Criterion:
    """One line of the rubric. found: what was measured. remedy: what to do where it is not met."""

    name: str
    met: bool
    found: str
    remedy: str


@dataclass(frozen=True)
class Needed:
    """How much worse predictions get without a head, in nats, and the standard error of the gap."""

    these: float
    others: float
    error: float

    @property
    def matters(self) -> bool:
        """Whether these lose, and lose more than the others by two standard errors."""
        return min(self.these, self.these - self.others) > STANDARD_ERRORS * self.error


def loss_without(model: GPT, tokens: Tensor, layer: int, head: int, predictions: Tensor) -> Needed:
    """What the chosen predictions, bool (batch, position − 1), and the others lose with a head.

    Raises CourseError where either has fewer than two.
    """
    if min(int(predictions.sum()), int((~predictions).sum())) < 2:
        raise CourseError(
            f"{int(predictions.sum())} of {predictions.numel()} predictions are chosen; choose two "
            "or more, and leave two or more to compare with"
        )
    before = token_losses(model, tokens)
    with ablated(model, [(layer, head)]):
        worse = token_losses(model, tokens) - before
    these, others = worse[predictions], worse[~predictions]
    error = (these.var() / len(these) + others.var() / len(others)).sqrt()
    return Needed(these.mean().item(), others.mean().item(), error.item())


def heard(story: Story, part: str) -> list[Criterion]:
    """The rubric, on windows spread over a part of the corpus: "validation", say, or "test".

    Raises CourseError where there is no such run, corpus or part, or too little of it.
    """
    shipped = DATA_FOLDER / "checkpoints" / story.run
    folder = shipped if shipped.is_dir() else Path(story.run)
    return rubric(story, *_audience(folder, _age(folder), story.corpus, part))


@lru_cache(maxsize=4)
def _audience(
    folder: Path, age: float, corpus: str, part: str
) -> tuple[GPT, CharTokenizer, Tensor]:
    """The model, its tokenizer and the windows (batch, position); kept, for a story is retold."""
    model, tokenizer, _ = load_run(folder)
    text = getattr(load_corpus(corpus), part)
    length = model.config.context_length
    count = min(WINDOWS, len(text) // length)
    if count < 2:
        raise CourseError(
            f"the {part} part has {len(text)} characters, fewer than two windows of {length}; "
            "use a longer text"
        )
    starts = torch.linspace(0, len(text) - length, count).long()
    return model, tokenizer, text[starts[:, None] + torch.arange(length)]


def _age(folder: Path) -> float:
    weights = folder / "model.safetensors"
    return weights.stat().st_mtime if weights.exists() else 0.0


def rubric(story: Story, model: GPT, tokenizer: CharTokenizer, tokens: Tensor) -> list[Criterion]:
    """What can be checked of a story, on tokens (batch, position) of its corpus.

    Raises CourseError for places or predictions that are no masks of the right shape, and for a
    head that the model does not have.
    """
    batch, length = tokens.shape
    places, predictions = story.places(tokens, tokenizer), story.predictions(tokens, tokenizer)
    _require_mask("places", places, (batch, length, length))
    _require_mask("predictions", predictions, (batch, length - 1))
    with ablated(model, [(story.layer, story.head)]):
        pass  # refuses a head that is not there
    if places.triu(1).any():
        return [
            Criterion(
                "past",
                False,
                "some places lie after the query",
                "name places before the query: no head of a GPT looks ahead",
            )
        ]
    queries = int(places.any(dim=-1).sum())
    chance = chance_of(places) if queries else 1.0
    clear = queries >= LEAST_QUERIES and chance <= CHANCE
    found = [
        Criterion(
            "places",
            clear,
            f"{queries:,} queries have one; reading evenly gives it {chance:.3f}",
            _fewer_or_more(queries),
        )
    ]
    if not clear:
        return found
    read = attention_on(capture(model, tokens).layer(story.layer), places)
    score = read[story.head].item()
    found.append(
        Criterion(
            "reading",
            score >= max(TIMES_CHANCE * chance, LEAST_ATTENTION),
            f"{score:.3f}, which is {score / chance:.1f} times chance",
            f"it has to give them at least {TIMES_CHANCE:g} times as much as chance does, and "
            f"{LEAST_ATTENTION:g} of its attention: look for another head, or for other places",
        )
    )
    need = loss_without(model, tokens, story.layer, story.head, predictions)
    found.append(
        Criterion(
            "need",
            need.matters is story.matters,
            f"without the head these lose {need.these:+.3f} nats, the others {need.others:+.3f}, "
            f"standard error {need.error:.3f}",
            f"the measurement says matters={need.matters}: say so, or choose other predictions",
        )
    )
    words = len(re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", story.text))
    found.append(
        Criterion(
            "telling",
            WORDS[0] <= words <= WORDS[1],
            f"{words} words (a Chinese character counts as one)",
            f"tell it in {WORDS[0]} to {WORDS[1]} words",
        )
    )
    return found


def _fewer_or_more(queries: int) -> str:
    if queries < LEAST_QUERIES:
        return f"name places that more queries have, at least {LEAST_QUERIES} in these windows"
    return f"name fewer places, so that reading evenly gives them at most {CHANCE}"


def _require_mask(name: str, mask: object, shape: tuple[int, ...]) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or tuple(mask.shape) != shape:
        what = (
            f"{mask.dtype} of shape {tuple(mask.shape)}"
            if isinstance(mask, Tensor)
            else type(mask).__name__
        )
        raise CourseError(f"{name} gave {what}; give bool of shape {shape}")
