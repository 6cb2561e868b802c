"""CPU time of the turns of an event loop: the longest is the longest time for which a node serves nobody else."""

from __future__ import annotations

import selectors
import time


class TurnMeter(selectors.DefaultSelector):
    """A selector for asyncio's own loop, which asks it once a turn. uvloop has no such place.

    It counts processor time of the loop's thread, with garbage collections and gRPC's part. A wall clock would count
    other processes too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._began = time.thread_time()
        self._longest = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """End a turn, wait, and begin the next one."""
        self._longest = max(self._longest, time.thread_time() - self._began)
        ready = super().select(timeout)
        self._began = time.thread_time()
        return ready

    def take_longest(self) -> float:
        """Seconds of the longest turn since the last call, without the turn under way."""
        longest, self._longest = self._longest, 0.0
        return longest
