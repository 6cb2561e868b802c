"""An answer that costs a look at many things, shared by all who ask at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

LOAD: Final = 0.05
"""Share of a node's time that looking may take: where many nodes have changed, the next look is that much later."""


class SharedAnswer:
    """The answer to one question, by a look that began after it.

    Looks take `LOAD` of the node's time at most, however many ask.

    Args:
        now: the node's clock.
        look: makes the answer.
    """

    def __init__(self, now: Callable[[], float], look: Callable[[], Awaitable[bytes]]) -> None:
        self._now = now
        self._look = look
        self._lock = asyncio.Lock()
        self._data = b""
        # The beginning of the last look, and of the next one at the earliest.
        self._began = self._after = float("-inf")

    async def get(self) -> bytes:
        """The answer for one caller."""
        asked = self._now()
        async with self._lock:
            if self._began < asked:
                await asyncio.sleep(self._after - self._now())
                began = self._now()
                self._data = await self._look()
                self._began, ended = began, self._now()
                self._after = ended + (ended - began) / LOAD
            return self._data
