"""A node of the original's in the simulation: what it decides, behind the face that a Router has.

Its habits are those of `docs/interop.md`: exact triples, one message at a time, the next Ack for the answer, a copy of
a broadcast for each receiver, nothing up but what is for the Mgr. What its statuses say stands here as codes, as a node
of ours reads them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

from taskd_net.base import limits
from taskd_net.base.codes import Code
from taskd_net.base.position import Position, Role
from taskd_net.core.frame import Ack, Adapted, Frame
from taskd_net.core.links import UP
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Announce, Kind
from taskd_net.core.routes import LinkId
from taskd_net.net.links import grpc_status
from tests.core.driven import Action, Answer, Deliver, Forward, Reply

INF = float("inf")


@dataclass(eq=False)
class _Link:
    """A child, and the messages to it: one is under way, the others wait for their turn."""

    id: LinkId
    position: Position
    session: object | None = None
    waiting: deque[tuple[Frame, Reply]] = field(default_factory=deque)
    under_way: tuple[Frame, Reply] | None = None
    deadline: float = INF
    stuck: bool = False


@dataclass
class _FromAbove:
    """The target of the answer to a message from above; the next message waits for it."""

    reply: Reply | None

    def __call__(self, ack: Ack) -> None:
        raise AssertionError("unpacked before")


class OriginalRouter:
    """One of the original's nodes.

    Args:
        position: who it is.
        upstream: whether it has a parent.

    Attributes:
        shifted: Acks that were taken for another message's.
    """

    def __init__(self, position: Position, *, upstream: bool) -> None:
        self.position = self.identity = position
        self.gate = SimpleNamespace(held=0)
        self.shifted: list[tuple[str, str]] = []
        self._has_upstream = upstream
        self._up: object | None = None
        self._links: dict[LinkId, _Link] = {}
        self._routes: dict[Position, LinkId] = {}
        self.children = SimpleNamespace(find=self._find, by_id=self._links)
        self.routes = self._routes
        # Messages from above, handled one at a time.
        self._line: deque[tuple[Frame, Reply | None]] = deque()
        self._busy = False
        self._calls: dict[str, Reply] = {}
        self._announcing: list[tuple[Reply, str]] = []
        self._actions: list[Action] = []

    def send(self, now: float, frame: Frame, reply: Reply, timeout: float) -> list[Action]:
        """Its application sends a message; a broadcast without `sync`, whatever it asks for."""
        if self.position.role in (Role.AGENT, Role.WORKER):
            self._transfer(frame, reply)
        else:
            self._route(now, self.position, frame, reply)
        return self._take()

    def frame_arrived(
        self, now: float, came_from: LinkId, frame: Frame, reply: Reply | None, budget: float | None = None
    ) -> list[Action]:
        """A message came in."""
        if came_from == UP:
            self._line.append((frame, reply))
            self._next_from_above(now)
        else:
            assert reply is not None
            self._route(now, self._links[came_from].position, frame, reply, sync=frame.sync)
        return self._take()

    def ack_arrived(
        self, now: float, link_id: LinkId, uuid: str, code: int, src: Position, detail: str = ""
    ) -> list[Action]:
        """An Ack came: from above for a call, from below for whatever was sent last."""
        if link_id == UP:
            reply = self._calls.pop(uuid, None)
            if reply is not None:
                self._answer(reply, uuid, code, src)
            return self._take()
        link = self._links[link_id]
        if link.under_way is not None:
            frame, reply = link.under_way
            if uuid != frame.uuid:
                self.shifted.append((frame.uuid, uuid))
            link.under_way, link.deadline = None, INF
            self._answer(reply, frame.uuid, code, src)
            self._next_down(now, link)
            self._next_from_above(now)
        return self._take()

    def post_answered(
        self, now: float, link_id: LinkId, frame: Frame, code: int, src: Position, detail: str = ""
    ) -> list[Action]:
        """A call with a `sync=false` message has returned; nobody below learns more than that it was taken."""
        if link_id == UP and (reply := self._calls.pop(frame.uuid, None)) is not None:
            self._answer(reply, frame.uuid, code, src)
        return self._take()

    def written(self, link_id: LinkId, session: object, messages: int, size: int) -> None:
        """It counts nothing."""

    call_arrived = frame_arrived

    def inbox_taken(self, now: float, count: int = 1) -> list[Action]:
        """The application took messages."""
        self.gate.held -= count
        return []

    def register(self, now: float, position: Position, quirks: Quirks | None = None) -> _Link:
        """A child introduces itself."""
        link = self._find(position)
        if link is None:
            link = _Link(len(self._links) + 1, position)
            self._links[link.id] = link
        return link

    def link_up(self, now: float, link: _Link, session: object, *_: object, **__: object) -> list[Action]:
        """A child's stream stands."""
        self._end(link)
        link.session, link.stuck = session, False
        self._next_from_above(now)
        return self._take()

    def link_down(
        self, now: float, link: _Link, session: object, unwritten: Iterable[tuple[Frame, int]]
    ) -> list[Action]:
        """A child's stream is gone."""
        if link.session is session:
            self._end(link)
            link.session = None
            self._next_from_above(now)
        return self._take()

    def announced(
        self,
        now: float,
        link: _Link | None,
        kind: Kind,
        positions: Sequence[Position],
        reply: Reply,
        uuid: str,
        patience: float,
    ) -> list[Action]:
        """A child announces; it goes on to the root before it is answered."""
        if link is None:
            self._answer(reply, uuid, Code.NET_ERR, self.position)
            return self._take()
        for position in positions:
            self._routes[position] = link.id
        if not self._has_upstream:
            self._answer(reply, uuid, Code.OK, self.position)
        elif self._up is None:
            self._answer(reply, uuid, Code.SERVER_ERR, self.position)
        else:
            self._announcing.append((reply, uuid))
            self._actions.append(Announce(Kind.ADD, [*positions, self.position]))
        return self._take()

    def upstream_up(self, now: float, session: object, *_: object, **__: object) -> list[Action]:
        """Its own stream stands."""
        self._up = session
        return []

    def upstream_down(self, now: float, session: object, unwritten: Iterable[tuple[Frame, int]]) -> list[Action]:
        """Its own stream is gone."""
        self._up = None
        calls, self._calls = self._calls, {}
        for uuid, reply in calls.items():
            self._answer(reply, uuid, Code.NETWORK_ACK_LOST, self.position)
        waiting, self._announcing = self._announcing, []
        for reply, uuid in waiting:
            self._answer(reply, uuid, Code.SERVER_ERR, self.position)
        return self._take()

    def announce_all(self, reply: Reply, uuid: str) -> list[Action]:
        """A leaf announces itself; a Proxy says nothing of its own."""
        if self.position.role == Role.PROXY:
            self._answer(reply, uuid, Code.OK, self.position)
        else:
            self._announcing.append((reply, uuid))
            self._actions.append(Announce(Kind.ADD, [self.position]))
        return self._take()

    def announce_answered(self, session: object, code: int, src: Position) -> list[Action]:
        """The announcement that was made first is answered."""
        if self._announcing:
            reply, uuid = self._announcing.pop(0)
            self._answer(reply, uuid, code, src)
        return self._take()

    def next_deadline(self) -> float:
        """The time at which the next wait for an Ack ends, or infinity."""
        return min((link.deadline for link in self._links.values()), default=INF)

    def tick(self, now: float) -> list[Action]:
        """Give up, and with it the stream: every later sync message on it fails."""
        for link in self._links.values():
            if link.under_way is not None and link.deadline <= now:
                link.stuck = True
                self._end(link)
        self._next_from_above(now)
        return self._take()

    def close(self) -> list[Action]:
        """The process ends."""
        return []

    def check(self) -> None:
        """No Ack was ever taken for another's."""
        assert not self.shifted, f"{self.position}: {self.shifted}"

    def _route(self, now: float, child: Position, frame: Frame, reply: Reply, sync: bool = False) -> None:
        """A message of a child, or its own. The answer comes once."""
        dst = frame.dst.position
        if "All" in dst:
            self._spread(now, frame, sync)
            # INTERNAL, which a node of ours reads as this.
            code = grpc_status.broadcast_code(self.position, child, frame.dst)
            self._answer(reply, frame.uuid, code, self.position)
        elif dst == self.position:
            self._deliver(frame)
            self._answer(reply, frame.uuid, Code.OK, self.position)
        elif dst in self._routes:
            self._down(now, self._links[self._routes[dst]], frame, reply)
        elif self._has_upstream and dst.role == Role.MGR:
            self._transfer(frame, reply)
        else:
            self._answer(reply, frame.uuid, Code.NO_ROUTE, self.position)

    def _transfer(self, frame: Frame, reply: Reply) -> None:
        if self._up is None:
            self._answer(reply, frame.uuid, Code.SERVER_ERR, self.position)
        else:
            self._calls[frame.uuid] = reply
            self._actions.append(Forward(UP, frame, limits.ACK_TIMEOUT_S))

    def _next_from_above(self, now: float) -> None:
        while self._line and not self._busy:
            frame, reply = self._line.popleft()
            dst = frame.dst.position
            if "All" in dst:
                # Never acknowledged; a leaf takes it like any other message.
                if self._links or self.position.role == Role.PROXY:
                    self._spread(now, frame)
                else:
                    self._take_own(frame, reply)
            elif dst == self.position:
                self._take_own(frame, reply)
            elif dst in self._routes:
                self._busy = True
                self._down(now, self._links[self._routes[dst]], frame, _FromAbove(reply))
            elif reply is not None:
                self._answer(reply, frame.uuid, Code.NO_ROUTE, self.position)

    def _take_own(self, frame: Frame, reply: Reply | None) -> None:
        self._deliver(frame)
        if reply is not None:
            self._answer(reply, frame.uuid, Code.OK, self.position)

    def _deliver(self, frame: Frame) -> None:
        self.gate.held += 1
        self._actions.append(Deliver(frame))

    def _spread(self, now: float, frame: Frame, sync: bool = False) -> None:
        """Send a copy for each receiver; with `sync` await an Ack for each. Proxies of its own kind never give one."""
        copy = Adapted(frame.uuid, sync, frame.src, frame.dst, frame.data)
        if frame.dst.matches(self.position):
            self._deliver(copy)
        for position, link_id in self._routes.items():
            if frame.dst.matches(position) and self._links[link_id].session is not None:
                self._down(now, self._links[link_id], copy, lambda ack: None)

    def _down(self, now: float, link: _Link, frame: Frame, reply: Reply) -> None:
        if link.session is None:
            self._answer(reply, frame.uuid, Code.NET_STREAM_NOT_INITED, self.position)
        elif not frame.sync:
            self._actions.append(Forward(link.id, frame, 0.0))
            self._answer(reply, frame.uuid, Code.OK, self.position)
        else:
            link.waiting.append((frame, reply))
            self._next_down(now, link)

    def _next_down(self, now: float, link: _Link) -> None:
        if link.under_way is None and link.waiting:
            if link.stuck:
                self._end(link)
                return
            link.under_way = frame, _ = link.waiting.popleft()
            link.deadline = now + limits.ORIGINAL_WAIT_S
            self._actions.append(Forward(link.id, frame, limits.ORIGINAL_WAIT_S))

    def _end(self, link: _Link) -> None:
        """Answer everything on a stream that will not be answered any more."""
        left = [*([link.under_way] if link.under_way else []), *link.waiting]
        link.under_way, link.deadline = None, INF
        link.waiting.clear()
        for frame, reply in left:
            self._answer(reply, frame.uuid, Code.NETWORK_ACK_LOST, self.position)

    def _find(self, position: Position) -> _Link | None:
        return next((link for link in self._links.values() if link.position == position), None)

    def _answer(self, reply: Reply, uuid: str, code: int, src: Position) -> None:
        if isinstance(reply, _FromAbove):
            self._busy = False
            if reply.reply is None:
                return
            reply = reply.reply
        self._actions.append(Answer(reply, Ack(uuid, int(code), src)))

    def _take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
