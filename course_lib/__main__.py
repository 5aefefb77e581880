"""python -m course_lib: see cli.py."""

import sys

from course_lib.cli import main

sys.exit(main())
