"""Waits for a state that no event tells of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

PATIENCE_S: Final = 10.0
"""Seconds for an immediate effect, on a busy machine."""


async def until(true: Callable[[], object], timeout: float = PATIENCE_S, *, pause: float = 0.002) -> None:
    """Wait until a condition holds.

    Args:
        true: the condition.
        timeout: seconds.
        pause: seconds between two looks; 0 for a look in each turn of the loop.

    Raises:
        TimeoutError: it did not come to hold in time.
    """
    async with asyncio.timeout(timeout):
        while not true():  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(pause)


async def asked_until(true: Callable[[], Awaitable[bool]], timeout: float) -> bool:
    """Ask a process until it says yes. The last question is not cut off.

    Args:
        true: the question.
        timeout: seconds, after which no other question begins.

    Returns:
        The last answer.
    """
    give_up_at = time.monotonic() + timeout
    while not await true():
        if time.monotonic() > give_up_at:
            return False
        await asyncio.sleep(0.05)
    return True
