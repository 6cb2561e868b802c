"""Receivers of a broadcast, and nodes that miss it: real sockets, over each kind of link, among other versions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from taskd_net import Code, Failure, Position
from taskd_net.base.address import Address
from taskd_net.core import acks
from taskd_net.net.links import peer as peers
from taskd_net.observe.client import NodeClient
from taskd_net.observe.probe_codec import ProbeSeries
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, fast_links
from tests.peers.original.cluster import Originals

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@contextmanager
def earlier_version() -> Iterator[None]:
    """Nodes that join meanwhile neither send nor read receiver counts, nor do their parents on these links."""
    own, parent = peers.own_metadata, peers.of_parent
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            peers, "own_metadata", lambda **said: tuple(pair for pair in own(**said) if pair != peers.COUNTS)
        )
        patched.setattr(peers, "of_parent", lambda metadata: replace(parent(metadata), counts=False))
        yield


async def nested(mesh: Mesh) -> dict[str, WatchedNode]:
    """Two Proxies, a third below the second, two Workers below each, one below the Mgr."""
    mgr = await mesh.mgr(inbox=1000)
    near, far = await mesh.proxy(0, mgr, inbox=1000), await mesh.proxy(1, mgr, inbox=1000)
    below = await mesh.proxy(2, far, inbox=1000)
    nodes = [mgr, near, far, below, await mesh.worker(9, 9, mgr, inbox=1000)]
    for rank, proxy in enumerate((near, far, below)):
        nodes += [await mesh.worker(rank, 2 * rank + i, proxy, inbox=1000) for i in range(2)]
    return {str(node.position): node for node in nodes}


@pytest.mark.both_loops
async def test_count_from_everywhere_to_everywhere(mesh: Mesh) -> None:
    nodes = await nested(mesh)
    for name, node in nodes.items():
        for to, among in (
            ("Worker/All/All", {"Worker/9/9", *(f"Worker/{rank // 2}/{rank}" for rank in range(6))}),
            ("Worker/1/All", {"Worker/1/2", "Worker/1/3"}),
            ("Worker/All/0,5,9", {"Worker/0/0", "Worker/2/5", "Worker/9/9"}),
            ("Worker/2/4", {"Worker/2/4"}),
            ("Proxy/All", {"Proxy/0", "Proxy/1", "Proxy/2"}),
            ("Mgr", {"Mgr/0"}),
        ):
            receivers = len(among) if to in ("Worker/2/4", "Mgr") else len(among - {name})
            for answer in (await node.send("x", to=to), await node.ping(to)):
                assert (answer.code, answer.receivers, answer.failures) == (0, receivers, ()), (name, to)
        assert (await node.post("x", to="Worker/All/All")).receivers is None
        missing = await node.send("x", to="Worker/9/77")
        assert (missing.code, missing.receivers, missing.failures) == (Code.NO_ROUTE, 0, ())


async def test_who_has_not_is_named(mesh: Mesh) -> None:
    nodes = await nested(mesh)
    for name in ("Worker/2/5", "Worker/0/0"):
        nodes[name].close_inbox()
    closed = {Failure(Position.worker(2, 5), Code.RECV_BUF_NIL), Failure(Position.worker(0, 0), Code.RECV_BUF_NIL)}
    for name in ("Mgr/0", "Worker/9/9", "Worker/1/2"):
        ack = await nodes[name].send("x", to="Worker/All/All")
        assert (ack.code, {*ack.failures}) == (Code.RECV_BUF_NIL, closed)
        assert ack.receivers == (5 if name == "Mgr/0" else 4)
    # A lost child is named; the code comes from the hop that knows it.
    await nodes["Worker/2/4"].close()
    await mesh.logged("child_lost", node=nodes["Proxy/2"].position)
    ack = await nodes["Mgr/0"].send("x", to="Worker/2/All")
    away = Failure(Position.worker(2, 4), Code.NET_STREAM_NOT_INITED)
    assert {*ack.failures} == {away, Failure(Position.worker(2, 5), Code.RECV_BUF_NIL)}
    assert ack.receivers == 0


async def test_no_more_are_named_than_the_limit(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxies = [await mesh.proxy(rank, mgr) for rank in range(2)]
    for rank in range(20):
        (await mesh.worker(rank % 2, rank, proxies[rank % 2])).close_inbox()
    ack = await mgr.send("x", to="Worker/All/All")
    assert (ack.code, ack.receivers, len(ack.failures)) == (Code.RECV_BUF_NIL, 0, acks.FAILURES_TOLD)
    assert len({*ack.failures}) == acks.FAILURES_TOLD


async def test_branch_over_the_four_calls_cannot_say(mesh: Mesh) -> None:
    """A leaf behind them counts as one; a Proxy makes the count unknown."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, proxy, links="tasknet")
    async with RawChild("Worker/0/1") as foreign:
        await foreign.join(proxy.address or "")
        assert (await mgr.send("x", to="Worker/All/All")).receivers == 2
        plain = await mesh.proxy(1, mgr, links="tasknet")
        worker = await mesh.worker(1, 5, plain)
        for answer in (await mgr.send("x", to="Worker/All/All"), await worker.send("x", to="Worker/All/All")):
            assert (answer.code, answer.receivers) == (0, None)
        assert (await mgr.send("x", to="Worker/0/All")).receivers == 2
        assert (await mgr.send("x", to="Worker/1/5")).receivers == 1
        assert (await plain.send("x", to="Worker/1/All")).receivers is None, "the Mgr may know others of this node"


@pytest.mark.parametrize("older", ["Proxy/0", "Worker/0/0"])
@fast_links
async def test_node_of_an_earlier_version(mesh: Mesh, older: str) -> None:
    """All messages arrive and are answered; an older leaf is counted, an older Proxy cannot say."""
    mgr = await mesh.mgr()
    with earlier_version():
        proxy = await mesh.proxy(0, mgr) if older == "Proxy/0" else mgr
        workers = [await mesh.worker(0, rank, proxy) for rank in range(2)]
    near = await mesh.worker(1, 2, mgr)
    known = older != "Proxy/0"
    for sender, count in ((mgr, 3), (near, 2), (workers[0], 2)):
        ack = await sender.send("x", to="Worker/All/All")
        assert (ack.code, ack.receivers) == (0, count if known and sender is not workers[0] else None)
    workers[0].close_inbox()
    ack = await mgr.send("y", to="Worker/All/All")
    assert (ack.code, ack.failures) == (Code.RECV_BUF_NIL, (Failure(workers[0].position, Code.RECV_BUF_NIL),))
    assert ack.receivers == (2 if known else None)
    assert await workers[1].take_all(4) == ["x", "x", "x", "y"]


async def test_originals_cannot_say(mesh: Mesh, theirs: Originals) -> None:
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    await theirs.start("Worker/0/0", proxy)
    ours = await mesh.proxy(1, mgr)
    await theirs.start("Worker/1/1", ours)
    assert (await mgr.send("x", to="Worker/All/All")).receivers is None
    # Each rank of a list goes to theirs by itself, and a leaf of theirs answers for itself.
    assert (await mgr.send("x", to="Worker/All/0,1")).receivers == 2
    assert (await mgr.send("x", to="Worker/1/All")).receivers == 1


async def test_asked_from_outside(mesh: Mesh) -> None:
    """A caller without a place in the tree gets the count as well."""
    nodes = await nested(mesh)
    async with NodeClient(Address.parse(nodes["Proxy/0"].address or ""), 5.0) as asking:
        (echo,) = [echo async for echo in asking.ping(ProbeSeries(Position.parse("Worker/All/All"), 3.0))]
        assert (echo.code, echo.receivers, echo.failures) == (0, 7, ())
        await nodes["Worker/2/4"].close()
        await mesh.logged("child_lost", node=nodes["Proxy/2"].position)
        (echo,) = [echo async for echo in asking.ping(ProbeSeries(Position.parse("Worker/All/All"), 3.0))]
        away = Failure(Position.worker(2, 4), Code.NET_STREAM_NOT_INITED)
        assert (echo.code, echo.receivers, echo.failures) == (Code.NET_STREAM_NOT_INITED, 6, (away,))


async def test_ping_names_who_was_not_asked(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    async with RawChild("Worker/0/1") as foreign:
        await foreign.join(mgr.address or "")
        echo = await mgr.ping("Worker/All/All")
        assert (echo.code, echo.receivers) == (Code.CLIENT_ERR, 1)
        assert echo.failures == (Failure(Position.worker(0, 1), Code.CLIENT_ERR),)
