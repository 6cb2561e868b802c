"""The usual line of several nodes: c10d, an endpoint, and no rank. Real launchers, which meet on this machine."""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.torch.cluster import PLAIN, SOON


class Job:
    """Launchers of one command line, in folders of their own.

    Args:
        folder: of the test.
    """

    def __init__(self, folder: Path) -> None:
        host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
        self.endpoint = f"{host}:{free_port(host)}"
        self.folder = folder
        self.launchers: list[subprocess.Popen[bytes]] = []

    def start(self, *more: str) -> int:
        """Start a launcher. Returns its number."""
        command = [sys.executable, "-m", "taskd_net.cli", "run", "--nnodes=2", "--nproc-per-node=1"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={self.endpoint}", "--monitor-interval=0.1", *more]
        own = ("TASKD_", "RANK", "MASTER_", "PET_")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        with self.out(len(self.launchers)).open("ab") as out:
            launcher = subprocess.Popen(
                [*command, str(PLAIN)],
                cwd=self.folder,
                env=variables | {"PYTHONWARNINGS": "ignore"},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.launchers.append(launcher)
        return len(self.launchers) - 1

    def out(self, number: int) -> Path:
        return self.folder / f"out-{number}"

    def rank(self, number: int, restarts: int = 0) -> int:
        """The rank of the worker of a launcher, once it has begun after so many starts."""
        give_up_at = time.monotonic() + SOON
        while True:
            for line in self.out(number).read_text().splitlines():
                words = line.split()
                if len(words) == 6 and words[3:5] == ["2", str(restarts)]:
                    return int(words[1])
            assert time.monotonic() < give_up_at, "\n".join(path.read_text() for path in self.folder.glob("out-*"))
            select.select([], [], [], 0.05)

    def finish(self) -> None:
        """Let the workers succeed."""
        for rank in (0, 1):
            (self.folder / f"end-{rank}").write_text("0\n")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job whose launchers end with the test."""
    made = Job(tmp_path)
    yield made
    for launcher in made.launchers:
        if launcher.poll() is None:
            launcher.kill()
        launcher.wait(SOON)


def test_two_launchers_of_one_line_meet_and_one_that_returns_has_its_rank(job: Job) -> None:
    for _ in range(2):
        job.start()
    ranks = [job.rank(number) for number in (0, 1)]
    assert sorted(ranks) == [0, 1]
    second = ranks.index(1)
    # Two that come at once both try to start it, and one is faster.
    assert ["uses_manager" in job.out(number).read_text() for number in (1 - second, second)] == [False, True]
    job.launchers[second].send_signal(signal.SIGKILL)
    job.launchers[second].wait(SOON)
    again = job.start()
    assert (job.rank(again, 1), job.rank(1 - second, 1)) == (1, 0)
    job.finish()
    assert [job.launchers[number].wait(SOON) for number in (1 - second, again)] == [0, 0]


def test_launcher_that_returns_with_its_manager_has_rank_0_again(job: Job) -> None:
    for _ in range(2):
        job.start()
    first = [job.rank(number) for number in (0, 1)].index(0)
    job.launchers[first].kill()
    job.launchers[first].wait(SOON)
    again = job.start()
    assert (job.rank(again, 1), job.rank(1 - first, 1)) == (0, 1)
    job.finish()
    assert [job.launchers[number].wait(SOON) for number in (1 - first, again)] == [0, 0]


def test_launcher_too_many_ends_with_one_line(job: Job) -> None:
    for _ in range(2):
        job.start("--rdzv-id=j")
    ranks = {job.rank(number) for number in (0, 1)}
    third = job.start("--rdzv-id=j")
    assert job.launchers[third].wait(SOON) == 1 and ranks == {0, 1}
    last = job.out(third).read_text().splitlines()[-1]
    host = os.uname().nodename
    assert last == f"taskd-net run: all 2 ranks are taken, by {host} (0), {host} (1)"
    job.finish()
    assert [job.launchers[number].wait(SOON) for number in (0, 1)] == [0, 0]


def test_second_launcher_of_a_node_ends_and_the_first_stays(job: Job) -> None:
    """Its Agent never joins, so the first one keeps its place in the mesh."""
    for rank in (0, 1):
        job.start(f"--node-rank={rank}")
    assert [job.rank(number) for number in (0, 1)] == [0, 1]
    second = job.start("--node-rank=1")
    assert job.launchers[second].wait(SOON) == 1
    last = job.out(second).read_text().splitlines()[-1]
    pid = job.launchers[1].pid
    assert last == f"taskd-net run: node 1 of this job is run by {os.uname().nodename}, pid {pid}"
    job.finish()
    assert [job.launchers[number].wait(SOON) for number in (0, 1)] == [0, 0]
    assert not any("position_taken" in job.out(number).read_text() for number in (0, 1))


def test_elastic_line_waits_for_all_and_says_so(job: Job) -> None:
    for _ in range(2):
        job.start("--nnodes=1:2")
    assert {job.rank(number) for number in (0, 1)} == {0, 1}
    assert all(job.out(number).read_text().count("nodes_are_fixed") == 1 for number in (0, 1))
    job.finish()
    assert [job.launchers[number].wait(SOON) for number in (0, 1)] == [0, 0]
