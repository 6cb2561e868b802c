"""The duplicate window of a receiver (contract, section 5)."""

from __future__ import annotations

from taskd_net.position import Position


class Seen:
    """Remembers the last `window` messages that went into an inbox.

    A message is known by its uuid and its sender, not by the uuid alone: peers may number their messages 1, 2, 3, and
    then two senders' uuids meet.
    """

    __slots__ = ("_known", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._known: dict[tuple[str, Position], None] = {}

    def __contains__(self, message: tuple[str, Position]) -> bool:
        return message in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, message: tuple[str, Position]) -> None:
        """Remember one message, and forget the oldest beyond the window."""
        known = self._known
        known[message] = None
        if len(known) > self._window:
            del known[next(iter(known))]
