"""Calls of gRPC whose messages do not come whole: those that end, and those that are left alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, Final, cast

import grpc
import pytest

from taskd_net.base import limits
from taskd_net.base.peer_limits import Limits
from taskd_net.net.links.grpc_calls import SERVICE, STATUS_SERVICE
from taskd_net.net.links.remote import Remote
from taskd_net.net.links.unfinished import Receiver, Unfinished
from taskd_net.net.links.unfinished_calls import CHILD_LOOKS
from tests.faults.relay import Relay, Shape
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.peers.stubs import pb, position
from tests.polling import until
from tests.security.http2 import DATA, END_STREAM, RST_STREAM, Http2, frame, grpc_message

TRANSFER: Final = f"/{SERVICE}/TransferMessage"
TELL: Final = f"/{STATUS_SERVICE}/Tell"
WATCH: Final = "/grpc.health.v1.Health/Watch"
REFLECTION: Final = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
SHARE: Final = 6
"""Messages of one connection that may be unfinished, by the default limits."""
LONG: Final[bytes] = pb.Message(
    header=pb.MessageHeader(uuid="u", sync=True, src=position("Worker/80/0"), dst=position("Mgr/0")), body="x" * 1000
).SerializeToString()


def account(node: WatchedNode) -> Unfinished[Receiver]:
    """The node's account of messages that have not come whole."""
    assert node.driver.server is not None
    return node.driver.server.unfinished


async def counted(node: WatchedNode, calls: int) -> None:
    """Wait until so many calls count."""
    await until(lambda: account(node).size == calls * limits.RECEIVE_BYTES)


async def begin(connection: Http2, method: str = TRANSFER, *metadata: tuple[str, str]) -> int:
    """Begin a call with the first bytes of its message."""
    stream = connection.open(method, *metadata)
    assert await connection.send(stream, grpc_message(LONG)[:500])
    return stream


async def ends(connection: Http2, stream: int) -> bytes:
    """The header fields with which a call ends."""
    last = await connection.answer(stream)
    assert last is not None
    return last.payload


async def test_messages_that_come_slowly_are_taken(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with Http2(mgr.address or "") as connection:
        await connection.greet()
        begun = [await begin(connection) for _ in range(SHARE)]
        await counted(mgr, SHARE)
        for stream in begun:
            connection.write(frame(DATA, END_STREAM, stream, grpc_message(LONG)[500:]))
            assert b"grpc-status\x010" in await soon(ends(connection, stream))
    assert account(mgr).size == 0
    assert not mesh.count("call_ended")


@pytest.mark.parametrize("method", [TRANSFER, TELL, WATCH, REFLECTION])
async def test_call_beyond_the_share_of_its_connection_ends(mesh: Mesh, method: str) -> None:
    mgr = await mesh.mgr()
    async with Http2(mgr.address or "") as connection, Http2(mgr.address or "") as other:
        await connection.greet()
        await other.greet()
        for _ in range(SHARE):
            await begin(connection, method)
        await counted(mgr, SHARE)
        assert b"grpc-status\x0214" in await soon(ends(connection, await begin(connection, method)))
        await begin(other, method)
        await counted(mgr, SHARE + 1)
        assert mesh.count("call_ended") == 1
    # Calls of a connection that is closed leave nothing behind.
    await counted(mgr, 0)


async def test_child_of_the_original_is_told_in_its_words(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with Http2(mgr.address or "") as connection:
        await connection.greet()
        agent = ("user-agent", "grpc-go/1.60.1")
        for _ in range(SHARE):
            await begin(connection, TRANSFER, agent)
        await counted(mgr, SHARE)
        assert b"dst recv buffer busy" in await soon(ends(connection, await begin(connection, TRANSFER, agent)))


async def test_oldest_of_all_ends_when_another_one_needs_the_memory(mesh: Mesh) -> None:
    mgr = await mesh.mgr(limits=Limits(total_bytes=4 * limits.MESSAGE_BYTES))
    async with Http2(mgr.address or "") as first, Http2(mgr.address or "") as second:
        await first.greet()
        await second.greet()
        oldest = await begin(first)
        await counted(mgr, 1)
        for calls in (2, 3):
            await begin(second)
            await counted(mgr, calls)
        await begin(second)
        assert b"grpc-status\x0214" in await soon(ends(first, oldest))
        assert account(mgr).size == 3 * limits.RECEIVE_BYTES


async def test_call_without_a_message_ends(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with Http2(mgr.address or "") as connection:
        await connection.greet()
        stream = connection.open(TRANSFER)
        connection.write(frame(DATA, END_STREAM, stream))
        assert b"grpc-status\x0213" in await soon(ends(connection, stream))


async def test_call_that_its_caller_cancels_leaves_the_account(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with Http2(mgr.address or "") as connection:
        await connection.greet()
        stream = await begin(connection)
        await counted(mgr, 1)
        connection.write(frame(RST_STREAM, 0, stream, b"\x00\x00\x00\x08"))
        await counted(mgr, 0)


async def test_large_messages_of_a_child_over_a_slow_network_are_taken(mesh: Mesh) -> None:
    """All come at the same time, and each takes as long as all of them."""
    mgr = await mesh.mgr(links="tasknet")
    port = int((mgr.address or "").rpartition(":")[2])
    relay = Relay("127.0.0.1", "127.0.0.77", [port])
    await relay.start()
    try:
        relay.change(Shape(rate=20e6, delay=0.005))
        worker = await mesh.worker(0, 0, f"127.0.0.77:{port}", links="tasknet")
        acks = await soon(asyncio.gather(*(worker.send("x" * 100_000, to="Mgr") for _ in range(60))))
        assert {ack.code for ack in acks} == {0}
    finally:
        await worker.close()
        await relay.close()
    assert not mesh.count("call_ended")


async def test_calls_of_a_child_count_later_and_have_no_share(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    assert mgr.driver.server is not None
    calls = mgr.driver.server._calls
    assert calls is not None
    monkeypatch.setattr(calls, "_is_child", lambda _: True)
    async with Http2(mgr.address or "") as connection:
        await connection.greet()
        for _ in range(SHARE + 1):
            await begin(connection)
        await counted(mgr, SHARE + 1)
        assert calls._looks >= CHILD_LOOKS
    assert not mesh.count("call_ended")


class Aborted(Exception):
    """The exception by which an abort leaves its caller, and each later read."""


class LastMoment:
    """gRPC's side of a call whose message comes whole when the call was just ended."""

    def __init__(self) -> None:
        self.whole = asyncio.get_running_loop().create_future()
        self.aborted = False

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def read(self) -> bytes:
        if self.aborted:
            raise Aborted
        await self.whole
        return b"whole"

    async def abort(self, *_: object) -> None:
        self.aborted = True
        raise grpc.aio.AbortError


async def test_call_that_is_ended_when_its_message_comes_whole_is_not_carried_out(mesh: Mesh) -> None:
    """gRPC complains in the log where a handler returns after an abort, and its caller would be told two things."""
    mgr = await mesh.mgr()
    assert mgr.driver.server is not None
    calls = mgr.driver.server._calls
    assert calls is not None
    context, served = cast(Any, LastMoment()), list[bytes]()

    async def method(request: bytes, _: object) -> None:
        served.append(request)

    unary = SimpleNamespace(request_streaming=False, unary_stream=None, unary_unary=method)
    serving = asyncio.create_task(calls._served(unary)(cast(Any, None), context))
    await until(lambda: context in calls._new)
    del calls._new[context]
    calls._count(context, Remote("ipv4", "127.0.0.1", "1"), share=0)
    context.whole.set_result(None)
    with pytest.raises(Aborted):
        await soon(serving)
    assert not served and not calls._ending
    assert mesh.count("call_ended") == 1
