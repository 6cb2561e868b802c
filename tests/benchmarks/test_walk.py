"""The walk of a message in docs/mesh.md is that of the code."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.walk import BEGIN, END, MESH


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="another Python makes other calls: the walk is one of 3.11")
def test_walk_is_not_stale() -> None:
    """Another walk is written by `python -m benchmarks.walk --write`."""
    command = [sys.executable, "-m", "benchmarks.walk"]
    done = subprocess.run(command, cwd=MESH.parents[1], capture_output=True, text=True, check=True)
    _, _, rest = MESH.read_text().partition(BEGIN)
    assert rest.partition(END)[0].strip() == done.stdout.strip()
