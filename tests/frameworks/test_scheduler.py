"""msrun's scheduler, which ends with the launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.job.frameworks.mindspore import scheduler

WAITS = "import sys; print(flush=True); sys.stdin.read()"
STAYS = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WAITS}"
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', sys.argv[1]])"


class Children:
    """Children of this process."""

    def __init__(self) -> None:
        self.made: list[subprocess.Popen[bytes]] = []

    def __call__(self, role: str | None, *program: str) -> subprocess.Popen[bytes]:
        """A child that has begun."""
        environment = {**os.environ, **({"MS_ROLE": role} if role else {})}
        command = [sys.executable, "-S", "-c", *program]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.made.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child


@pytest.fixture
def start() -> Iterator[Children]:
    children = Children()
    yield children
    for child in children.made:
        child.kill()
        child.communicate()


def test_schedulers_of_this_process_end_and_nobody_else(start: Children) -> None:
    own, worker, other = start("MS_SCHED", WAITS), start("MS_WORKER", WAITS), start(None, WAITS)
    between = start(None, f"import os; os.environ['MS_ROLE'] = 'MS_SCHED'; {PARENT}", WAITS)
    scheduler.end_scheduler()
    assert own.wait(10.0) == -signal.SIGTERM
    assert [child.poll() for child in (worker, other, between)] == [None] * 3
    for child in (worker, other, between):
        child.communicate()
    scheduler.end_scheduler()


def test_scheduler_that_stays(start: Children) -> None:
    stays = start("MS_SCHED", STAYS)
    scheduler.end_scheduler(grace=0.1)
    assert stays.wait(10.0) == -signal.SIGKILL


def test_scheduler_that_has_ended(start: Children, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It ends between the look at it and the signal."""
    ended = start("MS_SCHED", "print(flush=True)")
    ended.wait(10.0)
    monkeypatch.setattr(scheduler, "_schedulers", lambda: iter([ended.pid]))
    scheduler.end_scheduler()
