"""One socket of a direct link, from either end: frames in, frames out, and signs of life.

What has arrived is decided in the callback of the read. The decisions are written at its end, on every link of this
event loop; what the application sends leaves once per turn of the loop. There is no task and no future per frame.

The transport's water marks are at the bottom: it says when it holds anything back, and when the kernel has all of it.
So a batch is written when the kernel has its last byte. What has not got so far was not read by anybody.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from taskd_net.base import limits
from taskd_net.base.timers import on_grid
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.net.links import broken_pipes
from taskd_net.net.links.acknowledgements import acknowledges, progress
from taskd_net.net.links.flushes import Writer, flushes
from taskd_net.net.links.unfinished import Receiver, Unfinished
from taskd_net.net.wire.socket_frames import HEAD, FrameError, FrameKind, FrameReader, write_frame

FRAMES_AT_ONCE: Final = 64
"""Frames of a direct link that are handled in one go. An end is four batches ahead at most, so an honest one never has
as many. 50,000 small frames of a hostile one are one read, and took 0.1 s."""

SIGNS: Final = 64
"""Pings and pongs of the other end in a second; with more the link ends. A silent end is pinged every 2 s, for 60 s. A
flood of pings held a training thread for up to 0.8 s."""

WAITING_BYTES: Final = 16 * 1024
"""Bytes of one read while others wait for their turn: 100 small messages, some 2 ms. A thousand links that wait hold 16
MiB, not 128."""

REQUEST_S: Final = 0.0002
"""Seconds that a request of a child counts for in that time: a task of its own takes it up in the next turn."""

JOINED_BYTES: Final = 16 * 1024
"""Bytes of a batch from which on its head is written beside it: joining the two would copy it."""

GREETING_BYTES: Final = 1024
"""Bytes of the first frame on a direct link, whose sender is still unknown: a greeting has 50."""

_PING: Final = write_frame(FrameKind.PING)
_UNFINISHED: Final = "its frame did not come whole, and other frames needed the memory"
_SIGNS: Final = (FrameKind.PING, FrameKind.PONG)
_BESIDE: Final = (FrameKind.REQUEST, FrameKind.REPLY)

# As numbers: the member of an enumeration costs a look-up at each frame.
_BATCH: Final = int(FrameKind.BATCH)
_BATCHES: Final = (int(FrameKind.MESSAGE), int(FrameKind.DELIVERED), _BATCH)
_pack_head: Final = HEAD.pack

# Linux's `struct linger`: a close resets the connection.
_RESET: Final = struct.pack("ii", 1, 0)


class Reader(Writer, Protocol):
    """A link over a socket."""

    def take_in(self, kind: int, data: bytes | memoryview) -> bool:
        """Decide on a batch, which is good until this returns. Returns whether slices of it are left."""

    def take_in_slice(self) -> bool:
        """Decide on the next slice. Returns whether further ones are left."""

    def pinged(self) -> None:
        """The other end asks for a sign of life."""

    def arrived_beside(self, kind: int, payload: bytes) -> None:
        """Take in a request or a reply.

        Raises:
            FrameError: it breaks the rules of the link.
        """

    def drained(self) -> None:
        """The kernel has all that was written."""

    def answering(self, *, seen: bool) -> None:
        """The other end gives no sign of life, or gives one again."""

    def left(self) -> None:
        """The other end writes no more: it goes on over another socket."""

    def ended(self) -> None:
        """The other end has ended the link, or the socket is gone."""

    def broken(self, reason: str) -> None:
        """The other end has broken the rules of the link."""


class DirectSocket(asyncio.BufferedProtocol):
    """One connected socket. Its first frame is the other end's greeting; later ones wait until `attach`.

    Args:
        unfinished: the account of the children's frames; None at the socket of a parent.
        times: of the node's links.

    Attributes:
        place: the process or the machine of the other end, for that account and the turns of reads; empty until a child
            is known.
        first: the other end's first frame; None where the socket has ended without one.
        over: set when the socket is gone.
        fault: the rule that the other end has broken; empty for none.
        closing: true when nothing can be written any more.
        reason: the payload of the other end's last frame, or the reason for which this end let go.
    """

    # The place for the next bytes of each read.
    get_buffer: Callable[[int], memoryview]  # type: ignore[assignment]

    def __init__(self, unfinished: Unfinished[Receiver] | None = None, times: LinkTimes = TIMES) -> None:
        self._times = times
        self._loop = asyncio.get_running_loop()
        self._flushes = flushes()
        self._reads = self._flushes.reads
        self._frames = FrameReader(GREETING_BYTES, self._flushes.buffers)
        self.get_buffer = self._space
        self._transport: asyncio.Transport
        self._link: Reader | None = None
        self._full = self._paused = self._ended = self._aborted = self._connected = self._silent = False
        # The kernel is asked whether the other machine acknowledges, or it cannot be asked.
        self._asked = True
        self._mark = 0
        # The last sign of the other end, and the beginning of this turn of reading.
        self._heard = self._turn = time.monotonic()
        # Bytes that the other end lacked at the last look at its silence, and a number that grows with those it gets.
        self._lacking = self._taken = 0
        # Pings and pongs of this second.
        self._signs, self._counted_from = 0, self._turn
        self._timer: asyncio.TimerHandle | None = None
        self.closing: Callable[[], bool] = lambda: True
        self.first: asyncio.Future[tuple[int, bytes] | None] = self._loop.create_future()
        self.over = asyncio.Event()
        self.place = self.reason = self.fault = ""
        # A part of a frame has come, and is in the account.
        self._unfinished, self._holds = unfinished, False
        # Slices of a batch are left.
        self._sliced = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._connected = True
        broken_pipes.opened()
        self._asked = not acknowledges(self.info("socket"))
        self.closing = self._transport.is_closing
        if self._aborted:
            self._transport.abort()
        # TLS pauses at the mark, a bare socket above it.
        tls = transport.get_extra_info("ssl_object") is not None
        self._mark = 1 if tls else 0
        self._transport.set_write_buffer_limits(high=self._mark, low=0)

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come in."""
        self._heard = self._turn = time.monotonic()
        if self._silent:
            self._answering(seen=True)
        self._frames.received(nbytes)
        if self._reads.begin(self.place, self._turn):
            self._take()
        else:
            self._wait()

    def pause_writing(self) -> None:
        """The kernel has not all of what was written."""
        self._full = True

    def resume_writing(self) -> None:
        """The kernel has all of it."""
        self._full = False
        if self._link is not None:
            self._link.drained()

    def eof_received(self) -> None:
        """The other end writes no more: the transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.reason:
            self.reason = (
                "the connection was closed: the other process has ended, or was killed"
                if exc is None
                else f"the connection broke: {exc}"
            )
        self._end()
        self._release()
        if not self._sliced:
            self._reads.drop(self)
        self._frames.drop()
        broken_pipes.closed()
        self.over.set()

    @property
    def gone(self) -> bool:
        """True when bytes that the kernel has not got yet never leave."""
        return self._aborted or self.over.is_set()

    @property
    def unsent(self) -> int:
        """Bytes that were written and that the kernel has not got."""
        return self._transport.get_write_buffer_size()

    def attach(self, link: Reader) -> None:
        """Hand frames to a link from now on, also those that have come in."""
        self._link = link
        self._frames.most = limits.RECEIVE_BYTES
        if self._ended or self.closing():
            link.ended()
            return
        self._look_in(self._times.keepalive)
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._turn = time.monotonic()
        self._take()

    def detach(self) -> None:
        """Hand over no more frames."""
        self._link = None

    def write(self, frame: bytes) -> bool:
        """Write a frame. Returns whether the kernel has all of it; if not, `drained` comes."""
        self._transport.write(frame)
        if not self._asked:
            self._asked = True
            self._flushes.acknowledgements.await_from(self)
        return not self._full

    def write_batch(self, parts: Sequence[bytes]) -> bool:
        """Write a batch that is in parts, as `write`. Large ones are not copied."""
        size = sum(map(len, parts))
        if size < JOINED_BYTES:
            return self.write(b"".join((_pack_head(size, _BATCH), *parts)))
        self._transport.writelines((_pack_head(size, _BATCH), *parts))
        if not self._full and self.unsent:
            # `writelines` of asyncio 3.12 and 3.13 never pauses its protocol: setting the marks looks at them again.
            self._transport.set_write_buffer_limits(high=self._mark, low=0)
        if not self._asked:
            self._asked = True
            self._flushes.acknowledgements.await_from(self)
        return not self._full

    def control(self, frame: bytes) -> bool:
        """Write frames beside the batches. Returns whether the kernel has all of it; if not, `drained` comes."""
        if not self.closing():
            self.write(frame)
        return not self._full

    def close(self) -> None:
        """Let go of the socket when the kernel has all that was written, within a bounded time."""
        if self._timer is not None:
            self._timer.cancel()
        if not self.closing():
            self._transport.close()
            self._timer = self._loop.call_later(limits.CLOSE_GRACE_S, self.abort)

    def abort(self, reason: str = "") -> None:
        """Let go of the socket at once."""
        self.reason = self.reason or reason
        self._aborted = True
        if self._connected:
            self._transport.abort()

    def forked(self) -> None:
        """Called in a forked child: close its copy of the descriptor, and touch nothing else."""
        if not self.over.is_set():
            broken_pipes.closed()
            os.close(self.info("socket").fileno())

    def info(self, name: str) -> Any:
        """A property of the transport, such as `peername` or `ssl_object`."""
        return self._transport.get_extra_info(name)

    def _take(self) -> None:
        """Handle the frames that are there."""
        frames, flushes, until = self._frames, self._flushes, self._turn + self._reads.turn
        left = 0.0
        flushes.reading = True
        try:
            for _ in range(FRAMES_AT_ONCE):
                link = self._link
                if link is None and self.first.done():
                    # Nobody reads yet, or any more: the kernel keeps the rest.
                    if not self._paused and not self.closing():
                        self._paused = True
                        self._transport.pause_reading()
                    return
                frame = frames.next()
                if frame is None:
                    if frames.size and self._unfinished is not None:
                        self._hold(self._unfinished)
                    return
                if self._holds:
                    self._release()
                kind, payload = frame
                flushes.last = frames.empty
                if link is None:
                    self.first.set_result((kind, bytes(payload)))
                elif kind in _BATCHES:
                    self._sliced = link.take_in(kind, payload)
                    if self._sliced:
                        break
                    if frames.empty:
                        return
                    if time.monotonic() >= until:
                        break
                elif kind in _SIGNS:
                    self._count_sign()
                    if kind == FrameKind.PING:
                        link.pinged()
                elif kind in _BESIDE:
                    link.arrived_beside(kind, bytes(payload))
                    left += REQUEST_S
                    if left >= self._reads.turn:
                        break
                elif kind == FrameKind.END:
                    self.reason = bytes(payload).decode(errors="replace")[: limits.LOG_VALUE_CHARS]
                    if payload:
                        self._end()
                    else:
                        link.left()
                    return
                else:
                    raise FrameError(f"a frame of kind {kind}")
            # Many frames: other links have their turn between them.
            self._wait()
        except FrameError as error:
            self._break(str(error))
        finally:
            self._reads.ended(self._turn, time.monotonic(), left)
            if not frames.empty:
                frames.keep()
            flushes.reading = False
            if flushes.due:
                flushes.flush()

    def _hold(self, unfinished: Unfinished[Receiver]) -> None:
        """Count the frame that has not come whole, and end the links whose memory it needs."""
        self._holds = True
        for other in unfinished.hold(self, self.place, self._frames.size, self._heard):
            other.give_way()

    def give_way(self) -> None:
        """End the link: other messages need the memory of its frame, which is in the account no more."""
        self._holds = False
        self.abort(_UNFINISHED)

    def _release(self) -> None:
        if self._holds and self._unfinished is not None:
            self._holds = False
            self._unfinished.release(self, self.place)

    def _count_sign(self) -> None:
        """Count a ping or a pong.

        Raises:
            FrameError: they are too many.
        """
        if self._turn - self._counted_from >= 1.0:
            self._counted_from, self._signs = self._turn, 0
        self._signs += 1
        if self._signs > SIGNS:
            raise FrameError(f"more than {SIGNS} pings and pongs in a second")

    def _space(self, hint: int) -> memoryview:
        """The place for the next bytes: few of them while other links wait."""
        space = self._frames.space(hint)
        if self._reads.waiting and self._frames.empty:
            return space[:WAITING_BYTES]
        return space

    def _wait(self) -> None:
        """Let other links have their turn. The kernel keeps what comes."""
        closing = self.closing()
        if not closing:
            self._transport.pause_reading()
            self._frames.keep()
        if self._sliced:
            self._reads.wait(self)
        elif not closing:
            self._reads.wait(self, self._frames.held)

    def go_on(self) -> None:
        """Decide on some of what waits."""
        link = self._link
        self._turn = time.monotonic()
        if self._sliced:
            self._sliced = link is not None and link.take_in_slice()
            self._reads.ended(self._turn, time.monotonic())
            if self._sliced:
                self._wait()
                return
            self._turn = time.monotonic()
        if not self.closing():
            self._take()
            if not self._paused and self not in self._reads.waiting and not self.closing():
                self._transport.resume_reading()

    def _break(self, reason: str) -> None:
        link = self._link
        self.reason = self.fault = reason
        if link is None:
            self.abort()
        else:
            link.broken(reason)

    def _end(self) -> None:
        self._ended = True
        if not self.first.done():
            self.first.set_result(None)
        if self._link is not None:
            self._link.ended()

    def _look_in(self, seconds: float) -> None:
        """Look after these seconds, together with the other links that are due then: they wake the process once."""
        now = time.monotonic()
        due = on_grid(now + seconds, self._flushes.acknowledgements.pause)
        self._timer = self._loop.call_later(due - now, self._look, due)

    def _look(self, due: float) -> None:
        """Ping a silent other end, and let go of one that is gone."""
        now = time.monotonic()
        if self in self._reads.waiting:
            # The kernel may have bytes that this end does not read before its turn.
            self._heard = now
        silent = now - self._heard
        if silent < self._times.keepalive:
            self._lacking = 0
            self._look_in(self._times.keepalive - silent)
            return
        if self._takes():
            # A ping waits behind these bytes, and so does its answer.
            self._heard = now
            if self._silent:
                self._answering(seen=True)
            self._look_in(self._times.keepalive)
            return
        if (
            now - due < self._times.keepalive_timeout
        ):  # else this loop stood still, and signs of life may wait to be read
            if silent >= self._times.silent:
                self._give_up(f"no sign of life for {silent:.0f} s")
                return
            if silent >= self._times.not_answering and not self._silent:
                self._answering(seen=False)
        if not self._full:
            self.control(_PING)
        until = self._times.not_answering - silent
        self._look_in(min(until, self._times.keepalive_timeout) if until > 0.0 else self._times.keepalive_timeout)

    def _takes(self) -> bool:
        """True if the other end has got more of the bytes that it lacked at the last look."""
        lacked, taken = self._lacking, self._taken
        self._lacking, self._taken = progress(self.info("socket"), self.unsent)
        return bool(lacked) and self._taken > taken

    def _give_up(self, reason: str) -> None:
        """Let go of an other end that is gone. A reset tells one that hears, but is not heard."""
        self.info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.abort(reason)

    def _answering(self, *, seen: bool) -> None:
        self._silent = not seen
        if self._link is not None:
            self._link.answering(seen=seen)

    def acknowledged(self) -> None:
        """The other machine has all that was written."""
        self._asked = False

    def cut(self) -> None:
        """The other machine acknowledges nothing."""
        self._give_up(f"the network is cut: nothing was acknowledged for {self._flushes.acknowledgements.patience:g} s")
