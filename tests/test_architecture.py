"""The shape of the code: what may import what, its style, and that importing does nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT_FOLDER = Path(__file__).resolve().parent.parent
LAYERS = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
)


def run(*command: str, folder: Path = PROJECT_FOLDER) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )


def test_folders_import_only_what_comes_before_them() -> None:
    done = run("-c", LAYERS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_import_against_the_order_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "course_lib"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.py").write_text("import course_lib.training\n", encoding="utf-8")
    (package / "training.py").touch()
    contract = '[tool.importlinter]\nroot_package = "course_lib"\n'
    contract += '[[tool.importlinter.contracts]]\nname = "order"\ntype = "layers"\n'
    contract += 'containers = ["course_lib"]\nlayers = ["training", "model"]\n'
    (tmp_path / "pyproject.toml").write_text(contract, encoding="utf-8")
    done = run("-c", LAYERS, folder=tmp_path)
    assert done.returncode == 1
    assert "course_lib.model is not allowed to import course_lib.training" in done.stdout


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_ruff_has_nothing_to_say(command: list[str]) -> None:
    done = run("-m", "ruff", *command, "--no-cache", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_imports_no_torch_and_runs_nothing() -> None:
    done = run("-c", "import sys, course_lib; sys.exit('torch' in sys.modules)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


IMPORT_ALL = """
import importlib, os, pkgutil, random
import numpy, torch
before = (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
threads, variables = torch.get_num_threads(), dict(os.environ)
import course_lib
for module in pkgutil.walk_packages(course_lib.__path__, "course_lib."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert before == (
    random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
), "seeded on import"
assert threads == torch.get_num_threads(), "threads set on import"
assert variables == dict(os.environ), "environment changed on import"
"""


def test_importing_every_module_prints_and_seeds_nothing() -> None:
    done = run("-c", IMPORT_ALL)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
