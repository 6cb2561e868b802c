"""The direct link over a real socket whose other end the test holds: what leaves, what comes in, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
import weakref
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from taskd_net import Ack, Code, Position
from taskd_net.base import limits
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.core.ready import Ready, Writes
from taskd_net.net.links import batched, direct, direct_socket
from taskd_net.net.links.acknowledgements import LOOK_S, Acknowledgements, progress
from taskd_net.net.links.direct import DirectLink
from taskd_net.net.links.direct_socket import DirectSocket
from taskd_net.net.links.flushes import flushes
from taskd_net.net.links.read_turns import GAP_S, TURN_S
from taskd_net.net.wire import batches, codec, link_pb2
from taskd_net.net.wire.socket_frames import (
    Buffers,
    FrameKind,
    FrameReader,
    read_delivered,
    read_message,
    write_accepted,
    write_delivered,
    write_frame,
    write_message,
)
from tests.links.pipes import FakeNode, bodies, frame
from tests.peers.mesh import soon
from tests.polling import until

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]

WORKER = Position.worker(0, 0)


def connected() -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection over loopback, with little room in the kernel."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        near = socket.socket()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        near.connect(listener.getsockname())
        far, _ = listener.accept()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


def messages_in(kind: int, payload: bytes) -> tuple[list[str], list[int]]:
    """Uuids and numbers of the messages in a frame."""
    if kind == FrameKind.MESSAGE:
        number, _, _, message = read_message(payload)
        return [codec.read_uuid(message)], [number]
    assert kind == FrameKind.BATCH
    batch = link_pb2.Batch.FromString(payload)
    return [codec.read_uuid(message) for message in batch.messages], list(batch.numbers)


class Cable:
    """A Mgr, its link to a child over a socket, and the child's end of that socket."""

    node: FakeNode
    link: DirectLink
    running: asyncio.Task[None]

    def __init__(self, times: LinkTimes = TIMES) -> None:
        self.loop = asyncio.get_running_loop()
        self.times = times
        self.flushes = flushes()

    async def begin(self, ends: tuple[socket.socket, socket.socket] | None = None) -> Cable:
        """Let the link stand."""
        near, self.far = ends or connected()
        self.reader = FrameReader(limits.RECEIVE_BYTES, Buffers(65_536))
        self.stream = DirectSocket(times=self.times)
        local = near.family == socket.AF_UNIX
        make = self.loop.create_unix_connection if local else self.loop.create_connection
        await make(lambda: self.stream, sock=near)
        self.node = FakeNode("Mgr", self.times)
        self.child = self.node.router.children.by_id[self.node.router.register(0.0, WORKER).link or 0]
        self.link = DirectLink(self.node, self.child.id, WORKER, self.stream, numbered=True)
        self.node.router.link_up(0.0, self.child.id, self.link, (), self.link.terms)
        self.node.links[self.child.id] = self.link
        self.running = asyncio.create_task(self.link.run())
        await asyncio.sleep(0)
        return self

    async def next_frame(self) -> tuple[int, bytes]:
        """The next frame that has arrived."""
        while (found := self.reader.next()) is None:
            count = await soon(self.loop.sock_recv_into(self.far, self.reader.space()))
            assert count, "the socket has ended"
            self.reader.received(count)
        return found[0], bytes(found[1])

    async def read_until_end(self) -> None:
        """Drop what arrives until the socket has ended."""
        while await soon(self.loop.sock_recv(self.far, 65_536)):
            pass

    async def next_batch(self) -> tuple[list[str], list[int]]:
        """Uuids and numbers of the messages in the next frame."""
        return messages_in(*await self.next_frame())

    async def write(self, data: bytes) -> None:
        """The child writes."""
        await soon(self.loop.sock_sendall(self.far, data))

    def down(self) -> None:
        """As the transport does when a link has ended."""
        ready = self.node.router.link_down(0.0, self.child.id, self.link, self.link.unwritten())
        del self.node.links[self.child.id]
        self.node.perform(ready)

    async def close(self) -> None:
        """End it."""
        self.stream.abort()
        await soon(self.running)
        await soon(self.stream.over.wait())
        self.far.close()


@pytest.fixture
async def cable() -> AsyncIterator[Cable]:
    """A link that stands."""
    cable = await Cable().begin()
    yield cable
    await cable.close()


async def test_messages_of_one_turn_leave_together_and_are_written_when_the_kernel_has_them(cable: Cable) -> None:
    for message in bodies(3):
        cable.node.send(message)
    assert cable.child.queued_messages == 3
    assert (await cable.next_batch())[0] == ["0", "1", "2"]
    assert (cable.child.queued_messages, cable.child.queued_bytes) == (0, 0)


async def test_messages_leave_in_pieces_before_the_turn_is_over(cable: Cable) -> None:
    small, large = direct.PIECE, direct.PIECES
    for message in bodies(2 * small + large + 1):
        cable.node.send(message)
    assert cable.child.queued_messages == 1
    pieces = [(await cable.next_batch())[0] for _ in range(4)]
    assert [len(piece) for piece in pieces] == [small, small, large, 1]
    assert [uuid for piece in pieces for uuid in piece] == [str(number) for number in range(2 * small + large + 1)]


async def test_message_that_is_alone_leaves_at_once(cable: Cable) -> None:
    """Of messages that come one by one, the first after something has come in does not wait for the turn's end."""
    messages = bodies(4)
    cable.node.send(messages[0])
    assert (await cable.next_batch())[0] == ["0"]
    await cable.write(write_frame(FrameKind.BATCH, link_pb2.Batch(accepted_numbers=[1], taken=1).SerializeToString()))
    await until(lambda: not cable.child.in_flight.count)
    cable.node.send(messages[1])
    assert cable.child.queued_messages == 0
    cable.node.send(messages[2])
    cable.node.send(messages[3])
    assert cable.child.queued_messages == 2
    assert [(await cable.next_batch())[0] for _ in range(2)] == [["1"], ["2", "3"]]


async def test_full_kernel_ends_the_pieces_until_it_has_room(cable: Cable) -> None:
    """A batch that the kernel has not all of stays under way: the next one waits, in order."""
    messages = [frame("x" * 10_000, uuid=str(number)) for number in range(4 * direct.PIECE)]
    for message in messages:
        cable.node.send(message)
    assert cable.stream.unsent > 0
    assert cable.child.queued_messages > 2 * direct.PIECE
    got: list[str] = []
    while len(got) < len(messages):
        uuids, numbers = await cable.next_batch()
        got += uuids
        said = link_pb2.Batch(accepted_numbers=numbers, taken=1)
        await cable.write(write_frame(FrameKind.BATCH, said.SerializeToString()))
    assert got == [str(number) for number in range(len(messages))]


async def test_answer_leaves_at_the_end_of_the_read_that_brought_its_message(cable: Cable) -> None:
    data = frame(src="Worker/0/0", to="Mgr", uuid="up").data
    batch = link_pb2.Batch(messages=[data], patience=[3000], numbers=[7])
    await cable.write(write_frame(FrameKind.BATCH, batch.SerializeToString()))
    kind, payload = await cable.next_frame()
    assert (kind, read_delivered(payload)) == (FrameKind.DELIVERED, (7, 1))
    assert cable.node.delivered == ["up"]


async def test_answer_that_is_confirmed_later_leaves_at_once(cable: Cable) -> None:
    """Also where messages went to that end in batches before."""
    for message in bodies(2):
        cable.node.send(message)
    assert len((await cable.next_batch())[0]) == 2
    said = link_pb2.Batch(accepted_numbers=[1, 2], taken=1)
    await cable.write(write_frame(FrameKind.BATCH, said.SerializeToString()))
    await until(lambda: not cable.child.in_flight.count)
    for number in (8, 9):
        confirmed = Writes()
        confirmed.accepted.append(number)
        cable.link.write(confirmed)
    assert cable.link._answers == 1
    kind, payload = await cable.next_frame()
    assert (kind, read_delivered(payload)[0]) == (FrameKind.DELIVERED, 8)
    kind, payload = await cable.next_frame()
    assert (kind, list(link_pb2.Batch.FromString(payload).accepted_numbers)) == (FrameKind.BATCH, [9])


async def test_answer_to_a_message_that_is_alone_lets_the_next_one_leave_at_once(cable: Cable) -> None:
    messages = bodies(3)
    cable.node.send(messages[0])
    await cable.next_frame()
    for number, message in enumerate(messages[1:], 1):
        await cable.write(write_delivered(number, 1))
        await until(lambda: not cable.child.in_flight.count)
        cable.node.send(message)
        assert cable.child.queued_messages == 0
        kind, payload = await cable.next_frame()
        assert (kind, payload[-len(message.data) :]) == (FrameKind.MESSAGE, message.data)
        assert read_message(payload)[:3] == (number + 1, 3001, 1)


async def test_message_that_is_alone_does_not_overtake(cable: Cable) -> None:
    """Messages wait for the other end to take in the batches before. The answer that ends the wait brings a new one."""
    messages = iter(bodies(batched.BATCHES_AHEAD + 3))
    for _ in range(batched.BATCHES_AHEAD):
        cable.node.send(next(messages))
        await cable.next_batch()
    cable.node.send(next(messages))
    await asyncio.sleep(0)
    assert cable.child.queued_messages == 1

    sent = iter([next(messages)])
    perform = cable.node.perform

    def send_too(ready: Ready) -> None:
        perform(ready)
        for message in sent:
            cable.node.send(message)

    cable.node.perform = send_too  # type: ignore[method-assign]
    await cable.write(write_delivered(1, batched.BATCHES_AHEAD))
    uuids = [*(await cable.next_batch())[0]]
    if len(uuids) < 2:
        uuids += (await cable.next_batch())[0]
    assert uuids == [str(batched.BATCHES_AHEAD), str(batched.BATCHES_AHEAD + 1)]


async def test_large_messages_wait_while_two_batches_of_them_are_ahead(cable: Cable) -> None:
    """Two batches of a MiB stay in the processor's cache. The rest keeps its order."""
    uuids = [str(number) for number in range(48)]
    for message in bodies(len(uuids), 65_536):
        cable.node.send(message)
    found: list[str] = []
    for _ in range(direct.LARGE_AHEAD):
        batch, _ = await cable.next_batch()
        assert 2 <= len(batch) <= batches.DIRECT_BATCH_BYTES // 65_536
        found += batch
    assert (cable.stream.unsent, cable.child.queued_messages) == (0, len(uuids) - len(found))
    while len(found) < len(uuids):
        await cable.write(write_delivered(len(found), 1))
        found += (await cable.next_batch())[0]
    assert found == uuids


async def test_messages_of_one_read_join_for_their_next_hop(cable: Cable) -> None:
    """The last frame of a read alone leaves at once; what came before it waits for the end, and takes it along."""
    # A process that the kernel sets aside here would end its turn, and so the read.
    cable.flushes.reads.turn = 60.0
    data = [frame(src="Worker/0/0", to="Mgr", uuid=str(number)).data for number in range(3)]
    await cable.write(b"".join(write_message(number, 3000, 0, each) for number, each in enumerate(data, 1)))
    numbers: list[int] = []
    while len(numbers) < 3:
        kind, payload = await cable.next_frame()
        assert kind == FrameKind.BATCH
        numbers += link_pb2.Batch.FromString(payload).accepted_numbers
    assert numbers == [1, 2, 3]


async def test_message_alone_that_the_kernel_does_not_take_stays_under_way(cable: Cable) -> None:
    """It is written when the kernel has its last byte, and what comes after it waits."""
    large = frame("x" * 60_000, uuid="0")
    await cable.write(write_frame(FrameKind.PING))
    cable.link._fresh = True
    cable.node.send(large)
    assert cable.stream.unsent > 0
    assert (cable.child.queued_messages, cable.link.busy) == (1, True)
    cable.node.send(frame(uuid="1"))
    assert cable.child.queued_messages == 2
    got: list[str] = []
    while len(got) < 2:
        kind, payload = await cable.next_frame()
        got += [] if kind == FrameKind.PONG else messages_in(kind, payload)[0]
    assert got == ["0", "1"]
    await until(lambda: not cable.child.queued_messages)


async def test_message_alone_of_a_broken_link_was_not_sent_or_may_have_been(cable: Cable) -> None:
    """6000 for what the kernel had not in full; the other end has seen no more than its beginning."""
    cable.link._fresh = True
    answers = cable.node.send(frame("x" * 60_000, uuid="0"))
    assert cable.stream.unsent > 0
    cable.stream.abort()
    await soon(cable.running)
    cable.down()
    assert [answer.code for answer in answers] == [Code.NETWORK_SEND_LOST]


async def test_end_that_does_not_read_costs_one_batch_beside_the_queue(cable: Cable) -> None:
    """Messages that the kernel does not take wait in the link, within its bounds; beyond them the answer is 5001."""
    sent: list[list[Ack]] = []
    for number in range(2 * limits.LINK_BYTES // 200_000):
        sent.append(cable.node.send(frame("x" * 200_000, uuid=str(number))))
        await asyncio.sleep(0)
    assert limits.LINK_BYTES - 300_000 < cable.child.queued_bytes <= limits.LINK_BYTES
    assert cable.stream.unsent <= batches.DIRECT_BATCH_BYTES + 1000
    assert {answers[0].code for answers in sent if answers} == {Code.RECV_BUF_BUSY}
    assert sum(not answers for answers in sent) == cable.child.in_flight.count


@pytest.mark.parametrize("size", [100, 3000, 100_000])
async def test_6000_and_6001_are_told_apart_by_what_the_kernel_has(cable: Cable, size: int) -> None:
    """Batches that the other end can read in full may have been delivered. Nobody has read any other."""
    sent = {str(number): cable.node.send(frame("x" * size, uuid=str(number))) for number in range(100)}
    for _ in range(5):
        await asyncio.sleep(0)
    cable.stream.abort()
    await soon(cable.running)
    cable.down()
    seen: list[str] = []
    while count := await soon(cable.loop.sock_recv_into(cable.far, cable.reader.space())):
        cable.reader.received(count)
        while (found := cable.reader.next()) is not None:
            seen += messages_in(found[0], bytes(found[1]))[0]
    codes = {uuid: answers[0].code for uuid, answers in sent.items()}
    assert [uuid for uuid, code in codes.items() if code == Code.NETWORK_ACK_LOST] == seen
    assert set(codes.values()) <= {Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST}
    assert size < 100_000 or Code.NETWORK_SEND_LOST in codes.values()


async def test_batch_goes_on_when_the_kernel_has_room_again(cable: Cable) -> None:
    for message in bodies(6, 150_000):
        cable.node.send(message)
    await asyncio.sleep(0)
    assert cable.child.queued_messages == 6
    got: list[str] = []
    while len(got) < 6:
        got += (await cable.next_batch())[0]
    assert got == [str(number) for number in range(6)]
    await until(lambda: not cable.child.queued_messages)


async def test_one_byte_at_a_time(cable: Cable) -> None:
    data = frame(src="Worker/0/0", to="Mgr", uuid="up").data
    batch = link_pb2.Batch(messages=[data], patience=[3000], numbers=[7]).SerializeToString()
    for byte in write_frame(FrameKind.BATCH, batch):
        await cable.write(bytes([byte]))
        await asyncio.sleep(0)
    await cable.next_frame()
    assert cable.node.delivered == ["up"]


async def test_message_alone_is_decided_as_a_batch_of_one(cable: Cable) -> None:
    """Delivered, again, unreadable, without an answer: the same answers, and the same place in the count of batches."""
    good = frame(src="Worker/0/0", to="Mgr", uuid="up").data
    post = frame(src="Worker/0/0", to="Mgr", uuid="post", sync=False).data
    await cable.write(write_message(7, 3000, 0, good))
    assert await cable.next_frame() == (FrameKind.DELIVERED, write_delivered(7, 1)[5:])
    await cable.write(write_message(8, 3000, 1, good))
    assert await cable.next_frame() == (FrameKind.DELIVERED, write_delivered(8, 1)[5:])
    await cable.write(write_message(0, 0, 1, post) + write_message(9, 3000, 0, b"\xff\xff"))
    _, payload = await cable.next_frame()
    batch = link_pb2.Batch.FromString(payload)
    assert (list(batch.answer_numbers), batch.taken) == ([9], 2)
    assert codec.read_ack(batch.answers[0], WORKER).code == Code.NIL_MESSAGE
    assert cable.node.delivered == ["up", "post"]


async def test_fault_under_a_message_alone_is_answered(cable: Cable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(cable.node.router, "messages_arrived", fails)
    await cable.write(write_message(7, 3000, 0, frame(src="Worker/0/0", to="Mgr", uuid="up").data))
    _, payload = await cable.next_frame()
    batch = link_pb2.Batch.FromString(payload)
    assert list(batch.answer_numbers) == [7]
    assert codec.read_ack(batch.answers[0], WORKER).code == Code.SERVER_ERR
    assert not cable.running.done()


async def test_fault_of_this_package_is_logged_and_ends_the_link(
    cable: Cable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(cable.node.router, "answers_arrived", fails)
    await cable.write(write_delivered(1, 1))
    await soon(cable.running)
    assert "link_failed" in caplog.text


async def test_aborted_link_writes_nothing_more(cable: Cable) -> None:
    first, second = bodies(2)
    cable.node.send(first)
    await cable.next_frame()
    await cable.write(write_delivered(1, 1))
    await until(lambda: not cable.child.in_flight.count)
    cable.link.abort()
    cable.node.send(second)  # it would leave at once
    assert cable.child.queued_messages == 1
    await soon(cable.running)
    assert [message.uuid for message, _ in cable.link.unwritten()] == [second.uuid]


async def test_message_alone_counts_as_no_answer(cable: Cable) -> None:
    """The bound on answers that the other end does not take is kept by this count."""
    await cable.write(write_frame(FrameKind.PING))
    await cable.next_frame()
    assert cable.child.quota is not None
    cable.child.quota.add(1, 0)
    cable.child.waiting = 1  # a message of the child's has no answer yet
    cable.link._fresh = True
    cable.node.send(frame(uuid="0"))
    assert cable.child.queued_messages == 0
    assert cable.child.waiting == 1


async def test_link_that_another_node_has_replaced_says_nothing_any_more(cable: Cable) -> None:
    cable.node.links[cable.child.id] = DirectLink(cable.node, cable.child.id, WORKER, cable.stream, numbered=True)
    await cable.write(write_message(7, 3000, 0, frame(src="Worker/0/0", to="Mgr", uuid="up").data))
    await cable.write(write_frame(FrameKind.END, b"the last"))
    await soon(cable.running)
    assert not cable.node.delivered


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x00",
        write_frame(FrameKind.MESSAGE, bytes(12)),
        write_frame(FrameKind.DELIVERED, bytes(8)),
        write_frame(FrameKind.DELIVERED, bytes(10)),
        write_frame(FrameKind.GREETING),
        write_accepted(True),
        write_frame(FrameKind.BATCH, b"\xff\xff\xff"),
        bytes([0, 0, 0, 0, 99]),
    ],
)
async def test_end_that_breaks_the_rules_ends_the_link(cable: Cable, data: bytes) -> None:
    await cable.write(data)
    await soon(cable.running)
    assert cable.node.accused == [("Worker/0/0", Code.NET_ERR)]


async def test_number_on_a_link_without_numbers_ends_it(cable: Cable) -> None:
    cable.link.numbered = False
    await cable.write(write_delivered(1, 1))
    await soon(cable.running)
    assert cable.node.accused == [("Worker/0/0", Code.NET_ERR)]


async def test_end_in_the_middle_of_a_frame_is_the_end_of_the_link(cable: Cable) -> None:
    await cable.write(b"\x10\x00\x00\x00\x00abc")
    cable.far.shutdown(socket.SHUT_RDWR)
    await soon(cable.running)
    assert not cable.node.accused
    assert cable.stream.reason == "the connection was closed: the other process has ended, or was killed"


async def test_last_frame_gives_the_reason(cable: Cable) -> None:
    await cable.write(write_frame(FrameKind.END, b"out of turn"))
    await soon(cable.running)
    assert cable.stream.reason == "out of turn"


@pytest.mark.parametrize("kind", [FrameKind.PING, FrameKind.PONG])
async def test_flood_of_signs_of_life_ends_the_link(cable: Cable, kind: FrameKind) -> None:
    """A reader that stood still has the pings of a minute before it: they end nothing."""
    most = direct_socket.SIGNS
    await cable.write(write_frame(kind) * most)
    await until(lambda: cable.stream._signs == most)
    assert not cable.running.done()
    await cable.write(write_frame(kind) * 20_000)
    await soon(cable.running)
    assert cable.stream.fault == f"more than {most} pings and pongs in a second"


async def test_other_links_have_their_turn_between_many_small_frames(
    cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, most = 0, 20
    cable.flushes.reads.turn = direct_socket.REQUEST_S * (most - 0.5)

    def arrived(*_: object) -> None:
        nonlocal requests
        requests += 1

    monkeypatch.setattr(DirectLink, "arrived_beside", arrived)
    data = write_frame(FrameKind.REQUEST) * (3 * most) + write_frame(FrameKind.END, b"the last")
    cable.stream.get_buffer(-1)[: len(data)] = data
    cable.stream.buffer_updated(len(data))
    for turn in range(1, 4):
        assert requests == turn * most
        await asyncio.sleep(0)
    await soon(cable.running)
    assert cable.stream.reason == "the last"


async def test_nothing_is_read_while_a_batch_is_taken_in_by_slices(
    cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = [True, False]
    monkeypatch.setattr(DirectLink, "take_in", lambda *_: True)
    monkeypatch.setattr(DirectLink, "take_in_slice", lambda _: slices.pop(0))
    data = write_frame(FrameKind.BATCH)
    cable.stream.get_buffer(-1)[: len(data)] = data
    cable.stream.buffer_updated(len(data))
    assert not cable.stream._transport.is_reading()
    await until(lambda: not slices)
    assert cable.stream._transport.is_reading()


async def test_other_links_have_their_turn_between_batches_that_take_long(
    cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def take_in(*_: object) -> bool:
        nonlocal taken
        taken += 1
        return False

    await asyncio.sleep(2 * GAP_S)  # the bytes of the join count for the turn before
    cable.flushes.reads.turn = 1e-9
    monkeypatch.setattr(DirectLink, "take_in", take_in)
    data = write_frame(FrameKind.BATCH) * 3 + write_frame(FrameKind.END, b"the last")
    cable.stream.get_buffer(-1)[: len(data)] = data
    cable.stream.buffer_updated(len(data))
    for turn in range(1, 4):
        assert taken == turn
        await asyncio.sleep(0)
    await soon(cable.running)
    assert cable.stream.reason == "the last"


async def test_frames_that_come_before_the_link_stands_are_kept() -> None:
    near, far = connected()
    stream = DirectSocket()
    await asyncio.get_running_loop().create_connection(lambda: stream, sock=near)
    far.sendall(write_accepted(True) + write_frame(FrameKind.END, b"later"))
    assert await soon(stream.first) == (FrameKind.ACCEPTED, b"\x01")
    await until(lambda: stream._paused)
    assert stream.reason == ""
    assert not stream._transport.is_reading(), "the kernel keeps the rest, and lets the other end wait"
    far.close()
    node = FakeNode("Worker/0/0")
    link = DirectLink(node, 0, Position.mgr(), stream)
    await soon(link.run())
    assert stream.reason == "later"
    stream.abort()
    await soon(stream.over.wait())


async def test_forked_child_does_not_keep_the_connection_open(cable: Cable) -> None:
    """A data loader outlives the training process that was killed."""
    theirs, ours = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        cable.link.forked()
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    cable.stream.abort()
    assert await soon(cable.loop.sock_recv(cable.far, 1)) == b""
    ours.close()
    assert await asyncio.to_thread(os.waitpid, child, 0) == (child, 0)


async def test_ping_is_answered(cable: Cable) -> None:
    await cable.write(write_frame(FrameKind.PING))
    assert await cable.next_frame() == (FrameKind.PONG, b"")


QUICK = LinkTimes(
    **{name: getattr(TIMES, name) / 20 for name in ("keepalive", "keepalive_timeout", "not_answering", "silent")}
)
"""Seconds that are twentieths."""


@pytest.fixture
async def quick() -> AsyncIterator[Cable]:
    """A link whose seconds are twentieths."""
    cable = Cable(QUICK)
    cable.flushes.acknowledgements = Acknowledgements(cable.loop, LOOK_S / 20, QUICK.keepalive_timeout)
    yield await cable.begin()
    await cable.close()


async def test_silent_end_is_pinged_and_let_go_after_its_time(quick: Cable) -> None:
    began = quick.stream._heard
    assert await quick.next_frame() == (FrameKind.PING, b"")
    assert time.monotonic() - began >= QUICK.keepalive * 0.9
    await soon(quick.running)
    assert time.monotonic() - began >= QUICK.silent * 0.9
    assert quick.stream.reason.startswith("no sign of life for")
    # A reset reaches an end that hears, but is not heard.
    with pytest.raises(ConnectionResetError):
        await quick.read_until_end()


async def test_silent_end_is_answered_for_at_once_until_it_gives_a_sign_of_life(quick: Cable) -> None:
    answers = quick.node.send(frame(uuid="early"))
    await until(lambda: answers)
    assert answers[0].code == Code.NETWORK_ACK_LOST
    assert answers[0].src == WORKER
    assert quick.node.send(frame(uuid="late"))[0].code == Code.NETWORK_ACK_LOST
    assert not quick.running.done()
    await quick.write(write_frame(FrameKind.PONG))
    await until(lambda: not quick.child.silent)
    assert not quick.node.send(frame(uuid="after"))


async def test_any_frame_is_a_sign_of_life(quick: Cable) -> None:
    pings, began = 0, time.monotonic()
    while time.monotonic() - began < 1.2 * QUICK.silent:
        assert await quick.next_frame() == (FrameKind.PING, b"")
        await quick.write(write_frame(FrameKind.PONG))
        pings += 1
    assert not quick.running.done()
    assert pings <= 1.5 * QUICK.silent / QUICK.keepalive


async def test_end_whose_bytes_wait_for_their_turn_is_not_silent(cable: Cable) -> None:
    stream, reads = cable.stream, cable.flushes.reads
    reads.turn = 0.0
    await cable.write(write_frame(FrameKind.PONG))
    await until(lambda: stream in reads.waiting)
    for silent in (limits.NOT_ANSWERING_S, limits.SILENT_S):
        stream._heard = time.monotonic() - silent
        stream._look(time.monotonic())
        assert not cable.child.silent
        assert not stream.closing()
    reads.turn = TURN_S
    await until(lambda: stream._signs)


def connected_here() -> tuple[socket.socket, socket.socket]:
    """Both ends of a Unix socket."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


@pytest.mark.parametrize("ends", [connected, connected_here])
async def test_end_that_reads_slowly_is_not_silent_until_it_reads_no_more(
    ends: Callable[[], tuple[socket.socket, socket.socket]],
) -> None:
    cable = await Cable().begin(ends())
    stream = cable.stream

    def silent_after(seconds: float) -> bool:
        """Look at the other end, from which nothing has come for these seconds."""
        assert stream._timer is not None
        stream._timer.cancel()
        stream._heard = time.monotonic() - seconds
        stream._look(time.monotonic())
        return cable.child.silent

    cable.node.send(frame("x" * 4_194_304, uuid="large"))
    await until(lambda: stream.unsent > 0)
    assert not silent_after(limits.KEEPALIVE_TIME_S)
    for _ in range(8):
        unsent = stream.unsent
        while stream.unsent == unsent:
            await soon(cable.loop.sock_recv(cable.far, 16_384))
        assert not silent_after(limits.SILENT_S)
        assert not stream.closing()
    assert silent_after(limits.NOT_ANSWERING_S)
    unsent = stream.unsent
    while stream.unsent == unsent:
        await soon(cable.loop.sock_recv(cable.far, 16_384))
    assert not silent_after(limits.SILENT_S), "it reads again"
    silent_after(limits.SILENT_S)
    assert stream.closing()
    await cable.close()


async def test_end_that_has_all_bytes_is_silent_without_a_sign(cable: Cable) -> None:
    stream = cable.stream
    for _ in range(3):
        cable.stream.control(write_frame(FrameKind.PONG))
        await cable.next_frame()
        await until(lambda: not progress(stream.info("socket"), stream.unsent)[0])
        stream._heard = time.monotonic() - limits.NOT_ANSWERING_S
        stream._look(time.monotonic())
    assert cable.child.silent


async def test_end_is_not_blamed_for_a_loop_that_stood_still(quick: Cable) -> None:
    await asyncio.sleep(0)
    time.sleep(1.2 * QUICK.silent)  # noqa: ASYNC251 - the process is held
    await quick.write(write_frame(FrameKind.PONG))
    assert await quick.next_frame() == (FrameKind.PING, b"")
    await quick.write(write_frame(FrameKind.PONG))
    assert await quick.next_frame() == (FrameKind.PING, b"")
    assert not quick.running.done()


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_loop_of_a_link_is_freed_when_it_is_closed(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A process may have many, one after another, each with a buffer for what its links read."""
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def play() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        cable = await Cable().begin()
        cable.node.send(frame(uuid="sent"))
        assert (await cable.next_batch())[0] == ["sent"]
        await cable.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(play())
    del runner
    gc.collect()
    assert loops[0]() is None
