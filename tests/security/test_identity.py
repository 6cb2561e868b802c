"""A false identity is refused, counted and logged, at no cost to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from taskd_net import Code, Position
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, fast_links, soon
from tests.peers.stubs import name, pb, position
from tests.peers.wire import Wire
from tests.security.bystander.pair import Bystanders

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def attacked(mesh: Mesh) -> AsyncIterator[Bystanders]:
    """A Mgr and its children, which are checked at the end."""
    mgr = await mesh.mgr()
    async with await Bystanders.beside(mesh, mgr) as bystanders:
        yield bystanders
        await bystanders.undisturbed()


def announcement(proxy: str, *path: str) -> bytes:
    """A PathDiscovery in any name."""
    request = pb.PathDiscoveryReq(uuid="u", proxyPos=position(proxy), path=map(position, path))
    data: bytes = request.SerializeToString()
    return data


async def batched(child: RawChild, address: str) -> tuple[Any, Any]:
    """Open the batched link with bare gRPC, like a manipulated child."""
    from taskd_net.net.links.batched_kind import STREAM

    child.connect(address)
    assert (await child.register()).code == 0
    me = position(child.position)
    metadata = (("role", me.role), ("serverrank", me.serverRank), ("processrank", me.processRank))
    assert child._channel is not None
    call: Any = child._channel.stream_stream(STREAM)
    stream = call(metadata=metadata)
    await soon(stream.initial_metadata())
    return stream, me


@pytest.mark.parametrize("src", ["Worker/90/900", "Mgr/0", "Worker/5/5", "Agent/0", "Proxy/0"])
async def test_child_that_sends_as_another(attacked: Bystanders, mesh: Mesh, src: str) -> None:
    mgr = attacked.parent
    async with RawChild("Worker/0/0") as liar:
        await liar.join(mgr.address or "")
        for to in ("Mgr/0", "Worker/90/901", "Worker/All/All"):
            for sync in (True, False):
                ack = await liar.transfer(liar.message(to, src=src, sync=sync))
                assert (ack.code, name(ack.src)) == (Code.NIL_POSITION, "Mgr/0")
        assert (await liar.send("Mgr/0", "the truth")).code == 0
        assert (await mgr.take()).body == "the truth"
    assert mgr.statistics.violations == 6
    assert mesh.count("violation") == 6


async def test_child_that_sends_as_another_on_the_fast_link(attacked: Bystanders) -> None:
    from taskd_net.net.wire.batches import read_batch, write_batch
    from taskd_net.net.wire.link_pb2 import Batch

    mgr = attacked.parent
    async with RawChild("Worker/0/0") as liar:
        stream, _ = await batched(liar, mgr.address or "")
        lies = [liar.message("Mgr/0", src=src, uuid=src) for src in ("Worker/90/900", "Worker/0/1", "Mgr/0")]
        messages = [message.SerializeToString() for message in (*lies, liar.message("Mgr/0", "the truth", uuid="t"))]
        await soon(stream.write(write_batch(messages, Batch(patience=[1000] * 4))))
        answered: dict[str, int] = {}
        while len(answered) < 4:
            batch = read_batch(await soon(stream.read()))
            answered |= dict.fromkeys(batch.accepted, 0)
            answered |= {ack.uuid: ack.code for ack in map(pb.Ack.FromString, batch.answers)}
        assert answered == {"Worker/90/900": 4002, "Worker/0/1": 4002, "Mgr/0": 4002, "t": 0}
        assert (await mgr.take()).body == "the truth"
        stream.cancel()


async def test_message_with_two_headers(mesh: Mesh) -> None:
    """The first names the sender, the second another one; a reader of the whole message would believe the second.

    The batched link reads only the necessary fields, the four calls above it read all.
    """
    from taskd_net.net.wire.batches import read_batch, write_batch
    from taskd_net.net.wire.link_pb2 import Batch

    mgr = await mesh.mgr(links="tasknet")
    proxy = await mesh.proxy(0, mgr, links="batched")
    async with await Bystanders.beside(mesh, proxy) as bystanders, RawChild("Worker/0/0") as liar:
        stream, _ = await batched(liar, proxy.address or "")
        mine, other = liar.message("Mgr/0", uuid="u"), liar.message("Mgr/0", "believed", uuid="u", src="Worker/90/900")
        both = pb.Message(header=mine.header).SerializeToString() + other.SerializeToString()
        await soon(stream.write(write_batch([both], Batch(patience=[1000]))))
        answer = pb.Ack.FromString(read_batch(await soon(stream.read())).answers[0])
        assert answer.code == Code.NIL_POSITION
        assert mgr.waiting() == 0
        stream.cancel()
        await bystanders.undisturbed()


async def test_proxy_that_sends_as_a_child_of_another(mesh: Mesh) -> None:
    """Refused unless it announces that node within a second; the real one goes on."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    async with await Bystanders.beside(mesh, mgr) as bystanders, RawChild("Proxy/1") as liar:
        await liar.join(mgr.address or "")
        ack = await liar.transfer(liar.message("Mgr/0", src="Worker/0/0"))
        assert ack.code == Code.NIL_POSITION
        assert mgr.waiting() == 0
        assert (await worker.send("x", to="Mgr")).ok
        assert (await mgr.take()).body == "x"
        await bystanders.undisturbed()


async def test_message_of_a_node_that_has_moved_overtakes_its_announcement(mesh: Mesh) -> None:
    """An honest case: it is delivered with the announcement."""
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, await mesh.proxy(0, mgr))
    async with RawChild("Proxy/1") as new:
        await new.join(mgr.address or "")
        early = asyncio.create_task(new.transfer(new.message("Mgr/0", "early", src="Worker/0/0")))
        await mesh.until(lambda: mgr.driver.router._admission.next_deadline() < float("inf"))
        assert (await new.announce("Worker/0/0")).code == 0
        assert (await soon(early)).code == 0
        assert (await mgr.take()).body == "early"
        assert mgr.statistics.violations == 0


async def test_message_over_a_connection_of_nobody(attacked: Bystanders) -> None:
    """It may speak for a child from that child's host alone, and for no unknown node."""
    mgr, victim = attacked.parent, str(attacked.ours.position)
    async with RawChild("Worker/0/0") as liar, Wire(mgr.address or "", source="127.0.0.2") as elsewhere:
        liar.connect(mgr.address or "")
        assert (await liar.transfer(liar.message("Mgr/0"))).code == Code.NIL_POSITION
        assert (await liar.transfer(liar.message("Mgr/0", src=victim))).code == 0
        await mgr.take()
        await liar.cut()
        liar.connect(elsewhere.address)
        for src in (victim, "Worker/0/0"):
            assert (await liar.transfer(liar.message("Mgr/0", src=src))).code == Code.NIL_POSITION
        assert (await liar.call("PathDiscovery", announcement(victim, victim))).code == Code.DST_TYPE_ILLEGAL
    assert mgr.waiting() == 0


async def test_announcement_in_the_name_of_another(attacked: Bystanders) -> None:
    mgr = attacked.parent
    async with RawChild("Proxy/1") as victim, RawChild("Worker/0/0") as liar:
        await victim.join(mgr.address or "")
        await liar.join(mgr.address or "")
        before = mgr.routes()
        ack = await liar.call("PathDiscovery", announcement("Proxy/1", "Worker/1/1"))
        assert (ack.code, ack.uuid) == (Code.DST_TYPE_ILLEGAL, "u")
        assert mgr.routes() == before


@pytest.mark.parametrize("path", ["Worker/90/900", "Worker/7/7", "Proxy/3"])
async def test_worker_that_announces_others(attacked: Bystanders, path: str) -> None:
    mgr = attacked.parent
    async with RawChild("Worker/0/0") as liar:
        await liar.join(mgr.address or "")
        before = mgr.routes()
        assert (await liar.announce("Worker/0/0", path)).code == Code.DST_TYPE_ILLEGAL
        assert mgr.routes() == before


async def test_proxy_below_a_proxy_that_announces_those_above(mesh: Mesh) -> None:
    """The honest Proxy between them, which must pass it on, is not refused."""
    mgr = await mesh.mgr()
    grandparent = await mesh.proxy(0, mgr)
    parent = await mesh.proxy(1, grandparent)
    async with await Bystanders.beside(mesh, parent) as bystanders, RawChild("Proxy/2") as liar:
        await liar.join(parent.address or "")
        assert (await liar.announce("Proxy/0", "Worker/2/2")).code == 0
        assert Position.proxy(0) not in grandparent.routes()
        assert Position.worker(2, 2) in mgr.routes()
        await bystanders.undisturbed()
        assert (await mgr.send("x", to="Proxy/0")).ok
        late = await mesh.worker(1, 1, parent)
        assert (await mgr.send("x", to=late.position)).ok


async def test_stream_in_the_place_of_another(attacked: Bystanders) -> None:
    """The stream opens over the connection of another child."""
    mgr = attacked.parent
    async with RawChild("Worker/0/1") as victim, RawChild("Worker/0/0") as liar:
        victim.connect(mgr.address or "")
        assert (await victim.register()).code == 0
        await liar.join(mgr.address or "")
        assert liar._channel is not None
        call: Any = liar._channel.stream_stream("/TaskNet/InitServerDownStream")
        stream = call(metadata=(("role", "Worker"), ("serverrank", "0"), ("processrank", "1")))
        assert await soon(stream.code()) is grpc.StatusCode.UNKNOWN
        await victim.open_stream()
        assert (await mgr.send("x", to="Worker/0/1")).ok


async def test_position_of_a_living_node_of_another_host(mesh: Mesh) -> None:
    """The newcomer is refused while the holder's connection lives; later it gets in."""
    mgr = await mesh.mgr()
    async with await Bystanders.beside(mesh, mgr) as bystanders, Wire(mgr.address or "", source="127.0.0.2") as wire:
        first = await mesh.worker(0, 0, mgr)
        second = await mesh.worker(0, 0, wire.address, join=False)
        await mesh.logged("join_failed", node="Worker/0/0")
        assert "4002" in str(await _trouble(second))
        assert mgr.statistics.violations >= 1
        assert mesh.count("child_replaced") == 0
        await bystanders.undisturbed()
        await soon(first.close())
        await soon(second.joined())


@fast_links
async def test_position_of_a_frozen_node_of_another_host(mesh: Mesh) -> None:
    """Pings detect a dead connection that is not closed; then the newcomer gets in.

    Over a direct link it is held for longer, where the other kernel still answers, as for a stopped process.
    """
    mesh.let(silent=9.0)
    mgr = await mesh.mgr()
    async with (
        await Bystanders.beside(mesh, mgr) as bystanders,
        Wire(mgr.address or "", source="127.0.0.2") as old,
        Wire(mgr.address or "", source="127.0.0.3") as new,
    ):
        await mesh.worker(0, 0, old.address)
        old.freeze()
        second = await mesh.worker(0, 0, new.address, join=False)
        await soon(second.joined(), timeout=25)
        await bystanders.undisturbed()


async def test_position_of_a_living_node_of_the_same_host(attacked: Bystanders, mesh: Mesh) -> None:
    """The newcomer is entitled to it, and wins at once."""
    mesh.expected_errors.add("position_taken")
    mgr = attacked.parent
    await mesh.worker(0, 0, mgr)
    await mesh.worker(0, 0, mgr)
    assert (mesh.count("child_replaced"), mgr.statistics.violations) == (1, 0)


async def test_proxy_of_another_host_that_announces_a_connected_child(mesh: Mesh) -> None:
    """The connected child stays the route."""
    mgr = await mesh.mgr()
    async with (
        await Bystanders.beside(mesh, mgr) as bystanders,
        Wire(mgr.address or "", source="127.0.0.2") as wire,
        RawChild("Proxy/1") as liar,
    ):
        await liar.join(wire.address)
        assert (await liar.announce(str(bystanders.ours.position), "Worker/1/1")).code == 0
        assert mgr.statistics.violations == 1
        ack = await liar.transfer(liar.message("Mgr/0", src=str(bystanders.ours.position)))
        assert ack.code == Code.NIL_POSITION
        await bystanders.undisturbed()


async def test_proxy_of_the_same_host_that_announces_a_connected_child(mesh: Mesh) -> None:
    """The parent logs that messages of the connected child are diverted, once for each time."""
    mgr = await mesh.mgr()
    worker = await mesh.worker(1, 0, mgr)
    async with RawChild("Proxy/1") as liar:
        await liar.join(mgr.address or "")
        for _ in range(3):
            assert (await liar.announce(str(worker.position))).code == 0
        assert mesh.count("child_diverted") == 1
        assert mgr.routes()[worker.position] == Position.parse("Proxy/1")


async def test_several_children_over_one_connection(attacked: Bystanders) -> None:
    """One process may be several nodes: each sends as itself, and none as another."""
    mgr = attacked.parent
    async with RawChild("Worker/0/0") as one, RawChild("Worker/0/1") as two:
        await one.join(mgr.address or "")
        two._channel, two._stub = one._channel, one._stub
        assert (await two.register()).code == 0
        assert (await two.announce()).code == 0
        await two.open_stream()
        for child in (one, two):
            assert (await child.send("Mgr/0", child.position)).code == 0
            assert (await mgr.take()).body == child.position
            assert (await child.transfer(child.message("Mgr/0", src="Worker/0/2"))).code == Code.NIL_POSITION


async def _trouble(node: WatchedNode) -> str:
    with pytest.raises(TimeoutError) as error:
        await node.joined(0.01)
    return str(error.value)
