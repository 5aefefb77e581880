"""The induction model: what its sequences foretell, that nothing of a run is left to chance."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.runtime import CourseError
from course_lib.training.induction import (
    LENGTH,
    PERIODS,
    VOCABULARY,
    Repeats,
    accuracy,
    induction_model,
    repeated_sequences,
    train_induction,
)


def repeats_of(seed: int = 0, batch: int = 67, **settings) -> Repeats:
    return repeated_sequences(batch, torch.Generator().manual_seed(seed), **settings)


@pytest.mark.parametrize("settings", [{}, {"length": 29, "vocab_size": 5, "periods": (3, 27)}])
def test_each_row_repeats_after_its_period_and_the_rest_is_random(settings):
    repeats = repeats_of(**settings)
    length = settings.get("length", LENGTH)
    vocab_size = settings.get("vocab_size", VOCABULARY)
    shortest, longest = settings.get("periods", PERIODS)
    assert repeats.tokens.shape == (67, length) and repeats.periods.shape == (67,)
    assert set(repeats.tokens.flatten().tolist()) == set(range(vocab_size))
    assert shortest <= repeats.periods.min() and repeats.periods.max() <= longest
    assert len(repeats.periods.unique()) > (longest - shortest) / 2
    for row, period in zip(repeats.tokens.tolist(), repeats.periods.tolist(), strict=True):
        assert all(row[at] == row[at - period] for at in range(period, length))


def test_foretold_is_what_a_reader_of_the_text_alone_can_know():
    """Where the current token has come a second time, one period later, and a next one follows."""
    repeats = repeats_of(length=11, periods=(3, 5))
    for row, period in zip(repeats.foretold.tolist(), repeats.periods.tolist(), strict=True):
        assert row == [place >= period for place in range(10)]


@pytest.mark.parametrize("periods", [(0, 3), (5, 4), (3, 10), (-2, 3)])
def test_periods_that_leave_nothing_to_repeat_are_refused(periods):
    with pytest.raises(CourseError, match="two rising numbers from 1 to 9"):
        repeats_of(length=11, periods=periods)


def test_the_model_is_attention_alone_and_its_seed_decides_it():
    before = torch.get_rng_state()
    model, again, other = induction_model(3), induction_model(3), induction_model(4)
    assert torch.equal(torch.get_rng_state(), before)
    assert len(model.blocks) == 2 and len(induction_model(3, n_layers=1).blocks) == 1
    linears = [name for name, part in model.named_modules() if isinstance(part, nn.Linear)]
    parts = ("query", "key", "value", "output")
    expected = [f"blocks.{layer}.attention.{part}" for layer in (0, 1) for part in parts]
    assert linears == [*expected, "head"]
    weights = [each.token_embedding.weight for each in (model, again, other)]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_a_training_is_the_same_again_and_learns():
    def run(seed):
        model = induction_model(0, n_layers=1)
        return list(train_induction(model, 6, seed, batch_size=7)), model

    (first, model), (again, _), (other, _) = run(5), run(5), run(6)
    assert [step for step, _ in first] == list(range(6)) and first == again and first != other
    untrained = induction_model(0, n_layers=1)
    assert not torch.equal(model.head.weight, untrained.head.weight)


class Oracle(nn.Module):
    """Looks up the period and answers right, or one token too high where it is told to err."""

    def __init__(self, repeats: Repeats, wrong: torch.Tensor) -> None:
        super().__init__()
        self.repeats, self.wrong = repeats, wrong

    def forward(self, tokens):
        assert tokens.shape[1] == self.repeats.tokens.shape[1] - 1 and not self.training
        answers = self.repeats.tokens[:, 1:] + self.wrong.long()
        return nn.functional.one_hot(answers, VOCABULARY + 1).float()


def test_accuracy_counts_foretold_tokens_only():
    repeats = repeats_of()
    assert accuracy(Oracle(repeats, ~repeats.foretold), repeats) == 1
    assert accuracy(Oracle(repeats, repeats.foretold), repeats) == 0
    wrong = torch.rand(repeats.foretold.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    expected = 1 - wrong[repeats.foretold].float().mean().item()
    assert accuracy(Oracle(repeats, wrong), repeats) == pytest.approx(expected)
