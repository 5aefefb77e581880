"""pyproject.toml says what is installed; environment.yml, constraints.txt and start.py follow."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import start

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DIRECT = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["test"]
PINS = [
    line
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
VERSIONS = {canonicalize_name(Requirement(pin).name): Requirement(pin).specifier for pin in PINS}
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))


def test_conda_is_led_to_pyproject_by_one_pip_line():
    python, pip, packages = CONDA["dependencies"]
    assert packages == {"pip": ["-e ."]}
    assert pip == "pip"
    assert CONDA["name"] == PROJECT["name"]
    assert python.startswith("python")
    allowed = SpecifierSet(python.removeprefix("python"))
    assert allowed == SpecifierSet(PROJECT["requires-python"])


def test_start_lets_in_the_pythons_of_pyproject():
    allowed = SpecifierSet(PROJECT["requires-python"])
    for minor in range(7, 25):
        assert (start.refusal((3, minor, 0)) is None) == (f"3.{minor}.0" in allowed), minor


@pytest.mark.parametrize("needed", DIRECT)
def test_what_is_needed_is_pinned_within_its_range(needed):
    requirement = Requirement(needed)
    pinned = VERSIONS[canonicalize_name(requirement.name)]
    (version,) = [specifier.version for specifier in pinned]
    assert version in requirement.specifier


@pytest.mark.parametrize("pin", PINS)
def test_a_pin_is_a_name_and_a_version_for_every_machine(pin):
    assert re.fullmatch(r'[a-z0-9-]+==[0-9][0-9a-z.]*( ; sys_platform == "\w+")?', pin)


def test_pins_are_sorted_and_single():
    names = [pin.split("==")[0] for pin in PINS]
    assert names == sorted(set(names))
