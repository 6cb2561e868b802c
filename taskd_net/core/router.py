"""The Router: every decision of a node. Events in, one `Ready` out; nothing here waits, and time is an argument.

A Mgr, a Proxy and a Worker run the same Router, with different links. Each kind of event has one method. It returns all
decisions that follow from the event, as data; the node carries them out before the next event.
The message path is in `core.messages`, the answer path in `core.answers`. The tests assert the invariants between two
events (`tests/core/invariants.py`).

Sources: docs/contract.md, section 4 (the next hop), section 5 (delivery), section 3 (routes that are learnt).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.adaptation import Copies
from taskd_net.core.admission import Admission
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.counters import Counters
from taskd_net.core.decisions import Decisions
from taskd_net.core.delivery import Delivery
from taskd_net.core.forwarding import Forwarding
from taskd_net.core.frame import Frame
from taskd_net.core.identity import UNSHOWN, Credentials, Violation
from taskd_net.core.inbox import InboxDoor
from taskd_net.core.links import UP, Children, Link, Terms
from taskd_net.core.messages import Messages
from taskd_net.core.pending_sends import PendingSends
from taskd_net.core.probes import Probes
from taskd_net.core.quirks import Quirks
from taskd_net.core.quota import Quota
from taskd_net.core.ready import Diverted, EndStream, Forgot, Kind, Ready, Reason, Token
from taskd_net.core.router_config import RouterConfig
from taskd_net.core.routes import LinkId
from taskd_net.core.sweep import Sweep
from taskd_net.core.topology import Topology

ACK_TIMEOUT_PER_LEVEL: Final = 0.8
"""Factor on the ack timeout per level below the Mgr: a Proxy gives up, and can say who did not answer, before its
parent gives up on the Proxy. Six levels still leave 0.8 s."""

ACK_TIMEOUT_LEVELS: Final = 10
"""Levels that shorten the ack timeout: a parent may say any depth. Ten leave 0.3 s."""

COPIES_WRITTEN: Final = 2
"""Times that the bytes of a message are held while it is written: the batch, and gRPC's copy."""

ANSWERS_UNTAKEN: Final = 2 * limits.SHARED_IN_FLIGHT
"""Answers that wait for one neighbour beyond its quota of messages; then its stream ends. An honest neighbour awaits no
more than SHARED_IN_FLIGHT, and may have given up on as many. With the default quota, 16,384 answers take some 7 MiB."""

COPIES_S: Final = 10.0
"""Seconds for which a broadcast is known that a neighbour sends once for each receiver. A later resend is intended."""


class Router(Messages):
    """One node's decisions.

    Args:
        position: this node's own.
        upstream: whether the node has a parent (every node but the Mgr).
        config: bounds and times.
    """

    def __init__(self, position: Position, *, upstream: bool, config: RouterConfig | None = None) -> None:
        self._config = config = config or RouterConfig()
        # The Mgr stands for a parent that has not named itself yet.
        self._up = Link(UP, Position.mgr()) if upstream else None
        self.children = Children(config.max_children, config.registration_hold, config.grace)
        self._topology = Topology(
            position, self._up, self.children, config.job, config.limits, config.routes, config.routes_slice
        )
        self.quota = Quota(config.limits)
        self._most_unanswered = config.limits.child_messages + ANSWERS_UNTAKEN
        # As many messages again were refused, and their answers are not taken.
        self._most_of_all = 2 * config.limits.total_messages
        self.limits = config.limits
        self.position = position
        self.identity = self._topology.identity
        self.routes = self._topology.routes
        self.door = InboxDoor(config.inbox, config.dedup_window, config.link_messages, config.link_bytes)
        self.counters = Counters()
        self._decisions = decisions = Decisions(self._topology, self.counters)
        self._take = decisions.take
        self.statistics = decisions.statistics
        self._ack_timeout = self._hop_timeout = config.ack_timeout
        self._advertisements = Advertisements(self._topology, decisions)
        self._sends = PendingSends(
            self._topology, self._advertisements, decisions.schedule, config.link_messages, config.link_bytes
        )
        decisions.ended = self._sends.ended
        self._delivery = Delivery(self.door, decisions, config.inbox_wait, config.confirms)
        seen = Copies(config.dedup_window, COPIES_S)
        self._admission = Admission(self._topology, self._advertisements, decisions, seen, config.link_bytes)
        most = config.limits.total_bytes // COPIES_WRITTEN
        self._forwarding = Forwarding(
            self._topology, decisions, self._delivery, seen, config.link_messages, config.link_bytes, most
        )
        # True while messages that arrived before the drain may still go into the inbox.
        self._reopens = False
        self._sweep = Sweep(self._topology, decisions.schedule)
        self._probes = Probes(self._topology, self._forwarding.forward, self._forwarding.fan_out, decisions.settle)

    # ---- children

    def register(
        self,
        now: float,
        position: Position,
        quirks: Quirks | None = None,
        credentials: Credentials = UNSHOWN,
        *,
        service: bool = False,
    ) -> Ready:
        """Give a child its place; it is routable from here once its stream stands.

        Args:
            now: the time.
            position: the child's.
            quirks: its deviations from the contract, if it has any.
            credentials: the identity that its connection shows.
            service: it is a tool or a service, and no rank of the job.

        Returns:
            In `link`, the child's link. Or in `refusal`: 4003-4005 for a bad position, 4999 for this node's own, 5003
            when there is no place; a Violation with 4002 for a position that is not its own to take.
        """
        try:
            link = self._topology.register(now, position, credentials, service=service)
        except Refusal as refusal:
            self._decisions.ready.refusal = refusal
            return self._take()
        link.quirks = quirks
        link.spell(position)
        if link.quota is None:
            link.quota = Quota(self.limits, self.quota)
        self._decisions.schedule.look(self.children, link.expires)
        self._decisions.ready.link = link.id
        return self._take()

    def register_pause(self, now: float, position: Position) -> float:
        """Seconds to wait before `register`, for a child that makes no pauses and whose position is fought for."""
        link = self.children.find(position)
        return 0.0 if link is None else link.next_pause(now)

    def link_up(
        self,
        now: float,
        link_id: LinkId,
        session: object,
        unwritten: Iterable[tuple[Frame, int]] = (),
        terms: Terms = Terms(),  # noqa: B008 - a tuple
    ) -> Ready:
        """The stream of a child is up. An earlier stream of the same position ends.

        Args:
            now: the time.
            link_id: the child's link.
            session: names the stream.
            unwritten: the messages in the queue of the stream that stood before, with their numbers.
            terms: of the stream.
        """
        link = self.children.by_id[link_id]
        if link.up:
            link.changed_hands(now)
            self._decisions.ready.notices.append(EndStream(link.session, Reason.POSITION_TAKEN))
            self._forwarding.drop(now, link, unwritten)
        self.children.opened(now, link, session)
        link.agree(terms)
        self.counters.joins += 1
        # The claim of who is connected here is the newest.
        self.routes.learn(link.position.identity, link.id, link.epoch)
        self._sends.look_again()
        return self._take()

    def link_down(
        self, now: float, link_id: LinkId, session: object, unwritten: Iterable[tuple[Frame, int]] = ()
    ) -> Ready:
        """The stream of a child ended, with these messages in its queue. The end of a replaced stream is ignored."""
        link = self.children.by_id.get(link_id)
        if link is None or link.session is not session:
            for frame, _ in unwritten:
                if not frame.sync:
                    src = self.position if link is None else link.position
                    self._decisions.lose(frame, Code.NETWORK_SEND_LOST, src, "the stream was replaced")
            return self._take()
        self.children.lost(now, link)
        # Other claims of a way to this child were refused while it was connected here.
        self.routes.yield_to_others(link.position.identity, link.id)
        self._admission.link_down(link)
        self._decisions.schedule.look(self.children, link.expires)
        self.counters.losses += 1
        self._forwarding.drop(now, link, unwritten)
        return self._take()

    def renewed(self, link_id: LinkId, session: object, probed: int | None = None) -> None:
        """Another stream continues the stream of a link, with its queue; `probed` is its answer to a probe."""
        link = self._topology.link(link_id)
        assert link is not None and link.up, "only a stream that stands can go on"
        link.session, link.silent = session, False
        if link.probes is not None and probed is not None:
            link.probes = probed

    def announced(
        self,
        now: float,
        link_id: LinkId | None,
        kind: Kind,
        positions: Sequence[Position],
        token: Token,
        uuid: str,
        patience: float = 0.0,
        continues: bool = False,
    ) -> Ready:
        """Take in a child's announcement; `token` gets the answer when every node above has taken it in too.

        `patience`: seconds for which the child can wait for this node to have a parent, if it has none. `continues`: a
        further slice of a long one; the last slice of a snapshot is COMPLETE, and the others are ADD.
        """
        link = None if link_id is None else self.children.by_id.get(link_id)
        try:
            gone, new, disputed, diverted = self._topology.learn(now, link, kind, positions, continues=continues)
        except Refusal as refusal:
            if link is not None and isinstance(refusal, Violation):
                self._admission.report_violation(str(link.position), refusal)
            self._decisions.answer(token, uuid, refusal.code, refusal.detail)
            return self._take()
        assert link is not None
        self._admission.report_disputed(link, disputed)
        self._decisions.ready.notices.extend(Diverted(node, link.position) for node in diverted)
        if kind is Kind.COMPLETE and self._topology.has_stale(link):
            gone = self._sweep.begin(now, link)
        self._advertisements.gone(gone)
        self._advertisements.pass_on(link, new, token, uuid, now + patience if patience > 0.0 else 0.0)
        self._sends.look_again()
        for cleared in self._admission.announced(link):
            budget = None if cleared.budget is None else cleared.budget + cleared.since - now
            self._arrive(now, link.id, cleared.frame, cleared.reply, budget)
        return self._take()

    def report_violation(self, peer: str, refusal: Violation) -> Ready:
        """Report a violation that was refused before it reached the Router."""
        self._admission.report_violation(peer, refusal)
        return self._take()

    def forget(self, position: Position) -> Ready:
        """Forget a node and its routes before its grace time is over.

        A node whose stream is up here stays. A node that is connected elsewhere returns with its next announcement.
        """
        self._has_forgotten(*self._topology.forget(position.identity))
        return self._take()

    # ---- the parent

    def upstream_up(
        self,
        now: float,
        session: object,
        parent: Position,
        depth: int = 1,
        withdraws: bool = False,
        quirks: Quirks | None = None,
        told: bool | None = None,
        terms: Terms = Terms(),  # noqa: B008 - a tuple
    ) -> Ready:
        """The stream to the parent is up.

        Args:
            now: the time.
            session: names the stream.
            parent: the parent's position.
            depth: levels below the Mgr of this node; decides how long it waits for answers from below.
            withdraws: whether the parent understands COMPLETE and WITHDRAW.
            quirks: the parent's deviations from the contract, if it has any.
            told: whether the parent says that it has joined; None for one that does not tell.
            terms: of the stream.
        """
        up = self._up
        assert up is not None, "the Mgr has no upstream"
        up.session, up.position, up.quirks = session, parent, quirks
        up.agree(terms)
        up.since = now
        up.streams += 1
        self._advertisements.came_up(withdraws, quirks, told)
        levels = min(depth, ACK_TIMEOUT_LEVELS)
        self._hop_timeout = self._config.ack_timeout * ACK_TIMEOUT_PER_LEVEL**levels
        self._sends.look_again()
        self._send_ready(now)
        return self._take()

    def parent_told(self, now: float, joined: bool) -> Ready:
        """Take in the parent's state: whether it has joined."""
        self._advertisements.told = joined
        if self._advertisements.judge():
            self._sends.look_again()
            self._send_ready(now)
        return self._take()

    def upstream_down(self, now: float, session: object, unwritten: Iterable[tuple[Frame, int]] = ()) -> Ready:
        """The stream to the parent ended, with these messages still waiting to be sent."""
        up = self._up
        assert up is not None and up.session is session, "the upstream has one session at a time"
        up.session = None
        up.since = now
        self._advertisements.went_down()
        self._advertisements.judge()
        self._forwarding.drop(now, up, unwritten)
        return self._take()

    def announce_all(self, token: Token, uuid: str) -> Ready:
        """Announce this node and every node behind it to the parent; `token` gets its answer."""
        self._advertisements.everything(Kind.COMPLETE, token, uuid)
        return self._take()

    def withdraw(self, token: Token, uuid: str) -> Ready:
        """Withdraw this node and every node behind it from the parent; `token` gets its answer.

        The answer is 6002 where the parent does not support it: it forgets the node after its grace time.
        """
        self._advertisements.everything(Kind.WITHDRAW, token, uuid)
        return self._take()

    def withdraw_again(self, positions: Sequence[Position]) -> Ready:
        """Repeat a withdrawal that the parent did not take in, without the nodes that are back.

        The withdrawal of this node itself is not repeated: its caller has the answer and decides.
        """
        if self.identity not in positions:
            self._advertisements.gone([position for position in positions if position not in self.routes])
        return self._take()

    def announce_answered(self, session: object, code: int, src: Position) -> Ready:
        """Take in the parent's answer to the announcement under way."""
        if self._up is not None and self._up.session is session:
            self._advertisements.answered(code, src)
            if self._advertisements.judge():
                self._sends.look_again()
        return self._take()

    # ---- time

    def next_deadline(self) -> float:
        """The time of the next `tick`, or infinity. It is never later than the earliest deadline."""
        return self._decisions.schedule.wake

    def tick(self, now: float) -> Ready:
        """End every wait whose deadline has passed. Does nothing before `next_deadline`."""
        schedule = self._decisions.schedule
        if now < schedule.wake:
            return self._take()
        due = schedule.due(now)
        for link in self._topology.links() if due else ():
            if link in due:
                self._forwarding.give_up(now, link)
        if self.door in due:
            self._delivery.give_up(now)
        if self._sends in due:
            self._end_waiting(self._sends.take_due(now), "not joined within the timeout")
            self._send_ready(now)
        if self._advertisements in due:
            self._advertisements.give_up(now)
        if self._admission in due:
            self._admission.give_up(now)
        if self.children in due:
            for gone_link, gone in self._topology.expire(now):
                self._has_forgotten(gone_link, gone)
        if self._sweep in due:
            self._advertisements.gone(self._sweep.take_slice())
        for part in due:
            schedule.look(part, part.next_deadline())
        return self._take()

    def close(self, now: float) -> Ready:
        """Close the node: answer every message that waits."""
        self._end_waiting(self._sends.close(), "the node was closed before it joined")
        self._admission.close()
        self._delivery.close()
        self._advertisements.went_down()
        for link in self._topology.links():
            for collision in link.in_flight.take_collisions():
                self._decisions.settle(collision.part, Code.NETWORK_SEND_LOST, link.position, "the node was closed")
            for part in link.in_flight.take_all():
                self._decisions.settle(part, Code.NETWORK_ACK_LOST, link.position, "the node was closed")
        return self._take()

    def drain(self) -> Ready:
        """Prepare to close: refuse new messages whose answer is awaited, so that `busy` ends.

        A new message for this node is answered 5000, one through it 5001; the sender still has it. Messages with
        `sync=false` that another node has taken are passed on, and the line before the inbox is still let in. Sends
        that wait for the join are answered 6002.
        """
        self._reopens, self.door.open = self.door.open, False
        self._forwarding.draining = True
        self._end_waiting(self._sends.close(), "the node is being closed and has not joined")
        return self._take()

    @property
    def joined(self) -> bool:
        """True if the Mgr knows the way to this node, as far as can be known here."""
        return self._advertisements.joined

    @property
    def upstream(self) -> Link | None:
        """The link to the parent; None at the root."""
        return self._up

    @property
    def busy(self) -> bool:
        """True if a message waits here: for its answer, the write, room in the inbox, its confirmation, or the join."""
        links = self._topology.links()
        return bool(self._sends or self.door.line or self._delivery.unconfirmed) or any(
            link.queued_messages or link.in_flight.count for link in links
        )

    def _has_forgotten(self, link: Link | None, gone: list[Position]) -> None:
        """End the child's place, if it was one, and withdraw these nodes."""
        if link is not None:
            link.stop_waiting()
            self._decisions.ready.notices.append(Forgot(link.id, link.position, link.dropped))
            self.counters.forgotten.add(link.counters)
        self._advertisements.gone(gone)
