"""Lesson 16's checks: the solutions are the library's layer, and other right ways pass."""

import dataclasses

import pytest
import torch

from course_lib.exercises import lesson_16
from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find
from course_lib.model import experts as library

SCORES = torch.randn(17, 5, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_solutions_are_the_library_s(k):
    routing = library.route(SCORES, k, capacity=4)
    chosen, gates = lesson_16.route(SCORES, k)
    assert torch.equal(chosen, routing.chosen) and torch.equal(gates, routing.gates)
    assert torch.allclose(lesson_16.balance_loss(SCORES, k), routing.balance_loss)
    assert torch.equal(lesson_16.has_room(chosen, 5, 4), routing.kept)
    x, layers = torch.randn(17, 3), [torch.nn.Linear(3, 3) for _ in range(5)]
    everyone = library.route(SCORES, k)
    expected = library.mix(x, everyone, layers)
    torch.testing.assert_close(lesson_16.mixture(x, chosen, gates, layers), expected)


def divided(scores, k):
    best, chosen = torch.sort(scores.softmax(-1), dim=-1, descending=True)
    best, chosen = best[:, :k], chosen[:, :k]
    return (chosen, best) if k == 1 else (chosen, best / best.sum(-1, keepdim=True))


def by_exponentials(scores, k):
    chosen = scores.argsort(dim=-1, descending=True)[:, :k]
    powers = scores.exp()
    total = powers.sum(-1, keepdim=True) if k == 1 else powers.gather(1, chosen).sum(-1, True)
    return chosen, powers.gather(1, chosen) / total


def masked(scores, k):
    chosen = scores.topk(k).indices
    hidden = torch.full_like(scores, -torch.inf).scatter(1, chosen, scores.gather(1, chosen))
    return chosen, (scores if k == 1 else hidden).softmax(-1).gather(1, chosen)


def token_by_token(x, chosen, gates, experts):
    rows = []
    for t in range(len(x)):
        rows.append(sum(gates[t, j] * experts[chosen[t, j]](x[t]) for j in range(chosen.shape[1])))
    return torch.stack(rows)


def choice_by_choice(x, chosen, gates, experts):
    output = torch.zeros_like(x)
    for j in range(chosen.shape[1]):
        for e in range(len(experts)):
            mask = chosen[:, j] == e
            part = torch.zeros_like(x)
            part[mask] = gates[mask, j].unsqueeze(1) * experts[e](x[mask])
            output = output + part
    return output


def skipping_idle_ones(x, chosen, gates, experts):
    output = x * 0
    for e in chosen.unique().tolist():
        t, j = torch.where(chosen == e)
        output[t] += gates[t, j][:, None] * experts[e](x[t])
    return output


def by_one_hot(scores, k):
    chosen = torch.zeros_like(scores).scatter(1, scores.topk(k).indices, 1.0)
    return len(scores[0]) * (chosen.mean(0) / k * scores.softmax(1).mean(0)).sum()


def by_dot(scores, k):
    E = scores.size(1)
    picked = scores.argsort(1, descending=True)[:, :k].flatten().tolist()
    load = torch.tensor([picked.count(e) / len(picked) for e in range(E)])
    return E * load @ torch.softmax(scores, 1).mean(0)


def by_running_sum(chosen, n_experts, capacity):
    one_hot = torch.nn.functional.one_hot(chosen.reshape(-1), n_experts)
    before = (one_hot.cumsum(0) - one_hot).gather(1, chosen.reshape(-1, 1))
    return (before < capacity).view(chosen.shape)


def by_dictionary(chosen, n_experts, capacity):
    left, rows = dict.fromkeys(range(n_experts), capacity), []
    for row in chosen:
        rows.append([])
        for e in row:
            rows[-1].append(left[e.item()] > 0)
            left[e.item()] -= 1
    return torch.tensor(rows)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("16.route", divided),
        ("16.route", by_exponentials),
        ("16.route", masked),
        ("16.mix", token_by_token),
        ("16.mix", choice_by_choice),
        ("16.mix", skipping_idle_ones),
        ("16.balance", by_one_hot),
        ("16.balance", by_dot),
        ("16.capacity", by_running_sum),
        ("16.capacity", by_dictionary),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


def rhyme():
    """Another story that is true: before a rhyme, layer 3's head 0 reads the rhyme before."""

    def rhymes(tokens, tokenizer):
        stop = tokenizer.encode("。").item()
        ends = torch.nn.functional.pad(tokens[:, 1:] == stop, (0, 1))  # the last of a closing line
        place = torch.arange(tokens.shape[1])
        earlier = torch.nn.functional.pad(ends[:, :-1], (1, 0))
        last = torch.where(earlier, place - 1, -1).cummax(dim=1).values  # the last rhyme before
        before_a_rhyme = torch.nn.functional.pad(ends[:, 1:], (0, 1))
        return (place == last[..., None]) & before_a_rhyme[..., None]

    def predicted(tokens, tokenizer):
        return rhymes(tokens, tokenizer).any(-1)[:, :-1]

    return dataclasses.replace(
        lesson_16.my_story(), layer=3, head=0, places=rhymes, predictions=predicted, matters=True
    )


def test_another_story_may_be_told():
    verdict = examine(find("16.story"), rhyme)
    assert verdict.passed, verdict


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("16.route", lambda s, k: (s.topk(k).indices, torch.ones(len(s), k) / k)),
        ("16.route", lambda s, k: (s.argmax(-1)[:, None].expand(-1, k), divided(s, k)[1])),
        ("16.route", lambda s, k: (s.topk(k, dim=0).indices.T, s.topk(k, dim=0).values.T)),
        ("16.route", lambda s, k: (s.topk(k).indices, s.topk(k).values.sigmoid())),
        ("16.route", lambda s, k: (s.topk(k).indices, s.topk(k).values.log_softmax(-1))),
        ("16.route", lambda s, k: (s.abs().topk(k).indices, s.abs().topk(k).values.softmax(-1))),
        ("16.route", lambda s, k: (divided(s, k)[0], divided(s, k)[1].detach())),
        ("16.mix", lambda x, c, g, e: x),
        ("16.mix", lambda x, c, g, e: torch.zeros_like(x)),
        ("16.mix", lambda x, c, g, e: torch.cat([e[n](x[(c == n).any(1)]) for n in range(len(e))])),
        ("16.mix", lambda x, c, g, e: e[0](x)),
        ("16.mix", lambda x, c, g, e: lesson_16.mixture(x, c, g.softmax(-1), e)),
        ("16.mix", lambda x, c, g, e: lesson_16.mixture(x, c.flip(-1), g, e)),
        ("16.mix", lambda x, c, g, e: lesson_16.mixture(x, c, g, e).detach()),
        ("16.mix", lambda x, c, g, e: lesson_16.mixture(x, c, g, e[::-1])),
        ("16.balance", lambda s, k: torch.tensor(1.0)),
        ("16.balance", lambda s, k: s.softmax(-1).mean(0).std()),
        ("16.balance", lambda s, k: lesson_16.balance_loss(s, 1)),
        ("16.balance", lambda s, k: lesson_16.balance_loss(s, k).detach()),
        ("16.balance", lambda s, k: lesson_16.balance_loss(s, k) - 1),
        ("16.balance", lambda s, k: len(s) * lesson_16.balance_loss(s, k) / s.shape[1]),
        ("16.balance", lambda s, k: lesson_16.balance_loss(s, k).item()),
        ("16.capacity", lambda c, n, m: torch.ones_like(c).bool()),
        ("16.capacity", lambda c, n, m: lesson_16.has_room(c, n, m).float()),
        ("16.capacity", lambda c, n, m: lesson_16.has_room(c, n, m).sum()),
        ("16.capacity", lambda c, n, m: c < m),
        ("16.capacity", lambda c, n, m: lesson_16.has_room(c, n, m - 1)),
    ],
)
def test_a_wrong_way_is_refused(exercise, answer):
    assert examine(find(exercise), answer).status == "not yet"


def test_a_story_that_is_none_is_refused():
    for answer in (lambda: "head 0 reads", lambda: None, lambda: lesson_16._changed(layer=9)):
        assert examine(find("16.story"), answer).status == "not yet"


def test_a_head_that_mostly_reads_elsewhere_is_no_story():
    """Layer 3's head 0 gives the places 4 times chance, which is 0.06 of its weight."""
    verdict = examine(find("16.story"), lambda: lesson_16._changed(layer=3))
    assert verdict.status == "not yet" and "of its attention" in verdict.message, verdict
