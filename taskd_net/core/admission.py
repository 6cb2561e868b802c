"""Admission checks for received messages.

A message has to belong to the child that brings it: its sender is the child, or lies below it (`core.identity`). Where
the neighbour repeats broadcasts (`core.quirks`), the message also has to be new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import ReplyTo
from taskd_net.core.adaptation import Copies
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Frame
from taskd_net.core.identity import Claim, Violation
from taskd_net.core.links import Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import EndStream, Reason, ReportViolation
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import Topology

ACK_BUDGET_PER_HOP: Final = 0.95
"""Share of what is left of a sender's timeout that a hop on the way spends: the rest brings the answer back."""

QUARANTINE_MESSAGES: Final = 256
"""Messages of one child that wait for the announcement of their sender; then 5001."""

WAITING_BYTES: Final = 720
"""Bytes that a message in the quarantine takes besides its data: tracemalloc tells 718."""


class Admission:
    """Admission to one node.

    Args:
        topology: who is where.
        advertisements: told of nodes that show themselves without an announcement.
        decisions: take the outcome.
        seen: the copies of broadcasts that have been to neighbours which repeat them.
        size: bytes of the messages that wait for an announcement.
    """

    def __init__(
        self, topology: Topology, advertisements: Advertisements, decisions: Decisions, seen: Copies, size: int
    ) -> None:
        self._topology = topology
        self._advertisements = advertisements
        self._decisions = decisions
        self._seen = seen
        self._quarantine = Quarantine(QUARANTINE_MESSAGES, size)

    def is_own(self, now: float, came_from: LinkId, frame: Frame, reply: ReplyTo | None, budget: float | None) -> bool:
        """True if a message may come on a child's link. If not, it waits for an announcement, or is refused."""
        link = self._topology.children.by_id.get(came_from)
        if link is None:
            return True  # forgotten a moment ago
        claim = self._topology.claim(link, frame.src.identity)
        if claim is Claim.ELSEWHERE and link.quirks is not None and not link.quirks.announces_again:
            # Nobody will ever announce it: what comes from there says that it is there.
            return True
        if claim is Claim.NEVER:
            self._refuse_sender(link, frame, reply)
        elif claim is Claim.ELSEWHERE:
            wait = limits.QUARANTINE_S if budget is None else min(limits.QUARANTINE_S, ACK_BUDGET_PER_HOP * budget)
            doubtful = Quarantined(link, frame, reply, budget, now, now + wait)
            if self._quarantine.add(doubtful):
                self._decisions.schedule.look(self, doubtful.deadline)
            else:
                text = f"too many messages of nodes that {link.position} has not announced"
                self._decisions.refuse(frame, reply, Refusal(Code.RECV_BUF_BUSY, text))
        return claim is Claim.OWN

    def _refuse_sender(self, link: Link, frame: Frame, reply: ReplyTo | None) -> None:
        violation = Violation(
            Code.NIL_POSITION, f"src {frame.src} is neither {link.position} nor known to lie below it"
        )
        self.report_violation(str(link.position), violation)
        self._decisions.counters.outcomes["refused"].count(violation.code)
        if reply is not None:
            self._decisions.refuse(frame, reply, violation)

    def report_violation(self, peer: str, violation: Violation) -> None:
        self._decisions.statistics.violations += 1
        self._decisions.ready.notices.append(ReportViolation(peer, violation))

    def end_stream(self, now: float, link: Link, session: object, violation: Violation) -> None:
        """End a stream that has broken the bounds of its link. The next one is held, unless it stands already."""
        if link.session is session:
            link.hold(now)
        self.report_violation(str(link.position), violation)
        self._decisions.ready.notices.append(EndStream(session, Reason.VIOLATION))

    def is_new(self, now: float, link: Link, quirks: Quirks, frame: Frame) -> bool:
        """Look at a message that came from such a neighbour: False for a further copy of a broadcast."""
        if quirks.repeats and not frame.dst.unicast and not self._seen.add(now, frame):
            self._decisions.statistics.duplicates += 1
            return False
        sender = frame.src.identity
        if not quirks.announces_again and sender not in self._topology.routes and self._topology.may_lie_below(sender):
            self._topology.routes.learn(sender, link.id, link.epoch)
            link.spell(frame.src)
            self._advertisements.found(sender)
        return True

    def announced(self, link: Link) -> list[Quarantined]:
        """A child has announced something: the messages that waited for it and may now go on."""
        routes = self._topology.routes
        return self._quarantine.take_link(link, lambda one: routes.claims(one.frame.src.identity, link.id))

    def report_disputed(self, link: Link, disputed: Sequence[Position]) -> None:
        """Report that a child has announced nodes that cannot lie below it, if there are any."""
        if disputed:
            text = f"{link.position} announces {disputed[0]}, which cannot lie below it"
            self.report_violation(str(link.position), Violation(Code.DST_TYPE_ILLEGAL, text))

    def link_down(self, link: Link) -> None:
        """The stream of a child is gone: nothing will be announced on it."""
        for doubtful in self._quarantine.take_link(link):
            self._decisions.refuse(doubtful.frame, doubtful.reply, Refusal(Code.NETWORK_ACK_LOST, "the stream broke"))

    def give_up(self, now: float) -> None:
        """Refuse what has waited long enough for an announcement."""
        for doubtful in self._quarantine.take_due(now):
            self._refuse_sender(doubtful.link, doubtful.frame, doubtful.reply)

    def close(self) -> None:
        """The node closes: whoever waits is answered."""
        for doubtful in self._quarantine.take_all():
            text = "the node was closed"
            self._decisions.refuse(doubtful.frame, doubtful.reply, Refusal(Code.NETWORK_ACK_LOST, text))

    def next_deadline(self) -> float:
        """The time at which `give_up` is due, or infinity."""
        return self._quarantine.next_deadline()


@dataclass(slots=True, eq=False)
class Quarantined:
    """A message that waits for the announcement of its sender.

    The announcement of a node that has just moved may arrive after its first message. So a message whose sender is
    known below another child waits a moment, and is refused only then.
    """

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
