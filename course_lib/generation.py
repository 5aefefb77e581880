"""Writing: ask for the next token, choose one, append it, ask again.

The choice is where taste enters: greedy, or sampled from the distribution after temperature,
top-k (Fan et al. 2018) and top-p (Holtzman et al. 2020, arXiv 1904.09751). Lesson 12 builds it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.data.tokenizer import CharTokenizer, normalise
from course_lib.model.gpt import GPT, evaluating
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
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise CourseError(
                f"temperature={self.temperature} must be a finite number, 0 (greedy) or above"
            )
        if self.top_k is not None and not (isinstance(self.top_k, int) and self.top_k >= 1):
            raise CourseError(f"top_k={self.top_k} must be a whole number of at least 1")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise CourseError(f"top_p={self.top_p} must be above 0 and at most 1")


def next_token_probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """Logits (vocab_size,) → the probabilities (vocab_size,) to draw from, float64.

    Temperature first, then top-k, then top-p, each on what the one before left. Of equals at the
    edge of top-k or top-p, those with the lower index stay.
    """
    logits = logits.double()
    if sampling.temperature < GREEDY_BELOW:
        return torch.zeros_like(logits).scatter(0, logits.argmax(dim=0, keepdim=True), 1.0)
    logits = (logits - logits.max()) / sampling.temperature
    probabilities, order = logits.softmax(dim=0).sort(descending=True, stable=True)
    if sampling.top_k is not None:
        probabilities[sampling.top_k :] = 0.0
        probabilities /= probabilities.sum()
    if sampling.top_p is not None and sampling.top_p < 1:
        reached_before = probabilities.cumsum(dim=0) - probabilities
        # float32 logits leave an error near 1e-7: what reaches p but for that has reached it
        drop = reached_before >= sampling.top_p - 1e-6
        drop[0] = False
        probabilities[drop] = 0.0
        probabilities /= probabilities.sum()
    return torch.zeros_like(probabilities).scatter(0, order, probabilities)


def next_token_logits(model: GPT, tokens: Tensor) -> Tensor:
    """Tokens (position,) of any number → logits (vocab_size,) for the next one. Dropout is off.

    Past the context length: without absolute positions every token looks back context_length
    tokens (a sliding window; what lies more than a window a layer back cannot matter). Learned
    and sinusoidal positions start anew from the last half of the window each time it is full.
    """
    config = model.config
    length = config.context_length
    if config.positions in ("learned", "sinusoidal"):
        if len(tokens) > length:
            fresh = length - length // 2  # tokens written between two fresh starts
            tokens = tokens[math.ceil((len(tokens) - length) / fresh) * fresh :]
        window = None
    else:
        tokens = tokens[-config.n_layers * (length - 1) - 1 :]
        window = length
    with evaluating(model):
        return model(tokens[None], window=window)[0, -1]


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
) -> Iterator[int]:
    """Continue a prompt by `length` tokens, one at a time. Past the context, see next_token_logits.

    A prompt longer than the context is cropped, with a notice. Raises CourseError, when the first
    token is asked for, if the prompt is empty or the length below 0.
    """
    if len(prompt) == 0:
        raise CourseError("the prompt is empty; give at least one token to continue from")
    if length < 0:
        raise CourseError(f"length={length} must be 0 or above")
    device = next(model.parameters()).device
    tokens = crop_prompt(prompt, model.config.context_length).to(device)
    for _ in range(length):
        # on the CPU: not every device has float64, and equal probabilities give equal draws
        logits = next_token_logits(model, tokens).cpu()
        probabilities = next_token_probabilities(logits, sampling)
        chosen = torch.multinomial(probabilities, 1, generator=generator)
        tokens = torch.cat([tokens, chosen.to(device)])
        yield chosen.item()


def generate_text(
    model: GPT,
    tokenizer: CharTokenizer,
    prompt: str = "",
    length: int = 200,
    sampling: Sampling | None = None,
    seed: int = 0,
) -> Iterator[str]:
    """Continue a text, one character at a time; the prompt itself is not repeated.

    An empty prompt starts from a newline, or from the vocabulary's first character. Raises
    CourseError for an unknown character, or a seed that is not from 0 to 2^63 - 1.
    """
    if not 0 <= seed < 2**63:
        raise CourseError(f"seed={seed} must be a whole number from 0 to 2^63 - 1")
    prompt = normalise(prompt)
    if not prompt:
        prompt = "\n" if "\n" in tokenizer.vocabulary else tokenizer.vocabulary[0]
    generator = torch.Generator().manual_seed(seed)
    for token in generate(
        model, tokenizer.encode(prompt), length, sampling or Sampling(), generator
    ):
        yield tokenizer.decode([token])
