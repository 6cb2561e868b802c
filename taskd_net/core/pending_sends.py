"""Sends of a node's own application that wait for the node to join, and their retransmission.

A send waits in the lane of its destination, in the order in which the application sent. The parent alone can tell
whether a message would arrive all the same. So the first of a lane goes to it on trial, as soon as there is a stream.
The parent delivers below itself or answers 6002, and then the trial is repeated, at a pace, and at once when the node
has joined. The others follow when the trial has had any other answer. A message that was answered 6002 was delivered
to nobody, so nothing is delivered twice (contract, section 3).
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from taskd_net.codes import Code
from taskd_net.core.acks import Send
from taskd_net.core.advertisements import Advertisements
from taskd_net.core.frame import Ack
from taskd_net.core.schedule import Schedule
from taskd_net.core.topology import LOCAL, Topology
from taskd_net.limits import BACKOFF_INITIAL_S, BACKOFF_MAX_S, TRIAL_LEAST_S
from taskd_net.position import Destination, Position

INFINITY: Final = float("inf")


class _Lane:
    """The sends to one destination that wait.

    Attributes:
        waiting: in the order of their numbers.
        trial: the one that was sent to see whether the destination can be reached.
        due: when the next may be sent.
        pace: seconds until the next trial.
        until: the last of those that waited together and go one by one; None as long as no trial has come through.
    """

    __slots__ = ("dst", "due", "pace", "trial", "until", "waiting")

    def __init__(self, dst: Destination) -> None:
        self.dst = dst
        self.waiting: list[Send] = []
        self.trial: Send | None = None
        self.due = 0.0
        self.pace = BACKOFF_INITIAL_S
        self.until: int | None = None


class PendingSends:
    """The lanes of one node, with the bounds of a link over all of them.

    Args:
        topology: where everybody is.
        advertisements: whether the node has joined.
        schedule: takes the time at which `ready` has to be asked again.
        messages, size: bounds; size in bytes.
    """

    __slots__ = (
        "_bytes",
        "_closed",
        "_count",
        "_lanes",
        "_messages",
        "_number",
        "_schedule",
        "_size",
        "_topology",
        "_up",
    )

    def __init__(
        self,
        topology: Topology,
        advertisements: Advertisements,
        schedule: Schedule,
        messages: int,
        size: int,
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
        """Number a send. Returns whether it has to wait: behind others, or for the node to join."""
        self._number = send.number = self._number + 1
        if not send.wait or self._closed or (self._up.joined and not self._lanes):
            return False
        return send.frame.dst.position in self._lanes or not (self._up.joined or self._needs_nobody(send))

    def add(self, send: Send) -> bool:
        """Let a send wait. Returns False when the bound is reached."""
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
        """The node has joined, has a parent, or knows more ways: every lane may go on."""
        for lane in self._lanes.values():
            lane.due, lane.pace = 0.0, BACKOFF_INITIAL_S
        if self._lanes:
            self._schedule.look(self, 0.0)

    def ready(self, now: float) -> list[Send]:
        """Take out what is to be sent now, in order."""
        ready: list[Send] = []
        for lane in [lane for lane in self._lanes.values() if lane.trial is None and lane.due <= now]:
            below, first = self._is_below(lane.dst), lane.waiting[0]
            if lane.due and not below and first.refused_by and first.deadline - now < TRIAL_LEAST_S:
                lane.due = first.deadline  # this look comes late
            elif below or self._may_try(lane.dst):
                ready += self._released(lane, whole=below)
            else:
                lane.due = INFINITY  # until `look_again`
        return sorted(ready)

    def ended(self, send: Send, ack: Ack) -> Ack | None:
        """Take the answer to a send of this node. Returns the application's answer; None: the send waits again."""
        lane = self._lanes.get(send.frame.dst.position) if self._lanes else None
        on_trial = lane is not None and lane.trial is send
        if lane is not None and on_trial:
            lane.trial = None
        if self._again(send, ack) and self.add(send):
            send.refused_by = ack.src
            lane = self._lanes[send.frame.dst.position]
            if self._up.told and self._up.joined:
                lane.due = 0.0  # it has joined since
            else:
                lane.due = send.sent_at + lane.pace
                if lane.due > send.deadline - TRIAL_LEAST_S:
                    # A trial that is cut off would end as 6001, which says less than that there was no way.
                    lane.due = max(lane.due, send.deadline)
                lane.pace = min(2.0 * lane.pace, BACKOFF_MAX_S)
            self._schedule.look(self, lane.due)
            return None
        if lane is not None and on_trial:
            self._came_through(lane)
        return ack

    def cancel(self, send: Send) -> None:
        """Forget a send."""
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
        """Take out what has waited past its deadline."""
        due: list[Send] = []
        for lane in list(self._lanes.values()):
            late = [send for send in lane.waiting if send.deadline <= now]
            self._take(lane, late)
            self._drop_if_empty(lane)
            due += late
        return due

    def close(self) -> list[Send]:
        """Take out everything. From now on nothing waits any more."""
        self._closed = True
        return self.take_due(INFINITY)

    def next_deadline(self) -> float:
        """When `ready` or `take_due` has to be asked at the latest, or infinity."""
        first = INFINITY
        for lane in self._lanes.values():
            if lane.trial is None:
                first = min(first, lane.due)
            first = min(first, min((send.deadline for send in lane.waiting), default=INFINITY))
        return first

    # ---- inside

    def _needs_nobody(self, send: Send) -> bool:
        """Whether a message arrives without the Mgr, as far as this node knows: below it, or at the parent itself."""
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
        """Whether to send something to the parent. A broadcast needs the Mgr, which alone knows everybody."""
        up = self._topology.up
        return up is not None and up.up and (dst.unicast or self._up.joined)

    def _again(self, send: Send, ack: Ack) -> bool:
        """Whether an answer says no more than that the node had not joined."""
        if ack.code != Code.NET_STREAM_NOT_INITED or not send.wait or not send.upward or self._closed:
            return False
        if ack.src.identity == self._topology.identity:
            return False
        if self._up.told is None:
            # Nobody tells whether the parent has a way to the Mgr. Its own 6002 may say that it has none.
            up = self._topology.up
            return up is not None and ack.src.identity == up.position.identity
        return not self._up.joined or send.epoch != self._up.epoch

    def _came_through(self, lane: _Lane) -> None:
        """A trial was answered with something else than 6002: those behind it may follow."""
        if lane.until is None:
            lane.until = lane.waiting[-1].number if lane.waiting else 0
        lane.due, lane.pace = 0.0, BACKOFF_INITIAL_S
        self._drop_if_empty(lane)
        self._schedule.look(self, 0.0)

    def _released(self, lane: _Lane, *, whole: bool) -> list[Send]:
        """Take out of a lane what goes now: all of it where it cannot be overtaken on the way, else the first."""
        in_order = self._up.told is not None
        if not whole and in_order:
            whole = self._up.joined or lane.until is not None
        elif not whole:
            # Calls that are under way together may overtake each other. What has come since then may do so.
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
