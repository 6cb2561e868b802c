"""Parents that say what no parent says: their child bounds it, as it bounds what a child says."""

from __future__ import annotations

import pytest

from taskd_net import Code, Position
from taskd_net.net.links import peer as peers
from taskd_net.net.wire import codec
from tests.peers.links import LinkParent
from tests.peers.mesh import Mesh
from tests.peers.stubs import pb

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("depth", ["999", "1000000", "-1", "x"])
async def test_depth_that_no_tree_has(mesh: Mesh, depth: str) -> None:
    """The nodes below are still waited for."""
    parent = await LinkParent(says={peers.DEPTH_KEY: depth}).start()
    try:
        proxy = await mesh.proxy(0, parent.address)
        one, other = await mesh.worker(0, 0, proxy), await mesh.worker(0, 1, proxy)
        assert (await one.send("x", to=other.position)).ok
        assert await other.take_all(1) == ["x"]
        below = await mesh.proxy(1, proxy)
        assert (await one.send("x", to=below.position)).ok
    finally:
        await parent.stop()


class LongNames(LinkParent):
    """A parent whose answers come from a position of a MiB."""

    async def answer(self, method: str, data: bytes) -> bytes:
        """Refuse messages, accept all else."""
        if method != "TransferMessage":
            return await super().answer(method, data)
        far = pb.Position(role="x" * 1_000_000, serverRank="0", processRank="-1")
        ack: bytes = pb.Ack(uuid=codec.read_uuid(data), code=Code.NO_ROUTE, src=far).SerializeToString()
        return ack


@pytest.mark.parametrize("mesh", ["tasknet"], indirect=True)
async def test_answers_from_a_position_that_no_node_has(mesh: Mesh) -> None:
    parent = await LongNames("tasknet").start()
    try:
        worker = await mesh.worker(0, 0, parent.address)
        ack = await worker.send("x", to="Worker/9/9")
        assert (ack.code, ack.src) == (Code.NO_ROUTE, Position.mgr())
    finally:
        await parent.stop()
