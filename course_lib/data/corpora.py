"""A text made ready to learn from: read, normalised, turned into numbers, and split.

Two corpora come with the course, Shakespeare and Tang verse (data/README.md), and any text file can
take their place. A model learns from the training part, the validation part guides decisions, and
the test part is looked at once, at the end. Lessons 01 and 10 use this.
"""

from __future__ import annotations

import codecs
import contextlib
import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from course_lib.data.tokenizer import CharTokenizer, describe, normalise
from course_lib.runtime import PROJECT_FOLDER, CourseError, notice

DATA_FOLDER = PROJECT_FOLDER / "data"
BUILT_IN = ("shakespeare", "tang")
MINIMUM_CHARACTERS = 20  # the fewest that give each of three parts a character
TRAINING = "the training part"
BYTE_ORDER_MARKS = {  # the longer ones first: UTF-32's begins with UTF-16's
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Python lists them with the text encodings; they are for domain names, and for program text.
NO_FILES_ENCODINGS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined")


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text in three parts, int64 of shape (position) each, that do not overlap.

    The tokenizer knows each character that occurs in the text, whichever part it is in.
    """

    name: str
    source: Path
    tokenizer: CharTokenizer
    train: torch.Tensor
    validation: torch.Tensor
    test: torch.Tensor


def load_corpus(name_or_path: str | os.PathLike[str], encoding: str = "utf-8") -> Corpus:
    """The corpus "shakespeare" or "tang", or one made of any text file.

    A built-in name wins over a file of that name, which is "./tang" or Path("tang"). ``encoding``
    is your file's; the built-in ones are UTF-8. Shakespeare is cut 90/10 and its test part is a
    file of its own; any other text is cut 90/5/5, at blank lines where there are any near.
    Raises CourseError for a file that is missing, unreadable, in another encoding, or too short.
    """
    _require_encoding(encoding)
    built_in = name_or_path in BUILT_IN
    if built_in:
        name, source, encoding = name_or_path, built_in_file(name_or_path), "utf-8"
        if os.path.isfile(name):
            notice(f"{name!r} is the built-in corpus; for the file of that name write './{name}'")
    else:
        if name_or_path == "":  # which Path takes for the current folder
            raise CourseError(
                "the corpus's name is empty; "
                f"name a text file, or a built-in corpus: {', '.join(BUILT_IN)}"
            )
        source = Path(os.path.expanduser(name_or_path))
        name = source.name
    text = read_text(source, encoding)
    tokenizer = CharTokenizer.from_text(text)
    tokens = tokenizer.encode(text)
    if tokenizer.vocab_size == 1:
        notice(f"{source} is {describe(text[0])} throughout: there is nothing to predict in it")
    if built_in and name == "shakespeare":
        train, validation = tokens.tensor_split([len(tokens) * 90 // 100])
        test = tokenizer.encode(read_text(built_in_file("shakespeare-test")))
    else:
        train, validation, test = tokens.tensor_split(find_cuts(text))
    return Corpus(name, source, tokenizer, train, validation, test)


def built_in_file(name: str) -> Path:
    """The file in the data folder that holds a built-in text."""
    file = DATA_FOLDER / f"{name}.txt"
    if not file.is_file():
        raise CourseError(f"{file} is missing; rebuild it: python data/prepare.py")
    return file


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of a file, normalised; one notice if that changed it.

    The same on every machine: neither the locale nor the platform's line ends matter.
    """
    original = _decode(_read_bytes(Path(path)), encoding, path)
    text = normalise(original)
    if text != original:
        notice(
            f"{path}: byte-order mark, line ends or accents were normalised "
            f"(line feeds, Unicode NFC); {len(original)} characters became {len(text)}"
        )
    if len(text) < MINIMUM_CHARACTERS:
        held = f"{len(text)} character" + ("" if len(text) == 1 else "s")
        raise CourseError(
            f"{path} holds {held}; a corpus has at least {MINIMUM_CHARACTERS}, and thousands to "
            "learn anything from: use a longer text"
        )
    return text


def find_cuts(text: str) -> list[int]:
    """Where the validation and the test part begin: at 90 % and 95 %, or the blank line nearest.

    A blank line further away than 2.5 % of the text would skew the parts and is not taken.
    """
    reach = len(text) // 40
    cuts = []
    for mark in (len(text) * 90 // 100, len(text) * 95 // 100):
        blank_lines = re.finditer(r"\n\s*\n", text[mark - reach : mark + reach])
        ends = [mark - reach + blank.end() for blank in blank_lines]
        cuts.append(min(ends, key=lambda end: abs(end - mark), default=mark))
    return cuts


def require_windows(tokens: torch.Tensor, context_length: int, part: str = TRAINING) -> None:
    """Raise CourseError, before a model is built, if tokens (position) hold no window at all.

    A window takes context_length characters and one more, for each must have a next one to predict.
    """
    if len(tokens) > context_length:
        return
    fitting = f"a context_length of at most {len(tokens) - 1}, or " if len(tokens) > 1 else ""
    whole = -(-(context_length + 1) * 10 // 9)
    enough = f": {whole} characters, nine tenths of them to train on" if part == TRAINING else ""
    raise CourseError(
        f"{part} has {len(tokens)} characters: too short for context_length={context_length}, "
        f"which takes {context_length + 1}; use {fitting}a longer text{enough}"
    )


def _read_bytes(path: Path) -> bytes:
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise CourseError(  # before it is opened: a pipe would wait for somebody to write
            f"{str(path)!r} is a pipe or a device; a corpus is one text file: save the text to one"
        )
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: the name holds a NUL
        reason = getattr(error, "strerror", None) or str(error)
    name = repr(str(path))
    if os.path.isdir(path):
        raise CourseError(f"{name} is a folder; a corpus is one text file: name a file in it")
    if os.path.exists(path):
        raise CourseError(f"{name} cannot be read: {reason}; copy the text to a file that can")
    beside = os.listdir(path.parent) if os.path.isdir(path.parent) else []
    near = difflib.get_close_matches(path.name, [*BUILT_IN, *beside])
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    raise CourseError(
        f"there is no file {name} ({reason}); "
        f"name a text file, or a built-in corpus: {', '.join(BUILT_IN)}{meant}"
    )


def _require_encoding(encoding: str) -> None:
    try:
        if codecs.lookup(encoding).name in NO_FILES_ENCODINGS:
            raise LookupError(encoding)
        b"text".decode(encoding)
    except UnicodeDecodeError:
        pass  # known; these bytes are not in it
    except (LookupError, ValueError):
        raise CourseError(
            f"encoding {encoding!r} is unknown; use one of Python's names for text encodings, "
            "such as utf-8, utf-16, gb18030, big5, cp1252"
        ) from None


def _decode(data: bytes, encoding: str, path: str | os.PathLike[str]) -> str:
    """The text of some bytes, or a CourseError that says where they are no text in the encoding."""
    _require_encoding(encoding)
    _require_mark(data, encoding, path)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind the mark
        offset = error.start + len(data) - len(error.object)
    else:
        # UTF-16 without a mark is valid UTF-8 as long as it is English: each second byte is 0
        if text.count("\0") * 4 <= len(text):
            return text
        offset = data.index(0)
    guess = _guess_encoding(data)
    raise CourseError(
        f"{path} is not {encoding} text: byte 0x{data[offset]:02X} at offset {offset}; say which "
        f"encoding it has, perhaps {guess}: --encoding {guess} (in Python encoding={guess!r})"
    )


def _require_mark(data: bytes, encoding: str, path: str | os.PathLike[str]) -> None:
    """Refuse UTF-8 read as UTF-16 or UTF-32, which without a mark gives Chinese at random."""
    asked = codecs.lookup(encoding).name
    marked = data.startswith(tuple(BYTE_ORDER_MARKS))
    if not asked.startswith(("utf-16", "utf-32")) or marked or not data or 0 in data:
        return
    with contextlib.suppress(UnicodeDecodeError):
        data.decode("utf-8")
        raise CourseError(
            f"{path} is not {encoding} text: it has no byte-order mark and is valid utf-8; "
            "read it as that: --encoding utf-8 (in Python encoding='utf-8')"
        )


def _guess_encoding(data: bytes) -> str:
    """An encoding to suggest, for a person to judge; never used unasked."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return encoding
    if 0 in data:
        return "utf-16-le" if data[1::2].count(0) > data[::2].count(0) else "utf-16-be"
    beyond_ascii = len(data.translate(None, delete=bytes(range(128))))
    chinese = ("gb18030",) if beyond_ascii * 4 > len(data) else ()  # it accepts naïve in cp1252
    for encoding in ("utf-8", *chinese, "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"  # accepts anything
