"""Turns of the event loop for long work that comes in pieces, so that messages pass between two of them."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE_TURNS: Final = 3
"""Turns of the event loop after such a slice, if more wait: a message is read, decided on and written in as many."""


class Turns:
    """The pieces of all who have long work of one kind: a bounded amount, then a rest, in the order of their asking.

    Args:
        most: the amount before a rest. A larger piece goes alone.
        per_second: the amount for each second of rest. The rest has some turns of the loop at least, if others wait.
        turns: so many.
    """

    def __init__(self, most: int, per_second: float = math.inf, turns: int = SLICE_TURNS) -> None:
        self._most = most
        self._per_second = per_second
        self._turns = turns
        self._taken = 0
        self._line: deque[tuple[int, Callable[[], None]]] = deque()

    def begin(self, amount: int, turn: Callable[[], None]) -> bool:
        """Begin a piece, unless others are before it. Returns False where it has to wait, until `turn` is called."""
        if not self._line and self._fits(amount):
            self._count(amount)
            return True
        self._line.append((amount, turn))
        return False

    async def take(self, amount: int) -> None:
        """Begin a piece, and wait before it where others are."""
        come = asyncio.Event()
        if not self.begin(amount, come.set):
            await come.wait()

    def _fits(self, amount: int) -> bool:
        return not self._taken or self._taken + amount <= self._most

    def _count(self, amount: int) -> None:
        if not self._taken:
            # The rest begins when the pieces are done: in the next turn of the loop.
            asyncio.get_running_loop().call_soon(self._rest, self._turns)
        self._taken += amount

    def _rest(self, turns: int) -> None:
        loop = asyncio.get_running_loop()
        if self._line and turns:
            loop.call_soon(self._rest, turns - 1)
        elif self._per_second < math.inf:
            loop.call_later(self._taken / self._per_second, self._next)
        else:
            self._next()

    def _next(self) -> None:
        self._taken = 0
        while self._line and self._fits(self._line[0][0]):
            amount, turn = self._line.popleft()
            self._count(amount)
            turn()
