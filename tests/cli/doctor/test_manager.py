"""The doctor's look at a Manager that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base.address import Address
from taskd_net.cli.doctor import manager
from taskd_net.cli.doctor.finding import Finding, Verdict
from taskd_net.observe.job_view import JobCounters, JobView
from tests.cli.processes import run
from tests.observe.jobs import IN_ETCD, WHOLE
from tests.ports import free_address


@pytest.fixture
async def mgr() -> AsyncIterator[Node]:
    """A Mgr."""
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        yield node


async def checked(mgr: Node, job: JobView | None) -> list[Finding]:
    """The findings about a Mgr with this Manager."""
    mgr.driver.job_view = None if job is None else lambda: job
    return await manager.check(Address.parse(str(mgr.address)))


async def test_a_state_that_is_not_kept_and_a_plugin_that_is_off_are_said(mgr: Node) -> None:
    found = await checked(mgr, WHOLE)
    assert [(each.check, each.state) for each in found] == [("manager", Verdict.WARNING)] * 3
    assert found[0].text == "the state in /var/lib/taskd/J.sqlite3 is not durable: a restart may repeat commands"
    assert found[1].text == "plugin Greeter is off until the Manager restarts" and found[1].advice
    code, output, _ = await run("doctor", "mgr", "--listen", mgr.address)
    assert code == 0 and "warning  manager   plugin Greeter is off until the Manager restarts\n" in output


async def test_agents_in_trouble_are_no_fault_of_the_manager(mgr: Node) -> None:
    (found,) = await checked(mgr, replace(WHOLE, counters=JobCounters(), plugins_off=(), unprotected=0))
    assert (found.state, found.text) == (Verdict.OK, "job J: the state is kept, and no plugin is off")


async def test_leader_is_named(mgr: Node) -> None:
    (found,) = await checked(mgr, replace(IN_ETCD, counters=JobCounters(), plugins_off=(), unprotected=0))
    assert found.state is Verdict.OK and "no plugin is off; 10.0.0.7:9601 leads since " in found.text
    silent = replace(
        IN_ETCD, counters=JobCounters(), plugins_off=(), unprotected=0, leader=replace(IN_ETCD.leader, decides=False)
    )
    (found,) = await checked(mgr, silent)
    assert found.state is Verdict.WARNING and "the lease in etcd://10.0.0.1:2379/taskd/J is not confirmed" in found.text


async def test_a_mgr_that_decides_nothing(mgr: Node) -> None:
    (found,) = await checked(mgr, None)
    assert found.state is Verdict.SKIPPED and "Mgr/0 decides nothing" in found.text


async def test_nobody_there_is_no_finding() -> None:
    assert await manager.check(Address.parse(free_address())) == []
