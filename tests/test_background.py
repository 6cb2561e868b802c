"""The thread that blocking nodes share."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from taskd_net.background import Background


def test_thread_lasts_from_the_first_user_to_the_last() -> None:
    background = Background()
    before = threading.active_count()
    loop = background.acquire()
    assert background.acquire() is loop and threading.active_count() == before + 1
    background.release()
    assert loop.is_running()
    background.release()
    assert loop.is_closed() and threading.active_count() == before
    again = background.acquire()
    assert again is not loop
    background.release()


def test_thread_knows_itself() -> None:
    background = Background()
    loop = background.acquire()
    assert not background.runs_here()

    async def here() -> bool:
        return background.runs_here()

    assert asyncio.run_coroutine_threadsafe(here(), loop).result(10)
    background.release()
    assert not background.runs_here()


def test_calls_that_wait_are_cancelled_with_the_last_release() -> None:
    background = Background()
    waiting = asyncio.run_coroutine_threadsafe(asyncio.Event().wait(), background.acquire())
    background.release()
    with pytest.raises(concurrent.futures.CancelledError):
        waiting.result(10)


def test_forked_child_has_no_thread() -> None:
    background = Background()
    background.acquire()
    copy = Background()
    copy.__dict__.update(background.__dict__)
    copy.in_forked_child()
    assert copy._loop is None and copy._thread is None
    background.release()
