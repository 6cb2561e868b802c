"""One link while it stands, from either end: one reader, one writer, and how both end.

A pipe allows one write at a time, and a cancelled read or write of gRPC ends the whole call. So a message is queued,
without waiting; one task writes the queue, and one task reads.

`Link` is the Router's record of a neighbour, `LinkId` names it, and a `Session` is its stream of the moment.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence, Sized
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

from taskd_net.base.codes import Code
from taskd_net.base.logger import Logger
from taskd_net.base.position import Position
from taskd_net.base.times import LinkTimes
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import Terms
from taskd_net.core.ready import Ready, Token, Writes
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.net.links.flushes import flushes
from taskd_net.net.links.large_writes import LargeWriter
from taskd_net.net.links.turns import Turns

T = TypeVar("T", bound=Sized)

End: TypeAlias = Callable[[int, Position], None]
"""Ends a span with the code of the answer and the position that it comes from."""


class Tracer(Protocol):
    """The spans of one node: each message of a traced send gets one here."""

    def sent(self, frame: Frame) -> tuple[Frame, End]:
        """Begin the span of a message of the application's own; the answer ends it."""

    def arrived(self, frame: Frame, headers: Mapping[str, str], *, awaited: bool) -> tuple[Frame, End | None]:
        """Begin the span of a message that came in, below the neighbour's; this node's answer ends it."""


class Host(Protocol):
    """The node that a session belongs to; implemented by the node's `Driver`.

    Attributes:
        links: the sessions of the links that stand. The transport puts them here, the node forwards on them.
        large_writes: the turns of their large writes.
        times: of its links.
    """

    router: Router
    log: Logger
    links: MutableMapping[LinkId, Session[Any]]
    large_writes: Turns
    times: LinkTimes

    @property
    def tracer(self) -> Tracer | None:
        """The spans of a node that traces messages."""
        ...

    def now(self) -> float:
        """The Router's time: seconds of a clock that never steps."""
        ...

    def request(self, reply: Callable[[Ack], None]) -> Token:
        """A name for a request of this node; `reply` gets its answer when the Router has it."""
        ...

    def perform(self, ready: Ready) -> None:
        """Carry out the Router's decisions. Never waits."""
        ...


class Pipe(Protocol[T]):
    """Items both ways: for most kinds of link, bytes.

    Attributes:
        complete: after `read` has returned None: the other end has finished, and was not cut off.
    """

    complete: bool

    async def read(self) -> T | None:
        """The next item; None when the stream has ended."""
        ...

    async def write(self, data: T) -> bool:
        """Write an item. Returns False when the stream has ended."""
        ...

    async def finish(self) -> None:
        """Write no more: the other end reads what has been written, and then the end."""
        ...


class Session(ABC, Generic[T]):
    """A link while it stands.

    Args:
        host: the node.
        link: the Router's name for the link.
        peer: the neighbour's position.
        pipe: the stream.

    Attributes:
        kind: the name of its kind of link.
        probed: as in `Kind`.
        by_calls: messages of the other end come by unary calls, which gRPC hands over one by one.
        place: at a parent, the machine at the other end, for the turns of reads; empty at a child.
        successor: the session that has taken over.
        why: at a child, the reason for which the link is of no better kind, for people; empty for the best one.
        upstream: at a child with several addresses of a parent, the one in use, and the reasons against others.
        over: set when the stream has ended.
    """

    kind: ClassVar[str]
    probed: ClassVar[int]
    by_calls = False
    why = ""
    upstream = ""
    place = ""
    # Slices of the last item that are still to be taken in.
    _rest: Sequence[object] = ()

    def __init__(self, host: Host, link: LinkId, peer: Position, pipe: Pipe[T]) -> None:
        self.link = link
        self.peer = peer
        self._host = host
        self._router = host.router
        self._pipe = pipe
        self._large = LargeWriter(host.large_writes)
        # The writer, and the caller of `idle`, sleep on futures. A link goes to sleep and wakes for every message that
        # is alone on it, and an event makes that take half as long again.
        self._loop = asyncio.get_running_loop()
        self._sleep: asyncio.Future[None] | None = None
        self._writer_over: asyncio.Future[None] = self._loop.create_future()
        self._reader: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._closed = False
        self._paused = False
        self._left = False
        self._flushes = flushes()
        # The item that waits for its turn of reads, and the end of that.
        self._next: Callable[[], None] | None = None
        self._taken_in: asyncio.Future[None] | None = None
        self._quiet: asyncio.Future[None] | None = None
        self.successor: Self | None = None
        self.over = asyncio.Event()

    @property
    def terms(self) -> Terms:
        """The terms of the stream, for the Router, without those of probes."""
        return Terms()

    @property
    def lost(self) -> str:
        """At a parent: the reason for which the stream has ended, for people, unless this node has ended it.

        gRPC reports no more than this.
        """
        return "the call has ended: cancelled by the child, or the connection was lost"

    @abstractmethod
    def write(self, writes: Writes) -> None:
        """Queue messages and answers."""

    @abstractmethod
    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue. Returns False when it has begun to be written, or is not there."""

    def tell(self, joined: bool) -> None:
        """Tell the child at the other end whether this node has joined."""

    @abstractmethod
    def unwritten(self) -> list[tuple[Frame, int]]:
        """After `close`: the messages that were never written, each once, with their numbers."""

    async def run(self) -> None:
        """Read and write, each in a task of its own, until the stream has ended or `close` is called."""
        self._reader = reader = asyncio.create_task(self._read_until_end(), name=f"reads from {self.peer}")
        writer = asyncio.create_task(self._write_until_end(), name=f"writes to {self.peer}")
        try:
            await self._writer_over
            if self.successor is not None:
                await self._pipe.finish()
                await asyncio.wait([reader], timeout=self._host.times.renewal)
        finally:
            self.close()
            writer.cancel()
            reader.cancel()
            # The task holds the session: a cycle would keep the connection until the next garbage collection.
            self._reader = None
            self.over.set()

    async def _write_until_end(self) -> None:
        try:
            while not self._closed:
                if self._has_output() and not self._paused:
                    if not await self._write_next():
                        break
                else:
                    self._sleep = self._loop.create_future()
                    if self._idle is not None and not self._has_queued():
                        rouse(self._idle)
                    if self._paused:
                        rouse(self._quiet)
                    await self._sleep
        except Exception as error:  # noqa: BLE001 - whoever runs the link gets it
            if not self._writer_over.done():
                self._writer_over.set_exception(error)
        else:
            rouse(self._writer_over)

    def close(self) -> None:
        """Let `run` return; what is queued stays unwritten."""
        self._closed = True
        if self._sleep is not None:
            # No write is under way. Without waiting for the writer's turn, the end of a link is told before answers
            # that came in with it.
            rouse(self._writer_over)
        rouse(self._sleep)
        rouse(self._idle)
        rouse(self._quiet)

    def abort(self) -> None:
        """Let `run` return at once: nothing more is read, and a write under way is not waited for."""
        self.close()
        rouse(self._writer_over)
        if self._reader is not None:
            self._reader.cancel()

    def forked(self) -> None:
        """Called in a forked child, where the link must not keep a connection open that this process has ended."""

    async def pause(self) -> None:
        """Write no more, but queue; returns when nothing is being written any more."""
        self._paused = True
        if not self._closed and self._sleep is None:
            self._quiet = self._loop.create_future()
            await self._quiet

    def resume(self) -> None:
        """Go on writing after all. A stream that the other end has left has ended then."""
        self._paused = False
        if self._left:
            self.close()
        else:
            self._wake()

    def left(self) -> None:
        """The other end has finished: it goes on over another stream.

        During a move both ends leave this stream, the parent first. Its end may be read before its answer on the new
        stream, so it is no loss. Otherwise the link has ended.
        """
        self._left = True
        if not self._paused:
            self.close()

    @property
    def alive(self) -> bool:
        """True while this link can go on, here or over another stream, as far as this node knows."""
        return not self._closed

    def follows(self, before: Session[Any]) -> bool:
        """True if this session can continue another session of the link."""
        return type(self) is type(before)

    def hand_over(self, successor: Self) -> None:
        """Let another session of the link go on where this one has come to rest.

        It gets what is queued, and the answers to what still comes in here. `run` returns when the other end has
        written all that it had begun to.
        """
        self._move_queue(successor)
        self.successor = successor
        self._closed = True
        rouse(self._sleep)

    async def finish(self) -> None:
        """After `hand_over`: wait for what is under way beside the stream."""

    async def idle(self) -> None:
        """Wait until everything queued so far has been written, or the stream has ended. For one caller."""
        if self._unwritten_left():
            self._idle = self._loop.create_future()
            await self._idle

    @property
    def busy(self) -> bool:
        """True while a message is being written or is queued."""
        return self._unwritten_left()

    def _wake(self) -> None:
        """Something was queued: the writer has work."""
        sleep, self._sleep = self._sleep, None
        if sleep is not None and not sleep.done():
            sleep.set_result(None)

    def _interrupted(self, frames: Iterable[Frame]) -> None:
        """Report the messages under whose write the stream ended: they may or may not have been written (6001).

        The Router answers 6001 to every sync message that is in flight; `sync=false` messages have only this to tell.
        """
        host = self._host
        for frame in frames:
            if not frame.sync:
                now, code = host.now(), Code.NETWORK_ACK_LOST
                host.perform(self._router.posts_answered(now, self.link, (frame,), code, self.peer, "the stream broke"))

    @abstractmethod
    def _has_queued(self) -> bool:
        """True if a message or an answer is queued."""

    def _has_output(self) -> bool:
        """True if a message or an answer may be written now."""
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
    def _take_in(self, data: T) -> None:
        """Handle one item of the stream."""

    def _take_in_rest(self) -> None:
        """Handle the next slice of `_rest`."""

    async def _read_until_end(self) -> None:
        left = False
        try:
            while (data := await self._pipe.read()) is not None:
                began = time.monotonic()
                if not self.place or self._flushes.reads.begin(self.place, began):
                    self._take_in(data)
                    self._flushes.reads.ended(began, time.monotonic())
                else:
                    await self._in_turn(partial(self._take_in, data), len(data))
                # Not kept while the next one is awaited: an idle link would hold a large message, an ended one too.
                data = None
                while self._rest:
                    # Other links have their turn between two slices.
                    if self.place:
                        await self._in_turn(self._take_in_rest)
                    else:
                        await asyncio.sleep(0)
                        self._take_in_rest()
            left = self._pipe.complete
        except Exception:
            # A fault of this package: seen in the log, and the link begins again with a new stream.
            self._host.log.exception("link_failed", peer=str(self.peer))
        finally:
            self._flushes.reads.drop(self)
            if left:
                self.left()
            else:
                self.close()

    async def _in_turn(self, take: Callable[[], None], *size: int) -> None:
        """Take in an item of this size, or without a size the rest of one, when its turn has come."""
        self._next, self._taken_in = take, self._loop.create_future()
        self._flushes.reads.wait(self, *size)
        await self._taken_in

    def go_on(self) -> None:
        """Take in what waits for its turn."""
        assert self._next is not None and self._taken_in is not None
        began, take, taken_in = time.monotonic(), self._next, self._taken_in
        self._next = None
        try:
            take()
        except Exception as error:  # noqa: BLE001 - raised in the reader
            taken_in.set_exception(error)
        else:
            rouse(taken_in)
        finally:
            self._flushes.reads.ended(began, time.monotonic())


def rouse(sleeper: asyncio.Future[None] | None) -> None:
    """Wake whoever sleeps on a future, if anybody does."""
    if sleeper is not None and not sleeper.done():
        sleeper.set_result(None)
