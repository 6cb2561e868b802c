"""Processes of a job that is made of the documented calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.api.conftest import OWN_IP, SOON

ROOT = Path(__file__).parents[2]


class Role:
    """One process of the job."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.api.role", *arguments],
            cwd=ROOT,
            env={**os.environ, "TASKD_LOG_STDOUT": "False", "POD_IP": OWN_IP, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, text: str = "") -> str:
        """Say a line, and read one."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.line()

    def line(self) -> str:
        """Read a line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def reports(self) -> dict[str, list[str]]:
        """The reports of a Manager, by node."""
        reports: dict[str, list[str]] = json.loads(self.ask())
        return reports

    def end(self) -> tuple[int, str]:
        """End its stdin, and wait for it: its exit code, and what it has complained of."""
        _, complaints = self.process.communicate(timeout=SOON)
        return self.process.returncode, complaints

    def kill(self) -> None:
        """End it by force, if it is there."""
        self.process.kill()
        self.process.communicate()
