"""Peers that write batches by hand: a child and a parent on a batched link, without the package's flow control."""

from __future__ import annotations

import asyncio
from itertools import count
from types import TracebackType
from typing import Any, Self

import grpc.aio

from taskd_net.links import peer as peers
from taskd_net.links.batched_kind import OFFER, STREAM
from taskd_net.wire import link_pb2
from tests.peers.child import PATIENCE_S
from tests.peers.stubs import pb, position

SAYS = ((peers.VERSION_KEY, "9.9.9"), peers.NUMBERS)


def batch(first: int, count: int, src: str, dst: str, *, sync: bool = True, wait: int = 3000) -> bytes:
    """A batch of small messages, numbered from `first`."""
    header = pb.MessageHeader(mtype="raw", sync=sync, src=position(src), dst=position(dst), createTime=1)
    made = link_pb2.Batch()
    for number in range(first, first + count):
        header.uuid = f"raw-{number}"
        made.messages.append(pb.Message(header=header, body="x").SerializeToString())
        made.patience.append(wait)
        made.numbers.append(number)
    data: bytes = made.SerializeToString()
    return data


class RawBatchedChild:
    """A child that writes batches, and never confirms one.

    Args:
        position: its own.
    """

    def __init__(self, position: str) -> None:
        self.position = position
        self._channel: grpc.aio.Channel | None = None
        self._numbers = count(1)
        self.stream: Any = None

    async def join(self, address: str) -> None:
        """Register, and open a stream."""
        limits = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.aio.insecure_channel(address, options=limits)
        me = position(self.position)
        register: Any = self._channel.unary_unary("/TaskNet/Register", response_deserializer=pb.Ack.FromString)
        request = pb.RegisterReq(uuid="u", pos=me).SerializeToString()
        assert (await register(request, metadata=SAYS, timeout=PATIENCE_S)).code == 0
        exchange: Any = self._channel.stream_stream(STREAM)
        self.stream = exchange(
            metadata=(("role", me.role), ("serverrank", me.serverRank), ("processrank", me.processRank))
        )
        await asyncio.wait_for(self.stream.initial_metadata(), PATIENCE_S)

    async def flood(self, to: str, messages: int, *, in_batch: int = 256) -> bool:
        """Write messages as fast as the parent reads. Returns False when it has ended the stream."""
        first = 1 + in_batch * next(self._numbers)
        try:
            for at in range(first, first + messages, in_batch):
                await self.stream.write(batch(at, in_batch, self.position, to))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return False
        return True

    async def drain(self) -> None:
        """Read all that the parent writes, until the stream ends, and confirm nothing."""
        try:
            while await self.stream.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._channel is not None:
            await self._channel.close()


class FloodingParent:
    """A Mgr that writes messages to its child on and on, and waits for no answer and no confirmation.

    Args:
        to: the child.
        batched: whether it offers batched links.
        reads: whether it reads what the child writes.

    Attributes:
        address: where it listens.
    """

    def __init__(self, to: str, *, batched: bool, reads: bool) -> None:
        self.address = ""
        self._to = to
        self._offer = ((peers.LINKS_KEY, OFFER),) if batched else ()
        self._batched = batched
        self._reads = reads
        # It buffers 64 KiB of what it does not read.
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.http2.bdp_probe", 0)])
        self._over = asyncio.Event()

    async def _register(self, data: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((*SAYS, *self._offer))
        return self._ack(pb.RegisterReq.FromString(data).uuid)

    async def _announced(self, data: bytes, _: object) -> bytes:
        return self._ack(pb.PathDiscoveryReq.FromString(data).uuid)

    async def _exchange(self, _: object, context: Any) -> None:
        await context.send_initial_metadata(())
        writing = asyncio.create_task(self._flood(context))
        try:
            while self._reads and await context.read() is not grpc.aio.EOF:
                pass
            await self._over.wait()
        finally:
            writing.cancel()

    async def _flood(self, context: Any) -> None:
        numbers = count(1, 256)
        while not self._over.is_set():
            data = batch(next(numbers), 256, "Mgr/0", self._to)
            for one in (data,) if self._batched else link_pb2.Batch.FromString(data).messages:
                try:
                    await context.write(one)
                except (grpc.RpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
                    return

    def _ack(self, uuid: str) -> bytes:
        data: bytes = pb.Ack(uuid=uuid, src=position("Mgr/0")).SerializeToString()
        return data

    async def __aenter__(self) -> Self:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        calls: dict[str, Any] = {"Register": unary(self._register), "PathDiscovery": unary(self._announced)}
        service, method = STREAM.strip("/").split("/")
        calls["InitServerDownStream"] = stream(self._exchange)
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("TaskNet", calls),
                grpc.method_handlers_generic_handler(service, {method: stream(self._exchange)}),
            )
        )
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        await self._server.stop(0)
        await self._server.wait_for_termination()
