"""The walk of a message in docs/design.md is that of the code."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.walk import BEGIN, DESIGN, END


def test_walk_is_not_stale() -> None:
    """Another walk is written by `python -m benchmarks.walk --write`."""
    command = [sys.executable, "-m", "benchmarks.walk"]
    done = subprocess.run(command, cwd=DESIGN.parents[1], capture_output=True, text=True, check=True)
    _, _, rest = DESIGN.read_text().partition(BEGIN)
    assert rest.partition(END)[0].strip() == done.stdout.strip()
