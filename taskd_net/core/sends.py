"""Sends of a node's own application: their way out, their wait for the node to join, and their retransmission.

Each destination has a lane of waiting sends, in the order of sending. Before the join, only the parent can tell whether
a message would arrive. So the first send of a lane goes to the parent as a trial, once a stream is up. The answer 6002
repeats the trial, with back-off, or at once when the node joins. After any other answer the rest of the lane follows.
A message with the answer 6002 was delivered to nobody, so a resend is no duplicate (docs/contract.md, section 3).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.limits import BACKOFF_INITIAL_S, BACKOFF_MAX_S
from taskd_net.base.position import Destination, Position
from taskd_net.core.acks import ReplyTo, Send
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.decisions import Decisions
from taskd_net.core.forwarding import Forwarding
from taskd_net.core.frame import Ack, Frame, Probe
from taskd_net.core.ready import Token
from taskd_net.core.topology import LOCAL, Topology

TRIAL_LEAST_S: Final = 0.1
"""Seconds that a send which waits for the join has left at least when it is tried again: the parent's answer, which is
there after a millisecond, may take as long on a busy machine."""

FOR_CHILD: Final = -1
"""The token of sends in a child's place: nobody of this node awaits their answers."""

INFINITY: Final = float("inf")


class OwnSends:
    """The sends of one node that are not answered. Those that wait have the bounds of one link together.

    Args:
        topology: the links and the routes.
        advertisements: the join state of the node.
        decisions: take the outcome.
        forwarding: puts a message on its way.
        messages, size: bounds over all lanes; size in bytes.

    Attributes:
        open: the sends and probes of the application, by token.
    """

    def __init__(
        self,
        topology: Topology,
        advertisements: Advertisements,
        decisions: Decisions,
        forwarding: Forwarding,
        messages: int,
        size: int,
    ) -> None:
        self._topology = topology
        self._up = advertisements
        self._decisions = decisions
        self._schedule = decisions.schedule
        self._forwarding = forwarding
        self._messages = messages
        self._size = size
        self.open: dict[Token, Send] = {}
        self._lanes: dict[Position, _Lane] = {}
        self._count = 0
        self._bytes = 0
        self._number = 0
        self._closed = False

    def __len__(self) -> int:
        """The number of sends that wait."""
        return self._count

    def submit(self, now: float, frame: Frame, token: Token, timeout: float, wait: bool) -> None:
        """Send a message of the application at once, or when the node has joined; see `Router.submit`."""
        self._number += 1
        send = self.open[token] = Send(frame, token, now + timeout, wait, number=self._number)
        try:
            if self._up.joined and not self._lanes:  # nearly always
                self._send(now, send)
            else:
                self._begin(now, send)
        except Refusal as refusal:
            self._decisions.counters.outcomes["refused"].count(refusal.code)
            self._decisions.refuse(frame, send, refusal)

    def submit_for(self, now: float, frame: Frame, asker: ReplyTo, deadline: float) -> None:
        """Send a child's message in its place: it waits for the way to the Mgr, and is repeated, as if it were own.

        Raises:
            Refusal: 5002, nowhere.
        """
        self._number += 1
        self._begin(now, Send(frame, FOR_CHILD, deadline, asker=asker, number=self._number))

    def open_probe(self, probe: Probe, token: Token, deadline: float) -> Send:
        """Await the answer to a probe, which does not wait for the node to join."""
        send = self.open[token] = Send(probe, token, deadline, wait=False)
        return send

    def send_ready(self, now: float) -> None:
        """Send the messages that need not wait any more, in order."""
        ready: list[Send] = []
        for lane in [lane for lane in self._lanes.values() if lane.trial is None and lane.due <= now]:
            below, first = self._is_below(lane.dst), lane.waiting[0]
            if lane.due and not below and first.refused_by and first.deadline - now < TRIAL_LEAST_S:
                lane.wait(first.deadline)  # too late for another trial
            elif below or self._may_try(lane.dst):
                ready += self._released(lane, whole=below)
            else:
                lane.wait(INFINITY)  # until `look_again`
        for send in sorted(ready):
            # Never refused: it was not when it began to wait, and a node with a parent always knows a next hop.
            self._send(now, send)

    def look_again(self) -> None:
        """Retry every lane: the node has joined, has a parent, or knows more routes."""
        for lane in self._lanes.values():
            lane.try_at_once()
        if self._lanes:
            self._schedule.look(self, 0.0)

    def ended(self, send: Send, ack: Ack) -> None:
        """Give the answer to a send to whoever awaits it, or let the send wait again."""
        lane = self._lanes.get(send.frame.dst.position) if self._lanes else None
        on_trial = lane is not None and lane.end_trial(send)
        if ack.code == Code.NET_STREAM_NOT_INITED and self._again(send, ack) and self._add(send):
            send.refused(ack.src)
            lane = self._lanes[send.frame.dst.position]
            if self._up.told and self._up.joined:
                lane.wait(0.0)  # the node has joined since
            else:
                lane.back_off(send)
            self._schedule.look(self, lane.due)
            return
        if lane is not None and on_trial:
            self._came_through(lane)
        self._complete(send, ack)

    def cancel(self, token: Token) -> bool:
        """End a send or a probe whose answer nobody awaits. Copies still here never leave. False: there is none."""
        send = self.open.pop(token, None)
        if send is None:
            return False
        lane = self._lanes.get(send.frame.dst.position)
        if lane is not None:
            if lane.end_trial(send):
                lane.wait(0.0)
                self._schedule.look(self, 0.0)
            self._take(lane, [waiting for waiting in lane.waiting if waiting is send])
        self._forwarding.withdraw(send)
        # Counters and spans learn the end of the message, which may have been delivered.
        ack = Ack(send.frame.uuid, Code.NETWORK_ACK_LOST, self._decisions.position, "the send was cancelled")
        self._decisions.ready.completed.append((token, ack))
        return True

    def give_up(self, now: float) -> None:
        """Answer the sends whose deadline has passed, and send those that need not wait any more."""
        self._end_waiting(self._take_due(now), "not joined within the timeout")
        self.send_ready(now)

    def close(self, why: str) -> None:
        """Answer all sends that wait. Later sends never wait."""
        self._closed = True
        self._end_waiting(self._take_due(INFINITY), why)

    def next_deadline(self) -> float:
        """The latest time for the next call of `give_up`, or infinity."""
        first = INFINITY
        for lane in self._lanes.values():
            if lane.trial is None:
                first = min(first, lane.due)
            first = min(first, min((send.deadline for send in lane.waiting), default=INFINITY))
        return first

    def _send(self, now: float, send: Send) -> None:
        """Send a message on its way, or again."""
        frame, dst, up, epoch = send.frame, send.frame.dst, self._topology.up, self._up.epoch
        if dst.unicast:
            hop = self._topology.next_hop(dst, LOCAL)
            send.went(now, epoch, upward=hop is not None and hop is up)
            self._forwarding.carry_one(now, LOCAL, frame, hop, send, send.deadline)
        else:
            plan = self._topology.plan(frame.src.identity, dst, LOCAL)
            send.went(now, epoch, upward=up is not None and up in plan.links)
            self._forwarding.carry_many(now, LOCAL, frame, plan, send, send.deadline, send.deadline)

    def _complete(self, send: Send, ack: Ack) -> None:
        if send.asker is not None:
            self._decisions.give(send.asker, ack)
        elif self.open.pop(send.token, None) is not None:
            self._decisions.ready.completed.append((send.token, ack))

    def _end_waiting(self, sends: Iterable[Send], why: str) -> None:
        for send in sends:
            src = send.refused_by or self._decisions.position
            self._complete(send, Ack(send.frame.uuid, Code.NET_STREAM_NOT_INITED, src, why, 0))

    def _begin(self, now: float, send: Send) -> None:
        if not self._has_to_wait(send):
            self._send(now, send)
        elif self._add(send):
            self.send_ready(now)
        else:
            text = "too many messages wait for the node to join"
            self._decisions.answer(send, send.frame.uuid, Code.RECV_BUF_BUSY, text)

    def _has_to_wait(self, send: Send) -> bool:
        """True if a send must wait behind others or for the join."""
        if not send.wait or self._closed or (self._up.joined and not self._lanes):
            return False
        return send.frame.dst.position in self._lanes or not (self._up.joined or self._needs_nobody(send))

    def _add(self, send: Send) -> bool:
        """Queue a send in its lane. Returns False at a bound."""
        size = len(send.frame.data)
        if self._count >= self._messages or self._bytes + size > self._size:
            return False
        lane = self._lanes.get(send.frame.dst.position)
        if lane is None:
            lane = self._lanes[send.frame.dst.position] = _Lane(send.frame.dst)
        insort(lane.waiting, send)
        self._count += 1
        self._bytes += size
        self._schedule.look(self, send.deadline)
        return True

    def _take_due(self, now: float) -> list[Send]:
        """Remove and return the sends whose deadline has passed."""
        due: list[Send] = []
        for lane in list(self._lanes.values()):
            late = [send for send in lane.waiting if send.deadline <= now]
            self._take(lane, late)
            due += late
        return due

    def _needs_nobody(self, send: Send) -> bool:
        """True if a message needs no Mgr: all its receivers are below, or it is for the parent itself."""
        dst, up = send.frame.dst, self._topology.up
        if dst.unicast and up is not None and up.up and dst.position == up.position.identity:
            return True
        return self._is_below(dst, send.frame.src.identity)

    def _is_below(self, dst: Destination, sender: Position | None = None) -> bool:
        up = self._topology.up
        if dst.unicast:
            return self._topology.next_hop(dst, LOCAL) is not up
        return up not in self._topology.plan(sender or self._topology.identity, dst, LOCAL).links

    def _may_try(self, dst: Destination) -> bool:
        """True if a message may go to the parent. A broadcast needs the Mgr, which alone knows all nodes."""
        up = self._topology.up
        return up is not None and up.up and (dst.unicast or self._up.joined)

    def _again(self, send: Send, ack: Ack) -> bool:
        """True if a 6002 says only that the node had not joined, so that the send is repeated."""
        if not send.wait or not send.upward or self._closed:
            return False
        if ack.src.identity == self._topology.identity:
            return False
        if self._up.told is None:
            # This parent does not report its join state. Its own 6002 may mean that it has no route to the Mgr.
            up = self._topology.up
            return up is not None and ack.src.identity == up.position.identity
        return not self._up.joined or send.epoch != self._up.epoch

    def _came_through(self, lane: _Lane) -> None:
        """Let the next sends of a lane follow: its trial was answered with another code than 6002."""
        lane.came_through()
        self._take(lane, [])
        self._schedule.look(self, 0.0)

    def _released(self, lane: _Lane, *, whole: bool) -> list[Send]:
        """Release the whole lane where no send can overtake an earlier one, else its first send as the trial."""
        in_order = self._up.told is not None
        if not whole and in_order:
            whole = self._up.joined or lane.until is not None
        elif not whole:
            # Concurrent calls may overtake each other. Only sends after the wait are free to do so.
            whole = lane.until is not None and lane.waiting[0].number > lane.until
        released = list(lane.waiting) if whole else [lane.begin_trial()]
        self._take(lane, released)
        return released

    def _take(self, lane: _Lane, sends: list[Send]) -> None:
        """Remove sends from a lane, and the lane if nothing is left of it."""
        for send in sends:
            self._bytes -= len(send.frame.data)
        self._count -= len(sends)
        if lane.remove(sends):
            self._lanes.pop(lane.dst.position, None)


@dataclass(slots=True, eq=False)
class _Lane:
    """The waiting sends to one destination.

    Attributes:
        waiting: the sends, in the order of their numbers.
        trial: the send that probes whether the destination can be reached; None if none is under way.
        due: the time of the next attempt.
        pace: seconds between trials, which back off.
        until: number of the last send that goes one by one; None before the first successful trial.
    """

    dst: Destination
    waiting: list[Send] = field(default_factory=list)
    trial: Send | None = None
    due: float = 0.0
    pace: float = BACKOFF_INITIAL_S
    until: int | None = None

    def begin_trial(self) -> Send:
        """Make the first send the trial."""
        self.trial = self.waiting[0]
        return self.trial

    def end_trial(self, send: Send) -> bool:
        """Returns whether this send was the trial; then there is none any more."""
        if self.trial is not send:
            return False
        self.trial = None
        return True

    def wait(self, until: float) -> None:
        """Make the next attempt then."""
        self.due = until

    def try_at_once(self) -> None:
        """Make the next attempt at once, and begin to back off anew."""
        self.due, self.pace = 0.0, BACKOFF_INITIAL_S

    def back_off(self, send: Send) -> None:
        """Wait before the next trial, longer each time, after a send that is to be tried again."""
        self.due = send.sent_at + self.pace
        if self.due > send.deadline - TRIAL_LEAST_S:
            # A trial beyond the deadline would end as 6001, which says less than 6002.
            self.due = max(self.due, send.deadline)
        self.pace = min(2.0 * self.pace, BACKOFF_MAX_S)

    def came_through(self) -> None:
        """Let the next sends follow: the trial was answered with another code than 6002."""
        if self.until is None:
            self.until = self.waiting[-1].number if self.waiting else 0
        self.try_at_once()

    def remove(self, sends: list[Send]) -> bool:
        """Remove sends. Returns whether nothing is left, and no trial under way."""
        if sends:
            gone = set(map(id, sends))
            self.waiting = [send for send in self.waiting if id(send) not in gone]
        return not self.waiting and self.trial is None
