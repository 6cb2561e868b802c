"""Direct links within one machine: a Unix socket between processes of one user, and the port for all others."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import Position
from taskd_net.net.links import direct_local
from taskd_net.net.links.direct_acceptor import DirectAcceptor
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, WatchedNode, soon

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's"),
]


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes whose Proxies offer their Unix sockets."""
    async with Mesh("direct") as mesh:
        yield mesh


def family(child: WatchedNode) -> socket.AddressFamily:
    """The family of the socket between a child and its parent."""
    return socket.AddressFamily(child.driver.links[0]._socket.info("socket").family)  # type: ignore[attr-defined]


def name_of(parent: WatchedNode) -> str:
    """The name of a parent's Unix socket."""
    ours = [acceptor for acceptor in parent.driver.server._acceptors if isinstance(acceptor, DirectAcceptor)]  # type: ignore[union-attr]
    return ours[0]._local


@pytest.mark.both_loops
async def test_ranks_beside_their_proxy_use_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    workers = [await mesh.worker(0, rank, proxy) for rank in range(2)]
    assert [family(node) for node in (*workers, proxy)] == [socket.AF_UNIX, socket.AF_UNIX, socket.AF_INET]
    body = "x" * 3_000_000  # more than the kernel holds
    for receiver in (mgr, workers[1]):
        assert (await soon(workers[0].send(body, to=receiver.position))).ok
        assert (await receiver.take()).body == body
    assert (await soon(mgr.send(body, to="Worker/0/All"))).ok
    assert [echo.link async for echo in mgr.trace(workers[0].position)] == ["direct", "direct"]


async def test_two_children_have_addresses_of_their_own(mesh: Mesh) -> None:
    proxy = await mesh.proxy(0, await mesh.mgr())
    for rank in range(2):
        await mesh.worker(0, rank, proxy)
    links = [proxy.driver.router.children.find(Position.worker(0, rank)) for rank in range(2)]
    addresses = [proxy.driver.view.connections.address(link.id) for link in links if link is not None]
    assert len(set(addresses)) == 2
    assert all(address.startswith("127.0.0.1:unix-") for address in addresses)


async def test_link_ends_with_either_process(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    worker.driver.links[0]._socket.abort("gone")  # type: ignore[attr-defined]
    await mesh.logged("joined", node=worker.position, times=2)
    assert (await soon(mgr.send("x", to=worker.position))).ok
    name = name_of(proxy)
    with direct_local.connected(name) or pytest.fail("nobody listens"):
        pass
    await soon(proxy.close())
    await mesh.logged("upstream_lost", node=worker.position, times=2)
    assert direct_local.connected(name) is None


async def test_over_tls_it_shows_the_same_certificates(mesh: Mesh, tmp_path: Path) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    proxy = await mesh.proxy(0, mgr, tls=certificates.tls())
    worker = await mesh.worker(0, 0, proxy, tls=certificates.connecting())
    assert family(worker) is socket.AF_UNIX
    assert worker.driver.links[0]._socket.info("ssl_object").version() == "TLSv1.3"  # type: ignore[attr-defined]
    assert (await soon(mgr.send("x" * 3_000_000, to=worker.position))).ok


@pytest.fixture
def of_another_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the process at the other end have another user from now on."""
    own = os.geteuid()
    return lambda: monkeypatch.setattr(direct_local.os, "geteuid", lambda: own + 1)  # type: ignore[attr-defined]


async def test_child_of_another_user_takes_the_port(mesh: Mesh, of_another_user: Callable[[], None]) -> None:
    proxy = await mesh.proxy(0, await mesh.mgr())
    of_another_user()
    worker = await mesh.worker(0, 0, proxy)
    assert family(worker) is socket.AF_INET
    assert mesh.count("violation") == mesh.count("link_unreachable") == 0


async def test_process_of_another_user_is_hung_up_on(mesh: Mesh, of_another_user: Callable[[], None]) -> None:
    proxy = await mesh.proxy(0, await mesh.mgr())
    of_another_user()
    reader, writer = await asyncio.open_unix_connection("\0" + name_of(proxy))
    assert await soon(reader.read()) == b""
    writer.close()
    assert mesh.count("violation") == 0


async def test_parent_of_another_namespace_is_reached_by_its_port(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    offer = DirectAcceptor.offer

    def elsewhere(acceptor: DirectAcceptor, *arguments: object) -> tuple[tuple[str, str], ...]:
        offered = offer(acceptor, *arguments)  # type: ignore[arg-type]
        return tuple((key, value[:-1] if key == direct_local.KEY else value) for key, value in offered)

    monkeypatch.setattr(DirectAcceptor, "offer", elsewhere)
    proxy = await mesh.proxy(0, await mesh.mgr())
    worker = await mesh.worker(0, 0, proxy)
    assert family(worker) is socket.AF_INET
    assert mesh.count("joined", node=worker.position, link="direct") == 1


@given(st.text().map(lambda text: "taskd-net-" + text) | st.text())
def test_any_offer_is_refused_in_silence(name: str) -> None:
    assert direct_local.connected(name) is None


def test_names_of_others_are_not_connected_to() -> None:
    """A parent must not send a child to the sockets of other programs."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0other")
        listener.listen(1)
        assert direct_local.connected("other") is None


async def test_full_queue_of_connections_leads_to_the_port(mesh: Mesh) -> None:
    made = direct_local.listening()
    assert made is not None
    name, listener = made
    with listener:
        listener.listen(0)  # one connection fills the queue
        first = direct_local.connected(name)
        assert first is not None
        assert direct_local.connected(name) is None
        first.close()
