"""A cheap Worker of the original, as its parent sees it: HTTP/2 with prepared frames.

A gRPC client in Python costs as much for each unary call as the server under test. This one writes the frames of
grpc-go, with headers that the server has in its table after the first call. It checks only that each answer is an Ack
with code 0.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from benchmarks.systems.member import SEND_S, Member, NotAcknowledged, Spec
from taskd_net import Message, Position
from taskd_net.net.wire import codec, requests

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK: Final = 1
"""The ACK flag of SETTINGS and PING."""
_END_STREAM: Final = 1
_END_HEADERS: Final = 4
_INITIAL_WINDOW: Final = 4
"""The number of this setting."""
_WINDOW: Final = 2**31 - 1
"""The receive window, unlimited."""
_FIRST_DYNAMIC: Final = 62
"""HPACK's index of the newest entry."""

USER_AGENT: Final = "grpc-go/1.60.1"
_UUID_DIGITS: Final = 12

_Headers = Sequence[tuple[str, str]]


class Calls(Member):
    """The Worker: it registers, opens its stream, announces itself, and sends by `TransferMessage`."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._position = Position.parse(spec["positions"][0])
        self._upstream = spec["upstream"]
        self._connection: _Connection | None = None
        self._sent = 0

    async def start(self) -> str:
        """Connect."""
        host, _, port = self._upstream.rpartition(":")
        loop = asyncio.get_running_loop()
        _, self._connection = await loop.create_connection(lambda: _Connection(self._upstream), host, int(port))
        return ""

    async def ready(self) -> None:
        """Join, in the order of the original's leaves."""
        connection, me = self._connected(), self._position
        await connection.call("Register", requests.write_register("r", me))
        await connection.call("PathDiscovery", requests.write_announcement("p", me, [me]))
        role, server, process = me
        metadata = (("role", role), ("serverrank", server), ("processrank", process))
        connection.open_stream("InitServerDownStream", metadata)

    async def load(self, to: str, body: str | bytes, seconds: float, in_flight: int) -> tuple[list[int], float]:
        """Keep calls under way."""
        assert isinstance(body, str)
        uuid = "0" * _UUID_DIGITS
        now = time.time_ns() // 1_000_000
        message = Message(uuid, "default", True, self._position, Position.parse(to), now, body)
        before, _, behind = codec.write_message(message).data.partition(uuid.encode())
        # New uuids in each load, so that none is a duplicate.
        count, self._sent = self._sent, self._sent + 0x1000_0000
        return await self._connected().load(before, behind, count, seconds, in_flight)

    def body(self, size: int) -> str:
        """Text."""
        return "x" * size

    async def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.hang_up()

    def _connected(self) -> _Connection:
        assert self._connection is not None
        return self._connection


class _Connection(asyncio.Protocol):
    def __init__(self, authority: str) -> None:
        self._common = ((":method", "POST"), (":scheme", "http"), (":authority", authority))
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._next_stream = 1
        self._window = 65_535
        self._calls: dict[int, asyncio.Future[int]] = {}
        self._codes: dict[int, int] = {}
        self._load: _Load | None = None
        # The headers of `TransferMessage` from the second call on.
        self._known = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        settings = struct.pack(">HI", _INITIAL_WINDOW, _WINDOW)
        more = struct.pack(">I", _WINDOW - 65_535)
        transport.write(_PREFACE + _frame(_SETTINGS, 0, 0, settings) + _frame(_WINDOW_UPDATE, 0, 0, more))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("the connection is lost")

    def hang_up(self) -> None:
        assert self._transport is not None
        self._transport.close()

    async def call(self, name: str, data: bytes) -> None:
        """One unary call.

        Raises:
            NotAcknowledged: the answer is not an Ack with code 0.
        """
        stream = self._open(_unindexed(self._headers(name)), _framed(data), last=True)
        answer = self._calls[stream] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(SEND_S):
            code = await answer
        if code:
            raise NotAcknowledged(f"{name} was answered {code}")

    def open_stream(self, name: str, metadata: _Headers) -> None:
        self._open(_unindexed([*self._headers(name), *metadata]), b"", last=False)

    async def load(
        self, before: bytes, behind: bytes, count: int, seconds: float, in_flight: int
    ) -> tuple[list[int], float]:
        headers = [*self._headers("TransferMessage"), ("grpc-timeout", "10S")]
        if not self._known:
            # The first call adds them to the server's table.
            stream = self._open(_indexed(headers), _framed(before + b"f" * _UUID_DIGITS + behind), last=True)
            first = self._calls[stream] = asyncio.get_running_loop().create_future()
            if code := await first:
                raise NotAcknowledged(f"answered {code}")
            self._known = _references(len(headers))
        size = len(before) + _UUID_DIGITS + len(behind)
        grpc_size = struct.pack(">BI", 0, size)
        frame_size = (size + 5).to_bytes(3)
        self._load = load = _Load(
            _frame_head(_HEADERS, _END_HEADERS, len(self._known)),
            self._known,
            frame_size + bytes((_DATA, _END_STREAM)),
            grpc_size + before,
            behind,
            size + 5,
            count,
            time.perf_counter_ns() + int(seconds * 1e9),
            asyncio.get_running_loop().create_future(),
        )
        began = time.perf_counter_ns()
        self._send(in_flight)
        try:
            async with asyncio.timeout(seconds + SEND_S):
                await load.done
        finally:
            self._load = None
        return load.took, (time.perf_counter_ns() - began) / 1e9

    def _headers(self, name: str) -> list[tuple[str, str]]:
        fixed = (("content-type", "application/grpc"), ("user-agent", USER_AGENT), ("te", "trailers"))
        return [*self._common, (":path", f"/TaskNet/{name}"), *fixed]

    def _open(self, headers: bytes, data: bytes, *, last: bool) -> int:
        assert self._transport is not None
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        written = _frame(_HEADERS, _END_HEADERS, stream, headers)
        if data:
            written += _frame(_DATA, _END_STREAM if last else 0, stream, data)
            self._window -= len(data)
        self._transport.write(written)
        return stream

    def _send(self, calls: int) -> None:
        """Begin calls of the load, as far as the server's window allows."""
        load = self._load
        assert load is not None and self._transport is not None
        load.ready += calls
        now = time.perf_counter_ns()
        if now >= load.until:
            load.ready = 0
        written: list[bytes] = []
        stream, window, size = self._next_stream, self._window, load.size
        while load.ready and window >= size:
            load.ready -= 1
            window -= size
            number = stream.to_bytes(4)
            load.count += 1
            uuid = b"%012x" % load.count
            written += (load.head, number, load.headers, load.data_head, number, load.before, uuid, load.behind)
            load.began[stream] = now
            stream += 2
        self._next_stream, self._window = stream, window
        self._transport.write(b"".join(written))
        if not load.began and not load.ready and not load.done.done():
            load.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        at = ended = 0
        load = self._load
        while len(received) - at >= 9:
            size = int.from_bytes(received[at : at + 3])
            if len(received) - at < 9 + size:
                break
            kind, flags = received[at + 3], received[at + 4]
            stream = int.from_bytes(received[at + 5 : at + 9])
            payload = at + 9
            at = payload + size
            if kind == _DATA:
                if size:
                    self._codes[stream] = _code(bytes(received[payload + 5 : at]))
            elif kind == _HEADERS:
                if flags & _END_STREAM:
                    code = self._codes.pop(stream, -1)
                    if load is not None and (began := load.began.pop(stream, 0)):
                        ended += 1
                        if code:
                            self._fail(f"answered {code}")
                            return
                        load.took.append(time.perf_counter_ns() - began)
                    elif stream in self._calls:
                        self._calls.pop(stream).set_result(code)
            else:
                self._control(kind, flags, stream, bytes(received[payload:at]))
        del received[:at]
        if load is not None and (ended or load.ready):
            self._send(ended)

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        assert self._transport is not None
        if kind == _SETTINGS and not flags & _ACK:
            self._transport.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload)
        elif kind in (_RST_STREAM, _GOAWAY):
            self._fail(f"the server sent frame {kind} on stream {stream}")

    def _fail(self, text: str) -> None:
        error = NotAcknowledged(text)
        waiting = [*self._calls.values(), *([self._load.done] if self._load is not None else ())]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
        self._calls.clear()


@dataclass(slots=True)
class _Load:
    """One load: the fixed parts of each call's frames, around the stream's number and the uuid.

    Attributes:
        size: bytes of a call's data, which the server's window counts.
        count: the number in the last call's uuid.
        until: the time of the last start.
        ready: calls that may begin.
        began: start times of the calls under way.
        took: durations of the finished calls.
    """

    head: bytes
    headers: bytes
    data_head: bytes
    before: bytes
    behind: bytes
    size: int
    count: int
    until: int
    done: asyncio.Future[None]
    ready: int = 0
    began: dict[int, int] = field(default_factory=dict)
    took: list[int] = field(default_factory=list)


def _code(ack: bytes) -> int:
    return codec.read_ack(ack, Position.mgr()).code if b"\x10" in ack else 0


def _framed(data: bytes) -> bytes:
    """A message in gRPC's framing."""
    return struct.pack(">BI", 0, len(data)) + data


def _frame_head(kind: int, flags: int, size: int) -> bytes:
    return size.to_bytes(3) + bytes((kind, flags))


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return _frame_head(kind, flags, len(payload)) + stream.to_bytes(4) + payload


def _text(text: str) -> bytes:
    assert len(text) < 0x7F
    return bytes((len(text),)) + text.encode()


def _unindexed(headers: _Headers) -> bytes:
    """Headers in HPACK without a table entry."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers)


def _indexed(headers: _Headers) -> bytes:
    """Headers in HPACK with a new table entry each."""
    return b"".join(b"\x40" + _text(name) + _text(value) for name, value in headers)


def _references(count: int) -> bytes:
    """The indexes of these headers afterwards; the last header is the first in the table."""
    return bytes(0x80 | (_FIRST_DYNAMIC + count - 1 - number) for number in range(count))
