"""Joining, loss of the parent, rejoining, and forgetting (docs/contract.md, section 3)."""

import asyncio
import time

import grpc
import pytest

from taskd_net import Code, NodeConfig, Position
from taskd_net.net.retry import Backoff
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, fast_links, soon
from tests.peers.parent import RawParent
from tests.peers.stubs import name
from tests.peers.wire import Wire
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_children_first(mesh: Mesh) -> None:
    top, middle = free_address(), free_address()
    worker = await mesh.worker(0, 0, middle, join=False)
    await mesh.logged("join_failed", node=worker.position)
    proxy = await mesh.proxy(0, top, middle, join=False)
    # A Proxy that starts on a busy machine may first answer too late, which is another trouble.
    joiner = worker.driver.joiner
    assert joiner is not None
    await mesh.until(lambda: "4999" in joiner.trouble)
    with pytest.raises(TimeoutError, match="4999"):
        await worker.joined(0.01)
    mgr = await mesh.mgr(top)
    await soon(asyncio.gather(worker.joined(), proxy.joined()))
    assert (await mgr.send("x", to=worker.position)).ok
    assert (await worker.send("x", to="Mgr")).ok


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)])
async def test_any_starting_order(mesh: Mesh, order: tuple[int, ...]) -> None:
    top, middle = free_address(), free_address()
    configs = [
        NodeConfig.mgr(listen=top),
        NodeConfig.proxy(server_rank=0, upstream=top, listen=middle),
        NodeConfig.worker(server_rank=0, rank=0, upstream=middle),
    ]
    for i in order:
        await mesh.start(configs[i], backoff_max=0.1)
    nodes = {str(node.position): node for node in mesh.nodes}
    await soon(nodes["Worker/0/0"].joined())
    assert (await nodes["Mgr/0"].send("x", to="Worker/0/0")).ok


async def test_leaves_are_members_in_the_moment_that_the_mgr_is_back(mesh: Mesh) -> None:
    """Their announcements wait at the Proxy: none is refused, and none pauses by itself."""
    top = free_address()
    proxy = await mesh.proxy(0, top, join=False)
    workers = [await mesh.worker(0, rank, proxy, join=False, backoff_initial=30, backoff_max=30) for rank in range(4)]
    for worker in workers:
        await mesh.logged("child_joined", node=proxy.position, child=worker.position)
    mgr = await mesh.mgr(top)
    await soon(asyncio.gather(*(worker.joined() for worker in workers)))
    assert not mesh.count("announcement_refused")
    assert {worker.position for worker in workers} < set(mgr.routes())


async def test_joined_means_that_the_mgr_knows_the_way(mesh: Mesh) -> None:
    """Also on a slow way: a leaf gets 0 only after the root's answer."""
    async with RawParent() as mgr:
        mgr.hold["PathDiscovery"] = asyncio.Event()
        proxy = await mesh.proxy(0, mgr.address, join=False)
        worker = await mesh.worker(0, 0, proxy, join=False)
        await mgr.requested("PathDiscovery")
        await mesh.logged("child_joined", node=proxy.position, child=worker.position)
        assert worker.driver.joiner is not None and not worker.driver.joiner.joined.is_set()
        mgr.hold["PathDiscovery"].set()
        await soon(worker.joined())
        assert {"Proxy/0", "Worker/0/0"} <= set(mgr.routes)
        while (code := (await mgr.send("Worker/0/0", "x")).code) == Code.NETWORK_ACK_LOST:
            pass  # the way is known, and a busy machine answers late
        assert code == 0


async def test_leaf_hears_4999_while_the_proxy_has_no_upstream(mesh: Mesh) -> None:
    top = free_address()
    proxy = await mesh.proxy(0, top, join=False)
    async with RawChild("Worker/0/0") as child:
        child.connect(proxy.address or "")
        assert (await child.register()).code == 0
        await child.open_stream()
        refused = await child.announce()
        assert (refused.code, name(refused.src)) == (Code.CLIENT_ERR, "Proxy/0")
        mgr = await mesh.mgr(top)
        await soon(proxy.joined())
        assert (await child.announce()).code == 0
        assert (await mgr.send("x", to="Worker/0/0")).ok


async def test_node_is_routable_soon_after_it_started(mesh: Mesh) -> None:
    """The contract says 100 ms; on two shared cores a test can only check a longer time."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    took = []
    for rank in range(5):
        started = time.monotonic()
        worker = await mesh.worker(0, rank, proxy)
        took.append(time.monotonic() - started)
        assert (await mgr.send("x", to=worker.position)).ok
    assert min(took) < 0.1


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_mgr_restarts_on_its_port(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    address = mgr.address or ""
    proxy = await mesh.proxy(0, mgr)
    inner = await mesh.proxy(1, proxy)
    workers = [await mesh.worker(0, 0, proxy), await mesh.worker(1, 1, inner)]
    for _ in range(2):
        await mgr.close()
        await mesh.logged("upstream_lost", node=proxy.position)
        ack = await workers[1].send("x", to="Mgr", timeout=1.0)
        assert (ack.code, ack.src) == (Code.NET_STREAM_NOT_INITED, proxy.position)
        # Nodes below still reach each other.
        assert (await workers[0].send("x", to=workers[1].position)).ok
        mgr = await mesh.mgr(address)
        known = mgr.routes
        await mesh.until(lambda known=known: {worker.position for worker in workers} <= set(known()))  # type: ignore[misc]
        for worker in workers:
            assert (await mgr.send("x", to=worker.position)).ok
            assert (await worker.send("x", to="Mgr")).ok
        mesh.events.clear()


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_proxy_restarts(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    other = await mesh.worker(1, 1, await mesh.proxy(1, mgr))
    worker = await mesh.worker(0, 0, proxy)
    await proxy.close()
    await mesh.logged("upstream_lost", node=worker.position)
    assert (await other.send("x", to="Mgr")).ok
    assert (await mgr.send("x", to=worker.position)).code == Code.NET_STREAM_NOT_INITED
    await mesh.proxy(0, mgr, proxy.address or "")
    await mesh.logged("joined", node=worker.position, times=2)
    assert (await mgr.send("x", to=worker.position)).ok
    assert (await worker.send("x", to=other.position)).ok


async def test_connection_breaks_in_the_middle(mesh: Mesh) -> None:
    """A Proxy with a cut link announces everything below it after rejoining, with a message under way meanwhile."""
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        proxy = await mesh.proxy(0, wire.address)
        worker = await mesh.worker(0, 0, proxy, ack_timeout=10.0)
        for i in range(3):
            await mesh.logged("joined", node=proxy.position, times=i + 1)
            wire.cut()
            await mesh.logged("upstream_lost", node=proxy.position, times=i + 1)
            # It waits at the Worker only while the Worker has not joined; the Proxy answers for itself at once.
            ack = await worker.send("x", to="Mgr")
            assert ack.code in (Code.OK, Code.NET_STREAM_NOT_INITED, Code.NETWORK_ACK_LOST)
        await mesh.logged("joined", node=proxy.position, times=4)
        assert (await mgr.send("x", to=worker.position)).ok
        assert (await worker.send("x", to="Mgr")).ok


@pytest.mark.parametrize("stage", ["Register", "InitServerDownStream", "PathDiscovery"])
@pytest.mark.parametrize("fault", ["refuses", "cuts"])
async def test_fault_at_each_step_of_joining(mesh: Mesh, stage: str, fault: str) -> None:
    """A fault of the parent at any step delays the join only until the fault ends."""
    async with RawParent() as parent, Wire(parent.address) as wire:
        if fault == "refuses":
            parent.refuse[stage] = grpc.StatusCode.INTERNAL if stage == "InitServerDownStream" else Code.SERVER_ERR
        else:
            parent.hold[stage] = asyncio.Event()
            # This parent does not confirm a stream; its answer to the announcement is the only sign.
            parent.hold["PathDiscovery"] = asyncio.Event()
        worker = await mesh.worker(0, 0, wire.address, join=False)
        for _ in range(3):
            await parent.requested(stage)
            if fault == "cuts":
                wire.cut()
        with pytest.raises(TimeoutError, match=r"Worker/0/0 has not joined 127\.0\.0\.1:\d+ within 0\.01 s: \w+"):
            await worker.joined(0.01)
        parent.refuse.clear()
        for event in parent.hold.values():
            event.set()
        await soon(worker.joined())
        assert (await worker.send("x", to="Mgr")).ok
        assert (await parent.send("Worker/0/0", "x")).code == 0


async def test_stream_that_the_parent_ends_during_the_announcement(mesh: Mesh) -> None:
    """The node must not mistake its pending announcement for an answer."""
    async with RawParent() as parent:
        parent.hold["PathDiscovery"] = asyncio.Event()
        worker = await mesh.worker(0, 0, parent.address, join=False)
        for _ in range(3):
            await parent.requested("PathDiscovery")
            parent.end_stream("Worker/0/0")
        await parent.requested("PathDiscovery")
        parent.hold.pop("PathDiscovery").set()
        await soon(worker.joined())
        assert (await worker.send("x", to="Mgr")).ok


async def test_parent_that_ends_each_stream_at_once_is_not_hammered(mesh: Mesh) -> None:
    """The pauses grow until the node has been a member for some time."""
    async with RawParent() as parent:
        parent.confirm = False
        parent.refuse["InitServerDownStream"] = grpc.StatusCode.UNKNOWN
        failures: list[int] = []

        class Recorded(Backoff):
            def pause(self, count: int) -> float:
                failures.append(count)
                return 0.0

        worker = await mesh.worker(0, 0, parent.address, join=False)
        assert worker.driver.joiner is not None
        worker.driver.joiner._backoff = Recorded(0.1, 30.0)
        for _ in range(6):
            await parent.requested("InitServerDownStream")
        assert {1, 2, 3, 4, 5} <= set(failures)


@pytest.mark.oldest
async def test_send_before_join_waits_for_it(mesh: Mesh) -> None:
    top = free_address()
    worker = await mesh.worker(0, 0, top, join=False)
    sends = [asyncio.create_task(worker.send(str(i), to="Mgr", timeout=20)) for i in range(3)]
    post = asyncio.create_task(worker.post("3", to="Mgr", timeout=20))
    late = await worker.send("late", to="Mgr", timeout=0.05)
    assert (late.code, late.src) == (Code.NET_STREAM_NOT_INITED, worker.position)
    mgr = await mesh.mgr(top)
    assert {ack.code for ack in await soon(asyncio.gather(*sends, post))} == {0}
    assert sorted(await mgr.take_all(4)) == ["0", "1", "2", "3"]
    assert mgr.waiting() == 0


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_newcomer_takes_the_position(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as old, RawChild("Worker/0/0") as new:
        await old.join(mgr.address or "")
        assert (await mgr.send("1", to="Worker/0/0")).ok
        await new.join(mgr.address or "")
        assert await old.ended() is grpc.StatusCode.ALREADY_EXISTS
        assert (await mgr.send("2", to="Worker/0/0")).ok
        assert ((await old.take()).body, (await new.take()).body) == ("1", "2")
        assert old.received.empty()


async def test_node_whose_position_is_taken_does_not_fight_back(mesh: Mesh) -> None:
    mesh.let(position_taken=1.0)
    mesh.expected_errors.add("position_taken")
    mgr = await mesh.mgr()
    old = await mesh.worker(0, 0, mgr)
    async with RawChild("Worker/0/0") as new:
        await new.join(mgr.address or "")
        await mesh.logged("position_taken", node=old.position)
        taken_at = time.monotonic()
        assert (await mgr.send("x", to="Worker/0/0")).ok
        assert (await new.take()).body == "x"
        # It tries again after the pause at the earliest, as the newcomer.
        assert await new.ended() is grpc.StatusCode.ALREADY_EXISTS
        assert time.monotonic() - taken_at >= 0.9
        await soon(old.joined())
        assert (await mgr.send("y", to="Worker/0/0")).ok
        assert (await old.take()).body == "y"


async def test_position_taken_under_traffic(mesh: Mesh) -> None:
    """The old node is busy acknowledging when its stream ends, and still learns the reason."""
    mesh.expected_errors.add("position_taken")
    mgr = await mesh.mgr()
    old = await mesh.worker(0, 0, mgr, inbox=4096)
    sends = [asyncio.create_task(mgr.send(str(i), to="Worker/0/0", timeout=10)) for i in range(600)]
    await mesh.until(lambda: old.waiting() > 50)
    async with RawChild("Worker/0/0") as new:
        await new.join(mgr.address or "")
        await mesh.logged("position_taken", node=old.position)
        codes = {ack.code for ack in await soon(asyncio.gather(*sends))}
        assert codes <= {Code.OK, Code.NETWORK_ACK_LOST, Code.NETWORK_SEND_LOST}
        assert (await mgr.send("x", to="Worker/0/0")).ok


async def test_what_a_replaced_stream_had_not_written_was_never_sent(mesh: Mesh) -> None:
    mgr = await mesh.mgr(ack_timeout=20.0)
    async with RawChild("Worker/0/0") as old, RawChild("Worker/0/0") as new:
        old.drop_acks = True
        await old.join(mgr.address or "")
        first = asyncio.create_task(mgr.send("written", to="Worker/0/0"))
        await old.take()
        old.reading.clear()
        rest = [asyncio.create_task(mgr.send("x" * 1_000_000, to="Worker/0/0")) for _ in range(12)]
        await mesh.until(lambda: mgr.driver.router.statistics.forwarded == 13)
        await new.join(mgr.address or "")
        assert (await soon(first)).code == Code.NETWORK_ACK_LOST
        acks = await soon(asyncio.gather(*rest))
        assert acks[-1].code == Code.NETWORK_SEND_LOST
        assert (await mgr.send("x", to="Worker/0/0")).ok
        old.reading.set()
        assert await old.ended() is grpc.StatusCode.ALREADY_EXISTS


async def test_new_incarnation_of_a_proxy_replaces_it(mesh: Mesh) -> None:
    """The processRank is part of the identity for Workers alone."""
    mgr = await mesh.mgr()
    async with RawChild("Proxy/0/1700000000") as old, RawChild("Proxy/0/1700000009") as new:
        for child in (old, new):
            await child.join(mgr.address or "")
            assert (await child.announce("Worker/0/0")).code == 0
        assert await old.ended() is grpc.StatusCode.ALREADY_EXISTS
        assert len(mgr.driver.router.children) == 1
        assert (await mgr.send("x", to="Worker/0/0")).code == 0
        assert (await new.take()).body == "x"


async def test_child_that_stays_away_is_forgotten_with_its_routes_everywhere(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr, grace=0.3)
    worker = await mesh.worker(0, 0, proxy)
    other = await mesh.worker(0, 1, proxy)
    await worker.close()
    await mesh.logged("child_lost", node=proxy.position, child=worker.position)
    assert (await mgr.send("x", to=worker.position)).code == Code.NET_STREAM_NOT_INITED
    await mesh.logged("child_forgotten", node=proxy.position, child=worker.position, routes=1)
    await mesh.until(lambda: worker.position not in mgr.routes())
    ack = await mgr.send("x", to=worker.position)
    assert (ack.code, ack.src) == (Code.NO_ROUTE, mgr.position)
    assert set(mgr.routes()) == {proxy.position, other.position}
    assert (await mgr.send("x", to=other.position)).ok


async def test_inner_proxy_that_stays_away_is_forgotten_with_everything_behind_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr(grace=0.3)
    outer = await mesh.proxy(0, mgr, grace=0.3)
    inner = await mesh.proxy(1, outer)
    await mesh.worker(1, 0, inner)
    await inner.close()
    await mesh.logged("child_forgotten", node=outer.position, child=inner.position, routes=2)
    await mesh.until(lambda: set(mgr.routes()) == {outer.position})


async def test_routes_outlive_a_short_loss(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Proxy/0") as child:
        await child.join(mgr.address or "")
        assert (await child.announce("Worker/0/0", "Agent/0")).code == 0
        await child.cut()
        await mesh.logged("child_lost", node=mgr.position)
        child.connect(mgr.address or "")
        assert (await child.register()).code == 0
        assert (await mgr.send("x", to="Worker/0/0")).code == Code.NET_STREAM_NOT_INITED
        await child.open_stream()
        assert (await mgr.send("x", to="Worker/0/0")).ok
        assert (await mgr.send("x", to="Agent/0")).ok


async def test_registration_without_a_stream_holds_its_place_for_a_while(mesh: Mesh) -> None:
    mgr = await mesh.mgr(max_children=1, registration_hold=0.4)
    async with RawChild("Worker/0/0") as waiting, RawChild("Worker/0/1") as other:
        waiting.connect(mgr.address or "")
        other.connect(mgr.address or "")
        assert (await waiting.register()).code == 0
        assert (await other.register()).code == Code.EXCEED_MAX_REGISTRY_NUM
        await mesh.logged("child_forgotten", child="Worker/0/0")
        assert (await other.register()).code == 0
        # A stream after the registration's end is refused; a new registration helps.
        await waiting.open_stream()
        assert await waiting.ended() is grpc.StatusCode.UNKNOWN
        assert (await waiting.register()).code == Code.EXCEED_MAX_REGISTRY_NUM


async def test_announcement_renews_a_registration(mesh: Mesh) -> None:
    """Leaves of the original announce first, and open their stream when it is accepted."""
    mgr = await mesh.mgr(registration_hold=0.5)
    async with RawChild("Worker/0/0") as child:
        child.connect(mgr.address or "")
        assert (await child.register()).code == 0
        link = next(iter(mgr.driver.router.children.by_id.values()))
        first = link.expires
        assert (await child.announce()).code == 0
        assert link.expires > first
        await child.open_stream()
        assert link.expires == float("inf")
        assert (await mgr.send("x", to="Worker/0/0")).ok


async def test_full_registry_gives_its_next_free_place_away(mesh: Mesh) -> None:
    mgr = await mesh.mgr(max_children=1, grace=0.2)
    first = await mesh.worker(0, 0, mgr)
    second = await mesh.worker(0, 1, mgr, join=False)
    await mesh.logged("join_failed", node=second.position)
    with pytest.raises(TimeoutError, match="5003"):
        await second.joined(0.01)
    await first.close()
    await soon(second.joined())
    assert (await mgr.send("x", to=second.position)).ok


async def test_worker_moves_to_another_proxy(mesh: Mesh) -> None:
    """The route through the new Proxy replaces the old one, and stays when the old Proxy forgets it later."""
    mgr = await mesh.mgr()
    old_proxy = await mesh.proxy(0, mgr, grace=0.3)
    new_proxy = await mesh.proxy(1, mgr)
    first = await mesh.worker(0, 0, old_proxy)
    await first.close()
    moved = await mesh.worker(0, 0, new_proxy)
    assert mgr.routes()[moved.position] == new_proxy.position
    await mesh.logged("child_forgotten", node=old_proxy.position, child=moved.position)
    # The withdrawal is answered before a later announcement of the same Proxy.
    await mesh.worker(0, 1, old_proxy)
    assert mgr.routes()[moved.position] == new_proxy.position
    assert (await mgr.send("x", to=moved.position)).ok
    assert (await moved.send("x", to=Position.worker(0, 1))).ok


async def test_proxy_that_comes_back_with_less_below_it(mesh: Mesh) -> None:
    """The announcement after a rejoin is complete: other routes are gone, at the Mgr as well."""
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        proxy = await mesh.proxy(0, wire.address, grace=0.2)
        stays, goes = await mesh.worker(0, 0, proxy), await mesh.worker(0, 1, proxy)
        wire.plugged = False
        wire.cut()
        await mesh.logged("upstream_lost", node=proxy.position)
        await goes.close()
        await mesh.logged("child_forgotten", node=proxy.position, child=goes.position)
        assert goes.position in mgr.routes()
        wire.plugged = True
        await mesh.until(lambda: goes.position not in mgr.routes())
        assert set(mgr.routes()) == {proxy.position, stays.position}


@fast_links
async def test_frozen_connection_is_noticed_on_both_sides(mesh: Mesh) -> None:
    """No break and no data: pings detect it, 5 s after the last sign of life, within 2 s; over a direct link later.

    There, the other end may be a process that is stopped or holds its interpreter.
    """
    mesh.let(silent=9.0)
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        worker = await mesh.worker(0, 0, wire.address)
        wire.freeze()
        frozen_at = time.monotonic()
        ack = await mgr.send("x", to=worker.position)
        assert (ack.code, ack.src) == (Code.NETWORK_ACK_LOST, worker.position)
        await mesh.logged("child_lost", node=mgr.position, timeout=15)
        await mesh.logged("upstream_lost", node=worker.position, timeout=15)
        assert time.monotonic() - frozen_at < 14
        wire.thaw()
        await mesh.logged("joined", node=worker.position, times=2)
        assert (await mgr.send("x", to=worker.position)).ok
