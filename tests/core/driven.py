"""A Router that is driven message by message, and whose decisions are read one by one, in the order they were made.

The Router takes lists, and its `Ready` has a list for each kind of outcome. Most scenes are about one message and what
follows from it in order; here a message has a callable that gets its answer, in place of a key or a token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from taskd_net.base.position import Position
from taskd_net.core.acks import UNTOLD, Told
from taskd_net.core.acks import Answer as Heard
from taskd_net.core.frame import Ack, Frame, Probe
from taskd_net.core.identity import UNSHOWN, Credentials
from taskd_net.core.links import Link, Terms
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Announce, Answered, Key, Kind, Notice, Ready, Writes
from taskd_net.core.router import Router, RouterConfig
from taskd_net.core.routes import LinkId
from tests.core.invariants import check

Reply: TypeAlias = Callable[[Ack], None]
Arrival: TypeAlias = tuple[Frame, Reply | None, float | None]


@dataclass(slots=True)
class Forward:
    """Write a frame on a link."""

    link: LinkId
    frame: Frame
    patience: float
    number: int = 0


@dataclass(slots=True)
class Deliver:
    """Put a frame into the inbox."""

    frame: Frame


@dataclass(slots=True)
class Answer:
    """Give an answer to whoever awaits it."""

    reply: Reply
    ack: Ack


Action: TypeAlias = Forward | Deliver | Answer | Announce | Notice


@dataclass(slots=True, eq=False)
class Asked:
    """A send of the application."""

    frame: Frame
    reply: Reply
    timeout: float
    token: int = 0


class _Logged(list[Any]):
    """A list that notes the order of what is put into it among others."""

    def __init__(self, log: list[tuple[Any, ...]], kind: str, link: LinkId = 0) -> None:
        super().__init__()
        self._log, self._kind, self._link = log, kind, link

    def append(self, item: Any) -> None:
        self._log.append((self._kind, self._link, len(self), item))
        super().append(item)

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def __iadd__(self, items: Iterable[Any]) -> _Logged:  # type: ignore[misc]
        self.extend(items)
        return self


class _Ordered(Ready):
    """An outcome that knows its order."""

    __slots__ = ("log",)

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Any, ...]] = []
        self.deliveries = _Logged(self.log, "deliver")
        self.completed = _Logged(self.log, "completed")
        self.announcements = _Logged(self.log, "whole")
        self.notices = _Logged(self.log, "whole")

    def to(self, link: LinkId) -> Writes:
        if link not in self.writes:
            writes = super().to(link)
            writes.frames = _Logged(self.log, "forward", link)
            writes.accepted = _Logged(self.log, "accepted", link)
            writes.answers = _Logged(self.log, "answered", link)
        return self.writes[link]


class Driven:
    """One Router of a test.

    Args:
        position, upstream, config: as in `Router`.
        checked: its invariants are asserted after every event.
    """

    def __init__(
        self, position: Position, *, upstream: bool, config: RouterConfig | None = None, checked: bool = True
    ) -> None:
        self.core = Router(position, upstream=upstream, config=config)
        self._checked = checked
        self._last = 0
        self._replies: dict[int, tuple[Reply, str]] = {}
        self.core._decisions.ready = _Ordered()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.core, name)

    def read(self, ready: Ready) -> list[Action]:
        """The decisions of one event, in their order."""
        assert isinstance(ready, _Ordered)
        actions: list[Action] = []
        for kind, link, index, item in ready.log:
            if kind == "forward":
                writes = ready.writes[link]
                actions.append(Forward(link, item, writes.patience[index], writes.numbers[index]))
            elif kind == "deliver":
                actions.append(Deliver(item))
            elif kind == "completed":
                actions.append(Answer(self._replies.pop(item[0])[0], item[1]))
            elif kind == "accepted":
                reply, uuid = self._replies.pop(item)
                actions.append(Answer(reply, Ack(uuid, 0, self.core.position, "", 1)))
            elif kind == "answered":
                assert isinstance(item, Answered) and isinstance(item.key, int)
                actions.append(Answer(self._replies.pop(item.key)[0], item.ack))
            else:
                actions.append(item)
        self.core._decisions.ready = _Ordered()
        if self._checked:
            self.check()
        return actions

    def check(self) -> None:
        """Assert the invariants of the Router."""
        check(self.core)

    def name(self, reply: Reply, uuid: str = "") -> int:
        """A name for a request, whose answer goes to `reply`."""
        self._last += 1
        self._replies[self._last] = reply, uuid
        return self._last

    def send(self, now: float, frame: Frame, reply: Reply, timeout: float, wait: bool = True) -> list[Action]:
        return self.read(self.core.submit(now, frame, self.name(reply), timeout, wait))

    def submit(self, now: float, asked: Asked) -> list[Action]:
        """The same for a send that may be cancelled."""
        asked.token = self.name(asked.reply)
        return self.read(self.core.submit(now, asked.frame, asked.token, asked.timeout))

    def cancel(self, asked: Asked) -> list[Action]:
        """Cancel a send; nothing if it has been answered."""
        return self.read(self.core.cancel(asked.token))

    def probe(self, now: float, probe: Probe, reply: Reply, timeout: float) -> list[Action]:
        return self.read(self.core.probe(now, probe, self.name(reply), timeout))

    def frame_arrived(
        self, now: float, came_from: LinkId, frame: Frame, reply: Reply | None, budget: float | None = None
    ) -> list[Action]:
        link = self.core._topology.link(came_from)
        if reply is not None and (link is None or not link.up):
            # No stream stands on which it could have come, and be answered.
            return self.call_arrived(now, came_from, frame, reply, budget)
        return self.frames_arrived(now, came_from, [(frame, reply, budget)])

    def frames_arrived(self, now: float, came_from: LinkId, arrivals: Iterable[Arrival]) -> list[Action]:
        frames: list[Frame] = []
        keys: list[Key | None] = []
        budgets: list[float | None] = []
        for frame, reply, budget in arrivals:
            frames.append(frame)
            keys.append(None if reply is None else self.name(reply, frame.uuid))
            budgets.append(budget)
        return self.read(self.core.messages_arrived(now, came_from, frames, keys, budgets))

    def call_arrived(
        self, now: float, came_from: LinkId, frame: Frame, reply: Reply, budget: float | None = None
    ) -> list[Action]:
        return self.read(self.core.call_arrived(now, came_from, frame, self.name(reply), budget))

    def frame_had_arrived(
        self, now: float, came_from: LinkId, frame: Frame, reply: Reply, budget: float | None = None
    ) -> list[Action]:
        return self.read(self.core.call_arrived(now, came_from, frame, self.name(reply), budget, early=True))

    def accepted(self, now: float, link: LinkId, keys: Sequence[Key], sync: bool | None = None) -> list[Action]:
        if sync is not False:
            return self.read(self.core.answers_arrived(now, link, keys))
        position = self.core._topology.link(link)
        src = self.core.position if position is None else position.position
        heard = [Heard(key, 0, src, sync=False) for key in keys]
        return self.read(self.core.answers_arrived(now, link, (), heard))

    def ack_arrived(
        self, now: float, link: LinkId, key: Key, code: int, src: Position, detail: str = "", told: Told = UNTOLD
    ) -> list[Action]:
        heard = Heard(key, code, src, detail, told, None if told is UNTOLD else True)
        return self.read(self.core.answers_arrived(now, link, (), [heard]))

    def post_answered(
        self, now: float, link: LinkId, frame: Frame, code: int, src: Position, detail: str = ""
    ) -> list[Action]:
        return self.read(self.core.posts_answered(now, link, (frame,), code, src, detail))

    def inbox_taken(self, now: float, count: int = 1) -> list[Action]:
        return self.read(self.core.inbox_taken(now, count))

    def refuse(self, message: Frame, detail: str) -> list[Action]:
        return self.read(self.core.refuse((message.uuid, message.src), detail))

    def confirm(self, *messages: Frame) -> list[Action]:
        return self.read(self.core.confirm([(message.uuid, message.src) for message in messages]))

    def reset_inbox(self) -> list[Action]:
        return self.read(self.core.reset_inbox())

    def close_inbox(self) -> list[Action]:
        return self.read(self.core.close_inbox())

    def register(
        self,
        now: float,
        position: Position,
        quirks: Quirks | None = None,
        credentials: Credentials = UNSHOWN,
        job_id: str = "",
    ) -> Link:
        """Raises the refusal, if it is one."""
        ready = self.core.register(now, position, quirks, credentials, job_id=job_id)
        assert not self.read(ready)
        if ready.refusal is not None:
            raise ready.refusal
        assert ready.link is not None
        return self.core.children.by_id[ready.link]

    def link_up(
        self,
        now: float,
        link: Link,
        session: object,
        unwritten: Iterable[Frame | tuple[Frame, int]] = (),
        probes: int | None = None,
        numbered: bool = False,
        counts: bool = False,
        bare: bool = False,
    ) -> list[Action]:
        terms = Terms(numbered, bare, counts, probes)
        return self.read(self.core.link_up(now, link.id, session, _numbered(unwritten), terms))

    def link_down(
        self, now: float, link: Link, session: object, unwritten: Iterable[Frame | tuple[Frame, int]]
    ) -> list[Action]:
        return self.read(self.core.link_down(now, link.id, session, _numbered(unwritten)))

    def announced(
        self,
        now: float,
        link: Link | None,
        kind: Kind,
        positions: Sequence[Position],
        reply: Reply,
        uuid: str,
        patience: float = 0.0,
    ) -> list[Action]:
        link_id = None if link is None else link.id
        return self.read(self.core.announced(now, link_id, kind, positions, self.name(reply), uuid, patience))

    def report_violation(self, peer: str, refusal: Any) -> list[Action]:
        return self.read(self.core.report_violation(peer, refusal))

    def forget(self, position: Position) -> list[Action]:
        return self.read(self.core.forget(position))

    def upstream_up(
        self,
        now: float,
        session: object,
        parent: Position,
        depth: int = 1,
        withdraws: bool = False,
        quirks: Quirks | None = None,
        probes: int | None = None,
        numbered: bool = False,
        counts: bool = False,
        told: bool | None = None,
        bare: bool = False,
        job_id: str = "",
    ) -> list[Action]:
        terms = Terms(numbered, bare, counts, probes)
        return self.read(
            self.core.upstream_up(now, session, parent, depth, withdraws, quirks, told, terms, job_id=job_id)
        )

    def parent_told(self, now: float, joined: bool) -> list[Action]:
        return self.read(self.core.parent_told(now, joined))

    def signs_of_life(self, now: float, link_id: LinkId, session: object, *, seen: bool) -> list[Action]:
        return self.read(self.core.signs_of_life(now, link_id, session, seen=seen))

    def upstream_down(
        self, now: float, session: object, unwritten: Iterable[Frame | tuple[Frame, int]]
    ) -> list[Action]:
        return self.read(self.core.upstream_down(now, session, _numbered(unwritten)))

    def announce_all(self, reply: Reply, uuid: str) -> list[Action]:
        return self.read(self.core.announce_all(self.name(reply), uuid))

    def withdraw(self, reply: Reply, uuid: str) -> list[Action]:
        return self.read(self.core.withdraw(self.name(reply), uuid))

    def withdraw_again(self, positions: Sequence[Position]) -> list[Action]:
        return self.read(self.core.withdraw_again(positions))

    def announce_answered(self, session: object, code: int, src: Position) -> list[Action]:
        return self.read(self.core.announce_answered(session, code, src))

    def tick(self, now: float) -> list[Action]:
        return self.read(self.core.tick(now))

    def drain(self) -> list[Action]:
        return self.read(self.core.drain())

    def close(self, now: float = 0.0) -> list[Action]:
        return self.read(self.core.close(now))


def _numbered(frames: Iterable[Frame | tuple[Frame, int]]) -> list[tuple[Frame, int]]:
    return [frame if isinstance(frame, tuple) else (frame, 0) for frame in frames]
