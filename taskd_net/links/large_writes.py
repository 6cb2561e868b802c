"""Turns of the large writes of a node: between two of them the event loop serves everybody else.

A batch is copied when it is made, and gRPC copies it when its write begins. A multicast of 8 MiB to many children would
so hold up the loop for as long as all its copies take. A large write begins when the loop has had the time of the ones
before for others; links take turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from taskd_net.limits import LARGE_WRITES_AHEAD, LARGE_WRITES_PER_S


class LargeWrites:
    """The turns of one node, in one event loop."""

    def __init__(self) -> None:
        self._line: deque[tuple[int, Callable[[], None]]] = deque()
        # Bytes that may begin before a pause.
        self._left = LARGE_WRITES_AHEAD
        self._refilling = False

    def begin(self, size: int, turn: Callable[[], None]) -> bool:
        """Begin a write, unless others are before it.

        Args:
            size: its bytes.
            turn: called when it may begin, where it has to wait.

        Returns:
            Whether it may begin now.
        """
        if self._left > 0:
            self._count(size)
            return True
        self._line.append((size, turn))
        return False

    def _count(self, size: int) -> None:
        self._left -= size
        if not self._refilling:
            self._refilling = True
            # The pause begins when the bytes have been copied: in the next turn of the loop.
            asyncio.get_running_loop().call_soon(self._pause)

    def _pause(self) -> None:
        asyncio.get_running_loop().call_later((LARGE_WRITES_AHEAD - self._left) / LARGE_WRITES_PER_S, self._refill)

    def _refill(self) -> None:
        self._left, self._refilling = LARGE_WRITES_AHEAD, False
        while self._line and self._left > 0:
            size, turn = self._line.popleft()
            self._count(size)
            turn()
