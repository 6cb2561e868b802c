"""Collectives of a real job, as its Agent sees them from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskd_net import Body
from taskd_net.base.progress import NodeProgress, Seen, read_progress
from tests.torch.cluster import SOON, Cluster

ABSENT = """
import sys, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(3):
    dist.all_reduce(torch.ones(8))
print(dist.get_rank(), flush=True)
if dist.get_rank() == 1:
    time.sleep(600)
dist.all_reduce(torch.ones(8))
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.close()


def told(cluster: Cluster, true: Callable[[NodeProgress], object]) -> NodeProgress:
    """The next progress in a KEEP_ALIVE for which a condition holds."""
    while True:
        body = Body.parse(cluster.mgr.receive(SOON).body)
        found = read_progress(body.extension.get("Progress", ""))
        if found is not None and true(found):
            return found


def test_rank_that_is_absent_from_a_collective_is_behind(cluster: Cluster, tmp_path: Path) -> None:
    """The ranks mark nothing: the numbers are torch's."""
    script = tmp_path / "train.py"
    script.write_text(ABSENT)
    cluster.run(str(script), workers=3)
    cluster.report(201)
    body = Body("ACTION", 210, "3", {"Incarnation": "m"})
    assert cluster.mgr.send(body.to_json(), to="Agent/0", timeout=SOON).ok
    found = told(cluster, lambda now: now.watched == 3 and now.low_group != now.high_group)
    found = told(cluster, lambda now: now.slowest[0].moved and now.slowest[0].moved > 2)
    assert (found.ranks, found.marking, found.low_group, found.high_group) == (3, 0, 3, 4)
    assert [(each.rank, each.group, each.seen) for each in found.slowest] == [
        (1, 3, Seen.RUNS),
        (0, 4, Seen.RUNS),
        (2, 4, Seen.RUNS),
    ]
