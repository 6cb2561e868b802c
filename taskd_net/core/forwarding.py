"""Forwarding of messages to links, within the bounds of each link, and their answers (docs/contract.md, section 5).

Every message whose answer is awaited is recorded in flight on its link, with the target of the answer. It is settled by
the neighbour's answer, by its deadline, or by the end of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, cast

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import NOBODY, UNTOLD, Answer, Awaited, Branch, FanOut, Pending, ReplyTo, Send
from taskd_net.core.adaptation import Copies, copies, spelled
from taskd_net.core.backlog import Backlog
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Frame
from taskd_net.core.in_flight import INFINITY, Collision, FlowRun
from taskd_net.core.inbox import Delivery
from taskd_net.core.links import UP, Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Key, Withdraw
from taskd_net.core.routes import LinkId, describe_missing
from taskd_net.core.topology import LOCAL, Plan, Topology

LATENCY_EVERY_S: Final = 0.01
"""Seconds between two messages on one link whose answer times are measured: a hundred in a second give quantiles. Each
costs two histograms an entry, a twentieth of the Python of a message that is alone on its way."""


BRANCH_BYTES: Final = 192
"""Bytes that a broadcast takes for each link on which it awaits an answer: the Branch, and its place in flight."""

FEW_BRANCHES: Final = 8
"""Links of a broadcast up to which the number of its sender's messages is bound enough: 12 MiB for 8,192 of them."""


class Forwarding:
    """The forwarder of one node.

    Args:
        topology: the links and the routes.
        decisions: the outcome of the event.
        delivery: this node's inbox.
        seen: the recent broadcasts on links to neighbours that repeat them.
        messages, size: bounds of the write queue of one link; size in bytes.
        most: bytes that may wait on all links.

    Attributes:
        backlog: the messages that wait on all links, and the answers that broadcasts await.
    """

    def __init__(
        self,
        topology: Topology,
        decisions: Decisions,
        delivery: Delivery,
        seen: Copies,
        messages: int,
        size: int,
        most: int,
    ) -> None:
        self._topology = topology
        self._decisions = decisions
        self._counters = decisions.counters
        self._delivery = delivery
        self._seen = seen
        self._messages = messages
        self._size = size
        self.backlog = Backlog(most)
        self._draining = False

    def drain(self) -> None:
        """Accept no further message whose answer is awaited."""
        self._draining = True

    def resume(self) -> None:
        """Accept messages as before `drain`."""
        self._draining = False

    def carry_one(
        self, now: float, came_from: LinkId, frame: Frame, hop: Link | None, reply: ReplyTo, deadline: float
    ) -> None:
        """Forward or deliver a unicast whose answer is awaited: a sync message, or one of this node's own."""
        receiver = frame.dst.position if frame.sync else None
        pending = Pending(frame.uuid, reply, frame.src, frame.sync, receiver, deadline)
        if hop is None:
            self._delivery.deliver(now, came_from, frame, pending)
            return
        refusal = self.forward(now, hop, frame, pending)
        if refusal is not None:
            hop.failed(refusal.code)
            self._decisions.settle(pending, refusal.code, self._decisions.position, refusal.detail)

    def carry_many(
        self, now: float, came_from: LinkId, frame: Frame, plan: Plan, reply: ReplyTo, up: float, down: float
    ) -> None:
        """Forward and deliver a broadcast or multicast. Every branch of it will be settled."""
        self._counters.broadcasts += 1
        fan_out = self.fan_out(frame, plan, reply)
        if fan_out is None:
            return
        if not (plan.links or plan.here or plan.missing is not None):
            # Every receiver lies behind the link that the message came from.
            self._decisions.settle(Branch(fan_out, down), Code.OK, self._decisions.position, "", NOBODY)
        if plan.missing is not None:
            part, text = Branch(fan_out, down, plan.missing), describe_missing(plan.missing)
            self._decisions.settle(part, Code.NO_ROUTE, self._decisions.position, text)
        if plan.here:
            self._delivery.deliver(now, came_from, frame, Branch(fan_out, down))
        for link in plan.links:
            sent = self._copies_for(now, link, frame)
            fan_out.expect(len(sent) - 1)
            for copy in sent:
                alone = copy.sync and (link.counts or link.is_leaf or copy.dst.unicast)
                part = Branch(fan_out, up if link.id == UP else down, link.position, alone, copy.sync != frame.sync)
                refusal = self.forward(now, link, copy, part)
                if refusal is not None:
                    link.failed(refusal.code)
                    self._decisions.settle(part, refusal.code, self._decisions.position, refusal.detail)

    def fan_out(self, frame: Frame, plan: Plan, reply: ReplyTo) -> FanOut | None:
        """Begin to await the answers to a broadcast, a multicast or a probe of either kind.

        Returns None, and answers 5001, if too many wait already.
        """
        links = len(plan.links)
        parts = links + plan.here + (plan.missing is not None)
        over = None
        if links > FEW_BRANCHES:
            sender, size = self._sender(frame), BRANCH_BYTES * links
            if not self.backlog.reserve(sender, size):
                text = "too many broadcasts wait for their answers here"
                self._decisions.answer(reply, frame.uuid, Code.RECV_BUF_BUSY, text)
                return None
            over = partial(self.backlog.release, sender, size)
        return FanOut(frame.uuid, reply, frame.src, frame.sync, parts or 1, not frame.dst.is_list, over)

    def carry_post(self, now: float, came_from: LinkId, frame: Frame, plan: Plan, reply: ReplyTo | None) -> None:
        """Forward a neighbour's `sync=false` message. The answer says only that this node has accepted it."""
        failure = Refusal(Code.NO_ROUTE, describe_missing(plan.missing)) if plan.missing is not None else None
        self._counters.broadcasts += not frame.dst.unicast
        if plan.here:
            failure = self._delivery.accept(now, came_from, frame) or failure
        for link in plan.links:
            for copy in (frame,) if frame.dst.unicast else self._copies_for(now, link, frame):
                refusal = self.forward(now, link, copy, None)
                if refusal is not None:
                    link.failed(refusal.code)
                    failure = refusal
        if failure is not None:
            self._decisions.refuse(frame, reply, failure)
        elif reply is not None:
            self._decisions.answer(reply, frame.uuid, Code.OK)

    def forward(self, now: float, link: Link, frame: Frame, part: Awaited | None) -> Refusal | None:
        """Queue a message on a link. Returns the refusal if it cannot be queued."""
        if link.session is None:
            return Refusal(Code.NET_STREAM_NOT_INITED, f"the stream to {link.position} is not up")
        size, quirks, decisions = len(frame.data), link.quirks, self._decisions
        if quirks is not None:
            if size > quirks.largest:
                text = f"the message has {size} bytes serialized; {link.position} takes at most {quirks.largest}"
                return Refusal(Code.CLIENT_ERR, text)
            frame = spelled(link, frame)
        if link.silent and part is not None:
            self._lose(now, link, part)
            return None
        if link.queued_messages >= self._messages or link.queued_bytes + size > self._size:
            return Refusal(Code.RECV_BUF_BUSY, f"the queue to {link.position} is full")
        if part is not None and (link.in_flight.count >= link.in_flight_limit or self._draining):
            return Refusal(Code.RECV_BUF_BUSY, f"too many messages to {link.position} are in flight")
        if link.queued_bytes + size > link.granted and not self.backlog.grant(link, self._sender(frame), size):
            return Refusal(Code.RECV_BUF_BUSY, "too many bytes wait on all links of this node")
        patience, number = 0.0, 0
        if part is not None:
            if quirks is not None and quirks.turn and not link.in_flight.count:
                part.hurry(now + quirks.turn)
            added = link.in_flight.add(frame.uuid, part)
            if type(part.reply) is Send:
                part.reply.copies.append((link.id, frame, part, added or frame.uuid))
            if added is None:
                self._hold(link, frame, part)
                return None
            number = added
            if link.timed is None and now >= link.timed_at + LATENCY_EVERY_S:
                link.time(now, part)
            decisions.schedule.look(link, part.deadline)
            patience = part.deadline - now
        link.enqueue(1, size)
        decisions.statistics.forwarded += 1
        writes = decisions.ready.to(link.id)
        writes.frames.append(frame)
        writes.patience.append(patience)
        writes.numbers.append(number)
        return None

    def forward_run(
        self,
        now: float,
        link: Link,
        frames: Sequence[Frame],
        size: int,
        asker: Link,
        keys: Sequence[Key],
        deadline: float,
        each: int,
    ) -> bool:
        """Queue a batch of unicasts of one flow whose answers are awaited.

        Returns False, and changes nothing, if one of them may need separate treatment. Reasons are a bound, a
        draining node, a link that is down or has no message numbers, and a neighbour with quirks.
        `each`: bytes of each that count towards the quota of `asker`.
        """
        count, in_flight = len(frames), link.in_flight
        if (
            not in_flight.numbered
            or link.session is None
            or link.silent
            or link.quirks is not None
            or self._draining
            or link.queued_messages + count > self._messages
            or link.queued_bytes + size > self._size
            or in_flight.count + count > link.in_flight_limit
            or (link.queued_bytes + size > link.granted and not self.backlog.grant(link, self._sender(frames[0]), size))
        ):
            return False
        frame, decisions = frames[0], self._decisions
        uuids = [frame.uuid for frame in frames]
        run = FlowRun(0, uuids, asker.id, asker.streams, keys, frame.src, frame.dst.position, deadline, each)
        numbers = in_flight.add_run(run)
        if link.timed is None and now >= link.timed_at + LATENCY_EVERY_S:
            link.time(now, run.first)
        decisions.schedule.look(link, deadline)
        if each:
            asker.count_waiting(0, each * count)
        link.enqueue(count, size)
        decisions.statistics.forwarded += count
        writes = decisions.ready.to(link.id)
        writes.frames.extend(frames)
        writes.patience.extend([deadline - now] * count)
        writes.numbers.extend(numbers)
        return True

    def _sender(self, frame: Frame) -> LinkId:
        """The link behind which the sender of a message lies, in whose name it waits."""
        hop = self._topology.routes.next_hop(frame.src.identity)
        if hop is not None:
            return hop
        return LOCAL if frame.src.identity == self._topology.identity else UP

    def _hold(self, link: Link, frame: Frame, part: Awaited) -> None:
        """Hold a message until its uuid is no longer in flight for another message."""
        link.in_flight.hold(Collision(frame, part))
        link.enqueue(1, len(frame.data))
        self._decisions.schedule.look(link, part.deadline)

    def release(self, now: float, link: Link, uuid: str) -> None:
        """Send the message that waits for this uuid, which is no longer in flight on the link."""
        while (collision := link.in_flight.release(uuid)) is not None:
            self.withdrawn(link, len(collision.frame.data))
            refusal = self.forward(now, link, collision.frame, collision.part)
            if refusal is not None:
                self._refuse_collision(link, collision, refusal)

    def accepted(self, now: float, link: Link, keys: Sequence[Key]) -> None:
        """Settle messages that the far side has delivered to one receiver each."""
        decisions, in_flight = self._decisions, link.in_flight
        collisions, late, timed = in_flight.collisions, 0, link.timed
        for part in in_flight.take_accepted(keys):
            if part is None:
                late += 1
            elif isinstance(part, FlowRun):
                if type(timed) is int and part.first <= timed < part.first + len(part.uuids):
                    link.stop_timing(now)
                self._accepted_run(part)
            else:
                if part is timed:
                    link.stop_timing(now)
                decisions.settle(part, Code.OK, part.receiver or link.position, "", UNTOLD)
        decisions.statistics.late_acks += late
        link.accepted(now, len(keys) - late)
        if collisions:
            # Only a link without numbers has collisions, and its keys are uuids.
            for uuid in cast("Sequence[str]", keys):
                self.release(now, link, uuid)

    def _accepted_run(self, run: FlowRun) -> None:
        decisions = self._decisions
        asker = decisions.asker(run.link, run.stream)
        if asker is not None and asker.bare:
            decisions.ready.to(run.link).accepted.extend(run.keys)
            if run.size:
                asker.count_waiting(0, -run.size * len(run.keys))
        elif asker is not None:
            for each in run.each():
                decisions.settle(each, Code.OK, run.receiver, "", UNTOLD)

    def answered(self, now: float, link: Link, answer: Answer) -> None:
        """Settle one message that the far side has answered."""
        key, code, src, detail, told, sync = answer
        decisions, in_flight = self._decisions, link.in_flight
        part = in_flight.take(key, sync)
        if part is None:
            decisions.statistics.late_acks += 1
        else:
            if sync is False and code == Code.OK:
                src = part.receiver or link.position
            link.answered(now, part, code)
            decisions.settle(part, code, src, detail, told)
            if link.quirks is not None:
                self._next_turn(now, link, link.quirks)
        if in_flight.collisions and isinstance(key, str):
            self.release(now, link, key)

    def post_answered(self, now: float, link: Link | None, frame: Frame, code: int, src: Position, detail: str) -> None:
        """Settle a `sync=false` message that the far side has taken or refused, or that nobody awaits."""
        part = link.in_flight.take_copy(frame) if link is not None else None
        if link is not None and part is not None:
            link.answered(now, part, code)
            self._decisions.settle(part, code, src, detail, UNTOLD)
        elif code != Code.OK and frame.src.identity != self._topology.identity:
            self._decisions.lose(frame, code, src, detail)

    def withdrawn(self, link: Link, size: int) -> None:
        """Count a message that was taken out of the queue of the link's stream."""
        link.dequeue(1, size)
        self.backlog.give_back(link)

    def give_up(self, now: float, link: Link) -> None:
        """Answer 6001 to the messages on a link whose deadlines have passed."""
        for part in link.in_flight.take_due(now):
            link.ended(now, part, Code.NETWORK_ACK_LOST)
            self._decisions.settle(part, Code.NETWORK_ACK_LOST, link.position, "no answer in time")
        if link.quirks is not None and link.in_flight.count:
            self._next_turn(now, link, link.quirks)
        if link.in_flight.collisions:
            self.give_up_collisions(now, link)

    def give_up_all(self, now: float, link: Link) -> None:
        """Answer 6001 to every message on a link whose neighbour gives no sign of life."""
        for part in link.in_flight.take_due(INFINITY):
            self._lose(now, link, part)

    def _lose(self, now: float, link: Link, part: Awaited) -> None:
        link.ended(now, part, Code.NETWORK_ACK_LOST)
        self._decisions.settle(part, Code.NETWORK_ACK_LOST, link.position, "it gives no sign of life")

    def give_up_collisions(self, now: float, link: Link) -> None:
        """Refuse the collisions whose deadlines have passed, and send those whose uuid is free."""
        for collision in link.in_flight.take_collisions(now):
            self.withdrawn(link, len(collision.frame.data))
            text = "the same uuid is in flight for another message"
            self._refuse_collision(link, collision, Refusal(Code.RECV_BUF_BUSY, text))
        for uuid in list(link.in_flight.collisions):
            self.release(now, link, uuid)

    def _refuse_collision(self, link: Link, collision: Collision, refusal: Refusal) -> None:
        link.failed(refusal.code)
        self._decisions.settle(collision.part, refusal.code, self._decisions.position, refusal.detail)

    def _copies_for(self, now: float, link: Link, frame: Frame) -> Sequence[Frame]:
        """The copies of a broadcast or multicast for a link."""
        quirks = link.quirks
        if quirks is None:
            return (frame,)
        sent = copies(link, quirks, frame, self._topology.routes, self._topology.identity)
        if quirks.repeats:
            # Such a neighbour sends them back to this node.
            for copy in sent:
                self._seen.add(now, copy)
        return sent

    def _next_turn(self, now: float, link: Link, quirks: Quirks) -> None:
        """Start the turn of the oldest message in flight, on a link whose neighbour handles one message at a time."""
        head = next(iter(link.in_flight), None) if quirks.turn else None
        if head is not None:
            head.hurry(now + quirks.turn)
            self._decisions.schedule.look(link, head.deadline)

    def withdraw(self, send: Send) -> None:
        """Remove a cancelled send from the messages in flight and from every queue."""
        for link_id, copy, part, key in send.copies:
            if isinstance(part, Branch):
                part.fan_out.end()
            link = self._topology.link(link_id)
            if link is None:
                continue
            if link.in_flight.remove(key, part):
                link.withdrawn(part)
                self._decisions.ready.notices.append(Withdraw(link.id, copy))
            elif (collision := link.in_flight.remove_collision(copy.uuid, part)) is not None:
                self.withdrawn(link, len(collision.frame.data))
        self._delivery.gate.withdraw(send)

    def drop(self, now: float, link: Link, unwritten: Iterable[tuple[Frame, int]]) -> None:
        """Answer every message of a stream that has ended: 6000 for the unwritten ones, 6001 for the rest."""
        decisions = self._decisions
        link.clear_queue()
        self.backlog.give_back(link)
        collisions = link.in_flight.take_collisions()
        # Answers go out in the order of sending, so that resends keep that order.
        for frame, part in reversed(link.in_flight.take_unwritten(unwritten)):
            if part is not None:
                link.ended(now, part, Code.NETWORK_SEND_LOST)
                decisions.settle(part, Code.NETWORK_SEND_LOST, link.position, "the stream broke")
            elif not frame.sync and frame.src.identity != self._topology.identity:
                decisions.lose(frame, Code.NETWORK_SEND_LOST, link.position, "the stream broke")
        for collision in collisions:
            decisions.settle(collision.part, Code.NETWORK_SEND_LOST, link.position, "the stream broke")
        for part in link.in_flight.take_all():
            link.ended(now, part, Code.NETWORK_ACK_LOST)
            decisions.settle(part, Code.NETWORK_ACK_LOST, link.position, "the stream broke")
