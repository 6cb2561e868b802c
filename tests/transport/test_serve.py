"""The four calls as a parent serves them, where the order of events is the point."""

import asyncio
from collections.abc import Mapping

import grpc
import pytest

from taskd_net import Code, Message, Position
from taskd_net.links import peer as peers
from taskd_net.links.batched_kind import STREAM
from taskd_net.links.grpc_calls import unary_call
from taskd_net.wire import codec, requests
from taskd_net.wire.batches import write_batch
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, free_address, soon
from tests.peers.stubs import pb

pytestmark = pytest.mark.timeout(180)


@pytest.mark.compat
@pytest.mark.both_loops
async def test_stream_is_confirmed_when_messages_reach_the_child(mesh: Mesh) -> None:
    """Its initial metadata comes before the first message and not before the child can be reached."""
    mgr = await mesh.mgr()
    for rank in range(10):
        async with RawChild(f"Worker/0/{rank}") as child:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
            await child.open_stream()
            assert (await mgr.send("x", to=child.position)).ok


async def test_child_of_ours_hears_with_its_stream_whether_the_parent_has_joined(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, parent_joined = list[bool | None](), peers.parent_joined

    def listen(metadata: Mapping[str, str]) -> bool | None:
        heard.append(parent_joined(metadata))
        return heard[-1]

    monkeypatch.setattr(peers, "parent_joined", listen)
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    lonely = await mesh.proxy(0, await free_address(), join=False)
    await mesh.worker(0, 1, lonely, join=False)
    await mesh.until(lambda: len(heard) == 2)
    assert heard == [True, False]


async def test_registration_that_runs_out_while_the_stream_opens(mesh: Mesh) -> None:
    """Either the stream is refused or its child is a member: never a stream that nobody knows."""
    mgr = await mesh.mgr(registration_hold=0.01)
    outcomes = set()
    for rank in range(40):
        async with RawChild(f"Worker/0/{rank}") as child:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
            position = Position.parse(child.position)
            link = mgr.router.children.find(position)
            if link is not None:
                await asyncio.sleep(max(0.0, link.expires - mgr.now() - 0.0005 * (rank % 6)))  # just before, just after
            await child.open_stream()
            if child._stream.done() or mgr.router.children.find(position) is None:
                assert await child.ended() is grpc.StatusCode.UNKNOWN
                outcomes.add("refused")
            else:
                assert (await mgr.send("x", to=child.position)).ok
                outcomes.add("member")
    assert outcomes


async def test_child_that_hangs_up_at_any_moment(mesh: Mesh) -> None:
    """One turn of the loop after the other between opening the stream and hanging up: nothing is left behind."""
    mgr = await mesh.mgr(grace=0.05)
    for turns in range(25):
        async with RawChild("Worker/0/0") as child:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
            opening = asyncio.create_task(child.open_stream())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.wait([opening])
    await mesh.until(lambda: len(mgr.router.children) == 0)
    assert not mgr.links


@pytest.mark.both_loops
async def test_streams_of_one_child_that_chase_each_other(mesh: Mesh) -> None:
    """The newest has it, every other is told; what is sent meanwhile gets a code, and what is acknowledged arrived."""
    mgr = await mesh.mgr()
    children = [RawChild("Worker/0/0") for _ in range(8)]
    try:
        for child in children:
            child.connect(mgr.address or "")
            assert (await child.register()).code == 0
        sends = [asyncio.create_task(mgr.send(str(i), to="Worker/0/0")) for i in range(20)]
        await soon(asyncio.gather(*(child.open_stream() for child in children)))
        sends += [asyncio.create_task(mgr.send(str(i), to="Worker/0/0")) for i in range(20, 40)]
        acks = await soon(asyncio.gather(*sends))
        assert {ack.code for ack in acks} <= {0, 6000, 6001, 6002}
        open_ones = [child for child in children if not child._stream.done()]
        await mesh.until(lambda: mesh.count("child_lost") == len(children) - 1)
        open_ones = [child for child in open_ones if not child._stream.done()]
        last = await mgr.send("last", to="Worker/0/0")
        assert last.ok
        received = [child.received.get_nowait().body for child in children for _ in range(child.received.qsize())]
        assert {str(i) for i, ack in enumerate(acks) if ack.ok} | {"last"} <= set(received)
        assert len(mgr.links) == len(mgr.router.children) == 1
    finally:
        for child in children:
            await child.cut()


async def test_caller_that_goes_away_while_it_waits(mesh: Mesh) -> None:
    """The answer that nobody waits for any more is dropped, for a message as for an announcement."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    async with RawChild("Worker/0/1") as mute, RawChild("Worker/0/0") as child:
        mute.drop_acks = True
        await mute.join(proxy.address or "")
        await child.join(proxy.address or "")
        for _ in range(5):
            call = child._stub.TransferMessage(child.message("Worker/0/1"))
            await mute.take()
            call.cancel()
        assert (await child.send("Mgr/0")).code == 0
        assert (await mgr.send("x", to="Worker/0/0")).ok


@pytest.mark.compat
async def test_caller_has_its_answer_within_its_deadline(mesh: Mesh) -> None:
    """A hop gives up before the caller does, so that the caller hears who was silent."""
    mgr = await mesh.mgr()
    near, far = await mesh.proxy(0, mgr), await mesh.proxy(1, mgr)
    async with RawChild("Worker/0/0") as child, RawChild("Worker/0/1") as beside, RawChild("Worker/1/2") as beyond:
        await child.join(near.address or "")
        for mute, proxy in ((beside, near), (beyond, far)):
            mute.drop_acks = True
            await mute.join(proxy.address or "")
            # A busy machine takes some of what the hop leaves of this for the way back.
            ack = await child.transfer(child.message(mute.position), timeout=2.0)
            assert ack.code == Code.NETWORK_ACK_LOST


async def test_renewed_stream_waits_for_all_that_came_over_the_older_one(mesh: Mesh) -> None:
    """Frames of a child's older stream come first, also when they arrive later."""
    mgr = await mesh.mgr()
    worker = Position.worker(0, 0)

    def batch(body: str) -> bytes:
        message = Message(body, "default", True, worker, Position.mgr(), 0, body)
        return write_batch([codec.write_message(message).data], [3000], (), ())

    async with grpc.aio.insecure_channel(mgr.address or "") as channel:
        register, announce = (unary_call(channel, name) for name in ("Register", "PathDiscovery"))
        # An earlier version of ours, which is answered by uuid.
        await register(requests.write_register("r", worker), metadata=((peers.VERSION_KEY, "0"),))
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(STREAM)
        older = open_stream(metadata=peers.stream_metadata(worker))
        await soon(older.initial_metadata())
        announcement = requests.write_announcement("p", worker, [worker])
        await announce(announcement)
        newer = open_stream(metadata=peers.stream_metadata(worker, continues=True))
        await soon(newer.initial_metadata())
        await newer.write(batch("second"))
        for _ in range(3):  # what was written before has been read, or waits to be
            await announce(announcement)
        await older.write(batch("first"))
        await older.done_writing()
        assert await mgr.take_all(2) == ["first", "second"]
        newer.cancel()
    await mesh.logged("child_lost")


@pytest.mark.compat
async def test_ack_without_a_position_is_from_whoever_gave_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        child.drop_acks = True
        await child.join(mgr.address or "")
        send = asyncio.create_task(mgr.send("x", to="Worker/0/0"))
        message = await child.take()
        child.write_on_stream(pb.Ack(uuid=message.header.uuid, code=Code.RECV_BUF_BUSY))
        ack = await soon(send)
        assert (ack.code, str(ack.src)) == (Code.RECV_BUF_BUSY, "Worker/0/0")
