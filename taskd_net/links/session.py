"""One stream of a link, from either end: one reader, one writer, and how both end.

gRPC allows one write at a time on a stream, and a cancelled read or write ends the whole call. So what goes down a
stream is put into a queue, without waiting, and one coroutine writes it; one long-lived task reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Protocol, Self, TypeAlias

import grpc

from taskd_net import limits
from taskd_net.codes import Code
from taskd_net.core.frame import Frame
from taskd_net.core.links import Terms
from taskd_net.core.ready import Writes
from taskd_net.core.routes import LinkId
from taskd_net.links.host import Host
from taskd_net.position import Position
from taskd_net.transport.channel import Stream

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"

# How gRPC says that a stream has ended under a read or a write; that it has is all there is to know.
_ENDED = (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)


class Pipe(Protocol):
    """Bytes both ways."""

    async def read(self) -> bytes | None:
        """The next message; None when the stream has ended."""
        ...

    async def write(self, data: bytes) -> bool:
        """Write a message. Returns False when the stream has ended."""
        ...

    async def finish(self) -> None:
        """Write no more: the other end reads what has been written, and then the end."""
        ...


class ServerPipe:
    """A stream that a child has opened."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        """The next message of the child; None when the stream has ended."""
        try:
            data: object = await self._context.read()
        except _ENDED:
            return None
        return data if isinstance(data, bytes) else None

    async def write(self, data: bytes) -> bool:
        """Write a message to the child. Returns False when the stream has ended."""
        try:
            await self._context.write(data)
        except _ENDED:
            return False
        return True

    async def finish(self) -> None:
        """A server's stream is finished by returning from the call."""


class ClientPipe:
    """A stream to the parent."""

    def __init__(self, call: Stream) -> None:
        self._call = call

    async def read(self) -> bytes | None:
        """The next message of the parent; None when the stream has ended."""
        try:
            data = await self._call.read()
        except _ENDED:
            return None
        return data if isinstance(data, bytes) else None

    async def write(self, data: bytes) -> bool:
        """Write a message to the parent. Returns False when the stream has ended."""
        try:
            await self._call.write(data)
        except _ENDED:
            return False
        return True

    async def finish(self) -> None:
        """Write no more; the parent ends the stream when it has read all of it."""
        with contextlib.suppress(*_ENDED):
            await self._call.done_writing()


class Session(ABC):
    """A link while its stream stands. What kind it is, nobody but its subclass knows.

    Args:
        host: the node.
        link: the Router's name for the link.
        peer: who is at the other end.
        pipe: the stream.
    """

    def __init__(self, host: Host, link: LinkId, peer: Position, pipe: Pipe) -> None:
        self.link = link
        self.peer = peer
        self._host = host
        self._router = host.router
        self._pipe = pipe
        # What the writer, and who waits for it to be idle, sleep on. Not events: a link goes to sleep and wakes for
        # every message that is alone on it, and with an event that takes half as long again.
        self._loop = asyncio.get_running_loop()
        self._sleep: asyncio.Future[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._closed = False
        self._paused = False
        self._quiet: asyncio.Future[None] | None = None
        # Who has taken over, and whether this one's stream has ended.
        self.successor: Self | None = None
        self.over = asyncio.Event()

    @property
    def terms(self) -> Terms:
        """The terms of the stream, for the Router; those of the four calls."""
        return Terms()

    @abstractmethod
    def write(self, writes: Writes) -> None:
        """Queue messages and answers."""

    @abstractmethod
    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue. Returns False when it has begun to be written, or is not there."""

    def tell(self, joined: bool) -> None:  # noqa: B027 - the four calls have no way to say it
        """Tell the child at the other end whether this node has joined."""

    @abstractmethod
    def unwritten(self) -> list[tuple[Frame, int]]:
        """After `close`: the messages that were never written, each once, with their numbers."""

    async def run(self) -> None:
        """Read and write until the stream has ended or `close` is called."""
        reader = asyncio.create_task(self._read_until_end(), name=f"reads from {self.peer}")
        try:
            while not self._closed:
                if self._has_output() and not self._paused:
                    if not await self._write_next():
                        return
                else:
                    if not self._has_queued():
                        _rouse(self._idle)
                    self._sleep = self._loop.create_future()
                    if self._paused:
                        _rouse(self._quiet)
                    await self._sleep
            if self.successor is not None:
                await self._pipe.finish()
                await asyncio.wait([reader], timeout=limits.RENEWAL_S)
        finally:
            self.close()
            reader.cancel()
            self.over.set()

    def close(self) -> None:
        """Let `run` return; what is queued stays unwritten."""
        self._closed = True
        _rouse(self._sleep)
        _rouse(self._idle)
        _rouse(self._quiet)

    # ---- moving to another stream

    async def pause(self) -> None:
        """Write no more, but queue; returns when nothing is being written any more."""
        self._paused = True
        if not self._closed and self._sleep is None:
            self._quiet = self._loop.create_future()
            await self._quiet

    def resume(self) -> None:
        """Go on writing after all."""
        self._paused = False
        self._wake()

    @property
    def alive(self) -> bool:
        """Whether the stream stands, as far as is known."""
        return not self._closed

    def hand_over(self, successor: Self) -> None:
        """Let another session of the link go on where this one has come to rest.

        It gets what is queued, and the answers to what still comes in here. `run` returns when the other end has
        written all that it had begun to.
        """
        self._move_queue(successor)
        self.successor = successor
        self._closed = True
        _rouse(self._sleep)

    async def finish(self) -> None:  # noqa: B027 - most have nothing there
        """After `hand_over`: wait for what is under way beside the stream."""

    async def idle(self) -> None:
        """Wait until everything queued so far has been written, or the stream has ended. For one caller."""
        if self._unwritten_left():
            self._idle = self._loop.create_future()
            await self._idle

    @property
    def busy(self) -> bool:
        """Whether something is being written, or waits for that."""
        return self._unwritten_left()

    # ---- for the subclass

    def _wake(self) -> None:
        """Something was queued: the writer has work."""
        sleep, self._sleep = self._sleep, None
        _rouse(sleep)

    def _interrupted(self, frames: Iterable[Frame]) -> None:
        """Report the messages under whose write the stream ended: whether they were written, nobody knows (6001).

        The Router answers 6001 to every sync message that is in flight; `sync=false` messages have only this to tell.
        """
        host = self._host
        for frame in frames:
            if not frame.sync:
                now, code = host.now(), Code.NETWORK_ACK_LOST
                host.perform(self._router.posts_answered(now, self.link, (frame,), code, self.peer, "the stream broke"))

    @abstractmethod
    def _has_queued(self) -> bool:
        """Whether something is queued."""

    def _has_output(self) -> bool:
        """Whether something may be written now."""
        return self._has_queued()

    def _unwritten_left(self) -> bool:
        # The writer is asleep when it has written all that it may.
        return not self._closed and (self._sleep is None or self._has_queued())

    @abstractmethod
    def _move_queue(self, successor: Self) -> None:
        """Give everything that is queued to a session that is new."""

    @abstractmethod
    async def _write_next(self) -> bool:
        """Write what is queued first. Returns False when the stream has ended."""

    @abstractmethod
    def _take_in(self, data: bytes) -> None:
        """Handle one message of the stream."""

    async def _read_until_end(self) -> None:
        try:
            while (data := await self._pipe.read()) is not None:
                self._take_in(data)
        except Exception:
            # A fault of this package: seen in the log, and the link begins again with a new stream.
            self._host.log.exception("link_failed", peer=str(self.peer))
        finally:
            self.close()


def _rouse(sleeper: asyncio.Future[None] | None) -> None:
    if sleeper is not None and not sleeper.done():
        sleeper.set_result(None)
