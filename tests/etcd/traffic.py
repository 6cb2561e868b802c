"""Messages between two nodes below one Proxy, beside whatever happens to the Manager."""

from __future__ import annotations

import asyncio
from collections import Counter

from taskd_net import Code, Node
from tests.polling import PATIENCE_S


class Traffic:
    """Messages from one node to another, one after another, while the context lasts.

    Attributes:
        codes: of their answers.
    """

    def __init__(self, sender: Node, receiver: Node) -> None:
        self._sender, self._receiver = sender, receiver
        self.codes: Counter[int] = Counter()

    async def __aenter__(self) -> Traffic:
        self._tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._receive())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    @property
    def sent(self) -> int:
        """Messages that have an answer."""
        return self.codes.total()

    @property
    def failed(self) -> int:
        """Messages whose answer is not 0."""
        return self.sent - self.codes[Code.OK]

    async def _send(self) -> None:
        while True:
            ack = await self._sender.send("x", to=str(self._receiver.position), timeout=PATIENCE_S)
            self.codes[ack.code] += 1
            await asyncio.sleep(0.01)

    async def _receive(self) -> None:
        while True:
            await self._receiver.receive()
