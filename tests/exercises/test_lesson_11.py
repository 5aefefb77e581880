"""Lesson 11: other right ways pass, wrong ones do not, and its cells fit devices that are not here.

No GPU is needed: the cell that chooses what to try on a device is run for other ones.
"""

import math

import pytest
import torch

from course_lib.exercises.judge import examine
from course_lib.exercises.registry import find
from course_lib.training.precision import choose_precision
from tools.lesson_source import lesson_paths, read_lesson

LESSON = next(read_lesson(path) for path in lesson_paths() if path.name.startswith("11_"))


# ---- right, in other ways


def passes_apart(parameters, n_layers, d_model, context_length, steps, batch_size):
    tokens = steps * batch_size * context_length
    forward = 2 * parameters * tokens + n_layers * 4 * context_length * d_model * tokens
    return 3 * forward


def by_loops(parameters, n_layers, d_model, context_length, steps, batch_size):
    total = 6 * parameters
    for _ in range(n_layers):
        total += 3 * 2 * 2 * context_length * d_model
    for factor in (steps, batch_size, context_length):
        total *= factor
    return total


def whole_windows(parameters, n_layers, d_model, context_length, steps, batch_size):
    window = 6 * parameters * context_length + 12 * n_layers * d_model * context_length**2
    return int(window * steps * batch_size)


def loop_and_flag(gradients, scale):
    unscaled, usable = [], True
    for gradient in gradients:
        unscaled.append(gradient.to(torch.float32).mul(1 / scale))
        if not torch.isfinite(gradient).all():
            usable = False
    return unscaled, usable


def by_sum(gradients, scale):
    total = sum(gradient.double().abs().sum() for gradient in gradients)
    return [g.type(torch.float32).div_(scale) for g in gradients], math.isfinite(total)


def both_looked_for(gradients, scale):
    bad = any((g.isnan() | g.isinf()).any().item() for g in gradients)
    return [torch.div(g, scale) for g in map(torch.Tensor.float, gradients)], not bad


def number_by_number(gradients, scale):
    plain = [[float(x) for x in g.flatten()] for g in gradients]
    usable = all(math.isfinite(x) for numbers in plain for x in numbers)
    shaped = [
        torch.tensor([x / scale for x in n]).view(g.shape)
        for n, g in zip(plain, gradients, strict=True)
    ]
    return shaped, usable


def times_log2_e(loss, tokens, units):
    return loss * math.log2(math.e) * tokens / units


def by_base(loss, tokens, units):
    return tokens / units * loss / math.log(2.0)


def by_torch(loss, tokens, units):
    return (torch.tensor(loss * tokens / units) / torch.tensor(2.0).log()).item()


def by_perplexity(loss, tokens, units):
    return tokens * math.log2(math.exp(loss)) / units


def shares(gradients, rows):
    return sum(n / sum(rows) * gradient for n, gradient in zip(rows, gradients, strict=True))


def by_tensordot(gradients, rows):
    stacked = torch.stack(list(gradients))
    weights = torch.tensor(rows, dtype=stacked.dtype)
    return torch.tensordot(weights / weights.sum(), stacked, dims=1)


def row_by_row(gradients, rows):
    repeated = [gradient for gradient, n in zip(gradients, rows, strict=True) for _ in range(n)]
    return torch.stack(repeated).mean(dim=0)


def running(gradients, rows):
    mean, seen = torch.zeros_like(gradients[0]), 0
    for gradient, n in zip(gradients, rows, strict=True):
        if n:
            seen += n
            mean = mean + (gradient - mean) * n / seen
    return mean


RIGHT = {
    "11.flops": (passes_apart, by_loops, whole_windows),
    "11.unscale": (loop_and_flag, by_sum, both_looked_for, number_by_number),
    "11.bits": (times_log2_e, by_base, by_torch, by_perplexity),
    "11.together": (shares, by_tensordot, row_by_row, running),
}


@pytest.mark.parametrize(
    ("id", "answer"), [(i, a) for i, answers in RIGHT.items() for a in answers]
)
def test_another_right_way_passes(id, answer):
    verdict = examine(find(id), answer)
    assert verdict.passed, verdict.message


# ---- wrong, and not among the misconceptions


def divided(gradients, scale):
    return [gradient.float() / scale for gradient in gradients]


def all_finite(gradients):
    return all(bool(gradient.isfinite().all()) for gradient in gradients)


def only_the_list(gradients, scale):
    return divided(gradients, scale)


def the_bool_first(gradients, scale):
    return all_finite(gradients), divided(gradients, scale)


def none_at_all(gradients, scale):
    return (divided(gradients, scale) if all_finite(gradients) else None), all_finite(gradients)


def one_long_tensor(gradients, scale):
    return torch.cat([g.flatten() for g in gradients]).float() / scale, all_finite(gradients)


def rounded_to_bfloat16(gradients, scale):
    return [(g.bfloat16() / scale).float() for g in gradients], all_finite(gradients)


def first_numbers(gradients, scale):
    return divided(gradients, scale), all(bool(g.flatten()[0].isfinite()) for g in gradients)


def small_enough(gradients, scale):
    return divided(gradients, scale), all(bool((g.abs() < 1_000).all()) for g in gradients)


def whole_nats(loss, tokens, units):
    return loss * tokens // units / math.log(2)


def both_lengths(loss, tokens, units):
    return loss * tokens / (tokens + units) / math.log(2)


def by_the_largest(gradients, rows):
    return sum(g * n for g, n in zip(gradients, rows, strict=True)) / max(rows)


def squared_shares(gradients, rows):
    return sum(g * (n / sum(rows)) ** 2 for g, n in zip(gradients, rows, strict=True))


def backwards(gradients, rows):
    return sum(g * n for g, n in zip(gradients, reversed(rows), strict=True)) / sum(rows)


def roots(gradients, rows):
    return sum(g * n**0.5 for g, n in zip(gradients, rows, strict=True)) / sum(n**0.5 for n in rows)


def width_forgotten(parameters, n_layers, d_model, context_length, steps, batch_size):
    return (6 * parameters + 12 * n_layers * context_length) * steps * batch_size * context_length


def layers_twice(parameters, n_layers, d_model, context_length, steps, batch_size):
    per_token = n_layers * (6 * parameters + 12 * d_model * context_length)
    return per_token * steps * batch_size * context_length


WRONG = {
    "11.flops": (width_forgotten, layers_twice),
    "11.unscale": (
        only_the_list,
        the_bool_first,
        none_at_all,
        one_long_tensor,
        rounded_to_bfloat16,
        first_numbers,
        small_enough,
    ),
    "11.bits": (whole_nats, both_lengths),
    "11.together": (by_the_largest, squared_shares, backwards, roots),
}


@pytest.mark.parametrize(
    ("id", "answer"), [(i, a) for i, answers in WRONG.items() for a in answers]
)
def test_a_wrong_one_does_not(id, answer):
    assert examine(find(id), answer).status == "not yet"


@pytest.mark.parametrize("answer", [only_the_list, the_bool_first, none_at_all, one_long_tensor])
def test_parts_that_are_missing_or_misplaced_are_named(answer):
    verdict = examine(find("11.unscale"), answer)
    assert "list" in verdict.message and "float32" in verdict.message


# ---- devices that are not here


def ways_on(device, monkeypatch, capability=(8, 0)):
    """What the lesson's cell would try on a device of this type."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    names = {"torch": torch, "device": torch.device(device), "get_preset": lambda name: name}
    cell = next(cell for cell in LESSON.cells if cell.name == "ways")
    exec(compile(cell.source, "<ways>", "exec"), names)
    return names["ways_on"](torch.device(device)), names["preset"]


@pytest.mark.parametrize(
    ("device", "capability", "sixteen", "preset"),
    [
        ("cuda", (9, 0), "bfloat16", "gpu"),
        ("cuda", (7, 5), "float16", "gpu"),
        ("mps", None, None, "quick"),
        ("cpu", None, "bfloat16", "quick"),
    ],
)
def test_the_lesson_tries_what_the_device_can(device, capability, sixteen, preset, monkeypatch):
    ways, chosen = ways_on(device, monkeypatch, capability)
    assert chosen == preset
    assert {"float16", "bfloat16"} & set(ways) == ({sixteen} if sixteen else set())
    assert ("all, compiled" in ways) == (device == "cuda")
    for changes, kernel in ways.values():
        wanted = changes.get("precision", "float32")
        assert choose_precision(wanted, torch.device(device)) == wanted  # not refused
        assert kernel in ("explicit", "fused")
