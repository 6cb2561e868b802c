"""Unary calls of gRPC, as a parent serves them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from taskd_net.net.links import grpc_calls
from taskd_net.net.links.grpc_calls import Marker, Methods, UnaryCall
from tests.peers.mesh import soon
from tests.polling import until


async def test_node_rests_after_so_many_markers_without_a_call() -> None:
    markers = Markers()
    await soon(Methods({}).rest(1000.0, 3, markers.passes))
    assert markers.count == 3


async def test_node_rests_in_the_end_though_calls_never_cease() -> None:
    calls, markers = Methods({}), Markers()
    async with coming(calls, 0.0):
        loop = asyncio.get_running_loop()
        began = loop.time()
        await soon(calls.rest(0.3, 1, markers.passes))
        assert loop.time() - began >= 0.3  # calls came until then, so there was no reason to end before
        before = calls.count
        await soon(calls.rest(1000.0, 1, markers.passes))
        assert calls.count - before >= grpc_calls.DRAIN_CATCH_UP_CALLS


async def test_calls_of_children_that_talk_are_no_backlog() -> None:
    """A call comes in each look, and gRPC holds none nevertheless."""
    calls, markers = Methods({}), Markers()

    async def passes() -> None:
        await markers.passes()
        asyncio.get_running_loop().call_soon(arrive, calls)

    await soon(calls.rest(1000.0, 20, passes))
    await asyncio.sleep(0)
    assert (markers.count, calls.count) == (20, 20)


async def test_backlog_is_taken_in_however_slowly_it_is_handed_over() -> None:
    """A look may be prompt, and find one call alone, while gRPC holds more."""
    calls, many, passed = Methods({}), 300, 0

    async def passes() -> None:
        nonlocal passed
        await asyncio.sleep(0)
        passed += 1
        if calls.count < many:
            arrive(calls)

    await soon(calls.rest(1000.0, 5, passes))
    assert (calls.count, passed) == (many, many + 5)


async def test_node_that_stands_still_takes_in_a_backlog_nevertheless() -> None:
    """On a busy machine seconds pass between a few calls."""
    calls, many = Methods({}), 24

    async def passes() -> None:
        if calls.count < many:
            time.sleep(1.5 * grpc_calls.DRAIN_CATCH_UP_S / many)  # noqa: ASYNC251 - the loop itself stands still
            arrive(calls)

    await soon(calls.rest(1000.0, 5, passes))
    assert calls.count == many


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_marker_returns_after_the_calls_that_grpc_holds() -> None:
    """Each call takes the loop for longer than gRPC needs for the next one, so gRPC holds calls until the last."""
    answer = asyncio.Event()

    async def take(_: bytes, __: Any) -> bytes:
        time.sleep(0.002)  # noqa: ASYNC251 - a busy loop
        await answer.wait()
        return b""

    calls, marker, many = Methods({"/Test/Take": grpc.unary_unary_rpc_method_handler(take)}), Marker(), 200
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((calls,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await soon(channel.channel_ready())
        call: UnaryCall = channel.unary_unary("/Test/Take")
        sending = [asyncio.ensure_future(call(b"")) for _ in range(many)]
        await until(lambda: calls.count > 0)
        handed = []
        while calls.count < many:
            before = calls.count
            await soon(marker.passes())
            handed.append(calls.count - before)
        # One look may have been before gRPC had read the next calls; a marker that overtook them would show each time.
        assert handed.count(0) <= 2
        answer.set()
        await soon(asyncio.gather(*sending))
    await marker.close()
    await server.stop(None)


class Markers:
    """Markers without gRPC.

    Attributes:
        count: of them.
    """

    def __init__(self) -> None:
        self.count = 0

    async def passes(self) -> None:
        """Take a turn."""
        await asyncio.sleep(0)
        self.count += 1


def arrive(calls: Methods) -> None:
    """A call that gRPC hands over."""
    assert calls.service(cast("Any", SimpleNamespace(method="/Somebody/Else"))) is None


@contextlib.asynccontextmanager
async def coming(calls: Methods, pause: float) -> AsyncIterator[None]:
    """Have calls come with a pause between each two."""

    async def come() -> None:
        while True:
            arrive(calls)
            await asyncio.sleep(pause)

    task = asyncio.create_task(come())
    yield
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
