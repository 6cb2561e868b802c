"""A raw child over a direct link: it registers over gRPC, greets over a socket, and writes bytes of its own making."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, Self

import grpc

from taskd_net.base import limits
from taskd_net.net.links import peer as peers
from taskd_net.net.links.direct import KEY
from taskd_net.net.wire import link_pb2
from taskd_net.net.wire.socket_frames import (
    Buffers,
    FrameKind,
    FrameReader,
    Greeting,
    read_delivered,
    read_message,
    write_frame,
    write_greeting,
)
from tests.peers.child import PATIENCE_S
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position

_ROUTES = {peers.ROUTES_KEY: "routes", peers.END_KEY: "end"}


class DirectChild(LinkChild):
    """The same child as `LinkChild` over a direct link: its announcements are frames, its Register is a call.

    Attributes:
        offer: the port and the token of the last Register.
        other: the frames that are no reply.
        reads: bytes of each read.
        replies: of the requests under way, by their numbers.
    """

    offer: tuple[int, bytes] = (0, b"")

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.other: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._numbers = count(1)
        self.replies: dict[int, asyncio.Future[Any]] = {}
        self._reader: asyncio.Task[None] | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.reads: list[int] = []

    async def register(self, address: str) -> None:
        """Register alone."""
        self.connect(address)
        register = pb.RegisterReq(uuid="register", pos=position(self.place)).SerializeToString()
        call = self.channel.unary_unary("/TaskNet/Register", response_deserializer=pb.Ack.FromString)(
            register, metadata=peers.own_metadata(), timeout=60.0
        )
        assert (await call).code == 0
        _, port, token = peers.read_metadata(await call.trailing_metadata())[KEY].split()
        self.offer = int(port), bytes.fromhex(token)

    async def connect_socket(self) -> asyncio.StreamReader:
        """Connect to the offered port."""
        reader, self.writer = await asyncio.open_connection("127.0.0.1", self.offer[0])
        return reader

    async def open(self) -> None:
        """Greet, and wait until the link is accepted."""
        reader = await self.connect_socket()
        self.put(write_greeting(Greeting(self.offer[1], False)))
        self._reader = asyncio.create_task(self._read(reader))
        async with asyncio.timeout(PATIENCE_S):
            kind, _ = await self.other.get()
        assert kind == FrameKind.ACCEPTED

    def put(self, data: bytes) -> None:
        """Write bytes."""
        assert self.writer is not None
        self.writer.write(data)

    def request(self, **content: Any) -> bytes:
        """A request as a frame."""
        return write_frame(FrameKind.REQUEST, link_pb2.Request(**content).SerializeToString())

    async def ask(self, **content: Any) -> Any:
        """Ask. Returns the reply.

        Raises:
            ConnectionError: the link has ended without one.
        """
        if self.over():
            raise ConnectionError("the link has ended")
        self.put(self.begin(**content))
        return await next(reversed(self.replies.values()))

    def begin(self, patience: int = 60_000, **content: Any) -> bytes:
        """The frame of the next request, which is under way from now on."""
        number = next(self._numbers)
        self.replies[number] = asyncio.get_running_loop().create_future()
        return self.request(number=number, patience=patience, **content)

    async def call(self, method: str, data: bytes, metadata: tuple[tuple[str, str], ...] = ()) -> Any:
        """Make a request: an announcement over the link where it stands, any other as a call. Returns the Ack."""
        if method != "PathDiscovery" or self.writer is None:
            return await super().call(method, data, metadata)
        terms = {_ROUTES[key]: value for key, value in metadata}
        reply = await self.ask(announcement=data, **terms)
        return pb.Ack.FromString(reply.ack)

    async def write(self, data: bytes) -> None:
        """Write a batch, and wait until the kernel has most of it. A link that has ended ignores it."""
        assert self.writer is not None
        self.put(write_frame(FrameKind.BATCH, data))
        try:
            await self.writer.drain()
        except ConnectionError:
            await asyncio.sleep(0)  # the reader learns of the end

    def over(self) -> bool:
        """True when the parent has ended the link."""
        assert self.writer is not None
        # A write to a connection that is gone does not let the reader run.
        return self.writer.is_closing() or self._reader is None or self._reader.done()

    async def ended(self, timeout: float = 60.0) -> grpc.StatusCode:
        """Read until the parent ends the link. A socket has no status: OK."""
        async with asyncio.timeout(timeout):
            while (await self.other.get())[0] != FrameKind.END:
                pass
        return grpc.StatusCode.OK

    async def _read(self, reader: asyncio.StreamReader) -> None:
        frames = FrameReader(limits.RECEIVE_BYTES, Buffers(65536))
        while data := await _read_some(reader):
            self.reads.append(len(data))
            while data:
                space = frames.space()
                size = min(len(space), len(data))
                space[:size] = data[:size]
                frames.received(size)
                data = data[size:]
                while (frame := frames.next()) is not None:
                    self._take(frame[0], bytes(frame[1]))
        self.other.put_nowait((FrameKind.END, b""))
        for reply in self.replies.values():
            if not reply.done():
                reply.set_exception(ConnectionError("the link has ended"))

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == FrameKind.REPLY:
            reply = link_pb2.Reply.FromString(payload)
            answer = self.replies.pop(reply.number, None)
            if answer is not None and not answer.done():
                answer.set_result(reply)
        elif kind == FrameKind.PING:
            self.put(write_frame(FrameKind.PONG))
        else:
            self.other.put_nowait(_whole(kind, payload))

    async def cut(self) -> None:
        """Lose the connections, like a killed process."""
        if self.writer is not None:
            self.writer.transport.abort()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await super().cut()

    async def __aenter__(self) -> Self:
        return self


async def _read_some(reader: asyncio.StreamReader) -> bytes:
    """Bytes of the parent; none when it has ended the link, also with bytes that it did not read."""
    try:
        return await reader.read(65536)
    except ConnectionError:
        return b""


def _whole(kind: int, payload: bytes) -> tuple[int, bytes]:
    """A frame; a batch of one message, or of one answer 0, as any other batch."""
    if kind == FrameKind.MESSAGE:
        number, patience, taken, message = read_message(payload)
        batch = link_pb2.Batch(messages=[message], numbers=[number], patience=[patience], taken=taken)
    elif kind == FrameKind.DELIVERED:
        number, taken = read_delivered(payload)
        batch = link_pb2.Batch(accepted_numbers=[number], taken=taken)
    else:
        return kind, payload
    return FrameKind.BATCH, batch.SerializeToString()
