"""Threads, devices, paths and notices: what is chosen, and what is refused with which words."""

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib.pyplot as plt
import nbclient
import nbformat
import pytest
import torch

from course_lib.runtime import (
    PROJECT_FOLDER,
    CourseError,
    CourseNotice,
    available_threads,
    begin_lesson,
    choose_device,
    duration,
    keep_memory,
    notice,
    notices_to,
    probe_threads,
    set_threads,
    threads_asked_for,
    usable_path,
)


@pytest.fixture(autouse=True)
def _threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (80, "1 min 20 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (3_600_000, "1,000 h"),
    ],
)
def test_a_time_as_people_say_it(seconds, said):
    assert duration(seconds) == said


# ---- memory

USE_AND_FREE = """
import ctypes, resource, sys
from course_lib.runtime import keep_memory
kept = sys.argv[1] == "kept" and keep_memory()
libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
faults = []
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(16 * 2**20) for _ in range(4)]
    for block in blocks:
        libc.memset(block, 1, 16 * 2**20)
    for block in blocks:
        libc.free(block)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(int(kept), faults[-1])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it is for Linux alone")
def test_kept_memory_is_used_again_without_asking_the_system():
    def faults(how: str) -> tuple[int, int]:
        done = subprocess.run(
            [sys.executable, "-c", USE_AND_FREE, how],
            capture_output=True, text=True, timeout=120, cwd=PROJECT_FOLDER,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return tuple(map(int, done.stdout.split()))

    if not keep_memory():
        pytest.skip("this system has another C library")
    kept, others = faults("kept"), faults("given back")
    assert kept[0] and kept[1] < others[1] / 4


def test_where_memory_cannot_be_kept_nothing_happens(monkeypatch):
    class Library:
        """A C library that takes no mmap threshold above `limit`."""

        def __init__(self, limit: int | None) -> None:
            self.calls = []
            if limit is not None:
                self.mallopt = lambda name, value: self.take(name, value, limit)

        def take(self, name: int, value: int, limit: int) -> int:
            self.calls.append((name, value))
            return int(name != -3 or value <= limit)

    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(sys, "platform", "linux")
    older = Library(2**25)
    for cdll, possible in (
        (lambda _: older, True),
        (lambda _: Library(2**20), False),
        (lambda _: Library(None), False),
        (absent, False),
    ):
        monkeypatch.setattr("ctypes.CDLL", cdll)
        assert keep_memory() is possible
    assert older.calls == [(-3, 2**30), (-3, 2**25), (-1, 2**30)]
    monkeypatch.setattr("ctypes.CDLL", lambda _: older)
    for other in ("darwin", "win32"):
        monkeypatch.setattr(sys, "platform", other)
        assert keep_memory() is False
    assert len(older.calls) == 3


# ---- threads


def test_threads_come_from_the_argument_the_environment_or_are_one(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.delenv("COURSE_THREADS")
    torch.set_num_threads(2)
    assert set_threads() == torch.get_num_threads() == 1
    monkeypatch.setenv("COURSE_THREADS", "2")
    assert set_threads() == torch.get_num_threads() == 2
    assert set_threads(3) == torch.get_num_threads() == 3


@pytest.mark.parametrize("wanted", [0, -1, 4, 1.5, True, "two", "", " ", "²"])
def test_other_numbers_of_threads_are_refused(monkeypatch, wanted):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    message = rf"threads={wanted} is not possible here; use a whole number from 1 to 3"
    with pytest.raises(CourseError, match=message):
        set_threads(wanted)
    monkeypatch.setenv("COURSE_THREADS", str(wanted))
    with pytest.raises(CourseError, match=message):
        set_threads()


@pytest.mark.parametrize(
    ("milliseconds", "available", "chosen", "raced"),
    [
        ({1: 10, 2: 5}, 1, 1, []),
        ({1: 10, 2: 6}, 2, 2, [(2, 1)]),
        ({1: 10, 2: 80}, 2, 1, [(2, 1)]),
        ({1: 10, 2: 10}, 8, 1, [(2, 1)]),
        ({1: 10, 2: 6, 4: 4, 8: 3}, 8, 8, [(2, 1), (4, 2), (8, 4)]),
        ({1: 10, 2: 6, 4: 7, 8: 3}, 8, 2, [(2, 1), (4, 2)]),
        ({1: 10, 2: 6, 4: 4, 6: 3}, 6, 6, [(2, 1), (4, 2), (6, 4)]),
        ({1: 10, 2: 6, 3: 7}, 3, 2, [(2, 1), (3, 2)]),
    ],
)
def test_threads_are_doubled_while_it_helps(milliseconds, available, chosen, raced):
    races = []

    def faster(more: int, fewer: int) -> bool:
        races.append((more, fewer))
        return milliseconds[more] < milliseconds[fewer]

    assert probe_threads(faster, available) == chosen
    assert races == raced


def test_threads_that_the_user_names_are_not_looked_for(monkeypatch):
    monkeypatch.setenv("COURSE_THREADS", "2")
    assert threads_asked_for()
    monkeypatch.delenv("COURSE_THREADS")
    assert not threads_asked_for()


def test_available_are_the_processors_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 6}, raising=False)
    assert available_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert available_threads() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_threads() == 1


# ---- device


def pretend(monkeypatch, *, cuda: int = 0, mps: bool = False) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("there", "name", "chosen"),
    [
        ({}, None, "cpu"),
        ({"mps": True}, None, "mps"),
        ({"cuda": 1, "mps": True}, None, "cuda"),
        ({"cuda": 2}, "cpu", "cpu"),
        ({"cuda": 2}, "cuda", "cuda"),
        ({"cuda": 2}, "cuda:1", "cuda:1"),
        ({"mps": True}, "mps", "mps"),
    ],
)
def test_the_device(monkeypatch, there, name, chosen):
    pretend(monkeypatch, **there)
    assert choose_device(name) == torch.device(chosen)


@pytest.mark.parametrize(
    ("there", "name", "message"),
    [
        ({}, "cuda", "device 'cuda' is not available here; use one of: cpu"),
        ({"mps": True}, "cuda", "device 'cuda' is not available here; use one of: mps, cpu"),
        ({"cuda": 1}, "mps", "device 'mps' is not available here; use one of: cuda, cpu"),
        ({}, "gpu", "device 'gpu' is not available here; use one of: cpu"),
        ({}, "", "device '' is not available here"),
        ({}, "meta", "device 'meta' is not available here"),
        ({"cuda": 1}, "cuda:x", "device 'cuda:x' is not a device name; use e.g. cpu, cuda:0"),
        ({"cuda": 2}, "cuda:2", "device 'cuda:2' is not available here; use one of: cuda, cpu"),
    ],
)
def test_other_devices_are_refused(monkeypatch, there, name, message):
    pretend(monkeypatch, **there)
    with pytest.raises(CourseError) as refusal:
        choose_device(name)
    assert message in str(refusal.value)


@pytest.mark.parametrize("name", ["cpu", "cpu:0"])
def test_a_cpu_run_never_asks_for_cuda(monkeypatch, name):
    def asked():
        raise AssertionError("CUDA was asked for")

    monkeypatch.setattr(torch.cuda, "is_available", asked)
    monkeypatch.setattr(torch.cuda, "device_count", asked)
    assert choose_device(name).type == "cpu"


# ---- paths


@pytest.mark.parametrize("text", ["runs/one", "学 习", "é's", ".hidden", "a.b", "-x/y", "../up"])
def test_usable_paths(text):
    assert usable_path(text, "--out") == Path(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it names no file or folder"),
        (".", "it names no file or folder"),
        ("..", "it names no file or folder"),
        ("runs/..", "it names no file or folder"),
        ("/", "it names no file or folder"),
        ("CON", "reserved on Windows"),
        ("runs/nul.txt", "reserved on Windows"),
        ("Com1", "reserved on Windows"),
        ("a:b", "the characters ':' cannot be in a name everywhere"),
        ("a\0b", r"the characters '\x00' cannot"),
        ("a\nb", r"the characters '\n' cannot"),
        ("what?*", "the characters '*', '?' cannot"),
        ("a\udcffb", r"the characters '\udcff' cannot"),
        ("-rf", "a name that starts with - looks like an option"),
        ("runs/-rf", "looks like an option"),
        ("x" * 300, "the name has 300 bytes, and 200 are allowed"),
        ("诗" * 70, "the name has 210 bytes"),
        ("ends.", "ends in a dot or a space"),
        ("ends ", "ends in a dot or a space"),
    ],
)
def test_names_that_some_system_refuses_are_refused_on_all(text, reason):
    with pytest.raises(CourseError) as refusal:
        usable_path(text, "--out")
    message = str(refusal.value)
    assert message.startswith("--out ")
    assert reason in message
    assert message.endswith("choose another name")
    assert len(message) < 200
    assert message.isprintable()


# ---- notices and the start of a lesson


def test_a_notice_is_a_warning_of_its_own_kind():
    with pytest.warns(CourseNotice, match="one line"):
        notice("one line")
    assert issubclass(CourseError, ValueError)


def test_a_lesson_begins_the_same_everywhere(capsys, monkeypatch):
    monkeypatch.delenv("COURSE_THREADS")
    with plt.rc_context():
        begin_lesson("02")
        assert plt.rcParams["figure.dpi"] == 80
    assert capsys.readouterr().out == "Lesson 02 is set up (seed 0).\n"
    assert torch.get_num_threads() == 1
    drawn = torch.rand(3)
    with plt.rc_context():
        begin_lesson("02", seed=0)
        assert torch.equal(drawn, torch.rand(3))
        begin_lesson("02", seed=1)
        assert not torch.equal(drawn, torch.rand(3))
    torch.set_printoptions(profile="default")


def test_importing_the_library_imports_no_torch_and_says_nothing():
    code = "import sys, course_lib, course_lib.runtime; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_notices_of_one_thread_can_go_elsewhere_and_those_of_others_stay_warnings():
    heard = []
    with notices_to(heard.append):
        notice("here")
        with pytest.warns(CourseNotice, match="there"), ThreadPoolExecutor(1) as other:
            other.submit(notice, "there").result()
        with notices_to(lambda _: None):
            notice("deeper")
        notice("here again")
    assert heard == ["here", "here again"]
    with pytest.warns(CourseNotice, match="afterwards"):
        notice("afterwards")


def test_a_notice_points_at_the_caller_of_the_library():
    def library():
        notice("here")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        library()
    assert caught[0].filename == __file__


def test_jupyter_shows_the_users_line_and_the_message_alone(tmp_path):
    cell = "from course_lib.runtime import choose_device\n\nchoose_device('abacus')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    client = nbclient.NotebookClient(
        notebook,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": tmp_path}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": str(PROJECT_FOLDER)})
    (output,) = notebook.cells[0].outputs
    assert output["traceback"] == [
        "line 3:  choose_device('abacus')",
        f"CourseError: {output.evalue}",
    ]
