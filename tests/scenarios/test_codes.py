"""Every code of the contract (section 6), provoked through real sockets and seen at the sender."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from taskd_net import Ack, Code, Position
from taskd_net.base.position import Destination
from taskd_net.core.links import Link
from taskd_net.core.topology import Topology
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon
from tests.peers.parent import RawParent
from tests.peers.stubs import name, pb, position
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]

MIB = 1024 * 1024

Case = Callable[[Mesh], Awaitable[None]]
CASES: list[tuple[Code, Case]] = []
"""Every test of this file, with its code."""


def provokes(code: Code) -> Callable[[Case], Case]:
    """Register the code of a case."""

    def note(case: Case) -> Case:
        CASES.append((code, case))
        return case

    return note


async def small_mesh(mesh: Mesh) -> tuple[WatchedNode, WatchedNode, WatchedNode]:
    """A Mgr, a Proxy and a Worker."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    return mgr, proxy, await mesh.worker(0, 0, proxy)


@provokes(Code.OK)
async def ok_sync(mesh: Mesh) -> None:
    mgr, _, worker = await small_mesh(mesh)
    ack = await worker.send("up", to="Mgr")
    assert (ack.code, ack.src, ack.ok) == (0, Position.mgr(), True)
    assert (await mgr.take()).body == "up"


@provokes(Code.OK)
async def ok_async_is_from_the_first_hop(mesh: Mesh) -> None:
    mgr, proxy, worker = await small_mesh(mesh)
    ack = await worker.post("up", to="Mgr")
    assert (ack.code, ack.src) == (0, proxy.position)
    assert (await mgr.take()).body == "up"


async def _refused_everywhere(mesh: Mesh, message: Any, code: Code) -> None:
    """A foreign sender's bad message is refused at the first hop, with its uuid, and harms nothing."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        ack = await child.transfer(message)
        assert (ack.code, ack.uuid, name(ack.src)) == (code, message.header.uuid, "Mgr/0")
        assert (await child.send("Mgr/0", "still here")).code == 0


def _message(**header: Any) -> Any:
    full: dict[str, Any] = {"uuid": "u-1", "sync": True, "src": position("Worker/0/0"), "dst": position("Mgr/0")}
    return pb.Message(header=pb.MessageHeader(**{k: v for k, v in (full | header).items() if v is not None}), body="b")


async def _refused_at_sender(mesh: Mesh, to: str | Position, code: Code) -> None:
    _, _, worker = await small_mesh(mesh)
    for ack in (await worker.send("x", to=to), await worker.post("x", to=to)):
        assert (ack.code, ack.src) == (code, worker.position)
        assert ack.detail


@provokes(Code.NIL_MESSAGE)
async def no_message(mesh: Mesh) -> None:
    _, _, worker = await small_mesh(mesh)
    assert (await worker.send(None, to="Mgr")).code == Code.NIL_MESSAGE
    assert (await worker.post(None, to="Mgr")).code == Code.NIL_MESSAGE


@provokes(Code.NIL_MESSAGE)
async def bytes_that_are_no_message(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        assert (await child.call("TransferMessage", b"\xff\xff\xff")).code == Code.NIL_MESSAGE


@provokes(Code.NIL_HEADER)
async def no_header(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, pb.Message(body="no header"), Code.NIL_HEADER)


@provokes(Code.NIL_HEADER)
async def nothing_at_all_has_no_header(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, pb.Message(), Code.NIL_HEADER)


@provokes(Code.NIL_POSITION)
async def no_src(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, _message(src=None), Code.NIL_POSITION)


@provokes(Code.NIL_POSITION)
async def no_dst(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, _message(dst=None), Code.NIL_POSITION)


@provokes(Code.DST_ROLE_ILLEGAL)
async def unknown_role(mesh: Mesh) -> None:
    await _refused_at_sender(mesh, "Boss/0", Code.DST_ROLE_ILLEGAL)


@provokes(Code.DST_ROLE_ILLEGAL)
async def unknown_role_from_a_foreign_sender(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, _message(dst=position("mgr/0")), Code.DST_ROLE_ILLEGAL)


@provokes(Code.DST_SRV_RANK_ILLEGAL)
async def server_rank_that_is_none(mesh: Mesh) -> None:
    await _refused_at_sender(mesh, "Worker/first/0", Code.DST_SRV_RANK_ILLEGAL)


@provokes(Code.DST_SRV_RANK_ILLEGAL)
async def server_rank_that_is_none_from_a_foreign_sender(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, _message(dst=position("Proxy/0,,1")), Code.DST_SRV_RANK_ILLEGAL)


@provokes(Code.DST_PROCESS_RANK_ILLEGAL)
async def process_rank_that_is_none(mesh: Mesh) -> None:
    await _refused_at_sender(mesh, Position("Worker", "0", ""), Code.DST_PROCESS_RANK_ILLEGAL)


@provokes(Code.DST_PROCESS_RANK_ILLEGAL)
async def process_rank_that_is_none_from_a_foreign_sender(mesh: Mesh) -> None:
    await _refused_everywhere(mesh, _message(dst=position("Worker/0/-1")), Code.DST_PROCESS_RANK_ILLEGAL)


@provokes(Code.DST_TYPE_ILLEGAL)
async def list_without_end(mesh: Mesh) -> None:
    ranks = ",".join(map(str, range(20_000)))
    await _refused_at_sender(mesh, Position("Worker", "All", ranks), Code.DST_TYPE_ILLEGAL)


@provokes(Code.DST_TYPE_ILLEGAL)
async def list_without_end_from_a_foreign_sender(mesh: Mesh) -> None:
    ranks = ",".join(map(str, range(20_000)))
    await _refused_everywhere(mesh, _message(dst=position(f"Proxy/{ranks}")), Code.DST_TYPE_ILLEGAL)


@provokes(Code.CLIENT_ERR)
async def more_than_fits(mesh: Mesh) -> None:
    mgr, _, worker = await small_mesh(mesh)
    ack = await worker.send("x" * 8 * MIB, to="Mgr")
    assert ack.code == Code.CLIENT_ERR
    assert "8388608" in ack.detail
    assert not mgr.waiting()


@provokes(Code.CLIENT_ERR)
async def node_that_is_closed(mesh: Mesh) -> None:
    _, _, worker = await small_mesh(mesh)
    await worker.close()
    ack = await worker.send("x", to="Mgr")
    assert (ack.code, ack.src, ack.detail) == (Code.CLIENT_ERR, worker.position, "the node is closed")


@provokes(Code.CLIENT_ERR)
async def announcement_to_a_proxy_without_upstream(mesh: Mesh) -> None:
    proxy = await mesh.proxy(0, free_address(), join=False)
    async with RawChild("Worker/0/0") as child:
        child.connect(proxy.address or "")
        assert (await child.register()).code == 0
        await child.open_stream()
        assert (await child.announce()).code == Code.CLIENT_ERR


@provokes(Code.RECV_BUF_NIL)
async def no_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    deaf = await mesh.worker(0, 0, proxy, inbox=0)
    ack = await mgr.send("x", to=deaf.position)
    assert (ack.code, ack.src) == (Code.RECV_BUF_NIL, deaf.position)


@provokes(Code.RECV_BUF_NIL)
async def inbox_that_closes_while_a_message_stands_before_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, inbox=1)
    worker.wait_long_for_room()
    assert (await mgr.send("fills it", to=worker.position)).ok
    assert (await mgr.post("waits", to=worker.position)).ok
    waits = asyncio.create_task(worker.send("waits too", to=worker.position))
    await mesh.until(lambda: len(worker.driver.router.gate.line) == 2)
    await worker.close()
    ack = await soon(waits)
    assert (ack.code, ack.src) == (Code.RECV_BUF_NIL, worker.position)


@provokes(Code.RECV_BUF_BUSY)
async def full_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, await mesh.proxy(0, mgr), inbox=2)
    acks = [await mgr.send(str(i), to=worker.position) for i in range(3)]
    assert [ack.code for ack in acks] == [0, 0, Code.RECV_BUF_BUSY]
    assert acks[-1].src == worker.position
    assert await worker.take_all(2) == ["0", "1"]
    again = await mgr.send("2", to=worker.position, uuid=acks[-1].uuid)
    assert again.ok
    assert await worker.take_all(1) == ["2"]


@provokes(Code.RECV_BUF_BUSY)
async def full_link(mesh: Mesh) -> None:
    """A child that does not read costs its parent bounded memory; beyond it the answer comes at once."""
    mgr = await mesh.mgr(ack_timeout=20.0)
    async with RawChild("Worker/0/0") as child:
        child.reading.clear()
        await child.join(mgr.address or "")
        first = [asyncio.create_task(mgr.send("x" * MIB, to="Worker/0/0")) for _ in range(40)]
        done, pending = await asyncio.wait(first, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result().code for task in done} == {Code.RECV_BUF_BUSY}
        link = next(iter(mgr.driver.router.children.by_id.values()))
        assert link.queued_bytes <= 16 * MIB
        child.reading.set()
        assert {ack.code for ack in await asyncio.gather(*pending)} == {0}


@provokes(Code.NO_ROUTE)
async def rank_that_does_not_exist(mesh: Mesh) -> None:
    mgr, _, worker = await small_mesh(mesh)
    up = await worker.send("x", to="Worker/9/99")
    assert (up.code, up.src) == (Code.NO_ROUTE, mgr.position)
    down = await mgr.send("x", to="Agent/0")
    assert (down.code, down.src) == (Code.NO_ROUTE, mgr.position)


@provokes(Code.EXCEED_MAX_REGISTRY_NUM)
async def parent_that_is_full(mesh: Mesh) -> None:
    mgr = await mesh.mgr(max_children=1)
    await mesh.worker(0, 0, mgr)
    async with RawChild("Worker/0/1") as child:
        child.connect(mgr.address or "")
        ack = await child.register()
        assert (ack.code, name(ack.src)) == (Code.EXCEED_MAX_REGISTRY_NUM, "Mgr/0")


@provokes(Code.SERVER_ERR)
async def far_side_that_fails_in_itself(mesh: Mesh) -> None:
    """A fault inside a node is answered and logged, at no cost to others."""
    mesh.expected_errors.add("request_failed")
    mgr, proxy, worker = await small_mesh(mesh)
    next_hop = Topology.next_hop

    def fails(topology: Topology, dst: Destination, came_from: int) -> Link | None:
        if topology.identity == proxy.position:
            raise ZeroDivisionError("a fault of the node's own")
        return next_hop(topology, dst, came_from)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Topology, "next_hop", fails)
        for sender, to in ((worker, "Mgr"), (mgr, "Worker/0/0")):
            ack = await sender.send("x", to=to)
            assert (ack.code, ack.src) == (Code.SERVER_ERR, proxy.position)
    for sender, to in ((worker, "Mgr"), (mgr, "Worker/0/0")):
        assert (await sender.send("x", to=to)).ok


@provokes(Code.SERVER_ERR)
async def code_of_a_foreign_node_comes_through(mesh: Mesh) -> None:
    mgr, proxy, worker = await small_mesh(mesh)
    async with RawChild("Agent/0") as agent:
        await agent.join(proxy.address or "")
        agent.code = Code.SERVER_ERR
        for sender in (mgr, worker):
            ack = await sender.send("x", to="Agent/0")
            assert (ack.code, ack.src) == (Code.SERVER_ERR, Position.agent(0))


@provokes(Code.NETWORK_SEND_LOST)
async def stream_that_broke_before_the_message_was_written(mesh: Mesh) -> None:
    """A written message without an Ack gets 6001. A message still queued when the child dies gets 6000."""
    mgr = await mesh.mgr(ack_timeout=20.0)
    async with RawChild("Worker/0/0") as child:
        child.drop_acks = True
        await child.join(mgr.address or "")
        sends = [asyncio.create_task(mgr.send("written", to="Worker/0/0"))]
        assert (await child.take()).body == "written"
        child.reading.clear()
        sends += [asyncio.create_task(mgr.send("x" * MIB, to="Worker/0/0")) for _ in range(12)]
        await mesh.until(lambda: mgr.driver.router.statistics.forwarded == len(sends))
        await child.cut()
        acks = await soon(asyncio.gather(*sends))
        codes = [ack.code for ack in acks]
        assert set(codes) == {Code.NETWORK_SEND_LOST, Code.NETWORK_ACK_LOST}
        assert codes == sorted(codes, reverse=True), "those in front were written first"
        assert {ack.src for ack in acks} == {Position.worker(0, 0)}


@provokes(Code.NETWORK_ACK_LOST)
async def node_one_hop_away_that_does_not_answer(mesh: Mesh) -> None:
    mgr = await mesh.mgr(ack_timeout=0.3)
    async with RawChild("Worker/0/0") as child:
        child.drop_acks = True
        await child.join(mgr.address or "")
        ack = await mgr.send("x", to="Worker/0/0")
        assert (ack.code, ack.src) == (Code.NETWORK_ACK_LOST, Position.worker(0, 0))
        assert (await child.take()).body == "x"


@provokes(Code.NETWORK_ACK_LOST)
async def node_two_hops_away_that_does_not_answer(mesh: Mesh) -> None:
    """Each hop gives up before the one above it, so the answer names the silent node."""
    mgr = await mesh.mgr(ack_timeout=1.0)
    outer = await mesh.proxy(0, mgr, ack_timeout=1.0)
    inner = await mesh.proxy(1, outer, ack_timeout=1.0)
    other = await mesh.worker(0, 5, outer, ack_timeout=1.0)
    async with RawChild("Worker/1/0") as child:
        child.drop_acks = True
        await child.join(inner.address or "")
        for sender in (mgr, outer, inner, other):
            ack = await sender.send("x", to="Worker/1/0")
            assert (ack.code, ack.src) == (Code.NETWORK_ACK_LOST, Position.worker(1, 0)), sender.position


@provokes(Code.NETWORK_ACK_LOST)
async def parent_that_does_not_answer(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address, ack_timeout=0.3)
        parent.hold["TransferMessage"] = asyncio.Event()
        for ack in (await worker.send("x", to="Mgr"), await worker.post("x", to="Mgr")):
            assert (ack.code, ack.src) == (Code.NETWORK_ACK_LOST, Position.mgr())


@provokes(Code.NETWORK_ACK_LOST)
async def parent_that_dies_with_the_message(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        parent.hold["TransferMessage"] = asyncio.Event()
        send = asyncio.create_task(worker.send("x", to="Mgr", timeout=20))
        await parent.requested("TransferMessage")
        await parent.stop()
        ack = await soon(send)
        assert (ack.code, ack.src) == (Code.NETWORK_ACK_LOST, Position.mgr())


@provokes(Code.NET_STREAM_NOT_INITED)
async def sender_that_has_not_joined(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, free_address(), join=False)
    ack = await worker.send("x", to="Mgr", timeout=0.1)
    assert (ack.code, ack.src) == (Code.NET_STREAM_NOT_INITED, worker.position)


@provokes(Code.NET_STREAM_NOT_INITED)
async def child_whose_stream_is_not_up(mesh: Mesh) -> None:
    mgr, proxy, worker = await small_mesh(mesh)
    async with RawChild("Worker/0/1") as child:
        child.connect(proxy.address or "")
        assert (await child.register()).code == 0
        assert (await child.announce()).code == 0
        for sender in (mgr, proxy, worker):
            ack = await sender.send("x", to="Worker/0/1")
            assert (ack.code, ack.src) == (Code.NET_STREAM_NOT_INITED, proxy.position), sender.position


@provokes(Code.NET_STREAM_NOT_INITED)
async def child_whose_stream_is_gone(mesh: Mesh) -> None:
    mgr, proxy, worker = await small_mesh(mesh)
    await worker.close()
    await mesh.logged("child_lost", node=proxy.position, child=worker.position)
    ack = await mgr.send("x", to=worker.position)
    assert (ack.code, ack.src) == (Code.NET_STREAM_NOT_INITED, proxy.position)


@provokes(Code.NET_ERR)
async def status_that_means_nothing_here(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        parent.refuse["TransferMessage"] = grpc.StatusCode.DATA_LOSS
        for ack in (await worker.send("x", to="Mgr"), await worker.post("x", to="Mgr")):
            assert (ack.code, ack.src) == (Code.NET_ERR, Position.mgr())
            assert "DATA_LOSS" in ack.detail


@provokes(Code.NET_ERR)
async def code_that_nobody_knows(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        parent.refuse["TransferMessage"] = 7777
        ack: Ack = await worker.send("x", to="Mgr")
        assert (ack.code, ack.ok) == (7777, False)
        with pytest.raises(Exception, match="a code that this version does not know"):
            ack.raise_for_code()


@both_links
@pytest.mark.parametrize("case", [pytest.param(case, id=f"{code:d}_{case.__name__}") for code, case in CASES])
async def test_code(case: Case, mesh: Mesh) -> None:
    await case(mesh)


def test_every_code_has_a_case() -> None:
    assert {code for code, _ in CASES} == set(Code)
    assert {int(code) for code in Code} == {
        0, *range(4000, 4007), 4999, *range(5000, 5004), 5999, *range(6000, 6003), 6999
    }  # fmt: skip
