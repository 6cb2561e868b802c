"""The door of the inbox, and the line before it (docs/contract.md, section 5).

A sync message waits up to 10 ms for room, then is refused with 5001. A `sync=false` message has no sender to go back to
and waits until there is room, in a line with the bounds of a link. Both wait in one line, so that messages of one
sender never overtake each other.

Large messages fill an inbox by their bytes. Small ones of other senders pass a line that waits for bytes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.base import limits
from taskd_net.base.position import Position
from taskd_net.core.acks import Awaited, ReplyTo
from taskd_net.core.frame import Frame
from taskd_net.core.routes import LinkId
from taskd_net.core.seen import Seen

INBOX_BYTES: Final = 4 * limits.MESSAGE_BYTES
"""Bytes of the messages in an inbox: 32 MiB. By number alone a Mgr's inbox would hold 8 GiB. Messages up to 32 KiB fill
every inbox by their number first."""

INBOX_SMALL_BYTES: Final = 4096
"""Bytes up to which a message is bounded by the number of messages in an inbox alone, 4 MiB at a Mgr. So a sender of
the largest bodies does not keep those of others out."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A message in the line. The answer to a sync one is awaited (`pending`), until its deadline."""

    came_from: LinkId
    frame: Frame
    pending: Awaited | None
    deadline: float


class InboxDoor:
    """Counts what is in the inbox and keeps the line before it. The messages themselves are the node's.

    Args:
        room, room_bytes: messages that fit in, and their bytes; `room` is 0 for a node that has no inbox.
        window: as in `Seen`.
        line_messages, line_bytes: bounds of the line.
        small: bytes of a message for which only the number counts.

    Attributes:
        held, held_bytes: messages in the inbox, and their bytes.
        sizes: the bytes of each, oldest first.
    """

    def __init__(
        self,
        room: int,
        window: int,
        line_messages: int,
        line_bytes: int,
        room_bytes: int = INBOX_BYTES,
        small: int = INBOX_SMALL_BYTES,
    ) -> None:
        self.room = room
        self.room_bytes = room_bytes
        self.held = self.held_bytes = 0
        self.sizes: deque[int] = deque()
        self.open = room > 0
        self.seen = Seen(window)
        self._window = window
        self.line: deque[Waiting] = deque()
        self._small = small
        # Senders with messages in line, and their number.
        self._senders: Counter[Position] = Counter()
        self._line_bytes = 0
        self._line_limit = line_messages
        self._line_limit_bytes = line_bytes

    def reset(self) -> list[Waiting]:
        """Forget what is in the inbox, and all messages ever delivered. Returns the line, emptied."""
        self.held = self.held_bytes = 0
        self.sizes.clear()
        self.seen = Seen(self._window)
        return self.take_line()

    def knows(self, frame: Frame) -> bool:
        """True when this message has been delivered before."""
        return self.seen.knows(frame.uuid, frame.src)

    def has_room(self, frame: Frame) -> bool:
        """True when a message may go in at once: there is room, and nobody that it must not pass stands in line."""
        if self.held >= self.room:
            return False
        size = len(frame.data)
        if self.line and (size > self._small or frame.src in self._senders):
            return False
        return self._fits(size)

    def enter(self, now: float, came_from: LinkId, frame: Frame) -> bool:
        """Count a message as delivered. Returns False, and counts nothing, when it has been delivered before."""
        new = self.seen.add(now, came_from, frame.uuid, frame.src)
        if new:
            size = len(frame.data)
            self.held += 1
            self.held_bytes += size
            self.sizes.append(size)
        return new

    def enter_all(
        self, now: float, came_from: LinkId, uuids: Sequence[str], src: Position, sizes: Sequence[int]
    ) -> bool:
        """Count several messages of one sender as delivered, if there is room for all and each is new.

        Returns False, and counts nothing, where each has to be looked at by itself.
        """
        count, size = len(uuids), sum(sizes)
        if not self.open or self.line or self.held + count > self.room or self.held_bytes + size > self.room_bytes:
            return False
        if not self.seen.add_all(now, came_from, uuids, src):
            return False
        self.held += count
        self.held_bytes += size
        self.sizes += sizes
        return True

    def queue(self, waiting: Waiting) -> bool:
        """Put a message at the end of the line. Returns False when the line is at its bound."""
        size = len(waiting.frame.data)
        if len(self.line) >= self._line_limit or self._line_bytes + size > self._line_limit_bytes:
            return False
        self.line.append(waiting)
        self._senders[waiting.frame.src] += 1
        self._line_bytes += size
        return True

    def admit(self) -> Iterator[Waiting]:
        """Take from the line what may go in now; the caller delivers each, or answers it if it is a duplicate."""
        while self.line and self.held < self.room:
            if not self._fits(len(self.line[0].frame.data)):
                return
            waiting = self.line.popleft()
            self._count_out(waiting)
            yield waiting

    def take_due(self, now: float) -> list[Waiting]:
        """Take out the sync messages whose patience is over."""
        if self.next_deadline() > now:
            return []
        due = [waiting for waiting in self.line if waiting.deadline <= now]
        self.line = deque(waiting for waiting in self.line if waiting.deadline > now)
        for waiting in due:
            self._count_out(waiting)
        return due

    def withdraw(self, reply: ReplyTo) -> None:
        """Take the message out of the line whose answer goes there."""
        for waiting in self.line:
            if waiting.pending is not None and waiting.pending.reply is reply:
                self.line.remove(waiting)
                self._count_out(waiting)
                return

    def take_line(self) -> list[Waiting]:
        """Empty the line: the inbox closes."""
        left, self.line, self._line_bytes = list(self.line), deque(), 0
        self._senders.clear()
        return left

    def next_deadline(self) -> float:
        """The time at which the first sync message in line is refused, or infinity."""
        return min((waiting.deadline for waiting in self.line if waiting.pending is not None), default=float("inf"))

    def _fits(self, size: int) -> bool:
        return size <= self._small or self.held_bytes + size <= self.room_bytes

    def _count_out(self, waiting: Waiting) -> None:
        src = waiting.frame.src
        self._line_bytes -= len(waiting.frame.data)
        self._senders[src] -= 1
        if not self._senders[src]:
            del self._senders[src]
