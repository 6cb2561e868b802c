"""The Router: every decision of a node. Events in, actions out; nothing here waits, and time is an argument.

A Mgr, a Proxy and a Worker run the same Router; they differ in which links they have. One method per event; each
returns the actions that follow from it, to be carried out in order. `next_deadline` says when `tick` is due.

Where a message goes is contract section 4, how it is delivered section 5, how routes are learnt section 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from taskd_net import limits
from taskd_net.codes import Code, Refusal
from taskd_net.core.acks import UNTOLD, Key, Reply, Told
from taskd_net.core.actions import Action, Answer, EndStream, Forgot, Kind, Reason
from taskd_net.core.admission import Admission
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.counters import Clock, Counters
from taskd_net.core.decisions import Decisions
from taskd_net.core.delivery import Delivery
from taskd_net.core.forwarding import Forwarding
from taskd_net.core.frame import Ack, Frame, Probe
from taskd_net.core.identity import UNSHOWN, Credentials, Violation
from taskd_net.core.inbox import InboxDoor
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.pending_sends import PendingSends, Send
from taskd_net.core.probes import Ended, Probes
from taskd_net.core.quirks import Copies, Quirks
from taskd_net.core.routes import LinkId
from taskd_net.core.topology import LOCAL, Plan, Topology
from taskd_net.peer_limits import DEFAULT, Limits
from taskd_net.position import Position


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """What can be set on a Router. Times in seconds; the reasons for the values are in `limits`."""

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


Arrival: TypeAlias = tuple[Frame, Reply | None, float | None]
"""A message, where its answer goes, and how long that is awaited; as in `Router.frame_arrived`."""


class Router:
    """One node's decisions.

    Args:
        position: this node's own.
        upstream: whether the node has a parent (every node but the Mgr).
        config: bounds and times.
        clock: what the times that answers take are measured with; nothing is decided by it.
    """

    __slots__ = (
        "_admission",
        "_advertisements",
        "_config",
        "_decisions",
        "_delivery",
        "_forwarding",
        "_hop_timeout",
        "_probes",
        "_reopens",
        "_sends",
        "_topology",
        "_up",
        "children",
        "counters",
        "door",
        "identity",
        "limits",
        "position",
        "routes",
        "statistics",
    )

    def __init__(
        self,
        position: Position,
        *,
        upstream: bool,
        config: RouterConfig | None = None,
        clock: Clock = lambda: 0.0,
    ) -> None:
        self._config = config = config or RouterConfig()
        # Until the parent says who it is, its place in our answers is taken by what it most likely is.
        self._up = Link(UP, Position.mgr()) if upstream else None
        self.children = Children(config.max_children, config.registration_hold, config.grace)
        self._topology = Topology(position, self._up, self.children, config.job, config.limits)
        self.limits = config.limits
        self.position = position
        self.identity = self._topology.identity
        self.routes = self._topology.routes
        self.door = InboxDoor(config.inbox, config.dedup_window, config.link_messages, config.link_bytes)
        self.counters = Counters(clock)
        self._decisions = decisions = Decisions(position, self.counters)
        self.statistics = decisions.statistics
        self._hop_timeout = config.ack_timeout
        self._advertisements = Advertisements(self._topology, decisions.add)
        self._sends = PendingSends(
            self._topology, self._advertisements, decisions.look_by, config.link_messages, config.link_bytes
        )
        self._delivery = Delivery(self.door, decisions, config.inbox_wait)
        seen = Copies(config.dedup_window, limits.COPIES_S)
        self._admission = Admission(self._topology, self._advertisements, decisions, seen, config.link_bytes)
        self._forwarding = Forwarding(
            self._topology, decisions, self._delivery, seen, config.link_messages, config.link_bytes
        )
        # Whether what had arrived before this node drained may still go into the inbox.
        self._reopens = False
        self._probes = Probes(self._topology, self._forwarding.forward, decisions.settle)

    # ---- messages

    def send(self, now: float, frame: Frame, reply: Reply, timeout: float, wait: bool = True) -> list[Action]:
        """The application sends a message; `reply` gets the answer within `timeout` seconds, whatever happens.

        For `sync=false` the answer says that the first hop has it. `wait`: whether it waits for the node to join.
        """
        return self.submit(now, Send(frame, reply, now + timeout, wait))

    def submit(self, now: float, send: Send) -> list[Action]:
        """The same with a Send, by which it can be cancelled."""
        self.statistics.sent += 1
        try:
            if not self._sends.has_to_wait(send):
                self._send(now, send)
            elif self._sends.add(send):
                self._send_ready(now)
            else:
                text = "too many messages wait for the node to join"
                self._decisions.answer(send, send.frame.uuid, Code.RECV_BUF_BUSY, text)
        except Refusal as refusal:
            self.counters.outcomes["refused"].count(refusal.code)
            self._decisions.refuse(send.frame, send, refusal)
        return self._take()

    def cancel(self, send: Send) -> list[Action]:
        """The application no longer awaits the answer: what has not left this node does not leave it any more."""
        self._sends.cancel(send)
        self._forwarding.withdraw(send)
        # Whoever else follows the message learns its end; it may have been delivered.
        ack = Ack(send.frame.uuid, Code.NETWORK_ACK_LOST, self.position, "the send was cancelled")
        self._decisions.add(Answer(send.reply, ack))
        return self._take()

    def probe(self, now: float, probe: Probe, reply: Reply, timeout: float) -> list[Action]:
        """This node asks whether, and how, the way leads somewhere; `reply` gets the answer within `timeout` seconds.

        It does not wait for the node to join: that it has not is the answer (6002).
        """
        try:
            self._probes.send(now, probe, LOCAL, reply, now + timeout)
        except Refusal as refusal:
            self._decisions.refuse(probe, reply, refusal)
        return self._take()

    def frame_arrived(
        self, now: float, came_from: LinkId, frame: Frame, reply: Reply | None, budget: float | None = None
    ) -> list[Action]:
        """A message came in on a link.

        Args:
            now: the time, in seconds of a clock that never steps.
            came_from: the link.
            frame: the message.
            reply: where its answer goes; None where the wire has no answer (`sync=false` from above).
            budget: seconds within which whoever sent it here wants the answer, if known.
        """
        link = self._topology.link(came_from)
        if link is not None:
            self.counters.arrived(now, link, 1, len(frame.data))
        if link is None or link.quirks is None or self._admission.is_new(now, link, link.quirks, frame):
            routed = came_from == UP or self.routes.next_hop(frame.src) == came_from
            if routed or self._admission.is_own(now, came_from, frame, reply, budget):
                self._arrive(now, came_from, frame, reply, budget)
        elif reply is not None:
            self._decisions.answer(reply, frame.uuid, Code.OK)
        return self._take()

    def frame_had_arrived(
        self, now: float, came_from: LinkId, frame: Frame, reply: Reply, budget: float | None = None
    ) -> list[Action]:
        """A message that had arrived before `drain`, and that nobody looked at until now; as `frame_arrived`."""
        self.door.open, self._forwarding.draining = self._reopens, False
        try:
            return self.frame_arrived(now, came_from, frame, reply, budget)
        finally:
            self.door.open, self._forwarding.draining = False, True

    def frames_arrived(self, now: float, came_from: LinkId, arrivals: Iterable[Arrival]) -> list[Action]:
        """Several messages came in together, in this order, on a link that keeps the contract."""
        messages = size = 0
        next_hop, routed = self.routes.next_hop, None
        for frame, reply, budget in arrivals:
            messages += 1
            size += len(frame.data)
            src = frame.src
            # The messages of one sender have one and the same src, and what arrives here changes no route. Nearly every
            # sender is written as its identity, and is routed where it comes from: one look.
            if src is routed:
                self._arrive(now, came_from, frame, reply, budget)
            elif came_from == UP or next_hop(src) == came_from:
                routed = src
                self._arrive(now, came_from, frame, reply, budget)
            elif self._admission.is_own(now, came_from, frame, reply, budget):
                self._arrive(now, came_from, frame, reply, budget)
        link = self._topology.link(came_from)
        if link is not None:
            self.counters.arrived(now, link, messages, size)
        return self._take()

    def accepted(self, now: float, link_id: LinkId, keys: Sequence[Key], sync: bool | None = None) -> list[Action]:
        """The far side of a link answered these messages with 0; `sync`: their kind, where the link tells."""
        link = self._topology.link(link_id)
        if link is not None:
            taken, timed, collisions = 0, link.timed, link.in_flight.collisions
            for key, part in zip(keys, link.in_flight.take_accepted(keys, sync), strict=True):
                if part is None:
                    self.statistics.late_acks += 1
                else:
                    taken += 1
                    if part is timed:
                        self.counters.timed(link)
                    self._decisions.settle(part, Code.OK, part.receiver or link.position, "", UNTOLD)
                if collisions and isinstance(key, str):
                    self._forwarding.release(now, link, key)
            self.counters.accepted(now, link, taken)
        return self._take()

    def ack_arrived(
        self,
        now: float,
        link_id: LinkId,
        key: Key,
        code: int,
        src: Position,
        detail: str = "",
        told: Told = UNTOLD,
    ) -> list[Action]:
        """The far side of a link answered a message; an answer that nobody waits for is counted and dropped.

        `told`: what it says beside its code; only of a sync broadcast it says anything.
        """
        link = self._topology.link(link_id)
        part = link.in_flight.take(key, None if told is UNTOLD else True) if link is not None else None
        if link is None or part is None:
            self.statistics.late_acks += 1
        else:
            self.counters.answered(now, link, part, code)
            self._decisions.settle(part, code, src, detail, told)
            if link.quirks is not None:
                self._forwarding.next_turn(now, link, link.quirks)
        if link is not None and link.in_flight.collisions and isinstance(key, str):
            self._forwarding.release(now, link, key)
        return self._take()

    def post_answered(
        self, now: float, link_id: LinkId, frame: Frame, code: int, src: Position, detail: str = ""
    ) -> list[Action]:
        """The far side of a link has, or has not, taken a `sync=false` message."""
        link = self._topology.link(link_id)
        part = link.in_flight.take_copy(frame) if link is not None else None
        if link is not None and part is not None:
            self.counters.answered(now, link, part, code)
            self._decisions.settle(part, code, src, detail, UNTOLD)
        elif code != Code.OK and frame.src.identity != self.identity:
            self._decisions.lose(frame, code, src, detail)
        if link is not None and link.in_flight.collisions:
            # Not at once: a stream that ends gives up its posts, too, and what follows must not go onto it.
            self._decisions.look_by(now)
        return self._take()

    def written(self, link_id: LinkId, session: object, messages: int, size: int) -> None:
        """Frames with `size` bytes in all have left the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            link.queued_messages -= messages
            link.queued_bytes -= size
            self.counters.written(link, messages, size)

    def withdrawn(self, link_id: LinkId, session: object, size: int) -> None:
        """A frame of `size` bytes was taken out of the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            link.queued_messages -= 1
            link.queued_bytes -= size

    def inbox_taken(self, now: float, count: int = 1) -> list[Action]:
        """The application took messages out of the inbox."""
        self._delivery.taken(now, count)
        return self._take()

    def close_inbox(self) -> list[Action]:
        """The application takes no more messages: from now on the answer is 5000."""
        self._reopens = False
        self._delivery.shut()
        return self._take()

    # ---- children

    def register(
        self, now: float, position: Position, quirks: Quirks | None = None, credentials: Credentials = UNSHOWN
    ) -> Link:
        """A child introduces itself; it is routable from here once its stream stands.

        Args:
            now: the time.
            position: who it is.
            quirks: what it does otherwise than the contract says, if it does.
            credentials: what its connection shows of it.

        Raises:
            Refusal: 4003-4005 for a bad position, 4999 for this node's own, 5003 when there is no place.
            Violation: 4002, the position is not its own to take.
        """
        link = self._topology.register(now, position, credentials)
        link.quirks = quirks
        link.spell(position)
        self._decisions.look_by(link.expires)
        return link

    def register_pause(self, now: float, position: Position) -> float:
        """Seconds to wait before `register`, for a child that makes no pauses and whose position is fought for."""
        link = self.children.find(position)
        return 0.0 if link is None else link.next_pause(now)

    def link_up(
        self,
        now: float,
        link: Link,
        session: object,
        unwritten: Iterable[Frame] = (),
        probes: Ended | None = None,
        numbered: bool = False,
        counts: bool = False,
    ) -> list[Action]:
        """A child's stream stands; one that stood before for the same position ends, with these frames in its queue.

        Args:
            now: the time.
            link: the child's.
            session: names the stream.
            unwritten: the messages in the queue of the stream that stood before.
            probes: what a probe that comes over it and ends here is answered; None for a child that knows no probes.
            numbered: whether messages on it are numbered, and answered by their numbers.
            counts: whether answers on it say how many have confirmed a broadcast.
        """
        if link.up:
            link.changed_hands(now)
            self._decisions.add(EndStream(link.session, Reason.POSITION_TAKEN))
            self._forwarding.drop(link, unwritten)
        self.children.opened(now, link, session)
        link.probes, link.counts = probes, counts
        link.in_flight.numbered = numbered
        self.counters.joins += 1
        # The claim of who is connected here is the newest.
        self.routes.learn(link.position.identity, link.id, link.epoch)
        self._sends.look_again()
        return self._take()

    def link_down(self, now: float, link: Link, session: object, unwritten: Iterable[Frame]) -> list[Action]:
        """A stream ended, with these frames still in its queue. News of a stream that was replaced changes nothing."""
        if link.session is not session:
            for frame in unwritten:
                if not frame.sync:
                    self._decisions.lose(frame, Code.NETWORK_SEND_LOST, link.position, "the stream was replaced")
            return self._take()
        self.children.lost(now, link)
        # Whoever else leads to this node was not believed as long as it was connected here.
        self.routes.yield_to_others(link.position.identity, link.id)
        self._admission.link_down(link)
        self._decisions.look_by(link.expires)
        self.counters.losses += 1
        self._forwarding.drop(link, unwritten)
        return self._take()

    def renewed(self, link_id: LinkId, session: object) -> None:
        """The stream of a link goes on as another one, which has taken over all that was queued; nothing is lost."""
        link = self._topology.link(link_id)
        assert link is not None and link.up, "only a stream that stands can go on"
        link.session = session

    def announced(
        self,
        now: float,
        link: Link | None,
        kind: Kind,
        positions: Sequence[Position],
        reply: Reply,
        uuid: str,
        patience: float = 0.0,
    ) -> list[Action]:
        """A child says which nodes lie behind it; the answer goes out when everybody above knows it too.

        `patience`: seconds for which it can wait for this node to have a parent, if it has none.
        """
        try:
            gone, new, disputed = self._topology.learn(now, link, kind, positions)
        except Refusal as refusal:
            if link is not None and isinstance(refusal, Violation):
                self._admission.report_violation(str(link.position), refusal)
            self._decisions.answer(reply, uuid, refusal.code, refusal.detail)
            return self._take()
        assert link is not None
        if disputed:
            text = f"{link.position} announces {disputed[0]}, which cannot lie below it"
            self._admission.report_violation(str(link.position), Violation(Code.DST_TYPE_ILLEGAL, text))
        for position in positions:
            link.spell(position)
        self._advertisements.gone(gone)
        until = now + patience if patience > 0.0 else 0.0
        self._advertisements.pass_on(link, new, reply, uuid, until)
        self._decisions.look_by(self._advertisements.next_deadline())
        self._sends.look_again()
        for cleared in self._admission.announced(link):
            budget = None if cleared.budget is None else cleared.budget + cleared.since - now
            self._arrive(now, link.id, cleared.frame, cleared.reply, budget)
        return self._take()

    def report_violation(self, peer: str, refusal: Violation) -> list[Action]:
        """Somebody was refused, before it came to the Router, what nobody who is honest asks for."""
        self._admission.report_violation(peer, refusal)
        return self._take()

    def forget(self, position: Position) -> list[Action]:
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
        probes: Ended | None = None,
        numbered: bool = False,
        counts: bool = False,
        told: bool | None = None,
    ) -> list[Action]:
        """The stream to the parent stands.

        Args:
            now: the time.
            session: names the stream.
            parent: who the parent is.
            depth: levels below the Mgr of this node; decides how long it waits for answers from below.
            withdraws: whether the parent understands COMPLETE and WITHDRAW.
            quirks: what the parent does otherwise than the contract says, if it does.
            probes: what a probe that comes from there and ends here is answered; None for one that knows no probes.
            numbered: whether messages on it are numbered, and answered by their numbers.
            counts: whether answers on it say how many have confirmed a broadcast.
            told: whether the parent says that it has joined; None for one that does not tell.
        """
        up = self._up
        assert up is not None, "the Mgr has no upstream"
        up.session, up.position, up.quirks, up.probes = session, parent, quirks, probes
        up.in_flight.numbered = numbered
        up.counts = counts
        up.since = now
        up.streams += 1
        self._advertisements.came_up(withdraws, quirks, told)
        self._hop_timeout = self._config.ack_timeout * limits.ACK_TIMEOUT_PER_LEVEL**depth
        self._sends.look_again()
        self._send_ready(now)
        return self._take()

    def parent_told(self, now: float, joined: bool) -> list[Action]:
        """The parent says whether it has joined."""
        self._advertisements.told = joined
        if self._advertisements.judge():
            self._sends.look_again()
            self._send_ready(now)
        return self._take()

    def upstream_down(self, now: float, session: object, unwritten: Iterable[Frame]) -> list[Action]:
        """The stream to the parent ended, with these frames still waiting to be sent."""
        up = self._up
        assert up is not None and up.session is session, "the upstream has one session at a time"
        up.session = None
        up.since = now
        self._advertisements.went_down()
        self._advertisements.judge()
        self._forwarding.drop(up, unwritten)
        return self._take()

    def announce_all(self, reply: Reply, uuid: str) -> list[Action]:
        """Tell the parent everything that can be reached through this node; `reply` gets its answer."""
        self._advertisements.everything(Kind.COMPLETE, reply, uuid)
        return self._take()

    def withdraw(self, reply: Reply, uuid: str) -> list[Action]:
        """Tell the parent that nothing is to be reached through this node any more; `reply` gets its answer.

        A parent that does not understand this is not told (6002): it forgets the node when its grace time is over.
        """
        self._advertisements.everything(Kind.WITHDRAW, reply, uuid)
        return self._take()

    def withdraw_again(self, positions: Sequence[Position]) -> list[Action]:
        """The parent did not take in that these nodes are gone: tell it again of those that are not back.

        When it was this node itself that wanted to leave, whoever asked for it has the answer and decides.
        """
        if self.identity not in positions:
            self._advertisements.gone([position for position in positions if position not in self.routes])
        return self._take()

    def announce_answered(self, session: object, code: int, src: Position) -> list[Action]:
        """The parent answered the announcement under way."""
        if self._up is not None and self._up.session is session:
            self._advertisements.answered(code, src)
            if self._advertisements.judge():
                self._sends.look_again()
        return self._take()

    # ---- time

    def next_deadline(self) -> float:
        """When `tick` is due at the latest, or infinity. Never later than the first thing that has to happen."""
        return self._decisions.wake

    def tick(self, now: float) -> list[Action]:
        """Give up what has waited too long. Does nothing before `next_deadline`."""
        if now < self._decisions.wake:
            return []
        links = self._topology.links()
        for link in links:
            if link.in_flight.count:
                for part in link.in_flight.take_due(now):
                    self.counters.ended(link, part, Code.NETWORK_ACK_LOST)
                    self._decisions.settle(part, Code.NETWORK_ACK_LOST, link.position, "no answer in time")
                if link.quirks is not None:
                    self._forwarding.next_turn(now, link, link.quirks)
            if link.in_flight.collisions:
                self._forwarding.give_up_collisions(now, link)
        self._delivery.give_up(now)
        self._end_waiting(self._sends.take_due(now), "not joined within the timeout")
        self._send_ready(now)
        self._advertisements.give_up(now)
        self._admission.give_up(now)
        for link, gone in self._topology.expire(now):
            self._has_forgotten(link, gone)
        self._decisions.wake = min(
            min((link.in_flight.deadline() for link in links if link.in_flight), default=float("inf")),
            self._sends.next_deadline(),
            self._admission.next_deadline(),
            self.door.next_deadline(),
            self._advertisements.next_deadline(),
            self.children.next_expiry(),
        )
        return self._take()

    def close(self) -> list[Action]:
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

    def drain(self) -> list[Action]:
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
        """Assert the Router's own invariants. For tests."""
        self.routes.check()
        for link in self._topology.links():
            assert link.queued_messages >= 0 and link.queued_bytes >= 0
            assert link.in_flight.count == sum(1 for _ in link.in_flight)
            assert link.up or not link.in_flight
            assert link.in_flight.deadline() >= self._decisions.wake
        assert 0 <= self.door.held <= max(self.door.room, 0)
        assert all(link_id in self.children.by_id for _, link_id in self.routes.items())
        assert self._admission.next_deadline() >= self._decisions.wake
        assert self._sends.next_deadline() >= self._decisions.wake
        assert not self._decisions.actions, "an event's actions were left behind"

    # ---- decisions

    def _arrive(self, now: float, came_from: LinkId, frame: Frame, reply: Reply | None, budget: float | None) -> None:
        patience = self._config.ack_timeout
        up = limits.ACK_BUDGET_PER_HOP * (patience if budget is None or budget > patience else budget)
        down = self._hop_timeout if budget is None or up > self._hop_timeout else up
        dst = frame.dst
        try:
            if type(frame) is Probe:
                self._probes.arrived(now, frame, came_from, reply, now + up, now + down)
            elif dst.unicast:
                hop = self._topology.next_hop(dst, came_from)
                if reply is None or not frame.sync:
                    plan = Plan((hop,), False) if hop else Plan((), True)
                    self._forwarding.hand_on(now, came_from, frame, plan, reply)
                elif hop is not None and hop.quirks is not None and hop.quirks.turn and budget is not None:
                    # Its turn may come late; how late, only the sender's patience says.
                    self._forwarding.carry_one(
                        now, came_from, frame, hop, reply, now + limits.ACK_BUDGET_PER_HOP * budget
                    )
                else:
                    deadline = now + (up if hop is self._up else down)
                    self._forwarding.carry_one(now, came_from, frame, hop, reply, deadline)
            else:
                plan = self._topology.plan(frame.src.identity, dst, came_from)
                if reply is None or not frame.sync:
                    self._forwarding.hand_on(now, came_from, frame, plan, reply)
                else:
                    self._forwarding.carry_many(now, came_from, frame, plan, reply, now + up, now + down)
        except Refusal as refusal:
            self.counters.outcomes["refused"].count(refusal.code)
            self._decisions.refuse(frame, reply, refusal)

    def _send(self, now: float, send: Send) -> None:
        """Send a message of this node's own on its way, or again.

        Raises:
            Refusal: 5002, nowhere; 4006, a list beyond the limit.
        """
        frame, dst, up = send.frame, send.frame.dst, self._up
        send.sent_at, send.epoch = now, self._advertisements.epoch
        if dst.unicast:
            hop = self._topology.next_hop(dst, LOCAL)
            send.upward = hop is not None and hop is up
            self._forwarding.carry_one(now, LOCAL, frame, hop, send, send.deadline)
        else:
            plan = self._topology.plan(frame.src.identity, dst, LOCAL)
            send.upward = up is not None and up in plan.links
            self._forwarding.carry_many(now, LOCAL, frame, plan, send, send.deadline, send.deadline)

    def _send_ready(self, now: float) -> None:
        """Send what has waited and need not wait any more."""
        for send in self._sends.ready(now):
            send.copies.clear()
            # Never refused: it was not when it began to wait, and a node with a parent always knows a next hop.
            self._send(now, send)

    def _end_waiting(self, sends: Iterable[Send], text: str) -> None:
        for send in sends:
            src = send.refused_by or self.position
            ack = Ack(send.frame.uuid, Code.NET_STREAM_NOT_INITED, src, text, 0)
            self._decisions.add(Answer(send.reply, ack))

    def _has_forgotten(self, link: Link | None, gone: list[Position]) -> None:
        """These can no longer be reached, and the child, if it was one, has no place any more."""
        if link is not None:
            self._decisions.add(Forgot(link.id, link.position, len(gone)))
            self.counters.forgotten.add(link.counters)
        self._advertisements.gone(gone)

    def _take(self) -> list[Action]:
        """An event is over."""
        return self._decisions.take()
