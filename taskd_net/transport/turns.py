"""Turns of the event loop for work that comes in slices, so that messages pass between two of them."""

from __future__ import annotations

import asyncio
from collections import deque

from taskd_net import limits


class Turns:
    """The slices of all who have long work, a bounded amount in each turn of the loop, in the order of their asking.

    Args:
        most: the amount in one turn. A larger slice takes a turn alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._line: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, amount: int) -> None:
        """Wait for a turn, if others have filled this one."""
        if not self._line and self._fits(amount):
            self._count(amount)
            return
        turn = asyncio.get_running_loop().create_future()
        self._line.append((turn, amount))
        await turn

    def _fits(self, amount: int) -> bool:
        return not self._taken or self._taken + amount <= self._most

    def _count(self, amount: int) -> None:
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._next, limits.SLICE_TURNS)
        self._taken += amount

    def _next(self, turns: int) -> None:
        """Begin the next slices after so many turns."""
        if self._line and turns:
            asyncio.get_running_loop().call_soon(self._next, turns - 1)
            return
        self._taken = 0
        while self._line and self._fits(self._line[0][1]):
            turn, amount = self._line.popleft()
            if not turn.done():  # else the caller has gone
                self._count(amount)
                turn.set_result(None)
