"""The mesh that a test builds its nodes in, and batched links over streams that it holds."""

from collections.abc import AsyncIterator

import pytest

from taskd_net import Position
from taskd_net.core.ready import Kind
from tests.links.cable import PROXY, WORKER, Cable
from tests.peers.mesh import Mesh, soon


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


@pytest.fixture
async def cable() -> AsyncIterator[Cable]:
    """A link that stands."""
    cable = Cable()
    yield cable
    cable.pipe.cut()
    await soon(cable.running)


@pytest.fixture
async def trunk() -> AsyncIterator[Cable]:
    """A link to a Proxy, whose ends say how many have a broadcast; two Workers lie behind it."""
    cable = Cable(PROXY, counts=True)
    token = cable.node.request(lambda ack: None)
    cable.node.router.announced(0.0, cable.child.id, Kind.ADD, [WORKER, Position.worker(0, 1)], token, "a")
    yield cable
    cable.pipe.cut()
    await soon(cable.running)
