"""The sampling playground in the kernel: numbers against the library, the text, the thread."""

import re
import threading

import pytest
import torch

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers import growing_text, sampling_explorer
from course_lib.explorers.growing_text import GrowingText
from course_lib.explorers.sampling_bars import MOST_BARS, sampling_bars
from course_lib.explorers.sampling_explorer import SamplingPlayground
from course_lib.generation import Sampling, generate_text, next_token_probabilities
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.plots import visible
from course_lib.runtime import CourseError

VOCABULARY = "\n !$,.:;?ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghi床"
TOKENIZER = CharTokenizer.from_text(VOCABULARY)
SETTINGS = [
    Sampling(),
    Sampling(temperature=0),
    Sampling(temperature=0.03, top_p=0.5),
    Sampling(temperature=0.7, top_k=7, top_p=0.9),
    Sampling(temperature=2.0, top_k=31),
    Sampling(temperature=1.3, top_p=0.97),
    Sampling(top_k=1),
    Sampling(top_k=99, top_p=1),
]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    monkeypatch.setattr(sampling_explorer, "PACES", dict.fromkeys(sampling_explorer.PACES, 0))


def model(context_length=16, **changes):
    """A model whose every weight matters, so that it has opinions."""
    torch.manual_seed(0)
    shape = {"n_layers": 2, "d_model": 12, "n_heads": 3, **changes}
    gpt = GPT(GPTConfig(vocab_size=len(VOCABULARY), context_length=context_length, **shape))
    with torch.no_grad():
        for name, parameter in gpt.named_parameters():
            parameter.normal_(mean=float("norm" in name), std=0.4)
    return gpt.eval()


def playground(prompt="ABC\n", **settings):
    return SamplingPlayground(model(), TOKENIZER, prompt, **settings)


def ended(play):
    """Wait until it writes no more."""
    assert play._stopped.wait(60)
    with play._lock:
        return play.state


# ---- the bars


@pytest.mark.parametrize("sampling", SETTINGS, ids=str)
def test_bars_are_the_library_s_numbers(sampling):
    logits = torch.randn(len(VOCABULARY), generator=torch.Generator().manual_seed(3)) * 2
    shown = sampling_bars(logits, sampling, TOKENIZER)
    final, raw = next_token_probabilities(logits, sampling), logits.double().softmax(dim=0)
    order = sorted(range(len(logits)), key=lambda token: (-logits[token].item(), token))
    assert [bar["label"] for bar in shown["bars"]] == [
        visible(VOCABULARY[token]) for token in order[:MOST_BARS]
    ]
    for bar, token in zip(shown["bars"], order, strict=False):
        assert bar["raw"] == pytest.approx(raw[token].item())
        assert bar["final"] == final[token].item()
        assert (bar["fate"] == "kept") == (bar["final"] > 0)
    rest = order[MOST_BARS:]
    assert shown["others"]["count"] == len(rest) == len(VOCABULARY) - MOST_BARS
    assert shown["others"]["final"] == pytest.approx(final[rest].sum().item())
    assert shown["kept"] == (final > 0).sum() and shown["of"] == len(VOCABULARY)
    removed = shown["removed"].values()
    assert sum(one["count"] for one in removed) + shown["kept"] == shown["of"]
    kept_before = sum(bar["heated"] for bar in shown["bars"] if bar["fate"] == "kept")
    assert sum(one["heated"] for one in removed) <= 1 - kept_before + 1e-9


def test_each_filter_is_named_where_it_removed():
    logits = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05] + [1e-9] * (len(VOCABULARY) - 5)).log()
    fates = [
        bar["fate"]
        for bar in sampling_bars(logits, Sampling(top_k=4, top_p=0.7), TOKENIZER)["bars"]
    ]
    assert fates[:6] == ["kept", "kept", "top-p", "top-p", "top-k", "top-k"]
    greedy = sampling_bars(logits, Sampling(temperature=0, top_k=3), TOKENIZER)
    assert [bar["fate"] for bar in greedy["bars"][:3]] == ["kept", "temperature", "temperature"]
    assert greedy["removed"]["top-k"] == {"count": 0, "heated": 0.0}
    by_k = sampling_bars(logits, Sampling(top_k=4), TOKENIZER)["removed"]["top-k"]
    assert by_k["count"] == len(VOCABULARY) - 4
    assert by_k["heated"] == pytest.approx(0.05, abs=1e-6)


def test_the_drawn_character_is_found_among_the_bars_and_among_the_others():
    logits = -torch.arange(float(len(VOCABULARY)))
    shown = sampling_bars(logits, Sampling(), TOKENIZER, drawn=2)["drawn"]
    assert (shown["rank"], shown["label"]) == (2, "!")
    assert sampling_bars(logits, Sampling(), TOKENIZER, drawn=40)["drawn"]["rank"] == 40


def test_logits_that_are_no_numbers_are_refused():
    with pytest.raises(CourseError, match="not numbers"):
        sampling_bars(torch.full((len(VOCABULARY),), torch.nan), Sampling(), TOKENIZER)


# ---- the text


@pytest.mark.parametrize("positions", ["rotary", "learned"])
@pytest.mark.parametrize("prompt", ["", "AB", "A" * 30])
@pytest.mark.filterwarnings("ignore:the prompt has")
def test_it_writes_what_generate_text_writes(positions, prompt):
    gpt, sampling = model(positions=positions), Sampling(temperature=0.8, top_k=20)
    text = GrowingText(gpt, TOKENIZER, prompt, seed=5)
    for _ in range(40):
        text.write(sampling)
    expected = "".join(generate_text(gpt, TOKENIZER, prompt, 40, sampling, seed=5))
    assert TOKENIZER.decode(text.drawn) == expected


def test_a_text_streams_is_stopped_and_goes_on_as_if_it_had_not_been():
    play = playground(temperature=0.8, top_k=20, seed=3)
    pieces, enough = [], threading.Event()

    def heard(change):
        pieces.append(change["new"]["text"])
        if len(pieces[-1]) >= 5:
            enough.set()
            play._stopped.set()  # as stop does, within a character

    play.observe(heard, names="state")
    play.write(1_000)
    assert enough.wait(60)
    play.stop()
    state = ended(play)
    assert not state["writing"] and state["place"] is None
    assert len(state["text"]) == 5, "nothing more was written"
    play.unobserve(heard, names="state")
    play.write(7)
    text = ended(play)["text"]
    assert text == "".join(
        generate_text(model(), TOKENIZER, "ABC\n", 12, Sampling(temperature=0.8, top_k=20), seed=3)
    )
    grown = [piece for piece in pieces if piece]
    assert [len(piece) for piece in grown[:5]] == [1, 2, 3, 4, 5], "character by character"


def test_each_choice_is_shown_as_it_is_made_and_can_be_looked_back_on():
    play, seen = playground(top_k=20), []
    play.observe(lambda change: seen.append(change["new"]), names="state")
    play.write(3)
    text = ended(play)["text"]
    marked = [s for s in seen if s["place"] is not None]
    assert [s["place"] for s in marked] == [0, 1, 2] and all(s["writing"] for s in marked)
    assert [s["bars"]["drawn"]["label"] for s in marked] == [visible(c) for c in text]
    play.look(1)
    assert play.state["place"] == 1 and play.state["bars"] == marked[1]["bars"]
    play.look(3)
    assert play.state["place"] is None and play.state["bars"]["drawn"] is None
    play.look(-1)
    assert play.state["place"] == 0


def test_other_settings_hold_from_the_next_character_on():
    play = playground(seed=3)
    play.write(4)
    before = ended(play)["text"]
    play.settings = {**play.settings, "temperature": "0"}
    assert play.state["text"] == before and play.state["bars"]["kept"] == 1
    play.write(4)
    greedy = "".join(
        generate_text(model(), TOKENIZER, "ABC\n" + before, 4, Sampling(temperature=0))
    )
    assert ended(play)["text"] == before + greedy


@pytest.mark.parametrize("changed", [{"prompt": "床"}, {"seed": "8"}])
def test_another_prompt_or_seed_begins_anew(changed):
    play = playground(seed=3)
    play.write(4)
    ended(play)
    play.settings = {**play.settings, **changed}
    assert play.state["text"] == ""
    play.write(6)
    prompt, seed = changed.get("prompt", "ABC\n"), int(changed.get("seed", 3))
    assert ended(play)["text"] == "".join(
        generate_text(model(), TOKENIZER, prompt, 6, Sampling(), seed)
    )
    first = play.state["text"]
    play.start_over()
    assert play.state["text"] == ""
    play.write(6)
    assert ended(play)["text"] == first


def test_only_one_writes_and_a_new_one_stops_the_others():
    first = playground()
    first.write(1_000_000)
    second = playground()
    assert first._stopped.is_set() and not first.state["writing"]
    second.write(1_000_000)
    first.write(2)
    assert second._stopped.is_set()
    ended(first)
    first.write(1_000_000)
    first.close()
    assert first._stopped.is_set()


def test_the_end_of_what_is_kept_is_told(monkeypatch):
    monkeypatch.setattr(growing_text, "MOST_WRITTEN", 5)
    play = playground()
    play.write(100)
    assert len(ended(play)["text"]) == 5
    play.write(1)
    assert "start over" in play.state["message"] and not play.state["writing"]


def test_an_error_while_writing_is_told_in_the_page_and_printed_nowhere(capfd):
    gpt = model()
    play = SamplingPlayground(gpt, TOKENIZER, "AB")
    with torch.no_grad():
        gpt.head.weight += 1
    play.write(5)
    assert "the model has changed" in ended(play)["message"]
    play._text.write = None
    play.write(5)
    assert "TypeError" in ended(play)["message"]
    assert capfd.readouterr() == ("", "")


# ---- what is typed


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"temperature": "-1"}, "temperature=-1.0 must be a finite number, 0 (greedy) or above"),
        ({"temperature": "warm"}, "temperature='warm' must be"),
        ({"temperature": ""}, "temperature=None must be"),
        ({"temperature": "1e999"}, "temperature=inf must be"),
        ({"top_k": "0"}, "top_k=0 must be a whole number of at least 1"),
        ({"top_k": "2.5"}, "top_k='2.5' must be"),
        ({"top_p": "1.5"}, "top_p=1.5 must be above 0 and at most 1"),
        ({"top_p": "nan"}, "top_p=nan must be"),
        ({"seed": "-3"}, "seed=-3 must be a whole number from 0"),
        ({"seed": "9" * 5_000}, "must be a whole number from 0"),
        ({"prompt": "A7\u202e"}, "not in the vocabulary: '7' U+0037, '\\u202e' U+202E; known are"),
        ({"prompt": "<img src=x>"}, "'<' U+003C"),
    ],
)
def test_what_makes_no_sense_is_told_and_all_stays_as_it_was(typed, words):
    play = playground(temperature=0.9)
    play.write(3)
    before = ended(play)
    good = play.settings
    play.settings = {**good, **typed}
    assert words in play.state["message"] and len(play.state["message"]) < 500
    assert {**play.state, "message": ""} == before
    play._asked({"do": "write", "settings": play.settings})
    assert not play.state["writing"] and words in play.state["message"]
    play._asked({"do": "look", "place": 0, "settings": good})
    assert play.state["message"] == "" and play.state["place"] == 0


def test_the_page_writes_and_stops_with_the_settings_that_it_sends_along():
    play = playground(seed=3)
    sent = {**play.settings, "top_k": "1", "top_p": " 0.9 ", "seed": "4"}
    play._asked({"do": "write", "length": 5, "settings": sent})
    assert ended(play)["text"] == "".join(
        generate_text(model(), TOKENIZER, "ABC\n", 5, Sampling(top_k=1, top_p=0.9), seed=4)
    )
    play._asked({"do": "write", "settings": sent})
    play._asked({"do": "stop", "settings": sent})
    assert not ended(play)["writing"]
    play._asked({"do": "start_over", "settings": sent})
    assert play.state["text"] == ""


def test_a_prompt_that_is_longer_than_the_model_reads_is_used_and_told():
    assert "has 20 characters; the model reads the last 16" in playground("A" * 20).state["note"]
    assert playground("A" * 16).state["note"] == ""


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"prompt": "x"}, "'x' U+0078"),
        ({"temperature": -1}, "temperature=-1"),
        ({"top_k": 0}, "top_k=0"),
        ({"top_p": 0}, "top_p=0"),
        ({"seed": -1}, "seed=-1"),
        ({"length": 0}, "length=0 must be a whole number of at least 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(wrong, words):
    with pytest.raises(CourseError, match=re.escape(words)):
        playground(**wrong)


def test_the_still_has_the_same_bars_with_any_text_shown_literally():
    play = playground("$_$", temperature=0.8, top_k=9, top_p=0.8)
    (ax,) = play.still().axes
    assert ax.get_title() == "after “$_$”, temperature 0.8, top-k 9, top-p 0.8"
    heights = {bar.get_height() for bar in ax.patches}
    for bar in play.state["bars"]["bars"]:
        assert (
            bar["raw"] in heights and (bar["final"] if bar["final"] else bar["heated"]) in heights
        )
    assert [t.get_text() for t in ax.texts].count("k") == MOST_BARS - 9
    assert "temperature 0.8, top-k 9, top-p 0.8" in play.still_text()
