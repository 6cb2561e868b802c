"""Two Managers of one job as processes, over the real etcd: the leader ends, is killed or stopped, or etcd is away."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base.address import Address
from taskd_net.base.body import Body
from taskd_net.job.keep.limits import EtcdLimits
from tests.cli.processes import Daemon, run
from tests.etcd.server import ETCD, WHY_NOT, Member, etcd_server
from tests.faults.relay import Relay, Shape
from tests.manager.cluster import SOON, Leaf
from tests.ports import free_port

pytestmark = [pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(150)]

LEADS = r"\] leads .*"
JOINED = r"\] joined .*"

LEADS_S = 6.0
"""Seconds after the end of the leader within which the standby leads."""


class Job(NamedTuple):
    """A job with two Managers, and a Proxy with the addresses of both. A relay leads the first one to etcd."""

    etcd: Member
    way: Relay
    leads: Daemon
    stands: Daemon
    proxy: Daemon


@asynccontextmanager
async def job(folder: Path, *more: str, upstream: str | None = None) -> AsyncIterator[Job]:
    """Run it.

    Args:
        folder: for logs and etcd.
        more: further arguments of the first Manager.
        upstream: a host before that of the first Manager; None for its own.
    """
    listen = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    async with etcd_server(folder / "etcd") as etcd:
        address = Address.parse(etcd.address)
        way = Relay(address.host, "127.0.0.2", [address.port])
        await way.start()
        first, second = (
            ("--job-id", "J", "--state", f"etcd://{host}:{address.port}/taskd/J", "--listen", at)
            for host, at in zip(("127.0.0.2", address.host), listen, strict=True)
        )
        upstreams = listen[0] if upstream is None else listen[0].replace("127.0.0.1", upstream)
        try:
            async with (
                Daemon("mgr", *first, *more, logs=folder / "a") as leads,
                Daemon("mgr", *second, logs=folder / "b") as stands,
                Daemon("proxy", "--upstream", ",".join((listen[1], upstreams)), logs=folder / "proxy") as proxy,
            ):
                yield Job(etcd, way, leads, stands, proxy)
        finally:
            way.change(Shape())  # what waits in a cut cannot end
            await way.close()


@asynccontextmanager
async def leaf(proxy: Daemon) -> AsyncIterator[Leaf]:
    """An Agent below the Proxy, which has got its go."""
    async with Node(NodeConfig.agent(server_rank=0, upstream=proxy.address)) as node:
        made = Leaf(node)
        await made.register(Incarnation="process 0")
        yield made


async def go(agent: Leaf) -> Body:
    """Ask for the go once more, and take the command."""
    await agent.register()
    command = await agent.command()
    assert command.code == 210
    return command


def term(command: Body) -> int:
    """The number of the lease under which a command was sent."""
    return int(command.extension["Term"])


async def test_standby_answers_and_follows_a_leader_that_ends_at_once(tmp_path: Path) -> None:
    async with job(tmp_path) as (_, _, leads, stands, proxy), leaf(proxy) as agent:
        before = await agent.command()
        text = f"standby of {leads.address}"
        await proxy.said(f"join_failed .*UNAVAILABLE: {text}.* upstream={stands.address}")
        code, output, _ = await run("health", "--at", stands.address)
        assert (code, output.split()[0]) == (1, "NOT_SERVING")
        code, output, _ = await run("health", "--at", stands.address, "--service", "liveness")
        assert (code, output.split()[0]) == (0, "SERVING")
        code, _, errors = await run("job", "--at", stands.address)
        assert code != 0 and text in errors
        code, output, _ = await run("tree", "--at", stands.address)
        assert code == 0, output
        loop = asyncio.get_running_loop()
        leads.signal(signal.SIGTERM)
        assert await leads.exit_code() == 0
        ended = loop.time()
        await stands.said(LEADS)
        assert loop.time() - ended < EtcdLimits().lease_s - 1.0, "it need not wait for the end of the lease"
        assert term(await go(agent)) > term(before)


async def test_standby_follows_a_leader_that_was_killed(tmp_path: Path) -> None:
    async with job(tmp_path) as (_, _, leads, stands, proxy), leaf(proxy) as agent:
        before = await agent.command()
        loop = asyncio.get_running_loop()
        leads.signal(signal.SIGKILL)
        killed = loop.time()
        await stands.said(LEADS)
        assert loop.time() - killed < LEADS_S + 1.0  # the machine may be busy; `make etcd` measures
        await agent.fault(0)
        restart = await agent.command()
        assert restart.code in (203, 208) and term(restart) > term(before)


async def test_leader_that_was_stopped_leaves_the_job_and_stands_by(tmp_path: Path) -> None:
    """Stopped for longer than its lease, and continued: it sends nothing more, and may lead again later."""
    async with job(tmp_path) as (_, _, leads, stands, proxy), leaf(proxy) as agent:
        terms = [term(await agent.command())]
        for before, after in ((leads, stands), (stands, leads)):
            count = len(re.findall(LEADS, after.errors))
            before.signal(signal.SIGSTOP)
            await after.said(f"(?s)({LEADS}.*){{{count + 1}}}")
            if before is leads:  # the children notice it themselves
                await proxy.said(f"upstream_left .*upstream={before.address}")
                await proxy.said(f"joined .*upstream={after.address}")
            before.signal(signal.SIGCONT)
            await before.said("lead_lost")
            await before.said(f"stands_by .*leader={after.address}")
            terms.append(term(await go(agent)))
            assert f"upstream={after.address}" in re.findall(JOINED, proxy.errors)[-1]
        assert terms == sorted(set(terms))


async def test_leader_goes_on_after_all_of_etcd_was_away(tmp_path: Path) -> None:
    """For longer than the lease. The standby leaves it the job, and the mesh's traffic goes on."""
    async with job(tmp_path) as (etcd, _, leads, stands, proxy), leaf(proxy) as agent:
        before = await agent.command()
        etcd.process.send_signal(signal.SIGSTOP)
        await leads.said("leader_decides_nothing")
        await stands.said("standby_without_etcd")
        async with Node(NodeConfig.agent(server_rank=1, upstream=leads.address)) as other:
            await other.joined(SOON)
            assert (await agent.node.send("x", to="Agent/1", timeout=SOON)).ok
            assert (await other.receive()).body == "x"
        etcd.process.send_signal(signal.SIGCONT)
        await leads.said("leader_decides_again")
        await stands.said("standby_sees_etcd")
        assert term(await go(agent)) >= term(before)
        assert not re.search(LEADS, stands.errors) and "lead_lost" not in leads.errors
        assert len(re.findall(JOINED, proxy.errors)) == 1


@pytest.mark.long
async def test_children_of_a_leader_that_is_cut_off_from_etcd_alone_find_the_other(tmp_path: Path) -> None:
    """It knows of no other leader, decides nothing, and keeps its children; in the end they look for themselves."""
    async with job(tmp_path) as (_, way, leads, stands, proxy), leaf(proxy) as agent:
        before = await agent.command()
        way.change(Shape(cut=("up", "down")))
        await leads.said("leader_decides_nothing")
        await stands.said(LEADS)
        assert (await agent.node.send("x", to="Proxy/0", timeout=SOON)).ok
        await proxy.said(f"(?s)({JOINED}.*){{2}}")
        assert "children_sent_elsewhere" in leads.errors and "lead_lost" not in leads.errors
        assert term(await go(agent)) > term(before)
        way.change(Shape())
        await leads.said(f"stands_by .*leader={stands.address}")


@pytest.mark.long
async def test_leader_that_is_cut_off_from_its_children_leaves_them_to_the_other(tmp_path: Path) -> None:
    """It sees etcd, and so would lead for ever."""
    async with job(tmp_path, "--links", "batched", upstream="127.0.0.3") as (_, _, leads, stands, proxy):
        host, _, port = leads.address.rpartition(":")
        way = Relay(host, "127.0.0.3", [int(port)])
        await way.start()
        try:
            async with leaf(proxy) as agent:
                before = await agent.command()
                way.change(Shape(cut=("up", "down")))
                await leads.said("leader_without_children")
                await stands.said(LEADS)
                assert term(await go(agent)) > term(before)
                await leads.said(f"stands_by .*leader={stands.address}")
        finally:
            way.change(Shape())  # what waits in a cut cannot end
            await way.close()
