"""Joining, the pauses between attempts, and leaving."""

import asyncio

import grpc
import pytest

from taskd_net import Code
from taskd_net.core.links import UP
from taskd_net.net.joining import join
from taskd_net.net.links import batched
from taskd_net.net.links.peer import parent_metadata
from taskd_net.net.retry import Backoff
from tests.peers.mesh import Mesh, soon
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
        patch.setattr("taskd_net.net.links.peer.of_parent", lambda _: 1 / 0)
        worker = await mesh.worker(0, 0, mgr, join=False)
        assert worker.driver.joiner is not None
        counted: list[int] = []
        pause = worker.driver.joiner._backoff.pause

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
        assert worker.driver.joiner is not None
        worker.driver.joiner._backoff = Counting()  # type: ignore[assignment]
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
        assert worker.driver.joiner is not None
        worker.driver.joiner._backoff = Counting()  # type: ignore[assignment]
        seen = []
        for _ in range(3):
            opened = await soon(parent.opened.get())
            # A stream that ends before the Worker has seen it stand is no lost one.
            await mesh.until(lambda: UP in worker.driver.links)
            parent.end_stream(opened)
            seen.append(await soon(counted.get()))
        assert seen == [1, 1 + grows, 1 + 2 * grows]
        assert least == [0.0] * 3


@pytest.mark.timeout(30)
async def test_close_has_an_end_though_the_parent_takes_nothing_in(mesh: Mesh) -> None:
    """So many messages that the last ones wait here, and not on the way; and no ping ends the waiting."""
    mesh.let(keepalive=600.0)
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        worker = await mesh.worker(0, 0, wire.address)
        wire.freeze()
        sends = []
        for _ in range(4 * batched.BATCHES_AHEAD):
            sends.append(asyncio.create_task(worker.send("x", to="Mgr", timeout=30)))
            for _ in range(5):
                await asyncio.sleep(0)
        assert [link.busy for link in worker.driver.links.values()] == [True]
        await soon(worker.close(), 8)
        codes = {ack.code for ack in await soon(asyncio.gather(*sends))}
        assert codes <= {Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST}


@pytest.mark.timeout(30)
async def test_node_whose_parent_loses_its_own_way_says_so(mesh: Mesh) -> None:
    """In the log, and to whoever waits for it to join. Nobody reads it of a node that is leaving."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await mgr.close()
    await mesh.logged("mgr_lost", node=worker.position, parent=proxy.position)
    with pytest.raises(TimeoutError, match="Proxy/0, has lost its own way to the Mgr"):
        await worker.joined(0.01)
