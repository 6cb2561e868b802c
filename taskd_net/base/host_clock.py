"""The host's clock, but even between two of its steps: times that are compared with each other stay comparable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

CLOCK_STEP_S: Final = 1.0
"""Seconds by which the host's clock may depart from an even one before it counts as a step."""


class HostClock:
    """Seconds since the epoch, by an even clock that is told to follow the host's.

    Args:
        steady: the even clock. Where it stops while the machine is suspended, the host's clock has stepped then.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._epoch = time.time() - steady()

    def now(self) -> float:
        """The time."""
        return self._epoch + self._steady()

    def at(self, steady: float) -> float:
        """The time of a reading of the even clock."""
        return self._epoch + steady

    def follow(self) -> tuple[float, float] | None:
        """Follow the host's clock. Returns the time before and after a step; None without one."""
        then, now = self.now(), time.time()
        if abs(now - then) < CLOCK_STEP_S:
            return None
        self._epoch += now - then
        return then, now
