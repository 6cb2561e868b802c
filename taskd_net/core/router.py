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
from taskd_net.core.acks import Awaited, Part, Pending, PostedPart, Reply, Spread
from taskd_net.core.actions import Accuse, Action, Answer, Deliver, EndStream, Forgot, Forward, Lost, Reason
from taskd_net.core.announcer import Kind
from taskd_net.core.frame import Ack, Frame, Probe
from taskd_net.core.held import Held
from taskd_net.core.identity import UNSHOWN, Claim, Credentials, Doubtful, Doubts, Violation
from taskd_net.core.inbox import InboxDoor, Waiting
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.manners import Copies, Manners, copies, spelled
from taskd_net.core.probes import Ended, Probes
from taskd_net.core.routes import LinkId
from taskd_net.core.tally import Clock, Tally
from taskd_net.core.topology import LOCAL, Plan, Topology
from taskd_net.core.upward import Upward
from taskd_net.limits import DEFAULT, Limits
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


@dataclass(slots=True)
class Statistics:
    """Counters since the node was made. `violations`: what peers claimed and may not."""

    sent: int = 0
    forwarded: int = 0
    delivered: int = 0
    duplicates: int = 0
    late_acks: int = 0
    lost: int = 0
    violations: int = 0


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
        "_actions",
        "_config",
        "_copies",
        "_doubts",
        "_held",
        "_hop_timeout",
        "_probes",
        "_topology",
        "_up",
        "_upward",
        "_wake",
        "children",
        "door",
        "identity",
        "limits",
        "position",
        "routes",
        "statistics",
        "tally",
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
        self.statistics = Statistics()
        self.tally = Tally(clock)
        self._hop_timeout = config.ack_timeout
        self._upward = Upward(self._topology, self._emit)
        self._probes = Probes(self._topology, self._forward, self._settle)
        self._held = Held(config.link_messages, config.link_bytes)
        self._doubts = Doubts(limits.DOUBT_MESSAGES, config.link_bytes)
        self._copies = Copies(config.dedup_window, limits.COPIES_S)
        self._wake = float("inf")
        self._actions: list[Action] = []

    # ---- messages

    def send(self, now: float, frame: Frame, reply: Reply, timeout: float) -> list[Action]:
        """The application sends a message; `reply` gets the answer within `timeout` seconds, whatever happens.

        For `sync=false` the answer says that the first hop has it.
        """
        self.statistics.sent += 1
        self._send(now, frame, reply, now + timeout)
        return self._take()

    def probe(self, now: float, probe: Probe, reply: Reply, timeout: float) -> list[Action]:
        """This node asks whether, and how, the way leads somewhere; `reply` gets the answer within `timeout` seconds.

        It does not wait for the node to join: that it has not is the answer (6002).
        """
        try:
            self._probes.send(now, probe, LOCAL, reply, now + timeout)
        except Refusal as refusal:
            self._refuse(probe, reply, refusal)
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
            self.tally.arrived(now, link, 1, len(frame.data))
        if link is None or link.manners is None or self._is_new(now, link, link.manners, frame):
            routed = came_from == UP or self.routes.next_hop(frame.src) == came_from
            if routed or self._is_own(now, came_from, frame, reply, budget):
                self._arrive(now, came_from, frame, reply, budget)
        elif reply is not None:
            self._actions.append(Answer(reply, Ack(frame.uuid, Code.OK, self.position)))
        return self._take()

    def frames_arrived(self, now: float, came_from: LinkId, arrivals: Iterable[Arrival]) -> list[Action]:
        """Several messages came in together, in this order, on a link that keeps the contract."""
        messages = size = 0
        next_hop = self.routes.next_hop
        for frame, reply, budget in arrivals:
            messages += 1
            size += len(frame.data)
            # Nearly every sender is written as its identity, and is routed where it comes from: one look.
            routed = came_from == UP or next_hop(frame.src) == came_from
            if routed or self._is_own(now, came_from, frame, reply, budget):
                self._arrive(now, came_from, frame, reply, budget)
        link = self._topology.link(came_from)
        if link is not None:
            self.tally.arrived(now, link, messages, size)
        return self._take()

    def accepted(self, now: float, link_id: LinkId, uuids: Iterable[str], sync: bool | None = None) -> list[Action]:
        """The far side of a link answered these messages with 0; `sync`: their kind, where the link tells."""
        link = self._topology.link(link_id)
        if link is not None:
            taken, timed = 0, link.timed
            for uuid in uuids:
                part = link.in_flight.take(uuid, sync)
                if part is None:
                    self.statistics.late_acks += 1
                else:
                    taken += 1
                    if part is timed:
                        self.tally.timed(link)
                    self._settle(part, Code.OK, part.receiver or link.position)
            self.tally.accepted(now, link, taken)
        return self._take()

    def ack_arrived(
        self, now: float, link_id: LinkId, uuid: str, code: int, src: Position, detail: str = ""
    ) -> list[Action]:
        """The far side of a link answered a message; an answer that nobody waits for is counted and dropped."""
        link = self._topology.link(link_id)
        part = link.in_flight.take(uuid) if link is not None else None
        if link is None or part is None:
            self.statistics.late_acks += 1
        else:
            self.tally.answered(now, link, part, code)
            self._settle(part, code, src, detail)
            if link.manners is not None:
                self._next_turn(now, link, link.manners)
        return self._take()

    def post_answered(
        self, now: float, link_id: LinkId, frame: Frame, code: int, src: Position, detail: str = ""
    ) -> list[Action]:
        """The far side of a link has, or has not, taken a `sync=false` message."""
        link = self._topology.link(link_id)
        part = link.in_flight.take_copy(frame) if link is not None else None
        if link is not None and part is not None:
            self.tally.answered(now, link, part, code)
            self._settle(part, code, src, detail)
        elif code != Code.OK and frame.src.identity != self.identity:
            self._lose(frame, code, src, detail)
        return self._take()

    def written(self, link_id: LinkId, session: object, messages: int, size: int) -> None:
        """Frames with `size` bytes in all have left the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            link.queued_messages -= messages
            link.queued_bytes -= size
            self.tally.written(link, messages, size)

    def inbox_taken(self, now: float, count: int = 1) -> list[Action]:
        """The application took messages out of the inbox."""
        door = self.door
        door.held -= count
        if not door.line:
            return []
        for waiting in door.admit():
            # The first copy may have gone in while this one stood in line.
            self._enter(waiting.frame, waiting.pending, door.knows(waiting.frame))
        return self._take()

    def close_inbox(self) -> list[Action]:
        """The application takes no more messages: from now on the answer is 5000."""
        self._shut_door()
        return self._take()

    # ---- children

    def register(
        self, now: float, position: Position, manners: Manners | None = None, credentials: Credentials = UNSHOWN
    ) -> Link:
        """A child introduces itself; it is routable from here once its stream stands.

        Args:
            now: the time.
            position: who it is.
            manners: what it does otherwise than the contract says, if it does.
            credentials: what its connection shows of it.

        Raises:
            Refusal: 4003-4005 for a bad position, 4999 for this node's own, 5003 when there is no place.
            Violation: 4002, the position is not its own to take.
        """
        link = self._topology.register(now, position, credentials)
        link.manners = manners
        link.spell(position)
        self._wake = min(self._wake, link.expires)
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
    ) -> list[Action]:
        """A child's stream stands; one that stood before for the same position ends, with these frames in its queue.

        `probes`: what a probe that comes over it and ends here is answered; None for a child that knows no probes.
        """
        if link.up:
            link.changed_hands(now)
            self._actions.append(EndStream(link.session, Reason.POSITION_TAKEN))
            self._drop_traffic(link, unwritten)
        self.children.opened(now, link, session)
        link.probes = probes
        self.tally.joins += 1
        # The claim of who is connected here is the newest.
        self.routes.learn(link.position.identity, link.id, link.epoch)
        return self._take()

    def link_down(self, now: float, link: Link, session: object, unwritten: Iterable[Frame]) -> list[Action]:
        """A stream ended, with these frames still in its queue. News of a stream that was replaced changes nothing."""
        if link.session is not session:
            for frame in unwritten:
                if not frame.sync:
                    self._lose(frame, Code.NETWORK_SEND_LOST, link.position, "the stream was replaced")
            return self._take()
        self.children.lost(now, link)
        # Whoever else leads to this node was not believed as long as it was connected here.
        self.routes.yield_to_others(link.position.identity, link.id)
        for doubtful in self._doubts.take_link(link):
            self._refuse(doubtful.frame, doubtful.reply, Refusal(Code.NETWORK_ACK_LOST, "the stream broke"))
        self._wake = min(self._wake, link.expires)
        self.tally.losses += 1
        self._drop_traffic(link, unwritten)
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
                self._accuse(str(link.position), refusal)
            self._actions.append(Answer(reply, Ack(uuid, refusal.code, self.position, refusal.detail)))
            return self._take()
        assert link is not None
        if disputed:
            text = f"{link.position} announces {disputed[0]}, which cannot lie below it"
            self._accuse(str(link.position), Violation(Code.DST_TYPE_ILLEGAL, text))
        for position in positions:
            link.spell(position)
        self._upward.gone(gone)
        until = now + patience if patience > 0.0 else 0.0
        self._upward.pass_on(link, new, reply, uuid, until)
        self._wake = min(self._wake, self._upward.next_deadline())
        for doubtful in self._doubts.take_link(link):
            if self.routes.claims(doubtful.frame.src.identity, link.id):
                budget = None if doubtful.budget is None else doubtful.budget + doubtful.since - now
                self._arrive(now, link.id, doubtful.frame, doubtful.reply, budget)
            else:
                self._doubts.add(doubtful)
        return self._take()

    def accuse(self, peer: str, refusal: Violation) -> list[Action]:
        """Somebody was refused, before it came to the Router, what nobody who is honest asks for."""
        self._accuse(peer, refusal)
        return self._take()

    # ---- the parent

    def upstream_up(
        self,
        now: float,
        session: object,
        parent: Position,
        depth: int = 1,
        withdraws: bool = False,
        manners: Manners | None = None,
        probes: Ended | None = None,
    ) -> list[Action]:
        """The stream to the parent stands.

        Args:
            now: the time.
            session: names the stream.
            parent: who the parent is.
            depth: levels below the Mgr of this node; decides how long it waits for answers from below.
            withdraws: whether the parent understands COMPLETE and WITHDRAW.
            manners: what the parent does otherwise than the contract says, if it does.
            probes: what a probe that comes from there and ends here is answered; None for one that knows no probes.
        """
        up = self._up
        assert up is not None, "the Mgr has no upstream"
        up.session, up.position, up.manners, up.probes = session, parent, manners, probes
        up.since = now
        up.streams += 1
        self._upward.came_up(withdraws, manners)
        self._hop_timeout = self._config.ack_timeout * limits.ACK_TIMEOUT_PER_LEVEL**depth
        for waiting in self._held.take_all():
            self._send(now, waiting.frame, waiting.reply, waiting.deadline)
        return self._take()

    def upstream_down(self, now: float, session: object, unwritten: Iterable[Frame]) -> list[Action]:
        """The stream to the parent ended, with these frames still waiting to be sent."""
        up = self._up
        assert up is not None and up.session is session, "the upstream has one session at a time"
        up.session = None
        up.since = now
        self._upward.went_down()
        self._drop_traffic(up, unwritten)
        return self._take()

    def announce_all(self, reply: Reply, uuid: str) -> list[Action]:
        """Tell the parent everything that can be reached through this node; `reply` gets its answer."""
        self._upward.everything(Kind.COMPLETE, reply, uuid)
        return self._take()

    def withdraw(self, reply: Reply, uuid: str) -> list[Action]:
        """Tell the parent that nothing is to be reached through this node any more; `reply` gets its answer.

        A parent that does not understand this is not told (6002): it forgets the node when its grace time is over.
        """
        self._upward.everything(Kind.WITHDRAW, reply, uuid)
        return self._take()

    def withdraw_again(self, positions: Sequence[Position]) -> list[Action]:
        """The parent did not take in that these nodes are gone: tell it again of those that are not back.

        When it was this node itself that wanted to leave, whoever asked for it has the answer and decides.
        """
        if self.identity not in positions:
            self._upward.gone([position for position in positions if position not in self.routes])
        return self._take()

    def announce_answered(self, session: object, code: int, src: Position) -> list[Action]:
        """The parent answered the announcement under way."""
        if self._up is not None and self._up.session is session:
            self._upward.answered(code, src)
        return self._take()

    # ---- time

    def next_deadline(self) -> float:
        """When `tick` is due at the latest, or infinity. Never later than the first thing that has to happen."""
        return self._wake

    def tick(self, now: float) -> list[Action]:
        """Give up what has waited too long. Does nothing before `next_deadline`."""
        if now < self._wake:
            return []
        links = self._topology.links()
        for link in links:
            if link.in_flight.count:
                for part in link.in_flight.take_due(now):
                    self.tally.ended(link, part, Code.NETWORK_ACK_LOST)
                    self._settle(part, Code.NETWORK_ACK_LOST, link.position, "no answer in time")
                if link.manners is not None:
                    self._next_turn(now, link, link.manners)
        for waiting in self.door.take_due(now):
            assert waiting.pending is not None
            self._turn_away(waiting.pending, Code.RECV_BUF_BUSY, "the inbox is full")
        for held in self._held.take_due(now):
            ack = Ack(held.frame.uuid, Code.NET_STREAM_NOT_INITED, self.position, "not joined within the timeout")
            self._actions.append(Answer(held.reply, ack))
        self._upward.give_up(now)
        for doubtful in self._doubts.take_due(now):
            self._refuse_sender(doubtful.link, doubtful.frame, doubtful.reply)
        for link, gone in self._topology.expire(now):
            self._actions.append(Forgot(link.id, link.position, len(gone)))
            self.tally.forgotten.add(link.traffic)
            self._upward.gone(gone)
        self._wake = min(
            min((link.in_flight.deadline() for link in links if link.in_flight.count), default=float("inf")),
            self._held.next_deadline(),
            self._doubts.next_deadline(),
            self.door.next_deadline(),
            self._upward.next_deadline(),
            self.children.next_expiry(),
        )
        return self._take()

    def close(self) -> list[Action]:
        """The node closes: everything that waits is answered now."""
        for held in self._held.take_all():
            text = "the node was closed before it joined"
            ack = Ack(held.frame.uuid, Code.NET_STREAM_NOT_INITED, self.position, text)
            self._actions.append(Answer(held.reply, ack))
        for doubtful in self._doubts.take_all():
            self._refuse(doubtful.frame, doubtful.reply, Refusal(Code.NETWORK_ACK_LOST, "the node was closed"))
        self._shut_door()
        self._upward.went_down()
        for link in self._topology.links():
            for part in link.in_flight.take_all():
                self._settle(part, Code.NETWORK_ACK_LOST, link.position, "the node was closed")
        return self._take()

    def drain(self) -> None:
        """The node is about to close: take on nothing more whose answer is awaited, so that `busy` comes to an end.

        New messages for this node are answered 5000, new ones through it 5001; the sender still has them. `sync=false`
        messages that another node has taken already are passed on, and the line before the inbox is still let in.
        """
        self.door.open = False
        for link in self._topology.links():
            link.in_flight_limit = 0

    @property
    def upstream(self) -> Link | None:
        """The link to the parent; None at the root."""
        return self._up

    @property
    def busy(self) -> bool:
        """Whether a message waits here: for its answer, to be written, for room in the inbox, for the node to join."""
        links = self._topology.links()
        return bool(self._held or self.door.line) or any(link.queued_messages or link.in_flight.count for link in links)

    def check(self) -> None:
        """Assert the Router's own invariants. For tests."""
        self.routes.check()
        for link in self._topology.links():
            assert link.queued_messages >= 0 and link.queued_bytes >= 0
            assert link.in_flight.count == sum(1 for _ in link.in_flight)
            assert link.up or not link.in_flight.count
            assert link.in_flight.deadline() >= self._wake
        assert 0 <= self.door.held <= max(self.door.room, 0)
        assert all(link_id in self.children.by_id for _, link_id in self.routes.items())
        assert self._doubts.next_deadline() >= self._wake
        assert not self._actions, "an event's actions were left behind"

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
                    self._hand_on(now, frame, Plan((hop,), False) if hop else Plan((), True), reply)
                elif hop is not None and hop.manners is not None and hop.manners.turn and budget is not None:
                    # Its turn may come late; how late, only the sender's patience says.
                    self._carry_one(now, frame, hop, reply, now + limits.ACK_BUDGET_PER_HOP * budget)
                else:
                    self._carry_one(now, frame, hop, reply, now + (up if hop is self._up else down))
            else:
                plan = self._topology.plan(frame.src.identity, dst, came_from)
                if reply is None or not frame.sync:
                    self._hand_on(now, frame, plan, reply)
                else:
                    self._carry_many(now, frame, plan, reply, now + up, now + down)
        except Refusal as refusal:
            self.tally.outcomes["refused"].count(refusal.code)
            self._refuse(frame, reply, refusal)

    def _send(self, now: float, frame: Frame, reply: Reply, deadline: float) -> None:
        dst = frame.dst
        try:
            if dst.unicast:
                hop = self._topology.next_hop(dst, LOCAL)
                if hop is not None and hop is self._up and not hop.up:
                    self._hold(frame, reply, deadline)
                else:
                    self._carry_one(now, frame, hop, reply, deadline)
            else:
                plan = self._topology.plan(frame.src.identity, dst, LOCAL)
                if self._up is not None and not self._up.up and self._up in plan.links:
                    self._hold(frame, reply, deadline)
                else:
                    self._carry_many(now, frame, plan, reply, deadline, deadline)
        except Refusal as refusal:
            self.tally.outcomes["refused"].count(refusal.code)
            self._refuse(frame, reply, refusal)

    def _hold(self, frame: Frame, reply: Reply, deadline: float) -> None:
        if self._held.add(frame, reply, deadline):
            self._wake = min(self._wake, deadline)
        else:
            text = "too many messages wait for the node to join"
            self._actions.append(Answer(reply, Ack(frame.uuid, Code.RECV_BUF_BUSY, self.position, text)))

    def _carry_one(self, now: float, frame: Frame, hop: Link | None, reply: Reply, deadline: float) -> None:
        """Send a unicast on its way, whose answer is awaited: a sync message, or one of this node's own."""
        receiver = frame.dst.position if frame.sync else None
        pending = Pending(frame.uuid, reply, frame.src, frame.sync, receiver, deadline)
        if hop is None:
            self._deliver(now, frame, pending)
            return
        refusal = self._forward(now, hop, frame, pending)
        if refusal is not None:
            self.tally.failed(hop, refusal.code)
            self._settle(pending, refusal.code, self.position, refusal.detail)

    def _carry_many(self, now: float, frame: Frame, plan: Plan, reply: Reply, up: float, down: float) -> None:
        """The same for a broadcast or multicast: every branch will be settled."""
        self.tally.broadcasts += 1
        parts = len(plan.links) + plan.here + (plan.missing is not None)
        spread = Spread(frame.uuid, reply, frame.src, frame.sync, parts or 1, wildcard=not frame.dst.is_list)
        if not parts:
            # Everybody whom it is for lies behind the link it came from.
            self._settle(Part(spread, down), Code.OK, self.position)
        if plan.missing is not None:
            self._settle(Part(spread, down), Code.NO_ROUTE, self.position, f"there is no {plan.missing}")
        if plan.here:
            self._deliver(now, frame, Part(spread, down))
        for link in plan.links:
            sent = self._copies_for(now, link, frame)
            spread.expect(len(sent) - 1)
            for copy in sent:
                kind = Part if copy.sync == frame.sync else PostedPart
                part = kind(spread, up if link.id == UP else down)
                refusal = self._forward(now, link, copy, part)
                if refusal is not None:
                    self.tally.failed(link, refusal.code)
                    self._settle(part, refusal.code, self.position, refusal.detail)

    def _hand_on(self, now: float, frame: Frame, plan: Plan, reply: Reply | None) -> None:
        """Take a `sync=false` message from a neighbour and pass it on; the neighbour learns only that we have it."""
        failure = Refusal(Code.NO_ROUTE, f"there is no {plan.missing}") if plan.missing is not None else None
        self.tally.broadcasts += not frame.dst.unicast
        if plan.here:
            failure = self._accept(now, frame) or failure
        for link in plan.links:
            for copy in (frame,) if frame.dst.unicast else self._copies_for(now, link, frame):
                refusal = self._forward(now, link, copy, None)
                if refusal is not None:
                    self.tally.failed(link, refusal.code)
                    failure = refusal
        if failure is not None:
            self._refuse(frame, reply, failure)
        elif reply is not None:
            self._actions.append(Answer(reply, Ack(frame.uuid, Code.OK, self.position)))

    def _forward(self, now: float, link: Link, frame: Frame, part: Awaited | None) -> Refusal | None:
        """Queue a message on a link, or say why not."""
        if link.session is None:
            return Refusal(Code.NET_STREAM_NOT_INITED, f"the stream to {link.position} is not up")
        size, config, manners = len(frame.data), self._config, link.manners
        if manners is not None:
            if size > manners.largest:
                text = f"the message has {size} bytes serialized; {link.position} takes at most {manners.largest}"
                return Refusal(Code.CLIENT_ERR, text)
            frame = spelled(link, frame)
        if link.queued_messages >= config.link_messages or link.queued_bytes + size > config.link_bytes:
            return Refusal(Code.RECV_BUF_BUSY, f"the queue to {link.position} is full")
        patience = 0.0
        if part is not None:
            if link.in_flight.count >= link.in_flight_limit:
                return Refusal(Code.RECV_BUF_BUSY, f"too many messages to {link.position} are in flight")
            if manners is not None and manners.turn and not link.in_flight.count:
                part.deadline = min(part.deadline, now + manners.turn)
            if not link.in_flight.add(frame.uuid, part):
                return Refusal(Code.RECV_BUF_BUSY, "the same uuid is in flight for another message")
            if link.timed is None:
                self.tally.time(link, part)
            deadline = part.deadline
            if deadline < self._wake:
                self._wake = deadline
            patience = deadline - now
        link.queued_messages += 1
        link.queued_bytes += size
        self.statistics.forwarded += 1
        self._actions.append(Forward(link.id, frame, patience))
        return None

    # ---- whose message it is

    def _is_own(self, now: float, came_from: LinkId, frame: Frame, reply: Reply | None, budget: float | None) -> bool:
        """Whether a message may come on a child's link. If not, it waits for an announcement, or is refused."""
        link = self.children.by_id.get(came_from)
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
                self._wake = min(self._wake, doubtful.deadline)
            else:
                text = f"too many messages of nodes that {link.position} has not announced"
                self._refuse(frame, reply, Refusal(Code.RECV_BUF_BUSY, text))
        return claim is Claim.OWN

    def _refuse_sender(self, link: Link, frame: Frame, reply: Reply | None) -> None:
        violation = Violation(
            Code.NIL_POSITION, f"src {frame.src} is neither {link.position} nor known to lie below it"
        )
        self._accuse(str(link.position), violation)
        self.tally.outcomes["refused"].count(violation.code)
        if reply is not None:
            self._refuse(frame, reply, violation)

    def _accuse(self, peer: str, violation: Violation) -> None:
        self.statistics.violations += 1
        self._actions.append(Accuse(peer, violation))

    # ---- neighbours with manners of their own

    def _is_new(self, now: float, link: Link, manners: Manners, frame: Frame) -> bool:
        """Look at a message that came from such a neighbour: False for a further copy of a broadcast."""
        if manners.repeats and not frame.dst.unicast and not self._copies.add(now, frame):
            self.statistics.duplicates += 1
            return False
        sender = frame.src.identity
        if not manners.announces_again and sender not in self.routes and self._topology.may_lie_below(sender):
            self.routes.learn(sender, link.id, link.epoch)
            link.spell(frame.src)
            self._upward.found(sender)
        return True

    def _copies_for(self, now: float, link: Link, frame: Frame) -> Sequence[Frame]:
        """What goes on a link for a broadcast or multicast."""
        manners = link.manners
        if manners is None:
            return (frame,)
        sent = copies(link, manners, frame, self.routes, self.identity)
        if manners.repeats:
            # They come back from there, to this node's side too.
            for copy in sent:
                self._copies.add(now, copy)
        return sent

    def _next_turn(self, now: float, link: Link, manners: Manners) -> None:
        """A message on the link was answered: only now the neighbour turns to the next one."""
        head = next(iter(link.in_flight), None) if manners.turn else None
        if head is not None:
            head.deadline = min(head.deadline, now + manners.turn)
            self._wake = min(self._wake, head.deadline)

    # ---- the own inbox

    def _deliver(self, now: float, frame: Frame, pending: Awaited) -> None:
        door = self.door
        if not door.open:
            self._turn_away(pending, Code.RECV_BUF_NIL, "no inbox")
        elif (known := door.knows(frame)) or door.has_room():
            self._enter(frame, pending, known)
        elif not frame.sync:
            # An own `sync=false` message to the own inbox: this node is its first hop, and has it once it is in line.
            refusal = self._accept(now, frame)
            code = Code.OK if refusal is None else refusal.code
            self._settle(pending, code, self.position, refusal.detail if refusal else "")
        elif door.queue(Waiting(frame, pending, deadline := min(now + self._config.inbox_wait, pending.deadline))):
            self._wake = min(self._wake, deadline)
        else:
            self._turn_away(pending, Code.RECV_BUF_BUSY, "the inbox is full")

    def _accept(self, now: float, frame: Frame) -> Refusal | None:
        door = self.door
        refusal = None
        if not door.open:
            refusal = Refusal(Code.RECV_BUF_NIL, "no inbox")
        elif (known := door.knows(frame)) or door.has_room():
            self._enter(frame, None, known)
        elif not door.queue(Waiting(frame, None, float("inf"))):
            refusal = Refusal(Code.RECV_BUF_BUSY, "the inbox is full, and so is the line before it")
        if refusal is not None:
            self.tally.outcomes["inbox"].count(refusal.code)
        return refusal

    def _turn_away(self, pending: Awaited, code: Code, detail: str) -> None:
        self.tally.outcomes["inbox"].count(code)
        self._settle(pending, code, self.position, detail)

    def _enter(self, frame: Frame, pending: Awaited | None, known: bool) -> None:
        if known:
            self.statistics.duplicates += 1
        else:
            self.door.enter(frame)
            self.statistics.delivered += 1
            self._actions.append(Deliver(frame))
        if pending is not None:
            self._settle(pending, Code.OK, self.position)

    def _shut_door(self) -> None:
        self.door.open = False
        for waiting in self.door.take_line():
            if waiting.pending is not None:
                self._turn_away(waiting.pending, Code.RECV_BUF_NIL, "the inbox was closed")
            else:
                self._lose(waiting.frame, Code.RECV_BUF_NIL, self.position, "the inbox was closed")

    # ---- answers

    def _settle(self, part: Awaited, code: int, src: Position, detail: str = "") -> None:
        ack = part.settle(code, src, detail)
        if ack is not None:
            self._actions.append(Answer(part.reply, ack))

    def _refuse(self, frame: Frame, reply: Reply | None, refusal: Refusal) -> None:
        if reply is None:
            self._lose(frame, refusal.code, self.position, refusal.detail)
        else:
            self._actions.append(Answer(reply, Ack(frame.uuid, refusal.code, self.position, refusal.detail)))

    def _lose(self, frame: Frame, code: int, src: Position, detail: str) -> None:
        self.statistics.lost += 1
        self._actions.append(Lost(frame, code, src, detail))

    def _drop_traffic(self, link: Link, unwritten: Iterable[Frame]) -> None:
        """Answer everything that was on a stream which is gone: 6000 what was not yet written, 6001 the rest."""
        link.queued_messages = link.queued_bytes = 0
        # It was not answered: how long that took says nothing.
        link.timed = None
        for frame in reversed(list(unwritten)):
            part = link.in_flight.take_copy(frame, newest=True)
            if part is not None:
                self.tally.ended(link, part, Code.NETWORK_SEND_LOST)
                self._settle(part, Code.NETWORK_SEND_LOST, link.position, "the stream broke")
            elif not frame.sync and frame.src.identity != self.identity:
                self._lose(frame, Code.NETWORK_SEND_LOST, link.position, "the stream broke")
        for part in link.in_flight.take_all():
            self.tally.ended(link, part, Code.NETWORK_ACK_LOST)
            self._settle(part, Code.NETWORK_ACK_LOST, link.position, "the stream broke")

    def _emit(self, action: Action) -> None:
        self._actions.append(action)

    def _take(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
