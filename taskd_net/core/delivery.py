"""The last step of a message: into the node's own inbox, or back with the reason (docs/contract.md, section 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import Awaited, Send
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Frame
from taskd_net.core.inbox import InboxDoor, Waiting
from taskd_net.core.routes import LinkId


class Delivery:
    """Lets messages into the inbox of one node.

    Duplicates are known before the door is looked at: the resend of a message that is in the inbox is answered 0 also
    by a node that drains or whose inbox is full.

    Args:
        door: the inbox, as far as its room and its memory are concerned.
        decisions: where they go.
        wait: seconds that a sync message waits for room.
        confirms: the application confirms each message, and its sender is answered 0 only then.

    Attributes:
        unconfirmed: the answers that wait for that, by uuid and sender of the message.
    """

    def __init__(self, door: InboxDoor, decisions: Decisions, wait: float, confirms: bool = False) -> None:
        self.door = door
        self._decisions = decisions
        self._counters = decisions.counters
        self._wait = wait
        self._confirms = confirms
        self.unconfirmed: dict[tuple[str, Position], list[Awaited]] = {}

    def deliver_all(self, now: float, came_from: LinkId, frames: Sequence[Frame], sizes: Sequence[int]) -> bool:
        """Let several new messages of one sender in at once. Returns False, and does nothing, where one is unusual."""
        if self._confirms:
            return False
        if not self.door.enter_all(now, came_from, [frame.uuid for frame in frames], frames[0].src, sizes):
            return False
        self._decisions.statistics.delivered += len(frames)
        self._decisions.ready.deliveries += frames
        return True

    def deliver(self, now: float, came_from: LinkId, frame: Frame, pending: Awaited) -> None:
        door = self.door
        if door.open and door.has_room(frame):
            self._enter(now, came_from, frame, pending)
        elif door.knows(frame):
            self._suppress(frame, pending)
        elif not door.open:
            self._turn_away(pending, Code.RECV_BUF_NIL, "no inbox")
        elif not frame.sync:
            # An own `sync=false` message to the own inbox: this node is its first hop, and has it once it is in line.
            refusal = self.accept(now, came_from, frame)
            code = Code.OK if refusal is None else refusal.code
            self._decisions.settle(pending, code, self._decisions.position, refusal.detail if refusal else "")
        elif door.queue(Waiting(came_from, frame, pending, deadline := min(now + self._wait, pending.deadline))):
            self._decisions.schedule.look(door, deadline)
        else:
            self._turn_away(pending, Code.RECV_BUF_BUSY, "the inbox is full")

    def accept(self, now: float, came_from: LinkId, frame: Frame) -> Refusal | None:
        door = self.door
        refusal = None
        if door.open and door.has_room(frame):
            self._enter(now, came_from, frame, None)
        elif door.knows(frame):
            self._suppress(frame, None)
        elif not door.open:
            refusal = Refusal(Code.RECV_BUF_NIL, "no inbox")
        elif not door.queue(Waiting(came_from, frame, None, float("inf"))):
            refusal = Refusal(Code.RECV_BUF_BUSY, "the inbox is full, and so is the line before it")
        if refusal is not None:
            self._counters.outcomes["inbox"].count(refusal.code)
        return refusal

    def _turn_away(self, pending: Awaited, code: Code, detail: str) -> None:
        self._counters.outcomes["inbox"].count(code)
        self._decisions.settle(pending, code, self._decisions.position, detail)

    def _enter(self, now: float, came_from: LinkId, frame: Frame, pending: Awaited | None) -> None:
        if not self.door.enter(now, came_from, frame):
            self._suppress(frame, pending)
            return
        self._decisions.statistics.delivered += 1
        self._decisions.ready.deliveries.append(frame)
        if pending is not None:
            # A send of this very node ends with this process, so its answer promises nothing.
            if self._confirms and type(pending.reply) is not Send:
                self.unconfirmed[frame.uuid, frame.src] = [pending]
            else:
                self._decisions.settle(pending, Code.OK, self._decisions.position)

    def _suppress(self, frame: Frame, pending: Awaited | None) -> None:
        """Answer a message whose first copy is in the inbox, or was."""
        self._decisions.statistics.duplicates += 1
        if pending is None:
            return
        first = self.unconfirmed.get((frame.uuid, frame.src))
        if first is None:
            self._decisions.settle(pending, Code.OK, self._decisions.position)
        else:
            first.append(pending)

    def confirm(self, messages: Iterable[tuple[str, Position]]) -> None:
        """The application has made sure of these messages: their senders are answered 0."""
        for message in messages:
            for pending in self.unconfirmed.pop(message, ()):
                self._decisions.settle(pending, Code.OK, self._decisions.position)

    def refuse(self, message: tuple[str, Position], detail: str) -> None:
        """The application refuses this message: its senders are answered 4999, and a resend would get the same."""
        for pending in self.unconfirmed.pop(message, ()):
            self._turn_away(pending, Code.CLIENT_ERR, detail)

    def close(self) -> None:
        """The node closes: nobody confirms what is in the inbox."""
        self.shut()
        self._give_up_unconfirmed("the node was closed before it confirmed the message")

    def reset(self) -> None:
        """Drop what is in the inbox and what is not confirmed. A resend is a new message."""
        for each in self.door.reset():
            if each.pending is not None:
                self._turn_away(each.pending, Code.RECV_BUF_NIL, "the inbox was emptied")
            else:
                self._decisions.lose(each.frame, Code.RECV_BUF_NIL, self._decisions.position, "the inbox was emptied")
        self._give_up_unconfirmed("the inbox was emptied before the message was confirmed")

    def shut(self) -> None:
        self.door.open = False
        for waiting in self.door.take_line():
            if self.door.knows(waiting.frame):  # the first copy went in while this one stood in line
                self._suppress(waiting.frame, waiting.pending)
            elif waiting.pending is not None:
                self._turn_away(waiting.pending, Code.RECV_BUF_NIL, "the inbox was closed")
            else:
                self._decisions.lose(waiting.frame, Code.RECV_BUF_NIL, self._decisions.position, "the inbox was closed")

    def _give_up_unconfirmed(self, why: str) -> None:
        for waiting in self.unconfirmed.values():
            for pending in waiting:
                self._turn_away(pending, Code.NETWORK_ACK_LOST, why)
        self.unconfirmed.clear()

    def taken(self, now: float, count: int) -> None:
        """The application took messages out of the inbox: those in line enter."""
        door = self.door
        door.held -= count
        for _ in range(count):
            door.held_bytes -= door.sizes.popleft()
        if door.line:
            for waiting in door.admit():
                self._enter(now, waiting.came_from, waiting.frame, waiting.pending)

    def give_up(self, now: float) -> None:
        """Refuse what has waited in line too long."""
        for waiting in self.door.take_due(now):
            assert waiting.pending is not None
            if self.door.knows(waiting.frame):
                self._suppress(waiting.frame, waiting.pending)
            else:
                self._turn_away(waiting.pending, Code.RECV_BUF_BUSY, "the inbox is full")
