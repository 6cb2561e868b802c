"""Advertisements to the parent: the nodes that can be reached through this one (docs/contract.md, section 3).

One announcement is under way at a time. Later ones are merged into the next, so that a thousand leaves that join at
once cost the root a few requests, and an announcement and a withdrawal of one node keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from taskd_net.base import limits
from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Ack
from taskd_net.core.links import Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Announce, Joined, Kind, Token
from taskd_net.core.topology import Topology


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody who asked for an announcement and gets the parent's answer, once all its requests are answered.

    `link` is the child that asked; None for this node itself.
    """

    uuid: str
    token: Token
    link: Link | None = None
    _open: int = 0
    _code: int = Code.OK
    _src: Position | None = None

    def asked(self) -> None:
        """Count one more request that has to be answered."""
        self._open += 1

    def settle(self, code: int, src: Position) -> Ack | None:
        """Record the answer to one request; the Ack when it was the last, with the first failure if there was one."""
        self._open -= 1
        if self._code == Code.OK:
            self._code, self._src = code, src
        return None if self._open else Ack(self.uuid, self._code, self._src or src)


@dataclass(slots=True)
class _Item:
    kind: Kind
    positions: list[Position]
    waiter: Waiter | None


class AnnouncementQueue:
    """The queue of announcements towards the parent.

    Attributes:
        limit: positions in one request.
    """

    def __init__(self) -> None:
        self.limit = limits.ANNOUNCE_POSITIONS
        self._queue: deque[_Item] = deque()
        self._under_way: list[Waiter] | None = None

    def add(self, kind: Kind, positions: Sequence[Position], waiter: Waiter | None = None) -> None:
        """Queue an announcement. A long one becomes several requests; COMPLETE is said with the last of them."""
        for start in range(0, len(positions), self.limit):
            part = positions[start : start + self.limit]
            last = start + len(part) == len(positions)
            self._queue.append(_Item(kind if last or kind is not Kind.COMPLETE else Kind.ADD, list(part), waiter))
            if waiter:
                waiter.asked()

    def next(self) -> tuple[Kind, list[Position]] | None:
        """The next announcement to send, or None while one is under way or nothing is left."""
        if self._under_way is not None or not self._queue:
            return None
        item = self._queue.popleft()
        kind, positions = item.kind, dict.fromkeys(item.positions)
        waiters = [item.waiter]
        # COMPLETE ends what it is merged with: it speaks of all that was said before it. WITHDRAW stays by itself.
        while self._queue and kind is not Kind.COMPLETE:
            item = self._queue[0]
            if (item.kind is Kind.WITHDRAW) != (kind is Kind.WITHDRAW):
                break
            if len(positions) + len(item.positions) > self.limit:
                break
            self._queue.popleft()
            kind = item.kind
            positions.update(dict.fromkeys(item.positions))
            waiters.append(item.waiter)
        self._under_way = [waiter for waiter in waiters if waiter is not None]
        return kind, list(positions)

    def answered(self) -> list[Waiter]:
        """The parent has answered the announcement under way: who waited for it."""
        waiters, self._under_way = self._under_way or [], None
        return waiters

    def clear(self) -> list[Waiter]:
        """The parent is gone: drop everything, and say who waited (a waiter once for each of its requests)."""
        waiters = self.answered() + [item.waiter for item in self._queue if item.waiter]
        self._queue.clear()
        return waiters


@dataclass(frozen=True, slots=True)
class _Patient:
    """An announcement that waits for a parent."""

    positions: list[Position]
    waiter: Waiter
    until: float


class Advertisements:
    """The announcements of one node, and whether the Mgr knows the way to it.

    Args:
        topology: who is below, and the link to the parent.
        decisions: takes what is to be done.

    Attributes:
        told: what the parent says of itself: whether it has joined. None for a parent that does not tell.
        joined: whether the Mgr knows the way to this node, as far as can be known here; at the root always.
        epoch: how often that has changed.
    """

    def __init__(self, topology: Topology, decisions: Decisions) -> None:
        self._topology = topology
        self._decisions = decisions
        self._withdraws = False
        self._patient: dict[Token, _Patient] = {}
        # The announcement of everything that is under way, and whether the parent has accepted one since it is there.
        self._complete: Waiter | None = None
        self._accepted = False
        self.queue = AnnouncementQueue()
        self.told: bool | None = None
        self.joined = topology.up is None
        self.epoch = 0

    def judge(self) -> bool:
        """See whether the Mgr knows the way to this node. Returns whether it does since just now."""
        up = self._topology.up
        joined = up is None or (up.up and self._accepted and self.told is not False)
        if joined == self.joined:
            return False
        self.joined = joined
        self.epoch += 1
        self._decisions.ready.notices.append(Joined(joined))
        return joined

    def came_up(self, withdraws: bool, quirks: Quirks | None, told: bool | None = None) -> None:
        """There is a parent: whether it understands COMPLETE and WITHDRAW, its quirks, and what it tells of itself."""
        self._withdraws = withdraws
        self.told = told
        self.queue.limit = limits.ANNOUNCE_POSITIONS if quirks is None else quirks.announce_positions
        # Not sent by themselves: what this node says of everything below it, next, takes them along.
        patient, self._patient = self._patient, {}
        known = self._topology.routes
        for one in patient.values():
            still = [position for position in one.positions if position in known or position == self._topology.identity]
            self.queue.add(Kind.ADD, still, one.waiter)

    def parent_told(self, joined: bool) -> bool:
        """The parent says whether it has joined. Returns whether the Mgr knows the way to this node since just now."""
        self.told = joined
        return self.judge()

    def went_down(self) -> None:
        """The parent is gone, or this node closes: whoever waits for its answer gets another one."""
        for waiter in self.queue.clear():
            self._tell(waiter, Code.CLIENT_ERR, self._topology.position)
        self._accepted = False
        self.give_up(float("inf"))

    def give_up(self, now: float) -> None:
        """Answer the children that have waited for a parent of this node's as long as they can."""
        for token in [token for token, one in self._patient.items() if one.until <= now]:
            self.cancel(token)

    def cancel(self, token: Token) -> None:
        """Answer a child that waits for a parent of this node's, and waits no longer."""
        one = self._patient.pop(token, None)
        if one is not None:
            one.waiter.asked()
            self._tell(one.waiter, Code.CLIENT_ERR, self._topology.position)

    def next_deadline(self) -> float:
        """The time at which `give_up` is due, or infinity."""
        return min((one.until for one in self._patient.values()), default=float("inf"))

    def pass_on(self, link: Link, new: Sequence[Position], token: Token, uuid: str, until: float) -> None:
        """A child has announced these positions: its answer is the parent's, for which it can wait until then.

        While this node has no parent the answer is 4999 and the child tries again. One that can wait is answered when
        the parent is there, or at its end: else every child of a Proxy whose parent is away would ask several times a
        second, and know only after another pause that it is a member again.
        """
        topology = self._topology
        if topology.up is None:
            self._answer(token, uuid, Code.OK)
        elif not topology.up.up and until > 0.0:
            link.count_announcing(1)
            self._patient[token] = _Patient([*new, topology.identity], Waiter(uuid, token, link), until)
            self._decisions.schedule.look(self, until)
        elif not topology.up.up:
            self._answer(token, uuid, Code.CLIENT_ERR, "no upstream at present")
        elif new:
            link.count_announcing(1)
            self._say(Kind.ADD, [*new, topology.identity], Waiter(uuid, token, link))
        else:
            self._answer(token, uuid, Code.OK)

    def everything(self, kind: Kind, token: Token, uuid: str) -> None:
        """Say COMPLETE or WITHDRAW of this node and all below it."""
        topology = self._topology
        up = topology.up is not None and topology.up.up
        if up and (kind is not Kind.WITHDRAW or self._withdraws):
            waiter = Waiter(uuid, token)
            if kind is Kind.COMPLETE:
                self._complete = waiter
            self._say(kind, [*topology.routes, topology.identity], waiter)
        else:
            self._answer(token, uuid, Code.NET_STREAM_NOT_INITED)

    def found(self, position: Position) -> None:
        """A node below has shown itself without an announcement."""
        if self._topology.up is not None and self._topology.up.up:
            self._say(Kind.ADD, [position])

    def gone(self, positions: Sequence[Position]) -> None:
        """These can no longer be reached through this node."""
        # While the parent is away nothing needs to be said: COMPLETE says it all when the node joins again.
        if positions and self._withdraws and self._topology.up is not None and self._topology.up.up:
            self._say(Kind.WITHDRAW, positions)

    def answered(self, code: int, src: Position) -> None:
        """The parent answered the announcement under way."""
        for waiter in self.queue.answered():
            self._tell(waiter, code, src)
        self._next()

    def _say(self, kind: Kind, positions: Sequence[Position], waiter: Waiter | None = None) -> None:
        self.queue.add(kind, positions, waiter)
        self._next()

    def _next(self) -> None:
        following = self.queue.next()
        if following is not None:
            self._decisions.ready.announcements.append(Announce(*following))

    def _tell(self, waiter: Waiter, code: int, src: Position) -> None:
        ack = waiter.settle(code, src)
        if ack is not None:
            if waiter.link is not None:
                waiter.link.count_announcing(-1)
            if waiter is self._complete:
                self._accepted = self._accepted or ack.ok
            self._decisions.give(waiter.token, ack)

    def _answer(self, token: Token, uuid: str, code: Code, detail: str = "") -> None:
        self._decisions.give(token, Ack(uuid, code, self._topology.position, detail))
