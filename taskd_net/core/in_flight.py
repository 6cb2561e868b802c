"""Messages in flight on one link: written or about to be, and not answered yet."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, TypeAlias

from taskd_net.base.position import Position
from taskd_net.core.acks import Awaited, Origin, Pending
from taskd_net.core.frame import Frame
from taskd_net.core.ready import Key

ABANDONED_UUIDS: Final = 1024
"""Messages of one link that nobody waits for any more and whose answers may still come: as many as a leaf has in
flight."""

INFINITY: Final = float("inf")


@dataclass(slots=True, eq=False)
class FlowRun:
    """Unicasts of one flow that came in together and went out together, under consecutive numbers.

    Args:
        first: the number of the first message.
        uuids: of the messages.
        link, stream: the neighbour that awaits the answers, as in `Origin`.
        keys: the messages' names in these answers.
        sender: of the messages.
        receiver: the position that answers with 0.
        deadline: when the answers are given up.
        size: bytes of each that count towards the child's quota, as in `Origin`.
    """

    first: int
    uuids: list[str]
    link: int
    stream: int
    keys: Sequence[Key]
    sender: Position
    receiver: Position
    deadline: float
    size: int = 0

    def __len__(self) -> int:
        return len(self.uuids)

    def part(self, begin: int, end: int) -> FlowRun:
        """The messages from one index to another."""
        uuids, keys = self.uuids[begin:end], self.keys[begin:end]
        first = self.first + begin
        return FlowRun(first, uuids, self.link, self.stream, keys, self.sender, self.receiver, self.deadline, self.size)

    def each(self) -> list[Pending]:
        """The messages one by one."""
        origins = [Origin(self.link, self.stream, key, False, self.size) for key in self.keys]
        return [
            Pending(uuid, origin, self.sender, True, self.receiver, self.deadline)
            for uuid, origin in zip(self.uuids, origins, strict=True)
        ]


@dataclass(slots=True, eq=False)
class Collision:
    """A message that waits until another one with its uuid is answered."""

    frame: Frame
    part: Awaited


_Known: TypeAlias = Awaited | deque[Awaited]
_first = attrgetter("first")


class InFlight:
    """The messages in flight on one link, by their names in the answers.

    On a link that numbers its messages nothing can collide. On any other a uuid stands for one message of one sender at
    a time, and for more than one part only when that sender has sent it again. A message of another sender with a uuid
    that is in flight, or whose answer may still come, is a collision: it waits until the uuid is free.

    Attributes:
        count: messages in flight.
        numbered: whether the link numbers its messages. Set while nothing is in flight.
        collisions: the messages that wait until their uuid is free, by uuid.
    """

    __slots__ = ("_abandoned", "_by_key", "_last", "_runs", "collisions", "count", "numbered")

    def __init__(self) -> None:
        self._by_key: dict[Key, _Known] = {}
        # In the order of their numbers; only on a link that numbers its messages.
        self._runs: list[FlowRun] = []
        self._abandoned: dict[str, Awaited] = {}
        self._last = 0
        self.count = 0
        self.numbered = False
        self.collisions: dict[str, deque[Collision]] = {}

    def __bool__(self) -> bool:
        """True if an answer is awaited, of a message that was sent or of a collision."""
        return bool(self.count or self.collisions)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Awaited]:
        """Every message, in the order in which they were sent."""
        if not self._runs:
            for known in self._by_key.values():
                yield from (known,) if not isinstance(known, deque) else known
            return
        parts = {number: part for run in self._runs for number, part in enumerate(run.each(), run.first)}
        parts.update(self._by_key)  # type: ignore[arg-type]  # numbers alone
        yield from (parts[number] for number in sorted(parts))

    def add(self, uuid: str, part: Awaited) -> int | None:
        """Take a part in.

        Returns:
            Its number; 0 on a link without numbers. None, and nothing is taken in, when an answer with this uuid could
            be taken for another message's: it is in flight, or was given up, for another sender, or once sync and once
            not (docs/contract.md, section 5).
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

    def add_run(self, run: FlowRun) -> range:
        """Take a run in, on a link that numbers its messages. Returns the numbers; the run gets the first of them."""
        count = len(run.uuids)
        run.first = self._last + 1
        self._last += count
        self._runs.append(run)
        self.count += count
        return range(run.first, self._last + 1)

    def take(self, key: Key, sync: bool | None = None) -> Awaited | None:
        """Take out the part that an answer is for; None for a late Ack. Of several with one uuid it is the oldest.

        `sync` is the kind of message that was answered, where the link tells: that the first hop has taken a
        `sync=false` message does not say that a later sync one with the same uuid is delivered.
        """
        known = self._by_key.pop(key, None)
        if known is None:
            if self._runs and isinstance(key, int) and sync is not False:
                taken = self._take_from_run((key,), 0)
                return None if taken is None else taken.each()[0]
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

    def take_accepted(self, keys: Sequence[Key]) -> list[Awaited | FlowRun | None]:
        """`take` for each of several answers that say 0 to sync messages. Answers to a run come out as a run."""
        if not self.numbered:
            return [self.take(key, True) for key in keys]
        # A `sync=false` message that is said to be delivered has been taken, too: its kind need not be looked at.
        pop = self._by_key.pop
        if not self._runs:
            parts = [pop(key, None) for key in keys]
            self.count -= len(parts) - parts.count(None)
            return parts  # type: ignore[return-value]  # no two messages have one number
        taken: list[Awaited | FlowRun | None] = []
        at = 0
        while at < len(keys):
            part = pop(keys[at], None)
            if part is not None:
                assert not isinstance(part, deque), "no two messages have one number"
                self.count -= 1
                taken.append(part)
                at += 1
                continue
            run = self._take_from_run(keys, at)
            taken.append(run)
            at += 1 if run is None else len(run.uuids)
        return taken

    def _take_from_run(self, keys: Sequence[Key], at: int) -> FlowRun | None:
        """Take out, from the run of a number, this number and those behind it that follow each other in `keys`."""
        number = keys[at]
        assert isinstance(number, int)
        index = bisect_right(self._runs, number, key=_first) - 1
        run = self._runs[index] if index >= 0 else None
        if run is None or number >= run.first + len(run.uuids):
            return None
        begin = number - run.first
        most = min(len(run.uuids) - begin, len(keys) - at)
        count = most
        if most > 1 and list(keys[at : at + most]) != list(range(number, number + most)):
            count = next(step for step in range(1, most) if keys[at + step] != number + step)
        self.count -= count
        end = begin + count
        left = [run.part(*bounds) for bounds in ((0, begin), (end, len(run.uuids))) if bounds[0] < bounds[1]]
        self._runs[index : index + 1] = left
        return run if not left else run.part(begin, end)

    def holds(self, number: int) -> bool:
        """True if a numbered message is in flight."""
        index = bisect_right(self._runs, number, key=_first) - 1
        return number in self._by_key or (
            index >= 0 and number < self._runs[index].first + len(self._runs[index].uuids)
        )

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

    def take_unwritten(self, frames: Iterable[tuple[Frame, int]]) -> list[tuple[Frame, Awaited | None]]:
        """Take out the parts of messages that were never written, the latest first; None where nobody awaits one.

        Args:
            frames: the messages with their numbers, in the order in which they were to be written.
        """
        newest_first = list(frames)[::-1]
        if self.numbered:
            return [(frame, self.take(number) if number else None) for frame, number in newest_first]
        return [(frame, self.take_copy(frame, newest=True)) for frame, _ in newest_first]

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
        self._runs.clear()
        self._abandoned.clear()
        self.count = 0
        return parts

    def take_due(self, now: float) -> list[Awaited]:
        """Take out everything that has waited past its deadline, in the order in which it was sent."""
        late = [run for run in self._runs if run.deadline <= now]
        if late:
            # One by one, so that their places among the others are kept.
            self._runs = [run for run in self._runs if run.deadline > now]
            apart: dict[Key, _Known] = {
                number: part for run in late for number, part in enumerate(run.each(), run.first)
            }
            self._by_key = dict(sorted((self._by_key | apart).items()))
        due: list[Awaited] = []
        for key, known in list(self._by_key.items()):
            parts = (known,) if not isinstance(known, deque) else tuple(known)
            over = [part for part in parts if part.deadline <= now]
            if not over:
                continue
            due += over
            left = deque(part for part in parts if part.deadline > now)
            if not left:
                del self._by_key[key]
                if isinstance(key, str):
                    self._abandon(key, over[0])
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
        first = min((run.deadline for run in self._runs), default=INFINITY)
        for known in self._by_key.values():
            parts = (known,) if not isinstance(known, deque) else known
            first = min(first, *(part.deadline for part in parts))
        for held in self.collisions.values():
            first = min(first, *(collision.part.deadline for collision in held))
        return first

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


def _alike(one: Awaited, other: Awaited) -> bool:
    """True if an answer to one of two parts with one uuid answers the other as well."""
    return one.sender == other.sender and one.sync == other.sync
