"""Python, packages and the GPU: each fault is made, by a fake or for real, and found."""

import subprocess
import sys
from importlib import metadata

import pytest

from course_lib.doctor import packages
from course_lib.doctor.graphics import GET_STARTED, graphics
from course_lib.doctor.packages import FRESH, below, install, package, python_version, release

# ---- Python


def test_this_python_will_do():
    (finding,) = python_version()
    assert finding.state == "ok" and finding.text in sys.version


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 15, 0), (2, 7, 18)])
def test_a_python_too_old_or_too_new_is_named_with_those_that_will_do(version):
    (finding,) = python_version(version)
    assert finding.state == "mend"
    assert f"Python {version[0]}.{version[1]} is too" in finding.text
    assert finding.text.endswith("needs Python 3.11 to 3.14")
    assert finding.remedy.startswith("Install one of these")


def test_a_32_bit_python_will_not_do():
    (finding,) = python_version((3, 12, 1), bits_64=False)
    assert finding.state == "mend" and "32-bit" in finding.text


# ---- packages


def test_what_is_asked_for_is_what_pyproject_says():
    needs = packages.needed()
    assert "torch" in [packages.package_name(need) for need in needs]
    assert all(">=" in need for need in needs)
    pins = packages.pinned()
    assert {packages.package_name(need) for need in needs} <= set(pins)
    assert "sys_platform" not in " ".join(pins.values())


def test_a_package_that_is_not_there():
    finding = package("no-such-package>=1.0", {})
    assert (finding.state, finding.text) == ("mend", "is not installed")
    assert finding.remedy


def test_a_package_that_is_too_old():
    finding = package("numpy>=99.1", {})
    assert finding.state == "mend"
    text = f"{metadata.version('numpy')} is too old; the course needs 99.1 or newer"
    assert finding.text == text


def test_one_that_is_new_enough_and_not_the_one_tested_with_says_so():
    assert package("numpy>=2.0", {"numpy": metadata.version("numpy")}).text[0].isdigit()
    finding = package("numpy>=2.0", {"numpy": "2.0.0"}, version_of=lambda _: "2.4.6")
    assert (finding.state, finding.text) == ("ok", "2.4.6 (tested with 2.0.0)")
    finding = package("torch>=2.9", {"torch": "2.13.0"}, lambda _: "2.13.0+cpu", load=str)
    assert finding.text == "2.13.0+cpu"


@pytest.mark.parametrize(
    "broken",
    ["raise OSError('libx.so.1: cannot open shared object file')", "import no_such_part", "1 / 0"],
)
def test_a_package_whose_import_fails(broken, tmp_path, monkeypatch):
    name = f"broken_{abs(hash(broken))}"
    (tmp_path / f"{name}.py").write_text(broken, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finding = package(f"{name}>=1", {}, version_of=lambda _: "1.2")
    assert finding.state == "mend"
    assert finding.text.startswith("1.2 is installed, and importing it fails: ")
    assert any(word in finding.text for word in ("libx.so.1", "no_such_part", "division"))


def test_a_module_that_is_imported_elsewhere_fails_with_its_last_words():
    packages.import_elsewhere("json")
    with pytest.raises(ImportError, match="No module named 'no_such_module'"):
        packages.import_elsewhere("no_such_module")


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("2.13.0+cpu", (2, 13, 0)), ("9.0rc1", (9, 0)), ("2026.10.19.post1", (2026, 10, 19))],
)
def test_the_numbers_of_a_version(version, numbers):
    assert release(version) == numbers


def test_what_the_packages_stand_on_is_here():
    (finding,) = below()
    assert finding.state == "ok"
    assert int(finding.text.split()[0]) > 40


def made_up(monkeypatch, installed: dict[str, tuple[str, list[str]]]) -> None:
    """Let these be the installed packages: name to version and needs."""

    def find(name, at):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name][at]

    monkeypatch.setattr(packages.metadata, "version", lambda name: find(name, 0))
    monkeypatch.setattr(packages.metadata, "requires", lambda name: find(name, 1))


def test_a_package_below_that_is_missing_or_does_not_fit(monkeypatch):
    made_up(
        monkeypatch,
        {
            "lab": ("4.0", ["server>=2", "kernel", "gone; extra == 'docs'"]),
            "server": ("1.9", ["kernel", "lab"]),  # a ring, as there are some
        },
    )
    found = {finding.subject: finding for finding in below(["lab"])}
    assert found.keys() == {"server", "kernel"}
    assert found["server"].text == "1.9 is installed; lab needs >=2"
    assert "is not installed" in found["kernel"].text


# ---- how to get one


def test_in_the_course_s_environment_a_package_comes_by_pip_and_torch_by_a_fresh_start(monkeypatch):
    monkeypatch.setattr(packages, "in_course_environment", lambda: True)
    assert install("torch>=2.9") == FRESH
    words = install("tqdm>=4.66", again=True)
    assert words.endswith('"tqdm>=4.66"') and "--force-reinstall --no-deps -c" in words
    assert "--force-reinstall" not in install("tqdm>=4.66")


def test_elsewhere_the_course_s_own_python_is_named_if_there_is_one(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "in_course_environment", lambda: False)
    python = tmp_path / "my course" / "python"
    monkeypatch.setattr(packages, "course_python", lambda: python)
    assert install("tqdm>=4") == f'use the course\'s own Python: "{python}" -m course_lib doctor'
    monkeypatch.setattr(packages, "course_python", lambda: None)
    assert "python3 start.py" in install("tqdm>=4")


def test_where_torch_cannot_be_had_that_is_said(monkeypatch):
    monkeypatch.setattr(packages, "in_course_environment", lambda: False)
    monkeypatch.setattr(packages, "course_python", lambda: None)
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert "Intel Macs" in install("torch>=2.9")


# ---- the GPU


def refuse():
    raise RuntimeError("CUDA error: no kernel image is available for execution on the device")


@pytest.mark.parametrize(
    ("cuda_build", "available", "card", "hidden", "compute", "state", "words"),
    [
        (False, False, True, None, refuse, "note", "built without CUDA"),
        (True, False, False, None, refuse, "note", "no NVIDIA GPU or no driver"),
        (True, False, True, None, refuse, "mend", "driver is too old"),
        (True, False, True, "", refuse, "note", "CUDA_VISIBLE_DEVICES='' hides"),
        (True, True, True, None, refuse, "mend", "no kernel image is available"),
        (True, True, True, None, lambda: 2.0, "ok", "torch computes on it"),
    ],
)
def test_torch_and_the_gpu(cuda_build, available, card, hidden, compute, state, words):
    (finding,) = graphics(cuda_build, available, card, hidden, compute)
    assert finding.state == state and words in finding.text
    assert bool(finding.remedy) == (state != "ok")


def test_without_a_gpu_and_without_cuda_there_is_nothing_to_say():
    assert graphics(False, False, False, None, refuse) == ()


@pytest.mark.parametrize(
    ("platform", "ours", "remedy"),
    [("linux", True, FRESH), ("linux", False, GET_STARTED), ("win32", True, GET_STARTED)],
)
def test_how_to_get_torch_with_cuda(monkeypatch, platform, ours, remedy):
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr("course_lib.doctor.graphics.in_course_environment", lambda: ours)
    (finding,) = graphics(False, False, True, None, refuse)
    assert finding.remedy == remedy


def test_a_child_that_hangs_is_a_finding_too(monkeypatch):
    def hang(name):
        raise subprocess.TimeoutExpired("python", 60)

    finding = package("numpy>=2.0", {}, load=hang)
    assert finding.state == "mend" and "timed out" in finding.text
