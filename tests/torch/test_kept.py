"""Nodes that come back to ranks that rejoin: the ranks of the other node keep their processes."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.torch.cluster import SOON
from tests.torch.two_nodes import Job

pytestmark = pytest.mark.torch

REJOINING = Path(__file__).with_name("rejoining.py")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job whose launchers end with the test."""
    with Job(tmp_path) as made:
        yield made


def epochs(job: Job, after: int) -> list[dict[int, int]]:
    """The processes in all epochs of a job by rank, as soon as all have begun one after this."""
    give_up_at = time.monotonic() + SOON
    while True:
        found: dict[int, dict[int, int]] = {}
        for rank in range(4):
            file = job.folder / f"epochs-{rank}"
            for line in file.read_text().splitlines() if file.exists() else []:
                seen = json.loads(line)
                found.setdefault(seen["epoch"], {})[rank] = seen["pid"]
        whole = [found[epoch] for epoch in sorted(found) if len(found[epoch]) == 4]
        if found and max(found) > after and len(found[max(found)]) == 4:
            return whole
        assert time.monotonic() < give_up_at, "".join(job.out(node).read_text() for node in (0, 1))
        select.select([], [], [], 0.05)


@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_ranks_keep_their_processes_while_a_node_comes_back(job: Job, node: int, end: signal.Signals) -> None:
    """A rank that fails after that meets the others at the store of the present node 0."""
    for each in (0, 1):
        job.start(each, script=REJOINING)
    (before,) = epochs(job, 0)
    job.launchers[node].send_signal(end)
    job.launchers[node].wait(SOON)
    job.start(node, script=REJOINING)
    after = epochs(job, 1)[-1]
    others = (2, 3) if node == 0 else (0, 1)
    assert {rank for rank in before if before[rank] == after[rank]} == set(others)
    os.kill(after[others[0]], signal.SIGKILL)
    last = epochs(job, 2)[-1]
    assert {rank for rank in after if after[rank] != last[rank]} == {others[0]}
    (job.folder / "end").touch()
    assert job.statuses() == [0, 0]
