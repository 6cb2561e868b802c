"""The listener at an address: a node of ours, another parent, another server, none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from taskd_net.base.address import Address
from taskd_net.observe import identify as identify_module
from taskd_net.observe.client import NodeClient
from taskd_net.observe.identify import ServerKind, identify
from taskd_net.observe.probe_codec import About
from taskd_net.observe.service import PROBE_SERVICE
from taskd_net.version import __version__
from tests.peers.mesh import PATIENCE_S, Mesh, soon
from tests.peers.parent import RawParent
from tests.ports import free_address


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes."""
    async with Mesh() as made:
        yield made


async def test_node_of_ours_says_who_it_is_and_what_time_it_has(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    began = time.monotonic()
    found = await identify(Address.parse(str(mgr.address)), PATIENCE_S)
    took = time.monotonic() - began
    assert found.kind is ServerKind.OURS
    assert found.about is not None
    assert (found.about.position, found.about.version) == (mgr.position, __version__)
    # Both clocks are this machine's: they differ by what it does not know of the way, at most.
    assert 0.0 < found.clock_error <= took / 2.0
    assert abs(found.clock) <= found.clock_error


async def test_clock_is_compared_by_one_exchange_over_a_connection_that_stands(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time to connect must not count."""
    mgr = await mesh.mgr()
    took: list[float] = []
    ask = NodeClient.about

    async def slowly(client: NodeClient) -> About:
        began = time.monotonic()
        about = await ask(client)
        await asyncio.sleep(0.2)
        took.append(time.monotonic() - began)
        return about

    monkeypatch.setattr(NodeClient, "about", slowly)
    began = time.monotonic()
    found = await identify(Address.parse(str(mgr.address)), PATIENCE_S)
    rest = time.monotonic() - began - took[0]
    assert 0.1 <= found.clock_error <= rest / 2.0


async def test_parent_that_knows_the_four_calls_is_told_by_how_it_refuses_a_stranger() -> None:
    async with RawParent() as parent:
        found = await identify(Address.parse(parent.address), PATIENCE_S)
        request = await soon(parent.requests["InitServerDownStream"].get())
    assert (found.kind, found.about) == (ServerKind.MESH, None)
    # A position that no job has, so that nobody loses his place to whoever looks.
    role, rank = request.split("/")
    assert (role, int(rank) >= 1_000_000_000) == ("Agent", True)


async def test_parent_that_never_says_whether_it_takes_the_stream_knows_the_call() -> None:
    async with RawParent() as parent:
        parent.hold["InitServerDownStream"] = asyncio.Event()
        found = await soon(identify(Address.parse(parent.address), 0.3))
        parent.hold.pop("InitServerDownStream").set()
    assert found.kind is ServerKind.MESH


async def test_server_of_something_else() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    found = await identify(Address.parse(f"127.0.0.1:{port}"), PATIENCE_S)
    await server.stop(None)
    assert found.kind is ServerKind.OTHER


async def test_refusal_whose_metadata_comes_before_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC tells both one after the other: on a busy machine the call looks as if it went on in between."""
    looks: list[bool] = []
    open_stream = identify_module._open_stream

    def opened(*arguments: Any, **options: Any) -> Any:
        stream = open_stream(*arguments, **options)
        done = stream.done

        def done_later() -> bool:
            looks.append(done())
            return looks[-1] and len(looks) > 1

        monkeypatch.setattr(stream, "done", done_later)
        return stream

    monkeypatch.setattr(identify_module, "_open_stream", opened)
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    found = await identify(Address.parse(f"127.0.0.1:{port}"), PATIENCE_S)
    await server.stop(None)
    assert found.kind is ServerKind.OTHER
    assert looks[1:] == [True]


async def test_server_that_is_too_busy_to_answer() -> None:
    """It is a gRPC server, and that is all that is known: it must not be taken for something else."""
    busy, server = asyncio.Event(), grpc.aio.server()

    async def never(request: bytes, _: object) -> bytes:
        busy.set()
        await asyncio.get_running_loop().create_future()
        return request

    calls: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"About": grpc.unary_unary_rpc_method_handler(never)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PROBE_SERVICE, calls),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        found = await identify(Address.parse(f"127.0.0.1:{port}"), 0.5)
    finally:
        await server.stop(None)
    assert busy.is_set()
    assert found.kind is ServerKind.SILENT


async def test_nobody() -> None:
    found = await identify(Address.parse(free_address()), PATIENCE_S)
    assert found.kind is ServerKind.NONE
