"""The command line as its users meet it: what it writes, its exit codes, its one-line errors."""

import csv
import json
import os
import re
import signal
import subprocess
import sys

import pytest
import torch

from course_lib.cli import main
from course_lib.training.checkpoint import load_run

CHECKPOINT = "data/checkpoints/shakespeare"


@pytest.fixture(autouse=True)
def _in_the_checkout(request, monkeypatch):
    monkeypatch.chdir(request.config.rootpath)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """A run of 30 steps on a small text of the learner's own."""
    folder = tmp_path_factory.mktemp("cli")
    text = folder / "verse 诗.txt"
    text.write_text("To be, or not to be: that is the question.\n" * 100, encoding="utf-8")
    out = folder / "my run"
    assert main(["train", "--corpus", str(text), "--out", str(out), "--steps", "30"]) == 0
    return out


def run(*arguments, **options):
    """python -m course_lib in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "course_lib", *arguments],
        capture_output=True,
        encoding=options.pop("encoding", "utf-8"),
        timeout=240,
        **options,
    )


def test_a_run_leaves_all_its_files(small_run):
    assert sorted(p.name for p in small_run.iterdir()) == [
        "best", "config.json", "history.csv", "last", "model.safetensors", "result.json",
    ]  # fmt: skip
    result = json.loads((small_run / "result.json").read_text(encoding="utf-8"))
    assert set(result) == {
        "val_loss", "test_loss", "best_step", "best_val_loss", "train_seconds",
        "tokens_per_second", "parameters", "dtype", "device", "threads", "precision",
        "attention_kernel", "processes", "seed", "steps",
    }  # fmt: skip
    assert (result["steps"], result["device"], result["dtype"]) == (30, "cpu", "float32")
    assert result["tokens_per_second"] == pytest.approx(
        30 * 12 * 64 / result["train_seconds"], rel=0.01
    )
    with open(small_run / "history.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "step", "tokens", "seconds", "train_loss", "val_loss", "learning_rate",
    ]  # fmt: skip
    assert [int(row["step"]) for row in rows] == list(range(1, 31))
    assert float(rows[-1]["val_loss"]) == pytest.approx(result["val_loss"], abs=1e-5)
    assert float(rows[-1]["train_loss"]) < float(rows[0]["train_loss"])


def test_the_vocabulary_travels_with_the_model(small_run):
    model, tokenizer, config = load_run(small_run)
    assert (
        tokenizer.vocab_size
        == model.config.vocab_size
        == len(set("To be, or not to be: that is the question.\n"))
    )
    assert config["training"]["preset"] == "plain"


def test_same_seed_same_run_and_another_seed_another(small_run, tmp_path, capsys):
    corpus = str(next(small_run.parent.glob("*.txt")))
    weights = []
    for seed in ("0", "1"):
        out = tmp_path / seed
        assert main(["train", "--corpus", corpus, "--out", str(out), "--steps", "30",
                     "--seed", seed, "--device", "cpu", "--threads", "1"]) == 0  # fmt: skip
        weights.append((out / "model.safetensors").read_bytes())
    assert weights[0] == (small_run / "model.safetensors").read_bytes()
    assert weights[0] != weights[1]


def test_generate_continues_the_prompt(capsys):
    command = ["generate", "--checkpoint", CHECKPOINT, "--prompt", "ROMEO:", "--length", "40"]
    texts = []
    for seed in ("0", "0", "1"):
        assert main([*command, "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0].startswith("ROMEO:") and len(texts[0]) == len("ROMEO:") + 40 + 1
    assert texts[0] == texts[1] != texts[2]


def test_temperature_0_is_greedy_whatever_the_seed(capsys):
    command = ["generate", "--checkpoint", CHECKPOINT, "--length", "30", "--temperature", "0"]
    texts = set()
    for seed in ("0", "7"):
        assert main([*command, "--seed", seed]) == 0
        texts.add(capsys.readouterr().out)
    assert len(texts) == 1


@pytest.mark.parametrize(
    "suffix, magic", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_attention_draws_a_layer(tmp_path, capsys, suffix, magic):
    out = tmp_path / f"heads.{suffix}"
    code = main(["attention", "--checkpoint", CHECKPOINT, "--text", "To be!",
                 "--layer", "3", "--out", str(out)])  # fmt: skip
    assert code == 0 and out.read_bytes().startswith(magic)
    assert "4 heads of layer 3" in capsys.readouterr().out


def test_progress_prints_the_lessons(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path))
    assert main(["progress"]) == 0
    assert "02" in capsys.readouterr().out


@pytest.mark.parametrize("code", [0, 1])
def test_doctor_prints_its_report(monkeypatch, code):
    monkeypatch.setattr("course_lib.doctor.print_report", lambda: code)
    assert main(["doctor"]) == code


MISTAKES = {
    "no command": ([], "COMMAND"),
    "unknown command": (["fly"], "fly"),
    "unknown preset": (["train", "--corpus", "shakespeare", "--preset", "huge", "--out", "OUT"], "plain"),
    "no such corpus": (["train", "--corpus", "nope.txt", "--out", "OUT"], "nope.txt"),
    "steps no number": (["train", "--corpus", "shakespeare", "--out", "OUT", "--steps", "many"], "many"),
    "steps 0": (["train", "--corpus", "shakespeare", "--out", "OUT", "--steps", "0"], "--steps 0"),
    "seed below 0": (["train", "--corpus", "shakespeare", "--out", "OUT", "--seed", "-1"], "seed=-1"),
    "threads 0": (["train", "--corpus", "shakespeare", "--out", "OUT", "--threads", "0"], "threads=0"),
    "no such device": (["train", "--corpus", "shakespeare", "--out", "OUT", "--device", "abacus"], "abacus"),
    "reserved name": (["train", "--corpus", "shakespeare", "--out", "CON"], "reserved"),
    "colon in the name": (["train", "--corpus", "shakespeare", "--out", "a:b"], "':'"),
    "name of dots": (["train", "--corpus", "shakespeare", "--out", ".."], "names no file"),
    "empty name": (["train", "--corpus", "shakespeare", "--out", ""], "names no file"),
    "name like an option": (["train", "--corpus", "shakespeare", "--out=-rf"], "option"),
    "NUL in the name": (["train", "--corpus", "shakespeare", "--out", "a\0b"], "x00"),
    "very long name": (["train", "--corpus", "shakespeare", "--out", "x" * 300], "300 bytes"),
    "no checkpoint": (["generate", "--checkpoint", "nowhere"], "nowhere"),
    "unknown character": (["generate", "--checkpoint", CHECKPOINT, "--prompt", "a學"], "'學' U+5B78"),
    "lone surrogate": (["generate", "--checkpoint", CHECKPOINT, "--prompt", "a\udcff"], "DCFF"),
    "temperature below 0": (["generate", "--checkpoint", CHECKPOINT, "--temperature", "-1"], "temperature=-1"),
    "temperature NaN": (["generate", "--checkpoint", CHECKPOINT, "--temperature", "nan"], "temperature=nan"),
    "top-p 0": (["generate", "--checkpoint", CHECKPOINT, "--top-p", "0"], "top_p=0"),
    "top-p 1.5": (["generate", "--checkpoint", CHECKPOINT, "--top-p", "1.5"], "top_p=1.5"),
    "top-k 0": (["generate", "--checkpoint", CHECKPOINT, "--top-k", "0"], "top_k=0"),
    "length below 0": (["generate", "--checkpoint", CHECKPOINT, "--length", "-3"], "length=-3"),
    "empty text": (["attention", "--checkpoint", CHECKPOINT, "--text", "", "--out", "a.png"], "at least one"),
    "byte-order mark alone": (["attention", "--checkpoint", CHECKPOINT, "--text", "\ufeff", "--out", "a.png"], "at least one"),
    "no such layer": (["attention", "--checkpoint", CHECKPOINT, "--text", "a", "--layer", "4", "--out", "a.png"], "0 to 3"),
    "layer below 0": (["attention", "--checkpoint", CHECKPOINT, "--text", "a", "--layer", "-1", "--out", "a.png"], "0 to 3"),
    "no picture": (["attention", "--checkpoint", CHECKPOINT, "--text", "a", "--out", "a.txt"], ".png"),
    "a file for a folder": (["attention", "--checkpoint", CHECKPOINT, "--text", "a", "--out", "README.md/a.png"], "a.png"),
    "run below a file": (["train", "--corpus", "shakespeare", "--out", "README.md/run"], "README.md/run"),
    "seed too large": (["generate", "--checkpoint", CHECKPOINT, "--seed", str(2**64)], f"seed={2**64}"),
    "seed too small": (["generate", "--checkpoint", CHECKPOINT, "--seed", "-1"], "seed=-1"),
    "abbreviated option": (["train", "--corp", "shakespeare", "--out", "OUT"], "--corp "),
    "option for a value": (["generate", "--checkpoint", CHECKPOINT, "--prompt", "--seed"], "--option=VALUE"),
    "temperature inf": (["generate", "--checkpoint", CHECKPOINT, "--temperature", "inf"], "finite"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(name, tmp_path, capsys):
    arguments, expected = MISTAKES[name]
    out = tmp_path / "out"
    code = main([argument.replace("OUT", str(out)) for argument in arguments])
    printed = capsys.readouterr()
    assert code == 2
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert expected in printed.err
    assert not out.exists()


def test_a_byte_order_mark_alone_is_an_empty_prompt(capsys):
    texts = []
    for prompt in ("", "\ufeff"):
        assert (
            main(["generate", "--checkpoint", CHECKPOINT, "--prompt", prompt, "--length", "9"]) == 0
        )
        texts.append(capsys.readouterr().out.removeprefix(prompt))
    assert texts[0] == texts[1]


def test_a_place_that_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("course_lib.training.trainer.Trainer.run", None)  # would be a TypeError
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 10}))
    assert main(["train", "--corpus", "shakespeare", "--out", str(tmp_path / "out")]) == 2
    assert "needs 27 MB" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_second_ctrl_c_skips_the_measuring_and_keeps_the_run(
    small_run, tmp_path, monkeypatch, capsys
):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("course_lib.training.trainer.evaluate", interrupted)
    corpus = str(next(small_run.parent.glob("*.txt")))
    out = tmp_path / "out"
    assert main(["train", "--corpus", corpus, "--out", str(out), "--steps", "3"]) == 130
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["steps"] == 3 and result["val_loss"] is None
    load_run(out)


def test_too_little_memory_is_one_line(small_run, tmp_path, monkeypatch, capsys):
    def demand(*_, **__):
        torch.empty(10**15)

    monkeypatch.setattr("course_lib.training.trainer.next_token_loss", demand)
    corpus = str(next(small_run.parent.glob("*.txt")))
    assert main(["train", "--corpus", corpus, "--out", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    assert "not enough memory" in errors and "tried to allocate 4000000000000000 bytes" in errors
    assert "Traceback" not in errors


def test_an_error_of_ours_is_not_taken_for_too_little_memory(small_run, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a matrix of another shape")

    monkeypatch.setattr("course_lib.training.trainer.next_token_loss", fail)
    corpus = str(next(small_run.parent.glob("*.txt")))
    with pytest.raises(RuntimeError, match="another shape"):
        main(["train", "--corpus", corpus, "--out", str(tmp_path / "out")])


def test_a_link_to_an_empty_folder_is_a_place_for_a_run(small_run, tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    corpus = str(next(small_run.parent.glob("*.txt")))
    assert main(["train", "--corpus", corpus, "--out", str(tmp_path / "link"), "--steps", "1"]) == 0
    load_run(tmp_path / "folder")


def test_a_picture_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch, capsys):
    picture = tmp_path / "new folder" / "heads.png"
    command = ["attention", "--checkpoint", CHECKPOINT, "--text", "a", "--out", str(picture)]
    assert main(command) == 0
    before = picture.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert main([*command, "--layer", "1"]) == 2
    assert picture.read_bytes() == before and len(list(picture.parent.iterdir())) == 1


def test_a_run_goes_on_when_nobody_reads_its_output(small_run, tmp_path, request):
    corpus = str(next(small_run.parent.glob("*.txt")))
    for number, end in enumerate(("2>&1 | true", "2>&-", ">&- 2>&-", "> /dev/full 2>&1")):
        if "/dev/full" in end and not os.path.exists("/dev/full"):
            continue
        out = tmp_path / str(number)
        command = f'"{sys.executable}" -m course_lib train --corpus "{corpus}" --steps 2'
        subprocess.run(f'{command} --out "{out}" {end}', shell=True, timeout=240)
        load_run(out)


def test_a_full_disk_behind_the_output_is_told_in_one_line(request):
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "course_lib", "progress"],
            stdout=full, stderr=subprocess.PIPE, encoding="utf-8", timeout=240,
        )  # fmt: skip
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space" in done.stderr


def test_a_run_is_never_overwritten(small_run, capsys):
    before = (small_run / "model.safetensors").read_bytes()
    code = main(["train", "--corpus", "shakespeare", "--out", str(small_run), "--steps", "1"])
    assert code == 2 and "not empty" in capsys.readouterr().err
    assert (small_run / "model.safetensors").read_bytes() == before


def test_a_text_too_short_for_a_window_is_refused_with_the_numbers(tmp_path, capsys):
    text = tmp_path / "short.txt"
    text.write_text("abcd\n" * 8, encoding="utf-8")  # 40 characters
    code = main(["train", "--corpus", str(text), "--out", str(tmp_path / "out")])
    message = capsys.readouterr().err
    assert code == 2 and "64" in message and message.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_one_character_only_trains_to_loss_0(tmp_path, capsys):
    text = tmp_path / "a.txt"
    text.write_bytes(b"a" * 5000)
    out = tmp_path / "out"
    assert main(["train", "--corpus", str(text), "--out", str(out), "--steps", "3"]) == 0
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["val_loss"] == 0


def test_a_validation_part_below_one_window_gives_a_notice_and_no_value(tmp_path, capsys):
    text = tmp_path / "little.txt"
    text.write_text("abcdefghi\n" * 30, encoding="utf-8")
    out = tmp_path / "out"
    assert main(["train", "--corpus", str(text), "--out", str(out), "--steps", "2"]) == 0
    assert "note: the validation part" in capsys.readouterr().err
    assert json.loads((out / "result.json").read_text(encoding="utf-8"))["val_loss"] is None


def test_in_a_process_of_its_own_from_another_folder(request, tmp_path):
    """What the README's commands do: progress bar on stderr, result on stdout."""
    environment = {**os.environ, "PYTHONPATH": str(request.config.rootpath)}
    done = run("train", "--corpus", "tang", "--preset", "plain", "--out", "runs/tang", "--steps", "2",
               cwd=tmp_path, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Validation loss" in done.stdout and "characters/s" in done.stderr
    done = run("generate", "--checkpoint", "runs/tang", "--length", "20",
               cwd=tmp_path, encoding="cp1252",
               env={**environment, "PYTHONIOENCODING": "cp1252"})  # fmt: skip
    assert done.returncode == 0 and "\\u" in done.stdout, "printing never raises"
    assert run("generate", "--checkpoint", "nowhere", cwd=tmp_path, env=environment).returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_keeps_what_was_trained(tmp_path, request):
    text = tmp_path / "a.txt"
    text.write_text("To be, or not to be.\n" * 100, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "course_lib", "train", "--corpus", str(text), "--out",
         str(tmp_path / "out"), "--steps", "100000"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        cwd=request.config.rootpath,
    )  # fmt: skip
    seen = ""
    while not re.search(r"\d\d/100000 ", seen):  # the bar shows that ten steps are done
        seen = (seen + process.stderr.read(1))[-200:]
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "Stopped at step" in errors and "Traceback" not in errors
    result = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert 10 <= result["steps"] < 100000
    load_run(tmp_path / "out")
