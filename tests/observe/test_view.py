"""A node's records of the nodes below it, and their expiry."""

from __future__ import annotations

import asyncio
import time
import tracemalloc

import pytest

from taskd_net import Position
from taskd_net.base.states import State
from taskd_net.observe import status_codec as wire
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import NodeStatus, OwnFigures
from taskd_net.observe.view import ViewBounds
from tests.peers.child import RawChild
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode


def seen(node: WatchedNode) -> set[str]:
    """The positions that a node knows when it looks."""
    node.driver.view.look()
    return {record.position for record in node.driver.view.records()}


async def test_with_a_foreign_proxy_those_are_forgotten_that_were_behind_it(mesh: Mesh) -> None:
    """Nobody else would ever say that they are gone."""
    mgr = await mesh.mgr(grace=0.1)
    mgr.driver.view.bounds = ViewBounds(gone_s=0.2)
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        await foreign.announce("Worker/7/70", "Worker/7/71")
        assert seen(mgr) == {"Mgr/0", "Proxy/7", "Worker/7/70", "Worker/7/71"}
    async with asyncio.timeout(PATIENCE_S):
        while "Proxy/7" in (known := seen(mgr)):  # noqa: ASYNC110 - it is seen by who looks, and not before
            await asyncio.sleep(0.02)
    assert known == {"Mgr/0"}


async def test_what_does_not_change_is_not_written_anew(mesh: Mesh) -> None:
    """Each record that is would be told up to the Mgr, of thousands of children."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as foreign:
        await foreign.join(str(mgr.address))
        mgr.driver.view.look()
        before = mgr.driver.view.ledger.find("Worker/0/0")
        await asyncio.sleep(0.02)  # a record says when it was made, in milliseconds
        mgr.driver.view.look()
        assert mgr.driver.view.ledger.find("Worker/0/0") is before
        assert (await mgr.send("x", to="Worker/0/0")).ok
        mgr.driver.view.look()
        assert mgr.driver.view.ledger.find("Worker/0/0") is not before


async def test_only_so_many_that_have_vanished_are_shown(mesh: Mesh) -> None:
    mgr = await mesh.mgr(grace=0.05)
    mgr.driver.view.bounds = ViewBounds(gone=2)
    for rank in range(3):
        async with RawChild(f"Worker/7/{rank}") as foreign:
            await foreign.join(str(mgr.address))
        await mesh.logged("child_forgotten", times=rank + 1)
    assert seen(mgr) == {"Mgr/0", "Worker/7/1", "Worker/7/2"}


async def test_nodes_behind_a_foreign_proxy_are_looked_at_in_parts(mesh: Mesh) -> None:
    """Also routes that come and go between two parts of a look."""
    mgr = await mesh.mgr()
    mgr.driver.view.bounds = ViewBounds(looks=1, looks_behind=1)
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        await foreign.announce("Worker/7/0", "Worker/7/1", "Worker/7/2")
        link = mgr.driver.router.children.by_id[1]
        for rank in (0, 1):
            mgr.driver.router.routes.drop(Position.worker(7, rank), link.id)
        for rank in (3, 4):
            mgr.driver.router.routes.learn(Position.worker(7, rank), link.id, link.epoch)
        parts = 0
        for _ in mgr.driver.view.look_slices():
            parts += 1
            if parts == 2:  # the first is of the children
                mgr.driver.router.routes.learn(Position.worker(7, 0), link.id, link.epoch)
                mgr.driver.router.routes.drop(Position.worker(7, 3), link.id)
        assert parts == 1 + 3 + 4  # three are known, and four have routes, the Proxy among them
        assert seen(mgr) == {"Mgr/0", "Proxy/7", *(f"Worker/7/{rank}" for rank in (0, 2, 4))}


async def test_look_behind_a_foreign_proxy_copies_no_set_of_its_nodes(mesh: Mesh) -> None:
    nodes = 20_000
    mgr = await mesh.mgr()
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        link = mgr.driver.router.children.by_id[1]
        for rank in range(nodes):
            mgr.driver.router.routes.learn(Position.worker(7, rank), link.id, link.epoch)
        mgr.driver.view.look()
        tracemalloc.start()
        try:
            mgr.driver.view.look()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert len(mgr.driver.view.ledger) == nodes + 2
    assert most < 32 * nodes, "lists have 8 bytes for a node, and sets 50 or more"


async def test_nodes_of_a_proxy_that_begins_to_report_are_those_that_it_reports(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        await foreign.announce("Worker/7/0", "Worker/7/1")
        link = mgr.driver.router.children.by_id[1]
        own = wire.write_node(NodeStatus(None, State.JOINED, 0.0, "", own=OwnFigures()))
        node = wire.write_node(NodeStatus(Position.proxy(7), State.LOST, 0.0, ""))
        mgr.driver.view.told(
            link, Report([Record("Proxy/7", own), Record("Worker/7/0", node)], first=True, complete=True)
        )
        assert seen(mgr) == {"Mgr/0", "Proxy/7", "Worker/7/0"}
        assert mgr.driver.view.ledger.find("Worker/7/0") == Record("Worker/7/0", node)


async def test_nodes_behind_a_foreign_proxy_are_joined_there(mesh: Mesh) -> None:
    """Also where the Proxy comes after a leaf."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as leaf, RawChild("Proxy/7") as foreign:
        await leaf.join(str(mgr.address))
        await foreign.join(str(mgr.address))
        await foreign.announce("Worker/7/0", "Worker/7/1")
        mgr.driver.view.look()
        for rank in (0, 1):
            record = mgr.driver.view.ledger.find(f"Worker/7/{rank}")
            assert record is not None
            status = wire.read_node(record.node)
            assert (status.parent, status.state) == (Position.proxy(7), State.JOINED)


async def test_node_to_which_a_route_alone_leads_is_behind_the_foreign_proxy(mesh: Mesh) -> None:
    """Nobody has announced it, so nobody knows since when it is there."""
    mgr = await mesh.mgr()
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        link = mgr.driver.router.children.by_id[1]
        mgr.driver.router.routes.learn(Position.worker(7, 9).identity, link.id, link.epoch)
        assert seen(mgr) == {"Mgr/0", "Proxy/7", "Worker/7/9"}
        record = mgr.driver.view.ledger.find("Worker/7/9")
        assert record is not None
        assert wire.read_node(record.node)[:3] == (Position.proxy(7), State.JOINED, 0.0)


async def test_first_join_of_a_node_is_no_reconnect(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    again: list[int] = []
    for _ in range(2):
        proxy.driver.view.look()
        record = proxy.driver.view.ledger.find("Proxy/0")
        assert record is not None
        own = wire.read_node(record.node).own
        assert own is not None
        again.append(own.reconnects)
        await mgr.close()
        mgr = await mesh.mgr(str(mgr.address))
        await proxy.joined(PATIENCE_S)
    assert again == [0, 1]


async def test_node_to_which_a_route_alone_leads_is_found_behind_a_leaf(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as leaf, RawChild("Proxy/7") as foreign:
        await leaf.join(str(mgr.address))
        await foreign.join(str(mgr.address))
        link = mgr.driver.router.children.by_id[2]
        mgr.driver.router.routes.learn(Position.worker(7, 9).identity, link.id, link.epoch)
        assert seen(mgr) == {"Mgr/0", "Worker/0/0", "Proxy/7", "Worker/7/9"}


async def test_node_tells_that_its_inbox_is_closed(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    closed = []
    for _ in range(2):
        own = worker.driver.view._of_itself(0.0).own
        assert own is not None
        closed.append(own.inbox_closed)
        worker.close_inbox()
    assert closed == [False, True]


async def test_listening_nodes_tell_their_job(mesh: Mesh) -> None:
    long = "ö" * 128
    mgr = await mesh.mgr(job_id=long)
    worker = await mesh.worker(0, 0, mgr)
    told = [node.driver.view._of_itself(0.0).own for node in (mgr, worker)]
    assert [own and own.job_id for own in told] == ["ö" * 32, ""]


async def test_times_follow_a_step_of_the_hosts_clock(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every time is shown by the clock of now, and a step that is none changes no record."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as foreign:
        await foreign.join(str(mgr.address))
        real = time.time
        shift = 0.0
        monkeypatch.setattr(time, "time", lambda: real() + shift)
        for step in (7200.0, -7200.0):
            shift = step
            mgr.driver.view.look()
            assert abs(mgr.driver.view.wall() - time.time()) < 60.0
            for name in ("Mgr/0", "Worker/0/0"):
                record = mgr.driver.view.ledger.find(name)
                assert record is not None
                status = wire.read_node(record.node)
                assert abs(status.since - time.time()) < 60.0 and abs(status.at - time.time()) < 60.0
