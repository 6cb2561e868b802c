"""A node's records of the nodes below it, and their expiry."""

from __future__ import annotations

import asyncio

import pytest

from taskd_net import observe_limits
from tests.peers.child import RawChild
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode


def seen(node: WatchedNode) -> set[str]:
    """The positions that a node knows when it looks."""
    node.view.look()
    return {record.position for record in node.view.records()}


async def test_with_a_foreign_proxy_those_are_forgotten_that_were_behind_it(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would ever say that they are gone."""
    monkeypatch.setattr(observe_limits, "STATUS_GONE_S", 0.2)
    mgr = await mesh.mgr(grace=0.1)
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        await foreign.announce("Worker/7/70", "Worker/7/71")
        assert seen(mgr) == {"Mgr/0", "Proxy/7", "Worker/7/70", "Worker/7/71"}
    async with asyncio.timeout(PATIENCE_S):
        while "Proxy/7" in (known := seen(mgr)):  # noqa: ASYNC110 - it is seen by who looks, and not before
            await asyncio.sleep(0.02)
    assert known == {"Mgr/0"}


async def test_what_does_not_change_is_not_written_anew(mesh: Mesh) -> None:
    """Each record that is would be told up to the Mgr, of thousands of children."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as foreign:
        await foreign.join(str(mgr.address))
        mgr.view.look()
        before = mgr.view.ledger.find("Worker/0/0")
        await asyncio.sleep(0.02)  # a record says when it was made, in milliseconds
        mgr.view.look()
        assert mgr.view.ledger.find("Worker/0/0") is before
        assert (await mgr.send("x", to="Worker/0/0")).ok
        mgr.view.look()
        assert mgr.view.ledger.find("Worker/0/0") is not before
