"""Nodes of the original and a Mgr that stands by: they try their one address again and again (docs/interop.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import grpc
import pytest

from taskd_net import Code, Position
from taskd_net.base.address import Address
from tests.faults.relay import Relay
from tests.peers.mesh import Mesh, WatchedNode, address_of, soon
from tests.peers.original.cluster import Originals, stands
from tests.peers.original.node import OriginalNode
from tests.peers.original.upstream import RETRY_S, Upstream
from tests.polling import asked_until, until
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)

TEXT = "standby of 10.0.0.1:9601"
LEAVES = ("Worker/0/0", "Agent/0")


def way(node: OriginalNode) -> Upstream:
    """The way of a node to its parent."""
    assert node.up is not None
    return node.up


async def everything_passes(mgr: WatchedNode, nodes: list[OriginalNode]) -> None:
    """Messages pass both ways between a Mgr of ours and theirs. A leaf of their Proxy is known when it sends."""
    for node in nodes:

        async def sent(node: OriginalNode = node) -> bool:
            return (await node.send("Mgr/0", node.position)).ok

        assert await asked_until(sent, 10.0)
        assert (await mgr.take()).body == node.position
        ack = await soon(mgr.send("down", to=node.position, timeout=5))
        assert (ack.code, str(ack.src)) == (0, node.position)
        assert (await node.take()).body == "down"


async def test_refused_by_a_standby_they_try_again_every_second(mesh: Mesh, theirs: Originals) -> None:
    """Also those that are there when a leader becomes a standby: their streams end, and the pause keeps them calm."""
    mgr = await mesh.mgr(standby=True)
    mgr.stand_by(TEXT)
    proxy = await theirs.start("Proxy/0", mgr, join=False)
    direct = [await theirs.start(each, mgr, join=False) for each in LEAVES]
    below = await theirs.start("Worker/1/1", proxy, join=False)
    for term in range(2):
        before = {node: len(way(node).refused) for node in (proxy, *direct)}
        began = time.monotonic()
        await until(lambda before=before: all(len(way(node).refused) > had + 1 for node, had in before.items()))  # type: ignore[misc]
        most = (time.monotonic() - began) / RETRY_S + 2
        for node, had in before.items():
            assert set(way(node).refused) == {(grpc.StatusCode.UNAVAILABLE, TEXT)}, node.position
            assert len(way(node).refused) - had <= most, "a pause after each refusal"
        assert not mgr.driver.links
        mgr.stand_by("")
        for node in (proxy, *direct):
            await node.joined()
            await stands(mgr, node.position)
        assert way(proxy).joins == term + 1
        await everything_passes(mgr, [proxy, *direct, below])
        mgr.stand_by(TEXT)


@pytest.fixture
async def address(mesh: Mesh) -> AsyncIterator[tuple[Relay, WatchedNode, WatchedNode, str]]:
    """A virtual address before two Mgrs, of which the first one leads: it leads to one host at a time."""
    port = Address.parse(free_address()).port
    first, second = await mesh.mgr(f"127.0.0.1:{port}"), await mesh.mgr(f"127.0.0.3:{port}", standby=True)
    relay = Relay("127.0.0.1", "127.0.0.2", [port])
    await relay.start()
    try:
        yield relay, first, second, f"127.0.0.2:{port}"
    finally:
        await relay.close()


async def test_virtual_address_leads_them_to_the_mgr_that_leads(
    mesh: Mesh, theirs: Originals, address: tuple[Relay, WatchedNode, WatchedNode, str]
) -> None:
    """It may move before the leader has changed, and after it."""
    relay, first, second, virtual = address
    leaf, proxy = await theirs.start(LEAVES[0], virtual), await theirs.start("Proxy/1", virtual)
    below = await theirs.start("Worker/1/1", proxy)
    await everything_passes(first, [leaf, proxy, below])
    second.stand_by(TEXT)
    relay.lead_to("127.0.0.3")
    await until(lambda: way(leaf).refused[-1:] == [(grpc.StatusCode.UNAVAILABLE, TEXT)])
    first.stand_by(TEXT)
    second.stand_by("")
    await everything_passes(second, [leaf, proxy, below])
    second.stand_by("standby of 10.0.0.2:9601")
    first.stand_by("")
    await until(lambda: way(leaf).refused[-1][1] == "standby of 10.0.0.2:9601")
    relay.lead_to("127.0.0.1")
    await everything_passes(first, [leaf, proxy, below])


async def test_proxy_of_ours_with_both_addresses_keeps_them_through_a_fail_over(mesh: Mesh, theirs: Originals) -> None:
    """They notice a code between two leaders at most. The next one knows all of them without a message of theirs."""
    first, second = await mesh.mgr(), await mesh.mgr(standby=True)
    second.stand_by(TEXT)
    ours = await mesh.proxy(100, f"{address_of(second)},{address_of(first)}")
    proxy = await theirs.start("Proxy/0", ours)
    nodes = [proxy, *[await theirs.start(each, ours) for each in LEAVES], await theirs.start("Worker/0/1", proxy)]
    await everything_passes(first, nodes)
    for stood, leads in ((first, second), (second, first)):
        stood.stand_by(TEXT)
        await until(lambda: not ours.is_joined)
        for node in nodes[1:]:
            answer = await node.send("Mgr/0", "between two leaders")
            assert (answer.status, answer.text) == (grpc.StatusCode.UNKNOWN, "stream not inited"), node.position
        assert (await nodes[1].send(LEAVES[1], "beside it")).ok and (await nodes[2].take()).body == "beside it"
        leads.stand_by("")
        await until(lambda leads=leads: ours.is_joined and ours.upstream == address_of(leads))  # type: ignore[misc]
        known = asyncio.gather(*(leads.send("down", to=node.position, timeout=5) for node in nodes))
        assert [ack.code for ack in await soon(known)] == [Code.OK] * len(nodes)
        assert [(await node.take()).body for node in nodes] == ["down"] * len(nodes)
        await everything_passes(leads, nodes)
    assert {way(node).joins for node in nodes} == {1} and not any(way(node).refused for node in nodes)
    assert ours.position == Position.proxy(100)
