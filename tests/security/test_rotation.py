"""New certificates under traffic: all nodes move to new connections, and no message is lost."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net import Ack, Node, Position
from taskd_net.cli.authority import Authority
from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.credentials import ServerCredentials
from taskd_net.net.tls.files import Tls
from tests.peers.certificates import DAY, Folder
from tests.peers.mesh import PATIENCE_S, Mesh, both_links, soon
from tests.peers.parent import RawParent

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def at_once(mesh: Mesh) -> None:
    """Let nodes move at once, without a spread."""
    mesh.let(renewal_spread=0.01, renewal_retry=0.2)


class Traffic:
    """Messages from one node to another, several at a time, each counted.

    Args:
        src: the sender.
        dst: the receiver.
        width: number of senders; each sends one message after another.
    """

    def __init__(self, src: Node, dst: Node, width: int = 4) -> None:
        self._src = src
        self._dst = dst
        self._stop = False
        self.failed: list[Ack] = []
        self.sent: list[list[str]] = [[] for _ in range(width)]
        self.got: list[str] = []
        self._arrived = asyncio.Event()
        self._tasks = [asyncio.create_task(self._send(lane)) for lane in range(width)]
        self._taker = asyncio.create_task(self._take())

    async def _send(self, lane: int) -> None:
        to: Position = self._dst.position
        while not self._stop:
            body = f"{self._src.position} {lane} {len(self.sent[lane])}"
            # Lane 0 posts, because posts keep their order.
            ack = await (self._src.send(body, to=to) if lane else self._src.post(body, to=to))
            self.sent[lane].append(body)
            if not ack.ok:
                self.failed.append(ack)
                await asyncio.sleep(0.01)  # a closed node answers at once, for ever

    async def _take(self) -> None:
        async for message in self._dst.messages():
            if message.src == self._src.position:
                self.got.append(message.body)
                self._arrived.set()

    async def until(self, count: int) -> None:
        """Wait until this many messages have arrived."""
        while len(self.got) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def end(self) -> None:
        """Stop, and check that every message has arrived once, and in order."""
        self._stop = True
        await soon(asyncio.gather(*self._tasks))
        wanted = Counter(body for lane in self.sent for body in lane)
        try:
            await soon(self.until(sum(wanted.values())))
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
    """Wait until this many more messages have gone each way."""
    for traffic in traffics:
        await soon(traffic.until(len(traffic.got) + more), 20)


@both_links
@pytest.mark.both_loops
async def test_rotation_under_traffic_costs_nobody_a_message(mesh: Mesh, tmp_path: Path) -> None:
    """A Worker and the Mgr exchange messages over a Proxy, and all of them get new certificates."""
    authority = Authority.new("CA", DAY)
    servers, clients = Folder(tmp_path / "servers", authority), Folder(tmp_path / "clients", authority)
    mgr = await mesh.mgr(tls=servers.listening(), inbox=4096)
    both = replace(servers.tls(), client_key=clients.key, client_crt=clients.crt)
    proxy = await mesh.proxy(0, mgr, tls=both)
    worker = await mesh.worker(0, 0, proxy, tls=clients.connecting(), inbox=4096)
    up, down = Traffic(worker, mgr), Traffic(mgr, worker)
    await until_busy(up, down)
    for times in (1, 2):
        servers.issue()
        clients.issue()
        await mesh.logged("certificates_changed", towards="children", times=2 * times)
        await mesh.logged("renewed", times=2 * times)
        await until_busy(up, down)
    await up.end()
    await down.end()
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0
    assert mesh.count("child_moved") == 4


async def test_a_new_certificate_of_a_parent_moves_nobody(mesh: Mesh, tmp_path: Path) -> None:
    authority = Authority.new("CA", DAY)
    servers, clients = Folder(tmp_path / "servers", authority), Folder(tmp_path / "clients", authority)
    mgr = await mesh.mgr(tls=servers.listening(), inbox=4096)
    worker = await mesh.worker(0, 0, mgr, tls=clients.connecting(), inbox=4096)
    traffic = Traffic(worker, mgr)
    before = await asyncio.to_thread(shown, str(mgr.address))
    servers.issue()
    await mesh.logged("certificates_changed", towards="children")
    assert await asyncio.to_thread(shown, str(mgr.address)) != before
    await until_busy(traffic)
    await traffic.end()
    assert mesh.count("renewed") == mesh.count("upstream_lost") == 0


def shown(address: str) -> str:
    """The certificate of a server."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)), timeout=PATIENCE_S)


async def test_a_folder_of_kubernetes_whose_link_suddenly_leads_elsewhere(mesh: Mesh, tmp_path: Path) -> None:
    authority = Authority.new("CA", DAY)
    mount = tmp_path / "mount"
    Folder(mount / "..first", authority)
    (mount / "..data").symlink_to("..first")
    for name in ("ca.crt", "node.key", "node.crt"):
        (mount / name).symlink_to(f"..data/{name}")
    tls = Tls(ca=f"{mount}/ca.crt", client_key=f"{mount}/node.key", client_crt=f"{mount}/node.crt")
    mgr = await mesh.mgr(tls=Folder(tmp_path / "mgr", authority).listening())
    worker = await mesh.worker(0, 0, mgr, tls=tls)
    Folder(mount / "..second", authority)
    (mount / "..data_tmp").symlink_to("..second")
    (mount / "..data_tmp").replace(mount / "..data")
    await mesh.logged("renewed", node=worker.position)
    assert mesh.count("certificates_refused") == 0
    assert (await soon(mgr.send("x", to=worker.position))).ok


async def test_files_that_change_unheard_are_looked_at_all_the_same(
    mesh: Mesh, certificates: Folder, tmp_path: Path
) -> None:
    """The target of a symbolic link changes, in an unwatched folder."""
    mesh.let(certificates_look=0.2)
    links = tmp_path / "links"
    links.mkdir()
    for name in ("ca.crt", "node.key", "node.crt"):
        (links / name).symlink_to(certificates.path / name)
    tls = Tls(ca=f"{links}/ca.crt", client_key=f"{links}/node.key", client_crt=f"{links}/node.crt")
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=tls)
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)


async def test_a_folder_that_goes_and_comes_back(mesh: Mesh, certificates: Folder) -> None:
    mesh.let(certificates_look=0.2)
    mgr = await mesh.mgr(tls=certificates.listening())
    away = certificates.path.with_name("away")
    certificates.path.rename(away)
    await mesh.logged("certificates_refused", node=mgr.position)
    away.rename(certificates.path)
    certificates.issue()
    await mesh.logged("certificates_changed", node=mgr.position)
    await mesh.worker(0, 0, mgr, tls=certificates.connecting())


@pytest.mark.parametrize("spoil", ["key", "expired", "authority"])
async def test_files_that_are_not_usable_change_nothing(mesh: Mesh, certificates: Folder, spoil: str) -> None:
    mesh.let(certificates_look=0.1)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    spoilers: dict[str, Callable[[], object]] = {
        "key": lambda: Path(certificates.key).write_text("x"),
        "expired": lambda: certificates.issue(days=(-2, -1)),
        "authority": lambda: certificates.issue(authority=Authority.new("other", DAY)),
    }
    spoilers[spoil]()
    for node in (mgr, worker):
        await mesh.logged("certificates_refused", node=node.position, level="warning")
    # The old ones serve existing and new connections.
    assert (await soon(mgr.send("x", to=worker.position))).ok
    good = Folder(certificates.path.with_name("good"), certificates.authority)
    await mesh.worker(0, 1, mgr, tls=good.connecting())
    await asyncio.sleep(0.5)  # several looks
    # A look between the writes of two files finds another reason; no reason has a second line.
    refused = [(each["node"], each["reason"]) for each in mesh.events if each["event"] == "certificates_refused"]
    assert len(refused) == len({*refused})
    assert mesh.count("certificates_changed") == mesh.count("upstream_lost") == 0
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    assert (await soon(mgr.send("x", to=worker.position))).ok


async def test_a_new_certificate_that_the_parent_does_not_accept_yet(mesh: Mesh, tmp_path: Path) -> None:
    """A new CA replaces the old one, at the Worker before its parent."""
    old, new = Authority.new("old", DAY), Authority.new("new", DAY)
    parent, child = Folder(tmp_path / "parent", old), Folder(tmp_path / "child", old)
    mgr = await mesh.mgr(tls=parent.listening(), inbox=4096)
    worker = await mesh.worker(0, 0, mgr, tls=child.connecting())
    traffic = Traffic(worker, mgr)
    child.trust(old, new)
    child.issue(authority=new)
    await mesh.logged("renewal_failed", node=worker.position)
    await until_busy(traffic)
    parent.trust(old, new)
    await mesh.logged("renewed", node=worker.position)
    await until_busy(traffic)
    await traffic.end()
    assert mesh.count("upstream_lost") == 0


async def test_files_that_change_while_a_node_joins(mesh: Mesh, tmp_path: Path) -> None:
    authority = Authority.new("CA", DAY)
    child = Folder(tmp_path / "child", authority)
    async with RawParent() as parent:
        credentials = ServerCredentials(read(Folder(tmp_path / "parent", authority).listening()))
        await parent.stop()
        await parent.start(credentials=credentials.credentials)
        parent.says = (("taskd-net-version", "0.1.0"),)
        parent.hold["Register"] = asyncio.Event()
        worker = await mesh.worker(0, 0, parent.address, tls=child.connecting(), join=False)
        await parent.requested("Register")
        child.issue()
        await mesh.logged("certificates_changed", node=worker.position)
        parent.hold.pop("Register").set()
        await mesh.logged("renewed", node=worker.position)


async def test_a_parent_that_is_gone_when_its_child_wants_to_move(mesh: Mesh, certificates: Folder) -> None:
    """The move fails, and the child rejoins with the new certificates."""
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    address = str(mgr.address)
    await mgr.close()
    certificates.issue()
    again = await mesh.mgr(listen=address, tls=certificates.listening())
    await mesh.logged("child_joined", node=again.position, child=worker.position, times=2)
    await soon(worker.joined())
    assert (await soon(again.send("x", to=worker.position))).ok


@pytest.mark.both_loops
async def test_a_parent_that_knows_the_four_calls_alone(mesh: Mesh, tmp_path: Path) -> None:
    """It takes a second stream for another node's, so the child leaves the first one before. No loss is reported."""
    authority = Authority.new("CA", DAY)
    servers, clients = Folder(tmp_path / "servers", authority), Folder(tmp_path / "clients", authority)
    async with RawParent() as parent:
        await parent.stop()
        await parent.start(credentials=ServerCredentials(read(servers.listening())).credentials)
        proxy = await mesh.proxy(0, parent.address, tls=clients.connecting())
        worker = await mesh.worker(0, 0, proxy, inbox=4096)
        assert await soon(parent.opened.get()) == "Proxy/0"
        sent: list[Ack] = []
        stop = False

        async def send() -> None:
            while not stop and all(ack.ok for ack in sent[-1:]):
                sent.append(await worker.send(str(len(sent)), to="Mgr"))

        sending = asyncio.create_task(send())
        try:
            for times in (1, 2, 3):
                clients.issue()
                await mesh.logged("renewed", node=proxy.position, times=times)
                # It does not confirm streams, so the child's opening says nothing about this end.
                assert await soon(parent.opened.get()) == "Proxy/0"
                assert (await soon(parent.send("Worker/0/0", "down"))).code == 0
        finally:
            stop = True
            await soon(sending)
        assert [ack for ack in sent if not ack.ok] == []
        assert len(sent) > 20
        got = [parent.received.get_nowait().body for _ in range(parent.received.qsize())]
        assert got == [str(number) for number in range(len(sent))]
        assert mesh.count("upstream_lost") == 0
