"""The deadlines of one node: each part of a Router that has some is asked when its earliest has come."""

from __future__ import annotations

from typing import Final, Protocol

INFINITY: Final = float("inf")


class Timed(Protocol):
    """Something with deadlines: a link, the line before the inbox, the quarantine, and the like."""

    def next_deadline(self) -> float:
        """The earliest deadline, or infinity."""
        ...


class Schedule:
    """The next look at each part.

    A look may come earlier than it has to, because what was due has been answered meanwhile. It never comes later.

    Attributes:
        wake: the earliest look, or infinity.
    """

    def __init__(self) -> None:
        self._looks: dict[Timed, float] = {}
        self.wake = INFINITY

    def look(self, part: Timed, deadline: float) -> None:
        """Look at a part at its deadline, or earlier."""
        if deadline < self._looks.get(part, INFINITY):
            self._looks[part] = deadline
            if deadline < self.wake:
                self.wake = deadline

    def planned(self, part: Timed) -> float:
        """The time of the next look at a part, or infinity."""
        return self._looks.get(part, INFINITY)

    def due(self, now: float) -> set[Timed]:
        """Take out the parts whose look is due."""
        due = {part for part, deadline in self._looks.items() if deadline <= now}
        for part in due:
            del self._looks[part]
        self.wake = min(self._looks.values(), default=INFINITY)
        return due
