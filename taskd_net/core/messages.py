"""The message path of a Router: sends and arrivals. The answer path is in `core.answers`.

The rule for the next hop is `Topology.next_hop`; for the receivers of a broadcast, `Topology.plan`. A batch of one flow
is decided once (`_run_arrived`); anything unusual goes the path of one message (`_arrive`). Both decide alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Final, cast

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position, Role
from taskd_net.core.acks import Origin, ReplyTo, Send
from taskd_net.core.admission import ACK_BUDGET_PER_HOP, Admission
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.answers import Answers
from taskd_net.core.delivery import Delivery
from taskd_net.core.frame import Ack, Frame, Probe
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.pending_sends import PendingSends
from taskd_net.core.probes import Probes
from taskd_net.core.quota import Quota
from taskd_net.core.ready import Key, Ready, Token
from taskd_net.core.routes import LinkId, Routes
from taskd_net.core.topology import LOCAL, Plan

ORIGINAL_CALL_S: Final = 8.0
"""Seconds for which this node tries to bring a child's message to the Mgr, where the child takes any answer for its
delivery: an Agent of the original's reports a fault three times, 1 s apart, and never again. Its calls have no
deadline. A Mgr that was killed is back by then, and so is a Proxy that lost its parent."""

LARGE: Final = 4096
"""Bytes from which on a message counts towards its child's quota of bytes."""

FOR_CHILD: Final = -1
"""The token of sends in a child's place: nobody of this node awaits their answers."""

_waiting: Final = attrgetter("waiting")


class Messages(Answers):
    """The part of a Router that messages pass. `Router` sets the attributes."""

    _ack_timeout: float
    _admission: Admission
    _advertisements: Advertisements
    _delivery: Delivery
    _hop_timeout: float
    _most_of_all: int
    _most_unanswered: int
    _probes: Probes
    _reopens: bool
    _sends: PendingSends
    _up: Link | None
    children: Children
    quota: Quota
    routes: Routes

    # ---- this node's own

    def submit(self, now: float, frame: Frame, token: Token, timeout: float, wait: bool = True) -> Ready:
        """Send a message of the application; the answer goes to `token` within `timeout` seconds, whatever happens.

        Args:
            now: the time, in seconds of a clock that never steps.
            frame: the message. For `sync=false` the answer says that the first hop has it.
            token: the node's name for the request.
            timeout: seconds.
            wait: whether the message waits for the node to join.
        """
        send = self._decisions.open[token] = Send(frame, token, now + timeout, wait)
        self._decisions.statistics.sent += 1
        try:
            self._begin(now, send)
        except Refusal as refusal:
            self._decisions.counters.outcomes["refused"].count(refusal.code)
            self._decisions.refuse(frame, send, refusal)
        return self._take()

    def _begin(self, now: float, send: Send) -> None:
        """Send at once, or when the node has joined."""
        if not self._sends.has_to_wait(send):
            self._send(now, send)
        elif self._sends.add(send):
            self._send_ready(now)
        else:
            text = "too many messages wait for the node to join"
            self._decisions.answer(send, send.frame.uuid, Code.RECV_BUF_BUSY, text)

    def cancel(self, token: Token) -> Ready:
        """End a send, a probe or an announcement whose answer nobody awaits. Copies still here never leave."""
        send = self._decisions.open.pop(token, None)
        if send is not None:
            self._sends.cancel(send)
            self._forwarding.withdraw(send)
            # Counters and spans learn the end of the message, which may have been delivered.
            ack = Ack(send.frame.uuid, Code.NETWORK_ACK_LOST, self._decisions.position, "the send was cancelled")
            self._decisions.ready.completed.append((token, ack))
        else:
            self._advertisements.cancel(token)
        return self._take()

    def probe(self, now: float, probe: Probe, token: Token, timeout: float) -> Ready:
        """Ask whether, and how, the way leads somewhere; the answer goes to `token` within `timeout` seconds.

        A probe does not wait for the node to join: a node that has not joined answers 6002.
        """
        send = self._decisions.open[token] = Send(probe, token, now + timeout, wait=False)
        try:
            self._probes.send(now, probe, LOCAL, send, send.deadline)
        except Refusal as refusal:
            self._decisions.refuse(probe, send, refusal)
        return self._take()

    # ---- from a neighbour

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
            self._decisions.counters.arrived(now, link, count, size)
            if link.waiting > self._most_unanswered or self.quota.messages > self._most_of_all:
                self._end_hoarder(now, link)
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
            self._delivery.door.open, self._forwarding.draining = self._reopens, False
        try:
            link = self._topology.link(came_from)
            if link is not None:
                self._decisions.counters.arrived(now, link, 1, len(frame.data))
            self._let_in(now, came_from, link, frame, token, budget)
        finally:
            if early:
                self._delivery.door.open, self._forwarding.draining = False, True
        return self._take()

    def bounds_broken(self, now: float, came_from: LinkId, session: object, violation: Violation) -> Ready:
        """End a stream over which something has come that no node of ours writes. The next one has to wait."""
        link = self._topology.link(came_from)
        if link is not None:
            self._admission.end_stream(now, link, session, violation)
        return self._take()

    def inbox_taken(self, now: float, count: int = 1) -> Ready:
        """The application took messages out of the inbox."""
        self._delivery.taken(now, count)
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
        self._delivery.door.open = self._delivery.door.room > 0 and not self._forwarding.draining
        return self._take()

    def close_inbox(self) -> Ready:
        """The application takes no more messages: from now on the answer is 5000."""
        self._reopens = False
        self._delivery.shut()
        return self._take()

    # ---- decisions

    def _one_arrived(
        self, now: float, came_from: LinkId, link: Link | None, frame: Frame, key: Key | None, budget: float | None
    ) -> None:
        """Take in one message of a stream, within the quota of its child."""
        if key is None:
            self._let_in(now, came_from, link, frame, None, budget)
            return
        if link is None:
            self._let_in(now, came_from, link, frame, Origin(came_from, 0, key, not frame.sync), budget)
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
        self._let_in(now, came_from, link, frame, Origin(came_from, link.streams, key, not frame.sync, size), budget)
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
        self._decisions.ready.to(came_from).accepted += keys
        return True

    def _let_in(
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

    def _end_hoarder(self, now: float, link: Link) -> None:
        """End the stream of a neighbour that sends messages and leaves their answers untaken.

        Where all children together are beyond their bound, the one with the most such messages goes.
        """
        if link.waiting <= self._most_unanswered:
            link = max(self.children.by_id.values(), key=_waiting)
        if link.session is not None:
            text = f"{link.waiting} messages of {link.position} wait for answers that it does not take"
            self._admission.end_stream(now, link, link.session, Violation(Code.RECV_BUF_BUSY, text))

    def _patience(self, budget: float | None) -> tuple[float, float]:
        """Seconds that this node awaits an answer, from above and from below."""
        patience = self._ack_timeout
        up = ACK_BUDGET_PER_HOP * (patience if budget is None or budget > patience else budget)
        return up, self._hop_timeout if budget is None or up > self._hop_timeout else up

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
                    self._forwarding.hand_on(now, came_from, frame, plan, reply)
                elif hop is not None and hop is self._up and self._tries_for(came_from, frame):
                    # It waits for the way to the Mgr, and is repeated, as if it were this node's own.
                    self._begin(now, Send(frame, FOR_CHILD, now + ORIGINAL_CALL_S, asker=reply))
                elif hop is not None and hop.quirks is not None and hop.quirks.turn and budget is not None:
                    # Its turn may come late; how late, only the sender's patience says.
                    self._forwarding.carry_one(now, came_from, frame, hop, reply, now + ACK_BUDGET_PER_HOP * budget)
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
            self._decisions.counters.outcomes["refused"].count(refusal.code)
            self._decisions.refuse(frame, reply, refusal)

    def _tries_for(self, came_from: LinkId, frame: Frame) -> bool:
        """True for a message to the Mgr from a child that takes every answer for its delivery."""
        link = self._topology.link(came_from)
        tries = link is not None and link.quirks is not None and link.quirks.takes_any_answer
        return tries and frame.dst.position.role == Role.MGR

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
        """Send the messages that need not wait any more."""
        for send in self._sends.ready(now):
            send.copies.clear()
            # Never refused: it was not when it began to wait, and a node with a parent always knows a next hop.
            self._send(now, send)

    def _end_waiting(self, sends: Iterable[Send], text: str) -> None:
        for send in sends:
            src = send.refused_by or self._decisions.position
            ack = Ack(send.frame.uuid, Code.NET_STREAM_NOT_INITED, src, text, 0)
            if send.asker is not None:
                self._decisions.give(send.asker, ack)
                continue
            self._decisions.open.pop(send.token, None)
            self._decisions.ready.completed.append((send.token, ack))


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
