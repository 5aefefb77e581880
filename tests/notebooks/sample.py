"""Lessons made up for the tests: one that runs in a second, and one that keeps every rule."""

from __future__ import annotations

from pathlib import Path

SMALL = '''\
# %% [markdown] name="title"
# # Weigh and mix
#
# A lesson for the tests: $a + b$ and 注意力.

# %% name="setup"
import os
import sys

import matplotlib.pyplot as plt
import numpy as np


def check(name, answer):
    """Stands in for the library's check, which is tested by itself."""
    try:
        passes = answer(2) == 4
    except NotImplementedError:
        print(name, "is not attempted yet")
        return lambda x: 2 * x
    if not passes and os.environ["COURSE_EDITION"] == "solved":
        raise AssertionError(f"{name} is wrong")
    print(name, "passed" if passes else "is wrong")
    return answer


print("ready", end=" ")
print("to begin")

# %% name="progress"
for step in (1, 2):
    print(f"\\r{step}0%|##  | {step}/2 [00:0{step}]", end="", file=sys.stderr, flush=True)
weights = np.array([[1.0, 0.0], [0.25, 0.75]])
weights

# %% [markdown] name="picture-text"
# Look for the empty corner.

# %% name="picture"
figure, axes = plt.subplots(figsize=(2, 2))
axes.imshow(weights)
plt.show()

# %% name="picture-shows"
assert (axes.images[0].get_array() == weights).all(), "not the weights that were computed"

# %% name="wrong-shape" tags=["raises-exception"]
weights @ np.ones(3)

# %% [markdown] name="ex-double-text"
# ★ · 2 min. Double it.

# %% name="ex-double" tags=["exercise"] course={"exercise": "98.double"}
def double(x):
    """Twice x."""
    raise NotImplementedError


# %% name="check-double" tags=["check", "nbval-ignore-output"]
double = check("98.double", double)

# %% name="goes-on"
print("doubled:", double(21))
'''

_PROSE = "These words stand here so that the lesson is as long as a lesson is meant to be. " * 5

_CELLS = """\
# %% [markdown] name="title"
# # Keep every rule
#
# Lesson {before} · [Lesson {after}]({after}_next.ipynb)

# %% [markdown] name="goals"
# You will build two things in 60 minutes.

# %% name="setup"
from course_lib.runtime import begin_lesson

begin_lesson("{number}")

# %% [markdown] name="question"
# What fails? See [the list](../README.md), [a page](https://example.org) and [below](#recap).
{filler}
# %% [markdown] name="formula"
# $y = 2x$

# %% [markdown] name="look"
# Look for the dark diagonal.

# %% name="picture"
plt.show()

# %% name="in-between"
print(1)

# %% name="picture-shows"
assert True

# %% name="explorer" tags=["nbval-ignore-output"]
explore()

# %% name="explorer-shows"
torch.testing.assert_close(1, 1)

# %% [markdown] name="ex-one-text"
# **Exercise** ★★ · 8 min.

# %% name="ex-one" tags=["exercise"] course={{"exercise": "{number}.one"}}
def one(x):
    raise NotImplementedError

# %% name="check-one" tags=["check", "nbval-ignore-output"]
one = check("{number}.one", one)

# %% [markdown] name="ex-two-text"
# **Exercise** ★ · 3 min.

# %% name="ex-two" tags=["exercise"] course={{"exercise": "{number}.two"}}
answer = None

# %% name="check-two" tags=["check", "nbval-ignore-output"]
check("{number}.two", answer)

# %% name="break-scale"
print("broken")

# %% [markdown] name="recap"
# Goals answered.

# %% name="quiz" tags=["quiz"] course={{"quiz": 5}}
quiz("{number}")

# %% [markdown] name="sources"
# arXiv 1706.03762: the paper.

# %% [markdown] name="next"
# Lesson {after} goes on from here.
"""


def keeps_every_rule(number: str = "03") -> str:
    """A lesson to break one rule of; its code is never executed."""
    filler = "".join(
        f'\n# %% [markdown] name="text-{i}"\n# {_PROSE}\n\n# %% name="code-{i}"\nprint({i})\n'
        for i in range(15)
    )
    before, after = f"{int(number) - 1:02d}", f"{int(number) + 1:02d}"
    return _CELLS.format(number=number, before=before, after=after, filler=filler)


def make_course(root: Path, **lessons: str) -> Path:
    """A course's folders below root, with lessons given as n98_small="text"."""
    (root / "lessons").mkdir(parents=True)
    (root / "notebooks").mkdir()
    (root / "README.md").touch()
    budgets = ["[seconds]", *(f"{number:02d} = 100" for number in range(100))]
    (root / "lessons" / "budgets.toml").write_text("\n".join(budgets), encoding="utf-8")
    for name, text in lessons.items():
        path = root / "lessons" / f"{name.removeprefix('n')}.py"
        path.write_text(text, encoding="utf-8", newline="\n")
    return root
