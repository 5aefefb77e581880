import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.data.batches import evaluation_windows, random_windows, shuffled_windows
from course_lib.runtime import CourseError


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# --- oracle: Python slices


def test_random_windows_are_slices_of_the_text():
    text = list(range(100, 141))
    inputs, targets = random_windows(torch.tensor(text), 13, 7, generator())
    assert inputs.shape == targets.shape == (13, 7)
    assert inputs.dtype == targets.dtype == torch.int64
    for row, next_row in zip(inputs.tolist(), targets.tolist(), strict=True):
        start = row[0] - 100
        assert row == text[start : start + 7]
        assert next_row == text[start + 1 : start + 8]


@given(st.integers(2, 40), st.integers(1, 40), st.integers(1, 5))
def test_evaluation_windows_are_consecutive_slices(length, context_length, batch_size):
    text = list(range(length))
    rows = [
        pair
        for inputs, targets in evaluation_windows(torch.tensor(text), context_length, batch_size)
        for pair in zip(inputs.tolist(), targets.tolist(), strict=True)
    ]
    starts = range(0, length - 1, context_length) if length > context_length else ()
    assert rows == [
        (text[i : i + context_length][: length - 1 - i], text[i + 1 : i + 1 + context_length])
        for i in starts
    ]


# --- laws


@given(st.integers(2, 60), st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**63 - 1))
def test_an_epoch_of_shuffled_windows_takes_each_character_at_most_once(
    length, context, batch, seed
):
    tokens = torch.arange(length)
    if length <= context:
        with pytest.raises(CourseError, match="context_length"):
            shuffled_windows(tokens, batch, context, 0, seed)
        return
    each_epoch = max(1, (length - context) // context)
    steps = [shuffled_windows(tokens, batch, context, step, seed) for step in range(3 * each_epoch)]
    inputs = torch.cat([step[0] for step in steps])  # batch epochs thrice, in a row
    targets = torch.cat([step[1] for step in steps])
    assert torch.equal(targets, inputs + 1) and inputs.min() >= 0 and targets.max() < length
    assert torch.equal(inputs, inputs[:, :1] + torch.arange(context))
    for epoch in inputs.split(each_epoch):
        assert len(epoch.unique()) == each_epoch * context
        assert len((epoch[:, 0] % context).unique()) == 1  # side by side
    # what is left out at the two ends together is less than two windows
    assert length - each_epoch * context <= 2 * context


def test_shuffled_windows_depend_on_step_and_seed_alone_and_differ_between_epochs():
    tokens = torch.arange(200)
    first = shuffled_windows(tokens, 6, 10, 7, seed=3)[0]
    torch.rand(5)
    shuffled_windows(tokens, 6, 10, 1, seed=4)
    assert torch.equal(shuffled_windows(tokens, 6, 10, 7, seed=3)[0], first)
    assert not torch.equal(shuffled_windows(tokens, 6, 10, 7, seed=4)[0], first)
    epochs = [shuffled_windows(tokens, 19, 10, epoch, seed=3)[0] for epoch in range(6)]
    assert len({tuple(epoch[:, 0].tolist()) for epoch in epochs}) == 6
    assert len({int(epoch[0, 0]) % 10 for epoch in epochs}) > 1  # other cuts
    assert {int(i) for epoch in epochs for i in epoch.flatten()} >= set(range(20, 180))


def test_every_start_is_drawn_alike_the_first_and_the_last_included():
    inputs, targets = random_windows(torch.arange(11), 20_000, 4, generator())
    counts = torch.bincount(inputs[:, 0], minlength=7)
    assert len(counts) == 7  # 11 characters hold 7 windows of 4 + 1
    deviation = (20_000 * (1 / 7) * (6 / 7)) ** 0.5
    assert (counts - 20_000 / 7).abs().max() < 5 * deviation
    assert targets.max() == 10


def test_context_and_one_more_character_are_exactly_one_window():
    inputs, targets = random_windows(torch.arange(65), 3, 64, generator())
    assert inputs.tolist() == [list(range(64))] * 3
    assert targets.tolist() == [list(range(1, 65))] * 3
    [(inputs, targets)] = evaluation_windows(torch.arange(65), 64, 3)
    assert inputs.tolist() == [list(range(64))]
    assert targets.tolist() == [list(range(1, 65))]


def test_other_random_numbers_do_not_change_the_windows():
    tokens, ours = torch.arange(1000), generator(7)
    first = [random_windows(tokens, 5, 11, ours)[0] for _ in range(3)]
    ours = generator(7)
    torch.manual_seed(3)
    second = []
    for _ in range(3):
        torch.rand(17)
        second.append(random_windows(tokens, 5, 11, ours)[0])
    assert all(map(torch.equal, first, second))
    assert not torch.equal(first[0], first[1])


def test_drawing_windows_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    random_windows(torch.arange(100), 5, 11, generator())
    assert torch.equal(torch.get_rng_state(), before)


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 4))
def test_each_character_but_the_first_is_a_target_once(length, context_length, batch_size):
    tokens = torch.arange(length)
    targets = [
        target
        for _, batch in evaluation_windows(tokens, context_length, batch_size)
        for target in batch.flatten().tolist()
    ]
    assert targets == (list(range(1, length)) if length > context_length else [])


def test_a_batch_of_evaluation_has_at_most_the_size_asked_for():
    shapes = [tuple(inputs.shape) for inputs, _ in evaluation_windows(torch.arange(34), 5, 4)]
    assert shapes == [(4, 5), (2, 5), (1, 3)]


# --- refusals


@pytest.mark.parametrize("length", [0, 1, 64])
def test_tokens_without_a_window(length):
    assert list(evaluation_windows(torch.arange(length), 64, 3)) == []
    with pytest.raises(CourseError, match=f"has {length} characters: too short"):
        random_windows(torch.arange(length), 3, 64, generator())
