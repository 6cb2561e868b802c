"""Sends of a node that has not joined: in order, within their timeout; at once where no Mgr is needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from taskd_net import Code, Position, Retry
from taskd_net.core.links import UP
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, address_of, both_links, soon
from tests.peers.parent import RawParent

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail on any unexpected error."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


async def without_mgr(mesh: Mesh, *, levels: int = 1, workers: int = 1) -> tuple[str, list[WatchedNode]]:
    """Workers below Proxies, just after the loss of the Mgr. Returns the Mgr's address and the nodes."""
    mgr = await mesh.mgr(inbox=4096)
    parent: WatchedNode = mgr
    proxies = []
    for rank in range(levels):
        parent = await mesh.proxy(rank, parent)
        proxies.append(parent)
    below = [await mesh.worker(0, rank, parent) for rank in range(workers)]
    address = address_of(mgr)
    await soon(mgr.close())
    # Wait for the last hop too: one that does not know yet takes a `sync=false` message, and loses it.
    told = below if levels > 1 else proxies
    await mesh.until(lambda: not any(node.is_joined for node in told))
    return address, below


@pytest.mark.parametrize(
    ("mesh", "levels"), [("batched", 1), ("batched", 3), ("tasknet", 1), ("mixed", 1)], indirect=["mesh"]
)
async def test_send_waits_while_the_mgr_is_away(mesh: Mesh, levels: int) -> None:
    """Over the four calls for one level: a 6002 from further away is the answer."""
    address, (worker,) = await without_mgr(mesh, levels=levels)
    sending = asyncio.create_task(worker.send("x", to="Mgr", timeout=20.0))
    posting = asyncio.create_task(worker.post("y", to="Mgr", timeout=20.0))
    broadcast = asyncio.create_task(worker.send("z", to="Mgr/All", timeout=20.0))
    done, _ = await asyncio.wait([sending, posting, broadcast], timeout=0.3)
    assert not done
    mgr = await mesh.mgr(address)
    for task in (sending, posting, broadcast):
        assert (await soon(task)).ok
    assert sorted(await mgr.take_all(3)) == ["x", "y", "z"]


@pytest.mark.parametrize("levels", [1, 2, 3])
async def test_joined_means_that_the_mgr_knows_the_way(mesh: Mesh, levels: int) -> None:
    """A node whose parent loses the Mgr has not joined any more, at every level, and has again when the Mgr is back."""
    address, (worker,) = await without_mgr(mesh, levels=levels)
    await mesh.until(lambda: not worker.is_joined)
    with pytest.raises(TimeoutError, match="lost its own way to the Mgr"):
        await worker.joined(0.01)
    late = await mesh.worker(0, 9, worker.config.upstream or "", join=False)
    await mesh.logged("child_joined", child=late.position)
    assert not late.is_joined
    await mesh.mgr(address)
    await soon(worker.joined())
    await soon(late.joined())
    assert worker.is_joined and mesh.count("upstream_lost", node=worker.position) == 0


@both_links
async def test_order_holds_for_what_waited_and_what_comes_after(mesh: Mesh) -> None:
    """Over the four calls from the moment on in which the node has heard the first 6002: nobody tells it before."""
    address, (worker,) = await without_mgr(mesh)
    sends = [asyncio.create_task(worker.send("0", to="Mgr", timeout=20.0))]
    await mesh.until(lambda: len(worker.driver.router._sends))
    for number in range(1, 100):
        how = worker.post if number % 3 == 0 else worker.send
        sends.append(asyncio.create_task(how(str(number), to="Mgr", timeout=20.0)))
        await asyncio.sleep(0)
    mgr = await mesh.mgr(address, inbox=4096)
    await soon(worker.joined())
    sends.append(asyncio.create_task(worker.send("100", to="Mgr", timeout=20.0)))
    assert all(ack.ok for ack in await soon(asyncio.gather(*sends)))
    assert await mgr.take_all(101) == [str(number) for number in range(101)]


@both_links
async def test_sibling_is_reached_without_the_mgr(mesh: Mesh) -> None:
    _, (one, two) = await without_mgr(mesh, workers=2)
    before = time.monotonic()
    for to in ("Worker/0/1", "Proxy/0"):
        assert (await one.send("x", to=to)).ok
    assert time.monotonic() - before < 1.0
    assert (await two.take()).body == "x"
    sends = [one.send(str(number), to="Worker/0/1", timeout=20.0) for number in range(8)]
    assert all(ack.ok for ack in await soon(asyncio.gather(*sends)))
    assert await two.take_all(8) == [str(number) for number in range(8)]


@both_links
async def test_no_send_waits_longer_than_its_timeout(mesh: Mesh) -> None:
    _, (worker,) = await without_mgr(mesh)
    before = time.monotonic()
    acks = await asyncio.gather(*(call("x", to="Mgr", timeout=1.0) for call in (worker.send, worker.post)))
    took = time.monotonic() - before
    assert [ack.code for ack in acks] == [Code.NET_STREAM_NOT_INITED] * 2
    assert 0.9 < took < 5.0, took
    fast = await worker.send("x", to="Mgr", timeout=20.0, wait=False)
    assert (fast.code, fast.src) == (Code.NET_STREAM_NOT_INITED, Position.proxy(0))
    assert (await worker.post("x", to="Mgr", timeout=20.0, wait=False)).code == Code.NET_STREAM_NOT_INITED
    echo = await soon(worker.ping("Mgr", timeout=20.0))
    assert echo.code == Code.NET_STREAM_NOT_INITED


@both_links
@pytest.mark.parametrize("end", ["close", "drain"])
async def test_leaving_answers_what_waits_at_once(mesh: Mesh, end: str) -> None:
    _, (worker,) = await without_mgr(mesh)
    sends = [asyncio.create_task(worker.send("x", to=to, timeout=25.0)) for to in ("Mgr", "Worker/7/70", "Agent/3")]
    await asyncio.wait(sends, timeout=0.2)
    await soon(worker.close() if end == "close" else worker.drain(25.0), 5.0)
    acks = await soon(asyncio.gather(*sends))
    assert {ack.code for ack in acks} <= {Code.NET_STREAM_NOT_INITED, Code.NETWORK_ACK_LOST}


async def test_parent_that_does_not_tell_is_asked_again(mesh: Mesh) -> None:
    """Over the four calls a 6002 of the parent's own is no answer yet; one from further away is."""
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        parent.refuse["TransferMessage"] = Code.NET_STREAM_NOT_INITED
        sending = asyncio.create_task(worker.send("x", to="Mgr", timeout=20.0))
        for _ in range(3):
            await parent.requested("TransferMessage")
        assert not sending.done()
        del parent.refuse["TransferMessage"]
        assert (await soon(sending)).ok


@both_links
async def test_cancelled_send_that_waited_is_not_delivered(mesh: Mesh) -> None:
    address, (worker,) = await without_mgr(mesh)
    sends = [asyncio.create_task(worker.send("cancelled", to="Mgr", timeout=25.0)) for _ in range(1024)]
    sends.append(asyncio.create_task(worker.send("cancelled", to="Mgr", timeout=25.0, retry=Retry())))
    await asyncio.wait(sends, timeout=0.2)
    for send in sends:
        send.cancel()
    await asyncio.wait(sends)
    # A message that was being written cannot be taken back.
    await soon(worker.driver.links[UP].idle())
    assert not worker.driver.router.busy
    another = asyncio.create_task(worker.send("delivered", to="Mgr", timeout=25.0))
    mgr = await mesh.mgr(address)
    assert (await soon(another)).ok
    assert (await worker.send("last", to="Mgr")).ok
    assert await mgr.take_all(2) == ["delivered", "last"]


@pytest.mark.parametrize("mesh", ["batched", "tasknet"], indirect=True)
async def test_cancelled_sends_to_who_does_not_answer_block_nobody(mesh: Mesh) -> None:
    """Downwards: what was not written is not delivered, what was written keeps no place."""
    mgr = await mesh.mgr(ack_timeout=100.0)
    async with RawChild("Worker/0/0") as child:
        child.drop_acks = True
        await child.join(address_of(mgr))
        sends = [asyncio.create_task(mgr.send("x", to="Worker/0/0", timeout=120.0)) for _ in range(1024)]
        # Each begins with a check of all that is in flight: seconds, which are none of the child's time.
        await asyncio.sleep(0)
        for _ in range(1024):
            await child.take()
        assert (await mgr.send("x", to="Worker/0/0")).code == Code.RECV_BUF_BUSY
        for send in sends:
            send.cancel()
        await asyncio.wait(sends)
        assert not mgr.driver.router.busy
        child.drop_acks = False
        assert (await mgr.send("after", to="Worker/0/0")).ok
        assert (await child.take()).body == "after"


async def test_cancelled_calls_end(mesh: Mesh) -> None:
    """Upwards over the four calls: a call that nobody awaits must not keep its place until its time is over."""
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        hold = parent.hold["TransferMessage"] = asyncio.Event()
        sends = [asyncio.create_task(worker.send("x", to="Mgr", timeout=25.0)) for _ in range(50)]
        post = asyncio.create_task(worker.post("posted", to="Mgr", timeout=25.0))
        behind = asyncio.create_task(worker.send("behind", to="Mgr", timeout=25.0))
        for _ in range(51):
            await parent.requested("TransferMessage")
        for send in (*sends, post, behind):
            send.cancel()
        await asyncio.wait([*sends, post, behind])
        up = worker.driver.router.upstream
        assert up is not None and (up.in_flight.count, up.queued_messages) == (0, 0)
        hold.set()
        del parent.hold["TransferMessage"]
        assert (await soon(worker.send("after", to="Mgr", timeout=25.0))).ok


@both_links
async def test_cancelled_send_to_oneself_leaves_the_line(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, await mesh.mgr(), inbox=1)
    worker.wait_long_for_room()
    assert (await worker.send("first", to="Worker/0/0")).ok
    waiting = asyncio.create_task(worker.send("cancelled", to="Worker/0/0", timeout=25.0))
    await mesh.until(lambda: worker.driver.router.gate.line)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not worker.driver.router.gate.line
    assert (await worker.take()).body == "first"
    assert (await worker.send("second", to="Worker/0/0")).ok
    assert (await worker.take()).body == "second"
