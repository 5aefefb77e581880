"""The rubric of the capstone, on a model whose head is set by hand."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from course_lib.lens.story import WORDS, Needed, Story, heard, loss_without, rubric
from course_lib.lens.verse import counterparts, in_closing_line
from course_lib.model.config import GPTConfig
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError

VOCABULARY, LENGTH = 23, 29


@pytest.fixture
def model() -> GPT:
    """Attention alone. Head 0 reads evenly and says nothing; head 1 reads the token's own copies.

    What it writes makes that token the likeliest to come next.
    """
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(
            vocab_size=VOCABULARY,
            context_length=LENGTH,
            n_layers=1,
            n_heads=2,
            d_model=2 * VOCABULARY,
            positions="none",
            feed_forward="none",
            norm="rms_norm",
            bias=False,
            tied_head=False,
        )
    ).eval()
    attention, V = model.blocks[0].attention, VOCABULARY
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.zero_()
        model.token_embedding.weight[:, :V] = torch.eye(V)
        attention.query.weight[V:, :V] = 9 * torch.eye(V)
        attention.key.weight[V:, :V] = 9 * torch.eye(V)
        attention.value.weight[V:, :V] = torch.eye(V)
        attention.output.weight[V:, V:] = torch.eye(V)
        model.head.weight[:, V:] = 2 * torch.eye(V)
    return model


@pytest.fixture
def tokens() -> torch.Tensor:
    """Every second token is a copy of the one before."""
    drawn = torch.randint(VOCABULARY, (64, LENGTH), generator=torch.Generator().manual_seed(1))
    drawn[:, 1::2] = drawn[:, :-1:2]
    return drawn


def same(tokens, tokenizer=None):
    return (tokens[:, :, None] == tokens[:, None, :]).tril()


def copies(tokens, tokenizer=None):
    chosen = torch.zeros(len(tokens), LENGTH - 1, dtype=torch.bool)
    chosen[:, ::2] = True
    return chosen


TOLD = Story(
    run="",
    corpus="",
    layer=0,
    head=1,
    places=same,
    predictions=copies,
    matters=True,
    text="word " * WORDS[0],
)


def failing(story, model, tokens):
    return [criterion.name for criterion in rubric(story, model, None, tokens) if not criterion.met]


def test_a_true_story_meets_all_of_it(model, tokens):
    names = [criterion.name for criterion in rubric(TOLD, model, None, tokens)]
    assert names == ["places", "reading", "need", "telling"]
    assert failing(TOLD, model, tokens) == []


def test_what_is_lost_without_a_head_by_hand(model, tokens):
    with torch.no_grad():
        logits = model(tokens[:, :-1])
    before = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none")
    silent = torch.full_like(before, torch.tensor(float(VOCABULARY)).log().item())
    worse, chosen = silent - before, copies(tokens)
    need = loss_without(model, tokens, 0, 1, chosen)
    assert need.these == pytest.approx(worse[chosen].mean().item(), abs=1e-5)
    assert need.others == pytest.approx(worse[~chosen].mean().item(), abs=1e-5)
    variances = [part.var().item() / len(part) for part in (worse[chosen], worse[~chosen])]
    assert need.error == pytest.approx(sum(variances) ** 0.5, abs=1e-6)
    assert need.matters and need.these > need.others + 0.5
    assert not loss_without(model, tokens, 0, 1, ~chosen).matters
    assert not loss_without(model, tokens, 0, 0, chosen).matters


@pytest.mark.parametrize(
    ("these", "others", "matters"),
    [(0.5, 0.1, True), (0.5, 0.49, False), (0.01, -0.5, False), (-0.5, -0.9, False)],
)
def test_a_head_matters_where_these_lose_and_lose_more_than_the_others(these, others, matters):
    assert Needed(these, others, error=0.02).matters is matters


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"matters": False}, ["need"]),
        ({"predictions": lambda tokens, _: ~copies(tokens)}, ["need"]),
        ({"predictions": lambda tokens, _: ~copies(tokens), "matters": False}, []),
        ({"head": 0}, ["reading", "need"]),
        ({"head": 0, "matters": False}, ["reading"]),
        ({"text": "It reads."}, ["telling"]),
        ({"text": "word " * (WORDS[1] + 1)}, ["telling"]),
        ({"text": "它读自己。" * 10}, []),
        ({"places": lambda tokens, _: same(tokens).transpose(1, 2) | same(tokens)}, ["past"]),
        (
            {"places": lambda tokens, _: torch.ones_like(same(tokens)).tril()},
            ["places"],
        ),
        ({"places": lambda tokens, _: torch.zeros_like(same(tokens))}, ["places"]),
    ],
)
def test_a_criterion_that_is_not_met_is_named(model, tokens, changes, fails):
    story = dataclasses.replace(TOLD, **changes)
    assert failing(story, model, tokens) == fails
    for criterion in rubric(story, model, None, tokens):
        assert criterion.found and criterion.remedy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"places": copies}, r"places gave torch.bool of shape \(64, 28\); .* \(64, 29, 29\)"),
        ({"places": lambda tokens, _: same(tokens).float()}, r"places gave torch.float32"),
        ({"predictions": lambda tokens, _: None}, r"predictions gave NoneType; .* \(64, 28\)"),
        ({"head": 2}, "there is no head 2 in layer 0"),
        ({"predictions": lambda tokens, _: torch.ones(64, 28).bool()}, "1792 of 1792 predictions"),
    ],
)
def test_what_cannot_be_measured_is_refused(model, tokens, changes, message):
    with pytest.raises(CourseError, match=message):
        rubric(dataclasses.replace(TOLD, **changes), model, None, tokens)


def test_the_model_is_left_as_it_was(model, tokens):
    before = model(tokens)
    rubric(TOLD, model, None, tokens)
    assert torch.equal(model(tokens), before)


COUPLETS = dataclasses.replace(
    TOLD,
    run="tang",
    corpus="tang",
    layer=2,
    head=0,
    places=counterparts,
    predictions=in_closing_line,
)


@pytest.mark.parametrize("part", ["validation", "test"])
def test_the_shipped_model_has_a_head_that_reads_the_counterpart(part):
    """The worked example of lesson 16."""
    criteria = heard(COUPLETS, part)
    assert [criterion.name for criterion in criteria if not criterion.met] == []
    for head in (1, 2, 3):
        others = heard(dataclasses.replace(COUPLETS, head=head), part)
        assert "reading" in [criterion.name for criterion in others if not criterion.met]


def test_what_cannot_be_heard_is_refused(tmp_path):
    with pytest.raises(CourseError):
        heard(dataclasses.replace(COUPLETS, run=str(tmp_path / "none")), "test")
    with pytest.raises(CourseError):
        heard(dataclasses.replace(COUPLETS, corpus=str(tmp_path / "none.txt")), "test")
    with pytest.raises(CourseError, match="lacks '，', by which lines of verse"):
        heard(dataclasses.replace(COUPLETS, run="shakespeare", corpus="shakespeare"), "test")
