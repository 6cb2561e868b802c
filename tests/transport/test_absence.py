"""A node that cannot join says so again and again, and no longer than that."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from taskd_net import Node
from tests.peers.mesh import Mesh, soon
from tests.ports import free_address


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes that do not wait for five minutes."""
    async with Mesh() as made:
        made.let(not_joined_log=0.05)
        yield made


def says_so(node: Node) -> bool:
    """True while a line is scheduled."""
    return node.driver.joiner is not None and node.driver.joiner._absence._timer is not None


@pytest.mark.both_loops
async def test_line_comes_again_until_the_node_has_joined_and_when_it_is_lost(mesh: Mesh) -> None:
    address = free_address()
    proxy = await mesh.proxy(0, address, join=False)
    await mesh.until(lambda: mesh.count("not_joined", node=proxy.position) >= 3)
    said = [event for event in mesh.events if event["event"] == "not_joined"]
    assert all(event["upstream"] == address and event["reason"] for event in said)
    seconds = [int(event["seconds"]) for event in said]
    assert seconds == sorted(seconds)
    # The attempts themselves are one line for each reason.
    assert mesh.count("join_failed", node=proxy.position) <= 2
    mgr = await mesh.mgr(listen=address)
    await soon(proxy.joined())
    assert not says_so(proxy)
    before = mesh.count("not_joined", node=proxy.position)
    await mgr.close()
    await mesh.until(lambda: mesh.count("not_joined", node=proxy.position) > before)
    await proxy.close()
    assert not says_so(proxy)


async def test_node_whose_parent_has_no_parent_says_so_too(mesh: Mesh) -> None:
    proxy = await mesh.proxy(0, free_address(), join=False)
    worker = await mesh.worker(0, 0, proxy, join=False)
    await mesh.until(lambda: mesh.count("not_joined", node=worker.position) >= 2)


async def test_mgr_has_nothing_to_say(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert mgr.driver.joiner is None
    assert not says_so(worker)
