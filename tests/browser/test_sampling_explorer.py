"""The sampling playground as a learner uses it: sliders, bars, a text that streams and stops."""

from __future__ import annotations

import pytest

from course_lib.data.corpora import DATA_FOLDER
from course_lib.explorers.sampling_bars import MOST_BARS
from course_lib.generation import (
    Sampling,
    generate_text,
    next_token_logits,
    next_token_probabilities,
)
from course_lib.plots import visible
from course_lib.training.checkpoint import load_run

CODE = """
from course_lib.data.corpora import DATA_FOLDER
from course_lib.explorers.sampling_explorer import SamplingPlayground
from course_lib.training.checkpoint import load_run
model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / {corpus!r})
play = SamplingPlayground(model, tokenizer, {prompt!r}, temperature=0.8, seed=3, length=1_500)
play
"""
PROMPT = "ROMEO:\n"
ROOT = ".course-sampling"
HOSTILE = "<img></script>$_$\u202e\x00"  # few enough characters for a bar each


def code(prompt=PROMPT, corpus="shakespeare"):
    return CODE.format(prompt=prompt, corpus=corpus)


def opened(lab, name):
    lab.open(name)
    lab.run_all()
    lab.page.wait_for_selector(f"{ROOT}[data-kept]")


def state(lab):
    return lab.page.eval_on_selector(ROOT, "root => ({...root.dataset})")


def wait_for(lab, **wanted):
    conditions = "".join(f'[data-{name}="{value}"]' for name, value in wanted.items())
    lab.page.wait_for_selector(ROOT + conditions)


def typed(lab, label, text):
    """Type into a field and leave it by Enter."""
    lab.page.get_by_label(label, exact=True).fill(text)
    lab.page.keyboard.press("Enter")


def text_of(lab):
    return lab.page.text_content(".course-text")


def expected_text(prompt, length, **settings):
    model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")
    sampling = Sampling(**{"temperature": 0.8, **settings})
    return "".join(generate_text(model, tokenizer, prompt, length, sampling, seed=3))


def assert_bars(lab, prompt, **settings):
    """Every bar has the library's number, and the height for it."""
    model, tokenizer, _ = load_run(DATA_FOLDER / "checkpoints" / "shakespeare")
    logits = next_token_logits(model, tokenizer.encode(prompt))
    final = next_token_probabilities(logits, Sampling(**settings))
    heated = next_token_probabilities(logits, Sampling(temperature=settings["temperature"]))
    columns = lab.page.eval_on_selector_all(
        f"{ROOT} .course-bar",
        "all => all.map(one => ({...one.dataset, height: one"
        ".querySelector('.course-heated, .course-gone').getBoundingClientRect().height}))",
    )
    order = logits.sort(descending=True, stable=True).indices.tolist()
    assert len(columns) == MOST_BARS + 1
    highest = max(columns, key=lambda column: column["height"])["height"]
    for token, column in zip(order, columns[:-1], strict=False):
        assert column["token"] == visible(tokenizer.vocabulary[token])
        assert float(column["final"]) == pytest.approx(final[token].item(), abs=1e-5)
        assert (column["fate"] == "kept") == (final[token] > 0)
        share = heated[token].item() / heated.max().item()
        assert column["height"] == pytest.approx(share * highest, abs=1.5), "pixels"
    rest = final[order[MOST_BARS:]].sum().item()
    assert float(columns[-1]["final"]) == pytest.approx(rest, abs=1e-5)


def test_sliders_by_keyboard_and_typed_numbers_move_the_bars(lab, notebook):
    opened(lab, notebook(code()))
    assert state(lab)["kept"] == "63"
    assert_bars(lab, PROMPT, temperature=0.8)
    lab.page.get_by_label("temperature slider").focus()
    for _ in range(4):
        lab.page.keyboard.press("ArrowRight")
    wait_for(lab, temperature="1")
    assert_bars(lab, PROMPT, temperature=1.0)
    lab.page.get_by_label("top-k slider").focus()
    lab.page.keyboard.press("Home")
    wait_for(lab, kept="1")
    typed(lab, "top-k", "12")
    typed(lab, "top-p", "0.7")
    wait_for(lab, kept="7")
    assert_bars(lab, PROMPT, temperature=1.0, top_k=12, top_p=0.7)
    fates = lab.page.eval_on_selector_all(
        f"{ROOT} .course-bar", "all => all.map(one => one.dataset.fate)"
    )
    assert fates == ["kept"] * 7 + ["top-p"] * 5 + ["top-k"] * 12 + ["others"]
    assert "Removed: top-k 51, together " in lab.page.inner_text(".course-said")
    lab.page.focus(f"{ROOT} .course-bar[tabindex='0']")
    lab.page.keyboard.press("End")
    assert lab.page.inner_text(".course-said").startswith("39 others, together ")
    typed(lab, "temperature", "hot")
    lab.page.wait_for_selector(".course-error:has-text(\"temperature='hot' must be\")")
    assert (state(lab)["temperature"], state(lab)["kept"]) == ("1", "7")
    typed(lab, "temperature", "0")
    wait_for(lab, kept="1", temperature="0")
    assert lab.page.inner_text(".course-error") == ""


def test_a_text_streams_in_is_stopped_and_goes_on(lab, notebook):
    opened(lab, notebook(code()))
    lab.page.click('button:text-is("Write")')
    lab.page.wait_for_function(f"document.querySelector('{ROOT}').dataset.written > 20")
    assert state(lab)["writing"] == "true" and state(lab)["drawn"]
    lab.page.click('button:text-is("Stop")')
    wait_for(lab, writing="false", place="next")
    written = int(state(lab)["written"])
    assert 20 < written < 1_500
    assert text_of(lab) == PROMPT + expected_text(PROMPT, written) + "▌"
    lab.page.click('button:text-is("One character")')
    wait_for(lab, writing="false", place="next", written=written + 1)
    text = expected_text(PROMPT, written + 1)
    assert text_of(lab) == PROMPT + text + "▌"
    assert_bars(lab, PROMPT + text, temperature=0.8)
    lab.page.focus(".course-text")
    lab.page.keyboard.press("ArrowLeft")
    wait_for(lab, place=written, drawn=visible(text[-1]))
    assert_bars(lab, PROMPT + text[:-1], temperature=0.8)
    assert f"“{visible(text[-1])}” came" in lab.page.inner_text(".course-said")
    lab.page.keyboard.press("Home")
    wait_for(lab, place=0)
    lab.page.click('button:text-is("Start over")')
    wait_for(lab, written=0, place="next")


def test_it_can_be_stopped_while_a_cell_runs_and_ends_when_its_own_cell_runs_again(lab, notebook):
    waits = "import time\nwhile play.state['writing']: time.sleep(0.05)\nprint('it ended')"
    name = notebook(code(), waits)
    opened(lab, name)
    lab.page.click('button:text-is("Write")')
    wait_for(lab, writing="true")
    lab.do("notebook:move-cursor-down")
    lab.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-cell'); }")
    lab.page.wait_for_selector('.jp-InputPrompt:text-is("[*]:")')
    lab.page.click('button:text-is("Stop")')
    lab.page.wait_for_selector("text=it ended")
    lab.page.click('button:text-is("Write")')
    wait_for(lab, writing="true")
    lab.page.evaluate("window.former = document.querySelector('.course-sampling')")
    lab.do("notebook:move-cursor-up")
    lab.do("notebook:run-cell")  # the playground's, again
    lab.page.wait_for_function("!window.former.isConnected")
    wait_for(lab, writing="false", written=0)


def test_a_prompt_of_one_s_own_and_one_that_cannot_be_read(lab, notebook):
    opened(lab, notebook(code()))
    lab.page.get_by_label("prompt (⏎ is a line break)").fill("JULIET:")
    lab.page.click('button[aria-label="insert a line break"]')
    lab.page.keyboard.type("No, ")
    lab.page.click('button:text-is("One character")')  # takes the prompt along
    prompt = "JULIET:\nNo, "
    wait_for(lab, written=1, writing="false")
    assert text_of(lab) == prompt + expected_text(prompt, 1) + "▌"
    typed(lab, "prompt (⏎ is a line break)", HOSTILE)
    lab.page.wait_for_selector(".course-error:has-text(\"'<' U+003C\")")
    assert text_of(lab).startswith(prompt)
    assert lab.page.query_selector(f"{ROOT} :is(img, script)") is None
    typed(lab, "prompt (⏎ is a line break)", "")
    wait_for(lab, written=0)
    assert text_of(lab) == "▌" and lab.page.inner_text(".course-error") == ""
    assert_bars(lab, "\n", temperature=0.8)


def test_any_vocabulary_is_shown_as_text_and_missing_fonts_are_said(lab, notebook):
    few = "<b>$_$ </b>" + HOSTILE[-2:]  # few enough characters for a bar each
    odd = "model = __import__('course_lib.model.gpt').model.gpt.GPT(model.config.__class__("
    odd += "vocab_size=len(set(text)), context_length=16, n_layers=1, d_model=12, n_heads=3))\n"
    source = "from course_lib.data.tokenizer import CharTokenizer\n" + code().replace(
        "play = Sampling", f"text = {few + '𓀀'!r}\n{odd}play = Sampling"
    )
    source = source.replace(f"tokenizer, {PROMPT!r}", "CharTokenizer.from_text(text), text")
    opened(lab, notebook(source))
    shown = text_of(lab)
    assert shown == few[:-2] + "U+202EU+0000𓀀▌"
    labels = lab.page.eval_on_selector_all(
        f"{ROOT} .course-label", "all => all.map(one => one.textContent)"
    )
    assert {"<", "$", "␣", "U+0000", "U+202E", "U+13000"} <= set(labels)
    assert "No font here has U+13000" in lab.page.inner_text(ROOT)
    assert lab.page.query_selector(f"{ROOT} :is(img, script)") is None


def test_both_themes_and_a_saved_notebook_s_picture(lab, notebook):
    name = notebook(code("床前明月光，\n", "tang"))
    opened(lab, name)
    colour = "e => getComputedStyle(e).backgroundColor"
    light = lab.page.eval_on_selector(f"{ROOT} input[type=text]", colour)
    lab.change_theme("dark")
    assert lab.page.eval_on_selector(f"{ROOT} input[type=text]", colour) != light
    lab.change_theme("light")
    assert not lab.page.is_visible(".jp-OutputArea-output img")
    lab.do("docmanager:save")
    lab.shut_down_kernels()
    lab.open(name)
    lab.page.wait_for_selector(".jp-OutputArea-output img", state="visible")
    assert "model not found" not in lab.page.inner_text("body")
