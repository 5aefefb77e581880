"""Exercises and quiz of lesson 01: a tokenizer, one-hot vectors, a bigram model and its price."""

import math
from itertools import pairwise

import torch

from course_lib.exercises.model import Choice, Exercise, Misconception, Question


class Tokenizer:
    """Characters to whole numbers and back.

    vocabulary: a string, each different character of the text once, in the order of `sorted`;
    the number of a character is its place in it.
    """

    def __init__(self, text):
        self.vocabulary = "".join(sorted(set(text)))
        self.numbers = {character: number for number, character in enumerate(self.vocabulary)}

    def encode(self, text):
        """The characters' numbers, a list of ints. ValueError, naming it, at an unknown character."""
        for character in text:
            if character not in self.numbers:
                raise ValueError(f"{character!r} is not in the vocabulary {self.vocabulary!r}")
        return [self.numbers[character] for character in text]

    def decode(self, numbers):
        """The text that has these numbers, a string."""
        return "".join(self.vocabulary[number] for number in numbers)


def one_hot(ids, vocab_size):
    """Row i is 1 at place ids[i] and 0 elsewhere: (position,) → (position, vocab_size), float32."""
    return torch.eye(vocab_size)[ids]


def bigram_probabilities(counts, smoothing):
    """Counts (before, after) → probabilities of what comes after: same shape, rows sum to 1.

    `smoothing` is added to every count first.
    """
    raised = counts + smoothing
    return raised / raised.sum(dim=1, keepdim=True)


def mean_surprise(probabilities, ids):
    """Mean of −ln p over all pairs of neighbours in ids (position,), in nats, a float.

    probabilities: (before, after); p is the entry of the pair.
    """
    return -probabilities[ids[:-1], ids[1:]].log().mean().item()


def bits_per_character(nats):
    """A loss in nats per character → the same in bits per character, a float."""
    return nats / math.log(2)


# tokenizer


def _use_tokenizer(answer, text, sample, strange):
    """What a tokenizer made of `text` does with a sample, and with a text it cannot know."""
    tokenizer = answer(text)
    places = {character: number for number, character in enumerate(sorted(set(text)))}
    numbers = [places[character] for character in sample]
    vocabulary = tokenizer.vocabulary
    return {
        "vocabulary": "".join(vocabulary) if isinstance(vocabulary, (list, tuple)) else vocabulary,
        "encode": tokenizer.encode(sample),
        "decode": tokenizer.decode(numbers),
        "decode(encode)": tokenizer.decode(tokenizer.encode(sample)),
        "unknown character": _meet_strangers(tokenizer, strange, set(strange) - set(text)),
    }


def _meet_strangers(tokenizer, strange, unknown):
    """In words, what encode does with a text that has characters outside the vocabulary."""
    try:
        numbers = tokenizer.encode(strange)
    except NotImplementedError:
        raise
    except Exception as error:
        if not isinstance(error, ValueError):
            return f"no ValueError, but {type(error).__name__}"
        return _who_is_named(str(error), strange, unknown)
    if isinstance(numbers, Exception):
        return f"no error, but a {type(numbers).__name__} as the result"
    return f"no error, but {numbers!r}"


def _who_is_named(message, strange, unknown):
    """In words, whether a message says which character is unknown; the whole text does not say it."""
    if not any(character in message for character in unknown):
        return "a ValueError that does not name it"
    for echo in (strange, str(list(strange)), str(tuple(strange)), str(set(strange))):
        message = message.replace(echo, "")
    if any(character in message for character in unknown):
        return "a ValueError that names it"
    return "a ValueError that repeats the whole text"


def _tokenizer_cases():
    # each strange text has known characters as well, or the whole of it would name the unknown one
    yield "papaya", "yap", "pay7"
    yield "To be, or not to be:\nthat is the question.", "not:\nTo.", "so be €t"
    yield "那只动物没有过马路，因为它太累了。", "它没有动。", "它太宽了。"
    yield "abc", "", "caZb"


class _InOrderOfAppearance(Tokenizer):
    def __init__(self, text):
        self.vocabulary = "".join(dict.fromkeys(text))
        self.numbers = {character: number for number, character in enumerate(self.vocabulary)}


class _Repeated(Tokenizer):
    def __init__(self, text):
        self.vocabulary = "".join(sorted(text))
        self.numbers = {c: self.vocabulary.index(c) for c in self.vocabulary}


class _RepeatedEnumerated(Tokenizer):
    def __init__(self, text):
        self.vocabulary = "".join(sorted(text))
        self.numbers = {character: number for number, character in enumerate(self.vocabulary)}


class _FromOne(Tokenizer):
    def encode(self, text):
        return [number + 1 for number in super().encode(text)]

    def decode(self, numbers):
        return super().decode(number - 1 for number in numbers)


class _CodePoints(Tokenizer):
    def encode(self, text):
        return [ord(character) for character in text]

    def decode(self, numbers):
        return "".join(chr(number) for number in numbers)


class _LowerCase(Tokenizer):
    def __init__(self, text):
        super().__init__(text.lower())

    def encode(self, text):
        return super().encode(text.lower())


class _SkipsUnknown(Tokenizer):
    def encode(self, text):
        return [self.numbers[c] for c in text if c in self.numbers]


class _UnknownIsZero(Tokenizer):
    def encode(self, text):
        return [self.numbers.get(c, 0) for c in text]


class _UnknownIsMinusOne(Tokenizer):
    def encode(self, text):
        return [self.vocabulary.find(c) for c in text]


class _UnknownIsNew(Tokenizer):
    def encode(self, text):
        return [self.numbers.get(c, len(self.vocabulary)) for c in text]


class _UnknownIsNone(Tokenizer):
    def encode(self, text):
        return [self.numbers.get(c) for c in text]


class _KeyError(Tokenizer):
    def encode(self, text):
        return [self.numbers[c] for c in text]


class _Unnamed(Tokenizer):
    def encode(self, text):
        if not set(text) <= set(self.vocabulary):
            raise ValueError
        return super().encode(text)


class _EchoesTheText(Tokenizer):
    def encode(self, text):
        if not set(text) <= set(self.vocabulary):
            raise ValueError(f"unknown character in {text}")
        return super().encode(text)


class _PlainException(Tokenizer):
    def encode(self, text):
        if not set(text) <= set(self.vocabulary):
            raise Exception(text)
        return super().encode(text)


class _Assertion(Tokenizer):
    def encode(self, text):
        assert set(text) <= set(self.vocabulary)
        return super().encode(text)


class _SaysAndGivesNone(Tokenizer):
    def encode(self, text):
        return super().encode(text) if set(text) <= set(self.vocabulary) else None


class _ReturnsTheError(Tokenizer):
    def encode(self, text):
        try:
            return super().encode(text)
        except ValueError as error:
            return error


class _DecodesToAList(Tokenizer):
    def decode(self, numbers):
        return list(super().decode(numbers))


class _DecodesToAPrintedList(Tokenizer):
    def decode(self, numbers):
        return str(list(super().decode(numbers)))


class _DecodesWithSpaces(Tokenizer):
    def decode(self, numbers):
        return " ".join(super().decode(numbers))


class _Tensor(Tokenizer):
    def encode(self, text):
        return torch.tensor(super().encode(text))


class _DecodesTheFirst(Tokenizer):
    def decode(self, numbers):
        for number in numbers:
            return self.vocabulary[number]
        return ""


TOKENIZER = Exercise(
    id="01.tokenizer",
    title="A tokenizer",
    stars=2,
    minutes=8,
    solution=Tokenizer,
    call=_use_tokenizer,
    cases=_tokenizer_cases,
    misconceptions=(
        Misconception(
            "order of appearance",
            _InOrderOfAppearance,
            "Your vocabulary is in the order in which characters appear in the text. Sorted, two texts "
            "with the same characters give the same numbers, and a model can be used with both: "
            "`sorted(set(text))`.",
        ),
        Misconception(
            "characters repeated",
            _Repeated,
            "Your vocabulary holds a character as often as the text does. Each different one is needed "
            "once: a `set` of the text has no repetitions, and `sorted` puts it in order.",
        ),
        Misconception(
            "characters repeated, the last one counts",
            _RepeatedEnumerated,
            "Your vocabulary holds a character as often as the text does, and each number is that of its "
            "last copy. Take the repetitions out first: `sorted(set(text))`.",
        ),
        Misconception(
            "numbers from 1",
            _FromOne,
            "Your numbers begin with 1. A number is used as a row of a table, and Python's rows begin "
            "with 0.",
        ),
        Misconception(
            "Unicode codes",
            _CodePoints,
            "`ord` gives the Unicode code. It is a fine number for storing, but a table with a row for "
            "each code up to that of 马 (39,532) would be nearly all empty. Use the place in "
            "`vocabulary`; what is not in it is unknown.",
        ),
        Misconception(
            "small letters",
            _LowerCase,
            "Your tokenizer makes all letters small. Then `decode` cannot give back the text as it was, "
            "and for a model that writes verse a capital is worth knowing. Leave the letters as they are.",
        ),
        Misconception(
            "unknown characters left out",
            _SkipsUnknown,
            "Characters outside the vocabulary vanish without a word, so the model reads another text "
            "than the one you gave it, and you never learn of it. Raise a `ValueError` that names the "
            "character.",
        ),
        Misconception(
            "unknown becomes 0",
            _UnknownIsZero,
            "An unknown character gets the number 0, which is the number of another character: `decode` "
            "would give that one back. Raise a `ValueError` that names the unknown one.",
        ),
        Misconception(
            "unknown becomes −1",
            _UnknownIsMinusOne,
            "`find` gives −1 for what it does not find, and as a place −1 means *the last one*: an "
            "unknown character turns quietly into the last of your vocabulary. Raise a `ValueError` "
            "that names it.",
        ),
        Misconception(
            "unknown gets a number of its own",
            _UnknownIsNew,
            "One number more for everything unknown is a real design (it is often called UNK), but it "
            "forgets which character it was, so the text cannot be had back, and the table needs one "
            "row more. Here: raise a `ValueError` that names it.",
        ),
        Misconception(
            "unknown becomes None",
            _UnknownIsNone,
            "`get` gives `None` for what is not in the dictionary, and the trouble begins later, far "
            "from its cause. Raise a `ValueError` that names the character, here.",
        ),
        Misconception(
            "a KeyError",
            _KeyError,
            "All is right but for one thing: an unknown character ends in a `KeyError`, as a "
            "dictionary raises it. Look first (`if character not in …`) and raise a `ValueError` whose "
            "message names the character.",
        ),
        Misconception(
            "unnamed",
            _Unnamed,
            "The right kind of error, but its message does not say which character is unknown. (That of "
            "`index` says “substring not found”, and not which; and a message in quotation marks needs an "
            "`f` before it to fill in `{character}`.) Who pastes a page of text wants to know: "
            "look first (`if character not in …`), and put the character into the message.",
        ),
        Misconception(
            "the whole text in the message",
            _EchoesTheText,
            "The right kind of error, but its message repeats the whole text, and does not say which "
            "character of it is unknown. In a page of text one would have to search for it: look at the "
            "characters one by one (`for character in text: if character not in …`), and put the one "
            "that is not there into the message.",
        ),
        Misconception(
            "any exception",
            _PlainException,
            "`Exception` is the name of all errors together, so that nobody can catch yours alone. What "
            "came in has a value that is not allowed: `ValueError`.",
        ),
        Misconception(
            "an assertion",
            _Assertion,
            "An `assert` says that *your code* is wrong, and can be switched off (`python -O`). Here the "
            "text that came in is wrong: raise a `ValueError` that names the character.",
        ),
        Misconception(
            "None in place of an error",
            _SaysAndGivesNone,
            "With an unknown character your `encode` gives `None`, so that the next line fails in its "
            "place. An error stops where the trouble is: `raise ValueError(…)`, with the character in "
            "the message.",
        ),
        Misconception(
            "the error returned",
            _ReturnsTheError,
            "You *return* the error, as if it were a result. `raise` it.",
        ),
        Misconception(
            "a list of characters",
            _DecodesToAList,
            'Your `decode` gives a list of characters. `"".join(…)` makes one string of them.',
        ),
        Misconception(
            "a list written as text",
            _DecodesToAPrintedList,
            "`str` of a list writes it with brackets, quotation marks and commas, and they become part of "
            'the text. `"".join(…)` puts the characters together and adds nothing.',
        ),
        Misconception(
            "joined with spaces",
            _DecodesWithSpaces,
            'You join with `" "`, which puts a space between all characters. Join with the empty string, '
            '`"".join(…)`.',
        ),
        Misconception(
            "a tensor",
            _Tensor,
            "The numbers are right and come as a tensor. Asked for is a plain list of ints; whoever wants "
            "a tensor makes one of it.",
        ),
        Misconception(
            "the first character only",
            _DecodesTheFirst,
            "Your `decode` stops after the first character: the `return` stands inside the loop.",
        ),
    ),
    hints=(
        "`set(text)` holds each different character once, in no order; `sorted` puts it in one. "
        '`"".join(…)` makes a string of a list.',
        "A dictionary from character to number makes `encode` quick: `enumerate(self.vocabulary)` gives "
        "pairs of number and character. For `decode`, `self.vocabulary[number]` is enough.",
        'In `encode`, before anything else: `if character not in …: raise ValueError(f"{character!r} '
        'is not in the vocabulary")`.',
    ),
    why="The sorted set fixes one number for each character, whatever the order of the text. The "
    "dictionary finds it at once, where `index` would search. What is unknown stops with its name: "
    "better an error here than a wrong text in the model.",
)

# one-hot vectors


def _ids(length, vocab_size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab_size, (length,), generator=generator)


def _one_hot_cases():
    yield torch.tensor([1, 0, 1, 0, 2]), 3
    yield _ids(7, 5), 5
    yield _ids(3, 11, seed=1), 11
    yield _ids(13, 2, seed=2), 2


def _eye_of_length(ids, vocab_size):
    return torch.eye(len(ids), vocab_size)


def _all_columns(ids, vocab_size):
    rows = torch.zeros(len(ids), vocab_size)
    rows[:, ids] = 1
    return rows


def _whole_rows(ids, vocab_size):
    rows = torch.zeros(len(ids), vocab_size)
    rows[ids] = 1
    return rows


def _the_number_itself(ids, vocab_size):
    return one_hot(ids, vocab_size) * ids[:, None]


def _shifted(ids, vocab_size):
    return one_hot((ids - 1) % vocab_size, vocab_size)


ONE_HOT = Exercise(
    id="01.one-hot",
    title="One-hot vectors",
    stars=1,
    minutes=4,
    solution=one_hot,
    cases=_one_hot_cases,
    misconceptions=(
        Misconception(
            "whole numbers",
            lambda ids, vocab_size: torch.nn.functional.one_hot(ids, vocab_size),
            "The places are right, but these are whole numbers (int64), and `@` does not multiply them "
            "with a table of floats: `.float()` turns them into float32.",
        ),
        Misconception(
            "True and False",
            lambda ids, vocab_size: ids[:, None] == torch.arange(vocab_size),
            "A neat comparison: each number with each place. Its result is True and False; `.float()` "
            "makes 1 and 0 of them.",
        ),
        Misconception(
            "double precision",
            lambda ids, vocab_size: torch.eye(vocab_size, dtype=torch.float64)[ids],
            "The places are right; the numbers are float64, as NumPy and `.double()` make them. "
            "Tables are float32 here: `.float()`.",
        ),
        Misconception(
            "rows and columns swapped",
            lambda ids, vocab_size: one_hot(ids, vocab_size).T,
            "Your columns belong to the positions. A *row* belongs to a position, so that "
            "`one_hot(ids, …) @ table` gives a row of the table for each.",
        ),
        Misconception(
            "one vector for the whole text",
            lambda ids, vocab_size: one_hot(ids, vocab_size).sum(dim=0),
            "You have one vector for the whole text: it counts the characters and forgets their order. "
            "Each position gets a row of its own.",
        ),
        Misconception(
            "one vector for the whole text, without counting",
            lambda ids, vocab_size: one_hot(ids, vocab_size).amax(dim=0),
            "You have one vector with a 1 at every character that occurs. Each position gets a row of "
            "its own: (position, vocab_size).",
        ),
        Misconception(
            "the diagonal",
            _eye_of_length,
            "Your row i has its 1 at place i. The place is the character's number, `ids[i]`: pick the "
            "rows of a square identity matrix, `torch.eye(vocab_size)[ids]`.",
        ),
        Misconception(
            "every position's characters in every row",
            _all_columns,
            "`rows[:, ids] = 1` sets these columns in *all* rows. Pair each row with its own column: "
            "`rows[torch.arange(len(ids)), ids] = 1`.",
        ),
        Misconception(
            "whole rows",
            _whole_rows,
            "`rows[ids]` picks whole *rows*, and `ids` are places within a row: "
            "`rows[torch.arange(len(ids)), ids] = 1`, or pick from an identity matrix.",
        ),
        Misconception(
            "the number in its place",
            _the_number_itself,
            "You write the number itself where a 1 belongs. A number is a name here and no quantity: "
            "character 2 must not count twice as much as character 1.",
        ),
        Misconception(
            "counted from 1",
            _shifted,
            "Each 1 stands one place too far to the left, as if the numbers began with 1. They begin "
            "with 0: character 0 has its 1 in the first place.",
        ),
        Misconception(
            "as wide as the largest number",
            lambda ids, vocab_size: torch.nn.functional.one_hot(ids).float(),
            "Your rows are as wide as the largest number in *this* text asks for. A text need not hold the "
            "last character of the vocabulary: the width is `vocab_size`.",
        ),
        Misconception(
            "the identity matrix alone",
            lambda ids, vocab_size: torch.eye(vocab_size),
            "`torch.eye(vocab_size)` has the one-hot vectors of all characters, in order. Now pick those "
            "of the text: put `[ids]` after it.",
        ),
    ),
    hints=(
        "`torch.eye(3)` prints the one-hot vectors of the characters 0, 1 and 2. You need one of these "
        "rows for each position.",
        "A tensor of numbers in square brackets picks rows: `table[ids]`. Which table gives one-hot rows?",
    ),
    why="Row c of the identity matrix is the one-hot vector of character c, so picking rows by `ids` "
    "gives one for each position. A product with it picks rows of any other table in the same way.",
)

# bigram


def _counts(*shape, seed=0, most=20):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, most, shape, generator=generator)


def _bigram_cases():
    yield torch.tensor([[0, 1, 1], [2, 0, 0], [1, 0, 0]]), 1.0
    yield _counts(5, 7), 0.5
    yield _counts(11, 3, seed=1), 0.0
    yield _counts(2, 13, seed=2, most=3) - 1, 0.25
    yield _counts(7, 7, seed=3), 2.0


def _keepdim_forgotten(counts, smoothing):
    raised = counts + smoothing
    return raised / raised.sum(dim=1)


def _smoothed_afterwards(counts, smoothing):
    return counts / counts.sum(dim=1, keepdim=True) + smoothing


def _row_total_without(counts, smoothing):
    return (counts + smoothing) / counts.sum(dim=1, keepdim=True)


def _row_total_with_one(counts, smoothing):
    return (counts + smoothing) / (counts.sum(dim=1, keepdim=True) + smoothing)


BIGRAM = Exercise(
    id="01.bigram",
    title="From counts to probabilities",
    stars=1,
    minutes=5,
    solution=bigram_probabilities,
    cases=_bigram_cases,
    misconceptions=(
        Misconception(
            "down the columns",
            lambda counts, smoothing: (counts + smoothing) / (counts + smoothing).sum(dim=0),
            "Your *columns* sum to 1: you ask which character came before a given one. The model stands "
            "at a character and asks what comes after it, so each *row* shares out 1: `dim=1`.",
        ),
        Misconception(
            "all entries together",
            lambda counts, smoothing: (counts + smoothing) / (counts + smoothing).sum(),
            "All entries together sum to 1: that is how likely a *pair* is. Asked for is how likely a "
            "character is once we know the one before it, so each row sums to 1 by itself.",
        ),
        Misconception(
            "smoothing left out",
            lambda counts, smoothing: counts / counts.sum(dim=1, keepdim=True),
            "The shares are right, without the smoothing: pairs that were never counted get a "
            "probability of 0. Add `smoothing` to every count first.",
        ),
        Misconception(
            "smoothing always 1",
            lambda counts, smoothing: (counts + 1) / (counts + 1).sum(dim=1, keepdim=True),
            "You add 1 whatever is asked for. Add the argument `smoothing`.",
        ),
        Misconception(
            "smoothed afterwards",
            _smoothed_afterwards,
            "You add the smoothing to the *shares*, so a row no longer sums to 1. Add it to the counts, "
            "and then divide.",
        ),
        Misconception(
            "divided by the old total",
            _row_total_without,
            "Above the line the counts are raised, below it they are not, so a row sums to more than 1. "
            "Divide by the sum of the raised counts.",
        ),
        Misconception(
            "total raised once",
            _row_total_with_one,
            "You raise the row's total by the smoothing once. Every entry of the row was raised, so the "
            "total grows by it as many times as there are columns: sum the raised counts.",
        ),
        Misconception(
            "total raised by the number of columns",
            lambda counts, smoothing: (
                (counts + smoothing) / (counts.sum(dim=1, keepdim=True) + counts.shape[1])
            ),
            "You raise the row's total by 1 for each column, which is right for a smoothing of 1. In "
            "general it grows by `smoothing` for each column: sum the raised counts.",
        ),
        Misconception(
            "total raised once for each row",
            lambda counts, smoothing: (
                (counts + smoothing)
                / (counts.sum(dim=1, keepdim=True) + smoothing * counts.shape[0])
            ),
            "You raise the total by `smoothing` for each *row* of the table. The entries that were raised "
            "are those of one row, one for each *column*: `shape[1]`, or sum the raised counts.",
        ),
        Misconception(
            "only zeros raised",
            lambda counts, smoothing: (
                torch.where(counts == 0, smoothing, counts)
                / torch.where(counts == 0, smoothing, counts).sum(dim=1, keepdim=True)
            ),
            "You raise only the counts that are 0. Then a pair never seen can become as likely as one "
            "that was seen. Raise all of them alike.",
        ),
        Misconception(
            "keepdim forgotten",
            _keepdim_forgotten,
            "The row sums are right, but without `keepdim=True` they are a flat vector, and PyTorch lays "
            "it along the columns: entry [i, j] is divided by the sum of row j. Where the sizes differ it "
            "fails, where they agree it is quietly wrong.",
        ),
        Misconception(
            "softmax of the counts",
            lambda counts, smoothing: (counts + smoothing).float().softmax(dim=1),
            "A softmax takes exponentials first, so that a count that is higher by 5 becomes 148 times "
            "as likely. Counts are positive already: divide by their sum, no more.",
        ),
        Misconception(
            "raised counts, not yet shares",
            lambda counts, smoothing: counts + smoothing,
            "These are the raised counts. Divide each row by its sum.",
        ),
        Misconception(
            "whole-number division",
            lambda counts, smoothing: (
                (counts + smoothing) // (counts + smoothing).sum(dim=1, keepdim=True)
            ),
            "`//` drops the fraction, and a share is nothing but fraction. Use `/`.",
        ),
        Misconception(
            "divided by the largest",
            lambda counts, smoothing: (
                (counts + smoothing) / (counts + smoothing).amax(dim=1, keepdim=True)
            ),
            "You divide by the largest count of each row, so that the likeliest character gets 1. Shares "
            "of one whole are divided by the *sum* of the row.",
        ),
    ),
    hints=(
        "Two steps: raise every count by `smoothing`, then divide each row by its own sum.",
        "`raised.sum(dim=1)` adds up each row. Its shape is (before,): can (before, after) be divided by "
        "it, row by row?",
        "`raised.sum(dim=1, keepdim=True)` keeps the shape (before, 1), and each row meets its own sum.",
    ),
    why="A row holds what came after one character, so its shares of the row's total are the "
    "probabilities. These shares are also those that make the loss on the counted text smallest. The "
    "smoothing is a little of an even guess, mixed in: it keeps what was never seen possible.",
)

# loss


def _shares(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)).softmax(dim=-1)


def _loss_cases():
    yield torch.tensor([[0.2, 0.4, 0.4], [0.6, 0.2, 0.2], [0.5, 0.3, 0.2]]), torch.tensor([1, 0, 1])
    yield _shares(7, 5), _ids(13, 5, seed=1)
    yield _shares(3, 11, seed=2), _ids(17, 3, seed=3)
    yield _shares(5, 5, seed=4), _ids(3, 5, seed=5)
    yield _shares(2, 3, seed=6), _ids(101, 2, seed=7)
    yield torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]), torch.tensor([0, 1, 0, 0, 2])


def _of_pairs(probabilities, ids):
    return probabilities[ids[:-1], ids[1:]]


def _price(answer, probabilities, ids):
    """The answer's mean surprise; in words where it must be infinite, so that any finite one is alike.

    An answer that is right is also tried on a text so long that a loop over it takes too long.
    """
    found, right = answer(probabilities, ids), mean_surprise(probabilities, ids)
    if type(found) is not float:
        return found
    if math.isinf(right):
        return "infinite" if math.isinf(found) else "NaN" if math.isnan(found) else "finite"
    if len(ids) == 101 and math.isclose(found, right, rel_tol=1e-4):
        answer(probabilities, ids.repeat(10_000))  # a million characters
    return found


def _add_a_little(probabilities, ids):
    return -(_of_pairs(probabilities, ids) + 1e-9).log().mean().item()


def _by_math_log(probabilities, ids):
    rows = probabilities.tolist()
    pairs = pairwise(ids.tolist())
    return -sum(math.log(rows[before][after]) for before, after in pairs) / (len(ids) - 1)


LOSS = Exercise(
    id="01.loss",
    title="What a text costs a bigram model",
    stars=2,
    minutes=5,
    solution=mean_surprise,
    cases=_loss_cases,
    call=_price,
    seconds=6.0,
    misconceptions=(
        Misconception(
            "before and after swapped",
            lambda probabilities, ids: -probabilities[ids[1:], ids[:-1]].log().mean().item(),
            "Row and column are swapped. The row is the character before (`ids[:-1]`, all but the last), "
            "the column the one after it (`ids[1:]`, all but the first).",
        ),
        Misconception(
            "sum",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).log().sum().item(),
            "This is the sum of all surprises. It grows with the text; the *mean* lets texts of different "
            "lengths be compared.",
        ),
        Misconception(
            "divided by the number of characters",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).log().sum().item() / len(ids),
            "You divide by the number of characters. The first one is not predicted from anything: a "
            "text of n characters has n − 1 pairs.",
        ),
        Misconception(
            "a finite price at p = 0",
            _add_a_little,
            "Right where all probabilities are positive. A pair that the table calls impossible, and that "
            "comes nevertheless, gets a finite price with you, because p is kept away from 0 (by adding a "
            "little, or by `clamp`), or because such pairs are left out. They are the table's worst "
            "mistakes: to say *never* and be wrong costs infinitely much. Leave p as it is; `log` gives "
            "−inf there.",
        ),
        Misconception(
            "a logarithm that stops at 0",
            _by_math_log,
            "Right where all probabilities are positive. At p = 0 `math.log` stops with an error, and the "
            "price should be infinite: a tensor's own `.log()` gives −inf there. It also takes all pairs "
            "at once, and needs no loop.",
        ),
        Misconception(
            "the last pair left out",
            lambda probabilities, ids: -_of_pairs(probabilities, ids[:-1]).log().mean().item(),
            "Your last pair is missing (as with `ids[:-2]` and `ids[1:-1]`). The characters before are all "
            "but the last, `ids[:-1]`, those after are all but the first, `ids[1:]`.",
        ),
        Misconception(
            "the first pair left out",
            lambda probabilities, ids: -_of_pairs(probabilities, ids[1:]).log().mean().item(),
            "Your first pair is missing (as with `ids[1:-1]` and `ids[2:]`). The characters before are all "
            "but the last, `ids[:-1]`, those after are all but the first, `ids[1:]`.",
        ),
        Misconception(
            "minus forgotten",
            lambda probabilities, ids: _of_pairs(probabilities, ids).log().mean().item(),
            "The size is right, the sign is not: the logarithm of a probability is negative, and a "
            "surprise is minus that.",
        ),
        Misconception(
            "logarithm of the mean",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).mean().log().item(),
            "You take the mean first and the logarithm after it. Each pair has its own surprise, and "
            "the mean comes last: one pair with p near 0 has to hurt.",
        ),
        Misconception(
            "in bits",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).log2().mean().item(),
            "These are bits, from `log2`. Asked for are nats, from the natural logarithm: `log`. (Bits "
            "come soon.)",
        ),
        Misconception(
            "base 10",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).log10().mean().item(),
            "That is the logarithm to base 10. Nats come from the natural logarithm: `log`.",
        ),
        Misconception(
            "one minus p",
            lambda probabilities, ids: (1 - _of_pairs(probabilities, ids)).mean().item(),
            "1 − p is the probability of something else. The surprise is −ln p, as in lesson 00.",
        ),
        Misconception(
            "the mean probability",
            lambda probabilities, ids: _of_pairs(probabilities, ids).mean().item(),
            "This is the mean of the probabilities themselves. Take −ln of each first.",
        ),
        Misconception(
            "exponential of it",
            lambda probabilities, ids: (
                _of_pairs(probabilities, ids).log().mean().neg().exp().item()
            ),
            "This is e to the mean surprise: as many equally likely characters as the model hesitates "
            "between (its *perplexity*). Leave the exponential out.",
        ),
        Misconception(
            "the whole table",
            lambda probabilities, ids: -probabilities.log().mean().item(),
            "You average over the whole table, so the text plays no part. Look up the pairs that really "
            "occur in it, each as often as it does.",
        ),
        Misconception(
            "whole rows",
            lambda probabilities, ids: -probabilities[ids].log().mean().item(),
            "`probabilities[ids]` picks whole rows, and you average over all that *might* have come. "
            "The surprise is at the one character that did: `probabilities[ids[:-1], ids[1:]]`.",
        ),
        Misconception(
            "nll_loss of probabilities",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).mean().item(),
            "This is minus the mean *probability*: the logarithm is missing. (`nll_loss` does not take "
            "it either; it expects logarithms.)",
        ),
        Misconception(
            "the character itself",
            lambda probabilities, ids: -probabilities[ids, ids].log().mean().item(),
            "You look up each character after *itself*. The pairs are `ids[:-1]` and `ids[1:]`.",
        ),
        Misconception(
            "every row with every column",
            lambda probabilities, ids: -probabilities[ids[:-1]][:, ids[1:]].log().mean().item(),
            "Two pairs of brackets, one after the other, take every chosen row with every chosen column. "
            "One pair of brackets with both, `probabilities[ids[:-1], ids[1:]]`, takes them pair by pair.",
        ),
        Misconception(
            "every second pair",
            lambda probabilities, ids: (
                -probabilities[ids[0 : len(ids) // 2 * 2 : 2], ids[1::2]].log().mean().item()
            ),
            "You cut the text into pairs that do not overlap. Each character but the first is predicted "
            "from the one before it, so the pairs overlap: `ids[:-1]` with `ids[1:]`.",
        ),
        Misconception(
            "round to the beginning",
            lambda probabilities, ids: -probabilities[ids, ids.roll(-1)].log().mean().item(),
            "Your last pair joins the end of the text to its beginning (`roll` goes round). After the "
            "last character nothing comes: n characters have n − 1 pairs.",
        ),
        Misconception(
            "weighted by p",
            lambda probabilities, ids: (
                -(_of_pairs(probabilities, ids) * _of_pairs(probabilities, ids).log()).mean().item()
            ),
            "You weigh each surprise with p. The text does the weighing: a pair that comes often is "
            "counted often. Leave the factor p out.",
        ),
        Misconception(
            "cross_entropy of probabilities",
            lambda probabilities, ids: torch.nn.functional.cross_entropy(
                probabilities[ids[:-1]], ids[1:]
            ).item(),
            "`cross_entropy` expects scores and makes probabilities of them itself; yours are "
            "probabilities already, so they are squeezed twice. Take −ln of the entries.",
        ),
        Misconception(
            "a tensor",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).log().mean(),
            "The number is right and comes as a tensor; `.item()` takes it out.",
        ),
        Misconception(
            "surprises, not their mean",
            lambda probabilities, ids: -_of_pairs(probabilities, ids).log(),
            "These are the surprises of all pairs. Take their mean, and `.item()` makes a float of it.",
        ),
    ),
    hints=(
        "The pairs are (ids[0], ids[1]), (ids[1], ids[2]), … How do you get all the first ones, and all "
        "the second ones, without a loop?",
        "`probabilities[rows, columns]` with two tensors of the same length takes entry by entry: "
        "`rows = ids[:-1]`, `columns = ids[1:]`.",
        "Of these entries `.log()`, `.mean()`, a minus, and `.item()` to get a float.",
    ),
    why="Each character but the first is predicted once, from the one before it. The mean of −ln p is "
    "the loss that every model of this course is measured by.",
)

# bits

BITS = Exercise(
    id="01.bits",
    title="Nats and bits",
    stars=1,
    minutes=3,
    solution=bits_per_character,
    cases=lambda: [(math.log(2),), (math.log(63),), (2.5,), (1.0,), (0.0,)],
    tolerance=3e-4,  # 0.693 will do for ln 2
    misconceptions=(
        Misconception(
            "multiplied",
            lambda nats: nats * math.log(2),
            "You multiply by ln 2 ≈ 0.69 (or divide by log₂ e, which is the same), so you get fewer bits than "
            "nats. Test it with an even guess "
            "among two: ln 2 nats have to be 1 bit. Divide.",
        ),
        Misconception(
            "logarithm of the loss",
            lambda nats: math.log2(nats),
            "A loss is a logarithm already; you take another one. log₂ p = ln p / ln 2: to change the "
            "base, divide.",
        ),
        Misconception(
            "divided by ln 10",
            lambda nats: nats / math.log(10),
            "That divides by ln 10 and gives decimal digits. Bits have base 2: `math.log(2)`.",
        ),
        Misconception(
            "divided by 2",
            lambda nats: nats / 2,
            "You divide by 2, the base. To change a logarithm's base, divide by the *logarithm* of the "
            "new one: ln 2.",
        ),
        Misconception(
            "a power of 2",
            lambda nats: 2**nats,
            "2 to the loss undoes a logarithm to base 2, and this one has base e. Besides, a number of "
            "equal possibilities is not asked for. Divide by ln 2.",
        ),
        Misconception(
            "a power of e",
            lambda nats: math.exp(nats),
            "e to the loss is how many equally likely characters the model hesitates between. Bits are "
            "the loss itself in another unit: divide by ln 2.",
        ),
        Misconception(
            "divided by 8",
            lambda nats: nats / 8,
            "A byte has 8 bits, but a nat is no byte. One bit is ln 2 nats: divide by that.",
        ),
        Misconception(
            "upside down",
            lambda nats: math.log(2) / nats if nats else math.inf,
            "The division is upside down: nats / ln 2.",
        ),
        Misconception(
            "the sign changed",
            lambda nats: -nats / math.log(2),
            "The size is right. The loss is positive already (−ln p), so no further minus is needed.",
        ),
        Misconception(
            "divided by log₂ 2",
            lambda nats: nats / math.log2(2),
            "The number that came in goes out again. (`math.log2(2)` is 1.) A nat is worth more than a "
            "bit; divide by the *natural* logarithm of 2, `math.log(2)`.",
        ),
        Misconception(
            "divided by log₁₀ 2",
            lambda nats: nats / math.log10(2),
            "You divide by the decimal logarithm of 2. Nats are natural logarithms: `math.log(2)`.",
        ),
        Misconception(
            "ln 2 rounded",
            lambda nats: nats / 0.69,
            "Right to two digits: ln 2 is 0.693…, and `math.log(2)` has all of its digits.",
        ),
        Misconception(
            "rounded too far",
            lambda nats: nats * 1.44,
            "Right to two digits. `math.log(2)` has them all: divide by it.",
        ),
    ),
    hints=(
        "An even guess among two costs ln 2 nats and, by definition, 1 bit. Which operation makes 1 of "
        "ln 2?",
        "log₂ x = ln x / ln 2, and `math.log` is ln.",
    ),
    why="A bit is the surprise at the fall of a fair coin, −ln ½ = ln 2 nats. So nats are divided by "
    "ln 2 ≈ 0.693: a loss in bits is 1.44 times the one in nats.",
)

EXERCISES = (TOKENIZER, ONE_HOT, BIGRAM, LOSS, BITS)

QUIZ = (
    Question(
        "In a vocabulary, “c” has the number 12 and “d” the number 13. What does that tell a model about the two?",
        (
            Choice(
                "Nothing: a number is a name, and says which row of the embedding to take.",
                True,
                "What the two have in common has to be learned, and is found in their vectors.",
            ),
            Choice(
                "They are used alike, because their numbers are close.",
                False,
                "Sorting put them side by side. A product with one-hot vectors treats any two numbers as "
                "equally far apart.",
            ),
            Choice(
                "“d” is a little more frequent, or a little larger.",
                False,
                "The vocabulary is sorted by character code, and knows neither frequency nor size.",
            ),
        ),
    ),
    Question(
        "Which of these statements about an embedding, a table with a row for each character, are true?",
        (
            Choice(
                "Looking up a row is the product of a one-hot vector with the table.",
                True,
                "The 1 picks its row, the zeros add nothing; looking up saves the work.",
            ),
            Choice(
                "Its entries are parameters, which training changes.",
                True,
                "It begins at random. In our two-number embedding the vowels found each other by "
                "training alone.",
            ),
            Choice(
                "The vector of a character depends on the text around it.",
                False,
                "The same character gets the same row everywhere. To let the surroundings in is what "
                "attention is for.",
            ),
        ),
    ),
    Question(
        "A bigram model without smoothing gives the probability 0 to one pair of a text with 100,000 pairs. "
        "What is its mean surprise on this text?",
        (
            Choice(
                "ln 63.",
                False,
                "That is the price of an even guess. A zero is a much stronger claim: never.",
            ),
            Choice(
                "Hardly changed: one pair in 100,000 cannot matter.",
                False,
                "It would not, if its surprise were finite. At p = 0 it is not.",
            ),
            Choice(
                "Infinite.",
                True,
                "−ln 0 is infinite, and one infinite term makes the mean infinite.",
            ),
        ),
    ),
    Question(
        "A model has a loss of 1.386 = ln 4 nats per character. What does that mean?",
        (
            Choice(
                "It is as uncertain as an even guess among 4 characters.",
                True,
                "An even guess among n costs ln n.",
            ),
            Choice(
                "It guesses right one time in four.",
                False,
                "A mean surprise does not say how often the likeliest character comes: some guesses are "
                "nearly certain, others wide open.",
            ),
            Choice(
                "2 bits per character.",
                True,
                "1.386 / 0.693 = 2.",
            ),
        ),
    ),
    Question(
        "The LSTM did not learn to recall a letter 64 characters back in 300 steps; attention did. Why?",
        (
            Choice(
                "An LSTM cannot hold a letter for so long, whatever its parameters.",
                False,
                "With forget gates that begin open, three of five runs learned it in the same 300 "
                "steps. It is hard to learn, and not impossible.",
            ),
            Choice(
                "On the way back through 64 steps the gradient has nearly vanished; attention reaches the letter in one.",
                True,
                "In a newborn LSTM more than a third is lost with each character. Where gates that begin "
                "open let the gradient through, most runs learn it. Attention has a direct path, "
                "whatever the distance.",
            ),
            Choice(
                "Attention does less arithmetic.",
                False,
                "Here it even does, since only the question mark reads; but that is not why it learned. What "
                "is short is its path to the letter. Where every character reads, attention compares each with "
                "all, which for long texts is more arithmetic.",
            ),
        ),
    ),
)
