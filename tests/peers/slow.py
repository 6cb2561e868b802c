"""A receiver that answers on the test's signal."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from tests.peers.child import RawChild
from tests.peers.stubs import pb, position


class SlowChild(RawChild):
    """A foreign child.

    Attributes:
        asked: set when a message has come.
        answers: set it to acknowledge every message.
    """

    def __init__(self, position: str) -> None:
        super().__init__(position)
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()
        self.relay = self._answer_later

    async def __aenter__(self) -> Self:
        return self

    async def _answer_later(self, message: Any) -> Any:
        self.asked.set()
        await self.answers.wait()
        return pb.Ack(uuid=message.header.uuid, src=position(self.position))
