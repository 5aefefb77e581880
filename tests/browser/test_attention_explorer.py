"""The attention explorer as a learner uses it: pointed at, by keyboard, compared, and reopened."""

from __future__ import annotations

import json

import pytest

from course_lib.data.corpora import DATA_FOLDER
from course_lib.lens.capture import capture
from course_lib.plots import visible
from course_lib.training.checkpoint import load_run

MODEL = """
from course_lib.data.corpora import DATA_FOLDER
from course_lib.explorers.attention_explorer import AttentionExplorer
from course_lib.training.checkpoint import load_run
model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / {corpus!r})
explorer = AttentionExplorer(model, tokenizer, {text!r}, layer=3, head=2)
explorer
"""
LARGE = """
import torch
from course_lib.data.corpora import load_corpus
from course_lib.explorers.attention_explorer import AttentionExplorer
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
torch.manual_seed(0)
tokenizer = load_corpus("shakespeare").tokenizer
shape = {{"context_length": 256, "n_layers": 6, "n_heads": 6, "d_model": 48}}
model = GPT(GPTConfig(vocab_size=tokenizer.vocab_size, **shape))
explorer = AttentionExplorer(model, tokenizer, {text!r}, layer=3, head=2)
explorer
"""
TEXT = "JULIET:\nO Romeo, Romeo! wherefore art thou Romeo?"
ROOT = ".course-attention"


def code(text=TEXT, corpus="shakespeare"):
    return MODEL.format(text=text, corpus=corpus)


def opened(lab, name):
    lab.open(name)
    lab.run_all()
    lab.page.wait_for_selector(f"{ROOT}[data-query]")


def strongest_read(layer, head, query):
    """The key that is read most, as the explorer says it, from a pass of the test's own."""
    model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")
    row = capture(model, tokenizer.encode(TEXT)[None]).layer(layer)[0, head, query]
    return f"“{visible(TEXT[row.argmax()])}” at {row.argmax()}: {row.max():.2f}"


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def wait_for(lab, **wanted):
    for name, value in wanted.items():
        lab.page.wait_for_selector(f'{ROOT}[data-{name}="{value}"]')


def test_a_head_and_a_token_are_chosen_and_what_it_reads_is_said(lab, notebook):
    opened(lab, notebook(code(), "print('selected', dict(explorer.selected))"))
    assert (state(lab)["layer"], state(lab)["head"]) == ("3", "2")
    lab.page.click('button[aria-label="layer 0, head 3"]')
    wait_for(lab, layer=0, head=3)
    lab.do("notebook:enter-command-mode")  # in which arrow keys are JupyterLab's
    lab.page.focus(".course-reader")
    lab.page.keyboard.press("Home")
    wait_for(lab, query=0)
    for _ in range(3):
        lab.page.keyboard.press("ArrowRight")
    wait_for(lab, query=3)
    said = lab.page.inner_text(".course-said")
    assert said.startswith(f"layer 0, head 3: “I” at 3 reads {strongest_read(0, 3, query=3)}")
    lab.page.keyboard.press("ArrowDown")
    assert int(state(lab)["query"]) > 7  # the second line
    lab.page.hover(".course-reader canvas", position={"x": 12, "y": 45})
    wait_for(lab, query=0)
    lab.do("notebook:move-cursor-down")
    lab.run_until("selected {'model': 0, 'layer': 0, 'head': 3, 'query': 0}")  # the second cell


def test_the_heads_are_averaged_and_compared(lab, notebook):
    opened(lab, notebook(code()))
    lab.page.click('button[aria-label="layer 1, mean of its heads"]')
    wait_for(lab, layer=1, head=-1)
    lab.page.click("text=Compare others with this head")
    wait_for(lab, pinned="0/1/-1")
    assert "both read alike" in lab.page.inner_text(".course-said")
    lab.page.focus('button[aria-label="layer 1, mean of its heads"]')
    lab.page.keyboard.press("ArrowUp")
    lab.page.keyboard.press("Enter")
    wait_for(lab, layer=0, head=-1)
    assert "reads differently" in lab.page.inner_text(".course-said")
    lab.page.click("text=End the comparison")
    wait_for(lab, pinned="")


TWO = """
from course_lib.model.gpt import GPT
newborn = GPT(model.config)
explorer = AttentionExplorer({{"trained": model, "newborn": newborn}}, tokenizer, {text!r}, layer=3)
explorer
"""


def test_two_checkpoints_are_compared_at_the_same_head(lab, notebook):
    opened(lab, notebook(code() + TWO.format(text=TEXT)))
    wait_for(lab, model=0, layer=3, head=0)
    trained = lab.page.inner_text(".course-said")
    lab.page.click("text=Compare others with this head")
    wait_for(lab, pinned="0/3/0")
    lab.page.select_option("select[aria-label=model]", "newborn")
    wait_for(lab, model=1, layer=3, head=0)
    assert "reads differently" in lab.page.inner_text(".course-said")
    lab.page.click("text=End the comparison")
    wait_for(lab, pinned="")
    said = lab.page.inner_text(".course-said")
    assert trained.startswith("trained, layer 3, head 0: ")
    assert said.startswith("newborn, layer 3, head 0: ")
    assert said.partition(": ")[2] != trained.partition(": ")[2]


def test_another_text_is_read_and_one_that_cannot_be_is_told(lab, notebook):
    opened(lab, notebook(code()))
    lab.page.fill('input[aria-label="text to read"]', "To be, or not to be")
    lab.page.click('button:text-is("Read")')
    wait_for(lab, query=18)
    lab.page.fill('input[aria-label="text to read"]', "<img src=x onerror=alert(1)>")
    lab.page.click('button:text-is("Read")')
    lab.page.wait_for_selector(".course-error:has-text(\"'<' U+003C\")")
    assert state(lab)["query"] == "18"
    assert lab.page.query_selector(f"{ROOT} img") is None


def test_two_hundred_and_fifty_six_tokens_repaint_at_once(lab, notebook):
    opened(lab, notebook(LARGE.format(text=(TEXT * 6)[:256])))
    maps = lab.page.locator('button[aria-label*=", head "]')
    assert maps.count() == 36
    lab.page.focus(".course-reader")
    times = []
    for _ in range(15):
        lab.page.keyboard.press("ArrowLeft")
        times.append(float(state(lab)["repaintMs"]))
    assert int(state(lab)["query"]) == 240
    print(json.dumps(times))  # how long each took, for who measures; a test does not depend on it


@pytest.mark.parametrize(
    "corpus, text", [("tang", "床前明月光，\n疑是地上霜。"), ("shakespeare", TEXT)]
)
def test_both_themes_have_their_colours(lab, notebook, corpus, text):
    opened(lab, notebook(code(text, corpus)))
    assert state(lab)["theme"] == "light"
    light = lab.page.eval_on_selector(".course-maps > canvas", "c => c.toDataURL()")
    lab.change_theme("dark")
    wait_for(lab, theme="dark")
    assert lab.page.eval_on_selector(".course-maps > canvas", "c => c.toDataURL()") != light
    lab.change_theme("light")
    wait_for(lab, theme="light")


def test_a_saved_notebook_is_reopened_with_the_picture(lab, notebook):
    name = notebook(code())
    opened(lab, name)
    assert not lab.page.is_visible(".jp-OutputArea-output img")  # the live one stands in its place
    lab.do("docmanager:save")
    lab.shut_down_kernels()
    lab.open(name)
    lab.page.wait_for_selector(".jp-OutputArea-output img", state="visible")
    assert "model not found" not in lab.page.inner_text("body")
