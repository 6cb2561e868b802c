"""Messages that wait until their sender is announced.

The announcement of a node that has just moved may arrive after its first message. So a message whose sender is known
below another child waits a moment, and is refused only then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from taskd_net.core.acks import ReplyTo
from taskd_net.core.frame import Frame
from taskd_net.core.links import Link


@dataclass(slots=True, eq=False)
class Quarantined:
    """A message that waits for the announcement of its sender."""

    link: Link
    frame: Frame
    reply: ReplyTo | None
    budget: float | None
    since: float
    deadline: float


class Quarantine:
    """The line of them, in the order in which they came.

    Args:
        messages: of one link at most.
        size: bytes of all at most.
    """

    def __init__(self, messages: int, size: int) -> None:
        self._messages = messages
        self._size = size
        self._line: list[Quarantined] = []
        self._of: Counter[Link] = Counter()
        self._bytes = 0

    def add(self, doubtful: Quarantined) -> bool:
        """Let a message wait. Returns False when the line is at one of its bounds."""
        size = len(doubtful.frame.data)
        if self._of[doubtful.link] >= self._messages or self._bytes + size > self._size:
            return False
        self._line.append(doubtful)
        self._of[doubtful.link] += 1
        self._bytes += size
        return True

    def take_link(self, link: Link) -> list[Quarantined]:
        """Take out what has come on a link."""
        return self._take([doubtful for doubtful in self._line if doubtful.link is link])

    def take_due(self, now: float) -> list[Quarantined]:
        """Take out what has waited long enough."""
        return self._take([doubtful for doubtful in self._line if doubtful.deadline <= now])

    def take_all(self) -> list[Quarantined]:
        """Take out everything."""
        return self._take(list(self._line))

    def next_deadline(self) -> float:
        """The earliest deadline, or infinity."""
        return min((doubtful.deadline for doubtful in self._line), default=float("inf"))

    def _take(self, taken: list[Quarantined]) -> list[Quarantined]:
        if taken:
            gone = set(taken)
            self._line = [doubtful for doubtful in self._line if doubtful not in gone]
            for doubtful in taken:
                self._of[doubtful.link] -= 1
                self._bytes -= len(doubtful.frame.data)
            self._of = +self._of
        return taken
