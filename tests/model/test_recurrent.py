"""The recurrent baseline against its own equations, and what its state makes impossible."""

import pytest
import torch

from course_lib.model.recurrent import CELLS, RecurrentModel
from course_lib.runtime import CourseError


def model(cell: str) -> RecurrentModel:
    torch.manual_seed(0)
    return RecurrentModel(vocab_size=11, d_model=5, cell=cell)


def test_the_plain_cell_is_its_equation_step_by_step():
    plain, tokens = model("rnn"), torch.randint(11, (3, 7))
    layer = plain.recurrent
    state = torch.zeros(3, 5)
    for t in range(7):
        read = plain.token_embedding(tokens[:, t]) @ layer.weight_ih_l0.T + layer.bias_ih_l0
        state = torch.tanh(read + state @ layer.weight_hh_l0.T + layer.bias_hh_l0)
        torch.testing.assert_close(plain(tokens)[:, t], plain.head(state))


def test_an_lstm_writes_to_a_memory_through_gates():
    lstm, tokens = model("lstm"), torch.randint(11, (3, 7))
    layer = lstm.recurrent
    state, memory = torch.zeros(3, 5), torch.zeros(3, 5)
    for t in range(7):
        read = lstm.token_embedding(tokens[:, t]) @ layer.weight_ih_l0.T + layer.bias_ih_l0
        gates = read + state @ layer.weight_hh_l0.T + layer.bias_hh_l0
        write, keep, new, show = gates.chunk(4, dim=1)  # PyTorch's order
        memory = keep.sigmoid() * memory + write.sigmoid() * new.tanh()
        state = show.sigmoid() * memory.tanh()
    torch.testing.assert_close(lstm(tokens)[:, -1], lstm.head(state))


@pytest.mark.parametrize("cell", CELLS)
def test_a_later_token_changes_nothing_before_it(cell):
    recurrent, tokens = model(cell), torch.randint(11, (2, 7))
    changed = tokens.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    before, after = recurrent(tokens), recurrent(changed)
    assert before.shape == (2, 7, 11)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.isclose(before[:, 4:], after[:, 4:]).all(dim=-1).any()


def test_refusals():
    with pytest.raises(CourseError, match="cell='transformer' is not known; use one of: rnn, gru"):
        RecurrentModel(11, cell="transformer")
    with pytest.raises(CourseError, match="vocab_size=0 must be a whole number of at least 1"):
        RecurrentModel(0)
    with pytest.raises(CourseError, match=r"d_model=2\.5 must be a whole number"):
        RecurrentModel(11, 2.5)
    with pytest.raises(CourseError, match=r"give int64 or int32 of shape \(batch, position\)"):
        model("lstm")(torch.zeros(3, 7))
