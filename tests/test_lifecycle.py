"""The life of a node: starting, joining, draining, withdrawing and closing with messages under way."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from taskd_net import Code, Node, NodeClosed, NodeConfig, Position
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, soon
from tests.peers.parent import RawParent
from tests.peers.slow import SlowChild
from tests.ports import free_address, free_port

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


@pytest.mark.oldest
@both_links
async def test_draining_proxy_waits_for_the_answer_under_way_and_takes_on_nothing_new(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    async with SlowChild("Worker/0/0") as slow, RawChild("Worker/0/1") as late:
        await slow.join(proxy.address or "")
        sending = asyncio.create_task(mgr.send("slow", to="Worker/0/0", timeout=20.0))
        await soon(slow.asked.wait())
        draining = asyncio.create_task(proxy.drain(20.0))
        await asyncio.sleep(0)  # it begins
        assert not proxy.driver.router.gate.open

        assert (await mgr.send("x", to="Proxy/0")).code == Code.RECV_BUF_NIL
        assert (await mgr.send("x", to="Worker/0/0")).code == Code.RECV_BUF_BUSY
        assert (await proxy.send("x", to="Mgr")).code == Code.RECV_BUF_BUSY
        late.connect(proxy.address or "")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await late.call("Register", b"")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not draining.done() and not sending.done()

        slow.answers.set()
        assert (await soon(sending)).ok
        assert await soon(draining)
        assert await slow.ended() is grpc.StatusCode.UNAVAILABLE
    assert (await mgr.send("x", to="Worker/0/0")).code == Code.NET_STREAM_NOT_INITED


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_draining_proxy_takes_in_the_calls_that_had_arrived(mesh: Mesh) -> None:
    """gRPC hands them over one by one, and cancels those that it has not when its server stops."""
    mgr = await mesh.mgr(inbox=1000)
    proxy = await mesh.proxy(0, mgr, inbox=1000)
    async with RawChild("Worker/0/0") as child:
        await child.join(proxy.address or "")
        sending = [asyncio.ensure_future(child.send(to)) for to in ("Mgr/0", "Proxy/0") for _ in range(100)]
        for _ in range(3):  # they are written, and the first ones have been handed over at most
            await asyncio.sleep(0)
        assert await soon(proxy.drain(20.0))
        assert {ack.code for ack in await soon(asyncio.gather(*sending))} == {Code.OK}
    assert (mgr.waiting(), proxy.waiting()) == (100, 100)


@pytest.mark.oldest
async def test_draining_proxy_answers_new_calls_by_their_code(mesh: Mesh) -> None:
    """Over the four calls, too. A sender without pauses counts as in time only so long, and keeps nobody."""
    mgr = await mesh.mgr(inbox=10_000, ack_timeout=60.0)
    proxy = await mesh.proxy(0, mgr, inbox=10_000, ack_timeout=60.0)  # longer than the drain
    async with SlowChild("Worker/0/0") as slow, RawChild("Worker/0/1") as child:
        await slow.join(proxy.address or "")
        await child.join(proxy.address or "")
        sending = asyncio.create_task(mgr.send("slow", to="Worker/0/0", timeout=60.0))
        await soon(slow.asked.wait())
        draining = asyncio.create_task(proxy.drain(20.0))

        async def refused(to: str) -> int:
            while (code := int((await child.send(to)).code)) == Code.OK:
                pass
            return code

        # The Proxy takes calls in for half of its time at most.
        assert await soon(refused("Proxy/0"), 30.0) == Code.RECV_BUF_NIL
        assert await soon(refused("Mgr/0"), 30.0) == Code.RECV_BUF_BUSY
        assert not draining.done() and not sending.done()

        slow.answers.set()
        assert (await soon(sending)).ok
        codes = set()
        with contextlib.suppress(grpc.aio.AioRpcError):  # until the Proxy has left
            while True:
                codes.add((await child.send("Mgr/0")).code)
        assert codes <= {Code.RECV_BUF_BUSY, Code.NETWORK_ACK_LOST, Code.NET_STREAM_NOT_INITED}
        assert await soon(draining)


@pytest.mark.oldest
@both_links
async def test_draining_proxy_delivers_what_was_only_posted(mesh: Mesh) -> None:
    mgr = await mesh.mgr(inbox=100)
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    posts = [worker.post(str(number), to="Mgr") for number in range(100)]
    assert all([(await post).ok for post in posts])
    assert await soon(proxy.drain(20.0))
    assert await mgr.take_all(100) == [str(number) for number in range(100)]


@pytest.mark.oldest
async def test_draining_is_bounded_and_gives_every_sender_a_code(mesh: Mesh) -> None:
    mgr = await mesh.mgr(ack_timeout=60.0)
    proxy = await mesh.proxy(0, mgr, ack_timeout=60.0)
    async with SlowChild("Worker/0/0") as mute:
        await mute.join(proxy.address or "")
        sending = asyncio.create_task(mgr.send("x", to="Worker/0/0", timeout=60.0))
        await soon(mute.asked.wait())
        began = time.monotonic()
        assert not await proxy.drain(0.2)
        assert 0.2 <= time.monotonic() - began < 5.0
        ack = await soon(sending)
        assert ack.code == Code.NETWORK_ACK_LOST


@pytest.mark.oldest
async def test_idle_node_drains_at_once_and_its_inbox_can_be_received(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert (await mgr.send("last", to="Worker/0/0")).ok
    assert await soon(worker.drain(20.0))
    assert [message.body async for message in worker.messages()] == ["last"]
    assert await soon(worker.drain(20.0))
    assert await soon(mgr.drain(20.0))


@pytest.mark.oldest
async def test_node_that_was_never_started_can_be_drained() -> None:
    node = Node(NodeConfig.worker(server_rank=0, rank=0))
    assert await soon(node.drain(20.0))
    assert not await node.withdraw(1.0)


@pytest.mark.oldest
async def test_withdrawn_node_costs_no_broadcast_anything(mesh: Mesh) -> None:
    """Without it, its parent would answer 6002 to every broadcast to Workers for the grace time."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, proxy)
    leaving = await mesh.worker(0, 1, proxy)
    assert await leaving.withdraw(10.0)
    await mesh.until(lambda: Position.worker(0, 1) not in mgr.routes())
    await leaving.close()
    assert (await mgr.send("x", to="Worker/All/All")).ok
    assert (await mgr.send("x", to="Worker/0/1")).code == Code.NO_ROUTE


@pytest.mark.oldest
async def test_node_that_has_not_joined_has_nobody_to_tell(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, free_address(), join=False)
    await mesh.logged("join_failed")
    assert not await worker.withdraw(10.0)


@pytest.mark.oldest
async def test_closed_inbox_answers_5000_and_keeps_what_is_in_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert (await mgr.send("first", to="Worker/0/0")).ok
    worker.close_inbox()
    assert (await mgr.send("second", to="Worker/0/0")).code == Code.RECV_BUF_NIL
    assert (await worker.take()).body == "first"


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


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_joined_says_what_the_trouble_is(mesh: Mesh) -> None:
    nowhere = free_address()
    worker = await mesh.worker(0, 3, nowhere, join=False)
    await mesh.logged("join_failed", node=worker.position)
    text = f"^Worker/0/3 has not joined {nowhere} within 0.01 s: Register: nobody listens at {nowhere}"
    with pytest.raises(TimeoutError, match=text):
        await worker.joined(0.01)
    mgr = await mesh.mgr(nowhere)
    await soon(worker.joined())
    await mgr.joined(0.0)


@pytest.mark.oldest
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


@pytest.mark.oldest
@pytest.mark.both_loops
@both_links
async def test_closing_ends_every_task_and_socket(mesh: Mesh) -> None:
    """At once, not some time later: what is left then is left for good."""
    tasks = asyncio.all_tasks()
    address = f"127.0.0.1:{free_port()}"  # no connection of others takes it before the end
    mgr = await mesh.mgr(address)
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


@pytest.mark.oldest
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
    held = await mesh.worker(1, 1, free_address(), join=False)
    sends = [asyncio.create_task(send("x", to="Mgr", timeout=60)) for send in (held.send, held.post)]
    await asyncio.sleep(0)
    await soon(held.close())
    for send in sends:
        assert send.done()
        assert (send.result().code, send.result().src) == (Code.NET_STREAM_NOT_INITED, held.position)


@pytest.mark.oldest
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
    worker = await mesh.worker(0, 0, free_address(), join=False)
    calls: list[Any] = [worker.joined(), worker.receive(), worker.receive()]
    waiting = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0)
    await soon(worker.close())
    for task in waiting:
        with pytest.raises(NodeClosed):
            await soon(task)
    with pytest.raises(NodeClosed):
        await worker.joined(1)


# Not with the oldest gRPC: of a stream cut in the middle of a message it now and then leaves its own task behind.
@both_links
async def test_closing_beside_a_child_that_reads_nothing(mesh: Mesh) -> None:
    """A write that cannot end does not keep the node open for longer than its grace time."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as stuck:
        stuck.reading.clear()
        await stuck.join(mgr.address or "")
        sends = [asyncio.create_task(mgr.send("x" * 1_000_000, to="Worker/0/0", timeout=60)) for _ in range(12)]
        await mesh.until(lambda: mgr.driver.router.statistics.forwarded == 12)
        before = asyncio.get_running_loop().time()
        await soon(mgr.close())
        assert asyncio.get_running_loop().time() - before < 5
        assert all(send.done() for send in sends)
        assert {send.result().code for send in sends} <= {Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST}
        stuck.reading.set()
        # gRPC has no single status for a stream that is cut in the middle of a message.
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


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_many_nodes_come_and_go(mesh: Mesh) -> None:
    """The traces of a child at its parent are bounded by the registry."""
    mgr = await mesh.mgr(grace=0.1)
    for i in range(30):
        worker = await mesh.worker(0, i % 3, mgr)
        assert (await worker.send("x", to="Mgr")).ok
        await mgr.take()
        await worker.close()
    await mesh.until(lambda: len(mgr.driver.router.children) == 0)
    assert not mgr.routes()
    assert not mgr.driver.links


async def test_child_that_reconnects_for_ever_costs_no_memory(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        for _ in range(30):
            await child.join(mgr.address or "")
            await child.cut()
        await child.join(mgr.address or "")
        assert mgr.driver.server is not None
        assert len(mgr.driver.server.connections) <= 2


async def test_failures_to_join_are_counted_one_after_another(mesh: Mesh) -> None:
    """The pause grows with them."""
    worker = await mesh.worker(0, 3, free_address(), join=False)
    counted: asyncio.Queue[int] = asyncio.Queue()

    class Counting:
        maximum = 0.01

        def pause(self, failures: int) -> float:
            counted.put_nowait(failures)
            return 0.001

    assert worker.driver.joiner is not None
    worker.driver.joiner._backoff = Counting()  # type: ignore[assignment]
    first = await soon(counted.get())
    assert [await soon(counted.get()) for _ in range(3)] == [first + 1, first + 2, first + 3]
