"""Messages in the inbox of a node, and the readers that wait for one."""

from __future__ import annotations

import asyncio
from collections import deque

from taskd_net.core.frame import Frame


class Arrivals:
    """Messages that were delivered to this node and not read yet, oldest first. The Router bounds them.

    Attributes:
        frames: the messages.
        readers: one future for each reader that waits.
    """

    def __init__(self) -> None:
        self.frames: deque[Frame] = deque()
        self.readers: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Wait for the next `wake`."""
        reader = asyncio.get_running_loop().create_future()
        self.readers.append(reader)
        try:
            await reader
        finally:
            if reader in self.readers:  # cancelled
                self.readers.remove(reader)

    def wake(self) -> None:
        """Wake every reader. A single one could be cancelled before it runs, and the news would be lost with it."""
        readers, self.readers = self.readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)
