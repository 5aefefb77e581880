import os
import re
import subprocess
import sys
import unicodedata
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.data import corpora
from course_lib.data.corpora import find_cuts, load_corpus, read_text, require_windows
from course_lib.runtime import PROJECT_FOLDER, CourseError, CourseNotice

ENGLISH = "It was too tired.\n" * 9
NO_ENCODINGS = ("idna", "punycode", "unicode_escape", "Raw-Unicode-Escape", "undefined", "rot13")
CHINESE = "床前看月光，疑是地上霜。\n" * 9


@pytest.fixture
def put(tmp_path, monkeypatch):
    """A function that writes bytes to a file of the current folder and gives the file's name."""
    monkeypatch.chdir(tmp_path)

    def write(content, name="poem.txt"):
        Path(name).write_bytes(content)
        return name

    return write


def refusal(*arguments, **options):
    """The message that load_corpus refuses with, on one line."""
    with pytest.raises(CourseError) as caught:
        load_corpus(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def texts_of(corpus):
    parts = (corpus.train, corpus.validation, corpus.test)
    assert all(part.dtype == torch.int64 and part.dim() == 1 for part in parts)
    return [corpus.tokenizer.decode(part) for part in parts]


# --- oracle: the built-in texts, cut with plain Python


def test_shakespeare_is_cut_at_nine_tenths_and_has_a_test_file():
    text = (corpora.DATA_FOLDER / "shakespeare.txt").read_bytes().decode("ascii")
    rest = (corpora.DATA_FOLDER / "shakespeare-test.txt").read_bytes().decode("ascii")
    corpus = load_corpus("shakespeare")
    assert texts_of(corpus) == [text[:1_018_740], text[1_018_740:], rest]
    assert (len(text), len(rest), corpus.tokenizer.vocab_size) == (1_131_934, 56_856, 63)
    assert corpus.tokenizer.vocabulary == "".join(sorted(set(text)))
    assert corpus.name == "shakespeare"
    assert corpus.source == corpora.DATA_FOLDER / "shakespeare.txt"


def test_tang_verse_is_cut_between_poems():
    text = (corpora.DATA_FOLDER / "tang.txt").read_bytes().decode("utf-8")
    corpus = load_corpus("tang")
    train, validation, test = texts_of(corpus)
    assert train + validation + test == text
    assert corpus.tokenizer.vocab_size == 3002
    assert train.endswith("。\n\n")
    assert validation.endswith("。\n\n")
    poems = [poem for part in (train, validation, test) for poem in part.strip("\n").split("\n\n")]
    assert poems == text.strip("\n").split("\n\n")
    assert [len(part) for part in (train, validation, test)] == [944_655, 52_479, 52_483]


@pytest.mark.parametrize("name", corpora.BUILT_IN)
def test_built_in_texts_are_already_normalised(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_corpus(name)


# --- laws


def test_a_file_is_cut_90_5_5_by_characters_where_no_blank_line_is_near(put):
    text = "abcd\n" * 200
    corpus = load_corpus(put(text.encode()))
    assert texts_of(corpus) == [text[:900], text[900:950], text[950:]]
    assert corpus.name == "poem.txt"
    assert corpus.source == Path("poem.txt")


def test_a_file_is_cut_after_the_nearest_blank_line(put):
    poems = [f"{number:03} abc\nabcdefgh\n" for number in range(100)]
    corpus = load_corpus(put("\n".join(poems).encode()))
    assert [part.count("abcdefgh") for part in texts_of(corpus)] == [90, 5, 5]
    assert [part[:3] for part in texts_of(corpus)] == ["000", "090", "095"]


@pytest.mark.parametrize("blank", ["\n\n", "\n \n", "\n\t\u3000\n", "\n\n\n"])
def test_a_line_of_spaces_is_a_blank_line(blank):
    text = "x" * 905 + blank + "y" * 1000
    text = text[:1000]
    assert find_cuts(text) == [905 + len(blank), 950]


def test_a_blank_line_too_far_away_does_not_skew_the_parts():
    title = "Title\n\n" + "x" * 993
    assert find_cuts(title) == [900, 950]


@given(st.text(alphabet="ab\n", min_size=corpora.MINIMUM_CHARACTERS, max_size=300))
def test_each_part_has_a_character(text):
    first, second = find_cuts(text)
    assert 0 < first < second < len(text)


def test_the_same_text_with_mark_and_carriage_returns_gives_the_same_tokens(put):
    plain = load_corpus(put(ENGLISH.encode(), "plain.txt"))
    for number, spelled in enumerate(
        [
            "\ufeff" + ENGLISH,
            ENGLISH.replace("\n", "\r\n"),
            "\ufeff" + ENGLISH.replace("\n", "\r\n"),
            ENGLISH.replace("\n", "\r"),
        ]
    ):
        name = put(spelled.encode("utf-8"), f"{number}.txt")
        with pytest.warns(CourseNotice) as notices:
            corpus = load_corpus(name)
        assert len(notices) == 1
        assert str(notices[0].message).startswith(f"{name}: byte-order mark, line ends or accents")
        assert corpus.tokenizer == plain.tokenizer
        assert torch.equal(corpus.train, plain.train)


def test_composed_and_decomposed_accents_give_the_same_tokens(put):
    text = "café 한국\n" * 20
    composed = load_corpus(put(text.encode("utf-8"), "composed.txt"))
    with pytest.warns(CourseNotice, match="Unicode NFC"):
        decomposed = load_corpus(put(unicodedata.normalize("NFD", text).encode("utf-8")))
    assert torch.equal(composed.train, decomposed.train)
    assert composed.tokenizer.encode("cafe\u0301").tolist() == composed.train[:4].tolist()


def test_a_byte_order_mark_inside_is_an_ordinary_character(put):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corpus = load_corpus(put(("ab\ufeff" * 20).encode("utf-8")))
    assert corpus.tokenizer.vocabulary == "ab\ufeff"


@pytest.mark.parametrize(
    "encoding", ["cp1252", "utf-16", "utf-16-le", "utf-32", "utf-8-sig", "UTF8"]
)
def test_an_encoding_that_is_named_is_used(put, encoding):
    name = put(("café noir\n" * 20).encode(encoding))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if encoding == "utf-8-sig" else "error")
        assert "é" in load_corpus(name, encoding).tokenizer.vocabulary


def test_chinese_in_gb18030(put):
    assert read_text(put(CHINESE.encode("gb18030")), "gb18030") == CHINESE


def test_built_in_texts_are_utf_8_whatever_the_encoding_of_your_own():
    assert load_corpus("tang", "latin-1").tokenizer.vocab_size == 3002


def test_one_character_over_and_over_is_a_corpus(put):
    name = put(b"a" * 5000)
    with pytest.warns(CourseNotice, match=r"'a' U\+0061 throughout: there is nothing to predict"):
        corpus = load_corpus(name)
    assert corpus.tokenizer.vocabulary == "a"
    assert texts_of(corpus) == ["a" * 4500, "a" * 250, "a" * 250]


@pytest.mark.parametrize(("name", "vocab_size"), [("shakespeare", 63), ("tang", 3002)])
def test_a_built_in_name_wins_over_a_file_and_says_so(put, name, vocab_size):
    put(ENGLISH.encode(), name)
    with pytest.warns(CourseNotice, match=f"built-in corpus; .* write './{name}'"):
        assert load_corpus(name).tokenizer.vocab_size == vocab_size
    for file in (f"./{name}", Path(name)):
        assert "".join(texts_of(load_corpus(file))) == ENGLISH


def test_names_with_spaces_and_chinese_are_fine(put):
    assert load_corpus(put(CHINESE.encode(), "学 习 é.txt")).name == "学 习 é.txt"


def test_reading_ignores_the_locale(put):
    program = (
        "import sys; from course_lib.data.corpora import load_corpus\n"
        "corpora = [load_corpus(name) for name in ('tang', sys.argv[1])]\n"
        "print(*(ascii(c.tokenizer.vocabulary[:4]) + str(len(c.train)) for c in corpora))"
    )
    plain_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program, put(CHINESE.encode("utf-8"))],
        env=os.environ | plain_locale | {"PYTHONPATH": str(PROJECT_FOLDER)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [r"'\n\u3002\u4e00\u4e01'944655", r"'\n\u3002\u4e0a\u5149'105"]


def test_the_smallest_text_gives_each_part_a_character(put):
    text = "abcdefghijklmnopqrst"
    assert texts_of(load_corpus(put(text.encode()))) == [text[:18], "s", "t"]


# --- refusals


@pytest.mark.parametrize(
    ("content", "held"),
    [
        (b"", "0 characters"),
        (b"a", "1 character;"),
        ("é".encode() * 19, "19 characters"),
        (b"\xef\xbb\xbf", "0 characters"),
    ],
)
@pytest.mark.filterwarnings("ignore::course_lib.runtime.CourseNotice")
def test_a_text_too_short_is_refused_with_its_size_and_the_least(put, content, held):
    assert f"poem.txt holds {held}" in (message := refusal(put(content)))
    assert "at least 20" in message


@pytest.mark.parametrize(
    ("content", "byte", "offset", "guess"),
    [
        (b"caf\xe9 noir\n" * 200, "0xE9", 3, "cp1252"),
        (b"na\xefve\n" * 9, "0xEF", 2, "cp1252"),  # as GB 18030 it would read na飗e
        (b"na\x81ve\n" * 9, "0x81", 2, "latin-1"),
        (CHINESE.encode("gb18030"), "0xB4", 0, "gb18030"),
        (b"\xff\xfe" + ENGLISH.encode("utf-16-le"), "0xFF", 0, "utf-16"),
        (b"\xfe\xff" + ENGLISH.encode("utf-16-be"), "0xFE", 0, "utf-16"),
        (b"\xff\xfe\0\0" + ENGLISH.encode("utf-32-le"), "0xFF", 0, "utf-32"),
        (ENGLISH.encode("utf-16-le"), "0x00", 1, "utf-16-le"),  # without a mark: valid UTF-8
        (ENGLISH.encode("utf-16-be"), "0x00", 0, "utf-16-be"),
        (CHINESE.encode("utf-16-le"), "0x8A", 0, "utf-16-le"),
    ],
)
def test_another_encoding_is_refused_where_it_shows_and_a_likely_one_named(
    put, content, byte, offset, guess
):
    message = refusal(put(content))
    assert f"poem.txt is not utf-8 text: byte {byte} at offset {offset};" in message
    assert f"--encoding {guess} (in Python encoding='{guess}')" in message


def test_the_wrong_encoding_is_refused_and_utf_8_suggested(put):
    assert "--encoding utf-8" in refusal(put("été 床\n".encode() * 9), "ascii")
    sig = put(b"\xef\xbb\xbfab\xe9 \n" * 9)
    assert "byte 0xE9 at offset 5;" in refusal(sig, "utf-8-sig")


@pytest.mark.parametrize("encoding", ["utf-16", "UTF16", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("text", [ENGLISH, "été 床 \n" * 9, "床前看月" * 9])
def test_utf_8_without_a_mark_is_not_read_as_utf_16(put, encoding, text):
    message = refusal(put(text.encode()), encoding)
    assert "--encoding utf-8" in message and message.startswith(f"poem.txt is not {encoding} text")


@pytest.mark.parametrize("encoding", ["utf-9", "", "hex", "a\0b", "\udcff", "学", *NO_ENCODINGS])
@pytest.mark.parametrize("corpus", ["shakespeare", "poem.txt"])
def test_an_unknown_encoding_is_refused(put, corpus, encoding):
    put(ENGLISH.encode())
    message = refusal(corpus, encoding)
    assert message.startswith(f"encoding {encoding!r} is unknown; use")
    assert "gb18030" in message


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("shakespear", "did you mean shakespeare?"),
        ("Tang", "did you mean tang?"),
        ("peom.txt", "did you mean poem.txt?"),
        ("songs/sonet.txt", "did you mean sonnet.txt?"),
    ],
)
def test_a_file_that_is_not_there(put, name, meant):
    put(ENGLISH.encode())
    Path("songs").mkdir()
    put(ENGLISH.encode(), "songs/sonnet.txt")
    message = refusal(name)
    assert message.startswith(f"there is no file {str(Path(name))!r}")
    assert "a built-in corpus: shakespeare, tang" in message
    assert message.endswith(meant)


@pytest.mark.parametrize("name", ["nowhere/at/all.txt", "a\0b", "n" * 300, "new\nline"])
def test_names_that_lead_nowhere_get_no_suggestion(put, name):
    message = refusal(name)
    assert message.startswith("there is no file '")
    assert message.endswith("a built-in corpus: shakespeare, tang")


def test_a_folder_is_refused(put, tmp_path):
    assert refusal(tmp_path).startswith(f"{str(tmp_path)!r} is a folder; a corpus is one text file")
    assert "is a folder" in refusal(".")


def test_an_empty_name_is_refused_as_one():
    assert refusal("").startswith("the corpus's name is empty; name a text file, or a built-in")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_or_a_device_is_refused_before_it_is_opened(put, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.txt")
    put(ENGLISH.encode())
    os.symlink("poem.txt", "link.txt")
    assert load_corpus("link.txt").name == "link.txt"
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail("it would wait"))
    for name in ("pipe.txt", os.devnull):
        assert refusal(name).startswith(f"{name!r} is a pipe or a device; a corpus is one text")


def test_an_unreadable_file_is_refused_with_the_reason(put, monkeypatch):
    name = put(ENGLISH.encode())

    def denied(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert refusal(name) == (
        "'poem.txt' cannot be read: Permission denied; copy the text to a file that can"
    )


def test_a_missing_built_in_text_says_how_to_rebuild_it(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "DATA_FOLDER", tmp_path)
    message = refusal("shakespeare")
    assert (
        message == f"{tmp_path / 'shakespeare.txt'} is missing; rebuild it: python data/prepare.py"
    )


def test_a_training_part_too_short_for_the_context_names_one_that_fits(put):
    corpus = load_corpus(put(b"abcdefgh\n" * 4 + b"abcd"))
    require_windows(corpus.train, 35)
    with pytest.raises(CourseError) as caught:
        require_windows(corpus.train, 64)
    assert str(caught.value) == (
        "the training part has 36 characters: too short for context_length=64, which takes 65; "
        "use a context_length of at most 35, or a longer text: 73 characters, nine tenths "
        "of them to train on"
    )


@pytest.mark.parametrize("context_length", [1, 8, 17, 64, 65, 128])
def test_the_length_asked_for_is_the_least_that_is_enough(context_length):
    with pytest.raises(CourseError) as caught:
        require_windows(torch.zeros(1), context_length)
    whole = int(re.search(r"longer text: (\d+) characters", str(caught.value))[1])
    cut = [find_cuts("a" * length)[0] for length in (whole - 1, whole)]
    assert cut == [context_length, context_length + 1]


def test_a_training_part_of_context_and_one_more_is_one_window():
    require_windows(torch.zeros(65, dtype=torch.int64), 64)
    with pytest.raises(CourseError, match="at most 63"):
        require_windows(torch.zeros(64, dtype=torch.int64), 64)


def test_a_part_without_a_single_target_can_only_be_lengthened():
    with pytest.raises(
        CourseError, match=r"the test part has 1 characters: .* 2; use a longer text"
    ):
        require_windows(torch.zeros(1, dtype=torch.int64), 1, "the test part")
