"""Options of gRPC that the contract needs."""

import asyncio

import pytest

from taskd_net.base import limits
from taskd_net.net.joining.channel import channel_options, server_options
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh


def test_options_are_those_that_work() -> None:
    """An unknown key never raises, so the names are held here."""
    server = dict(server_options())
    assert server["grpc.http2.min_ping_interval_without_data_ms"] == 1000
    assert server["grpc.http2.ping_timeout_ms"] == server["grpc.keepalive_timeout_ms"] == 2000
    assert server["grpc.keepalive_time_ms"] == 5000
    assert server["grpc.so_reuseport"] == 0
    assert "grpc.keepalive_time_ms" not in dict(channel_options(pings=False))
    child = dict(channel_options(pings=True))
    for options in (server, child):
        assert options["grpc.max_receive_message_length"] == limits.RECEIVE_BYTES
        assert options["grpc.compression_enabled_algorithms_bitset"] == 1
    assert child["grpc.http2.ping_timeout_ms"] == 2000
    assert child["grpc.keepalive_permit_without_calls"] == server["grpc.keepalive_permit_without_calls"] == 1


@pytest.mark.timeout(180)
async def test_idle_links_outlive_their_pings(mesh: Mesh) -> None:
    """A parent that found its children's pings too many would end the connection after the third."""
    mesh.let(keepalive=1.1)
    mgr = await mesh.mgr()
    workers = [await mesh.worker(0, 2, mgr), await mesh.worker(0, 3, mgr, links="tasknet")]
    async with RawChild("Worker/0/1") as child:
        await child.join(mgr.address or "")
        await asyncio.sleep(5.0)  # not to wait for something, but for nothing to happen
        assert mesh.count("child_lost") == mesh.count("upstream_lost") == 0
        for position in (*(str(worker.position) for worker in workers), child.position):
            assert (await mgr.send("x", to=position)).ok
