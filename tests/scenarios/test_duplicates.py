"""A retry is detected after any traffic and over any way; a uuid belongs to its sender alone."""

from __future__ import annotations

import asyncio
from itertools import permutations

import pytest

from taskd_net import Code, Node
from taskd_net.core.uuids import split
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon
from tests.peers.original.cluster import Originals
from tests.peers.stubs import pb
from tests.scenarios.test_delivery import two_nodes

pytestmark = pytest.mark.timeout(180)

BEYOND = 4500
"""Messages: more than the remembered foreign uuids."""


async def keep_taking(node: Node, bodies: list[str]) -> None:
    """Empty an inbox, like an application."""
    async for message in node.messages():
        bodies += [message.body]


async def send_many(sender: WatchedNode, to: WatchedNode, count: int) -> None:
    """Send this many messages, some at a time, all delivered."""
    for at in range(0, count, 500):
        work = (sender.send(f"{at + i}", to=to.position, timeout=30.0) for i in range(min(500, count - at)))
        acks = await soon(asyncio.gather(*work), 30.0)
        assert {ack.code for ack in acks} == {0}


@pytest.mark.parametrize("whose", ["others", "the same sender's"])
@pytest.mark.parametrize("count", [BEYOND, pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
async def test_retry_is_known_after_thousands_of_other_messages(mesh: Mesh, count: int, whose: str) -> None:
    """The many take ten seconds and more, three times the usual time until a retry."""
    mgr, one, other = await two_nodes(mesh)
    bodies: list[str] = []
    taking = asyncio.create_task(keep_taking(mgr, bodies))
    first = await one.send("once", to=mgr.position)
    await send_many(other if whose == "others" else one, mgr, count)
    again = await one.send("once", to=mgr.position, uuid=first.uuid)
    assert first.ok and again.ok
    assert bodies.count("once") == 1
    assert mgr.statistics.duplicates == 1
    taking.cancel()


async def test_uuid_of_another_make_is_known_among_the_last_of_its_sender_whatever_others_send(mesh: Mesh) -> None:
    mgr, one, other = await two_nodes(mesh)
    bodies: list[str] = []
    taking = asyncio.create_task(keep_taking(mgr, bodies))
    for uuid in ("1", "2"):
        assert (await one.send(uuid, to=mgr.position, uuid=uuid)).ok
    await send_many(other, mgr, BEYOND)
    for uuid in ("1", "2"):
        assert (await one.send(uuid, to=mgr.position, uuid=uuid)).ok
    assert (bodies.count("1"), bodies.count("2"), mgr.statistics.duplicates) == (2, 2, 2)  # each once, and in the crowd
    taking.cancel()


@both_links
async def test_sender_that_was_started_again_repeats_no_uuid_and_may_send_a_stored_one(mesh: Mesh) -> None:
    """As a Manager that stores a command before sending it."""
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, await mesh.proxy(0, mgr))
    stored = await mgr.send("command", to=worker.position)
    address = mgr.address or ""
    await mgr.close()
    restarted = await mesh.mgr(address)
    await mesh.until(lambda: restarted.driver.router.routes.next_hop(worker.position) is not None)
    new = await restarted.send("new", to=worker.position)
    again = await restarted.send("command", to=worker.position, uuid=stored.uuid)
    assert stored.ok and new.ok and again.ok
    assert split(new.uuid) is not None and split(new.uuid) != split(stored.uuid)
    assert await worker.take_all(2) == ["command", "new"]
    assert (worker.waiting(), worker.statistics.duplicates) == (0, 1)


@both_links
async def test_retry_through_another_proxy_is_known(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxies = [await mesh.proxy(rank, mgr) for rank in range(2)]
    worker = await mesh.worker(0, 0, proxies[0])
    first = await worker.send("once", to=mgr.position)
    await worker.close()
    moved = await mesh.worker(0, 0, proxies[1])
    again = await moved.send("once", to=mgr.position, uuid=first.uuid)
    assert first.ok and again.ok
    assert (mgr.waiting(), mgr.statistics.duplicates) == (1, 1)


@pytest.mark.parametrize("order", ["ours first", "theirs first"])
async def test_retry_through_a_proxy_of_the_originals_is_known(mesh: Mesh, theirs: Originals, order: str) -> None:
    mgr = await mesh.mgr()
    ours, original = await mesh.proxy(0, mgr), await theirs.start("Proxy/1", mgr)
    parents = [ours.address or "", original.address]
    bodies: list[str] = []
    taking = asyncio.create_task(keep_taking(mgr, bodies))
    uuid: str | None = None
    for parent in parents if order == "ours first" else reversed(parents):
        worker = await mesh.worker(0, 0, parent)
        ack = await worker.send("once", to=mgr.position, uuid=uuid)
        assert ack.ok
        uuid = ack.uuid
        await worker.close()
    assert (bodies, mgr.statistics.duplicates) == (["once"], 1)
    taking.cancel()


@both_links
async def test_one_uuid_to_two_destinations_arrives_at_both(mesh: Mesh) -> None:
    mgr, one, other = await two_nodes(mesh)
    first = await mgr.send("x", to=one.position)
    assert (await mgr.send("x", to=other.position, uuid=first.uuid)).ok
    assert (await mgr.send("x", to="Worker/All/All", uuid=first.uuid)).ok
    assert (one.waiting(), other.waiting()) == (1, 1)
    assert (one.statistics.duplicates, other.statistics.duplicates) == (1, 1)


async def test_lists_that_all_differ_are_known(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    workers = [await mesh.worker(0, rank, proxy, inbox=512) for rank in range(4)]
    lists = [ranks for count in (2, 3, 4) for ranks in permutations("0123", count)]
    sent = [await mgr.send("x", to=f"Worker/0/{','.join(ranks)}") for ranks in lists]
    again = [
        await mgr.send("x", to=f"Worker/0/{','.join(ranks)}", uuid=ack.uuid)
        for ranks, ack in zip(lists, sent, strict=True)
    ]
    assert {ack.code for ack in (*sent, *again)} == {0}
    got = [(worker.waiting(), worker.statistics.duplicates) for worker in workers]
    assert got == [(each := sum(rank in ranks for ranks in lists), each) for rank in "0123"]


@both_links
async def test_senders_with_one_uuid_get_their_own_answers(mesh: Mesh) -> None:
    """At the same time, over the same links, to receivers with and without room."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    takes, full = await mesh.worker(0, 0, proxy, inbox=64), await mesh.worker(0, 1, proxy, inbox=1)
    assert (await mgr.send("fills it", to=full.position)).ok
    senders = [await mesh.worker(1, rank, mgr) for rank in range(2, 8)]
    for _ in range(5):
        to = [takes.position if rank % 2 else full.position for rank in range(len(senders))]
        uuid = "the same" + str(takes.waiting())
        work = (sender.send("x", to=dst, uuid=uuid, timeout=5.0) for sender, dst in zip(senders, to, strict=True))
        acks = await soon(asyncio.gather(*work))
        assert [(ack.code, ack.src) for ack in acks] == [
            (Code.OK if dst == takes.position else Code.RECV_BUF_BUSY, dst) for dst in to
        ]
    assert takes.waiting() == 15


@both_links
async def test_nobody_can_block_the_next_messages_of_a_sender_by_their_uuids(mesh: Mesh) -> None:
    """A Worker guesses the Mgr's next uuids, and puts them in flight."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    spy = await mesh.worker(0, 0, proxy)
    async with RawChild("Worker/0/1") as slow:
        slow.drop_acks = True
        await slow.join(proxy.address or "")
        assert (await mgr.send("x", to=spy.position)).ok
        seen = (await spy.take()).uuid
        flow, number = split(seen) or ("", 0)
        guessed = [f"{flow}-{number + more:x}-{seen[-16:]}" for more in range(60)]
        held = asyncio.gather(*(spy.send("y", to="Worker/0/1", uuid=uuid, timeout=8.0) for uuid in guessed))
        for _ in guessed:
            assert (await slow.take()).header.src.role == "Worker"
        sends = asyncio.gather(*(mgr.send("z", to="Worker/0/1", timeout=5.0) for _ in range(60)))
        answered = 0
        while answered < 60:
            message = await slow.take()
            if message.header.src.role == "Mgr":
                slow.write_on_stream(pb.Ack(uuid=message.header.uuid, src=message.header.dst))
                answered += 1
        assert {ack.code for ack in await soon(sends)} == {0}
        assert not held.done()
    # The child is gone, with every answer.
    assert {ack.code for ack in await soon(held)} == {Code.NETWORK_ACK_LOST}


@both_links
async def test_node_that_drains_knows_the_resend_of_what_is_in_its_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    first = await mgr.send("once", to=worker.position)
    # Keep a message under way, or the node would be gone.
    async with RawChild("Worker/0/1") as mute:
        mute.drop_acks = True
        await mute.join(proxy.address or "")
        under_way = asyncio.create_task(worker.send("x", to="Worker/0/1", timeout=8.0))
        message = await mute.take()
        draining = asyncio.create_task(worker.drain(8.0))
        await asyncio.sleep(0)
        assert not worker.driver.router.gate.open
        again = await mgr.send("once", to=worker.position, uuid=first.uuid)
        other = await mgr.send("another", to=worker.position)
        assert (again.code, other.code) == (Code.OK, Code.RECV_BUF_NIL)
        mute.write_on_stream(pb.Ack(uuid=message.header.uuid, src=message.header.dst))
        assert (await soon(under_way)).ok
        assert await soon(draining)
    assert await worker.take_all(1) == ["once"]
    assert worker.statistics.duplicates == 1
