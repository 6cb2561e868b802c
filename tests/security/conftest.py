"""The mesh and the certificates of each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail on any unexpected error."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


@pytest.fixture
def certificates(tmp_path: Path) -> Folder:
    """Files that all nodes of a test share."""
    return Folder(tmp_path / "certs")
