"""The report of a run of pytest: a line of JSON for each test, in the file that a variable names.

`-p tests.mutants.recorder`, with `MUTANTS_RECORD` in the environment.
"""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "MUTANTS_RECORD"
_MEMORY_BYTES: Final = 8 << 30
"""Address space of a run: a mutant that never stops collecting ends itself before it ends the machine."""


def pytest_configure() -> None:
    """Bound what the run, and what it starts, may take."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write down each phase of a test: which, whether it failed, and how many seconds it took."""
    _write(report.nodeid, failed=report.failed, seconds=report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Write down a module that cannot be read."""
    if report.failed:
        _write(report.nodeid, failed=True, seconds=0.0)


def _write(test: str, *, failed: bool, seconds: float) -> None:
    with Path(os.environ[VARIABLE]).open("a") as file:
        file.write(json.dumps({"test": test, "failed": failed, "seconds": seconds}) + "\n")
