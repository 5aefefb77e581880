"""The cache calculator shows what cache_bytes says, on the page too, and refuses the rest."""

import json
import re
import shutil
import subprocess

import pytest

from course_lib.explorers.cache_calculator import MOST_TEXTS, MOST_TOKENS, CacheCalculator, said
from course_lib.explorers.frame import WEB
from course_lib.model.model_cards import BYTES, CARDS, cache_bytes, card_of
from course_lib.runtime import CourseError

NODE = shutil.which("node")
CHOICES = [(1, 1, "int8"), (4097, 3, "bfloat16"), (MOST_TOKENS, MOST_TEXTS, "float32")]


def test_what_travels_to_the_page_are_the_cards():
    explorer = CacheCalculator(tokens=100, batch_size=3, number="float32")
    assert [card["name"] for card in explorer.cards] == [card.name for card in CARDS]
    assert explorer.cards[-1]["kind"] == "MLA" and explorer.cards[-1]["n_kv_heads"] is None
    assert explorer.widths == BYTES
    assert explorer.selected == {"tokens": 100, "batch": 3, "number": "float32", "model": 0}
    assert json.loads(json.dumps(explorer.cards)) == explorer.cards


def test_the_still_has_a_bar_of_the_formula_s_length_for_each_model():
    explorer = CacheCalculator(tokens=4096, batch_size=2)
    (ax,) = explorer.still().axes
    gigabytes = [cache_bytes(card, 4096, 2) / 1e9 for card in CARDS]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(gigabytes)
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == [f"{card.name} ({card.kind})" for card in CARDS]
    assert ax.get_xlabel() == "cache in GB: 2 texts of 4,096 tokens, bfloat16"
    assert "Llama-2-70B 2.68 GB" in explorer.still_text()
    explorer.selected = {**explorer.selected, "batch": 1}
    assert "1 text of 4,096 tokens" in explorer.still_text()
    assert "Llama-2-70B 1.34 GB" in explorer.still_text()


def test_some_models_alone():
    explorer = CacheCalculator([card_of("Mistral-7B")])
    assert explorer.still_text() == ("Caches, 1 text of 8,192 tokens, bfloat16: Mistral-7B 537 MB.")


@pytest.mark.skipif(NODE is None, reason="no node: install the package nodejs")
def test_the_page_computes_and_says_what_the_library_does():
    cards = CacheCalculator().cards
    core = json.dumps((WEB / "cache_core.mjs").as_uri())
    program = f"import {{ cacheBytes, size, LIMITS }} from {core};"
    program += """
    const { cards, choices } = JSON.parse(process.argv[1]);
    const bytes = choices.map(([tokens, batch, width]) =>
      cards.map((card) => cacheBytes(card, tokens, batch, width)));
    console.log(JSON.stringify({ bytes, sizes: bytes.map((some) => some.map(size)), LIMITS }));
    """
    choices = [(tokens, batch, BYTES[number]) for tokens, batch, number in CHOICES]
    given = json.dumps({"cards": cards, "choices": choices})
    command = [NODE, "--input-type=module", "--eval", program, given]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    found = json.loads(output)
    expected = [[cache_bytes(card, *choice) for card in CARDS] for choice in CHOICES]
    assert found["bytes"] == expected
    assert found["sizes"] == [[said(size) for size in sizes] for sizes in expected]
    assert found["LIMITS"] == {"tokens": MOST_TOKENS, "batch": MOST_TEXTS}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cards": ()}, "no model to compute with; give at least one card"),
        ({"tokens": 0}, "tokens=0 must be a whole number of at least 1"),
        ({"tokens": 2**20 + 1}, "tokens=1,048,577 is more than the page's 1,048,576; give less"),
        ({"batch_size": 1025}, "batch_size=1,025 is more than the page's 1,024"),
        ({"number": "fp4"}, "number='fp4' is not known; use one of: float32"),
    ],
)
def test_what_cannot_be_is_refused(values, words):
    with pytest.raises(CourseError, match=re.escape(words)):
        CacheCalculator(**values)
