"""Nodes of the original below ours: our answer to each of their habits (docs/interop.md)."""

import asyncio
import time
from uuid import uuid4

import grpc
import pytest

from taskd_net import Code, NodeConfig, Position
from tests.peers.mesh import Mesh, soon
from tests.peers.original.cluster import Originals, stands
from tests.peers.original.sizes import body_for, wire_message
from tests.peers.parent import RawParent
from tests.peers.wire import Wire
from tests.polling import until
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)

MIB = 1024 * 1024


def known(node: object, *positions: str) -> bool:
    return {*positions} <= {str(position) for position in node.routes()}  # type: ignore[attr-defined]


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_each_role_in_its_own_order(mesh: Mesh, theirs: Originals) -> None:
    """Leaves announce before they open their stream; a Proxy announces its leaves' announcements only."""
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    leaves = [await theirs.start("Worker/0/0", proxy), await theirs.start("Agent/0", proxy)]
    leaves.append(await theirs.start("Worker/1/1", mgr))
    for node in (proxy, *leaves):
        ack = await mgr.send("down", to=node.position)
        assert (ack.code, str(ack.src)) == (0, node.position)
        assert (await node.take()).body == "down"
        assert (await node.send("Mgr/0", "up")).ok
        message = await mgr.take()
        assert (str(message.src), message.body, message.create_time) == (node.position, "up", 0)
    assert {event["peer"] for event in mesh.events if event["event"] == "child_joined"} == {"original"}


async def test_pending_announcement_renews_the_registration(mesh: Mesh, theirs: Originals) -> None:
    """The leaf opens its stream only after the answer to its announcement."""
    async with RawParent() as mgr:
        proxy = await mesh.proxy(0, mgr.address, registration_hold=0.2)
        mgr.hold["PathDiscovery"] = asyncio.Event()
        leaf = await theirs.start("Worker/0/0", proxy, join=False)
        await mgr.requested("PathDiscovery")
        await asyncio.sleep(0.9)  # not to wait for something, but for nothing to happen: four times the hold
        mgr.hold.pop("PathDiscovery").set()
        await leaf.joined()
        await stands(proxy, leaf.position)
        assert leaf.up is not None
        assert (leaf.up.registers, leaf.up.joins) == (1, 1)
        assert (await mgr.send("Worker/0/0", "x")).code == 0


async def test_failed_register_is_a_status(mesh: Mesh, theirs: Originals) -> None:
    """It checks the code there too, but every failed attempt costs it a connection: one a second, no more."""
    mgr = await mesh.mgr(max_children=1)
    await theirs.start("Worker/0/0", mgr)
    other = await theirs.start("Worker/0/1", mgr, join=False)
    up = other.up
    assert up is not None
    await until(lambda: len(up.refused) >= 2)
    assert {*up.refused} == {(grpc.StatusCode.UNKNOWN, "exceed max registry num")}
    assert len(up.leaked) >= 1


async def test_failed_announcement_is_a_status(mesh: Mesh, theirs: Originals) -> None:
    """It checks nothing else: after an Ack of 4999 it would go on as if the root knew it."""
    top = free_address()
    proxy = await mesh.proxy(0, top, join=False)
    leaf = await theirs.start("Worker/0/0", proxy, join=False)
    await mesh.until(lambda: proxy.driver.router.children.find(Position.worker(0, 0)))
    await asyncio.sleep(0.1)  # not to wait for something, but for nothing to happen
    assert leaf.up is not None and leaf.up.joins == 0
    mgr = await mesh.mgr(top)
    await leaf.joined()
    await stands(proxy, leaf.position)
    assert (await mgr.send("x", to=leaf.position)).ok


async def test_failed_message_is_a_status(mesh: Mesh, theirs: Originals) -> None:
    """Most of its callers check nothing else."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr, ack_timeout=0.5)
    full = await mesh.worker(0, 0, proxy, inbox=1)
    none = await mesh.worker(0, 1, proxy, inbox=0)
    gone = await theirs.start("Agent/1", proxy)
    mute = await theirs.start("Worker/0/3", proxy)
    leaf = await theirs.start("Worker/0/2", proxy)
    await full.send("fills it", to=full.position)
    await gone.kill()
    await mesh.logged("child_lost", child=gone.position)
    mute.awake.clear()
    texts = {
        "Worker/7/7": "no route",
        str(full.position): "dst recv buffer busy",
        str(none.position): "5000 RECV_BUF_NIL: the destination has no inbox, or has closed it",
        gone.position: "stream not inited",
        mute.position: "ack time out",
        "Nobody/0": "4003 DST_ROLE_ILLEGAL: the destination's role is not Mgr, Proxy, Agent or Worker",
    }
    for to, text in texts.items():
        answer = await leaf.send(to)
        assert (answer.status, answer.text) == (grpc.StatusCode.UNKNOWN, text)
    assert (await leaf.send("Mgr/0")).ok


async def test_many_in_flight_and_no_ack_for_async(mesh: Mesh, theirs: Originals) -> None:
    mgr = await mesh.mgr()
    leaf = await theirs.start("Worker/0/0", mgr)
    leaf.late = 0.002
    acks = await soon(asyncio.gather(*(mgr.send(str(i), to=leaf.position) for i in range(100))))
    assert {ack.code for ack in acks} == {0}
    for i in range(3):
        assert (await mgr.post(str(i), to=leaf.position)).ok
    assert (await mgr.send("x", to=leaf.position)).ok
    assert mgr.statistics.late_acks == 0
    assert leaf.bodies() == [*map(str, range(100)), "0", "1", "2", "x"]


async def test_turn_of_a_message_at_a_proxy_that_handles_them_one_by_one(mesh: Mesh, theirs: Originals) -> None:
    """Each may take it 3 s: a queued message is not given up before its turn."""
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    mute, well = await theirs.start("Worker/0/0", proxy), await theirs.start("Worker/0/1", proxy)
    sender = await mesh.worker(1, 9, mgr, ack_timeout=20.0)
    mute.awake.clear()
    began = time.monotonic()
    first = asyncio.create_task(sender.send("x", to=mute.position, timeout=20.0))
    await mesh.until(lambda: mgr.driver.router.children.find(Position.proxy(0)).in_flight.count == 1)  # type: ignore[union-attr]
    ack = await sender.send("y", to=well.position, timeout=20.0)
    assert ack.code == 0 and 2.5 < time.monotonic() - began < 6.0
    refused = await soon(first)
    assert (refused.code, str(refused.src)) == (Code.NETWORK_ACK_LOST, "Proxy/0")
    # The sender's timeout holds.
    began = time.monotonic()
    first = asyncio.create_task(sender.send("x", to=mute.position, timeout=0.3))
    late = await sender.send("y", to=mute.position, timeout=0.4)
    assert late.code == Code.NETWORK_ACK_LOST and time.monotonic() - began < 1.0
    await first


@pytest.mark.both_loops
async def test_broadcast_through_a_proxy_that_acks_none(mesh: Mesh, theirs: Originals) -> None:
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    leaves = [await theirs.start(f"Worker/0/{rank}", proxy) for rank in range(3)]
    near = await theirs.start("Worker/1/9", mgr)
    ours = await mesh.worker(1, 5, mgr)
    began = time.monotonic()
    for uuid in ("one", "other"):
        ack = await ours.send(uuid, to="Worker/All/All", uuid=uuid)
        assert ack.ok
    assert time.monotonic() - began < 1.0
    assert (await mgr.post("three", to="Worker/All/All")).ok
    for leaf in (*leaves, near):
        bodies = [(await leaf.take()).body for _ in range(3)]
        assert (bodies, leaf.bodies()) == (["one", "other", "three"], [])
    assert (await ours.take()).body == "three"
    assert mgr.statistics.late_acks == 0


async def test_list_is_expanded(mesh: Mesh, theirs: Originals) -> None:
    """They would read it as the rank of one node."""
    mgr = await mesh.mgr()
    proxy = await theirs.start("Proxy/0", mgr)
    leaves = [await theirs.start(f"Worker/0/{rank}", proxy) for rank in range(3)]
    near = await theirs.start("Worker/1/9", mgr)
    for to in ("Worker/All/0,2,9", "Worker/0,1/0,2,9"):
        ack = await mgr.send(to, to=to)
        assert ack.ok, ack
        assert (await mgr.post(to, to=to)).ok
        for leaf in (leaves[0], leaves[2], near):
            assert [(await leaf.take()).header.dst.processRank for _ in range(2)] == [leaf.me[2]] * 2
    missing = await mgr.send("x", to="Worker/All/0,77")
    assert (missing.code, str(missing.src)) == (Code.NO_ROUTE, "Mgr/0")
    assert leaves[0].bodies() == ["x"]
    assert not leaves[1].bodies()
    leaves[2].room = 0
    partly = await mgr.send("y", to="Worker/0/0,2")
    assert partly.code == Code.RECV_BUF_BUSY


@pytest.mark.parametrize("below", ["Worker/0/0", "Proxy/0"])
async def test_size_that_costs_a_child_its_connection(mesh: Mesh, theirs: Originals, below: str) -> None:
    mgr = await mesh.mgr()
    child = await theirs.start(below, mgr)
    ours = await mesh.worker(1, 1, mgr)
    at = 4 * MIB
    for size, code in ((at - 1, 0), (at, 0), (at + 1, Code.CLIENT_ERR)):
        for sender in (mgr, ours):
            body, uuid = body_for(size, sender.position, child.position), str(uuid4())
            ack = await sender.send(body, to=child.position, uuid=uuid)
            assert (ack.code, str(ack.src)) == (code, child.position if code == 0 else "Mgr/0")
    posted = await mgr.post("x" * at, to=child.position)
    assert posted.code == Code.CLIENT_ERR
    assert (await mgr.send("x", to=child.position)).ok
    assert child.up is not None and child.up.joins == 1
    # Ours take it.
    assert (await mgr.send("x" * at, to=ours.position)).ok


async def test_message_beyond_the_limit_comes_up(mesh: Mesh, theirs: Originals) -> None:
    mgr = await mesh.mgr()
    child = await theirs.start("Worker/0/0", mgr)
    src = Position.worker(0, 0)
    # createTime is 0, so it is absent.
    for size, ok in ((8 * MIB - 1, True), (8 * MIB, True), (8 * MIB + 1, False)):
        answer = await child.send("Mgr/0", body_for(size, src, "Mgr/0", theirs=True), uuid="u" * 36)
        assert answer.ok is ok, (size, answer.text)
        assert ok or answer.text.startswith("4999")
    assert (await child.send("Mgr/0", "x")).ok
    assert child.up is not None and child.up.joins == 1


async def test_routes_are_learnt_from_what_comes_up(mesh: Mesh, theirs: Originals) -> None:
    """After a restart of ours their Proxy is back at once, without its leaves."""
    top, middle = free_address(), free_address()
    mgr = await mesh.mgr(top)
    ours = await mesh.proxy(1, mgr, middle)
    proxy = await theirs.start("Proxy/0", ours)
    leaf = await theirs.start("Worker/0/0", proxy)
    assert (await mgr.send("x", to=leaf.position)).ok
    for _ in range(2):
        await ours.close()
        ours = await mesh.proxy(1, mgr, middle)
        await stands(ours, "Proxy/0")
        await until(lambda: not known(mgr, "Worker/0/0"))
        assert (await mgr.send("x", to=leaf.position)).code == Code.NO_ROUTE
        await proxy.joined()
        assert (await leaf.send("Mgr/0")).ok
        await until(lambda: known(mgr, "Worker/0/0"))
        assert (await mgr.send("x", to=leaf.position)).ok
    # Routes are learnt from their Proxies alone, and never for this node itself or a Mgr.
    for src in ("Proxy/1", "Mgr/0"):
        await proxy.send("Mgr/0", src=src)
    assert {str(position) for position in ours.routes()} == {"Proxy/0", "Worker/0/0"}


async def test_routes_are_kept_when_a_proxy_registers_again(mesh: Mesh, theirs: Originals) -> None:
    mgr = await mesh.mgr()
    async with Wire(mgr.address or "") as wire:
        proxy = await theirs.start("Proxy/0", wire.address)
        await stands(mgr, "Proxy/0")
        leaf = await theirs.start("Worker/0/0", proxy)
        for again in range(2, 4):
            wire.cut()
            await until(lambda again=again: proxy.up is not None and proxy.up.joins >= again)  # type: ignore[misc]
            await stands(mgr, "Proxy/0")
            await mesh.logged("child_joined", times=again)
            assert (await mgr.send("x", to=leaf.position)).ok


async def test_any_process_rank_of_proxies_and_agents(mesh: Mesh, theirs: Originals) -> None:
    """They are known without it, and addressed with it on their links."""
    mgr = await mesh.mgr()
    ours = await mesh.proxy(1, mgr)
    near = await theirs.start("Agent/1/17", ours)
    proxy = await theirs.start("Proxy/0/1700000000", ours)
    far = await theirs.start("Agent/0/99", proxy)
    assert {str(position) for position in mgr.routes()} == {"Proxy/1", "Agent/1", "Proxy/0", "Agent/0"}
    assert {position.process_rank for position in mgr.routes()} == {"-1"}
    for node in (near, proxy, far):
        identity = str(Position(*node.me).identity)
        assert (await mgr.send("x", to=identity)).ok
        assert (await mgr.post("y", to=identity)).ok
        assert [(await node.take()).body for _ in range(2)] == ["x", "y"]
        assert (await node.send("Mgr/0")).ok
    assert (await mgr.send("z", to="Agent/0,1")).ok
    assert [(await node.take()).body for node in (near, far)] == ["z", "z"]
    # A new life with another processRank: the new one counts.
    await near.kill()
    again = await theirs.start("Agent/1", ours)
    assert (await mgr.send("x", to="Agent/1")).ok
    assert (await again.take()).header.dst.processRank == "-1"


async def test_announcement_of_any_process_rank_to_a_parent_of_theirs(mesh: Mesh, theirs: Originals) -> None:
    """Upwards such nodes have -1, and our own three fields are the same in every call."""
    mgr = await theirs.start("Mgr/0")
    position = Position("Proxy", "0", "1700000000")
    ours = await mesh.start(NodeConfig(position=position, listen="127.0.0.1:0", upstream=mgr.address))
    await ours.joined(10)
    leaf = await theirs.start("Agent/0/12", ours)
    assert mgr.down is not None
    assert {*mgr.down.registrations, *mgr.down.stays} == {("Proxy", "0", "-1")}
    assert {proxy for proxy, _ in mgr.down.announcements} == {("Proxy", "0", "-1")}
    assert set(mgr.down.routes) == {("Proxy", "0", "-1"), ("Agent", "0", "-1")}
    for node, to in ((ours, "Proxy/0"), (leaf, "Agent/0")):
        assert (await mgr.send(to, "x")).code == 0
        assert (await node.take()).body == "x"


async def test_who_brings_a_message_counts_before_who_wrote_it(mesh: Mesh, theirs: Originals) -> None:
    """A Worker has moved without its route: its messages must not count as messages from its old place."""
    mgr = await mesh.mgr()
    old, new = await theirs.start("Proxy/0", mgr), await theirs.start("Proxy/1", mgr)
    await theirs.start("Worker/0/0", old)
    other = await theirs.start("Worker/0/1", old)
    # Its announcement through the new place was lost; its messages come from there.
    assert new.up is not None
    moved = await new.up.transfer(wire_message("Worker/0/0", other.position, "moved"))
    assert moved.code == 0
    assert (await other.take()).body == "moved"


async def test_message_for_the_mgr_waits_while_the_mgr_is_away(mesh: Mesh, theirs: Originals) -> None:
    """Their Agent takes any answer for a report of its fault, and never repeats it."""
    top = free_address()
    mgr = await mesh.mgr(top)
    proxy = await mesh.proxy(0, mgr)
    agent = await theirs.start("Agent/0", proxy)
    await mgr.close()
    await mesh.logged("upstream_lost", node=proxy.position)
    reporting = [asyncio.create_task(agent.send("Mgr/0", str(number))) for number in range(3)]
    await until(lambda: len(proxy.driver.router._sends) == 3)
    mgr = await mesh.mgr(top)
    assert [answer.ok for answer in await soon(asyncio.gather(*reporting))] == [True] * 3
    assert sorted([(await mgr.take()).body for _ in range(3)]) == ["0", "1", "2"]


async def test_message_for_a_mgr_that_stays_away_is_refused(mesh: Mesh, theirs: Originals) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    agent = await theirs.start("Agent/0", proxy)
    await mgr.close()
    await mesh.logged("upstream_lost", node=proxy.position)
    began = time.monotonic()
    answer = await agent.send("Mgr/0", "x")
    assert (answer.status, answer.text) == (grpc.StatusCode.UNKNOWN, "stream not inited")
    assert time.monotonic() - began > 7.9
