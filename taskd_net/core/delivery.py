"""The last step of a message: into the node's own inbox, or back with the reason why not (contract, section 5)."""

from __future__ import annotations

from taskd_net.codes import Code, Refusal
from taskd_net.core.acks import Awaited
from taskd_net.core.actions import Deliver
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Frame
from taskd_net.core.inbox import InboxDoor, Waiting


class Delivery:
    """Lets messages into the inbox of one node.

    Args:
        door: the inbox, as far as its room and its window are concerned.
        decisions: where they go.
        wait: seconds that a sync message waits for room.
    """

    __slots__ = ("_decisions", "_tally", "_wait", "door")

    def __init__(self, door: InboxDoor, decisions: Decisions, wait: float) -> None:
        self.door = door
        self._decisions = decisions
        self._tally = decisions.tally
        self._wait = wait

    def deliver(self, now: float, frame: Frame, pending: Awaited) -> None:
        door = self.door
        if not door.open:
            self._turn_away(pending, Code.RECV_BUF_NIL, "no inbox")
        elif (known := door.knows(frame)) or door.has_room():
            self._enter(frame, pending, known)
        elif not frame.sync:
            # An own `sync=false` message to the own inbox: this node is its first hop, and has it once it is in line.
            refusal = self.accept(now, frame)
            code = Code.OK if refusal is None else refusal.code
            self._decisions.settle(pending, code, self._decisions.position, refusal.detail if refusal else "")
        elif door.queue(Waiting(frame, pending, deadline := min(now + self._wait, pending.deadline))):
            self._decisions.look_by(deadline)
        else:
            self._turn_away(pending, Code.RECV_BUF_BUSY, "the inbox is full")

    def accept(self, now: float, frame: Frame) -> Refusal | None:
        door = self.door
        refusal = None
        if not door.open:
            refusal = Refusal(Code.RECV_BUF_NIL, "no inbox")
        elif (known := door.knows(frame)) or door.has_room():
            self._enter(frame, None, known)
        elif not door.queue(Waiting(frame, None, float("inf"))):
            refusal = Refusal(Code.RECV_BUF_BUSY, "the inbox is full, and so is the line before it")
        if refusal is not None:
            self._tally.outcomes["inbox"].count(refusal.code)
        return refusal

    def _turn_away(self, pending: Awaited, code: Code, detail: str) -> None:
        self._tally.outcomes["inbox"].count(code)
        self._decisions.settle(pending, code, self._decisions.position, detail)

    def _enter(self, frame: Frame, pending: Awaited | None, known: bool) -> None:
        if known:
            self._decisions.statistics.duplicates += 1
        else:
            self.door.enter(frame)
            self._decisions.statistics.delivered += 1
            self._decisions.add(Deliver(frame))
        if pending is not None:
            self._decisions.settle(pending, Code.OK, self._decisions.position)

    def shut(self) -> None:
        self.door.open = False
        for waiting in self.door.take_line():
            if waiting.pending is not None:
                self._turn_away(waiting.pending, Code.RECV_BUF_NIL, "the inbox was closed")
            else:
                self._decisions.lose(waiting.frame, Code.RECV_BUF_NIL, self._decisions.position, "the inbox was closed")

    def taken(self, count: int) -> None:
        """The application took messages out of the inbox: those in line enter."""
        door = self.door
        door.held -= count
        if door.line:
            for waiting in door.admit():
                # The first copy may have gone in while this one stood in line.
                self._enter(waiting.frame, waiting.pending, door.knows(waiting.frame))

    def give_up(self, now: float) -> None:
        """Refuse what has waited in line too long."""
        for waiting in self.door.take_due(now):
            assert waiting.pending is not None
            self._turn_away(waiting.pending, Code.RECV_BUF_BUSY, "the inbox is full")
