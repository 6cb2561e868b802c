"""Nodes that are not part of an attack, and must not notice it."""

from __future__ import annotations

from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode

PATIENCE_S = 30.0
"""Seconds for a step: an attack may use all of a busy machine."""


class Bystanders:
    """A parent with a Worker of ours and a Worker that knows the four calls alone.

    Attributes:
        parent: the attacked node.
        ours, raw: its children, which keep their streams.
    """

    def __init__(self, parent: WatchedNode, ours: WatchedNode) -> None:
        self.parent = parent
        self.ours = ours
        self.raw = RawChild("Worker/90/901")

    @classmethod
    async def beside(cls, mesh: Mesh, parent: WatchedNode) -> Bystanders:
        """Start and join the bystanders."""
        made = cls(parent, await mesh.worker(90, 900, parent))
        await made.raw.join(parent.address or "")
        return made

    async def undisturbed(self) -> None:
        """Check that all reach each other, over their first streams."""
        parent, ours = self.parent, self.ours
        assert (await ours.send("to the parent", to=parent.position, timeout=PATIENCE_S)).ok
        message = self.raw.message(str(parent.position), "to the parent")
        assert (await self.raw.transfer(message, PATIENCE_S)).code == 0
        for child in (ours.position, self.raw.position):
            assert (await parent.send("to a child", to=child, timeout=PATIENCE_S)).ok
        assert (await ours.send("to the other", to=self.raw.position, timeout=PATIENCE_S)).ok
        assert await ours.take_all(1) == ["to a child"]
        assert [(await self.raw.take()).body for _ in range(2)] == ["to a child", "to the other"]
        taken = [message for message in await parent.take_until(2, "to the parent") if message.src.server_rank == "90"]
        assert [message.body for message in taken] == ["to the parent"] * 2
        assert not self.raw._stream.done()
        async with RawChild("Worker/90/902") as late:
            await late.join(parent.address or "")

    async def __aenter__(self) -> Bystanders:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.raw.cut()
