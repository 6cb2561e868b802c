"""Answers that a coroutine awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from taskd_net import Ack, Code, Position
from taskd_net.net.links.answers import awaited

ACK = Ack("u", Code.OK, Position.mgr())


class Host:
    """A node that keeps its requests."""

    def __init__(self) -> None:
        self.replies: list[Callable[[Ack], None]] = []

    def request(self, reply: Callable[[Ack], None]) -> int:
        self.replies.append(reply)
        return len(self.replies)


async def test_answer_goes_to_the_future_of_its_request() -> None:
    host: Any = Host()
    (first, one), (second, other) = awaited(host), awaited(host)
    assert (first, second) == (1, 2)
    host.replies[1](ACK)
    assert await other is ACK and not one.done()


async def test_answer_that_comes_after_its_caller_has_gone_is_dropped() -> None:
    host: Any = Host()
    _, answer = awaited(host)
    waiting = asyncio.ensure_future(answer)
    waiting.cancel()
    host.replies[0](ACK)
    assert answer.cancelled()
