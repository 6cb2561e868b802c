"""A child over a direct link keeps that connection alone: gRPC is for Register, and its threads end with it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from taskd_net import Code, Position
from taskd_net.base.peer_limits import Limits
from taskd_net.net.tls.strangers import peers_of
from taskd_net.net.wire.socket_frames import FrameKind, write_frame
from taskd_net.observe.document import document
from tests.peers import mesh_state
from tests.peers.direct_child import DirectChild
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.polling import until

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="the tables of the system are read"),
]

WORKER = """
import json, os, sys, time
from taskd_net import BlockingNode, NodeConfig

config = NodeConfig.worker(server_rank=0, rank=0, upstream=sys.argv[1])
with BlockingNode(config) as node:
    node.joined(30)
    sys.stdin.readline()
    # gRPC's threads end a moment after its connection.
    until = time.monotonic() + 10
    while (threads := len(os.listdir("/proc/self/task"))) > 2 and time.monotonic() < until:
        time.sleep(0.01)
    child = os.fork()
    if not child:
        sys.exit(7)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([threads, ended]), flush=True)
"""


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes that offer direct links."""
    async with Mesh("direct") as mesh:
        yield mesh


def grpc_port(node: WatchedNode) -> int:
    """The port of a node's calls."""
    return int((node.address or "").rpartition(":")[2])


async def no_calls(node: WatchedNode) -> None:
    """Wait until nobody is connected to the port of calls."""
    await until(lambda: not list(peers_of(grpc_port(node))))


async def test_children_close_the_channel_of_their_registration(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await no_calls(mgr)
    await no_calls(proxy)
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert await soon(worker.withdraw(10.0))
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0


async def test_child_registers_again_over_a_new_channel(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    address = mgr.address or ""
    worker = await mesh.worker(0, 0, mgr)
    await no_calls(mgr)
    await soon(mgr.close())
    await mesh.logged("upstream_lost")
    again = await mesh.mgr(listen=address)
    await mesh.logged("joined", node=worker.position, times=2)
    await no_calls(again)
    assert (await soon(again.send("x", to=worker.position))).ok


async def test_connections_of_an_address_are_counted_by_their_sockets(mesh: Mesh) -> None:
    mgr = await mesh.mgr(limits=Limits(connections_per_address=2))
    first, second = await mesh.worker(0, 0, mgr), await mesh.worker(0, 1, mgr)
    await no_calls(mgr)
    assert len(mgr.driver.view.connections) == 2
    async with DirectChild("Worker/0/2") as third:
        with pytest.raises(AssertionError):
            await third.register(mgr.address or "")
    assert mesh.count("child_refused", code=int(Code.EXCEED_MAX_REGISTRY_NUM)) == 1
    await soon(first.close())
    await mesh.logged("child_lost")
    assert (await soon(mgr.send("x", to=second.position))).ok


async def test_address_of_a_child_is_that_of_its_socket(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    link = mgr.driver.router.children.find(Position.worker(0, 0))
    assert link is not None
    host, _, port = mgr.driver.view.connections.address(link.id).rpartition(":")
    direct = [a._port for a in mgr.driver.server._acceptors if hasattr(a, "_port")]  # type: ignore[union-attr]
    assert (host, int(port)) in set(peers_of(direct[0]))


def reset(child: DirectChild) -> None:
    """Reset the connection."""
    assert child.writer is not None
    linger = struct.pack("ii", 1, 0)
    child.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    child.writer.transport.abort()


def killed(child: DirectChild) -> None:
    """End as a process that is killed: its kernel closes the connection."""
    assert child.writer is not None
    child.writer.close()


def says_why(child: DirectChild) -> None:
    """End the link with a reason."""
    child.put(write_frame(FrameKind.END, b"out of service"))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (reset, "the connection broke: [Errno 104] Connection reset by peer"),
        (killed, "the connection was closed: the other process has ended, or was killed"),
        (says_why, "out of service"),
    ],
)
async def test_log_and_state_of_a_lost_child_have_the_reason(
    mesh: Mesh, end: Callable[[DirectChild], None], reason: str
) -> None:
    mgr = await mesh.mgr()
    async with DirectChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        end(child)
        await mesh.logged("child_lost", child="Worker/0/0")
        assert mesh.count("child_lost", child="Worker/0/0", reason=reason) == 1
        (lost,) = [node for node in document(mgr.mesh())["nodes"] if node["position"] == "Worker/0/0"]
        assert (lost["state"], lost["end_reason"]) == ("lost", reason)
        again = await mesh.worker(0, 0, mgr)
        await soon(again.joined())
        (back,) = [node for node in document(mgr.mesh())["nodes"] if node["position"] == "Worker/0/0"]
        assert (back["state"], back["end_reason"]) == ("joined", None)


async def test_reason_of_a_child_keeps_it_in_the_reports_whatever_it_says(mesh: Mesh) -> None:
    """A record has 1,024 bytes, or the Mgr leaves it out: some letters have four."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    async with DirectChild("Worker/0/0") as child:
        await child.join(proxy.address or "")
        child.put(write_frame(FrameKind.END, "\U0001f4a5".encode() * 120))
        await mesh.logged("child_lost", child="Worker/0/0")
        told = await mesh_state.until(mgr, lambda now: now.get("Worker/0/0", {}).get("state") == "lost")
        assert told["Worker/0/0"]["end_reason"] == "\U0001f4a5" * 75


async def test_log_of_a_child_that_closes_says_so(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    await soon(worker.close())
    await mesh.logged("child_lost", reason="closed by the child")


async def test_training_process_has_two_threads_and_its_forked_children_end_cleanly(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, mgr.address or "", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        await mesh.logged("child_joined")
        await no_calls(mgr)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n")
        # The script's thread and the loop's: none of gRPC, none that resolves addresses.
        assert json.loads(await soon(process.stdout.readline())) == [2, 7]
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await soon(process.wait())
