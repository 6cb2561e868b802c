"""The pauses between attempts to join."""

import asyncio
import socket

import grpc
import pytest

from taskd_net.transport.child import Backoff
from taskd_net.transport.peer import parent_metadata
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon
from tests.peers.parent import RawParent
from tests.peers.stubs import name


def test_pauses_double_up_to_their_bound() -> None:
    backoff = Backoff(0.05, 1.0)
    for failures, bound in ((1, 0.05), (2, 0.1), (3, 0.2), (5, 0.8), (6, 1.0), (7, 1.0), (10_000, 1.0)):
        pauses = [backoff.pause(failures) for _ in range(200)]
        assert 0.0 <= min(pauses) < bound / 4
        assert bound * 3 / 4 < max(pauses) <= bound


@pytest.mark.timeout(30)
async def test_fault_of_ours_does_not_keep_a_node_from_joining(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.expected_errors.add("upstream_failed")
    mgr = await mesh.mgr()
    with monkeypatch.context() as patch:
        patch.setattr("taskd_net.transport.peer.of_parent", lambda _: 1 / 0)
        worker = await mesh.worker(0, 0, mgr, join=False)
        await mesh.logged("upstream_failed", node=worker.position, times=2)
    await soon(worker.joined())
    assert (await mgr.send("x", to=worker.position)).ok


@pytest.mark.timeout(30)
async def test_parent_that_never_takes_the_stream(mesh: Mesh) -> None:
    """One that says it is one of ours confirms the stream; without that there is an end to the waiting."""
    async with RawParent() as parent:
        parent.says = (("taskd-net-version", "0.1.0"),)
        parent.hold["InitServerDownStream"] = asyncio.Event()
        worker = await mesh.worker(0, 0, parent.address, join=False, ack_timeout=0.2)
        await mesh.logged("join_failed", node=worker.position)
        with pytest.raises(TimeoutError, match="did not accept the stream in time"):
            await worker.joined(0.01)
        parent.hold.pop("InitServerDownStream").set()
        await soon(worker.joined())


@pytest.mark.compat
@pytest.mark.timeout(30)
async def test_connecting_has_an_end_of_its_own(mesh: Mesh) -> None:
    """A frozen parent's kernel accepts connections. The attempt ends by itself, long before the answer is given up."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        worker = await mesh.worker(0, 0, f"127.0.0.1:{frozen.getsockname()[1]}", join=False, ack_timeout=60.0)
        await mesh.logged("join_failed", node=worker.position)
        with pytest.raises(TimeoutError, match="Register: UNAVAILABLE"):
            await worker.joined(0.01)


@pytest.mark.timeout(30)
async def test_parent_of_ours_that_refuses_the_stream(mesh: Mesh) -> None:
    async with RawParent() as parent:
        parent.says = (("taskd-net-version", "0.1.0"),)
        parent.refuse["InitServerDownStream"] = grpc.StatusCode.UNKNOWN
        worker = await mesh.worker(0, 0, parent.address, join=False)
        for _ in range(3):
            await parent.requested("InitServerDownStream")
        parent.refuse.clear()
        await soon(worker.joined())


@pytest.mark.timeout(30)
async def test_parent_is_asked_for_pings_only_where_it_permits_them(mesh: Mesh) -> None:
    """Whether it does it says when a child registers, so a foreign parent sees one registration more."""
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        assert parent.requests["Register"].qsize() == 2
        assert worker._child is not None and worker._child._connector.pings is False
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert worker._child is not None and worker._child._connector.pings is True
    async with RawChild("Worker/0/1") as child:
        await child.join(mgr.address or "")


@pytest.mark.timeout(30)
async def test_parent_that_did_not_hear_who_is_gone_is_told_again(mesh: Mesh) -> None:
    async with RawParent() as parent:
        parent.says = parent_metadata(0, batched=False)
        proxy = await mesh.proxy(0, parent.address, grace=0.1)
        worker = await mesh.worker(0, 0, proxy)
        while not parent.requests["PathDiscovery"].empty():
            parent.requests["PathDiscovery"].get_nowait()
        parent.refuse["PathDiscovery"] = grpc.StatusCode.RESOURCE_EXHAUSTED
        await worker.close()
        for _ in range(3):
            request = await parent.requested("PathDiscovery")
            assert [name(position) for position in request.path] == ["Worker/0/0"]
        parent.refuse.clear()
        await parent.requested("PathDiscovery")
