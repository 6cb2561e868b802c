"""The time until etcd has a decision, beside a bare put of as many bytes, in turns over one connection."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import pytest

from benchmarks.job_crowd import fault, reports
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.events import Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.keep.client import EtcdClient
from taskd_net.job.keep.leader import Leader
from taskd_net.job.keep.place import Place
from taskd_net.job.manager.etcd_keeping import EtcdKeeping
from taskd_net.net.wire import etcd_pb2 as wire
from taskd_net.observe.job_view import JobCounters
from tests.etcd.server import ETCD, WHY_NOT, etcd_members
from tests.faults.figures import Figures

pytestmark = pytest.mark.skipif(ETCD is None, reason=WHY_NOT)

NODES, PROCESSES = 16, 8

WARM = 5
"""Turns that do not count: connections and caches."""


class Turns:
    """A job whose decisions are committed, in turns with bare puts.

    Args:
        keeping: takes the decisions.
    """

    def __init__(self, keeping: EtcdKeeping) -> None:
        self._keeping = keeping
        self._job = Job(JobConfig(nodes=NODES, processes_per_node=PROCESSES), seed="b1946ac92492d234")
        self._now = time.time()
        for report in reports(NODES, PROCESSES):
            self._job.step(self._now, report)

    async def decide(self, rank: int) -> tuple[float, int]:
        """Commit the decision on a fault; returns the seconds, and the number of its bytes."""
        await self._commit()
        self._job.step(self._now, fault(rank))
        return await self._commit()

    async def put(self, size: int) -> float:
        """Put one value; returns the seconds."""
        client = self._keeping.leader.etcd
        assert isinstance(client, EtcdClient)
        request = wire.PutRequest(key=b"bare", value=b"x" * size).SerializeToString()
        began = time.perf_counter()
        await client._unary(client._channel(), "/etcdserverpb.KV/Put", request, 10.0)
        return time.perf_counter() - began

    async def _commit(self) -> tuple[float, int]:
        self._now += 1.0
        self._job.step(self._now, Tick())
        began = time.perf_counter()
        parts = self._job.unsaved()
        assert await self._keeping.save(self._now, parts)
        return time.perf_counter() - began, sum(len(text or "") for text in parts.values())


@pytest.mark.parametrize("turns", [3, pytest.param(300, marks=pytest.mark.long)], ids=["few", "many"])
async def test_decision_takes_little_longer_than_a_put(tmp_path: Path, figures: Figures, turns: int) -> None:
    async with etcd_members(tmp_path) as members:
        place = Place.parse(f"etcd://{','.join(each.address for each in members)}/taskd/J")
        leader = Leader(EtcdClient(place), place, "bench", get_logger())
        keeping = EtcdKeeping(leader, "J", JobCounters(), get_logger(), lambda: None)
        try:
            await keeping.load(0.0, dict)
            job = Turns(keeping)
            decisions, puts, sizes = [], [], []
            for turn in range(WARM + turns):
                took, size = await job.decide(turn % (NODES - 1) + 1)
                decisions.append(took)
                puts.append(await job.put(size))
                sizes.append(size)
        finally:
            await keeping.close()
    decided, put = (median(took[WARM:]) * 1000 for took in (decisions, puts))
    assert decided and put and median(sizes) > 1000
    figures.add("decision", "of", median(sizes), "bytes")
    figures.add("decision", "p50", decided, "ms")
    figures.add("decision", "a put", put, "ms")
    figures.add("decision", "ratio", decided / put, at_most=1.5)
