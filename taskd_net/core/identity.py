"""Who is at the other end of a connection, what it may say of itself, and whose messages it may bring.

What a child claims is held against two things: what its connection shows of it (`Credentials`), and who else claims
the same. A child's messages are its own or come from below it. Whether a sender lies below a Proxy, only what the Proxy
has announced can say, and the announcement travels beside the messages: a message of a node that has just moved may
come before it. So a message whose sender is known elsewhere waits a moment (`Quarantine`), and is refused only then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from taskd_net.codes import Refusal
from taskd_net.core.acks import Reply
from taskd_net.core.frame import Frame
from taskd_net.core.names import CertificateName
from taskd_net.position import Position

if TYPE_CHECKING:
    from taskd_net.core.links import Link


class Violation(Refusal):
    """A refusal of what nobody who is honest does: counted and logged beside being answered."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a connection shows of the peer at its other end.

    Attributes:
        host: the address that it comes from, without the port.
        names: what its certificate names; None where certificates are not asked for names.
    """

    host: str = ""
    names: frozenset[CertificateName] | None = None

    def same_peer(self, other: Credentials) -> bool:
        """Whether both are one peer: the same names, or the same host where no names are asked for."""
        return self.names == other.names and (self.names is not None or self.host == other.host)

    def covers(self, job: str, position: Position) -> bool:
        """Whether the peer may take a position; anybody may where no names are asked for."""
        return self.names is None or any(name.covers(job, position) for name in self.names)


UNSHOWN: Final = Credentials()
"""Those of a peer of whom nothing is shown."""


class Claim(Enum):
    """How a message's sender stands to the link that it came on."""

    OWN = auto()
    """It is the child or lies below it, as far as anybody knows."""
    ELSEWHERE = auto()
    """It is known below another child. It may have moved."""
    NEVER = auto()
    """It cannot lie below this child."""


@dataclass(slots=True, eq=False)
class Quarantined:
    """A message that waits for the announcement of its sender."""

    link: Link
    frame: Frame
    reply: Reply | None
    budget: float | None
    since: float
    deadline: float


class Quarantine:
    """The line of them, in the order in which they came.

    Args:
        messages: of one link at most.
        size: bytes of all at most.
    """

    __slots__ = ("_bytes", "_line", "_messages", "_of", "_size")

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


class ViolationReports:
    """Who has been accused of a violation lately: one line in a log for each peer and while.

    Args:
        seconds: the while.
        peers: that are told apart at most; the longest known is forgotten.
    """

    __slots__ = ("_known", "_peers", "_seconds")

    def __init__(self, seconds: float, peers: int) -> None:
        self._seconds = seconds
        self._peers = peers
        self._known: dict[str, tuple[float, int]] = {}

    def add(self, now: float, peer: str) -> int:
        """Count a violation. Returns how many a line in the log would now be about; 0 when it is too early for one."""
        since, count = self._known.get(peer, (float("-inf"), 0))
        count += 1
        due = now - since >= self._seconds
        self._known[peer] = (now, 0) if due else (since, count)
        if len(self._known) > self._peers:
            del self._known[next(iter(self._known))]
        return count if due else 0
