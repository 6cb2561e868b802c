"""A child moves to a connection with new certificates."""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from taskd_net import Code, Position
from taskd_net.base.codes import Refusal
from taskd_net.base.logger import get_logger
from taskd_net.base.times import TIMES
from taskd_net.core.links import UP
from taskd_net.net.joining.connecting import Connector, Stay
from taskd_net.net.joining.renewal import Renewal
from taskd_net.net.links import peer as peers
from taskd_net.net.links.direct_acceptor import DirectAcceptor
from taskd_net.net.links.kind import Failed, Unreachable
from taskd_net.net.links.peer import joined_metadata
from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.credentials import ServerCredentials
from taskd_net.net.tls.strangers import peers_of
from taskd_net.net.wire import socket_frames
from taskd_net.net.wire.socket_frames import write_accepted
from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, both_links, fast_links, soon
from tests.peers.parent import RawParent
from tests.polling import until


@pytest.fixture
def at_once(mesh: Mesh) -> None:
    """Nodes need not spread over time here."""
    mesh.let(renewal_spread=0.0, certificates_look=0.2)


class ClockedParent(RawParent):
    """A parent that notes when it is asked: an attempt's pause begins after that, and a test wakes up later still."""

    def __init__(self) -> None:
        super().__init__()
        self.came_at: list[float] = []

    async def Register(self, request: Any, context: Any) -> Any:
        self.came_at.append(asyncio.get_running_loop().time())
        return await super().Register(request, context)


async def secured(parent: RawParent, certificates: Folder) -> None:
    """Let a parent begin again with TLS."""
    await parent.stop()
    await parent.start(credentials=ServerCredentials(read(certificates.listening())).credentials)


@both_links
@pytest.mark.timeout(30)
async def test_each_new_certificate_is_one_move_and_no_loss(mesh: Mesh, tmp_path: Path, at_once: None) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    for times in (1, 2, 3):
        certificates.issue()
        await mesh.logged("renewed", node=worker.position, times=times)
        assert (await soon(mgr.send("down", to=worker.position))).ok
        assert (await soon(worker.send("up", to="Mgr"))).ok
        assert ((await worker.take()).body, (await mgr.take()).body) == ("down", "up")
    assert mesh.count("renewed") == mesh.count("child_moved") == 3
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The channels of the calls of Register so far."""
    calls: list[object] = []
    register = Connector.register

    async def noted(connector: Connector, channel: Any) -> Any:
        calls.append(channel)
        return await register(connector, channel)

    monkeypatch.setattr(Connector, "register", noted)
    return calls


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_direct_link_is_renewed_over_itself_without_a_call(
    mesh: Mesh, tmp_path: Path, at_once: None, registered: list[object]
) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    for times in (1, 2):
        certificates.issue()
        await mesh.logged("renewed", node=worker.position, times=times)
        assert (await soon(mgr.send("down", to=worker.position))).ok
        assert (await soon(worker.send("up", to="Mgr"))).ok
    assert len(registered) == 1
    assert mesh.count("child_moved", link="direct") == 2
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == mesh.count("violation") == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_certificate_with_other_names_registers(
    mesh: Mesh, tmp_path: Path, at_once: None, registered: list[object]
) -> None:
    """A token of the link that stands is for the names that were shown at Register."""
    mesh.let(renewal_retry=0.1)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    certificates.issue("taskd://*/*/0/*")
    await mesh.logged("violation", detail="a direct link: the certificate is not the one that was shown at Register")
    await until(lambda: len(registered) > 1)
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert mesh.count("upstream_lost") == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_child_registers_where_the_parent_makes_no_offer_over_the_link(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, registered: list[object]
) -> None:
    mesh.let(renewal_retry=0.1)

    def refuse(*_: object) -> str:
        raise Refusal(Code.CLIENT_ERR, "no offer")

    monkeypatch.setattr(DirectAcceptor, "_renewed", refuse)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    assert mesh.count("renewal_failed", node=worker.position) == 1
    assert len(registered) == 2
    assert mesh.count("upstream_lost") == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mesh", ["direct", "batched", "tasknet"], indirect=True)
async def test_end_of_the_old_connection_that_is_read_first_is_no_loss(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parent that was stopped meanwhile writes the answer on the new connection and this end at one moment."""
    mesh.let(renewal=0.2)  # a parent of gRPC's links waits so long for its child to finish
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    open_link = Connector.open

    async def looked_at_late(connector: Connector, *arguments: Any, **more: Any) -> Any:
        old: Any = worker.driver.links.get(UP)
        connection = await open_link(connector, *arguments, **more)
        if old is not None:
            await until(lambda: old._left or not old.alive)
        return connection

    monkeypatch.setattr(Connector, "open", looked_at_late)
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert mesh.count("child_moved") == 1
    assert mesh.count("renewal_failed") == mesh.count("upstream_lost") == mesh.count("child_lost") == 0


@pytest.mark.timeout(30)
@fast_links
async def test_link_that_the_parent_has_left_is_lost_where_the_move_fails(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.let(renewal=0.2)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    open_link = Connector.open

    async def in_vain(connector: Connector, *arguments: Any, continues: bool = False, **more: Any) -> Any:
        connection = await open_link(connector, *arguments, continues=continues, **more)
        if continues:
            old: Any = worker.driver.links[UP]
            await until(lambda: old._left)
            connection.opened.line.cancel()
            raise Failed("in vain")
        return connection

    monkeypatch.setattr(Connector, "open", in_vain)
    certificates.issue()
    await mesh.logged("upstream_lost", node=worker.position)
    await soon(worker.joined())
    assert (await soon(worker.send("up", to="Mgr"))).ok


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mesh", ["direct", "batched"], indirect=True)
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_file_of_authorities_may_hold_any_text_between_certificates(
    mesh: Mesh, tmp_path: Path, at_once: None, encoding: str
) -> None:
    certificates = Folder(tmp_path)
    certificates.comment("Zertifizierungsstelle für Köln".encode(encoding))
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    kind = worker.driver.links[UP].kind
    assert kind == mesh.settings["links"]
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    assert worker.driver.links[UP].kind == kind
    assert mesh.count("link_unreachable") == mesh.count("renewal_failed") == 0


@pytest.mark.timeout(30)
@fast_links
async def test_fault_in_a_move_is_a_failure_like_any_other(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh.let(renewal_retry=0.1)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    open_link, faults = Connector.open, [MemoryError(), RuntimeError("a fault")]

    async def with_a_fault(connector: Connector, *arguments: Any, continues: bool = False, **more: Any) -> Any:
        if continues and faults:
            raise faults.pop()
        return await open_link(connector, *arguments, continues=continues, **more)

    monkeypatch.setattr(Connector, "open", with_a_fault)
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    failures = [event for event in mesh.events if event["event"] == "renewal_failed"]
    assert ["a fault" in event["reason"] for event in failures] == [True, False]
    assert all("with_a_fault" in event["exception"] for event in failures)
    certificates.issue()
    await mesh.logged("renewed", node=worker.position, times=2)
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert mesh.count("upstream_lost") == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_link_is_not_renewed_over_a_lesser_kind_which_would_end_it(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch, registered: list[object]
) -> None:
    mesh.let(renewal_retry=0.1)
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    with monkeypatch.context() as firewall:

        async def drops(*_: object) -> None:
            raise Unreachable("the firewall drops it")

        firewall.setattr("taskd_net.net.links.direct_kind._connect", drops)
        certificates.issue()
        await until(lambda: len(registered) > 2)
        assert (await soon(mgr.send("down", to=worker.position))).ok
        assert (await soon(worker.send("up", to="Mgr"))).ok
    await mesh.logged("renewed", node=worker.position)
    assert worker.driver.links[UP].kind == "direct"
    assert mesh.count("renewal_failed", node=worker.position) == 1
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0


@pytest.mark.timeout(30)
@fast_links
async def test_new_connection_tells_again_whether_the_parent_has_joined(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    monkeypatch.setattr(peers, "joined_metadata", lambda joined: joined_metadata(not joined))
    monkeypatch.setattr(socket_frames, "write_accepted", lambda joined: write_accepted(not joined))
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    assert not worker.driver.router.joined


@pytest.mark.timeout(30)
async def test_move_that_fails_is_tried_again_after_a_pause_and_leaves_no_connection(
    mesh: Mesh, tmp_path: Path, at_once: None
) -> None:
    mesh.let(renewal_retry=0.5)
    certificates = Folder(tmp_path)
    async with ClockedParent() as parent:
        await secured(parent, certificates)
        parent.says = (("taskd-net-version", "0.1.0"),)
        worker = await mesh.worker(0, 0, parent.address, tls=certificates.connecting())
        assert await soon(parent.requests["Register"].get()) is not None
        parent.refuse["Register"] = Code.EXCEED_MAX_REGISTRY_NUM
        certificates.issue()
        for _ in range(5):
            await parent.requested("Register")
        assert all(later - earlier >= 0.5 for earlier, later in pairwise(parent.came_at[1:]))
        # Two connections: the one in use, and that of the attempt.
        assert len(set(peers_of(int(parent.address.rpartition(":")[2])))) <= 2
        assert mesh.count("renewal_failed", node=worker.position) == 1  # one line for one reason
        assert (await soon(parent.send("Worker/0/0", "down"))).code == 0
        parent.refuse.clear()
        await mesh.logged("renewed", node=worker.position)
        assert (await soon(parent.send("Worker/0/0", "down"))).code == 0
    assert mesh.count("renewed") == 1


@pytest.mark.timeout(30)
async def test_move_to_a_foreign_parent_registers_once(mesh: Mesh, tmp_path: Path, at_once: None) -> None:
    """It takes a second registration for another node's, so the old stream ends before. It is told all routes again."""
    certificates = Folder(tmp_path)
    async with RawParent() as parent:
        await secured(parent, certificates)
        worker = await mesh.worker(0, 0, parent.address, tls=certificates.connecting())
        assert await soon(parent.opened.get()) == "Worker/0/0"
        for requests in (parent.requests["Register"], parent.requests["PathDiscovery"]):
            while not requests.empty():
                requests.get_nowait()
        parent.hold["Register"] = asyncio.Event()
        certificates.issue()
        await parent.requested("Register")
        assert parent.streams == {}
        parent.hold.pop("Register").set()
        await mesh.logged("renewed", node=worker.position)
        assert await soon(parent.opened.get()) == "Worker/0/0"
        await parent.requested("PathDiscovery")
        assert parent.requests["Register"].empty()
        assert (await soon(parent.send("Worker/0/0", "down"))).code == 0
        assert mesh.count("upstream_lost") == 0


async def test_old_connection_stays_until_its_calls_are_answered() -> None:
    """Its messages would be cut off otherwise, though the parent has them."""
    steps: list[str] = []
    answered, over = asyncio.Event(), asyncio.Event()
    over.set()

    async def finish() -> None:
        await answered.wait()
        steps.append("answered")

    async def close(grace: float) -> None:
        steps.append("closed")

    old: Any = SimpleNamespace(
        session=SimpleNamespace(over=over, finish=finish, unwritten=lambda: steps.append("unwritten")),
        opened=SimpleNamespace(line=SimpleNamespace(cancel=lambda: steps.append("cancelled"))),
        channel=SimpleNamespace(close=close),
    )
    nobody: Any = None
    ending = asyncio.create_task(Renewal(nobody, nobody, "", 1.0, nobody)._finish(old))
    for _ in range(3):
        await asyncio.sleep(0)
    assert steps == []
    answered.set()
    await soon(ending)
    assert steps == ["answered", "unwritten", "cancelled", "closed"]


def staying(spawned: list[object]) -> Stay:
    """A stay whose work is noted and not done."""

    class Noting(Stay):
        def spawn(self, work: Coroutine[object, object, None]) -> None:
            work.close()
            spawned.append(work)

    connection: Any = SimpleNamespace(better="direct", session=SimpleNamespace(kind="direct"))
    peer: Any = None
    return Noting(connection, Position.mgr(), peer)


def renewal() -> Renewal:
    """A child's, of certificates that are always old."""

    async def better_answers(*_: object) -> bool:
        return True

    host: Any = SimpleNamespace(log=get_logger(node="Worker/0/0"), times=TIMES)
    connector: Any = SimpleNamespace(is_stale=lambda _: True, better_answers=better_answers)
    nobody: Any = None
    return Renewal(host, connector, "127.0.0.1:1", 1.0, nobody)


async def test_child_that_moves_for_its_certificates_does_not_move_twice() -> None:
    spawned: list[object] = []
    stay, one = staying(spawned), renewal()
    one.begin(stay)
    one.begin(stay)
    assert len(spawned) == 1


async def test_child_that_moves_to_a_better_link_does_not_move_for_its_certificates_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawned: list[object] = []
    stay, one = staying(spawned), renewal()
    pauses: list[tuple[float, float]] = []

    def uniform(least: float, most: float) -> float:
        pauses.append((least, most))
        return 0.0

    async def move(_: Renewal, moving: Any) -> None:
        one.begin(moving)
        assert not spawned
        moving.connection = SimpleNamespace(better=None, session=moving.session)

    monkeypatch.setattr("taskd_net.base.chance.chance.uniform", uniform)
    monkeypatch.setattr(Renewal, "_move", move)
    await soon(one.improve(stay))
    assert len(spawned) == 1, "its certificates have their turn afterwards"
    assert pauses == [(TIMES.better_link / 2, TIMES.better_link)]
