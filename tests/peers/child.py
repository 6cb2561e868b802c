"""A child with the four calls of the contract and nothing else: a Worker, an Agent, half of a Proxy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import grpc.aio

from tests.peers.mesh import soon
from tests.peers.stubs import pb, position, rpc

PATIENCE_S = 10.0


class RawChild:
    """One foreign child. The switches may be turned at any time.

    Args:
        position: its own, `Worker/0/3`.
        one_at_a_time: finish with a message before reading the next one.
        options: of its channel.

    Attributes:
        delay: seconds before each Ack.
        code: the code of its Acks.
        drop_acks: acknowledge nothing.
        ack_async: also acknowledge `sync=false` messages; the contract asks for no such answer.
        reading: cleared, it stops reading (a busy process).
        received: messages from above, in order.
        relay: handles a message from above in its place: the other half of a Proxy.
    """

    def __init__(
        self, position: str, *, one_at_a_time: bool = False, options: Sequence[tuple[str, str | int]] = ()
    ) -> None:
        self.position = position
        self.one_at_a_time = one_at_a_time
        self.delay = 0.0
        self.code = 0
        self.drop_acks = False
        self.ack_async = True
        self.reading = asyncio.Event()
        self.reading.set()
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.relay: Callable[[Any], Awaitable[Any]] | None = None
        self._options = [("grpc.use_local_subchannel_pool", 1), *options]
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None
        self._stream: Any = None
        self._acks: asyncio.Queue[Any] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reads: asyncio.Task[None] | None = None

    def connect(self, address: str) -> None:
        """Use the parent at this address from now on."""
        limits = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(address, options=[*limits, *self._options])
        self._stub = rpc.TaskNetStub(self._channel)

    async def register(self) -> Any:
        """Introduce itself."""
        request = pb.RegisterReq(uuid=str(uuid4()), pos=position(self.position))
        return await self._stub.Register(request, timeout=PATIENCE_S, wait_for_ready=True)

    async def open_stream(self) -> None:
        """Open the stream and begin to read it. A refusal shows in `ended`."""
        me = position(self.position)
        metadata = (("role", me.role), ("serverrank", me.serverRank), ("processrank", me.processRank))
        self._acks = asyncio.Queue()
        self._stream = self._stub.InitServerDownStream(metadata=metadata)
        self._reads = self._spawn(self._read(self._stream, self._acks))
        self._spawn(self._write(self._stream, self._acks))
        await soon(self._stream.initial_metadata(), PATIENCE_S)

    async def announce(self, *path: str) -> Any:
        """Announce these nodes, or itself without any."""
        request = pb.PathDiscoveryReq(
            uuid=str(uuid4()),
            proxyPos=position(self.position),
            path=[position(node) for node in path or (self.position,)],
        )
        return await self._stub.PathDiscovery(request, timeout=PATIENCE_S)

    async def join(self, address: str, *, announce_first: bool = False) -> None:
        """Join, in the contract's order or in that of the original's leaves."""
        self.connect(address)
        assert (await self.register()).code == 0
        if announce_first:
            assert (await self.announce()).code == 0
        await self.open_stream()
        if not announce_first:
            assert (await self.announce()).code == 0

    def message(self, to: str, body: str = "", *, sync: bool = True, uuid: str = "", src: str = "") -> Any:
        """A message of this node."""
        return pb.Message(
            header=pb.MessageHeader(
                uuid=uuid or str(uuid4()),
                mtype="raw",
                sync=sync,
                src=position(src or self.position),
                dst=position(to),
                createTime=time.time_ns() // 1_000_000,
            ),
            body=body,
        )

    async def transfer(self, message: Any, timeout: float = PATIENCE_S) -> Any:
        """Send a message up and return the Ack."""
        return await self._stub.TransferMessage(message, timeout=timeout)

    async def send(self, to: str, body: str = "", *, sync: bool = True, uuid: str = "") -> Any:
        """Write a message, send it up, and return the Ack."""
        return await self.transfer(self.message(to, body, sync=sync, uuid=uuid))

    async def call(self, method: str, data: bytes) -> Any:
        """Make a unary call with arbitrary bytes. Returns the Ack."""
        assert self._channel is not None
        call: Any = self._channel.unary_unary(f"/TaskNet/{method}", response_deserializer=pb.Ack.FromString)
        return await call(data, timeout=PATIENCE_S)

    def write_on_stream(self, ack: Any) -> None:
        """Write an unsolicited Ack."""
        self._acks.put_nowait(ack)

    async def take(self) -> Any:
        """The next message from above."""
        return await soon(self.received.get(), PATIENCE_S)

    async def ended(self) -> grpc.StatusCode:
        """Wait for the end of the stream. Returns its status."""
        code: grpc.StatusCode = await soon(self._stream.code(), PATIENCE_S)
        return code

    async def drained(self) -> None:
        """Wait until the stream has been read to its end. With `one_at_a_time`, all messages are in `received` then."""
        assert self._reads is not None
        await soon(asyncio.wait([self._reads]), PATIENCE_S)

    async def _read(self, stream: Any, acks: asyncio.Queue[Any]) -> None:
        try:
            while True:
                await self.reading.wait()
                message = await stream.read()
                if message is grpc.aio.EOF:
                    return
                if self.one_at_a_time:
                    await self._handle(message, acks)
                else:
                    self._spawn(self._handle(message, acks))
        except grpc.aio.AioRpcError:
            return

    async def _handle(self, message: Any, acks: asyncio.Queue[Any]) -> None:
        if self.relay is not None:
            ack = await self.relay(message)
        else:
            self.received.put_nowait(message)
            ack = pb.Ack(uuid=message.header.uuid, code=self.code, src=position(self.position))
        if self.delay:
            await asyncio.sleep(self.delay)
        if not self.drop_acks and (message.header.sync or self.ack_async):
            acks.put_nowait(ack)

    async def _write(self, stream: Any, acks: asyncio.Queue[Any]) -> None:
        try:
            while True:
                await stream.write(await acks.get())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    async def cut(self) -> None:
        """Lose the connection, like a killed process."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._stream is not None:
            # Of a call that ended by a failed write, with messages unread, gRPC keeps a task of its own otherwise.
            self._stream._cython_call.cancel("cut")
        if self._channel is not None:
            await self._channel.close()

    async def __aenter__(self) -> RawChild:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
