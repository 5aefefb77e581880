"""The training loop against one written out here, and what evaluation must not disturb."""

import dataclasses
import json
import math
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from course_lib.data.batches import random_windows
from course_lib.model.config import GPTConfig
from course_lib.model.experts import routings_of
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError, CourseNotice
from course_lib.training.presets import TrainingConfig
from course_lib.training.probe import probe
from course_lib.training.trainer import Trainer, evaluate, next_token_loss

VOCABULARY, CONTEXT = 11, 7


def small_gpt(**values) -> GPT:
    torch.manual_seed(0)
    values = {"vocab_size": VOCABULARY, "context_length": CONTEXT, "n_layers": 1} | values
    return GPT(GPTConfig(d_model=12, **values))


def text(length: int, seed: int = 5) -> torch.Tensor:
    return torch.randint(VOCABULARY, (length,), generator=torch.Generator().manual_seed(seed))


def recipe(**values) -> TrainingConfig:
    defaults = {"steps": 6, "batch_size": 3, "warmup_steps": 2, "evaluate_every": 2, "seed": 9}
    return TrainingConfig(**{**defaults, **values})


def trained(validation_length: int = 40, model_values=None, **values) -> Trainer:
    trainer = Trainer(
        small_gpt(**(model_values or {})), text(200), text(validation_length, 6), recipe(**values)
    )
    torch.manual_seed(1)  # what dropout draws from
    for _ in trainer.run():
        pass
    return trainer


def losses(trainer: Trainer) -> list[float]:
    return [record.train_loss for record in trainer.history]


# ---- oracles


def test_loss_by_loops():
    logits, targets = torch.randn(2, 3, 5), torch.randint(5, (2, 3))
    total = 0.0
    for b in range(2):
        for t in range(3):
            exponentials = [math.exp(logit) for logit in logits[b, t].tolist()]
            total -= math.log(exponentials[targets[b, t]] / sum(exponentials))
    assert next_token_loss(logits, targets).item() == pytest.approx(total / 6, rel=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_the_trainer_equals_a_plain_loop_bit_for_bit(dropout):
    trainer = trained(model_values={"dropout": dropout}, gradient_clip=0.3)
    model, tokens = small_gpt(dropout=dropout), text(200)
    torch.manual_seed(1)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        betas=(0.9, 0.99),
    )
    generator = torch.Generator().manual_seed(9)
    peak, minimum = 1e-3, 1e-4
    for step in range(6):
        rate = peak * (step + 1) / 3
        if step >= 2:
            rate = minimum + (peak - minimum) * (1 + math.cos(math.pi * (step - 2) / 3)) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, targets = random_windows(tokens, 3, CONTEXT, generator)
        loss = F.cross_entropy(model(inputs).view(-1, VOCABULARY), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
        assert norm > 0.3  # so that clipping is seen
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        assert trainer.history[step].train_loss == loss.item()
        assert trainer.history[step].learning_rate == pytest.approx(rate, rel=1e-12)
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])


def test_experts_are_balanced_in_training_and_only_there():
    """Against a loop: the balancing losses of both layers are added, and not reported."""
    values = {"n_layers": 2, "n_experts": 5, "experts_per_token": 1, "capacity_factor": 0.75}
    weight = {"balance_weight": 0.3}
    trainer = trained(model_values=values | weight, gradient_clip=math.inf, weight_decay=0.0)
    model, tokens = small_gpt(**values, **weight), text(200)
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.0)
    generator = torch.Generator().manual_seed(9)
    for record in trainer.history:
        inputs, targets = random_windows(tokens, 3, CONTEXT, generator)
        with routings_of(model) as routings:
            logits = model.train()(inputs)
        loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))
        assert record.train_loss == pytest.approx(loss.item(), rel=1e-5)
        optimizer.zero_grad()
        (loss + 0.3 * sum(routing.balance_loss for routing in routings)).backward()
        optimizer.param_groups[0]["lr"] = record.learning_rate
        optimizer.step()
    for name, tensor in trainer.model.state_dict().items():
        torch.testing.assert_close(tensor, model.state_dict()[name])
    assert trainer.history[-1].val_loss == pytest.approx(evaluate(model, text(40, 6)), rel=1e-5)
    alone = trained(model_values=values | {"balance_weight": 0.0}, gradient_clip=math.inf)
    assert losses(alone)[0] == losses(trainer)[0]
    assert losses(alone)[1:] != losses(trainer)[1:]


def test_with_experts_the_model_is_not_compiled(monkeypatch):
    monkeypatch.setattr("course_lib.training.trainer.worth_compiling", lambda device: True)
    for experts, compiled in ((None, True), (3, False)):
        model = small_gpt(n_experts=experts)
        trainer = Trainer(model, text(200), text(40), recipe(compile=True))
        assert (trainer._forward is not model) == compiled


@pytest.mark.parametrize("length", [8, 9, 14, 15, 16, 40])
@pytest.mark.parametrize("batch_size", [1, 2, 64])
def test_evaluation_predicts_each_character_once(length, batch_size):
    """Windows follow one another, each with an empty past, the last one as short as it is."""
    model, tokens = small_gpt().eval(), text(length)
    total, predicted = 0.0, 0
    for start in range(0, length - 1, CONTEXT):
        window = tokens[start : start + CONTEXT + 1]
        for t in range(len(window) - 1):
            logits = model(window[None, : t + 1])[0, -1]
            total -= logits.log_softmax(dim=0)[window[t + 1]].item()
            predicted += 1
    assert predicted == length - 1
    assert evaluate(model, tokens, batch_size) == pytest.approx(total / predicted, rel=1e-5)


# ---- laws


def test_records_count_steps_and_characters():
    trainer = trained(steps=5, evaluate_every=2)
    assert [record.step for record in trainer.history] == [1, 2, 3, 4, 5]
    assert [record.tokens for record in trainer.history] == [21, 42, 63, 84, 105]
    measured = [record.val_loss is not None for record in trainer.history]
    assert measured == [False, True, False, True, True]  # the last step always
    assert trainer.history[-1].val_loss == evaluate(trainer.model, trainer.validation_tokens)
    seconds = [record.seconds for record in trainer.history]
    assert seconds == sorted(seconds)


def test_training_learns():
    trainer = Trainer(
        small_gpt(),
        torch.arange(200) % VOCABULARY,
        torch.arange(40) % VOCABULARY,
        recipe(steps=60, learning_rate=3e-2, warmup_steps=5, evaluate_every=60),
    )
    first, *_, last = trainer.run()
    assert first.train_loss == pytest.approx(math.log(VOCABULARY), rel=0.03)
    assert last.train_loss < 0.5
    assert last.val_loss < 0.5


def test_the_same_seed_gives_the_same_run():
    first, second = (trained(model_values={"dropout": 0.1}) for _ in range(2))
    assert losses(first) == losses(second)
    assert [r.val_loss for r in first.history] == [r.val_loss for r in second.history]
    for name, tensor in first.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name])
    assert losses(trained(seed=10)) != losses(trained(seed=9))


def test_evaluating_more_often_changes_nothing():
    seldom = trained(model_values={"dropout": 0.3}, evaluate_every=6)
    often = trained(model_values={"dropout": 0.3}, evaluate_every=1)
    assert losses(seldom) == losses(often)


def test_evaluation_is_without_dropout_gradients_and_random_numbers():
    model, tokens = small_gpt(dropout=0.5), text(40)
    before = torch.get_rng_state()
    assert evaluate(model.train(), tokens) == evaluate(model.eval(), tokens)
    assert torch.equal(before, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_leaves_the_mode_as_it_was_also_after_an_error(training):
    model = small_gpt(dropout=0.5).train(training)
    evaluate(model, text(40))
    assert model.training == training
    with pytest.raises(IndexError):
        evaluate(model, text(40) + VOCABULARY)  # outside the vocabulary
    assert all(module.training == training for module in model.modules())


def test_training_goes_on_in_training_mode_after_an_evaluation():
    trainer = Trainer(small_gpt(dropout=0.5), text(200), text(36), recipe(evaluate_every=1))
    seen = []
    trainer.model.blocks[0].register_forward_pre_hook(
        lambda module, _: seen.append((module.training, torch.is_grad_enabled()))
    )
    for _ in trainer.run():
        pass
    assert seen == [(True, True), (False, False)] * 6


def test_a_model_handed_over_in_evaluation_mode_is_trained_with_dropout():
    expected = trained(model_values={"dropout": 0.3})
    model = small_gpt(dropout=0.3).eval()
    trainer = Trainer(model, text(200), text(40, 6), recipe())
    torch.manual_seed(1)
    for _ in trainer.run():
        pass
    assert losses(trainer) == losses(expected)


def test_the_caller_may_stop_at_any_step():
    trainer = Trainer(small_gpt(), text(200), text(40), recipe())
    for record in trainer.run():
        if record.step == 3:
            break
    assert len(trainer.history) == 3
    result = trainer.result()
    assert result["steps"] == 3
    assert result["val_loss"] == evaluate(trainer.model, trainer.validation_tokens)


@pytest.mark.parametrize("stop", [1, 2, 5, 6])
def test_a_run_goes_on_where_it_was_stopped(stop):
    whole = trained(model_values={"dropout": 0.3})
    trainer = Trainer(small_gpt(dropout=0.3), text(200), text(40, 6), recipe())
    torch.manual_seed(1)
    for record in trainer.run():
        if record.step == stop:
            break
    evaluate(trainer.model, trainer.validation_tokens)
    for _ in trainer.run():
        pass
    assert list(trainer.run()) == []

    def without_times(run: Trainer) -> list:
        return [dataclasses.replace(record, seconds=0.0) for record in run.history]

    assert without_times(trainer) == without_times(whole)
    seconds = [record.seconds for record in trainer.history]
    assert seconds == sorted(seconds)


def test_the_result_says_where_the_run_ended():
    trainer = trained()
    result = trainer.result()
    assert set(result) == {
        "val_loss",
        "test_loss",
        "best_step",
        "best_val_loss",
        "train_seconds",
        "tokens_per_second",
        "parameters",
        "device",
        "dtype",
        "threads",
        "precision",
        "attention_kernel",
        "processes",
        "seed",
        "steps",
    }
    last = trainer.history[-1]
    assert result["val_loss"] == last.val_loss
    assert result["tokens_per_second"] == pytest.approx(last.tokens / last.seconds, rel=1e-3)
    assert (result["device"], result["dtype"], result["seed"]) == ("cpu", "float32", 9)
    assert result["parameters"] == sum(p.numel() for p in trainer.model.parameters())


def test_one_character_repeated_trains_to_a_loss_of_zero():
    model = small_gpt(vocab_size=1)
    ones = torch.zeros(100, dtype=torch.long)
    trainer = Trainer(model, ones, ones, recipe())
    for record in trainer.run():
        assert record.train_loss == 0.0
        assert record.val_loss in (None, 0.0)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


# ---- notices and refusals


def test_a_validation_part_without_a_window_gives_no_value_and_a_notice():
    model = small_gpt()
    with pytest.warns(CourseNotice, match="validation part has 7 characters.* window of 8"):
        assert evaluate(model, text(CONTEXT)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate(model, text(CONTEXT + 1)) > 0
    with pytest.warns(CourseNotice):
        trainer = trained(validation_length=3)
    assert {record.val_loss for record in trainer.history} == {None}
    assert trainer.result()["val_loss"] is None


def test_a_training_part_of_one_window_is_enough_and_less_is_refused():
    trainer = Trainer(small_gpt(), text(CONTEXT + 1), text(40), recipe())
    assert len(list(trainer.run())) == 6
    with pytest.raises(CourseError, match=r"7 characters.*context_length=7.*at most 6"):
        Trainer(small_gpt(), text(CONTEXT), text(40), recipe())


def test_a_stop_in_the_middle_of_an_evaluation_loses_no_step(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    straight = trained()
    stopped = Trainer(small_gpt(), text(200), text(40, 6), recipe())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("course_lib.training.trainer.evaluate", stop)
        list(stopped.run())
    assert [record.step for record in stopped.history] == [1, 2]
    list(stopped.run())
    assert losses(stopped) == losses(straight)


@pytest.mark.parametrize("windows", ["random", "shuffled"])
def test_cut_windows_are_the_same_windows_in_pieces_for_the_first_share_of_the_steps(windows):
    def read_by(**values):
        trainer = Trainer(
            small_gpt(context_length=6), text(200), text(40), recipe(windows=windows, **values)
        )
        read = []
        trainer.model.register_forward_pre_hook(
            lambda model, arguments: read.append(arguments[0]) if model.training else None
        )
        for _ in trainer.run():
            pass
        return read

    whole, cut = read_by(), read_by(cut_into=3, cut_share=0.4)
    # 6 steps of 3 windows; steps 1 to 3 begin before 0.4 of them are done
    assert [tuple(part.shape) for part in cut] == [(9, 2)] * 3 + [(3, 6)] * 3
    for one, other in zip(whole, cut, strict=True):
        assert torch.equal(one.flatten(), other.flatten())


def test_a_run_stopped_where_its_windows_grow_goes_on_as_if_it_had_not():
    values = {"windows": "shuffled", "cut_into": 7, "cut_share": 0.5}
    straight = trained(**values)
    stopped = Trainer(small_gpt(), text(200), text(40, 6), recipe(**values))
    records = stopped.run()
    for _ in range(3):
        next(records)
    list(stopped.run())
    assert losses(stopped) == losses(straight)
    assert losses(straight) != losses(trained(windows="shuffled"))


def test_windows_that_cannot_be_cut_equally_are_refused():
    with pytest.raises(CourseError, match="context_length=7 cannot be cut into 2 equal pieces"):
        trained(cut_into=2, cut_share=0.5)


def compile_by(monkeypatch, function):
    """Let function stand for torch.compile, on the CPU too."""
    monkeypatch.setattr(torch, "compile", function)
    monkeypatch.setattr("course_lib.training.trainer.worth_compiling", lambda device: True)


def test_on_a_cpu_nothing_is_compiled(monkeypatch):
    def fail(module):
        raise AssertionError("compiled")

    monkeypatch.setattr(torch, "compile", fail)
    assert losses(trained(compile=True)) == losses(trained())


def test_a_compiled_model_trains_the_same_weights_and_is_evaluated_as_it_is(monkeypatch):
    passes = []

    class Compiled(torch.nn.Module):
        """What torch.compile gives, without the minute that it takes."""

        def __init__(self, module):
            super().__init__()
            self._orig_mod = module

        def forward(self, *arguments):
            passes.append(arguments)
            return self._orig_mod(*arguments)

    plain = trained(model_values={"dropout": 0.2})
    compile_by(monkeypatch, Compiled)
    compiled = trained(model_values={"dropout": 0.2}, compile=True)
    assert len(passes) == 6  # a step each, and none of an evaluation
    assert losses(compiled) == losses(plain)
    names = {name for name, _ in compiled.model.named_parameters()}
    assert {name.rpartition(".")[0] for name in compiled.optimizer.state_dict()} <= names


def test_what_torch_compile_gives_trains_the_same_step_after_step(monkeypatch, recwarn):
    # torch's own, but for the kernels, whose making takes a compiler and half a minute
    passes = []

    def backend(graph, inputs):
        def run(*arguments):
            passes.append(arguments)
            return graph(*arguments)

        return run

    compile_by(monkeypatch, partial(torch.compile, backend=backend))
    compiled = trained(compile=True)
    assert len(passes) == 6  # no step went on without
    assert not [told for told in recwarn if issubclass(told.category, CourseNotice)]
    assert losses(compiled) == losses(trained())


def test_where_nothing_can_be_compiled_a_run_goes_on_without(monkeypatch):
    tries = []

    def compile_nothing(module):
        def fail(tokens):
            tries.append(tokens)
            raise RuntimeError("No working C++ compiler found\n\nSet TORCH_LOGS for more")

        return fail

    plain = trained(model_values={"dropout": 0.2})
    compile_by(monkeypatch, compile_nothing)
    with pytest.warns(CourseNotice, match=r"RuntimeError: No working C.. compiler found\)") as told:
        eager = trained(model_values={"dropout": 0.2}, compile=True)
    assert len(tries) == len(told) == 1
    assert losses(eager) == losses(plain)


def test_a_mistake_in_a_compiled_step_is_not_taken_for_a_lack_of_a_compiler(monkeypatch):
    compile_by(monkeypatch, lambda module: module)
    trainer = Trainer(small_gpt(), text(200) + VOCABULARY, text(40), recipe(compile=True))
    with pytest.raises(IndexError):
        trainer.step(1e-3)


def test_a_loss_that_is_no_number_is_told_once_and_is_none_in_the_result():
    trainer = Trainer(
        small_gpt(), text(200), text(40), recipe(learning_rate=1e30, warmup_steps=0),
        test_tokens=text(40, 7),
    )  # fmt: skip
    with pytest.warns(CourseNotice, match=r"loss of step \d is nan: .*diverged.*lower") as told:
        list(trainer.run())
    assert len(told) == 1
    assert math.isnan(trainer.history[-1].train_loss) and trainer.best_step is None
    json.dumps(trainer.result(), allow_nan=False)
    assert trainer.result()["val_loss"] is None and trainer.result()["test_loss"] is None


def test_the_test_part_is_measured_at_the_end_alone():
    trainer = Trainer(small_gpt(), text(200), text(40), recipe(), test_tokens=text(50, 7))
    for record in trainer.run():
        assert record.step == 6 or trainer.result()["test_loss"] is None
    assert trainer.result()["test_loss"] == evaluate(trainer.model, text(50, 7))
    assert trainer.result(measure=False)["test_loss"] is None


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "auto"])
def test_memory_is_kept_for_the_recipes_that_leave_the_way_open(monkeypatch, precision):
    kept = []
    for name in ("trainer", "probe"):
        monkeypatch.setattr(f"course_lib.training.{name}.keep_memory", lambda: kept.append(1))
    config = recipe(precision=precision)
    Trainer(small_gpt(), text(200), text(40, 6), config)
    assert len(kept) == (precision == "auto")
    probe(small_gpt(), config, threads=1, timer=lambda machine: 1.0)
    assert len(kept) == 2 * (precision == "auto")
