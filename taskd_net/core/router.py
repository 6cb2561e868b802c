"""The Router: every decision of a node. Events in, one `Ready` out; nothing here waits, and time is an argument.

A Mgr, a Proxy and a Worker run the same Router; they differ in which links they have. There is one method for each kind
of event. It returns everything that follows from the event, as data, for the node to carry out before the next one.
The message path is in `core.messages`.

The rule for the next hop is contract section 4, delivery section 5, and the learning of routes section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from taskd_net import limits
from taskd_net.codes import Code, Refusal
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
from taskd_net.core.ready import EndStream, Forgot, Kind, Ready, Reason, Token
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import Topology
from taskd_net.peer_limits import DEFAULT, Limits
from taskd_net.position import Position


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """Settings of a Router. Times in seconds; the reasons for the values are in `limits`."""

    inbox: int = 8
    dedup_window: int = limits.DEDUP_WINDOW
    inbox_wait: float = limits.INBOX_WAIT_S
    ack_timeout: float = limits.ACK_TIMEOUT_S
    link_messages: int = limits.LINK_MESSAGES
    link_bytes: int = limits.LINK_BYTES
    max_children: int = limits.MAX_CHILDREN
    grace: float = limits.GRACE_S
    registration_hold: float = limits.REGISTRATION_HOLD_S
    job: str = ""
    limits: Limits = DEFAULT


class Router(Messages):
    """One node's decisions.

    Args:
        position: this node's own.
        upstream: whether the node has a parent (every node but the Mgr).
        config: bounds and times.
    """

    __slots__ = (
        "_config",
        "children",
        "counters",
        "door",
        "identity",
        "limits",
        "position",
        "quota",
        "statistics",
    )

    def __init__(self, position: Position, *, upstream: bool, config: RouterConfig | None = None) -> None:
        self._config = config = config or RouterConfig()
        # Until the parent says who it is, its place in our answers is taken by what it most likely is.
        self._up = Link(UP, Position.mgr()) if upstream else None
        self.children = Children(config.max_children, config.registration_hold, config.grace)
        self._topology = Topology(position, self._up, self.children, config.job, config.limits)
        self.quota = Quota(config.limits)
        self.limits = config.limits
        self.position = position
        self.identity = self._topology.identity
        self.routes = self._topology.routes
        self.door = InboxDoor(config.inbox, config.dedup_window, config.link_messages, config.link_bytes)
        self.counters = Counters()
        self._decisions = decisions = Decisions(self._topology, self.counters)
        self.statistics = decisions.statistics
        self._ack_timeout = self._hop_timeout = config.ack_timeout
        self._advertisements = Advertisements(self._topology, decisions)
        self._sends = PendingSends(
            self._topology, self._advertisements, decisions.schedule, config.link_messages, config.link_bytes
        )
        decisions.ended = self._sends.ended
        self._delivery = Delivery(self.door, decisions, config.inbox_wait)
        seen = Copies(config.dedup_window, limits.COPIES_S)
        self._admission = Admission(self._topology, self._advertisements, decisions, seen, config.link_bytes)
        self._forwarding = Forwarding(
            self._topology, decisions, self._delivery, seen, config.link_messages, config.link_bytes
        )
        # Whether what had arrived before this node drained may still go into the inbox.
        self._reopens = False
        self._probes = Probes(self._topology, self._forwarding.forward, decisions.settle)

    # ---- children

    def register(
        self, now: float, position: Position, quirks: Quirks | None = None, credentials: Credentials = UNSHOWN
    ) -> Ready:
        """Give a child its place; it is routable from here once its stream stands.

        Args:
            now: the time.
            position: the child's.
            quirks: its deviations from the contract, if it has any.
            credentials: the identity that its connection shows.

        Returns:
            In `link`, the child's link. Or in `refusal`: 4003-4005 for a bad position, 4999 for this node's own, 5003
            when there is no place; a Violation with 4002 for a position that is not its own to take.
        """
        try:
            link = self._topology.register(now, position, credentials)
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
        """A child's stream stands; one that stood before for the same position ends.

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
        """A stream ended, with these messages still in its queue. News of a replaced stream changes nothing."""
        link = self.children.by_id.get(link_id)
        if link is None or link.session is not session:
            for frame, _ in unwritten:
                if not frame.sync:
                    src = self.position if link is None else link.position
                    self._decisions.lose(frame, Code.NETWORK_SEND_LOST, src, "the stream was replaced")
            return self._take()
        self.children.lost(now, link)
        # Whoever else leads to this node was not believed as long as it was connected here.
        self.routes.yield_to_others(link.position.identity, link.id)
        self._admission.link_down(link)
        self._decisions.schedule.look(self.children, link.expires)
        self.counters.losses += 1
        self._forwarding.drop(now, link, unwritten)
        return self._take()

    def renewed(self, link_id: LinkId, session: object) -> None:
        """The stream of a link goes on as another one, which has taken over all that was queued; nothing is lost."""
        link = self._topology.link(link_id)
        assert link is not None and link.up, "only a stream that stands can go on"
        link.session = session

    def announced(
        self,
        now: float,
        link_id: LinkId | None,
        kind: Kind,
        positions: Sequence[Position],
        token: Token,
        uuid: str,
        patience: float = 0.0,
    ) -> Ready:
        """A child says which nodes lie behind it; `token` gets the answer when every node above knows it too.

        `patience`: seconds for which the child can wait for this node to have a parent, if it has none.
        """
        link = None if link_id is None else self.children.by_id.get(link_id)
        try:
            gone, new, disputed = self._topology.learn(now, link, kind, positions)
        except Refusal as refusal:
            if link is not None and isinstance(refusal, Violation):
                self._admission.report_violation(str(link.position), refusal)
            self._decisions.answer(token, uuid, refusal.code, refusal.detail)
            return self._take()
        assert link is not None
        if disputed:
            text = f"{link.position} announces {disputed[0]}, which cannot lie below it"
            self._admission.report_violation(str(link.position), Violation(Code.DST_TYPE_ILLEGAL, text))
        for position in positions:
            link.spell(position)
        self._advertisements.gone(gone)
        self._advertisements.pass_on(link, new, token, uuid, now + patience if patience > 0.0 else 0.0)
        self._sends.look_again()
        for cleared in self._admission.announced(link):
            budget = None if cleared.budget is None else cleared.budget + cleared.since - now
            self._arrive(now, link.id, cleared.frame, cleared.reply, budget)
        return self._take()

    def report_violation(self, peer: str, refusal: Violation) -> Ready:
        """Somebody was refused, before it came to the Router, what nobody who is honest asks for."""
        self._admission.report_violation(peer, refusal)
        return self._take()

    def forget(self, position: Position) -> Ready:
        """Somebody wants a node that is not connected to be forgotten before its time, with its routes.

        A node whose stream stands here stays; one that is connected elsewhere is known again when it is announced.
        """
        link, gone = self._topology.forget(position.identity)
        self._has_forgotten(link, gone)
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
        """The stream to the parent stands.

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
        self._hop_timeout = self._config.ack_timeout * limits.ACK_TIMEOUT_PER_LEVEL**depth
        self._sends.look_again()
        self._send_ready(now)
        return self._take()

    def parent_told(self, now: float, joined: bool) -> Ready:
        """The parent says whether it has joined."""
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
        """Tell the parent everything that can be reached through this node; `token` gets its answer."""
        self._advertisements.everything(Kind.COMPLETE, token, uuid)
        return self._take()

    def withdraw(self, token: Token, uuid: str) -> Ready:
        """Tell the parent that nothing is to be reached through this node any more; `token` gets its answer.

        A parent that does not understand this is not told (6002): it forgets the node when its grace time is over.
        """
        self._advertisements.everything(Kind.WITHDRAW, token, uuid)
        return self._take()

    def withdraw_again(self, positions: Sequence[Position]) -> Ready:
        """The parent did not take in that these nodes are gone: tell it again of those that are not back.

        When it was this node itself that wanted to leave, whoever asked for it has the answer and decides.
        """
        if self.identity not in positions:
            self._advertisements.gone([position for position in positions if position not in self.routes])
        return self._take()

    def announce_answered(self, session: object, code: int, src: Position) -> Ready:
        """The parent answered the announcement under way."""
        if self._up is not None and self._up.session is session:
            self._advertisements.answered(code, src)
            if self._advertisements.judge():
                self._sends.look_again()
        return self._take()

    # ---- time

    def next_deadline(self) -> float:
        """When `tick` is due at the latest, or infinity. Never later than the first thing that has to happen."""
        return self._decisions.schedule.wake

    def tick(self, now: float) -> Ready:
        """Give up everything that has waited too long. Does nothing before `next_deadline`."""
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
        for part in due:
            schedule.look(part, part.next_deadline())
        return self._take()

    def close(self, now: float) -> Ready:
        """The node closes: everything that waits is answered now."""
        self._end_waiting(self._sends.close(), "the node was closed before it joined")
        self._admission.close()
        self._delivery.shut()
        self._advertisements.went_down()
        for link in self._topology.links():
            for collision in link.in_flight.take_collisions():
                self._decisions.settle(collision.part, Code.NETWORK_SEND_LOST, link.position, "the node was closed")
            for part in link.in_flight.take_all():
                self._decisions.settle(part, Code.NETWORK_ACK_LOST, link.position, "the node was closed")
        return self._take()

    def drain(self) -> Ready:
        """The node is about to close: take on nothing more whose answer is awaited, so that `busy` comes to an end.

        New messages for this node are answered 5000, new ones through it 5001; the sender still has them. `sync=false`
        messages that another node has taken already are passed on, and the line before the inbox is still let in. Sends
        that wait for the node to join are answered 6002.
        """
        self._reopens = self.door.open
        self.door.open = False
        self._forwarding.draining = True
        self._end_waiting(self._sends.close(), "the node is being closed and has not joined")
        return self._take()

    @property
    def joined(self) -> bool:
        """Whether the Mgr knows the way to this node, as far as can be known here."""
        return self._advertisements.joined

    @property
    def upstream(self) -> Link | None:
        """The link to the parent; None at the root."""
        return self._up

    @property
    def busy(self) -> bool:
        """Whether a message waits here: for its answer, to be written, for room in the inbox, for the node to join."""
        links = self._topology.links()
        return bool(self._sends or self.door.line) or any(
            link.queued_messages or link.in_flight.count for link in links
        )

    def check(self) -> None:
        """Assert the Router's own invariants. For tests.

        - The indexes of the routes agree with the table, and each route leads to a registered child.
        - The counts of a link are those of its queue and of its messages in flight, and never negative.
        - Only a link whose stream stands has messages in flight.
        - A child's quota covers the messages that wait on its stream, and their bytes.
        - The inbox holds no more than its room.
        - Every deadline is on the schedule: the next wake-up is not later than any of them.
        - Each send that is open has its token, and an event leaves no decision behind.
        """
        schedule = self._decisions.schedule
        self.routes.check()
        for link in self._topology.links():
            assert link.queued_messages >= 0 and link.queued_bytes >= 0
            assert link.in_flight.count == sum(1 for _ in link.in_flight)
            assert link.up or not link.in_flight
            assert link.waiting >= 0 and link.waiting_bytes >= 0
            assert link.quota is None or link.quota.messages >= link.waiting
            assert link.next_deadline() >= schedule.planned(link)
        assert 0 <= self.door.held <= max(self.door.room, 0)
        assert all(link_id in self.children.by_id for _, link_id in self.routes.items())
        for part in (self.door, self._sends, self._advertisements, self._admission, self.children):
            assert part.next_deadline() >= schedule.planned(part) >= schedule.wake
        assert all(token == send.token for token, send in self._decisions.open.items())
        assert not self._decisions.ready, "an event's decisions were left behind"

    # ---- decisions

    def _has_forgotten(self, link: Link | None, gone: list[Position]) -> None:
        """These can no longer be reached, and the child, if it was one, has no place any more."""
        if link is not None:
            link.stop_waiting()
            self._decisions.ready.notices.append(Forgot(link.id, link.position, len(gone)))
            self.counters.forgotten.add(link.counters)
        self._advertisements.gone(gone)
