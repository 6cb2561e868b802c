"""The kind of link that every peer knows: the four calls.

Messages go down `InitServerDownStream`, and their Acks up it; messages go up by `TransferMessage`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping
from typing import Final, Self

import grpc

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import Answer
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP, Link
from taskd_net.core.ready import Key, Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links.grpc_calls import SERVICE, Handler
from taskd_net.net.links.grpc_stream import ServerPipe, open_stream, stream_handler
from taskd_net.net.links.kind import Acceptor, LinkKind, Opened, Parent, Way
from taskd_net.net.links.large_writes import LARGE_WRITE_BYTES
from taskd_net.net.links.ordered_acks import OrderedAcks, Pulse
from taskd_net.net.links.peer import Profile
from taskd_net.net.links.session import Host, Pipe, Session
from taskd_net.net.links.transfers import Transfers
from taskd_net.net.links.unary import UnaryWriter
from taskd_net.net.wire import codec

NAME: Final = "tasknet"

PROBED: Final = 2
"""Answer to a probe that ends at a link of this kind (`kind.LinkKind`)."""
STREAM: Final = f"/{SERVICE}/InitServerDownStream"


class ToChild(Session[bytes]):
    """The parent's end: writes messages, reads Acks."""

    kind, probed = NAME, PROBED
    by_calls = True

    def __init__(self, host: Host, link: LinkId, peer: Position, pipe: Pipe[bytes], profile: Profile) -> None:
        super().__init__(host, link, peer, pipe)
        self._profile = profile
        self._queue: deque[Frame] = deque()
        self._broken: Frame | None = None

    def write(self, writes: Writes) -> None:
        """Queue messages for the child. The answers to its own messages go by their calls."""
        self._queue += writes.frames
        self._wake()

    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue."""
        try:
            self._queue.remove(frame)
        except ValueError:
            return False
        return True

    def unwritten(self) -> list[tuple[Frame, int]]:
        """The messages that the child never got."""
        broken, self._broken = self._broken, None
        self._interrupted(() if broken is None else (broken,))
        left = [(frame, 0) for frame in self._queue]
        self._queue.clear()
        return left

    def _move_queue(self, successor: Self) -> None:
        successor._queue, self._queue = self._queue, deque()

    def _has_queued(self) -> bool:
        return bool(self._queue)

    def _has_output(self) -> bool:
        return bool(self._queue) and not self._large.held

    async def _write_next(self) -> bool:
        size = len(self._queue[0].data)
        if size >= LARGE_WRITE_BYTES and not self._large.may_begin(size, self._wake):
            return True
        frame = self._queue.popleft()
        try:
            data = frame.data if self._profile.checks else codec.write_checked(frame)
        except Refusal as refusal:
            self._refuse(frame, refusal)
            return True
        self._broken = frame
        if not await self._pipe.write(data):
            return False
        self._broken = None
        self._router.written(self.link, self, 1, len(frame.data))
        if not frame.sync:
            # The wire has no answer to a `sync=false` message from above: written is taken.
            host = self._host
            host.perform(self._router.posts_answered(host.now(), self.link, (frame,), Code.OK, self.peer))
        return True

    def _refuse(self, frame: Frame, refusal: Refusal) -> None:
        host, router = self._host, self._router
        now, src, detail = host.now(), router.position, refusal.detail
        router.written(self.link, self, 1, len(frame.data))
        if frame.sync:
            host.perform(router.answers_arrived(now, self.link, (), [Answer(frame.uuid, refusal.code, src, detail)]))
        else:
            host.perform(router.posts_answered(now, self.link, (frame,), refusal.code, src, detail))

    def _take_in(self, data: bytes) -> None:
        host = self._host
        try:
            ack = codec.read_ack(data, self.peer)
        except Refusal as refusal:
            host.log.warning("ack_unreadable", child=str(self.peer), detail=refusal.detail)
            return
        if self.successor is not None or host.links.get(self.link) is self:
            answer = Answer(ack.uuid, ack.code, ack.src)
            host.perform(self._router.answers_arrived(host.now(), self.link, (), [answer]))


class ToParent(Session[bytes]):
    """The child's end: reads messages, writes Acks, and sends its own messages by unary calls."""

    kind, probed = NAME, PROBED

    def __init__(
        self,
        host: Host,
        link: LinkId,
        peer: Position,
        pipe: Pipe[bytes],
        profile: Profile,
        channel: grpc.aio.Channel,
        ack_timeout: float,
    ) -> None:
        super().__init__(host, link, peer, pipe)
        self._acks: deque[bytes] = deque()
        here, turns = host.router.position, host.large_writes
        self._calls = UnaryWriter(channel, here, peer, profile, ack_timeout, turns, self._written, self._answered)
        self._line = OrderedAcks(host.now, self._reply, self._too_late) if profile.next_ack else None
        self._pulse = Pulse(self._loop) if profile.next_ack else None

    def write(self, writes: Writes) -> None:
        """Send messages to the parent, each by a call, and answers up the stream."""
        for frame, patience in zip(writes.frames, writes.patience, strict=True):
            self._calls.put(frame, patience)
        for key, ack, _ in writes.answers:
            self._answer(key, ack)

    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue, or end its call."""
        return self._calls.withdraw(frame)

    def unwritten(self) -> list[tuple[Frame, int]]:
        """The messages whose calls had not begun."""
        if self._pulse is not None:
            self._pulse.stop()
        return [(frame, 0) for frame in self._calls.close()]

    @property
    def busy(self) -> bool:
        """True while a message is being written or is queued, or a call is in flight."""
        return super().busy or (not self._closed and self._calls.busy)

    async def pause(self) -> None:
        """Write no more and begin no more calls, but queue; returns when what has to be in order has got there.

        A parent that counts the Acks of a stream gets, within a bounded time, all that it waits for.
        """
        await self._calls.pause()
        if self._line is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._host.times.renewal):
                    await self._line.empty()
                    await self.idle()
        await super().pause()

    def resume(self) -> None:
        """Go on writing after all."""
        self._calls.resume()
        super().resume()

    async def finish(self) -> None:
        """After `hand_over`: wait for the answers to the calls that are under way."""
        await self._calls.finish()

    def _move_queue(self, successor: Self) -> None:
        self._calls.move_to(successor._calls)
        successor._acks, self._acks = self._acks, deque()
        if self._pulse is not None:
            self._pulse.stop()

    def _reply(self, ack: Ack) -> None:
        if not self._closed:
            self._acks.append(codec.write_ack(ack))
            self._wake()
        elif self.successor is not None and self._line is None:
            self.successor._reply(ack)

    def _has_queued(self) -> bool:
        return bool(self._acks)

    async def _write_next(self) -> bool:
        if not await self._pipe.write(self._acks.popleft()):
            return False
        self._router.written(UP, self, 0, 0, 1)
        return True

    def _take_in(self, data: bytes) -> None:
        host, router = self._host, self._router
        try:
            frame = codec.read_frame(data)
        except Refusal as refusal:
            host.log.warning("message_refused", parent=str(self.peer), detail=refusal.detail)
            if refusal.sync and (refusal.uuid or self._line is not None):
                key, _ = self._expect(refusal.uuid)
                host.perform(router.messages_arrived(host.now(), UP, (), (), (), [(key, refusal)]))
            return
        expected, budget = self._expect(frame.uuid) if frame.sync else (None, None)
        try:
            ready = router.messages_arrived(host.now(), UP, (frame,), (expected,), (budget,))
        except Exception:
            # The gate: a parent that counts the answers would take every later one for the wrong message.
            host.log.exception("request_failed", peer=str(self.peer))
            if expected is not None:
                self._answer(expected, Ack(frame.uuid, Code.SERVER_ERR, router.position))
            return
        host.perform(ready)

    def _expect(self, uuid: str) -> tuple[Key, float | None]:
        """The name of a sync message in its answer, and the seconds until that is due, if they are known."""
        if self._line is None or self._pulse is None:
            return uuid, None
        waited = self._pulse.waited()
        return self._line.expect(waited), max(0.0, limits.ORIGINAL_ANSWER_S - waited)

    def _answer(self, key: Key, ack: Ack) -> None:
        if self._line is not None and isinstance(key, int):
            self._line.answer(key, ack)
        else:
            self._reply(ack)

    def _too_late(self) -> None:
        self._host.log.warning("ack_too_late", parent=str(self.peer))
        self.close()

    def _written(self, frame: Frame) -> None:
        self._router.written(UP, self, 1, len(frame.data))

    def _answered(self, frame: Frame, ack: Ack) -> None:
        host, router = self._host, self._router
        now = host.now()
        if frame.sync:
            host.perform(router.answers_arrived(now, UP, (), [Answer(frame.uuid, ack.code, ack.src, ack.detail)]))
        else:
            host.perform(router.posts_answered(now, UP, (frame,), ack.code, ack.src, ack.detail))


class _Acceptor(Transfers):
    """The parent's end of this kind."""

    def handlers(self) -> Mapping[str, Handler]:
        """The calls of messages, up and down."""
        parent = self._parent

        def to_child(link: Link, pipe: ServerPipe) -> ToChild:
            return ToChild(parent.host, link.id, link.position, pipe, parent.connections.peer(link.id).profile)

        return {
            f"/{SERVICE}/TransferMessage": grpc.unary_unary_rpc_method_handler(self.take),
            STREAM: stream_handler(parent, to_child),
        }


class Tasknet(LinkKind):
    """The four calls: offered by every parent, without a word."""

    name, probed = NAME, PROBED

    async def open(self, way: Way) -> Opened:
        """Open the stream, and send messages by calls of the same channel."""
        pipe, _ = await open_stream(way, STREAM)
        profile, channel = way.peer.profile, way.channel
        return Opened(ToParent(way.host, UP, way.parent, pipe, profile, channel, way.ack_timeout), pipe)

    def acceptor(self, parent: Parent) -> Acceptor:
        """The parent's end."""
        return _Acceptor(parent)


KIND: Final = Tasknet()
