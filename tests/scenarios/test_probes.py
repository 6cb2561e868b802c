"""Probes through real sockets: they find the way and its end, enter no inbox, and never reach foreign nodes."""

from __future__ import annotations

import pytest

from taskd_net import Code, NodeClosed, Position
from taskd_net.base.address import Address
from taskd_net.observe.client import NodeClient
from taskd_net.observe.probe_codec import ProbeSeries
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon
from tests.peers.original.cluster import Originals, stands
from tests.peers.parent import RawParent, RawProxy
from tests.peers.stubs import name, pb, position

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


def client(node: WatchedNode) -> NodeClient:
    """A caller without a place in the tree."""
    return NodeClient(Address.parse(node.address or ""), 5.0)


async def way(node: WatchedNode, to: str) -> list[tuple[int, str]]:
    """A trace: code and position of each hop."""
    return [(int(echo.code), str(echo.src)) async for echo in node.trace(to)]


@both_links
async def test_any_node_to_any_other_and_no_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxies = [await mesh.proxy(rank, mgr) for rank in range(2)]
    workers = [await mesh.worker(rank, rank, proxies[rank], inbox=1) for rank in range(2)]
    nodes = [mgr, *proxies, *workers]
    for node in nodes:
        for other in nodes:
            for _ in range(3):
                echo = await node.ping(str(other.position))
                assert (echo.code, echo.src) == (0, other.position)
        assert (await node.ping("Worker/All/All")).ok
        assert (await node.ping("Worker/1/9")).code == Code.NO_ROUTE
    assert await way(workers[0], "Worker/1/1") == [(0, "Proxy/0"), (0, "Mgr/0"), (0, "Proxy/1"), (0, "Worker/1/1")]
    assert await way(workers[0], "Worker/1/9") == [(0, "Proxy/0"), (0, "Mgr/0"), (Code.NO_ROUTE, "Mgr/0")]
    assert await way(mgr, "Mgr") == [(0, "Mgr/0")]
    for node in nodes:
        assert node.waiting() == 0
        assert node.statistics.delivered == node.statistics.duplicates == node.statistics.lost == 0
    # The first arrival is the first message.
    assert (await mgr.send("first", to="Worker/All/All")).ok
    assert [(await worker.take()).body for worker in workers] == ["first", "first"]


@pytest.mark.both_loops
async def test_times_are_finer_than_the_loops_clock(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    times = [(await mgr.ping(worker.position)).seconds for _ in range(10)]
    assert all(0.0 < seconds < 10.0 for seconds in times)
    assert any(abs(seconds * 1e3 - round(seconds * 1e3)) > 1e-3 for seconds in times), times


async def test_trace_tells_the_kinds_of_link() -> None:
    kinds = ["direct", "batched", "tasknet"]
    async with Mesh() as mesh:
        node = mgr = await mesh.mgr()
        for rank, kind in enumerate(kinds):
            node = await mesh.proxy(rank, node, links=kind)
        assert [echo.link async for echo in mgr.trace(node.position)] == kinds
        assert [echo.link async for echo in node.trace("Mgr")] == kinds[::-1]


@both_links
async def test_foreign_child_is_never_handed_a_probe(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    ours = await mesh.worker(0, 0, proxy)
    async with RawChild("Worker/0/5") as leaf, RawProxy("Proxy/1") as foreign, RawChild("Worker/1/1") as behind:
        await leaf.join(proxy.address or "")
        await foreign.join(mgr.address or "")
        await behind.join(foreign.address)
        for node in (mgr, proxy, ours):
            for to, where in (("Worker/0/5", "Worker/0/5"), ("Worker/1/1", "Proxy/1"), ("Worker/0/5,0", "Worker/0/5")):
                echo = await node.ping(to)
                assert (echo.code, str(echo.src)) == (Code.CLIENT_ERR, where)
                assert "knows no probes" in echo.detail
        assert await way(ours, "Worker/1/1") == [(0, "Proxy/0"), (0, "Mgr/0"), (Code.CLIENT_ERR, "Proxy/1")]
        assert (await mgr.ping("Worker/All/All")).code == Code.CLIENT_ERR
        # A message gets through, as the first one for each.
        assert (await mgr.send("a message", to="Worker/All/All")).ok
        for node_ in (leaf, behind):
            assert (await node_.take()).body == "a message"
            assert node_.received.empty()
        assert foreign.received.empty()


@both_links
async def test_foreign_parent_is_never_handed_a_probe(mesh: Mesh) -> None:
    async with RawParent() as root:
        proxy = await mesh.proxy(0, root.address)
        worker = await mesh.worker(0, 0, proxy)
        assert (await worker.ping("Mgr")).code == Code.CLIENT_ERR
        assert await way(worker, "Mgr") == [(0, "Proxy/0"), (Code.CLIENT_ERR, "Mgr/0")]
        assert (await proxy.ping("Worker/0/0")).ok
        assert root.requests["TransferMessage"].empty()
        assert root.received.empty()


async def test_originals_are_never_handed_a_probe(mesh: Mesh, theirs: Originals) -> None:
    root = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, root.address)
    leaf = await theirs.start("Worker/0/5", proxy.address)
    worker = await mesh.worker(0, 0, proxy)
    await stands(proxy, "Worker/0/5")
    for to, where in (("Mgr", "Mgr/0"), ("Worker/0/5", "Worker/0/5"), ("Worker/0/0,5", "Worker/0/5")):
        echo = await worker.ping(to)
        assert (echo.code, str(echo.src)) == (Code.CLIENT_ERR, where)
    assert (await leaf.send("Worker/0/0", "hello")).ok
    assert (await worker.take()).body == "hello"
    assert not root.bodies()
    assert not leaf.bodies()


@both_links
async def test_what_a_foreign_node_sends_is_never_a_probe(mesh: Mesh) -> None:
    """It is refused like any bad message: no inbox, and no probe's answer."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    async with RawChild("Worker/0/5") as leaf:
        await leaf.join(proxy.address or "")
        for mtype in ("taskd-net/probe", "taskd-net/probe/1", "taskd-net/probes"):
            for to in ("Worker/0/0", "Proxy/0", "Mgr/0", "Worker/All/All"):
                message = leaf.message(to, "x")
                message.header.mtype = mtype
                ack = await leaf.transfer(message)
                assert (ack.code, name(ack.src)) == (Code.CLIENT_ERR, "Proxy/0")
        assert (await leaf.send("Worker/0/0", "a message")).code == 0
        assert (await worker.take()).body == "a message"
    async with RawParent() as root:
        below = await mesh.proxy(1, root.address)
        for mtype in ("taskd-net/probe", "taskd-net/probe/1"):
            header = pb.MessageHeader(
                uuid=mtype, mtype=mtype, sync=True, src=position("Mgr/0"), dst=position("Proxy/1")
            )
            ack = await soon(root.write("Proxy/1", pb.Message(header=header)))
            assert (ack.code, name(ack.src)) == (Code.CLIENT_ERR, "Proxy/1")
        assert below.waiting() == 0


@both_links
async def test_application_cannot_send_one(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for mtype in ("taskd-net/probe", "taskd-net/probe/3"):
        for call in (worker.send, worker.post):
            ack = await call("x", to="Mgr", mtype=mtype)
            assert (ack.code, ack.src) == (Code.CLIENT_ERR, worker.position)
            assert "is kept for probes" in ack.detail


async def test_node_that_does_not_answer_is_named(mesh: Mesh) -> None:
    """A silent stream, as of a stopped process: the way ends there with 6001."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy, links="tasknet")
    session = proxy.driver.links[next(iter(proxy.driver.router.children.by_id))]
    session.write = lambda *_: None  # type: ignore[method-assign]
    echoes = [echo async for echo in mgr.trace(worker.position, timeout=2.0)]
    assert [(int(echo.code), str(echo.src)) for echo in echoes] == [(0, "Proxy/0"), (6001, "Worker/0/0")]


async def test_what_ping_and_trace_refuse(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    with pytest.raises(ValueError, match="not a position"):
        await mgr.ping("nobody")
    with pytest.raises(ValueError, match="not a number"):
        await mgr.ping("Mgr", timeout=float("nan"))
    for to in ("Worker/All/All", "Worker/0/1,2", "Boss/1"):
        with pytest.raises(ValueError, match=to.partition("/")[0]):
            await anext(mgr.trace(to))
    await mgr.close()
    with pytest.raises(NodeClosed):
        await mgr.ping("Mgr")


async def test_who_asks_needs_no_place(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    routes = dict(mgr.routes())
    for node, parent in ((mgr, None), (proxy, mgr.position)):
        async with client(node) as asking:
            about = await asking.about()
            assert (about.position, about.parent) == (node.position, parent)
            series = ProbeSeries(worker.position, 1.0, 3, 0.0)
            assert [echo.code async for echo in asking.ping(series)] == [0, 0, 0]
            assert [str(echo.src) async for echo in asking.trace(worker.position, 1.0)][-1] == "Worker/0/0"
            echo = await anext(asking.ping(ProbeSeries(Position.parse("Boss/1"), 1.0)))
            assert echo[:2] == (Code.DST_ROLE_ILLEGAL, node.position)
    assert mgr.routes() == routes
    assert worker.waiting() == 0
