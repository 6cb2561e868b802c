"""Raw ends of both kinds of link: a child and a parent that write any bytes, with any settings of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Self

import grpc.aio

from taskd_net.net.links import batched, batched_kind, tasknet
from taskd_net.net.links import peer as peers
from tests.peers.child import PATIENCE_S
from tests.peers.mesh import soon
from tests.peers.stubs import pb, position
from tests.ports import free_address

Options = Sequence[tuple[str, str | int]]
NO_LIMITS: Final[Options] = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
STREAMS: Final = {batched.NAME: batched_kind.STREAM, tasknet.NAME: tasknet.STREAM}


def stream_metadata(place: str) -> tuple[tuple[str, str], ...]:
    """The metadata that open a stream."""
    me = position(place)
    return (("role", me.role), ("serverrank", me.serverRank), ("processrank", me.processRank))


class LinkChild:
    """A child that registers as a node of ours, and writes bytes of its own making.

    Args:
        place: its position, `Worker/0/3`.
        kind: of link, `batched` or `tasknet`.
        without: keys of metadata that it leaves out at Register.
        options: of its channel.

    Attributes:
        channel: to the parent.
        compression: of later streams.
        stream: of the link: batches, or Acks up and messages down.
    """

    def __init__(
        self,
        place: str,
        kind: str = batched.NAME,
        *,
        without: frozenset[str] = frozenset(),
        options: Options = (),
    ) -> None:
        self.place = place
        self.stream: Any = None
        self._method = STREAMS[kind]
        self._without = without
        self.compression: grpc.Compression | None = None
        self._options = [("grpc.use_local_subchannel_pool", 1), *NO_LIMITS, *options]
        self.channel: Any = None

    async def join(self, address: str) -> Self:
        """Register, open the stream, and announce itself."""
        await self.register(address)
        await self.open()
        me = position(self.place)
        announcement = pb.PathDiscoveryReq(uuid="announce", proxyPos=me, path=[me])
        assert (await self.call("PathDiscovery", announcement.SerializeToString())).code == 0
        return self

    def connect(self, address: str) -> None:
        """Use the parent at this address from now on."""
        self.channel = grpc.aio.insecure_channel(address, options=self._options)

    async def register(self, address: str) -> None:
        """Register alone."""
        self.connect(address)
        says = tuple(pair for pair in peers.own_metadata() if pair[0] not in self._without)
        register = pb.RegisterReq(uuid="register", pos=position(self.place))
        assert (await self.call("Register", register.SerializeToString(), says)).code == 0

    async def open(self) -> None:
        """Open the stream."""
        call = self.channel.stream_stream(self._method)
        self.stream = call(metadata=stream_metadata(self.place), compression=self.compression)
        await soon(self.stream.initial_metadata(), PATIENCE_S)

    async def call(self, method: str, data: bytes, metadata: tuple[tuple[str, str], ...] = ()) -> Any:
        """Make a unary call. Returns the Ack."""
        call = self.channel.unary_unary(f"/TaskNet/{method}", response_deserializer=pb.Ack.FromString)
        return await call(data, metadata=metadata, timeout=60.0)

    async def write(self, data: bytes) -> None:
        """Write an item. A stream that has ended ignores it."""
        try:
            await self.stream.write(data)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    def over(self) -> bool:
        """True when the parent has ended the stream."""
        done: bool = self.stream.done()
        return done

    async def ended(self, timeout: float = 60.0) -> grpc.StatusCode:
        """Read until the parent ends the stream. Returns its status."""
        async with asyncio.timeout(timeout):
            try:
                while await self.stream.read() is not grpc.aio.EOF:
                    pass
            except grpc.aio.AioRpcError:
                pass
            status: grpc.StatusCode = await self.stream.code()
            return status

    async def cut(self) -> None:
        """Lose the connection, like a killed process."""
        if self.stream is not None:
            # Of a call that ended by a failed write, with messages unread, gRPC keeps a task of its own otherwise.
            self.stream._cython_call.cancel("cut")
        if self.channel is not None:
            await self.channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()


class LinkParent:
    """A parent that offers one kind of link, accepts everything, and writes bytes of its own making.

    Args:
        kind: of link, `batched` or `tasknet`.
        says: more metadata of its answer to Register, in place of ours where the keys are the same.
        options: of its server.

    Attributes:
        address: where it listens.
        compression: of later streams.
        requests: every request of a unary call, by the call's name.
        streams: to the children, in the order of their opening.
    """

    def __init__(
        self,
        kind: str = batched.NAME,
        says: Mapping[str, str] | None = None,
        *,
        options: Options = (),
    ) -> None:
        offer = ((peers.LINKS_KEY, batched_kind.OFFER), peers.NUMBERS)
        ours = peers.parent_metadata(0, offer if kind == batched.NAME else ())
        self._says = tuple((dict(ours) | dict(says or {})).items())
        self._options = [("grpc.so_reuseport", 0), *NO_LIMITS, *options]
        self.compression: grpc.Compression | None = None
        self._server: Any = None
        self._over = asyncio.Event()
        self.address = ""
        self.requests: dict[str, list[bytes]] = {}
        self.streams: asyncio.Queue[Any] = asyncio.Queue()

    async def start(self, listen: str = "", credentials: grpc.ServerCredentials | None = None) -> Self:
        """Listen at a free address, unless told where; with credentials for TLS alone."""
        listen = listen or free_address()
        self._server = grpc.aio.server(options=self._options)
        unary: dict[str, Any] = {
            method: grpc.unary_unary_rpc_method_handler(partial(self.called, method))
            for method in ("Register", "PathDiscovery", "TransferMessage")
        }
        stream: Any = grpc.stream_stream_rpc_method_handler(self.serve)
        for service, methods in (
            ("TaskNet", {**unary, "InitServerDownStream": stream}),
            ("taskd_net.link.TaskLink", {"Exchange": stream}),
        ):
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        server = self._server
        port = server.add_secure_port(listen, credentials) if credentials else server.add_insecure_port(listen)
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        await self._server.start()
        return self

    def end_streams(self) -> None:
        """End the streams of all children."""
        self._over.set()
        self._over = asyncio.Event()

    async def stop(self) -> None:
        """End everything at once."""
        self.end_streams()
        if self._server is not None:
            await self._server.stop(0)
            await self._server.wait_for_termination()

    async def opened(self) -> Any:
        """The next stream that a child opens: its context."""
        return await soon(self.streams.get(), 60.0)

    async def write(self, stream: Any, data: bytes) -> None:
        """Write an item to a child. A stream that has ended ignores it."""
        try:
            await stream.write(data)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError, grpc.aio.InternalError, grpc.aio.UsageError):
            return

    async def answer(self, method: str, data: bytes) -> bytes:
        """Answer a unary call with success."""
        request = {"Register": pb.RegisterReq, "PathDiscovery": pb.PathDiscoveryReq}.get(method, pb.Message)
        read = request.FromString(data)
        uuid = read.header.uuid if method == "TransferMessage" else read.uuid
        ack: bytes = pb.Ack(uuid=uuid, src=position("Mgr/0")).SerializeToString()
        return ack

    async def called(self, method: str, data: bytes, context: Any) -> bytes:
        """Serve a unary call."""
        self.requests.setdefault(method, []).append(data)
        if method == "Register":
            context.set_trailing_metadata(self._says)
        return await self.answer(method, data)

    async def serve(self, _: object, context: Any) -> None:
        """Keep a stream open, and read it, until the end."""
        over = self._over
        if self.compression is not None:
            context.set_compression(self.compression)
        await context.send_initial_metadata(peers.joined_metadata(True))
        self.streams.put_nowait(context)
        reading = asyncio.create_task(self.drain(context))
        try:
            await over.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def drain(self, stream: Any) -> None:
        """Read all that a child writes."""
        while await stream.read() is not grpc.aio.EOF:
            pass
