"""Invalid input: a clear error or a code, no harm to others, and the node keeps serving."""

import asyncio
from typing import Any

import grpc
import pytest

from taskd_net import Code, ConfigError, Node, NodeConfig, Position
from taskd_net.base.limits import MESSAGE_BYTES, RECEIVE_BYTES
from tests.peers.child import PATIENCE_S, RawChild
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon
from tests.peers.parent import RawParent
from tests.peers.stubs import name, pb, position
from tests.peers.wire import NotAParent
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)

# Fixed bytes: some random ones are a message of unknown fields. Each ends or stops within a field, so that no message
# reads it.
GARBAGE = [b"\xff" * 40, b"\x0f" + bytes(range(256)), b"\x0a\xff\xff\xff\xff\x0f", b"\x00"]


async def served(mesh: Mesh) -> tuple[WatchedNode, WatchedNode]:
    """A Mgr and a Worker, as undisturbed bystanders."""
    mgr = await mesh.mgr()
    return mgr, await mesh.worker(9, 9, mgr)


async def undisturbed(mgr: WatchedNode, worker: WatchedNode) -> None:
    """Check that both still serve each other, on the same stream."""
    assert (await worker.send("x", to="Mgr")).ok
    assert (await mgr.send("x", to=worker.position)).ok
    assert mgr.driver.router.children.find(worker.position) is not None
    late = RawChild("Worker/9/10")
    async with late:
        await late.join(mgr.address or "")


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1", "127.0.0.1:", ":9601", "127.0.0.1:port", "127.0.0.1:70000", "::1:9601", "a b:1", "[x]:1"],
)
async def test_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigError, match="listen is"):
        NodeConfig.mgr(listen=address)
    with pytest.raises(ConfigError, match="upstream is"):
        NodeConfig.worker(server_rank=0, rank=0, upstream=address)


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_port_in_use(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    second = Node(NodeConfig.mgr(listen=mgr.address or ""))
    with pytest.raises(ConfigError, match=f"cannot listen on {mgr.address}: in use"):
        await second.start()
    await soon(second.close())
    assert (await (await mesh.worker(0, 0, mgr)).send("x", to="Mgr")).ok


async def test_address_of_another_machine() -> None:
    node = Node(NodeConfig.mgr(listen="192.0.2.1:0"))
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1:0"):
        await node.start()
    with pytest.raises(RuntimeError, match="started once"):
        await node.start()
    await soon(node.close())


@pytest.mark.oldest
@pytest.mark.parametrize(
    ("answer", "hang_up"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", True),
        (b"SSH-2.0-OpenSSH_9.6\r\n", False),
        (bytes(range(256)) * 2, False),
        (b"", True),
        (b"", False),
    ],
    ids=["http/1", "ssh", "noise", "hangs-up", "silent"],
)
async def test_upstream_that_is_no_parent(mesh: Mesh, answer: bytes, hang_up: bool) -> None:
    """The node keeps trying, logs the trouble, and sends get their answer in time."""
    async with NotAParent(answer, hang_up=hang_up) as other:
        worker = await mesh.worker(0, 0, other.address, join=False, ack_timeout=0.3)
        for _ in range(3):
            await soon(other.connections.get())
        ack = await worker.send("x", to="Mgr", timeout=0.05)
        assert ack.code == Code.NET_STREAM_NOT_INITED
        with pytest.raises(TimeoutError, match=rf"Register: (?!UNAVAILABLE).*{other.address}"):
            await worker.joined(0.01)
        await soon(worker.close())


async def test_upstream_where_nobody_is(mesh: Mesh) -> None:
    for upstream in (free_address(), free_address("::1"), "host.invalid:9601"):
        worker = await mesh.worker(0, 0, upstream, join=False)
        await mesh.logged("join_failed", node=worker.position, upstream=upstream)
        await soon(worker.close())


async def test_upstream_that_answers_with_garbage(mesh: Mesh) -> None:
    """A gRPC server of the right service with garbage in every answer."""

    async def garbage(data: bytes, context: Any) -> bytes:
        return b"\xff\xff\xff"

    server = grpc.aio.server()
    handlers: dict[str, Any] = {"Register": grpc.unary_unary_rpc_method_handler(garbage)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("TaskNet", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    worker = await mesh.worker(0, 0, f"127.0.0.1:{port}", join=False)
    await mesh.logged("join_failed", node=worker.position)
    with pytest.raises(TimeoutError, match="bytes that are not an Ack"):
        await worker.joined(0.01)
    await soon(worker.close())
    await server.stop(0)


@pytest.mark.oldest
@both_links
async def test_body_without_a_character(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    for one, other in ((mgr, worker), (worker, mgr)):
        assert (await one.send("", to=other.position)).ok
        assert (await one.post("", to=other.position)).ok
        assert await other.take_all(2) == ["", ""]


@both_links
async def test_body_of_all_kinds_of_characters(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    body = "\x00\n\t é 漢字 🙂 \u202e" + "".join(map(chr, range(0x20, 0x300)))
    assert (await worker.send(body, to="Mgr", mtype="种类")).ok
    message = await mgr.take()
    assert (message.body, message.mtype) == (body, "种类")


@pytest.mark.parametrize("field", ["body", "mtype", "uuid"])
async def test_text_that_is_no_text(mesh: Mesh, field: str) -> None:
    mgr, worker = await served(mesh)
    given: dict[str, Any] = {"body": "b", field: "a lone \ud800 surrogate"}
    ack = await worker.send(given.pop("body"), to="Mgr", **given)
    assert (ack.code, ack.src) == (Code.CLIENT_ERR, worker.position)
    assert "UTF-8" in ack.detail
    await undisturbed(mgr, worker)


async def test_arguments_that_are_none_of_theirs(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    for to in ("", "Worker", "Worker/0/0/0", "/", "Worker//0"):
        with pytest.raises(ValueError, match="is not a position"):
            await worker.send("x", to=to)
    with pytest.raises(TypeError, match="text"):
        await worker.send(b"bytes", to="Mgr")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        await worker.send("x", to="Mgr", timeout=float("nan"))
    await undisturbed(mgr, worker)


@both_links
@pytest.mark.parametrize("timeout", [float("inf"), 1e7, 1e300, 0.0, -1.0])
async def test_timeout_that_nobody_waits_for(mesh: Mesh, timeout: float) -> None:
    """A number beyond gRPC's or the wire's range must not break a link."""
    mgr, worker = await served(mesh)
    for one, other in ((mgr, worker), (worker, mgr)):
        for send in (one.send, one.post):
            ack = await soon(send("x", to=other.position, timeout=timeout))
            assert ack.code == Code.OK if timeout > 0 else ack.code == Code.NETWORK_ACK_LOST
    assert mesh.count("child_lost") == 0
    await undisturbed(mgr, worker)


async def test_ranks_that_are_none(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    wrong = ("", " 0", "+1", "-1", "1.0", "0x1", "\u0661", "0,", ",0", "0;1", "all", "ALL", "0,All", "9" * 5000 + "x")
    for rank in wrong:
        ack = await worker.send("x", to=Position("Proxy", rank))
        assert ack.code == Code.DST_SRV_RANK_ILLEGAL, rank
        assert len(ack.detail) < 300
        ack = await worker.send("x", to=Position("Worker", "0", rank))
        assert ack.code == Code.DST_PROCESS_RANK_ILLEGAL, rank
    for role in ("", "mgr", "Worker ", "Manager", "W" * 5000):
        assert (await worker.send("x", to=Position(role, "0"))).code == Code.DST_ROLE_ILLEGAL
    await undisturbed(mgr, worker)


def filled(size: int, of: Any) -> Any:
    """A message of exactly this total size."""
    of.body = ""
    empty = of.ByteSize()
    of.body = "x" * (size - empty - 5)  # the body's own tag and length take five bytes at this size
    assert of.ByteSize() == size
    return of


@pytest.mark.oldest
@both_links
async def test_largest_message_passes_in_every_direction(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    one, other = await mesh.worker(0, 0, proxy), await mesh.worker(0, 1, proxy)
    for sender, receiver in ((one, mgr), (mgr, one), (one, other)):
        probe = await sender.send("x" * MESSAGE_BYTES, to=receiver.position)
        assert probe.code == Code.CLIENT_ERR
        size = int(probe.detail.split()[3])
        assert probe.detail == f"the message has {size} bytes serialized; the limit is {MESSAGE_BYTES}"
        overhead = size - MESSAGE_BYTES
        largest = "x" * (MESSAGE_BYTES - overhead)
        ack = await soon(sender.send(largest, to=receiver.position, timeout=PATIENCE_S))
        assert ack.ok, ack
        assert (await receiver.take()).body == largest
        assert (await sender.send(largest + "x", to=receiver.position)).code == Code.CLIENT_ERR


@pytest.mark.oldest
async def test_largest_message_of_a_foreign_child_and_one_byte_more(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        assert (await child.transfer(filled(MESSAGE_BYTES, child.message("Mgr/0")))).code == 0
        assert len((await mgr.take()).body) > MESSAGE_BYTES - 200
        for size in (MESSAGE_BYTES + 1, RECEIVE_BYTES):
            message = filled(size, child.message("Mgr/0"))
            ack = await child.transfer(message)
            assert (ack.code, ack.uuid, name(ack.src)) == (Code.CLIENT_ERR, message.header.uuid, "Mgr/0")
        assert mgr.waiting() == 0
        assert (await mgr.send("x", to="Worker/0/0")).ok
        # Beyond the receive limit gRPC itself refuses it, and the connection stands.
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await child.transfer(filled(RECEIVE_BYTES + 1, child.message("Mgr/0")))
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await mgr.send("x", to="Worker/0/0")).ok
        assert mesh.count("child_lost") == 0


@pytest.mark.oldest
async def test_largest_message_of_a_foreign_parent_and_one_byte_more(mesh: Mesh) -> None:
    async with RawParent() as mgr:
        worker = await mesh.worker(0, 0, mgr.address)
        header = pb.MessageHeader(uuid="u", sync=True, src=position("Mgr/0"), dst=position("Worker/0/0"))
        for size, code in ((MESSAGE_BYTES, 0), (MESSAGE_BYTES + 1, 4999), (RECEIVE_BYTES, 4999)):
            header.uuid = f"u-{size}"
            ack = await mgr.write("Worker/0/0", filled(size, pb.Message(header=header)))
            assert (ack.code, name(ack.src)) == (code, "Worker/0/0")
        assert len((await worker.take()).body) > MESSAGE_BYTES - 200
        assert worker.waiting() == 0
        assert mesh.count("upstream_lost") == 0
        # Beyond the receive limit the stream ends, and the child joins again.
        mgr.streams["Worker/0/0"].queue.put_nowait(filled(RECEIVE_BYTES + 1, pb.Message(header=header)))
        await mesh.logged("joined", node=worker.position, times=2)
        assert (await mgr.send("Worker/0/0")).code == 0


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_garbage_on_every_unary_call(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    async with RawChild("Worker/0/0") as child:
        child.connect(mgr.address or "")
        for call in ("Register", "PathDiscovery", "TransferMessage"):
            for data in GARBAGE:
                ack = await child.call(call, data)
                assert (ack.code, name(ack.src)) == (Code.NIL_MESSAGE, "Mgr/0"), (call, data)
        assert (await child.call("Register", b"")).code == Code.NIL_POSITION
        assert (await child.call("PathDiscovery", b"")).code == Code.NIL_POSITION
        assert (await child.call("TransferMessage", b"")).code == Code.NIL_HEADER
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await child.call("Unheard", b"")
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
        await child.join(mgr.address or "")
    await undisturbed(mgr, worker)


@pytest.mark.oldest
@pytest.mark.both_loops
@pytest.mark.parametrize("service", ["TaskNet/InitServerDownStream", "taskd_net.link.Link/Exchange"])
async def test_garbage_on_the_stream(mesh: Mesh, service: str) -> None:
    """The contract's stream skips it; a batched link ends, because it is a fault of a node of ours."""
    from taskd_net.net.links.batched_kind import STREAM

    contract = service.startswith("TaskNet")
    if not contract:
        service = STREAM.lstrip("/")
    mgr, worker = await served(mesh)
    async with RawChild("Worker/0/0") as child, grpc.aio.insecure_channel(mgr.address or "") as channel:
        child.connect(mgr.address or "")
        assert (await child.register()).code == 0
        call: Any = channel.stream_stream(f"/{service}")
        stream = call(metadata=(("role", "Worker"), ("serverrank", "0"), ("processrank", "0")))
        await soon(stream.initial_metadata())
        for data in (*GARBAGE[:-1], b""):
            await soon(stream.write(data))
            if not contract:
                assert await soon(stream.code()) is grpc.StatusCode.RESOURCE_EXHAUSTED
                await mesh.logged("violation", peer="Worker/0/0")
                break
        if contract:
            await mesh.logged("ack_unreadable", times=len(GARBAGE) - 1)
            send = asyncio.create_task(mgr.send("x", to="Worker/0/0"))
            message = pb.Message.FromString(await soon(stream.read()))
            await stream.write(pb.Ack(uuid=message.header.uuid).SerializeToString())
            assert (await soon(send)).ok
            await soon(stream.done_writing())
            assert await soon(stream.code()) is grpc.StatusCode.OK
    await undisturbed(mgr, worker)


@pytest.mark.oldest
async def test_garbage_from_a_foreign_parent(mesh: Mesh) -> None:
    """Garbage is answered if possible, and later messages are read."""
    async with RawParent() as mgr:
        worker = await mesh.worker(0, 0, mgr.address)
        src, dst = position("Mgr/0"), position("Worker/0/0")
        for i, (header, code) in enumerate(
            (
                ({"src": src}, Code.NIL_POSITION),
                ({"dst": dst}, Code.NIL_POSITION),
                ({"src": position("Nobody/0"), "dst": dst}, Code.NIL_POSITION),
                ({"src": src, "dst": position("Nobody/0")}, Code.DST_ROLE_ILLEGAL),
                ({"src": src, "dst": position("Proxy/zero")}, Code.DST_SRV_RANK_ILLEGAL),
                ({"src": src, "dst": position("Worker/0/-1")}, Code.DST_PROCESS_RANK_ILLEGAL),
                ({"src": src, "dst": position("Worker/7/7")}, Code.NO_ROUTE),
                ({"src": src, "dst": position("Mgr/0")}, Code.NO_ROUTE),
            )
        ):
            message = pb.Message(header=pb.MessageHeader(uuid=f"u-{i}", sync=True, **header))
            assert (await mgr.write("Worker/0/0", message)).code == code, header
        mgr.streams["Worker/0/0"].queue.put_nowait(pb.Message(body="no header, so nobody to answer"))
        mgr.streams["Worker/0/0"].queue.put_nowait(pb.Message(header=pb.MessageHeader(src=src, dst=dst, sync=True)))
        assert (await mgr.send("Worker/0/0", "x")).code == 0
        assert (await worker.take()).body == "x"
        assert worker.waiting() == 0


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, Code.NIL_POSITION),
        ({"pos": pb.Position()}, Code.DST_ROLE_ILLEGAL),
        ({"pos": position("Mgr/0")}, Code.CLIENT_ERR),
        ({"pos": position("Mgr/1")}, Code.DST_ROLE_ILLEGAL),
        ({"pos": position("worker/0/0")}, Code.DST_ROLE_ILLEGAL),
        ({"pos": position("Worker/All/0")}, Code.DST_SRV_RANK_ILLEGAL),
        ({"pos": position("Proxy/0,1")}, Code.DST_SRV_RANK_ILLEGAL),
        ({"pos": position("Worker/0")}, Code.DST_PROCESS_RANK_ILLEGAL),
        ({"pos": position("Worker/0/All")}, Code.DST_PROCESS_RANK_ILLEGAL),
    ],
)
async def test_registration_of_nobody(mesh: Mesh, given: dict[str, Any], code: Code) -> None:
    mgr, worker = await served(mesh)
    async with RawChild("Worker/0/0") as child:
        child.connect(mgr.address or "")
        ack = await child.call("Register", pb.RegisterReq(uuid="u", **given).SerializeToString())
        assert (ack.code, ack.uuid, name(ack.src)) == (code, "u", "Mgr/0")
    assert len(mgr.driver.router.children) == 1
    await undisturbed(mgr, worker)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ([], Code.NIL_POSITION),
        (["Mgr/0"], Code.CLIENT_ERR),
        (["Worker/0/All"], Code.DST_PROCESS_RANK_ILLEGAL),
        (["Nobody/0"], Code.DST_ROLE_ILLEGAL),
        (["Worker/0/1", "Proxy/x"], Code.DST_SRV_RANK_ILLEGAL),
    ],
)
async def test_announcement_of_nobody_changes_no_route(mesh: Mesh, path: list[str], code: Code) -> None:
    mgr, worker = await served(mesh)
    async with RawChild("Proxy/0") as child:
        await child.join(mgr.address or "")
        before = mgr.routes()
        request = pb.PathDiscoveryReq(uuid="u", proxyPos=position("Proxy/0"), path=map(position, path))
        ack = await child.call("PathDiscovery", request.SerializeToString())
        assert (ack.code, ack.uuid) == (code, "u")
        assert mgr.routes() == before
        await undisturbed(mgr, worker)


async def test_announcement_by_somebody_who_never_registered(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    async with RawChild("Proxy/0") as child:
        child.connect(mgr.address or "")
        assert (await child.announce("Worker/9/9")).code == Code.CLIENT_ERR
    assert mgr.routes() == {worker.position: worker.position}
    await undisturbed(mgr, worker)


@pytest.mark.oldest
@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("role", "Worker"),),
        (("role", "Worker"), ("serverrank", "0"), ("processrank", "0")),
        (("role", "Mgr"), ("serverrank", "0"), ("processrank", "-1")),
        (("role", "x" * 4000), ("serverrank", "?"), ("processrank-bin", b"\xff\x00")),
    ],
)
async def test_stream_of_somebody_who_never_registered(mesh: Mesh, metadata: tuple[tuple[str, str], ...]) -> None:
    mgr, worker = await served(mesh)
    async with grpc.aio.insecure_channel(mgr.address or "") as channel:
        call: Any = channel.stream_stream("/TaskNet/InitServerDownStream")
        stream = call(metadata=metadata)
        assert await soon(stream.code()) is grpc.StatusCode.UNKNOWN
        assert await stream.details() == "un registry error"
    await undisturbed(mgr, worker)


async def test_message_of_somebody_who_never_registered(mesh: Mesh) -> None:
    """It gets 4002, and its messages go nowhere."""
    mgr, worker = await served(mesh)
    async with RawChild("Worker/0/0") as child:
        child.connect(mgr.address or "")
        assert (await child.send("Mgr/0", "x")).code == Code.NIL_POSITION
        assert (await child.send("Worker/All/All", "x")).code == Code.NIL_POSITION
        assert (await mgr.send("x", to="Worker/0/0")).code == Code.NO_ROUTE
    assert mgr.waiting() == worker.waiting() == 0
    await undisturbed(mgr, worker)


async def test_second_registration_changes_nothing_while_the_stream_stands(mesh: Mesh) -> None:
    mgr, worker = await served(mesh)
    async with RawChild(str(worker.position)) as child:
        child.connect(mgr.address or "")
        assert (await child.register()).code == 0
        assert (await mgr.send("x", to=worker.position)).ok
        assert (await worker.take()).body == "x"
        assert mesh.count("child_lost") == 0
    await undisturbed(mgr, worker)


async def test_nobody_is_disturbed_by_all_of_it_at_once(mesh: Mesh) -> None:
    """A storm of bad requests beside traffic: every other message arrives once."""
    mgr, worker = await served(mesh)
    stop = asyncio.Event()

    async def storm(rank: int) -> int:
        rounds = 0
        async with RawChild(f"Worker/0/{rank}") as child:
            child.connect(mgr.address or "")
            while not stop.is_set():
                rounds += 1
                for call in ("Register", "PathDiscovery", "TransferMessage"):
                    await child.call(call, GARBAGE[rounds % len(GARBAGE)])
                await child.open_stream()
                assert await child.ended() is grpc.StatusCode.UNKNOWN
        return rounds

    storms = [asyncio.create_task(storm(rank)) for rank in range(3)]
    for i in range(150):
        assert (await worker.send(f"up {i}", to="Mgr")).ok
        assert (await mgr.send(f"down {i}", to=worker.position)).ok
        assert (await mgr.take()).body == f"up {i}"
        assert (await worker.take()).body == f"down {i}"
    stop.set()
    assert min(await soon(asyncio.gather(*storms))) > 0
