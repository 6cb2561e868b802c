"""The thread that blocking nodes share."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from taskd_net.node.background import Background

USER = "a node"


def test_thread_lasts_from_the_first_user_to_the_last() -> None:
    background = Background()
    before = threading.active_count()
    loop = background.acquire(USER)
    assert background.acquire("another") is loop and threading.active_count() == before + 1
    background.release("another")
    background.release("another")
    # Its thread may not have come to run it yet, so it is asked, and not looked at.
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
    background.release(USER)
    assert loop.is_closed() and threading.active_count() == before
    again = background.acquire(USER)
    assert again is not loop
    background.release(USER)


def test_thread_knows_itself() -> None:
    background = Background()
    loop = background.acquire(USER)
    assert not background.runs_here()

    async def here() -> bool:
        return background.runs_here()

    assert asyncio.run_coroutine_threadsafe(here(), loop).result(10)
    background.release(USER)
    assert not background.runs_here()


def test_calls_that_wait_are_cancelled_with_the_last_release() -> None:
    background = Background()
    waiting = asyncio.run_coroutine_threadsafe(asyncio.Event().wait(), background.acquire(USER))
    background.release(USER)
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(10)


def test_forked_child_has_no_thread() -> None:
    background = Background()
    background.acquire(USER)
    copy = Background()
    copy.__dict__.update(background.__dict__)
    copy.in_forked_child()
    assert copy._loop is None and copy._thread is None
    background.release(USER)
