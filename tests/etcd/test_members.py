"""Three real members of etcd below a Manager's process: one is killed, or all are away for a while."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from taskd_net import Node, NodeConfig, Retry
from taskd_net.base.body import Body
from taskd_net.job.keep.limits import EtcdLimits
from tests.cli.processes import Daemon, run
from tests.etcd.server import ETCD, WHY_NOT, Member, Outage, etcd_members
from tests.etcd.traffic import Traffic
from tests.faults.figures import Figures
from tests.manager.cluster import SOON, Leaf, agent, worker
from tests.peers.mesh import soon
from tests.polling import PATIENCE_S, until

pytestmark = pytest.mark.skipif(ETCD is None, reason=WHY_NOT)

LIMITS = EtcdLimits()

MANY = "1000"
"""Restarts that the job has: more than rounds of a test."""

AWAY_S = 60.0
"""Seconds for a report, more than etcd is away."""

BUSY_S = 2.0
"""Seconds that a busy machine may take longer."""

RETRY_S = LIMITS.member_s + LIMITS.again_s
"""Seconds from the moment at which etcd takes puts again until a commit has reached it, at most."""

UNNOTICED_S = LIMITS.call_s - RETRY_S
"""Seconds for which etcd may take no puts, unnoticed. An election takes 1 to 2 s, and more on a busy machine."""


class Job(NamedTuple):
    """A job at work: its Mgr as a process, two Agents that have started, and two Workers below one Proxy."""

    members: list[Member]
    mgr: Daemon
    zero: Leaf
    one: Leaf
    workers: tuple[Node, Node]

    async def round(self) -> float:
        """A fault of Agent 1, until both have their commands and it is back. Seconds from the fault to the 208."""
        began = time.monotonic()
        body = Body("STATUS", 202, json.dumps({"fault_ranks": [1], "restart_times": -1})).to_json()
        assert (await self.one.node.send(body, to="Mgr", retry=Retry(attempts=1000, within=AWAY_S))).ok
        assert (await self.zero.command()).code == 208
        took = time.monotonic() - began
        assert (await self.one.command()).code == 203
        await self.one.register()
        assert (await self.one.command()).code == 210
        return took


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[Job]:
    """A job with its state in three members."""
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(etcd_members(folder / "etcd"))
        state = f"etcd://{','.join(each.address for each in members)}/taskd/J"
        mgr = await stack.enter_async_context(
            Daemon("mgr", "--job-id", "J", "--expect", "2x1", "--state", state, logs=folder / "mgr")
        )
        proxy = await stack.enter_async_context(
            Node(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=mgr.address))
        )
        below = str(proxy.address)
        configs = [agent(0)(below), agent(1)(below), worker(0, 0)(below), worker(0, 1)(below)]
        nodes = [await stack.enter_async_context(Node(each)) for each in configs]
        for each in nodes:
            await each.joined(SOON)
        zero, one = (Leaf(each, MANY) for each in nodes[:2])
        for leaf in (zero, one):
            await leaf.register()
            assert (await leaf.command()).code == 210
        yield Job(members, mgr, zero, one, (nodes[2], nodes[3]))


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.long)], ids=["once", "many"])
async def test_end_of_each_member_in_turn_is_not_noticed(tmp_path: Path, figures: Figures, times: int) -> None:
    """One of them is the one that the Manager asks, and one leads the others: they elect another one."""
    beside, calm, outages = [], [], []
    async with at_work(tmp_path) as job:
        await job.round()
        for each in job.members * times:
            others = [other for other in job.members if other is not each]
            async with Outage(others) as outage:
                await each.kill()
                beside.append(await job.round())
            outages.append(outage.longest)
            calm.append(await job.round())
            await each.again()
            await each.ready()
            await each.catches_up(others)
            # One fault at a time: the lease was renewed for the last time before the election, or is being renewed.
            await asyncio.sleep(LIMITS.renew_s + 2 * RETRY_S)
        code, output, _ = await run("job", "--at", job.mgr.address, "--json")
        found = json.loads(output)
        noticed = sum(seconds > UNNOTICED_S for seconds in outages)
        assert code == 0 and found["state"]["durable"] and found["state"]["failures"] <= noticed
        assert (found["leader"]["changes"], found["leader"]["decides"]) == (0, True)
        assert found["counters"]["rounds"] == 1 + 2 * len(beside)
        for event in ("state_not_stored", "leader_decides_nothing", "lead_lost"):
            assert job.mgr.errors.count(event) <= noticed * (event != "lead_lost")
    later = [took - outage for took, outage in zip(beside, outages, strict=True)]
    assert max(later) < RETRY_S + Outage.LOOK_S + BUSY_S
    promised = RETRY_S + Outage.LOOK_S if times > 1 else None
    figures.add("member", "a fault until the command, p50:", median(calm), "s")
    figures.add("member", "right after the end of a member: p50", median(beside), "s")
    figures.add("member", f"the longest of {len(beside)}", max(beside), "s")
    figures.add("member", "etcd itself took no put for: the longest", max(outages), "s")
    figures.add("member", "the command came later than that by: the longest", max(later), "s", at_most=promised)
    figures.add("member", "noticed:", found["state"]["failures"], at_most=0 if times > 1 else None)


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        ("stopped", 7.0),
        ("killed", 7.0),
        pytest.param("stopped", 20.0, marks=pytest.mark.long),
        pytest.param("killed", 20.0, marks=pytest.mark.long),
    ],
)
async def test_leader_decides_nothing_while_all_members_are_away(
    tmp_path: Path, figures: Figures, how: str, seconds: float
) -> None:
    """The mesh carries messages meanwhile, and the round that waits is done once when they are back."""
    async with at_work(tmp_path) as job, Traffic(*job.workers) as traffic:
        await job.round()
        for each in job.members:
            if how == "killed":
                await each.kill()
            else:
                each.freeze()
        gone = time.monotonic()
        waits = asyncio.create_task(job.round())
        await job.mgr.said("leader_decides_nothing")
        said = time.monotonic() - gone
        assert said < LIMITS.lease_s + BUSY_S
        code, output, _ = await run("job", "--at", job.mgr.address)
        assert code == 1 and "DECIDES NOTHING" in output
        assert (await run("health", "--at", job.mgr.address))[0] == 0
        await asyncio.sleep(max(0.0, gone + seconds - time.monotonic()))
        assert not waits.done()
        back = time.monotonic()
        for each in job.members:
            if how == "killed":
                await each.again()
            else:
                each.go_on()
        assert await soon(waits, SOON + PATIENCE_S) > seconds
        again = time.monotonic() - back
        await job.mgr.said("leader_decides_again")
        assert traffic.sent > seconds * 10 and not traffic.failed
        await job.round()
        await until(lambda: job.mgr.errors.count("state_durable") == 1)
        code, output, _ = await run("job", "--at", job.mgr.address, "--json")
        found = json.loads(output)
        assert (code, found["counters"]["rounds"], found["counters"]["lost"]) == (0, 3, 0)
        assert found["restarts_left"] == int(MANY) - 3
    figures.add("away", f"{how}: the leader says after", said, "s", at_most=LIMITS.lease_s + BUSY_S)
    figures.add("away", "and goes on, when they are back, in", again, "s")
    figures.add("away", "messages below one Proxy:", traffic.sent)
    figures.add("away", "of these failed:", traffic.failed, at_most=0)
