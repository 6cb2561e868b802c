"""Two processes' worth of Managers of one job, over a double of etcd and real sockets: one leads, one stands by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base.codes import ConfigError, NodeClosed
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.state import SCHEMA
from taskd_net.job.keep import leader
from taskd_net.job.keep.leader import Leader
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import EtcdStore
from taskd_net.job.manager import ManagerConfig, Succession, succession
from taskd_net.job.manager.kept import name_of
from taskd_net.job.manager.limits import ManagerLimits
from tests.etcd.double import Away, Double
from tests.manager.cluster import Leaf
from tests.peers.mesh import soon
from tests.polling import until

PLACE = Place.parse("etcd://127.0.0.1:2379/taskd/J")
LIMITS = ManagerLimits(etcd=EtcdLimits(renew_s=0.01, again_s=0.01, look_s=0.01))
"""Looks, renewals and attempts follow each other at once."""

SETTINGS = ManagerConfig(job_id="J", state=str(PLACE), reset_file="/nowhere")


class Cluster:
    """One etcd, and the way of each Manager to it.

    Args:
        etcd: the etcd.

    Attributes:
        looks: requests of Managers so far.
    """

    def __init__(self, etcd: Double) -> None:
        self.etcd = etcd
        self.looks = 0
        self._began = time.monotonic()
        self._cut: set[str] = set()

    def now(self) -> float:
        """The time of leaders. That of etcd goes on with `lapse` alone, so no lease ends there sooner than here."""
        return self.etcd.now + time.monotonic() - self._began

    def lapse(self) -> None:
        """The lease of the moment ends, at its holder first."""
        self.etcd.now += LIMITS.etcd.lease_s

    def cut(self, *mgrs: Node) -> None:
        """Cut these Mgrs off, and no others."""
        self._cut = {name_of(each) for each in mgrs}

    @property
    def leader(self) -> bytes | None:
        """The value of the leader's key; None without one."""
        found = self.etcd.keys.get(PLACE.key("leader"))
        return None if found is None else found.value

    def spoil(self) -> None:
        """Make the state unreadable."""
        self.etcd.keys[PLACE.key("part/rest")] = self.etcd.keys[PLACE.key("job")]

    def leader_of(self, _: ManagerConfig, node: Node, log: Any, limits: EtcdLimits) -> Leader:
        """The candidate of a Mgr."""
        name = name_of(node)
        return Leader(Way(self.etcd, lambda: self._looks(name)), PLACE, name, log, limits)

    def _looks(self, name: str) -> bool:
        self.looks += 1
        return name in self._cut


class Way:
    """The way of one process to etcd.

    Args:
        etcd: the etcd.
        cut: whether it is cut off; called with each request.
    """

    def __init__(self, etcd: Double, cut: Callable[[], bool]) -> None:
        self._etcd = etcd
        self._is_cut = cut

    def __getattr__(self, name: str) -> Any:
        if name != "close" and self._is_cut():
            raise Away("no member answers")
        return getattr(self._etcd, name)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Cluster:
    """The etcd of all Managers."""
    caplog.set_level("INFO", logger="taskd_net")
    made = Cluster(Double())
    for module in (leader, succession):
        monkeypatch.setattr(module, "clock", made.now)
    monkeypatch.setattr(succession, "leader_of", made.leader_of)
    return made


@asynccontextmanager
async def mgr(
    settings: ManagerConfig = SETTINGS, limits: ManagerLimits = LIMITS, **more: Any
) -> AsyncIterator[tuple[Node, Succession]]:
    """A Mgr of the job."""
    config = NodeConfig.mgr(listen="127.0.0.1:0", confirms=True, standby=True)
    async with Node(config) as node, Succession(node, settings, limits=limits, **more) as turns:
        yield node, turns


@asynccontextmanager
async def agent(*mgrs: Node) -> AsyncIterator[Leaf]:
    """An Agent with the addresses of all Mgrs."""
    async with Node(NodeConfig.agent(server_rank=0, upstream=",".join(str(each.address) for each in mgrs))) as node:
        yield Leaf(node)


def leading(turns: Succession) -> bool:
    """True while it leads; for type checkers, which take a property for constant."""
    return turns.leads


def standing(node: Node) -> str:
    """The text with which it refuses children; empty while it takes them."""
    return node.standby


async def test_second_manager_stands_by_and_leads_when_the_first_has_ended(cluster: Cluster) -> None:
    async with mgr() as (second, standby):
        await until(lambda: leading(standby))  # nobody else did
        async with mgr() as (third, waits):
            assert not leading(waits) and standing(third) == f"standby of {second.address}"
    async with mgr() as (first, leads):
        assert leading(leads) and not standing(first)
        async with mgr() as (second, standby):
            assert not leading(standby) and standby.manager is None
            async with agent(second, first) as zero:
                await zero.register(Incarnation="process 0")
                start = await zero.command()
                assert (start.code, start.message) == (210, "3") and zero.node.upstream == first.address
                await leads.close()
                await first.close()
                await until(lambda: leading(standby))
                await zero.fault(0)
                restart = await zero.command()
                assert restart.code in (203, 208) and int(restart.extension["Term"]) > int(start.extension["Term"])
                assert second.driver.job_view is not None and second.driver.job_view().agents[0].registered


async def test_deposed_leader_stands_by_and_leads_again_with_the_state_of_the_other(cluster: Cluster) -> None:
    """As one that was stopped for longer than its lease."""
    async with mgr() as (first, old), mgr() as (second, new), agent(first, second) as zero:
        await zero.register()
        terms = [int((await zero.command()).extension["Term"])]
        both = [(first, old), (second, new)]
        for (before, dropped), (after, leads) in (both, both[::-1]):
            cluster.cut(before)
            cluster.lapse()
            await until(lambda leads=leads: leading(leads))  # type: ignore[misc]
            assert leading(dropped) and not standing(before), "it cannot know"
            cluster.cut()
            text = f"standby of {after.address}"
            await until(lambda before=before, text=text: standing(before) == text)  # type: ignore[misc]
            assert not leading(dropped) and before.driver.job_view is None and not standing(after)
            await zero.register()
            start = await zero.command()
            assert start.code == 210 and zero.node.upstream == after.address
            terms.append(int(start.extension["Term"]))
        assert terms == sorted(set(terms))


async def test_standby_leaves_the_lease_to_the_leader_after_etcd_was_away(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    limits = replace(LIMITS, etcd=replace(LIMITS.etcd, yields_s=0.5))
    async with (
        mgr(limits=limits) as (first, leads),
        mgr(limits=limits) as (second, standby),
        agent(first) as zero,
    ):
        await zero.register()
        before = int((await zero.command()).extension["Term"])
        cluster.cut(first, second)
        await until(lambda: "standby_without_etcd" in caplog.text)
        cluster.lapse()
        cluster.cut()
        await until(lambda: "standby_sees_etcd" in caplog.text)
        assert leading(leads) and not leading(standby) and not standing(first)
        await zero.fault(0)
        assert int((await zero.command()).extension["Term"]) > before
        assert zero.node.joins == 1, "its link was kept"


async def test_leader_that_stays_cut_off_sends_its_children_to_look_for_another(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        mgr(limits=replace(LIMITS, unsure_s=0.2)) as (first, old),
        mgr() as (second, new),
        agent(first, second) as zero,
    ):
        await zero.register()
        before = int((await zero.command()).extension["Term"])
        cluster.cut(first)
        cluster.lapse()
        await until(lambda: leading(new))
        await until(lambda: zero.node.upstream == second.address)
        await zero.register()
        assert int((await zero.command()).extension["Term"]) > before
        assert leading(old) and "children_sent_elsewhere" in caplog.text


async def test_leader_that_has_lost_all_children_leaves_the_job_to_the_standby(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    limits = replace(LIMITS, alone_s=0.1)
    async with mgr(limits=limits) as (first, old), mgr(limits=limits) as (_, new):
        async with agent(first) as zero:
            await zero.register()
            await zero.command()
            await asyncio.sleep(0.2)
            assert leading(old), "it has one"
        await until(lambda: leading(new))
        await until(lambda: "standby" in standing(first) and not leading(old))
        await asyncio.sleep(0.3)
        assert leading(new), "it has not lost any"
        assert caplog.text.count("leader_without_children") == 1


async def test_leader_that_ends_while_etcd_is_away_is_followed_all_the_same(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    limits = replace(LIMITS, etcd=replace(LIMITS.etcd, yields_s=0.05))
    other = Leader(cluster.etcd, PLACE, "a", get_logger(), LIMITS.etcd)
    assert await other.begin("J") is None
    async with mgr(limits=limits) as (node, standby):
        assert standing(node) == "standby of a"
        cluster.cut(node)
        await until(lambda: "standby_without_etcd" in caplog.text)
        await other.give_back()
        cluster.cut()
        await until(lambda: leading(standby))


async def test_standby_that_cannot_read_the_state_gives_the_lease_back(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    other = Leader(cluster.etcd, PLACE, "a", get_logger(), LIMITS.etcd)
    assert await other.begin("J") is None
    async with mgr(limits=replace(LIMITS, etcd=replace(LIMITS.etcd, lease_s=60))) as (node, standby):
        cluster.spoil()
        await other.give_back()
        await until(lambda: "lead_failed" in caplog.text)
        await until(lambda: cluster.leader is None)
        assert standby.manager is None and standing(node) == "standby of a"


async def test_standby_that_meets_a_newer_release_leads_no_more_and_says_so_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    first, newer = (Leader(cluster.etcd, PLACE, "a", get_logger(), LIMITS.etcd, SCHEMA + more) for more in (0, 1))
    assert await first.begin("J") is None
    async with mgr(limits=replace(LIMITS, etcd=replace(LIMITS.etcd, yields_s=0.05))) as (node, standby):
        cluster.cut(node)
        await first.give_back()
        assert await newer.claim() is None
        cluster.cut()
        refused = f"has schema {SCHEMA + 1}, of a newer release; this one reads up to {SCHEMA}"
        await until(lambda: standing(node).startswith("standby of a newer release") and refused in standing(node))
        await newer.give_back()
        before = cluster.looks
        await until(lambda: cluster.looks > before + 3)
        assert standby.manager is None and cluster.leader is None
    assert caplog.text.count("standby_cannot_lead") == 1
    with pytest.raises(ConfigError, match=refused):
        async with mgr():
            pass


async def test_start_with_the_state_of_another_job_is_refused(cluster: Cluster) -> None:
    async with mgr():
        with pytest.raises(ConfigError, match="which has the state of job 'J'; expected that of 'K'"):
            async with mgr(ManagerConfig(job_id="K", state=str(PLACE))):
                pass


async def test_state_that_cannot_be_read_at_the_start_is_an_error(cluster: Cluster) -> None:
    async with mgr():
        pass
    cluster.spoil()
    with pytest.raises(ConfigError):
        async with mgr():
            pass
    assert cluster.leader is None


@pytest.mark.parametrize("step", ["begin", "open"])
async def test_closed_while_it_starts(cluster: Cluster, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by `destroy_taskd_manager` in another thread: before it has the lease, and while it reads the state."""
    began, goes_on = asyncio.Event(), asyncio.Event()
    owner: Any = Leader if step == "begin" else EtcdStore
    does = getattr(owner, step)

    async def waits(*arguments: Any) -> Any:
        began.set()
        await goes_on.wait()
        return await does(*arguments)

    monkeypatch.setattr(owner, step, waits)
    config = NodeConfig.mgr(listen="127.0.0.1:0", confirms=True, standby=True)
    async with Node(config) as node:
        turns = Succession(node, SETTINGS, limits=LIMITS)
        starting = asyncio.create_task(turns.start())
        await soon(began.wait())
        closing = asyncio.create_task(turns.close())
        await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(NodeClosed, match="closed while it started"):
            await soon(starting)
        await soon(closing)
        assert cluster.leader is None and standing(node)


async def test_state_in_a_file_has_one_term(tmp_path: Path) -> None:
    async with mgr(ManagerConfig(job_id="J", state=str(tmp_path / "j.sqlite3"))) as (_, turns):
        assert leading(turns)


def test_name_of_a_mgr_that_listens_everywhere_has_the_name_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    class Named:
        address: str | None = "0.0.0.0:9601"
        position = "Mgr/0"

    node: Any = Named()
    monkeypatch.setattr("socket.gethostname", lambda: "node-3")
    assert name_of(node) == "node-3:9601"
    node.address = "[fd00::1]:9601"
    assert name_of(node) == "[fd00::1]:9601"
    node.address = None
    assert name_of(node) == "Mgr/0"
