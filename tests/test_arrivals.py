"""Arrivals: readers of one inbox, cancelled and together."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from tests.peers.mesh import Mesh, soon

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


@pytest.mark.compat
@pytest.mark.both_loops
async def test_receiving_that_is_cancelled_loses_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, inbox=4096)
    received: list[str] = []

    async def read_impatiently() -> None:
        for attempt in count():
            if len(received) == 200:
                return
            task = asyncio.create_task(worker.receive())
            for _ in range(attempt % 4):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task])
            received.extend(task.result().body for task in done if not task.cancelled())

    reading = asyncio.create_task(read_impatiently())
    for i in range(200):
        assert (await mgr.send(str(i), to=worker.position)).ok
    await soon(reading)
    assert received == [str(i) for i in range(200)]


async def test_cancelled_receive_leaves_nothing_behind(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    receiving = [asyncio.create_task(mgr.receive()) for _ in range(100)]
    await asyncio.sleep(0)  # each begins
    assert len(mgr._arrivals.readers) == 100
    for task in receiving:
        task.cancel()
    await asyncio.wait(receiving)
    assert mgr._arrivals.readers == []
    assert (await mgr.send("x", to="Mgr")).ok
    assert (await mgr.take()).body == "x"


async def test_two_receivers_share_the_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    both = [asyncio.create_task(worker.receive()) for _ in range(2)]
    await asyncio.sleep(0)
    for body in ("a", "b"):
        assert (await mgr.send(body, to=worker.position)).ok
    assert sorted(message.body for message in await soon(asyncio.gather(*both))) == ["a", "b"]
