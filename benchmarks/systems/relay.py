"""A typical relay for `proto/tasknet.proto` on grpc.aio: parsed messages, one call for each.

Upwards every message is a unary `TransferMessage`, and its answer is the end-to-end acknowledgement. Downwards there
are two variants, both measured:

- `unary`: every node serves `TransferMessage`, and a parent calls its child as a child calls its parent. The child
  gives its address in the metadata of Register.
- `stream`: the parent writes one message after another down `InitServerDownStream`, and a dictionary of futures by
  uuid waits for the Acks that come up it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from uuid import uuid4

import grpc

from benchmarks.systems.member import SEND_S, Member, NotAcknowledged, Spec
from taskd_net.net.wire import tasknet_pb2 as pb

_Key: TypeAlias = tuple[str, str, str]
_Call: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[pb.Message, pb.Ack]"
_Context: TypeAlias = "grpc.aio.ServicerContext[pb.Message, pb.Ack]"
_Acks: TypeAlias = "grpc.aio.ServicerContext[pb.Ack, pb.Message]"

UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class RelayNode(Member):
    """One node: a servicer, a stub to its parent, and a way to each child."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        role, server, *process = spec["positions"][0].split("/")
        self._position = pb.Position(role=role, serverRank=server, processRank=process[0] if process else "-1")
        self._key = _key(self._position)
        self._stream = spec["system"] == "stream"
        self._upstream = spec["upstream"]
        self._server: grpc.aio.Server | None = None
        self._address = ""
        self._channels: list[grpc.aio.Channel] = []
        self._parent: _Call | None = None
        self._children: dict[_Key, _Call | _DownStream] = {}
        self._routes: dict[_Key, _Key] = {}
        self._reader: asyncio.Task[None] | None = None
        self._up: Stub | None = None

    async def start(self) -> str:
        """Serve."""
        self._server = server = grpc.aio.server(options=UNLIMITED)
        add_servicer(self, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        self._address = f"127.0.0.1:{port}"
        return self._address

    async def ready(self) -> None:
        """Register with the parent, and announce the node up to the root."""
        if not self._upstream:
            return
        self._up = Stub(self._channel(self._upstream))
        self._parent = self._up.TransferMessage
        request = pb.RegisterReq(uuid=str(uuid4()), pos=self._position)
        await self._up.Register(request, metadata=(("address", self._address),))
        if self._stream:
            call = self._up.InitServerDownStream(metadata=_stream_metadata(self._position))
            await call.initial_metadata()
            self._reader = asyncio.create_task(self._read(call))
        announcement = pb.PathDiscoveryReq(uuid=str(uuid4()), proxyPos=self._position, path=[self._position])
        await self._up.PathDiscovery(announcement)

    def body(self, size: int) -> str:
        """Text."""
        return "x" * size

    async def send(self, to: str, body: str | bytes) -> None:
        """Make a message and route it like a received one."""
        assert isinstance(body, str)
        role, server, *process = to.split("/")
        dst = pb.Position(role=role, serverRank=server, processRank=process[0] if process else "-1")
        header = pb.MessageHeader(uuid=str(uuid4()), mtype="bench", sync=True, src=self._position, dst=dst)
        ack = await self._hand_on(pb.Message(header=header, body=body))
        if ack.code:
            raise NotAcknowledged(f"{to} answered {ack.code}")

    async def close(self) -> None:
        """Stop serving, close the channels."""
        if self._reader is not None:
            self._reader.cancel()
        for channel in self._channels:
            await channel.close()
        if self._server is not None:
            await self._server.stop(0)

    async def Register(self, request: pb.RegisterReq, context: _Context) -> pb.Ack:
        """Register a child."""
        if not self._stream:
            metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
            self._children[_key(request.pos)] = Stub(self._channel(metadata["address"])).TransferMessage
        return pb.Ack(uuid=request.uuid, src=self._position)

    async def PathDiscovery(self, request: pb.PathDiscoveryReq, context: _Context) -> pb.Ack:
        """Add a route through a child."""
        for position in request.path:
            self._routes[_key(position)] = _key(request.proxyPos)
        if self._up is None:
            return pb.Ack(uuid=request.uuid, src=self._position)
        request.proxyPos.CopyFrom(self._position)
        return await self._up.PathDiscovery(request)

    async def TransferMessage(self, request: pb.Message, context: _Context) -> pb.Ack:
        """Route a message from a child."""
        return await self._hand_on(request)

    async def InitServerDownStream(self, _: AsyncIterator[pb.Ack], context: _Acks) -> None:
        """A child's stream: messages go down, Acks come up, until it ends."""
        metadata = {key: str(value) for key, value in context.invocation_metadata() or ()}
        stream = _DownStream(context)
        self._children[metadata["role"], metadata["serverrank"], metadata["processrank"]] = stream
        await context.send_initial_metadata(())
        await stream.run()

    async def _hand_on(self, message: pb.Message) -> pb.Ack:
        dst = _key(message.header.dst)
        if dst == self._key:
            self.received += 1
            return pb.Ack(uuid=message.header.uuid, src=self._position)
        child = self._routes.get(dst)
        if child is not None:
            return await self._children[child](message, timeout=SEND_S)
        if self._parent is None:
            return pb.Ack(uuid=message.header.uuid, code=5002, src=self._position)
        return await self._parent(message, timeout=SEND_S)

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(address, options=UNLIMITED)
        self._channels.append(channel)
        return channel

    async def _read(self, call: grpc.aio.StreamStreamCall[pb.Ack, pb.Message]) -> None:
        answering: set[asyncio.Task[None]] = set()
        lock = asyncio.Lock()

        async def answer(message: pb.Message) -> None:
            ack = await self._hand_on(message)
            async with lock:
                await call.write(ack)

        while isinstance(message := await call.read(), pb.Message):
            task = asyncio.create_task(answer(message))
            answering.add(task)
            task.add_done_callback(answering.discard)


class _DownStream:
    """The parent's end of a child's stream."""

    def __init__(self, context: _Acks) -> None:
        self._context = context
        self._waiting: dict[str, asyncio.Future[pb.Ack]] = {}
        self._lock = asyncio.Lock()

    async def __call__(self, message: pb.Message, *, timeout: float) -> pb.Ack:
        """Write a message and wait for its Ack."""
        answer: asyncio.Future[pb.Ack] = asyncio.get_running_loop().create_future()
        self._waiting[message.header.uuid] = answer
        async with self._lock:
            await self._context.write(message)
        async with asyncio.timeout(timeout):
            return await answer

    async def run(self) -> None:
        """Read Acks until the stream ends."""
        while isinstance(ack := await self._context.read(), pb.Ack):
            self._waiting.pop(ack.uuid).set_result(ack)


class Stub:
    """The client as `protoc` generates it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.Register: grpc.aio.UnaryUnaryMultiCallable[pb.RegisterReq, pb.Ack] = channel.unary_unary(
            "/TaskNet/Register",
            request_serializer=pb.RegisterReq.SerializeToString,
            response_deserializer=pb.Ack.FromString,
        )
        self.PathDiscovery: grpc.aio.UnaryUnaryMultiCallable[pb.PathDiscoveryReq, pb.Ack] = channel.unary_unary(
            "/TaskNet/PathDiscovery",
            request_serializer=pb.PathDiscoveryReq.SerializeToString,
            response_deserializer=pb.Ack.FromString,
        )
        self.TransferMessage: _Call = channel.unary_unary(
            "/TaskNet/TransferMessage",
            request_serializer=pb.Message.SerializeToString,
            response_deserializer=pb.Ack.FromString,
        )
        self.InitServerDownStream: grpc.aio.StreamStreamMultiCallable[pb.Ack, pb.Message] = channel.stream_stream(
            "/TaskNet/InitServerDownStream",
            request_serializer=pb.Ack.SerializeToString,
            response_deserializer=pb.Message.FromString,
        )


def add_servicer(servicer: RelayNode, server: grpc.aio.Server) -> None:
    """The server as `protoc` generates it."""
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Register": grpc.unary_unary_rpc_method_handler(
            servicer.Register,
            request_deserializer=pb.RegisterReq.FromString,
            response_serializer=pb.Ack.SerializeToString,
        ),
        "PathDiscovery": grpc.unary_unary_rpc_method_handler(
            servicer.PathDiscovery,
            request_deserializer=pb.PathDiscoveryReq.FromString,
            response_serializer=pb.Ack.SerializeToString,
        ),
        "TransferMessage": grpc.unary_unary_rpc_method_handler(
            servicer.TransferMessage,
            request_deserializer=pb.Message.FromString,
            response_serializer=pb.Ack.SerializeToString,
        ),
        "InitServerDownStream": grpc.stream_stream_rpc_method_handler(
            servicer.InitServerDownStream,
            request_deserializer=pb.Ack.FromString,
            response_serializer=pb.Message.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("TaskNet", handlers),))


def _key(position: pb.Position) -> _Key:
    return position.role, position.serverRank, position.processRank


def _stream_metadata(position: pb.Position) -> tuple[tuple[str, str], ...]:
    role, server, process = _key(position)
    return ("role", role), ("serverrank", server), ("processrank", process)
