"""Sends of the application, from the call to the Ack."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


async def test_sending_that_is_cancelled_disturbs_nobody(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for _ in range(20):
        send = asyncio.create_task(worker.send("x", to="Mgr"))
        await asyncio.sleep(0)
        send.cancel()
        await asyncio.wait([send])
    assert (await worker.send("last", to="Mgr")).ok
    bodies = await mgr.take_all(mgr.waiting())
    assert bodies[-1] == "last"
