"""The bytes of a direct link: any cut of them leads to the same frames, and any of them leave others in peace."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import SimpleNamespace
from typing import Any, Final, cast

from taskd_net.base import limits
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.net.links import direct_socket
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.links.direct import DirectLink
from taskd_net.net.links.direct_requests import Answering, Asking
from taskd_net.net.links.direct_socket import DirectSocket
from taskd_net.net.links.remote import Caller, remote_of
from taskd_net.net.wire import socket_frames
from taskd_net.net.wire.link_requests import Announcing, read_reply, read_request, write_reply, write_request
from taskd_net.net.wire.socket_frames import (
    Buffers,
    FrameError,
    FrameKind,
    FrameReader,
    read_accepted,
    read_delivered,
    read_greeting,
    read_message,
    write_delivered,
    write_frame,
    write_greeting,
    write_message,
)
from tests.fuzz.streams import HONEST, HOSTILE, Between, ask_and_answer

_SHARED: Final = socket_frames.OWN_BYTES
_OTHERS: Final = 256
_HEAD: Final = len(write_frame(FrameKind.PING))
_CUTS: Final = (1, 5, 64, 4096, 70_000)


def _read(data: bytes, most: int, cut: int) -> tuple[list[tuple[int, bytes]], bool]:
    """The frames of a stream that arrives in pieces of this size, and whether it broke the rules."""
    buffers = Buffers(_SHARED)
    reader, frames = FrameReader(most, buffers), list[tuple[int, bytes]]()
    for at in range(0, len(data), cut):
        rest = data[at : at + cut]
        while rest:
            space = reader.space()
            assert len(space) > 0
            piece = rest[: len(space)]
            space[: len(piece)] = piece
            reader.received(len(piece))
            rest = rest[len(piece) :]
            try:
                while (frame := reader.next()) is not None:
                    frames.append((frame[0], bytes(frame[1])))
            except FrameError:
                return frames, True
            reader.keep()
            buffers.shared[:_OTHERS] = b"\xaa" * _OTHERS  # another link reads
        bound = most + 2 * _SHARED if most < socket_frames.READ_BYTES else most + socket_frames.FRAME_BYTES
        assert len(reader._view) <= bound, "a frame beyond the bound takes no memory"
    return frames, False


def frames(data: bytes) -> None:
    """Frames and greetings: the same however the stream is cut, and within the bound."""
    for most in (direct_socket.GREETING_BYTES, limits.RECEIVE_BYTES):
        whole, broken = _read(data, most, max(1, len(data)))
        assert all(len(payload) <= most for _, payload in whole)
        for cut in _CUTS:
            assert _read(data, most, cut) == (whole, broken)
        for kind, payload in whole:
            try:
                greeting = read_greeting(kind, payload)
            except FrameError:
                continue
            ((_, written),), _ = _read(write_greeting(greeting), most, 1)
            assert read_greeting(FrameKind.GREETING, written) == greeting
        for _, payload in whole:
            assert read_accepted(payload) in (None, True, False)
            with contextlib.suppress(FrameError):
                assert write_message(*read_message(payload))[_HEAD:] == payload
            with contextlib.suppress(FrameError):
                assert write_delivered(*read_delivered(payload))[_HEAD:] == payload


class _Wire(asyncio.Transport):
    """The transport beneath the node's end: what is written is counted, and nothing waits."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.over = False

    def write(self, data: object) -> None:
        assert not self.over, "written after the end"
        self.written += len(cast(bytes, data))

    def writelines(self, data: Any) -> None:
        for each in data:
            self.write(each)

    def is_closing(self) -> bool:
        return self.over

    def close(self) -> None:
        self.over = True

    def abort(self) -> None:
        self.over = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        # No kernel tells about its acknowledgements.
        return SimpleNamespace(family=socket.AF_UNIX) if name == "socket" else default


class _Parent:
    """A parent that answers every request at once."""

    async def announced(self, *_: object) -> Ack:
        return Ack("", 0, Position.mgr())

    async def reported(self, *_: object) -> bytes:
        return b""


def requests(data: bytes) -> None:
    """Requests of a child, and replies of a parent: refused, or the same when they are written again."""
    with contextlib.suppress(Refusal):
        request = read_request(data)
        assert read_request(write_request(request)) == request
    with contextlib.suppress(Refusal):
        reply = read_reply(data, Position.mgr())
        assert read_reply(write_reply(reply), Position.mgr()).number == reply.number


async def _play(node: Between, honest: BatchedLink, session: DirectLink, stream: DirectSocket, data: bytes) -> None:
    """Write these bytes to the node's end, in pieces of a size that the first one gives."""
    wire = stream._transport
    running = asyncio.create_task(session.run())
    await asyncio.sleep(0)

    async def arrive() -> None:
        rest, cut = data[1:], 1 + 17 * (data[0] if data else 0)
        while rest and session.alive and not wire.is_closing():
            space = stream.get_buffer(-1)
            piece = rest[: min(cut, len(space))]
            space[: len(piece)] = piece
            stream.buffer_updated(len(piece))
            rest = rest[len(piece) :]
            await asyncio.sleep(0)

    await ask_and_answer(node, honest, arrive)
    stream.connection_lost(None)
    await running


def direct_stream(data: bytes) -> None:
    """A Mgr, and a Worker that writes these bytes on a direct link."""

    async def play() -> None:
        node = Between("Mgr", 1)
        link = node.router.register(0.0, HOSTILE).link
        assert link is not None
        honest, stream = node.child(HONEST), DirectSocket()
        stream.connection_made(_Wire())
        session = DirectLink(node, link, HOSTILE, stream, numbered=True, counts=True)
        caller = Caller(remote_of("ipv4:127.0.0.1:1"), lambda: None)
        session.attend(Answering(cast(Any, _Parent()), HOSTILE, caller, lambda _: ""))
        node.links[link] = session
        node.perform(node.router.link_up(0.0, link, session, (), session.terms))
        await _play(node, honest, session, stream, data)

    asyncio.run(play())


def direct_stream_from_above(data: bytes) -> None:
    """A Proxy that has asked, and a Mgr that writes these bytes on a direct link."""

    async def play() -> None:
        node = Between("Proxy/0", UP)
        honest, stream, asking = node.child(HONEST), DirectSocket(), Asking(Position.mgr())
        stream.connection_made(_Wire())
        session = DirectLink(node, UP, Position.mgr(), stream, numbered=True, counts=True)
        session.attend(asking)
        node.links[UP] = session
        node.perform(node.router.upstream_up(0.0, session, Position.mgr(), told=True, terms=session.terms))
        asked = asyncio.create_task(asking.announce(Announcing(b""), 3600.0))
        await _play(node, honest, session, stream, data)
        assert isinstance(await asked, Ack), "a request is answered, at the end of the link at the latest"

    asyncio.run(play())
