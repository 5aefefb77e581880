"""An exception is shown as the learner's, at their line; a stub is told from an error."""

import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find


def error_of(names):
    return examine(find("98.weights"), names["row_weights"])


def test_an_error_in_a_cell_is_shown_at_its_line(learner):
    verdict = error_of(
        learner(
            """
            def row_weights(scores, scale):
                scaled = scores * scale
                return scaled[0] / undefined
            """
        )
    )
    assert "line 4 of the cell, in `row_weights`" in verdict.message
    assert "NameError: name 'undefined' is not defined" in verdict.message
    assert verdict.code == "return scaled[0] / undefined"
    assert verdict.facts == ("Seen in case 1 of 3, with scores (5, 7), scale=1.0.",)


def test_an_error_inside_torch_is_shown_at_the_line_that_called_it(learner):
    verdict = error_of(
        learner(
            """
            import torch.nn.functional as F
            def row_weights(scores, scale):
                return F.softmax(scores, dim=5)
            """
        )
    )
    assert "line 4 of the cell" in verdict.message and "IndexError" in verdict.message


def test_an_error_in_a_helper_of_another_cell_is_shown_there(learner):
    helper = learner("def half(x):\n    return x / None")["half"]
    names = learner("def row_weights(scores, scale):\n    return half(scores)", half=helper)
    verdict = error_of(names)
    assert "line 2 of the cell that defines `half`, with" in verdict.message
    assert verdict.code == "return x / None"


def test_an_error_in_a_helper_of_the_same_cell_is_shown_in_that_cell(learner):
    names = learner("def half(x):\n    return x / None\nrow_weights = lambda s, scale: half(s)")
    names["row_weights"].__name__ = "row_weights"
    assert "line 2 of the cell, in `half`" in error_of(names).message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def row_weights(s, scale):\n    return sum(x / None for x in s)", "in `row_weights`,"),
        ("def row_weights(s, scale):\n    return [x / None for x in s]", "in `row_weights`,"),
        ("def row_weights(s, scale):\n    return (lambda: s / 0 / None)()", "in `row_weights`,"),
        ("\nrow_weights = lambda s, scale: s / None", "line 2 of the cell, with"),
    ],
)
def test_a_place_without_a_name_is_called_by_the_function_around_it(learner, source, words):
    assert words in error_of(learner(source)).message


def test_a_lambda_of_another_cell_has_no_name(learner):
    half = learner("half = lambda x: x / None")["half"]
    names = learner("def row_weights(scores, scale):\n    return half(scores)", half=half)
    assert "line 1 of another cell, with" in error_of(names).message


def test_an_error_in_a_plain_file_names_the_file(tmp_path):
    path = tmp_path / "my_answers.py"
    path.write_text("def row_weights(scores, scale):\n    return 1 / 0\n", encoding="utf-8")
    names = {"__name__": "my_answers"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    assert "line 2 of `my_answers.py`" in error_of(names).message


def test_an_error_in_one_case_only_names_the_case(learner):
    verdict = error_of(
        learner(
            """
            import torch
            def row_weights(scores, scale):
                if len(scores) == 11:
                    raise ValueError
                return torch.softmax(scores * scale, -1)
            """
        )
    )
    assert "with `ValueError`" in verdict.message and "Seen in case 3 of 3" in verdict.facts[0]


def test_an_exception_that_cannot_print_itself_is_named(learner):
    verdict = error_of(
        learner(
            """
            class Silent(Exception):
                def __str__(self):
                    raise ValueError
            def row_weights(scores, scale):
                raise Silent
            """
        )
    )
    assert "Silent: (its message cannot be shown)" in verdict.message


def test_a_long_message_is_shortened():
    def answer(scores, scale):
        raise ValueError("x" * 100_000)

    assert len(examine(find("98.weights"), answer).message) < 1_000


def test_the_stub_is_not_attempted(learner):
    names = learner("def row_weights(scores, scale):\n    raise NotImplementedError")
    assert error_of(names).status == "not attempted"


@pytest.mark.parametrize("method", ["__init__", "forward"])
def test_the_stub_of_a_class_is_not_attempted(learner, method):
    names = learner(
        f"""
        import torch
        class Projection(torch.nn.Module):
            def {method}(self, *arguments):
                super().__init__()
                self.linear = torch.nn.Linear(*arguments, bias=False)
                raise NotImplementedError
        """
    )
    if method == "__init__":
        assert examine(find("98.projection"), names["Projection"]).status == "not attempted"
    else:
        assert examine(find("98.projection"), names["Projection"]).status == "not yet"


def test_a_stub_that_is_half_done_is_an_error_at_its_line(learner):
    verdict = error_of(
        learner(
            """
            import torch
            def row_weights(scores, scale):
                if scale == 1:
                    return torch.softmax(scores, -1)
                raise NotImplementedError
            """
        )
    )
    assert verdict.reason == "error" and "NotImplementedError" in verdict.message


def test_not_implemented_from_inside_torch_is_an_error_and_no_stub(learner):
    """torch raises it for an operation that a kind of tensor lacks, and for a missing forward."""
    for body in ("torch.ones(3, device='meta').tolist()", "torch.nn.Module()(scores)"):
        source = f"import torch\ndef row_weights(scores, scale):\n    return {body}"
        verdict = error_of(learner(source))
        assert (verdict.status, verdict.reason) == ("not yet", "error"), body
        assert "NotImplementedError" in verdict.message


def test_torch_really_raises_not_implemented_error_there():
    with pytest.raises(NotImplementedError):
        torch.ones(3, device="meta").tolist()
