"""The links of a parent's children: accepted, refused, replaced, moved, ended."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from taskd_net import Code, Message, Position
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.links import VIOLATION_PAUSE_S, Link
from taskd_net.core.ready import EndStream, Ready
from taskd_net.net.joining.pending import PendingRegistrations
from taskd_net.net.joining.permissions import Permissions
from taskd_net.net.joining.streams import ChildStreams
from taskd_net.net.links import peer as peers
from taskd_net.net.links.batched_kind import STREAM
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.grpc_calls import unary_call
from taskd_net.net.links.kind import End
from taskd_net.net.links.remote import Caller, remote_of
from taskd_net.net.wire import codec, requests
from taskd_net.net.wire.batches import write_batch
from taskd_net.net.wire.link_pb2 import Batch
from tests.links.memory import MemoryLink, MemoryPipe
from tests.links.pipes import FakeNode
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon

pytestmark = pytest.mark.timeout(180)

WORKER = Position.worker(0, 0)
HERE, ELSEWHERE = remote_of("ipv4:10.0.0.1:40001"), remote_of("ipv4:10.0.0.2:40001")


class FakeObserver:
    """Hears of the children.

    Attributes:
        changes: the children whose streams have opened or ended.
    """

    def __init__(self) -> None:
        self.connections = Connections()
        self.changes: list[str] = []

    def child_changed(self, link: Link, reason: str = "") -> None:
        """A stream has opened or ended."""
        self.changes.append(str(link.position))

    def child_ends(self, *_: Any) -> None:
        """Not here."""

    child_leads_to = child_refused = child_forgotten = child_ends


class FakeIncoming:
    """A link that a child opens.

    Attributes:
        told: whether the parent has said that it has joined; empty as long as the link is not accepted.
        ends: why it was refused or ended.
    """

    continues = gone = False

    def __init__(self, node: FakeNode, position: Position = WORKER, remote: Any = HERE) -> None:
        self.caller = Caller(remote, lambda: None)
        self.remote = remote
        self.position = position
        self.told: asyncio.Queue[bool | None] = asyncio.Queue()
        self.ends: list[End] = []
        self._node = node
        self.pipe = MemoryPipe(None, None, is_child=False)
        self.pipe.other = MemoryPipe(None, None, is_child=True)

    def session(self, link: Link) -> MemoryLink:
        """Make its session."""
        return MemoryLink(self._node, link.id, link.position, self.pipe)._begin()

    async def accept(self, joined: bool | None) -> None:
        """It stands."""
        self.told.put_nowait(joined)

    async def end(self, end: End) -> None:
        """Refuse or end it."""
        self.ends.append(end)


class EndingNode(FakeNode):
    """A node that also ends the streams that its Router wants ended."""

    streams: ChildStreams

    def perform(self, ready: Ready) -> None:
        """Carry out what the Router decided."""
        for notice in ready.notices:
            if isinstance(notice, EndStream):
                assert isinstance(notice.session, MemoryLink)
                self.streams.end(notice.session, End.POSITION_TAKEN)
        ready.notices[:] = [notice for notice in ready.notices if not isinstance(notice, EndStream)]
        super().perform(ready)


class Parent:
    """A Mgr that one child has registered at."""

    def __init__(self, times: LinkTimes = TIMES) -> None:
        self.node = EndingNode("Mgr", times)
        self.observer = FakeObserver()
        permissions = Permissions(self.node.router, self.observer.connections, certified=False)
        self.streams = self.node.streams = ChildStreams(
            self.node, self.observer, permissions, PendingRegistrations(lambda: 0)
        )
        ready = self.node.router.register(0.0, WORKER, credentials=Credentials(HERE.place))
        assert ready.link is not None
        self.link = ready.link
        ours = peers.of_child(dict(peers.own_metadata()))
        self.observer.connections.came_over(HERE, self.link, ours)


async def test_link_stands_until_the_child_ends_it() -> None:
    parent = Parent()
    child = FakeIncoming(parent.node)
    serving = asyncio.create_task(parent.streams.serve(child))
    assert await soon(child.told.get()) is True
    assert parent.node.router.children.by_id[parent.link].up
    assert list(parent.node.links) == [parent.link]
    child.pipe.cancel()
    await soon(serving)
    assert not parent.node.router.children.by_id[parent.link].up
    assert (dict(parent.node.links), child.ends) == ({}, [])
    assert parent.observer.changes == [str(WORKER)] * 2
    assert not parent.observer.connections.streams(HERE)


async def test_stream_that_cannot_go_on_where_another_one_rests_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryLink, "follows", lambda *_: False)
    parent = Parent()
    first, second = FakeIncoming(parent.node), FakeIncoming(parent.node)
    second.continues = True
    serving = [asyncio.create_task(parent.streams.serve(first))]
    await soon(first.told.get())
    before = parent.node.links[parent.link]
    serving.append(asyncio.create_task(parent.streams.serve(second)))
    await soon(second.told.get())
    assert parent.node.links[parent.link] is not before
    for child in (first, second):
        child.pipe.cancel()
    await soon(asyncio.gather(*serving))


@pytest.mark.parametrize("gone", [False, True])
async def test_link_that_cannot_move_goes_on(monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    """It does not come to rest, or the child has given up meanwhile."""
    parent = Parent(LinkTimes(renewal=0.05))
    first, second = FakeIncoming(parent.node), FakeIncoming(parent.node)
    second.continues, second.gone = True, gone
    serving = asyncio.create_task(parent.streams.serve(first))
    await soon(first.told.get())
    before = parent.node.links[parent.link]
    if not gone:

        async def for_ever() -> None:
            before._paused = True
            await asyncio.Event().wait()

        monkeypatch.setattr(before, "pause", for_ever)
    await soon(parent.streams.serve(second))
    assert (second.ends, second.told.empty()) == ([End.BUSY], True)
    assert parent.node.links[parent.link] is before and not before._paused
    first.pipe.cancel()
    await soon(serving)


async def test_node_that_leaves_ends_every_stream_and_takes_no_other() -> None:
    parent = Parent()
    child, late = FakeIncoming(parent.node), FakeIncoming(parent.node)
    serving = asyncio.create_task(parent.streams.serve(child))
    await soon(child.told.get())
    parent.streams.refuse(End.CLOSING)
    parent.streams.end_all(End.CLOSING)
    await soon(serving)
    await soon(parent.streams.serve(late))
    assert child.ends == late.ends == [End.CLOSING]
    assert late.told.empty()


async def test_stream_of_a_child_that_has_not_registered_is_refused() -> None:
    parent = Parent()
    stranger = FakeIncoming(parent.node, Position.worker(7, 7))
    await soon(parent.streams.serve(stranger))
    assert (stranger.ends, stranger.told.empty()) == ([End.UNKNOWN], True)
    assert parent.node.accused == [], "an honest child may have been forgotten meanwhile"


async def test_stream_of_another_peer_than_the_registered_one_is_a_violation() -> None:
    parent = Parent()
    thief = FakeIncoming(parent.node, remote=ELSEWHERE)
    await soon(parent.streams.serve(thief))
    assert (thief.ends, thief.told.empty()) == ([End.UNKNOWN], True)
    assert parent.node.accused == [(ELSEWHERE.place, 4002)]


async def test_newer_stream_takes_the_place_of_the_older_one() -> None:
    parent = Parent()
    older, newer = FakeIncoming(parent.node), FakeIncoming(parent.node)
    first = asyncio.create_task(parent.streams.serve(older))
    await soon(older.told.get())
    second = asyncio.create_task(parent.streams.serve(newer))
    await soon(newer.told.get())
    await soon(first)
    assert older.ends == [End.POSITION_TAKEN]
    assert parent.node.router.children.by_id[parent.link].up
    assert parent.observer.connections.link(HERE) == parent.link
    newer.pipe.cancel()
    await soon(second)


@pytest.mark.parametrize("seconds", [0.02, 3600.0])
async def test_stream_after_a_violation_is_held(seconds: float) -> None:
    parent, broken_at = Parent(), seconds - VIOLATION_PAUSE_S
    older, newer = FakeIncoming(parent.node), FakeIncoming(parent.node)
    first = asyncio.create_task(parent.streams.serve(older))
    await soon(older.told.get())
    session = parent.node.links[parent.link]
    parent.node.perform(parent.node.router.bounds_broken(broken_at, parent.link, session, Violation(Code.NET_ERR, "x")))
    await soon(first)
    second = asyncio.create_task(parent.streams.serve(newer))
    for _ in range(20):
        await asyncio.sleep(0)
    assert newer.told.empty() and not second.done()
    if seconds < 1.0:
        assert await soon(newer.told.get()) is True
        newer.pipe.cancel()
        await soon(second)
    else:
        second.cancel()
        await asyncio.wait([second])


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_stream_is_confirmed_when_messages_reach_the_child(mesh: Mesh) -> None:
    """Its initial metadata comes before the first message and not before the child can be reached."""
    mgr = await mesh.mgr()
    for rank in range(10):
        async with RawChild(f"Worker/0/{rank}") as child:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
            await child.open_stream()
            assert (await mgr.send("x", to=child.position)).ok


async def test_registration_that_runs_out_while_the_stream_opens(mesh: Mesh) -> None:
    """Either the stream is refused or its child is a member: never a stream that nobody knows."""
    mgr = await mesh.mgr(registration_hold=0.01)
    outcomes = set()
    for rank in range(40):
        async with RawChild(f"Worker/0/{rank}") as child:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
            position = Position.parse(child.position)
            link = mgr.driver.router.children.find(position)
            if link is not None:
                await asyncio.sleep(
                    max(0.0, link.expires - mgr.driver.now() - 0.0005 * (rank % 6))
                )  # just before, just after
            await child.open_stream()
            if child._stream.done() or mgr.driver.router.children.find(position) is None:
                assert await child.ended() is grpc.StatusCode.UNKNOWN
                outcomes.add("refused")
            else:
                assert (await mgr.send("x", to=child.position)).ok
                outcomes.add("member")
    assert outcomes


async def test_child_that_hangs_up_at_any_moment(mesh: Mesh) -> None:
    """One turn of the loop after the other between opening the stream and hanging up: nothing is left behind."""
    # A stream that is cut before the parent has seen it leaves the registration, for as long as that holds.
    mgr = await mesh.mgr(grace=0.05, registration_hold=1.0)
    for turns in range(25):
        async with RawChild("Worker/0/0") as child:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
            opening = asyncio.create_task(child.open_stream())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
    await mesh.until(lambda: len(mgr.driver.router.children) == 0)
    assert not mgr.driver.links


@pytest.mark.both_loops
async def test_streams_of_one_child_that_chase_each_other(mesh: Mesh) -> None:
    """The newest has it, every other is told; what is sent meanwhile gets a code, and what is acknowledged arrived."""
    mgr = await mesh.mgr()
    children = [RawChild("Worker/0/0") for _ in range(8)]
    try:
        for child in children:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
        sends = [asyncio.create_task(mgr.send(str(i), to="Worker/0/0")) for i in range(20)]
        await soon(asyncio.gather(*(child.open_stream() for child in children)))
        sends += [asyncio.create_task(mgr.send(str(i), to="Worker/0/0")) for i in range(20, 40)]
        acks = await soon(asyncio.gather(*sends))
        assert {ack.code for ack in acks} <= {0, 6000, 6001, 6002}
        open_ones = [child for child in children if not child._stream.done()]
        await mesh.until(lambda: mesh.count("child_lost") == len(children) - 1)
        open_ones = [child for child in open_ones if not child._stream.done()]
        last = await mgr.send("last", to="Worker/0/0")
        assert last.ok
        received = [child.received.get_nowait().body for child in children for _ in range(child.received.qsize())]
        assert {str(i) for i, ack in enumerate(acks) if ack.ok} | {"last"} <= set(received)
        assert len(mgr.driver.links) == len(mgr.driver.router.children) == 1
    finally:
        for child in children:
            await child.cut()


async def test_renewed_stream_waits_for_all_that_came_over_the_older_one(mesh: Mesh) -> None:
    """Frames of a child's older stream come first, also when they arrive later."""
    mgr = await mesh.mgr()
    worker = Position.worker(0, 0)

    def batch(body: str) -> bytes:
        message = Message(body, "default", True, worker, Position.mgr(), 0, body)
        return write_batch([codec.write_message(message).data], Batch(patience=[3000]))

    async with grpc.aio.insecure_channel(mgr.address or "") as channel:
        register, announce = (unary_call(channel, name) for name in ("Register", "PathDiscovery"))
        # An earlier version of ours, which is answered by uuid.
        await register(requests.write_register("r", worker), metadata=((peers.VERSION_KEY, "0"),))
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM)
        older = open_stream(metadata=peers.stream_metadata(worker))
        await soon(older.initial_metadata())
        announcement = requests.write_announcement("p", worker, [worker])
        await announce(announcement)
        newer = open_stream(metadata=peers.stream_metadata(worker, continues=True))
        await soon(newer.initial_metadata())
        await newer.write(batch("second"))
        for _ in range(3):  # what was written before has been read, or waits to be
            await announce(announcement)
        await older.write(batch("first"))
        await older.done_writing()
        assert await mgr.take_all(2) == ["first", "second"]
        newer.cancel()
    await mesh.logged("child_lost")
