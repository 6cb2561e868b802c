"""Ids of jobs over real sockets: two jobs whose addresses are mixed up stay apart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskd_net import Code, Position
from taskd_net.net.joining import join, other_jobs
from taskd_net.net.links import peer as peers
from taskd_net.version import __version__
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, soon
from tests.peers.parent import RawParent
from tests.polling import until

ODD = "Jöb 1/ü%"
"""An id that metadata cannot have as it is."""

pytestmark = pytest.mark.timeout(180)


def told(node: Any) -> str:
    """The id of a node's job, as it knows it."""
    found: str = node.driver.router.membership.job_id
    return found


@both_links
@pytest.mark.parametrize("mine", ["a", ODD])
async def test_node_of_another_job_is_refused_and_the_others_notice_nothing(mesh: Mesh, mine: str) -> None:
    mgr = await mesh.mgr(job_id=mine)
    member = await mesh.worker(0, 0, mgr, job_id=mine)
    for rank in (0, 1):  # also in the place of a member
        stranger = await mesh.worker(0, rank, mgr, join=False, job_id="b")
        reason = f"this node is of job 'b', and Mgr/0 at {mgr.address} is of job {mine!r}"
        await mesh.logged("join_failed", node=stranger.position, reason=reason)
        assert mesh.count("child_refused", child=stranger.position, code=int(Code.CLIENT_ERR)) == 1
    assert (await soon(mgr.send("x", to=member.position))).ok
    assert (await mgr.send("x", to="Worker/0/1")).code == Code.NO_ROUTE
    assert mesh.count("child_replaced") == mesh.count("violation") == 0


@both_links
async def test_node_without_an_id_keeps_that_of_its_first_parent(mesh: Mesh) -> None:
    """It is moved to another parent then: one of its own job takes it, one of another job does not."""
    first, wrong = await mesh.mgr(job_id="a"), await mesh.mgr(job_id="b")
    proxy = await mesh.proxy(0, f"{first.address},{wrong.address}")
    worker = await mesh.worker(0, 0, proxy)
    assert [told(node) for node in (first, proxy, worker)] == ["a", "a", "a"]
    address = first.address or ""
    await first.close()
    await mesh.logged("child_refused", node=wrong.position, child=proxy.position)
    second = await mesh.mgr(address, job_id="a")
    await mesh.logged("joined", node=proxy.position, times=2)
    assert (await soon(second.send("x", to=worker.position))).ok
    assert not wrong.driver.router.children.by_id


@both_links
async def test_id_passes_a_parent_that_learns_it_late(mesh: Mesh) -> None:
    """A child of another job came before. It is sent away as soon as the Proxy knows whose it is."""
    address = (await mesh.mgr()).address or ""
    await mesh.nodes.pop().close()
    proxy = await mesh.proxy(0, address, join=False)
    member = await mesh.worker(0, 0, proxy, join=False, job_id="a")
    stranger = await mesh.worker(0, 1, proxy, join=False, job_id="b")
    for child in (member, stranger):
        await mesh.logged("child_joined", node=proxy.position, child=child.position)
    mgr = await mesh.mgr(address, job_id="a")
    await mesh.logged("child_lost", child=stranger.position, reason="the parent has joined another job")
    await mesh.logged("child_refused", node=proxy.position, child=stranger.position)
    assert (await soon(mgr.send("x", to=member.position))).ok
    await mesh.until(lambda: mgr.driver.router.routes.next_hop(stranger.position) is None)
    assert mesh.count("child_lost", child=member.position) == 0


async def test_child_that_says_none_is_a_member(mesh: Mesh) -> None:
    """TaskD's own nodes, earlier versions and tools say none."""
    mgr = await mesh.mgr(job_id="a")
    async with RawChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        assert (await child.send("Mgr/0")).code == 0


@pytest.mark.parametrize("says", [(), ((peers.VERSION_KEY, "0.2.0"),), ((peers.JOB_KEY, "b"),)])
async def test_parent_that_knows_none_takes_any_child(mesh: Mesh, says: peers.Metadata) -> None:
    """One that is no node of this package knows no ids, whatever stands in its metadata."""
    async with RawParent() as parent:
        parent.says = says
        worker = await mesh.worker(0, 0, parent.address, job_id="a")
        assert told(worker) == "a" and (await worker.send("x", to=Position.mgr())).ok


async def test_parent_of_another_job_is_left_even_if_it_takes_the_node(mesh: Mesh) -> None:
    """It may have taken its own id a moment ago."""
    async with RawParent() as parent:
        parent.says = peers.refusing_metadata("b")
        await mesh.worker(0, 0, parent.address, join=False, job_id="a")
        reason = f"this node is of job 'a', and Mgr/0 at {parent.address} is of job 'b'"
        await mesh.logged("join_failed", reason=reason)
        assert parent.opened.empty()


async def test_refused_node_asks_less_and_less_often_and_is_logged_once(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds: list[float] = []

    def pause(low: float, high: float) -> float:
        bounds.append(high)
        return low

    monkeypatch.setattr("taskd_net.net.retry.chance.uniform", pause)
    mgr = await mesh.mgr(job_id="a")
    worker = await mesh.worker(0, 0, mgr, join=False, job_id="b")
    await until(lambda: max(bounds, default=0.0) == join.NO_PLACE_PAUSE_MAX_S)
    assert mesh.count("child_refused") == mesh.count("join_failed") == 1
    assert len(mgr.driver.view.news.refused) == 1
    assert "is of job 'a'" in worker.driver.joiner.trouble  # type: ignore[union-attr]


async def test_tool_of_another_job_is_refused_as_well(mesh: Mesh) -> None:
    mgr = await mesh.mgr(job_id="a")
    await mesh.agent(5, mgr, service=True)
    await mesh.agent(6, mgr, service=True, job_id="b", join=False)
    await mesh.logged("child_refused", child="Agent/6")


async def test_full_parent_of_another_job_says_which(mesh: Mesh) -> None:
    """The job matters more than the place."""
    mgr = await mesh.mgr(job_id="a", max_children=1)
    await mesh.worker(0, 0, mgr)
    await mesh.worker(0, 1, mgr, job_id="b", join=False)
    await mesh.logged("child_refused", child="Worker/0/1", code=int(Code.CLIENT_ERR))


def test_metadata_has_the_id_where_there_is_one() -> None:
    assert peers.own_metadata() == peers.own_metadata(job="")
    assert peers.of_child(dict(peers.own_metadata(job=ODD))).job_id == ODD
    assert peers.of_parent(dict(peers.parent_metadata(1, (), job=ODD))).job_id == ODD
    assert peers.of_parent(dict(peers.refusing_metadata(ODD))).job_id == ODD
    assert peers.of_child({peers.VERSION_KEY: __version__}).job_id == peers.of_child({peers.JOB_KEY: "a"}).job_id == ""


def test_peer_of_another_job_is_news_once_in_a_while() -> None:
    seen = other_jobs.OtherJobs()
    assert [seen.is_news(now, "x") for now in (0.0, 1.0, 599.0, 600.0, 601.0)] == [True, False, False, True, False]
    for number in range(other_jobs.PEERS):
        assert seen.is_news(700.0, number)
    assert seen.is_news(701.0, "x") and not seen.is_news(701.0, other_jobs.PEERS - 1)


@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_many_refused_nodes_of_one_process_cost_the_members_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr(job_id="a", max_children=2)
    member = await mesh.worker(0, 0, mgr)
    await asyncio.gather(*(mesh.worker(1, rank, mgr, join=False, job_id="b") for rank in range(20)))
    await mesh.until(lambda: mesh.count("child_refused") == 20)
    assert mgr.driver.router.children.free_places == 1
    assert (await soon(mgr.send("x", to=member.position))).ok
