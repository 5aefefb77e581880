"""Lesson 15's checks: other right ways pass, and wrong ones that no misconception names do not."""

import math

import pytest
import torch
import torch.nn.functional as F

from course_lib.exercises import lesson_15
from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find
from course_lib.model.attention import attention


def group_of(query, key):
    return query.shape[1] // key.shape[1]


def by_number(query, key, value, may_attend):
    heads = torch.arange(query.shape[1]) // group_of(query, key)
    return attention(query, key[:, heads], value[:, heads], may_attend)[0]


def with_an_axis_of_groups(query, key, value, may_attend):
    grouped = query.unflatten(1, (key.shape[1], -1))
    scores = grouped @ key[:, :, None].mT / query.shape[-1] ** 0.5
    scores = scores.masked_fill(~may_attend, -math.inf)
    return (scores.softmax(-1) @ value[:, :, None]).flatten(1, 2)


def by_torch(query, key, value, may_attend):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=may_attend, enable_gqa=True)


def by_slices(weight, n_heads, n_kv_heads):
    d_head, group = len(weight) // n_heads, n_heads // n_kv_heads
    heads = weight.split(d_head)
    return torch.cat([sum(heads[g * group : (g + 1) * group]) / group for g in range(n_kv_heads)])


def by_chunks(weight, n_heads, n_kv_heads):
    parts = (part.chunk(n_heads // n_kv_heads) for part in weight.chunk(n_kv_heads))
    return torch.cat([torch.stack(heads).mean(0) for heads in parts])


def by_a_matrix(weight, n_heads, n_kv_heads):
    group = n_heads // n_kv_heads
    pool = torch.eye(n_kv_heads).repeat_interleave(group, 1) / group
    return torch.einsum("gh,hdm->gdm", pool, weight.view(n_heads, -1, weight.shape[1])).flatten(
        0, 1
    )


def by_einsum(query, latent, up_key, up_value):
    absorbed = torch.einsum("bhqd,hcd->bhqc", query, up_key) / query.shape[-1] ** 0.5
    weights = torch.einsum("bhqc,bkc->bhqk", absorbed, latent).softmax(-1)
    mixed = torch.einsum("bhqk,bkc->bhqc", weights, latent)
    return torch.einsum("bhqc,hcd->bhqd", mixed, up_value)


def head_by_head(query, latent, up_key, up_value):
    outputs = []
    for h in range(query.shape[1]):
        scores = query[:, h] @ up_key[h].T @ latent.mT / math.sqrt(query.shape[-1])
        outputs.append(scores.softmax(-1) @ latent @ up_value[h])
    return torch.stack(outputs, 1)


def query_by_query(query, latent, up_key, up_value):
    output = torch.zeros_like(query)
    for b, h, q in torch.cartesian_prod(*map(torch.arange, query.shape[:3])).tolist():
        scores = latent[b] @ (up_key[h] @ query[b, h, q]) / query.shape[-1] ** 0.5
        output[b, h, q] = (scores.softmax(0) @ latent[b]) @ up_value[h]
    return output


def rounded_down(card, tokens, free_bytes, bytes_per_number):
    numbers = lesson_15._numbers(card)
    return math.floor(free_bytes / (card.n_layers * numbers * tokens * bytes_per_number))


def by_division(card, tokens, free_bytes, bytes_per_number):
    mla = card.d_latent is not None
    numbers = card.d_latent + card.d_rotary if mla else card.n_kv_heads * card.d_head * 2
    return divmod(free_bytes, bytes_per_number * tokens * numbers * card.n_layers)[0]


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("15.groups", by_number),
        ("15.groups", with_an_axis_of_groups),
        ("15.groups", by_torch),
        ("15.convert", by_slices),
        ("15.convert", by_chunks),
        ("15.convert", by_a_matrix),
        ("15.absorb", by_einsum),
        ("15.absorb", head_by_head),
        ("15.absorb", query_by_query),
        ("15.fit", rounded_down),
        ("15.fit", by_division),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_another_right_way_passes(exercise, answer):
    verdict = examine(find(exercise), answer)
    assert verdict.passed, verdict


def expanded_one_by_one(query, latent, up_key, up_value):
    output = torch.zeros_like(query)
    for b, h in torch.cartesian_prod(*map(torch.arange, query.shape[:2])).tolist():
        keys = torch.stack([token @ up_key[h] for token in latent[b]])
        values = torch.stack([token @ up_value[h] for token in latent[b]])
        output[b, h] = (query[b, h] @ keys.T / query.shape[-1] ** 0.5).softmax(-1) @ values
    return output


def never_stacked(query, latent, up_key, up_value):
    """Each key and value is made alone and dropped again: there is no table of them to be seen."""
    output = torch.zeros_like(query)
    for b, h, q in torch.cartesian_prod(*map(torch.arange, query.shape[:3])).tolist():
        scores = [query[b, h, q] @ (token @ up_key[h]) for token in latent[b]]
        weights = (torch.stack(scores) / query.shape[-1] ** 0.5).softmax(0)
        pairs = zip(weights, latent[b], strict=True)
        output[b, h, q] = sum(weight * (token @ up_value[h]) for weight, token in pairs)
    return output


@pytest.mark.parametrize("answer", [expanded_one_by_one, never_stacked])
def test_keys_made_one_by_one_are_keys_made(answer):
    verdict = examine(find("15.absorb"), answer)
    assert verdict.misconception == "expanded", verdict


@pytest.mark.parametrize(
    ("exercise", "answer"),
    [
        ("15.groups", lambda q, k, v, m: attention(q.mean(1, True), k, v, m)[0]),
        ("15.groups", lambda q, k, v, m: by_number(q, k, v, ~m)),
        ("15.groups", lambda q, k, v, m: by_number(q, k, k, m)),
        ("15.groups", lambda q, k, v, m: by_number(q, k.mean(1, True), v.mean(1, True), m)),
        ("15.groups", lambda q, k, v, m: by_number(q, k, v, m).transpose(1, 2).flatten(2)),
        ("15.groups", lambda q, k, v, m: by_number(q, k.flip(1), v.flip(1), m)),
        ("15.convert", lambda w, n, g: w),
        ("15.convert", lambda w, n, g: w.unflatten(0, (g, n // g, -1))[:, -1].flatten(0, 1)),
        ("15.convert", lambda w, n, g: w.unflatten(0, (g, n // g, -1)).mean(1)),
        ("15.convert", lambda w, n, g: by_slices(w, n, g) * (n // g) ** 0.5),
        ("15.convert", lambda w, n, g: by_slices(w, n, g).T),
        ("15.convert", lambda w, n, g: w.unflatten(0, (g, 2, -1)).mean(1).flatten(0, 1)),
        ("15.absorb", lambda q, c, k, v: by_einsum(q, c, k[:1].expand_as(k), v)),
        ("15.absorb", lambda q, c, k, v: (by_einsum(q, c, k, v), None)),
        ("15.absorb", lambda q, c, k, v: by_einsum(q, c, k, v).transpose(1, 2).flatten(2)),
        ("15.absorb", lambda q, c, k, v: by_einsum(q * 2, c, k, v)),
        ("15.absorb", lambda q, c, k, v: by_einsum(q, c - c.mean(1, True), k, v)),
        ("15.absorb", lambda q, c, k, v: by_einsum(q, c.flip(0), k, v)),
        ("15.fit", lambda card, t, f, b: by_division(card, t, f, 8 * b)),
        ("15.fit", lambda card, t, f, b: by_division(card, t, f, b) - 1),
        ("15.fit", lambda card, t, f, b: max(1, by_division(card, t, f, b))),
        ("15.fit", lambda card, t, f, b: by_division(card, t, f * 10**9, b)),
        ("15.fit", lambda card, t, f, b: by_division(card, t + 1, f, b)),
        ("15.fit", lambda card, t, f, b: 499),
    ],
)
def test_a_wrong_way_is_refused(exercise, answer):
    assert examine(find(exercise), answer).status == "not yet"
