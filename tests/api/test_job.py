"""A whole job in processes of their own, made of nothing but the documented calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.api.conftest import OWN_IP, SOON, free_port, until

pytestmark = pytest.mark.compat

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
        """What a manager has been told, by node."""
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


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    """What ends every process of the test."""
    with ExitStack() as stack:
        yield stack


def test_job_whose_processes_start_in_any_order_and_whose_manager_is_killed(ending: ExitStack) -> None:
    port = str(free_port())
    settings = {"RANK": "3", "LOCAL_WORLD_SIZE": "8", "TASKD_NET_UPSTREAM": f"127.0.0.1:{port}"}
    worker = Role("worker", "3", **settings)
    ending.callback(worker.kill)
    node = Role("node", OWN_IP, port)
    ending.callback(node.kill)
    first = Role("manager")
    ending.callback(first.kill)

    assert node.line() == "START_ALL_WORKER"
    assert worker.ask("one") == "True"
    everybody = {"Agent/0": ["REGISTER", "STATUS"], "Worker/0/3": ["REGISTER", "STATUS"]}
    until(lambda: first.reports() == everybody)

    first.kill()
    second = Role("manager")
    ending.callback(second.kill)
    until(lambda: set(second.reports()) == set(everybody))
    assert worker.ask("two") == "True"
    until(lambda: second.reports()["Worker/0/3"] == ["REGISTER", "STATUS"])

    assert worker.end() == (0, "")
    assert node.end() == (0, "")
    second.process.terminate()
    assert second.end() == (0, "")
