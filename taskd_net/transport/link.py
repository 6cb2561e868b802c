"""The one writer of a stream.

gRPC allows one write at a time on a stream, and a cancelled write ends the whole call. So everything that goes down a
stream is put into a `StreamQueue`, without waiting, and one task takes it out and writes it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class StreamQueue(Generic[T]):
    """A queue with one reader. Its bound is kept by whoever puts (the Router counts what waits on a link)."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T) -> None:
        """Add an item; after `close` it stays unread and comes back from `drain`."""
        self._items.append(item)
        self._idle.clear()
        self._wake.set()

    async def get(self) -> T | None:
        """The next item; None once the queue is closed, also when items are left."""
        while not self.closed:
            if self._items:
                return self._items.popleft()
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()
        return None

    async def idle(self) -> None:
        """Wait until everything that was put has been written, or the queue is closed."""
        await self._idle.wait()

    def close(self) -> None:
        """Let `get` return None from now on."""
        self.closed = True
        self._idle.set()
        self._wake.set()

    def drain(self) -> list[T]:
        """Take out everything that was never read."""
        left = list(self._items)
        self._items.clear()
        return left
