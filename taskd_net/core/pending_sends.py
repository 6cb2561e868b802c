"""Sends of a node's own application that wait for the node to join, and their retransmission.

Each destination has a lane of waiting sends, in the order of sending. Before the join, only the parent can tell whether
a message would arrive. So the first send of a lane goes to the parent as a trial, once a stream is up. The answer 6002
repeats the trial, with back-off, or at once when the node joins. After any other answer the rest of the lane follows.
A message with the answer 6002 was delivered to nobody, so a resend is no duplicate (docs/contract.md, section 3).
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.codes import Code
from taskd_net.base.limits import BACKOFF_INITIAL_S, BACKOFF_MAX_S
from taskd_net.base.position import Destination, Position
from taskd_net.core.acks import Send
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.frame import Ack
from taskd_net.core.schedule import Schedule
from taskd_net.core.topology import LOCAL, Topology

TRIAL_LEAST_S: Final = 0.1
"""Seconds that a send which waits for the join has left at least when it is tried again: the parent's answer, which is
there after a millisecond, may take as long on a busy machine."""

INFINITY: Final = float("inf")


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


class PendingSends:
    """The lanes of one node. Together they have the bounds of one link.

    Args:
        topology: the links and the routes.
        advertisements: the join state of the node.
        schedule: takes the time of the next call of `ready`.
        messages, size: bounds over all lanes; size in bytes.
    """

    def __init__(
        self, topology: Topology, advertisements: Advertisements, schedule: Schedule, messages: int, size: int
    ) -> None:
        self._topology = topology
        self._up = advertisements
        self._schedule = schedule
        self._messages = messages
        self._size = size
        self._lanes: dict[Position, _Lane] = {}
        self._count = 0
        self._bytes = 0
        self._number = 0
        self._closed = False

    def __len__(self) -> int:
        return self._count

    def has_to_wait(self, send: Send) -> bool:
        """Number a send. Returns whether it must wait behind others or for the join."""
        self._number = send.number = self._number + 1
        if not send.wait or self._closed or (self._up.joined and not self._lanes):
            return False
        return send.frame.dst.position in self._lanes or not (self._up.joined or self._needs_nobody(send))

    def add(self, send: Send) -> bool:
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

    def look_again(self) -> None:
        """Retry every lane: the node has joined, has a parent, or knows more routes."""
        for lane in self._lanes.values():
            lane.due, lane.pace = 0.0, BACKOFF_INITIAL_S
        if self._lanes:
            self._schedule.look(self, 0.0)

    def ready(self, now: float) -> list[Send]:
        """Remove and return the sends that are due now, in order."""
        ready: list[Send] = []
        for lane in [lane for lane in self._lanes.values() if lane.trial is None and lane.due <= now]:
            below, first = self._is_below(lane.dst), lane.waiting[0]
            if lane.due and not below and first.refused_by and first.deadline - now < TRIAL_LEAST_S:
                lane.due = first.deadline  # too late for another trial
            elif below or self._may_try(lane.dst):
                ready += self._released(lane, whole=below)
            else:
                lane.due = INFINITY  # until `look_again`
        return sorted(ready)

    def ended(self, send: Send, ack: Ack) -> Ack | None:
        """Process the answer to a send. Returns the application's answer; None if the send waits again."""
        lane = self._lanes.get(send.frame.dst.position) if self._lanes else None
        on_trial = lane is not None and lane.trial is send
        if lane is not None and on_trial:
            lane.trial = None
        if self._again(send, ack) and self.add(send):
            send.refused_by = ack.src
            lane = self._lanes[send.frame.dst.position]
            if self._up.told and self._up.joined:
                lane.due = 0.0  # the node has joined meanwhile
            else:
                lane.due = send.sent_at + lane.pace
                if lane.due > send.deadline - TRIAL_LEAST_S:
                    # A trial beyond the deadline would end as 6001, which says less than 6002.
                    lane.due = max(lane.due, send.deadline)
                lane.pace = min(2.0 * lane.pace, BACKOFF_MAX_S)
            self._schedule.look(self, lane.due)
            return None
        if lane is not None and on_trial:
            self._came_through(lane)
        return ack

    def cancel(self, send: Send) -> None:
        """Remove a cancelled send."""
        lane = self._lanes.get(send.frame.dst.position)
        if lane is None:
            return
        if lane.trial is send:
            lane.trial = None
            lane.due = 0.0
            self._schedule.look(self, 0.0)
        self._take(lane, [waiting for waiting in lane.waiting if waiting is send])
        self._drop_if_empty(lane)

    def take_due(self, now: float) -> list[Send]:
        """Remove and return the sends whose deadline has passed."""
        due: list[Send] = []
        for lane in list(self._lanes.values()):
            late = [send for send in lane.waiting if send.deadline <= now]
            self._take(lane, late)
            self._drop_if_empty(lane)
            due += late
        return due

    def close(self) -> list[Send]:
        """Remove and return all sends. Later sends never wait."""
        self._closed = True
        return self.take_due(INFINITY)

    def next_deadline(self) -> float:
        """The latest time for the next call of `ready` and `take_due`, or infinity."""
        first = INFINITY
        for lane in self._lanes.values():
            if lane.trial is None:
                first = min(first, lane.due)
            first = min(first, min((send.deadline for send in lane.waiting), default=INFINITY))
        return first

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
        """True if an answer says only that the node had not joined, so that the send is repeated."""
        if ack.code != Code.NET_STREAM_NOT_INITED or not send.wait or not send.upward or self._closed:
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
        if lane.until is None:
            lane.until = lane.waiting[-1].number if lane.waiting else 0
        lane.due, lane.pace = 0.0, BACKOFF_INITIAL_S
        self._drop_if_empty(lane)
        self._schedule.look(self, 0.0)

    def _released(self, lane: _Lane, *, whole: bool) -> list[Send]:
        """Release the whole lane where no send can overtake an earlier one, else its first send as the trial."""
        in_order = self._up.told is not None
        if not whole and in_order:
            whole = self._up.joined or lane.until is not None
        elif not whole:
            # Concurrent calls may overtake each other. Only sends after the wait are free to do so.
            whole = lane.until is not None and lane.waiting[0].number > lane.until
        released = lane.waiting if whole else lane.waiting[:1]
        if not whole:
            lane.trial = released[0]
        released = list(released)
        self._take(lane, released)
        self._drop_if_empty(lane)
        return released

    def _take(self, lane: _Lane, sends: list[Send]) -> None:
        if sends:
            gone = set(map(id, sends))
            lane.waiting = [send for send in lane.waiting if id(send) not in gone]
            self._count -= len(sends)
            self._bytes -= sum(len(send.frame.data) for send in sends)

    def _drop_if_empty(self, lane: _Lane) -> None:
        if not lane.waiting and lane.trial is None:
            self._lanes.pop(lane.dst.position, None)
