"""The server of the status page and of the metrics: which requests it answers, how many, and at which cost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from taskd_net import ConfigError
from taskd_net.base.address import Address
from taskd_net.faces import side_port
from taskd_net.faces.side_port import Event, Receive, Send, SidePort, _Gate, answer
from tests.page.test_serving import ended

pytestmark = pytest.mark.oldest

ANY = Address("127.0.0.1", 0)


async def said(scope: Event, _: Receive, send: Send) -> None:
    """An application."""
    await answer(send, 200, "text/plain", scope["path"].encode())


@asynccontextmanager
async def served(*allowed: str) -> AsyncIterator[SidePort]:
    """It at a port."""
    port = SidePort(said, ANY, "http_port", allowed).serve()
    try:
        yield port
    finally:
        await port.close()


async def ask(port: SidePort, *lines: str) -> bytes:
    """The first line of the answer to a request."""
    stream = await asyncio.open_connection(port.address.host, port.address.port)
    stream[1].write("\r\n".join(("GET /x HTTP/1.1", *lines, "", "")).encode())
    return (await ended(stream)).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.7:8080", "[::1]:8080", "[::1]", "localhost:1", "LocalHost", "mgr.job.svc:9"]
)
async def test_addresses_localhost_and_allowed_names_pass(host: str) -> None:
    async with served("mgr.JOB.svc", "") as port:
        assert await ask(port, f"Host: {host}") == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "localhost.evil", "[::1]x", "x@127.0.0.1"]
)
async def test_other_names_are_refused(host: str) -> None:
    """A page of another site reads the answers, when its name leads here (DNS rebinding)."""
    async with served("mgr.job.svc", "") as port:
        assert (await ask(port, f"Host: {host}")).startswith(b"HTTP/1.1 421 ")


async def test_request_with_two_hosts_or_none_is_refused() -> None:
    """HTTP/1.0 knows none, and no browser speaks it."""
    async with served() as port:
        stream = await asyncio.open_connection(port.address.host, port.address.port)
        stream[1].write(b"GET /x HTTP/1.0\r\n\r\n")
        assert (await ended(stream)).startswith(b"HTTP/1.1 200 ")
        assert (await ask(port, "Host: 127.0.0.1", "Host: evil.example")).startswith(b"HTTP/1.1 400 ")
        assert (await ask(port)).startswith(b"HTTP/1.1 400 ")


async def test_600_silent_connections_keep_nobody_out_and_cost_no_threads() -> None:
    async with served() as port:
        threads = threading.active_count()
        silent = [await asyncio.open_connection(port.address.host, port.address.port) for _ in range(600)]
        assert await ask(port, "Host: 127.0.0.1") == b"HTTP/1.1 200 OK"
        assert threading.active_count() == threads
        assert len(port._server.server_state.connections) <= side_port.BOUNDS.connections
        for stream in silent[: -side_port.BOUNDS.connections]:
            assert await ended(stream) == b""
        for _, writer in silent[-side_port.BOUNDS.connections :]:
            writer.close()


async def test_answers_wait_for_their_turn_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """No upper bound on time is asserted: the turns are counted from what was slept."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def long(scope: Event, _: Receive, send: Send) -> None:
        await answer(send, 200, "text/plain", b"x" * (2_000_000 if scope["path"] == "/long" else 1))

    async def nothing(*_: object) -> Any:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)
    gate = _Gate(long, ())
    headers = [(b"host", b"127.0.0.1")]
    for _ in range(4):
        await gate({"path": "/", "headers": headers}, nothing, nothing)
    late = slept[-1]
    assert 2.0 / side_port.BOUNDS.answers_per_s < late <= 3.1 / side_port.BOUNDS.answers_per_s
    await gate({"path": "/long", "headers": headers}, nothing, nothing)
    await gate({"path": "/", "headers": headers}, nothing, nothing)
    assert slept[-1] > late + 2_000_000 / side_port.BYTES_PER_S * 0.5


@pytest.mark.parametrize("host", ["192.0.2.1", "x" * 70 + ".example"])
async def test_address_that_cannot_be_bound(host: str) -> None:
    with pytest.raises(ConfigError, match=r"^http_port is .*; cannot listen there: "):
        SidePort(said, Address(host, 1), "http_port")
