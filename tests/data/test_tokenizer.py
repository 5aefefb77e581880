import unicodedata

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.data.tokenizer import CharTokenizer, describe, normalise
from course_lib.runtime import CourseError

ABC = CharTokenizer.from_text("abcabc\n" * 200)
TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1)  # no surrogates
LINE_ENDS_AND_ACCENTS = st.text(alphabet="\ufeff\r\ne\u0301\u0323é한\u1112\u1161ab", min_size=1)


# --- oracle: the dictionary that lesson 01 begins with


@given(TEXTS)
def test_encode_equals_a_dictionary(text):
    text = unicodedata.normalize("NFC", text.replace("\ufeff", "").replace("\r", "") + ".")
    number_of = {character: number for number, character in enumerate(sorted(set(text)))}
    ids = CharTokenizer.from_text(text).encode(text)
    assert ids.tolist() == [number_of[character] for character in text]
    assert ids.dtype == torch.int64


def test_vocabulary_is_sorted_by_code_point():
    tokenizer = CharTokenizer.from_text("é床🙂aA\n")
    assert tokenizer.vocabulary == "\nAaé床🙂"
    assert tokenizer.vocab_size == 6
    assert tokenizer.encode("A🙂\n").tolist() == [1, 5, 0]
    assert tokenizer.decode([5, 0, 3]) == "🙂\né"


# --- laws


@given(TEXTS | LINE_ENDS_AND_ACCENTS)
def test_round_trip_gives_the_normalised_text(text):
    normalised = normalise(text)
    if normalised:
        tokenizer = CharTokenizer.from_text(text)
        assert tokenizer.decode(tokenizer.encode(text)) == normalised
        assert CharTokenizer.from_text(normalised) == tokenizer


@given(TEXTS | LINE_ENDS_AND_ACCENTS)
def test_normalising_twice_changes_nothing_more(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    "text",
    [
        "👨‍👩‍👧",  # one family, five code points
        "nul \0 inside",
        "line\u2028separator",
        "mark \ufeff inside",
        "q\u0303 has no composed form",
        "床前看月光，疑是地上霜。\n",
    ],
)
def test_unusual_characters_round_trip_exactly(text):
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode(text)) == len(text)


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("\ufeffab\r\nc", "ab\nc"),
        ("\ufeff\ufeffab", "ab"),
        ("ab\rc", "ab\nc"),
        ("a\r\r\nb", "a\n\nb"),
        ("cafe\u0301", "café"),
        ("\u1112\u1161\u11ab", "한"),
    ],
)
def test_a_prompt_is_normalised_like_the_corpus(spelled, plain):
    assert normalise(spelled) == plain
    tokenizer = CharTokenizer.from_text(plain)
    assert CharTokenizer.from_text(spelled) == tokenizer
    assert torch.equal(tokenizer.encode(spelled), tokenizer.encode(plain))


def test_decode_takes_tensors_arrays_lists_ranges_and_one_number():
    ids = ABC.encode("cab\n")
    alike = [ids, ids.int(), ids.to(torch.uint8), ids.numpy(), ids.tolist(), tuple(ids.tolist())]
    assert [ABC.decode(same) for same in alike] == ["cab\n"] * len(alike)
    assert ABC.decode(range(4)) == "\nabc"
    assert ABC.decode(3) == ABC.decode(ids[0]) == ABC.decode(np.int64(3)) == "c"


def test_small_integers_are_not_too_small_for_a_large_vocabulary():
    tokenizer = CharTokenizer("".join(map(chr, range(0x4E00, 0x4E00 + 3000))))
    assert tokenizer.decode(torch.tensor([200], dtype=torch.uint8)) == chr(0x4E00 + 200)


def test_the_empty_text_is_no_tokens():
    assert ABC.encode("").shape == (0,)
    assert ABC.encode("").dtype == torch.int64
    assert ABC.decode([]) == ABC.decode(torch.tensor([], dtype=torch.int64)) == ""


def test_equal_vocabularies_make_equal_tokenizers():
    assert CharTokenizer("\nabc") == ABC
    assert hash(CharTokenizer("\nabc")) == hash(ABC)
    assert CharTokenizer("abc") != ABC


# --- refusals


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("d", "'d' U+0064; known"),
        ("a?b", "'?' U+003F; known"),
        ("zAz", "'z' U+007A, 'A' U+0041; known"),
        ("e\u0301", "'é' U+00E9; known"),
        ("q\u0303", "'q' U+0071, '\\u0303' U+0303; known"),  # an accent alone is not readable
        ("\U0001f642\ufeff", "'🙂' U+1F642, '\\ufeff' U+FEFF; known"),
        ("ABCDEFGHIJ", "'H' U+0048 and 2 more; known"),
        ("床" * 500 + "a", "vocabulary: '床' U+5E8A; known"),
    ],
)
def test_unknown_characters_are_named_once_on_one_line(text, named):
    with pytest.raises(CourseError) as caught:
        ABC.encode(text)
    message = str(caught.value)
    assert named in message
    assert r"known are '\nabc'" in message
    assert "\n" not in message


def test_a_large_vocabulary_is_shown_by_its_beginning():
    tokenizer = CharTokenizer("".join(map(chr, range(0x4E00, 0x4E00 + 3000))))
    with pytest.raises(CourseError, match=r"known are '一丁.*' and 2980 more") as caught:
        tokenizer.encode("a")
    assert len(str(caught.value)) < 250
    assert len(repr(tokenizer)) < 100


@pytest.mark.parametrize("surrogate", ["\ud800", "\udcff"])
def test_a_lone_surrogate_is_refused_as_what_it_is(surrogate):
    expected = f"U\\+{ord(surrogate):04X} at position 2, half of a surrogate pair"
    with pytest.raises(CourseError, match=expected):
        ABC.encode("ab" + surrogate)
    with pytest.raises(CourseError, match=expected):
        CharTokenizer("ab" + surrogate)


@pytest.mark.parametrize(("ids", "shown"), [([0, 4], "id 4 "), ([-1], "id -1 "), (99, "id 99 ")])
def test_ids_outside_the_vocabulary_are_refused(ids, shown):
    with pytest.raises(CourseError, match=shown + ".*run from 0 to 3"):
        ABC.decode(ids)


@pytest.mark.parametrize("ids", [[0.0], [True], [[0, 1]], torch.zeros(1, 2, dtype=torch.int64)])
def test_only_one_row_of_whole_numbers_can_be_decoded(ids):
    with pytest.raises(CourseError, match=r"use whole numbers of shape \(position\)"):
        ABC.decode(ids)


@pytest.mark.parametrize("vocabulary", ["ba", "aab"])
def test_an_unsorted_or_repeating_vocabulary_is_refused(vocabulary):
    with pytest.raises(CourseError, match="once, sorted by code point"):
        CharTokenizer(vocabulary)


def test_no_text_gives_no_tokenizer():
    with pytest.raises(CourseError, match="vocabulary is empty"):
        CharTokenizer.from_text("\ufeff")


def test_describe_tells_invisible_characters_apart():
    assert describe("d") == "'d' U+0064"
    assert describe("\n") == r"'\n' U+000A"
    assert describe("\u0301") == r"'\u0301' U+0301"
    assert describe("\u200b") == r"'\u200b' U+200B"
