"""python -m course_lib doctor: what this machine has, which preset suits it, what is to be mended.

Made for the day on which something is missing: nothing is imported here that could be, each check
stands alone, and one that cannot be made says so. It asks no network and changes nothing.
"""

from __future__ import annotations

import importlib
import warnings

from course_lib.doctor.findings import Check, Finding, as_text, examine

CHECKS = (
    ("machine.python", "Python", ()),
    ("machine.system", "system", ()),
    ("machine.memory", "memory", ()),
    ("machine.torch_build", "torch", ("torch",)),
    ("machine.devices", "devices", ("torch",)),
    ("packages.below", "with theirs", ()),
    ("graphics.gpu", "GPU", ("torch",)),
    ("folders.corpora", "corpora", ()),
    ("folders.checkpoints", "checkpoints", ("torch", "safetensors", "numpy")),
    ("folders.notebooks", "notebooks", ("Python",)),
    ("folders.learners_places", "progress", ("platformdirs",)),
    ("folders.disk", "disk", ()),
    ("folders.chinese_font", "Chinese font", ("matplotlib", "numpy")),
    ("folders.threads", "threads", ("torch",)),
    ("speed.presets", "presets", ("Python", "torch", "numpy", "threads")),
)


def report() -> tuple[Finding, ...]:
    """All findings. Those with state "mend" keep the course, or a part of it, from working."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is looked at here
        found = list(examine(_check("packages.python_version", "Python"), ()))
        found += examine(_check("packages.dependencies", "packages"), ())
        for place, subject, needs in CHECKS:
            broken = [finding.subject for finding in found if finding.state == "mend"]
            found += examine(_check(place, subject, needs), broken)
    return tuple(found)


def print_report() -> int:
    """Print all findings; 1 if something is to be mended, else 0."""
    findings = report()
    print(as_text(findings))
    return int(any(finding.state == "mend" for finding in findings))


def _check(place: str, subject: str, needs: tuple[str, ...] = ()) -> Check:
    module, _, function = place.partition(".")

    def look() -> tuple[Finding, ...]:
        return getattr(importlib.import_module(f"{__name__}.{module}"), function)()

    return Check(subject, look, needs)
