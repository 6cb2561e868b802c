"""The next run of a job: it goes on where the one before lives, and begins clean where that is over."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.job.run_folder import users_folder
from tests.manager.test_own_manager import await_end, children, command_line
from tests.torch.cluster import SOON
from tests.torch.two_nodes import Job

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job whose launchers end with the test, and whose runs lie in the test's folder."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Job(tmp_path) as made:
        yield made


def test_launcher_and_manager_that_are_killed_together_cost_one_restart_and_no_budget(job: Job) -> None:
    """The failure before still counts."""
    for node in (0, 1):
        job.start(node, "--max-restarts=1")
    os.kill(job.workers(0)[3], signal.SIGKILL)
    job.workers(1)
    (manager,) = (pid for pid in children(job.launchers[0].pid) if b"--until-eof" in command_line(pid))
    os.kill(manager, signal.SIGKILL)
    job.launchers[0].kill()
    job.launchers[0].wait(SOON)
    job.start(0, "--max-restarts=1")
    os.kill(job.workers(2)[3], signal.SIGKILL)
    assert job.statuses() == [1, 1]
    assert "failure 2 of node 1, which has 1 restarts" in job.out(1).read_text()


def test_next_run_begins_clean_also_with_fewer_nodes(job: Job) -> None:
    for node in (0, 1):
        job.start(node, "--max-restarts=0")
    os.kill(job.workers(0)[3], signal.SIGKILL)
    assert job.statuses() == [1, 1]
    assert not list(users_folder().iterdir())
    for node in (0, 1):
        job.out(node).unlink()
        job.start(node, "--max-restarts=0")
    before = job.workers(0)
    for launcher in job.launchers.values():
        launcher.kill()
        launcher.wait(SOON)
    for pid in before.values():
        await_end(pid)
    assert list(users_folder().iterdir())
    job.out(0).unlink()
    job.start(0, "--nnodes=1")
    job.workers(0, world=2)
    job.finish()
    assert job.launchers[0].wait(SOON) == 0
    assert not list(users_folder().iterdir())
