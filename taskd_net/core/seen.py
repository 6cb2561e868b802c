"""The duplicate window of a receiver (contract, section 5)."""

from __future__ import annotations

from collections import deque

from taskd_net.position import Position


class Seen:
    """Remembers the last `window` messages that went into an inbox.

    A message is known by its uuid and its sender, not by the uuid alone: peers may number their messages 1, 2, 3, and
    then two senders' uuids meet.
    """

    # A queue beside a set, not one dict: finding a dict's oldest key means to walk over all that was deleted before.
    __slots__ = ("_known", "_order", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._known: set[tuple[str, Position]] = set()
        self._order: deque[tuple[str, Position]] = deque()

    def __contains__(self, message: tuple[str, Position]) -> bool:
        return message in self._known

    def __len__(self) -> int:
        return len(self._order)

    def add(self, message: tuple[str, Position]) -> None:
        """Remember a message that is not known yet, and forget the oldest beyond the window."""
        self._known.add(message)
        self._order.append(message)
        if len(self._order) > self._window:
            self._known.discard(self._order.popleft())
