"""Sync messages on their way: who waits for which answer, from which link, until when.

A `Pending` is a unicast that somebody awaits an answer to. A broadcast is a `FanOut` with a `Branch` for each link
it was forwarded on and one for the own inbox; its answer goes out when the last part is settled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast

from taskd_net.codes import Code
from taskd_net.core.frame import Ack, Failure, Frame
from taskd_net.limits import ABANDONED_UUIDS, FAILURES_TOLD
from taskd_net.position import Position

INFINITY: Final = float("inf")

Reply: TypeAlias = Callable[[Ack], None]
"""Where an answer goes: given to the Router with the request, called by the node when the Router says so."""


class Told(NamedTuple):
    """Counts and failures that an answer gives of a branch of a broadcast, beside its code.

    Attributes:
        receivers: nodes that have confirmed the message; None where the branch cannot say.
        failures: nodes that have not; empty where the answer names none.
    """

    receivers: int | None
    failures: tuple[Failure, ...] = ()


UNTOLD: Final = Told(None)
"""An answer came, and said no more than its code."""

NOBODY: Final = Told(0)
"""Nobody is in the branch."""


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

    def settle(self, code: int, src: Position, detail: str, told: Told | None = None) -> Ack | None:
        """The answer. How many confirmed it is clear without being told: a unicast has one receiver."""
        return Ack(self.uuid, code, src, detail, 0 if code else 1 if self.sync else None)


class FanOut:
    """A broadcast or multicast whose answer is awaited, and what its parts have answered so far.

    Args:
        uuid, reply, sender, sync: as in `Pending`.
        parts: the answers that have to come in.
        wildcard: the destination is `All`, so a branch without receivers is no failure.
    """

    __slots__ = (
        "_failure",
        "_failures",
        "_parts",
        "_receivers",
        "_took",
        "_wildcard",
        "reply",
        "sender",
        "sync",
        "uuid",
    )

    def __init__(self, uuid: str, reply: Reply, sender: Position, sync: bool, parts: int, wildcard: bool) -> None:
        self.uuid = uuid
        self.reply = reply
        self.sender = sender
        self.sync = sync
        self._parts = parts
        self._wildcard = wildcard
        self._took: Position | None = None
        self._failure: Ack | None = None
        self._failures: tuple[Failure, ...] = ()
        # The answer to a post says that the first hop has it, and counts nobody.
        self._receivers: int | None = 0 if sync else None

    def expect(self, more: int) -> None:
        """Count answers of further parts that have to come in."""
        self._parts += more

    def settle(self, code: int, src: Position, detail: str, told: Told) -> Ack | None:
        """Record the answer of one part; the whole answer when it was the last, else None.

        The answer is 0 only if every branch took the message (contract, section 4). In a broadcast to `All` a branch
        without receivers (5002) is no failure as long as another branch has some.
        """
        self._parts -= 1
        if self._receivers is not None:
            self._receivers = None if told.receivers is None else self._receivers + told.receivers
        if code != Code.OK and not (self._wildcard and code == Code.NO_ROUTE):
            self._failures = (self._failures + (told.failures or (Failure(src, code),)))[:FAILURES_TOLD]
        failure = self._failure
        if code == Code.OK:
            self._took = self._took or src
        elif failure is None or (failure.code == Code.NO_ROUTE and code != Code.NO_ROUTE):
            self._failure = failure = Ack(self.uuid, code, src, detail)
        if self._parts:
            return None
        took = self._took
        if took is not None and (failure is None or (self._wildcard and failure.code == Code.NO_ROUTE)):
            return Ack(self.uuid, Code.OK, took, "", self._receivers)
        assert failure is not None, "every part has taken the message or failed"
        failures = self._failures or (Failure(failure.src, failure.code),)
        return failure._replace(receivers=self._receivers, failures=failures)


class Branch:
    """One copy of a broadcast: in flight on one link, or on its way into the own inbox.

    Args:
        fan_out: the broadcast.
        deadline: when the answer is given up.
        to: the neighbour that it goes to; None for the own inbox.
        alone: an answer that says no more than its code stands for one node: no other lies behind this neighbour, or it
            would say so.
    """

    __slots__ = ("_alone", "_fan_out", "_to", "deadline")

    receiver = None

    def __init__(self, fan_out: FanOut, deadline: float, to: Position | None = None, alone: bool = True) -> None:
        self._fan_out = fan_out
        self._to = to
        self._alone = alone
        self.deadline = deadline

    @property
    def uuid(self) -> str:
        """The message's."""
        return self._fan_out.uuid

    @property
    def reply(self) -> Reply:
        """Where the whole answer goes."""
        return self._fan_out.reply

    @property
    def sender(self) -> Position:
        """Who sent the message."""
        return self._fan_out.sender

    @property
    def sync(self) -> bool:
        """Whether the message is a sync one."""
        return self._fan_out.sync

    def settle(self, code: int, src: Position, detail: str, told: Told | None = None) -> Ack | None:
        """Record the answer of this part; see `FanOut.settle`. `told`: what came with it; None where none came."""
        if told is None:
            # This node says so: nobody is known to have it, and the neighbour is whom it did not reach.
            told = Told(0, (Failure(self._to or src, code),)) if code else Told(1)
        elif told is UNTOLD and self._alone:
            told = Told(0 if code else 1)
        return self._fan_out.settle(code, src, detail, told)


class PostedBranch(Branch):
    """A copy for a neighbour that answers no broadcast: it is settled when it is written."""

    __slots__ = ()

    @property
    def sync(self) -> bool:
        """It went as a `sync=false` message."""
        return False


Awaited: TypeAlias = Pending | Branch
"""What is in flight on a link."""


Key: TypeAlias = str | int
"""What the far side of a link answers a message by: its uuid; on a link that numbers its messages, the number."""


class InFlight:
    """The parts in flight on one link, by what they are answered by.

    On a link that numbers its messages nothing can collide. On any other a uuid stands for one message of one sender at
    a time, and for more than one part only when that sender has sent it again. A message of another sender with a uuid
    that is in flight, or whose answer may still come, is a collision: it waits until the uuid is free.

    Attributes:
        count: parts in flight.
        numbered: whether the link numbers its messages. Set while nothing is in flight.
        collisions: the messages that wait until their uuid is free, by uuid.
    """

    __slots__ = ("_abandoned", "_by_key", "_last", "collisions", "count", "numbered")

    def __init__(self) -> None:
        self._by_key: dict[Key, Awaited | deque[Awaited]] = {}
        self._abandoned: dict[str, Awaited] = {}
        self._last = 0
        self.count = 0
        self.numbered = False
        self.collisions: dict[str, deque[Collision]] = {}

    def __bool__(self) -> bool:
        """Whether an answer is awaited, of a message that was sent or of a collision."""
        return bool(self.count or self.collisions)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Awaited]:
        for known in self._by_key.values():
            yield from (known,) if not isinstance(known, deque) else known

    def add(self, uuid: str, part: Awaited) -> int | None:
        """Take a part in.

        Returns:
            Its number; 0 on a link without numbers. None, and nothing is taken in, when an answer with this uuid could
            be taken for another message's: it is in flight, or was given up, for another sender, or once sync and once
            not (contract, section 5).
        """
        if self.numbered:
            self._last = number = self._last + 1
            self._by_key[number] = part
            self.count += 1
            return number
        known = self._by_key.get(uuid)
        if self._abandoned and (late := self._abandoned.get(uuid)) is not None:
            if not _alike(late, part):
                return None
            del self._abandoned[uuid]
        if known is None:
            self._by_key[uuid] = part
        else:
            parts = known if isinstance(known, deque) else deque((known,))
            if not _alike(parts[0], part):
                return None
            parts.append(part)
            self._by_key[uuid] = parts
        self.count += 1
        return 0

    def take(self, key: Key, sync: bool | None = None) -> Awaited | None:
        """Take out the part that an answer is for; None for a late Ack. Of several with one uuid it is the oldest.

        `sync` is the kind of message that was answered, where the link tells: that the first hop has taken a
        `sync=false` message does not say that a later sync one with the same uuid is delivered.
        """
        known = self._by_key.pop(key, None)
        if known is None:
            if self._abandoned and isinstance(key, str):
                self._abandoned.pop(key, None)
            return None
        part = known[0] if isinstance(known, deque) else known
        if sync is not None and part.sync != sync:
            self._by_key[key] = known
            return None
        self.count -= 1
        if part is known:
            return part
        assert isinstance(known, deque)
        part = known.popleft()
        self._by_key[key] = known if len(known) > 1 else known[0]
        return part

    def take_accepted(self, keys: Sequence[Key], sync: bool | None) -> Sequence[Awaited | None]:
        """`take` for each of several answers that say 0."""
        if not self.numbered or not sync:
            return [self.take(key, sync) for key in keys]
        # A `sync=false` message that is said to be delivered has been taken, too: its kind need not be looked at.
        pop = self._by_key.pop
        taken = [pop(key, None) for key in keys]
        self.count -= len(taken) - taken.count(None)
        return cast("Sequence[Awaited | None]", taken)

    def take_copy(self, frame: Frame, *, newest: bool = False) -> Awaited | None:
        """Take out the part that this copy of a message is for; None when nobody awaits its answer.

        For links without numbers.

        Args:
            frame: the copy. One that was only passed on may have the uuid of another that is awaited.
            newest: whether it is the latest of several that were sent with the same uuid, else the first.
        """
        known = self._by_key.get(frame.uuid)
        latest = known[-1] if isinstance(known, deque) else known
        if latest is None or latest.sync != frame.sync or latest.sender != frame.src:
            return None
        if newest and isinstance(known, deque):
            known.rotate(1)
        return self.take(frame.uuid)

    def take_unwritten(self, frames: Iterable[Frame]) -> list[tuple[Frame, Awaited | None]]:
        """Take out the parts of messages that were never written, the latest first; None where nobody awaits one.

        Args:
            frames: the messages, in the order in which they were to be written.
        """
        newest_first = list(frames)[::-1]
        if not self.numbered:
            return [(frame, self.take_copy(frame, newest=True)) for frame in newest_first]
        waiting: dict[tuple[str, Position, bool], list[Key]] = {}
        for number, part in self._by_key.items():
            assert not isinstance(part, deque), "no two messages have one number"
            waiting.setdefault((part.uuid, part.sender, part.sync), []).append(number)
        taken: list[tuple[Frame, Awaited | None]] = []
        for frame in newest_first:
            numbers = waiting.get((frame.uuid, frame.src, frame.sync))
            taken.append((frame, self.take(numbers.pop()) if numbers else None))
        return taken

    def remove(self, key: Key, part: Awaited) -> bool:
        """Take out one part, which nobody awaits any more. Returns False when it is not in flight."""
        known = self._by_key.get(key)
        if isinstance(known, deque) and part in known:
            known.remove(part)
            self._by_key[key] = known if len(known) > 1 else known[0]
        elif known is part:
            del self._by_key[key]
            if isinstance(key, str):
                self._abandon(key, part)
        else:
            return False
        self.count -= 1
        return True

    def remove_collision(self, uuid: str, part: Awaited) -> Collision | None:
        """Take out the collision of one part, which nobody awaits any more."""
        for collision in self.collisions.get(uuid, ()):
            if collision.part is part:
                self.collisions[uuid].remove(collision)
                if not self.collisions[uuid]:
                    del self.collisions[uuid]
                return collision
        return None

    def take_all(self) -> list[Awaited]:
        """Take out everything: no answer will come any more."""
        parts = list(self)
        self._by_key.clear()
        self._abandoned.clear()
        self.count = 0
        return parts

    def take_due(self, now: float) -> list[Awaited]:
        """Take out what has waited past its deadline."""
        due: list[Awaited] = []
        for key, known in list(self._by_key.items()):
            parts = (known,) if not isinstance(known, deque) else tuple(known)
            late = [part for part in parts if part.deadline <= now]
            if not late:
                continue
            due += late
            left = deque(part for part in parts if part.deadline > now)
            if not left:
                del self._by_key[key]
                if isinstance(key, str):
                    self._abandon(key, late[0])
            else:
                self._by_key[key] = left if len(left) > 1 else left[0]
        self.count -= len(due)
        return due

    def _abandon(self, uuid: str, part: Awaited) -> None:
        """Remember that the answer to a message may come after all."""
        self._abandoned[uuid] = part
        if len(self._abandoned) > ABANDONED_UUIDS:
            del self._abandoned[next(iter(self._abandoned))]

    def deadline(self) -> float:
        """The earliest deadline of all parts, in flight and in collision, or infinity."""
        waiting = (collision.part.deadline for held in self.collisions.values() for collision in held)
        return min(min((part.deadline for part in self), default=INFINITY), min(waiting, default=INFINITY))

    # ---- collisions

    def hold(self, collision: Collision) -> None:
        """Let a message wait until its uuid is free."""
        self.collisions.setdefault(collision.frame.uuid, deque()).append(collision)

    def release(self, uuid: str) -> Collision | None:
        """Take out the next message that waits for this uuid, if that is free; else None."""
        waiting = self.collisions.get(uuid)
        if waiting is None or uuid in self._by_key or uuid in self._abandoned:
            return None
        collision = waiting.popleft()
        if not waiting:
            del self.collisions[uuid]
        return collision

    def take_collisions(self, now: float = INFINITY) -> list[Collision]:
        """Take out the messages that have waited for their uuid past their deadlines; all of them without `now`."""
        held = [collision for waiting in self.collisions.values() for collision in waiting]
        due = [collision for collision in held if collision.part.deadline <= now]
        for collision in due:
            waiting = self.collisions[collision.frame.uuid]
            waiting.remove(collision)
            if not waiting:
                del self.collisions[collision.frame.uuid]
        return due


@dataclass(slots=True, eq=False)
class Collision:
    """A message that waits until another one with its uuid is answered."""

    frame: Frame
    part: Awaited


def _alike(one: Awaited, other: Awaited) -> bool:
    """Whether an answer to one of two parts with one uuid does for the other."""
    return one.sender == other.sender and one.sync == other.sync
