"""The mesh under attack."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail on any unexpected error."""
    async with Mesh() as mesh:
        yield mesh
