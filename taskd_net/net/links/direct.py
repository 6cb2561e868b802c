"""The direct link between two nodes of ours: batches over a plain socket.

The batches and their order are those of the batched link. Only the writing differs: no task waits for the stream, the
link writes as many batches as the kernel takes when it is flushed, and goes on when the kernel has them.

- A message or answer that is alone leaves at once, in a frame of its own. So the next hop decides on it while this loop
  turns.
- What comes together leaves in pieces, the first ones while the others are still being decided on. So several nodes
  work on a stream of messages at the same time.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Self, cast

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.frame import Frame
from taskd_net.core.identity import Violation
from taskd_net.core.ready import Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links.batched import BATCHES_AHEAD, BatchedLink
from taskd_net.net.links.direct_requests import Beside
from taskd_net.net.links.direct_socket import DirectSocket
from taskd_net.net.links.large_writes import LARGE_WRITE_BYTES, LargeWriter
from taskd_net.net.links.peer import Peer
from taskd_net.net.links.session import Host, Session, rouse
from taskd_net.net.links.traced import TracedLink
from taskd_net.net.wire import codec
from taskd_net.net.wire.batches import DIRECT_BATCH_BYTES
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.net.wire.socket_frames import (
    FrameError,
    FrameKind,
    read_delivered,
    read_message,
    write_delivered,
    write_frame,
    write_message,
)

LARGE_AHEAD: Final = 2
"""Batches ahead of the other end beyond which none of more than BATCH_BYTES is written: what lies between two processes
then stays in the processor's cache. At least BATCHES_CONFIRMED, or a link without answers would stand still."""

PIECE: Final = 32
"""Messages or answers of a direct link that leave before the turn of the loop is over. Fewer: each piece costs some
40 µs at every hop. More: with 64 messages in flight one node works at a time, and a fifth of the rate is lost."""

PIECES_AHEAD: Final = 2
"""Batches ahead of the other end from which on a piece is larger: every node has one to work on."""

PIECES: Final = 64
"""Messages of such a piece, and in one batch at most: with 256 in flight a fifth more than with pieces of 32."""

KEY: Final = "taskd-net-direct"
"""The key of a parent's offer, in its answer to Register."""

NAME: Final = "direct"

PROBED: Final = 4
"""Answer to a probe that ends at a link of this kind (`kind.LinkKind`)."""

_FINISH: Final = write_frame(FrameKind.END)
_PONG: Final = write_frame(FrameKind.PONG)

# As numbers, as in `direct_socket`.
_BATCH: Final = int(FrameKind.BATCH)
_MESSAGE: Final = int(FrameKind.MESSAGE)

_MOST_TAKEN: Final = 255


class DirectLink(BatchedLink):
    """Either end of the link: both do the same.

    Of the `Session`'s sleep only the mark is used: None while something is due or under way.

    Args:
        host, link, peer: as in `Session`.
        pipe: the socket.
        numbered, counts: as in `BatchedLink`.

    Attributes:
        unsaid: frames beside the batches that have not left.
    """

    kind, probed = NAME, PROBED
    most_messages = PIECES
    most_bytes = DIRECT_BATCH_BYTES

    def __init__(self, host: Host, link: LinkId, peer: Position, pipe: DirectSocket, **more: Any) -> None:
        super().__init__(host, link, peer, cast(Any, pipe), **more)
        self._socket = pipe
        self._beside: Beside | None = None
        self.unsaid: list[bytes] = []
        self._large = LargeWriter(self._flushes.large, LARGE_AHEAD)
        self._asleep = self._loop.create_future()
        self._ended = asyncio.Event()
        # The kernel has not all of the batch under way.
        self._held = False
        # Messages of the last batch that had any.
        self._last = 0
        # Nothing was written since something came in. Outside a read the next output leaves at once then: a message, if
        # they come one by one, and answers, as an application that confirms gives all of them in one go.
        self._fresh = False

    @property
    def lost(self) -> str:
        """The reason for which the link has ended: the other end's, the kernel's, or that of the signs of life."""
        return self._socket.reason or "ended by this node"

    def attend(self, beside: Beside) -> None:
        """Hand requests or replies to this end of them, which writes its own here."""
        self._beside = beside
        beside.attach(self)

    async def run(self) -> None:
        """Write what is queued, and hand over what comes in, until the link has ended or `close` is called."""
        try:
            self._socket.attach(self)
            # In the next turn: the reply to the request that came with the greeting leaves with what is there.
            self._flushes.add(self)
            await self._writer_over
            if self.successor is not None:
                self._socket.control(_FINISH)
                async with asyncio.timeout(self._host.times.renewal):
                    await self._ended.wait()
        except TimeoutError:
            pass
        finally:
            self.close()
            self._socket.detach()
            if self._beside is not None and self.successor is None:
                self._beside.ended()
            self.over.set()

    def write(self, writes: Writes) -> None:
        """Queue messages and answers. What is alone, and a whole piece, leaves at once."""
        if self._sleep is not None and len(writes.frames) + len(writes.accepted) == 1 and self._passes(writes):
            self._write_alone(writes)
            return
        super().write(writes)
        piece = PIECE if self._ahead < PIECES_AHEAD else PIECES
        if (len(self._frames) >= piece or self._answers >= piece) and not self._held:
            self._write_batches()

    def flush(self) -> None:
        """Write what is queued, as far as the kernel takes it."""
        if self._held or not self._write_batches():
            return
        self._sleep = self._asleep
        if self._idle is not None and not self._has_queued():
            rouse(self._idle)
        if self._paused:
            rouse(self._quiet)

    def _passes(self, writes: Writes) -> bool:
        """True if the one message, or the one answer 0, may leave at once: nothing waits, and nothing joins it.

        A subclass of Frame says more than its data, which a batch alone carries.
        """
        flushes = self._flushes
        return (
            (flushes.last if flushes.reading else self._fresh and (self._last <= 1 or not writes.frames))
            and self.numbered
            and not (writes.answers or self._frames or self._answers or self._paused or self._closed or self.traces)
            and self._ahead < BATCHES_AHEAD
            and not (writes.frames and len(writes.frames[0].data) >= LARGE_WRITE_BYTES)
            and not (writes.frames and type(writes.frames[0]) is not Frame)
            and not self._socket.closing()
        )

    def _write_alone(self, writes: Writes) -> None:
        """Write a batch of one message, or of one answer 0."""
        self._fresh = False
        self._ahead += 1
        taken, self._taken = self._taken, 0
        taken = min(taken, _MOST_TAKEN)
        if writes.accepted:
            self._counts_under_way = 0, 0, 1
            data = write_delivered(cast(int, writes.accepted[0]), taken)
        else:
            frame, number, patience = writes.frames[0], writes.numbers[0], writes.patience[0]
            self._last = 1
            self._counts_under_way = 1, len(frame.data), 0
            self._under_way, self._numbers_under_way = [frame], [number]
            # As in `BatchedLink.write`.
            wait = int(patience * 1000.0) + 1 if patience > 0.0 else 0
            data = write_message(number, wait, taken, frame.data)
        if self._socket.write(data):
            self._batch_written()
        else:
            self._held, self._sleep = True, None

    def say(self, frame: bytes) -> None:
        """Write a frame beside the batches, here or where the link goes on."""
        link = self
        while link.successor is not None:
            link = link.successor
        link.unsaid.append(frame)
        link._wake()

    def _write_batches(self) -> bool:
        """Write frames and batches. Returns False where the kernel has not all of the last one: `drained` comes."""
        socket = self._socket
        if self.unsaid and not (self._paused or self._closed):
            frames, self.unsaid = b"".join(self.unsaid), []
            if not socket.control(frames):
                self._held = True
                return False
        while self._has_output() and not (self._paused or self._closed):
            if socket.closing():
                return False
            batch = self._next_batch()
            if batch is not None:
                self._last = len(self._under_way) or self._last
                if not socket.write_batch(batch):
                    self._held = True
                    return False
                self._batch_written()
        return True

    def close(self) -> None:
        """Let `run` return; what is queued stays unwritten."""
        super().close()
        rouse(self._writer_over)

    def follows(self, before: Session[Any]) -> bool:
        """True if this link can go on where another one comes to rest: one of batches, on the same terms."""
        traced = isinstance(self, TracedLink)
        return (
            isinstance(before, BatchedLink) and isinstance(before, TracedLink) == traced and before.terms == self.terms
        )

    def hand_over(self, successor: Self) -> None:
        """Let another session of the link go on where this one has come to rest."""
        super().hand_over(successor)
        rouse(self._writer_over)

    def unwritten(self) -> list[tuple[Frame, int]]:
        """The messages of which the kernel has not had the last byte: nobody has read their batch."""
        left: list[tuple[Frame, int]] = []
        if self._socket.gone:
            left += zip(self._under_way, self._numbers_under_way, strict=False)
            self._under_way = []
        return left + super().unwritten()

    def forked(self) -> None:
        """Let go of the child's copy of the socket."""
        self._socket.forked()

    def _move_queue(self, successor: Self) -> None:
        super()._move_queue(successor)
        successor.unsaid, self.unsaid = self.unsaid + successor.unsaid, []
        if self._beside is not None and successor._beside is not None:
            successor._beside.follow(self._beside)

    def _has_queued(self) -> bool:
        return super()._has_queued() or bool(self.unsaid)

    def take_in(self, kind: int, data: bytes | memoryview) -> bool:
        """Decide on a batch."""
        self._fresh = True
        try:
            if kind == _BATCH:
                self._take_in(data)
            else:
                self._take_in_alone(kind, data)
        except FrameError as error:
            self.broken(str(error))
        except Exception as error:  # noqa: BLE001 - logged there
            self._failed(error)
        return bool(self._rest)

    def take_in_slice(self) -> bool:
        """Decide on the next slice of it."""
        try:
            self._take_in_rest()
        except Exception as error:  # noqa: BLE001 - logged there
            self._failed(error)
        return bool(self._rest)

    def pinged(self) -> None:
        """Give a sign of life. One answers all that have come: an end that does not read lets nothing pile up here."""
        if _PONG not in self.unsaid:
            self.say(_PONG)

    def arrived_beside(self, kind: int, payload: bytes) -> None:
        """Take in a frame beside the batches.

        Raises:
            FrameError: it breaks the rules of the link.
        """
        if self._beside is None:
            raise FrameError(f"a frame of kind {kind}")
        self._beside.arrived(kind, payload)

    def drained(self) -> None:
        """The kernel has all that was written."""
        self._held = False
        if not self._closed:
            self._batch_written()
            self.flush()
        elif self._under_way:
            self._batch_written()

    def answering(self, *, seen: bool) -> None:
        """The other end gives no sign of life, or gives one again."""
        host = self._host
        if not self._closed:
            host.perform(self._router.signs_of_life(host.now(), self.link, self, seen=seen))

    def left(self) -> None:
        """The other end writes no more: it goes on over another socket."""
        self._ended.set()
        self._socket.reason = self._socket.reason or "the other end goes on over another connection"
        super().left()

    def ended(self) -> None:
        """The other end has ended the link, or the socket is gone; after `left` that is no news."""
        self._ended.set()
        if not self._left:
            self.close()

    def broken(self, reason: str) -> None:
        """The other end has broken the rules of the link."""
        host = self._host
        host.perform(self._router.bounds_broken(host.now(), self.link, self, Violation(Code.NET_ERR, reason)))

    def _failed(self, error: Exception) -> None:
        """Log a fault of this package, and end the link: it begins again with a new socket."""
        self._host.log.error("link_failed", peer=str(self.peer), exc_info=error)
        self.close()

    def _take_in_alone(self, kind: int, data: bytes | memoryview) -> None:
        """Decide on a batch of one message, or of one answer 0.

        Raises:
            FrameError: it is too short, or this link has no numbers.
        """
        host, patience, message = self._host, 0, b""
        if not self.numbered:
            raise FrameError("a message or an answer with a number")
        if kind == _MESSAGE:
            number, patience, taken, message = read_message(data)
        else:
            number, taken = read_delivered(data)
        # As in `_take_in`.
        if self.successor is None and host.links.get(self.link) is not self:
            return
        self._ahead = max(0, self._ahead - taken)
        if self._large.far:
            self._large.come_nearer(self._ahead)
        self._taken += 1
        if kind != _MESSAGE:
            host.perform(self._router.answers_arrived(host.now(), self.link, (number,)))
        else:
            frame = codec.read_known_frame(message)
            if self.traces or isinstance(frame, Refusal):
                self._take_in_messages((message,), Batch(patience=(patience,), numbers=(number,)))
            else:
                self._take_in_frames([frame], (number if patience else None,), [patience / 1000.0])
        if self._sleep is not None and self._has_output():
            self._wake()

    def _wake(self) -> None:
        """Something was queued."""
        if self._sleep is not None:
            self._sleep = None
            if self._fresh and (self._last <= 1 or not self._frames) and not self._flushes.reading:
                self._fresh = False
                self.flush()
            else:
                self._flushes.add(self)


class TracedDirectLink(TracedLink, DirectLink):
    """The direct link of a node that traces messages."""


def session_of(
    host: Host, link: LinkId, position: Position, stream: DirectSocket, peer: Peer, beside: Beside
) -> DirectLink:
    """Make the session of a link, at either end."""
    tracer, numbered, counts = host.tracer, peer.numbers, peer.counts
    if tracer is None:
        session = DirectLink(host, link, position, stream, numbered=numbered, counts=counts)
    else:
        # The socket is written by the link itself, and is no pipe.
        pipe = cast(Any, stream)
        session = TracedDirectLink(host, link, position, pipe, tracer, numbered=numbered, counts=counts)
    session.attend(beside)
    return session
