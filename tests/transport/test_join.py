"""Joining, the pauses between attempts, and moving to a new connection."""

import asyncio
import socket
from pathlib import Path

import grpc
import pytest

from taskd_net import Code, limits
from taskd_net.core.links import UP
from taskd_net.links import peer as peers
from taskd_net.links.peer import joined_metadata, parent_metadata
from taskd_net.retry import Backoff
from taskd_net.tls.certificates import read
from taskd_net.tls.credentials import ServerCredentials
from taskd_net.tls.strangers import peers_of
from taskd_net.transport import join
from tests.peers.certificates import Folder
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, soon
from tests.peers.parent import RawParent
from tests.peers.stubs import name
from tests.peers.wire import Wire


def test_pauses_double_up_to_their_bound() -> None:
    backoff = Backoff(0.05, 1.0)
    for failures, bound in ((1, 0.05), (2, 0.1), (3, 0.2), (5, 0.8), (6, 1.0), (7, 1.0), (10_000, 1.0)):
        pauses = [backoff.pause(failures) for _ in range(200)]
        assert 0.0 <= min(pauses) < bound / 4
        assert bound * 3 / 4 < max(pauses) <= bound


@pytest.mark.timeout(180)
async def test_fault_of_ours_does_not_keep_a_node_from_joining(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh.expected_errors.add("upstream_failed")
    mgr = await mesh.mgr()
    with monkeypatch.context() as patch:
        patch.setattr("taskd_net.links.peer.of_parent", lambda _: 1 / 0)
        worker = await mesh.worker(0, 0, mgr, join=False)
        assert worker._joiner is not None
        counted: list[int] = []
        pause = worker._joiner._backoff.pause

        def counting(_: Backoff, failures: int) -> float:
            counted.append(failures)
            return pause(failures)

        patch.setattr(Backoff, "pause", counting)
        await mesh.logged("upstream_failed", node=worker.position, times=4)
    assert counted[:2] == [counted[0], counted[0] + 1], "the pauses grow"
    await soon(worker.joined())
    assert (await mgr.send("x", to=worker.position)).ok


@pytest.mark.timeout(180)
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
@pytest.mark.timeout(180)
async def test_connecting_has_an_end_of_its_own(mesh: Mesh) -> None:
    """A frozen parent's kernel accepts connections. The attempt ends by itself, long before the answer is given up."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        worker = await mesh.worker(0, 0, f"127.0.0.1:{frozen.getsockname()[1]}", join=False, ack_timeout=60.0)
        await mesh.logged("join_failed", node=worker.position)
        with pytest.raises(TimeoutError, match="Register: UNAVAILABLE"):
            await worker.joined(0.01)


@pytest.mark.timeout(180)
async def test_parent_of_ours_that_refuses_the_stream(mesh: Mesh) -> None:
    async with RawParent() as parent:
        parent.says = (("taskd-net-version", "0.1.0"),)
        parent.refuse["InitServerDownStream"] = grpc.StatusCode.UNKNOWN
        worker = await mesh.worker(0, 0, parent.address, join=False)
        for _ in range(3):
            await parent.requested("InitServerDownStream")
        parent.refuse.clear()
        await soon(worker.joined())


@pytest.mark.timeout(180)
async def test_parent_is_asked_for_pings_only_where_it_permits_them(mesh: Mesh) -> None:
    """Whether it does it says when a child registers, so a foreign parent sees one registration more."""
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        assert parent.requests["Register"].qsize() == 2
        assert worker._joiner is not None and worker._joiner._connector.pings is False
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert worker._joiner is not None and worker._joiner._connector.pings is True
    async with RawChild("Worker/0/1") as child:
        await child.join(mgr.address or "")


@pytest.mark.timeout(180)
async def test_parent_that_did_not_hear_who_is_gone_is_told_again(mesh: Mesh) -> None:
    async with RawParent() as parent:
        parent.says = parent_metadata(0, ())
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


@pytest.mark.timeout(30)
async def test_announcement_that_is_refused_is_made_again_after_pauses_that_grow(mesh: Mesh) -> None:
    counted: asyncio.Queue[int] = asyncio.Queue()

    class Counting:
        def pause(self, failures: int) -> float:
            counted.put_nowait(failures)
            return 0.001

    async with RawParent() as parent:
        parent.says = (("taskd-net-version", "0.1.0"),)
        parent.refuse["PathDiscovery"] = Code.CLIENT_ERR
        worker = await mesh.worker(0, 0, parent.address, join=False)
        assert worker._joiner is not None
        worker._joiner._backoff = Counting()  # type: ignore[assignment]
        first = await soon(counted.get())
        assert [await soon(counted.get()) for _ in range(3)] == [first + 1, first + 2, first + 3]
        assert mesh.count("upstream_lost") == mesh.count("join_failed") == 0
        parent.refuse.clear()
        await soon(worker.joined())


@pytest.mark.timeout(30)
@pytest.mark.parametrize(("maximum", "grows"), [(1000.0, 1), (-1.0, 0)])
async def test_pauses_after_lost_streams_grow_only_where_they_are_soon_lost(
    mesh: Mesh, maximum: float, grows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that has stood for longer than any pause is a new beginning. Beside these pauses there is none."""
    counted: asyncio.Queue[int] = asyncio.Queue()
    least: list[float] = []

    class Lost(join._Lost):
        def __init__(self, text: str, pause: float) -> None:
            super().__init__(text, pause)
            least.append(pause)

    monkeypatch.setattr(join, "_Lost", Lost)

    class Counting:
        def __init__(self) -> None:
            self.maximum = maximum

        def pause(self, failures: int) -> float:
            counted.put_nowait(failures)
            return 0.001

    async with RawParent() as parent:
        parent.says = (("taskd-net-version", "0.1.0"),)
        worker = await mesh.worker(0, 0, parent.address, join=False)
        assert worker._joiner is not None
        worker._joiner._backoff = Counting()  # type: ignore[assignment]
        seen = []
        for _ in range(3):
            opened = await soon(parent.opened.get())
            # A stream that ends before the Worker has seen it stand is no lost one.
            await mesh.until(lambda: UP in worker.links)
            parent.end_stream(opened)
            seen.append(await soon(counted.get()))
        assert seen == [1, 1 + grows, 1 + 2 * grows]
        assert least == [0.0] * 3


@pytest.mark.timeout(30)
async def test_close_has_an_end_though_the_parent_takes_nothing_in(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many messages that the last ones wait here, and not on the way; and no ping ends the waiting."""
    monkeypatch.setattr(limits, "KEEPALIVE_TIME_S", 600.0)
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        worker = await mesh.worker(0, 0, wire.address)
        wire.freeze()
        sends = []
        for _ in range(4 * limits.BATCHES_AHEAD):
            sends.append(asyncio.create_task(worker.send("x", to="Mgr", timeout=30)))
            for _ in range(5):
                await asyncio.sleep(0)
        assert [link.busy for link in worker.links.values()] == [True]
        await soon(worker.close(), 8)
        codes = {ack.code for ack in await soon(asyncio.gather(*sends))}
        assert codes <= {Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST}


# ---- moving to a new connection


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes need not spread over time here."""
    monkeypatch.setattr(limits, "RENEWAL_SPREAD_S", 0.0)
    monkeypatch.setattr(limits, "CERTIFICATES_LOOK_S", 0.2)


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


@pytest.mark.timeout(30)
async def test_new_connection_tells_again_whether_the_parent_has_joined(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    monkeypatch.setattr(peers, "joined_metadata", lambda joined: joined_metadata(not joined))
    certificates.issue()
    await mesh.logged("renewed", node=worker.position)
    assert not worker.router.joined


@pytest.mark.timeout(30)
async def test_move_that_fails_is_tried_again_after_a_pause_and_leaves_no_connection(
    mesh: Mesh, tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RENEWAL_RETRY_S", 0.5)
    certificates = Folder(tmp_path)
    loop = asyncio.get_running_loop()
    async with RawParent() as parent:
        await secured(parent, certificates)
        parent.says = (("taskd-net-version", "0.1.0"),)
        worker = await mesh.worker(0, 0, parent.address, tls=certificates.connecting())
        assert await soon(parent.requests["Register"].get()) is not None
        parent.refuse["Register"] = Code.EXCEED_MAX_REGISTRY_NUM
        certificates.issue()
        await parent.requested("Register")
        for _ in range(4):
            began = loop.time()
            await parent.requested("Register")
            assert loop.time() - began >= 0.5
        # That over which the node works, and that of the attempt.
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
