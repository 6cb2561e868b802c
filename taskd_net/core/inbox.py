"""The last step of a message: into the node's own inbox, or back with the reason (docs/contract.md, section 5).

A sync message waits up to 10 ms for room, then is refused with 5001. A `sync=false` message has no sender to go back to
and waits until there is room, in a line with the bounds of a link. Both wait in one line, so that messages of one
sender never overtake each other.

Large messages fill an inbox by their bytes. Small ones of other senders pass a line that waits for bytes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import Awaited, ReplyTo, Send
from taskd_net.core.decisions import Decisions
from taskd_net.core.frame import Frame
from taskd_net.core.routes import LinkId
from taskd_net.core.seen import SeenMessages

INBOX_BYTES: Final = 4 * limits.MESSAGE_BYTES
"""Bytes of the messages in an inbox: 32 MiB. By number alone a Mgr's inbox would hold 8 GiB. Messages up to 32 KiB fill
every inbox by their number first."""

INBOX_SMALL_BYTES: Final = 4096
"""Bytes up to which a message is bounded by the number of messages in an inbox alone, 4 MiB at a Mgr. So a sender of
the largest bodies does not keep those of others out."""


class Delivery:
    """Lets messages into the inbox of one node.

    Duplicates are known before the gate is looked at: the resend of a message that is in the inbox is answered 0 also
    by a node that drains or whose inbox is full.

    Args:
        gate: the inbox, as far as its room and its memory are concerned.
        decisions: where they go.
        wait: seconds that a sync message waits for room.
        confirms: the application confirms each message, and its sender is answered 0 only then.

    Attributes:
        unconfirmed: the answers that wait for that, by uuid and sender of the message.
    """

    def __init__(self, gate: InboxGate, decisions: Decisions, wait: float, confirms: bool = False) -> None:
        self.gate = gate
        self._decisions = decisions
        self._counters = decisions.counters
        self._wait = wait
        self._confirms = confirms
        self.unconfirmed: dict[tuple[str, Position], list[Awaited]] = {}

    def deliver_all(self, now: float, came_from: LinkId, frames: Sequence[Frame], sizes: Sequence[int]) -> bool:
        """Let several new messages of one sender in at once. Returns False, and does nothing, where one is unusual."""
        if self._confirms:
            return False
        if not self.gate.enter_all(now, came_from, [frame.uuid for frame in frames], frames[0].src, sizes):
            return False
        self._decisions.statistics.delivered += len(frames)
        self._decisions.ready.deliveries += frames
        return True

    def deliver(self, now: float, came_from: LinkId, frame: Frame, pending: Awaited) -> None:
        """Let a message in whose answer is awaited, put it in line, or answer why not."""
        gate = self.gate
        if gate.open and gate.has_room(frame):
            self._enter(now, came_from, frame, pending)
        elif gate.knows(frame):
            self._suppress(frame, pending)
        elif not gate.open:
            self._turn_away(pending, Code.RECV_BUF_NIL, "no inbox")
        elif not frame.sync:
            # An own `sync=false` message to the own inbox: this node is its first hop, and has it once it is in line.
            refusal = self.accept(now, came_from, frame)
            code = Code.OK if refusal is None else refusal.code
            self._decisions.settle(pending, code, self._decisions.position, refusal.detail if refusal else "")
        elif gate.queue(WaitingMessage(came_from, frame, pending, deadline := min(now + self._wait, pending.deadline))):
            self._decisions.schedule.look(gate, deadline)
        else:
            self._turn_away(pending, Code.RECV_BUF_BUSY, "the inbox is full")

    def accept(self, now: float, came_from: LinkId, frame: Frame) -> Refusal | None:
        """Let a `sync=false` message in, or put it in line. Returns the refusal if there is no room for it."""
        gate = self.gate
        refusal = None
        if gate.open and gate.has_room(frame):
            self._enter(now, came_from, frame, None)
        elif gate.knows(frame):
            self._suppress(frame, None)
        elif not gate.open:
            refusal = Refusal(Code.RECV_BUF_NIL, "no inbox")
        elif not gate.queue(WaitingMessage(came_from, frame, None, float("inf"))):
            refusal = Refusal(Code.RECV_BUF_BUSY, "the inbox is full, and so is the line before it")
        if refusal is not None:
            self._counters.outcomes["inbox"].count(refusal.code)
        return refusal

    def _turn_away(self, pending: Awaited, code: Code, detail: str) -> None:
        self._counters.outcomes["inbox"].count(code)
        self._decisions.settle(pending, code, self._decisions.position, detail)

    def _enter(self, now: float, came_from: LinkId, frame: Frame, pending: Awaited | None) -> None:
        if not self.gate.enter(now, came_from, frame):
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
        for each in self.gate.reset():
            if each.pending is not None:
                self._turn_away(each.pending, Code.RECV_BUF_NIL, "the inbox was emptied")
            else:
                self._decisions.lose(each.frame, Code.RECV_BUF_NIL, self._decisions.position, "the inbox was emptied")
        self._give_up_unconfirmed("the inbox was emptied before the message was confirmed")

    def shut(self) -> None:
        """The application takes no more messages: those in line are answered, and further ones refused."""
        for waiting in self.gate.shut():
            if self.gate.knows(waiting.frame):  # the first copy went in while this one stood in line
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

    def admit(self, now: float) -> None:
        """Let in the messages in line for which there is room now."""
        for waiting in self.gate.admit():
            self._enter(now, waiting.came_from, waiting.frame, waiting.pending)

    def give_up(self, now: float) -> None:
        """Refuse what has waited in line too long."""
        for waiting in self.gate.take_due(now):
            assert waiting.pending is not None
            if self.gate.knows(waiting.frame):
                self._suppress(waiting.frame, waiting.pending)
            else:
                self._turn_away(waiting.pending, Code.RECV_BUF_BUSY, "the inbox is full")


@dataclass(slots=True, eq=False)
class WaitingMessage:
    """A message in the line. The answer to a sync one is awaited (`pending`), until its deadline."""

    came_from: LinkId
    frame: Frame
    pending: Awaited | None
    deadline: float


class InboxGate:
    """Counts what is in the inbox and keeps the line before it. The messages themselves are the node's.

    Args:
        room, room_bytes: messages that fit in, and their bytes; `room` is 0 for a node that has no inbox.
        window: as in `SeenMessages`.
        line_messages, line_bytes: bounds of the line.
        small: bytes of a message for which only the number counts.

    Attributes:
        held, held_bytes: messages in the inbox, and their bytes.
        sizes: the bytes of each, oldest first.
    """

    def __init__(
        self,
        room: int,
        window: int,
        line_messages: int,
        line_bytes: int,
        room_bytes: int = INBOX_BYTES,
        small: int = INBOX_SMALL_BYTES,
    ) -> None:
        self.room = room
        self.room_bytes = room_bytes
        self.held = self.held_bytes = 0
        self.sizes: deque[int] = deque()
        self.open = room > 0
        # True while messages that arrived before the drain may still go into the inbox.
        self._reopens = False
        self._draining = False
        self.seen = SeenMessages(window)
        self._window = window
        self.line: deque[WaitingMessage] = deque()
        self._small = small
        # Senders with messages in line, and their number.
        self._senders: Counter[Position] = Counter()
        self._line_bytes = 0
        self._line_limit = line_messages
        self._line_limit_bytes = line_bytes

    def reset(self) -> list[WaitingMessage]:
        """Begin as a new process would: open, empty, and with every message new. Returns the line, emptied."""
        self.held = self.held_bytes = 0
        self.sizes.clear()
        self.seen = SeenMessages(self._window)
        self.open = self.room > 0 and not self._draining
        return self._take_line()

    def drain(self) -> None:
        """Take no new message from now on."""
        self._draining, self._reopens, self.open = True, self.open, False

    def resume(self) -> None:
        """Take new messages as before `drain`."""
        self._draining, self.open = False, self._reopens

    def shut(self) -> list[WaitingMessage]:
        """Close for good, and empty the line. Returns it."""
        self.open = self._reopens = False
        return self._take_line()

    def knows(self, frame: Frame) -> bool:
        """True when this message has been delivered before."""
        return self.seen.knows(frame.uuid, frame.src)

    def has_room(self, frame: Frame) -> bool:
        """True when a message may go in at once: there is room, and nobody that it must not pass stands in line."""
        if self.held >= self.room:
            return False
        size = len(frame.data)
        if self.line and (size > self._small or frame.src in self._senders):
            return False
        return self._fits(size)

    def enter(self, now: float, came_from: LinkId, frame: Frame) -> bool:
        """Count a message as delivered. Returns False, and counts nothing, when it has been delivered before."""
        new = self.seen.add(now, came_from, frame.uuid, frame.src)
        if new:
            size = len(frame.data)
            self.held += 1
            self.held_bytes += size
            self.sizes.append(size)
        return new

    def enter_all(
        self, now: float, came_from: LinkId, uuids: Sequence[str], src: Position, sizes: Sequence[int]
    ) -> bool:
        """Count several messages of one sender as delivered, if there is room for all and each is new.

        Returns False, and counts nothing, where each has to be looked at by itself.
        """
        count, size = len(uuids), sum(sizes)
        if not self.open or self.line or self.held + count > self.room or self.held_bytes + size > self.room_bytes:
            return False
        if not self.seen.add_all(now, came_from, uuids, src):
            return False
        self.held += count
        self.held_bytes += size
        self.sizes += sizes
        return True

    def taken(self, count: int) -> None:
        """Count the oldest messages as taken out by the application."""
        self.held -= count
        for _ in range(count):
            self.held_bytes -= self.sizes.popleft()

    def queue(self, waiting: WaitingMessage) -> bool:
        """Put a message at the end of the line. Returns False when the line is at its bound."""
        size = len(waiting.frame.data)
        if len(self.line) >= self._line_limit or self._line_bytes + size > self._line_limit_bytes:
            return False
        self.line.append(waiting)
        self._senders[waiting.frame.src] += 1
        self._line_bytes += size
        return True

    def admit(self) -> Iterator[WaitingMessage]:
        """Take from the line what may go in now; the caller delivers each, or answers it if it is a duplicate."""
        while self.line and self.held < self.room:
            if not self._fits(len(self.line[0].frame.data)):
                return
            waiting = self.line.popleft()
            self._count_out(waiting)
            yield waiting

    def take_due(self, now: float) -> list[WaitingMessage]:
        """Take out the sync messages whose patience is over."""
        if self.next_deadline() > now:
            return []
        due = [waiting for waiting in self.line if waiting.deadline <= now]
        self.line = deque(waiting for waiting in self.line if waiting.deadline > now)
        for waiting in due:
            self._count_out(waiting)
        return due

    def withdraw(self, reply: ReplyTo) -> None:
        """Take the message out of the line whose answer goes there."""
        for waiting in self.line:
            if waiting.pending is not None and waiting.pending.reply is reply:
                self.line.remove(waiting)
                self._count_out(waiting)
                return

    def next_deadline(self) -> float:
        """The time at which the first sync message in line is refused, or infinity."""
        return min((waiting.deadline for waiting in self.line if waiting.pending is not None), default=float("inf"))

    def _take_line(self) -> list[WaitingMessage]:
        left, self.line, self._line_bytes = list(self.line), deque(), 0
        self._senders.clear()
        return left

    def _fits(self, size: int) -> bool:
        return size <= self._small or self.held_bytes + size <= self.room_bytes

    def _count_out(self, waiting: WaitingMessage) -> None:
        src = waiting.frame.src
        self._line_bytes -= len(waiting.frame.data)
        self._senders[src] -= 1
        if not self._senders[src]:
            del self._senders[src]
