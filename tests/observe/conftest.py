"""The mesh that a test builds its nodes in."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh
