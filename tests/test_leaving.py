"""Leaving in good order: draining with messages under way, and withdrawing a position for good."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import grpc
import pytest

from taskd_net import Code, Node, NodeConfig, Position
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, free_address, soon
from tests.peers.slow import SlowChild

pytestmark = [pytest.mark.compat, pytest.mark.timeout(180)]


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


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
        assert not proxy.router.door.open

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


async def test_draining_proxy_answers_new_calls_by_their_code(mesh: Mesh) -> None:
    """Over the four calls, too. A sender without pauses counts as in time only so long, and keeps nobody."""
    mgr = await mesh.mgr(inbox=10_000)
    proxy = await mesh.proxy(0, mgr, inbox=10_000)
    async with SlowChild("Worker/0/0") as slow, RawChild("Worker/0/1") as child:
        await slow.join(proxy.address or "")
        await child.join(proxy.address or "")
        sending = asyncio.create_task(mgr.send("slow", to="Worker/0/0", timeout=20.0))
        await soon(slow.asked.wait())
        draining = asyncio.create_task(proxy.drain(20.0))

        async def refused(to: str) -> int:
            while (code := int((await child.send(to)).code)) == Code.OK:
                pass
            return code

        assert await soon(refused("Proxy/0")) == Code.RECV_BUF_NIL
        assert await soon(refused("Mgr/0")) == Code.RECV_BUF_BUSY
        assert not draining.done() and not sending.done()

        slow.answers.set()
        assert (await soon(sending)).ok
        codes = set()
        with contextlib.suppress(grpc.aio.AioRpcError):  # until the Proxy has left
            while True:
                codes.add((await child.send("Mgr/0")).code)
        assert codes <= {Code.RECV_BUF_BUSY, Code.NETWORK_ACK_LOST, Code.NET_STREAM_NOT_INITED}
        assert await soon(draining)


@both_links
async def test_draining_proxy_delivers_what_was_only_posted(mesh: Mesh) -> None:
    mgr = await mesh.mgr(inbox=100)
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    posts = [worker.post(str(number), to="Mgr") for number in range(100)]
    assert all([(await post).ok for post in posts])
    assert await soon(proxy.drain(20.0))
    assert await mgr.take_all(100) == [str(number) for number in range(100)]


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


async def test_idle_node_drains_at_once_and_its_inbox_can_be_received(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert (await mgr.send("last", to="Worker/0/0")).ok
    assert await soon(worker.drain(20.0))
    assert [message.body async for message in worker.messages()] == ["last"]
    assert await soon(worker.drain(20.0))
    assert await soon(mgr.drain(20.0))


async def test_node_that_was_never_started_can_be_drained() -> None:
    node = Node(NodeConfig.worker(server_rank=0, rank=0))
    assert await soon(node.drain(20.0))
    assert not await node.withdraw(1.0)


# ---- withdrawing


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


async def test_node_that_has_not_joined_has_nobody_to_tell(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, await free_address(), join=False)
    await mesh.logged("join_failed")
    assert not await worker.withdraw(10.0)


# ---- the inbox


async def test_closed_inbox_answers_5000_and_keeps_what_is_in_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert (await mgr.send("first", to="Worker/0/0")).ok
    worker.close_inbox()
    assert (await mgr.send("second", to="Worker/0/0")).code == Code.RECV_BUF_NIL
    assert (await worker.take()).body == "first"
