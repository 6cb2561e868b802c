"""The mesh that each scenario builds its nodes in."""

from collections.abc import AsyncIterator

import pytest

from tests.peers.mesh import Mesh
from tests.peers.original.cluster import Originals


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each scenario over direct and batched links, and over the kind of the tests, unless it chooses itself.

    Scenarios with nodes of the original's have batched links in `make matrix`, and none of the tests' kind.
    """
    chosen = any("mesh" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "mesh" not in metafunc.fixturenames or chosen:
        return
    if "theirs" in metafunc.fixturenames:
        kinds = ["direct", pytest.param("batched", marks=pytest.mark.matrix)]
    else:
        kinds = ["direct", pytest.param("batched", marks=pytest.mark.newest), "memory"]
    metafunc.parametrize("mesh", kinds, indirect=True)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail on any unexpected error."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


@pytest.fixture
async def theirs(mesh: Mesh) -> AsyncIterator[Originals]:
    """Nodes of the original's; fail if one of them has died."""
    # They are gRPC servers of this process too. Some are killed in the middle of a call, and gRPC then logs an error
    # now and then. Faults of ours show in their own log, in the arrivals, and in the death of a stand-in.
    mesh.heard.discard("grpc")
    async with Originals() as originals:
        yield originals
