"""A Mgr's Router under arbitrary children: its invariants hold, and its honest child is served.

Bytes encode a list of events. Each can happen on a real link; their order is arbitrary.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from taskd_net.base.codes import Refusal
from taskd_net.base.peer_limits import Limits
from taskd_net.base.position import Destination, Position
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.identity import Credentials
from taskd_net.core.links import Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import EndStream, Kind
from taskd_net.core.router import RouterConfig
from taskd_net.net.links import peer
from tests.core.driven import Action, Answer, Deliver, Driven, Forward, Reply
from tests.core.invariants import check

_NAMES: Final = [
    "Mgr",
    "Proxy/0",
    "Proxy/1",
    "Agent/0",
    "Worker/0/0",
    "Worker/0/1",
    "Worker/1/2",
    "Worker/9/9",
    "Worker/5/5",
    "Agent/All",
    "Worker/All/All",
    "Worker/All/0,1",
    "Worker/0/x",
    "Boss/0",
]
_POSITIONS: Final = [Position.parse(name) for name in _NAMES]
_HONEST: Final = Position.worker(5, 5)
_ODD: Final = Quirks(reads_lists=False, acks_broadcasts=False, turn=peer.ORIGINAL_TURN_S, announces_again=False)
_CONFIG: Final = RouterConfig(
    inbox=3, dedup_window=4, link_messages=4, max_children=5, limits=Limits(routes_per_child=4)
)


class _Game:
    """One Router, with its actions and pending answers."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.now = 0.0
        self.router = Driven(Position.mgr(), upstream=False, config=_CONFIG)
        self.links: dict[int, Link] = {}
        self.owed = 0
        self.streamed: list[list[Ack]] = []
        self.asked: Counter[int] = Counter()
        self.queued: dict[int, list[Frame]] = {}
        honest = self.router.register(0.0, _HONEST, None, Credentials("honest"))
        self.perform(self.router.link_up(0.0, honest, object()))
        self.honest = honest

    def byte(self) -> int:
        """The next byte; 0 at the end."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    @property
    def over(self) -> bool:
        """True after the last byte."""
        return self._at >= len(self._data)

    def position(self) -> Position:
        """A valid or invalid position."""
        return _POSITIONS[self.byte() % len(_POSITIONS)]

    def reply(self, number: int) -> None:
        """Settle this request; a second answer is a fault."""
        self.asked[number] += 1
        assert self.asked[number] == 1, "answered twice"

    def ask(self) -> Reply:
        """The target of an answer."""
        self.owed += 1
        number = self.owed

        def reply(ack: Ack) -> None:
            self.reply(number)

        return reply

    def perform(self, actions: list[Action]) -> None:
        """Carry out what the Router decided."""
        for action in actions:
            match action:
                case Answer(reply, ack):
                    reply(ack)
                case Deliver(frame):
                    assert frame.dst.matches(Position.mgr()), "delivered to the wrong one"
                    assert frame.src.identity not in (Position.mgr(), _HONEST), "nobody but they may send as themselves"
                case Forward(link, frame, _):
                    assert link != self.honest.id or frame.dst.matches(_HONEST)
                    self.queued.setdefault(link, []).append(frame)
                case EndStream(session, _):
                    assert session is not self.honest.session, "a living node lost its place"
                case _:
                    pass
        check(self.router.core)
        assert len(self.router.routes) <= _CONFIG.max_children * 5
        assert len(self.router.children) <= _CONFIG.max_children

    def frame(self) -> Frame | None:
        """An admitted message, with any sender and destination."""
        kind = self.byte()
        src, dst = self.position(), self.position()
        try:
            return Frame(f"u{kind % 5}", bool(kind & 8), src, Destination.of(dst), bytes(kind))
        except Refusal:
            return None

    def step(self) -> None:
        """One event."""
        router, event = self.router, self.byte() % 10
        link = list(self.links.values())[self.byte() % len(self.links)] if self.links else None
        if event == 0 or link is None:
            position = self.position()
            host = Credentials(f"host {self.byte() % 2}")
            try:
                made = router.register(self.now, position, (None, _ODD)[self.byte() % 2], host)
            except Refusal:
                return
            self.links[made.id] = made
        elif router.children.by_id.get(link.id) is not link:
            del self.links[link.id]
        elif event == 1:
            if link.session is None:
                self.queued.pop(link.id, None)
            self.perform(router.link_up(self.now, link, object(), self.queued.pop(link.id, [])))
        elif event == 2 and link.session is not None:
            self.perform(router.link_down(self.now, link, link.session, self.queued.pop(link.id, [])))
        elif event in (3, 4):
            kind = list(Kind)[self.byte() % 3]
            path = [self.position() for _ in range(1 + self.byte() % 4)]
            self.perform(router.announced(self.now, link, kind, path, self.ask(), "a"))
        elif event in (5, 6, 7):
            frame = self.frame()
            if frame is not None:
                budget = (None, 0.5, 20.0)[self.byte() % 3]
                if event == 5:
                    # Once at most: a stream that ends takes no answer.
                    answers: list[Ack] = []
                    self.streamed.append(answers)
                    self.perform(router.frames_arrived(self.now, link.id, [(frame, answers.append, budget)]))
                else:
                    self.perform(router.call_arrived(self.now, link.id, frame, self.ask(), budget))
        elif event == 8:
            for queued in self.queued.pop(link.id, []):
                if link.session is not None:
                    router.written(link.id, link.session, 1, len(queued.data))
            self.perform(
                router.ack_arrived(self.now, link.id, f"u{self.byte() % 5}", self.byte() * 40, self.position())
            )
        else:
            self.now += self.byte() / 8.0
            self.perform(router.tick(self.now))
            if self.byte() % 2 and router.gate.held:
                self.perform(router.inbox_taken(self.now))

    def end(self) -> None:
        """Check that the honest child is served, and every sender gets an answer."""
        router = self.router
        assert router.children.find(_HONEST) is self.honest and self.honest.up
        assert router.routes.next_hop(_HONEST) == self.honest.id, "somebody took the place of a living node"
        frame = Frame("honest", False, _HONEST, Destination.of(Position.mgr()), b"")
        self.perform(router.inbox_taken(self.now, router.gate.held))
        before = router.statistics.delivered
        router.frames_arrived(self.now, self.honest.id, [(frame, None, None)])
        assert router.statistics.delivered > before or router.gate.line
        self.perform(router.tick(self.now + 100.0))
        self.perform(router.close())
        assert len(self.asked) == self.owed, "somebody never got an answer"
        assert all(len(answers) <= 1 for answers in self.streamed), "answered twice"


def play(data: bytes) -> None:
    """Play the encoded events."""
    game = _Game(data)
    while not game.over:
        game.step()
    game.end()
