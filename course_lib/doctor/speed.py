"""Which preset suits this machine: a few steps of each are timed, and what is too long is reckoned.

A step's work is about 6 × parameters × tokens multiplications and additions (Kaplan et al. 2020,
arXiv 2001.08361), so the time of a large one follows from that of a smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from course_lib.doctor.findings import Finding
from course_lib.runtime import choose_device, duration, set_threads
from course_lib.training.presets import PRESETS, Preset

SECONDS = 0.3  # of measuring, a preset
VOCABULARY = 65  # about Shakespeare's
PATIENCE = 20 * 60  # seconds: a run that somebody waits for


def presets() -> tuple[Finding, ...]:
    """How long each preset takes here, the one that suits first."""
    import torch

    device = choose_device()
    before = torch.get_num_threads()
    set_threads()
    try:
        with torch.random.fork_rng():
            times = estimates(PRESETS, lambda preset: step_seconds(preset, device))
    finally:
        torch.set_num_threads(before)
    return advice(times, device.type)


def estimates(
    presets: Mapping[str, Preset], measure: Callable[[Preset], float]
) -> dict[str, float]:
    """Seconds of training for each preset; `measure` gives those of one step.

    From small to large: a step that would take longer than SECONDS is not made but reckoned.
    """
    times = {}
    speed = None  # seconds for a unit of work
    for name, preset in sorted(presets.items(), key=lambda item: work(item[1])):
        seconds = None if speed is None else speed * work(preset)
        if seconds is None or seconds < SECONDS:
            seconds = measure(preset)
            speed = seconds / work(preset)
        times[name] = seconds * preset.training.steps
    return times


def work(preset: Preset) -> float:
    """Parameters × tokens of one step."""
    shape = preset.model
    parameters = 12 * shape["n_layers"] * shape["d_model"] ** 2
    return parameters * preset.training.batch_size * shape["context_length"]


def step_seconds(preset: Preset, device) -> float:
    """The time of the step that was disturbed least, of those that fit into SECONDS."""
    import torch

    from course_lib.model.config import GPTConfig
    from course_lib.model.gpt import GPT
    from course_lib.training.trainer import Trainer

    model = GPT(GPTConfig(vocab_size=VOCABULARY, **preset.model)).to(device)
    tokens = torch.arange(4_096) % VOCABULARY
    recipe = preset.training.steady()
    trainer = Trainer(model, tokens, tokens[:0], recipe)
    rate = recipe.learning_rate
    started = time.perf_counter()
    trainer.step(rate)  # the first fetches memory and chooses kernels
    times = []
    while not times or time.perf_counter() < started + SECONDS:
        begun = time.perf_counter()
        trainer.step(rate)
        times.append(time.perf_counter() - begun)
    return min(times)


def advice(times: Mapping[str, float], device: str) -> tuple[Finding, ...]:
    """The estimates as findings, the preset that suits first and with the reason."""
    if device == "cuda":
        best, why = "gpu", "there is an NVIDIA GPU"
    elif times["laptop"] <= PATIENCE:
        best, why = "laptop", "the best that trains without an NVIDIA GPU while you wait"
    else:
        best, why = "quick", f"`laptop` would take about {about(times['laptop'])}"
    said = [Finding("preset", best, f"about {about(times[best])}; suits this machine: {why}")]
    return tuple(said) + tuple(
        Finding("preset", name, f"about {about(seconds)}")
        for name, seconds in times.items()
        if name != best
    )


def about(seconds: float) -> str:
    """A time with as many digits as an estimate is worth."""
    if seconds < 60:
        return duration(max(seconds, 1))
    unit = 60 if seconds < 3_600 else 600 if seconds < 36_000 else 3_600
    return duration(round(seconds / unit) * unit)
