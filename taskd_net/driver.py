"""The shell around a Router: carries out its decisions, and wakes it at its deadlines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping, Sequence
from typing import assert_never

from taskd_net import limits
from taskd_net.arrivals import Arrivals
from taskd_net.config import NodeConfig
from taskd_net.core.actions import (
    Action,
    Announce,
    Answer,
    Deliver,
    EndStream,
    Forgot,
    Forward,
    Joined,
    Lost,
    ReportViolation,
    Withdraw,
)
from taskd_net.core.identity import ViolationReports
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId
from taskd_net.links.session import Session
from taskd_net.logger import get_logger
from taskd_net.observe.view import View
from taskd_net.position import Position
from taskd_net.transport.absence import Absence
from taskd_net.transport.join import Joiner
from taskd_net.transport.serve import MeshServer


class Driver:
    """One Router with its links, its inbox and its timer, in one event loop.

    Whoever tells the Router something passes the answer to `perform`. Nothing here waits.

    Args:
        config: the node and its neighbours.
    """

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.log = get_logger(node=str(config.position))
        # Not the loop's clock, which under uvloop goes by whole milliseconds.
        upstream = config.upstream is not None
        self.router = Router(config.position, upstream=upstream, config=config.router, clock=time.monotonic)
        self.links: MutableMapping[LinkId, Session] = {}
        self.view: View  # from the start of the node
        self.closed = False
        self._arrivals = Arrivals()
        self._joiner: Joiner | None = None
        self._absence: Absence | None = None
        self._server: MeshServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.Handle | None = None
        self._armed = float("inf")
        self._last_lost_log = float("-inf")
        self._lost_unlogged = 0
        self._violations = ViolationReports(limits.ACCUSE_EVERY_S, limits.ACCUSED_PEERS)

    @property
    def position(self) -> Position:
        """The node's position."""
        return self.config.position

    @property
    def running(self) -> bool:
        """Whether the node was started and is not closed."""
        return self._loop is not None and not self.closed

    def now(self) -> float:
        """The Router's time: seconds on the event loop's clock, which never steps."""
        assert self._loop is not None, "the node was not started"
        return self._loop.time()

    def perform(self, actions: Sequence[Action]) -> None:
        """Carry out decisions of the Router, in order."""
        for action in actions:
            # Not a `match` with patterns, which takes four times as long: this runs several times for each message.
            if isinstance(action, Forward):
                self.links[action.link].forward(action.frame, action.patience, action.number)
            elif isinstance(action, Answer):
                action.reply(action.ack)
            elif isinstance(action, Deliver):
                self._arrivals.frames.append(action.frame)
                if self._arrivals.readers:
                    self._arrivals.wake()
            else:
                self._perform_rare(action)
        deadline = self.router.next_deadline()
        if deadline < self._armed:
            self._arm(deadline)

    def _perform_rare(self, action: Announce | EndStream | Forgot | Lost | ReportViolation | Withdraw | Joined) -> None:
        match action:
            case Announce(kind, positions):
                assert self._joiner is not None
                self._joiner.announce(kind, positions)
            case EndStream(session, reason):
                assert self._server is not None
                self._server.end_stream(session, reason)
            case Forgot():
                assert self._server is not None
                self._server.forgot(action)
                self.log.info("child_forgotten", child=str(action.position), routes=action.routes)
            case Lost():
                self._log_lost(action)
            case Withdraw(link, frame):
                session = self.links.get(link)
                if session is not None and session.withdraw(frame):
                    self.router.withdrawn(link, session, len(frame.data))
            case Joined(joined):
                self._has_joined(joined)
            case ReportViolation(peer, refusal):
                count = self._violations.add(self.now(), peer)
                if count:
                    code = int(refusal.code)
                    self.log.warning("violation", peer=peer, count=count, code=code, detail=refusal.detail)
            case _:
                assert_never(action)

    def _has_joined(self, joined: bool) -> None:
        assert self._joiner is not None
        self._joiner.has_joined(joined)
        if self._absence is not None and not self.closed:
            (self._absence.end if joined else self._absence.begin)()
        if self._server is not None:
            self._server.tell(joined)

    def _log_lost(self, lost: Lost) -> None:
        # One line a second at most: a full inbox can cost thousands of messages. The counter counts each.
        self._lost_unlogged += 1
        if self.now() - self._last_lost_log >= 1.0:
            self.log.warning(
                "messages_lost",
                count=self._lost_unlogged,
                last_dst=str(lost.frame.dst),
                code=lost.code,
                src=str(lost.src),
                detail=lost.detail,
            )
            self._last_lost_log, self._lost_unlogged = self.now(), 0

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

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
