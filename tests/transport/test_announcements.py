"""Announcements at a parent: by slices between other work, in order, charged before they are read.

They come as calls of gRPC, or over the direct link of the child: the bounds are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from taskd_net import Code, Position
from taskd_net.base import limits
from taskd_net.base.peer_limits import Limits
from taskd_net.core.ready import Kind
from taskd_net.core.topology import ROUTES_SLICE as SLICE
from taskd_net.net.joining import announcements
from taskd_net.net.wire.requests import write_announcement
from tests.core.invariants import check
from tests.peers.child import RawChild
from tests.peers.direct_child import DirectChild
from tests.peers.links import LinkChild
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.peers.stubs import pb, position
from tests.polling import until
from tests.ports import free_address

pytestmark = pytest.mark.timeout(60)

COMPLETE = (("taskd-net-routes", "complete"),)
WITHDRAW = (("taskd-net-routes", "withdraw"),)
HERE = Position.proxy(7)


@pytest.fixture(params=["batched", "direct"])
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Nodes with one kind of link."""
    async with Mesh(request.param) as mesh:
        yield mesh


@pytest.fixture
async def child(request: pytest.FixtureRequest) -> AsyncIterator[LinkChild]:
    """A Proxy of ours that has not joined, with the kind of link of the mesh."""
    direct = request.node.callspec.params["mesh"] == "direct"
    async with DirectChild("Proxy/7") if direct else LinkChild("Proxy/7") as child:
        yield child


def workers(*ranks: int) -> list[Position]:
    """Workers below the child."""
    return [Position.worker(7, rank) for rank in ranks]


async def announce(child: LinkChild, path: Iterable[Position], metadata: Any = ()) -> int:
    """Announce. Returns the code."""
    return int((await child.call("PathDiscovery", write_announcement("a", HERE, path), metadata)).code)


async def give_up(child: LinkChild, *calls: asyncio.Task[Any]) -> None:
    """Let the child go while it waits: a call is cancelled, a link is cut."""
    if isinstance(child, DirectChild):
        await child.cut()
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


def behind(node: WatchedNode) -> set[int]:
    """The ranks behind the child."""
    return {int(at.process_rank) for at in node.driver.router.routes if at.role == "Worker" and at.server_rank == "7"}


def slices_of(node: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Kind, int, bool]]:
    """Kind, length and `continues` of each slice that a node's Router takes in from now on."""
    seen: list[tuple[Kind, int, bool]] = []
    announced = node.driver.router.announced

    def watched(now: float, link: int, kind: Kind, path: list[Position], *rest: Any) -> Any:
        seen.append((kind, len(path), rest[-1]))
        return announced(now, link, kind, path, *rest)

    monkeypatch.setattr(node.driver.router, "announced", watched)
    return seen


async def test_snapshot_is_taken_in_by_slices_and_ends_with_the_last(
    mesh: Mesh, child: LinkChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    mgr = await mesh.mgr()
    await child.join(mgr.address or "")
    assert await announce(child, workers(*range(10_000, 10_000 + 2 * SLICE + 2))) == 0
    register = pb.RegisterReq(uuid="r", pos=position("Proxy/7")).SerializeToString()
    assert (await child.call("Register", register, (("taskd-net-version", "x"),))).code == 0
    seen = slices_of(mgr, monkeypatch)
    last = 2 * SLICE + 1
    assert await announce(child, workers(*range(last + 1)), COMPLETE) == 0
    assert seen == [(Kind.ADD, SLICE, False), (Kind.ADD, SLICE, True), (Kind.COMPLETE, 2, True)]
    await until(lambda: behind(mgr) == set(range(last + 1)), pause=0)
    assert await announce(child, workers(*range(last)), WITHDRAW) == 0
    assert [kind for kind, _, _ in seen[3:]] == [Kind.WITHDRAW] * 3
    assert behind(mgr) == {last}
    check(mgr.driver.router)


async def test_fields_of_another_version_behind_the_path_do_not_hide_its_end(
    mesh: Mesh, child: LinkChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    mgr = await mesh.mgr()
    await child.join(mgr.address or "")
    seen = slices_of(mgr, monkeypatch)
    data = write_announcement("a", HERE, workers(*range(SLICE + 1))) + b"\x20\x01" * 2 * SLICE
    assert (await child.call("PathDiscovery", data, COMPLETE)).code == 0
    assert seen == [(Kind.ADD, SLICE, False), (Kind.COMPLETE, 1, True)]


async def test_path_that_is_no_list_of_positions(mesh: Mesh, child: LinkChild) -> None:
    mgr = await mesh.mgr()
    await child.join(mgr.address or "")
    head = pb.PathDiscoveryReq(uuid="u", proxyPos=position("Proxy/7")).SerializeToString()
    for rest, code in ((b"\x18\x01", Code.NIL_POSITION), (b"\x1a\x05ab", Code.NIL_MESSAGE)):
        ack = await child.call("PathDiscovery", head + rest)
        assert (ack.code, ack.uuid) == (code, "u")


async def test_others_of_the_child_wait_behind_a_long_one_and_messages_pass(mesh: Mesh, child: LinkChild) -> None:
    """The withdrawal that was sent after a long announcement has its effect after it."""
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    await child.join(mgr.address or "")
    passed, over = 0, False

    async def messages() -> None:
        nonlocal passed
        while not over:
            assert (await worker.send("x", to="Mgr")).ok
            await mgr.take()
            passed += 1

    sending = asyncio.create_task(messages())
    count = 20 * SLICE
    long = asyncio.create_task(announce(child, workers(*range(count))))
    await until(lambda: behind(mgr), pause=0)
    before = passed
    assert len(behind(mgr)) < count
    assert await announce(child, workers(0), WITHDRAW) == 0
    assert long.done() and long.result() == 0
    assert behind(mgr) == set(range(1, count))
    assert await announce(child, workers(*range(count)), WITHDRAW) == 0
    assert behind(mgr) == set()
    assert passed > before, "messages pass between two slices"
    over = True
    await soon(sending)


async def test_cancelled_ones_hold_up_none_behind_them(mesh: Mesh, child: LinkChild) -> None:
    """In each place of the line, and between two slices."""
    mgr = await mesh.mgr()
    await child.join(mgr.address or "")
    path = workers(*range(5 * SLICE))
    calls = [asyncio.create_task(announce(child, path)) for _ in range(9)]
    for cancelled in (0, 4, 1, 8):
        calls[cancelled].cancel()
        for _ in range(20 * (cancelled % 4)):
            await asyncio.sleep(0)
    assert await soon(asyncio.gather(*(call for call in calls if not call.cancelling()))) == [0] * 5
    assert await announce(child, path, WITHDRAW) == 0
    assert behind(mgr) == set()
    await asyncio.gather(*calls, return_exceptions=True)
    await mesh.until(lambda: not mgr.driver._requests)
    check(mgr.driver.router)


async def test_failure_of_a_slice_is_the_answer_and_ends_the_announcement(mesh: Mesh, child: LinkChild) -> None:
    mgr = await mesh.mgr(limits=Limits(routes_per_child=SLICE + 3))
    await child.join(mgr.address or "")
    ack = await child.call("PathDiscovery", write_announcement("a", HERE, workers(*range(5 * SLICE))))
    assert (ack.code, ack.uuid) == (Code.EXCEED_MAX_REGISTRY_NUM, "a")
    assert behind(mgr) == set(range(SLICE))
    check(mgr.driver.router)


async def test_child_that_registers_again_ends_its_older_announcements(mesh: Mesh, child: LinkChild) -> None:
    many = 4 * SLICE
    mgr = await mesh.mgr(limits=Limits(routes_per_child=many, positions_per_second=20))
    await child.join(mgr.address or "")
    late = asyncio.create_task(announce(child, workers(*range(many - 1)) * 9, COMPLETE))
    await until(lambda: behind(mgr), pause=0)
    register = pb.RegisterReq(uuid="r", pos=position("Proxy/7")).SerializeToString()
    assert (await child.call("Register", register, (("taskd-net-version", "x"),))).code == 0
    assert await soon(late) == Code.CLIENT_ERR
    check(mgr.driver.router)


async def test_child_that_announces_too_many_waits_and_others_do_not(mesh: Mesh, child: LinkChild) -> None:
    """Refused ones are charged, too; a caller that goes leaves nothing behind."""
    many = 4 * SLICE
    mgr = await mesh.mgr(limits=Limits(routes_per_child=many, positions_per_second=1))
    await child.join(mgr.address or "")
    wrong = [*workers(1), Position("Boss", "1"), *workers(*range(many))]
    assert await announce(child, wrong) == Code.DST_ROLE_ILLEGAL
    waits = asyncio.create_task(announce(child, workers(*range(many))))
    await until(lambda: len(behind(mgr)) >= SLICE, pause=0)
    async with RawChild("Proxy/8") as other:
        await other.join(mgr.address or "")
        assert (await other.announce(*(f"Worker/8/{rank}" for rank in range(50)))).code == 0
    assert not waits.done() and len(behind(mgr)) < many
    await give_up(child, waits)
    await until(lambda: not (mgr.driver.router.quota.size or mgr.driver._requests))
    check(mgr.driver.router)


async def test_announcement_of_many_children_counts_below_16_kib(mesh: Mesh, child: LinkChild) -> None:
    """A thousand children have 16 requests each: below a Proxy without a parent, all of them wait."""
    proxy = await mesh.proxy(0, free_address(), join=False)
    await child.register(proxy.address or "")
    await child.open()
    path = workers(*range(200))
    size = len(write_announcement("a", HERE, path))
    assert size < 16 * 1024
    waits = asyncio.create_task(announce(child, path))
    await until(lambda: proxy.driver.router.quota.size == size * announcements.COPIES)
    await give_up(child, waits)
    await until(lambda: not proxy.driver.router.quota.size)


async def test_bytes_of_announcements_that_wait(mesh: Mesh, child: LinkChild) -> None:
    """Below a Proxy without a parent. The small ones are bounded by the calls of a connection."""
    bounds = Limits(child_bytes=limits.MESSAGE_BYTES)
    proxy = await mesh.proxy(0, free_address(), join=False, limits=bounds)
    await child.register(proxy.address or "")
    await child.open()
    path = workers(*range(30_000))
    size = len(write_announcement("a", HERE, path))
    assert limits.MESSAGE_BYTES / 2 < size * announcements.COPIES < limits.MESSAGE_BYTES
    quota = proxy.driver.router.quota
    first = asyncio.create_task(announce(child, path))
    await until(lambda: quota.size)
    assert await announce(child, path) == Code.RECV_BUF_BUSY
    small = asyncio.create_task(announce(child, workers(1)))
    await give_up(child, first)
    await until(lambda: not quota.size)
    small.cancel()
    await asyncio.gather(small, return_exceptions=True)


async def test_stranger_is_refused_by_the_head_alone(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()

    def read(_: object) -> None:
        raise AssertionError("the path is not looked at")

    monkeypatch.setattr("taskd_net.net.wire.requests.Announcement.slices", read)
    async with RawChild("Proxy/7") as stranger:
        stranger.connect(mgr.address or "")
        assert (await stranger.announce("Worker/7/1")).code == Code.CLIENT_ERR


async def test_honest_proxy_with_a_hostile_child_keeps_its_link(mesh: Mesh, child: LinkChild) -> None:
    """Its announcements wait at its parent, and its messages do not."""
    bounds = Limits(routes_per_child=300, positions_per_second=500)
    mgr = await mesh.mgr(limits=bounds)
    proxy = await mesh.proxy(0, mgr, limits=bounds)
    worker = await mesh.worker(0, 0, proxy)
    await child.join(proxy.address or "")
    calls = [asyncio.create_task(announce(child, workers(*range(100)))) for _ in range(6)]
    for _ in range(20):
        assert (await worker.send("x", to="Mgr")).ok
        await mgr.take()
    assert {await soon(call, 30.0) for call in calls} == {0}
    assert mesh.count("upstream_lost") == mesh.count("child_lost") == 0
    assert behind(mgr) == set(range(100))
    late = await mesh.worker(0, 1, proxy)
    assert (await late.send("x", to="Mgr")).ok
    await mgr.take()
