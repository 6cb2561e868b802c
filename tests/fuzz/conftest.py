"""The mesh that garbage is thrown at."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh() as mesh:
        yield mesh
