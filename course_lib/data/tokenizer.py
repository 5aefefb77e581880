"""Characters to whole numbers and back.

A model reads numbers, so each distinct character of a text gets one: its rank when they are sorted
by code point. The ranks run from 0 to vocab_size - 1; the vocabulary is the sorted string.
Lesson 01 builds this.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from course_lib.runtime import CourseError

WHOLE_NUMBERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def normalise(text: str) -> str:
    """The one spelling of a text that the course uses, for a corpus and for a prompt alike.

    No byte-order marks at the start, every line ends in a line feed, and accents are composed
    (Unicode's NFC: e + U+0301 becomes é). Normalising twice changes nothing more.
    """
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", text)


def describe(character: str) -> str:
    """A character so that it can be recognised even where it cannot be seen: 'd' U+0064."""
    shown = ascii(character) if unicodedata.combining(character) else repr(character)
    return f"{shown} U+{ord(character):04X}"


@dataclass(frozen=True, repr=False)
class CharTokenizer:
    """One number for each character of a vocabulary; equal if the vocabularies are.

    ``vocabulary`` holds the known characters, each once, sorted by code point. A trained model's
    numbers mean nothing without it, so it is stored with the model.
    """

    vocabulary: str

    def __post_init__(self) -> None:
        if not self.vocabulary:
            raise CourseError("the vocabulary is empty; a text of at least one character is needed")
        if list(self.vocabulary) != sorted(set(self.vocabulary)):
            raise CourseError(
                "the vocabulary must hold each character once, sorted by code point; "
                "use CharTokenizer.from_text(text)"
            )
        _code_points(self.vocabulary)  # refuses lone surrogates

    @classmethod
    def from_text(cls, text: str) -> CharTokenizer:
        """The tokenizer that knows the characters of this text, once it is normalised."""
        return cls("".join(sorted(set(normalise(text)))))

    @property
    def vocab_size(self) -> int:
        """How many characters are known."""
        return len(self.vocabulary)

    def encode(self, text: str) -> torch.Tensor:
        """The numbers of a text's characters, int64 of shape (position).

        The text is normalised first. A CourseError names characters outside the vocabulary.
        """
        codes = _code_points(normalise(text))  # (position)
        ids = np.searchsorted(self._codes, codes)  # the rank that each one has, or would have
        known = self._codes[ids.clip(max=self.vocab_size - 1)] == codes
        if not known.all():
            raise CourseError(self._unknown(codes[~known]))
        return torch.from_numpy(ids.astype(np.int64, copy=False))

    def decode(self, ids: torch.Tensor | Sequence[int] | int) -> str:
        """The text that has these numbers: a tensor (position), a list of ints, or one int."""
        ids = torch.as_tensor(ids)
        if ids.numel() == 0:
            return ""
        if ids.dtype not in WHOLE_NUMBERS or ids.dim() > 1:
            raise CourseError(
                f"ids of dtype {ids.dtype} and shape {tuple(ids.shape)} cannot be decoded; "
                "use whole numbers of shape (position), one text at a time"
            )
        ids = ids.long()
        outside = (ids < 0) | (ids >= self.vocab_size)
        if outside.any():
            raise CourseError(
                f"id {ids[outside][0].item()} is not in the vocabulary; "
                f"ids run from 0 to {self.vocab_size - 1}"
            )
        return self._codes[ids.cpu().numpy()].tobytes().decode("utf-32-le")

    def __repr__(self) -> str:
        return f"CharTokenizer of {self._known()}"

    @cached_property
    def _codes(self) -> np.ndarray:
        return _code_points(self.vocabulary)

    def _known(self, at_most: int = 100) -> str:
        """The vocabulary, or its beginning, on one line."""
        if self.vocab_size <= at_most:
            return repr(self.vocabulary)
        shown = at_most // 5
        return f"{self.vocabulary[:shown]!r} and {self.vocab_size - shown} more"

    def _unknown(self, codes: np.ndarray, at_most: int = 8) -> str:
        """The message for characters outside the vocabulary, in the order of the text."""
        unknown = list(dict.fromkeys(map(chr, codes.tolist())))
        named = ", ".join(map(describe, unknown[:at_most]))
        more = f" and {len(unknown) - at_most} more" if len(unknown) > at_most else ""
        return (
            f"not in the vocabulary: {named}{more}; known are {self._known()}. "
            "Leave the unknown ones out, or train on a text that has them"
        )


def _code_points(text: str) -> np.ndarray:
    """The Unicode numbers of a text's characters, (position)."""
    try:
        return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    except UnicodeEncodeError as error:
        raise CourseError(
            f"the text holds U+{ord(text[error.start]):04X} at position {error.start}, half of a "
            "surrogate pair and no character; it comes from bytes that are not valid text"
        ) from None
