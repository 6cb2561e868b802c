"""Messages that wait until their sender is announced.

The announcement of a node that has just moved may arrive after its first message. So a message whose sender is known
below another child waits a moment, and is refused only then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from taskd_net.core.acks import ReplyTo
from taskd_net.core.frame import Frame
from taskd_net.core.links import Link

WAITING_BYTES: Final = 720
"""Bytes that a message in the quarantine takes besides its data: tracemalloc tells 718."""


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
    """All such messages of one node.

    An announcement, the end of a stream and a deadline cost as much as the messages that they concern, however many
    others wait. So messages are found by their link, and by their deadline. A message counts with `WAITING_BYTES`
    besides its data.

    A link may have as many bytes as are left: one alone half, two a third each. So the next one has room.

    Args:
        messages: of one link at most.
        size: bytes of all at most.
    """

    def __init__(self, messages: int, size: int) -> None:
        self._messages = messages
        self._size = size
        # By number, in the order in which they came.
        self._of: dict[Link, dict[int, Quarantined]] = {}
        # A heap. The entry of a message that has been taken out stays until its deadline, a second at most.
        self._deadlines: list[tuple[float, int, Link]] = []
        self._last = 0
        self._bytes = 0
        self._bytes_of: Counter[Link] = Counter()

    def add(self, doubtful: Quarantined) -> bool:
        """Let a message wait. Returns False when the line is at one of its bounds."""
        link, size = doubtful.link, WAITING_BYTES + len(doubtful.frame.data)
        waiting, left = self._of.get(link, {}), self._size - self._bytes
        # One message of any size may wait, if there is room.
        if len(waiting) >= self._messages or size > left or (waiting and self._bytes_of[link] + 2 * size > left):
            return False
        self._last += 1
        waiting[self._last] = doubtful
        self._of[link] = waiting
        heappush(self._deadlines, (doubtful.deadline, self._last, link))
        self._bytes += size
        self._bytes_of[link] += size
        return True

    def take_link(self, link: Link, may: Callable[[Quarantined], bool] = lambda _: True) -> list[Quarantined]:
        """Take out the messages of a link that `may` go on, in the order in which they came."""
        waiting = self._of.get(link, {})
        return [self._take(link, number) for number in [number for number, one in waiting.items() if may(one)]]

    def take_due(self, now: float) -> list[Quarantined]:
        """Take out the messages whose deadline has come, the earliest first."""
        due = []
        while self.next_deadline() <= now:
            _, number, link = heappop(self._deadlines)
            due.append(self._take(link, number))
        return due

    def take_all(self) -> list[Quarantined]:
        """Take out everything."""
        return [doubtful for link in list(self._of) for doubtful in self.take_link(link)]

    def next_deadline(self) -> float:
        """The earliest deadline, or infinity."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._of.get(deadlines[0][2], ()):
            heappop(deadlines)
        return deadlines[0][0] if deadlines else float("inf")

    def _take(self, link: Link, number: int) -> Quarantined:
        waiting = self._of[link]
        doubtful = waiting.pop(number)
        size = WAITING_BYTES + len(doubtful.frame.data)
        self._bytes -= size
        self._bytes_of[link] -= size
        if not waiting:
            del self._of[link], self._bytes_of[link]
        return doubtful
