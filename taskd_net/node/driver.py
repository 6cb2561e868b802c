"""The shell around a Router: carries out its decisions, and wakes it at its deadlines."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, assert_never

from taskd_net.base import fork
from taskd_net.base.codes import NodeClosed, NodeForked
from taskd_net.base.logger import get_logger
from taskd_net.base.position import Position
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP
from taskd_net.core.ready import (
    Diverted,
    EndStream,
    Forgot,
    Joined,
    Lost,
    Notice,
    Ready,
    ReportViolation,
    SignsOfLife,
    Token,
    Withdraw,
)
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.net.links.large_writes import large_writes
from taskd_net.net.links.session import Session, Tracer
from taskd_net.node.config import NodeConfig
from taskd_net.observe.view import View

if TYPE_CHECKING:
    from datetime import datetime

    from taskd_net.net.joining.join import Joiner
    from taskd_net.net.joining.serve import MeshServer
    from taskd_net.node.record import RecordFile
    from taskd_net.observe.job_view import JobView

RECORD_CHARACTERS: Final = 64 * 1024 * 1024
"""Characters of a record of a Router's events, some 100,000 of them. A switch for bug reports must not fill a disk."""


class Driver:
    """One Router with its links, its inbox and its timer, in one event loop.

    Whoever tells the Router something passes the answer to `perform`, which does not wait.

    Args:
        config: the node and its neighbours.
        times: of its links.

    Attributes:
        view: the state of the mesh; from the start of the node.
        joiner: the way to the parent; None for a Mgr and before the start.
        server: the children's side; None for a leaf and before the start.
        running: the node was started and is not closed.
        closed: the node is closed, or about to be.
        standby: the text with which children are refused, of a Mgr that stands by; empty while it takes them.
        job_view: gives the state of the job's Manager, in the node's loop; None where this node has none.
        job_stacks: collects the stacks of ranks for somebody, as bytes of `observe.job_codec`; None as for `job_view`.
        certificate_ends: gives the end of the certificates in use, UTC, by their use (`server`, `client`); None for
            plain text.
    """

    # The Router's time: the clock of the event loop, which never steps. uvloop's own value goes by whole milliseconds.
    now = staticmethod(time.monotonic)

    def __init__(self, config: NodeConfig, *, times: LinkTimes = TIMES) -> None:
        self.config = config
        self.times = times
        self.log = get_logger(node=str(config.position))
        self.router, self._record = self._new_router()
        self.links: MutableMapping[LinkId, Session[Any]] = {}
        self.large_writes = large_writes()
        self.view: View
        self.joiner: Joiner | None = None
        self.server: MeshServer | None = None
        self.running = self.closed = False
        self.standby = "standby: no Manager has begun to lead yet" if config.standby else ""
        self.tracer: Tracer | None = None
        self.job_view: Callable[[], JobView] | None = None
        self.job_stacks: Callable[[Collection[int], str], Awaitable[bytes]] | None = None
        self.certificate_ends: Callable[[], Mapping[str, datetime]] | None = None
        self._inbox: deque[Frame] = deque()
        """Messages that were delivered to this node and not read yet, oldest first. The Router bounds them."""
        self._delivered = asyncio.Event()
        self._requests: dict[Token, Callable[[Ack], None]] = {}
        self._last_token = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._armed = float("inf")

    @property
    def position(self) -> Position:
        """The node's position."""
        return self.config.position

    def _new_router(self) -> tuple[Router, RecordFile | None]:
        """The Router, and its record.

        Raises:
            ConfigError: the file cannot be written.
        """
        config = self.config
        bounds = replace(config.router, registration_hold=self.times.registration_hold)
        router = Router(config.position, upstream=config.upstream is not None, config=bounds)
        if config.record is None:
            return router, None
        from taskd_net.core.replay import EventRecorder
        from taskd_net.node.record import RecordFile

        record = RecordFile(config.record, self.log)
        EventRecorder(router, bounds, record.write, RECORD_CHARACTERS)
        return router, record

    def start(self) -> None:
        """Begin to run, in the running event loop.

        Raises:
            ConfigError: the extra for tracing is missing.
        """
        self._loop = asyncio.get_running_loop()
        self.running = True
        fork.protect(self)
        if self.config.tracing:
            from taskd_net.observe.tracing import load_tracer

            self.tracer = load_tracer(self.config.position)
        self.view = View(self, self.config.expect or "")

    @property
    def started(self) -> bool:
        """True after `start`, also when the node is closed."""
        return self._loop is not None

    @property
    def busy(self) -> bool:
        """True if a message waits here, in the Router or on a link, or a call of a child."""
        gathered = self.server is not None and self.server.busy
        return gathered or self.router.busy or any(session.busy for session in self.links.values())

    def stop(self) -> None:
        """Send and receive no more. Messages in the inbox can still be taken."""
        self.running, self.closed = False, True

    def end(self) -> None:
        """End what is left when the links are closed, and the waits for messages."""
        if self._timer is not None:
            self._timer.cancel()
        if self._record is not None:
            self._record.close()
        self._delivered.set()

    def forked(self) -> None:
        """End in a forked child, without the steps of a close, which touch gRPC."""
        self.stop()
        self._inbox.clear()
        for session in self.links.values():
            session.forked()

    async def take(self) -> Frame:
        """Wait for the next message in the inbox and take it. Cancelling loses no message.

        Raises:
            NodeClosed: the node is closed and the inbox is empty.
        """
        if not self._inbox:
            await self._filled()
        frame = self._inbox.popleft()
        ready = self.router.inbox_taken(self.now())
        if ready:
            self.perform(ready)
        return frame

    async def take_all(self) -> list[Frame]:
        """Wait for the next message in the inbox and take all that are there; as `take`."""
        if not self._inbox:
            await self._filled()
        frames = list(self._inbox)
        self._inbox.clear()
        ready = self.router.inbox_taken(self.now(), len(frames))
        if ready:
            self.perform(ready)
        return frames

    def stand_by(self, standby: str) -> None:
        """Refuse children with a text, and forget the inbox; or take them again. See `Node.stand_by`."""
        if self.closed or standby == self.standby:
            return
        turns, self.standby = bool(standby) != bool(self.standby), standby
        if self.server is not None:
            self.server.stand_by(standby)
        if turns:
            # A message that came in the last moment of a term is none of the next one, whose reader is another.
            self._inbox.clear()
            self.perform(self.router.reset_inbox())
            if self.server is not None:
                self.server.health.receiving(True)
        if self.started:
            self.view.news.set()

    async def _filled(self) -> None:
        """Wait until there is a message in the inbox."""
        while not self._inbox:
            if self.closed:
                raise NodeForked(fork.REASON) if fork.forked() else NodeClosed(f"{self.position} is closed")
            self._delivered.clear()
            await self._delivered.wait()

    def request(self, reply: Callable[[Ack], None]) -> Token:
        """A name for a request of this node; `reply` gets its answer."""
        self._last_token = token = self._last_token + 1
        self._requests[token] = reply
        return token

    def perform(self, ready: Ready) -> None:
        """Carry out decisions of the Router."""
        for link, writes in ready.writes.items():
            session = self.links.get(link)
            if session is not None:
                session.write(writes)
        if ready.deliveries:
            self._inbox += ready.deliveries
            self._delivered.set()
        for token, ack in ready.completed:
            # A fault under a request has ended it; the Router may still answer what it had begun.
            if (reply := self._requests.pop(token, None)) is not None:
                reply(ack)
        for announce in ready.announcements:
            assert self.joiner is not None
            self.joiner.announce(announce.kind, announce.positions)
        for notice in ready.notices:
            self._take_notice(notice)
        if ready.wake < self._armed:
            self._arm(ready.wake)

    def _take_notice(self, notice: Notice) -> None:
        match notice:
            case EndStream(session, reason):
                assert isinstance(session, Session)
                if session.link == UP:
                    session.abort()
                else:
                    assert self.server is not None
                    self.server.end_stream(session, reason)
            case Forgot():
                assert self.server is not None
                self.server.forgot(notice)
                self.log.info("child_forgotten", child=str(notice.position), routes=notice.routes)
            case Diverted(node, child):
                self.log.warning("child_diverted", child=str(node), by=str(child))
            case Lost(frame, code, src, detail):
                dst = str(frame.dst)
                self.log.warning("messages_lost", src=str(src), dst=dst, code=int(code), detail=detail)
            case Withdraw(link, frame):
                session = self.links.get(link)
                if session is not None and session.withdraw(frame):
                    self.router.withdrawn(link, session, len(frame.data))
            case Joined(joined):
                self._has_joined(joined)
            case SignsOfLife(link, position, seen):
                if seen:
                    self.log.info("answering", peer=str(position))
                else:
                    self.log.warning("not_answering", peer=str(position), seconds=self.times.not_answering)
                if link != UP:
                    assert self.server is not None
                    self.server.signs_of_life(link)
                elif not seen and self.joiner is not None:
                    self.joiner.is_silent()
            case ReportViolation(peer, refusal):
                self.log.warning("violation", peer=peer, code=int(refusal.code), detail=refusal.detail)
            case _:
                assert_never(notice)

    def _has_joined(self, joined: bool) -> None:
        assert self.joiner is not None
        self.joiner.has_joined(joined)
        if self.server is not None:
            self.server.tell(joined)

    def _arm(self, deadline: float) -> None:
        """Bring the next `tick` forward to `deadline`. A later deadline is found when the timer fires."""
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed = deadline
        self._timer = self._loop.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer, self._armed = None, float("inf")
        self.perform(self.router.tick(self.now()))
