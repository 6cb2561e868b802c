"""Nodes of ours below the original's: our answer to each of their habits (docs/interop.md)."""

import asyncio
import time
from uuid import uuid4

import grpc
import pytest

from taskd_net import Code, Position
from taskd_net.core.links import UP
from taskd_net.net.joining.channel import channel_options
from taskd_net.net.links.grpc_calls import unary_call
from taskd_net.net.links.tasknet import ToParent
from taskd_net.net.wire import codec, requests
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.peers.original.cluster import Originals, stands
from tests.peers.original.downstream import Downstream
from tests.peers.original.forms import Failed, parse, wire
from tests.peers.original.node import OriginalNode
from tests.peers.original.sizes import body_for
from tests.peers.stubs import name, pb
from tests.peers.wire import Wire
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)

MIB = 1024 * 1024


def below(node: OriginalNode) -> Downstream:
    assert node.down is not None
    return node.down


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_our_nodes_in_each_role(mesh: Mesh, theirs: Originals) -> None:
    """It confirms no stream, so no node waits for that; and it is not pinged."""
    mgr = await theirs.start("Mgr/0")
    began = time.monotonic()
    proxy = await mesh.proxy(0, mgr.address)
    agent = await mesh.agent(1, mgr.address)
    worker = await mesh.worker(0, 0, proxy)
    assert time.monotonic() - began < 2.0
    await asyncio.gather(*(stands(mgr, str(node.position)) for node in (proxy, agent)))
    for node in (proxy, agent, worker):
        assert (await mgr.send(str(node.position), "down")).code == 0
        assert (await node.take()).body == "down"
        assert (await mgr.send(str(node.position), "down", sync=False)).ok
        assert (await node.take()).sync is False
        ack = await node.send("up", to="Mgr")
        assert (ack.code, ack.src) == (0, Position.mgr())
        assert name((await mgr.take()).header.src) == str(node.position)
    assert (await worker.send("across", to=agent.position)).ok
    assert not below(mgr).shifted and not below(mgr).unread_acks
    assert proxy.driver.joiner is not None and proxy.driver.joiner._connector.pings is False
    assert {event["peer"] for event in mesh.events if event["event"] == "joined"} == {"original", "taskd_net"}


async def test_proxy_is_announced_without_leaves(mesh: Mesh, theirs: Originals) -> None:
    mgr = await theirs.start("Mgr/0")
    await mesh.proxy(0, mgr.address)
    assert below(mgr).announcements == [(parse("Proxy/0"), [parse("Proxy/0")])]
    assert (await mgr.send("Proxy/0", "x")).code == 0


async def test_nobody_registers_while_its_stream_stands(mesh: Mesh, theirs: Originals) -> None:
    """A second Register would end the stream, and block all others. After a loss the old stream ends first."""
    mgr = await theirs.start("Mgr/0")
    async with Wire(mgr.address) as wire_:
        proxy = await mesh.proxy(0, wire_.address)
        await mesh.worker(0, 0, proxy)
        for again in range(2, 5):
            wire_.cut()
            await mesh.logged("joined", node=proxy.position, times=again)
            await stands(mgr, "Proxy/0")
            assert (await mgr.send("Worker/0/0", "x")).code == 0
    assert below(mgr).took_over == 0


async def test_restart_that_loses_every_route(mesh: Mesh, theirs: Originals) -> None:
    """One registration, one stream, and one announcement with everything below us."""
    top = free_address()
    mgr = await theirs.start("Mgr/0", listen=top)
    proxy = await mesh.proxy(0, top)
    path = [f"Worker/1/{rank}" for rank in range(3000)]
    async with RawChild("Proxy/1") as child:
        await child.join(proxy.address or "")
        assert (await child.announce(*path)).code == 0
        worker = await mesh.worker(0, 5000, proxy)
        await mgr.kill()
        await mesh.logged("upstream_lost", node=proxy.position)
        again = await theirs.start("Mgr/0", listen=top)
        await mesh.logged("joined", node=proxy.position, times=2)
        assert [len(path) for _, path in below(again).announcements] == [3003]
        assert len(below(again).routes) == 3003
        await stands(again, "Proxy/0")
        assert (await again.send(str(worker.position), "x")).code == 0
        assert (await again.send("Worker/1/2999", "x")).code == 0


async def test_exactly_one_ack_for_each_message_in_order_and_in_time(mesh: Mesh, theirs: Originals) -> None:
    """It takes the next Ack as the answer to its last message, so late Acks of others must never reach it.

    Also from a Proxy with a longer timeout than its parent.
    """
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address, ack_timeout=8.0)
    well = await mesh.worker(0, 0, proxy, inbox=1000)
    mute = await theirs.start("Worker/0/1", proxy)
    mute.awake.clear()
    began = time.monotonic()
    lost = await mgr.send("Worker/0/1", "x")
    assert (lost.code, name(lost.ack.src)) == (Code.NETWORK_ACK_LOST, "Worker/0/1")
    assert 1.0 < time.monotonic() - began < 2.95
    # Its late Ack comes now, while others are answered.
    sends = [asyncio.create_task(mgr.send("Worker/0/0", str(i))) for i in range(50)]
    mute.awake.set()
    assert {answer.code for answer in await soon(asyncio.gather(*sends))} == {0}
    assert await well.take_all(50) == [str(i) for i in range(50)]
    assert not below(mgr).shifted and not below(mgr).unread_acks


@pytest.mark.parametrize("uuid", ["", "u"])
async def test_ack_for_a_message_that_is_refused(mesh: Mesh, theirs: Originals, uuid: str) -> None:
    """Also without a uuid, because a missing Ack costs every later message its answer."""
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address)
    header = pb.MessageHeader(uuid=uuid, sync=True, src=wire(mgr.me), dst=wire(("Worker", "x", "1")))
    ack = await below(mgr).send(parse("Proxy/0"), pb.Message(header=header))
    assert (ack.code, name(ack.src)) == (Code.DST_SRV_RANK_ILLEGAL, "Proxy/0")
    header.dst.CopyFrom(wire(parse("Proxy/0")))
    header.uuid = ""
    ack = await below(mgr).send(parse("Proxy/0"), pb.Message(header=header))
    assert ack.code == Code.CLIENT_ERR
    header.sync = False
    await below(mgr).send(parse("Proxy/0"), pb.Message(header=header))
    assert (await mgr.send("Proxy/0", "x")).code == 0
    assert (await proxy.take()).body == "x"
    assert not below(mgr).shifted and not below(mgr).unread_acks


async def test_ack_that_cannot_come_in_time_opens_the_stream_anew(mesh: Mesh, theirs: Originals) -> None:
    """After a standstill, the parent has given up, and would take the Ack for the next message's."""
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address)
    assert (await mgr.send("Proxy/0", "x")).code == 0
    session = proxy.driver.links[UP]
    assert isinstance(session, ToParent) and session._line is not None
    session._line.late = -1.0
    lost = asyncio.create_task(mgr.send("Proxy/0", "late"))
    await mesh.logged("ack_too_late", node=proxy.position)
    await mesh.logged("joined", node=proxy.position, times=2)
    await stands(mgr, "Proxy/0")
    assert (await mgr.send("Proxy/0", "y")).code == 0
    assert not below(mgr).shifted and not below(mgr).took_over
    lost.cancel()
    await asyncio.wait([lost])


@pytest.mark.both_loops
async def test_copies_of_a_broadcast_are_suppressed(mesh: Mesh, theirs: Originals) -> None:
    """One copy for each node behind the link; the nodes below us would take each."""
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address)
    ours = await mesh.worker(0, 0, proxy)
    others = [await theirs.start(f"Worker/0/{rank}", proxy) for rank in range(1, 4)]
    for body in ("one", "two"):
        answer = await mgr.send("Worker/All/All", body)
        assert answer.status is grpc.StatusCode.INTERNAL
    assert await ours.take_all(2) == ["one", "two"]
    for node in others:
        assert [(await node.take()).body for _ in range(2)] == ["one", "two"]
    assert (await mgr.send("Proxy/0", "x")).code == 0
    assert proxy.statistics.duplicates == 6
    assert not any(node.bodies() for node in others) and not ours.waiting()


@pytest.mark.both_loops
async def test_broadcast_that_goes_up(mesh: Mesh, theirs: Originals) -> None:
    """It is answered INTERNAL after delivery, and comes back to its source."""
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address)
    ours = [await mesh.worker(0, rank, proxy) for rank in range(3)]
    near = await theirs.start("Worker/0/9", proxy)
    far = await theirs.start("Worker/1/8", mgr)
    direct = await mesh.worker(1, 7, mgr.address)
    for body, sender in (("one", ours[0]), ("two", direct)):
        ack = await sender.send(body, to="Worker/All/All")
        assert (ack.code, ack.detail) == (0, "")
        for node in (near, far):
            assert (await node.take()).body == body
        for worker in {*ours, direct} - {sender}:
            assert (await worker.take()).body == body
    assert (await ours[1].post("three", to="Worker/All/All")).ok
    assert [(await node.take()).body for node in (near, far)] == ["three", "three"]
    # A message behind the last copies to each, so that all copies have come.
    for worker in (*ours, direct):
        assert (await proxy.send("last", to=worker.position)).ok
    assert (await mgr.send("Proxy/0", "x")).code == 0
    assert not near.bodies() and not far.bodies()
    assert [node.waiting() for node in (*ours, direct)] == [2, 1, 2, 2]
    assert not any(node.statistics.lost for node in (*ours, direct, proxy))


async def test_list_that_goes_up_is_expanded(mesh: Mesh, theirs: Originals) -> None:
    """They would look for a node with the list as its rank."""
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address)
    ours = [await mesh.worker(0, rank, proxy) for rank in range(2)]
    far = [await theirs.start(f"Worker/1/{rank}", mgr) for rank in (8, 9)]
    await mesh.proxy(2, mgr.address)
    # Its Proxy is known only with a leaf of it.
    await theirs.start("Worker/1/7", await theirs.start("Proxy/1", mgr))
    assert (await ours[0].send("x", to="Worker/1/8,9")).ok
    assert [(await node.take()).body for node in far] == ["x", "x"]
    assert (await ours[0].send("y", to="Proxy/0,1,2")).ok
    assert (await proxy.take()).body == "y"
    missing = await ours[0].send("z", to="Worker/1/8,77")
    assert missing.code == Code.NO_ROUTE
    assert (await far[0].take()).body == "z"
    # The nodes of these ranks are unknown here: one broadcast for each, without an answer.
    for to, got in (("Worker/All/1,8", {8}), ("Worker/0,1/All", {8, 9}), ("Worker/All/1,77", set[int]())):
        assert (await ours[0].send(to, to=to)).ok
        assert (await ours[1].take()).body == to
        assert (await mgr.send("Proxy/0", "x")).code == 0
        assert [node.bodies() for node in far] == [[to] if rank in got else [] for rank in (8, 9)]
    assert not ours[0].waiting() and not ours[1].waiting()
    # Only the root knows the existing pairs of two lists, and theirs does not read lists.
    assert (await ours[0].send("z", to="Worker/1,2/8,9")).code == Code.NO_ROUTE


async def test_proxy_of_theirs_sends_nothing_up_but_to_the_mgr(mesh: Mesh, theirs: Originals) -> None:
    """By their design, a Worker below it reaches its own node and the Mgr alone."""
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    worker = await mesh.worker(0, 0, proxy.address)
    agent = await theirs.start("Agent/0", proxy)
    other = await mesh.worker(1, 1, mgr)
    assert (await worker.send("x", to="Mgr")).ok
    assert (await worker.send("x", to=agent.position)).ok
    assert (await worker.send("x", to=proxy.position)).ok
    assert (await worker.send("x", to=other.position)).code == Code.NO_ROUTE
    assert (await other.send("x", to=worker.position)).ok


async def test_broadcast_through_a_proxy_of_theirs_with_proxies_of_ours_below(mesh: Mesh, theirs: Originals) -> None:
    """Its answer is the same with and without receivers: no delivered broadcast is answered 5002."""
    mgr = await mesh.mgr()
    top = await theirs.start("Proxy/0", mgr)
    proxies = [await mesh.proxy(rank, top.address) for rank in (1, 2)]
    first, second = [await mesh.worker(1, rank, proxies[0]) for rank in (10, 11)]
    third, fourth = [await mesh.worker(2, rank, proxies[1]) for rank in (20, 21)]
    workers = (first, second, third, fourth)
    guest = await mesh.worker(3, 30, top.address)
    leaf = await mesh.worker(0, 0, top.address)
    everybody = [*workers, guest, leaf]
    for sender, to, receivers, code in (
        (third, "Worker/1/All", {first, second}, 0),
        (first, "Worker/1/All", {second}, 0),
        (proxies[1], "Worker/1/All", {first, second}, 0),
        (leaf, "Worker/1/All", {first, second}, 6001),
        (leaf, "Worker/7/All", set[WatchedNode](), 6001),
        (guest, "Worker/0/All", {leaf}, 0),
        (third, "Worker/0/All", {leaf}, 0),
        (third, "Worker/1,2/All", {first, second, fourth}, 0),
        (leaf, "Worker/All/All", {*workers, guest}, 0),
        (third, "Mgr/All", set[WatchedNode](), 5002),
    ):
        ack = await sender.send(f"{sender.position} {to}", to=to)
        assert ack.code == code, (sender.position, to, ack)
        for node in receivers:
            assert (await node.take()).body == f"{sender.position} {to}"
        for node in everybody:  # a message behind the last copies to each
            assert (await mgr.send("last", to=node.position)).ok
            assert (await node.take()).body == "last", (sender.position, to, node.position)


async def test_answer_is_a_status_or_an_ack(mesh: Mesh, theirs: Originals) -> None:
    """An Ack from further away comes with status OK and its own code."""
    mgr = await theirs.start("Mgr/0")
    proxies = [await mesh.proxy(rank, mgr.address) for rank in range(2)]
    sender = await mesh.worker(0, 0, proxies[0])
    full = await mesh.worker(1, 1, proxies[1], inbox=1)
    assert (await full.send("fills it", to=full.position)).ok
    by_ack = await sender.send("x", to=full.position)
    assert (by_ack.code, by_ack.src) == (Code.RECV_BUF_BUSY, full.position)
    by_status = await sender.send("x", to="Worker/7/7")
    assert by_status.code == Code.NO_ROUTE
    mgr.room = 0
    assert (await sender.send("x", to="Mgr")).code == Code.RECV_BUF_BUSY


async def test_codes_of_ours_behind_a_proxy_of_theirs(mesh: Mesh, theirs: Originals) -> None:
    """Our Mgr answers it by status, and a Worker of ours reads the same code from it."""
    mgr = await mesh.mgr(inbox=0)
    proxy = await theirs.start("Proxy/0", mgr)
    worker = await mesh.worker(0, 0, proxy.address)
    assert (await worker.send("x", to="Mgr")).code == Code.RECV_BUF_NIL


async def test_unavailable_as_an_answer_is_not_the_loss_of_the_upstream(mesh: Mesh, theirs: Originals) -> None:
    mgr = await theirs.start("Mgr/0")
    worker = await mesh.worker(0, 0, mgr.address)

    async def gone(message: object) -> object:
        raise Failed("error reading from server: EOF", grpc.StatusCode.UNAVAILABLE)

    take, below(mgr)._take = below(mgr)._take, gone
    assert (await worker.send("x", to="Mgr")).code == Code.NETWORK_ACK_LOST
    below(mgr)._take = take
    assert (await worker.send("x", to="Mgr")).ok
    assert mesh.count("upstream_lost") == 0
    # Otherwise 6001, because the delivery is unknown.
    mgr.awake.clear()
    send = asyncio.create_task(worker.send("x", to="Mgr"))
    await asyncio.sleep(0.1)
    await mgr.kill()
    assert (await soon(send)).code == Code.NETWORK_ACK_LOST


@pytest.mark.parametrize("top", ["Mgr/0", "Proxy/0"])
async def test_size_limit_upwards(mesh: Mesh, theirs: Originals, top: str) -> None:
    """The contract's limit: refused at the sender, before the parent."""
    mgr = await mesh.mgr() if top == "Proxy/0" else None
    parent = await theirs.start(top, mgr)
    worker = await mesh.worker(0, 0, parent.address)
    at = 8 * MIB
    for size, code in ((at - 1, 0), (at, 0), (at + 1, Code.CLIENT_ERR)):
        body = body_for(size, worker.position, parent.position)
        ack = await worker.send(body, to=parent.position, uuid=str(uuid4()))
        assert ack.code == code
    assert mesh.count("upstream_lost") == 0


async def test_parent_that_ends_the_stream_over_a_size(mesh: Mesh, theirs: Originals) -> None:
    mgr = await theirs.start("Mgr/0")
    worker = await mesh.worker(0, 0, mgr.address)
    src, at = mgr.position, 8 * MIB
    for size, code in ((at - 1, 0), (at, 0), (at + 1, 6999)):
        answer = await mgr.send("Worker/0/0", body_for(size, src, "Worker/0/0", theirs=True), uuid="u" * 36)
        assert answer.code == code
        await worker.take() if size < at else None
    await mesh.logged("joined", node=worker.position, times=2)
    await stands(mgr, "Worker/0/0")
    assert (await mgr.send("Worker/0/0", "x")).code == 0


@pytest.mark.parametrize("text", ["un registry error", "EOF"])
async def test_registration_that_the_parent_has_lost(mesh: Mesh, theirs: Originals, text: str) -> None:
    mgr = await theirs.start("Mgr/0")
    worker = await mesh.worker(0, 0, mgr.address)
    child = parse("Worker/0/0")
    below(mgr).registered.clear()
    below(mgr).routes.clear()
    below(mgr).streams[child].end(text)
    await mesh.logged("joined", node=worker.position, times=2)
    await stands(mgr, "Worker/0/0")
    assert (await mgr.send("Worker/0/0", "x")).code == 0


async def test_child_whose_stream_was_replaced_waits(mesh: Mesh, theirs: Originals) -> None:
    mesh.expected_errors.add("position_taken")
    mesh.let(position_taken=0.5)
    mgr = await theirs.start("Mgr/0")
    worker = await mesh.worker(0, 0, mgr.address)
    below(mgr).streams[parse("Worker/0/0")].end("entry context done")
    began = time.monotonic()
    await mesh.logged("joined", node=worker.position, times=2)
    assert time.monotonic() - began >= 0.5
    assert mesh.count("position_taken") == 1


async def test_parent_is_never_pinged(mesh: Mesh, theirs: Originals) -> None:
    """It cuts off a child with more than one ping in five minutes, here in the second second."""
    mesh.let(keepalive=0.4)
    mgr = await theirs.start("Mgr/0")
    proxy = await mesh.proxy(0, mgr.address)
    await stands(mgr, "Proxy/0")
    await asyncio.sleep(4.0)  # not to wait for something, but for nothing to happen
    assert mesh.count("upstream_lost") == 0
    assert (await mgr.send(str(proxy.position), "x")).code == 0


async def test_nothing_is_compressed(theirs: Originals) -> None:
    """It answers compressed calls with UNIMPLEMENTED, so an application's environment must not enable compression."""
    mgr = await theirs.start("Mgr/0")
    request = requests.write_register("u", Position.proxy(0))
    async with grpc.aio.insecure_channel(mgr.address, compression=grpc.Compression.Gzip) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="UNIMPLEMENTED"):
            await unary_call(channel, "Register")(request, timeout=5.0)
    async with grpc.aio.insecure_channel(mgr.address, options=channel_options(pings=False)) as channel:
        assert codec.read_ack(await unary_call(channel, "Register")(request, timeout=5.0), Position.mgr()).ok
