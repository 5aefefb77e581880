"""One command for the course: its Python environment, your copy of the notebooks, JupyterLab.

    python3 start.py                    open the course in JupyterLab
    python3 start.py test [...]         run the tests; what follows goes to pytest

It needs nothing but Python itself. The work is done in launcher/; this file only looks at the
version, and keeps to syntax that any older Python can read, so that it can say that it is too old.
"""

import os
import sys

OLDEST = (3, 11)
NEWEST = (3, 14)


def refusal(version):
    """Why the course cannot run on this version of Python (a tuple); None when it can."""
    if OLDEST <= tuple(version[:2]) <= NEWEST:
        return None
    fault = "too old" if tuple(version[:2]) < OLDEST else "too new"
    message = (
        "start.py: Python {}.{} is {} for this course, which needs Python {}.{} to {}.{}. "
        "Install one of these and start with it, for example: python{}.{} start.py"
    )
    numbers = OLDEST + NEWEST + (NEWEST[0], NEWEST[1] - 1)
    return message.format(version[0], version[1], fault, *numbers)


def main():
    """Hand over to launcher/, and return the exit code."""
    message = refusal(sys.version_info)
    if message:
        sys.stderr.write(message + "\n")
        return 2
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    from launcher.command import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
