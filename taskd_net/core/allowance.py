"""Allowances: so much a second, and some of it at once (token buckets)."""

from __future__ import annotations


class Allowance:
    """The allowance of one peer. Time is an argument.

    Args:
        rate: units a second.
        burst: units at once, after a pause.
    """

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = self._left = burst
        self._at = 0.0

    def spend(self, now: float, amount: float = 1.0) -> bool:
        """Spend so much if it is left. Returns whether it was."""
        self._refill(now)
        if self._left < amount:
            return False
        self._left -= amount
        return True

    def borrow(self, now: float, amount: float) -> float:
        """Spend so much in any case. Returns the seconds until what was spent before is paid back."""
        self._refill(now)
        left = self._left
        self._left -= amount
        return max(0.0, -left / self._rate)

    def _refill(self, now: float) -> None:
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
