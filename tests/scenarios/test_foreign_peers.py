"""Mixed trees: a peer with the four calls alone, in each of the four roles, is a full member."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from taskd_net import Code, Position
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, both_links, fast_links, soon
from tests.peers.parent import RawParent, RawProxy
from tests.peers.stubs import name, pb

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@pytest.mark.both_loops
@pytest.mark.parametrize("position", ["Worker/0/0", "Agent/0"])
@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.parametrize("announce_first", [False, True])
async def test_foreign_leaf(mesh: Mesh, position: str, one_at_a_time: bool, announce_first: bool) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    ours = await mesh.worker(0, 5, proxy)
    async with RawChild(position, one_at_a_time=one_at_a_time) as leaf:
        await leaf.join(proxy.address or "", announce_first=announce_first)
        for node in (mgr, proxy, ours):
            ack = await leaf.send(str(node.position), "up")
            assert (ack.code, name(ack.src)) == (0, str(node.position))
            assert (await node.take()).body == "up"
            down = await node.send("down", to=position)
            assert (down.code, str(down.src)) == (0, position)
            assert (await leaf.take()).body == "down"
            assert (await leaf.send(str(node.position), "up", sync=False)).code == 0
            assert (await node.take()).sync is False
            assert (await node.post("down", to=position)).ok
            assert (await leaf.take()).header.sync is False
        to = f"{position.partition('/')[0]}/All/All"
        assert (await mgr.send("to all", to=to)).ok
        message = await leaf.take()
        assert (message.body, message.header.dst.serverRank) == ("to all", "All")
        assert leaf.received.empty()


async def test_leaf_that_handles_one_message_at_a_time(mesh: Mesh) -> None:
    """It answers slowly and in order; every answer finds its message, and no other node waits."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    ours = await mesh.worker(0, 1, proxy)
    async with RawChild("Worker/0/0", one_at_a_time=True) as leaf:
        leaf.delay = 0.05
        await leaf.join(proxy.address or "")
        sends = [asyncio.create_task(mgr.send(str(i), to="Worker/0/0")) for i in range(10)]
        await leaf.take()
        assert (await mgr.send("x", to=ours.position, timeout=0.5)).ok
        acks = await soon(asyncio.gather(*sends))
        assert {ack.code for ack in acks} == {0}
        assert len({ack.uuid for ack in acks}) == 10


async def test_leaf_that_answers_no_async_message(mesh: Mesh) -> None:
    """The contract asks for no such answer; an unsolicited one is dropped."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as leaf:
        leaf.ack_async = False
        await leaf.join(mgr.address or "")
        for _ in range(3):
            assert (await mgr.post("x", to="Worker/0/0")).ok
            await leaf.take()
        assert mgr.statistics.late_acks == 0
        leaf.ack_async = True
        assert (await mgr.post("x", to="Worker/0/0")).ok
        assert (await mgr.send("x", to="Worker/0/0")).ok
        assert mgr.statistics.late_acks == 1


async def test_late_and_unknown_acks_are_dropped(mesh: Mesh) -> None:
    mgr = await mesh.mgr(ack_timeout=0.2)
    async with RawChild("Worker/0/0") as leaf:
        await leaf.join(mgr.address or "")
        leaf.delay = 0.4
        late = await mgr.send("late", to="Worker/0/0")
        assert late.code == Code.NETWORK_ACK_LOST
        await mesh.until(lambda: mgr.statistics.late_acks == 1)
        leaf.delay = 0.0
        for uuid in ("", "nobody's", late.uuid):
            leaf.write_on_stream(pb.Ack(uuid=uuid, code=5999))
        assert (await mgr.send("x", to="Worker/0/0")).ok
        await mesh.until(lambda: mgr.statistics.late_acks == 4)


@pytest.mark.both_loops
@both_links
@pytest.mark.parametrize("confirm", [True, False], ids=["confirms", "silent"])
async def test_our_proxy_below_a_foreign_mgr(mesh: Mesh, confirm: bool) -> None:
    async with RawParent() as mgr:
        mgr.confirm = confirm
        proxy = await mesh.proxy(0, mgr.address)
        one, other = await mesh.worker(0, 0, proxy), await mesh.worker(0, 1, proxy)
        assert set(mgr.routes) == {"Proxy/0", "Worker/0/0", "Worker/0/1"}
        for node in (proxy, one):
            ack = await node.send("up", to="Mgr")
            assert (ack.code, ack.src) == (0, Position.mgr())
            assert (await mgr.take()).header.src.role == node.position.role
            down = await mgr.send(str(node.position), "down")
            assert (down.code, name(down.src)) == (0, str(node.position))
            assert (await node.take()).body == "down"
        assert (await one.post("up", to="Mgr")).ok
        assert (await mgr.take()).header.sync is False
        assert (await mgr.send("Worker/0/0", "down", sync=False)).code == 0
        assert (await one.take()).sync is False
        assert (await one.send("x", to=other.position)).ok
        assert (await mgr.send("Worker/All/All", "to all")).code == 0
        assert (await one.send("to all", to="Worker/All/All")).ok
        assert [message.body for message in (await one.take(), await other.take())] == ["to all", "x"]
        assert await other.take_all(2) == ["to all", "to all"]
        # Only the way down is a stream with Acks up it; no unsolicited one is sent.
        uuids = [mgr.requests["Ack"].get_nowait().uuid for _ in range(mgr.requests["Ack"].qsize())]
        assert len(set(uuids)) == len(uuids) == 3


@pytest.mark.both_loops
@both_links
async def test_foreign_proxy_between_ours(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    other = await mesh.worker(0, 0, mgr)
    async with RawProxy("Proxy/1") as proxy:
        await proxy.join(mgr.address or "")
        inner = await mesh.proxy(2, proxy.address)
        one, two = await mesh.worker(1, 1, proxy.address), await mesh.worker(2, 2, inner)
        nodes = (mgr, other, inner, one, two)
        assert set(map(str, mgr.routes())) == {"Worker/0/0", "Proxy/1", "Proxy/2", "Worker/1/1", "Worker/2/2"}
        for sender in nodes:
            for receiver in nodes:
                ack = await sender.send("x", to=receiver.position)
                assert (ack.code, ack.src) == (0, receiver.position), (sender.position, receiver.position)
                assert (await receiver.take()).src == sender.position
            assert (await sender.send("x", to="Proxy/1")).ok
            assert name((await proxy.take()).header.src) == str(sender.position)
        assert (await mgr.send("to all", to="Worker/All/All")).ok
        assert (await two.send("to all", to="Worker/All/All")).ok
        assert [node.waiting() for node in nodes] == [0, 2, 0, 2, 1]


async def test_foreign_everything_around_one_of_ours(mesh: Mesh) -> None:
    """A Proxy of ours in the middle, with foreign nodes above and below."""
    async with AsyncExitStack() as stack:
        mgr = await stack.enter_async_context(RawParent())
        ours = await mesh.proxy(0, mgr.address)
        below = await stack.enter_async_context(RawProxy("Proxy/1"))
        await below.join(ours.address or "")
        leaves = [
            await stack.enter_async_context(RawChild(position, one_at_a_time=one))
            for position, one in (("Worker/0/0", True), ("Agent/0", False), ("Worker/1/1", False))
        ]
        for leaf, parent in zip(leaves, (ours.address, ours.address, below.address), strict=True):
            await leaf.join(parent or "")
        assert set(mgr.routes.values()) == {"Proxy/0"}
        for leaf in leaves:
            assert (await mgr.send(leaf.position, "down")).code == 0
            assert (await leaf.take()).body == "down"
            assert (await leaf.send("Mgr/0", "up")).code == 0
            assert (await mgr.take()).body == "up"
            for other in leaves:
                if other is not leaf:
                    ack = await leaf.send(other.position, "across")
                    assert (ack.code, name(ack.src)) == (0, other.position)
                    assert (await other.take()).body == "across"
        assert (await mgr.send("Worker/All/All", "to all")).code == 0
        assert [(await leaf.take()).body for leaf in (leaves[0], leaves[2])] == ["to all", "to all"]
        assert all(leaf.received.empty() for leaf in leaves)


async def test_code_of_a_foreign_hop_comes_back_unchanged(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawProxy("Proxy/1") as proxy:
        await proxy.join(mgr.address or "")
        worker = await mesh.worker(1, 1, proxy.address, inbox=1)
        assert (await worker.send("fills it", to=worker.position)).ok
        ack = await mgr.send("x", to=worker.position)
        assert (ack.code, ack.src) == (Code.RECV_BUF_BUSY, worker.position)
        ack = await worker.send("x", to="Worker/9/9")
        assert (ack.code, ack.src) == (Code.NO_ROUTE, mgr.position)


async def test_foreign_proxy_that_freezes_between_ours(mesh: Mesh) -> None:
    """Its neighbours name the silent node, each before the one above gives up."""
    mgr = await mesh.mgr(ack_timeout=1.0)
    async with RawProxy("Proxy/1") as proxy:
        await proxy.join(mgr.address or "")
        worker = await mesh.worker(1, 1, proxy.address, ack_timeout=1.0)
        proxy.hold["TransferMessage"] = asyncio.Event()
        proxy.upstream.reading.clear()
        up = await worker.send("x", to="Mgr", timeout=0.3)
        assert (up.code, up.src) == (Code.NETWORK_ACK_LOST, Position.proxy(1))
        await mgr.send("the one that it is reading", to=worker.position, timeout=0.1)
        down = await mgr.send("x", to=worker.position, timeout=0.3)
        assert (down.code, down.src) == (Code.NETWORK_ACK_LOST, Position.proxy(1))
        proxy.hold.pop("TransferMessage").set()
        proxy.upstream.reading.set()
        assert (await worker.send("x", to="Mgr")).ok


@fast_links
async def test_four_calls_only_between_nodes_of_ours(mesh: Mesh, request: pytest.FixtureRequest) -> None:
    """Either side can do without the better links, also against a peer that offers them."""
    mgr = await mesh.mgr()
    plain = await mesh.worker(0, 0, mgr, links="tasknet")
    fast = await mesh.worker(0, 1, mgr)
    proxy = await mesh.proxy(1, mgr, links="tasknet")
    below = await mesh.worker(1, 2, proxy)
    links = {event["child"]: event["link"] for event in mesh.events if event["event"] == "child_joined"}
    plain_ones = ("Worker/0/0", "Proxy/1", "Worker/1/2")
    assert links == dict.fromkeys(plain_ones, "tasknet") | {"Worker/0/1": request.node.callspec.params["mesh"]}
    nodes = (mgr, plain, fast, proxy, below)
    for sender in nodes:
        for receiver in nodes:
            assert (await sender.send("x", to=receiver.position)).ok
            await receiver.take()
