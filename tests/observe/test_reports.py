"""The state of the mesh as a node tells it to whoever asks: of the moment in which it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from taskd_net import Node, limits
from taskd_net.address import Address
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import Document, by_position, document
from tests.peers.child import RawChild
from tests.peers.mesh import PATIENCE_S, Mesh


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes."""
    async with Mesh() as made:
        yield made


async def told(node: Node) -> dict[str, Document]:
    """What a node answers, by position."""
    async with NodeClient(Address.parse(str(node.address)), PATIENCE_S) as asker:
        return dict(by_position(document(await asker.mesh())))


async def test_figures_are_those_of_now_and_not_of_the_last_look(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for count in range(1, 4):
        assert (await worker.send("x", to="Mgr")).ok
        assert (await told(mgr))["Worker/0/0"]["up"]["messages"] == count


async def test_child_that_says_nothing_of_itself_has_joined_again_as_often_as_its_parent_has_seen(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/7") as foreign:
        await foreign.join(str(mgr.address))
        assert (await told(mgr))["Worker/0/7"]["reconnects"] == 0
        await foreign.cut()
        await mesh.logged("child_lost")
        assert (await told(mgr))["Worker/0/7"]["state"] == "lost"
        await foreign.join(str(mgr.address))
        assert (await told(mgr))["Worker/0/7"]["reconnects"] == 1


@pytest.mark.parametrize("links", ["batched", "tasknet"])
async def test_link_of_a_child_is_shown_as_what_it_is_while_it_stands(mesh: Mesh, links: str) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, links=links)
    assert (await told(mgr))["Worker/0/0"]["link"] == links
    await worker.close(orderly=False)
    await mesh.logged("child_lost")
    assert (await told(mgr))["Worker/0/0"]["link"] is None


async def test_node_goes_on_telling_its_figures_where_nothing_happens(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STATUS_FIGURES_S", 0.1)
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for count in (1, 2, 3):
        assert (await mgr.send("x", to=worker.position)).ok
        async with asyncio.timeout(PATIENCE_S):
            while (await told(mgr))["Worker/0/0"]["delivered"] != count:  # noqa: ASYNC110 - asked, not signalled
                await asyncio.sleep(0.05)
