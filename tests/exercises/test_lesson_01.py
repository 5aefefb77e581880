"""Lesson 01's checks: other right ways pass, and wrong ones that nobody foresaw are told why."""

import math

import pytest
import torch
from torch.nn import functional

from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find


class ByList:
    """A list for a vocabulary, no dictionary, and both ways by comprehension."""

    def __init__(self, text):
        self.vocabulary = sorted(set(text))

    def encode(self, text):
        strangers = set(text) - set(self.vocabulary)
        if strangers:
            raise ValueError("I do not know " + ", ".join(strangers))
        return [self.vocabulary.index(character) for character in text]

    def decode(self, numbers):
        text = ""
        for number in numbers:
            text += self.vocabulary[number]
        return text


class ByTwoDictionaries:
    def __init__(self, text):
        self.vocabulary = "".join(sorted(set(text)))
        self.to_number = {c: i for i, c in enumerate(self.vocabulary)}
        self.to_character = dict(enumerate(self.vocabulary))

    def encode(self, text):
        numbers = []
        for character in text:
            try:
                numbers.append(self.to_number[character])
            except KeyError:
                raise ValueError(f"unknown: {character}") from None
        return numbers

    def decode(self, numbers):
        return "".join(map(self.to_character.__getitem__, numbers))


class NamesItBesideTheText(ByList):
    """Its message has the whole text too, and says which character it means."""

    def encode(self, text):
        for character in text:
            if character not in self.vocabulary:
                raise ValueError(f"{character!r}, at place {text.index(character)} of {text!r}")
        return super().encode(text)


def one_hot_by_scatter(ids, vocab_size):
    return torch.zeros(len(ids), vocab_size).scatter_(1, ids[:, None], 1.0)


def one_hot_by_loop(ids, vocab_size):
    rows = torch.zeros(len(ids), vocab_size)
    for i in range(len(ids)):
        rows[i, ids[i]] = 1
    return rows


def bigram_by_rows(counts, smoothing):
    return torch.stack([(row + smoothing) / (row + smoothing).sum() for row in counts])


def bigram_by_total(counts, smoothing):
    total = counts.sum(-1) + smoothing * counts.shape[1]
    return ((counts + smoothing).T / total).T


def loss_by_flat_table(probabilities, ids):
    places = ids[:-1] * probabilities.shape[1] + ids[1:]
    return torch.log(probabilities.flatten()[places]).neg().mean().item()


def loss_by_counts(probabilities, ids):
    """Each kind of pair that occurs once, weighed by how often it does."""
    times = torch.bincount(
        ids[:-1] * probabilities.shape[1] + ids[1:], minlength=probabilities.numel()
    )
    surprises = -probabilities.flatten().log() * times
    return surprises[times > 0].sum().item() / (len(ids) - 1)


def loss_by_torch(probabilities, ids):
    return functional.nll_loss(probabilities.log()[ids[:-1]], ids[1:]).item()


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("01.tokenizer", ByList),
        ("01.tokenizer", ByTwoDictionaries),
        ("01.tokenizer", NamesItBesideTheText),
        ("01.one-hot", one_hot_by_scatter),
        ("01.one-hot", one_hot_by_loop),
        ("01.one-hot", lambda ids, vocab_size: functional.one_hot(ids, vocab_size).float()),
        ("01.bigram", bigram_by_rows),
        ("01.bigram", bigram_by_total),
        (
            "01.bigram",
            lambda counts, smoothing: functional.normalize(counts + smoothing, p=1, dim=-1),
        ),
        ("01.loss", loss_by_torch),
        ("01.loss", loss_by_flat_table),
        ("01.loss", loss_by_counts),
        ("01.bits", lambda nats: math.log2(math.exp(nats))),
        ("01.bits", lambda nats: nats / 0.693),
        ("01.bits", lambda nats: nats * math.log2(math.e)),
    ],
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


class EncodesToATuple(ByList):
    def encode(self, text):
        return tuple(super().encode(text))


class Grows(ByTwoDictionaries):
    """Takes up what it does not know: another number at another time."""

    def encode(self, text):
        for character in text:
            self.to_number.setdefault(character, len(self.to_number) + 7)
        return super().encode(text)


class SaysAndGivesNothing(ByList):
    def encode(self, text):
        try:
            return super().encode(text)
        except ValueError as error:
            print(error)
            return []


class TableOfWords(ByList):
    def __init__(self, text):
        self.vocabulary = sorted(set(text.split()))


def of_the_likeliest(probabilities, ids):
    return -probabilities[ids[:-1]].amax(dim=-1).log().mean().item()


@pytest.mark.parametrize(
    ("exercise", "answer", "words"),
    [
        ("01.tokenizer", EncodesToATuple, "a Python tuple of 3; expected is a Python list of 3"),
        ("01.tokenizer", Grows, "'no error, but [1, 0, 2, 10]'"),
        ("01.tokenizer", SaysAndGivesNothing, "'no error, but []'"),
        ("01.tokenizer", TableOfWords, "I do not know"),
        ("01.one-hot", lambda ids, vocab_size: torch.eye(3)[ids], "IndexError"),
        ("01.one-hot", lambda ids, vocab_size: torch.eye(vocab_size + 1)[ids], "Look at axis 1"),
        ("01.bigram", lambda counts, smoothing: (counts + smoothing).log(), "expected `0.2`"),
        ("01.bigram", lambda counts, smoothing: (counts + smoothing).softmax(0), "entries differ"),
        ("01.loss", of_the_likeliest, "Expected"),
        ("01.loss", lambda probabilities, ids: math.log(len(probabilities)), "Expected `0.7136`"),
        ("01.bits", lambda nats: round(nats / math.log(2), 1), "Expected `5.977`, got `6`"),
        ("01.bits", lambda nats: 1.0, "the same result whatever it is given"),
    ],
)
def test_a_wrong_way_that_was_not_foreseen_is_told_what_differs(exercise, answer, words):
    verdict = examine(find(exercise), answer)
    assert verdict.status == "not yet" and verdict.misconception is None
    assert words in verdict.message, verdict


def raising(say):
    """A tokenizer whose error is what `say` makes of the whole text."""

    class Raises(ByList):
        def encode(self, text):
            if not set(text) <= set(self.vocabulary):
                raise say(text)
            return super().encode(text)

    return Raises


def of_pairs(probabilities, ids):
    return probabilities[ids[:-1], ids[1:]]


@pytest.mark.parametrize(
    ("exercise", "answer", "misconception"),
    [
        # a message that repeats the text says no more than the text does, however it is written
        *(
            ("01.tokenizer", raising(say), "the whole text in the message")
            for say in (
                lambda text: ValueError(f"unknown in {text}"),
                lambda text: ValueError(f"{text!r} has an unknown character"),
                lambda text: ValueError(list(text)),
                lambda text: ValueError("one of these is unknown: " + str(set(text))),
            )
        ),
        ("01.tokenizer", raising(lambda text: KeyError(text[-1])), "a KeyError"),
        # a price at p = 0, whatever it is
        (
            "01.loss",
            lambda p, ids: -(of_pairs(p, ids) + 1e-12).log().mean().item(),
            "a finite price at p = 0",
        ),
        (
            "01.loss",
            lambda p, ids: -of_pairs(p, ids).clamp(min=1e-30).log().mean().item(),
            "a finite price at p = 0",
        ),
        (
            "01.loss",
            lambda p, ids: -of_pairs(p, ids).log().nan_to_num(neginf=0.0).mean().item(),
            "a finite price at p = 0",
        ),
        (
            "01.loss",
            lambda p, ids: -(q := of_pairs(p, ids))[q > 0].log().mean().item(),
            "a finite price at p = 0",
        ),
        (
            "01.loss",
            lambda p, ids: -p[ids[:-2], ids[1:-1]].log().mean().item(),
            "the last pair left out",
        ),
        (
            "01.loss",
            lambda p, ids: -p[ids[1:-1], ids[2:]].log().mean().item(),
            "the first pair left out",
        ),
    ],
)
def test_a_mistake_is_recognised_however_it_is_written(exercise, answer, misconception):
    assert examine(find(exercise), answer).misconception == misconception


def test_a_message_may_show_the_vocabulary():
    class ShowsIt(ByList):
        def encode(self, text):
            if missing := sorted(set(text) - set(self.vocabulary)):
                raise ValueError(f"{missing} missing in {self.vocabulary}")
            return super().encode(text)

    assert examine(find("01.tokenizer"), ShowsIt).passed


def loss_by_loop(probabilities, ids):
    """Over the long text it takes seconds; here for ever, so that no machine is quick enough."""
    total = 0.0
    for i in range(len(ids) - 1):
        total -= probabilities[ids[i], ids[i + 1]].log().item()
        while len(ids) > 100_000:
            pass
    return total / (len(ids) - 1)


def test_a_loop_over_the_pairs_is_stopped_at_the_long_text():
    verdict = examine(find("01.loss"), loss_by_loop)
    assert verdict.reason == "time" and "one by one" in verdict.message, verdict


def test_a_table_of_every_row_with_every_column_never_meets_the_long_text():
    """It would need a terabyte and more."""
    answer = lambda p, ids: -p[ids[:-1]][:, ids[1:]].log().mean().item()  # noqa: E731
    assert examine(find("01.loss"), answer).misconception == "every row with every column"
