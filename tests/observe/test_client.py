"""Questions to a node, without joining it."""

from __future__ import annotations

import asyncio
import socket

import grpc
import pytest

from taskd_net import Code, Position
from taskd_net.base import upstreams
from taskd_net.base.address import Address
from taskd_net.base.states import State
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe.client import AskFailed, NodeClient, NoManager, NotForgotten, ask_health
from taskd_net.observe.probe_codec import ProbeSeries
from tests.peers.mesh import PATIENCE_S, Mesh
from tests.peers.parent import RawParent

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


def client(address: str | None, timeout: float = PATIENCE_S) -> NodeClient:
    """A client of a node at an address."""
    return NodeClient(Address.parse(address or ""), timeout)


async def test_one_client_asks_everything(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    async with client(mgr.address) as asking:
        about = await asking.about()
        assert (about.position, about.parent) == (mgr.position, None)
        known = dict((await asking.mesh()).nodes)
        assert {str(position): status.state for position, status in known.items()} == {
            "Mgr/0": State.JOINED,
            "Worker/0/0": State.JOINED,
        }
        two = ProbeSeries(worker.position, 1.0, 2, 0.0)
        assert [echo.code async for echo in asking.ping(two)] == [Code.OK, Code.OK]
        assert [echo.src async for echo in asking.trace(worker.position, 1.0)] == [worker.position]
        with pytest.raises(NotForgotten, match=r"^Worker/0/0 is connected"):
            await asking.forget(worker.position)
        await worker.close(orderly=False)
        await mesh.logged("child_lost")
        assert await asking.forget(worker.position) is State.LOST


async def test_of_several_addresses_the_first_that_answers_is_asked(mesh: Mesh) -> None:
    first, second = await mesh.mgr(), await mesh.mgr()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        frozen = f"127.0.0.1:{silent.getsockname()[1]}"
        addresses = upstreams.parse(f"{frozen},{first.address},{second.address}")
        async with NodeClient(addresses, 3.0) as asking:
            assert (await asking.mesh()).root == first.position
            assert asking._address == addresses[1]
            await first.close()
            assert (await asking.about()).position == second.position
            await second.close()
            # gRPC may have given up on the silent address meanwhile: then its attempt fails at once.
            text = f"no node answers at {second.address}; .*{frozen}( within 1 s)?; "
            with pytest.raises(AskFailed, match=text) as failed:
                await asking.job()
            assert failed.value.unreached


async def test_node_that_decides_nothing_has_no_job(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    async with client(mgr.address) as asking:
        with pytest.raises(NoManager, match="decides nothing"):
            await asking.job()
    async with client(proxy.address) as asking:
        with pytest.raises(NoManager, match="ask the Mgr"):
            await asking.job()
    async with client("127.0.0.1:9") as asking:
        with pytest.raises(AskFailed, match="no node answers") as failed:
            await asking.job()
        assert not isinstance(failed.value, NoManager)


async def test_full_node_can_be_asked(mesh: Mesh) -> None:
    mgr = await mesh.mgr(max_children=1)
    await mesh.worker(0, 0, mgr)
    await mesh.worker(0, 1, mgr, join=False)
    await mesh.logged("child_refused")
    async with client(mgr.address) as asking:
        assert len((await asking.mesh()).nodes) == 2
        assert (await anext(asking.ping(ProbeSeries(Position.worker(0, 0), 1.0)))).ok


async def test_asking_nobody_and_somebody_else_fails_with_words(mesh: Mesh) -> None:
    async with NodeClient(Address.parse("127.0.0.1:9"), PATIENCE_S) as asker:
        with pytest.raises(AskFailed, match=r"no node answers at 127\.0\.0\.1:9$"):
            await asker.mesh()
    async with RawParent() as parent, NodeClient(Address.parse(parent.address), PATIENCE_S) as asker:
        with pytest.raises(AskFailed, match="is not a node of taskd_net"):
            await asker.mesh()
        with pytest.raises(AskFailed, match="does not say how it is"):
            await ask_health(Address.parse(parent.address), "", PATIENCE_S)


async def test_parent_of_the_contract_does_not_do_it(mesh: Mesh) -> None:
    async with RawParent() as root, NodeClient(Address.parse(root.address), 5.0) as asking:
        with pytest.raises(AskFailed, match="is not a node of taskd_net") as refused:
            await asking.about()
        assert not refused.value.implemented


async def test_server_that_does_not_answer_in_time_took_the_connection(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    mgr = await mesh.mgr()
    asked = asyncio.Event()

    async def hang() -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(mgr.driver.view, "look_in_parts", hang)
    async with client(mgr.address, 0.3) as asking:
        await asking.about()
        with pytest.raises(AskFailed, match=r"no node answers at .* within 0\.3 s") as failed:
            await asking.mesh()
    assert asked.is_set() and failed.value.implemented and failed.value.connected


async def test_garbage_is_no_answer() -> None:
    async def garbage(_: bytes, __: object) -> bytes:
        return b"\xff"

    server = grpc.aio.server()
    method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(garbage)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(STATUS_SERVICE, {"Tree": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with client(f"127.0.0.1:{port}") as asking:
        with pytest.raises(AskFailed, match="the bytes are not the state of a mesh"):
            await asking.mesh()
    await server.stop(None)
