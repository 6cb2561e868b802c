"""Health, reflection and channelz of a listening node, asked as anybody's tools ask."""

from __future__ import annotations

import asyncio
import builtins
import sys
import traceback
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from taskd_net import Code, Node
from taskd_net.base.address import Address
from taskd_net.net.joining.standard import LIVENESS, Health
from taskd_net.net.joining.streams import ChildStreams
from taskd_net.net.links.kind import End
from taskd_net.node.driver import Driver
from taskd_net.observe.client import AskFailed, ask_health
from tests.peers.mesh import PATIENCE_S, Mesh, soon

pytestmark = pytest.mark.oldest

SERVICES = ("", "TaskNet", LIVENESS)


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes."""
    async with Mesh() as made:
        yield made


async def health(node: Node, *services: str) -> list[str]:
    """The health of these services of a node."""
    return [await ask_health(Address.parse(str(node.address)), name, PATIENCE_S) for name in services or SERVICES]


async def next_status(watch: Any) -> int:
    """The next status of somebody who watches."""
    return int((await soon(watch.read())).status)


async def test_mgr_serves_as_soon_as_it_listens(mesh: Mesh) -> None:
    assert await health(await mesh.mgr()) == ["SERVING"] * 3


async def test_proxy_serves_while_it_has_an_upstream_and_lives_all_the_time(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    address = str(mgr.address)
    await mgr.close()
    proxy = await mesh.proxy(0, address, join=False)
    assert await health(proxy) == ["NOT_SERVING", "NOT_SERVING", "SERVING"]
    async with grpc.aio.insecure_channel(str(proxy.address)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="TaskNet"))
        assert await next_status(watch) == health_pb2.HealthCheckResponse.NOT_SERVING
        mgr = await mesh.mgr(listen=address)
        assert await next_status(watch) == health_pb2.HealthCheckResponse.SERVING
        assert await health(proxy) == ["SERVING"] * 3
        await mgr.close()
        assert await next_status(watch) == health_pb2.HealthCheckResponse.NOT_SERVING
        watch.cancel()


@pytest.mark.parametrize("end", ["close", "drain"])
async def test_who_watches_is_told_before_the_end(mesh: Mesh, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    steps: list[str] = []
    stop, end_stream = Health.stop, ChildStreams.end_all

    async def stopped(self: Health) -> None:
        await stop(self)
        steps.append("health")

    def ended(self: ChildStreams, end: End) -> None:
        steps.append("stream")
        end_stream(self, end)

    monkeypatch.setattr(Health, "stop", stopped)
    monkeypatch.setattr(ChildStreams, "end_all", ended)
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert await next_status(watch) == health_pb2.HealthCheckResponse.SERVING
        ending = asyncio.ensure_future(mgr.close() if end == "close" else mgr.drain(0.2))
        assert await next_status(watch) == health_pb2.HealthCheckResponse.NOT_SERVING
        await soon(ending)
    # A drain tells it twice, and may return from the first after the end.
    assert steps.index("health") < steps.index("stream")


async def test_who_drains_says_so_at_once(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    busy = True
    monkeypatch.setattr(Driver, "busy", property(lambda _: busy))
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        assert await next_status(watch) == health_pb2.HealthCheckResponse.SERVING
        draining = asyncio.ensure_future(mgr.drain(PATIENCE_S))
        assert await next_status(watch) == health_pb2.HealthCheckResponse.NOT_SERVING
        busy = False
        assert await soon(draining)


async def test_who_takes_no_messages_for_itself_is_not_serving_but_passes_on(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    proxy.close_inbox()
    async with grpc.aio.insecure_channel(str(proxy.address)) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        while await next_status(watch) != health_pb2.HealthCheckResponse.NOT_SERVING:
            pass
        watch.cancel()
    assert await health(proxy) == ["NOT_SERVING", "SERVING", "SERVING"]
    assert (await mgr.send("x", to="Proxy/0")).code == Code.RECV_BUF_NIL
    # One that was opened without an inbox is as well as ever.
    assert await health(await mesh.proxy(1, mgr, inbox=0)) == ["SERVING"] * 3


async def test_messages_do_not_pay_for_the_services_beside_them(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """grpc.aio goes through every registered method for each call that comes in."""
    registered: list[str] = []
    monkeypatch.setattr(
        grpc.aio.Server, "add_registered_method_handlers", lambda _, name, __: registered.append(name), raising=False
    )
    mgr = await mesh.mgr()
    assert await health(mgr) == ["SERVING"] * 3
    assert registered == []


async def test_services_beside_are_served_on_the_loop(mesh: Mesh) -> None:
    """A servicer in a thread is still there when the server stops, and fails where nobody looks."""
    mgr = await mesh.mgr()
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        listing: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type]
        call = listing.ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        await soon(call.read())
        servers: Any = channelz_pb2_grpc.ChannelzStub(channel)  # type: ignore[arg-type]
        await soon(servers.GetServers(channelz_pb2.GetServersRequest()))
        threads = (traceback.extract_stack(frame) for frame in sys._current_frames().values())
        assert not [step for stack in threads for step in stack if step.name == "ServerReflectionInfo"]
        call.cancel()


async def test_services_that_are_not_there_are_said_not_to_be(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    with pytest.raises(AskFailed, match="it has no service 'TaskNot'"):
        await health(mgr, "TaskNot")


async def test_reflection_names_every_service_with_its_calls(mesh: Mesh) -> None:
    mgr = await mesh.mgr()

    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type]
        call = stub.ServerReflectionInfo()

        async def ask(**request: Any) -> Any:
            await call.write(reflection_pb2.ServerReflectionRequest(**request))
            return await soon(call.read())

        listed = {service.name for service in (await ask(list_services="")).list_services_response.service}
        assert {"TaskNet", "taskd_net.link.TaskLink", "taskd_net.status.TaskStatus", "grpc.health.v1.Health"} <= listed
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        methods: dict[str, set[str]] = {}
        for name in listed:
            found = (await ask(file_containing_symbol=name)).file_descriptor_response.file_descriptor_proto
            for file in map(FileDescriptorProto.FromString, found):
                prefix = f"{file.package}." if file.package else ""
                methods |= {prefix + service.name: {m.name for m in service.method} for service in file.service}
        assert listed <= set(methods)
        assert methods["TaskNet"] == {"Register", "PathDiscovery", "TransferMessage", "InitServerDownStream"}
        assert methods["taskd_net.status.TaskStatus"] == {"Tell", "Tree", "Forget"}
        assert methods["taskd_net.job.JobStatus"] == {"Look", "CollectStacks"}
        await call.done_writing()
        call.cancel()


async def test_channelz_knows_the_connections_of_children(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr, links="batched")
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        stub: Any = channelz_pb2_grpc.ChannelzStub(channel)  # type: ignore[arg-type]
        servers = await soon(stub.GetServers(channelz_pb2.GetServersRequest()))
        started = max(server.data.calls_started for server in servers.server)
        assert started >= 3  # Register, the stream, PathDiscovery


async def test_without_the_packages_a_node_does_its_work_and_says_what_is_missing(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = builtins.__import__

    def missing(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith(("grpc_health", "grpc_reflection", "grpc_channelz")):
            raise ImportError(name)
        return installed(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    assert (await proxy.send("x", to="Mgr")).ok
    events = [event["node"] for event in mesh.events if event["event"] == "services_missing"]
    assert events == ["Mgr/0", "Proxy/0"]
    with pytest.raises(AskFailed, match=r"pip install 'taskd-net\[health\]'"):
        await health(mgr, "")
    monkeypatch.undo()
    with pytest.raises(AskFailed, match="does not say how it is"):
        await health(mgr, "")
    await proxy.close()
