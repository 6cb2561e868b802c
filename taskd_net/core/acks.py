"""Sync messages on their way: who waits for which answer, from which link, until when.

A `Pending` is a unicast that somebody awaits an answer to. A broadcast is a `Spread` with a `Part` for each link it was
forwarded on and one for the own inbox; its answer goes out when the last part is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeAlias

from taskd_net.codes import Code
from taskd_net.core.frame import Ack, Frame
from taskd_net.position import Position

Reply: TypeAlias = Callable[[Ack], None]
"""Where an answer goes: given to the Router with the request, called by the node when the Router says so."""


class Pending:
    """A unicast whose answer is awaited, in flight on one link or waiting before the own inbox.

    Args:
        uuid: the message's.
        reply: where the answer goes.
        sender: who sent it.
        sync: whether the answer says that it is delivered, not only that the first hop has it.
        receiver: who answers with 0, if that is known.
        deadline: when the answer is given up.
    """

    __slots__ = ("deadline", "receiver", "reply", "sender", "sync", "uuid")

    def __init__(
        self, uuid: str, reply: Reply, sender: Position, sync: bool, receiver: Position | None, deadline: float
    ) -> None:
        self.uuid = uuid
        self.reply = reply
        self.sender = sender
        self.sync = sync
        self.receiver = receiver
        self.deadline = deadline

    def settle(self, code: int, src: Position, detail: str) -> Ack | None:
        """The answer."""
        return Ack(self.uuid, code, src, detail)


class Spread:
    """A broadcast or multicast whose answer is awaited, and what its parts have answered so far.

    Args:
        uuid, reply, sender, sync: as in `Pending`.
        parts: the answers that have to come in.
        wildcard: the destination is `All`, so a branch without receivers is no failure.
    """

    __slots__ = ("_failure", "_parts", "_took", "_wildcard", "reply", "sender", "sync", "uuid")

    def __init__(self, uuid: str, reply: Reply, sender: Position, sync: bool, parts: int, wildcard: bool) -> None:
        self.uuid = uuid
        self.reply = reply
        self.sender = sender
        self.sync = sync
        self._parts = parts
        self._wildcard = wildcard
        self._took: Position | None = None
        self._failure: Ack | None = None

    def expect(self, more: int) -> None:
        """Count answers of further parts that have to come in."""
        self._parts += more

    def settle(self, code: int, src: Position, detail: str) -> Ack | None:
        """Record the answer of one part; the whole answer when it was the last, else None.

        The answer is 0 only if every branch took the message (contract, section 4). In a broadcast to `All` a branch
        without receivers (5002) is no failure as long as another branch has some.
        """
        self._parts -= 1
        failure = self._failure
        if code == Code.OK:
            self._took = self._took or src
        elif failure is None or (failure.code == Code.NO_ROUTE and code != Code.NO_ROUTE):
            self._failure = failure = Ack(self.uuid, code, src, detail)
        if self._parts:
            return None
        took = self._took
        if took is not None and (failure is None or (self._wildcard and failure.code == Code.NO_ROUTE)):
            return Ack(self.uuid, Code.OK, took)
        return failure


class Part:
    """One copy of a broadcast: in flight on one link, or on its way into the own inbox."""

    __slots__ = ("_spread", "deadline")

    receiver = None

    def __init__(self, spread: Spread, deadline: float) -> None:
        self._spread = spread
        self.deadline = deadline

    @property
    def reply(self) -> Reply:
        """Where the whole answer goes."""
        return self._spread.reply

    @property
    def sender(self) -> Position:
        """Who sent the message."""
        return self._spread.sender

    @property
    def sync(self) -> bool:
        """Whether the message is a sync one."""
        return self._spread.sync

    def settle(self, code: int, src: Position, detail: str) -> Ack | None:
        """Record the answer of this part; see `Spread.settle`."""
        return self._spread.settle(code, src, detail)


class PostedPart(Part):
    """A copy for a neighbour that answers no broadcast: it is settled when it is written."""

    __slots__ = ()

    @property
    def sync(self) -> bool:
        """It went as a `sync=false` message."""
        return False


Awaited: TypeAlias = Pending | Part
"""What is in flight on a link."""


class InFlight:
    """The parts in flight on one link, by uuid; more than one for a uuid when a sender has sent it again."""

    __slots__ = ("_by_uuid", "count")

    def __init__(self) -> None:
        self._by_uuid: dict[str, Awaited | deque[Awaited]] = {}
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Awaited]:
        for known in self._by_uuid.values():
            yield from (known,) if not isinstance(known, deque) else known

    def add(self, uuid: str, part: Awaited) -> bool:
        """Take a part in.

        Returns False, and takes nothing, when the uuid is in flight for another sender, or once sync and once not: an
        Ack carries the uuid alone, and must not be taken for another message's (contract, section 5).
        """
        known = self._by_uuid.get(uuid)
        if known is None:
            self._by_uuid[uuid] = part
        else:
            parts = known if isinstance(known, deque) else deque((known,))
            if parts[0].sender != part.sender or parts[0].sync != part.sync:
                return False
            parts.append(part)
            self._by_uuid[uuid] = parts
        self.count += 1
        return True

    def take(self, uuid: str, sync: bool | None = None) -> Awaited | None:
        """Take out the part that an answer with this uuid is for: the oldest. None when there is none (a late Ack).

        `sync` is the kind of message that was answered, where the link tells: that the first hop has taken a
        `sync=false` message does not say that a later sync one with the same uuid is delivered.
        """
        known = self._by_uuid.pop(uuid, None)
        if known is None:
            return None
        if sync is not None and (known[0] if isinstance(known, deque) else known).sync != sync:
            self._by_uuid[uuid] = known
            return None
        self.count -= 1
        if not isinstance(known, deque):
            return known
        part = known.popleft()
        self._by_uuid[uuid] = known if len(known) > 1 else known[0]
        return part

    def take_copy(self, frame: Frame, *, newest: bool = False) -> Awaited | None:
        """Take out the part that this copy of a message is for; None when nobody awaits its answer.

        Args:
            frame: the copy. One that was only passed on may have the uuid of another that is awaited.
            newest: whether it is the latest of several that were sent with the same uuid, else the first.
        """
        known = self._by_uuid.get(frame.uuid)
        latest = known[-1] if isinstance(known, deque) else known
        if latest is None or latest.sync != frame.sync or latest.sender != frame.src:
            return None
        if newest and isinstance(known, deque):
            known.rotate(1)
        return self.take(frame.uuid)

    def take_all(self) -> list[Awaited]:
        """Take out everything."""
        parts = list(self)
        self._by_uuid.clear()
        self.count = 0
        return parts

    def take_due(self, now: float) -> list[Awaited]:
        """Take out what has waited past its deadline."""
        due: list[Awaited] = []
        for uuid, known in list(self._by_uuid.items()):
            parts = (known,) if not isinstance(known, deque) else tuple(known)
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
