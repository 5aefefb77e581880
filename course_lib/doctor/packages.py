"""The Python that runs this, and the packages that the course needs.

Versions come from pyproject.toml (the least that will do) and constraints.txt (those tested with).
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

from course_lib.doctor.checkout import beside, command, course_python, in_course_environment
from course_lib.doctor.findings import Finding, one_line
from course_lib.runtime import PROJECT_FOLDER

FRESH = "delete the folder .venv in the course's folder, then: python3 start.py"
ELSEWHERE = ("jupyterlab",)  # its import takes two seconds, so that goes on beside the rest


def python_version(
    version: Sequence[int] = sys.version_info, bits_64: bool = sys.maxsize > 2**32
) -> tuple[Finding, ...]:
    """Whether the course runs with this Python: start.py knows which ones."""
    shown = ".".join(map(str, version[:3]))
    refusal = beside("start").refusal(tuple(version))
    if refusal:
        fault, _, remedy = refusal.removeprefix("start.py: ").partition(". ")
        return (Finding("mend", "Python", fault, remedy),)
    if not bits_64:
        remedy = "install the 64-bit one, then: python3 start.py"
        return (Finding("mend", "Python", f"{shown} is a 32-bit one, and torch has none", remedy),)
    return (Finding("ok", "Python", shown),)


def needed() -> list[str]:
    """What pyproject.toml asks for, as "name>=version"."""
    return beside("launcher.packages").requirements(PROJECT_FOLDER)["lab"]


def pinned() -> dict[str, str]:
    """The versions that the course is tested with, by name."""
    text = (PROJECT_FOLDER / "constraints.txt").read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def dependencies() -> tuple[Finding, ...]:
    """Each package the course asks for: there, new enough, and its import works."""
    pins = pinned()
    with ThreadPoolExecutor() as pool:
        slow = {
            need: pool.submit(package, need, pins, load=import_elsewhere)
            for need in needed()
            if package_name(need) in ELSEWHERE
        }
        found = [slow[need].result() if need in slow else package(need, pins) for need in needed()]
    good = ", ".join(f"{each.subject} {each.text}" for each in found if each.state == "ok")
    faults = tuple(each for each in found if each.state != "ok")
    return (*faults, Finding("ok", "packages", good)) if good else faults


def package(
    need: str,
    pins: Mapping[str, str],
    version_of: Callable[[str], str] = metadata.version,
    load: Callable[[str], object] = importlib.import_module,
) -> Finding:
    """One package: there, new enough, importable, and of the version tested with."""
    name, least = package_name(need), need.partition(">=")[2]
    try:
        version = version_of(name)
    except metadata.PackageNotFoundError:
        return Finding("mend", name, "is not installed", install(need))
    if release(version) < release(least):
        text = f"{version} is too old; the course needs {least} or newer"
        return Finding("mend", name, text, install(need))
    try:
        load(name.replace("-", "_"))
    except Exception as error:  # a broken library raises what it likes
        text = f"{version} is installed, and importing it fails: {type(error).__name__}: "
        return Finding("mend", name, text + one_line(error), install(need, again=True))
    pin = pins.get(name)
    if pin and release(version) != release(pin):
        return Finding("ok", name, f"{version} (tested with {pin})")
    return Finding("ok", name, version)


def package_name(need: str) -> str:
    """The name in "name>=version"."""
    return re.match(r"[\w.-]+", need)[0]


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without what is behind them: "2.13.0+cpu" is (2, 13, 0)."""
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)*", version)[0].split("."))


def install(need: str, again: bool = False) -> str:
    """How to get a package; `again`: over the one that is there."""
    if in_course_environment():
        if package_name(need) == "torch":  # start.py chooses the build that fits the GPU
            return FRESH
        words = ["--force-reinstall", "--no-deps"] if again else []
        constraints = str(PROJECT_FOLDER / "constraints.txt")
        return command(
            sys.executable, "-m", "pip", "install", *words, "-c", constraints, f'"{need}"'
        )
    if made := course_python():
        return f"use the course's own Python: {command(str(made), '-m', 'course_lib', 'doctor')}"
    try:
        beside("launcher.packages").refuse_unsupported(PROJECT_FOLDER)
    except Exception as refusal:
        return str(refusal)
    return "make an environment that has all of them: python3 start.py"


def import_elsewhere(name: str) -> None:
    """Import a module in a process of its own. Raises ImportError with its last words."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=60,
    )
    if done.returncode:
        raise ImportError((done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])


def below(names: Sequence[str] | None = None) -> tuple[Finding, ...]:
    """What these packages need in turn, all the way down: there, and of a version that fits."""
    from packaging.requirements import Requirement

    waiting = [package_name(need) for need in needed()] if names is None else list(names)
    seen = set(waiting)
    wrong = {}
    while waiting:
        user = waiting.pop()
        try:
            wants = [Requirement(text) for text in metadata.requires(user) or []]
        except metadata.PackageNotFoundError:
            continue  # said where it is wanted
        for want in wants:
            if want.marker and not want.marker.evaluate({"extra": ""}):
                continue
            if want.name not in wrong and (fault := _fault(user, want)):
                wrong[want.name] = fault
            if want.name not in seen:
                seen.add(want.name)
                waiting.append(want.name)
    text = f"{len(seen)} packages in all, of versions that go together"
    return tuple(wrong.values()) or (Finding("ok", "with theirs", text),)


def _fault(user: str, want) -> Finding | None:
    try:
        version = metadata.version(want.name)
    except metadata.PackageNotFoundError:
        return Finding("mend", want.name, f"is not installed; {user} needs it", install(want.name))
    if want.specifier.contains(version, prereleases=True):
        return None
    text = f"{version} is installed; {user} needs {want.specifier}"
    return Finding("mend", want.name, text, install(want.name))
