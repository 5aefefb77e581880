"""A text that a model continues a character at a time, and that can be looked back on.

With unchanged settings it is the text of generation.generate_text, by the same functions; here the
settings may change between two characters, and what the model thought at each of them is kept.
"""

from __future__ import annotations

from torch import Tensor

from course_lib.data.tokenizer import CharTokenizer
from course_lib.generation import Sampling, choose, first_tokens, reader, require_writer, seeded
from course_lib.model.gpt import GPT

MOST_WRITTEN = 2_000  # characters: all logits are kept


class GrowingText:
    """What is written after a prompt. Raises CourseError where generate_text does.

    tokens: prompt (as far as the model reads it) and continuation. logits[i], (vocab_size,), are
    those that drawn[i] was chosen from; the last of them are those of what comes next.
    """

    def __init__(self, model: GPT, tokenizer: CharTokenizer, prompt: str, seed: int) -> None:
        require_writer(model)
        self._generator = seeded(seed)
        start = first_tokens(tokenizer, prompt)
        self.prompt_length = len(start)
        self.tokens: list[int] = start[-model.config.context_length :].tolist()
        self.drawn: list[int] = []
        self._next_logits = reader(model, batch_size=1)
        self.logits: list[Tensor] = [self._read()]

    @property
    def full(self) -> bool:
        """Whether nothing more is kept."""
        return len(self.drawn) >= MOST_WRITTEN

    def write(self, sampling: Sampling) -> None:
        """Choose the next token and append it."""
        chosen = choose(self.logits[-1][None], sampling, [self._generator]).item()
        self.drawn.append(chosen)
        self.tokens.append(chosen)
        self.logits.append(self._read())

    def _read(self) -> Tensor:
        return self._next_logits([self.tokens])[0].cpu()
