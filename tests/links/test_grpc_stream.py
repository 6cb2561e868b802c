"""Streams of gRPC: opened by a child as its parent lets it know, read and written at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc.aio
import pytest

from taskd_net import Position
from taskd_net.base.address import Address
from taskd_net.net.links import peer as peers
from taskd_net.net.links.grpc_calls import Context, caller_of
from taskd_net.net.links.grpc_stream import ClientPipe, IncomingStream, ServerPipe, open_stream, stream_handler
from taskd_net.net.links.kind import End, Failed, LinkLost, Way
from tests.links.pipes import FakeNode
from tests.peers.mesh import PATIENCE_S, soon

METHOD = "/Test/Open"
WORKER = Position.worker(0, 0)
OURS = peers.Peer(peers.OURS, "9.9")
FOREIGN = peers.Peer(peers.ORIGINAL)


class FakeStream:
    """A stream of gRPC at the child, which the parent accepts or refuses as the test says.

    Attributes:
        asked: the metadata that it was opened with.
        cancelled: whether the child has ended it.
        connected: whether the child has waited for the connection alone.
    """

    def __init__(
        self,
        accepts: peers.Metadata | BaseException | None = (),
        *,
        ends: grpc.StatusCode | None = None,
        text: str = "",
    ) -> None:
        self.asked: dict[str, str] = {}
        self.cancelled = self.connected = False
        self._accepts = accepts
        self._ends = ends
        self._text = text

    def stream_stream(self, method: str) -> Any:
        """The channel's: open it."""
        assert method == METHOD

        def call(*, metadata: peers.Metadata) -> FakeStream:
            self.asked = dict(metadata)
            return self

        return call

    async def initial_metadata(self) -> peers.Metadata:
        """The metadata of a parent that accepts it; never, for None."""
        if isinstance(self._accepts, BaseException):
            raise self._accepts
        if self._accepts is None:
            await asyncio.Event().wait()
            raise AssertionError("it never comes")
        return self._accepts

    async def wait_for_connection(self) -> None:
        """Wait for the connection alone."""
        self.connected = True

    def done(self) -> bool:
        """True if it has ended."""
        return self._ends is not None

    async def code(self) -> grpc.StatusCode:
        """Its status."""
        assert self._ends is not None
        return self._ends

    async def details(self) -> str:
        """The text of its status."""
        return self._text

    def cancel(self) -> None:
        """End it."""
        self.cancelled = True


def way(stream: FakeStream, peer: peers.Peer = OURS, *, ack_timeout: float = 3.0, continues: bool = False) -> Way:
    """A Worker's way to its Mgr."""
    channel = cast(grpc.aio.Channel, stream)
    upstream = Address("127.0.0.1", 1)
    return Way(FakeNode(str(WORKER)), Position.mgr(), peer, channel, ack_timeout, upstream, continues=continues)


@pytest.mark.parametrize("continues", [False, True])
async def test_stream_stands_when_a_parent_of_ours_accepts_it(continues: bool) -> None:
    stream = FakeStream(peers.joined_metadata(True))
    _, accepted = await soon(open_stream(way(stream, continues=continues), METHOD))
    assert peers.parent_joined(accepted) is True
    assert (peers.stream_position(stream.asked), peers.stream_continues(stream.asked)) == (WORKER, continues)
    assert not stream.cancelled


async def test_stream_to_a_parent_that_confirms_none_stands_with_its_connection() -> None:
    stream = FakeStream(None)
    _, accepted = await soon(open_stream(way(stream, FOREIGN), METHOD))
    assert stream.connected
    assert accepted == {}


async def test_stream_that_is_refused_says_why() -> None:
    none = grpc.aio.Metadata()
    refusal = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, none, none, "the parent is closing")
    with pytest.raises(Failed, match="UNAVAILABLE: the parent is closing"):
        await soon(open_stream(way(FakeStream(refusal)), METHOD))


async def test_stream_that_is_accepted_and_has_ended_does_not_stand() -> None:
    stream = FakeStream(ends=grpc.StatusCode.UNKNOWN, text="un registry error")
    with pytest.raises(Failed, match="UNKNOWN: un registry error"):
        await soon(open_stream(way(stream), METHOD))


async def test_stream_that_is_not_accepted_in_time_is_ended() -> None:
    stream = FakeStream(None)
    with pytest.raises(Failed, match="did not accept the stream in time"):
        await soon(open_stream(way(stream, ack_timeout=0.0), METHOD))
    assert stream.cancelled


async def test_opening_that_is_given_up_leaves_no_stream() -> None:
    stream = FakeStream(None)
    opening = asyncio.create_task(open_stream(way(stream), METHOD))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait([opening])
    assert opening.cancelled()
    assert stream.cancelled


@pytest.mark.parametrize(
    ("status", "text", "taken"),
    [
        (grpc.StatusCode.ALREADY_EXISTS, End.POSITION_TAKEN.value, True),
        (grpc.StatusCode.UNAVAILABLE, End.CLOSING.value, False),
        (grpc.StatusCode.OK, "", False),
    ],
)
async def test_end_of_a_stream_says_whether_the_position_is_taken(
    status: grpc.StatusCode, text: str, taken: bool
) -> None:
    pipe = ClientPipe(cast(Any, FakeStream(ends=status, text=text)))
    assert await pipe.lost() == LinkLost(f"the stream ended: {status.name}: {text}", taken)


class FakeContext:
    """gRPC's side of a stream that a child has opened.

    Attributes:
        sent: the metadata that have accepted it.
        aborted: the status and text that have ended it.
    """

    def __init__(self, metadata: peers.Metadata, *, tls: bool = False, peer: str = "ipv4:10.0.0.1:40001") -> None:
        self.sent: list[dict[str, str]] = []
        self.aborted: list[tuple[grpc.StatusCode, str]] = []
        self._metadata = metadata
        self._tls = tls
        self._peer = peer

    def peer(self) -> str:
        """The address of the child."""
        return self._peer

    def auth_context(self) -> dict[str, list[bytes]]:
        """The child's certificate: none, or one without names."""
        return {"transport_security_type": [b"ssl"]} if self._tls else {}

    def invocation_metadata(self) -> peers.Metadata:
        """The metadata that it was opened with."""
        return self._metadata

    async def send_initial_metadata(self, metadata: peers.Metadata) -> None:
        """Accept it."""
        self.sent.append(dict(metadata))

    async def abort(self, status: grpc.StatusCode, text: str) -> None:
        """End it."""
        self.aborted.append((status, text))


def incoming(context: FakeContext, *, tells: bool) -> IncomingStream:
    """The stream, at the parent."""
    caller = caller_of(cast(Context, context))
    assert caller is not None
    return IncomingStream(cast(Context, context), caller, cast(Any, None), tells=tells)


@pytest.mark.parametrize("continues", [False, True])
def test_child_says_who_it_is_and_whether_it_goes_on(continues: bool) -> None:
    stream = incoming(FakeContext(peers.stream_metadata(WORKER, continues=continues)), tells=True)
    assert (stream.position, stream.continues) == (WORKER, continues)
    assert stream.caller.remote.address == "10.0.0.1:40001"


@pytest.mark.parametrize(("tls", "names"), [(False, None), (True, frozenset())])
def test_connection_in_plain_text_shows_no_names(tls: bool, names: frozenset[object] | None) -> None:
    """None is not the same as a certificate without names: nothing was asked for."""
    assert incoming(FakeContext((), tls=tls), tells=True).caller.names() == names


@pytest.mark.parametrize("peer", ["", "unknown"])
async def test_stream_whose_deadline_has_passed_is_not_served(peer: str) -> None:
    """gRPC has forgotten its address, by which an honest child would be taken for a stranger."""
    served: list[Any] = []

    class Parent:
        async def serve(self, stream: IncomingStream) -> None:
            served.append(stream)

    handler = cast(Any, stream_handler(cast(Any, Parent()), cast(Any, None)).stream_stream)
    await handler(None, FakeContext((), peer=peer))
    assert not served
    await handler(None, FakeContext(()))
    assert served


@pytest.mark.parametrize(
    ("tells", "joined", "heard"), [(True, True, True), (True, False, False), (True, None, None), (False, True, None)]
)
async def test_accepting_tells_whether_the_parent_has_joined(
    tells: bool, joined: bool | None, heard: bool | None
) -> None:
    context = FakeContext(peers.stream_metadata(WORKER))
    await incoming(context, tells=tells).accept(joined)
    (sent,) = context.sent
    assert peers.parent_joined(sent) is heard


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (End.POSITION_TAKEN, grpc.StatusCode.ALREADY_EXISTS),
        (End.CLOSING, grpc.StatusCode.UNAVAILABLE),
        (End.UNKNOWN, grpc.StatusCode.UNKNOWN),
    ],
)
async def test_each_reason_to_end_a_stream_has_its_status(end: End, status: grpc.StatusCode) -> None:
    context = FakeContext(peers.stream_metadata(WORKER))
    await incoming(context, tells=True).end(end)
    assert context.aborted == [(status, end.value)]


@pytest.mark.parametrize("ends", ["child", "parent"])
async def test_write_says_whether_the_stream_still_stood(ends: str) -> None:
    """At either end; who takes a write that failed for one that was done loses what was in it."""
    opened: asyncio.Queue[Context] = asyncio.Queue()
    over = asyncio.Event()

    async def serve(_: AsyncIterator[bytes], context: Context) -> None:
        opened.put_nowait(context)
        await over.wait()

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Test", {"Open": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/Test/Open")
        call = open_stream()
        context = await soon(opened.get())
        down, up = ServerPipe(context), ClientPipe(call)
        assert await soon(down.write(b"down")) is True
        assert await soon(up.read()) == b"down"
        assert await soon(up.write(b"up")) is True
        assert await soon(down.read()) == b"up"
        if ends == "child":
            call.cancel()
            assert await soon(down.read()) is None
            assert await soon(down.write(b"down")) is False
        else:
            over.set()
            assert await soon(up.read()) is None
            assert await soon(up.write(b"up")) is False
    over.set()
    await server.stop(None)


async def test_write_that_fails_before_all_is_read_leaves_nothing_of_the_stream() -> None:
    """The parent dies with messages on their way: gRPC's own task and what nobody has read end with the write."""

    async def serve(_: AsyncIterator[bytes], __: Context) -> AsyncIterator[bytes]:
        for _number in range(12):
            yield bytes(1_000_000)
        await asyncio.Event().wait()

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Test", {"Open": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    tasks = asyncio.all_tasks()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        open_stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream("/Test/Open")
        up = ClientPipe(open_stream())
        assert await soon(up.read())
        await server.stop(0)
        async with asyncio.timeout(PATIENCE_S):
            while await up.write(b"up"):
                pass
            assert await up.write(b"up") is False
            up.cancel()
            reason, taken = await up.lost()
            assert "the stream ended: " in reason
            assert "CANCELLED" not in reason
            assert not taken
            while left := asyncio.all_tasks() - tasks:
                await asyncio.wait(left)
