"""Recurrent networks: read one token after another, and keep all that was read in one vector.

    h_t = tanh(W x_t + U h_(t−1) + b)                  Elman 1990, the plain recurrent network

An LSTM (Hochreiter & Schmidhuber 1997) adds a memory that gates write to and erase, so that it
fades more slowly. Token t cannot be read before token t − 1 was: n tokens take n steps, one after
the other, where attention takes one. Lesson 01 sets both the same task.
"""

from __future__ import annotations

from torch import Tensor, nn

from course_lib.model.config import require_positive
from course_lib.model.gpt import require_tokens
from course_lib.runtime import CourseError

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentModel(nn.Module):
    """A language model with one recurrent layer: the baseline that attention is measured against.

    The layers are PyTorch's own. Raises CourseError for a cell that is not one of CELLS.
    """

    def __init__(self, vocab_size: int, d_model: int = 64, cell: str = "lstm") -> None:
        super().__init__()
        require_positive("vocab_size", vocab_size)
        require_positive("d_model", d_model)
        if cell not in CELLS:
            raise CourseError(f"cell={cell!r} is not known; use one of: {', '.join(CELLS)}")
        self.token_embedding = nn.Embedding(vocab_size, d_model)
        self.recurrent = CELLS[cell](d_model, d_model, batch_first=True)
        self.head = nn.Linear(d_model, vocab_size)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, position) → logits (batch, position, vocab_size): of every next token.

        Those at position t depend on tokens 0 … t, through the state after token t alone.
        """
        require_tokens(tokens)
        states, _ = self.recurrent(self.token_embedding(tokens))  # (batch, position, d_model)
        return self.head(states)
