"""A Mgr that stands by: refusals over every call, links that end, and what it still answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from taskd_net import Code, Position
from taskd_net.base.address import Address
from taskd_net.core.links import UP
from taskd_net.net.joining.connecting import Connector
from taskd_net.net.links.batched_kind import STREAM
from taskd_net.net.links.grpc_calls import SERVICE
from taskd_net.net.links.kind import End
from taskd_net.net.retry import Backoff
from taskd_net.net.wire import requests
from taskd_net.observe.client import AskFailed, NodeClient, ask_health
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode, address_of, both_links, soon
from tests.polling import asked_until, until

TEXT = "standby of 10.0.0.1:9601"


async def health(node: WatchedNode) -> list[str]:
    """The health of the whole, and of the process."""
    at = Address.parse(address_of(node))
    return [await ask_health(at, name, PATIENCE_S) for name in ("", SERVICE, "liveness")]


async def test_every_call_of_a_child_is_refused_with_the_text(mesh: Mesh) -> None:
    """Also those that an original child makes before it has registered."""
    mgr = await mesh.mgr(standby=True)
    assert mgr.standby.startswith("standby") and not mgr.is_joined
    mgr.stand_by(TEXT)

    data = requests.write_register("u", Position.worker(0, 0))

    async def one() -> AsyncIterator[bytes]:
        yield data

    async with grpc.aio.insecure_channel(address_of(mgr)) as open_channel:
        channel: Any = open_channel
        for call in ("Register", "PathDiscovery", "TransferMessage"):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(f"/{SERVICE}/{call}")(data, timeout=PATIENCE_S)
            assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNAVAILABLE, TEXT), call
        for stream in (f"/{SERVICE}/InitServerDownStream", STREAM):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.stream_stream(stream)(one(), timeout=PATIENCE_S).read()
            assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNAVAILABLE, TEXT), stream
    assert not mgr.driver.router.children.by_id


async def test_health_and_status_are_answered(mesh: Mesh) -> None:
    mgr = await mesh.mgr(standby=True)
    assert await health(mgr) == ["NOT_SERVING", "NOT_SERVING", "SERVING"]
    mgr.stand_by(TEXT)
    async with NodeClient(Address.parse(address_of(mgr)), PATIENCE_S) as client:
        assert (await client.mesh()).root == Position.mgr()
        with pytest.raises(AskFailed, match=f"Mgr/0 decides nothing: it is a {TEXT}"):
            await client.job()
    mgr.stand_by("")
    assert await asked_until(lambda: serves(mgr), PATIENCE_S)
    assert mgr.is_joined


async def serves(node: WatchedNode) -> bool:
    """True when a node is SERVING. Its health follows in a task of its own."""
    return "NOT_SERVING" not in await health(node)


@both_links
async def test_children_go_to_the_next_address_at_once_and_come_back(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backoff, "pause", lambda *_: 0.0)
    first, second = await mesh.mgr(), await mesh.mgr(standby=True)
    proxy = await mesh.proxy(0, f"{address_of(second)},{address_of(first)}")
    worker = await mesh.worker(0, 0, proxy)
    assert (await worker.send("1", to="Mgr", timeout=5)).ok and (await first.take()).body == "1"
    for leads, stands in ((second, first), (first, second)):
        # As in life, for a moment none leads.
        stands.stand_by(TEXT)
        assert stands.driver.router.children.find(proxy.position) is not None
        leads.stand_by("")
        await until(lambda node=leads: proxy.upstream == address_of(node) and proxy.is_joined)  # type: ignore[misc]
        assert (await worker.send("2", to="Mgr", timeout=5)).ok and (await leads.take()).body == "2"
        assert (await leads.send("3", to="Worker/0/0", timeout=5)).ok and (await worker.take()).body == "3"
    lost = [event["reason"] for event in mesh.events if event["event"] == "upstream_lost" and "Proxy" in event["node"]]
    assert len(lost) == 2 and all(End.ELSEWHERE.value in reason for reason in lost), lost


async def test_children_that_are_sent_elsewhere_come_back_where_no_other_takes_them(mesh: Mesh) -> None:
    first, second = await mesh.mgr(), await mesh.mgr(standby=True)
    proxy = await mesh.proxy(0, f"{address_of(first)},{address_of(second)}")
    first.send_elsewhere()
    await until(lambda: proxy.joins == 2 and proxy.is_joined)
    assert proxy.upstream == address_of(first)
    assert mesh.count("join_failed", node=proxy.position, upstream=address_of(second)) == 1, "it was tried first"
    second.stand_by("")
    first.send_elsewhere()
    await until(lambda: proxy.joins == 3 and proxy.is_joined)
    assert proxy.upstream == address_of(second)


@pytest.mark.parametrize("role", ["Mgr", "Proxy"])
async def test_child_of_a_silent_mgr_moves_when_another_one_takes_it(
    mesh: Mesh, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of one that hangs, and was followed by another one. A Proxy may be busy, and keeps its children."""
    looked = asyncio.Event()
    accepts = Connector.accepts

    async def looks(connector: Connector) -> bool:
        try:
            return await accepts(connector)
        finally:
            looked.set()

    monkeypatch.setattr(Connector, "accepts", looks)
    first, second = await mesh.mgr(), await mesh.mgr(standby=True)
    parent = first if role == "Mgr" else await mesh.proxy(1, first)
    child = await mesh.proxy(0, f"{address_of(parent)},{address_of(second)}")
    session = child.driver.links[UP]
    child.driver.perform(child.driver.router.signs_of_life(child.driver.now(), UP, session, seen=False))
    if role == "Proxy":
        second.stand_by("")
        await asyncio.sleep(0.1)
        assert not looked.is_set() and child.joins == 1
        return
    await soon(looked.wait())
    assert child.driver.links[UP] is session, "a standby does not take it"
    second.stand_by("")
    await until(lambda: child.upstream == address_of(second) and child.is_joined)
    assert mesh.count("upstream_left", node=child.position) == 1


async def test_reports_that_were_not_confirmed_are_new_in_the_next_term(mesh: Mesh) -> None:
    mgr = await mesh.mgr(confirms=True)
    worker = await mesh.worker(0, 0, mgr)
    uuid = "of the application"
    waits = asyncio.create_task(worker.send("1", to="Mgr", uuid=uuid, timeout=PATIENCE_S))
    assert (await mgr.take()).body == "1"
    mgr.stand_by(TEXT)
    assert (await soon(waits)).code == Code.NETWORK_ACK_LOST
    mgr.stand_by("")
    await until(lambda: worker.is_joined)
    again = asyncio.create_task(worker.send("1", to="Mgr", uuid=uuid, timeout=PATIENCE_S))
    message = await mgr.take()
    mgr.confirm([message])
    assert (await soon(again)).ok
