"""States that released Managers have written, killed in the middle of a round: each next release goes on with them.

A Manager of 0.2.0 had sent 203 to Agent 1, which was away; its framework had the faulty rank, and had not answered.
`released` has its file after the kill, and what it had in etcd, without the lease's key.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from taskd_net.base.logger import get_logger
from taskd_net.job import profiling_switch
from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.decide.events import MachineReset, Resumed, Subscribed, Tick
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.traffic import Outcome
from taskd_net.job.keep.leader import Leader
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import LEADER, EtcdStore, created
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.keeping import Store
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.net.wire import etcd_pb2
from tests.etcd.double import Double
from tests.jobs.scene import CLUSTERD
from tests.manager.cluster import agent, leaves, managed
from tests.peers.clusterd import ClusterD

RELEASED: Final = Path(__file__).parent / "released"
PLACE: Final = Place.parse("etcd://127.0.0.1:2379/taskd/J")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The file of 0.2.0, to write into."""
    return Path(shutil.copy(RELEASED / "0.2.0.sqlite", tmp_path / "state"))


def of_file(state: Path) -> dict[str, str]:
    store = Store(state, "J")
    try:
        return store.open()
    finally:
        store.close()


def of_etcd(_: Path) -> dict[str, str]:
    async def read() -> dict[str, str]:
        etcd = Double()
        for name, value in json.loads((RELEASED / "0.2.0.etcd.json").read_text()).items():
            etcd.keys[PLACE.key(name)] = etcd_pb2.KeyValue(key=PLACE.key(name), value=value.encode())
        leader = Leader(etcd, PLACE, "next", get_logger())
        assert await leader._claim(created(PLACE.key(LEADER), 0)) is None
        return await EtcdStore(etcd, PLACE, "J", leader.number).open()

    return asyncio.run(read())


@pytest.mark.parametrize("read", [of_file, of_etcd])
def test_a_state_of_0_2_0_is_read_whole(state: Path, read: Callable[[Path], dict[str, str]]) -> None:
    job = Job.from_parts(read(state), CLUSTERD)
    left = job.state
    now = left.now
    assert (list(left.records.agents), list(left.records.workers)) == ([0, 1], [0, 1, 2, 3])
    assert (left.records.exited, list(left.calls), len(left.orders.taken)) == ({1}, ["on_global_rank"], 3)
    (command,) = left.outbox.commands()
    job.step(now, Resumed("next"))
    job.step(now, MachineReset())
    outcomes = [job.step(now + 1.0, Tick())]
    job.step(now + 2.0, Subscribed())
    outcomes.append(job.step(now + 2.0, Tick()))
    assert [each.uuid for outcome in outcomes for each in outcome.commands] == [command], "with its uuid"
    assert reported(outcomes) == [{3: 1}], "ClusterD forgets the round, whose stop names rank 3"


def reported(outcomes: list[Outcome]) -> list[dict[int, int]]:
    return [each.ranks for outcome in outcomes for each in outcome.reports]


@pytest.fixture
def clusterd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ClusterD]:
    monkeypatch.setenv(profiling_switch.PATH, str(tmp_path / "profilingSwitch"))
    with ClusterD() as server:
        yield server


async def test_the_next_manager_goes_on_with_a_round_of_0_2_0(clusterd: ClusterD, state: Path) -> None:
    config = ManagerConfig(job_id="J", clusterd_addr=clusterd.address, fault_recover="on", state=str(state))
    limits = ManagerLimits(clusterd=ClusterdTimes(pause=0.05))
    async with managed(config, limits=limits) as (node, _), leaves(node, agent(1)) as (one,):
        body = await one.command()
        (given_up,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
        (fault,) = await asyncio.to_thread(clusterd.wait_for, rpcs.PROCESS_FAULT)
    assert body.code == 203
    assert list(given_up.strategies) == ["exit"]
    assert [each.rankId for each in fault.faultRanks] == ["3"]
