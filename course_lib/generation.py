"""Writing: ask for the next token, choose one, append it, ask again.

The choice is where taste enters: greedy, or sampled from the distribution after temperature,
top-k (Fan et al. 2018) and top-p (Holtzman et al. 2020, arXiv 1904.09751). Lesson 12 builds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from course_lib.data.tokenizer import CharTokenizer, normalise
from course_lib.model.config import is_number, is_whole
from course_lib.model.continuation import CachedLogits, recomputed_logits
from course_lib.model.encoder import Encoder
from course_lib.model.gpt import GPT
from course_lib.model.snapshot import why_not_cached
from course_lib.runtime import CourseError, notice

GREEDY_BELOW = 1e-8  # a temperature so low leaves nothing but the largest logit


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen; CourseError for values that make no sense.

    temperature: logits are divided by it; 0 is greedy. top_k: keep the k likeliest tokens.
    top_p: keep the likeliest tokens until their probabilities reach p.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (is_number(self.temperature) and 0 <= self.temperature < math.inf):
            raise CourseError(
                f"temperature={self.temperature!r} must be a finite number, 0 (greedy) or above"
            )
        if self.top_k is not None and not (is_whole(self.top_k) and self.top_k >= 1):
            raise CourseError(f"top_k={self.top_k!r} must be a whole number of at least 1")
        if self.top_p is not None and not (is_number(self.top_p) and 0 < self.top_p <= 1):
            raise CourseError(f"top_p={self.top_p!r} must be above 0 and at most 1")


def next_token_probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """Logits (..., vocab_size) → the probabilities (..., vocab_size) to draw from, float64.

    Temperature first, then top-k, then top-p, each on what the one before left. Of equals at the
    edge of top-k or top-p, those with the lower index stay.
    """
    logits = logits.double()
    if sampling.temperature < GREEDY_BELOW:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, best, 1.0)
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / sampling.temperature
    everything = logits.softmax(dim=-1)
    if sampling.top_k is None and sampling.top_p in (None, 1):
        return everything  # nothing to sort
    probabilities, order = everything.sort(dim=-1, descending=True, stable=True)
    if sampling.top_k is not None:
        probabilities[..., sampling.top_k :] = 0.0
        probabilities /= probabilities.sum(dim=-1, keepdim=True)
    if sampling.top_p is not None and sampling.top_p < 1:
        reached_before = probabilities.cumsum(dim=-1) - probabilities
        # float32 logits leave an error near 1e-7: what reaches p but for that has reached it
        drop = reached_before >= sampling.top_p - 1e-6
        drop[..., 0] = False
        probabilities = probabilities.masked_fill(drop, 0.0)
        probabilities /= probabilities.sum(dim=-1, keepdim=True)
    return torch.zeros_like(probabilities).scatter(-1, order, probabilities)


def choose(
    logits: Tensor,  # (batch, vocab_size), on the CPU
    sampling: Sampling,
    generators: Sequence[torch.Generator],  # one for each row
) -> Tensor:  # (batch,)
    """Draw each row's next token, with its own generator. CourseError for logits that are NaN.

    A race: each token's time is an exponential random number divided by its probability, and the
    first to arrive wins, which happens just so often as its probability says. It is what
    torch.multinomial does with one generator.
    """
    if sampling.temperature < GREEDY_BELOW:
        speed = logits
    else:
        probabilities = next_token_probabilities(logits, sampling)
        times = torch.empty_like(probabilities)
        for row, generator in zip(times, generators, strict=True):
            row.exponential_(generator=generator)
        speed = probabilities / times
    best, chosen = speed.max(dim=-1)
    if best.isnan().any():
        raise CourseError(
            "the model's scores are not numbers (NaN), so nothing can be drawn from them; its "
            "training went wrong: go back to an earlier checkpoint or lower the learning rate"
        )
    return chosen


def next_token_logits(model: GPT, tokens: Tensor) -> Tensor:
    """Tokens (position,) of any number → logits (vocab_size,) for the next one. Dropout is off.

    Past the context length a window slides, or positions start anew: see model/continuation.py.
    """
    return recomputed_logits(model, [tokens.tolist()])[0]


def require_writer(model: GPT) -> None:
    """CourseError for a model that cannot write."""
    if isinstance(model, Encoder):
        raise CourseError(
            "an encoder sees the very token that it predicts, so it fills gaps and cannot "
            "write; give a GPT"
        )


def reader(
    model: GPT, batch_size: int, *, use_cache: bool = True
) -> Callable[[Sequence[list[int]]], Tensor]:
    """What gives the next logits (batch, vocab_size) of texts that grow, given again and again.

    For use_cache see generate_batch.
    """
    if use_cache and why_not_cached(model) is None:
        return CachedLogits(model, batch_size)
    return partial(recomputed_logits, model)


def crop_prompt(tokens: Tensor, context_length: int, what: str = "the prompt") -> Tensor:
    """The last context_length tokens of a prompt, with a notice if it was longer."""
    if len(tokens) > context_length:
        notice(f"{what} has {len(tokens)} characters; the model reads the last {context_length}")
    return tokens[-context_length:]


def generate(
    model: GPT,
    prompt: Tensor,  # (position,), at least one token
    length: int,
    sampling: Sampling,
    generator: torch.Generator,
    *,
    use_cache: bool = True,
) -> Iterator[int]:
    """Continue a prompt by `length` tokens, one at a time. Past the context, see next_token_logits.

    A prompt longer than the context is cropped, with a notice. Raises CourseError, when the first
    token is asked for, if the prompt is empty or the length below 0. For use_cache see
    generate_batch.
    """
    for chosen in generate_batch(
        model, [prompt], length, sampling, [generator], use_cache=use_cache
    ):
        yield chosen.item()


def generate_batch(
    model: GPT,
    prompts: Sequence[Tensor],  # each (position,), of any lengths
    length: int,
    sampling: Sampling,
    generators: Sequence[torch.Generator],  # on the CPU, one for each prompt
    *,
    use_cache: bool = True,
) -> Iterator[Tensor]:  # (batch,), int64, on the CPU
    """Continue several prompts at once, each as generate would with its own generator.

    use_cache: remember what was read. Without it, everything is computed again for each token: the
    same text, later. A model that a cache cannot follow (see why_not_cached) is run without.
    """
    require_writer(model)
    for number, prompt in enumerate(prompts, start=1):
        if len(prompt) == 0:
            which = "the prompt" if len(prompts) == 1 else f"prompt {number} of {len(prompts)}"
            raise CourseError(f"{which} is empty; give at least one token to continue from")
    if not prompts or len(generators) != len(prompts):
        raise CourseError(
            f"{len(prompts)} prompts came with {len(generators)} generators; give at least one "
            "prompt, and a generator for each"
        )
    if not is_whole(length) or length < 0:
        raise CourseError(f"length={length!r} must be a whole number, 0 or above")
    texts = [crop_prompt(prompt, model.config.context_length).tolist() for prompt in prompts]
    next_logits = reader(model, len(texts), use_cache=use_cache)
    for _ in range(length):
        # on the CPU: not every device has float64, and equal probabilities give equal draws
        chosen = choose(next_logits(texts).cpu(), sampling, generators)
        for text, token in zip(texts, chosen.tolist(), strict=True):
            text.append(token)
        yield chosen


def generate_text(
    model: GPT,
    tokenizer: CharTokenizer,
    prompt: str = "",
    length: int = 200,
    sampling: Sampling | None = None,
    seed: int = 0,
    *,
    use_cache: bool = True,
) -> Iterator[str]:
    """Continue a text, one character at a time; the prompt itself is not repeated.

    An empty prompt starts from a newline, or from the vocabulary's first character. Raises
    CourseError for an unknown character, or a seed that is not from 0 to 2^63 - 1.
    """
    generator = seeded(seed)
    start = first_tokens(tokenizer, prompt)
    for token in generate(
        model, start, length, sampling or Sampling(), generator, use_cache=use_cache
    ):
        yield tokenizer.decode([token])


def seeded(seed: int) -> torch.Generator:
    """The random numbers of a text. CourseError for a seed that is not from 0 to 2^63 - 1."""
    if not (is_whole(seed) and 0 <= seed < 2**63):
        raise CourseError(f"seed={seed!r} must be a whole number from 0 to 2^63 - 1")
    return torch.Generator().manual_seed(seed)


def first_tokens(tokenizer: CharTokenizer, prompt: str) -> Tensor:  # (position,), at least one
    """What a text begins from: the prompt, or for an empty one what generate_text says."""
    prompt = normalise(prompt)
    if not prompt:
        prompt = "\n" if "\n" in tokenizer.vocabulary else tokenizer.vocabulary[0]
    return tokenizer.encode(prompt)
