"""Upwards by unary calls: many at a time, in order where it was promised, and an account of each when it ends."""

import asyncio
from typing import cast

import grpc
import pytest

from taskd_net import Ack, Code, Position
from taskd_net.base.limits import LINK_BYTES
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP
from taskd_net.net.links.large_writes import large_writes
from taskd_net.net.links.peer import CONTRACT
from taskd_net.net.links.tasknet import ToParent
from taskd_net.net.links.unary import CALL_BYTES, UnaryWriter
from tests.links.pipes import FakeChannel, frame
from tests.peers.mesh import Mesh, soon
from tests.peers.parent import RawParent

pytestmark = pytest.mark.timeout(180)

MIB = 1024 * 1024


@pytest.mark.oldest
async def test_async_messages_of_one_flow_go_one_after_the_other(mesh: Mesh) -> None:
    """Also when each answer takes its time; another destination does not wait for it."""
    async with RawParent() as mgr:
        proxy = await mesh.proxy(0, mgr.address)
        worker = await mesh.worker(0, 0, proxy)
        mgr.hold["TransferMessage"] = asyncio.Event()
        for i in range(5):
            assert (await worker.post(str(i), to="Mgr")).ok
        assert (await worker.post("other", to="Worker/5/5")).ok
        started = [await mgr.requested("TransferMessage") for _ in range(2)]
        assert {message.body for message in started} == {"0", "other"}
        assert mgr.requests["TransferMessage"].empty()
        mgr.hold.pop("TransferMessage").set()
        assert [(await mgr.take()).body for _ in range(5)] == [str(i) for i in range(5)]


async def test_sync_message_waits_behind_an_async_one_of_its_flow(mesh: Mesh) -> None:
    async with RawParent() as mgr:
        worker = await mesh.worker(0, 0, mgr.address)
        mgr.hold["TransferMessage"] = asyncio.Event()
        post = asyncio.create_task(worker.post("first", to="Mgr"))
        await mgr.requested("TransferMessage")
        send = asyncio.create_task(worker.send("second", to="Mgr"))
        await asyncio.sleep(0)
        mgr.hold.pop("TransferMessage").set()
        assert (await soon(post)).ok
        assert (await soon(send)).ok
        assert [(await mgr.take()).body for _ in range(2)] == ["first", "second"]


async def test_what_waits_in_line_when_the_parent_goes_was_never_sent(mesh: Mesh) -> None:
    """6001 for what was under way, 6000 for what stood behind it; an own one is answered, one passed on is counted."""
    async with RawParent() as mgr:
        proxy = await mesh.proxy(0, mgr.address)
        worker = await mesh.worker(0, 0, proxy)
        mgr.hold["TransferMessage"] = asyncio.Event()
        posts = [asyncio.create_task(proxy.post(str(i), to="Mgr", timeout=20)) for i in range(3)]
        await mgr.requested("TransferMessage")
        for i in range(3):
            assert (await worker.post(str(i), to="Mgr")).ok
        await mgr.requested("TransferMessage")
        mgr.end_stream("Proxy/0")
        codes = [ack.code for ack in await soon(asyncio.gather(*posts))]
        assert codes == [Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST, Code.NETWORK_SEND_LOST]
        await mesh.until(lambda: proxy.statistics.lost == 3)
        await mesh.logged("messages_lost", node=proxy.position)


async def test_posts_keep_their_order_where_all_calls_are_taken(mesh: Mesh) -> None:
    """Posts behind their own flow, and later ones while no call was free."""
    async with RawParent() as mgr:
        proxy = await mesh.proxy(0, mgr.address)
        session = proxy.driver.links[UP]
        assert isinstance(session, ToParent)
        session._calls.most = 2
        worker = await mesh.worker(0, 0, proxy)
        mgr.hold["TransferMessage"] = held = asyncio.Event()
        sent = [("Mgr", "0"), ("Mgr", "1"), ("Mgr", "2"), ("Worker/5/5", "other"), ("Mgr", "3"), ("Mgr", "4")]
        for to, body in sent:
            assert (await worker.post(body, to=to)).ok
        assert {(await mgr.requested("TransferMessage")).body for _ in range(2)} == {"0", "other"}
        mgr.hold.pop("TransferMessage")
        held.set()
        assert [(await mgr.take()).body for _ in range(5)] == ["0", "1", "2", "3", "4"]


async def test_bytes_under_way_are_bounded(mesh: Mesh) -> None:
    """Posts beyond the calls' bytes wait and arrive; posts beyond the line's bytes are refused at once."""
    async with RawParent() as mgr:
        worker = await mesh.worker(0, 0, mgr.address)
        mgr.hold["TransferMessage"] = asyncio.Event()
        size, sends = 4 * MIB, list[asyncio.Task[Ack]]()
        calls = CALL_BYTES // (size + 1)
        for number in range(calls + 2 * LINK_BYTES // size):
            sends.append(asyncio.create_task(worker.send("x" * size, to="Mgr", timeout=25)))
            if number < calls:
                await mgr.requested("TransferMessage")  # large writes take turns, so a call may begin later
        await mesh.until(lambda: any(send.done() for send in sends))
        assert {send.result().code for send in sends if send.done()} == {Code.RECV_BUF_BUSY}
        mgr.hold.pop("TransferMessage").set()
        acks = await soon(asyncio.gather(*sends), 20)
        assert calls < sum(ack.ok for ack in acks) <= calls + LINK_BYTES // size
        assert {ack.code for ack in acks} == {Code.OK, Code.RECV_BUF_BUSY}


class Held:
    """A writer whose calls are answered when the test says so.

    Attributes:
        answered: the uuids that have been answered.
    """

    def __init__(self) -> None:
        self.channel = FakeChannel()
        self.channel.gate.clear()
        self.answered: list[str] = []
        channel = cast(grpc.aio.Channel, self.channel)
        self.writer = UnaryWriter(
            channel, Position.proxy(0), Position.mgr(), CONTRACT, 3.0, large_writes(), lambda _: None, self._answer
        )

    def _answer(self, message: Frame, ack: Ack) -> None:
        assert ack.ok
        self.answered.append(message.uuid)

    async def begun(self) -> list[str]:
        """The calls that have begun since the last time, after some turns of the loop."""
        for _ in range(5):
            await asyncio.sleep(0)
        return [self.channel.calls.get_nowait() for _ in range(self.channel.calls.qsize())]


async def test_message_is_taken_back_as_long_as_its_call_has_not_begun() -> None:
    held = Held()
    early, late = frame(uuid="early", to="Mgr"), frame(uuid="late", to="Mgr")
    held.writer.put(early, 3.0)
    assert held.writer.withdraw(early)
    held.writer.put(late, 3.0)
    assert await held.begun() == ["late"]
    assert not held.writer.withdraw(late)
    held.channel.gate.set()
    await soon(held.writer.finish())
    assert held.answered == []
    assert not held.writer.busy


async def test_no_more_calls_are_under_way_than_may_be() -> None:
    held = Held()
    held.writer.most = 2
    for uuid in "abc":
        held.writer.put(frame(uuid=uuid, to="Mgr"), 3.0)
    assert await held.begun() == ["a", "b"]
    held.channel.gate.set()
    await soon(held.writer.finish())
    assert held.answered == ["a", "b", "c"]


async def test_finish_waits_for_every_answer() -> None:
    held = Held()
    for uuid in "ab":
        held.writer.put(frame(uuid=uuid, to="Mgr"), 3.0)
    assert await held.begun() == ["a", "b"]
    finishing = asyncio.create_task(held.writer.finish())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not finishing.done()
    held.channel.gate.set()
    await soon(finishing)
    assert held.answered == ["a", "b"]
