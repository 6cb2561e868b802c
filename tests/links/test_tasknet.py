"""The links of the four calls over a stream that the test holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import grpc
import pytest

from taskd_net import Ack, Code, Position
from taskd_net.core import router as core_router
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP
from taskd_net.net.links.peer import CONTRACT
from taskd_net.net.links.tasknet import ToChild, ToParent
from taskd_net.net.wire import codec
from taskd_net.net.wire import tasknet_pb2 as pb
from tests.links.pipes import FakeChannel, FakeNode, FakePipe, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)

WORKER = Position.worker(0, 0)


class Down:
    """A Proxy that has joined, its link down to a Worker, and the stream."""

    def __init__(self) -> None:
        self.node = FakeNode("Proxy/0")
        self.pipe = FakePipe()
        self.child = self.node.router.children.by_id[self.node.router.register(0.0, WORKER).link or 0]
        self.link = ToChild(self.node, self.child.id, WORKER, self.pipe, CONTRACT)
        self.node.router.link_up(0.0, self.child.id, self.link)
        self.node.links[self.child.id] = self.link
        self.running = asyncio.create_task(self.link.run())

    async def take(self) -> str:
        """The uuid of the next message that is written."""
        return codec.read_uuid(await soon(self.pipe.begun.get()))


class Up:
    """A Worker that has joined its parent, and the stream."""

    def __init__(self) -> None:
        self.node = FakeNode("Worker/0/0")
        self.pipe = FakePipe()
        self.channel = FakeChannel()
        channel = cast(grpc.aio.Channel, self.channel)
        self.link = ToParent(self.node, UP, Position.proxy(0), self.pipe, CONTRACT, channel, 3.0)
        self.node.links[UP] = self.link
        router = self.node.router
        router.upstream_up(0.0, self.link, Position.proxy(0), 2)
        router.announce_all(self.node.request(lambda _: None), "announces")
        router.announce_answered(self.link, Code.OK, Position.proxy(0))
        self.running = asyncio.create_task(self.link.run())

    async def take(self) -> Ack:
        """The next Ack that is written."""
        return codec.read_ack(await soon(self.pipe.begun.get()), Position.mgr())


@pytest.fixture
async def down() -> AsyncIterator[Down]:
    """A link to a child that stands."""
    down = Down()
    yield down
    down.pipe.cut()
    await soon(down.running)


@pytest.fixture
async def up() -> AsyncIterator[Up]:
    """A link to a parent that stands."""
    up = Up()
    yield up
    up.pipe.cut()
    await soon(up.running)
    up.link.unwritten()


async def test_messages_go_down_one_by_one_in_order(down: Down) -> None:
    down.pipe.gate.clear()
    for uuid in "abc":
        down.node.send(frame(uuid=uuid, src="Proxy/0"))
    assert await down.take() == "a"
    assert down.pipe.begun.empty()
    assert down.child.queued_messages == 3
    down.pipe.gate.set()
    assert [await down.take() for _ in range(2)] == ["b", "c"]
    await soon(down.link.idle())
    assert (down.child.queued_messages, down.child.queued_bytes) == (0, 0)


async def test_sync_message_is_answered_by_its_ack_and_the_other_kind_when_it_is_written(down: Down) -> None:
    down.pipe.gate.clear()
    sync = down.node.send(frame(uuid="sync", src="Proxy/0"))
    posted = down.node.send(frame(uuid="async", src="Proxy/0", sync=False))
    assert await down.take() == "sync"
    down.pipe.gate.set()
    assert await down.take() == "async"
    await soon(down.link.idle())
    assert (sync, posted) == ([], [Ack("async", Code.OK, WORKER)])
    down.pipe.comes_in(codec.write_ack(Ack("sync", Code.RECV_BUF_BUSY, WORKER)))
    down.pipe.comes_in(b"")  # an Ack of nothing: late
    down.pipe.cut()
    await soon(asyncio.shield(down.running))
    assert sync == [Ack("sync", Code.RECV_BUF_BUSY, WORKER, receivers=0)]
    assert down.node.router.statistics.late_acks == 1


@pytest.mark.parametrize("sync", [True, False])
async def test_message_that_is_none_is_answered_here_and_leaves_the_queue(sync: bool, down: Down) -> None:
    """Only its header was looked at on the way; the child gets the next one."""
    whole = frame(uuid="a", src="Proxy/0", sync=sync)
    refused = down.node.send(Frame(whole.uuid, sync, whole.src, whole.dst, b"\xff" * 30))
    down.node.send(frame(uuid="b", src="Proxy/0"))
    assert await down.take() == "b"
    await soon(down.link.idle())
    assert [(ack.code, ack.src) for ack in refused] == [(Code.NIL_MESSAGE, Position.proxy(0))]
    assert (down.child.queued_messages, down.child.queued_bytes) == (0, 0)


async def test_ack_that_cannot_be_read_harms_nothing(down: Down, caplog: pytest.LogCaptureFixture) -> None:
    waiting = down.node.send(frame(uuid="a", src="Proxy/0"))
    down.pipe.comes_in(b"\xff")
    down.pipe.comes_in(codec.write_ack(Ack("a", Code.OK, WORKER)))
    await down.take()
    down.pipe.cut()
    await soon(asyncio.shield(down.running))
    assert waiting == [Ack("a", Code.OK, WORKER, receivers=1)]
    assert "ack_unreadable" in caplog.text


async def test_ack_on_a_stream_that_was_replaced_is_not_heard(down: Down) -> None:
    waiting = down.node.send(frame(uuid="a", src="Proxy/0"))
    await down.take()
    down.node.links[down.child.id] = ToChild(down.node, down.child.id, WORKER, FakePipe(), CONTRACT)
    down.pipe.comes_in(codec.write_ack(Ack("a", Code.OK, WORKER)))
    down.pipe.cut()
    await soon(asyncio.shield(down.running))
    assert waiting == []


@pytest.mark.parametrize("sync", [True, False])
async def test_what_the_child_never_got_is_told_once(sync: bool, down: Down) -> None:
    """Nobody knows of the one under way: 6001, which a `sync=false` message learns at once."""
    down.pipe.gate.clear()
    asked = down.node.send(frame(uuid="under way", src="Proxy/0", sync=sync))
    assert await down.take() == "under way"
    down.node.send(frame(uuid="queued", src="Proxy/0"))
    down.pipe.cut()
    await soon(asyncio.shield(down.running))
    assert [one.uuid for one, _ in down.link.unwritten()] == ["queued"]
    assert [ack.code for ack in asked] == ([] if sync else [Code.NETWORK_ACK_LOST])
    assert down.link.unwritten() == []


async def test_message_from_above_is_answered_if_it_is_a_sync_one(up: Up) -> None:
    up.pipe.comes_in(frame(uuid="async", sync=False).data)
    up.pipe.comes_in(frame(uuid="sync").data)
    up.pipe.comes_in(frame(uuid="elsewhere", to="Worker/9/9").data)
    assert await up.take() == Ack("sync", Code.OK, WORKER)
    assert await up.take() == Ack("elsewhere", Code.NO_ROUTE, WORKER)
    assert up.node.delivered == ["async", "sync"]


async def test_message_that_cannot_be_read_is_answered_with_its_code(up: Up, caplog: pytest.LogCaptureFixture) -> None:
    bad = pb.Message.FromString(frame(uuid="bad").data)
    bad.header.dst.role = "Boss"
    up.pipe.comes_in(b"\xff")
    up.pipe.comes_in(bad.SerializeToString())
    bad.header.sync = False
    up.pipe.comes_in(bad.SerializeToString())
    up.pipe.comes_in(frame(uuid="good").data)
    assert await up.take() == Ack("bad", Code.DST_ROLE_ILLEGAL, WORKER)
    assert await up.take() == Ack("good", Code.OK, WORKER)
    assert caplog.text.count("message_refused") == 3


async def test_node_that_fails_answers_5999_and_keeps_the_link(
    up: Up, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr("taskd_net.core.router.Router.messages_arrived", lambda *_: 1 // 0)
        up.pipe.comes_in(frame(uuid="async", sync=False).data)
        up.pipe.comes_in(frame(uuid="sync").data)
        assert await up.take() == Ack("sync", Code.SERVER_ERR, WORKER)
    assert caplog.text.count("request_failed") == 2
    up.pipe.comes_in(frame(uuid="sync").data)
    assert await up.take() == Ack("sync", Code.OK, WORKER)


@pytest.mark.parametrize("sync", [True, False])
async def test_message_upwards_is_a_call_and_its_ack_the_answer(sync: bool, up: Up) -> None:
    waiting = up.node.send(frame(uuid="a", src="Worker/0/0", to="Mgr", sync=sync))
    assert await soon(up.channel.calls.get()) == "a"
    link = up.node.router._topology.link(UP)
    assert link is not None
    assert (link.queued_messages, link.queued_bytes) == (0, 0)
    await soon(up.node.answered.wait())
    assert waiting == [Ack("a", Code.OK, Position.mgr(), receivers=1 if sync else None)]


async def test_calls_that_had_not_begun_are_told_when_it_ends(up: Up) -> None:
    up.channel.gate.clear()
    for uuid in "abc":
        up.node.send(frame(uuid=uuid, src="Worker/0/0", to="Mgr", sync=False))
    assert await soon(up.channel.calls.get()) == "a"
    up.pipe.cut()
    await soon(asyncio.shield(up.running))
    assert [one.uuid for one, _ in up.link.unwritten()] == ["b", "c"]


async def test_answer_after_the_end_is_dropped(up: Up) -> None:
    up.node.router.gate.room = 1
    for uuid in ("in", "waits"):
        up.pipe.comes_in(frame(uuid=uuid).data)
    assert (await up.take()).uuid == "in"
    up.pipe.cut()
    await soon(asyncio.shield(up.running))
    up.node.perform(up.node.router.inbox_taken(0.0))
    assert up.node.delivered == ["in", "waits"]
    assert not up.link._has_output()


async def test_link_comes_to_rest_when_its_post_has_got_there_and_goes_on_later(up: Up) -> None:
    """A post that were still under way could be overtaken by the next one, over another connection."""
    up.channel.gate.clear()
    for uuid in "ab":
        up.node.send(frame(uuid=uuid, src="Worker/0/0", to="Mgr", sync=False))
    assert await soon(up.channel.calls.get()) == "a"
    resting = asyncio.create_task(up.link.pause())
    await asyncio.sleep(0)  # it begins
    up.node.send(frame(uuid="c", src="Worker/0/0", to="Proxy/9"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not resting.done()
    up.channel.gate.set()
    await soon(resting)
    assert up.channel.calls.empty()
    up.link.resume()
    assert {await soon(up.channel.calls.get()) for _ in range(2)} == {"b", "c"}


async def test_stream_ends_under_a_write_when_the_parent_takes_no_answers(up: Up) -> None:
    """Also those to messages that cannot be read."""
    up.pipe.gate.clear()
    bound = up.node.router.limits.child_messages + core_router.ANSWERS_UNTAKEN
    good = frame().data
    unreadable = pb.Message(header=pb.MessageHeader(uuid="u", sync=True)).SerializeToString()
    for number in range(bound + 1):
        up.pipe.comes_in(good if number % 2 else unreadable)
    await soon(up.running, 100.0)
    assert set(up.node.accused) == {("Proxy/0", Code.RECV_BUF_BUSY)}
