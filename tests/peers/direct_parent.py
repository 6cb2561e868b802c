"""A raw parent over direct links: it answers Register by gRPC, accepts greetings, writes bytes of its own making."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

import grpc

from taskd_net.base import limits
from taskd_net.net.links.direct import KEY
from taskd_net.net.wire import link_pb2, socket_frames
from taskd_net.net.wire.socket_frames import VERSION, Buffers, FrameKind, FrameReader, write_accepted, write_frame
from tests.peers.links import LinkParent
from tests.peers.stubs import pb, position


class Line:
    """The parent's end of one link.

    Args:
        writer: of the socket.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def put(self, data: bytes) -> None:
        """Write bytes, and wait until the kernel has most of them. A socket that has ended ignores them."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    def done(self) -> bool:
        """True when the link has ended."""
        return self._writer.is_closing()

    def end(self) -> None:
        """End it at once."""
        self._writer.transport.abort()


class DirectParent(LinkParent):
    """The same parent as `LinkParent` over direct links: announcements are frames, Register is a call."""

    def __init__(self) -> None:
        super().__init__("direct")
        self._sockets: asyncio.Server | None = None
        self._lines: set[Line] = set()

    async def start(self, listen: str = "", credentials: grpc.ServerCredentials | None = None) -> Self:
        """Listen at `address`, and at any port for direct links."""
        self._sockets = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._sockets.sockets[0].getsockname()[1]
        self._says += ((KEY, f"{VERSION} {port} {'00' * socket_frames.TOKEN_BYTES}"),)
        return await super().start(listen, credentials)

    async def write(self, stream: Any, data: bytes) -> None:
        """Write a batch to a child."""
        await stream.put(write_frame(FrameKind.BATCH, data))

    def end_streams(self) -> None:
        """End the links of all children."""
        super().end_streams()
        for line in self._lines:
            line.end()

    async def stop(self) -> None:
        """End everything at once."""
        if self._sockets is not None:
            self._sockets.close()
        await super().stop()

    async def accepted(self, line: Line) -> None:
        """A link stands."""
        self.streams.put_nowait(line)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(writer)
        self._lines.add(line)
        frames = FrameReader(limits.RECEIVE_BYTES, Buffers(65536))
        try:
            while data := await reader.read(65536):
                while data:
                    space = frames.space()
                    size = min(len(space), len(data))
                    space[:size] = data[:size]
                    frames.received(size)
                    data = data[size:]
                    while (frame := frames.next()) is not None:
                        await self._took(line, frame[0], bytes(frame[1]))
        except ConnectionError:
            pass
        finally:
            self._lines.discard(line)
            line.end()

    async def _took(self, line: Line, kind: int, payload: bytes) -> None:
        if kind == FrameKind.GREETING:
            await line.put(write_accepted(True))
            await self.accepted(line)
        elif kind == FrameKind.PING:
            await line.put(write_frame(FrameKind.PONG))
        elif kind == FrameKind.REQUEST:
            number = link_pb2.Request.FromString(payload).number
            ack = pb.Ack(src=position("Mgr/0")).SerializeToString()
            await line.put(write_frame(FrameKind.REPLY, link_pb2.Reply(number=number, ack=ack).SerializeToString()))
