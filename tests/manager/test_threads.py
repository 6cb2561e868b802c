"""Threads for calls that may hang."""

from __future__ import annotations

import asyncio
import threading

import pytest

from taskd_net.job.manager.threads import OwnThread
from tests.manager.cluster import SOON


async def test_call_that_is_cancelled_as_it_ends_is_cancelled() -> None:
    """A loop of calls would go on for ever otherwise, and whoever waits for its end with it."""
    thread = OwnThread("test")
    task = asyncio.create_task(thread.call(lambda: 1, SOON))
    await asyncio.sleep(0)
    while thread.busy:  # noqa: ASYNC110 - the turn of the loop in which the call has ended
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    thread.stop()


async def test_error_of_the_last_call_is_raised_and_the_thread_ends() -> None:
    thread = OwnThread("test")
    running = await thread.call(threading.current_thread, SOON)

    def last() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await thread.end(last, SOON)
    await asyncio.to_thread(running.join, SOON)
    assert not running.is_alive()


async def test_call_that_takes_too_long_keeps_its_thread_busy() -> None:
    thread, go_on = OwnThread("test"), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(SOON)

    with pytest.raises(TimeoutError):
        await thread.call(work, 0.01)
    assert thread.busy
    go_on.set()
    assert await thread.call(lambda: 2, SOON) == 2
    thread.stop()
