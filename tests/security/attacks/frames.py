"""Frames of HTTP/2 that gRPC reads alone: floods, calls that are reset or never read, silent connections."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from tests.peers.stubs import pb, position
from tests.security import http2
from tests.security.attacks.attack import ALL_BYTES, Attack
from tests.security.bystander.stand import Stand, connect
from tests.security.http2 import Frame, Http2, frame

SILENT: Final = 400
CONNECTIONS: Final = 4
CALLS: Final = 400
"""Calls of each connection whose answers nobody reads."""

MESSAGE: Final[bytes] = pb.Message(
    header=pb.MessageHeader(uuid="u", sync=True, src=position("Worker/80/0"), dst=position("Mgr/0")), body="x"
).SerializeToString()

EVENT_ENGINE: Final = {"GRPC_EXPERIMENTS": "event_engine_client,event_engine_listener"}


@asynccontextmanager
async def _connected(stand: Stand) -> AsyncGenerator[tuple[Http2, asyncio.Task[bool]], None]:
    """A connection that is read, and the task that ends with it."""
    async with Http2(stand.address) as connection:
        await connection.greet()
        reading = asyncio.create_task(connection.closed(3600.0))
        try:
            yield connection, reading
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _flood(write: Callable[[Http2], None], stand: Stand) -> AsyncGenerator[None, None]:
    """Write over one connection as fast as it is read, and over another where it is closed."""
    yield
    while True:
        async with _connected(stand) as (connection, reading):
            while not reading.done():
                write(connection)
                await connection.taken()
                yield


def _same(data: bytes) -> Callable[[Http2], None]:
    return lambda connection: connection.write(data)


def _resets(connection: Http2) -> None:
    for _ in range(100):
        stream = connection.open("/TaskNet/TransferMessage", data=MESSAGE)
        connection.write(frame(http2.RST_STREAM, 0, stream, b"\x00\x00\x00\x08"))


def _headers_without_end(connection: Http2) -> None:
    block = http2.header_block(http2.request("/TaskNet/Register"))
    more = frame(http2.CONTINUATION, 0, 1, http2.header_block([("k", "v" * 1000)]))
    connection.write(frame(http2.HEADERS, 0, 1, block) + more * 60)


async def _unread(stand: Stand) -> AsyncGenerator[None, None]:
    """Connections whose calls are answered, and that open no window for the answers; a new one each time."""
    no_window = frame(http2.SETTINGS, payload=b"\x00\x01\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00")
    standing: deque[Http2] = deque()
    try:
        yield
        while True:
            if len(standing) == CONNECTIONS:
                await standing.popleft().__aexit__()
            connection = await Http2(stand.address).__aenter__()
            standing.append(connection)
            connection.write(http2.PREFACE + no_window)
            begun = {connection.open("/TaskNet/TransferMessage", data=MESSAGE) for _ in range(CALLS)}

            def answered(got: Frame, begun: set[int] = begun) -> bool:
                if got.kind == http2.HEADERS:
                    begun.discard(got.stream)
                return not begun

            assert await connection.until(answered, 60.0) is not None
            yield
    finally:
        for connection in standing:
            await connection.__aexit__()


async def _silent(pause: float, stand: Stand) -> AsyncGenerator[None, None]:
    """Hundreds of connections that send nothing; one is replaced each time, with a pause in seconds."""
    standing = deque(connect(stand.address) for _ in range(SILENT))
    try:
        yield
        while True:
            standing.popleft().close()
            standing.append(connect(stand.address))
            await asyncio.sleep(pause)
            yield
    finally:
        for connection in standing:
            connection.close()


PINGS: Final = frame(http2.PING, payload=b"12345678") * 1000
SETTINGS: Final = frame(http2.SETTINGS, payload=b"\x00\x03\x00\x00\x00\x64") * 1000
PRIORITIES: Final = frame(http2.PRIORITY, 0, 1, b"\x00\x00\x00\x00\x10") * 50_000

ATTACKS: Final[Mapping[str, Attack]] = {
    "http2-settings": Attack(
        "SETTINGS over one connection, without a pause", "acknowledged", partial(_flood, _same(SETTINGS)),
        promised=False,
    ),
    "http2-pings": Attack(
        "PINGs without a pause", "the connection is closed", partial(_flood, _same(PINGS)),
        promised=False,
    ),
    "http2-resets": Attack(
        "calls with a message, begun and reset", "they end", partial(_flood, _resets), share=ALL_BYTES,
        promised=False,
    ),
    "http2-headers-without-end": Attack(
        "HEADERS and CONTINUATION frames without an end", "the connection is closed",
        partial(_flood, _headers_without_end),
    ),
    "http2-unread": Attack(
        f"{CONNECTIONS} connections with {CALLS} calls each, whose answers are not read",
        "they hold their streams", _unread,
        promised=False,
    ),
    "http2-silent": Attack(
        f"{SILENT} connections that send nothing", "closed after a time", partial(_silent, 0.01)
    ),
    "http2-connections": Attack(
        "connections opened and closed at full speed", "none: gRPC accepts them", partial(_silent, 0.0),
        promised=False,
    ),
    "http2-endless": Attack(
        "PRIORITY frames without an end, at full speed", "none: gRPC reads on", partial(_flood, _same(PRIORITIES)),
        promised=False,
    ),
    "http2-endless-event-engine": Attack(
        "the same, to a node with gRPC's event engine", "other threads serve the others",
        partial(_flood, _same(PRIORITIES)), environment=EVENT_ENGINE,
        promised=False,
    ),
}  # fmt: skip
