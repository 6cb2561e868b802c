"""The soak runs, and its last line has the figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.faults.controlled import ROOT


@pytest.mark.more
def test_a_few_seconds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.soak", "0.05", "--workers", "2"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("minute 1: ")
    told = json.loads(lines[-1])
    assert list(told) == ["minutes", "sent", "acked", "delivered", "lost", "duplicated", "faults"]
    assert told["sent"] >= told["acked"] > 0 and told["faults"] > 0
    assert told["lost"] == told["duplicated"] == 0
