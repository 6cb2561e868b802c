"""The mesh that each scenario builds its nodes in."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh
from tests.peers.original.cluster import Originals


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


@pytest.fixture
async def theirs(mesh: Mesh) -> AsyncIterator[Originals]:
    """Nodes of the original's; fail if one of them has died."""
    # They are gRPC servers of this process too, and some are killed in the middle of a call: then gRPC logs an error
    # now and then. What ours do wrong is seen in their own log, in what arrives, and in a stand-in that dies of it.
    mesh.heard.discard("grpc")
    async with Originals() as originals:
        yield originals
