"""One node's life: starting, closing with things under way, receiving, and what is refused before and after."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import grpc
import pytest

from taskd_net import Ack, Code, MeshError, Message, NetworkError, Node, NodeClosed, NodeConfig, Position
from taskd_net.core.frame import Frame
from taskd_net.wire.codec import write_message
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, free_address, soon
from tests.peers.parent import RawParent

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


# ---- starting


async def test_node_is_started_once(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    with pytest.raises(RuntimeError, match="started once"):
        await mgr.start()
    await mgr.close()
    with pytest.raises(RuntimeError, match="started once"):
        await mgr.start()


async def test_node_that_was_never_started() -> None:
    node = Node(NodeConfig.worker(server_rank=0, rank=0))
    assert (node.address, node.routes(), node.statistics.sent) == (None, {}, 0)
    ack = await node.send("x", to="Mgr")
    assert (ack.code, ack.detail) == (Code.CLIENT_ERR, "the node was not started")
    with pytest.raises(RuntimeError, match="not started"):
        await node.joined(0.01)
    receiving = asyncio.create_task(node.receive())
    await asyncio.sleep(0)
    await soon(node.close())
    with pytest.raises(NodeClosed):
        await soon(receiving)
    with pytest.raises(RuntimeError, match="started once"):
        await node.start()


async def test_starting_that_is_cancelled_leaves_nothing_open() -> None:
    node = Node(NodeConfig.mgr(listen="127.0.0.1:0"))
    starting = asyncio.create_task(node.start())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.wait([starting])
    await soon(node.close())


@pytest.mark.compat
@pytest.mark.both_loops
async def test_joined_says_what_the_trouble_is(mesh: Mesh) -> None:
    nowhere = await free_address()
    worker = await mesh.worker(0, 3, nowhere, join=False)
    await mesh.logged("join_failed", node=worker.position)
    text = f"^Worker/0/3 has not joined {nowhere} within 0.01 s: Register: UNAVAILABLE"
    with pytest.raises(TimeoutError, match=text):
        await worker.joined(0.01)
    mgr = await mesh.mgr(nowhere)
    await soon(worker.joined())
    await mgr.joined(0.0)


# ---- closing


@pytest.mark.compat
@pytest.mark.both_loops
@both_links
async def test_parent_and_children_see_it_at_once(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    before = asyncio.get_running_loop().time()
    await soon(proxy.close())
    await mesh.logged("child_lost", node=mgr.position, child=proxy.position)
    await mesh.logged("upstream_lost", node=worker.position)
    assert asyncio.get_running_loop().time() - before < 1.0, "neither by a ping nor by the end of the grace time"
    assert (await mgr.send("x", to=worker.position)).code == Code.NET_STREAM_NOT_INITED


@pytest.mark.compat
@pytest.mark.both_loops
@both_links
async def test_closing_ends_every_task_and_socket(mesh: Mesh) -> None:
    """At once, not some time later: what is left then is left for good."""
    tasks = asyncio.all_tasks()
    mgr = await mesh.mgr()
    address = mgr.address or ""
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    for _ in range(20):
        assert (await worker.send("x", to="Mgr")).ok
    sends = [asyncio.create_task(node.send("x", to="Worker/0/9")) for node in (mgr, proxy, worker)]
    for node in (worker, proxy, mgr):
        await soon(node.close())
    await asyncio.wait(sends)
    for _ in range(3):
        await asyncio.sleep(0)  # what was cancelled gets its turn
    assert asyncio.all_tasks() == tasks
    await (await mesh.mgr(address)).close()


@pytest.mark.compat
@pytest.mark.both_loops
@both_links
async def test_every_pending_send_gets_a_code(mesh: Mesh) -> None:
    """Upwards, downwards, across, to itself, held before the join: nobody waits for a node that has closed."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr, inbox=1)
    async with RawChild("Worker/0/0") as mute, RawChild("Worker/9/9") as far:
        mute.drop_acks = far.drop_acks = True
        await mute.join(proxy.address or "")
        await far.join(mgr.address or "")
        assert (await proxy.send("fills the inbox", to=proxy.position)).ok
        down = asyncio.create_task(proxy.send("x", to="Worker/0/0", timeout=60))
        up = asyncio.create_task(proxy.send("x", to="Worker/9/9", timeout=60))
        many = asyncio.create_task(proxy.send("x", to="Worker/All/All", timeout=60))
        relayed = asyncio.create_task(mgr.send("x", to="Worker/0/0", timeout=60))
        for leaf in (mute, mute, mute, far, far):
            await leaf.take()
        await soon(proxy.close())
        for send, src in ((down, "Worker/0/0"), (up, "Mgr/0"), (many, "Worker/0/0")):
            assert send.done()
            ack = send.result()
            assert (ack.code, str(ack.src)) == (Code.NETWORK_ACK_LOST, src)
        ack = await soon(relayed)
        assert (ack.code, ack.src) in {
            (Code.NETWORK_ACK_LOST, Position.worker(0, 0)),
            (Code.NETWORK_ACK_LOST, proxy.position),
        }
    held = await mesh.worker(1, 1, await free_address(), join=False)
    sends = [asyncio.create_task(send("x", to="Mgr", timeout=60)) for send in (held.send, held.post)]
    await asyncio.sleep(0)
    await soon(held.close())
    for send in sends:
        assert send.done()
        assert (send.result().code, send.result().src) == (Code.NET_STREAM_NOT_INITED, held.position)


@pytest.mark.compat
@pytest.mark.both_loops
@both_links
async def test_what_was_acknowledged_can_be_received_afterwards(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for i in range(5):
        assert (await mgr.send(str(i), to=worker.position)).ok
    await soon(worker.close())
    assert [message.body async for message in worker.messages()] == ["0", "1", "2", "3", "4"]
    with pytest.raises(NodeClosed, match="Worker/0/0 is closed"):
        await worker.receive()


@both_links
async def test_closing_in_the_middle_of_traffic_loses_no_acknowledged_message(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    for rank in range(10):
        worker = await mesh.worker(0, rank, mgr, inbox=4096)
        sends = [asyncio.create_task(mgr.send(str(i), to=worker.position)) for i in range(200)]
        await mesh.until(lambda worker=worker: worker.waiting() > 3)  # type: ignore[misc]
        await soon(worker.close())
        acks = await soon(asyncio.gather(*sends))
        received = {message.body async for message in worker.messages()}
        assert {str(i) for i, ack in enumerate(acks) if ack.ok} <= received
        assert {ack.code for ack in acks} <= {0, 5000, 6000, 6001, 6002}


async def test_closing_twice_is_closing_once(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await soon(asyncio.gather(proxy.close(), proxy.close()))
    await soon(proxy.close())
    assert mesh.count("closed", node=proxy.position) == 1


async def test_second_close_waits_for_the_first(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    address = mgr.address or ""
    await mesh.worker(0, 0, mgr)
    first = asyncio.create_task(mgr.close())
    await asyncio.sleep(0)
    await soon(mgr.close())
    assert first.done()
    await (await mesh.mgr(address)).close()


async def test_close_that_is_cancelled_goes_on(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    closing = asyncio.create_task(mgr.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    await mesh.logged("closed", node=mgr.position)


async def test_closing_wakes_whoever_waits(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, await free_address(), join=False)
    calls: list[Any] = [worker.joined(), worker.receive(), worker.receive()]
    waiting = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    await soon(worker.close())
    for task in waiting:
        with pytest.raises(NodeClosed):
            await soon(task)
    with pytest.raises(NodeClosed):
        await worker.joined(1)


@pytest.mark.compat
@both_links
async def test_closing_beside_a_child_that_reads_nothing(mesh: Mesh) -> None:
    """A write that cannot end does not keep the node open for longer than its grace time."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as stuck:
        stuck.reading.clear()
        await stuck.join(mgr.address or "")
        sends = [asyncio.create_task(mgr.send("x" * 1_000_000, to="Worker/0/0", timeout=60)) for _ in range(12)]
        await mesh.until(lambda: mgr.router.statistics.forwarded == 12)
        before = asyncio.get_running_loop().time()
        await soon(mgr.close())
        assert asyncio.get_running_loop().time() - before < 5
        assert all(send.done() for send in sends)
        assert {send.result().code for send in sends} <= {Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST}
        stuck.reading.set()
        # Which of them, is up to gRPC: the stream is cut in the middle of a message, and that has no one name.
        cut = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL)
        assert await stuck.ended() in cut


async def test_closing_beside_a_parent_that_reads_nothing(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        parent.hold["TransferMessage"] = asyncio.Event()
        sends = [asyncio.create_task(worker.send("x", to="Mgr", timeout=60)) for _ in range(5)]
        await parent.requested("TransferMessage")
        await soon(worker.close())
        assert {send.result().code for send in sends} == {Code.NETWORK_ACK_LOST}


@pytest.mark.parametrize("turns", range(12))
@both_links
async def test_closing_at_any_moment_of_joining(mesh: Mesh, turns: int) -> None:
    """One turn of the loop after the other: nothing is left open and nothing is logged as a fault."""
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, join=False)
    for _ in range(turns * turns):
        await asyncio.sleep(0)
    await soon(worker.close())
    assert (await mgr.send("x", to="Mgr")).ok


@pytest.mark.compat
@pytest.mark.both_loops
async def test_many_nodes_come_and_go(mesh: Mesh) -> None:
    """What a child leaves behind at its parent is bounded by what the registry holds."""
    mgr = await mesh.mgr(grace=0.1)
    for i in range(30):
        worker = await mesh.worker(0, i % 3, mgr)
        assert (await worker.send("x", to="Mgr")).ok
        await mgr.take()
        await worker.close()
    await mesh.until(lambda: len(mgr.router.children) == 0)
    assert not mgr.routes()
    assert not mgr.links


async def test_child_that_reconnects_for_ever_costs_no_memory(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        for _ in range(30):
            await child.join(mgr.address or "")
            await child.cut()
        await child.join(mgr.address or "")
        assert mgr._server is not None
        assert len(mgr._server._connections) <= 2


# ---- sending and receiving


@pytest.mark.compat
@pytest.mark.both_loops
async def test_receiving_that_is_cancelled_loses_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, inbox=4096)
    received: list[str] = []

    async def read_impatiently() -> None:
        for attempt in count():
            if len(received) == 200:
                return
            task = asyncio.create_task(worker.receive())
            for _ in range(attempt % 4):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task])
            received.extend(task.result().body for task in done if not task.cancelled())

    reading = asyncio.create_task(read_impatiently())
    for i in range(200):
        assert (await mgr.send(str(i), to=worker.position)).ok
    await soon(reading)
    assert received == [str(i) for i in range(200)]


async def test_cancelled_receive_leaves_nothing_behind(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    receiving = [asyncio.create_task(mgr.receive()) for _ in range(100)]
    await asyncio.sleep(0)  # each begins
    assert len(mgr._arrivals.readers) == 100
    for task in receiving:
        task.cancel()
    await asyncio.wait(receiving)
    assert mgr._arrivals.readers == []
    assert (await mgr.send("x", to="Mgr")).ok
    assert (await mgr.take()).body == "x"


async def test_failures_to_join_are_counted_one_after_another(mesh: Mesh) -> None:
    """The pause grows with them."""
    worker = await mesh.worker(0, 3, await free_address(), join=False)
    counted: asyncio.Queue[int] = asyncio.Queue()

    class Counting:
        maximum = 0.01

        def pause(self, failures: int) -> float:
            counted.put_nowait(failures)
            return 0.001

    assert worker._joiner is not None
    worker._joiner._backoff = Counting()  # type: ignore[assignment]
    first = await soon(counted.get())
    assert [await soon(counted.get()) for _ in range(3)] == [first + 1, first + 2, first + 3]


async def test_two_receivers_share_the_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    both = [asyncio.create_task(worker.receive()) for _ in range(2)]
    await asyncio.sleep(0)
    for body in ("a", "b"):
        assert (await mgr.send(body, to=worker.position)).ok
    assert sorted(message.body for message in await soon(asyncio.gather(*both))) == ["a", "b"]


async def test_sending_that_is_cancelled_disturbs_nobody(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for _ in range(20):
        send = asyncio.create_task(worker.send("x", to="Mgr"))
        await asyncio.sleep(0)
        send.cancel()
        await asyncio.wait([send])
    assert (await worker.send("last", to="Mgr")).ok
    bodies = await mgr.take_all(mgr.waiting())
    assert bodies[-1] == "last"


async def test_raise_for_code(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, await free_address(), join=False)
    ack = await worker.send("x", to="Mgr", timeout=0.01)
    with pytest.raises(NetworkError, match="6002 NET_STREAM_NOT_INITED") as error:
        ack.raise_for_code()
    assert (error.value.code, error.value.src, error.value.uuid) == (6002, worker.position, ack.uuid)
    assert isinstance(error.value, MeshError)


async def test_statistics_count(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    for _ in range(3):
        assert (await worker.send("x", to="Mgr", uuid="one")).ok
    assert (worker.statistics.sent, worker.statistics.forwarded) == (3, 3)
    assert (proxy.statistics.sent, proxy.statistics.forwarded, proxy.statistics.delivered) == (0, 3, 0)
    assert (mgr.statistics.delivered, mgr.statistics.duplicates) == (1, 2)


async def test_message_that_nobody_on_the_way_looked_into_harms_nobody(mesh: Mesh) -> None:
    """The receiver is the first to read a body on the batched link; it drops what it cannot read, and goes on."""
    mesh.expected_errors.add("message_unreadable")
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    good = write_message(Message("u-1", "", True, worker.position, Position.mgr(), 0, "x"))
    answers: list[Ack] = []
    bad = Frame("u-1", True, worker.position, good.dst, good.data[:-1] + b"\xff")
    worker.perform(worker.router.send(worker.now(), bad, answers.append, 1.0))
    assert (await worker.send("readable", to="Mgr")).ok
    assert (await mgr.take()).body == "readable"
    assert [ack.uuid for ack in answers] == ["u-1"]
    assert mesh.count("message_unreadable", uuid="u-1") == 1
