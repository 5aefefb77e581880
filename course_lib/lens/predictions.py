"""What kind of prediction each character of a text is: which of them does a head serve?

A loss is a mean over all characters, and one that a head is vital to may be rare. Lesson 13.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.runtime import CourseError


def kind_of(before: str, character: str, after: str) -> str:
    """The kind of a character, by its two neighbours in the text ("" beyond its ends).

    Chinese verse has its own kinds: a couplet ends in 。 and rhymes on the character before it.
    """
    if character == "\n":
        return "blank line" if before == "\n" else "end of line"
    if character == " ":
        return "space"
    if not character.isalpha():
        return "punctuation"
    if "\u4e00" <= character <= "\u9fff":  # a Chinese character
        ends = {"。": "end of couplet", "，": "end of half-line"}
        return ends.get(after, "inside a verse")
    if before.isupper() and character.isupper():
        return "capital after capital"
    return "inside a word" if before.isalpha() or before in ("'", "-") else "first letter"


def kinds_of_predictions(texts: Sequence[str]) -> dict[str, Tensor]:
    """For each kind that occurs, where it does: bool (text, position − 1), by the kind's name.

    Entry i is that of character i + 1, as in token_losses. Texts of equal length, 2 characters or
    more; CourseError for others.
    """
    lengths = sorted({len(text) for text in texts})
    if len(lengths) != 1 or lengths[0] < 2:
        raise CourseError(f"texts have the lengths {lengths}; give texts of one length, 2 or more")
    rows = [
        [kind_of(*three) for three in zip(text, text[1:], [*text[2:], ""], strict=False)]
        for text in texts
    ]
    kinds = sorted({kind for row in rows for kind in row})
    return {kind: torch.tensor([[each == kind for each in row] for row in rows]) for kind in kinds}
