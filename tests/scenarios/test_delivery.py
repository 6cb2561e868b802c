"""Delivery at the destination: order, resends, a full inbox."""

import asyncio
from typing import Any

import pytest

from taskd_net import Code
from taskd_net.base.limits import LINK_MESSAGES
from taskd_net.core.seen import SeenMessages
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon

pytestmark = pytest.mark.timeout(180)


async def two_nodes(mesh: Mesh, **settings: Any) -> tuple[WatchedNode, WatchedNode, WatchedNode]:
    """A Mgr, and a Worker on each of two nodes."""
    mgr = await mesh.mgr()
    return (
        mgr,
        await mesh.worker(0, 0, await mesh.proxy(0, mgr), **settings),
        await mesh.worker(1, 1, await mesh.proxy(1, mgr), **settings),
    )


async def drain(node: WatchedNode, count: int) -> list[str]:
    """Receive messages as they arrive."""
    return [(await node.take()).body for _ in range(count)]


@pytest.mark.oldest
@pytest.mark.both_loops
@both_links
@pytest.mark.parametrize("kinds", ["sync", "async", "mixed"])
async def test_messages_of_one_sender_arrive_in_order(mesh: Mesh, kinds: str) -> None:
    mgr, one, other = await two_nodes(mesh)
    count = 60
    for sender, receiver in ((one, other), (mgr, other), (one, mgr)):
        reader = asyncio.create_task(drain(receiver, count))
        for i in range(count):
            sync = kinds == "sync" or (kinds == "mixed" and i % 3 == 0)
            ack = await (sender.send if sync else sender.post)(str(i), to=receiver.position)
            while ack.code == Code.RECV_BUF_BUSY:  # the reader lags a little, and the sender still has the message
                ack = await sender.send(str(i), to=receiver.position, uuid=ack.uuid)
            assert ack.ok
        assert await soon(reader) == [str(i) for i in range(count)]


@both_links
async def test_large_and_small_messages_keep_their_order(mesh: Mesh) -> None:
    _, one, other = await two_nodes(mesh, inbox=64)
    for i in range(12):
        assert (await one.post(f"{i:02}" + "x" * (500_000 if i % 2 == 0 else 0), to=other.position)).ok
    assert [body[:2] for body in await other.take_all(12)] == [f"{i:02}" for i in range(12)]


@pytest.mark.oldest
@pytest.mark.both_loops
@both_links
async def test_resend_is_acknowledged_and_not_delivered_twice(mesh: Mesh) -> None:
    mgr, one, other = await two_nodes(mesh)
    for sender, receiver in ((one, other), (mgr, one), (one, mgr)):
        first = await sender.send("once", to=receiver.position)
        assert first.ok
        for send in (sender.send, sender.post):
            again = await send("once", to=receiver.position, uuid=first.uuid)
            assert (again.code, again.uuid) == (0, first.uuid)
        assert (await sender.send("then", to=receiver.position)).ok
        assert await receiver.take_all(2) == ["once", "then"]
        assert receiver.waiting() == 0
        assert receiver.statistics.duplicates == 2


@both_links
async def test_resend_after_a_lost_ack_is_not_delivered_twice(mesh: Mesh) -> None:
    """The main case of resends: delivered, and the sender could not know."""
    mgr = await mesh.mgr(ack_timeout=0.2)
    worker = await mesh.worker(0, 0, await mesh.proxy(0, mgr), inbox=1, ack_timeout=3.0)
    assert (await mgr.send("fills it", to=worker.position)).ok
    lost = await mgr.send("x", to=worker.position, timeout=0.001)
    assert lost.code in (Code.NETWORK_ACK_LOST, Code.RECV_BUF_BUSY)
    await worker.take()
    # A late answer to the first copy means the same, so resend, as permitted.
    again = [await mgr.send("x", to=worker.position, uuid=lost.uuid, timeout=3) for _ in range(3)]
    assert again[-1].ok
    assert (await worker.take()).body == "x"
    assert worker.waiting() == 0


@both_links
async def test_same_uuid_of_two_senders_is_two_messages(mesh: Mesh) -> None:
    mgr, one, other = await two_nodes(mesh)
    for sender in (one, other):
        assert (await sender.send(str(sender.position), to="Mgr", uuid="the-same")).ok
    assert await mgr.take_all(2) == [str(one.position), str(other.position)]


async def test_resend_outside_the_window_is_delivered_again(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    worker.driver.router.gate.seen = SeenMessages(2)
    for uuid in ("a", "b", "c", "a", "c"):
        assert (await mgr.send(uuid, to=worker.position, uuid=uuid)).ok
    assert await worker.take_all(4) == ["a", "b", "c", "a"]
    assert worker.statistics.duplicates == 1


@pytest.mark.oldest
@pytest.mark.both_loops
@both_links
async def test_async_messages_wait_for_room_and_arrive_in_order(mesh: Mesh) -> None:
    mgr, one, other = await two_nodes(mesh, inbox=2)
    for sender in (mgr, one):
        for i in range(20):
            assert (await sender.post(str(i), to=other.position)).ok
        await mesh.until(lambda: len(other.driver.router.gate.line) == 18)
        assert await other.take_all(20) == [str(i) for i in range(20)]
    assert other.statistics.lost == 0


@both_links
async def test_async_messages_beyond_the_bound_are_counted_and_logged(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, await mesh.proxy(0, mgr), inbox=1)
    kept = 1 + LINK_MESSAGES
    for i in range(kept + 4):
        assert (await mgr.post(str(i), to=worker.position)).ok
    await mesh.until(lambda: worker.statistics.lost == 4)
    await mesh.logged("messages_lost", node=worker.position, dst=worker.position, src=worker.position)
    assert await worker.take_all(kept) == [str(i) for i in range(kept)]


@both_links
async def test_sync_message_does_not_overtake_async_ones_before_a_full_inbox(mesh: Mesh) -> None:
    mgr, _, worker = await two_nodes(mesh, inbox=1)
    for i in range(3):
        assert (await mgr.post(str(i), to=worker.position)).ok
    await mesh.until(lambda: len(worker.driver.router.gate.line) == 2)
    assert (await mgr.send("3", to=worker.position)).code == Code.RECV_BUF_BUSY
    assert await worker.take_all(3) == ["0", "1", "2"]


async def test_sync_message_gets_the_place_that_becomes_free_while_it_waits(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, inbox=1)
    worker.wait_long_for_room()
    assert (await worker.send("0", to=worker.position)).ok
    send = asyncio.create_task(worker.send("1", to=worker.position))
    await mesh.until(lambda: worker.driver.router.gate.line)
    assert (await worker.take()).body == "0"
    assert (await soon(send)).ok
    assert (await worker.take()).body == "1"


@both_links
async def test_slow_child_delays_nobody_else(mesh: Mesh) -> None:
    """A child that reads nothing, with a full link: siblings, registrations and other acks go on."""
    mgr = await mesh.mgr(ack_timeout=1.5)
    proxy = await mesh.proxy(0, mgr, ack_timeout=1.5)
    brother = await mesh.worker(0, 1, proxy)
    async with RawChild("Worker/0/0") as stuck:
        stuck.reading.clear()
        await stuck.join(proxy.address or "")
        sends = [asyncio.create_task(mgr.send("x" * 1_000_000, to="Worker/0/0")) for _ in range(30)]
        await mesh.until(lambda: proxy.driver.router.statistics.forwarded >= 10)
        for _ in range(20):
            assert (await mgr.send("x", to=brother.position, timeout=1)).ok
            await brother.take()
        late = await mesh.worker(0, 2, proxy)
        assert (await late.send("x", to="Mgr", timeout=1)).ok
        acks = await soon(asyncio.gather(*sends))
        assert {ack.code for ack in acks} <= {Code.NETWORK_ACK_LOST, Code.RECV_BUF_BUSY}
        assert all(str(ack.src) in ("Worker/0/0", "Proxy/0", "Mgr/0") for ack in acks)
