"""What a node still has to tell its parent about the nodes below it.

One announcement is under way at a time. What comes up meanwhile is merged into the next one, so that a thousand leaves
that join at once cost the root a few requests, and an announcement and a withdrawal of one node keep their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from taskd_net.codes import Code
from taskd_net.core.acks import Reply
from taskd_net.core.frame import Ack
from taskd_net.core.links import Link
from taskd_net.limits import ANNOUNCE_POSITIONS
from taskd_net.position import Position


class Kind(Enum):
    """What an announcement says of its positions."""

    ADD = "add"
    """They can be reached through the sender."""
    COMPLETE = "complete"
    """They too, and nothing that has not been announced since the sender joined."""
    WITHDRAW = "withdraw"
    """They can no longer be reached through the sender."""


class Waiter:
    """Somebody who asked for an announcement and gets the parent's answer, once all its requests are answered.

    `link` is the child that asked; None for this node itself.
    """

    __slots__ = ("_code", "_open", "_src", "link", "reply", "uuid")

    def __init__(self, uuid: str, reply: Reply, link: Link | None = None) -> None:
        self.uuid = uuid
        self.reply = reply
        self.link = link
        self._open = 0
        self._code: int = Code.OK
        self._src: Position | None = None

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


class Announcer:
    """The queue of announcements towards the parent.

    Attributes:
        limit: positions in one request.
    """

    __slots__ = ("_queue", "_under_way", "limit")

    def __init__(self) -> None:
        self.limit = ANNOUNCE_POSITIONS
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
