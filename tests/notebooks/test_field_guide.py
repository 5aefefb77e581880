"""The field guide: its index leads to cells that do what it says, its glossary to lessons that
define the word, its sources are those of the lessons, and its arithmetic comes out once more."""

import json
import re
from functools import cache

import pytest

from course_lib.model.model_cards import CARDS
from course_lib.runtime import PROJECT_FOLDER

LESSONS = PROJECT_FOLDER / "lessons"
STEM = "17_field_guide"
GUIDE = (LESSONS / f"{STEM}.py").read_text(encoding="utf-8")
INDEX = GUIDE[GUIDE.index('name="index"') :]
GLOSSARY = GUIDE[GUIDE.index('name="glossary"') : GUIDE.index('name="index"')]
ROW = re.compile(
    r"^# \| (.+) \| \[([a-z0-9-]+)\]\((\d\d)_(\w+)\.ipynb#cell-id=([a-z0-9-]+)\) \| (\w+) \|$"
)
ROWS = [found.groups() for line in INDEX.splitlines() if (found := ROW.match(line))]
TERM = re.compile(r"^# \| (.+?) \| (.+?) \| (.+?) \| \[(\d\d)\]\((\d\d_\w+)\.ipynb\) \|$", re.M)
TERMS = TERM.findall(GLOSSARY)
MARKER = re.compile(r'^# %%(.*?)name="([a-z0-9-]+)".*$', re.MULTILINE)
ARXIV = re.compile(r"arxiv\.org/abs/(\d{4}\.\d{5})")

IDLE = {"that", "then", "with", "what", "which", "does", "from", "their", "them", "also", "some"}
COMPANION = re.compile(r"^check-|-(shown|bounds?|sound|holds)$")  # cells that assert of another

TEXT, CODE = "text", "code"
KINDS = {  # what a line of the index says of a cell, and what the cell then is
    "built": CODE,
    "measured": CODE,
    "counted": CODE,
    "estimated": CODE,
    "formula": TEXT,
    "proved": TEXT,
    "cited": TEXT,
    "explained": TEXT,
}

# The syllabus, phrase by phrase: each has to be found in the index of its lesson.
SYLLABUS = {
    "01": r"""vocabulary from a text; encode and decode; outside the vocabulary; look up a row;
        one-hot; bigram model by counting; gradient descent reaches the same loss; ln V;
        bits per character; RNN: one memory; one token at a time; LSTM; accuracy of an LSTM and
        of attention; distance grows; wait for one another; Bahdanau et al\. 2014;
        Vaswani et al\. 2017; kept only attention""",
    "02": r"""query, key and value from three matrices; score; scale; softmax; mix the values;
        rows sum to 1; n × n; row i says how much token i reads each token; drawing of the data flow;
        set by hand; two passes; tired or wide;
        animal or road; one pass cannot; softmax\(QKᵀ/√d_k\) V; symbol, variable, axis;
        permutation-equivariant; loop, matrix, library""",
    "03": r"""Var\(q·k\) = d_k; mean 0 and variance 1; mean 1 breaks; 8 at 64; 22\.6 at 512;
        measured against theory; entropy; gradient; scaled and not; saturation; one-hot; vanishing;
        why not divide by d_k; too flat; temperature; no scale, √d_k, d_k; safe softmax;
        subtract the largest; overflow of exp in float16""",
    "04": r"""lower triangle; −∞; not 0; not after; T predictions from T tokens; leak test;
        no earlier output moves; mask forgotten; too good to be true; generation then fails;
        padding mask; nothing to attend to; causal against bidirectional""",
    "05": r"""split into heads; merge heads; concat; W_O; reshape, then transpose; by loop;
        parameters of multi-head; FLOPs of any number of heads; one head cannot hold; two can;
        kernel; 512 = 8 × 64; syntax; coreference; brackets; neighbours; Clark et al\. 2019;
        ablation of a head""",
    "06": r"""order blindness; unmasked; sinusoidal; wavelengths; dot product against distance;
        no parameters; learned positions \(BERT, GPT-2\); past the trained length;
        added to the token; ALiBi; slopes per head; no power of two; linear penalty on the scores;
        trained side by side""",
    "07": r"""rotation of pairs; depends on m − n; checked numerically; interleaved; half-split;
        angles, in float32; train short, test long; none, sinusoidal, learned, ALiBi, RoPE;
        position interpolation; NTK-aware; YaRN; on the trained model; without retraining;
        LLaMA; Qwen""",
    "08": r"""residual stream; shared channel; reads and writes; depth 48;
        with residual connections and without; LayerNorm by hand; RMSNorm; leaves out;
        LN\(x \+ f\(x\)\); x \+ f\(LN\(x\)\); gradients at birth; with and without warm-up;
        4·d_model; each token alone; ReLU; GELU; SwiGLU at equal parameters;
        two thirds of a block's parameters; between tokens; drawing of the block""",
    "09": r"""embedding, blocks, final norm, head; tying; first loss is ln V; 124,439,808;
        96 layers; 174,604,259,328; 175 billion; BERT; fill in the blank; Devlin et al\. 2018; T5;
        text to text; encoder–decoder; cross-attention; Raffel et al\. 2019; Brown et al\. 2020;
        chat models kept the decoder""",
    "10": r"""training, validation; random windows; cross-entropy; AdamW; weight decay;
        warm-up and cosine; clip; whole split; overfit one batch; read a loss curve;
        stop and resume; the very same run; on a CPU; dashboard; live curve""",
    "11": r"""real runs on Shakespeare and on Tang; mixed precision; bfloat16; scaler for float16;
        torch\.compile; fused optimiser; fused attention; tokens a second; MFU; change by change;
        on a GPU and on a CPU; Apple; torchrun; bits per character; other vocabularies;
        five or seven characters a line""",
    "12": r"""greedy; temperature; top-k; top-p; repetition; effect on the distribution, drawn;
        past do not change; O\(n\); O\(n²\); cached equals uncached; prompt at once; one by one;
        in batches; past the window; character against length; speed-up;
        2 · batch · length · layers · kv_heads · d_head · bytes; 80 layers; 64 heads of 128;
        4,096 tokens; 10\.7 GB; 10\.0 GiB; 8 KV heads; 1\.34 GB""",
    "13": r"""weights of any layer; pass that ran; heatmaps for both corpora;
        over layers, heads and tokens; previous token; first-token sink; same token \(character\);
        line start; induction; ablation; which predictions get worse; forms in two layers;
        repeated sequences; is not what it is for""",
    "14": r"""n²; double the context; four times; twice the FLOPs of projections;
        exact for any tile size; online softmax by hand; tile by tile; largest score and total;
        bytes moved; time and memory; naive; fused; memory that grows with n; side by side;
        HBM against SRAM; 2–4 times; Dao et al\. 2022; sliding-window; million-token contexts possible""",
    "15": r"""MHA, GQA, MQA, MLA in the same GPT; same budget; validation loss;
        measured and by formula; decoding: milliseconds; MHA to GQA: the mean;
        recovery by short training;
        who uses what; LLaMA-2 and 3 GQA; DeepSeek MLA; quality at scale; absorption; latent;
        cache calculator; published models""",
    "16": r"""top-k router; expert FFNs; total parameters; active parameters;
        8 experts and 2 chosen; worked numbers; collapse without the balancing loss;
        health with; capacity;
        moving tokens between devices; in-context; induction model; your own corpus;
        one layer's attention; what a head looks at; story; rubric""",
}


@cache
def cells(stem: str) -> dict[str, tuple[str, str]]:
    """The kind and the text of each cell of a lesson, by name."""
    text = (LESSONS / f"{stem}.py").read_text(encoding="utf-8")
    marks = list(MARKER.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return {
        mark[2]: (TEXT if "[markdown]" in mark[1] else CODE, text[mark.end() : end])
        for mark, end in zip(marks, ends, strict=True)
    }


@cache
def bold_of(stem: str) -> tuple[str, ...]:
    """What a lesson prints in bold, but for what the goals announce."""
    texts = [
        re.sub(r"\n# ?", " ", text)
        for name, (kind, text) in cells(stem).items()
        if kind == TEXT and name not in ("goals", "glossary", "index")
    ]
    return tuple(bold for text in texts for bold in re.findall(r"\*\*([^*]+)\*\*", text))


def stems_of(words: str) -> list[str]:
    """The beginnings of the words that carry the meaning, and the numbers, bare of commas."""
    found = re.findall(r"[^\W\d_]{4,}|\d[\d,.]*\d", words.lower())
    return [
        word.replace(",", "")[: 12 if word[0].isdigit() else 5]
        for word in found
        if word not in IDLE
    ]


def test_every_line_of_the_index_is_understood():
    lines = [line for line in INDEX.splitlines() if line.startswith("# | ")]
    heads = [line for line in lines if line == "# | what | where | how |"]
    assert len(heads) == 16 and len(ROWS) == len(lines) - len(heads)
    assert {how for *_, how in ROWS} == set(KINDS)
    assert len({(what, number) for what, _, number, *_ in ROWS}) == len(ROWS), "no line twice"
    numbers = [int(number) for _, _, number, *_ in ROWS]
    assert numbers == sorted(numbers) and set(numbers) == set(range(1, 17))


@pytest.mark.parametrize(
    ("what", "shown", "number", "slug", "cell", "how"), ROWS, ids=[f"{r[2]}-{r[4]}" for r in ROWS]
)
def test_a_line_of_the_index_leads_to_a_cell_that_does_it(what, shown, number, slug, cell, how):
    assert shown == cell
    found = cells(f"{number}_{slug}")
    assert cell in found, f"lesson {number} has no cell {cell}"
    kind, text = found[cell]
    assert kind == KINDS[how], f"{how} is said of a {kind} cell"

    names = [name for name in found if not COMPANION.search(name)]
    near = names[max(0, names.index(cell) - 1) : names.index(cell) + 2]
    around = " ".join(found[name][1] for name in near).lower()
    around = re.sub(r"(?<=\d)[,_](?=\d)", "", re.sub(r"\n# ?", " ", around))
    stems = stems_of(what) or [what.lower()]
    there = [stem in around for stem in stems]
    assert sum(there) >= 0.6 * len(there), f"of {stems} only {there} stand near {cell}"

    if how == "built" and cell.startswith("ex-"):
        assert "raise NotImplementedError" in text or "answer = None" in text
    if cell.startswith("ex-"):
        assert how == "built", "an exercise is built, by the learner"
    if how in ("measured", "counted", "estimated"):
        later = [
            text for kind, text in list(found.values())[list(found).index(cell) :] if kind == CODE
        ]
        assert re.search(r"\bassert\b|\bprint\(", " ".join(later[:3])), f"{cell} shows no number"
    if how in ("formula", "proved"):
        assert "$$" in text and (how == "formula" or "The proof" in text)
    if how == "cited":
        assert_cited(what, text, found["sources"][1])


def assert_cited(what: str, text: str, sources: str) -> None:
    """Every author that the index names stands in the cell, and in the sources with a link."""
    authors = re.findall(r"([A-Z][\w-]+)(?: et al\.| & [A-Z]\w+)? (?:19|20)\d\d", what)
    assert authors, f"{what}: who says so?"
    for author in authors:
        assert author in text, f"{author} does not stand in the cell"
        entry = re.search(rf"{author}\b[^|]*?https://", sources)
        assert entry, f"{author} has no link among the lesson's sources"


@pytest.mark.parametrize("number", SYLLABUS)
def test_each_phrase_of_the_syllabus_is_in_the_index(number):
    text = "; ".join(what for what, _, lesson, *_ in ROWS if lesson == number)
    for phrase in re.split(r";\s+", SYLLABUS[number]):
        phrase = re.sub(r"\s+", " ", phrase.strip())
        assert re.search(phrase, text, re.IGNORECASE), f"lesson {number}: nothing about {phrase}"


@pytest.mark.parametrize(
    ("section", "wanted"),
    [
        ("idea-cards", "**Transformer** **BERT** **T5** **GPT-3** **RoPE** **LayerNorm**"),
        ("idea-cards", "1706.03762 1810.04805 1910.10683 2005.14165 2104.09864 1607.06450"),
        ("reading", "1409.0473 1706.03762 1810.04805 1910.10683 2005.14165 2104.09864 2205.14135"),
        ("model-card-text", "**layers** **heads** **KV heads** **hidden size** **vocabulary**"),
        ("questions", '**Why "attention"?** **Why did it replace RNNs?** **Why do long contexts'),
        ("laptop-answer", "llama.cpp MLX -hf --model"),
        ("where-next", "Illustrated Annotated nanoGPT (124M) CS224N"),
    ],
)
def test_what_the_syllabus_wants_of_this_page_is_in_its_section(section, wanted):
    text = re.sub(r"\n# ?", " ", cells(STEM)[section][1])
    for phrase in re.findall(r"\*\*.+?(?:\*\*|$)|\S+", wanted):
        assert phrase in text, f"{section} lacks {phrase}"


def test_the_glossary_is_in_order_and_in_both_languages():
    heads = GLOSSARY.count("\n# | English |")
    assert heads >= 1 and len(TERMS) == GLOSSARY.count("\n# | ") - heads >= 120
    terms = [english.lower() for english, *_ in TERMS]
    assert terms == sorted(set(terms))
    chinese_terms = [chinese for _, chinese, *_ in TERMS]
    assert len(set(chinese_terms)) == len(chinese_terms)
    for english, chinese, meaning, shown, stem in TERMS:
        assert stem.startswith(shown) and meaning
        assert re.search("[\u4e00-\u9fff]", chinese), english


@pytest.mark.parametrize(("english", "stem"), [(term[0], term[4]) for term in TERMS])
def test_a_word_of_the_glossary_is_defined_in_bold_in_its_lesson(english, stem):
    bold = [phrase.lower() for phrase in bold_of(stem)]
    for part in re.sub(r" ?\(.*?\)", "", english).split(", "):
        words = [word.lower()[:5] for word in re.findall(r"[^\W_]{2,}|\b\w\b", part)]
        assert any(all(word in phrase for word in words) for phrase in bold), f"{part} in {stem}?"


def test_every_file_that_the_guide_links_to_is_there():
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", GUIDE))
    assert len(linked) >= 17
    for target in linked:
        assert (LESSONS / target).with_suffix(".py").is_file(), target
    sections = re.findall(r"\]\(#cell-id=([^)]+)\)", GUIDE)
    assert len(sections) == 8 and set(sections) <= set(cells(STEM))


def author_before(text: str, place: int) -> str | None:
    """The last author with a year before a place, such as Vaswani in "Vaswani et al. 2017"."""
    pattern = (
        r"\b([A-Z][\w-]+)(?: Team| et al\.| & [A-Z]\w+| and [A-Z]\w+| and colleagues)? \(?20\d\d"
    )
    found = re.findall(pattern, text[max(0, place - 250) : place])
    return found[-1] if found else None


@pytest.mark.parametrize("number", sorted(set(ARXIV.findall(GUIDE))))
def test_an_arxiv_number_goes_with_the_author_that_it_has_in_the_lessons(number):
    flat = re.sub(r"\n# ?", " ", GUIDE)
    authors = {
        author_before(flat, found.start())
        for found in re.finditer(re.escape(f"/abs/{number}"), flat)
    }
    assert len(authors) == 1 and None not in authors, f"{number} is said to be by {authors}"
    (author,) = authors
    for path in LESSONS.glob("[01]*.py"):
        if path.stem == STEM:
            continue
        text = re.sub(r"\n# ?", " ", path.read_text(encoding="utf-8"))
        for found in re.finditer(re.escape(f"/abs/{number}"), text):
            assert author in text[max(0, found.start() - 250) : found.start()], path.name
    in_cards = [card.source for card in CARDS if number in card.source]
    assert all(source.startswith(author) for source in in_cards)


# Model cards, by arithmetic of the test's own


def weights_by_hand(card) -> tuple[int, int]:
    """All parameters of a card, and those that one token uses, matrix by matrix."""
    d, rows = card.d_model, card.n_heads * card.d_head
    if card.recipe == "gpt2":  # learned positions, biases, a tied output
        block = sum([4 * d * d, 4 * d, d * card.d_ff, card.d_ff, card.d_ff * d, d, 2 * 2 * d])
        total = (card.vocab_size + card.context_length) * d + card.n_layers * block + 2 * d
        return total, total
    if card.d_latent:
        turned = card.n_heads * card.d_rotary
        matrices = [(d, card.d_query), (card.d_query, rows), (card.d_query, turned)]
        matrices += [(d, card.d_latent), (d, card.d_rotary)]
        matrices += [(card.d_latent, rows), (card.d_latent, rows), (rows, d)]
        attention = sum(a * b for a, b in matrices) + card.d_query + card.d_latent
    else:
        kept = card.n_kv_heads * card.d_head
        attention = sum(a * b for a, b in [(d, rows), (d, kept), (d, kept), (rows, d)])
        attention += (rows + kept + kept if card.qkv_bias else 0) + (card.qk_norm * 2) * card.d_head
    swiglu = [3 * d * card.d_ff] * card.n_layers
    used = list(swiglu)
    for layer in range(card.dense_layers if card.n_experts else card.n_layers, card.n_layers):
        expert, router = 3 * d * (card.d_expert or card.d_ff), d * card.n_experts
        swiglu[layer] = (card.n_experts + card.shared_experts) * expert + router
        used[layer] = (card.experts_per_token + card.shared_experts) * expert + router
    shared = card.n_layers * (attention + d + d) + d + card.vocab_size * d
    return shared + card.vocab_size * d + sum(swiglu), shared + sum(used)


def printed(cell_name: str) -> str:
    """What a cell of the built guide printed."""
    notebook = json.loads(
        (PROJECT_FOLDER / "notebooks" / f"{STEM}.ipynb").read_text(encoding="utf-8")
    )
    (cell,) = [cell for cell in notebook["cells"] if cell["id"] == cell_name]
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


@pytest.mark.parametrize("name", ["model-cards", "by-formula"])
def test_the_tables_of_model_cards_by_arithmetic_of_the_tests_own(name):
    cards = {card.name: card for card in CARDS}
    lines = [line for line in printed(name).splitlines()[1:] if line.strip()]
    assert len(lines) >= 5
    for line in lines:
        (card,) = [cards[name] for name in cards if line.startswith(name + " ")]
        total, used = weights_by_hand(card)
        numbers = [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*", line)]
        assert total in numbers and card.parameters in (None, total), card.name
        kept = (
            (card.d_latent + card.d_rotary) if card.d_latent else 2 * card.n_kv_heads * card.d_head
        )
        assert numbers[-1] == 2 * card.n_layers * kept, card.name
        if name == "model-cards":
            shape = {card.n_layers, card.d_model, card.n_heads, card.n_kv_heads, card.d_head}
            assert shape | {card.d_ff, card.vocab_size} <= set(numbers)
        else:
            assert used in numbers
        assert f" {card.claimed} " in line


def test_the_laptops_table_by_arithmetic_of_the_tests_own():
    cards = {card.name: card for card in CARDS}
    lines = [line for line in printed("laptop").splitlines()[1:] if line.strip()]
    assert len(lines) == 5
    for line in lines:
        (card,) = [cards[name] for name in cards if line.startswith(name + " ")]
        words = line[len(card.name) :].replace("GB", "").split()
        whole, packed, tokens, kept, memory, together, speed = (
            float(word.replace(",", "")) for word in words
        )
        assert tokens == min(8192, card.context_length)
        assert kept == min(tokens, card.window or 10**9)
        cache = 4 * card.n_layers * card.n_kv_heads * card.d_head * kept / 1e9
        assert whole == pytest.approx(card.parameters / 5e8, abs=0.051)
        assert packed == pytest.approx(card.parameters * 4.89 / 8e9, abs=0.051)
        assert memory == pytest.approx(cache, abs=0.051)
        assert together == pytest.approx(card.parameters * 4.89 / 8e9 + cache, abs=0.051)
        read = (card.parameters - card.vocab_size * card.d_model) * 4.89 / 8e9 + cache
        assert speed == pytest.approx(51.2 / read, abs=0.051)
