"""Sync messages on their way: who waits for which answer, from which link, until when.

A `Pending` is one message that somebody awaits an answer to. It has one `Part` for each link it was forwarded on (and
one for the own inbox); a unicast has one part, a broadcast several, and the answer goes out when the last is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from taskd_net.codes import Code
from taskd_net.core.frame import Ack
from taskd_net.position import Position

Reply: TypeAlias = Callable[[Ack], None]
"""Where an answer goes: given to the Router with the request, called by the node when the Router says so."""


class Pending:
    """One message whose answer is awaited, and what its parts have answered so far."""

    __slots__ = ("code", "detail", "parts", "reply", "src", "took", "uuid", "wildcard")

    def __init__(self, uuid: str, reply: Reply, parts: int, wildcard: bool) -> None:
        self.uuid = uuid
        self.reply = reply
        self.parts = parts
        self.wildcard = wildcard
        self.took = False
        self.code: int = Code.OK
        self.src: Position | None = None
        self.detail = ""

    def settle(self, code: int, src: Position, detail: str) -> Ack | None:
        """Record the answer of one part; the whole answer when it was the last, else None.

        The answer is 0 only if every branch took the message (contract, section 4). In a broadcast to `All` a branch
        without receivers (5002) is no failure as long as another branch has some.
        """
        self.parts -= 1
        if code == Code.OK:
            self.took = True
            if self.src is None:
                self.src = src
        elif self.code in (Code.OK, Code.NO_ROUTE):
            self.code, self.src, self.detail = code, src, detail
        if self.parts:
            return None
        if self.wildcard and self.took and self.code == Code.NO_ROUTE:
            self.code, self.detail = Code.OK, ""
        return Ack(self.uuid, self.code, self.src or src, self.detail)


class Part:
    """One forwarded copy, in flight on one link."""

    __slots__ = ("deadline", "pending", "sender")

    def __init__(self, pending: Pending, sender: Position, deadline: float) -> None:
        self.pending = pending
        self.sender = sender
        self.deadline = deadline


class InFlight:
    """The parts in flight on one link, by uuid; more than one for a uuid when a sender has sent it again."""

    __slots__ = ("_by_uuid", "count")

    def __init__(self) -> None:
        self._by_uuid: dict[str, Part | deque[Part]] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Part]:
        for known in self._by_uuid.values():
            yield from (known,) if isinstance(known, Part) else known

    def add(self, uuid: str, part: Part) -> bool:
        """Take a part in.

        Returns False, and takes nothing, when the uuid is in flight for another sender: an Ack carries the uuid alone,
        and must not be taken for another message's (contract, section 5).
        """
        known = self._by_uuid.get(uuid)
        if known is None:
            self._by_uuid[uuid] = part
        elif isinstance(known, Part):
            if known.sender != part.sender:
                return False
            self._by_uuid[uuid] = deque((known, part))
        else:
            if known[0].sender != part.sender:
                return False
            known.append(part)
        self.count += 1
        return True

    def take(self, uuid: str) -> Part | None:
        """Take out the part that an answer with this uuid is for: the oldest. None when there is none (a late Ack)."""
        known = self._by_uuid.get(uuid)
        if known is None:
            return None
        self.count -= 1
        if isinstance(known, Part):
            del self._by_uuid[uuid]
            return known
        part = known.popleft()
        if len(known) == 1:
            self._by_uuid[uuid] = known[0]
        return part

    def take_all(self) -> list[Part]:
        """Take out everything."""
        parts = list(self)
        self._by_uuid.clear()
        self.count = 0
        return parts

    def take_due(self, now: float) -> list[Part]:
        """Take out what has waited past its deadline."""
        due: list[Part] = []
        for uuid, known in list(self._by_uuid.items()):
            parts = (known,) if isinstance(known, Part) else tuple(known)
            late = [part for part in parts if part.deadline <= now]
            if not late:
                continue
            due += late
            left = deque(part for part in parts if part.deadline > now)
            if not left:
                del self._by_uuid[uuid]
            else:
                self._by_uuid[uuid] = left if len(left) > 1 else left[0]
        self.count -= len(due)
        return due

    def deadline(self) -> float:
        """The earliest deadline of all parts, or infinity."""
        return min((part.deadline for part in self), default=float("inf"))
