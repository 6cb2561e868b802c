"""The mesh that each scenario builds its nodes in."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh
from tests.peers.original.cluster import Originals


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each scenario over batched and direct links, and over the kind of the tests, unless it chooses itself.

    Scenarios with nodes of the original's, or with nodes in other processes, have batched ones alone.
    """
    chosen = any("mesh" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    alone = "theirs" in metafunc.fixturenames or metafunc.module.__name__.endswith("test_processes")
    if "mesh" in metafunc.fixturenames and not chosen and not alone:
        metafunc.parametrize("mesh", ["batched", "memory", "direct"], indirect=True)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail on any unexpected error."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


@pytest.fixture
async def theirs(mesh: Mesh) -> AsyncIterator[Originals]:
    """Nodes of the original's; fail if one of them has died."""
    # They are gRPC servers of this process too. Some are killed in the middle of a call, and gRPC then logs an error
    # now and then. Faults of ours show in their own log, in the arrivals, and in the death of a stand-in.
    mesh.heard.discard("grpc")
    async with Originals() as originals:
        yield originals
