"""Messages of a node's own application that wait for the node to join."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.core.acks import Reply
from taskd_net.core.frame import Frame


@dataclass(slots=True)
class Waiter:
    """One message, where its answer goes, and until when."""

    frame: Frame
    reply: Reply
    deadline: float


class Held:
    """The line of them, with the bounds of a link.

    Args:
        messages, size: bounds of the line; size in bytes.
    """

    __slots__ = ("_bytes", "_line", "_messages", "_size")

    def __init__(self, messages: int, size: int) -> None:
        self._messages = messages
        self._size = size
        self._line: list[Waiter] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._line)

    def add(self, frame: Frame, reply: Reply, deadline: float) -> bool:
        """Let a message wait. Returns False when the line is at its bound."""
        size = len(frame.data)
        if len(self._line) >= self._messages or self._bytes + size > self._size:
            return False
        self._line.append(Waiter(frame, reply, deadline))
        self._bytes += size
        return True

    def take_all(self) -> list[Waiter]:
        """Take out everything."""
        line, self._line, self._bytes = self._line, [], 0
        return line

    def take_due(self, now: float) -> list[Waiter]:
        """Take out what has waited past its deadline."""
        due = [waiter for waiter in self._line if waiter.deadline <= now]
        for waiter in due:
            self._line.remove(waiter)
            self._bytes -= len(waiter.frame.data)
        return due

    def next_deadline(self) -> float:
        """The earliest deadline, or infinity."""
        return min((waiter.deadline for waiter in self._line), default=float("inf"))
