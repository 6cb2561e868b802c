"""News of the children of a node, for each of those who wait for them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from taskd_net.observe.records import Refused

REFUSED: Final = 256
"""Refused registrations between two looks of the history; older ones are left out."""


class News(asyncio.Event):
    """Set when a node has come or gone. The reports to the parent clear it; further listeners have their own events.

    Attributes:
        listeners: the events of the further listeners.
        refused: the last registrations that were refused, for one listener that takes them out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listeners: set[asyncio.Event] = set()
        self.refused: deque[Refused] = deque(maxlen=REFUSED)

    def set(self) -> None:
        """Tell all listeners."""
        super().set()
        for listener in self.listeners:
            listener.set()
