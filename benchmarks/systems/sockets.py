"""A bare relay on asyncio sockets: no routes, codes, windows or deadlines. The bound of what Python can reach here."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Final, cast

from benchmarks.systems.member import Member, Spec

_HEAD: Final = struct.Struct("<IQ")
_ANSWER: Final = 1 << 63
"""The bit of a message's number that marks its answer."""


class _Line(asyncio.Protocol):
    """One connection. What is written in a turn of the loop leaves in one write."""

    def __init__(self, take: Callable[[_Line, int, bytes], None]) -> None:
        self._take = take
        self._rest = b""
        self._written: list[bytes] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= _HEAD.size:
            size, number = _HEAD.unpack_from(data, at)
            behind = at + _HEAD.size + size
            if behind > end:
                break
            self._take(self, number, data[at + _HEAD.size : behind])
            at = behind
        self._rest = data[at:]

    def write(self, number: int, body: bytes) -> None:
        """Queue a frame."""
        if not self._written:
            asyncio.get_running_loop().call_soon(self._flush)
        self._written += (_HEAD.pack(len(body), number), body)

    def _flush(self) -> None:
        written, self._written = self._written, []
        self._transport.writelines(written)

    def close(self) -> None:
        """Let go of the connection."""
        self._transport.abort()


class Sockets(Member):
    """A Worker, the relay in the Proxy's place, or the Mgr."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._relays = spec["positions"][0].startswith("Proxy")
        self._listens = not spec["positions"][0].startswith("Worker")
        self._upstream = spec["upstream"]
        self._server: asyncio.Server | None = None
        self._up: _Line | None = None
        self._down: _Line | None = None
        self._number = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def start(self) -> str:
        """Connect, and listen."""
        loop = asyncio.get_running_loop()
        if self._upstream:
            host, _, port = self._upstream.rpartition(":")
            _, self._up = await loop.create_connection(lambda: _Line(self._take), host, int(port))
        if not self._listens:
            return ""
        self._server = await loop.create_server(self._accepted, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def send(self, to: str, body: str | bytes) -> None:
        """Send, and wait for the answer."""
        assert isinstance(body, bytes)
        line = self._up or self._down
        assert line is not None
        self._number = number = self._number + 1
        self._waiting[number] = answer = asyncio.get_running_loop().create_future()
        line.write(number, body)
        await answer

    async def close(self) -> None:
        """Close the connections."""
        if self._server is not None:
            self._server.close()
        for line in (self._up, self._down):
            if line is not None:
                line.close()

    def _accepted(self) -> _Line:
        self._down = _Line(self._take)
        return self._down

    def _take(self, line: _Line, number: int, body: bytes) -> None:
        if self._relays:
            other = self._down if line is self._up else self._up
            assert other is not None
            other.write(number, body)
        elif number & _ANSWER:
            self._waiting.pop(number ^ _ANSWER).set_result(None)
        else:
            self.received += 1
            line.write(number | _ANSWER, b"")
