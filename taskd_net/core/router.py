"""The Router: every decision of a node. Events in, one `Ready` out; nothing here waits, and time is an argument.

A Mgr, a Proxy and a Worker run the same Router, with different links. Each kind of event has one method. It returns all
decisions that follow from the event, as data; the node carries them out before the next event. The tests assert the
invariants between two events (`tests/core/invariants.py`).

The rule for the next hop is `Topology.next_hop`; for the receivers of a broadcast, `Topology.plan`. A batch of one flow
is decided once (`_run_arrived`); anything unusual goes the path of one message (`_arrive`). Both decide alike.

Sources: docs/contract.md, section 4 (the next hop), section 5 (delivery), section 3 (routes that are learnt).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, cast

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.job_id import job_id_of
from taskd_net.base.peer_limits import DEFAULT, Limits
from taskd_net.base.position import Position, Role
from taskd_net.core.acks import Answer, Origin, ReplyTo
from taskd_net.core.adaptation import Copies
from taskd_net.core.admission import ACK_BUDGET_PER_HOP, Admission
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.counters import Counters
from taskd_net.core.decisions import Decisions
from taskd_net.core.forwarding import Forwarding
from taskd_net.core.frame import Frame, Probe
from taskd_net.core.identity import UNSHOWN, Credentials, Violation
from taskd_net.core.inbox import Delivery, InboxGate
from taskd_net.core.links import UP, Children, Link, Terms
from taskd_net.core.membership import Membership
from taskd_net.core.probes import Probes
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Diverted, EndStream, Forgot, Key, Kind, Ready, Reason, SignsOfLife, Token
from taskd_net.core.routes import LinkId
from taskd_net.core.sends import OwnSends
from taskd_net.core.topology import LOCAL, ROUTES, ROUTES_SLICE, Plan, Sweep, Topology

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

ORIGINAL_CALL_S: Final = 8.0
"""Seconds for which this node tries to bring a child's message to the Mgr, where the child takes any answer for its
delivery: an Agent of the original's reports a fault three times, 1 s apart, and never again. Its calls have no
deadline. A Mgr that was killed is back by then, and so is a Proxy that lost its parent."""

LARGE: Final = 4096
"""Bytes from which on a message counts towards its child's quota of bytes."""

_waiting: Final = attrgetter("waiting")


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """Settings of a Router. Times are in seconds; `limits` and `NodeConfig` give the reasons for the values.

    Attributes:
        inbox: messages that fit into the inbox; 0 for a node without one.
        dedup_window: uuids of other makes that the inbox remembers of each sender.
        inbox_wait: time for which a message waits for room in the inbox.
        ack_timeout: time for which the Mgr awaits a child's answer; each level below waits for less.
        link_messages, link_bytes: bounds on the queue of one link.
        max_children: children at most.
        grace: time for which a child without a stream keeps its place.
        registration_hold: time for which a registration without a stream holds its place.
        job: id of the job, which certificates have to name; empty for that of the parent.
        confirms: the application confirms the messages in its inbox, and senders are answered only then.
        limits: bounds on a peer's fields and its share of the node.
        routes, routes_slice: as in `core.topology`.
    """

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
    confirms: bool = False
    limits: Limits = DEFAULT
    routes: int = ROUTES
    routes_slice: int = ROUTES_SLICE


class Router:
    """One node's decisions.

    Its events, in the order of the methods: requests of the application; messages, answers and signs of life of a
    neighbour; what the application does with its inbox; the children; the parent; time, and the end.

    Args:
        position: this node's own.
        upstream: whether the node has a parent (every node but the Mgr).
        config: bounds and times.
    """

    def __init__(self, position: Position, *, upstream: bool, config: RouterConfig | None = None) -> None:
        self._config = config = config or RouterConfig()
        self.counters = Counters()
        outcomes = self.counters.outcomes
        # The Mgr stands for a parent that has not named itself yet.
        self._up = Link(UP, Position.mgr(), outcomes=outcomes["up"]) if upstream else None
        self.children = Children(
            config.max_children, config.registration_hold, config.grace, config.limits, outcomes["down"]
        )
        self._topology = Topology(
            position, self._up, self.children, config.job, config.limits, config.routes, config.routes_slice
        )
        self.membership = Membership(job_id_of(config.job))
        self.quota = self.children.quota
        self._most_unanswered = config.limits.child_messages + ANSWERS_UNTAKEN
        # As many messages again were refused, and their answers are not taken.
        self._most_of_all = 2 * config.limits.total_messages
        self.limits = config.limits
        self.position = position
        self.identity = self._topology.identity
        self.routes = self._topology.routes
        self.gate = InboxGate(config.inbox, config.dedup_window, config.link_messages, config.link_bytes)
        self._decisions = decisions = Decisions(self._topology, self.counters)
        self._take = decisions.take
        self.statistics = decisions.statistics
        self._ack_timeout = self._hop_timeout = config.ack_timeout
        self._advertisements = Advertisements(self._topology, decisions)
        self._delivery = Delivery(self.gate, decisions, config.inbox_wait, config.confirms)
        seen = Copies(config.dedup_window, COPIES_S)
        self._admission = Admission(self._topology, self._advertisements, decisions, seen, config.link_bytes)
        most = config.limits.total_bytes // COPIES_WRITTEN
        self._forwarding = Forwarding(
            self._topology, decisions, self._delivery, seen, config.link_messages, config.link_bytes, most
        )
        self._sends = OwnSends(
            self._topology, self._advertisements, decisions, self._forwarding, config.link_messages, config.link_bytes
        )
        decisions.ended = self._sends.ended
        self._sweep = Sweep(self._topology, decisions.schedule)
        self._probes = Probes(self._topology, self._forwarding.forward, self._forwarding.fan_out, decisions.settle)

    def submit(self, now: float, frame: Frame, token: Token, timeout: float, wait: bool = True) -> Ready:
        """Send a message of the application; the answer goes to `token` within `timeout` seconds, whatever happens.

        Args:
            now: the time, in seconds of a clock that never steps.
            frame: the message. For `sync=false` the answer says that the first hop has it.
            token: the node's name for the request.
            timeout: seconds.
            wait: whether the message waits for the node to join.
        """
        self.statistics.sent += 1
        self._sends.submit(now, frame, token, timeout, wait)
        return self._take()

    def cancel(self, token: Token) -> Ready:
        """End a send, a probe or an announcement whose answer nobody awaits. Copies still here never leave."""
        if not self._sends.cancel(token):
            self._advertisements.cancel(token)
        return self._take()

    def probe(self, now: float, probe: Probe, token: Token, timeout: float) -> Ready:
        """Ask whether, and how, the way leads somewhere; the answer goes to `token` within `timeout` seconds.

        A probe does not wait for the node to join: a node that has not joined answers 6002.
        """
        send = self._sends.open_probe(probe, token, now + timeout)
        try:
            self._probes.send(now, probe, LOCAL, send, send.deadline)
        except Refusal as refusal:
            self._decisions.refuse(probe, send, refusal)
        return self._take()

    def messages_arrived(
        self,
        now: float,
        came_from: LinkId,
        frames: Sequence[Frame],
        keys: Sequence[Key | None],
        budgets: Sequence[float | None],
        refused: Sequence[tuple[Key, Refusal]] = (),
    ) -> Ready:
        """Take in messages that came together over the stream of a link, in their order.

        Args:
            now: the time.
            came_from: the link.
            frames: the messages.
            keys: for each, its name in its answer; None where the wire has no answer (`sync=false` from above).
            budgets: for each, the seconds within which the neighbour awaits the answer; None where it does not tell.
            refused: names of messages that could not be read, with the reason.
        """
        link = self._topology.link(came_from)
        stream = 0 if link is None else link.streams
        for name, refusal in refused:
            self._decisions.answer(Origin(came_from, stream, name, True), refusal.uuid, refusal.code)
        if refused and link is not None:
            link.count_unanswered(len(refused))
        count = len(frames)
        if count == 1 or link is None or link.quirks is not None:
            for frame, key, budget in zip(frames, keys, budgets, strict=True):
                self._one_arrived(now, came_from, link, frame, key, budget)
        else:
            self._many_arrived(now, link, frames, keys, budgets)
        if link is not None:
            size = len(frames[0].data) if count == 1 else sum([len(frame.data) for frame in frames])
            link.counters.arrived(now, count, size)
            if link.waiting > self._most_unanswered or self.quota.messages > self._most_of_all:
                self._end_overloaded_link(now, link)
        return self._take()

    def call_arrived(
        self,
        now: float,
        came_from: LinkId,
        frame: Frame,
        token: Token,
        budget: float | None,
        *,
        early: bool = False,
    ) -> Ready:
        """Take in a message that a child has sent by a call of its own; the answer goes to `token`.

        `early`: it had arrived before `drain`, and is looked at only now.
        """
        if early:
            self.gate.resume()
            self._forwarding.resume()
        try:
            link = self._topology.link(came_from)
            if link is not None:
                link.counters.arrived(now, 1, len(frame.data))
            self._admit(now, came_from, link, frame, token, budget)
        finally:
            if early:
                self.gate.drain()
                self._forwarding.drain()
        return self._take()

    def bounds_broken(self, now: float, came_from: LinkId, session: object, violation: Violation) -> Ready:
        """End a stream over which something has come that no node of ours writes. The next one has to wait."""
        link = self._topology.link(came_from)
        if link is not None:
            self._admission.end_stream(now, link, session, violation)
        return self._take()

    def answers_arrived(
        self, now: float, link_id: LinkId, accepted: Sequence[Key], answers: Iterable[Answer] = ()
    ) -> Ready:
        """Take in the answers of a neighbour. A late answer is counted and dropped.

        Args:
            now: the time.
            link_id: the link.
            accepted: the keys of sync messages that one receiver has.
            answers: all other answers.
        """
        link = self._topology.link(link_id)
        if link is None:
            self._decisions.statistics.late_acks += len(accepted) + len(list(answers))
            return self._take()
        if accepted:
            self._forwarding.accepted(now, link, accepted)
        for answer in answers:
            self._forwarding.answered(now, link, answer)
        return self._take()

    def posts_answered(
        self, now: float, link_id: LinkId, frames: Iterable[Frame], code: int, src: Position, detail: str = ""
    ) -> Ready:
        """Take in the one result of several `sync=false` messages: the far side has taken them, or refused them."""
        link = self._topology.link(link_id)
        for frame in frames:
            self._forwarding.post_answered(now, link, frame, code, src, detail)
        if link is not None and link.in_flight.collisions:
            # Later: a stream that ends reports its posts here too, and the next message must not go onto that stream.
            self._decisions.schedule.look(link, now)
        return self._take()

    def written(self, link_id: LinkId, session: object, messages: int, size: int, answers: int = 0) -> None:
        """Count messages, of `size` bytes in all, and answers that have left the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            if messages:
                link.written(messages, size)
                if link.grants:
                    self._forwarding.backlog.give_back(link)
            if answers and link.waiting:
                link.answers_left(answers)

    def withdrawn(self, link_id: LinkId, session: object, size: int) -> None:
        """Count a message of `size` bytes that was taken out of the queue of a link's stream."""
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            self._forwarding.withdrawn(link, size)

    def signs_of_life(self, now: float, link_id: LinkId, session: object, *, seen: bool) -> Ready:
        """Take in that a neighbour whose stream stands gives no sign of life, or gives one again.

        Its messages in flight are answered 6001, and further ones at once. `sync=false` messages of others wait.
        """
        link = self._topology.link(link_id)
        if link is not None and link.session is session:
            link.noticed(now, seen=seen)
            self._decisions.ready.notices.append(SignsOfLife(link.id, link.position, seen))
            if not seen:
                self._forwarding.give_up_all(now, link)
        return self._take()

    def inbox_taken(self, now: float, count: int = 1) -> Ready:
        """The application took messages out of the inbox."""
        self.gate.taken(count)
        if self.gate.line:
            self._delivery.admit(now)
        return self._take()

    def confirm(self, messages: Iterable[tuple[str, Position]]) -> Ready:
        """The application has made sure of messages that it took, named by uuid and sender; see `confirms`."""
        self._delivery.confirm(messages)
        return self._take()

    def refuse(self, message: tuple[str, Position], detail: str) -> Ready:
        """The application refuses a message that it took, named by uuid and sender; see `confirms`."""
        self._delivery.refuse(message, detail)
        return self._take()

    def reset_inbox(self) -> Ready:
        """Begin as a new process would: with an open inbox that is empty, and in which every message is new."""
        self._delivery.reset()
        return self._take()

    def close_inbox(self) -> Ready:
        """The application takes no more messages: from now on the answer is 5000."""
        self._delivery.shut()
        return self._take()

    def register(
        self,
        now: float,
        position: Position,
        quirks: Quirks | None = None,
        credentials: Credentials = UNSHOWN,
        *,
        service: bool = False,
        job_id: str = "",
    ) -> Ready:
        """Give a child its place; it is routable from here once its stream stands.

        Args:
            now: the time.
            position: the child's.
            quirks: its deviations from the contract, if it has any.
            credentials: the identity that its connection shows.
            service: it is a tool or a service, and no rank of the job.
            job_id: the job that it says it belongs to; empty where it says none.

        Returns:
            In `link`, the child's link. Or in `refusal`: an OtherJob with 4999 for a node of another job; 4003-4005 for
            a bad position, 4999 for this node's own, 5003 when there is no place; a Violation with 4002 for a position
            that is not its own to take.
        """
        try:
            # First: a node of another job takes no place, and changes nothing for the node in that position here.
            self.membership.require(position, job_id)
            link = self._topology.register(now, position, credentials, quirks, service=service, job_id=job_id)
        except Refusal as refusal:
            self._decisions.ready.refusal = refusal
            return self._take()
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
        link.opened(now, session, terms)
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
        link.replaced(session, probed)

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
        job_id: str = "",
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
            job_id: the parent's job; empty where it says none.
        """
        up = self._up
        assert up is not None, "the Mgr has no upstream"
        up.identify(parent, quirks)
        up.opened(now, session, terms)
        if self.membership.take(job_id):
            self._end_other_jobs(now)
        self._advertisements.came_up(withdraws, quirks, told)
        levels = min(depth, ACK_TIMEOUT_LEVELS)
        self._hop_timeout = self._config.ack_timeout * ACK_TIMEOUT_PER_LEVEL**levels
        self._sends.look_again()
        self._sends.send_ready(now)
        return self._take()

    def parent_told(self, now: float, joined: bool) -> Ready:
        """Take in the parent's state: whether it has joined."""
        if self._advertisements.parent_told(joined):
            self._sends.look_again()
            self._sends.send_ready(now)
        return self._take()

    def upstream_down(self, now: float, session: object, unwritten: Iterable[tuple[Frame, int]] = ()) -> Ready:
        """The stream to the parent ended, with these messages still waiting to be sent."""
        up = self._up
        assert up is not None and up.session is session, "the upstream has one session at a time"
        up.lost(now)
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
        if self.gate in due:
            self._delivery.give_up(now)
        if self._sends in due:
            self._sends.give_up(now)
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
        self._sends.close("the node was closed before it joined")
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
        self.gate.drain()
        self._forwarding.drain()
        self._sends.close("the node is being closed and has not joined")
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
        return bool(self._sends or self.gate.line or self._delivery.unconfirmed) or any(
            link.queued_messages or link.in_flight.count for link in links
        )

    def _end_other_jobs(self, now: float) -> None:
        """End the places of the children that another job has: they came before this node had a job."""
        for link in self.children.by_id.values():
            if self.membership.excludes(link.job_id):
                link.leave(now)
                if link.up:
                    self._decisions.ready.notices.append(EndStream(link.session, Reason.OTHER_JOB))
                self._decisions.schedule.look(self.children, link.expires)

    def _has_forgotten(self, link: Link | None, gone: list[Position]) -> None:
        """End the child's place, if it was one, and withdraw these nodes."""
        if link is not None:
            link.stop_waiting()
            self._decisions.ready.notices.append(Forgot(link.id, link.position, link.dropped))
            self.counters.forgotten.add(link.counters)
        self._advertisements.gone(gone)

    def _one_arrived(
        self, now: float, came_from: LinkId, link: Link | None, frame: Frame, key: Key | None, budget: float | None
    ) -> None:
        """Take in one message of a stream, within the quota of its child."""
        if key is None:
            self._admit(now, came_from, link, frame, None, budget)
            return
        if link is None:
            self._admit(now, came_from, link, frame, Origin(came_from, 0, key, not frame.sync), budget)
            return
        quota, size = link.quota, 0
        if quota is not None:
            if len(frame.data) >= LARGE:
                size = len(frame.data)
            if quota.room < 1 or (size and not quota.fits(size)):
                reply = Origin(came_from, link.streams, key, not frame.sync)
                self._decisions.answer(reply, frame.uuid, Code.RECV_BUF_BUSY)
                link.count_unanswered(1)
                return
            if size:
                link.count_waiting(0, size)
        self._admit(now, came_from, link, frame, Origin(came_from, link.streams, key, not frame.sync, size), budget)
        link.count_unanswered(1)

    def _many_arrived(
        self,
        now: float,
        link: Link,
        frames: Sequence[Frame],
        keys: Sequence[Key | None],
        budgets: Sequence[float | None],
    ) -> None:
        """Take in messages that came together: each run of one flow at once."""
        at, count, quota = 0, len(frames), link.quota
        while at < count:
            end = _end_of_run(frames, keys, budgets, at)
            if (
                end - at > 1
                and (quota is None or end - at <= quota.room)
                and self._run_arrived(now, link, frames[at:end], _each(keys[at:end]), budgets[at])
            ):
                link.count_unanswered(end - at)
            else:
                for index in range(at, end):
                    self._one_arrived(now, link.id, link, frames[index], keys[index], budgets[index])
            at = end

    def _run_arrived(
        self,
        now: float,
        link: Link,
        frames: Sequence[Frame],
        keys: Sequence[Key],
        budget: float | None,
    ) -> bool:
        """Decide on sync unicasts of one flow at once. Returns False, and does nothing, where one is unusual."""
        frame, came_from, quota, each = frames[0], link.id, link.quota, 0
        sizes = [len(frame.data) for frame in frames]
        if quota is not None and max(sizes) >= LARGE:
            each = sizes[0]
            if sizes.count(each) != len(sizes) or not quota.fits(sum(sizes)):
                return False
        if came_from != UP and self.routes.next_hop(frame.src) != came_from:
            return False
        try:
            hop = self._topology.next_hop(frame.dst, came_from)
        except Refusal:
            return False
        if hop is not None:
            up, down = self._patience(budget)
            deadline = now + (up if hop is self._up else down)
            return self._forwarding.forward_run(now, hop, frames, sum(sizes), link, keys, deadline, each)
        if not link.bare or not self._delivery.deliver_all(now, came_from, frames, sizes):
            return False
        self._decisions.ready.to(came_from).accepted.extend(keys)
        return True

    def _admit(
        self,
        now: float,
        came_from: LinkId,
        link: Link | None,
        frame: Frame,
        reply: ReplyTo | None,
        budget: float | None,
    ) -> None:
        """Check one message, then decide on it."""
        if link is None or link.quirks is None or self._admission.is_new(now, link, link.quirks, frame):
            routed = came_from == UP or self.routes.next_hop(frame.src) == came_from
            if routed or self._admission.is_own(now, came_from, frame, reply, budget):
                self._arrive(now, came_from, frame, reply, budget)
        elif reply is not None:
            self._decisions.answer(reply, frame.uuid, Code.OK)

    def _arrive(self, now: float, came_from: LinkId, frame: Frame, reply: ReplyTo | None, budget: float | None) -> None:
        """Decide on one message that may come from there."""
        up, down = self._patience(budget)
        dst = frame.dst
        try:
            if type(frame) is Probe:
                self._probes.arrived(now, frame, came_from, reply, now + up, now + down)
            elif dst.unicast:
                hop = self._topology.next_hop(dst, came_from)
                if reply is None or not frame.sync:
                    plan = Plan((hop,), False) if hop else Plan((), True)
                    self._forwarding.carry_post(now, came_from, frame, plan, reply)
                elif hop is not None and hop is self._up and self._tries_for(came_from, frame):
                    # It waits for the way to the Mgr, and is repeated, as if it were this node's own.
                    self._sends.submit_for(now, frame, reply, now + ORIGINAL_CALL_S)
                elif hop is not None and hop.quirks is not None and hop.quirks.turn and budget is not None:
                    # Its turn may come late; how late, only the sender's patience says.
                    self._forwarding.carry_one(now, came_from, frame, hop, reply, now + ACK_BUDGET_PER_HOP * budget)
                else:
                    deadline = now + (up if hop is self._up else down)
                    self._forwarding.carry_one(now, came_from, frame, hop, reply, deadline)
            else:
                plan = self._topology.plan(frame.src.identity, dst, came_from)
                if reply is None or not frame.sync:
                    self._forwarding.carry_post(now, came_from, frame, plan, reply)
                else:
                    self._forwarding.carry_many(now, came_from, frame, plan, reply, now + up, now + down)
        except Refusal as refusal:
            self._decisions.counters.outcomes["refused"].count(refusal.code)
            self._decisions.refuse(frame, reply, refusal)

    def _tries_for(self, came_from: LinkId, frame: Frame) -> bool:
        """True for a message to the Mgr from a child that takes every answer for its delivery."""
        link = self._topology.link(came_from)
        tries = link is not None and link.quirks is not None and link.quirks.takes_any_answer
        return tries and frame.dst.position.role == Role.MGR

    def _patience(self, budget: float | None) -> tuple[float, float]:
        """Seconds that this node awaits an answer, from above and from below."""
        patience = self._ack_timeout
        up = ACK_BUDGET_PER_HOP * (patience if budget is None or budget > patience else budget)
        return up, self._hop_timeout if budget is None or up > self._hop_timeout else up

    def _end_overloaded_link(self, now: float, link: Link) -> None:
        """End the stream of a neighbour that sends messages and leaves their answers untaken.

        Where all children together are beyond their bound, the one with the most such messages goes.
        """
        if link.waiting <= self._most_unanswered:
            link = max(self.children.by_id.values(), key=_waiting)
        if link.session is not None:
            text = f"{link.waiting} messages of {link.position} wait for answers that it does not take"
            self._admission.end_stream(now, link, link.session, Violation(Code.RECV_BUF_BUSY, text))


def _each(keys: Sequence[Key | None]) -> Sequence[Key]:
    """The keys of a run, which has one for each message."""
    return cast("Sequence[Key]", keys)


def _end_of_run(frames: Sequence[Frame], keys: Sequence[Key | None], budgets: Sequence[float | None], at: int) -> int:
    """The index behind the last of the messages from `at` on that can be decided on together."""
    first, budget, end = frames[at], budgets[at], at + 1
    src, dst = first.src, first.dst
    if not first.sync or not dst.unicast or type(first) is not Frame or keys[at] is None:
        return end
    for index in range(end, len(frames)):
        frame = frames[index]
        if (
            frame.src is not src
            or frame.dst is not dst
            or budgets[index] != budget
            or not frame.sync
            or type(frame) is not Frame
            or keys[index] is None
        ):
            break
        end += 1
    return end
