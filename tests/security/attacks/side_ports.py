"""The ports of the status page and of the metrics: connections that say nothing, and questions without an end."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from tests.peers.mesh import soon
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import Stand, connect

SILENT: Final = 200
"""Connections to each port."""


async def _ask(address: str, path: str, host: str = "127.0.0.1") -> bytes:
    """The first line of an answer; empty where the connection is closed without one."""
    reader, writer = await asyncio.open_connection(sock=connect(address))
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return (await soon(reader.read(), 60.0)).partition(b"\r\n")[0]
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def _silent(stand: Stand) -> AsyncGenerator[None, None]:
    standing: deque[socket.socket] = deque()
    try:
        yield
        while True:
            for address in (stand.page, stand.metrics):
                for _ in range(20):
                    standing.append(connect(address))
                    standing[-1].send(b"GET / HT")
                assert await _ask(address, "/metrics") in (b"HTTP/1.1 200 OK", b"HTTP/1.1 404 Not Found")
            while len(standing) > 2 * SILENT:
                standing.popleft().close()
            yield
    finally:
        for connection in standing:
            connection.close()


async def _questions(stand: Stand) -> AsyncGenerator[None, None]:
    asked = [(stand.page, "/"), (stand.page, "/tree"), (stand.metrics, "/metrics")] * 4
    yield
    while True:
        refused, *answers = await asyncio.gather(
            _ask(stand.page, "/tree", "evil.example"), *(_ask(address, path) for address, path in asked)
        )
        assert refused.startswith(b"HTTP/1.1 421 ")
        assert set(answers) <= {b"HTTP/1.1 200 OK", b""}, answers
        yield


ATTACKS: Final[Mapping[str, Attack]] = {
    "side-ports-silent": Attack(
        f"{2 * SILENT} connections to page and metrics with half a request",
        "the longest silent makes room; others are answered",
        _silent,
        command="mgr",
    ),
    "side-ports-questions": Attack(
        "12 questions at a time for page, tree and metrics, one by a foreign name",
        "50 answers a second; 421 for the name",
        _questions,
        command="mgr",
    ),
}
