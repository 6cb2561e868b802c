"""Processes of the demo that end with their parent."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from taskd_net_lab.demos.job.terms import PARENT
from taskd_net_lab.demos.job.witness import program

IMPORTED = "raise SystemExit('the package is imported')\n"


@pytest.mark.parametrize("module", ["job.manager", "job.launcher", "job.trainee", "recovery.manager"])
@pytest.mark.parametrize(("lives", "words"), [(True, "the package is imported"), (False, "the parent has ended")])
def test_process_without_its_parent_ends_before_its_imports(
    module: str, lives: bool, words: str, tmp_path: Path
) -> None:
    """The imports take seconds on a busy machine, in which the process would outlive its parent."""
    (tmp_path / "taskd_net").mkdir()
    (tmp_path / "taskd_net" / "__init__.py").write_text(IMPORTED)
    environment = {**os.environ, PARENT: str(os.getpid() if lives else 1)}
    command = program(f"taskd_net.demo.{module}")
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert (run.returncode, run.stderr) == (1, f"{words}\n")
