"""Launchers and Managers of 0.2.0 in a job without a platform: `--restarts job` with peers that cannot meet so."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from benchmarks import checkout
from tests.ports import free_port
from tests.torch.cluster import SOON
from tests.torch.two_nodes import Job

pytestmark = pytest.mark.timeout(240)

EARLIER = "2718ea8"
"""The commit of 0.2.0."""


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with the package of 0.2.0, out of git's history."""
    folder = tmp_path_factory.mktemp("earlier")
    checkout.extract(EARLIER, folder)
    return str(folder)


class PortedJob(Job):
    """A job with a port for torch's store, which listens at all addresses."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port("0.0.0.0")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[PortedJob]:
    """A job whose launchers end with the test."""
    with PortedJob(tmp_path) as made:
        yield made


class Manager:
    """A Manager of two nodes, in a process of its own. It is ended with the block.

    Args:
        job: its job.
        package: the folder of its package; empty for this one.
        restarts: arguments that say who restarts.
    """

    def __init__(self, job: Job, package: str, *restarts: str) -> None:
        self.out = job.folder / "manager"
        listen = f"--listen={job.host}.1:9601"
        command = [sys.executable, "-m", "taskd_net.cli", "mgr", listen, "--job-id=J", "--expect=2x2", *restarts]
        variables = os.environ | {"TASKD_NET_STATE": str(job.folder / "state"), "TASKD_LOG_PATH": str(job.folder)}
        with self.out.open("wb") as out:
            self._process = subprocess.Popen(
                command, cwd=job.folder, env=variables | path(package), stdout=out, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(SOON)

    def said(self) -> str:
        """The lines of its log."""
        return self.out.read_text()


def path(package: str) -> dict[str, str]:
    """The variable that leads to a package."""
    return {"PYTHONPATH": package} if package else {}


def start(job: PortedJob, node: int, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the launcher of a node; one of 0.2.0 starts no Manager by itself."""
    with monkeypatch.context() as patched:
        for name, value in path(package).items():
            patched.setenv(name, value)
        job.start(node, f"--master-port={job.port}", *([] if package else ["--no-mgr"]))


def workers(job: Job, earlier: Collection[int] = ()) -> dict[int, int]:
    """The pids of four ranks, none of which is an earlier one: releases count their starts differently."""
    give_up_at = time.monotonic() + SOON
    while True:
        lines = [line.split() for node in (0, 1) for line in job.out(node).read_text().splitlines()]
        begun = {int(each[1]): int(each[0]) for each in lines if len(each) == 6 and each[3] == "4"}
        if begun.keys() == {0, 1, 2, 3} and not set(earlier) & set(begun.values()):
            return begun
        assert time.monotonic() < give_up_at, "".join(job.out(node).read_text() for node in (0, 1))
        select.select([], [], [], 0.05)


@pytest.mark.parametrize("old", [0, 1])
@pytest.mark.parametrize("killed", [0, 3])
def test_launcher_of_0_2_0_under_a_manager_that_restarts(
    job: PortedJob, earlier: str, old: int, killed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All start again once, by torch's static rendezvous, and both launchers succeed."""
    with Manager(job, "", "--restarts=job") as manager:
        for node in (0, 1):
            start(job, node, earlier if node == old else "", monkeypatch)
        before = workers(job)
        os.kill(before[killed], signal.SIGKILL)
        workers(job, before.values())
        job.finish()
        assert job.statuses() == [0, 0], manager.said()
        assert f"meets_by_framework             job=J node=Mgr/0 nodes={old}" in manager.said()


def test_launchers_under_a_manager_of_0_2_0(job: PortedJob, earlier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node fails: its launcher leaves, as it is told, and is started again, as by a platform."""
    with Manager(job, earlier) as manager:
        for node in (0, 1):
            start(job, node, "", monkeypatch)
        before = workers(job)
        os.kill(before[3], signal.SIGKILL)
        assert job.launchers[1].wait(SOON) == 1, manager.said()
        start(job, 1, "", monkeypatch)
        workers(job, before.values())
        job.finish()
        assert job.statuses() == [0, 0], manager.said()
