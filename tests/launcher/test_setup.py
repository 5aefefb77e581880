"""The environment: made once, then left alone, and repaired whatever stopped a start half-way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher import packages, setup
from launcher.environment import Environment
from launcher.files import folder_of
from launcher.lock import only_one
from launcher.report import StartError
from launcher.setup import prepare

DOWNLOAD_FAILED = (1, ["ERROR: Could not find a version", "ERROR: ... Max retries exceeded"])
INSTALL_FAILED = (1, ["Installing collected packages: pytest", "ERROR: [Errno 13] denied"])


@pytest.fixture
def readable_only(checkout, monkeypatch):
    """The checkout cannot be written (as root, permissions would not show it)."""
    free = setup.can_write
    monkeypatch.setattr(
        setup, "can_write", lambda folder: checkout not in folder.parents and free(folder)
    )


def output_of(environment: Environment, code: str) -> str:
    command = [environment.python, "-X", "utf8", "-c", code]
    return subprocess.check_output(command, encoding="utf-8", cwd=environment.folder).strip()


def leave_a_mark(environment: Environment) -> Path:
    mark = environment.folder / "mark"
    mark.touch()
    return mark


def test_the_second_start_asks_neither_pip_nor_the_network(checkout, pip, capsys, monkeypatch):
    first = prepare(checkout, "lab")
    assert first.folder == checkout / ".venv"
    assert "First start" in capsys.readouterr().out
    monkeypatch.setattr(packages, "torch_source", lambda: pytest.fail("the network was asked"))
    assert prepare(checkout, "lab") == first
    assert len(pip.calls) == 1
    assert capsys.readouterr().out == ""


def test_what_is_about_to_happen_is_said_before(checkout, pip, capsys):
    pip.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        prepare(checkout, "lab")
    said = capsys.readouterr().out
    for part in (str(checkout / ".venv"), "1.4 GB", "minutes"):
        assert part in said


def test_the_course_is_importable_from_a_path_with_any_letters(checkout, pip):
    environment = prepare(checkout, "lab")
    here = output_of(environment, "import the_course; print(the_course.here)")
    assert here == str(checkout / "the_course.py")


def test_jupyter_does_not_ask_about_news(checkout, pip):
    settings = prepare(checkout, "lab").folder / "share" / "jupyter" / "lab" / "settings"
    assert '"fetchNews": "false"' in (settings / "overrides.json").read_text("utf-8")


def test_kernels_do_not_frighten_learners(checkout, pip):
    folder = prepare(checkout, "lab").folder / "etc" / "ipython"
    assert "log_level" in (folder / "ipython_kernel_config.py").read_text("utf-8")


def test_the_test_extra_is_added_on_top(checkout, pip, capsys):
    mark = leave_a_mark(prepare(checkout, "lab"))
    prepare(checkout, "test")
    assert "Adding what the tests need" in capsys.readouterr().out
    assert "pytest>=8" in pip.calls[1] and "pytest>=8" not in pip.calls[0]
    prepare(checkout, "lab")
    prepare(checkout, "test")
    assert len(pip.calls) == 2 and mark.exists()


def test_a_first_start_with_the_tests_also_serves_the_lab(checkout, pip):
    prepare(checkout, "test")
    prepare(checkout, "lab")
    assert len(pip.calls) == 1


@pytest.mark.parametrize("file", ["pyproject.toml", "constraints.txt"])
def test_changed_packages_are_installed_into_the_same_environment(checkout, pip, capsys, file):
    mark = leave_a_mark(prepare(checkout, "lab"))
    changed = (checkout / file).read_text("utf-8").replace("2.13.0", "2.13.1").replace("4.4", "4.5")
    (checkout / file).write_text(changed, encoding="utf-8")
    prepare(checkout, "lab")
    assert "have changed" in capsys.readouterr().out
    assert len(pip.calls) == 2 and mark.exists()


def test_a_start_that_was_stopped_in_pip_begins_again(checkout, pip, capsys):
    pip.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        prepare(checkout, "lab")
    mark = leave_a_mark(Environment(checkout / ".venv", checkout))
    environment = prepare(checkout, "lab")
    assert "not finished" in capsys.readouterr().out
    assert not mark.exists() and environment.runs()
    prepare(checkout, "lab")
    assert len(pip.calls) == 2


def test_a_start_that_was_stopped_while_the_environment_was_made_begins_again(checkout, pip):
    environment = Environment(checkout / ".venv", checkout)
    environment.commands.mkdir(parents=True)
    environment.lock.touch()
    environment.python.write_bytes(b"half a file")
    assert prepare(checkout, "lab").runs()


@pytest.mark.parametrize("stamp", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"python": 3}'])
def test_a_damaged_stamp_means_a_new_environment(checkout, pip, stamp):
    environment = prepare(checkout, "lab")
    (environment.folder / "attention-course.json").write_bytes(stamp)
    mark = leave_a_mark(environment)
    prepare(checkout, "lab")
    assert not mark.exists() and len(pip.calls) == 2


def test_another_python_means_a_new_environment(checkout, pip, monkeypatch):
    mark = leave_a_mark(prepare(checkout, "lab"))
    monkeypatch.setattr("launcher.environment.VERSION", "3.99")
    prepare(checkout, "lab")
    assert not mark.exists() and len(pip.calls) == 2


def test_an_environment_whose_python_is_gone_is_made_anew(checkout, pip):
    environment = prepare(checkout, "lab")
    environment.python.unlink()
    assert prepare(checkout, "lab").runs()


def test_no_network_for_the_tests_leaves_the_lab_as_it_was(checkout, pip):
    mark = leave_a_mark(prepare(checkout, "lab"))
    for _ in range(2):  # and again: the second try must not clear what is there
        pip.answers = [DOWNLOAD_FAILED]
        with pytest.raises(StartError, match="Check the network"):
            prepare(checkout, "test")
        prepare(checkout, "lab")
    assert mark.exists() and len(pip.calls) == 3


def test_half_an_installation_of_the_tests_leaves_the_lab_usable_and_is_not_built_on(checkout, pip):
    mark = leave_a_mark(prepare(checkout, "lab"))
    pip.answers = [INSTALL_FAILED]
    with pytest.raises(StartError, match="denied"):
        prepare(checkout, "test")
    prepare(checkout, "lab")
    assert len(pip.calls) == 2 and mark.exists()
    prepare(checkout, "test")
    assert len(pip.calls) == 3 and not mark.exists()


def test_a_moved_checkout_is_mended_without_pip(checkout, monkeypatch, capsys):
    # with a real pip in it, whose commands carry the path
    monkeypatch.setattr(packages, "run_pip", lambda *_: (0, []))
    monkeypatch.setattr(packages, "torch_source", lambda: "default")
    prepare(checkout, "lab")
    moved = checkout.rename(checkout.parent.parent / "elsewhere")
    monkeypatch.setattr(packages, "run_pip", lambda *_: pytest.fail("pip was called"))
    environment = prepare(moved, "lab")
    assert "moved" in capsys.readouterr().out
    assert output_of(environment, "import the_course; print(the_course.here)").startswith(
        str(moved)
    )
    pip_command = next(environment.commands.glob("pip3*"))
    assert str(moved) in subprocess.check_output([pip_command, "--version"], encoding="utf-8")
    prepare(moved, "lab")
    assert capsys.readouterr().out == ""


def test_a_moved_half_installation_is_not_trusted(checkout, pip):
    pip.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        prepare(checkout, "lab")
    moved = checkout.rename(checkout.parent.parent / "elsewhere")
    prepare(moved, "lab")
    assert len(pip.calls) == 2


def test_an_environment_of_the_users_own_is_set_aside(checkout, pip, capsys):
    own = checkout / ".venv" / "precious"
    own.parent.mkdir()
    own.touch()
    prepare(checkout, "lab")
    assert (checkout / ".venv-old-1" / "precious").exists()
    assert ".venv-old-1" in capsys.readouterr().out


def test_a_checkout_that_cannot_be_written_has_its_environment_elsewhere(
    checkout, pip, readable_only, user_data, capsys
):
    environment = prepare(checkout, "lab")
    assert environment.folder == folder_of(checkout) / ".venv"
    assert environment.folder.is_relative_to(user_data)
    assert str(environment.folder) in capsys.readouterr().out
    assert not (checkout / ".venv").exists()
    prepare(checkout, "lab")
    assert len(pip.calls) == 1


def test_a_ready_environment_serves_those_who_cannot_write_it(checkout, pip, request):
    ready = prepare(checkout, "lab")
    request.getfixturevalue("readable_only")
    assert prepare(checkout, "lab") == ready
    assert prepare(checkout, "test").folder == folder_of(checkout) / ".venv"


def test_no_place_to_write_is_said(checkout, pip, monkeypatch):
    monkeypatch.setattr(setup, "can_write", lambda folder: False)
    with pytest.raises(StartError, match=r"neither .*\.venv nor .*\.venv can be written"):
        prepare(checkout, "lab")


def test_a_path_with_the_separator_of_path_lists_has_its_environment_elsewhere(checkout, pip):
    odd = checkout.rename(checkout.with_name(f"a{os.pathsep}b"))
    assert prepare(odd, "lab").folder == folder_of(odd) / ".venv"


@pytest.mark.parametrize("module", ["venv", "ensurepip"])
def test_a_python_without_venv_is_told_what_to_install(checkout, pip, monkeypatch, module):
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == module else object()
    )
    with pytest.raises(StartError, match=rf"{module} module.*apt install python3\.\d+-venv"):
        prepare(checkout, "lab")


def test_two_starts_do_not_prepare_at_the_same_time(tmp_path, capsys):
    lock, first = tmp_path / "start.lock", tmp_path / "first"
    code = (
        "import sys, time; from pathlib import Path; from launcher.lock import only_one\n"
        "with only_one(Path(sys.argv[1])):\n"
        "    print('held', flush=True); time.sleep(1); Path(sys.argv[2]).touch()\n"
    )
    command = [sys.executable, "-c", code, lock, first]
    root = Path(setup.__file__).parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as other:
        assert other.stdout.readline() == "held\n"
        with only_one(lock):
            assert first.exists()
    assert "waiting" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="Windows ends the lock with its process")
def test_a_pip_that_outlives_its_start_keeps_the_lock(tmp_path):
    lock, first = tmp_path / "start.lock", tmp_path / "first"
    with only_one(lock):
        code = f"import time; time.sleep(1); open({str(first)!r}, 'w')"
        orphan = subprocess.Popen([sys.executable, "-c", code], close_fds=False)
    begun = time.monotonic()
    with only_one(lock):
        assert first.exists(), f"the lock was free after {time.monotonic() - begun:.1f} s"
    orphan.wait()
