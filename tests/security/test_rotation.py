"""New certificates while a mesh is at work: everybody moves to new connections, and no message is lost by it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net import Ack, Node, Position, limits
from taskd_net.cli.authority import Authority
from tests.peers.certificates import DAY, Folder
from tests.peers.mesh import Mesh, both_links, soon

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes need not spread over time here."""
    monkeypatch.setattr(limits, "RENEWAL_SPREAD_S", 0.01)
    monkeypatch.setattr(limits, "RENEWAL_RETRY_S", 0.2)


class Traffic:
    """Messages from one node to another, several at a time, each counted.

    Args:
        src: who sends.
        dst: who receives.
        width: how many senders; each sends one after another.
    """

    def __init__(self, src: Node, dst: Node, width: int = 4) -> None:
        self._src = src
        self._dst = dst
        self._stop = False
        self.failed: list[Ack] = []
        self.sent: list[list[str]] = [[] for _ in range(width)]
        self.got: list[str] = []
        self._tasks = [asyncio.create_task(self._send(lane)) for lane in range(width)]
        self._taker = asyncio.create_task(self._take())

    async def _send(self, lane: int) -> None:
        to: Position = self._dst.position
        while not self._stop:
            body = f"{self._src.position} {lane} {len(self.sent[lane])}"
            # Lane 0 posts: those are promised to arrive in their order.
            ack = await (self._src.send(body, to=to) if lane else self._src.post(body, to=to))
            self.sent[lane].append(body)
            if not ack.ok:
                self.failed.append(ack)

    async def _take(self) -> None:
        async for message in self._dst.messages():
            if message.src == self._src.position:
                self.got.append(message.body)

    async def end(self) -> None:
        """Send no more, and check that everything has arrived once, and in order."""
        self._stop = True
        await soon(asyncio.gather(*self._tasks))
        wanted = Counter(body for lane in self.sent for body in lane)

        async def all_here() -> None:
            while len(self.got) < sum(wanted.values()):
                await asyncio.sleep(0.01)

        try:
            await soon(all_here())
        except TimeoutError:
            missing = wanted - Counter(self.got)
            pytest.fail(f"{len(missing)} messages are missing: {list(missing)[:5]}; failed: {self.failed[:5]}")
        self._taker.cancel()
        assert self.failed == []
        assert Counter(self.got) == wanted
        for lane, sent in enumerate(self.sent):
            assert [body for body in self.got if body.split()[1] == str(lane)] == sent
        assert sum(wanted.values()) > 20


async def until_busy(*traffics: Traffic, more: int = 50) -> None:
    """Wait until so many more messages have gone each way."""
    wanted = [len(traffic.got) + more for traffic in traffics]

    async def all_busy() -> None:
        while any(len(traffic.got) < count for traffic, count in zip(traffics, wanted, strict=True)):
            await asyncio.sleep(0.01)

    await soon(all_busy(), 20)


@both_links
@pytest.mark.both_loops
@pytest.mark.parametrize("which", ["server", "client", "both"])
async def test_rotation_under_traffic_costs_nobody_a_message(mesh: Mesh, tmp_path: Path, which: str) -> None:
    """A Worker and the Mgr talk over a Proxy in both directions, and all of them get new certificates."""
    authority = Authority.new("CA", DAY)
    servers, clients = Folder(tmp_path / "servers", authority), Folder(tmp_path / "clients", authority)
    mgr = await mesh.mgr(tls=servers.listening(), inbox=4096)
    both = replace(servers.tls(), client_key=clients.key, client_crt=clients.crt)
    proxy = await mesh.proxy(0, mgr, tls=both)
    worker = await mesh.worker(0, 0, proxy, tls=clients.connecting(), inbox=4096)
    up, down = Traffic(worker, mgr), Traffic(mgr, worker)
    await until_busy(up, down)
    for times in (1, 2, 3):
        if which in ("server", "both"):
            servers.issue()
            await mesh.logged("certificates_changed", towards="children", times=2 * times)
        if which in ("client", "both"):
            clients.issue()
            await mesh.logged("renewed", times=2 * times)
        await until_busy(up, down)
    await up.end()
    await down.end()
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0
    assert mesh.count("child_moved") == (0 if which == "server" else 6)
