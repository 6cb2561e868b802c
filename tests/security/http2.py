"""Hand-written HTTP/2 for attacks: frames of any kind, in any order, with any content."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple, Self

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PATIENCE_S: Final = 10.0

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
INITIAL_WINDOW_SIZE: Final = 0x4
FRAME_BYTES: Final = 16384


class Frame(NamedTuple):
    """A received frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"", *, length: int | None = None) -> bytes:
    """A frame; `length`: a false length of its payload."""
    size = len(payload) if length is None else length
    return size.to_bytes(3) + bytes((kind & 0xFF, flags & 0xFF)) + struct.pack(">I", stream & 0xFFFF_FFFF) + payload


def _text(text: bytes) -> bytes:
    size = len(text)
    if size < 127:
        return bytes((size,)) + text
    out, size = bytearray((127,)), size - 127
    while size >= 128:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out) + text


def header_block(fields: list[tuple[str, str]]) -> bytes:
    """Header fields as literals, without a table and without compression."""
    return b"".join(b"\x00" + _text(key.encode()) + _text(value.encode("latin-1")) for key, value in fields)


def request(path: str, *metadata: tuple[str, str]) -> list[tuple[str, str]]:
    """The header fields of a gRPC call."""
    return [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *metadata,
    ]


def grpc_message(data: bytes) -> bytes:
    """A gRPC message as in DATA frames."""
    return b"\x00" + len(data).to_bytes(4) + data


def _ends(got: Frame) -> bool:
    """True for the last frame of a call, which has its status."""
    return got.kind == HEADERS and bool(got.flags & END_STREAM)


class Http2:
    """A connection.

    Args:
        address: `127.0.0.1:port`.
        answers_pings: like gRPC's clients.
        source: its address on this machine.
    """

    def __init__(self, address: str, *, answers_pings: bool = True, source: str | None = None) -> None:
        self._address = address
        self._source = (source, 0) if source else None
        self._answers_pings = answers_pings
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._last_stream = -1
        # Bytes of DATA that the other end takes: in all, and more than at first on each stream.
        self._room = self._first_room = 65535
        self._room_of: Counter[int] = Counter()

    async def __aenter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host.strip("[]"), int(port), local_addr=self._source)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._writer is not None
        self._writer.transport.abort()

    def write(self, data: bytes) -> None:
        """Write bytes; those beyond the kernel's buffer wait here. No effect on a closed connection."""
        assert self._writer is not None
        if not self._writer.transport.is_closing():
            self._writer.write(data)

    async def taken(self) -> None:
        """Wait until the other end has taken most of what was written, or has closed the connection."""
        assert self._writer is not None
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
        await asyncio.sleep(0)  # a drain that need not wait gives nobody a turn

    async def greet(self) -> None:
        """The preface, and settings both ways: without a table of header fields, so that answers can be read."""
        self.write(PREFACE + frame(SETTINGS, payload=b"\x00\x01\x00\x00\x00\x00"))
        await self.until(lambda got: got.kind == SETTINGS)
        self.write(frame(SETTINGS, ACK))

    def open(self, path: str, *metadata: tuple[str, str], data: bytes | None = None, end: bool = True) -> int:
        """Begin a call; returns its stream."""
        self._last_stream += 2
        stream = self._last_stream
        self.write(frame(HEADERS, END_HEADERS, stream, header_block(request(path, *metadata))))
        if data is not None:
            self.write(frame(DATA, END_STREAM if end else 0, stream, grpc_message(data)))
        return stream

    async def read(self) -> Frame | None:
        """The next frame; None at the end of the connection."""
        assert self._reader is not None
        try:
            head = await self._reader.readexactly(9)
            payload = await self._reader.readexactly(int.from_bytes(head[:3]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        got = Frame(head[3], head[4], int.from_bytes(head[5:]) & 0x7FFF_FFFF, payload)
        if got.kind == PING and not got.flags & ACK and self._answers_pings:
            self.write(frame(PING, ACK, 0, payload))
        elif got.kind == WINDOW_UPDATE:
            self._room_of[got.stream] += int.from_bytes(payload)
        elif got.kind == SETTINGS:
            for at in range(0, len(payload), 6):
                if int.from_bytes(payload[at : at + 2]) == INITIAL_WINDOW_SIZE:
                    self._first_room = int.from_bytes(payload[at + 2 : at + 6])
        return got

    async def send(self, stream: int, data: bytes) -> bool:
        """Write DATA as far as the other end takes it. Returns False when the call or the connection has ended."""
        while data:
            room = min(self._room + self._room_of[0], self._first_room + self._room_of[stream], FRAME_BYTES, len(data))
            if room > 0:
                self.write(frame(DATA, 0, stream, data[:room]))
                data = data[room:]
                self._room_of[0] -= room
                self._room_of[stream] -= room
                continue
            got = await self.read()
            if got is None or (got.stream == stream and (got.kind == RST_STREAM or _ends(got))):
                return False
        return True

    async def until(self, wanted: Callable[[Frame], object], timeout: float = PATIENCE_S) -> Frame | None:
        """Read until a wanted frame; None at the end of the connection."""
        async with asyncio.timeout(timeout):
            while (got := await self.read()) is not None and not wanted(got):
                pass
        return got

    async def answer(self, stream: int) -> Frame | None:
        """The last frame of a call, with its status."""
        return await self.until(lambda got: got.stream == stream and _ends(got))

    async def closed(self, timeout: float = PATIENCE_S) -> bool:
        """Wait for the end of the connection."""
        return await self.until(lambda got: False, timeout) is None
