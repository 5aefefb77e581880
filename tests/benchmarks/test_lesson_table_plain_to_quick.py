"""Lesson 11's table: whole runs of plain with more and more of the changes that make quick."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.lesson_tables import plain_to_quick
from benchmarks.training_runs import build_trainer, with_training
from course_lib.data.corpora import load_corpus
from course_lib.data.tables import load_table
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT, count_parameters
from course_lib.training.presets import PLAIN, TO_QUICK, steps_of


def test_a_measured_run_is_the_trainer_s_own_to_the_end():
    corpus = load_corpus("shakespeare")
    short = replace(corpus, validation=corpus.validation[:700])
    preset = with_training(PLAIN, steps=4, warmup_steps=2, batch_size=2)
    loss, seconds, parameters = plain_to_quick.measure(preset, short, seed=1)
    whole = with_training(preset, evaluate_every=4)
    trainer, _ = build_trainer(whole, short, 1)
    assert list(trainer.run())[-1].val_loss == loss
    assert parameters == count_parameters(trainer.model) and seconds > 0
    assert plain_to_quick.measure(preset, short, seed=2)[0] != loss


def test_the_shipped_table_has_a_row_for_each_change_in_their_order():
    table = load_table("plain_to_quick")
    rows, recipes = table["rows"], list(steps_of(PLAIN, TO_QUICK))
    assert [row["recipe"] for row in rows] == ["plain", *(change.name for change in TO_QUICK)]
    assert table["seeds"] == list(plain_to_quick.SEEDS) and table["threads"] == 1
    for row, recipe in zip(rows, recipes, strict=True):
        assert row["steps"] == recipe.training.steps
        assert row["parameters"] == count_parameters(
            GPT(
                GPTConfig(
                    vocab_size=load_corpus(table["settings"]["corpus"]).tokenizer.vocab_size,
                    **recipe.model,
                )
            )
        )
        assert len(row["losses"]) == len(row["seconds"]) == len(table["seeds"])
