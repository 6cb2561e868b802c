"""Peers that begin TLS and never register."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any, cast

import pytest

from taskd_net.base import limits
from taskd_net.base.times import TIMES, LinkTimes
from taskd_net.net.tls.strangers import Strangers, _address, peers_of
from tests.peers.certificates import Folder
from tests.peers.mesh import PATIENCE_S, Mesh, soon

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_who_is_connected_to_a_port(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as server:
        server.bind((host, 0))
        server.listen()
        port = server.getsockname()[1]
        assert list(peers_of(port)) == []
        with socket.create_connection((host, port)) as client:
            assert list(peers_of(port)) == [(host, client.getsockname()[1])]


def test_ipv4_over_ipv6_is_ipv4() -> None:
    assert _address("0000000000000000FFFF00000100007F") == "127.0.0.1"


def test_node_over_ipv6_is_no_stranger() -> None:
    strangers = Strangers(1, cast("Any", None), TIMES)
    strangers._unheard["::1", 40312] = 0.0
    strangers.heard("[::1]", "40312")
    assert not strangers._unheard


def test_where_the_system_does_not_tell_nobody_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("taskd_net.net.tls.strangers._TABLES", (tmp_path / "nowhere",))
    assert list(peers_of(1)) == []


async def test_who_has_registered_is_no_stranger_and_another_one_is() -> None:
    """Two connections of one host, and looks while both, one, and none of them stand."""
    said: asyncio.Queue[str] = asyncio.Queue()

    class Log:
        def warning(self, event: str, *, address: str, reason: str) -> None:
            assert event == "stranger" and reason
            said.put_nowait(address)

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        strangers = Strangers(port, cast("Any", Log()), LinkTimes(strangers_look=0.0, strangers_heard=0.1))
        watching = asyncio.create_task(strangers.watch())
        with socket.create_connection(("127.0.0.1", port)) as child:
            strangers.handshake()
            strangers.heard("127.0.0.1", str(child.getsockname()[1]))
            await asyncio.sleep(0.4)  # longer than anybody may take to be heard of
            assert said.empty() and not watching.done()
            with socket.create_connection(("127.0.0.1", port)):
                strangers.handshake()
                assert await soon(said.get()) == "127.0.0.1"
        assert said.empty()
        watching.cancel()
        await asyncio.wait([watching])


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
async def test_a_stranger_is_named_and_children_are_not(mesh: Mesh, tmp_path: Path, listen: str) -> None:
    mesh.let(strangers_look=0.0)
    certificates, foreign = Folder(tmp_path / "good"), Folder(tmp_path / "foreign")
    foreign.trust(foreign.authority, certificates.authority)
    mgr = await mesh.mgr(listen=listen, tls=certificates.listening())
    assert mgr.driver.server is not None
    strangers = mgr.driver.server._strangers
    assert strangers is not None

    def judge() -> int:
        """The strangers in the log, when the time to register is over."""
        strangers._judge(time.monotonic() + limits.STRANGERS_HEARD_S)
        return mesh.count("stranger")

    children = [await mesh.worker(0, rank, mgr, tls=certificates.connecting()) for rank in range(3)]
    assert judge() == 0
    bad = await mesh.worker(0, 9, mgr, tls=foreign.connecting(), join=False, backoff_max=0.06)
    async with asyncio.timeout(PATIENCE_S):
        while judge() == 0:  # noqa: ASYNC110 - the attempts are made by gRPC's threads
            await asyncio.sleep(0.05)
    await mesh.logged("stranger", node=mgr.position, address=listen[:-2].strip("[]"))
    await mesh.worker(0, 4, mgr, tls=certificates.connecting())
    with pytest.raises(TimeoutError):
        await bad.joined(1.0)
    assert 1 <= judge() <= limits.LOG_PEER_LINES
    for child in children:
        assert (await soon(mgr.send("x", to=child.position))).ok
