"""The test nodes' own promises."""

from __future__ import annotations

import asyncio

import pytest

from tests.peers.mesh import soon


@pytest.mark.parametrize("turns", range(6))
async def test_cancellation_that_comes_as_the_awaited_ends_is_not_lost(turns: int) -> None:
    """A test that cancels a loop of awaits would wait for its end for ever."""
    awaited = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await awaited

    async def messages() -> None:
        await soon(work())
        await asyncio.Event().wait()

    waiting = asyncio.create_task(messages())
    await begun.wait()
    awaited.set_result(None)
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    ended, _ = await asyncio.wait([waiting], timeout=10.0)
    assert ended and waiting.cancelled()
