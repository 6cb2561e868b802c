"""Unary calls of gRPC, as a parent serves them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from taskd_net import limits
from taskd_net.links.grpc_calls import Methods
from tests.peers.mesh import soon


async def test_node_rests_after_so_many_looks_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRAIN_LOOKS", 1)
    monkeypatch.setattr(limits, "DRAIN_LOOK_S", 0.05)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await soon(Methods({}).rest(1000.0))
    assert loop.time() - began >= 0.05  # that one look later, and not at once


async def test_node_rests_in_the_end_though_calls_never_cease(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Methods({})
    async with coming(calls, 0.0) as so_far:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await soon(calls.rest(0.3))
        assert loop.time() - began >= 0.3  # calls came until then, so there was no reason to end before
        monkeypatch.setattr(limits, "DRAIN_CATCH_UP_S", 0.0)
        before = so_far()
        await soon(calls.rest(1000.0))
        assert so_far() - before >= limits.DRAIN_CATCH_UP_CALLS


async def test_calls_now_and_then_are_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRAIN_CATCH_UP_S", 0.0)
    monkeypatch.setattr(limits, "DRAIN_CATCH_UP_LOOKS", 5)
    monkeypatch.setattr(limits, "DRAIN_LOOKS", 1000)
    calls = Methods({})
    async with coming(calls, 0.05) as so_far:
        await soon(calls.rest(1000.0))
        assert so_far() < limits.DRAIN_CATCH_UP_CALLS


async def test_node_that_stands_still_takes_in_a_backlog_nevertheless() -> None:
    """On a busy machine seconds pass between a few calls."""
    calls = Methods({})
    many = 24

    def come(left: int) -> None:
        time.sleep(1.5 * limits.DRAIN_CATCH_UP_S / many)  # the loop itself stands still
        arrive(calls)
        if left > 1:
            asyncio.get_running_loop().call_soon(come, left - 1)

    asyncio.get_running_loop().call_soon(come, many)
    await soon(calls.rest(1000.0))
    assert calls.count == many


def arrive(calls: Methods) -> None:
    """A call that gRPC hands over."""
    assert calls.service(cast("Any", SimpleNamespace(method="/Somebody/Else"))) is None


@contextlib.asynccontextmanager
async def coming(calls: Methods, pause: float) -> AsyncIterator[Callable[[], int]]:
    """Have calls come with a pause between each two. Yields their number so far."""

    async def come() -> None:
        while True:
            arrive(calls)
            await asyncio.sleep(pause)

    task = asyncio.create_task(come())
    yield lambda: calls.count
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
