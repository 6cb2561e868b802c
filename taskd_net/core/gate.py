"""What a message has to pass that comes from a neighbour: is it the child's to bring, and is it new?

The first is held against what the child has shown and announced (`identity`), the second is a question only where the
neighbour repeats broadcasts (`manners`).
"""

from __future__ import annotations

from taskd_net import limits
from taskd_net.codes import Code, Refusal
from taskd_net.core.acks import Reply
from taskd_net.core.actions import Accuse
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Frame
from taskd_net.core.identity import Claim, Doubtful, Doubts, Violation
from taskd_net.core.links import Link
from taskd_net.core.manners import Copies, Manners
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import Topology
from taskd_net.core.upward import Upward


class Gate:
    """Looks at what comes in on the links of one node.

    Args:
        topology: who is where.
        upward: told of nodes that show themselves without an announcement.
        decisions: where they go.
        seen: the copies of broadcasts that have been to neighbours which repeat them.
        size: bytes of the messages that wait for an announcement.
    """

    __slots__ = ("_decisions", "_doubts", "_seen", "_topology", "_upward")

    def __init__(self, topology: Topology, upward: Upward, decisions: Decisions, seen: Copies, size: int) -> None:
        self._topology = topology
        self._upward = upward
        self._decisions = decisions
        self._seen = seen
        self._doubts = Doubts(limits.DOUBT_MESSAGES, size)

    def is_own(self, now: float, came_from: LinkId, frame: Frame, reply: Reply | None, budget: float | None) -> bool:
        """Whether a message may come on a child's link. If not, it waits for an announcement, or is refused."""
        link = self._topology.children.by_id.get(came_from)
        if link is None:
            return True  # forgotten a moment ago
        claim = self._topology.claim(link, frame.src.identity)
        if claim is Claim.ELSEWHERE and link.manners is not None and not link.manners.announces_again:
            # Nobody will ever announce it: what comes from there says that it is there.
            return True
        if claim is Claim.NEVER:
            self._refuse_sender(link, frame, reply)
        elif claim is Claim.ELSEWHERE:
            wait = limits.DOUBT_S if budget is None else min(limits.DOUBT_S, limits.ACK_BUDGET_PER_HOP * budget)
            doubtful = Doubtful(link, frame, reply, budget, now, now + wait)
            if self._doubts.add(doubtful):
                self._decisions.look_by(doubtful.deadline)
            else:
                text = f"too many messages of nodes that {link.position} has not announced"
                self._decisions.refuse(frame, reply, Refusal(Code.RECV_BUF_BUSY, text))
        return claim is Claim.OWN

    def _refuse_sender(self, link: Link, frame: Frame, reply: Reply | None) -> None:
        violation = Violation(
            Code.NIL_POSITION, f"src {frame.src} is neither {link.position} nor known to lie below it"
        )
        self.accuse(str(link.position), violation)
        self._decisions.tally.outcomes["refused"].count(violation.code)
        if reply is not None:
            self._decisions.refuse(frame, reply, violation)

    def accuse(self, peer: str, violation: Violation) -> None:
        self._decisions.statistics.violations += 1
        self._decisions.add(Accuse(peer, violation))

    def is_new(self, now: float, link: Link, manners: Manners, frame: Frame) -> bool:
        """Look at a message that came from such a neighbour: False for a further copy of a broadcast."""
        if manners.repeats and not frame.dst.unicast and not self._seen.add(now, frame):
            self._decisions.statistics.duplicates += 1
            return False
        sender = frame.src.identity
        if not manners.announces_again and sender not in self._topology.routes and self._topology.may_lie_below(sender):
            self._topology.routes.learn(sender, link.id, link.epoch)
            link.spell(frame.src)
            self._upward.found(sender)
        return True

    def announced(self, link: Link) -> list[Doubtful]:
        """A child has announced something: the messages that waited for it and may now go on."""
        cleared = []
        for doubtful in self._doubts.take_link(link):
            if self._topology.routes.claims(doubtful.frame.src.identity, link.id):
                cleared.append(doubtful)
            else:
                self._doubts.add(doubtful)
        return cleared

    def link_down(self, link: Link) -> None:
        """The stream of a child is gone: nothing will be announced on it."""
        for doubtful in self._doubts.take_link(link):
            self._decisions.refuse(doubtful.frame, doubtful.reply, Refusal(Code.NETWORK_ACK_LOST, "the stream broke"))

    def give_up(self, now: float) -> None:
        """Refuse what has waited long enough for an announcement."""
        for doubtful in self._doubts.take_due(now):
            self._refuse_sender(doubtful.link, doubtful.frame, doubtful.reply)

    def close(self) -> None:
        """The node closes: whoever waits is answered."""
        for doubtful in self._doubts.take_all():
            text = "the node was closed"
            self._decisions.refuse(doubtful.frame, doubtful.reply, Refusal(Code.NETWORK_ACK_LOST, text))

    def next_deadline(self) -> float:
        """When `give_up` is due, or infinity."""
        return self._doubts.next_deadline()
