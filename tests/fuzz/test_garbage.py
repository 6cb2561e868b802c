"""Bytes of any kind on the port of a node: it serves its children, and logs no fault of its own."""

import os

import pytest

from tests.fuzz.garbage import Siege
from tests.peers.mesh import Mesh
from tests.security.bystander.pair import Bystanders

pytestmark = pytest.mark.timeout(120)


async def test_garbage_on_the_port(mesh: Mesh) -> None:
    mgr = await mesh.mgr(grace=0.5, registration_hold=0.5, ack_timeout=30.0)
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    async with await Bystanders.beside(mesh, mgr) as bystanders:
        siege = Siege(mesh, bystanders, seed)
        await siege.lay(300)
