"""Lesson 13's checks: other right ways pass, and wrong ones that nobody foresaw are refused."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.exercises.judge import examine
from course_lib.exercises.lesson_13 import chance, induction_places, previous_token_score
from course_lib.exercises.registry import find
from course_lib.lens.heads import attention_on, places_of_types

# ---- right, in other words


def previous_by_loops(weights):
    n_texts, n_heads, n, _ = weights.shape
    score = torch.zeros(n_heads, dtype=weights.dtype)
    for head in range(n_heads):
        for text in range(n_texts):
            for query in range(1, n):
                score[head] += weights[text, head, query, query - 1]
    return score / (n_texts * (n - 1))


def previous_by_indices(weights):
    query = torch.arange(1, weights.shape[-1])
    return weights[:, :, query, query - 1].mean(-1).mean(0)


def previous_by_a_mask(weights):
    n = weights.shape[-1]
    before = torch.ones(n - 1, dtype=weights.dtype).diag(-1)
    return torch.einsum("bhqk,qk->h", weights, before) / (len(weights) * (n - 1))


def previous_of_the_block(weights):
    return weights[:, :, 1:, :-1].diagonal(dim1=2, dim2=3).mean(dim=(0, 2))


def previous_by_the_library(weights):
    tokens = torch.zeros(len(weights), weights.shape[-1], dtype=torch.long)
    return attention_on(weights, places_of_types(tokens)["previous token"])


def chance_by_loops(places):
    shares = []
    for text in places.tolist():
        for query, row in enumerate(text):
            if any(row):
                shares.append(sum(row) / (query + 1))
    return sum(shares) / len(shares)


def chance_of_an_even_head(places):
    length = places.shape[1]
    even = torch.ones(length, length).tril()
    even = even / even.sum(dim=-1, keepdim=True)
    read = (even * places).sum(dim=-1)
    return float(read[read > 0].mean())


def chance_by_sums(places):
    share = places.float().sum(-1) / torch.arange(1, 1 + places.shape[-1])
    return (share.sum() / (share > 0).sum()).item()


def induction_by_loops(tokens):
    n_texts, n = tokens.shape
    places = torch.zeros(n_texts, n, n, dtype=torch.bool)
    for text in range(n_texts):
        for query in range(n):
            for key in range(1, query):
                places[text, query, key] = tokens[text, key - 1] == tokens[text, query]
    return places


def induction_by_predecessors(tokens):
    before = F.pad(tokens[:, :-1], (1, 0), value=-1)
    return torch.tril(tokens.unsqueeze(-1) == before.unsqueeze(-2), -1)


def induction_cut_then_moved(tokens):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-2)
    return torch.cat([torch.zeros_like(same[:, :, :1]), same[:, :, :-1]], dim=-1)


def induction_by_places(tokens):
    place = torch.arange(tokens.shape[1])
    same = (tokens[:, :, None] == tokens[:, None, :]).roll(1, 2)
    return same & (place < place[:, None]) & (place > 0)


def replaced_in_its_own_axis(merged, head, n_heads, said):
    heads = merged.unflatten(-1, (n_heads, -1)).clone()
    heads[..., head, :] = said
    return heads.flatten(-2)


def replaced_by_cat(merged, head, n_heads, said):
    heads = list(merged.chunk(n_heads, dim=-1))
    heads[head] = said.expand_as(heads[head])
    return torch.cat(heads, dim=-1)


def replaced_by_where(merged, head, n_heads, said):
    owner = torch.arange(merged.shape[-1]) // (merged.shape[-1] // n_heads)
    return torch.where(owner == head, said.repeat(n_heads), merged)


RIGHT = {
    "13.previous": (
        previous_by_loops,
        previous_by_indices,
        previous_by_a_mask,
        previous_of_the_block,
        previous_by_the_library,
    ),
    "13.chance": (chance_by_loops, chance_of_an_even_head, chance_by_sums),
    "13.induction": (
        induction_by_loops,
        induction_by_predecessors,
        induction_cut_then_moved,
        induction_by_places,
    ),
    "13.ablate": (replaced_in_its_own_axis, replaced_by_cat, replaced_by_where),
}


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [(name, answer) for name, answers in RIGHT.items() for answer in answers],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_other_right_ways_pass(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


# ---- wrong, in ways that no misconception describes


def median(weights):
    return weights.diagonal(offset=-1, dim1=-2, dim2=-1).flatten(2).median(dim=-1).values.mean(0)


def first_text_alone(weights):
    return previous_token_score(weights[:1])


def before_and_itself(weights):
    itself = weights.diagonal(dim1=-2, dim2=-1).mean(dim=(0, 2))
    return previous_token_score(weights) + itself


def everything_before(weights):
    return weights.tril(diagonal=-1).sum(dim=-1).mean(dim=(0, 2))


def as_a_list(weights):
    return previous_token_score(weights).tolist()


def one_head_less(weights):
    return previous_token_score(weights)[1:]


def from_the_second_query(weights):
    return previous_token_score(weights[:, :, 1:, 1:])


def chance_with_one_more(places):
    may_read = torch.arange(2, places.shape[1] + 2)
    return (places.sum(dim=-1) / may_read)[places.any(dim=-1)].mean().item()


def chance_of_the_first_text(places):
    return chance(places[:1])


def chance_for_each_text(places):
    return [chance(text[None]) for text in places if text.any()]


def chance_as_a_tensor(places):
    return torch.tensor(chance(places))


def chance_in_percent(places):
    return 100 * chance(places)


def chance_of_the_median(places):
    may_read = torch.arange(1, places.shape[1] + 1)
    return (places.sum(dim=-1) / may_read)[places.any(dim=-1)].median().item()


def one_over_the_length(places):
    return 1 / places.shape[1]


def two_to_the_right(tokens):
    places = induction_places(tokens)
    return F.pad(places, (1, 0))[..., :-1].tril(-1)


def neither_row_nor_text(tokens):
    return induction_places(tokens)[0]


def over_texts(tokens):
    return induction_places(tokens).any(dim=0)[None].expand(len(tokens), -1, -1)


def transposed(tokens):
    return induction_places(tokens).transpose(1, 2)


def copies_and_followers(tokens):
    same = (tokens[:, :, None] == tokens[:, None, :]).tril(-1)
    return same | induction_places(tokens)


def only_where_the_copy_is_single(tokens):
    places = induction_places(tokens)
    return places & (places.sum(dim=-1, keepdim=True) == 1)


def for_queries_from_the_second(tokens):
    return induction_places(tokens)[:, 1:]


def from_behind(merged, head, n_heads, said):
    return replaced_by_cat(merged, n_heads - 1 - head, n_heads, said)


def said_alone(merged, head, n_heads, said):
    return said.expand(*merged.shape[:2], -1)


def left_out(merged, head, n_heads, said):
    heads = list(merged.chunk(n_heads, dim=-1))
    del heads[head]
    return torch.cat(heads, dim=-1)


def first_text_only(merged, head, n_heads, said):
    return torch.cat([replaced_by_cat(merged[:1], head, n_heads, said), merged[1:]])


def unflattened(merged, head, n_heads, said):
    return replaced_by_cat(merged, head, n_heads, said).unflatten(-1, (n_heads, -1))


def half_and_half(merged, head, n_heads, said):
    return (merged + replaced_by_cat(merged, head, n_heads, said)) / 2


def one_number_short(merged, head, n_heads, said):
    d_head = merged.shape[-1] // n_heads
    replaced = merged.clone()
    replaced[:, :, head * d_head : (head + 1) * d_head - 1] = said[:-1]
    return replaced


WRONG = {
    "13.previous": (
        median,
        first_text_alone,
        before_and_itself,
        everything_before,
        as_a_list,
        one_head_less,
        from_the_second_query,
    ),
    "13.chance": (
        chance_with_one_more,
        chance_of_the_first_text,
        chance_for_each_text,
        chance_as_a_tensor,
        chance_in_percent,
        chance_of_the_median,
        one_over_the_length,
    ),
    "13.induction": (
        two_to_the_right,
        neither_row_nor_text,
        over_texts,
        transposed,
        copies_and_followers,
        only_where_the_copy_is_single,
        for_queries_from_the_second,
    ),
    "13.ablate": (
        from_behind,
        said_alone,
        left_out,
        first_text_only,
        unflattened,
        half_and_half,
        one_number_short,
    ),
}


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [(name, answer) for name, answers in WRONG.items() for answer in answers],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_other_wrong_ways_are_refused(exercise, answer):
    assert examine(find(exercise), answer).status == "not yet"
